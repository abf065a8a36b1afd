"""A tally: whole numbers per cell, which add up. All that most guarantees know of the rows."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.coverage.grid import CELLS, COARSE
from nacp.coverage.sample import Sample
from nacp.engine import Spec
from nacp.errors import InputError
from nacp.noise.matrices import ClassMatrix
from nacp.points import Rows

MOST_POINTS = 1 << 26
"""The largest number of points whose sums of weights fit into int64, where not all pairs weigh the same."""
PART = 2.0**-30  # the parts of several labels are counted in this unit
_WRITTEN = 1 << 22  # larger tables of weights by label are written out for each block instead of once


class Weights:
    """What pairs (row, label) weigh in the estimate: ``W = diag(own) + rest``, in a form that adds up.

    Parameters
    ----------
    inverse : ClassMatrix
        W.
    several : bool
        Whether points have several labels.
    points : int, optional
        For how many points the unit must suffice; the same for all tallies that are to add up.

    Attributes
    ----------
    constant : float or None
        The weight of every pair besides its label's own, where that is one number. Then pairs are counted;
        else weights are rounded once to whole multiples of `unit`, whose sums do not depend on the order.
    own : array
        What each given label adds.
    """

    def __init__(self, inverse: ClassMatrix, several: bool = False, points: int = MOST_POINTS) -> None:
        self.inverse, self.own, self.several = inverse, inverse.own, several
        alike = not several and bool((self.own == self.own[0]).all())
        self.constant = inverse.constant_rest if alike else None
        size = max(sum(inverse.rest_bounds()[1:]) + np.abs(self.own).max(), 2.0**-60)
        bits = np.ceil(np.log2(size)) + np.ceil(np.log2(points)) - 62
        self.unit = 1.0 if self.constant is not None else float(2.0**bits)

    def whole(self, weights: Floats) -> Ints:
        """Return weights as whole numbers."""
        found: Ints = np.rint(weights / self.unit).astype(np.int64)
        return found

    @cached_property
    def _table(self) -> Ints | None:
        number = len(self.own)
        if self.constant is not None or number * self.inverse.k > _WRITTEN:
            return None
        return self.whole(self.inverse.rest(np.arange(number)))

    def of(self, labels: Ints, parts: Floats) -> tuple[Ints | None, Ints | None]:
        """Return for rows with such labels the table of weights, and which of its rows has those of each.

        None and None where all pairs weigh the same.
        """
        if self.constant is not None:
            return None, None
        if labels.shape[1] == 1:
            if self._table is not None:
                return labels[:, 0], self._table
            return np.arange(len(labels)), self.whole(self.inverse.rest(labels[:, 0]))
        mean = sum(part[:, None] * self.inverse.rest(y) for y, part in zip(labels.T, parts.T, strict=True))
        return np.arange(len(labels)), self.whole(np.asarray(mean))


@dataclass(frozen=True, eq=False)
class Tally:
    """What was counted in each cell of the grid; tallies add by ``+`` and subtract by ``-``.

    Attributes
    ----------
    n, k : int
        The numbers of points and of classes.
    by_label : array of int
        How many points have each class as their label, in part if they have several labels.
    cells : array of shape (m,)
        The cells that hold any pairs, ascending: places in ``nacp.coverage.grid.GRID``.
    hits, pairs : arrays of shape (m,)
        How many given labels, and how many labels at all, score in each of them.
    gains, losses : arrays of shape (m,) or None
        The positive and the negative weight of the pairs, in multiples of `unit`; None if all weigh the same.
    squares : array or None
        The sum over the rows of the squared size of the set, at each of ``nacp.coverage.grid.COARSE``, if
        that was counted.
    unit, part : float
        What gains and losses, and what the counts by label are multiples of.

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
        """Count a sample in one pass over its rows."""

        spec, kinds = sample.score.spec, 1 if weights.constant is not None else 3

        def count(values: Array, where: slice | Ints) -> _Counted:
            return _count(values, spec, weights.of(sample.labels[where], sample.parts[where]), squares)

        found = _added([*sample.rows.map(count)] or [_nothing(kinds, squares)])
        there = sample.parts > 0
        labels, parts = sample.labels[there], sample.parts[there]
        # The score of a given label was counted as a pair, so its cell is among those found.
        places, m = np.searchsorted(found.cells, sample.label_cells[there]), len(found.cells)
        pairs, gains, losses = (*found.counts, None, None)[:3]
        if gains is not None and losses is not None:
            whole = weights.whole(weights.own[labels] * parts)
            np.add.at(gains, places, np.maximum(whole, 0))
            np.add.at(losses, places, np.maximum(-whole, 0))
        part = PART if sample.several else 1.0
        by_label = np.zeros(len(weights.own), dtype=np.int64)
        np.add.at(by_label, labels, np.rint((parts if sample.several else 1.0) / part).astype(np.int64))
        return cls(
            sample.n, sample.k, by_label, found.cells, np.bincount(places, minlength=m), pairs, gains, losses,
            found.squares, weights.unit, part,
        )  # fmt: skip

    @classmethod
    def of_rows(cls, rows: Rows, spec: Spec) -> "Tally":
        """Count rows without labels."""
        blocks = rows.map(lambda values, where: _count(values, spec, (None, None), squares=True))
        found = _added([*blocks] or [_nothing(1, squares=True)])
        hits, by_label = np.zeros_like(found.cells), np.zeros(rows.k, dtype=np.int64)
        return cls(rows.n, rows.k, by_label, found.cells, hits, found.counts[0], squares=found.squares)

    @property
    def counts(self) -> list[Ints]:
        """What is counted by cell."""
        return [each for each in (self.hits, self.pairs, self.gains, self.losses) if each is not None]

    def __add__(self, other: "Tally") -> "Tally":
        return self._with(other, 1)

    def __sub__(self, other: "Tally") -> "Tally":
        return self._with(other, -1)

    def _with(self, other: "Tally", sign: int) -> "Tally":
        for name in ("k", "unit", "part"):
            if getattr(self, name) != getattr(other, name):
                raise InputError("tally", "adds to one of the same classes and noise model only")
        if len(self.counts) != len(other.counts) or (self.squares is None) != (other.squares is None):
            raise InputError("tally", "adds to one of the same classes and noise model only")
        squares = None if other.squares is None else sign * other.squares
        found = _added(
            [
                _Counted(self.cells, np.stack(self.counts), self.squares),
                _Counted(other.cells, sign * np.stack(other.counts), squares),
            ]
        )
        hits, pairs, gains, losses = (*found.counts, None, None)[:4]
        by_label, n = self.by_label + sign * other.by_label, self.n + sign * other.n
        if min(found.counts.min(initial=0), by_label.min(), n) < 0:
            raise InputError("tally", "cannot be subtracted: its points were not counted here")
        return Tally(
            n, self.k, by_label, found.cells, hits, pairs, gains, losses, found.squares, self.unit, self.part
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__
        )

    __hash__ = None  # type: ignore[assignment]  # arrays


class _Counted(NamedTuple):
    """A sparse histogram: different cells, their counts of shape (kinds, cells), and sums of squares."""

    cells: Ints
    counts: Ints
    squares: Ints | None


def _count(values: Array, spec: Spec, weights: tuple[Ints | None, Ints | None], squares: bool) -> _Counted:
    """Count a block of rows."""
    return _Counted(*engine.tally(values, spec, *weights), _squares(values, spec) if squares else None)


def _nothing(kinds: int, squares: bool) -> _Counted:
    sums = np.zeros(len(COARSE), dtype=np.int64) if squares else None
    return _Counted(np.empty(0, dtype=np.int64), np.empty((kinds, 0), dtype=np.int64), sums)


def _added(blocks: list[_Counted]) -> _Counted:
    """Add histograms, of which there is one at least."""
    first, *others = blocks
    if not others:
        return _Counted(first.cells, first.counts.copy(), first.squares)
    # Few cells are sorted; for many it takes less time to add up all cells of the grid.
    every = np.concatenate([each.cells for each in blocks])
    few = len(every) < CELLS // 8
    cells = np.unique(every) if few else np.arange(CELLS)
    total = np.zeros((len(first.counts), len(cells)), dtype=np.int64)
    for each in blocks:
        places = np.searchsorted(cells, each.cells) if few else each.cells
        for kind, counts in zip(total, each.counts, strict=True):
            kind[places] += counts
    some = np.flatnonzero(total.any(axis=0))
    squares = [each.squares for each in blocks if each.squares is not None]
    return _Counted(cells[some], total[:, some], np.sum(squares, axis=0) if squares else None)


def sizes_of(values: Array, spec: Spec, cells: Ints) -> Floats:
    """Return the sizes of the sets of rows at thresholds: (rows, thresholds), whole numbers as floats."""
    nothing = np.empty((len(values), 0))
    return engine.shares(values, spec, cells, nothing, nothing.astype(np.int64), 1.0)


def _squares(values: Array, spec: Spec) -> Ints:
    step, total = max(1, (1 << 20) // len(COARSE)), np.zeros(len(COARSE), dtype=np.int64)
    for start, stop in pairwise([*range(0, len(values), step), len(values)]):
        sizes = sizes_of(values[start:stop], spec, COARSE)
        # Sums of whole numbers below 2^53 are exact as floats, too.
        total += np.einsum("rt,rt->t", sizes, sizes).astype(np.int64)
    return total
