"""A sample whose rows lie elsewhere, in the chunks of a dask array: questions go to them, answers come back.

Each chunk is a sample of its own, of which the same questions are asked. What adds up is added up by a tree,
and what comes row by row is put together in the order of the rows, so nothing depends on where chunks end, or
on who works on them. The scores of the labels come here, and with them the few scores that thresholds depend
on, if these are not too many: all else is then known without another look at the rows.
"""

from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.coverage.asking import Answer, OrderedQuestion, Question, Talk, let_one_keep
from nacp.coverage.questions import SharesQuestion
from nacp.coverage.sample import Sample, glanced_at
from nacp.engine import Scratch
from nacp.engine.cells import CELLS
from nacp.points import Rows, open_rows
from nacp.points.arrays import every, rows_at_once
from nacp.points.lazy import LazyRows, Part, Waiting, computed, numbered
from nacp.points.repeats import looked_at
from nacp.scores import Score
from nacp.tuning import tuned, tuning

T = TypeVar("T")
Reading: TypeAlias = Generator[Waiting, Any, T]
"""A read that says what it waits for, and goes on with it: several of them are computed at once."""


class Asked(NamedTuple):
    """Questions, as they are sent."""

    score: Score
    seen_as: tuple[Any, ...]  # what a matrix needs to be rows
    classes: Any
    few_pairs: int
    coverages: list[tuple[type[Any], tuple[Any, ...]]]
    questions: list[tuple[type[Question], int | None, tuple[Any, ...]]]


class LazySample(Sample):
    """Points with given labels in the chunks of a dask array. Made by `sample_of`, which opens it.

    Parameters
    ----------
    rows : LazyRows
        As the door returned them; they are checked here, while the labels are scored.
    labels, score, unlabelled, parts
        As in `Sample`.
    """

    rows: LazyRows
    unlabelled: LazyRows | None
    collects = here = False

    def __init__(
        self,
        rows: LazyRows,
        labels: Ints,
        score: Score,
        unlabelled: LazyRows | None = None,
        parts: Floats | None = None,
    ) -> None:
        super().__init__(rows, labels, score, unlabelled, parts)
        self._given, self._classes = rows.given(labels)
        self._parts: list[Any] = [None] * len(rows.sizes) if parts is None else rows.cut(parts)

    def opening(self, held: Ints | None = None) -> Reading[None]:
        """Check the rows, and score the labels; some rows are held here from then on."""
        rows, unlabelled = self.rows, self.unlabelled
        if unlabelled is not None:
            yield unlabelled.waiting(_checked, list, (unlabelled.options,))
        looked, columns, _ = looked_at(rows.n, rows.k)
        few = np.union1d(glanced_at(rows.n, rows.k), np.arange(rows.n)[every(rows.n)])
        few = few if held is None else np.union1d(few, held)
        shared = rows.options, self.score, self._classes, few, looked, columns
        (found,) = yield rows.waiting(_opened, _all_joined, shared, self._given, self._every())
        self._label_scores, seen, peeked = found.rows
        rows.hold((few, seen), (looked, columns, peeked))

    def some(self, rows: Ints) -> Sample:
        """Return some of the points, ascending."""
        return self.some_each([rows])[0]

    def some_each(self, parts: Sequence[Ints]) -> list[Sample]:
        """Return several of them; all are opened at once."""
        found = []
        for rows in parts:
            shares = None if self.parts is None else self.parts[rows]
            some = _closed(self.rows.some(rows), self.labels[rows], self.score, self.unlabelled, shares)
            some.by_annotator = self.by_annotator
            found.append(some)
        at_once([each.opening() for each in found if isinstance(each, LazySample)])
        return found

    def _every(self) -> list[tuple[None, Any]]:
        """Return for each chunk that all of its rows are meant, and the parts of their labels."""
        return [(None, parts) for parts in self._parts]

    @property
    def few_pairs(self) -> int:
        """How many pairs may be kept from a read: more, as to read is dearer."""
        most: int = min(tuning().sent_pairs, 8 * self.n)
        return max(tuning().kept_pairs, most)

    def _read(self, questions: Sequence[Question], order: Ints | None) -> None:
        at_once([self._reading(questions)])

    def reading(self, questions: Sequence[Question]) -> Reading[None]:
        """Answer questions, and wait for others meanwhile."""
        with self._asked(questions) as asked:
            for some, _ in asked:
                yield from self._reading(some)

    def _reading(self, questions: Sequence[Question]) -> Reading[None]:
        let_one_keep(questions)
        for question in questions:
            if isinstance(question, OrderedQuestion):
                yield from self._read_in_order(question)
            elif question.order is not None:
                yield from self._read_rows(question, question.order)
        unordered = [each for each in questions if each.order is None]
        near = [each for each in unordered if self._is_known(each)]
        super()._read(near, None)
        far = [each for each in unordered if not self._is_known(each)]
        if far:
            yield from self._ask(far, self.rows, self._given, self._every())
        extra = [each for each in far if each.unlabelled]
        if extra and self.unlabelled is not None:
            yield from self._ask(extra, self.unlabelled)

    def _is_known(self, question: Question) -> bool:
        """Return whether the scores that were kept will do."""
        kept = self.kept if engine.keeps(self.spec) else None
        return kept is not None and kept.has(question.upto, labels=question.placed)

    def _ask(self, questions: Sequence[Question], rows: LazyRows, *given: Any) -> Reading[None]:
        answers = yield self._answers(questions, rows, *given)
        for question, answer in zip(questions, answers, strict=True):
            question.add(answer)

    def _answers(
        self,
        questions: Sequence[Question],
        rows: LazyRows,
        labels: Sequence[Any] | None = None,
        more: Sequence[Any] | None = None,
    ) -> Waiting:
        coverages: list[Any] = []
        asked = []
        for question in questions:
            if question.coverage is not None and question.coverage not in coverages:
                coverages.append(question.coverage)
            place = None if question.coverage is None else coverages.index(question.coverage)
            asked.append((type(question), place, question.terms()))
        terms = [(type(each), each.terms()) for each in coverages]
        shared = Asked(self.score, rows.seen_as, self._classes, self.few_pairs, terms, asked)
        return rows.waiting(_answered, _all_joined, (shared,), labels, more)

    def _read_in_order(self, question: OrderedQuestion) -> Reading[None]:
        """Answer by scores that were kept; else by the next rows, or by their shares if these are less."""
        order, start = question.order, 0
        assert order is not None
        while start < self.n and not question.done:
            if self._is_known(question):
                assert self.kept is not None
                rows = order[start : start + min(question.most_rows or 1, rows_at_once(self.k))]
                question.see(engine.kept_block(self.kept, rows, self.spec), rows)
                start += len(rows)
                continue
            thresholds = question.thresholds
            size, by_share = self.k * self.rows.itemsize, 8 * len(thresholds)
            rows = order[start : start + max(1, tuning().sent_bytes // min(size, by_share))]
            if by_share < size:
                shares = yield from self._sent(rows, SharesQuestion(question.coverage, thresholds))
                for some in _next_rows(question, len(rows)):
                    question.see_shares(thresholds, shares[some])
            else:
                sent = yield from self._sent(rows)
                near, scratch = Rows(sent, *self.rows.seen_as), Scratch()
                for some in _next_rows(question, len(rows)):
                    question.see(engine.open_block(near[some], self.spec, scratch), rows[some])
            start += len(rows)

    def _read_rows(self, question: Question, order: Ints) -> Reading[None]:
        """Let a question see rows in an order: some at a time are sent here."""
        step, start = max(1, tuning().sent_bytes // (self.k * self.rows.itemsize)), 0
        while start < len(order) and not question.done:
            rows, scratch = order[start : start + step], Scratch()
            sent = yield from self._sent(rows)
            near = Rows(sent, *self.rows.seen_as)
            for some in _next_rows(question, len(rows)):
                question.see(engine.open_block(near[some], self.spec, scratch), rows[some])
            start += len(rows)

    def _sent(self, rows: Ints, question: Question | None = None) -> Reading[Array]:
        """Return what a question learns from some rows, in their order; without one, these."""
        chunk = np.searchsorted(self.rows.starts, rows, side="right") - 1
        places = np.argsort(chunk, kind="stable")
        ends = np.searchsorted(chunk[places], np.arange(len(self.rows.starts) + 1))
        more: list[Any] = []
        for i, (first, last) in enumerate(pairwise(ends)):
            here = rows[places[first:last]] - self.rows.starts[i]
            parts = None if self._parts[i] is None else self._parts[i][here]
            more.append((here, parts) if len(here) else None)
        if question is None:
            (answer,) = yield self.rows.waiting(_picked, _all_joined, (), None, more)
        else:
            (answer,) = yield self._answers([question], self.rows, self._given, more)
        (found,) = answer.rows
        sent: Array = np.empty_like(found)
        sent[places] = found
        return sent


def _next_rows(question: Question, number: int) -> Iterator[slice]:
    """Yield so many rows as a question wants at once, as long as it wants some."""
    some = slice(0, 0)
    while some.stop < number and not question.done:
        some = slice(some.stop, min(some.stop + (question.most_rows or number), number))
        yield some


def _checked(part: Part, options: dict[str, Any]) -> None:
    open_rows(part.matrix, start=part.start, **options)


def _opened(
    part: Part, options: dict[str, Any], score: Score, classes: Any, few: Ints, looked: Ints, columns: Ints
) -> list[Answer]:
    """Check some rows; return the scores of their labels, and those of them that are to be held."""
    rows = open_rows(part.matrix, start=part.start, **options)
    scores = Sample(rows, numbered(part, rows.k, classes), score, parts=part.more[1]).label_scores

    def here(numbers: Ints) -> Ints:
        inside = slice(*np.searchsorted(numbers, [part.start, part.start + rows.n]))
        return numbers[inside] - part.start

    return [Answer(rows=(scores, part.matrix[here(few)], rows.peek(here(looked), columns)))]


def _picked(part: Part) -> list[Answer]:
    return [Answer(rows=(part.matrix[part.more[0]],))]


def _answered(part: Part, asked: Asked) -> list[Answer]:
    """Ask some rows what is asked of all."""
    rows, (some, parts) = Rows(part.matrix, *asked.seen_as), part.more
    labels = np.zeros(rows.n, dtype=np.int64)
    if part.labels is not None:
        labels = numbered(part, rows.k, asked.classes)
    if some is not None:
        rows, labels = rows.some(some), labels[some]
    with tuned(kept_pairs=asked.few_pairs):
        sample = Sample(rows, labels, asked.score, parts=parts)
        coverages = [kind(sample, *terms) for kind, terms in asked.coverages]
        questions = [
            kind(*([] if place is None else [coverages[place]]), *terms)
            for kind, place, terms in asked.questions
        ]
        for question in questions:
            question.begin(part.start)
        sample._read(questions, None)
    return [question.answer() for question in questions]


def _all_joined(parts: list[list[Answer]]) -> list[Answer]:
    """Join the answers to several questions, from parts of the rows in their order."""
    return [_joined(list(each)) for each in zip(*parts, strict=True)]


def _joined(answers: list[Answer]) -> Answer:
    sums = tuple(sum(each[1:], start=each[0]) for each in zip(*(a.sums for a in answers), strict=True))
    kept = [answer.rows for answer in answers if answer.rows is not None]
    if len(kept) < len(answers):
        return Answer(sums, None)
    return Answer(sums, tuple(np.concatenate(each) for each in zip(*kept, strict=True)))


def sample_of(
    rows: Rows,
    labels: Ints,
    score: Score,
    unlabelled: Any = None,
    parts: Floats | None = None,
    held: Ints | None = None,
) -> Sample:
    """Return points with given labels as a sample, wherever their rows are; some of them are held here."""
    found = _closed(rows, labels, score, unlabelled, parts)
    if isinstance(found, LazySample):
        at_once([found.opening(held)])
    return found


def _closed(rows: Rows, labels: Ints, score: Score, unlabelled: Any, parts: Floats | None) -> Sample:
    kind = LazySample if isinstance(rows, LazyRows) else Sample
    return kind(rows, labels, score, unlabelled, parts)  # type: ignore[arg-type]  # rows are of the kind


def at_once(readings: Sequence[Reading[T]]) -> list[T]:
    """Carry reads on to their ends; what they wait for next is computed at once."""
    found, waiting = dict[int, T](), dict[int, Waiting]()

    def go_on(i: int, value: Any) -> None:
        try:
            waiting[i] = readings[i].send(value)
        except StopIteration as end:
            waiting.pop(i, None)
            found[i] = end.value

    for i in range(len(readings)):
        go_on(i, None)
    while waiting:
        for i, value in zip(list(waiting), computed(list(waiting.values())), strict=True):
            go_on(i, value)
    return [found[i] for i in range(len(readings))]


def parted(sample: Sample, parts: Sequence[Ints]) -> Iterator[list[Sample]]:
    """Yield samples of parts of the points: one at a time, but where rows lie elsewhere as many at once as
    their tallies are not too much to be sent.
    """
    if not isinstance(sample, LazySample):
        yield from ([sample.some(rows)] for rows in parts)
        return
    most = max(1, tuning().sent_bytes // (3 * 8 * CELLS))
    for start in range(0, len(parts), most):
        yield sample.some_each(parts[start : start + most])


def ask_each(samples: Sequence[Sample], talks: Sequence[Talk[T]]) -> list[T]:
    """Carry on a conversation with each of several samples; chunks that these share are read once for all."""
    return at_once([_carried(sample, talk) for sample, talk in zip(samples, talks, strict=True)])


def _carried(sample: Sample, talk: Talk[T]) -> Reading[T]:
    try:
        while True:
            questions = next(talk)
            if isinstance(sample, LazySample):
                yield from sample.reading(questions)
            else:
                sample.read(questions)
    except StopIteration as end:
        value: T = end.value
        return value
