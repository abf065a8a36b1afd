"""Coverage for each group: thresholds against the definition, promises by simulation, and what is refused."""

import json

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.coverage.grid import BY_CLASS
from nacp.files import sealed
from nacp.groups.grouping import known_groups
from nacp.paper import twins
from nacp.points import arrays

ROUNDING = 1e-12
PROBS, TRUTH = twins.simulate("cifar10", n=300, random_state=1)
NOISY = nacp.UniformNoise(0.2).sample(TRUTH, 10, random_state=1)


def by_definition(scores, labels, weights, group, target, rule):
    """Return the threshold and the estimate of one group of classes, from its definition."""
    own = weights[labels][:, group]  # W[y_i, l] for l in the group
    mass = own.sum()
    scores = scores[:, group]
    order = np.sort(np.unique(scores))
    covered = np.array([own[scores <= q].sum() for q in order]) / mass
    reached = covered >= target - ROUNDING
    if rule == "last":  # from there on, all are reached
        reached = np.logical_and.accumulate(reached[::-1])[::-1]
    at = int(np.argmax(reached))
    return (float(order[at]), float(covered[at])) if reached.any() else (np.inf, 1.0)


def on_grid_by_class(probs, spec):
    """Return the scores of all labels, each moved up to the next threshold that there may be by class."""
    cells = spec.cells_of(engine.of(probs).scores(probs, spec))
    return spec.thresholds[BY_CLASS[np.searchsorted(BY_CLASS, cells)]]


MIXED = np.random.default_rng(5).dirichlet(np.ones(10), size=10)
NOISES = {
    "uniform": nacp.UniformNoise(0.2),
    "groups": nacp.GroupNoise([i // 2 for i in range(10)], 0.15),
    "matrix": nacp.MatrixNoise(0.75 * np.eye(10) + 0.25 * MIXED),
    # Its inverse has positive entries outside of the diagonal: estimates may cross between two labels.
    "ring": nacp.MatrixNoise(0.6 * np.eye(10) + 0.4 * np.roll(np.eye(10), 1, axis=1)),
    "none": None,
}
GROUPS = {"class": None, "halves": {i: "low" if i < 5 else "high" for i in range(10)}}


@pytest.mark.parametrize("rule", ["last", "first"])
@pytest.mark.parametrize("grouping", GROUPS)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("score", ["hps", "aps"])
@pytest.mark.parametrize("entries", [None, 700])
def test_thresholds_by_class_are_those_of_the_definition(monkeypatch, score, noise, grouping, rule, entries):
    model = NOISES[noise]
    labels = TRUTH if model is None else model.sample(TRUTH, 10, random_state=2)
    weights = np.eye(10) if model is None else model.inverse(10).dense()
    groups = GROUPS[grouping]
    given = {"by": "class"} if groups is None else {"groups": groups}
    if entries is not None:
        monkeypatch.setattr(arrays, "block_rows", lambda k: max(1, entries // k))
    given |= {"guarantee": "none", "crossing": rule, "small": "all"}
    cal = nacp.calibrate(PROBS, labels, noise=model, score=score, **given)
    placed = on_grid_by_class(PROBS, cal.score.spec)
    for name, each in cal.groups.items():
        group = [name] if groups is None else [i for i in range(10) if groups[i] == name]
        q, estimate = by_definition(placed, labels, weights, group, 0.9, rule)
        assert each.native_threshold == q
        assert each.estimate == pytest.approx(min(estimate, 1.0), abs=1e-9)


# Row groups


@pytest.mark.parametrize("noise", [0.2, nacp.MatrixNoise(0.8 * np.eye(10) + 0.02)], ids=["uniform", "matrix"])
def test_a_group_of_rows_is_calibrated_as_its_rows_alone(noise):
    groups = np.where(np.arange(len(NOISY)) % 3 == 0, "a", "b")
    for guarantee in ("none", "expected", nacp.Expected("worst-case"), "pac"):
        known = {"noise": noise, "alpha": 0.3, "guarantee": guarantee}
        cal = nacp.calibrate(PROBS, NOISY, groups=groups, small="all", **known)
        for name in ("a", "b"):
            mine = cal.groups[name]
            alone = nacp.calibrate(PROBS[groups == name], NOISY[groups == name], **known)
            assert (mine.threshold, mine.n, mine.note) == (alone.threshold, alone.n, alone.note)
            for number in ("estimate", "correction", "gap"):
                assert getattr(mine, number) == pytest.approx(getattr(alone, number), abs=1e-12)


def test_sets_hold_the_labels_that_score_at_most_as_the_threshold_of_their_group():
    sites = np.arange(len(NOISY)) % 2
    for score in ("hps", "aps"):
        given = {"noise": 0.2, "guarantee": "none", "score": score}
        by_class = nacp.calibrate(PROBS, NOISY, by="class", small="all", **given)
        by_site = nacp.calibrate(PROBS, NOISY, groups=sites, **given)
        scores = engine.of(PROBS).scores(PROBS, by_class.score.spec)
        for cal, groups, places in ((by_class, None, np.arange(10)), (by_site, sites, sites[:, None])):
            native = np.array([each.native_threshold for each in cal.calibrations])
            assert np.array_equal(np.asarray(cal.predict_set(PROBS, groups=groups)), scores <= native[places])


def test_without_noise_by_class_is_mondrian():
    cal = nacp.calibrate(PROBS, TRUTH, noise=None, by="class", small="all", alpha=0.2)
    for label, each in cal.groups.items():
        own = np.sort(1 - PROBS[label == TRUTH, label].astype(np.float64))
        rank = int(np.ceil(0.8 * (len(own) + 1) - 1e-9))
        assert each.threshold == (own[rank - 1] if rank <= len(own) else np.inf)


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
        given = {"score": "precomputed", "groups": groups, "small": "all", "guarantee": nacp.PAC(delta)}
        cal = nacp.calibrate(scores, labels, noise=noise, **given)
        won.append([each.threshold < 1 for each in cal.calibrations])
    rates = np.mean(won, axis=0)
    assert np.all(rates <= delta + 3.5 * np.sqrt(delta * (1 - delta) / runs))
    assert rates.sum() > 0  # else the test could not fail


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
        given = {"score": "precomputed", "by": "class", "small": "all", "guarantee": "expected"}
        cal = nacp.calibrate(scores, labels, noise=noise, alpha=0.2, **given)
        covered.append([min(each.threshold, 1.0) for each in cal.calibrations])
    mean, error = np.mean(covered, axis=0), np.std(covered, axis=0) / np.sqrt(runs)
    assert np.all(mean >= 0.8 - 3.5 * error)
    assert np.all(mean < 0.9)


def test_at_once_each_group_is_tested_at_a_part_of_delta():
    given = {"noise": 0.2, "alpha": 0.3, "groups": {i: i % 2 for i in range(10)}}
    one = nacp.calibrate(PROBS, NOISY, delta=0.02, **given)
    both = nacp.calibrate(PROBS, NOISY, delta=0.04, simultaneous=True, **given)
    assert both.thresholds == one.thresholds
    assert "all 2 groups of classes at once" in both.promise
    assert "at least 96%" in both.promise
    with pytest.raises(nacp.InputError, match='simultaneous has no effect on guarantee "none"'):
        nacp.calibrate(PROBS, NOISY, guarantee="none", simultaneous=True, **given)


def test_shuffled_labels_are_noticed():
    shuffled, groups = np.random.default_rng(0).permutation(NOISY), np.arange(300) % 2
    with pytest.warns(nacp.NoiseModelWarning, match="no better than labels in random order") as caught:
        cal = nacp.calibrate(PROBS, shuffled, noise=0.2, groups=groups, small="all")
    assert len([each for each in caught if each.category is nacp.NoiseModelWarning]) == 1
    assert cal.warnings[0].startswith("the labels fit the rows of probs no better")


# Small groups


def test_a_group_that_is_too_small_is_refused_or_holds_all_labels_or_is_pooled():
    given = {"noise": 0.2, "alpha": 0.3}
    groups = ["one"] + ["few"] * 3 + ["many"] * (len(NOISY) - 4)
    with pytest.raises(nacp.InputError, match=r"2 of 3 groups .*'few' \(3 points\), 'one' \(1 point\)"):
        nacp.calibrate(PROBS, NOISY, groups=groups, **given)
    with pytest.warns(nacp.NoValidThresholdWarning, match="in 2 of 3 groups"):
        cal = nacp.calibrate(PROBS, NOISY, groups=groups, small="all", **given)
    assert cal.infinite == ("few", "one")
    assert cal.predict_set(PROBS[:2], groups=["one", "many"]).sizes[0] == 10
    groups = np.repeat(["a", "b", "c", "d"], [10, 20, 30, len(NOISY) - 60])
    cal = nacp.calibrate(PROBS, NOISY, guarantee="expected", groups=groups, small="merge", **given)
    assert (cal.aside, cal.infinite) == (30, ())
    assert [row[0] for row in cal.table()] == ["a (pooled)", "b (pooled)", "c", "d"]
    assert [row[3] for row in cal.table()] == [f"{each.estimate:.4f}" for each in cal.calibrations]
    declared = pytest.importorskip("pandas").Categorical(["a"] * 300, categories=["b", "a"])
    with pytest.raises(nacp.InputError, match=r"'b' \(0 points\)"):
        nacp.calibrate(PROBS, NOISY, groups=declared, **given)
    with pytest.warns(nacp.NoValidThresholdWarning, match="no calibration point is of this group"):
        assert nacp.calibrate(PROBS, NOISY, groups=declared, small="all", **given).names == ("b", "a")
    with pytest.warns(nacp.NoValidThresholdWarning):
        each = nacp.calibrate(PROBS, NOISY, noise=0.2, groups=np.arange(300), small="all")
    assert len(each.infinite) == 300
    assert "and 270 groups more" in str(each)
    # A refusal names no number of points that a group has already.
    with pytest.raises(nacp.InputError, match=r"\(15 points\).*the correction of guarantee") as refused:
        nacp.calibrate(PROBS, NOISY, noise=0.2, groups=np.arange(300) // 15, guarantee="expected")
    assert "needs about" not in str(refused.value)


@pytest.mark.parametrize("guarantee", ["split", "expected", "none", "pac"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_groups_of_a_few_points_are_pooled_although_these_were_put_aside(guarantee, size):
    probs, truth = twins.simulate("cifar10", n=2000, random_state=4)
    options = {"noise": None, "guarantee": guarantee, "groups": np.arange(2000) // size}
    cal = nacp.calibrate(probs, truth, small="merge", **options)
    assert cal.pooled == cal.names
    assert not cal.infinite


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_what_is_merged_does_not_depend_on_the_points_that_are_tested():
    """Other labels of the points that calibrate leave the pool as it is."""
    options = {"noise": 0.2, "alpha": 0.3, "by": "class", "small": "merge", "guarantee": "expected"}
    cal = nacp.calibrate(PROBS, NOISY, **options)
    aside = np.random.default_rng([0, 2]).permutation(len(NOISY))[: cal.aside]
    others = (NOISY + 1) % 10
    others[aside] = NOISY[aside]
    assert nacp.calibrate(PROBS, others, **options).pooled == cal.pooled != ()


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize(
    ("options", "offered"),
    [
        ({"groups": np.arange(300) // 10}, True),
        ({"groups": np.arange(300) < 1}, False),  # there is no other small group
        ({"groups": np.arange(300) < 1, "guarantee": "expected"}, False),
        ({"by": "class", "guarantee": "acnl"}, False),  # pooled classes are no single class
        ({"groups": np.arange(300) // 10, "alpha": 0.1, "guarantee": "expected"}, True),
    ],
)
def test_what_a_refusal_offers_can_be_had(options, offered):
    options = {"noise": 0.2, "alpha": 0.3} | options
    with pytest.raises(nacp.InputError) as refused:
        nacp.calibrate(PROBS, NOISY, **options)
    assert ('small="merge"' in str(refused.value)) == offered
    assert ("with twice delta" in str(refused.value)) == (offered and "guarantee" not in options)
    assert nacp.calibrate(PROBS, NOISY, small="all", **options).infinite
    if offered:
        assert not nacp.calibrate(PROBS, NOISY, small="merge", **options).infinite


@pytest.mark.parametrize(
    ("calibrated", "given", "sentence"),
    [
        ([0, 1, 2], ["0", "1", "2"], r"holds '0' in row 0.*1 and '1' are different groups"),
        (["0", "1", "2"], [0, 1, 2], r"holds 0 in row 0.*1 and '1' are different groups"),
        ([7, "a", 7], [7, "7", "a"], r"holds '7' in row 1.*\(these were: 7, 'a'\)"),
        ([0, 1, 2], None, "groups must name the group of each row"),
        ([0, 1, 2], [0], r"groups must have the shape \(300,\)"),
        (None, [0, 1, 2], "groups has no effect: thresholds differ by class"),
    ],
)
def test_groups_at_prediction_must_be_those_of_the_calibration(calibrated, given, sentence):
    groups = {"by": "class", "small": "all"} if calibrated is None else {"groups": calibrated * 100}
    cal = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none", **groups)
    with pytest.raises(nacp.InputError, match=sentence):
        cal.predict_set(PROBS, groups=given and (given * 100 if len(given) > 1 else given))


def test_many_groups_are_found_at_once():
    """A set of all names for each name took ten seconds."""
    customers = np.arange(20_000)
    assert np.array_equal(known_groups(customers[::-1], 20_000, tuple(customers.tolist())), customers[::-1])


def test_a_table_of_groups_in_another_order_is_refused():
    pd = pytest.importorskip("pandas")
    table, site, given = pd.DataFrame(PROBS), pd.Series(np.arange(300) % 2), pd.Series(NOISY)
    mixed, known = site.sample(frac=1, random_state=0), {"noise": 0.2, "guarantee": "none"}
    for series in (site, site.set_axis(site.index + 1000)):  # the same order, or an index that says nothing
        cal = nacp.calibrate(table, NOISY, groups=series, **known)
        sets = cal.predict_set(table, groups=series)
    calls = [
        ("probs", lambda: nacp.calibrate(table, NOISY, groups=mixed, **known)),
        ("probs", lambda: cal.predict_set(table, groups=mixed)),
        ("probs", lambda: nacp.diagnose(cal, table, NOISY, groups=mixed)),
        ("labels", lambda: nacp.calibrate(PROBS, given, groups=mixed, **known)),
        ("labels", lambda: nacp.evaluate(sets, given, groups=mixed)),
    ]
    for name, call in calls:
        with pytest.raises(nacp.InputError, match=f"the index of {name} in another order"):
            call()


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_what_is_printed_of_groups_fits_and_is_said_rightly():
    groups = ["one"] + ["many"] * (len(NOISY) - 1)
    known = {"noise": 0.2, "alpha": 0.3, "simultaneous": True}
    cal = nacp.calibrate(PROBS, NOISY, groups=groups, small="merge", random_state=3, **known)
    assert cal.pooled == ("one",)
    assert "one group" not in cal.promise
    assert max(map(len, str(cal).splitlines())) <= 80
    only = nacp.calibrate(PROBS, NOISY, groups=["a"] * 300, **known)
    assert "in each group by itself" in only.promise


# Files


CHANGES = {
    "classes": [
        *(("names", each) for each in (["x"], ["x", "x"], [{}, 1])),
        *(("of_name", each) for each in ([0, 7], [0, -1])),
        *(("members", each) for each in ([0], [0] * 9 + [5])),
        *(("groups", []), ("common", {}), ("pooled", ["z"]), ("n", 0), ("guarantee", {"name": "none"})),
        ("simultaneous", 1),
    ],
    # A smaller delta, groups that share a threshold without a word, points of no group.
    "rows": [
        *(("pooled", []), ("of_name", [0, 0, 0]), ("of_name", [1, 1, 0]), ("simultaneous", False)),
        *(("n", 299), ("aside", 0), ("guarantee", {"name": "pac", "delta": 1e-6})),
    ],
}


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("kind", CHANGES)
def test_a_file_that_does_not_fit_is_refused(tmp_path, kind):
    path = tmp_path / "cal.json"
    if kind == "classes":
        given = {"guarantee": "expected", "groups": {i: i % 2 for i in range(10)}}
    else:
        groups = np.repeat(["a", "b", "c"], [260, 20, 20])
        given = {"groups": groups, "small": "merge", "simultaneous": True}
    cal = nacp.calibrate(PROBS, NOISY, noise=0.2, alpha=0.3, **given)
    if kind == "rows":
        assert cal.pooled == ("b", "c")
        assert "where b, c are one group, as they are small" in cal.promise
    cal.save(path)
    assert (nacp.load(path), str(nacp.load(path))) == (cal, str(cal))
    document = json.loads(path.read_text())
    for field, value in CHANGES[kind]:
        path.write_text(json.dumps(sealed(document | {field: value})))
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
        ({"groups": [("a",)] * 300}, "groups must"),
        ({"groups": [1.0] * 299 + [float("inf")]}, "groups must be texts or finite numbers; found inf"),
        ({"groups": np.repeat(np.datetime64("2020-01-01"), 300)}, r"found .* in row 0; write them as texts"),
        ({"groups": {0: "a"}}, "groups has no group for class 1; 1 of 10 classes"),
        ({"groups": {i: "a" for i in range(11)}}, "groups has a group for 10, which is no class"),
        ({"groups": {i: None for i in range(10)}}, "groups is missing in class 0"),
        ({"by": "class", "groups": ["a"] * 300}, "by says what the groups are, and so does groups"),
        ({"by": "hospital"}, 'by must be "class"'),
        ({"small": "all"}, "small has no effect without groups"),
        ({"simultaneous": True}, "simultaneous has no effect without groups"),
        ({"by": "class", "small": "drop"}, "small must be one of"),
        ({"by": "class", "guarantee": "binomial"}, '"binomial" cannot be found for groups of classes'),
        ({"by": "class", "guarantee": "nacp"}, '"nacp" cannot be found for groups of classes'),
        ({"groups": {i: 0 for i in range(10)}, "guarantee": "acnl"}, '"acnl" holds for each class by itself'),
        ({"by": "class", "guarantee": "acnl", "small": "merge"}, 'small must be "error" or "all"'),
        (
            {"by": "class", "noise": nacp.MatrixNoise(0.8 * np.eye(10) + 0.02, radius=0.01)},
            "pass its P, which",
        ),
    ],
)
def test_what_cannot_be_is_refused(given, sentence):
    with pytest.raises(nacp.InputError, match=sentence):
        nacp.calibrate(PROBS, NOISY, **({"noise": 0.2} | given))


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


def test_rare_classes_are_in_a_cluster_of_their_own():
    some = np.append(np.flatnonzero(TRUTH != 3), np.flatnonzero(TRUTH == 3)[:2])
    names = [f"c{i}" for i in range(10)]
    labels = np.take(names, TRUTH[some])
    groups = nacp.cluster_classes(PROBS[some], labels, noise=None, clusters=2, classes=names)
    assert [name for name in names if groups[name] == 2] == ["c3"]
    assert len(nacp.cluster_classes(PROBS, TRUTH, noise=None, clusters=10)) == 10
    with pytest.raises(nacp.InputError, match="clusters must be at most 10"):
        nacp.cluster_classes(PROBS, TRUTH, noise=None, clusters=11)


@pytest.mark.parametrize("scores", ["equal", "few"])
def test_classes_of_equal_scores_are_one_cluster(scores):
    """There may be fewer different classes than clusters: no warning, and no class by itself by chance."""
    truth, probs = np.arange(1000) % 10, np.full((1000, 10), 0.1)
    if scores == "few":
        probs = np.where(np.arange(10) == truth[:, None], np.where(truth < 5, 0.91, 0.46)[:, None], 0.0)
        probs += (1 - probs.sum(axis=1, keepdims=True)) / 10
    groups = nacp.cluster_classes(probs, truth, noise=None, clusters=4)
    assert list(groups.values()) == ([0] * 10 if scores == "equal" else [0] * 5 + [1] * 5)


def test_a_single_group_is_described_like_several():
    noise = nacp.UniformNoise(0.2)
    names = np.array(list("ABCDEFGHIJ"))
    options = {"noise": noise, "alpha": 0.2, "classes": names.tolist()}
    one = nacp.calibrate(PROBS, names[NOISY], groups=["a"] * 300, **options)
    cal = nacp.calibrate(PROBS, names[NOISY], **options)
    for name in ("noise", "alpha", "k", "classes", "score", "warnings", "guarantee"):
        assert getattr(one, name) == getattr(cal, name)
    assert one.thresholds == {"a": cal.threshold}
    assert len(one.predict_set(PROBS[:0], groups=[])) == 0
    ((name, points, threshold, coverage),) = one.table()
    assert (name, points, threshold, coverage) == ("a", "300", f"{cal.threshold:.6g}", f"{cal.estimate:.4f}")


def test_the_table_says_which_groups_are_pooled_and_which_have_no_threshold():
    groups = np.repeat(["few", "less", "many"], [5, 4, 291])
    options = {"noise": 0.2, "alpha": 0.2, "groups": groups}
    with pytest.raises(nacp.InputError, match=r'2 of 3 groups.*small="merge"'):
        nacp.calibrate(PROBS, NOISY, **options)
    with pytest.warns(nacp.NoValidThresholdWarning):
        merged = nacp.calibrate(PROBS, NOISY, **options, small="merge")
    assert set(merged.pooled) == {"few", "less"}
    names = [row[0] for row in merged.table()]
    assert names == [
        f"{name} (pooled)" if name in merged.pooled else name for name in ("few", "less", "many")
    ]
    with pytest.warns(nacp.NoValidThresholdWarning):
        every = nacp.calibrate(PROBS, NOISY, **options, small="all")
    for name, _, threshold, coverage in every.table():
        cal = every.groups[name]
        assert (threshold == "all labels") == (name != "many") == (coverage == cal.obstacle)


def test_ten_points_are_enough_for_a_class_to_be_clustered():
    rng = np.random.default_rng(0)
    for counts, last in (([10, 30, 40], False), ([9, 30, 40], True)):
        labels = np.repeat(np.arange(3), counts)
        probs = rng.dirichlet(np.ones(3), size=len(labels)) + 2 * np.eye(3)[labels]
        probs /= probs.sum(axis=1, keepdims=True)
        found = nacp.cluster_classes(probs, labels, noise=None, clusters=1)
        assert found == {0: 1 if last else 0, 1: 0, 2: 0}


def test_a_class_without_a_threshold_says_how_many_labels_it_has():
    with pytest.warns(nacp.NoValidThresholdWarning):
        cal = nacp.calibrate(PROBS, NOISY, noise=0.2, alpha=0.1, by="class", small="all")
    assert cal.infinite
    for name in cal.infinite:
        assert f"with {np.count_nonzero(name == NOISY)} labels no smaller sets" in cal.groups[name].obstacle
