"""The betting test ("pac"): the promise for any noise matrix with the smallest excess known.

The hypothesis F^c(q) < 1 - alpha is tested at thresholds of a grid that does not depend on the calibration
data, from the largest downwards until the first failure. Because F^c is monotone, testing many thresholds
needs no correction. The test bets on the points one after the other, in an order shuffled by a preset seed:
under the hypothesis the wealth is a nonnegative supermartingale, so it reaches 1/delta with probability at
most delta (Ville). Theorem and proof: docs/guarantees.md, T1 and T3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.coverage.curve import Block, Curve
from nacp.coverage.tally import Sample
from nacp.guarantees.base import Finding, Problem
from nacp.guarantees.pointwise import PointwiseTest, Test
from nacp.stats.betting import Bets
from nacp.stats.counts import binomial_excess, binomial_needed

if TYPE_CHECKING:
    from nacp.audit.checked_sample import CheckedSample

_BATCH_SHARES = 1 << 16  # the number of shares in one batch
_BATCH_ROWS_MIN = 32


@dataclass(frozen=True)
class PAC(PointwiseTest):
    """For a fraction 1 - delta of calibration sets, clean coverage is at least 1 - alpha; any noise model.

    The excess is about ``z_{1-delta} sd(g) / sqrt(n)``, where g is one point's share in the estimate: half of
    the excess of `NACP` for uniform noise. Requires ``crossing="last"``. `random_state` determines the order
    of the points. Proof: docs/guarantees.md, T1 and T3.

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
    covers_rates: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True
    needs_points: ClassVar[bool] = True

    def find_checked(self, sample: "CheckedSample", alphas: Sequence[float]) -> list[Finding]:
        """Return the smallest threshold at and above which all exact tests on checked labels pass."""
        return sample.tested(alphas, self.delta)

    def failures(self, tests: Sequence[Test], sample: Sample | None, seed: int) -> list[int]:
        """Bet on the points at all thresholds, one point after the other."""
        assert sample is not None  # because of `needs_points`
        bets = [*map(_bets, tests, repeat(self.delta))]
        order, seen = sample.shuffled(seed), 0
        while seen < sample.n:
            # The thresholds with open bets, by curve.
            wanted: dict[Curve, Ints] = {}
            for test, each in zip(tests, bets, strict=True):
                if len(each.open):
                    cells, curve = test.cells[each.open], test.curve
                    wanted[curve] = np.union1d(wanted[curve], cells) if curve in wanted else cells
            if not wanted:
                break
            number = max(_BATCH_ROWS_MIN, _BATCH_SHARES // sum(map(len, wanted.values())))
            rows, seen = order[seen : seen + number], seen + number
            blocks = zip(*sample.rows.map(partial(_shares, sample, wanted), rows), strict=True)
            shares = dict(zip(wanted, map(_joined, blocks), strict=True))
            for test, each in zip(tests, bets, strict=True):
                if len(each.open):
                    found, cells = shares[test.curve], test.cells[each.open]
                    if len(cells) < found.shape[1]:
                        found = found[:, np.searchsorted(wanted[test.curve], cells)]
                    each.play(found)
        return [each.failed for each in bets]

    def excess_checked(self, m: int, alpha: float) -> float:
        return binomial_excess(m, alpha, self.delta)

    def checked_needed(self, excess: float, alpha: float) -> int | None:
        return binomial_needed(excess, alpha, self.delta)


def _joined(blocks: Sequence[Floats]) -> Floats:
    """Return blocks one below the other; a single one is not copied."""
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _shares(sample: Sample, wanted: dict[Curve, Ints], values: Array, where: Ints) -> list[Floats]:
    """Return the shares of some rows under each curve, at its thresholds."""
    block = Block(sample, values, where)
    return [curve.shares(block, cells) for curve, cells in wanted.items()]


def _bets(test: Test, delta: float) -> Bets:
    """Return bets that coverage reaches 1 - alpha at the thresholds of a test."""
    problem, curve = Problem.of(test.curve, test.alpha), test.curve
    least, most = problem.range
    # The true rate may be larger by a step: a share, scaled so that it is affine in the rate, is then smaller
    # by at most this (docs/guarantees.md, N4).
    less = curve.rate_step * test.alpha * float(curve.weights.own[0])
    least -= curve.shift + less
    target = less + (1 - test.alpha if problem.members is None else 0.0)
    width = most - least
    return Bets(
        len(test.cells), curve.tally.n, delta, target, width, 0.99 * width / -least, engine.current().bet
    )
