"""The few array routines that everything fast goes through: plain NumPy, blockwise, exact.

A *block* is a C-contiguous slice of rows in float32 or float64. Sums of probabilities are exact in
any order, because every probability is first put on the grid of multiples of 2^-52 (`on_grid`):
the partial sums of a row stay below 2, where float64 holds all such multiples. Sorted or masked,
in one block or in many, the bits are the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from nacp._types import Array, Bools, Floats, Ints

BLOCK_ENTRIES = 1 << 17

_HASHED_COLUMNS = 16
_FIRST_COLUMNS = 64
_FEW_RUNGS = 32
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
    with np.errstate(over="ignore"):
        rounded = dtype.type(cut)
    # As Python floats: NumPy would round `cut` before it compares.
    return rounded if float(rounded) >= cut else np.nextafter(rounded, dtype.type(np.inf))


def hashed_uniforms(block: Array, seed: int) -> Floats:
    """Return one u in [0, 1) per row: a keyed hash of at most 16 of its values and its maximum.

    The same row has the same u in any batch, order, process and floating-point width.
    """
    columns, keys = _hash_plan(block.shape[1], int(seed) % (1 << 64))
    values = np.empty((len(block), len(columns) + 1))
    values[:, :-1] = block.take(columns, axis=1)
    values[:, -1] = block.max(axis=1)
    values += 0.0  # -0.0 counts as 0.0
    words = _mix(_mix(values.view(np.uint64) ^ keys).sum(axis=1, dtype=np.uint64))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


@lru_cache(maxsize=64)
def _hash_plan(k: int, seed: int) -> tuple[Ints, Array]:
    """Return the columns that are hashed, and one key for each of them and for the maximum."""
    columns = np.arange(k)
    if k > _HASHED_COLUMNS:
        columns = np.arange(_HASHED_COLUMNS) * (k - 1) // (_HASHED_COLUMNS - 1)
    key = _mix(np.array([seed], dtype=np.uint64))
    return columns, _mix(key + np.arange(len(columns) + 1, dtype=np.uint64))


def _mix(x: Array) -> Array:
    """Scramble 64-bit words (the finaliser of splitmix64)."""
    x = x + _GOLDEN
    x ^= x >> np.uint64(30)
    x *= _MIX_1
    x ^= x >> np.uint64(27)
    x *= _MIX_2
    x ^= x >> np.uint64(31)
    return x


def sorted_columns(block: Array) -> tuple[Array, Ints]:
    """Return the rows in descending order, and the columns that the entries came from."""
    if block.dtype == np.float32:
        # Nonnegative floats are ordered as their bits are: one sort of (inverted bits, column) words.
        words = np.invert((block + np.float32(0)).view(np.uint32)).astype(np.uint64)
        words <<= np.uint64(32)
        words |= np.arange(block.shape[1], dtype=np.uint64)
        words.sort(axis=1)
        columns = (words & np.uint64(0xFFFFFFFF)).astype(np.int64)
        return np.invert((words >> np.uint64(32)).astype(np.uint32)).view(np.float32), columns
    order = np.argsort(np.negative(block), axis=1)
    return np.take_along_axis(block, order, axis=1), order


def flat_sets(keys: Array, cuts: Array) -> tuple[Ints, Ints]:
    """Return the sizes of the sets ``keys >= cuts`` and their labels, row after row."""
    flat = np.flatnonzero(keys >= cuts)
    starts = np.arange(len(keys) + 1) * keys.shape[1]
    sizes = np.diff(np.searchsorted(flat, starts))
    return sizes, flat - np.repeat(starts[:-1], sizes)


def masses_above(block: Array, own: Array, mask: Array) -> Floats:
    """Return the exact sums of the entries under a mask of entries that are at least `own`."""
    masked = block * mask
    sums: Floats = masked.sum(axis=1, dtype=np.float64)
    # Off the grid, a plain sum of entries below 2^-29 may round; float64 entries may anywhere.
    unsafe = np.flatnonzero(own < 2.0**-29) if block.dtype == np.float32 else np.arange(len(block))
    sums[unsafe] = on_grid(masked[unsafe]).sum(axis=1)
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
        return masses_above(self._block, self._own, self._higher)

    @cached_property
    def upto(self) -> Floats:
        return masses_above(self._block, self._own, self._as_high)

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


def coarse_step(k: int) -> int:
    """Return the distance of the columns at which `CoarseRanks` looks."""
    return max(1, k // 64)


class CoarseRanks:
    """Lower bounds of the same quantities at some 64 evenly spaced columns of rows in descending order.

    Where equal probabilities lie across such a column they would not be bounds; `tied` names such rows.
    """

    def __init__(self, descending: Array) -> None:
        starts = np.arange(0, descending.shape[1], coarse_step(descending.shape[1]))
        sums = np.cumsum(np.add.reduceat(descending, starts, axis=1, dtype=np.float64), axis=1)
        self.p: Floats = on_grid(descending[:, starts])
        self.above: Floats = np.zeros_like(sums)
        self.above[:, 1:] = sums[:, :-1] - 1e-9
        self.upto: Floats = self.above + self.p
        self.n_above: Ints = np.broadcast_to(starts, sums.shape)
        self.n_upto: Ints = self.n_above + 1
        self.top: Floats = self.p[:, :1]
        self.second: Floats = on_grid(descending[:, 1:2])
        self.u: Floats = np.zeros((len(descending), 1))
        self.tied: Bools = (descending[:, starts[1:]] == descending[:, starts[1:] - 1]).any(axis=1)


Ranks: TypeAlias = LabelRanks | SortedRanks | CoarseRanks


class Events(NamedTuple):
    """Pairs (row, label) and their scores, as three flat arrays."""

    rows: Ints
    columns: Ints
    scores: Floats


class Reading(ABC):
    """One block, ready to be asked about its scores up to some limit."""

    @abstractmethod
    def counts(self, rungs: Floats) -> Ints:
        """Return, for each of the ascending `rungs`, how many pairs score at most that."""

    def counts_at_most(self, rungs: Floats) -> Ints:
        """Return upper bounds of `counts`, where these are cheaper; the limit does not matter."""
        return self.counts(rungs)

    @abstractmethod
    def between(self, low: float, high: float) -> Floats:
        """Return the scores that lie in (low, high], in any order."""

    @abstractmethod
    def events(self, low: float, high: float) -> Events:
        """Return the pairs that score in (low, high]."""

    @abstractmethod
    def cuts(self, q: float) -> tuple[Array, Array]:
        """Return `keys` (rows, k) and `cuts` (rows, 1): the sets at q are ``keys >= cuts``."""


def _counts_below(scores: Floats, rungs: Floats) -> Ints:
    if len(rungs) <= _FEW_RUNGS:
        return np.array([np.count_nonzero(scores <= q) for q in rungs], dtype=np.int64)
    cells = np.searchsorted(rungs, scores.ravel(), side="left")
    return np.cumsum(np.bincount(cells, minlength=len(rungs) + 1)[:-1])


class PointwiseReading(Reading):
    """A block whose scores are minus a key that each entry has for itself."""

    def __init__(self, keys: Array, limit: float) -> None:
        self._keys, self._limit = keys, limit

    def _cut(self, q: float) -> np.floating:
        return cut_for(self._keys.dtype, -q)

    @cached_property
    def _scores(self) -> Floats:
        """The scores up to the limit; usually few."""
        return -self._keys[self._keys >= self._cut(self._limit)].astype(np.float64)

    def counts(self, rungs: Floats) -> Ints:
        return _counts_below(self._scores, rungs) if len(rungs) else np.zeros(0, dtype=np.int64)

    def counts_at_most(self, rungs: Floats) -> Ints:
        return np.array([np.count_nonzero(self._keys >= self._cut(q)) for q in rungs], dtype=np.int64)

    def between(self, low: float, high: float) -> Floats:
        return self._scores[(self._scores > low) & (self._scores <= high)]

    def events(self, low: float, high: float) -> Events:
        inside = self._keys >= self._cut(high)
        if low > -np.inf:
            inside &= self._keys < self._cut(low)
        rows, columns = np.nonzero(inside)
        return Events(rows, columns, -self._keys[rows, columns].astype(np.float64))

    def cuts(self, q: float) -> tuple[Array, Array]:
        return self._keys, np.full((len(self._keys), 1), self._cut(q))


class RankedReading(Reading):
    """A block whose scores rise along the rows in descending order, by a formula of the ranks."""

    def __init__(
        self, block: Array, formula: Callable[[Ranks], Floats], u: Floats | None, limit: float
    ) -> None:
        self._block, self._formula, self._u, self._limit = block, formula, u, limit

    @cached_property
    def _descending(self) -> Array:
        negated = np.negative(self._block)
        negated.sort(axis=1)
        return np.negative(negated, out=negated)

    @cached_property
    def _profiles(self) -> list[tuple[Ints, Floats]]:
        """Row numbers, and the scores along these sorted rows as far as the limit: ascending.

        Most rows pass the limit within a few columns, so the scores are computed for the first 64, and
        for four times as many only in the rows that have not passed it. Equal probabilities at the edge
        are no trouble: their scores are then too small, so that a row which seems to pass has passed.
        """
        found = []
        rows, k, width = np.arange(len(self._block)), self._block.shape[1], _FIRST_COLUMNS
        while len(rows):
            width = width if 2 * width < k else k
            here = slice(None) if len(rows) == len(self._block) else rows
            ranks = SortedRanks(self._descending[here, :width], None if self._u is None else self._u[here])
            profile = np.broadcast_to(self._formula(ranks), (len(rows), width))
            done = (profile[:, -1] > self._limit) | (width == k)
            found.append((rows, profile) if done.all() else (rows[done], profile[done]))
            rows, width = rows[~done], 4 * width
        return found

    def counts(self, rungs: Floats) -> Ints:
        counts = np.zeros(len(rungs), dtype=np.int64)
        for _, profile in self._profiles if len(rungs) else []:
            counts += _counts_below(profile, rungs)
        return counts

    def counts_at_most(self, rungs: Floats) -> Ints:
        if not len(rungs):
            return np.zeros(0, dtype=np.int64)
        ranks, step = CoarseRanks(self._descending), coarse_step(self._block.shape[1])
        lowest = np.broadcast_to(self._formula(ranks), ranks.above.shape)[~ranks.tied]
        tied = np.count_nonzero(ranks.tied) * self._block.shape[1]
        reached = [np.count_nonzero(lowest <= q) * step + tied for q in rungs]
        return np.minimum(np.array(reached, dtype=np.int64), self._block.size)

    def between(self, low: float, high: float) -> Floats:
        return np.concatenate([scores[(scores > low) & (scores <= high)] for _, scores in self._profiles])

    def events(self, low: float, high: float) -> Events:
        descending, columns = sorted_columns(self._block)
        vars(self)["_descending"] = descending
        found = []
        for chosen, profile in self._profiles:
            rows, places = np.nonzero((profile > low) & (profile <= high))
            found.append(Events(chosen[rows], columns[chosen[rows], places], profile[rows, places]))
        return Events(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def cuts(self, q: float) -> tuple[Array, Array]:
        cuts = np.full((len(self._block), 1), np.inf, dtype=self._block.dtype)
        for rows, profile in self._profiles:
            sizes = np.count_nonzero(profile <= q, axis=1)
            some = sizes > 0
            cuts[rows[some], 0] = self._descending[rows[some], sizes[some] - 1]
        return self._block, cuts
