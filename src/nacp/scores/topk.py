"""The top-k score: the rank of a label, so that all sets have (nearly) the same size."""

from dataclasses import dataclass
from typing import Any, ClassVar

from nacp.scores.base import RankedScore


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
    span: ClassVar[tuple[float, float]] = (0.0, float("inf"))

    def formula(self, ranks: Any) -> Any:
        return 1.0 * ranks.n_upto
