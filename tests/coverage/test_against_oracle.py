"""Every engine against tests/oracle.py: scores, estimates, thresholds and sets in exact arithmetic.

Probabilities are multiples of 1/16 or 1/64 unless a test says otherwise, so that deterministic scores are
exact in floating point and most of them are tied. Rates, matrices and alphas are short decimals or dyadic
numbers: every F^c-hat is then a rational whose denominator is below 1e11, so one that differs from its target
at all differs by more than the 1e-12 that the library calls rounding.
"""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import nacp
from tests import oracle
from tests.problems import NOISES, dyadic_rows, softmax_rows
from tests.reading import blocks_of

on_every_engine = pytest.mark.usefixtures("every_engine")

ALPHAS = (0.01, 0.05, 0.1, 0.25, 0.3, 0.5, 0.8)
CROSSINGS = {"first": oracle.first_crossing, "last": oracle.last_crossing}
DTYPES = (np.float16, np.float32, np.float64)


@dataclass(frozen=True)
class ScoreCase:
    """A score of the library, and how the oracle is asked for it."""

    score: nacp.Score
    name: str
    parameters: dict[str, Any] = field(default_factory=dict)

    def by_definition(self, probs: np.ndarray) -> list[list[Fraction]]:
        if self.name == "precomputed":
            return oracle.exact_rows(probs)
        if not getattr(self.score, "randomized", False):
            return [oracle.scores(self.name, row, **self.parameters) for row in probs]
        us = [oracle.uniforms(row, self.score.seed) for row in probs]
        return [
            oracle.scores(self.name, row, u=u, **self.parameters) for row, u in zip(probs, us, strict=True)
        ]

    def exact(self, probs: np.ndarray) -> list[list[Fraction]]:
        """The definition; of a randomised score the library's floats, because u p rounds."""
        if getattr(self.score, "randomized", False):
            return oracle.exact_rows(self.score.scores(probs))
        return self.by_definition(probs)


RAPS_PARAMETERS = {"penalty": 1 / 8, "free": 2}
SAPS_PARAMETERS = {"penalty": 1 / 4}
DETERMINISTIC = {
    "hps": ScoreCase(nacp.HPS(), "hps"),
    "aps": ScoreCase(nacp.APS(randomized=False), "aps"),
    "raps": ScoreCase(nacp.RAPS(randomized=False, **RAPS_PARAMETERS), "raps", RAPS_PARAMETERS),
    "saps": ScoreCase(nacp.SAPS(randomized=False, **SAPS_PARAMETERS), "saps", SAPS_PARAMETERS),
    "margin": ScoreCase(nacp.Margin(), "margin"),
    "topk": ScoreCase(nacp.TopK(), "topk"),
    "precomputed": ScoreCase(nacp.Precomputed(), "precomputed"),
}
RANDOMIZED = {
    "aps-u": ScoreCase(nacp.APS(), "aps"),
    "raps-u": ScoreCase(nacp.RAPS(seed=-7, **RAPS_PARAMETERS), "raps", RAPS_PARAMETERS),
    "saps-u": ScoreCase(nacp.SAPS(seed=2**64 + 5, **SAPS_PARAMETERS), "saps", SAPS_PARAMETERS),
}
SCORES = DETERMINISTIC | RANDOMIZED


def inputs_for(case: ScoreCase, rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    if case.name == "precomputed":
        return rng.integers(-6, 7, size=(n, k)) / 4
    return dyadic_rows(rng, n, k)


def small_problems(
    case: ScoreCase, seed: int, count: int, most_classes: int = 6
) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """(generator, probs, labels) of `count` problems with n <= 12 and k <= 6, in all three dtypes."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n, k = int(rng.integers(1, 13)), int(rng.integers(2, most_classes + 1))
        probs = inputs_for(case, rng, n, k).astype(DTYPES[rng.integers(3)])
        yield rng, probs, rng.integers(k, size=n)


def thresholds_of(probs: np.ndarray, labels: np.ndarray, **options: Any) -> list[float]:
    return [cal.threshold for cal in nacp.calibrate(probs, labels, guarantee="none", **options)]


LARGEST = 2.0**20 * 2047 / 1024  # the distance of the last finite points of the grid from 0 and 1
BLOCKS = (1 << 20, 16)  # entries of a block: all rows at once, or a few at a time


def expect_threshold(exact: Fraction | None) -> Any:
    """The library warns exactly where the oracle finds no threshold."""
    return pytest.warns(nacp.NoValidThresholdWarning) if exact is None else nullcontext()


def as_float(exact: Fraction | None) -> float:
    return math.inf if exact is None else float(exact)


def members(sets: nacp.PredictionSets) -> list[set[int]]:
    return [set(row) for row in sets.to_lists()]


# Scores


@on_every_engine
@pytest.mark.parametrize("case", DETERMINISTIC.values(), ids=DETERMINISTIC)
def test_deterministic_scores_are_the_definition_exactly(case):
    for _, probs, _ in small_problems(case, seed=1, count=20):
        assert oracle.exact_rows(case.score.scores(probs)) == case.by_definition(probs)


@on_every_engine
@pytest.mark.parametrize("case", RANDOMIZED.values(), ids=RANDOMIZED)
def test_uniforms_are_the_keyed_hash_of_the_row_exactly(case):
    rng = np.random.default_rng(2)
    for k in (2, 5, 16, 17, 31, 200):
        probs = np.concatenate([dyadic_rows(rng, 20, k), softmax_rows(rng, 20, k)])
        expected = [oracle.uniforms(row, case.score.seed) for row in probs]
        assert case.score.uniforms(probs).tolist() == expected


@on_every_engine
@pytest.mark.parametrize("case", SCORES.values(), ids=SCORES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_of_real_valued_rows_are_the_definition(case, dtype):
    rng = np.random.default_rng(4)
    for k in (2, 3, 6, 20):
        probs = softmax_rows(rng, 10, k).astype(dtype)
        np.testing.assert_allclose(
            case.score.scores(probs), np.array(case.by_definition(probs), dtype=float), rtol=0, atol=1e-12
        )


# Coverage, thresholds and sets


@pytest.mark.parametrize("noise_kind", NOISES)
@pytest.mark.parametrize("case", SCORES.values(), ids=SCORES)
def test_coverage_estimates_are_the_definitions_at_every_score(case, noise_kind):
    for rng, probs, labels in small_problems(case, seed=6, count=3):
        n, k = probs.shape
        noise, P = NOISES[noise_kind](rng, n, k)
        scores = case.score.scores(probs)
        rows, W = oracle.exact_rows(scores), oracle.inverse(P)
        at = np.concatenate([[scores.min() - 1], np.unique(scores), [np.inf]])
        curve = nacp.coverage_curve(probs, labels, noise=noise, score=case.score, thresholds=at)
        assert curve.thresholds.tolist() == at.tolist()
        for found, expected in (
            (curve.noisy, [oracle.noisy_coverage(rows, labels, q) for q in at]),
            (curve.random, [oracle.random_coverage(rows, q) for q in at]),
            (curve.clean, [oracle.clean_coverage(rows, labels, W, q) for q in at]),
        ):
            np.testing.assert_allclose(found, np.array(expected, dtype=float), rtol=0, atol=1e-12)


@on_every_engine
@pytest.mark.parametrize("noise_kind", NOISES)
@pytest.mark.parametrize("case", SCORES.values(), ids=SCORES)
def test_thresholds_and_sets_are_the_definitions(case, noise_kind):
    for rng, probs, labels in small_problems(case, seed=7, count=3):
        n, k = probs.shape
        noise, P = NOISES[noise_kind](rng, n, k)
        rows, W = case.exact(probs), oracle.inverse(P)
        alphas = rng.choice(ALPHAS, size=2, replace=False).tolist()
        for (rule, cross), entries in zip(CROSSINGS.items(), BLOCKS, strict=True):
            options = {"noise": noise, "score": case.score, "alpha": alphas, "crossing": rule}
            on_grid = oracle.on_grid(rows)
            exact = [cross(on_grid, labels, W, 1 - Fraction(str(alpha))) for alpha in alphas]
            sets = [[oracle.in_set(row, q) for row in rows] for q in exact]
            with blocks_of(entries):
                calibrations = nacp.calibrate(probs, labels, guarantee="none", **options)
                assert [cal.threshold for cal in calibrations] == [float(q) for q in exact]
                assert [members(cal.predict_set(probs)) for cal in calibrations] == sets


@on_every_engine
@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning", "ignore::nacp.NoiseModelWarning")
@pytest.mark.parametrize("rule", CROSSINGS)
@pytest.mark.parametrize("noise_kind", ["uniform", "matrix"])
def test_scores_of_all_sizes_are_moved_up_to_the_grid(noise_kind, rule):
    """Next to 0 and 1, next to other numbers, denormal, and beyond the ends of the grid."""
    rng, n, k = np.random.default_rng(3), 40, 15
    noise, P = NOISES[noise_kind](rng, n, k)
    sizes = np.concatenate([[0.0, np.inf, 1e300, 2.0**20 - 1], 2.0 ** np.arange(-1074, -20, 21)])
    numbers = np.concatenate([sizes, -sizes, np.nextafter(0.3, [0, 1]), np.nextafter(1.0, [0, 2])])
    scores, labels = numbers[rng.integers(len(numbers), size=(n, k))], rng.integers(k, size=n)
    alphas = [0.05, 0.3, 0.5, 0.6, 0.99]
    found = thresholds_of(scores, labels, noise=noise, score="precomputed", alpha=alphas, crossing=rule)
    moved = oracle.on_grid(np.clip(scores, -LARGEST, 1e30))
    exact = [CROSSINGS[rule](moved, labels, oracle.inverse(P), 1 - Fraction(str(a))) for a in alphas]
    assert np.minimum(found, 1e30).tolist() == [min(as_float(q), 1e30) for q in exact]


@on_every_engine
@pytest.mark.parametrize("rule", CROSSINGS)
def test_with_a_matrix_the_target_may_be_reached_beyond_the_last_noisy_score(rule):
    """The row of W is (169, -39, 9)/139 and its labels enter in the order 1, 0, 2."""
    P = np.array([[13, 3, 0], [0, 13, 3], [3, 0, 13]]) / 16
    scores, labels = np.array([[1.0, 0.0, 2.0]] * 3), np.array([0, 0, 0])
    options = {"noise": P, "score": "precomputed", "alpha": [0.05, 0.1], "crossing": rule}
    for entries in BLOCKS:
        with blocks_of(entries):
            assert thresholds_of(scores, labels, **options) == [2.0, 1.0]


def test_a_target_counts_as_reached_within_rounding_and_no_further():
    """Two of three labels score at most 1/2: that reaches 2/3, and misses 2/3 + 1e-10."""
    probs, labels = np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), np.array([0, 0, 0])
    for rule in CROSSINGS:
        options = {"noise": None, "alpha": [1 / 3, 1 / 3 - 1e-10], "crossing": rule}
        assert thresholds_of(probs, labels, **options) == [0.5, 0.75]


@pytest.mark.parametrize("case", SCORES.values(), ids=SCORES)
def test_clean_labels_give_split_conformal_prediction(case):
    for rng, probs, labels in small_problems(case, seed=8, count=12):
        alpha = float(rng.choice(ALPHAS))
        own = [row[label] for row, label in zip(case.exact(probs), labels, strict=True)]
        exact = oracle.split_conformal(own, Fraction(str(alpha)))
        with expect_threshold(exact):
            cal = nacp.calibrate(probs, labels, noise=None, alpha=alpha, score=case.score)
        assert cal.threshold == as_float(exact)


@on_every_engine
@pytest.mark.parametrize("case", SCORES.values(), ids=SCORES)
def test_sets_of_new_rows_are_the_labels_that_score_at_most_the_threshold(case):
    empty = 0
    for rng, probs, labels in small_problems(case, seed=10, count=10):
        k = probs.shape[1]
        new = inputs_for(case, rng, 10, k).astype(DTYPES[rng.integers(3)])
        best = [
            set(np.flatnonzero(row == row.max())) for row in (-new if case.name == "precomputed" else new)
        ]
        alpha = float(rng.choice([0.1, 0.5, 0.9]))
        cal = nacp.calibrate(probs, labels, noise=0.2, alpha=alpha, score=case.score, guarantee="none")
        expected = [oracle.in_set(row, cal.threshold) for row in case.exact(new)]
        filled = [labels or most_probable for labels, most_probable in zip(expected, best, strict=True)]
        for entries in BLOCKS:
            with blocks_of(entries):
                assert members(cal.predict_set(new)) == expected
                assert members(cal.predict_set(new, allow_empty=False)) == filled
        empty += expected.count(set())
    assert empty > 0


# Corrected targets


EVEN = [0.5, 0.5]


CORRECTED = {
    "nacp": (nacp.NACP(delta=0.9), lambda P, y, alpha: oracle.nacp_correction(len(y), 0.1, 0.9)),
    "acnl": (
        nacp.ACNL(EVEN),
        lambda P, y, alpha: oracle.acnl_correction(len(y), min(np.bincount(y)), P, EVEN),
    ),
    "crcp": (nacp.CRCP(EVEN), lambda P, y, alpha: oracle.crcp_excess(alpha, len(y), P, EVEN)),
}


@pytest.mark.parametrize("rule", CROSSINGS)
@pytest.mark.parametrize(("guarantee", "correction"), CORRECTED.values(), ids=CORRECTED)
def test_a_correction_moves_the_target_and_beyond_one_there_is_no_threshold(guarantee, correction, rule):
    case, P, found = DETERMINISTIC["aps"], oracle.uniform_matrix(Fraction("0.1"), 2), []
    for rng, probs, labels in small_problems(case, seed=9, count=60, most_classes=2):
        if len(set(labels)) < 2:
            continue
        alpha = float(rng.choice([0.05, 0.5]))
        delta = correction(P, labels, alpha)
        target = 1 - Fraction(str(alpha)) + oracle.exact(delta)
        exact = None
        if target <= 1:
            exact = CROSSINGS[rule](oracle.on_grid(case.exact(probs)), labels, oracle.inverse(P), target)
        options = {"score": case.score, "guarantee": guarantee, "crossing": rule}
        with expect_threshold(exact):
            cal = nacp.calibrate(probs, labels, noise=0.1, alpha=alpha, **options)
        assert cal.threshold == as_float(exact)
        assert cal.correction == pytest.approx(delta, rel=1e-12)
        found.append(cal.threshold)
    assert np.isinf(found).any()
    assert np.isfinite(found).any()


@pytest.mark.parametrize("rule", CROSSINGS)
def test_an_estimate_above_one_does_not_reach_a_target_above_one(rule):
    """F^c(0) = (1 - 1/2 · 1/4)/(1/2) = 7/4, but at the largest score F^c is 1."""
    scores, labels = np.array([[0.0, 1.0, 1.0, 1.0]] * 20), np.zeros(20, dtype=int)
    with pytest.warns(nacp.NoValidThresholdWarning), pytest.warns(nacp.NoiseModelWarning):
        cal = nacp.calibrate(
            scores, labels, noise=0.5, score="precomputed", guarantee="nacp", delta=0.9, crossing=rule
        )
    assert 1 < 1 - cal.alpha + cal.correction < 7 / 4
    assert cal.threshold == math.inf
