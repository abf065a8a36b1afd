"""Calibration problems that the tests of several guarantees share."""

import math
from functools import cache
from itertools import product

import numpy as np

import nacp
from nacp.paper import twins

K = 6
PAIRS = 0.75 * np.eye(K) + 0.25 * np.eye(K)[np.arange(K) ^ 1]
NOISES = {
    "uniform": nacp.UniformNoise(0.2),
    "groups": nacp.GroupNoise([0, 0, 0, 1, 1, 1], rate=0.3),
    "matrix": nacp.MatrixNoise(PAIRS),
    "random": nacp.MatrixNoise(0.7 * np.eye(K) + 0.3 * np.random.default_rng(3).dirichlet(np.ones(K), K)),
}
SCORES = {"hps": nacp.HPS(), "aps": nacp.APS(), "raps": nacp.RAPS(penalty=0.2, free=1), "topk": nacp.TopK()}


def sample(n, noise, seed=0):
    """Return probabilities of K classes, true labels and noisy ones."""
    rng = np.random.default_rng(seed)
    true = rng.integers(K, size=n)
    logits = rng.standard_normal((n, K)) + 4 * np.eye(K)[true] * rng.random((n, 1))
    probs = np.exp(2 * logits)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, true, noise.sample(true, K, rng)


def shares(probs, labels, noise, score, q):
    """Return g_q by its definition: the sum of W[noisy label, l] over the set."""
    inside = score.scores(probs) <= q
    return (inside * np.linalg.inv(noise.matrix(K).dense())[labels]).sum(axis=1)


def widest_oscillation(weights):
    """Return the most by which the rows' sums over any set differ, set by set."""
    sets = np.array(list(product([False, True], repeat=len(weights))))
    return np.ptp(sets @ weights.T, axis=1).max()


class Population:
    """Points of a simulated classifier, from which calibration sets are drawn with replacement."""

    def __init__(self):
        self.probs, self.labels = twins.simulate("cifar10", n=40_000, random_state=2)
        self.scores = np.sort(1 - self.probs[np.arange(40_000), self.labels].astype(np.float64))

    def coverages(self, rows, n, runs, **options):
        """Return the coverage of many calibrations, and their gaps; `rows` are p(noisy label | point)."""
        rng, limits, found = np.random.default_rng(12), np.cumsum(rows, axis=1), []
        for run in range(runs):
            chosen = rng.integers(len(self.labels), size=n)
            noisy = (rng.random((n, 1)) > limits[chosen]).sum(axis=1)
            cal = nacp.calibrate(self.probs[chosen], noisy, random_state=run, **options)
            covered = np.searchsorted(self.scores, cal.threshold, side="right") / len(self.scores)
            found.append((covered, cal.gap))
        return np.array(found).T

    def worst_rows(self, noise, *, by_class=False):
        """Return the noise within the radius of the stated one that harms most at coverage 0.9.

        All of the radius is moved from a label that lowers the share to the one that raises it most; for
        each point, or for each class on average over its points, which then is a matrix again.
        """
        q = self.scores[int(0.9 * len(self.scores))]
        sums = (1 - self.probs <= q) @ np.linalg.inv(noise.P).T
        if by_class:
            sums = np.array([sums[self.labels == y].mean(axis=0) for y in range(10)])[self.labels]
        rows, points = noise.P[self.labels], np.arange(len(self.labels))
        worst = np.where(rows >= noise.radius, sums, np.inf).argmin(axis=1)
        rows[points, worst] -= noise.radius
        rows[points, sums.argmax(axis=1)] += noise.radius
        assert rows.min() >= 0
        assert np.abs(rows - noise.P[self.labels]).sum(axis=1).max() / 2 <= noise.radius + 1e-12
        return rows


@cache
def population():
    return Population()


PAIRS_OF_TEN = nacp.MatrixNoise(0.8 * np.eye(10) + 0.2 * np.eye(10)[np.arange(10) ^ 1], radius=0.02)


def error_of(share, runs):
    """Return the standard error of a share of `runs` runs."""
    return math.sqrt(share * (1 - share) / runs)
