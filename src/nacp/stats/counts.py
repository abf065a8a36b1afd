"""The exact binomial test: its allowed misses, its excess coverage, and the labels needed for an excess.

With m correct labels, the test accepts a threshold if at most a of them lie outside of their sets; a is the
largest number with ``P(Bin(m, alpha) <= a) <= delta``. Coverage then has the mean ``(m - a) / (m + 1)``.
"""

from typing import Any

import numpy as np

_FALLING_FROM = 32  # The excess falls with the number of misses from this number on.
_TRIED = 1024  # Beyond the square of this number of misses, rounding m up does not matter.
_MISSES_MAX = 1 << 40


def allowed_misses(m: int, alpha: float, delta: float) -> int:
    """Return how many of m labels may lie outside of their sets; -1 if m labels are too few."""
    from scipy.special import betainc

    low, high = -1, m  # m misses are too many: their probability is 1
    while high - low > 1:
        middle = (low + high) // 2
        passes = betainc(m - middle, middle + 1, 1 - alpha) <= delta  # P(Bin(m, alpha) <= middle)
        low, high = (middle, high) if passes else (low, middle)
    return low


def share_of_look(look: int, looks: int) -> float:
    """Return the share of delta that the test at the i-th of several looks at growing data spends.

    The shares sum to 1 and grow threefold from look to look, so that the last one spends two thirds or more.
    """
    return 2 / 3 * 3.0 ** (look - looks) / (1 - 3.0**-looks)


def binomial_excess(m: int, alpha: float, delta: float) -> float:
    """Return by how much mean coverage exceeds 1 - alpha; alpha where m labels are too few."""
    misses = allowed_misses(m, alpha, delta)
    return alpha if misses < 0 else (m - misses) / (m + 1) - (1 - alpha)


def binomial_needed(excess: float, alpha: float, delta: float) -> int | None:
    """Return the least number of labels with at most this excess; None if that is huge.

    The excess is least for the least m that allows a misses. For real numbers m that excess falls with a, but
    for the first few where delta is large: it is searched by bisection, and then for whole numbers in turn.
    """
    from scipy.special import bdtrin

    def enough(misses: Any, m: Any) -> Any:
        return (misses + 1) / (m + 1) >= alpha - excess - 1e-12

    low, high = 0, _FALLING_FROM
    while not enough(high, bdtrin(high, delta, alpha)):
        low, high = high, 2 * high
        if high > _MISSES_MAX:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle, bdtrin(middle, delta, alpha)) else (middle, high)
    misses = np.append(np.arange(_FALLING_FROM), low + np.arange(_TRIED))
    m = np.ceil(bdtrin(misses, delta, alpha) - 1e-9)
    return int(np.append(m[enough(misses, m)], m[-1])[0])
