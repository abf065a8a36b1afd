"""Square matrices over the classes: dense ones, and those of noise inside groups in closed form.

A noise matrix is ``P[i, j] = p(noisy = j | true = i)``; estimates use its inverse ``W``. `GroupedMatrix`
needs no k x k numbers; everything else is dense.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from nacp._types import Array, Floats, Ints


class ClassMatrix(ABC):
    """A k x k matrix ``diag(own) + rest``; not to be changed.

    `constant` is the value of the rest if all its entries are equal, else None.
    """

    k: int
    own: Floats
    constant: float | None

    @abstractmethod
    def inverse(self) -> "ClassMatrix":
        """Return the inverse, of the same structure."""

    @abstractmethod
    def entries(self, rows: Ints, columns: Array) -> Floats:
        """Return the entries at the given rows and columns, which are broadcast."""

    @abstractmethod
    def combine(self, function: Callable[..., Floats], other: "ClassMatrix | None" = None) -> "ClassMatrix":
        """Return ``function(M[i, j])``, or with another matrix ``function(M[i, j], other[j, i])``.

        The function must be 0 at 0.
        """

    @abstractmethod
    def push(self, vector: Floats) -> Floats:
        """Return ``vector @ M``."""

    @abstractmethod
    def pull(self, vector: Floats) -> Floats:
        """Return ``M @ vector``."""

    @abstractmethod
    def column_range(self) -> tuple[Floats, Floats]:
        """Return the smallest and the largest entry of each column."""

    def dense(self) -> Floats:
        every = np.arange(self.k)
        return self.entries(every[:, None], every)

    @property
    def blocks(self) -> "Sequence[ClassMatrix]":
        """The inverses of several annotators if they are stacked in this matrix, else the matrix itself."""
        return [self]

    @property
    def diagonal(self) -> Floats:
        every = np.arange(len(self.own))
        return self.entries(every, every % self.k)

    def rest(self, rows: Ints) -> Floats:
        """Return rows of the rest, as a new array."""
        found = self.entries(rows[:, None], np.arange(self.k))
        found[np.arange(len(rows)), rows % self.k] -= self.own[rows]
        return found

    @cached_property
    def row_ranges(self) -> tuple[Floats, Floats]:
        """The sums of the negative and of the positive entries of each row."""
        sums, sizes = self.pull(np.ones(self.k)), self.combine(np.abs).pull(np.ones(self.k))
        return (sums - sizes) / 2, (sums + sizes) / 2

    def subset_range(self) -> tuple[float, float]:
        """Return the smallest and the largest sum over any subset of a row."""
        low, high = self.row_ranges
        return float(low.min()), float(high.max())

    def row_distance(self) -> float:
        """Return the most by which the sums of two rows over a subset of the columns can differ.

        For rows that sum to 1 it is their total variation; for others this is an upper bound.
        """
        from scipy.spatial.distance import pdist

        values = self.dense()
        return float(pdist(values, "cityblock").max() + np.ptp(values.sum(axis=1))) / 2


class DenseMatrix(ClassMatrix):
    """A matrix given by all its entries.

    It may also hold the inverses of several annotators, one below the other: ``label + k * annotator`` is
    then the row of a label.
    """

    def __init__(self, values: Floats) -> None:
        every = np.arange(len(values))
        self.values, self.k, self.constant = values, len(values[0]), None
        self.own = values[every, every % self.k]
        self.own.flags.writeable = False

    @property
    def blocks(self) -> Sequence[ClassMatrix]:
        return [DenseMatrix(block) for block in self.values.reshape(-1, self.k, self.k)]

    def dense(self) -> Floats:
        return self.values

    def inverse(self) -> "DenseMatrix":
        return DenseMatrix(np.linalg.inv(self.values).astype(np.float64))

    def entries(self, rows: Ints, columns: Array) -> Floats:
        return self.values[rows, columns]

    def combine(self, function: Callable[..., Floats], other: ClassMatrix | None = None) -> "DenseMatrix":
        return DenseMatrix(function(self.values) if other is None else function(self.values, other.dense().T))

    # einsum instead of @: after a product, the threads of BLAS spin, and slow down those that read rows.
    def push(self, vector: Floats) -> Floats:
        found: Floats = np.einsum("i,ij->j", vector, self.values)
        return found

    def pull(self, vector: Floats) -> Floats:
        found: Floats = np.einsum("ij,j->i", self.values, vector)
        return found

    def column_range(self) -> tuple[Floats, Floats]:
        return self.values.min(axis=0), self.values.max(axis=0)


class GroupedMatrix(ClassMatrix):
    """``own[g]`` on the diagonal plus ``shared[g]`` at all pairs inside group g; 0 elsewhere.

    `groups` has the group of each class. One group of all classes is uniform noise.
    """

    def __init__(self, groups: Ints, own: Floats, shared: Floats) -> None:
        self.k, self.own = len(groups), own[groups]
        self.constant = float(shared[0]) if len(shared) == 1 or not shared.any() else None
        self._groups, self._own, self._shared = groups, own, shared
        self._sizes = np.bincount(groups, minlength=len(shared))

    def inverse(self) -> "GroupedMatrix":
        # Sherman-Morrison, group by group (paper section 3.4).
        own, shared = self._own, self._shared
        return GroupedMatrix(self._groups, 1 / own, -shared / (own * (own + self._sizes * shared)))

    def entries(self, rows: Ints, columns: Array) -> Floats:
        group = self._groups[rows]
        shared = np.where(group == self._groups[columns], self._shared[group], 0.0)
        return shared + np.where(rows == columns, self.own[columns], 0.0)

    def combine(self, function: Callable[..., Floats], other: ClassMatrix | None = None) -> "GroupedMatrix":
        shared, diagonal = [self._shared], [self._own + self._shared]
        if isinstance(other, GroupedMatrix):
            shared, diagonal = [*shared, other._shared], [*diagonal, other._own + other._shared]
        found = function(*shared)
        return GroupedMatrix(self._groups, function(*diagonal) - found, found)

    def push(self, vector: Floats) -> Floats:
        sums = np.bincount(self._groups, vector, minlength=len(self._shared))
        return self.own * vector + (self._shared * sums)[self._groups]

    pull = push  # The matrix is symmetric.

    def column_range(self) -> tuple[Floats, Floats]:
        diagonal = self._own + self._shared
        others = np.where(self._sizes == 1, diagonal, self._shared)
        low, high = np.minimum(diagonal, others), np.maximum(diagonal, others)
        if len(self._shared) > 1:  # entries of the other groups are 0
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        return low[self._groups], high[self._groups]
