"""Argilla's records: those of version 2, as they are or flattened, and feedback records of version 1."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nacp.errors import InputError
from nacp.labels.answers import Answer, check_item, reading_record, table_of_answers
from nacp.labels.table import LabelTable

_IDS = ("id", "external_id", "_server_id")
_USERS = ("user_id", "user", "username")
_SUBMITTED = ("submitted", "completed", "validated")


def from_argilla(
    records: Sequence[Mapping[str, Any]],
    *,
    question: str | None = None,
    item: str | None = None,
    predictions: bool = False,
) -> LabelTable:
    """Read records that Argilla exported, as ``json.load`` returns them: the answers to one question.

    Responses that were discarded, or not yet submitted (drafts), are left out. The `question` is needed only
    if there are answers to several. `item` is the field that names a record; by default its id, and without
    any the record's number. With `predictions` suggestions count as labels, too, each agent as an annotator.

    Examples
    --------
    >>> from nacp.labels import from_argilla
    >>> table = from_argilla([{"id": "a", "fields": {"text": "Hello"},
    ...     "responses": {"tone": [{"value": "kind", "user_id": "Ann"}]},
    ...     "suggestions": {"tone": {"value": "rude", "agent": "llm"}}}], predictions=True)
    >>> [(each.annotator, each.label) for each in table.given]
    [('Ann', 'kind'), ('llm', 'rude')]
    """
    answers: list[Answer] = []
    items: dict[Any, None] = {}
    for i, record in enumerate(records):
        with reading_record("record", i):
            name, where = _item(record, i, item), f"in record {i}"
            if name in items:
                raise InputError("labels", f"has two records with the id {name!r}, one of them record {i}")
            items[name] = None
            for asked, response in _responses(record):
                status = str(response.get("status") or "submitted").lower()
                user = next((response[key] for key in _USERS if response.get(key) is not None), None)
                if status in _SUBMITTED:
                    answers.append(Answer(name, user, asked, response["value"], where))
            for asked, suggestion in _suggestions(record):
                agent, value = suggestion.get("agent") or "model", suggestion["value"]
                answers.append(Answer(name, agent, asked, value, where, by_model=True))
    return table_of_answers(answers, items, "question", question, predictions)


def _item(record: Mapping[str, Any], i: int, item: str | None) -> Any:
    if item is None:
        return next((record[key] for key in _IDS if record.get(key) is not None), i)
    places = (record, record.get("fields") or {}, record.get("metadata") or {})
    return check_item(next((place[item] for place in places if item in place), None), item, f"in record {i}")


def _responses(record: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the questions and the responses of annotators, as mappings with value, user and status."""
    responses = record.get("responses") or ()
    if isinstance(responses, Mapping):  # version 2
        for question, several in responses.items():
            for each in several:
                yield question, each
    else:  # feedback records: one response for each user, with values by question
        for each in responses:
            for question, value in (each["values"] or {}).items():
                yield question, {**each, **value}
    for key, values in record.items():
        if key.endswith(".responses") and values is not None:  # flattened
            users, states = record[f"{key}.users"], record.get(f"{key}.status") or [None] * len(values)
            for value, user, status in zip(values, users, states, strict=True):
                yield key.removesuffix(".responses"), {"value": value, "user_id": user, "status": status}


def _suggestions(record: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the questions and the suggestions of models, as mappings with value and agent."""
    suggestions = record.get("suggestions") or ()
    if isinstance(suggestions, Mapping):  # version 2
        yield from suggestions.items()
    else:  # feedback records
        for each in suggestions:
            yield each["question_name"], each
    for key, value in record.items():
        if key.endswith(".suggestion") and value is not None:  # flattened
            yield key.removesuffix(".suggestion"), {"value": value, "agent": record.get(f"{key}.agent")}
