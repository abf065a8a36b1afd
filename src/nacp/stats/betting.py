"""Tests of whether a mean is above 0, by betting: valid whatever the distribution is (Ville).

Stakes on bounded numbers of mean 0 or less multiply wealth by 1/delta with probability at most delta. They
hedge "wealth 1/delta after n points", which keeps the excess of the test small: docs/guarantees.md, T3.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from nacp._types import Floats, Ints

_ROWS = 256  # Bets are judged when stakes change, and after this number of points.
# In standard errors: below _HOPELESS a bet is given up, which is always valid; above _SURE its stake is half
# of the one that would make wealth grow fastest.
_HOPELESS, _SURE = -8.0, 5.0
_RUINED = 1e-200  # A bet whose wealth falls below this number is given up, too.
# An interval has candidates at steps of less than 1/_GRID of 1/sqrt(n); a batch has at most _SHARES shares.
_GRID, _SHARES = 16, 1 << 17
# The hedged probability is tabulated from 2^-_OCTAVES on, at 2^_BITS places per octave.
_OCTAVES, _BITS = 64, 6

OPEN, WON, LOST = range(3)


def play(
    state: Floats,
    most: Floats,
    outcome: Ints,
    shares: Floats,
    target: float,
    width: float,
    seen: int,
    stops: Ints,
    changes: Ints,
    delta: float,
    hedges: tuple[Floats, Floats],
) -> None:
    """Bet on some points, one after the other.

    `state`, of shape (8, bets), holds of each bet its wealth, the sums of its gains and of their squares, and
    its stake; since it was last judged, the growth of its wealth, the maximum of that, and the two sums.
    `most` holds the largest stakes, and `outcome` OPEN, WON or LOST; only open bets are played. Both `state`
    and `outcome` are changed in place. A bet gains ``(share - target) / width`` from each share in its column
    of `shares`, and is won when its wealth has grown from 1 to 1/delta. `seen` points came before. Bets are
    judged after `stops` points, from 0 to all of them, where stakes change if `changes` says so. `hedges` is
    the result of `hedge_table`.
    """
    gains = (shares - target) * (1 / width)
    played, place = 0, int(np.searchsorted(stops, seen, side="right")) - 1
    bets = np.flatnonzero(outcome == OPEN)
    now = state[:, bets]
    while played < len(gains) and len(bets):
        if seen == stops[place] and changes[place]:
            now[3] = new_stakes(now[:3], most[bets], seen, int(stops[-1]), delta, hedges)
        here = gains[played : played + int(stops[place + 1]) - seen]
        if len(bets) < len(outcome):
            here = here[:, bets]
        grown = now[3] * here
        grown += 1
        grown[0] *= now[4]
        np.multiply.accumulate(grown, axis=0, out=grown)
        now[4], now[5] = grown[-1], np.maximum(now[5], grown.max(axis=0))
        for sums, other in ((now[6], 1.0), (now[7], here)):
            terms = np.multiply(here, other, out=grown)
            terms[0] += sums
            np.add.accumulate(terms, axis=0, out=terms)
            sums[:] = terms[-1]
        played, seen = played + len(here), seen + len(here)
        if seen < stops[place + 1]:
            break
        place += 1
        judged = _judged(now, delta)
        if judged.any():
            state[:, bets], outcome[bets] = now, judged
            bets, now = bets[judged == OPEN], now[:, judged == OPEN]
    state[:, bets] = now


def _judged(now: Floats, delta: float) -> Ints:
    """Return the outcome of each bet, and update the state for the next points."""
    wealth, sums, squares, _, growth, highest, new_sums, new_squares = now
    won = wealth * highest >= 1 / delta
    wealth *= growth
    squares += new_squares
    sums += new_sums
    lost = (wealth < _RUINED) | (sums < _HOPELESS * np.sqrt(squares))
    now[4:] = [[1.0], [0.0], [0.0], [0.0]]
    return np.where(won, WON, np.where(lost, LOST, OPEN))


def new_stakes(
    state: Floats, most: Floats, seen: int, n: int, delta: float, hedges: tuple[Floats, Floats]
) -> Floats:
    """Return the stakes that hedge "wealth 1/delta after n points", given the state of the bets.

    Any stakes that depend on the past only are valid; these keep the excess of the test small.
    """
    wealth, sums, squares = state
    reach = np.maximum(np.minimum(wealth * delta, 1.0) * (1 / 1.05), 2.0**-_OCTAVES)
    place = (reach.view(np.int64) >> (52 - _BITS)) - ((1023 - _OCTAVES) << _BITS)
    values, slopes = hedges
    deviation = np.sqrt(squares)
    hedge = (values[place] + slopes[place] * reach) / (deviation * math.sqrt((n - seen) / (seen + 1)))
    growing = np.minimum(0.5 * sums / squares, 0.5 * most)
    return np.asarray(np.where(sums > _SURE * deviation, growing, np.minimum(hedge, most)))


@lru_cache(maxsize=1)
def hedge_table() -> tuple[Floats, Floats]:
    """Return the normal density at z divided by p, the probability of a normal number below z.

    A stake of that many standard deviations multiplies the wealth by 1/p in the end with probability p. It
    is tabulated, as ``value + slope p``, because logarithms differ in the last bits between libraries.
    """
    octaves, parts = np.divmod(np.arange((_OCTAVES << _BITS) + 1), 1 << _BITS)
    p = np.ldexp(1 + parts / (1 << _BITS), octaves - _OCTAVES)
    p[-1] = 1 - 2.0**-53
    z = np.array(list(map(NormalDist().inv_cdf, p.tolist())))  # scipy takes longer to import than to bet
    steep = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) / p
    slopes = np.diff(steep) / np.diff(p)
    return steep[:-1] - slopes * p[:-1], slopes


class Bets:
    """Several bets that some mean is above 0, on the same n points.

    If one of them is lost, those before it are given up. `open` holds the numbers of the bets that are still
    open, ascending; `lost` is the highest number of a bet that was lost, -1 if none was; `seen` is the number
    of points so far. No stake is larger than `most`, which is below 1 over the greatest possible loss. The
    others of the arguments are those of `play`.
    """

    def __init__(
        self,
        number: int,
        n: int,
        delta: float,
        target: float,
        width: float,
        most: float | Floats,
        playing: Callable[..., None] = play,
    ) -> None:
        self.open, self.lost, self.seen, self._play = np.arange(number), -1, 0, playing
        self._delta, self._target, self._width = delta, target, width
        self._most = np.full(number, most)
        self._schedule = _schedule(n)
        self._state = np.zeros((8, number))
        self._state[0], self._state[2], self._state[4] = 1.0, 0.25, 1.0  # wealth, squares at first, growth

    def play(self, shares: Floats) -> None:
        """Bet on the next points; `shares` has one column for each open bet."""
        outcome = np.zeros(len(self.open), dtype=np.int64)
        bets, gains = (self._state, self._most, outcome), (shares, self._target, self._width)
        self._play(*bets, *gains, self.seen, *self._schedule, self._delta, hedge_table())
        self.seen += len(shares)
        lost = np.flatnonzero(outcome == LOST)
        if len(lost):
            self.lost = int(self.open[lost[-1]])
        still = (outcome == OPEN) & (self.open > self.lost)
        self.open, self._most = self.open[still], self._most[still]
        self._state = np.ascontiguousarray(self._state[:, still])

    @property
    def failed(self) -> int:
        """The highest number of a bet that was lost or is still open; -1 if all were won."""
        return max(self.lost, int(self.open.max(initial=-1)))


def mean_interval(
    values: Floats, low: float, high: float, tail: float, playing: Callable[..., None] = play
) -> tuple[float, float]:
    """Return an interval for the mean, which lies in [0, 1], of independent numbers from [low, high].

    Each end is wrong with probability at most `tail`, whatever the distribution is. The bets against all
    candidates of a fixed grid share the numbers, in an order shuffled by a fixed seed; an end is the last
    candidate up to which all are rejected.
    """
    n, width = len(values), high - low
    steps = 1 << math.ceil(math.log2(_GRID * math.sqrt(n)))
    grid, shuffled = np.arange(1, steps) / steps, np.random.default_rng([0, 5]).permutation(values)
    ends = []
    for sign, candidates, least in ((1.0, grid[::-1], low - grid[::-1]), (-1.0, grid, grid - high)):
        bets, seen = Bets(len(grid), n, tail, 0.0, width, -0.99 * width / least, playing), 0
        while seen < n and len(bets.open):
            some = shuffled[seen : seen + max(_ROWS // 8, _SHARES // len(bets.open)), None]
            gains = sign * (some - candidates[bets.open])
            bets.play(np.ascontiguousarray(gains))
            seen += len(some)
        beyond = candidates[bets.failed + 1 :]
        ends.append(float(beyond[0]) if len(beyond) else (1 - sign) / 2)
    return ends[0], ends[1]


@lru_cache(maxsize=64)
def _schedule(n: int) -> tuple[Ints, Ints]:
    """Return the numbers of points after which bets are judged, and at which of these stakes change.

    A stake is kept for an eighth of the points so far or a 32nd of those to come, whichever is less.
    """
    stops, changes = [0], [1]
    while (seen := stops[-1]) < n:
        change = seen + max(1, min(seen // 8, (n - seen) // 32))
        between = range(seen + _ROWS, change, _ROWS)
        stops += [*between, change]
        changes += [0] * len(between) + [1]
    return np.array(stops), np.array(changes, dtype=np.int8)
