"""The table that every reader returns: items, annotators, labels, and which labels were checked."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Array
from nacp.errors import InputError
from nacp.points import is_missing
from nacp.wrapping import counted

_LABEL_MAX = 1 << 63


class GivenLabel(NamedTuple):
    """One label of an item by one annotator.

    A `checked` label counts as the truth.
    """

    item: Any
    annotator: Any
    label: Any
    checked: bool = False


@dataclass(frozen=True, repr=False)
class LabelTable:
    """Labels of items by annotators.

    Checked labels count as the truth about their items, and not as answers of an annotator: they would
    overstate how often the annotator is right.

    Parameters
    ----------
    given : iterable of GivenLabel
        The same label twice by the same annotator counts once; two different ones are refused.
    items : sequence, optional
        All items in their order, those without a label too; by default those of `given` as they come.
    named : bool, default=True
        Whether the annotators are known. Otherwise they are positions in lists, and each may be several
        people: models of each annotator are refused.

    Examples
    --------
    >>> from nacp.labels import GivenLabel, LabelTable
    >>> ann, bob = GivenLabel("a", "Ann", "cat"), GivenLabel("b", "Bob", "dog")
    >>> table = LabelTable([ann, bob, GivenLabel("b", "expert", "cat", checked=True)])
    >>> table.matrix().tolist(), table.clean().tolist()
    ([['cat', None], [None, 'dog']], [None, 'cat'])
    """

    given: tuple[GivenLabel, ...]
    items: tuple[Any, ...] = field(default=())
    named: bool = True

    def __post_init__(self) -> None:
        given = [GivenLabel(*map(_plain, each[:3]))._replace(checked=bool(each[3])) for each in self.given]
        if not given:
            raise InputError("labels", "holds no label at all")
        # Names of items and annotators are compared as text: 5 is "5".
        names: dict[str, dict[str, Any]] = {"item": {}, "annotator": {}}
        for item in map(_plain, self.items):
            names["item"].setdefault(str(item), item)
        stray = [each.item for each in given if str(each.item) not in names["item"]]
        if self.items and stray:
            raise InputError("items", f"does not hold {stray[0]!r}, which has a label")
        for role, known in names.items():
            for i, each in enumerate(given):
                name = getattr(each, role)
                if not isinstance(name, str | int | float) or name != name:
                    raise InputError("labels", f"must have a text or a number as {role}", found=repr(name))
                given[i] = each._replace(**{role: known.setdefault(str(name), name)})
        if any(isinstance(each.label, str) for each in given):
            given = [each._replace(label=str(each.label)) for each in given]
        seen: dict[Any, Any] = {}
        for each in given:
            # An item has one true label, and may have several annotators.
            key = (each.item, None if each.checked else each.annotator, each.checked)
            if seen.setdefault(key, each.label) != each.label:
                by = "as the truth" if each.checked else f"by annotator {each.annotator!r}"
                raise InputError(
                    "labels",
                    f"has two labels for item {each.item!r} {by}, {seen[key]!r} and {each.label!r}",
                    remedy="keep one of them",
                )
        object.__setattr__(self, "given", tuple(dict.fromkeys(given)))
        object.__setattr__(self, "items", tuple(names["item"].values()))

    @cached_property
    def annotators(self) -> tuple[Any, ...]:
        """The annotators of labels that were not checked, in the order of their first label."""
        return tuple(dict.fromkeys(each.annotator for each in self.given if not each.checked))

    @cached_property
    def classes(self) -> tuple[Any, ...]:
        """The labels that occur, sorted; a classifier may have more classes, in another order."""
        return tuple(sorted({each.label for each in self.given}))

    @cached_property
    def checked(self) -> dict[Any, Any]:
        return {each.item: each.label for each in self.given if each.checked}

    def matrix(
        self,
        items: Iterable[Any] | None = None,
        classes: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
    ) -> Array:
        """Return the labels in the form that `nacp.calibrate` takes: a row per item, a column per annotator.

        They are whole numbers, -1 where there is no label; or names, None where there is none. By default all
        items and annotators are there, otherwise those that are given, in their order, such as that of the
        rows of probs. With `classes`, a label that is a number stands for the class at that place, unless the
        classes are numbers themselves.
        """
        if not self.annotators:
            raise InputError("labels", "holds checked labels only, and none that could be noisy")
        wanted = self.annotators if annotators is None else annotators
        rows, columns = self._rows(items), {str(name): i for i, name in enumerate(wanted)}
        name = self._naming(classes)
        found: Array = np.full((len(rows), len(columns)), None, dtype=object)
        place: dict[Any, list[int]] = {}
        for row, item in enumerate(rows):
            place.setdefault(item, []).append(row)
        for each in self.given:
            column = None if each.checked else columns.get(str(each.annotator))
            if column is not None:
                found[place.get(each.item, []), column] = name(each.label)
        return _numbers(found)

    def clean(self, items: Iterable[Any] | None = None, classes: Sequence[Any] | None = None) -> Array:
        """Return the checked labels, missing where there is none, for ``nacp.calibrate(clean=...)``.

        The parameters are those of `matrix`.
        """
        name = self._naming(classes)
        found = [name(self.checked[item]) if item in self.checked else None for item in self._rows(items)]
        return _numbers(np.array(found, dtype=object))

    def votes(self, items: Iterable[Any] | None = None, classes: Sequence[Any] | None = None) -> Array:
        """Return for each item the label that most annotators gave, the first of several such labels.

        A vote is less noisy than an annotator's label, so noise models of annotators do not fit votes. Use
        votes with ``clean=``, which assumes nothing about the labels. The parameters are those of `matrix`.
        """
        return self._one_each(items, classes, lambda labels: Counter(labels).most_common(1)[0][0])

    def picked(
        self, items: Iterable[Any] | None = None, classes: Sequence[Any] | None = None, random_state: int = 0
    ) -> Array:
        """Return one label for each item, picked at random among those of its annotators.

        Its noise is that of ``noise_from_annotators(model="matrix")``. All labels together give smaller sets;
        some guarantees take one label for each point only. `random_state` is the seed; the other parameters
        are those of `matrix`.
        """
        rng = np.random.default_rng(random_state)
        return self._one_each(items, classes, lambda labels: labels[int(rng.integers(len(labels)))])

    def with_checked(self, known: Any) -> "LabelTable":
        """Return the table with more checked labels.

        `known` is a mapping from items to their true labels, such as gold tasks; or an annotator whose labels
        all count as true.
        """
        if isinstance(known, Mapping) or hasattr(known, "items"):
            places = {str(item): item for item in self.items}
            told = [(places.get(str(item)), label) for item, label in known.items()]
            new = [GivenLabel(item, "checked", label, True) for item, label in told if item is not None]
            if not new:
                raise InputError("checked", "names none of the items", found=repr(list(known)[:3]))
            return LabelTable((*self.given, *new), self.items, self.named)
        if not self.named:
            raise InputError("checked", f"is {known!r}, but the labels do not say whose they are")
        if str(known) not in map(str, self.annotators):
            names = ", ".join(map(str, self.annotators[:10]))
            raise InputError("checked", f"is {known!r}, and the annotators are {names}")
        given = [
            each._replace(checked=each.checked or str(each.annotator) == str(known)) for each in self.given
        ]
        return LabelTable(tuple(given), self.items)

    def __repr__(self) -> str:
        answers = sum(not each.checked for each in self.given)
        by = f" by {counted(len(self.annotators), 'annotator')}" if self.named and self.annotators else ""
        checked = f", {len(self.checked):,} checked" if self.checked else ""
        of = f"{counted(answers, 'label')} of {counted(len(self.items), 'item')}"
        return f"LabelTable({of}{by}, {len(self.classes):,} classes{checked})"

    def _one_each(
        self,
        items: Iterable[Any] | None,
        classes: Sequence[Any] | None,
        choose: Callable[[list[Any]], Any],
    ) -> Array:
        found = []
        for row in self.matrix(items, classes).tolist():
            labels = [label for label in row if label is not None and label != -1]
            found.append(choose(labels) if labels else None)
        return _numbers(np.array(found, dtype=object))

    def _rows(self, items: Iterable[Any] | None) -> list[Any]:
        """Return the wanted items by their names in this table."""
        if items is None:
            return list(self.items)
        places, wanted = {str(item): item for item in self.items}, [str(_plain(item)) for item in items]
        missing = next((item for item in wanted if item not in places), None)
        if missing is not None:
            problem = f"names {missing!r}, which the labels do not have; theirs are like {self.items[0]!r}"
            raise InputError("items", problem)
        return [places[item] for item in wanted]

    def _naming(self, classes: Sequence[Any] | None) -> Any:
        """Return a function from labels to class names."""
        known = [] if classes is None else list(classes)
        by_text, places = {str(name): name for name in known}, range(len(known))
        if not known or all(str(label) in by_text for label in self.classes):
            return lambda label: by_text.get(str(label), label)
        known_labels = by_text if isinstance(self.classes[0], str) else places
        odd = next((label for label in self.classes if label not in known_labels), None)
        if odd is not None:
            raise InputError("labels", f"holds {odd!r}, which is not in classes, nor the place of one")
        return lambda label: known[label]


def _numbers(found: Array) -> Array:
    """Return an array of integers with -1 for None if all labels are numbers; names as they are."""
    flat = [label for label in found.ravel().tolist() if label is not None]
    if not flat or not all(isinstance(label, int) for label in flat):
        return found
    return np.where(found == None, -1, found).astype(np.int64)  # noqa: E711  (entry by entry)


def _plain(value: Any) -> Any:
    """Return a Python object for a NumPy scalar, and an int for a whole number."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_label(value: Any, where: str) -> Any:
    """Return a label as a text or a whole number; None if it is missing, empty or -1."""
    if isinstance(value, list | tuple) and len(value) <= 1:
        value = value[0] if value else None
    value = _plain(value)
    if is_missing(value):
        return None
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, int) and abs(value) < _LABEL_MAX:
        return None if value == -1 else value
    raise InputError("labels", f"must have one label {where}, a text or a whole number", found=repr(value))


def whole_labels(given: list[GivenLabel]) -> list[GivenLabel]:
    """Return the labels with texts converted to integers, if all texts are whole numbers."""
    texts = {each.label for each in given if isinstance(each.label, str)}
    if not texts or not all(text.removeprefix("-").isdecimal() and len(text) < 19 for text in texts):
        return given
    return [each._replace(label=int(each.label)) for each in given if int(each.label) != -1]
