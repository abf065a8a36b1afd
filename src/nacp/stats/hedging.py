"""Bets on few rounds, each with a checked label, a guess of it, and the mean guess of many points.

In a round a label is checked: `hit` says whether it lies in the set. `guess` is any guess of that, and `mean`
the guesses' mean over a batch of points, from which the checked one was drawn at random. So the expectation
of ``Z = hit - lambda (guess - mean)`` is coverage, whatever the labels' noise is and however bad the guess.
The better it is, the less Z varies.

Wealth grows by ``1 + stake (Z - target)``; a bet is won at 1/delta, which under "coverage < target" happens
with probability at most delta (Ville). Lambda and the stakes come from earlier rounds. The stakes hedge
"wealth 1/delta at the end" as if the rest were failures of a binomial variable, which for lambda = 0 it is:
then the bet is about the exact binomial test. See docs/guarantees.md, A1.
"""

import numpy as np

from nacp._types import Bools, Floats

# What is assumed before the first round, and for how many rounds that counts.
_ROUNDS, _LAMBDA, _SQUARE, _VARIANCE = 20.0, 0.7, 0.06, 0.7
_SHORT_OF = 1.03  # a hedge that aims a little beyond the goal makes up for not being exact
_HOPELESS = 1e-5


class HedgedBets:
    """Several bets that coverage reaches a target, all on the same rounds.

    Parameters
    ----------
    targets : array of shape (number,)
        What coverage is to reach, below 1.
    rounds : int
        How many rounds there will be.
    delta : float
        A bet is won when its wealth has grown from 1 to 1/delta.
    least, price : arrays of shape (number,)
        The mean guess counts as `least` where it is smaller, and is lowered by `price`, the most by which
        that raises its expectation. A loss is then bounded more tightly.
    guessed : bool, default=True
        Whether there are guesses; if not, lambda is 0.

    Attributes
    ----------
    open : array of int
        The numbers of the bets that are still open, ascending.
    won : array of bool of shape (number,)
        Which bets have been won.

    Examples
    --------
    >>> import numpy as np
    >>> from nacp.stats.hedging import HedgedBets
    >>> bets = HedgedBets(np.array([0.8]), 60, 0.1, np.zeros(1), np.zeros(1), guessed=False)
    >>> for _ in range(60):
    ...     bets.play(np.ones(1), np.zeros(1), np.zeros(1))
    >>> bets.won.tolist()
    [True]
    """

    def __init__(
        self,
        targets: Floats,
        rounds: int,
        delta: float,
        least: Floats,
        price: Floats,
        guessed: bool = True,
    ) -> None:
        self.open = np.arange(len(targets))
        self.won = np.zeros(len(targets), dtype=bool)
        self._delta, self._left = delta, rounds
        self._target, self._least, self._price = targets, least, price
        self._wealth = np.ones(len(targets))
        # Sums over rounds: of lambda's numerator and denominator, and of (Z - target)^2.
        self._shared = np.full(len(targets), _ROUNDS * _SQUARE * (_LAMBDA if guessed else 0.0))
        self._guessed = np.full(len(targets), _ROUNDS * _SQUARE)
        self._squares = _ROUNDS * _VARIANCE * targets * (1 - targets)
        self._seen = _ROUNDS

    def play(self, hit: Floats, guess: Floats, mean: Floats) -> None:
        """Bet on one round; the arrays have an entry for each open bet."""
        stake = self._stakes()
        # No more than 0.99 may be lost, by a miss where the guess was 1: it is lambda that gives way.
        room = np.divide(0.99, stake, out=np.full_like(stake, np.inf), where=stake > 0) - self._target
        use = np.clip(self._shared / self._guessed, 0.0, 1.0)
        use = np.minimum(use, np.maximum(room, 0.0) / (1 - self._least + self._price))
        over = hit - use * (guess - np.maximum(mean, self._least) + self._price) - self._target
        self._wealth = self._wealth * (1 + stake * over)
        apart = guess - mean
        self._shared += (hit - self._target) * apart
        self._guessed += apart**2
        self._squares += over**2
        self._seen += 1
        self._left -= 1
        won = self._wealth * self._delta >= 1
        self.won[self.open[won]] = True
        self.keep(~won & (self._wealth > _HOPELESS))

    def keep(self, which: Bools) -> None:
        """Forget the other bets."""
        if which.all():
            return
        self.open, self._wealth = self.open[which], self._wealth[which]
        self._target, self._least, self._price = self._target[which], self._least[which], self._price[which]
        self._shared, self._guessed = self._shared[which], self._guessed[which]
        self._squares = self._squares[which]

    def _stakes(self) -> Floats:
        """Return the stakes for this round."""
        rate = 1 - self._target
        # So many labels, checked without a guess, would vary as one round does.
        worth = np.clip(rate * self._target * self._seen / self._squares, 0.5, 50.0)
        rest = worth * self._left
        allowed = _allowed_failures(self._delta * self._wealth / _SHORT_OF, rest, rate)
        hit = _at_most(allowed, rest - worth, rate)
        miss = _at_most(allowed - worth, rest - worth, rate)
        expected = self._target * hit + rate * miss
        hedge = np.divide(hit - miss, expected, out=np.zeros_like(hit), where=expected > 0)
        return np.minimum(hedge, 0.99 / self._target)


def batch_floor(bound: Floats, size: int, worth: float) -> tuple[Floats, Floats]:
    """Return a floor for the mean of `size` guesses, and by how much counting at least that raises its mean.

    The guesses lie in [0, 1], with a mean of at least `bound`. Of all such variables those that are 0 or 1
    raise it the most, with the mean `bound` itself. The larger the floor the smaller is the greatest loss,
    which is worth `worth`, and the larger the price.

    Examples
    --------
    >>> import numpy as np
    >>> least, price = batch_floor(np.array([0.9]), 20, 0.01)
    >>> bool(0.6 < least[0] < 0.9), bool(0 < price[0] < 0.001)
    (True, True)
    """
    from scipy.special import bdtr

    steps = np.array([2.0, 2.5, 3.0, 4.0, 6.0])[:, None]
    least = np.maximum(bound - steps * np.sqrt(bound * (1 - bound) / size), 0.0)
    most = np.floor(least * size)
    price = least * bdtr(most, size, bound)
    price -= np.where(most >= 1, bound * bdtr(np.maximum(most - 1, 0), max(size - 1, 0), bound), 0.0)
    price = np.maximum(price, 0.0)
    best = np.argmin(price + worth * (1 - least), axis=0)[None]
    least, price = (np.take_along_axis(part, best, axis=0)[0] for part in (least, price))
    return least, price


def _at_most(failures: Floats, trials: Floats, rate: Floats) -> Floats:
    """Return about ``P(Bin(trials, rate) <= failures)``, also between whole numbers (Molenaar)."""
    from scipy.special import ndtr

    few, many = (np.sqrt(np.maximum(part, 0.0)) for part in (4 * failures + 3, 4 * (trials - failures) - 1))
    found: Floats = ndtr(few * np.sqrt(1 - rate) - many * np.sqrt(rate))
    return np.where(failures <= -0.75, 0.0, np.where(failures >= trials - 0.25, 1.0, found))


def _allowed_failures(probability: Floats, trials: Floats, rate: Floats) -> Floats:
    """Return the number of failures that is not exceeded with about that probability."""
    from scipy.special import ndtri

    z = ndtri(np.clip(probability, 1e-12, 1 - 1e-9))
    size = 4 * trials + 2
    turned = np.arcsin(np.sqrt(rate)) + np.arcsin(np.clip(z / np.sqrt(size), -1, 1))
    found: Floats = (size * np.sin(np.clip(turned, 0, np.pi / 2)) ** 2 - 3) / 4
    return found
