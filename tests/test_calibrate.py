"""`calibrate`: what it refuses, and what it says where no threshold keeps the promise."""

import re
import warnings

import numpy as np
import pytest

import nacp
from nacp.guarantees import Problem
from tests.refusals import refusal, says

K, N = 4, 60
RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(K), size=N)
LABELS = RNG.integers(K, size=N)
MATRIX = 0.8 * np.eye(K) + 0.05
RATE, OF_100 = nacp.UniformNoise(0.995), nacp.noise_from_privacy(5.0, k=100)


def calibrate(probs=PROBS, labels=LABELS, **options):
    return nacp.calibrate(probs, labels, **{"noise": 0.1, "guarantee": "none"} | options)


# What is refused


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, np.nan, "0.1", True])
def test_alpha_and_delta_lie_strictly_between_0_and_1(value):
    found = ["strictly between 0 and 1", f"found {value!r}"]
    says(refusal(calibrate, alpha=value), "alpha", *found)
    says(refusal(calibrate, alpha=[0.1, value]), "alpha", *found)
    says(refusal(calibrate, guarantee="nacp", delta=value), "delta", *found)
    says(refusal(nacp.NACP, value), "delta", *found)
    says(refusal(nacp.evaluate, calibrate().predict_set(PROBS), LABELS, alpha=value), "alpha", *found)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        *(
            (
                lambda name=name: calibrate(guarantee=name, delta=1e-4),
                [f'delta has no effect on guarantee "{name}"'],
            )
            for name in ("expected", "acnl", "crcp", "none")
        ),
        (
            lambda: calibrate(noise=None, guarantee="split", delta=1e-4),
            ['delta has no effect on guarantee "split"'],
        ),
        (lambda: calibrate(noise=RATE), ["noise is too ill-conditioned for 60 points"]),
        (lambda: calibrate(noise=RATE.matrix(K).dense()), ["noise is too ill-conditioned for 60 points"]),
        (lambda: calibrate(noise=OF_100), ["noise", "100", "4"]),
        (lambda: nacp.compare_with_noisy_cp(PROBS, LABELS, noise=OF_100), ["noise", "100", "4"]),
        (lambda: nacp.plan(k=K, noise=OF_100), ["noise", "100", "4"]),
        (lambda: nacp.compare(PROBS, LABELS, noise=OF_100), ["noise", "100", "4"]),
        (lambda: nacp.coverage_curve(PROBS, LABELS, noise=OF_100), ["noise", "100", "4"]),
        (lambda: calibrate(alpha=[]), ["alpha", "empty", "one number or several"]),
        (lambda: calibrate(alpha=None), ["alpha", "found None"]),
        (lambda: calibrate(score="asp"), ["score", "'asp'", "'aps'", "'raps'"]),
        (lambda: calibrate(score=nacp.APS), ["score", "class", "nacp.RAPS("]),
        (lambda: calibrate(guarantee="nap"), ["guarantee", "'nap'", "'nacp'"]),
        (lambda: calibrate(guarantee=nacp.NACP), ["guarantee", "class", "'nacp'"]),
        (lambda: calibrate(crossing="middle"), ["crossing", "'middle'", "'first'", "'last'"]),
        (lambda: calibrate(guarantee=nacp.NACP(0.1), delta=0.1), ["delta", "NACP(delta=0.1)"]),
        (lambda: calibrate(noise=MATRIX, guarantee="binomial"), ['"binomial"', "uniform noise", '"pac"']),
        (lambda: calibrate(guarantee="split"), ['"split"', "noise=None", "UniformNoise(rate=0.1)"]),
        (lambda: calibrate(noise="uniform"), ["noise", "'uniform'", "a rate"]),
        (lambda: calibrate(noise=nacp.UniformNoise), ["noise", "UniformNoise", "a rate"]),
        (lambda: calibrate(labels=[[0], [1, 2]]), ["labels", "different lengths"]),
        (lambda: calibrate(guarantee=nacp.ACNL(priors=[0.5, 0.5])), ["priors", "4 positive", "(2,)"]),
        (lambda: calibrate(guarantee=nacp.CRCP([0, 0, 0.5, 0.5])), ["priors", "positive", "smallest 0"]),
        (lambda: nacp.Expected("best"), ["rule", "'exchange', 'worst-case'"]),
        (lambda: nacp.RAPS(penalty=-1), ["penalty", "at least 0", "-1"]),
        (lambda: nacp.RAPS(penalty=np.nan), ["penalty", "at least 0", "nan"]),
        (lambda: nacp.RAPS(free=1.5), ["free", "whole number", "1.5"]),
        (lambda: nacp.SAPS(penalty="x"), ["penalty", "at least 0", "'x'"]),
        (lambda: nacp.APS(randomized="no"), ["randomized", "True or False", "'no'"]),
        (lambda: nacp.APS(seed=None), ["seed", "whole number", "None"]),
        (lambda: nacp.evaluate(np.eye(K) > 0, [0, 1, 2, 3]), ["sets", "PredictionSets", "ndarray"]),
        (lambda: nacp.threshold_bracket([0.5, np.nan], epsilon=0.2, k=10, alpha=0.1), ["noisy_scores"]),
        (lambda: nacp.threshold_bracket([0.5], epsilon=0.2, k=0, alpha=0.1), ["k must be", "found 0"]),
    ],
)
def test_a_wrong_argument_is_named_with_what_would_do(call, words):
    says(refusal(call), *words)


# No threshold keeps the promise


def warned(*args, **options):
    """Return a calibration and the one NoValidThresholdWarning that came with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cal = calibrate(*args, **options)
    assert [w.category for w in caught] == [nacp.NoValidThresholdWarning]
    assert caught[0].filename == __file__, "it points at the caller"
    return cal, str(caught[0].message)


@pytest.mark.parametrize("guarantee", ["acnl", "crcp"])
def test_an_absent_class_is_fatal_only_to_the_methods_that_need_it(guarantee):
    labels = np.where(LABELS == 2, 3, LABELS)
    assert np.isfinite(calibrate(labels=labels).threshold)
    cal, message = warned(labels=labels, guarantee=guarantee)
    says(message, f'"{guarantee}"', "every class", "1 of 4 never occur", "class 2", "all 4 classes")
    assert cal.correction == cal.threshold == np.inf
    assert cal.obstacle in message
    assert cal.obstacle in " ".join(str(cal).split())
    assert (cal.predict_set(PROBS).sizes == K).all()


def test_given_priors_stand_in_for_an_absent_class_in_crcp():
    probs, labels = np.resize(PROBS, (4000, K)), np.resize(np.where(LABELS == 2, 3, LABELS), 4000)
    # Without noise: no class is absent where labels are replaced at random.
    cal = calibrate(probs, labels, noise=0.0, guarantee=nacp.CRCP(priors=[0.3, 0.3, 0.1, 0.3]), alpha=0.5)
    assert np.isfinite(cal.threshold)


UNEVEN = np.repeat(np.arange(K), [9, 12, 15, 24])


@pytest.mark.parametrize("alpha", [0.01, 0.025, 0.05])
@pytest.mark.parametrize("guarantee", [nacp.NACP(), nacp.NACP(delta=0.1), nacp.ACNL(), nacp.CRCP()], ids=repr)
def test_infeasible_means_all_classes_and_the_least_number_of_points_that_would_do(guarantee, alpha):
    cal, message = warned(labels=UNEVEN, guarantee=guarantee, alpha=alpha)
    says(message, f"{N} points", f'"{guarantee.name}"', "all 4 classes", f"{1 - alpha:g}", "would do")
    assert cal.threshold == np.inf
    assert (cal.predict_set(PROBS).sizes == K).all()

    def correction(n):
        return guarantee.correction(
            Problem(alpha, n, cal.noise, cal.noise.inverse(K), np.bincount(UNEVEN) * n / N)
        )

    least = int(re.search(r"([\d,]+) points would do", message)[1].replace(",", ""))
    assert correction(N) == cal.correction
    assert correction(least) <= alpha < correction(least - 1)


@pytest.mark.parametrize("alpha", [1 / m for m in (3, 7, 10, 20, 33, 40)])
def test_split_conformal_says_how_many_points_it_needs(alpha):
    _, message = warned(PROBS[:1], LABELS[:1], noise=None, guarantee="split", alpha=alpha)
    least = int(re.search(r"([\d,]+) points would do", message)[1].replace(",", ""))
    split = {"noise": None, "guarantee": "split", "alpha": alpha}
    assert np.isfinite(calibrate(PROBS[:least], LABELS[:least], **split).threshold)
    warned(PROBS[: least - 1], LABELS[: least - 1], **split)


def test_a_score_that_is_infinite_for_many_labels_is_not_blamed_on_the_correction():
    cal, message = warned(score=lambda p: np.where(p > 0.5, 1 - p, np.inf))
    assert cal.threshold == np.inf
    assert "correction" not in message, "a correction of 0 puts no target above 1"
