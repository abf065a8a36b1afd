"""Rows of an array: NumPy's, memory-mapped, or anything that turns into one. Never copied whole."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from nacp._types import Array, Ints
from nacp.tuning import tuning

_WATCH: ContextVar[Callable[[int], object] | None] = ContextVar("watch", default=None)


@contextmanager
def watching(told: Callable[[int], object] | None) -> Iterator[None]:
    """Have a function told how many rows each block has that is read: for progress, and to count reads."""
    token = _WATCH.set(told)
    try:
        yield
    finally:
        _WATCH.reset(token)


def row_slices(n: int, k: int) -> Iterator[slice]:
    """Cut n rows of k entries into slices that fit into the cache."""
    step = max(1, tuning().block_entries // k)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


class Rows:
    """A checked (n, k) matrix, handed out block by block: C-contiguous, in float32 or float64."""

    def __init__(self, matrix: Array, normalize: bool = False) -> None:
        self._matrix = matrix
        self._normalize = normalize
        self.n, self.k = matrix.shape

    def some(self, rows: Ints) -> "Rows":
        """Return some of the rows."""
        return Rows(self._matrix[rows], self._normalize)

    def slices(self) -> Iterator[slice]:
        """Cut the rows into blocks."""
        return row_slices(self.n, self.k)

    def __getitem__(self, where: slice | Ints) -> Array:
        block = self._matrix[where]
        told = _WATCH.get()
        if told is not None:
            told(len(block))
        if block.dtype == np.float16:
            block = block.astype(np.float32)
        elif block.dtype not in (np.float32, np.float64):
            block = block.astype(np.float64)
        block = np.ascontiguousarray(block)  # first: in which order a sum adds depends on the layout
        if self._normalize:
            block = block / block.sum(axis=1, dtype=np.float64, keepdims=True)
        return block
