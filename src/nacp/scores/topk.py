"""The top-k score: the rank of a label, so that all sets have (nearly) the same size."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nacp._types import Floats
from nacp.scores.base import RankedScore, Ranks


@dataclass(frozen=True)
class TopK(RankedScore):
    """``S(x, l) = |{i : p_i >= p_l}|``: the rank of l, ties counted to its disadvantage.

    Examples
    --------
    >>> import nacp
    >>> nacp.TopK().scores([[0.5, 0.25, 0.25]]).tolist()
    [[1.0, 3.0, 3.0]]
    """

    name: ClassVar[str] = "topk"
    span: ClassVar[tuple[float, float]] = (0.0, np.inf)

    def formula(self, ranks: Ranks) -> Floats:
        return ranks.n_upto.astype(np.float64)
