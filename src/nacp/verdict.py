"""judge(): was the promise kept, as far as test points can tell?"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nacp.calibration import Calibration
from nacp.class_coverage import TAIL
from nacp.errors import InputError
from nacp.grouped import GroupedCalibration, listed
from nacp.guarantees import Problem
from nacp.guarantees.base import percent
from nacp.metrics import Evaluation
from nacp.noise import UniformNoise
from nacp.stats.intervals import exact_share
from nacp.wrapping import wrapped


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
    promise : str
        What was promised.
    group : optional
        Of groups, the one that comes off worst; the interval is its own, wide enough for all at once.
    """

    passed: bool
    target: float
    coverage: float
    interval: tuple[float, float]
    on_average: bool
    promise: str
    group: Any = None

    def __str__(self) -> str:
        low, high = self.interval
        subject = "mean coverage over calibration sets" if self.on_average else "coverage of these sets"
        if self.group is not None:
            subject += f" in the group that comes off worst, {self.group},"
        found = (
            f"{percent(self.target)} or more was to be reached, and the 95% interval of the {subject} is "
            f"{low:.4f} to {high:.4f}"
        )
        if not self.passed:
            return wrapped(f"fail: {found}, all of it below. Promised: {self.promise}.")
        told = "all of it above" if low >= self.target else "so the test points do not contradict it"
        return wrapped(f"pass: {found}, {told}. Promised: {self.promise}.")


def judge(calibration: Calibration | GroupedCalibration, result: Evaluation) -> Verdict:
    """Compare the coverage of test points with what was promised.

    A promise for nearly all calibration sets ("pac", "binomial", "nacp") is about the coverage of these very
    sets. It fails if the exact 95% interval of that coverage lies below 1 - alpha. If all is as assumed, that
    happens with probability delta + 0.025 at most.

    A promise on average over calibration sets ("expected", "acnl", "crcp", "split"), and "none", which
    promises nothing but aims at 1 - alpha, are about the mean of a coverage of which one value was seen. The
    interval is then ``coverage -+ 1.96 sqrt(sd(g)^2 / n + alpha (1 - alpha) / m)`` for n calibration and m
    test points; g is one calibration point's share in the estimate, and its standard deviation is taken as it
    is where sets are small. If all is as assumed, it fails with probability 0.025, about.

    Parameters
    ----------
    calibration : Calibration or GroupedCalibration
        What was promised. Of groups the one that comes off worst is judged, with an interval that is wide
        enough for all of them at once.
    result : Evaluation
        How its sets did on test points with true labels; of groups, by group.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> import warnings
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 10, random_state=0)
    >>> cal = nacp.calibrate(probs[:2000], noisy[:2000], noise=0.2)
    >>> nacp.judge(cal, nacp.evaluate(cal.predict_set(probs[2000:]), labels[2000:])).passed
    True
    >>> with warnings.catch_warnings():  # calibrate says that the labels contradict this rate
    ...     warnings.simplefilter("ignore", nacp.NoiseModelWarning)
    ...     overstated = nacp.calibrate(probs[:2000], noisy[:2000], noise=0.4)
    >>> nacp.judge(overstated, nacp.evaluate(overstated.predict_set(probs[2000:]), labels[2000:])).passed
    False
    """
    if isinstance(calibration, GroupedCalibration):
        return _judge_groups(calibration, result)
    return _judged(calibration, result.coverage, result.n, TAIL)


def _judge_groups(calibration: GroupedCalibration, result: Evaluation) -> Verdict:
    """Return the verdict on the group that comes off worst, with an interval for all groups at once."""
    groups, place = result.groups, {name: i for i, name in enumerate(calibration.names)}
    if groups is None or not set(groups.classes or ()) <= set(place):
        raise InputError(
            "result", "must be of the groups of the calibration", remedy="pass these as groups= to evaluate"
        )
    # Pooled groups were promised to be covered together, so together they are judged.
    count, held, cals = Counter[Any](), Counter[Any](), {}
    for i in np.flatnonzero(groups.count).tolist():
        name = (groups.classes or ())[i]
        cal = calibration.calibrations[place[name]]
        together = len(calibration.pooled) > 1 and name in calibration.pooled
        group = listed(calibration.pooled) if together else name
        cals[group] = cal
        count[group] += int(groups.count[i])
        held[group] += round(float(groups.coverage[i]) * int(groups.count[i]))
    verdicts = {
        group: _judged(cal, held[group] / count[group], count[group], TAIL / len(cals))
        for group, cal in cals.items()
    }
    worst = min(verdicts, key=lambda group: verdicts[group].interval[1] - verdicts[group].target)
    return replace(verdicts[worst], promise=calibration.promise, group=worst)


def _judged(calibration: Calibration, coverage: float, n: int, tail: float) -> Verdict:
    """Return the verdict on a calibration of which so many of n test points were covered."""
    from scipy.special import ndtri

    alpha = calibration.alpha
    target = 1 - alpha - calibration.gap
    on_average = calibration.guarantee.delta is None
    if on_average:
        inverse = (calibration.noise or UniformNoise(0.0)).inverse(calibration.k)
        points = max(calibration.checked or calibration.n, 1)
        counts = np.full(calibration.k, points / calibration.k)
        problem = Problem(alpha, points, calibration.noise, inverse, counts)
        variance = problem.small_set_deviation**2 / points + alpha * (1 - alpha) / n
        reach = -float(ndtri(tail)) * math.sqrt(variance)
        interval = max(coverage - reach, 0.0), min(coverage + reach, 1.0)
    else:
        (low,), (high,) = exact_share(np.array([round(coverage * n)]), np.array([n]), tail)
        interval = float(low), float(high)
    return Verdict(
        passed=interval[1] >= target,
        target=target,
        coverage=coverage,
        interval=interval,
        on_average=on_average,
        promise=calibration.promise,
    )
