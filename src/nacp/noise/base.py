"""What a noise model is: how the noisy label comes from the true one, independently of x."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Ints
from nacp.errors import InputError
from nacp.noise.matrices import ClassMatrix
from nacp.points import check_labels


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

    ends: tuple[Noise, ...]  # of an interval of rates; the model alone where there is none
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


class Noise(ABC):
    """A noise model ``P[i, j] = p(noisy = j | true = i)``: rows are the true class."""

    name: ClassVar[str]
    is_uniform: ClassVar[bool] = False

    @property
    def doubt(self) -> Doubt:
        """What is not known of the model: its rate, within an interval, or its matrix, within a radius."""
        return Doubt((self,))

    @abstractmethod
    def matrix(self, k: int) -> ClassMatrix:
        """Return P for k classes, structured where the model has structure."""

    @abstractmethod
    def describe(self, k: int) -> str:
        """Return the model in a few words."""

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for a file."""
        return {"name": self.name} | vars(self)

    @abstractmethod
    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints: ...

    @property
    def k(self) -> int | None:
        """The number of classes that the model is for; None if it is for any."""
        return None

    def check(self, k: int) -> None:
        """Refuse another number of classes than the model is for."""
        if self.k is not None and self.k != k:
            raise InputError("noise", f"is for {self.k:,} classes, not for {k:,}", found=repr(self))

    def inverse(self, k: int) -> ClassMatrix:
        """Return ``W = P^-1``, structured where the model has structure.

        Parameters
        ----------
        k : int
            The number of classes.
        """
        return self.matrix(k).inverse()

    def error_rate(self, k: int) -> float:
        """Return the rate of uniform noise, or the mean over the classes of the share of wrong labels."""
        return float(1 - self.matrix(k).diagonal.mean())

    def with_error_rate(self, rate: float, k: int) -> Noise:
        """Return the model ``I + f (P - I)``, with the factor f that makes `rate` its error rate."""
        from nacp.noise.matrix import MatrixNoise

        eye = np.eye(k)
        return MatrixNoise(eye + rate / self.error_rate(k) * (self.matrix(k).dense() - eye))

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
        return self.inverse(k).norm()

    def informative(self, n: int, k: int) -> InputError | None:
        """Return why n points would say nothing: W is so large that their estimate could be anything.

        None if they say enough.

        Parameters
        ----------
        n : int
            The number of points.
        k : int
            The number of classes.
        """
        condition = self.condition(k)
        if condition < 2 * math.sqrt(n):
            return None
        return InputError(
            "noise",
            f"is too ill-conditioned for {n:,} points: with condition {condition:.3g} the estimated coverage "
            f"is uncertain by {condition / (2 * math.sqrt(n)):.2g}",
            remedy=f"use more than {math.ceil(condition**2 / 4):,} points, or {self._less_noise(k)}",
        )

    def _less_noise(self, k: int) -> str:
        """Return what may make the labels say more."""
        return "merge classes that are often confused"

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
        self.check(k)
        given = np.asarray(labels)
        clean = check_labels(given, given.size, k)
        return self._draw(clean, k, np.random.default_rng(random_state))
