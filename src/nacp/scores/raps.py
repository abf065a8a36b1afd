"""RAPS, the regularised APS score: APS plus a penalty on the rank of a label."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nacp.checks import check_count, check_fields, check_nonnegative
from nacp.scores.aps import APS


@dataclass(frozen=True)
class RAPS(APS):
    """Regularised adaptive sets (the paper's equation 2): ``APS + a max(0, NC - b)``.

    NC is the number of labels at least as probable as l, in both versions of APS.

    Parameters
    ----------
    penalty : float, default=0.01
        The paper's a: the penalty for each rank beyond `free`.
    free : int, default=5
        The paper's b: the number of ranks without a penalty.
    randomized, seed
        As in `APS`.

    References
    ----------
    Angelopoulos, Bates, Malik, Jordan (2021).

    Examples
    --------
    >>> import nacp
    >>> raps = nacp.RAPS(penalty=0.5, free=1, randomized=False)
    >>> raps.scores([[0.5, 0.25, 0.25]]).tolist()
    [[0.5, 2.0, 2.0]]
    """

    penalty: float = 0.01
    free: int = 5
    name: ClassVar[str] = "raps"
    span: ClassVar[tuple[float, float]] = (0.0, np.inf)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, penalty=check_nonnegative, free=check_count)

    def formula(self, ranks: Any) -> Any:
        return super().formula(ranks) + self.penalty * np.maximum(0, ranks.n_upto - self.free)
