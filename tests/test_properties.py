"""What must hold for every input: invariances, orderings and equivalences of the public functions."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import nacp
from nacp.coverage.curve import RULES
from tests.oracle import grid_point
from tests.reading import blocks_of

DETERMINISTIC = (
    nacp.HPS(),
    nacp.APS(randomized=False),
    nacp.RAPS(randomized=False, free=1),
    nacp.SAPS(randomized=False),
    nacp.Margin(),
    nacp.TopK(),
    nacp.Precomputed(),
)
SCORES = (*DETERMINISTIC, nacp.APS(), nacp.RAPS(seed=3, free=1), nacp.SAPS(seed=-1))

sizes = st.tuples(st.integers(1, 10), st.integers(2, 5))
alphas = st.integers(1, 99).map(lambda i: i / 100)
rules = st.sampled_from(RULES)


@st.composite
def real_rows(draw: Any, n: int, k: int) -> np.ndarray:
    """Ratios of small integers: ties and zeros, but rounded values."""
    weights = draw(arrays(np.int64, (n, k), elements=st.integers(0, 8)))
    weights[weights.sum(axis=1) == 0, 0] = 1
    return (weights / weights.sum(axis=1, keepdims=True)).astype(
        draw(st.sampled_from([np.float64, np.float32, np.float16]))
    )


@st.composite
def noise_matrices(draw: Any, k: int) -> np.ndarray:
    """Each class is taken for the next with probability at most 3/16, so that ||W|| <= 8/5."""
    away = draw(arrays(np.int64, k, elements=st.integers(0, 3))) / 16
    P = np.diag(1 - away)
    P[np.arange(k), (np.arange(k) + 1) % k] += away
    return P


@cache
def usable_rates(n: int, k: int) -> list[float]:
    """The rates of uniform noise under which n labels say enough not to be refused."""
    return [i / 100 for i in range(91) if nacp.UniformNoise(i / 100).condition(k) < 2 * n**0.5]


def rates(n: int, k: int) -> st.SearchStrategy[float]:
    return st.sampled_from(usable_rates(n, k))


def noises(n: int, k: int) -> st.SearchStrategy[Any]:
    groups = st.lists(st.integers(0, 2), min_size=k, max_size=k)
    return st.one_of(
        st.none(),
        st.sampled_from([rate for rate in (0.0, 0.2, 0.5) if rate in usable_rates(n, k)]),
        groups.map(lambda g: nacp.GroupNoise(g, rate=0.3)),
        noise_matrices(k).map(nacp.MatrixNoise),
    )


@dataclass(frozen=True)
class Problem:
    probs: np.ndarray
    labels: np.ndarray
    noise: Any
    score: nacp.Score
    alpha: float
    crossing: str

    @property
    def options(self) -> dict[str, Any]:
        return dict(vars(self))

    def calibrate(self, **changes: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nacp.NoiseModelWarning)  # labels are any, not drawn by the model
            return nacp.calibrate(**{"guarantee": "none"} | self.options | changes)

    def curve(self, **changes: Any) -> nacp.CoverageCurve:
        """The estimates at every score of the problem."""
        at = np.unique(self.score.scores(self.probs))
        options = {"probs": self.probs, "labels": self.labels, "noise": self.noise, "score": self.score}
        return nacp.coverage_curve(**options | {"thresholds": at} | changes)


@st.composite
def problems(draw: Any, scores: Any = SCORES, noise: Any = noises) -> Problem:
    n, k = draw(sizes)
    return Problem(
        probs=draw(real_rows(n, k)),
        labels=draw(arrays(np.int64, n, elements=st.integers(0, k - 1))),
        noise=draw(noise(n, k)),
        score=draw(st.sampled_from(scores)),
        alpha=draw(alphas),
        crossing=draw(rules),
    )


uniform_problems = problems(noise=rates)


def exact(decimal: float) -> Fraction:
    """The number that was meant: 0.1 is 1/10."""
    return Fraction(str(decimal))


def quantile(scores: np.ndarray, share: Fraction) -> float:
    """The smallest score s such that at least this share of the scores is <= s."""
    return np.sort(scores)[math.ceil(len(scores) * share) - 1]


block_sizes = st.sampled_from([1, 7, 40])


def forall(*strategies: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """State a property of everything that the strategies draw; the same draws in every run."""
    return lambda test: settings(deadline=None, derandomize=True, max_examples=60)(given(*strategies)(test))


# Invariances


@forall(problems(), block_sizes, st.data())
def test_the_order_of_the_rows_does_not_matter(problem, entries, data):
    order = data.draw(st.permutations(range(len(problem.labels))))
    cal = problem.calibrate()
    with blocks_of(entries):
        shuffled = problem.calibrate(probs=problem.probs[order], labels=problem.labels[order])
    assert shuffled.native_threshold == cal.native_threshold
    sets = cal.predict_set(problem.probs)
    assert shuffled.predict_set(problem.probs[order]).to_lists() == [sets[i] for i in order]


@forall(problems(scores=DETERMINISTIC), st.data())
def test_renaming_the_classes_renames_the_labels_in_the_sets(problem, data):
    """Of randomised scores this is not asked: u is a hash of the row as it stands."""
    order = np.array(data.draw(st.permutations(range(problem.probs.shape[1]))))
    noise = problem.noise
    if isinstance(noise, nacp.MatrixNoise):
        noise = noise.P[np.ix_(order, order)]
    elif isinstance(noise, nacp.GroupNoise):
        noise = nacp.GroupNoise([noise.groups[i] for i in order], rate=noise.rate)
    cal = problem.calibrate()
    renamed = problem.calibrate(
        probs=problem.probs[:, order], labels=np.argsort(order)[problem.labels], noise=noise
    )
    assert renamed.native_threshold == cal.native_threshold
    sets = np.asarray(cal.predict_set(problem.probs))
    assert np.array_equal(renamed.predict_set(problem.probs[:, order]), sets[:, order])


@forall(problems())
def test_a_row_has_the_same_set_alone_and_among_others(problem):
    cal = problem.calibrate()
    alone = [cal.predict_set(problem.probs[i : i + 1])[0] for i in range(len(problem.labels))]
    assert cal.predict_set(problem.probs).to_lists() == alone


@forall(problems(), st.data())
@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_inputs_are_never_changed(problem, data):
    k = problem.probs.shape[1]
    given_arrays = {
        "probs": problem.probs,
        "labels": problem.labels,
        "P": data.draw(noise_matrices(k)),
        "priors": np.full(k, 1 / k),
        "thresholds": np.array([0.5, 0.25, 1.0]),
    }
    before = {name: array.copy() for name, array in given_arrays.items()}
    problem.calibrate(normalize=problem.score.takes_probabilities).predict_set(
        problem.probs, allow_empty=False
    )
    problem.calibrate(noise=given_arrays["P"], guarantee=nacp.ACNL(given_arrays["priors"]))
    problem.curve(thresholds=given_arrays["thresholds"], noise=given_arrays["P"])
    nacp.compare_with_noisy_cp(problem.probs, problem.labels, noise=0.2, score=problem.score)
    own = problem.score.label_scores(problem.probs, problem.labels)
    before["own"], given_arrays["own"] = own.copy(), own
    nacp.threshold_bracket(own, epsilon=0.2, k=k, alpha=0.1)
    for name, array in given_arrays.items():
        assert array.flags.writeable
        assert array.tobytes() == before[name].tobytes(), name


# Orderings


@forall(problems(), alphas)
def test_thresholds_fall_as_alpha_rises_and_the_last_crossing_is_not_before_the_first(problem, other):
    low, high = sorted([problem.alpha, other])
    for crossing in RULES:
        cals = problem.calibrate(alpha=[low, high], crossing=crossing)
        assert cals[0].threshold >= cals[1].threshold
    assert problem.calibrate(crossing="last").threshold >= problem.calibrate(crossing="first").threshold


@forall(uniform_problems)
def test_theorem_3_1_both_crossings_lie_between_two_quantiles(problem):
    """The upper end is moved to the grid, as the threshold is; a score rounds by less than 1e-12."""
    own = problem.score.label_scores(problem.probs, problem.labels)
    k, epsilon, alpha = problem.probs.shape[1], exact(problem.noise), exact(problem.alpha)
    shares = (1 - alpha) * (1 - epsilon) / (1 - epsilon / k), 1 - alpha + alpha * epsilon
    low, high = nacp.threshold_bracket(own, epsilon=problem.noise, k=k, alpha=problem.alpha)
    assert (low, high) == tuple(quantile(own, share) for share in shares)
    assert low <= problem.calibrate(crossing="first").threshold
    upper = float(grid_point(high + 1e-12))
    assert problem.calibrate(crossing="last").threshold <= upper


FIFTH = Problem(np.array([[6, 2, 4, 2, 2]]) / 16, np.array([0]), 0.2, nacp.HPS(), alpha=0.8, crossing="first")


@forall(uniform_problems)
@example(FIFTH)  # one label of five: F^r = 1/5 = 1 - 0.8, but 1 - 0.8 < 1/5 in binary
def test_theorem_3_2_small_sets_are_not_above_those_of_noisy_cp_and_large_ones_not_below(problem):
    """With q of the noise-aware rule and q~ of Noisy-CP.

    If F^r(q) <= 1 - alpha and q~ < q, then F^r(q~) <= 1 - alpha and F^c(q~) >= 1 - alpha: q was not the
    first. If F^r(q) > 1 - alpha, then F^n(q) > 1 - alpha, so q >= q~. The paper's "if and only if" needs
    F^c(q) = 1 - alpha; on a sample F^c-hat may jump past it, and q = q~ occurs on both sides.
    """
    options = problem.options
    del options["crossing"]  # the theorem is about the first
    found = nacp.compare_with_noisy_cp(**options)
    assert found.threshold == problem.calibrate(crossing="first").threshold
    assert found.noisy_threshold == problem.calibrate(crossing="first", noise=None).threshold
    scores = problem.score.scores(problem.probs)
    random_coverage = Fraction(int(np.count_nonzero(scores <= found.threshold)), scores.size)
    assert found.random_coverage == float(random_coverage)
    assert found.smaller == (random_coverage <= 1 - exact(problem.alpha))
    if found.smaller:
        assert found.threshold <= found.noisy_threshold
    else:
        assert found.threshold >= found.noisy_threshold


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("rule", RULES)
def test_a_threshold_reaches_its_target_also_if_the_rows_of_the_matrix_sum_to_one_in_four_digits(rule):
    probs, labels = [[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]], [1, 1, 0]
    P = [[0.9, 0.1001], [0.1, 0.9001]]
    cal = nacp.calibrate(probs, labels, noise=P, alpha=1e-5, guarantee="none", crossing=rule)
    assert cal.threshold == math.inf or cal.estimate >= 1 - 1e-5


# Equivalences


@forall(uniform_problems)
def test_uniform_noise_is_its_matrix_and_is_one_group(problem):
    k = problem.probs.shape[1]
    matrix = (1 - problem.noise) * np.eye(k) + problem.noise / k
    cal, curve = problem.calibrate(), problem.curve()
    for same in (nacp.MatrixNoise(matrix), nacp.GroupNoise(["all"] * k, rate=problem.noise)):
        assert problem.calibrate(noise=same).native_threshold == cal.native_threshold
        np.testing.assert_allclose(problem.curve(noise=same).clean, curve.clean, rtol=0, atol=1e-12)
