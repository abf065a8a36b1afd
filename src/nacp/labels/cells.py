"""A table of texts with a row for each item and a column for each annotator, as in a wide CSV."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from nacp.errors import InputError
from nacp.labels.matrix import from_matrix
from nacp.labels.records import find_columns
from nacp.labels.table import LabelTable

ABSENT = {"", "na", "n/a", "nan", "none", "null"}
"""What stands where there is no label, if no class is called so."""
_IF_LONG = {
    "remedy": "if it has a row for each label, say which columns are meant: item=, annotator=, label=",
    "spoken": "if it has a row for each label, name its columns by --item, --annotator and --label",
}
_MANY = 20  # rows: with so many, a label for each of them is no label


def from_cells(cells: Sequence[Sequence[str]], classes: Sequence[Any] | None = None) -> LabelTable:
    """Read the cells of a wide table; a first row that holds other than labels is a header.

    So is what pandas writes: an empty cell and numbers. A first column that is called so names the items.

    Examples
    --------
    >>> from nacp.labels.cells import from_cells
    >>> table = from_cells([["image", "Ann", "Bob"], ["a.png", "1", "0"], ["b.png", "NA", "1"]])
    >>> table.items, table.annotators, table.matrix().tolist()
    (('a.png', 'b.png'), ('Ann', 'Bob'), [[1, 0], [-1, 1]])
    """
    known = {str(each) for each in classes or ()}
    first, *below = rows = [
        ["" if cell.lower() in ABSENT and cell not in known else cell for cell in row] for row in cells
    ]
    items = annotators = None
    if _is_header(first, below, known):
        if not below:
            raise InputError("labels", "has a header and nothing below it")
        annotators, rows = first, below
        if len(first) > 1 and (not first[0] or _names_items(first[0])):
            items, annotators = [row[0] for row in rows], first[1:]
            rows = [row[1:] for row in rows]
            _refuse_repeats(first[0], items)
    elif len(first) > 1 and first == [str(i) for i in range(len(first))]:
        raise InputError(
            "labels",
            f"begins with {','.join(first)}, which may be a header or labels: add a header that names the "
            "annotators, or put one in its place",
        )
    array = np.array(rows)
    _refuse_long(array, annotators or [str(i) for i in range(len(first))], known)
    if items is None:
        _refuse_numbers_of_rows(array)
    filled = [cell for cell in array.ravel().tolist() if cell]
    if not all(map(_is_number, filled)) or set(filled) <= known:
        return from_matrix(array, items=items, annotators=annotators)
    numbers = np.where(array == "", "-1", array).astype(np.float64)
    whole = np.array_equal(numbers, np.rint(numbers))
    return from_matrix(numbers.astype(np.int64) if whole else numbers, items=items, annotators=annotators)


def _is_header(first: list[str], below: list[list[str]], known: set[str]) -> bool:
    """Return whether the first row names the columns: it holds what is no label."""
    if first[0] == "" and _all_differ(first[1:]) and _all_differ([row[0] for row in below]):
        return True
    odd = {cell for cell in first if cell and cell not in known and not _is_number(cell)}
    if known:
        return bool(odd)
    return bool(odd) and odd.isdisjoint(cell for row in below for cell in row)


def _names_items(column: str) -> bool:
    return (
        column.lower() in ("row", "unnamed: 0") or find_columns([column], {"item": None})["item"] is not None
    )


def _refuse_repeats(column: str, items: list[str]) -> None:
    """Refuse items that come more than once: there may be a row for each label."""
    again = next((name for name, number in Counter(items).items() if number > 1), None)
    if again is not None:
        raise InputError(
            "labels",
            f"has {again!r} more than once in its column {column!r}",
            **_IF_LONG,
        )


def _refuse_long(array: Any, columns: Sequence[str], known: set[str]) -> None:
    """Refuse a table whose columns hold different things: it has a row for each label."""
    cells = [set(column) - {""} for column in array.T.tolist()]
    held = [not known.isdisjoint(each) for each in cells]
    if len(held) > 2 and sum(held) == 1:
        raise InputError(
            "labels", f"holds classes in its column {columns[held.index(True)]!r} alone", **_IF_LONG
        )
    kinds = [{_is_number(cell) for cell in each} for each in cells]
    if {True} in kinds and {False} in kinds:
        number, text = columns[kinds.index({True})], columns[kinds.index({False})]
        raise InputError(
            "labels",
            f"holds numbers in its column {number!r} and texts in {text!r}, so these are not all labels",
            **_IF_LONG,
        )


def _refuse_numbers_of_rows(array: Any) -> None:
    """Refuse a first column whose cells all differ, where those of the others do not."""
    n, labels = len(array), set(array[:, 1:].ravel().tolist())
    if _all_differ(array[:, 0].tolist()) and (
        n > 2 * len(labels)
        or (n >= _MANY and not any(_all_differ(column) for column in array.T[1:].tolist()))
    ):
        raise InputError(
            "labels",
            "seems to number its rows in the first column",
            remedy="call that id, or leave it out",
        )


def _all_differ(cells: list[str]) -> bool:
    return len(set(cells)) == len(cells) > 1


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
