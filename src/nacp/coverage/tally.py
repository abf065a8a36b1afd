"""Samples and tallies: points with given labels, and integer histograms of their scores over the grid.

Most guarantees need nothing but a tally.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.coverage.grid import CELLS, COARSE
from nacp.engine import Spec
from nacp.errors import InputError
from nacp.noise.matrices import ClassMatrix
from nacp.points import Rows
from nacp.scores import Score

MOST_POINTS = 1 << 26
"""The largest number of points whose sums of weights fit into int64, if pairs have different weights."""
PART = 2.0**-30  # The unit in which the parts of several labels are counted.
_TABLE_SIZE_MAX = 1 << 22  # Larger tables of weights by label are computed per block.


@dataclass(frozen=True, eq=False)
class Sample:
    """Points with given labels.

    Attributes
    ----------
    rows : Rows
        The checked rows.
    labels : array of shape (n, a)
        The given labels of each point, as numbers; ``label + k annotator`` if annotators have different noise
        models. The number of a missing label is arbitrary; its part is 0.
    parts : array of shape (n, a)
        The weight of each label within its point; the parts of a point sum to 1, and missing labels have 0.
    score : Score
        The score.
    label_scores : array of shape (n, a)
        The native scores of the labels.
    several : bool
        Whether points may have several labels.
    """

    rows: Rows
    labels: Ints
    parts: Floats
    score: Score
    label_scores: Floats
    several: bool = False

    @classmethod
    def of(cls, rows: Rows, labels: Ints, score: Score, parts: Floats | None = None) -> "Sample":
        """Score the labels of rows: one per row, or several in columns, with -1 for missing ones."""
        several = labels.ndim == 2
        table = labels if several else labels[:, None]
        if parts is None:
            parts = (table >= 0) / np.maximum(np.count_nonzero(table >= 0, axis=1, keepdims=True), 1)
        numbers, spec = np.maximum(table, 0), score.spec

        scores = np.empty(numbers.shape)

        def score_labels(values: Array, where: slice | Ints) -> None:
            for place, label in enumerate((numbers[where] % rows.k).T):
                scores[where, place] = engine.of(values).label_scores(values, spec, label)

        deque(rows.map(score_labels), maxlen=0)
        return cls(rows, numbers, parts, score, scores, several)

    @property
    def n(self) -> int:
        """The number of points."""
        return self.rows.n

    @property
    def k(self) -> int:
        """The number of classes."""
        return self.rows.k

    @cached_property
    def label_cells(self) -> Ints:
        """The cells of the labels' scores: (n, a)."""
        return self.score.spec.cells_of(self.label_scores)

    @property
    def given(self) -> int:
        """The total number of given labels."""
        return int(np.count_nonzero(self.parts))

    def some(self, rows: Ints) -> "Sample":
        """Return some of the points."""
        return replace(
            self, rows=self.rows.some(rows), labels=self.labels[rows], parts=self.parts[rows],
            label_scores=self.label_scores[rows],
        )  # fmt: skip

    def shuffled(self, seed: int) -> Ints:
        """Return the rows in a random order that is independent of other generators with the same seed."""
        return np.random.default_rng([seed, 3]).permutation(self.n)


class Weights:
    """The weights of pairs (row, label) in the estimate, as integers: ``W = diag(own) + rest``.

    Parameters
    ----------
    inverse : ClassMatrix
        W.
    several : bool
        Whether points have several labels.
    points : int, optional
        The largest number of points that the unit allows; tallies to be added must use the same number.

    Attributes
    ----------
    constant : float or None
        The entry of `rest` if all are equal: then pairs are counted. Otherwise weights are rounded to whole
        multiples of `unit`, so that their sums do not depend on the order.
    own : array
        The additional weight of each given label.
    """

    def __init__(self, inverse: ClassMatrix, several: bool = False, points: int = MOST_POINTS) -> None:
        self.inverse, self.own, self.several = inverse, inverse.own, several
        alike = not several and bool((self.own == self.own[0]).all())
        self.constant = inverse.constant if alike else None
        self.unit = 1.0
        if self.constant is None:
            (low, high), diagonal = inverse.row_ranges, inverse.diagonal
            rest = high - low - np.abs(diagonal) + np.abs(diagonal - self.own)
            size = max(rest.max() + np.abs(self.own).max(), 2.0**-60)  # of one point's weights
            self.unit = float(2.0 ** (np.ceil(np.log2(size)) + np.ceil(np.log2(points)) - 62))

    def whole(self, weights: Floats) -> Ints:
        """Return weights as whole numbers."""
        found: Ints = np.rint(weights / self.unit).astype(np.int64)
        return found

    @cached_property
    def _table(self) -> Ints | None:
        number = len(self.own)
        if self.constant is not None or number * self.inverse.k > _TABLE_SIZE_MAX:
            return None
        return self.whole(self.inverse.rest(np.arange(number)))

    def of(self, sample: Sample, where: slice | Ints) -> tuple[Ints | None, Ints | None]:
        """Return for some rows of a sample the indices of their weights in a table, and the table.

        Both are None if all pairs have the same weight.
        """
        if self.constant is not None:
            return None, None
        labels, parts = sample.labels[where], sample.parts[where]
        if labels.shape[1] == 1:
            if self._table is not None:
                return labels[:, 0], self._table
            return np.arange(len(labels)), self.whole(self.inverse.rest(labels[:, 0]))
        mean = sum(part[:, None] * self.inverse.rest(y) for y, part in zip(labels.T, parts.T, strict=True))
        return np.arange(len(labels)), self.whole(np.asarray(mean))


@dataclass(frozen=True, eq=False)
class Tally:
    """Histograms of scores over the cells of the grid; tallies are added by ``+`` and subtracted by ``-``.

    Attributes
    ----------
    n, k : int
        The numbers of points and of classes.
    by_label : array of int
        The number of points with each class as their label; several labels of a point count in part.
    cells : array of shape (m,)
        The cells that contain pairs, ascending: places in ``nacp.coverage.grid.GRID``.
    hits, pairs : arrays of shape (m,)
        The numbers of given labels and of all labels whose scores are in each cell.
    gains, losses : arrays of shape (m,) or None
        The sums of the positive and of the negative weights of the pairs, in multiples of `unit`; None if all
        pairs have the same weight.
    squares : array or None
        The sum over the rows of the squared set size at each of ``nacp.coverage.grid.COARSE``, if tallied.
    unit, part : float
        The units of `gains` and `losses`, and of `by_label`.

    Examples
    --------
    >>> import nacp
    >>> cal = nacp.calibrate([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], [0, 1], noise=0.1, guarantee="none")
    >>> cal.tally.pairs.tolist(), (cal.tally + cal.tally).hits.tolist()
    ([2, 4], [4, 0])
    """

    n: int
    k: int
    by_label: Ints
    cells: Ints
    hits: Ints
    pairs: Ints
    gains: Ints | None = None
    losses: Ints | None = None
    squares: Ints | None = None
    unit: float = 1.0
    part: float = 1.0

    @classmethod
    def of(cls, sample: Sample, weights: Weights, squares: bool = False) -> "Tally":
        """Tally a sample in one pass over its rows."""
        kinds = 1 if weights.constant is not None else 3
        if kinds == 3 and sample.n > MOST_POINTS:
            raise InputError("probs", f"can have at most {MOST_POINTS:,} points under this noise model")
        weights_of = partial(weights.of, sample)
        low, counts, squared = _counted(sample.rows, sample.score.spec, weights_of, kinds, squares)
        there = sample.parts > 0
        labels, parts = sample.labels[there], sample.parts[there]
        # The score of a given label was counted as a pair, so its cell is among those found.
        places = sample.label_cells[there] - low
        hits = np.bincount(places, minlength=counts.shape[1])
        if kinds == 3:
            whole = weights.whole(weights.own[labels] * parts)
            np.add.at(counts[1], places, np.maximum(whole, 0))
            np.add.at(counts[2], places, np.maximum(-whole, 0))
        part = PART if sample.several else 1.0
        by_label = np.zeros(len(weights.own), dtype=np.int64)
        np.add.at(by_label, labels, np.rint((parts if sample.several else 1.0) / part).astype(np.int64))
        cells = np.flatnonzero(counts[0])
        pairs, gains, losses = (*counts[:, cells], None, None)[:3]
        counted = cells + low, hits[cells], pairs, gains, losses, squared
        return cls(sample.n, sample.k, by_label, *counted, weights.unit, part)

    @classmethod
    def of_rows(cls, rows: Rows, spec: Spec) -> "Tally":
        """Tally rows without labels."""
        low, (pairs,), squared = _counted(rows, spec, lambda _: (None, None), 1, squares=True)
        cells, by_label = np.flatnonzero(pairs), np.zeros(rows.k, dtype=np.int64)
        return cls(rows.n, rows.k, by_label, cells + low, np.zeros_like(cells), pairs[cells], squares=squared)

    @property
    def counts(self) -> list[Ints]:
        """The histograms that are present."""
        return [each for each in (self.hits, self.pairs, self.gains, self.losses) if each is not None]

    def __add__(self, other: "Tally") -> "Tally":
        return self._with(other, 1)

    def __sub__(self, other: "Tally") -> "Tally":
        return self._with(other, -1)

    def _with(self, other: "Tally", sign: int) -> "Tally":
        for name in ("k", "unit", "part"):
            if getattr(self, name) != getattr(other, name):
                raise InputError("tally", "can only be added to one with the same classes and noise model")
        if len(self.counts) != len(other.counts) or (self.squares is None) != (other.squares is None):
            raise InputError("tally", "can only be added to one with the same classes and noise model")
        places = np.searchsorted(self.cells, other.cells)
        new = np.append(self.cells, CELLS)[places] != other.cells
        cells = np.insert(self.cells, places[new], other.cells[new])
        counts = np.insert(self.counts, places[new], 0, axis=1)
        counts[:, np.searchsorted(cells, other.cells)] += sign * np.stack(other.counts)
        by_label, n = self.by_label + sign * other.by_label, self.n + sign * other.n
        if min(counts.min(initial=0), by_label.min(), n) < 0:
            raise InputError("tally", "cannot be subtracted: the other one does not contain its points")
        if sign < 0:
            some = np.flatnonzero(counts.any(axis=0))
            cells, counts = cells[some], counts[:, some]
        hits, pairs, gains, losses = (*counts, None, None)[:4]
        squares = None
        if self.squares is not None and other.squares is not None:
            squares = self.squares + sign * other.squares
        return replace(
            self, n=n, by_label=by_label, cells=cells, hits=hits, pairs=pairs, gains=gains,
            losses=losses, squares=squares,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__
        )

    __hash__ = None  # type: ignore[assignment]  # arrays


def _counted(
    rows: Rows,
    spec: Spec,
    weights_of: Callable[[slice | Ints], tuple[Ints | None, Ints | None]],
    kinds: int,
    squares: bool,
) -> tuple[int, Ints, Ints | None]:
    """Return the first cell that contains a pair, histograms from it to the last, and squared set sizes."""

    def count(values: Array, where: slice | Ints) -> tuple[int, Ints, Ints | None]:
        found = engine.of(values).tally(values, spec, *weights_of(where))
        return *found, _squares(values, spec) if squares else None

    total, sums = np.zeros((kinds, CELLS), dtype=np.int64), np.zeros(len(COARSE), dtype=np.int64)
    low, high = CELLS, 0
    for first, counts, more in rows.map(count):
        last = first + counts.shape[1]
        total[:, first:last] += counts
        low, high = min(low, first), max(high, last)
        sums += 0 if more is None else more
    return low, total[:, low:high], sums if squares else None


def sizes_of(values: Array, spec: Spec, cells: Ints) -> Floats:
    """Return the set sizes of rows at thresholds: (rows, thresholds), as floats."""
    nothing = np.empty((len(values), 0))
    return engine.of(values).shares(values, spec, cells, nothing, nothing.astype(np.int64), 1.0)


def _squares(values: Array, spec: Spec) -> Ints:
    step, total = max(1, (1 << 20) // len(COARSE)), np.zeros(len(COARSE), dtype=np.int64)
    for start, stop in pairwise([*range(0, len(values), step), len(values)]):
        sizes = sizes_of(values[start:stop], spec, COARSE)
        # Floats represent sums of integers below 2^53 exactly.
        total += np.einsum("rt,rt->t", sizes, sizes).astype(np.int64)
    return total
