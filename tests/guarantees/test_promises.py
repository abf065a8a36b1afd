"""A calibration says what its promise rests on: the estimate of the noise, several alphas, frequencies."""

import math

import numpy as np
import pytest

import nacp
from nacp.coverage.tally import Sample
from nacp.paper import twins
from nacp.points import open_rows

K = 10


@pytest.fixture(scope="module")
def points():
    probs, labels = twins.simulate("cifar10", n=1500, random_state=0)
    return probs, labels, nacp.UniformNoise(0.2).sample(labels, K, random_state=1)


# Estimates


def estimated(points, kind):
    probs, labels, noisy = points
    if kind in ("uniform", "matrix"):
        return nacp.noise_from_audit(noisy, labels, k=K, model=kind)
    if kind == "model":
        return nacp.noise_from_model(probs, noisy)
    estimate = nacp.noise_from_audit(noisy, labels, k=K)
    # As from Dawid and Skene's model, which has no interval: its matrix counts as exact.
    model = nacp.MatrixNoise(estimate.noise.P)
    said = {"method": "no interval", "assumption": "annotators vote", "why": "so"}
    return nacp.NoiseEstimate(noise=model, rate=0.18, wrong=0.18, n=1500, k=K, **said)


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")  # of the matrix
@pytest.mark.parametrize("kind", ["uniform", "matrix", "model", "none"])
@pytest.mark.parametrize("guarantee", ["pac", "expected"])
def test_a_calibration_says_what_its_noise_estimate_assumes(points, kind, guarantee, tmp_path):
    probs, _, noisy = points
    estimate = estimated(points, kind)
    cal = nacp.calibrate(probs, noisy, noise=estimate, guarantee=guarantee)
    assert estimate.assumption in cal.assumptions
    stated = nacp.calibrate(probs, noisy, noise=estimate.noise, guarantee=guarantee)
    assert cal.threshold == stated.threshold
    assert cal.promise.startswith(stated.promise)
    assert (cal.promise == stated.promise) == (kind in ("uniform", "matrix")), (
        "the others promise less than they seem to"
    )
    assert ("approximate" in cal.promise) == (kind == "model")
    assert ("exactly as estimated" in cal.promise) == (kind == "none")
    # An interval of uniform rates may come from these very points.
    assert ("from other points than the calibration points" in cal.assumptions) == (kind == "matrix")
    cal.save(tmp_path / "cal.json")
    loaded = nacp.load(tmp_path / "cal.json")
    assert loaded == cal
    assert (loaded.promise, loaded.assumptions) == (cal.promise, cal.assumptions)


# Several alphas


EACH = "the promises for 3 alphas hold each by itself, not all at once (for that, pass delta/3)"
ALL = "the promises for 3 alphas hold all at once"


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize(
    ("guarantee", "said"), [("pac", EACH), ("binomial", EACH), ("nacp", ALL), ("expected", None)]
)
def test_several_alphas_say_whether_all_promises_hold_at_once(points, guarantee, said, tmp_path):
    probs, _, noisy = points
    for cal in nacp.calibrate(probs, noisy, noise=0.2, guarantee=guarantee, alpha=[0.05, 0.1, 0.2]):
        alone = nacp.calibrate(probs, noisy, noise=0.2, guarantee=guarantee, alpha=cal.alpha)
        assert cal.assumptions == (alone.assumptions if said is None else f"{alone.assumptions}; {said}")
        cal.save(tmp_path / "cal.json")
        assert nacp.load(tmp_path / "cal.json").assumptions == cal.assumptions


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("guarantee", [nacp.NACP(0.2), nacp.PAC(0.2)], ids=["nacp", "pac"])
def test_nacp_holds_for_all_alphas_at_once_and_pac_does_not(guarantee):
    k, n, runs, delta = 4, 200, 200, guarantee.delta
    alphas = np.linspace(0.1, 0.6, 20).tolist()
    rng = np.random.default_rng(0)
    short = 0
    for _ in range(runs):
        # Scores of the true label are uniform, so that F^c(q) = q; the others are never in a set.
        true = rng.integers(k, size=n)
        scores = np.full((n, k), 2.0)
        scores[np.arange(n), true] = rng.random(n)
        noisy = nacp.UniformNoise(0.1).sample(true, k, rng)
        found = nacp.calibrate(
            scores, noisy, noise=0.1, alpha=alphas, guarantee=guarantee, score="precomputed"
        )
        short += any(cal.threshold < 1 - cal.alpha for cal in found)
    error = math.sqrt(delta * (1 - delta) / runs)
    assert (short / runs <= delta + 3 * error) == (guarantee.name == "nacp")


# What a promise depends on


def test_promises_say_what_they_depend_on():
    """Massart's one-sided inequality holds for tails up to one half; "nacp" uses it at e delta / 4."""
    for kind in (nacp.ACNL, nacp.CRCP):
        assert "if the class frequencies estimated from the labels are exact" in kind().promise(0.1)
        assert "if the class frequencies are as stated" in kind(priors=[0.5, 0.5]).promise(0.1)
    for delta, proved in ((0.001, True), (0.73, True), (0.74, False), (0.9, False)):
        assert (math.e * delta / 4 <= 0.5) == proved
        assert ("at most 0.73" in nacp.NACP(delta).promise(0.1)) != proved


def test_the_shuffle_does_not_repeat_the_draw_of_the_noise():
    """One seed for both must not start the same generator."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 200)
    sample = Sample.of(open_rows(probs), rng.integers(3, size=200), nacp.HPS())
    for seed in range(5):
        assert not np.array_equal(sample.shuffled(seed), np.random.default_rng(seed).permutation(200))
        assert np.array_equal(sample.shuffled(seed), sample.shuffled(seed))
