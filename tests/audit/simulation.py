"""Simulated points whose labels were checked."""

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
