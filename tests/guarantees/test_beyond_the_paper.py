""" "pac", "binomial" and "expected": against their definitions, and whether their promises come true."""

import math
import warnings
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import binom, norm

import nacp
from nacp.coverage.grid import COARSE, GRID, TESTED, cells_of
from nacp.guarantees import Problem
from nacp.paper import twins
from nacp.stats.betting import OPEN, WON, hedge_table, play
from nacp.stats.betting import _schedule as schedule
from nacp.stats.bounds import expected_excess, floor

K = 6
PAIRS = 0.75 * np.eye(K) + 0.25 * np.eye(K)[np.arange(K) ^ 1]
NOISES = {
    "uniform": nacp.UniformNoise(0.2),
    "groups": nacp.GroupNoise([0, 0, 0, 1, 1, 1], rate=0.3),
    "matrix": nacp.MatrixNoise(PAIRS),
    "random": nacp.MatrixNoise(0.7 * np.eye(K) + 0.3 * np.random.default_rng(3).dirichlet(np.ones(K), K)),
}
SCORES = {"hps": nacp.HPS(), "aps": nacp.APS(), "raps": nacp.RAPS(penalty=0.2, free=1), "topk": nacp.TopK()}
NORMAL = NormalDist()
every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
every_score = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
on_every_engine = pytest.mark.usefixtures("every_engine")


def sample(n, noise, seed=0, strength=4.0):
    rng = np.random.default_rng(seed)
    true = rng.integers(K, size=n)
    logits = rng.standard_normal((n, K)) + strength * np.eye(K)[true] * rng.random((n, 1))
    probs = np.exp(2 * logits)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, true, noise.sample(true, K, rng)


def shares(probs, labels, noise, score, q):
    """g_q by its definition: the sum of W[noisy label, l] over the set."""
    inside = score.scores(probs) <= q
    return (inside * np.linalg.inv(noise.matrix(K).dense())[labels]).sum(axis=1)


def grid_points(score, probs):
    """The points of the grid that scores are moved up to, ascending."""
    cells = score.spec.cells_of(score.scores(probs) - score.offset)
    return score.spec.thresholds[np.unique(cells)] + score.offset


def lowest_that_passes(passes, probs, labels, noise, score, alpha, delta):
    """The lowest of the points at which hypotheses are tested from which on upwards all pass; by definition.

    A point where the estimate exceeds 1 - alpha by less than half of what tests take at the least is given up
    without a test, and so are all below it. Where sets are the same as at the next point, so is the test.
    """
    scores, n, lowest, known = score.scores(probs), len(probs), math.inf, {}
    inverse = noise.inverse(K)
    likely = Problem(alpha, n, noise, inverse, np.bincount(labels, minlength=K).astype(float)).deviation
    worth = 1 - alpha + floor(delta, likely, n) / 2
    weights = np.linalg.inv(noise.matrix(K).dense())[labels]
    for q in score.spec.thresholds[TESTED][::-1] + score.offset:
        inside = scores <= q
        held = int(inside.sum())
        if held not in known:
            known[held] = (inside * weights).sum() / n >= worth and passes(q)
        if not known[held]:
            break
        lowest = q
    return lowest if not (scores <= lowest).all() else math.inf


def bet(shares, delta, low, high, target):
    """Return whether wealth reaches 1/delta, betting on one share after the other."""
    y, n = (shares - target) / (high - low), len(shares)
    most = 0.99 * (high - low) / (target - low)
    wealth, squares, total, next_stake, stake = 1.0, 0.25, 0.0, 0, 0.0
    for t in range(n):
        if t == next_stake:
            next_stake = t + max(1, min(t // 8, (n - t) // 64))
            p = min(delta * wealth, 1.0) / 1.05
            stake = min(NORMAL.pdf(NORMAL.inv_cdf(p)) / p / math.sqrt(squares / (t + 1) * (n - t)), most)
            if total > 6 * math.sqrt(squares):
                stake = min(total / squares, most) / 2
        wealth *= 1 + stake * y[t]
        squares += y[t] ** 2
        total += y[t]
        if wealth >= 1 / delta:
            return True
    return False


@on_every_engine
@every_noise
@every_score
def test_pac_is_the_lowest_threshold_of_the_grid_from_which_on_every_bet_is_won(noise, score):
    probs, _, labels = sample(150, noise)
    cal = nacp.calibrate(
        probs, labels, noise=noise, score=score, alpha=0.3, guarantee=nacp.PAC(0.2), random_state=5
    )
    order = np.random.default_rng(5).permutation(150)
    low, high = noise.range(K)

    def won(q):
        return bet(shares(probs, labels, noise, score, q)[order], 0.2, low, high, 0.7)

    assert cal.threshold == lowest_that_passes(won, probs, labels, noise, score, 0.3, 0.2)
    if math.isfinite(cal.threshold):
        assert cal.estimate == pytest.approx(
            shares(probs, labels, noise, score, cal.threshold).mean(), abs=1e-9
        )


def chernoff(mean, n, delta):
    low, high = mean, 1.0
    for _ in range(100):
        u = (low + high) / 2
        if u in (low, high):
            break
        pieces = [p * math.log(p / q) for p, q in ((mean, u), (1 - mean, 1 - u)) if p > 0]
        low, high = (u, high) if n * sum(pieces) <= math.log(1 / delta) else (low, u)
    return high


@on_every_engine
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("more", [0, 400])
@every_score
def test_binomial_is_the_lowest_threshold_of_the_grid_from_which_on_every_p_value_is_small(rate, more, score):
    noise, delta, alpha = nacp.UniformNoise(rate), 0.1, 0.2
    probs, _, labels = sample(300, noise)
    unlabelled = sample(more, noise, seed=4)[0] if more else None
    cal = nacp.calibrate(
        probs,
        labels,
        noise=noise,
        score=score,
        alpha=alpha,
        guarantee=nacp.Binomial(delta),
        unlabelled=unlabelled,
    )
    everyone = probs if unlabelled is None else np.concatenate([probs, unlabelled])
    own, scores, m = score.label_scores(probs, labels), score.scores(everyone), len(everyone)
    coarse = score.spec.thresholds[COARSE] + score.offset

    def small(q):
        """Squared sizes are known at fewer thresholds: that at the next one is no smaller."""
        mean = (scores <= q).mean()
        square = ((scores <= coarse[np.searchsorted(coarse, q)]).mean(axis=1) ** 2).mean()
        log, variance = math.log(2 / (delta / 40)), max(square - mean**2, 0) * m / (m - 1)
        bernstein = mean + math.sqrt(2 * variance * log / m) + 7 * log / (3 * (m - 1))
        p0 = (1 - rate) * (1 - alpha) + rate * min(chernoff(mean, m, delta / 40), bernstein)
        return binom.sf(np.count_nonzero(own <= q) - 1, 300, p0) <= delta - delta / 20

    expected = lowest_that_passes(small, probs, labels, noise, score, alpha, delta)
    assert cal.threshold == expected


@on_every_engine
@every_noise
@every_score
def test_expected_is_where_the_estimate_covers_the_least_that_a_further_point_may_add(noise, score):
    probs, _, labels = sample(200, noise)
    cal = nacp.calibrate(probs, labels, noise=noise, score=score, guarantee=nacp.Expected(), alpha=0.2)
    low, _ = noise.range(K)
    every = grid_points(score, probs)
    scores, weights = score.scores(probs), np.linalg.inv(noise.matrix(K).dense())[labels]
    totals = np.array([weights[scores <= q].sum() for q in every])
    lowest = 1 + np.flatnonzero((totals + low) / 201 < 0.8 - 1e-12).max()
    if cal.gap <= min(3 / 200, 0.02) + 1e-12:
        assert cal.threshold == every[lowest]
        assert cal.note is None
    else:
        worst = nacp.calibrate(
            probs, labels, noise=noise, score=score, guarantee=nacp.Expected("worst-case"), alpha=0.2
        )
        assert cal.threshold == worst.threshold >= every[lowest]
        assert "worst case" in cal.note
        assert cal.note in " ".join(str(cal).split())


def exchange(scores, labels, rate, alpha):
    """Return the threshold and the gap of "expected" by its definition: E3 at points of the grid, and E1."""
    scores = GRID[cells_of(scores)]
    n, k = scores.shape
    weights = np.linalg.inv(nacp.UniformNoise(rate).matrix(k).dense())
    negative = np.minimum(weights, 0)
    low, high = negative.sum(axis=1).min(), (weights - negative).sum(axis=1).max()
    every = [-np.inf, *np.unique(scores), np.inf]

    def clean(q):
        return ((scores <= q) * weights[labels]).sum() / n

    def lowest(passes):
        """Return the lowest threshold from which on all pass."""
        failed = [i for i, q in enumerate(every) if not passes(clean(q))]
        return np.inf if failed and failed[-1] == len(every) - 1 else every[failed[-1] + 1 if failed else 0]

    q, q_low = (
        lowest(lambda clean, more=more: (n * clean + more) / (n + 1) >= 1 - alpha - 1e-12)
        for more in (low, high)
    )
    gap = 0.0 if q == np.inf else rate / (1 - rate) * ((scores <= q).mean() - (scores <= q_low).mean())
    if gap > min(3 / n, alpha / 10) + 1e-12:
        q = lowest(lambda clean: clean >= 1 - alpha + (high - low) * expected_excess(n) - 1e-12)
    return q, gap


def small_cases(seed):
    """Yield small problems of all sorts, some with ties: scores, labels, and two rates."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        n, k = rng.integers(6, 12), rng.integers(2, 6)
        scores = rng.standard_normal((n, k)) if rng.random() < 0.5 else rng.integers(-3, 4, (n, k)) / 4
        yield (
            scores,
            rng.integers(k, size=n),
            *np.sort(rng.choice([0.0, 0.1, 0.3, 0.5, 0.6], 2, replace=False)),
        )


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.5, 0.7, 0.8])
def test_expected_is_what_its_definition_says_on_the_smallest_problems(alpha):
    gaps, below = [], 0
    for scores, labels, low, high in small_cases(seed=int(10 * alpha)):
        options = {"score": "precomputed", "guarantee": "expected", "alpha": alpha}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
            cal = nacp.calibrate(scores, labels, noise=high, **options)
            doubtful = nacp.UniformNoise((low + high) / 2, interval=(low, high))
            between = nacp.calibrate(scores, labels, noise=doubtful, **options)
        ends = [exchange(scores, labels, rate, alpha) for rate in (low, high)]
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
    every = grid_points(nacp.APS(), probs)
    assert cal.threshold == every[np.searchsorted(every, split.threshold)], "the next point of the grid"


def test_the_worst_case_costs_the_norm_of_w_times_the_expected_excess():
    probs, _, labels = sample(2000, NOISES["matrix"])
    cal = nacp.calibrate(probs, labels, noise=PAIRS, alpha=0.2, guarantee=nacp.Expected("worst-case"))
    norm_of_w = np.abs(np.linalg.inv(PAIRS)).sum(axis=1).max()
    excess = float(
        Fraction(math.factorial(2000), 2 * 2000**2001)
        * sum(Fraction(2000**j, math.factorial(j)) for j in range(2000))
    )
    assert cal.correction == pytest.approx(norm_of_w * excess)
    assert "less a gap" not in cal.promise


# What is refused


INTERVAL = nacp.UniformNoise(0.2, interval=(0.1, 0.3))
RADIUS = nacp.MatrixNoise(PAIRS, radius=0.02)


@pytest.mark.parametrize("noise", [0.2, INTERVAL], ids=["exact", "interval"])
@pytest.mark.parametrize("guarantee", ["pac", "binomial", "expected", "nacp"])
def test_the_first_crossing_is_refused(guarantee, noise):
    if guarantee == "nacp" and noise == 0.2:
        return
    probs, _, labels = sample(50, NOISES["uniform"])
    with pytest.raises(nacp.InputError, match=rf'"{guarantee}" .*crossing="first".*: use "last"'):
        nacp.calibrate(probs, labels, noise=noise, guarantee=guarantee, crossing="first")


@pytest.mark.parametrize("noise", [INTERVAL, RADIUS], ids=["interval", "radius"])
@pytest.mark.parametrize("guarantee", ["none", "acnl", "crcp"])
def test_guarantees_that_need_the_noise_exactly_refuse_doubt(guarantee, noise):
    probs, _, labels = sample(100, NOISES["uniform"])
    with pytest.raises(nacp.InputError, match=rf'"{guarantee}" needs noise that is known exactly'):
        nacp.calibrate(probs, labels, noise=noise, guarantee=guarantee)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nacp.UniformNoise(0.2, interval=(0.3, 0.4)), "interval must contain the rate 0.2"),
        (lambda: nacp.UniformNoise(0.2, interval=(0.1, 1.4)), r"interval must lie in \[0, 1\); found 1.4"),
        (lambda: nacp.UniformNoise(0.2, confidence=0.9), "pass interval="),
        (lambda: nacp.UniformNoise(0.2, interval=0.1), "interval must be two numbers"),
        (lambda: nacp.UniformNoise(0.2, interval=(0.1, 0.3), confidence=0.0), "confidence"),
        (lambda: nacp.MatrixNoise(PAIRS, radius=-0.1), "radius"),
        (lambda: nacp.Expected("best"), "rule must be one of 'exchange', 'worst-case'"),
    ],
)
def test_a_wrong_parameter_is_refused(make, words):
    with pytest.raises(nacp.InputError, match=words):
        make()


def test_unlabelled_points_are_checked_and_are_for_binomial_only():
    probs, _, labels = sample(50, NOISES["uniform"])
    with pytest.raises(ValueError, match='"binomial" only'):
        nacp.calibrate(probs, labels, noise=0.2, guarantee="pac", unlabelled=probs)
    with pytest.raises(ValueError, match=r"unlabelled has 5 columns, .* 6 classes"):
        nacp.calibrate(probs, labels, noise=0.2, guarantee="binomial", unlabelled=probs[:, :5])


# Uncertain noise


WORST_CASE = nacp.Expected("worst-case")


@pytest.mark.parametrize("guarantee", ["pac", "binomial", "nacp", "expected", WORST_CASE], ids=str)
def test_under_an_interval_the_larger_threshold_of_both_ends_is_taken(guarantee):
    probs, _, labels = sample(3000, NOISES["uniform"])
    options = {"alpha": 0.2, "guarantee": guarantee}
    if guarantee in ("pac", "binomial", "nacp"):
        options["delta"] = 0.1
    ends = [nacp.calibrate(probs, labels, noise=rate, **options) for rate in (0.15, 0.25)]
    noise = nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.95)
    cal = nacp.calibrate(probs, labels, noise=noise, **options)
    exactly = nacp.calibrate(probs, labels, noise=0.2, **options)
    assert cal.threshold == max(end.threshold for end in ends) > exactly.threshold
    assert cal.gap == max(end.gap for end in ends)
    sizes = [c.predict_set(probs).sizes.mean() for c in (cal, exactly)]
    assert cal.price_of_doubt == pytest.approx(sizes[0] - sizes[1])
    if "delta" in options:
        assert "at least 85% of calibration sets" in cal.promise, (
            "0.1 and the 0.05 that the interval may fail"
        )
    else:
        assert "at least 75% in expectation" in cal.promise, "0.2 and the 0.05 that the interval may fail"
    assert exactly.price_of_doubt == 0


@pytest.mark.parametrize("rule", ["exchange", "worst-case"])
@pytest.mark.parametrize("k", [2, 6, 1000])
def test_what_both_ends_of_an_interval_pass_every_rate_between_passes(rule, k):
    """What "expected" asks of F^n and F^r is affine in rate / (1 - rate), so nothing is lost between."""
    low, high, n, alpha = 0.05, 0.6, 50, 0.2
    rng = np.random.default_rng(k)
    # Estimates that are near what is asked, with F^n on either side of F^r.
    noisy, random = rng.uniform(0.7, 1, size=(2, 2000))

    def passes(rate):
        least, most = nacp.UniformNoise(rate).range(k)
        clean = (noisy - rate * random) / (1 - rate)
        if rule == "exchange":
            return (n * clean + least) / (n + 1) >= 1 - alpha
        return clean >= 1 - alpha + (most - least) * expected_excess(n) - 1e-12

    both = passes(low) & passes(high)
    assert 0 < both.sum() < len(both)
    for rate in np.linspace(low, high, 23):
        assert passes(rate)[both].all()


def widest_oscillation(weights):
    """The most by which the rows' sums over any set differ, set by set."""
    sets = np.array(list(product([False, True], repeat=K)))
    return np.ptp(sets @ weights.T, axis=1).max()


@pytest.mark.parametrize("guarantee", [nacp.Expected(), WORST_CASE], ids=str)
def test_under_a_radius_expected_aims_at_so_much_more(guarantee):
    radius, n, alpha = 0.02, 400, 0.3
    noise = nacp.MatrixNoise(NOISES["random"].P, radius=radius)
    probs, _, labels = sample(n, noise)
    cal = nacp.calibrate(probs, labels, noise=noise, alpha=alpha, guarantee=guarantee)
    low, high = noise.range(K)
    doubt = radius * widest_oscillation(np.linalg.inv(noise.P))
    assert doubt > radius
    target = 1 - alpha + doubt
    every = grid_points(nacp.HPS(), probs)
    estimates = np.array([shares(probs, labels, noise, nacp.HPS(), q).mean() for q in every])
    if guarantee == WORST_CASE:
        failed = estimates < target + (high - low) * expected_excess(n) - 1e-12
    else:
        failed = (n * estimates + low) / (n + 1) < target - 1e-12
        assert cal.note is None
    lowest = 1 + np.flatnonzero(failed).max()
    assert cal.threshold == pytest.approx(every[lowest], rel=1e-12)
    assert cal.estimate >= 1 - alpha + cal.correction - 1e-12
    exactly = nacp.calibrate(probs, labels, noise=noise.P, alpha=alpha, guarantee=guarantee)
    assert cal.correction == pytest.approx(
        exactly.correction + (doubt if guarantee == WORST_CASE else doubt * (n + 1) / n)
    )
    sizes = [c.predict_set(probs).sizes.mean() for c in (cal, exactly)]
    assert cal.price_of_doubt == pytest.approx(sizes[0] - sizes[1])
    assert cal.price_of_doubt > 0


def test_a_radius_that_takes_all_of_alpha_is_named():
    probs, _, labels = sample(400, NOISES["matrix"])
    noise = nacp.MatrixNoise(PAIRS, radius=0.2)
    with pytest.warns(nacp.NoValidThresholdWarning, match="the radius of the noise alone takes 0.4"):
        cal = nacp.calibrate(probs, labels, noise=noise, alpha=0.3, guarantee="expected")
    assert cal.threshold == math.inf


@on_every_engine
def test_a_radius_takes_the_oscillation_off_every_share():
    noise, radius = nacp.MatrixNoise(PAIRS, radius=0.03), 0.03
    probs, _, labels = sample(400, noise)
    cal = nacp.calibrate(probs, labels, noise=noise, alpha=0.3, guarantee=nacp.PAC(0.2), random_state=1)
    order = np.random.default_rng(1).permutation(400)
    weights = np.linalg.inv(PAIRS)
    low, high = noise.range(K)
    least = low - radius * widest_oscillation(weights)

    def won(q):
        sums = (1 - probs <= q) @ weights.T
        careful = shares(probs, labels, noise, nacp.HPS(), q) - radius * np.ptp(sums, axis=1)
        return bet(careful[order], 0.2, least, high, 0.7)

    assert cal.threshold == lowest_that_passes(won, probs, labels, noise, nacp.HPS(), 0.3, 0.2)
    assert cal.price_of_doubt > 0


def test_a_gap_of_just_three_nths_is_small_however_it_was_rounded():
    ties = 0
    for seed in (92, 132, 145, 146, 163, 227):
        scores = np.random.default_rng(seed).standard_normal((80, 5))
        labels = nacp.UniformNoise(0.6).sample(scores.argmin(axis=1), 5, seed)
        options = {"score": "precomputed", "guarantee": "expected", "alpha": 0.5, "noise": 0.6}
        cal = nacp.calibrate(scores, labels, **options)
        ties += cal.gap == pytest.approx(3 / 80, rel=1e-12)
        assert cal.note is None
    assert ties >= 4


DOUBTFUL = {
    "interval": nacp.UniformNoise(0.2, interval=(0.15, 0.25)),
    "radius": nacp.MatrixNoise(PAIRS, radius=0.01),
}


@pytest.mark.parametrize(
    ("noise", "guarantee"),
    [
        (noise, guarantee)
        for noise in (NOISES | DOUBTFUL).values()
        for guarantee in ("pac", "expected", "binomial")
        if guarantee != "binomial" or isinstance(noise, nacp.UniformNoise)
    ],
)
@every_score
def test_many_alphas_at_once_find_what_each_finds_alone(score, noise, guarantee):
    probs, _, labels = sample(700, noise, seed=5)
    alphas = [0.02, 0.05, 0.1, 0.11, 0.3, 0.6]
    options = {"noise": noise, "score": score, "guarantee": guarantee}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
        found = nacp.calibrate(probs, labels, alpha=alphas, **options)
        alone = [nacp.calibrate(probs, labels, alpha=alpha, **options) for alpha in alphas]
    for one, other in zip(found, alone, strict=True):
        assert one.native_threshold == other.native_threshold
        assert (one.obstacle, one.note) == (other.obstacle, other.note)
        assert one.estimate == pytest.approx(other.estimate, abs=1e-12)
    assert np.isfinite([cal.threshold for cal in found[2:]]).all()


# Whether it comes true


@pytest.mark.parametrize("delta", [0.1, 0.01])
@every_noise
def test_a_threshold_that_covers_exactly_its_level_passes_with_probability_at_most_delta(noise, delta):
    """A tenth of what benchmarks/guarantees.py runs."""
    n, runs, rng = 300, 2000, np.random.default_rng(11)
    true = rng.integers(K, size=n * runs)
    held = rng.random((n * runs, K)) < 0.2
    held[np.arange(n * runs), true] = rng.random(n * runs) < 0.9
    weights = np.linalg.inv(noise.matrix(K).dense())[noise.sample(true, K, rng)]
    low, high = noise.range(K)
    points = (held * weights).sum(axis=1).reshape(n, runs)
    state, outcome = np.zeros((8, runs)), np.zeros(runs, dtype=np.int64)
    state[0], state[2], state[4] = 1.0, 0.25, 1.0
    most = np.full(runs, 0.99 * (high - low) / (0.9 - low))
    bets = state, most, outcome, points, np.arange(runs)
    play(*bets, 0.9, high - low, 0, *schedule(n), delta, hedge_table())
    assert {OPEN, WON} <= set(outcome.tolist())
    passed = np.mean(outcome == WON)
    assert passed <= delta + 4 * math.sqrt(delta * (1 - delta) / runs)
    assert passed >= delta / 2 - 4 * math.sqrt(delta / 2 / runs), "and it is not much too careful"


@pytest.fixture(scope="module")
def population():
    probs, labels = twins.simulate("cifar10", n=40_000, random_state=2)
    return probs, labels, np.sort(1 - probs[np.arange(40_000), labels].astype(np.float64))


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["pac", "binomial"])
def test_coverage_falls_short_for_at_most_a_share_delta_of_calibration_sets(guarantee, population):
    probs, labels, scores = population
    n, runs, delta, rng = 1000, 100, 0.2, np.random.default_rng(8)
    covered, floors = [], []
    for run in range(runs):
        chosen = rng.integers(len(labels), size=n)
        noisy = nacp.UniformNoise(0.2).sample(labels[chosen], 10, rng)
        cal = nacp.calibrate(
            probs[chosen], noisy, noise=0.2, guarantee=guarantee, delta=delta, random_state=run
        )
        covered.append(np.searchsorted(scores, cal.threshold, side="right") / len(scores))
        floors.append(cal.floor if run < 10 else np.nan)
    short = np.mean(np.array(covered) < 0.9)
    assert short <= delta + 4 * math.sqrt(delta * (1 - delta) / runs)
    # Near the floor: its own error, and 15% of the floor.
    excess, error = np.mean(covered) - 0.9, np.std(covered) / math.sqrt(runs)
    assert excess <= 1.15 * np.nanmean(floors) + 4 * error + 1 / n


def test_expected_covers_on_average(population):
    probs, labels, scores = population
    n, runs, rng = 200, 400, np.random.default_rng(6)
    covered, gaps = [], []
    for _ in range(runs):
        chosen = rng.integers(len(labels), size=n)
        noisy = nacp.UniformNoise(0.2).sample(labels[chosen], 10, rng)
        cal = nacp.calibrate(probs[chosen], noisy, noise=0.2, guarantee="expected")
        covered.append(np.searchsorted(scores, cal.threshold, side="right") / len(scores))
        gaps.append(cal.gap)
    error = np.std(covered) / math.sqrt(runs)
    assert 0.9 - np.mean(gaps) - 4 * error <= np.mean(covered) <= 0.9 + 3 / n + 4 * error


# Whether it comes true where the noise is as far from what was stated as it may be


def worst_rows(probs, labels, noise, q, *, by_class):
    """Return the distribution of each point's noisy label, within the radius of the stated one.

    All of the radius is moved from a label that lowers the share at q to the one that raises it most; for
    each point, or for each class on average over its points, which then is a matrix again.
    """
    k = probs.shape[1]
    sums = (1 - probs <= q) @ np.linalg.inv(noise.P).T
    if by_class:
        sums = np.array([sums[labels == y].mean(axis=0) for y in range(k)])[labels]
    rows, points = noise.P[labels], np.arange(len(labels))
    worst = np.where(rows >= noise.radius, sums, np.inf).argmin(axis=1)
    rows[points, worst] -= noise.radius
    rows[points, sums.argmax(axis=1)] += noise.radius
    assert rows.min() >= 0
    assert np.abs(rows - noise.P[labels]).sum(axis=1).max() / 2 <= noise.radius + 1e-12
    return rows


def coverages(population, rows, n, runs, **options):
    """Return the coverage of many calibrations with noisy labels drawn from `rows`, and their gaps."""
    probs, labels, scores = population
    rng, limits = np.random.default_rng(12), np.cumsum(rows, axis=1)
    found = []
    for run in range(runs):
        chosen = rng.integers(len(labels), size=n)
        noisy = (rng.random((n, 1)) > limits[chosen]).sum(axis=1)
        cal = nacp.calibrate(probs[chosen], noisy, random_state=run, **options)
        found.append((np.searchsorted(scores, cal.threshold, side="right") / len(scores), cal.gap))
    return np.array(found).T


PAIRS_OF_TEN = 0.8 * np.eye(10) + 0.2 * np.eye(10)[np.arange(10) ^ 1]


@pytest.mark.slow
@pytest.mark.parametrize("by_class", [True, False], ids=["matrix", "depends on the input"])
def test_pac_keeps_its_promise_under_the_worst_noise_within_the_radius(by_class, population):
    probs, labels, scores = population
    noise, n, runs, delta = nacp.MatrixNoise(PAIRS_OF_TEN, radius=0.02), 1000, 60, 0.1
    q = scores[int(0.9 * len(scores))]
    rows = worst_rows(probs, labels, noise, q, by_class=by_class)
    pac = nacp.PAC(delta)
    covered, _ = coverages(population, rows, n, runs, noise=noise, guarantee=pac)
    allowed = delta + 4 * math.sqrt(delta * (1 - delta) / runs)
    assert np.mean(covered < 0.9) <= allowed
    trusting, _ = coverages(population, rows, n, runs, noise=noise.P, guarantee=pac)
    assert np.mean(trusting < 0.9) > allowed, "without the radius the promise is broken"


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["exchange", "worst-case"])
def test_expected_covers_on_average_under_the_worst_noise_within_the_radius(rule, population):
    probs, labels, scores = population
    noise, n, runs = nacp.MatrixNoise(PAIRS_OF_TEN, radius=0.02), 1000, 100
    q = scores[int(0.9 * len(scores))]
    rows = worst_rows(probs, labels, noise, q, by_class=False)
    covered, gaps = coverages(population, rows, n, runs, noise=noise, guarantee=nacp.Expected(rule))
    assert covered.mean() >= 0.9 - gaps.mean() - 4 * covered.std() / math.sqrt(runs)
    trusting, _ = coverages(population, rows, n, runs, noise=noise.P, guarantee="expected")
    assert trusting.mean() < 0.9 - 4 * trusting.std() / math.sqrt(runs), "without the radius it does not"


@pytest.mark.filterwarnings("ignore::nacp.NoiseModelWarning")  # .2 alone is overstated on purpose
@pytest.mark.parametrize("rule", ["exchange", "worst-case"])
@pytest.mark.parametrize("end", [0.15, 0.25])
@pytest.mark.slow
def test_expected_covers_on_average_at_both_ends_of_an_interval(rule, end, population):
    _, labels, _ = population
    noise, n, runs = nacp.UniformNoise(0.2, interval=(0.15, 0.25)), 1000, 100
    rows = nacp.UniformNoise(end).matrix(10).dense()[labels]
    covered, gaps = coverages(population, rows, n, runs, noise=noise, guarantee=nacp.Expected(rule))
    assert covered.mean() >= 0.9 - gaps.mean() - 4 * covered.std() / math.sqrt(runs)
    if end == 0.15:
        trusting, _ = coverages(population, rows, n, runs, noise=0.2, guarantee="expected")
        assert trusting.mean() < 0.9 - 4 * trusting.std() / math.sqrt(runs), "the rate alone does not do"


# What a calibration reports


def test_a_calibration_reports_how_near_its_limit_the_promise_is():
    probs, _, labels = sample(3000, NOISES["random"])
    cal = nacp.calibrate(probs, labels, noise=NOISES["random"], delta=0.05)
    deviation = shares(probs, labels, NOISES["random"], nacp.HPS(), cal.threshold).std()
    assert cal.guarantee == nacp.PAC(0.05), "the default"
    assert cal.excess == cal.estimate - 0.9
    assert cal.correction == 0, "nothing was added to the target"
    # Shares are rounded to multiples of 2^-20 before their moments are summed up.
    assert cal.deviation == pytest.approx(deviation, abs=2.0**-19)
    assert cal.floor == pytest.approx(norm.isf(0.05) * cal.deviation / math.sqrt(3000))
    assert cal.tightness == cal.excess / cal.floor
    tiny = nacp.calibrate(probs, labels, noise=NOISES["random"], delta=0.6)
    assert math.isnan(tiny.tightness)
    with pytest.raises(ValueError, match="no delta"):
        nacp.calibrate(probs, labels, noise=0.2, guarantee="none").floor  # noqa: B018  (a property)
