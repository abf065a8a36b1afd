"""The binomial test: exact for uniform noise. It needs no order of the points and can use unlabelled ones.

Under uniform noise ``F^n = (1 - epsilon) F^c + epsilon F^r``. If F^c(q) < 1 - alpha, the number of noisy
labels in the sets is stochastically smaller than a binomial with ``p0 = (1 - epsilon)(1 - alpha) + epsilon
U``, where U bounds F^r(q), the mean share of classes in a set, from above. F^r needs no labels. The theorem
and its proof: docs/guarantees.md, T1 and T2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nacp._types import Floats
from nacp.coverage.tally import Sample
from nacp.guarantees.base import Problem
from nacp.guarantees.pointwise import PointwiseTest, Test
from nacp.stats.bounds import bernstein, chernoff, floor, upper_tail


@dataclass(frozen=True)
class Binomial(PointwiseTest):
    """For a fraction 1 - delta of calibration sets, clean coverage is at least 1 - alpha; uniform noise.

    The sets are slightly larger than with `PAC`, but the order of the points does not matter, and the
    probabilities of points without labels (``calibrate(..., unlabelled=...)``) reduce the excess. Requires
    ``crossing="last"``. Proof: docs/guarantees.md, T1 and T2.

    Parameters
    ----------
    delta : float, default=0.05
        The probability, over the calibration set, with which the promise may fail.

    Examples
    --------
    >>> import nacp
    >>> nacp.Binomial(delta=0.01).promise(0.1)
    'for at least 99% of calibration sets, coverage of the true label is at least 90%'
    """

    name: ClassVar[str] = "binomial"
    only_uniform: ClassVar[bool] = True
    needs_squares: ClassVar[bool] = True
    takes_unlabelled: ClassVar[bool] = True

    def excess(self, problem: Problem, deviation: float) -> float:
        """Return ``z_{1-delta} deviation / sqrt(n)`` at 19/20 of delta, plus the excess due to the bound U.

        The latter is ``epsilon (U - F^r)/(1 - epsilon)``, computed for sets of one label.
        """
        epsilon, one = problem.epsilon, np.array([1 / problem.k])
        bound = _random_bound(one, one**2, problem.n, self.delta)[0]
        more = epsilon * float(bound - one[0]) / (1 - epsilon)
        return floor(0.95 * self.delta, deviation, problem.n) + more

    def failures(self, tests: Sequence[Test], sample: Sample | None, seed: int) -> list[int]:
        """Compare the number of noisy labels in the sets with its distribution if coverage were too small."""
        return [self._last_failure(test) for test in tests]

    def _last_failure(self, test: Test) -> int:
        curve, epsilon = test.curve, Problem.of(test.curve, test.alpha).epsilon
        mean, square, points = curve.moments(test.cells)
        p0 = (1 - epsilon) * (1 - test.alpha) + epsilon * _random_bound(mean, square, points, self.delta)
        hits = curve.at(test.cells, np.cumsum(curve.tally.hits)).astype(np.int64)
        failed = np.flatnonzero(upper_tail(curve.tally.n, hits, p0) > 0.95 * self.delta)
        return int(failed[-1]) if len(failed) else -1


def _random_bound(mean: Floats, square: Floats, points: int, delta: float) -> Floats:
    """Return U, from the means of F^r and of its square; the bound fails with probability delta/20."""
    return np.minimum(chernoff(mean, points, delta / 40), bernstein(mean, square, points, delta / 40))
