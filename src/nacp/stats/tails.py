"""Integrated tails: how far a mean may exceed its expectation on average, where a threshold is chosen by it.

Let a threshold be the last point from which on the mean of n bounded numbers is at least t. The expected
shortfall of their expectation below t is at most the integral over v of the probability that the mean is at
least t where the expectation is v: docs/guarantees.md, E1.
"""

import math
from functools import lru_cache

import numpy as np

from nacp._types import Floats
from nacp.stats.bounds import chernoff_tail, upper_tail

_STEPS, _DEVIATIONS = 4000, 12.0  # of the sum that bounds an integral from above
_HALVINGS = 12


@lru_cache(maxsize=256)
def bounded_excess(n: int, low: float, high: float, target: float) -> float:
    """Return a d with ``E F >= target`` if the threshold is the last crossing of ``target + d``.

    F is the expectation, between 0 and 1, of n independent numbers in [low, high] at that threshold. The
    bounds are Hoeffding's and Bentkus'. Infinite if ``target + d`` would exceed 1.
    """
    # The integral hardly depends on where it ends, and less the nearer that is to `high`.
    least, most = 0.0, _integral(n, low, high, target)
    while target + most <= 1 and _integral(n, low, high, target + most) > most:
        least, most = most, 1.1 * most
    if target + most > 1:
        return math.inf
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        enough = _integral(n, low, high, target + middle) <= middle
        least, most = (least, middle) if enough else (middle, most)
    return most


def _integral(n: int, low: float, high: float, reached: float) -> float:
    """Bound the integral over v from 0 to `reached` of P(mean >= reached) where the expectation is v."""
    width = high - low
    share = (reached - low) / width
    spread = width * math.sqrt(max(share * (1 - share), 1 / n) / n)
    below = np.minimum(np.linspace(0.0, _DEVIATIONS * spread, _STEPS + 1), reached)
    p = (reached - below - low) / width
    hoeffding = chernoff_tail(1 - np.full_like(p, share), 1 - p, n)
    bentkus = math.e * upper_tail(n, np.full(len(p), math.floor(n * share * (1 - 1e-15))), p)
    tail = np.minimum(np.minimum(hoeffding, bentkus), 1.0)
    # Tails fall with the distance, so their value at the near end of each step is an upper bound.
    return float(np.sum(np.diff(below) * tail[:-1]) + (reached - below[-1]) * tail[-1])


@lru_cache(maxsize=256)
def bernstein_excess(n: int, variance: float, width: float) -> float:
    """Return a d such that a last crossing of d has a mean of at least 0, by Bernstein's inequality.

    Of numbers with at most this variance, which exceed their expectation by at most `width`.
    """
    spread = math.sqrt(variance / n) + width / n
    below = np.append(np.linspace(0.0, _DEVIATIONS * spread, _STEPS + 1), np.geomspace(13, 100, 60) * spread)
    tail: Floats = np.exp(-n * below**2 / (2 * (variance + below * width / 3)))
    # Beyond the last step the exponent falls at least in proportion to the distance.
    rest = tail[-1] * below[-1] / max(-math.log(tail[-1]), 1.0) if tail[-1] > 0 else 0.0
    return float(np.sum(np.diff(below) * tail[:-1]) + rest)
