"""The file formats that commands read: arrays (.npy, .npz, .safetensors) and tables (text, JSON, Parquet)."""

import csv
import gzip
import json
import math
import re
import sys
import zipfile
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cached_property
from importlib import import_module
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import IO, Any, TypeAlias

import numpy as np

from nacp._types import Array
from nacp.errors import InputError, meant
from nacp.labels.exports import parquet_values
from nacp.points import check_plain

STDIN = "-"
ARRAYS = (".npy", ".npz", ".safetensors")
TEXTS = (".csv", ".tsv")
LINES = ".jsonl"
PARQUET = ".parquet"
PROBS = ("probs", "probabilities")
"""Names of arrays, and of columns of lists, that hold all probabilities of a row."""
_KEYED = re.compile(r"(.*\.(?:npz|(?:csv|tsv|jsonl)(?:\.gz)?|parquet|safetensors)):([^:/\\]+)", re.DOTALL)
_MARKS = "\t;|,"  # what may separate columns; a comma only if no other one does, as it may be a decimal comma
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")
_ESCAPED = re.compile(r"'[=+\-@]")
_LARGEST_WHOLE = 2**53  # the largest float up to which all whole numbers are floats
_EXPANDED_MAX, _EXPANSION_MAX = 50_000_000, 100


# Names of files, and texts


def split_key(name: str) -> tuple[Path, str | None]:
    """Split ``file.npz:key`` into the file and the key."""
    keyed = _KEYED.fullmatch(name)
    return (Path(keyed[1]), keyed[2]) if keyed else (Path(name), None)


def kind(path: str | Path) -> str:
    """Return the ending that names the format of a file: ``.csv`` for ``points.csv.gz``."""
    path = Path(path)
    inner = Path(path.stem).suffix
    return inner if path.suffix == ".gz" and inner in (*TEXTS, LINES) else path.suffix


def checked(path: Path) -> Path:
    """Return the path of a file that exists and is not empty."""
    if path.is_dir():
        raise InputError(str(path), "is a folder", remedy="give a file")
    if not path.exists():
        raise InputError(str(path), "does not exist")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(str(path), "is empty")
    return path


def need(module: str, path: Path) -> Any:
    """Import a module that a format needs, or say what to install."""
    try:
        return import_module(module)
    except ImportError:
        problem = f"needs {module.partition('.')[0]}, which is not installed: pip install 'nacp[io]'"
        raise InputError(str(path), problem) from None


def damaged(path: Path, problem: str = "it is damaged or of another format") -> InputError:
    """Return the error for a file that cannot be read."""
    name = "standard input" if str(path) == STDIN else str(path)
    return InputError(name, f"cannot be read as {kind(path) or 'CSV'}: {problem}")


def check_expansion(path: Path, size: int) -> None:
    """Refuse a file whose content is far larger than the file, before it fills the memory."""
    most = max(_EXPANDED_MAX, _EXPANSION_MAX * path.stat().st_size)
    if size > most:
        problem = f"expands to more than {most:,} bytes, which a file of this size may not"
        raise InputError(str(path), problem, remedy="give it uncompressed")


class _Unpacked(gzip.GzipFile):
    """A compressed file that must not expand without bound."""

    def read1(self, size: int = -1) -> bytes:
        """Read some bytes."""
        found = super().read1(size)
        check_expansion(Path(self.name), self.tell())
        return found


@contextmanager
def text_lines(path: Path) -> Iterator[IO[str]]:
    """Open a text file, compressed or not, or standard input; say what is wrong with it if it is not text."""
    with ExitStack() as stack:
        if str(path) == STDIN:
            if sys.stdin is None or sys.stdin.closed:
                raise InputError("standard input", "is closed", remedy="give a file")
            file: IO[str] = sys.stdin
        else:
            opener: Any = _Unpacked if checked(path).suffix == ".gz" else open
            raw = stack.enter_context(opener(path, "rb"))
            file = stack.enter_context(TextIOWrapper(raw, encoding="utf-8-sig", newline=""))
        try:
            yield file
        except UnicodeDecodeError as error:
            if b"\0" in error.object and error.object[:2] not in (b"\xff\xfe", b"\xfe\xff"):
                raise damaged(path, "it is not text") from None
            raise damaged(path, "it is not text in UTF-8; save it as UTF-8") from None
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise damaged(path, "it is damaged, or not compressed by gzip") from None


def pick(path: Path, there: Sequence[str], wanted: str) -> int:
    """Return the place of a column or an array."""
    if wanted not in there:
        raise InputError(str(path), f"holds no {wanted!r}, but {few(there)}{meant(wanted, there)}")
    return list(there).index(wanted)


def no_class(column: str) -> str:
    """Return what to do about a column that is no class."""
    return f"if the column {column!r} names the rows, give --id {quote(column)}; else give --classes FILE"


def few(names: Sequence[Any], most: int = 10) -> str:
    """List the first names, and say how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def as_cell(value: Any) -> str:
    """Return a value as the cell of a text table; a missing one is empty, and 3.0 is 3."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def are_numbers(cells: Sequence[str]) -> bool:
    """Return whether there are cells and all are numbers."""
    with suppress(ValueError):
        return bool([float(cell) for cell in cells])
    return False


def are_whole(cells: Sequence[str]) -> bool:
    """Return whether there are cells and all are whole numbers that a float holds exactly."""
    return are_numbers(cells) and all(
        number.is_integer() and abs(number) <= _LARGEST_WHOLE for number in map(float, cells)
    )


# Arrays


def read_array(path: Path, key: str | None, usual: Sequence[str]) -> Array:
    """Read an array: the one with the key, or the only one, or a usual one; ``.npy`` is memory-mapped."""
    array = _read_array(path, key, usual)
    check_plain(array, str(path))
    if not array.ndim:
        raise InputError(str(path), "holds a single value instead of an array")
    return array


def _read_array(path: Path, key: str | None, usual: Sequence[str]) -> Array:
    if checked(path).suffix == ".npy":
        with _readable(path):
            return np.lib.format.open_memmap(path, mode="r")
    names = array_names(path)
    found = [name for name in usual if name in names]
    wanted = key or (names[0] if len(names) == 1 else found[0] if found else None)
    if wanted is None:
        remedy = f"name the one that is meant, as {path}:{names[0] if names else 'NAME'}"
        raise InputError(str(path), f"holds no {usual[0]!r}, but {few(names)}", remedy=remedy)
    pick(path, names, wanted)
    with _readable(path):
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return np.asarray(arrays[wanted])
        with need("safetensors", path).safe_open(path, framework="numpy") as tensors:
            if tensors.get_slice(wanted).get_dtype() != "BF16":
                return np.asarray(tensors.get_tensor(wanted))
        stored = dict(need("safetensors", path).deserialize(path.read_bytes()))[wanted]
        bits = np.frombuffer(stored["data"], "<u2").reshape(stored["shape"])
        return (bits.astype(np.uint32) << 16).view(np.float32)  # the upper half of a float32


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays in a file; ``.npy`` has none."""
    if path.suffix == ".safetensors":
        opener = need("safetensors", path).safe_open
        with _readable(path), opener(path, framework="numpy") as tensors:
            return list(tensors.keys())
    if path.suffix != ".npz":
        return []
    with _readable(path), zipfile.ZipFile(path) as packed:
        check_expansion(path, sum(each.file_size for each in packed.infolist()))
        return [each.removesuffix(".npy") for each in packed.namelist()]


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say that a file is damaged, or holds what only pickle could read.

    Readers of binary formats raise almost any error for damaged files; those that name a file are about the
    file system.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename:
            raise
        if "Python objects in dtype" not in str(error) and "Object arrays" not in str(error):
            raise damaged(path) from None
        problem = "holds Python objects (dtype object), which only pickle could read, and that may run code"
        remedy = "save texts as such, by np.save(file, labels.astype(str)), and numbers as numbers"
        raise InputError(str(path), problem, remedy=remedy) from None


# Tables. Each has a `header`, the names of its columns (of a text table the first row, even if it has
# none); a `matrix_header`, the same where the columns hold numbers; `numbers`, columns as a matrix;
# `cells`, a column as texts, empty where one is missing; `first_cells`, those of the first row; and
# `lists`, the matrix in the column of lists that the key or `PROBS` names, with the names of its columns.


class TextTable:
    """A text table. A file is read anew by each method; standard input is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = "standard input" if str(path) == STDIN else str(path)
        self._kept: list[str] | None = None
        if str(path) == STDIN:
            with text_lines(path) as file:
                self._kept = file.read().removeprefix("\ufeff").splitlines(keepends=True)
        self._mark = "\t" if kind(path) == ".tsv" else self._separator()
        self.header: list[str] = list(map(unescaped, next(self.rows())))
        self.width = len(self.header)

    def rows(self) -> Iterator[list[str]]:
        """Yield rows of one length. An empty line is a row of one empty cell, or the end of a table."""
        blank, length = 0, 0
        with self._lines() as lines:
            reader = csv.reader(lines, delimiter=self._mark)
            try:
                for row in reader:
                    if len(row) <= 1 and not "".join(row).strip():
                        if length > 1:
                            blank = blank or reader.line_num
                            continue
                        row = [""]
                    if blank:
                        problem = f"has an empty line, {blank}, above others: is something missing?"
                        raise InputError(self._name, problem)
                    length = length or len(row)
                    if len(row) != length:
                        found = f"line {reader.line_num} has {len(row):,} cells, not {length:,}"
                        raise InputError(self._name, f"must have rows of one length; {found}")
                    yield [cell.strip() for cell in row]
            except csv.Error as error:
                raise damaged(self.path, f"it is not text, or has a very long cell ({error})") from None
        if not length:
            raise InputError(self._name, "is empty")

    @cached_property
    def matrix_header(self) -> list[str] | None:
        """The first row, unless it holds numbers and is a row of the matrix."""
        rows = self._rows_of_numbers()
        first = next(rows, None)
        if first is None:
            raise InputError(self._name, "is empty")
        if are_numbers(first):
            if not self._is_header(first, rows):
                return None
        else:
            self._refuse_holes(first)
        if next(self._rows_of_numbers(start=1), None) is None:
            raise InputError(self._name, "has a header and nothing below it")
        return self.header

    def numbers(self, columns: Sequence[int]) -> Array:
        values, start = array("d"), int(self.matrix_header is not None)
        for number, row in enumerate(self._rows_of_numbers(start), start + 1):
            chosen = [row[i] for i in columns]
            try:
                values.extend(map(float, chosen))
            except ValueError:
                i = next(i for i in columns if not are_numbers([row[i]]))
                mixed = any(are_numbers([cell]) for cell in chosen)
                remedy: str | None = "probabilities come first, then labels"
                if not row[i]:
                    remedy = None
                elif mixed:
                    remedy = no_class(self.header[i])
                called = f", column {self.header[i]!r}" if start else ""
                found = f"{repr(row[i]) if row[i] else 'an empty cell'} in line {number}{called}"
                problem = "must hold one number per cell"
                raise InputError(self._name, problem, found=found, remedy=remedy) from None
        return np.frombuffer(values, dtype=np.float64).reshape(-1, len(columns))

    def cells(self, column: int) -> list[str]:
        return [unescaped(row[column]) for row in islice(self.rows(), 1, None)]

    def first_cells(self) -> list[str]:
        return next(islice(self.rows(), 1, None), self.header)

    def lists(self, key: str | None) -> None:
        _refuse_key(self.path, key)

    def _rows_of_numbers(self, start: int = 0) -> Iterator[list[str]]:
        """Yield rows without empty lines; where commas separate nothing, those in numbers are points."""
        for row in islice(self.rows(), start, None):
            if self._mark != ",":
                row = [cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in row]
            if row != [""]:
                yield row

    def _refuse_holes(self, header: list[str]) -> None:
        """Refuse a header that looks like a row of probabilities with a hole."""
        numbers = [float(cell) for cell in header if are_numbers([cell])]
        if numbers and ("" in header[1:] or any(0 < number < 1 for number in numbers)):
            odd = next(cell for cell in header if not are_numbers([cell]))
            raise InputError(self._name, "must hold one number per cell", found=f"{odd!r} in its first line")

    def _is_header(self, first: list[str], below: Iterator[list[str]]) -> bool:
        """Return whether a first row of numbers is a header.

        It is if it says 0, 1, 2, ...; or if it has different whole numbers and some row below is written
        otherwise. 1 and 0 are a point; 0 and 1 are one if all rows look like that.
        """
        if len(set(first)) < max(len(first), 2) or not all(map(str.isdecimal, first)) or first == ["1", "0"]:
            return False
        if len(first) > 2 and first == [str(i) for i in range(len(first))]:
            return True
        whole = {all(map(str.isdecimal, row)) for row in below}
        if first == ["0", "1"] and len(whole) == 2:
            problem = "begins with 0,1, which may be a header or a point: name the columns, or write 0.0,1.0"
            raise InputError(self._name, problem)
        return False in whole

    def _lines(self) -> Any:
        return text_lines(self.path) if self._kept is None else nullcontext(self._kept)

    def _separator(self) -> str:
        """Return the mark that divides the first rows into equally many cells."""
        with self._lines() as lines:
            first = list(islice(lines, 20))
        for mark in _MARKS:
            with suppress(csv.Error):
                lengths = [len(row) for row in csv.reader(first, delimiter=mark)]
                # The last of the lines may be a part of a row.
                if len(set(lengths[: max(len(lengths) - 1, 1)])) == 1 and lengths[0] > 1:
                    return mark
        return ","


class JsonTable:
    """JSON lines. If the lines are objects, their keys are the header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: list[str] | None = None
        self.matrix_header: list[str] | None = None
        self._rows: list[list[Any]] = []
        with text_lines(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    self._rows.append(self._row(number, line))
        if not self._rows:
            raise InputError(str(path), "is empty")
        self.width = len(self._rows[0])
        if not self.width or any(len(row) != self.width for row in self._rows):
            raise InputError(str(path), "must hold lists of one length that are not empty")

    def _row(self, number: int, line: str) -> list[Any]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(str(self.path), f"is not JSON in line {number}: {error}") from None
        keys = list(value) if isinstance(value, dict) else []
        if not self._rows:
            self.header = self.matrix_header = keys or None
        first = self.header or []
        if set(keys) != set(first):
            problem = f"has other keys in line {number} than in the first, {few(first) or 'none'}"
            raise InputError(str(self.path), problem, found=few(keys) or "none")
        if isinstance(value, dict):
            return [value[key] for key in first]
        return value if isinstance(value, list) else [value]

    def numbers(self, columns: Sequence[int]) -> Array:
        return self._matrix([[row[i] for i in columns] for row in self._rows])

    def _matrix(self, rows: list[list[Any]]) -> Array:
        odd = next((each for row in rows for each in row if type(each) not in (int, float)), None)
        if odd is not None:
            raise InputError(str(self.path), "must hold numbers only", found=repr(odd)[:80])
        try:
            return np.array(rows, dtype=np.float64)
        except (ValueError, OverflowError) as error:
            problem = f"must hold lists of one length, of numbers that are not too large: {error}"
            raise InputError(str(self.path), problem) from None

    def cells(self, column: int) -> list[str]:
        return _plain_cells(self.path, [row[column] for row in self._rows])

    def first_cells(self) -> list[str]:
        return [as_cell(each) for each in self._rows[0]]

    def lists(self, key: str | None) -> tuple[Array, list[str] | None] | None:
        if self.header is None:
            _refuse_key(self.path, key)
            return None
        inner = key or next((name for name in PROBS if name in self.header), None)
        if inner is None:
            return None
        place = pick(self.path, self.header, inner)
        values = [row[place] for row in self._rows]
        names = list(values[0]) if isinstance(values[0], dict) else None
        if names and all(isinstance(each, dict) and set(each) == set(names) for each in values):
            return self._matrix([[each[name] for name in names] for each in values]), names
        if not values[0] or not all(isinstance(each, list) for each in values):
            problem = f"must hold lists of numbers in {inner!r}, or objects with the same keys"
            raise InputError(str(self.path), problem)
        return self._matrix(values), None


class ParquetTable:
    """A Parquet file. The columns in which pandas keeps its index are left out, unless one is the key."""

    def __init__(self, path: Path, key: str | None = None) -> None:
        self.path = path
        self._types = need("pyarrow", path).types
        opener = need("pyarrow.parquet", path).ParquetFile
        with _readable(self.path):
            self._file = opener(path)
            self._schema: Any = self._file.schema_arrow
            names = list(self._schema.names)
            values = parquet_values(self._file)
        check_expansion(path, 8 * values)
        index: Any = []
        with suppress(ValueError, RecursionError, AttributeError, TypeError):  # metadata of another form
            index = list((self._schema.pandas_metadata or {}).get("index_columns", []))
        self.header = self.matrix_header = [each for each in names if each not in index or each == key]
        self.width = len(self.header)
        if not self.header or len(set(self.header)) < self.width:
            problem, found = "must have columns with names of their own", few(self.header) or "none"
            raise InputError(str(path), problem, found=found)

    def numbers(self, columns: Sequence[int]) -> Array:
        wanted, types = [self.header[i] for i in columns], self._types
        kinds = [self._schema.field(name).type for name in wanted]
        for name, each in zip(wanted, kinds, strict=True):
            if not (types.is_floating(each) or types.is_integer(each)):
                problem = f"must hold numbers in all columns; {name!r} is {each}"
                raise InputError(str(self.path), problem, remedy=no_class(name))
        narrow = all(types.is_float32(each) or types.is_float16(each) for each in kinds)
        shape = self._file.metadata.num_rows, len(wanted)
        matrix = np.empty(shape, dtype=np.float32 if narrow else np.float64)
        for j, name in enumerate(wanted):
            matrix[:, j] = self._column(name).to_numpy()
        return matrix

    def cells(self, column: int) -> list[str]:
        with _readable(self.path):  # dates may be out of range
            values = self._column(self.header[column]).to_pylist()
        return _plain_cells(self.path, values)

    def first_cells(self) -> list[str]:
        kinds = [self._schema.field(name).type for name in self.header]
        return ["0.5" if self._types.is_floating(each) else "" for each in kinds]

    def lists(self, key: str | None) -> tuple[Array, list[str] | None] | None:
        names = (*PROBS, self.header[0]) if self.width == 1 else PROBS
        inner = key or next((name for name in names if name in self.header and self._is_list(name)), None)
        if inner is None:
            return None
        place = pick(self.path, self.header, inner)
        if not self._is_list(inner):
            return self.numbers([place]), [inner]
        lists = self._column(inner).combine_chunks()
        lengths = need("pyarrow.compute", self.path).list_value_length(lists).unique()
        if len(lengths) != 1 or lengths.null_count:
            raise InputError(str(self.path), f"must hold lists of one length in {inner!r}")
        return lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1), None

    def _is_list(self, name: str) -> bool:
        kind, types = self._schema.field(name).type, self._types
        return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))

    def _column(self, name: str) -> Any:
        with _readable(self.path):
            return self._file.read(columns=[name]).column(0)


Table: TypeAlias = TextTable | JsonTable | ParquetTable


def open_table(path: Path, key: str | None = None) -> Table:
    """Open a table of any format. The key is the column that will be asked for, if it is known."""
    if str(path) == STDIN or kind(path) in TEXTS:
        return TextTable(path)
    if kind(path) == PARQUET:
        return ParquetTable(checked(path), key)
    if kind(path) == LINES:
        return JsonTable(path)
    if path.is_dir():
        checked(path)
    problem = "cannot be read: it must end in .npy, .npz, .csv, .tsv, .jsonl, .parquet or .safetensors"
    raise InputError(str(path), problem, remedy=".csv, .tsv and .jsonl may be compressed: .gz")


def escaped(cell: Any) -> Any:
    """Return a cell that a spreadsheet does not execute: text that begins with =, +, - or @ gets a ' first.

    Such cells are read back as they were.
    """
    if isinstance(cell, str) and cell[:1] in "=+-@" and cell and not are_numbers([cell]):
        return f"'{cell}"
    return cell


def unescaped(cell: str) -> str:
    """Return the cell that `escaped` was given."""
    return cell[1:] if _ESCAPED.match(cell) else cell


def _refuse_key(path: Path, key: str | None) -> None:
    if key is not None:
        raise InputError(str(path), "is one matrix", remedy=f"give it without :{key}")


def _plain_cells(path: Path, values: list[Any]) -> list[str]:
    odd = next((each for each in values if isinstance(each, list | dict | bool | bytes)), None)
    if odd is not None:
        raise InputError(str(path), "must hold texts or numbers as labels", found=repr(odd)[:80])
    return [as_cell(each) for each in values]
