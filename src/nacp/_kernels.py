"""The few array routines that everything fast goes through: plain NumPy, blockwise, exact.

A *block* is a C-contiguous slice of rows in float32 or float64. Sums of probabilities are exact in
any order, because every probability is first put on the grid of multiples of 2^-52 (`on_grid`):
the partial sums of a row stay below 2, where float64 holds all such multiples. Sorted or masked,
in one block or in many, the bits are the same.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from nacp._types import Array, Floats, Ints

BLOCK_ENTRIES = 1 << 17

_HASHED_COLUMNS = 16
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def row_slices(n: int, k: int) -> Iterator[slice]:
    """Cut n rows of k entries into slices of about BLOCK_ENTRIES entries."""
    step = max(1, BLOCK_ENTRIES // k)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def on_grid(p: Array) -> Floats:
    """Round to multiples of 2^-52; the identity for float32 values of at least 2^-29."""
    grid = p.astype(np.float64)
    grid += 1.0
    grid -= 1.0
    return grid


def cut_for(dtype: np.dtype[np.floating], cut: float) -> np.floating:
    """Return the smallest value of `dtype` not below `cut`, so that `p >= cut` keeps its meaning."""
    rounded = dtype.type(cut)
    return rounded if rounded >= cut else np.nextafter(rounded, dtype.type(np.inf))


def hashed_uniforms(block: Array, seed: int) -> Floats:
    """Return one u in [0, 1) per row: a keyed hash of at most 16 of its values and its maximum.

    The same row has the same u in any batch, order, process and floating-point width.
    """
    k = block.shape[1]
    columns: Iterable[int] = range(k)
    if k > _HASHED_COLUMNS:
        last = _HASHED_COLUMNS - 1
        columns = dict.fromkeys(j * (k - 1) // last for j in range(_HASHED_COLUMNS))
    state = _mix(np.full(len(block), seed % (1 << 64), dtype=np.uint64))
    for values in (*(block[:, c] for c in columns), block.max(axis=1)):
        state = _mix(state ^ (values.astype(np.float64) + 0.0).view(np.uint64))
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: Array) -> Array:
    """Scramble 64-bit words (the finaliser of splitmix64)."""
    x = x + _GOLDEN
    x ^= x >> np.uint64(30)
    x *= _MIX_1
    x ^= x >> np.uint64(27)
    x *= _MIX_2
    x ^= x >> np.uint64(31)
    return x


def sorted_rows(block: Array) -> Array:
    """Return the rows in descending order."""
    negated = np.negative(block)
    negated.sort(axis=1)
    return np.negative(negated, out=negated)


def sorted_columns(block: Array) -> tuple[Array, Ints]:
    """Return the rows in descending order, and the columns that the entries came from."""
    order = np.argsort(np.negative(block), axis=1)
    return np.take_along_axis(block, order, axis=1), order


def _row_sums(grid: Floats) -> Floats:
    sums: Floats = grid.sum(axis=1)
    return sums


def _row_counts(mask: Array) -> Ints:
    counts: Ints = np.count_nonzero(mask, axis=1)
    return counts


class LabelRanks:
    """Where one given label of each row stands in its row, without sorting.

    `p` its probability, `above` and `upto` the mass of the labels that are strictly and at least
    as probable, `n_above` and `n_upto` their numbers, `top` and `second` the row's two largest
    probabilities, `u` the row's uniform number. All of shape (rows,).
    """

    def __init__(self, block: Array, labels: Ints, u: Floats | None) -> None:
        self._block = block
        self._own = block[np.arange(len(block)), labels]
        self._u = u

    @property
    def u(self) -> Floats:
        assert self._u is not None
        return self._u

    @cached_property
    def _higher(self) -> Array:
        return self._block > self._own[:, None]

    @cached_property
    def _as_high(self) -> Array:
        return self._block >= self._own[:, None]

    @cached_property
    def p(self) -> Floats:
        return on_grid(self._own)

    @cached_property
    def above(self) -> Floats:
        return _row_sums(on_grid(self._block * self._higher))

    @cached_property
    def upto(self) -> Floats:
        return _row_sums(on_grid(self._block * self._as_high))

    @cached_property
    def n_above(self) -> Ints:
        return _row_counts(self._higher)

    @cached_property
    def n_upto(self) -> Ints:
        return _row_counts(self._as_high)

    @cached_property
    def top(self) -> Floats:
        return on_grid(self._block.max(axis=1))

    @cached_property
    def second(self) -> Floats:
        return on_grid(np.partition(self._block, -2, axis=1)[:, -2])


class SortedRanks:
    """The same quantities for every entry of rows in descending order; shapes (rows, k) or (rows, 1)."""

    def __init__(self, descending: Array, u: Floats | None) -> None:
        self._rows = descending
        self._u = u

    @property
    def u(self) -> Floats:
        assert self._u is not None
        return self._u[:, None]

    @cached_property
    def p(self) -> Floats:
        return on_grid(self._rows)

    @cached_property
    def _cumulated(self) -> Floats:
        return np.cumsum(self.p, axis=1)

    @cached_property
    def _ties(self) -> tuple[Ints, Ints, Ints]:
        """Rows that hold equal probabilities; there, each entry's first and last equal."""
        equal = self._rows[:, 1:] == self._rows[:, :-1]
        tied = np.flatnonzero(equal.any(axis=1))
        place = np.broadcast_to(np.arange(self._rows.shape[1]), (len(tied), self._rows.shape[1]))
        first, last = place.copy(), place.copy()
        first[:, 1:][equal[tied]] = 0
        last[:, :-1][equal[tied]] = self._rows.shape[1]
        first = np.maximum.accumulate(first, axis=1)
        last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
        return tied, first, last

    @cached_property
    def above(self) -> Floats:
        above = self._cumulated - self.p
        tied, first, _ = self._ties
        above[tied] = np.take_along_axis(above[tied], first, axis=1)
        return above

    @cached_property
    def upto(self) -> Floats:
        upto = self._cumulated.copy()
        tied, _, last = self._ties
        upto[tied] = np.take_along_axis(upto[tied], last, axis=1)
        return upto

    @cached_property
    def n_above(self) -> Ints:
        places = np.tile(np.arange(self._rows.shape[1]), (len(self._rows), 1))
        tied, first, _ = self._ties
        places[tied] = first
        return places

    @cached_property
    def n_upto(self) -> Ints:
        places = np.tile(np.arange(1, self._rows.shape[1] + 1), (len(self._rows), 1))
        tied, _, last = self._ties
        places[tied] = last + 1
        return places

    @property
    def top(self) -> Floats:
        return self.p[:, :1]

    @property
    def second(self) -> Floats:
        return self.p[:, 1:2]
