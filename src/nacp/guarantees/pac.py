"""The betting test ("pac"): the cheapest promise known for any noise matrix.

Whether F^c(q) reaches 1 - alpha is tested threshold by threshold, on a grid that does not depend on the
calibration data, from the largest downwards until the first failure. Because F^c is monotone, no price is
paid for testing many thresholds. The test bets on the points one after the other, in an order shuffled by a
preset seed: under "F^c(q) < 1 - alpha" the wealth is a nonnegative supermartingale, so it reaches 1/delta
with probability at most delta (Ville). The theorem and its proof: docs/guarantees.md, T1 and T3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nacp import engine
from nacp._types import Floats, Ints
from nacp.coverage import Coverage, Question, Rule, Talk
from nacp.coverage.audited import AuditedCoverage
from nacp.coverage.parted import PartedCoverage
from nacp.engine import Block
from nacp.guarantees import parted
from nacp.guarantees.audited import exact
from nacp.guarantees.base import Finding, Problem
from nacp.guarantees.pointwise import PointwiseTest, edge_grid
from nacp.stats.betting import Bets
from nacp.tuning import tuning


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
        bets = BetsQuestion(self.delta, coverage, [problem.alpha for problem in problems], grid, starts, seed)
        yield [bets]
        return bets.settled()


class BetsQuestion(Question):
    """Bets that F^c reaches 1 - alpha, at all places of a grid from some on: one for each alpha and place.

    All bets are on the same points, so they are read once, in an order that was fixed before.
    """

    def __init__(
        self, delta: float, coverage: Coverage, alphas: list[float], grid: Floats, starts: Ints, seed: int
    ) -> None:
        self.order, self.placed = coverage.sample.shuffled(seed), coverage.read_as is not None
        low, high = coverage.range
        self._coverage, self._grid, self._width = coverage, grid, high - low
        self._owner = np.repeat(np.arange(len(alphas)), len(grid) - starts)
        self._place = np.concatenate([np.arange(start, len(grid)) for start in starts])
        self._target = 1 - np.array(alphas)[self._owner]
        self._failed = starts - 1
        most = 0.99 * self._width / (self._target - low)
        self._bets = Bets(len(self._place), coverage.n, delta, most, engine.play)
        self._next()

    def see(self, block: Block, rows: Ints) -> None:
        bets, target = self._bets, self._target[self._bets.open]
        thresholds, column = np.unique(self._place[bets.open], return_inverse=True)
        bets.play(self._coverage.gains(block, rows, self._grid[thresholds], (column, target, self._width)))
        # What lies below a failure is settled too.
        np.maximum.at(self._failed, self._owner[bets.lost], self._place[bets.lost])
        bets.keep(self._place[bets.open] > self._failed[self._owner[bets.open]])
        self._next()

    def _next(self) -> None:
        """Say what is wanted next: many thresholds are open at first, on few rows, and few soon."""
        still = self._bets.open
        self.done = not len(still)
        self.upto = self._coverage.upto(self._grid[self._place[still]].max(initial=-np.inf))
        self.most_rows = max(1, tuning().bets_entries // max(len(still), 1))

    def settled(self) -> Ints:
        """Return for each alpha the place above the last one where a bet was not won."""
        still = self._bets.open
        np.maximum.at(self._failed, self._owner[still], self._place[still])
        return self._failed + 1
