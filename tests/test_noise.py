"""What every noise model must do, whichever it is; and its named constructors."""

import copy
import json
import math
import tracemalloc
from itertools import chain, combinations

import numpy as np
import pytest

import nacp
from nacp.guarantees import Problem
from nacp.noise import NOISES, as_noise
from nacp.noise.matrices import DenseMatrix

K = 6
RNG = np.random.default_rng(0)
EVEN = np.full(K, 1 / K)
P = 0.6 * np.eye(K) + 0.4 * RNG.dirichlet(np.ones(K), size=K)
SPARSE = np.eye(K)
SPARSE[0, :2] = SPARSE[1, :2][::-1] = [0.7, 0.3]
GROUPS = ["a", "b", "a", "c", "b", "a"]

MODELS = {
    "no noise": nacp.UniformNoise(0.0),
    "uniform": nacp.UniformNoise(0.2),
    "much": nacp.UniformNoise(0.9),
    "other": nacp.UniformNoise.other(0.3, k=K),
    "private": nacp.RandomizedResponse(2.0),
    "groups": nacp.GroupNoise(GROUPS, 0.3),
    "rates by group": nacp.GroupNoise(GROUPS, {"a": 0.1, "b": 0.5, "c": 0.4}),
    "one group": nacp.GroupNoise([0] * K, 0.25),
    "all alone": nacp.GroupNoise(range(K), 0.25),
    "swaps": nacp.GroupNoise.other([0, 0, 1, 1, 2, 2], 0.2),
    "matrix": nacp.MatrixNoise(P),
    "zeros": nacp.MatrixNoise(SPARSE),
    "columns": nacp.MatrixNoise.from_columns(P.T),
    "posterior": nacp.MatrixNoise.from_posterior(P, noisy_priors=EVEN),
}
every_model = pytest.mark.parametrize("noise", MODELS.values(), ids=MODELS)


def rounding(noise):
    """How far two exact routes to an entry of P^-1 may differ: k condition^2 roundings."""
    return K * noise.condition(K) ** 2 * np.finfo(float).eps


def close(found, expected, noise):
    np.testing.assert_allclose(found, expected, rtol=0, atol=rounding(noise))


def test_every_noise_model_of_the_library_is_on_this_list():
    assert {type(noise) for noise in MODELS.values()} == set(NOISES.values())


@every_model
def test_rows_are_distributions(noise):
    dense = noise.matrix(K).dense()
    assert dense.min() >= 0
    close(dense.sum(axis=1), np.ones(K), noise)


@every_model
def test_the_inverse_undoes_the_noise(noise):
    close(noise.inverse(K).dense() @ noise.matrix(K).dense(), np.eye(K), noise)


@every_model
@pytest.mark.parametrize("which", ["matrix", "inverse"])
def test_a_structured_matrix_answers_as_the_dense_one(noise, which):
    matrix = getattr(noise, which)(K)
    dense = matrix.dense()
    same = DenseMatrix(dense)
    weights = RNG.dirichlet(np.ones(K))
    rows, columns = np.divmod(np.arange(K * K), K)
    off = dense * (1 - np.eye(K))
    rest = matrix.rest(rows, columns).reshape(K, K)

    assert matrix.k == K
    close(matrix.diagonal, np.diag(dense), noise)
    close(np.diag(matrix.own) + rest, dense, noise)
    close(matrix.push(weights), weights @ dense, noise)
    close(matrix.pull(weights), dense @ weights, noise)
    close(matrix.row_sums(), [off.clip(min=0).sum(axis=1), off.clip(max=0).sum(axis=1)], noise)
    close(matrix.column_sums(weights), weights @ np.abs(off), noise)
    close(matrix.rest_bounds(), [np.abs(rest).max(), np.abs(rest).sum(axis=1).max()], noise)
    close(matrix.subset_range(), same.subset_range(), noise)
    close(matrix.inverse().dense(), np.linalg.inv(dense), noise)
    if matrix.constant_rest is not None:
        close(rest, np.full((K, K), matrix.constant_rest), noise)


@every_model
def test_range_and_condition_are_those_of_all_subsets_of_all_rows(noise):
    inverse = np.linalg.inv(noise.matrix(K).dense())
    subsets = chain.from_iterable(combinations(range(K), size) for size in range(K + 1))
    sums = np.array([inverse[:, list(subset)].sum(axis=1) for subset in subsets])
    lo, hi = noise.range(K)
    close([lo, hi], [sums.min(), sums.max()], noise)
    close(noise.condition(K), np.abs(inverse).sum(axis=1).max(), noise)
    close(noise.condition(K), np.linalg.cond(noise.matrix(K).dense(), np.inf), noise)


@every_model
def test_noisy_labels_come_with_the_frequencies_of_the_matrix(noise):
    n = 200_000
    clean = np.repeat(np.arange(K), n)
    noisy = noise.sample(clean, K, random_state=1)
    frequencies = np.bincount(clean * K + noisy, minlength=K * K).reshape(K, K) / n
    expected = noise.matrix(K).dense()
    standard_error = np.sqrt(expected * (1 - expected) / n)
    # 14 models x 36 cells: some cell is 5 standard errors off in one of 3,000 such runs. A cell of
    # probability 0 or 1 has no error, but the matrix has its roundings.
    assert (np.abs(frequencies - expected) <= 5 * standard_error + rounding(noise)).all()


@every_model
def test_sampling_is_reproducible_and_touches_nothing(noise):
    clean = np.arange(600) % K
    # The old global generator is looked at on purpose: it must not move.
    before, state = clean.copy(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = noise.sample(clean, K, random_state=3)
    np.testing.assert_array_equal(noise.sample(clean, K, random_state=3), first)
    np.testing.assert_array_equal(noise.sample(clean, K, random_state=np.random.default_rng(3)), first)
    if noise.condition(K) > 1:
        assert (noise.sample(clean, K, random_state=4) != first).any()
    np.testing.assert_array_equal(clean, before)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@every_model
def test_a_generator_moves_on_from_one_sample_to_the_next(noise):
    rng = np.random.default_rng(5)
    clean = np.arange(600) % K
    first, second = noise.sample(clean, K, rng), noise.sample(clean, K, rng)
    assert (first != second).any() or noise.condition(K) == 1


@every_model
def test_a_model_survives_json(noise):
    stored = json.loads(json.dumps(noise.to_dict()))
    again = NOISES[stored.pop("name")](**stored)
    np.testing.assert_array_equal(again.matrix(K).dense(), noise.matrix(K).dense())
    assert again.to_dict() == noise.to_dict()


@every_model
def test_equal_models_hash_alike(noise):
    twin = copy.deepcopy(noise)
    assert twin == noise
    assert hash(twin) == hash(noise)
    assert noise != nacp.UniformNoise(0.123)


@every_model
def test_a_model_describes_itself_in_a_few_words(noise):
    assert "label" in noise.describe(K)
    assert "\n" not in noise.describe(K)


def test_matrix_noise_cannot_be_changed_from_outside():
    given = P.copy()
    noise = nacp.MatrixNoise(given)
    given[0] = 1 / K
    np.testing.assert_array_equal(noise.P, P)
    with pytest.raises(ValueError, match="read-only"):
        noise.P[0] = 1 / K


def test_groups_may_have_any_hashable_names():
    names = [("cat", 1), ("cat", 1), ("dog", 1), ("dog", 1)]
    expected = nacp.GroupNoise([0, 0, 1, 1], 0.2).matrix(4).dense()
    np.testing.assert_array_equal(nacp.GroupNoise(names, 0.2).matrix(4).dense(), expected)


# Many classes

MANY = 10_000
STRUCTURED = {
    "uniform": nacp.UniformNoise(0.2),
    "private": nacp.RandomizedResponse(9.0),
    "groups": nacp.GroupNoise(np.arange(MANY) // 20, 0.2),
    "rates by group": nacp.GroupNoise(np.arange(MANY) % 3, {0: 0.1, 1: 0.2, 2: 0.3}),
    "swaps": nacp.GroupNoise.other(np.arange(MANY) // 2, 0.2),
}


@pytest.mark.parametrize("noise", STRUCTURED.values(), ids=STRUCTURED)
@pytest.mark.parametrize("score", ["hps", "raps"])
def test_ten_thousand_classes_need_no_dense_matrix(noise, score):
    n, even = 50, np.full(MANY, 1 / MANY)
    rng = np.random.default_rng(7)
    probs = rng.dirichlet(np.full(MANY, 0.01), size=n).astype(np.float32)
    clean = probs.argmax(axis=1)
    tracemalloc.start()
    try:
        noisy = noise.sample(clean, MANY, random_state=0)
        cal = nacp.calibrate(probs, noisy, noise=noise, guarantee="none", score=score)
        sets = cal.predict_set(probs)
        problem = Problem(0.1, n, noise, noise.inverse(MANY), np.ones(MANY))
        corrections = [guarantee(priors=even).correction(problem) for guarantee in (nacp.ACNL, nacp.CRCP)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.isfinite([cal.threshold, *corrections]).all()
    assert 0 < sets.sizes.mean() < MANY
    assert peak < 200e6 < MANY**2 * 8


# The named constructors and the formulas


@pytest.mark.parametrize("k", [2, 3, 10, 1000])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 0.9])
def test_uniform_noise_has_the_range_of_the_theory(epsilon, k):
    lo, hi = nacp.UniformNoise(epsilon).range(k)
    scale = k * np.finfo(float).eps / (1 - epsilon)
    assert lo == pytest.approx(-epsilon * (1 - 1 / k) / (1 - epsilon), rel=0, abs=scale)
    assert hi == pytest.approx((1 - epsilon / k) / (1 - epsilon), rel=0, abs=scale)
    assert nacp.UniformNoise(epsilon).condition(k) == pytest.approx(hi - lo, rel=0, abs=2 * scale)


@pytest.mark.parametrize("k", [2, 5, 100])
def test_other_means_that_a_share_of_the_labels_is_wrong(k):
    uniform = nacp.UniformNoise.other(0.25, k=k).matrix(k).dense()
    expected = np.where(np.eye(k, dtype=bool), 0.75, 0.25 / (k - 1))
    np.testing.assert_allclose(uniform, expected, rtol=0, atol=4 * np.finfo(float).eps)


def test_other_in_groups_leaves_a_class_alone_that_is_alone():
    noise = nacp.GroupNoise.other(["pair", "pair", "alone", "three", "three", "three"], 0.2)
    expected = np.zeros((6, 6))
    expected[:2, :2] = [[0.8, 0.2], [0.2, 0.8]]
    expected[2, 2] = 1
    expected[3:, 3:] = 0.1 + 0.7 * np.eye(3)
    np.testing.assert_allclose(noise.matrix(6).dense(), expected, rtol=0, atol=4 * np.finfo(float).eps)


def test_from_columns_is_the_transposed_convention():
    assert nacp.MatrixNoise.from_columns(P.T) == nacp.MatrixNoise(P)


@pytest.mark.parametrize("priors", [EVEN, np.array([0.1, 0.1, 0.1, 0.2, 0.2, 0.3])], ids=["even", "uneven"])
def test_from_posterior_undoes_bayes_rule(priors):
    joint = priors[:, None] * P
    noisy_priors = joint.sum(axis=0)
    posterior = (joint / noisy_priors).T
    noise = nacp.MatrixNoise(P)
    # p(true | noisy) is inverted on the way from the true frequencies, so its condition counts.
    tolerance = rounding(noise) * np.linalg.cond(posterior, np.inf)
    for known in ({"priors": priors}, {"noisy_priors": noisy_priors}):
        found = nacp.MatrixNoise.from_posterior(posterior, **known).P
        np.testing.assert_allclose(found, P, rtol=0, atol=tolerance)


@pytest.mark.parametrize("k", [2, 10, 1000])
@pytest.mark.parametrize("privacy", [0.1, 1.0, 8.0, 50.0, 1000.0])
def test_randomised_response_keeps_its_promise_of_privacy(privacy, k):
    matrix = nacp.RandomizedResponse(privacy).matrix(k)
    kept = 1 / (1 + (k - 1) * math.exp(-privacy))
    np.testing.assert_allclose(matrix.diagonal, kept, rtol=k * np.finfo(float).eps)
    if privacy < 30:
        # Two true classes give no noisy label with odds above e^privacy; here they are exactly that.
        other = matrix.rest(np.array([0]), np.array([1]))[0]
        assert matrix.diagonal[0] / other == pytest.approx(
            math.exp(privacy), rel=1e3 * k * np.finfo(float).eps
        )


def test_short_forms_stand_for_models():
    assert as_noise(None) is None
    assert as_noise(0.25) == as_noise(np.float32(0.25)) == nacp.UniformNoise(0.25)
    assert as_noise(P.tolist()) == nacp.MatrixNoise(P)
    assert as_noise(MODELS["groups"]) is MODELS["groups"]
