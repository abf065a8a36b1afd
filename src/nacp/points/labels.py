"""Labels, one per point or several in the columns of a table, and the names of the classes."""

import math
import numbers
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from nacp._types import Array, Bools, Ints
from nacp.engine import is_tensor
from nacp.errors import InputError, meant
from nacp.points.tensors import fetched, on_host

NO_CHANCE = 30
"""The number of rows from which on a pattern that all rows share is no coincidence."""


def plain_array(values: Any) -> Array:
    """Return an array; objects that are all numbers or missing values become numbers and NaN.

    A tensor need not be detached. Masked values are missing.
    """
    if is_tensor(values):
        values = fetched(values)
    if np.ma.is_masked(values):
        values = np.where(values.mask, None, values.data)
    array = np.asarray(values)
    if array.dtype.kind != "O":
        check_plain(array)
        return array
    flat = [math.nan if is_missing(value) else value for value in array.ravel().tolist()]
    if all(isinstance(value, numbers.Real) for value in flat):
        return np.array(flat).reshape(array.shape)
    return array


def check_plain(array: Array, name: str = "labels") -> None:
    """Refuse records, and what only damaged files hold: empty values, characters that do not exist."""
    kind = array.dtype
    odd = kind.kind == "V" or not kind.itemsize
    if kind.kind == "U" and not odd:
        codes = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(kind.byteorder))
        odd = codes.max(initial=0) > sys.maxunicode
    if odd:
        raise InputError(name, "must hold numbers or texts", found=f"damaged ones, or the type {kind}")


def refuse_tables(values: Any, name: str) -> None:
    """Refuse tables that NumPy would take for single objects: pyarrow's, datasets, and lazy ones of polars.

    Examples
    --------
    >>> import polars
    >>> from nacp.points.labels import refuse_tables
    >>> refuse_tables(polars.LazyFrame({"a": [1]}), "labels")
    Traceback (most recent call last):
    nacp.errors.InputError: labels is a LazyFrame, whose rows are not computed; pass labels.collect()
    """
    kind = type(values).__name__
    if hasattr(values, "collect_schema") and not hasattr(values, "shape"):
        problem = f"is a {kind}, whose rows are not computed"
        raise InputError(name, problem, remedy=f"pass {name}.collect()")
    if hasattr(values, "column_names") and hasattr(values, "to_pandas"):
        raise InputError(name, f"is a {kind}", remedy=f"pass {name}.to_pandas(), or a column of it")


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or one of pandas' missing values."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def check_classes(classes: Any, k: int) -> tuple[Any, ...] | None:
    """Check that there are k different class names."""
    if classes is None:
        return None
    try:
        names = tuple(name.item() if isinstance(name, np.generic) else name for name in classes)
        distinct = len(set(names))
    except TypeError:
        raise InputError("classes", f"must hold {k:,} different names", found=repr(classes)) from None
    if len(names) != k or distinct != k:
        raise InputError(
            "classes",
            f"must hold {k:,} different names, one per class",
            found=f"{len(names):,}, {distinct:,} of them different",
        )
    return names


def check_labels(
    labels: Any, n: int, k: int, classes: Sequence[Any] | None = None, *, name: str = "labels"
) -> Ints:
    """Check labels (numbers from 0 to k - 1, or names from `classes`) and return them as numbers.

    With names, integers are refused unless the names are numbers or decimal strings.
    """
    refuse_tables(labels, name)
    if hasattr(labels, "tocsr"):
        raise InputError(name, "is a sparse matrix", remedy=f"pass {name}.toarray()")
    labels = on_host(labels, name) if is_tensor(labels) else labels
    try:
        array = plain_array(labels)
    except ValueError:
        raise InputError(name, f"must have the shape ({n},)", found="rows of different lengths") from None
    if array.shape != (n,):
        raise InputError(name, f"must have the shape ({n},), one per row of probs", found=f"{array.shape}")
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    if classes is not None and array.dtype.kind in "iu":
        if all(isinstance(each, str) and each.isdecimal() for each in classes):
            classes = [int(each) for each in classes]
        elif not any(isinstance(each, numbers.Number) for each in classes):
            raise InputError(
                name,
                f"holds the number {array[0]}, and the classes have names, such as {classes[0]!r}",
                remedy=f"if numbers count the columns, pass np.asarray(classes)[{name}], or no names at all",
                spoken="give labels by name; numbers are for classes without names (no header, no --classes)",
            )
    if classes is not None:
        index = {each: i for i, each in enumerate(classes)}
        try:
            return np.array([index[each] for each in array.tolist()], dtype=np.int64)
        except KeyError as error:
            odd = error.args[0]
        if is_missing(odd):
            raise no_label(name, [is_missing(each) for each in array.tolist()])
        row = array.tolist().index(odd)
        raise InputError(
            name, f"holds {odd!r}, which is not in classes{meant(odd, classes)}, first in row {row}"
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise no_label(name, np.isnan(array))
    if array.dtype.kind in "USO":
        raise InputError(
            name,
            f"holds names such as {max(array.tolist(), key=lambda name: not str(name).isdecimal())!r}",
            remedy=f"pass classes= with the names of the {k:,} classes, in the order of the columns",
            spoken="give --classes FILE with the names of the classes, in the order of the columns",
        )
    if array.dtype.kind not in "iub":
        raise InputError(name, f"must be whole numbers from 0 to {k - 1}", found=f"dtype {array.dtype}")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= k:
        hint = " (do they start at 1? then subtract 1)" if low == 1 and high == k else ""
        raise InputError(
            name, f"must lie from 0 to {k - 1}, for {k:,} classes", found=f"{low} to {high}{hint}"
        )
    return array.astype(np.int64)


def no_label(name: str, missing: Any, ids: Sequence[str] | None = None) -> InputError:
    """Return the error for missing labels: it says which rows have none and how to drop them."""
    first, *more = np.flatnonzero(missing).tolist()
    others = "" if not more else f" and in {len(more):,} {'other' if len(more) == 1 else 'others'}"
    return InputError(
        name,
        f"has no label in row {first if ids is None else ids[first]}{others}",
        remedy="drop such rows first, as in probs[keep], labels[keep]",
        spoken="drop such rows first; nacp calibrate, compare, diagnose and report do with --drop-unlabelled",
    )


def check_given(labels: Any, n: int, k: int, classes: Any = None) -> Ints:
    """Check one or several labels per point; return numbers, of shape (n,), or (n, a) with -1 if missing.

    Examples
    --------
    >>> from nacp.points import check_given
    >>> check_given([[0, None], [2, 1]], n=2, k=3).tolist()
    [[0, -1], [2, 1]]
    """
    refuse_tables(labels, "labels")
    try:
        several = np.ndim(labels) == 2 and np.shape(labels)[1] > 1 and not hasattr(labels, "tocsr")
    except ValueError:  # rows of different lengths
        several = True
    if not several:
        return check_labels(labels, n, k, classes)
    array, missing = open_table(labels, classes)
    one_hot = array.shape[1] == k and np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all()
    if one_hot and len(array) * (k - 1) >= NO_CHANCE:  # Few annotators may disagree in this way.
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
    """Return a table of labels, and a mask of missing ones: -1, NaN, None, an empty string, or masked."""
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
    gaps = {"", -1} - set(classes if classes is not None else ())  # A class name is a label.
    if array.dtype.kind in "OU":
        try:
            flat = [is_missing(value) or value in gaps for value in array.ravel().tolist()]
        except TypeError:
            raise InputError("labels", "must be texts or numbers; some are lists or other objects") from None
        missing = np.array(flat, dtype=bool).reshape(array.shape)
    else:
        missing = (array != array) | ((array == -1) & (-1 in gaps))
    if isinstance(labels, np.ma.MaskedArray):
        missing |= np.ma.getmaskarray(labels)
    return array, missing


def present_labels(array: Array, missing: Bools) -> Array:
    """Return the labels of a table that are not missing; integral floats become integers."""
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
    """Return a table of labels as numbers, with -1 for missing ones."""
    present = present_labels(array, missing)
    table = np.full(array.shape, -1, dtype=np.int64)
    table[~missing] = check_labels(present, len(present), k, classes)
    return table
