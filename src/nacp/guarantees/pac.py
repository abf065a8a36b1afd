"""The betting test ("pac"): the cheapest promise known for any noise matrix.

Whether F^c(q) reaches 1 - alpha is tested threshold by threshold, on a grid that does not depend on the
calibration data, from the largest downwards until the first failure. Because F^c is monotone, no price is
paid for testing many thresholds. The test bets on the points one after the other, in an order shuffled by a
preset seed: under "F^c(q) < 1 - alpha" the wealth is a nonnegative supermartingale, so it reaches 1/delta
with probability at most delta (Ville). The theorem and its proof: docs/guarantees.md, T1 and T3.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nacp import engine
from nacp._types import Bools, Floats, Ints
from nacp.coverage import Coverage, OrderedQuestion, Rule, Talk
from nacp.coverage.audited import AuditedCoverage
from nacp.coverage.parted import PartedCoverage
from nacp.engine import Block
from nacp.errors import InputError
from nacp.guarantees import parted
from nacp.guarantees.audited import exact
from nacp.guarantees.base import Finding, Problem
from nacp.guarantees.pointwise import PointwiseTest, edge_grid
from nacp.stats.betting import Bets
from nacp.tuning import tuning

_READ = 384  # rows at a time, while bets are open that what was kept cannot settle


@dataclass(frozen=True)
class PAC(PointwiseTest):
    """For a fraction 1 - delta of calibration sets, clean coverage is at least 1 - alpha; any noise model.

    Costs about ``z_{1-delta} sd(g) / sqrt(n)`` of coverage, half of what `NACP` takes for uniform noise; g is
    one point's share in the estimate. Needs ``crossing="last"``. The points are shuffled by `random_state`.
    The proof: docs/guarantees.md, T1 and T3.

    Parameters
    ----------
    delta : float, default=0.05
        The probability, over the calibration set, with which the promise may fail.
    grid : tuple of float, optional
        The thresholds to test, on the scale of the score. Must not come from the calibration data. The
        default suits scores that lie around 0 and 1; where it is coarse for a score, ``Calibration.note``
        says so.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=4000)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 100, random_state=0)
    >>> pac, paper = (
    ...     nacp.calibrate(probs, noisy, noise=0.2, guarantee=g, delta=0.01) for g in ("pac", "nacp")
    ... )
    >>> pac.threshold < paper.threshold
    True
    """

    name: ClassVar[str] = "pac"
    takes_radius: ClassVar[bool] = True
    takes_checked: ClassVar[bool] = True
    takes_several: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True

    def find_checked(self, coverage: AuditedCoverage, alphas: Sequence[float]) -> list[Finding]:
        """Return the smallest threshold from which on upwards all exact tests on checked labels pass."""
        return exact(coverage, alphas, self.delta)

    def find_parted(
        self, coverage: PartedCoverage, alpha: float, crossing: Rule, seed: int
    ) -> Talk[list[Finding]]:
        """Return the smallest threshold of each group from which on upwards all bets are won."""
        score = coverage.sample.score
        grid = self.thresholds(score) if self.grid is not None else edge_grid(*score.span)
        return parted.bet(coverage, alpha, self.delta, grid, seed)

    def lowest_passing(
        self, coverage: Coverage, problems: Sequence[Problem], grid: Floats, starts: Ints, seed: int
    ) -> Talk[Ints]:
        """Return for each problem the place in the grid from which on upwards all bets are won."""
        alphas, bets = [problem.alpha for problem in problems], coverage.played
        if bets is None:
            apart, first = np.zeros(len(grid), dtype=bool), int(starts.min())
            apart[first:] = coverage.told_apart(grid[first:])
            bets = BetsQuestion(self.delta, coverage, alphas, grid, starts, told_apart=apart)
            bets.order = coverage.sample.shuffled(seed)
            yield [bets]
        assert isinstance(bets, BetsQuestion)
        return bets.settled(alphas, starts)


class BetsQuestion(OrderedQuestion):
    """Bets that F^c reaches 1 - alpha, at all places of a grid from some on: one for each alpha and place.

    All bets are on the same points, so they are read once, in an order that was fixed before. In a stream
    that is the order in which they come: each batch is a sample of its own, and `n` points are expected.
    `told_apart` says of each place of the grid whether sets may be larger at the next one.
    """

    def __init__(
        self,
        delta: float,
        coverage: Coverage,
        alphas: list[float],
        grid: Floats,
        starts: Ints,
        n: int | None = None,
        told_apart: Bools | None = None,
    ) -> None:
        self.placed = coverage.read_as is not None
        low, high = coverage.range
        self.coverage, self._grid, self._width = coverage, grid, high - low
        self._alphas = alphas
        # Where sets are the same up to the next place, so are the bets: they are placed there.
        places = np.arange(len(grid)) if told_apart is None else np.flatnonzero(told_apart)
        each = [places[np.searchsorted(places, start) :] for start in starts]
        self._owner = np.repeat(np.arange(len(alphas)), [len(some) for some in each])
        self._place = np.concatenate(each)
        self._target = 1 - np.array(alphas)[self._owner]
        self._failed = starts - 1
        most = 0.99 * self._width / (self._target - low)
        self._bets = Bets(len(self._place), n or coverage.n, delta, most, engine.play, self._owner)
        self._next()

    def see(self, block: Block, rows: Ints) -> None:
        def playing(points: slice, *standing: Any) -> None:
            still = self._bets.open
            places, column = self._place[still], np.arange(len(still))
            if len(self._alphas) > 1:
                places, column = np.unique(places, return_inverse=True)
            bets = column, self._target[still], self._owner[still], self._width
            self.coverage.bet(block, rows, points, self._grid[places], bets, standing)

        self._bets.place(block.shape[0], playing)
        self._next()

    @property
    def thresholds(self) -> Floats:
        found: Floats = self._grid[np.unique(self._place[self._bets.open])]
        return found

    def see_shares(self, thresholds: Floats, shares: Floats) -> None:
        still = self._bets.open
        column = np.searchsorted(thresholds, self._grid[self._place[still]])
        self._bets.play((shares.take(column, axis=1) - self._target[still]) * (1 / self._width))
        self._next()

    def _next(self) -> None:
        """Learn what was lost, and say what is wanted next: at first many thresholds are open, soon few."""
        still, lost = self._bets.open, np.flatnonzero(self._bets.lost)
        np.maximum.at(self._failed, self._owner[lost], self._place[lost])
        self.done = not len(still)
        self.upto = self.coverage.upto(self._grid[self._place[still]].max(initial=-np.inf))
        self.most_rows = max(1, tuning().bets_entries // max(len(still), 1))
        if self.coverage.bets_on_any:
            # Rows that have to be read are taken some at a time: soon those that were kept will do.
            kept = self.coverage.sample.kept
            most = max(self.most_rows, _READ, self._bets.seen // 3)
            self.most_rows = None if kept is None or kept.has(self.upto, labels=self.placed) else most

    def settled(self, alphas: list[float], starts: Ints) -> Ints:
        """Return for each alpha the place above the last one where a bet was not won, from a start on."""
        failed, still = self._failed.copy(), self._bets.open
        np.maximum.at(failed, self._owner[still], self._place[still])
        return np.maximum(failed[[self._alphas.index(alpha) for alpha in alphas]] + 1, starts)

    def on(self, coverage: Coverage) -> "BetsQuestion":
        """Return the same bets, to be placed on the points of another coverage next."""
        other = copy(self)
        other.coverage, other._failed, other._bets = coverage, self._failed.copy(), self._bets.copy()
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BetsQuestion) and all(map(np.array_equal, self.stored(), other.stored()))

    __hash__ = None  # type: ignore[assignment]  # arrays

    def off(self) -> None:
        """Let go of the points that were bet on."""
        del self.coverage

    def stored(self) -> tuple[Ints, Floats]:
        """Return how the bets stand, as numbers: all that `restore` needs."""
        whole, state = self._bets.stored()
        return np.concatenate([self._failed, whole]), state

    def restore(self, whole: Ints, state: Floats) -> None:
        """Let bets that were not placed yet stand as others did."""
        number = len(self._failed)
        failed = whole[:number]
        if whole.dtype != np.int64 or np.any(failed < -1) or np.any(failed >= len(self._grid)):
            raise InputError("bets", "are not those of this grid")
        self._failed = failed.copy()
        self._bets.restore(whole[number:], state)
        self._next()
        self.off()
