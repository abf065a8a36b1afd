"""The points that commands are given: probabilities, labels and class names, from files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nacp._types import Array
from nacp.cli.tables import (
    ARRAYS,
    ID,
    STDIN,
    are_numbers,
    are_whole,
    checked,
    csv_column,
    csv_matrix,
    csv_rows,
    few,
    parquet_column,
    parquet_matrix,
    pick,
    read_array,
    split_key,
)
from nacp.errors import InputError
from nacp.points import is_missing

_MANY = 20  # rows: with so many, a label for each of them is no label
_TITLES = {"class", "classes", "name", "names", "label", "labels", "category", "categories"}
_ABSENT = {"", "na", "n/a", "nan", "none", "null"}


def read_matrix(
    name: str, usual: str = "probs", classes: Sequence[Any] | None = None, labels: str = ""
) -> tuple[Array, list[str] | None]:
    """Read a matrix and the names of its columns, if it has any.

    ``.npy`` is memory-mapped. Of several arrays in ``.npz`` or ``.safetensors``, ``file.npz:key`` names one;
    else it is `usual`. In ``.csv``, in ``.parquet`` and on standard input (``-``: CSV) the columns are the
    classes. If these are known, they are found by name. Else all columns are taken but a first one whose
    header is id, index, row or empty, and that of the `labels` if they are in the same file. A ``.parquet``
    file may also hold one column of lists.
    """
    path, key = split_key(name)
    if path.suffix in ARRAYS:
        return read_array(path, key, usual), None
    with_labels, column = split_key(labels)
    leave = (column or "") if with_labels == path else None

    def places(header: list[str]) -> list[int]:
        if classes is not None and not set(header).isdisjoint(map(str, classes)):
            _refuse_missing(name, header, classes)
            return [header.index(str(each)) for each in classes]
        found = list(range(len(header)))
        if leave is not None and len(header) > 1:
            found.remove(header.index(pick(path, header, leave, header[-1])))
        if len(found) > 1 and header[found[0]].lower() in ID:
            del found[0]
        return found

    read = parquet_matrix if path.suffix == ".parquet" else csv_matrix
    matrix, header = read(path, key, places)
    if header is None and leave is not None and read is csv_matrix:
        raise InputError(
            str(path),
            "has no header, so its labels cannot be told from its probabilities: add a first line of names, "
            "or give the labels in a file of their own",
        )
    return matrix, None if header is None or header == _places(len(header)) else header


def read_clean(name: str, rows: int, classes: Sequence[Any] | None = None) -> Array:
    """Read true labels of points some of which were checked: like labels, -1 or empty where one was not."""
    read = read_labels(name, rows, classes, gaps=True)
    if read.shape != (rows,):
        raise InputError(
            name, f"must hold {rows} labels, -1 or empty where none was checked", found=read.shape
        )
    absent = () if classes is not None and "-1" in map(str, classes) else ("-1", "-1.0")
    there = [i for i, each in enumerate(read) if not is_missing(each) and str(each) not in absent]
    cells = [str(read[i]) for i in there]
    values = np.array(cells)
    if are_whole(cells) and (classes is None or not set(cells) <= set(classes)):
        numbers = np.array(cells, dtype=np.float64).astype(np.int64)
        values = numbers if classes is None else _named(numbers, classes)
    found = np.full(rows, None, dtype=object)
    found[there] = values.tolist()
    return found


def read_labels(
    name: str, rows: int | None = None, classes: Sequence[Any] | None = None, *, gaps: bool = False
) -> Array:
    """Read labels, numbers or names: from an array, or from one column of a table.

    Of several arrays it is "labels", of several columns the last, unless ``file.csv:column`` names one. The
    first line of a ``.csv`` file is a header if it cannot be anything else. There should be as many labels as
    `rows`, if that is known.
    """
    path, key = split_key(name)
    if path.suffix in ARRAYS or path.suffix == ".parquet":
        read = parquet_column(path, key) if path.suffix == ".parquet" else read_array(path, key, "labels")
        return read if gaps or classes is None or read.dtype.kind not in "iu" else _named(read, classes)
    values, headed = csv_column(path, key, gaps=gaps)
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
        return np.array([None if _is_absent(cell, classes) else cell for cell in left], dtype=object)
    missing = next((i for i, cell in enumerate(values) if _is_absent(cell, classes)), None)
    if missing is not None:
        raise InputError(str(path), f"has no label in row {missing}", remedy="drop such rows first")
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


def read_points(
    probs: str,
    labels: str,
    classes: Sequence[Any] | None = None,
    names: str | None = None,
    k: int | None = None,
) -> tuple[Array, Array, Sequence[Any] | None]:
    """Read probabilities with their labels, and the classes.

    The classes are those given, or those in the file `names`, or the names of the columns. Where both are
    there, named columns are put in the order of the classes. Both may be in one table: the last column, or
    the one that ``file.csv:column`` names, then holds the labels. `k` is for classes that are known by number
    alone, as in `read_rows`.
    """
    if probs == labels == STDIN:
        raise InputError("standard input", "can be read once only: give a file for probs or for labels")
    try:
        matrix, known = read_rows(probs, classes, names, labels, k)
        if matrix.ndim != 2:
            raise InputError(probs, "must hold a matrix of shape (n, k)", found=matrix.shape)
    except InputError:
        path = split_key(probs)[0]
        if labels != STDIN and path.is_file() and path != split_key(labels)[0] and _looks_like_probs(labels):
            raise InputError(
                "the arguments",
                f"look swapped: {labels} holds a matrix, and {probs} does not",
                remedy="probabilities come first, then labels",
            ) from None
        raise
    read = read_labels(labels, len(matrix), known)
    if read.ndim == 1 and len(read) != len(matrix):
        headed = len(read) == len(matrix) + 1 and labels.endswith(".csv")
        raise InputError(
            labels,
            f"holds {len(read)} labels, but {probs} has {len(matrix)} rows",
            remedy=f"if its first line is a header, give {labels}:HEADER" if headed else None,
        )
    if known is None and read.dtype.kind in "US" and read.size:
        name = next((str(cell) for cell in read.flat if not are_whole([str(cell)])), str(read.flat[0]))
        held = f"holds names such as {name!r}, but"
        if k is not None:
            raise InputError(
                labels, f"{held} the classes are known by number alone: calibrate with --classes FILE"
            )
        raise InputError(
            labels,
            f"{held} the columns of {probs} have none: pass --classes FILE with the {matrix.shape[1]} names "
            "in the order of the columns",
        )
    if known is not None and read.ndim == 1:
        allowed = set(known)
        odd = next((label for label in read.tolist() if label not in allowed), None)
        if odd is not None:
            raise InputError(labels, f"holds {odd!r}, which is none of the classes {few(known)}")
    return matrix, read, known


def read_rows(
    probs: str,
    classes: Sequence[Any] | None = None,
    names: str | None = None,
    labels: str = "",
    k: int | None = None,
) -> tuple[Array, Sequence[Any] | None]:
    """Read probabilities and the classes, as `read_points` does.

    With `k` and without `classes` these are known by number alone: a header of such numbers says where each
    is, and names say nothing.
    """
    matrix, header = read_matrix(probs, classes=classes, labels=labels)
    if matrix.ndim == 2 and matrix.shape[1] > 2 and split_key(probs)[0].suffix not in ARRAYS:
        _refuse_row_numbers(probs, matrix)
    if classes is None and k is not None:
        if header is not None and are_whole(header) and sorted(header) != sorted(_places(k)):
            raise InputError(
                probs,
                f"begins with {few(header)}: these are no probabilities, and not the numbers of the {k} "
                "classes",
            )
        if header is not None and sorted(header) == sorted(_places(k)):
            matrix = matrix[:, [header.index(place) for place in _places(k)]]
        return matrix, None
    if names is not None and matrix.ndim == 2:
        classes = read_classes(names, matrix.shape[1])
    if header is None or classes is None:
        return matrix, classes or header
    _refuse_missing(probs, header, classes)
    order = [header.index(str(name)) for name in classes]
    return matrix if order == list(range(len(order))) else matrix[:, order], classes


def read_test(
    probs: str | None, labels: str | None, classes: Sequence[Any] | None, k: int
) -> tuple[Array | None, Array | None]:
    """Read the points on which sets are to be measured, if there are some, and their labels."""
    if probs is None:
        if labels is not None:
            raise InputError("test_labels", "needs --test-probs, the probabilities of the same points")
        return None, None
    if labels is None:
        return read_rows(probs, classes, k=k)[0], None
    matrix, true, _ = read_points(probs, labels, classes, k=k)
    return matrix, true


def _refuse_row_numbers(name: str, matrix: Array) -> None:
    """Refuse a first column that counts the rows, or has another whole number for each of many."""
    n, first, *others = len(matrix), *matrix.T

    def numbers(column: Array) -> bool:
        return bool(np.all(column == np.rint(column))) and len(np.unique(column)) == n

    if n < 3 or not numbers(first):
        return
    counts = np.array_equal(first, np.arange(n) + first[0])
    if counts or (n >= _MANY and not any(map(numbers, others))):
        raise _numbered(name)


def _numbered(name: str) -> InputError:
    return InputError(
        name, "seems to number its rows in the first column", remedy="call that id, or leave it out"
    )


def _refuse_missing(name: str, header: list[str], classes: Sequence[Any]) -> None:
    """Refuse columns of which none has the name of some class."""
    missing = next((str(each) for each in classes if str(each) not in header), None)
    if missing is not None:
        raise InputError(name, f"has no column {missing!r}; its columns are {few(header)}")


def read_classes(name: str, k: int) -> list[str]:
    """Read the names of k classes."""
    names = read_class_list(name)
    if Path(name).suffix == ".csv" and len(names) == k + 1:
        del names[0]
    if len(names) != k or len(set(names)) != k:
        raise InputError(
            name,
            f"must hold {k} different names, one per column of probs",
            found=f"{len(names)}, {len(set(names))} of them different",
        )
    return names


def read_class_list(name: str) -> list[str]:
    """Read class names: a ``.json`` list, the last column of a ``.csv`` file, or else one per line.

    A first line of ``.csv`` that is called class, name, label or the like is a header.
    """
    path = checked(Path(name))
    if path.suffix == ".csv":
        read, headed = csv_column(path, None)
        if not headed and read[0].lower() in _TITLES:
            del read[0]
    elif path.suffix == ".json":
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(str(path), f"cannot be read as JSON: {error}") from None
        if not isinstance(read, list) or not all(isinstance(each, str) for each in read):
            raise InputError(str(path), 'must hold a list of names, such as ["cat", "dog"]')
    else:
        read = read_lines(name)
    return [each.strip() for each in read]


def read_annotations(name: str, classes: Sequence[str] | None = None) -> Array:
    """Read labels by several annotators: a row per item, a column per annotator.

    A cell is missing if it is empty, or a word for it such as NA that is no class. A first row of ``.csv``
    that holds other than labels is a header, as is what pandas writes: an empty cell and numbers.
    """
    path, key = split_key(name)
    if path.suffix in (*ARRAYS, ".parquet"):
        return read_matrix(name, "labels")[0]
    if key is not None:
        raise InputError(str(path), "is read whole, a column per annotator", remedy=f"give it without :{key}")
    rows = [["" if _is_absent(cell, classes) else cell for cell in row] for _, row in csv_rows(path)]
    known, first = set(classes or ()), rows[0]
    of_pandas = first[0] == "" and _all_differ(first[1:]) and _all_differ([row[0] for row in rows[1:]])
    if of_pandas or any(cell and cell not in known and not are_numbers([cell]) for cell in first):
        start = int(len(first) > 1 and first[0].lower() in ID)
        rows = [row[start:] for row in rows[1:]]
    elif len(first) > 1 and first == _places(len(first)):
        raise InputError(
            str(path),
            f"begins with {','.join(first)}, which may be a header or labels: add a header that names the "
            "annotators, or put one in its place",
        )
    if not rows:
        raise InputError(str(path), "has a header and nothing below it")
    cells = np.array(rows)
    n, labels = len(cells), set(cells[:, 1:].ravel().tolist())
    if _all_differ(cells[:, 0].tolist()) and (
        n > 2 * len(labels)
        or (n >= _MANY and not any(_all_differ(column) for column in cells.T[1:].tolist()))
    ):
        raise _numbered(str(path))
    filled = [cell for cell in cells.ravel().tolist() if cell]
    if not all(are_numbers([cell]) for cell in filled):
        if classes is None:
            odd = next(cell for cell in filled if not are_numbers([cell]))
            raise InputError(str(path), f"holds names such as {odd!r}: pass --classes FILE with all of them")
        return cells
    if set(filled) <= known:
        return cells
    return np.where(cells == "", "-1", cells).astype(np.float64)


def _all_differ(cells: list[str]) -> bool:
    """Return whether no two of several cells are the same."""
    return len(set(cells)) == len(cells) > 1


def _is_absent(cell: str, classes: Sequence[Any] | None) -> bool:
    """Return whether a cell stands for no label at all."""
    return cell.lower() in _ABSENT and cell not in (classes or ())


def read_lines(name: str) -> list[str]:
    """Read the lines of a text file."""
    path = checked(Path(name))
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(str(path), "must be a text file, a line for each entry; it is not text") from None


def _looks_like_probs(name: str) -> bool:
    """Return whether a file holds a matrix with two columns or more, and numbers that are not whole."""
    try:
        matrix, _ = read_matrix(name)
        return matrix.ndim == 2 and matrix.shape[1] > 1 and not np.all(matrix[:100] == np.rint(matrix[:100]))
    except (ValueError, OSError, TypeError):
        return False


def _places(k: int) -> list[str]:
    """Return the header that says no more than the places of the columns do."""
    return [str(i) for i in range(k)]


def _named(labels: Array, classes: Sequence[Any]) -> Array:
    """Return the names of labels that are numbers; a number that has none stays one.

    A number is the place of a class, unless the names are numbers themselves.
    """
    whole = are_whole([str(name) for name in classes])
    names = {int(float(name)): name for name in classes} if whole else dict(enumerate(classes))
    return np.array([names.get(label, label) for label in labels.ravel().tolist()]).reshape(labels.shape)
