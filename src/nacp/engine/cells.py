"""Cells: fixed intervals of scores, known before any data. A score's cell is given by its leading bits.

Of the score, or from 1/2 on of its distance from 1, rounded to float32: the sign, the exponent and the first
seven bits of the mantissa. So cells are fine near 0, where the scores -p of improbable labels lie, and near
1, where the masses of many labels do. Rounding keeps the order, so cells are intervals: cell i holds the
scores in ``(EDGES[i - 1], EDGES[i]]``. Scores very close to 0 or to 1 share a cell, and so do very large
ones.
"""

import math
import sys
from functools import lru_cache
from typing import NamedTuple, TypeAlias

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


def _edges(*ranges: tuple[tuple[int, int], int]) -> Floats:
    """Return the largest score of each cell, of exponents that begin and end somewhere, and so many bits."""
    negative, positive, below_one, above_one = (_limits(*each) for each in ranges)
    below = 1 - below_one[::-1]
    below = np.where(1 - below >= below_one[::-1], below, np.nextafter(below, 0))
    above = np.nextafter(1 + above_one, 0)
    above = np.where(np.nextafter(above, np.inf) - 1 < above_one, np.nextafter(above, np.inf), above)
    return np.concatenate([-negative[::-1], np.nextafter(positive, 0), below, [1], above, [np.inf]])


EDGES: Floats = _edges(*((each, _BITS) for each in (_NEGATIVE, _POSITIVE, _BELOW_ONE, _ABOVE_ONE)))
EDGES.flags.writeable = False
CELLS = len(EDGES)
ENDS: Floats = np.append(-np.inf, EDGES)  # cell i holds the scores in (ENDS[i], ENDS[i + 1]]


@lru_cache(maxsize=16)
def threshold_grid(low: float, high: float, step: float) -> Floats:
    """Return the native thresholds that are tested, ascending: one fixed grid, as far as a score's span goes.

    Neighbours differ by the share `step` of their distance from 0, from 1 or from -1, whichever is nearest
    (by ten times that where the distance is below a millionth): dense around 1, where the thresholds of APS
    lie when there are many classes, and around 0, where those of HPS do (its native scale is -p). Above 1,
    where RAPS goes on, by the same share of the distance from 0.95.

    Parameters
    ----------
    low, high : float
        The span.
    step : float
        How fine the grid is.

    Examples
    --------
    >>> from nacp.engine.cells import threshold_grid
    >>> grid = threshold_grid(0.0, 1.0, 0.005)
    >>> len(grid) < 7000, bool(abs(grid - 0.9992).min() < 0.005 * 0.0008)
    (True, True)
    """
    small = np.exp(-np.concatenate([np.arange(0.0, 14.0, step), np.arange(14.0, 25.0, 10 * step)]))
    below_one = np.concatenate([small[small < 0.5], 1 - small[small <= 0.5]])
    above_one = np.concatenate([1 + small[small < 0.05], 0.95 + 0.05 / small])
    positive = np.concatenate([below_one, above_one])
    grid: Floats = np.unique(np.concatenate([-positive, [0.0], positive]))
    grid = grid[(grid > low) & (grid < high)]
    grid.flags.writeable = False
    return grid


# Finer cells, for who cannot read rows twice: exponents, and so many bits. More, where thresholds lie.
_Limits: TypeAlias = tuple[tuple[int, int], int]
_FINE: tuple[_Limits, ...] = ((-20, 4), 12), ((-20, -1), 12), ((-20, -1), 12), ((-20, 4), 12)
_MINUS_P: _Limits = (-20, 0), 13
_MINUS_TINY_P: _Limits = (-27, -20), 11  # where sets hold nearly all labels
_MASS: tuple[_Limits, ...] = ((-13, -1), 13), ((-11, -3), 14)
_RAISED: tuple[_Limits, ...] = ((-11, -1), 13), ((-7, -3), 14)  # a mass that steps are added to
# Of differences between probabilities those of a row to the many that are next to none are nearly the same.
_DIFFERENCE: tuple[_Limits, ...] = ((-8, -1), 13), ((-5, -1), 14), ((-3, -1), 15)
_STEPS, _PILES, _PILE_BITS = ((-6, -2), 13), 256, 4
_BELOW_PILE: tuple[_Limits, ...] = ((-26, -6), 0), ((-20, -8), 1)
_ABOVE_PILE: tuple[_Limits, ...] = ((-28, -20), -1), ((-20, -16), -3), ((-36, -28), -2)
_AT_PILE: _Limits = (-36, -26), 3
_FAR_PILES, _BELOW_FAR, _ABOVE_FAR = 1024, ((-20, -8), 2), ((-24, -18), 0)  # of rows with many labels
_SMOOTH_CELLS = 280_000  # where scores are spread evenly between the steps
FINE_STEP = 0.001  # of the grid of thresholds that are edges of these cells, too


@lru_cache(maxsize=8)
def fine_ends(low: float, high: float, k: int, step: float = 0.0, *, piles: bool = True) -> Floats:
    """Return the ends of finer cells, for scores of k labels from low to high or a little above.

    As ENDS, from minus infinity on. Each is part of a cell; the last but one goes up to the largest finite
    number. Where the scores of rows that are sure pile up at 1 and at steps above it, cells are fine around
    the first of these; where they are spread between the steps, all over. The thresholds of a fine grid are
    ends, so what a test asks about them is known.

    Examples
    --------
    >>> from nacp.engine.cells import fine_ends
    >>> edges = fine_ends(-1.0, 0.0, k=100)
    >>> len(edges) < 250_000, bool(edges[edges >= -0.1][0] < -0.09998)
    (True, True)
    """
    # A score that begins at 0 is a mass: nobody wants the few sets that lie below 1/64. Above 1 it rises by
    # steps, if there are some; else no score is there.
    negative, positive, below_one, above_one = _FINE
    finer = [-_limits(*_MINUS_P)]
    if high == 0:
        finer.append(-_limits(*_MINUS_TINY_P))
    if low == 0:
        positive = (-6, -1), 10
    if high == 1:
        above_one = (-20, -19), 12
        finer += [1 - _limits(*each) for each in (_DIFFERENCE if low else _MASS)]
    if (low, high) == (-1, 1):
        negative, positive, below_one = ((exponents, 11) for exponents, _ in _FINE[:3])
        finer = [-_limits((-9, 0), 13), *finer[1:], *(_limits(*each) for each in _DIFFERENCE)]
    if step:
        (first, last), bits = _STEPS
        most = max(math.ceil(math.log2(step * k)), first + 1)
        below_one, above_one, high = (below_one[0], 11), ((first, most), 12), 17 / 16 * (1 + step * k)
        finer += [1 - _limits(*each) for each in _RAISED]
        if piles:
            finer += [1 + _limits((first, min(most, last)), bits), _around_piles(step, k)]
        else:
            finer.append(1 + _limits((first, most), min(int(math.log2(_SMOOTH_CELLS / (most - first))), 15)))
    finer.append(_edges(negative, positive, below_one, above_one))
    every = np.unique(np.concatenate([EDGES, *finer, threshold_grid(low, high, FINE_STEP)]))[:-1]
    # Rows may sum to a little more than 1.
    first, last = np.searchsorted(every, [low, high * 17 / 16], side="right")
    finite = np.finfo(np.float64).max
    ends: Floats = np.concatenate([[-np.inf], every[first : last + 1], [finite, np.inf]])
    ends.flags.writeable = False
    return ends


def _around_piles(step: float, k: int) -> Floats:
    """Return edges around steps above 1: below, where few labels are left; above, as sums are rounded."""
    number = min(k, _PILES) - 1
    bits = _PILE_BITS + round(math.log2(_PILES / number))  # around few they are finer
    below, above = (
        [_limits(exponents, bits + more) for exponents, more in each] for each in (_BELOW_PILE, _ABOVE_PILE)
    )
    around = np.concatenate([-np.concatenate([*below, _limits(*_AT_PILE)]), [0.0], *above])
    far = np.concatenate([-_limits(*_BELOW_FAR), [0.0], _limits(*_ABOVE_FAR)])
    first, further = np.arange(1, number + 1), np.arange(number + 1, min(k, _FAR_PILES))
    found = [np.add.outer(1 + step * first, around), np.add.outer(1 + step * further, far)]
    return np.concatenate([each.ravel() for each in found])


@lru_cache(maxsize=1)
def _marks() -> Floats:
    return np.union1d(threshold_grid(-np.inf, np.inf, FINE_STEP), EDGES)


def marks_among(edges: Floats) -> Ints:
    """Return the places of the edges that are thresholds of the fine grid, or edges of the wider cells.

    Examples
    --------
    >>> from nacp.engine.cells import fine_ends, marks_among
    >>> edges = fine_ends(-1.0, 0.0, k=100)[1:]
    >>> marks = marks_among(edges)
    >>> len(marks) < len(edges) / 5, bool(marks[-1] == len(edges) - 1)
    (True, True)
    """
    marks = _marks()
    places = np.searchsorted(edges, marks)
    found: Ints = places[edges[np.minimum(places, len(edges) - 1)] == marks]
    return found


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


class EdgeIndex(NamedTuple):
    """Where scores lie among many edges, for the compiled engine: see edges.h."""

    # For each cell: where its places begin, and how many of a score's next 16 bits are left in one.
    parts: Array
    places: Array  # the first edge that may be the next above a score, and up to which of these bits it is


_BITS_LEFT = 11  # in a part of a cell, at the most


def edge_index(edges: Floats) -> EdgeIndex:
    """Return an index of ascending edges, which begin and end at infinity.

    A cell is parted by the next bits of its scores, into more parts than it holds edges, if one code stands
    for it and its limits are not rounded. In a part that holds one edge, its bits tell which scores are above
    it; where there are several, these have to be searched.
    """
    table, single = _table(), np.bincount(_table(), minlength=CELLS) == 1
    code = np.zeros(CELLS, dtype=np.int64)
    code[table] = np.arange(len(table))
    low, high = np.searchsorted(edges, ENDS[:-1], side="right"), np.searchsorted(edges, EDGES, side="left")
    exponents = (code % _CODES >> _BITS) - 127
    exact = (exponents >= np.where(code < 2 * _CODES, -26, -120)) & (exponents < 20)
    parted = single & exact & (high > low)
    bits = np.where(parted, np.clip(np.log2(high - low + 1).astype(np.int64), 16 - _BITS_LEFT, 8), 0)
    starts = np.append(0, np.cumsum(1 << bits))
    places = np.zeros(starts[-1], dtype=np.int64)
    # Where a cell is not parted, no bits are left: 0, which is below 1.
    places[starts[:-1]] = _place(low, np.where(high > low, high - low, 1), searched=high > low)
    for depth in np.unique(bits[parted]).tolist():
        cells = np.flatnonzero(parted & (bits == depth))
        places[starts[cells, None] + np.arange(1 << depth)] = _places(edges, code[cells, None], depth)
    parts = np.column_stack([starts[:-1], 16 - bits]).astype(np.int32)
    return EdgeIndex(parts, places.astype(np.uint32))


def _place(first: Ints, upto: Ints, *, searched: bool | Bools) -> Ints:
    return (first << (_BITS_LEFT + 1)) + (np.minimum(upto, (1 << _BITS_LEFT) - 1) << 1) + searched


def _places(edges: Floats, codes: Ints, depth: int) -> Ints:
    """Return the places of the parts of cells by so many of the next bits."""
    values = ((codes % _CODES << _SHIFT) + (np.arange((1 << depth) + 1) << (_SHIFT - depth))).astype(np.int32)
    starts = values.view(np.float32)
    least = (starts.astype(np.float64) + np.nextafter(starts, np.float32(0)).astype(np.float64)) / 2
    kind, (lows, highs) = codes // _CODES, (least[:, :-1], least[:, 1:])
    base = np.where(kind < 2, 1.0, 0.0)  # from 1/2 on these are the bits of the distance from 1
    falling = (kind == 0) | (kind == 3)  # where scores rise: they lie in (base - high, base - low]
    lows, highs = np.where(falling, base - highs, base + lows), np.where(falling, base - lows, base + highs)
    first = np.where(falling, np.searchsorted(edges, lows, side="right"), np.searchsorted(edges, lows))
    others = np.searchsorted(edges, np.where(falling, highs, np.nextafter(highs, -np.inf))) - first
    with np.errstate(over="ignore"):  # the last finite edge may be the next, and not in the cell
        distance = np.abs(edges[first] - base).astype(np.float32).view(np.int32)
    most = (1 << (_SHIFT - depth)) - 1
    left = np.where(others == 1, np.where(falling, ~distance, distance) & most, most)
    return np.where(others > 1, _place(first, others, searched=True), _place(first, left, searched=False))


@lru_cache(maxsize=1)
def _negative_table() -> Ints:
    """The cells of negative scores by the leading bits of their magnitude, at last that of -0.0."""
    return np.append(_table()[3 * _CODES :], np.searchsorted(EDGES, 0.0))
