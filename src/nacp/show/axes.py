"""Axes: their ends, scales and ticks; ranges of set sizes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit

from nacp._types import Floats

_ROUNDED = 0.0011  # rows of rounded probabilities, and scores with them, may exceed 1 by this
_SINGLE_SIZES = 20  # larger set sizes are shown in ranges that double


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, with ticks in between."""

    low: float
    high: float
    scale: Literal["linear", "log", "logit"] = "linear"
    ticks: tuple[float, ...] = ()

    def place(self, values: ArrayLike) -> Floats:
        """Return the places of values, from 0 at the low end to 1 at the high one, without any outside."""
        stretch = {"linear": lambda x: x, "log": np.log, "logit": logit}[self.scale]
        inside = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        start, end = stretch(self.low), stretch(self.high)
        return np.asarray((stretch(inside) - start) / (end - start))


def threshold_axis(q: Floats, chosen: float | None, others: Sequence[float] = ()) -> Axis:
    """Return the axis of thresholds for ascending `q`, the `chosen` one, if it is finite, and `others`.

    Between 0 and 1, scores crowd at the ends when there are many classes, so these are stretched, and
    `others` are on the axis if they are not too far away. Scores beyond 1 are shown up to twice the threshold
    that was chosen, or to their end.
    """
    middle = float(np.median(q)) if chosen is None else chosen
    if q[0] < 0 or q[-1] > 1 + _ROUNDED or not 0 < middle < 1:
        low = min(float(q[0]), 0.0)
        high = end = float(q[-1])
        if chosen is not None:
            high = min(chosen + abs(chosen - low), max(end, chosen) + 0.05 * (max(end, chosen) - low))
        return linear_axis(low, high, tight=True)
    near = np.clip(others, middle / 1000, 1 - (1 - middle) / 1000).tolist()
    low = max(min([0.01, middle / 10, *near]), 1e-12)
    high = min(max([1 - 1e-5, 1 - (1 - middle) / 100, *near]), 1 - 1e-9)
    ticks = (*10.0 ** np.arange(-6, 0), 0.5, *(1 - 10.0 ** np.arange(-1, -9, -1)))
    return Axis(low, high, "logit", tuple(float(t) for t in ticks if low <= t <= high))


def size_ranges(largest: int) -> tuple[list[int], list[str]]:
    """Return the starts and names of ranges of set sizes: 0, 1, 2, 3–4, 5–8, ...; of few sizes, each one."""
    starts = list(range(largest + 1))
    if largest >= _SINGLE_SIZES:
        starts = [0, 1, *(2**i + 1 for i in range((largest - 1).bit_length()))]
    ends = [*(start - 1 for start in starts[1:]), largest]
    return starts, [f"{a}" if a == b else f"{a}–{b}" for a, b in zip(starts, ends, strict=True)]


def linear_axis(low: float, high: float, *, tight: bool = False) -> Axis:
    """Return an axis with round ticks; its ends are ticks, or `low` and `high` if it is `tight`."""
    if not high > low:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / 4
    size = 10.0 ** math.floor(math.log10(raw))
    step = size * next(nice for nice in (1, 2, 2.5, 5, 10) if nice * size >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(i * step, 12) for i in range(first, last + 1))
    if tight:
        return Axis(float(low), float(high), ticks=tuple(t for t in ticks if low <= t <= high))
    return Axis(ticks[0], ticks[-1], ticks=ticks)


def log_axis(low: float, high: float) -> Axis:
    """Return a logarithmic axis, with ticks at 1, 2 and 5 times powers of ten, or at these alone."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    between = (1, 2, 5) if len(powers) <= 4 else (1,)
    every = [round(nice * 10.0**power, 12) for power in powers for nice in between]
    first = max(i for i, tick in enumerate(every) if tick <= low)
    last = min(i for i, tick in enumerate(every) if tick >= high)
    ticks = tuple(every[first : last + 1])
    return Axis(ticks[0], ticks[-1], "log", ticks)
