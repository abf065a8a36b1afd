"""Rows of an array: NumPy's, memory-mapped, or anything that turns into one. Never copied whole."""

import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine import Block, Chosen, PerLabel, PerRow, Scratch, Spec, Unchecked, engine_name, open_block
from nacp.errors import InputError
from nacp.points.raw import fetch_mapped, refuse_cut
from nacp.tuning import tuning

_WIDTHS = [np.dtype(each) for each in (np.float16, np.float32, np.float64)]
_GLANCE = 32
# After so many bytes, the pages of a mapped file are let go of: they would count as memory in use. To touch
# one of them fetches some of its neighbours.
_MAPPED, _NEIGHBOURS = 1 << 24, 1 << 19
_LET_GO = getattr(mmap, "MADV_DONTNEED", None)
_WATCH: ContextVar[Callable[[int], object] | None] = ContextVar("watch", default=None)


@contextmanager
def watching(told: Callable[[int], object] | None) -> Iterator[None]:
    """Have a function told how many rows each block has that is read: for progress, and to count reads."""
    token = _WATCH.set(told)
    try:
        yield
    finally:
        _WATCH.reset(token)


def tell(rows: int) -> None:
    """Say that a block of so many rows is read."""
    told = _WATCH.get()
    if told is not None:
        told(rows)


def rows_at_once(k: int) -> int:
    """Return how many rows of k entries fit into the cache."""
    larger = tuning().native_blocks if engine_name() == "native" else 1
    return max(1, larger * tuning().block_entries // k)


def row_slices(n: int, k: int, step: int | None = None) -> Iterator[slice]:
    """Cut n rows of k entries into slices of so many; by default of as many as fit into the cache."""
    step = step or rows_at_once(k)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def every(n: int) -> slice:
    """Return a few of n rows, all over."""
    return slice(None, None, max(1, n // _GLANCE))


class Widths(NamedTuple):
    """How wide the numbers are that a threshold was found with: "float16", "float32" or "float64".

    Attributes
    ----------
    least : str
        The narrowest width that holds them all exactly. Narrower rows would be other rows.
    given : str
        That in which they came. Wider rows are rounded to it.
    """

    least: str
    given: str


class Rows:
    """An (n, k) matrix, handed out block by block: C-contiguous, in float32 or float64.

    Rows that come with a check are checked when they are first read from the first to the last; what reads
    some of them before learns of errors at once, and of the first one in the order of the rows.

    Parameters
    ----------
    matrix : array of shape (n, k)
        The rows. Of a mapped file what was read is let go of.
    normalize : bool, default=False
        Whether to divide each by its sum.
    width : str, optional
        To what wider numbers are rounded first.
    logits : bool, default=False
        Whether the matrix holds logits, of which the softmax is handed out, in float64.
    check : callable, optional
        Raises an error if rows, given with the number of the first of them, are not what they should be.
    tolerance : float, optional
        If probabilities whose sums miss 1 by no more pass that check without further questions.
    """

    on_device = False  # whether blocks are tensors
    _check: Callable[[Array, int], None] | None = None
    _tolerance: float | None = None

    def __init__(
        self,
        matrix: Array,
        normalize: bool = False,
        width: str | None = None,
        logits: bool = False,
        check: Callable[[Array, int], None] | None = None,
        tolerance: float | None = None,
    ) -> None:
        self._matrix, self._mapped = matrix, _mapped(matrix)
        self._tolerance = None if normalize or logits else tolerance
        self._check, self._checked, self._touched = check, 0, 0
        self._seen: list[Array] = []  # a few rows all over, as they came: seen when all were checked
        self._normalize, self.logits = normalize, logits
        self._width = None if width is None else np.dtype(width)
        self.n: int
        self.k: int
        self.n, self.k = matrix.shape

    @cached_property
    def widths(self) -> Widths:
        """How wide the numbers are, by their type and by a few rows all over."""
        given = self._matrix.dtype.newbyteorder("=")
        given = given if given in _WIDTHS else np.dtype(np.float64)
        some = self._seen or [self._matrix[every(self.n)]]
        with np.errstate(over="ignore"):
            fits = (
                each
                for each in _WIDTHS
                if each == given or all(np.array_equal(r, r.astype(each)) for rows in some for r in rows)
            )
            return Widths(next(fits).name, given.name)

    @property
    def in_files(self) -> bool:
        """Whether to read rows is to read files."""
        return self._mapped is not None or not isinstance(self._matrix, np.ndarray)

    @property
    def at_once(self) -> int:
        """How many rows make a block."""
        return rows_at_once(self.entries)

    def widths_with(self, others: Widths | None) -> Widths:
        """Return how wide the numbers are, by all rows, and by others of which that is known."""
        given, every = np.dtype(self.widths.given), np.arange(self.k)
        # No narrower than a few rows are: mostly that settles it.
        place = max(_WIDTHS.index(np.dtype(each.least)) for each in (self.widths, others or self.widths))
        for where in self.slices():
            if _WIDTHS[place] == given:
                break
            block = self.peek(where, every)
            with np.errstate(over="ignore"):
                while _WIDTHS[place] != given and not np.array_equal(block, block.astype(_WIDTHS[place])):
                    place += 1
        return Widths(_WIDTHS[place].name, given.name)

    def check(self) -> None:
        """Check all rows that were not yet."""
        while self._check is not None and self._checked < self.n:
            where = slice(self._checked, min(self._checked + self.at_once, self.n))
            self._look_at(*self._fetched(where), where, good=False)

    def some(self, rows: Ints) -> "Rows":
        """Return some of the rows; none is copied before it is read."""
        self.check()
        return SomeRows(self, rows)

    @property
    def as_they_lie(self) -> bool:
        """Whether blocks are handed out as they lie in memory or in a mapped file, so that none is copied."""
        if type(self) is not Rows or self._normalize or self.logits:
            return False
        return (
            isinstance(self._matrix, np.ndarray)
            and self._matrix.dtype in (np.float32, np.float64)
            and (self._width is None or self._width.itemsize >= self._matrix.dtype.itemsize)
            and bool(self._matrix.flags.c_contiguous)
        )

    def peek(self, rows: slice | Ints, columns: Ints) -> Array:
        """Return some columns of some rows, as they came; nobody is told."""
        if isinstance(rows, slice):
            self._let_go(rows)
            found: Array = self._matrix[rows, columns]
            return found
        return self._gather(rows, columns)

    def one_each(self, rows: Ints, columns: Ints) -> Array | None:
        """Return one entry of each of some rows, which are checked later; nobody is told.

        None if that takes more than to look at it, and if any is no probability.
        """
        if not self.as_they_lie:
            return None
        flat, places = self._matrix.reshape(-1), rows * self.k + columns
        found = np.empty(len(rows), flat.dtype)
        if self._mapped is None or not fetch_mapped(flat, places, found):
            for some in self._at_a_time(len(rows)):
                self._let_go(rows[some])
                found[some] = flat.take(places[some])
        return found if np.all((found >= 0) & (found <= 1)) else None

    def slices(self) -> Iterator[slice]:
        """Cut the rows into blocks."""
        return row_slices(self.n, self.k, self.at_once)

    @property
    def entries(self) -> int:
        """How many entries of a row are read."""
        return self.k

    def whole(self, where: slice | Ints) -> Array:
        """Return some rows written out, as a NumPy array."""
        return self[where]

    def refuse_undecided(self, block: object, start: int, threshold: float | PerLabel | PerRow) -> None:
        """Refuse rows of a block whose set is not known; of whole rows all are."""

    def block(
        self, where: slice | Ints, spec: Spec, scratch: Scratch | None = None, u: Floats | None = None
    ) -> Block:
        """Return some rows, opened. They may be checked while the block is asked: it is to `confirm` that."""
        told = None if self._check is None else self._tolerance  # else they are checked before
        if (
            not isinstance(where, slice)
            and (self._check is None or told is not None)
            and self._lies_in_memory
        ):
            tell(len(where))
            unchecked = None if told is None else Unchecked(told, partial(self._confirm, where))
            return open_block(Chosen(self._matrix, where), spec, scratch, u, unchecked)
        if told is None or self._narrowed(self._matrix):
            return open_block(self[where], spec, scratch, u)
        given, block = self._fetched(where)
        return open_block(
            block, spec, scratch, u, Unchecked(told, partial(self._look_at, given, block, where))
        )

    @property
    def _lies_in_memory(self) -> bool:
        """Whether rows can be looked at where they lie, in any order."""
        return self.as_they_lie and self._mapped is None and bool(self._matrix.flags.aligned)

    def _confirm(self, rows: Ints, good: bool) -> None:
        """Check rows that may not be good."""
        if not good:
            some = self._matrix.take(rows, axis=0)
            self._look_at(some, some, rows, good)

    def _narrowed(self, given: Array) -> bool:
        """Return whether numbers are rounded to fewer bits."""
        return self._width is not None and given.dtype.itemsize > self._width.itemsize

    def __getitem__(self, where: slice | Ints) -> Array:
        given, block = self._fetched(where)
        if self._check is not None:
            self._look_at(given, block, where, good=False)
        if self._narrowed(given):
            with np.errstate(over="ignore"):
                block = _plain(given.astype(self._width))
        if self.logits:
            # In float64, row by row: the same whatever other rows are in the block.
            block = np.exp(np.subtract(block, block.max(axis=1, keepdims=True), dtype=np.float64))
        if self._normalize or self.logits:
            block = block / block.sum(axis=1, dtype=np.float64, keepdims=True)
        return block

    def _fetched(self, where: slice | Ints) -> tuple[Array, Array]:
        """Return rows as they came and as they are needed; tell who watches."""
        if isinstance(where, slice):
            self._let_go(where)
            given: Array = self._matrix.look(where) if hasattr(self._matrix, "look") else self._matrix[where]
        else:
            given = self._gather(where)
        tell(len(given))
        return given, _plain(given)

    def _look_at(self, given: Array, block: Array, where: slice | Ints, good: bool) -> None:
        """Check a block that may not be good; all of them, if it seems wrong and is not the next."""
        check = self._check
        if check is None:
            return
        if isinstance(where, slice) and where.start == self._checked:
            # What is wrong is told as of small blocks, whichever rows come at once.
            for some in [] if good else row_slices(len(block), self.k, self.at_once):
                check(block[some], where.start + some.start)
            self._checked = where.stop
            step = every(self.n).step
            self._seen.append(given[-where.start % step :: step].copy())
            if self._checked >= self.n:
                self._check = None
            return
        try:
            if not good:
                check(block, 0)
        except InputError:
            self.check()

    def _gather(self, rows: Ints, columns: Ints | None = None) -> Array:
        """Return rows all over, or some columns of them; from a mapped file some at a time."""
        if not isinstance(self._matrix, np.ndarray):
            gathered: Array = self._matrix[rows] if columns is None else self._matrix[rows, columns]
            return gathered
        width = self.k if columns is None else len(columns)
        found = np.empty((len(rows), width), self._matrix.dtype)
        if columns is None and self._mapped is not None and fetch_mapped(self._matrix, rows, found):
            return found
        for each in self._at_a_time(len(rows)):
            some = rows[each]
            self._let_go(some)
            if columns is None:
                # Not "raise", which would write to another place first.
                self._matrix.take(some, 0, out=found[each], mode="wrap")
            else:
                found[each] = self._matrix[some[:, None], columns]
        return found

    def _at_a_time(self, number: int) -> Iterator[slice]:
        """Cut rows all over, of a mapped file into so many as may be mapped at once."""
        step = max(1, number)
        if self._mapped is not None:
            step = max(1, _MAPPED // (self.k * self._matrix.dtype.itemsize + _NEIGHBOURS))
        for start in range(0, number, step):
            yield slice(start, start + step)

    def _let_go(self, where: slice | Ints) -> None:
        """Let go of the pages of a mapped file that were read, before others are: the file keeps them."""
        if self._mapped is None:
            return
        refuse_cut(self._mapped)
        each = self.k * self._matrix.dtype.itemsize
        if isinstance(where, slice):
            more = len(range(self.n)[where]) * each
        else:
            more = len(where) * (each + _NEIGHBOURS)
        if self._touched + more > _MAPPED:
            self._mapped._mmap.madvise(_LET_GO)
            self._touched = 0
        self._touched += more


def _plain(block: Array) -> Array:
    """Return a block in float32 or float64, row after row."""
    kind = block.dtype.newbyteorder("=")
    if kind not in (np.float32, np.float64):
        kind = np.dtype(np.float32 if kind == np.float16 else np.float64)
    block = block.astype(kind, copy=False)
    return np.ascontiguousarray(block)  # in which order a sum adds depends on the layout


def _mapped(matrix: Array) -> Any:
    """Return the mapped file that a matrix lies in, if its pages can be let go of without loss."""
    base: Any = matrix
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    if _LET_GO is None or not isinstance(base, np.memmap) or base.mode not in ("r", "r+"):
        return None
    return base


class SomeRows(Rows):
    """Some of the rows of others.

    Parameters
    ----------
    rows : Rows
        The others.
    chosen : array of int
        Which.
    """

    def __init__(self, rows: Rows, chosen: Ints) -> None:
        self._rows, self._chosen = rows, chosen
        self.n, self.k, self.logits = len(chosen), rows.k, rows.logits

    @cached_property
    def widths(self) -> Widths:
        return self._rows.widths

    @property
    def in_files(self) -> bool:
        return self._rows.in_files

    def peek(self, rows: slice | Ints, columns: Ints) -> Array:
        return self._rows.peek(self._chosen[rows], columns)

    def some(self, rows: Ints) -> Rows:
        return SomeRows(self._rows, self._chosen[rows])

    def __getitem__(self, where: slice | Ints) -> Array:
        return self._rows[self._chosen[where]]
