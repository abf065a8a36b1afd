"""The command `nacp`, but for `nacp reproduce`, which has tests of its own."""

import csv
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import typer

import nacp
from nacp.cli import app
from nacp.files import sealed
from tests.cli.command_line import done, fill, json_lines, plain, printed_json, run, write

NAMES = ["ant", "bee", "cat", "dog"]
RNG = np.random.default_rng(0)
TRUE = RNG.integers(4, size=2000)
PROBS = RNG.dirichlet(np.full(4, 0.5), size=2000) + 3 * np.eye(4)[TRUE] * RNG.random((2000, 1))
PROBS /= PROBS.sum(axis=1, keepdims=True)
NOISY = nacp.UniformNoise(0.2).sample(TRUE, 4, RNG)
CALIBRATION, TEST = (PROBS[:1000], NOISY[:1000]), (PROBS[1000:], TRUE[1000:])
CLEAN = np.where(np.arange(1000) % 4 == 0, TRUE[:1000], -1)
TESTED = {"test_probs": TEST[0], "test_labels": TEST[1]}
WORK = ["calibrate", "probs.npy", "labels.npy", "--noise", "0.2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The same points as .npy, .npz and .csv with a header, labels as numbers and as names; calibrations."""
    path = tmp_path_factory.mktemp("made")
    np.save(path / "probs.npy", PROBS[:1000])
    np.save(path / "labels.npy", NOISY[:1000])
    np.save(path / "again.npy", TRUE[:1000])
    np.save(path / "clean.npy", CLEAN)
    np.savez(path / "test.npz", probs=PROBS[1000:], labels=TRUE[1000:], other=NOISY[1000:])
    write(path / "probs.csv", [NAMES, *PROBS[:1000].tolist()])
    write(path / "names.csv", [["animal"], *([NAMES[i]] for i in NOISY[:1000])])
    write(path / "truth.csv", [["id", "animal"], *([i, NAMES[j]] for i, j in enumerate(TRUE[1000:]))])
    np.save(path / "wide.npy", np.full((1000, 5), 0.2))
    late = PROBS[:1000].copy()
    late[-1] *= 2
    np.save(path / "late.npy", late)
    nacp.noise_from_privacy(2.0, 4).save(path / "four.json")
    nacp.calibrate(*CALIBRATION, noise=0.2).save(path / "cal.json")
    nacp.calibrate(PROBS[:1000], np.take(NAMES, NOISY[:1000]), noise=0.2, classes=NAMES).save(
        path / "named.json"
    )
    (path / "other.json").write_text('{"format": "other"}')
    (path / "folder").mkdir()
    (path / "empty.npy").touch()
    (path / "empty.csv").touch()
    return path


@pytest.fixture(autouse=True)
def folder(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def by_probability(sets, probs):
    """The labels of each set, by number, the most probable first."""
    numbers = nacp.PredictionSets(sets.offsets, sets.labels, k=sets.k)
    return [sorted(row, key=lambda label: -p[label]) for row, p in zip(numbers, probs, strict=True)]


# What the commands do


@pytest.mark.parametrize(("probs", "labels"), [("probs.npy", "labels.npy"), ("probs.csv", "names.csv")])
def test_calibrate_predict_and_evaluate_do_what_the_functions_do(probs, labels):
    said = done("calibrate", probs, labels, "--noise", "0.2", "--score", "raps")
    cal = nacp.calibrate(*CALIBRATION, noise=0.2, score="raps")
    assert cal.promise in plain(said)
    assert nacp.load("cal.json").threshold == cal.threshold
    sets = cal.predict_set(TEST[0])
    named = labels == "names.csv"
    done("predict", "cal.json", "test.npz", "-o", "sets.jsonl")
    ordered = by_probability(sets, TEST[0])
    assert json_lines("sets.jsonl") == [[NAMES[i] for i in row] if named else row for row in ordered]
    said = done("evaluate", "cal.json", "test.npz:probs", "truth.csv" if named else "test.npz")
    assert "pass" in said
    assert f"{nacp.evaluate(sets, TEST[1]).coverage:.6g}" in said


def test_named_columns_in_another_order_are_the_same_classes():
    done("predict", "named.json", "probs.csv", "-o", "a.jsonl")
    turned = [NAMES[::-1], *PROBS[:1000, ::-1].tolist()]
    write("turned.csv", turned)
    done("predict", "named.json", "turned.csv", "-o", "b.jsonl")
    assert json_lines("a.jsonl") == json_lines("b.jsonl")
    write("other.csv", [["emu", *NAMES[2::-1]], *turned[1:]])
    said = done("predict", "named.json", "other.csv", code=2)
    assert "other.csv has no column 'dog'; its columns are emu, cat, bee, ant" in said


def test_options_reach_the_function():
    P = nacp.UniformNoise(0.3).matrix(4).dense()
    np.save("noise.npy", P)
    interval = nacp.UniformNoise(0.2, interval=(0.1, 0.3), confidence=0.9)
    for given, wanted in [
        ("--noise noise.npy", {"noise": P}),
        ("--noise none", {"noise": None}),
        ("--noise-other 0.15", {"noise": nacp.UniformNoise.other(0.15, 4)}),
        (
            "--noise 0.2 --guarantee none --crossing first",
            {"noise": 0.2, "guarantee": "none", "crossing": "first"},
        ),
        ("--noise 0.2 --random-state 7 --delta 0.2", {"noise": 0.2, "random_state": 7, "delta": 0.2}),
        ("--noise 0.2 --noise-interval 0.1 0.3 --noise-confidence 0.9", {"noise": interval}),
        ("--noise 0.2 --alpha 0.2 --score aps", {"noise": 0.2, "alpha": 0.2, "score": "aps"}),
    ]:
        done("calibrate", "probs.npy", "labels.npy", *given.split())
        assert nacp.load("cal.json") == nacp.calibrate(*CALIBRATION, **wanted)
    np.save("scaled.npy", 3 * PROBS[:1000])
    done("calibrate", "scaled.npy", "labels.npy", "--noise", "0.2", "--normalize")
    scaled = nacp.calibrate(3 * PROBS[:1000], NOISY[:1000], noise=0.2, normalize=True)
    assert nacp.load("cal.json") == scaled


def test_logits_are_taken_if_that_is_said():
    logits = np.log(PROBS[:1000]) + RNG.random((1000, 1)) + 3
    np.save("logits.npy", logits)
    work = ["calibrate", "logits.npy", "labels.npy", "--noise", "0.2"]
    assert "logits.npy looks like logits" in done(*work, code=2)
    assert "--from-logits makes probabilities" in done(*work, "--from-logits", "--normalize", code=2)
    done(*work, "--from-logits")
    assert nacp.load("cal.json") == nacp.calibrate(logits, NOISY[:1000], noise=0.2, from_logits=True)
    done("diagnose", "cal.json", "logits.npy", "labels.npy")
    done("noise", "model", "logits.npy", "labels.npy", "--from-logits")


def test_the_rate_of_wrong_labels_is_converted():
    """Of 3 classes a third of the labels that are replaced stay right: .2 wrong are .3 replaced."""
    plans = [done("plan", "--k", "3", *words) for words in (["--noise-other", ".2"], ["--noise", ".3"])]
    assert plans[0] == plans[1]
    said = done("plan", "--k", "3", "--noise-other", "0.7", code=2)
    assert "--noise-other must lie in [0, 2/3)" in said


def test_plan_prints_what_the_function_finds():
    options = ["plan", "--k", "100", "--noise", "0.2", "--n", "5000"]
    said = done(*options, "--excess", "0.02")
    assert said.strip() == str(nacp.plan(k=100, noise=0.2, n=5000, excess=0.02))
    assert done(*options[:3], "--checked", "500").strip() == str(nacp.plan(k=100, checked=500))
    # The paper's correction at delta = .05, written out.
    paper = math.sqrt(math.log(4 / 0.05) / (2 * 5000 * (0.8 / 1.2) ** 2))
    assert f"{paper:.2g}" in next(line for line in said.splitlines() if line.startswith("nacp"))


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ("--guarantee pac --guarantee none", {"guarantees": ["pac", "none"]}),
        ("--score aps --test-probs test.npz --test-labels test.npz", {"scores": ["hps", "aps"], **TESTED}),
        ("--clean clean.npy", {"clean": CLEAN}),
    ],
)
def test_compare_prints_what_the_function_finds(options, given):
    command = ["compare", *WORK[1:], "--score", "hps", *options.split()]
    given = {"noise": 0.2, "scores": ["hps"]} | given
    found = nacp.compare(*CALIBRATION, **given)
    assert plain(done(*command)) == plain(found)
    rows = printed_json(*command)["rows"]
    assert [row["labels"] for row in rows] == [row.labels for row in found.rows]
    assert rows[0]["checked_estimate"] == found.rows[0].checked_estimate


def test_report_writes_the_page_that_the_function_makes(folder):
    texts = [f"text {i}" for i in range(300)]
    (folder / "texts.txt").write_text("\n".join(texts))
    np.savez("some.npz", probs=TEST[0][:300], labels=TEST[1][:300])
    shown = ["--title", "Ours", "--descriptions", "texts.txt", "--test-probs", "some.npz"]
    said = done("report", *WORK[1:], *shown, "--test-labels", "some.npz")
    report = nacp.make_report(
        *CALIBRATION,
        noise=0.2,
        title="Ours",
        descriptions=texts,
        **{name: values[:300] for name, values in TESTED.items()},
    )
    assert (folder / "report.html").read_text(encoding="utf-8") == report.html
    assert said.startswith(str(report.contents.calibration))


@pytest.mark.parametrize(
    "given",
    [
        ["--noise", "0.2", "--score", "raps"],
        pytest.param(["--clean", "clean.npy"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_a_saved_calibration_has_a_report(folder, given):
    done("calibrate", "probs.npy", "labels.npy", "--alpha", "0.2", *given)
    points = ["report", "cal.json", "probs.npy", "labels.npy", *(given if given[0] == "--clean" else [])]
    said = done(*points)
    assert said.startswith(str(nacp.load("cal.json")))
    options = {"calibration": nacp.load("cal.json")}
    if given[0] == "--clean":
        options["clean"] = CLEAN
    assert nacp.make_report(*CALIBRATION, **options).html == (folder / "report.html").read_text(
        encoding="utf-8"
    )
    assert "--alpha is that of the calibration" in done(*points, "--alpha", "0.3", code=2)
    assert "must be PROBS and LABELS, or CALIBRATION" in done("report", "cal.json", code=2)


def test_diagnose_sets_checked_labels_against_the_model():
    for rate, code in ((0.2, 0), (0.02, 1)):
        done("calibrate", "probs.npy", "labels.npy", "--noise", rate)
        found = nacp.load("cal.json").diagnose(*CALIBRATION, clean=CLEAN)
        assert found.claim.generous == bool(code)
        command = ["diagnose", "cal.json", "probs.npy", "labels.npy", "--clean", "clean.npy"]
        assert plain(done(*command, code=code)) == plain(found)
        assert printed_json(*command, code=code)["claim"] == found.claim._asdict()
    done("calibrate", "probs.npy", "labels.npy", "--clean", "clean.npy")
    said = done("diagnose", "cal.json", "probs.npy", "labels.npy", "--clean", "clean.npy", code=2)
    assert "no model to test; diagnose a calibration that was made with --noise" in said


def test_a_promise_that_cannot_be_kept_is_told_on_standard_error():
    result = run(app, [*WORK, "--alpha", "0.0001", "--json"])
    assert result.exit_code == 0
    assert "Warning: no threshold keeps the promise" in result.stderr
    document = json.loads(result.stdout)
    assert document["threshold"] == "inf"
    assert document["obstacle"]


def test_standard_input_and_output_serve_as_files(folder):
    result = run(app, ["predict", "named.json", "-", "-o", "-"], input=(folder / "probs.csv").read_text())
    read = [json.loads(line) for line in result.stdout.splitlines()]
    sets = nacp.load("named.json").predict_set(PROBS[:1000])
    assert read == [[NAMES[i] for i in row] for row in by_probability(sets, PROBS[:1000])]
    assert "1,000 sets of" in result.stderr


# Checked labels


def test_checked_labels_are_a_file_like_the_labels(folder):
    """As an array with -1 and as a table with empty cells: one and the same threshold."""
    np.save("odd.npy", np.where(CLEAN == 3, 9, CLEAN))
    (folder / "short.csv").write_text("1\n\n2\n")
    expected = nacp.calibrate(*CALIBRATION, clean=CLEAN).threshold
    work = ["calibrate", "probs.npy", "labels.npy"]
    cells = ["" if each < 0 else each for each in CLEAN]
    write("table.csv", [["id", "true"], *enumerate(cells)])
    lines = "".join(f"{cell}\n" for cell in cells)
    for file, text in {"lines": lines, "headed": f"true\n{lines}\n\n", "longer": f"{lines}\n"}.items():
        (folder / f"{file}.csv").write_text(text)
    for file in ("clean.npy", "table.csv", "lines.csv", "headed.csv", "longer.csv"):
        said = printed_json(*work, "--clean", file)
        assert (said["threshold"], said["checked"]) == (expected, 250)
    for given, words in {
        "--clean odd.npy": "--clean must lie from 0 to 3",
        "": "--noise must be given",
        "--clean clean.npy --guarantee nacp": "--guarantee",
        "--clean clean.npy --noise-interval 0.1 0.2": "--noise-interval is of a noise",
        "--clean clean.npy --noise-confidence 0.9": "--noise-confidence is of a noise",
        "--clean short.csv": "short.csv holds 3 values, but probs.npy has 1,000 rows",
    }.items():
        assert words in done(*work, *given.split(), code=2)


@pytest.mark.parametrize(("probs", "labels"), [("probs.npy", "labels.npy"), ("probs.csv", "names.csv")])
def test_an_audit_is_chosen_filled_in_and_used(probs, labels):
    write("items.csv", [["id", "text"], *([f"i{i}", f'a, "b" {i}'] for i in range(1000))])
    options = ["--budget", "90", "--items", "items.csv", "--noise", "0.2"]
    said = done("audit", "choose", probs, labels, *options)
    plan = nacp.choose_audit(*CALIBRATION, budget=90, noise=0.2)
    assert plain(plan) in plain(said)
    with open("to-check.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == plan.rows.tolist()
    assert all(row["id"] == f"i{row['row']}" and row["text"] == f'a, "b" {row["row"]}' for row in rows)
    shown = NAMES if labels == "names.csv" else "0123"
    first = int(rows[0]["row"])
    assert rows[0]["given"] == shown[NOISY[first]]
    assert rows[0]["most probable"].startswith(shown[np.argmax(PROBS[first])])
    some = plan.rows[:70]
    fill({row: shown[TRUE[row]] for row in some.tolist()})
    done("calibrate", probs, labels, "--audit", "filled.csv", "--alpha", "0.2")
    cal = nacp.calibrate(*CALIBRATION, clean=(some, TRUE[some]), audit=plan, alpha=0.2)
    loaded = nacp.load("cal.json")
    assert (loaded.checked, loaded.planned) == (70, 90)
    assert loaded.native_threshold == cal.native_threshold
    done("audit", "choose", probs, labels, *options, "--looks", "3")
    plan = nacp.choose_audit(*CALIBRATION, budget=90, noise=0.2, looks=3)
    fill({row: shown[TRUE[row]] for row in plan.rows[:70].tolist()})
    done("calibrate", probs, labels, "--audit", "filled.csv", "--alpha", "0.2")
    assert (nacp.load("cal.json").look, nacp.load("cal.json").checked) == (2, 60)


def test_an_audit_that_was_filled_in_wrongly_gets_one_sentence():
    choose, cells = ("audit", "choose", "probs.npy", "labels.npy", "--budget", "60"), dict(enumerate(TRUE))
    done(*choose)
    assert 1 not in nacp.choose_audit(*CALIBRATION, budget=60).rows
    use = ("calibrate", "probs.npy", "labels.npy", "--audit", "filled.csv")
    for words, given, change in [
        ("has nothing in its column", {}, None),
        ("must name the file of one plan in its column", cells, ("plan", "other.json")),
        ("has a row that is no number", cells, ("row", "x")),
        ("has a row that is no number", cells, ("row", "9" * 5000)),
        ("which the audit did not choose", cells, ("row", "1")),
        ("must lie from 0 to 3", cells, ("checked", "7")),
    ]:
        fill(given, change)
        assert words in done(*use, code=2)
    fill(cells)
    Path("filled.csv").write_text(Path("filled.csv").read_text().replace("plan", "plans", 1))
    assert 'has no column "plan"' in done(*use, code=2)
    fill(cells, ("checked", "2.0"))  # as a spreadsheet writes it
    done(*use)
    fill(cells, ("checked", "?"))
    assert "count as misses: 1" in done(*use)
    said = done("calibrate", "test.npz", "test.npz:other", "--audit", "filled.csv", code=2)
    assert "was chosen from other points than these" in said
    assert "give one of them" in done(*use, "--clean", "again.npy", code=2)
    write("items.csv", [["id", "checked"], *([i, 1] for i in range(1000))])
    assert 'has a column "checked"' in done(*choose, "--items", "items.csv", code=2)
    assert "must end in .csv" in done(*choose, "-o", "to-check.txt", code=2)


@pytest.mark.parametrize("names", [None, [1, 2, 3, 4], ["a", "b", "c", "d"]])
@pytest.mark.parametrize("written", [str, lambda number: f"{number}.0"], ids=["whole", "by a spreadsheet"])
def test_a_checked_label_is_the_class_of_that_name_in_every_file(names, written):
    called, given = names or range(4), ["probs.npy", "y.csv"]
    write("y.csv", [["label"], *([called[each]] for each in NOISY[:1000])])
    if names is not None:
        Path("c.txt").write_text("".join(f"{name}\n" for name in names))
        given += ["--classes", "c.txt"]
    done("audit", "choose", *given, "--budget", "90")
    plan = nacp.choose_audit(*CALIBRATION, budget=90)
    shown = [written(name) if isinstance(name, int) else name for name in called]
    cells = {row: shown[TRUE[row]] for row in plan.rows.tolist()}
    cells |= dict(zip(plan.rows[:5].tolist(), ["", "-1", "nan", "NA", "?"], strict=True))
    fill(cells)
    write("clean.csv", [["id", "checked"], *([i, cells.get(i, "")] for i in range(1000))])
    clean = plan.rows[4:], ["?", *TRUE[plan.rows[5:]]]
    for option, audit in (("--audit", {"audit": plan}), ("--clean", {})):
        done("calibrate", *given, option, "filled.csv" if audit else "clean.csv", "--alpha", "0.2")
        wanted, found = nacp.calibrate(*CALIBRATION, clean=clean, alpha=0.2, **audit), nacp.load("cal.json")
        assert found.native_threshold == wanted.native_threshold
        assert (found.checked, found.note) == (86, wanted.note)


# What the user gets, and numbers in other units


@pytest.mark.parametrize("options", [[], ["--groups", "sides.csv"], ["--by", "class", "--guarantee", "none"]])
def test_calibrate_says_first_how_large_the_sets_are(options):
    sides = np.where(np.arange(1000) % 2, "left", "right")
    write("sides.csv", [[each] for each in sides])
    said = done(*WORK, *options)
    groups = {"groups": sides} if "--groups" in options else {}
    sizes = nacp.load("cal.json").predict_set(PROBS[:1000], **groups).sizes
    mean, empty, single = sizes.mean(), (sizes == 0).mean(), (sizes == 1).mean()
    first = f"On the calibration rows, a set holds {mean:.4g} of 4 classes on average; "
    first += f"{empty:.1%} of the sets are empty, {single:.1%} hold one class."
    assert plain(said).startswith(first)
    document = printed_json(*WORK, *options)
    assert [document[each] for each in ("mean_size", "empty", "singleton")] == [mean, empty, single]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("turned.npy labels.npy --noise 0.2", "The warning about the labels may be the reason."),
        (
            "probs.npy labels.npy --noise rough.json",
            "The noise is known too roughly for small sets. If these",
        ),
        ("flat.npy labels.npy --noise 0.2", "The classifier separates these classes poorly, or alpha is"),
        ("few.npy few-labels.npy --noise 0.2 --alpha 0.07", "There are few labels for this promise; nacp"),
    ],
)
def test_sets_of_more_than_half_of_the_classes_get_the_likely_reason(arguments, words):
    np.save("turned.npy", PROBS[999::-1])
    np.save("flat.npy", 0.15 * PROBS[:1000] + 0.85 * RNG.dirichlet(np.ones(4), size=1000))
    np.save("few.npy", PROBS[:30])
    np.save("few-labels.npy", NOISY[:30])
    nacp.noise_from_audit(NOISY[:90], TRUE[:90], k=4, model="matrix").save("rough.json")
    guarantee = "pac" if "few" in arguments else "expected"
    said = plain(done("calibrate", *arguments.split(), "--guarantee", guarantee))
    assert re.search(f"Warning: (sets hold more than half|no threshold keeps).*[.] {re.escape(words)}", said)
    assert said.index("Written: cal.json") < said.index(words), "it may refer to a warning in the result"
    assert "more than half" not in done(*WORK)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            "--alpha 90 --noise 0.2",
            "--alpha must lie strictly between 0 and 1; found 90.0; for 90% coverage give --alpha 0.1",
        ),
        ("--alpha 10% --noise 0.2", "'--alpha': '10%' is not a number; for 90% coverage give --alpha 0.1"),
        ("--noise 20%", "--noise must be a rate such as 0.2"),
    ],
)
def test_shares_said_in_percent_are_refused_with_the_share(options, words):
    assert words in done("calibrate", "probs.npy", "labels.npy", *options.split(), code=2)


def test_an_alpha_that_was_meant_as_coverage_is_doubted():
    said = done(*WORK, "--alpha", "0.9")
    assert (
        "Warning: alpha = 0.9 is the share of true labels that sets may miss, so only 0.1 is promised" in said
    )
    assert "alpha =" not in done(*WORK, "--alpha", "0.4")


def test_labels_that_start_at_1_are_seen():
    np.save("from-1.npy", NOISY[:1000] + 1)
    write("from-1.csv", [[each] for each in NOISY[:1000] + 1])
    for labels in ("from-1.npy", "from-1.csv"):
        said = done("calibrate", "probs.npy", labels, "--noise", "0.2", code=2)
        assert "do they start at 1? then subtract 1" in said
        said = done("calibrate", "probs.csv", labels, "--noise", "0.2", code=2)
        assert "give labels by name; numbers are for classes without names (no header" in said


def test_an_audit_serves_every_command_that_takes_checked_labels():
    done("audit", "choose", "probs.npy", "labels.npy", "--budget", "200")
    plan = nacp.choose_audit(*CALIBRATION, budget=200)
    fill({row: TRUE[row] for row in plan.rows.tolist()})
    given = {"clean": (plan.rows, TRUE[plan.rows]), "audit": plan}
    points = ("probs.npy", "labels.npy", "--audit", "filled.csv")
    found = nacp.compare(*CALIBRATION, scores=["hps"], **given)
    assert plain(done("compare", *points, "--score", "hps")) == plain(found)
    done(*WORK, "-o", "model.json")
    said = done("diagnose", "model.json", *points)
    assert plain(said) == plain(nacp.load("model.json").diagnose(*CALIBRATION, **given))
    done("report", *points, "-o", "report.html")
    assert "200" in Path("report.html").read_text(encoding="utf-8")


# What is wrong gets one sentence


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("calibrate none.npy labels.npy --noise 0.2", "none.npy does not exist"),
        ("predict probs.npy cal.json", "probs.npy is not a calibration file"),
        ("calibrate probs.npy names.csv --noise 0.2", "give --classes FILE with the names of the classes"),
        ("calibrate probs.npy labels.npy --noise 0.2 -o no/cal.json", "no folder no"),
        ("predict cal.json wide.npy", "5 columns, but the calibration was made with 4 classes"),
        ("predict cal.json probs.npy -o /proc/x.jsonl", "Error: /proc/x.jsonl: "),
        # Advice is about the command line.
        ("calibrate logits.npy labels.npy --noise 0.2", "give --from-logits"),
        ("predict cal.json late.npy", "; nacp calibrate --normalize divides by the row sums"),
        ("predict cal.json narrow.npy", "calibrate with a file of float32, too"),
        ("evaluate cal.json test.npz truth.csv", "calibrate with --classes FILE"),
        ("evaluate cal.json test.npz", "LABELS must be given; or --clean FILE"),
        ("evaluate cal.json test.npz test.npz --id ident", "--id must name a column of ids, which no"),
        ("predict named.json probs.csv --id ident", "probs.csv holds no 'ident', but ant, bee"),
        ("calibrate names.csv probs.csv --noise 0.2", "; probabilities come first, then labels"),
        ("diagnose checked.json probs.npy labels.npy", "checked.json rests on checked labels"),
    ],
)
def test_what_is_wrong_gets_one_sentence(command, words):
    probs = PROBS[:1000]
    np.save("logits.npy", np.log(probs) + 3)
    np.save("narrow.npy", probs.astype(np.float32))
    nacp.calibrate(*CALIBRATION, clean=CLEAN).save("checked.json")
    said = done(*command.split(), code=2)
    assert said.startswith("Error: ")
    assert words in said
    assert len(said.strip().splitlines()) == 1
    assert not re.search(r"\bnp\.|scipy|\w=(True|\W)|\(P\)", said)


@pytest.mark.parametrize(
    ("start", "command"),
    [
        ("nan.npy holds NaN", "calibrate nan.npy labels.npy --noise 0.2"),
        ("fives.npy must lie from 0 to 3", "calibrate probs.npy fives.npy --noise 0.2"),
        ("standard input must have rows that sum to 1", "predict cal.json -"),
        ("--noise-interval must", "calibrate probs.npy labels.npy --noise 0.2 --noise-interval 0.3 0.4"),
        ("--noise-confidence must lie", "plan --k 4 --noise 0 --noise-interval 0 0.4 --noise-confidence 2"),
        ("--test-probs holds NaN", "compare probs.npy labels.npy --noise 0 --test-probs nan.npy"),
        ("EPSILON must be", "noise privacy --k 4 0"),
    ],
)
def test_an_argument_is_called_what_was_typed_for_it(start, command):
    np.save("nan.npy", np.full((1000, 4), np.nan))
    np.save("fives.npy", np.full(1000, 5))
    said = done(*command.split(), code=2, input="0.5,0.5,0.5,0.5\n")
    assert said.startswith(f"Error: {start}")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("calibrate a b --alpha 10%", "invalid value for '--alpha'"),
        ("calibrate a", "missing argument 'LABELS' (see root calibrate --help)"),
        ("calibrate a b --clean", "option '--clean' requires an argument (see nacp --help)"),
    ],
)
def test_a_wrong_option_gets_one_line(command, words):
    said = done(*command.split(), code=2, prog_name="root")
    assert said.startswith("Error: ")
    assert words in said
    assert len(said.splitlines()) == 1


def test_a_wrong_field_of_a_file_is_no_option(folder):
    document = json.loads((folder / "cal.json").read_text())
    for name, value in {"n": 0, "alpha": 2, "k": 1}.items():
        (folder / "bad.json").write_text(json.dumps(sealed(document | {name: value})))
        said = done("evaluate", "bad.json", "test.npz", "test.npz", code=2)
        assert said.startswith(f"Error: bad.json cannot be used: {name} must")
    estimate = json.loads((folder / "four.json").read_text())
    (folder / "bad.json").write_text(json.dumps(sealed(estimate | {"k": 0})))
    said = done("plan", "--k", "4", "--noise", "bad.json", code=2)
    assert said.startswith("Error: bad.json cannot be used: k must")


# Help


def commands(group, *names):
    """Walk over all commands, those of groups of commands too."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield [*names, name], command


COMMANDS = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("group", [[], ["noise"], ["audit"]], ids=["nacp", "noise", "audit"])
def test_a_group_without_a_command_prints_its_help_once(group):
    said = done(*group, code=2)
    assert said.count("Usage:") == 1
    assert plain(said) == plain(done(*group, "--help"))


@pytest.mark.parametrize(("names", "command"), COMMANDS, ids=[" ".join(names) for names, _ in COMMANDS])
def test_every_command_explains_itself_with_examples_of_their_own(names, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    said = done(*names, "--help")
    block = said[said.index("Examples") :].splitlines()[1:]
    examples = [line.strip() for line in block if line.strip()]
    assert any(line.startswith(f"$ nacp {' '.join(names)}") for line in examples)
    options = {option for each in command.params for option in each.opts}
    assert {"--json", "--quiet", "-q"} <= options
    arguments = re.search(r"\[OPTIONS\](.*)", said)[1]
    assert arguments == arguments.upper()
    assert "[[" not in arguments
    assert names[-1] in done(*names[:-1], "--help")
    rows = [line.strip("│ ") for line in said.splitlines() if line.startswith("│")]
    assert not [row for row in rows if re.match(r"\w{1,3}>", row)], "no word is broken"
    assert "bool" not in said, "flags have no type"


def test_commands_are_listed_in_the_order_of_use():
    said = done("--help")
    order = ["noise", "audit", "plan", "compare", "calibrate", "predict", "evaluate", "diagnose"]
    order += ["report", "demo", "reproduce"]
    places = [re.search(rf"^\W*{name}\b", said, re.MULTILINE).start() for name in order]
    assert places == sorted(places)
    assert len(places) == len({names[0] for names, _ in COMMANDS})
    assert "nacp diagnose rejects a noise model" in plain(said.replace("│", " "))


def test_the_version_and_the_engine_are_printed():
    assert re.fullmatch(rf"nacp {re.escape(nacp.__version__)} \(engine: \w+\)\n", done("--version"))
