"""Labels made private by k-ary randomised response: uniform noise with a known rate."""

import math
from dataclasses import dataclass
from typing import ClassVar

from nacp.checks import check_fields, check_nonnegative
from nacp.errors import InputError
from nacp.noise.uniform import UniformFamily


@dataclass(frozen=True)
class RandomizedResponse(UniformFamily):
    """k-ary randomised response: the label is kept with probability ``e^privacy / (e^privacy + k - 1)``.

    Otherwise another label is drawn at random: uniform noise with ``epsilon = k/(e^privacy + k - 1)``.

    Parameters
    ----------
    privacy : float
        The parameter of label differential privacy; larger is less private.

    Examples
    --------
    >>> import nacp
    >>> round(nacp.RandomizedResponse(privacy=8.0).epsilon(1000), 3)
    0.251
    """

    privacy: float
    name: ClassVar[str] = "randomized-response"

    def __post_init__(self) -> None:
        check_fields(self, privacy=check_nonnegative)
        if self.privacy == 0:
            raise InputError("privacy", "must be above 0: at 0 the labels say nothing")

    def epsilon(self, k: int) -> float:
        kept = math.exp(min(self.privacy, 700.0))
        return k / (kept + k - 1)

    def describe(self, k: int) -> str:
        return (
            f"labels randomised for privacy {self.privacy:.4g} "
            f"(uniform label noise with rate {self.epsilon(k):.4g})"
        )
