"""The betting test ("pac"): the cheapest promise known for any noise matrix.

Whether F^c(q) reaches 1 - alpha is tested threshold by threshold, on a grid that does not depend on the
calibration data, from the largest downwards until the first failure. Because F^c is monotone, no price is
paid for testing many thresholds. The test bets on the points one after the other, in an order shuffled by a
preset seed: under "F^c(q) < 1 - alpha" the wealth is a nonnegative supermartingale, so it reaches 1/delta
with probability at most delta (Ville). The theorem and its proof: docs/guarantees.md, T1 and T3.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from nacp._types import Bools, Floats
from nacp._validation import check_fraction, set_checked
from nacp.coverage import Evidence
from nacp.crossing import Rule
from nacp.guarantees.base import Finding, Guarantee, Problem, nearly_always

_STEP = 0.005
_ENTRIES = 1 << 18
# In standard errors: below the first a bet is given up, which is always safe; above the second it is a sure
# thing, and half of the stake that would make wealth grow fastest is put on it.
_HOPELESS, _SURE = -8.0, 6.0


@lru_cache(maxsize=16)
def threshold_grid(low: float, high: float) -> Floats:
    """Return the native thresholds that are tested, ascending: one fixed grid, as far as a score's span goes.

    Neighbours differ by half a percent of their distance from 0, from 1 or from -1, whichever is nearest (by
    five where that is below a millionth): dense around 1, where the thresholds of APS lie when there are many
    classes, and around 0, where those of HPS do (its native scale is -p). Above 1, where RAPS goes on, by
    half a percent of the distance from 0.95.

    Parameters
    ----------
    low, high : float
        The span.

    Examples
    --------
    >>> from nacp.guarantees.betting import threshold_grid
    >>> grid = threshold_grid(0.0, 1.0)
    >>> len(grid) < 7000, bool(abs(grid - 0.9992).min() < 0.005 * 0.0008)
    (True, True)
    """
    small = np.exp(-np.concatenate([np.arange(0.0, 14.0, _STEP), np.arange(14.0, 25.0, 10 * _STEP)]))
    below_one = np.concatenate([small[small < 0.5], 1 - small[small <= 0.5]])
    above_one = 0.95 + 0.05 / small
    positive = np.concatenate([below_one, above_one])
    grid: Floats = np.unique(np.concatenate([-positive, [0.0], positive]))
    grid = grid[(grid > low) & (grid < high)]
    grid.flags.writeable = False
    return grid


@dataclass(frozen=True)
class PAC(Guarantee):
    """For a fraction 1 - delta of calibration sets, clean coverage is at least 1 - alpha; any noise model.

    Costs about ``z_{1-delta} sd(g) / sqrt(n)`` of coverage, half of what `NACP` takes for uniform noise; g is
    one point's share in the estimate. Needs ``crossing="last"``. The points are shuffled by `random_state`.

    Parameters
    ----------
    delta : float, default=0.05
        The probability, over the calibration set, with which the promise may fail.
    grid : tuple of float, optional
        The thresholds to test, on the scale of the score. Must not come from the calibration data. The
        default suits scores between -1 and some hundreds; a score of one's own that lives elsewhere needs its
        own.

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

    delta: float = 0.05
    grid: tuple[float, ...] | None = field(default=None, repr=False)
    name: ClassVar[str] = "pac"
    robust: ClassVar[bool] = True
    takes_radius: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_checked(self, delta=check_fraction("delta", self.delta))
        if self.grid is not None:
            points = np.unique(np.asarray(self.grid, dtype=np.float64))
            if not len(points) or not np.isfinite(points).all():
                raise ValueError(f"grid must be one or more finite numbers; found {self.grid!r}")
            set_checked(self, grid=tuple(points.tolist()))

    @classmethod
    def with_delta(cls, delta: float) -> Self:
        """Return the guarantee with that probability of failure."""
        return cls(delta)

    def promise(self, alpha: float) -> str:
        """Return in one sentence what holds for the sets."""
        return nearly_always(self.delta, alpha)

    def price(self, problem: Problem, deviation: float) -> float:
        """Return ``z_{1-delta} deviation / sqrt(n)``, which the test comes close to."""
        return floor(self.delta, deviation, problem.n)

    def find(
        self, evidence: Evidence, problems: Sequence[Problem], crossing: Rule, seed: int
    ) -> list[Finding]:
        """Return the smallest threshold of the grid from which on upwards all pass."""
        require_last(self.name, crossing)
        grid = (
            threshold_grid(*evidence.span) if self.grid is None else evidence.to_native(np.array(self.grid))
        )
        return [
            settle(
                evidence, problem, self.name, lowest_passing(evidence, problem.alpha, self.delta, grid, seed)
            )
            for problem in problems
        ]


def floor(delta: float, deviation: float, n: int) -> float:
    """Return ``z_{1-delta} deviation / sqrt(n)``: what a test that knew the deviation would cost."""
    from scipy.special import ndtri

    return max(0.0, -float(ndtri(delta))) * deviation / math.sqrt(n)


def require_last(name: str, crossing: Rule) -> None:
    """Refuse the first crossing, for which a test at each threshold promises nothing."""
    if crossing != "last":
        raise ValueError(
            f'guarantee "{name}" looks at thresholds from the largest down, which promises nothing for '
            f'crossing="{crossing}": use crossing="last"'
        )


def settle(evidence: Evidence, problem: Problem, name: str, threshold: float) -> Finding:
    """Return the finding for a threshold that passed its test; infinite if its sets hold all classes."""
    if threshold < np.inf:
        _, (random,), (clean,) = evidence.curve(np.array([threshold]))
        if random < 1:
            return Finding(threshold, float(clean), float(clean) - (1 - problem.alpha))
    why = f'with {problem.n} points no smaller sets pass the test of guarantee "{name}"; use more points'
    return Finding(np.inf, 1.0, problem.alpha, why)


def lowest_passing(evidence: Evidence, alpha: float, delta: float, grid: Floats, seed: int) -> float:
    """Return the smallest threshold of an ascending grid from which on upwards all pass the betting test."""
    low, high = evidence.range
    target, width = 1 - alpha, high - low
    most = 0.99 * width / (target - low)
    n = evidence.n
    order = np.random.default_rng(seed).permutation(n)
    bets = Bets(len(grid), n, delta, most)
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
