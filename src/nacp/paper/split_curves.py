"""What many splits of the same rows share: how many pairs (row, label) lie up to a threshold, by split.

That number is the sum over the split's rows of the sizes of their sets. For all splits and thresholds it is
one product: the 0/1 matrix of which rows a split has, times the matrix of sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.coverage.curve import ROUNDING, Curve, Rule
from nacp.coverage.grid import CELLS, INFINITE
from nacp.coverage.tally import Tally, Weights, sizes_of
from nacp.engine import Spec
from nacp.points import Rows
from nacp.points.arrays import row_slices

_BLOCK = 1 << 21  # entries of the matrix of sizes that are computed at once
_EDGES = 256  # grid points by quantiles at the start: of the labels' scores, and of all scores
_PIECES = 128  # an interval of more grid points is cut into that number of pieces first


@dataclass(frozen=True, eq=False)
class Search:
    """Targets that the estimate in one split is to cross.

    Attributes
    ----------
    split : int
        The number of the split.
    members : list of int
        The methods that the targets belong to.
    label_cells : array of shape (n,)
        The cells of the scores of its labels.
    weights : Weights
        The weights of labels and pairs; that of pairs is one number, which is not positive.
    targets : array of shape (methods, alphas)
    """

    split: int
    members: list[int]
    label_cells: Array
    weights: Weights
    targets: Floats

    def curve(self, edges: Ints, places: Array, pairs: Ints, spec: Spec, k: int) -> Curve:
        """Return the estimate at some grid points; `places` says up to which of them each cell counts."""
        hits = np.bincount(places[self.label_cells], minlength=len(edges))
        nothing = np.empty(0, dtype=np.int64)
        tally = Tally(len(self.label_cells), k, nothing, edges, hits, np.diff(pairs, prepend=0))
        return Curve(tally, spec, self.weights, None)


def first_edges(label_cells: Ints, some_cells: Ints) -> Ints:
    """Return grid points to start from, given the cells of labels' scores and of some of all scores.

    Neither the points nor their number change what is found, only how long it takes.
    """
    ranks = np.linspace(0, 1, _EDGES)
    chosen = (
        np.sort(cells, axis=None)[(ranks * (cells.size - 1)).astype(int)]
        for cells in (label_cells, some_cells)
    )
    return np.unique(np.concatenate([*chosen, [INFINITE - 1, INFINITE]]))


def crossings(
    rows: Rows, spec: Spec, masks: Bools, searches: Sequence[Search], edges: Ints, rule: Rule
) -> list[Ints]:
    """Return for each search the grid points where the estimate crosses its targets.

    They are those of `Curve.crossing` with all grid points. Estimates are computed at a few of them, `edges`.
    Between two neighbours an estimate lies between bounds, as labels only add to it and pairs only take away.
    Where bounds do not rule out that it crosses a target in some split, the grid points between are added,
    and all is done again.

    Parameters
    ----------
    masks : array of shape (splits, rows)
        The rows that each split has.
    edges : array of int
        As from `first_edges`; the last is infinity.
    """
    found = [np.zeros(each.targets.shape, dtype=np.int64) for each in searches]
    pairs, undecided = pairs_upto(rows, spec, masks, edges), np.arange(len(searches))
    while True:
        places = np.searchsorted(edges, np.arange(CELLS)).astype(np.int32)
        open_ = np.zeros((len(undecided), len(edges)), dtype=bool)
        for number, each in zip(undecided.tolist(), open_, strict=True):
            search = searches[number]
            curve = search.curve(edges, places, pairs[search.split], spec, rows.k)
            for place, target in np.ndenumerate(search.targets):
                found[number][place] = curve.crossing(target, rule)
                each |= _undecided(curve, target, rule)
        undecided = undecided[open_.any(axis=1)]
        if not len(undecided):
            return found
        more = np.concatenate([_between(*edges[[j - 1, j]]) for j in np.flatnonzero(open_.any(axis=0))])
        order = np.argsort(np.append(edges, more))
        edges = np.append(edges, more)[order]
        pairs = np.append(pairs, pairs_upto(rows, spec, masks, more), axis=1)[:, order]


def _undecided(curve: Curve, target: float, rule: Rule) -> Bools:
    """Return for each grid point whether the estimate may cross a target between the one before and it."""
    if target > 1 + ROUNDING:
        return np.zeros(len(curve.cells), dtype=bool)
    bar, number = target - ROUNDING, np.arange(len(curve.cells))
    hits, pairs = np.cumsum(curve.tally.hits), np.cumsum(curve.tally.pairs)
    own, pair = float(curve.weights.own[0]), curve.weights.constant
    assert pair is not None
    reached = np.flatnonzero((curve.clean >= bar) == (rule == "first"))
    if rule == "last":
        lowest = (own * np.append(0, hits[:-1]) + pair * pairs) / curve.n
        possible = (lowest < bar + ROUNDING / 2) & (number > reached.max(initial=-1))
    else:
        highest = (own * hits + pair * np.append(0, pairs[:-1])) / curve.n
        possible = (highest >= bar - ROUNDING / 2) & (number <= reached.min(initial=len(number)))
    between = np.diff(curve.cells, prepend=-1) > 1
    return np.asarray(between & possible)


def _between(low: int, high: int) -> Ints:
    """Return the grid points between two, or some of them if there are many."""
    low = low if low < high else -1  # before the first edge
    return np.unique(np.linspace(low + 1, high - 1, min(high - low - 1, _PIECES)).astype(np.int64))


def pairs_upto(rows: Rows, spec: Spec, masks: Bools, cells: Ints) -> Ints:
    """Return how many pairs each split counts up to grid points: (splits, points)."""
    total = np.zeros((len(masks), len(cells)), dtype=np.int64)
    for where in row_slices(rows.n, rows.k, max(1, _BLOCK // max(rows.k, len(cells)))):
        total += _product(masks[:, where], sizes_of(rows[where], spec, cells), rows.k)
    return total


def _product(masks: Bools, sizes: Floats, k: int) -> Ints:
    """Return the sums of some rows' sizes. Whole numbers are exact in float32 up to 2^24."""
    kind = np.float32 if len(sizes) * k <= 1 << 24 else np.float64
    found: Ints = (masks.astype(kind) @ sizes.astype(kind)).astype(np.int64)
    return found


def mean_sizes(scores: Floats, masks: Bools, thresholds: Floats) -> Floats:
    """Return the mean size of the sets of each split's rows at its own thresholds: (splits, thresholds)."""
    (n, k), levels = scores.shape, np.unique(thresholds)
    columns, total = np.searchsorted(levels, thresholds), np.zeros(thresholds.shape, dtype=np.int64)
    width = len(levels) + 1
    for where in row_slices(n, k, max(1, _BLOCK // max(k, width))):
        places = np.searchsorted(levels, scores[where])
        number = len(places)
        places += np.arange(number)[:, None] * width
        counts = np.bincount(places.reshape(-1), minlength=number * width).reshape(number, width)
        sums = _product(masks[:, where], np.cumsum(counts[:, :-1], axis=1), k)
        total += np.take_along_axis(sums, columns, axis=1)
    return np.asarray(total / np.count_nonzero(masks, axis=1)[:, None])
