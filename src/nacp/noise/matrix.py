"""Any noise matrix, with a named constructor for each convention in use."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp.checks import check_confidence, check_priors, check_rate, set_checked
from nacp.errors import InputError
from nacp.noise.base import Noise
from nacp.noise.doubt import Doubt
from nacp.noise.matrices import DenseMatrix

_ROW_TOLERANCE, _ROUNDING = 1e-4, 1e-12
_SINGULAR = 1e12


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MatrixNoise(Noise):
    """Any invertible noise matrix.

    Parameters
    ----------
    P : array of shape (k, k)
        ``P[i, j] = p(noisy = j | true = i)``: rows are the true class and sum to 1. For the other
        conventions see `from_columns` and `from_posterior`. A copy is kept, which cannot be changed; rows
        that sum to 1 only up to 0.0001 are divided by their sums.
    radius : float, default=0.0
        How far each row of the true matrix may be from P's, in total variation. Also covers noise that
        depends on the input, within that radius of P. The guarantees "pac" and "expected" can make use of
        it.
    confidence : float, default=1.0
        The probability that the radius is large enough. One minus it is added to delta.

    Examples
    --------
    >>> import nacp
    >>> noise = nacp.MatrixNoise([[0.75, 0.25], [0.5, 0.5]])
    >>> noise.inverse(2).dense().round(6).tolist()
    [[2.0, -1.0], [-2.0, 3.0]]
    >>> noise
    MatrixNoise(k=2, condition=5)
    """

    P: Floats
    radius: float = 0.0
    confidence: float = 1.0
    name: ClassVar[str] = "matrix"
    _inverse: DenseMatrix = field(init=False)

    def __init__(self, P: ArrayLike, radius: float = 0.0, confidence: float = 1.0) -> None:
        reach, certainty = check_rate(radius, "radius"), check_confidence(confidence)
        if not reach and certainty != 1:
            raise InputError(
                "confidence", "is that of a radius, and there is none", remedy="pass radius= too"
            )
        matrix = check_matrix(P)
        set_checked(
            self,
            # Views of arrays that cannot be written to: not even their flags can be changed.
            P=_read_only(matrix),
            radius=reach,
            confidence=certainty,
            _inverse=DenseMatrix(_read_only(_inverted(matrix))),
        )

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
        try:
            return cls(np.asarray(Q).T, radius)
        except InputError as error:
            raise error.about("Q.T" if error.argument == "P" else error.argument) from None

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
        if (priors is None) == (noisy_priors is None):
            raise InputError("priors", "or noisy_priors must be given, exactly one of them")
        posterior = check_matrix(M, "M", rows="the noisy class")
        _inverted(posterior, "M")
        k = len(posterior)
        if noisy_priors is not None:
            noisy = check_priors(noisy_priors, k, "noisy_priors")
        else:
            noisy = np.linalg.solve(posterior.T, check_priors(priors, k)).astype(np.float64)
            if noisy.min() < 0:
                raise InputError(
                    "priors",
                    "do not fit the matrix p(true | noisy): they imply a negative frequency "
                    f"({noisy.min():.4g}) of noisy label {int(noisy.argmin())}",
                )
        joint = noisy[:, None] * posterior
        return cls((joint / joint.sum(axis=0)).T)

    @property
    def doubt(self) -> Doubt:
        return Doubt((self,), self.radius, self.confidence)

    @property
    def k(self) -> int:
        return len(self.P)

    def matrix(self, k: int) -> DenseMatrix:
        self.check(k)
        return DenseMatrix(self.P)

    def inverse(self, k: int) -> DenseMatrix:
        self.check(k)
        return self._inverse

    def describe(self, k: int) -> str:
        within = f", each row within {self.radius:.4g} of it{self.doubt.words}" if self.radius else ""
        return f"label noise by a {k:,} x {k:,} matrix of condition {self.condition(k):.3g}{within}"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "P": self.P.tolist(), "radius": self.radius, "confidence": self.confidence}

    def __repr__(self) -> str:
        within = f", radius={self.radius:.4g}" if self.radius else ""
        return f"MatrixNoise(k={self.k}, condition={self.condition(self.k):.3g}{within})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.P, self.radius, self.confidence)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MatrixNoise):
            return NotImplemented
        known = (self.radius, self.confidence) == (other.radius, other.confidence)
        return known and np.array_equal(self.P, other.P)

    def __hash__(self) -> int:
        # Of the diagonal alone: k^2 numbers take longer. + 0.0: minus zero equals zero, in other bits.
        return hash(((np.diagonal(self.P) + 0.0).tobytes(), self.radius, self.confidence))

    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints:
        noisy = np.empty(len(labels), dtype=np.int64)
        u = rng.random(len(labels))
        for label in np.unique(labels):
            own = labels == label
            row = np.cumsum(self.P[label])
            noisy[own] = np.searchsorted(row / row[-1], u[own], side="right")
        return noisy


def check_matrix(P: ArrayLike, name: str = "P", rows: str = "the true class") -> Floats:
    """Return a copy of the matrix, if its rows are distributions."""
    try:
        matrix = np.array(P, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(name, "must be a noise matrix, (k, k) numbers", found=repr(P)) from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise InputError(name, "must be a noise matrix of the shape (k, k)", found=f"{matrix.shape}")
    if not np.all(np.isfinite(matrix)) or matrix.min() < 0:
        raise InputError(
            name,
            "must be a noise matrix, which holds probabilities",
            found=f"values from {matrix.min():.4g} to {matrix.max():.4g}",
        )
    sums = matrix.sum(axis=1)
    row = int(np.abs(sums - 1).argmax())
    if abs(sums[row] - 1) > _ROW_TOLERANCE:
        turned = np.abs(matrix.sum(axis=0) - 1).max() <= _ROW_TOLERANCE
        raise InputError(
            name,
            f"must be a noise matrix with rows ({rows}) that sum to 1; row {row} sums to {sums[row]:.6g}",
            remedy="its columns do: transpose it (MatrixNoise.from_columns does)" if turned else None,
            spoken="its columns do: transpose it" if turned else None,
        )
    # Rows that sum to 1 but for rounding stay as they are, to the last bit.
    rough = np.abs(sums - 1) > _ROUNDING
    matrix[rough] /= sums[rough, None]
    return matrix


def _inverted(matrix: Floats, name: str = "P") -> Floats:
    """Return the inverse, or say that there is none."""
    try:
        inverse = np.linalg.inv(matrix).astype(np.float64)
    except np.linalg.LinAlgError:
        inverse = np.full_like(matrix, np.inf)
    condition = np.abs(inverse).sum(axis=1).max()
    if not condition < _SINGULAR:
        raise InputError(
            name,
            "is a singular noise matrix (some classes cannot be told apart from their noisy labels): "
            f"its condition is {condition:.3g}",
            remedy="merge the classes that look alike",
        )
    return inverse


def _read_only(array: Floats) -> Floats:
    array.flags.writeable = False
    return array.view()
