"""NACP for any noise matrix: a correction for all thresholds and all alphas at once (T4)."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import nacp
from nacp.guarantees.nacp import matrix_correction, nacp_correction
from tests.guarantees.problems import NOISES, K, sample

PAIRS = 0.8 * np.eye(4) + 0.2 * np.eye(4)[[1, 0, 3, 2]]


def deviation(delta):
    """The least of the bounds over all A, by definition; times sqrt(n)."""
    a = np.linspace(1.18, 6, 3001)
    return float(np.min(a + math.sqrt(2 * math.pi) * norm.sf(a) / delta) / 2)


@pytest.mark.parametrize("delta", [0.001, 0.05, 0.3])
def test_the_correction_is_the_least_over_all_parts_of_delta(delta):
    low, high = -0.4, 1.6
    parts = np.linspace(0, delta, 100)[1:-1]
    best = min(high * deviation(d) - low * deviation(delta - d) for d in parts)
    assert matrix_correction(900, low, high, delta) == pytest.approx(best / 30, rel=1e-3)


def test_it_is_close_to_the_constant_of_the_paper_and_needs_no_part_of_delta_for_what_is_never_negative():
    assert matrix_correction(100, 0.0, 1.0, 0.05) == pytest.approx(deviation(0.05) / 10, rel=1e-6)
    for rate in (0.1, 0.3):
        found = matrix_correction(5000, -rate / (1 - rate), 1 / (1 - rate), 0.001)
        assert found == pytest.approx(nacp_correction(5000, rate, 0.001), rel=0.03)


def test_the_estimate_exceeds_the_truth_by_more_with_probability_delta_at_most():
    """The largest error over all thresholds, where scores are spread evenly and labels flip in pairs."""
    n, delta, runs = 200, 0.1, 2000
    rng, inverse = np.random.default_rng(0), np.linalg.inv(PAIRS)
    low, high = np.minimum(inverse, 0).sum(axis=1).min(), np.maximum(inverse, 0).sum(axis=1).max()
    correction, grid = matrix_correction(n, low, high, delta), np.linspace(0, 1, 101)
    exceeded = 0
    for _ in range(runs):
        true, scores = rng.integers(4, size=n), rng.random((n, 4))
        noisy = np.where(rng.random(n) < 0.2, true ^ 1, true)
        shares = (inverse[noisy][:, :, None] * (scores[:, :, None] <= grid)).sum(axis=(0, 1)) / n
        exceeded += np.max(shares - grid) > correction  # scores are uniform, so F^c(q) is q
    assert exceeded / runs <= delta + 3 * math.sqrt(delta / runs)


@pytest.mark.parametrize("labels", ["one", "several"])
def test_any_matrix_gets_a_promise_for_nearly_all_calibration_sets(labels):
    noise = NOISES["matrix"]
    probs, true, given = sample(6000, noise)
    if labels == "several":
        given = np.column_stack([given, noise.sample(true, K, random_state=1)])
    cal = nacp.calibrate(probs, given, noise=noise, guarantee="nacp", delta=0.05)
    low, high = noise.range(K)
    assert cal.correction == pytest.approx(matrix_correction(6000, low, high, 0.05))
    assert cal.estimate >= 0.9 + cal.correction
    assert "at least 95% of calibration sets" in cal.promise
