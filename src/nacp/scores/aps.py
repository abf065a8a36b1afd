"""APS, the adaptive prediction sets score: the mass of all labels that are at least as probable."""

from dataclasses import dataclass
from typing import Any, ClassVar

from nacp.checks import check_fields, check_flag, check_seed
from nacp.scores.base import RankedScore


@dataclass(frozen=True)
class APS(RankedScore):
    """Adaptive sets: few labels for easy inputs, many for hard ones.

    Randomised (paper eq. 3): ``S(x, l) = sum of p_i over {p_i > p_l} + u p_l``.
    Deterministic (paper eq. 1): ``S(x, l) = sum of p_i over {p_i >= p_l}``.

    Parameters
    ----------
    randomized : bool, default=True
        The randomised score gives coverage closer to the target, and much smaller sets if k is large.
    seed : int, default=0
        The key of the hash that gives each row its u (see `uniforms`).

    References
    ----------
    Romano, Sesia, Candès (2020).

    Examples
    --------
    >>> import nacp
    >>> nacp.APS(randomized=False).scores([[0.5, 0.25, 0.25]]).tolist()
    [[0.5, 1.0, 1.0]]
    """

    randomized: bool = True
    seed: int = 0
    name: ClassVar[str] = "aps"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        check_fields(self, randomized=check_flag, seed=check_seed)

    def formula(self, ranks: Any) -> Any:
        return ranks.above + ranks.u * ranks.p if self.randomized else ranks.upto
