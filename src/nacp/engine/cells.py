"""Cells: fixed intervals of scores, known before any data. A score's cell is given by its leading bits.

Of the score, or from 1/2 on of its distance from 1, rounded to float32: the sign, the exponent and the first
seven bits of the mantissa. So cells are fine near 0, where the scores -p of improbable labels lie, and near
1, where the masses of many labels do. Rounding keeps the order, so cells are intervals: cell i holds the
scores in ``(EDGES[i - 1], EDGES[i]]``. Scores very close to 0 or to 1 share a cell, and so do very large
ones.
"""

import sys
from functools import lru_cache

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.engine.scratch import Scratch

_BITS = 7
_SHIFT = 23 - _BITS
_HIGH = int(sys.byteorder == "little")  # which half of a float32 holds its leading 16 bits
HALF = 0.5 - 2.0**-26  # from here on, scores are rounded to 1/2 and more
_CODES = 1 << (8 + _BITS)  # the leading bits of a magnitude
# Exponents where cells begin and end: of negative scores, of those up to 1/2, of 1 - s, of s - 1.
_NEGATIVE, _POSITIVE, _BELOW_ONE, _ABOVE_ONE = (-64, 64), (-40, -1), (-40, -1), (-40, 20)


def _limits(exponents: tuple[int, int], bits: int) -> Floats:
    """Return the least magnitudes that round to successive leading bits, between two powers of two."""
    codes = np.arange((127 + exponents[0]) << bits, ((127 + exponents[1]) << bits) + 1)
    starts = (codes.astype(np.int32) << (23 - bits)).view(np.float32)
    # Half-way to the float32 below: a tie goes to the even mantissa, which is that of the start.
    return (starts.astype(np.float64) + np.nextafter(starts, np.float32(0)).astype(np.float64)) / 2


def _edges(bits: int, *ranges: tuple[int, int]) -> Floats:
    """Return the largest score of each cell."""
    negative, positive, below_one, above_one = (_limits(exponents, bits) for exponents in ranges)
    below = 1 - below_one[::-1]
    below = np.where(1 - below >= below_one[::-1], below, np.nextafter(below, 0))
    above = np.nextafter(1 + above_one, 0)
    above = np.where(np.nextafter(above, np.inf) - 1 < above_one, np.nextafter(above, np.inf), above)
    return np.concatenate([-negative[::-1], np.nextafter(positive, 0), below, [1], above, [np.inf]])


EDGES: Floats = _edges(_BITS, _NEGATIVE, _POSITIVE, _BELOW_ONE, _ABOVE_ONE)
EDGES.flags.writeable = False
CELLS = len(EDGES)
ENDS: Floats = np.append(-np.inf, EDGES)  # cell i holds the scores in (ENDS[i], ENDS[i + 1]]

# Finer cells, for who cannot read rows twice: more bits, where thresholds lie; one more for probabilities.
_FINE_BITS, _FINE, _FINEST = 12, ((-20, 4), (-20, -1), (-20, -1), (-20, 4)), (-20, 0)
_PILES, _PILE_BITS, _PILE = 256, 4, (-26, -6)
_WIDE_BITS = 4


@lru_cache(maxsize=8)
def fine_ends(low: float, high: float, k: int, step: float = 0.0) -> Floats:
    """Return the ends of finer cells, for scores of k labels from low to high or a little above.

    As ENDS, from minus infinity on. Each is part of a cell; the last but one goes up to the largest finite
    number. Where the scores of rows that are sure pile up at 1 and at steps above it, cells are fine around
    the first of these.

    Examples
    --------
    >>> from nacp.engine.cells import fine_ends
    >>> edges = fine_ends(-1.0, 0.0, k=100)
    >>> len(edges) < 200_000, bool(edges[edges >= -0.1][0] < -0.09998)
    (True, True)
    """
    around = np.multiply.outer([-1.0, 1.0], _limits(_PILE, _PILE_BITS)).ravel()
    piles = np.add.outer(1 + step * np.arange(1, min(k, _PILES) if step else 1), around).ravel()
    finer = _edges(_FINE_BITS, *_FINE), -_limits(_FINEST, _FINE_BITS + 1)
    every = np.unique(np.concatenate([EDGES, *finer, piles]))[:-1]
    # Rows may sum to a little more than 1.
    first, last = np.searchsorted(every, [low, high * 17 / 16], side="right")
    finite = np.finfo(np.float64).max
    ends: Floats = np.concatenate([[-np.inf], every[first : last + 1], [finite, np.inf]])
    ends.flags.writeable = False
    return ends


@lru_cache(maxsize=8)
def coarse_ends(low: float, high: float) -> Floats:
    """Return the ends of wide cells, for scores from low to high or a little above."""
    every = _edges(_WIDE_BITS, *_FINE)[:-1]
    first, last = np.searchsorted(every, [low, high * 17 / 16], side="right")
    ends: Floats = np.concatenate([[-np.inf], every[first : last + 1]])
    ends.flags.writeable = False
    return ends


def codes_of(scores: Array, scratch: Scratch) -> tuple[Array, Ints]:
    """Return a small number for each score, flat, and a table from these numbers to cells."""
    flat = scores.reshape(-1)
    lower = np.less(flat, HALF, out=scratch.get("lower", flat.shape, np.bool_))
    nearer = scratch.get("nearer", flat.shape, np.float32)
    with np.errstate(over="ignore"):
        np.subtract(1, flat, out=nearer, casting="same_kind")
        np.copyto(nearer, flat, where=lower, casting="same_kind")
    # Their sign tells the negative ones from others, and those above 1; a bit more those below 1/2.
    codes = scratch.get("codes", flat.shape, np.int64)
    np.copyto(codes, _leading_bits(nearer))
    np.add(codes, 2 * _CODES, out=codes, where=lower)
    return codes, _table()


def negated_codes(values: Array) -> tuple[Array, Ints]:
    """Return the same of minus some float32 values that are not negative."""
    return _leading_bits(values.reshape(-1)), _negative_table()  # unsigned: -0.0 comes last


def _leading_bits(values: Array) -> Array:
    """Return the sign, the exponent and the first bits of the mantissa of float32 values: the high half."""
    halves: Array = values.view(np.uint16)[_HIGH::2]
    return halves


@lru_cache(maxsize=16)
def codes_between(spans: tuple[tuple[float, float], ...], *, negated: bool) -> tuple[Bools, bool]:
    """Return which codes stand for cells that meet intervals (low, high], and whether in whole."""
    lows, highs = np.transpose(spans)
    firsts, lasts = np.searchsorted(EDGES, lows, side="right"), np.searchsorted(EDGES, highs, side="left")
    cells = np.zeros(CELLS, dtype=bool)
    for first, last in zip(firsts, lasts, strict=True):
        cells[first : last + 1] = True
    whole = np.array_equal(EDGES[lasts], highs) and np.array_equal(ENDS[firsts], lows)
    return cells[_negative_table() if negated else _table()], whole


@lru_cache(maxsize=1)
def _table() -> Ints:
    """The cells by codes: of scores from 1/2 to 1, above, below 1/2 but not negative, and negative."""
    values = (np.arange(_CODES, dtype=np.uint32) << _SHIFT).view(np.float32)
    magnitudes = np.nan_to_num(values, nan=np.inf, posinf=np.inf).astype(np.float64)
    tiny = magnitudes < 2.0 ** _ABOVE_ONE[0]
    distances = np.where(tiny, 0, magnitudes)
    cells = [np.searchsorted(EDGES, s) for s in (1 - distances, 1 + distances, magnitudes, -magnitudes)]
    cells[1][tiny] += 1  # s - 1 is not 0 there
    return np.concatenate(cells)


@lru_cache(maxsize=1)
def cell_table() -> Array:
    """The same table in 32 bits, for the compiled engine."""
    return _table().astype(np.int32)


@lru_cache(maxsize=1)
def _negative_table() -> Ints:
    """The cells of negative scores by the leading bits of their magnitude, at last that of -0.0."""
    return np.append(_table()[3 * _CODES :], np.searchsorted(EDGES, 0.0))
