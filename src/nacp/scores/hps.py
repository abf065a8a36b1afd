"""HPS, the homogeneous prediction sets score 1 - p, also called LAC or THR."""

from dataclasses import dataclass
from typing import ClassVar

from nacp.engine import Spec
from nacp.scores.base import Score


@dataclass(frozen=True)
class HPS(Score):
    """``S(x, l) = 1 - p_l``, which gives the smallest sets on average.

    References
    ----------
    Vovk, Gammerman, Shafer (2005); Sadinle, Lei, Wasserman (2019).

    Examples
    --------
    >>> import nacp
    >>> nacp.HPS().scores([[0.5, 0.25, 0.25]]).tolist()
    [[0.5, 0.75, 0.75]]
    """

    name: ClassVar[str] = "hps"
    offset: ClassVar[float] = 1.0
    span: ClassVar[tuple[float, float]] = (-1.0, 0.0)
    spec: ClassVar[Spec] = Spec("hps")
