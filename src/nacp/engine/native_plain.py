"""The verbs of the compiled engine that know nothing of scores: twins of those in `nacp.engine.plain`.

But for `split_crossings`, which is asked only of who has found the cell of each pair.
"""

from typing import Any

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.engine import _native, plain
from nacp.engine.contract import CellPairs, Pairs, SplitTable
from nacp.engine.threads import over_rows


def ascending(pairs: Pairs) -> Pairs:
    """Return pairs in the order of their scores: see `nacp.engine.plain.ascending`."""
    scores, weights = np.array(pairs.scores), np.array(pairs.weights)
    _native.ascending(scores, weights if len(weights) else None)
    return Pairs(scores, weights)


def masked_sums(masks: Bools, counts: Array, most: int) -> Ints:
    """Return the sums of the rows of counts that each mask chooses: see `nacp.engine.plain.masked_sums`."""
    if counts.dtype != np.uint16:
        return plain.masked_sums(masks, counts, most)
    sums = np.zeros((len(masks), counts.shape[1]), dtype=np.int64)

    def add(described: tuple[Any, ...], first: int, last: int) -> None:
        _native.masked_sums(masks, first, last, counts, len(counts), counts.shape[1], most, sums)

    over_rows(add, (masks, len(masks), counts.size))
    return sums


def split_draws(
    states: Array, labels: Array, k: int, calibration: int, rate: float | None
) -> tuple[Bools, Array | None]:
    """Return which rows calibrate in splits, and noisy labels: see `nacp.engine.plain.split_draws`."""
    masks = np.empty((len(states), len(labels)), dtype=bool)
    noisy = None if rate is None else np.empty(masks.shape, dtype=np.int32)

    def draw(described: tuple[Any, ...], first: int, last: int) -> None:
        _native.split_draws(states, first, last, labels, k, calibration, rate or 0.0, masks, noisy)

    over_rows(draw, (states, *masks.shape))
    return masks, noisy


def split_cells(values: Array, minus: bool, edges: Floats, known: Array, counts: Array) -> CellPairs | None:
    """Count scores up to edges, and return pairs by cell: see `nacp.engine.plain.split_cells`."""
    if counts.dtype != np.uint16:
        return None
    (rows, k), width = values.shape, values.itemsize
    of = np.empty(values.shape, dtype=np.uint16)
    nothing = None, None, None, None, None

    def count(_: tuple[Any, ...], first: int, last: int) -> None:
        _native.split_cells(values, first, last, rows, k, width, minus, edges, of, counts, *nothing)

    over_rows(count, (values, *values.shape))
    totals = counts.sum(axis=0, dtype=np.int64)
    starts = np.append(0, np.cumsum(np.diff(totals, prepend=0, append=values.size) * (known > 0)))
    found = np.empty(starts[-1]), np.empty(starts[-1], dtype=np.int32)

    def place(_: tuple[Any, ...], first: int, last: int) -> None:
        before = counts[:first].sum(axis=0, dtype=np.int64)
        places = starts[:-1] + np.diff(before, prepend=0, append=first * k)
        wanted = known, starts[1:], places, *found
        _native.split_cells(values, first, last, rows, k, width, minus, edges, of, None, *wanted)

    over_rows(place, (values, *values.shape))
    return CellPairs(starts, *found, of)


def split_crossings(
    table: SplitTable,
    calibration: int,
    rule: tuple[bool, float],
    drawn: tuple[Bools, Array, Ints],
    columns: tuple[Ints, Floats, Floats],
    found: Floats,
    open_: Ints,
) -> None:
    """Find thresholds, test sizes and test coverages of splits, each as for that split alone.

    Parameters
    ----------
    table : SplitTable
        What they share.
    calibration : int
        How many rows calibrate.
    rule : tuple of bool and float
        Whether the last crossing is looked for, and how close below a target it counts as reached.
    drawn : tuple of arrays
        Which rows calibrate, (splits, rows); noisy labels, of int32, the same or (rows,); and how many pairs
        of these rows score up to each edge, (splits, edges).
    columns : tuple of arrays
        Whether a column sees the true labels, what each label adds to the estimate and what each pair adds,
        which is not positive: (columns, 3); the units of both, (columns, 2); and targets, (splits, columns).
    found : array of shape (3, splits, columns)
        Where they are written.
    open_ : array of int64 of shape (splits,)
        How far each split is; written to. Those that are done or left to who asks are not looked at.
    """
    described = (*table[:-1], table.values.itemsize, table.minus)

    def cross(_: tuple[Any, ...], first: int, last: int) -> None:
        shape = table.values.shape[1], calibration
        _native.split_crossings(described, first, last, *shape, *rule, *drawn, *columns, found, open_)

    over_rows(cross, (table, len(open_), table.values.shape[0]))
