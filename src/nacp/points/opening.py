"""Checking rows of probabilities. They are checked here only, so other modules can rely on them."""

import numbers
from typing import Any

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.engine import is_tensor, of
from nacp.errors import InputError
from nacp.points.alignment import check_aligned
from nacp.points.arrays import Rows, Source, Widths, kind_of
from nacp.points.labels import NO_CHANCE, check_classes, check_labels, plain_array, refuse_tables
from nacp.points.tensors import TensorRows, extremes, open_tensor
from nacp.points.top import TopRows

# The tolerances for the sum of a row, by the precision of its numbers. A softmax in bfloat16 rounds the sum
# and the quotients, each with a relative error of at most 2^-8. In float16, small numbers have an absolute
# error of at most 2^-25 each.
SUM_TOLERANCE, _BFLOAT16_TOLERANCE, _FLOAT16_TOLERANCE, _SMALL = 1e-3, 2.0**-7, 1e-2, 2.0**-25
_CLOSE = 1e-6  # Within this distance of a bound the engine decides, as its sums are rounded differently.
_LOGITS_SHARE_MIN = 0.9  # If more rows than this are invalid, the matrix may hold logits.


def open_points(
    probs: Any,
    labels: Any,
    *,
    classes: Any = None,
    names: tuple[str, str] = ("probs", "labels"),
    **options: Any,
) -> tuple[Rows, Ints, tuple[Any, ...] | None]:
    """Check rows, labels and class names; return the rows, the labels as numbers, and the names.

    `options` are those of `open_rows`.
    """
    classes = column_names(probs, classes)
    check_aligned(labels, probs, *names)
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
    """Check all rows of a matrix of probabilities (or of scores) and return them as `Rows`.

    The columns of a table are reordered if their names are the class names in another order. Logits are
    replaced by their softmax in float64. `widths` are those of the calibration set: narrower numbers are
    refused, and wider ones are rounded. Messages count the rows from `start`.
    """
    refuse_tables(probs, name)
    what = "" if probabilities else "(scores, given in place of probabilities) "
    if normalize and not probabilities:
        raise InputError("normalize", "divides probabilities by their sum, but scores are not probabilities")
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
            "must be whole rows if they are normalised or are logits"
            if probabilities
            else "must hold all scores"
        )
        raise InputError(name, problem, found=repr(probs), remedy="pass probs.toarray()")
    if is_tensor(probs) and str(probs.layout) != "torch.strided":
        raise InputError(name, f"{what}is a sparse tensor", remedy="pass probs.to_dense()")
    matrix: Any = _in_order(probs, classes, k, name) if hasattr(probs, "columns") else probs
    if top:
        matrix = Source(probs.shape, probs.values.dtype, probs.toarray)
    elif sparse and probs.ndim == 2:
        found_rows = probs.tocsr()
        matrix = Source(probs.shape, probs.dtype, lambda where: found_rows[where].toarray())
    elif sparse:
        matrix = probs
    elif is_tensor(matrix):
        matrix = open_tensor(matrix, name)
    else:
        try:
            matrix = plain_array(matrix)
        except ValueError:
            raise InputError(
                name, f"{what}must have the shape (n, k)", found="rows of different lengths"
            ) from None
    kind = kind_of(matrix)
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
    if not top:  # The constructor of `TopRows` has checked them.
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
    """Return the classes; if they are None, the column names of a table.

    Examples
    --------
    >>> import pandas as pd
    >>> from nacp.points import column_names
    >>> column_names(pd.DataFrame([[0.5, 0.5]], columns=["cat", "dog"]), None)
    ('cat', 'dog')
    """
    refuse_tables(probs, "probs")
    if classes is not None or not hasattr(probs, "columns"):
        return classes
    names = tuple(probs.columns)
    return None if names == tuple(range(len(names))) or len(set(names)) < len(names) else names


def _in_order(probs: Any, classes: Any, k: int | None, name: str) -> Any:
    """Return a table with its columns in the order of the classes.

    If classes have no names, columns named 0, 1, ... are the classes with these numbers. Otherwise such names
    are ignored, like the default names of polars: column_0, column_1, ...
    """
    names, places = [str(each) for each in probs.columns], [str(i) for i in range(len(probs.columns))]
    wanted = [str(each) for each in classes] if hasattr(classes, "__len__") else places if k else names
    if names == wanted or len(names) != len(wanted):
        return probs
    missing = next((each for each in wanted if each not in names), None)
    if missing is not None:
        if wanted == places or names in (places, [f"column_{i}" for i in places]):
            return probs
        listed = ", ".join(names[:10]) + (f" and {len(names) - 10:,} more" if len(names) > 10 else "")
        raise InputError(
            name,
            f"has no column {missing!r}; its columns are {listed}",
            remedy="name its columns after the classes, or pass an array with columns in their order",
        )
    order = [names.index(each) for each in wanted]
    return probs.iloc[:, order] if hasattr(probs, "iloc") else np.asarray(probs)[:, order]


def _what_else(probs: Any, matrix: Any) -> str:
    """Return what a matrix contains in place of numbers; for a table, also the column."""
    if hasattr(probs, "columns"):
        for called, column in zip(probs.columns, matrix.T, strict=False):
            odd = next((each for each in column.tolist() if not isinstance(each, numbers.Real)), None)
            if odd is not None:
                return f"{odd!r} in the column {called!r}"
    return f"dtype {matrix.dtype}"


def check_rows(
    rows: Rows, probabilities: bool, normalize: bool, from_logits: bool, start: int, name: str
) -> None:
    """Raise an error for rows that are not probabilities, logits or scores; messages count from `start`."""

    def judged(block: Any, where: slice) -> tuple[slice, bool]:
        """Return whether all rows of a block are good."""
        if probabilities and not normalize and not from_logits:
            return where, of(block).check(block, SUM_TOLERANCE)
        low, high = extremes(block)
        if from_logits:
            return where, bool(np.isfinite(high).all())
        if not probabilities:
            return where, not np.isnan(high).any()
        return where, bool(((low >= 0) & (high > 0) & (high < np.inf)).all())

    for where, good in rows.map(judged):
        # The message about a row depends on its neighbours, which must not depend on the number of threads.
        for some in () if good else rows.slices():
            if some.stop <= where.start or some.start >= where.stop:
                continue
            block, first = rows.whole(some), some.start
            if from_logits:
                _explain_logits(block, start + first, name)
            elif probabilities:
                _explain(block, start + first, normalize, name)
            else:
                what = "(scores, given in place of probabilities) holds NaN"
                _refuse_any(np.isnan(block), start + first, name, what, remedy=None)
    if from_logits and rows.n >= NO_CHANCE and all(_are_probable(rows.whole(each)) for each in rows.slices()):
        raise InputError(
            name,
            "must hold logits",
            found="probabilities: no value is negative, and rows sum to 1",
            remedy="pass logits, or calibrate without from_logits",
            spoken="give logits, or calibrate without --from-logits",
        )


def _refuse_any(
    bad: Bools, start: int, name: str, what: str, remedy: str | None = "drop or repair such rows first"
) -> None:
    """Raise an error for bad entries that names the first row with one."""
    if bad.any():
        raise InputError(name, f"{what}, first in row {start + int(bad.any(axis=1).argmax())}", remedy=remedy)


def _explain_logits(block: Array, start: int, name: str) -> None:
    """Raise an error for logits whose softmax is undefined."""
    highest = block.max(axis=1, keepdims=True)
    odd = highest[~np.isfinite(highest)]
    if odd.size:
        what = "NaN" if np.isnan(odd[0]) else "infinity" if odd[0] > 0 else "no finite logit"
        _refuse_any(~np.isfinite(highest), start, name, f"holds {what}")


def _are_probable(block: Array) -> bool:
    """Return whether all rows are probabilities."""
    return bool(block.min() >= 0) and (of(block).check(block, SUM_TOLERANCE) or not _faults(block)[0].any())


def _tolerances(block: Array) -> Floats:
    """Return the tolerance for the sum of each row; it is larger if numbers were rounded to 16 bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        half = (block.astype(np.float16) == block).all(axis=1)
        single = block.astype(np.float32, copy=False)
        rounded = ((single == block) & (single.view(np.uint32) & 0xFFFF == 0)).all(axis=1)
    found = np.where(rounded, _BFLOAT16_TOLERANCE, SUM_TOLERANCE)
    return np.where(half, _FLOAT16_TOLERANCE + _SMALL * block.shape[1], found)


def _faults(block: Array) -> tuple[Bools, Bools, Floats]:
    """Return the invalid rows, those of them with an entry outside of [0, 1], and the sums of all rows."""
    low, high, tolerances = block.min(axis=1), block.max(axis=1), np.full(len(block), SUM_TOLERANCE)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = block.sum(axis=1, dtype=np.float64)
        misses = np.abs(sums - 1)
        loose = misses > SUM_TOLERANCE - _CLOSE
        tolerances[loose] = _tolerances(block[loose])
        bad = (misses > tolerances) | (low < 0) | (high > 1)
        close = (np.abs(misses - tolerances) <= _CLOSE) | ((high > 1) & (high <= 1 + _CLOSE))
    for i in np.flatnonzero(close & (low >= 0)):
        bad[i] = not of(block).check(block[i : i + 1], float(tolerances[i]))
    return bad, bad & ((low < 0) | (high > 1)), sums


def _explain(block: Array, start: int, normalize: bool, name: str) -> None:
    """Raise the error that explains why rows are not probabilities, or cannot be normalised."""
    _refuse_any(np.isnan(block), start, name, "holds NaN")
    _refuse_any(np.isposinf(block), start, name, "holds infinity")
    low, high = block.min(), block.max()
    if normalize and low >= 0:
        empty = block.max(axis=1) == 0
        if empty.any():
            raise InputError(name, f"has no mass in row {start + int(empty.argmax())}: it is all zeros")
        return
    bad, beyond, sums = _faults(block)
    if not bad.any():
        return
    row, values = int(bad.argmax()), f"values from {low:.4g} to {high:.4g}"
    if high <= 0 and np.allclose(np.exp(block.astype(np.float64)).sum(axis=1), 1, atol=1e-3):
        raise InputError(
            name,
            f"looks like log-probabilities ({values})",
            remedy="calibrate with from_logits=True, or pass np.exp(probs)",
            spoken="give --from-logits to nacp calibrate",
        )
    if low >= 0 and np.allclose(sums, 100, rtol=0.01):
        raise InputError(
            name,
            f"looks like percentages (row {start + row} sums to {sums[row]:.6g})",
            remedy="pass probs / 100, or normalize=True to divide by the row sums",
            spoken="nacp calibrate --normalize divides by the row sums",
        )
    if low < -SUM_TOLERANCE and bad.mean() > _LOGITS_SHARE_MIN:
        raise InputError(
            name,
            f"looks like logits ({values}, row {start + row} sums to {sums[row]:.4g})",
            remedy="calibrate with from_logits=True if they are, or pass their softmax",
            spoken="give --from-logits to nacp calibrate if they are",
        )
    if low < 0 or not np.any(bad & ((np.abs(sums - 1) > SUM_TOLERANCE) | ~beyond)):
        row = int(beyond.argmax())
        slight = low >= -SUM_TOLERANCE and high <= 1 + SUM_TOLERANCE
        raise InputError(
            name,
            "must lie between 0 and 1",
            found=f"values from {block[row].min():.8g} to {block[row].max():.8g} in row {start + row}",
            remedy="pass np.clip(probs, 0, 1) if that is a rounding error"
            if slight
            else "drop or repair such rows first",
            spoken="clip it to [0, 1] if that is a rounding error" if slight else None,
        )
    logits = int(high > 1)
    raise InputError(
        name,
        f"must have rows that sum to 1; row {start + row} sums to {sums[row]:.6g}",
        remedy="pass normalize=True to divide by the row sums" + ", from_logits=True for logits" * logits,
        spoken="nacp calibrate --normalize divides by the row sums"
        + ", --from-logits is for logits" * logits,
    )
