"""Answers of annotators and models to one of several questions, as labelling tools export them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from nacp.errors import InputError
from nacp.labels.table import GivenLabel, LabelTable, as_label


class Answer(NamedTuple):
    """An answer; `where` says in which record it is, for error messages."""

    item: Any
    annotator: Any
    question: str
    value: Any
    where: str
    checked: bool = False
    by_model: bool = False


def table_of_answers(
    answers: Sequence[Answer],
    items: Iterable[Any],
    question: str | None,
    *,
    argument: str,
    predictions: bool,
    none_found: str,
) -> LabelTable:
    """Return the answers to one question as a table.

    Parameters
    ----------
    answers : sequence of Answer
    items : iterable
        All items, also those without an answer.
    question : str or None
        None if there is only one.
    argument : str
        The name of that argument, for error messages.
    predictions : bool
        Whether answers by models count.
    none_found : str
        The error message if there is no answer.
    """
    wanted = [each for each in answers if predictions or not each.by_model]
    questions = list(dict.fromkeys(each.question for each in wanted))
    if question is None and len(questions) > 1:
        raise InputError(
            argument,
            f"must name one of several: {', '.join(map(repr, questions))}",
            remedy=f"pass {argument}={questions[0]!r}, for instance",
            spoken=f"give --control {questions[0]}, for instance",
        )
    if question is not None and question not in questions:
        there = f"; there are answers to {', '.join(map(repr, questions))}" if questions else ""
        raise InputError(argument, f"is {question!r}, to which there is no answer{there}")
    given = []
    for each in wanted:
        label = as_label(each.value, each.where) if question in (None, each.question) else None
        if label is None:
            continue
        if each.annotator is None:
            raise InputError("labels", f"does not say whose label it is {each.where}")
        given.append(GivenLabel(each.item, each.annotator, label, each.checked))
    if not given and len(wanted) < len(answers):
        raise InputError(
            "labels",
            "holds only suggestions of models",
            remedy="pass predictions=True to take these",
            spoken="give --predictions to take these",
        )
    if not given:
        raise InputError("labels", none_found)
    return LabelTable(tuple(given), tuple(items))


def check_mapping(record: Any, what: str, i: int) -> None:
    """Raise an error if a record is not a mapping."""
    if not isinstance(record, Mapping):
        raise InputError("labels", f"must be a list of {what}s; {what} {i} is {type(record).__name__}")


def check_item(name: Any, field: str, where: str) -> Any:
    """Return the name of an item; raise an error if it is missing, or not a text or a number."""
    if name is None:
        raise InputError("labels", f"has no {field!r} {where}")
    if not isinstance(name, str | int | float):
        raise InputError("labels", f"must have a text or a number as {field!r} {where}", found=repr(name))
    return name
