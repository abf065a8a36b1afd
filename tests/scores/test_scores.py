"""What every score must do on every engine; and the uniform numbers behind the randomised ones."""

import numpy as np
import pytest
from scipy import stats

import nacp
from nacp.scores import SCORES, as_score
from tests.reading import blocks_of

pytestmark = pytest.mark.usefixtures("every_engine")


def doubled_minus(p):
    """Exact in every floating-point width, so that float32 and float64 may be compared bit for bit."""
    return -2 * p


ALL = [
    nacp.HPS(),
    nacp.APS(),
    nacp.APS(seed=7),
    nacp.APS(randomized=False),
    nacp.RAPS(),
    nacp.RAPS(penalty=0.5, free=1, seed=-3),
    nacp.RAPS(randomized=False),
    nacp.SAPS(),
    nacp.SAPS(randomized=False, penalty=0.01),
    nacp.Margin(),
    nacp.TopK(),
    nacp.Precomputed(),
    nacp.Custom(doubled_minus),
]
RANDOMIZED = [score for score in ALL if getattr(score, "randomized", False)]


def parameters(score):
    return "-".join(map(str, score.to_dict().values()))


every_score = pytest.mark.parametrize("score", ALL, ids=parameters)
every_randomized_score = pytest.mark.parametrize("score", RANDOMIZED, ids=parameters)
every_width = pytest.mark.parametrize("k", [2, 7, 40])


def softmax_rows(n, k, seed=0):
    """Float32 probabilities: ordinary rows, then rows with ties, with zeros, certain and even ones."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.standard_normal((n, k))
    logits[n // 2 : 3 * n // 4] = logits[n // 2 : 3 * n // 4].round()
    logits[3 * n // 4 :, k // 2 :] = -np.inf
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    probs[-1], probs[-2] = 1 / k, np.eye(k)[0]
    return probs.astype(np.float32)


def given(score, probs):
    """Return the input of a score: probabilities, or scores that fall as these rise."""
    return probs if score.takes_probabilities else -probs


def test_every_score_of_the_library_is_on_this_list():
    assert {type(score) for score in ALL} == {*SCORES.values(), nacp.Custom}


@every_score
@every_width
def test_scores_are_finite_and_never_rise_with_the_probability(score, k):
    probs = softmax_rows(80, k)
    scores = score.scores(given(score, probs))
    assert scores.shape == probs.shape
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()
    more = probs[:, :, None] > probs[:, None, :]
    equal = probs[:, :, None] == probs[:, None, :]
    assert (scores[:, :, None] <= scores[:, None, :])[more].all()
    assert (scores[:, :, None] == scores[:, None, :])[equal].all()


@every_score
@every_width
def test_a_row_has_its_scores_in_any_batch_and_order(score, k):
    matrix = given(score, softmax_rows(40, k))
    scores = score.scores(matrix)
    order = np.random.default_rng(2).permutation(40)
    np.testing.assert_array_equal(score.scores(matrix[order]), scores[order])
    np.testing.assert_array_equal(np.concatenate([score.scores(row[None]) for row in matrix]), scores)


def test_names_stand_for_scores():
    assert as_score("lac") == as_score("thr") == as_score("hps") == as_score("LAC") == nacp.HPS()
    assert [as_score(name) for name in ("aps", "raps", "saps", "margin", "topk")] == [
        nacp.APS(randomized=True, seed=0),
        nacp.RAPS(randomized=True, seed=0, penalty=0.01, free=5),
        nacp.SAPS(randomized=True, seed=0, penalty=0.2),
        nacp.Margin(),
        nacp.TopK(),
    ]
    assert as_score(doubled_minus) == nacp.Custom(doubled_minus)


# The uniform numbers


@pytest.fixture(scope="module", params=[2, 10, 100])
def uniform_rows(request):
    probs = np.exp(3 * np.random.default_rng(5).standard_normal((3000, request.param)))
    return (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32)


def test_u_is_uniform_and_says_nothing_about_the_row_or_u_of_another_seed(uniform_rows):
    u = [nacp.APS(seed=seed).uniforms(uniform_rows) for seed in (0, 1, 2, -1, 2**40, 2**63)]
    # 3 widths x 6 seeds: true uniforms would fall below 1e-5 somewhere in one of 5,000 such test runs.
    for each in u:
        assert each.min() >= 0
        assert each.max() < 1
        assert stats.kstest(each, "uniform").pvalue > 1e-5
    # Independent samples correlate with a standard error of 1/sqrt(n); five of them, for 3 x 21 pairs.
    columns = [*u, uniform_rows.max(axis=1)]
    correlations = np.corrcoef(columns)[np.triu_indices(len(columns), 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(3000)


def test_u_is_the_same_for_the_same_row_in_any_batch_order_and_width(uniform_rows):
    aps, order = nacp.APS(seed=3), np.random.default_rng(6).permutation(3000)
    u = aps.uniforms(uniform_rows)
    np.testing.assert_array_equal(aps.uniforms(uniform_rows[order]), u[order])
    np.testing.assert_array_equal(aps.uniforms(uniform_rows.astype(np.float64)), u)
    np.testing.assert_array_equal(aps.uniforms(np.asfortranarray(uniform_rows)), u)
    with blocks_of(1):
        np.testing.assert_array_equal(aps.uniforms(uniform_rows[:100]), u[:100])


def test_u_changes_with_the_last_bit_of_the_row_and_with_the_order_of_its_columns():
    row = np.array([0.5, 0.25, 0.25])
    nearly = np.array([0.5, np.nextafter(0.25, 1), 0.25])
    u = nacp.APS().uniforms([row, nearly, np.roll(row, 1), np.roll(row, 2)])
    assert len(set(u)) == 4
    assert nacp.APS().uniforms([[1.0, 0.0]]) == nacp.APS().uniforms([[1.0, -0.0]])


@every_randomized_score
def test_a_randomised_score_uses_u_and_its_seed(score):
    probs = softmax_rows(40, 7)
    other = type(score)(**vars(score) | {"seed": score.seed + 1})
    assert (score.uniforms(probs) != other.uniforms(probs)).all()
    top = probs.argmax(axis=1)
    expected = score.uniforms(probs) * probs.max(axis=1).astype(np.float64)
    unpenalised = type(score)(**vars(score) | {"penalty": 0.0}) if hasattr(score, "penalty") else score
    np.testing.assert_array_equal(unpenalised.label_scores(probs, top), expected)


def test_native_thresholds_are_the_largest_that_do_not_exceed_the_given_ones():
    """HPS adds 1 to its native scores, -p."""
    rng, score, powers = np.random.default_rng(0), nacp.HPS(), 2.0 ** -np.arange(1.0, 50)
    given = np.concatenate([rng.random(2000), 1 - powers, powers, [0]])
    given = np.concatenate([given, np.nextafter(given, 2), np.nextafter(given, -1)])
    native = score.to_native(given)
    assert (native + score.offset <= given).all()
    assert (np.nextafter(native, np.inf) + score.offset > given).all()
