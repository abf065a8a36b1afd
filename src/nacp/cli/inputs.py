"""What commands read of points: probabilities, labels, class names, groups and ids, from files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Array, Bools, Ints
from nacp.audit.checked_labels import UNDECIDED
from nacp.cli import formats
from nacp.cli.formats import (
    ARRAYS,
    STDIN,
    TEXTS,
    Table,
    are_whole,
    few,
    kind,
    no_class,
    open_table,
    split_key,
)
from nacp.cli.terminal import complain
from nacp.errors import InputError, meant
from nacp.labels.label_matrix import ABSENT
from nacp.points import is_missing, no_label
from nacp.wrapping import counted

ID = ("id", "ids", "item", "items")
"""Names of a column, or of an array, that names the rows."""
_NUMBERED = ("", "index", "row", "unnamed: 0")  # names of such a first column; pandas writes the first one
LABEL, GROUP, TITLE = ("labels", "label"), ("groups", "group"), ("class", "classes", "name", "names")
TRUE = ("checked", "clean", "true", "truth", "gold")
_SUM_TOLERANCE = 0.01  # of rows of rounded probabilities


class Points(NamedTuple):
    """What the files of points hold, all in the order of the same rows."""

    probs: Array
    labels: Array
    classes: Sequence[Any] | None
    clean: Array | None = None
    groups: Array | Mapping[Any, Any] | None = None
    ids: list[str] | None = None

    @property
    def k(self) -> int:
        """The number of classes."""
        return int(self.probs.shape[1])


def read_points(
    probs: str,
    labels: str | None = None,
    *,
    like: Any = None,
    names: str | None = None,
    clean: str | None = None,
    groups: str | None = None,
    id: str | None = None,
    drop: bool = False,
    true: bool = False,
) -> Points:
    """Read probabilities, and what is known of their rows, from files or columns of them (``file:column``).

    The classes are those of `like`, a calibration or other points, or those in the file `names`; columns are
    put in their order. Files that have the column `id`, by default one called id, ids, item or items, are
    joined by it; others are matched row by row. Rows that have no label are refused, or left out to `drop`
    them. If labels are `true`, their column is one called checked or the like.
    """
    given = [probs, labels, clean, groups]
    if given.count(STDIN) > 1:
        raise InputError("standard input", "can be read once only: give a file for probs or for labels")
    classes, k = (None, None) if like is None else (like.classes, like.k)
    classes = read_class_list(names) if names is not None else classes
    called = TRUE if true else LABEL
    beside = [(labels, called), (clean, TRUE), (groups, GROUP)]
    matrix, classes, ids = _read_matrix(probs, classes, k, id, [each for each in beside if each[0]])
    rows, known = Rows(probs, len(matrix), ids), classes or ()
    keep, read, checked, grouping = np.ones(rows.n, dtype=bool), None, None, None
    if labels is not None:
        column = read_column(labels, called, rows, known, id)
        read, there, keep = rows.aligned(column, known)
        if rows.ids is None and column.ids is not None:
            rows = Rows(column.file, rows.n, column.ids)  # the labels name the rows
        _complain_of_lost([(rows.ids or [])[i] for i in np.flatnonzero(~keep)], rows, column)
        if not there[keep].all():
            if not drop:
                raise no_label(column.file, ~there & keep, rows.ids)
            complain(f"Left out: {(keep & ~there).sum():,} of {counted(rows.n, 'row')} without a label.")
            keep &= there
        if k is not None and classes is None and read.dtype.kind in "US":
            problem = f"holds names, as {str(read.flat[0])!r}, but the classes of the calibration have none"
            raise InputError(labels, problem, remedy="calibrate with --classes FILE")
    if clean is not None:
        checks = read_column(clean, TRUE, rows, known, id)
        if labels is not None:
            refuse_same(column, checks)
        checked = rows.optional(checks, known)[keep]
    if groups is not None:
        found = read_groups(groups, rows, classes, id)
        grouping = found if isinstance(found, Mapping) else found[keep]
    ids = rows.ids
    if id is not None and ids is None:
        raise InputError("id", "must name a column of ids, which no file has", found=id)
    if not keep.all():
        matrix, read = matrix[keep], None if read is None else read[keep]
        ids = None if ids is None else [ids[i] for i in np.flatnonzero(keep)]
    return Points(matrix, np.empty(0) if read is None else read, classes, checked, grouping, ids)


# Probabilities


def _read_matrix(
    name: str,
    classes: Sequence[Any] | None,
    k: int | None,
    id: str | None,
    beside: Sequence[tuple[Any, Sequence[str]]],
) -> tuple[Array, Sequence[Any] | None, list[str] | None]:
    """Read probabilities; return them in the order of the classes, the classes, and the ids of the rows."""
    matrix, header, ids = read_matrix(name, "probs", classes, id, beside)
    if matrix.ndim != 2 or not matrix.shape[1]:
        remedy = "probabilities come first, then labels"
        raise InputError(name, "must hold a matrix of shape (n, k)", found=matrix.shape, remedy=remedy)
    by_number = classes is None and k is not None
    if header is None or (by_number and not are_whole(header)):
        return matrix, classes, ids
    if classes is None and k is None:
        _check_columns(name, header, matrix)
        return matrix, header, ids
    order = _order(name, header, range(k or 0) if classes is None else classes)
    return matrix if order == list(range(len(header))) else matrix[:, order], classes, ids


def _check_columns(name: str, header: list[str], matrix: Array) -> None:
    """Refuse a column without which, and only without which, all rows sum to 1.

    If rows do not sum to 1 for another reason, and are no logits, say which columns are taken as classes.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        totals = matrix.sum(axis=1)
    if not len(totals) or not np.isfinite(totals).all():
        return
    if np.median(np.abs(totals - 1)) < 5 * _SUM_TOLERANCE:
        return
    for i in np.flatnonzero(np.abs(totals[0] - matrix[0] - 1) < _SUM_TOLERANCE).tolist():
        if (np.abs(totals - matrix[:, i] - 1) < _SUM_TOLERANCE).all():
            problem = f"has a column {header[i]!r} that is no class: the other columns sum to 1 without it"
            raise InputError(name, problem, remedy=no_class(header[i]))
    if matrix.min() >= 0:
        taken = f"the columns {few(header, 20)} of {name} are taken as classes, and rows do not sum to 1"
        complain(f"Note: {taken}. If one of them is no class, give --classes FILE.")


def read_matrix(
    name: str,
    usual: str,
    classes: Sequence[Any] | None = None,
    id: str | None = None,
    beside: Sequence[tuple[str, Sequence[str]]] = (),
) -> tuple[Array, list[str] | None, list[str] | None]:
    """Read a matrix, the names of its columns if they have some, and the ids of its rows.

    Of several arrays ``file.npz:key`` names one; the default is `usual`. In tables the columns are the
    classes. If these are known, they are found by name. Else all columns are taken but a first one of ids,
    and those that other inputs (`beside`: files and usual names) take from the same file. A ``.parquet`` or
    ``.jsonl`` file may also hold one column of lists.
    """
    path, key = split_key(name)
    if kind(path) in ARRAYS:
        return formats.read_array(path, key, (usual,)), None, _array_ids(path, key, id)
    table = open_table(path, key)
    header, lists = table.matrix_header, table.lists(key)
    if header is None:
        if kind(path) in TEXTS and any(split_key(each)[0] == path for each, _ in beside):
            problem = "has no header, so its labels cannot be told from its probabilities: add a first line "
            raise InputError(str(path), f"{problem}of names, or give the labels in a file of their own")
        matrix, names = lists or (table.numbers(range(table.width)), None)
        return matrix, names, None
    wanted = [str(each) for each in classes or ()]
    if id is not None:
        formats.pick(path, header, id)
    at = id_at(header, id, wanted, known=bool(wanted) or lists is not None)
    ids = None if at is None else _ids_of(table, at)
    named = not set(header).isdisjoint(wanted)
    columns = _order(str(path), header, wanted) if named else []
    if lists is None and not named:
        keys = [(*split_key(each), called) for each, called in beside]
        taken = {at, *(_label_at(table, key, called) for file, key, called in keys if file == path)}
        columns = [i for i in range(len(header)) if i not in taken]
    elif at is None and not beside:
        known = {key, *formats.PROBS, *(header[i] for i in columns)}
        others = [each for each in header if each not in known]
        if others:
            complain(f"Left out, as no class: {few(others)}. To name the rows by one: --id {others[0]}")
    if lists is not None:
        return *lists, ids
    if not columns:
        raise InputError(str(path), "has no column of probabilities", found=few(header))
    found = [header[i] for i in columns]
    return table.numbers(columns), None if found == _places(len(found)) else found, ids


def _order(name: str, header: list[str], classes: Sequence[Any]) -> list[int]:
    """Return the columns of the classes; refuse a table without one of them."""
    missing = next((str(each) for each in classes if str(each) not in header), None)
    if missing is not None:
        problem = f"has no column {missing!r}{meant(missing, header)}; its columns are {few(header)}"
        raise InputError(name, problem)
    return [header.index(str(each)) for each in classes]


def _places(k: int) -> list[str]:
    """Return the header that gives no more than the places of the columns."""
    return [str(i) for i in range(k)]


# Columns, and joins by ids


class Column(NamedTuple):
    """A column of a file: its values, texts or numbers, and the ids of its rows."""

    file: str
    values: Array
    ids: list[str] | None = None
    first_line: int = 0  # the line of its first value, if the file is a text table
    title: str | None = None


@dataclass(frozen=True)
class Rows:
    """The rows of the points: the file that defines their order, and their ids."""

    file: str
    n: int
    ids: list[str] | None = None

    def aligned(self, column: Column, classes: Sequence[Any]) -> tuple[Array, Bools, Bools]:
        """Return the values of labels for each row, which are there, and which rows the column has."""
        values, there = _labels(column, classes)
        at = self.places(column)
        if at is None:
            return values, there, np.ones(self.n, dtype=bool)
        return values[at], there[at] & (at >= 0), at >= 0

    def optional(self, column: Column, classes: Sequence[Any]) -> Array:
        """Return labels as objects: None for rows that have none, ? where an expert could not decide."""
        values, there, _ = self.aligned(column, classes)
        if values.ndim != 1:
            raise InputError(column.file, "must hold one label for each row", found=values.shape)
        found = np.full(self.n, None, dtype=object)
        found[there] = values[there].tolist()
        return found

    def places(self, column: Column) -> Ints | None:
        """Return the place of each row in a column, -1 if it has none; None if they are matched in order."""
        ours, theirs = self.ids, column.ids
        if self.n and not len(column.values):
            header = "a header but " if column.first_line == 2 else ""
            raise InputError(column.file, f"has {header}no rows")
        if ours is None or theirs is None or ours == theirs or _only_number(ours, theirs):
            if len(column.values) != self.n:
                raise self._other_length(column)
            if (ours is None) != (theirs is None):
                _complain_of_order(*((column, self) if ours is None else (self, column)))
            return None
        place = {each: i for i, each in enumerate(theirs)}
        at = np.array([place.get(each, -1) for each in ours], dtype=np.int64)
        if (at < 0).all():
            own = f"{split_key(self.file)[0]} has {few(ours[:2])}"
            problem = f"has rows called {few(theirs[:2])}, and {own}: none has a partner"
            remedy = "rename the column of ids if these are no ids, or name the right one: --id COLUMN"
            raise InputError(column.file, problem, remedy=remedy)
        for file, ids in ((self.file, ours), (column.file, theirs)):
            if len(set(ids)) < len(ids):
                twice = next(each for i, each in enumerate(ids) if each in ids[:i])
                raise InputError(str(split_key(file)[0]), f"has the id {twice!r} more than once")
        _complain_of_lost(sorted({*theirs}.difference(ours)), column, self)
        return at

    def _other_length(self, column: Column) -> InputError:
        remedy = None
        if len(column.values) == self.n + 1 and column.first_line == 1:
            remedy = f"if its first line is a header, give {column.file}:HEADER"
        elif column.ids is not None or self.ids is not None:
            remedy = "to join them, both need a column of ids: one called id, or --id COLUMN"
        problem = f"holds {len(column.values):,} values, but {self.file} has {self.n:,} rows"
        return InputError(column.file, problem, remedy=remedy)


def _complain_of_order(named: "Rows | Column", bare: "Rows | Column") -> None:
    """Say that rows are matched in order, if only one of two tables has ids."""
    files = [str(split_key(each.file)[0]) for each in (named, bare)]
    counts = isinstance(named.ids, _Numbers) and named.ids.are_places()
    if not counts and kind(files[1]) not in ARRAYS:  # an array seldom has ids
        complain(
            f"Warning: only {files[0]} has a column of ids, so its rows and those of {files[1]} are matched "
            "in order. To join them, both need one of the same name: id, or give --id COLUMN."
        )


def _complain_of_lost(ids: list[str], ours: "Rows | Column", theirs: "Rows | Column") -> None:
    """Say which rows are left out, as the other file does not have them."""
    if ids:
        left = f"{len(ids):,} of {counted(len(ours.ids or ()), 'row')} of {split_key(ours.file)[0]}"
        other = f"{split_key(theirs.file)[0]} does not have, such as {few(ids, 3)}"
        complain(f"Left out: {left} that {other}.")


def read_column(
    name: str,
    called: Sequence[str],
    rows: Rows | None = None,
    classes: Sequence[Any] = (),
    id: str | None = None,
) -> Column:
    """Read an array, or one column of a table as texts.

    It is the one that ``file:column`` names, the only one beside the ids, or the one that is `called` so. The
    first line of a text table of one column is a header if it cannot be anything else.
    """
    path, key = split_key(name)
    if kind(path) in ARRAYS:
        values = formats.read_array(path, key, (*called, *LABEL))
        return Column(name, values, _array_ids(path, key, id), title=key or "labels")
    table = open_table(path, key)
    if table.header is None:
        if key is not None or table.width != 1:
            raise InputError(str(path), "must hold one label on each line, or objects with keys")
        return Column(str(path), np.array(table.cells(0)))
    if table.width > 1 or not isinstance(table, formats.TextTable):
        at = id_at(table.header, id, (), known=True, key=key)
        place = _label_at(table, key, called, at)
        same = rows is not None and split_key(rows.file)[0] == path
        ids = rows.ids if rows is not None and same else None if at is None else _ids_of(table, at)
        return Column(str(path), np.array(table.cells(place)), ids, 2, table.header[place])
    cells, n = [table.header[0], *table.cells(0)], None if rows is None else rows.n
    while len(cells) > (n or 0) + 1 and not cells[-1]:
        cells.pop()
    headed = key is not None or _is_title(cells, called, n, classes)
    if key is not None:
        formats.pick(path, table.header, key)
    cells = cells[headed:]
    if len(cells) > (n or 0) and not cells[-1]:
        cells.pop()
    return Column(str(path), np.array(cells, dtype=str), None, 1 + headed)


def _label_at(table: Table, key: str | None, called: Sequence[str], names_at: int | None = None) -> int:
    """Return which column of a table is meant."""
    there = table.header or []
    if key is not None:
        return formats.pick(table.path, there, key)
    names_at = id_at(there, None, (), known=True) if names_at is None else names_at
    left = [i for i in range(len(there)) if i != names_at]
    if len(left) == 1:
        return left[0]
    for names in (called, LABEL):
        found = [i for i in left if there[i].lower() in names]
        if len(found) == 1:
            return found[0]
        if found:
            break
    first = table.first_cells()
    named = [there[i] for i in left if are_whole([first[i]]) or not formats.are_numbers([first[i]])] or there
    remedy = f"name the one that is meant, as {table.path}:{named[0] or 'NAME'}"
    raise InputError(str(table.path), f"has {len(there):,} columns, among them {few(named)}", remedy=remedy)


def _is_title(cells: list[str], called: Sequence[str], n: int | None, classes: Sequence[Any]) -> bool:
    """Return whether the first cell of a table of one column is a header, as it cannot be a label.

    A number may be a label. A word that is no class is a header if it is called so, if there is a cell too
    many, or if numbers are below it.
    """
    first, rest = cells[0], [cell for cell in cells[1:] if cell]
    if first in classes or first == "" or formats.are_numbers([first]):
        return False
    return first.lower() in {*called, *LABEL, *TITLE} or are_whole(rest) or len(cells) - 1 == n


def id_at(
    header: Sequence[str], id: str | None, classes: Sequence[str], *, known: bool, key: str | None = None
) -> int | None:
    """Return which column names the rows; if the classes are not `known`, only the first one may."""
    if id is not None:
        return list(header).index(id) if id in header else None
    names = [each.lower() for each in header]
    for i, name in enumerate(names if known else names[:1]):
        if (name in ID or (i == 0 and name in _NUMBERED)) and header[i] not in classes and header[i] != key:
            return i if len(header) > 1 else None
    return None


def _array_ids(path: Path, key: str | None, id: str | None) -> list[str] | None:
    """Return the ids in an array that is called so, if there is one."""
    found = [each for each in formats.array_names(path) if each.lower() in ID and each != key]
    found = found if id is None else [each for each in formats.array_names(path) if each == id]
    if not found:
        return None
    values = formats.read_array(path, found[0], ())
    return [_as_id(formats.as_cell(each)) for each in values.tolist()] if values.ndim == 1 else None


def _as_id(cell: str) -> str:
    """Return an id; one file may have 1, and another 1.0."""
    return cell[:-2] if cell.endswith(".0") and cell[:-2].isdecimal() else cell


class _Numbers(list[str]):
    """Ids of a first column such as that of pandas' index, which may only number the rows of its file."""

    def are_places(self) -> bool:
        """Return whether they count from 0 or 1."""
        return self in (_places(len(self)), _places(len(self) + 1)[1:])


def _ids_of(table: Table, at: int) -> list[str]:
    """Return the ids in a column."""
    ids = list(map(_as_id, table.cells(at)))
    return _Numbers(ids) if (table.header or [])[at].lower() in _NUMBERED else ids


def _only_number(ours: list[str], theirs: list[str]) -> bool:
    """Return whether one file only counts its rows, which says nothing unless the other has them shuffled."""
    for one, other in ((ours, theirs), (theirs, ours)):
        if isinstance(one, _Numbers) and one.are_places():
            return not isinstance(other, _Numbers) or other.are_places()
    return False


# Labels


def _labels(column: Column, classes: Sequence[Any]) -> tuple[Array, Bools]:
    """Return labels, as numbers if all are whole numbers and no names, and which of them are there."""
    values = column.values
    if values.dtype.kind == "f" and np.array_equal(values, np.rint(values), equal_nan=True):
        values = np.where(np.isnan(values), -1, values).astype(np.int64)
    if values.dtype.kind in "iu":
        there = values != -1
        return values, there if values.ndim == 1 else np.asarray(there.any(axis=1))
    absent = ABSENT | {"-1", "-1.0"}
    cells = ["" if is_missing(each) else str(each) for each in values.ravel().tolist()]
    gaps = [cell.lower() in absent and cell not in classes for cell in cells]
    missing = np.array(gaps, dtype=bool).reshape(values.shape)
    there = np.asarray(~missing if values.ndim == 1 else ~missing.all(axis=1))
    found = [cell for cell, gap in zip(cells, missing.ravel(), strict=True) if not gap]
    decided = {cell for cell in found if cell != UNDECIDED}
    if not are_whole(list(decided)) or decided <= set(map(str, classes)):
        _refuse_unknown(column, cells, missing, classes)
        return values, there
    if UNDECIDED in found:
        numbers = [int(float(cell)) if cell in decided else cell for cell in cells]
        return np.array(numbers, dtype=object), there
    return np.where(missing.ravel(), "-1", cells).astype(np.float64).astype(np.int64).reshape(
        values.shape
    ), there


def _refuse_unknown(column: Column, cells: list[str], missing: Bools, classes: Sequence[Any]) -> None:
    """Refuse labels that are no classes; say where they are, and which class was probably meant."""
    known = {*map(str, classes), UNDECIDED, ""}
    odd: dict[str, int] = {}
    for i, (cell, gap) in enumerate(zip(cells, missing.ravel(), strict=True)):
        if cell not in known and not gap:
            odd.setdefault(cell, i)
    if not odd or not classes:
        return
    said = []
    for cell, i in islice(odd.items(), 5):
        place = f"line {i + column.first_line}" if column.first_line else f"row {i}"
        said.append(f"{cell!r} in {place}{meant(cell, classes)}")
    problem = f"holds labels that are none of the classes {few(list(classes))}: {few(said)}"
    raise InputError(column.file, problem + (f" and {len(odd) - 5:,} others" if len(odd) > 5 else ""))


def read_pairs(
    noisy: str, true: str, classes: Sequence[Any] | None = None, id: str | None = None
) -> tuple[Array, Array, int]:
    """Read noisy and true labels of the items that have both; return them with the number of all items."""
    column = read_column(noisy, LABEL, None, classes or (), id)
    if column.values.ndim != 1 or not len(column.values):
        raise InputError(noisy, "must hold a label for each item", found=column.values.shape)
    rows, known = Rows(noisy, len(column.values), column.ids), classes or ()
    values, there = _labels(column, known)
    if classes is None and values.dtype.kind in "US":
        raise InputError(noisy, "holds names: pass --classes FILE with all of them in order")
    checks = read_column(true, TRUE, None, known, id)
    refuse_same(column, checks)
    clean = rows.optional(checks, known)
    both = there & np.array([each is not None for each in clean], dtype=bool)
    if not both.any():
        raise InputError(true, "has no label for an item that has a noisy one")
    return values[both], np.array(clean[both].tolist()), rows.n


def refuse_same(noisy: Column, true: Column) -> None:
    """Refuse to take one column for the noisy labels and for the true ones."""
    files = [split_key(each.file)[0].resolve() for each in (noisy, true)]
    if files[0] == files[1] and noisy.title == true.title:
        problem = "is given twice, as the labels and as the true labels"
        remedy = "name the columns, as in labels.csv:noisy labels.csv:checked"
        raise InputError(true.file, problem, remedy=remedy)


# Class names


def read_class_list(name: str) -> list[str]:
    """Read class names: a ``.json`` list, a column of a ``.csv`` or ``.tsv`` file, or else one per line.

    A first line that is called class, name, label or the like is a header; of several columns it says which
    one is meant.
    """
    path = formats.checked(Path(name))
    if path.suffix == ".json":
        read = _read_json(path)
        if not isinstance(read, list) or not all(isinstance(each, str) for each in read):
            raise InputError(name, 'must hold a list of names, such as ["cat", "dog"]')
    elif kind(path) in TEXTS:
        read = read_column(name, TITLE).values.tolist()
    else:
        read = read_lines(name)
    return [each.strip() for each in read]


def read_lines(name: str) -> list[str]:
    """Read the lines of a text file."""
    with formats.text_lines(Path(name)) as file:
        return file.read().splitlines()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(formats.checked(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), f"cannot be read as JSON: {error}") from None


# Groups


def read_groups(
    name: str, rows: Rows | None, classes: Sequence[Any] | None, id: str | None = None
) -> Array | Mapping[Any, Any]:
    """Read the group of each row: an array, or one column of a table; or a mapping from classes to groups.

    A mapping is a ``.json`` object. If the rows are not known there may be any number, and an object may hold
    the share of each group.
    """
    path = split_key(name)[0]
    if path.suffix == ".json":
        found = _read_json(path)
        if not isinstance(found, dict):
            raise InputError(name, 'must hold an object from classes to groups, such as {"cat": "pet"}')
        shares = rows is None and all(isinstance(share, float) for share in found.values())
        return found if shares else _by_class(found, classes)
    column = read_column(name, GROUP, rows, (), id)
    values = np.array([formats.as_cell(each) for each in column.values.ravel().tolist()])
    at = None if rows is None else rows.places(column)
    values = values if at is None else np.where(at < 0, "", values[at])
    if (values == "").any():
        row = int(np.argmax(values == ""))
        raise InputError(name, f"has no group in row {row}", remedy="give it a name of its own, as 'unknown'")
    return values


def _by_class(groups: dict[str, Any], classes: Sequence[Any] | None) -> Mapping[Any, Any]:
    """Return groups by the names of classes, or by their numbers if they have no names."""
    groups = {each: None if group in (None, "") else str(group) for each, group in groups.items()}
    named = classes is not None and set(groups) & {str(each) for each in classes}
    if not named and are_whole(list(groups)):
        return {int(float(each)): group for each, group in groups.items()}
    return groups
