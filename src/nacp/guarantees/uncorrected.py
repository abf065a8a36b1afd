"""No correction: the estimate reaches the target, and true coverage is close to it on average."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from nacp.guarantees.base import Corrected, Finding, Problem, percent

if TYPE_CHECKING:
    from nacp.audit.checked_sample import CheckedSample


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

    def find_checked(self, sample: "CheckedSample", alphas: Sequence[float]) -> list[Finding]:
        """Return the threshold at which the estimate from checked labels reaches 1 - alpha."""
        return sample.crossings(alphas)

    def promise(self, alpha: float) -> str:
        return (
            f"no guarantee: coverage is near {percent(1 - alpha)} on average, "
            "and about half of all calibration sets fall short"
        )
