"""An exact test that a share of hits reaches a target, for points in two strata.

Points lie outside (stratum 0) or inside (stratum 1) of a set. They are hits with probabilities p0 and p1, and
a share w of all points lies outside, so ``F = w p0 + (1 - w) p1`` of all points are hits. Observed are the
hits X0 and X1 among n0 and n1 points, and that N0 of N other points lie outside. The test passes if
``X1 >= k(X0, N0)``: with a bounded probability for all p0, p1 and w under which F is below the target
(docs/guarantees.md, A1).
"""

import math
from typing import Any, TypeAlias

import numpy as np

from nacp._types import Bools, Floats, Ints
from nacp.stats.intervals import exact_share

Pair: TypeAlias = tuple[int, int]

# The share of delta for the chance that w lies outside of its interval.
_DOUBT = 0.01
# The counts N0 are divided into bins of this number of standard deviations. Bins that the pilot sample
# excludes at this level never pass.
_BIN, _UNLIKELY = 0.5, 1e-12
# In a cell of (p0, p1), F differs by this part of its standard error from end to end; but there are at most
# _MOST_CELLS in one direction. Steps of w take little time, so that there are more of them.
_SLACK, _MOST_CELLS, _SHARES = 0.01, 1500, 1000
# Terms left out of sums, and the bound of their sum and of rounding errors.
_NEGLIGIBLE, _LEFT_OUT = 1e-12, 1e-7
# The number of cells of p0 per block, and the largest product of matrices: NumPy would divide a larger one
# among threads, which is far slower where other processes use the cores.
_ROWS, _PRODUCT_MAX = 48, 1 << 18
_CLOSE = 0.003  # the precision of the cutoff
_MOST_HITS = 400  # k is computed for this number of X0 and interpolated linearly between them


def strata_variance(
    w: Any, p0: Any, p1: Any, n0: float, n1: float, points: float, unseen: float = 0.5
) -> Any:
    """Return the variance of ``w p0 + (1 - w) p1``, estimated from n0 and n1 points, and w from others.

    Half a miss more in each stratum stands for unseen misses, and keeps the variance above 0.
    """
    outside = w**2 * (p0 * (1 - p0) + unseen / n0) / n0
    inside = (1 - w) ** 2 * (p1 * (1 - p1) + unseen / n1) / n1
    return outside + inside + w * (1 - w) * (p1 - p0) ** 2 / points


def strata_interval(hits: Pair, checked: Pair, counted: Pair, tail: float) -> tuple[float, float]:
    """Return an interval for F, about `tail` outside at each end; the arguments are X0, X1; n0, n1; N0, N.

    The exact intervals of p0, p1 and w are combined as independent errors of an estimate are, each end of it
    from the ends that move F its way (Zou and Donner, Statistics in Medicine 27, 2008). With one stratum it
    is the exact interval.

    Examples
    --------
    >>> from nacp.stats.strata import strata_interval
    >>> low, high = strata_interval((20, 195), (40, 200), (450, 4500), 0.025)  # about 0.1 / 2 + 0.9 * 0.975
    >>> round(low, 3), round(high, 3)
    (0.894, 0.95)
    """
    x, n = np.array([*hits, counted[0]]), np.array([*checked, counted[1]])
    (low, high), share = exact_share(x, n, tail), x / n
    p0, p1, w = share
    slopes = np.array([w, 1 - w, p0 - p1])
    estimate, rising = w * p0 + (1 - w) * p1, slopes > 0
    below, above = (
        np.linalg.norm(slopes * np.where(side, share - low, high - share)) for side in (rising, ~rising)
    )
    return max(float(estimate - below), 0.0), min(float(estimate + above), 1.0)


def hits_needed_inside(checked: Pair, counted: Pair, pilot: Pair, target: float, delta: float) -> Ints:
    """Return k: the test passes if of the checked points inside ``X1 >= k[X0]`` are hits.

    It passes with probability at most delta if F is below the target. `checked` holds n0 and n1, the numbers
    of checked points outside and inside; `counted` holds N0 and N, the numbers of other points that lie
    outside, and of other points; `pilot` holds the same of a disjoint sample.
    """
    never = np.full(checked[0] + 1, checked[1] + 1)
    if not min(checked):
        return never
    strata = _Strata(checked, counted, pilot, target, delta)
    # A bin that the pilot excludes never passes.
    return never if strata.bin < 0 else strata.table()[:, strata.bin]


class _Strata:
    """The test for one set of counts."""

    def __init__(self, checked: Pair, counted: Pair, pilot: Pair, target: float, delta: float) -> None:
        (self.n0, self.n1), (outside, self.points) = checked, counted
        self.target, self.delta = target, delta * (1 - _DOUBT)
        ends = exact_share(np.array([outside]), np.array([self.points]), delta * _DOUBT / 2)
        (self.low,), (self.high,) = ends
        (least,), _ = exact_share(np.array(pilot[:1]), np.array(pilot[1:]), _UNLIKELY)
        self._make_bins(outside, 0.0 if math.isnan(least) else float(least))
        self._make_cells()

    def _make_bins(self, outside: int, least: float) -> None:
        """Divide N0 into bins of equal width in standard deviations, which do not depend on N0."""
        from scipy.special import bdtr

        width, reach = _BIN / (2 * math.sqrt(self.points)), 4 / _BIN
        first = math.floor(math.asin(math.sqrt(least)) / width)
        last = math.ceil(min(math.asin(math.sqrt(self.high)) / width + reach, math.pi / 2 / width))
        last = max(last, first + 1)
        angles = np.minimum(np.arange(first, last + 1) * width, math.pi / 2)
        # Bin j holds the counts in (edges[j], edges[j + 1]]; the first of all bins also holds 0.
        edges = np.floor(self.points * np.sin(angles) ** 2)
        edges[0] = -1 if first == 0 else edges[0]
        self.shares = np.clip(np.sin((angles[1:] + angles[:-1]) / 2) ** 2, 1e-9, 1 - 1e-9)
        self.bin = int(np.searchsorted(edges, outside, side="left")) - 1
        w = np.linspace(self.low, self.high, _SHARES + 1)[:, None]
        below = np.where(edges < 0, 0.0, bdtr(np.maximum(edges, 0), self.points, w))
        self._chances = np.diff(below, axis=1).T.copy()  # of each bin, at each w
        self._beyond = float((1 - below[:, -1] + below[:, 0]).max())

    def _make_cells(self) -> None:
        """Divide the values of (p0, p1) into cells; find the smallest w at which each can miss the target."""
        from scipy.special import bdtrc, gammaln, xlog1py, xlogy

        middle, target = min(max((self.low + self.high) / 2, 1e-3), 1 - 1e-3), self.target
        p0 = np.linspace(0.05, target, 12)
        p1 = np.clip((target - middle * p0) / (1 - middle), 0.01, 0.999)
        error = float(np.median(np.sqrt(strata_variance(middle, p0, p1, self.n0, self.n1, self.points))))
        least = max(0.0, (target - self.high) / (1 - self.high)) if self.high < 1 else 0.0
        # Those of p1 are finer near 1, where the error is smallest.
        lengths = middle, 1.5 * (1 - middle) * (1 - least)
        steps = [min(max(math.ceil(each / (_SLACK * error)), 50), _MOST_CELLS) for each in lengths]
        ends0 = np.linspace(0, 1, steps[0] + 1)
        ends1 = 1 - (1 - least) * np.linspace(1, 0, steps[1] + 1) ** 1.5
        # The probabilities of 0, 1, ..., n0 hits, for each p0.
        hits, p = np.arange(self.n0 + 1), ends0[1:, None]
        ways = gammaln(self.n0 + 1) - gammaln(hits + 1) - gammaln(self.n0 - hits + 1)
        self._outside = np.exp(ways + xlogy(hits, p) + xlog1py(self.n0 - hits, -p))
        # Fewer hits inside do not exceed the target, even if all points outside are hits.
        largest = float(self.shares.max())
        self._least = max(math.floor(self.n1 * (target - largest) / (1 - largest)), 0)
        counts = np.arange(self._least, self.n1 + 2)[:, None]
        self._inside = np.where(counts > 0, bdtrc(np.maximum(counts - 1, 0), self.n1, ends1[1:]), 1.0)
        self._inside[-1] = 0.0
        low0, low1 = ends0[:-1, None], ends1[:-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            smallest = np.where(low1 > low0, (low1 - target) / (low1 - low0), np.inf)
        missed = low1 - self.low * (low1 - low0) <= target  # at the smallest w of all
        smallest = np.where(missed, self.low, smallest)
        step = max(self.high - self.low, 1e-12) / _SHARES
        self._which = np.clip(np.floor((smallest - self.low) / step - 1e-9), 0, _SHARES).astype(int)
        # Cells further down than the last one that misses the target at all w have a smaller probability.
        columns = np.arange(len(low1))
        last = np.where(missed, columns, 0).max(axis=1, keepdims=True)
        # The largest bound of each block of rows for the last cutoff: the worst blocks are tried first.
        self._worst = dict.fromkeys(range(0, len(low0), _ROWS), 0.0)
        self._null: Bools = (smallest <= self.high) & (columns >= last)

    def _distance(self, x0: Ints, x1: Ints, shares: Floats) -> Floats:
        """Return by how many standard errors the estimate of F exceeds the target.

        The standard error is that under the most likely p0, p1 and (nearly) w at which F is the target.
        """
        over = shares * x0 / self.n0 + (1 - shares) * x1 / self.n1 - self.target
        w = shares
        for _ in range(2):
            p0, p1 = self._likeliest(x0, x1, w)
            variance = strata_variance(w, p0, p1, self.n0, self.n1, self.points)
            shift = np.maximum(over, 0) * w * (1 - w) * (p1 - p0) / self.points / variance
            w = np.clip(shares + shift, 1e-9, 1 - 1e-9)
        return np.asarray(over / np.sqrt(variance))

    def _likeliest(self, x0: Ints, x1: Ints, w: Floats) -> tuple[Floats, Floats]:
        """Return the most likely p0 and p1 at which F is the target, by bisection."""
        low, high = np.maximum(0.0, (self.target - 1 + w) / w), np.minimum(1.0, self.target / w)
        for _ in range(13):
            p0 = (low + high) / 2
            p1 = (self.target - w * p0) / (1 - w)
            with np.errstate(divide="ignore", invalid="ignore"):
                rise = (x0 - self.n0 * p0) / (p0 * (1 - p0))
                rise -= w / (1 - w) * (x1 - self.n1 * p1) / (p1 * (1 - p1))
            low, high = np.where(rise > 0, p0, low), np.where(rise > 0, high, p0)
        p0 = (low + high) / 2
        return p0, np.clip((self.target - w * p0) / (1 - w), 0.0, 1.0)

    def _at_distance(self, cutoff: float) -> Ints:
        """Return k for all X0 and bins: the least X1 that is far enough from the target.

        It decreases with X0 and increases with N0. Bisection asks at places that do not depend on the cutoff
        or on N0, and a larger cutoff leads to the upper half at each of them. So k increases with the cutoff,
        whether or not the distance increases with X1.
        """
        some = np.linspace(0, self.n0, min(self.n0, _MOST_HITS) + 1).astype(int)
        low = np.full((len(some), len(self.shares)), -1)
        high = np.full_like(low, self.n1 + 1)
        while (high - low).max() > 1:
            rows, bins = np.nonzero(high - low > 1)
            middle = (low[rows, bins] + high[rows, bins]) // 2
            far = self._distance(some[rows], middle, self.shares[bins]) >= cutoff
            high[rows[far], bins[far]], low[rows[~far], bins[~far]] = middle[far], middle[~far]
        found = np.maximum.accumulate(np.minimum.accumulate(high, axis=0), axis=1)
        every = np.arange(self.n0 + 1)
        lines = [np.ceil(np.interp(every, some, each) - 1e-9) for each in found.T]
        return np.stack(lines, axis=1).astype(int)

    def _chance(self, k: Ints) -> float:
        """Return a bound of the probability that the test passes, over all p0, p1 and w that miss the target.

        In each cell: p0 and p1 at their upper ends, and the smallest w at which their lower ends miss it.
        """
        for start in sorted(self._worst, key=self._worst.__getitem__, reverse=True):
            self._worst[start] = self._worst_of(k, slice(start, start + _ROWS))
            if self._worst[start] > self.delta:
                return self._worst[start] + self._beyond + _LEFT_OUT
        return max(self._worst.values()) + self._beyond + _LEFT_OUT

    def _worst_of(self, k: Ints, rows: slice) -> float:
        """Return the largest bound in some rows of cells."""
        worst, null, columns = 0.0, self._null[rows], np.flatnonzero(self._null[rows].any(axis=0))
        if not len(columns):
            return worst
        likely = np.flatnonzero(self._outside[rows].max(axis=0) > _NEGLIGIBLE)
        some = slice(likely[0], likely[-1] + 1)
        outside, below = self._outside[rows, some], k[some] - self._least
        width = max(_PRODUCT_MAX // outside.size, 1)
        for first in range(columns[0], columns[-1] + 1, width):
            tile = slice(first, min(first + width, columns[-1] + 1))
            which = self._which[rows, tile]
            chances, total = self._chances[:, which.min() : which.max() + 1], np.zeros(which.shape)
            for b in np.flatnonzero(chances.max(axis=1) > _NEGLIGIBLE):
                total += (outside @ self._inside[below[:, b], tile]) * self._chances[b].take(which)
            worst = max(worst, float(np.where(null[:, tile], total, 0.0).max()))
        return worst

    def table(self) -> Ints:
        """Return k for all X0 and bins, with the least cutoff found at which the bound is at most delta."""
        from scipy.special import ndtri

        goal = -float(ndtri(self.delta))
        low, high, cutoff = 0.0, 12.0, max(goal + 0.05, _CLOSE)
        best = last = np.full((self.n0 + 1, len(self.shares)), self.n1 + 1)
        chance, bins = 0.0, self._chances.max(axis=1) > _NEGLIGIBLE
        while high - low > _CLOSE:
            k = self._at_distance(cutoff)
            if (k != last)[:, bins].any():
                chance, last = self._chance(k), k
            if chance <= self.delta:
                high, best = cutoff, k
            else:
                low = cutoff
            # As if the distance were normal; else by halves.
            cutoff += goal + float(ndtri(min(max(chance, 1e-9), 1 - 1e-9)))
            cutoff += _CLOSE / 2 * (chance > self.delta)
            if not low + _CLOSE / 4 < cutoff < high - _CLOSE / 4:
                cutoff = (low + high) / 2
        return best
