"""Label matrices, with a row for each item and a column for each annotator: arrays, and wide CSV tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacp._types import Array
from nacp.errors import InputError
from nacp.labels.records import find_column
from nacp.labels.table import GivenLabel, LabelTable
from nacp.points import open_table, present_labels

ABSENT = {"", "na", "n/a", "nan", "none", "null"}
"""The cells of a CSV table without a label, unless a class has that name."""
_IF_LONG = {
    "remedy": "if it has a row for each label, say which columns are meant: item=, annotator=, label=",
    "spoken": "if it has a row for each label, name its columns by --item, --annotator and --label",
}
_MANY_ROWS = 20  # With at least this many rows, a column whose cells all differ does not hold labels.


def from_matrix(
    labels: Any, *, items: Sequence[Any] | None = None, annotators: Sequence[Any] | None = None
) -> LabelTable:
    """Read a label matrix: a row for each item, a column for each annotator or labelling function.

    It holds numbers, or names; -1, nan, None and an empty text are abstentions. The names of the rows,
    `items`, and of the columns, `annotators`, are by default their numbers, or the columns of a DataFrame.

    Examples
    --------
    >>> from nacp.labels import from_matrix
    >>> from_matrix([[0, -1, 1], [1, 1, -1]], annotators=["keyword", "regex", "model"])
    LabelTable(4 labels of 2 items by 3 annotators, 2 classes)
    """
    if annotators is None and hasattr(labels, "columns") and hasattr(labels, "iloc"):
        annotators = list(labels.columns)
    array, missing = open_table(labels)
    for name, given, length in (("items", items, len(array)), ("annotators", annotators, array.shape[1])):
        if given is not None and (len(given) != length or len(set(given)) != length):
            found = f"{len(set(given)):,} of {len(given):,}"
            raise InputError(name, f"must hold {length:,} different names", found=found)
    rows = range(len(array)) if items is None else items
    columns = range(array.shape[1]) if annotators is None else annotators
    present_labels(array, missing)  # checks that numbers are whole
    # Column by column, so that annotators keep their order.
    given = [
        GivenLabel(item, annotator, label)
        for annotator, column, gaps in zip(columns, array.T.tolist(), missing.T, strict=True)
        for item, label, gap in zip(rows, column, gaps, strict=True)
        if not gap
    ]
    return LabelTable(tuple(given), tuple(rows))


def from_cells(cells: Sequence[Sequence[str]], classes: Sequence[Any] | None = None) -> LabelTable:
    """Read the cells of a wide CSV table, with or without a header and a first column of item names."""
    known = {str(each) for each in classes or ()}
    first, *below = rows = [
        ["" if cell.lower() in ABSENT and cell not in known else cell for cell in row] for row in cells
    ]
    items = annotators = None
    if not first:
        raise InputError("labels", "is empty")
    if _is_header(first, below, known):
        if not below:
            raise InputError("labels", "has a header and nothing below it")
        annotators, rows = first, below
        names_items = first[0].lower() in ("", "row", "unnamed: 0") or find_column("item", first[:1])
        if len(first) > 1 and names_items:
            items, annotators = [row[0] for row in rows], first[1:]
            rows = [row[1:] for row in rows]
            if len(set(items)) < len(items):
                problem = f"has items more than once in its column {first[0]!r}"
                raise InputError("labels", problem, **_IF_LONG)
    elif len(first) > 1 and first == [str(i) for i in range(len(first))]:
        raise InputError(
            "labels",
            f"begins with {','.join(first)}, which may be a header or labels",
            remedy="put a header that names the annotators above it, or in its place",
        )
    array = np.array(rows)
    _refuse_long(array, annotators or [str(i) for i in range(len(first))], known)
    if items is None:
        _refuse_row_numbers(array)
    filled = [cell for cell in array.ravel().tolist() if cell]
    if all(map(_is_number, filled)) and not set(filled) <= known:
        array = np.where(array == "", "-1", array).astype(np.float64)
    return from_matrix(array, items=items, annotators=annotators)


def _is_header(first: list[str], below: list[list[str]], known: set[str]) -> bool:
    """Return whether the first row holds names of columns: cells that are not labels."""
    if first[0] == "" and _all_differ(first[1:]) and _all_differ([row[0] for row in below]):
        return True  # pandas: an empty cell above the index
    odd = {cell for cell in first if cell and cell not in known and not _is_number(cell)}
    return bool(odd) and (bool(known) or odd.isdisjoint(cell for row in below for cell in row))


def _refuse_long(array: Array, columns: Sequence[str], known: set[str]) -> None:
    """Refuse columns of different kinds: such a table has a row for each label."""
    cells = [set(column) - {""} for column in array.T.tolist()]
    held = [not known.isdisjoint(each) for each in cells]
    if len(held) > 2 and sum(held) == 1:
        problem = f"holds classes in its column {columns[held.index(True)]!r} alone"
        raise InputError("labels", problem, **_IF_LONG)
    kinds = [{_is_number(cell) for cell in each} for each in cells]
    if {True} in kinds and {False} in kinds:
        number, text = columns[kinds.index({True})], columns[kinds.index({False})]
        problem = f"holds numbers in its column {number!r} and texts in {text!r}, which are not all labels"
        raise InputError("labels", problem, **_IF_LONG)


def _refuse_row_numbers(array: Array) -> None:
    """Refuse a first column whose cells all differ, if those of the other columns do not."""
    n, labels = len(array), set(array[:, 1:].ravel().tolist())
    if _all_differ(array[:, 0].tolist()) and (
        n > 2 * len(labels)
        or (n >= _MANY_ROWS and not any(_all_differ(column) for column in array.T[1:].tolist()))
    ):
        problem = "seems to number its rows in the first column"
        raise InputError("labels", problem, remedy="call that id, or leave it out")


def _all_differ(cells: list[str]) -> bool:
    return len(set(cells)) == len(cells) > 1


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
