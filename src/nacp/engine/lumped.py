"""Rows of which the largest entries are given, and all others are the same: the verbs on these alone.

The others of a row, its lump, stand in one place, so they have one score. Computed are the scores of the
entries that are given and of one more, with the same bits as those of whole rows.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.engine import block as block_
from nacp.engine.cells import CELLS, codes_of
from nacp.engine.contract import ByEntry, ByLabel, Pairs, Spec, Weights
from nacp.engine.formula import Expression
from nacp.engine.hashing import hash_plan, mixed_uniforms
from nacp.engine.ranks import Ranks, evaluate
from nacp.engine.scratch import Scratch
from nacp.tuning import tuning


class Lumped(NamedTuple):
    """Rows of k entries: those that are given, descending, and what all the others of a row are."""

    columns: Ints  # (rows, kept)
    values: Array  # (rows, kept)
    others: Array  # (rows,)
    k: int

    @property
    def number(self) -> int:
        """How many others a row has."""
        return self.k - int(self.columns.shape[1])

    def whole(self) -> Array:
        """Return the rows written out."""
        found: Array = np.repeat(self.others[:, None], self.k, axis=1)
        np.put_along_axis(found, self.columns, self.values, axis=1)
        return found

    def at(self, columns: Ints) -> Array:
        """Return some columns of the rows."""
        found: Array = np.repeat(self.others[:, None], len(columns), axis=1)
        order = np.argsort(columns)
        place = np.minimum(np.searchsorted(columns[order], self.columns), len(columns) - 1)
        row, kept = np.nonzero(columns[order][place] == self.columns)
        found[row, order[place[row, kept]]] = self.values[row, kept]
        return found

    def uniforms(self, seed: int) -> Floats:
        """Return the uniform number of each row."""
        columns, keys = hash_plan(self.k, int(seed) % (1 << 64))
        return mixed_uniforms(np.column_stack([self.at(columns), self.values[:, 0]]), keys)


class Block(block_.Block):
    """Such rows and their scores."""

    def __init__(self, rows: Lumped, spec: Spec, u: Floats | None = None) -> None:
        self.rows, self.spec, self.scratch = rows, spec, Scratch()
        self.shape, self._coded, self._codes = (len(rows.columns), rows.k), None, None
        if spec.seed is not None:
            u = rows.uniforms(spec.seed) if u is None else u
        self.u = u
        self.given, self.lump = scored(rows.values, rows.others, rows.number, spec, u)

    def prepare(self, *, placed: bool) -> None:
        pass  # they are computed

    @property
    def placed(self) -> Array:
        """The scores in the places of the labels, written out."""
        found: Array = np.repeat(self.lump[:, None], self.shape[1], axis=1)
        np.put_along_axis(found, self.rows.columns, self.given, axis=1)
        return found

    @property
    def values(self) -> Array:  # type: ignore[override]  # made when it is asked for
        """The rows, written out."""
        return self.rows.whole()


def scored(values: Array, others: Array, number: int, spec: Spec, u: Floats | None) -> tuple[Floats, Floats]:
    """Return the scores of entries in descending order, and that of so many others after them."""
    entries = np.column_stack([values, others])
    ranks = _Ranks(entries, u, number) if spec.ranked else block_._Entries(entries)
    formula = spec.formula
    assert formula is not None
    found = evaluate(formula, ranks, Scratch()) if isinstance(formula, Expression) else formula(ranks)
    scores = np.broadcast_to(block_.lowest_finite(np.asarray(found, dtype=np.float64)), entries.shape)
    return scores[:, :-1], scores[:, -1]


class _Ranks(Ranks):
    """Where entries stand in their rows, of which the last stands for so many."""

    def __init__(self, values: Array, u: Floats | None, number: int) -> None:
        super().__init__(values, u, Scratch(), tied=True)
        self._number, self._last = number, values == values[:, -1:]

    @property
    def n_upto(self) -> Ints:
        return super().n_upto + np.where(self._last, self._number - 1, 0)

    @property
    def upto(self) -> Floats:
        # Whole multiples of 2^-52 below 2, so nothing is rounded.
        mass = np.take_along_axis(self._mass, super().n_upto, axis=1)
        return mass + np.where(self._last, (self._number - 1) * self.p[:, -1:], 0.0)


def label_scores(block: Block, labels: Ints) -> Floats:
    """Return the native score of one given label per row."""
    found = block.lump.copy()
    row, kept = np.nonzero(block.rows.columns == labels[:, None])
    found[row] = block.given[row, kept]
    return found


def tally(block: Block, edges: Floats | None = None, weights: Weights = None) -> Ints:
    """Return pairs, gains and losses, shape (3, cells): see `nacp.engine.numpy.tally`."""
    scores = np.concatenate([block.given.ravel(), block.lump])
    number = CELLS if edges is None else len(edges) - 1
    if edges is None:
        codes, table = codes_of(scores, Scratch())
        cells = table[codes]
    else:
        cells = np.searchsorted(edges, scores, side="left") - 1
    inside = (cells >= 0) & (cells < number)
    pairs = np.ones(len(scores), dtype=np.int64)
    pairs[block.given.size :] = block.rows.number
    sums = [pairs]
    if weights is not None:
        given, gains, losses = _weighed(block, weights)
        sums += [np.append(np.maximum(given, 0), gains), np.append(np.maximum(-given, 0), losses)]
    found = np.zeros((len(sums), number), dtype=np.int64)
    for total, part in zip(found, sums, strict=True):
        np.add.at(total, cells[inside], part[inside])
    return found


def ascending(block: Block) -> tuple[Floats, Ints]:
    """Return the scores of each row in ascending order, that of its lump once, and how often they come."""
    scores = np.column_stack([block.given, block.lump])
    times = np.ones(scores.shape, dtype=np.int64)
    times[:, -1] = block.rows.number
    order = np.argsort(scores, axis=1, kind="stable")
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(times, order, axis=1)


def _weighed(block: Block, weights: ByLabel | ByEntry) -> tuple[Ints, Ints, Ints]:
    """Return the weights of the given entries, and the positive and negative weight of each lump."""
    given = np.empty(block.given.shape, dtype=np.int64)
    gains, losses = np.empty((2, len(given)), dtype=np.int64)
    for some, every in _every_weight(block, weights):
        given[some] = mine = np.take_along_axis(every, block.rows.columns[some], axis=1)
        gains[some] = np.maximum(every, 0).sum(axis=1) - np.maximum(mine, 0).sum(axis=1)
        losses[some] = np.maximum(-every, 0).sum(axis=1) - np.maximum(-mine, 0).sum(axis=1)
    return given, gains, losses


def _every_weight(block: Block, weights: ByLabel | ByEntry) -> Iterator[tuple[slice, Ints]]:
    """Yield the weights of all pairs of some rows at a time."""
    step = max(1, tuning().block_entries // block.shape[1])
    for start in range(0, block.shape[0], step):
        some = slice(start, min(start + step, block.shape[0]))
        if isinstance(weights, ByLabel):
            part: Array = ByLabel(weights.labels[some], weights.table, weights.unit).all()
        else:
            part = weights.values[some]
        yield some, part.astype(np.int64, copy=False)


def window(block: Block, spans: Sequence[tuple[float, float]], weights: Weights = None) -> Pairs:
    """Return the pairs that score in one of some intervals (low, high], which are ascending and disjoint."""
    lows, highs = np.reshape(spans, (-1, 2)).T
    given, lump = (_within(scores, lows, highs) for scores in (block.given, block.lump))
    scores = np.concatenate([block.given[given], np.repeat(block.lump[lump], block.rows.number)])
    if weights is None:
        return Pairs(scores, np.empty(0, dtype=np.int64))
    mine, others = [], []
    for some, every in _every_weight(block, weights):
        mine.append(np.take_along_axis(every, block.rows.columns[some], axis=1)[given[some]])
        left = np.ones(every.shape, dtype=bool)
        np.put_along_axis(left, block.rows.columns[some], False, axis=1)
        left &= lump[some, None]
        others.append(every[left])
    return Pairs(scores, np.concatenate([*mine, *others]))


def _within(scores: Floats, lows: Floats, highs: Floats) -> Bools:
    if not len(lows):
        return np.zeros(scores.shape, dtype=bool)
    place = np.minimum(np.searchsorted(highs, scores, side="left"), len(highs) - 1)
    found: Bools = (scores > lows[place]) & (scores <= highs[place])
    return found


def profile(block: Block, thresholds: Floats, weights: Weights = None) -> Ints:
    """Return the weight of each row's set at each threshold; by default its size: (rows, thresholds)."""
    rows, m = block.given.shape
    given, lump = np.ones((rows, m), dtype=np.int64), np.full(rows, block.rows.number)
    if weights is not None:
        given, gains, losses = _weighed(block, weights)
        lump = gains - losses
    # What enters a set at each threshold, and beyond the last.
    found = np.zeros((rows, len(thresholds) + 1), dtype=np.int64)
    row = np.arange(rows)
    np.add.at(found, (row[:, None], np.searchsorted(thresholds, block.given)), given)
    np.add.at(found, (row, np.searchsorted(thresholds, block.lump)), lump)
    return np.cumsum(found[:, :-1], axis=1)


def sets(block: Block, threshold: float, *, allow_empty: bool = True) -> tuple[Ints, Ints]:
    """Return the sizes of the sets, and their labels row after row."""
    inside, every = block.given <= threshold, block.lump <= threshold
    if not allow_empty:
        empty = ~inside.any(axis=1) & ~every
        lowest, others = block.given, block.lump
        if block.spec.ranked:
            lowest, others = -block.rows.values, -block.rows.others
        inside |= (lowest == lowest[:, :1]) & empty[:, None]
        every |= (others == lowest[:, 0]) & empty
    sizes = np.where(every, block.shape[1], np.count_nonzero(inside, axis=1))
    labels = np.sort(np.where(inside, block.rows.columns, block.shape[1]), axis=1)
    parts = [
        np.arange(block.shape[1]) if whole else row[:size]
        for row, size, whole in zip(labels, sizes.tolist(), every.tolist(), strict=True)
    ]
    return sizes, np.concatenate([np.zeros(0, dtype=np.int64), *parts])
