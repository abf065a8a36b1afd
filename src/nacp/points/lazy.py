"""Rows of a dask array: they stay where they are, and what is known of them comes by a tree.

Nothing here imports dask before somebody has passed an array of it.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol

import numpy as np

from nacp._types import Array, Ints
from nacp.errors import InputError
from nacp.points.arrays import Rows, SomeRows, Widths, every, tell, watching
from nacp.points.door import check_classes, check_labels, open_rows
from nacp.tuning import tuned, tuning

_BRANCHES = 16  # of the tree


class DaskArray(Protocol):
    """An array of dask, for types."""

    dask: Any
    chunks: Any


def is_lazy(values: Any) -> bool:
    """Return whether something is a dask array."""
    return type(values).__module__.split(".")[:2] == ["dask", "array"]


class Part(NamedTuple):
    """Some rows, as whoever works on them gets them.

    Attributes
    ----------
    matrix : array
        The rows.
    start : int
        The number of the first of them, among all.
    labels : array or None
        Their labels, if there are some.
    more : object
        What else there is for these rows alone.
    """

    matrix: Array
    start: int
    labels: Array | None
    more: Any


class LazyRows(Rows):
    """The rows of a dask array, chunk by chunk; a few of them are held here once they have been seen.

    Parameters
    ----------
    array : dask array of shape (n, k)
        In chunks of whole rows.
    options : dict
        What `open_rows` is to check chunks by.
    labels : dask array of shape (n,), optional
        Their labels, as they came.
    """

    in_files = False

    def __init__(self, array: Any, options: dict[str, Any], labels: Any = None) -> None:
        self.seen_as = options["normalize"], None, options["from_logits"]  # what a matrix needs to be rows
        super().__init__(array, *self.seen_as)
        self.options, self.itemsize = options, array.dtype.itemsize
        sizes = np.array(array.chunks[0])
        self.starts: Ints = (np.cumsum(sizes) - sizes)[sizes > 0]
        self.sizes: Ints = sizes[sizes > 0]
        held = np.flatnonzero(sizes > 0)
        self._chunks = array.to_delayed()[held, 0]
        self._picked: list[Ints | None] = [None] * len(held)  # which rows of the chunks, if not all
        self.labels = None if labels is None else labels.rechunk((array.chunks[0],)).to_delayed()[held]
        self._few: tuple[Ints, Rows] = np.empty(0, dtype=np.int64), Rows(np.empty((0, self.k)))
        self._peeked: tuple[Ints, Ints, Array] | None = None

    def hold(self, few: tuple[Ints, Array], peeked: tuple[Ints, Ints, Array]) -> None:
        """Hold what was seen: some rows, and some columns of others, with which these are."""
        self._few = few[0], Rows(few[1], *self.seen_as)
        self._plain, self._peeked = few[1], peeked

    @property
    def widths(self) -> Widths:
        """How wide the numbers are, by their type and by a few rows all over."""
        return Rows(self._plain[self._place(np.arange(self.n)[every(self.n)])]).widths

    def _place(self, rows: Ints) -> Ints:
        place = np.searchsorted(self._few[0], rows)
        assert np.array_equal(self._few[0][place], rows), "rows stay where they are"
        return place

    def __getitem__(self, where: slice | Ints) -> Array:
        assert not isinstance(where, slice), "rows stay where they are"
        return self._few[1][self._place(where)]

    def slices(self) -> Iterator[slice]:
        """Return all rows at once: of these, columns are peeked at, and no more."""
        yield slice(0, self.n)

    def peek(self, rows: slice | Ints, columns: Ints) -> Array:
        """Return some columns of some rows, as they came; nobody is told."""
        held = self._held(rows, columns)
        found: Array = computed([Waiting(self._matrix[rows][:, columns], 0)])[0] if held is None else held
        return found

    def _held(self, rows: slice | Ints, columns: Ints) -> Array | None:
        """Return some columns of some rows, if they are held here."""
        if self._peeked is None or isinstance(rows, slice) or not np.array_equal(rows, self._peeked[0]):
            return None
        found: Array = self._peeked[2][:, np.searchsorted(self._peeked[1], columns)]
        return found

    def some(self, rows: Ints) -> Rows:
        """Return some of the rows: those that are held here, or ascending, which stay where they are."""
        if not len(rows):
            return Rows(np.empty((0, self.k), dtype=self._matrix.dtype), *self.seen_as)
        if np.isin(rows, self._few[0]).all():
            return SomeRows(self, rows)
        return SomeLazyRows(self, rows)

    def cut(self, values: Any) -> list[Any]:
        """Cut an array with something for each row as the rows are."""
        return [values[start : start + size] for start, size in zip(self.starts, self.sizes, strict=True)]

    def given(self, numbers: Ints) -> tuple[Sequence[Any], Any]:
        """Return labels chunk by chunk, and the classes if they came as such: those that lie there stay."""
        if self.labels is not None and numbers.ndim == 1:
            return self.labels, check_classes(self.options["classes"], self.k)
        return self.cut(numbers.astype(np.int32)), None

    def mapped(
        self, see: Callable[..., Any], shared: Any, labels: Sequence[Any], more: Sequence[Any]
    ) -> list[Any]:
        """Return what a function sees in each chunk, not computed yet; None in `more` leaves a chunk out.

        It is called with the chunk as a `Part` and with what is shared. A refusal is what it returns.
        """
        from dask.delayed import delayed

        once, tuned_by = delayed((see, shared), traverse=False), asdict(tuning())
        seen = delayed(_seen, pure=False, traverse=False)
        return [
            seen(once, tuned_by, chunk, picked, start, given, each)
            for chunk, picked, start, given, each in zip(
                self._chunks, self._picked, self.starts.tolist(), labels, more, strict=True
            )
            if each is not None
        ]

    def joined(
        self,
        see: Callable[..., Any],
        join: Callable[[list[Any]], Any],
        shared: Any,
        labels: Sequence[Any] | None = None,
        more: Sequence[Any] | None = None,
    ) -> Any:
        """Return what a function sees in all chunks, joined in the order of the rows, by a tree."""
        return computed([self.waiting(see, join, shared, labels, more)])[0]

    def waiting(
        self,
        see: Callable[..., Any],
        join: Callable[[list[Any]], Any],
        shared: Any,
        labels: Sequence[Any] | None = None,
        more: Sequence[Any] | None = None,
    ) -> "Waiting":
        """Return the same, not computed yet."""
        from dask.delayed import delayed

        none, number = [None] * len(self.sizes), len(self.sizes)
        seen = self.mapped(see, shared, none if labels is None else labels, more or [(None, None)] * number)
        meet = delayed(_met, pure=False, traverse=True)
        while True:
            seen = [meet(join, seen[i : i + _BRANCHES]) for i in range(0, len(seen), _BRANCHES)]
            if len(seen) == 1:
                return Waiting(seen[0], self.n)


class SomeLazyRows(LazyRows):
    """Some of the rows of others, ascending; where several ask about rows of a chunk, it is read once."""

    def __init__(self, rows: LazyRows, chosen: Ints) -> None:
        vars(self).update(vars(rows))
        self._rows, self._chosen, self.n, self.labels = rows, chosen, len(chosen), None
        chunks, sizes = np.unique(np.searchsorted(rows.starts, chosen, side="right") - 1, return_counts=True)
        self.starts, self.sizes = np.cumsum(sizes) - sizes, sizes
        self._chunks = rows._chunks[chunks]
        parts = zip(self.cut(chosen), chunks.tolist(), strict=True)
        self._picked = [places(part - rows.starts[i], rows._picked[i]) for part, i in parts]
        self._few, self._peeked = (np.empty(0, dtype=np.int64), Rows(np.empty((0, self.k)))), None

    def peek(self, rows: slice | Ints, columns: Ints) -> Array:
        """Return some columns of some rows, as they came; nobody is told."""
        held = self._held(rows, columns)
        return self._rows.peek(self._chosen[rows], columns) if held is None else held


def places(rows: Ints, among: Ints | None) -> Ints:
    """Return where in a chunk rows are, of which some were picked before."""
    return rows if among is None else among[rows]


class Waiting(NamedTuple):
    """What is to be computed, of so many rows."""

    value: Any
    n: int


def computed(waiting: Sequence[Waiting]) -> list[Any]:
    """Compute several things at once, so that each chunk is read once for all of them."""
    from dask.base import compute

    with warnings.catch_warnings():
        # A matrix of the noise goes along, and labels that came as an array.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        found = list(compute(*(each.value for each in waiting)))  # type: ignore[no-untyped-call]
    for answer, each in zip(found, waiting, strict=True):
        tell(each.n)
        if isinstance(answer, InputError):
            raise answer
    return found


def _seen(
    once: Any, tuned_by: dict[str, Any], matrix: Any, picked: Any, start: int, labels: Any, more: Any
) -> Any:
    see, shared = once
    rows = np.asarray(matrix)
    try:
        with tuned(**tuned_by), watching(None):
            return see(Part(rows if picked is None else rows[picked], start, labels, more), *shared)
    except InputError as error:
        return error


def _met(join: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    refusal = next((each for each in parts if isinstance(each, InputError)), None)
    return join(parts) if refusal is None else refusal


def open_lazy(probs: Any, labels: Any = None, *, least: int = 1, **options: Any) -> LazyRows:
    """Check the shape of a dask array as `open_rows` does; its chunks are checked when they are read."""
    name = options.setdefault("name", "probs")
    if probs.ndim != 2:
        raise InputError(name, "must have the shape (n, k)", found=f"{probs.shape}")
    if np.isnan(probs.shape).any():
        raise InputError(
            name, "has chunks of unknown size", remedy=f"call {name}.compute_chunk_sizes() before"
        )
    if probs.numblocks[1] > 1:
        raise InputError(
            name,
            f"must have whole rows in each chunk, and has {probs.numblocks[1]:,} chunks of columns",
            remedy=f"pass {name}.rechunk({{1: -1}})",
        )
    if probs.shape[0] < least:
        raise InputError(name, f"is empty: its shape is {probs.shape}")
    open_rows(np.empty((0, probs.shape[1]), dtype=probs.dtype), least=0, **options)
    lazy = is_lazy(labels) and labels.shape == probs.shape[:1]
    return LazyRows(probs, options, labels if lazy else None)


def numbered(part: Part, k: int, classes: Any) -> Ints:
    """Return the labels of some rows as numbers: they are known to be right."""
    assert part.labels is not None
    if part.labels.ndim == 2:
        return part.labels.astype(np.int64)
    return check_labels(part.labels, len(part.matrix), k, classes)


def open_given(probs: Any, labels: Any, *, later: bool = False, **options: Any) -> Rows:
    """Check rows that have labels, wherever they are; those of a dask array when they are read."""
    if is_lazy(probs):
        return open_lazy(probs, labels, **options)
    return open_rows(probs, later=later, **options)


def open_test(probs: Any, labels: Any, *, k: int, **known: Any) -> tuple[Rows, Ints | None]:
    """Check points on which sets are to be measured, and their labels if there are some."""
    rows = open_given(probs, labels, k=k, name="test_probs", **known)
    if labels is None:
        return rows, None
    names = check_classes(known.get("classes"), k)
    return rows, check_labels(labels, rows.n, k, names, name="test_labels")


def open_more(rows: Rows, unlabelled: Any, **options: Any) -> Rows:
    """Check further points without labels, which are to lie where the others do."""
    if is_lazy(unlabelled) != isinstance(rows, LazyRows):
        raise InputError(
            "unlabelled",
            "must be a dask array where probs is one, and only there",
            found=type(unlabelled).__name__,
        )
    opened = open_lazy if is_lazy(unlabelled) else open_rows
    return opened(unlabelled, k=rows.k, name="unlabelled", **options)


def in_memory(name: str, values: Any, where: str) -> None:
    """Refuse a dask array, where rows are needed in memory."""
    if is_lazy(values):
        raise InputError(
            name,
            f"cannot be a dask array {where}: rows are needed in memory",
            remedy=f"pass {name}.compute()",
        )
