"""The betting test ("pac"): the cheapest promise known for any noise matrix.

Whether F^c(q) reaches 1 - alpha is tested threshold by threshold, on a grid that does not depend on the
calibration data, from the largest downwards until the first failure. Because F^c is monotone, no price is
paid for testing many thresholds. The test bets on the points one after the other, in an order shuffled by a
preset seed: under "F^c(q) < 1 - alpha" the wealth is a nonnegative supermartingale, so it reaches 1/delta
with probability at most delta (Ville). The theorem and its proof: docs/guarantees.md, T1 and T3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nacp import engine
from nacp._types import Ints
from nacp.coverage.curve import Curve
from nacp.coverage.sample import Sample
from nacp.guarantees.base import Finding, Problem
from nacp.guarantees.pointwise import PointwiseTest, Test
from nacp.stats.betting import Bets
from nacp.stats.counts import binomial_excess, binomial_needed

if TYPE_CHECKING:
    from nacp.audit.checked_sample import CheckedSample

_AT_ONCE = 1 << 17  # so many shares are computed at once
_FEWEST_ROWS = 32  # but of so many rows at the least


@dataclass(frozen=True)
class PAC(PointwiseTest):
    """For a fraction 1 - delta of calibration sets, clean coverage is at least 1 - alpha; any noise model.

    Costs about ``z_{1-delta} sd(g) / sqrt(n)`` of coverage, half of what `NACP` takes for uniform noise; g is
    one point's share in the estimate. Needs ``crossing="last"``. The points are shuffled by `random_state`.
    The proof: docs/guarantees.md, T1 and T3.

    Parameters
    ----------
    delta : float, default=0.05
        The probability, over the calibration set, with which the promise may fail.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=4000)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 100, random_state=0)
    >>> pac, paper = (
    ...     nacp.calibrate(probs, noisy, noise=0.2, guarantee=g, delta=0.01) for g in ("pac", "nacp")
    ... )
    >>> pac.threshold < paper.threshold
    True
    """

    name: ClassVar[str] = "pac"
    takes_radius: ClassVar[bool] = True
    takes_checked: ClassVar[bool] = True
    takes_several: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True
    needs_points: ClassVar[bool] = True

    def find_checked(self, sample: "CheckedSample", alphas: Sequence[float]) -> list[Finding]:
        """Return the smallest threshold from which on upwards all exact tests on checked labels pass."""
        return sample.tested(alphas, self.delta)

    def failures(self, tests: Sequence[Test], sample: Sample | None, seed: int) -> list[int]:
        """Bet at all thresholds on the points, one point after the other."""
        assert sample is not None  # it needs_points
        bets = [*map(_bets, tests, repeat(self.delta))]
        order, seen = sample.shuffled(seed), 0
        while seen < sample.n:
            # The thresholds at which bets are open, by curve.
            wanted: dict[Curve, Ints] = {}
            for test, each in zip(tests, bets, strict=True):
                if len(each.open):
                    cells, curve = test.cells[each.open], test.curve
                    wanted[curve] = np.union1d(wanted[curve], cells) if curve in wanted else cells
            if not wanted:
                break
            number = max(_FEWEST_ROWS, _AT_ONCE // sum(map(len, wanted.values())))
            rows, seen = order[seen : seen + number], seen + number
            shares = dict(zip(wanted, sample.shares(list(wanted.items()), rows), strict=True))
            for test, each in zip(tests, bets, strict=True):
                if len(each.open):
                    each.play(shares[test.curve], np.searchsorted(wanted[test.curve], test.cells[each.open]))
        failed = []
        for each in bets:
            failed.append(each.failed)
        return failed

    def excess_checked(self, m: int, alpha: float) -> float:
        return binomial_excess(m, alpha, self.delta)

    def checked_needed(self, excess: float, alpha: float) -> int | None:
        return binomial_needed(excess, alpha, self.delta)


def _bets(test: Test, delta: float) -> Bets:
    """Return bets that coverage reaches 1 - alpha at the thresholds of a test."""
    problem, curve = Problem.of(test.curve, test.alpha), test.curve
    least, most = problem.range
    least -= curve.shift
    target = 1 - test.alpha if problem.members is None else 0.0
    width = most - least
    return Bets(len(test.cells), curve.tally.n, delta, target, width, 0.99 * width / -least, engine.bet)
