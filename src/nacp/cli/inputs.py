"""The points that commands are given: probabilities, labels and class names, from files."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacp._types import Array
from nacp.cli.classes import read_class_list, read_classes
from nacp.cli.formats.arrays import read_array
from nacp.cli.formats.common import (
    ARRAYS,
    ID,
    LINES,
    NAMED,
    PARQUET,
    PROBS,
    STDIN,
    TEXTS,
    Table,
    are_whole,
    few,
    kind,
    pick,
    pick_labels,
    split_key,
)
from nacp.cli.formats.jsonl import jsonl_matrix
from nacp.cli.formats.parquet import parquet_matrix
from nacp.cli.formats.text import csv_matrix, csv_rows
from nacp.cli.ids import refuse_other_order
from nacp.cli.labels import present, read_labels
from nacp.cli.terminal import complain
from nacp.errors import InputError
from nacp.labels import LabelTable
from nacp.labels.label_matrix import from_cells
from nacp.wrapping import counted

_MANY = 20  # rows: with so many, a label for each of them is no label
_READERS = {PARQUET: parquet_matrix, LINES: jsonl_matrix}


def read_matrix(
    name: str,
    usual: str = "probs",
    classes: Sequence[Any] | None = None,
    beside: Sequence[str | None] = (),
    *,
    titled: bool = False,
) -> tuple[Array, list[str] | None]:
    """Read a matrix and the names of its columns, if it has any.

    ``.npy`` is memory-mapped. Of several arrays in ``.npz`` or ``.safetensors``, ``file.npz:key`` names one;
    else it is `usual`. In tables (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, and CSV on standard input,
    ``-``) the columns are the classes. If these are known, they are found by name. Else all columns are taken
    but a first one whose header is id, item, index, row or empty, and those `beside` them in the same file:
    of the labels, and of true labels. A ``.parquet`` or ``.jsonl`` file may also hold one column of lists.
    `titled`: the first of the classes may be a title above them.
    """
    return _read_table(name, usual, classes, beside, titled=titled)[:2]


def _read_table(
    name: str,
    usual: str = "probs",
    classes: Sequence[Any] | None = None,
    beside: Sequence[str | None] = (),
    ids: str | None = None,
    with_ids: bool = False,
    titled: bool = False,
) -> Table:
    """Read a matrix as `read_matrix` does, and what names its rows: the column `ids`, or one called id.

    Where the classes are known, that one may stand anywhere; columns that are neither are then told of.
    """
    path, key = split_key(name)
    if kind(path) in ARRAYS:
        if ids is not None:
            raise InputError("id", f"names a column, and {path} has none", remedy="leave it out")
        return Table(read_array(path, key, usual))
    sources = [split_key(each or "") for each in beside]
    same = any(source == path for source, _ in sources)

    def id_place(header: list[str]) -> int | None:
        if ids is not None:
            return header.index(pick(path, header, ids, ids))
        if not with_ids or len(header) == 1:
            return None
        known = set(map(str, classes or ()))
        if header[0].lower() in ID - known:
            return 0
        held = known.intersection(header) or {key, *PROBS}.intersection(header)
        others = [each for each in header if held and each not in held]
        named = next((each for each in others if each.lower() in NAMED), None)
        if others and named is None:
            complain(f"Left out, as no class: {few(others)}. To name the rows by one: --id {others[0]}")
        return None if named is None else header.index(named)

    def places(header: list[str]) -> list[int]:
        wanted = [str(each) for each in classes or ()]
        if titled and wanted and wanted[0] not in header:
            del wanted[0]
        if not set(header).isdisjoint(wanted):
            _refuse_missing(name, header, wanted)
            return [header.index(each) for each in wanted]
        found = list(range(len(header)))
        if ids is not None:
            found.remove(header.index(pick(path, header, ids, ids)))
        for i, (source, column) in enumerate(sources):
            if source == path and len(header) > 1:
                place = pick_labels(path, header, column, true=i > 0)
                found = [each for each in found if each != place]
        if len(found) > 1 and header[found[0]].lower() in ID:
            del found[0]
        return found

    table = _READERS.get(kind(path), csv_matrix)(path, key, places, id_place)
    if same and table.header is None and kind(path) in TEXTS:
        raise InputError(
            str(path),
            "has no header, so its labels cannot be told from its probabilities: add a first line of names, "
            "or give the labels in a file of their own",
        )
    if ids is not None and table.ids is None:
        raise InputError("id", f"names a column, and those of {path} have no names", remedy="leave it out")
    header = table.header
    return table._replace(header=None if header is None or header == _places(len(header)) else header)


def read_points(
    probs: str,
    labels: str,
    classes: Sequence[Any] | None = None,
    names: str | None = None,
    k: int | None = None,
    clean: str | None = None,
    *,
    groups: str | None = None,
    drop: bool = False,
) -> tuple[Array, Array, Sequence[Any] | None]:
    """Read probabilities with their labels, and the classes.

    The classes are those given, or those in the file `names`, or the names of the columns. Where both are
    there, named columns are put in the order of the classes. Both may be in one table: the column called
    label, or the one that ``file.csv:column`` names, then holds the labels. `k` is for classes that are known
    by number alone, as in `read_rows`. `clean` are true labels, and `groups` groups, that may be in the same
    table, too. `drop`: rows without a label are left out, which is told. Where files name their rows, they
    must agree.
    """
    if probs == labels == STDIN:
        raise InputError("standard input", "can be read once only: give a file for probs or for labels")
    try:
        matrix, known = read_rows(probs, classes, names, (labels, clean, groups), k)
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
    if drop and (clean or groups) is not None:
        beside = "checked labels" if groups is None else "groups"
        raise InputError("drop_unlabelled", f"is of no use with {beside}", remedy="drop such rows first")
    read = read_labels(labels, len(matrix), known, gaps=drop)
    refuse_other_order(probs, labels, clean, groups)
    if drop and len(read) == len(matrix):
        there, read = present(read, known)
        if not there.all():
            complain(f"Left out: {len(there) - len(read):,} of {counted(len(there), 'row')} without a label.")
            matrix = matrix[there]
    if read.ndim == 2 and len(read) != len(matrix):
        raise InputError(
            labels,
            f"holds labels of {len(read):,} items, but {probs} has {len(matrix):,} rows",
            remedy="nacp noise annotators --labels FILE --items FILE writes them in the order of the rows",
        )
    if read.ndim == 1 and len(read) != len(matrix):
        headed = len(read) == len(matrix) + 1 and kind(labels) in TEXTS
        raise InputError(
            labels,
            f"holds {len(read):,} labels, but {probs} has {len(matrix):,} rows",
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
            f"{held} the columns of {probs} have none: pass --classes FILE with the {matrix.shape[1]:,} "
            "names in the order of the columns",
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
    beside: Sequence[str | None] = (),
    k: int | None = None,
) -> tuple[Array, Sequence[Any] | None]:
    """Read probabilities and the classes, as `read_points` does.

    With `k` and without `classes` these are known by number alone: a header of such numbers says where each
    is, and names say nothing.
    """
    wanted = read_class_list(names) if classes is None and names is not None else classes
    titled = wanted is not classes and kind(str(names)) in TEXTS
    read = read_matrix(probs, classes=wanted, beside=beside, titled=titled)
    return _in_order(probs, *read, classes, names, k)


def read_new(
    probs: str, classes: Sequence[Any] | None, k: int, ids: str | None, groups: str | None = None
) -> tuple[Array, list[str] | None]:
    """Read probabilities, and what names their rows: the column `ids`, or a first one called id, if any.

    Groups of rows may be in the same table.
    """
    matrix, header, named = _read_table(probs, classes=classes, beside=(groups,), ids=ids, with_ids=True)
    refuse_other_order(probs, groups)
    return _in_order(probs, matrix, header, classes, None, k)[0], named


def _in_order(
    probs: str,
    matrix: Array,
    header: list[str] | None,
    classes: Sequence[Any] | None,
    names: str | None,
    k: int | None,
) -> tuple[Array, Sequence[Any] | None]:
    """Return the columns in the order of the classes, and these."""
    if matrix.ndim == 2 and matrix.shape[1] > 2 and kind(split_key(probs)[0]) not in ARRAYS:
        _refuse_row_numbers(probs, matrix)
    if classes is None and k is not None:
        if header is not None and are_whole(header) and sorted(header) != sorted(_places(k)):
            raise InputError(
                probs,
                f"begins with {few(header)}: these are no probabilities, and not the numbers of the {k:,} "
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


def read_annotations(name: str, classes: Sequence[str] | None = None) -> Array | LabelTable:
    """Read labels by several annotators: a row per item, a column per annotator."""
    path, key = split_key(name)
    if kind(path) in (*ARRAYS, PARQUET):
        return read_matrix(name, "labels")[0]
    if key is not None:
        raise InputError(str(path), "is read whole, a column per annotator", remedy=f"give it without :{key}")
    try:
        return from_cells([row for _, row in csv_rows(path)], classes)
    except InputError as error:
        raise error.about(str(path)) if error.argument == "labels" else error from None


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
