"""Coverage by class, from clean and from noisy labels, against the definitions and by simulation."""

import numpy as np
import pytest
from scipy.stats import binomtest

import nacp
from nacp.groups.noisy_coverage import _fieller
from nacp.noise import as_noise
from nacp.paper import twins

K = 10
PAIRS = np.eye(K) * 0.8 + np.roll(np.eye(K), 1, axis=1) * 0.2
GROUPS = nacp.GroupNoise([0, 0, 0, 1, 1, 1, 1, 2, 2, 2], 0.3)


def sets_and_labels(n, seed):
    probs, labels = twins.simulate("cifar10", n=n, random_state=seed)
    cal = nacp.calibrate(probs, labels, noise=None, alpha=0.3)
    return cal.predict_set(probs), labels


def test_clean_labels_give_shares_with_the_exact_interval():
    sets, labels = sets_and_labels(300, 0)
    labels = np.where(labels == 4, 5, labels)
    found = nacp.coverage_by_class(sets, labels, confidence=0.9)
    for one in range(K):
        own = np.asarray(sets)[labels == one, one]
        assert found.count[one] == len(own)
        if len(own) == 0:
            assert np.isnan([found.coverage[one], found.low[one], found.high[one]]).all()
            continue
        exact = binomtest(int(own.sum()), len(own)).proportion_ci(0.9, method="exact")
        assert found.coverage[one] == own.mean()
        assert (found.low[one], found.high[one]) == pytest.approx((exact.low, exact.high))
    order = found.worst_first()
    assert sorted(order) == [c for c in range(K) if c != 4]
    assert (np.diff(found.coverage[order]) >= 0).all()


def test_no_coverage_exceeds_1_and_one_point_is_enough():
    sets = nacp.calibrate(np.eye(K), np.arange(K), noise=None, alpha=0.5).predict_set(np.eye(K))
    for noise in (0.0, 0.1, PAIRS):  # each set holds the given label and no other, so estimates exceed 1
        found = nacp.coverage_by_class(sets, np.arange(K), noise=noise)
        np.testing.assert_array_equal(found.coverage, 1)


@pytest.mark.parametrize("noise", [0.2, PAIRS, GROUPS], ids=["uniform", "pairs", "groups"])
def test_noisy_labels_give_the_ratio_of_weighted_sums(noise):
    sets, labels = sets_and_labels(400, 1)
    noisy = as_noise(noise).sample(labels, K, 0)
    found = nacp.coverage_by_class(sets, noisy, noise=noise)
    inverse, inside = np.linalg.inv(as_noise(noise).matrix(K).dense()), np.asarray(sets)
    weights = inverse[noisy]
    share = (weights * inside).sum(axis=0) / weights.sum(axis=0)
    np.testing.assert_allclose(found.coverage, np.clip(share, 0, 1), rtol=1e-9)

    # Two covered and two missed points more; then each c whose residuals do not contradict it.
    c = np.linspace(0, 1, 2001)
    for one in range(K):
        w = np.append(weights[:, one], [inverse[one, one]] * 4)
        covered = np.append(inside[:, one], [1, 1, 0, 0])
        residual = w[:, None] * (covered[:, None] - c)
        believed = c[np.abs(residual.sum(axis=0)) <= 1.959964 * np.sqrt((residual**2).sum(axis=0))]
        assert found.low[one] == pytest.approx(believed[0], abs=6e-4)
        assert found.high[one] == pytest.approx(believed[-1], abs=6e-4)


@pytest.mark.parametrize("per_class", [4, 10, 50])
@pytest.mark.parametrize("noise", [nacp.UniformNoise(0.2), nacp.MatrixNoise(PAIRS)], ids=["uniform", "pairs"])
def test_intervals_from_noisy_labels_hold_the_coverage(noise, per_class):
    pool, truth = twins.simulate("cifar10", n=40_000, random_state=5)
    cal = nacp.calibrate(pool[:2000], truth[:2000], noise=None, alpha=0.3)
    sets = cal.predict_set(pool)
    right = nacp.coverage_by_class(sets, truth).coverage
    hits, runs = 0, 60
    for run in range(runs):
        where = np.random.default_rng(run).choice(len(pool), per_class * K, replace=False)
        found = nacp.coverage_by_class(sets[where], noise.sample(truth[where], K, run), noise=noise)
        hits += ((found.low <= right) & (right <= found.high)).sum()
    # They are approximate, and wider than need be where labels are few.
    assert hits / (runs * K) > 0.95 - 4 * np.sqrt(0.95 * 0.05 / (runs * K))
    assert (found.high - found.low).mean() < 4.5 / np.sqrt(per_class)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_an_interval_of_a_ratio_holds_all_ratios_that_the_residuals_allow(scale):
    """In whatever unit the weights are; if the total may be 0, that is all of [0, 1]."""
    rng, c, kinds = np.random.default_rng(0), np.linspace(0, 1, 4001), set()
    for _ in range(60):
        w = rng.normal(rng.choice([0.3, 1.0, 2.0]), 1, size=12)
        v = w * (rng.random(12) < rng.choice([0.1, 0.5, 0.9]))
        sums = (v.sum(), w.sum()), ((v**2).sum(), (v * w).sum(), (w**2).sum())
        linear, squares = ([np.array([each * scale**power]) for each in sums[power - 1]] for power in (1, 2))
        (low,), (high,) = _fieller(*linear, *squares, 1.5**2)
        assert 0 <= low <= high <= 1
        if w.sum() ** 2 <= 1.5**2 * (w**2).sum():
            assert (low, high) == (0, 1)
            kinds.add("unknown")
            continue
        residual = v[:, None] - w[:, None] * c
        allowed = c[residual.sum(axis=0) ** 2 <= 1.5**2 * (residual**2).sum(axis=0)]
        if len(allowed):
            assert (low, high) == pytest.approx((allowed[0], allowed[-1]), abs=5e-4)
            kinds.add("known")
    assert kinds == {"known", "unknown"}


def test_a_class_without_points_has_no_coverage_and_an_interval_of_all_shares():
    """Also where the matrix is known up to a radius, which is divided by the number of points."""
    labels = np.array([0, 1, 0, 0, 0, 0])
    sets = nacp.calibrate(np.eye(3), np.arange(3), noise=None, alpha=0.5).predict_set(np.eye(3)[labels])
    exact, found = (
        nacp.coverage_by_class(sets, labels, noise=nacp.MatrixNoise(np.eye(3), radius=radius))
        for radius in (0.0, 0.001)
    )
    np.testing.assert_array_equal(found.coverage, [1, 1, np.nan])
    assert (found.low[2], found.high[2]) == (0, 1)
    assert (found.high == 1).all()
    assert 0 < found.low[0] < exact.low[0]
