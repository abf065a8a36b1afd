"""The exact binomial test: its excess coverage, and the labels needed for an excess."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from nacp.stats.counts import allowed_misses, binomial_excess, binomial_needed


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.3, 0.45])
@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.4])
def test_the_exact_cost_and_the_least_number_are_those_of_every_m_in_turn(alpha, delta):
    sizes, misses, excess = np.arange(1, 3000), -1, []
    for m in sizes:
        # One label more never lets fewer misses pass.
        while binom.cdf(misses + 1, m, alpha) <= delta:
            misses += 1
        excess.append(alpha if misses < 0 else (m - misses) / (m + 1) - (1 - alpha))
        if m in (1, 2, 30, 59, 100, 777, 2999):
            assert allowed_misses(m, alpha, delta) == misses
            assert binomial_excess(m, alpha, delta) == excess[-1]
    for wanted in np.geomspace(excess[-1] + 2 / 3000, 0.99 * alpha, 12):
        first = int(sizes[np.array(excess) <= wanted + 1e-12][0])
        assert binomial_needed(float(wanted), alpha, delta) == first


def test_the_exact_cost_is_what_the_binomial_test_costs():
    """Uniform scores: coverage of a threshold is the threshold itself."""
    rng = np.random.default_rng(0)
    for m, alpha, delta in ((60, 0.1, 0.1), (300, 0.1, 0.05), (100, 0.3, 0.01)):
        rank = m - allowed_misses(m, alpha, delta)
        covered = np.sort(rng.random((4000, m)), axis=1)[:, rank - 1]
        error = covered.std() / math.sqrt(4000)
        assert abs(covered.mean() - (1 - alpha) - binomial_excess(m, alpha, delta)) <= 4 * error
        short = (covered < 1 - alpha).mean()
        assert short <= delta + 4 * math.sqrt(delta / 4000)


def test_a_huge_number_is_found_at_once():
    """About (z / excess)^2 alpha (1 - alpha)."""
    needed = binomial_needed(1e-5, 0.1, 0.05)
    assert needed == pytest.approx((1.6448536 / 1e-5) ** 2 * 0.09, rel=1e-3)
