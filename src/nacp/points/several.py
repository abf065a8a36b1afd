"""Several labels for each point, as from annotators: a table with a column for each, and gaps."""

from typing import Any

import numpy as np

from nacp._types import Array, Bools, Ints
from nacp.errors import InputError
from nacp.points.door import check_labels, is_missing, no_label, plain_array


def check_given(labels: Any, n: int, k: int, classes: Any = None) -> Ints:
    """Check labels, one for each of n points or several; return numbers: (n,), or (n, a) with -1 for gaps.

    Examples
    --------
    >>> from nacp.points import check_given
    >>> check_given([[0, None], [2, 1]], n=2, k=3).tolist()
    [[0, -1], [2, 1]]
    """
    try:
        several = np.ndim(labels) == 2 and np.shape(labels)[1] > 1 and not hasattr(labels, "tocsr")
    except ValueError:  # rows of different lengths
        several = True
    if not several:
        return check_labels(labels, n, k, classes)
    array, missing = open_table(labels, classes)
    if array.shape[1] == k and np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all():
        raise InputError(
            "labels",
            f"must have the shape ({n},), and not a 1 for the label and 0 for the others",
            found=f"{array.shape}",
            remedy="pass labels.argmax(axis=1)",
        )
    if len(array) != n:
        raise InputError("labels", f"must have {n:,} rows, one per row of probs", found=f"{array.shape}")
    empty = missing.all(axis=1)
    if empty.any():
        raise no_label("labels", empty)
    return number_table(array, missing, k, classes)


def open_table(labels: Any, classes: Any = None) -> tuple[Array, Bools]:
    """Return a table of labels, and where there is none: -1, NaN, None, an empty text, or masked."""
    try:
        array = plain_array(labels)
    except ValueError:
        array = np.empty(0)
    if array.ndim != 2:
        raise InputError(
            "labels",
            "must have a row for each item and a column for each annotator",
            found="rows of different lengths" if not array.size else f"the shape {array.shape}",
            remedy="fill up with -1",
        )
    gaps = {"", -1} - set(classes if classes is not None else ())  # what is the name of a class is a label
    if array.dtype.kind == "f":
        missing = np.isnan(array) | (array == -1 if -1 in gaps else False)
    elif array.dtype.kind in "OU":
        flat = [is_missing(value) or value in gaps for value in array.ravel().tolist()]
        missing = np.array(flat, dtype=bool).reshape(array.shape)
    else:
        missing = (array == -1) if -1 in gaps else np.zeros(array.shape, dtype=bool)
    if isinstance(labels, np.ma.MaskedArray):
        missing |= np.ma.getmaskarray(labels)
    return array, missing


def present_labels(array: Array, missing: Bools) -> Array:
    """Return the labels of a table that are there; whole numbers as such."""
    present: Array = array[~missing]
    if present.size == 0 and len(array):
        raise InputError("labels", "holds no label at all, only missing ones")
    if present.dtype.kind != "f":
        return present
    odd = present[~(np.isfinite(present) & (present == np.floor(present)))]
    if odd.size:
        raise InputError(
            "labels", "must be whole numbers, with -1 or nan where there is none", found=f"{odd[0]:.6g}"
        )
    return present.astype(np.int64)


def number_table(array: Array, missing: Bools, k: int, classes: Any = None) -> Ints:
    """Return a table of labels as numbers, -1 where there is none."""
    present = present_labels(array, missing)
    table = np.full(array.shape, -1, dtype=np.int64)
    table[~missing] = check_labels(present, len(present), k, classes)
    return table
