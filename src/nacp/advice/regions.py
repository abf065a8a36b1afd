"""Regions of (x, label) pairs in which a noise model puts a negative share of true labels: where to look, and
the test. Half of the points show where, the other half are for the test, and the other way round.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Bools, Floats, Ints
from nacp.calibration import Calibration
from nacp.coverage import Coverage, Question, Sample, Talk
from nacp.coverage.asking import Answer
from nacp.coverage.coverage import oscillation
from nacp.coverage.questions import add_exactly, exponent_of
from nacp.engine import Block
from nacp.errors import InputError
from nacp.guarantees import coverage_under
from nacp.stats.betting import Bets

_THRESHOLDS = 200
_ROUNDING = 1e-9


class Check(NamedTuple):
    """One test: an estimated share of true labels, which must not be negative.

    Attributes
    ----------
    region : str
        Of what the share is.
    share, error : float
        The estimate and its standard error.
    rejected : bool
        Whether it is significantly negative.
    """

    region: str
    share: float
    error: float
    rejected: bool


def regions_of(sample: Sample, cal: Calibration, *, doubtful: bool) -> "Talk[list[Region]]":
    """Return the regions to be tested: two found on each half of the points, with the shares of the other."""
    if sample.n < 2:
        raise InputError("probs", "must hold two points or more for a diagnosis", found=f"{sample.n}")
    # A smaller rate implies no more than a larger one does: the low end of an interval is tested.
    coverage = coverage_under(sample, None if cal.noise is None else cal.noise.doubt.ends[0])
    order = np.random.default_rng(cal.random_state).permutation(sample.n)
    halves = order[: sample.n // 2], order[sample.n // 2 :]
    favourites = FavouritesQuestion(coverage)
    yield [favourites]
    by_score = yield from falls(coverage, halves, cal.score.offset, doubtful)
    found = []
    for fall, (learn, test) in zip(by_score, (halves, halves[::-1]), strict=True):
        found += [fall, cells(coverage, learn, test, favourites.found)]
    return found


class FavouritesQuestion(Question):
    """For each row the label with the lowest score."""

    placed = True

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self.found: Ints = np.empty(coverage.n, dtype=np.int64)

    def see(self, block: Block, rows: slice | Ints) -> None:
        self.found[rows] = block.best

    def terms(self) -> tuple[Any, ...]:
        return ()

    def answer(self) -> Answer:
        return Answer(rows=(self.found.astype(np.int32),))

    def add(self, answer: Answer) -> None:
        assert answer.rows is not None
        self.found[:] = answer.rows[0]


class HalfQuestion(Question):
    """The shares of half of the points in F^c-hat at thresholds, summed up exactly."""

    def __init__(self, coverage: Coverage, inside: Bools, thresholds: Floats) -> None:
        self.coverage, self._thresholds, self._inside = coverage, thresholds, inside
        self._exponent = exponent_of(coverage)
        self._sums: Ints = np.zeros((3, len(thresholds)), dtype=np.int64)

    def see(self, block: Block, rows: slice | Ints) -> None:
        shares = self.coverage.shares(block, rows, self._thresholds)
        add_exactly(self._sums, shares[self._inside[rows]], self._exponent)

    @property
    def mean(self) -> Floats:
        """The mean share at each threshold."""
        units = np.ldexp(1.0, self._exponent - 30 * np.arange(1, 4))
        found: Floats = (units[:, None] * self._sums).sum(axis=0) / np.count_nonzero(self._inside)
        return found

    def begin(self, start: int) -> None:
        self._inside = self._inside[start : start + self.coverage.n]

    def terms(self) -> tuple[Any, ...]:
        return self._inside, self._thresholds

    def answer(self) -> Answer:
        return Answer((self._sums,))

    def add(self, answer: Answer) -> None:
        self._sums += answer.sums[0]


class EndsQuestion(Question):
    """Each point's shares in F^c-hat at both ends of an interval, and by how much a radius of 1 would blur
    them; an end that is infinite is None, and the shares there are known.
    """

    def __init__(
        self, coverage: Coverage, ends: Sequence[float | None], known: Floats, doubtful: bool
    ) -> None:
        self.coverage, self.ends, self._known, self._doubtful = coverage, ends, known, doubtful
        self.shares, self.doubts = np.tile(known, (coverage.n, 1)), np.zeros((coverage.n, 2))
        self._thresholds = np.array([end for end in ends if end is not None])
        self._columns = slice(0, 1) if ends[1] is None else slice(2 - len(self._thresholds), 2)
        self.done = not len(self._thresholds)

    def see(self, block: Block, rows: slice | Ints) -> None:
        self.shares[rows, self._columns] = self.coverage.shares(block, rows, self._thresholds)
        if self._doubtful:
            self.doubts[rows, self._columns] = oscillation(block, self._thresholds, self.coverage.inverse)

    def terms(self) -> tuple[Any, ...]:
        return self.ends, self._known, self._doubtful

    def answer(self) -> Answer:
        return Answer(rows=(self.shares, self.doubts))

    def add(self, answer: Answer) -> None:
        assert answer.rows is not None
        self.shares, self.doubts = answer.rows


class Region(NamedTuple):
    """A region in words; each test point's share in it, and by how much a radius of 1 would blur it; the
    least and the most that a share can be, and the most that it can be blurred.
    """

    words: str
    shares: Floats
    doubts: Floats
    low: float
    high: float
    most_doubt: float

    def check(self, level: float, radius: float) -> Check:
        """Bet that the mean share is negative, even with what the radius allows."""
        shares, high = self.shares + radius * self.doubts, self.high + radius * self.most_doubt
        width = high - self.low
        error = float(shares.std()) / math.sqrt(len(shares))
        won = False
        # Else no share can be negative, or none anything else, or not even the largest stake could win.
        if self.low < 0 < high and _could_win(shares, high, level):
            bets = Bets(1, len(shares), level, 0.99 * width / high)
            bets.play(-shares[:, None] / width)
            won = bool(bets.won[0])
        return Check(self.words, float(shares.mean()), error, won)


def _could_win(shares: Floats, high: float, level: float) -> bool:
    """Return whether a bet that shares are negative could be won if it lost nothing on those that are not."""
    gained = float(np.log1p(0.99 / high * np.maximum(-shares, 0)).sum())
    return gained >= math.log(1 / level) * (1 - _ROUNDING)


def falls(
    coverage: Coverage, halves: tuple[Ints, Ints], offset: float, doubtful: bool
) -> "Talk[list[Region]]":
    """Find where F^c-hat falls most on each half, and return the other's shares in that increment."""
    scores = coverage.sample.label_scores
    grids = [
        np.unique(np.quantile(scores[learn], np.linspace(0, 1, _THRESHOLDS), method="lower"))
        for learn in halves
    ]
    first = np.isin(np.arange(coverage.n), halves[0])
    sums = [HalfQuestion(coverage, inside, q) for inside, q in zip((first, ~first), grids, strict=True)]
    yield [*sums]
    falling = []
    for q, found in zip(grids, sums, strict=True):
        curve = np.concatenate([[0.0], found.mean, [1.0]])  # at -inf and +inf it is known
        end = int(np.argmax(np.maximum.accumulate(curve) - curve))
        start = int(np.argmax(curve[: end + 1]))
        places = [None, *q.tolist(), None]
        falling.append(EndsQuestion(coverage, (places[start], places[end]), curve[[start, end]], doubtful))
    yield [*falling]
    low, high = coverage.inverse.subset_range()
    regions = []
    for test, fall in zip(halves[::-1], falling, strict=True):
        below, above = fall.shares[test].T
        words = f"with a score {_between(*(None if end is None else end + offset for end in fall.ends))}"
        doubts = fall.doubts[test].sum(axis=1)
        regions.append(Region(words, above - below, doubts, low, high, 2 * (high - low)))
    return regions


def _between(low: float | None, high: float | None) -> str:
    """Write an interval with as many digits as tell its ends apart; None is an end that is infinite."""
    if low is None or high is None:
        return "anywhere" if low is high else f"above {low:.4g}" if high is None else f"up to {high:.4g}"
    told = ((f"{low:.{digits}g}", f"{high:.{digits}g}") for digits in range(4, 18))
    least, most = next((pair for pair in told if pair[0] != pair[1]), (str(low), str(high)))
    return f"from {least} to {most}"


def cells(coverage: Coverage, learn: Ints, test: Ints, favourites: Ints) -> Region:
    """Find for which favourite and label the joint frequency comes out negative on some points, weigh these
    cells by how negative it is, and return the others' shares in them.
    """
    inverse, labels, k = coverage.inverse, coverage.sample.labels, coverage.k
    (shares, doubts), low, high, largest = np.zeros((2, len(test))), 0.0, 0.0, 0.0
    for learnt, tested in zip(_by_class(favourites[learn], k), _by_class(favourites[test], k), strict=True):
        if not len(learnt):
            continue
        joint = inverse.push(np.bincount(labels[learn[learnt]], minlength=k).astype(np.float64))
        weights = np.where(joint < -_ROUNDING * len(learnt), -joint, 0.0)
        table = inverse.pull(weights)  # the share of a point with this favourite, for each label
        shares[tested], doubts[tested] = table[labels[test[tested]]], np.ptp(table)
        low, high = min(low, table.min()), max(high, table.max())
        largest = max(largest, weights.max())
    unit = largest or 1.0
    words = "in some pairs of the classifier's favourite and a true class (weighted)"
    return Region(words, shares / unit, doubts / unit, low / unit, high / unit, (high - low) / unit)


def _by_class(values: Ints, k: int) -> list[Ints]:
    """Return for each class the places where it occurs."""
    order = np.argsort(values, kind="stable")
    return np.split(order, np.cumsum(np.bincount(values, minlength=k))[:-1])
