"""Exact intervals: the parameters under which a count is not too unlikely (Clopper and Pearson).

For a count T that is stochastically increasing in a parameter, these are the parameters at which both
``P(T >= t)`` and ``P(T <= t)`` exceed half of 1 - confidence.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from nacp._types import Floats, Ints

Kinds: TypeAlias = Sequence[tuple[Floats, int]]


def exact_share(hits: Ints | Floats, trials: Ints | Floats, tail: float) -> tuple[Floats, Floats]:
    """Return Clopper and Pearson's intervals for shares, `tail` outside at each end; nan without trials."""
    from scipy.special import betaincinv

    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, betaincinv(hits, trials - hits + 1, tail), 0.0)
        high = np.where(hits < trials, betaincinv(hits + 1, trials - hits, 1 - tail), 1.0)
    seen = trials > 0
    return np.where(seen, low, np.nan), np.where(seen, high, np.nan)


def sum_distribution(kinds: Kinds) -> Floats:
    """Return the distribution of the sum of independent counts, given as (distribution, number) pairs."""
    from scipy.fft import irfft, next_fast_len, rfft

    length = sum((len(one) - 1) * number for one, number in kinds) + 1
    size = next_fast_len(length, real=True)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    for one, number in kinds:
        product *= rfft(one, size) ** number
    return np.asarray(np.maximum(irfft(product, size)[:length], 0.0))


def exact_interval(total: int, kinds: Callable[[float], Kinds], confidence: float) -> tuple[float, float]:
    """Return the interval of parameters in [0, 1] for an observed sum that is increasing in them.

    `kinds` returns the (distribution, number) pairs of the summands for a parameter.
    """
    from scipy.optimize import brentq

    level = (1 - confidence) / 2

    def tail(parameter: float, some: slice) -> float:
        return float(sum_distribution(kinds(parameter))[some].sum()) - level

    upper, lower = slice(total, None), slice(total + 1)
    if tail(1.0, upper) <= 0:  # the sum is too large for any parameter: 1 comes nearest
        return 1.0, 1.0
    low = 0.0 if tail(0.0, upper) >= 0 else brentq(tail, 0.0, 1.0, (upper,), xtol=1e-10)
    high = 1.0 if tail(1.0, lower) >= 0 else brentq(tail, 0.0, 1.0, (lower,), xtol=1e-10)
    return float(low), float(high)
