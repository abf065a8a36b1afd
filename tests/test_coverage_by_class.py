"""Coverage by class, from clean and from noisy labels, against the definitions and by simulation."""

import numpy as np
import pytest
from scipy.stats import binomtest

import nacp
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


@pytest.mark.parametrize("noise", [0.2, PAIRS, GROUPS], ids=["uniform", "pairs", "groups"])
def test_noisy_labels_give_the_ratio_of_weighted_sums(noise):
    sets, labels = sets_and_labels(400, 1)
    model = as_noise(noise)
    noisy = model.sample(labels, K, 0)
    found = nacp.coverage_by_class(sets, noisy, noise=noise)
    inverse, inside = np.linalg.inv(model.matrix(K).dense()), np.asarray(sets)
    weights = inverse[noisy]
    share = (weights * inside).sum(axis=0) / weights.sum(axis=0)
    residual = weights * (inside - share)
    half = 1.959964 * np.sqrt((residual**2).sum(axis=0)) / weights.sum(axis=0)
    within = (share > 0) & (share < 1)
    assert within.sum() >= 5
    np.testing.assert_allclose(found.coverage[within], share[within], rtol=1e-9)
    np.testing.assert_allclose(found.low[within], np.maximum(share - half, 0)[within], rtol=1e-6)
    np.testing.assert_allclose(found.high[within], np.minimum(share + half, 1)[within], rtol=1e-6)


def test_noise_of_rate_zero_is_no_noise():
    sets, labels = sets_and_labels(300, 2)
    clean, noisy = (nacp.coverage_by_class(sets, labels, noise=noise) for noise in (None, 0.0))
    np.testing.assert_allclose(clean.coverage, noisy.coverage)


@pytest.mark.parametrize("noise", [nacp.UniformNoise(0.2), nacp.MatrixNoise(PAIRS)], ids=["uniform", "pairs"])
def test_intervals_from_noisy_labels_hold_the_coverage(noise):
    pool, truth = twins.simulate("cifar10", n=40_000, random_state=5)
    cal = nacp.calibrate(pool[:2000], truth[:2000], noise=None, alpha=0.3)
    right = nacp.coverage_by_class(cal.predict_set(pool), truth).coverage
    hits, runs = 0, 40
    for run in range(runs):
        where = np.random.default_rng(run).choice(len(pool), 4000, replace=False)
        noisy = noise.sample(truth[where], K, run)
        found = nacp.coverage_by_class(cal.predict_set(pool[where]), noisy, noise=noise)
        hits += ((found.low <= right) & (right <= found.high)).sum()
    share = hits / (runs * K)
    # Sets of the pool are a tenth of it, so that the intervals hold a little more often than 95%; the
    # normal approximation takes a little away.
    assert abs(share - 0.95) < 4 * np.sqrt(0.95 * 0.05 / (runs * K))
