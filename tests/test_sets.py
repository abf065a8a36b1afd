"""Prediction sets: what they hold, as lists, slices, arrays and tables."""

import sys

import numpy as np
import pandas as pd
import pytest

import nacp

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.full(3, 0.5), size=600)
TRUE = (PROBS.cumsum(axis=1) > RNG.random((600, 1))).argmax(axis=1)
NOISY = nacp.UniformNoise(0.2).sample(TRUE, 3, random_state=0)
NAMES = ("cat", "dog", "owl")
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
    assert {type(label) for row in SETS for label in row} == {int}
    assert NAMED.to_lists() == list(NAMED) == [[CLASSES[label] for label in row] for row in MEMBERS]
    assert SETS.sizes.tolist() == [2, 0, 1, 5, 0, 1, 2]
    assert repr(SETS) == f"PredictionSets(n=7, k=5, mean size {11 / 7:.4g})"
    assert SETS[-1] == SETS[np.int64(6)] == [2, 4]
    for row in (7, -8):
        with pytest.raises(IndexError):
            SETS[row]


@pytest.mark.parametrize(
    "where",
    [slice(None), slice(2, 5), slice(None, None, -2), slice(-3, None), slice(5, 2), slice(1, 99)],
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
    labels = [CLASSES[y] for y in [3, 0, 1, 2, 4, 0, 4]]
    assert NAMED.contains(labels).tolist() == [True, False, True, True, False, False, True]
    for wrong, words in (
        (labels, "labels holds names such as 'dog'; pass classes="),
        ([0, 1], r"labels must have the shape \(7,\).*found \(2,\)"),
        ([0, 1, 2, 3, 4, 5, 0], r"labels must lie from 0 to 4.*found 0 to 5"),
    ):
        with pytest.raises(ValueError, match=words):
            SETS.contains(wrong)


def test_there_may_be_no_sets_at_all():
    for none in (make([]), SETS[:0], NAMED[3:3]):
        assert list(none) == none.to_lists() == none.contains([]).tolist() == none.sizes.tolist() == []
        assert np.asarray(none).shape == (0, K)
        assert repr(none) == "PredictionSets(n=0, k=5, mean size 0)"


def test_sets_are_a_table():
    cal = nacp.calibrate(PROBS, np.take(NAMES, NOISY), noise=0.2, guarantee="none", classes=NAMES)
    sets = cal.predict_set(PROBS)
    table = sets.to_frame()
    assert table["labels"].tolist() == sets.to_lists()
    assert table["size"].tolist() == sets.sizes.tolist()
    assert len(cal.predict_set(PROBS[:0]).to_frame()) == 0
    # Beside the rows that were kept of a larger table.
    kept = pd.DataFrame(PROBS, columns=NAMES)[::3]
    joined = kept.join(cal.predict_set(kept).to_frame(index=kept.index))
    assert joined["labels"].tolist() == sets[::3].to_lists()
    with pytest.raises(nacp.InputError, match="index must have 600 entries, one for each set; found 200"):
        sets.to_frame(index=kept.index)


def test_names_with_commas_are_told_apart():
    sets = nacp.PredictionSets([0, 2, 4], [0, 1, 1, 2], k=3, classes=("Cod, Pacific", "Hake", "Ling"))
    html = sets._repr_html_()
    assert "Cod, Pacific; Hake" in html
    assert "Hake, Ling" in html


@pytest.mark.parametrize(
    "sets", [SETS, NAMED, make([[], []]), SETS[:0]], ids=["numbers", "names", "empty", "none"]
)
def test_arrow_programs_read_sets_with_the_empty_ones(sets):
    duckdb, polars, pyarrow = (pytest.importorskip(each) for each in ("duckdb", "polars", "pyarrow"))
    wanted = [{"size": len(row), "labels": row} for row in sets.to_lists()]
    assert pyarrow.table(sets).to_pylist() == wanted
    assert polars.DataFrame(sets).to_dicts() == wanted
    found = duckdb.sql("select size, labels from sets").fetchall()
    assert [{"size": size, "labels": labels} for size, labels in found] == wanted


def test_class_names_that_are_no_strings_are_written_as_strings():
    pyarrow = pytest.importorskip("pyarrow")
    sets = nacp.PredictionSets([0, 2], [0, 1], k=2, classes=(True, "yes"))
    assert pyarrow.table(sets)["labels"].to_pylist() == [["True", "yes"]]


def test_without_pyarrow_an_arrow_table_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'need pyarrow; pip install "nacp\[io\]"'):
        SETS.__arrow_c_array__()
