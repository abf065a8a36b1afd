"""sensitivity() calibrates with wrong rates and judges the sets by the right one."""

import numpy as np
import pytest

import nacp
from nacp.noise import as_noise
from nacp.paper import twins
from nacp.wrapping import on_one_line


@pytest.fixture(scope="module")
def points():
    return twins.simulate("cifar100", n=4000, random_state=5)


@pytest.mark.filterwarnings("ignore::nacp.NoiseModelWarning")
def test_sensitivity_calibrates_again_and_judges_by_the_right_rate(points):
    probs, labels = points
    noisy = nacp.UniformNoise(0.2).sample(labels, 100, random_state=2)
    cal = nacp.calibrate(probs, noisy, noise=0.2)
    found = nacp.sensitivity(cal, probs, noisy, shifts=[0.05, -0.05, 0.0])
    assert [row.rate for row in found.rows] == pytest.approx([0.15, 0.2, 0.25])
    for row in found.rows:
        again = nacp.calibrate(probs, noisy, noise=row.rate)
        curve = nacp.coverage_curve(probs, noisy, noise=0.2, thresholds=[row.threshold])
        assert row.threshold == again.threshold
        assert row.estimate == again.estimate
        assert row.coverage == pytest.approx(curve.clean[0], abs=1e-12)
        assert row.mean_size == pytest.approx(again.predict_set(probs).sizes.mean())
    assert "smaller one" in str(found)
    assert repr(found) == str(found)


def test_sensitivity_says_what_cannot_be():
    probs, labels = twins.simulate("cifar10", n=500)
    with pytest.raises(ValueError, match="noise is None"):
        nacp.sensitivity(nacp.calibrate(probs, labels, noise=None), probs, labels)
    with pytest.raises(ValueError, match=r"rate must lie in \[0, 1\); found -0\.08"):
        nacp.sensitivity(nacp.calibrate(probs, labels, noise=0.02), probs, labels, shifts=[-0.1])
    with pytest.raises(ValueError, match="noise holds no errors"):
        nacp.sensitivity(nacp.calibrate(probs, labels, noise=np.eye(10)), probs, labels, shifts=[0.1])


@pytest.mark.parametrize(
    "noise",
    [
        np.array([[0.1, 0.9, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
        nacp.GroupNoise([0, 0, 1, 1], {0: 0.8, 1: 0.0}),
    ],
    ids=["matrix", "groups"],
)
def test_default_shifts_stop_where_the_model_ends(noise):
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(4), 400), rng.integers(0, 4, 400)
    labels = as_noise(noise).sample(labels, 4, rng)
    cal = nacp.calibrate(probs, labels, noise=noise, guarantee="none")
    rows = nacp.sensitivity(cal, probs, labels).rows
    assert 1 < len(rows) < 9
    assert any(row.threshold == cal.threshold for row in rows)


def test_to_understate_a_matrix_may_cost_coverage_and_the_sensitivity_says_so():
    """Points of class 0 are taken for class 1, which their sets hold, so uncorrected they look covered."""
    rng, n = np.random.default_rng(0), 4000
    true = rng.integers(2, size=n)
    scores = np.where(true[:, None] == 0, [0.0, 0.0], [2.0, 0.0])
    scores[np.arange(n), true] = rng.random(n)
    truth = nacp.MatrixNoise([[0.6, 0.4], [0.0, 1.0]])
    noisy = truth.sample(true, 2, rng)
    right, half = (
        nacp.calibrate(scores, noisy, noise=noise, alpha=0.12, guarantee="none", score="precomputed")
        for noise in (truth, [[0.8, 0.2], [0.0, 1.0]])
    )
    # F^c(q) = q. With half of the errors stated, 0.1 of the labels are class 1 and right by mistake.
    assert half.threshold < right.threshold - 0.01
    assert half.threshold < 0.88
    assert "no rate is the careful one" in on_one_line(nacp.sensitivity(right, scores, noisy))
    uniform = nacp.calibrate(scores, noisy, noise=0.1, alpha=0.12, guarantee="none", score="precomputed")
    assert "no rate is the careful one" not in on_one_line(nacp.sensitivity(uniform, scores, noisy))
    audit = nacp.noise_from_audit(noisy, true, k=2)
    assert "smaller rate" not in on_one_line(audit)
    assert "smaller rate" in on_one_line(nacp.noise_from_audit(noisy, true, k=2, model="uniform"))
