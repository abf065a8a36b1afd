"""judge(): was the promise kept, as far as test points can tell?"""

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
    """What `judge` found; print it for a sentence.

    Attributes
    ----------
    passed : bool
        False if the whole interval lies below the target.
    target : float
        The coverage that was promised: 1 - alpha, for "expected" less its gap.
    coverage : float
        The share of test labels in their sets.
    interval : tuple of two floats
        A 95% interval of what the promise is about: the coverage of these sets, or the mean coverage over
        calibration sets.
    on_average : bool
        Whether it is the latter.
    confidence : float
        The confidence of the interval: 0.95, less the probability with which the noise model of the test
        labels may be wrong.
    basis : str
        The test labels on which this rests.
    promise : str
        What was promised.
    group : optional
        Of groups, the one that comes off worst; the interval is its own, wide enough for all at once.
    hint : str
        After a fail: what to do if labels that were taken as true may be wrong.
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

    def __str__(self) -> str:
        low, high = self.interval
        subject = "mean coverage over calibration sets" if self.on_average else "coverage of these sets"
        if self.group is not None:
            subject += f" in the group that comes off worst, {self.group},"
        found = (
            f"{percent(self.target)} or more was to be reached, and the {percent(self.confidence)} interval "
            f"of the {subject} is {low:.4f} to {high:.4f} by {self.basis}"
        )
        if not self.passed:
            hint = f" {self.hint}" if self.hint else ""
            return wrapped(f"fail: {found}; all of it is below. Promised: {self.promise}.{hint}")
        told = "all of it is above" if low >= self.target else "the test points do not contradict it"
        return wrapped(f"pass: {found}; {told}. Promised: {self.promise}.")


def judge(calibration: Calibration | GroupedCalibration, result: Evaluation) -> Verdict:
    """Compare the coverage of test points with what was promised.

    A promise for nearly all calibration sets ("pac", "binomial", "nacp") is about the coverage of these very
    sets. It fails if ``result.coverage_interval`` lies below 1 - alpha. If all is as assumed, that happens
    with probability delta + 0.025 at most.

    A promise on average over calibration sets (all others, and "none", which only aims at 1 - alpha) is about
    the mean of a coverage of which one value was seen: the interval is then normal, and also has the variance
    of this value, that of one calibration point's share where sets are small, divided by n. If all is as
    assumed, it fails with probability about 0.025, and up to 0.08 with 50 points of each class.

    Parameters
    ----------
    calibration : Calibration or GroupedCalibration
        What was promised. Of groups the worst one is judged, with an interval for all of them at once.
    result : Evaluation
        What `evaluate` found for its sets; of groups, with these groups.

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
        return _judge_groups(calibration, result)
    low, high = result.coverage_interval
    test = _Test(result.labelled, result.coverage, result.coverage - low, high - result.coverage)
    return _judged(calibration, result, test, TAIL, _variance(calibration))


class _Test(NamedTuple):
    """What the test labels tell of coverage: the number of true ones, or how far its interval reaches."""

    labelled: int | None
    coverage: float
    below: float
    above: float


def _judge_groups(calibration: GroupedCalibration, result: Evaluation) -> Verdict:
    """Return the verdict on the group that comes off worst, with an interval for all groups at once."""
    groups, place = result.groups, {name: i for i, name in enumerate(calibration.names)}
    if groups is None or not set(groups.classes or ()) <= set(place):
        raise InputError(
            "result", "must be of the groups of the calibration", remedy="pass these as groups= to evaluate"
        )
    # Pooled groups were promised to be covered together, so together they are judged.
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
        below, above = (math.sqrt(float((count * each) @ (count * each))) / total for each in reaches)
        labelled = None if result.labelled is None else total
        test = _Test(labelled, float(count @ coverage) / total, below, above)
        verdicts[group] = _judged(cal, result, test, TAIL / len(cals), _variance(cal, calibration))
    worst = min(verdicts, key=lambda group: verdicts[group].interval[1] - verdicts[group].target)
    return replace(verdicts[worst], promise=calibration.promise, group=worst)


def _variance(calibration: Calibration, whole: GroupedCalibration | None = None) -> float:
    """Return how much the coverage at a threshold varies with the calibration points, if sets are small.

    `whole` has the thresholds of all groups, if this one is of a group.
    """
    k, noise, ratio, members = calibration.k, calibration.noise, 1.0, None
    inverse, points = inverse_of(noise, k), max(calibration.checked or calibration.n, 1)
    if whole is not None and whole.members is not None and calibration.guarantee.delta is None:
        points = whole.n - whole.aside
        mine = np.array([whole.calibrations[g] is calibration for g in whole.members])
        members = np.flatnonzero(mine)
        if not mine.all():
            # The share of the group among the true labels, from that among the given ones. A rarer group than
            # `Problem` assumes has fewer points of its own, and as many mislabelled ones.
            inside = (NO_NOISE if noise is None else noise).matrix(k).pull(mine.astype(np.float64))
            right, wrong = inside[mine].mean(), inside[~mine].mean()
            share = (calibration.n / points - wrong) / (right - wrong)
            ratio = float(mine.mean() / min(max(share, 1 / points), 1.0))
    problem = Problem(calibration.alpha, points, noise, inverse, np.full(k, points / k), members)
    return problem.deviation**2 * ratio * max(ratio, 1.0) / points


def _judged(
    calibration: Calibration, result: Evaluation, test: _Test, tail: float, variance: float
) -> Verdict:
    """Return the verdict on a calibration; the part `tail` may lie outside of its interval on each side."""
    from scipy.special import ndtri

    alpha, coverage, n = calibration.alpha, test.coverage, test.labelled
    target, z = 1 - alpha - calibration.gap, -float(ndtri(tail))
    on_average = calibration.guarantee.delta is None
    if n is not None and not on_average:
        (low,), (high,) = exact_share(np.array([round(coverage * n)]), np.array([n]), tail)
    else:
        wider = z / -float(ndtri(TAIL))
        if n is None:
            reach = test.below * wider, test.above * wider
        else:
            reach = (z * math.sqrt(alpha * (1 - alpha) / n),) * 2
        own = z * math.sqrt(variance) if on_average else 0.0
        low, high = coverage - math.hypot(reach[0], own), coverage + math.hypot(reach[1], own)
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
