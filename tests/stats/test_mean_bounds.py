"""Bounds of means: by definition, by symmetry, and as they were computed before."""

import math

import numpy as np
import pytest

from nacp.stats.betting import mean_interval
from nacp.stats.bounds import bernstein
from nacp.stats.tails import bounded_excess


@pytest.mark.parametrize("ends", [(0, 1), (-0.5, 1.5), (-2, 1)])
@pytest.mark.parametrize("n", [1, 30, 200])
def test_the_interval_of_1_minus_a_mean_is_the_mirrored_one(n, ends):
    values = np.random.default_rng(n).integers(65, size=n) / 64
    low, high = mean_interval(values, *ends, 0.05)
    assert mean_interval(1 - values, 1 - ends[1], 1 - ends[0], 0.05) == (1 - high, 1 - low)
    assert 0 <= low <= values.mean() <= high <= 1
    assert (high - low < 0.12) == (n == 200)


@pytest.mark.parametrize("n", [1, 2, 50])
def test_the_empirical_bernstein_bound_is_that_of_maurer_and_pontil(n):
    values, delta = np.random.default_rng(0).random(n), 0.1
    found = bernstein(np.array([values.mean()]), np.array([(values**2).mean()]), n, delta)
    log, expected = math.log(2 / delta), 1.0
    if n > 1:
        expected = values.mean() + math.sqrt(2 * values.var(ddof=1) * log / n) + 7 * log / (3 * (n - 1))
    np.testing.assert_allclose(found, [expected], rtol=1e-12)


def test_the_worst_case_excess_is_what_it_was():
    """Its definition is an integral that is bounded from above by a sum."""
    found = [bounded_excess(*each) for each in ((50, 0, 1, 0.8), (1000, -0.2, 1.1, 0.9), (100, -1, 2, 0.5))]
    np.testing.assert_allclose(found, [0.0690308, 0.0167000, 0.180018], rtol=1e-5)
    assert bounded_excess(20, 0, 1, 0.99) == math.inf
