"""The NumPy engine: always there, and the definition of what the verbs return. See `nacp.engine.contract`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.engine import lumped
from nacp.engine.block import Block, lowest_finite
from nacp.engine.by_label import counts as counts
from nacp.engine.by_label import gaps as gaps
from nacp.engine.cells import CELLS, EDGES, codes_between
from nacp.engine.contract import (
    ByEntry,
    ByLabel,
    Keep,
    Pairs,
    PerLabel,
    PerRow,
    Spec,
    Thresholds,
    Unchecked,
    Weights,
)
from nacp.engine.formula import Expression
from nacp.engine.hashing import hashed_uniforms
from nacp.engine.plain import ascending as ascending
from nacp.engine.plain import check as check
from nacp.engine.plain import fetch as fetch
from nacp.engine.plain import masked_sums as masked_sums
from nacp.engine.plain import split_cells as split_cells
from nacp.engine.plain import split_draws as split_draws
from nacp.engine.ranks import LabelRanks, evaluate, rounds_once
from nacp.engine.scratch import Scratch
from nacp.stats import betting
from nacp.tuning import tuning

NAME = "numpy"
play, uniforms = betting.play, hashed_uniforms
_SAMPLED = 512  # entries that show where rows are cut beyond a limit,
_LOOKED_AT = 1 << 15  # taken from rows with about so many


def open_block(
    values: Array,
    spec: Spec,
    scratch: Scratch | None = None,
    u: Floats | None = None,
    unchecked: Unchecked | None = None,
) -> Block:
    """Return rows ready to be asked about their scores; `u` are their uniform numbers, if these are known."""
    if unchecked is not None:
        unchecked.confirm(check(values, unchecked.tolerance))
    return Block(np.ascontiguousarray(values), spec, Scratch() if scratch is None else scratch, u)


def label_scores(block: Block, labels: Ints) -> Floats:
    """Return the native score of one given label per row."""
    if isinstance(block, lumped.Block):
        return lumped.label_scores(block, labels)
    rows, formula = np.arange(len(labels)), block.spec.formula
    if not block.spec.ranked:
        return block.at(rows * block.shape[1] + labels, placed=True)
    label = LabelRanks(block.values, labels, block.u, block.scratch)
    if isinstance(formula, Expression) and rounds_once(formula):
        found: Floats = lowest_finite(evaluate(formula, label, Scratch()).astype(np.float64).reshape(-1))
        return found
    # Equal probabilities have equal scores, so the first of them stands for all.
    found = block.along[rows, label.n_above[:, 0]]
    return found


def keeps(spec: Spec) -> bool:
    """Return whether the scores of rows can be kept when these are read; here they cannot."""
    return False


def tally(
    block: Block,
    edges: Floats | None = None,
    weights: Weights = None,
    limit: float = np.inf,
    keep: Keep | None = None,
    parts: int = 4,
    into: Ints | None = None,
) -> Ints:
    """Return pairs, gains and losses, shape (3, cells): their number, positive and negative weight.

    With `edges`, for the cells ``(edges[i], edges[i + 1]]``; without, for all cells of `nacp.engine.cells`.
    Where all weights are equal, the pairs alone, shape (1, cells). Of all cells, an engine may count what
    scores above the limit (an edge of cells) in lower cells than its own, if these are above the limit,
    too, and gains anywhere there; the more `parts` it makes of these, the fewer; and it may hand what scores
    in some intervals up to the limit to `keep`. This engine does the first where the score is -p. What is
    found is added to `into`, if there is one.
    """
    if isinstance(block, lumped.Block):
        found = lumped.tally(block, edges, weights)
    elif edges is None and weights is None and limit < np.inf and block.codes_are_bits:
        found = _tally_upto(block, limit, parts)
    else:
        found = _tally(block, edges, weights)
    return found if into is None else np.add(into, found, out=into)


def _tally(block: Block, edges: Floats | None, weights: Weights) -> Ints:
    placed = weights is not None
    if edges is None:
        (cells, table), number, flat = block.codes(placed=placed), CELLS, None
    elif weights is None and len(edges) <= tuning().counted_thresholds:
        return _counted(block.scores(placed=False), edges)
    else:
        flat, scores = _inside(block, [(float(edges[0]), float(edges[-1]))], placed=placed)
        cells, number = np.searchsorted(edges, scores, side="left") - 1, len(edges) - 1
        table = np.arange(number)
    sums = np.bincount(cells)[None]
    if weights is not None:
        # Gains and losses are added up at once: those of cell c at c, and at c plus the number of cells.
        weighed, signed = _weights(block, weights, flat), block.scratch.get("signed", cells.shape, np.int64)
        np.right_shift(weighed, 63, out=signed)  # -1 for a loss
        signed &= sums.size
        signed += cells
        gains, losses = added = np.zeros((2, sums.size), dtype=np.int64)
        np.add.at(added.reshape(-1), signed, weighed)
        sums = np.stack([sums[0], gains, -losses])
    some = np.flatnonzero(sums[0] > 0)
    found = np.zeros((len(sums), number), dtype=np.int64)
    for total, part in zip(found, sums[:, some], strict=True):
        np.add.at(total, table[some], part)
    return found


def _tally_upto(block: Block, limit: float, parts: int) -> Ints:
    """Return the pairs of all cells up to a limit; those beyond are told apart by comparing with a few."""
    found = np.zeros((1, CELLS), dtype=np.int64)
    p, (codes, table) = block.values.reshape(-1), block.codes(placed=False)
    below, inside = -down(p.dtype, limit), block.scratch.get("inside", p.shape, np.bool_)
    flat = np.flatnonzero(np.greater_equal(p, below, out=inside))
    block.low = limit, flat
    cells = table[codes[flat]]
    np.add.at(found[0], cells, 1)
    counted, cell = len(cells), int(np.searchsorted(EDGES, limit)) + 1
    for cut in tail_cuts(block.values, parts).tolist():
        if cut < below:
            upto = int(np.count_nonzero(np.greater_equal(p, cut, out=inside)))
            found[0, cell] += upto - counted
            counted, cell = upto, max(cell, int(np.searchsorted(EDGES, -cut)))
    found[0, cell] += p.size - counted
    return found


def tail_cuts(rows: Array, number: int) -> Floats:
    """Return probabilities that part the entries of rows into some parts, descending, by a few of them."""
    few = rows[:: max(1, rows.size // _LOOKED_AT)].reshape(-1)  # rows lie in pages of memory, or of a file
    some = np.sort(few[:: max(1, few.size // _SAMPLED) | 1])  # odd, so of all columns
    return some[len(some) * np.arange(number, 0, -1) // (number + 1)].astype(np.float64)


def _counted(scores: Array, edges: Floats) -> Ints:
    """Return the tally between a few edges, by comparing all scores with each."""
    most = [np.count_nonzero(scores <= down(scores.dtype, q)) for q in edges]
    return np.diff(most)[None]


def _weights(block: Block, weights: ByLabel | ByEntry, flat: Ints | None) -> Ints:
    """Return the whole-number weights of pairs, flat."""
    found = weights.all() if flat is None else weights.at(*np.divmod(flat, block.shape[1]))
    return found.astype(np.int64, copy=False).reshape(-1)


def window(block: Block, spans: Sequence[tuple[float, float]], weights: Weights = None) -> Pairs:
    """Return the pairs that score in one of some intervals (low, high], which are ascending and disjoint."""
    if isinstance(block, lumped.Block):
        return lumped.window(block, spans, weights)
    placed = weights is not None
    flat, scores = _inside(block, spans, placed=placed)
    if weights is None:
        return Pairs(scores, np.empty(0, dtype=np.int64))
    return Pairs(scores, _weights(block, weights, flat))


def _inside(block: Block, spans: Sequence[tuple[float, float]], *, placed: bool) -> tuple[Ints, Floats]:
    """Return the flat places of the scores in ascending intervals (low, high], and these scores."""
    (lows, highs), size = np.reshape(spans, (-1, 2)).T, block.values.size
    if not len(highs):
        return np.empty(0, dtype=np.int64), np.empty(0)
    if block.low is not None and highs[-1] <= block.low[0]:
        flat = block.low[1]
    else:
        # Sets are small: what lies below the highest end is mostly little, and looked at one by one.
        inside = block.scratch.get("inside", (size,), np.bool_)
        _compare(block, highs[-1], inside, placed=placed)
        if np.count_nonzero(inside) > size // 8:
            above = block.scratch.get("above low", (size,), np.bool_)
            _compare(block, lows[0], above, placed=placed, above=True)
            np.logical_and(inside, above, out=inside)
        flat = np.flatnonzero(inside)
    if len(spans) > 1:
        wanted, whole = codes_between(tuple(spans), negated=block.codes_are_bits)
        codes, _ = block.codes(placed=placed)
        flat = flat[wanted[codes[flat]]]
        if whole:
            return flat, block.at(flat, placed=placed)
    found = block.at(flat, placed=placed)
    if len(spans) > 1:
        exact = found > np.append(lows, np.inf)[np.searchsorted(highs, found, side="left")]
    else:
        exact = (found > lows[0]) & (found <= highs[0])
    return flat[exact], found[exact]


def _compare(block: Block, q: float, out: Bools, *, placed: bool, above: bool = False) -> None:
    """Say which scores are at most q, or above it; where they are -p, by comparing the rows with -q."""
    if block.is_minus_p:
        p, limit = block.values.reshape(-1), -down(block.values.dtype, q)
        (np.less if above else np.greater_equal)(p, limit, out=out)
    else:
        scores = block.scores(placed=placed).reshape(-1)
        (np.greater if above else np.less_equal)(scores, down(scores.dtype, q), out=out)


def profile(block: Block, thresholds: Thresholds, weights: Weights = None) -> Array:
    """Return the weight of each row's set at each threshold, shape (rows, thresholds); by default its size.

    Thresholds that are one number each must ascend.
    """
    if isinstance(block, lumped.Block) and isinstance(thresholds, np.ndarray):
        return lumped.profile(block, thresholds, weights)
    if isinstance(thresholds, PerLabel | PerRow):
        found = [_weighed(_below(block, each), block, weights) for each in _each(thresholds)]
        return np.stack(found, axis=1)
    placed, low, highest = weights is not None, -np.inf, float(thresholds[-1])
    below = block.scratch.get("inside", (block.values.size,), np.bool_)
    _compare(block, highest, below, placed=placed)
    if len(thresholds) == 1:
        return _weighed(below.reshape(block.shape), block, weights)[:, None]
    base: Array | int = 0
    if np.count_nonzero(below) > below.size // 8:
        # Many labels are in the sets: those that are in all of them are counted, and not looked at.
        low = float(thresholds[0])
        _compare(block, low, below, placed=placed)
        base = _weighed(below.reshape(block.shape), block, weights)
    flat, inside = _inside(block, [(low, highest)], placed=placed)
    rows, columns = np.divmod(flat, block.shape[1])
    cells = rows * len(thresholds) + np.searchsorted(thresholds, inside, side="left")
    if weights is None:
        added = np.bincount(cells, minlength=len(block.values) * len(thresholds))
    else:
        added = np.zeros(len(block.values) * len(thresholds), dtype=np.int64)
        np.add.at(added, cells, weights.at(rows, columns))
    added = added.reshape(-1, len(thresholds))
    added[:, 0] += base
    return np.cumsum(added, axis=1, out=added)


def squares(block: Block, ends: Floats, into: Ints) -> None:
    """Add to `into`, shape (2, cells), what lies between ascending ends, the first and the last infinite.

    The number of pairs in each cell, and by how much the sum over rows of the squared size of the set is more
    at its upper end than at its lower: the j-th lowest score of a row adds ``2 j - 1``.
    """
    if isinstance(block, lumped.Block):
        scores, times = lumped.ascending(block)
    else:
        scores, times = np.sort(block.scores(placed=False), axis=1), np.ones(block.shape, dtype=np.int64)
    cells, upto = np.searchsorted(ends, scores, side="left") - 1, np.cumsum(times, axis=1)
    for sums, added in zip(into, (times, upto**2 - (upto - times) ** 2), strict=True):
        np.add.at(sums, cells, added)


def _weighed(inside: Bools, block: Block, weights: Weights) -> Array:
    """Return the weight of each row's entries that are inside."""
    if weights is None:
        sizes: Array = np.count_nonzero(inside, axis=1)
        return sizes
    sums: Array = np.where(inside, weights.all(), 0).sum(axis=1)
    return sums


def _each(thresholds: PerLabel | PerRow) -> list[PerLabel | PerRow]:
    return [type(thresholds)(values) for values in np.atleast_2d(thresholds.values)]


def _below(block: Block, threshold: float | PerLabel | PerRow) -> Bools:
    """Return which scores, in the places of the labels, are at most a threshold."""
    if isinstance(threshold, PerLabel):
        return block.placed.astype(np.float64, copy=False) <= threshold.values
    if isinstance(threshold, PerRow):
        return block.placed.astype(np.float64, copy=False) <= threshold.values[:, None]
    below: Bools = block.placed <= down(block.placed.dtype, threshold)
    return below


def set_of_row(*_: Any, **__: Any) -> None:
    """Return the set of one row, if that takes less time than of several; here it does not."""


def bet(
    block: Block,
    points: slice,
    thresholds: Floats,
    weights: Weights,
    labels: tuple[Floats, Floats],
    scale: float,
    bets: tuple[Ints, Floats, Ints, float],
    standing: tuple[Any, ...],
    weigh: Callable[..., Array] | None = None,
) -> None:
    """Bet on rows, one after the other, that the mean share in F^c-hat reaches targets.

    Parameters
    ----------
    block : Block
        The rows.
    points : slice
        Which of them.
    thresholds : array
        Ascending.
    weights, scale
        A row's share is the weight of its set times the scale, ...
    labels : tuple of arrays of shape (rows,)
        ... and where the label is in the set, so much: the labels' scores, and how much.
    bets : tuple
        At which of the thresholds each bet is, its target, its owner, and how wide the range of shares is. Of
        each owner they ascend, and those below one that is lost are of no interest.
    standing : tuple
        How the bets stand, as `nacp.stats.betting.play` takes it, but for the gains.
    weigh : callable, optional
        Another engine's `profile`.
    """
    (scores, own), (columns, targets, _, width) = labels, bets
    shares: Floats = np.where(scores[:, None] <= thresholds, own[:, None], 0.0)
    if scale != 0:
        shares += scale * (weigh or profile)(block, thresholds, weights)
    shares = shares[points]
    if not np.array_equal(columns, np.arange(len(thresholds))):
        shares = shares.take(columns, axis=1)
    shares -= targets
    shares *= 1 / width
    state, most, outcome, *rest = standing
    betting.play(state, most, outcome, shares, *rest)


def sets(
    block: Block, threshold: float | PerLabel | PerRow, *, allow_empty: bool = True
) -> tuple[Ints, Ints]:
    """Return the sizes of the sets, and their labels row after row.

    Without `allow_empty`, a set that would be empty gets the most probable label, and those as probable.
    """
    if isinstance(block, lumped.Block) and not isinstance(threshold, PerLabel | PerRow):
        return lumped.sets(block, threshold, allow_empty=allow_empty)
    if not block.spec.ranked or isinstance(threshold, PerLabel):
        inside = _below(block, threshold)
        if not allow_empty:
            best = block.values.max(axis=1, keepdims=True) if block.spec.ranked else None
            lowest = (
                block.placed == block.placed.min(axis=1, keepdims=True)
                if best is None
                else block.values == best
            )
            inside |= lowest & ~inside.any(axis=1, keepdims=True)
    else:
        # In the order of a row: so many labels, which is all those above a probability.
        q = threshold.values[:, None] if isinstance(threshold, PerRow) else threshold
        sizes = np.count_nonzero(block.along <= q, axis=1)
        if not allow_empty:
            sizes = np.maximum(sizes, 1)
        cuts = block.descending[np.arange(len(sizes)), sizes - 1]
        cuts[sizes == 0] = np.inf
        held = block.scratch.get("inside", block.shape, np.bool_)
        inside = np.greater_equal(block.values, cuts[:, None], out=held)
    flat = np.flatnonzero(inside)
    starts = np.searchsorted(flat, np.arange(len(inside) + 1) * block.shape[1])
    sizes = np.diff(starts)
    return sizes, flat - np.repeat(np.arange(len(inside)) * block.shape[1], sizes)


def down(dtype: np.dtype[np.floating], q: float) -> np.floating:
    """Return the largest value of `dtype` not above q, so that ``s <= q`` keeps its meaning."""
    with np.errstate(over="ignore"):
        rounded = dtype.type(q)
        # As Python floats: NumPy would round q before it compares.
        return rounded if float(rounded) <= q else np.nextafter(rounded, dtype.type(-np.inf))
