"""Answers of annotators and models to one of several questions, as labelling tools export them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
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
    answers: Sequence[Answer], items: Iterable[Any], argument: str, question: str | None, predictions: bool
) -> LabelTable:
    """Return the answers to one question as a table.

    `argument` is the name of the argument that holds the question; `predictions` says whether answers by
    models count.
    """
    wanted = [each for each in answers if predictions or not each.by_model]
    questions = list(dict.fromkeys(each.question for each in wanted))
    if question is None and len(questions) > 1:
        raise not_given(argument, questions)
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
    return LabelTable(tuple(given), tuple(items))


def not_given(argument: str, choices: Sequence[str]) -> InputError:
    """Return the error for an argument that must name a column, a field or a question."""
    if not choices:
        return InputError(argument, "is not given, and there is no other field that it may be")
    return InputError(
        argument,
        f"is not given; it may be {', '.join(map(repr, choices[:10]))}",
        remedy=f"pass {argument}={choices[0]!r}, for instance",
        spoken=f"give --{argument.replace('question', 'control')} {choices[0]}, for instance",
    )


@contextmanager
def reading_record(what: str, i: int) -> Iterator[None]:
    """Raise an `InputError` if a record has another structure than the reader expects."""
    try:
        yield
    except InputError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        problem = f"must be a list of {what}s as the tool exports them; {what} {i} is not one"
        raise InputError("labels", problem) from None


def check_item(name: Any, field: str, where: str) -> Any:
    """Return the name of an item; raise an error if it is missing, or not a text or a number."""
    if name is None:
        raise InputError("labels", f"has no {field!r} {where}")
    if not isinstance(name, str | int | float):
        raise InputError("labels", f"must have a text or a number as {field!r} {where}", found=repr(name))
    return name
