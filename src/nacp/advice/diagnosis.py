"""Can the noise model be right? What it implies is tested, without a clean label.

If the model is right, ``sum over l of W[y, l] h(x, l)`` has the mean ``E h(x, true label)`` for every h,
which is not negative if h is not. So a region of (x, label) pairs whose estimated share is negative
refutes the model. Half of the points show where to look, the other half are for the test, and then the other
way round: the level is exact. The proof: docs/estimation.md.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Bools, Floats, Ints
from nacp.calibration import Calibration
from nacp.checks import check_fraction
from nacp.coverage import Coverage, Question, Sample, Talk
from nacp.engine import Block
from nacp.errors import InputError
from nacp.guarantees import coverage_under
from nacp.metrics import evaluate
from nacp.points import check_labels
from nacp.stats.betting import Bets

_THRESHOLDS = 200
_ROUNDING = 1e-9
_STEP = 0.005


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


class AuditCheck(NamedTuple):
    """Coverage on clean labels, beside what was promised and estimated.

    Attributes
    ----------
    coverage : float
        The share of clean labels in their sets.
    error : float
        ``sqrt(sd(g)^2/n + alpha (1 - alpha)/n_test)``: of the threshold and of the test points.
    short, generous : bool
        Whether coverage is below the target, or above the estimate of exactly known noise, by more than the
        level allows.
    """

    coverage: float
    error: float
    short: bool
    generous: bool


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found; print it.

    Attributes
    ----------
    rejected : bool
        Whether the noise model is rejected. Under a right model the probability is at most `level`.
    level : float
        The level of the test.
    model : str
        The noise model in words.
    checks : tuple of Check
        The tests behind it.
    audit : AuditCheck or None
        Coverage on clean labels, if there were any.
    target, estimate : float
        The target 1 - alpha and the estimated coverage of the calibration.
    """

    rejected: bool
    level: float
    model: str
    checks: tuple[Check, ...]
    audit: AuditCheck | None
    target: float
    estimate: float

    def __str__(self) -> str:
        level = f"level {100 * self.level:.4g}%"
        if self.rejected:
            rejected = [check for check in self.checks if check.rejected]
            worst = min(rejected, key=lambda check: check.share / (check.error or 1))
            said = (
                f"The noise model is rejected at {level}: under {self.model}, the share of true labels "
                f"{worst.region} is estimated at {worst.share:.3f} ± {worst.error:.3f}, and no share is "
                "negative. Do not rely on the promise. A rate may be overstated, a matrix transposed, or the "
                "noise may depend on the input: nacp.compatible_radius (in Python) says by how much at least."
            )
        else:
            said = (
                f"The noise model is not rejected at {level}: nothing contradicts it; no share of true "
                "labels comes out negative, up to sampling errors. An understated rate cannot be seen in "
                "this way; it makes sets too large, not too small."
            )
        if self.audit is None:
            return said
        found = f"Coverage of the clean labels is {self.audit.coverage:.4f} ± {self.audit.error:.4f}"
        if self.audit.short:
            return (
                f"{said}\n{found}: too little for a target of {self.target:.6g}. The noise may be overstated."
            )
        if self.audit.generous:
            return (
                f"{said}\n{found}: the target {self.target:.6g} is kept, but {self.estimate:.4f} was "
                "estimated; the noise may be understated, and sets larger than need be."
            )
        return f"{said}\n{found}: compatible with the target {self.target:.6g}."


def diagnose(
    cal: Calibration,
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    audit_probs: ArrayLike | None = None,
    audit_labels: ArrayLike | None = None,
    level: float = 0.05,
) -> Diagnosis:
    """Ask whether the noise model of a calibration can be right.

    Under a right model the estimated coverage F^c-hat rises from 0 to 1, and the true label is in no region
    with a negative probability, up to sampling errors. A model under which they do is rejected.

    Parameters
    ----------
    cal : Calibration
        From `calibrate` or `load`.
    probs, labels : arrays of shape (n, k) and (n,)
        Points with noisy labels: those of the calibration, or others.
    audit_probs, audit_labels : arrays of shape (m, k) and (m,), optional
        Points with clean labels, on which coverage is compared with the promise.
    level : float, default=0.05
        A right model is rejected with at most this probability, exactly (to which the doubt about an interval
        of rates or a radius adds what its confidence lacks to 1).

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=4000)
    >>> noisy = nacp.GroupNoise.other([i // 2 for i in range(100)], 0.2).sample(labels, 100, random_state=0)
    >>> cal = nacp.calibrate(probs, noisy, noise=0.4, guarantee="none")
    >>> nacp.diagnose(cal, probs, noisy).rejected
    True
    """
    sample = _sample(cal, probs, labels)
    return sample.ask(
        diagnosis_of(sample, cal, audit_probs=audit_probs, audit_labels=audit_labels, level=level)
    )


def _sample(cal: Calibration, probs: ArrayLike, labels: ArrayLike) -> Sample:
    rows = cal.open_rows(probs)
    return Sample(rows, check_labels(labels, rows.n, rows.k, cal.classes), cal.score)


def diagnosis_of(
    sample: Sample,
    cal: Calibration,
    *,
    audit_probs: ArrayLike | None = None,
    audit_labels: ArrayLike | None = None,
    level: float = 0.05,
) -> Talk[Diagnosis]:
    """Return the diagnosis of a calibration's noise model on a sample."""
    check_fraction("level", level)
    noise, radius = cal.noise, 0.0 if cal.noise is None else cal.noise.doubt.radius
    regions = yield from _regions(sample, cal, doubtful=radius > 0)
    checks = tuple(region.check(level / len(regions), radius) for region in regions)
    audit = yield from _audit(sample, cal, audit_probs, audit_labels, level)
    return Diagnosis(
        rejected=any(check.rejected for check in checks),
        level=level,
        model="labels taken as they are" if noise is None else noise.describe(cal.k),
        checks=checks,
        audit=audit,
        target=1 - cal.alpha,
        estimate=cal.estimate,
    )


def compatible_radius(
    cal: Calibration,
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    level: float = 0.05,
) -> float:
    """Return the smallest radius around the noise model at which `diagnose` would not reject it.

    Human label noise depends on the input, so no matrix is right. ``MatrixNoise(P, radius)`` allows for that,
    and this says how large the radius must be at least: with probability 1 - level, some row of the true
    matrix is as far away as that for some inputs (but for the last step of 0.005). It may have to be larger.

    Parameters
    ----------
    cal, probs, labels, level
        As in `diagnose`.

    Returns
    -------
    float
        A multiple of 0.005; 0 if the model is not rejected as it is.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=4000)
    >>> noisy = nacp.GroupNoise.other([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], 0.2).sample(labels, 10, random_state=0)
    >>> cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee="none")
    >>> 0 < nacp.compatible_radius(cal, probs, noisy) <= 0.18  # the rows differ by 0.18 in total variation
    True
    """
    check_fraction("level", level)
    sample = _sample(cal, probs, labels)
    regions = sample.ask(_regions(sample, cal, doubtful=True))
    steps = round(1 / _STEP)
    return (
        max(
            next(
                (i for i in range(steps) if not region.check(level / len(regions), i * _STEP).rejected), steps
            )
            for region in regions
        )
        * _STEP
    )


def _regions(sample: Sample, cal: Calibration, *, doubtful: bool) -> "Talk[list[_Region]]":
    """Return the regions to be tested: two found on each half of the points, with the shares of the other."""
    if sample.n < 2:
        raise InputError("probs", "must hold two points or more for a diagnosis", found=f"{sample.n}")
    # A smaller rate implies no more than a larger one does: the low end of an interval is tested.
    coverage = coverage_under(sample, None if cal.noise is None else cal.noise.doubt.ends[0])
    order = np.random.default_rng(cal.random_state).permutation(sample.n)
    halves = order[: sample.n // 2], order[sample.n // 2 :]
    favourites = FavouritesQuestion(sample.n)
    yield [favourites]
    falls = yield from _falls(coverage, halves, cal.score.offset, doubtful)
    found = []
    for fall, (learn, test) in zip(falls, (halves, halves[::-1]), strict=True):
        found += [fall, _cells(coverage, learn, test, favourites.found)]
    return found


class FavouritesQuestion(Question):
    """For each row the label with the lowest score."""

    placed = True

    def __init__(self, n: int) -> None:
        self.found: Ints = np.empty(n, dtype=np.int64)

    def see(self, block: Block, rows: slice | Ints) -> None:
        self.found[rows] = block.placed.argmin(axis=1)


class HalfQuestion(Question):
    """The shares of one half of the points in F^c-hat at thresholds: their sums, or one by one with their doubts."""

    def __init__(self, coverage: Coverage, half: Ints, thresholds: Floats, doubtful: bool | None = None) -> None:
        self._coverage, self._thresholds, self._doubtful = coverage, thresholds, doubtful
        self._inside: Bools = np.zeros(coverage.n, dtype=bool)
        self._inside[half] = True
        self.total = np.zeros(len(thresholds))
        self.shares, self.doubts = np.zeros((2, 0 if doubtful is None else coverage.n, len(thresholds)))

    def see(self, block: Block, rows: slice | Ints) -> None:
        inside = self._inside[rows]
        shares = self._coverage.shares(block, rows, self._thresholds)
        if self._doubtful is None:
            self.total += shares[inside].sum(axis=0)
            return
        self.shares[rows] = shares
        if self._doubtful:
            self.doubts[rows] = self._coverage.oscillation(block, self._thresholds)


class _Region(NamedTuple):
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
        if self.low < 0 < high:  # else no share can be negative, or none anything else
            bets = Bets(1, len(shares), level, 0.99 * width / high)
            bets.play(-shares[:, None] / width)
            won = bool(bets.won[0])
        return Check(self.words, float(shares.mean()), error, won)


def _falls(
    coverage: Coverage, halves: tuple[Ints, Ints], offset: float, doubtful: bool
) -> "Talk[list[_Region]]":
    """Find where F^c-hat falls most on each half, and return the other's shares in that increment."""
    scores = coverage.sample.label_scores
    grids = [
        np.unique(np.quantile(scores[learn], np.linspace(0, 1, _THRESHOLDS), method="lower"))
        for learn in halves
    ]
    sums = [HalfQuestion(coverage, learn, q) for learn, q in zip(halves, grids, strict=True)]
    yield [*sums]
    curves, places, tests = [], [], []
    for learn, test, q, found in zip(halves, halves[::-1], grids, sums, strict=True):
        curve = np.concatenate([[0.0], found.total / len(learn), [1.0]])  # at -inf and +inf it is known
        end = int(np.argmax(np.maximum.accumulate(curve) - curve))
        start = int(np.argmax(curve[: end + 1]))
        inside = np.unique([place for place in (start, end) if 0 < place <= len(q)]).astype(int)
        curves.append(curve)
        places.append((start, end))
        tests.append(HalfQuestion(coverage, test, q[inside - 1], doubtful))
    yield [question for question in tests if len(question._thresholds)]
    low, high = coverage.inverse.subset_range()
    regions = []
    for test, q, curve, ends, found in zip(halves[::-1], grids, curves, places, tests, strict=True):

        def read(place: int, test: Ints = test, q: Floats = q, curve: Floats = curve, found: HalfQuestion = found) -> tuple[Floats, Floats]:
            """Return the shares up to a place of the curve, and their doubts."""
            if not 0 < place <= len(q):
                return np.full(len(test), curve[place]), np.zeros(len(test))
            column = np.searchsorted(found._thresholds, q[place - 1])
            return found.shares[test, column], found.doubts[test, column]

        (below, below_doubts), (above, above_doubts) = read(ends[0]), read(ends[1])
        told = [q[place - 1] + offset if 0 < place <= len(q) else None for place in ends]
        words = f"with a score {_between(*told)}"
        regions.append(_Region(words, above - below, below_doubts + above_doubts, low, high, 2 * (high - low)))
    return regions


def _between(low: float | None, high: float | None) -> str:
    """Write an interval with as many digits as tell its ends apart; None is an end that is infinite."""
    if low is None or high is None:
        return "anywhere" if low is high else f"above {low:.4g}" if high is None else f"up to {high:.4g}"
    told = ((f"{low:.{digits}g}", f"{high:.{digits}g}") for digits in range(4, 18))
    least, most = next((pair for pair in told if pair[0] != pair[1]), (str(low), str(high)))
    return f"from {least} to {most}"


def _cells(coverage: Coverage, learn: Ints, test: Ints, favourites: Ints) -> _Region:
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
    return _Region(words, shares / unit, doubts / unit, low / unit, high / unit, (high - low) / unit)


def _by_class(values: Ints, k: int) -> list[Ints]:
    """Return for each class the places where it occurs."""
    order = np.argsort(values, kind="stable")
    return np.split(order, np.cumsum(np.bincount(values, minlength=k))[:-1])


def _audit(
    sample: Sample,
    cal: Calibration,
    probs: ArrayLike | None,
    labels: ArrayLike | None,
    level: float,
) -> Talk[AuditCheck | None]:
    """Compare coverage of clean labels with the promise and with the estimate."""
    from scipy.special import ndtri

    if probs is None or labels is None:
        if probs is not None or labels is not None:
            missing = "audit_probs" if probs is None else "audit_labels"
            raise InputError(missing, "is missing; audit_probs and audit_labels belong together")
        return None
    found = evaluate(cal.predict_set(probs), labels)
    deviation = 0.0
    if math.isfinite(cal.native_threshold):
        coverage = coverage_under(sample, None if cal.noise is None else cal.noise.doubt.ends[0])
        (deviation,) = yield from coverage.deviations(np.array([cal.native_threshold]))
    error = math.sqrt(deviation**2 / cal.n + cal.alpha * (1 - cal.alpha) / found.n)
    allowed = -float(ndtri(level)) * error
    # With doubt the estimate is that of the careful end, and more coverage is what it is for.
    exactly = cal.noise is None or cal.noise.doubt.exact
    return AuditCheck(
        coverage=found.coverage,
        error=error,
        short=found.coverage < 1 - cal.alpha - allowed,
        generous=exactly and found.coverage > cal.estimate + allowed,
    )
