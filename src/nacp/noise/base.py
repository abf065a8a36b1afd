"""What a noise model is: how the noisy label comes from the true one, independently of x."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Ints
from nacp._validation import check_labels
from nacp.noise.matrices import ClassMatrix


def sure(confidence: float) -> str:
    """Return how sure an interval or a radius is, in brackets; nothing if it is certain."""
    return f" ({100 * confidence:.4g}% sure)" if confidence < 1 else ""


class Noise(ABC):
    """A noise model ``P[i, j] = p(noisy = j | true = i)``: rows are the true class."""

    name: ClassVar[str]
    confidence: float = 1.0
    radius: float = 0.0

    def ends(self) -> "tuple[Noise, ...]":
        """Return the models at both ends of an interval, or the model alone if it is known exactly."""
        return (self,)

    @abstractmethod
    def matrix(self, k: int) -> ClassMatrix:
        """Return P for k classes, structured where the model has structure."""

    @abstractmethod
    def describe(self, k: int) -> str:
        """Return the model in a few words."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for a file."""

    @abstractmethod
    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints: ...

    def inverse(self, k: int) -> ClassMatrix:
        """Return ``W = P^-1``, structured where the model has structure.

        Parameters
        ----------
        k : int
            The number of classes.
        """
        return self.matrix(k).inverse()

    def range(self, k: int) -> tuple[float, float]:
        """Return the range [lo, hi] of one point's share in the coverage estimate.

        ``lo`` is the most negative row sum of negative entries of W and ``hi`` the largest row sum
        of positive ones. For uniform noise neither grows with k.

        Parameters
        ----------
        k : int
            The number of classes.
        """
        return self.inverse(k).subset_range()

    def condition(self, k: int) -> float:
        """Return the condition of P in the infinity norm, ``||W||``: 1 without noise.

        Parameters
        ----------
        k : int
            The number of classes.
        """
        inverse = self.inverse(k)
        positive, negative = inverse.row_sums()
        return float(np.max(np.abs(inverse.diagonal) + positive - negative))

    def sample(
        self, labels: ArrayLike, k: int, random_state: int | np.random.Generator | None = None
    ) -> Ints:
        """Draw noisy labels for clean ones.

        Parameters
        ----------
        labels : array of shape (n,)
            Clean labels from 0 to k - 1.
        k : int
            The number of classes.
        random_state : int, numpy.random.Generator or None
            Where the randomness comes from.

        Returns
        -------
        array of shape (n,)
        """
        given = np.asarray(labels)
        clean = check_labels(given, given.size, k)
        return self._draw(clean, k, np.random.default_rng(random_state))
