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

from nacp._validation import check_choice, set_checked
from nacp.coverage import Evidence
from nacp.crossing import Rule, find_crossings
from nacp.guarantees.acnl import expected_excess
from nacp.guarantees.base import Corrected, Finding, Problem, percent

_SMALL = 3.0


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
    robust: ClassVar[bool] = True
    takes_radius: ClassVar[bool] = True
    needs_last: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_checked(self, rule=check_choice("rule", self.rule, ("exchange", "worst-case")))

    def correction(self, problem: Problem) -> float:
        """Return ``(1 - alpha - lo)/n``, or ``||W|| c(n)`` in the worst case."""
        low, high = problem.inverse.subset_range()
        if self.rule == "worst-case":
            return (high - low) * expected_excess(problem.n)
        return (1 - problem.alpha - low) / problem.n

    def promise(self, alpha: float) -> str:
        """Return in one sentence what holds for the sets."""
        gap = "" if self.rule == "worst-case" else ", less a gap that is estimated"
        return (
            f"coverage of the true label is at least {percent(1 - alpha)} "
            f"in expectation over calibration sets{gap}"
        )

    def find(
        self, evidence: Evidence, problems: Sequence[Problem], crossing: Rule, seed: int
    ) -> list[Finding]:
        """Return where the estimate crosses the corrected target, and the gap."""
        # What a radius may be wrong by is aimed at on top.
        doubt = evidence.doubt
        careful = [replace(problem, alpha=problem.alpha - doubt) for problem in problems]
        found = super().find(evidence, careful, crossing, seed)
        if doubt:
            found = [_with_doubt(at, doubt) for at in found]
        if self.rule == "worst-case":
            return found
        _, high = evidence.range
        lower = find_crossings(
            evidence, [1 - p.alpha + (1 - p.alpha - high) / p.n for p in careful], crossing
        )
        thresholds = [[least.threshold, at.threshold] for least, at in zip(lower, found, strict=True)]
        losses = evidence.losses(np.array(thresholds).ravel()).reshape(-1, 2)
        gaps = np.where(np.isfinite(thresholds).all(axis=1), np.diff(losses)[:, 0], 0.0)
        for i, (problem, gap) in enumerate(zip(problems, gaps.tolist(), strict=True)):
            if gap > min(_SMALL / problem.n, problem.alpha / 10):
                # A larger threshold, so what the exchange rule promises holds all the more.
                (found[i],) = Expected("worst-case").find(evidence, [problem], crossing, seed)
                note = f"the gap, {gap:.2g}, is not small, so the threshold is that of the worst case"
                found[i] = found[i]._replace(note=note)
            found[i] = found[i]._replace(gap=gap)
        return found


def _with_doubt(found: Finding, doubt: float) -> Finding:
    """Return a finding for a target that was raised by `doubt`, as one for the target itself."""
    obstacle = found.obstacle and f"{found.obstacle}; the radius of the noise alone takes {doubt:.4g}"
    return found._replace(correction=found.correction + doubt, obstacle=obstacle)
