"""Bets on groups of classes, where the pairs of a row weigh all the same but for its label's (uniform noise).

A row whose label is of the group says much, and there are few of these. The others say little each, and are
lumped: in a segment of rows in which the stake stays as it is, wealth is multiplied by ``1 + stake s`` for
each row that is labelled as of the group, and for the m others by less than the product of theirs, which
follows from how many of their pairs score up to the threshold (docs/guarantees.md, G2). So all groups
together cost what one does.
"""

import math

import numpy as np

from nacp._types import Bools, Floats, Ints
from nacp.coverage import Question
from nacp.coverage.parted import PartedCoverage
from nacp.coverage.parting import Cells
from nacp.engine import Block
from nacp.points.arrays import rows_at_once
from nacp.stats.betting import LOST, OPEN, WON, hedge_table, judged_lumps, new_stakes
from nacp.tuning import tuning

# Without a test, which is always safe, thresholds are given up that could hardly pass: those where the best
# stake in hindsight leads to less wealth than so many standard errors (in those that a normal test needs)
# would, or where no stake up to this part of the largest one could lead to enough if there were no misses.
_HOPEFUL, _STAKED, _STAKES = 0.7, 0.75, 16


def hopeful(coverage: PartedCoverage, alpha: float, delta: float, hits: Ints, rest: Floats) -> Ints:
    """Return for each group the place in the grid from which on upwards all bets are worth a try.

    `hits` is how many given labels of the group score at most as each place of the grid, and `rest` what the
    other pairs up to there weigh: (groups, places).
    """
    from scipy.special import ndtri

    labels, by_class = coverage.counts[:, None], coverage.inverse.own
    whole = np.bincount(coverage.of_labels, by_class[coverage.sample.labels], coverage.number)[:, None]
    own = np.where(labels > 0, whole / np.maximum(labels, 1), by_class.max())
    lump = rest - (1 - alpha) * (coverage.mass[:, None] - whole)
    total = own * (hits - (1 - alpha) * labels) + lump
    largest = 0.99 / -coverage.range(alpha)[0]
    best, most = np.zeros(hits.shape), np.zeros(hits.shape)
    for power in range(_STAKES):
        stake = _STAKED * largest[:, None] * 1.6**-power
        gained = hits * np.log1p(stake * own * alpha) + stake * lump
        np.maximum(most, gained, out=most)
        np.maximum(best, gained + (labels - hits) * np.log1p(-stake * own * (1 - alpha)), out=best)
    enough = (_HOPEFUL * float(ndtri(delta))) ** 2 / 2
    hopeless = (total < 0) | (best < enough) | (most < math.log(1 / delta)) | (coverage.mass <= 0)[:, None]
    places = np.arange(hits.shape[1])
    found: Ints = np.max(np.where(hopeless, places + 1, 0), axis=1, initial=0)
    return found


class LumpedBets(Question):
    """Bets that coverage within each group reaches 1 - alpha, at all places of a grid from some on."""

    placed = True

    def __init__(
        self, coverage: PartedCoverage, alpha: float, delta: float, grid: Floats, starts: Ints, seed: int
    ) -> None:
        self.order, self._coverage, self._delta = coverage.sample.shuffled(seed), coverage, delta
        self._alpha, self._cells = alpha, Cells(np.concatenate([[-np.inf], grid, [np.inf]]))
        self._label_place = np.searchsorted(grid, coverage.sample.label_scores, side="left")
        self._rest = coverage.unit * float(coverage.constant or 0)
        least, most = coverage.range(alpha)
        self._least, self._width = least, most - least
        self._stops, self._seen, self._stop = segments(coverage.n), 0, 0
        self._starts = starts.copy()
        # Of the groups that are still of interest, at the places that are: wealth, sums and squares of gains,
        # stake; in this segment growth and the sums; and how many pairs and rows are in the lump.
        self._groups = np.flatnonzero(starts < len(grid))
        shape, self._first = (len(self._groups), len(grid)), 0
        self._outcome = np.where(np.arange(len(grid)) < starts[self._groups, None], LOST, OPEN)
        self._state: Floats = np.zeros((7, *shape))
        self._state[0], self._state[2], self._state[4] = 1.0, 0.25, 1.0
        self._lump, self._lumped = (
            np.zeros(shape, dtype=np.int64),
            np.zeros(len(self._groups), dtype=np.int64),
        )
        self.done = not len(self._groups)
        if not self.done:
            self._stake()

    def see(self, block: Block, rows: Ints) -> None:
        coverage, groups, number = self._coverage, self._groups, self._outcome.shape[1] + 1
        slots = np.full(coverage.number, -1)
        slots[groups] = np.arange(len(groups))
        labels = coverage.sample.labels[rows]
        columns = np.flatnonzero(slots[coverage.places] >= 0)
        column_slot, mine = slots[coverage.places[columns]], slots[coverage.places[labels]]
        cells = self._cells.of(block)
        cells = cells if len(columns) == coverage.k else cells[:, columns]
        cells = np.clip(cells - self._first, 0, number - 1)
        pairs = np.bincount((cells + column_slot * number).reshape(-1), minlength=len(groups) * number)
        inside = np.flatnonzero(mine >= 0)
        mine, own_cells = mine[inside], cells[inside]
        # How many pairs of its own group each of these rows has, up to each place.
        flat = np.flatnonzero(column_slot == mine[:, None])
        at = flat // len(columns) * number + own_cells.reshape(-1)[flat]
        sizes = np.bincount(at, minlength=len(inside) * number).reshape(-1, number)
        sizes = np.cumsum(sizes[:, :-1], axis=1)
        self._lump += np.cumsum(pairs.reshape(-1, number)[:, :-1], axis=1)
        np.subtract.at(self._lump, mine, sizes)
        self._lumped += len(rows) - np.bincount(mine, minlength=len(groups))
        self._play(labels[inside], self._label_place[rows][inside] - self._first, mine, sizes)
        self._seen += len(rows)
        if self._seen == self._stops[self._stop + 1]:
            self._judge()
            self._stop += 1
            self.done = not len(self._groups) or self._seen == coverage.n
            if not self.done:
                self._stake()
        if not self.done:
            self._next()

    def _play(self, labels: Ints, places: Ints, mine: Ints, sizes: Ints) -> None:
        """Bet on rows that are labelled as of a group, one after the other."""
        groups, (stake, growth, sums, squares) = self._groups[mine], self._state[3:]
        hit = places[:, None] <= np.arange(sizes.shape[1])
        target, own = 1 - self._alpha, self._coverage.inverse.own[labels]
        gains = own[:, None] * (hit - target)
        gains += self._rest * (sizes - target * self._coverage.classes[groups][:, None])
        gains *= (1 / self._width[groups])[:, None]
        np.add.at(sums, mine, gains)
        np.add.at(squares, mine, gains * gains)
        for some in _turns(mine):
            growth[mine[some]] *= 1 + stake[mine[some]] * gains[some]

    def _judge(self) -> None:
        """See what became of the bets, now that all rows of a segment are in."""
        groups, rows = self._groups, self._lumped
        rest, size = self._rest / self._width[groups][:, None], self._coverage.classes[groups][:, None]
        stake, target = self._state[3], (1 - self._alpha) * size.astype(np.float64)
        growth, gain, spread = lumped_growth(stake, rest, target, size, self._lump, rows)
        self._state[4] *= growth
        self._state[5] += rows[:, None] * gain
        self._state[6] += rows[:, None] * gain**2 + spread
        played = self._outcome == OPEN
        self._outcome[played] = judged_lumps(self._state[:, played], self._delta, self._state, played)
        places = np.arange(self._outcome.shape[1])
        failed = np.max(np.where(self._outcome == LOST, places + 1, 0), axis=1, initial=0)
        np.maximum.at(self._starts, groups, np.where(failed, failed + self._first, 0))
        self._outcome[places < failed[:, None]] = LOST
        self._keep(self._outcome == OPEN)

    def _keep(self, which: Bools) -> None:
        """Forget the groups that are settled, and the places that are settled in all others."""
        rows, places = np.flatnonzero(which.any(axis=1)), np.flatnonzero(which.any(axis=0))
        if len(rows):
            self._outcome, self._state, self._lump = (
                np.ascontiguousarray(each[..., rows, places[0] : places[-1] + 1])
                for each in (self._outcome, self._state, self._lump)
            )
            self._first += int(places[0])
        self._groups, self._lumped = self._groups[rows], self._lumped[rows]
        self._lump[:], self._lumped[:] = 0, 0

    def _stake(self) -> None:
        """Set the stakes of the next segment; what it may lose is known."""
        groups, coverage, now = self._groups, self._coverage, self._outcome == OPEN
        seen, n = int(self._stops[self._stop]), int(self._stops[-1])
        size, width = coverage.classes[groups], self._width[groups]
        lump = min(self._alpha * self._rest, -(1 - self._alpha) * self._rest) * size
        most = np.minimum(0.99 * width / -self._least[groups], 0.25 * width / np.maximum(-lump, 1e-300))
        most = np.broadcast_to(most[:, None], now.shape)[now]
        self._state[3] = 0.0
        self._state[3][now] = new_stakes(self._state[:3, now], most, seen, n, self._delta, hedge_table())
        self._next()

    def _next(self) -> None:
        """Say how many rows are wanted next: no more than the segment has, and not too many at once."""
        rows = int(self._stops[self._stop + 1]) - self._seen
        rows = min(rows, rows_at_once(self._coverage.k))
        self.most_rows = max(1, min(rows, tuning().bets_entries // self._outcome.shape[1]))

    def settled(self) -> Ints:
        """Return for each group the place above the last one where a bet was not won."""
        places = np.arange(self._outcome.shape[1]) + self._first
        failed = np.max(np.where(self._outcome != WON, places + 1, 0), axis=1, initial=0)
        np.maximum.at(self._starts, self._groups, failed[: len(self._groups)])
        return self._starts


def lumped_growth(
    stake: Floats, rest: Floats, target: Floats, size: Ints, pairs: Ints, rows: Ints
) -> tuple[Floats, Floats, Floats]:
    """Return no more than the product of ``1 + stake rest (N - target)`` over so many rows.

    Of the N, whole numbers from 0 to `size`, the sum `pairs` is known. Also returned are the mean gain of a
    row, and no less than the sum of squares around it. All of shape (groups, places); `rows` has one number
    for each group, and what else is the same at all places has the shape (groups, 1).
    """
    mean = pairs / np.maximum(rows, 1)[:, None]
    gain, spread = rest * (mean - target), rest**2 * pairs * (size - mean)
    return np.maximum(1 - stake**2 * spread, 0.0) * _power(1 + stake * gain, rows), gain, spread


def _power(base: Floats, exponents: Ints) -> Floats:
    """Return rows of numbers to whole powers; by products alone, so that the bits are the same everywhere."""
    found = np.ones_like(base)
    while exponents.any():
        odd = exponents % 2 == 1
        found[odd] *= base[odd]
        base, exponents = base * base, exponents // 2
    return found


def segments(n: int) -> Ints:
    """Return after how many of n points stakes change: a sixth of those seen, or a 12th of those to come.

    Examples
    --------
    >>> from nacp.guarantees.lumped import segments
    >>> segments(12).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    >>> len(segments(25000)) < 100
    True
    """
    stops, least = [0], max(1, n // 256)
    while (seen := stops[-1]) < n:
        stops.append(min(n, seen + max(least, min(seen // 6, (n - seen) // 12))))
    return np.array(stops)


def _turns(groups: Ints) -> list[Ints]:
    """Part rows so that each part has a group once at the most, and the rows of a group are in order.

    Examples
    --------
    >>> import numpy as np
    >>> from nacp.guarantees.lumped import _turns
    >>> [part.tolist() for part in _turns(np.array([3, 1, 3, 3]))]
    [[0, 1], [2], [3]]
    """
    if not len(groups):
        return []
    order = np.argsort(groups, kind="stable")
    new = np.append(True, np.diff(groups[order]) > 0)
    starts = np.flatnonzero(new)
    turn = np.empty(len(groups), dtype=np.int64)
    turn[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))
    by_turn = np.argsort(turn, kind="stable")
    return np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])
