"""What must hold for every input: invariances, orderings and equivalences of the public functions."""

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import nacp
from nacp.coverage.curve import RULES
from tests.oracle import grid_point
from tests.problems import NOISES, dyadic_matrix
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


@dataclass(frozen=True)
class Problem:
    probs: np.ndarray
    labels: np.ndarray
    noise: Any
    score: nacp.Score
    alpha: float
    crossing: str

    def calibrate(self, **changes):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nacp.NoiseModelWarning)  # labels are any, not drawn by the model
            return nacp.calibrate(**{"guarantee": "none"} | vars(self) | changes)

    def curve(self, **changes):
        """The estimates at every score of the problem."""
        at = np.unique(self.score.scores(self.probs))
        options = {"probs": self.probs, "labels": self.labels, "noise": self.noise, "score": self.score}
        return nacp.coverage_curve(**options | {"thresholds": at} | changes)


def any_rate(rng, n, k):
    """A rate of uniform noise under which n labels say enough not to be refused."""
    usable = [i / 100 for i in range(91) if nacp.UniformNoise(i / 100).condition(k) < 2 * n**0.5]
    return float(rng.choice(usable)), None


ANY_NOISE = tuple(NOISES.values())


def problems(scores=SCORES, noises=ANY_NOISE):
    """The same small problems in every run, each with its generator: ties and zeros, but rounded values."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 11)), int(rng.integers(2, 6))
        weights = rng.integers(9, size=(n, k))
        weights[weights.sum(axis=1) == 0, 0] = 1
        width = (np.float64, np.float32, np.float16)[seed % 3]
        yield (
            rng,
            Problem(
                probs=(weights / weights.sum(axis=1, keepdims=True)).astype(width),
                labels=rng.integers(k, size=n),
                noise=noises[rng.integers(len(noises))](rng, n, k)[0],
                score=scores[rng.integers(len(scores))],
                alpha=int(rng.integers(1, 100)) / 100,
                crossing=RULES[rng.integers(len(RULES))],
            ),
        )


def exact(decimal):
    """The number that was meant: 0.1 is 1/10."""
    return Fraction(str(decimal))


def quantile(scores, share):
    """The smallest score s such that at least this share of the scores is <= s."""
    return np.sort(scores)[math.ceil(len(scores) * share) - 1]


# Invariances


def test_the_order_of_the_rows_does_not_matter():
    for rng, problem in problems():
        order, cal = rng.permutation(len(problem.labels)), problem.calibrate()
        with blocks_of((1, 7, 40)[rng.integers(3)]):
            shuffled = problem.calibrate(probs=problem.probs[order], labels=problem.labels[order])
        assert shuffled.native_threshold == cal.native_threshold
        sets = cal.predict_set(problem.probs)
        assert shuffled.predict_set(problem.probs[order]).to_lists() == [sets[i] for i in order]


def test_renaming_the_classes_renames_the_labels_in_the_sets():
    """Of randomised scores this is not asked: u is a hash of the row as it stands."""
    for rng, problem in problems(scores=DETERMINISTIC):
        order, noise = rng.permutation(problem.probs.shape[1]), problem.noise
        if isinstance(noise, nacp.MatrixNoise):
            noise = noise.P[np.ix_(order, order)]
        elif isinstance(noise, nacp.GroupNoise):
            noise = nacp.GroupNoise([noise.groups[i] for i in order], rate=noise.rate)
        cal, labels = problem.calibrate(), np.argsort(order)[problem.labels]
        renamed = problem.calibrate(probs=problem.probs[:, order], labels=labels, noise=noise)
        assert renamed.native_threshold == cal.native_threshold
        sets = np.asarray(cal.predict_set(problem.probs))
        assert np.array_equal(renamed.predict_set(problem.probs[:, order]), sets[:, order])


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_inputs_are_never_changed():
    for rng, problem in problems():
        n, k = problem.probs.shape
        given = {
            "probs": problem.probs,
            "labels": problem.labels,
            "P": dyadic_matrix(rng, n, k),
            "priors": np.full(k, 1 / k),
            "thresholds": np.array([0.5, 0.25, 1.0]),
            "own": problem.score.label_scores(problem.probs, problem.labels),
        }
        before = {name: array.copy() for name, array in given.items()}
        cal = problem.calibrate(normalize=problem.score.takes_probabilities)
        cal.predict_set(problem.probs, allow_empty=False)
        problem.calibrate(noise=given["P"], guarantee=nacp.ACNL(given["priors"]))
        problem.curve(thresholds=given["thresholds"], noise=given["P"])
        nacp.compare_with_noisy_cp(problem.probs, problem.labels, noise=0.2, score=problem.score)
        nacp.threshold_bracket(given["own"], epsilon=0.2, k=k, alpha=0.1)
        for name, array in given.items():
            assert array.flags.writeable
            assert array.tobytes() == before[name].tobytes(), name


# Orderings


def test_thresholds_fall_as_alpha_rises_and_the_last_crossing_is_not_before_the_first():
    for rng, problem in problems():
        alphas = sorted([problem.alpha, int(rng.integers(1, 100)) / 100])
        first, last = (problem.calibrate(alpha=alphas, crossing=rule) for rule in ("first", "last"))
        for cals in (first, last):
            assert cals[0].threshold >= cals[1].threshold
        assert all(late.threshold >= early.threshold for late, early in zip(last, first, strict=True))


def test_theorem_3_1_both_crossings_lie_between_two_quantiles():
    """The upper end is moved to the grid, as the threshold is; a score rounds by less than 1e-12."""
    for _, problem in problems(noises=[any_rate]):
        own = problem.score.label_scores(problem.probs, problem.labels)
        k, epsilon, alpha = problem.probs.shape[1], exact(problem.noise), exact(problem.alpha)
        shares = (1 - alpha) * (1 - epsilon) / (1 - epsilon / k), 1 - alpha + alpha * epsilon
        low, high = nacp.threshold_bracket(own, epsilon=problem.noise, k=k, alpha=problem.alpha)
        assert (low, high) == tuple(quantile(own, share) for share in shares)
        assert low <= problem.calibrate(crossing="first").threshold
        assert problem.calibrate(crossing="last").threshold <= float(grid_point(high + 1e-12))


# One label of five: F^r = 1/5 = 1 - 0.8, but 1 - 0.8 < 1/5 in binary.
FIFTH = Problem(np.array([[6, 2, 4, 2, 2]]) / 16, np.array([0]), 0.2, nacp.HPS(), alpha=0.8, crossing="first")


def test_theorem_3_2_small_sets_are_not_above_those_of_noisy_cp_and_large_ones_not_below():
    """With q of the noise-aware rule and q~ of Noisy-CP.

    If F^r(q) <= 1 - alpha and q~ < q, then F^r(q~) <= 1 - alpha and F^c(q~) >= 1 - alpha: q was not the
    first. If F^r(q) > 1 - alpha, then F^n(q) > 1 - alpha, so q >= q~. The paper's "if and only if" needs
    F^c(q) = 1 - alpha; on a sample F^c-hat may jump past it, and q = q~ occurs on both sides.
    """
    for _, problem in [(None, FIFTH), *problems(noises=[any_rate])]:
        options = dict(vars(problem))
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
