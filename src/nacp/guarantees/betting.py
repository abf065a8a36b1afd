"""The betting test ("pac"): the cheapest promise known for any noise matrix.

Whether F^c(q) reaches 1 - alpha is tested threshold by threshold, on a grid that does not depend on the
calibration data, from the largest downwards until the first failure. Because F^c is monotone, no price is
paid for testing many thresholds. The test bets on the points one after the other, in an order shuffled by a
preset seed: under "F^c(q) < 1 - alpha" the wealth is a nonnegative supermartingale, so it reaches 1/delta
with probability at most delta (Ville). The theorem and its proof: docs/guarantees.md, T1 and T3.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nacp._types import Bools, Floats
from nacp.coverage import Evidence
from nacp.guarantees.base import Problem
from nacp.guarantees.pointwise import PointwiseTest

_ENTRIES = 1 << 18
# In standard errors: below the first a bet is given up, which is always safe; above the second it is a sure
# thing, and half of the stake that would make wealth grow fastest is put on it.
_HOPELESS, _SURE = -8.0, 6.0


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

    def lowest_passing(self, evidence: Evidence, problem: Problem, grid: Floats, seed: int) -> float:
        """Return the smallest threshold of an ascending grid from which on upwards all bets are won."""
        low, high = evidence.range
        target, width = 1 - problem.alpha, high - low
        most = 0.99 * width / (target - low)
        n = evidence.n
        order = np.random.default_rng(seed).permutation(n)
        bets = Bets(len(grid), n, self.delta, most)
        failed, done = -1, 0
        while done < n and len(bets.open):
            rows = order[done : done + max(1, _ENTRIES // max(evidence.k, len(bets.open)))]
            shares = evidence.shares(rows, grid[bets.open])
            bets.play((shares - target) / width, done)
            done += len(rows)
            # What lies below a failure is settled too.
            failed = int(np.flatnonzero(bets.lost).max(initial=-1))
            bets.keep(bets.open > failed)
        lowest = 1 + (int(bets.open[-1]) if len(bets.open) else failed)
        return float(grid[lowest]) if lowest < len(grid) else math.inf


class Bets:
    """Several bets that some mean is above 0, all on the same n points.

    Parameters
    ----------
    number : int
        How many bets.
    n : int
        How many points there will be.
    delta : float
        A bet is won when its wealth has grown from 1 to 1/delta.
    most : float
        The largest stake; below 1 over the greatest possible loss.

    Attributes
    ----------
    open : array of int
        The numbers of the bets that are still open, ascending.
    won, lost : arrays of bool of shape (number,)
        Which bets have been won, and which given up.
    """

    def __init__(self, number: int, n: int, delta: float, most: float) -> None:
        self.open = np.arange(number)
        self.won, self.lost = np.zeros((2, number), dtype=bool)
        self._n, self._log_delta, self._most = n, math.log(delta), most
        self._next = 0
        self._wealth, self._sums, self._stakes = np.zeros((3, number))
        self._squares = np.full(number, 0.25)

    def play(self, gains: Floats, done: int) -> None:
        """Bet on points one after the other; `gains` has a row for each point and a column for each open bet.

        A stake is kept for a few points: for an eighth of those seen, or a 64th of those to come.
        """
        columns = np.arange(len(self.open))
        start = 0
        while start < len(gains) and len(columns):
            seen = done + start
            if seen == self._next:
                self._next = seen + max(1, min(seen // 8, (self._n - seen) // 64))
                self._stakes = self._new_stakes(seen)
            stop = min(start + self._next - seen, len(gains))
            here = gains[start:stop, columns]
            path = np.cumsum(np.log1p(self._stakes * here), axis=0)
            path += self._wealth
            self._wealth = path[-1]
            self._squares += np.einsum("ij,ij->j", here, here)
            self._sums += here.sum(axis=0)
            won = path.max(axis=0) >= -self._log_delta
            lost = (self._sums < _HOPELESS * np.sqrt(self._squares)) & ~won
            settled = won | lost
            if settled.any():
                self.won[self.open[won]] = True
                self.lost[self.open[lost]] = True
                columns = columns[~settled]
                self.keep(~settled)
            start = stop

    def keep(self, which: Bools) -> None:
        """Forget the other bets."""
        self.open, self._wealth, self._stakes = self.open[which], self._wealth[which], self._stakes[which]
        self._sums, self._squares = self._sums[which], self._squares[which]

    def _new_stakes(self, seen: int) -> Floats:
        """Return the stakes that hedge "wealth 1/delta after n points", given how the bets stand.

        Any stakes that depend on the past only are valid; these make it cheap.
        """
        from scipy.special import ndtri_exp

        reach = np.minimum(self._log_delta + self._wealth, 0.0) - math.log(1.05)
        z = ndtri_exp(reach)
        variance = self._squares / (seen + 1)
        ratio = np.exp(-0.5 * z * z - reach) / math.sqrt(2 * math.pi)
        hedge = ratio / np.sqrt(variance * (self._n - seen))
        sure = self._sums > _SURE * np.sqrt(self._squares)
        growth = np.minimum(0.5 * self._sums / self._squares, 0.5 * self._most)
        stakes: Floats = np.where(sure, growth, np.minimum(hedge, self._most))
        return stakes
