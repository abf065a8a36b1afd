"""Coverage for each group: thresholds against the definition, promises by simulation, and what is refused."""

import json
import re

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.advice import regions
from nacp.coverage.grid import BY_CLASS, GRID, INFINITE
from nacp.paper import twins
from nacp.points import arrays
from nacp.wrapping import at_width

ROUNDING = 1e-12


@pytest.fixture(scope="module")
def points():
    probs, truth = twins.simulate("cifar10", n=300, random_state=1)
    return probs, truth, nacp.UniformNoise(0.2).sample(truth, 10, random_state=1)


def by_definition(scores, labels, weights, group, target, rule):
    """Return the threshold and the estimate of one group of classes, from its definition."""
    own = weights[labels][:, group]  # W[y_i, l] for l in the group
    mass = own.sum()
    scores = scores[:, group]
    order = np.sort(np.unique(scores))
    covered = np.array([own[scores <= q].sum() for q in order]) / mass
    reached = covered >= target - ROUNDING
    if rule == "first":
        at = int(np.argmax(reached)) if reached.any() else None
    else:
        below = np.flatnonzero(~reached)
        at = 0 if not len(below) else int(below[-1]) + 1
        at = None if at == len(order) else at
    return (np.inf, 1.0) if at is None else (float(order[at]), float(covered[at]))


def on_grid_by_class(probs, spec):
    """Return the scores of all labels, each moved up to the next threshold that there may be by class."""
    cells = spec.cells_of(engine.scores(probs, spec))
    return spec.thresholds[BY_CLASS[np.searchsorted(BY_CLASS, cells)]]


def matrices(k):
    rng = np.random.default_rng(5)
    mixed = 0.75 * np.eye(k) + 0.25 * rng.dirichlet(np.ones(k), size=k)
    return {
        "uniform": nacp.UniformNoise(0.2),
        "groups": nacp.GroupNoise([i // 2 for i in range(k)], 0.15),
        "matrix": nacp.MatrixNoise(mixed),
        "none": None,
    }


GROUPS = {"class": None, "halves": {i: "low" if i < 5 else "high" for i in range(10)}}


@pytest.mark.parametrize("rule", ["last", "first"])
@pytest.mark.parametrize("grouping", GROUPS)
@pytest.mark.parametrize("noise", ["uniform", "groups", "matrix", "none"])
@pytest.mark.parametrize("score", ["hps", "aps"])
@pytest.mark.parametrize("entries", [None, 700])
def test_thresholds_by_class_are_those_of_the_definition(
    points, monkeypatch, score, noise, grouping, rule, entries
):
    probs, truth, _ = points
    model = matrices(10)[noise]
    labels = truth if model is None else model.sample(truth, 10, random_state=2)
    weights = np.eye(10) if model is None else model.inverse(10).dense()
    groups = GROUPS[grouping]
    given = {"by": "class"} if groups is None else {"groups": groups}
    if entries is not None:
        monkeypatch.setattr(arrays, "block_entries", lambda in_place: entries)
    cal = nacp.calibrate(
        probs, labels, noise=model, score=score, guarantee="none", crossing=rule, small="all", **given
    )
    placed = on_grid_by_class(probs, cal.score.spec)
    for name, each in cal.groups.items():
        group = [name] if groups is None else [i for i in range(10) if groups[i] == name]
        q, estimate = by_definition(placed, labels, weights, group, 0.9, rule)
        assert each.native_threshold == q
        assert each.estimate == pytest.approx(min(estimate, 1.0), abs=1e-9)


@pytest.mark.parametrize("rule", ["last", "first"])
def test_estimates_that_cross_between_two_labels_are_followed_there(points, rule):
    probs, truth, _ = points
    ring = np.roll(np.eye(10), 1, axis=1)
    model = nacp.MatrixNoise(0.6 * np.eye(10) + 0.4 * ring)  # W has entries above 0 outside its diagonal
    labels, weights = model.sample(truth, 10, random_state=2), model.inverse(10).dense()
    placed = on_grid_by_class(probs, nacp.APS().spec)
    alphas, between = [0.05, 0.1, 0.2, 0.3, 0.5], 0
    found = nacp.calibrate(
        probs, labels, noise=model, alpha=alphas, score="aps", guarantee="none", crossing=rule, by="class",
        small="all",
    )  # fmt: skip
    for alpha, cal in zip(alphas, found, strict=True):
        for name, each in cal.groups.items():
            q, estimate = by_definition(placed, labels, weights, [name], 1 - alpha, rule)
            assert (each.native_threshold, each.estimate) == (q, pytest.approx(min(estimate, 1.0), abs=1e-9))
            between += q not in placed[labels == name, name]
    assert between >= 3


def test_groups_of_too_few_points_have_all_labels_in_their_sets():
    """Where one target is out of reach, and another one so low that nothing has to be collected for it."""
    noise = nacp.MatrixNoise(0.8 * np.eye(5) + 0.2 * np.roll(np.eye(5), 1, axis=1))
    probs = np.tile([0.96, 0.01, 0.01, 0.01, 0.01], (7, 1))
    with pytest.warns(nacp.NoValidThresholdWarning):
        cal = nacp.calibrate(
            probs, np.zeros(7, dtype=int), noise=noise, guarantee="expected", by="class", small="all"
        )
    assert list(cal.thresholds.values()) == [np.inf] * 5


# Row groups


@pytest.mark.parametrize("noise", [0.2, nacp.MatrixNoise(0.8 * np.eye(10) + 0.02)], ids=["uniform", "matrix"])
def test_a_group_of_rows_is_calibrated_as_its_rows_alone(points, noise):
    probs, _, noisy = points
    groups = np.where(np.arange(len(noisy)) % 3 == 0, "a", "b")
    for guarantee in ("none", "expected", nacp.Expected("worst-case"), "pac"):
        known = {"noise": noise, "alpha": 0.3, "guarantee": guarantee}
        cal = nacp.calibrate(probs, noisy, groups=groups, small="all", **known)
        for name in ("a", "b"):
            mine = cal.groups[name]
            alone = nacp.calibrate(probs[groups == name], noisy[groups == name], **known)
            assert (mine.threshold, mine.n, mine.note) == (alone.threshold, alone.n, alone.note)
            for number in ("estimate", "correction", "gap"):
                assert getattr(mine, number) == pytest.approx(getattr(alone, number), abs=1e-12)


def test_sets_are_those_of_each_group_by_itself(points):
    probs, _, noisy = points
    groups = np.arange(len(noisy)) % 2
    cal = nacp.calibrate(probs, noisy, noise=0.2, alpha=0.3, groups=groups, score="aps")
    sets = cal.predict_set(probs, groups=groups)
    for name in (0, 1):
        assert (
            sets[groups == name].to_lists() == cal.groups[name].predict_set(probs[groups == name]).to_lists()
        )


def test_sets_by_class_hold_a_label_where_it_scores_at_most_as_its_threshold(points):
    probs, _, noisy = points
    for score in ("hps", "aps"):
        cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee="none", by="class", score=score, small="all")
        placed = engine.scores(probs, cal.score.spec)
        native = np.array([each.native_threshold for each in cal.calibrations])
        assert np.array_equal(np.asarray(cal.predict_set(probs)), placed <= native)


def test_without_noise_by_class_is_mondrian(points):
    probs, truth, _ = points
    cal = nacp.calibrate(probs, truth, noise=None, by="class", small="all", alpha=0.2)
    for label, each in cal.groups.items():
        own = np.sort(1 - probs[truth == label, label].astype(np.float64))
        rank = int(np.ceil(0.8 * (len(own) + 1) - 1e-9))
        assert each.threshold == (own[rank - 1] if rank <= len(own) else np.inf)
    expected = nacp.calibrate(
        probs, truth, noise=0.0, guarantee="expected", by="class", small="all", alpha=0.2
    )
    spec = nacp.HPS().spec
    for exact, each in zip(cal.calibrations, expected.calibrations, strict=True):
        cell = INFINITE
        if np.isfinite(exact.threshold):
            cell = int(spec.cells_of(np.array([exact.native_threshold]))[0])
        assert each.threshold == GRID[BY_CLASS[np.searchsorted(BY_CLASS, cell)]]


# The promises


def at_the_null(rng, n, noise, alpha=0.1):
    """Draw points whose sets below 1 hold the true label with probability 1 - alpha: scores are 0 or 1."""
    truth = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    scores = (rng.random((n, 3)) >= 0.3).astype(np.float64)
    scores[np.arange(n), truth] = rng.random(n) >= 1 - alpha
    return scores, noise.sample(truth, 3, random_state=rng)


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("groups", [{0: 0, 1: 1, 2: 2}, {0: 0, 1: 0, 2: 1}], ids=["classes", "groups"])
@pytest.mark.parametrize(
    "noise",
    [nacp.UniformNoise(0.2), nacp.MatrixNoise([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.1, 0.15, 0.75]])],
    ids=["uniform", "matrix"],
)
def test_pac_by_class_passes_at_the_null_with_probability_delta_at_the_most(noise, groups):
    """At the null a bet is won with probability delta at the most; 3.5 standard errors are allowed."""
    runs, delta, won = 120, 0.1, []
    for seed in range(runs):
        scores, labels = at_the_null(np.random.default_rng(seed), 150, noise)
        cal = nacp.calibrate(
            scores, labels, noise=noise, score="precomputed", groups=groups, small="all",
            guarantee=nacp.PAC(delta),
        )  # fmt: skip
        won.append([each.threshold < 1 for each in cal.calibrations])
    rates = np.mean(won, axis=0)
    assert np.all(rates <= delta + 3.5 * np.sqrt(delta * (1 - delta) / runs))
    assert rates.sum() > 0  # else the test could not fail


@pytest.mark.parametrize("score", ["hps", "aps"])
def test_both_engines_find_the_same_thresholds_by_class(score):
    pytest.importorskip("nacp.engine._native")
    probs, truth = twins.simulate("cifar10", n=500, random_state=3)
    noisy = nacp.UniformNoise(0.2).sample(truth, 10, random_state=3)
    found = []
    for name in ("numpy", "native"):
        with engine.using(name):
            found += [
                nacp.calibrate(
                    probs, noisy, noise=0.2, alpha=0.4, by="class", score=score, guarantee=g, small="all"
                ).thresholds
                for g in ("none", "expected", "pac")
            ]
    assert found[:3] == found[3:]


def test_pac_by_class_costs_about_the_floor():
    """The excess is about z sd(s)/sqrt(p n): see docs/guarantees.md, G1."""
    probs, truth = twins.simulate("cifar10", n=20000, random_state=3)
    noisy = nacp.UniformNoise(0.2).sample(truth, 10, random_state=3)
    cal = nacp.calibrate(probs, noisy, noise=0.2, by="class", delta=0.05)
    floor = 1.645 * np.sqrt((0.09 + 0.81 * 0.25) / 0.8 / 2000)
    excess = np.mean([each.estimate - 0.9 for each in cal.calibrations])
    assert 0.8 * floor < excess < 1.4 * floor


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_expected_by_class_covers_on_average():
    """Over calibration sets; the tolerance is 3.5 standard errors of the mean coverage."""
    noise, runs, covered = nacp.UniformNoise(0.2), 150, []
    for seed in range(runs):
        rng = np.random.default_rng(1000 + seed)
        truth = rng.integers(3, size=120)
        scores = rng.random((120, 3)) ** 0.5
        scores[np.arange(120), truth] = rng.random(120)  # coverage at q is q
        labels = noise.sample(truth, 3, random_state=rng)
        cal = nacp.calibrate(
            scores, labels, noise=noise, score="precomputed", guarantee="expected", by="class", small="all",
            alpha=0.2,
        )  # fmt: skip
        covered.append([min(each.threshold, 1.0) for each in cal.calibrations])
    mean, error = np.mean(covered, axis=0), np.std(covered, axis=0) / np.sqrt(runs)
    assert np.all(mean >= 0.8 - 3.5 * error)
    assert np.all(mean < 0.9)


def test_at_once_each_group_is_tested_at_a_part_of_delta(points):
    probs, _, noisy = points
    one = nacp.calibrate(probs, noisy, noise=0.2, alpha=0.3, groups={i: i % 2 for i in range(10)}, delta=0.02)
    both = nacp.calibrate(
        probs,
        noisy,
        noise=0.2,
        alpha=0.3,
        groups={i: i % 2 for i in range(10)},
        delta=0.04,
        simultaneous=True,
    )
    assert both.thresholds == one.thresholds
    assert "all 2 groups of classes at once" in both.promise
    assert "at least 96%" in both.promise
    with pytest.raises(nacp.InputError, match='simultaneous has no effect on guarantee "none"'):
        nacp.calibrate(probs, noisy, noise=0.2, guarantee="none", by="class", simultaneous=True)


@pytest.mark.parametrize("score", ["hps", "aps"])
@pytest.mark.parametrize("noise", ["uniform", "matrix"])
@pytest.mark.parametrize("guarantee", ["none", "expected", "pac"])
def test_rows_with_their_top_entries_are_as_whole_ones(points, score, noise, guarantee):
    probs, _, noisy = points
    columns = np.argsort(-probs, axis=1, kind="stable")[:, :4]
    top = nacp.TopRows(columns, np.take_along_axis(probs, columns, axis=1), k=10)
    whole = top.toarray()
    rows, halves = np.arange(300) // 50, {i: i % 2 for i in range(10)}
    given = {"noise": matrices(10)[noise], "alpha": 0.4, "score": score, "guarantee": guarantee}
    for groups in ({"groups": halves}, {"groups": rows}):
        mine, theirs = (nacp.calibrate(each, noisy, **given, **groups) for each in (top, whole))
        assert mine.thresholds == theirs.thresholds
        new = {} if mine.members is not None else {"groups": rows}
        assert mine.predict_set(top, **new).to_lists() == theirs.predict_set(whole, **new).to_lists()


# Small groups


def test_a_group_that_is_too_small_is_refused_or_holds_all_labels_or_is_pooled(points):
    probs, _, noisy = points
    groups = ["one"] + ["few"] * 3 + ["many"] * (len(noisy) - 4)
    with pytest.raises(nacp.InputError, match=r"2 of 3 groups .*'few' \(3 points\), 'one' \(1 point\)"):
        nacp.calibrate(probs, noisy, noise=0.2, alpha=0.3, groups=groups)
    with pytest.warns(nacp.NoValidThresholdWarning, match="in 2 of 3 groups"):
        cal = nacp.calibrate(probs, noisy, noise=0.2, alpha=0.3, groups=groups, small="all")
    assert cal.infinite == ("few", "one")
    assert cal.predict_set(probs[:2], groups=["one", "many"]).sizes[0] == 10
    parts = np.repeat(["a", "b", "c", "d"], [10, 20, 30, len(noisy) - 60])
    cal = nacp.calibrate(
        probs, noisy, noise=0.2, alpha=0.3, guarantee="expected", groups=parts, small="merge"
    )
    assert cal.aside == 30
    assert not cal.infinite


@pytest.mark.parametrize("guarantee", ["split", "expected", "none", "pac"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_groups_of_a_few_points_are_pooled_although_these_were_put_aside(guarantee, size):
    probs, truth = twins.simulate("cifar10", n=2000, random_state=4)
    options = {"noise": None, "guarantee": guarantee, "groups": np.arange(2000) // size}
    cal = nacp.calibrate(probs, truth, small="merge", **options)
    assert cal.pooled == cal.names
    assert not cal.infinite


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_what_is_merged_does_not_depend_on_the_points_that_are_tested(points):
    """Other labels of the points that calibrate leave the pool as it is."""
    probs, _, noisy = points
    cal = nacp.calibrate(probs, noisy, noise=0.2, alpha=0.3, by="class", small="merge", guarantee="expected")
    aside = np.random.default_rng([0, 2]).permutation(len(noisy))[: cal.aside]
    others = (noisy + 1) % 10
    others[aside] = noisy[aside]
    again = nacp.calibrate(
        probs, others, noise=0.2, alpha=0.3, by="class", small="merge", guarantee="expected"
    )
    assert again.pooled == cal.pooled != ()


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize(
    ("options", "offered"),
    [
        ({"groups": np.arange(300) // 10}, True),
        ({"groups": np.arange(300) < 1}, False),  # nobody to be pooled with
        ({"groups": np.arange(300) < 1, "guarantee": "expected"}, False),
        ({"groups": np.arange(300) // 10, "alpha": 0.001}, False),  # nor are there enough of them
        ({"by": "class", "guarantee": "acnl"}, False),
        ({"by": "class", "alpha": 0.05}, False),
        ({"groups": np.arange(300) // 10, "alpha": 0.1, "guarantee": "expected"}, True),
    ],
)
def test_what_a_refusal_offers_can_be_had(points, options, offered):
    probs, _, noisy = points
    options = {"noise": 0.2, "alpha": 0.3} | options
    with pytest.raises(nacp.InputError) as refused:
        nacp.calibrate(probs, noisy, **options)
    assert ('small="merge"' in str(refused.value)) == offered
    assert nacp.calibrate(probs, noisy, small="all", **options).infinite
    if offered:
        assert not nacp.calibrate(probs, noisy, small="merge", **options).infinite


def test_noise_with_a_radius_is_taken_as_exact_where_that_is_said(points):
    probs, _, noisy = points
    noise = nacp.MatrixNoise(0.8 * np.eye(10) + 0.02, radius=0.01)
    options = {"alpha": 0.3, "by": "class", "guarantee": "expected"}
    with pytest.raises(nacp.InputError, match="pass its P, which is then taken to be exact"):
        nacp.calibrate(probs, noisy, noise=noise, **options)
    assert nacp.calibrate(probs, noisy, noise=noise.P, **options).thresholds


def test_a_refusal_names_no_number_of_points_that_the_group_has(points):
    probs, _, labels = points
    with pytest.raises(nacp.errors.InputError) as refused:
        nacp.calibrate(probs, labels, noise=0.2, groups=np.arange(300) // 15, guarantee="expected")
    assert "(15 points)" in str(refused.value)
    assert "needs about" not in str(refused.value)
    assert "the correction of guarantee" in str(refused.value)


def test_bets_that_could_not_be_won_are_not_placed(monkeypatch):
    rejected = []
    for could in (regions._could_win, lambda *_: True):
        monkeypatch.setattr(regions, "_could_win", could)
        rng, found = np.random.default_rng(0), []
        for n in (5, 20, 60, 200):
            for mean in (0.1, -0.1, -0.3):
                region = regions.Region("", rng.choice([-0.25, 0.5], n) + mean, np.zeros(n), -0.6, 0.6, 0.0)
                found.append(region.check(0.01, 0.0).rejected)
        rejected.append(found)
    assert rejected[0] == rejected[1]
    assert 0 < sum(rejected[0]) < len(rejected[0])


def test_groups_that_differ_in_their_type_alone_are_told_so(points):
    probs, _, labels = points
    numbers = np.arange(300) % 3
    by_number = nacp.calibrate(probs, labels, noise=0.2, groups=numbers, guarantee="none")
    with pytest.raises(nacp.errors.InputError, match=r"holds '0' in row 0.*pass groups as numbers"):
        by_number.predict_set(probs, groups=numbers.astype(str))
    by_text = nacp.calibrate(probs, labels, noise=0.2, groups=numbers.astype(str), guarantee="none")
    with pytest.raises(nacp.errors.InputError, match=r"holds 0 in row 0.*pass groups as texts"):
        by_text.predict_set(probs, groups=numbers)
    with pytest.raises(
        nacp.errors.InputError, match=r"holds 7 in row 0.*calibrate with points of this group"
    ):
        by_number.predict_set(probs, groups=numbers + 7)


def test_a_table_of_groups_in_another_order_is_refused(points):
    pd = pytest.importorskip("pandas")
    probs, _, labels = points
    table, site = pd.DataFrame(probs), pd.Series(np.arange(300) % 2)
    mixed = site.sample(frac=1, random_state=0)
    for series in (site, site.set_axis(site.index + 1000)):  # the same order, or an index that says nothing
        cal = nacp.calibrate(table, labels, noise=0.2, groups=series, guarantee="none")
        cal.predict_set(table, groups=series)
    with pytest.raises(nacp.errors.InputError, match="the index of probs in another order"):
        nacp.calibrate(table, labels, noise=0.2, groups=mixed, guarantee="none")
    with pytest.raises(nacp.errors.InputError, match="the index of probs in another order"):
        cal.predict_set(table, groups=mixed)
    with pytest.raises(nacp.errors.InputError, match="the index of probs in another order"):
        nacp.diagnose(cal, table, labels, groups=mixed)
    given, sets = pd.Series(labels), cal.predict_set(probs, groups=np.arange(300) % 2)
    with pytest.raises(nacp.errors.InputError, match="the index of labels in another order"):
        nacp.calibrate(probs, given, noise=0.2, groups=mixed, guarantee="none")
    with pytest.raises(nacp.errors.InputError, match="the index of labels in another order"):
        nacp.evaluate(sets, given, groups=mixed)


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_thousands_of_groups_of_rows_and_of_one_point():
    probs, truth = twins.simulate("cifar10", n=3000, random_state=0)
    noisy = nacp.UniformNoise(0.1).sample(truth, 10, random_state=0)
    cal = nacp.calibrate(probs, noisy, noise=0.1, groups=np.arange(3000), small="all")
    assert len(cal.infinite) == 3000
    assert "and 2,970 groups more" in str(cal)


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("guarantee", ["pac", "expected"])
@pytest.mark.parametrize("given", [{"by": "class"}, {"groups": np.arange(60) % 10}], ids=["class", "rows"])
def test_a_small_group_says_how_many_points_would_do(points, guarantee, given):
    probs, _, noisy = points
    cal = nacp.calibrate(probs[:60], noisy[:60], noise=0.2, guarantee=guarantee, small="all", **given)
    needed = cal.calibrations[0].guarantee.points_needed(
        nacp.UniformNoise(0.2), 10, 0.1, of_classes="by" in given
    )
    assert cal.infinite
    for name in cal.infinite:
        assert re.search(rf"; (about )?{needed:,} points (sh|w)ould do$", cal.groups[name].obstacle)


def test_a_group_of_rows_without_points_is_said_to_be_one(points):
    probs, _, noisy = points
    groups = pytest.importorskip("pandas").Categorical(["a"] * 300, categories=["a", "b"])
    with pytest.warns(nacp.NoValidThresholdWarning, match="no calibration point is of this group"):
        cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee="none", groups=groups, small="all")
    assert "no label" not in str(cal)


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_what_is_printed_of_groups_fits_and_is_said_rightly(points):
    probs, truth, noisy = points
    groups = ["one"] + ["many"] * (len(noisy) - 1)
    cal = nacp.calibrate(
        probs, noisy, noise=0.2, alpha=0.3, groups=groups, small="merge", simultaneous=True, random_state=3
    )
    assert cal.pooled == ("one",)
    assert "one group" not in cal.promise
    for columns in (40, 80):
        with at_width(columns):
            assert max(map(len, str(cal).splitlines())) <= columns
    only = nacp.calibrate(probs, noisy, noise=0.2, alpha=0.3, groups=["a"] * 300, simultaneous=True)
    assert "in each group by itself" in only.promise
    halves = np.arange(len(noisy)) % 2
    checked = nacp.calibrate(probs, noisy, clean=truth, alpha=0.3, groups=halves, guarantee="expected")
    assert "the 300 checked points" in checked.assumptions


# Files


@pytest.mark.parametrize("given", [{"by": "class"}, {"groups": "rows"}, {"groups": "rows", "small": "merge"}])
def test_saved_and_loaded_it_is_the_same(points, tmp_path, given):
    probs, _, noisy = points
    rows = np.array(["x", "y"])[np.arange(len(noisy)) % 2]
    given = given | ({"groups": rows} if "groups" in given else {})
    cal = nacp.calibrate(
        probs, noisy, noise=0.2, alpha=0.3, guarantee="expected", classes=[f"c{i}" for i in range(10)],
        **({"small": "all"} | given),
    )  # fmt: skip
    cal.save(tmp_path / "cal.json")
    again = nacp.load(tmp_path / "cal.json")
    assert again == cal
    assert str(again) == str(cal)
    groups = rows if "groups" in given else None
    assert (
        again.predict_set(probs, groups=groups).to_lists() == cal.predict_set(probs, groups=groups).to_lists()
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("names", ["x"]), ("names", ["x", "x"]), ("names", [{}, 1]), ("of_name", [0, 7]),
        ("of_name", [0, -1]), ("members", [0]), ("members", [0] * 9 + [5]), ("groups", []), ("common", {}),
        ("pooled", ["z"]), ("n", 0), ("guarantee", {"name": "none"}), ("simultaneous", 1),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_refused(points, tmp_path, field, value):
    probs, _, noisy = points
    path = tmp_path / "cal.json"
    nacp.calibrate(
        probs, noisy, noise=0.2, alpha=0.3, guarantee="expected", groups={i: i % 2 for i in range(10)}
    ).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(nacp.InputError, match="cannot be used"):
        nacp.load(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pooled", []), ("of_name", [0, 0, 0]), ("of_name", [1, 1, 0]), ("simultaneous", False), ("n", 299),
        ("aside", 0), ("guarantee", {"name": "pac", "delta": 1e-6}),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_a_file_that_says_more_than_was_found_is_refused(points, tmp_path, field, value):
    """A smaller delta, groups that share a threshold without a word, points that are nowhere."""
    probs, _, noisy = points
    path = tmp_path / "cal.json"
    groups = np.repeat(["a", "b", "c"], [260, 20, 20])
    cal = nacp.calibrate(probs, noisy, noise=0.2, alpha=0.3, groups=groups, small="merge", simultaneous=True)
    assert cal.pooled == ("b", "c")
    assert "where b, c are one group, as they are small" in cal.promise
    cal.save(path)
    assert nacp.load(path) == cal
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(nacp.InputError, match="cannot be used"):
        nacp.load(path)


# What is refused


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"groups": ["a"]}, r"groups must have the shape \(300,\)"),
        ({"groups": [["a"], ["b", "c"]]}, r"groups must have the shape \(300,\)"),
        ({"groups": ["a"] * 299 + [None]}, "groups is missing in row 299"),
        ({"groups": [1.0] * 299 + [float("nan")]}, "groups is missing in row 299"),
        ({"groups": ["a"] * 299 + [float("nan")]}, "groups is missing in row 299"),
        ({"groups": [("a",)] * 300}, "groups must"),
        ({"groups": [1.0] * 299 + [float("inf")]}, "groups must be texts or finite numbers; found inf"),
        ({"groups": np.repeat(np.datetime64("2020-01-01"), 300)}, r"found .* in row 0; write them as texts"),
        ({"groups": {0: "a"}}, "groups has no group for class 1; 1 of 10 classes"),
        ({"groups": {i: "a" for i in range(11)}}, "groups has a group for 10, which is no class"),
        ({"groups": {i: None for i in range(10)}}, "groups is missing in class 0"),
        ({"groups": {}}, "groups has no group for class 0"),
        ({"by": "class", "groups": ["a"] * 300}, "by says what the groups are, and so does groups"),
        ({"by": "hospital"}, 'by must be "class"'),
        ({"small": "all"}, "small has no effect without groups"),
        ({"simultaneous": True}, "simultaneous has no effect without groups"),
        ({"by": "class", "small": "drop"}, "small must be one of"),
        ({"by": "class", "guarantee": "binomial"}, '"binomial" cannot be found for groups of classes'),
        ({"by": "class", "guarantee": "nacp"}, '"nacp" cannot be found for groups of classes'),
        ({"groups": {i: 0 for i in range(10)}, "guarantee": "acnl"}, '"acnl" holds for each class by itself'),
        ({"by": "class", "guarantee": "acnl", "small": "merge"}, 'small must be "error" or "all"'),
    ],
)
def test_what_cannot_be_is_refused(points, given, sentence):
    probs, _, noisy = points
    with pytest.raises(nacp.InputError, match=sentence):
        nacp.calibrate(probs, noisy, noise=0.2, **given)


def test_a_number_beside_texts_stays_a_number(points):
    probs, _, noisy = points
    groups = [7, "a"] * 150
    cal = nacp.calibrate(probs, noisy, noise=0.2, alpha=0.3, groups=groups, guarantee="none")
    assert set(cal.names) == {7, "a"}
    assert len(cal.predict_set(probs[:1], groups=[7])) == 1


def test_groups_at_prediction_must_be_known_and_of_use(points):
    probs, _, noisy = points
    rows = np.array(["x", "y"])[np.arange(len(noisy)) % 2]
    cal = nacp.calibrate(probs, noisy, noise=0.2, alpha=0.3, groups=rows, guarantee="none")
    with pytest.raises(nacp.InputError, match="holds 'z' in row 1, a group that was not calibrated"):
        cal.predict_set(probs[:2], groups=["x", "z"])
    with pytest.raises(nacp.InputError, match="groups must say of which group each row is"):
        cal.predict_set(probs[:2])
    with pytest.raises(nacp.InputError, match=r"groups must have the shape \(2,\)"):
        cal.predict_set(probs[:2], groups=["x"])
    by_class = nacp.calibrate(probs, noisy, noise=0.2, by="class", guarantee="none", small="all")
    with pytest.raises(nacp.InputError, match="groups has no effect: thresholds differ by class"):
        by_class.predict_set(probs[:2], groups=["x", "y"])


def test_a_group_that_is_declared_and_has_no_point(points):
    pd = pytest.importorskip("pandas")
    probs, _, noisy = points
    groups = pd.Categorical(["a"] * len(noisy), categories=["b", "a"])
    with pytest.raises(nacp.InputError, match="'b' \\(0 points\\)"):
        nacp.calibrate(probs, noisy, noise=0.2, alpha=0.3, groups=groups)
    with pytest.warns(nacp.NoValidThresholdWarning, match="no calibration point is of this group"):
        cal = nacp.calibrate(probs, noisy, noise=0.2, alpha=0.3, groups=pd.Series(groups), small="all")
    assert cal.names == ("b", "a")


# Clusters


def test_classes_whose_scores_are_alike_are_in_one_cluster():
    """Ten easy and ten hard classes, of noisy labels: k-means finds them."""
    rng = np.random.default_rng(0)
    truth = rng.integers(20, size=6000)
    sure = np.where(truth < 10, 0.95, 0.4)
    probs = rng.dirichlet(np.ones(20), size=6000)
    probs *= (1 - sure)[:, None]
    probs[np.arange(6000), truth] += sure
    noise = nacp.UniformNoise(0.2)
    groups = nacp.cluster_classes(probs, noise.sample(truth, 20, random_state=1), noise=noise, clusters=2)
    assert groups == {i: int(i >= 10) for i in range(20)}


def test_rare_classes_are_in_a_cluster_of_their_own(points):
    probs, truth, _ = points
    some = np.append(np.flatnonzero(truth != 3), np.flatnonzero(truth == 3)[:2])
    names = [f"c{i}" for i in range(10)]
    groups = nacp.cluster_classes(probs[some], truth[some], noise=None, clusters=2, classes=names)
    assert [name for name in names if groups[name] == 2] == ["c3"]
    with pytest.raises(nacp.InputError, match="clusters must be at most 10"):
        nacp.cluster_classes(probs, truth, noise=None, clusters=11)


@pytest.mark.parametrize("scores", ["equal", "few"])
def test_classes_of_equal_scores_are_one_cluster(points, scores):
    """There may be fewer different classes than clusters: no warning, and no class by itself by chance."""
    _, truth, _ = points
    rng = np.random.default_rng(0)
    truth = rng.integers(10, size=1000)
    probs = np.full((1000, 10), 0.1)
    if scores == "few":
        probs = np.where(np.arange(10) == truth[:, None], np.where(truth < 5, 0.91, 0.46)[:, None], 0.0)
        probs += (1 - probs.sum(axis=1, keepdims=True)) / 10
    groups = nacp.cluster_classes(probs, truth, noise=None, clusters=4)
    assert list(groups.values()) == ([0] * 10 if scores == "equal" else [0] * 5 + [1] * 5)
