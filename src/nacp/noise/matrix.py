"""Any noise matrix, with a named constructor for each convention in use."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp.checks import check_confidence, check_priors, check_rate, set_checked
from nacp.errors import InputError
from nacp.noise.base import Doubt, Noise
from nacp.noise.matrices import ClassMatrix, DenseMatrix
from nacp.noise.sparse import SparseMatrix, open_sparse, read_only

_ROW_TOLERANCE, _ROUNDING = 1e-4, 1e-12
_SINGULAR = 1e12


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MatrixNoise(Noise):
    """Any invertible noise matrix.

    Parameters
    ----------
    P : array or scipy.sparse array of shape (k, k)
        ``P[i, j] = p(noisy = j | true = i)``: rows are the true class and sum to 1. For the other
        conventions see `from_columns` and `from_posterior`. A copy is kept, which cannot be changed; rows
        that sum to 1 only up to 0.0001 are divided by their sums. Neither a sparse matrix nor its inverse is
        ever written out, unless there is a radius. Classes that are confused in pieces of up to some hundred
        take least; if thousands hang together, each must keep more than half of its labels, rows of the
        inverse are solved for when they are needed, and ranges and the condition are bounds.
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

    Each of 10,000 classes is taken for the next one of its ten in a tenth of the cases:

    >>> import numpy as np
    >>> import scipy.sparse
    >>> ten = 0.9 * np.eye(10) + 0.1 * np.roll(np.eye(10), 1, axis=1)
    >>> nacp.MatrixNoise(scipy.sparse.block_diag([scipy.sparse.coo_array(ten)] * 1000))
    MatrixNoise(k=10000, condition=1.25)
    """

    P: Any
    radius: float = 0.0
    confidence: float = 1.0
    name: ClassVar[str] = "matrix"
    _matrix: DenseMatrix | SparseMatrix = field(init=False)
    _inverse: ClassMatrix = field(init=False)

    def __init__(self, P: Any, radius: float = 0.0, confidence: float = 1.0) -> None:
        reach, certainty = check_rate(radius, "radius"), check_confidence(confidence)
        if not reach and certainty != 1:
            raise InputError(
                "confidence", "is that of a radius, and there is none", remedy="pass radius= too"
            )
        sparse = open_sparse(P, "P")
        matrix: DenseMatrix | SparseMatrix
        if sparse is None or reach:  # who knows of a radius asks for all entries
            matrix = DenseMatrix(read_only(check_matrix(P if sparse is None else sparse.dense())))
        else:
            matrix = _check_sparse(sparse)
        inverse = check_inverse(matrix)
        if isinstance(inverse, DenseMatrix):
            inverse = DenseMatrix(read_only(inverse.values))
        set_checked(
            self,
            P=matrix.values if isinstance(matrix, DenseMatrix) else matrix.to_scipy(),
            radius=reach,
            confidence=certainty,
            _matrix=matrix,
            _inverse=inverse,
        )

    @classmethod
    def from_columns(cls, Q: Any, radius: float = 0.0) -> "MatrixNoise":
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
            return cls(Q.T if hasattr(Q, "tocoo") else np.asarray(Q).T, radius)
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
        check_inverse(DenseMatrix(posterior), "M")
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
        return self._matrix.k

    def matrix(self, k: int) -> DenseMatrix | SparseMatrix:
        self.check(k)
        return self._matrix

    def inverse(self, k: int) -> ClassMatrix:
        self.check(k)
        return self._inverse

    def describe(self, k: int) -> str:
        within = f", each row within {self.radius:.4g} of it{self.doubt.words}" if self.radius else ""
        return f"label noise by a {k:,} x {k:,} matrix of condition {self.condition(k):.3g}{within}"

    def to_dict(self) -> dict[str, Any]:
        P: Any = self._matrix
        if isinstance(P, DenseMatrix):
            P = P.values.tolist()
        else:
            P = {name: getattr(P, name).tolist() for name in ("starts", "columns", "values")}
        return {"name": self.name, "P": P, "radius": self.radius, "confidence": self.confidence}

    def __repr__(self) -> str:
        within = f", radius={self.radius:.4g}" if self.radius else ""
        return f"MatrixNoise(k={self.k}, condition={self.condition(self.k):.3g}{within})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.P, self.radius, self.confidence)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MatrixNoise):
            return NotImplemented
        if (self.k, self.radius, self.confidence) != (other.k, other.radius, other.confidence):
            return False
        if isinstance(self._matrix, DenseMatrix) and isinstance(other._matrix, DenseMatrix):
            return np.array_equal(self.P, other.P)
        return not (self.P != other.P).sum()

    def __hash__(self) -> int:
        # Of the diagonal alone: k^2 numbers take longer. + 0.0: minus zero equals zero, in other bits.
        return hash(((self._matrix.own + 0.0).tobytes(), self.radius, self.confidence))

    def _draw(self, labels: Ints, k: int, rng: np.random.Generator) -> Ints:
        return drawn(self._matrix, labels, rng)


def drawn(matrix: ClassMatrix, labels: Ints, rng: np.random.Generator) -> Ints:
    """Draw a label for each from its row of a noise matrix."""
    noisy, every = np.empty(len(labels), dtype=np.int64), np.arange(matrix.k)
    u = rng.random(len(labels))
    for label in np.unique(labels):
        own = labels == label
        row = np.cumsum(matrix.entries(label, every))
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
    matrix /= check_rows(matrix, matrix.sum(axis=1), matrix.sum(axis=0), name, rows)[:, None]
    return matrix


def _check_sparse(matrix: SparseMatrix) -> SparseMatrix:
    """Return a sparse matrix with rows that sum to 1, if they are distributions."""
    ones = np.ones(matrix.k)
    sums = check_rows(matrix.values, matrix.pull(ones), matrix.push(ones), "P", "the true class")
    return SparseMatrix(matrix.starts, matrix.columns, read_only(matrix.values / sums[matrix.rows]))


def check_rows(values: Floats, sums: Floats, turned: Floats, name: str, rows: str) -> Floats:
    """Return what rows are to be divided by, given their entries and their sums and those of columns."""
    if not np.all(np.isfinite(values)) or values.min(initial=0.0) < 0:
        raise InputError(
            name,
            "must be a noise matrix, which holds probabilities",
            found=f"values from {values.min():.4g} to {values.max():.4g}",
        )
    row = int(np.abs(sums - 1).argmax())
    if abs(sums[row] - 1) > _ROW_TOLERANCE:
        columns = np.abs(turned - 1).max() <= _ROW_TOLERANCE
        raise InputError(
            name,
            f"must be a noise matrix with rows ({rows}) that sum to 1; row {row} sums to {sums[row]:.6g}",
            remedy="its columns do: transpose it (MatrixNoise.from_columns does)" if columns else None,
            spoken="its columns do: transpose it" if columns else None,
        )
    # Rows that sum to 1 but for rounding stay as they are, to the last bit.
    return np.where(np.abs(sums - 1) > _ROUNDING, sums, 1.0)


def check_inverse(matrix: ClassMatrix, name: str = "P") -> ClassMatrix:
    """Return the inverse, or say that there is none."""
    condition = np.inf
    try:
        inverse = matrix.inverse()
        condition = inverse.norm()
    except np.linalg.LinAlgError:
        pass
    if not condition < _SINGULAR:
        raise InputError(
            name,
            "is a singular noise matrix (some classes cannot be told apart from their noisy labels): "
            f"its condition is {condition:.3g}",
            remedy="merge the classes that look alike",
        )
    return inverse
