"""Wrong noise models are refused: the message names the argument, what was found and what would do."""

import re

import numpy as np
import pytest

import nacp
from tests.refusals import refusal, says

K, N = 4, 60
RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(K), size=N)
LABELS = RNG.integers(K, size=N)


def calibrate(probs=PROBS, labels=LABELS, *, noise):
    return nacp.calibrate(probs, labels, noise=noise, guarantee="none")


def test_no_labels_stay_no_labels_when_made_noisy():
    assert nacp.UniformNoise(0.1).sample(np.array([], dtype=int), k=K).shape == (0,)


@pytest.mark.parametrize("rate", [-0.1, 1, 1.5, np.nan, np.inf, "0.2", True, None, 1j])
def test_a_rate_outside_of_0_to_1_is_refused(rate):
    for model in (nacp.UniformNoise, lambda r: nacp.GroupNoise([0, 0, 1, 1], r)):
        says(refusal(model, rate), "rate", "[0, 1)", f"found {rate!r}")
    if rate not in (None, "0.2"):
        says(refusal(calibrate, noise=rate), "noise", "[0, 1)", f"found {rate!r}")


@pytest.mark.parametrize(("rate", "meant"), [(20, "0.2"), (2, "0.02"), ("20%", "0.2"), ("0.25", "0.25")])
def test_a_rate_in_percent_or_as_text_is_refused_with_the_number_that_was_meant(rate, meant):
    says(refusal(calibrate, noise=rate), "noise", f"found {rate!r}", f"write {meant}")
    assert "write" not in refusal(calibrate, noise=1.5)


STOCHASTIC = 0.8 * np.eye(K) + 0.05


NEARLY_SINGULAR = 0.02 * np.eye(K) + 0.98 / K


BAD_MATRICES = {
    "rows": (STOCHASTIC * 2, "rows", "sum to 1", "row 0 sums to 2"),
    "columns": (np.array([[0.5, 0.25], [0.5, 0.75]]), "row 0 sums to 0.75", "columns do", "from_columns"),
    "singular": (np.full((K, K), 1 / K), "singular", "condition", "merge"),
    "equal rows": (np.eye(K)[[0, 0, 2, 3]], "singular", "merge"),
    "not square": (STOCHASTIC[:3], "(k, k)", "(3, 4)"),
    "1-d": (STOCHASTIC[0], "(k, k)", "(4,)"),
    "one class": (np.ones((1, 1)), "(k, k)", "(1, 1)"),
    "negative": (np.array([[1.25, -0.25], [0.0, 1.0]]), "probabilities", "-0.25 to 1.25"),
    "nan": (STOCHASTIC * np.nan, "probabilities", "nan"),
    "another k": (np.eye(5), "5 classes, not for 4"),
    "ill-conditioned": (NEARLY_SINGULAR, "ill-conditioned", f"{N} points", "merge", "more than"),
}


@pytest.mark.parametrize("case", BAD_MATRICES)
def test_bad_noise_matrices_are_refused(case):
    matrix, *words = BAD_MATRICES[case]
    says(refusal(calibrate, noise=matrix), "noise", *words)


def test_the_number_of_points_that_an_ill_conditioned_matrix_asks_for_is_enough():
    told = re.search(r"more than ([\d,]+) points", refusal(calibrate, noise=NEARLY_SINGULAR))[1]
    asked = int(told.replace(",", ""))
    probs, labels = np.resize(PROBS, (asked + 1, K)), np.resize(LABELS, asked + 1)
    calibrate(probs, labels, noise=NEARLY_SINGULAR)
    says(refusal(calibrate, probs[: asked - 1], labels[: asked - 1], noise=NEARLY_SINGULAR), "more than")


UNIFORM, POSTERIOR = nacp.UniformNoise(0.1), nacp.MatrixNoise.from_posterior
ONES, EVEN, MOSTLY_FIRST = np.ones(K), np.full(K, 1 / K), np.array([0.97, 0.01, 0.01, 0.01])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: UNIFORM.sample(LABELS + 1, k=K), ["labels", "0 to 3", "found 1 to 4"]),
        (lambda: UNIFORM.sample(LABELS / 2, k=K), ["labels", "whole numbers"]),
        (lambda: UNIFORM.sample(3, k=K), ["labels", "()"]),
        (lambda: calibrate(noise=nacp.GroupNoise([0, 0, 1], 0.1)), ["groups", "3 classes, not for 4"]),
        (lambda: nacp.GroupNoise([0], 0.1), ["groups", "1 entries"]),
        (lambda: nacp.GroupNoise([0, 0, 1, 1], {0: 0.1}), ["rate", "2 groups", "1 keys"]),
        (lambda: nacp.GroupNoise([0, 0, 1, 1], {0: 0.1, 1: 1.5}), ["rate", "[0, 1)", "1.5"]),
        (lambda: nacp.GroupNoise([["a"], ["b"]], 0.1), ["groups"]),
        (lambda: nacp.UniformNoise.other(0.75, k=4), ["rate", "3/4", "found 0.75"]),
        (lambda: nacp.GroupNoise.other([0, 0, 1, 1], 0.5), ["rate", "1/2", "found 0.5"]),
        (lambda: nacp.MatrixNoise(STOCHASTIC, radius=2), ["radius"]),
        (lambda: nacp.MatrixNoise(STOCHASTIC, confidence=0.9), ["confidence"]),
        (lambda: nacp.RandomizedResponse(0), ["privacy", "above 0"]),
        *(
            (lambda value=value: nacp.RandomizedResponse(value), ["privacy", f"found {value!r}"])
            for value in (-1.0, np.nan, "2", None)
        ),
        (lambda: POSTERIOR(STOCHASTIC), ["exactly one", "priors", "noisy_priors"]),
        (lambda: POSTERIOR(STOCHASTIC, priors=EVEN, noisy_priors=EVEN), ["exactly one"]),
        (lambda: POSTERIOR(STOCHASTIC, priors=EVEN[:3]), ["priors", "4 positive", "(3,)"]),
        (lambda: POSTERIOR(STOCHASTIC, noisy_priors=EVEN * 2), ["noisy_priors", "sum 2"]),
        (lambda: POSTERIOR(STOCHASTIC, priors=MOSTLY_FIRST), ["priors", "negative"]),
        (lambda: POSTERIOR(STOCHASTIC[:3], priors=EVEN), ["M must"]),
        (lambda: nacp.LowRankNoise(0.8, 0.3 * ONES, EVEN), ["left"]),
        (lambda: nacp.LowRankNoise(0.8, 0.2 * ONES, [0.5, 0.5, 0.5, -0.5]), ["left"]),
        (lambda: nacp.LowRankNoise(0.0, ONES, EVEN), ["kept"]),
        (lambda: nacp.LowRankNoise(0.8, 0.2 * ONES, np.ones((4, 2))), ["right"]),
        (lambda: nacp.LowRankNoise(0.8, np.nan * ONES, ONES), ["left"]),
        (lambda: nacp.LowRankNoise(0.8, 0.2 * ONES[:, None, None], ONES), ["left"]),
    ],
)
def test_a_wrong_parameter_is_named_with_what_would_do(call, words):
    says(refusal(call), *words)


def test_rows_that_sum_to_one_roughly_are_normalised():
    P = 0.8 * np.eye(4) + 0.05
    rough = nacp.MatrixNoise(P * (1 + 9e-5 * np.arange(4)[:, None] / 3))
    np.testing.assert_allclose(rough.P.sum(axis=1), 1, rtol=0, atol=4 * np.finfo(float).eps)
    np.testing.assert_allclose(rough.P, P, atol=1e-12)


def test_rows_that_sum_to_one_are_left_as_they_are():
    P = np.random.default_rng(0).dirichlet(np.ones(30), size=30) + np.eye(30)
    P /= P.sum(axis=1, keepdims=True)
    assert (np.abs(P.sum(axis=1) - 1) > 0).any(), "but for rounding"
    assert np.array_equal(nacp.MatrixNoise(P).P, P)
