"""AuditedCoverage: what checked labels say of coverage, whatever the noise is.

The given label says something of where the true one is: in the prediction set that a pilot suggests, or not.
How probable that is, by the classifier and a noise model, parts points into two strata: those outside, where
it is doubtful, and those inside. Coverage is known better from the share of each stratum and the hits in it
than from the hits alone, also where the classifier and the noise model are wrong.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Bools, Floats
from nacp.coverage.asking import Answer, Question
from nacp.coverage.audit import Audit, AuditPlan, AuditWarning, digest
from nacp.coverage.crossing import ROUNDING
from nacp.coverage.sample import Sample
from nacp.engine import Block, Scratch
from nacp.errors import InputError, warn
from nacp.noise.matrices import ClassMatrix
from nacp.points.arrays import row_slices
from nacp.stats.strata import strata_variance

# Strata are of use if they make the predicted variance of the estimate this many times smaller, at the least.
_WORTHWHILE = 1.12
# And if so many checked points can be expected in each of them.
_FEWEST = 6
# So many standard errors apart, checked points and others are not random parts of the same.
_CHOSEN = 6.0
# The pilot of a random audit of m labels aims above the target by so many times 1/sqrt(m): about where the
# threshold will be. That of a plan aims at the target: too low costs less there, as more lie outside.
_BEYOND = 0.3
# Points lie outside if a set holds the true label with less than this probability. Where checks can be chosen
# the doubtful ones are checked more often than others, so that more of them may be told apart.
RANDOM_CUT, CHOSEN_CUT = 0.8, 0.95


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
        self._strata: dict[float, Strata | None] = {}

    def terms(self) -> tuple[Any, ...]:
        """Return what else than a sample it is made of: of parts of the points, of which none was checked."""
        none = np.empty(0, dtype=np.int64)
        return Audit(none, none, none, none), self._matrix

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
        return self.strata_of([alpha])[0]

    def strata_of(self, alphas: Sequence[float]) -> list[Strata | None]:
        """Return the strata for several alphas, which are read for at once."""
        audit = self.audit
        if audit.plan is not None:
            return [self._planned(audit.plan)] * len(alphas)
        new = [alpha for alpha in alphas if alpha not in self._strata]
        self._strata |= dict.fromkeys(new)
        pilots = {alpha: self.pilot(alpha, self.m) for alpha in new} if len(audit.pilot) else {}
        useful = {a: each for a, each in pilots.items() if _worthwhile(each, self.m, len(audit.counted))}
        sides = self.outside([each.threshold for each in useful.values()])
        for (alpha, pilot), outside in zip(useful.items(), sides, strict=True):
            found = Strata(outside[audit.rows], _counts(outside[audit.counted]), pilot.outside)
            _warn_if_chosen(*_counts(found.outside), *found.counted)
            self._strata[alpha] = found
        return [self._strata[alpha] for alpha in alphas]

    def _planned(self, plan: AuditPlan) -> Strata | None:
        """Return the strata of a plan, all of which it has kept; None if it picked at random."""
        if digest(self.sample.labels, self.sample.label_scores) != plan.digest:
            raise InputError("audit", "was chosen from other points than these, or with other labels")
        if not plan.outside.any():
            return None
        outside, (few, many) = np.isin(self.audit.rows, plan.rows[plan.outside]), plan.counts
        if outside.all() or not outside.any():
            side = "inside" if outside.all() else "outside"
            raise InputError(
                "clean", f"has no label of a point that lies {side} of the pilot's sets",
                remedy="check some of those that the audit chose",
            )  # fmt: skip
        return Strata(outside, (many, plan.n - plan.pilot), (few, plan.pilot))

    def pilot(self, alpha: float, m: float = np.inf, cut: float = RANDOM_CUT) -> Pilot:
        """Part the points where sets hold about 1 - alpha of the true labels, by the pilot's lights."""
        rows, target = self.audit.pilot, min(1 - alpha + _BEYOND / np.sqrt(m), 1 - alpha / 4)
        if not self.sample.score.takes_probabilities:  # then only labels that are right count as inside
            every = np.arange(self.k)
            target *= float(self._matrix.rest(every, every).mean() + self._matrix.own.mean())
        block = engine.open_block(self.sample.rows[rows], self.sample.spec)
        probable = self.probable(block, rows)
        order = np.argsort(block.placed, axis=None)
        reached = np.cumsum(probable.reshape(-1)[order])
        place = min(int(np.searchsorted(reached, target * len(rows))), len(order) - 1)
        threshold = float(block.placed.reshape(-1)[order[place]])
        inside = np.where(block.placed <= threshold, probable, 0.0).sum(axis=1)
        outside = inside < cut - ROUNDING
        predicted = [float(inside[some].mean()) if some.any() else 0.5 for some in (outside, ~outside)]
        return Pilot(threshold, _counts(outside), (predicted[0], predicted[1]))

    def outside(self, thresholds: Sequence[float], cut: float = RANDOM_CUT) -> list[Bools]:
        """Return for each threshold which of all points lie outside; in one read."""
        if not thresholds:
            return []
        question = _Outside(self, np.asarray(thresholds), cut)
        self.sample.read([question])
        return list(question.outside)

    def probable(self, block: Block, rows: Any) -> Floats:
        """Return how probable each label is, by the classifier, the noise model and the given label.

        Where there are no probabilities the given label is taken to be right.
        """
        labels = self.sample.labels[rows]
        places = np.arange(len(labels)), labels
        if not self.sample.score.takes_probabilities:
            found = np.zeros(block.placed.shape)
            found[places] = 1.0
            return found
        found = block.values * self._matrix.rest(np.arange(self.k)[None], labels[:, None])
        found[places] += block.values[places] * self._matrix.own[labels]
        total = found.sum(axis=1, keepdims=True)
        np.divide(found, total, out=found, where=total > 0)
        found[total[:, 0] <= 0] = 1 / self.k
        return found

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


class _Outside(Question):
    """Which rows lie outside, at several thresholds."""

    placed = True

    def __init__(self, coverage: AuditedCoverage, thresholds: Floats, cut: float) -> None:
        self.coverage, self._cut, self._given = coverage, cut, thresholds
        self._order = np.argsort(thresholds, kind="stable")
        self._thresholds = thresholds[self._order]
        self.outside = np.empty((len(thresholds), coverage.n), dtype=bool)

    def see(self, block: Block, rows: Any) -> None:
        probable, number = self.coverage.probable(block, rows), len(self._thresholds) + 1
        # By row, how much lies below the first threshold, between it and the second, and so on.
        places = np.searchsorted(self._thresholds, block.placed)
        places += np.arange(len(places))[:, None] * number
        parts = np.bincount(places.ravel(), probable.ravel(), minlength=len(places) * number)
        inside = np.cumsum(parts.reshape(-1, number), axis=1)[:, :-1]
        self.outside[self._order[:, None], np.arange(self.coverage.n)[rows]] = (
            inside < self._cut - ROUNDING
        ).T

    def terms(self) -> tuple[Any, ...]:
        return self._given, self._cut

    def answer(self) -> Answer:
        return Answer(rows=(self.outside.T,))

    def add(self, answer: Answer) -> None:
        assert answer.rows is not None
        self.outside = answer.rows[0].T


def _warn_if_chosen(n0: int, m: int, count: int, points: int) -> None:
    """Warn if the checked points cannot be a random sample: far too many, or too few, lie outside."""
    share = (n0 + count) / (m + points)
    error = np.sqrt(share * (1 - share) * (1 / m + 1 / points))
    if abs(n0 / m - count / points) > _CHOSEN * error > 0:
        warn(
            f"the checked points do not look like a random sample: {100 * n0 / m:.3g}% of them, and "
            f"{100 * count / points:.3g}% of the others, lie outside of the pilot's sets, or may; if "
            "nacp.choose_audit chose them, pass its plan as audit=, else the promise does not hold",
            AuditWarning,
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
