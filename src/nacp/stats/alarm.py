"""A bet that a mean falls below a target, some time: an alarm that is valid at any time, and says since when.

A gambler stakes on numbers that are too small. As long as their mean, given the past, is no less than the
target, his wealth is a nonnegative supermartingale that starts at 1, so it ever reaches 1/level with
probability at most `level` (Ville). He does not know when the mean will fall, nor how far: his money is
spread over all points at which he may begin, and over some stakes. docs/guarantees.md, M1.
"""

from itertools import accumulate
from typing import Any

import numpy as np

from nacp._types import Floats

# From half of the largest stake at which nothing can be lost for good, each half of the one before.
_STAKES = 8
_AT_ONCE = 4096  # numbers, to have memory bounded
_SINGLE = {"n": int, "total": float, "wealth": float, "highest": float, "before": float}
_ENDS = ("at", "since")
_SEVERAL = ("bets", "growth", "lowest", "lowest_at", "lowest_total")


class Alarm:
    """Whether the mean of numbers that come one after the other has fallen below a target.

    Parameters
    ----------
    target : float
        The mean that the numbers should have.
    high : float
        The greatest that one of them can be; more than the target.
    level : float
        The probability with which a false alarm is ever raised, at the most.

    Attributes
    ----------
    n : int
        How many numbers there were.
    total : float
        Their sum.
    wealth, highest : float
        The wealth, and the most that it was; both as they were at the alarm, from then on.
    at : int or None
        After how many numbers the alarm was raised.
    since : int or None
        After how many of them the mean fell, as it looked when the alarm was raised: where wealth, had one
        begun to bet there, would have grown most.
    before : float
        The sum of the numbers before that.

    Examples
    --------
    >>> import numpy as np
    >>> from nacp.stats.alarm import Alarm
    >>> hits = np.random.default_rng(3).random(3000) < np.repeat([0.9, 0.7], 1500)
    >>> alarm = Alarm(target=0.9, high=1.0, level=0.01)
    >>> alarm.play(hits.astype(float))
    >>> 1500 < alarm.at < 1650, abs(alarm.since - 1500) < 30
    (True, True)
    """

    def __init__(self, target: float, high: float, level: float) -> None:
        self.target, self.level = target, level
        self.stakes: Floats = np.ldexp(1 / (high - target), -np.arange(1, _STAKES + 1))
        self.n, self.total, self.wealth, self.highest = 0, 0.0, 1.0, 1.0
        self.at: int | None = None
        self.since: int | None = None
        self.before = 0.0
        # The money at each stake. By how much a bet from the beginning would have grown, in logarithms; where
        # that was lowest, after how many numbers, and what their sum was.
        self._bets, self._growth, self._lowest, self._lowest_total = np.zeros((4, _STAKES))
        self._lowest_at = np.zeros(_STAKES, dtype=np.int64)

    def play(self, numbers: Floats) -> None:
        """Take in the next numbers: in one batch or in several, with the same bits."""
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            totals = np.cumsum(np.concatenate([[self.total], some]))
            if self.at is None:
                self._bet(some, totals[1:])
            self.n, self.total = self.n + len(some), float(totals[-1])

    def _bet(self, numbers: Floats, totals: Floats) -> None:
        factors = 1 + self.stakes * (self.target - numbers)[:, None]
        # So much is kept for beginnings to come; what is missing from one to the next begins there.
        kept = 1 / (1 + np.log(np.arange(self.n + 1.0, self.n + len(numbers) + 2)))
        begun, path = (-np.diff(kept) / _STAKES).tolist(), np.empty_like(factors)
        for stake, bet in enumerate(self._bets.tolist()):
            steps = zip(begun, factors[:, stake].tolist(), strict=True)
            bets = accumulate(steps, lambda bet, step: (bet + step[0]) * step[1], initial=bet)
            path[:, stake] = list(bets)[1:]
        wealth = path.sum(axis=1) + kept[1:]
        reached = np.flatnonzero(wealth >= 1 / self.level)
        last = len(numbers) - 1 if not len(reached) else int(reached[0])

        logarithms = np.log(factors[: last + 1])
        logarithms[0] += self._growth
        growth = np.cumsum(logarithms, axis=0)
        place = growth.argmin(axis=0)
        lowest = growth[place, np.arange(_STAKES)]
        lower = lowest < self._lowest
        self._lowest = np.where(lower, lowest, self._lowest)
        self._lowest_at = np.where(lower, self.n + place + 1, self._lowest_at)
        self._lowest_total = np.where(lower, totals[place], self._lowest_total)
        self._bets, self._growth = path[last].copy(), growth[last]
        self.wealth, self.highest = float(wealth[last]), max(self.highest, float(wealth[: last + 1].max()))
        if len(reached):
            best = int(np.argmax(self._growth - self._lowest))
            self.at, self.since = self.n + last + 1, int(self._lowest_at[best])
            self.before = float(self._lowest_total[best])

    def to_dict(self) -> dict[str, Any]:
        """Return the state, for a file."""
        several = {name: getattr(self, f"_{name}").tolist() for name in _SEVERAL}
        return {name: getattr(self, name) for name in (*_SINGLE, *_ENDS)} | several

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `to_dict` returned; refuse anything else by a ValueError."""
        single = {name: _number(name, state[name], kind) for name, kind in _SINGLE.items()}
        ends = {name: None if state[name] is None else _number(name, state[name], int) for name in _ENDS}
        if (ends["at"] is None) != (ends["since"] is None) or not (
            0 <= (ends["since"] or 0) <= (ends["at"] or 0) <= single["n"]
        ):
            raise ValueError("at and since must be numbers of points, the first one no smaller, or both null")
        several = {}
        for name in _SEVERAL:
            kind = int if name == "lowest_at" else float
            several[name] = np.array([_number(name, each, kind) for each in state[name]])
            if len(several[name]) != _STAKES:
                raise ValueError(f"{name} must hold {_STAKES} numbers")
        if min(single["wealth"], several["bets"].min()) < 0 or single["n"] < 0:
            raise ValueError("wealth, bets and n must not be negative")
        vars(self).update(single | ends | {f"_{name}": values for name, values in several.items()})


def _number(name: str, value: Any, kind: type[Any]) -> Any:
    """Check a finite number of a kind."""
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise ValueError(f"{name} must hold {'whole ' if kind is int else ''}numbers, not {value!r}")
    if not abs(value) < np.inf:
        raise ValueError(f"{name} must hold finite numbers, not {value!r}")
    return float(value) if kind is float else value
