"""Any noise matrix, with a named constructor for each convention in use."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp._validation import check_confidence, check_priors, check_rate
from nacp.noise.base import Noise, sure
from nacp.noise.matrices import DenseMatrix

_ROW_TOLERANCE = 1e-4
_SINGULAR = 1e12


class MatrixNoise(Noise):
    """Any invertible noise matrix.

    Parameters
    ----------
    P : array of shape (k, k)
        ``P[i, j] = p(noisy = j | true = i)``: rows are the true class and sum to 1. For the other
        conventions see `from_columns` and `from_posterior`.
    radius : float, default=0.0
        How far each row of the true matrix may be from P's, in total variation. Also covers noise that
        depends on the input, within that radius of P. The guarantees "pac" and "expected" can make use of
        it.
    confidence : float, default=1.0
        The probability that the radius is large enough. What is missing to 1 adds to delta.

    Examples
    --------
    >>> import nacp
    >>> noise = nacp.MatrixNoise([[0.75, 0.25], [0.5, 0.5]])
    >>> noise.inverse(2).dense().round(6).tolist()
    [[2.0, -1.0], [-2.0, 3.0]]
    >>> noise
    MatrixNoise(k=2, condition=5)
    """

    name: ClassVar[str] = "matrix"

    def __init__(self, P: ArrayLike, radius: float = 0.0, confidence: float = 1.0) -> None:
        self.radius = check_rate(radius, "radius")
        self.confidence = check_confidence(confidence)
        if not radius and self.confidence != 1:
            raise ValueError("confidence is that of a radius; pass radius= too")
        matrix = np.array(P, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
            raise ValueError(f"noise matrix must have the shape (k, k); found {matrix.shape}")
        if not np.all(np.isfinite(matrix)) or matrix.min() < 0:
            raise ValueError(
                f"noise matrix must hold probabilities; found values from {matrix.min():.4g} "
                f"to {matrix.max():.4g}"
            )
        sums = matrix.sum(axis=1)
        if np.abs(sums - 1).max() > _ROW_TOLERANCE:
            row = int(np.abs(sums - 1).argmax())
            hint = ""
            if np.abs(matrix.sum(axis=0) - 1).max() <= _ROW_TOLERANCE:
                hint = "; its columns do: pass MatrixNoise.from_columns(P)"
            raise ValueError(
                f"noise matrix must have rows (the true class) that sum to 1; "
                f"row {row} sums to {sums[row]:.6g}{hint}"
            )
        try:
            inverse = np.linalg.inv(matrix).astype(np.float64)
        except np.linalg.LinAlgError:
            inverse = np.full_like(matrix, np.inf)
        condition = np.abs(inverse).sum(axis=1).max()
        if not condition < _SINGULAR:
            raise ValueError(
                "noise matrix is singular (some classes cannot be told apart from their noisy "
                f"labels): its condition is {condition:.3g}; merge the classes that look alike"
            )
        self._inverse = DenseMatrix(inverse)
        self._matrix = DenseMatrix(matrix)
        matrix.flags.writeable = False

    @classmethod
    def from_columns(cls, Q: ArrayLike, radius: float = 0.0) -> "MatrixNoise":
        """Return the model whose *columns* are the true class: ``Q[j, i] = p(noisy = j | true = i)``.

        Parameters
        ----------
        Q : array of shape (k, k)
            Columns sum to 1.
        radius : float, default=0.0
            As in `MatrixNoise`.

        Examples
        --------
        >>> import nacp
        >>> nacp.MatrixNoise.from_columns([[0.75, 0.5], [0.25, 0.5]]).matrix(2).dense().tolist()
        [[0.75, 0.25], [0.5, 0.5]]
        """
        return cls(np.asarray(Q).T, radius)

    @classmethod
    def from_posterior(
        cls, M: ArrayLike, *, priors: ArrayLike | None = None, noisy_priors: ArrayLike | None = None
    ) -> "MatrixNoise":
        """Return the model given by ``M[j, i] = p(true = i | noisy = j)`` and class frequencies.

        Parameters
        ----------
        M : array of shape (k, k)
            Rows are the noisy class and sum to 1.
        priors : array of shape (k,), optional
            The frequencies of the true classes, or else
        noisy_priors : array of shape (k,), optional
            the frequencies of the noisy labels. Exactly one of the two.

        Examples
        --------
        >>> import nacp
        >>> noise = nacp.MatrixNoise.from_posterior(
        ...     [[0.75, 0.25], [0.25, 0.75]], noisy_priors=[0.5, 0.5])
        >>> noise.matrix(2).dense().tolist()
        [[0.75, 0.25], [0.25, 0.75]]
        """
        posterior = cls(M)._matrix.values
        k = len(posterior)
        if (priors is None) == (noisy_priors is None):
            raise ValueError("from_posterior needs exactly one of priors and noisy_priors")
        if noisy_priors is not None:
            noisy = check_priors(noisy_priors, k, "noisy_priors")
        else:
            noisy = np.linalg.solve(posterior.T, check_priors(priors, k)).astype(np.float64)
            if noisy.min() < 0:
                raise ValueError(
                    "priors do not fit the matrix p(true | noisy): they imply a negative frequency "
                    f"({noisy.min():.4g}) of noisy label {int(noisy.argmin())}"
                )
        joint = noisy[:, None] * posterior
        return cls((joint / joint.sum(axis=0)).T)

    @property
    def P(self) -> Floats:
        """The matrix, rows the true class."""
        return self._matrix.values

    def matrix(self, k: int) -> DenseMatrix:
        """Return P."""
        self._check(k)
        return self._matrix

    def inverse(self, k: int) -> DenseMatrix:
        """Return ``W = P^-1``."""
        self._check(k)
        return self._inverse

    def describe(self, k: int) -> str:
        """Return the model in a few words."""
        within = f", each row within {self.radius:.4g} of it{sure(self.confidence)}" if self.radius else ""
        return f"label noise by a {k} x {k} matrix of condition {self.condition(k):.3g}{within}"

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for a file."""
        return {"name": self.name, "P": self.P.tolist(), "radius": self.radius, "confidence": self.confidence}

    def __repr__(self) -> str:
        k = self._matrix.k
        within = f", radius={self.radius:.4g}" if self.radius else ""
        return f"MatrixNoise(k={k}, condition={self.condition(k):.3g}{within})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MatrixNoise):
            return NotImplemented
        known = (self.radius, self.confidence) == (other.radius, other.confidence)
        return known and np.array_equal(self.P, other.P)

    def __hash__(self) -> int:
        return hash(self.P.tobytes())

    def _check(self, k: int) -> None:
        if self._matrix.k != k:
            raise ValueError(f"noise matrix is for {self._matrix.k} classes, but probs has {k} columns")

    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints:
        self._check(k)
        noisy = np.empty(len(labels), dtype=np.int64)
        u = rng.random(len(labels))
        for label in np.unique(labels):
            own = labels == label
            row = np.cumsum(self.P[label])
            noisy[own] = np.searchsorted(row / row[-1], u[own], side="right")
        return noisy
