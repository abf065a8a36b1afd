"""The verbs of the compiled engine for many splits of rows: twins of those in `nacp.engine.plain`."""

from typing import Any

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.engine import _native
from nacp.engine.contract import CellPairs, SplitTable
from nacp.engine.threads import over_rows


def masked_sums(masks: Bools, counts: Array, most: int) -> Ints:
    """Return the sums of the rows of counts that each mask chooses: see `nacp.engine.plain.masked_sums`."""
    sums = np.zeros((len(masks), counts.shape[1]), dtype=np.int64)

    def add(described: tuple[Any, ...], first: int, last: int) -> None:
        rows, width = counts.shape
        _native.masked_sums(masks, first, last, counts, rows, width, counts.itemsize, most, sums)

    over_rows(add, (masks, len(masks), counts.size))
    return sums


def split_labels(masks: Bools, labels: Array, k: int) -> Ints:
    """Return how often each class occurs in the rows of each mask: see `nacp.engine.plain.split_labels`."""
    found = np.zeros((len(masks), k), dtype=np.int64)

    def count(_: tuple[Any, ...], first: int, last: int) -> None:
        _native.split_labels(masks, first, last, labels, masks.shape[1], k, found)

    over_rows(count, (masks, *masks.shape))
    return found


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


def split_cells(values: Array, minus: bool, edges: Floats, known: Array, counts: Array) -> CellPairs:
    """Count scores up to edges, and return pairs by cell: see `nacp.engine.plain.split_cells`."""
    (rows, k), width, item = values.shape, values.itemsize, counts.itemsize
    of = np.empty(values.shape, dtype=np.uint16)
    nothing = None, None, None, None, None

    def count(_: tuple[Any, ...], first: int, last: int) -> None:
        _native.split_cells(values, first, last, rows, k, width, minus, edges, of, counts, item, *nothing)

    over_rows(count, (values, *values.shape))
    totals = counts.sum(axis=0, dtype=np.int64)
    starts = np.append(0, np.cumsum(np.diff(totals, prepend=0, append=values.size) * (known > 0)))
    found = np.empty(starts[-1]), np.empty(starts[-1], dtype=np.int32)

    def place(_: tuple[Any, ...], first: int, last: int) -> None:
        before = counts[:first].sum(axis=0, dtype=np.int64)
        places = starts[:-1] + np.diff(before, prepend=0, append=first * k)
        wanted = known, starts[1:], places, *found
        _native.split_cells(values, first, last, rows, k, width, minus, edges, of, None, item, *wanted)

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
    """Find where the estimates of splits cross targets: see `nacp.engine.plain.split_crossings`."""
    described = (*table[:-1], table.values.itemsize, table.minus)

    def cross(_: tuple[Any, ...], first: int, last: int) -> None:
        shape = table.values.shape[1], calibration
        _native.split_crossings(described, first, last, *shape, *rule, *drawn, *columns, found, open_)

    over_rows(cross, (table, len(open_), table.values.shape[0]))
