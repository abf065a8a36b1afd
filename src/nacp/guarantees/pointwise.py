"""Guarantees that test thresholds one by one, from the largest down (docs/guarantees.md, T1).

Because F^c is monotone, testing many thresholds needs no correction, provided that they are from a grid that
does not depend on the calibration data.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar

import numpy as np

from nacp._types import Ints
from nacp.checks import check_fraction, set_checked
from nacp.coverage.curve import Curve, Rule
from nacp.coverage.grid import INFINITE, TESTED
from nacp.coverage.tally import Sample
from nacp.guarantees.base import Finding, Guarantee, Problem, found_at, nearly_always, with_deviation
from nacp.stats.bounds import floor
from nacp.wrapping import counted


@dataclass(frozen=True)
class Test:
    """The thresholds to test for one curve and one alpha: places in the grid, ascending.

    Of several thresholds with the same sets, only the last one is tested.
    """

    curve: Curve
    alpha: float
    first: int  # the place of the smallest threshold in TESTED
    cells: Ints

    @classmethod
    def of(cls, curve: Curve, alpha: float, delta: float) -> "Test":
        """Return the thresholds that can pass the test.

        A threshold is skipped if its estimate exceeds 1 - alpha by less than half of the excess that a test
        needs at least. Skipping a threshold never violates the promise.
        """
        likely = floor(delta, Problem.of(curve, alpha).deviation, curve.tally.n) / 2
        least = curve.crossing(1 - alpha + likely, "last")
        first = int(np.searchsorted(TESTED, least))
        if first == len(TESTED):
            return cls(curve, alpha, first, TESTED[first:])
        upto = np.searchsorted(curve.tally.cells, TESTED[first:], side="right")
        return cls(curve, alpha, first, TESTED[first:][np.append(upto[1:] > upto[:-1], True)])


@dataclass(frozen=True)
class PointwiseTest(Guarantee):
    """For a fraction 1 - delta of calibration sets, clean coverage is at least 1 - alpha.

    A subclass implements `failures`.
    """

    delta: float = 0.05
    takes_interval: ClassVar[bool] = True
    needs_last: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_checked(self, delta=check_fraction("delta", self.delta))

    def promise(self, alpha: float) -> str:
        """Return the promise in one sentence."""
        return nearly_always(self.delta, alpha)

    def excess(self, problem: Problem, deviation: float) -> float:
        """Return ``z_{1-delta} deviation / sqrt(n)``, which approximates the excess of the test."""
        return floor(self.delta, deviation, problem.n)

    @abstractmethod
    def failures(self, tests: Sequence[Test], sample: Sample | None, seed: int) -> list[int]:
        """Return for each test the index of its last threshold that fails; -1 if all pass."""

    def find(
        self,
        curves: Sequence[Curve],
        alphas: Sequence[float],
        crossing: Rule,
        sample: Sample | None = None,
        seed: int = 0,
    ) -> list[Finding]:
        """Return the smallest threshold of the grid at and above which all tests pass."""
        tests = list(map(Test.of, curves, alphas, repeat(self.delta)))
        found = list(map(self._settle, tests, self.failures(tests, sample, seed)))
        return list(map(with_deviation, found, curves, repeat(sample)))

    def _settle(self, test: Test, failed: int) -> Finding:
        """Return the threshold above the last failure; infinite if its sets hold all classes."""
        curve, place = test.curve, test.first
        if failed >= 0:
            place = int(np.searchsorted(TESTED, test.cells[failed], side="right"))
        above = TESTED[place : place + 1]
        if len(above) and above[0] < curve.tally.cells[-1]:
            return found_at(curve, int(above[0]), 0.0, "")
        problem = Problem.of(curve, test.alpha)
        of_classes = problem.members is not None
        needed = self.points_needed(curve.noise, curve.tally.k, test.alpha, of_classes=of_classes)
        advice = "no number of points would do" if needed is None else f"about {needed:,} points should do"
        if needed is not None and needed <= curve.points:
            advice += ": check the order of labels and rows, and whether the classifier is better than chance"
        points = counted(curve.points, "label" if of_classes else "point")
        why = f'with {points} no smaller sets pass the test of guarantee "{self.name}"; {advice}'
        return found_at(curve, INFINITE, 0.0, why)._replace(deviation=0.0)
