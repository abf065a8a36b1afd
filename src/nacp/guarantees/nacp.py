"""NACP, the paper's guarantee: a correction that does not grow with the number of classes.

The paper proves it for uniform noise. For other matrices the correction is that of T4 in docs/guarantees.md:
the share of a point is the difference of two functions that increase with the threshold, and the mean of each
is the conditional expectation of an empirical distribution function.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from nacp._types import Floats
from nacp.checks import check_fields, check_fraction
from nacp.guarantees.base import Corrected, Problem, nearly_always

# The proof uses Massart's one-sided inequality for tails of e delta / 4; it holds for tails of at most 1/2.
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


@lru_cache(maxsize=256)
def matrix_correction(n: int, low: float, high: float, delta: float) -> float:
    """Return ``high r(d) + |low| r(delta - d)`` at the best d: T4, for shares in [low, high].

    Examples
    --------
    >>> from nacp.guarantees.nacp import matrix_correction
    >>> round(matrix_correction(25000, -0.25, 1.25, 0.001), 3)
    0.019
    """
    part = np.linspace(0, 1, 1001)[1:-1] * delta
    if low >= 0:
        return float(high * _deviation(np.array([delta]))[0] / math.sqrt(n))
    return float(np.min(high * _deviation(part) - low * _deviation(delta - part)) / math.sqrt(n))


def _deviation(delta: Floats) -> Floats:
    """Return ``min over A >= 1.18 of (A + sqrt(2 pi) P(Z > A)/delta) / 2``, with a standard normal Z."""
    from scipy.special import ndtr

    # The derivative is proportional to 1 - exp(-A^2/2)/delta, whose root is the minimum.
    a = np.maximum(np.sqrt(np.maximum(-2 * np.log(delta), 0)), 1.18)
    found: Floats = (a + math.sqrt(2 * math.pi) * ndtr(-a) / delta) / 2
    return found


@dataclass(frozen=True)
class NACP(Corrected):
    """For a fraction 1 - delta of calibration sets, clean coverage is at least 1 - alpha; any noise model.

    For uniform noise and one label per point, the correction is that of the paper: it depends on n, the noise
    rate and delta, but not on k. For other noise it is that of T4 in docs/guarantees.md, which depends on k
    only through the condition of the matrix. The promise holds for all alphas at once, because the proofs
    bound the error of the estimate at all thresholds. For uniform noise the proof requires delta <= 2/e,
    about 0.73 (docs/theory.md).

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
    takes_interval: ClassVar[bool] = True
    takes_several: ClassVar[bool] = True
    all_alphas: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, delta=check_fraction)

    def correction(self, problem: Problem) -> float:
        if problem.is_uniform:
            return nacp_correction(problem.n, problem.epsilon, self.delta)
        low, high = (end + 1 - problem.alpha for end in problem.range)
        return matrix_correction(problem.n, low, high, self.delta)

    def promise(self, alpha: float) -> str:
        """Return the promise in one sentence, with the limits of its proof."""
        proved = "" if self.delta <= _LARGEST_DELTA else "; this is proved for a delta of at most 0.73 only"
        return nearly_always(self.delta, alpha) + proved
