"""Coverage from counts alone: what is known where the points of a stream are gone.

Everything is known at the edges of cells, and between them nothing. Scores that are raised to the upper edges
of cells which were fixed before any point came are a coarser score: every theorem holds for it as it stands,
and for a larger threshold all the more (docs/guarantees.md, "Streams").
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from nacp._types import Floats, Ints
from nacp.coverage.asking import Question, Talk
from nacp.coverage.counts import MOST_POINTS, PLACES, Counts, label_shares, own_unit
from nacp.coverage.coverage import Coverage, Estimates
from nacp.coverage.crossing import EVERYWHERE, NOWHERE, ROUNDING, Crossing, Rule
from nacp.coverage.estimator import rest_unit
from nacp.coverage.sample import Sample
from nacp.coverage.tally import Tally
from nacp.engine.cells import EDGES
from nacp.noise import Noise
from nacp.noise.matrices import ClassMatrix
from nacp.points import Widths
from nacp.scores import Score, TopK

T = TypeVar("T")

_SAFE = 0.00075  # by how much larger sets are at the most, to be on the safe side


class Inside(NamedTuple):
    """The likely path of n F^c-hat inside of the cells with labels, which are taken to lie evenly.

    Attributes
    ----------
    cells, hits : arrays
        Which cells these are, and how many labels each has.
    before, rise : arrays
        n F^c-hat just before the first label, and how much it is more before each further one.
    fallen, fall : arrays
        The share of what falls in the cell up to the first label, and how much it is more at each further.
    """

    cells: Ints
    hits: Ints
    before: Floats
    rise: Floats
    fallen: Floats
    fall: Floats


class TalliedSample(Sample):
    """Points of which only counts are left; nobody can ask it to read.

    Parameters
    ----------
    counts : Counts
        What was counted.
    edges, marks : arrays
        Of which cells, and at which of their edges squares of set sizes are known.
    score : Score
        By which score.
    inverses : dict
        W for each noise model and radius that somebody may ask about; in the order of the counts.
    widths : Widths
        How wide the numbers of the rows were.
    from_logits, several : bool
        Whether the rows were logits, and whether points have several labels each.
    played : dict
        The bets that were placed on the points under each of these, if there were some.
    """

    here = False

    def __init__(
        self,
        counts: Counts,
        edges: Floats,
        marks: Ints,
        score: Score,
        inverses: Mapping[tuple[Noise, float], ClassMatrix],
        widths: Widths,
        *,
        from_logits: bool,
        several: bool,
        played: Mapping[tuple[Noise, float], Question],
    ) -> None:
        self.counts, self.edges, self.marks, self.score, self.unlabelled = counts, edges, marks, score, None
        self.n, self.k = counts.n, next(iter(inverses.values())).k
        self._known = widths, from_logits, several
        self.in_order, self.seen_as = bool(played), {}
        for place, ((noise, radius), inverse) in enumerate(inverses.items()):
            coverage = TalliedCoverage(self, inverse, radius, place)
            coverage.played = played.get((noise, radius))
            self.seen_as[noise, radius] = coverage

    @property
    def widths(self) -> Widths:
        return self._known[0]

    @property
    def from_logits(self) -> bool:
        return self._known[1]

    @property
    def several(self) -> int | None:
        return self.counts.given if self._known[2] else None

    @property
    def class_counts(self) -> Floats:
        found: Floats = self.label_counts(0).reshape(-1, self.k).sum(axis=0)
        return found

    def label_counts(self, number: int) -> Floats:
        return label_shares(self.counts, self._known[2])


class TalliedCoverage(Coverage):
    """The estimate of the clean coverage under one W, from counts."""

    def __init__(self, sample: TalliedSample, inverse: ClassMatrix, radius: float, place: int) -> None:
        self.sample, self._counts, self.inverse, self.radius = sample, sample.counts, inverse, radius
        self.n, self.k, self.edges, self._marks = sample.n, sample.k, sample.edges, sample.marks
        self.read_as = None if inverse.constant_rest is not None else (id(inverse), MOST_POINTS)
        cells = sample.counts.cells
        self._hits, self._pairs = (np.append(0, np.cumsum(cells[name])) for name in ("hits", "pairs"))
        own, own_unit_ = (cells["hits"], np.zeros(1, dtype=np.int64)), float(inverse.own[0])
        if f"own gains {place}" in cells:
            own = cells[f"own gains {place}"], cells.get(f"own losses {place}", own[1])
            own_unit_ = own_unit(inverse)
        constant = inverse.constant_rest
        if constant is not None:
            none, pairs, unit = np.zeros(1, dtype=np.int64), cells["pairs"], abs(constant)
            rest = (pairs, none) if constant > 0 else (none, pairs)
        else:
            rest, unit = (
                (cells[f"gains {place}"], cells[f"losses {place}"]),
                rest_unit(inverse, MOST_POINTS)[0],
            )
        self._parts, self._units = (*own, *rest), (own_unit_, unit)

    @cached_property
    def _at_edges(self) -> tuple[Floats, Floats, Floats]:
        """The rising and the falling part of F^c-hat below and at all edges, times n, and itself."""
        upto = [np.append(0, np.cumsum(np.broadcast_to(part, self.edges.shape))) for part in self._parts]
        own, rest = self._units
        rising, falling = upto[0] * own + upto[2] * rest, upto[1] * own + upto[3] * rest
        clean = ((upto[0] - upto[1]) * own + (upto[2] - upto[3]) * rest) / self.n
        clean[-1] = 1.0  # all classes are in the sets
        return rising, falling, clean

    @property
    def _ranks(self) -> bool:
        """Whether scores are ranks: each has a cell of its own."""
        return isinstance(self.sample.score, TopK)

    @property
    def _fall(self) -> float:
        """What falls with each pair; 0 where that is not known, as pairs do not weigh the same."""
        constant = self.inverse.constant_rest
        return 0.0 if constant is None or self.sample.several is not None else max(-constant, 0.0)

    @cached_property
    def _mates(self) -> tuple[Ints, Ints]:
        """How many pairs of the labels' own rows are in each cell, and how many of these before the label."""
        cells, none = self._counts.cells, np.zeros(len(self.edges), dtype=np.int64)
        few = cells["pairs"] < 1 << 32
        mates, before = (np.where(few, cells.get(name, none), 0) for name in ("mates", "before"))
        return mates, before

    @cached_property
    def _inside(self) -> Inside:
        """What is likely between edges, where labels make the estimate jump.

        Their mean place is known, and what of their own rows lies before and after them. All else rises and
        falls evenly from edge to edge, as the cells are narrow; but where those beside hold fewer pairs, many
        pairs share a score, and come with its label.
        """
        rising, falling, _ = self._at_edges
        every, pairs = (self._counts.cells[name] for name in ("hits", "pairs"))
        cells = np.flatnonzero(every)
        hits, net = every[cells], rising - falling
        own = [np.broadcast_to(part, every.shape)[cells] for part in self._parts[:2]]
        jumps = (own[0] - own[1]) * self._units[0] - self._fall * hits
        beside = np.append(0, pairs)[cells] + np.append(pairs, 0)[cells + 1]
        mates, early = (each[cells] / hits for each in self._mates)
        each = (np.diff(net)[cells] - jumps) / np.maximum(pairs[cells] - hits, 1)
        even = np.clip(pairs[cells] - hits - mates * hits, 0, beside)
        if self._ranks:
            even[:] = 0
        tied = (pairs[cells] - even) / hits - mates  # with each label, and it
        mean = self._counts.cells["places"][cells] / (PLACES * hits)
        mean[hits >= (1 << 32) // PLACES] = 0.5
        apart = 2 * np.minimum(mean, 1 - mean) / (hits + 1)
        first = mean - (hits - 1) / 2 * apart
        before, rise = np.rint(even * first + early), even * apart + mates  # so many pairs
        fallen, fall = (before + tied) / pairs[cells], (rise + tied) / pairs[cells]
        return Inside(cells, hits, net[cells] + each * before, jumps / hits + each * rise, fallen, fall)

    def _last(self, target: float) -> tuple[int, float]:
        """Return the cell in which a target is likely to be crossed last, and what share of it; -1: none."""
        clean, bar = self._at_edges[2], (target - ROUNDING) * self.n
        short = np.flatnonzero(clean < target - ROUNDING)
        edge = int(short[-1]) if len(short) else -1
        cells, hits, before, rise, fallen, fall = self._inside
        dips = np.flatnonzero(np.minimum(before, before + (hits - 1) * rise) < bar)
        if len(dips) and cells[dips[-1]] >= edge:
            i = dips[-1]
            least = before[i] + (hits[i] - 1) * rise[i]
            jumps = hits[i] - 1 if least < bar else math.ceil((bar - before[i]) / rise[i]) - 1
            return int(cells[i]), min(fallen[i] + jumps * fall[i], 1.0)
        if edge < 0 or edge == len(self.edges):
            return edge - (edge > 0), 1.0
        # Without labels: it rises evenly, as far as anybody knows.
        rise_here = clean[edge + 1] - clean[edge]
        return edge, float(min((target - clean[edge]) / rise_here, 1.0)) if rise_here > 0 else 1.0

    def _place(self, thresholds: Floats) -> Ints:
        """Return how many edges are not above thresholds."""
        return np.searchsorted(self.edges, thresholds, side="right")

    def crossings(self, targets: list[float], rule: Rule, *, last: bool = False) -> Talk[list[Crossing]]:
        return known([self._crossing(target, rule) for target in targets])

    def _crossing(self, target: float, rule: Rule) -> Crossing:
        """Return the edge at which the target is crossed; of the last crossings, no lower than the exact one.

        As is likely, but never below what is known at edges; and on the safe side. Inside a cell the estimate
        is no less than before it less what falls there alone, so above the highest cell where that is below
        the target nothing is crossed. But where many pairs share a cell, or the estimate hardly rises, that
        says little: for it, sets are not made larger by a thousandth.
        """
        if target > 1 + ROUNDING:
            return NOWHERE
        rising, falling, clean = self._at_edges
        reached = clean >= target - ROUNDING
        if rule == "first":
            place = int(np.argmax(reached[1:]))
        elif reached.all():
            return EVERYWHERE
        else:
            place = max(len(self.edges) - int(np.argmax(~reached[::-1])), self._last(target)[0])
            mates, before = self._mates
            # What falls with a label, or after it by its own row, comes when the label has risen by more.
            later = self._fall * (self._counts.cells["hits"] + (mates - before))
            least = rising[:-1] - falling[1:] + later
            inside = least[:-1] < (target - ROUNDING + ROUNDING / 8) * self.n
            far = int(np.searchsorted(self._pairs, (1 + _SAFE) * self._pairs[place + 1], side="right")) - 2
            safe = min(far, int(np.flatnonzero(inside)[-1]))
            # Of edges with the same sets the lowest: from there on, tests may try smaller ones.
            place = max(place, int(np.searchsorted(self._pairs, self._pairs[safe + 1])) - 1)
        return Crossing(float(self.edges[place]), float(clean[place + 1]))

    def at(self, thresholds: Floats) -> Talk[Estimates]:
        noisy, clean = self.labels_upto(thresholds) / self.given, self._at_edges[2][self._place(thresholds)]
        return known(Estimates(noisy, self._random(thresholds), clean))

    def deviations(self, thresholds: Floats) -> Talk[list[float]]:
        """Return that they are not known: a stream keeps no squares of shares."""
        return known([math.nan] * len(thresholds))

    def sizes(self, thresholds: Floats) -> Talk[tuple[Floats, Floats]]:
        """Return the mean share of all classes in a set, and that of its square, or a bound of it."""
        place, squares = self._place(thresholds), self._counts.cells.get("squares")
        mean = self._pairs[place] / self.k / self.n
        if squares is None:
            return known((mean, mean))  # shares are at most 1
        marked = np.searchsorted(self._marks, place - 1) + 1  # from there on downwards: they rise
        square = np.append(0, np.cumsum(squares))[np.where(place, marked, 0)] / self.k**2 / self.n
        return known((mean, np.minimum(square, mean)))

    def _random(self, thresholds: Floats) -> Floats:
        found: Floats = self._pairs[self._place(thresholds)] / (self.n * self.k)
        return found

    def random_between(self, thresholds: Floats) -> tuple[Floats, Floats]:
        random = self._random(thresholds)
        return random, random

    def labels_upto(self, q: Floats) -> Ints:
        found: Ints = self._hits[self._place(q)]
        return found

    @property
    def given(self) -> int:
        return self._counts.given

    def testable(self, grid: Floats) -> Floats:
        """Return the edges next above the thresholds of a grid: a grid that was fixed before, too."""
        return np.unique(self.edges[:-1][np.searchsorted(self.edges[:-2], grid, side="left")])

    def losses(self, thresholds: Floats) -> Talk[Floats]:
        return known(self._at_edges[1][self._place(thresholds)] / self.n)

    def losses_between(self, below: list[float], above: list[float]) -> Talk[Floats]:
        """Return the same, where the targets are likely to be crossed."""
        cells, shares = np.transpose([self._last(target) for target in (*below, *above)])
        falling, places = self._at_edges[1], cells.astype(np.int64)
        start, stop = falling[np.maximum(places, 0)], falling[places + 1]
        pairs = np.maximum(np.diff(self._pairs)[places], 1)
        shares = np.ones(len(places)) if self._ranks else np.rint(shares * pairs) / pairs
        losses = np.diff((start + shares * (stop - start)).reshape(2, -1), axis=0)[0] / self.n
        # Unless they are ranks, a pair more may be between: just as many as are allowed are too many.
        return known(losses if self._ranks else losses * (1 + 1e-8))

    def tally(self) -> Talk[Tally]:
        """Return what is known of the wider cells that all calibrations have."""
        upto, cells = self._place(EDGES), self._counts.cells
        hits, pairs, *parts = (
            np.diff(np.append(0, np.cumsum(np.broadcast_to(part, self.edges.shape)))[upto], prepend=0)
            for part in (cells["hits"], cells["pairs"], *self._parts)
        )
        some = np.flatnonzero(pairs > 0)
        hits, pairs, own, *rest = (each[some] for each in (hits, pairs, parts[0] - parts[1], *parts[2:]))
        return known(Tally(self.n, self.k, some, hits, pairs, own, rest[0], rest[1], self._units))

    def tally_of_some(self) -> Talk[Tally]:
        return self.tally()


def known(value: T) -> Talk[T]:
    """Return a conversation in which nothing is asked."""
    yield from ()
    return value
