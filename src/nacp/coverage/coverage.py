"""Coverage: what can be known of a sample under one W. Each method is a conversation with the sample."""

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Bools, Floats, Ints
from nacp.coverage.asking import Question, Talk, both
from nacp.coverage.crossing import Cell, Crossing, Rule, Search, cut
from nacp.coverage.estimator import Estimator, rest_unit
from nacp.coverage.hint import Hint, hint_from
from nacp.coverage.questions import (
    MomentsQuestion,
    SizesQuestion,
    TallyQuestion,
    Window,
    WindowQuestion,
)
from nacp.coverage.sample import Sample
from nacp.coverage.tally import Tally
from nacp.engine import Block, ByEntry, ByLabel
from nacp.engine.cells import CELLS, ENDS
from nacp.engine.contract import Table, Whole
from nacp.noise.matrices import ClassMatrix
from nacp.tuning import tuning


class Estimates(NamedTuple):
    """F^n-hat, F^r-hat and F^c-hat at some thresholds."""

    noisy: Floats
    random: Floats
    clean: Floats


class Coverage:
    """The estimate of the clean coverage of a sample under one W.

    Parameters
    ----------
    sample : Sample
        The points.
    inverse : ClassMatrix
        W.
    radius : float, default=0.0
        How far W's inverse may be from the truth, row by row; each row's share is lowered by what that may
        do to its mean.
    points : int, optional
        For how many points the unit of the weights must suffice; by default for those of the sample. Tallies
        of parts of the points add up if they are made for the same number.
    """

    def __init__(
        self, sample: Sample, inverse: ClassMatrix, radius: float = 0.0, points: int | None = None
    ) -> None:
        self.sample, self.inverse, self.radius = sample, inverse, radius
        self.n, self.k, self._points = sample.n, sample.k, points or sample.n
        self._unit, _ = rest_unit(inverse, self._points)
        # Where all pairs have the same weight, what is read does not depend on it.
        self.read_as = None if inverse.constant_rest is not None else (id(inverse), self._points)
        self._search: Search | None = None
        self._tally: Tally | None = None
        self._limit = np.inf  # up to where the first read counted
        self._held: list[Window] = sample.held.setdefault(self.read_as, [])

    played: Question | None = None  # bets that were placed on the points as they came

    def terms(self) -> tuple[Any, ...]:
        """Return what else than a sample it is made of: of parts of the points, what they add up to."""
        return self.inverse, self.radius, self._points

    def weights(self, rows: slice | Ints) -> ByLabel | ByEntry | None:
        """Return the weights of the pairs of some rows, for the engine; None if all are equal."""
        if self.read_as is None:
            return None
        if self.sample.parts is not None:
            return ByEntry(np.rint(self._mean_rest(rows) / self._unit).astype(np.int64))
        return ByLabel(self.sample.labels[rows], *self._table)

    @cached_property
    def _table(self) -> tuple[Table, float | None]:
        """The weights by label, and their unit; none where they are written out as whole numbers."""
        if self.k**2 > min(tuning().written_weights, self.n * self.k):
            return self.inverse, self._unit
        return written(self.inverse, self._unit), None

    def _mean_rest(self, rows: slice | Ints) -> Floats:
        """Return the mean of the rows of W's rest that belong to several labels of each point."""
        assert self.sample.parts is not None
        labels, parts = self.sample.labels[rows].T, self.sample.parts[rows].T
        total: Floats = sum(p[:, None] * self.inverse.rest(y) for y, p in zip(labels, parts, strict=True))
        return total

    @cached_property
    def estimator(self) -> Estimator:
        """The estimate, given tallies."""
        sample = self.sample
        return Estimator(sample.label_scores, sample.labels, self.inverse, self._points, sample.parts)

    def _known(self, hint: Hint) -> Talk[Search]:
        """Return what is known at the edges of all cells; first read that, and the pairs of some cells."""
        if self._search is None:
            kept = self.sample.kept
            keeps = self.sample.keeps and (kept is None or not (kept.labels or self.read_as is None))
            keep, cells = hint.keep if keeps else None, hint.cells
            if keep is not None:
                cells = []  # they are kept
            # Who counts pairs can collect them, too; else each row is looked at twice.
            within = all(cell.high <= hint.limit for cell in cells)
            along = cells if self.sample.collects and keeps and within else []
            tally = TallyQuestion(self, None, hint.limit, keep, hint.parts, spans=along, kept=hint.kept)
            windows = [WindowQuestion(self, cells)] if cells and not along else []
            yield [tally, *windows]
            for found in [tally.window, *(question.window for question in windows)]:
                if found is not None:
                    self._hold(found)
            if self._search is None:  # else another conversation learnt it just before
                self._search = Search(self.estimator)
                self._search.start(tally.found, tally.limit)
                self._limit = tally.limit
        return self._search

    def crossings(self, targets: list[float], rule: Rule, *, last: bool = False) -> Talk[list[Crossing]]:
        """Return one crossing for each target; at infinity where none qualifies.

        "first": the smallest q with ``F^c-hat(q) >= target``. "last": the smallest q such that the same holds
        for all q' >= q, the paper's "largest solution". `last`: nothing else will be asked about low scores,
        so that none need be kept.
        """
        search = self._search
        if search is None:
            hint = self._hint([t for t in targets if t <= 1], rule)
            search = yield from self._known(hint._replace(keep=None) if last else hint)
        while True:
            answers = [search.locate(target, rule) for target in targets]
            wanted = dict.fromkeys(cell for answer in answers if isinstance(answer, list) for cell in answer)
            if not wanted:
                return [answer for answer in answers if isinstance(answer, Crossing)]
            yield from self._look_into(search, list(wanted))

    def _look_into(self, search: Search, cells: list[Cell]) -> Talk[None]:
        """Collect the pairs of cells, as many as may be held; cut the others."""
        if any(cell.high > search.limit for cell in cells):
            every = TallyQuestion(self)
            yield [every]
            search.start(every.found, np.inf)
            return
        held = [(cell, window) for window in self._held for cell in cells if window.holds(cell)]
        if not held:
            numbers = np.cumsum([search.pairs_in(cell) for cell in cells])
            fitting = int(np.searchsorted(numbers, tuning().collected_pairs, side="right"))
            collected, others = cells[:fitting], cells[fitting:]
            edges = cut(others) if others else ENDS[:1]
            pairs, finer = WindowQuestion(self, collected or cells[:1]), TallyQuestion(self, edges)
            yield [question for question, some in ((pairs, collected), (finer, others)) if some]
            if others:
                search.learn(edges, finer.found)
            held = [(cell, pairs.window) for cell in collected]
            if collected:
                self._hold(pairs.window)
        for window in dict.fromkeys(window for _, window in held):
            some = [cell for cell, its in held if its is window]
            ascending = window.ascending(Cell(min(some).low, max(cell.high for cell in some)))
            for cell in some:
                search.look_into(cell, *ascending)

    def _hold(self, window: Window) -> None:
        """Keep pairs for whoever weighs them alike: so many that twice as many as one read collects fit."""
        kept, room = [window], 2 * tuning().collected_pairs - window.size
        for other in self._held:
            if other is not window and other.size <= room:
                kept.append(other)
                room -= other.size
        self._held[:] = kept

    def _hint(self, targets: list[float], rule: Rule) -> Hint:
        """Guess from a few rows in which cells targets are crossed; an error costs a read."""
        whole, few_pairs = self.n * self.k, self.sample.few_pairs
        if whole <= tuning().hint_pairs:
            return Hint([Cell(-np.inf, np.inf)], keep=np.inf)
        if not targets:
            return Hint([], keep=np.inf if whole <= few_pairs else None)
        rows, tallies, every = self._glance()
        # With half, HPS took another read for one of 20 pairs of alpha and noise, RAPS for three; with a bit
        # less, HPS for none, RAPS for five. From some labels alone, less is safer.
        guess, size = self._guess(), (self.n, self.k)
        half = 0.5 if self.sample.spec.ranked and guess.n == self.n else 0.4
        return hint_from(guess, len(rows), (tallies, every), size, few_pairs, targets, rule, half)

    def _guess(self) -> Estimator:
        """Return the estimator of all labels, or of some."""
        sample = self.sample
        rows, scores = sample.some_label_scores()
        if isinstance(rows, slice):
            return self.estimator
        parts = None if sample.parts is None else sample.parts[rows]
        return Estimator(scores, sample.labels[rows], self.inverse, self._points, parts)

    def _glance(self) -> tuple[Ints, Ints, Ints]:
        """Return some rows all over, the tallies of all cells of eighths of them, and what they add up to."""
        if self.read_as not in self.sample.glanced:
            tallies = np.zeros((8, 1 if self.read_as is None else 3, CELLS), dtype=np.int64)
            parts = [TallyQuestion(self, into=tally) for tally in tallies]
            self.sample.glanced[self.read_as] = self.sample.glance(parts), tallies, tallies.sum(axis=0)
        return self.sample.glanced[self.read_as]

    def at(self, thresholds: Floats) -> Talk[Estimates]:
        """Return the three estimates at native thresholds."""
        q = np.unique(thresholds)
        where = q.searchsorted(thresholds)
        upto = yield from self._upto(q)
        clean = self.estimator.clean(q, upto[1] - upto[2])
        found = Estimates(self.labels_upto(q) / self.given, upto[0] / (self.n * self.k), clean)
        return Estimates(*(values[where] for values in found))

    def at_with_deviations(self, thresholds: Floats) -> Talk[tuple[Estimates, list[float]]]:
        """Return the three estimates, and the standard deviation of a row's share, at native thresholds."""
        found = yield from both(self.at(thresholds), self.deviations(thresholds))
        return found

    def deviations(self, thresholds: Floats) -> Talk[list[float]]:
        """Return the standard deviation of a row's share at native thresholds."""
        moments = MomentsQuestion(self, thresholds)
        yield [moments]
        return moments.deviations(thresholds)

    def sizes(self, thresholds: Floats) -> Talk[tuple[Floats, Floats]]:
        """Return the mean share of all classes in a set, and that of its square, at native thresholds."""
        sizes = SizesQuestion(thresholds, self.k)
        yield [sizes]
        return sizes.means(thresholds)

    def labels_upto(self, q: Floats) -> Ints:
        """Return how many given labels score at most q."""
        return self.estimator.labels_upto(q)

    @property
    def given(self) -> int:
        """How many labels are given."""
        return len(self.estimator.label_scores)

    def testable(self, grid: Floats) -> Floats:
        """Return the thresholds at which all is known that a test needs, for a grid of them: all of these."""
        return grid

    def told_apart(self, grid: Floats) -> Bools:
        """Return of each of ascending thresholds whether sets may be larger at the next one.

        Known when a crossing is.
        """
        assert self._search is not None
        edges, pairs = self._search.edges, self._search.upto[0]
        place = edges.searchsorted(grid, side="right") - 1
        without = (pairs[1:] == pairs[:-1]) & (edges[1:] <= self._search.limit)
        same = (place[1:] == place[:-1]) & without[place[:-1]]
        return np.append(~same, True)

    def random_between(self, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return bounds of F^r-hat at native thresholds, from the ends of cells; known when a crossing is."""
        assert self._search is not None
        search = self._search
        place = np.searchsorted(search.edges, thresholds, side="left")
        within = np.searchsorted(search.edges, search.limit, side="right") - 1
        random = search.upto[0] / (self.n * self.k)
        return random[np.minimum(place - 1, within)], random[place]

    def losses(self, thresholds: Floats) -> Talk[Floats]:
        """Return psi-hat, the mean sum of ``max(-W[y, l], 0)`` over the sets, at native thresholds."""
        q, where = np.unique(thresholds, return_inverse=True)
        upto = yield from self._upto(q)
        found: Floats = self.estimator.parts(q, *upto[1:])[1][where] / self.n
        return found

    def losses_between(self, below: list[float], above: list[float]) -> Talk[Floats]:
        """Return what is lost between the last crossings of two targets, for pairs of them."""
        crossings = yield from self.crossings([*below, *above], "last")
        losses = yield from self.losses(np.array([at.threshold for at in crossings]))
        found: Floats = np.diff(losses.reshape(2, -1), axis=0)[0]
        return found

    def _upto(self, q: Floats) -> Talk[Ints]:
        """Return pairs, gains and losses up to ascending thresholds."""
        kept = self.sample.kept
        near = kept is not None and kept.has(q[-1], labels=self.read_as is not None)
        if self._search is None or q[-1] > self._search.limit or near:
            counts = TallyQuestion(self, np.append(-np.inf, q))
            yield [counts]
            return self.estimator.weighed(counts.found).cumsum(axis=1)
        while isinstance(answer := self._search.tallied(q), list):
            yield from self._look_into(self._search, list(dict.fromkeys(answer)))
        return answer

    def tally(self) -> Talk[Tally]:
        """Return what is known of all cells."""
        if self._tally is None:
            # As far as the first read counted, whether or not a search went on: engines differ in that.
            tally = TallyQuestion(self, limit=self._limit)
            yield [tally]
            self._tally = self.estimator.tally(tally.within_limit())
        return self._tally

    def tally_of_some(self) -> Talk[Tally]:
        """Return what is known of all cells; where not all are counted, from some of the rows."""
        if self.n * self.k <= tuning().counted_pairs:
            whole = yield from self.tally()
            return whole
        rows, _, tally = self._glance()
        sample, parts = self.sample, None if self.sample.parts is None else self.sample.parts[rows]
        some = Estimator(sample.label_scores[rows], sample.labels[rows], self.inverse, self._points, parts)
        return some.tally(tally)

    @cached_property
    def shift(self) -> float:
        """The most by which a mean of shares may be wrong because of the radius."""
        return self.radius * self.inverse.row_distance() if self.radius else 0.0

    @cached_property
    def range(self) -> tuple[float, float]:
        """The least and the greatest that one row's share can be."""
        low, high = self.inverse.subset_range()
        return low - self.shift, high

    def upto(self, threshold: float) -> float | None:
        """Return up to which score shares at thresholds up to this one depend on rows; None if on more."""
        return None if self.radius else float(threshold)

    @property
    def bets_on_any(self) -> bool:
        """Whether bets may be placed on any number of rows at once."""
        here = self.sample.here and self.sample.keeps and self._known_exactly
        return here and self.sample.rows.entries == self.sample.k

    @property
    def _known_exactly(self) -> bool:
        return not self.radius and self.sample.parts is None

    def bet(
        self,
        block: Block,
        rows: slice | Ints,
        points: slice,
        thresholds: Floats,
        bets: tuple[Ints, Floats, Ints, float],
        standing: tuple[Any, ...],
    ) -> None:
        """Bet on some rows of a block that their mean share reaches targets: see `nacp.engine.numpy.bet`."""
        sample, inverse = self.sample, self.inverse
        if self._known_exactly:
            labels = sample.label_scores[rows], inverse.own[sample.labels[rows]]
            scale = self._unit if inverse.constant_rest is None else inverse.constant_rest
            engine.bet(block, points, thresholds, self.weights(rows), labels, scale, bets, standing)
            return
        columns, targets, _, width = bets
        shares = self.shares(block, rows, thresholds)[points].take(columns, axis=1)
        state, most, outcome, *rest = standing
        engine.play(state, most, outcome, (shares - targets) * (1 / width), *rest)

    def shares(self, block: Block, rows: slice | Ints, thresholds: Floats) -> Floats:
        """Return g_q(x, y), each row's share in F^c-hat, at ascending native thresholds: (rows, thresholds).

        Less ``radius osc_q(x)`` if W is known up to a radius: that is how much g's mean may be wrong.
        """
        shares = self._known_shares(block, rows, thresholds)
        return shares - self.radius * oscillation(block, thresholds, self.inverse) if self.radius else shares

    def _known_shares(self, block: Block, rows: slice | Ints, thresholds: Floats) -> Floats:
        labels, inverse, parts = self.sample.labels[rows], self.inverse, self.sample.parts
        hit = self.sample.label_scores[rows][..., None] <= thresholds
        if parts is None:
            own: Floats = np.where(hit, inverse.own[labels][:, None], 0.0)
        else:
            own = np.einsum("ra,raq->rq", parts[rows] * inverse.own[labels], hit)
        if inverse.constant_rest == 0:
            return own
        if inverse.constant_rest is not None:
            return own + inverse.constant_rest * engine.profile(block, thresholds)
        return own + self._unit * engine.profile(block, thresholds, self.weights(rows))


def oscillation(block: Block, thresholds: Floats, inverse: ClassMatrix) -> Floats:
    """Return ``max_j h_j - min_j h_j`` of ``h_j = sum of W[j, l] over the set``: (rows, thresholds)."""
    sizes = engine.profile(block, thresholds).astype(np.int64)
    order, matrix = np.argsort(block.placed, axis=1, kind="stable"), inverse.dense()
    found = np.empty(sizes.shape)
    step = max(1, tuning().block_entries // (2 * len(matrix) ** 2))
    for start in range(0, len(order), step):
        some = slice(start, start + step)
        # By how much the rows' sums over the first so many classes differ, for 0 classes and more.
        spread = np.zeros((len(order[some]), len(matrix) + 1))
        spread[:, 1:] = np.ptp(np.cumsum(matrix[:, order[some]], axis=2), axis=0)
        found[some] = np.take_along_axis(spread, sizes[some], axis=1)
    return found


@lru_cache(maxsize=3)
def written(inverse: ClassMatrix, unit: float) -> Whole:
    """Return the weights of pairs by label as whole numbers, written out; batches want them again."""
    return Whole(np.rint(inverse.rest(np.arange(inverse.k)) / unit).astype(np.int64))
