"""What a guarantee is: how a threshold is chosen from the evidence, and what that promises."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from nacp._types import Floats
from nacp.coverage import Evidence
from nacp.crossing import ROUNDING, Rule, find_crossings
from nacp.noise import Noise, UniformFamily, UniformNoise
from nacp.noise.matrices import ClassMatrix


@dataclass(frozen=True)
class Problem:
    """What is known before the probabilities are: a correction may depend on nothing else."""

    alpha: float
    n: int
    noise: Noise | None
    inverse: ClassMatrix
    counts: Floats

    @property
    def k(self) -> int:
        """The number of classes."""
        return self.inverse.k

    @property
    def small_set_deviation(self) -> float:
        """The standard deviation of one point's share where sets are small, for equally frequent classes."""
        noise = UniformNoise(0.0) if self.noise is None else self.noise
        coverage = 1 - self.alpha
        return math.sqrt(max(coverage * noise.matrix(self.k).mean_square(self.inverse) - coverage**2, 0.0))

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
            'use "pac" or "expected", or "none" for no guarantee'
        )


class Finding(NamedTuple):
    """A native threshold, F^c-hat there, by how much that had to exceed 1 - alpha, why it is infinite if it
    is, by how much the promise may fall short, and what else the user should know.
    """

    threshold: float
    estimate: float
    correction: float
    obstacle: str | None = None
    gap: float = 0.0
    note: str | None = None


class Guarantee(ABC):
    """A rule for the threshold and the promise that comes with it.

    `robust` says whether the promise still holds for the larger of the thresholds found at both ends of
    an interval of noise rates, `takes_radius` whether it holds for a matrix known up to a radius, and
    `needs_last` whether it holds for the last crossing only.
    """

    name: ClassVar[str]
    robust: ClassVar[bool] = False
    takes_radius: ClassVar[bool] = False
    needs_last: ClassVar[bool] = False
    delta: float | None = None

    @abstractmethod
    def find(
        self, evidence: Evidence, problems: Sequence[Problem], crossing: Rule, seed: int
    ) -> list[Finding]:
        """Return the threshold for each problem; these differ in alpha only."""

    @abstractmethod
    def promise(self, alpha: float) -> str:
        """Return in one sentence what holds for the sets."""

    @abstractmethod
    def price(self, problem: Problem, deviation: float) -> float:
        """Return by how much coverage will exceed 1 - alpha, if one point's share deviates by that much."""

    @classmethod
    def with_delta(cls, delta: float) -> Self:
        """Return the guarantee with that probability of failure; without effect where it has none."""
        return cls()

    def promise_under(self, noise: Noise | None, alpha: float) -> str:
        """Return in one sentence what holds if the noise is as stated with some confidence only.

        What is missing to 1 adds to delta, or to alpha where there is no delta.
        """
        doubt = 0.0 if noise is None else 1 - noise.confidence
        if self.delta is None:
            return self.promise(min(alpha + doubt, 1.0))
        return (self.with_delta(self.delta + doubt) if doubt else self).promise(alpha)

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for a file."""
        return {"name": self.name} | {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in vars(self).items()
        }

    def refuse(self, noise: Noise | None, crossing: Rule) -> None:
        """Say why the promise would not hold, if it would not."""
        doubtful = noise is not None and (len(noise.ends()) > 1 or noise.radius > 0)
        if crossing != "last" and (self.needs_last or doubtful):
            reason = "noise that is not known exactly" if not self.needs_last else f'guarantee "{self.name}"'
            raise ValueError(
                f'crossing="{crossing}" promises nothing with {reason}, where thresholds are judged from the '
                'largest down; use crossing="last"'
            )
        if noise is None or not doubtful:
            return
        if (len(noise.ends()) > 1 and not self.robust) or (noise.radius and not self.takes_radius):
            raise ValueError(
                f'guarantee "{self.name}" needs noise that is known exactly; noise is {noise!r}: '
                'use guarantee "pac" or "expected", or give the rate or the matrix alone'
            )
        if self.delta is not None and self.delta + 1 - noise.confidence >= 1:
            raise ValueError(
                f"delta {self.delta:g} and the confidence {noise.confidence:g} of the noise leave nothing to "
                "promise; use a smaller delta or a surer interval"
            )

    def samples_needed(self, problem: Problem, excess: float, deviation: float) -> int | None:
        """Return the least n at which the price is at most `excess`; None if none is found."""

        def enough(n: int) -> bool:
            return self.price(problem.resized(n), deviation) <= excess + ROUNDING

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


class Corrected(Guarantee):
    """A guarantee whose threshold is where the estimated clean coverage reaches 1 - alpha + correction."""

    @abstractmethod
    def correction(self, problem: Problem) -> float:
        """Return what is added to the target 1 - alpha; infinite where nothing would do."""

    def obstacle(self, problem: Problem) -> str | None:
        """Return why the correction is infinite, where it is."""
        return None

    def price(self, problem: Problem, deviation: float) -> float:
        """Return the correction."""
        return self.correction(problem)

    def find(
        self, evidence: Evidence, problems: Sequence[Problem], crossing: Rule, seed: int
    ) -> list[Finding]:
        """Return where the estimate crosses the corrected target."""
        corrections = [self.correction(problem) for problem in problems]
        targets = [1 - p.alpha + delta for p, delta in zip(problems, corrections, strict=True)]
        return [
            Finding(*at, delta, None if at.threshold < np.inf else self._why(problem, delta))
            for at, problem, delta in zip(
                find_crossings(evidence, targets, crossing), problems, corrections, strict=True
            )
        ]

    def _why(self, problem: Problem, correction: float) -> str:
        reason = self.obstacle(problem)
        if reason is not None:
            return reason
        if correction <= problem.alpha + ROUNDING:
            return "the estimated coverage stays below the target at every finite score"
        needed = self.samples_needed(problem, problem.alpha, 0.0)
        enough = "no sample size would do" if needed is None else f"{needed} points would do"
        return (
            f'with {problem.n} points the correction of guarantee "{self.name}", {correction:.4g}, '
            f"puts the target {1 - problem.alpha:.6g} above 1; {enough}"
        )


def percent(fraction: float) -> str:
    """Write 0.999 as 99.9%."""
    return f"{100 * fraction:.6g}%"


def nearly_always(delta: float, alpha: float) -> str:
    """Return the sentence that promises coverage for all but a fraction delta of calibration sets."""
    return (
        f"for at least {percent(1 - delta)} of calibration sets, "
        f"coverage of the true label is at least {percent(1 - alpha)}"
    )
