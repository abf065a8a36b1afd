"""Can the noise model be right? What it implies is tested, without a clean label; and against checked ones.

If the model is right, ``sum over l of W[y, l] h(x, l)`` has the mean ``E h(x, true label)`` for every h,
which is not negative if h is not. So a region of (x, label) pairs whose estimated share is negative
refutes the model. Half of the points show where to look, the other half are for the test, and then the other
way round: the level is exact. The proof: docs/estimation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Ints
from nacp.advice.claims import ClaimCheck, claim_of
from nacp.advice.group_diagnosis import GroupedDiagnosis
from nacp.advice.regions import Check, regions_of
from nacp.audit.checked_labels import open_clean
from nacp.calibration import Calibration
from nacp.checks import check_fraction
from nacp.coverage.curve import Curve
from nacp.coverage.sample import Sample
from nacp.errors import InputError
from nacp.groups.grouped_calibration import GroupedCalibration
from nacp.metrics import evaluate
from nacp.points import check_aligned, check_labels
from nacp.points.lazy import in_memory
from nacp.wrapping import on_one_line, wrapped

_STEP = 0.005


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
    claim : ClaimCheck or None
        What the model claims and what checked labels say, if some were given.
    """

    rejected: bool
    level: float
    model: str
    checks: tuple[Check, ...]
    audit: AuditCheck | None
    target: float
    estimate: float
    claim: ClaimCheck | None = None

    def __str__(self) -> str:
        return wrapped(self._said())

    def _said(self) -> str:
        level = f"level {100 * self.level:.4g}%"
        rejected = [check for check in self.checks if check.rejected]
        if rejected:
            worst = min(rejected, key=lambda check: check.share / (check.error or 1))
            said = (
                f"The noise model is rejected at {level}: under {self.model}, the share of true labels "
                f"{worst.region} is estimated at {worst.share:.3f} ± {worst.error:.3f}, and no share is "
                "negative. Do not rely on the promise. A rate may be overstated, a matrix transposed, or the "
                "noise may depend on the input: nacp.compatible_radius (in Python) says by how much at least."
            )
        elif self.rejected:
            said = f"The noise model is rejected at {level}, by checked labels: {self.model}."
        else:
            said = (
                f"The noise model is not rejected at {level}: nothing contradicts it; no share of true "
                "labels comes out negative, up to sampling errors. An understated rate cannot be seen in "
                "this way: of uniform noise it makes sets too large; of a matrix it may make them too small."
            )
        if self.claim is not None:
            said = f"{said}\n{self.claim}"
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

    def _repr_html_(self) -> str:
        from nacp.show.html import card, table, told

        header = ("share of true labels", "estimate", "standard error", "")
        rows = [
            (check.region, f"{check.share:.4f}", f"{check.error:.4f}", "rejected" if check.rejected else "")
            for check in self.checks
        ]
        return card("Diagnosis", told(on_one_line(self)), table(header, rows, left=(0, 3)))


@overload
def diagnose(
    cal: Calibration,
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    clean: Any = None,
    audit_probs: ArrayLike | None = None,
    audit_labels: ArrayLike | None = None,
    level: float = 0.05,
    groups: None = None,
) -> Diagnosis: ...
@overload
def diagnose(
    cal: GroupedCalibration,
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    clean: None = None,
    audit_probs: None = None,
    audit_labels: None = None,
    level: float = 0.05,
    groups: Any = None,
) -> Diagnosis | GroupedDiagnosis: ...
def diagnose(
    cal: Calibration | GroupedCalibration,
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    clean: Any = None,
    audit_probs: ArrayLike | None = None,
    audit_labels: ArrayLike | None = None,
    level: float = 0.05,
    groups: Any = None,
) -> Diagnosis | GroupedDiagnosis:
    """Ask whether the noise model of a calibration can be right.

    Under a right model the estimated coverage F^c-hat rises from 0 to 1, and the true label is in no region
    with a negative probability, up to sampling errors. A model under which the estimate falls by more than
    that, or a probability comes out negative, is rejected.

    Parameters
    ----------
    cal : Calibration or GroupedCalibration
        From `calibrate` or `load`. With groups of rows the rows of each group are tested by themselves, at
        the level divided by the number of groups: that tests that the noise is the same in each. With groups
        of classes all rows are tested together.
    probs, labels : arrays of shape (n, k) and (n,)
        Points with noisy labels: those of the calibration, or others.
    clean : array of shape (n,) or pair (rows, labels), optional
        True labels of some of these points, picked at random, as in `calibrate`: what the model claims of
        coverage at the threshold is set against what they say. That sees understated noise, too. Half of
        the level goes to this test.
    audit_probs, audit_labels : arrays of shape (m, k) and (m,), optional
        Other points with clean labels, on which coverage is compared with the promise.
    level : float, default=0.05
        A right model is rejected with at most this probability, exactly (plus one minus the confidence of
        an interval of rates or a radius).
    groups : array of shape (n,), optional
        The group of each point, for a calibration with groups of rows.

    Returns
    -------
    Diagnosis
        For groups of rows a `GroupedDiagnosis`, with one for each group.

    Examples
    --------
    >>> import warnings
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=4000)
    >>> noisy = nacp.GroupNoise.other([i // 2 for i in range(100)], 0.2).sample(labels, 100, random_state=0)
    >>> with warnings.catch_warnings():  # calibrate says that the labels contradict this rate
    ...     warnings.simplefilter("ignore", nacp.NoiseModelWarning)
    ...     cal = nacp.calibrate(probs, noisy, noise=0.4, guarantee="none")
    >>> nacp.diagnose(cal, probs, noisy).rejected
    True
    >>> nacp.diagnose(cal, probs, noisy, clean=(range(300), labels[:300])).claim.short
    True
    """
    if isinstance(cal, GroupedCalibration):
        for name, given in (("clean", clean), ("audit_probs", audit_probs), ("audit_labels", audit_labels)):
            if given is not None:
                raise InputError(
                    name,
                    "cannot be used with a calibration by group",
                    remedy="evaluate sets with groups=",
                    spoken="ask nacp evaluate --groups",
                )
        check_aligned(groups, probs)
        return _by_group(cal, opened(cal.calibrations[0], probs, labels), level, groups)
    if groups is not None:
        raise InputError("groups", "has no effect: the calibration has one threshold for all")
    check_aligned(clean, probs, said="clean")
    check_aligned(clean, labels, "labels", "clean")
    sample = opened(cal, probs, labels)
    checked = None if clean is None else open_clean(clean, sample.n, sample.k, cal.classes)
    return diagnosis_of(
        sample, cal, checked=checked, audit_probs=audit_probs, audit_labels=audit_labels, level=level
    )


def _by_group(
    cal: GroupedCalibration, sample: Sample, level: float, groups: Any
) -> Diagnosis | GroupedDiagnosis:
    """Test the noise model in each group of rows; for groups of classes, on all rows."""
    check_fraction("level", level)
    if cal.members is not None:
        if groups is not None:
            raise InputError("groups", "has no effect: thresholds differ by class, not by row")
        return diagnosis_of(sample, cal.calibrations[0], level=level)
    places = cal.places(sample.labels[:, 0], groups)
    rows = [np.flatnonzero(places == g) for g in range(len(cal.names))]
    tested = [g for g, own in enumerate(rows) if len(own) > 1]
    found = {}
    for g in tested:
        some = sample.some(rows[g])
        found[cal.names[g]] = diagnosis_of(some, cal.calibrations[g], level=level / len(tested))
    return GroupedDiagnosis(level, found, {name: len(own) for name, own in zip(cal.names, rows, strict=True)})


def opened(cal: Calibration, probs: ArrayLike, labels: ArrayLike) -> Sample:
    """Return points with noisy labels as a sample, seen as the calibration points were."""
    in_memory("probs", probs, "here")
    rows = cal.open_rows(probs)
    return Sample.of(rows, check_labels(labels, rows.n, rows.k, cal.classes), cal.score)


def diagnosis_of(
    sample: Sample,
    cal: Calibration,
    *,
    checked: tuple[Ints, Ints] | None = None,
    audit_probs: ArrayLike | None = None,
    audit_labels: ArrayLike | None = None,
    level: float = 0.05,
) -> Diagnosis:
    """Return the diagnosis of a calibration's noise model on a sample."""
    check_fraction("level", level)
    _refuse_checked(cal)
    noise, radius = cal.noise, 0.0 if cal.noise is None else cal.noise.doubt.radius
    found = regions_of(sample, cal, doubtful=radius > 0)
    claim = None if checked is None else claim_of(sample, cal, *checked, level / 2)
    share = level / len(found) / (1 if claim is None else 2)
    checks = tuple(region.check(share, radius) for region in found)
    audit = _audit(sample, cal, audit_probs, audit_labels, level)
    return Diagnosis(
        rejected=any(check.rejected for check in checks)
        or (claim is not None and (claim.short or claim.generous)),
        level=level,
        model="labels taken as they are" if noise is None else noise.describe(cal.k),
        checks=checks,
        audit=audit,
        target=1 - cal.alpha,
        estimate=cal.estimate,
        claim=claim,
    )


def _refuse_checked(cal: Calibration) -> None:
    if cal.checked is not None:
        raise InputError(
            "cal",
            "rests on checked labels and assumes nothing about the noise, so there is no model to test",
            remedy="diagnose a calibration that was made with noise= and without clean=",
            spoken="diagnose a calibration that was made with --noise and without --clean",
        )


def compatible_radius(
    cal: Calibration | GroupedCalibration,
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
        As in `diagnose`; all rows are tested together, even if there are groups.

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
    if isinstance(cal, GroupedCalibration):
        cal = cal.calibrations[0]
    _refuse_checked(cal)
    regions = regions_of(opened(cal, probs, labels), cal, doubtful=True)
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


def _audit(
    sample: Sample,
    cal: Calibration,
    probs: ArrayLike | None,
    labels: ArrayLike | None,
    level: float,
) -> AuditCheck | None:
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
        curve = Curve.of(sample, None if cal.noise is None else cal.noise.doubt.ends[0])
        cells = np.searchsorted(curve.spec.thresholds, [cal.native_threshold])
        deviation = float(sample.deviations(curve, cells)[0])
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
