"""AuditedCoverage: what checked labels say of coverage, whatever the noise is.

The given label says something of where the true one is: points whose given label lies outside of a pilot's
prediction set miss their true label more often. So points are parted into two strata, outside and inside of
that set; coverage is known better from the share of each stratum and the hits in it than from the hits alone.
"""

import warnings
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Bools, Floats
from nacp.coverage.audit import Audit, AuditWarning, digest
from nacp.coverage.sample import Sample
from nacp.engine import Scratch
from nacp.errors import InputError
from nacp.noise.matrices import ClassMatrix
from nacp.points.arrays import row_slices
from nacp.stats.strata import strata_variance

# Strata are of use if they make the predicted variance of the estimate this many times smaller, at the least.
_WORTHWHILE = 1.12
# And if so many checked points can be expected in each of them.
_FEWEST = 6
# So many standard errors apart, checked points and others are not random parts of the same.
_CHOSEN = 6.0
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
        if not _worthwhile(pilot, self.m, len(audit.counted)):
            return None
        found = Strata(outside[audit.rows], _counts(outside[audit.counted]), pilot.outside)
        _warn_if_chosen(*_counts(found.outside), *found.counted)
        return found

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
        # A side on which nobody was checked counts as missed: the test fails there, too.
        n0, n1 = (max(side.shape[1], 1) for side in sides)
        p0, p1 = (side.sum(axis=1) / number for side, number in zip(sides, (n0, n1), strict=True))
        variance = strata_variance(w, p0, p1, n0, n1, strata.counted[1], unseen=0.0)
        return w * p0 + (1 - w) * p1, np.sqrt(variance * self.m)


def _warn_if_chosen(n0: int, m: int, count: int, points: int) -> None:
    """Warn if the checked points cannot be a random sample: far too many, or too few, lie outside."""
    share = (n0 + count) / (m + points)
    error = np.sqrt(share * (1 - share) * (1 / m + 1 / points))
    if abs(n0 / m - count / points) > _CHOSEN * error > 0:
        warnings.warn(
            f"the checked points do not look like a random sample: of {100 * n0 / m:.3g}% of them the label "
            f"lies outside of the pilot's sets, and of {100 * count / points:.3g}% of the others; if "
            "nacp.choose_audit chose them, pass its plan as audit=, else the promise does not hold",
            AuditWarning,
            stacklevel=2,
        )


def _counts(outside: Bools) -> tuple[int, int]:
    return int(np.count_nonzero(outside)), len(outside)


def _worthwhile(pilot: Pilot, m: int, points: int) -> bool:
    """Return whether strata are of use, by the pilot alone.

    How the checked points and the others happen to lie has no say: the test in strata holds given that, and
    the binomial one does not, so to choose between them by it would void the promise.
    """
    w, (p0, p1) = pilot.outside[0] / pilot.outside[1], pilot.predicted
    n0, n1 = w * m, (1 - w) * m
    if min(n0, n1) < _FEWEST or points * min(w, 1 - w) < _FEWEST:
        return False
    plain = w * p0 + (1 - w) * p1
    return bool(plain * (1 - plain) / m >= _WORTHWHILE * strata_variance(w, p0, p1, n0, n1, points))
