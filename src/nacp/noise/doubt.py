"""Noise that is not known exactly: an interval of rates or a radius around a matrix, and how sure it is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nacp.noise.matrices import ClassMatrix

if TYPE_CHECKING:
    from nacp.noise.base import Noise


@dataclass(frozen=True)
class Doubt:
    """What is not known of a noise model; every model says it by its property ``doubt``.

    What must hold for the true model must hold for each of the `ends`, and for every matrix whose rows are
    within the `radius` of the model's, in total variation; that is where the truth lies, with `confidence`.

    Examples
    --------
    >>> import nacp
    >>> doubt = nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.95).doubt
    >>> doubt.ends
    (UniformNoise(rate=0.15), UniformNoise(rate=0.25))
    >>> doubt.exact, round(doubt.missing, 6), doubt.words
    (False, 0.05, ' (95% sure)')
    """

    ends: "tuple[Noise, ...]"  # of an interval of rates; the model alone where there is none
    radius: float = 0.0
    confidence: float = 1.0

    @property
    def exact(self) -> bool:
        """Whether the model is known exactly."""
        return len(self.ends) == 1 and not self.radius

    @property
    def missing(self) -> float:
        """The probability that the truth lies elsewhere: it adds to delta, or to alpha without delta."""
        return 1 - self.confidence

    @property
    def words(self) -> str:
        """How sure the interval or the radius is, in brackets; nothing if it is certain."""
        return f" ({100 * self.confidence:.4g}% sure)" if self.confidence < 1 else ""

    def shift(self, inverse: ClassMatrix) -> float:
        """Return by how much a mean of sums over rows of W, the inverse, may be wrong for the radius."""
        return self.radius * inverse.row_distance() if self.radius else 0.0
