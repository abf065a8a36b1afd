"""Thresholds that follow drifting data: each step is what its definition says, and the bound is one."""

import math
from itertools import pairwise

import numpy as np
import pytest

import nacp
from nacp.engine import using
from nacp.paper import twins
from tests.stream.arriving import NOISES, UNIFORM, K, inverse_of, noisy, range_of


@pytest.fixture(scope="module")
def points():
    """Points that become harder half-way."""
    probs, labels = twins.simulate("cifar10", n=8000, random_state=0)
    labels[4000::8] = (labels[4000::8] + 1) % K
    return probs, labels


def by_definition(scores, labels, inverse, q, rate, ends, decay=0.0, alpha=0.1):
    """Return the threshold before each batch and after the last, and the shares, from the definition."""
    path, shares = [q], []
    for start, end in pairwise([0, *ends]):
        here = [inverse[labels[t], scores[t] <= path[-1]].sum() for t in range(start, end)]
        path.append(path[-1] + rate / end**decay * sum(1 - alpha - share for share in here))
        shares += here
    return np.array(path), np.array(shares)


# The definition


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize(("score", "start", "decay"), [("hps", 0.5, 0.0), ("aps", 0.9, 0.5)])
def test_the_threshold_moves_once_per_batch_as_its_definition_says(points, noise, score, start, decay):
    pytest.importorskip("nacp.engine._native", reason="the compiled engine was not built")
    probs, labels = (part[:200] for part in points)
    given, inverse = noisy(noise, labels), inverse_of(noise)
    scores = nacp.HPS().scores(probs) if score == "hps" else nacp.APS().scores(probs)
    for ends in (range(1, 201), [1, 50, 200]):
        path, shares = by_definition(scores, given, inverse, start, 0.02, ends, decay)
        for engine in ("numpy", "native"):
            online = nacp.OnlineCalibrator(K, noise=noise, score=score, rate=0.02, decay=decay, start=start)
            with using(engine):
                for expected, (first, end) in zip(path[1:], pairwise([0, *ends]), strict=True):
                    online.update(probs[first:first], given[first:first])
                    online.update(probs[first:end], given[first:end])
                    assert online.threshold == pytest.approx(expected, abs=1e-9)
            assert online.coverage == pytest.approx(shares.mean(), abs=1e-9)
            assert online.range == pytest.approx(range_of(inverse))


def test_with_a_calibration_some_500_points_are_remembered(points):
    probs, labels = points
    given = noisy(UNIFORM, labels)
    cal = nacp.calibrate(probs[:2000], given[:2000], noise=UNIFORM)
    rising = np.maximum.accumulate(cal.curve.clean)
    first, last = (cal.curve.thresholds[rising >= share][0] for share in (0.85, 0.95))
    low, high = range_of(inverse_of(UNIFORM))
    # The edges of cells are not where coverage is 0.85 and 0.95 exactly.
    rate = nacp.OnlineCalibrator(start=cal).rate
    assert rate == pytest.approx((last - first) / 0.1 / (500 * (high - low) ** 2), rel=0.05)
    assert nacp.OnlineCalibrator(start=cal, noise=None).rate == pytest.approx(rate * (high - low) ** 2)
    assert nacp.OnlineCalibrator(K, noise=UNIFORM).rate == pytest.approx(0.01 / (high - low))
    assert nacp.OnlineCalibrator(K, noise=None, score="margin").rate == 0.02


def test_sets_are_those_of_the_current_threshold(points):
    probs, labels = points
    names = [f"c{i}" for i in range(K)]
    cal = nacp.calibrate(probs[:2000], np.take(names, labels[:2000]), noise=None, classes=names)
    online = nacp.OnlineCalibrator(K, start=cal, classes=names, score="hps")
    assert (online.threshold, online.k, online.alpha) == (cal.threshold, K, 0.1)
    assert online.predict_set(probs[:50]).to_lists() == cal.predict_set(probs[:50]).to_lists()
    online.update(probs[2000:2100], [f"c{i}" for i in labels[2000:2100]])
    inside = nacp.HPS().scores(probs[:500]) <= online.threshold
    assert np.array_equal(np.asarray(online.predict_set(probs[:500])), inside)
    assert online.predict_set(probs[:1]).classes == cal.classes


# Promises


@pytest.mark.parametrize("decay", [0.0, 0.5])
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_the_mean_share_is_within_the_certain_part_of_the_bound_whatever_comes(noise, decay):
    rng, inverse = np.random.default_rng(0), inverse_of(noise)
    low, high = range_of(inverse)
    probs = rng.dirichlet(np.full(K, 0.3), size=600)
    probs[::3] = np.eye(K)[rng.integers(K, size=200)]
    by_set = np.argsort(-probs, axis=1)
    for labels in (by_set[:, 0], by_set[:, -1], np.where(np.arange(600) < 300, *by_set[:, [0, -1]].T)):
        for rate in (0.003, 0.1, 3.0):
            online, largest = nacp.OnlineCalibrator(K, noise=noise, rate=rate, decay=decay, start=0.5), 0
            for start, end in pairwise((0, 1, 10, 250, 600)):
                online.update(probs[start:end], labels[start:end])
                largest = max(largest, end - start)
                certain = (1.01 + rate * largest * (high - low)) / (rate * end ** (1 - decay))
                assert abs(online.coverage - 0.9) <= certain
                by_chance = 0.0 if noise is None else (high - low) * math.sqrt(math.log(40) / (2 * end))
                assert online.bound() == pytest.approx(certain + by_chance)
                assert -rate * largest * (high - 0.9) <= online.threshold <= 1 + rate * largest * (0.9 - low)


def hard_first(scores, labels, batch):
    """Return the rows, in each batch those first whose true label has a high score."""
    own = scores[np.arange(len(labels)), labels]
    return np.concatenate([s + np.argsort(-own[s : s + batch]) for s in range(0, len(labels), batch)])


@pytest.mark.parametrize("batch", [500, 2000])
def test_coverage_is_that_of_the_sets_that_were_given_out(batch):
    """Hard points first in each batch: a threshold that moves within the batch is not that of the sets."""
    probs, labels = twins.simulate("cifar10", n=10_000)
    start = nacp.calibrate(probs[:2000], labels[:2000], noise=None, guarantee="none")
    probs, labels = probs[2000:], labels[2000:]
    order = hard_first(start.score.scores(probs), labels, batch)
    for options in ({"start": start}, {"k": K, "start": start.threshold, "noise": None, "rate": 1e-4}):
        online, covered = nacp.OnlineCalibrator(**options), []
        for first in range(0, len(order), batch):
            some = order[first : first + batch]
            covered.extend(online.predict_set(probs[some]).contains(labels[some]))
            online.update(probs[some], labels[some])
        assert online.coverage == pytest.approx(np.mean(covered), abs=1e-9)
        assert np.mean(covered) == pytest.approx(0.9, abs=min(online.bound(), 0.02))
        assert "a long-run average" in online.promise
        assert "nothing about the points" in online.assumptions


@pytest.mark.parametrize("start", [True, False], ids=["calibration", "none"])
def test_by_default_large_batches_do_not_overshoot(points, start):
    """One batch would move the threshold beyond all scores, and back, at the rate of single points."""
    probs, labels = points
    cal = nacp.calibrate(probs[:2000], labels[:2000], noise=None)
    online = nacp.OnlineCalibrator(start=cal) if start else nacp.OnlineCalibrator(K, noise=None)
    rate, sizes = online.rate, []
    for _ in range(30):
        online.update(probs[2000:4000], labels[2000:4000])
        sizes.append(online.predict_set(probs[2000:4000]).sizes.mean())
    assert online.rate < rate
    assert np.ptp(sizes[-4:]) < 0.3
    assert online.predict_set(probs[2000:4000]).contains(labels[2000:4000]).mean() == pytest.approx(
        0.9, abs=0.02
    )


def test_what_cannot_be_followed_is_refused(points):
    cal = nacp.calibrate(points[0][:2000], points[1][:2000], noise=None)
    grouped = nacp.calibrate(points[0][:2000], points[1][:2000], noise=None, groups=np.arange(2000) % 2)
    doubtful = nacp.UniformNoise(0.2, interval=(0.1, 0.3))
    for arguments, options, sentence in [
        ((), {}, "k must be given"),
        ((K,), {"noise": doubtful}, "noise must be known exactly"),
        ((K,), {"noise": 0.2, "score": "raps", "start": 0.9}, "rate must be given"),
        ((K,), {"noise": 0.2, "score": "raps", "rate": 0.1}, "start must be given"),
        ((K,), {"noise": 0.2, "rate": 0}, "rate must be more than 0"),
        ((K,), {"noise": 0.2, "decay": 1.0}, r"decay must lie in \[0, 1\)"),
        ((K,), {"noise": 0.2, "start": 1.5}, "start must be a score, from 0 to 1"),
        ((K,), {"noise": 0.2, "start": math.nan}, "start must be a finite number"),
        ((K,), {"noise": 0.2, "alpha": 0}, "alpha must lie strictly between"),
        ((K + 1,), {"start": cal}, "k must be 10"),
        ((), {"start": cal, "score": "aps"}, r"score must be HPS\(\)"),
        ((), {"start": cal, "normalize": True}, "normalize must be False, as in the calibration"),
        ((), {"start": grouped}, r"start has a threshold for each group.*start.groups\["),
    ]:
        with pytest.raises(nacp.InputError, match=sentence):
            nacp.OnlineCalibrator(*arguments, **options)
    assert nacp.OnlineCalibrator(K, noise=0.2, start=np.float32(0.5)).threshold == 0.5
    assert nacp.OnlineCalibrator(K, noise=0.2).bound() == math.inf
