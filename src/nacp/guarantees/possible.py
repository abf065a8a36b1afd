"""Which groups of points can pass a test at all: of thousands of small ones, few have to be looked at.

A test passes at a threshold only if it passes at all larger ones of its grid, so at the largest. What a group
can win there at the most is known from the shares of its points.
"""

import math
from collections.abc import Sequence

import numpy as np

from nacp._types import Bools, Floats, Ints
from nacp.coverage import Coverage, Sample, Talk
from nacp.coverage.questions import SharesQuestion
from nacp.guarantees.base import Guarantee, Problem
from nacp.guarantees.binomial import Binomial
from nacp.guarantees.finding import coverage_under
from nacp.guarantees.pac import PAC
from nacp.noise import Noise, UniformNoise
from nacp.stats.bounds import upper_tail

# It takes a read, which is not worth it for fewer groups.
_MANY = 50
_ROUNDING = 1e-9


def fewest(guarantee: Guarantee, noise: Noise | None, k: int, alphas: Sequence[float]) -> int:
    """Return with how many points a group of rows may pass at all.

    With fewer, "pac" cannot win a bet, and "binomial" finds nothing unlikely even where all labels are hits.

    Examples
    --------
    >>> import nacp
    >>> from nacp.guarantees.possible import fewest
    >>> fewest(nacp.PAC(0.05), None, 10, [0.1])
    29
    """
    if isinstance(guarantee, Binomial) and noise is not None:
        rate = max(1 - 1 / end.inverse(k).own.max() for end in noise.doubt.ends)
        return max(1, math.ceil(math.log(guarantee.delta) / math.log((1 - rate) * (1 - max(alphas)))))
    if not isinstance(guarantee, PAC):
        return 1
    low, high = (UniformNoise(0.0) if noise is None else noise.doubt.ends[0]).inverse(k).subset_range()
    most = max(math.log1p(0.99 * (high - (1 - alpha)) / (1 - alpha - low)) for alpha in alphas)
    return max(1, math.ceil(math.log(1 / guarantee.delta) / most))


def may_pass(
    sample: Sample,
    guarantee: Guarantee,
    noise: Noise | None,
    alphas: Sequence[float],
    places: Ints,
    number: int,
) -> Talk[Bools]:
    """Return which groups of rows may pass at one of the alphas; `places` has the group of each row."""
    sizes = np.bincount(places, minlength=number)
    may: Bools = sizes >= fewest(guarantee, noise, sample.k, alphas)
    if np.count_nonzero(may) < _MANY or not isinstance(guarantee, PAC | Binomial):
        return may
    end = None if noise is None else noise.doubt.ends[0]
    coverage, top = coverage_under(sample, end), guarantee.thresholds(sample.score)[-1:]
    question = SharesQuestion(coverage, top)
    yield [question]
    shares = np.concatenate(question.found)[:, 0]
    if isinstance(guarantee, PAC):
        return may & _may_win(coverage, guarantee.delta, alphas, shares, places, number)
    some, hits = np.flatnonzero(may), np.bincount(places[sample.label_scores <= top[0]], minlength=number)
    # F^r-hat, from F^c-hat and F^n-hat; what the test puts in its place is no less.
    rate = Problem(0.1, sample.n, end, coverage.inverse, sample.class_counts).epsilon
    random = (hits - (1 - rate) * np.bincount(places, shares, number))[some] / (
        max(rate, _ROUNDING) * sizes[some]
    )
    found = np.zeros(len(some), dtype=bool)
    for alpha in alphas:
        least = (1 - rate) * (1 - alpha) + rate * (np.clip(random, 0, 1) - _ROUNDING)
        found |= upper_tail(sizes[some], hits[some], least) <= 0.95 * guarantee.delta + _ROUNDING
    may[some] = found
    return may


def _may_win(
    coverage: Coverage, delta: float, alphas: Sequence[float], shares: Floats, places: Ints, number: int
) -> Bools:
    """Return which groups win enough if the stake is the largest where they gain, and 0 where they lose."""
    found = np.zeros(number, dtype=bool)
    for alpha in alphas:
        gains = np.log1p(0.99 * np.maximum(shares - (1 - alpha), 0) / (1 - alpha - coverage.range[0]))
        found |= np.bincount(places, gains, number) >= math.log(1 / delta) - _ROUNDING
    return found
