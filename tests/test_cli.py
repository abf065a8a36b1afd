"""The command `nacp`, but for `nacp reproduce`, which has tests of its own."""

import csv
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app

run = CliRunner().invoke
NAMES = ["ant", "bee", "cat", "dog"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The same points as .npy, .npz and .csv with a header, labels as numbers and as names."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    true = rng.integers(4, size=2000)
    probs = rng.dirichlet(np.full(4, 0.5), size=2000) + 3 * np.eye(4)[true] * rng.random((2000, 1))
    probs /= probs.sum(axis=1, keepdims=True)
    noisy = nacp.UniformNoise(0.2).sample(true, 4, rng)
    np.save("probs.npy", probs[:1000])
    np.save("labels.npy", noisy[:1000])
    np.savez("test.npz", probs=probs[1000:], labels=true[1000:], other=noisy[1000:])
    with open("probs.csv", "w", newline="") as file:
        csv.writer(file).writerows([NAMES, *probs[:1000].tolist()])
    with open("names.csv", "w", newline="") as file:
        csv.writer(file).writerows([["animal"], *([NAMES[i]] for i in noisy[:1000])])
    with open("truth.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "animal"], *([i, NAMES[j]] for i, j in enumerate(true[1000:]))])
    (tmp_path / "empty.npy").touch()
    (tmp_path / "empty.csv").touch()
    return probs, true, noisy


def done(*arguments, code=0):
    result = run(app, list(arguments))
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.mark.parametrize(("probs", "labels"), [("probs.npy", "labels.npy"), ("probs.csv", "names.csv")])
def test_calibrate_predict_and_evaluate_do_what_the_functions_do(files, probs, labels):
    matrix, true, noisy = files
    said = done("calibrate", probs, labels, "--noise", "0.2", "--score", "raps", "-o", "cal.json")
    cal = nacp.calibrate(matrix[:1000], noisy[:1000], noise=0.2, score="raps")
    assert cal.promise in said
    assert nacp.load("cal.json").threshold == cal.threshold
    sets = cal.predict_set(matrix[1000:])
    named = labels == "names.csv"
    for ending in ("jsonl", "csv", "npz"):
        done("predict", "cal.json", "test.npz", "-o", f"sets.{ending}")
    with open("sets.jsonl") as file:
        read = [json.loads(line) for line in file]
    assert read == [[NAMES[i] for i in row] if named else row for row in sets]
    with open("sets.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["row", "label"]
    assert [row[1] for row in rows[1:]] == [str(label) for row in read for label in row]
    with np.load("sets.npz") as file:
        assert file["labels"].tolist() == sets.labels.tolist()
    said = done("evaluate", "cal.json", "test.npz:probs", "truth.csv" if named else "test.npz")
    assert "pass" in said
    assert f"{nacp.evaluate(sets, true[1000:]).coverage:.6g}" in said


def test_named_columns_in_another_order_are_the_same_classes(files):
    done("calibrate", "probs.csv", "names.csv", "--noise", "0.2")
    done("predict", "cal.json", "probs.csv", "-o", "a.jsonl")
    with open("probs.csv", newline="") as file:
        rows = [row[::-1] for row in csv.reader(file)]
    with open("turned.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    done("predict", "cal.json", "turned.csv", "-o", "b.jsonl")
    with open("a.jsonl") as a, open("b.jsonl") as b:
        assert a.read() == b.read()
    rows[0][0] = "emu"
    with open("other.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    assert "'emu'" in done("predict", "cal.json", "other.csv", code=2)


def test_a_name_that_is_a_class_is_no_header(files):
    done("calibrate", "probs.csv", "names.csv", "--noise", "0.2")
    with open("many.csv", "w", newline="") as file:
        csv.writer(file).writerows([[NAMES[i % 4]] for i in range(1001)])
    assert "labels must have the shape (1000,)" in done(
        "calibrate", "probs.csv", "many.csv", "--noise", "0.2", code=2
    )


def test_numbers_may_be_a_header(files):
    probs, _, noisy = files
    two = probs[:1000, :2] / probs[:1000, :2].sum(axis=1, keepdims=True)
    for name, rows in {
        "two.csv": [[0, 1], *two.tolist()],
        "y.csv": [[0], *([i % 2] for i in noisy[:1000])],
    }.items():
        with open(name, "w", newline="") as file:
            csv.writer(file).writerows(rows)
    assert "from 1000 noisy labels" in done("calibrate", "two.csv", "y.csv", "--noise", "0.2")


def test_numbers_beside_named_columns_are_their_places(files):
    done("calibrate", "probs.csv", "labels.npy", "--noise", "0.2", "-o", "a.json")
    done("calibrate", "probs.csv", "names.csv", "--noise", "0.2", "-o", "b.json")
    assert nacp.load("a.json") == nacp.load("b.json")


def test_sets_that_cover_too_little_fail(files):
    done("calibrate", "probs.npy", "labels.npy", "--noise", "0.6", "--guarantee", "none")
    assert "fail" in done("evaluate", "cal.json", "test.npz", "test.npz", code=1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["calibrate", "none.npy", "labels.npy", "--noise", "0.2"], "none.npy"),
        (["calibrate", "probs.txt", "labels.npy", "--noise", "0.2"], "must end in .npy, .npz, .csv"),
        (["calibrate", "labels.npy", "probs.npy", "--noise", "0.2"], "the arguments look swapped"),
        (
            ["calibrate", "test.npz:more", "labels.npy", "--noise", "0.2"],
            "holds no 'more', but probs, labels",
        ),
        (["calibrate", "probs.npy", "test.npz:other", "--noise", "2"], "noise rate must lie in [0, 1)"),
        (["calibrate", "names.csv", "names.csv", "--noise", "0.2"], "one number per cell"),
        (["predict", "probs.npy", "probs.npy"], "probs.npy"),
        (["calibrate", "empty.npy", "labels.npy", "--noise", "0.2"], "empty.npy is empty"),
        (["calibrate", "probs.csv", "empty.csv", "--noise", "0.2"], "empty.csv is empty"),
        (
            ["predict", "cal.json", "probs.npy", "-o", "sets.xml"],
            "must end in .parquet, .jsonl, .csv or .npz",
        ),
    ],
)
def test_a_wrong_file_gets_one_sentence(files, arguments, words):
    done("calibrate", "probs.npy", "labels.npy", "--noise", "0.2")
    said = done(*arguments, code=2)
    assert said.startswith("Error: ")
    assert words in said
    assert len(said.strip().splitlines()) == 1


def test_plan_prints_what_the_function_finds():
    result = run(
        app, ["plan", "--classes", "100", "--noise", "0.2", "--points", "5000", "--max-correction", "0.02"]
    )
    assert result.exit_code == 0
    assert result.output.strip() == str(nacp.plan(k=100, noise=0.2, n=5000, excess=0.02))
    # The paper's correction at delta = .05, written out.
    paper = math.sqrt(math.log(4 / 0.05) / (2 * 5000 * (0.8 / 1.2) ** 2))
    assert f"{paper:.2g}" in next(line for line in result.output.splitlines() if line.startswith("nacp"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--classes", "100", "--noise", "1.5"], "noise rate must lie in [0, 1); found 1.5"),
        (["--classes", "1", "--noise", "0.1"], "k must be at least 2"),
    ],
)
def test_a_wrong_option_gets_one_sentence(options, words):
    result = run(app, ["plan", *options])
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


def test_every_command_explains_itself():
    assert run(app, ["--help"]).exit_code == 0
    for name in ("calibrate", "predict", "evaluate", "plan", "demo", "reproduce"):
        result = run(app, [name, "--help"])
        assert result.exit_code == 0
        assert len(result.output.splitlines()) > 3
