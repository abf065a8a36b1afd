"""What the exact binomial test costs: by how much too much is covered, and how many labels it takes.

With m right labels, the test passes a threshold if at most a of them lie outside of their sets, a being the
largest number with ``P(Bin(m, alpha) <= a) <= delta``. So the threshold is the (m - a)-th smallest score, and
where scores have no ties its coverage has a beta distribution, with the mean ``(m - a) / (m + 1)``.
"""

import math

_FEW, _MANY, _MOST = 32, 10**7, 1 << 40  # misses; with more than many, a label does not matter


def allowed_misses(m: int, alpha: float, delta: float) -> int:
    """Return how many of m labels may lie outside of their sets; -1 if not even none is enough.

    Examples
    --------
    >>> from nacp.stats.counts import allowed_misses
    >>> allowed_misses(21, 0.1, 0.1), allowed_misses(22, 0.1, 0.1), allowed_misses(100, 0.1, 0.1)
    (-1, 0, 5)
    """
    low, high = -1, m  # m misses are too many: their probability is 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _at_most(middle, m, alpha) <= delta else (low, middle)
    return low


def binomial_excess(m: int, alpha: float, delta: float) -> float:
    """Return by how much mean coverage exceeds 1 - alpha; alpha where m labels are too few.

    Examples
    --------
    >>> from nacp.stats.counts import binomial_excess
    >>> round(binomial_excess(100, 0.1, 0.1), 4), binomial_excess(20, 0.1, 0.1)
    (0.0406, 0.1)
    """
    misses = allowed_misses(m, alpha, delta)
    return alpha if misses < 0 else (m - misses) / (m + 1) - (1 - alpha)


def binomial_needed(excess: float, alpha: float, delta: float) -> int | None:
    """Return the least number of labels with which the excess is at most so much; None if that is huge.

    Examples
    --------
    >>> from nacp.stats.counts import binomial_excess, binomial_needed
    >>> m = binomial_needed(0.01, 0.1, 0.05)
    >>> m, binomial_excess(m, 0.1, 0.05) <= 0.01
    (2310, True)
    """

    # With a misses allowed, the excess is least for the least m that allows them. If m could be any real
    # number, it would fall with a, but for the first few where delta is large; so nothing is missed by
    # looking at these, and then from where it is small enough on upwards.
    def enough(misses: int, m: float) -> bool:
        return (misses + 1) / (m + 1) >= alpha - excess - 1e-12

    def whole(misses: int) -> int:
        return math.ceil(_least(misses, alpha, delta) - 1e-9)

    found = next((m for misses in range(_FEW) if enough(misses, m := whole(misses))), None)
    if found is not None:
        return found
    low, high = _FEW, 2 * _FEW
    while not enough(high, _least(high, alpha, delta)):
        low, high = high, 2 * high
        if high > _MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle, _least(middle, alpha, delta)) else (middle, high)
    while not enough(low, m := whole(low)) and low < _MANY:
        low += 1
    return m


def _at_most(misses: int, m: float, alpha: float) -> float:
    """Return ``P(Bin(m, alpha) <= misses)``, also between whole numbers m."""
    from scipy.special import betainc

    return float(betainc(m - misses, misses + 1, 1 - alpha)) if m > misses else 1.0


def _least(misses: int, alpha: float, delta: float) -> float:
    """Return the least m, a real number, of which so many misses have at most the probability delta."""
    low, high = float(misses), 2.0 * misses + 2
    while _at_most(misses, high, alpha) > delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if _at_most(misses, middle, alpha) <= delta else (middle, high)
    return high
