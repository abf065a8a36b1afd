"""Uniform noise: with some probability the label is replaced by one drawn from all k classes."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nacp._types import Ints
from nacp.checks import check_count, check_interval, check_rate, set_checked
from nacp.errors import InputError
from nacp.noise.base import Noise
from nacp.noise.matrices import GroupedMatrix


class UniformFamily(Noise):
    """Noise that is uniform with some rate epsilon, which may depend on the number of classes."""

    is_uniform: ClassVar[bool] = True
    has_rate: ClassVar[bool] = True

    @abstractmethod
    def epsilon(self, k: int) -> float:
        """Return the rate of uniform noise for k classes."""

    def matrix(self, k: int) -> GroupedMatrix:
        """Return ``P = (1 - epsilon) I + epsilon / k`` (paper eq. 4)."""
        epsilon = self.epsilon(k)
        if not 0 <= epsilon < 1:
            problem = f"must have a rate in [0, 1) for {k:,} classes"
            raise InputError("noise", problem, found=f"{epsilon!r}, that of {self!r}")
        one_group = np.zeros(k, dtype=np.int64)
        return GroupedMatrix(one_group, np.array([1 - epsilon]), np.array([epsilon / k]))

    def uniform_rate(self, k: int) -> float:
        return self.epsilon(k)

    def with_error_rate(self, rate: float, k: int) -> "UniformNoise":
        return UniformNoise(rate)

    def permuted(self, order: Ints) -> "UniformFamily":
        return self

    def _less_noise(self, k: int) -> str:
        return f"state a smaller rate: at {self.epsilon(k):.4g} the labels say too little"

    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints:
        replaced = rng.random(len(labels)) < self.epsilon(k)
        return np.where(replaced, rng.integers(k, size=len(labels)), labels)


@dataclass(frozen=True, repr=False)
class UniformNoise(UniformFamily):
    """With probability `rate` the label is replaced by one drawn from *all* k classes.

    The drawn label may be the true one, so a share ``rate * (1 - 1/k)`` of the labels is wrong. For "a random
    *other* label with rate r" see `UniformNoise.other`.

    Parameters
    ----------
    rate : float
        The paper's epsilon, in [0, 1).
    interval, confidence : tuple of two floats, and float, optional
        An interval that contains the true rate, if that is not known exactly, and `rate`; and the probability
        of that. One minus it is added to delta, or to alpha for a guarantee without delta.

    Examples
    --------
    >>> import nacp
    >>> nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.95).describe(10)
    'uniform label noise with rate 0.15 to 0.25 (95% sure)'
    """

    rate: float
    interval: tuple[float, float] | None = None
    confidence: float = 1.0
    name: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        rate = check_rate(self.rate)
        interval, confidence = check_interval(rate, self.interval, self.confidence)
        set_checked(self, rate=rate, interval=interval, confidence=confidence)

    @classmethod
    def other(cls, rate: float, k: int) -> "UniformNoise":
        """Return the model "with probability `rate`, a random *other* label"; the rate is below ``(k - 1) /
        k``.

        Examples
        --------
        >>> import nacp
        >>> nacp.UniformNoise.other(0.25, k=6)
        UniformNoise(rate=0.3)
        """
        share = check_rate(rate)
        if share >= (check_count("k", k, 2) - 1) / k:
            problem = f"must lie in [0, {k - 1}/{k}), as it counts wrong labels among {k} classes"
            raise InputError("rate", problem, found=repr(rate))
        return cls(share * k / (k - 1))

    def __repr__(self) -> str:
        known = {name: value for name, value in vars(self).items() if value not in (None, 1.0)}
        return f"UniformNoise({', '.join(f'{name}={value!r}' for name, value in known.items())})"

    def epsilon(self, k: int) -> float:
        return self.rate

    def describe(self, k: int) -> str:
        if self.interval is None:
            return f"uniform label noise with rate {self.rate:.4g}"
        low, high = self.interval
        return f"uniform label noise with rate {low:.4g} to {high:.4g}{self.doubt.words}"
