"""Estimates of groups between the scores of their labels, where nothing but what pairs weigh changes them.

In a gap between two labels there may be many pairs, and an estimate is mostly nowhere near its bar. So gaps
are cut into parts by the bits of scores. Within a part an estimate is at least what it is where the part
begins, less all that pairs lose in it, and at the most that and all that they gain. Only the parts in which
it may cross its bar are looked into: they are cut again, and where few pairs are left, these are put in
order.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Bools, Floats, Ints
from nacp.coverage.asking import Answer, Question
from nacp.coverage.crossing import ROUNDING, Rule
from nacp.coverage.parting import Crossings, Path
from nacp.engine import Block

if TYPE_CHECKING:
    from nacp.coverage.parted import PartedCoverage

# So few pairs are put in order at once; else gaps are cut into so many parts, and these so often again.
_FEW, _PARTS, _AGAIN = 1 << 13, 128, 2


class GapPairs(NamedTuple):
    """Pairs in gaps: in which, their scores, and what they weigh in whole units."""

    gaps: Ints
    scores: Floats
    rest: Ints

    def at(self, places: Ints) -> "GapPairs":
        """Return those of some gaps, which are given new places; -1 stands for none."""
        new = places[self.gaps]
        some = np.flatnonzero(new >= 0)
        return GapPairs(new[some], self.scores[some], self.rest[some])

    @classmethod
    def joined(cls, parts: Sequence["GapPairs"]) -> "GapPairs":
        """Put pairs together."""
        return cls(*(np.concatenate(each) for each in zip(*parts, strict=True)))


class GapQuestion(Question):
    """The pairs of groups that score in gaps: above one number, and below another."""

    placed = True

    def __init__(self, coverage: "PartedCoverage", groups: Ints, low: Floats, high: Floats) -> None:
        self.coverage, self._gaps = coverage, (groups, low, high)
        self.pairs: list[GapPairs] = []  # of some rows each
        # A gap is one of each class of its group.
        classes, sizes = np.argsort(coverage.places, kind="stable"), coverage.classes[groups]
        self._of = np.repeat(np.arange(len(groups)), sizes)
        first = np.searchsorted(coverage.places[classes], groups) - np.cumsum(sizes) + sizes
        self._labels = classes[np.arange(len(self._of)) + np.repeat(first, sizes)]
        self._ends = low[self._of], high[self._of]

    def see(self, block: Block, rows: slice | Ints) -> None:
        coverage = self.coverage
        which, pairs = engine.gaps(block, self._labels, *self._ends, coverage.weights_of(rows))
        rest = pairs.weights if coverage.constant is None else np.full(len(which), coverage.constant)
        self.pairs.append(GapPairs(self._of[which], pairs.scores, rest))

    def terms(self) -> tuple[object, ...]:
        return self._gaps

    def answer(self) -> Answer:
        return Answer(rows=GapPairs.joined(self.pairs))

    def add(self, answer: Answer) -> None:
        self.pairs.append(GapPairs(*(answer.rows or ())))


class Gaps(NamedTuple):
    """Gaps of groups, ascending, and what is known where each begins.

    Attributes
    ----------
    groups : array of int
        Whose they are.
    low, high : arrays of float
        The keys of the scores at their ends (`_keys`); about, if they are parts of others.
    own, gains, losses : arrays of int
        What the labels' own weights add up to, which stays so, and what pairs gain and lose up to where they
        begin; in whole units.
    """

    groups: Ints
    low: Floats
    high: Floats
    own: Ints
    gains: Ints
    losses: Ints

    @classmethod
    def between(cls, groups: Ints, low: Floats, high: Floats, *begin: Ints) -> "Gaps":
        """Return the gaps between scores."""
        return cls(groups, _keys(low), _keys(high), *begin)

    def some(self, which: Bools) -> "Gaps":
        """Return some of them."""
        ends, begin = (self.low[which], self.high[which]), (self.gains[which], self.losses[which])
        return Gaps(self.groups[which], *ends, self.own[which], *begin)

    def settle(
        self,
        coverage: "PartedCoverage",
        pairs: list[GapPairs],
        may: Bools,
        bars: Floats,
        rule: Rule,
        results: list[Crossings],
    ) -> None:
        """Write down where the estimates of groups cross bars, of shape (several, groups).

        They may in some of the gaps: `may` is of shape (several, gaps).
        """
        few = sum(len(each.gaps) for each in pairs) <= _FEW
        cut = None if few else self._cut(pairs)
        for bar, mine, found in zip(bars, may, results, strict=True):
            if cut is None:
                gaps, places = self.some(mine), np.where(mine, np.cumsum(mine) - 1, -1)
                inside = GapPairs.joined([each.at(places) for each in pairs])
            else:
                gaps, inside = self._thinned(cut, mine, coverage, bar, rule)
                for _ in range(_AGAIN):
                    if len(inside.gaps) > _FEW:
                        every = np.ones(len(gaps.groups), dtype=bool)
                        gaps, inside = gaps._thinned(gaps._cut([inside]), every, coverage, bar, rule)
            gaps._path(coverage, inside).settle(bar, rule, gaps.groups[:0], found)

    def _cut(self, pairs: list[GapPairs]) -> "Parts":
        """Cut gaps into parts."""
        number, inside = len(self.groups) * _PARTS, []
        sums = np.zeros((2, number), dtype=np.int64)
        lowest, highest = (
            _keys(np.array([of([of(each.scores, initial=start) for each in pairs])]))
            for of, start in ((np.min, np.inf), (np.max, -np.inf))
        )
        low = np.maximum(self.low, lowest)
        scale = _PARTS / np.maximum(np.minimum(self.high, highest) - low, 1.0)
        for each in pairs:
            keys = _keys(each.scores)
            keys -= low[each.gaps]
            keys *= scale[each.gaps]
            part = np.clip(keys, 0, _PARTS - 1).astype(np.int64)
            part += each.gaps * _PARTS
            inside.append(each._replace(gaps=part))
            np.add.at(sums.reshape(-1), part + number * (each.rest < 0), np.abs(each.rest))
        begin = np.stack([self.gains, self.losses])[:, :, None]
        gains, losses = np.cumsum(np.append(begin, sums.reshape(2, -1, _PARTS), axis=2), axis=2)
        return Parts(inside, gains, losses, low[:, None] + np.arange(_PARTS + 1) / scale[:, None])

    def _thinned(
        self, cut: "Parts", mine: Bools, coverage: "PartedCoverage", bars: Floats, rule: Rule
    ) -> tuple["Gaps", GapPairs]:
        """Return the parts of some gaps in which estimates may cross their bars, and their pairs."""
        wanted = np.zeros((len(mine), _PARTS), dtype=bool)
        gains, losses = cut.gains[mine], cut.losses[mine]
        wanted[mine] = self.some(mine)._may_cross(coverage, gains, losses, bars, rule)
        gap, first = np.nonzero(wanted)
        places = np.full(wanted.size, -1)
        places[wanted.reshape(-1)] = np.arange(len(gap))
        low, high = cut.ends[gap, first], cut.ends[gap, first + 1]
        begin = self.own[gap], cut.gains[gap, first], cut.losses[gap, first]
        parts = Gaps(self.groups[gap], low, high, *begin)
        return parts, GapPairs.joined([each.at(places) for each in cut.pairs])

    def _estimates(self, coverage: "PartedCoverage", gains: Ints, losses: Ints) -> Floats:
        """Return the estimates where pairs gain and lose so much, of shape (gaps, any)."""
        own, mass = self.own[:, None] * coverage.own_unit, coverage.mass[self.groups][:, None]
        found: Floats = (own + (gains - losses) * coverage.unit) / mass
        return found

    def _may_cross(
        self, coverage: "PartedCoverage", gains: Ints, losses: Ints, bars: Floats, rule: Rule
    ) -> Bools:
        """Return in which parts estimates may cross their bars, from gains and losses up to the ends."""
        slack, bar, groups = ROUNDING / 8, bars[self.groups][:, None], np.repeat(self.groups, _PARTS)
        places = np.arange(len(groups)).reshape(-1, _PARTS)
        may: Bools
        if rule == "last":  # nothing matters before it is short of the bar
            short = self._estimates(coverage, gains[:, :-1], losses[:, :-1]) < bar
            last = np.zeros(coverage.number, dtype=np.int64)
            np.maximum.at(last, groups, np.where(short, places, 0).reshape(-1))
            least = self._estimates(coverage, gains[:, :-1], losses[:, 1:])
            may = (least < bar + slack) & (places >= last[self.groups][:, None])
            return may
        reached = self._estimates(coverage, gains[:, 1:], losses[:, 1:]) >= bar
        first = np.full(coverage.number, len(groups))
        np.minimum.at(first, groups, np.where(reached, places, len(groups)).reshape(-1))
        most = self._estimates(coverage, gains[:, 1:], losses[:, :-1])
        may = (most >= bar - slack) & (places <= first[self.groups][:, None])
        return may

    def _path(self, coverage: "PartedCoverage", pairs: GapPairs) -> Path:
        """Return the estimates along the gaps: where these begin, and at the scores of pairs."""
        number = len(self.groups)
        gap = np.append(np.arange(number), pairs.gaps)
        score = np.append(np.full(number, -np.inf), pairs.scores)
        order = np.lexsort((score, gap))
        gap, begins = gap[order], order < number
        since = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))

        def upto(first: Ints, values: Ints) -> Ints:
            each = np.append(first, values)[order]
            sums = np.cumsum(each)
            return sums - (sums - each)[since]

        net = upto(self.gains - self.losses, pairs.rest) * coverage.unit
        lost = upto(self.losses, np.maximum(-pairs.rest, 0)) * np.float64(coverage.unit)
        covered = (self.own[gap] * coverage.own_unit + net) / coverage.mass[self.groups[gap]]
        return Path(self.groups[gap], score[order], ~begins, covered, lost)


class Parts(NamedTuple):
    """Gaps that are cut into parts: pairs by part, and what is gained and lost up to the ends of parts.

    And their keys; all of shape (gaps, ends).
    """

    pairs: list[GapPairs]
    gains: Ints
    losses: Ints
    ends: Floats


def _keys(scores: Floats) -> Floats:
    """Return numbers in the order of scores, by which these are cut: about their bits.

    Of scores near 0, which differ in size, equal parts hold more alike numbers than by the scores themselves.
    """
    bits = (scores + 0.0).view(np.int64)  # -0.0 is 0.0
    return (bits ^ ((bits >> 63) & np.iinfo(np.int64).max)).astype(np.float64)
