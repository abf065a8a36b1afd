"""Small problems whose probabilities and noise matrices are short fractions."""

from fractions import Fraction
from typing import Any

import numpy as np

import nacp
from tests import oracle


def dyadic_rows(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """Rows of multiples of 1/16 or 1/64 that sum to 1, with many ties, zeros and equal rows."""
    parts = int(rng.choice([16, 64]))
    weights = rng.dirichlet(np.full(k, rng.choice([0.2, 1.0, 20.0])), size=n)
    rows = np.array([rng.multinomial(parts, w) for w in weights]) / parts
    return rows[rng.integers(n, size=n)] if rng.random() < 0.2 else rows


def softmax_rows(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    p = np.exp(2 * rng.normal(size=(n, k)))
    return p / p.sum(axis=1, keepdims=True)


def dyadic_matrix(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """A noise matrix of multiples of 1/16 with ||W|| < 2 sqrt(n), so that n points can use it.

    Rows that lose at most m/16 to other classes have ||W|| <= 1/(1 - m/8).
    """
    most = 3 if n < 5 else 6
    P = np.zeros((k, k))
    for i in range(k):
        away = rng.multinomial(rng.integers(most + 1), rng.dirichlet(np.ones(k - 1)))
        P[i, np.arange(k) != i] = away / 16
        P[i, i] = 1 - away.sum() / 16
    return P


def _uniform(rng: np.random.Generator, n: int, k: int) -> tuple[Any, list[list[Fraction]]]:
    rate = rng.choice(["0.2", "0.5"]) if n > 1 else "0.2"  # one label says nothing under much noise
    return nacp.UniformNoise(float(rate)), oracle.uniform_matrix(Fraction(rate), k)


def _groups(rng: np.random.Generator, n: int, k: int) -> tuple[Any, list[list[Fraction]]]:
    groups = rng.integers(3, size=k).tolist()
    return nacp.GroupNoise(groups, rate=0.3), oracle.group_matrix(groups, Fraction("0.3"))


def _matrix(rng: np.random.Generator, n: int, k: int) -> tuple[Any, list[list[Fraction]]]:
    P = dyadic_matrix(rng, n, k)
    return nacp.MatrixNoise(P), oracle.exact_rows(P)


# Each gives, from (generator, n, k), the library's noise and the oracle's P.
NOISES = {
    "none": lambda rng, n, k: (None, oracle.identity(k)),
    "uniform": _uniform,
    "groups": _groups,
    "matrix": _matrix,
}
