"""PredictionSets: one set of labels per row, stored one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from numbers import Integral
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from nacp import engine
from nacp._types import Array, Bools, Floats, Ints
from nacp.engine import Spec
from nacp.errors import InputError
from nacp.points import Rows, check_labels
from nacp.points.lazy import LazyRows

# Shown in a notebook.
_SHOWN_ROWS, _SHOWN_LABELS = 5, 10


class PredictionSets:
    """One set of labels per row.

    Parameters
    ----------
    offsets : array of shape (n + 1,)
        Row i holds ``labels[offsets[i]:offsets[i + 1]]``.
    labels : array of shape (total size,)
        The labels of all sets, row after row, ascending within a row.
    k : int
        The number of classes.
    classes : tuple of length k, optional
        The class names.
    alpha : float, optional
        The target coverage of the sets is 1 - alpha.

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> sets = nacp.PredictionSets([0, 2, 2, 3], [0, 2, 1], k=3, classes=("cat", "dog", "owl"))
    >>> sets.sizes.tolist(), sets.to_lists()
    ([2, 0, 1], [['cat', 'owl'], [], ['dog']])
    >>> sets.contains(["owl", "cat", "dog"]).tolist()
    [True, False, True]
    >>> np.asarray(sets).astype(int).tolist()
    [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    """

    def __init__(
        self,
        offsets: ArrayLike,
        labels: ArrayLike,
        *,
        k: int,
        classes: tuple[Any, ...] | None = None,
        alpha: float | None = None,
    ) -> None:
        self.offsets: Ints = np.asarray(offsets, dtype=np.int64)
        self.labels = np.asarray(labels, dtype=np.int32)
        self.k, self.classes, self.alpha = k, classes, alpha

    @property
    def sizes(self) -> Ints:
        """The number of labels in each set, shape (n,)."""
        return np.diff(self.offsets)

    def contains(self, labels: ArrayLike) -> Bools:
        """Return whether each set contains the given label of its row.

        Parameters
        ----------
        labels : array of shape (n,)
            Numbers from 0 to k - 1, or class names if the sets have them.

        Returns
        -------
        array of bool of shape (n,)
        """
        return contained(self, check_labels(labels, len(self), self.k, self.classes))

    def to_lists(self) -> list[list[Any]]:
        """Return the sets as lists of class names, or of numbers if there are no names."""
        return list(self)

    def to_frame(self, index: Any = None) -> Any:
        """Return the sets as a pandas.DataFrame: a row for each, with its size and the list of its labels.

        Parameters
        ----------
        index : sequence of length n, optional
            The index of the table; by default 0, 1, ...

        Examples
        --------
        >>> import nacp
        >>> print(nacp.PredictionSets([0, 2, 2], [0, 2], k=3, classes=("cat", "dog", "owl")).to_frame())
           size      labels
        0     2  [cat, owl]
        1     0          []
        """
        try:
            from pandas import DataFrame
        except ImportError:
            raise ImportError("to_frame needs pandas; to_lists needs nothing") from None
        if index is not None and len(index) != len(self):
            raise InputError("index", f"must have {len(self):,} entries, one for each set", found=len(index))
        return DataFrame({"size": self.sizes, "labels": self.to_lists()}, index=index)

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        """Return the table of `to_frame` by Arrow's PyCapsule interface; needs pyarrow.

        So ``polars.DataFrame(sets)``, ``pyarrow.table(sets)`` and ``duckdb.sql("from sets")`` take sets.
        """
        try:
            import pyarrow
        except ImportError:
            raise ImportError('sets as an Arrow table need pyarrow; pip install "nacp[io]"') from None
        labels = pyarrow.array(self.labels)
        if self.classes is not None:
            strings = all(isinstance(name, str) for name in self.classes)
            labels = pyarrow.array(self.classes if strings else [*map(str, self.classes)]).take(labels)
        # Lists with offsets of 32 bits are what most programs read.
        lists = pyarrow.ListArray if len(self.labels) < 1 << 31 else pyarrow.LargeListArray
        columns = {"size": self.sizes, "labels": lists.from_arrays(self.offsets, labels)}
        return pyarrow.RecordBatch.from_pydict(columns).__arrow_c_array__(requested_schema)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise InputError("copy", "must not be False: the boolean matrix is made on request")
        matrix = np.zeros((len(self), self.k), dtype=bool)
        matrix[np.repeat(np.arange(len(self)), self.sizes), self.labels] = True
        return matrix if dtype is None else matrix.astype(dtype)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[list[Any]]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, row: int) -> list[Any]: ...
    @overload
    def __getitem__(self, row: slice | Array) -> PredictionSets: ...
    def __getitem__(self, row: int | slice | Array) -> list[Any] | PredictionSets:
        if not isinstance(row, Integral):
            chosen = np.arange(len(self))[row]
            sizes = self.sizes[chosen]
            offsets = np.concatenate([[0], np.cumsum(sizes)])
            places = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
            return PredictionSets(
                offsets, self.labels[places], k=self.k, classes=self.classes, alpha=self.alpha
            )
        i = range(len(self))[int(row)]
        numbers: list[Any] = self.labels[self.offsets[i] : self.offsets[i + 1]].tolist()
        return numbers if self.classes is None else [self.classes[number] for number in numbers]

    def __repr__(self) -> str:
        return f"PredictionSets(n={len(self)}, k={self.k}, mean size {self._mean_size:.4g})"

    @property
    def _mean_size(self) -> float:
        return len(self.labels) / max(len(self), 1)

    def _repr_html_(self) -> str:
        from nacp.show.html import card, sentence, table

        first = [(i, len(self[i]), _listed(self[i])) for i in range(min(len(self), _SHOWN_ROWS))]
        text = f"{len(self):,} sets of labels from {self.k:,} classes, {self._mean_size:.4g} on average."
        text += f" The first {len(first):,}:" if len(first) < len(self) else ""
        return card("PredictionSets", sentence(text), table(("row", "size", "labels"), first, left=(2,)))


def _listed(labels: list[Any]) -> str:
    more = f" and {len(labels) - _SHOWN_LABELS:,} more" if len(labels) > _SHOWN_LABELS else ""
    names = [str(label) for label in labels[:_SHOWN_LABELS]]
    mark = "; " if any("," in name for name in names) else ", "
    return (mark.join(names) or "none") + more


def contained(sets: PredictionSets, numbers: Ints) -> Bools:
    """Return whether each set contains the number of its row; -1 is in no set."""
    hits = np.flatnonzero(sets.labels == np.repeat(numbers.astype(np.int32), sets.sizes))
    found = np.zeros(len(sets), dtype=bool)
    found[np.searchsorted(sets.offsets, hits, side="right") - 1] = True
    return found


def predicted(
    rows: Rows | LazyRows, spec: Spec, thresholds: Floats, *, allow_empty: bool, **known: Any
) -> PredictionSets:
    """Return the sets of checked rows; `known` are further arguments of `PredictionSets`.

    The native thresholds have the shape (1, 1), (1, k) for one per class, or (n, 1) for one per row.
    """
    find = partial(_sizes_and_labels, spec, allow_empty)
    if isinstance(rows, Rows):
        chunks = [find(rows, thresholds)]
    elif len(thresholds) == 1:
        chunks = rows.map(partial(find, thresholds=thresholds))
    else:
        chunks = rows.map(find, thresholds)
    blocks = [block for chunk in chunks for block in chunk]
    sizes = [np.zeros(1, dtype=np.int64), *(sizes for sizes, _ in blocks)]
    labels = [np.empty(0, dtype=np.int32), *(labels for _, labels in blocks)]
    return PredictionSets(np.cumsum(np.concatenate(sizes)), np.concatenate(labels), **known)


def _sizes_and_labels(
    spec: Spec, allow_empty: bool, rows: Rows, thresholds: Floats
) -> list[tuple[Ints, Array]]:
    """Return the sets of each block of rows: their sizes, and their labels row after row."""

    def found(values: Array, where: slice | Ints) -> tuple[Ints, Array]:
        own = thresholds if len(thresholds) == 1 else thresholds[where]
        return engine.of(values).sets(values, spec, own, allow_empty)

    return list(rows.map(found))
