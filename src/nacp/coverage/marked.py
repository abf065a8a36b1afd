"""Crossings of groups from counts alone, where all pairs weigh the same and none gains (uniform noise).

Between the scores of its labels the estimate of a group only falls. So it crosses its target at the score of
a label, and all that has to be known is how many pairs score less than some of these, and how many as much at
the most. Which ones follows from the labels: pairs can take away only so much.
"""

from typing import TYPE_CHECKING

import numpy as np

from nacp._types import Bools, Floats, Ints
from nacp.coverage.crossing import ROUNDING, Rule
from nacp.coverage.parting import Crossings
from nacp.coverage.sample import Question, Talk
from nacp.engine import Block

if TYPE_CHECKING:
    from nacp.coverage.parted import PartedCoverage

# So many thresholds of a group are compared with all its scores; where there are more, cells do better.
_MOST = 64


class MarksQuestion(Question):
    """How many pairs of each group score at most as thresholds of its own: (thresholds, groups)."""

    placed = True

    def __init__(self, coverage: "PartedCoverage", thresholds: Floats) -> None:
        self._coverage, self._thresholds = coverage, thresholds
        self.found: Ints = np.zeros(thresholds.shape, dtype=np.int64)

    def see(self, block: Block, rows: slice | Ints) -> None:
        self.found += self._coverage.count(block, rows, self._thresholds)


class Marks:
    """The different scores of each group's labels, by group and score: where its estimate rises.

    Parameters
    ----------
    coverage : PartedCoverage
        Where all pairs weigh the same.
    """

    def __init__(self, coverage: "PartedCoverage") -> None:
        labels, self._coverage = coverage.labels, coverage
        changes = (labels.groups[1:] != labels.groups[:-1]) | (labels.scores[1:] != labels.scores[:-1])
        lasts = np.flatnonzero(np.append(changes, True)) if len(labels.groups) else labels.groups
        self.groups, self.scores = labels.groups[lasts], labels.scores[lasts]
        self.starts = np.searchsorted(self.groups, np.arange(coverage.number + 1))
        # What the labels' own weights add up to below each, and with it.
        every = np.append(0, np.cumsum(labels.own))
        start = every[np.searchsorted(labels.groups, self.groups)]
        self.upto = every[lasts + 1] - start
        self.below = np.where(self.firsts, 0, np.append(0, self.upto[:-1]))

    @property
    def firsts(self) -> Bools:
        """Which of them are the first of their group."""
        return np.append(True, self.groups[1:] != self.groups[:-1])[: len(self.groups)]

    def estimates(self, own: Ints, pairs: Ints) -> Floats:
        """Return the estimates where labels weigh so much, and so many pairs score as much at the most."""
        coverage = self._coverage
        weighed = own * coverage.own_unit + pairs * int(coverage.constant or 0) * coverage.unit
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = weighed / coverage.mass[self.groups]
        return found

    def last(self, which: Bools | bool) -> Ints:
        """Return for each group the last mark of which something is true; -1 if there is none."""
        return self._most(np.where(which, np.arange(len(self.groups)), -1))

    def first(self, which: Bools) -> Ints:
        """Return for each group the first mark of which something is true; as many as there are if none."""
        return -self._most(np.where(which, -np.arange(len(which)), -len(which)), -len(which))

    def _most(self, values: Ints, least: int = -1) -> Ints:
        found = np.full(self._coverage.number, least)
        np.maximum.at(found, self.groups, values)
        return found


def counted_crossings(
    coverage: "PartedCoverage", targets: Floats, rule: Rule
) -> Talk[list[Crossings] | None]:
    """Return where estimates cross targets, of shape (several, groups); None if counts do not tell."""
    if coverage.constant is None or coverage.constant > 0 or coverage.inverse.own.min() < 0:
        return None
    bars = np.where((coverage.mass > 0) & (targets <= 1 + ROUNDING), targets - ROUNDING, np.inf)
    if rule == "first" and bars.min() <= 0:
        return None
    marks = Marks(coverage)
    every, places = coverage.pairs[marks.groups], np.arange(len(marks.groups))
    bar, shown = bars[:, marks.groups], np.zeros(len(places), dtype=bool)
    own = marks.below if rule == "last" else marks.upto
    # With none of the pairs, and with all of them.
    highest, lowest = marks.estimates(own, np.zeros_like(own)), marks.estimates(own, every)
    for each in bar:
        open_ = (highest >= each) & (lowest < each)
        if rule == "last":
            sure = marks.last(highest < each)[marks.groups]
            shown |= (open_ & (places > sure)) | (places == sure)
        else:
            sure = marks.first(lowest >= each)[marks.groups]
            shown |= (open_ & (places < sure)) | (places == sure)
    shown &= np.isfinite(bar).any(axis=0)
    counts = yield from _counts(coverage, marks, shown)
    if counts is None:
        return None
    below, upto = counts
    at, end = marks.estimates(marks.upto, upto), marks.estimates(marks.upto, every)
    ends = np.append(end, np.inf)[marks.last(True)]
    reached = at if rule == "first" else marks.estimates(marks.below, below)
    results = []
    for each, bar_of_group in zip(bar, bars, strict=True):
        found, closed = Crossings.nowhere(coverage.number), np.isinf(bar_of_group)
        if rule == "last":
            place = marks.last(np.where(shown, reached, highest) < each)
            found.thresholds[place < 0], found.estimates[place < 0] = -np.inf, 0.0
            closed |= ends < bar_of_group
        else:
            place = marks.first(np.where(shown, reached, lowest) >= each)
            place[place == len(marks.groups)] = -1
        some = np.flatnonzero(place >= 0)
        found.thresholds[some], found.estimates[some] = marks.scores[place[some]], at[place[some]]
        found.losses[some] = upto[place[some]] * -coverage.constant * coverage.unit
        found.thresholds[closed], found.estimates[closed], found.losses[closed] = np.inf, 1.0, 0.0
        results.append(found)
    return results


def _counts(coverage: "PartedCoverage", marks: Marks, shown: Bools) -> Talk[tuple[Ints, Ints] | None]:
    """Return how many pairs score less than some marks, and as much at the most: 0 for the others."""
    below, upto = np.zeros((2, len(shown)), dtype=np.int64)
    some = np.flatnonzero(shown)
    if not coverage.constant or not len(some):
        return below, upto
    # Those of a group come one below the other.
    slot = np.arange(len(some)) - np.searchsorted(marks.groups[some], marks.groups[some])
    number = int(slot.max()) + 1
    if 2 * number > _MOST:
        return None
    thresholds = np.full((2 * number, coverage.number), -np.inf)
    thresholds[slot, marks.groups[some]] = np.nextafter(marks.scores[some], -np.inf)
    thresholds[number + slot, marks.groups[some]] = marks.scores[some]
    question = MarksQuestion(coverage, thresholds)
    yield [question]
    below[some] = question.found[slot, marks.groups[some]]
    upto[some] = question.found[number + slot, marks.groups[some]]
    return below, upto
