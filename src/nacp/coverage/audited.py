"""AuditedCoverage: what checked labels say of coverage, whatever the noise is.

The given label says something of where the true one is: points whose given label lies outside of a pilot's
prediction set miss their true label more often. So points are parted into two strata, outside and inside of
that set; coverage is known better from the share of each stratum and the hits in it than from the hits alone.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Bools, Floats
from nacp.coverage.audit import Audit, digest
from nacp.coverage.sample import Sample
from nacp.engine import Scratch
from nacp.errors import InputError
from nacp.noise.matrices import ClassMatrix
from nacp.points.arrays import row_slices

# Strata are of use if they make the predicted variance of the estimate this many times smaller, at the least.
_WORTHWHILE = 1.12
# The pilot aims above the target by so many times 1/sqrt(m): about where the threshold will be.
_BEYOND = 0.3


class Pilot(NamedTuple):
    """Where points are parted, how many of the pilot lie outside, and what coverage it predicts in both."""

    threshold: float
    outside: tuple[int, int]
    predicted: tuple[float, float]


class Strata(NamedTuple):
    """Which checked points lie outside, and how many of how many points do: of the counted, of the pilot."""

    outside: Bools
    counted: tuple[int, int]
    pilot: tuple[int, int]


class AuditedCoverage:
    """What can be known of the clean coverage from checked labels.

    Parameters
    ----------
    sample : Sample
        All points, with their given labels.
    audit : Audit
        The checked ones, and what the others are for.
    matrix : ClassMatrix
        P, by which the pilot's threshold is chosen. It may be as wrong as it likes.
    """

    def __init__(self, sample: Sample, audit: Audit, matrix: ClassMatrix) -> None:
        self.sample, self.audit, self._matrix = sample, audit, matrix
        self.n, self.k, self.m = sample.n, sample.k, len(audit.rows)

    @cached_property
    def checked_scores(self) -> Floats:
        """The native scores of the true labels of the checked points; infinite where nobody could decide."""
        scores, scratch = np.empty(self.m), Scratch()
        for some in row_slices(self.m, self.k):
            block = engine.open_block(self.sample.rows[self.audit.rows[some]], self.sample.spec, scratch)
            scores[some] = engine.label_scores(block, np.maximum(self.audit.labels[some], 0))
        return np.where(self.audit.labels < 0, np.inf, scores)

    def strata(self, alpha: float) -> Strata | None:
        """Return the strata for an alpha; None where they would be of no use."""
        audit, scores = self.audit, self.sample.label_scores
        if audit.plan is not None:
            if digest(self.sample.labels, scores) != audit.plan.digest:
                raise InputError("audit", "was chosen from other points than these, or with other labels")
            outside = scores > audit.plan.native_threshold
            if not outside.any():  # a plan that picks at random
                return None
            found = Strata(
                outside[audit.rows], _counts(outside[audit.counted]), _counts(outside[audit.pilot])
            )
            if found.outside.all() or not found.outside.any():
                side = "inside" if found.outside.all() else "outside"
                raise InputError(
                    "clean", f"has no label of a point that lies {side} of the pilot's sets",
                    remedy="check some of those that the audit chose",
                )  # fmt: skip
            return found
        if not len(audit.pilot):
            return None
        pilot = self.pilot(alpha, self.m)
        outside = scores > pilot.threshold
        found = Strata(outside[audit.rows], _counts(outside[audit.counted]), pilot.outside)
        return found if _worthwhile(found, pilot.predicted, self.m) else None

    def pilot(self, alpha: float, m: int) -> Pilot:
        """Part the points where the pilot's sets hold the true label with about 1 - alpha, by its own lights.

        The classifier, a noise model and the given label say how probable each label is.
        """
        rows, target = self.audit.pilot, min(1 - alpha + _BEYOND / np.sqrt(m), 1 - alpha / 4)
        labels, own = self.sample.labels[rows], self.sample.label_scores[rows]
        if not self.sample.score.takes_probabilities:
            kept = float(
                self._matrix.rest(np.arange(self.k), np.arange(self.k)).mean() + self._matrix.own.mean()
            )
            threshold = float(np.quantile(own, target * kept, method="lower"))
            return Pilot(threshold, _counts(own > threshold), (0.0, 1.0))
        block = engine.open_block(self.sample.rows[rows], self.sample.spec)
        probable = block.values * self._matrix.rest(np.arange(self.k)[None], labels[:, None])
        places = np.arange(len(labels)), labels
        probable[places] += block.values[places] * self._matrix.own[labels]
        total = probable.sum(axis=1, keepdims=True)
        probable = np.divide(probable, total, out=np.full_like(probable, 1 / self.k), where=total > 0)
        order = np.argsort(block.placed, axis=None)
        reached = np.cumsum(probable.reshape(-1)[order])
        place = min(int(np.searchsorted(reached, target * len(rows))), len(order) - 1)
        threshold = float(block.placed.reshape(-1)[order[place]])
        inside = np.where(block.placed <= threshold, probable, 0.0).sum(axis=1)
        outside = own > threshold
        predicted = [float(inside[some].mean()) if some.any() else 0.5 for some in (outside, ~outside)]
        return Pilot(threshold, _counts(outside), (predicted[0], predicted[1]))

    def estimates(self, thresholds: Floats, strata: Strata | None) -> tuple[Floats, Floats]:
        """Return F^c-hat at thresholds, and the standard deviation of one checked point's share in it."""
        hit = self.checked_scores <= thresholds[:, None]
        if strata is None:
            clean = hit.mean(axis=1)
            return clean, np.sqrt(clean * (1 - clean))
        w = strata.counted[0] / strata.counted[1]
        sides = [hit[:, side] for side in (strata.outside, ~strata.outside)]
        (p0, p1), (n0, n1) = (side.mean(axis=1) for side in sides), (side.shape[1] for side in sides)
        variance = w**2 * p0 * (1 - p0) / n0 + (1 - w) ** 2 * p1 * (1 - p1) / n1
        variance += w * (1 - w) * (p1 - p0) ** 2 / strata.counted[1]
        return w * p0 + (1 - w) * p1, np.sqrt(variance * self.m)


def _counts(outside: Bools) -> tuple[int, int]:
    return int(np.count_nonzero(outside)), len(outside)


def _worthwhile(strata: Strata, predicted: tuple[float, float], m: int) -> bool:
    """Return whether strata are of use, by what the pilot predicts; the checked labels have no say in it."""
    n0, n1 = int(np.count_nonzero(strata.outside)), int(np.count_nonzero(~strata.outside))
    count, points = strata.counted
    if min(n0, n1, count, points - count) < 3:
        return False
    w, (p0, p1) = count / points, predicted
    plain = w * p0 + (1 - w) * p1
    variance = w**2 * (p0 * (1 - p0) + 0.5 / n0) / n0 + (1 - w) ** 2 * (p1 * (1 - p1) + 0.5 / n1) / n1
    variance += w * (1 - w) * (p1 - p0) ** 2 / points
    return bool(plain * (1 - plain) / m >= _WORTHWHILE * variance)
