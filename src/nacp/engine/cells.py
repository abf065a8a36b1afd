"""Cells: fixed intervals of scores, known before any data. A score's cell is given by its leading bits.

Of the score as float32: its exponent and the first seven bits of its mantissa; from 1/2 to 1 those of 1 - s
and above 1 those of s - 1, which are exact. So cells are fine near 0, where the scores -p of improbable
labels lie, and near 1, where the masses of many labels do. Rounding keeps the order, so cells are intervals:
cell i holds the scores in ``(EDGES[i - 1], EDGES[i]]``. Scores very close to 0 or to 1 share a cell, and so
do very large ones.
"""

from functools import lru_cache

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine.scratch import Scratch

_BITS = 7
_SHIFT = 23 - _BITS
# Exponents where cells begin and end: of negative scores, of those up to 1/2, of 1 - s, of s - 1.
_NEGATIVE, _POSITIVE, _BELOW_ONE, _ABOVE_ONE = (-64, 64), (-40, -1), (-17, -1), (-16, 20)


def _starts(exponents: tuple[int, int]) -> Array:
    """Return the least float32 magnitudes with successive leading bits, from one power of two to another."""
    codes = np.arange((127 + exponents[0]) << _BITS, ((127 + exponents[1]) << _BITS) + 1)
    return (codes.astype(np.int32) << _SHIFT).view(np.float32)


def _edges() -> Floats:
    """Return the largest score of each cell."""
    below_one, above_one = _starts(_BELOW_ONE), _starts(_ABOVE_ONE)
    tops = np.concatenate(
        [
            -_starts(_NEGATIVE)[::-1],
            np.nextafter(_starts(_POSITIVE), np.float32(0)),
            1 - below_one[::-1],
            [1],
            np.nextafter(1 + above_one, np.float32(0)),
            [np.finfo(np.float32).max],
        ]
    ).astype(np.float32)
    # Float64 scores that round to it belong to the cell, too.
    between = (tops.astype(np.float64) + np.nextafter(tops, np.float32(np.inf)).astype(np.float64)) / 2
    edges = np.where(between.astype(np.float32) <= tops, between, np.nextafter(between, -np.inf))
    edges[-1] = np.inf
    return edges


with np.errstate(over="ignore"):
    EDGES: Floats = _edges()
EDGES.flags.writeable = False
CELLS = len(EDGES)
ENDS: Floats = np.append(-np.inf, EDGES)  # cell i holds the scores in (ENDS[i], ENDS[i + 1]]


def codes_of(scores: Array, scratch: Scratch) -> tuple[Array, Ints]:
    """Return a small number for each score, flat, and a table from these numbers to cells."""
    flat = scores.reshape(-1)
    if flat.dtype != np.float32:
        rounded = scratch.get("rounded", flat.shape, np.float32)
        with np.errstate(over="ignore"):
            np.copyto(rounded, flat, casting="same_kind")
        flat = rounded
    if flat.max(initial=0) <= 0:
        return negated_codes(np.abs(flat, out=scratch.get("magnitude", flat.shape, np.float32)), scratch)
    # The leading bits of the distance from 0 or 1, by whether it is from 0, below 1 or above 1.
    near = np.subtract(np.float32(1), flat, out=scratch.get("magnitude", flat.shape, np.float32))
    np.abs(near, out=near)
    np.minimum(near, flat, out=near)
    negative = np.flatnonzero(near < 0) if near.min() < 0 else ()
    bits = near.view(np.int32)
    np.right_shift(bits, _SHIFT, out=bits)
    np.clip(bits, _LEAST, _MOST, out=bits)
    bits -= _LEAST
    side = scratch.get("side", flat.shape, np.bool_)
    other = scratch.get("other", flat.shape, np.bool_)
    np.greater_equal(flat, np.float32(0.5), out=side)
    np.greater(flat, np.float32(1), out=other)
    sides = np.add(side.view(np.int8), other.view(np.int8), out=side.view(np.int8))
    bits += np.multiply(sides, np.int32(_STEP), out=scratch.get("codes", flat.shape, np.int32))
    if len(negative):
        bits[negative] = (np.abs(flat[negative]).view(np.int32) >> _SHIFT) + _FIRST_NEGATIVE
    return bits, _table()


def negated_codes(values: Array, scratch: Scratch) -> tuple[Array, Ints]:
    """Return the same of minus some float32 values that are not negative."""
    codes = scratch.get("codes", values.shape, np.int32)
    np.right_shift(values.view(np.uint32), _SHIFT, out=codes.view(np.uint32))  # unsigned: -0.0 comes last
    return codes.reshape(-1), _negative_table()


def cells_of(scores: Array, scratch: Scratch) -> Ints:
    """Return the cell of each score, flat; the same for float32 and float64."""
    codes, table = codes_of(scores, scratch)
    return table[codes]


_LEAST, _MOST = ((127 + _POSITIVE[0]) << _BITS) - 1, (127 + _ABOVE_ONE[1]) << _BITS
_STEP = _MOST - _LEAST + 1
_FIRST_NEGATIVE = 3 * _STEP


@lru_cache(maxsize=1)
def _negative_table() -> Ints:
    """The cells of negative scores, by the leading bits of their magnitude; the last one is that of -0.0."""
    magnitudes = (np.arange((1 << (8 + _BITS)) + 1, dtype=np.uint32) << _SHIFT).view(np.float32)
    with np.errstate(invalid="ignore"):
        return np.searchsorted(EDGES, -np.nan_to_num(magnitudes.astype(np.float64), nan=np.inf), side="left")


@lru_cache(maxsize=1)
def _table() -> Ints:
    """The cells of all scores, by their codes."""
    near = (np.arange(_LEAST, _MOST + 1, dtype=np.int32) << _SHIFT).view(np.float32).astype(np.float64)
    near[0] = 0.0
    just_above = (
        np.searchsorted(EDGES, 1.0, side="left") + 1
    )  # a cell of its own, whose least score rounds to 1
    cells = [np.searchsorted(EDGES, scores, side="left") for scores in (near, 1 - near, 1 + near)]
    return np.concatenate([*cells[:2], np.maximum(cells[2], just_above), _negative_table()])
