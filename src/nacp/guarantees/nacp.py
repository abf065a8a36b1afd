"""NACP, the paper's guarantee: a correction that does not grow with the number of classes."""

import math
from dataclasses import dataclass
from typing import ClassVar

from nacp.checks import check_fields, check_fraction
from nacp.guarantees.base import Corrected, Problem, nearly_always

# Massart's one-sided inequality is used down to a tail of e delta / 4, and it holds up to one half.
_LARGEST_DELTA = 2 / math.e


def nacp_correction(n: int, epsilon: float, delta: float) -> float:
    """Return ``sqrt(log(4/delta) / (2 n h^2))`` with ``h = (1 - epsilon)/(1 + epsilon)``: Theorem 3.3.

    Examples
    --------
    >>> from nacp.guarantees.nacp import nacp_correction
    >>> round(nacp_correction(25000, 0.2, 0.001), 3)
    0.019
    """
    h = (1 - epsilon) / (1 + epsilon)
    return math.sqrt(math.log(4 / delta) / (2 * n * h**2))


@dataclass(frozen=True)
class NACP(Corrected):
    """For a fraction 1 - delta of calibration sets, clean coverage is at least 1 - alpha.

    For uniform noise. The correction depends on n, the noise rate and delta, not on k. The promise holds for
    all alphas at once, as the proof bounds the error of the estimate at all thresholds; it needs a delta of
    at most 2/e, about 0.73 (docs/theory.md).

    Parameters
    ----------
    delta : float, default=0.001
        The probability, over the calibration set, with which the promise may fail.

    References
    ----------
    Penso, Goldberger, Fetaya (2025), Theorem 3.3.

    Examples
    --------
    >>> import nacp
    >>> nacp.NACP(delta=0.01).promise(0.1)
    'for at least 99% of calibration sets, coverage of the true label is at least 90%'
    """

    delta: float = 1e-3
    name: ClassVar[str] = "nacp"
    only_uniform: ClassVar[bool] = True
    takes_interval: ClassVar[bool] = True
    all_alphas: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, delta=check_fraction)

    def correction(self, problem: Problem) -> float:
        return nacp_correction(problem.n, problem.epsilon, self.delta)

    def promise(self, alpha: float) -> str:
        """Return in one sentence what holds for the sets, as far as that is proved."""
        proved = "" if self.delta <= _LARGEST_DELTA else "; this is proved for a delta of at most 0.73 only"
        return nearly_always(self.delta, alpha) + proved
