"""The margin score: the difference between the probability of the best other label and that of the label."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nacp.scores.base import RankedScore


@dataclass(frozen=True)
class Margin(RankedScore):
    """``S(x, l) = max_{i != l} p_i - p_l``; negative for the most probable label.

    Examples
    --------
    >>> import nacp
    >>> nacp.Margin().scores([[0.5, 0.25, 0.25]]).tolist()
    [[-0.25, 0.25, 0.25]]
    """

    name: ClassVar[str] = "margin"
    span: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def formula(self, ranks: Any) -> Any:
        return np.where(ranks.p == ranks.top, ranks.second, ranks.top) - ranks.p
