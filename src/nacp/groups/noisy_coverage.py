"""Coverage of fixed sets, estimated from noisy labels.

For sets that were made without these labels, ``g = sum over l in C of W[y, l]`` has the coverage as its mean
and is bounded (docs/guarantees.md, S7): a betting interval for this mean holds for any noise matrix. The
coverage of a class is a ratio of two such means, with Fieller's approximate interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from nacp import engine
from nacp._types import Floats, Ints
from nacp.noise import Noise
from nacp.points.arrays import row_slices
from nacp.sets import PredictionSets
from nacp.stats.betting import mean_interval

# The number of points that are added to each class for its interval; half of them are covered.
_ADDED = 4


class NoisyCoverage:
    """Estimates of coverage from noisy labels; sets are added block by block.

    `labels` are those of all points, as rows of ``noise.stacked_inverse``. With `places`, the group of each
    class, coverage is estimated for groups instead of classes. For an interval of rates, the result is the
    union of the intervals at both ends, as the mean of g is monotone in the rate.
    """

    def __init__(self, noise: Noise, labels: Ints, k: int, places: Ints | None = None) -> None:
        self._labels, self._k, self._places, self._seen, self._doubt = labels, k, places, 0, noise.doubt
        models = (noise, *self._doubt.ends) if len(self._doubt.ends) > 1 else (noise,)
        self._models = [(each.stacked_inverse(k), each.inverse(k)) for each in models]
        self._shares = np.zeros((len(models), len(labels)))
        self._number = k if places is None else int(places.max()) + 1
        self._sums = np.zeros((len(models), 3, self._number))
        # Of groups: the sums of each row of W over their classes.
        each = range(0 if places is None else len(models))
        self._totals = [np.concatenate([*self._rows(m)]) for m in each]

    def _rows(self, m: int) -> Iterator[Floats]:
        """Yield the rows of W under a model, block by block; of groups, summed over their classes."""
        inverse, columns = self._models[m][0], np.arange(self._k)
        member = None if self._places is None else np.eye(self._number)[self._places]
        for some in row_slices(len(inverse.own), self._k):
            block = inverse.entries(np.arange(some.start, some.stop)[:, None], columns)
            yield block if member is None else block @ member

    def add(self, sets: PredictionSets) -> None:
        """Add the sets of the next points."""
        here = slice(self._seen, self._seen + len(sets))
        self._seen, labels, classes = here.stop, self._labels[here], sets.labels
        row = np.repeat(np.arange(len(sets)), sets.sizes)
        for m, (inverse, _) in enumerate(self._models):
            part: Floats = inverse.entries(labels[row], classes)
            self._shares[m, here] = np.bincount(row, part, minlength=len(sets))
            cross, group = part, classes.astype(np.int64)
            if self._places is not None:
                keys, which = np.unique(row * self._number + self._places[classes], return_inverse=True)
                part, group = np.bincount(which, part).astype(np.float64), keys % self._number
                cross = self._totals[m][labels[keys // self._number], group]
            for total, each in zip(self._sums[m], (part, part**2, part * cross), strict=True):
                total += np.bincount(group, each, minlength=self._number)

    def contradicts(self) -> bool:
        """Return whether the estimated coverage lies outside of [0, 1] under all models.

        If a model holds, the probability of this is at most 1 in 1,000 (Hoeffding, 1963).
        """
        for values, (inverse, _) in zip(self._shares, self._models, strict=True):
            least, most = inverse.subset_range()
            chance = (most - least) * math.sqrt(math.log(2000) / (2 * len(values)))
            if abs(values.mean() - 0.5) <= 0.5 + chance + self._doubt.shift(inverse):
                return False
        return True

    def of_rows(self, rows: Any, tail: float) -> tuple[float, float, float]:
        """Return the coverage of some points with an interval; `tail` bounds the error at each end."""
        if not len(self._shares[0][rows]):
            return np.nan, np.nan, np.nan
        found, ends = 0.0, []
        for m, (inverse, _) in reversed(list(enumerate(self._models))):
            values, shift = self._shares[m][rows], self._doubt.shift(inverse)
            found = min(max(float(values.mean()), 0.0), 1.0)
            low, high = mean_interval(values, *inverse.subset_range(), tail, engine.current().bet)
            ends += [min(low, found) - shift, max(high, found) + shift]
        return found, max(min(ends), 0.0), min(max(ends), 1.0)

    def of_classes(self, tail: float) -> tuple[Floats, Floats, Floats]:
        """Return the coverage of classes, or of groups of them, with approximate intervals.

        The coverage is nan where the estimated number of points is not positive.
        """
        from scipy.special import ndtri

        places = np.arange(self._k) if self._places is None else self._places
        found: list[tuple[Floats, Floats, Floats]] = []
        for m, (inverse, plain) in enumerate(self._models):
            part, part_squares, cross = self._sums[m]
            count = np.bincount(self._labels, minlength=len(inverse.own))
            total, squares, start = np.zeros(len(part)), np.zeros(len(part)), 0
            for block in self._rows(m):
                total += count[start : start + len(block)] @ block
                squares += count[start : start + len(block)] @ block**2
                start += len(block)
            share = np.full(len(part), np.nan)
            np.divide(part, total, out=share, where=total > 0)
            one = np.bincount(places, plain.diagonal) / np.bincount(places)  # the weight of a covered point
            held, every = _ADDED / 2 * one**2, _ADDED * one**2
            sums = part + _ADDED / 2 * one, total + _ADDED * one
            spread = part_squares + held, cross + held, squares + every
            low, high = _fieller(*sums, *spread, float(ndtri(tail)) ** 2)
            least, most = plain.column_range()
            shift = self._doubt.radius * np.bincount(places, most - least) * len(self._labels)
            shift = np.divide(shift, total, out=np.zeros_like(total), where=total > 0)
            found.append((np.clip(share, 0, 1), np.maximum(low - shift, 0), np.minimum(high + shift, 1)))
        shares, lows, highs = (np.stack(each) for each in zip(*found, strict=True))
        return shares[0], lows.min(axis=0), highs.max(axis=0)


def _fieller(
    part: Floats, total: Floats, part_squares: Floats, cross: Floats, squares: Floats, z_squared: float
) -> tuple[Floats, Floats]:
    """Return where ``(part - c total)^2 <= z^2 (part_squares - 2 c cross + c^2 squares)``, within [0, 1].

    For these c, the residuals ``part - c total`` do not contradict the share c. If the total may be 0, that
    is all of [0, 1].
    """
    a = total**2 - z_squared * squares
    b = part * total - z_squared * cross
    root = np.sqrt(np.maximum(b**2 - a * (part**2 - z_squared * part_squares), 0))
    known = a > 0
    low, high = (np.where(known, (b + side * root) / np.where(known, a, 1), 0.5 + side) for side in (-1, 1))
    return np.clip(low, 0, 1), np.clip(high, 0, 1)
