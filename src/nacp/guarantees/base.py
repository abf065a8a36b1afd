"""What a guarantee is: how much more than 1 - alpha the estimate must show, and what that promises."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from nacp._types import Floats
from nacp.crossing import ROUNDING
from nacp.noise import Noise, UniformFamily
from nacp.noise.matrices import ClassMatrix


@dataclass(frozen=True)
class Problem:
    """What a correction may depend on: never the probabilities, so it is known before they are."""

    alpha: float
    n: int
    noise: Noise | None
    inverse: ClassMatrix
    counts: Floats

    @property
    def k(self) -> int:
        """The number of classes."""
        return self.inverse.k

    def resized(self, n: int) -> "Problem":
        """Return the same problem with n points and the labels in the same proportions."""
        return replace(self, n=n, counts=self.counts * (n / self.n))

    def epsilon(self, guarantee: str) -> float:
        """Return the rate of uniform noise, or say that `guarantee` needs it."""
        if self.noise is None:
            return 0.0
        if isinstance(self.noise, UniformFamily):
            return self.noise.epsilon(self.k)
        raise ValueError(
            f'guarantee "{guarantee}" holds for uniform noise only; noise is {self.noise!r}; '
            'use "acnl" or "crcp", or "none" for no guarantee'
        )


class Guarantee(ABC):
    """A correction to the target and the promise that comes with it.

    The threshold is chosen so that the estimated clean coverage reaches ``1 - alpha + correction``.
    """

    name: ClassVar[str]

    @abstractmethod
    def correction(self, problem: Problem) -> float:
        """Return what is added to the target 1 - alpha; infinite where nothing would do."""

    @abstractmethod
    def promise(self, alpha: float) -> str:
        """Return in one sentence what holds for the sets."""

    @classmethod
    def with_delta(cls, delta: float) -> Self:
        """Return the guarantee with that probability of failure; without effect where it has none."""
        return cls()

    def obstacle(self, problem: Problem) -> str | None:
        """Return why the correction is infinite, where it is."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for a file."""
        return {"name": self.name} | {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in vars(self).items()
        }

    def samples_needed(self, problem: Problem) -> int | None:
        """Return the least n at which the corrected target is at most 1; None if none is found."""

        def enough(n: int) -> bool:
            return self.correction(problem.resized(n)) <= problem.alpha + ROUNDING

        high = problem.n
        while not enough(high):
            high *= 2
            if high > 1 << 48:
                return None
        low = 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


def percent(fraction: float) -> str:
    """Write 0.999 as 99.9%."""
    return f"{100 * fraction:.6g}%"
