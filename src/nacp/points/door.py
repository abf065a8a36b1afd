"""Rows are opened here: checked once, so that nothing behind it checks them again."""

import numbers
from typing import Any

import numpy as np

from nacp._types import Ints
from nacp.engine import is_tensor
from nacp.errors import InputError
from nacp.points.arrays import Rows, Widths
from nacp.points.labels import check_classes, check_labels, plain_array
from nacp.points.tensors import TensorRows, kind_of, open_tensor
from nacp.points.top import TopRows, open_sparse, open_top
from nacp.points.wrong import check_rows


def open_points(
    probs: Any,
    labels: Any,
    *,
    classes: Any = None,
    names: tuple[str, str] = ("probs", "labels"),
    **options: Any,
) -> tuple[Rows, Ints, tuple[Any, ...] | None]:
    """Check rows, their labels and the class names; return the rows, the labels as numbers, and the names.

    `options` are those of `open_rows`.
    """
    classes = column_names(probs, classes)
    rows = open_rows(probs, classes=classes, name=names[0], **options)
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
) -> Rows:
    """Check all rows of a matrix of probabilities (or of scores), and return them in blocks.

    A table whose columns are named by the classes is put in their order. Of logits the rows are the softmax,
    in float64. Where a threshold was found with numbers of certain widths, narrower ones are refused, and
    wider ones rounded. Messages number the rows from `start`.
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
    top, sparse = isinstance(probs, TopRows), hasattr(probs, "tocsr")
    if top and (normalize or from_logits or not probabilities):
        problem = (
            "must be whole rows where they are normalised or are logits"
            if probabilities
            else "must hold all scores"
        )
        raise InputError(name, problem, found=repr(probs), remedy="pass probs.toarray()")
    if getattr(probs, "is_sparse", False) or getattr(probs, "is_sparse_csr", False):
        raise InputError(name, f"{what}is a sparse tensor", remedy="pass probs.to_dense()")
    matrix: Any = _in_order(probs, classes, k, name)
    if top or sparse:
        matrix = open_top(probs) if top else open_sparse(probs)
    elif is_tensor(matrix):
        matrix = open_tensor(matrix, name)
    else:
        try:
            matrix = plain_array(matrix)
        except ValueError:
            raise InputError(
                name, f"{what}must have the shape (n, k)", found="rows of different lengths"
            ) from None
    kind = kind_of(matrix) if is_tensor(matrix) else matrix.dtype
    if matrix.ndim != 2:
        found = f"a {type(probs).__name__}" if hasattr(probs, "__next__") else f"{tuple(matrix.shape)}"
        found = "None" if probs is None else found
        raise InputError(name, f"{what}must have the shape (n, k)", found=found)
    if kind.kind not in "fiub":
        raise InputError(name, f"{what}must be an array of numbers", found=_what_else(probs, matrix))
    if matrix.shape[0] < least or matrix.shape[1] == 0:
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
    opened = TensorRows if is_tensor(matrix) else Rows
    if not top:  # their constructor has checked them
        try:
            check_rows(opened(matrix), probabilities, normalize, from_logits, start, name)
        except InputError as error:
            if not sparse:
                raise
            raise InputError(
                name,
                f"is a sparse matrix, whose other entries are 0, and {error.problem}",
                found=error.found,
                remedy="pass probs.toarray(), or nacp.TopRows if only the top entries of rows are known",
            ) from None
    width = None if widths is None or kind.kind != "f" else widths.given
    return opened(matrix, normalize, width, from_logits)


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

    Columns that are called 0, 1, ... are the classes of these numbers if classes have no names. Otherwise
    such names say nothing, and neither do those of polars: column_0, column_1, ...
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
    return probs.iloc[:, order] if hasattr(probs, "iloc") else np.asarray(probs)[:, order]


def _is_table(probs: Any) -> bool:
    return hasattr(probs, "shape") and hasattr(probs, "columns")


def _what_else(probs: Any, matrix: Any) -> str:
    """Return what a matrix holds in place of numbers; in a table, in which column."""
    if _is_table(probs):
        for called, column in zip(probs.columns, matrix.T, strict=False):
            odd = next((each for each in column.tolist() if not isinstance(each, numbers.Real)), None)
            if odd is not None:
                return f"{odd!r} in the column {called!r}"
    return f"dtype {matrix.dtype}"
