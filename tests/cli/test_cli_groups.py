"""Groups on the command line: the same thresholds and sets as in Python; a sentence for what is wrong."""

import json

import numpy as np
import pytest

import nacp
from tests.cli.command_line import classified, json_lines, plain, printed_json, write
from tests.cli.command_line import done as run

NAMES = tuple(f"c{i}" for i in range(5))
PROBS, TRUE, NOISY = classified(3000, 5, noise=0.1)
GROUPS = np.array(["north", "south", "south"] * 1000)
CAL, TEST = slice(0, 2000), slice(2000, 3000)
NAMED_TRUE, NAMED = np.array(NAMES)[TRUE], np.array(NAMES)[NOISY]
COLUMN = ("--groups", "test.csv:hospital")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two tables of points, and calibrations: one threshold, and one for each hospital."""
    path = tmp_path_factory.mktemp("made")
    for name, rows in (("cal", CAL), ("test", TEST)):
        points = zip(PROBS[rows].tolist(), NOISY[rows], TRUE[rows], GROUPS[rows], strict=True)
        lines = [[*p, NAMES[given], NAMES[true], group] for p, given, true, group in points]
        write(path / f"{name}.csv", [[*NAMES, "label", "truth", "hospital"], *lines])
    (path / "names.txt").write_text("\n".join(NAMES))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        calibrated("-o", "one.json")
        calibrated("-o", "rows.json", "--groups", "cal.csv:hospital")
    return path


@pytest.fixture(autouse=True)
def folder(made, tmp_path, monkeypatch):
    for name in made.iterdir():
        (tmp_path / name.name).symlink_to(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def calibrated(*options, code=0):
    points = ("calibrate", "cal.csv", "cal.csv:label", "--classes", "names.txt", "--noise", "0.1")
    return run(*points, *options, code=code)


@pytest.mark.parametrize("kind", ["rows", "classes"])
def test_one_threshold_is_measured_in_each_group(folder, kind):
    """To see that "90% overall" hides a group that is covered less, before there are thresholds by group."""
    kinds = {name: "few" if i < 3 else "many" for i, name in enumerate(NAMES)}
    (folder / "kinds.json").write_text(json.dumps(kinds))
    given = COLUMN if kind == "rows" else ("--groups", "kinds.json")
    told = printed_json("evaluate", "one.json", "test.csv", "test.csv:truth", *given)
    sets = nacp.load("one.json").predict_set(PROBS[TEST])
    of = GROUPS[TEST] if kind == "rows" else kinds
    assert told["groups"] == nacp.evaluate(sets, NAMED_TRUE[TEST], groups=of).to_dict()["groups"]
    assert told["verdict"]["group"] is None


def test_groups_of_rows_from_a_column_of_the_table(folder):
    ours = nacp.calibrate(PROBS[CAL], NAMED[CAL], noise=0.1, groups=GROUPS[CAL], classes=NAMES)
    assert nacp.load("rows.json").thresholds == ours.thresholds
    run("predict", "rows.json", "test.csv", *COLUMN, "-o", "sets.jsonl")
    wanted = ours.predict_set(PROBS[TEST], groups=GROUPS[TEST]).to_lists()
    assert [sorted(line) for line in json_lines("sets.jsonl")] == wanted
    found = printed_json("evaluate", "rows.json", "test.csv", "test.csv:truth", *COLUMN)
    inside = np.array([true in each for true, each in zip(NAMED_TRUE[TEST], wanted, strict=True)])
    for each in found["groups"]:
        assert each["coverage"] == inside[GROUPS[TEST] == each["group"]].mean()
    assert found["verdict"]["group"] in ("north", "south")


@pytest.mark.parametrize("kind", ["json", "by class"])
def test_groups_of_classes(folder, kind):
    groups = {name: "low" if name < "c2" else "high" for name in NAMES}
    (folder / "groups.json").write_text(json.dumps(groups))
    options = ["--by", "class"] if kind == "by class" else ["--groups", "groups.json"]
    calibrated(*options, "--guarantee", "none")
    theirs = {"by": "class"} if kind == "by class" else {"groups": groups}
    ours = nacp.calibrate(PROBS[CAL], NAMED[CAL], noise=0.1, guarantee="none", classes=NAMES, **theirs)
    assert nacp.load("cal.json").thresholds == ours.thresholds
    told = printed_json("evaluate", "cal.json", "test.csv", "test.csv:truth", code=None)
    assert {each["group"] for each in told["groups"]} == set(ours.names)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--groups", "short.csv"], "short.csv holds 2 values, but cal.csv has 2,000 rows"),
        (["--groups", "some.json"], "has no group for class 'c1'"),
        (["--by", "class", "--groups", "some.json"], "says what the groups are"),
        (["--groups", "gap.npy"], "gap.npy has no group in row 1; give it a name of its own"),
        (["--groups", "one.csv"], "'one' (1 point); a group needs about 186 points; pass \"--small all\""),
        (["--small", "merge"], "--small has no effect without groups; give --groups or --by class"),
    ],
)
def test_what_is_wrong_gets_a_sentence(folder, options, said):
    np.save("gap.npy", np.where(np.arange(2000) == 1, np.nan, 3.0))
    for name, text in {
        "short.csv": "north\nsouth\n",
        "one.csv": "\n".join(["one"] + ["many"] * 1999),
        "some.json": '{"c0": "a"}',
    }.items():
        (folder / name).write_text(text)
    assert said in plain(calibrated(*options, code=2))


def test_new_rows_need_their_groups_and_known_ones(folder):
    assert "--groups must be given" in run("predict", "rows.json", "test.csv", code=2)
    (folder / "other.csv").write_text("\n".join(["north"] * 999 + ["east"]))
    said = run("predict", "rows.json", "test.csv", "--groups", "other.csv", code=2)
    assert "'east'" in said
    assert "row 999" in said
    assert "--groups has no effect" in run("predict", "one.json", "test.csv", *COLUMN, code=2)


def test_groups_that_are_numbers_in_python_are_found_in_files(folder):
    numbers = np.where(GROUPS == "north", 1, 2)
    cal = nacp.calibrate(PROBS[CAL], NAMED[CAL], noise=0.1, groups=numbers[CAL], classes=NAMES)
    cal.save("numbers.json")
    wanted = cal.predict_set(PROBS[TEST], groups=numbers[TEST]).to_lists()
    write("new.csv", [[each] for each in numbers[TEST]])
    np.save("new.npy", numbers[TEST].astype(np.float64))
    for name in ("new.csv", "new.npy"):
        run("predict", "numbers.json", "test.csv", "--groups", name, "-o", "sets.jsonl")
        assert [sorted(line) for line in json_lines("sets.jsonl")] == wanted


def test_a_plan_for_groups_says_what_python_says(folder):
    (folder / "shares.json").write_text('{"north": 0.25, "south": 0.75}')
    plan = ("plan", "--k", 5, "--noise", 0.2)
    told = printed_json(*plan, "--n", 4000, "--groups", "shares.json")
    found = nacp.plan(k=5, noise=0.2, n=4000, groups={"north": 0.25, "south": 0.75}).groups
    assert told["groups"] == [cost._asdict() for cost in found]
    assert "needed at least" in run(*plan, "--by", "class")


def test_a_diagnosis_by_group_says_what_python_says():
    column = ("--groups", "cal.csv:hospital")
    told = printed_json("diagnose", "rows.json", "cal.csv", "cal.csv:label", *column)
    cal = nacp.load("rows.json")
    found = cal.diagnose(PROBS[CAL], np.array(NAMES)[NOISY[CAL]], groups=GROUPS[CAL])
    shares = [each.checks[0].share for each in found.diagnoses.values()]
    assert [each["checks"][0]["share"] for each in told["groups"]] == shares


def test_a_report_by_group_measures_the_groups_of_test_points(folder):
    points = ("report", "cal.csv", "cal.csv:label", "--classes", "names.txt", "--noise", "0.1")
    test = "--test-probs test.csv --test-labels test.csv:truth --test-groups test.csv:hospital"
    run(*points, "--groups", "cal.csv:hospital", *test.split())
    assert "with one threshold for all" in (folder / "report.html").read_text()
