"""ACNL, the guarantee of adaptive conformal classification with noisy labels."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nacp._types import Floats
from nacp.errors import InputError
from nacp.guarantees.base import Problem
from nacp.guarantees.priors import PriorGuarantee
from nacp.noise.matrices import ClassMatrix
from nacp.stats.bounds import expected_excess


def acnl_correction(
    n: int,
    smallest_count: float,
    inverse: ClassMatrix,
    true: Floats,
    noisy: Floats,
    label: int | None = None,
) -> float:
    """Return the correction of ACNL; section 4 of the paper, with n_* in both places.

    ``V = M^-1`` for ``M[j, i] = p(true = i | noisy = j)``, so ``V[i, l] = W[l, i] noisy[l]/true[i]``, where
    `true` and `noisy` are the class frequencies; n_* is the count of the rarest noisy class. With a label,
    it is that for coverage within this class, which has n points: the paper's label-conditional method.

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> from nacp.guarantees.acnl import acnl_correction
    >>> even = np.full(10, 0.1)
    >>> round(acnl_correction(5000, 480, nacp.UniformNoise(0.2).inverse(10), even, even), 3)
    0.059
    """
    each = _column_sums(inverse, noisy) / true
    spread, pairs = 2 * float(each.max()) + float(np.abs(true - noisy).sum()), inverse.k**2
    if label is not None:
        spread, pairs = 2 * float(each[label]), inverse.k
    rate = min(
        pairs * math.sqrt(math.pi / 2),
        1 / math.sqrt(smallest_count) + math.sqrt((math.log(2 * pairs) + math.log(smallest_count)) / 2),
    )
    return expected_excess(n) + spread / math.sqrt(smallest_count) * rate


def _column_sums(inverse: ClassMatrix, weights: Floats) -> Floats:
    """Return ``sum over l != i of weights[l] |W[l, i]|`` for each class i."""
    sizes = inverse.combine(np.abs)
    return sizes.push(weights) - weights * sizes.diagonal


@dataclass(frozen=True, eq=False)
class ACNL(PriorGuarantee):
    """Expected clean coverage is at least 1 - alpha; the correction grows with k.

    Parameters
    ----------
    priors : array of shape (k,), optional
        The frequencies of the true classes. Estimated from the noisy labels by default.

    References
    ----------
    Sesia, Wang, Tong (2023), *Adaptive conformal classification with noisy labels*.

    Examples
    --------
    >>> import nacp
    >>> nacp.ACNL().promise(0.1)
    'coverage of the true label is at least 90% in expectation over calibration sets, if the class
    frequencies estimated from the labels are exact'
    """

    name: ClassVar[str] = "acnl"
    takes_classes: ClassVar[bool] = True
    takes_groups_of_classes: ClassVar[bool] = False

    def correction(self, problem: Problem) -> float:
        if self.obstacle(problem):
            return math.inf
        true, noisy = self.frequencies(problem)
        least, inverse = float(problem.counts.min()), problem.inverse
        if problem.members is None:
            return acnl_correction(problem.n, least, inverse, true, noisy)
        if self.priors is not None:
            raise InputError(
                "guarantee",
                '"acnl" by class estimates the class frequencies from the labels, so priors cannot be used',
                remedy="pass nacp.ACNL() without priors",
            )
        (label,) = problem.members.tolist()
        return acnl_correction(int(problem.counts[label]), least, inverse, true, noisy, label)

    def obstacle(self, problem: Problem) -> str | None:
        absent, (true, _) = self.absent(problem), self.frequencies(problem)
        if absent is not None or true.min() > 0:
            return absent
        if problem.members is not None and (true[problem.members] > 0).all():
            return None
        return (
            f'guarantee "acnl" needs positive class frequencies; the estimate for class '
            f"{int(true.argmin())} is {true.min():.3g}: pass nacp.ACNL(priors=...)"
        )
