"""Every noise model: its matrix, inverse, sampling, files and uncertainty; the named constructors."""

import copy
import dataclasses
import json
import math
import pickle
import tracemalloc
from itertools import chain, combinations

import numpy as np
import pytest
import scipy.sparse

import nacp
from nacp.errors import InputError
from nacp.guarantees import Problem
from nacp.noise import NOISES, NoiseByGroup, as_noise, noise_for

K = 6
RNG = np.random.default_rng(0)
EVEN = np.full(K, 1 / K)
P = 0.6 * np.eye(K) + 0.4 * RNG.dirichlet(np.ones(K), size=K)
SPARSE = np.eye(K)
SPARSE[0, :2] = SPARSE[1, :2][::-1] = [0.7, 0.3]
LEFT = np.array([[0.1, 0.2], [0.0, 0.3], [0.1, 0.2], [0.25, 0.25], [0.3, 0.0], [0.0, 0.3]])
GROUPS = ["a", "b", "a", "c", "b", "a"]

MODELS = {
    "no noise": nacp.UniformNoise(0.0),
    "uniform": nacp.UniformNoise(0.2),
    "other": nacp.UniformNoise.other(0.3, k=K),
    "private": nacp.RandomizedResponse(2.0),
    "groups": nacp.GroupNoise(GROUPS, 0.3),
    "rates by group": nacp.GroupNoise(GROUPS, {"a": 0.1, "b": 0.5, "c": 0.4}),
    "one group": nacp.GroupNoise([0] * K, 0.25),
    "all alone": nacp.GroupNoise(range(K), 0.25),
    "swaps": nacp.GroupNoise.other([0, 0, 1, 1, 2, 2], 0.2),
    "matrix": nacp.MatrixNoise(P),
    "sparse": nacp.MatrixNoise(scipy.sparse.csr_array(SPARSE)),
    "rank one": nacp.LowRankNoise(0.75, 0.25 * np.ones(K), RNG.dirichlet(np.ones(K))),
    "rank two": nacp.LowRankNoise(1 - LEFT.sum(axis=1), LEFT, RNG.dirichlet(np.ones(K), size=2).T),
    "annotators": nacp.AnnotatorNoise([P, SPARSE, 0.5 * P + 0.5 / K], [1, 2, 1]),
    "by group": NoiseByGroup([P, 0.5 * P + 0.5 / K], [1, 3], ["A", "B"]),
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
@pytest.mark.parametrize("which", ["matrix", "inverse"])
def test_rows_sum_to_one_and_every_quantity_is_that_of_the_entries(noise, which):
    matrix = getattr(noise, which)(K)
    dense, weights, every = matrix.dense(), RNG.dirichlet(np.ones(K)), np.arange(K)
    inverse = np.linalg.inv(dense)

    assert matrix.k == K
    close(dense.sum(axis=1), np.ones(K), noise)
    assert which == "inverse" or dense.min() >= 0
    close(matrix.inverse().dense(), inverse, noise)
    close(matrix.entries(every[:, None], every), dense, noise)
    close(matrix.diagonal, np.diag(dense), noise)
    close(np.diag(matrix.own) + matrix.rest(every), dense, noise)
    close(matrix.rest(np.array([4])), matrix.rest(every)[4:5], noise)
    if matrix.constant is not None:
        close(matrix.rest(every), np.full((K, K), matrix.constant), noise)
    close(matrix.push(weights), weights @ dense, noise)
    close(matrix.pull(weights), dense @ weights, noise)
    close(matrix.combine(np.square).dense(), dense**2, noise)
    close(matrix.combine(np.multiply, matrix.inverse()).dense(), dense * inverse.T, noise)
    low, high = dense.clip(max=0).sum(axis=1), dense.clip(min=0).sum(axis=1)
    close(matrix.row_ranges, [low, high], noise)
    close(matrix.subset_range(), [low.min(), high.max()], noise)
    close(matrix.column_range(), [dense.min(axis=0), dense.max(axis=0)], noise)


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
    n = 20_000
    clean = np.repeat(np.arange(K), n)
    noisy = noise.sample(clean, K, random_state=1)
    frequencies = np.bincount(clean * K + noisy, minlength=K * K).reshape(K, K) / n
    expected = noise.matrix(K).dense()
    standard_error = np.sqrt(expected * (1 - expected) / n)
    # 15 models x 36 cells: some cell is 5 standard errors off in one of 3,000 such runs. A cell of
    # probability 0 or 1 has no error, but the matrix has rounding errors.
    assert (np.abs(frequencies - expected) <= 5 * standard_error + rounding(noise)).all()


@every_model
def test_sampling_is_reproducible_and_touches_nothing(noise):
    clean = np.arange(600) % K
    before, state = clean.copy(), np.random.get_state()[1].copy()  # noqa: NPY002  (it must not change)
    first = noise.sample(clean, K, random_state=3)
    rng = np.random.default_rng(3)
    np.testing.assert_array_equal(noise.sample(clean, K, random_state=3), first)
    np.testing.assert_array_equal(noise.sample(clean, K, random_state=rng), first)
    assert (noise.sample(clean, K, random_state=rng) != first).any() or noise.condition(K) == 1
    np.testing.assert_array_equal(clean, before)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002  (it must not change)


@every_model
def test_the_error_rate_can_be_changed(noise):
    rate = noise.error_rate(K)
    if noise.is_uniform:
        assert noise.uniform_rate(K) == rate
    else:
        assert noise.uniform_rate(K) is None
        assert rate == pytest.approx(np.mean(1 - np.diag(noise.matrix(K).dense())))
    if rate > 0:
        less = noise.with_error_rate(rate / 2, K)
        assert less.error_rate(K) == pytest.approx(rate / 2)
        halfway = (noise.matrix(K).dense() + np.eye(K)) / 2
        close(less.matrix(K).dense(), halfway, noise)


# A model is a value

WAYS_TO_COPY = {
    "itself": lambda noise: noise,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda noise: pickle.loads(pickle.dumps(noise)),
    "replace": dataclasses.replace,
}


@every_model
@pytest.mark.parametrize("way", WAYS_TO_COPY)
def test_a_model_cannot_be_changed_and_neither_can_its_copies(noise, way):
    again = WAYS_TO_COPY[way](noise)
    assert again == noise != nacp.UniformNoise(0.123)
    assert hash(again) == hash(noise)
    for parameter in (each.name for each in dataclasses.fields(again) if each.init):
        with pytest.raises(AttributeError):
            setattr(again, parameter, getattr(again, parameter))
        with pytest.raises(AttributeError):
            delattr(again, parameter)
    before = noise.matrix(K).dense(), noise.inverse(K).dense()
    for matrix in (again.matrix(K), again.inverse(K)):
        for array in (value for value in vars(matrix).values() if isinstance(value, np.ndarray)):
            if array.flags.writeable:  # an array that was made for this call
                array[...] = 0
    np.testing.assert_array_equal((noise.matrix(K).dense(), noise.inverse(K).dense()), before)
    assert again == noise


@pytest.mark.parametrize("way", WAYS_TO_COPY)
def test_the_matrix_of_matrix_noise_is_its_own_and_read_only(way):
    source = P.copy()
    noise = WAYS_TO_COPY[way](nacp.MatrixNoise(source, radius=0.1, confidence=0.9))
    source[0] = 1 / K
    np.testing.assert_array_equal(noise.P, P)
    assert (noise.radius, noise.confidence) == (0.1, 0.9)
    for array in (noise.P, noise.inverse(K).values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1 / K
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_what_is_equal_hashes_alike_whatever_its_bits():
    minus = SPARSE.copy()
    minus[SPARSE == 0] = -0.0
    assert nacp.MatrixNoise(minus) == nacp.MatrixNoise(SPARSE)
    assert hash(nacp.MatrixNoise(minus)) == hash(nacp.MatrixNoise(SPARSE))
    models = {nacp.MatrixNoise(P), nacp.MatrixNoise(P, 0.1), nacp.MatrixNoise(P, 0.1, 0.9)}
    assert len(models) == 3


# Names of groups


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("parameters", ["one rate", "rates", "interval"])
def test_groups_may_have_any_hashable_names_of_which_files_keep_the_plain_ones(kept, parameters):
    names = np.array(["cat", "dog", "cat"]) if kept else [("cat", 1), float("inf"), ("cat", 1)]
    noise = {
        "one rate": lambda: nacp.GroupNoise(names, 0.2),
        "rates": lambda: nacp.GroupNoise(names, {names[0]: 0.1, names[1]: 0.2}),
        "interval": lambda: nacp.GroupNoise(names, 0.2, interval=(0.1, 0.3), confidence=0.9),
    }[parameters]()
    stored = json.loads(json.dumps(noise.to_dict()))
    again = NOISES[stored.pop("name")](**stored)
    assert again == noise
    assert again.groups == (("cat", "dog", "cat") if kept else (0, 1, 0))


# Uncertainty


def test_an_interval_of_rates_has_two_ends_that_are_known_exactly():
    for make in (nacp.UniformNoise, lambda *known: nacp.GroupNoise(GROUPS, *known)):
        doubt = make(0.2, (0.1, 0.3), 0.95).doubt
        assert doubt.ends == (make(0.1), make(0.3))
        assert all(end.doubt.exact for end in doubt.ends)
        assert not doubt.exact
        assert (doubt.radius, doubt.confidence, doubt.missing) == (0, 0.95, 1 - 0.95)
        assert doubt.words == " (95% sure)"
        assert doubt.words in make(0.2, (0.1, 0.3), 0.95).describe(K)


def test_a_radius_shifts_a_mean_by_no_more_than_two_rows_of_the_inverse_differ():
    noise = nacp.MatrixNoise(P, radius=0.1, confidence=0.9)
    assert not noise.doubt.exact
    inverse = noise.inverse(K).dense()
    subsets = chain.from_iterable(combinations(range(K), size) for size in range(K + 1))
    sums = np.array([inverse[:, list(subset)].sum(axis=1) for subset in subsets])
    close(noise.doubt.shift(noise.inverse(K)), 0.1 * np.ptp(sums, axis=1).max(), noise)


# Too few points


@every_model
@pytest.mark.parametrize("n", [1, 10, 100, 10_000])
def test_every_model_is_refused_where_its_matrix_is(noise, n):
    same = nacp.MatrixNoise(noise.matrix(K).dense())
    if same.condition(K) < 2 * math.sqrt(n):
        noise.check(K, n)
    else:
        with pytest.raises(InputError, match="noise is too ill-conditioned"):
            noise.check(K, n)


# Many classes

MANY = 10_000
STRUCTURED = {
    "uniform": nacp.UniformNoise(0.2),
    "private": nacp.RandomizedResponse(9.0),
    "groups": nacp.GroupNoise(np.arange(MANY) // 20, 0.2),
    "rates by group": nacp.GroupNoise(np.arange(MANY) % 3, {0: 0.1, 1: 0.2, 2: 0.3}),
}


@pytest.mark.parametrize("noise", STRUCTURED.values(), ids=STRUCTURED)
@pytest.mark.parametrize("score", ["hps", "raps"])
def test_ten_thousand_classes_need_no_dense_matrix(noise, score):
    n, even = 200, np.full(MANY, 1 / MANY)
    rng = np.random.default_rng(7)
    probs = rng.dirichlet(np.full(MANY, 1.0), size=n).astype(np.float32)
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


# Sparse matrices, and matrices of low rank


def test_a_sparse_matrix_is_made_dense():
    for given in (scipy.sparse.csr_array(SPARSE), scipy.sparse.coo_matrix(SPARSE)):
        assert nacp.MatrixNoise(given) == as_noise(given) == nacp.MatrixNoise(SPARSE)
        assert nacp.MatrixNoise.from_columns(given.T) == nacp.MatrixNoise(SPARSE)


def test_noise_of_low_rank_is_the_matrix_noise_of_the_product():
    right = RNG.dirichlet(np.ones(K), size=2).T
    noise = nacp.LowRankNoise(1 - LEFT.sum(axis=1), LEFT, right)
    expected = np.diag(1 - LEFT.sum(axis=1)) + LEFT @ right.T
    close(noise.matrix(K).dense(), expected, noise)
    scaled = nacp.LowRankNoise(1.00005 * noise.kept, 1.00005 * LEFT, right)
    close(scaled.matrix(K).dense(), expected, noise)
    close(scaled.kept, noise.kept, noise)


# Named constructors and formulas


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
        other = matrix.rest(np.array([0]))[0, 1]
        assert matrix.diagonal[0] / other == pytest.approx(
            math.exp(privacy), rel=1e3 * k * np.finfo(float).eps
        )


@pytest.mark.parametrize("noise", [MODELS["groups"], MODELS["matrix"], P], ids=["groups", "matrix", "array"])
def test_a_model_of_so_many_classes_is_for_these_alone(noise):
    assert noise_for(noise, K) == as_noise(noise)
    for refused in (
        lambda: noise_for(noise, K + 1),
        lambda: as_noise(noise).matrix(K + 1),
        lambda: as_noise(noise).inverse(K + 1),
        lambda: as_noise(noise).sample([0], K + 1),
    ):
        with pytest.raises(InputError, match=f"noise is for {K} classes, not for {K + 1}"):
            refused()


def test_a_short_form_that_is_wrong_is_called_noise():
    for wrong in (1.5, P[:2], P.T, [[1.0], [0.5, 0.5]], "uniform", nacp.UniformNoise):
        with pytest.raises(InputError) as caught:
            as_noise(wrong)
        assert caught.value.argument == "noise"


def test_short_forms_stand_for_models():
    assert as_noise(None) is None
    assert as_noise(0.25) == as_noise(np.float32(0.25)) == nacp.UniformNoise(0.25)
    assert as_noise(P.tolist()) == nacp.MatrixNoise(P)
    assert as_noise(MODELS["groups"]) is MODELS["groups"]
