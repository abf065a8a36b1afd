"""The base class of noise models, and how uncertain a model is.

A noise model says how the noisy label arises from the true one, independently of the input.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp.errors import InputError
from nacp.noise.matrices import ClassMatrix
from nacp.points import check_labels

RATE_STEP = 1 / 1024
"""The distance of the fixed rates that cover an interval of rates."""


@dataclass(frozen=True)
class Doubt:
    """The uncertainty of a noise model: an interval of rates, or a radius around its matrix.

    A promise must hold for each of the `ends`, the models at the two ends of an interval of rates (without an
    interval, the model itself), and for every matrix whose rows are within the `radius` of the model's rows
    in total variation. With probability `confidence` the true model is among these.
    """

    ends: tuple[Noise, ...]
    radius: float = 0.0
    confidence: float = 1.0

    @property
    def exact(self) -> bool:
        return len(self.ends) == 1 and not self.radius

    @property
    def covering(self) -> tuple[Noise, ...]:
        """The models at fixed rates, multiples of `RATE_STEP`, from which on one step covers the interval."""
        low, high = (math.floor(end.rate / RATE_STEP) for end in self.ends)  # type: ignore[attr-defined]  # an interval of rates
        rates = (i * RATE_STEP for i in range(low, high + 1))
        return tuple(replace(self.ends[0], rate=rate) for rate in rates)  # type: ignore[type-var]  # a dataclass

    @property
    def missing(self) -> float:
        """The probability that the true model is another; added to delta, or to alpha without delta."""
        return 1 - self.confidence

    @property
    def words(self) -> str:
        """The confidence in brackets; empty if it is 1."""
        return f" ({100 * self.confidence:.4g}% sure)" if self.confidence < 1 else ""

    def shift(self, inverse: ClassMatrix) -> float:
        """Return an upper bound of the bias that the radius allows in a mean of sums over rows of W."""
        return self.radius * inverse.row_distance() if self.radius else 0.0


class Noise(ABC):
    """A noise model ``P[i, j] = p(noisy = j | true = i)``: rows are the true class.

    Attributes
    ----------
    name : str
        The name of the model in files.
    is_uniform, has_rate : bool
        Whether the noise is uniform for every k, and whether it is given by one rate or several.
    by_row : bool
        Whether each row has a matrix of its own, so that the model says nothing about other rows.
    if_contradicted : str
        What to do first if the labels contradict the model.
    interval, radius, confidence : tuple of two floats or None, float, float
        Fields of models that are not known exactly: an interval of rates, or how far each row of the true
        matrix may be from the model's; and the probability that this holds.
    """

    name: ClassVar[str]
    is_uniform: ClassVar[bool] = False
    has_rate: ClassVar[bool] = False
    by_row: ClassVar[bool] = False
    if_contradicted: ClassVar[str] = "State less noise"
    interval: tuple[float, float] | None = None
    radius: float = 0.0
    confidence: float = 1.0

    @abstractmethod
    def matrix(self, k: int) -> ClassMatrix:
        """Return P for k classes."""

    @abstractmethod
    def describe(self, k: int) -> str:
        """Return the model in a few words."""

    @abstractmethod
    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints: ...

    @property
    def doubt(self) -> Doubt:
        """The uncertainty of the model."""
        if self.interval is None:
            return Doubt((self,), self.radius, self.confidence)
        known = {"interval": None, "confidence": 1.0}
        ends = (replace(self, rate=rate, **known) for rate in self.interval)  # type: ignore[type-var]  # a dataclass
        return Doubt(tuple(ends), self.radius, self.confidence)

    @property
    def k(self) -> int | None:
        """The number of classes that the model is for; None if it is for any."""
        return None

    def check(self, k: int, n: int | None = None) -> None:
        """Raise an error if the model is for another number of classes, or n points are too few for it."""
        if self.k is not None and self.k != k:
            raise InputError("noise", f"is for {self.k:,} classes, not for {k:,}", found=repr(self))
        if n is None or (condition := self.condition(k)) < 2 * math.sqrt(n):
            return
        problem = f"is too ill-conditioned for {n:,} points: its condition is {condition:.3g}"
        remedy = f"use more than {math.ceil(condition**2 / 4):,} points, or {self._less_noise(k)}"
        raise InputError("noise", problem, remedy=remedy)

    def inverse(self, k: int) -> ClassMatrix:
        """Return ``W = P^-1`` for k classes."""
        return self.matrix(k).inverse()

    def stacked_inverse(self, k: int) -> ClassMatrix:
        """Return the weights of labels as `spread` numbers them: W, or that of each annotator."""
        return self.inverse(k)

    def spread(self, labels: Ints) -> tuple[Ints, Floats | None]:
        """Return labels as rows of `stacked_inverse`, and the weights of the labels of each point.

        The labels, of shape (n,) or (n, annotators), and the rows are -1 where there is none. The weights of
        each point sum to 1; None means that all labels of a point have the same weight.
        """
        return labels, None

    def uniform_rate(self, k: int) -> float | None:
        """Return the rate epsilon of uniform noise for k classes; None if the noise is not uniform."""
        return None

    def error_rate(self, k: int) -> float:
        """Return the rate of uniform noise, or the mean over the classes of the share of wrong labels."""
        rate = self.uniform_rate(k)
        return float(1 - self.matrix(k).diagonal.mean()) if rate is None else rate

    def with_error_rate(self, rate: float, k: int) -> Noise:
        """Return the model ``I + f (P - I)``, with the factor f that makes `rate` its error rate."""
        from nacp.noise.matrix import MatrixNoise

        eye = np.eye(k)
        return MatrixNoise(eye + rate / self.error_rate(k) * (self.matrix(k).dense() - eye))

    def permuted(self, order: Ints) -> Noise:
        """Return the model with class ``order[i]`` as class i."""
        from nacp.noise.matrix import MatrixNoise

        if self.interval is not None:
            raise InputError("noise", "has its classes in another order", found=repr(self))
        matrix = self.matrix(len(order)).dense()[np.ix_(order, order)]
        return MatrixNoise(matrix, self.radius, self.confidence)

    def range(self, k: int) -> tuple[float, float]:
        """Return the range [lo, hi] of one point's contribution to the coverage estimate.

        For uniform noise neither end grows with k.
        """
        return self.inverse(k).subset_range()

    def condition(self, k: int) -> float:
        """Return the condition of P for k classes in the infinity norm, ``||W||``: 1 without noise."""
        low, high = self.inverse(k).row_ranges
        return float((high - low).max())

    def _less_noise(self, k: int) -> str:
        """Return what else would help if n points are too few."""
        return "merge classes that are often confused"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name} | vars(self)

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
            The seed, or the generator to draw from.

        Returns
        -------
        array of shape (n,)
        """
        self.check(k)
        given = np.asarray(labels)
        clean = check_labels(given, given.size, k)
        return self._draw(clean, k, np.random.default_rng(random_state))
