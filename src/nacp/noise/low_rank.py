"""Noise of low rank: each label is kept, or else replaced by a draw from one of a few distributions."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats
from nacp.errors import InputError
from nacp.noise.dense import DenseNoise, as_floats, check_rows


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LowRankNoise(DenseNoise):
    """Noise with the matrix ``diag(kept) + left @ right.T``.

    Parameters
    ----------
    kept : float or array of shape (k,)
        Above 0: the probability that a label is left as it is.
    left, right : arrays of shape (k,) or (k, r)
        For each true class, the probability that its label is replaced by a draw from each of r
        distributions; and these distributions, one in each column. Other factors with the same product give
        the same model. The entries of the whole matrix must not be negative, and its rows must sum to 1.

    Examples
    --------
    A fifth of the labels was replaced by draws from the frequencies of the classes:

    >>> import numpy as np
    >>> import nacp
    >>> noise = nacp.LowRankNoise(0.8, left=0.2 * np.ones(3), right=[0.5, 0.25, 0.25])
    >>> noise.matrix(3).dense().round(3).tolist()
    [[0.9, 0.05, 0.05], [0.1, 0.85, 0.05], [0.1, 0.05, 0.85]]
    """

    kept: Floats
    left: Floats
    right: Floats
    name: ClassVar[str] = "low-rank"

    def __init__(self, kept: ArrayLike, left: ArrayLike, right: ArrayLike) -> None:
        problem = "must hold finite numbers"
        rows, columns = as_floats(left, "left", problem), as_floats(right, "right", problem)
        diagonal = as_floats(kept, "kept", problem)
        rows, columns = (each[:, None] if each.ndim == 1 else each for each in (rows, columns))
        k = len(rows) if rows.ndim == 2 else 0
        if k < 2 or not rows.size:
            raise InputError("left", "must have the shape (k,) or (k, r)", found=f"{np.shape(left)}")
        if columns.shape != rows.shape:
            raise InputError("right", f"must have the shape of left, {rows.shape}", found=f"{columns.shape}")
        if diagonal.shape not in ((), (k,)) or not np.all(diagonal > 0):
            raise InputError("kept", f"must be a number above 0, or {k:,} of them", found=repr(kept))
        sums = check_rows(np.diag(np.broadcast_to(diagonal, k)) + rows @ columns.T, "left")
        diagonal, rows = diagonal / sums, rows / sums[:, None]
        self._store(np.diag(diagonal) + rows @ columns.T, "left", kept=diagonal, left=rows, right=columns)

    def describe(self, k: int) -> str:
        return f"label noise by a {k:,} x {k:,} matrix, a diagonal and one of rank {self.left.shape[1]}"

    def __repr__(self) -> str:
        rank = self.left.shape[1]
        return f"LowRankNoise(k={self.k}, rank={rank}, condition={self.condition(self.k):.3g})"
