"""Groups of classes at work: what guarantees find where each group has a threshold of its own.

With ``s = sum over l in G of W[y, l] (1{S(x, l) <= q} - (1 - alpha))``, coverage within G is at least 1 -
alpha where the mean of s is not negative, and s is bounded: the theorems about the marginal coverage hold for
s as they do for shares (docs/guarantees.md, G1).
"""

import numpy as np

from nacp import engine
from nacp._types import Floats, Ints
from nacp.coverage import Question, Talk
from nacp.coverage.crossing import ROUNDING, Rule
from nacp.coverage.parted import PartedCoverage
from nacp.coverage.parting import Cells, Crossings
from nacp.engine import Block
from nacp.guarantees.base import Finding
from nacp.guarantees.lumped import LumpedBets, hopeful
from nacp.points.arrays import rows_at_once
from nacp.stats.betting import Bets
from nacp.stats.bounds import gap_is_small
from nacp.tuning import tuning
from nacp.wrapping import counted

# What so few classes of a group gain is looked up, one after the other.
_FEW = 4


def cross(
    coverage: PartedCoverage, alpha: float, corrections: Floats, crossing: Rule, name: str
) -> Talk[list[Finding]]:
    """Return for each group where its estimate crosses ``1 - alpha`` and its correction."""
    found = yield from coverage.crossings((1 - alpha + corrections)[None], crossing)
    return _findings(coverage, alpha, corrections, found[0], name)


def _findings(
    coverage: PartedCoverage, alpha: float, corrections: Floats, found: Crossings, name: str
) -> list[Finding]:
    return [
        Finding(q, estimate, correction, None if q < np.inf else _why(coverage, g, alpha, correction, name))
        for g, (q, estimate, correction) in enumerate(
            zip(found.thresholds.tolist(), found.estimates.tolist(), corrections.tolist(), strict=True)
        )
    ]


def _why(coverage: PartedCoverage, group: int, alpha: float, correction: float, name: str) -> str:
    nothing = absent(coverage, group)
    if nothing is not None:
        return nothing
    if correction <= alpha + ROUNDING:
        return "the estimated coverage stays below the target at every finite score"
    return (
        f'the correction of guarantee "{name}", {correction:.4g}, puts the target {1 - alpha:.6g} above 1: '
        "too few points"
    )


def absent(coverage: PartedCoverage, group: int) -> str | None:
    """Say that there are no points of a group, where there are none."""
    if coverage.mass[group] > 0:
        return None
    if not coverage.counts[group]:
        return coverage.absent
    return "by the noise model, its labels are all wrong ones"


def exchange(coverage: PartedCoverage, alpha: float, crossing: Rule, worst: bool) -> Talk[list[Finding]]:
    """Return what "expected" finds: the exchange rule, and the worst case where its gap is not small."""
    each = coverage.per_point
    if worst:
        found = yield from cross(coverage, alpha, _worst(coverage), crossing, "expected")
        return found
    least, most = coverage.range(alpha)
    targets = 1 - alpha - np.stack([least, most]) * each
    upper, lower = yield from coverage.crossings(targets, crossing)
    found = _findings(coverage, alpha, -least * each, upper, "expected")
    gaps = (upper.losses - lower.losses) * np.where(upper.thresholds < np.inf, each, 0.0)
    large = ~gap_is_small(gaps, each, alpha)
    if large.any():
        careful = yield from cross(coverage, alpha, _worst(coverage), crossing, "expected")
        for g in np.flatnonzero(large).tolist():
            note = f"the gap, {gaps[g]:.2g}, is not small, so the threshold is that of the worst case"
            found[g] = careful[g]._replace(note=note)
    return [at._replace(gap=gap) for at, gap in zip(found, gaps.tolist(), strict=True)]


def _worst(coverage: PartedCoverage) -> Floats:
    positive, negative = coverage.greatest(lambda w: np.maximum(w, 0), lambda w: np.maximum(-w, 0))
    found: Floats = (positive + negative) * coverage.worst_case()
    return found


def bet(coverage: PartedCoverage, alpha: float, delta: float, grid: Floats, seed: int) -> Talk[list[Finding]]:
    """Return for each group the smallest threshold of the grid from which on upwards all bets are won."""
    if coverage.counts_weights and (yield from _hopeless(coverage, alpha, delta, grid)):
        return [_unpassed(coverage, g) for g in range(coverage.number)]
    pairs, hits, rest, net = yield from coverage.curves(grid)
    starts = hopeful(coverage, alpha, delta, hits, rest)
    kind = PartedBets if coverage.constant is None else LumpedBets
    bets: LumpedBets | PartedBets = kind(coverage, alpha, delta, grid, starts, seed)
    if not bets.done:
        yield [bets]
    found = []
    for g, place in enumerate(bets.settled().tolist()):
        if place < len(grid) and pairs[g, place] < coverage.pairs[g]:
            found.append(Finding(float(grid[place]), float(net[g, place] / coverage.mass[g]), 0.0))
        else:
            found.append(_unpassed(coverage, g))
    return found


def _hopeless(coverage: PartedCoverage, alpha: float, delta: float, grid: Floats) -> Talk[bool]:
    """Return whether all groups are so small that a bet at the largest threshold could hardly be won.

    Then nothing else has to be known of them. If it is not so, a look at the largest threshold is in vain: it
    is taken where it would be so with all pairs, which mostly score less.
    """
    hits = np.bincount(
        coverage.of_labels[coverage.sample.label_scores <= grid[-1]], minlength=coverage.number
    )

    def none_is_hopeful(gains: Ints, losses: Ints) -> bool:
        rest = np.float64(coverage.unit) * (gains - losses)[:, None]
        return bool(hopeful(coverage, alpha, delta, hits[:, None], rest).all())

    if not none_is_hopeful(*coverage.totals):
        return False
    weighed = yield from coverage.counted(np.full((1, coverage.number), grid[-1]))
    return none_is_hopeful(*weighed[:, 0])


def _unpassed(coverage: PartedCoverage, group: int) -> Finding:
    points = counted(int(coverage.counts[group]), "label")
    why = absent(coverage, group) or f'with {points} no smaller sets pass the test of guarantee "pac"'
    return Finding(np.inf, 1.0, 0.0, why)


class PartedBets(Question):
    """Bets that coverage within each group reaches 1 - alpha, at all places of a grid from some on."""

    placed = True

    def __init__(
        self, coverage: PartedCoverage, alpha: float, delta: float, grid: Floats, starts: Ints, seed: int
    ) -> None:
        self.order = coverage.sample.shuffled(seed)
        self._coverage, self._alpha, self._starts = coverage, alpha, starts
        self._failed, self._cells = starts - 1, Cells(np.concatenate([[-np.inf], grid, [np.inf]]))
        least, most = coverage.range(alpha)
        self._width = most - least
        self._columns = [np.flatnonzero(coverage.places == g) for g in range(coverage.number)]
        self._bets = {
            g: Bets(
                len(grid) - start,
                coverage.n,
                delta,
                0.99 * self._width[g] / -least[g],
                engine.play,
                np.zeros(len(grid) - start, dtype=np.int64),
            )
            for g, start in enumerate(starts.tolist())
            if start < len(grid)
        }
        self._next()

    def see(self, block: Block, rows: Ints) -> None:
        labels, cells = self._coverage.sample.labels[rows], self._cells.of(block)
        for g, bets in list(self._bets.items()):
            bets.play(self._gains(cells, labels, g, self._starts[g] + bets.open))
            if bets.lost.any():
                self._failed[g] = self._starts[g] + int(np.flatnonzero(bets.lost)[-1])
            if not len(bets.open):
                del self._bets[g]
        self._next()

    def _gains(self, cells: Ints, labels: Ints, group: int, places: Ints) -> Floats:
        """Return what each row gains at places of the grid: s over the width of its range, (rows, places)."""
        columns, rows, number = self._columns[group], len(labels), len(places) + 1
        weights = self._coverage.inverse.entries(labels[:, None], columns)
        after = np.searchsorted(places, cells[:, columns], side="left")
        if len(columns) <= _FEW:
            every = np.arange(number)
            table: Floats = (every[:, None] <= every[:-1]).astype(np.float64) - (1 - self._alpha)
            weights *= 1 / self._width[group]
            found = table[after[:, 0]]
            found *= weights[:, :1]
            for j in range(1, len(columns)):
                found += table[after[:, j]] * weights[:, j, None]
            return found
        after += np.arange(rows)[:, None] * number
        sums = np.bincount(after.reshape(-1), weights.reshape(-1), minlength=rows * number)
        found = np.cumsum(sums.reshape(rows, number)[:, :-1], axis=1)
        found -= (1 - self._alpha) * weights.sum(axis=1, keepdims=True)
        found *= 1 / self._width[group]
        return found

    def _next(self) -> None:
        most = max((len(bets.open) for bets in self._bets.values()), default=1)
        self.done = not self._bets
        self.most_rows = max(1, min(rows_at_once(self._coverage.k), tuning().bets_entries // max(most, 1)))

    def settled(self) -> Ints:
        """Return for each group the place above the last one where a bet was not won."""
        for g, bets in self._bets.items():
            self._failed[g] = max(self._failed[g], self._starts[g] + int(bets.open.max(initial=-1)))
        return self._failed + 1
