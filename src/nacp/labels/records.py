"""Records with columns, as in a long CSV, a JSONL file of Hugging Face's kind, or a frame of crowd-kit's."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from nacp.errors import InputError
from nacp.labels.table import GivenLabel, LabelTable, as_label, whole_labels
from nacp.points import is_missing

# What columns are called, without case, spaces and marks; earlier names win.
_WORDS = {
    "item": "task taskid item itemid exampleid questionid hitid unitid docid documentid sampleid instanceid "
    "imageid uid id index key example question document sample instance image text",
    "annotator": "worker workerid annotator annotatorid annotators annotatorids workers workerids rater "
    "raterid raters labeler labelerid labeller coder coderid judge judgeid performer performerid user userid "
    "users username annotatedby completedby labelledby labeledby lf source",
    "label": "label labels answer answers response annotation annotations noisylabel noisylabels givenlabel "
    "labelid choice class category rating judgment judgement value result",
    "checked": "checked ischecked isgold isgolden isgroundtruth isgoldlabel verified",
    "truth": "gold golden goldlabel goldenlabel groundtruth truth truelabel correctlabel correctanswer "
    "expertlabel cleanlabel",
}
ALIASES = {role: words.split() for role, words in _WORDS.items()}
_TRUE = {"true", "yes", "1", "1.0", "t", "y"}


def from_records(
    records: Sequence[Mapping[str, Any]],
    *,
    item: str | None = None,
    annotator: str | None = None,
    label: str | Sequence[str] | None = None,
    checked: str | None = None,
) -> LabelTable:
    """Read records: one for each label (task, worker, label), or one for each item with lists or columns.

    Of an item with several labels, these are lists of one length (``annotators`` and ``labels``), a list of
    mappings (``annotations``), or several columns, each named by its annotator. Of lists without annotators
    these are the places in the lists, and nothing is said of each (``LabelTable.named``).

    Parameters
    ----------
    records : sequence of mappings
        Such as lines of a JSONL file, or rows of a table.
    item, annotator, label : str, optional
        The columns. By default those that are called so, or one of the usual other words, such as task,
        worker, answer; an item without a name is its record's number. `label` may be several columns: then
        each is an annotator.
    checked : str, optional
        A column with true labels, missing where none was checked; or with true and false, where true says
        that the record's label is checked.

    Returns
    -------
    LabelTable

    Examples
    --------
    >>> from nacp.labels import from_records
    >>> one = from_records([
    ...     {"task": "a", "worker": "Ann", "label": 1}, {"task": "a", "worker": "Bob", "label": 0}])
    >>> lists = from_records([{"id": "a", "annotators": ["Ann", "Bob"], "labels": [1, 0]}])
    >>> columns = from_records([{"id": "a", "Ann": 1, "Bob": 0}], label=["Ann", "Bob"])
    >>> one == lists == columns
    True
    """
    if not records:
        raise InputError("labels", "holds no record")
    odd = next((i for i, record in enumerate(records) if not isinstance(record, Mapping)), None)
    if odd is not None:
        raise InputError(
            "labels", f"must be a list of records; record {odd} is {type(records[odd]).__name__}"
        )
    header = list(dict.fromkeys(key for record in records for key in record))
    lists = {key for record in records for key, value in record.items() if isinstance(value, list)}
    columns = find_columns(
        header,
        {"item": item, "annotator": annotator, "checked": checked},
        records,
        whole=not (label is None or isinstance(label, str)) or any(map(_may_be_label, lists)),
    )
    if label is None or isinstance(label, str):
        fitting = _fitting(records, header, columns["annotator"]) if label is None else header
        return _Reader(records, columns | find_columns(fitting, {"label": label}), None).table()
    missing = next((name for name in label if name not in header), None)
    if missing is not None:
        raise _no_column("label", missing, header)
    return _Reader(records, columns, tuple(label)).table()


def from_frame(frame: Any, **columns: Any) -> LabelTable:
    """Read a DataFrame of pandas with a row for each label, such as crowd-kit's: task, worker, label.

    Parameters
    ----------
    frame : DataFrame
        Gold tasks, which crowd-kit keeps in a Series, are added by `LabelTable.with_checked`.
    **columns
        Which columns, as in `from_records`.

    Returns
    -------
    LabelTable

    Examples
    --------
    >>> import pandas as pd
    >>> from nacp.labels import from_frame
    >>> frame = pd.DataFrame({"task": [1, 1, 2], "worker": ["a", "b", "a"], "label": ["x", "y", "x"]})
    >>> from_frame(frame).with_checked(pd.Series({2: "x"})).checked
    {2: 'x'}
    """
    if not hasattr(frame, "to_dict") or not hasattr(frame, "columns"):
        raise InputError("labels", "must be a DataFrame", found=type(frame).__name__)
    if any(name not in frame.columns for name in getattr(frame.index, "names", ()) if name is not None):
        frame = frame.reset_index()
    return from_records(frame.to_dict("records"), **columns)


def find_columns(
    header: Sequence[str],
    named: Mapping[str, str | None],
    records: Sequence[Mapping[str, Any]] = (),
    *,
    whole: bool = False,
) -> dict[str, str | None]:
    """Return the columns for what is wanted: the one that was named, or the one that has a usual name.

    `whole`: a record holds all labels of an item, not one of them.
    """
    plain: dict[str, list[str]] = {}
    for column in header:
        plain.setdefault(_plain(column), []).append(column)
    found: dict[str, str | None] = {}
    for role, name in named.items():
        if name is not None and name not in header:
            raise _no_column(role, name, header)
        usual = [alias for alias in ALIASES[role] if alias in plain]
        if role == "checked" and name is None:
            usual += [alias for alias in ALIASES["truth"] if alias in plain]
        if role == "item" and len(usual) > 1:  # the name of an item comes again with each record of it
            usual = [alias for alias in usual if _repeats(records, plain[alias][0]) is not whole] or usual
        if name is None and usual:
            name = plain[usual[0]][0]
            rivals = [each for alias in usual for each in plain[alias]]
            if len(plain[usual[0]]) > 1 or (role == "label" and len(rivals) > 1 and usual[0] != "label"):
                raise InputError(
                    role,
                    f"must name one of several columns: {', '.join(map(repr, rivals))}",
                    remedy=f"pass {role}={name!r}, for instance",
                    spoken=f"give --{role} {name}, for instance",
                )
        found[role] = name
    if "label" in found and found["label"] is None:
        raise InputError(
            "label",
            f"must name a column, one of {_listed(header)}",
            remedy="pass label=, one column or, if each is an annotator, several",
            spoken="give --label NAME, or, if each is an annotator, --label NAME,NAME",
        )
    return found


def is_long(header: Sequence[str]) -> bool:
    """Return whether a header names an annotator, and an item or a label: a column is then not an annotator.

    Examples
    --------
    >>> from nacp.labels.records import is_long
    >>> is_long(["HITId", "WorkerId", "Answer.tone"]), is_long(["Ann", "Bob", "Cid"])
    (True, False)
    """
    plain = {_plain(name) for name in header}
    there = {role for role in ALIASES if plain & set(ALIASES[role])}
    return "annotator" in there and bool({"item", "label"} & there)


def _plain(name: Any) -> str:
    """Return a column's name without case and marks; of ``Answer.tone`` and ``ASSIGNMENT:task_id`` a part."""
    text = str(name)
    if text.startswith(("Answer.", "OUTPUT:")):
        return "answer"
    if text.startswith("GOLDEN:"):
        return "golden"
    return re.sub(r"[^a-z0-9]", "", text.removeprefix("ASSIGNMENT:").lower())


def _fitting(records: Sequence[Mapping[str, Any]], header: list[str], annotator: str | None) -> list[str]:
    """Return the columns in which labels may be, by what the annotators are: one for each record, or lists.

    Without annotators beside them, labels say themselves whose they are, or are in lists.
    """

    def shape(column: str) -> str:
        values = [record[column] for record in records if not is_missing(record.get(column))]
        kinds = {"list" if isinstance(each, list) else type(each).__name__ for each in values}
        inner = [each for value in values if isinstance(value, list) for each in value]
        if kinds == {"dict"} or (inner and all(isinstance(each, Mapping) for each in inner)):
            return "mappings"
        return "list" if kinds == {"list"} else "one"

    usual = [column for column in header if _may_be_label(column)]
    wanted = ["mappings", "list"] if annotator is None else [shape(annotator)]
    for each in wanted:
        fitting = [column for column in usual if shape(column) == each]
        if fitting:
            return fitting
    return header


def _may_be_label(column: str) -> bool:
    return _plain(column) in ALIASES["label"]


def _repeats(records: Sequence[Mapping[str, Any]], column: str) -> bool:
    """Return whether a value of a column comes more than once."""
    values = [str(record.get(column)) for record in records]
    return len(set(values)) < len(values)


def _no_column(role: str, name: str, header: Sequence[str]) -> InputError:
    return InputError(role, f"is {name!r}, and the columns are {_listed(header)}")


class _Reader:
    """Records whose columns are known."""

    def __init__(
        self,
        records: Sequence[Mapping[str, Any]],
        columns: Mapping[str, str | None],
        several: tuple[str, ...] | None,
    ) -> None:
        self.records, self.columns, self.several = records, columns, several
        self.named = True

    def table(self) -> LabelTable:
        """Return the labels of all records."""
        given: list[GivenLabel] = []
        items: dict[Any, None] = {}
        for i, record in enumerate(self.records):
            name = self._item(record, i)
            items[name] = None
            given += list(self._given(record, name, i))
        given += list(self._truths())
        return LabelTable(tuple(whole_labels(given)), tuple(items), self.named)

    def _item(self, record: Mapping[str, Any], i: int) -> Any:
        column = self.columns["item"]
        if column is None:
            lists = self.several or isinstance(record.get(str(self.columns.get("label"))), list)
            if not lists:
                raise self._unnamed("item", record)
            return i
        found = record.get(column)
        if is_missing(found) or found == "":
            raise InputError("labels", f"has no {column!r} in record {i}")
        if isinstance(found, list | Mapping):
            raise InputError("labels", f"must have a text or a number as {column!r} in record {i}")
        return found

    def _unnamed(self, role: str, record: Mapping[str, Any]) -> InputError:
        """Return what is to be said where no column is called like an item, or an annotator."""
        left = [column for column in record if column not in self.columns.values()]
        why = {"item": "which labels are of one item", "annotator": "whose labels these are"}[role]
        others = f"; it may be {_listed(left)}" if left else ""
        name = repr(left[0]) if len(left) == 1 else ""
        return InputError(
            role,
            f"must name a column: without one nothing says {why}{others}",
            remedy=f"pass {role}={name}",
            spoken=f"give --{role} {left[0] if len(left) == 1 else 'NAME'}",
        )

    def _given(self, record: Mapping[str, Any], name: Any, i: int) -> Iterator[GivenLabel]:
        """Return the labels of a record."""
        where = f"in record {i}"
        if self.several is not None:
            answers = [(column, record.get(column)) for column in self.several]
        else:
            answers = list(self._answers(record, str(self.columns["label"]), i))
        for by, value in answers:
            label = as_label(value, where)
            if label is None:
                continue
            if is_missing(by) or by == "":
                raise InputError("labels", f"does not say whose label it is {where}")
            yield GivenLabel(name, by, label, self._is_checked(record))

    def _answers(self, record: Mapping[str, Any], column: str, i: int) -> Iterator[tuple[Any, Any]]:
        """Return who gave which label: one, or lists of one length, or a list of mappings."""
        value, by = record.get(column), self.columns["annotator"]
        if isinstance(value, Mapping) and value and all(isinstance(each, list) for each in value.values()):
            value = [dict(zip(value, row, strict=False)) for row in zip(*value.values(), strict=False)]
        if not isinstance(value, list):
            if by is None:
                raise self._unnamed("annotator", record)
            yield record.get(by), value
        elif value and all(isinstance(each, Mapping) for each in value):
            inner = find_columns(list(value[0]), {"annotator": None, "label": None})
            if inner["annotator"] is None:
                raise InputError("labels", f"does not say whose labels they are in record {i}")
            for each in value:
                yield each.get(inner["annotator"]), each.get(str(inner["label"]))
        else:
            self.named = by is not None
            names = record.get(by) if by is not None else list(range(len(value)))
            if not isinstance(names, list) or len(names) != len(value):
                raise InputError(
                    "labels",
                    f"must have as many annotators as labels in record {i}",
                    found=f"{len(names) if isinstance(names, list) else 1} and {len(value)}",
                )
            yield from zip(names, value, strict=True)

    def _is_checked(self, record: Mapping[str, Any]) -> bool:
        column = self.columns["checked"]
        return column is not None and self._flags and str(record.get(column)).strip().lower() in _TRUE

    @cached_property
    def _flags(self) -> bool:
        """Whether the column of what was checked says so by true and false; else it holds true labels."""
        column = str(self.columns["checked"])
        if _plain(column) in ALIASES["checked"]:
            return True
        values = {str(each.get(column)).strip().lower() for each in self.records if not _absent(each, column)}
        label = self.columns.get("label")
        labels = {str(each.get(label)).strip().lower() for each in self.records} if label else set()
        return bool(values) and values <= {"true", "false"} and not values & labels

    def _truths(self) -> Iterator[GivenLabel]:
        """Return the labels of a column that has the truth."""
        column = self.columns["checked"]
        if column is None or self._flags:
            return
        for i, record in enumerate(self.records):
            label = None if _absent(record, column) else as_label(record[column], f"in record {i}")
            if label is not None:
                yield GivenLabel(self._item(record, i), "checked", label, True)


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns[:10]))


def _absent(record: Mapping[str, Any], column: str) -> bool:
    return is_missing(record.get(column)) or record.get(column) == ""
