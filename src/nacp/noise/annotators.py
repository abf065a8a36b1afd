"""A noise matrix for each annotator: each of several labels is weighted by its annotator's own matrix."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp.errors import InputError
from nacp.noise.dense import DenseNoise, as_floats, check_matrix, read_only
from nacp.noise.matrices import DenseMatrix

_LEAST_VARIANCE = 0.01  # added to the variances, so that no weight is infinite


@dataclass(frozen=True, init=False, eq=False, repr=False)
class AnnotatorNoise(DenseNoise):
    """A noise matrix for each annotator.

    For labels of shape (n, annotators), `nacp.calibrate` uses each annotator's own matrix, and annotators who
    make fewer errors get a larger weight. For one label per point, and everywhere else, the model is the mean
    of the matrices: that of a label whose annotator was picked at random.

    Parameters
    ----------
    matrices : array of shape (annotators, k, k)
        ``matrices[a, i, j] = p(a says j | true = i)``: rows are the true class and sum to 1. Annotators who
        almost guess, whose matrix has a condition of 20 or more, get weight 0.
    shares : array of shape (annotators,), optional
        The share of the labels that each annotator gave; by default all equal.

    Examples
    --------
    >>> import nacp
    >>> good, bad = [[0.875, 0.125], [0.125, 0.875]], [[0.625, 0.375], [0.375, 0.625]]
    >>> nacp.AnnotatorNoise([good, bad]).weights.round(2).tolist()
    [0.95, 0.05]
    """

    matrices: Floats
    shares: Floats
    name: ClassVar[str] = "annotators"
    weights: Floats = field(init=False)
    _stacked: DenseMatrix = field(init=False)
    _most_condition: ClassVar[float] = 20.0  # annotators whose matrix has a larger condition get weight 0

    def __init__(self, matrices: ArrayLike, shares: ArrayLike | None = None) -> None:
        every = as_floats(matrices, "matrices", "must be noise matrices of one size, of numbers")
        if every.ndim != 3 or len(every) == 0:
            raise InputError("matrices", "must have the shape (annotators, k, k)", found=f"{every.shape}")
        given = np.ones(len(every)) if shares is None else np.array(shares, dtype=np.float64)
        if given.shape != (len(every),) or not np.all(given >= 0) or not 0 < given.sum() < np.inf:
            raise InputError("shares", f"must be {len(every)} numbers of at least 0", found=f"{given.shape}")
        given = given / given.sum()
        every = np.stack([check_matrix(each, f"matrices[{a}]") for a, each in enumerate(every)])
        inverses, weights = zip(*(_weighed(each, self._most_condition) for each in every), strict=True)
        mean = check_matrix(np.tensordot(given, every, axes=1))
        self._store(
            mean,
            "matrices",
            matrices=every,
            shares=given,
            weights=np.array(weights) / max(sum(weights), np.finfo(float).tiny),
            _stacked=DenseMatrix(read_only(np.concatenate(inverses))),
        )

    def stacked_inverse(self, k: int) -> DenseMatrix:
        self.check(k)
        return self._stacked

    def spread(self, labels: Ints) -> tuple[Ints, Floats | None]:
        if labels.ndim == 1:
            return labels, None
        if labels.shape[1] != len(self.matrices):
            problem = f"must have a column for each of the {len(self.matrices):,} annotators of the noise"
            raise InputError("labels", problem, found=f"{labels.shape}")
        used = (labels >= 0) & (self.weights > 0)
        empty = ~used.any(axis=1)
        if empty.any():
            problem = f"has in row {int(empty.argmax())} only labels of annotators who almost guess"
            raise InputError("labels", problem, remedy="drop such rows, or take one matrix for all")
        order = np.argsort(~used, axis=1, kind="stable")[:, : int(used.sum(axis=1).max())]
        rows = np.where(used, labels + self.k * np.arange(len(self.matrices)), -1)
        weights = np.where(used, self.weights, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(weights, order, axis=1)

    def permuted(self, order: Ints) -> "AnnotatorNoise":
        return replace(self, matrices=self.matrices[:, order][:, :, order])

    def describe(self, k: int) -> str:
        return f"label noise by a {k:,} x {k:,} matrix for each of {len(self.matrices):,} annotators"

    def __repr__(self) -> str:
        return f"AnnotatorNoise(annotators={len(self.matrices)}, k={self.k})"


def _weighed(matrix: Floats, most_condition: float) -> tuple[Floats, float]:
    """Return the inverse of a matrix, and the inverse variance of a point's share where sets are small."""
    try:
        inverse = np.linalg.inv(matrix).astype(np.float64)
    except np.linalg.LinAlgError:
        inverse = np.full_like(matrix, np.inf)
    if not np.abs(inverse).sum(axis=1).max() < most_condition:
        return np.zeros_like(matrix), 0.0
    variance = np.einsum("ij,ji->", matrix, inverse**2) / len(matrix) - 1
    return inverse, 1 / (max(variance, 0.0) + _LEAST_VARIANCE)
