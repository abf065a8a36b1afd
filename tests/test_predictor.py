"""One row at a time: what predict_set returns for it, or the same error."""

import re

import numpy as np
import pytest

import nacp
from nacp.paper import twins

SCORES = ["hps", "aps", "raps", "saps", "margin", "topk", nacp.APS(randomized=False), np.negative]


@pytest.fixture(scope="module")
def points():
    return twins.simulate("cifar10", n=400, random_state=0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("score", SCORES, ids=str)
def test_the_set_of_a_row_is_that_of_predict_set(every_engine, score, dtype, points):
    probs, labels = points[0].astype(dtype), points[1]
    cal = nacp.calibrate(probs[:350], labels[:350], score=score, alpha=0.4, noise=None)
    for empty in (True, False):
        predict = cal.predictor(allow_empty=empty)
        sets = cal.predict_set(probs[350:], allow_empty=empty)
        assert [predict(row) for row in probs[350:]] == sets.to_lists()
        assert predict(probs[350].tolist()) == sets[0]


@pytest.mark.parametrize("option", ["classes", "normalize", "from_logits"])
def test_names_gaps_and_rows_that_are_not_probabilities(option, points):
    probs, labels = points[0].astype(np.float64), points[1]
    given = {"classes": tuple("abcdefghij"), "normalize": True, "from_logits": True}[option]
    rows = np.log(probs) if option == "from_logits" else probs
    labels = np.array(given)[labels] if option == "classes" else labels
    cal = nacp.calibrate(rows, labels, noise=None, score="aps", **{option: given})
    sets = cal.predict_set(rows).to_lists()
    assert [cal.predictor()(row) for row in rows] == sets
    assert cal.predictor()(np.repeat(rows[3], 2)[::2]) == sets[3]
    if option == "from_logits":
        with pytest.raises(nacp.InputError, match="must hold logits"):
            cal.predict_set(probs)


def test_a_row_of_a_table_and_of_a_dask_array(points):
    pandas, arrays = pytest.importorskip("pandas"), pytest.importorskip("dask.array")
    probs, labels = points
    table = pandas.DataFrame(probs, columns=list("abcdefghij"))
    cal = nacp.calibrate(table, table.columns[labels], noise=None, alpha=0.02)
    expected = cal.predict_set(table)[3]
    for row in (table.iloc[3], table.iloc[3][list("jihgfedcba")], arrays.from_array(probs)[3]):
        assert cal.predictor()(row) == expected


@pytest.mark.parametrize("wrong", [np.full(10, np.nan), np.full(10, 0.2), np.full(9, 1 / 9), np.eye(10), 0.5])
def test_a_wrong_row_is_refused_as_predict_set_refuses_it(wrong, points):
    cal = nacp.calibrate(*points, noise=None)
    wrong = np.asarray(wrong, dtype=np.float32)
    with pytest.raises(nacp.InputError) as usual:
        cal.predict_set(wrong[None])
    with pytest.raises(nacp.InputError, match=re.escape(str(usual.value))):
        cal.predictor()(wrong)


def test_a_threshold_for_each_group_is_not_one(points):
    probs, labels = points
    cal = nacp.calibrate(probs, labels, noise=None, groups=np.arange(len(labels)) % 2)
    with pytest.raises(nacp.InputError, match="has a threshold for each group"):
        nacp.Predictor(cal)
    assert nacp.Predictor(cal.groups[1])(probs[0]) == cal.predict_set(probs[:1], groups=[1])[0]
