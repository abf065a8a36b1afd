"""Questions about rows, and conversations that ask them.

Work on rows is a conversation: a generator yields the questions that it has, and is sent on when they are
answered. Several conversations go on `together`, and all that they want to know next is read at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from nacp._types import Array, Floats, Ints
from nacp.engine import Block

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


class Answer(NamedTuple):
    """What a question has learnt from some rows, to be put together with what it learnt from others.

    Attributes
    ----------
    sums : tuple of arrays
        What adds up.
    rows : tuple of arrays or None
        What comes one after the other, in the order of the rows; None if that was too much to keep.
    """

    sums: tuple[Array, ...] = ()
    rows: tuple[Array, ...] | None = ()


class Question(ABC):
    """What somebody wants to know of the rows; it collects its answer block by block.

    Attributes
    ----------
    key : hashable or None
        Questions with the same key are read for as one.
    lasting : bool
        Whether the answer is kept for the next question with the same key.
    placed : bool
        Whether it needs the scores in the places of the labels.
    scored : bool
        Whether it may need the scores of the labels of what it sees.
    order : array of int or None
        The rows that it is about, in the order in which they are to come; None for all in any order.
    most_rows : int or None
        How many rows it takes at once, if not any number.
    upto : float or None
        Up to which score it wants to know, if it is about scores only.
    keeps : bool
        Whether it keeps scores for others; of several questions, one does (`let_one_keep`).
    labelled : bool
        Whether it is to keep the labels that have them, too.
    unlabelled : bool
        Whether it is about unlabelled points, too.
    done : bool
        Whether it needs no further blocks.
    """

    key: Hashable = None
    lasting: bool = False
    placed: bool = False
    scored: bool = True
    order: Ints | None = None
    most_rows: int | None = None
    upto: float | None = None
    keeps: bool = False
    labelled: bool = False
    unlabelled: bool = False
    done: bool = False

    @abstractmethod
    def see(self, block: Block, rows: Any) -> None:
        """Take in one block; `rows` says which rows these are, None that they have no labels."""

    def absorb(self, other: Any) -> None:  # noqa: B027  (most have nothing to absorb)
        """Ask what a question with the same key asks, too."""

    def take(self, other: Any) -> None:
        """Take over the answer of a question with the same key."""
        vars(self).update(vars(other))

    # What it takes to ask about rows that lie elsewhere, part by part (`nacp.coverage.lazy`). Questions that
    # are never asked of such rows do not have it.
    coverage: Any = None  # under which it is asked, if under one

    def begin(self, start: int) -> None:  # noqa: B027  (most do not ask)
        """Learn which of all rows is the first one here."""

    def terms(self) -> tuple[Any, ...]:
        """Return what else it is made of: with the coverage of other rows, it asks the same about these."""
        raise NotImplementedError

    def answer(self) -> Answer:
        """Return what it has learnt."""
        raise NotImplementedError

    def add(self, answer: Answer) -> None:
        """Learn what it has learnt from all rows, part by part."""
        raise NotImplementedError


class OrderedQuestion(Question):
    """A question that takes rows in an order, and no more of them than their shares at some thresholds."""

    @property
    @abstractmethod
    def thresholds(self) -> Floats:
        """The native thresholds that it is about by now, ascending."""

    @abstractmethod
    def see_shares(self, thresholds: Floats, shares: Floats) -> None:
        """Take in the shares of the next rows, at thresholds among which are all that it is about."""


Talk: TypeAlias = Generator[list[Question], None, T]


def together(talks: Sequence[Talk[T]]) -> Talk[list[T]]:
    """Let several conversations go on at once: what they want to know next is one list of questions."""
    found: dict[int, T] = {}
    asked: dict[int, list[Question]] = {}

    def go_on(i: int) -> None:
        try:
            asked[i] = next(talks[i])
        except StopIteration as end:
            asked.pop(i, None)
            found[i] = end.value

    for i in range(len(talks)):
        go_on(i)
    while asked:
        yield [question for questions in asked.values() for question in questions]
        for i in list(asked):
            go_on(i)
    return [found[i] for i in range(len(talks))]


def both(first: Talk[A], second: Talk[B]) -> Talk[tuple[A, B]]:
    """Let two conversations go on at once."""
    talks: list[Talk[Any]] = [first, second]
    one, other = yield from together(talks)
    return one, other


def let_one_keep(questions: Sequence[Question]) -> None:
    """Let one of the questions that keep scores do it for all, with labels if one of them needs these."""
    keeping = [each for each in questions if each.keeps]
    for other in keeping[1:]:
        keeping[0].labelled = keeping[0].labelled or other.labelled
        other.keeps = False
