"""Square matrices over the classes: dense ones, and those of noise inside groups in closed form.

`ClassMatrix` defines every quantity by the entries; `GroupedMatrix` computes the same without k x k numbers.
A noise matrix is ``P[i, j] = p(noisy = j | true = i)``; estimates use its inverse ``W``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nacp._types import Array, Floats, Ints


class ClassMatrix(ABC):
    """A k x k matrix."""

    @abstractmethod
    def dense(self) -> Floats:
        """Return all entries; not to be changed."""

    @abstractmethod
    def inverse(self) -> "ClassMatrix":
        """Return the inverse, of the same structure."""

    @property
    @abstractmethod
    def k(self) -> int:
        """The number of classes."""

    @property
    @abstractmethod
    def own(self) -> Floats:
        """The entries of a diagonal part: the matrix is ``diag(own) + rest``."""

    @abstractmethod
    def rest(self, rows: Ints, columns: Ints | None = None) -> Floats:
        """Return a new array with entries of the rest; without columns, whole rows."""

    @property
    def constant_rest(self) -> float | None:
        """The value of the rest if all its entries are equal, else None."""
        return None

    def entries(self, rows: Ints, columns: Array) -> Floats:
        """Return the entries at the given rows and columns."""
        return self.rest(rows, columns) + np.where(rows == columns, self.own[columns], 0.0)

    @property
    def diagonal(self) -> Floats:
        """The diagonal entries."""
        every = np.arange(self.k)
        return self.entries(every, every)

    @cached_property
    def row_ranges(self) -> tuple[Floats, Floats]:
        """The sums of the negative and of the positive entries of each row."""
        values = self.dense()
        return np.minimum(values, 0).sum(axis=1), np.maximum(values, 0).sum(axis=1)

    def column_sums(self, weights: Floats) -> Floats:
        """Return ``sum over l != i of weights[l] |M[l, i]|`` for each column i."""
        return weights @ np.abs(self.rest(np.arange(self.k)))

    def column_range(self) -> tuple[Floats, Floats]:
        """Return the smallest and the largest entry of each column."""
        values = self.dense()
        return values.min(axis=0), values.max(axis=0)

    # einsum instead of @: after a product, the threads of BLAS spin, and slow down those that read rows.
    def push(self, weights: Floats) -> Floats:
        """Return ``weights @ M``."""
        found: Floats = np.einsum("i,ij->j", weights, self.dense())
        return found

    def pull(self, values: Floats) -> Floats:
        """Return ``M @ values``."""
        found: Floats = np.einsum("ij,j->i", self.dense(), values)
        return found

    def mean_square(self, inverse: "ClassMatrix") -> float:
        """Return the mean over i of ``sum_j M[i, j] W[j, i]^2``; the smallest of stacked inverses W."""
        every = inverse.dense().reshape(-1, self.k, self.k)
        return float(np.einsum("ij,aji->ai", self.dense(), every**2).mean(axis=1).min())

    def square_sum(self, weights: Floats) -> float:
        """Return ``sum over j and l of weights[j] M[j, l]^2``."""
        values = self.dense()
        return float(weights @ np.einsum("ij,ij->i", values, values))

    def entrywise(self, other: "ClassMatrix") -> "ClassMatrix":
        """Return the matrix ``M[i, j] other[j, i]``, for another matrix of the same structure."""
        return DenseMatrix(self.dense() * other.dense().T)

    def subset_range(self) -> tuple[float, float]:
        """Return the smallest and the largest sum over any subset of a row."""
        low, high = self.row_ranges
        return float(low.min()), float(high.max())

    def norm(self) -> float:
        """Return the infinity norm, the largest row sum of absolute values."""
        low, high = self.row_ranges
        return float((high - low).max())

    def row_distance(self) -> float:
        """Return the most by which the sums of two rows over a subset of the columns can differ.

        For rows that sum to 1 it is their total variation; for others this is an upper bound.
        """
        from scipy.spatial.distance import pdist

        values = self.dense()
        return float(pdist(values, "cityblock").max() + np.ptp(values.sum(axis=1))) / 2


@dataclass(frozen=True, eq=False)
class DenseMatrix(ClassMatrix):
    """A matrix given by all its entries.

    It may also hold the inverses of several annotators, one below the other: ``label + k * annotator`` is
    then the row of a label. Such a matrix has no inverse.
    """

    values: Floats

    def dense(self) -> Floats:
        return self.values

    def inverse(self) -> "DenseMatrix":
        return DenseMatrix(np.linalg.inv(self.values).astype(np.float64))

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

    def entries(self, rows: Ints, columns: Array) -> Floats:
        return self.values[rows, columns]

    def rest(self, rows: Ints, columns: Ints | None = None) -> Floats:
        if columns is not None:
            return np.where(rows % self.k == columns, 0.0, self.values[rows, columns])
        found = self.values[rows]
        found[np.arange(len(rows)), rows % self.k] = 0.0
        return found


@dataclass(frozen=True, eq=False)
class GroupedMatrix(ClassMatrix):
    """``own_by_group[g]`` on the diagonal plus ``shared[g]`` at all pairs inside group g; 0 elsewhere.

    One group of all classes is uniform noise, and ``shared = 0`` the identity.
    """

    groups: Ints
    own_by_group: Floats
    shared: Floats

    def dense(self) -> Floats:
        every = np.arange(self.k)
        return self.entries(every[:, None], every)

    def inverse(self) -> "GroupedMatrix":
        # Sherman-Morrison, group by group (paper section 3.4).
        own, shared = self.own_by_group, self.shared
        return GroupedMatrix(self.groups, 1 / own, -shared / (own * (own + self.sizes * shared)))

    @property
    def k(self) -> int:
        return len(self.groups)

    @cached_property
    def sizes(self) -> Ints:
        """The number of classes in each group."""
        return np.bincount(self.groups, minlength=len(self.shared))

    @cached_property
    def own(self) -> Floats:
        return self.own_by_group[self.groups]

    def rest(self, rows: Ints, columns: Ints | None = None) -> Floats:
        if columns is None:
            rows, columns = rows[:, None], np.arange(self.k)
        group = self.groups[rows]
        return np.where(group == self.groups[columns], self.shared[group], 0.0)

    @property
    def constant_rest(self) -> float | None:
        return float(self.shared[0]) if len(self.shared) == 1 or not self.shared.any() else None

    @property
    def diagonal(self) -> Floats:
        return self.own + self.shared[self.groups]

    @cached_property
    def row_ranges(self) -> tuple[Floats, Floats]:
        diagonal, others = self.own_by_group + self.shared, self.shared * (self.sizes - 1)
        low = np.minimum(diagonal, 0) + np.minimum(others, 0)
        high = np.maximum(diagonal, 0) + np.maximum(others, 0)
        return low[self.groups], high[self.groups]

    def column_sums(self, weights: Floats) -> Floats:
        size = np.abs(self.shared)
        return (size * self._by_group(weights))[self.groups] - size[self.groups] * weights

    def column_range(self) -> tuple[Floats, Floats]:
        diagonal = self.own_by_group + self.shared
        others = np.where(self.sizes == 1, diagonal, self.shared)
        low, high = np.minimum(diagonal, others), np.maximum(diagonal, others)
        if len(self.shared) > 1:  # entries of the other groups are 0
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

    def _by_group(self, weights: Floats) -> Floats:
        return np.bincount(self.groups, weights, minlength=len(self.shared)).astype(np.float64)
