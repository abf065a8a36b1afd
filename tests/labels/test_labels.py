"""Exports of labelling tools: every format gives the same table; what is unclear is refused."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

import nacp
from nacp.errors import InputError
from nacp.labels import (
    GivenLabel,
    LabelTable,
    from_argilla,
    from_frame,
    from_label_studio,
    from_matrix,
    from_records,
    read,
)
from tests.cli.command_line import done, printed_json
from tests.cli.command_line import write as write_csv

# Two items; Ann and Bob labelled both, and the second was checked.
GIVEN = (
    GivenLabel("a", "Ann", "cat"),
    GivenLabel("a", "Bob", "dog"),
    GivenLabel("b", "Ann", "dog"),
    GivenLabel("b", "Bob", "dog"),
)
TRUTH = GivenLabel("b", "boss", "cat", checked=True)


def cells(table):
    """Return the content of a table, without its order and the names of those who checked."""
    return {(str(g.item), None if g.checked else str(g.annotator), g.label) for g in table.given}


EXPECTED = cells(LabelTable((*GIVEN, TRUTH)))
UNCHECKED = cells(LabelTable(GIVEN))

# Label Studio


def choice(by, label, control="kind", **more):
    value = {"type": "choices", "from_name": control, "to_name": "text", "value": {"choices": label}}
    return {"completed_by": by, "was_cancelled": False, "ground_truth": False, "result": [value]} | more


def studio():
    first = [choice("Ann", ["cat"]), choice("Bob", ["dog"]), choice("Cid", [], was_cancelled=True, result=[])]
    second = [choice({"id": 3, "email": name}, ["dog"]) for name in ("Ann", "Bob")]
    second.append(choice({"id": 3, "email": "boss"}, ["cat"], ground_truth=True))
    predictions = [{"model_version": "v1", "score": 0.9, "result": choice("", ["cat"])["result"]}]
    return [
        {"id": 11, "data": {"key": "a"}, "drafts": [], "annotations": first, "predictions": predictions},
        {"id": 12, "data": {"key": "b"}, "drafts": [], "annotations": second, "predictions": []},
    ]


def test_label_studio_in_full():
    assert cells(from_label_studio(studio(), item="key")) == EXPECTED
    table = from_label_studio(studio())
    assert table.items == (11, 12)
    assert table.checked == {12: "cat"}
    assert table.annotators == ("Ann", "Bob")
    assert cells(from_label_studio(studio(), item="key", predictions=True)) == EXPECTED | {("a", "v1", "cat")}


def test_label_studio_of_two_controls_one_must_be_named():
    tasks = studio()
    tasks[0]["annotations"][0]["result"] += choice("", ["nice"], control="tone")["result"]
    with pytest.raises(InputError, match="control is not given; it may be 'kind', 'tone'"):
        from_label_studio(tasks)
    assert cells(from_label_studio(tasks, item="key", control="kind")) == EXPECTED
    assert cells(from_label_studio(tasks, item="key", control="tone")) == {("a", "Ann", "nice")}
    with pytest.raises(InputError, match="control is 'other', to which there is no answer; there are"):
        from_label_studio(tasks, control="other")


def minimal():
    rows = [("a", "Ann", "cat"), ("a", "Bob", "dog"), ("b", "Ann", "dog"), ("b", "Bob", {"choices": ["dog"]})]
    end = {"annotation_id": 7, "created_at": "2026-01-01", "updated_at": "2026-01-01", "lead_time": 1.5}
    return [
        {"key": key, "text": "Hi", "id": "ab".index(key), "kind": label, "annotator": by} | end
        for key, by, label in rows
    ]


def test_label_studios_json_min():
    shuffled = [dict(sorted(entry.items())) for entry in minimal()]
    with pytest.raises(InputError, match="control is not given; it may be 'key', 'kind', 'text'"):
        from_label_studio(shuffled)
    assert cells(from_label_studio(shuffled, item="key", control="kind")) == UNCHECKED


TWICE = "two labels for item 11 by annotator 'Ann', 'cat' and 'dog'"
TRUTHS = "two labels for item 12 as the truth, 'cat' and 'dog'"
MANY = r"one label in annotation 3 of task 0, a text or a whole number; found \['cat', 'dog'\]"
SHAPE = "must be a list of tasks as the tool exports them; task 0 is not one"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one, two: two.pop("id"), "has no 'id' in task 1"),
        (lambda one, two: one["annotations"][1].pop("result"), SHAPE),
        (lambda one, two: one["annotations"][1].update(result=["x"]), SHAPE),
        (lambda one, two: one["annotations"][1].update(result=5), SHAPE),
        (lambda one, two: one["annotations"][1]["result"][0].pop("from_name"), SHAPE),
        (lambda one, two: one.update(annotations=[1, 2]), SHAPE),
        (lambda one, two: one["annotations"][1].pop("completed_by"), "whose label it is in annotation 1"),
        (lambda one, two: one["annotations"].append(choice("D", ["cat", "dog"])), MANY),
        (lambda one, two: one["annotations"][0]["result"].extend(choice("", ["dog"])["result"]), TWICE),
        (lambda one, two: one["annotations"].append(choice("Ann", ["dog"])), TWICE),
        (lambda one, two: two["annotations"].append(choice("head", ["dog"], ground_truth=True)), TRUTHS),
        (lambda one, two: [t.update(annotations=[]) for t in (one, two)], "suggestions of models"),
        (lambda one, two: [t.update(annotations=[], predictions=[]) for t in (one, two)], "holds no label"),
    ],
)
def test_label_studio_refused(change, message):
    tasks = studio()
    change(*tasks)
    with pytest.raises(InputError, match=message):
        from_label_studio(tasks)


# Argilla


VERSION_2 = """[
{"id": "a", "fields": {"text": "Hi"}, "metadata": {}, "status": "completed", "_server_id": "0",
 "suggestions": {"kind": {"value": "cat", "score": null, "agent": "llm"}},
 "responses": {"kind": [{"value": "cat", "user_id": "Ann"}, {"value": "dog", "user_id": "Bob"}]}},
{"id": "b", "fields": {"text": "Ho"}, "metadata": {}, "suggestions": {},
 "responses": {"kind": [{"value": "dog", "user_id": "Ann", "status": "submitted"},
                        {"value": "dog", "user_id": "Bob", "status": "submitted"},
                        {"value": "cat", "user_id": "Cid", "status": "discarded"},
                        {"value": "cat", "user_id": "Dan", "status": "draft"}]}}
]"""
FLAT_2 = """[
{"id": "a", "status": "completed", "_server_id": "0", "text": "Hi", "kind.responses": ["cat", "dog"],
 "kind.responses.users": ["Ann", "Bob"], "kind.responses.status": ["submitted", "submitted"],
 "kind.suggestion": "cat", "kind.suggestion.score": 0.9, "kind.suggestion.agent": "llm"},
{"id": "b", "status": "completed", "_server_id": "1", "text": "Ho", "kind.responses": ["dog", "dog", "cat"],
 "kind.responses.users": ["Ann", "Bob", "Cid"],
 "kind.responses.status": ["submitted", "submitted", "discarded"],
 "kind.suggestion": null, "kind.suggestion.score": null, "kind.suggestion.agent": null}
]"""
FEEDBACK = """[
{"external_id": "a", "fields": {"text": "Hi"}, "responses": [
   {"user_id": "Ann", "values": {"kind": {"value": "cat"}}, "status": "submitted"},
   {"user_id": "Bob", "values": {"kind": {"value": "dog"}}, "status": "submitted"}],
 "suggestions": [{"question_name": "kind", "value": "cat", "agent": "llm", "type": "model"}]},
{"external_id": "b", "fields": {"text": "Ho"}, "suggestions": [], "responses": [
   {"user_id": "Ann", "values": {"kind": {"value": "dog"}}, "status": "submitted"},
   {"user_id": "Bob", "values": {"kind": {"value": "dog"}}, "status": "submitted"},
   {"user_id": "Cid", "values": {"kind": {"value": null}}, "status": "discarded"}]}
]"""
ARGILLA = {"2": VERSION_2, "2, flat": FLAT_2, "feedback": FEEDBACK}


@pytest.mark.parametrize("text", ARGILLA.values(), ids=ARGILLA)
def test_argilla(text):
    records = json.loads(text)
    assert cells(from_argilla(records)) == cells(from_argilla(records, question="kind")) == UNCHECKED
    assert cells(from_argilla(records, predictions=True)) == UNCHECKED | {("a", "llm", "cat")}
    with pytest.raises(InputError, match="question is 'tone', to which there is no answer; there are"):
        from_argilla(records, question="tone")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda r: r[0]["responses"].update(tone=[{"value": "x", "user_id": "Ann"}]),
            "question is not given; it may be 'kind', 'tone'",
        ),
        (lambda r: r[1]["responses"]["kind"][0].pop("user_id"), "does not say whose label it is in record 1"),
        (lambda r: r[1]["responses"]["kind"][0].pop("value"), "record 1 is not one"),
        (lambda r: r[1]["responses"]["kind"][0].update(value=["cat", "dog"]), "one label in record 1"),
        (lambda r: r[1].update(id="a"), "two records with the id 'a', one of them record 1"),
        (lambda r: [each.update(responses={}) for each in r], "holds only suggestions of models; pass pred"),
        (lambda r: r.__setitem__(1, "x"), "record 1 is not one"),
    ],
)
def test_argilla_refused(change, message):
    records = json.loads(VERSION_2)
    change(records)
    with pytest.raises(InputError, match=message):
        from_argilla(records)


# Records


def long_rows(item="task", annotator="worker", label="label"):
    return [{item: g.item, annotator: g.annotator, label: g.label} for g in GIVEN]


RECORDS = {
    "long": long_rows(),
    "other names": long_rows("item_id", "Annotator ID", "noisy_label"),
    "of a market": long_rows("HITId", "WorkerId", "Answer.kind"),
    "of another": long_rows("ASSIGNMENT:task_id", "ASSIGNMENT:worker_id", "OUTPUT:kind"),
    "a row id too": [row | {"id": i} for i, row in enumerate(long_rows("image"))],
    "lists": [
        {"id": "a", "text": "Hi", "annotators": ["Ann", "Bob"], "labels": ["cat", "dog"]},
        {"id": "b", "text": "Ho", "annotators": ["Ann", "Bob"], "labels": ["dog", "dog"]},
    ],
    "mappings": [
        {"id": item, "annotations": [{"annotator": by, "label": each} for by, each in labels.items()]}
        for item, labels in (("a", {"Ann": "cat", "Bob": "dog"}), ("b", {"Ann": "dog", "Bob": "dog"}))
    ],
    "lists and what was made of them": [
        {"id": "a", "label": "cat", "annotators": ["Ann", "Bob"], "annotations": ["cat", "dog"]},
        {"id": "b", "label": "dog", "annotators": ["Ann", "Bob"], "annotations": ["dog", "dog"]},
    ],
}


def test_lists_without_annotators_do_not_say_whose_labels_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lists = [{"id": i, "labels": [i % 3, i % 3 if rng.random() < 0.9 else 0, i % 3]} for i in range(300)]
    table = from_records(lists)
    assert not table.named
    assert not table.with_checked({0: 0}).named
    assert "annotator" not in repr(table)
    with pytest.raises(InputError, match="do not say whose they are"):
        table.with_checked(0)
    with pytest.raises(InputError, match=r"^model is about each annotator, .* whose they are; add a list"):
        nacp.noise_from_annotators(table, k=3, model="annotators")
    with pytest.raises(InputError, match=r"^labels is about each annotator"):
        nacp.estimation.accuracy_by_annotator(table, k=3)
    assert nacp.noise_from_annotators(table, k=3).noise.name != "annotators"
    named = from_records([each | {"annotators": ["x", "y", "z"]} for each in lists])
    assert named.named
    (tmp_path / "lists.jsonl").write_text("\n".join(map(json.dumps, lists)))
    given = ["noise", "annotators", "lists.jsonl", "--k", "3"]
    assert "lists.jsonl does not say whose labels they are" in done(*given, "--labels", "labels.csv")
    assert printed_json(*given)["annotators"] == []
    for option, value in (("--model", "annotators"), ("--expert", "0")):
        assert done(*given, option, value, code=2).startswith(f"Error: {option} is")


@pytest.mark.parametrize("records", RECORDS.values(), ids=RECORDS)
def test_records_of_many_shapes(records):
    assert cells(from_records(records)) == UNCHECKED


@pytest.mark.parametrize("column", ["checked", "is_gold", "ground_truth"])
def test_a_column_that_says_which_labels_were_checked(column):
    rows = [row | {column: False} for row in long_rows()]
    rows.append({"task": "b", "worker": "boss", "label": "cat", column: True})
    assert cells(from_records(rows)) == EXPECTED


def test_numbers_and_gaps():
    rows = [
        {"task": 1, "worker": 2, "label": 3.0},
        {"task": 1, "worker": 4, "label": -1},
        {"task": 1, "worker": 5, "label": float("nan")},
        {"task": 2, "worker": 2, "label": True},
    ]
    table = from_records(rows)
    assert table.given == (GivenLabel(1, 2, 3), GivenLabel(2, 2, 1))
    assert table.matrix().tolist() == [[3], [1]]
    assert from_records([{"task": "1", "worker": "2", "label": "03"}]).classes == (3,)


ROW, CHOICES = {"task": 1, "worker": 1, "label": 0}, {"task": 1, "worker": 1}


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([], {}, "holds no record"),
        ([{"a": 1, "b": 2}], {}, "label is not given; it may be 'a', 'b'; pass label='a', for instance"),
        ([{"task": 1, "label": 2, "by": 3}], {}, "annotator is not given; it may be 'by'"),
        ([{"worker": 1, "label": 2}], {}, "item is not given, and there is no other field"),
        (long_rows(), {"label": "z"}, "label is 'z', and the columns are 'task', 'worker', 'label'"),
        (long_rows(), {"item": "z"}, "item is 'z', and the columns"),
        (long_rows(), {"label": ["label", "z"]}, "label is 'z', and the columns"),
        ([CHOICES | {"answer": 0, "rating": 5}], {}, "label is not given; it may be 'answer', 'rating'"),
        ([CHOICES | {"Answer.a": 0, "Answer.b": 5}], {}, "it may be 'Answer.a', 'Answer.b'"),
        ([ROW, {"worker": 1, "label": 0}], {}, "has no 'task' in record 1"),
        ([ROW, {"task": 2, "label": 0}], {}, "whose label it is in record 1"),
        ([{"task": 1, "annotators": ["a"], "labels": [0, 1]}], {}, "as many annotators as labels in rec"),
        ([{"task": 1, "annotations": [{"label": 0}]}], {}, "does not say whose labels they are in record 0"),
        ([ROW | {"label": 0.5}], {}, "must have one label in record 0.*; found 0.5"),
        ([ROW | {"label": {"a": 0.5}}], {}, "must have one label in record 0"),
        ([ROW | {"task": [1]}], {}, "must have a text or a number as 'task' in record 0"),
        ([ROW | {"label": None}], {}, "holds no label at all"),
        ([ROW | {"worker": {"id": 1}}], {}, "must have a text or a number as annotator; found"),
        (["x"], {}, "must be a list of records as the tool exports them; record 0 is not one"),
    ],
)
def test_records_refused(records, options, message):
    with pytest.raises(InputError, match=message):
        from_records(records, **options)


def test_a_frame_of_crowd_kits_kind_and_its_gold():
    frame = pd.DataFrame(long_rows())
    assert cells(from_frame(frame)) == UNCHECKED
    assert cells(from_frame(frame).with_checked(pd.Series({"b": "cat", "z": "dog"}))) == EXPECTED
    assert cells(from_frame(frame.set_index("task"))) == UNCHECKED
    with pytest.raises(InputError, match="must be a DataFrame; found list"):
        from_frame([1])
    with pytest.raises(InputError, match="checked names none of the items"):
        from_frame(frame).with_checked({"z": "cat"})
    with pytest.raises(InputError, match="checked is 'Zoe', and the annotators are Ann, Bob"):
        from_frame(frame).with_checked("Zoe")


def test_a_label_matrix():
    labels = np.array([[0, 1], [1, 1], [-1, -1]])
    for given in (labels, labels.astype(float), np.where(labels < 0, np.nan, labels), pd.DataFrame(labels)):
        table = from_matrix(given)
        assert table.matrix().tolist() == labels.tolist()
        assert table.annotators == (0, 1)
    with pytest.raises(InputError, match="annotators must hold 2 different names; found 3"):
        from_matrix(labels, annotators="abc")
    with pytest.raises(InputError, match=r"whole numbers, with -1 or nan where there is none; found 0\.5"):
        from_matrix([[0.5, 1.0]])
    with pytest.raises(InputError, match="holds no label at all"):
        from_matrix([[-1, -1]])


# The table


def test_rows_in_the_order_of_ones_own_items():
    table = LabelTable((*GIVEN, TRUTH, GivenLabel("c", "Bob", "cow")))
    assert table.matrix().tolist() == [["cat", "dog"], ["dog", "dog"], [None, "cow"]]
    assert table.matrix(["b", "a"]).tolist() == [["dog", "dog"], ["cat", "dog"]]
    assert table.clean(["b", "a", "c"]).tolist() == ["cat", None, None]
    assert table.matrix(["b"], annotators=["Zoe", "Bob"]).tolist() == [[None, "dog"]]
    assert table.votes().tolist() == ["cat", "dog", "cow"]  # of two that are as common, the first
    with pytest.raises(InputError, match="items names 'z', which the labels do not have"):
        table.matrix(["z"])
    numbers = from_records([{"task": 5, "worker": 1, "label": 0}])
    assert numbers.matrix(np.array(["5"])).tolist() == numbers.matrix(np.array([5])).tolist() == [[0]]


def test_numbers_are_places_of_class_names():
    table = from_matrix([[0, 2], [1, -1]])
    assert table.matrix(classes=["x", "y", "z"]).tolist() == [["x", "z"], ["y", None]]
    assert table.matrix(classes=[0, 1, 2]).tolist() == [[0, 2], [1, -1]]
    assert table.matrix(classes=["0", "1", "2"]).tolist() == [["0", "2"], ["1", None]]
    with pytest.raises(InputError, match="holds 2, which is not in classes, nor the place of one"):
        table.matrix(classes=["x", "y"])
    with pytest.raises(InputError, match="labels holds 'dog', which is not in classes"):
        LabelTable(GIVEN).matrix(classes=["cat", "cow"])


def test_a_picked_label_is_each_annotators_as_often():
    table = from_matrix(np.tile([0, 1, 2, -1], (3000, 1)))
    counts = np.bincount(table.picked())
    assert np.abs(counts / 3000 - 1 / 3).max() < 4 * np.sqrt(2 / 9 / 3000)
    assert table.picked(random_state=1).tolist() != table.picked().tolist()


def test_names_of_items_and_annotators_are_compared_as_text():
    given = [GivenLabel(i, who, i % 2) for i in range(4) for who in (1, 2)]
    mixed = [GivenLabel(str(i), "1", i % 2) for i in range(4)]
    assert LabelTable((*given, *mixed)) == LabelTable(given)
    assert nacp.estimation.accuracy_by_annotator(LabelTable((*given, *mixed)), k=2).n == 4


def test_tables_that_contradict_themselves():
    assert LabelTable((*GIVEN, *GIVEN)) == LabelTable(GIVEN)
    with pytest.raises(InputError, match="two labels for item 'a' by annotator 'Ann', 'cat' and 'dog'"):
        LabelTable((*GIVEN, GivenLabel("a", "Ann", "dog")))
    with pytest.raises(InputError, match="items does not hold 'a', which has a label"):
        LabelTable(GIVEN, ("b",))
    with pytest.raises(InputError, match="holds checked labels only"):
        LabelTable((TRUTH,)).matrix()


# Files


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


LONG = "task,worker,label,gold\na,Ann,cat,\na,Bob,dog,\nb,Ann,dog,cat\nb,Bob,dog,cat\n"
NAMED = {"item": "x", "annotator": "y", "label": "z", "checked": "t"}
MODEL = {("a", "llm", "cat")}
LINES = "\n".join(json.dumps(each) for each in json.loads(FEEDBACK))
ONE = {("a", "Ann", "cat"), ("a", "Bob", "dog")}
FILES = {
    "label-studio.json": (studio(), {"item": "key"}, EXPECTED),
    "json-min.json": (minimal(), {"item": "key"}, UNCHECKED),
    "one-task.json": (studio()[0], {"item": "key"}, ONE),
    "argilla.json": (VERSION_2, {}, UNCHECKED),
    "flat.json": (FLAT_2, {"predictions": True}, UNCHECKED | MODEL),
    "feedback.jsonl": (LINES, {}, UNCHECKED),
    "records.jsonl": ("\n\n".join(map(json.dumps, RECORDS["lists"])), {}, UNCHECKED),
    "frame.json": (pd.DataFrame(long_rows()).to_json(orient="records"), {}, UNCHECKED),
    "long.csv": (LONG, {}, EXPECTED),
    "long.tsv": (LONG.replace(",", "\t"), {}, EXPECTED),
    "semicolons.csv": ("\ufeff" + LONG.replace(",", ";"), {}, EXPECTED),
    "named.csv": (LONG.replace("task,worker,label,gold", "x,y,z,t"), NAMED, EXPECTED),
    "wide.csv": ("id,Ann,Bob\na,cat,dog\nb,dog,dog\n", {}, UNCHECKED),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_by_its_content(name, tmp_path):
    content, options, expected = FILES[name]
    path = write(tmp_path / name, content)
    assert cells(read(path, **options)) == expected
    zipped = path.with_name(path.name + ".gz")
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert cells(read(zipped, **options)) == expected


def test_other_files(tmp_path):
    np.save(tmp_path / "L.npy", [[0, -1], [1, 1]])
    assert read(tmp_path / "L.npy").matrix().tolist() == [[0, -1], [1, 1]]
    write(tmp_path / "L.csv", "3,2\n1,-1\n")
    assert read(tmp_path / "L.csv").matrix().tolist() == [[3, 2], [1, -1]]
    pd.DataFrame(long_rows()).to_parquet(tmp_path / "long.parquet")
    assert cells(read(tmp_path / "long.parquet")) == UNCHECKED


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("x.json", "", {}, "x.json is empty"),
        ("x.json", "{", {}, "x.json is not JSON"),
        ("x.jsonl", '{"task": 1}\nx', {}, "x.jsonl is not JSON.* line 2"),
        ("x.json", "5", {}, "x.json must hold a list of records; found int"),
        ("x.json", studio(), {"label": "kind"}, "label has no use for a file in the format label-studio"),
        ("x.csv", LONG, {"control": "kind"}, "control has no use for a file in the format records"),
        ("x.csv", "Ann,Bob\ncat,dog\n", {"predictions": True}, "predictions has no use .* format matrix"),
        ("x.csv", LONG, {"format": "xml"}, "format must be one of"),
        ("x.csv", "task,worker,label\n1,2\n", {}, "x.csv must have rows of one length"),
        ("x.csv", "task,worker,label\n", {}, "x.csv holds no record"),
        ("x.csv", "0,1\n1,1\n", {}, "x.csv begins with 0,1, which may be a header or labels"),
        ("x.csv", "annotation_id,annotator,id,kind,text\n1,2,3,good,Hi\n", {}, "it may be 'kind', 'text'"),
        ("x.npy", "nothing", {}, "x.npy cannot be read as .npy"),
    ],
)
def test_files_refused(name, content, options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / name, content), **options)


def test_no_file(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is a folder"):
        read(tmp_path)
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not text"):
        read(tmp_path / "x.csv")


@pytest.mark.parametrize("columns", [{}, {"label": ["Ann", "Bob"]}])
def test_items_with_the_same_text_are_two_if_each_record_is_an_item(columns):
    records = [
        {"id": i, "text": "ok", "annotators": ["Ann", "Bob"], "labels": [i, 0], "Ann": i, "Bob": 0}
        for i in range(2)
    ]
    assert from_records(records, **columns).items == (0, 1)
    long = [{"id": i, "text": "ok", "worker": who, "label": 0} for i, who in enumerate(["Ann", "Bob"])]
    assert from_records(long).items == ("ok",)


WIDE = {
    "image": "image,Ann,Bob\na.png,cat,dog\nb.png,NA,dog\nc.png,dog,\n",
    "id": "id,Ann,Bob\na.png,cat,dog\nb.png,,dog\nc.png,dog,n/a\n",
    "pandas": ",Ann,Bob\na.png,cat,dog\nb.png,,dog\nc.png,dog,\n",
    "numbers of pandas": "image,Ann,Bob\na.png,0.0,1.0\nb.png,,1.0\nc.png,1.0,\n",
    "numbers": "Unnamed: 0,Ann,Bob\na.png,0,1\nb.png,-1,1\nc.png,1,-1\n",
}


@pytest.mark.parametrize("text", WIDE.values(), ids=WIDE)
def test_a_wide_table_has_a_column_for_each_annotator(text, tmp_path):
    table = read(write(tmp_path / "wide.csv", text))
    assert (table.items, table.annotators) == (("a.png", "b.png", "c.png"), ("Ann", "Bob"))
    expected = [["cat", "dog"], [None, "dog"], ["dog", None]]
    assert table.matrix(classes=["cat", "dog"]).tolist() == expected


def test_without_a_header_the_first_row_of_a_wide_table_is_labels(tmp_path):
    (tmp_path / "wide.csv").write_text("cat,dog\ndog,dog\ndog,cat\n")
    assert read(tmp_path / "wide.csv").matrix().tolist() == [["cat", "dog"], ["dog", "dog"], ["dog", "cat"]]
    (tmp_path / "numbered.csv").write_text("".join(f"{i},0,1\n" for i in range(7, 40)))
    with pytest.raises(InputError, match="seems to number its rows in the first column"):
        read(tmp_path / "numbered.csv")


def test_label_studios_csv_is_its_short_json(tmp_path):
    start = {"image": "", "id": 0, "kind": "", "annotator": 0, "annotation_id": 0, "lead_time": 2.5}
    entries = [
        start | {"image": f"{i}.png", "id": i, "kind": label, "annotator": who}
        for i in range(4)
        for who, label in ((1, "cat"), (2, "dog, small" if i else None))
    ]
    entries[0]["kind"] = {"choices": ["cat"]}
    (tmp_path / "short.json").write_text(json.dumps(entries))
    cells = [[json.dumps(c) if isinstance(c, dict) else c for c in entry.values()] for entry in entries]
    write_csv(tmp_path / "short.csv", [list(start), *cells])
    for options in ({}, {"item": "image", "control": "kind"}):
        short, table = (read(tmp_path / f"short.{kind}", **options) for kind in ("json", "csv"))
        assert [str(each) for each in table.items] == [str(each) for each in short.items]
        assert table.matrix().tolist() == short.matrix().tolist()
    assert read(tmp_path / "short.csv", label="image").classes == tuple(f"{i}.png" for i in range(4))


DEEP = "[" * 100_000 + "]" * 100_000
ENTRY = '[{"id": 1, "tone": "{\\"choices\\": %s}", "annotator": 1, "annotation_id": 3}]'
ONE_EACH = '[{"task": "a", "worker": "b", "label": %s}, {"task": "a", "worker": "c", "label": 1}]'
PACKED = gzip.compress(b"task,worker,label\n" + b"a,b,1\na,c,2\n" * 100, mtime=0)  # the same in all workers


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("deep.json", DEEP),
        ("cell.json", ENTRY % DEEP),
        ("label.json", ONE_EACH % ("[" * 900 + "1" + "]" * 900)),
        ("digits.json", ONE_EACH % ("9" * 400)),
        ("cell.csv", f"task,worker,label\n{'x' * 200_000},b,1\n"),
        ("cut.csv.gz", PACKED[:-9]),
        ("changed.csv.gz", PACKED[:30] + b"\xff" + PACKED[31:]),
        ("empty.parquet", b""),
        ("damaged.parquet", b"PAR1 and more PAR1"),
    ],
)
def test_damaged_files_get_a_sentence(name, content, tmp_path):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=r"damaged|is not|must|cannot be read"):
        read(path)


def test_digits_beyond_64_bits_are_names(tmp_path):
    (tmp_path / "a.csv").write_text(f"task,worker,label\na,b,{'9' * 5000}\na,c,1\n")
    assert read(tmp_path / "a.csv").matrix().tolist() == [["9" * 5000, "1"]]
