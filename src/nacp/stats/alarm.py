"""An alarm for a mean that falls below a target: valid at any time, with an estimate of when the mean fell.

The alarm bets that numbers are too small; the wealth is divided among all points at which a bet may begin,
and among several stakes: docs/guarantees.md, M1.
"""

from typing import Any

import numpy as np

from nacp._types import Floats
from nacp.checks import check_count, check_finite

_STAKES = 8  # The first is half of the largest at which wealth stays positive, each half of the one before.
_NUMBERS_MAX = 2**50  # of a state that is restored; such numbers are exact as floats
_CHUNK = 4096  # numbers that are processed together, which bounds the memory
_ONE = ("total", "before", "wealth", "highest")
_EACH = ("bets", "growth", "lowest", "lowest_at", "lowest_total")  # of each stake


class Alarm:
    """A test whether the mean of a sequence of numbers has fallen below a target.

    The numbers are at most `high`. The probability that a false alarm is ever raised is at most `level`.

    Attributes
    ----------
    n, total, wealth, highest : int, float, float, float
        The number of numbers, and their sum; the wealth and its maximum, which no longer change after the
        alarm.
    at : int or None
        The number of numbers at the alarm.
    since, before : int or None, float
        The estimated number of numbers before the mean fell, and their sum: a bet that begins there would
        have grown most. Computed when the alarm is raised.
    """

    def __init__(self, target: float, high: float, level: float) -> None:
        self.target, self.level = target, level
        self.stakes: Floats = np.ldexp(1 / (high - target), -np.arange(1, _STAKES + 1))
        self.n, self.total, self.wealth, self.highest = 0, 0.0, 1.0, 1.0
        self.at: int | None = None
        self.since: int | None = None
        self.before = 0.0
        # For each stake: the wealth; the logarithm of a bet that began with the first number; the minimum of
        # this logarithm, and the number and the sum of the numbers until then.
        self._bets, self._growth, self._lowest, self._lowest_at, self._lowest_total = np.zeros((5, _STAKES))

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
        # The wealth kept for bets that begin later. Each bet begins with the difference of successive values.
        kept = 1 / (1 + np.log(np.arange(self.n + 1.0, self.n + len(numbers) + 2)))
        path, bets = np.empty_like(factors), self._bets
        for i, begun in enumerate((-np.diff(kept) / _STAKES).tolist()):
            path[i] = bets = (bets + begun) * factors[i]
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
        each = {name: getattr(self, f"_{name}").tolist() for name in _EACH}
        return {name: getattr(self, name) for name in ("n", *_ONE, "at", "since")} | each

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state that `to_dict` returned."""
        self.n = check_count("n", state["n"])
        for name in _ONE:
            setattr(self, name, check_finite(name, state[name]))
        if self.n > _NUMBERS_MAX or self.highest < max(1, self.wealth):
            raise ValueError(f"n must be at most {_NUMBERS_MAX:,}, and highest at least 1 and wealth")
        if state["at"] is not None or state["since"] is not None:
            self.at, self.since = check_count("at", state["at"]), check_count("since", state["since"])
            if not self.since <= self.at <= self.n:
                raise ValueError("at and since must be numbers of points, the second one no larger")
        for name in _EACH:
            values = [check_finite(name, state[name][i]) for i in range(_STAKES)]
            setattr(self, f"_{name}", np.array(values))
