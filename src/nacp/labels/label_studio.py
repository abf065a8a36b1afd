"""Label Studio's exports: JSON with whole tasks, and JSON-MIN with an entry for each annotation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nacp.errors import InputError
from nacp.labels.answers import Answer, check_item, check_mapping, table_of_answers
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
    """Read a JSON or JSON-MIN export of Label Studio: the choices that annotators made.

    Cancelled (skipped) annotations and drafts are left out. An annotation marked as ground truth is a
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
        Whether predictions of models count as labels, too, each model as an annotator. JSON-MIN has none.

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
    answers: list[Answer] = []
    items: dict[Any, None] = {}
    for i, task in enumerate(tasks):
        check_mapping(task, "task", i)
        name = _item(task, i, item)
        items[name] = None
        if {"annotations", "completions", "predictions"} & set(task):
            answers += _of_task(task, i, name)
        else:
            answers += _of_entry(tasks, i, name, item, control)
    return table_of_answers(
        answers,
        items,
        control,
        argument="control",
        predictions=predictions,
        none_found="holds no choice in any annotation; only <Choices> can be read",
    )


def _item(task: Mapping[str, Any], i: int, item: str | None) -> Any:
    found = task.get("id", task.get("inner_id")) if item is None else task.get("data", task).get(item)
    return check_item(found, item or "id", f"in task {i}")


def _of_task(task: Mapping[str, Any], i: int, name: Any) -> Iterator[Answer]:
    """Yield the answers of a whole task."""
    for j, annotation in enumerate(task.get("annotations", task.get("completions")) or ()):
        where = f"in annotation {j} of task {i}"
        if isinstance(annotation, int):
            raise InputError(
                "labels", f"has numbers in place of annotations in task {i}", remedy="export as JSON, in full"
            )
        if annotation.get("was_cancelled") or annotation.get("skipped"):
            continue
        if annotation.get("result") is None:
            raise InputError("labels", f"has no 'result' {where}")
        checked = annotation.get("ground_truth") is True or annotation.get("honeypot") is True
        by = _user(annotation.get("completed_by", annotation.get("created_username")))
        by = "checked" if by is None and checked else by
        for control, value in _choices(annotation["result"], where):
            yield Answer(name, by, control, value, where, checked)
    for j, prediction in enumerate(task.get("predictions") or ()):
        where = f"in prediction {j} of task {i}"
        model = prediction.get("model_version") or prediction.get("model") or "model"
        for control, value in _choices(prediction.get("result") or (), where):
            yield Answer(name, str(model), control, value, where, by_model=True)


def _choices(results: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the controls and the choices among the results."""
    for result in results:
        value = result.get("value")
        if isinstance(value, Mapping) and "choices" in value:
            if "from_name" not in result:
                raise InputError("labels", f"has no 'from_name' {where}")
            yield str(result["from_name"]), value["choices"]


def _of_entry(
    tasks: Sequence[Mapping[str, Any]], i: int, name: Any, item: str | None, control: str | None
) -> Iterator[Answer]:
    """Yield the answers of an entry of JSON-MIN or CSV.

    The answers are fields beside the data. In the order of Label Studio they stand after the id.
    """
    task, where = tasks[i], f"in entry {i}"
    keys = list(task)
    after = keys[keys.index("id") + 1 : keys.index("annotator")] if {"id", "annotator"} <= set(keys) else []
    controls = [key for key in after if key not in _MIN] if control is None else [control]
    if not controls:
        others = [key for key in task if key not in _MIN and key != item]
        others = [key for key in others if _may_be_answers(tasks, key, item)] or others
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
            by, checked = _user(task.get("annotator")), task.get("ground_truth") is True
            yield Answer(name, by, key, value, where, checked)


def _may_be_answers(tasks: Sequence[Mapping[str, Any]], key: str, item: str | None) -> bool:
    """Return whether a field differs within an item, or has equal values for several items."""
    pairs = {(str(_item(task, i, item)), str(task.get(key))) for i, task in enumerate(tasks)}
    items, values = ({pair[place] for pair in pairs} for place in (0, 1))
    return len(pairs) > len(items) or 1 < len(values) < len(items)


def _user(by: Any) -> Any:
    """Return the name of an annotator, who may be given by a mapping."""
    if isinstance(by, Mapping):
        return next((by[key] for key in ("email", "username", "id") if by.get(key) is not None), None)
    return by
