"""What a guarantee is: how a threshold is chosen from a sample, and what that promises."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nacp._types import Floats, Ints
from nacp.coverage import Coverage, Rule, Talk
from nacp.coverage.audited import AuditedCoverage
from nacp.coverage.crossing import ROUNDING
from nacp.coverage.parted import PartedCoverage
from nacp.errors import InputError
from nacp.noise import Noise, UniformFamily, UniformNoise
from nacp.noise.matrices import ClassMatrix
from nacp.wrapping import counted


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

    @property
    def epsilon(self) -> float:
        """The rate of uniform noise; of other noise, which a guarantee does not apply to, there is none."""
        if self.noise is None:
            return 0.0
        assert isinstance(self.noise, UniformFamily)
        return self.noise.epsilon(self.k)


class Finding(NamedTuple):
    """What a guarantee found."""

    threshold: float  # a native one
    estimate: float  # F^c-hat there
    correction: float  # what was added to the target 1 - alpha
    obstacle: str | None = None  # why the threshold is infinite, if it is
    gap: float = 0.0  # by how much the promise may fall short
    note: str | None = None  # what else the user should know
    deviation: float | None = None  # of one point's share at the threshold, where the guarantee looked at it


class Guarantee(ABC):
    """A rule for the threshold and the promise that comes with it.

    A guarantee that may fail with some probability is a dataclass with a field `delta`. The class says
    whether anything is promised about the true label (`promises_truth`), and for what that holds:
    `only_uniform` noise, only for labels taken as they are (`only_as_given`), only for the last crossing
    (`needs_last`); and whether it still holds for the larger of the thresholds found at both ends of an
    interval of noise rates (`takes_interval`) or for a matrix known up to a radius (`takes_radius`). One that
    can be found from checked labels, whatever the noise is, says so (`takes_checked`), and so does one that
    holds for shares averaged over several labels of a point (`takes_several`), and one that can be found for
    groups of classes (`takes_classes`). One with a delta holds for each alpha by itself, if it does not say
    that it holds for all at once (`all_alphas`).
    """

    name: ClassVar[str]
    promises_truth: ClassVar[bool] = True
    only_uniform: ClassVar[bool] = False
    only_as_given: ClassVar[bool] = False
    needs_last: ClassVar[bool] = False
    takes_interval: ClassVar[bool] = False
    takes_radius: ClassVar[bool] = False
    takes_checked: ClassVar[bool] = False
    takes_several: ClassVar[bool] = False
    takes_classes: ClassVar[bool] = False
    all_alphas: ClassVar[bool] = False
    delta: float | None = None

    @abstractmethod
    def find(
        self, coverage: Coverage, problems: Sequence[Problem], crossing: Rule, seed: int
    ) -> Talk[list[Finding]]:
        """Return the threshold for each problem; these differ in alpha only."""

    def find_checked(self, coverage: AuditedCoverage, alphas: Sequence[float]) -> list[Finding]:
        """Return the threshold for each alpha where some labels were checked, if it `takes_checked` ones."""
        raise NotImplementedError  # never asked: one that does not take them is refused before

    def find_parted(
        self, coverage: PartedCoverage, alpha: float, crossing: Rule, seed: int
    ) -> Talk[list[Finding]]:
        """Return the threshold of each group of classes, if it `takes_classes`."""
        raise NotImplementedError  # never asked either

    @abstractmethod
    def promise(self, alpha: float) -> str:
        """Return in one sentence what holds for the sets."""

    @abstractmethod
    def price(self, problem: Problem, deviation: float) -> float:
        """Return by how much coverage will exceed 1 - alpha, if one point's share deviates by that much."""

    @classmethod
    def takes_delta(cls) -> bool:
        """Return whether there is a probability of failure to choose."""
        return is_dataclass(cls) and any(field.name == "delta" for field in fields(cls))

    def applies(self, noise: Noise | None, crossing: Rule) -> str | None:
        """Return why the promise would not hold, if it would not; asked before any row is read."""
        if self.only_as_given and noise is not None:
            return f"takes the labels as they are, with noise=None; noise is {noise!r}"
        if self.only_uniform and not (noise is None or isinstance(noise, UniformFamily)):
            return (
                f'holds for uniform noise only; noise is {noise!r}: use "pac" or "expected", or "none" '
                "for no guarantee"
            )
        if crossing != "last" and self.needs_last:
            return (
                f'judges thresholds from the largest down, so crossing="{crossing}" promises nothing: '
                'use "last"'
            )
        if noise is None or noise.doubt.exact:
            return None
        doubt = noise.doubt
        if crossing != "last":
            return f'promises nothing with crossing="{crossing}" where noise is not known exactly: use "last"'
        if (len(doubt.ends) > 1 and not self.takes_interval) or (doubt.radius and not self.takes_radius):
            known = "an interval of rates" if len(doubt.ends) > 1 else "a radius around the matrix"
            return (
                f'needs noise that is known exactly, not up to {known}: use "pac" or "expected", or give '
                "the rate or the matrix alone"
            )
        if self.delta is not None and self.delta + doubt.missing >= 1:
            return (
                f"has nothing to promise with delta {self.delta:g} and confidence {doubt.confidence:g} of "
                "the noise: use a smaller delta or a surer interval"
            )
        return None

    def check_applies(self, noise: Noise | None, crossing: Rule) -> None:
        """Refuse where the promise would not hold."""
        reason = self.applies(noise, crossing)
        if reason is not None:
            raise InputError("guarantee", f'"{self.name}" {reason}')

    def check_several(self, *, several: bool) -> None:
        """Refuse several labels for each point where the promise is for one."""
        if several and not self.takes_several:
            raise InputError(
                "guarantee",
                f'"{self.name}" holds for one label for each point, and labels has several',
                remedy='use "pac", "expected" or "none", or pass one label for each point',
            )

    def promise_under(self, noise: Noise | None, alpha: float) -> str:
        """Return in one sentence what holds if the noise is as stated with some confidence only.

        The probability that it is not adds to delta, or to alpha where there is no delta.
        """
        missing = 0.0 if noise is None else noise.doubt.missing
        if not missing:
            return self.promise(alpha)
        if self.delta is None:
            return self.promise(min(alpha + missing, 1.0))
        return replace(self, delta=self.delta + missing).promise(alpha)  # type: ignore[type-var]  # a dataclass

    def promise_checked(self, alpha: float) -> str:
        """Return in one sentence what holds if the threshold comes from checked labels."""
        return self.promise(alpha)

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for a file."""
        return {"name": self.name} | {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in vars(self).items()
        }

    def samples_needed(self, problem: Problem, excess: float, deviation: float) -> int | None:
        """Return the least n at which the price is at most `excess`; None if none is found."""

        def enough(n: int) -> bool:
            resized = replace(problem, n=n, counts=problem.counts * (n / problem.n))
            return self.price(resized, deviation) <= excess + ROUNDING

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

    def of_counts(self, counts: Callable[[], Ints]) -> Hashable:
        """Return what of the labels' counts the correction depends on, if less than all; None if on all."""
        return None

    def obstacle(self, problem: Problem) -> str | None:
        """Return why the correction is infinite, where it is."""
        return None

    def price(self, problem: Problem, deviation: float) -> float:
        return self.correction(problem)

    def find(
        self, coverage: Coverage, problems: Sequence[Problem], crossing: Rule, seed: int
    ) -> Talk[list[Finding]]:
        """Return where the estimate crosses the corrected target."""
        corrections = [self.correction(problem) for problem in problems]
        targets = [1 - p.alpha + delta for p, delta in zip(problems, corrections, strict=True)]
        found = yield from coverage.crossings(targets, crossing, last=self.delta is None)
        deviations: Sequence[float | None] = [None] * len(found)
        if self.delta is not None:
            deviations = yield from coverage.deviations(np.array([at.threshold for at in found]))
        return [
            Finding(
                *at, delta, None if at.threshold < np.inf else self._why(problem, delta), deviation=deviation
            )
            for at, problem, delta, deviation in zip(found, problems, corrections, deviations, strict=True)
        ]

    def _why(self, problem: Problem, correction: float) -> str:
        reason = self.obstacle(problem)
        if reason is not None:
            return reason
        if correction <= problem.alpha + ROUNDING:
            return "the estimated coverage stays below the target at every finite score"
        needed = self.samples_needed(problem, problem.alpha, 0.0)
        enough = "no sample size would do" if needed is None else f"{needed:,} points would do"
        return (
            f'with {counted(problem.n, "point")} the correction of guarantee "{self.name}", '
            f"{correction:.4g}, puts the target {1 - problem.alpha:.6g} above 1; {enough}"
        )


def percent(fraction: float) -> str:
    """Write 0.999 as 99.9%."""
    return f"{100 * fraction:.6g}%"


def on_average(alpha: float, less: str = "", of: str = "the true label") -> str:
    """Return the sentence that promises coverage in expectation."""
    return f"coverage of {of} is at least {percent(1 - alpha)}{less} in expectation over calibration sets"


def nearly_always(delta: float, alpha: float) -> str:
    """Return the sentence that promises coverage for all but a fraction delta of calibration sets."""
    return (
        f"for at least {percent(1 - delta)} of calibration sets, "
        f"coverage of the true label is at least {percent(1 - alpha)}"
    )
