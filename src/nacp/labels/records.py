"""Records with named columns: rows of a long CSV, lines of a JSONL file, or a DataFrame as of crowd-kit."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nacp.errors import InputError
from nacp.labels.answers import check_item, check_mapping
from nacp.labels.table import GivenLabel, LabelTable, as_label, whole_labels
from nacp.points import is_missing

# The usual names of columns, without case, spaces and punctuation; earlier names take precedence.
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

    The labels of an item are lists of equal length (``annotators`` and ``labels``), a list of mappings
    (``annotations``), or several columns, each named by its annotator. If there are lists of labels only, the
    annotators are the positions in the lists, and `LabelTable.named` is False.

    Parameters
    ----------
    records : sequence of mappings
        Such as lines of a JSONL file, or rows of a table.
    item, annotator, label : str, optional
        The columns. By default those with these names, or one of the usual other names, such as task, worker,
        answer; an item without a name gets the number of its record. `label` may be several columns, one for
        each annotator.
    checked : str, optional
        A column with true labels, missing where none was checked; or with true and false, where true means
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
    for i, record in enumerate(records):
        check_mapping(record, "record", i)
    header = list(dict.fromkeys(key for record in records for key in record))
    several = () if label is None or isinstance(label, str) else tuple(label)
    missing = next((name for name in several if name not in header), None)
    if missing is not None:
        raise _no_column("label", missing, header)
    usual = [column for column in header if _plain(column) in ALIASES["label"]]
    columns = find_columns(
        header,
        {"item": item, "annotator": annotator, "checked": checked},
        records,
        one_per_item=bool(several) or any(_holds_lists(records, column) for column in usual),
    )
    if label is None or isinstance(label, str):
        lists = columns["annotator"] is None or _holds_lists(records, columns["annotator"])
        fitting = [column for column in usual if _holds_lists(records, column) == lists]
        columns |= find_columns(fitting if label is None and fitting else header, {"label": label})
    flags = _are_flags(records, columns)
    given: list[GivenLabel] = []
    items: dict[Any, None] = {}
    for i, record in enumerate(records):
        where, name = f"in record {i}", _item(record, i, columns, several)
        items[name] = None
        known = None if columns["checked"] is None else record.get(columns["checked"])
        is_checked = flags and str(known).strip().lower() in _TRUE
        several_answers = [(column, record.get(column)) for column in several]
        for by, value in several_answers or _answers(record, columns, i):
            found = as_label(value, where)
            if found is None:
                continue
            if is_missing(by) or by == "":
                raise InputError("labels", f"does not say whose label it is {where}")
            given.append(GivenLabel(name, by, found, is_checked))
        truth = None if flags else as_label(known, where)
        if truth is not None:
            given.append(GivenLabel(name, "checked", truth, True))
    named = columns["annotator"] is not None or not any(
        isinstance(value, list) and value and not isinstance(value[0], Mapping)
        for value in (record.get(columns.get("label") or "") for record in records)
    )
    return LabelTable(tuple(whole_labels(given)), tuple(items), named)


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
    one_per_item: bool = False,
) -> dict[str, str | None]:
    """Return the columns for the wanted roles: as given, or the first with a usual name.

    `one_per_item` says that a record holds all labels of an item, and not one of them.
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
        if role == "item" and len(usual) > 1:  # several records of one item repeat its name
            repeating = {alias: _repeats(records, plain[alias][0]) for alias in usual}
            usual = [alias for alias in usual if repeating[alias] is not one_per_item] or usual
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
    """Return whether a header names an annotator, and an item or a label: a table with a row for each label.

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
    """Return the name of a column in lower case without punctuation, and without the prefixes of markets."""
    text = str(name)
    if text.startswith(("Answer.", "OUTPUT:")):
        return "answer"
    if text.startswith("GOLDEN:"):
        return "golden"
    return re.sub(r"[^a-z0-9]", "", text.removeprefix("ASSIGNMENT:").lower())


def _holds_lists(records: Sequence[Mapping[str, Any]], column: str) -> bool:
    return any(isinstance(record.get(column), list | Mapping) for record in records)


def _repeats(records: Sequence[Mapping[str, Any]], column: str) -> bool:
    """Return whether a value of a column occurs more than once."""
    values = [str(record.get(column)) for record in records]
    return len(set(values)) < len(values)


def _are_flags(records: Sequence[Mapping[str, Any]], columns: Mapping[str, str | None]) -> bool:
    """Return whether the column of checked labels holds true and false, and not the labels."""
    column = columns["checked"]
    if column is None or _plain(column) in ALIASES["checked"]:
        return column is not None
    values, labels = (
        {str(record.get(name)).strip().lower() for record in records if not is_missing(record.get(name))}
        for name in (column, str(columns.get("label")))
    )
    flags = values - {""}
    return bool(flags) and flags <= {"true", "false"} and not flags & labels


def _item(
    record: Mapping[str, Any], i: int, columns: Mapping[str, str | None], several: Sequence[str]
) -> Any:
    """Return the name of the item of a record: by default the number of the record, if it has all labels."""
    column = columns["item"]
    if column is not None:
        found = record.get(column)
        return check_item(None if is_missing(found) or found == "" else found, column, f"in record {i}")
    if not several and not isinstance(record.get(str(columns["label"])), list):
        raise _missing_column("item", record, columns)
    return i


def _answers(
    record: Mapping[str, Any], columns: Mapping[str, str | None], i: int
) -> Iterator[tuple[Any, Any]]:
    """Yield annotators and labels from one label, from lists of equal length, or from a list of mappings."""
    value, by = record.get(str(columns["label"])), columns["annotator"]
    if isinstance(value, Mapping) and value and all(isinstance(each, list) for each in value.values()):
        value = [dict(zip(value, row, strict=False)) for row in zip(*value.values(), strict=False)]
    if not isinstance(value, list):
        if by is None:
            raise _missing_column("annotator", record, columns)
        yield record.get(by), value
    elif value and all(isinstance(each, Mapping) for each in value):
        inner = find_columns(list(value[0]), {"annotator": None, "label": None})
        if inner["annotator"] is None:
            raise InputError("labels", f"does not say whose labels they are in record {i}")
        for each in value:
            yield each.get(inner["annotator"]), each.get(str(inner["label"]))
    else:
        names = record.get(by) if by is not None else list(range(len(value)))
        if not isinstance(names, list) or len(names) != len(value):
            raise InputError(
                "labels",
                f"must have as many annotators as labels in record {i}",
                found=f"{len(names) if isinstance(names, list) else 1} and {len(value)}",
            )
        yield from zip(names, value, strict=True)


def _no_column(role: str, name: str, header: Sequence[str]) -> InputError:
    return InputError(role, f"is {name!r}, and the columns are {_listed(header)}")


def _missing_column(role: str, record: Mapping[str, Any], columns: Mapping[str, str | None]) -> InputError:
    """Return the error if no column has a usual name of an item, or of an annotator."""
    left = [column for column in record if column not in columns.values()]
    why = {"item": "which labels are of one item", "annotator": "whose labels these are"}[role]
    others = f"; it may be {_listed(left)}" if left else ""
    return InputError(
        role,
        f"must name a column: without one nothing says {why}{others}",
        remedy=f"pass {role}={repr(left[0]) if len(left) == 1 else ''}",
        spoken=f"give --{role} {left[0] if len(left) == 1 else 'NAME'}",
    )


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns[:10]))
