"""Labels that commands are given: noisy ones, true ones, and true ones of some points only."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nacp._types import Array, Bools
from nacp.audit.checked_labels import UNDECIDED
from nacp.cli.formats.arrays import read_array
from nacp.cli.formats.common import (
    ARRAYS,
    LINES,
    PARQUET,
    TEXTS,
    are_numbers,
    are_whole,
    kind,
    pick_labels,
    split_key,
)
from nacp.cli.formats.jsonl import jsonl_column, jsonl_rows
from nacp.cli.formats.parquet import parquet_column, parquet_header
from nacp.cli.formats.text import csv_column, csv_rows, refuse_separators
from nacp.cli.ids import refuse_other_order
from nacp.errors import InputError
from nacp.labels.label_matrix import ABSENT
from nacp.points import is_missing, no_label


def read_clean(name: str, rows: int, classes: Sequence[Any] | None = None, *, noisy: str = "") -> Array:
    """Read true labels of points some of which were checked: like labels, -1 or empty where one was not.

    They must not be the `noisy` ones over again.
    """
    refuse_same(noisy, name)
    read = read_labels(name, rows, classes, gaps=True, true=True)
    if read.shape != (rows,):
        raise InputError(
            name, f"must hold {rows} labels, -1 or empty where none was checked", found=read.shape
        )
    return true_labels(read, classes)


def true_labels(read: Array, classes: Sequence[Any] | None) -> Array:
    """Return true labels as they are meant: None where there is none, ? where nobody could decide."""
    undecided = np.array([each == UNDECIDED and each not in (classes or ()) for each in read], dtype=bool)
    found = np.full(len(read), None, dtype=object)
    there, values = present(np.where(undecided, found, read), classes)
    found[there], found[undecided] = values.tolist(), UNDECIDED
    return found


def read_pairs(noisy: str, true: str, classes: Sequence[Any] | None = None) -> tuple[Array, Array, int]:
    """Read noisy and true labels of items that have both; and of how many items that is."""
    given = read_labels(noisy, classes=classes, gaps=True)
    if given.ndim != 1:
        raise InputError(noisy, "must hold one label for each item", found=given.shape)
    if not len(given):
        raise InputError(noisy, "holds no label")
    refuse_other_order(noisy, true)
    there, values = present(given, classes)
    _refuse_names(noisy, values, classes)
    checked = read_clean(true, len(given), classes, noisy=noisy)
    known = np.array([each is not None for each in checked], dtype=bool)
    if not known[there].any():
        raise InputError(true, "has no label for an item that has a noisy one")
    both = there & known
    labels = np.array(checked[both].tolist())
    _refuse_names(true, labels, classes)
    return values[known[there]], labels, len(given)


def _refuse_names(name: str, labels: Array, classes: Sequence[Any] | None) -> None:
    """Refuse names of classes where it is not known which there are."""
    if classes is None and labels.dtype.kind in "US" and len(labels):
        raise InputError(
            name, f"holds names such as {str(labels[0])!r}: pass --classes FILE with all of them in order"
        )


def present(read: Array, classes: Sequence[Any] | None) -> tuple[Bools, Array]:
    """Return which of several labels, or rows of them, are there, and these."""
    absent = {"", "-1", "-1.0"} - set(map(str, classes or ()))
    flat = [not is_missing(each) and str(each) not in absent for each in read.ravel().tolist()]
    there = np.array(flat, dtype=bool).reshape(read.shape)
    if read.ndim == 2:
        some = np.asarray(there.any(axis=1))
        named = classes is not None and read.dtype.kind in "iuf"
        return some, _named(read[some].astype(np.int64), classes or ()) if named else read[some]
    cells = [str(each) for each in read[there].tolist()]
    if not are_whole(cells) or (classes is not None and set(cells) <= set(classes)):
        return there, np.array(cells)
    numbers = np.array(cells, dtype=np.float64).astype(np.int64)
    return there, numbers if classes is None else _named(numbers, classes)


def refuse_same(noisy: str, true: str) -> None:
    """Refuse to take one column for the noisy labels and for the true ones."""
    (first, noisy_key), (second, true_key) = split_key(noisy), split_key(true)
    if not (first.is_file() and second.is_file() and first.samefile(second)):
        return
    if noisy_key == true_key or _column(first, noisy_key) == _column(second, true_key, true=True):
        raise InputError(
            true,
            "is given twice, as the labels and as the true labels",
            remedy="name the columns, as in labels.csv:noisy labels.csv:checked",
        )


def _column(path: Path, key: str | None, *, true: bool = False) -> str | None:
    """Return which column or array of a file is meant."""
    if kind(path) in TEXTS:
        _, header = next(csv_rows(path))
        if len(header) == 1:
            refuse_separators(path, header)
    elif kind(path) == PARQUET:
        header = parquet_header(path)
    elif kind(path) == LINES:
        header = jsonl_rows(path)[0] or [""]
    else:
        return key or "labels"
    return header[pick_labels(path, header, key, true=true)]


def read_labels(
    name: str,
    rows: int | None = None,
    classes: Sequence[Any] | None = None,
    *,
    gaps: bool = False,
    true: bool = False,
) -> Array:
    """Read labels, numbers or names: from an array, or from one column of a table.

    Of several arrays it is "labels"; of several columns the one called label, unless ``file.csv:column``
    names one. The first line of a ``.csv`` file of one column is a header if it cannot be anything else.
    There should be as many labels as `rows`, if that is known. `gaps`: some may be missing. `true`: of two
    columns called label and checked, the first is not meant.
    """
    path, key = split_key(name)
    if kind(path) in (*ARRAYS, PARQUET):
        if kind(path) == PARQUET:
            read = parquet_column(path, key, true=true, gaps=gaps)
        else:
            read = read_array(path, key, "labels")
        if read.dtype.kind == "f" and np.array_equal(read, np.rint(read)):
            read = read.astype(np.int64)
        return read if gaps or classes is None or read.dtype.kind not in "iu" else _named(read, classes)
    if kind(path) == LINES:
        values, headed = jsonl_column(path, key, true=true), True
    else:
        values, headed = csv_column(path, key, gaps=gaps, true=true)
    may_be_header = not headed and values[0] not in (classes or ()) and not (gaps and values[0] == "")
    if gaps and rows is not None:
        values = _without_last_gaps(values, rows + may_be_header)
    if may_be_header:
        word, rest = not are_numbers(values[:1]), [cell for cell in values[1:] if cell or not gaps]
        many = rows is None or len(values) == rows + 1
        # A word that is no class is a header if there is a label too many, or if numbers are below it. A
        # number may be a label; it is a header only if all below it are words.
        if (many or are_whole(rest)) if word else (many and not any(are_numbers([cell]) for cell in rest)):
            values = values[1:]
    if gaps:
        left = values if rows is None else _without_last_gaps(values, rows)
        return np.array([None if is_absent(cell, classes) else cell for cell in left], dtype=object)
    missing = [is_absent(cell, classes) for cell in values]
    if any(missing):
        raise no_label(str(path), missing)
    if not are_whole(values) or (classes is not None and set(values) <= set(classes)):
        return np.array(values)
    numbers = np.array(values, dtype=np.float64).astype(np.int64)
    return numbers if classes is None else _named(numbers, classes)


def _without_last_gaps(values: list[str], number: int) -> list[str]:
    """Leave out empty cells at the end, down to a number: they may be labels not checked, or nothing."""
    end = len(values)
    while end > number and values[end - 1] == "":
        end -= 1
    return values[:end]


def is_absent(cell: str, classes: Sequence[Any] | None) -> bool:
    """Return whether a cell stands for no label at all."""
    return cell.lower() in ABSENT and cell not in (classes or ())


def _named(labels: Array, classes: Sequence[Any]) -> Array:
    """Return the names of labels that are numbers; a number that has none stays one.

    A number is the place of a class, unless the names are numbers themselves. In a table -1 is a gap.
    """
    whole = are_whole([str(name) for name in classes])
    names = {int(float(name)): name for name in classes} if whole else dict(enumerate(classes))
    if labels.ndim == 2:
        names.setdefault(-1, "")
    return np.array([names.get(label, label) for label in labels.ravel().tolist()]).reshape(labels.shape)
