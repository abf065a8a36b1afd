"""The door: rows and labels are checked here, once; what is behind it takes what the door returned."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from nacp._types import Array, Ints
from nacp.engine import check, is_tensor
from nacp.errors import InputError
from nacp.points.arrays import Rows, Widths
from nacp.points.parts import Parts
from nacp.points.sparse import open_top
from nacp.points.tensors import TensorRows, acceptable, fetched, kind_of, on_host, open_tensor, stays
from nacp.points.wrong import SUM_TOLERANCE, check_logits, explain, first_nan, sixteen_bits, tolerance_of


def open_points(
    probs: Any,
    labels: Any,
    *,
    probabilities: bool = True,
    normalize: bool = False,
    from_logits: bool = False,
    k: int | None = None,
    classes: Any = None,
    names: tuple[str, str] = ("probs", "labels"),
    later: bool = False,
) -> tuple[Rows, Ints, tuple[Any, ...] | None]:
    """Check rows, their labels and the class names; return rows to read from, numbers, and the names."""
    classes = column_names(probs, classes)
    rows = open_rows(
        probs, probabilities=probabilities, normalize=normalize, from_logits=from_logits, k=k,
        classes=classes, name=names[0], later=later,
    )  # fmt: skip
    known = check_classes(classes, rows.k)
    return rows, check_labels(labels, rows.n, rows.k, known, name=names[1]), known


def open_rows(
    probs: Any,
    *,
    probabilities: bool = True,
    normalize: bool = False,
    from_logits: bool = False,
    k: int | None = None,
    classes: Any = None,
    name: str = "probs",
    widths: Widths | None = None,
    least: int = 1,
    start: int = 0,
    later: bool = False,
) -> Rows:
    """Check a matrix of probabilities (or of scores) and return it as rows to read from.

    A table whose columns are named by the classes is put in their order. Of logits the rows that are read are
    the softmax, in float64. Where a threshold was found with numbers of certain widths, narrower ones are
    refused, and wider ones rounded. Rows are numbered from `start`. With `later` the rows themselves are
    checked when they are first read: for who reads all of them before anything is concluded.
    """
    what = "" if probabilities else "(scores, given in place of probabilities) "
    if normalize and not probabilities:
        raise InputError("normalize", "divides probabilities by their sum, and scores are not probabilities")
    if from_logits and (normalize or not probabilities):
        raise InputError(
            "from_logits",
            "makes probabilities that sum to 1, so normalize has no effect"
            if normalize
            else "makes probabilities, and this score does not take them",
        )
    top = open_top(probs, probabilities, normalize or from_logits, k, name, widths)
    if top is not None and top.n < least:
        raise InputError(name, f"is empty: its shape is {(top.n, top.k)}")
    if top is not None:
        return top
    if getattr(probs, "is_sparse", False) or getattr(probs, "is_sparse_csr", False):
        raise InputError(name, f"{what}is a sparse tensor", remedy="pass probs.to_dense()")
    ordered = _in_order(probs, classes, k, name)
    try:
        matrix: Any = ordered if stays(ordered) or isinstance(ordered, Parts) else plain_array(ordered)
    except ValueError:
        raise InputError(
            name, f"{what}must have the shape (n, k)", found="rows of different lengths"
        ) from None
    matrix, kind = open_tensor(matrix, name), kind_of(matrix)
    if matrix.ndim != 2:
        found = f"a {type(probs).__name__}" if hasattr(probs, "__next__") else f"{tuple(matrix.shape)}"
        found = "None" if probs is None else found
        raise InputError(name, f"{what}must have the shape (n, k)", found=found)
    if kind.kind not in "fiub":
        raise InputError(name, f"{what}must be an array of numbers", found=_what_else(probs, matrix))
    if len(matrix) < least or matrix.shape[1] == 0:
        raise InputError(name, f"{what}is empty: its shape is {tuple(matrix.shape)}")
    if matrix.shape[1] < 2:
        raise InputError(
            name,
            f"{what}has one column; it needs one per class, so at least two",
            remedy="for a binary classifier pass np.column_stack([1 - p, p])",
            spoken="for a binary classifier give two columns, 1 - p and p",
        )
    if k is not None and matrix.shape[1] != k:
        raise InputError(
            name, f"{what}has {matrix.shape[1]:,} columns, but the calibration was made with {k:,} classes"
        )
    if widths is not None and kind.kind == "f" and kind.itemsize < np.dtype(widths.least).itemsize:
        raise InputError(
            name,
            f"{what}is {kind}, but the calibration was made with {widths.given}: rounding may move "
            "labels across the threshold",
            remedy=f"calibrate with {kind} too, or pass {widths.given} that was never rounded",
            spoken=f"calibrate with a file of {kind}, too",
        )

    def check_block(block: Any, first: int) -> None:
        if is_tensor(block):
            tolerances = SUM_TOLERANCE, *sixteen_bits(block.shape[1])
            if acceptable(block, tolerances, (probabilities, normalize, from_logits)):
                return
            block = fetched(block)
        if from_logits:
            check_logits(block, start + first, name)
        elif probabilities and not check(block, SUM_TOLERANCE):
            tolerance = tolerance_of(block)
            if not check(block, tolerance):
                explain(block, start + first, tolerance, normalize, name)
        elif not probabilities and np.isnan(block).any():
            raise InputError(name, f"{what}holds NaN, first in row {start + first + first_nan(block)}")

    width = None if widths is None or kind.kind != "f" else widths.given
    if is_tensor(matrix):
        rows = TensorRows(matrix)
        for where in rows.slices():
            check_block(rows[where], where.start)
        return TensorRows(matrix, normalize, width, from_logits)
    opened = Rows(
        matrix, normalize, width, from_logits, check_block, SUM_TOLERANCE if probabilities else None
    )
    if not later:
        opened.check()
    return opened


def plain_array(values: Any) -> Array:
    """Return an array; one of objects, as pandas makes of what may be missing, as numbers if they are.

    A tensor need not be detached, and one of bfloat16, which NumPy has not, becomes float32.
    """
    if is_tensor(values):
        values = fetched(values)
    if np.ma.is_masked(values):
        values = np.where(values.mask, None, values.data)  # what is behind a mask does not count
    array = np.asarray(values)
    if array.dtype.kind != "O":
        return array
    flat = [math.nan if is_missing(value) else value for value in array.ravel().tolist()]
    if all(isinstance(value, numbers.Real) for value in flat):
        return np.array(flat).reshape(array.shape)
    return array


def is_missing(value: Any) -> bool:
    """Return whether it is None, NaN or what pandas has instead."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def column_names(probs: Any, classes: Any) -> Any:
    """Return the classes; if none are given, the names of the columns of a table that has some.

    Examples
    --------
    >>> import pandas as pd
    >>> from nacp.points import column_names
    >>> column_names(pd.DataFrame([[0.5, 0.5]], columns=["cat", "dog"]), None)
    ('cat', 'dog')
    """
    if classes is not None or not _is_table(probs):
        return classes
    names = tuple(probs.columns)
    return None if names == tuple(range(len(names))) or len(set(names)) < len(names) else names


def _in_order(probs: Any, classes: Any, k: int | None, name: str) -> Any:
    """Return a table with its columns in the order of the classes, found by name.

    Columns that are called 0, 1, ... are the classes of these numbers if classes have none, and else say
    nothing, as those that polars calls column_0, column_1, ... do.
    """
    if not _is_table(probs):
        return probs
    names, places = [str(each) for each in probs.columns], [str(i) for i in range(len(probs.columns))]
    wanted = [str(each) for each in classes] if hasattr(classes, "__len__") else places if k else names
    if names == wanted or len(names) != len(wanted):
        return probs
    missing = next((each for each in wanted if each not in names), None)
    if missing is not None:
        if wanted == places or names in (places, [f"column_{i}" for i in places]):
            return probs
        told = ", ".join(names[:10]) + (f" and {len(names) - 10:,} more" if len(names) > 10 else "")
        raise InputError(
            name,
            f"has no column {missing!r}; its columns are {told}",
            remedy="call its columns as the classes are called, or pass an array in their order",
        )
    order = [names.index(each) for each in wanted]
    if isinstance(probs, Parts):
        return probs[:, order]
    return probs.iloc[:, order] if hasattr(probs, "iloc") else np.asarray(probs)[:, order]


def _is_table(probs: Any) -> bool:
    return hasattr(probs, "shape") and hasattr(probs, "columns")


def _what_else(probs: Any, matrix: Any) -> str:
    """Return what is there in place of numbers; of a table, in which column."""
    if _is_table(probs):
        for called, column in zip(probs.columns, matrix.T, strict=False):
            odd = next((each for each in column.tolist() if not isinstance(each, numbers.Real)), None)
            if odd is not None:
                return f"{odd!r} in the column {called!r}"
    return f"dtype {matrix.dtype}"


def check_labels(
    labels: Any, n: int, k: int, classes: Sequence[Any] | None = None, *, name: str = "labels"
) -> Ints:
    """Check labels (numbers from 0 to k - 1, or names from `classes`) and return them as numbers.

    Beside names that are no numbers, nor written as such, numbers are those of the columns.
    """
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
            classes = None
    if classes is not None:
        index = {each: i for i, each in enumerate(classes)}
        try:
            return np.array([index[each] for each in array.tolist()], dtype=np.int64)
        except KeyError as error:
            odd = error.args[0]
        if is_missing(odd):
            raise no_label(name, [is_missing(each) for each in array.tolist()])
        raise InputError(name, f"holds {odd!r}, which is not in classes")
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


def no_label(name: str, missing: Any) -> InputError:
    """Return what to say where labels are missing: which rows that are, and how to leave them out."""
    first, *more = np.flatnonzero(missing).tolist()
    others = "" if not more else f" and in {len(more):,} {'other' if len(more) == 1 else 'others'}"
    return InputError(
        name,
        f"has no label in row {first}{others}",
        remedy="drop such rows first, as in probs[keep], labels[keep]",
        spoken="drop such rows first; nacp calibrate, compare, diagnose and report do with --drop-unlabelled",
    )


def check_classes(classes: Any, k: int) -> tuple[Any, ...] | None:
    """Check the class names: k of them, all different."""
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
