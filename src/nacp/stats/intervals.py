"""Exact intervals: the parameters under which what was counted is not too unlikely (Clopper and Pearson).

If a count T is stochastically increasing in a parameter, the parameters at which both ``P(T >= t)`` and
``P(T <= t)`` exceed half of 1 - confidence hold the true one with at least that confidence. The distribution
of T is computed, not approximated: T is a sum over independent items of a few kinds.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from nacp._types import Floats, Ints

Kinds: TypeAlias = Sequence[tuple[Floats, int]]


def exact_share(hits: Ints | Floats, trials: Ints, tail: float) -> tuple[Floats, Floats]:
    """Return the interval of Clopper and Pearson for a share of so many hits; nan without trials.

    Parameters
    ----------
    hits, trials : arrays of shape (m,)
        How often it happened, and how often it could have.
    tail : float
        The probability that the interval leaves out on each side.

    Returns
    -------
    low, high : arrays of shape (m,)

    Examples
    --------
    >>> from nacp.stats.intervals import exact_share
    >>> import numpy as np
    >>> low, high = exact_share(np.array([1, 10]), np.array([10, 10]), 0.025)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0025, 0.6915], [0.445, 1.0])
    """
    from scipy.special import betaincinv

    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), trials - hits + 1, tail), 0.0)
        high = np.where(hits < trials, betaincinv(hits + 1, np.maximum(trials - hits, 1), 1 - tail), 1.0)
    seen = trials > 0
    return np.where(seen, low, np.nan), np.where(seen, high, np.nan)


def sum_distribution(kinds: Kinds) -> Floats:
    """Return the distribution of the sum of independent counts, given as (distribution, how many) pairs.

    Examples
    --------
    >>> from nacp.stats.intervals import sum_distribution
    >>> import numpy as np
    >>> sum_distribution([(np.array([0.5, 0.5]), 2)]).round(6).tolist()
    [0.25, 0.5, 0.25]
    """
    from scipy.fft import irfft, next_fast_len, rfft

    length = sum((len(one) - 1) * number for one, number in kinds) + 1
    size = next_fast_len(length, real=True)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    for one, number in kinds:
        product *= rfft(one, size) ** number
    found: Floats = np.maximum(irfft(product, size)[:length], 0.0)
    return found


def exact_interval(total: int, kinds: Callable[[float], Kinds], confidence: float) -> tuple[float, float]:
    """Return the interval of parameters in [0, 1] for a sum that is stochastically increasing in them.

    Parameters
    ----------
    total : int
        The sum that was seen.
    kinds : callable
        From a parameter to the (distribution, how many) pairs of the summands.
    confidence : float
        The interval contains the true parameter with at least this probability.

    Examples
    --------
    Clopper and Pearson's interval for 1 of 10, a binomial proportion:

    >>> from nacp.stats.intervals import exact_interval
    >>> import numpy as np
    >>> low, high = exact_interval(1, lambda p: [(np.array([1 - p, p]), 10)], 0.95)
    >>> round(low, 4), round(high, 4)
    (0.0025, 0.445)
    """
    from scipy.optimize import brentq
    from scipy.special import ndtri

    level = (1 - confidence) / 2

    def excess(parameter: float, deviations: float) -> float:
        """Return by how much so many standard deviations above the mean exceed what was seen."""
        mean = variance = 0.0
        for one, number in kinds(parameter):
            values = np.arange(len(one))
            first = float(one @ values)
            mean += number * first
            variance += number * (float(one @ values**2) - first**2)
        return mean + deviations * math.sqrt(max(variance, 0.0)) - total

    def near(deviations: float) -> float:
        """Return the parameter under which what was seen lies so many standard deviations above the mean."""
        if excess(0.0, deviations) >= 0:
            return 0.0
        return 1.0 if excess(1.0, deviations) <= 0 else float(brentq(excess, 0.0, 1.0, (deviations,)))

    def root(tail: Callable[[float], float], first: float, second: float) -> float:
        """Return where a tail crosses the level: between two guesses, if these lie on both sides."""
        within = tail(first) * tail(second) < 0
        return float(brentq(tail, *((first, second) if within else (0.0, 1.0)), xtol=1e-10))

    def upper_tail(parameter: float) -> float:
        return float(sum_distribution(kinds(parameter))[total:].sum()) - level

    def lower_tail(parameter: float) -> float:
        return float(sum_distribution(kinds(parameter))[: total + 1].sum()) - level

    away = -float(ndtri(level))
    if upper_tail(1.0) <= 0:  # too large a sum for any parameter: the one that comes nearest
        return 1.0, 1.0
    low = 0.0 if upper_tail(0.0) >= 0 else root(upper_tail, near(1.5 * away), near(0.5 * away))
    high = 1.0 if lower_tail(1.0) >= 0 else root(lower_tail, near(-0.5 * away), near(-1.5 * away))
    return low, high
