"""Sparse matrices over the classes: a noise matrix with few entries, and its inverse, never written out.

Classes that are never confused, not even by way of others, lie in different pieces, and the inverse has no
entry between pieces. Small pieces are inverted one by one, and the inverse is sparse, too. In a large piece
it is not: its rows are solved for when they are asked for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.errors import InputError
from nacp.noise.matrices import ClassMatrix

_A = TypeVar("_A", bound=Array)

_WRITTEN = 1 << 22  # entries that an inverse may have to be written out: 64 MB
# Rows that are solved for at once: always as many, so that no bit depends on who is solved with whom.
_AT_ONCE = 16
_PRECISION = 2.0**-50  # of sums of rows: by how much that of the absolute values may be wrong
# How much the last step may change a row that is solved for, as a share of its size. Where classes keep
# little more than half, what is still to come adds up to many times that: with 0.5001, to 1e-11.
_LAST_STEP = 2.0**-48
_UNCHECKED, _CHECKED = 8, 4  # after so many steps, and so many more, one looks how much that is
_TURNS = 100  # steps to find what fades most slowly


@dataclass(frozen=True, eq=False)
class SparseMatrix(ClassMatrix):
    """A matrix given by its entries row after row: row i has those from ``starts[i]`` to ``starts[i + 1]``.

    Its arrays cannot be changed.
    """

    starts: Ints
    columns: Ints  # ascending in each row
    values: Floats

    @property
    def k(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def rows(self) -> Ints:
        """The row of each entry."""
        return read_only(np.repeat(np.arange(self.k), np.diff(self.starts)))

    @cached_property
    def _keys(self) -> Ints:
        return read_only(self.rows * self.k + self.columns)

    @cached_property
    def _off(self) -> Floats:
        """The values off the diagonal, and 0 on it."""
        return read_only(np.where(self.rows == self.columns, 0.0, self.values))

    def entries(self, rows: Ints, columns: Array) -> Floats:
        keys = np.asarray(rows) * self.k + columns
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self.values[place], 0.0)

    @cached_property
    def own(self) -> Floats:
        every = np.arange(self.k)
        return read_only(self.entries(every, every))

    @property
    def diagonal(self) -> Floats:
        return self.own

    def rest(self, rows: Ints, columns: Ints | None = None) -> Floats:
        if columns is not None:
            return np.where(rows == columns, 0.0, self.entries(rows, columns))
        numbers = np.diff(self.starts)[rows]
        found, which = np.zeros((len(rows), self.k)), np.repeat(np.arange(len(rows)), numbers)
        place = np.arange(len(which)) + np.repeat(self.starts[rows] - np.cumsum(numbers) + numbers, numbers)
        found[which, self.columns[place]] = self._off[place]
        return found

    def rest_bounds(self) -> tuple[float, float]:
        size = np.abs(self._off)
        return float(size.max(initial=0.0)), float(self._by_row(size).max())

    def row_sums(self) -> tuple[Floats, Floats]:
        return self._by_row(np.maximum(self._off, 0)), self._by_row(np.minimum(self._off, 0))

    def column_sums(self, weights: Floats) -> Floats:
        return self._by_column(weights[self.rows] * np.abs(self._off))

    def column_range(self) -> tuple[Floats, Floats]:
        full = np.bincount(self.columns, minlength=self.k) == self.k
        low, high = np.where(full, np.inf, 0.0), np.where(full, -np.inf, 0.0)
        np.minimum.at(low, self.columns, self.values)
        np.maximum.at(high, self.columns, self.values)
        return low, high

    def push(self, weights: Floats) -> Floats:
        return self._by_column(weights[self.rows] * self.values)

    def pull(self, values: Floats) -> Floats:
        return self._by_row(values[self.columns] * self.values)

    def mean_square(self, inverse: ClassMatrix) -> float:
        return float((self.values * inverse.entries(self.columns, self.rows) ** 2).sum() / self.k)

    def inverse(self) -> ClassMatrix:
        from scipy.sparse.csgraph import connected_components

        _, piece = connected_components(self.to_scipy(), directed=False)
        sizes = np.bincount(piece)
        if (sizes**2).sum() > _WRITTEN:
            return SolvedMatrix(self)
        order, first = np.argsort(piece, kind="stable"), np.cumsum(sizes) - sizes
        keys, values = [], []
        for size in np.unique(sizes):
            members = order[first[sizes == size, None] + np.arange(size)]
            rows, columns = members[:, :, None], members[:, None, :]
            keys.append((rows * self.k + columns).ravel())
            values.append(np.linalg.inv(self.entries(rows, columns)).ravel())
        return from_keys(np.concatenate(keys), np.concatenate(values), self.k)

    def to_scipy(self) -> Any:
        """Return the matrix as scipy has it."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.columns, self.starts), shape=(self.k, self.k))

    def _by_row(self, values: Floats) -> Floats:
        return np.bincount(self.rows, values, minlength=self.k).astype(np.float64)

    def _by_column(self, values: Floats) -> Floats:
        return np.bincount(self.columns, values, minlength=self.k).astype(np.float64)


def from_keys(keys: Ints, values: Floats, k: int) -> SparseMatrix:
    """Return the matrix with these entries, of which each is at ``row * k + column``."""
    order = np.argsort(keys)
    rows, columns = np.divmod(keys[order], k)
    starts: Ints = np.searchsorted(rows, np.arange(k + 1))
    return SparseMatrix(read_only(starts), read_only(columns), read_only(values[order]))


def read_only(array: _A) -> _A:
    """Return a view that cannot be written to: not even its flags can be changed."""
    array.flags.writeable = False
    view: _A = array.view()
    return view


@dataclass(frozen=True, eq=False)
class SolvedMatrix(ClassMatrix):
    """The inverse W of a sparse noise matrix P, of which rows are solved for when they are asked for.

    With ``P = D + E``, D its diagonal, ``W = D^-1 (I - E D^-1 + (E D^-1)^2 - ...)`` converges if every class
    keeps more than half of its labels. Term by term, ``|W| <= (D - E)^-1`` and ``|W - D^-1| <= (D - E)^-1 -
    D^-1``, whose row sums one system tells. ``D^-1`` stands for the diagonal, and what else is in a row is
    known by these bounds: ranges and the condition are no less than they are, and promises hold.
    """

    source: SparseMatrix

    def __post_init__(self) -> None:
        kept = self.source.own
        if kept.min() <= 0.5:
            raise InputError(
                "P",
                "is a sparse noise matrix in which thousands of classes hang together, and each class must "
                f"then keep more than half of its labels; class {int(kept.argmin())} keeps {kept.min():.4g}",
                remedy="pass P.toarray(), if there is memory for its inverse",
            )

    @property
    def own(self) -> Floats:
        return 1 / self.source.own

    @property
    def diagonal(self) -> Floats:
        return self.own

    @cached_property
    def _steps(self) -> tuple[Any, int]:
        """``(D^-1 E)^T``, and how often it has to be applied.

        The m-th term of a row's series adds up to ``((D^-1 E)^m 1)_i`` in absolute values, and further terms
        fall at least as fast as the largest of these does in one step.
        """
        from scipy.sparse import csr_array

        source = self.source
        turned = csr_array((source._off / source.own[source.rows], (source.columns, source.rows)))
        turned.resize((self.k, self.k))
        left, times, slowest = np.ones(self.k), 0, 1 / float(source.own.min()) - 1
        while left.max() > _PRECISION * (1 - slowest):
            left, times = turned.T @ left, times + 1
        return turned, times

    @cached_property
    def _sizes(self) -> Floats:
        """A bound of the sum of absolute values of each row: ``(D - |E|)^-1 1``."""
        turned, times = self._steps
        found = self.own
        for _ in range(times):
            found = self.own + turned.T @ found
        return read_only(found * (1 + 1e-12))

    def rest(self, rows: Ints, columns: Ints | None = None) -> Floats:
        if columns is None:
            found = np.empty((len(rows), self.k))
            for some, solved in self._solved(rows):
                found[some] = solved
            return found
        rows, columns = np.broadcast_arrays(rows, columns)
        flat, where = rows.ravel(), np.argsort(rows, axis=None, kind="stable")
        wanted, first = np.unique(flat[where], return_index=True)
        ends, values = np.append(first, len(flat)), np.empty(len(flat))
        for some, solved in self._solved(wanted):
            places = where[ends[some.start] : ends[some.stop]]
            row = np.searchsorted(wanted[some], flat[places])
            values[places] = solved[row, columns.ravel()[places]]
        return values.reshape(rows.shape)

    def _solved(self, rows: Ints) -> Iterator[tuple[slice, Floats]]:
        """Yield the rest in some rows at a time."""
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            units, slow, tolerances = np.zeros((self.k, _AT_ONCE)), *np.zeros((2, _AT_ONCE))
            here = slice(len(some))
            units[some, np.arange(len(some))] = 1.0
            slow[here], tolerances[here] = self._slowest[0][some], _LAST_STEP * self._sizes[some]
            solved = self._solve(units, self._slowest[1][:, None] * slow, tolerances)[:, here].T
            solved[np.arange(len(some)), some] -= self.own[some]
            yield slice(start, start + len(some)), solved

    @cached_property
    def _slowest(self) -> tuple[Floats, Floats]:
        """What fades most slowly in the series: how much of it each class starts, and what it adds up to.

        The first eigenvectors of ``D^-1 E``, by powers. Where classes are confused at random, all else fades
        in far fewer steps. Rows are solved for from there on, so only the number of steps depends on it.
        """
        turned, _ = self._steps
        right, left = np.ones(self.k), np.ones(self.k)
        for _ in range(_TURNS):
            right, left = turned.T @ right, turned @ left
            if min(right.max(), left.max()) == 0:
                return right, left  # the series comes to an end
            right, left = right / right.max(), left / left.max()
        both = float(left @ right)
        ratio = float((turned @ left) @ right) / both
        return read_only(right), read_only(left / (both * (1 + ratio)))

    def _solve(self, given: Floats, found: Floats, tolerances: Floats) -> Floats:
        """Return the transpose of ``given.T @ W``, from a guess on; each column stops by itself."""
        turned, times = self._steps
        solved, going = np.empty_like(given), np.ones(given.shape[1], dtype=bool)
        for step in range(1, 2 * times + _CHECKED + 1):
            product = turned @ found
            found, before = np.subtract(given, product, out=product), found
            if step > _UNCHECKED and step % _CHECKED == 0:
                change = np.abs(np.subtract(found, before, out=before), out=before).sum(axis=0)
                stops = going & (change <= tolerances)
                solved[:, stops] = found[:, stops]
                going &= ~stops
                if not going.any():
                    break
        solved[:, going] = found[:, going]
        return solved * self.own[:, None]

    def rest_bounds(self) -> tuple[float, float]:
        most = float((self._sizes - self.own).max())
        return most, most

    def row_sums(self) -> tuple[Floats, Floats]:
        # A row of W sums to 1, so a row of the rest to 1 - 1 / D.
        size, total = self._sizes - self.own, 1 - self.own
        return np.maximum(size + total, 0) / 2, -np.maximum(size - total, 0) / 2

    def column_sums(self, weights: Floats) -> Floats:
        turned, times = self._steps
        found = weights
        for _ in range(times):
            found = weights + turned @ found
        return (found - weights) * self.own * (1 + 1e-12)

    def column_range(self) -> tuple[Floats, Floats]:
        low, high = self.subset_range()
        return np.full(self.k, low), np.full(self.k, high)

    def push(self, weights: Floats) -> Floats:
        turned, times = self._steps
        found = weights
        for _ in range(times):
            found = weights - turned @ found
        return found * self.own

    def pull(self, values: Floats) -> Floats:
        turned, times = self._steps
        found = given = self.own * values
        for _ in range(times):
            found = given - turned.T @ found
        return found

    def mean_square(self, inverse: ClassMatrix) -> float:
        return inverse.mean_square(self)

    def inverse(self) -> SparseMatrix:
        return self.source


def open_sparse(P: Any, name: str) -> SparseMatrix | None:
    """Return a sparse matrix of scipy, or one as files have it; None of anything else."""
    if isinstance(P, Mapping):
        starts, columns, values = (np.array(P[each]) for each in ("starts", "columns", "values"))
        whole = starts.ndim == columns.ndim == 1 and starts.dtype.kind == columns.dtype.kind == "i"
        if not (whole and columns.shape == values.shape and np.all(np.diff(starts) >= 0)) or (
            len(starts) == 0 or (starts[0], starts[-1]) != (0, len(columns))
        ):
            raise InputError(name, "must be a sparse noise matrix: where rows start, columns and values")
        rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        shape = (len(starts) - 1,) * 2
    elif hasattr(P, "tocoo"):
        given = P.tocoo()
        rows, columns, values, shape = given.row, given.col, given.data, given.shape
    else:
        return None
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2:
        raise InputError(name, "must be a noise matrix of the shape (k, k)", found=f"{shape}")
    k = shape[0]
    if len(columns) and (columns.min() < 0 or columns.max() >= k):
        raise InputError(
            name, f"must have columns from 0 to {k - 1}", found=f"{columns.min()} to {columns.max()}"
        )
    keys, place = np.unique(rows.astype(np.int64) * k + columns, return_inverse=True)
    sums = np.bincount(place, values.astype(np.float64), minlength=len(keys)).astype(np.float64)
    return from_keys(keys[sums != 0], sums[sums != 0], k)
