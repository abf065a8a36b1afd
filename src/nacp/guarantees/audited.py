"""Checked labels at work: what "pac", "expected" and "none" find where some labels were checked.

Nothing is assumed about the noise (docs/guarantees.md, A1). Each checked label is a round of `HedgedBets`,
with the guesses of the points of its batch.
"""

import math
from collections.abc import Sequence

import numpy as np

from nacp import engine
from nacp._types import Floats, Ints
from nacp.coverage.audited import AuditedCoverage
from nacp.coverage.sample import Question, Talk
from nacp.engine import Block
from nacp.guarantees.base import Finding
from nacp.stats.bounds import chernoff
from nacp.stats.hedging import HedgedBets, batch_floor
from nacp.tuning import tuning

# The share of delta for the chance that the mean guess is below the bound that the pilot gives for it.
_PILOT_SHARE = 1e-3
_ERRORS = 3.0


def bet(
    coverage: AuditedCoverage, alphas: Sequence[float], delta: float, grid: Floats
) -> Talk[list[Finding]]:
    """Return for each alpha the smallest threshold of the grid from which on upwards all bets are won."""
    # Where too few of the checked labels are covered, a threshold is given up without a test: always safe.
    levels = [1 - a - _ERRORS * math.sqrt(a * (1 - a) / coverage.m) for a in alphas]
    starts = np.searchsorted(grid, [coverage.checked_quantile(level) for level in levels])
    question = RoundsQuestion(coverage, list(alphas), delta, grid, starts)
    yield [question]
    places = question.settled()
    thresholds, where = np.unique(grid[np.minimum(places, len(grid) - 1)], return_inverse=True)
    found = yield from coverage.at(thresholds)
    results = []
    for alpha, place, i in zip(alphas, places.tolist(), where.tolist(), strict=True):
        if place < len(grid):
            deviation = float(found.deviations[i])
            results.append(Finding(float(grid[place]), float(found.clean[i]), 0.0, deviation=deviation))
            continue
        least = math.ceil(math.log(1 / delta) / -math.log1p(-alpha))
        more = f"; {least} at the least are needed" if coverage.m < least else ""
        why = f"with {coverage.m} checked labels no smaller sets pass the test{more}"
        results.append(Finding(np.inf, 1.0, 0.0, why, deviation=0.0))
    return results


def cross(coverage: AuditedCoverage, alphas: Sequence[float], grid: Floats) -> Talk[list[Finding]]:
    """Return for each alpha the smallest threshold of the grid from which on the estimate is enough."""
    low = 1 - max(alphas) - 4 * _ERRORS * math.sqrt(max(alphas) / coverage.m)
    start = int(np.searchsorted(grid, coverage.checked_quantile(max(low, 0.0))))
    tested = grid[start:]
    if not len(tested):
        return [Finding(np.inf, 1.0, 0.0, "no threshold of the grid suits this score") for _ in alphas]
    found = yield from coverage.at(tested)
    results = []
    for alpha in alphas:
        short = np.flatnonzero(found.clean < 1 - alpha - 1e-12)
        place = int(short[-1]) + 1 if len(short) else 0
        if place == len(tested):
            why = "the estimated coverage stays below the target at every finite score"
            results.append(Finding(np.inf, 1.0, 0.0, why))
        else:
            results.append(Finding(float(tested[place]), float(found.clean[place]), 0.0))
    return results


def exchange(coverage: AuditedCoverage, alphas: Sequence[float]) -> Talk[list[Finding]]:
    """Return for each alpha the threshold of split conformal prediction on the checked labels alone."""
    scores, m = np.sort(coverage.checked_scores), coverage.m
    ranks = [math.ceil((m + 1) * (1 - alpha) - 1e-9) for alpha in alphas]
    thresholds = np.array([scores[rank - 1] if rank <= m else np.inf for rank in ranks])
    finite, where = np.unique(np.append(thresholds[np.isfinite(thresholds)], scores[-1]), return_inverse=True)
    found = yield from coverage.at(finite)
    estimates = iter(found.clean[where[:-1]].tolist())
    results = []
    for alpha, rank, threshold in zip(alphas, ranks, thresholds.tolist(), strict=True):
        if threshold < np.inf:
            results.append(Finding(threshold, next(estimates), (1 - alpha) / m))
            continue
        why = "too many of the checked labels have an infinite score"
        if rank > m:
            why = f"{m} checked labels are too few: {math.ceil(1 / alpha) - 1} are needed"
        results.append(Finding(np.inf, 1.0, (1 - alpha) / m, why))
    return results


class RoundsQuestion(Question):
    """Bets that F^c reaches 1 - alpha, at all places of a grid from some on, on the rounds of an audit."""

    placed = True

    def __init__(
        self, coverage: AuditedCoverage, alphas: list[float], delta: float, grid: Floats, starts: Ints
    ) -> None:
        audit = coverage.audit
        self._coverage, self._grid, self.order = coverage, grid, audit.order
        self._owner = np.repeat(np.arange(len(alphas)), len(grid) - starts)
        self._place = np.concatenate([np.arange(start, len(grid)) for start in starts])
        self._failed = starts - 1
        self._ends = np.append(audit.starts[1:], len(audit.order))
        least, price = self._bounds(delta)
        share = 1 - _PILOT_SHARE if len(audit.pilot) else 1.0
        targets = 1 - np.array(alphas)[self._owner]
        guessed = len(audit.order) > coverage.m
        self._bets = HedgedBets(targets, coverage.m, delta * share, least, price, guessed)
        self._rows, self._round = 0, 0
        self._partial: tuple[Floats, Floats] | None = None  # the checked point's guess, and the batch's sum
        self.done = not len(self._place)

    def _bounds(self, delta: float) -> tuple[Floats, Floats]:
        """Return the floor for the mean guess of a batch, and its price, from what the pilot says of it."""
        coverage = self._coverage
        if not len(coverage.audit.pilot) or not len(self._place):
            return np.zeros(len(self._place)), np.zeros(len(self._place))
        places, which = np.unique(self._place, return_inverse=True)
        mean = coverage.guesses(coverage.audit.pilot, self._grid[places])
        bound = 1 - chernoff(1 - mean, len(coverage.audit.pilot), _PILOT_SHARE * delta)
        size = int(np.diff(self._ends, prepend=0).min())
        least, price = batch_floor(bound, size, math.log(1 / delta) / coverage.m)
        return least[which], price[which]

    def see(self, block: Block, rows: Ints) -> None:
        start = 0
        while start < len(rows) and not self.done:
            places, column = np.unique(self._place[self._bets.open], return_inverse=True)
            part = slice(start, start + max(1, tuning().bets_entries // len(places)))
            whole = start == 0 and part.stop >= len(rows)
            here = block if whole else engine.open_block(block.values[part], block.spec)
            guess = self._coverage.guess(here, rows[part], self._grid[places])
            self._play(guess, places, column)
            start = part.stop

    def _play(self, guess: Floats, places: Ints, column: Ints) -> None:
        """Play the rounds that end in these rows; keep what belongs to one that does not."""
        bets, audit = self._bets, self._coverage.audit
        open_before, at, stop = bets.open, 0, self._rows + len(guess)
        while at < len(guess):
            end = min(int(self._ends[self._round]), stop)
            total = guess[at : end - self._rows].sum(axis=0)[column]
            first = guess[at][column]
            if self._partial is not None:
                first, total = self._partial[0], self._partial[1] + total
                self._partial = None
            at = end - self._rows
            if end < self._ends[self._round]:
                self._partial = first, total
                break
            size = end - audit.starts[self._round]
            hit = self._coverage.checked_scores[self._round] <= self._grid[places[column]]
            bets.play(hit.astype(np.float64), first, total / size)
            self._round += 1
            # What is not open any more was won, or given up; what lies below a failure is settled, too.
            gone = np.setdiff1d(open_before, bets.open, assume_unique=True)
            lost = gone[~bets.won[gone]]
            np.maximum.at(self._failed, self._owner[lost], self._place[lost])
            bets.keep(self._place[bets.open] > self._failed[self._owner[bets.open]])
            column = column[np.isin(open_before, bets.open, assume_unique=True)]
            open_before = bets.open
            if not len(bets.open):
                self.done = True
                return
        self._rows = stop

    def settled(self) -> Ints:
        """Return for each alpha the place above the last one where a bet was not won."""
        still = self._bets.open
        np.maximum.at(self._failed, self._owner[still], self._place[still])
        return self._failed + 1
