"""Test whether the noise model of a calibration can be right, with or without checked labels.

The tests of regions: `nacp.advice.regions`. With checked labels the model's claim of coverage is tested, too,
at a threshold that does not depend on the points compared, by bets on the differences between checked labels
and the mean shares of batches of points. The proofs: docs/guarantees.md, S4 and S6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp.advice.printout import Printout, TextTable
from nacp.advice.regions import Check, bet, regions_of, shares_and_doubts
from nacp.audit.checked_calibration import for_checked, open_checked
from nacp.audit.checked_sample import Audit, CheckedSample
from nacp.audit.plan import AuditPlan
from nacp.calibration import Calibration
from nacp.checks import check_fraction
from nacp.coverage.agreement import unrelated
from nacp.coverage.curve import Curve
from nacp.coverage.grid import INFINITE
from nacp.coverage.tally import Sample
from nacp.errors import InputError
from nacp.groups.grouped_calibration import GroupedCalibration
from nacp.guarantees import Problem
from nacp.noise import NO_NOISE
from nacp.points import check_aligned, check_labels
from nacp.points.lazy import in_memory
from nacp.wrapping import counted, on_one_line, wrapped

_RADIUS_STEP = 0.005
# One fifth of the points, but not more than this, choose the threshold at which claims are tested.
_LEARN_PART, _LEARN_MAX = 5, 2000
_GROUPS_SHOWN = 30


class ClaimCheck(NamedTuple):
    """Coverage of the true label at the threshold: by the noise model, and by checked labels.

    The model claims a coverage of `claim`, a lower bound if the noise is known up to an interval or a radius
    only (`at_least`); `claim_error` is its standard error if the model is right. The `checked` labels show
    `found`, whatever the noise is, with the standard error `error`. The `undecided` ones among them count as
    misses in `found`, and in favour of the model in the tests of whether it claims significantly too much
    (`short`) or too little (`generous`).
    """

    checked: int
    claim: float
    claim_error: float
    at_least: bool
    found: float
    error: float
    short: bool
    generous: bool
    undecided: int = 0

    def __str__(self) -> str:
        said = (
            f"At its threshold the noise model claims {'at least ' * self.at_least}{100 * self.claim:.1f}%, "
            f"the {self.checked:,} checked labels say {100 * self.found:.1f}% ± {100 * self.error:.1f}%"
        )
        if self.undecided:
            said += f" ({self.undecided:,} undecided ones count as misses)"
        result = "No contradiction, as far as this many labels can show."
        if self.short:
            result = "The model claims too much: do not rely on its promise."
        elif self.generous:
            result = "The model claims too little: sets are larger than necessary."
        use = "A calibration with these labels, clean= (--clean), assumes nothing about the noise."
        return wrapped(f"{said}. {result} {use}")


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`; print it.

    Attributes
    ----------
    rejected : bool
        Whether the noise model is rejected.
    level : float
        The level of the test: a right model is rejected with at most this probability.
    model : str
        The noise model in words.
    checks : tuple of Check
        The tests of regions.
    claim : ClaimCheck or None
        The test of the model's claim against checked labels, if there were any.
    unrelated : bool
        Whether the labels fit the rows no better than a random permutation of them: rows and labels may not
        belong together.
    """

    rejected: bool
    level: float
    model: str
    checks: tuple[Check, ...]
    claim: ClaimCheck | None = None
    unrelated: bool = False

    def __str__(self) -> str:
        claim = "" if self.claim is None else f"\n{on_one_line(self.claim)}"
        return wrapped(self._verdict + claim)

    @property
    def _verdict(self) -> str:
        level = f"level {100 * self.level:.4g}%"
        rejected = [check for check in self.checks if check.rejected]
        if rejected:
            worst = min(rejected, key=lambda check: check.share / (check.error or 1))
            return (
                f"The noise model is rejected at {level}: under {self.model}, the share of true labels "
                f"{worst.region} is estimated at {worst.share:.3f} ± {worst.error:.3f}, and no share is "
                "negative. Do not rely on the promise. A rate may be overstated, a matrix transposed, or the "
                "noise may depend on the input; nacp.compatible_radius (in Python) tells how much. "
                "Checked labels need no noise model: give them as clean= (--clean)."
            )
        if self.rejected:
            return f"The noise model is rejected at {level}, by checked labels: {self.model}."
        if self.unrelated:
            return (
                f"The noise model is not rejected at {level}, but the labels fit the rows no better than the "
                "same labels in a random order. Check that rows and labels are in one order, and classes "
                "in that of the columns."
            )
        return (
            f"The noise model is not rejected at {level}: nothing contradicts it, as no estimated share of "
            "true labels is significantly negative. A rate that is too small passes this test: under "
            "uniform noise it makes sets too large, under a matrix it may make them too small. Checked "
            "labels detect it."
        )

    def _repr_html_(self) -> str:
        from nacp.show.html import card, table, told

        header = ("share of true labels", "estimate", "standard error", "")
        rows = [
            (check.region, f"{check.share:.4f}", f"{check.error:.4f}", "rejected" if check.rejected else "")
            for check in self.checks
        ]
        return card("Diagnosis", told(on_one_line(self)), table(header, rows, left=(0, 3)))


@dataclass(frozen=True, repr=False)
class GroupedDiagnosis(Printout):
    """The result of `diagnose` in each group of rows; print it.

    The promise for groups of rows assumes that the noise is the same in each. So the rows of each group are
    tested by themselves, at the `level` divided by the number of groups.

    Attributes
    ----------
    level : float
        A model that is right in all groups is rejected with at most this probability.
    diagnoses : dict
        The result for each group that was tested.
    points : dict
        The number of rows of each group; one with fewer than two is not tested.
    """

    level: float
    diagnoses: dict[Any, Diagnosis]
    points: dict[Any, int]
    _title: ClassVar[str] = "Diagnosis"

    @property
    def rejected_groups(self) -> tuple[Any, ...]:
        return tuple(name for name, found in self.diagnoses.items() if found.rejected)

    @property
    def rejected(self) -> bool:
        return bool(self.rejected_groups)

    @property
    def tables(self) -> list[TextTable]:
        results = {
            name: "rejected" if each.rejected else "not rejected" for name, each in self.diagnoses.items()
        }
        rows = [
            [f"{name}", results.get(name, "too few rows for a test"), f"{number:,}"]
            for name, number in self.points.items()
        ]
        first = sorted(rows, key=lambda row: row[1] != "rejected")[:_GROUPS_SHOWN]
        return [TextTable([["group", "noise model", "rows"], *first], 2, self._verdict)]

    @property
    def sentences(self) -> list[tuple[str, str]]:
        more = len(self.points) - _GROUPS_SHOWN
        return [("", f"and {more:,} groups more")] if more > 0 else []

    @property
    def _verdict(self) -> str:
        number, rejected = len(self.diagnoses), self.rejected_groups
        if not number:
            return "No group has two rows or more, so the noise model was not tested."
        how = f"at level {100 * self.level:.4g}% for {counted(number, 'group')} together"
        if not rejected:
            odd = [f"{name}" for name, found in self.diagnoses.items() if found.unrelated]
            if odd:
                problem = "but in these groups the labels fit the rows no better than in a random order"
                return f"The noise model is not rejected, {how}, {problem}: {', '.join(odd[:_GROUPS_SHOWN])}."
            return f"The noise model is not rejected, {how}: in none of them does anything contradict it."
        said = f"The noise model is rejected in {counted(len(rejected), 'group')}, {how}."
        return f"{said}\n{rejected[0]}: {on_one_line(self.diagnoses[rejected[0]])}"


def diagnose(
    cal: Calibration | GroupedCalibration,
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    clean: Any = None,
    audit: AuditPlan | None = None,
    level: float = 0.05,
    groups: Any = None,
) -> Diagnosis | GroupedDiagnosis:
    """Test whether the noise model of a calibration can be right.

    Under a right model the estimated coverage F^c-hat rises from 0 to 1, and the true label is in no region
    with a negative probability, up to sampling errors. A model under which the estimate falls by more than
    that, or a probability comes out negative, is rejected.

    Parameters
    ----------
    cal : Calibration or GroupedCalibration
        With groups of rows, the rows of each group are tested by themselves, at the level divided by the
        number of groups: that tests that the noise is the same in each. With groups of classes all are tested
        together.
    probs, labels : arrays of shape (n, k) and (n,)
        Points with noisy labels: those of the calibration, or others.
    clean, audit : optional
        Checked labels of some of these points, and their plan, as in `calibrate`: the coverage that the model
        claims at the threshold is compared with them, which detects understated noise, too. Half of the level
        goes to this test.
    level : float, default=0.05
        A right model is rejected with at most this probability, exactly (plus one minus the confidence of an
        interval of rates or a radius).
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
    """
    check_aligned(labels, probs, said="labels")
    if isinstance(cal, GroupedCalibration):
        for name in (name for name, each in {"clean": clean, "audit": audit}.items() if each is not None):
            remedy, spoken = "evaluate sets with groups=", "use nacp evaluate --groups"
            raise InputError(name, "cannot be used with a calibration by group", remedy=remedy, spoken=spoken)
        check_aligned(groups, probs)
        return _by_group(cal, opened(cal.calibrations[0], probs, labels), level, groups)
    if groups is not None:
        raise InputError("groups", "has no effect: the calibration has one threshold for all")
    if clean is None:
        if audit is not None:
            raise InputError("audit", "needs clean, the labels that were checked by it")
        return _diagnosis_of(opened(cal, probs, labels), cal, level)
    if labels is None:
        raise InputError("labels", "must be given: the noise model is about noisy labels")
    in_memory("probs", probs, "here")
    _check_model(cal)
    for_checked("pac", None, "last", None, audit, cal.score)
    rows, numbers, _, checked = open_checked(probs, labels, clean, cal.random_state, audit, **cal.row_options)
    return _diagnosis_of(Sample.of(rows, numbers, cal.score), cal, level, checked)


def _by_group(
    cal: GroupedCalibration, sample: Sample, level: float, groups: Any
) -> Diagnosis | GroupedDiagnosis:
    """Test the noise model in each group of rows; for groups of classes, on all rows."""
    check_fraction("level", level)
    if cal.members is not None:
        if groups is not None:
            raise InputError("groups", "has no effect: thresholds differ by class, not by row")
        return _diagnosis_of(sample, cal.calibrations[0], level)
    places = cal.places(sample.labels[:, 0], groups)
    rows = {name: np.flatnonzero(places == g) for g, name in enumerate(cal.names)}
    tested = [name for name, own in rows.items() if len(own) > 1]
    found = {
        name: _diagnosis_of(sample.some(rows[name]), cal.groups[name], level / len(tested)) for name in tested
    }
    return GroupedDiagnosis(level, found, {name: len(own) for name, own in rows.items()})


def opened(cal: Calibration, probs: ArrayLike, labels: ArrayLike) -> Sample:
    """Check points with noisy labels, with the options of the calibration points."""
    in_memory("probs", probs, "here")
    rows = cal.open_rows(probs)
    return Sample.of(rows, check_labels(labels, rows.n, rows.k, cal.classes), cal.score)


def _diagnosis_of(sample: Sample, cal: Calibration, level: float, checked: Audit | None = None) -> Diagnosis:
    check_fraction("level", level)
    _check_model(cal)
    radius = 0.0 if cal.noise is None else cal.noise.doubt.radius
    claim = None if checked is None else _check_claim(sample, cal, checked, level / 2)
    regions = regions_of(sample, cal, doubtful=radius > 0)
    each = level / len(regions) / (1 if claim is None else 2)
    checks = tuple(region.check(each, radius) for region in regions)
    refuted = claim is not None and (claim.short or claim.generous)
    return Diagnosis(
        rejected=refuted or any(check.rejected for check in checks),
        level=level,
        model="labels taken as they are" if cal.noise is None else cal.noise.describe(cal.k),
        checks=checks,
        claim=claim,
        unrelated=unrelated(sample),
    )


def _check_model(cal: Calibration) -> None:
    """Raise an error if a calibration has no noise model, because it comes from checked labels."""
    if cal.checked is not None:
        problem = "rests on checked labels and assumes nothing about the noise, so there is no model to test"
        use = "diagnose a calibration that was made with noise= and without clean="
        spoken = "diagnose a calibration that was made with --noise and without --clean"
        raise InputError("cal", problem, remedy=use, spoken=spoken)


def compatible_radius(
    cal: Calibration | GroupedCalibration, probs: ArrayLike, labels: ArrayLike, *, level: float = 0.05
) -> float:
    """Return the smallest radius around the noise model at which `diagnose` would not reject it.

    Human label noise depends on the input, so no matrix is right. ``MatrixNoise(P, radius)`` allows for that,
    and this is a lower bound of the radius: with probability 1 - level, some row of the true matrix is as far
    away as that for some inputs, but for the last 0.005. The radius may have to be larger.

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
    _check_model(cal)
    regions = regions_of(opened(cal, probs, labels), cal, doubtful=True)
    steps = round(1 / _RADIUS_STEP)

    def rejected(step: int) -> bool:
        return any(region.check(level / len(regions), step * _RADIUS_STEP).rejected for region in regions)

    return next((step for step in range(steps) if not rejected(step)), steps) * _RADIUS_STEP


def _check_claim(sample: Sample, cal: Calibration, audit: Audit, level: float) -> ClaimCheck:
    """Compare the coverage that the noise model claims with checked labels."""
    noise = cal.noise or NO_NOISE
    radius, thresholds = noise.doubt.radius, sample.score.spec.thresholds
    curves = [Curve.of(sample, end) for end in noise.doubt.ends]
    rows, truth = audit.rows, audit.labels
    learn, checked, others = _deal(sample.n, audit, cal.random_state)
    tested = _tested_cell(sample, cal, curves[0], learn)
    own = int(np.searchsorted(thresholds, cal.native_threshold))
    at = np.array([own if own < INFINITE else tested])
    audited = CheckedSample(sample, audit, noise.matrix(sample.k))
    (found,), (spread,) = audited.estimates(thresholds[at], audited.strata_of([cal.alpha])[0])
    claim, deviation = min(
        (float(curve.at(at, curve.clean)[0]), curve.deviation(sample, int(at[0]))) for curve in curves
    )
    # What could not be decided counts in favour of the model in both tests.
    scores = np.empty(sample.n)
    scores[rows] = audited.checked_scores
    hits, unknown = scores[checked] <= thresholds[tested], np.isin(checked, rows[truth < 0])
    batch = np.concatenate([np.arange(len(checked)), np.arange(len(others)) % max(len(checked), 1)])
    members, sizes = np.concatenate([checked, others]), np.bincount(batch)
    short = generous = True
    for curve in curves:  # only what holds at both ends of an interval refutes the model
        low, high = curve.weights.inverse.subset_range()
        more = noise.doubt.shift(curve.weights.inverse)
        shares, doubts = shares_and_doubts(sample, curve, np.array([tested]), members, doubtful=radius > 0)
        mean = np.bincount(batch, shares[:, 0]) / sizes
        blur = radius * np.bincount(batch, doubts[:, 0]) / sizes
        short &= _won(mean - (hits | unknown) - blur, 1 - low + more, high, level / 2)
        generous &= _won(hits - mean - blur, high + more, 1 - low, level / 2)
    return ClaimCheck(
        checked=len(rows),
        claim=min(max(claim, 0.0), 1.0),
        claim_error=deviation / math.sqrt(sample.n),
        at_least=not noise.doubt.exact,
        found=float(found),
        error=max(float(spread), 1 / math.sqrt(len(rows))) / math.sqrt(len(rows)),
        short=short,
        generous=generous,
        undecided=int(np.count_nonzero(truth < 0)),
    )


def _deal(n: int, audit: Audit, seed: int) -> tuple[Ints, Ints, Ints]:
    """Divide all rows at random into those that choose the threshold, checked ones, and others.

    The last two are compared. Checked rows choose the threshold only if there are too few others.
    """
    rng = np.random.default_rng(seed)
    checked = audit.rows[audit.random_part(rng)]
    others = rng.permutation(np.setdiff1d(np.arange(n), checked))
    aside = min(n // _LEARN_PART, _LEARN_MAX)
    learn = np.concatenate([others, checked[::-1]])[:aside]
    return learn, checked[: len(checked) - max(aside - len(others), 0)], others[aside:]


def _tested_cell(sample: Sample, cal: Calibration, curve: Curve, learn: Ints) -> int:
    """Return the approximate threshold of a calibration, from a few of the points, as a place in the grid."""
    if not len(learn):
        return INFINITE
    few = sample.some(learn)
    curve = Curve.of(few, curve.noise)
    problem = Problem(cal.alpha, cal.n, curve.noise, curve.weights.inverse, curve.counts * (cal.n / few.n))
    plain = curve.crossing(1 - cal.alpha, "last")
    excess = min(cal.guarantee.excess(problem, curve.deviation(few, plain)), cal.alpha / 2)
    return curve.crossing(1 - cal.alpha + excess, "last")


def _won(gains: Floats, loss: float, gain: float, level: float) -> bool:
    """Bet that the mean of some numbers is above 0; `loss` and `gain` are the most that each can be."""
    return len(gains) > 0 and bet(gains, level, loss + gain, 0.99 * (loss + gain) / loss)
