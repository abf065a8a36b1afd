"""Cells: fixed intervals of scores, known before any data. A score's cell is given by its leading bits.

Of the score, or from 1/2 on of its distance from 1, rounded to float32: the sign, the exponent and the first
seven bits of the mantissa. So cells are fine near 0, where the scores -p of improbable labels lie, and near
1, where the masses of many labels do. Rounding keeps the order, so cells are intervals: cell i holds the
scores in ``(EDGES[i - 1], EDGES[i]]``. Scores very close to 0 or to 1 share a cell, and so do very large
ones.
"""

from functools import lru_cache

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.engine.scratch import Scratch

_BITS = 7
_SHIFT = 23 - _BITS
_CODES = 1 << (8 + _BITS)  # the leading bits of a magnitude
# Exponents where cells begin and end: of negative scores, of those up to 1/2, of 1 - s, of s - 1.
_NEGATIVE, _POSITIVE, _BELOW_ONE, _ABOVE_ONE = (-64, 64), (-40, -1), (-40, -1), (-40, 20)


def _limits(exponents: tuple[int, int]) -> Floats:
    """Return the least magnitudes that round to successive leading bits, between two powers of two."""
    codes = np.arange((127 + exponents[0]) << _BITS, ((127 + exponents[1]) << _BITS) + 1)
    starts = (codes.astype(np.int32) << _SHIFT).view(np.float32)
    # Half-way to the float32 below: a tie goes to the even mantissa, which is that of the start.
    return (starts.astype(np.float64) + np.nextafter(starts, np.float32(0)).astype(np.float64)) / 2


def _edges() -> Floats:
    """Return the largest score of each cell."""
    below = 1 - _limits(_BELOW_ONE)[::-1]
    below = np.where(1 - below >= _limits(_BELOW_ONE)[::-1], below, np.nextafter(below, 0))
    above = np.nextafter(1 + _limits(_ABOVE_ONE), 0)
    above = np.where(
        np.nextafter(above, np.inf) - 1 < _limits(_ABOVE_ONE), np.nextafter(above, np.inf), above
    )
    positive = np.nextafter(_limits(_POSITIVE), 0)
    return np.concatenate([-_limits(_NEGATIVE)[::-1], positive, below, [1], above, [np.inf]])


EDGES: Floats = _edges()
EDGES.flags.writeable = False
CELLS = len(EDGES)
ENDS: Floats = np.append(-np.inf, EDGES)  # cell i holds the scores in (ENDS[i], ENDS[i + 1]]


def codes_of(scores: Array, scratch: Scratch) -> tuple[Array, Ints]:
    """Return a small number for each score, flat, and a table from these numbers to cells."""
    flat = scores.reshape(-1)
    score = scratch.get("rounded", flat.shape, np.float32)
    nearer = scratch.get("distance", flat.shape, np.float32)
    with np.errstate(over="ignore"):
        np.copyto(score, flat, casting="same_kind")
        np.subtract(1, flat, out=nearer, casting="same_kind")
    np.minimum(score, nearer, out=nearer)
    codes = scratch.get("codes", flat.shape, np.int32)
    np.right_shift(nearer.view(np.uint32), _SHIFT, out=codes.view(np.uint32))
    # Their sign tells the negative ones from others, and those above 1; a bit more those from 1/2 on.
    upper = np.greater_equal(score, np.float32(0.5), out=scratch.get("upper", flat.shape, np.bool_))
    codes += np.multiply(upper.view(np.int8), np.int32(2 * _CODES), out=score.view(np.int32))
    return codes, _table()


def negated_codes(values: Array, scratch: Scratch) -> tuple[Array, Ints]:
    """Return the same of minus some float32 values that are not negative."""
    codes = scratch.get("codes", values.shape, np.int32)
    np.right_shift(values.view(np.uint32), _SHIFT, out=codes.view(np.uint32))  # unsigned: -0.0 comes last
    return codes.reshape(-1), _negative_table()


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
    """The cells by codes: of scores below 1/2 that are not negative, of negative ones, up to 1, and above."""
    values = (np.arange(_CODES, dtype=np.uint32) << _SHIFT).view(np.float32)
    magnitudes = np.nan_to_num(values, nan=np.inf, posinf=np.inf).astype(np.float64)
    tiny = magnitudes < 2.0 ** _ABOVE_ONE[0]
    distances = np.where(tiny, 0, magnitudes)
    cells = [np.searchsorted(EDGES, s) for s in (magnitudes, -magnitudes, 1 - distances, 1 + distances)]
    cells[3][tiny] += 1  # s - 1 is not 0 there
    return np.concatenate(cells)


@lru_cache(maxsize=1)
def _negative_table() -> Ints:
    """The cells of negative scores by the leading bits of their magnitude, at last that of -0.0."""
    return np.append(_table()[_CODES : 2 * _CODES], np.searchsorted(EDGES, 0.0))
