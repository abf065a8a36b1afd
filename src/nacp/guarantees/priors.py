"""Class frequencies for guarantees that need them: given, or estimated from the noisy labels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats
from nacp.checks import check_priors
from nacp.guarantees.base import Corrected, Problem, on_average
from nacp.noise import UniformNoise


@dataclass(frozen=True, eq=False)
class PriorGuarantee(Corrected):
    """A guarantee in expectation whose correction depends on the class frequencies."""

    priors: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.priors is not None:
            object.__setattr__(self, "priors", np.asarray(self.priors, dtype=np.float64))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.name)

    def frequencies(self, problem: Problem) -> tuple[Floats, Floats]:
        """Return the frequencies of the true and of the noisy classes.

        If the true ones are given, P yields the noisy ones. Otherwise the noisy labels are counted, and W
        yields the true ones.
        """
        if self.priors is not None:
            true = check_priors(self.priors, problem.k)
            noise = UniformNoise(0.0) if problem.noise is None else problem.noise
            return true, noise.matrix(problem.k).push(true)
        noisy = problem.counts / problem.n
        return problem.inverse.push(noisy), noisy

    def absent(self, problem: Problem) -> str | None:
        """Return a sentence about the classes that never occur among the labels, or None."""
        absent = np.flatnonzero(problem.counts == 0)
        if not len(absent):
            return None
        return (
            f'guarantee "{self.name}" needs every class among the labels; '
            f"{len(absent):,} of {problem.k:,} never occur (first: class {absent[0]})"
        )

    def promise(self, alpha: float) -> str:
        known = "estimated from the labels are exact" if self.priors is None else "are as stated"
        return f"{on_average(alpha)}, if the class frequencies {known}"
