"""What commands read of points: probabilities, labels, class names, groups and ids, from files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Array, Bools
from nacp.audit.checked_labels import UNDECIDED
from nacp.cli import formats
from nacp.cli.formats import Table, are_whole, few, is_table, kind, open_table, read_array, split_key
from nacp.cli.terminal import complain
from nacp.errors import InputError
from nacp.labels import LabelTable
from nacp.labels.label_matrix import ABSENT, from_cells
from nacp.points import is_missing, no_label
from nacp.wrapping import counted

_TITLES = {"class", "classes", "name", "names", "label", "labels", "category", "categories"}
_MIN_NUMBERED = 20  # rows: with this many, a first column of different whole numbers counts the rows


# Probabilities


class Matrix(NamedTuple):
    """Numbers from a file, the names of their columns if they have some, and the ids of the rows if asked."""

    values: Array
    header: list[str] | None = None
    ids: list[str] | None = None


def read_matrix(
    name: str,
    usual: str = "probs",
    classes: Sequence[Any] | None = None,
    beside: Sequence[str | None] = (),
    *,
    ids: str | None = None,
    with_ids: bool = False,
) -> Matrix:
    """Read a matrix and the names of its columns, if it has any.

    Of several arrays ``file.npz:key`` names one; the default is `usual`. In tables the columns are the
    classes. If these are known, they are found by name. Else all columns are taken but a first one that
    numbers or names the rows, and those that other inputs (`beside`: labels, then true labels) take from the
    same file. A ``.parquet`` or ``.jsonl`` file may also hold one column of lists.

    The rows are named by the column `ids`; with `with_ids` by default by one called id.
    """
    path, key = split_key(name)
    table = None if kind(path) in formats.ARRAYS else open_table(path, key)
    lists = None if table is None else table.lists(key)
    header = None if table is None else table.matrix_header
    if ids is not None and header is None:
        raise InputError("ids", f"names a column, and those of {path} have no names", remedy="leave it out")
    if table is None:
        return Matrix(read_array(path, key, usual))
    if header is None:
        if kind(path) in formats.TEXTS and any(split_key(each)[0] == path for each in beside if each):
            raise InputError(
                str(path),
                "has no header, so its labels cannot be told from its probabilities: add a first line of "
                "names, or give the labels in a file of their own",
            )
        values, names = lists or (table.numbers(range(table.width)), None)
        return Matrix(values, names)
    at = _id_column(path, header, key, classes, ids) if with_ids or ids else None
    named = None if at is None else table.cells(at)
    if lists is None:
        columns = _class_columns(table, header, classes, beside, ids)
        lists = table.numbers(columns), [header[i] for i in columns]
    values, names = lists
    return Matrix(values, None if names == _places(len(names or ())) else names, named)


def _id_column(
    path: Path, header: list[str], key: str | None, classes: Sequence[Any] | None, ids: str | None
) -> int | None:
    """Return which column names the rows; say which columns are left out if none does."""
    if ids is not None:
        return header.index(formats.pick(path, header, ids, ids))
    known = set(map(str, classes or ()))
    if len(header) > 1 and header[0].lower() in formats.NUMBERED - known:
        return 0
    held = known.intersection(header) or {key, *formats.PROBS}.intersection(header)
    others = [each for each in header if held and each not in held]
    named = next((each for each in others if each.lower() in formats.NAMED), None)
    if others and named is None:
        complain(f"Left out, as no class: {few(others)}. To name the rows by one: --id {others[0]}")
    return None if named is None else header.index(named)


def _class_columns(
    table: Table,
    header: list[str],
    classes: Sequence[Any] | None,
    beside: Sequence[str | None],
    ids: str | None,
) -> list[int]:
    """Return which columns hold probabilities: those of the known classes, or all but labels and ids."""
    wanted = [str(each) for each in classes or ()]
    if not set(header).isdisjoint(wanted):
        # The first of the names in a file may be a title; `_in_order` refuses the columns if it is a class.
        wanted = wanted if wanted[0] in header else wanted[1:]
        _refuse_missing(str(table.path), header, wanted)
        return [header.index(each) for each in wanted]
    left = set() if ids is None else {header.index(ids)}
    for i, (source, column) in enumerate(split_key(each or "") for each in beside):
        if source == table.path and len(header) > 1:
            left.add(table.label_column(column, true=i > 0))
    found = [i for i in range(len(header)) if i not in left]
    return found[1:] if len(found) > 1 and header[found[0]].lower() in formats.NUMBERED else found


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

    The classes are those given, or those in the file `names`, or the names of the columns, which are put in
    the order of the classes. `k` is for classes that are known by number alone. Labels, true labels (`clean`)
    and `groups` may be columns of the same table. `drop`: rows without a label are left out with a message.
    """
    if probs == labels == formats.STDIN:
        raise InputError("standard input", "can be read once only: give a file for probs or for labels")
    if drop and (clean or groups) is not None:
        raise InputError(
            "drop_unlabelled", "is of no use with checked labels or groups", remedy="drop such rows first"
        )
    matrix, known = read_rows(probs, classes, names, (labels, clean, groups), k)
    read = read_labels(labels, len(matrix), known, gaps=drop)
    refuse_other_order(probs, labels, clean, groups)
    if drop and len(read) == len(matrix):
        there, read = present(read, known)
        if not there.all():
            complain(f"Left out: {len(there) - len(read):,} of {counted(len(there), 'row')} without a label.")
            matrix = matrix[there]
    if len(read) != len(matrix):
        raise _other_length(labels, read, probs, len(matrix))
    if known is None and read.dtype.kind in "US" and read.size:
        name = next((str(cell) for cell in read.flat if not are_whole([str(cell)])), str(read.flat[0]))
        remedy = f"pass --classes FILE with the {matrix.shape[1]:,} names in the order of the columns"
        raise InputError(
            labels,
            f"holds names such as {name!r}, but the columns of {probs} have none",
            remedy=remedy if k is None else "calibrate with --classes FILE",
        )
    if known is not None and read.ndim == 1:
        allowed = set(known)
        odd = next((label for label in read.tolist() if label not in allowed), None)
        if odd is not None:
            raise InputError(labels, f"holds {odd!r}, which is none of the classes {few(known)}")
    return matrix, read, known


def _other_length(labels: str, read: Array, probs: str, rows: int) -> InputError:
    """Return the error for labels that are more or fewer than the rows."""
    held, remedy = f"{len(read):,} labels", None
    if read.ndim == 2:
        held = f"labels of {len(read):,} items"
        remedy = "nacp noise annotators --labels FILE --items FILE writes them in the order of the rows"
    elif len(read) == rows + 1 and kind(labels) in formats.TEXTS:
        remedy = f"if its first line is a header, give {labels}:HEADER"
    return InputError(labels, f"holds {held}, but {probs} has {rows:,} rows", remedy=remedy)


def read_rows(
    probs: str,
    classes: Sequence[Any] | None = None,
    names: str | None = None,
    beside: Sequence[str | None] = (),
    k: int | None = None,
) -> tuple[Array, Sequence[Any] | None]:
    """Read probabilities and the classes, as `read_points` does.

    With `k` and without `classes`, a header of numbers gives their order, and names are ignored.
    """
    wanted = read_class_list(names) if classes is None and names is not None else classes
    return _in_order(probs, read_matrix(probs, classes=wanted, beside=beside), classes, names, k)


def read_new(
    probs: str, classes: Sequence[Any] | None, k: int, ids: str | None, groups: str | None = None
) -> tuple[Array, list[str] | None]:
    """Read probabilities, and what names their rows: the column `ids`, or one called id, if any.

    Groups of rows may be in the same table.
    """
    read = read_matrix(probs, classes=classes, beside=(groups,), ids=ids, with_ids=True)
    refuse_other_order(probs, groups)
    return _in_order(probs, read, classes, None, k)[0], read.ids


def _in_order(
    probs: str, read: Matrix, classes: Sequence[Any] | None, names: str | None, k: int | None
) -> tuple[Array, Sequence[Any] | None]:
    """Return the columns in the order of the classes, and these."""
    matrix, header, _ = read
    if matrix.ndim != 2:
        raise InputError(
            probs,
            "must hold a matrix of shape (n, k)",
            found=matrix.shape,
            remedy="probabilities come first, then labels",
        )
    if matrix.shape[1] > 2 and kind(split_key(probs)[0]) not in formats.ARRAYS:
        _refuse_row_numbers(probs, matrix)
    if classes is None and k is not None:
        if header is None or not are_whole(header):
            return matrix, None
        if sorted(header) != sorted(_places(k)):
            problem = f"begins with {few(header)}: these are not the numbers of the {k:,} classes"
            raise InputError(probs, problem)
        return matrix[:, [header.index(place) for place in _places(k)]], None
    if names is not None:
        classes = read_classes(names, matrix.shape[1])
    if header is None or classes is None:
        return matrix, classes or header
    _refuse_missing(probs, header, classes)
    order = [header.index(str(name)) for name in classes]
    return matrix if order == list(range(len(order))) else matrix[:, order], classes


def _refuse_row_numbers(name: str, matrix: Array) -> None:
    """Refuse a first column with a different whole number in each of many rows, if no other column is so."""
    n = len(matrix)
    numbering = [
        bool(np.all(column == np.rint(column))) and len(np.unique(column)) == n for column in matrix.T
    ]
    if n >= _MIN_NUMBERED and numbering[0] and not any(numbering[1:]):
        raise InputError(
            name, "seems to number its rows in the first column", remedy="call that id, or leave it out"
        )


def _refuse_missing(name: str, header: list[str], classes: Sequence[Any]) -> None:
    """Refuse columns of which none has the name of some class."""
    missing = next((str(each) for each in classes if str(each) not in header), None)
    if missing is not None:
        raise InputError(name, f"has no column {missing!r}; its columns are {few(header)}")


def _places(k: int) -> list[str]:
    """Return the header that gives no more than the places of the columns."""
    return [str(i) for i in range(k)]


# Labels


def read_labels(
    name: str,
    rows: int | None = None,
    classes: Sequence[Any] | None = None,
    *,
    gaps: bool = False,
    true: bool = False,
) -> Array:
    """Read labels, numbers or names: from an array, or from one column of a table.

    Of several arrays it is "labels"; of several columns the one called label, unless ``file.csv:column``
    names one. The first line of a ``.csv`` file of one column is a header if it cannot be anything else.
    There should be as many labels as `rows`, if that is known. `gaps`: some may be missing. `true`: of two
    columns called label and checked, the first is not meant.
    """
    path, key = split_key(name)
    if kind(path) in formats.ARRAYS:
        read = read_array(path, key, "labels")
        if read.dtype.kind == "f" and np.array_equal(read, np.rint(read)):
            read = read.astype(np.int64)
        return read if gaps or classes is None or read.dtype.kind not in "iu" else _named(read, classes)
    cells, headed = open_table(path, key).labels(key, true=true, gaps=gaps)
    if not headed and _begins_with_header(cells, rows, classes, gaps):
        cells = cells[1:]
    if gaps:
        cells = _without_last_gaps(cells, rows)
        return np.array([None if is_absent(cell, classes) else cell for cell in cells], dtype=object)
    missing = [is_absent(cell, classes) for cell in cells]
    if any(missing):
        raise no_label(str(path), missing)
    return _as_labels(cells, classes)


def _begins_with_header(
    cells: list[str], rows: int | None, classes: Sequence[Any] | None, gaps: bool
) -> bool:
    """Return whether the first cell of a table of one column is a header, as it cannot be a label.

    A word that is no class is one if there is a label too many, or if numbers are below it. A number may be
    a label; it is a header only if there is a label too many and all below it are words.
    """
    first, rest = cells[0], [cell for cell in cells[1:] if cell or not gaps]
    if first in (classes or ()) or (gaps and first == ""):
        return False
    if gaps and rows is not None:
        cells = _without_last_gaps(cells, rows + 1)
    too_many = rows is None or len(cells) == rows + 1
    if formats.are_numbers([first]):
        return too_many and not any(formats.are_numbers([cell]) for cell in rest)
    return too_many or are_whole(rest)


def _without_last_gaps(cells: list[str], number: int | None) -> list[str]:
    """Drop empty cells at the end down to a number: they may be labels not checked, or nothing."""
    end = len(cells)
    while number is not None and end > number and cells[end - 1] == "":
        end -= 1
    return cells[:end]


def is_absent(cell: str, classes: Sequence[Any] | None) -> bool:
    """Return whether a cell stands for a missing label."""
    return cell.lower() in ABSENT and cell not in (classes or ())


def _as_labels(cells: list[str], classes: Sequence[Any] | None) -> Array:
    """Return labels given as texts: names, or numbers if all are whole and no names of classes."""
    if not are_whole(cells) or (classes is not None and set(cells) <= set(classes)):
        return np.array(cells)
    numbers = np.array(cells, dtype=np.float64).astype(np.int64)
    return numbers if classes is None else _named(numbers, classes)


def _named(labels: Array, classes: Sequence[Any]) -> Array:
    """Return the names of labels that are numbers; a number that has none stays one.

    A number is the place of a class, unless the names are numbers themselves. In a table -1 is a gap.
    """
    whole = are_whole([str(name) for name in classes])
    names = {int(float(name)): name for name in classes} if whole else dict(enumerate(classes))
    if labels.ndim == 2:
        names.setdefault(-1, "")
    return np.array([names.get(label, label) for label in labels.ravel().tolist()]).reshape(labels.shape)


def present(read: Array, classes: Sequence[Any] | None) -> tuple[Bools, Array]:
    """Return which labels, or rows of several, are there, and these."""
    absent = {"", "-1", "-1.0"} - set(map(str, classes or ()))
    flat = [not is_missing(each) and str(each) not in absent for each in read.ravel().tolist()]
    there = np.array(flat, dtype=bool).reshape(read.shape)
    if read.ndim == 2:
        some = np.asarray(there.any(axis=1))
        named = classes is not None and read.dtype.kind in "iuf"
        return some, _named(read[some].astype(np.int64), classes or ()) if named else read[some]
    return there, _as_labels([str(each) for each in read[there].tolist()], classes)


def read_clean(name: str, rows: int, classes: Sequence[Any] | None = None, *, noisy: str = "") -> Array:
    """Read true labels of points some of which were checked: like labels, -1 or empty where one was not.

    They must not be taken from the column of the `noisy` ones.
    """
    refuse_same(noisy, name)
    read = read_labels(name, rows, classes, gaps=True, true=True)
    if read.shape != (rows,):
        raise InputError(
            name, f"must hold {rows} labels, -1 or empty where none was checked", found=read.shape
        )
    return true_labels(read, classes)


def true_labels(read: Array, classes: Sequence[Any] | None) -> Array:
    """Return true labels with None where there is none, and ? where an expert could not decide."""
    undecided = np.array([each == UNDECIDED and each not in (classes or ()) for each in read], dtype=bool)
    found = np.full(len(read), None, dtype=object)
    there, values = present(np.where(undecided, found, read), classes)
    found[there], found[undecided] = values.tolist(), UNDECIDED
    return found


def read_pairs(noisy: str, true: str, classes: Sequence[Any] | None = None) -> tuple[Array, Array, int]:
    """Read noisy and true labels of the items that have both; return them with the number of all items."""
    given = read_labels(noisy, classes=classes, gaps=True)
    if given.ndim != 1 or not len(given):
        raise InputError(noisy, "must hold a label for each item", found=given.shape)
    refuse_other_order(noisy, true)
    there, values = present(given, classes)
    if classes is None and values.dtype.kind in "US":
        raise InputError(noisy, "holds names: pass --classes FILE with all of them in order")
    clean = read_clean(true, len(given), classes)
    known = np.array([each is not None for each in clean], dtype=bool)
    if not known[there].any():
        raise InputError(true, "has no label for an item that has a noisy one")
    return values[known[there]], np.array(clean[there & known].tolist()), len(given)


def refuse_same(noisy: str, true: str) -> None:
    """Refuse to take one column for the noisy labels and for the true ones."""
    if noisy == true or _column(noisy) == _column(true):
        raise InputError(
            true,
            "is given twice, as the labels and as the true labels",
            remedy="name the columns, as in labels.csv:noisy labels.csv:checked",
        )


def _column(name: str) -> tuple[Path, str | None]:
    """Return which column or array of which file is meant."""
    path, key = split_key(name)
    if key is None and is_table(path) and path.is_file():
        table = open_table(path)
        key = None if table.header is None else table.header[table.label_column(None)]
    return path.resolve(), key or "labels"


def read_annotations(name: str, classes: Sequence[str] | None = None) -> Array | LabelTable:
    """Read labels by several annotators: a row per item, a column per annotator."""
    path, key = split_key(name)
    if kind(path) not in formats.TEXTS and name != formats.STDIN:
        return read_matrix(name, "labels").values
    if key is not None:
        raise InputError(str(path), "is read whole, a column per annotator", remedy=f"give it without :{key}")
    try:
        return from_cells([row for _, row in formats.TextTable(path).rows()], classes)
    except InputError as error:
        raise error.about(str(path)) if error.argument == "labels" else error from None


# Ids of rows


def row_ids(name: str) -> list[str] | None:
    """Return the cells of a first column called id, item or items, or such an array of ``.npz``, if any."""
    path, key = split_key(name)
    if path.suffix == ".npz" and path.is_file():
        try:
            with np.load(path, allow_pickle=False) as file:
                named = [each for each in file.files if each.lower() in formats.NAMED and each != key]
                found = file[named[0]] if len(named) == 1 else np.zeros((0, 0))
        except formats.UNREADABLE:  # reported when its labels are read
            return None
        return [formats.as_cell(each) for each in found.tolist()] if found.ndim == 1 else None
    if name == formats.STDIN or not path.is_file() or not is_table(path):
        return None
    table = open_table(path)
    first = (table.header or [""])[0]
    return table.cells(0) if table.width > 1 and first.lower() in formats.NAMED and first != key else None


def refuse_other_order(*names: str | None) -> None:
    """Refuse files that call their rows by other names, or have them in another order."""
    known: tuple[str, list[str]] | None = None
    by_path = {split_key(name)[0]: name for name in names if name is not None}
    for name in reversed(by_path.values()):  # the last ones are small
        ids = row_ids(name)
        if ids is None:
            continue
        ids = [each.removesuffix(".0") for each in ids]  # as one file may have 1, and another 1.0
        other, theirs = known = known or (name, ids)
        odd = next((i for i, (a, b) in enumerate(zip(ids, theirs, strict=False)) if a != b), None)
        if odd is not None and len(ids) == len(theirs):
            shuffled = sorted(ids) == sorted(theirs)
            raise InputError(
                other,
                f"has {theirs[odd]!r} in row {odd}, where {name} has {ids[odd]!r}",
                remedy="put the rows of both in one order"
                + ("" if shuffled else ", or, if these are not the same ids, rename that column"),
            )


# Class names


def read_classes(name: str, k: int) -> list[str]:
    """Read the names of k classes."""
    names = read_class_list(name)
    if kind(name) in formats.TEXTS and len(names) == k + 1:
        del names[0]
    if len(names) != k or len(set(names)) != k:
        raise InputError(
            name,
            f"must hold {k:,} different names, one per column of probs",
            found=f"{len(names):,}, {len(set(names)):,} of them different",
        )
    return names


def read_class_list(name: str) -> list[str]:
    """Read class names: a ``.json`` list, a column of a ``.csv`` or ``.tsv`` file, or else one per line.

    A first line that is called class, name, label or the like is a header; of several columns it says which
    one is meant. Above probabilities it is the header that names the classes.
    """
    path = formats.checked(Path(name))
    if path.suffix == ".json":
        read = _read_json(path)
        if not isinstance(read, list) or not all(isinstance(each, str) for each in read):
            raise InputError(name, 'must hold a list of names, such as ["cat", "dog"]')
    elif kind(path) in formats.TEXTS:
        table = formats.TextTable(path)
        read = _above_probabilities(table)
        if not read:
            read, headed = table.labels(None, called=_TITLES)
            read = read[1:] if not headed and read[0].lower() in _TITLES else read
    else:
        read = read_lines(name)
    return [each.strip() for each in read]


def _above_probabilities(table: formats.TextTable) -> list[str]:
    """Return the names of the columns of probabilities, if a table has such ones."""
    rows = table.rows(gaps=True)
    (_, header), (_, cells) = next(rows), next(rows, (0, []))
    if formats.are_numbers(header) or {name.lower() for name in header} & (_TITLES - formats.LABEL):
        return []
    other = formats.LABEL | formats.TRUE | (formats.NUMBERED & {header[0].lower()})
    found = {
        name: float(cell)
        for name, cell in zip(header, cells, strict=False)
        if formats.are_numbers([cell]) and name.lower() not in other
    }
    shares = sum(found.values()) == 1 or not all(map(float.is_integer, found.values()))
    return list(found) if len(found) > 1 and shares else []


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


def read_groups(name: str, rows: int | None, classes: Sequence[Any] | None) -> Array | Mapping[Any, Any]:
    """Read the group of each row: an array, or one column of a table; or a mapping from classes to groups.

    A mapping is a ``.json`` object. If `rows` is not known there may be any number, and an object may hold
    the share of each group.
    """
    path, key = split_key(name)
    if path.suffix == ".json":
        found = _read_json(path)
        if not isinstance(found, dict):
            raise InputError(name, 'must hold an object from classes to groups, such as {"cat": "pet"}')
        shares = rows is None and all(isinstance(share, float) for share in found.values())
        return found if shares else _by_class(found, classes)
    if kind(path) in formats.ARRAYS:
        read = read_array(path, key, "groups")
        values = np.array([formats.as_cell(each) for each in read.ravel().tolist()]).reshape(read.shape)
    else:
        cells, headed = open_table(path, key).labels(key, called={"group", "groups"}, gaps=True)
        values = np.array(cells[1:] if not headed and len(cells) - 1 == rows else cells, dtype=str)
    if rows is not None and (values.ndim != 1 or len(values) != rows):
        raise InputError(
            name,
            f"must hold {rows:,} groups, one for each row of PROBS",
            found=f"{values.shape}",
            remedy="groups of classes are a .json object",
        )
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
