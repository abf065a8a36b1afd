"""Records with named columns: rows of a long CSV, lines of a JSONL file, or a DataFrame as of crowd-kit."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nacp.errors import InputError
from nacp.labels.answers import check_item, not_given, reading_record
from nacp.labels.table import GivenLabel, LabelTable, as_label, whole_labels
from nacp.points import is_missing

# The usual names of columns, without case, spaces and punctuation; earlier names take precedence.
_FLAGS = "checked ischecked isgold isgolden isgroundtruth isgoldlabel verified"
_WORDS = {
    "item": "task taskid item itemid exampleid questionid hitid unitid docid documentid sampleid instanceid "
    "imageid uid id index key example question document sample instance image text",
    "annotator": "worker workerid annotator annotatorid annotators annotatorids workers workerids rater "
    "raterid raters labeler labelerid labeller coder coderid judge judgeid performer performerid user userid "
    "users username annotatedby completedby labelledby labeledby lf source",
    "label": "label labels answer answers response annotation annotations noisylabel noisylabels givenlabel "
    "labelid choice class category rating judgment judgement value result",
    "checked": f"{_FLAGS} gold golden goldlabel goldenlabel groundtruth truth truelabel correctlabel "
    "correctanswer expertlabel cleanlabel",
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

    The labels of an item are lists of equal length (``annotators`` and ``labels``), a list of mappings
    (``annotations``), or several columns, each named by its annotator. If there are lists of labels only, the
    annotators are the positions in the lists, and ``LabelTable.named`` is False.

    Parameters
    ----------
    records : sequence of mappings
        Such as lines of a JSONL file, or rows of a table.
    item, annotator, label : str, optional
        The columns; by default those with these or other usual names, such as task, worker, answer. An item
        without a name gets the number of its record. `label` may be several columns, one for each annotator.
    checked : str, optional
        A column with true labels, missing where none was checked; or with true and false, where true means
        that the record's label is checked.

    Examples
    --------
    >>> from nacp.labels import from_records
    >>> one = from_records([
    ...     {"task": "a", "worker": "Ann", "label": 1}, {"task": "a", "worker": "Bob", "label": 0}])
    >>> one == from_records([{"id": "a", "annotators": ["Ann", "Bob"], "labels": [1, 0]}])
    True
    >>> one == from_records([{"id": "a", "Ann": 1, "Bob": 0}], label=["Ann", "Bob"])
    True
    """
    if not records:
        raise InputError("labels", "holds no record")
    header: dict[str, None] = {}
    for i, record in enumerate(records):
        with reading_record("record", i):
            header |= dict.fromkeys(record.keys())
    one, several = (label or "", ()) if label is None or isinstance(label, str) else ("", tuple(label))
    columns = _columns(records, list(header), _Columns(item, annotator, checked, one, several))
    flags = _are_flags(records, columns)
    given: list[GivenLabel] = []
    items: dict[Any, None] = {}
    for i, record in enumerate(records):
        where, name = f"in record {i}", _item(record, i, columns)
        items[name] = None
        known = None if columns.checked is None else record.get(columns.checked)
        is_checked = flags and str(known).strip().lower() in _TRUE
        for by, value in _answers(record, columns, i):
            found = as_label(value, where)
            if found is None:
                continue
            if is_missing(by) or by == "":
                raise InputError("labels", f"does not say whose label it is {where}")
            given.append(GivenLabel(name, by, found, is_checked))
        truth = None if flags else as_label(known, where)
        if truth is not None:
            given.append(GivenLabel(name, "checked", truth, True))
    named = columns.annotator is not None or bool(columns.several)
    if not named:
        answers = (each for record in records for each in record.get(columns.label) or ())
        named = all(isinstance(each, Mapping) for each in answers)
    return LabelTable(tuple(whole_labels(given)), tuple(items), named)


def from_frame(frame: Any, **columns: Any) -> LabelTable:
    """Read a DataFrame of pandas with a row for each label, such as crowd-kit's: task, worker, label.

    The columns are named as in `from_records`. Gold tasks, which crowd-kit keeps in a Series, are added by
    `LabelTable.with_checked`.

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


class _Columns(NamedTuple):
    """The columns of records; `several` are columns of labels, each named by its annotator."""

    item: str | None
    annotator: str | None
    checked: str | None
    label: str
    several: Sequence[str]


def _columns(records: Sequence[Mapping[str, Any]], header: Sequence[str], given: _Columns) -> _Columns:
    """Return the columns: as given, or those with the usual names."""
    usual = [column for column in header if _plain(column) in ALIASES["label"]]
    one_per_item = bool(given.several) or any(_holds_lists(records, column) for column in usual)

    def may_name_items(column: str) -> bool:
        # Several records of one item repeat its name.
        values = [str(record.get(column)) for record in records]
        return (len(set(values)) == len(values)) is one_per_item

    item = find_column("item", header, given.item, may_name_items)
    annotator = find_column("annotator", header, given.annotator)
    checked = find_column("checked", header, given.checked)
    lists, label = annotator is None or _holds_lists(records, annotator), ""
    if not given.several:
        found = find_column("label", header, given.label, lambda each: _holds_lists(records, each) == lists)
        if found is None:
            raise not_given("label", header)
        label = found
    for column in given.several:
        find_column("label", header, column)
    return _Columns(item, annotator, checked, label, given.several)


def find_column(
    role: str, header: Sequence[str], name: str | None = None, fits: Callable[[str], bool] | None = None
) -> str | None:
    """Return the column of a role: as named, or the first with a usual name, of those that fit if some do."""
    if name:
        if name not in header:
            raise InputError(role, f"is {name!r}, and the columns are {', '.join(map(repr, header[:10]))}")
        return name
    usual = [column for alias in ALIASES[role] for column in header if _plain(column) == alias]
    if fits is not None and len(usual) > 1:
        usual = [column for column in usual if fits(column)] or usual
    if not usual:
        return None
    alone = role != "label" or _plain(usual[0]) == "label"  # takes precedence over other usual names
    rivals = [column for column in usual if not alone or _plain(column) == _plain(usual[0])]
    if len(rivals) > 1:
        raise not_given(role, rivals)
    return usual[0]


def is_long(header: Sequence[str]) -> bool:
    """Return whether a header names an annotator, and an item or a label, so that rows hold one label."""
    plain = {_plain(name) for name in header}
    there = {role for role in ALIASES if plain & set(ALIASES[role])}
    return "annotator" in there and bool({"item", "label"} & there)


def _plain(name: Any) -> str:
    """Return the name of a column in lower case without punctuation, and without the prefixes of markets."""
    text = str(name)
    if text.startswith(("Answer.", "OUTPUT:")):
        return "answer"
    if text.startswith("GOLDEN:"):
        return "golden"
    return re.sub(r"[^a-z0-9]", "", text.removeprefix("ASSIGNMENT:").lower())


def _holds_lists(records: Sequence[Mapping[str, Any]], column: str) -> bool:
    return any(isinstance(record.get(column), list) for record in records)


def _are_flags(records: Sequence[Mapping[str, Any]], columns: _Columns) -> bool:
    """Return whether the column of checked labels holds true and false, and not the labels."""
    if columns.checked is None or _plain(columns.checked) in _FLAGS.split():
        return columns.checked is not None
    flags, labels = (
        {str(record.get(name)).strip().lower() for record in records if not is_missing(record.get(name))}
        for name in (columns.checked, columns.label)
    )
    flags.discard("")
    return bool(flags) and flags <= {"true", "false"} and not flags & labels


def _item(record: Mapping[str, Any], i: int, columns: _Columns) -> Any:
    """Return the name of the item of a record: by default the number of the record, if it has all labels."""
    if columns.item is not None:
        found = record.get(columns.item)
        return check_item(None if is_missing(found) or found == "" else found, columns.item, f"in record {i}")
    if not columns.several and not isinstance(record.get(columns.label), list):
        raise not_given("item", [column for column in record if column not in columns])
    return i


def _answers(record: Mapping[str, Any], columns: _Columns, i: int) -> Iterator[tuple[Any, Any]]:
    """Yield annotators and labels from one label, from lists of equal length, or from a list of mappings."""
    if columns.several:
        yield from ((column, record.get(column)) for column in columns.several)
        return
    value, by = record.get(columns.label), columns.annotator
    if not isinstance(value, list):
        if by is None:
            raise not_given("annotator", [column for column in record if column not in columns])
        yield record.get(by), value
    elif value and all(isinstance(each, Mapping) for each in value):
        inner = list(value[0])
        who, label = find_column("annotator", inner), find_column("label", inner)
        if who is None or label is None:
            raise InputError("labels", f"does not say whose labels they are in record {i}")
        for each in value:
            yield each.get(who), each.get(label)
    else:
        names = record.get(by) if by is not None else list(range(len(value)))
        if not isinstance(names, list) or len(names) != len(value):
            raise InputError("labels", f"must have as many annotators as labels in record {i}")
        yield from zip(names, value, strict=True)
