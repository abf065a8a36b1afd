"""Checked labels, as the door returns them."""

from typing import Any

import numpy as np

from nacp._types import Ints
from nacp.engine import is_tensor
from nacp.errors import InputError
from nacp.points.door import check_labels, is_missing, plain_array

UNDECIDED = "?"


def open_clean(clean: Any, n: int, k: int, classes: Any = None, least: int = 1) -> tuple[Ints, Ints]:
    """Check true labels, missing where none was checked, or a pair (rows, labels); return rows and labels."""
    pair = _pair(clean)
    if pair is not None:
        rows, given = pair
        if len(rows) != len(given) or (len(rows) and rows.dtype.kind not in "iu"):
            raise InputError(
                "clean",
                "as a pair must hold the numbers of the checked rows and as many labels",
                found=f"{len(rows):,} rows of dtype {rows.dtype} and {len(given):,} labels",
            )
        if len(rows) and (rows.min() < 0 or rows.max() >= n):
            raise InputError(
                "clean", f"has rows that must lie from 0 to {n - 1}", found=f"{rows.min()} to {rows.max()}"
            )
        if len(np.unique(rows)) < len(rows):
            values, counts = np.unique(rows, return_counts=True)
            raise InputError("clean", f"has row {values[np.argmax(counts)]} more than once")
        order = np.argsort(rows)
        rows, given = rows[order], [given[i] for i in order]
    else:
        every = _objects(clean)
        if every.shape != (n,):
            raise InputError(
                "clean",
                f"must have the shape ({n},), one per row of probs, with -1 where the label was not checked; "
                "or be a pair (rows, labels)",
                found=f"the shape {every.shape}",
            )
        if any(isinstance(each, bool | np.bool_) for each in every):
            raise InputError(
                "clean", "must hold labels, not whether they were checked", found="True or False"
            )
        # Where -1 is the name of a class, it is a label.
        absent = -1 not in (classes or ())
        hidden = np.ma.getmaskarray(clean) if isinstance(clean, np.ma.MaskedArray) else np.zeros(n, bool)
        rows = np.array(
            [
                i
                for i, each in enumerate(every)
                if not (hidden[i] or is_missing(each) or (absent and _is_number(each) and each == -1))
            ],
            dtype=np.int64,
        )
        given = [every[row] for row in rows]
    if len(rows) < least:
        raise InputError("clean", "has no checked label at all")
    decided = [i for i, each in enumerate(given) if not _is_undecided(each, classes)]
    known = [given[i] for i in decided]
    if all(_is_number(each) and float(each).is_integer() for each in known):
        known = [int(each) for each in known]
    labels = np.full(len(rows), -1)
    if known:
        labels[decided] = check_labels(np.array(known), len(known), k, classes, name="clean")
    return rows.astype(np.int64), labels


def _is_undecided(value: Any, classes: Any) -> bool:
    """Return whether a label says that the checker could not decide."""
    return isinstance(value, str) and value == UNDECIDED and UNDECIDED not in (classes or ())


def _pair(clean: Any) -> tuple[Ints, list[Any]] | None:
    """Return rows and labels, if that is what was given: two sequences, each of one dimension."""
    if not isinstance(clean, tuple) or len(clean) != 2:
        return None
    rows, given = (_objects(part) for part in clean)
    return (np.array(rows.tolist()), given.tolist()) if rows.ndim == given.ndim == 1 else None


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
