"""Coverage in expectation for any noise matrix: what split conformal prediction is for clean labels.

The exchange rule (E3) needs ``(n F^c-hat(q) + lo) / (n + 1) >= 1 - alpha`` from the threshold on, where lo is
the least share that the n + 1st point could have in the estimate. The rule on n + 1 points is symmetric in
them, so the threshold covers up to a gap that shrinks faster than 1/n and is estimated. The worst case (E1)
has no gap, but costs ``||W|| c(n)``, of the order of ``1/sqrt(n)``. The theorems and their proofs, also for
noise that is not known exactly: docs/guarantees.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from nacp.checks import check_choice, set_checked
from nacp.coverage import Coverage, Rule, Talk, both
from nacp.coverage.audited import AuditedCoverage
from nacp.coverage.parted import PartedCoverage
from nacp.guarantees import parted
from nacp.guarantees.audited import exchange
from nacp.guarantees.base import Corrected, Finding, Problem, on_average
from nacp.stats.bounds import expected_excess, gap_is_small


@dataclass(frozen=True)
class Expected(Corrected):
    """Clean coverage is at least 1 - alpha on average over calibration sets; any noise model.

    Without noise it is split conformal prediction. Noise may be known up to an interval or a radius. The
    proofs: docs/guarantees.md, E1 and E3.

    Parameters
    ----------
    rule : {"exchange", "worst-case"}, default="exchange"
        "exchange": the promise holds up to a gap, which is estimated from the calibration points and
        reported as ``Calibration.gap``; where it exceeds 3/n, the worst case is used instead.
        "worst-case": no gap, at a price of the order of ``1/sqrt(n)``.

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
    takes_several: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_checked(self, rule=check_choice("rule", self.rule, ("exchange", "worst-case")))

    def correction(self, problem: Problem) -> float:
        """Return ``(1 - alpha - lo)/n``, or ``||W|| c(n)`` in the worst case."""
        low, high = problem.inverse.subset_range()
        if self.rule == "worst-case":
            return (high - low) * expected_excess(problem.n)
        return (1 - problem.alpha - low) / problem.n

    def promise(self, alpha: float) -> str:
        gap = "" if self.rule == "worst-case" else ", less a gap that is estimated"
        return f"{on_average(alpha)}{gap}"

    def promise_checked(self, alpha: float) -> str:
        """Return the same without a gap."""
        return Expected("worst-case").promise(alpha)

    def find_checked(self, coverage: AuditedCoverage, alphas: Sequence[float]) -> list[Finding]:
        """Return the threshold of split conformal prediction on the checked labels."""
        return exchange(coverage, alphas)

    def find_parted(
        self, coverage: PartedCoverage, alpha: float, crossing: Rule, seed: int
    ) -> Talk[list[Finding]]:
        """Return the same within each group of classes."""
        return parted.exchange(coverage, alpha, crossing, self.rule == "worst-case")

    def find(
        self, coverage: Coverage, problems: Sequence[Problem], crossing: Rule, seed: int
    ) -> Talk[list[Finding]]:
        """Return where the estimate crosses the corrected target, and the gap."""
        # What a radius may be wrong by is aimed at on top.
        shift = coverage.shift
        careful = [replace(problem, alpha=problem.alpha - shift) for problem in problems]
        if self.rule == "worst-case":
            found = yield from super().find(coverage, careful, crossing, seed)
            return [_with_shift(at, shift) for at in found]
        _, high = coverage.range
        below = [1 - p.alpha + (1 - p.alpha - high) / p.n for p in careful]
        above = [1 - p.alpha + self.correction(p) for p in careful]
        found, gaps = yield from both(
            super().find(coverage, careful, crossing, seed), coverage.losses_between(below, above)
        )
        # With all classes in the sets, they cover.
        gaps = np.where([at.threshold < np.inf for at in found], gaps, 0.0)
        alphas = np.array([problem.alpha for problem in problems])
        large = np.flatnonzero(~gap_is_small(gaps, 1 / coverage.n, alphas)).tolist()
        if large:
            # A larger threshold, so what the exchange rule promises holds all the more.
            worst = yield from Expected("worst-case").find(
                coverage, [problems[i] for i in large], crossing, seed
            )
            for i, at in zip(large, worst, strict=True):
                note = f"the gap, {gaps[i]:.2g}, is not small, so the threshold is that of the worst case"
                found[i] = at._replace(note=note)
        shifted = [at if i in large else _with_shift(at, shift) for i, at in enumerate(found)]
        return [at._replace(gap=gap) for at, gap in zip(shifted, gaps.tolist(), strict=True)]


def _with_shift(found: Finding, shift: float) -> Finding:
    """Return a finding for a target that was raised by `shift`, as one for the target itself."""
    if not shift:
        return found
    obstacle = found.obstacle and f"{found.obstacle}; the radius of the noise alone takes {shift:.4g}"
    return found._replace(correction=found.correction + shift, obstacle=obstacle)
