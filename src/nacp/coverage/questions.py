"""What a coverage asks of a sample: tallies, moments, and the pairs in a window."""

import math
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from nacp import engine
from nacp._types import Floats, Ints
from nacp.coverage.asking import Answer, Question
from nacp.coverage.crossing import Cell
from nacp.coverage.sample import Sample
from nacp.engine import Block, Keep, Kept
from nacp.engine.cells import CELLS, EDGES
from nacp.engine.contract import PerRow, Weights

if TYPE_CHECKING:
    from nacp.coverage.coverage import Coverage


class TallyQuestion(Question):
    """Pairs, gains and losses of all cells, or between some edges.

    Of all cells, those above the limit may have pairs and losses of cells above them. The scores up to
    `keep`, which is not above the limit, may be kept, so that nobody has to read the rows for them again.
    Pairs may be collected from intervals up to the limit: `window` has them, if the engine hands them out.
    """

    scored = False

    def __init__(
        self,
        coverage: "Coverage",
        edges: Floats | None = None,
        limit: float = np.inf,
        keep: float | None = None,
        parts: int = 4,
        labelled: bool = False,
        spans: Sequence[Cell] = (),
        into: Ints | None = None,
        kept: int = 0,
    ) -> None:
        self._expected = kept  # about so many pairs
        self.coverage, self._edges, self.limit, self._parts = coverage, edges, limit, parts
        self._keep, self.keeps = keep, keep is not None  # up to where, and whether still
        self.upto = None if edges is None else float(edges[-1])
        self._kept: Kept | None = None
        self._window, self._handed = Window(list(spans)), 0
        if edges is None:
            self.key, self.lasting = ("tally", coverage.read_as, limit < np.inf), True
        self.placed = coverage.read_as is not None
        self.labelled = labelled or self.placed
        if into is not None:
            self.found = into

    @cached_property
    def found(self) -> Ints:
        """What was counted."""
        shape = 3 if self.placed else 1, CELLS if self._edges is None else len(self._edges) - 1
        return np.zeros(shape, dtype=np.int64)

    def absorb(self, other: "TallyQuestion") -> None:
        self.limit, self._parts = max(self.limit, other.limit), max(self._parts, other._parts)
        self._keep, self.keeps = self._keep if self.keeps else other._keep, self.keeps or other.keeps
        self._expected = max(self._expected, other._expected)
        self._window.spans = merged([*self._window.spans, *other._window.spans])

    def see(self, block: Block, rows: slice | Ints) -> None:
        sample, weights = self.coverage.sample, self.coverage.weights(rows)
        if self._keep is not None and self.keeps:
            most = sample.few_pairs * 5 // 4
            known = sample.k, sample.n, self._keep, most, self._expected
            self._kept = self._kept or Kept(*known, labels=self.labelled)
        low = [] if self._kept is None else [Cell(-np.inf, self._kept.limit)]
        spans = merged([*low, *self._window.spans])
        expected = self._expected * block.shape[0] // sample.n
        take = partial(self._take, rows, weights)
        keep = Keep(spans, take, expected, labels=self.labelled) if spans else None
        engine.tally(block, self._edges, weights, self.limit, keep, self._parts, self.found)
        if self._kept is not None and self._kept.complete:
            sample.kept = self._kept

    def terms(self) -> tuple[object, ...]:
        return self._edges, self.limit, self._keep if self.keeps else None, self._parts, self.labelled

    def answer(self) -> Answer:
        if self._kept is None:
            return Answer((self.found,), None if self.keeps else ())
        return Answer((self.found,), self._kept.parts() if self._kept.complete else None)

    def add(self, answer: Answer) -> None:
        self.found += answer.sums[0]
        if self._keep is not None and self.keeps and answer.rows is not None:
            sample = self.coverage.sample
            sample.kept = Kept(sample.k, sample.n, self._keep, len(answer.rows[1]), labels=self.labelled)
            sample.kept.add(slice(0, sample.n), *answer.rows)

    def _take(
        self, rows: slice | Ints, weights: Weights, numbers: Ints, scores: Floats, columns: Ints
    ) -> None:
        """Take the pairs of some rows: those to be kept, and those to be collected."""
        if self._kept is not None:
            self._kept.add(rows, numbers, scores, columns)
        alone = self._kept is None and len(self._window.spans) == 1  # then nothing else is handed out
        for low, high in self._window.spans:
            inside = slice(None) if alone else np.flatnonzero((scores > low) & (scores <= high))
            weighed: Ints = np.empty(0, dtype=np.int64)
            if weights is not None:
                weighed = weights.at(np.repeat(np.arange(len(numbers)), numbers)[inside], columns[inside])
            # A copy, as they lie where those of the next block will.
            self._window.parts.append(engine.Pairs(np.array(scores[inside]), weighed))
        self._handed += len(numbers)

    @property
    def window(self) -> "Window | None":
        """The pairs that were collected, if all rows were looked at for them."""
        return self._window if self._window.spans and self._handed == self.coverage.n else None

    def within_limit(self) -> Ints:
        """Return the tally with all that lies above the limit in the last cell."""
        if self.limit == np.inf:
            return self.found
        found = self.found.copy()
        beyond = np.searchsorted(EDGES, self.limit, side="right")
        found[:, -1] = found[:, beyond:].sum(axis=1)
        found[:, beyond:-1] = 0
        return found


def exponent_of(coverage: "Coverage") -> int:
    """Return a power of two that no share is as large as."""
    return math.frexp(max(map(abs, coverage.range)))[1] + 1


def add_exactly(sums: Ints, values: Floats, exponent: int) -> None:
    """Add up the rows of numbers below ``2**exponent``, in three parts of 30 bits each."""
    rest = np.ldexp(values, 30 - exponent)
    for part in sums:
        whole = np.rint(rest)
        part += whole.astype(np.int64).sum(axis=0)
        rest = np.ldexp(rest - whole, 30)


class MomentsQuestion(Question):
    """The mean of the rows' shares in F^c-hat, and of their squares, at native thresholds.

    Sums are exact, so that it does not matter in which order rows come: each number is parted into three of
    30 bits, which are added up as whole numbers.
    """

    def __init__(self, coverage: "Coverage", thresholds: Floats, exponent: int | None = None) -> None:
        self.coverage, self._thresholds = coverage, np.unique(thresholds)
        self.upto = coverage.upto(self._thresholds.max(initial=-np.inf))
        self.placed = coverage.read_as is not None
        self._exponent = exponent_of(coverage) if exponent is None else exponent
        self._sums: Ints = np.zeros((2, 3, len(self._thresholds)), dtype=np.int64)

    def see(self, block: Block, rows: slice | Ints) -> None:
        shares = self.coverage.shares(block, rows, self._thresholds)
        for sums, values, exponent in zip(self._sums, (shares, shares**2), (1, 2), strict=True):
            add_exactly(sums, values, exponent * self._exponent)

    def terms(self) -> tuple[object, ...]:
        return self._thresholds, self._exponent

    def answer(self) -> Answer:
        return Answer((self._sums,))

    def add(self, answer: Answer) -> None:
        self._sums += answer.sums[0]

    def deviations(self, thresholds: Floats) -> list[float]:
        """Return the standard deviations at some of the thresholds."""
        n, found = self.coverage.n, []
        for i in self._thresholds.searchsorted(thresholds).tolist():
            total, square = ((a << 60) + (b << 30) + c for a, b, c in self._sums[:, :, i].tolist())
            # In units of 2^(exponent - 90) and of their squares: whole numbers, which are rounded once.
            variance = ((square * n << 90) - total**2) / n**2
            found.append(math.sqrt(max(math.ldexp(variance, 2 * self._exponent - 180), 0.0)))
        return found


class SharesQuestion(Question):
    """The shares of rows in F^c-hat at ascending native thresholds."""

    def __init__(self, coverage: "Coverage", thresholds: Floats) -> None:
        self.coverage, self._thresholds = coverage, thresholds
        self.placed = coverage.read_as is not None
        self.found: list[Floats] = []

    def see(self, block: Block, rows: slice | Ints) -> None:
        self.found.append(self.coverage.shares(block, rows, self._thresholds))

    def terms(self) -> tuple[object, ...]:
        return (self._thresholds,)

    def answer(self) -> Answer:
        return Answer(rows=(np.concatenate(self.found),))

    def add(self, answer: Answer) -> None:
        self.found += answer.rows or ()


class SizesQuestion(Question):
    """The mean share of the k classes in the sets, and the mean of its square, at thresholds."""

    key = "sizes"
    unlabelled = True

    def __init__(self, thresholds: Floats, k: int) -> None:
        self._thresholds, self._k, self._rows = thresholds, k, 0
        self._start()

    def _start(self) -> None:
        self._sums: Ints = np.zeros((2, len(self._thresholds)), dtype=np.int64)

    def absorb(self, other: "SizesQuestion") -> None:
        self._thresholds = np.union1d(self._thresholds, other._thresholds)
        self._start()

    def see(self, block: Block, rows: slice | Ints | None) -> None:
        sizes = engine.profile(block, self._thresholds)
        self._rows += len(sizes)
        self._sums += sizes.sum(axis=0), (sizes**2).sum(axis=0)

    def terms(self) -> tuple[object, ...]:
        return self._thresholds, self._k

    def answer(self) -> Answer:
        return Answer((np.array([self._rows]), self._sums))

    def add(self, answer: Answer) -> None:
        self._rows += int(answer.sums[0][0])
        self._sums += answer.sums[1]

    def means(self, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return both at some of the thresholds."""
        at = np.searchsorted(self._thresholds, thresholds)
        sums, squares = self._sums[:, at]
        return sums / self._k / self._rows, squares / self._k**2 / self._rows


class SquaresQuestion(Question):
    """The pairs between many ends, and what they add to the sum over rows of the squared size of the set."""

    def __init__(self, ends: Floats) -> None:
        self._ends = ends
        self.found: Ints = np.zeros((2, len(ends) - 1), dtype=np.int64)

    def see(self, block: Block, rows: slice | Ints) -> None:
        engine.squares(block, self._ends, self.found)


class MatesQuestion(Question):
    """Of the pairs of a label's own row: how many lie in its cell, and how many of these before it.

    Summed up by cell, which lies between two ascending ends; of points with one label each.
    """

    placed = True

    def __init__(self, sample: Sample, ends: Floats) -> None:
        self._sample, self._ends = sample, ends
        self.found: Ints = np.zeros((2, len(ends) - 1), dtype=np.int64)

    def see(self, block: Block, rows: slice | Ints) -> None:
        scores = self._sample.label_scores[rows]
        cells = np.searchsorted(self._ends[1:], scores)
        limits = np.stack([self._ends[cells], np.nextafter(scores, -np.inf), self._ends[cells + 1]])
        below, before, upto = engine.profile(block, PerRow(limits)).T
        for sums, added in zip(self.found, (upto - below - 1, before - below), strict=True):
            np.add.at(sums, cells, added)


class Window:
    """Pairs that were collected: all that score in some intervals."""

    def __init__(self, spans: list[Cell]) -> None:
        self.spans = merged(spans)
        self.parts: list[engine.Pairs] = []

    @property
    def size(self) -> int:
        """How many pairs they are."""
        return sum(len(part.scores) for part in self.parts)

    def holds(self, cell: Cell) -> bool:
        """Return whether all pairs of a cell were collected."""
        return any(span.low <= cell.low and cell.high <= span.high for span in self.spans)

    def ascending(self, cell: Cell) -> engine.Pairs:
        """Return the pairs of a cell, in the order of their scores."""
        found: list[engine.Pairs] = []
        for scores, weights in self.parts:
            inside = ((scores > cell.low) & (scores <= cell.high)).nonzero()[0]  # few
            found.append(engine.Pairs(scores[inside], weights[inside] if len(weights) else weights))
        return engine.ascending(engine.Pairs(*(np.concatenate(each) for each in zip(*found, strict=True))))


class WindowQuestion(Question):
    """The pairs that score in some intervals."""

    def __init__(self, coverage: "Coverage", spans: list[Cell]) -> None:
        self.coverage, self.window = coverage, Window(spans)
        self.upto = self.window.spans[-1].high
        self.key = ("window", coverage.read_as)
        self.placed = coverage.read_as is not None

    def absorb(self, other: "WindowQuestion") -> None:
        self.window.spans = merged([*self.window.spans, *other.window.spans])
        self.upto = self.window.spans[-1].high

    def see(self, block: Block, rows: slice | Ints) -> None:
        self.window.parts.append(engine.window(block, self.window.spans, self.coverage.weights(rows)))

    def terms(self) -> tuple[object, ...]:
        return (self.window.spans,)

    def answer(self) -> Answer:
        return Answer(rows=tuple(np.concatenate(each) for each in zip(*self.window.parts, strict=True)))

    def add(self, answer: Answer) -> None:
        assert answer.rows is not None
        self.window.parts.append(engine.Pairs(*answer.rows))


def merged(spans: list[Cell]) -> list[Cell]:
    """Return the union of intervals, as disjoint ones."""
    merged: list[Cell] = []
    for span in sorted(spans):
        if merged and span.low <= merged[-1].high:
            merged[-1] = Cell(merged[-1].low, max(span.high, merged[-1].high))
        else:
            merged.append(span)
    return merged
