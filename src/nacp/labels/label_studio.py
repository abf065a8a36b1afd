"""Label Studio: tasks, and exports: JSON with whole tasks, and JSON-MIN with an entry for each annotation."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nacp.errors import InputError
from nacp.labels.answers import Answer, check_item, not_given, reading_record, table_of_answers
from nacp.labels.table import LabelTable

# The fields that JSON-MIN adds to the data and the answers.
_MIN = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement"}


def from_label_studio(
    tasks: Sequence[Mapping[str, Any]],
    *,
    control: str | None = None,
    item: str | None = None,
    predictions: bool = False,
) -> LabelTable:
    """Read a JSON or JSON-MIN export of Label Studio, as ``json.load`` returns it: the choices of annotators.

    Cancelled (skipped) annotations and drafts are left out. An annotation marked as ground truth is a checked
    label. `control` is the name of the ``<Choices>`` whose answers are wanted, needed only if there are
    several. `item` is the field of a task's data that names it; by default the task's id. With `predictions`
    those of models count as labels, too, each model as an annotator; JSON-MIN has none.

    Examples
    --------
    >>> from nacp.labels import from_label_studio
    >>> result = [{"type": "choices", "from_name": "tone", "value": {"choices": ["kind"]}}]
    >>> from_label_studio([{"id": 7, "annotations": [{"completed_by": 1, "result": result}]}]).given
    (GivenLabel(item=7, annotator=1, label='kind', checked=False),)
    """
    answers: list[Answer] = []
    items: dict[Any, None] = {}
    for i, task in enumerate(tasks):
        with reading_record("task", i):
            name = task.get("id", task.get("inner_id")) if item is None else task.get("data", task).get(item)
            items[check_item(name, item or "id", f"in task {i}")] = None
            whole = {"annotations", "completions", "predictions"} & set(task)
            answers += _of_task(task, i, name) if whole else _of_entry(task, i, name, item, control)
    return table_of_answers(answers, items, "control", control, predictions)


def _of_task(task: Mapping[str, Any], i: int, name: Any) -> Iterator[Answer]:
    for j, annotation in enumerate(task.get("annotations", task.get("completions")) or ()):
        if annotation.get("was_cancelled") or annotation.get("skipped"):
            continue
        checked = annotation.get("ground_truth") is True or annotation.get("honeypot") is True
        by = _user(annotation.get("completed_by", annotation.get("created_username")))
        by = "checked" if by is None and checked else by
        for control, value in _choices(annotation["result"]):
            yield Answer(name, by, control, value, f"in annotation {j} of task {i}", checked)
    for j, prediction in enumerate(task.get("predictions") or ()):
        model = prediction.get("model_version") or prediction.get("model") or "model"
        for control, value in _choices(prediction.get("result") or ()):
            yield Answer(name, str(model), control, value, f"in prediction {j} of task {i}", by_model=True)


def _choices(results: Any) -> Iterator[tuple[str, Any]]:
    """Yield the controls and the choices among the results."""
    for result in results:
        value = result.get("value")
        if isinstance(value, Mapping) and "choices" in value:
            yield str(result["from_name"]), value["choices"]


def _of_entry(
    entry: Mapping[str, Any], i: int, name: Any, item: str | None, control: str | None
) -> Iterator[Answer]:
    """Yield the answers of an entry of JSON-MIN or CSV.

    The answers are fields beside the data. In the order of Label Studio they stand after the id.
    """
    keys = list(entry)
    after = keys[keys.index("id") + 1 : keys.index("annotator")] if {"id", "annotator"} <= set(keys) else []
    controls = [key for key in after if key not in _MIN] if control is None else [control]
    if not controls:
        raise not_given("control", [key for key in keys if key not in _MIN and key != item])
    for key in controls:
        value = entry.get(key)
        if isinstance(value, str) and value.startswith('{"choices"'):  # a cell of CSV
            value = json.loads(value)
        if isinstance(value, Mapping) and "choices" in value:
            value = value["choices"]
        if value is not None:
            by, checked = _user(entry.get("annotator")), entry.get("ground_truth") is True
            yield Answer(name, by, key, value, f"in entry {i}", checked)


def _user(by: Any) -> Any:
    """Return the name of an annotator, who may be given by a mapping."""
    if isinstance(by, Mapping):
        return next((by[key] for key in ("email", "username", "id") if by.get(key) is not None), None)
    return by


def to_label_studio(
    rows: Sequence[Mapping[str, Any]], classes: Sequence[Any], shown: Sequence[str], control: str
) -> tuple[list[dict[str, Any]], str]:
    """Return tasks for Label Studio, one for each row, and the labelling interface as XML.

    The interface shows the fields `shown` of a task and asks for one of the classes, or for "?" if a person
    cannot decide. Fields are named by letters, digits and underscores.
    """
    from xml.sax.saxutils import quoteattr  # It imports urllib.request, which takes as long as most of nacp.

    tasks = [{"data": {_field(name): value for name, value in row.items()}} for row in rows]
    lines = ["<View>"]
    for i, field in enumerate(map(_field, shown)):
        is_image = any(_IMAGE.search(str(task["data"].get(field))) for task in tasks)
        lines.append(f'  <{"Image" if is_image else "Text"} name="shown{i}" value="${field}"/>')
    lines += [
        f'  <Filter name="filter" toName="{control}"/>',
        f'  <Choices name="{control}" toName="shown0" choice="single" required="true">',
        *(f"    <Choice value={quoteattr(str(name))}/>" for name in (*classes, "?")),
        "  </Choices>",
        "</View>",
    ]
    return tasks, "\n".join(lines) + "\n"


_IMAGE = re.compile(r"\.(png|jpe?g|gif|webp|bmp|svg)$", re.IGNORECASE)


def _field(name: str) -> str:
    return re.sub(r"\W", "_", name)


def checked_rows(tasks: Sequence[Mapping[str, Any]], control: str) -> list[tuple[Any, Any, Any]]:
    """Return the row, the label and the plan of each task of an export that `to_label_studio` made.

    Annotators of the same task must agree.
    """
    if not isinstance(tasks, list):
        raise InputError("labels", "must be a list of tasks as Label Studio exports them")
    table, plans = from_label_studio(tasks, control=control, item="row"), dict[Any, Any]()
    for i, task in enumerate(tasks):
        with reading_record("task", i):
            data = task.get("data", task)
            plans[data["row"]] = data["plan"]
    labels: dict[Any, Any] = {}
    for each in table.given:
        if labels.setdefault(each.item, each.label) != each.label:
            problem = f"has two labels for row {each.item}, {labels[each.item]!r} and {each.label!r}"
            raise InputError("labels", problem, remedy="delete one of the annotations")
    return [(row, labels.get(row), plan) for row, plan in plans.items()]
