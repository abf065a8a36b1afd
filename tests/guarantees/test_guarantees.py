"""What every guarantee must do, and whether what it promises comes true."""

import math
import re

import numpy as np
import pytest

import nacp
from nacp.guarantees import GUARANTEES, Corrected, Problem
from nacp.paper import twins
from tests.guarantees.problems import error_of, population

K = 4
PRIORS = np.array([0.1, 0.2, 0.3, 0.4])
NOISE = nacp.UniformNoise(0.2)
NOISY_PRIORS = np.array([0.13, 0.21, 0.29, 0.37])
ALL = [
    nacp.Uncorrected(),
    nacp.SplitConformal(),
    nacp.NACP(),
    nacp.NACP(delta=0.1),
    nacp.ACNL(),
    nacp.ACNL(priors=PRIORS),
    nacp.CRCP(),
    nacp.CRCP(priors=PRIORS),
    nacp.PAC(),
    nacp.PAC(delta=0.1),
    nacp.Binomial(),
    nacp.Binomial(delta=0.1),
    nacp.Expected(),
    nacp.Expected("worst-case"),
]
every_guarantee = pytest.mark.parametrize("guarantee", ALL, ids=repr)
every_correction = pytest.mark.parametrize(
    "guarantee", [guarantee for guarantee in ALL if isinstance(guarantee, Corrected)], ids=repr
)


def problem(guarantee, n=1000, alpha=0.1, noise=NOISE, shares=NOISY_PRIORS):
    noise = None if isinstance(guarantee, nacp.SplitConformal) else noise
    inverse = (noise or nacp.UniformNoise(0.0)).inverse(len(shares))
    return Problem(alpha, n, noise, inverse, n * shares)


def test_every_guarantee_of_the_library_is_on_this_list():
    assert {type(guarantee) for guarantee in ALL} == set(GUARANTEES.values())
    assert {kind.name: kind for kind in GUARANTEES.values()} == GUARANTEES


@every_guarantee
def test_the_excess_is_not_negative_and_falls_to_nothing_with_n(guarantee):
    corrections = [guarantee.excess(problem(guarantee, n), 0.5) for n in (100, 1000, 10**4, 10**5, 10**12)]
    if guarantee == nacp.Uncorrected():
        assert corrections == [0] * 5
    else:
        assert (np.diff(corrections) < 0).all()
        assert 0 < corrections[-1] < 1e-4


@every_guarantee
@pytest.mark.parametrize(
    ("alpha", "level"), [(0.1, "90%"), (0.05, "95%"), (0.025, "97.5%"), (0.001, "99.9%")]
)
def test_the_promise_is_a_sentence_that_names_the_level(guarantee, alpha, level):
    promise = guarantee.promise(alpha)
    assert f" {level} " in f"{promise} "
    assert not re.search(r"[.;!?]\s|[.;!?]$|\n", promise)


@every_correction
def test_the_correction_is_what_calibrate_adds_to_the_target(guarantee):
    probs, labels = twins.simulate("cifar10", n=4000, random_state=1)
    labels = NOISE.sample(labels, 10, random_state=1)
    priors = np.full(10, 0.1)
    if getattr(guarantee, "priors", None) is not None:
        guarantee = type(guarantee)(priors=priors)
    given = problem(guarantee, n=4000, shares=np.bincount(labels) / 4000)
    cal = nacp.calibrate(probs, labels, noise=given.noise, guarantee=guarantee)
    assert cal.correction == guarantee.correction(given)
    assert cal.estimate >= 1 - cal.alpha + cal.correction - 1e-12
    assert cal.promise == guarantee.promise(0.1)
    assert cal.promise in " ".join(str(cal).split())


# Whether the promises come true


def test_without_a_correction_half_of_the_calibration_sets_fall_short_and_with_that_of_nacp_none():
    pool, n, runs = population(), 1000, 200
    rows = nacp.UniformNoise(0.2).matrix(10).dense()[pool.labels]
    covered, _ = pool.coverages(rows, n, runs, noise=0.2, guarantee="none")
    # A point moves n F^c-hat by at most 1.5, one jump of the estimate is 1.25/n, and its walk spends 1.3/n.
    bias = 5 / n
    assert abs(covered.mean() - 0.9) <= 4 * covered.std() / math.sqrt(runs) + bias
    tilt = bias / covered.std() / math.sqrt(2 * math.pi)
    assert abs(np.mean(covered < 0.9) - 0.5) <= 4 * error_of(0.5, runs) + tilt
    covered, _ = pool.coverages(rows, n, runs, noise=0.2, guarantee=nacp.NACP(delta=0.001))
    assert 0.9 <= covered.min() <= covered.mean() < 1


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["split", "acnl", "crcp"])
def test_a_promise_on_average_is_kept_without_noise_and_with_few_points(guarantee):
    # The scores of the right labels are uniform, so the threshold is the coverage; the i-th smallest of n
    # covers i/(n + 1) on average, which at i = n/2 is short of 1/2 by seven standard errors here.
    n, runs = 20, 1000
    kind = guarantee if guarantee == "split" else GUARANTEES[guarantee](priors=[0.5, 0.5])
    rng = np.random.default_rng(12)
    labels = np.arange(n) % 2
    coverage = np.empty(runs)
    for run in range(runs):
        right = rng.random(n)
        probs = np.where(np.eye(2, dtype=bool)[labels], right[:, None], 1 - right[:, None])
        cal = nacp.calibrate(probs, labels, noise=None, guarantee=kind, alpha=0.5)
        coverage[run] = min(cal.threshold, 1.0)
    assert "in expectation" in cal.promise
    assert coverage.mean() >= 0.5 - 4 * coverage.std() / math.sqrt(runs)
