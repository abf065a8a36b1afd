"""Checks of `clean=`: the true labels of the checked points."""

from typing import Any

import numpy as np

from nacp._types import Ints
from nacp.engine import is_tensor
from nacp.errors import InputError
from nacp.points import check_labels, is_missing, plain_array

UNDECIDED = "?"


def open_clean(clean: Any, n: int, k: int, classes: Any = None, least: int = 1) -> tuple[Ints, Ints]:
    """Check true labels, one per row or as a pair (rows, labels); return the checked rows and their labels.

    A label that is missing was not checked. The label -1 stands for one that the checker could not decide.
    """
    classes = classes or ()
    paired = isinstance(clean, tuple) and len(clean) == 2 and all(_objects(part).ndim == 1 for part in clean)
    numbers, values = clean if paired else (np.arange(n), clean)
    rows, given = numbers, _objects(values)
    if paired:
        rows = _check_rows(np.array(_objects(numbers).tolist()), len(given), n)
    elif given.shape != (n,):
        raise InputError(
            "clean",
            f"must have the shape ({n},), one per row of probs, with -1 where the label was not checked; "
            "or be a pair (rows, labels)",
            found=f"the shape {given.shape}",
        )
    elif any(map(_is_flag, given)) and not any(map(_is_flag, classes)):
        raise InputError("clean", "must hold labels, not whether they were checked", found="True or False")
    missing = np.array([is_missing(each) or (each == -1 and -1 not in classes) for each in given], dtype=bool)
    missing |= np.ma.getmask(numbers) | np.ma.getmask(values)
    order = np.argsort(rows)
    checked = order[~missing[order]]
    if len(checked) < least:
        raise InputError("clean", "has no checked label at all")
    return rows[checked].astype(np.int64), _numbered(given[checked].tolist(), k, classes)


def _numbered(values: list[Any], k: int, classes: Any) -> Ints:
    """Return labels as numbers, -1 for those that could not be decided."""
    undecided = np.array([isinstance(each, str) and each == UNDECIDED for each in values], dtype=bool)
    if UNDECIDED in classes:
        undecided[:] = False
    known = [each for each, unknown in zip(values, undecided, strict=True) if not unknown]
    if all(_is_number(each) and float(each).is_integer() for each in known):
        known = [int(each) for each in known]
    labels = np.full(len(values), -1)
    if known:
        labels[~undecided] = check_labels(np.array(known), len(known), k, classes or None, name="clean")
    return labels


def _check_rows(rows: Ints, number: int, n: int) -> Ints:
    """Check that rows lie from 0 to n - 1, are all different, and are as many as the labels."""
    if len(rows) != number or (len(rows) and rows.dtype.kind not in "iu"):
        raise InputError(
            "clean",
            "as a pair must hold the numbers of the checked rows and as many labels",
            found=f"{len(rows):,} rows of dtype {rows.dtype} and {number:,} labels",
        )
    if len(rows) and (rows.min() < 0 or rows.max() >= n):
        found = f"{rows.min()} to {rows.max()}"
        raise InputError("clean", f"has rows that must lie from 0 to {n - 1}", found=found)
    values, counts = np.unique(rows, return_counts=True)
    if len(values) < len(rows):
        raise InputError("clean", f"has row {values[np.argmax(counts)]} more than once")
    return rows


def _objects(values: Any) -> Any:
    """Return an array of objects; one of no dimension where the values do not form a regular array."""
    try:
        array = np.asarray(plain_array(values) if is_tensor(values) else values, dtype=object)
    except (ValueError, TypeError):
        return np.array(None)
    ragged = any(isinstance(each, list | tuple | np.ndarray) for each in array.flat)
    return np.array(None) if ragged else array


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)
