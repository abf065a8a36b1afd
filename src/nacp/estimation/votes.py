"""Labels by several annotators, checked and numbered; whether one noise rate fits all of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Ints
from nacp.audit.checked_labels import open_clean
from nacp.checks import check_count
from nacp.errors import InputError
from nacp.labels import LabelTable
from nacp.points import check_classes, is_missing, number_table, open_table, plain_array, present_labels
from nacp.stats.dawid_skene import DawidSkene, dawid_skene
from nacp.stats.intervals import exact_share

_MATRICES_MAX = 1 << 24  # entries of all matrices that may be estimated from a few labels
_INFERRED_MAX = 1000  # classes that a few labels may imply


class Votes(NamedTuple):
    """Labels by several annotators: a row of `table` for each item, -1 where there is none.

    `known` has the checked labels, -1 for other items. `remark` says so if k was inferred from the labels. If
    the labels are not `named`, the columns are positions in lists of labels.
    """

    table: Ints
    known: Ints
    k: int
    remark: str
    annotators: tuple[Any, ...]
    named: bool = True

    @property
    def used(self) -> "Votes":
        """The items that are informative: with two labels or more, or checked."""
        number = np.count_nonzero(self.table >= 0, axis=1)
        some = (number >= 2) | ((number >= 1) & (self.known >= 0))
        if not some.any():
            raise InputError("labels", "holds no item with two labels, which agreement needs")
        return self._replace(table=self.table[some], known=self.known[some])

    def fit(self) -> DawidSkene:
        """Fit Dawid and Skene's model, which has a k x k matrix for each annotator."""
        number = len(self.annotators) * self.k**2
        if number > max(_MATRICES_MAX, 1000 * int(np.count_nonzero(self.table >= 0))):
            problem = f"is too large for a k x k matrix of each of {len(self.annotators):,} annotators"
            raise InputError("k", problem, found=f"{self.k:,}", remedy='use model="uniform"')
        return dawid_skene(self.table, self.k, self.known)

    def check_named(self, argument: str) -> None:
        if not self.named:
            raise InputError(
                argument,
                "is about each annotator, and the labels do not say whose they are",
                remedy="add a list of annotators beside each list of labels",
            )

    @property
    def unlike(self) -> str:
        """A sentence that says why the annotators cannot all have one rate; empty if they may.

        Under one rate all agree equally often with others, and are equally often right in checked items. Each
        label is compared with one other label of its item, chosen in rotation, so that items are independent
        and the intervals exact. All hold together with 95% confidence.
        """
        open_items, gold = self.table[self.known < 0], self.known >= 0
        right = self.table[gold] == self.known[gold, None]
        kinds = (
            (*_agreeing(open_items), "agrees with another"),
            (right.sum(axis=0), np.count_nonzero(self.table[gold] >= 0, axis=0), "is right"),
        )
        kind = "annotator" if self.named else "place"
        for hits, trials, said in kinds:
            some = np.flatnonzero(trials)
            if len(some) < 2:
                continue
            low, high = exact_share(hits[some], trials[some], 0.05 / (4 * len(self.annotators)))
            best, worst = int(np.argmax(low)), int(np.argmin(high))
            if low[best] > high[worst]:
                first, second = (f"{kind} {self.annotators[some[a]]!r}" for a in (best, worst))
                more, less = (f"{100 * low[a]:.3g}% to {100 * high[a]:.3g}%" for a in (best, worst))
                return f"{first} {said} in {more} of items, and {second} in {less}"
        return ""


def _agreeing(table: Ints) -> tuple[Ints, Ints]:
    """Count for each annotator in how many items another label agrees, and how many items have another."""
    there = table >= 0
    number = np.count_nonzero(there, axis=1)
    table, there, number = table[number > 1], there[number > 1], number[number > 1]
    order, place = np.argsort(~there, axis=1, kind="stable"), np.cumsum(there, axis=1) - 1
    hits, trials = (np.zeros(table.shape[1], dtype=np.int64) for _ in range(2))
    for a in range(table.shape[1]):
        rows = np.flatnonzero(there[:, a])
        step = 1 + rows % (number[rows] - 1)
        other = order[rows, (place[rows, a] + step) % number[rows]]
        hits[a], trials[a] = np.count_nonzero(table[rows, other] == table[rows, a]), len(rows)
    return hits, trials


def open_votes(labels: Any, k: int | None, classes: Sequence[Any] | None, clean: Any = None) -> Votes:
    """Check labels by several annotators: an array of shape (n, annotators), or a table of `nacp.labels`."""
    annotators: tuple[Any, ...] | None = None
    named = True
    if isinstance(labels, LabelTable):
        if clean is not None:
            remedy = "pass labels.with_checked(...) instead"
            raise InputError("clean", "belongs into the table", remedy=remedy)
        annotators, named = labels.annotators, labels.named
        if k is None and classes is None and isinstance(labels.classes[0], str):
            raise InputError(
                "classes",
                f"is not given, and the labels are names such as {labels.classes[0]!r}",
                remedy="pass all of them, in the order of the columns of probs",
                spoken="give --classes FILE with all of them, in the order of the columns",
            )
        clean = labels.clean(classes=classes) if labels.checked else None
        labels = labels.matrix(classes=classes)
    array, missing = open_table(labels, classes)
    if array.shape[1] < 2 and clean is None:
        problem = "must have the shape (n, annotators), with two or more"
        raise InputError("labels", problem, found=f"{array.shape}")
    seen = [present_labels(array, missing)]
    if clean is not None and not isinstance(clean, tuple):
        given = np.asarray(clean, dtype=object).ravel().tolist()
        checked = [each for each in given if not is_missing(each) and each != -1]
        seen += [np.array(checked)] if checked else []
    k, remark = number_of_classes(k, classes, *seen)
    table, known = number_table(array, missing, k, classes), np.full(len(array), -1)
    if clean is not None:
        rows, true = open_clean(clean, len(array), k, classes)
        known[rows] = true
    names = tuple(range(table.shape[1])) if annotators is None else annotators
    return Votes(table, known, k, remark, names, named)


def number_of_classes(k: int | None, classes: Sequence[Any] | None, *labels: ArrayLike) -> tuple[int, str]:
    """Return the number of classes, and a remark for the estimate if it was inferred from the labels."""
    if classes is not None:
        if k is not None and k != len(classes):
            problem = f"is {k!r}, but classes holds {len(classes):,} names"
            raise InputError("k", problem, remedy="pass one of them")
        check_classes(classes, len(classes))
        k = len(classes)
    if k is not None:
        return check_count("k", k, 2), ""
    arrays = [plain_array(each) for each in labels]
    if any(each.dtype.kind not in "iubf" or not np.isfinite(each).any() for each in arrays):
        problem = "is not given, and the labels do not show it"
        raise InputError("k", problem, remedy="pass k= or classes=", spoken="give --k or --classes")
    seen = max(2, int(max(each[np.isfinite(each)].max() for each in arrays)) + 1)
    given = sum(each.size for each in arrays)
    if seen > max(_INFERRED_MAX, given):
        problem = f"is not given, and the largest of {given:,} labels is {seen - 1:,}"
        raise InputError(
            "k", problem, remedy="pass k= if that is a class", spoken="give --k if that is a class"
        )
    return seen, f" (k = {seen}: the largest label plus one)"
