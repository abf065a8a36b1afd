"""The estimator: F^c-hat from the scores of the given labels and from tallies of all pairs.

One estimator serves every noise model: ``F^c-hat(q) = mean_i sum_{l in C_q(x_i)} W[y_i, l]``, a signed,
weighted ECDF over all n k scores (paper eqs. 5 to 8 and 13 to 16). With ``W = diag(own) + rest`` it has two
parts: the given labels' scores, which are few and kept, and all pairs, which are only ever counted.

The weights are rounded once, to whole multiples of a unit at which no sum can overflow. Integer sums do
not depend on the order, so every route to a threshold gives the same one; where all weights are equal, as
in uniform noise, they are counts and nothing is rounded. Else F^c-hat is off by at most 2^-63 n k times the
largest row sum of W: 1e-11 at 10^8 points times classes, and far less where the errors cancel.
"""

import math

import numpy as np

from nacp import engine
from nacp._types import Floats, Ints
from nacp.coverage.tally import Tally
from nacp.engine.cells import EDGES
from nacp.noise.matrices import ClassMatrix


class Estimator:
    """The estimate of the clean coverage under one W, for points with given labels.

    Parameters
    ----------
    label_scores, labels : arrays of shape (n,) or (n, a)
        The native scores of the given labels, and these.
    inverse : ClassMatrix
        W.
    points : int, optional
        For how many points the unit of the weights must suffice; by default for n.
    parts : array of shape (n, a), optional
        Of several labels for each point, the part of each: 0 where it is missing, and 1 in all.
    """

    def __init__(
        self,
        label_scores: Floats,
        labels: Ints,
        inverse: ClassMatrix,
        points: int | None = None,
        parts: Floats | None = None,
    ) -> None:
        self.n, self.k = len(labels), inverse.k
        points, self._parts = points or self.n, None
        if parts is not None:
            some = parts > 0
            label_scores, labels, self._parts = label_scores[some], labels[some], parts[some]
        own = inverse.own
        self._own_value, largest = float(own[0]), float(np.abs(own).max())
        self.label_scores: Floats
        # Gains and losses: of any label, or up to it.
        self._alike, self._upto = np.zeros(2, dtype=np.int64), None
        if self._parts is None and (own == own[0]).all():
            self._own_unit, weights = whole(own[:1], largest, largest, points)
            given, self._alike = engine.Pairs(label_scores, weights[:0]), _signed(weights)[:, 0]
            self.label_scores, _ = engine.ascending(given)
        else:
            if self._parts is None:
                self._own_unit, own_weights = whole(own, largest, largest, points)
                weights = own_weights[labels]
            else:
                each = own[labels] * self._parts
                self._own_unit, weights = whole(each, np.abs(each).max(), largest, points)
            self.label_scores, weights = engine.ascending(engine.Pairs(label_scores, weights))
            self._upto = np.cumsum(_signed(np.append(0, weights)), axis=1)

        self.unit, self.constant = rest_unit(inverse, points)
        diagonal = inverse.diagonal - own
        positive, negative = inverse.row_sums()
        totals = np.array([positive + np.maximum(diagonal, 0), negative + np.minimum(diagonal, 0)])
        counts = numbers = np.bincount(labels, minlength=len(own))
        if self._parts is not None:
            counts = np.bincount(labels, self._parts, minlength=len(own))
        self._own_size = math.sqrt(numbers @ own**2 / len(labels))  # of a label's own weight, about
        self._totals: Floats = np.abs(totals @ counts) * (1 + 1e-9)

    @property
    def rises_by_labels(self) -> bool:
        """Whether all labels add the same, and all pairs take the same away, or nothing."""
        return self._upto is None and self._own_value > 0 and self.constant is not None and self.constant <= 0

    @property
    def per_label_and_pair(self) -> tuple[tuple[int, int], tuple[float, float]]:
        """What each label and each pair adds, and the units of both, if it `rises_by_labels`."""
        assert self.constant is not None
        return (int(self._alike[0] - self._alike[1]), self.constant), (self._own_unit, self.unit)

    @property
    def falling(self) -> float:
        """What all pairs of a point gain and lose, on average."""
        return float(self._totals.sum()) / self.n

    def label_error(self, q: Floats, points: int) -> Floats:
        """Return the standard error of the labels' part at q, if they are a random part of so many points."""
        share = self.labels_upto(q) / len(self.label_scores)
        return self._own_size * np.sqrt(share * (1 - share) / self.n * (1 - self.n / points))

    def _own(self, labels: Ints) -> Ints:
        """Return what the first so many labels gain and lose."""
        return self._alike[:, None] * labels if self._upto is None else self._upto[:, labels]

    def labels_upto(self, q: Floats) -> Ints:
        """Return how many given labels score at most q."""
        return self.label_scores.searchsorted(q, side="right")

    def parts(self, q: Floats, gains: Ints, losses: Ints) -> tuple[Floats, Floats, Floats]:
        """Return the part of n F^c-hat that rises with q, the one that falls, and F^c-hat.

        `gains` and `losses` are those of the pairs that score at most q.
        """
        labels, every = self.labels_upto(q), q == np.inf
        own = self._own(labels) * self._own_unit
        rising = own[0] + np.where(every, self._totals[0], gains * self.unit)
        falling = own[1] + np.where(every, self._totals[1], losses * self.unit)
        return rising, falling, self.clean_of(labels, gains - losses)

    def clean(self, q: Floats, net: Ints) -> Floats:
        """Return F^c-hat at q; `net` is the weight of the pairs that score at most q."""
        return self.clean_of(self.labels_upto(q), net)

    def clean_of(self, labels: Ints, net: Ints) -> Floats:
        """Return F^c-hat where so many labels, and pairs of such a weight, score at most q."""
        clean: Floats = (np.subtract(*self._own(labels)) * self._own_unit + net * self.unit) / self.n
        return clean

    def weighed(self, tally: Ints) -> Ints:
        """Return pairs, gains and losses; where all weights are equal, these follow from the pairs."""
        if self.constant is None:
            return tally
        pairs = tally[0]
        return np.array([pairs, pairs * max(self.constant, 0), pairs * max(-self.constant, 0)])

    def tally(self, counted: Ints) -> Tally:
        """Return what was counted in all cells as a tally; equal weights are counted, not added."""
        cells = (counted[0] > 0).nonzero()[0]
        # A label is one of the pairs: none scores between these cells, or all that do are in the next.
        upto = self.labels_upto(EDGES[cells])
        below = np.append(0, upto[:-1])
        own = labels = upto - below
        own_unit, unit, pairs = self._own_value, self.unit, counted[0, cells]
        if self.constant is None or self._parts is not None:
            own, own_unit = np.subtract(*(self._own(upto) - self._own(below))), self._own_unit
        if self.constant is None:
            _, gains, losses = counted[:, cells]
        else:
            gains, losses = pairs * (self.constant > 0), pairs * (self.constant < 0)
            unit = abs(self.constant) * self.unit
        return Tally(self.n, self.k, cells, labels, pairs, own, gains, losses, (own_unit, unit))


def _signed(weights: Ints) -> Ints:
    """Return gains and losses."""
    return np.array([np.maximum(weights, 0), np.maximum(-weights, 0)])


def rest_unit(inverse: ClassMatrix, n: int) -> tuple[float, int | None]:
    """Return the unit of the pairs' weights, and the weight of all of them where it is one."""
    largest, row_sum = inverse.rest_bounds()
    unit = unit_of(largest, row_sum, n)
    constant = inverse.constant_rest
    return unit, None if constant is None else round(constant / unit)


def whole(values: Floats, largest: float, row_sum: float, n: int) -> tuple[float, Ints]:
    """Return the unit of values, and the values in it."""
    unit = unit_of(largest, row_sum, n)
    return unit, np.rint(values / unit).astype(np.int64)


def unit_of(largest: float, row_sum: float, n: int) -> float:
    """Return a unit at which n sums of at most `row_sum` fit into int64.

    The largest value is a whole number of units, so equal values are not rounded at all.
    """
    return float(largest / math.floor(min(2.0**52, 2.0**62 * largest / (n * row_sum)))) if largest else 1.0
