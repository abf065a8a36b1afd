"""A calibration is a value: it keeps nothing of the points, and copies of it lose nothing."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import nacp
from nacp.paper import twins

N, K = 3000, 50
MATRIX = nacp.MatrixNoise(0.8 * np.eye(K) + 0.2 * np.random.default_rng(0).dirichlet(np.full(K, 0.3), K))
INTERVAL = nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.95)


@pytest.fixture(scope="module")
def points():
    """A twin whose classes were joined in pairs: probabilities, true labels, noisy labels."""
    probs, labels = twins.simulate("cifar100", n=N, random_state=0)
    probs, labels = probs.reshape(N, K, 2).sum(axis=2), labels // 2
    return probs, labels, nacp.UniformNoise(0.2).sample(labels, K, random_state=1)


@pytest.mark.parametrize("noise", [0.2, MATRIX], ids=["uniform", "matrix"])
def test_a_calibration_does_not_see_what_becomes_of_the_points(points, noise):
    kept = nacp.calibrate(points[0], points[2], noise=noise)
    probs, labels = points[0].copy(), points[2].copy()
    cal = nacp.calibrate(probs, labels, noise=noise)
    probs[:], labels[:] = 1 / K, 0
    for name in ("thresholds", "noisy", "random", "clean"):
        assert np.array_equal(getattr(cal.curve, name), getattr(kept.curve, name))
    assert (str(cal), cal.floor, cal.tightness) == (str(kept), kept.floor, kept.tightness)
    assert len(cal.curve) > 100
    assert cal.curve.clean[-1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, dataclasses.replace, lambda cal: pickle.loads(pickle.dumps(cal))],
    ids=["copy", "deepcopy", "replace", "pickle"],
)
@pytest.mark.parametrize("noise", [0.2, MATRIX], ids=["uniform", "matrix"])
def test_copies_lose_nothing(points, noise, again):
    probs, _, noisy = points
    cal = nacp.calibrate(probs, noisy, noise=noise, score="aps")
    other = again(cal)
    assert other == cal
    assert other.tally == cal.tally
    assert np.array_equal(other.curve.clean, cal.curve.clean)
    assert (other.floor, str(other)) == (cal.floor, str(cal))
    assert other.predict_set(probs[:50]).to_lists() == cal.predict_set(probs[:50]).to_lists()
