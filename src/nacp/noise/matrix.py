"""Any noise matrix, with a named constructor for each convention in use."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp.checks import check_confidence, check_priors, check_rate
from nacp.errors import InputError
from nacp.noise.dense import DenseNoise, check_inverse, check_matrix


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MatrixNoise(DenseNoise):
    """Any invertible noise matrix.

    Parameters
    ----------
    P : array or scipy.sparse array of shape (k, k)
        ``P[i, j] = p(noisy = j | true = i)``: rows are the true class and sum to 1. For the other conventions
        see `from_columns` and `from_posterior`. A dense, read-only copy is kept; rows that sum to 1 only up
        to 0.0001 are divided by their sums.
    radius, confidence : float, default=0.0 and 1.0
        How far each row of the true matrix may be from that of P, in total variation, even if noise depends
        on the input; and the probability that the radius is large enough. One minus this probability is added
        to delta. The guarantees "pac" and "expected" accept a radius.

    Examples
    --------
    >>> import nacp
    >>> nacp.MatrixNoise([[0.75, 0.25], [0.5, 0.5]]).inverse(2).dense().round(6).tolist()
    [[2.0, -1.0], [-2.0, 3.0]]
    """

    P: Any
    radius: float = 0.0
    confidence: float = 1.0
    name: ClassVar[str] = "matrix"
    if_contradicted: ClassVar[str] = (
        "Check whether the matrix is transposed (each row is of a true class) or states too much noise"
    )

    def __init__(self, P: Any, radius: float = 0.0, confidence: float = 1.0) -> None:
        radius, confidence = check_rate(radius, "radius"), check_confidence(confidence)
        if not radius and confidence != 1:
            problem = "is that of a radius, and there is none"
            raise InputError("confidence", problem, remedy="pass radius= too")
        matrix = check_matrix(P)
        self._store(matrix, "P", P=matrix, radius=radius, confidence=confidence)

    @classmethod
    def from_columns(cls, Q: Any, radius: float = 0.0) -> "MatrixNoise":
        """Return the model whose *columns* are the true class: ``Q[j, i] = p(noisy = j | true = i)``.

        Examples
        --------
        >>> import nacp
        >>> nacp.MatrixNoise.from_columns([[0.75, 0.5], [0.25, 0.5]]).matrix(2).dense().tolist()
        [[0.75, 0.25], [0.5, 0.5]]
        """
        try:
            return cls((Q if hasattr(Q, "toarray") else np.asarray(Q)).T, radius)
        except InputError as error:
            raise error.about("Q.T" if error.argument == "P" else error.argument) from None

    @classmethod
    def from_posterior(
        cls, M: ArrayLike, *, priors: ArrayLike | None = None, noisy_priors: ArrayLike | None = None
    ) -> "MatrixNoise":
        """Return the model given by ``M[j, i] = p(true = i | noisy = j)`` and class frequencies.

        These are `priors`, the frequencies of the true classes, or else `noisy_priors`, those of the noisy
        labels.

        Examples
        --------
        >>> import nacp
        >>> noise = nacp.MatrixNoise.from_posterior([[0.75, 0.25], [0.25, 0.75]], noisy_priors=[0.5, 0.5])
        >>> noise.P.tolist()
        [[0.75, 0.25], [0.25, 0.75]]
        """
        if (priors is None) == (noisy_priors is None):
            raise InputError("priors", "or noisy_priors must be given, exactly one of them")
        posterior = check_matrix(M, "M", rows="the noisy class")
        check_inverse(posterior, "M")
        k = len(posterior)
        if noisy_priors is not None:
            noisy = check_priors(noisy_priors, k, "noisy_priors")
        else:
            noisy = np.linalg.solve(posterior.T, check_priors(priors, k)).astype(np.float64)
            if noisy.min() < 0:
                problem = f"imply a negative frequency of noisy label {int(noisy.argmin())}"
                raise InputError("priors", problem, found=f"{noisy.min():.4g}")
        joint = noisy[:, None] * posterior
        return cls((joint / joint.sum(axis=0)).T)

    def describe(self, k: int) -> str:
        unsure = f", of which up to {100 * self.radius:.3g}% of each row may be misplaced{self.doubt.words}"
        return f"label noise by a {k:,} x {k:,} matrix{unsure if self.radius else ''}"

    def __repr__(self) -> str:
        within = f", radius={self.radius:.4g}" if self.radius else ""
        return f"MatrixNoise(k={self.k}, condition={self.condition(self.k):.3g}{within})"
