"""Sample: points with given labels, as one score sees them. Whatever wants to know of the rows asks it."""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from nacp import engine
from nacp._types import Floats, Ints
from nacp.coverage.asking import Question, Talk, let_one_keep
from nacp.engine import Block, Kept, Scratch
from nacp.points import Rows, Widths
from nacp.points.arrays import row_slices, rows_at_once
from nacp.scores import Score
from nacp.tuning import tuning

T = TypeVar("T")


class Sample:
    """Points with given labels: checked and opened once, and read as often as somebody has a question.

    Parameters
    ----------
    rows : Rows
        As the door returned them.
    labels : array of shape (n,) or (n, a)
        The given labels, as numbers; of several for each point, -1 where one is missing. These share the
        point: each has the same part in its share of an estimate.
    score : Score
        How pairs are scored.
    unlabelled : Rows, optional
        Further points, without labels.
    parts : array of shape (n, a), optional
        Where labels are ``label + k annotator``: the part of each in its point.
    """

    in_order = False  # whether bets were placed on the points as they came

    def __init__(
        self, rows: Rows, labels: Ints, score: Score, unlabelled: Rows | None = None,
        parts: Floats | None = None,
    ) -> None:  # fmt: skip
        self.rows, self.score, self.unlabelled = rows, score, unlabelled
        # The part that each of several labels has in its point: 0 where it is missing.
        self.parts, self.by_annotator = parts, parts is not None
        if labels.ndim == 2 and parts is None:
            self.parts = (labels >= 0) / np.count_nonzero(labels >= 0, axis=1, keepdims=True)
        self.labels: Ints = labels if self.parts is None else np.maximum(labels, 0)
        self.n, self.k, self.spec = rows.n, rows.k, score.spec
        self.seen_as: dict[Hashable, Any] = {}  # coverages by noise model, so that they are made once
        self.glanced: dict[Hashable, tuple[Ints, Ints, Ints]] = {}  # some rows, and their tallies
        self.held: dict[Hashable, list[Any]] = {}  # pairs that were collected, by how they are weighed
        self.kept: Kept | None = None  # low scores, if a read has kept them
        self._answered: dict[Hashable, Question] = {}
        self._orders: dict[int, Ints] = {}
        self._u: Floats | None = None  # the rows' uniform numbers, once they are known
        self._label_scores: Floats | None = None

    @property
    def label_scores(self) -> Floats:
        """The native scores of the given labels, in the order of the rows.

        The first read finds them, if it takes more than the labels' own entries.
        """
        if self._label_scores is None and not self.rows.in_files:
            self._label_scores = self._scores_by_entry(np.arange(self.n))
        if self._label_scores is None:
            self._read([], None)
        assert self._label_scores is not None
        return self._label_scores

    def _scores_by_entry(self, rows: Ints) -> Floats | None:
        """Return the same of some rows, if their labels' own entries say them and can be looked at alone."""
        if not self.spec.by_entry or self.parts is not None:
            return None
        own = self.rows.one_each(rows, self.labels[rows])
        if own is None:
            return None
        return engine.open_block(own[:, None], self.spec).placed[:, 0].astype(np.float64)

    def _scores_of(self, block: Block, rows: slice | Ints) -> Floats:
        """Return the native scores of the labels of some rows."""
        if self.parts is None:
            return engine.label_scores(block, self.labels[rows])
        return np.stack([engine.label_scores(block, each) for each in self.labels[rows].T % self.k], axis=1)

    @property
    def _at_once(self) -> int:
        """How many rows make a block; of several labels the weights of all entries are written out."""
        return self.rows.at_once if self.parts is None else min(self.rows.at_once, rows_at_once(self.k))

    def some(self, rows: Ints) -> "Sample":
        """Return some of the points, with what is known of them."""
        parts = None if self.parts is None else self.parts[rows]
        found = Sample(self.rows.some(rows), self.labels[rows], self.score, self.unlabelled, parts)
        found.by_annotator, found._label_scores = self.by_annotator, self.label_scores[rows]
        found._u = None if self._u is None else self._u[rows]
        return found

    def _open(self, rows: slice | Ints, scratch: Scratch) -> Block:
        u = None if self._u is None else self._u[rows]
        return self.rows.block(rows, self.spec, scratch, u)

    @property
    def keeps(self) -> bool:
        """Whether the scores of rows can be kept when these are read."""
        return engine.keeps(self.spec) and not self.rows.on_device

    collects = True  # whether pairs can be collected while they are counted
    here = True  # whether the rows can be read here

    @property
    def few_pairs(self) -> int:
        """How many pairs may be kept from a read."""
        return tuning().kept_pairs

    @property
    def widths(self) -> Widths:
        """How wide the numbers of the rows are."""
        return self.rows.widths

    @property
    def from_logits(self) -> bool:
        """Whether the rows were logits."""
        return self.rows.logits

    @property
    def several(self) -> int | None:
        """How many labels the points have in all, if they have several each."""
        return None if self.parts is None else int(np.count_nonzero(self.parts))

    @property
    def class_counts(self) -> Floats:
        """How many points have each class as their label, or in part."""
        parts = None if self.parts is None else self.parts.ravel()
        return np.bincount(self.labels.ravel() % self.k, parts, minlength=self.k).astype(np.float64)

    def label_counts(self, number: int) -> Floats:
        """Return the same of so many labels; they are more than classes where they say by whom they are."""
        parts = None if self.parts is None else self.parts.ravel()
        return np.bincount(self.labels.ravel(), parts, minlength=number).astype(np.float64)

    def ask(self, talk: Talk[T]) -> T:
        """Carry on a conversation to its end, and return what comes out."""
        try:
            while True:
                self.read(next(talk))
        except StopIteration as end:
            found: T = end.value
            return found

    def read(self, questions: Sequence[Question]) -> None:
        """Answer questions: all at once, but for different orders of the rows."""
        with self._asked(questions) as asked:
            for some, order in asked:
                self._read(some, order)

    @contextmanager
    def _asked(self, questions: Sequence[Question]) -> Iterator[list[tuple[list[Question], Ints | None]]]:
        """Say what is to be read for, in which orders; then hand the answers on."""
        groups: dict[Hashable, list[Question]] = {}
        for question in questions:
            groups.setdefault(id(question) if question.key is None else question.key, []).append(question)
        new = {key: group for key, group in groups.items() if key not in self._answered}
        for first, *others in new.values():
            for other in others:
                first.absorb(other)
        asked = [group[0] for group in new.values()]
        orders = {id(q.order): q.order for q in asked}
        whole = next((each for each in orders.values() if each is not None and len(each) == self.n), None)
        # Where the order plays no part, that of all rows will do.
        yield [
            ([q for q in asked if q.order is order or (q.order is None and order is whole)], order)
            for order in orders.values()
            if order is not None or whole is None
        ]
        self._answered |= {key: group[0] for key, group in new.items() if group[0].lasting}
        for key, group in groups.items():
            first = self._answered.get(key, group[0])
            for other in group:
                if other is not first:
                    other.take(first)

    def shuffled(self, seed: int) -> Ints:
        """Return all rows in the order that a seed shuffles them into."""
        if seed not in self._orders:
            self._orders[seed] = np.random.default_rng(seed).permutation(self.n)
        return self._orders[seed]

    def _read(self, questions: Sequence[Question], order: Ints | None) -> None:
        if self._label_scores is None and (order is None or len(order) == self.n):
            u = None if self.spec.seed is None else np.empty(self.n)
            self._label_scores = np.empty(self.labels.shape)
            try:
                self._read_blocks(questions, order, (self._label_scores, u))
            except BaseException:
                self._label_scores = None
                raise
            self._u = u
        else:
            self._read_blocks(questions, order)
        extra = [question for question in questions if question.unlabelled]
        if self.unlabelled is None or not extra:
            return
        scratch = Scratch()
        for where in self.unlabelled.slices():
            block = engine.open_block(self.unlabelled[where], self.spec, scratch)
            for question in extra:
                question.see(block, None)

    def _read_blocks(
        self,
        questions: Sequence[Question],
        order: Ints | None,
        first: tuple[Floats, Floats | None] | None = None,
    ) -> None:
        """Let questions see all rows; the first time, learn the labels' scores and the uniform numbers."""
        scratch, number, start = Scratch(), self.n if order is None else len(order), 0
        keeps, at_once = self.keeps, self._at_once
        kept = self.kept if keeps else None
        let_one_keep(questions)
        while start < number:
            open_questions = [each for each in questions if not each.done]
            if not open_questions and first is None:
                return
            near = [kept is not None and kept.has(q.upto, labels=q.placed) for q in open_questions]
            low = [each for each, is_near in zip(open_questions, near, strict=True) if is_near]
            others = [each for each, is_near in zip(open_questions, near, strict=True) if not is_near]
            fitting = [each.most_rows for each in open_questions if each.most_rows is not None]
            if self.rows.entries < self.k and any(each.placed for each in open_questions):
                fitting.append(rows_at_once(self.k))  # for them, rows are written out
            larger = 1
            if keeps and not any(each.placed for each in open_questions):  # blocks need no room
                if first is None and not others:
                    larger = tuning().kept_blocks
                elif self.rows.as_they_lie or self.rows.in_files:
                    larger = tuning().memory_blocks
            where = slice(start, min(start + min([larger * at_once, *fitting]), number))
            start = where.stop
            rows = where if order is None else order[where]
            if kept is not None and low:
                block = engine.kept_block(kept, rows, self.spec)
                for question in low:
                    question.see(block, rows)
            if others or first is not None:
                block = self._open(rows, scratch)
                if any(question.placed for question in others):
                    block.prepare(placed=True)
                # An entry is near when others have read its row; a place in the row takes all of it first.
                last = self.spec.by_entry and not any(question.scored for question in others)
                if first is not None and not last:
                    self._learn(first, block, rows)
                for question in others:
                    question.see(block, rows)
                if first is not None and last:
                    self._learn(first, block, rows)
                block.confirm()
                del block  # the next one is read to the same place, which is near

    def _learn(self, first: tuple[Floats, Floats | None], block: Block, rows: slice | Ints) -> None:
        first[0][rows] = self._scores_of(block, rows)
        if first[1] is not None:
            first[1][rows] = block.u

    def glance(self, questions: Sequence[Question]) -> Ints:
        """Let questions share some evenly spaced rows, an eighth of all at the most; return which."""
        chosen, scratch = glanced_at(self.n, self.k), Scratch()
        for i, question in enumerate(questions):
            some = chosen[i :: len(questions)]
            for where in row_slices(len(some), self.k, self._at_once):
                block = self._open(some[where], scratch)
                question.see(block, some[where])
                block.confirm()
        return chosen

    def some_label_scores(self) -> tuple[slice | Ints, Floats]:
        """Return rows, and the scores of their labels: all, but of a file some, an eighth at the most.

        In memory, to score the labels is quick; a file would have to be read once more.
        """
        if not self.rows.in_files:
            return slice(None), self.label_scores
        step = min(self.n, max(8, self.n // tuning().hint_labels))
        chosen, scratch, scores = np.arange(step // 2, self.n, step), Scratch(), []
        if self._label_scores is not None:
            return chosen, self._label_scores[chosen]
        own = self._scores_by_entry(chosen)
        if own is not None:
            return chosen, own
        for where in row_slices(len(chosen), self.k, self._at_once):
            block = self._open(chosen[where], scratch)
            scores.append(self._scores_of(block, chosen[where]))
            block.confirm()
        return chosen, np.concatenate(scores)


def glanced_at(n: int, k: int) -> Ints:
    """Return the rows at which a glance is taken, of n rows with k entries."""
    rows = max(tuning().hint_entries // k, tuning().hint_rows)
    step = min(n, max(8, -(-n // rows)))
    return np.arange(step // 2, n, step)
