"""Simulated points that arrive after a calibration, and noise models for them."""

import numpy as np

import nacp
from nacp.paper import twins

K = 10
UNIFORM = nacp.UniformNoise(0.2)
RANDOM = nacp.MatrixNoise(0.7 * np.eye(K) + 0.3 * np.random.default_rng(0).dirichlet(np.full(K, 0.3), K))
NOISES = [UNIFORM, RANDOM, nacp.GroupNoise([i // 2 for i in range(K)], rate=0.3), None]
PROBS, LABELS = twins.simulate("cifar10", n=9000, random_state=0)


def noisy(noise, labels, seed=2):
    return labels if noise is None else noise.sample(labels, K, random_state=seed)


def calibrated(noise, **options):
    """Calibrate with the first 3,000 points."""
    return nacp.calibrate(PROBS[:3000], noisy(noise, LABELS[:3000], seed=1), noise=noise, **options)


def inverse_of(noise):
    return np.eye(K) if noise is None else np.linalg.inv(noise.matrix(K).dense())


def range_of(inverse):
    return np.minimum(inverse, 0).sum(axis=1).min(), np.maximum(inverse, 0).sum(axis=1).max()
