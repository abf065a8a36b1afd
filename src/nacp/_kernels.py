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

BLOCK_ENTRIES = 1 << 18

_HASHED_COLUMNS = 16
FEW_RUNGS = 32
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


def stretch_for(k: int) -> int:
    """Return how many columns of a sorted row make one stretch: about the root of k, at least 16."""
    return 1 << max(4, k.bit_length() // 2 - 1)


def flat_places(mask: Array) -> tuple[Ints, Ints]:
    """Return the places of the true entries, row after row and counted through, and where each row starts."""
    flat = np.flatnonzero(mask)
    return flat, np.searchsorted(flat, np.arange(len(mask) + 1) * mask.shape[1])


def flat_sets(keys: Array, cuts: Array) -> tuple[Ints, Ints]:
    """Return the sizes of the sets ``keys >= cuts`` and their labels, row after row."""
    flat, starts = flat_places(keys >= cuts)
    sizes = np.diff(starts)
    return sizes, flat - np.repeat(np.arange(len(keys)) * keys.shape[1], sizes)


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
    def _higher(self) -> tuple[Ints, Ints]:
        return flat_places(self._block > self._own[:, None])

    @cached_property
    def _as_high(self) -> tuple[Ints, Ints]:
        return flat_places(self._block >= self._own[:, None])

    def _mass(self, flat: Ints, starts: Ints) -> Floats:
        sums = np.zeros(len(self._block))
        some = starts[1:] > starts[:-1]
        if some.any():
            sums[some] = np.add.reduceat(on_grid(self._block.ravel()[flat]), starts[:-1][some])
        return sums

    @cached_property
    def p(self) -> Floats:
        return on_grid(self._own)

    @cached_property
    def above(self) -> Floats:
        return self._mass(*self._higher)

    @cached_property
    def upto(self) -> Floats:
        return self._mass(*self._as_high)

    @cached_property
    def n_above(self) -> Ints:
        return np.diff(self._higher[1])

    @cached_property
    def n_upto(self) -> Ints:
        return np.diff(self._as_high[1])

    @cached_property
    def top(self) -> Floats:
        return on_grid(self._block.max(axis=1))

    @cached_property
    def second(self) -> Floats:
        return on_grid(np.partition(self._block, -2, axis=1)[:, -2])


class SortedRanks:
    """The same quantities for stretches of rows in descending order; shapes (m, width) or (m, 1).

    Parameters
    ----------
    values : array of shape (m, width)
        One stretch of neighbouring entries each, from rows in descending order. Equal probabilities
        must not lie across its ends.
    leaders : array of shape (m, 2)
        The two largest probabilities of each row.
    u : array of shape (m,), optional
        The rows' uniform numbers.
    before, places : arrays of shape (m, 1), optional
        The mass and the number of the entries before the stretch, if any.
    """

    def __init__(
        self,
        values: Array,
        leaders: Array,
        u: Floats | None,
        before: Array | float = 0.0,
        places: Array | int = 0,
    ) -> None:
        self._values, self._leaders, self._u = values, leaders, u
        self._before, self._places = before, places

    @property
    def u(self) -> Floats:
        assert self._u is not None
        return self._u[:, None]

    @cached_property
    def p(self) -> Floats:
        return on_grid(self._values)

    @cached_property
    def _cumulated(self) -> Floats:
        sums = np.cumsum(self.p, axis=1)
        sums += self._before
        return sums

    @cached_property
    def _ties(self) -> tuple[Ints, Ints, Ints]:
        """Stretches that hold equal probabilities; there, each entry's first and last equal."""
        equal = self._values[:, 1:] == self._values[:, :-1]
        tied = np.flatnonzero(equal.any(axis=1))
        width = self._values.shape[1]
        place = np.broadcast_to(np.arange(width), (len(tied), width))
        first, last = place.copy(), place.copy()
        first[:, 1:][equal[tied]] = 0
        last[:, :-1][equal[tied]] = width
        first = np.maximum.accumulate(first, axis=1)
        last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
        return tied, first, last

    @cached_property
    def above(self) -> Floats:
        above = self._cumulated - self.p
        tied, first, _ = self._ties
        if len(tied):
            above[tied] = np.take_along_axis(above[tied], first, axis=1)
        return above

    @cached_property
    def upto(self) -> Floats:
        upto = self._cumulated
        tied, _, last = self._ties
        if len(tied):
            upto = upto.copy()
            upto[tied] = np.take_along_axis(upto[tied], last, axis=1)
        return upto

    @cached_property
    def n_above(self) -> Ints:
        tied, first, _ = self._ties
        return self._numbers(tied, first)

    @cached_property
    def n_upto(self) -> Ints:
        tied, _, last = self._ties
        return self._numbers(tied, last) + 1

    def _numbers(self, tied: Ints, replaced: Ints) -> Ints:
        numbers = np.tile(np.arange(self._values.shape[1]), (len(self._values), 1))
        numbers[tied] = replaced
        numbers += self._places
        return numbers

    @property
    def top(self) -> Floats:
        return on_grid(self._leaders[:, :1])

    @property
    def second(self) -> Floats:
        return on_grid(self._leaders[:, 1:])


class FirstRanks:
    """The same quantities for the first entry of every stretch, as if no probabilities were equal."""

    def __init__(self, values: Array, leaders: Array, u: Floats | None, before: Floats, places: Ints) -> None:
        self.p: Floats = on_grid(values)
        self.above, self.n_above = before, places
        self.upto: Floats = before + self.p
        self.n_upto: Ints = places + 1
        self.top, self.second = on_grid(leaders[:, :1]), on_grid(leaders[:, 1:])
        self._u = u

    @property
    def u(self) -> Floats:
        assert self._u is not None
        return self._u[:, None]


Ranks: TypeAlias = LabelRanks | SortedRanks | FirstRanks


class Events(NamedTuple):
    """Pairs (row, label) and their scores, as three flat arrays."""

    rows: Ints
    columns: Ints
    scores: Floats


class Reading(ABC):
    """One block, ready to be asked about its scores."""

    @abstractmethod
    def matrix(self) -> Floats:
        """Return all scores, in the places of the labels."""

    @abstractmethod
    def counts(self, rungs: Floats) -> Ints:
        """Return, for each of the ascending `rungs`, how many pairs score at most that."""

    @staticmethod
    def _counts_of_many(scores: Floats, rungs: Floats) -> Ints:
        cells = np.searchsorted(rungs, scores.ravel(), side="left")
        return np.cumsum(np.bincount(cells, minlength=len(rungs) + 1)[:-1])

    def counts_at_most(self, rungs: Floats) -> Ints:
        """Return upper bounds of `counts`, where these are cheaper."""
        return self.counts(rungs)

    @abstractmethod
    def between(self, low: float, high: float) -> Floats:
        """Return the scores that lie in (low, high], in any order."""

    @abstractmethod
    def events(self, low: float, high: float) -> Events:
        """Return the pairs that score in (low, high]."""

    @abstractmethod
    def cuts(self, q: float) -> tuple[Array, Array]:
        """Return `keys` (rows, k) and `cuts` (rows, 1) or (1, 1): the sets at q are ``keys >= cuts``."""

    @abstractmethod
    def sizes(self, q: float) -> Ints:
        """Return how many labels of each row score at most q."""

    @abstractmethod
    def row_scores(self, low: float, high: float) -> tuple[Ints, Floats]:
        """Return the scores that lie in (low, high], and whose row each is of."""

    def sums(self, rungs: Floats, weights: Array | None = None) -> Array:
        """Return the weight of each row's set at each of the ascending `rungs`; by default its size."""
        found: Array | None = None
        if weights is None:
            base: Array = self.sizes(rungs[0])
            rows, scores = self.row_scores(rungs[0], rungs[-1])
        else:
            keys, cuts = self.cuts(rungs[0])
            base = np.where(keys >= cuts, weights, 0.0).sum(axis=1)
            rows, columns, scores = self.events(rungs[0], rungs[-1])
            found = weights[rows, columns]
        cells = rows * len(rungs) + np.searchsorted(rungs, scores, side="left")
        added = np.bincount(cells, found, minlength=len(base) * len(rungs))
        return np.cumsum(added.reshape(len(base), len(rungs)), axis=1) + base[:, None]


class PointwiseReading(Reading):
    """A block whose scores are minus a key that each entry has for itself."""

    def __init__(self, keys: Array) -> None:
        self._keys = keys

        self._limit: float | None = None
        self._found: Floats = np.empty(0)

    def matrix(self) -> Floats:
        return -self._keys.astype(np.float64)

    def _upto(self, q: float) -> Floats:
        """Return the scores up to q or a larger limit, which are kept."""
        if self._limit is None or self._limit < q:
            flat = self._keys.ravel()
            self._limit, self._found = q, -flat[np.flatnonzero(flat >= self._cut(q))].astype(np.float64)
        return self._found

    def _cut(self, q: float) -> np.floating:
        return cut_for(self._keys.dtype, -q)

    def counts(self, rungs: Floats) -> Ints:
        if len(rungs) > FEW_RUNGS:
            return self._counts_of_many(self._upto(rungs[-1]), rungs)
        found = [np.count_nonzero(self._upto(q) <= q) for q in rungs[::-1]]
        return np.array(found[::-1], dtype=np.int64)

    def counts_at_most(self, rungs: Floats) -> Ints:
        return np.array([np.count_nonzero(self._keys >= self._cut(q)) for q in rungs], dtype=np.int64)

    def between(self, low: float, high: float) -> Floats:
        scores = self._upto(high)
        return scores[(scores > low) & (scores <= high)]

    def _between(self, low: float, high: float) -> Ints:
        """Return the flat places of the pairs that score in (low, high]."""
        inside = self._keys >= self._cut(high)
        if low > -np.inf:
            inside &= self._keys < self._cut(low)
        return np.flatnonzero(inside)

    def events(self, low: float, high: float) -> Events:
        places = self._between(low, high)
        rows, columns = np.divmod(places, self._keys.shape[1])
        return Events(rows, columns, -self._keys.ravel()[places].astype(np.float64))

    def cuts(self, q: float) -> tuple[Array, Array]:
        return self._keys, np.array([[self._cut(q)]])

    def sizes(self, q: float) -> Ints:
        sizes: Ints = np.count_nonzero(self._keys >= self._cut(q), axis=1)
        return sizes

    def row_scores(self, low: float, high: float) -> tuple[Ints, Floats]:
        places = self._between(low, high)
        return places // self._keys.shape[1], -self._keys.ravel()[places].astype(np.float64)


class RankedReading(Reading):
    """A block whose scores rise along the rows in descending order, by a formula of the ranks.

    The sorted rows are cut into stretches. The mass before each stretch gives the score of its first
    entry, and these say in which stretch a row passes q; only there the scores are computed one by one.
    Where equal probabilities lie across the ends of that stretch, they are computed for the whole row.
    """

    def __init__(self, block: Array, formula: Callable[[Ranks], Floats], u: Floats | None) -> None:
        self._block, self._formula, self._u = block, formula, u
        self._n, self._k = block.shape
        self._step = min(stretch_for(self._k), self._k)
        self._stretches = -(-self._k // self._step)
        self._passed: dict[float, Ints] = {}

    @cached_property
    def _ascending(self) -> Array:
        """The sorted rows, from the least probable label on; -1 before them makes whole stretches of them."""
        rows = np.empty((self._n, self._stretches * self._step), dtype=self._block.dtype)
        real = rows[:, -self._k :]
        real[:] = self._block
        real.sort(axis=1)
        rows[:, : -self._k] = -1
        return rows

    # Places and stretches are counted from the most probable label on, which is the last in `_ascending`.

    def _at(self, rows: Ints, places: Ints) -> Array:
        return self._ascending[rows, -1 - places]

    @property
    def _leaders(self) -> Array:
        return self._ascending[:, :-3:-1]

    @property
    def _cut_up(self) -> Array:
        return self._ascending.reshape(self._n, self._stretches, self._step)

    @cached_property
    def _before(self) -> Floats:
        """The mass before each stretch, shape (rows, stretches)."""
        before = np.zeros((self._n, self._stretches))
        parts = self._cut_up.reshape(-1, self._step)
        sums = parts.astype(np.float64) @ np.ones(self._step)
        # What is not on the grid yet: float32 entries below 2^-29; float64 entries anywhere.
        rough = np.flatnonzero(parts[:, 0] < (2.0**-29 if parts.dtype == np.float32 else 2.0))
        sums[rough] = on_grid(parts[rough]) @ np.ones(self._step)
        np.cumsum(sums.reshape(before.shape)[:, :0:-1], axis=1, out=before[:, 1:])
        return before

    @cached_property
    def _firsts(self) -> Floats:
        """Lower bounds of the scores of the first entries of the stretches; exact but for equal entries."""
        values = self._ascending[:, :: -self._step]
        places = np.arange(self._stretches) * self._step
        ranks = FirstRanks(values, self._leaders, self._u, self._before, places)
        scores: Floats = np.broadcast_to(self._formula(ranks), values.shape)
        torn = values[:, 1:] == self._ascending[:, -self._step :: -self._step][:, :-1]
        if torn.any():
            scores = scores.copy()
            scores[:, 1:][torn] = -np.inf
            scores = np.maximum.accumulate(scores, axis=1)
        return scores

    def _along(self, rows: Ints, stretches: Ints) -> tuple[Floats, Bools]:
        """Return the scores along stretches, and in which of them equal entries lie across an end."""
        values = self._cut_up[rows, -1 - stretches, ::-1]
        u = None if self._u is None else self._u[rows]
        first = stretches * self._step
        ranks = SortedRanks(
            values, self._leaders[rows], u, self._before[rows, stretches, None], first[:, None]
        )
        scores = np.broadcast_to(self._formula(ranks), values.shape)
        last = stretches == self._stretches - 1
        if self._stretches * self._step > self._k and last.any():
            scores = np.where(first[:, None] + np.arange(self._step) < self._k, scores, np.inf)
        torn = (self._at(rows, first - 1) == values[:, 0]) & (stretches > 0)
        torn |= (self._at(rows, (first + self._step) * ~last) == values[:, -1]) & ~last
        return scores, torn

    def _whole(self, rows: Ints | slice) -> Floats:
        """Return the scores along whole rows."""
        values = self._ascending[rows, -self._k :][:, ::-1]
        u = None if self._u is None else self._u[rows]
        return np.broadcast_to(self._formula(SortedRanks(values, values[:, :2], u)), values.shape)

    @cached_property
    def _only(self) -> Floats:
        """The scores along rows of one stretch."""
        return self._whole(slice(None))

    def _learn(self, rungs: Floats) -> None:
        """Find out how many labels of each row score at most each of some rungs."""
        new = np.array([q for q in rungs if q not in self._passed])
        if self._stretches == 1:
            places = np.count_nonzero(self._only <= new[:, None, None], axis=2)
            self._passed.update(zip(new.tolist(), places, strict=True))
            return
        if not len(new):
            return
        stretch = np.stack([np.count_nonzero(self._firsts <= q, axis=1) - 1 for q in new])
        rung, row = np.nonzero(stretch >= 0)
        scores, torn = self._along(row, stretch[rung, row])
        places = np.zeros(stretch.shape, dtype=np.int64)
        places[rung, row] = stretch[rung, row] * self._step + np.count_nonzero(
            scores <= new[rung, None], axis=1
        )
        if torn.any():
            rows = np.unique(row[torn])
            whole = self._whole(rows)
            for i, q in enumerate(new):
                places[i, rows] = np.count_nonzero(whole <= q, axis=1)
        np.minimum(places, self._k, out=places)  # at infinity what the rows are filled up with counts too
        self._passed.update(zip(new.tolist(), places, strict=True))

    def sizes(self, q: float) -> Ints:
        if q not in self._passed:
            self._learn(np.array([q]))
        return self._passed[q]

    def matrix(self) -> Floats:
        values, columns = sorted_columns(self._block)
        matrix = np.empty(self._block.shape)
        scores = self._formula(SortedRanks(values, values[:, :2], self._u))
        np.put_along_axis(matrix, columns, np.broadcast_to(scores, matrix.shape), axis=1)
        return matrix

    def counts(self, rungs: Floats) -> Ints:
        if len(rungs) > FEW_RUNGS:
            return self._counts_of_many(self._whole(slice(None)), rungs)
        self._learn(rungs)
        return np.array([self._passed[q].sum() for q in rungs], dtype=np.int64)

    def counts_at_most(self, rungs: Floats) -> Ints:
        reached = [np.count_nonzero(self._firsts <= q) * self._step for q in rungs]
        return np.minimum(np.array(reached, dtype=np.int64), self._block.size)

    def between(self, low: float, high: float) -> Floats:
        if self._stretches == 1:
            return self._only[(self._only > low) & (self._only <= high)]
        start, stop = self.sizes(low), self.sizes(high)
        some = np.flatnonzero(stop > start)
        first = start[some] // self._step
        number = (stop[some] - 1) // self._step - first + 1
        rows = np.repeat(some, number)
        stretches = np.arange(len(rows)) - np.repeat(np.cumsum(number) - number - first, number)
        scores, torn = self._along(rows, stretches)
        places = (stretches * self._step)[:, None] + np.arange(self._step)
        if torn.any():
            again, which = np.unique(rows[torn], return_inverse=True)
            scores = scores.copy()
            scores[torn] = self._whole(again)[which[:, None], np.minimum(places[torn], self._k - 1)]
        inside: Floats = scores[(places >= start[rows, None]) & (places < stop[rows, None])]
        return inside

    def events(self, low: float, high: float) -> Events:
        inside = self._block >= self.cuts(high)[1]
        inside &= self._block < self.cuts(low)[1]
        rows, columns = np.nonzero(inside)
        order = np.lexsort((-self._block[rows, columns], rows))
        # Row by row and from the most probable label on, as the scores between come.
        return Events(rows[order], columns[order], self.between(low, high))

    def cuts(self, q: float) -> tuple[Array, Array]:
        places = self.sizes(q)
        cuts = self._at(np.arange(self._n), places - 1)
        cuts[places == 0] = np.inf
        return self._block, cuts[:, None]

    def row_scores(self, low: float, high: float) -> tuple[Ints, Floats]:
        number = self.sizes(high) - self.sizes(low)
        return np.repeat(np.arange(self._n), number), self.between(low, high)
