"""Coverage in expectation for any noise matrix: the counterpart of split conformal prediction.

The exchange rule (E3) requires ``(n F^c-hat(q) + lo) / (n + 1) >= 1 - alpha`` from the threshold on, where lo
is the smallest share that the (n + 1)-th point can have. As the rule on n + 1 points is symmetric in them,
coverage reaches the target up to a gap that shrinks faster than 1/n and is estimated. The worst case (E1)
has no gap, but its correction ``||W|| c(n)`` is of the order of ``1/sqrt(n)``. Theorems and proofs, also for
noise that is not known exactly: docs/guarantees.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from nacp.checks import check_choice, set_checked
from nacp.coverage.curve import Curve, Rule
from nacp.coverage.grid import INFINITE
from nacp.guarantees.base import Corrected, Finding, Problem, found_at, on_average
from nacp.stats.bounds import chernoff
from nacp.stats.tails import bernstein_excess, bounded_excess

if TYPE_CHECKING:
    from nacp.audit.checked_sample import CheckedSample


@dataclass(frozen=True)
class Expected(Corrected):
    """Clean coverage is at least 1 - alpha on average over calibration sets; any noise model.

    Without noise this is split conformal prediction. The noise may be known up to an interval or a radius.
    Proofs: docs/guarantees.md, E1 and E3.

    Parameters
    ----------
    rule : {"exchange", "worst-case"}, default="exchange"
        "exchange": the promise holds up to a gap, which is estimated from the calibration points and
        reported as ``Calibration.gap``. If it exceeds 3/n or alpha/10, the worst case is used instead.
        "worst-case": no gap, but a correction of the order of ``1/sqrt(n)``.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=2000)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 10, random_state=0)
    >>> cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee="expected")
    >>> cal.gap < 1 / 2000
    True
    """

    rule: Literal["exchange", "worst-case"] = "exchange"
    name: ClassVar[str] = "expected"
    takes_interval: ClassVar[bool] = True
    takes_radius: ClassVar[bool] = True
    needs_last: ClassVar[bool] = True
    takes_checked: ClassVar[bool] = True
    checked_alone: ClassVar[bool] = True
    takes_several: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True
    crosses_target: ClassVar[bool] = False

    def __post_init__(self) -> None:
        set_checked(self, rule=check_choice("rule", self.rule, ("exchange", "worst-case")))

    def correction(self, problem: Problem) -> float:
        """Return ``(1 - alpha - lo)/n``, or in the worst case the integral of a tail bound."""
        if self.rule == "exchange":
            return -problem.range[0] * problem.per_point
        if problem.members is None:
            # The tail bound is not convex in the rate, so both ends of an interval use that of the upper end.
            low, high = (problem.widest or problem.inverse).subset_range()
            return bounded_excess(problem.n, low, high, 1 - problem.alpha)
        return _worst_case_of_classes(problem)

    def promise(self, alpha: float) -> str:
        gap = "" if self.rule == "worst-case" else ", less a gap that is estimated"
        return f"{on_average(alpha)}{gap}"

    def promise_checked(self, alpha: float) -> str:
        """Return the promise without a gap."""
        return Expected("worst-case").promise(alpha)

    def find_checked(self, sample: "CheckedSample", alphas: Sequence[float]) -> list[Finding]:
        """Return the threshold of split conformal prediction on the checked labels."""
        return sample.exchanged(alphas)

    def cross(self, curve: Curve, alpha: float, crossing: Rule) -> Finding:
        """Return the finding where the estimate crosses the corrected target, with the gap."""
        # The target is raised by the largest error that the radius allows.
        shift = curve.shift
        problem = Problem.of(curve, alpha - shift)
        correction = self.correction(problem)
        cell = curve.crossing(1 - alpha + shift + correction, crossing)
        why = self._why(problem, correction) if cell == INFINITE else ""
        if shift:
            why = f"{why}; the radius of the noise alone takes {shift:.4g}"
        found = found_at(curve, cell, correction + shift, why)
        if self.rule == "worst-case" or curve.absent or (cell == INFINITE and problem.members is None):
            return found  # Sets of all classes always cover.
        few = _too_few(problem)
        if few:
            return found_at(curve, INFINITE, correction + shift, few)
        gap = _mean_gap(curve, problem, 1 - alpha + shift)
        # Without noise gaps are multiples of 1/n and may equal the limit exactly, up to rounding.
        if gap <= (1 + 1e-9) * min(3 * problem.per_point, alpha / 10):
            return found._replace(gap=gap)
        # This threshold is larger, so the promise of the exchange rule holds as well.
        worst = Expected("worst-case").cross(curve, alpha, crossing)
        note = f"the gap, {gap:.2g}, is not small, so the threshold is that of the worst case"
        return worst._replace(note=note, gap=gap)


def _mean_gap(curve: Curve, problem: Problem, target: float) -> float:
    """Estimate the mean gap of the exchange rule: ``(hi - lo)/n`` times the slope of psi-hat against F^c-hat.

    The slope is taken over the thresholds at which the estimate is within one standard error of the target.
    """
    error = problem.deviation * math.sqrt(problem.n) * problem.per_point
    ends = [curve.crossing(target + side * error, "last") for side in (-1, 1)]
    below, above = np.array(ends)
    low, high = curve.at(np.array([below, above]), curve.clean)
    less, more = curve.at(np.array([below, above]), curve.losses)
    each = (problem.range[1] - problem.range[0]) * problem.per_point
    # The estimate rises by less than the share of one point only if it jumps over one of the ends.
    return float((more - less) / max(high - low, each) * each) if more > less else 0.0


def _too_few(problem: Problem) -> str | None:
    """Return why a group of classes has too few points, or None (docs/guarantees.md, G1).

    The weights of its labels may sum to 0 by chance, and mean coverage then falls below the target.
    """
    if problem.members is None:
        return None
    weights = problem.inverse.entries(np.arange(problem.k)[:, None], problem.members).sum(axis=1)
    mass, deviation = problem.counts @ weights, math.sqrt(problem.counts @ weights**2)
    if weights.min() >= 0 or mass >= 2 * deviation:
        return None
    return (
        f"about {max(mass, 0):.3g} of the points are of this group, fewer than two standard deviations "
        f"({deviation:.3g} each)"
    )


def _worst_case_of_classes(problem: Problem) -> float:
    """Return the worst-case correction for a group of classes, by Bernstein's inequality.

    The labels give an upper bound of the second moment of a share, which fails with probability alpha/1000.
    """
    least, most = problem.ranges(problem.widest or problem.inverse)
    squares = np.maximum(-least, most) ** 2
    missed, n = problem.alpha / 1000, problem.n
    mean = np.array([problem.counts @ squares / (n * squares.max())])
    variance = float(chernoff(mean, n, missed)[0] * squares.max())
    return n * problem.per_point * bernstein_excess(n, variance, float(most.max() - least.min())) + missed
