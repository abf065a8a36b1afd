"""The command `nacp`, but for `nacp reproduce`, which has tests of its own."""

import csv
import io
import json
import math
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import nacp
from nacp.cli import app, demo
from nacp.cli.errors import Commands
from nacp.cli.inputs import read_clean
from nacp.cli.terminal import show_verdict

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
    np.save("again.npy", true[:1000])
    np.savez("test.npz", probs=probs[1000:], labels=true[1000:], other=noisy[1000:])
    with open("probs.csv", "w", newline="") as file:
        csv.writer(file).writerows([NAMES, *probs[:1000].tolist()])
    with open("names.csv", "w", newline="") as file:
        csv.writer(file).writerows([["animal"], *([NAMES[i]] for i in noisy[:1000])])
    with open("truth.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "animal"], *([i, NAMES[j]] for i, j in enumerate(true[1000:]))])
    np.save("wide.npy", np.full((1000, 5), 0.2))
    late = probs[:1000].copy()
    late[-1] *= 2
    np.save("late.npy", late)
    nacp.noise_from_privacy(2.0, 4).save("four.json")
    (tmp_path / "other.json").write_text('{"format": "other"}')
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.npy").touch()
    (tmp_path / "empty.csv").touch()
    return probs, true, noisy


def plain(text):
    """What is said, however it is wrapped."""
    return " ".join(str(text).split())


def by_probability(sets, probs):
    """The labels of each set, by number, the most probable first."""
    numbers = nacp.PredictionSets(sets.offsets, sets.labels, k=sets.k)
    return [sorted(row, key=lambda label: -p[label]) for row, p in zip(numbers, probs, strict=True)]


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
    assert cal.promise in " ".join(said.split())
    assert nacp.load("cal.json").threshold == cal.threshold
    sets = cal.predict_set(matrix[1000:])
    ordered = by_probability(sets, matrix[1000:])
    named = labels == "names.csv"
    for ending in ("jsonl", "csv", "npz", "parquet"):
        done("predict", "cal.json", "test.npz", "-o", f"sets.{ending}")
    with open("sets.jsonl") as file:
        read = [json.loads(line) for line in file]
    assert read == [[NAMES[i] for i in row] if named else row for row in ordered]
    with open("sets.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["row", "label"]
    assert [row[1] for row in rows[1:]] == [str(label) for row in read for label in row]
    with np.load("sets.npz") as file:
        assert file["labels"].tolist() == [label for row in ordered for label in row]
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
    said = done("predict", "cal.json", "other.csv", code=2)
    assert "other.csv has no column 'dog'; its columns are emu, cat, bee, ant" in said


def test_a_name_that_is_a_class_is_no_header(files):
    done("calibrate", "probs.csv", "names.csv", "--noise", "0.2")
    with open("many.csv", "w", newline="") as file:
        csv.writer(file).writerows([[NAMES[i % 4]] for i in range(1001)])
    assert "many.csv holds 1,001 labels, but probs.csv has 1,000 rows" in done(
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
    assert "from 1,000 noisy labels" in done("calibrate", "two.csv", "y.csv:0", "--noise", "0.2")
    # Without its name the 0 may be a label, and every other label would then belong to another row.
    said = done("calibrate", "two.csv", "y.csv", "--noise", "0.2", code=2)
    assert "y.csv holds 1,001 labels, but two.csv has 1,000 rows" in said


def test_columns_in_the_order_of_letters_are_the_same_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    true = rng.integers(12, size=1000)
    probs = rng.dirichlet(np.full(12, 0.5), size=1000) + 3 * np.eye(12)[true]
    probs /= probs.sum(axis=1, keepdims=True)
    noisy = nacp.UniformNoise(0.2).sample(true, 12, rng)
    np.save("p.npy", probs)
    np.save("y.npy", noisy)
    order = sorted(range(12), key=str)
    with open("all.csv", "w", newline="") as file:
        rows = zip(probs[:, order].tolist(), noisy, strict=True)
        csv.writer(file).writerows([[*order, "label"], *([*row, y] for row, y in rows)])
    done("calibrate", "p.npy", "y.npy", "--noise", "0.2", "-o", "a.json")
    done("calibrate", "all.csv", "all.csv:label", "--noise", "0.2", "-o", "b.json")
    assert nacp.load("a.json").threshold == nacp.load("b.json").threshold
    with open("new.csv", "w", newline="") as file:
        csv.writer(file).writerows([order, *probs[:, order].tolist()])
    for cal, probs in (("a", "p.npy"), ("a", "new.csv"), ("b", "new.csv"), ("b", "all.csv")):
        done("predict", f"{cal}.json", probs, "-o", f"{cal}-{probs}.jsonl")
        with open(f"{cal}-{probs}.jsonl") as file:
            sets = [sorted(map(int, json.loads(line))) for line in file]
        assert sets == nacp.load("a.json").predict_set(np.load("p.npy")).to_lists()


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
        (
            ["calibrate", "probs.npy", "test.npz:other", "--noise", "2"],
            "Error: --noise must lie in [0, 1); found 2.0",
        ),
        (["calibrate", "names.csv", "names.csv", "--noise", "0.2"], "one number per cell"),
        (["predict", "probs.npy", "probs.npy"], "probs.npy is not a calibration file"),
        (["predict", "probs.npy", "cal.json"], "the arguments look swapped"),
        (["evaluate", "probs.npy", "cal.json", "labels.npy"], "the arguments look swapped"),
        (["evaluate", "cal.json", "labels.npy", "probs.npy"], "the arguments look swapped"),
        (["diagnose", "probs.npy", "cal.json", "labels.npy"], "the arguments look swapped"),
        (["diagnose", "folder", "probs.npy", "labels.npy"], "folder is a folder"),
        (["calibrate", "names.csv", "probs.csv", "--noise", "0.2"], "the arguments look swapped"),
        (["compare", "labels.npy", "probs.npy", "--noise", "0.2"], "the arguments look swapped"),
        (["predict", "cal.json", "probs.npy", "-o", "/proc/x.jsonl"], "Error: /proc/x.jsonl: "),
        (
            ["demo", "--report", "nowhere/x.html"],
            "nowhere/x.html cannot be written: there is no folder nowhere",
        ),
        (
            ["plan", "--classes", "20", "--noise", "four.json"],
            "noise was estimated for 4 classes, not for 20",
        ),
        (["calibrate", "wide.npy", "labels.npy", "--noise", "four.json"], "for 4 classes, not for 5"),
        (["compare", "wide.npy", "labels.npy", "--noise", "four.json"], "for 4 classes, not for 5"),
        (["report", "wide.npy", "labels.npy", "--noise", "four.json"], "for 4 classes, not for 5"),
        (["predict", "other.json", "probs.npy"], "other.json is not a calibration file"),
        (["predict", "missing.json", "probs.npy"], "missing.json: No such file or directory"),
        (["predict", "folder", "probs.npy"], "folder is a folder"),
        (["calibrate", "folder", "labels.npy", "--noise", "0.2"], "folder is a folder"),
        (["predict", "cal.json", "wide.npy"], "5 columns, but the calibration was made with 4 classes"),
        (
            ["evaluate", "cal.json", "wide.npy", "labels.npy"],
            "5 columns, but the calibration was made with 4",
        ),
        (["calibrate", "probs.npy", "names.csv", "--noise", "0.2"], "pass --classes FILE with the 4 names"),
        (["calibrate", "probs.npy", "labels.npy", "--noise", "0.2", "-o", "no/cal.json"], "no folder no"),
        (["calibrate", "probs.npy", "labels.npy", "--noise", "0.2", "-o", "folder"], "folder is a folder"),
        (
            ["calibrate", "probs.npy", "labels.npy", "--noise", "wide.npy"],
            "must be a noise matrix of the shape (k, k)",
        ),
        (["calibrate", "probs.npy", "labels.npy", "--noise", "a lot"], "noise is 'a lot'"),
        (
            ["calibrate", "probs.npy", "labels.npy", "--noise", "none", "--noise-interval", "0.1", "0.2"],
            "--noise-interval is for a noise rate",
        ),
        (["calibrate", "-", "-", "--noise", "0.2"], "standard input can be read once only"),
        (["predict", "cal.json", "late.npy"], "row 999 sums to 2"),
        (
            ["compare", "probs.npy", "labels.npy", "--noise", "0.2", "--test-labels", "labels.npy"],
            "--test-labels needs --test-probs",
        ),
        (["calibrate", "empty.npy", "labels.npy", "--noise", "0.2"], "empty.npy is empty"),
        (["calibrate", "probs.csv", "empty.csv", "--noise", "0.2"], "empty.csv is empty"),
        (
            ["predict", "cal.json", "probs.npy", "-o", "sets.xml"],
            "must end in .parquet, .jsonl, .csv, .tsv or .npz",
        ),
    ],
)
def test_a_wrong_file_gets_one_sentence(files, arguments, words):
    done("calibrate", "probs.npy", "labels.npy", "--noise", "0.2")
    said = done(*arguments, code=2)
    assert said.startswith("Error: ")
    assert words in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["calibrate", "logits.npy", "labels.npy", "--noise", "0.2"], "give --logits"),
        (["calibrate", "logs.npy", "labels.npy", "--noise", "0.2"], "; give --logits"),
        (["predict", "cal.json", "late.npy"], "; nacp calibrate --normalize divides by the row sums"),
        (
            ["compare", "probs.npy", "labels.npy", "--noise", "0", "--score", "precomputed", "--normalize"],
            "Error: --normalize divides probabilities",
        ),
        (
            ["calibrate", "one.npy", "labels.npy", "--noise", "0.2"],
            "for a binary classifier give two columns, 1 - p and p",
        ),
        (["plan", "--classes", "4", "--noise", "0.2", "--noise-confidence", "0.9"], "give --noise-interval"),
        (["plan", "--classes", "4", "--noise", "columns.npy"], "its columns do: transpose it"),
        (["plan", "--classes", "4", "--noise", "0.2", "--max-correction", "0"], "--excess must lie"),
        (["plan", "--classes", "4", "--noise", "0.2", "--points", "0"], "Error: --points must be"),
        (
            ["calibrate", "probs.npy", "labels.npy", "--noise", "0", "--score", "foo"],
            "'precomputed'; found 'foo'\n",
        ),
        (
            ["calibrate", "probs.npy", "labels.npy", "--noise", "0", "--guarantee", "foo"],
            "'crcp'; found 'foo'\n",
        ),
        (["noise", "audit", "none-of.npy", "again.npy"], "none-of.npy holds no label"),
        (["noise", "audit", "labels.npy", "again.npy", "--model", "groups"], "give --groups FILE too"),
        (["evaluate", "cal.json", "test.npz", "truth.csv"], "calibrate with --classes FILE"),
    ],
)
def test_advice_is_about_the_command_line(files, arguments, words):
    probs = files[0][:1000]
    done("calibrate", "probs.npy", "labels.npy", "--noise", "0.2")
    np.save("logits.npy", np.log(probs) + 3)
    np.save("logs.npy", np.log(probs))
    np.save("one.npy", probs[:, :1])
    np.save("none-of.npy", np.zeros(0, dtype=int))
    np.save("columns.npy", np.array([[0.9, 0.2], [0.1, 0.8]]))
    said = done(*arguments, code=2)
    assert words in said
    assert not re.search(r"\bnp\.|scipy|\w=(True|\W)|\(P\)", said)


WORK = ["calibrate", "probs.npy", "labels.npy", "--noise", "0.2"]


@pytest.mark.parametrize(
    ("start", "arguments"),
    [
        ("nan.npy holds NaN", ["calibrate", "nan.npy", "labels.npy", "--noise", "0.2"]),
        ("nan.npy holds NaN", ["noise", "model", "nan.npy", "labels.npy"]),
        ("fives.npy must lie from 0 to 3", ["calibrate", "probs.npy", "fives.npy", "--noise", "0.2"]),
        ("fives.npy must lie from 0 to 3", ["noise", "audit", "fives.npy", "again.npy", "--k", "4"]),
        ("fives.npy must lie from 0 to 3", ["noise", "model", "probs.npy", "fives.npy"]),
        ("standard input must have rows that sum to 1", ["predict", "cal.json", "-"]),
        ("--alpha must lie strictly between 0 and 1", [*WORK, "--alpha", "1"]),
        ("--score must be one of", [*WORK, "--score", "foo"]),
        ("--score must be one of", ["compare", *WORK[1:], "--score", "foo"]),
        ("--guarantee must be", [*WORK, "--guarantee", "foo"]),
        ("--delta", [*WORK, "--guarantee", "expected", "--delta", "0.01"]),
        ("--noise-interval must contain the rate 0.2", [*WORK, "--noise-interval", "0.3", "0.4"]),
        (
            "--noise-confidence must lie",
            [*WORK, "--noise-interval", "0.1", "0.4", "--noise-confidence", "2"],
        ),
        ("--confidence must lie", ["noise", "audit", "labels.npy", "again.npy", "--confidence", "2"]),
        ("--level must lie", ["diagnose", "cal.json", "probs.npy", "labels.npy", "--level", "2"]),
        ("--test-probs holds NaN", ["compare", *WORK[1:], "--test-probs", "nan.npy"]),
        ("EPSILON must be", ["noise", "privacy", "--k", "4", "0"]),
    ],
)
def test_an_argument_is_called_what_was_typed_for_it(files, start, arguments):
    done(*WORK)
    np.save("nan.npy", np.full((1000, 4), np.nan))
    np.save("fives.npy", np.full(1000, 5))
    result = run(app, arguments, input="0.5,0.5,0.5,0.5\n")
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: {start}")


def test_a_wrong_field_of_a_file_is_no_option(files):
    done(*WORK)
    with open("cal.json") as file:
        document = json.load(file)
    for name, value in {"n": 0, "alpha": 2, "k": 1}.items():
        with open("bad.json", "w") as file:
            json.dump(document | {name: value}, file)
        said = done("evaluate", "bad.json", "test.npz", "test.npz", code=2)
        assert said.startswith(f"Error: bad.json cannot be used: {name} must")
    with open("four.json") as file:
        estimate = json.load(file)
    with open("bad.json", "w") as file:
        json.dump(estimate | {"k": 0}, file)
    said = done("plan", "--classes", "4", "--noise", "bad.json", code=2)
    assert said.startswith("Error: bad.json cannot be used: k must")


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
        (["--classes", "100", "--noise", "1.5"], "Error: --noise must lie in [0, 1); found 1.5"),
        (["--classes", "1", "--noise", "0.1"], "Error: --k must be"),
        (["--classes", "9", "--noise", "0.1", "--alpha", "2"], "Error: --alpha must lie strictly between"),
        (["--classes", "9", "--noise", "0.1", "--delta", "0"], "Error: --delta must lie strictly between"),
    ],
)
def test_a_wrong_option_gets_one_sentence(options, words):
    result = run(app, ["plan", *options])
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


def commands(group, *names):
    """Walk over all commands, those of groups of commands too."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield [*names, name], command


COMMANDS = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize(("names", "command"), COMMANDS, ids=[" ".join(names) for names, _ in COMMANDS])
def test_every_command_explains_itself_with_examples_of_their_own(names, command):
    said = done(*names, "--help")
    block = said[said.index("Examples") :].splitlines()[1:]
    examples = [line.strip() for line in block if line.strip()]
    assert any(line.startswith(f"$ nacp {' '.join(names)}") for line in examples)
    options = {option for each in command.params for option in each.opts}
    assert {"--json", "--quiet", "-q"} <= options
    arguments = re.search(r"\[OPTIONS\](.*)", said)[1]
    assert arguments == arguments.upper()
    assert names[-1] in done(*names[:-1], "--help")


def test_commands_are_listed_in_the_order_of_use():
    said = done("--help")
    order = [
        "noise",
        "audit",
        "plan",
        "compare",
        "calibrate",
        "predict",
        "evaluate",
        "diagnose",
        "report",
        "demo",
        "reproduce",
    ]
    places = [re.search(rf"^\W*{name}\b", said, re.MULTILINE).start() for name in order]
    assert places == sorted(places)
    assert len(places) == len({names[0] for names, _ in COMMANDS})
    assert "nacp diagnose rejects a noise model" in " ".join(said.replace("│", " ").split())


def test_a_new_command_needs_no_entry_in_a_table():
    grown = typer.Typer(cls=Commands)
    grown.command("zebra")(lambda: None)
    grown.command("ape")(lambda: None)
    said = run(grown, ["--help"])
    assert said.exit_code == 0
    assert said.output.index("zebra") < said.output.index("ape")  # the order of definition


def test_the_version_and_the_engine_are_printed():
    assert re.fullmatch(rf"nacp {re.escape(nacp.__version__)} \(engine: \w+\)\n", done("--version"))


def test_class_names_from_a_file_stay_with_the_calibration(files):
    with open("classes.txt", "w") as file:
        file.write("\n".join(NAMES))
    done("calibrate", "probs.npy", "names.csv", "--noise", "0.2", "--classes", "classes.txt")
    assert nacp.load("cal.json").classes == tuple(NAMES)
    done("predict", "cal.json", "test.npz", "-o", "sets.jsonl")
    with open("sets.jsonl") as file:
        assert {label for line in file for label in json.loads(line)} == set(NAMES)
    assert "pass" in done("evaluate", "cal.json", "test.npz", "truth.csv")


def test_what_is_written_replaces_files_only_and_never_an_input(files):
    work = ["calibrate", "probs.npy", "labels.npy", "--noise", "0.2", "-o"]
    os.mkfifo("pipe")
    assert "pipe is a device or a pipe" in done(*work, "pipe", code=2)
    assert "labels.npy would overwrite what is read" in done(*work, "labels.npy", code=2)
    assert "probs.npy would overwrite" in done(*work, "folder/../probs.npy", code=2)
    assert "cannot be written to standard output" in done(*work, "-", code=2)
    done(*work, "real.json")
    os.symlink("real.json", "link.json")
    done(*work, "link.json", "--alpha", "0.3")
    assert os.path.islink("link.json")
    assert nacp.load("real.json").alpha == 0.3
    shutil.copy("probs.csv", "new.csv")
    assert "new.csv would overwrite" in done("predict", "real.json", "new.csv", "-o", "new.csv", code=2)
    assert "again.npy is given twice" in done("noise", "audit", "again.npy", "again.npy", code=2)
    with pytest.raises(ValueError, match="pipe is not a file that could be replaced"):
        nacp.load("real.json").save("pipe")


def test_options_reach_the_function(files):
    matrix, _, noisy = files
    P = nacp.UniformNoise(0.3).matrix(4).dense()
    np.save("noise.npy", P)
    np.save("scaled.npy", 3 * matrix[:1000])
    cases = [
        (["--noise", "noise.npy"], {"noise": P}),
        (["--noise", "none"], {"noise": None}),
        (["--noise", "0.2", "--guarantee", "none", "--crossing", "first"],
         {"noise": 0.2, "guarantee": "none", "crossing": "first"}),
        (["--noise", "0.2", "--seed", "7", "--delta", "0.2"],
         {"noise": 0.2, "random_state": 7, "delta": 0.2}),
        (["--noise", "0.2", "--noise-interval", "0.1", "0.3", "--noise-confidence", "0.9"],
         {"noise": nacp.UniformNoise(0.2, interval=(0.1, 0.3), confidence=0.9)}),
        (["--noise", "0.2", "--alpha", "0.2", "--score", "aps"],
         {"noise": 0.2, "alpha": 0.2, "score": "aps"}),
    ]  # fmt: skip
    for given, wanted in cases:
        done("calibrate", "probs.npy", "labels.npy", *given)
        assert nacp.load("cal.json") == nacp.calibrate(matrix[:1000], noisy[:1000], **wanted)
    done("calibrate", "scaled.npy", "labels.npy", "--noise", "0.2", "--normalize")
    scaled = nacp.calibrate(3 * matrix[:1000], noisy[:1000], noise=0.2, normalize=True)
    assert nacp.load("cal.json") == scaled


def test_compare_prints_what_the_function_finds(files):
    assert "Promises about the true label come first" in done("compare", "--help")
    matrix, true, noisy = files
    given = ["compare", "probs.npy", "labels.npy", "--noise", "0.2", "--score", "hps", "--score", "aps"]
    found = nacp.compare(matrix[:1000], noisy[:1000], noise=0.2, scores=["hps", "aps"])
    assert plain(done(*given)) == plain(found)
    tested = nacp.compare(
        matrix[:1000], noisy[:1000], noise=0.2, scores=["hps"], guarantees=["pac", "none"], delta=0.1,
        test_probs=matrix[1000:], test_labels=true[1000:],
    )  # fmt: skip
    said = done(
        "compare", "probs.npy", "labels.npy", "--noise", "0.2", "--score", "hps", "--guarantee", "pac",
        "--guarantee", "none", "--delta", "0.1", "--test-probs", "test.npz", "--test-labels", "test.npz",
    )  # fmt: skip
    assert plain(said) == plain(tested)


def test_report_writes_the_page_that_the_function_makes(files):
    matrix, true, noisy = files
    with open("texts.txt", "w") as file:
        file.writelines(f"text {i}\n" for i in range(1000))
    said = done(
        "report", "probs.npy", "labels.npy", "--noise", "0.2", "--score", "aps", "--title", "Ours",
        "--test-probs", "test.npz", "--test-labels", "test.npz", "--descriptions", "texts.txt",
    )  # fmt: skip
    report = nacp.make_report(
        matrix[:1000], noisy[:1000], noise=0.2, score="aps", title="Ours", test_probs=matrix[1000:],
        test_labels=true[1000:], descriptions=[f"text {i}" for i in range(1000)],
    )  # fmt: skip
    with open("report.html", encoding="utf-8") as file:
        assert file.read() == report.html
    assert said.startswith(str(report.contents.calibration))
    wrong = run(app, ["report", "probs.npy", "labels.npy", "--noise", "0.2", "--test-labels", "test.npz"])
    assert wrong.exit_code == 2
    assert "--test-labels needs --test-probs" in wrong.stderr


def test_json_is_all_that_is_printed(files):
    matrix, true, noisy = files

    def printed(*arguments, code=0):
        result = run(app, [*arguments, "--json"])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    cal = nacp.calibrate(matrix[:1000], noisy[:1000], noise=0.2)
    document = printed("calibrate", "probs.npy", "labels.npy", "--noise", "0.2")
    assert document["threshold"] == cal.threshold
    assert document["promise"] == cal.promise
    sets = cal.predict_set(matrix[1000:])
    assert printed("predict", "cal.json", "test.npz")["mean_size"] == pytest.approx(sets.sizes.mean())
    result = nacp.evaluate(sets, true[1000:])
    document = printed("evaluate", "cal.json", "test.npz", "test.npz")
    assert document["coverage"] == result.coverage
    assert document["coverage_interval"] == list(result.coverage_interval)
    assert document["verdict"]["passed"] is True
    rows = printed("plan", "--classes", "4", "--noise", "0.2")["rows"]
    assert [row["guarantee"] for row in rows] == [
        row.guarantee.name for row in nacp.plan(k=4, noise=0.2).rows
    ]
    rows = printed("compare", "probs.npy", "labels.npy", "--noise", "0.2", "--score", "hps")["rows"]
    assert len(rows) == len({row["guarantee"] for row in rows}) == 8
    document = printed("calibrate", "probs.npy", "labels.npy", "--noise", "0.2", "--alpha", "0.0001")
    assert document["threshold"] == "inf"
    assert document["obstacle"]


def test_demo_and_reproduce_print_json_too(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "SPLITS", 2)
    result = run(app, ["reproduce", "table2", "--splits", "2", "--out", str(tmp_path), "--json"])
    (made,) = json.loads(result.stdout)
    assert made["name"] == "table2"
    assert all(os.path.exists(path) for path in made["files"])
    page = tmp_path / "page.html"
    document = json.loads(run(app, ["demo", "--json", "--report", str(page)]).stdout)
    rows = document["rows"]
    assert document["report"] == str(page)
    assert page.exists()
    sizes = {row["method"]: row["mean_size"] for row in rows if row["score"] == "hps"}
    assert sizes['nacp "pac"'] < sizes["Noisy-CP"]


def test_a_promise_that_cannot_be_kept_is_told_on_standard_error(files):
    result = run(app, ["calibrate", "probs.npy", "labels.npy", "--noise", "0.2", "--alpha", "0.0001"])
    assert result.exit_code == 0
    assert "Warning: no threshold keeps the promise" in result.stderr


def test_sets_on_standard_output_stand_alone(files):
    done("calibrate", "probs.csv", "names.csv", "--noise", "0.2")
    result = run(app, ["predict", "cal.json", "test.npz", "-o", "-"])
    read = [json.loads(line) for line in result.stdout.splitlines()]
    sets = nacp.load("cal.json").predict_set(files[0][1000:])
    assert read == [[NAMES[i] for i in row] for row in by_probability(sets, files[0][1000:])]
    assert "1,000 sets of" in result.stderr


def test_probabilities_may_come_from_standard_input(files):
    done("calibrate", "probs.csv", "names.csv", "--noise", "0.2")
    done("predict", "cal.json", "probs.csv", "-o", "a.jsonl")
    with open("probs.csv") as file:
        assert run(app, ["predict", "cal.json", "-", "-o", "b.jsonl"], input=file.read()).exit_code == 0
    with open("a.jsonl") as a, open("b.jsonl") as b:
        assert a.read() == b.read()


# Real processes: signals, pipes and terminals.
NACP = [sys.executable, "-c", "import _nacp_command; _nacp_command.main()"]
HEARD = [sys.executable, "-c", "import _nacp_command; print('on', flush=True); _nacp_command.main()"]


@pytest.fixture
def large(files):
    """Enough rows that every command takes a while."""
    rng = np.random.default_rng(0)
    probs = rng.random((400_000, 50), dtype=np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    np.save("large.npy", probs)
    np.save("large-labels.npy", rng.integers(50, size=400_000))
    done(
        "calibrate",
        "large.npy",
        "large-labels.npy",
        "--noise",
        "0",
        "--guarantee",
        "none",
        "-o",
        "large.json",
    )


def interrupted(arguments, ready, start=HEARD):
    """Start a command, interrupt it when it is ready to be, and return how it ended."""
    process = subprocess.Popen(
        [*start, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert start is not HEARD or process.stdout.readline() == "on\n"
    while not ready() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=60)
    return process.returncode, printed, said


@pytest.mark.parametrize("out", ["new.jsonl", "new.csv", "new.parquet", "new.npz"])
def test_ctrl_c_while_writing_leaves_nothing_behind(large, out):
    before = set(os.listdir())
    ended = interrupted(
        ["predict", "large.json", "large.npy", "-o", out], lambda: len(os.listdir()) > len(before)
    )
    assert ended == (130, "", "Interrupted.\n")
    assert set(os.listdir()) == before


@pytest.mark.parametrize("delay", [0.0, 0.4, 1.2])
def test_ctrl_c_is_heard_at_any_time(large, delay):
    before, start = set(os.listdir()), time.monotonic()
    work = [
        "calibrate",
        "large.npy",
        "large-labels.npy",
        "--noise",
        "0.2",
        "--score",
        "raps",
        "-o",
        "new.json",
    ]
    ended = interrupted(work, lambda: time.monotonic() > start + delay)
    assert ended == (130, "", "Interrupted.\n")
    assert set(os.listdir()) == before


def test_the_package_runs_as_a_module(large):
    module = [sys.executable, "-m", "nacp"]
    said = subprocess.run([*module, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == done("--version")
    work = ["calibrate", "probs.npy", "missing.npy", "--noise", "0.2"]
    ended = subprocess.run([*module, *work], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "Error: missing.npy does not exist\n")
    before = set(os.listdir())
    work = ["predict", "large.json", "large.npy", "-o", "new.jsonl"]
    ended = interrupted(work, lambda: len(os.listdir()) > len(before), module)
    assert ended == (130, "", "Interrupted.\n")
    assert set(os.listdir()) == before


def test_a_closed_pipe_is_no_error(large):
    process = subprocess.Popen(
        [*NACP, "predict", "large.json", "large.npy", "-o", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), said) == (141, b"")


def test_a_pipe_that_is_closed_before_the_verdict_is_no_broken_promise(monkeypatch):
    class Closed(io.StringIO):
        def write(self, _):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    verdict = nacp.Verdict(True, 0.9, 0.92, (0.91, 0.93), False, "coverage")
    with pytest.raises(BrokenPipeError):  # 141, and not the 1 of a promise that was broken
        show_verdict(verdict)


def on_a_terminal(*arguments, **environment):
    """Run with standard error on a terminal, and return what appears there."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [*NACP, *arguments], stdout=subprocess.DEVNULL, stderr=other,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"} | environment,
    )  # fmt: skip
    os.close(other)
    seen = b""
    try:
        while part := os.read(main, 1 << 16):
            seen += part
    except OSError:  # the terminal is gone
        pass
    os.close(main)
    assert process.wait(timeout=60) == 0
    return seen.decode()


def test_a_terminal_shows_progress_unless_it_is_to_be_quiet(large):
    np.save("part.npy", np.load("large.npy", mmap_mode="r")[:60_000])
    work = ["predict", "large.json", "part.npy", "-o", "new.npz"]
    seen = on_a_terminal(*work)
    assert "predicting" in seen
    assert "100%" in seen
    assert "\x1b[38" in seen  # colours
    assert "\x1b[38" not in on_a_terminal(*work, NO_COLOR="1")
    assert on_a_terminal(*work, "--quiet") == ""
    fitted = on_a_terminal("calibrate", "large.npy", "large-labels.npy", "--noise", "0.2")
    counts = [int(each.replace(",", "")) for each in re.findall(r"calibrating, ([\d,]+) rows read", fitted)]
    assert counts == sorted(counts)
    assert counts[-1] >= 400_000
    assert "pass" not in fitted


def test_diagnoses_and_estimates_show_progress_too(files):
    done("calibrate", "probs.npy", "labels.npy", "--noise", "0.1")
    for words, *work in [
        ("diagnosing", "diagnose", "cal.json", "probs.npy", "labels.npy"),
        ("estimating", "noise", "audit", "labels.npy", "again.npy"),
        ("estimating", "noise", "model", "probs.npy", "labels.npy"),
    ]:
        assert words in on_a_terminal(*work)
        assert on_a_terminal(*work, "--quiet") == ""


def test_without_a_terminal_there_is_no_progress(large):
    result = subprocess.run(
        [*NACP, "predict", "large.json", "large.npy", "-o", "new.npz"], capture_output=True, check=True
    )
    assert result.stderr == b""


def test_the_shell_completes_commands_and_options():
    command = shutil.which("nacp", path=os.path.dirname(sys.executable))

    def completed(words):
        asked = {"_NACP_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return subprocess.run(
            [command], env=os.environ | asked, capture_output=True, text=True
        ).stdout.split()

    assert completed("nacp ca") == ["calibrate"]
    assert completed("nacp calibrate --noise-i") == ["--noise-interval"]
    assert "--install-completion" in done("--help")


def test_blocks_of_rows_give_the_sets_of_all_rows(files, monkeypatch):
    done("calibrate", "probs.npy", "labels.npy", "--noise", "0.2", "--score", "aps")
    monkeypatch.setattr("nacp.cli.predict.BLOCK_ENTRIES", 4 * 37)
    for ending in ("jsonl", "npz"):
        done("predict", "cal.json", "test.npz", "-o", f"sets.{ending}")
    measured = json.loads(done("evaluate", "cal.json", "test.npz", "test.npz", "--json"))
    said = done("predict", "cal.json", "late.npy", code=2)
    assert said.startswith("Error: late.npy must have rows that sum to 1; row 999")
    wanted = nacp.load("cal.json").predict_set(files[0][1000:])
    with open("sets.jsonl") as file:
        ordered = [json.loads(line) for line in file]
    assert ordered == by_probability(wanted, files[0][1000:])
    with np.load("sets.npz") as file:
        assert file["offsets"].tolist() == wanted.offsets.tolist()
        assert file["labels"].tolist() == [label for row in ordered for label in row]
    assert asdict(nacp.evaluate(wanted, files[1][1000:])).items() <= measured.items()


def test_checked_labels_are_a_file_like_the_labels(tmp_path, monkeypatch):
    """As an array with -1, as a table with empty cells, by number and by name: one and the same threshold."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.2), 800)
    truth = (probs.cumsum(axis=1) > rng.random((800, 1))).argmax(axis=1)
    noisy = nacp.UniformNoise(0.3).sample(truth, 4, random_state=1)
    clean, names = np.where(np.arange(800) % 4 == 0, truth, -1), ["ant", "bee", "cow", "dog"]
    for name, array in {"probs": probs, "labels": noisy, "clean": clean}.items():
        np.save(f"{name}.npy", array)
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n")
    for file, shown in {"numbers.csv": range(4), "named.csv": names}.items():
        cells = ["" if each < 0 else shown[each] for each in clean]
        (tmp_path / file).write_text("id,true\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
        lines = "".join(f"{cell}\n" for cell in cells)
        (tmp_path / f"lines-{file}").write_text(lines)
        (tmp_path / f"headed-{file}").write_text(f"true\n{lines}\n\n")
        (tmp_path / f"longer-{file}").write_text(f"{lines}\n")
    expected = nacp.calibrate(probs, noisy, clean=clean).threshold
    (tmp_path / "empty-first.csv").write_text("\n".join(["", *map(str, truth[1:9]), *[""] * 793]))
    found, forms = read_clean("empty-first.csv", 800).tolist(), ("lines", "headed", "longer")
    assert found == [None, *truth[1:9].tolist(), *[None] * 791]
    for options in (
        ["--clean", "clean.npy"], ["--clean", "numbers.csv"], ["--clean", "numbers.csv:true"],
        *(["--clean", f"{form}-numbers.csv"] for form in forms),
        *(["--clean", f"{form}-named.csv", "--classes", "names.txt"] for form in forms),
        ["--clean", "named.csv", "--classes", "names.txt"],
        ["--clean", "clean.npy", "--classes", "names.txt"],
    ):  # fmt: skip
        said = json.loads(done("calibrate", "probs.npy", "labels.npy", *options, "--json", "--quiet"))
        assert said["threshold"] == expected
        assert said["checked"] == 200
    assert nacp.load("cal.json").checked == 200
    np.save("odd.npy", np.where(clean == 3, 9, clean))
    (tmp_path / "short.csv").write_text("1\n\n2\n")
    for options, words in {
        ("--clean", "odd.npy"): "--clean must lie from 0 to 3",
        (): "--noise must be given",
        ("--clean", "clean.npy", "--guarantee", "nacp"): "--guarantee",
        ("--clean", "clean.npy", "--noise-interval", "0.1", "0.2"): "--noise-interval is of a noise",
        ("--clean", "clean.npy", "--noise-confidence", "0.9"): "--noise-confidence is of a noise",
        ("--clean", "short.csv"): "must hold 800 labels",
    }.items():
        assert words in done("calibrate", "probs.npy", "labels.npy", *options, code=2)


def fill(truth, source="to-check.csv", out="filled.csv", names=None, leave=(), change=None):
    """Fill in what `nacp audit choose` wrote, as a person would."""
    with open(source, newline="") as file:
        header, *rows = csv.reader(file)
    place = header.index("checked")
    for i, row in enumerate(rows):
        if i not in leave:
            label = truth[int(row[0])]
            row[place] = NAMES[label] if names else str(label)
    if change is not None:
        change(header, rows)
    with open(out, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.mark.parametrize(("probs", "labels"), [("probs.npy", "labels.npy"), ("probs.csv", "names.csv")])
def test_an_audit_is_chosen_filled_in_and_used(files, probs, labels):
    matrix, true, noisy = files
    with open("items.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *([f"i{i}", f'a, "b" {i}'] for i in range(1000))])
    said = done("audit", "choose", probs, labels, "--budget", "90", "--items", "items.csv", "--noise", "0.2")
    plan = nacp.choose_audit(matrix[:1000], noisy[:1000], budget=90, noise=0.2)
    assert plain(plan) in plain(said)
    with open("to-check.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == plan.rows.tolist()
    assert all(row["id"] == f"i{row['row']}" and row["text"] == f'a, "b" {row["row"]}' for row in rows)
    named = labels == "names.csv"
    first = int(rows[0]["row"])
    assert rows[0]["given"] == (NAMES[noisy[first]] if named else str(noisy[first]))
    top = int(np.argmax(matrix[first]))
    assert rows[0]["most probable"].startswith(NAMES[top] if named else str(top))
    fill(true, names=named, leave=range(70, 90))
    done("calibrate", probs, labels, "--audit", "filled.csv", "--alpha", "0.2", "-o", "cal.json")
    some = plan.rows[:70]
    cal = nacp.calibrate(matrix[:1000], noisy[:1000], clean=(some, true[some]), audit=plan, alpha=0.2)
    loaded = nacp.load("cal.json")
    assert (loaded.checked, loaded.planned) == (70, 90)
    assert loaded.native_threshold == cal.native_threshold


def test_an_audit_that_was_filled_in_wrongly_gets_one_sentence(files):
    _, true, _ = files
    done("audit", "choose", "probs.npy", "labels.npy", "--budget", "60")

    def cell(column, value):
        def change(header, rows):
            rows[4][header.index(column)] = value

        return change

    def drop(header, rows):
        header[header.index("plan")] = "plans"

    wrong = {
        "has nothing in its column": {"leave": range(60)},
        'has no column "plan"': {"change": drop},
        "must hold one plan, not 2": {"change": cell("plan", "{}")},
        "a row or a plan that cannot be read": {"change": cell("row", "x")},
        "which the audit did not choose": {"change": cell("row", "1")},
        "must lie from 0 to 3": {"change": cell("checked", "7")},
    }
    plan = nacp.choose_audit(files[0][:1000], files[2][:1000], budget=60)
    assert 1 not in plan.rows
    for words, options in wrong.items():
        fill(true, **options)
        assert words in done("calibrate", "probs.npy", "labels.npy", "--audit", "filled.csv", code=2)
    with open("items.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "checked"], *([i, 1] for i in range(1000))])
    choose = ("audit", "choose", "probs.npy", "labels.npy", "--budget", "60")
    assert 'has a column "checked"' in done(*choose, "--items", "items.csv", code=2)
    assert "must end in .csv" in done(*choose, "-o", "-", code=2)
    fill(
        true, change=lambda header, rows: rows[4].__setitem__(header.index("checked"), "2.0")
    )  # a spreadsheet's
    done("calibrate", "probs.npy", "labels.npy", "--audit", "filled.csv")
    fill(true)
    said = done("calibrate", "test.npz", "test.npz:other", "--audit", "filled.csv", code=2)
    assert "was chosen from other points than these" in said
    both = ("--audit", "filled.csv", "--clean", "again.npy")
    assert "give one of them" in done("calibrate", "probs.npy", "labels.npy", *both, code=2)
    fill(true, change=cell("checked", "?"))
    assert "count as misses: 1" in done("calibrate", "probs.npy", "labels.npy", "--audit", "filled.csv")


@pytest.mark.parametrize("names", [None, [1, 2, 3, 4], ["a", "b", "c", "d"]])
@pytest.mark.parametrize("written", [str, lambda number: f"{number}.0"], ids=["whole", "by a spreadsheet"])
def test_a_checked_label_is_the_class_of_that_name_in_every_file(files, names, written):
    matrix, true, noisy = files
    called = names or range(4)
    given = ["probs.npy", "y.csv"]
    Path("y.csv").write_text("label\n" + "".join(f"{called[each]}\n" for each in noisy[:1000]))
    if names is not None:
        Path("c.txt").write_text("".join(f"{name}\n" for name in names))
        given += ["--classes", "c.txt"]
    done("audit", "choose", *given, "--budget", "90")
    plan = nacp.choose_audit(matrix[:1000], noisy[:1000], budget=90)
    # The number of a column, where classes are called by words.
    shown = [written(name if isinstance(name, int) else i) for i, name in enumerate(called)]
    other = dict(zip(plan.rows[:5].tolist(), ["", "-1", "nan", "NA", "?"], strict=True))

    def change(header, rows):
        for row in rows:
            number = int(row[0])
            row[header.index("checked")] = other.get(number, shown[true[number]])

    fill(true, change=change)
    done("calibrate", *given, "--audit", "filled.csv", "--alpha", "0.2", "-o", "audit.json")
    clean = plan.rows[4:], ["?", *true[plan.rows[5:]]]
    wanted = nacp.calibrate(matrix[:1000], noisy[:1000], clean=clean, audit=plan, alpha=0.2)
    found = nacp.load("audit.json")
    assert (found.native_threshold, found.checked, found.note) == (wanted.native_threshold, 86, wanted.note)
    every = [other.get(i, shown[true[i]] if i in plan.rows else "") for i in range(1000)]
    Path("clean.csv").write_text(
        "".join(f"{i},{cell}\n" for i, cell in [("id", "checked"), *enumerate(every)])
    )
    done("calibrate", *given, "--clean", "clean.csv", "--alpha", "0.2", "-o", "clean.json")
    wanted = nacp.calibrate(matrix[:1000], noisy[:1000], clean=clean, alpha=0.2)
    found = nacp.load("clean.json")
    assert (found.native_threshold, found.checked, found.note) == (wanted.native_threshold, 86, wanted.note)


def test_rows_that_repeat_items_are_told(files):
    probs, labels = np.load("probs.npy"), np.load("labels.npy")
    np.save("stacked.npy", np.repeat(probs, 3, axis=0))
    np.save("thrice.npy", np.repeat(labels, 3))
    found = run(app, ["calibrate", "stacked.npy", "thrice.npy", "--noise", "0.2", "--quiet"])
    assert found.exit_code == 0
    assert found.stderr.startswith("Warning: rows of probs come about 3 times each")
    assert "repeats.py" not in found.stderr, "a sentence, not a line of code"


def test_narrower_numbers_than_those_that_calibrated_are_refused(files):
    assert (
        run(app, ["calibrate", "probs.npy", "labels.npy", "--noise", "0.2", "-o", "cal.json"]).exit_code == 0
    )
    np.save("narrow.npy", np.load("probs.npy").astype(np.float32))
    found = run(app, ["predict", "cal.json", "narrow.npy"])
    assert found.exit_code == 2
    assert "is float32, but the calibration was made with float64" in " ".join(found.stderr.split())
    assert "calibrate with a file of float32, too" in " ".join(found.stderr.split())


def test_diagnose_sets_checked_labels_against_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.2), 2000)
    truth = (probs.cumsum(axis=1) > rng.random((2000, 1))).argmax(axis=1)
    noisy = nacp.UniformNoise(0.3).sample(truth, 4, random_state=1)
    clean = np.where(np.arange(2000) % 4 == 0, truth, -1)
    for name, array in {"probs": probs, "labels": noisy, "clean": clean}.items():
        np.save(f"{name}.npy", array)
    for rate, code in ((0.3, 0), (0.02, 1)):
        done("calibrate", "probs.npy", "labels.npy", "--noise", str(rate), "--quiet")
        found = nacp.load("cal.json").diagnose(probs, noisy, clean=clean)
        assert found.claim.generous == bool(code)
        options = ["diagnose", "cal.json", "probs.npy", "labels.npy", "--clean", "clean.npy", "--quiet"]
        assert plain(done(*options, code=code)) == plain(found)
        assert json.loads(done(*options, "--json", code=code))["claim"] == found.claim._asdict()
    done("calibrate", "probs.npy", "labels.npy", "--clean", "clean.npy", "--quiet")
    said = done("diagnose", "cal.json", "probs.npy", "labels.npy", "--clean", "clean.npy", code=2)
    assert "no model to test; diagnose a calibration that was made with --noise" in said


def test_compare_with_checked_labels_prints_what_the_function_finds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.2), 600)
    truth = (probs.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)
    noisy = nacp.UniformNoise(0.3).sample(truth, 4, random_state=1)
    clean = np.where(np.arange(600) % 4 == 0, truth, -1)
    for name, array in {"probs": probs, "labels": noisy, "clean": clean}.items():
        np.save(f"{name}.npy", array)
    for options, given in ((["--noise", "0.3"], {"noise": 0.3}), ([], {})):
        command = ["compare", "probs.npy", "labels.npy", "--clean", "clean.npy", "--score", "hps", *options]
        found = nacp.compare(probs, noisy, clean=clean, scores=["hps"], **given)
        assert plain(done(*command)) == plain(found)
        rows = json.loads(done(*command, "--json"))["rows"]
        assert [row["labels"] for row in rows] == [row.labels for row in found.rows]
        assert rows[0]["checked_estimate"] == found.rows[0].checked_estimate
    said = done("compare", "probs.npy", "labels.npy", code=2)
    assert "--noise must be given" in said


def test_report_with_checked_labels_is_that_of_the_function(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.2), 400)
    truth = (probs.cumsum(axis=1) > rng.random((400, 1))).argmax(axis=1)
    noisy = nacp.UniformNoise(0.3).sample(truth, 4, random_state=1)
    clean = np.where(np.arange(400) % 4 == 0, truth, -1)
    for name, array in {"probs": probs, "labels": noisy, "clean": clean}.items():
        np.save(f"{name}.npy", array)
    for options, given in (([], {}), (["--noise", "0.3"], {"noise": 0.3})):
        said = done("report", "probs.npy", "labels.npy", "--clean", "clean.npy", *options, "--quiet")
        expected = nacp.make_report(probs, noisy, clean=clean, **given, random_state=0)
        assert said.startswith(str(expected.contents.calibration))
        assert (tmp_path / "report.html").read_text() == expected.html
    assert "--noise-interval is of a noise rate" in done(
        "report", "probs.npy", "labels.npy", "--clean", "clean.npy", "--noise-interval", "0.1", "0.2", code=2
    )


def test_plan_says_how_many_labels_to_check():
    command = ["plan", "--classes", "10", "--points", "5000", "--checked", "500"]
    assert done(*command).strip() == str(nacp.plan(k=10, n=5000, checked=500))
    document = json.loads(done(*command, "--noise", "0.1", "--json"))
    found = nacp.plan(k=10, n=5000, checked=500, noise=0.1)
    assert document["checked"] == 500
    assert document["assumed"] == found.assumed
    for row, expected in zip(document["checked_rows"], found.checked_rows, strict=True):
        assert (row["labels"], row["n_needed"]) == (expected.labels, expected.n_needed)
    assert "--noise-interval is of a noise rate" in done(*command, "--noise-interval", "0.1", "0.2", code=2)
    assert "--checked must be at most n = 100" in done(
        "plan", "--classes", "4", "--points", "100", "--checked", "300", code=2
    )
