"""Files of the command line: matrices, labels and names in, sets out. Written whole or not at all."""

import csv
import json
import operator
import os
import re
import sys
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np

from nacp._files import write_whole
from nacp._types import Array
from nacp.calibration import Calibration
from nacp.calibration import load as load_calibration
from nacp.estimation import load as load_estimate
from nacp.sets import PredictionSets

STDIN = "-"
_ARRAYS = (".npy", ".npz", ".safetensors")
_READ = "it must end in .npy, .npz, .csv, .parquet or .safetensors"
# A first column with such a header numbers the rows; pandas writes the empty one.
_ID = {"", "id", "index", "row", "unnamed: 0"}
_TEXT = "a column of text must come first and be called id, or be the label column"
Places: TypeAlias = Callable[[list[str]], list[int]]
_KEYED = re.compile(r"(.*\.(?:npz|csv|parquet|safetensors)):([^:/\\]+)", re.DOTALL)


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
    path, key = _split(name)
    if path.suffix in _ARRAYS:
        return _read_array(path, key, usual), None
    with_labels, column = _split(labels)
    leave = (column or "") if with_labels == path else None

    def places(header: list[str]) -> list[int]:
        if classes is not None and not set(header).isdisjoint(map(str, classes)):
            _refuse_missing(name, header, classes)
            return [header.index(str(each)) for each in classes]
        found = list(range(len(header)))
        if leave is not None and len(header) > 1:
            found.remove(header.index(_pick(path, header, leave, header[-1])))
        if len(found) > 1 and header[found[0]].lower() in _ID:
            del found[0]
        return found

    read = _parquet_matrix if path.suffix == ".parquet" else _csv_matrix
    matrix, header = read(path, key, places)
    if header is None and leave is not None and read is _csv_matrix:
        raise ValueError(
            f"{path} has no header, so its labels cannot be told from its probabilities: add a first line of "
            "names, or give the labels in a file of their own"
        )
    return matrix, None if header is None or header == _places(len(header)) else header


def read_labels(name: str, rows: int | None = None, classes: Sequence[Any] | None = None) -> Array:
    """Read labels, numbers or names: from an array, or from one column of a table.

    Of several arrays it is "labels", of several columns the last, unless ``file.csv:column`` names one. The
    first line of a ``.csv`` file is a header if it cannot be anything else. There should be as many labels as
    `rows`, if that is known.
    """
    path, key = _split(name)
    if path.suffix in _ARRAYS or path.suffix == ".parquet":
        read = _parquet_column(path, key) if path.suffix == ".parquet" else _read_array(path, key, "labels")
        return read if classes is None or read.dtype.kind not in "iu" else _named(read, classes)
    values, headed = _csv_column(path, key)
    if not headed and values[0] not in (classes or ()):
        word, rest = not _numeric(values[:1]), values[1:]
        many = rows is None or len(values) == rows + 1
        # A word that is no class is a header if there is a label too many, or if numbers are below it. A
        # number may be a label; it is a header only if all below it are words.
        if (many or _whole(rest)) if word else (many and not any(_numeric([cell]) for cell in rest)):
            values = rest
    if not _whole(values) or (classes is not None and set(values) <= set(classes)):
        return np.array(values)
    numbers = np.array(values, dtype=np.float64).astype(np.int64)
    return numbers if classes is None else _named(numbers, classes)


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
        raise ValueError("standard input can be read once only: give a file for probs or for labels")
    try:
        matrix, known = read_rows(probs, classes, names, labels, k)
        if matrix.ndim == 1:
            raise ValueError(f"{probs} must hold a matrix of shape (n, k); found {matrix.shape}")
    except ValueError as error:
        path = _split(probs)[0]
        if labels != STDIN and path.is_file() and path != _split(labels)[0] and _looks_like_probs(labels):
            raise ValueError(
                f"the arguments look swapped: {labels} holds a matrix, and {probs} does not; "
                "probabilities come first, then labels"
            ) from None
        raise error from None
    given = read_labels(labels, len(matrix), known)
    if given.ndim == 1 and len(given) != len(matrix):
        headed = len(given) == len(matrix) + 1 and labels.endswith(".csv")
        hint = f"; if its first line is a header, give {labels}:HEADER" if headed else ""
        raise ValueError(f"{labels} holds {len(given)} labels, but {probs} has {len(matrix)} rows{hint}")
    if known is None and given.dtype.kind in "US" and given.size:
        found = f"{labels} holds names such as {str(given.flat[0])!r}, but"
        if k is not None:
            raise ValueError(f"{found} the classes are known by number alone: calibrate with --classes FILE")
        raise ValueError(
            f"{found} the columns of {probs} have none: pass --classes FILE with the {matrix.shape[1]} names "
            "in the order of the columns"
        )
    if known is not None and given.ndim == 1:
        allowed = set(known)
        odd = next((label for label in given.tolist() if label not in allowed), None)
        if odd is not None:
            raise ValueError(f"{labels} holds {odd!r}, which is none of the classes {_few(known)}")
    return matrix, given, known


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
    if classes is None and k is not None:
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


def _refuse_missing(name: str, header: list[str], classes: Sequence[Any]) -> None:
    """Refuse columns of which none has the name of some class."""
    missing = next((str(each) for each in classes if str(each) not in header), None)
    if missing is not None:
        raise ValueError(f"{name} has no column {missing!r}; its columns are {_few(header)}")


def read_classes(name: str, k: int) -> list[str]:
    """Read the names of k classes."""
    names = read_class_list(name)
    if Path(name).suffix == ".csv" and len(names) == k + 1:
        del names[0]
    if len(names) != k or len(set(names)) != k:
        raise ValueError(
            f"{name} must hold {k} different names, one per column of probs; "
            f"found {len(names)}, {len(set(names))} of them different"
        )
    return names


def read_class_list(name: str) -> list[str]:
    """Read class names: a ``.json`` list, the last column of a ``.csv`` file, or else one per line."""
    path = _checked(Path(name))
    if path.suffix == ".csv":
        read, _ = _csv_column(path, None)
    elif path.suffix == ".json":
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} cannot be read as JSON: {error}") from None
        if not isinstance(read, list) or not all(isinstance(each, str) for each in read):
            raise ValueError(f'{path} must hold a list of names, such as ["cat", "dog"]')
    else:
        read = read_lines(name)
    return [each.strip() for each in read]


def read_annotations(name: str, classes: Sequence[str] | None = None) -> Array:
    """Read labels by several annotators: a row per item, a column per annotator; an empty cell is missing.

    A first row of ``.csv`` that holds other than labels is a header.
    """
    path, _ = _split(name)
    if path.suffix in (*_ARRAYS, ".parquet"):
        return read_matrix(name, "labels")[0]
    rows = [row for _, row in _csv_rows(path)]
    known = set(classes or ())
    if any(cell and cell not in known and not _numeric([cell]) for cell in rows[0]):
        start = int(len(rows[0]) > 1 and rows[0][0].lower() in _ID)
        rows = [row[start:] for row in rows[1:]]
    if not rows or len({len(row) for row in rows}) > 1:
        raise ValueError(f"{path} must have rows of one length, a cell for each annotator")
    cells = np.array(rows)
    if not all(_numeric([cell]) for cell in cells.ravel() if cell):
        if classes is None:
            odd = next(cell for cell in cells.ravel() if cell and not _numeric([cell]))
            raise ValueError(f"{path} holds names such as {str(odd)!r}: pass --classes FILE with all of them")
        return cells
    return np.where(cells == "", "-1", cells).astype(np.float64)


def read_lines(name: str) -> list[str]:
    """Read the lines of a text file."""
    path = _checked(Path(name))
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be a text file, a line for each entry; it is not text") from None


def read_noise(text: str) -> Any:
    """Read a noise rate, a (k, k) matrix from a file (rows are the true class), what ``nacp noise`` wrote, or
    "none": clean labels.
    """
    if text.lower() == "none":
        return None
    with suppress(ValueError):
        return float(text)
    if text.endswith(".json"):
        return load_estimate(_checked(Path(text)))
    if _split(text)[0].suffix not in (*_ARRAYS, ".csv"):
        raise ValueError(
            f"noise is {text!r}; it must be a rate such as 0.2, a file of a (k, k) matrix (.npy, .npz, "
            ".safetensors or .csv; rows are the true class), a .json file that nacp noise wrote, or "
            '"none" for labels that are right'
        )
    matrix, header = read_matrix(text, "noise")
    if header is not None:
        raise ValueError(
            f"{text} has a header, {_few(header, 3)}; put its rows and columns in the order of the classes, "
            "and leave the header out"
        )
    return matrix


def write_sets(blocks: Iterable[PredictionSets], name: str) -> None:
    """Write sets, block after block, as they come.

    ``.jsonl``, and ``-`` for standard output: one list per line. ``.csv``: row, label. ``.parquet``: one
    column of lists. ``.npz``: offsets and labels, as in `PredictionSets`.
    """
    if name == STDIN:
        _write_jsonl(sys.stdout, blocks)
        return
    mode, write = _WRITERS[Path(name).suffix]
    write_whole(name, mode, lambda file: write(file, blocks))


def read_calibration(path: Path, *others: str) -> Calibration:
    """Read what ``nacp calibrate`` wrote, or say that it looks swapped with one of the other arguments."""
    swapped = next((name for name in others if name.endswith(".json")), None)
    if swapped is not None and path.suffix != ".json":
        raise ValueError(
            f"the arguments look swapped: the calibration comes first, and that seems to be {swapped}"
        )
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the file that nacp calibrate wrote")
    return load_calibration(path)


def check_output(name: str, endings: Iterable[str] = ()) -> None:
    """Say what is wrong with a file that is to be written, before hours are spent on what goes into it."""
    path = Path(name)
    if endings and path.suffix not in endings and name != STDIN:
        *most, last = endings
        raise ValueError(f"{name} must end in {', '.join(most)} or {last}, or be - for standard output")
    if path.is_dir():
        raise ValueError(f"{name} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise ValueError(f"{name} cannot be written: there is no folder {path.parent}")
    if path.suffix == ".parquet":
        _need("pyarrow", path)
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{name} cannot be written: the folder {path.parent} is not yours to write to")


def _write_jsonl(file: IO[str], blocks: Iterable[PredictionSets]) -> None:
    for sets in blocks:
        file.writelines(json.dumps(labels, ensure_ascii=False) + "\n" for labels in sets)


def _write_csv(file: IO[str], blocks: Iterable[PredictionSets]) -> None:
    writer, done = csv.writer(file), 0
    writer.writerow(("row", "label"))
    for sets in blocks:
        writer.writerows((i, label) for i, labels in enumerate(sets, done) for label in labels)
        done += len(sets)


def _write_npz(file: IO[bytes], blocks: Iterable[PredictionSets]) -> None:
    sizes, labels = zip(*((sets.sizes, sets.labels) for sets in blocks), strict=True)
    np.savez(file, offsets=np.append(0, np.cumsum(np.concatenate(sizes))), labels=np.concatenate(labels))


def _write_parquet(file: IO[bytes], blocks: Iterable[PredictionSets]) -> None:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    with ExitStack() as stack:
        writer = None
        for sets in blocks:
            values = pyarrow.array(sets.labels)
            if sets.classes is not None:
                values = pyarrow.array([str(name) for name in sets.classes]).take(values)
            lists = pyarrow.LargeListArray.from_arrays(sets.offsets, values)
            table = pyarrow.table({"labels": lists})
            writer = writer or stack.enter_context(ParquetWriter(file, table.schema))
            writer.write_table(table)


_WRITERS: dict[str, tuple[Literal["w", "wb"], Callable[[IO[Any], Iterable[PredictionSets]], None]]] = {
    ".parquet": ("wb", _write_parquet),
    ".jsonl": ("w", _write_jsonl),
    ".csv": ("w", _write_csv),
    ".npz": ("wb", _write_npz),
}
SET_ENDINGS = tuple(_WRITERS)


def _split(name: str) -> tuple[Path, str | None]:
    keyed = _KEYED.fullmatch(name)
    return (Path(keyed[1]), keyed[2]) if keyed else (Path(name), None)


def _checked(path: Path) -> Path:
    """Return a path at which there is a file with something in it."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a file")
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{path} is empty")
    return path


def _need(module: str, path: Path) -> Any:
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ValueError(f"{path} needs {package}, which is not installed: pip install 'nacp[io]'") from None


def _read_array(path: Path, key: str | None, usual: str) -> Array:
    _checked(path)
    damaged = f"{path} cannot be read as {path.suffix}: it is damaged or holds something else than arrays"
    if path.suffix == ".safetensors":
        return _read_safetensors(path, key, usual, damaged)
    unreadable = (ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error)
    if path.suffix == ".npy":
        try:
            return np.lib.format.open_memmap(path, mode="r")
        except unreadable:
            raise ValueError(damaged) from None
    with ExitStack() as stack:
        opened = stack.enter_context(path.open("rb"))
        try:
            file = stack.enter_context(np.load(opened, allow_pickle=False))
        except unreadable:
            raise ValueError(damaged) from None
        wanted = _pick(path, file.files, key, usual)
        try:
            return np.asarray(file[wanted])
        except unreadable:
            raise ValueError(damaged) from None


def _read_safetensors(path: Path, key: str | None, usual: str, damaged: str) -> Array:
    module = _need("safetensors", path)
    try:
        file = module.safe_open(path, framework="numpy")
    except module.SafetensorError:
        raise ValueError(damaged) from None
    with file:
        wanted = _pick(path, list(file.keys()), key, usual)
        try:
            return np.asarray(file.get_tensor(wanted))
        except (TypeError, AttributeError, module.SafetensorError):
            raise ValueError(
                f"{path}:{wanted} is of a type that NumPy does not have; save it as float32"
            ) from None


def _pick(path: Path, there: Sequence[str], key: str | None, usual: str) -> str:
    wanted = key or (there[0] if len(there) == 1 else usual)
    if wanted not in there:
        raise ValueError(f"{path} holds no {wanted!r}, but {_few(there)}; name one as {path}:name")
    return wanted


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Hand out the rows that are not empty, with the numbers of their lines."""
    name = "standard input" if str(path) == STDIN else str(path)
    if name == str(path) and path.suffix != ".csv" and not path.is_dir():
        raise ValueError(f"{path} cannot be read: {_READ}")
    opened = sys.stdin if name != str(path) else _checked(path).open(newline="", encoding="utf-8-sig")
    with opened as file:
        reader = csv.reader(file)
        try:
            empty = True
            for row in reader:
                if row:
                    empty = False
                    yield reader.line_num, [cell.strip() for cell in row]
        except (UnicodeDecodeError, csv.Error):
            raise ValueError(f"{name} cannot be read as .csv: it is not text") from None
    if empty:
        raise ValueError(f"{name} is empty")


def _csv_matrix(path: Path, key: str | None, places: Places) -> tuple[Array, list[str] | None]:
    if key is not None:
        raise ValueError(f"{path} is one matrix; give it without :{key}")
    rows = _csv_rows(path)
    _, first = next(rows)
    if len(first) == 1:
        _refuse_separators(path, first)
    header = None if _numeric(first) else first
    wanted = list(range(len(first))) if header is None else places(header)
    values = array("d")
    if header is None:
        values.extend(map(float, first))
    pick = operator.itemgetter(*wanted, wanted[0])  # a tuple even if one is wanted
    for line, row in rows:
        if len(row) != len(first):
            raise ValueError(
                f"{path} must have rows of one length; line {line} has {len(row)} cells, not {len(first)}"
            )
        try:
            values.extend(map(float, pick(row)[:-1]))
        except ValueError:
            odd = next(cell for cell in pick(row) if not _numeric([cell]))
            _refuse_separators(path, [odd])
            raise ValueError(
                f"{path} must hold one number per cell below its header; found {odd!r} in line {line}; "
                f"{_TEXT}"
            ) from None
    matrix = np.frombuffer(values, dtype=np.float64).reshape(-1, len(wanted))
    if header is None and _numbers_are_a_header(first, matrix[1:]):
        wanted = places(first)
        return matrix[1:, wanted], [first[i] for i in wanted]
    return matrix, None if header is None else [header[i] for i in wanted]


def _numbers_are_a_header(first: list[str], below: Array) -> bool:
    """Return whether a first row is a header: different whole numbers above others, which do not sum to 1.

    0 and 1 do; they are a header of two columns unless other rows are whole as well.
    """
    if len(set(first)) < max(len(first), 2) or not all(cell.isdecimal() for cell in first):
        return False
    whole = np.all(below == np.rint(below), axis=1)
    return not np.any(whole) if first == ["0", "1"] else first != ["1", "0"] and not np.all(whole)


def _refuse_separators(path: Path, cells: list[str]) -> None:
    """Refuse cells if each of them looks like several."""
    for mark, name in ((";", "';'"), ("\t", "tabs")):
        if all(mark in cell for cell in cells):
            raise ValueError(f"{path}: its columns seem to be separated by {name}; save it with commas")


def _csv_column(path: Path, key: str | None) -> tuple[list[str], bool]:
    """Return the cells of a column, the last if none is named, and whether its header is left out."""
    rows = [row for _, row in _csv_rows(path)]
    if all(len(row) == 1 for row in rows):
        _refuse_separators(path, [row[0] for row in rows])
    if key is None:
        numbered = len(rows[0]) > 1 and rows[0][0].lower() in _ID
        return [row[-1] for row in rows[numbered:]], numbered
    place = rows[0].index(_pick(path, rows[0], key, key))
    if any(len(row) <= place for row in rows):
        raise ValueError(f"{path} has rows without the column {key!r}")
    return [row[place] for row in rows[1:]], True


def _parquet_matrix(path: Path, key: str | None, places: Places) -> tuple[Array, list[str] | None]:
    file, arrow = _parquet(path)
    schema = file.schema_arrow
    there = list(schema.names)
    wanted = [_pick(path, there, key, key)] if key else [there[i] for i in places(there)]
    types = [schema.field(name).type for name in wanted]
    if len(types) == 1 and (arrow.types.is_list(types[0]) or arrow.types.is_large_list(types[0])
                            or arrow.types.is_fixed_size_list(types[0])):  # fmt: skip
        lists = file.read(columns=wanted).column(0).combine_chunks()
        flat, n = lists.flatten().to_numpy(zero_copy_only=False), len(lists)
        if n == 0 or len(flat) % n or len(set(arrow.compute.list_value_length(lists).to_pylist())) > 1:
            raise ValueError(f"{path} must hold lists of one length in {wanted[0]!r}")
        return flat.reshape(n, -1), None
    odd = [name for name, kind in zip(wanted, types, strict=True)
           if not (arrow.types.is_floating(kind) or arrow.types.is_integer(kind))]  # fmt: skip
    if odd:
        raise ValueError(
            f"{path} must hold numbers in all columns; {odd[0]!r} is {schema.field(odd[0]).type}; {_TEXT}"
        )
    narrow = all(arrow.types.is_float32(kind) or arrow.types.is_float16(kind) for kind in types)
    matrix = np.empty((file.metadata.num_rows, len(wanted)), dtype=np.float32 if narrow else np.float64)
    done = 0
    for batch in file.iter_batches(columns=wanted):
        for j, name in enumerate(wanted):
            matrix[done : done + len(batch), j] = batch.column(name).to_numpy(zero_copy_only=False)
        done += len(batch)
    return matrix, wanted


def _parquet_column(path: Path, key: str | None) -> Array:
    file, _ = _parquet(path)
    there = file.schema_arrow.names
    column = file.read(columns=[_pick(path, there, key, there[-1])]).column(0)
    if column.null_count:
        raise ValueError(f"{path} has {column.null_count} empty labels")
    found: Array = column.to_numpy()
    return found.astype(str) if found.dtype.kind == "O" else found


def _parquet(path: Path) -> tuple[Any, Any]:
    _checked(path)
    arrow, parquet = _need("pyarrow", path), _need("pyarrow.parquet", path)
    _need("pyarrow.compute", path)
    try:
        return parquet.ParquetFile(path), arrow
    except arrow.ArrowInvalid:
        raise ValueError(f"{path} cannot be read as .parquet: it is damaged or something else") from None


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
    whole = _whole([str(name) for name in classes])
    names = {int(float(name)): name for name in classes} if whole else dict(enumerate(classes))
    return np.array([names.get(label, label) for label in labels.ravel().tolist()]).reshape(labels.shape)


def _few(names: Sequence[Any], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def _numeric(cells: list[str]) -> bool:
    with suppress(ValueError):
        return bool([float(cell) for cell in cells])
    return False


def _whole(cells: list[str]) -> bool:
    return _numeric(cells) and all(float(cell).is_integer() for cell in cells)
