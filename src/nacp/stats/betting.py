"""Bets that a mean is above 0, by which hypotheses are tested: valid whatever the distribution is (Ville).

The wealth of a gambler who stakes on bounded numbers of mean 0 or less is a nonnegative supermartingale, so
it grows from 1 to 1/delta with probability at most delta. The stakes hedge "wealth 1/delta after n points",
which makes the test cost about as much as the normal approximation, which is not valid, would:
docs/guarantees.md, T3.
"""

import math
from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from nacp._types import Bools, Floats, Ints

# Bets are judged when stakes change, and after so many points.
_ROWS = 256
# In standard errors: below the first a bet is given up, which is always safe; above the second it is a sure
# thing, and half of the stake that would make wealth grow fastest is put on it.
_HOPELESS, _SURE = -8.0, 6.0


# A bet whose wealth falls by so much between two places where it is judged is given up.
_RUINED = 1e-200


def walk(gains: Floats, first: int, last: int, columns: Ints, stakes: Floats) -> Floats:
    """Return how bets go on some points: the growth of wealth, the highest, the sum and the squares.

    Parameters
    ----------
    gains : array of shape (points, bets)
        What each point gains.
    first, last : int
        The points to bet on, one after the other.
    columns, stakes : arrays of shape (open bets,)
        The bets, and what is staked on each.

    Returns
    -------
    array of shape (4, open bets)
    """
    here = gains[first:last, columns]
    growth = np.cumprod(1 + stakes * here, axis=0)
    # One after the other: in another order sums would be rounded in another way.
    sums, squares = np.cumsum(here, axis=0), np.cumsum(here * here, axis=0)
    return np.stack([growth[-1], growth.max(axis=0), sums[-1], squares[-1]])


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
    most : float or array of shape (number,)
        The largest stake; below 1 over the greatest possible loss.
    walking : callable, optional
        What does the work of `walk`.

    Attributes
    ----------
    open : array of int
        The numbers of the bets that are still open, ascending.
    won, lost : arrays of bool of shape (number,)
        Which bets have been won, and which given up.
    seen : int
        How many points there have been.
    stops : frozenset of int
        After how many points bets are judged. Points are to be played in parts that end there: then it does
        not matter in which.
    """

    def __init__(
        self,
        number: int,
        n: int,
        delta: float,
        most: float | Floats,
        walking: Callable[..., Floats] = walk,
    ) -> None:
        self.open, self._walk = np.arange(number), walking
        self.won, self.lost = np.zeros((2, number), dtype=bool)
        self._n, self._log_delta = n, math.log(delta)
        self._most = np.broadcast_to(most, number)
        self.seen, self._stops, self._changes = 0, [0], set[int]()
        while (seen := self._stops[-1]) < n:
            change = seen + max(1, min(seen // 8, (n - seen) // 64))
            self._changes.add(seen)
            self._stops += [*range(seen + _ROWS, change, _ROWS), change]
        self.stops = frozenset(self._stops)
        self._wealth, self._sums, self._stakes = np.zeros((3, number))
        self._squares = np.full(number, 0.25)

    def stop_before(self, seen: int) -> int:
        """Return the last number of points up to `seen`, or else the next, after which bets are judged.

        They end in the same way wherever one stops reading, if it is at such a place.
        """
        place = bisect_right(self._stops, seen) - 1
        return self._stops[place if self._stops[place] > self.seen else bisect_right(self._stops, self.seen)]

    def play(self, gains: Floats) -> None:
        """Bet on the next points; `gains` has a row for each point and a column for each open bet.

        A stake is kept for a few points: for an eighth of those seen, or a 64th of those to come.
        """
        columns = np.arange(len(self.open))
        start = 0
        while start < len(gains) and len(columns):
            place = bisect_right(self._stops, self.seen)
            if self.seen in self._changes:
                self._stakes = self._new_stakes()
            stop = min(start + self._stops[place] - self.seen, len(gains))
            growth, highest, sums, squares = self._walk(gains, start, stop, columns, self._stakes)
            ruined = growth < _RUINED
            won = self._wealth + np.log(np.maximum(highest, _RUINED)) >= -self._log_delta
            self._wealth = self._wealth + np.log(np.where(ruined, 1.0, growth))
            self._squares += squares
            self._sums += sums
            lost = (ruined | (self._sums < _HOPELESS * np.sqrt(self._squares))) & ~won
            settled = won | lost
            if settled.any():
                self.won[self.open[won]] = True
                self.lost[self.open[lost]] = True
                columns = columns[~settled]
                self.keep(~settled)
            self.seen += stop - start
            start = stop

    def keep(self, which: Bools) -> None:
        """Forget the other bets."""
        self.open, self._wealth, self._stakes = self.open[which], self._wealth[which], self._stakes[which]
        self._sums, self._squares, self._most = self._sums[which], self._squares[which], self._most[which]

    def _new_stakes(self) -> Floats:
        """Return the stakes that hedge "wealth 1/delta after n points", given how the bets stand.

        Any stakes that depend on the past only are valid; these make it cheap.
        """
        from scipy.special import ndtri_exp

        reach = np.minimum(self._log_delta + self._wealth, 0.0) - math.log(1.05)
        z = ndtri_exp(reach)
        variance = self._squares / (self.seen + 1)
        ratio = np.exp(-0.5 * z * z - reach) / math.sqrt(2 * math.pi)
        hedge = ratio / np.sqrt(variance * (self._n - self.seen))
        sure = self._sums > _SURE * np.sqrt(self._squares)
        growth = np.minimum(0.5 * self._sums / self._squares, 0.5 * self._most)
        stakes: Floats = np.where(sure, growth, np.minimum(hedge, self._most))
        return stakes
