"""A noise matrix for each annotator: where points have several labels, each is weighed by its own."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp.checks import set_checked
from nacp.errors import InputError
from nacp.noise.base import Noise
from nacp.noise.matrices import ClassMatrix, DenseMatrix, StackedMatrix
from nacp.noise.matrix import MatrixNoise, check_matrix

_SAYS_NOTHING = 20.0  # the condition from which on an annotator's labels say next to nothing
_LEAST = 0.01  # added to variances, so that nobody counts for all


@dataclass(frozen=True, init=False, eq=False, repr=False)
class AnnotatorNoise(Noise):
    """A noise matrix for each annotator.

    With labels of shape (n, annotators) `nacp.calibrate` weighs each label by its annotator's own matrix, and
    gives those who err less a larger part in the point. With one label for each point, and everywhere else,
    the model is the mean of the matrices, that of a label whose annotator was picked at random.

    Parameters
    ----------
    matrices : array of shape (annotators, k, k)
        ``matrices[a, i, j] = p(a says j | true = i)``: rows are the true class and sum to 1. Annotators who
        all but guess, whose matrix has a condition of 20 or more, are left out: one such label may weigh more
        than all that it could tell.
    shares : array of shape (annotators,), optional
        How much of the labels each gave; by default all the same.

    Examples
    --------
    >>> import nacp
    >>> good, bad = [[0.875, 0.125], [0.125, 0.875]], [[0.625, 0.375], [0.375, 0.625]]
    >>> noise = nacp.AnnotatorNoise([good, bad])
    >>> noise.matrix(2).dense().tolist(), noise.weights.round(2).tolist()
    ([[0.75, 0.25], [0.25, 0.75]], [0.95, 0.05])
    """

    matrices: Floats
    shares: Floats
    name: ClassVar[str] = "annotators"
    weights: Floats = field(init=False)
    _mean: MatrixNoise = field(init=False)
    _stacked: StackedMatrix = field(init=False)

    def __init__(self, matrices: ArrayLike, shares: ArrayLike | None = None) -> None:
        try:
            every = np.array(matrices, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("matrices", "must be noise matrices of one size") from None
        if every.ndim != 3 or len(every) == 0:
            raise InputError("matrices", "must have the shape (annotators, k, k)", found=f"{every.shape}")
        given = np.ones(len(every)) if shares is None else np.array(shares, dtype=np.float64)
        if given.shape != (len(every),) or not np.all(given >= 0) or not 0 < given.sum() < np.inf:
            raise InputError("shares", f"must be {len(every)} numbers of at least 0", found=f"{given.shape}")
        given = given / given.sum()
        every = np.stack([check_matrix(each, f"matrices[{a}]") for a, each in enumerate(every)])
        inverses, weights = zip(*map(_weighed, every), strict=True)
        weight = np.array(weights) / max(sum(weights), np.finfo(float).tiny)
        for array in (every, given, weight):
            array.flags.writeable = False
        set_checked(
            self,
            matrices=every,
            shares=given,
            weights=weight,
            _mean=MatrixNoise(np.tensordot(given, every, axes=1)),
            _stacked=StackedMatrix(np.concatenate(inverses)),
        )

    @property
    def k(self) -> int:
        return len(self.matrices[0])

    def matrix(self, k: int) -> ClassMatrix:
        self.check(k)
        return self._mean.matrix(k)

    def inverse(self, k: int) -> ClassMatrix:
        self.check(k)
        return self._mean.inverse(k)

    def spread(self, labels: Ints) -> tuple[Ints, Floats]:
        """Return the labels of each point with their annotators, as label + k annotator, and their parts.

        Parameters
        ----------
        labels : array of shape (n, annotators)
            Numbers, -1 where there is none.

        Returns
        -------
        codes, parts : arrays of shape (n, most labels of a point)
            -1 and 0 where there is none. The parts of a point sum to 1.
        """
        if labels.shape[1] != len(self.matrices):
            raise InputError(
                "labels",
                f"must have a column for each of the {len(self.matrices):,} annotators of the noise, in "
                "their order",
                found=f"{labels.shape}",
            )
        used = (labels >= 0) & (self.weights > 0)
        empty = ~used.any(axis=1)
        if empty.any():
            raise InputError(
                "labels",
                f"has in row {int(empty.argmax())} only labels of annotators who all but guess",
                remedy="drop such rows, or take one matrix for all",
            )
        order = np.argsort(~used, axis=1, kind="stable")[:, : int(used.sum(axis=1).max())]
        codes = np.where(used, labels + self.k * np.arange(len(self.matrices)), -1)
        parts = np.where(used, self.weights, 0.0)
        parts /= parts.sum(axis=1, keepdims=True)
        return np.take_along_axis(codes, order, axis=1), np.take_along_axis(parts, order, axis=1)

    def stacked_inverse(self, k: int) -> StackedMatrix:
        """Return the inverses of all matrices, one below the other."""
        self.check(k)
        return self._stacked

    def describe(self, k: int) -> str:
        return (
            f"label noise by a {k:,} x {k:,} matrix for each of {len(self.matrices):,} annotators, their "
            f"mean of condition {self.condition(k):.3g}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "matrices": self.matrices.tolist(), "shares": self.shares.tolist()}

    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints:
        return self._mean.sample(labels, k, rng)

    def __repr__(self) -> str:
        return f"AnnotatorNoise(annotators={len(self.matrices)}, k={self.k})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.matrices, self.shares)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AnnotatorNoise):
            return NotImplemented
        return np.array_equal(self.matrices, other.matrices) and np.array_equal(self.shares, other.shares)

    def __hash__(self) -> int:
        return hash(((self.matrices + 0.0).tobytes(), (self.shares + 0.0).tobytes()))


def _weighed(matrix: Floats) -> tuple[Floats, float]:
    """Return the inverse of a matrix, and one over the variance of a share that it weighs, for small sets."""
    try:
        inverse = np.linalg.inv(matrix).astype(np.float64)
    except np.linalg.LinAlgError:
        inverse = np.full_like(matrix, np.inf)
    if not np.abs(inverse).sum(axis=1).max() < _SAYS_NOTHING:
        return np.zeros_like(matrix), 0.0
    return inverse, 1 / (max(DenseMatrix(matrix).mean_square(DenseMatrix(inverse)) - 1, 0.0) + _LEAST)
