"""Functions that have the same bits on every machine, in NumPy and in C: bets.h has their twins.

Nothing but operations that are rounded once is used, in an order that is written down; libraries of
mathematics differ in the last bits of a logarithm. What depends on these functions is right whatever they
return, so a few bits less than the best will do.
"""

import math

import numpy as np

from nacp._types import Floats

# ln 2, in two parts of which the first has few bits, so that a multiple of it is exact.
_LN2 = (0.693147180369123816490, 1.90821492927058770002e-10)
_ROOT_HALF = 0.70710678118654752440
_LOG_TAIL = -2.58  # below it, p is more than 0.424 from the centre

# Wichura (1988), algorithm AS 241: the quantile of the normal distribution, from the highest power down.
_CENTRE = (
    (2509.0809287301227, 33430.57558358813, 67265.7709270087, 45921.95393154987,
     13731.69376550946, 1971.5909503065513, 133.14166789178438, 3.3871328727963665),
    (5226.495278852854, 28729.085735721943, 39307.89580009271, 21213.794301586597,
     5394.196021424751, 687.1870074920579, 42.31333070160091, 1.0),
)  # fmt: skip
_TAIL = (
    (0.0007745450142783414, 0.022723844989269184, 0.2417807251774506, 1.2704582524523684,
     3.6478483247632045, 5.769497221460691, 4.630337846156546, 1.4234371107496835),
    (1.0507500716444169e-09, 0.0005475938084995345, 0.015198666563616457, 0.14810397642748008,
     0.6897673349851, 1.6763848301838038, 2.053191626637759, 1.0),
)  # fmt: skip
_FAR = (
    (2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784, 0.026532189526576124,
     0.29656057182850487, 1.7848265399172913, 5.463784911164114, 6.657904643501103),
    (2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05, 0.0007868691311456133,
     0.014875361290850615, 0.1369298809227358, 0.599832206555888, 1.0),
)  # fmt: skip


def log(x: Floats) -> Floats:
    """Return the logarithm of positive numbers that are not subnormal."""
    m, e = np.frexp(x)
    low = m < _ROOT_HALF
    m, e = np.where(low, 2 * m, m), (e - low).astype(np.float64)
    f = (m - 1) / (m + 1)
    square, sums = f * f, np.zeros_like(f)
    for odd in range(21, 0, -2):
        sums = sums * square + 1.0 / odd
    found: Floats = e * _LN2[0] + (e * _LN2[1] + 2 * f * sums)
    return found


def exp(x: Floats) -> Floats:
    """Return the exponential of numbers between -700 and 700."""
    k = np.rint(x * (1 / (_LN2[0] + _LN2[1])))
    r = (x - k * _LN2[0]) - k * _LN2[1]
    sums = np.zeros_like(r)
    for n in range(13, -1, -1):
        sums = sums * r + 1 / math.factorial(n)
    return np.ldexp(sums, k.astype(np.int32))


def normal_quantile(log_p: Floats) -> Floats:
    """Return z such that a normal number is below it with probability p, given log p.

    Parameters
    ----------
    log_p : array
        Between -300 and -0.01.
    """
    found, low = np.empty_like(log_p), log_p < _LOG_TAIL
    if low.any():
        found[low] = -_tail(log_p[low])
    if not low.all():
        p = exp(log_p[~low])
        q = p - 0.5
        near, upper = 0.180625 - q * q, np.maximum(q, 0.4) + 0.5  # where it is used, 0.4 is not
        found[~low] = np.where(near >= 0, q * _ratio(near, _CENTRE), _tail(log(1 - upper)))
    return found


def _tail(log_p: Floats) -> Floats:
    """Return the same far from the centre, without its sign."""
    r = np.sqrt(-log_p)
    found: Floats = _ratio(r - 1.6, _TAIL)
    far = r > 5
    if far.any():
        found[far] = _ratio(r[far] - 5, _FAR)
    return found


def _ratio(x: Floats, polynomials: tuple[tuple[float, ...], tuple[float, ...]]) -> Floats:
    above, below = (np.zeros_like(x), np.zeros_like(x))
    for a, b in zip(*polynomials, strict=True):
        above, below = above * x + a, below * x + b
    found: Floats = above / below
    return found
