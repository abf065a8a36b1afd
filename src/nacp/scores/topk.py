"""The top-k score: the rank of a label. All sets have the same size, except for ties."""

from dataclasses import dataclass
from typing import Any, ClassVar

from nacp.scores.base import RankedScore


@dataclass(frozen=True)
class TopK(RankedScore):
    """``S(x, l) = |{i : p_i >= p_l}|``: the rank of l; tied labels have the largest of their ranks.

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
