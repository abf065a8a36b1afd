"""Arrays and tables in files: NumPy's and safetensors' arrays, CSV and Parquet."""

import csv
import operator
import re
import sys
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nacp._types import Array
from nacp.errors import InputError

STDIN = "-"
ARRAYS = (".npy", ".npz", ".safetensors")
ID = {"", "id", "index", "row", "unnamed: 0"}
"""A first column with such a header numbers the rows; pandas writes the empty one."""
Places: TypeAlias = Callable[[list[str]], list[int]]
"""Which columns are wanted, given the header."""

_READ = "it must end in .npy, .npz, .csv, .parquet or .safetensors"
_TEXT = "a column of text must come first and be called id, or be the label column"
_KEYED = re.compile(r"(.*\.(?:npz|csv|parquet|safetensors)):([^:/\\]+)", re.DOTALL)


def split_key(name: str) -> tuple[Path, str | None]:
    """Part ``file.npz:key`` into the file and the key."""
    keyed = _KEYED.fullmatch(name)
    return (Path(keyed[1]), keyed[2]) if keyed else (Path(name), None)


def checked(path: Path) -> Path:
    """Return a path at which there is a file with something in it."""
    if path.is_dir():
        raise InputError(str(path), "is a folder", remedy="give a file")
    if not path.exists():
        raise InputError(str(path), "does not exist")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(str(path), "is empty")
    return path


def need(module: str, path: Path) -> Any:
    """Import a module that a file takes, or say what to install."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise InputError(
            str(path), f"needs {package}, which is not installed: pip install 'nacp[io]'"
        ) from None


def read_array(path: Path, key: str | None, usual: str) -> Array:
    """Read an array: the one with the key, or the only one, or the usual one."""
    checked(path)
    damaged = InputError(
        str(path), f"cannot be read as {path.suffix}: it is damaged or holds something else than arrays"
    )
    if path.suffix == ".safetensors":
        return _read_safetensors(path, key, usual, damaged)
    unreadable = (ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error)
    if path.suffix == ".npy":
        try:
            return np.lib.format.open_memmap(path, mode="r")
        except unreadable:
            raise damaged from None
    with ExitStack() as stack:
        opened = stack.enter_context(path.open("rb"))
        try:
            file = stack.enter_context(np.load(opened, allow_pickle=False))
        except unreadable:
            raise damaged from None
        wanted = pick(path, file.files, key, usual)
        try:
            return np.asarray(file[wanted])
        except unreadable:
            raise damaged from None


def _read_safetensors(path: Path, key: str | None, usual: str, damaged: InputError) -> Array:
    module = need("safetensors", path)
    try:
        file = module.safe_open(path, framework="numpy")
    except module.SafetensorError:
        raise damaged from None
    with file:
        wanted = pick(path, list(file.keys()), key, usual)
        try:
            return np.asarray(file.get_tensor(wanted))
        except (TypeError, AttributeError, module.SafetensorError):
            raise InputError(
                f"{path}:{wanted}", "is of a type that NumPy does not have", remedy="save it as float32"
            ) from None


def pick(path: Path, there: Sequence[str], key: str | None, usual: str) -> str:
    """Return which of the names is meant: the key, or the only one, or the usual one."""
    wanted = key or (there[0] if len(there) == 1 else usual)
    if wanted not in there:
        raise InputError(
            str(path), f"holds no {wanted!r}, but {few(there)}", remedy=f"name one as {path}:name"
        )
    return wanted


def csv_rows(path: Path, *, gaps: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Hand out rows of one length, with the numbers of their lines; empty lines may only be the last ones.

    With `gaps`, an empty line among rows of one cell is an empty cell.
    """
    name = "standard input" if str(path) == STDIN else str(path)
    if name == str(path) and path.suffix != ".csv" and not path.is_dir():
        raise InputError(str(path), f"cannot be read: {_READ}")
    opened = sys.stdin if name != str(path) else checked(path).open(newline="", encoding="utf-8")
    with opened as file:
        reader = csv.reader(line.removeprefix("\ufeff") if i == 0 else line for i, line in enumerate(file))
        empty, length = 0, 0
        try:
            for row in reader:
                if gaps and length <= 1 and not "".join(row).strip() and len(row) <= 1:
                    row = [""]
                elif not row or (row[0] and not "".join(row).strip()):
                    empty = empty or reader.line_num
                    continue
                if empty and length:
                    raise InputError(name, f"has an empty line, {empty}, above others: is something missing?")
                length = length or len(row)
                if len(row) != length:
                    raise InputError(
                        name,
                        f"must have rows of one length; line {reader.line_num} has {len(row)} cells, not "
                        f"{length}",
                    )
                empty = 0
                yield reader.line_num, [cell.strip() for cell in row]
        except (UnicodeDecodeError, csv.Error):
            raise InputError(name, "cannot be read as .csv: it is not text") from None
    if not length:
        raise InputError(name, "is empty")


def csv_matrix(path: Path, key: str | None, places: Places) -> tuple[Array, list[str] | None]:
    """Read the columns that are wanted, all if there is no header, and their names."""
    if key is not None:
        raise InputError(str(path), "is one matrix", remedy=f"give it without :{key}")
    rows = csv_rows(path)
    _, first = next(rows)
    if len(first) == 1:
        _refuse_separators(path, first)
    header = None if are_numbers(first) else first
    if header is not None:
        _refuse_holes(path, header)
    wanted = list(range(len(first))) if header is None else places(header)
    values = array("d")
    if header is None:
        values.extend(map(float, first))
    pick = operator.itemgetter(*wanted, wanted[0])  # a tuple even if one is wanted
    n, decimal = 0, 0
    for line, row in rows:
        n += 1
        decimal += all(map(str.isdecimal, row))
        try:
            values.extend(map(float, pick(row)[:-1]))
        except ValueError:
            odd = next(cell for cell in pick(row) if not are_numbers([cell]))
            _refuse_separators(path, [odd])
            raise InputError(
                str(path),
                "must hold one number per cell below its header",
                found=f"{odd!r} in line {line}",
                remedy=_TEXT,
            ) from None
    matrix = np.frombuffer(values, dtype=np.float64).reshape(-1, len(wanted))
    numbered = header is None and _numbers_are_a_header(path, first, n, decimal)
    if n == 0 and (numbered or header is not None):
        raise InputError(str(path), "has a header and nothing below it")
    if numbered:
        wanted = places(first)
        return matrix[1:, wanted], [first[i] for i in wanted]
    return matrix, None if header is None else [header[i] for i in wanted]


def _refuse_holes(path: Path, header: list[str]) -> None:
    """Refuse a header that looks like a row of probabilities with a hole."""
    numbers = [float(cell) for cell in header if are_numbers([cell])]
    if numbers and ("" in header[1:] or any(0 < number < 1 for number in numbers)):
        odd = next(cell for cell in header if not are_numbers([cell]))
        raise InputError(str(path), "must hold one number per cell", found=f"{odd!r} in its first line")


def _numbers_are_a_header(path: Path, first: list[str], n: int, decimal: int) -> bool:
    """Return whether a first row of numbers is a header.

    It is if it says 0, 1, 2, ...; or if it has different whole numbers and there are rows below that are
    written otherwise: `decimal` of the `n` rows below are whole numbers without a point. 1 and 0 are a
    point; 0 and 1 are one if all rows look like that.
    """
    if len(set(first)) < max(len(first), 2) or not all(map(str.isdecimal, first)) or first == ["1", "0"]:
        return False
    if first != ["0", "1"]:
        return first == [str(i) for i in range(len(first))] or decimal < n
    if 0 < decimal < n:
        raise InputError(
            str(path),
            "begins with 0,1, which may be a header or a point: name the columns, or write 0.0,1.0",
        )
    return n > 0 and decimal == 0


def _refuse_separators(path: Path, cells: list[str]) -> None:
    """Refuse cells if each of them looks like several."""
    for mark, name in ((";", "';'"), ("\t", "tabs")):
        if all(mark in cell for cell in cells):
            raise InputError(
                f"{path}:", f"its columns seem to be separated by {name}", remedy="save it with commas"
            )


def csv_column(path: Path, key: str | None, *, gaps: bool = False) -> tuple[list[str], bool]:
    """Return the cells of a column, the last if none is named, and whether its header is left out."""
    rows = [row for _, row in csv_rows(path, gaps=gaps)]
    if all(len(row) == 1 for row in rows):
        _refuse_separators(path, [row[0] for row in rows])
    if key is None:
        numbered = len(rows[0]) > 1 and rows[0][0].lower() in ID
        return [row[-1] for row in rows[numbered:]], numbered
    place = rows[0].index(pick(path, rows[0], key, key))
    return [row[place] for row in rows[1:]], True


def parquet_matrix(path: Path, key: str | None, places: Places) -> tuple[Array, list[str] | None]:
    """Read a column of lists, or the columns that are wanted and their names."""
    file, arrow = _parquet(path)
    schema = file.schema_arrow
    there = _columns(path, schema)
    wanted = [pick(path, schema.names, key, key)] if key else [there[i] for i in places(there)]
    types = [schema.field(name).type for name in wanted]
    if len(types) == 1 and (arrow.types.is_list(types[0]) or arrow.types.is_large_list(types[0])
                            or arrow.types.is_fixed_size_list(types[0])):  # fmt: skip
        lists = file.read(columns=wanted).column(0).combine_chunks()
        flat, n = lists.flatten().to_numpy(zero_copy_only=False), len(lists)
        if n == 0 or len(flat) % n or len(set(arrow.compute.list_value_length(lists).to_pylist())) > 1:
            raise InputError(str(path), f"must hold lists of one length in {wanted[0]!r}")
        return flat.reshape(n, -1), None
    odd = [name for name, kind in zip(wanted, types, strict=True)
           if not (arrow.types.is_floating(kind) or arrow.types.is_integer(kind))]  # fmt: skip
    if odd:
        raise InputError(
            str(path),
            f"must hold numbers in all columns; {odd[0]!r} is {schema.field(odd[0]).type}",
            remedy=_TEXT,
        )
    narrow = all(arrow.types.is_float32(kind) or arrow.types.is_float16(kind) for kind in types)
    matrix = np.empty((file.metadata.num_rows, len(wanted)), dtype=np.float32 if narrow else np.float64)
    done = 0
    for batch in file.iter_batches(columns=wanted):
        for j, name in enumerate(wanted):
            matrix[done : done + len(batch), j] = batch.column(name).to_numpy(zero_copy_only=False)
        done += len(batch)
    return matrix, wanted


def parquet_column(path: Path, key: str | None) -> Array:
    """Read a column, the last if none is named."""
    file, _ = _parquet(path)
    there = file.schema_arrow.names if key else _columns(path, file.schema_arrow)
    column = file.read(columns=[pick(path, there, key, there[-1])]).column(0)
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise InputError(str(path), f"has no label in row {row}", remedy="drop such rows first")
    found: Array = column.to_numpy()
    return found.astype(str) if found.dtype.kind == "O" else found


def _columns(path: Path, schema: Any) -> list[str]:
    """Return the names of the columns but for those that pandas keeps its index in."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in index]
    if not names or len(set(names)) < len(names):
        raise InputError(str(path), "must have columns with names of their own", found=few(names) or "none")
    return names


def _parquet(path: Path) -> tuple[Any, Any]:
    checked(path)
    arrow, parquet = need("pyarrow", path), need("pyarrow.parquet", path)
    need("pyarrow.compute", path)
    try:
        return parquet.ParquetFile(path), arrow
    except arrow.ArrowInvalid:
        raise InputError(str(path), "cannot be read as .parquet: it is damaged or something else") from None


def few(names: Sequence[Any], most: int = 10) -> str:
    """List the first names, and say how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def are_numbers(cells: list[str]) -> bool:
    """Return whether there are cells and all are numbers."""
    with suppress(ValueError):
        return bool([float(cell) for cell in cells])
    return False


def are_whole(cells: list[str]) -> bool:
    """Return whether there are cells and all are whole numbers."""
    return are_numbers(cells) and all(float(cell).is_integer() for cell in cells)
