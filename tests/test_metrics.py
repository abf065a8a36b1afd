"""`evaluate` and `coverage_by_class`, against the definitions written out."""

import json
import math
import statistics
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import nacp
from tests.test_sets import CLASSES, NAMED, NOISY, PROBS, SETS, TRUE, make, random_members


def result(hits, m):
    return nacp.evaluate(nacp.PredictionSets(range(m + 1), [0] * m, k=2), [0] * hits + [1] * (m - hits))


def by_definition(members, labels, alpha):
    """The metrics from their definitions, in plain Python."""
    covered = [label in row for row, label in zip(members, labels, strict=True)]
    sizes = [len(row) for row in members]
    n = len(members)

    def coverage_where(keep):
        hits = [c for c, kept in zip(covered, keep, strict=True) if kept]
        return sum(hits) / len(hits) if hits else None

    classes = [coverage_where([y == c for y in labels]) for c in sorted(set(labels))]
    bounds = [(0, 1), (2, 3), (4, 10), (11, 100), (101, 1000), (1001, math.inf)]
    strata = [coverage_where([low <= size <= high for size in sizes]) for low, high in bounds]
    return {
        "n": n,
        "coverage": sum(covered) / n,
        "mean_size": sum(sizes) / n,
        "median_size": statistics.median(sizes),
        "empty": sizes.count(0) / n,
        "singleton": sizes.count(1) / n,
        "worst_class_coverage": min(classes),
        "class_coverage_gap": sum(abs(c - (1 - alpha)) for c in classes) / len(classes),
        "size_stratified_violation": max(abs(s - (1 - alpha)) for s in strata if s is not None),
        "size_error": statistics.stdev(sizes) / math.sqrt(n) if n > 1 else math.inf,
    }


@pytest.mark.parametrize("alpha", [0.05, 0.3])
@pytest.mark.parametrize(("n", "k"), [(1, 2), (50, 2), (301, 7), (60, 150), (40, 1500)])
def test_the_metrics_are_their_definitions(n, k, alpha):
    members = random_members(n, k, seed=n)
    labels = np.random.default_rng(n + 1).integers(k, size=n).tolist()
    found, wanted = (
        nacp.evaluate(make(members, k=k, alpha=alpha), labels),
        by_definition(members, labels, alpha),
    )
    assert found.groups is None
    # Sums of at most n terms of at most k: n roundings of that size.
    found = {name: getattr(found, name) for name in wanted}
    assert found == pytest.approx(wanted, rel=n * np.finfo(float).eps, abs=1e-15 * n)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (2, 3), (4, 10), (11, 100), (101, 1000), (1001, 1999)])
def test_sizes_are_stratified_as_said(low, high):
    def violation_of_two(covering, missing):
        """The violation of two sets of these sizes, of which one covers and the other does not."""
        members = [list(range(covering)), list(range(1, missing + 1))]
        return nacp.evaluate(make(members, k=2000), [0, 0], alpha=0.1).size_stratified_violation

    assert violation_of_two(high, low) == pytest.approx(0.4), "one stratum, half covered"
    assert high == 1999 or violation_of_two(high, high + 1) == pytest.approx(0.9), "two, one not covered"


def test_a_given_alpha_comes_before_that_of_the_sets():
    labels = [CLASSES[y] for y in (3, 0, 1, 2, 4, 0, 4)]
    numbers = [CLASSES.index(name) for name in labels]
    assert nacp.evaluate(NAMED, labels) == nacp.evaluate(SETS, numbers, alpha=0.25)
    assert nacp.evaluate(NAMED, labels, alpha=0.1) == nacp.evaluate(SETS, numbers, alpha=0.1)
    assert nacp.evaluate(NAMED, labels) != nacp.evaluate(NAMED, labels, alpha=0.1)
    without = nacp.evaluate(SETS, numbers)
    assert (without.class_coverage_gap, without.size_stratified_violation) == (None, None)


def test_no_sets_cannot_be_evaluated():
    for none in (SETS[:0], NAMED[:0]):
        with pytest.raises(ValueError, match="sets is empty: there is nothing to evaluate"):
            nacp.evaluate(none, [])


@pytest.mark.parametrize("as_mapping", [True, False])
def test_the_coverage_of_groups_is_that_of_their_points(as_mapping):
    members = random_members(300, 6, seed=1)
    sets, rng = make(members, k=6, alpha=0.1), np.random.default_rng(2)
    labels = rng.integers(6, size=300)
    mapping = {0: "low", 1: "low", 2: "high", 3: "high", 4: "high", 5: "alone"}
    of_rows = [mapping[label] for label in labels.tolist()]
    found = nacp.evaluate(sets, labels, groups=mapping if as_mapping else of_rows)
    covered = sets.contains(labels)
    for each in found.groups.worst(3):
        rows = np.array(of_rows) == each["group"]
        assert (each["coverage"], each["count"]) == (covered[rows].mean(), rows.sum())
        low, high = stats.binomtest(int(covered[rows].sum()), int(rows.sum())).proportion_ci(0.95, "exact")
        assert (each["low"], each["high"]) == pytest.approx((low, high))
    assert found.worst_group_coverage == found.to_dict()["worst_group_coverage"]
    assert found.worst_group_coverage == min(each["coverage"] for each in found.to_dict()["groups"])
    assert "worst group coverage" in str(found)


@pytest.mark.parametrize("m", [30, 200, 1000])
def test_the_exact_interval_misses_the_coverage_on_neither_side_more_than_it_may(m):
    hits = np.arange(m + 1)
    low, high = np.array([result(h, m).coverage_interval for h in hits]).T
    for coverage in (0.5, 0.9, 0.97):
        chance = stats.binom.pmf(hits, m, coverage)
        assert chance[high < coverage].sum() <= 0.025
        assert chance[low > coverage].sum() <= 0.025
    assert low[0] == 0
    assert high[-1] == 1


def test_an_evaluation_is_a_dictionary_that_json_takes():
    cal = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none")
    found = nacp.evaluate(cal.predict_set(PROBS), TRUE)
    told = json.loads(json.dumps(found.to_dict()))
    assert told["coverage"] == found.coverage
    assert tuple(told["coverage_interval"]) == found.coverage_interval
    assert tuple(told["size_interval"]) == found.size_interval
    ends = found.mean_size + 1.96 * found.size_error * np.array([-1, 1])
    assert found.size_interval == pytest.approx(tuple(ends), rel=1e-4)
    assert pd.DataFrame([found.to_dict()]).loc[0, "mean_size"] == found.mean_size


# From noisy labels and from checked ones: a population of 40 inputs, each with its set and the probabilities
# of its true label. So the coverage is known.

_RNG = np.random.default_rng(7)
_TRUE_PROBS = _RNG.dirichlet(np.full(5, 0.4), size=40)
_MEMBERS = [sorted(set(_RNG.choice(5, size=2)) | {int(p.argmax())}) for p in _TRUE_PROBS]
_COVERED = np.array([p[m].sum() for p, m in zip(_TRUE_PROBS, _MEMBERS, strict=True)])
_MATRIX = 0.7 * np.eye(5) + 0.3 * np.roll(np.eye(5), 1, axis=1)
_OTHER = np.array([[0.68, 0.26, 0.02, 0.02, 0.02], *_MATRIX[1:]])


def drawn(n, rng):
    """Inputs, their sets and their true labels."""
    x = rng.integers(40, size=n)
    y = (_TRUE_PROBS[x].cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return x, make([_MEMBERS[i] for i in x], k=5), y


def by_matrix(P):
    return lambda x, y, rng: (P[y].cumsum(axis=1) > rng.random((len(y), 1))).argmax(axis=1)


def hard(x, y, rng):
    """People err where the set misses: noise that depends on the input."""
    wrong = rng.random(len(y)) < np.where(_COVERED[x] > 0.7, 0.0, 0.6)
    return np.where(wrong, rng.integers(5, size=len(y)), y)


_UNIFORM = by_matrix(nacp.UniformNoise(0.3).matrix(5).dense())
_CASES = {
    "uniform": (_UNIFORM, {"noise": 0.3}),
    "matrix": (by_matrix(_MATRIX), {"noise": _MATRIX}),
    "lower end": (_UNIFORM, {"noise": nacp.UniformNoise(0.35, interval=(0.3, 0.4))}),
    "upper end": (_UNIFORM, {"noise": nacp.UniformNoise(0.25, interval=(0.2, 0.3))}),
    "radius": (by_matrix(_OTHER), {"noise": nacp.MatrixNoise(_MATRIX, radius=0.06)}),
    "true": (lambda x, y, rng: y, {}),
    "checked": (hard, {"clean": 150}),
    "by site": (None, {"noise": {"a": 0.1, "b": _MATRIX}}),
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.slow if "end" in case else ()) for case in _CASES],
)
def test_the_interval_of_coverage_holds_as_often_as_it_says(case):
    noise, options = _CASES[case]
    rng, runs, n, missed, widths = np.random.default_rng(3), 200, 400, 0, []
    for _ in range(runs):
        x, sets, y = drawn(n, rng)
        given = dict(options)
        if noise is None:
            sites = rng.integers(2, size=n)
            given["noise_groups"] = np.array(["a", "b"])[sites]
            low, high = by_matrix(nacp.UniformNoise(0.1).matrix(5).dense()), by_matrix(_MATRIX)
            noisy = np.where(sites == 0, low(x, y, rng), high(x, y, rng))
        else:
            noisy = noise(x, y, rng)
        if "clean" in given:
            rows = rng.choice(n, size=given["clean"], replace=False)
            given["clean"] = rows, y[rows]
        found = nacp.evaluate(sets, noisy, **given)
        low, high = found.coverage_interval
        assert low <= found.coverage <= high
        missed += not low <= _COVERED.mean() <= high
        widths.append(high - low)
    # Three standard errors of a share of 0.05; and the interval is no formality.
    assert missed / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    assert np.mean(widths) < 0.5


def test_the_interval_from_noisy_labels_is_about_as_long_as_the_normal_one():
    rng = np.random.default_rng(4)
    x, sets, y = drawn(4000, rng)
    noisy = by_matrix(_MATRIX)(x, y, rng)
    inverse = np.linalg.inv(_MATRIX)
    shares = [inverse[label, row].sum() for label, row in zip(noisy, sets, strict=True)]
    found = nacp.evaluate(sets, noisy, noise=_MATRIX)
    assert found.coverage == pytest.approx(np.mean(shares))
    low, high = found.coverage_interval
    assert 0.9 < (high - low) / (2 * 1.96 * np.std(shares) / math.sqrt(4000)) < 1.1


def test_an_assumed_noise_model_is_wrong_where_people_err_at_hard_points_and_checked_labels_are_not():
    rng = np.random.default_rng(5)
    x, sets, y = drawn(20_000, rng)
    noisy, rows = hard(x, y, rng), rng.choice(20_000, size=5000, replace=False)
    rate = (noisy != y).mean() * 5 / 4
    low, high = nacp.evaluate(sets, noisy, noise=rate).coverage_interval
    assert not low <= _COVERED.mean() <= high
    low, high = nacp.evaluate(sets, noisy, clean=(rows, y[rows])).coverage_interval
    assert low <= _COVERED.mean() <= high


# Peaked probabilities, so that few points are doubtful, and sets that miss more often there.
_PEAKED = _TRUE_PROBS**1.5 / (_TRUE_PROBS**1.5).sum(axis=1, keepdims=True)
_HELD = _PEAKED > 0.25


def audited(n, rng, **options):
    """Points, sets and labels of which people give wrong ones at doubtful points; and a plan of checks."""
    x = rng.integers(40, size=n)
    y = (_PEAKED[x].cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    wrong = rng.random(n) < np.where(_PEAKED[x].max(axis=1) > 0.8, 0.02, 0.3)
    noisy = np.where(wrong, rng.integers(5, size=n), y)
    plan = nacp.choose_audit(_PEAKED[x], noisy, alpha=0.2, **options)
    return x, make([np.flatnonzero(held).tolist() for held in _HELD[x]], k=5), y, plan


def test_chosen_checks_give_an_unbiased_estimate_and_intervals_that_hold():
    rng, runs, budget = np.random.default_rng(9), 300, 150
    kinds, of_first = {0: "one", 1: "one", 2: "two", 3: "two", 4: "two"}, np.arange(5) < 2
    covered, shares = (_PEAKED * _HELD), (of_first, ~of_first)
    truth = np.array(
        [
            covered.sum() / 40,
            *(covered[:, some].sum() / _PEAKED[:, some].sum() for some in shares),
            *covered.sum(axis=1).reshape(2, 20).mean(axis=1),
        ]
    )
    found, plain, widths, missed = [], [], [], np.zeros(5)
    for run in range(runs):
        x, sets, y, plan = audited(1000, rng, budget=budget, random_state=run, looks=1 + run % 2)
        given = {"clean": (plan.rows, y[plan.rows]), "audit": plan}
        by_class, by_row = (nacp.evaluate(sets, None, groups=each, **given) for each in (kinds, x >= 20))
        found.append(by_class.coverage)
        plain.append(nacp.evaluate(sets, None, clean=given["clean"]).coverage)
        sides = [np.array([each.groups.low, each.groups.high]) for each in (by_class, by_row)]
        low, high = np.column_stack([by_class.coverage_interval, *sides])
        missed += (truth < low) | (truth > high)
        widths.append(high - low)
    error = np.std(found) / math.sqrt(runs)
    assert abs(np.mean(found) - truth[0]) <= 3 * error
    assert abs(np.mean(plain) - truth[0]) > 10 * error, "without the plan it would be far off"
    assert (missed / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)).all()
    random = 2 * 1.96 * math.sqrt(truth[0] * (1 - truth[0]) / budget)
    assert np.mean(widths, axis=0)[0] < random, "a random audit of as many labels says less"


def test_an_audit_that_does_not_fit_gets_one_sentence():
    _, sets, y, plan = audited(1000, np.random.default_rng(10), budget=150, looks=2)
    clean, first = (plan.rows, y[plan.rows]), plan.instalments[0]
    found = nacp.evaluate(sets, None, clean=(first, y[first]), audit=plan)
    assert (found.basis, found.labelled) == ("75 checked labels of an audit plan", None)
    partial = plan.rows[:80]  # labels of an instalment count when it is complete
    assert nacp.evaluate(sets, None, clean=(partial, y[partial]), audit=plan) == found
    for given, said in (
        ({"audit": plan}, "audit needs clean"),
        ({"audit": 5, "clean": clean}, "audit must be what nacp.choose_audit returned"),
        ({"audit": plan, "clean": (first[1:], y[first[1:]])}, "lacks 1 row of the first instalment"),
        ({"audit": plan, "clean": y}, "which the audit did not choose"),
        ({"audit": plan, "clean": clean, "noise": 0.2}, "noise has no effect"),
    ):
        with pytest.raises(nacp.InputError, match=said):
            nacp.evaluate(sets, y, **given)
    with pytest.raises(nacp.InputError, match="was chosen from other points than these"):
        nacp.evaluate(sets[:-1], None, clean=(first[:1], y[first[:1]]), audit=plan)


def test_labels_that_contradict_the_noise_model_are_reported():
    rng = np.random.default_rng(8)
    _, sets, y = drawn(2000, rng)
    with pytest.warns(nacp.NoiseModelWarning, match=r"rate 0\.7: the estimated coverage is .* above 100%"):
        nacp.evaluate(sets, y, noise=0.7)  # the labels are true
    outside = [min(set(range(5)) - set(row)) for row in sets.to_lists()]
    with pytest.warns(nacp.NoiseModelWarning, match="below 0%"):
        nacp.evaluate(sets, outside, noise=0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (3, 20, 2000):  # A few labels contradict nothing.
            noisy = nacp.UniformNoise(0.4).sample(y[:n], 5, random_state=n)
            nacp.evaluate(sets[:n], noisy, noise=0.4)
            nacp.evaluate(sets[:n], noisy, noise=nacp.UniformNoise(0.4, interval=(0.1, 0.45)))


def test_groups_and_classes_are_estimated_from_noisy_labels():
    rng, runs, missed = np.random.default_rng(6), 100, np.zeros(2)
    kinds = {0: "one", 1: "one", 2: "two", 3: "two", 4: "two"}
    number = np.array([0, 0, 1, 1, 1])
    mass = np.stack([_TRUE_PROBS[:, number == g].sum() for g in (0, 1)])
    held = np.zeros(2)
    for p, members in zip(_TRUE_PROBS, _MEMBERS, strict=True):
        np.add.at(held, number[members], p[members])
    for _ in range(runs):
        x, sets, y = drawn(500, rng)
        noisy = by_matrix(_MATRIX)(x, y, rng)
        found = nacp.evaluate(sets, noisy, noise=_MATRIX, groups=kinds)
        truth = held / mass
        missed += (truth < found.groups.low) | (truth > found.groups.high)
        by_rows = nacp.evaluate(sets, noisy, noise=_MATRIX, groups=x < 20).groups
    assert (missed / runs <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / runs)).all()
    for group, rows in enumerate((x >= 20, x < 20)):
        alone = nacp.evaluate(sets[rows], noisy[rows], noise=_MATRIX)
        assert (by_rows.low[group], by_rows.high[group]) == alone.coverage_interval
    assert found.worst_class_coverage is not None
    assert (found.class_coverage_gap, found.size_stratified_violation) == (None, None)
