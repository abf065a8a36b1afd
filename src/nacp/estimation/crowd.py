"""Annotators one by one: how often each is right, by Dawid and Skene's model and by what was checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp.audit.checked_labels import open_clean
from nacp.checks import check_fraction
from nacp.errors import InputError
from nacp.estimation._labels import number_of_classes
from nacp.labels import LabelTable
from nacp.points import is_missing, number_table, open_table, present_labels
from nacp.stats.dawid_skene import DawidSkene, dawid_skene
from nacp.stats.intervals import exact_share
from nacp.wrapping import table_lines


class Votes(NamedTuple):
    """Labels by several annotators, checked: a table with -1 for gaps, the known classes, and names."""

    table: Ints
    known: Ints  # -1 where an item was not checked
    k: int
    remark: str  # where k comes from
    annotators: tuple[Any, ...]
    named: bool = True  # else the annotators are places in lists

    @property
    def used(self) -> "Votes":
        """The items that say something: with two labels or more, or checked."""
        number = np.count_nonzero(self.table >= 0, axis=1)
        some = (number >= 2) | ((number >= 1) & (self.known >= 0))
        if not some.any():
            raise InputError(
                "labels", "holds no item with two labels; agreement needs at least one such item"
            )
        return self._replace(table=self.table[some], known=self.known[some])

    def fit(self) -> DawidSkene:
        """Fit Dawid and Skene's model."""
        return dawid_skene(self.table, self.k, self.known)

    @property
    def unlike(self) -> str:
        """What excludes that all annotators have one rate, in a sentence; empty if nothing does.

        Under uniform noise at one rate everybody agrees equally often with another, and is equally often
        right in what was checked. Of each item one other is taken, turn by turn, so that items are
        independent and the intervals exact. All hold together with 95% confidence.
        """
        open_ones, gold = self.table[self.known < 0], self.known >= 0
        right = self.table[gold] == self.known[gold, None]
        kinds = (
            (*_agreeing(open_ones), "agrees with another"),
            (right.sum(axis=0), np.count_nonzero(self.table[gold] >= 0, axis=0), "is right"),
        )
        for hits, trials, said in kinds:
            some = np.flatnonzero(trials)
            if len(some) < 2:
                continue
            low, high = exact_share(hits[some], trials[some], 0.05 / (4 * len(self.annotators)))
            best, worst = int(np.argmax(low)), int(np.argmin(high))
            if low[best] > high[worst]:
                who = [self.annotators[some[a]] for a in (best, worst)]
                shares = [f"{100 * low[a]:.3g}% to {100 * high[a]:.3g}%" for a in (best, worst)]
                kind = "annotator" if self.named else "place"
                return (
                    f"{kind} {who[0]!r} {said} in {shares[0]} of items, and {kind} {who[1]!r} in {shares[1]}"
                )
        return ""


def nobody(argument: str) -> InputError:
    """Return what to say where something is asked of each annotator, and labels do not say whose they are."""
    return InputError(
        argument,
        "is about each annotator, and the labels do not say whose they are",
        remedy="add a list of annotators beside each list of labels",
    )


def _agreeing(table: Ints) -> tuple[Ints, Ints]:
    """Count for each annotator in how many items he agrees with another, and how many there are."""
    there = table >= 0
    number = np.count_nonzero(there, axis=1)
    table, there, number = table[number > 1], there[number > 1], number[number > 1]
    order, place = np.argsort(~there, axis=1, kind="stable"), np.cumsum(there, axis=1) - 1
    hits, trials = (np.zeros(table.shape[1], dtype=np.int64) for _ in range(2))
    for a in range(table.shape[1]):
        rows = np.flatnonzero(there[:, a])
        turn = 1 + rows % (number[rows] - 1)
        other = order[rows, (place[rows, a] + turn) % number[rows]]
        hits[a], trials[a] = np.count_nonzero(table[rows, other] == table[rows, a]), len(rows)
    return hits, trials


def open_votes(labels: Any, k: int | None, classes: Sequence[Any] | None, clean: Any = None) -> Votes:
    """Check labels by several annotators: an array of shape (n, annotators), or a table of `nacp.labels`."""
    annotators: tuple[Any, ...] | None = None
    named = True
    if isinstance(labels, LabelTable):
        if clean is not None:
            raise InputError(
                "clean", "belongs into the table", remedy="pass labels.with_checked(...) instead"
            )
        annotators, named = labels.annotators, labels.named
        if k is None and classes is None and isinstance(labels.classes[0], str):
            raise InputError(
                "classes",
                f"is not given, and the labels are names such as {labels.classes[0]!r}",
                remedy="pass classes= with all of them, in the order of the columns of probs",
                spoken="give --classes FILE with all of them, in the order of the columns",
            )
        clean = labels.clean(classes=classes) if labels.checked else None
        labels = labels.matrix(classes=classes)
    array, missing = open_table(labels, classes)
    if array.shape[1] < 2 and clean is None:
        raise InputError(
            "labels", "must have the shape (n, annotators), with two or more", found=f"{array.shape}"
        )
    seen = [present_labels(array, missing)]
    if clean is not None:
        given = np.asarray(clean, dtype=object).ravel()
        told = [each for each in given.tolist() if not is_missing(each) and each != -1]
        seen += [np.array(told)] if told and not isinstance(clean, tuple) else []
    k, remark = number_of_classes(k, classes, *seen)
    table, known = number_table(array, missing, k, classes), np.full(len(array), -1)
    if clean is not None:
        rows, true = open_clean(clean, len(array), k, classes)
        known[rows] = true
    names = tuple(range(table.shape[1])) if annotators is None else annotators
    return Votes(table, known, k, remark, names, named)


class AnnotatorRow(NamedTuple):
    """What is known of one annotator.

    Attributes
    ----------
    annotator : str or int
    labels : int
        How many labels he gave.
    accuracy : float
        The share of them that are right, as far as the others and the checked items tell.
    low, high : float
        An approximate interval of it.
    gold : int
        How many of his labels are of items that were checked.
    gold_right : int
        How many of these are right.
    """

    annotator: Any
    labels: int
    accuracy: float
    low: float
    high: float
    gold: int
    gold_right: int


@dataclass(frozen=True)
class AnnotatorAccuracy:
    """What `accuracy_by_annotator` found; printed, it is a table.

    Attributes
    ----------
    rows : tuple of AnnotatorRow
        In the order of the columns.
    n : int
        The number of items that it comes from.
    confidence : float
        Of each interval by itself.
    """

    rows: tuple[AnnotatorRow, ...]
    n: int
    confidence: float

    def worst_first(self) -> list[AnnotatorRow]:
        """Return the rows by ascending accuracy."""
        return sorted(self.rows, key=lambda row: row.accuracy)

    def __str__(self) -> str:
        gold = any(row.gold for row in self.rows)
        lines = [["annotator", "labels", "right", f"{100 * self.confidence:.4g}% interval"]]
        lines[0] += ["checked", "right of these"] if gold else []
        most = 30
        shown = self.rows if len(self.rows) <= most else self.worst_first()[:most]
        for row in shown:
            name = str(row.annotator)
            line = [
                name if len(name) <= 24 else f"{name[:23]}…",
                f"{row.labels:,}",
                f"{100 * row.accuracy:.1f}%",
                f"{100 * row.low:.1f}% to {100 * row.high:.1f}%",
            ]
            if gold:
                line += [f"{row.gold:,}", f"{100 * row.gold_right / row.gold:.1f}%" if row.gold else "–"]
            lines.append(line)
        left = len(self.rows) - len(shown)
        more = [f"and {left:,} more, who are right more often"] if left else []
        return "\n".join([*table_lines(lines, 1), *more])


def accuracy_by_annotator(
    labels: ArrayLike | LabelTable,
    *,
    k: int | None = None,
    classes: Sequence[Any] | None = None,
    clean: Any = None,
    confidence: float = 0.95,
) -> AnnotatorAccuracy:
    """Estimate how often each annotator is right, without knowing the truth, or with some of it.

    Dawid and Skene's model says how likely each label is to be right. The interval is Jeffreys' for a share
    of as many labels as carry the same information: a label of which it is open whether it is right counts
    less (Louis 1982). It takes the other annotators' matrices as known, and is approximate.

    Parameters
    ----------
    labels : array of shape (n, annotators) or LabelTable
        As in `nacp.noise_from_annotators`.
    k, classes, clean
        As there.
    confidence : float, default=0.95
        Of each interval by itself.

    Returns
    -------
    AnnotatorAccuracy

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> true = np.arange(900) % 3
    >>> labels = np.stack([nacp.UniformNoise(rate).sample(true, 3, 0) for rate in (0.1, 0.2, 0.6)], axis=1)
    >>> clean = np.where(np.arange(900) < 60, true, -1)
    >>> print(nacp.estimation.accuracy_by_annotator(labels, k=3, clean=clean))
    annotator  labels  right    95% interval  checked  right of these
    ...
    """
    tail = (1 - check_fraction("confidence", confidence)) / 2
    votes = open_votes(labels, k, classes, clean)
    if not votes.named:
        raise nobody("labels")
    used = votes.used
    rows = _rows(used, used.fit(), votes, tail)
    return AnnotatorAccuracy(rows, len(used.table), confidence)


def _rows(used: Votes, fit: DawidSkene, votes: Votes, tail: float) -> tuple[AnnotatorRow, ...]:
    from scipy.special import betaincinv

    found = []
    for a, name in enumerate(votes.annotators):
        own = np.flatnonzero(used.table[:, a] >= 0)
        right: Floats = fit.posterior[own, used.table[own, a]]
        share = float(right.mean()) if len(own) else float("nan")
        spread = share * (1 - share)
        # Louis: what is missing of the information is the variance of what is not seen.
        number = len(own) - (float((right * (1 - right)).sum()) / spread if spread > 1e-12 else 0.0)
        number = max(number, 0.0) if len(own) else 0.0
        hits = share * number if number else 0.0
        low, high = (float(betaincinv(hits + 0.5, number - hits + 0.5, level)) for level in (tail, 1 - tail))
        gold = used.known[own]
        found.append(
            AnnotatorRow(
                name,
                int(np.count_nonzero(votes.table[:, a] >= 0)),
                share,
                min(low, share),  # of one who is always right, or known by his own word alone
                max(high, share),
                int(np.count_nonzero(gold >= 0)),
                int(np.count_nonzero(gold == used.table[own, a])),
            )
        )
    return tuple(found)
