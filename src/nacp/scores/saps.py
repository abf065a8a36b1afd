"""SAPS, the sorted APS score, which depends on the largest probability and the rank only."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nacp.checks import check_fields, check_flag, check_nonnegative, check_seed
from nacp.scores.base import RankedScore


@dataclass(frozen=True)
class SAPS(RankedScore):
    """With g labels more probable than l: ``u p_max`` if g = 0, else ``p_max + penalty (g - 1 + u)``.

    Parameters
    ----------
    randomized : bool, default=True
        ``False`` sets u = 1.
    seed : int, default=0
        The key of the hash that gives each row its u (see `uniforms`).
    penalty : float, default=0.2
        The penalty for each rank.

    References
    ----------
    Huang, Xi, Zhang, Yao, Qiu, Wei (2024).

    Examples
    --------
    >>> import nacp
    >>> nacp.SAPS(randomized=False, penalty=0.25).scores([[0.5, 0.375, 0.125]]).tolist()
    [[0.5, 0.75, 1.0]]
    """

    randomized: bool = True
    seed: int = 0
    penalty: float = 0.2
    name: ClassVar[str] = "saps"
    span: ClassVar[tuple[float, float]] = (0.0, np.inf)

    def __post_init__(self) -> None:
        check_fields(self, randomized=check_flag, seed=check_seed, penalty=check_nonnegative)

    def formula(self, ranks: Any) -> Any:
        u = ranks.u if self.randomized else 1.0
        g = ranks.n_above
        return np.where(g == 0, u * ranks.top, ranks.top + self.penalty * (g - 1 + u))
