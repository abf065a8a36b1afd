"""Crossings of groups from what pairs weigh at the scores of labels.

Between the scores of its labels the estimate of a group changes little: it falls by the pairs that lose, and
rises by those that gain (under uniform noise, by none). So it mostly crosses its target at the score of a
label, and all that has to be known is what the pairs weigh that score less than some of these, and as much at
the most. Which ones follows from the labels: pairs can take away and add only so much. Where an estimate may
cross its target between two labels, the pairs that score there are collected.
"""

from typing import TYPE_CHECKING

import numpy as np

from nacp._types import Bools, Floats, Ints
from nacp.coverage.asking import Answer, Question, Talk
from nacp.coverage.crossing import ROUNDING, Rule
from nacp.coverage.gaps import GapQuestion, Gaps
from nacp.coverage.parting import Crossings
from nacp.engine import Block

if TYPE_CHECKING:
    from nacp.coverage.parted import PartedCoverage

# So many marks of a group are compared with all its scores; where there are more, cells do better.
_MOST = 32


class MarksQuestion(Question):
    """What the pairs of each group gain and lose that score below marks of its own, and up to them.

    Of shape (2, 2, marks, groups), in whole units.
    """

    placed = True

    def __init__(self, coverage: "PartedCoverage", marks: Floats) -> None:
        self.coverage, self._marks = coverage, marks
        self.found: Ints = np.zeros((2, 2, *marks.shape), dtype=np.int64)

    def see(self, block: Block, rows: slice | Ints) -> None:
        self.found += self.coverage.count(block, rows, self._marks)

    def terms(self) -> tuple[object, ...]:
        return (self._marks,)

    def answer(self) -> Answer:
        return Answer((self.found,))

    def add(self, answer: Answer) -> None:
        self.found += answer.sums[0]


class Marks:
    """The different scores of each group's labels, where its estimate rises, and infinity; ascending.

    Parameters
    ----------
    coverage : PartedCoverage
        What is known of the groups.

    Attributes
    ----------
    groups, scores : arrays
        The marks; the last one of each group is at infinity.
    below, upto : arrays of int
        What the labels' own weights add up to below each, and with it.
    known : array of bool
        Which marks it is known of what pairs up to them weigh: those that somebody asked about, and the last.
    gains, losses, gains_below, losses_below : arrays of int
        What pairs gain and lose up to each, and below it, as far as it is known.
    """

    def __init__(self, coverage: "PartedCoverage") -> None:
        labels, self._coverage = coverage.labels, coverage
        changes = (labels.groups[1:] != labels.groups[:-1]) | (labels.scores[1:] != labels.scores[:-1])
        lasts = np.flatnonzero(np.append(changes, True)) if len(labels.groups) else labels.groups
        every, number = np.append(0, np.cumsum(labels.own)), np.arange(coverage.number)
        start, stop = (np.searchsorted(labels.groups, number, side=side) for side in ("left", "right"))
        at = np.searchsorted(labels.groups[lasts], number, side="right")
        self.groups = np.insert(labels.groups[lasts], at, number)
        self.scores = np.insert(labels.scores[lasts], at, np.inf)
        self.upto = np.insert(every[lasts + 1], at, every[stop]) - every[start][self.groups]
        self.below = self.before(self.upto)
        self.known = np.isinf(self.scores)
        gains, losses = np.where(self.known, coverage.totals[:, self.groups], 0)
        self.gains, self.losses, self.gains_below, self.losses_below = (
            gains,
            losses,
            gains.copy(),
            losses.copy(),
        )

    def before(self, values: Ints) -> Ints:
        """Return what is known of the mark before each; 0 of the first of a group."""
        first = np.append(True, self.groups[1:] != self.groups[:-1])
        return np.where(first, 0, np.append(0, values[:-1]))

    def estimates(self, own: Ints, gains: Ints, losses: Ints) -> Floats:
        """Return the estimates where labels weigh so much, and pairs gain and lose so much."""
        coverage = self._coverage
        weighed = own * coverage.own_unit + (gains - losses) * coverage.unit
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = weighed / coverage.mass[self.groups]
        return found

    def last(self, which: Bools) -> Ints:
        """Return for each group the last mark of which something is true; -1 if there is none."""
        return self._most(np.where(which, np.arange(len(self.groups)), -1))

    def first(self, which: Bools) -> Ints:
        """Return for each group the first mark of which something is true; as many as there are if none."""
        return -self._most(np.where(which, -np.arange(len(which)), -len(which)), -len(which))

    def _most(self, values: Ints, least: int = -1) -> Ints:
        found = np.full(self._coverage.number, least)
        np.maximum.at(found, self.groups, values)
        return found

    def ask(self, wanted: Bools) -> Talk[bool]:
        """Ask what pairs weigh up to some marks, and below them; return whether that can be asked."""
        coverage, some = self._coverage, np.flatnonzero(wanted & ~self.known)
        if not coverage.totals.any() or not len(some):
            self.known |= wanted
            return True
        # Those of a group come one below the other.
        groups = self.groups[some]
        slot = np.arange(len(some)) - np.searchsorted(groups, groups)
        number = int(slot.max()) + 1
        if number > _MOST:
            return False
        scores = np.full((number, coverage.number), -np.inf)
        scores[slot, groups] = self.scores[some]
        question = MarksQuestion(coverage, scores)
        yield [question]
        gains, losses = question.found[:, :, slot, groups]
        self.gains_below[some], self.gains[some] = gains
        self.losses_below[some], self.losses[some] = losses
        self.known |= wanted
        return True


def counted_crossings(
    coverage: "PartedCoverage", targets: Floats, rule: Rule
) -> Talk[list[Crossings] | None]:
    """Return where estimates cross targets, of shape (several, groups); None if this does not tell."""
    if not coverage.counts_weights or coverage.inverse.own.min() < 0:
        return None
    gaining, last = bool(coverage.totals[0].any()), rule == "last"
    bars = np.where((coverage.mass > 0) & (targets <= 1 + ROUNDING), targets - ROUNDING, np.inf)
    if bars.min() <= 0 and (not last or gaining):
        return None
    marks = Marks(coverage)
    (gains, losses), places = coverage.totals[:, marks.groups], np.arange(len(marks.groups))
    bar, wanted, own = bars[:, marks.groups], marks.known.copy(), marks.below if last else marks.upto
    highest, lowest = marks.estimates(own, gains, 0 * losses), marks.estimates(own, 0 * gains, losses)
    for each in bar:
        open_ = (highest >= each) & (lowest < each)
        if last:
            sure = marks.last(highest < each)[marks.groups]
            wanted |= (open_ & (places > sure)) | (places == sure)
        else:
            sure = marks.first(lowest >= each)[marks.groups]
            wanted |= (open_ & (places < sure)) | (places == sure)
    if not (yield from marks.ask(wanted & (np.isfinite(bar).any(axis=0) | marks.known))):
        return None
    at = marks.estimates(marks.upto, marks.gains, marks.losses)
    reached = marks.estimates(marks.below, marks.gains_below, marks.losses_below) if last else at
    reached = np.where(marks.known, reached, highest if last else lowest)
    results, may = [], np.zeros(bar.shape, dtype=bool)
    for i, (each, bar_of_group) in enumerate(zip(bar, bars, strict=True)):
        found, open_ = Crossings.nowhere(coverage.number), np.isfinite(bar_of_group)
        place = marks.last(reached < each) if last else marks.first(reached >= each)
        if last:  # reached even below all scores: a target of 0 or less
            none = open_ & (place < 0)
            found.thresholds[none], found.estimates[none] = -np.inf, 0.0
        some = np.flatnonzero(open_ & (place >= 0) & (place < len(places)))
        some = some[np.isfinite(marks.scores[place[some]])]
        found.thresholds[some], found.estimates[some] = marks.scores[place[some]], at[place[some]]
        found.losses[some] = marks.losses[place[some]] * coverage.unit
        results.append(found)
        if gaining:
            may[i] = _between(marks, each, place[marks.groups], rule) & open_[marks.groups]
    if may.any():
        yield from _follow(coverage, marks, may, bars, rule, results)
    return results


def _between(marks: Marks, bar: Floats, place: Ints, rule: Rule) -> Bools:
    """Return below which marks, and above those before them, an estimate may cross its bar.

    `place` is where it does, if not in between.
    """
    may: Bools
    places, slack = np.arange(len(bar)), ROUNDING / 8
    if rule == "last":
        least = marks.estimates(marks.below, marks.before(marks.gains), marks.losses_below)
        may = marks.known & (places > place) & (least < bar + slack)
        return may
    most = marks.estimates(marks.below, marks.gains_below, marks.before(marks.losses))
    # Where the mark before was not asked about, nothing that pairs gain would do.
    asked = marks.before(~marks.known) == 0
    may = marks.known & asked & (places <= place) & (most >= bar - slack)
    return may


def _follow(
    coverage: "PartedCoverage", marks: Marks, may: Bools, bars: Floats, rule: Rule, results: list[Crossings]
) -> Talk[None]:
    """Follow the estimates of groups through the gaps below marks where they may cross one of their bars."""
    every = np.flatnonzero(may.any(axis=0))
    groups = marks.groups[every]
    low = np.where(marks.groups[every - 1] == groups, marks.scores[every - 1], -np.inf)
    question = GapQuestion(coverage, groups, low, marks.scores[every])
    yield [question]
    # Labels are at the marks: in a gap, there are only pairs.
    begin = (marks.below, marks.before(marks.gains), marks.before(marks.losses))
    gaps = Gaps.between(groups, low, marks.scores[every], *(values[every] for values in begin))
    gaps.settle(coverage, question.pairs, may[:, every], bars, rule, results)
