"""Exact intervals: those of Clopper and Pearson, and the distributions that they rest on."""

import numpy as np
import pytest
from scipy import stats

from nacp.stats.intervals import exact_interval, exact_share, sum_distribution


@pytest.mark.parametrize(("count", "n"), [(0, 20), (7, 20), (20, 20), (300, 2000)])
@pytest.mark.parametrize("confidence", [0.9, 0.999])
def test_of_a_binomial_count_the_interval_is_that_of_clopper_and_pearson(count, n, confidence):
    found = exact_interval(count, lambda p: [(np.array([1 - p, p]), n)], confidence)
    expected = stats.binomtest(count, n).proportion_ci(confidence, method="exact")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_shares_have_the_interval_of_clopper_and_pearson_each():
    hits, trials = np.array([0, 1, 7, 20, 300, 0]), np.array([20, 20, 20, 20, 2000, 0])
    low, high = exact_share(hits, trials, 0.025)
    ends = [
        stats.binomtest(*of).proportion_ci(0.95, method="exact")
        for of in zip(hits[:-1], trials[:-1], strict=True)
    ]
    np.testing.assert_allclose(np.stack([low, high], axis=1)[:-1], ends, rtol=0, atol=1e-12)
    assert np.isnan([low[-1], high[-1]]).all()


def test_the_distribution_of_a_sum_is_the_convolution():
    kinds = [(np.array([0.5, 0.2, 0.3]), 3), (np.array([0.9, 0.1]), 4)]
    expected = np.ones(1)
    for one, number in kinds:
        for _ in range(number):
            expected = np.convolve(expected, one)
    np.testing.assert_allclose(sum_distribution(kinds), expected, rtol=0, atol=1e-14)


def test_a_count_that_no_parameter_explains_has_the_nearest_one():
    def halved(p):  # a point counts with probability p / 2
        return [(np.array([1 - p / 2, p / 2]), 20)]

    assert exact_interval(20, halved, 0.9) == (1.0, 1.0)
    low, high = exact_interval(8, halved, 0.9)
    expected = stats.binomtest(8, 20).proportion_ci(0.9, method="exact")
    assert (low, high) == pytest.approx((2 * expected.low, 1.0), abs=1e-8)
    assert exact_interval(0, halved, 0.9)[0] == 0
