"""Bounds for means and tails of counts."""

import math
from statistics import NormalDist

import numpy as np

from nacp._types import Array, Floats, Ints


def floor(delta: float, deviation: float, n: int) -> float:
    """Return ``z_{1-delta} deviation / sqrt(n)``: the excess of a test that knows the deviation."""
    return max(0.0, -NormalDist().inv_cdf(delta)) * deviation / math.sqrt(n)


def expected_excess(n: int) -> float:
    """Return ``c(n) = E max_i (i/n - U_(i)) = n!/(2 n^(n+1)) sum_{j<n} n^j/j!`` of ordered uniforms."""
    from scipy.special import gammaincc  # imported here because scipy.special takes long to import

    log_factor = math.lgamma(n + 1) - (n + 1) * math.log(n) + n
    return float(math.exp(log_factor) * gammaincc(n, n) / 2)


def upper_tail(n: int | Ints, hits: Ints, p0: Array) -> Floats:
    """Return ``P(Bin(n, p0) >= hits)``."""
    from scipy.special import betainc

    tail = np.ones(len(hits))
    some = hits > 0
    tail[some] = betainc(hits[some], (n - hits)[some] + 1, np.minimum(p0[some], 1.0))
    return tail


def chernoff(mean: Floats, n: int, delta: float) -> Floats:
    """Return the largest u with ``n kl(mean, u) <= log(1/delta)``, an upper bound of a mean in [0, 1]."""
    low, high = mean.copy(), np.ones_like(mean)
    for _ in range(60):
        middle = (low + high) / 2
        inside = _divergence(mean, middle) <= math.log(1 / delta) / n
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high


def chernoff_tail(mean: Floats, expected: Floats, n: int) -> Floats:
    """Return ``exp(-n kl(mean, expected))``, a bound of P(mean of n numbers in [0, 1] <= mean); 1 above."""
    return np.where(mean < expected, np.exp(-n * _divergence(mean, expected)), 1.0)


def _divergence(first: Floats, second: Floats) -> Floats:
    """Return ``kl(first, second)`` of shares: that of Bernoulli variables."""
    # scipy.special.rel_entr does the same, but calibration should not have to import scipy.
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = first * np.log(first / second), (1 - first) * np.log((1 - first) / (1 - second))
    return np.where(first > 0, one, 0.0) + np.where(first < 1, other, 0.0)


def bernstein(mean: Floats, square: Floats, n: int, delta: float) -> Floats:
    """Return the empirical Bernstein bound of an expectation in [0, 1] (Maurer and Pontil, 2009)."""
    if n < 2:
        return np.ones_like(mean)
    variance, log = np.maximum(square - mean**2, 0) * n / (n - 1), math.log(2 / delta)
    return np.asarray(mean + np.sqrt(2 * variance * log / n) + 7 * log / (3 * (n - 1)))
