"""Noise of low rank: each label is kept, or else replaced by a draw from one of a few distributions."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Array, Floats, Ints
from nacp.checks import set_checked
from nacp.errors import InputError
from nacp.noise.base import Noise
from nacp.noise.matrices import ClassMatrix
from nacp.noise.matrix import check_inverse, check_rows, drawn
from nacp.noise.sparse import read_only

_AT_ONCE = 1 << 18  # entries


@dataclass(frozen=True, eq=False)
class LowRankMatrix(ClassMatrix):
    """``diag(kept) + left right^T``, with left and right of shape (k, rank); so is its inverse.

    Rows of the rest are the same where those of `left` are: each is looked at once.
    """

    kept: Floats
    left: Floats
    right: Floats

    @property
    def own(self) -> Floats:
        return self.kept

    @property
    def diagonal(self) -> Floats:
        return self.own + self._on_diagonal

    @property
    def _on_diagonal(self) -> Floats:
        """The diagonal of the rest."""
        return self.rest(np.arange(self.k), np.arange(self.k))

    @cached_property
    def _kinds(self) -> tuple[Floats, Ints]:
        """The different rows of `left`, and which of them each class has."""
        found, kinds = np.unique(self.left, axis=0, return_inverse=True)
        return read_only(found), read_only(kinds.reshape(-1))

    def _different(self) -> Iterator[tuple[slice, Floats]]:
        """Yield the different rows of the rest, some at a time."""
        kinds, step = self._kinds[0], max(1, _AT_ONCE // self.k)
        for start in range(0, len(kinds), step):
            some = slice(start, min(start + step, len(kinds)))
            yield some, _product(kinds[some], self.right)

    def rest(self, rows: Ints, columns: Ints | None = None) -> Floats:
        if columns is None:
            return _product(self.left[rows], self.right)
        found: Floats = self.left[rows, 0] * self.right[columns, 0]
        for column in range(1, self.left.shape[1]):
            found = found + self.left[rows, column] * self.right[columns, column]
        return found

    @cached_property
    def _sums(self) -> tuple[Floats, Floats, float]:
        """The sums of the positive and of the negative entries of rows of the rest, and its largest entry."""
        sums, largest = np.zeros((2, len(self._kinds[0]))), 0.0
        for some, rows in self._different():
            sums[:, some] = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
            largest = max(largest, float(np.abs(rows).max()))
        positive, negative = sums[:, self._kinds[1]]
        return read_only(positive), read_only(negative), largest

    def rest_bounds(self) -> tuple[float, float]:
        positive, negative, largest = self._sums
        return largest, float((positive - negative).max())

    def row_sums(self) -> tuple[Floats, Floats]:
        positive, negative, _ = self._sums
        diagonal = self._on_diagonal
        return positive - np.maximum(diagonal, 0), negative - np.minimum(diagonal, 0)

    def column_sums(self, weights: Floats) -> Floats:
        by_kind = np.bincount(self._kinds[1], weights, minlength=len(self._kinds[0]))
        found: Floats = -weights * np.abs(self._on_diagonal)
        for some, rows in self._different():
            found += by_kind[some] @ np.abs(rows)
        return found

    def column_range(self) -> tuple[Floats, Floats]:
        kind = self._kinds[1]
        alone = np.bincount(kind)[kind] == 1  # then no other class has this row
        low = high = diagonal = self.diagonal
        for some, rows in self._different():
            here = np.flatnonzero(alone & (some.start <= kind) & (kind < some.stop))
            rows[kind[here] - some.start, here] = diagonal[here]
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        return low, high

    def push(self, weights: Floats) -> Floats:
        found: Floats = self.own * weights + (weights @ self.left) @ self.right.T
        return found

    def pull(self, values: Floats) -> Floats:
        found: Floats = self.own * values + self.left @ (values @ self.right)
        return found

    def mean_square(self, inverse: ClassMatrix) -> float:
        assert isinstance(inverse, LowRankMatrix)
        # The sum over i and j of P[i, j] W[j, i]^2, for some different rows of W at a time.
        total, weights, kind = (
            0.0,
            np.zeros_like(inverse._kinds[0][:, :1] * self.right[:1]),
            inverse._kinds[1],
        )
        np.add.at(weights, kind, self.right)  # of the classes j that have the same row of W
        for some, rows in inverse._different():
            total += float((rows**2 * (weights[some] @ self.left.T)).sum())
        # Where i is j, the diagonals come in, too.
        mine, others = self._on_diagonal, inverse._on_diagonal
        return (total + float((self.diagonal * inverse.diagonal**2 - mine * others**2).sum())) / self.k

    def inverse(self) -> "LowRankMatrix":
        # Woodbury's identity.
        left, right = self.left / self.own[:, None], self.right / self.own[:, None]
        small = np.eye(self.left.shape[1]) + self.right.T @ left
        return LowRankMatrix(
            read_only(1 / self.own), read_only(-left @ np.linalg.inv(small)), read_only(right)
        )


def _product(left: Floats, right: Floats) -> Floats:
    """Return ``left right^T``; by column, so that no bit depends on how many rows there are."""
    found = left[:, :1] * right[:, 0]
    for column in range(1, left.shape[1]):
        found += left[:, column, None] * right[:, column]
    return found


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LowRankNoise(Noise):
    """Noise with the matrix ``diag(kept) + left @ right.T``: few numbers for each of any number of classes.

    Nothing of size k x k is formed. It takes least if `left` has few different rows.

    Parameters
    ----------
    kept : float or array of shape (k,)
        Above 0: the probability that a label is left as it is.
    left : array of shape (k,) or (k, r)
        For each true class, how often its label is replaced by a draw from each of r distributions.
    right : array of shape (k,) or (k, r)
        These distributions, one in each column. Only the product counts: it may be parted otherwise, but its
        entries must not be negative, and the rows of the whole matrix sum to 1.

    Examples
    --------
    A fifth of the labels was replaced by draws from the frequencies of the classes:

    >>> import numpy as np
    >>> import nacp
    >>> noise = nacp.LowRankNoise(0.8, left=0.2 * np.ones(3), right=[0.5, 0.25, 0.25])
    >>> noise.matrix(3).dense().round(3).tolist()
    [[0.9, 0.05, 0.05], [0.1, 0.85, 0.05], [0.1, 0.05, 0.85]]
    >>> noise
    LowRankNoise(k=3, rank=1, condition=1.38)
    """

    kept: Floats
    left: Floats
    right: Floats
    name: ClassVar[str] = "low-rank"
    _matrix: LowRankMatrix = field(init=False)
    _inverse: ClassMatrix = field(init=False)

    def __init__(self, kept: ArrayLike, left: ArrayLike, right: ArrayLike) -> None:
        sides = [_columns(side, name) for side, name in ((left, "left"), (right, "right"))]
        k, rank = sides[0].shape
        if sides[1].shape != (k, rank):
            raise InputError("right", f"must have the shape of left, {(k, rank)}", found=f"{sides[1].shape}")
        if k < 2:
            raise InputError("left", "must have a row for each class", found=f"{k} rows")
        own = _numbers(kept, "kept")
        if own.shape not in ((), (k,)) or not np.all(own > 0):
            raise InputError("kept", f"must be a number above 0, or {k:,} of them", found=repr(kept))
        own = np.array(np.broadcast_to(own, (k,)))
        matrix = LowRankMatrix(read_only(own), read_only(sides[0]), read_only(sides[1]))
        ones = np.ones(k)
        lowest = np.array([matrix.column_range()[0].min()])
        sums = check_rows(lowest, matrix.pull(ones), matrix.push(ones), "left", "the true class")
        if (sums != 1).any():
            matrix = LowRankMatrix(read_only(own / sums), read_only(sides[0] / sums[:, None]), matrix.right)
        set_checked(
            self,
            kept=matrix.own,
            left=matrix.left,
            right=matrix.right,
            _matrix=matrix,
            _inverse=check_inverse(matrix, "left"),
        )

    @property
    def k(self) -> int:
        return len(self.left)

    def matrix(self, k: int) -> LowRankMatrix:
        self.check(k)
        return self._matrix

    def inverse(self, k: int) -> ClassMatrix:
        self.check(k)
        return self._inverse

    def describe(self, k: int) -> str:
        condition, rank = self.condition(k), self.left.shape[1]
        return f"label noise by a matrix of rank {rank} beside what is kept, of condition {condition:.3g}"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name} | {name: getattr(self, name).tolist() for name in _PARTS}

    def __repr__(self) -> str:
        rank = self.left.shape[1]
        return f"LowRankNoise(k={self.k}, rank={rank}, condition={self.condition(self.k):.3g})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kept, self.left, self.right)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LowRankNoise):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _PARTS)

    def __hash__(self) -> int:
        return hash(tuple((getattr(self, name) + 0.0).tobytes() for name in _PARTS))

    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints:
        return drawn(self._matrix, labels, rng)


_PARTS = ("kept", "left", "right")


def _numbers(values: ArrayLike, name: str) -> Floats:
    try:
        found: Floats = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(name, "must hold numbers", found=repr(values)) from None
    if not np.isfinite(found).all():
        raise InputError(name, "must hold finite numbers")
    return found


def _columns(values: ArrayLike, name: str) -> Array:
    found = _numbers(values, name)
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or found.shape[1] == 0:
        raise InputError(name, "must have the shape (k,) or (k, r)", found=f"{np.shape(values)}")
    return found
