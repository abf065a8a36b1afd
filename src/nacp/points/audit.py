"""Checked labels, as the door returns them."""

from typing import Any

import numpy as np

from nacp._types import Ints
from nacp.engine import is_tensor
from nacp.errors import InputError
from nacp.points.labels import check_labels, is_missing, plain_array

UNDECIDED = "?"


def open_clean(clean: Any, n: int, k: int, classes: Any = None, least: int = 1) -> tuple[Ints, Ints]:
    """Check true labels, or a pair (rows, labels), missing where none was checked; return rows and labels."""
    paired = _is_pair(clean)
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
    elif any(map(_is_flag, given)) and not any(map(_is_flag, classes or ())):
        raise InputError("clean", "must hold labels, not whether they were checked", found="True or False")
    # Where -1 is the name of a class, it is a label.
    absent = -1 not in (classes or ())
    hidden = np.broadcast_to(_hidden(numbers) | _hidden(values), rows.shape)
    there = [
        i
        for i in np.argsort(rows).tolist()
        if not (hidden[i] or is_missing(given[i]) or (absent and _is_number(given[i]) and given[i] == -1))
    ]
    if len(there) < least:
        raise InputError("clean", "has no checked label at all")
    decided = [place for place, i in enumerate(there) if not _is_undecided(given[i], classes)]
    known = [given[there[place]] for place in decided]
    if all(_is_number(each) and float(each).is_integer() for each in known):
        known = [int(each) for each in known]
    labels = np.full(len(there), -1)
    if known:
        labels[decided] = check_labels(np.array(known), len(known), k, classes, name="clean")
    return rows[there].astype(np.int64), labels


def _check_rows(rows: Ints, number: int, n: int) -> Ints:
    """Check the rows of so many labels."""
    if len(rows) != number or (len(rows) and rows.dtype.kind not in "iu"):
        raise InputError(
            "clean",
            "as a pair must hold the numbers of the checked rows and as many labels",
            found=f"{len(rows):,} rows of dtype {rows.dtype} and {number:,} labels",
        )
    if len(rows) and (rows.min() < 0 or rows.max() >= n):
        raise InputError(
            "clean", f"has rows that must lie from 0 to {n - 1}", found=f"{rows.min()} to {rows.max()}"
        )
    if len(np.unique(rows)) < len(rows):
        values, counts = np.unique(rows, return_counts=True)
        raise InputError("clean", f"has row {values[np.argmax(counts)]} more than once")
    return rows


def _is_undecided(value: Any, classes: Any) -> bool:
    """Return whether a label says that the checker could not decide."""
    return isinstance(value, str) and value == UNDECIDED and UNDECIDED not in (classes or ())


def _is_pair(clean: Any) -> bool:
    """Return whether rows and labels were given: two sequences, each of one dimension."""
    return isinstance(clean, tuple) and len(clean) == 2 and all(_objects(part).ndim == 1 for part in clean)


def _hidden(values: Any) -> Any:
    """Return which values are masked; False if none is."""
    return np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else np.False_


def _objects(values: Any) -> Any:
    """Return an array of whatever was given; of no dimension, if it is not a regular one."""
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
