"""Rows of an array: NumPy's, memory-mapped, or anything that turns into one. Never copied whole."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nacp._types import Array, Ints
from nacp.engine import engine_name
from nacp.tuning import tuning

_WIDTHS = [np.dtype(each) for each in (np.float16, np.float32, np.float64)]
_GLANCE = 32
_WATCH: ContextVar[Callable[[int], object] | None] = ContextVar("watch", default=None)


@contextmanager
def watching(told: Callable[[int], object] | None) -> Iterator[None]:
    """Have a function told how many rows each block has that is read: for progress, and to count reads."""
    token = _WATCH.set(told)
    try:
        yield
    finally:
        _WATCH.reset(token)


def rows_at_once(k: int) -> int:
    """Return how many rows of k entries fit into the cache."""
    larger = tuning().native_blocks if engine_name() == "native" else 1
    return max(1, larger * tuning().block_entries // k)


def row_slices(n: int, k: int) -> Iterator[slice]:
    """Cut n rows of k entries into slices that fit into the cache."""
    step = rows_at_once(k)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


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
    """A checked (n, k) matrix, handed out block by block: C-contiguous, in float32 or float64.

    Parameters
    ----------
    matrix : array of shape (n, k)
        The rows.
    normalize : bool, default=False
        Whether to divide each by its sum.
    width : str, optional
        To what wider numbers are rounded first.
    logits : bool, default=False
        Whether the matrix holds logits, of which the softmax is handed out, in float64.
    """

    def __init__(
        self, matrix: Array, normalize: bool = False, width: str | None = None, logits: bool = False
    ) -> None:
        self._matrix = matrix
        self._normalize, self.logits = normalize, logits
        self._width = None if width is None else np.dtype(width)
        self.n, self.k = matrix.shape

    @cached_property
    def widths(self) -> Widths:
        """How wide the numbers are, by their type and by a few rows all over."""
        given = self._matrix.dtype if self._matrix.dtype in _WIDTHS else np.dtype(np.float64)
        some = self._matrix[:: max(1, self.n // _GLANCE)]
        with np.errstate(over="ignore"):
            fits = (each for each in _WIDTHS if each == given or np.array_equal(some, some.astype(each)))
            return Widths(next(fits).name, given.name)

    def some(self, rows: Ints) -> "Rows":
        """Return some of the rows; none is copied before it is read."""
        return SomeRows(self, rows)

    def peek(self, rows: slice | Ints, columns: Ints) -> Array:
        """Return some columns of some rows, as they came; nobody is told."""
        where = (rows, columns) if isinstance(rows, slice) else np.ix_(rows, columns)
        found: Array = self._matrix[where]
        return found

    def slices(self) -> Iterator[slice]:
        """Cut the rows into blocks."""
        return row_slices(self.n, self.k)

    def __getitem__(self, where: slice | Ints) -> Array:
        block = self._matrix[where]
        told = _WATCH.get()
        if told is not None:
            told(len(block))
        if self._width is not None and block.dtype.itemsize > self._width.itemsize:
            with np.errstate(over="ignore"):
                block = block.astype(self._width)
        if block.dtype == np.float16:
            block = block.astype(np.float32)
        elif block.dtype not in (np.float32, np.float64):
            block = block.astype(np.float64)
        block = np.ascontiguousarray(block)  # first: in which order a sum adds depends on the layout
        if self.logits:
            # In float64, row by row: the same whatever other rows are in the block.
            block = np.exp(np.subtract(block, block.max(axis=1, keepdims=True), dtype=np.float64))
        if self._normalize or self.logits:
            block = block / block.sum(axis=1, dtype=np.float64, keepdims=True)
        return block


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

    def peek(self, rows: slice | Ints, columns: Ints) -> Array:
        return self._rows.peek(self._chosen[rows], columns)

    def some(self, rows: Ints) -> Rows:
        return SomeRows(self._rows, self._chosen[rows])

    def __getitem__(self, where: slice | Ints) -> Array:
        return self._rows[self._chosen[where]]
