"""An alarm that coverage has fallen: it is what its definition says, it is seldom false, and it comes."""

import math

import numpy as np
import pytest

import nacp
from nacp.stats.alarm import Alarm
from tests.stream.arriving import LABELS, NOISES, PROBS, UNIFORM, K, calibrated, inverse_of, noisy

# The definition


def wealth_by_definition(numbers, target, high):
    """Return the wealth after all numbers: the mean over starts and stakes of the wealth of each alone."""
    n = len(numbers)
    stakes = [2.0**-i / (high - target) for i in range(1, 9)]
    total = 1 / (1 + math.log(n + 1))  # what has not begun
    for start in range(1, n + 1):
        weight = 1 / (1 + math.log(start)) - 1 / (1 + math.log(start + 1))
        for stake in stakes:
            total += weight / len(stakes) * np.prod(1 + stake * (target - numbers[start - 1 :]))
    return total


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("score", ["hps", "aps"])
def test_wealth_is_what_its_definition_says(noise, score):
    cal = calibrated(noise, score=score)
    probs, labels = PROBS[3000:3030], LABELS[3000:3030]
    given = noisy(noise, labels)
    inverse = inverse_of(noise)
    shares = (inverse[given] * (cal.score.scores(probs) <= cal.threshold)).sum(axis=1)
    high = max(np.maximum(inverse, 0).sum(axis=1))
    monitor, peak = nacp.Monitor(cal), 1.0
    for t in range(30):
        monitor.update(probs[t : t + 1], given[t : t + 1])
        wealth = wealth_by_definition(shares[: t + 1], 0.9, high)
        peak = max(peak, wealth)
        assert monitor.wealth == pytest.approx(wealth, rel=1e-9)
        assert monitor.p_value == pytest.approx(1 / peak, rel=1e-9)
    assert monitor.n == 30
    assert monitor.coverage == pytest.approx(min(np.mean(shares), 1), rel=1e-9)


def test_the_start_is_where_wealth_would_have_grown_most():
    numbers = (np.random.default_rng(3).random(400) < np.repeat([0.9, 0.5], 200)).astype(float)
    alarm = Alarm(0.9, 1.0, 0.01)
    alarm.play(numbers)
    seen = numbers[: alarm.at]
    growth = [
        [np.log(1 + stake * (0.9 - seen[start:])).sum() for stake in alarm.stakes]
        for start in range(alarm.at)
    ]
    assert alarm.since == np.unravel_index(np.argmax(growth), (alarm.at, len(alarm.stakes)))[0]
    assert alarm.before == numbers[: alarm.since].sum()
    assert alarm.total == numbers.sum()
    assert wealth_by_definition(seen[:-1], 0.9, 1.0) < 100 <= wealth_by_definition(seen, 0.9, 1.0)


# Promises


@pytest.mark.parametrize(
    ("values", "chances"),
    [
        ([1.0, 0.0], [0.9, 0.1]),
        ([1.25, 0.0], [0.72, 0.28]),
        ([3.0, 0.9, -4.0], [0.02, 0.965, 0.015]),  # of an ill-conditioned matrix
        ([0.999, -8.9], [0.99, 0.01]),
    ],
    ids=["clean", "uniform", "wide", "seldom and far"],
)
def test_false_alarms_are_as_seldom_as_was_asked_for(values, chances):
    rng, runs, level = np.random.default_rng(0), 400, 0.2
    values = np.array(values)
    values[-1] += (0.9 - values @ chances) / chances[-1]  # the mean is the target exactly
    raised = 0
    for _ in range(runs):
        alarm = Alarm(0.9, values.max(), level)
        alarm.play(rng.choice(values, 400, p=chances))
        raised += alarm.at is not None
    assert raised / runs <= level + 3 * math.sqrt(level * (1 - level) / runs)
    assert raised > 0, "the level is made use of"


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_an_alarm_comes_after_a_drift_and_not_before(noise):
    cal = calibrated(noise, guarantee="pac", delta=0.01)
    probs, labels = PROBS[3000:], LABELS[3000:].copy()
    labels[3000::4] = (labels[3000::4] + 1) % K  # of these, hardly any is in its set
    given = noisy(noise, labels)
    monitor = nacp.Monitor(cal, false_alarm=0.001)
    monitor.update(probs[:3000], given[:3000])
    assert not monitor.alarm
    assert (monitor.since, monitor.raised_at, monitor.coverage_since) == (None, None, None)
    assert str(monitor).startswith("No alarm after 3,000 points (p = ")
    monitor.update(probs[3000:], given[3000:])
    assert monitor.alarm
    assert 3000 < monitor.raised_at < 4500
    assert abs(monitor.since - 3000) < 300
    truth = cal.predict_set(probs[3000:]).contains(labels[3000:]).mean()
    assert monitor.coverage_since == pytest.approx(truth, abs=0.06)
    assert monitor.p_value <= 0.001
    assert "coverage has fallen below 90%" in " ".join(str(monitor).split())
    lenient = nacp.Monitor(cal, target=0.6)
    lenient.update(probs, given)
    assert (lenient.target, lenient.alarm) == (0.6, False)


def test_an_interruption_leaves_all_as_it_was(monkeypatch):
    monitor = nacp.Monitor(calibrated(UNIFORM))
    probs, labels = PROBS[3000:], LABELS[3000:]
    monitor.update(probs[:300], labels[:300])
    before, bet, calls = (monitor.to_dict(), monitor._alarm.to_dict()), Alarm._bet, []

    def interrupted(alarm, *arguments):
        calls.append(alarm)
        if len(calls) == 2:  # after the first few thousand points
            raise KeyboardInterrupt
        bet(alarm, *arguments)

    monkeypatch.setattr(Alarm, "_bet", interrupted)
    with pytest.raises(KeyboardInterrupt):
        monitor.update(probs, labels)
    assert (monitor.to_dict(), monitor._alarm.to_dict()) == before


def test_what_cannot_be_watched_is_refused():
    cal = calibrated(UNIFORM)
    with pytest.warns(nacp.NoValidThresholdWarning):
        hopeless = nacp.calibrate(PROBS[:50], LABELS[:50], noise=0.2, alpha=0.01)
    grouped = nacp.calibrate(PROBS[:900], LABELS[:900], noise=None, groups=np.arange(900) % 2)
    for arguments, options, sentence in [
        ((hopeless,), {}, "calibration has an infinite threshold"),
        ((0.5,), {}, "calibration must be what nacp.calibrate returned"),
        ((grouped,), {}, r"calibration has a threshold for each group.*calibration.groups\["),
        ((cal,), {"false_alarm": 1}, "false_alarm must lie strictly between"),
        ((cal,), {"target": 90}, "target must lie strictly between"),
        ((cal,), {"noise": nacp.MatrixNoise([[0.9, 0.1], [0.2, 0.8]])}, "noise is for 2 classes"),
    ]:
        with pytest.raises(nacp.InputError, match=sentence):
            nacp.Monitor(*arguments, **options)


def test_what_is_promised_and_assumed_is_said():
    exact = nacp.Monitor(calibrated(UNIFORM))
    assert "is at most 1%" in exact.promise
    assert "uniform label noise with rate 0.2, independent of the input" in exact.assumptions
    doubtful = nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.95)
    assert "is at most 6%" in nacp.Monitor(exact.calibration, noise=doubtful).promise
    assert nacp.Monitor(calibrated(None)).assumptions == "the labels are right"
