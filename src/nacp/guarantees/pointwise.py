"""Guarantees that test thresholds one by one, from the largest down (docs/guarantees.md, T1).

Because F^c is monotone, no price is paid for testing many thresholds, as long as they come from a grid that
does not depend on the calibration data.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np

from nacp._types import Floats, Ints
from nacp.checks import check_fraction, set_checked
from nacp.coverage import Coverage, Rule, Talk
from nacp.engine.cells import EDGES, threshold_grid
from nacp.errors import InputError
from nacp.guarantees.base import Finding, Guarantee, Problem, nearly_always
from nacp.scores import Score
from nacp.stats.bounds import floor
from nacp.wrapping import counted

_COARSE = 0.05


@lru_cache(maxsize=16)
def edge_grid(low: float, high: float) -> Floats:
    """Return the native thresholds that are tested for groups of classes, ascending: some edges of cells.

    Every fourth, which differ by 1.6 to 3.2% of their distance from 0 or from 1, whichever is nearest; and
    every 32nd where that is below a thousandth. So where scores lie is known without a comparison.

    Examples
    --------
    >>> from nacp.guarantees.pointwise import edge_grid
    >>> len(edge_grid(-1.0, 0.0)) < 600
    True
    """
    place = np.flatnonzero((low < EDGES) & (high > EDGES))
    near = np.minimum(np.abs(EDGES[place]), np.abs(1 - EDGES[place]))
    grid: Floats = EDGES[place[place % np.where(near < 2.0**-10, 32, 4) == 0]]
    grid.flags.writeable = False
    return grid


@dataclass(frozen=True)
class PointwiseTest(Guarantee):
    """For a fraction 1 - delta of calibration sets, clean coverage is at least 1 - alpha.

    A subclass writes `lowest_passing`, and may want a finer grid.
    """

    delta: float = 0.05
    grid: tuple[float, ...] | None = field(default=None, repr=False)
    step: ClassVar[float] = 0.005
    takes_interval: ClassVar[bool] = True
    needs_last: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_checked(self, delta=check_fraction("delta", self.delta))
        if self.grid is None:
            return
        try:
            points = np.unique(np.asarray(self.grid, dtype=np.float64))
        except (TypeError, ValueError):
            points = np.empty(0)
        if np.ndim(self.grid) != 1 or not len(points) or not np.isfinite(points).all():
            raise InputError("grid", "must be one or more finite numbers in a row", found=repr(self.grid))
        set_checked(self, grid=tuple(points.tolist()))

    def promise(self, alpha: float) -> str:
        """Return in one sentence what holds for the sets."""
        return nearly_always(self.delta, alpha)

    def price(self, problem: Problem, deviation: float) -> float:
        """Return ``z_{1-delta} deviation / sqrt(n)``, which the test comes close to."""
        return floor(self.delta, deviation, problem.n)

    def thresholds(self, score: Score) -> Floats:
        """Return the native thresholds that are tested, ascending."""
        if self.grid is not None:
            return score.to_native(np.array(self.grid))
        return threshold_grid(*score.span, self.step)

    @abstractmethod
    def lowest_passing(
        self, coverage: Coverage, problems: Sequence[Problem], grid: Floats, starts: Ints, seed: int
    ) -> Talk[Ints]:
        """Return for each problem the place in the ascending grid from which on upwards all pass the test.

        Places before `starts`, which has one for each problem, have failed; the answer may be the end.
        """

    def find(
        self, coverage: Coverage, problems: Sequence[Problem], crossing: Rule, seed: int
    ) -> Talk[list[Finding]]:
        """Return the smallest threshold of the grid from which on upwards all pass."""
        grid = coverage.testable(self.thresholds(coverage.sample.score))
        # Where not even the estimate reaches 1 - alpha, a threshold is given up without a test: always safe.
        least = yield from coverage.crossings([1 - problem.alpha for problem in problems], "last")
        starts = grid.searchsorted([at.threshold for at in least])
        places = yield from self.lowest_passing(coverage, problems, grid, starts, seed)
        before, thresholds = grid[np.maximum(places - 1, 0)], grid[np.minimum(places, len(grid) - 1)]
        estimates, deviations = yield from coverage.at_with_deviations(thresholds)
        below, upto = (coverage.labels_upto(q) * coverage.n // coverage.given for q in (before, thresholds))
        between = np.where(places > 0, upto - below, upto)
        return [
            self._settle(coverage.sample.score, coverage.n, problem, grid, place, *values)
            for problem, place, *values in zip(
                problems,
                places.tolist(),
                between.tolist(),
                estimates.random.tolist(),
                estimates.clean.tolist(),
                deviations,
                strict=True,
            )
        ]

    def _settle(
        self,
        score: Score,
        n: int,
        problem: Problem,
        grid: Floats,
        place: int,
        between: int,
        random: float,
        clean: float,
        deviation: float,
    ) -> Finding:
        """Return the finding for a place in the grid; infinite if it is the end, or sets hold all classes.

        `between` counts the labels from the threshold before it to this one; `random`, `clean` and
        `deviation` are F^r-hat, F^c-hat and the deviation of a share there, or at the last one.
        """
        # Many labels between two thresholds, or true ones above them all: the grid does not suit a score of
        # one's own. It suits ours: there many labels have one score, or a probability of nearly 0.
        ours = self.grid is None and score.span != Score.span
        remedy = f"in Python, pass nacp.{type(self).__name__}(grid=...) with thresholds that suit this score"
        if place < len(grid):
            coarse = between > max(_COARSE * n, 1)
            if random < 1:
                note = f"the thresholds that were tested are coarse here: {remedy}" if coarse else None
                if coarse and ours:
                    note = "many labels have nearly the same score here, so coverage may be more than need be"
                return Finding(float(grid[place]), clean, 0.0, note=note, deviation=deviation)
        else:
            coarse = clean + 3 * deviation / math.sqrt(n) < 1 - problem.alpha / 2
        needed = self.samples_needed(problem, problem.alpha / 2, problem.small_set_deviation)
        advice = (
            "; no number of points would do" if needed is None else f"; about {needed:,} points should do"
        )
        if coarse and ours:
            advice = (
                "; many labels have nearly the same score: do the probabilities tell the classes apart?"
                if place < len(grid)
                else "; many labels have a probability of nearly 0: do labels and rows belong together?"
            )
        elif coarse:
            advice = f", as its thresholds do not suit this score; {remedy}"
        points = counted(problem.n, "point")
        why = f'with {points} no smaller sets pass the test of guarantee "{self.name}"{advice}'
        return Finding(np.inf, 1.0, 0.0, why, deviation=0.0)
