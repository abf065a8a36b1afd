"""``nacp evaluate``: the verdict first, from true, noisy or partly checked labels."""

import numpy as np
import pytest

import nacp
from tests.cli.command_line import classified, done, fill, plain, printed_json, write

K, N = 4, 3000
PROBS, TRUE, NOISY = classified(N, K, noise=0.3)
CAL, TEST = slice(0, 1000), slice(1000, N)
CHECKED = np.arange(300)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("probs.npy", PROBS[TEST])
    np.save("noisy.npy", NOISY[TEST])
    np.save("true.npy", TRUE[TEST])
    write("checked.csv", [["label"], *([y] for y in TRUE[TEST][:300]), *([-1] for _ in range(1700))])
    sites = ["a", "b"] * 1000
    write("sites.csv", [["site"], *([site] for site in sites)])
    nacp.calibrate(PROBS[CAL], NOISY[CAL], noise=0.3).save("cal.json")
    nacp.calibrate(PROBS[CAL], NOISY[CAL], noise=0.3, by="class", small="all").save("classes.json")


def sets():
    return nacp.load("cal.json").predict_set(PROBS[TEST])


def test_noisy_labels_that_are_taken_as_true_fail_with_a_hint_and_pass_with_their_noise():
    said = plain(done("evaluate", "cal.json", "probs.npy", "noisy.npy", code=1))
    assert said.startswith("fail: 90% or more was to be reached")
    assert "If some of these labels may be wrong, evaluate with noise= or clean= (--noise or --clean)" in said
    said = plain(done("evaluate", "cal.json", "probs.npy", "--clean", "noisy.npy", code=1))
    assert "may be wrong" not in said
    said = plain(done("evaluate", "cal.json", "probs.npy", "noisy.npy", "--noise", "0.3"))
    assert said.startswith("pass: ")
    assert "by 2,000 noisy labels (uniform label noise" in said


@pytest.mark.parametrize("labels", [["noisy.npy"], []])
def test_checked_labels_are_those_of_the_function(labels):
    found = printed_json("evaluate", "cal.json", "probs.npy", *labels, "--clean", "checked.csv")
    wanted = nacp.evaluate(sets(), None, clean=(CHECKED, TRUE[TEST][:300]))
    assert found["coverage_interval"] == list(wanted.coverage_interval)
    assert found["verdict"]["basis"] == wanted.basis == "300 checked labels"
    assert (found["n"], found["mean_size"]) == (2000, sets().sizes.mean())


@pytest.mark.parametrize("groups", [{}, {"groups": np.array(["a", "b"] * 500)}])
def test_a_contradicted_calibration_does_not_pass(groups):
    with pytest.warns(nacp.NoiseModelWarning):
        nacp.calibrate(PROBS[CAL], NOISY[CAL][::-1], noise=0.3, **groups).save("turned.json")
    by = ("--groups", "sites.csv:site") if groups else ()
    said = plain(done("evaluate", "turned.json", "probs.npy", "true.npy", *by, code=3))
    assert "no better than labels in random order" in said
    assert "no pass: 90% or more was to be reached" in said
    assert "its labels contradict what the promise assumes" in said


def test_noise_options_and_groups_are_those_of_the_function():
    options = ("--noise", "0.3", "--noise-interval", "0.25", "0.35", "--noise-confidence", "0.98")
    found = printed_json(
        "evaluate", "cal.json", "probs.npy", "noisy.npy", *options, "--groups", "sites.csv:site"
    )
    noise = nacp.UniformNoise(0.3, (0.25, 0.35), 0.98)
    wanted = nacp.evaluate(sets(), NOISY[TEST], noise=noise, groups=np.array(["a", "b"] * 1000))
    assert found["groups"] == wanted.to_dict()["groups"]
    assert found["confidence"] == wanted.confidence == pytest.approx(0.93)


def test_thresholds_by_class_are_judged_on_noisy_labels():
    found = printed_json("evaluate", "classes.json", "probs.npy", "noisy.npy", "--noise", "0.3")
    assert found["verdict"]["passed"]
    assert {each["group"] for each in found["groups"]} == {0, 1, 2, 3}
    of_classes = nacp.load("classes.json").predict_set(PROBS[TEST])
    wanted = nacp.coverage_by_class(of_classes, NOISY[TEST], noise=0.3)
    assert sorted(each["coverage"] for each in found["groups"]) == sorted(wanted.coverage.tolist())


def test_too_few_or_too_many_labels_get_a_sentence():
    evaluate = ("evaluate", "cal.json", "probs.npy")
    assert "LABELS must be given; or --clean FILE" in done(*evaluate, code=2)
    assert "has no effect" in done(*evaluate, "noisy.npy", "--noise", "0.3", "--clean", "checked.csv", code=2)


def test_chosen_checks_are_weighted_as_by_the_function():
    points = ("probs.npy", "noisy.npy")
    done("audit", "choose", *points, "--budget", "200")
    plan = nacp.choose_audit(PROBS[TEST], NOISY[TEST], budget=200)
    truth = {row: TRUE[TEST][row] for row in plan.rows.tolist()}
    fill(truth)
    given = {"clean": (plan.rows, TRUE[TEST][plan.rows]), "audit": plan}
    wanted = nacp.evaluate(sets(), None, **given)
    assert wanted.coverage != nacp.evaluate(sets(), None, clean=given["clean"]).coverage
    said = "filled.csv was written by nacp audit choose, which did not choose its rows at random; give"
    for clean in ("filled.csv", "filled.csv:checked"):
        assert said in done("calibrate", *points, "--clean", clean, code=2)
    audit = ("--audit", "filled.csv")
    found = printed_json("evaluate", "cal.json", *points, *audit, code=None)
    assert found["coverage_interval"] == list(wanted.coverage_interval)
    assert found["verdict"]["basis"] == wanted.basis == "200 checked labels of an audit plan"
    same = "these look like the points and the checked labels of the calibration"
    done("calibrate", *points, *audit, "-o", "checked.json")
    assert same in done("evaluate", "checked.json", *points, *audit)
    assert same not in done("evaluate", "cal.json", *points, *audit, code=1)
    clean = (*points, "--clean", "checked.csv")
    done("calibrate", *clean, "-o", "checked.json")
    assert same in done("evaluate", "checked.json", *clean)
    assert same not in done("evaluate", "cal.json", *clean)
    for words, arguments in {
        "LABELS must be given: the audit was chosen by them": ["probs.npy", *audit],
        "plan.json was chosen from other points than these": ["probs.npy", "true.npy", *audit],
        "--noise has no effect": [*points, *audit, "--noise", "0.3"],
    }.items():
        assert words in done("evaluate", "cal.json", *arguments, code=2)
    for command in (["calibrate"], ["evaluate", "cal.json"], ["diagnose", "cal.json"]):
        fill(truth)
        assert "give one of them" in done(*command, *points, *audit, "--clean", "checked.csv", code=2)
        fill({row: truth[row] for row in plan.rows[~plan.outside].tolist()})
        said = done(*command, *points, *audit, code=2)
        assert "filled.csv has no label of a point that lies outside" in said
