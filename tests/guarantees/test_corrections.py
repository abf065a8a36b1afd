"""The corrections of NACP, ACNL and CRCP: by their formulas, and as the paper prints them."""

import math

import numpy as np
import pytest

import nacp
from nacp.guarantees.acnl import acnl_correction, expected_excess
from nacp.guarantees.crcp import crcp_correction
from nacp.guarantees.nacp import nacp_correction
from tests import oracle
from tests.problems import NOISES

KINDS = [NOISES[kind] for kind in ("uniform", "groups", "matrix")]


@pytest.mark.parametrize("k", range(2, 7))
def test_acnl_and_crcp_are_their_formulas_for_any_priors_and_noise(k):
    rng = np.random.default_rng(14)
    for _ in range(30):
        n, least = int(rng.integers(20, 5000)), int(rng.integers(1, 20))
        rho = rng.dirichlet(np.full(k, 2.0))
        for kind in KINDS:
            noise, P = kind(rng, n, k)
            W, noisy = noise.inverse(k), rho @ np.array(P, dtype=float)
            acnl = acnl_correction(n, least, W, rho, noisy)
            assert acnl == pytest.approx(oracle.acnl_correction(n, least, P, rho), rel=1e-12)
            assert crcp_correction(n, W, noisy) == pytest.approx(oracle.crcp_correction(n, P, rho), rel=1e-12)


@pytest.mark.parametrize("least", [1, 2, 50, 10**6])
def test_acnl_of_a_class_is_the_formula_of_the_paper(least):
    true, noisy, noise = np.array([0.7, 0.3]), np.array([0.66, 0.34]), nacp.UniformNoise(0.2)
    W, k = noise.inverse(2), 2
    spread = 2 * abs(np.linalg.inv(noise.matrix(2).dense())[0, 1]) * noisy[0] / true[1]
    terms = k * math.sqrt(math.pi / 2), least**-0.5 + math.sqrt((math.log(2 * k) + math.log(least)) / 2)
    expected = expected_excess(100) + spread / math.sqrt(least) * min(terms)
    assert acnl_correction(100, least, W, true, noisy, label=1) == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("k", range(2, 7))
def test_calibrate_uses_the_realised_counts_and_the_given_priors(k):
    rng = np.random.default_rng(15)
    rho = rng.dirichlet(np.full(k, 2.0))
    labels = np.concatenate([np.arange(k), rng.integers(k, size=40)])
    n, least = len(labels), np.bincount(labels).min()
    for kind in KINDS:
        noise, P = kind(rng, n, k)
        options = {"probs": rng.dirichlet(np.ones(k), size=n), "labels": labels, "noise": noise}
        acnl = nacp.calibrate(**options, guarantee=nacp.ACNL(rho)).correction
        crcp = nacp.calibrate(**options, guarantee=nacp.CRCP(rho)).correction
        assert acnl == pytest.approx(oracle.acnl_correction(n, least, P, rho), rel=1e-12)
        assert crcp == pytest.approx(oracle.crcp_excess(0.1, n, P, rho), rel=1e-12)


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_without_noise_the_given_priors_are_those_of_the_labels():
    rho, labels = np.array([0.7, 0.3]), np.repeat([0, 1], [30, 10])
    probs = np.random.default_rng(0).dirichlet(np.ones(2), size=40)
    for guarantee, expected in (
        (nacp.ACNL(rho), oracle.acnl_correction(40, 10, oracle.identity(2), rho)),
        (nacp.CRCP(rho), oracle.crcp_excess(0.1, 40, oracle.identity(2), rho)),
    ):
        cal = nacp.calibrate(probs, labels, noise=None, guarantee=guarantee)
        assert cal.correction == pytest.approx(expected, rel=1e-12)


def test_nacp_is_its_formula():
    rng = np.random.default_rng(16)
    for n, rate, delta in zip(rng.integers(1, 10**6, 200), rng.random(200), rng.random(200), strict=True):
        expected = oracle.nacp_correction(int(n), rate, delta)
        assert nacp_correction(int(n), rate, delta) == pytest.approx(expected, rel=1e-12)


def test_expected_excess_is_its_closed_form():
    for n in (*range(1, 301), 1000, 5000, 10000, 25000):
        # It is the exponential of three terms of size n log n, each rounded once.
        rounding = 3 * np.finfo(float).eps * (1 + n * math.log(n))
        assert expected_excess(n) == pytest.approx(oracle.c_exact(n), rel=rounding)
