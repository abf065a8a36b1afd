"""Checked labels: bets at the exact null, the threshold by its definition, coverage whatever the noise."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import binom

import nacp
from nacp.points import deal, open_clean
from nacp.stats.bounds import chernoff
from nacp.stats.hedging import HedgedBets, batch_floor

RUNS = 20_000


def guesses(kind, hits, rng):
    """Guesses of hits: as good as they can be, useless, perverse, or fair."""
    if kind == "right":
        return hits.copy()
    if kind == "useless":
        return (rng.random(hits.shape) < 0.9).astype(float)
    if kind == "perverse":
        return 1 - hits
    return np.where(rng.random(hits.shape) < 0.8, hits, 0.5)  # "fair"


def played(targets, m, delta, hits, guess, size, floor, rng):
    """Play bets that all have their own rounds; return which were won."""
    mean_guess = float(guess.mean())
    least = price = np.zeros(len(targets))
    if floor:
        least, price = batch_floor(np.full(len(targets), min(mean_guess, 1.0)), size, 2.3 / m)
    bets = HedgedBets(targets.copy(), m, delta, least, price)
    for t in range(m):
        some = bets.open
        others = guess[rng.integers(len(guess), size=(len(some), size - 1)), t].sum(axis=1)
        bets.play(hits[some, t], guess[some, t], (guess[some, t] + others) / size)
        if not len(bets.open):
            break
    return bets.won


@pytest.mark.parametrize("kind", ["right", "useless", "perverse", "fair"])
@pytest.mark.parametrize(
    ("m", "delta", "alpha", "size"), [(20, 0.1, 0.2, 4), (60, 0.1, 0.1, 30), (300, 0.02, 0.1, 5)]
)
def test_bets_are_won_at_the_exact_null_as_seldom_as_promised(kind, m, delta, alpha, size):
    rng = np.random.default_rng(0)
    runs = RUNS if m < 300 else RUNS // 4
    hits = (rng.random((runs, m)) < 1 - alpha).astype(float)
    guess = guesses(kind, hits, rng)
    for floor in (False, True):
        won = played(np.full(runs, 1 - alpha), m, delta, hits, guess, size, floor, rng).mean()
        assert won <= delta + 4 * math.sqrt(delta * (1 - delta) / runs)


def test_bets_without_a_guess_are_no_worse_than_the_exact_binomial_test():
    """Power at several coverages, summed: 0 guess and mean, so that Z is the hit alone."""
    rng = np.random.default_rng(1)
    alpha, delta, runs = 0.1, 0.1, 4000
    for m in (50, 100, 300):
        needed = int(np.argmax(binom.sf(np.arange(m + 2) - 1, m, 1 - alpha) <= delta))
        power = exact = 0.0
        for coverage in (0.92, 0.94, 0.96, 0.98):
            hits = (rng.random((runs, m)) < coverage).astype(float)
            bets = HedgedBets(np.full(runs, 1 - alpha), m, delta, np.zeros(runs), np.zeros(runs), False)
            for t in range(m):
                none = np.zeros(len(bets.open))
                bets.play(hits[bets.open, t], none, none)
            power += bets.won.mean()
            exact += binom.sf(needed - 1, m, coverage)
        assert power >= exact - 4 * 2 * math.sqrt(0.25 / runs)


@pytest.mark.parametrize("size", [1, 3, 17])
@pytest.mark.parametrize("bound", [0.02, 0.5, 0.93, 1.0])
def test_the_price_of_a_floor_is_the_most_that_it_can_add(size, bound):
    (least,), (price,) = batch_floor(np.array([bound]), size, 0.01)
    counts = np.arange(size + 1)

    def added(mean):
        return float(np.sum(np.maximum(least - counts / size, 0) * binom.pmf(counts, size, mean)))

    assert price == pytest.approx(added(bound), abs=1e-12)
    assert all(added(mean) <= price + 1e-12 for mean in np.linspace(bound, 1, 9))
    # Guesses between 0 and 1 with that mean add less.
    rng = np.random.default_rng(0)
    means = rng.beta(2 * bound, 2 * (1 - bound) + 1e-9, size=(20_000, size)).mean(axis=1)
    assert np.maximum(least - means, 0).mean() <= price + 4e-3 / math.sqrt(size)


def points(n, k, seed, score="hps"):
    """Points whose noisy labels are wrong where the classifier is: not independent of the input."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(k, 0.25), n)
    truth = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    second = np.argsort(-probs, axis=1)[:, 1]
    doubtful = probs.max(axis=1) < 0.75
    wrong = rng.random(n) < np.where(doubtful, 0.5, 0.03)
    return probs.astype(np.float32), truth, np.where(wrong, second, truth)


GRID = tuple(np.linspace(0.02, 1.3, 90).tolist())


def by_definition(probs, noisy, rows, truth, score, rate, alpha, delta, seed):
    """The threshold of "pac" with checked labels, one threshold at a time, from whole matrices."""
    n, k = probs.shape
    audit = deal(n, rows, truth[rows], seed)
    scores = score.scores(probs) - score.offset if score.offset == 0 else -probs.astype(np.float64)
    likelihood = np.where(np.arange(k) == noisy[:, None], 1 - rate + rate / k, rate / k)
    posterior = probs * likelihood / (probs * likelihood).sum(axis=1, keepdims=True)
    ends = np.append(audit.starts[1:], len(audit.order))
    parts = [audit.order[a:b] for a, b in zip(audit.starts, ends, strict=True)]
    size = min(map(len, parts))
    own = scores[audit.rows, truth[audit.rows]]
    level = 1 - alpha - 3 * math.sqrt(alpha * (1 - alpha) / len(rows))
    start = np.sort(own)[max(math.ceil(level * len(rows)), 1) - 1]
    found = np.inf
    for q in score.to_native(np.array(GRID))[::-1]:
        if q < start:
            break
        guess = (posterior * (scores <= q)).sum(axis=1)
        bound = 1 - chernoff(
            1 - guess[audit.pilot].mean(keepdims=True).clip(0, 1), len(audit.pilot), delta / 1000
        )
        least, price = batch_floor(bound, size, math.log(1 / delta) / len(rows))
        bets = HedgedBets(
            np.array([1 - alpha]), len(rows), delta * (0.999 if len(audit.pilot) else 1), least, price
        )
        for part, s in zip(parts, own, strict=True):
            if len(bets.open):
                bets.play(np.array([float(s <= q)]), guess[part[:1]], guess[part].mean(keepdims=True))
        if not bets.won[0]:
            break
        found = q
    return found


@pytest.mark.parametrize("score", [nacp.HPS(), nacp.APS(), nacp.RAPS(randomized=False)], ids=repr)
@pytest.mark.parametrize("m", [40, 120, 500])
def test_the_threshold_is_that_of_the_definition(score, m):
    probs, truth, noisy = points(600, 6, 3)
    rows = np.sort(np.random.default_rng(4).choice(600, m, replace=False))
    for alpha, seed in ((0.1, 0), (0.3, 1)):
        cal = nacp.calibrate(
            probs, noisy, clean=(rows, truth[rows]), noise=0.2, alpha=alpha, score=score,
            random_state=seed, guarantee=nacp.PAC(0.1, grid=GRID),
        )  # fmt: skip
        assert cal.native_threshold == by_definition(probs, noisy, rows, truth, score, 0.2, alpha, 0.1, seed)


def test_neither_blocks_nor_several_alphas_change_it():
    probs, truth, noisy = points(700, 8, 5)
    rows = np.arange(0, 700, 7)
    options = {"clean": (rows, truth[rows]), "delta": 0.1, "score": "aps"}
    together = nacp.calibrate(probs, noisy, alpha=[0.05, 0.1, 0.3], **options)
    alone = [nacp.calibrate(probs, noisy, alpha=alpha, **options) for alpha in (0.05, 0.1, 0.3)]
    from nacp.tuning import tuned

    with tuned(block_entries=100, bets_entries=3000):
        small = nacp.calibrate(probs, noisy, alpha=[0.05, 0.1, 0.3], **options)
    for one, other, third in zip(together, alone, small, strict=True):
        assert one.native_threshold == other.native_threshold == third.native_threshold
        assert one.estimate == pytest.approx(other.estimate, abs=1e-12)
        assert one.estimate == pytest.approx(third.estimate, abs=1e-12)


PERVERSE = np.roll(np.eye(5), 1, axis=1) * 0.9 + 0.02  # says that no label is right


@pytest.mark.parametrize("noise", ["unsaid", None, PERVERSE], ids=["unsaid", "none", "perverse"])
@pytest.mark.parametrize("guarantee", ["pac", "expected"])
def test_the_promise_holds_for_noise_that_depends_on_the_input(guarantee, noise):
    delta, alpha, runs, n = 0.1, 0.2, 300, 400
    options = {} if isinstance(noise, str) else {"noise": noise}
    if guarantee == "pac":
        options["delta"] = delta
    probs, truth, noisy = points(40_000, 5, 7)
    scores = np.sort(1 - probs[np.arange(len(truth)), truth].astype(np.float64))
    rng = np.random.default_rng(8)
    coverages = []
    for run in range(runs):
        some = rng.choice(len(truth), n, replace=False)
        rows = rng.choice(n, 60, replace=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
            cal = nacp.calibrate(
                probs[some], noisy[some], clean=(rows, truth[some][rows]), alpha=alpha, guarantee=guarantee,
                random_state=run, **options,
            )  # fmt: skip
        coverages.append(np.searchsorted(scores, cal.threshold, side="right") / len(scores))
    coverages = np.array(coverages)
    if guarantee == "pac":
        # The pool stands for the population; a coverage within 0.002 of the target is not a failure.
        short = (coverages < 1 - alpha - 0.002).mean()
        assert short <= delta + 4 * math.sqrt(delta * (1 - delta) / runs)
    else:
        assert coverages.mean() >= 1 - alpha - 4 * coverages.std() / math.sqrt(runs)


def test_the_estimate_is_unbiased_and_a_good_guess_makes_it_sharper():
    probs, truth, noisy = points(20_000, 5, 9)
    q = 0.6
    true = (1 - probs[np.arange(len(truth)), truth] <= q).mean()
    rng = np.random.default_rng(10)
    found, plain = [], []
    for _ in range(300):
        some = rng.choice(len(truth), 1500, replace=False)
        rows = rng.choice(1500, 100, replace=False)
        cal = nacp.calibrate(
            probs[some], noisy[some], clean=(rows, truth[some][rows]), alpha=0.9,
            guarantee=nacp.PAC(grid=(q,), delta=0.9),
        )  # fmt: skip
        assert cal.threshold == q
        found.append(cal.estimate)
        plain.append((1 - probs[some][rows, truth[some][rows]] <= q).mean())
    assert abs(np.mean(found) - true) <= 4 * np.std(found) / math.sqrt(300)
    assert np.std(found) < 0.8 * np.std(plain)


MISSING = {
    "-1": lambda full: full,
    "nan": lambda full: np.where(full < 0, np.nan, full),
    "none": lambda full: [None if each < 0 else int(each) for each in full],
    "masked": lambda full: np.ma.array(np.maximum(full, 0), mask=full < 0),
    "pair": lambda full: (np.flatnonzero(full >= 0), full[full >= 0]),
}


@pytest.mark.parametrize("form", MISSING.values(), ids=MISSING)
def test_all_ways_to_say_which_labels_were_checked(form):
    full = np.full(50, -1)
    full[3:20] = np.arange(17) % 4
    rows, labels = open_clean(form(full), 50, 4)
    assert rows.tolist() == list(range(3, 20))
    assert labels.tolist() == (np.arange(17) % 4).tolist()
    backwards = open_clean((rows[::-1], labels[::-1]), 50, 4)
    assert [part.tolist() for part in backwards] == [rows.tolist(), labels.tolist()]
    names = ("a", "b", "c", "d")
    named = [None if each < 0 else names[each] for each in full]
    assert open_clean(named, 50, 4, names)[1].tolist() == labels.tolist()


BAD = {
    "too short": (lambda c: c[:-1], "must have the shape (50,)"),
    "none checked": (lambda c: np.full(50, -1), "has no checked label at all"),
    "out of range": (lambda c: np.where(c >= 0, 9, -1), "must lie from 0 to 3"),
    "twice": (lambda c: ([3, 3], [1, 2]), "has row 3 more than once"),
    "row out of range": (lambda c: ([3, 50], [1, 2]), "must lie from 0 to 49"),
    "different lengths": (lambda c: ([3, 4, 5], [1, 2]), "3 rows"),
    "one number": (lambda c: 3, "must have the shape (50,)"),
    "text": (lambda c: "abc", "must have the shape (50,)"),
    "ragged": (lambda c: [[1], [1, 2]] * 25, "must have the shape (50,)"),
    "ragged pair": (lambda c: ([[0], [1, 2]], [0, 1]), "must have the shape (50,)"),
    "no pairs": (lambda c: ([], []), "has no checked label at all"),
    "a mask": (lambda c: c >= 0, "not whether they were checked"),
    "halves": (lambda c: np.where(c >= 0, 0.5, -1.0), "whole numbers"),
}


@pytest.mark.parametrize(("change", "said"), BAD.values(), ids=BAD)
def test_bad_checked_labels_get_one_clear_sentence(change, said):
    probs, truth, noisy = points(50, 4, 11)
    clean = np.where(np.arange(50) < 20, truth, -1)
    with pytest.raises(nacp.InputError) as caught:
        nacp.calibrate(probs, noisy, clean=change(clean))
    assert caught.value.argument == "clean"
    assert said in str(caught.value)


def test_what_does_not_go_with_checked_labels_is_refused_by_name():
    probs, truth, noisy = points(50, 4, 12)
    clean = np.where(np.arange(50) < 20, truth, -1)
    for argument, options in {
        "guarantee": {"guarantee": "nacp"},
        "crossing": {"crossing": "first"},
        "unlabelled": {"unlabelled": probs},
        "delta": {"guarantee": "expected", "delta": 0.1},
    }.items():
        with pytest.raises(nacp.InputError) as caught:
            nacp.calibrate(probs, noisy, clean=clean, **options)
        assert caught.value.argument == argument
    with pytest.raises(nacp.InputError, match="noise can be left out only where some labels were checked"):
        nacp.calibrate(probs, noisy)


def test_checked_labels_alone_are_enough():
    probs, truth, _ = points(3000, 4, 13)
    rows = np.arange(0, 3000, 10)
    alone = nacp.calibrate(probs, None, clean=(rows, truth[rows]), delta=0.1)
    same = nacp.calibrate(probs[rows], truth[rows], clean=truth[rows], delta=0.1)
    assert alone.native_threshold == same.native_threshold
    assert alone.checked == alone.n == 300
    split = nacp.calibrate(probs, None, clean=(rows, truth[rows]), guarantee="expected")
    assert split.native_threshold == nacp.calibrate(probs[rows], truth[rows], noise=None).native_threshold


def test_a_class_called_minus_one_is_a_label():
    clean = [-1, 1, None, -1]
    rows, labels = open_clean(clean, 4, 2, (-1, 1))
    assert rows.tolist() == [0, 1, 3]
    assert labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("n", [101, 130, 300])
def test_noisy_labels_do_not_make_sets_infinite_that_checked_labels_alone_would_not(n):
    probs, truth, noisy = points(n, 5, 16)
    checked = (np.arange(100), truth[:100])
    alone = nacp.calibrate(probs, None, clean=checked, alpha=0.05)
    assert alone.threshold < 1
    assert nacp.calibrate(probs, noisy, clean=checked, alpha=0.05).threshold < 1


def test_few_checked_labels_say_how_many_are_needed():
    probs, truth, noisy = points(500, 4, 14)
    with pytest.warns(nacp.NoValidThresholdWarning, match="22 at the least"):
        cal = nacp.calibrate(probs, noisy, clean=(np.arange(20), truth[:20]), alpha=0.1, delta=0.1)
    assert cal.threshold == np.inf
    with pytest.warns(nacp.NoValidThresholdWarning, match="9 are needed"):
        nacp.calibrate(probs, noisy, clean=([1, 2], truth[1:3]), guarantee="expected")


def test_infinite_scores_are_not_called_too_few_labels():
    probs, truth, noisy = points(300, 4, 17)
    own = nacp.Custom(lambda p: np.where(p > 0.9, 1 - p, np.inf))
    with pytest.warns(nacp.NoValidThresholdWarning, match="infinite score"):
        nacp.calibrate(probs, noisy, clean=truth, guarantee="expected", score=own)


def test_a_calibration_says_what_it_rests_on_and_survives_a_file(tmp_path):
    probs, truth, noisy = points(500, 4, 15)
    clean = np.where(np.arange(500) < 200, truth, -1)
    cal = nacp.calibrate(probs, noisy, clean=clean, delta=0.1)
    assert "200 checked points were picked at random and checked rightly" in cal.assumptions
    assert "independent of the input given" not in cal.assumptions
    assert "200 of them checked" in str(cal)
    assert cal.floor > 0
    cal.save(tmp_path / "cal.json")
    assert nacp.load(tmp_path / "cal.json") == cal
    with pytest.raises(nacp.InputError, match="has no curve"):
        _ = cal.curve
