"""Square matrices over the classes, dense or structured, and what the methods ask of them.

Both kinds answer the same questions, so that no method knows which it has. A noise matrix is
``P[i, j] = p(noisy = j | true = i)``; every estimate uses its inverse ``W``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nacp._types import Array, Floats, Ints

_BLOCK_ENTRIES = 1 << 18  # so many entries of a matrix are written out at a time


class ClassMatrix(ABC):
    """A k x k matrix."""

    @property
    @abstractmethod
    def own(self) -> Floats:
        """The k entries of a diagonal part: the matrix is ``diag(own) + rest``."""

    @abstractmethod
    def rest(self, rows: Ints, columns: Ints | None = None) -> Floats:
        """Return the entries of the rest at the given places; without columns, whole rows. As a new array."""

    @property
    def constant_rest(self) -> float | None:
        """The value of the rest where it is the same everywhere, else None."""
        return None

    @property
    def k(self) -> int:
        """The number of classes."""
        return len(self.own)

    def entries(self, rows: Ints, columns: Array) -> Floats:
        """Return the entries at the given places."""
        return self.rest(rows, columns) + np.where(rows == columns, self.own[columns], 0.0)

    @property
    def diagonal(self) -> Floats:
        """The k diagonal entries."""
        every = np.arange(self.k)
        return self.entries(every, every)

    @abstractmethod
    def rest_bounds(self) -> tuple[float, float]:
        """Return the largest entry and the largest row sum of the rest, both in absolute value."""

    @abstractmethod
    def row_sums(self) -> tuple[Floats, Floats]:
        """Return the sums of the positive and of the negative entries off the diagonal, by row."""

    @abstractmethod
    def column_sums(self, weights: Floats) -> Floats:
        """Return ``sum over l != i of weights[l] |M[l, i]|`` for each column i."""

    @abstractmethod
    def column_range(self) -> tuple[Floats, Floats]:
        """Return the least and the greatest entry of each column."""

    @abstractmethod
    def push(self, weights: Floats) -> Floats:
        """Return ``weights @ M``."""

    @abstractmethod
    def pull(self, values: Floats) -> Floats:
        """Return ``M @ values``."""

    @abstractmethod
    def mean_square(self, inverse: "ClassMatrix") -> float:
        """Return the mean over i of ``sum_j M[i, j] W[j, i]^2``, for W of the same structure."""

    def square_sum(self, weights: Floats) -> float:
        """Return ``sum over j and l of weights[j] M[j, l]^2``."""
        total, every, step = 0.0, np.arange(self.k), max(1, _BLOCK_ENTRIES // self.k)
        for start in range(0, self.k, step):
            rows = every[start : start + step]
            whole = self.rest(rows)
            whole[np.arange(len(rows)), rows] += self.own[rows]
            total += float(weights[rows] @ (whole**2).sum(axis=1))
        return total

    @abstractmethod
    def inverse(self) -> "ClassMatrix":
        """Return the inverse, of the same structure."""

    def dense(self) -> Floats:
        """Return the matrix written out; for small k."""
        every = np.arange(self.k)
        return self.entries(every[:, None], every)

    def entrywise(self, other: "ClassMatrix") -> "ClassMatrix":
        """Return ``M[i, j] other[j, i]`` at i, j, for another matrix of the same structure."""
        return DenseMatrix(self.dense() * other.dense().T)

    def subset_range(self) -> tuple[float, float]:
        """Return the least and the greatest sum over any subset of a row."""
        positive, negative = self.row_sums()
        lowest = negative + np.minimum(self.diagonal, 0)
        highest = positive + np.maximum(self.diagonal, 0)
        return float(lowest.min()), float(highest.max())

    def norm(self) -> float:
        """Return the infinity norm, the largest row sum of absolute values."""
        positive, negative = self.row_sums()
        return float((np.abs(self.diagonal) + positive - negative).max())

    def row_distance(self) -> float:
        """Return the greatest distance between two rows in total variation, for rows that sum to 1.

        It is the most by which the rows' sums over one subset of the columns can differ; no less than that
        if rows sum to 1 only roughly.
        """
        from scipy.spatial.distance import pdist  # for a radius only

        values = self.dense()
        return float(pdist(values, "cityblock").max() + np.ptp(values.sum(axis=1))) / 2


@dataclass(frozen=True, eq=False)
class GroupedMatrix(ClassMatrix):
    """``own_by_group[g]`` on the diagonal plus ``shared[g]`` at all pairs inside group g; 0 elsewhere.

    One group of all the classes is uniform noise, and ``shared = 0`` the identity. Never k x k
    numbers in memory.
    """

    groups: Ints
    own_by_group: Floats
    shared: Floats

    # Asked for several times in each calibration, as are the sums.
    @cached_property
    def sizes(self) -> Ints:
        """The number of classes in each group."""
        return np.bincount(self.groups, minlength=len(self.shared))

    @cached_property
    def own(self) -> Floats:
        return self.own_by_group[self.groups]

    @cached_property
    def diagonal(self) -> Floats:
        return (self.own_by_group + self.shared)[self.groups]

    def rest(self, rows: Ints, columns: Ints | None = None) -> Floats:
        if columns is None:
            rows, columns = rows[:, None], np.arange(self.k)
        group = self.groups[rows]
        return np.where(group == self.groups[columns], self.shared[group], 0.0)

    @property
    def constant_rest(self) -> float | None:
        return float(self.shared[0]) if len(self.shared) == 1 or not self.shared.any() else None

    def rest_bounds(self) -> tuple[float, float]:
        size = np.abs(self.shared)
        return float(size.max()), float((size * self.sizes).max())

    def row_sums(self) -> tuple[Floats, Floats]:
        return self._sums

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        total = (self.shared * (self.sizes - 1))[self.groups]
        return np.maximum(total, 0), np.minimum(total, 0)

    def column_sums(self, weights: Floats) -> Floats:
        size = np.abs(self.shared)
        return (size * self._by_group(weights))[self.groups] - size[self.groups] * weights

    def column_range(self) -> tuple[Floats, Floats]:
        diagonal = self.own_by_group + self.shared
        others = np.where(self.sizes == 1, diagonal, self.shared)
        low, high = np.minimum(diagonal, others), np.maximum(diagonal, others)
        if len(self.shared) > 1:  # there are classes of other groups
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        return low[self.groups], high[self.groups]

    def push(self, weights: Floats) -> Floats:
        return self.own * weights + (self.shared * self._by_group(weights))[self.groups]

    def pull(self, values: Floats) -> Floats:
        return self.push(values)  # symmetric

    def entrywise(self, other: ClassMatrix) -> "GroupedMatrix":
        assert isinstance(other, GroupedMatrix)
        shared = self.shared * other.shared
        diagonal = (self.own_by_group + self.shared) * (other.own_by_group + other.shared)
        return GroupedMatrix(self.groups, diagonal - shared, shared)

    def mean_square(self, inverse: ClassMatrix) -> float:
        assert isinstance(inverse, GroupedMatrix)
        own = (self.own_by_group + self.shared) * (inverse.own_by_group + inverse.shared) ** 2
        others = (self.sizes - 1) * self.shared * inverse.shared**2
        return float((own + others)[self.groups].mean())

    def square_sum(self, weights: Floats) -> float:
        each = (self.own_by_group + self.shared) ** 2 + (self.sizes - 1) * self.shared**2
        return float(weights @ each[self.groups])

    def inverse(self) -> "GroupedMatrix":
        # Sherman-Morrison, group by group (paper section 3.4).
        own, shared = self.own_by_group, self.shared
        return GroupedMatrix(self.groups, 1 / own, -shared / (own * (own + self.sizes * shared)))

    def _by_group(self, weights: Floats) -> Floats:
        return np.bincount(self.groups, weights, minlength=len(self.shared)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class DenseMatrix(ClassMatrix):
    """A matrix given by all its entries."""

    values: Floats

    @property
    def own(self) -> Floats:
        return np.diagonal(self.values)

    def rest(self, rows: Ints, columns: Ints | None = None) -> Floats:
        if columns is not None:
            return np.where(rows == columns, 0.0, self.values[rows, columns])
        whole = self.values[rows]
        whole[np.arange(len(rows)), rows] = 0.0
        return whole

    def rest_bounds(self) -> tuple[float, float]:
        return self._bounds

    def row_sums(self) -> tuple[Floats, Floats]:
        return self._sums

    # Asked for several times in each calibration.
    @cached_property
    def _bounds(self) -> tuple[float, float]:
        size = np.abs(self.rest(np.arange(self.k)))
        return float(size.max()), float(size.sum(axis=1).max())

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        off = self.rest(np.arange(self.k))
        return np.maximum(off, 0).sum(axis=1), np.minimum(off, 0).sum(axis=1)

    def column_sums(self, weights: Floats) -> Floats:
        return weights @ np.abs(self.rest(np.arange(self.k)))

    def column_range(self) -> tuple[Floats, Floats]:
        return self.values.min(axis=0), self.values.max(axis=0)

    # Not by @: the threads of a library that multiplies matrices are busy for a while after that, and were in
    # the way of those that read the next rows. HPS with two threads took 1.4 times as long.
    def push(self, weights: Floats) -> Floats:
        found: Floats = np.einsum("i,ij->j", weights, self.values)
        return found

    def pull(self, values: Floats) -> Floats:
        found: Floats = np.einsum("ij,j->i", self.values, values)
        return found

    def mean_square(self, inverse: ClassMatrix) -> float:
        return float(np.einsum("ij,ji->i", self.values, inverse.dense() ** 2).mean())

    def inverse(self) -> "DenseMatrix":
        return DenseMatrix(np.linalg.inv(self.values).astype(np.float64))

    def dense(self) -> Floats:
        return self.values.copy()


@dataclass(frozen=True, eq=False)
class StackedMatrix(ClassMatrix):
    """The matrices of several annotators, one below the other: row ``label + k annotator`` is of a label.

    It weighs the labels of points of which each says who gave it, and answers what that takes. Nobody asks
    the rest of it.
    """

    values: Floats  # (k annotators, k)

    @property
    def k(self) -> int:
        return len(self.values[0])

    @property
    def own(self) -> Floats:
        every = np.arange(len(self.values))
        return self.values[every, every % self.k]

    @property
    def diagonal(self) -> Floats:
        return self.own

    def rest(self, rows: Ints, columns: Ints | None = None) -> Floats:
        if columns is not None:
            return np.where(rows % self.k == columns, 0.0, self.values[rows, columns])
        whole = self.values[rows]
        whole[np.arange(len(rows)), rows % self.k] = 0.0
        return whole

    def rest_bounds(self) -> tuple[float, float]:
        size = np.abs(self.rest(np.arange(len(self.values))))
        return float(size.max()), float(size.sum(axis=1).max())

    def row_sums(self) -> tuple[Floats, Floats]:
        off = self.rest(np.arange(len(self.values)))
        return np.maximum(off, 0).sum(axis=1), np.minimum(off, 0).sum(axis=1)

    def column_range(self) -> tuple[Floats, Floats]:
        return self.values.min(axis=0), self.values.max(axis=0)

    def push(self, weights: Floats) -> Floats:
        return weights @ self.values

    def column_sums(self, weights: Floats) -> Floats:
        raise NotImplementedError

    def pull(self, values: Floats) -> Floats:
        raise NotImplementedError

    def mean_square(self, inverse: ClassMatrix) -> float:
        raise NotImplementedError

    def inverse(self) -> ClassMatrix:
        raise NotImplementedError
