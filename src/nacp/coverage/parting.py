"""What a coverage by group of classes asks of a sample: tallies, pairs, and sums up to thresholds."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nacp._types import Bools, Floats, Ints
from nacp.coverage.sample import Question
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
        self._coverage, self.most_rows = coverage, rows_at_once(coverage.k)


class PartedTally(WholeRows):
    """Pairs, gains and losses of cells, by group."""

    def __init__(self, coverage: "PartedCoverage", edges: Floats) -> None:
        super().__init__(coverage)
        self.edges = edges
        self._cells = Cells(edges)
        self.found: Ints = np.zeros((3, coverage.number, len(edges) - 1), dtype=np.int64)

    def see(self, block: Block, rows: slice | Ints) -> None:
        coverage, cells = self._coverage, len(self.edges) - 1
        cell = self._cells.of(block)
        cell += coverage.of(rows) * cells
        pairs = np.bincount(cell.reshape(-1), minlength=coverage.number * cells).reshape(-1, cells)
        self.found[0] += pairs
        if coverage.constant is not None:
            return
        weights = coverage.weights(rows)
        for i, part in ((1, np.maximum(weights, 0)), (2, np.maximum(-weights, 0))):
            np.add.at(self.found[i].reshape(-1), cell.reshape(-1), part.reshape(-1))

    def cumulated(self) -> Ints:
        """Return pairs, gains and losses up to the upper ends of the cells."""
        constant = self._coverage.constant
        if constant is not None:
            self.found[1:] = self.found[0] * max(constant, 0), self.found[0] * max(-constant, 0)
        return np.cumsum(self.found, axis=2)


class PartedWindow(WholeRows):
    """The pairs of some groups that score in the wanted ones of their cells."""

    def __init__(self, coverage: "PartedCoverage", edges: Floats, wanted: Bools, some: Ints) -> None:
        super().__init__(coverage)
        self._edges = edges
        self._wanted = wanted & np.isin(np.arange(len(wanted)), some)[:, None]
        cells = self._wanted.shape[1]
        any_wanted = self._wanted.any(axis=1)
        lows = np.where(any_wanted, edges[np.argmax(self._wanted, axis=1)], np.inf)
        highs = edges[cells - np.argmax(self._wanted[:, ::-1], axis=1)]
        self._lows, self._highs = lows, np.where(any_wanted, highs, -np.inf)
        self._parts: list[Events] = []

    def see(self, block: Block, rows: slice | Ints) -> None:
        coverage, placed = self._coverage, block.placed
        of = coverage.of(rows)
        flat = np.flatnonzero((placed <= self._highs[of]) & (placed > self._lows[of]))
        row, column = np.divmod(flat, coverage.k)
        scores = placed.reshape(-1)[flat].astype(np.float64)
        groups = np.broadcast_to(of, placed.shape)[row, column]
        if len(self._edges) > 2:
            fine = self._wanted[groups, np.searchsorted(self._edges, scores, side="left") - 1]
            row, column, scores, groups = row[fine], column[fine], scores[fine], groups[fine]
        if coverage.constant is not None:
            rest = np.full(len(scores), coverage.constant, dtype=np.int64)
        else:
            labels = coverage.sample.labels[rows][row]
            rest = np.rint(coverage.inverse.rest(labels, column) / coverage.unit).astype(np.int64)
        self._parts.append(Events(groups, scores, np.zeros_like(rest), rest))

    def events(self) -> Events:
        """Return the pairs."""
        return Events(*(np.concatenate(each) for each in zip(*self._parts, strict=True)))


class PartedUpto(WholeRows):
    """What the pairs of each group gain and lose up to thresholds of its own."""

    def __init__(self, coverage: "PartedCoverage", thresholds: Floats) -> None:
        super().__init__(coverage)
        self._thresholds = thresholds
        self.gains, self.losses = np.zeros((2, *thresholds.shape), dtype=np.int64)

    def see(self, block: Block, rows: slice | Ints) -> None:
        coverage = self._coverage
        weights = None if coverage.constant is not None else coverage.weights(rows)
        for i, each in enumerate(self._thresholds):
            inside = block.placed <= each[coverage.of(rows)]
            if weights is None:
                assert coverage.constant is not None
                pairs = coverage.by_group(inside, rows)
                self.gains[i] += pairs * max(coverage.constant, 0)
                self.losses[i] += pairs * max(-coverage.constant, 0)
            else:
                self.gains[i] += coverage.by_group(np.where(inside, np.maximum(weights, 0), 0), rows)
                self.losses[i] += coverage.by_group(np.where(inside, np.maximum(-weights, 0), 0), rows)
