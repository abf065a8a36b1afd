"""The exact binomial test: its allowed misses, its excess coverage, and the labels needed for an excess.

With m right labels, the test passes a threshold if at most a of them lie outside of their sets, a being the
largest number with ``P(Bin(m, alpha) <= a) <= delta``. Its coverage then has the mean ``(m - a) / (m + 1)``.
"""

import math

_FALLING_FROM = 32  # The excess falls with the number of misses from this number on.
_ROUNDING_MAX = 10**7  # Beyond this number of misses, rounding m up to a whole number does not matter.
_MISSES_MAX = 1 << 40


def allowed_misses(m: int, alpha: float, delta: float) -> int:
    """Return how many of m labels may lie outside of their sets; -1 if m labels are too few."""
    low, high = -1, m  # m misses are too many: their probability is 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _at_most(middle, m, alpha) <= delta else (low, middle)
    return low


def share_of_look(look: int, looks: int) -> float:
    """Return the share of delta that the test at the i-th of several looks at growing data spends.

    The shares sum to 1 and grow threefold from look to look, so that the last one spends two thirds or more.
    """
    return 2 * 3.0 ** (look - looks) / (3 - 3.0 ** (1 - looks))


def binomial_excess(m: int, alpha: float, delta: float) -> float:
    """Return by how much mean coverage exceeds 1 - alpha; alpha where m labels are too few."""
    misses = allowed_misses(m, alpha, delta)
    return alpha if misses < 0 else (m - misses) / (m + 1) - (1 - alpha)


def binomial_needed(excess: float, alpha: float, delta: float) -> int | None:
    """Return the least number of labels with at most this excess; None if that is huge.

    The excess is least for the least m that allows a misses. For real numbers m that excess falls with a, but
    for the first few where delta is large: these are tried in turn, and the others from where it is small.
    """

    def enough(misses: int, m: float) -> bool:
        return (misses + 1) / (m + 1) >= alpha - excess - 1e-12

    def whole(misses: int) -> int:
        return math.ceil(_least(misses, alpha, delta) - 1e-9)

    for misses in range(_FALLING_FROM):
        if enough(misses, m := whole(misses)):
            return m
    low, high = _FALLING_FROM, 2 * _FALLING_FROM
    while not enough(high, _least(high, alpha, delta)):
        low, high = high, 2 * high
        if high > _MISSES_MAX:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle, _least(middle, alpha, delta)) else (middle, high)
    while not enough(low, m := whole(low)) and low < _ROUNDING_MAX:
        low += 1
    return m


def _at_most(misses: int, m: float, alpha: float) -> float:
    """Return ``P(Bin(m, alpha) <= misses)``, also between whole numbers m."""
    from scipy.special import betainc

    return float(betainc(m - misses, misses + 1, 1 - alpha)) if m > misses else 1.0


def _least(misses: int, alpha: float, delta: float) -> float:
    """Return the least real number m with ``P(Bin(m, alpha) <= misses) <= delta``."""
    low, high = float(misses), 2.0 * misses + 2
    while _at_most(misses, high, alpha) > delta:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if _at_most(misses, middle, alpha) <= delta else (middle, high)
    return high
