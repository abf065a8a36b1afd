"""Coverage on average: against its definition, the correction by integrated tails, and the estimated gap."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

import nacp
from nacp.guarantees import expected
from nacp.stats.tails import bernstein_excess, bounded_excess
from tests.guarantees.problems import (
    NOISES,
    PAIRS,
    PAIRS_OF_TEN,
    SCORES,
    K,
    population,
    sample,
    widest_oscillation,
)

WORST_CASE = nacp.Expected("worst-case")
INTERVAL = nacp.UniformNoise(0.2, interval=(0.15, 0.25))


def moved(score, values):
    """Return all scores, each moved up to the grid of thresholds."""
    return score.spec.thresholds[score.spec.cells_of(score.scores(values) - score.offset)] + score.offset


def by_definition(scores, labels, noise, alpha, worst_case=False):
    """Return the threshold and the gap of "expected": E3, or E1 where the gap is not small.

    Scores are points of the grid. The gap is the slope of psi-hat against F^c-hat over the thresholds where
    the estimate is within one standard error of its target, times (hi - lo)/n. Sets are taken to be small
    there, and classes to be equally frequent. If the estimate rises by less than one point adds, it jumps.
    """
    n, k = scores.shape
    P = noise.matrix(k).dense()
    weights = np.linalg.inv(P)
    low, high = np.minimum(weights, 0).sum(axis=1).min(), np.maximum(weights, 0).sum(axis=1).max()
    # A label that is drawn from a group with probability e has W = (I - e B)/(1 - e), and psi is that of B.
    kept = 0 if isinstance(noise, nacp.MatrixNoise) else 1 / (1 - noise.rate)
    negative = np.minimum(weights - kept * np.eye(k), 0)
    every = [-np.inf, *np.unique(scores), np.inf]
    clean = np.array([((scores <= q) * weights[labels]).sum() / n for q in every])
    lost = np.array([((scores <= q) * -negative[labels]).sum() / n for q in every])

    def lowest(target):
        """Return the place of the lowest threshold from which on all estimates reach the target."""
        failed = np.flatnonzero(clean < target - 1e-12)
        return min(failed[-1] + 1, len(every) - 1) if len(failed) else 0

    place = lowest(((n + 1) * (1 - alpha) - low) / n)
    if every[place] == np.inf and not worst_case:
        return np.inf, 0.0
    variance = (1 - alpha) * (P * (weights**2).T).sum() / k - (1 - alpha) ** 2
    below, above = (lowest(1 - alpha + side * math.sqrt(variance / n)) for side in (-1, 1))
    step = (high - low) / n
    gap = (lost[above] - lost[below]) / max(clean[above] - clean[below], step) * step
    if worst_case or gap > min(3 / n, alpha / 10) * (1 + 1e-9):
        place = lowest(1 - alpha + bounded_excess(n, low, high, 1 - alpha))
    return every[place], 0.0 if worst_case else gap


@pytest.mark.parametrize("rule", ["exchange", "worst-case"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_expected_is_what_its_definition_says(noise, score, rule):
    n, alpha = 300, 0.2
    probs, _, labels = sample(n, noise)
    cal = nacp.calibrate(probs, labels, noise=noise, score=score, guarantee=nacp.Expected(rule), alpha=alpha)
    threshold, gap = by_definition(moved(score, probs), labels, noise, alpha, rule == "worst-case")
    assert (cal.threshold, cal.gap) == (threshold, pytest.approx(gap, abs=1e-9))
    large = gap > min(3 / n, alpha / 10)
    assert (cal.note is not None) == large
    if large:
        assert "worst case" in cal.note
        assert cal.note in " ".join(str(cal).split())
    if rule == "worst-case":
        assert cal.correction == pytest.approx(bounded_excess(n, *noise.range(K), 1 - alpha))
        assert "less a gap" not in cal.promise


def small_cases(seed):
    """Yield small problems of all sorts, some with ties: scores, labels, and two rates."""
    rng = np.random.default_rng(seed)
    for _ in range(30):
        n, k = rng.integers(6, 12), rng.integers(2, 6)
        scores = rng.standard_normal((n, k)) if rng.random() < 0.5 else rng.integers(-3, 4, (n, k)) / 4
        rates = np.sort(rng.choice([0.0, 0.1, 0.3, 0.5, 0.6], 2, replace=False))
        yield scores, rng.integers(k, size=n), *rates


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.5, 0.7, 0.8])
def test_expected_is_what_its_definition_says_on_the_smallest_problems(alpha):
    gaps, below = [], 0
    for scores, labels, low, high in small_cases(seed=int(10 * alpha)):
        options = {"score": "precomputed", "guarantee": "expected", "alpha": alpha}
        cal = nacp.calibrate(scores, labels, noise=high, **options)
        doubtful = nacp.UniformNoise((low + high) / 2, interval=(low, high))
        between = nacp.calibrate(scores, labels, noise=doubtful, **options)
        on_grid = moved(nacp.Precomputed(), scores)
        ends = [by_definition(on_grid, labels, nacp.UniformNoise(rate), alpha) for rate in (low, high)]
        assert (cal.threshold, cal.gap) == (ends[1][0], pytest.approx(ends[1][1], abs=1e-12))
        assert between.threshold == max(q for q, _ in ends)
        assert between.gap == pytest.approx(max(gap for _, gap in ends), abs=1e-12)
        gaps.append(cal.gap)
        below += cal.threshold < np.inf
    assert below > 0 or alpha == 0.1
    assert max(gaps) > 0 or alpha == 0.1, "hard cases are among them"


def test_expected_without_noise_is_split_conformal():
    probs, true, _ = sample(500, NOISES["uniform"])
    options = {"alpha": 0.13, "score": "aps"}
    split = nacp.calibrate(probs, true, noise=None, **options)
    cal = nacp.calibrate(probs, true, noise=0.0, guarantee="expected", **options)
    every = np.unique(moved(nacp.APS(), probs))
    assert cal.threshold == every[np.searchsorted(every, split.threshold)], "the next point of the grid"


# Noise that is not known exactly


@pytest.mark.parametrize("guarantee", [nacp.Expected(), WORST_CASE], ids=str)
def test_under_a_radius_expected_aims_at_so_much_more(guarantee):
    radius, n, alpha = 0.02, 400, 0.3
    noise = nacp.MatrixNoise(NOISES["random"].P, radius=radius)
    probs, _, labels = sample(n, noise)
    cal = nacp.calibrate(probs, labels, noise=noise, alpha=alpha, guarantee=guarantee)
    doubt = radius * widest_oscillation(np.linalg.inv(noise.P))
    assert doubt > radius
    assert cal.note is None
    less = alpha - doubt
    threshold, _ = by_definition(moved(nacp.HPS(), probs), labels, noise, less, guarantee == WORST_CASE)
    assert cal.threshold == pytest.approx(threshold, rel=1e-12)
    assert cal.estimate >= 1 - alpha + cal.correction - 1e-12
    low, high = noise.range(K)
    correction = bounded_excess(n, low, high, 1 - less) if guarantee == WORST_CASE else (1 - less - low) / n
    assert cal.correction == pytest.approx(correction + doubt)
    exactly = nacp.calibrate(probs, labels, noise=noise.P, alpha=alpha, guarantee=guarantee)
    sizes = [c.predict_set(probs).sizes.mean() for c in (cal, exactly)]
    assert cal.price_of_doubt == pytest.approx(sizes[0] - sizes[1])
    assert cal.price_of_doubt > 0


def test_a_radius_that_takes_all_of_alpha_is_named():
    probs, _, labels = sample(400, NOISES["matrix"])
    noise = nacp.MatrixNoise(PAIRS, radius=0.2)
    with pytest.warns(nacp.NoValidThresholdWarning, match="the radius of the noise alone takes 0.4"):
        cal = nacp.calibrate(probs, labels, noise=noise, alpha=0.3, guarantee="expected")
    assert cal.threshold == math.inf


# Whether it comes true


def short_of(covered, gaps=0.0):
    """Return by how many standard errors the mean coverage is below 0.9, less the mean gap."""
    error = covered.std() / math.sqrt(len(covered))
    return (0.9 - np.mean(gaps) - covered.mean()) / error


def test_expected_covers_on_average():
    pool, n, runs = population(), 200, 400
    rows = nacp.UniformNoise(0.2).matrix(10).dense()[pool.labels]
    covered, gaps = pool.coverages(rows, n, runs, noise=0.2, guarantee="expected")
    assert short_of(covered, gaps) <= 4
    assert covered.mean() <= 0.9 + 3 / n + 4 * covered.std() / math.sqrt(runs)


DOUBT = {  # the stated noise, the true noise of each point, and what is too small without the doubt
    "radius": (PAIRS_OF_TEN, lambda pool: pool.worst_rows(PAIRS_OF_TEN), PAIRS_OF_TEN.P),
    "low end": (INTERVAL, lambda pool: nacp.UniformNoise(0.15).matrix(10).dense()[pool.labels], 0.2),
    "high end": (INTERVAL, lambda pool: nacp.UniformNoise(0.25).matrix(10).dense()[pool.labels], None),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nacp.NoiseModelWarning")  # .2 alone is overstated on purpose
@pytest.mark.parametrize("rule", ["exchange", "worst-case"])
@pytest.mark.parametrize(("noise", "rows", "alone"), DOUBT.values(), ids=DOUBT)
def test_expected_covers_on_average_under_all_noise_that_is_stated(noise, rows, alone, rule):
    pool, n, runs = population(), 1000, 100
    found = pool.coverages(rows(pool), n, runs, noise=noise, guarantee=nacp.Expected(rule))
    assert short_of(*found) <= 4
    if alone is not None:
        trusting, _ = pool.coverages(rows(pool), n, runs, noise=alone, guarantee="expected")
        assert short_of(trusting) > 4, "without the doubt it does not"


# The correction of the worst case


def tail(n, low, high, reached, v):
    """P(mean >= reached) is at most this if the expectation is v: Hoeffding's bound and Bentkus'."""
    a, p = ((each - low) / (high - low) for each in (reached, v))
    if p >= a:
        return 1.0
    kl = a * math.log(a / p) + ((1 - a) * math.log((1 - a) / (1 - p)) if a < 1 else 0.0)
    return min(math.exp(-n * kl), math.e * binom.sf(math.floor(n * a + 1e-9) - 1, n, p))


@pytest.mark.parametrize("n", [60, 1000, 20000])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.25, 1.25), (-0.6, 1.7)])
def test_the_correction_of_the_worst_case_is_its_integral(n, low, high):
    target = 0.7
    found = bounded_excess(n, low, high, target)
    reached = target + found
    spread = (high - low) / math.sqrt(n)
    near = quad(lambda v: tail(n, low, high, reached, v), reached - spread, reached, limit=500)[0]
    far = quad(lambda v: tail(n, low, high, reached, v), max(0.0, reached - 8 * spread), reached - spread)[0]
    # Bentkus' bound jumps with whole hits, of which one moves the target by a width over n.
    assert near + far - 1e-6 <= found <= 1.01 * (near + far) + (high - low) / n


@pytest.mark.parametrize(("n", "variance", "width"), [(100, 0.05, 1.0), (10_000, 1.0, 4.0), (50, 1e-3, 3.0)])
def test_the_correction_for_classes_is_the_integral_of_bernsteins_bound(n, variance, width):
    exact = quad(lambda t: math.exp(-n * t**2 / (2 * (variance + t * width / 3))), 0, 1)[0]
    exact += quad(lambda t: math.exp(-n * t**2 / (2 * (variance + t * width / 3))), 1, np.inf)[0]
    assert exact - 1e-9 <= bernstein_excess(n, variance, width) <= 1.03 * exact + 1e-9


# The gap


def two_values(n, rng):
    """Rows that hold two numbers only: half of the labels score .8, the others 1."""
    probs = np.full((n, 10), 0.0)
    order = rng.permuted(np.tile(np.arange(10), (n, 1)), axis=1)
    np.put_along_axis(probs, order[:, :5], 0.2, axis=1)
    inside = rng.random(n) < 0.93
    places = np.where(inside, rng.integers(5, size=n), 5 + rng.integers(5, size=n))
    return probs, order[np.arange(n), places]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_a_gap_that_one_run_does_not_show_is_estimated():
    """Both rules find the same threshold in nearly all runs; what counts is the mean gap."""
    noise, coverage = nacp.UniformNoise(0.8), []
    for run in range(800):
        rng = np.random.default_rng(run)
        probs, labels = two_values(1000, rng)
        noisy = noise.sample(labels, 10, rng)
        cal = nacp.calibrate(probs, noisy, noise=noise, alpha=0.01, guarantee="expected")
        coverage.append(1.0 if cal.threshold >= 1 else 0.93)
    assert np.mean(coverage) >= 0.99 - 3 * np.std(coverage) / math.sqrt(len(coverage))


# A class that hardly occurs


def hardly_class_0(n, k, points, noise, rng):
    """Points of which so many are of class 0, on average; their own label scores .999, all others' .9."""
    labels = np.where(rng.random(n) < points / n, 0, rng.integers(1, k, size=n))
    first = np.where(labels == 0, 0.001, 0.1)
    logits = rng.standard_normal((n, k - 1)) + 4 * (labels[:, None] == np.arange(1, k))
    others = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    probs = np.column_stack([first, others * (1 - first)[:, None]])
    return probs, noise.sample(labels, k, rng)


@pytest.mark.slow
def test_a_class_that_hardly_occurs_is_covered_on_average():
    """Its labels may weigh a little above zero by chance; then a threshold below its scores was chosen."""
    noise, coverage = nacp.UniformNoise(0.2), []
    for run in range(100):
        probs, noisy = hardly_class_0(20_000, 10, 1.0, noise, np.random.default_rng(run))
        try:
            cal = nacp.calibrate(probs, noisy, noise=noise, guarantee="expected", by="class")
            coverage.append(float(cal.groups[0].threshold >= 0.999))
        except nacp.InputError:  # refused, so all labels have to serve
            coverage.append(1.0)
    assert np.mean(coverage) >= 0.9


def test_classes_with_enough_points_are_not_refused():
    probs, _, noisy = sample(6000, NOISES["uniform"])
    for guarantee in ("expected", WORST_CASE):
        cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee=guarantee, by="class")
        assert max(cal.thresholds.values()) < 1
    assert max(each.correction for each in cal.groups.values()) < 0.08


def test_both_ends_of_an_interval_use_the_correction_of_the_upper_end():
    """The tail bound is not convex in the rate: with corrections of their own a rate between could fail."""
    probs, _, noisy = sample(3600, NOISES["uniform"])
    options = {"guarantee": WORST_CASE, "alpha": 0.2}
    interval, upper = (nacp.calibrate(probs, noisy, noise=noise, **options) for noise in (INTERVAL, 0.25))
    assert interval.correction == upper.correction


@pytest.mark.parametrize(("alpha", "limit"), [(0.3, 3 / 400), (0.05, 0.005)])
@pytest.mark.parametrize("part", [0.5, 1.0, 1.01, 1.3])
@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_a_gap_above_3_in_n_or_a_tenth_of_alpha_leads_to_the_worst_case(monkeypatch, alpha, limit, part):
    monkeypatch.setattr(expected, "_mean_gap", lambda curve, problem, target: part * limit)
    probs, _, labels = sample(400, NOISES["uniform"])
    options = {"noise": NOISES["uniform"], "alpha": alpha}
    cal, worst = (
        nacp.calibrate(probs, labels, guarantee=rule, **options) for rule in ("expected", WORST_CASE)
    )
    assert cal.gap == part * limit
    if part <= 1:
        assert cal.note is None
        assert cal.threshold < worst.threshold
    else:
        assert cal.note.endswith("is not small, so the threshold is that of the worst case")
        assert (cal.threshold, cal.correction) == (worst.threshold, worst.correction)


def test_under_an_interval_of_rates_the_exact_threshold_is_that_of_the_stated_rate():
    """All models of an interval of group noise have weights, and so tallies, of their own."""
    groups = [0, 0, 0, 1, 1, 1]
    noise = nacp.GroupNoise(groups, 0.3, interval=(0.25, 0.35))
    probs, _, labels = sample(800, noise)
    options = {"alpha": 0.3, "guarantee": "expected"}
    cal, *known = (
        nacp.calibrate(probs, labels, noise=each, **options)
        for each in (noise, *(nacp.GroupNoise(groups, rate) for rate in (0.3, 0.25, 0.35)))
    )
    assert cal.threshold == pytest.approx(max(each.threshold for each in known[1:]))
    sizes = [each.predict_set(probs).sizes.mean() for each in (cal, known[0])]
    assert cal.price_of_doubt == pytest.approx(sizes[0] - sizes[1])
