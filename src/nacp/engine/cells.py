"""Cells: fixed intervals of scores, known before any data. A score's cell is given by its leading bits.

A cell holds the scores that agree in their exponent and in the first seven bits of their mantissa; from 1/2 to
1, in those of 1 - s, which is exact there. So cells are fine near 0, where the scores -p of improbable labels
lie, and near 1, where the masses of many labels do. Scores closer than 2^-64 to 0 or 2^-46 to 1, and those
beyond 2^64, share a cell. Cell i holds the scores in ``(EDGES[i - 1], EDGES[i]]``.
"""

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine.scratch import Scratch

_BITS = 7
_NEAR_ZERO, _NEAR_ONE, _FAR = -64, -46, 64
_HALF = (-1 - _NEAR_ZERO) * 2**_BITS + 1  # how many cells from 0 to 1/2, and from there to 1
_MIRRORED = (-1 - _NEAR_ONE) * 2**_BITS + 1
_ABOVE = _FAR * 2**_BITS
_ZERO = (_FAR - _NEAR_ZERO) * 2**_BITS  # the place of the cell around 0, after those of negative scores
_ONE = _ZERO + _HALF + _MIRRORED  # the place of the last cell up to 1


def _starts(exponent: int, count: int) -> Floats:
    """Return the least magnitudes with so many successive leading bits, from a power of two on."""
    first = (1023 + exponent) << _BITS
    return ((first + np.arange(count)) << (52 - _BITS)).view(np.float64)


def _edges() -> Floats:
    negative = -_starts(_NEAR_ZERO, _ZERO)[::-1]
    below_half = np.nextafter(_starts(_NEAR_ZERO, _HALF), 0)
    below_one = np.append(1 - _starts(_NEAR_ONE, _MIRRORED)[::-1], 1.0)
    above_one = np.append(np.nextafter(_starts(0, _ABOVE + 1)[1:], 0), np.inf)
    return np.concatenate([negative, below_half, below_one, above_one])


EDGES: Floats = _edges()
EDGES.flags.writeable = False
CELLS = len(EDGES)


def cells_of(scores: Array, scratch: Scratch) -> Ints:
    """Return the place of each score's cell, flat; the same for float32 and float64."""
    flat = scores.reshape(-1)
    out = scratch.get("cells", flat.shape, np.intp)
    if flat.max(initial=0) <= 0:
        return np.subtract(_ZERO, _leading(flat, _NEAR_ZERO, _ZERO, out, scratch), out=out)
    mirrored = np.subtract(flat.dtype.type(1), flat, out=scratch.get("mirrored", flat.shape, flat.dtype))
    upper = np.greater_equal(flat, 0.5, out=scratch.get("upper", flat.shape, np.bool_))
    # From 1/2 on the number of a cell falls with 1 - s, so it is counted from the other end.
    np.minimum(mirrored, flat, out=mirrored)
    outside = np.flatnonzero(mirrored < 0)
    _leading(mirrored, _NEAR_ZERO, _HALF, out, scratch)
    turned = np.subtract(_ONE - _ZERO + _SHIFTED, out, out=scratch.get("turned", flat.shape, np.intp))
    np.minimum(turned, _ONE - _ZERO, out=turned)
    np.copyto(out, turned, where=upper)
    out += _ZERO
    if len(outside):
        beyond = flat[outside]
        high = _leading(beyond, 0, _ABOVE + 1, None, None) + _ONE
        low = _ZERO - _leading(beyond, _NEAR_ZERO, _ZERO, None, None)
        out[outside] = np.where(beyond > 1, high, low)
    return out


# Near 1 cells begin at 2^-46 and not at 2^-64: so many places less.
_SHIFTED = (_NEAR_ONE - _NEAR_ZERO) * 2**_BITS


def _leading(values: Array, exponent: int, most: int, out: Ints | None, scratch: Scratch | None) -> Ints:
    """Return the leading bits of magnitudes, counted from a power of two on: from 0 to `most`."""
    single = values.dtype == np.float32
    whole, shift, bias = (np.int32, 23 - _BITS, 127) if single else (np.int64, 52 - _BITS, 1023)
    held = None if scratch is None else scratch.get("magnitude", values.shape, values.dtype)
    bits = np.abs(values, out=held).view(whole)
    bits = np.right_shift(bits, shift, out=bits)
    found = np.subtract(bits, ((bias + exponent) << _BITS) - 1, out=out, casting="unsafe")
    return np.clip(found, 0, most, out=found)
