"""Groups on the command line: the same thresholds and sets as in Python; a sentence for what is wrong."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli.main import app
from nacp.paper import twins

NAMES = tuple(f"c{i}" for i in range(5))


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in (*arguments, "-q")])


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(5, 0.2), 3000)
    labels = (probs.cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1)
    noisy = nacp.UniformNoise(0.1).sample(labels, 5, random_state=1)
    return probs, labels, noisy, np.array(["north", "south", "south"] * 1000)


@pytest.fixture
def folder(points, tmp_path):
    probs, labels, noisy, groups = points
    for name, rows in (("cal", slice(0, 2000)), ("test", slice(2000, 3000))):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*NAMES, "label", "truth", "hospital"])
            for p, given, true, group in zip(
                probs[rows].tolist(), noisy[rows], labels[rows], groups[rows], strict=True
            ):
                writer.writerow([*p, NAMES[given], NAMES[true], group])
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    return tmp_path


def calibrated(folder, *options):
    out = folder / "cal.json"
    done = run(
        "calibrate", folder / "cal.csv", f"{folder / 'cal.csv'}:label", "--classes", folder / "names.txt",
        "--noise", "0.1", "-o", out, *options,
    )  # fmt: skip
    return done, out


@pytest.mark.parametrize("kind", ["rows", "classes"])
def test_one_threshold_is_measured_in_each_group(folder, points, kind):
    """To see that "90% overall" hides a group that is covered less, before there are thresholds by group."""
    probs, labels, _, groups = points
    done, out = calibrated(folder)
    assert done.exit_code == 0, done.output
    kinds = {name: "few" if i < 3 else "many" for i, name in enumerate(NAMES)}
    (folder / "kinds.json").write_text(json.dumps(kinds))
    given = f"{folder / 'test.csv'}:hospital" if kind == "rows" else folder / "kinds.json"
    told = run(
        "evaluate", out, folder / "test.csv", f"{folder / 'test.csv'}:truth", "--groups", given, "--json"
    )
    sets = nacp.load(out).predict_set(probs[2000:])
    of = groups[2000:] if kind == "rows" else kinds
    wanted = nacp.evaluate(sets, np.array(NAMES)[labels[2000:]], groups=of).to_dict()
    assert json.loads(told.stdout)["groups"] == wanted["groups"]
    assert json.loads(told.stdout)["verdict"]["group"] is None


def test_groups_of_rows_from_a_column_of_the_table(folder, points):
    probs, labels, noisy, groups = points
    done, out = calibrated(folder, "--groups", f"{folder / 'cal.csv'}:hospital")
    assert done.exit_code == 0, done.output
    assert "south" in done.output
    ours = nacp.calibrate(probs[:2000], noisy[:2000], noise=0.1, groups=groups[:2000], classes=NAMES)
    assert nacp.load(out).thresholds == ours.thresholds
    sets = folder / "sets.jsonl"
    column = f"{folder / 'test.csv'}:hospital"
    assert run("predict", out, folder / "test.csv", "--groups", column, "-o", sets).exit_code == 0
    wanted = ours.predict_set(probs[2000:], groups=groups[2000:]).to_lists()
    assert [sorted(json.loads(line)) for line in sets.read_text().splitlines()] == wanted
    told = run(
        "evaluate", out, folder / "test.csv", f"{folder / 'test.csv'}:truth", "--groups", column, "--json"
    )
    found = json.loads(told.stdout)
    inside = np.array([NAMES[y] in each for y, each in zip(labels[2000:], wanted, strict=True)])
    for each in found["groups"]:
        assert each["coverage"] == inside[groups[2000:] == each["group"]].mean()
    assert found["verdict"]["group"] in ("north", "south")


@pytest.mark.parametrize("kind", ["json", "csv", "by class"])
def test_groups_of_classes(folder, points, kind):
    probs, _, noisy, _ = points
    groups = {name: "low" if name < "c2" else "high" for name in NAMES}
    if kind == "json":
        (folder / "groups.json").write_text(json.dumps(groups))
    elif kind == "csv":
        lines = [f"{name},{group}" for name, group in groups.items()]
        (folder / "groups.csv").write_text("\n".join(["class,group", *lines]))
    options = ["--by", "class"] if kind == "by class" else ["--groups", folder / f"groups.{kind}"]
    done, out = calibrated(folder, *options, "--guarantee", "none")
    assert done.exit_code == 0, done.output
    theirs = {"by": "class"} if kind == "by class" else {"groups": groups}
    ours = nacp.calibrate(probs[:2000], noisy[:2000], noise=0.1, guarantee="none", classes=NAMES, **theirs)
    assert nacp.load(out).thresholds == ours.thresholds
    told = run("evaluate", out, folder / "test.csv", f"{folder / 'test.csv'}:truth", "--json")
    assert {each["group"] for each in json.loads(told.stdout)["groups"]} == set(ours.names)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--groups", "short.csv"], "must hold 2,000 groups, one for each row of PROBS"),
        (["--groups", "twice.csv"], "has two lines for class 'c0'"),
        (["--groups", "list.json"], "must hold an object from classes to groups"),
        (["--groups", "some.json"], "has no group for class 'c1'"),
        (["--by", "class", "--groups", "some.json"], "says what the groups are"),
        (["--groups", "gap.jsonl"], "gap.jsonl has no group in row 1; give it a name of its own"),
        (["--groups", "gap.npy"], "gap.npy has no group in row 1; give it a name of its own"),
        (["--groups", "null.json"], "is missing in class 'c1'"),
        (["--groups", "blank.csv"], "is missing in class 'c1'"),
        (
            ["--groups", "one.csv"],
            "'one' (1 point); a group needs about 186 points; pass \"--small all\"",
        ),
        (["--simultaneous"], "--simultaneous has no effect without groups; give --groups or --by class"),
        (["--small", "merge"], "--small has no effect without groups; give --groups or --by class"),
    ],
)
def test_what_is_wrong_gets_a_sentence(folder, options, said):
    (folder / "short.csv").write_text("north\nsouth\n")
    (folder / "twice.csv").write_text("class,group\nc0,a\nc0,b\n")
    (folder / "list.json").write_text("[1]")
    gap = [None if i == 1 else 3.0 for i in range(2000)]
    (folder / "gap.jsonl").write_text("\n".join(json.dumps({"group": each}) for each in gap))
    np.save(folder / "gap.npy", np.array(gap, dtype=np.float64))
    (folder / "null.json").write_text(json.dumps({name: None if name == "c1" else "a" for name in NAMES}))
    (folder / "blank.csv").write_text("class,group\nc0,a\nc1,\nc2,a\nc3,a\nc4,a\n")
    (folder / "one.csv").write_text("\n".join(["one"] + ["many"] * 1999))
    (folder / "some.json").write_text('{"c0": "a"}')
    done, _ = calibrated(folder, *(folder / each if "." in each else each for each in options))
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_new_rows_need_their_groups_and_known_ones(folder):
    done, out = calibrated(folder, "--groups", f"{folder / 'cal.csv'}:hospital")
    assert done.exit_code == 0
    bare = run("predict", out, folder / "test.csv", "-o", folder / "s.jsonl")
    assert (bare.exit_code, "--groups must be given" in bare.output) == (2, True)
    (folder / "other.csv").write_text("\n".join(["north"] * 999 + ["east"]))
    other = run(
        "predict", out, folder / "test.csv", "--groups", folder / "other.csv", "-o", folder / "s.jsonl"
    )
    assert other.exit_code == 2
    assert "'east'" in other.output
    assert "row 999" in other.output


def test_groups_that_are_numbers_in_python_are_found_in_files(folder, points):
    probs, _, noisy, groups = points
    numbers, out = np.where(groups == "north", 1, 2), folder / "numbers.json"
    cal = nacp.calibrate(probs[:2000], noisy[:2000], noise=0.1, groups=numbers[:2000], classes=NAMES)
    cal.save(out)
    wanted = cal.predict_set(probs[2000:], groups=numbers[2000:]).to_lists()
    (folder / "new.csv").write_text("\n".join(map(str, numbers[2000:])))
    np.save(folder / "new.npy", numbers[2000:].astype(np.float64))
    for name in ("new.csv", "new.npy"):
        sets = folder / "sets.jsonl"
        done = run("predict", out, folder / "test.csv", "--groups", folder / name, "-o", sets)
        assert done.exit_code == 0, done.output
        assert [sorted(json.loads(line)) for line in sets.read_text().splitlines()] == wanted


def test_a_promise_that_one_group_breaks_fails():
    probs, labels = twins.simulate("cifar10", n=6000, random_state=0)
    groups = np.array(["a", "b"] * 3000)
    noisy = nacp.UniformNoise(0.1).sample(labels, 10, random_state=1)
    cal = nacp.calibrate(probs[:4000], noisy[:4000], noise=0.1, groups=groups[:4000])
    wrong = np.where(groups == "b", (labels + 1) % 10, labels)[4000:]
    sets = cal.predict_set(probs[4000:], groups=groups[4000:])
    assert nacp.judge(cal, nacp.evaluate(sets, labels[4000:], groups=groups[4000:])).passed
    verdict = nacp.judge(cal, nacp.evaluate(sets, wrong, groups=groups[4000:]))
    assert (verdict.passed, verdict.group) == (False, "b")
    with pytest.raises(nacp.InputError, match="pass these as groups= to evaluate"):
        nacp.judge(cal, nacp.evaluate(sets, labels[4000:]))


def test_a_plan_for_groups_says_what_python_says(tmp_path):
    shares = tmp_path / "shares.json"
    shares.write_text('{"north": 0.25, "south": 0.75}')
    said = run("plan", "--k", 5, "--noise", 0.2, "--points", 4000, "--groups", shares, "--json")
    assert said.exit_code == 0, said.output
    found = nacp.plan(k=5, noise=0.2, n=4000, groups={"north": 0.25, "south": 0.75}).groups
    assert json.loads(said.stdout)["groups"] == [cost._asdict() for cost in found]
    assert "needed at least" in run("plan", "--k", 5, "--noise", 0.2, "--by", "class").stdout


def test_a_diagnosis_by_group_says_what_python_says(folder, points):
    probs, _, noisy, groups = points
    column = f"{folder / 'cal.csv'}:hospital"
    _, out = calibrated(folder, "--groups", column)
    said = run(
        "diagnose", out, folder / "cal.csv", f"{folder / 'cal.csv'}:label", "--groups", column, "--json"
    )
    assert said.exit_code == 0, said.output
    found = nacp.load(out).diagnose(probs[:2000], np.array(NAMES)[noisy[:2000]], groups=groups[:2000])
    told = json.loads(said.stdout)["groups"]
    assert [each["checks"][0]["share"] for each in told] == [
        each.checks[0].share for each in found.diagnoses.values()
    ]
    page = folder / "page.html"
    made = run(
        "report", folder / "cal.csv", f"{folder / 'cal.csv'}:label", "--classes", folder / "names.txt",
        "--noise", "0.1", "--groups", column, "-o", page, "--test-probs", folder / "test.csv",
        "--test-labels", f"{folder / 'test.csv'}:truth", "--test-groups", f"{folder / 'test.csv'}:hospital",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    assert "with one threshold for all" in page.read_text()
