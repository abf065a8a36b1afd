"""Where the estimated clean coverage crosses the target: exactly, by a radix search over the scores.

``F^c-hat`` is a difference of two functions that rise with the threshold. One read of the rows gives both at
the edge of every cell, so inside a cell (a, b] it lies between ``rising(a) - falling(b)`` and ``rising(b) -
falling(a)``. Only the cells in which the target may be crossed are looked into: their pairs are collected if
they are few, else they are tallied by their next bits. Nothing is decided by a tolerance in q.

How many reads, once the labels are scored: one tallies all cells. Each other one settles the open cells that
it collects and cuts every one that it does not into two or more by the bits of its scores. Scores have 64
bits, so there are 65 reads at the most; while no more than 16 cells are open at once, which then are cut in
4,096, there are 7; and mostly one or two.
"""

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from nacp import engine
from nacp._types import Floats, Ints
from nacp.coverage.estimator import Estimator
from nacp.engine.cells import ENDS
from nacp.tuning import tuning

Rule: TypeAlias = Literal["first", "last"]
RULES: tuple[Rule, Rule] = ("first", "last")

# An estimate this close below the target counts as reaching it: the size of the rounding errors in F^c-hat,
# so that 0.9 reached exactly in decimals is not missed in binary.
ROUNDING = 1e-12


_NONE: Ints = np.empty(0, dtype=np.int64)


class Cell(NamedTuple):
    """The thresholds in (low, high]."""

    low: float
    high: float


class Scan(NamedTuple):
    """What was found in a cell: its distinct scores, and F^c-hat at its low end and at each of them.

    `upto` has the pairs, gains and losses up to there.
    """

    scores: Floats
    coverage: Floats
    upto: Ints

    @classmethod
    def through(
        cls, estimator: Estimator, base: Ints, start: int, own: Floats, scores: Floats, weights: Ints
    ) -> "Scan":
        """Follow F^c-hat through a cell, from the scores of its labels and of its pairs, both ascending.

        Before it there are so many labels (`start`), and pairs, gains and losses (`base`).
        """
        merged, _ = engine.ascending(engine.Pairs(np.concatenate([scores, own]), _NONE))
        ends = np.ones(len(merged), dtype=bool)
        np.not_equal(merged[1:], merged[:-1], out=ends[:-1])
        last = ends.nonzero()[0]
        distinct = merged[last]
        # How many labels and how many pairs lie below each distinct score, and below them all.
        labels = np.zeros(len(distinct) + 1, dtype=np.int64)
        np.bincount(distinct.searchsorted(own), minlength=len(distinct)).cumsum(out=labels[1:])
        pairs = np.append(0, last + 1) - labels
        sums = pairs[None]
        if estimator.constant is None:
            gains, net = (np.append(0, np.cumsum(part))[pairs] for part in (np.maximum(weights, 0), weights))
            sums = np.array([pairs, gains, gains - net])
        upto = base[:, None] + estimator.weighed(sums)
        return cls(distinct, estimator.clean_of(start + labels, upto[1] - upto[2]), upto)

    def crosses(self, target: float, rule: Rule) -> bool:
        """Return whether the target is crossed, seen from below (first) or from above (last)."""
        if rule == "first":
            return float(self.coverage[1:].max(initial=-np.inf)) >= target - ROUNDING
        return float(self.coverage[:-1].min(initial=np.inf)) < target - ROUNDING

    def crossing(self, target: float, rule: Rule) -> "Crossing":
        """Return where."""
        reached = self.coverage >= target - ROUNDING
        if rule == "first":
            i = int(np.argmax(reached[1:]))
        else:
            i = len(self.scores) - 1 - int(np.argmax(~reached[:-1][::-1]))
            if not reached[i + 1]:  # not even with all classes: rows of P that sum to 1 only roughly
                return NOWHERE
        return Crossing(float(self.scores[i]), float(self.coverage[i + 1]))


class Crossing(NamedTuple):
    """A native threshold, and F^c-hat there."""

    threshold: float
    estimate: float


NOWHERE = Crossing(np.inf, 1.0)
EVERYWHERE = Crossing(-np.inf, 0.0)


class Search:
    """What is known of the pairs under one W: tallies up to the edges of cells, and the cells looked into.

    Parameters
    ----------
    estimator : Estimator
        The estimate, given tallies.
    """

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.edges: Floats = np.array([-np.inf, np.inf])
        self.upto: Ints = np.zeros((3, 2), dtype=np.int64)  # pairs, gains and losses up to each edge
        self.limit = np.inf  # up to here; beyond, no fewer than there are, as some are counted too early
        self._scans: dict[Cell, Scan] = {}
        self._known: tuple[Floats, Floats, Floats] | None = None

    def start(self, tally: Ints, limit: float) -> None:
        """Learn the tallies of all cells; those above the limit may have pairs of cells above them.

        What was learnt up to the last limit is kept: somebody may be looking into finer cells there.
        """
        exact = np.append(self.edges[:-1] <= self.limit, True)
        self.edges, self.upto = self.edges[exact], self.upto[:, exact]
        self.limit = limit
        self.learn(ENDS, tally)

    def learn(self, edges: Floats, tally: Ints) -> None:
        """Add the tallies of cells ``(edges[i], edges[i + 1]]``, of which the first edge is known.

        Neighbouring cells without pairs are joined.
        """
        self._known = None
        # The ends of each cell that holds pairs; from one to the next there is one such cell, or none.
        held = tally[0] > 0
        ends = np.append(held, False)
        ends[1:] |= held
        place = ends.nonzero()[0]
        upto = np.zeros((3, len(place)), dtype=np.int64)
        self.estimator.weighed(tally.take(place[:-1], axis=1)).cumsum(axis=1, out=upto[:, 1:])
        upto += self.upto[:, [self.edges.searchsorted(edges[0])]]
        # Of an edge that was known, what was known of it stays.
        self.edges, first = np.unique(np.concatenate([self.edges[:-1], edges[place]]), return_index=True)
        self.upto = np.concatenate([self.upto[:, :-1], upto], axis=1).take(first, axis=1)
        if self.edges[-1] < np.inf:
            self.edges = np.append(self.edges, np.inf)
            self.upto = np.append(self.upto, self.upto[:, -1:], axis=1)

    def locate(self, target: float, rule: Rule) -> Crossing | list[Cell]:
        """Return the crossing, or the cells that have to be looked into before it is known, in order."""
        if target > 1 + ROUNDING:
            return NOWHERE
        # A cell is skipped only if it stays clear of the bar by more than these bounds round.
        n = self.estimator.n
        bar, slack = (target - ROUNDING) * n, ROUNDING * n / 8
        rising, falling, clean = self._at_edges()
        beyond = self.edges[1:] > self.limit
        if rule == "first":
            candidates = ((rising[1:] - falling[:-1] >= bar - slack) | beyond).nonzero()[0]
        else:
            candidates = (rising[:-1] - falling[1:] < bar + slack).nonzero()[0][::-1]
        # At the edges F^c-hat is known: nothing matters beyond a cell at whose far end it is past the target.
        past = clean[1:] >= target - ROUNDING if rule == "first" else clean[:-1] < target - ROUNDING
        past = (past & ~beyond)[candidates]
        unseen: list[Cell] = []
        for j in candidates[: int(past.argmax()) + 1 if past.any() else None]:
            cell = Cell(float(self.edges[j]), float(self.edges[j + 1]))
            if beyond[j]:
                return [Cell(self.limit, np.inf)]
            scan = self._scans.get(cell) or self._without_pairs(cell, j)
            if scan is None:
                unseen.append(cell)
            elif not unseen and scan.crosses(target, rule):
                return scan.crossing(target, rule)
        return unseen or (EVERYWHERE if target <= 0 else NOWHERE)

    def _at_edges(self) -> tuple[Floats, Floats, Floats]:
        """Return the rising and the falling part of F^c-hat at all edges, times n, and itself."""
        if self._known is None:
            gains, losses = self.upto[1:]
            within = self.edges.searchsorted(self.limit, side="right") - 1
            # Beyond the limit, gains are at least those up to it, and losses at most those counted too early.
            gains = np.minimum(gains, gains[within]) if self.limit < np.inf else gains
            self._known = self.estimator.parts(self.edges, gains, losses)
            self._known[2][-1] = 1.0
        return self._known

    def pairs_in(self, cell: Cell) -> int:
        """Return how many pairs score in a cell."""
        low, high = self.edges.searchsorted(cell)
        return int(self.upto[0, high] - self.upto[0, low])

    def tallied(self, thresholds: Floats) -> Ints | list[Cell]:
        """Return pairs, gains and losses up to thresholds, or the cells to be looked into before."""
        found, unseen = np.empty((3, len(thresholds)), dtype=np.int64), []
        for i, q in enumerate(thresholds.tolist()):
            j = int(np.searchsorted(self.edges, q, side="left"))
            if q > self.limit:
                return [Cell(self.limit, np.inf)]
            if self.edges[j] == q or self.upto[0, j] == self.upto[0, j - 1]:
                found[:, i] = self.upto[:, j]
                continue
            cell = Cell(float(self.edges[j - 1]), float(self.edges[j]))
            scan = self._scans.get(cell)
            if scan is None:
                unseen.append(cell)
            else:
                found[:, i] = scan.upto[:, np.searchsorted(scan.scores, q, side="right")]
        return unseen or found

    def look_into(self, cell: Cell, scores: Floats, weights: Ints) -> None:
        """Follow F^c-hat through a cell, from all pairs that score in it (or more), in ascending order."""
        inside = slice(*scores.searchsorted(cell, side="right"))
        self._scans[cell] = self._scan(cell, scores[inside], weights[inside] if len(weights) else weights)

    def _scan(self, cell: Cell, scores: Floats, weights: Ints) -> Scan:
        """Follow F^c-hat through a cell, from its pairs in ascending order."""
        base = self.upto[:, self.edges.searchsorted(cell.low)]
        start, stop = self.estimator.labels_upto(np.array(cell)).tolist()
        own = self.estimator.label_scores[start:stop]
        return Scan.through(self.estimator, base, start, own, scores, weights)

    def _without_pairs(self, cell: Cell, j: int) -> Scan | None:
        """Return the scan of a cell whose pairs need not be collected: no weight, or one score only."""
        if self.estimator.constant == 0:
            return self._scan(cell, np.empty(0), np.empty(0, dtype=np.int64))
        if math.nextafter(cell.low, math.inf) != cell.high:
            return None
        at, upto = np.array(cell), self.upto[:, j : j + 2]
        clean = self.estimator.clean(at, upto[1] - upto[2])
        if cell.high == math.inf:  # all classes are in the sets, so F^c-hat is 1
            clean[1] = 1.0
        self._scans[cell] = Scan(at[1:], clean, upto)
        return self._scans[cell]


def cut(cells: list[Cell]) -> Floats:
    """Return edges that part cells evenly in the bits of their scores, and their own edges: ascending."""
    pieces = max(2, tuning().new_cells // len(cells))
    edges: list[Floats] = []
    for cell in cells:
        low, high = (int(np.float64(q).view(np.int64)) for q in cell)
        low, high = (b if b >= 0 else -(b & (2**63 - 1)) for b in (low, high))  # in the order of the floats
        steps = (
            [low + (high - low) * i // pieces for i in range(1, pieces)]
            if high - low > pieces
            else range(low + 1, high)
        )
        bits = np.array([b if b >= 0 else -b - 2**63 for b in steps], dtype=np.int64)
        edges += [np.array(cell), bits.view(np.float64)]
    return np.unique(np.concatenate(edges))
