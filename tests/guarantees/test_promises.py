"""What a promise rests on is said where it is made: what an estimate assumed, several alphas, frequencies."""

import json
import math

import numpy as np
import pytest

import nacp
from nacp.paper import twins
from nacp.wrapping import on_one_line

K = 10


@pytest.fixture(scope="module")
def points():
    probs, labels = twins.simulate("cifar10", n=1500, random_state=0)
    return probs, labels, nacp.UniformNoise(0.2).sample(labels, K, random_state=1)


# Estimates


def estimated(points, kind):
    probs, labels, noisy = points
    if kind == "audit":
        return nacp.noise_from_audit(noisy, labels, k=K, model="uniform")
    if kind == "model":
        return nacp.noise_from_model(probs, noisy)
    estimate = nacp.noise_from_audit(noisy, labels, k=K)
    # As from Dawid and Skene's model, which has no interval: its matrix counts as exact.
    model = nacp.MatrixNoise(estimate.noise.P)
    return nacp.NoiseEstimate(model, 0.18, None, 1.0, 0.18, 1500, K, "no interval", "annotators vote", "so")


@pytest.mark.parametrize("kind", ["audit", "model", "none"])
@pytest.mark.parametrize("guarantee", ["pac", "expected"])
def test_a_calibration_says_what_its_noise_estimate_assumes(points, kind, guarantee, tmp_path):
    probs, _, noisy = points
    estimate = estimated(points, kind)
    cal = nacp.calibrate(probs, noisy, noise=estimate, guarantee=guarantee)
    assert estimate.assumption in cal.assumptions
    stated = nacp.calibrate(probs, noisy, noise=estimate.noise, guarantee=guarantee)
    assert cal.threshold == stated.threshold
    assert cal.promise.startswith(stated.promise)
    assert (cal.promise == stated.promise) == (kind == "audit"), "the others promise less than they seem to"
    assert ("approximate" in cal.promise) == (kind == "model")
    assert ("no interval" in cal.promise) == (kind == "none")
    # Nobody knows here whether the estimate was made from these very points: both are named.
    said = "from other points than these, or from the same ones, for which not every guarantee is proved"
    assert (said in cal.assumptions) == (kind != "none")
    cal.save(tmp_path / "cal.json")
    loaded = nacp.load(tmp_path / "cal.json")
    assert loaded == cal
    assert (loaded.promise, loaded.assumptions) == (cal.promise, cal.assumptions)


def test_an_estimate_keeps_what_it_assumes_through_a_file(points, tmp_path):
    estimate = estimated(points, "model")
    estimate.save(tmp_path / "noise.json")
    assert nacp.estimation.load(tmp_path / "noise.json") == estimate
    # A file from before this was a field of its own.
    document = json.loads((tmp_path / "noise.json").read_text())
    del document["approximate"]
    (tmp_path / "noise.json").write_text(json.dumps(document))
    assert nacp.estimation.load(tmp_path / "noise.json") == estimate


def test_comparison_and_report_say_it_too(points):
    probs, _, noisy = points
    estimate = estimated(points, "model")
    rows = nacp.compare(probs, noisy, noise=estimate, scores=["hps"], guarantees=["pac", "split"]).rows
    said = {row.guarantee: row.promise for row in rows}
    assert "approximate" in said["pac"]
    assert "approximate" not in said["split"], "it takes the labels as they are"


def test_known_noise_assumes_nothing_more(points):
    probs, _, noisy = points
    exact = nacp.noise_from_privacy(math.log(36), k=K)
    cal = nacp.calibrate(probs, noisy, noise=exact)
    assert cal.promise == nacp.PAC().promise(0.1)
    assert "other points" not in cal.assumptions


# Several alphas


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize(
    ("guarantee", "said"),
    [
        ("pac", "the promises for 3 alphas hold each by itself, not all at once (for that, pass delta/3)"),
        (
            "binomial",
            "the promises for 3 alphas hold each by itself, not all at once (for that, pass delta/3)",
        ),
        ("nacp", "the promises for 3 alphas hold all at once"),
        ("expected", None),
        ("none", None),
    ],
)
def test_several_alphas_say_whether_all_promises_hold_at_once(points, guarantee, said, tmp_path):
    probs, _, noisy = points
    for cal in nacp.calibrate(probs, noisy, noise=0.2, guarantee=guarantee, alpha=[0.05, 0.1, 0.2]):
        alone = nacp.calibrate(probs, noisy, noise=0.2, guarantee=guarantee, alpha=cal.alpha)
        assert cal.assumptions == (alone.assumptions if said is None else f"{alone.assumptions}; {said}")
        cal.save(tmp_path / "cal.json")
        assert nacp.load(tmp_path / "cal.json").assumptions == cal.assumptions


def test_checked_labels_and_the_slider_of_a_report_say_it_too(points):
    probs, labels, noisy = points
    found = nacp.calibrate(probs, noisy, clean=labels, alpha=[0.1, 0.2])
    assert all("for 2 alphas hold each by itself" in cal.assumptions for cal in found)
    page = nacp.make_report(probs, noisy, noise=0.2).html
    assert "hold each by itself, not all at once" in page


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


# Frequencies, and a delta that is too large


def test_priors_are_part_of_the_promise():
    for kind in (nacp.ACNL, nacp.CRCP):
        assert "if the class frequencies estimated from the labels are exact" in kind().promise(0.1)
        assert "if the class frequencies are as stated" in kind(priors=[0.5, 0.5]).promise(0.1)


def test_nacp_says_where_its_proof_does_not_hold():
    """Massart's one-sided inequality holds for tails up to one half; the proof uses it at e delta / 4."""
    for delta, proved in ((0.001, True), (0.73, True), (0.74, False), (0.9, False)):
        assert (math.e * delta / 4 <= 0.5) == proved
        assert ("at most 0.73" in nacp.NACP(delta).promise(0.1)) != proved


# Plans


def test_the_plan_for_binomial_has_the_cost_of_not_knowing_how_large_sets_are():
    """At n = 200 half as much again as the normal test costs, which was left out: 0.051 for 0.072."""
    probs, labels = twins.simulate("cifar10", n=40_000, random_state=3)
    own = np.sort(1 - probs[np.arange(len(labels)), labels])
    rng, excess = np.random.default_rng(0), []
    for _ in range(150):
        some = rng.integers(len(labels), size=200)
        noisy = nacp.UniformNoise(0.2).sample(labels[some], K, rng)
        cal = nacp.calibrate(probs[some], noisy, noise=0.2, guarantee="binomial", delta=0.1)
        excess.append(np.searchsorted(own, cal.threshold, side="right") / len(own) - 0.9)
    (row,) = (r for r in nacp.plan(k=K, noise=0.2, n=200, delta=0.1).rows if r.guarantee.name == "binomial")
    # Sets of more than one label cost a little more than what is planned for one.
    assert abs(np.mean(excess) - row.correction) < 3 * np.std(excess) / math.sqrt(len(excess))


# Rows of a matrix


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


# A rate that is understated


def test_to_understate_a_matrix_may_cost_coverage_and_nobody_says_otherwise():
    """Points of class 0 are taken for class 1, which their sets hold, so uncorrected they look covered."""
    rng, n = np.random.default_rng(0), 4000
    true = rng.integers(2, size=n)
    scores = np.where(true[:, None] == 0, [0.0, 0.0], [2.0, 0.0])
    scores[np.arange(n), true] = rng.random(n)
    truth = nacp.MatrixNoise([[0.6, 0.4], [0.0, 1.0]])
    noisy = truth.sample(true, 2, rng)
    right, half = (
        nacp.calibrate(scores, noisy, noise=noise, alpha=0.12, guarantee="none", score="precomputed")
        for noise in (truth, [[0.8, 0.2], [0.0, 1.0]])
    )
    # F^c(q) = q. With half of the errors stated, 0.1 of the labels are class 1 and right by mistake.
    assert half.threshold < right.threshold - 0.01
    assert half.threshold < 0.88
    assert "no rate is the careful one" in on_one_line(nacp.sensitivity(right, scores, noisy))
    uniform = nacp.calibrate(scores, noisy, noise=0.1, alpha=0.12, guarantee="none", score="precomputed")
    assert "no rate is the careful one" not in on_one_line(nacp.sensitivity(uniform, scores, noisy))
    audit = nacp.noise_from_audit(noisy, true, k=2)
    assert "smaller rate" not in on_one_line(audit)
    assert "smaller rate" in on_one_line(nacp.noise_from_audit(noisy, true, k=2, model="uniform"))
