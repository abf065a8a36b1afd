"""The binomial test: exact for uniform noise, in no order, and sharpened by unlabelled points.

Under uniform noise ``F^n = (1 - epsilon) F^c + epsilon F^r``. If F^c(q) < 1 - alpha, the number of noisy
labels in the sets is stochastically smaller than a binomial with ``p0 = (1 - epsilon)(1 - alpha) + epsilon
U``, where U bounds F^r(q), the mean share of classes in a set, from above. F^r needs no labels. The theorem
and its proof: docs/guarantees.md, T1 and T2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.coverage import Coverage, Talk, together
from nacp.engine.cells import FINE_STEP
from nacp.guarantees.base import Problem
from nacp.guarantees.pointwise import PointwiseTest
from nacp.stats.bounds import bernstein, chernoff, floor, upper_tail

# How many thresholds are looked at in one read; and in a first one, if there are unlabelled points.
_THRESHOLDS, _COARSE_THRESHOLDS = 48, 256


@dataclass(frozen=True)
class Binomial(PointwiseTest):
    """For a fraction 1 - delta of calibration sets, clean coverage is at least 1 - alpha; uniform noise.

    A little dearer than `PAC`, but the order of the points plays no part, and probabilities of *unlabelled*
    points (``calibrate(..., unlabelled=...)``) make it cheaper. Needs ``crossing="last"``.
    The proof: docs/guarantees.md, T1 and T2.

    Parameters
    ----------
    delta : float, default=0.05
        The probability, over the calibration set, with which the promise may fail.
    grid : tuple of float, optional
        The thresholds to test, as in `PAC`.

    Examples
    --------
    >>> import nacp
    >>> nacp.Binomial(delta=0.01).promise(0.1)
    'for at least 99% of calibration sets, coverage of the true label is at least 90%'
    """

    name: ClassVar[str] = "binomial"
    only_uniform: ClassVar[bool] = True
    step: ClassVar[float] = (
        FINE_STEP  # most thresholds are settled without a look, so more of them cost little
    )

    def price(self, problem: Problem, deviation: float) -> float:
        """Return ``z_{1-delta} deviation / sqrt(n)`` at 19/20 of delta, and what the bound U of F^r costs.

        That is ``epsilon (U - F^r)/(1 - epsilon)``, here for sets of one label.
        """
        epsilon, one = problem.epsilon, np.array([1 / problem.k])
        bound = _random_bound(one, one**2, problem.n, self.delta)[0]
        more = epsilon * float(bound - one[0]) / (1 - epsilon)
        return floor(0.95 * self.delta, deviation, problem.n) + more

    def lowest_passing(
        self, coverage: Coverage, problems: Sequence[Problem], grid: Floats, starts: Ints, seed: int
    ) -> Talk[Ints]:
        """Return for each problem the place in the grid from which on upwards all p-values are small."""
        searches = [
            self._lowest(coverage, problem, grid, start)
            for problem, start in zip(problems, starts.tolist(), strict=True)
        ]
        found = yield from together(searches)
        return np.array(found, dtype=np.int64)

    def _lowest(self, coverage: Coverage, problem: Problem, grid: Floats, start: int) -> Talk[int]:
        hits = coverage.labels_upto(grid)
        extra = coverage.sample.unlabelled
        points = coverage.n + (0 if extra is None else extra.n)
        epsilon, part = problem.epsilon, self.delta / 40  # of delta, for each of the two bounds of F^r

        def passes(places: Ints, bound: Array) -> Bools:
            p0 = (1 - epsilon) * (1 - problem.alpha) + epsilon * bound
            return upper_tail(problem.n, hits[places], p0) <= 0.95 * self.delta

        failed, places = start - 1, np.arange(start, len(grid))

        def settle(places: Ints, failed: int, least: Floats, most: Floats) -> tuple[Ints, int]:
            """Return the last place that fails for sure, and those above it that do not pass for sure."""
            failed = int(places[~passes(places, least)].max(initial=failed))
            return places[~passes(places, chernoff(most, points, part)) & (places > failed)], failed

        # F^r-hat lies between its values at the ends of a cell, so most thresholds are settled without a
        # look; and where a cell holds many of them, or unlabelled points count too, by a look at a few.
        if extra is None:
            places, failed = settle(places, failed, *coverage.random_between(grid[places]))
        if len(places) > _COARSE_THRESHOLDS:
            coarse = grid[places[:: -(len(places) // _COARSE_THRESHOLDS)]][::-1]
            mean, _ = yield from coverage.sizes(coarse)
            known = np.append(0.0, mean)
            below, above = (np.searchsorted(coarse, grid[places], side=side) for side in ("right", "left"))
            places, failed = settle(places, failed, known[below], known[above + 1])
        while len(places):
            places, some = places[:-_THRESHOLDS], places[-_THRESHOLDS:]
            mean, square = yield from coverage.sizes(grid[some])
            failing = some[~passes(some, _random_bound(mean, square, points, self.delta))]
            if len(failing):
                return int(failing[-1]) + 1
        return failed + 1


def _random_bound(mean: Floats, square: Floats, points: int, delta: float) -> Floats:
    """Return U, from the mean share of all classes in a set and that of its square: fails with delta/20."""
    return np.minimum(chernoff(mean, points, delta / 40), bernstein(mean, square, points, delta / 40))
