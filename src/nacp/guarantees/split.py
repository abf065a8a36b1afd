"""Split conformal prediction: the rule for labels taken as they are."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar

from nacp._types import Ints
from nacp.coverage import Rule, Talk
from nacp.coverage.parted import PartedCoverage
from nacp.guarantees import parted
from nacp.guarantees.base import Corrected, Finding, Problem, on_average


@dataclass(frozen=True)
class SplitConformal(Corrected):
    """Split conformal prediction: the ``ceil((n + 1)(1 - alpha))``-th smallest score.

    As a correction: the share i/n of scores at or below the threshold must reach
    ``(1 - alpha)(n + 1)/n``.

    Examples
    --------
    >>> import nacp
    >>> nacp.SplitConformal().promise(0.1)
    'coverage of the given labels is at least 90% in expectation over calibration sets'
    """

    promises_truth: ClassVar[bool] = False
    name: ClassVar[str] = "split"
    only_as_given: ClassVar[bool] = True
    takes_several: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True

    def correction(self, problem: Problem) -> float:
        return (1 - problem.alpha) / problem.n

    def of_counts(self, counts: Callable[[], Ints]) -> Hashable:
        return ()

    def find_parted(
        self, coverage: PartedCoverage, alpha: float, crossing: Rule, seed: int
    ) -> Talk[list[Finding]]:
        """Return the threshold of each group by its own points: Mondrian conformal prediction."""
        return parted.cross(coverage, alpha, (1 - alpha) * coverage.per_point, crossing, self.name)

    def promise(self, alpha: float) -> str:
        return on_average(alpha, of="the given labels")
