""" "pac" and "binomial": against their definitions, and whether their promises come true."""

import itertools
import math
import warnings
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import numpy as np
import pytest
from scipy.stats import binom, norm

import nacp
from nacp import engine
from nacp.coverage.curve import Curve
from nacp.coverage.grid import COARSE, TESTED
from nacp.coverage.tally import Sample
from nacp.guarantees import Problem, pointwise
from nacp.guarantees.pointwise import PointwiseTest
from nacp.points import open_rows
from nacp.stats.betting import Bets
from nacp.stats.bounds import floor
from tests.guarantees.problems import (
    NOISES,
    PAIRS,
    PAIRS_OF_TEN,
    SCORES,
    K,
    error_of,
    population,
    sample,
    shares,
    widest_oscillation,
)

NORMAL = NormalDist()
every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
every_score = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)


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
            next_stake = t + max(1, min(t // 8, (n - t) // 32))
            p = min(delta * wealth, 1.0) / 1.05
            stake = min(NORMAL.pdf(NORMAL.inv_cdf(p)) / p / math.sqrt(squares / (t + 1) * (n - t)), most)
            if total > 5 * math.sqrt(squares):
                stake = min(total / squares, most) / 2
        wealth *= 1 + stake * y[t]
        squares += y[t] ** 2
        total += y[t]
        if wealth >= 1 / delta:
            return True
    return False


@pytest.mark.parametrize("radius", [0.0, 0.03])
@every_noise
@every_score
def test_pac_is_the_lowest_threshold_of_the_grid_from_which_on_every_bet_is_won(noise, score, radius):
    """A radius takes so many times the oscillation off every share."""
    n, stated = 200 if radius else 150, noise
    if radius:
        stated = nacp.MatrixNoise(noise.matrix(K).dense(), radius=radius)
    probs, _, labels = sample(n, noise)
    cal = nacp.calibrate(
        probs, labels, noise=stated, score=score, alpha=0.3, guarantee=nacp.PAC(0.2), random_state=5
    )
    order = np.random.default_rng([5, 3]).permutation(n)
    weights, scores = np.linalg.inv(noise.matrix(K).dense()), score.scores(probs)
    low, high = noise.range(K)
    low -= radius * widest_oscillation(weights)

    def won(q):
        oscillation = np.ptp((scores <= q) @ weights.T, axis=1)
        careful = shares(probs, labels, noise, score, q) - radius * oscillation
        return bet(careful[order], 0.2, low, high, 0.7)

    assert cal.threshold == lowest_that_passes(won, probs, labels, noise, score, 0.3, 0.2)
    if math.isfinite(cal.threshold):
        estimate = shares(probs, labels, noise, score, cal.threshold).mean()
        assert cal.estimate == pytest.approx(estimate, abs=1e-9)


def chernoff(mean, n, delta):
    """Return the largest u with n kl(mean, u) <= log(1/delta)."""
    low, high = mean, 1.0
    for _ in range(100):
        u = (low + high) / 2
        if u in (low, high):
            break
        pieces = [p * math.log(p / q) for p, q in ((mean, u), (1 - mean, 1 - u)) if p > 0]
        low, high = (u, high) if n * sum(pieces) <= math.log(1 / delta) else (low, u)
    return high


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("more", [0, 400])
@every_score
def test_binomial_is_the_lowest_threshold_of_the_grid_from_which_on_every_p_value_is_small(rate, more, score):
    noise, delta, alpha = nacp.UniformNoise(rate), 0.1, 0.2
    probs, _, labels = sample(300, noise)
    unlabelled = sample(more, noise, seed=4)[0] if more else None
    options = {"score": score, "guarantee": nacp.Binomial(delta), "unlabelled": unlabelled}
    cal = nacp.calibrate(probs, labels, noise=noise, alpha=alpha, **options)
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

    assert cal.threshold == lowest_that_passes(small, probs, labels, noise, score, alpha, delta)


# What is refused


INTERVAL = nacp.UniformNoise(0.2, interval=(0.15, 0.25))
RADIUS = nacp.MatrixNoise(PAIRS, radius=0.01)
REFUSED = [
    *(
        (name, {"crossing": "first"}, noise, f'"{name}" .*crossing="first".*: use "last"')
        for name in ("pac", "binomial", "expected", "nacp")
        for noise in (0.2, INTERVAL)
        if (name, noise) != ("nacp", 0.2)  # its bound holds at all thresholds
    ),
    *(
        (name, {}, noise, f'"{name}" needs noise that is known exactly')
        for name in ("none", "acnl", "crcp")
        for noise in (INTERVAL, RADIUS)
    ),
    (nacp.ACNL(np.full(K, 1 / K)), {"by": "class"}, 0.2, "priors cannot be used"),
    ("pac", {"unlabelled": np.full((9, K), 1 / K)}, 0.2, '"binomial" only'),
    ("binomial", {"unlabelled": np.full((9, 5), 0.2)}, 0.2, r"unlabelled has 5 columns, .* 6 classes"),
]


@pytest.mark.parametrize(("guarantee", "options", "noise", "words"), REFUSED)
def test_what_a_guarantee_cannot_use_is_refused(guarantee, options, noise, words):
    probs, _, labels = sample(50, NOISES["uniform"])
    with pytest.raises(nacp.InputError, match=words):
        nacp.calibrate(probs, labels, noise=noise, guarantee=guarantee, **options)


# Intervals, and several alphas


@pytest.mark.parametrize("guarantee", ["pac", "binomial", "nacp", "expected"])
def test_under_an_interval_the_larger_threshold_of_both_ends_is_taken(guarantee):
    probs, _, labels = sample(3000, NOISES["uniform"])
    options = {"alpha": 0.2, "guarantee": guarantee}
    if guarantee in ("pac", "binomial", "nacp"):
        options["delta"] = 0.1
    ends = [nacp.calibrate(probs, labels, noise=rate, **options) for rate in (0.15, 0.25)]
    noise = nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.95)
    cal = nacp.calibrate(probs, labels, noise=noise, **options)
    exactly = nacp.calibrate(probs, labels, noise=0.2, **options)
    larger = max(end.threshold for end in ends)
    assert cal.threshold >= larger > exactly.threshold
    if guarantee == "pac":  # It tests at rates that are multiples of 1/1024, and allows for one more step.
        low = nacp.calibrate(probs, labels, noise=153 / 1024, **options)
        assert low.threshold <= cal.threshold < larger + 0.005
    else:
        assert cal.threshold == larger
    assert cal.gap == max(end.gap for end in ends)
    sizes = [c.predict_set(probs).sizes.mean() for c in (cal, exactly)]
    assert cal.price_of_doubt == pytest.approx(sizes[0] - sizes[1])
    # The 0.05 with which the interval may fail is added to delta, or to alpha where there is no delta.
    said = "at least 85% of calibration sets" if "delta" in options else "at least 75% in expectation"
    assert said in cal.promise
    assert exactly.price_of_doubt == 0


@pytest.mark.slow
def test_pac_keeps_its_promise_with_the_most_favourable_interval_of_the_same_points():
    """The interval is chosen from the data: of several with the rate, the one with the smallest threshold."""
    rng, rate, k, n, delta, alpha, runs = np.random.default_rng(7), 0.3, 4, 400, 0.2, 0.2, 400
    rows = rng.dirichlet(np.full(k, 0.4), size=60)
    short = 0
    for _ in range(runs):
        x = rng.integers(len(rows), size=n)
        y = (rng.random((n, 1)) > np.cumsum(rows[x], axis=1)).sum(axis=1).clip(max=k - 1)
        noisy = np.where(rng.random(n) < rate, rng.integers(k, size=n), y)
        threshold = np.inf
        for below, above in itertools.product((0, 0.003, 0.01), repeat=2):
            noise = nacp.UniformNoise(rate, interval=(rate - below, rate + above))
            cal = nacp.calibrate(rows[x], noisy, noise=noise, alpha=alpha, delta=delta)
            threshold = min(threshold, cal.threshold)
        short += float(np.where(1 - rows <= threshold, rows, 0).sum(axis=1).mean()) < 1 - alpha
    assert short / runs <= delta + 3 * np.sqrt(delta * (1 - delta) / runs)


@pytest.mark.parametrize(
    "noise", [*NOISES.values(), RADIUS, pytest.param(INTERVAL, marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize("score", ["hps", "topk"])
def test_many_alphas_at_once_find_what_each_finds_alone(score, noise):
    probs, _, labels = sample(700, noise, seed=5)
    alphas = [0.02, 0.05, 0.1, 0.11, 0.3, 0.6]
    for guarantee in ("pac", "expected", *(["binomial"] if noise.is_uniform else [])):
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
    n, runs, rng = 300, 2000, np.random.default_rng(11)
    true = rng.integers(K, size=n * runs)
    held = rng.random((n * runs, K)) < 0.2
    held[np.arange(n * runs), true] = rng.random(n * runs) < 0.9
    weights = np.linalg.inv(noise.matrix(K).dense())[noise.sample(true, K, rng)]
    (low, high), passed = noise.range(K), 0
    for points in (held * weights).sum(axis=1).reshape(runs, n, 1):
        bets = Bets(1, n, delta, 0.9, high - low, 0.99 * (high - low) / (0.9 - low), engine.current().bet)
        bets.play(points)
        passed += bets.failed < 0
    assert passed / runs <= delta + 4 * error_of(delta, runs)
    assert passed / runs >= delta / 2 - 4 * error_of(delta / 2, runs), "and it is not much too careful"


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", [nacp.PAC(0.2), nacp.Binomial(0.2)], ids=str)
def test_coverage_falls_short_for_at_most_a_share_delta_of_calibration_sets(guarantee):
    pool, n, runs = population(), 1000, 100
    rows = nacp.UniformNoise(0.2).matrix(10).dense()[pool.labels]
    covered, _ = pool.coverages(rows, n, runs, noise=0.2, guarantee=guarantee)
    assert np.mean(covered < 0.9) <= 0.2 + 4 * error_of(0.2, runs)
    # Near the floor: its own error, and 15% of the floor.
    chosen = np.random.default_rng(8).integers(len(pool.labels), size=20_000)
    noisy = nacp.UniformNoise(0.2).sample(pool.labels[chosen], 10, random_state=8)
    deviation = nacp.calibrate(pool.probs[chosen], noisy, noise=0.2, guarantee=guarantee).deviation
    lowest, error = norm.isf(0.2) * deviation / math.sqrt(n), covered.std() / math.sqrt(runs)
    assert covered.mean() - 0.9 <= 1.15 * lowest + 4 * error + 1 / n


@pytest.mark.slow
@pytest.mark.parametrize("by_class", [True, False], ids=["matrix", "depends on the input"])
def test_pac_keeps_its_promise_under_the_worst_noise_within_the_radius(by_class):
    pool, n, runs, delta = population(), 1000, 60, 0.1
    rows = pool.worst_rows(PAIRS_OF_TEN, by_class=by_class)
    allowed = delta + 4 * error_of(delta, runs)
    covered, _ = pool.coverages(rows, n, runs, noise=PAIRS_OF_TEN, guarantee=nacp.PAC(delta))
    assert np.mean(covered < 0.9) <= allowed
    trusting, _ = pool.coverages(rows, n, runs, noise=PAIRS_OF_TEN.P, guarantee=nacp.PAC(delta))
    assert np.mean(trusting < 0.9) > allowed, "without the radius the promise is broken"


# What a calibration reports


@pytest.mark.filterwarnings("ignore::nacp.NoiseModelWarning")
@pytest.mark.parametrize(("number", "advice"), [(2000, True), (30, False)])
def test_labels_that_do_not_fit_although_there_are_enough_are_blamed(number, advice):
    given = np.arange(number) % 4
    probs = np.where(np.arange(4) == given[:, None], 0.85, 0.05)
    with pytest.warns(nacp.NoValidThresholdWarning):
        cal = nacp.calibrate(probs, (given + 1) % 4, noise=0.1, guarantee="binomial")
    assert ("check the order of labels and rows" in cal.obstacle) == advice


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


@dataclass(frozen=True)
class FailsAt(PointwiseTest):
    """A test that fails at one of its thresholds, and perhaps at smaller ones."""

    place: int = -1
    name: ClassVar[str] = "fails"

    def failures(self, tests, sample, seed):
        return [self.place] * len(tests)


@pytest.mark.parametrize("n", [60, 3000])
def test_the_threshold_is_the_next_one_above_the_last_failure(n):
    alpha, score = 0.2, nacp.HPS()
    probs, _, labels = sample(n, NOISES["uniform"])
    curve = Curve.of(Sample.of(open_rows(probs), labels, score), NOISES["uniform"])
    test, scores = pointwise.Test.of(curve, alpha, 0.05), score.scores(probs)
    grid = score.spec.thresholds[TESTED] + score.offset
    tested = score.spec.thresholds[test.cells] + score.offset
    assert curve.at(test.cells[:1], curve.clean) >= 1 - alpha
    # Of thresholds with the same sets the largest is tested.
    kept, held = TESTED[test.first :], [(curve.tally.cells <= cell).sum() for cell in TESTED[test.first :]]
    np.testing.assert_array_equal(test.cells, kept[np.append(np.diff(held) > 0, True)])
    for failed in (-1, 0, 1, len(tested) // 2, len(tested) - 1):
        (found,) = FailsAt(place=failed).find([curve], [alpha], "last")
        above = grid[test.first :] if failed < 0 else grid[grid > tested[failed]]
        if not len(above) or (scores <= above[0]).all():
            assert found.threshold == math.inf
            too_many = "check the order of labels and rows, and whether the classifier is better than chance"
            assert (too_many in found.obstacle) == (n == 3000)
            assert "points should do" in found.obstacle
            assert f"with {n:,} points no smaller sets pass" in found.obstacle
        else:
            assert found.threshold + score.offset == above[0]
            assert found.estimate == curve.at(
                np.searchsorted(score.spec.thresholds, [found.threshold]), curve.clean
            )
    assert found.threshold == math.inf
