"""What every guarantee must do, and whether what it promises comes true.

The promises are tested on simulated classifiers. A pool of rows is the population: calibration sets are
drawn from it with replacement, each with label noise of its own, and their coverage is counted on the whole
pool, so that it is known exactly and only the calibration is random.
"""

import math
import re
from functools import cache

import numpy as np
import pytest

import nacp
from nacp.guarantees import GUARANTEES, Corrected, Problem
from nacp.paper import twins

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

ALPHA = 0.1
EPSILON = 0.2


N = 1000
RUNS = {"cifar10": 100, "cifar100": 60}
METHODS = {
    "oracle": {"noise": None, "guarantee": "split"},
    "ignorant": {"noise": None, "guarantee": "split"},
    "none": {"noise": NOISE, "guarantee": "none"},
    "nacp": {"noise": NOISE, "guarantee": nacp.NACP(delta=0.001)},
}


class Population:
    """Rows of a twin, with their true coverage and mean set size at every threshold."""

    def __init__(self, twin, score):
        self.twin, self.size = twin, 20_000
        self.probs, self.labels = twins.simulate(twin, n=self.size, random_state=11)
        self.k = self.probs.shape[1]
        self.score = nacp.APS(seed=1) if score == "aps" else nacp.HPS()
        self._true = np.sort(self.score.label_scores(self.probs, self.labels))
        self._all = np.sort(self.score.scores(self.probs), axis=None)

    def coverage(self, q):
        return np.searchsorted(self._true, q, side="right") / self.size

    def set_size(self, q):
        return np.searchsorted(self._all, q, side="right") / self.size

    def size_at(self, coverage):
        """Return the mean size of the smallest sets of this coverage."""
        return self.set_size(self._true[np.ceil(np.asarray(coverage) * self.size).astype(int) - 1])

    @cache  # noqa: B019  (as many as there are parameters of the fixture)
    def thresholds(self, method):
        """Return the thresholds of one method on many calibration sets."""
        found = []
        for run in range(RUNS[self.twin]):
            rng = np.random.default_rng(run)
            rows = rng.integers(self.size, size=N)
            labels = self.labels[rows]
            if method != "oracle":
                labels = NOISE.sample(labels, self.k, rng)
            options = {"alpha": ALPHA, "score": self.score} | METHODS[method]
            found.append(nacp.calibrate(self.probs[rows], labels, **options).threshold)
        return np.array(found)


@pytest.fixture(scope="module", params=[(twin, score) for twin in RUNS for score in ("hps", "aps")], ids=str)
def pool(request):
    return Population(*request.param)


def standard_error(values):
    return values.std(ddof=1) / math.sqrt(len(values))


def bias_allowance(pool):
    """Return how far from 1 - alpha the mean coverage without a correction may lie, of the order 1/n.

    Add a fresh point to the n: for the threshold of the n + 1, which treats them alike, the fresh point is
    covered with the estimated probability, which exceeds the target by at most one jump of the estimate. A
    point moves n F^c-hat by at most hi - lo = ||W||, so the threshold of the n lies between those of the
    n + 1 for targets that are ||W||/n apart. A jump is 1/((1 - e) n), and n/N rows come twice. Between its
    first and its last crossing, the estimate, a walk with drift 1 and variance v per unit of coverage, spends
    v on average: v = ((1 - e) + e r)/((1 - e)^2 n), because the noisy coverage grows by (1 - e) + e r, where
    r is the growth of the mean size divided by k.
    """
    growth = (pool.size_at(0.92) - pool.size_at(0.88)) / 0.04 / pool.k
    jump = (1 + N / pool.size) / (1 - EPSILON)
    walk = (1 - EPSILON + EPSILON * growth) / (1 - EPSILON) ** 2
    return (NOISE.condition(pool.k) + jump + walk) / N


def test_without_a_correction_coverage_is_right_on_average_and_half_of_the_sets_fall_short(pool):
    coverage = pool.coverage(pool.thresholds("none"))
    assert abs(coverage.mean() - (1 - ALPHA)) <= 4 * standard_error(coverage) + bias_allowance(pool)
    # A binomial share, whose probability is 1/2 up to the bias in units of the spread of the coverage.
    tilt = bias_allowance(pool) / coverage.std() / math.sqrt(2 * math.pi)
    assert abs(np.mean(coverage < 1 - ALPHA) - 0.5) <= 4 * math.sqrt(0.25 / len(coverage)) + tilt


def test_nacp_covers_in_every_run_and_split_conformal_prediction_clean_labels_on_average(pool):
    q = pool.thresholds("nacp")
    assert pool.coverage(q).min() >= 1 - ALPHA
    assert np.isfinite(q).all(), "and not by holding all classes"
    coverage = pool.coverage(pool.thresholds("oracle"))
    assert coverage.mean() >= 1 - ALPHA - 4 * standard_error(coverage)


def test_noise_aware_sets_are_as_small_as_with_clean_labels(pool):
    q = pool.thresholds("none")
    sizes = pool.set_size(q)
    # Size is a curve s(F) of coverage. To second order E s(F) - s(0.9) is slope x bias + s''/2 x variance;
    # both from the population, the second as (s(0.9 + h) - 2 s(0.9) + s(0.9 - h))/8 at h = 2 deviations.
    spread = pool.coverage(q).std(ddof=1)
    low, oracle, high = pool.size_at(1 - ALPHA + 2 * spread * np.array([-1, 0, 1]))
    slope = (high - low) / (4 * spread)
    curvature = abs(high - 2 * oracle + low) / 8
    allowance = 4 * standard_error(sizes) + slope * bias_allowance(pool) + curvature
    assert abs(sizes.mean() - oracle) <= allowance
    assert sizes.mean() + 4 * standard_error(sizes) < pool.set_size(pool.thresholds("ignorant")).mean()


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
    assert coverage.mean() >= 0.5 - 4 * standard_error(coverage)
