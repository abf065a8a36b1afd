"""Argilla's records: version 2 (responses by question), feedback records, and version 1 (annotation)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nacp.errors import InputError
from nacp.labels.table import GivenLabel, LabelTable, as_label

_ID = ("id", "external_id", "_server_id")


class _Answer(NamedTuple):
    question: str
    annotator: Any
    value: Any
    by_model: bool


def from_argilla(
    records: Sequence[Mapping[str, Any]],
    *,
    question: str | None = None,
    item: str | None = None,
    predictions: bool = False,
) -> LabelTable:
    """Read records that Argilla exported, of any version: the answers to one question.

    Responses that were discarded, or not yet submitted (drafts), are left out.

    Parameters
    ----------
    records : sequence of mappings
        The records, as ``json.load`` returns them.
    question : str, optional
        The question whose answers are wanted; needed only if there are several.
    item : str, optional
        The field that names a record; by default its id, and without any the record's number.
    predictions : bool, default=False
        Whether suggestions (in version 1 predictions) count as labels, too, each agent as an annotator.

    Returns
    -------
    LabelTable

    Examples
    --------
    >>> from nacp.labels import from_argilla
    >>> table = from_argilla([{"id": "a", "fields": {"text": "Hello"},
    ...     "responses": {"tone": [{"value": "kind", "user_id": "Ann"}]},
    ...     "suggestions": {"tone": {"value": "rude", "agent": "llm"}}}], predictions=True)
    >>> [(each.annotator, each.label) for each in table.given]
    [('Ann', 'kind'), ('llm', 'rude')]
    """
    found: list[tuple[Any, int, _Answer]] = []
    items: dict[Any, None] = {}
    for i, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InputError("labels", f"must be a list of records; record {i} is {type(record).__name__}")
        name = _item(record, i, item)
        if name in items:
            raise InputError("labels", f"has two records with the id {name!r}, one of them record {i}")
        items[name] = None
        found += [(name, i, answer) for answer in _answers(record, i)]
    wanted = [each for each in found if predictions or not each[2].by_model]
    questions = list(dict.fromkeys(answer.question for _, _, answer in wanted))
    if question is None and len(questions) > 1:
        raise InputError(
            "question",
            f"must name one of several: {', '.join(map(repr, questions))}",
            remedy=f"pass question={questions[0]!r}, for instance",
            spoken=f"give --control {questions[0]}, for instance",
        )
    if question is not None and question not in questions:
        there = f"; there are answers to {', '.join(map(repr, questions))}" if questions else ""
        raise InputError("question", f"is {question!r}, to which there is no answer{there}")
    given = []
    for name, i, answer in wanted:
        if answer.question == (question or answer.question):
            label = as_label(answer.value, f"in record {i}")
            if label is None:
                continue
            if answer.annotator is None:
                raise InputError("labels", f"does not say who answered ('user_id') in record {i}")
            given.append(GivenLabel(name, answer.annotator, label))
    if not given:
        many = "only suggestions of models" if found else "no answer in any record"
        raise InputError(
            "labels",
            f"holds {many}",
            remedy="pass predictions=True to take these" if found else None,
            spoken="give --predictions to take these" if found else None,
        )
    return LabelTable(tuple(given), tuple(items))


def _item(record: Mapping[str, Any], i: int, item: str | None) -> Any:
    """Return what a record is called."""
    if item is None:
        return next((record[key] for key in _ID if record.get(key) is not None), i)
    places = (record, *(record[part] for part in ("fields", "metadata", "inputs") if part in record))
    found = next((place[item] for place in places if isinstance(place, Mapping) and item in place), None)
    if not isinstance(found, str | int):
        raise InputError("labels", f"has no {item!r} in record {i} that is a text or a number", found=found)
    return found


def _answers(record: Mapping[str, Any], i: int) -> Iterator[_Answer]:
    """Return all answers of a record, in whatever way it has them."""
    responses, suggestions = record.get("responses"), record.get("suggestions")
    if isinstance(responses, Mapping):  # version 2: {question: [{value, user_id, status}]}
        for question, answers in responses.items():
            for each in answers if isinstance(answers, list) else [answers]:
                if _mapping(each, i) and _submitted(each.get("status")):
                    yield _Answer(question, _by(each), _value(each, i), False)
    elif responses is not None:  # a list, by user ({values: {question: {value}}}) or by answer
        for each in responses:
            if not _mapping(each, i) or not _submitted(each.get("status")):
                continue
            if "values" in each:
                for question, answer in (each["values"] or {}).items():
                    yield _Answer(question, _by(each), _value(answer, i), False)
            else:
                yield _Answer(str(each.get("question_name", "")), _by(each), _value(each, i), False)
    if isinstance(suggestions, Mapping):
        suggestions = [{"question_name": name} | _told(each) for name, each in suggestions.items()]
    for each in suggestions or ():
        yield _Answer(each.get("question_name", ""), each.get("agent") or "model", _value(each, i), True)
    yield from _flat(record, i)
    if "annotation" in record and record.get("status") != "Discarded":  # version 1
        yield _Answer("label", record.get("annotation_agent"), record["annotation"], False)
        best = record.get("prediction")
        if best:
            if not isinstance(best[0], str):  # several, each with its score
                best = max(best, key=lambda each: each["score"] if isinstance(each, Mapping) else each[1])
                best = best["label"] if isinstance(best, Mapping) else best[0]
            yield _Answer("label", record.get("prediction_agent") or "model", best, True)


def _flat(record: Mapping[str, Any], i: int) -> Iterator[_Answer]:
    """Return the answers of a flat record: ``question.responses``, or a column of answers by question."""
    for key, value in record.items():
        if key.endswith(".responses") and value is not None:
            users, status = record.get(f"{key}.users"), record.get(f"{key}.status") or [None] * len(value)
            if users is None or len(users) != len(value) or len(status) != len(value):
                raise InputError("labels", f"must have as many {key}.users as {key} in record {i}")
            for user, said, each in zip(users, status, value, strict=True):
                if _submitted(said):
                    yield _Answer(key.removesuffix(".responses"), user, each, False)
        elif key.endswith(".suggestion") and value is not None:
            agent = record.get(f"{key}.agent") or "model"
            yield _Answer(key.removesuffix(".suggestion"), agent, value, True)
        elif key.endswith("-suggestion") and value is not None:
            told = record.get(f"{key}-metadata")
            agent = told.get("agent") if isinstance(told, Mapping) else None
            yield _Answer(key.removesuffix("-suggestion"), agent or "model", value, True)
        elif is_answers(value):
            if isinstance(value, Mapping):  # columns in place of rows
                value = [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)]
            for each in value:
                if _submitted(each.get("status")):
                    yield _Answer(key, _by(each), _value(each, i), False)


def is_answers(value: Any) -> bool:
    """Return whether it is a list of answers, each with its user, or columns of them."""
    if isinstance(value, Mapping):
        return {"user_id", "value"} <= set(value) and all(isinstance(each, list) for each in value.values())
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, Mapping) and {"user_id", "value"} <= set(each) for each in value)
    )


def _submitted(status: Any) -> bool:
    return status is None or str(status).lower() in ("submitted", "completed", "validated")


def _by(answer: Mapping[str, Any]) -> Any:
    return next((answer[key] for key in ("user_id", "user", "username") if answer.get(key) is not None), None)


def _mapping(answer: Any, i: int) -> bool:
    if not isinstance(answer, Mapping):
        raise InputError("labels", f"must have responses with a user and a value in record {i}", found=answer)
    return True


def _told(answer: Any) -> dict[str, Any]:
    """Return an answer at length; a suggestion may be its value alone."""
    return dict(answer) if isinstance(answer, Mapping) else {"value": answer}


def _value(answer: Any, i: int) -> Any:
    if isinstance(answer, Mapping):
        if "value" not in answer:
            raise InputError("labels", f"has an answer without a 'value' in record {i}")
        return answer["value"]
    return answer
