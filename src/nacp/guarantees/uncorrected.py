"""No correction: the target is reached by the estimate, and on average about reached by the truth."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nacp._types import Ints
from nacp.coverage import Rule, Talk
from nacp.coverage.audited import AuditedCoverage
from nacp.coverage.parted import PartedCoverage
from nacp.guarantees import parted
from nacp.guarantees.audited import cross
from nacp.guarantees.base import Corrected, Finding, Problem, percent


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
    takes_several: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True
    name: ClassVar[str] = "none"

    def correction(self, problem: Problem) -> float:
        return 0.0

    def of_counts(self, counts: Callable[[], Ints]) -> Hashable:
        return ()

    def find_checked(self, coverage: AuditedCoverage, alphas: Sequence[float]) -> list[Finding]:
        """Return where the estimate from checked labels reaches 1 - alpha."""
        return cross(coverage, alphas)

    def find_parted(
        self, coverage: PartedCoverage, alpha: float, crossing: Rule, seed: int
    ) -> Talk[list[Finding]]:
        """Return where the estimate of each group reaches 1 - alpha."""
        return parted.cross(coverage, alpha, np.zeros(coverage.number), crossing, self.name)

    def promise(self, alpha: float) -> str:
        return (
            f"no guarantee: coverage is near {percent(1 - alpha)} on average, "
            "and about half of all calibration sets fall short"
        )
