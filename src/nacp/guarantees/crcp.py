"""CRCP, the guarantee of contamination-robust conformal prediction."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nacp._types import Floats
from nacp.guarantees.base import Problem
from nacp.guarantees.priors import PriorGuarantee
from nacp.noise.matrices import ClassMatrix


def crcp_correction(n: int, inverse: ClassMatrix, noisy: Floats) -> float:
    """Return the correction of CRCP; section 4 of the paper.

    In terms of W, ``w1_i = (W[i, i] - 1) noisy_i`` and ``w2_ij = W[j, i] noisy_j``. The true class
    frequencies cancel, which leaves a sum over the rows of W.

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> from nacp.guarantees.crcp import crcp_correction
    >>> round(crcp_correction(5000, nacp.UniformNoise(0.2).inverse(10), np.full(10, 0.1)), 3)
    0.036
    """
    low, high = inverse.row_ranges
    weights = np.abs(inverse.diagonal - 1) + high - low - np.abs(inverse.diagonal)
    b = (1 - noisy) ** n + np.sqrt(math.pi / (n * noisy))
    return float(np.sum(weights * noisy * b))


@dataclass(frozen=True, eq=False)
class CRCP(PriorGuarantee):
    """Expected clean coverage is at least 1 - alpha; the correction grows with the square root of k.

    Parameters
    ----------
    priors : array of shape (k,), optional
        The frequencies of the true classes. Estimated from the noisy labels by default.

    References
    ----------
    Clarkson, Xu, Cucuringu, Reinert (2024), *Split conformal prediction under data contamination*.

    Examples
    --------
    >>> import nacp
    >>> nacp.CRCP(priors=[0.5, 0.5]).promise(0.1)
    'coverage of the true label is at least 90% in expectation over calibration sets, if the class
    frequencies are as stated'
    """

    name: ClassVar[str] = "crcp"

    def correction(self, problem: Problem) -> float:
        if self.obstacle(problem):
            return math.inf
        _, noisy = self.frequencies(problem)
        correction = crcp_correction(problem.n, problem.inverse, noisy)
        # The authors use the quantile of n + 1 points, while F^c-hat is a mean over n points.
        return correction + (1 - problem.alpha + correction) / problem.n

    def obstacle(self, problem: Problem) -> str | None:
        missing = self.absent(problem)
        return f"{missing}; or pass nacp.CRCP(priors=...)" if missing and self.priors is None else None
