"""The NumPy engine: always there, and the definition of what the verbs return. See `nacp.engine.contract`."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.engine.cells import CELLS, codes_between, codes_of, negated_codes
from nacp.engine.contract import ByEntry, ByLabel, Pairs, PerLabel, PerRow, Spec, Thresholds, Weights
from nacp.engine.formula import Expression
from nacp.engine.hashing import hashed_uniforms
from nacp.engine.ranks import (
    LabelRanks,
    Ranks,
    descending_rows,
    evaluate,
    rounds_once,
    sorted_places,
    tied_rows,
)
from nacp.engine.scratch import Scratch
from nacp.errors import InputError
from nacp.stats import betting
from nacp.tuning import tuning

NAME = "numpy"
walk = betting.walk


def check(values: Array, tolerance: float) -> bool:
    """Return whether rows are probabilities: none negative or above 1, and each row sums to 1."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = values @ np.ones(values.shape[1], dtype=values.dtype)
    if not values.min() >= 0 or not np.all(np.abs(sums - 1) <= tolerance):
        return False
    # Where nothing is negative and no row sums to more than 1, no entry exceeds 1.
    return bool(sums.max() <= 1 + 8 * np.finfo(values.dtype).eps or values.max() <= 1)


def uniforms(values: Array, seed: int) -> Floats:
    """Return one u in [0, 1) per row."""
    return hashed_uniforms(values, seed)


class Block:
    """A block of rows, opened: native scores, in the places of the labels or in any order within the row.

    What is computed lies in scratch memory: it holds until the next block is opened with the same scratch.
    """

    def __init__(self, values: Array, spec: Spec, scratch: Scratch, u: Floats | None = None) -> None:
        self.values, self.spec, self.scratch, self._u = values, spec, scratch, u
        self.shape: tuple[int, int] = values.shape
        self._coded: Array | None = None
        self._codes: tuple[Array, Ints] | None = None

    def part(self, rows: slice) -> "Block":
        """Return some of the rows as a block, with the scores that are there already."""
        part = Block(self.values[rows], self.spec, Scratch(), None if self.u is None else self.u[rows])
        for name in {"placed", "along"} & vars(self).keys():
            vars(part)[name] = vars(self)[name][rows]
        return part

    @cached_property
    def u(self) -> Floats | None:
        """The rows' uniform numbers, if the score is randomised."""
        if self.spec.seed is None:
            return None
        return uniforms(self.values, self.spec.seed) if self._u is None else self._u

    @cached_property
    def descending(self) -> Array:
        """The rows in descending order."""
        return descending_rows(self.values, self.scratch)

    @cached_property
    def placed(self) -> Array:
        """The scores in the places of the labels."""
        if not self.spec.ranked:
            return self._pointwise()
        for name in ("along", "descending"):  # they lie where this is computed
            vars(self).pop(name, None)
        values, places = sorted_places(self.values, self.scratch)
        placed = self.scratch.get("placed", self.shape, np.float64)
        placed.reshape(-1)[places.reshape(-1)] = self._ranked(values).reshape(-1)
        return placed

    @cached_property
    def along(self) -> Array:
        """The scores of each row from the most probable label down; as placed if the score is not ranked."""
        return self._ranked(self.descending) if self.spec.ranked else self.placed

    def prepare(self, *, placed: bool) -> None:
        """Compute the scores for all who are going to ask, instead of once in order and once in place."""
        self.scores(placed=placed)

    def scores(self, *, placed: bool) -> Array:
        """Return the scores: as placed if that matters or they are there already, else in any order."""
        return self.placed if placed or "placed" in vars(self) else self.along

    def codes(self, *, placed: bool) -> tuple[Array, Ints]:
        """Return small numbers for the same scores, flat, and the table of the cells that they stand for."""
        if self.codes_are_bits:
            return negated_codes(self.values)
        scores = self.scores(placed=placed)
        if self._codes is None or self._coded is not scores:
            self._coded, self._codes = scores, codes_of(scores, self.scratch)
        return self._codes

    def at(self, flat: Ints, *, placed: bool) -> Floats:
        """Return the same scores at some flat places; of a pointwise score, computed there alone."""
        if self.is_minus_p:
            return np.negative(self.values.reshape(-1)[flat], dtype=np.float64)
        formula = self.spec.formula
        if self.spec.ranked or not isinstance(formula, Expression) or "placed" in vars(self):
            found: Array = self.scores(placed=placed).reshape(-1)[flat]
        else:
            found = _lowest_finite(evaluate(formula, _Entries(self.values.reshape(-1)[flat]), Scratch()))
        return found.astype(np.float64)

    @cached_property
    def is_minus_p(self) -> bool:
        """Whether the score is -p."""
        formula = self.spec.formula
        return not self.spec.ranked and isinstance(formula, Expression) and repr(formula) == "negative(p)"

    @property
    def codes_are_bits(self) -> bool:
        """Whether cells need no arithmetic: they are the leading bits of the rows themselves."""
        return self.is_minus_p and self.values.dtype == np.float32

    def _ranked(self, values: Array) -> Array:
        """Return the scores of rows in descending order."""
        tied = tied_rows(values, self.scratch)
        most = len(tied) > len(values) // 2
        scores = self._evaluated(values, self.u, self.scratch, tied=most)
        if len(tied) and not most:
            u = None if self.u is None else self.u[tied]
            if not scores.flags.writeable:
                scores = scores.copy()
            scores[tied] = self._evaluated(values[tied], u, Scratch(), tied=True)
        # The lowest score of a row is that of its most probable label.
        return _lowest_finite(scores) if np.isneginf(scores[:, 0]).any() else scores

    def _evaluated(self, values: Array, u: Floats | None, scratch: Scratch, *, tied: bool) -> Array:
        ranks, formula = Ranks(values, u, scratch, tied=tied), self.spec.formula
        if isinstance(formula, Expression):
            scores = evaluate(formula, ranks, scratch)
        else:
            assert formula is not None
            scores = formula(ranks)
        scores = np.asarray(scores, dtype=np.float64)
        return scores if scores.shape == values.shape else np.broadcast_to(scores, values.shape)

    def _pointwise(self) -> Array:
        if isinstance(self.spec.formula, Expression):
            scores: Array = evaluate(self.spec.formula, _Entries(self.values), self.scratch)
        else:
            assert self.spec.of_rows is not None
            scores = self._checked(self.spec.of_rows(self.values))
        return scores if self.is_minus_p else _lowest_finite(scores)

    def _checked(self, found: Array) -> Array:
        scores = np.asarray(found, dtype=np.float64)
        if scores.shape != self.shape:
            raise InputError(
                "score",
                f"returned an array of shape {scores.shape} for {self.shape} probabilities; it must return "
                "one score per entry",
            )
        if np.isnan(scores).any():
            raise InputError("score", "returned NaN; it must return numbers (inf is allowed)")
        return scores


def _lowest_finite(scores: Array) -> Array:
    """Return scores with the best possible one, -inf, as the lowest number, which orders alike."""
    if not np.isneginf(scores.min(initial=0)):
        return scores
    lifted: Array = np.maximum(scores, np.finfo(scores.dtype).min)
    return lifted


class _Entries(NamedTuple):
    """The one quantity of a pointwise score."""

    p: Array


def open_block(values: Array, spec: Spec, scratch: Scratch | None = None, u: Floats | None = None) -> Block:
    """Return rows ready to be asked about their scores; `u` are their uniform numbers, if these are known."""
    return Block(np.ascontiguousarray(values), spec, Scratch() if scratch is None else scratch, u)


def label_scores(block: Block, labels: Ints) -> Floats:
    """Return the native score of one given label per row."""
    rows, formula = np.arange(len(labels)), block.spec.formula
    if not block.spec.ranked:
        return block.at(rows * block.shape[1] + labels, placed=True)
    label = LabelRanks(block.values, labels, block.u, block.scratch)
    if isinstance(formula, Expression) and rounds_once(formula):
        found: Floats = _lowest_finite(evaluate(formula, label, Scratch()).astype(np.float64).reshape(-1))
        return found
    # Equal probabilities have equal scores, so the first of them stands for all.
    found = block.along[rows, label.n_above[:, 0]]
    return found


def tally(block: Block, edges: Floats | None = None, weights: Weights = None, limit: float = np.inf) -> Ints:
    """Return pairs, gains and losses, shape (3, cells): their number, positive and negative weight.

    With `edges`, for the cells ``(edges[i], edges[i + 1]]``; without, for all cells of `nacp.engine.cells`.
    Where all weights are equal, the pairs alone, shape (1, cells). Of all cells, an engine may count what
    scores above the limit (an edge of cells) in lower cells than its own, if these are above the limit,
    too; this engine does not.
    """
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


def _counted(scores: Array, edges: Floats) -> Ints:
    """Return the tally between a few edges, by comparing all scores with each."""
    most = [np.count_nonzero(scores <= _down(scores.dtype, q)) for q in edges]
    return np.diff(most)[None]


def _weights(block: Block, weights: ByLabel | ByEntry, flat: Ints | None) -> Ints:
    """Return the whole-number weights of pairs, flat."""
    found = weights.all() if flat is None else weights.at(*np.divmod(flat, block.shape[1]))
    return found.astype(np.int64, copy=False).reshape(-1)


def window(block: Block, spans: Sequence[tuple[float, float]], weights: Weights = None) -> Pairs:
    """Return the pairs that score in one of some intervals (low, high], which are ascending and disjoint."""
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
    exact = found > (lows[0] if len(spans) == 1 else lows[np.searchsorted(highs, found, side="left")])
    return flat[exact], found[exact]


def _compare(block: Block, q: float, out: Bools, *, placed: bool, above: bool = False) -> None:
    """Say which scores are at most q, or above it; where they are -p, by comparing the rows with -q."""
    if block.is_minus_p:
        p, limit = block.values.reshape(-1), -_down(block.values.dtype, q)
        (np.less if above else np.greater_equal)(p, limit, out=out)
    else:
        scores = block.scores(placed=placed).reshape(-1)
        (np.greater if above else np.less_equal)(scores, _down(scores.dtype, q), out=out)


def profile(block: Block, thresholds: Thresholds, weights: Weights = None) -> Array:
    """Return the weight of each row's set at each threshold, shape (rows, thresholds); by default its size.

    Thresholds that are one number each must ascend.
    """
    if isinstance(thresholds, PerLabel | PerRow):
        found = [_weighed(_below(block, each), block, weights) for each in _each(thresholds)]
        return np.stack(found, axis=1)
    placed, low = weights is not None, block.scratch.get("inside", (block.values.size,), np.bool_)
    _compare(block, float(thresholds[0]), low, placed=placed)
    base = _weighed(low.reshape(block.shape), block, weights)
    if len(thresholds) == 1:
        return base[:, None]
    flat, inside = _inside(block, [(float(thresholds[0]), float(thresholds[-1]))], placed=placed)
    rows, columns = np.divmod(flat, block.shape[1])
    cells = rows * len(thresholds) + np.searchsorted(thresholds, inside, side="left")
    if weights is None:
        added = np.bincount(cells, minlength=base.size * len(thresholds))
    else:
        added = np.zeros(base.size * len(thresholds), dtype=np.int64)
        np.add.at(added, cells, weights.at(rows, columns))
    added = added.reshape(-1, len(thresholds))
    return np.cumsum(added, axis=1, out=added) + base[:, None]


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
    below: Bools = block.placed <= _down(block.placed.dtype, threshold)
    return below


def sets(
    block: Block, threshold: float | PerLabel | PerRow, *, allow_empty: bool = True
) -> tuple[Ints, Ints]:
    """Return the sizes of the sets, and their labels row after row.

    Without `allow_empty`, a set that would be empty gets the most probable label, and those as probable.
    """
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


def _down(dtype: np.dtype[np.floating], q: float) -> np.floating:
    """Return the largest value of `dtype` not above q, so that ``s <= q`` keeps its meaning."""
    with np.errstate(over="ignore"):
        rounded = dtype.type(q)
        # As Python floats: NumPy would round q before it compares.
        return rounded if float(rounded) <= q else np.nextafter(rounded, dtype.type(-np.inf))
