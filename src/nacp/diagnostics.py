"""Can the noise model be right? What it implies is tested, without a clean label.

If the model is right, ``sum over l of W[y, l] h(x, l)`` has the mean ``E h(x, true label)`` for every h,
which is not negative if h is not. So a region of (x, label) pairs whose estimated share is negative
refutes the model. Half of the points show where to look, the other half are for the test, and then the other
way round: the level is exact. The proof: docs/estimation.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp._validation import check_fraction
from nacp.coverage import Evidence
from nacp.guarantees.betting import Bets
from nacp.metrics import evaluate

if TYPE_CHECKING:
    from nacp.calibration import Calibration

_THRESHOLDS = 200
_ENTRIES = 1 << 18
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


class AuditCheck(NamedTuple):
    """Coverage on clean labels, beside what was promised and estimated.

    Attributes
    ----------
    coverage : float
        The share of clean labels in their sets.
    error : float
        ``sqrt(sd(g)^2/n + alpha (1 - alpha)/n_test)``: of the threshold and of the test points.
    short, generous : bool
        Whether coverage is below the target, or above the estimate, by more than the level allows.
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
        worst = min(self.checks, key=lambda check: (not check.rejected, check.share / (check.error or 1)))
        found = (
            f"the share of true labels {worst.region} is estimated at {worst.share:.3f} ± {worst.error:.3f}"
        )
        if self.rejected:
            said = (
                f"The noise model is rejected at {level}: under {self.model}, {found}, and no share is "
                "negative. Do not rely on the promise. A rate may be overstated, a matrix transposed, or the "
                "noise may depend on the input."
            )
        else:
            said = (
                f"The noise model is not rejected at {level}: {found}; estimated coverage rises to 1 as it "
                "must, up to its sampling error. An understated rate cannot be seen in this way; it makes "
                "sets too large, not too small."
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
    cal: "Calibration",
    probs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
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
        From `calibrate`, with its data; one that was loaded needs `probs` and `labels`.
    probs, labels : arrays of shape (n, k) and (n,), optional
        Points with noisy labels; those of the calibration by default.
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
    >>> nacp.calibrate(probs, noisy, noise=0.4, guarantee="none").diagnose().rejected
    True
    """
    check_fraction("level", level)
    evidence = cal.evidence(probs, labels)
    noise, radius = cal.noise, 0.0 if cal.noise is None else cal.noise.radius
    if evidence.n < 2:
        raise ValueError(f"a diagnosis takes two points or more; found {evidence.n}")
    if noise is not None:
        # A smaller rate implies no more than a larger one does: the low end of an interval is tested.
        evidence = evidence.under(noise.ends()[0].inverse(cal.k))
    order = np.random.default_rng(cal.random_state).permutation(evidence.n)
    halves = order[: evidence.n // 2], order[evidence.n // 2 :]
    favourites = evidence.favourites()
    checks = []
    for learn, test in (halves, halves[::-1]):
        for region in (
            _fall(evidence, learn, test, radius, cal.score.offset),
            _cells(evidence, learn, test, favourites, radius),
        ):
            checks.append(region.check(level / 4))
    return Diagnosis(
        rejected=any(check.rejected for check in checks),
        level=level,
        model="labels taken as they are" if noise is None else noise.describe(cal.k),
        checks=tuple(checks),
        audit=_audit(cal, evidence, audit_probs, audit_labels, level),
        target=1 - cal.alpha,
        estimate=cal.estimate,
    )


class _Region(NamedTuple):
    """A region in words; what each test point's share in it is, and the least and the most it can be."""

    words: str
    shares: Floats
    low: float
    high: float

    def check(self, level: float) -> Check:
        """Bet that the mean share is negative."""
        width = self.high - self.low
        error = float(self.shares.std()) / math.sqrt(len(self.shares))
        won = False
        if self.low < 0 < self.high:  # else no share can be negative, or none anything else
            bets = Bets(1, len(self.shares), level, 0.99 * width / self.high)
            bets.play(-self.shares[:, None] / width, 0)
            won = bool(bets.won[0])
        return Check(self.words, float(self.shares.mean()), error, won)


def _fall(evidence: Evidence, learn: Ints, test: Ints, radius: float, offset: float) -> _Region:
    """Find where F^c-hat falls most on some points, and return the others' shares in that increment."""
    q = np.unique(np.quantile(evidence.scores_by_row[learn], np.linspace(0, 1, _THRESHOLDS), method="lower"))
    total = sum(evidence.shares(rows, q).sum(axis=0) for rows in _blocks(learn, max(evidence.k, len(q))))
    curve = np.concatenate([[0.0], total / len(learn), [1.0]])  # at -inf and +inf it is known
    end = int(np.argmax(np.maximum.accumulate(curve) - curve))
    start = int(np.argmax(curve[: end + 1]))
    doubtful = evidence.under(evidence.inverse, radius) if radius else evidence

    def shares(source: Evidence, place: int, rows: Ints) -> Floats:
        if 0 < place <= len(q):
            return source.shares(rows, q[place - 1 : place])[:, 0]
        return np.full(len(rows), curve[place])

    low, high = evidence.inverse.subset_range()
    found = [
        # Known up to a radius, each of the two may be that much larger or smaller.
        2 * shares(evidence, end, rows) - shares(doubtful, end, rows) - shares(doubtful, start, rows)
        for rows in _blocks(test, evidence.k)
    ]
    least, most = (f"{q[place - 1] + offset:.4g}" if 0 < place <= len(q) else "" for place in (start, end))
    interval = f"above {least}" if not most else f"up to {most}" if not least else f"from {least} to {most}"
    words = f"with a score {interval}"
    return _Region(words, np.concatenate(found), low, high + 2 * radius * (high - low))


def _cells(evidence: Evidence, learn: Ints, test: Ints, favourites: Ints, radius: float) -> _Region:
    """Find for which favourite and label the joint frequency comes out negative on some points, weigh these
    cells by how negative it is, and return the others' shares in them.
    """
    inverse, labels, k = evidence.inverse, evidence.labels, evidence.k
    shares, low, high, largest = np.zeros(len(test)), 0.0, 0.0, 0.0
    for learnt, tested in zip(_by_class(favourites[learn], k), _by_class(favourites[test], k), strict=True):
        if not len(learnt):
            continue
        joint = inverse.push(np.bincount(labels[learn[learnt]], minlength=k).astype(np.float64))
        weights = np.where(joint < -_ROUNDING * len(learnt), -joint, 0.0)
        table = inverse.pull(weights)  # the share of a point with this favourite, for each label
        table += radius * np.ptp(table)
        shares[tested] = table[labels[test[tested]]]
        low, high = min(low, table.min()), max(high, table.max())
        largest = max(largest, weights.max())
    unit = largest or 1.0
    words = "in pairs of best and given label where it seemed negative before, weighted"
    return _Region(words, shares / unit, low / unit, high / unit)


def _by_class(values: Ints, k: int) -> list[Ints]:
    """Return for each class the places where it occurs."""
    order = np.argsort(values, kind="stable")
    return np.split(order, np.cumsum(np.bincount(values, minlength=k))[:-1])


def _blocks(rows: Ints, width: int) -> Iterator[Ints]:
    step = max(1, _ENTRIES // width)
    return (rows[i : i + step] for i in range(0, len(rows), step))


def _audit(
    cal: "Calibration",
    evidence: Evidence,
    probs: ArrayLike | None,
    labels: ArrayLike | None,
    level: float,
) -> AuditCheck | None:
    """Compare coverage of clean labels with the promise and with the estimate."""
    from scipy.special import ndtri

    if probs is None or labels is None:
        if probs is not None or labels is not None:
            raise ValueError("audit_probs and audit_labels belong together; pass both, or neither")
        return None
    found = evaluate(cal.predict_set(probs), labels)
    deviation = evidence.deviation(cal.native_threshold) if math.isfinite(cal.native_threshold) else 0.0
    error = math.sqrt(deviation**2 / cal.n + cal.alpha * (1 - cal.alpha) / found.n)
    allowed = -float(ndtri(level)) * error
    return AuditCheck(
        coverage=found.coverage,
        error=error,
        short=found.coverage < 1 - cal.alpha - allowed,
        generous=found.coverage > cal.estimate + allowed,
    )
