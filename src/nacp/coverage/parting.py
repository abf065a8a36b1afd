"""What a coverage by group of classes asks of a sample: tallies, pairs, and sums up to thresholds."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nacp._types import Bools, Floats, Ints
from nacp.coverage.asking import Answer, Question
from nacp.coverage.crossing import ROUNDING, Rule
from nacp.engine import Block
from nacp.engine.cells import EDGES
from nacp.points.arrays import rows_at_once

if TYPE_CHECKING:
    from nacp.coverage.parted import PartedCoverage


class Events(NamedTuple):
    """Where the estimates change: in which group, at which score, and by how much."""

    groups: Ints
    scores: Floats
    own: Ints
    rest: Ints

    def at(self, which: Bools) -> "Events":
        """Return some of them."""
        return Events(self.groups[which], self.scores[which], self.own[which], self.rest[which])


class Crossings(NamedTuple):
    """For each group a native threshold, the estimated coverage there, and the losses up to there."""

    thresholds: Floats
    estimates: Floats
    losses: Floats

    @classmethod
    def nowhere(cls, number: int) -> "Crossings":
        """Return what is found where no estimate crosses its target."""
        return cls(np.full(number, np.inf), np.ones(number), np.zeros(number))


class Path(NamedTuple):
    """The estimates of groups, along some of their cells: what they are from each score on.

    `events` says where it is the score of a pair, and not where a cell begins.
    """

    groups: Ints
    scores: Floats
    events: Bools
    covered: Floats
    losses: Floats

    def settle(self, bars: Floats, rule: Rule, some: Ints, found: Crossings) -> None:
        """Write down where the estimates of some groups cross their bars."""
        group = self.groups
        # Where several score the same, the last of them counts.
        last = np.append((group[1:] != group[:-1]) | (self.scores[1:] != self.scores[:-1]), True)
        reached = self.covered >= bars[group]
        if rule == "last":
            marks = np.flatnonzero(last & ~reached)
            at = marks[np.append(group[marks][1:] != group[marks][:-1], True)[: len(marks)]] + 1
            at = at[(at < len(group)) & (group[np.minimum(at, len(group) - 1)] == group[at - 1])]
            # Reached even below all scores: a target of 0 or less.
            never = np.setdiff1d(some[bars[some] < np.inf], group[marks])
        else:
            marks = np.flatnonzero(last & reached & self.events)
            at = marks[np.append(True, group[marks][1:] != group[marks][:-1])[: len(marks)]]
            never = marks[:0]
        ends = np.searchsorted(np.flatnonzero(last), at)
        at = np.flatnonzero(last)[ends]  # of equal scores
        at = at[np.isfinite(self.scores[at])]
        found.thresholds[group[at]], found.estimates[group[at]] = self.scores[at], self.covered[at]
        found.losses[group[at]] = self.losses[at]
        found.thresholds[never], found.estimates[never] = -np.inf, 0.0


class Cells:
    """In which of some cells scores lie; quick, if the edges are some of those of all cells.

    Parameters
    ----------
    edges : array
        Ascending, from -inf to inf: cell i holds the scores in ``(edges[i], edges[i + 1]]``.
    """

    def __init__(self, edges: Floats) -> None:
        self.edges, self.number = edges, len(edges) - 1
        self._quick = np.array_equal(EDGES[np.searchsorted(EDGES, edges[1:])], edges[1:])
        self._table: Ints = np.empty(0, dtype=np.int64)
        self._by_code: Ints = self._table

    def of(self, block: Block) -> Ints:
        """Return the cell of each pair: (rows, k), in scratch memory."""
        if not self._quick or block.on_device:
            return np.searchsorted(self.edges, block.placed, side="left") - 1
        codes, table = block.codes(placed=True)
        if table is not self._table:
            self._table, self._by_code = table, np.searchsorted(self.edges, EDGES[table], side="left") - 1
        cells = block.scratch.get("parted", block.shape, np.int64)
        np.take(self._by_code, codes, out=cells.reshape(-1), mode="clip")
        return cells


class Scores(Question):
    """All scores of some rows."""

    def __init__(self) -> None:
        self.found: list[Floats] = []

    def see(self, block: Block, rows: slice | Ints) -> None:
        self.found.append(block.scores(placed=False).reshape(-1).astype(np.float64))


class WholeRows(Question):
    """A question that sees all pairs of a row, also where rows have their top entries only."""

    placed = True

    def __init__(self, coverage: "PartedCoverage") -> None:
        self.coverage, self.most_rows = coverage, rows_at_once(coverage.k)


class PartedTally(WholeRows):
    """Pairs, gains and losses of cells, by group."""

    def __init__(self, coverage: "PartedCoverage", edges: Floats) -> None:
        super().__init__(coverage)
        self.edges = edges
        self._cells = Cells(edges)
        self.found: Ints = np.zeros((3, coverage.number, len(edges) - 1), dtype=np.int64)

    def see(self, block: Block, rows: slice | Ints) -> None:
        coverage, cells = self.coverage, len(self.edges) - 1
        cell = self._cells.of(block)
        cell += coverage.of(rows) * cells
        pairs = np.bincount(cell.reshape(-1), minlength=coverage.number * cells).reshape(-1, cells)
        self.found[0] += pairs
        if coverage.constant is not None:
            return
        weights = coverage.weights(coverage.sample.labels[rows])
        for i, part in ((1, np.maximum(weights, 0)), (2, np.maximum(-weights, 0))):
            np.add.at(self.found[i].reshape(-1), cell.reshape(-1), part.reshape(-1))

    def terms(self) -> tuple[object, ...]:
        return (self.edges,)

    def answer(self) -> Answer:
        return Answer((self.found,))

    def add(self, answer: Answer) -> None:
        self.found += answer.sums[0]

    def cumulated(self) -> Ints:
        """Return pairs, gains and losses up to the upper ends of the cells."""
        constant = self.coverage.constant
        if constant is not None:
            self.found[1:] = self.found[0] * max(constant, 0), self.found[0] * max(-constant, 0)
        return np.cumsum(self.found, axis=2)


class PartedWindow(WholeRows):
    """The pairs of some groups that score in the wanted ones of their cells."""

    def __init__(self, coverage: "PartedCoverage", edges: Floats, wanted: Bools, some: Ints) -> None:
        super().__init__(coverage)
        self._cells = Cells(edges)
        self._wanted, self._asked = wanted & np.isin(np.arange(len(wanted)), some)[:, None], (wanted, some)
        self._parts: list[Events] = []

    def see(self, block: Block, rows: slice | Ints) -> None:
        coverage, of = self.coverage, self.coverage.of(rows)
        cell = self._cells.of(block)
        cell += of * self._cells.number
        flat = np.flatnonzero(self._wanted.reshape(-1).take(cell.reshape(-1)))
        row, column = np.divmod(flat, coverage.k)
        scores = block.placed.reshape(-1)[flat].astype(np.float64)
        groups = np.broadcast_to(of, cell.shape)[row, column]
        if coverage.constant is not None:
            rest = np.full(len(scores), coverage.constant, dtype=np.int64)
        else:
            rest = coverage.weights(coverage.sample.labels[rows][row], column)
        self._parts.append(Events(groups, scores, np.zeros_like(rest), rest))

    def terms(self) -> tuple[object, ...]:
        return self._cells.edges, *self._asked

    def answer(self) -> Answer:
        return Answer(rows=self.events())

    def add(self, answer: Answer) -> None:
        self._parts.append(Events(*(answer.rows or ())))

    def events(self) -> Events:
        """Return the pairs."""
        return Events(*(np.concatenate(each) for each in zip(*self._parts, strict=True)))


class Known(NamedTuple):
    """Pairs, gains and losses of groups up to the edges of cells: (3, groups, cells); or nothing."""

    edges: Floats
    upto: Ints

    @classmethod
    def nothing(cls, number: int) -> "Known":
        """Return what is known before any read: one cell, of which nothing is known."""
        return cls(np.array([-np.inf, np.inf]), np.zeros((3, number, 0), dtype=np.int64))

    def pairs_in(self, coverage: "PartedCoverage") -> Ints:
        """Return how many pairs each cell of each group holds."""
        if not self.upto.shape[2]:
            return coverage.pairs[:, None]
        found: Ints = np.diff(self.upto[0], axis=1, prepend=0)
        return found

    def at_edges(self, coverage: "PartedCoverage", groups: Ints, cells: Ints) -> tuple[Ints, Ints]:
        """Return gains and losses up to the lower ends of cells of groups: of labels, and of pairs."""
        if not self.upto.shape[2]:
            nothing = np.zeros((2, len(groups)), dtype=np.int64)
            return nothing, nothing
        own, place = self._own(coverage), np.maximum(cells - 1, 0)
        known = np.stack([own, self.upto[1:]], axis=1)[:, :, groups, place]
        gained, lost = np.where(cells == 0, 0, known)
        return gained, lost

    def _own(self, coverage: "PartedCoverage") -> Ints:
        """Return what the labels' own weights gain and lose up to the upper ends: (2, groups, cells)."""
        labels, cells = coverage.labels, len(self.edges) - 1
        cell = np.maximum(np.searchsorted(self.edges, labels.scores, side="left") - 1, 0)
        sums = np.zeros((2, coverage.number, cells), dtype=np.int64)
        np.add.at(sums[0], (labels.groups, cell), np.maximum(labels.own, 0))
        np.add.at(sums[1], (labels.groups, cell), np.maximum(-labels.own, 0))
        return np.cumsum(sums, axis=2)

    def wanted(self, coverage: "PartedCoverage", bars: Floats, rule: Rule) -> Bools:
        """Return which cells of which groups have to be looked into: (groups, cells)."""
        number = coverage.number
        if not self.upto.shape[2]:
            return np.ones((number, 1), dtype=bool)
        own = self._own(coverage) * coverage.own_unit
        rising, falling = np.zeros((2, number, len(self.edges)))
        rising[:, 1:], falling[:, 1:] = own + self.upto[1:] * coverage.unit
        mass = np.where(coverage.mass > 0, coverage.mass, 1.0)[:, None]
        clean, bar = (rising - falling) / mass, bars[:, None]
        slack = ROUNDING / 8
        inner = np.arange(len(self.edges) - 1)
        if rule == "last":
            may = (rising[:, :-1] - falling[:, 1:]) / mass < bar + slack
            short = clean < bar
            short[:, -1] = False
            from_which = np.where(short.any(axis=1), len(inner) - np.argmax(short[:, ::-1], axis=1), 0)
            return may & (inner >= from_which[:, None])
        may = (rising[:, 1:] - falling[:, :-1]) / mass >= bar - slack
        enough = clean[:, 1:] >= bar
        upto_which = np.where(enough.any(axis=1), np.argmax(enough, axis=1), len(inner))
        return may & (inner <= upto_which[:, None])
