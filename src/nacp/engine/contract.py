"""What an engine is: a few verbs, each a pure function of one block of rows.

A block never needs another block, so blocks may be read in any order, by threads, from files or on a cluster:
map the verb, add what comes out. The verbs, as the NumPy engine (`nacp.engine.numpy`) defines them:

=============  ========================================================================================
check          whether rows are probabilities
uniforms       one u per row, a hash of the row
open_block     the rows, ready to be asked about their scores
label_scores   the score of one given label per row
tally          whole numbers per cell: pairs, and their positive and negative weight
window         the pairs that score in some intervals, with their weights
profile        per row, the weight of the set at several thresholds
counts         per label, in how many rows it scores below marks of its own, and up to them
gaps           the pairs of labels that score in gaps of their own, with their weights
squares        whole numbers per cell: pairs, and what they add to the sum of squared sizes of sets
sets           the labels in the sets
bet            how bets on the shares of rows go, one row after the other
play           how bets go, given what points gain: not of rows, but as often done
ascending      pairs in the order of their scores; not of rows either
masked_sums    sums of the rows of a table that masks choose; nor is this
split_cells    how many scores of each row are up to some edges, and pairs by cell, for splits
split_draws    which rows calibrate in splits, and noisy labels for each
split_crossings  where the estimate of splits crosses targets (`SplitTable`): by who knows the cells of pairs
fetch          rows of bytes from a file
=============  ========================================================================================

Weights of pairs are all equal (None), by the row's given label (`ByLabel`), or by entry (`ByEntry`), and
whole numbers: their sums are the same in any order. A threshold is one number, one per label (`PerLabel`) or
one per row (`PerRow`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine.codes import Codes, codes_of_formula
from nacp.engine.formula import Expression, Formula


@dataclass(frozen=True)
class Spec:
    """A score, as data.

    Attributes
    ----------
    formula : Expression or callable
        The native score of a label. Of a ranked score in terms of where the label stands in its row; of a
        pointwise one in terms of ``p`` alone, the entry as it is.
    ranked : bool
        Whether the score rises (or stays) as one goes down the row from the most to the least probable label.
    seed : int or None
        The key of the hash that gives each row its u; None if the score is not randomised.
    of_rows : callable or None
        In place of a formula: a function from a block to its native scores. For the NumPy engine only.
    """

    formula: Formula | None = None
    ranked: bool = False
    seed: int | None = None
    of_rows: Callable[[Array], Array] | None = None

    @property
    def by_entry(self) -> bool:
        """Whether the score of a label depends on its own entry alone."""
        return not self.ranked and isinstance(self.formula, Expression)

    @cached_property
    def codes(self) -> Codes | None:
        """The formula for an engine that is not Python, if it can be written so."""
        return codes_of_formula(self.formula, ranked=self.ranked)


class Table(Protocol):
    """A k x k matrix of weights, whose entries can be asked for; it need not be written out."""

    def rest(self, rows: Ints, columns: Ints | None = None) -> Array:
        """Return the entries at the given places; without columns, whole rows. As a new array."""


@dataclass(frozen=True)
class Whole:
    """A table of weights that are whole numbers, written out."""

    whole: Ints

    def rest(self, rows: Ints, columns: Ints | None = None) -> Ints:
        """Return the entries at the given places; without columns, whole rows."""
        found: Ints = self.whole[rows] if columns is None else self.whole[rows, columns]
        return found


@dataclass(frozen=True)
class ByLabel:
    """A pair's weight is ``table[label of its row, label]``; in multiples of `unit`, if there is one."""

    labels: Ints
    table: Table
    unit: float | None = None

    def at(self, rows: Ints, columns: Ints) -> Array:
        """Return the weights of the pairs of so many rows and columns."""
        return self._in_units(self.table.rest(self.labels[rows], columns))

    def all(self) -> Array:
        """Return the weights of all pairs: (rows, k)."""
        return self._in_units(self.table.rest(self.labels))

    def _in_units(self, weights: Array) -> Array:
        if self.unit is None:
            return weights
        weights /= self.unit
        return np.rint(weights, out=weights).astype(np.int64)


@dataclass(frozen=True)
class ByEntry:
    """A pair's weight is the entry of a matrix of the block's shape."""

    values: Array

    def at(self, rows: Ints, columns: Ints) -> Array:
        """Return the weights of the pairs of so many rows and columns."""
        found: Array = self.values[rows, columns]
        return found

    def all(self) -> Array:
        """Return the weights of all pairs: (rows, k)."""
        return self.values


Weights: TypeAlias = ByLabel | ByEntry | None


class PerLabel(NamedTuple):
    """One threshold for each label: shape (k,); of several, shape (thresholds, k)."""

    values: Floats


class PerRow(NamedTuple):
    """One threshold for each row: shape (rows,); of several, shape (thresholds, rows)."""

    values: Floats


Thresholds: TypeAlias = Floats | PerLabel | PerRow


class Unchecked(NamedTuple):
    """Rows of which nobody knows yet whether they are probabilities, whose sums may miss 1 by a tolerance.

    An engine may check them when they are opened, or on the way; `confirm` is told what it found.
    """

    tolerance: float
    confirm: Callable[[bool], None]


class Pairs(NamedTuple):
    """Pairs (row, label): their native scores, and their whole-number weights if these are not all equal."""

    scores: Floats
    weights: Ints


class Chosen(NamedTuple):
    """Some rows of a matrix in memory, which are looked at where they lie."""

    matrix: Array
    rows: Ints

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the matrix."""
        return self.matrix.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns they have."""
        return len(self.rows), self.matrix.shape[1]

    def copied(self) -> Array:
        """Return them one after the other."""
        return self.matrix.take(self.rows, axis=0)


class Keep(NamedTuple):
    """Pairs that are to be handed out while all are counted: those that score in some intervals (low, high],
    ascending and disjoint. `take` is told how many labels of each row they are, their scores, and the labels,
    if these are wanted. About so many are `expected`.
    """

    spans: Sequence[tuple[float, float]]
    take: Callable[[Ints, Floats, Ints], None]
    expected: int = 0
    labels: bool = True


class CellPairs(NamedTuple):
    """Pairs by cell between edges: where each cell starts, and at last all end; scores; rows of int32.

    And the cell of every pair, kept or not, of uint16: (n, k), if the engine can do splits at once.
    """

    starts: Ints
    scores: Floats
    rows: Array
    cells: Array | None = None


class SplitTable(NamedTuple):
    """What many splits of the same rows share, by cells between edges.

    Attributes
    ----------
    edges : array of shape (cells - 1,)
        A score is in the cell of the number of edges below it.
    rows : array of int32 of shape (2, n)
        The true labels, and the rows in the order of their scores.
    scores : array of shape (n,)
        These scores, ascending.
    starts : array of int64 of shape (4, cells + 1)
        Where each cell starts in that order, and among the pairs; how many pairs of all rows are below; and
        whether its pairs are known: 0 if not, 1 in any order, 2 ascending.
    pair_scores, pair_rows : arrays, of float64 and int32
        Pairs, by cell.
    cells : array of uint16 of shape (n, k)
        The cell of each pair.
    values : array of shape (n, k)
        The scores of all pairs, or minus them.
    minus : bool
        Which of both.
    """

    edges: Floats
    rows: Array
    scores: Floats
    starts: Ints
    pair_scores: Floats
    pair_rows: Array
    cells: Array
    values: Array
    minus: bool


# How far a split is: done, not begun, or to be done by who asked. Else the number of a cell whose pairs have
# to be put in order first. As in splits.h.
DONE_SPLIT, NEW_SPLIT, OTHER_SPLIT = -1, -2, -3
