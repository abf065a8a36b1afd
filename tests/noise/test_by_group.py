"""Noise that differs between known groups of rows."""

import math

import numpy as np
import pytest

import nacp

K = 5
PAIRS = 0.7 * np.eye(K) + 0.3 * np.roll(np.eye(K), 1, axis=1)
NOISE = {"A": 0.1, "B": nacp.MatrixNoise(PAIRS), "C": None}


def sample(n, rng, *, hard=1.0):
    """Points in three sites; the classifier is better on those of the last one."""
    true, site = rng.integers(K, size=n), rng.choice(["A", "B", "C"], size=n)
    strength = np.where(site == "C", 5, 3)[:, None] * hard
    logits = rng.standard_normal((n, K)) + strength * np.eye(K)[true]
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    noisy = true.copy()
    for name, model in (("A", nacp.UniformNoise(0.1)), ("B", NOISE["B"])):
        own = site == name
        noisy[own] = model.sample(true[own], K, rng)
    return probs, true, noisy, site


def test_each_label_is_weighed_by_the_inverse_of_its_own_group():
    probs, _, noisy, site = sample(600, np.random.default_rng(0))
    cal = nacp.calibrate(probs, noisy, noise=NOISE, noise_groups=site, guarantee="none", alpha=0.2)
    inverses = {
        "A": np.linalg.inv(0.9 * np.eye(K) + 0.1 / K),
        "B": np.linalg.inv(PAIRS),
        "C": np.eye(K),
    }
    weights = np.stack([inverses[s][y] for s, y in zip(site, noisy, strict=True)])
    for threshold, clean in zip(cal.curve.thresholds, cal.curve.clean, strict=True):
        share = (weights * (1 - probs <= threshold)).sum() / len(probs)
        assert clean == pytest.approx(min(max(share, 0), 1), abs=1e-9)
    assert cal.estimate >= 0.8


def test_one_group_is_the_model_itself():
    probs, _, noisy, _ = sample(500, np.random.default_rng(1))
    model = nacp.MatrixNoise(PAIRS)
    for guarantee in ("pac", "expected", "nacp", "none"):
        alone = nacp.calibrate(probs, noisy, noise=model, guarantee=guarantee, alpha=0.3)
        grouped = nacp.calibrate(
            probs, noisy, noise={"all": model}, noise_groups=["all"] * 500, guarantee=guarantee, alpha=0.3
        )
        assert grouped.threshold == alone.threshold


@pytest.mark.slow
def test_pac_keeps_its_promise_where_the_mean_matrix_breaks_it():
    """With hard rows where labels are worse, one matrix for all is wrong; the group's own is right."""
    runs, delta, short = 120, 0.1, {"own": 0, "mean": 0}
    rng = np.random.default_rng(2)
    held, true, _, _ = sample(40_000, rng)
    scores = 1 - held[np.arange(len(held)), true]
    mean = (0.9 * np.eye(K) + 0.1 / K + PAIRS + np.eye(K)) / 3
    for _ in range(runs):
        probs, _, noisy, site = sample(1500, rng)
        own = nacp.calibrate(probs, noisy, noise=NOISE, noise_groups=site, delta=delta)
        one = nacp.calibrate(probs, noisy, noise=mean, delta=delta)
        short["own"] += np.mean(scores <= own.threshold) < 0.9
        short["mean"] += np.mean(scores <= one.threshold) < 0.9
    assert short["own"] / runs <= delta + 3 * math.sqrt(delta * (1 - delta) / runs)
    assert short["mean"] > short["own"]


def test_groups_of_rows_may_have_thresholds_of_their_own():
    probs, _, noisy, site = sample(3000, np.random.default_rng(3))
    cal = nacp.calibrate(probs, noisy, noise=NOISE, noise_groups=site, groups=site)
    alone = nacp.calibrate(probs[site == "B"], noisy[site == "B"], noise=NOISE["B"])
    assert "the noise is the same" not in cal.assumptions
    assert cal.groups["B"].estimate == pytest.approx(alone.estimate, abs=0.02)


def test_later_labels_need_a_model_of_their_own():
    """The mean matrix of the calibration points is wrong for points that all come from one group."""
    probs, true, noisy, site = sample(3000, np.random.default_rng(4))
    cal = nacp.calibrate(probs, noisy, noise=NOISE, noise_groups=site)
    probs, true, noisy = (part[site == "A"] for part in (probs, true, noisy))
    for follow in (nacp.Monitor, lambda cal, **noise: nacp.OnlineCalibrator(start=cal, **noise)):
        with pytest.raises(nacp.InputError, match="noise is not known, so only checked labels can be used"):
            follow(cal).update(probs, noisy)
        follow(cal).update(probs, clean=true)
        follow(cal, noise=NOISE["A"]).update(probs, noisy)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise": NOISE}, "noise_groups must name the group of each row"),
        ({"noise": 0.1, "noise_groups": ["A"] * 20}, "noise must be a dict"),
        ({"noise": NOISE, "noise_groups": ["A"] * 19}, r"must have the shape \(20,\)"),
        ({"noise": NOISE, "noise_groups": ["D"] * 20}, "holds 'D', but noise has models for 'A', 'B', 'C'"),
        ({"noise": NOISE, "noise_groups": ["A"] * 20, "by": "class"}, "nor groups of classes"),
        ({"noise": NOISE, "noise_groups": ["A"] * 20, "guarantee": "crcp"}, "one noise model for all"),
        ({"noise": {"A": 0.99}, "noise_groups": ["A"] * 20}, "too ill-conditioned for 20 points"),
        (
            {"noise": {"A": nacp.UniformNoise(0.1, interval=(0.0, 0.2))}, "noise_groups": ["A"] * 20},
            "must be known exactly for each group",
        ),
    ],
)
def test_what_cannot_be_used_gets_a_sentence(options, words):
    probs, _, noisy, _ = sample(20, np.random.default_rng(5))
    with pytest.raises(nacp.InputError, match=words):
        nacp.calibrate(probs, noisy, **options)
