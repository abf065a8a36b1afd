"""PartedCoverage: what can be known of the coverage within groups of classes, under one W.

For any phi(x, l) the mean of ``sum_l W[y, l] phi(x, l)`` over the noisy label y is phi at the true one. So
the coverage within a group G of classes is ``sum_i sum_{l in G} W[y_i, l] 1{S(x_i, l) <= q}`` divided by
``sum_i sum_{l in G} W[y_i, l]``, the group's *mass*: an estimate of how many of the points are of its classes
(docs/guarantees.md, G1). Each pair (row, label) belongs to one group, so all groups are read for at once.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Bools, Floats, Ints
from nacp.coverage.asking import Talk
from nacp.coverage.coverage import written
from nacp.coverage.crossing import ROUNDING, Rule
from nacp.coverage.estimator import rest_unit, whole
from nacp.coverage.marked import MarksQuestion, counted_crossings
from nacp.coverage.parting import Crossings, Events, Known, PartedTally, PartedWindow, Path, Scores
from nacp.coverage.sample import Sample
from nacp.engine import Block, PerRow
from nacp.engine.cells import EDGES
from nacp.engine.contract import ByLabel, Whole
from nacp.noise.matrices import ClassMatrix, GroupedMatrix
from nacp.points.arrays import row_slices
from nacp.stats.bounds import expected_excess
from nacp.tuning import tuning

# Groups times cells of the first read, and how many cells at the least and at the most.
_TALLIED, _FEWEST, _MOST = 1 << 18, 64, 4096
# From so many scores comes where these cells are.
_GLANCED = 1 << 16
# So many rows of W are looked at together.
_ROWS = 32


class Curves(NamedTuple):
    """For each group and threshold how many pairs, and how many given labels of the group, score up to there.

    And what these pairs weigh, and the estimated number of true labels that do; all of shape (groups,
    thresholds).
    """

    pairs: Ints
    hits: Ints
    rest: Floats
    net: Floats


class PartedCoverage:
    """The estimate of the clean coverage within each group of classes.

    Parameters
    ----------
    sample : Sample
        The points, with one label each.
    inverse : ClassMatrix
        W.
    places : array of shape (k,)
        The group of each class.
    number : int
        How many groups there are.
    points : int, optional
        For how many points the unit of the weights must suffice; by default for those of the sample.
    """

    absent = "no label is of its classes"

    def __init__(
        self, sample: Sample, inverse: ClassMatrix, places: Ints, number: int, points: int | None = None
    ) -> None:
        self.sample, self.inverse, self.places, self.number = sample, inverse, places, number
        self.n, self.k = sample.n, sample.k
        self.counts: Ints = np.bincount(self.of_labels, minlength=number)
        self.mass: Floats = self._mass()
        self._known: Known | None = None
        self._points = points or self.n
        self.unit, self.constant = rest_unit(inverse, self._points)
        largest = np.abs(inverse.own).max()
        self.own_unit, self._own = whole(inverse.own, largest, largest, self._points)

    def terms(self) -> tuple[object, ...]:
        """Return what else than a sample it is made of: of parts of the points, what they add up to."""
        return self.inverse, self.places, self.number, self._points

    def _mass(self) -> Floats:
        by_class = self.inverse.push(self.sample.label_counts(self.k))
        return np.bincount(self.places, by_class, minlength=self.number).astype(np.float64)

    @cached_property
    def classes(self) -> Ints:
        """How many classes each group has."""
        return np.bincount(self.places, minlength=self.number)

    @property
    def pairs(self) -> Ints:
        """How many pairs each group has in all."""
        every: Ints = self.n * self.classes
        return every

    @property
    def of_labels(self) -> Ints:
        """The group of each given label."""
        return self.places[self.sample.labels]

    def of(self, rows: slice | Ints) -> Ints:
        """Return the groups of the pairs of some rows: an array that broadcasts to (rows, k)."""
        return self.places

    counts_weights = True  # whether what pairs weigh can be counted by group

    def count(self, block: Block, rows: slice | Ints, marks: Floats) -> Ints:
        """Return what pairs of each group gain and lose that score below its marks, and up to them.

        Of shape (2, 2, marks, groups), in whole units.
        """
        weights = self.weights_of(rows)
        found = engine.counts(block, marks[:, self.places], weights)
        sums, (order, groups, starts) = (
            np.zeros((*found.shape[:-1], self.number), dtype=np.int64),
            self._parted,
        )
        sums[..., groups] = np.add.reduceat(found[..., order], starts, axis=-1)
        return sums if weights is not None else self._signed(sums)

    def weights_of(self, rows: slice | Ints) -> ByLabel | None:
        """Return the weights of the pairs of some rows; None if all are the same."""
        if self.constant is not None:
            return None
        table = (self.inverse, self.unit) if self._table is None else (self._table,)
        return ByLabel(self.sample.labels[rows], *table)

    @cached_property
    def _parted(self) -> tuple[Ints, Ints, Ints]:
        """The classes by group, the groups that have some, and where each begins."""
        order = np.argsort(self.places, kind="stable")
        return order, *np.unique(self.places[order], return_index=True)

    def _signed(self, pairs: Ints) -> Ints:
        """Return what so many pairs gain and lose, where all weigh the same."""
        constant = self.constant or 0
        return np.stack([pairs * max(constant, 0), pairs * max(-constant, 0)])

    @cached_property
    def totals(self) -> Ints:
        """What all pairs of each group gain and lose: (2, groups), in whole units."""
        if self.constant is not None:
            return self._signed(self.pairs)
        counts, sums = (
            np.bincount(self.sample.labels, minlength=self.k),
            np.zeros((2, self.k), dtype=np.int64),
        )
        for rows in row_slices(self.k, self.k, _ROWS):
            weighed = counts[rows, None] * self.weights(np.arange(self.k)[rows])
            sums += np.maximum(weighed, 0).sum(axis=0), np.maximum(-weighed, 0).sum(axis=0)
        found = np.zeros((2, self.number), dtype=np.int64)
        np.add.at(found.T, self.places, sums.T)
        return found

    @property
    def per_point(self) -> Floats:
        """One over the mass of each group; infinite where there is none."""
        with np.errstate(divide="ignore"):
            return np.where(self.mass > 0, 1 / np.maximum(self.mass, 0), np.inf)

    @cached_property
    def labels(self) -> Events:
        """The given labels: their groups, scores and own weights, by group and score."""
        of, scores = self.of_labels, self.sample.label_scores
        order = np.argsort(scores)
        # Small numbers are put in order by their digits.
        order = order[np.argsort(of[order].astype(np.min_scalar_type(self.number)), kind="stable")]
        own = self._own[self.sample.labels]
        return Events(of[order], scores[order], own[order], np.zeros(self.n, dtype=np.int64))

    def weights(self, labels: Ints, columns: Ints | None = None) -> Ints:
        """Return the weights of pairs of rows with such labels, as whole numbers; without columns, of all."""
        if self._table is not None:
            return self._table.rest(labels, columns)
        return np.rint(self.inverse.rest(labels, columns) / self.unit).astype(np.int64)

    @cached_property
    def _table(self) -> Whole | None:
        return None if self.k**2 > tuning().written_weights else written(self.inverse, self.unit)

    def crossings(self, targets: Floats, rule: Rule) -> Talk[list[Crossings]]:
        """Return where the estimate of each group crosses its targets, of shape (several, groups)."""
        found = yield from counted_crossings(self, targets, rule)
        if found is None:
            found = yield from self._collected(targets, rule)
        return found

    def _collected(self, targets: Floats, rule: Rule) -> Talk[list[Crossings]]:
        """Return where estimates cross targets, by collecting the pairs of the cells in which they may."""
        bars = np.where((self.mass > 0) & (targets <= 1 + ROUNDING), targets - ROUNDING, np.inf)
        if self.n * self.k <= tuning().collected_pairs:
            known = Known.nothing(self.number)
        else:
            known = self._known or (yield from self._tallied())
        wanted = np.zeros((self.number, len(known.edges) - 1), dtype=bool)
        for bar in bars:
            wanted |= known.wanted(self, bar, rule) & np.isfinite(bar)[:, None]
        open_groups = np.flatnonzero(np.isfinite(bars).any(axis=0))
        pairs = np.where(wanted, known.pairs_in(self), 0).sum(axis=1)
        found = [Crossings.nowhere(self.number) for _ in bars]
        for some in _batches(open_groups, pairs[open_groups], tuning().collected_pairs):
            window = PartedWindow(self, known.edges, wanted, some)
            yield [window]
            path = self._followed(window.events(), known, wanted, some)
            for bar, crossings in zip(bars, found, strict=True):
                path.settle(bar, rule, some, crossings)
        return found

    def _tallied(self) -> Talk[Known]:
        cells = int(np.clip(_TALLIED // self.number, _FEWEST, _MOST))
        tally = PartedTally(self, self._edges(cells))
        yield [tally]
        self._known = Known(tally.edges, tally.cumulated())
        return self._known

    def _edges(self, cells: int) -> Floats:
        """Return edges that part the scores of a few rows, and those of the labels, evenly: ascending."""
        glance, labels = Scores(), self.sample.label_scores
        self.sample.glance([glance])
        every = sum(map(len, glance.found))
        pairs = np.concatenate(glance.found)[:: max(1, every // _GLANCED)]
        some = [np.sort(each) for each in (pairs, labels[:: max(1, self.n // _GLANCED)])]
        inner = [each[np.linspace(0, len(each) - 1, cells // 2).astype(np.int64)] for each in some]
        found = EDGES[np.searchsorted(EDGES, np.append(*inner))]
        return np.unique(np.concatenate([[-np.inf], found, [np.inf]]))

    def _followed(self, pairs: Events, known: Known, wanted: Bools, some: Ints) -> Path:
        """Return the estimates of some groups along the cells that were collected."""
        labels = self.labels
        cell = np.searchsorted(known.edges, labels.scores, side="left") - 1
        mine = np.isin(labels.groups, some) & wanted[labels.groups, np.maximum(cell, 0)]
        # What is known at the lower end of each cell is where it begins.
        where, first = np.nonzero(wanted & np.isin(np.arange(self.number), some)[:, None])
        base = Events(where, known.edges[first], np.zeros_like(where), np.zeros_like(where))
        parts = [base, pairs, labels.at(mine)]
        group, score = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        kind = np.repeat([1, 0, 0], [len(part.groups) for part in parts])
        order = np.lexsort((kind, score, group))
        group, score, kind = group[order], score[order], kind[order]
        own, rest = (np.concatenate([part[i] for part in parts])[order] for i in (2, 3))
        # From the lower end of a cell on, it is what is known there, and what came since.
        starts = np.flatnonzero(kind == 1)
        since = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(group))))
        (gained, lost), units = known.at_edges(self, where, first), (self.own_unit, self.unit)
        falling, net = np.zeros(len(group)), []
        for each, up, down, unit in zip((own, rest), gained, lost, units, strict=True):
            upto, losses = np.cumsum(each), np.cumsum(np.maximum(-each, 0))
            net.append(upto - upto[starts][since] + (up - down)[since])
            falling += (losses - losses[starts][since] + down[since]) * unit
        covered = (net[0] * self.own_unit + net[1] * self.unit) / self.mass[group]
        return Path(group, score, kind == 0, covered, falling)

    def counted(self, thresholds: Floats) -> Talk[Ints]:
        """Return what pairs gain and lose that score at most as thresholds: (2, thresholds, groups)."""
        question = MarksQuestion(self, thresholds)
        yield [question]
        return question.found[:, 1]

    def curves(self, grid: Floats) -> Talk["Curves"]:
        """Return what is known of each group at ascending thresholds that are the same for all."""
        tally = PartedTally(self, np.concatenate([[-np.inf], grid, [np.inf]]))
        yield [tally]
        pairs, gains, losses = tally.cumulated()[:, :, :-1]
        labels, place = self.labels, np.searchsorted(grid, self.labels.scores, side="left")
        inside = place < len(grid)
        hits, own = np.zeros((2, *pairs.shape), dtype=np.int64)
        for total, weights in ((hits, np.ones_like(labels.own)), (own, labels.own)):
            np.add.at(total, (labels.groups[inside], place[inside]), weights[inside])
            np.cumsum(total, axis=1, out=total)
        rest = (gains - losses) * self.unit
        return Curves(pairs, hits, rest, own * self.own_unit + rest)

    def range(self, alpha: float) -> tuple[Floats, Floats]:
        """Return the least and the greatest ``sum_{l in G} W[y, l] (1{l in C} - (1 - alpha))``, by group."""
        most, minus_least = self.greatest(
            lambda w: np.maximum(alpha * w, -(1 - alpha) * w),
            lambda w: np.maximum(-alpha * w, (1 - alpha) * w),
        )
        return -minus_least, most

    def worst_case(self) -> Floats:
        """Return by how much an estimate exceeds the truth at most, on average, if W is at most 1: E1."""
        found: Floats = self.n * expected_excess(self.n) * self.per_point
        return found

    def greatest(self, *functions: Callable[[Floats], Floats]) -> list[Floats]:
        """Return the greatest sums over a group's columns of functions of W's entries, which are 0 at 0.

        Each is of shape (groups,): the greatest of all rows of W.
        """
        inverse = self.inverse
        if isinstance(inverse, GroupedMatrix):
            return [self._greatest_of_groups(inverse, of) for of in functions]
        (order, _, starts), every = self._parted, np.arange(self.k)
        found = np.full((len(functions), self.number), -np.inf)
        for rows in row_slices(self.k, self.k, _ROWS):
            entries = inverse.entries(every[rows, None], order)
            for greatest, of in zip(found, functions, strict=True):
                sums = of(entries)
                if len(starts) < self.k:
                    sums = np.add.reduceat(sums, starts, axis=1)
                np.maximum(greatest, sums.max(axis=0), out=greatest)
        return list(found)

    def _greatest_of_groups(self, inverse: GroupedMatrix, of: Callable[[Floats], Floats]) -> Floats:
        # Rows of one group of the noise are alike, but for their own column.
        together = np.zeros((len(inverse.shared), self.number), dtype=np.int64)
        np.add.at(together, (inverse.groups, self.places), 1)
        shared, whole = of(inverse.shared)[:, None], of(inverse.own_by_group + inverse.shared)[:, None]
        outside = shared * together
        inside = np.where(together > 0, outside - shared + whole, outside)
        some_are_outside = together < inverse.sizes[:, None]
        found: Floats = np.maximum(np.where(some_are_outside, outside, inside), inside).max(axis=0)
        return found


class RowPartedCoverage(PartedCoverage):
    """The same within each group of rows; `places` has one for each row.

    It is the coverage of the group's rows by themselves, of all groups at once.
    """

    absent = "no calibration point is of this group"

    def _mass(self) -> Floats:
        return self.counts.astype(np.float64)

    @property
    def pairs(self) -> Ints:
        every: Ints = self.counts * self.k
        return every

    @property
    def of_labels(self) -> Ints:
        return self.places

    def of(self, rows: slice | Ints) -> Ints:
        return self.places[rows][:, None]

    @property
    def counts_weights(self) -> bool:  # type: ignore[override]  # it depends on the noise
        return self.constant is not None

    def count(self, block: Block, rows: slice | Ints, marks: Floats) -> Ints:
        ends = np.stack([np.nextafter(marks, -np.inf), marks])
        sums, places = np.zeros((ends[..., 0].size, self.number), dtype=np.int64), self.places[rows]
        by_row = PerRow(ends.reshape(sums.shape)[:, places])
        np.add.at(sums.T, places, engine.profile(block, by_row))
        return self._signed(sums.reshape(ends.shape))

    def greatest(self, *functions: Callable[[Floats], Floats]) -> list[Floats]:
        every = PartedCoverage(self.sample, self.inverse, np.zeros(self.k, dtype=np.int64), 1)
        return [np.repeat(each, self.number) for each in every.greatest(*functions)]

    def worst_case(self) -> Floats:
        return np.array([expected_excess(max(1, n)) for n in self.counts.tolist()])


def _batches(groups: Ints, sizes: Ints, most: int) -> list[Ints]:
    """Part groups so that the sizes of each part sum to so many at the most, or it is one group."""
    parts: list[list[int]] = []
    room = 0
    for group, size in zip(groups.tolist(), sizes.tolist(), strict=True):
        if not parts or size > room:
            parts.append([])
            room = most
        parts[-1].append(group)
        room -= size
    return [np.array(part) for part in parts]
