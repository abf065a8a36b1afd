"""Label Studio's exports: JSON, which has whole tasks, and JSON-MIN, an entry for each annotation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nacp.errors import InputError
from nacp.labels.table import GivenLabel, LabelTable, as_label

# What JSON-MIN writes beside the data and the answers.
_MIN = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement"}


class _Answer(NamedTuple):
    item: Any
    annotator: Any
    control: str
    value: Any
    checked: bool
    where: str


def from_label_studio(
    tasks: Sequence[Mapping[str, Any]],
    *,
    control: str | None = None,
    item: str | None = None,
    predictions: bool = False,
) -> LabelTable:
    """Read what Label Studio exports as JSON or as JSON-MIN: the choices that annotators made.

    Annotations that were cancelled (skipped) are left out, and drafts. One marked as ground truth is a
    checked label.

    Parameters
    ----------
    tasks : sequence of mappings
        The export, as ``json.load`` returns it.
    control : str, optional
        The name of the ``<Choices>`` whose answers are wanted; needed only if there are several.
    item : str, optional
        The field of a task's data that names it; by default the task's id.
    predictions : bool, default=False
        Whether predictions of models count as labels, too, each model as an annotator. In JSON-MIN there are
        none.

    Returns
    -------
    LabelTable

    Examples
    --------
    >>> from nacp.labels import from_label_studio
    >>> table = from_label_studio([{"id": 7, "data": {"text": "Hello"}, "annotations": [
    ...     {"completed_by": 1, "result": [
    ...         {"type": "choices", "from_name": "tone", "value": {"choices": ["kind"]}}]},
    ...     {"completed_by": 2, "was_cancelled": True, "result": []},
    ... ]}])
    >>> table.given
    (GivenLabel(item=7, annotator=1, label='kind', checked=False),)
    """
    answers: list[_Answer] = []
    items: dict[Any, None] = {}
    for i, task in enumerate(tasks):
        if not isinstance(task, Mapping):
            raise InputError("labels", f"must be a list of tasks; task {i} is {type(task).__name__}")
        whole = "annotations" in task or "completions" in task or "predictions" in task
        found = list(
            _of_task(task, i, item, predictions) if whole else _of_min(tasks, task, i, item, control)
        )
        answers += found
        items[_item(task, i, item)] = None
    controls = list(dict.fromkeys(answer.control for answer in answers))
    if control is None and len(controls) > 1:
        raise InputError(
            "control",
            f"must name one of several: {', '.join(map(repr, controls))}",
            remedy=f"pass control={controls[0]!r}, for instance",
            spoken=f"give --control {controls[0]}, for instance",
        )
    if control is not None and control not in controls:
        there = f"; there are answers to {', '.join(map(repr, controls))}" if controls else ""
        raise InputError("control", f"is {control!r}, to which there is no answer{there}")
    given: dict[Any, GivenLabel] = {}
    for answer in answers:
        if answer.control != (control or answer.control):
            continue
        label = as_label(answer.value, answer.where)
        if label is not None:
            key = (answer.where, answer.annotator)
            if key in given:
                raise InputError("labels", f"must have one label {answer.where}", found="several")
            given[key] = GivenLabel(answer.item, answer.annotator, label, answer.checked)
    if not given:
        raise InputError(
            "labels",
            "holds no choice in any annotation",
            remedy="only <Choices> can be read; if models made them, pass predictions=True",
            spoken="only <Choices> can be read; if models made them, give --predictions",
        )
    return LabelTable(tuple(given.values()), tuple(items))


def _item(task: Mapping[str, Any], i: int, item: str | None) -> Any:
    """Return what a task is called."""
    data = task.get("data", task)
    found = task.get("id", task.get("inner_id")) if item is None else data.get(item)
    if found is None:
        raise InputError("labels", f"has no {item or 'id'!r} in task {i}")
    if not isinstance(found, str | int):
        raise InputError("labels", f"must have a text or a number as {item or 'id'!r} in task {i}")
    return found


def _of_task(task: Mapping[str, Any], i: int, item: str | None, predictions: bool) -> Iterator[_Answer]:
    name = _item(task, i, item)
    for j, annotation in enumerate(task.get("annotations", task.get("completions")) or ()):
        where = f"in annotation {j} of task {i}"
        if isinstance(annotation, int):
            raise InputError(
                "labels", f"has numbers in place of annotations in task {i}", remedy="export as JSON, in full"
            )
        if annotation.get("was_cancelled") or annotation.get("skipped"):
            continue
        results = annotation.get("result")
        if results is None:
            raise InputError("labels", f"has no 'result' {where}")
        by = _user(annotation.get("completed_by", annotation.get("created_username")))
        checked = annotation.get("ground_truth") is True or annotation.get("honeypot") is True
        if by is None:
            if not checked:
                raise InputError("labels", f"does not say who made it ('completed_by') {where}")
            by = "checked"
        for control, value in _choices(results, where):
            yield _Answer(name, by, control, value, checked, where)
    if predictions:
        for j, prediction in enumerate(task.get("predictions") or ()):
            where = f"in prediction {j} of task {i}"
            model = prediction.get("model_version") or prediction.get("model") or "model"
            for control, value in _choices(prediction.get("result") or (), where):
                yield _Answer(name, str(model), control, value, False, where)


def _choices(results: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Return the choices among the results, and whose answer they are."""
    for result in results:
        value = result.get("value")
        if isinstance(value, Mapping) and "choices" in value:
            if "from_name" not in result:
                raise InputError("labels", f"has no 'from_name' {where}")
            yield str(result["from_name"]), value["choices"]


def _of_min(
    tasks: Sequence[Mapping[str, Any]], task: Mapping[str, Any], i: int, item: str | None, control: str | None
) -> Iterator[_Answer]:
    """Return the answers of an entry of JSON-MIN, or of CSV: texts, or mappings with several choices.

    There the answers stand beside the data; where keys are in Label Studio's order, after the id.
    """
    name, where = _item(task, i, item), f"in entry {i}"
    by = _user(task.get("annotator"))
    if by is None:
        raise InputError("labels", f"does not say who made it ('annotator') {where}")
    keys = list(task)
    after = keys[keys.index("id") + 1 : keys.index("annotator")] if "id" in task else []
    controls = [key for key in after if key not in _MIN] if control is None else [control]
    if not controls and control is None:
        others = [key for key in task if key not in _MIN and key != item]
        others = [key for key in others if _answers(tasks, key, item)] or others
        raise InputError(
            "control",
            f"must name the field with the answers, one of {', '.join(map(repr, others))}",
            remedy=f"pass control={others[0]!r}, for instance" if others else None,
            spoken=f"give --control {others[0]}, for instance" if others else None,
        )
    for key in controls:
        value = task.get(key)
        if isinstance(value, Mapping) and "choices" in value:
            value = value["choices"]
        if value is not None:
            yield _Answer(name, by, key, value, task.get("ground_truth") is True, where)


def _answers(tasks: Sequence[Mapping[str, Any]], key: str, item: str | None) -> bool:
    """Return whether a field looks like answers: these differ within an item, or come again with others."""
    pairs = {(str(_item(task, i, item)), str(task.get(key))) for i, task in enumerate(tasks)}
    items, values = ({pair[place] for pair in pairs} for place in (0, 1))
    return len(pairs) > len(items) or 1 < len(values) < len(items)


def _user(by: Any) -> Any:
    """Return what an annotator is called, who may be described at length."""
    if isinstance(by, Mapping):
        return next((by[key] for key in ("email", "username", "id") if by.get(key) is not None), None)
    return by
