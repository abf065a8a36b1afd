"""A rate or matrix that understates the noise."""

import numpy as np

import nacp
from nacp.wrapping import on_one_line


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
