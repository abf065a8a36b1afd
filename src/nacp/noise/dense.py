"""Noise models that keep all entries of their matrix: its checks, its inverse, sampling, comparison."""

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.checks import set_checked
from nacp.errors import InputError
from nacp.noise.base import Noise
from nacp.noise.matrices import DenseMatrix

_A = TypeVar("_A", bound=Array)

_ROW_TOLERANCE, _ROUNDING = 1e-4, 1e-12
_SINGULAR = 1e12


@dataclass(frozen=True, eq=False, repr=False)
class DenseNoise(Noise):
    """A noise model for k classes, with its matrix and the inverse as dense arrays."""

    _matrix: DenseMatrix = field(init=False)
    _inverse: DenseMatrix = field(init=False)

    def _store(self, matrix: Floats, name: str, **parameters: Any) -> None:
        """Store the matrix, its inverse and the parameters, all read-only; `name` is for error messages."""
        inverse = check_inverse(matrix, name)
        kept = {
            key: read_only(value) if isinstance(value, np.ndarray) else value
            for key, value in parameters.items()
        }
        set_checked(
            self, _matrix=DenseMatrix(read_only(matrix)), _inverse=DenseMatrix(read_only(inverse)), **kept
        )

    @property
    def k(self) -> int:
        return self._matrix.k

    def matrix(self, k: int) -> DenseMatrix:
        self.check(k)
        return self._matrix

    def inverse(self, k: int) -> DenseMatrix:
        self.check(k)
        return self._inverse

    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints:
        noisy, u = np.empty(len(labels), dtype=np.int64), rng.random(len(labels))
        for label in np.unique(labels):
            own = labels == label
            row = np.cumsum(self._matrix.values[label])
            noisy[own] = np.searchsorted(row / row[-1], u[own], side="right")
        return noisy

    def _parameters(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.init}

    def to_dict(self) -> dict[str, Any]:
        plain = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in self._parameters().items()
        }
        return {"name": self.name} | plain

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._parameters().values())

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(value, getattr(other, name)) for name, value in self._parameters().items())

    def __hash__(self) -> int:
        # The diagonal alone: hashing k^2 numbers takes longer. + 0.0 turns minus zero into zero.
        return hash((type(self), (self._matrix.own + 0.0).tobytes()))


def as_floats(values: Any, name: str, problem: str) -> Floats:
    """Return a copy of finite numbers as an array, or raise an error."""
    try:
        found: Floats = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(name, problem, found=repr(values)) from None
    if not np.isfinite(found).all():
        raise InputError(name, problem, found="nan or infinity")
    return found


def check_matrix(P: Any, name: str = "P", rows: str = "the true class") -> Floats:
    """Return a copy of a noise matrix with rows that sum to 1, or raise an error."""
    given = P.toarray() if hasattr(P, "toarray") else P
    matrix = as_floats(given, name, "must be a noise matrix, (k, k) probabilities")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise InputError(name, "must be a noise matrix of the shape (k, k)", found=f"{matrix.shape}")
    return matrix / check_rows(matrix, name, rows)[:, None]


def check_rows(matrix: Floats, name: str, rows: str = "the true class") -> Floats:
    """Return the sums of the rows, 1 where they differ from 1 by rounding only; check the entries."""
    if matrix.min() < 0:
        found = f"values from {matrix.min():.4g} to {matrix.max():.4g}"
        raise InputError(name, "must be a noise matrix, which holds probabilities", found=found)
    sums = matrix.sum(axis=1)
    row = int(np.abs(sums - 1).argmax())
    if abs(sums[row] - 1) > _ROW_TOLERANCE:
        columns = np.abs(matrix.sum(axis=0) - 1).max() <= _ROW_TOLERANCE
        raise InputError(
            name,
            f"must be a noise matrix with rows ({rows}) that sum to 1; row {row} sums to {sums[row]:.6g}",
            remedy="its columns do: transpose it (MatrixNoise.from_columns does)" if columns else None,
            spoken="its columns do: transpose it" if columns else None,
        )
    return np.where(np.abs(sums - 1) > _ROUNDING, sums, 1.0)


def check_inverse(matrix: Floats, name: str) -> Floats:
    """Return the inverse, or raise an error if the matrix is singular."""
    condition = np.inf
    try:
        inverse: Floats = np.linalg.inv(matrix).astype(np.float64)
        condition = np.abs(inverse).sum(axis=1).max()
    except np.linalg.LinAlgError:
        pass
    if not condition < _SINGULAR:
        problem = f"is a singular noise matrix: its condition is {condition:.3g}"
        raise InputError(name, problem, remedy="merge classes with nearly the same noisy labels")
    return inverse


def read_only(array: _A) -> _A:
    """Return a view that cannot be written to, and whose flag cannot be set back."""
    array.flags.writeable = False
    view: _A = array.view()
    return view
