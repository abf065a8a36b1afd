"""Argilla's records: version 2 (responses by question), feedback records, and version 1 (annotation)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nacp.errors import InputError
from nacp.labels.answers import Answer, check_item, check_mapping, table_of_answers
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
    answers: list[Answer] = []
    items: dict[Any, None] = {}
    for i, record in enumerate(records):
        check_mapping(record, "record", i)
        name, where = _item(record, i, item), f"in record {i}"
        if name in items:
            raise InputError("labels", f"has two records with the id {name!r}, one of them record {i}")
        items[name] = None
        for asked, response in _responses(record, where):
            status = response.get("status")
            user = next((response[key] for key in _USERS if response.get(key) is not None), None)
            if status is None or str(status).lower() in _SUBMITTED:
                answers.append(Answer(name, user, asked, _value(response, where), where))
        for asked, suggestion in _suggestions(record):
            agent, value = suggestion.get("agent") or "model", _value(suggestion, where)
            answers.append(Answer(name, agent, asked, value, where, by_model=True))
    return table_of_answers(
        answers,
        items,
        question,
        argument="question",
        predictions=predictions,
        none_found="holds no answer in any record",
    )


def _item(record: Mapping[str, Any], i: int, item: str | None) -> Any:
    if item is None:
        return next((record[key] for key in _IDS if record.get(key) is not None), i)
    places = (record, *(record.get(part) for part in ("fields", "metadata", "inputs")))
    found = next((place[item] for place in places if isinstance(place, Mapping) and item in place), None)
    return check_item(found, item, f"in record {i}")


def _value(answer: Mapping[str, Any], where: str) -> Any:
    if "value" not in answer:
        raise InputError("labels", f"has an answer without a 'value' {where}")
    return answer["value"]


def _responses(record: Mapping[str, Any], where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the questions and the responses of annotators, as mappings with value, user and status."""
    responses = record.get("responses")
    if isinstance(responses, Mapping):  # version 2
        found = [
            (question, each)
            for question, several in responses.items()
            for each in (several if isinstance(several, list) else [several])
        ]
    else:  # one response for each user, with values by question; or one for each answer
        found = []
        for each in responses or ():
            if isinstance(each, Mapping) and "values" in each:
                found += [(question, {**each, **value}) for question, value in (each["values"] or {}).items()]
            else:
                found.append(("", each))
    for key, value in record.items():
        if key.endswith(".responses") and value is not None:  # flattened version 2
            users, states = record.get(f"{key}.users"), record.get(f"{key}.status") or [None] * len(value)
            if users is None or not len(users) == len(value) == len(states):
                raise InputError("labels", f"must have as many {key}.users as {key} {where}")
            found += [
                (key.removesuffix(".responses"), {"value": label, "user_id": user, "status": status})
                for label, user, status in zip(value, users, states, strict=True)
            ]
        elif is_answers(value):  # feedback records on the Hugging Face hub
            if isinstance(value, Mapping):
                value = [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)]
            found += [(key, each) for each in value]
    if "annotation" in record:  # version 1
        status = "discarded" if record.get("status") == "Discarded" else None
        by = record.get("annotation_agent")
        found.append(("label", {"value": record["annotation"], "user_id": by, "status": status}))
    for question, each in found:
        if not isinstance(each, Mapping):
            raise InputError("labels", f"must have responses with a user and a value {where}", found=each)
        yield question or str(each.get("question_name", "")), each


def _suggestions(record: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the questions and the suggestions of models, as mappings with value and agent."""
    suggestions = record.get("suggestions")
    if isinstance(suggestions, Mapping):
        for question, each in suggestions.items():
            yield question, each if isinstance(each, Mapping) else {"value": each}
    else:
        for each in suggestions or ():
            yield each.get("question_name", ""), each
    for key, value in record.items():
        if key.endswith(".suggestion") and value is not None:
            yield key.removesuffix(".suggestion"), {"value": value, "agent": record.get(f"{key}.agent")}
        elif key.endswith("-suggestion") and value is not None:
            agent = (record.get(f"{key}-metadata") or {}).get("agent")
            yield key.removesuffix("-suggestion"), {"value": value, "agent": agent}
    best = record.get("prediction") if "annotation" in record else None
    if best and record.get("status") != "Discarded":  # version 1
        if not isinstance(best[0], str):  # several labels, each with its score
            scored = [(each["label"], each["score"]) if isinstance(each, Mapping) else each for each in best]
            best = max(scored, key=lambda pair: pair[1])[0]
        yield "label", {"value": best, "agent": record.get("prediction_agent")}


def is_answers(value: Any) -> bool:
    """Return whether a value is a list of answers, each with its user, or lists of users and answers."""
    if isinstance(value, Mapping):
        return {"user_id", "value"} <= set(value) and all(isinstance(each, list) for each in value.values())
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, Mapping) and {"user_id", "value"} <= set(each) for each in value)
    )
