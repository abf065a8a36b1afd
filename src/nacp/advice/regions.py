"""Regions of (x, label) pairs in which a noise model estimates a negative share of true labels.

If the model is right, ``sum over l of W[y, l] h(x, l)`` has the mean ``E h(x, true label)`` for every h, so a
negative share refutes it. Half of the points find the regions, the other half test them, and vice versa.
"""

import math
from typing import NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.calibration import Calibration
from nacp.coverage.curve import Block, Curve, inverse_of, oscillation
from nacp.coverage.grid import INFINITE
from nacp.coverage.tally import Sample
from nacp.errors import InputError
from nacp.noise import Noise
from nacp.points.tensors import fetched
from nacp.stats.betting import Bets

_THRESHOLDS = 200
_ROUNDING = 1e-9


class Check(NamedTuple):
    """A test of an estimated share of true labels, which must not be negative.

    `error` is the standard error of the `share`; it is `rejected` if it is significantly negative.
    """

    region: str
    share: float
    error: float
    rejected: bool


class Region(NamedTuple):
    """A region in words, and the shares of the test points in it.

    `doubts` are the most by which a radius of 1 may change the shares. `low`, `high` and `most_doubt` bound
    the shares and doubts of any point.
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
        # There is nothing to bet on if all shares have one sign.
        won = self.low < 0 < high and bet(-shares, level, width, 0.99 * width / high)
        return Check(self.words, float(shares.mean()), error, won)


def bet(gains: Floats, level: float, width: float, most: float) -> bool:
    """Bet that the mean of some numbers is above 0, in units of a width; return whether the bet was won."""
    bets = Bets(1, len(gains), level, 0.0, width, most, engine.current().bet)
    bets.play(gains[:, None])
    return bets.failed < 0


def regions_of(sample: Sample, cal: Calibration, *, doubtful: bool) -> list[Region]:
    """Return the regions to test: two found on each half of the points, with the shares of the other."""
    if sample.n < 2:
        raise InputError("probs", "must hold two points or more for a diagnosis", found=f"{sample.n}")
    # A smaller rate implies no more than a larger one does: the low end of an interval is tested.
    noise = None if cal.noise is None else cal.noise.doubt.ends[0]
    order = np.random.default_rng(cal.random_state).permutation(sample.n)
    halves = order[: sample.n // 2], order[sample.n // 2 :]

    def favourite(values: Array, where: slice | Ints) -> Ints:
        block = fetched(values) if engine.is_tensor(values) else values
        return np.asarray(block.argmax(axis=1) if sample.score.takes_probabilities else block.argmin(axis=1))

    favourites = np.concatenate(list(sample.rows.map(favourite)))
    found = []
    for learn, test in (halves, halves[::-1]):
        found.append(fall(sample, noise, learn, test, doubtful))
        found.append(pairs(sample, noise, learn, test, favourites))
    return found


def fall(sample: Sample, noise: Noise | None, learn: Ints, test: Ints, doubtful: bool) -> Region:
    """Find where F^c-hat falls most on some points, and return the others' shares in that increment."""
    scores = np.sort(sample.label_cells[learn], axis=None)
    ranks = np.linspace(0, len(scores) - 1, _THRESHOLDS).astype(np.int64)
    cells = np.unique(scores[ranks])
    few = Curve.of(sample.some(learn), noise)
    clean = np.concatenate([[0.0], few.at(cells, few.clean), [1.0]])  # it is known at -inf and at +inf
    end = int(np.argmax(np.maximum.accumulate(clean) - clean))
    start = int(np.argmax(clean[: end + 1]))
    ends = np.array([-1, *cells, INFINITE])[[start, end]]
    shares, doubts = shares_and_doubts(sample, few, ends, test, doubtful=doubtful)
    low, high = few.weights.inverse.subset_range()
    start_score, end_score = np.append(few.spec.thresholds, -np.inf)[ends] + sample.score.offset
    since = "up to" if np.isneginf(start_score) else f"from {start_score:.6g} to"
    words = f"with a score {since} {end_score:.6g}"
    return Region(words, shares[:, 1] - shares[:, 0], doubts.sum(axis=1), low, high, 2 * (high - low))


def pairs(sample: Sample, noise: Noise | None, learn: Ints, test: Ints, favourites: Ints) -> Region:
    """Find the pairs of favourite and true class whose joint frequency comes out negative on some points, and
    return the others' shares in them, each weighted by how negative the frequency is.
    """
    inverse, labels, k = inverse_of(noise, sample.k), sample.labels[:, 0], sample.k
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
    order = np.argsort(values, kind="stable")
    return np.split(order, np.cumsum(np.bincount(values, minlength=k))[:-1])


def shares_and_doubts(
    sample: Sample, curve: Curve, cells: Ints, rows: Ints, *, doubtful: bool
) -> tuple[Floats, Floats]:
    """Return shares of rows at thresholds, and how much a radius of 1 may change each: (rows, thresholds).

    The sets are empty at the cell -1.
    """
    distinct, places = np.unique(np.maximum(cells, 0), return_inverse=True)

    def found(values: Array, where: slice | Ints) -> tuple[Floats, Floats]:
        block = Block(sample, values, where)
        shares = curve.shares(block, distinct)[:, places] * (cells >= 0)
        if not doubtful:
            return shares, np.zeros(shares.shape)
        return shares, oscillation(block.cells, cells, curve.weights.inverse)

    shares, doubts = zip(*sample.rows.map(found, rows), strict=True)
    return np.concatenate(shares), np.concatenate(doubts)
