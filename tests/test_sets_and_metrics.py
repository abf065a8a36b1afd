"""Prediction sets, and what evaluate() says of them, against the definitions written out."""

import math
import statistics

import numpy as np
import pytest
from scipy.stats import binomtest

import nacp
from nacp.errors import InputError

CLASSES = ("ant", "bee", "cat", "dog", "elk")
K = len(CLASSES)
MEMBERS = [[0, 3], [], [1], [0, 1, 2, 3, 4], [], [4], [2, 4]]


def make(members, **options):
    offsets = np.cumsum([0, *map(len, members)])
    return nacp.PredictionSets(offsets, [label for row in members for label in row], **{"k": K} | options)


def random_members(n, k, seed):
    rng = np.random.default_rng(seed)
    share = rng.choice([0.0, 0.1, 0.5, 1.0], size=n)
    return [np.flatnonzero(rng.random(k) < s).tolist() for s in share]


SETS = make(MEMBERS)
NAMED = make(MEMBERS, classes=CLASSES, alpha=0.25)


def test_sets_are_what_they_were_made_of():
    assert len(SETS) == len(MEMBERS)
    assert SETS.to_lists() == list(SETS) == [SETS[i] for i in range(len(SETS))] == MEMBERS
    assert SETS.sizes.tolist() == [2, 0, 1, 5, 0, 1, 2]
    assert repr(SETS) == f"PredictionSets(n=7, k=5, mean size {11 / 7:.4g})"


def test_members_are_plain_python_numbers():
    assert {type(label) for row in SETS for label in row} == {int}


def test_names_are_used_where_there_are_names():
    named = [[CLASSES[label] for label in row] for row in MEMBERS]
    assert NAMED.to_lists() == list(NAMED) == named
    assert NAMED[3] == list(CLASSES)


def test_rows_are_counted_from_either_end():
    assert SETS[-1] == SETS[np.int64(6)] == [2, 4]
    for row in (7, -8):
        with pytest.raises(IndexError):
            SETS[row]


@pytest.mark.parametrize(
    "where",
    [
        slice(None),
        slice(2, 5),
        slice(None, None, 2),
        slice(None, None, -1),
        slice(-3, None),
        slice(5, 2),
        slice(1, 99),
    ],
    ids=str,
)
def test_slices_are_sets_again(where):
    part = NAMED[where]
    assert isinstance(part, nacp.PredictionSets)
    assert list(part) == part.to_lists() == list(NAMED)[where]
    assert part.sizes.tolist() == NAMED.sizes[where].tolist()
    assert (part.k, part.classes, part.alpha) == (K, CLASSES, 0.25)
    np.testing.assert_array_equal(np.asarray(part), np.asarray(NAMED)[where])


def test_as_an_array_they_are_a_boolean_matrix():
    matrix = np.asarray(SETS)
    assert matrix.dtype == bool
    assert matrix.tolist() == [[label in row for label in range(K)] for row in MEMBERS]
    assert np.asarray(SETS, dtype=np.float32).dtype == np.float32
    assert np.array(SETS).tolist() == matrix.tolist()
    with pytest.raises(ValueError, match="copy"):
        np.asarray(SETS, copy=False)


@pytest.mark.parametrize(("n", "k"), [(50, 2), (300, 7), (40, 1000)])
def test_contains_is_membership(n, k):
    members = random_members(n, k, seed=k)
    labels = np.random.default_rng(1).integers(k, size=n)
    expected = [label in row for row, label in zip(members, labels, strict=True)]
    sets = make(members, k=k)
    assert sets.contains(labels).tolist() == expected
    assert np.asarray(sets)[np.arange(n), labels].tolist() == expected
    names = tuple(f"class {label}" for label in range(k))
    assert make(members, k=k, classes=names).contains([names[y] for y in labels]).tolist() == expected


def test_contains_takes_names_only_where_there_are_names():
    labels = [CLASSES[y] for y in (3, 0, 1, 2, 4, 0, 4)]
    assert NAMED.contains(labels).tolist() == [True, False, True, True, False, False, True]
    with pytest.raises(ValueError, match="labels holds names such as 'dog'; pass classes="):
        SETS.contains(labels)
    assert NAMED.contains([3, 0, 1, 2, 4, 0, 4]).tolist() == NAMED.contains(labels).tolist()
    with pytest.raises(ValueError, match=r"labels must have the shape \(7,\).*found \(2,\)"):
        SETS.contains([0, 1])
    with pytest.raises(ValueError, match=r"labels must lie from 0 to 4.*found 0 to 5"):
        SETS.contains([0, 1, 2, 3, 4, 5, 0])


def test_sets_may_all_be_empty():
    empty = make([[], [], []])
    assert empty.to_lists() == [[], [], []]
    assert not np.asarray(empty).any()
    assert not empty.contains([0, 1, 2]).any()


@pytest.mark.parametrize("none", [make([]), SETS[:0], NAMED[3:3]], ids=["made", "sliced", "named"])
def test_there_may_be_no_sets_at_all(none):
    assert len(none) == 0
    assert list(none) == []
    assert none.to_lists() == []
    assert none.sizes.shape == (0,)
    assert np.asarray(none).shape == (0, K)
    assert none.contains(np.array([], dtype=int)).shape == (0,)
    assert none.contains([]).shape == (0,)
    assert repr(none) == "PredictionSets(n=0, k=5, mean size 0)"


def test_predict_set_gives_sets_with_everything_that_is_known():
    probs = np.random.default_rng(2).dirichlet(np.ones(K), size=90)
    labels = probs.argmax(axis=1)
    cal = nacp.calibrate(probs, np.take(CLASSES, labels), noise=0.1, guarantee="none", classes=CLASSES)
    sets = cal.predict_set(probs)
    assert (sets.k, sets.classes, sets.alpha) == (K, CLASSES, 0.1)
    assert sets.sizes.tolist() == np.count_nonzero(np.asarray(sets), axis=1).tolist()
    members = np.split(sets.labels, sets.offsets[1:-1])
    assert all((np.diff(row) > 0).all() for row in members), "ascending within a row"
    assert cal.predict_set(probs[:1]).to_lists() == sets.to_lists()[:1]


# Evaluation


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
    found = vars(nacp.evaluate(make(members, k=k, alpha=alpha), labels))
    assert found.pop("groups") is None
    # Sums of at most n terms of at most k: n roundings of that size.
    assert found == pytest.approx(
        by_definition(members, labels, alpha), rel=n * np.finfo(float).eps, abs=1e-15 * n
    )


def violation_of_two(covering, missing):
    """The violation of two sets of these sizes, of which one covers and the other does not."""
    members, k = [list(range(covering)), list(range(1, missing + 1))], 2000
    return nacp.evaluate(make(members, k=k), [0, 0], alpha=0.1).size_stratified_violation


@pytest.mark.parametrize(("low", "high"), [(0, 1), (2, 3), (4, 10), (11, 100), (101, 1000), (1001, 1999)])
def test_sizes_are_stratified_as_said(low, high):
    assert violation_of_two(high, low) == pytest.approx(0.4), "one stratum, half covered"
    assert high == 1999 or violation_of_two(high, high + 1) == pytest.approx(0.9), "two, one not covered"


def test_a_given_alpha_comes_before_that_of_the_sets():
    labels = [CLASSES[y] for y in (3, 0, 1, 2, 4, 0, 4)]
    numbers = [CLASSES.index(name) for name in labels]
    assert nacp.evaluate(NAMED, labels) == nacp.evaluate(SETS, numbers, alpha=0.25)
    assert nacp.evaluate(NAMED, labels, alpha=0.1) == nacp.evaluate(SETS, numbers, alpha=0.1)
    assert nacp.evaluate(NAMED, labels) != nacp.evaluate(NAMED, labels, alpha=0.1)


def test_without_alpha_there_is_nothing_to_compare_coverage_with():
    result = nacp.evaluate(SETS, [3, 0, 1, 2, 4, 0, 4])
    assert result.class_coverage_gap is None
    assert result.size_stratified_violation is None
    assert result.coverage == 4 / 7


def test_no_sets_cannot_be_evaluated():
    for none in (SETS[:0], NAMED[:0]):
        with pytest.raises(ValueError, match="sets is empty: there is nothing to evaluate"):
            nacp.evaluate(none, [])


def test_a_wrong_input_is_called_by_its_argument():
    for argument, refused in {
        "sets": lambda: nacp.evaluate([[0, 3]], [0]),
        "labels": lambda: nacp.evaluate(SETS, [0, 1]),
        "alpha": lambda: nacp.evaluate(SETS, [0] * 7, alpha=2),
        "confidence": lambda: nacp.coverage_by_class(SETS, [0] * 7, confidence=2),
        "copy": lambda: np.asarray(SETS, copy=False),
    }.items():
        with pytest.raises(InputError) as caught:
            refused()
        assert caught.value.argument == argument


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
        low, high = binomtest(int(covered[rows].sum()), int(rows.sum())).proportion_ci(0.95, "exact")
        assert (each["low"], each["high"]) == pytest.approx((low, high))
    assert found.worst_group_coverage == found.to_dict()["worst_group_coverage"]
    assert found.worst_group_coverage == min(each["coverage"] for each in found.to_dict()["groups"])
    assert "worst group coverage" in str(found)


def test_groups_of_other_lengths_are_refused():
    with pytest.raises(nacp.InputError, match=r"groups must have the shape \(2,\)"):
        nacp.evaluate(make([[0], [1]], k=2, alpha=0.1), [0, 1], groups=["a"])
