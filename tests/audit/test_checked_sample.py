"""Checked labels: exact tests at every null, the threshold by its definition, coverage under any noise."""

import math
import warnings
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import nacp
from nacp.audit.checked_sample import CheckedSample, Pilot, _worthwhile, deal, pilot_size
from nacp.coverage.tally import Sample
from nacp.points import open_rows
from nacp.stats.strata import _Strata, hits_needed_inside, strata_variance
from tests.audit.simulation import assert_seldom_short, coverage_of, points, posterior_of, samples


def passes_inside(counts, points, pilot, target, delta):
    """k for every N0, from calls that know nothing of each other."""
    return np.array(
        [hits_needed_inside(counts, (outside, points), pilot, target, delta) for outside in range(points + 1)]
    )


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        (((12, 40), (50, 200), (5, 30), 0.9, 0.1), [*[41] * 10, 40, 39, 39]),
        (((20, 60), (30, 300), (9, 60), 0.8, 0.2), "56 56 56 55 55 55 54 54 54 54 53 53 53 52 52 52"),
        (((30, 10), (250, 300), (40, 60), 0.5, 0.2), [*[11] * 15, 10, 8, 7, 7, 7, *[6] * 10, 5]),
        (((5, 100), (2, 1000), (1, 200), 0.9, 0.3), [93] * 6),
    ],
)
def test_the_hits_that_are_needed_are_what_they_were(given, needed):
    """The proof leaves the division into cells and bins open, which decides how sharp the test is."""
    needed = needed if isinstance(needed, list) else [*map(int, needed.split()), *[51] * 5]
    assert hits_needed_inside(*given).tolist() == needed


@pytest.mark.parametrize(
    ("given", "needed", "total"),
    [
        (((24, 300), (300, 2500), (30, 250), 0.9, 0.1), [301, 301, 299, 294, 288, 281, 277], 7293),
        (((60, 60), (800, 1000), (70, 100), 0.6, 0.05), [*[61] * 10, 47, 39, 37, 35, 33, 30], 3188),
        (((8, 400), (40, 5000), (4, 500), 0.95, 0.05), [390, 389, 388], 3500),
        (((30, 250), (1200, 2000), (50, 100), 0.7, 0.3), [*[251] * 5, 208, 175, 167], 6911),
        (((16, 500), (0, 400), (0, 50), 0.8, 0.02), [419] * 5, 7123),
        (((9, 11), (12, 25), (0, 0), 0.7, 0.15), [12, 12, 10], 113),  # without a pilot
        (((5, 60), (30, 50), (0, 0), 0.6, 0.3), [61, 39], 312),
    ],
)
def test_in_other_audits_too(given, needed, total):
    k = hits_needed_inside(*given)
    assert k[::4].tolist() == needed
    assert k.sum() == total


def null_points(target, rng, number):
    """Values of p0, p1 and w with F just below the target; many at the corners, where tests go wrong."""
    found = []
    while len(found) < number:
        w = rng.beta(0.7, 0.7)
        p0 = rng.choice([0.0, 1.0, target, rng.random(), rng.random()])
        p1 = (target - 1e-12 - w * p0) / (1 - w)
        if not 0 <= p1 <= 1:
            p1 = rng.choice([0.0, 1.0, rng.random()])
            p0 = (target - 1e-12 - (1 - w) * p1) / w
        if 0 <= p0 <= 1 and 0 <= p1 <= 1:
            found.append((p0, p1, w))
    return found


@pytest.mark.parametrize(
    ("counts", "points", "pilot", "target", "delta"),
    [
        ((3, 9), 12, (2, 9), 0.6, 0.2),
        ((5, 14), 40, (3, 20), 0.8, 0.1),
        ((9, 11), 25, (0, 0), 0.7, 0.15),
        pytest.param((12, 30), 60, (30, 100), 0.9, 0.1, marks=pytest.mark.slow),
        pytest.param((6, 40), 50, (1, 30), 0.85, 0.02, marks=pytest.mark.slow),
        ((420, 20), 8, (20, 40), 0.8, 0.1),  # k is interpolated between numbers of hits outside
    ],
)
def test_at_no_null_does_the_test_in_strata_pass_too_often(counts, points, pilot, target, delta):
    """Exactly: summed over all that can be counted, with the k that would be taken for each N0."""
    k = passes_inside(counts, points, pilot, target, delta)
    x0, n0 = np.arange(counts[0] + 1), np.arange(points + 1)
    worst = 0.0
    for p0, p1, w in null_points(target, np.random.default_rng(0), 4000):
        at_least = binom.sf(
            np.arange(-1, counts[1] + 1), counts[1], p1
        )  # P(hits inside >= 0), P(hits inside >= 1), ...
        passed = at_least[k] @ binom.pmf(x0, counts[0], p0)
        worst = max(worst, float(binom.pmf(n0, points, w) @ passed))
    assert worst <= delta
    assert worst >= delta / 4  # it is a test, and not a refusal
    assert (np.diff(k, axis=1) <= 0).all()  # more hits outside never fail where fewer pass


def test_tests_are_nested_in_the_cutoff_whatever_the_distance_is(monkeypatch):
    """Also between numbers of points outside: the proof of the test in strata needs that."""

    def distance(self, x0, x1, shares):
        return 3 * np.sin(1e4 * (x0 + 0.37 * x1 + shares)) + x1 / self.n1

    monkeypatch.setattr(_Strata, "_distance", distance)
    few, many = (_Strata((12, 40), (outside, 200), (5, 30), 0.9, 0.1) for outside in (20, 60))
    bins = min(len(few.shares), len(many.shares))
    for lower, higher in ((0.1, 0.5), (0.5, 0.6), (0.6, 2.0)):
        tables = [
            strata._at_distance(cutoff)[:, :bins] for strata in (few, many) for cutoff in (lower, higher)
        ]
        assert (tables[0] <= tables[3]).all()
        assert (tables[2] <= tables[1]).all()
        assert (tables[0] == tables[2]).all()


def by_definition(probs, noisy, rows, truth, score, rate, alpha, delta, seed):
    """The threshold of "pac" with checked labels, one threshold at a time, from whole matrices."""
    n, k = probs.shape
    own = np.unique(on_grid(scores_of(probs, score)[rows, truth[rows]], score))
    rng = np.random.default_rng(seed)
    others = rng.permutation(np.setdiff1d(np.arange(n), rows))
    pilot, counted = others[: pilot_size(len(others), k)], others[pilot_size(len(others), k) :]
    scores = scores_of(probs, score)
    posterior = posterior_of(probs, noisy, rate)
    target = min(1 - alpha + 0.3 / math.sqrt(len(rows)), 1 - alpha / 4)
    part = next(
        q
        for q in np.sort(scores[pilot], axis=None)
        if (posterior * (scores <= q))[pilot].sum() >= target * len(pilot)
    )
    outside = (posterior * (scores <= part)).sum(axis=1) < 0.8
    inner, outer = rows[~outside[rows]], rows[outside[rows]]
    counts = int(outside[counted].sum()), len(counted)
    needed = hits_needed_inside(
        (len(outer), len(inner)), counts, (int(outside[pilot].sum()), len(pilot)), 1 - alpha, delta
    )
    found = np.inf
    for q in own[::-1]:
        hits = scores[np.arange(n), truth] <= q
        if hits[inner].sum() < needed[hits[outer].sum()]:
            break
        found = q
    return found


def on_grid(scores, score):
    """The smallest points of the grid that are not below native scores."""
    return score.spec.thresholds[np.searchsorted(score.spec.thresholds, scores)]


def scores_of(probs, score):
    """The native scores of all pairs."""
    return score.scores(probs) if score.offset == 0 else -probs.astype(np.float64)


@pytest.mark.parametrize("score", [nacp.HPS(), nacp.APS(), nacp.RAPS(randomized=False)], ids=repr)
@pytest.mark.parametrize("m", [120, 250])
def test_the_threshold_is_that_of_the_definition(score, m):
    probs, truth, noisy = points(2000, 6, 3)
    rows = np.sort(np.random.default_rng(4).choice(2000, m, replace=False))
    for alpha, seed in ((0.1, 0), (0.3, 1)):
        known = {"noise": 0.2, "alpha": alpha, "score": score, "random_state": seed, "delta": 0.1}
        cal = nacp.calibrate(probs, noisy, clean=(rows, truth[rows]), **known)
        assert cal.native_threshold == by_definition(probs, noisy, rows, truth, score, 0.2, alpha, 0.1, seed)


def test_neither_blocks_nor_several_alphas_change_it(monkeypatch):
    probs, truth, noisy = points(400, 8, 5)
    rows = np.arange(0, 400, 5)
    options = {"clean": (rows, truth[rows]), "delta": 0.1, "score": "aps"}
    together = nacp.calibrate(probs, noisy, alpha=[0.05, 0.1, 0.3], **options)
    alone = [nacp.calibrate(probs, noisy, alpha=alpha, **options) for alpha in (0.05, 0.1, 0.3)]
    monkeypatch.setattr("nacp.points.arrays.block_rows", lambda k: max(1, 100 // k))
    small = nacp.calibrate(probs, noisy, alpha=[0.05, 0.1, 0.3], **options)
    assert together == alone == small


UNIFORM = nacp.UniformNoise(0.2).matrix(5)
PERVERSE = np.roll(np.eye(5), 1, axis=1) * 0.9 + 0.02  # says that no label is right


@pytest.mark.parametrize("noise", ["unsaid", None, PERVERSE], ids=["unsaid", "none", "perverse"])
@pytest.mark.parametrize(
    ("guarantee", "n", "m"),
    [
        pytest.param("pac", 400, 60, marks=pytest.mark.slow),
        *[("pac", 90, 50), ("pac", 1500, 20), ("expected", 400, 60)],
    ],
)
def test_the_promise_holds_for_noise_that_depends_on_the_input(guarantee, n, m, noise):
    """Also with an audit of 20 labels, and with a pilot of 4 points."""
    delta, alpha, coverages = 0.1, 0.2, []
    options = {} if isinstance(noise, str) else {"noise": noise}
    options |= {"alpha": alpha, "guarantee": guarantee} | ({"delta": delta} if guarantee == "pac" else {})
    for run, rng, probs, truth, noisy in samples(100, n):
        rows = rng.choice(n, m, replace=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
            cal = nacp.calibrate(probs, noisy, clean=(rows, truth[rows]), random_state=run, **options)
        coverages.append(coverage_of(cal.threshold))
    if guarantee == "pac":
        assert_seldom_short(coverages, alpha, delta)
    else:
        assert np.mean(coverages) >= 1 - alpha - 4 * np.std(coverages) / 10


@pytest.mark.slow
def test_the_estimate_is_unbiased_and_strata_make_it_sharper():
    over, apart, plain = [], [], []
    for _, rng, probs, truth, noisy in samples(60, 1500):
        rows = rng.choice(1500, 100, replace=False)
        cal = nacp.calibrate(probs, noisy, clean=(rows, truth[rows]), alpha=0.2, delta=0.1)
        true = coverage_of(cal.threshold)
        over.append(cal.estimate - true)
        apart.append(cal.deviation)
        plain.append(math.sqrt(true * (1 - true)))
    # At a threshold that was chosen for its high estimate, the estimate is too high by a part of its error.
    assert abs(np.mean(over)) <= 1.3 * np.mean(apart) / 10
    assert np.mean(apart) < 0.85 * np.mean(plain)


def test_a_noise_model_that_the_pilot_contradicts_changes_nothing():
    """By it sets were larger than those of the checked labels alone; one that may be right is heard."""
    probs, truth, noisy = points(3000, 5, 31)
    clean = (np.arange(0, 3000, 10), truth[::10])
    unsaid, perverse = {}, {"noise": PERVERSE}
    found = [nacp.calibrate(probs, noisy, clean=clean, **options) for options in (unsaid, perverse)]
    assert found[0] == found[1]
    plans = [nacp.choose_audit(probs, noisy, budget=200, **options) for options in (unsaid, perverse)]
    assert (plans[0].rows == plans[1].rows).all()


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
    with pytest.warns(nacp.AuditWarning, match="none of the 300 checked labels differs"):
        same = nacp.calibrate(probs[rows], truth[rows], clean=truth[rows], delta=0.1)
    assert alone.native_threshold == same.native_threshold
    assert alone.checked == alone.n == 300
    split = nacp.calibrate(probs, None, clean=(rows, truth[rows]), guarantee="expected")
    exact = nacp.calibrate(probs[rows], truth[rows], noise=None)
    assert split.native_threshold == on_grid(exact.native_threshold, exact.score)


def test_checked_labels_in_another_order_are_refused():
    pd = pytest.importorskip("pandas")
    probs, truth, noisy = points(300, 4, 12)
    table, given, clean = pd.DataFrame(probs), pd.Series(noisy), pd.Series(truth)
    mixed = clean.sample(frac=1, random_state=0)
    cal = nacp.calibrate(table, given, noise=0.02, guarantee="none")
    calls = (nacp.calibrate, nacp.compare, lambda *points, clean: nacp.diagnose(cal, *points, clean=clean))
    for call in calls:
        for name, rows in {"probs": (table, noisy), "labels": (probs, given)}.items():
            with pytest.raises(nacp.InputError, match=f"clean has the index of {name} in another order"):
                call(*rows, clean=mixed)
        call(table, given, clean=mixed.loc[table.index])
        call(table, given, clean=clean.set_axis(clean.index + 1000))  # an index that says nothing


@pytest.mark.parametrize("n", [101, 130, 300])
def test_noisy_labels_do_not_make_sets_infinite_that_checked_labels_alone_would_not(n):
    probs, truth, noisy = points(n, 5, 16)
    checked = (np.arange(100), truth[:100])
    alone = nacp.calibrate(probs, None, clean=checked, alpha=0.05)
    assert alone.threshold < 1
    assert nacp.calibrate(probs, noisy, clean=checked, alpha=0.05).threshold < 1


def test_few_checked_labels_say_how_many_are_needed():
    probs, truth, noisy = points(500, 4, 14)
    with pytest.warns(nacp.NoValidThresholdWarning, match="at least 22 are needed"):
        cal = nacp.calibrate(probs, noisy, clean=(np.arange(20), truth[:20]), alpha=0.1, delta=0.1)
    assert cal.threshold == np.inf
    undecided = np.append(truth[:21].astype(object), "?")
    with pytest.warns(nacp.NoValidThresholdWarning, match="no smaller sets pass the test") as told:
        nacp.calibrate(probs, noisy, clean=(np.arange(22), undecided), alpha=0.1, delta=0.1)
    assert "are needed" not in str(told[0].message)  # so many may be enough, with fewer misses
    with pytest.warns(nacp.NoValidThresholdWarning, match="9 are needed"):
        nacp.calibrate(probs, noisy, clean=([1, 2], truth[1:3]), guarantee="expected")
    own = nacp.Custom(lambda p: np.where(p > 0.9, 1 - p, np.inf))
    with pytest.warns(nacp.NoValidThresholdWarning, match="infinite score"):
        nacp.calibrate(probs, noisy, clean=truth, guarantee="expected", score=own)


def test_a_calibration_says_what_it_rests_on_and_survives_a_file(tmp_path):
    probs, truth, noisy = points(500, 4, 15)
    clean = np.where(np.arange(500) < 200, truth, -1)
    cal = nacp.calibrate(probs, noisy, clean=clean, delta=0.1)
    assert "200 checked points were picked at random and checked rightly" in cal.assumptions
    assert "independent of the input given" not in cal.assumptions
    assert "200 of them checked" in " ".join(str(cal).split())
    assert cal.floor > 0
    with pytest.raises(nacp.InputError, match="has no curve"):
        _ = cal.curve
    plan = nacp.choose_audit(probs, noisy, budget=80, alpha=0.2)
    some = plan.rows[5:]
    planned = nacp.calibrate(probs, noisy, clean=(some, truth[some]), audit=plan, alpha=0.2)
    assert (planned.checked, planned.planned) == (75, 80)
    for each in (cal, planned):
        each.save(tmp_path / "cal.json")
        assert nacp.load(tmp_path / "cal.json") == each


def test_what_could_not_be_decided_counts_as_a_miss():
    probs, truth, noisy = points(900, 4, 31)
    rows = np.arange(200)
    clean = truth[rows].astype(object)
    clean[[3, 40, 77]] = "?"
    cal, decided = (
        nacp.calibrate(probs, noisy, clean=(rows, labels), alpha=0.2, delta=0.1)
        for labels in (clean, truth[rows])
    )
    assert cal.threshold >= decided.threshold
    assert "could not be decided count as misses: 3" in cal.note


def test_whether_there_are_strata_is_decided_by_the_pilot_alone():
    """The binomial test where few of the checked points happen to lie outside would pass too often."""
    probs, truth, noisy = points(1500, 5, 37)
    rows = np.arange(100)
    audit = deal(1500, 5, rows, truth[rows], 0)
    likely, unlikely = probs.argmax(axis=1), probs.argmin(axis=1)
    found = []
    for checked in (noisy[:100], likely[:100], unlikely[:100]):  # as they are, all inside, all outside
        labels = np.concatenate([checked, noisy[100:]])
        sample = Sample.of(open_rows(probs), labels, nacp.HPS())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nacp.AuditWarning)
            found += CheckedSample(sample, audit, UNIFORM).strata_of([0.1])
    assert all(each is not None for each in found)
    assert {each.pilot for each in found} == {found[0].pilot}
    assert (
        hits_needed_inside((0, 100), (300, 1260), (30, 140), 0.9, 0.1) == 101
    ).all()  # and never falls back
    assert (hits_needed_inside((100, 0), (300, 1260), (30, 140), 0.9, 0.1) == 1).all()


def test_strata_do_not_depend_on_what_the_checkers_found():
    """Else the theorem would not hold: they come from the pilot, and from each point and its given label."""
    probs, truth, noisy = points(3000, 5, 41)
    rows, sample = np.arange(300), Sample.of(open_rows(probs), noisy, nacp.HPS())
    first, *others = (
        CheckedSample(sample, deal(3000, 5, rows, labels[rows], 0), UNIFORM).strata_of([0.1])[0]
        for labels in (truth, noisy, np.random.default_rng(0).integers(5, size=3000))
    )
    for each in others:
        assert np.array_equal(each.outside, first.outside)
        assert each[1:] == first[1:]


def test_points_without_a_probable_label_or_with_tied_scores_have_the_strata_of_the_definition():
    """Posterior probabilities are divided by their sum; where all are 0, each label has the same."""
    probs = np.array([[0.5, 0.3, 0.2, 0.0], [0.3, 0.3, 0.3, 0.1], [0.0, 0.6, 0.4, 0.0], [0.1, 0.2, 0.3, 0.4]])
    rows, labels = np.tile(probs, (50, 1)), np.repeat(np.arange(4), 50)
    sample = Sample.of(open_rows(rows), labels, nacp.HPS())
    for noise in (nacp.UniformNoise(0.0), nacp.UniformNoise(0.3)):
        P = noise.matrix(4)
        checked = CheckedSample(sample, deal(200, 4, np.arange(20), labels[:20], 0), P)
        joint = rows * P.dense()[:, labels].T
        total = joint.sum(axis=1, keepdims=True)
        posterior = np.where(total > 0, joint / np.where(total > 0, total, 1), 1 / 4)
        thresholds = [-0.5, -0.4, -0.3, -0.2, -0.1, 0.0]
        for each, found in zip(thresholds, checked.outside(thresholds), strict=True):
            inside = (posterior * (-rows <= each)).sum(axis=1)
            np.testing.assert_array_equal(found, inside < 0.8 - 1e-9)


@pytest.mark.parametrize("m", [20, 60, 400])
def test_strata_are_of_use_if_they_save_12_percent_of_the_variance_and_have_six_points_each(m):
    found = set()
    for outside, p0, p1, others in product([1, 3, 15, 30, 97], [0.3, 0.7], [0.9, 0.99], [20, 150, 5000]):
        w, pilot = outside / 100, Pilot(-0.5, (outside, 100), (p0, p1))
        plain = w * p0 + (1 - w) * p1
        enough = min(w * m, (1 - w) * m, w * others, (1 - w) * others) >= 6 - 1e-9
        variance = strata_variance(w, p0, p1, w * m, (1 - w) * m, others)
        useful = bool(enough and plain * (1 - plain) / m >= 1.12 * variance)
        assert _worthwhile(pilot, m, others) == useful
        found.add(useful)
    assert found == {False, True}


def test_strata_may_hold_all_other_points():
    """If all of N points lie outside, the checked ones decide by their coverage outside."""
    k = hits_needed_inside((300, 40), (500, 500), (90, 90), 0.9, 0.1)
    assert (np.diff(k) <= 0).all()
    assert k[[0, 277, 278, 290, 300]].tolist() == [41, 41, 37, 33, 30]


def test_without_checked_points_in_a_stratum_the_test_never_passes():
    for n0, n1 in ((0, 30), (30, 0), (0, 0)):
        never = hits_needed_inside((n0, n1), (50, 200), (20, 90), 0.9, 0.1)
        assert never.tolist() == [n1 + 1] * (n0 + 1)


def test_of_scores_that_are_no_probabilities_the_pilot_counts_the_given_labels():
    """They are right as often as the noise model says, and only then inside of the sets."""
    rng = np.random.default_rng(0)
    scores, labels = rng.random((1000, 5)), rng.integers(5, size=1000)
    rows = open_rows(scores, probabilities=False)
    sample = Sample.of(rows, labels, nacp.Precomputed())
    checked = CheckedSample(sample, deal(1000, 5, np.arange(20), labels[:20], 0), UNIFORM)
    pilot = checked.audit.pilot
    own = np.sort(scores[pilot, labels[pilot]])
    found, (right,) = checked.pilot(0.2), set(UNIFORM.diagonal)
    target = right * (1 - 0.2) * len(own)
    assert found.threshold == own[math.ceil(target) - 1]
    assert found.outside == (len(own) - math.ceil(target), len(own))
