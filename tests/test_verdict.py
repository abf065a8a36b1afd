"""`judge` raises a false alarm as rarely as it says, and sees a promise that is broken."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

import nacp
from nacp.paper import twins
from nacp.wrapping import on_one_line
from tests.test_metrics import result


def calibration(guarantee, n=1000, alpha=0.1, noise=None):
    return nacp.Calibration(
        alpha=alpha,
        n=n,
        k=10,
        score=nacp.HPS(),
        noise=noise,
        guarantee=guarantee,
        crossing="last",
        correction=0.0,
        native_threshold=-0.5,
        estimate=0.9,
    )


@pytest.mark.parametrize("guarantee", [nacp.PAC(), nacp.Binomial(), nacp.NACP()])
def test_a_promise_for_nearly_all_sets_is_about_these_sets(guarantee):
    m = 500
    hits = np.arange(m + 1)
    cal = calibration(guarantee)
    failed = np.array([not nacp.judge(cal, result(h, m)).passed for h in hits])
    assert stats.binom.pmf(hits, m, 0.9)[failed].sum() <= 0.025
    # And it is no formality: a coverage short by five standard errors is found in nearly all cases.
    assert stats.binom.pmf(hits, m, 0.9 - 5 * math.sqrt(0.09 / m))[failed].sum() > 0.95


@pytest.mark.parametrize(("n", "m"), [(1000, 1000), (1000, 2000), (5000, 500)])
def test_a_promise_on_average_allows_for_the_calibration_sets_own_luck(n, m):
    # Without noise, split conformal coverage is Beta(i, n + 1 - i), and the hits are beta-binomial.
    i = math.ceil((n + 1) * 0.9)
    cal = calibration(nacp.SplitConformal(), n)
    hits = np.arange(m + 1)
    failed = np.array([not nacp.judge(cal, result(h, m)).passed for h in hits])
    # The normal approximation of a skew distribution: 2.5%, up to the skewness.
    alarms = stats.betabinom.pmf(hits, m, i, n + 1 - i)[failed].sum()
    assert 0.015 < alarms < 0.035


FLIPS = nacp.MatrixNoise(0.75 * np.eye(10) + 0.25 * np.roll(np.eye(10), 1, axis=1))


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize(
    ("noise", "runs", "tested", "options"),
    [
        (nacp.UniformNoise(0.2), 300, "true", {"guarantee": "expected"}),
        (nacp.UniformNoise(0.2), 200, "noisy", {"guarantee": "expected"}),
        pytest.param(nacp.UniformNoise(0.2), 200, "noisy", {"guarantee": "pac"}, marks=pytest.mark.slow),
        # The threshold of a class comes from all points, of which those of other classes count, too.
        pytest.param(
            FLIPS,
            250,
            "by class",
            {"guarantee": "expected", "by": "class", "small": "all", "alpha": 0.2},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_with_noise_the_alarms_are_as_rare(noise, runs, tested, options):
    probs, labels = twins.simulate("cifar10", n=20_000, random_state=0)
    rng, n, failed = np.random.default_rng(1), 500, 0
    for _ in range(runs):
        chosen = rng.permutation(len(labels))[: 2 * n]
        true, noisy = labels[chosen], noise.sample(labels[chosen], 10, rng)
        cal = nacp.calibrate(probs[chosen[:n]], noisy[:n], noise=noise, **options)
        sets, given = cal.predict_set(probs[chosen[n:]]), {"groups": true[n:]} if tested == "by class" else {}
        if tested == "noisy":
            found = nacp.evaluate(sets, noisy[n:], noise=noise)
        else:
            found = nacp.evaluate(sets, true[n:], **given)
        failed += not nacp.judge(cal, found).passed
    # Four standard errors of a share of 0.025 among so many runs.
    assert failed / runs <= 0.025 + 4 * math.sqrt(0.025 * 0.975 / runs)


def test_the_target_of_expected_is_less_its_gap():
    cal = nacp.Calibration(**(vars(calibration(nacp.Expected())) | {"gap": 0.01}))
    assert nacp.judge(cal, result(900, 1000)).target == pytest.approx(0.89)


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_groups_are_judged_by_name_and_pooled_ones_together():
    """Two small groups in which sets cover half and nearly all: together they keep the promise."""
    cal = nacp.calibrate(
        np.full((100, 2), 0.5),
        np.zeros(100, dtype=int),
        noise=None,
        alpha=0.3,
        groups=["b", "c"] * 5 + ["a"] * 90,
        small="merge",
        guarantee="pac",
    )
    assert cal.pooled == ("b", "c")
    sets = nacp.PredictionSets(np.arange(1001), np.zeros(1000, dtype=int), k=2)
    labels, groups = np.zeros(1000, dtype=int), np.repeat(["c", "b"], [200, 800])
    labels[:100] = 1  # of c half are missed: of both together a tenth
    verdict = nacp.judge(cal, nacp.evaluate(sets, labels, groups=groups))
    assert verdict.passed
    assert (verdict.group, verdict.coverage) == ("b, c", 0.9)
    labels[:400] = 1
    assert not nacp.judge(cal, nacp.evaluate(sets, labels, groups=groups)).passed
    with pytest.raises(nacp.InputError, match="must be of the groups of the calibration"):
        nacp.judge(cal, nacp.evaluate(sets, labels, groups=np.repeat(["c", "d"], [200, 800])))


def test_a_broken_promise_is_seen_on_noisy_labels():
    probs, labels = twins.simulate("cifar10", n=8000, random_state=0)
    noisy = nacp.UniformNoise(0.2).sample(labels, 10, random_state=0)
    cal = nacp.calibrate(probs[:4000], labels[:4000], noise=None, alpha=0.2)
    cal = dataclasses.replace(cal, alpha=0.1, guarantee=nacp.PAC())
    verdict = nacp.judge(cal, nacp.evaluate(cal.predict_set(probs[4000:]), noisy[4000:], noise=0.2))
    assert (verdict.passed, verdict.hint) == (False, "")
    assert "by 4,000 noisy labels (uniform label noise" in on_one_line(verdict)
