"""The rows of a matrix, read in blocks. A block is a view of the input unless its numbers are converted.

Several threads process blocks in parallel, as the compiled engine releases the interpreter lock.
"""

import copy
import math
import mmap
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from nacp._types import Array, Ints
from nacp.engine import current, is_tensor
from nacp.errors import InputError

T = TypeVar("T")
Where: TypeAlias = slice | Ints
_FLOATS = [np.dtype(each) for each in (np.float16, np.float32, np.float64)]
_NAMES = [each.name for each in _FLOATS]
_ENTRIES_PER_THREAD = 1 << 18  # Starting a thread takes longer than reading fewer entries.
_PREFIX = "nacp-rows"
_WATCH: ContextVar[Callable[[int], object] | None] = ContextVar("watch", default=None)


def block_rows(k: int) -> int:
    """Return the number of rows of k entries in a block.

    No result depends on it, so tests replace this function. NumPy's temporary arrays should fit into caches.
    """
    return max(1, (1 << 16 if current().NAME == "numpy" else 1 << 20) // k)


def row_slices(n: int, k: int, step: int | None = None) -> Iterator[slice]:
    """Divide n rows of k entries into slices, by default of `block_rows` rows."""
    step = step or block_rows(k)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


@contextmanager
def watching(callback: Callable[[int], object] | None) -> Iterator[None]:
    """Call a function with the number of rows of each block that is read, for progress bars."""
    token = _WATCH.set(callback)
    try:
        yield
    finally:
        _WATCH.reset(token)


def tell(rows: int) -> None:
    """Report that a block with this number of rows was read."""
    callback = _WATCH.get()
    if callback is not None:
        callback(rows)


def is_lazy(values: Any) -> bool:
    """Return whether `values` is a dask array."""
    return type(values).__module__.split(".")[:2] == ["dask", "array"]


def type_name(values: Any) -> str:
    """Return the name of the type of the numbers in an array or a tensor, such as "float32"."""
    return str(values.dtype).removeprefix("torch.")


def kind_of(values: Any) -> np.dtype[Any]:
    """Return the NumPy type of an array or a tensor; float types that NumPy lacks become float32."""
    if not is_tensor(values):
        kind: np.dtype[Any] = values.dtype
        return kind
    name = type_name(values)
    return np.dtype("float32" if values.is_floating_point() and name not in _NAMES else name)


class Widths(NamedTuple):
    """The floating-point types of a calibration set: "float16", "float32" or "float64".

    Attributes
    ----------
    least : str
        The narrowest type that represents all probabilities exactly. Rows in a narrower type are refused.
    given : str
        The type of the input. Rows in a wider type are rounded to it.
    """

    least: str
    given: str


@dataclass(frozen=True)
class Source:
    """A matrix whose rows are expanded when they are read, such as a sparse matrix."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    read: Callable[[Where], Array]
    ndim = 2

    def __getitem__(self, where: Where) -> Array:
        return self.read(where)

    def take(self, rows: Ints, axis: int) -> Array:
        """Return some rows."""
        return self.read(rows)


class Rows:
    """The rows of an (n, k) matrix, in blocks: C-contiguous, in float32 or float64.

    Parameters
    ----------
    matrix : array or Source of shape (n, k)
        The rows, checked by `open_rows`.
    normalize : bool, default=False
        Whether to divide each row by its sum.
    width : str, optional
        The type to which wider numbers are rounded.
    logits : bool, default=False
        Whether the matrix holds logits. Blocks then hold their softmax, in float64.
    """

    on_device = False  # whether blocks are tensors

    def __init__(
        self, matrix: Any, normalize: bool = False, width: str | None = None, logits: bool = False
    ) -> None:
        self.n: int
        self.k: int
        self.n, self.k = map(int, matrix.shape)
        self.logits = logits
        self.dtype = kind_of(matrix)  # the type of the input
        self._matrix, self._mapped = matrix, _mapped_file(matrix)
        self._normalize, self._width = normalize, None if width is None else np.dtype(width)
        self._rounded = self._width is not None and self.dtype.itemsize > self._width.itemsize
        self._chosen: Ints | None = None

    @cached_property
    def widths(self) -> Widths:
        """The types of the numbers, determined from all rows."""
        given = self.dtype.newbyteorder("=")
        given, place = given if given in _FLOATS else np.dtype(np.float64), 0
        with np.errstate(over="ignore"):
            for where in self.slices():
                block = self._given(where)
                for some in (block[:1], block):  # The first row is often enough.
                    while _FLOATS[place] != given and not self._fits(some, _FLOATS[place]):
                        place += 1
                if _FLOATS[place] == given:
                    break
        return Widths(_FLOATS[place].name, given.name)

    def _fits(self, block: Any, kind: np.dtype[Any]) -> bool:
        """Return whether a type represents all numbers of a block exactly."""
        return np.array_equal(block, block.astype(kind))

    def __getitem__(self, where: Where) -> Any:
        block = self._read(where)
        tell(len(block))
        return block

    def whole(self, where: Where) -> Array:
        """Return some rows as an array in host memory."""
        found: Array = self[where]
        return found

    def slices(self) -> Iterator[slice]:
        """Divide the rows into blocks."""
        return row_slices(self.n, self.k)

    def some(self, rows: Ints) -> "Rows":
        """Return a subset of the rows, without reading them."""
        found = copy.copy(self)
        found.widths = self.widths  # of the whole matrix
        found.n, found._chosen = len(rows), rows if self._chosen is None else self._chosen[rows]
        return found

    def map(self, function: Callable[[Any, Any], T], order: Ints | None = None) -> Iterator[T]:
        """Yield `function(block, where)` for all blocks, in order; of the rows in `order` if it is given.

        `where` is a slice or a part of `order`. With the compiled engine, several threads call the function.
        """
        n = self.n if order is None else len(order)
        threads = thread_count() if current().NAME == "native" and not self.on_device else 1
        step = block_rows(self.k)
        if threads > 1:
            share = max(math.ceil(n / (2 * threads)), _ENTRIES_PER_THREAD // self.k)
            step = max(1, min(step, share))
        blocks: list[Any] = list(row_slices(n, self.k, step))
        if order is not None:
            blocks = list(map(order.__getitem__, blocks))

        def apply(where: Any) -> T:
            return function(self._read(where), where)

        found = in_threads(apply, blocks, threads)
        for where, each in zip(blocks, found, strict=True):
            tell(where.stop - where.start if isinstance(where, slice) else len(where))
            yield each

    def _given(self, where: Where) -> Any:
        """Return some rows of the input, without conversion."""
        where = where if self._chosen is None else self._chosen[where]
        if self._mapped is not None:
            _refuse_cut(self._mapped)
        found: Array = self._matrix[where] if isinstance(where, slice) else self._matrix.take(where, axis=0)
        return found

    def _read(self, where: Where) -> Any:
        block = _as_float(self._given(where))
        if self._rounded:
            with np.errstate(over="ignore"):
                block = _as_float(block.astype(self._width))
        if self.logits:
            # The softmax in float64 of a row does not depend on the other rows of the block.
            block = np.exp(np.subtract(block, block.max(axis=1, keepdims=True), dtype=np.float64))
        if self._normalize or self.logits:
            block = block / block.sum(axis=1, dtype=np.float64, keepdims=True)
        return block


def _as_float(block: Array) -> Array:
    """Return a C-contiguous block in float32 or float64 with native byte order."""
    kind = block.dtype.newbyteorder("=")
    if kind not in (np.float32, np.float64):
        kind = np.dtype(np.float32 if kind == np.float16 else np.float64)
    return np.require(block.astype(kind, copy=False), requirements=("C", "A"))


def _mapped_file(matrix: Any) -> Any:
    """Return the memory-mapped file that contains a matrix, or None."""
    while isinstance(matrix, np.ndarray) and not isinstance(matrix, np.memmap):
        matrix = matrix.base
    return matrix if getattr(matrix, "_mmap", None) is not None else None


def _refuse_cut(mapped: Any) -> None:
    """Raise an error if a memory-mapped file was truncated: reading beyond its end would kill the process."""
    start = mapped.offset - mapped.offset % mmap.ALLOCATIONGRANULARITY
    if mapped._mmap.size() < start + len(mapped._mmap):
        name = str(mapped.filename or "a memory-mapped file")
        raise InputError(name, "has changed since it was opened", remedy="open it again")


@lru_cache(maxsize=1)
def thread_count() -> int:
    """Return the number of threads: NACP_THREADS, or the number of cores that this process may use."""
    setting = os.environ.get("NACP_THREADS")
    if setting is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not setting.isdecimal() or int(setting) < 1:
        raise ValueError(f"NACP_THREADS must be a whole number from 1 on, not {setting!r}")
    return int(setting)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_count(), thread_name_prefix=_PREFIX)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # A child process has no threads.


def in_threads(function: Callable[[Any], T], items: Sequence[Any], threads: int) -> Iterator[T]:
    """Yield the results of a function for each item, in order; few results wait at a time."""
    nested = threading.current_thread().name.startswith(_PREFIX)  # Waiting for the pool could deadlock.
    if threads == 1 or len(items) < 2 or nested:
        yield from map(function, items)
        return
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
            try:
                waiting.append(_pool().submit(copy_context().run, function, item))
            except RuntimeError:  # The interpreter is shutting down.
                while waiting:
                    yield waiting.popleft().result()
                yield function(item)
        while waiting:
            yield waiting.popleft().result()
    finally:
        for each in waiting:
            each.cancel()
