"""Coverage on average: the correction by integrated tails, and where the estimated gap decides."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

import nacp
from nacp.stats.tails import bernstein_excess, bounded_excess


def tail(n, low, high, reached, v):
    """P(mean >= reached) is at most this if the expectation is v: Hoeffding's bound and Bentkus'."""
    a, p = ((each - low) / (high - low) for each in (reached, v))
    if p >= a:
        return 1.0
    kl = a * math.log(a / p) + ((1 - a) * math.log((1 - a) / (1 - p)) if a < 1 else 0.0)
    return min(math.exp(-n * kl), math.e * binom.sf(math.floor(n * a + 1e-9) - 1, n, p))


@pytest.mark.parametrize("n", [60, 1000, 20000])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.25, 1.25), (-0.6, 1.7)])
def test_the_correction_of_the_worst_case_is_its_integral(n, low, high):
    target = 0.7
    found = bounded_excess(n, low, high, target)
    reached = target + found
    spread = (high - low) / math.sqrt(n)
    near = quad(lambda v: tail(n, low, high, reached, v), reached - spread, reached, limit=500)[0]
    far = quad(lambda v: tail(n, low, high, reached, v), max(0.0, reached - 8 * spread), reached - spread)[0]
    # Bentkus' bound jumps with whole hits, of which one moves the target by a width over n.
    assert near + far - 1e-6 <= found <= 1.01 * (near + far) + (high - low) / n


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 0.0045), (0.2, 0.0095), (0.4, 0.0161)])
def test_the_worst_case_adds_what_the_theory_says(rate, expected):
    found = bounded_excess(5000, -rate / (1 - rate), 1 / (1 - rate), 0.9)
    assert found == pytest.approx(expected, rel=0.03)


def test_no_correction_is_finite_with_too_few_points():
    assert bounded_excess(20, 0.0, 1.0, 0.95) == math.inf


@pytest.mark.parametrize(("n", "variance", "width"), [(100, 0.05, 1.0), (10_000, 1.0, 4.0), (50, 1e-3, 3.0)])
def test_the_correction_for_classes_is_the_integral_of_bernsteins_bound(n, variance, width):
    exact = quad(lambda t: math.exp(-n * t**2 / (2 * (variance + t * width / 3))), 0, 1)[0]
    exact += quad(lambda t: math.exp(-n * t**2 / (2 * (variance + t * width / 3))), 1, np.inf)[0]
    assert exact - 1e-9 <= bernstein_excess(n, variance, width) <= 1.03 * exact + 1e-9


# The gap


def two_values(n, rng):
    """Rows that hold two numbers only: half of the labels score .8, the others 1."""
    probs = np.full((n, 10), 0.0)
    order = rng.permuted(np.tile(np.arange(10), (n, 1)), axis=1)
    np.put_along_axis(probs, order[:, :5], 0.2, axis=1)
    inside = rng.random(n) < 0.93
    places = np.where(inside, rng.integers(5, size=n), 5 + rng.integers(5, size=n))
    return probs, order[np.arange(n), places]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_a_gap_that_one_run_does_not_show_is_estimated():
    """Both rules find the same threshold in nearly all runs; what counts is the mean gap."""
    noise, coverage = nacp.UniformNoise(0.8), []
    for run in range(800):
        rng = np.random.default_rng(run)
        probs, labels = two_values(1000, rng)
        noisy = noise.sample(labels, 10, rng)
        cal = nacp.calibrate(probs, noisy, noise=noise, alpha=0.01, guarantee="expected")
        coverage.append(1.0 if cal.threshold >= 1 else 0.93)
    assert np.mean(coverage) >= 0.99 - 3 * np.std(coverage) / math.sqrt(len(coverage))


def test_scores_that_are_spread_out_have_a_gap_below_one_over_n():
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=4000)
    logits = rng.standard_normal((4000, 10)) + 5 * np.eye(10)[labels]
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    noisy = nacp.UniformNoise(0.2).sample(labels, 10, rng)
    cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee="expected")
    assert 0 < cal.gap < 1 / 4000
    assert cal.note is None


# A class that hardly occurs


def hardly_class_0(n, k, points, noise, rng):
    """Points of which so many are of class 0, on average; their own label scores .999, all others' .9."""
    labels = np.where(rng.random(n) < points / n, 0, rng.integers(1, k, size=n))
    first = np.where(labels == 0, 0.001, 0.1)
    logits = rng.standard_normal((n, k - 1)) + 4 * (labels[:, None] == np.arange(1, k))
    others = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    probs = np.column_stack([first, others * (1 - first)[:, None]])
    return probs, noise.sample(labels, k, rng)


@pytest.mark.slow
def test_a_class_that_hardly_occurs_is_covered_on_average():
    """Its labels may weigh a little above zero by chance; then a threshold below its scores was chosen."""
    noise, coverage = nacp.UniformNoise(0.2), []
    for run in range(100):
        probs, noisy = hardly_class_0(20_000, 10, 1.0, noise, np.random.default_rng(run))
        try:
            cal = nacp.calibrate(probs, noisy, noise=noise, guarantee="expected", by="class")
            coverage.append(float(cal.groups[0].threshold >= 0.999))
        except nacp.InputError:  # refused, so all labels have to serve
            coverage.append(1.0)
    assert np.mean(coverage) >= 0.9


def test_classes_with_enough_points_are_not_refused():
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=5000)
    logits = rng.standard_normal((5000, 5)) + 4 * np.eye(5)[labels]
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    noisy = nacp.UniformNoise(0.2).sample(labels, 5, rng)
    worst = nacp.Expected("worst-case")
    for guarantee in ("expected", worst):
        cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee=guarantee, by="class")
        assert max(cal.thresholds.values()) < 1
    assert max(each.correction for each in cal.groups.values()) < 0.08
