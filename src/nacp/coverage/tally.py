"""A tally: whole numbers per cell, which add up. All that most guarantees know of the rows."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

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
"""For so many points the unit of the weights suffices, where pairs do not all weigh the same."""
PART = 2.0**-30  # the parts of several labels are counted in this unit
_WRITTEN = 1 << 22  # up to so many weights by label are written out once, and else for each block


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
        self.inverse, self.own = inverse, inverse.own
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
        spec, total = sample.score.spec, _Total(1 if weights.constant is not None else 3)

        def counted(values: Array, where: slice | Ints) -> tuple[Ints, Ints, Ints | None]:
            which, table = weights.of(sample.labels[where], sample.parts[where])
            found = engine.tally(values, spec, which, table)
            return *found, _squares(values, spec) if squares else None

        for cells, counts, more in sample.rows.map(counted):
            total.add(cells, counts)
            total.add_squares(more)
        there = sample.parts > 0
        places, labels = sample.label_cells[there], sample.labels[there]
        hits = np.bincount(places, minlength=CELLS)
        part, ones = (PART, sample.parts[there]) if sample.several else (1.0, np.ones(len(labels)))
        by_label = np.zeros(len(weights.own), dtype=np.int64)
        np.add.at(by_label, labels, np.rint(ones / part).astype(np.int64))
        counts = total.counts
        if weights.constant is None:
            own = weights.whole(weights.own[labels] * sample.parts[there])
            np.add.at(counts[1], places, np.maximum(own, 0))
            np.add.at(counts[2], places, np.maximum(-own, 0))
        some = np.flatnonzero(hits + counts.sum(axis=0))
        pairs, gains, losses = _kinds(counts[:, some])
        return cls(
            sample.n, sample.k, by_label, some, hits[some], pairs, gains, losses, total.squares,
            weights.unit, part,
        )  # fmt: skip

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
        sums = np.zeros((len(self.counts), CELLS), dtype=np.int64)
        for part, times in ((self, 1), (other, sign)):
            sums[:, part.cells] += times * np.stack(part.counts)
        by_label, n = self.by_label + sign * other.by_label, self.n + sign * other.n
        squares = None
        if self.squares is not None and other.squares is not None:
            squares = self.squares + sign * other.squares
        if sums.min(initial=0) < 0 or by_label.min() < 0 or n < 0:
            raise InputError("tally", "cannot be subtracted: its points were not counted here")
        some = np.flatnonzero(sums.sum(axis=0))
        pairs, gains, losses = _kinds(sums[1:, some])
        return Tally(
            n,
            self.k,
            by_label,
            some,
            sums[0, some],
            pairs,
            gains,
            losses,
            squares,
            self.unit,
            self.part,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__
        )

    __hash__ = None  # type: ignore[assignment]  # arrays


def _kinds(counts: Ints) -> tuple[Ints, Ints | None, Ints | None]:
    """Return pairs, gains and losses; the last two are None where pairs all weigh the same."""
    return (counts[0], None, None) if len(counts) == 1 else (counts[0], counts[1], counts[2])


class _Total:
    """The sum of the counts of blocks."""

    def __init__(self, kinds: int) -> None:
        self.counts = np.zeros((kinds, CELLS), dtype=np.int64)
        self.squares: Ints | None = None

    def add(self, cells: Ints, counts: Ints) -> None:
        self.counts[:, cells] += counts

    def add_squares(self, squares: Ints | None) -> None:
        if squares is not None:
            self.squares = squares if self.squares is None else self.squares + squares


def sizes_of(values: Array, spec: Spec, cells: Ints) -> Ints:
    """Return the sizes of the sets of rows at thresholds: (rows, thresholds)."""
    nothing = np.empty((len(values), 0))
    found = engine.shares(values, spec, cells, nothing, nothing.astype(np.int64), 1.0)
    return found.astype(np.int64)


def _squares(values: Array, spec: Spec) -> Ints:
    step, total = max(1, (1 << 20) // len(COARSE)), np.zeros(len(COARSE), dtype=np.int64)
    for start, stop in pairwise([*range(0, len(values), step), len(values)]):
        sizes = sizes_of(values[start:stop], spec, COARSE)
        total += np.einsum("rt,rt->t", sizes, sizes)
    return total


def moments_of(rows: Rows, spec: Spec) -> tuple[Ints, Ints, Ints]:
    """Return of rows without labels the cells that hold pairs, how many, and the sums of squared sizes."""
    total = _Total(1)
    for cells, counts, squares in rows.map(
        lambda values, where: (*engine.tally(values, spec), _squares(values, spec))
    ):
        total.add(cells, counts)
        total.add_squares(squares)
    assert total.squares is not None
    some = np.flatnonzero(total.counts[0])
    return some, total.counts[0, some], total.squares
