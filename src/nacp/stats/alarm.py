"""An alarm for a mean that falls below a target: valid at any time, with an estimate of when the mean fell.

The alarm bets that numbers are too small. As long as their mean, given the past, is no less than the target,
the wealth is a nonnegative supermartingale that starts at 1, so it ever reaches 1/level with probability at
most `level` (Ville). As it is unknown when the mean will fall and how far, the wealth is divided among all
points at which a bet may begin, and among several stakes. docs/guarantees.md, M1.
"""

from itertools import accumulate
from typing import Any

import numpy as np

from nacp._types import Floats

# The number of stakes. The first is half of the largest stake at which wealth stays positive, and each is
# half of the one before.
_STAKES = 8
_CHUNK = 4096  # numbers that are processed together, which bounds the memory
_SINGLE = {"n": int, "total": float, "wealth": float, "highest": float, "before": float}
_ENDS = ("at", "since")
_SEVERAL = ("bets", "growth", "lowest", "lowest_at", "lowest_total")


class Alarm:
    """A test of whether the mean of a sequence of numbers has fallen below a target.

    Parameters
    ----------
    target : float
        The mean that the numbers should have.
    high : float
        The upper bound of a number; more than the target.
    level : float
        The probability of a false alarm at any time is at most this.

    Attributes
    ----------
    n : int
        The number of numbers.
    total : float
        Their sum.
    wealth, highest : float
        The wealth and its maximum; both stay as they were at the alarm.
    at : int or None
        The number of numbers at the alarm.
    since : int or None
        The number of numbers after which the mean fell, estimated at the alarm: the beginning from which a
        bet would have grown most.
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
        # For each stake: the wealth; the logarithm of a bet from the beginning on; its minimum, the number of
        # numbers there, and their sum.
        self._bets, self._growth, self._lowest, self._lowest_total = np.zeros((4, _STAKES))
        self._lowest_at = np.zeros(_STAKES, dtype=np.int64)

    def play(self, numbers: Floats) -> None:
        """Process the next numbers; the result does not depend on how they are divided into batches."""
        for start in range(0, len(numbers), _CHUNK):
            some = numbers[start : start + _CHUNK]
            totals = np.cumsum(np.concatenate([[self.total], some]))
            if self.at is None:
                self._bet(some, totals[1:])
            self.n, self.total = self.n + len(some), float(totals[-1])

    def _bet(self, numbers: Floats, totals: Floats) -> None:
        factors = 1 + self.stakes * (self.target - numbers)[:, None]
        # The wealth kept for later beginnings. Each bet begins with the difference of two successive values.
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
        """Restore a state that `to_dict` returned; raise a ValueError if it is not valid."""
        single = {name: _number(name, state[name], kind) for name, kind in _SINGLE.items()}
        ends = {name: None if state[name] is None else _number(name, state[name], int) for name in _ENDS}
        if (ends["at"] is None) != (ends["since"] is None) or not (
            0 <= (ends["since"] or 0) <= (ends["at"] or 0) <= single["n"]
        ):
            raise ValueError("at and since must be numbers of points, the first one no smaller, or both null")
        kinds = {name: int if name == "lowest_at" else float for name in _SEVERAL}
        several = {
            name: np.array([_number(name, each, kinds[name]) for each in state[name]]) for name in kinds
        }
        if any(len(values) != _STAKES for values in several.values()):
            raise ValueError(f"{', '.join(several)} must hold {_STAKES} numbers each")
        if min(single["wealth"], several["bets"].min()) < 0 or single["n"] < 0:
            raise ValueError("wealth, bets and n must not be negative")
        vars(self).update(single | ends | {f"_{name}": values for name, values in several.items()})


def _number(name: str, value: Any, kind: type[Any]) -> Any:
    """Return a finite number of a type, or raise a ValueError."""
    if type(value) not in (kind, int) or not abs(value) < np.inf:
        raise ValueError(f"{name} must hold finite {'whole ' * (kind is int)}numbers, not {value!r}")
    return float(value) if kind is float else value
