"""The integral of Bernstein's tail bound, against numerical integration."""

import math

import pytest
from scipy.integrate import quad

from nacp.stats.tails import bernstein_excess


@pytest.mark.parametrize("n", [20, 1_000, 10**6])
@pytest.mark.parametrize(("variance", "width"), [(0.09, 1.0), (1e-4, 1.0), (2.0, 0.5), (0.01, 40.0)])
def test_the_excess_is_the_integral_of_the_tail_bound_and_no_smaller(n, variance, width):
    spread = math.sqrt(variance / n) + width / n

    def tail(d):
        return math.exp(-n * d**2 / (2 * (variance + d * width / 3)))

    pieces = [(0, spread), (spread, 10 * spread), (10 * spread, 200 * spread)]
    integral = sum(quad(tail, *piece, epsabs=0, epsrel=1e-9)[0] for piece in pieces)
    assert integral <= bernstein_excess(n, variance, width) <= 1.01 * integral
