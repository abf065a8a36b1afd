"""Estimates of coverage from checked labels, for any noise.

The points are divided into two strata, so that the estimate is more precise. A point lies outside if it is
doubtful that its prediction set, at the threshold of a pilot, holds its true label; else it lies inside. The
classifier, the given label and a noise model decide what is doubtful. The promise holds even if the
classifier and the model are wrong (docs/guarantees.md, A1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Array, Bools, Floats, Ints
from nacp.coverage.curve import ROUNDING
from nacp.coverage.tally import Sample
from nacp.errors import InputError, warn
from nacp.guarantees import Finding
from nacp.noise.matrices import ClassMatrix
from nacp.points.tensors import fetched
from nacp.stats.counts import allowed_misses
from nacp.stats.strata import hits_needed_inside, strata_interval, strata_variance
from nacp.wrapping import counted

if TYPE_CHECKING:
    from nacp.audit.plan import AuditPlan

# The pilot is a tenth of the points that are not checked, with at most this number of points and of entries.
_PILOT_SHARE, _PILOT_MOST, _PILOT_ENTRIES = 10, 500, 1 << 22
# Strata are used if they divide the predicted variance of the estimate by _WORTHWHILE or more, and if _FEWEST
# checked points or more can be expected in each of them.
_WORTHWHILE, _FEWEST = 1.12, 6
_CHOSEN = 6.0  # Beyond this number of standard errors, the checked points are not a random sample.
# The pilot of a random audit of m labels aims at the target plus this number divided by sqrt(m), which is
# near the threshold to be found. The pilot of a plan aims at the target: a threshold that is too low matters
# less there, because more points then lie outside.
_BEYOND = 0.3
# A point lies outside if its set holds the true label with less than this probability. The limit is higher
# for plans, which check points outside more often than others.
RANDOM_CUT, CHOSEN_CUT = 0.8, 0.95


class AuditWarning(UserWarning):
    """The checked points do not look like a random sample, on which the promise rests."""


@dataclass(frozen=True, eq=False)
class Audit:
    """The checked points with their true labels, and how the other points are used."""

    rows: Ints  # the checked points
    labels: Ints  # their true labels; -1 where the checker could not decide
    pilot: Ints  # the points that define the strata; they are not used otherwise
    counted: Ints  # the points whose strata are counted
    plan: AuditPlan | None = (
        None  # the plan that chose the checked points; None if they were picked at random
    )
    given: tuple[int, Ints] | None = (
        None  # the number of all points, and the rows of these; None for all rows
    )
    look: int = 1  # the number of this look at the plan
    unused: int = 0  # the number of checked labels that belong to later looks

    @property
    def strata(self) -> Strata | None:
        """The strata of the plan; None if it picked at random, or if there is no plan."""
        plan = self.plan
        if plan is None or not plan.outside.any():
            return None
        outside, (few, many) = np.isin(self.rows, plan.rows[plan.outside]), plan.counts
        if outside.all() or not outside.any():
            side = "inside" if outside.all() else "outside"
            problem = f"has no label of a point that lies {side} of the pilot's sets"
            raise InputError("clean", problem, remedy="check some of those that the audit chose")
        return Strata(outside, (many, plan.n - plan.pilot), (few, plan.pilot))

    def random_part(self, rng: np.random.Generator) -> Ints:
        """Return the places of checked points that are a random sample of all points, in a random order.

        With a plan, strata are drawn with their frequencies until one has no checked point left.
        """
        order = rng.permutation(len(self.rows))
        if self.plan is None or not self.plan.outside.any():
            return order
        outside = np.isin(self.rows[order], self.plan.rows[self.plan.outside])
        drawn = rng.permutation(np.arange(self.plan.n - self.plan.pilot) < self.plan.counts[1])
        missing = (np.cumsum(drawn) > np.sum(outside)) | (np.cumsum(~drawn) > np.sum(~outside))
        end = int(np.append(missing, True).argmax())
        first = int(np.sum(drawn[:end]))
        return rng.permutation(np.concatenate([order[outside][:first], order[~outside][: end - first]]))


def deal(n: int, k: int, rows: Ints, labels: Ints, seed: int) -> Audit:
    """Return a random audit, whose pilot is a random part of the points that were not checked."""
    others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(n), rows, assume_unique=True))
    size = pilot_size(len(others), k)
    return Audit(rows, labels, others[:size], others[size:])


def pilot_size(n: int, k: int) -> int:
    """Return the size of the pilot for n points."""
    return min(n // _PILOT_SHARE, _PILOT_MOST, max(_PILOT_ENTRIES // k, 20))


def digest(sample: Sample) -> str:
    """Return a short digest of the given labels and their scores."""
    found = sha256(np.ascontiguousarray(sample.labels, dtype=np.int64).tobytes())
    found.update(np.ascontiguousarray(sample.label_scores, dtype=np.float64).tobytes())
    return found.hexdigest()[:16]


def other_points() -> InputError:
    """Return the error where points are not those that a plan was chosen from."""
    return InputError("audit", "was chosen from other points than these, or with other labels")


class Pilot(NamedTuple):
    """The threshold that defines the strata, and what it predicts."""

    threshold: float
    outside: tuple[int, int]  # the number of points outside, and of all points of the pilot
    predicted: tuple[float, float]  # the coverage outside and inside


class Strata(NamedTuple):
    """The strata at one threshold."""

    outside: Bools  # whether each checked point lies outside
    counted: tuple[int, int]  # the number of points outside, and of all, among the counted points
    pilot: tuple[int, int]  # the same of the pilot

    @property
    def weights(self) -> Floats:
        """The part of all points that each checked one stands for."""
        share, checked = self.counted[0] / self.counted[1], np.count_nonzero(self.outside)
        return np.where(self.outside, share / checked, (1 - share) / (len(self.outside) - checked))

    def interval(self, hit: Bools, tail: float) -> tuple[float, float]:
        """Return an interval for the share of hits among all points, from which checked ones are hits."""
        (x0, n0), (x1, n1) = (_counts(hit[side]) for side in (self.outside, ~self.outside))
        return strata_interval((x0, x1), (n0, n1), self.counted, tail)


class CheckedSample:
    """A sample some of whose labels were checked.

    The noise matrix only defines the strata: a wrong one makes the estimate less precise, but not invalid.
    """

    def __init__(self, sample: Sample, audit: Audit, matrix: ClassMatrix) -> None:
        self.sample, self.audit, self._matrix = sample, audit, matrix
        self.n, self.k, self.m = sample.n, sample.k, len(audit.rows)
        self._strata: dict[float, Strata | None] = {}  # by alpha, as several guarantees use the same strata

    @cached_property
    def checked_scores(self) -> Floats:
        """The native grid points of the true labels of the checked points; infinite where undecided."""
        labels, score = self.audit.labels, self.sample.score
        checked = Sample.of(self.sample.rows.some(self.audit.rows), np.maximum(labels, 0), score)
        return np.where(labels < 0, np.inf, score.spec.thresholds[checked.label_cells[:, 0]])

    def strata_of(self, alphas: Sequence[float]) -> list[Strata | None]:
        """Return the strata for each alpha, or None if they are of no use, in one pass over the rows."""
        audit = self.audit
        if audit.plan is not None:
            if digest(self.sample) != audit.plan.digest:
                raise other_points()
            return [audit.strata] * len(alphas)
        new = [alpha for alpha in dict.fromkeys(alphas) if alpha not in self._strata]
        self._strata |= dict.fromkeys(new)
        pilots = {alpha: self.pilot(alpha, self.m) for alpha in new} if len(audit.pilot) else {}
        useful = {a: each for a, each in pilots.items() if _worthwhile(each, self.m, len(audit.counted))}
        sides = self.outside([each.threshold for each in useful.values()])
        for (alpha, pilot), outside in zip(useful.items(), sides, strict=True):
            found = Strata(outside[audit.rows], _counts(outside[audit.counted]), pilot.outside)
            _warn_if_chosen(*_counts(found.outside), *found.counted)
            self._strata[alpha] = found
        return [self._strata[alpha] for alpha in alphas]

    def pilot(self, alpha: float, m: float = np.inf, cut: float = RANDOM_CUT) -> Pilot:
        """Return the threshold at which, by the pilot, sets hold about 1 - alpha of the true labels."""
        rows, target = self.audit.pilot, min(1 - alpha + _BEYOND / np.sqrt(m), 1 - alpha / 4)
        if not self.sample.score.takes_probabilities:  # then only correct given labels count as inside
            target *= float(self._matrix.diagonal.mean())
        values = self.sample.rows.whole(rows)
        scores = engine.of(values).scores(values, self.sample.score.spec)
        probable = self._probable(values, rows)
        order = np.argsort(scores, axis=None)
        reached = np.cumsum(probable.reshape(-1)[order])
        place = min(int(np.searchsorted(reached, target * len(rows))), len(order) - 1)
        threshold = float(scores.reshape(-1)[order[place]])
        inside = np.where(scores <= threshold, probable, 0.0).sum(axis=1)
        outside = inside < cut - ROUNDING
        predicted = [float(inside[some].mean()) if some.any() else 0.5 for some in (outside, ~outside)]
        return Pilot(threshold, _counts(outside), (predicted[0], predicted[1]))

    def outside(self, thresholds: Sequence[float], cut: float = RANDOM_CUT) -> list[Bools]:
        """Return which points lie outside at each native threshold, in one pass over the rows."""
        if not thresholds:
            return []

        def found(values: Array, where: slice | Ints) -> Bools:
            scores = engine.of(values).scores(values, self.sample.score.spec)
            probable = self._probable(fetched(values) if engine.is_tensor(values) else values, where)
            inside = [np.where(scores <= each, probable, 0.0).sum(axis=1) for each in thresholds]
            return np.array(inside) < cut - ROUNDING

        return list(np.concatenate(list(self.sample.rows.map(found)), axis=1))

    def _probable(self, values: Array, rows: slice | Ints) -> Floats:
        """Return the probability of each label, by the classifier, the noise model and the given label."""
        labels = self.sample.labels[rows, 0]
        if not self.sample.score.takes_probabilities:  # then the given label is taken to be right
            return np.equal(labels[:, None], np.arange(self.k)).astype(np.float64)
        found = values * self._matrix.entries(np.arange(self.k)[None], labels[:, None])
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
        # A stratum without a checked point counts as missed: the test fails there, too.
        n0, n1 = (max(side.shape[1], 1) for side in sides)
        p0, p1 = (side.sum(axis=1) / number for side, number in zip(sides, (n0, n1), strict=True))
        variance = strata_variance(w, p0, p1, n0, n1, strata.counted[1], unseen=0.0)
        return w * p0 + (1 - w) * p1, np.sqrt(variance * self.m)

    def tested(self, alphas: Sequence[float], delta: float) -> list[Finding]:
        """Return for each alpha the smallest threshold from which on all exact tests pass."""
        found = []
        for alpha, strata in zip(alphas, self.strata_of(alphas), strict=True):
            least = math.ceil(math.log(1 / delta) / -math.log1p(-alpha))
            why = f"with {counted(self.m, 'checked label')} no smaller sets pass the test"
            why += f"; at least {least} are needed" if self.m < least else ""
            found.append(self._last_pass(strata, self._passing(strata, alpha, delta), why))
        return found

    def crossings(self, alphas: Sequence[float]) -> list[Finding]:
        """Return for each alpha the smallest threshold from which on the estimate reaches 1 - alpha."""
        found, why = [], "the estimated coverage stays below the target at every finite score"
        for alpha, strata in zip(alphas, self.strata_of(alphas), strict=True):
            clean, _ = self.estimates(self._distinct, strata)
            found.append(self._last_pass(strata, clean >= 1 - alpha - ROUNDING, why))
        return found

    def exchanged(self, alphas: Sequence[float]) -> list[Finding]:
        """Return for each alpha the threshold of split conformal prediction on the checked labels alone."""
        scores, m = np.sort(self.checked_scores), self.m
        found = []
        for alpha, strata in zip(alphas, self.strata_of(alphas), strict=True):
            rank, correction = math.ceil((m + 1) * (1 - alpha) - 1e-9), (1 - alpha) / m
            threshold, estimate, why = np.append(scores, np.inf)[min(rank - 1, m)], 1.0, None
            if rank > m:
                needed = math.ceil(1 / alpha - 1e-9) - 1
                why = f"with {counted(m, 'checked label')} no finite threshold will do; {needed} are needed"
            elif threshold == np.inf:
                why = "too many of the checked labels have an infinite score"
            else:
                estimate = float(self.estimates(np.array([threshold]), strata)[0][0])
            found.append(Finding(float(threshold), estimate, correction, why))
        return found

    @cached_property
    def _distinct(self) -> Floats:
        """The finite scores of the checked labels, ascending; between them nothing changes."""
        scores = np.unique(self.checked_scores)
        return scores[scores < np.inf]

    def _passing(self, strata: Strata | None, alpha: float, delta: float) -> Bools:
        """Return whether the test of "coverage reaches 1 - alpha" passes at each distinct score."""
        own, scores = self.checked_scores, self._distinct
        if strata is None:
            hits = np.searchsorted(np.sort(own), scores, side="right")
            return np.asarray(hits >= self.m - allowed_misses(self.m, alpha, delta))
        sides = [np.sort(own[side]) for side in (strata.outside, ~strata.outside)]
        x0, x1 = (np.searchsorted(side, scores, side="right") for side in sides)
        sizes = len(sides[0]), len(sides[1])
        needed = hits_needed_inside(sizes, strata.counted, strata.pilot, 1 - alpha, delta)
        return np.asarray(x1 >= needed[x0])

    def _last_pass(self, strata: Strata | None, passed: Bools, why: str) -> Finding:
        """Return the smallest distinct score from which on all pass; infinity if the last one fails."""
        failed = np.flatnonzero(~passed)
        threshold = self._distinct[failed[-1] + 1 if len(failed) else 0 :][:1]
        if not len(threshold):
            return Finding(np.inf, 1.0, obstacle=why, deviation=0.0)
        (clean,), (deviation,) = self.estimates(threshold, strata)
        return Finding(float(threshold[0]), float(clean), deviation=float(deviation))


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
    """Return whether strata are of use, judged by the pilot alone.

    The choice must not depend on the strata of the checked points: the test in strata is conditional on
    these, the binomial test is not, so that a choice between the two would break the promise.
    """
    w, (p0, p1) = pilot.outside[0] / pilot.outside[1], pilot.predicted
    n0, n1 = w * m, (1 - w) * m
    if min(n0, n1) < _FEWEST or points * min(w, 1 - w) < _FEWEST:
        return False
    plain = w * p0 + (1 - w) * p1
    return bool(plain * (1 - plain) / m >= _WORTHWHILE * strata_variance(w, p0, p1, n0, n1, points))
