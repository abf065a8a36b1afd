"""Coverage from counts alone: what is known where the points of a stream are gone.

Everything is known at the edges of cells, and between them nothing. Scores that are raised to the upper edges
of cells which were fixed before any point came are a coarser score: every theorem holds for it as it stands,
and for a larger threshold all the more (docs/guarantees.md, "Streams").
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

import numpy as np

from nacp._types import Floats, Ints
from nacp.coverage.counts import MOST_POINTS, Counts, label_shares, own_unit
from nacp.coverage.coverage import Coverage, Estimates
from nacp.coverage.crossing import EVERYWHERE, NOWHERE, ROUNDING, Crossing, Rule
from nacp.coverage.estimator import rest_unit
from nacp.coverage.sample import Question, Sample, Talk
from nacp.coverage.tally import Tally
from nacp.engine.cells import EDGES
from nacp.noise import Noise
from nacp.noise.matrices import ClassMatrix
from nacp.points import Widths
from nacp.scores import Score, TopK

T = TypeVar("T")

_SAFE = 0.00075  # by how much larger sets are at the most, to be on the safe side


class TalliedSample(Sample):
    """Points of which only counts are left; nobody can ask it to read.

    Parameters
    ----------
    counts : Counts
        What was counted.
    edges : array
        Of which cells.
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

    def __init__(
        self,
        counts: Counts,
        edges: Floats,
        score: Score,
        inverses: Mapping[tuple[Noise, float], ClassMatrix],
        widths: Widths,
        *,
        from_logits: bool,
        several: bool,
        played: Mapping[tuple[Noise, float], Question],
    ) -> None:
        self.counts, self.edges, self.score, self.unlabelled = counts, edges, score, None
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
        self.n, self.k, self.edges = sample.n, sample.k, sample.edges
        self.read_as = None if inverse.constant_rest is not None else (id(inverse), MOST_POINTS)
        cells = sample.counts.cells
        self._hits, self._pairs = (np.append(0, np.cumsum(cells[name])) for name in ("hits", "pairs"))
        own, own_unit_ = (cells["hits"], np.zeros(1, dtype=np.int64)), float(inverse.own[0])
        if f"own gains {place}" in cells:
            own, own_unit_ = (cells[f"own gains {place}"], cells[f"own losses {place}"]), own_unit(inverse)
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

    @cached_property
    def _falls_with_label(self) -> Floats:
        """What falls in each cell with a label, which rises by more; known where all pairs weigh the same."""
        constant = self.inverse.constant_rest
        if constant is None or self.sample.several is not None:
            return np.zeros(len(self.edges))
        return np.multiply(max(-constant, 0.0), self._counts.cells["hits"], dtype=np.float64)

    def _place(self, thresholds: Floats) -> Ints:
        """Return how many edges are not above thresholds."""
        return np.searchsorted(self.edges, thresholds, side="right")

    def crossings(self, targets: list[float], rule: Rule, *, last: bool = False) -> Talk[list[Crossing]]:
        return known([self._crossing(target, rule) for target in targets])

    def _crossing(self, target: float, rule: Rule) -> Crossing:
        """Return the edge at which the target is crossed; of the last crossings, no lower than the exact one.

        Inside a cell the estimate is no less than before it less what falls there alone. So above the highest
        cell where that is below the target nothing is crossed. But where many pairs share a cell, or the
        estimate hardly rises, that says little: sets are not made larger by a thousandth.
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
            place = len(self.edges) - int(np.argmax(~reached[::-1]))
            least = rising[:-1] - falling[1:] + self._falls_with_label
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
        return known((mean, np.append(0, np.cumsum(squares))[place] / self.k**2 / self.n))

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
        """Return the same, as if the estimate and the losses rose evenly from each edge to the next.

        They do not, but nobody knows how they rise inside a cell; but of ranks, which are one cell each.
        """
        _, falling, clean = self._at_edges
        short = [np.flatnonzero(clean < target - ROUNDING) for target in (*below, *above)]
        places = np.array([some[-1] if len(some) else -1 for some in short])
        start, stop = np.maximum(places, 0), np.minimum(places + 1, len(clean) - 1)
        rise = clean[stop] - clean[start]
        share = np.clip((np.append(below, above) - clean[start]) / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
        share = np.where(isinstance(self.sample.score, TopK), 1.0, share)
        losses = (falling[start] + share * (falling[stop] - falling[start])) / self.n
        return known(np.diff(losses.reshape(2, -1), axis=0)[0])

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
