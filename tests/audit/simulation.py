"""Simulated points whose labels were checked."""

from functools import cache

import numpy as np


def points(n, k, seed, score="hps"):
    """Points whose noisy labels are wrong where the classifier is: not independent of the input."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(k, 0.25), n)
    truth = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    second = np.argsort(-probs, axis=1)[:, 1]
    doubtful = probs.max(axis=1) < 0.75
    wrong = rng.random(n) < np.where(doubtful, 0.5, 0.03)
    return probs.astype(np.float32), truth, np.where(wrong, second, truth)


def posterior_of(probs, noisy, rate):
    """How probable each label is if a share `rate` of the given labels were drawn anew."""
    k = probs.shape[1]
    likelihood = np.where(np.arange(k) == noisy[:, None], 1 - rate + rate / k, rate / k)
    found = probs.astype(np.float64) * likelihood
    return found / found.sum(axis=1, keepdims=True)


@cache
def population():
    """Return many points, and their scores of the true label in ascending order."""
    probs, truth, noisy = points(40_000, 5, 7)
    return probs, truth, noisy, np.sort(1 - probs[np.arange(len(truth)), truth].astype(np.float64))


def samples(runs, n, seed=8):
    """Yield the number of a run, a generator, and n points of the population."""
    rng = np.random.default_rng(seed)
    for run in range(runs):
        some = rng.choice(40_000, n, replace=False)
        yield run, rng, *(part[some] for part in population()[:3])


def coverage_of(threshold):
    """Return the coverage of HPS sets in the population."""
    own = population()[3]
    return np.searchsorted(own, threshold, side="right") / len(own)


def assert_seldom_short(coverages, alpha, delta):
    """The population is finite: a coverage within 0.002 of the target is not a failure."""
    short = (np.array(coverages) < 1 - alpha - 0.002).mean()
    assert short <= delta + 3 * np.sqrt(delta * (1 - delta) / len(coverages))
