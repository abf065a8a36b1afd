"""`judge`: whether test points contradict the promise of a calibration."""

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nacp.calibration import Calibration
from nacp.coverage.curve import inverse_of
from nacp.errors import InputError
from nacp.groups.class_coverage import TAIL
from nacp.groups.grouped_calibration import GroupedCalibration, listed
from nacp.guarantees import Problem
from nacp.guarantees.base import percent
from nacp.metrics import Evaluation
from nacp.noise import NO_NOISE
from nacp.stats.intervals import exact_share
from nacp.wrapping import wrapped

_HINT = (
    "If some of these labels may be wrong, evaluate with noise= or clean= (--noise or --clean): "
    "a wrong label counts as a miss."
)


@dataclass(frozen=True)
class Verdict:
    """The result of `judge`; print it to read it as a sentence.

    Attributes
    ----------
    passed : bool
        Whether the interval reaches the target, and the calibration has no warning about its labels.
    target : float
        The coverage that was promised: 1 - alpha, for "expected" less its gap.
    coverage : float
        The share of test labels in their sets.
    interval : tuple of two floats
        A 95% interval of the coverage of these sets; or, if the promise is on average, of the mean coverage
        over calibration sets.
    on_average : bool
        Whether the promise is on average over calibration sets.
    confidence : float
        The confidence of the interval: 0.95, minus the probability that the noise model of the test labels is
        wrong.
    basis : str
        The test labels that were used.
    promise : str
        What was promised.
    group : optional
        For groups, the worst one. The interval is that of this group, wide enough for all groups at once.
    contradicted : bool
        Whether coverage is not below the target, but the labels of the calibration contradict its noise model
        or do not fit the rows (see ``Calibration.warnings``). `passed` is then False: nothing is promised.
    hint : str
        If the verdict is "fail": what to do if labels that were taken as true may be wrong.
    """

    passed: bool
    target: float
    coverage: float
    interval: tuple[float, float]
    on_average: bool
    confidence: float
    basis: str
    promise: str
    group: Any = None
    hint: str = ""
    contradicted: bool = False

    def __str__(self) -> str:
        low, high = self.interval
        subject = "mean coverage over calibration sets" if self.on_average else "coverage of these sets"
        if self.group is not None:
            subject += f" in the group that comes off worst, {self.group},"
        found = (
            f"{percent(self.target)} or more was to be reached, and the {percent(self.confidence)} interval "
            f"of the {subject} is {low:.4f} to {high:.4f} by {self.basis}"
        )
        if high < self.target:
            hint = f" {self.hint}" if self.hint else ""
            return wrapped(f"fail: {found}; all of it is below. Promised: {self.promise}.{hint}")
        told = "all of it is above" if low >= self.target else "the test points do not contradict it"
        if self.contradicted:
            said = "but the calibration warned that its labels contradict what the promise assumes"
            return wrapped(f"no pass: {found}; {told}, {said}. Do not rely on it for other points.")
        return wrapped(f"pass: {found}; {told}. Promised: {self.promise}.")


def judge(calibration: Calibration | GroupedCalibration, result: Evaluation) -> Verdict:
    """Compare the coverage of test points with what was promised.

    A promise for nearly all calibration sets ("pac", "binomial", "nacp") is about the coverage of these
    particular sets. The verdict is "fail" if ``result.coverage_interval`` lies below 1 - alpha. If the
    assumptions hold, the probability of that is at most delta + 0.025.

    A promise on average over calibration sets (all others, and "none", which only aims at 1 - alpha) is about
    the mean of the coverage, of which the test points show one value. The interval is then a normal one that
    includes the variance of this value: that of one calibration point's share where sets are small, divided
    by n. If the assumptions hold, the probability of "fail" is about 0.025, and up to 0.08 with 50 points per
    class.

    If the labels of the calibration contradict its noise model, the promise does not hold, and the verdict is
    not "pass" even where these sets cover enough.

    Parameters
    ----------
    calibration : Calibration or GroupedCalibration
        The calibration with the promise. Of groups, the worst one is judged, with an interval that is valid
        for all of them at once.
    result : Evaluation
        The result of `evaluate` for its sets; for groups, with these as ``groups=``.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 10, random_state=0)
    >>> cal = nacp.calibrate(probs[:2000], noisy[:2000], noise=0.2)
    >>> nacp.judge(cal, nacp.evaluate(cal.predict_set(probs[2000:]), labels[2000:])).passed
    True
    """
    if isinstance(calibration, GroupedCalibration):
        verdict = _judge_groups(calibration, result)
    else:
        coverage, (low, high) = result.coverage, result.coverage_interval
        test = coverage, result.labelled, (coverage - low, high - coverage)
        verdict = _judged(calibration, result, *test, TAIL, _variance(calibration))
    if verdict.passed and calibration.warnings:
        return replace(verdict, passed=False, contradicted=True)
    return verdict


def _judge_groups(calibration: GroupedCalibration, result: Evaluation) -> Verdict:
    """Return the verdict on the worst group, with an interval that is valid for all groups at once."""
    groups, place = result.groups, {name: i for i, name in enumerate(calibration.names)}
    if groups is None or not set(groups.classes or ()) <= set(place):
        raise InputError(
            "result", "must be of the groups of the calibration", remedy="pass these as groups= to evaluate"
        )
    # The promise for pooled groups is about all of them together.
    members = defaultdict[Any, list[int]](list)
    cals: dict[Any, Calibration] = {}
    for i in np.flatnonzero(np.isfinite(groups.coverage)).tolist():
        name = (groups.classes or ())[i]
        together = len(calibration.pooled) > 1 and name in calibration.pooled
        group = listed(calibration.pooled) if together else name
        cals[group] = calibration.calibrations[place[name]]
        members[group].append(i)
    if not cals:
        raise InputError("result", "has no group with enough points for an estimate")
    verdicts = {}
    for group, cal in cals.items():
        some = members[group]
        count, coverage = groups.count[some], groups.coverage[some]
        total, reaches = int(count.sum()), (coverage - groups.low[some], groups.high[some] - coverage)
        below, above = (float(np.linalg.norm(count * each)) / total for each in reaches)
        test = float(count @ coverage) / total, None if result.labelled is None else total, (below, above)
        verdicts[group] = _judged(cal, result, *test, TAIL / len(cals), _variance(cal, calibration))
    worst = min(verdicts, key=lambda group: verdicts[group].interval[1] - verdicts[group].target)
    return replace(verdicts[worst], promise=calibration.promise, group=worst)


def _variance(calibration: Calibration, whole: GroupedCalibration | None = None) -> float:
    """Return the variance of the coverage at a threshold over calibration sets, if sets are small.

    `whole` is the calibration of all groups, if `calibration` is that of one group.
    """
    k, noise, ratio, members = calibration.k, calibration.noise, 1.0, None
    inverse, points = inverse_of(noise, k), max(calibration.checked or calibration.n, 1)
    if whole is not None and whole.members is not None and calibration.guarantee.delta is None:
        points = whole.n - whole.aside
        mine = np.array([whole.calibrations[g] is calibration for g in whole.members])
        members = np.flatnonzero(mine)
        if not mine.all():
            # The share of the group among the true labels, from its share among the given ones. A group that
            # is rarer than `Problem` assumes has fewer points of its own, and as many mislabelled ones.
            inside = (NO_NOISE if noise is None else noise).matrix(k).pull(mine.astype(np.float64))
            right, wrong = inside[mine].mean(), inside[~mine].mean()
            share = (calibration.n / points - wrong) / (right - wrong)
            ratio = float(mine.mean() / min(max(share, 1 / points), 1.0))
    problem = Problem(calibration.alpha, points, noise, inverse, np.full(k, points / k), members)
    return problem.deviation**2 * ratio * max(ratio, 1.0) / points


def _judged(
    calibration: Calibration,
    result: Evaluation,
    coverage: float,
    n: int | None,
    reach: tuple[float, float],
    tail: float,
    variance: float,
) -> Verdict:
    """Return the verdict from the coverage of n true labels, or of noisy labels (n is None).

    `reach` says how far the 95% interval reaches below and above the coverage, and `tail` is the probability
    beyond each end of the interval of the verdict.
    """
    from scipy.special import ndtri

    alpha, on_average = calibration.alpha, calibration.guarantee.delta is None
    target, z = 1 - alpha - calibration.gap, -float(ndtri(tail))
    if n is not None and not on_average:
        (low,), (high,) = exact_share(np.array([round(coverage * n)]), np.array([n]), tail)
    else:
        below, above = (each * z / -float(ndtri(TAIL)) for each in reach)
        if n is not None:
            below = above = z * math.sqrt(alpha * (1 - alpha) / n)
        own = z * math.sqrt(variance) if on_average else 0.0
        low, high = coverage - math.hypot(below, own), coverage + math.hypot(above, own)
    passed, taken_as_true = min(high, 1.0) >= target, result.basis.endswith("taken as true")
    return Verdict(
        passed=bool(passed),
        target=target,
        coverage=coverage,
        interval=(max(float(low), 0.0), min(float(high), 1.0)),
        on_average=on_average,
        confidence=result.confidence,
        basis=result.basis,
        promise=calibration.promise,
        hint=_HINT if not passed and taken_as_true else "",
    )
