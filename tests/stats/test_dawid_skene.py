"""The model of Dawid and Skene: each step by its formula, item by item."""

import numpy as np
import pytest

from nacp.stats.dawid_skene import dawid_skene, pooled, scaled

K, ANNOTATORS = 3, 4


def answers(seed):
    """Labels of 40 items by up to four annotators, at least one each, and some known classes."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=40)
    wrong = rng.random((40, ANNOTATORS)) < [0.1, 0.3, 0.5, 0.9]
    table = np.where(wrong, rng.integers(K, size=(40, ANNOTATORS)), truth[:, None])
    table[rng.random((40, ANNOTATORS)) < 0.4] = -1
    known = np.where(rng.random(40) < 0.2, truth, -1)
    empty = (table < 0).all(axis=1)
    known[empty] = truth[empty]
    return table, known


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_each_step_is_that_of_the_formulas(seed, steps):
    table, known = answers(seed)
    posterior = np.zeros((40, K))
    for i, given in enumerate(table):
        votes = np.bincount(given[given >= 0], minlength=K)
        posterior[i] = np.eye(K)[known[i]] if known[i] >= 0 else votes / votes.sum()
    for _ in range(steps):
        counts, priors, likelihood = np.zeros((ANNOTATORS, K, K)), posterior.mean(axis=0), 0.0
        for i, given in enumerate(table):
            for a in np.flatnonzero(given >= 0):
                counts[a, :, given[a]] += posterior[i]
        with np.errstate(invalid="ignore"):
            matrices = counts / counts.sum(axis=2, keepdims=True)
        for i, given in enumerate(table):
            joint = priors.copy()
            for a in np.flatnonzero(given >= 0):
                joint *= matrices[a, :, given[a]]
            at_last = joint.sum() if known[i] < 0 else joint[known[i]]
            likelihood += np.log(at_last)
            posterior[i] = joint / joint.sum() if known[i] < 0 else np.eye(K)[known[i]]
    found = dawid_skene(table, K, known, steps=steps, tolerance=-np.inf)
    np.testing.assert_allclose(found.posterior, posterior, atol=1e-9)
    np.testing.assert_allclose(found.counts, counts, atol=1e-9)
    np.testing.assert_allclose(found.priors, priors, atol=1e-9)
    assert len(found.log_likelihood) == steps
    assert found.log_likelihood[-1] == pytest.approx(likelihood)


def test_a_label_at_random_of_a_random_item_has_the_pooled_matrix():
    table, known = answers(0)
    found = dawid_skene(table, K, known, steps=3, tolerance=0.0)
    joint = np.zeros((K, K))
    for i, given in enumerate(table):
        for label in given[given >= 0]:
            joint[:, label] += found.posterior[i] / (given >= 0).sum()
    np.testing.assert_allclose(pooled(found, table), joint / joint.sum(axis=1, keepdims=True))


def test_scaled_errors_are_those_made_with_one_more_and_no_entry_is_negative():
    mean = np.array([[0.8, 0.15, 0.05], [0.3, 0.6, 0.1], [0.0, 0.1, 0.9]])
    counts = np.array([np.diag([9.0, 9, 9]), 30 * mean, [[0, 90, 0], [90, 0, 0], [0, 90, 0]]])
    found = scaled(counts, mean)
    for each, matrix in zip(counts, found, strict=True):
        errors = each.sum() - np.trace(each) + 1
        expected = (each.sum(axis=1) * (1 - np.diag(mean))).sum() + 1
        times = min(errors / expected, 1 / 0.4)
        off = ~np.eye(3, dtype=bool)
        np.testing.assert_allclose(matrix[off], times * mean[off])
        np.testing.assert_allclose(matrix.sum(axis=1), 1)
        assert (matrix >= -1e-12).all()
