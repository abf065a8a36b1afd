"""No correction: the target is reached by the estimate, and on average about reached by the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from nacp.coverage import Talk
from nacp.coverage.audited import AuditedCoverage
from nacp.guarantees.audited import cross
from nacp.guarantees.base import Corrected, Finding, Problem, percent
from nacp.guarantees.pac import PAC
from nacp.guarantees.pointwise import say_where_coarse, threshold_grid


@dataclass(frozen=True)
class Uncorrected(Corrected):
    """NR-CP: the threshold at which the estimated clean coverage reaches 1 - alpha.

    Examples
    --------
    >>> import nacp
    >>> nacp.Uncorrected().promise(0.1)
    'no guarantee: coverage is near 90% on average, and about half of all calibration sets fall short'
    """

    promises_truth: ClassVar[bool] = False
    takes_checked: ClassVar[bool] = True
    name: ClassVar[str] = "none"

    def correction(self, problem: Problem) -> float:
        """Return 0."""
        return 0.0

    def find_checked(self, coverage: AuditedCoverage, alphas: Sequence[float]) -> Talk[list[Finding]]:
        """Return where the estimate from checked labels reaches 1 - alpha."""
        grid = threshold_grid(*coverage.sample.score.span, PAC.step)
        found = yield from cross(coverage, alphas, grid)
        return say_where_coarse(found, alphas, coverage.checked_scores, grid)

    def promise(self, alpha: float) -> str:
        """Return in one sentence what holds for the sets."""
        return (
            f"no guarantee: coverage is near {percent(1 - alpha)} on average, "
            "and about half of all calibration sets fall short"
        )
