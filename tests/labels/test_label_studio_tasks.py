"""Checking labels in Label Studio: tasks out, exports in. `make test-label-studio` does it with a server."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import nacp
from nacp.paper import twins
from tests.cli.command_line import done, plain

NAMES = ["ant", "bee", "cat & dog", *"defghij"]
PROBS, TRUE = twins.simulate("cifar10", n=600, random_state=0)
NOISY = nacp.UniformNoise(0.2).sample(TRUE, 10, random_state=0)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("probs.npy", PROBS)
    Path("names.txt").write_text("\n".join(NAMES))
    Path("labels.csv").write_text("label\n" + "".join(f"{NAMES[y]}\n" for y in NOISY))
    Path("items.csv").write_text("file,the text\n" + "".join(f"{i}.png,note {i}\n" for i in range(600)))


def choose(*more):
    given = ["probs.npy", "labels.csv", "--classes", "names.txt", "--budget", "60", "--items", "items.csv"]
    done("audit", "choose", *given, "--to", "label-studio", *more)
    return json.loads(Path("to-check.json").read_text())


def annotated(tasks, labels):
    """The tasks as Label Studio exports them."""
    export = []
    for i, (task, by_person) in enumerate(zip(tasks, labels, strict=True)):
        results = [
            [{"type": "choices", "from_name": "checked", "to_name": "shown0", "value": {"choices": [label]}}]
            for label in by_person
        ]
        annotations = [{"completed_by": p, "result": result} for p, result in enumerate(results)]
        export.append({"id": 1000 + i, "annotations": annotations, **task})
    return export


def test_tasks_do_not_show_the_given_labels_unless_that_is_asked_for():
    tasks, plan = choose(), nacp.choose_audit(PROBS, NOISY, budget=60)
    assert [task["data"]["row"] for task in tasks] == plan.rows.tolist()
    row = tasks[3]["data"]["row"]
    assert tasks[3] == {
        "data": {"row": row, "file": f"{row}.png", "the_text": f"note {row}", "plan": "to-check.plan.json"}
    }
    interface = ElementTree.fromstring(Path("to-check.xml").read_text())
    assert [each.get("value") for each in interface.iter("Choice")] == [*NAMES, "?"]
    assert [(each.tag, each.get("value")) for each in interface][:2] == [
        ("Image", "$file"),
        ("Text", "$the_text"),
    ]
    shown = choose("--show-labels")[3]["data"]
    assert shown["given"] == NAMES[NOISY[row]]
    assert shown["most_probable"].startswith(NAMES[PROBS[row].argmax()])


def test_an_export_is_read_back_with_the_rows_of_its_tasks():
    tasks = choose()[::-1]
    rows = np.array([task["data"]["row"] for task in tasks])
    labels = [["?"], *([NAMES[y]] * 2 for y in TRUE[rows[1:50]]), *[[]] * 10]
    short = [
        {**task["data"], "id": i, "checked": given[0], "annotator": 1, "annotation_id": i}
        for i, (task, given) in enumerate(zip(tasks, labels, strict=True))
        if given
    ]
    Path("export.json").write_text(json.dumps(annotated(tasks, labels)))
    Path("short.json").write_text(json.dumps(short))
    plan, clean = nacp.choose_audit(PROBS, NOISY, budget=60), (rows[:50], ["?", *TRUE[rows[1:50]].tolist()])
    wanted = nacp.calibrate(PROBS, NOISY, clean=clean, audit=plan, alpha=0.2)
    for export in ("export.json", "short.json"):
        given = ["probs.npy", "labels.csv", "--classes", "names.txt", "--audit", export, "--alpha", "0.2"]
        done("calibrate", *given)
        found = nacp.load("cal.json")
        assert (found.threshold, found.checked, found.note) == (wanted.threshold, 50, wanted.note)


def test_an_export_of_something_else_gets_one_sentence():
    tasks = choose()
    given = ["calibrate", "probs.npy", "labels.csv", "--classes", "names.txt", "--audit", "export.json"]
    for content, words in {
        "{": "export.json is not JSON",
        "5": "must be a list of tasks",
        "[]": 'has no answer to "checked"; export the tasks',
        json.dumps([{"id": 1, "data": {"text": "x"}, "annotations": []}]): "has no 'row' in task 0",
        json.dumps(annotated(tasks, [["ant", "bee"], *[["ant"]] * 59])): "has two labels for row",
        json.dumps(annotated(tasks, [["yak"]] * 60)): "'yak'",
        json.dumps(annotated(tasks, [[]] * 60)): 'has no answer to "checked"',
    }.items():
        Path("export.json").write_text(content)
        assert words in plain(done(*given, code=2))
    given = ["audit", "choose", *given[1:5], "--budget", "60", "--to", "label-studio", "-o", "x.csv"]
    assert "must end in .json" in plain(done(*given, code=2))
