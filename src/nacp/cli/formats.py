"""The file formats that commands read: arrays (.npy, .npz, .safetensors) and tables (text, JSON, Parquet)."""

import csv
import gzip
import json
import math
import operator
import re
import sys
import tokenize
import zipfile
import zlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from nacp._types import Array
from nacp.cli.terminal import SETTINGS
from nacp.errors import InputError

STDIN = "-"
ARRAYS = (".npy", ".npz", ".safetensors")
TEXTS = (".csv", ".tsv")
LINES = ".jsonl"
PARQUET = ".parquet"
NAMED = {"id", "item", "items"}
"""Headers of a first column that names the rows."""
NUMBERED = {"", "index", "row", "unnamed: 0"} | NAMED
"""Headers of a first column that numbers or names the rows; pandas writes the empty one."""
PROBS = ("probs", "probabilities")
"""Headers of a column of lists that hold all probabilities of a row."""
LABEL = {"label", "labels"}
TRUE = {"checked", "clean", "true", "truth", "gold"}
TEXT_COLUMN = (
    "a column of text must come first and be called id, or be the label column; or say by "
    "--classes FILE which columns are meant"
)
_KEYED = re.compile(r"(.*\.(?:npz|(?:csv|tsv|jsonl)(?:\.gz)?|parquet|safetensors)):([^:/\\]+)", re.DOTALL)
_SEPARATORS = {";": ("';'", "';'"), "\t": ("tabs", "tab"), ",": ("','", "','")}
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")
UNREADABLE = (
    ValueError,
    TypeError,
    EOFError,
    OverflowError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy raises for files that are damaged or of another format."""


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


def is_table(path: str | Path) -> bool:
    """Return whether the ending of a file is that of a table, or it is standard input."""
    return str(path) == STDIN or kind(path) in (*TEXTS, LINES, PARQUET)


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
        package = module.partition(".")[0]
        raise InputError(
            str(path), f"needs {package}, which is not installed: pip install 'nacp[io]'"
        ) from None


def damaged(path: Path, problem: str = "it is damaged or of another format") -> InputError:
    """Return the error for a file that cannot be read."""
    name = "standard input" if str(path) == STDIN else str(path)
    return InputError(name, f"cannot be read as {kind(path) or 'CSV'}: {problem}")


@contextmanager
def text_lines(path: Path) -> Iterator[IO[str]]:
    """Open a text file, compressed or not, or standard input; say what is wrong with it if it is not text."""
    with ExitStack() as stack:
        if str(path) == STDIN:
            file: IO[str] = sys.stdin
        else:
            opener: Any = gzip.open if checked(path).suffix == ".gz" else open
            file = stack.enter_context(opener(path, "rt", encoding="utf-8-sig", newline=""))
        try:
            yield file
        except UnicodeDecodeError as error:
            if b"\0" in error.object and error.object[:2] not in (b"\xff\xfe", b"\xfe\xff"):
                raise damaged(path, "it is not text") from None
            raise damaged(path, "it is not text in UTF-8; save it as UTF-8") from None
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise damaged(path, "it is damaged, or not compressed by gzip") from None


def pick(path: Path, there: Sequence[str], key: str | None, usual: str) -> str:
    """Return one of several names: the key, or the only one, or the usual one."""
    wanted = key or (there[0] if len(there) == 1 else usual)
    if wanted not in there:
        raise InputError(
            str(path), f"holds no {wanted!r}, but {few(there)}", remedy=f"name one as {path}:name"
        )
    return wanted


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
    """Return whether there are cells and all are whole numbers."""
    return are_numbers(cells) and all(float(cell).is_integer() for cell in cells)


def separator(path: str | Path, *, usual: bool = False) -> str:
    """Return what separates the cells of a text table: the mark given by --separator, or the `usual` one."""
    given = None if usual else SETTINGS.get().separator
    return given or ("\t" if kind(path) == ".tsv" else ",")


# Arrays


def read_array(path: Path, key: str | None, usual: str) -> Array:
    """Read an array: the one with the key, or the only one, or the usual one; ``.npy`` is memory-mapped."""
    if checked(path).suffix == ".safetensors":
        return _read_safetensors(path, key, usual)
    try:
        if path.suffix == ".npy":
            return np.lib.format.open_memmap(path, mode="r")
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return np.asarray(file[pick(path, file.files, key, usual)])
    except InputError:
        raise
    except UNREADABLE as error:
        if "Python objects in dtype" not in str(error) and "Object arrays" not in str(error):
            raise damaged(path) from None
        raise InputError(
            str(path),
            "holds Python objects (dtype object), which only pickle could read, and that may run code",
            remedy="save texts as such, by np.save(file, labels.astype(str)), and numbers as numbers",
        ) from None


def _read_safetensors(path: Path, key: str | None, usual: str) -> Array:
    module = need("safetensors", path)
    try:
        file = module.safe_open(path, framework="numpy")
    except module.SafetensorError:
        raise damaged(path) from None
    with file:
        wanted = pick(path, list(file.keys()), key, usual)
        if file.get_slice(wanted).get_dtype() == "BF16":  # NumPy lacks it: it is the upper half of a float32
            tensor = dict(module.deserialize(path.read_bytes()))[wanted]
            bits = np.frombuffer(tensor["data"], "<u2").reshape(tensor["shape"])
            return (bits.astype(np.uint32) << 16).view(np.float32)
        try:
            return np.asarray(file.get_tensor(wanted))
        except (TypeError, AttributeError, module.SafetensorError):
            raise InputError(
                f"{path}:{wanted}", "is of a type that NumPy does not have", remedy="save it as float32"
            ) from None


# Tables


class Table(ABC):
    """A file with rows and columns.

    Attributes
    ----------
    path : Path
        The file, or ``-`` for standard input.
    header : list of str, or None
        The names of its columns.
    width : int
        The number of its columns.
    """

    path: Path
    header: list[str] | None
    width: int

    @property
    def matrix_header(self) -> list[str] | None:
        """The names of the columns if these hold numbers."""
        return self.header

    @abstractmethod
    def numbers(self, columns: Sequence[int]) -> Array:
        """Return columns of numbers as a matrix."""

    @abstractmethod
    def cells(self, column: int) -> list[str]:
        """Return a column as texts, an empty one where a cell is missing."""

    def lists(self, key: str | None) -> tuple[Array, list[str] | None] | None:
        """Return the matrix in a column of lists, the one named by the key or by `PROBS`, and its names."""
        if key is not None:
            raise InputError(str(self.path), "is one matrix", remedy=f"give it without :{key}")
        return None

    def label_column(self, key: str | None, *, called: set[str] = LABEL, true: bool = False) -> int:
        """Return which column holds the labels.

        It is the one named by the key, the only one beside a first column of ids, or the one whose name is
        in `called`, unless these are `true` labels and another column is called checked or the like. A
        choice among several is refused.
        """
        there = self.header or []
        if key is not None:
            return there.index(pick(self.path, there, key, key))
        start = int(len(there) > 1 and there[0].lower() in NUMBERED)
        if len(there) - start == 1:
            return start
        names = [name.lower() for name in there]
        found = [i for i, name in enumerate(names) if name in called]
        if len(found) == 1 and not (true and TRUE.intersection(names)):
            return found[0]
        raise InputError(
            str(self.path),
            f"has {len(there):,} columns: {few(there)}",
            remedy=f"name the one that is meant, as {self.path}:{there[start] or 'NAME'}",
        )

    def labels(
        self, key: str | None, *, called: set[str] = LABEL, true: bool = False, gaps: bool = False
    ) -> tuple[list[str], bool]:
        """Return the column of labels, and whether its header is left out; with `gaps` some are missing."""
        if self.header is not None:
            return self.cells(self.label_column(key, called=called, true=true)), True
        if key is not None or self.width != 1:
            raise InputError(str(self.path), "must hold one label on each line, or objects with keys")
        return self.cells(0), True


class TextTable(Table):
    """A text table; its header is its first row, which may hold numbers.

    A file is read anew by each method; standard input is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = "standard input" if str(path) == STDIN else str(path)
        self._kept: list[str] | None = None
        if str(path) == STDIN:
            with text_lines(path) as file:
                self._kept = file.read().removeprefix("\ufeff").splitlines(keepends=True)
        given, usual = separator(path), separator(path, usual=True)
        first = next(iter(self._first_lines(1)), "")
        # A table in which the usual mark alone occurs does not have the one that --separator gives.
        self._separator = usual if usual in first and given not in first else given
        self.header: list[str] = next(self.rows())[1]
        self.width = len(self.header)
        if self.width == 1:
            self._refuse_separator()

    def rows(self, *, gaps: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yield rows of one length with their line numbers; empty lines may only be the last ones.

        With `gaps`, an empty line among rows of one cell is an empty cell.
        """
        empty, length = 0, 0
        with text_lines(self.path) if self._kept is None else nullcontext(self._kept) as lines:
            reader = csv.reader(lines, delimiter=self._separator)
            try:
                for row in reader:
                    if gaps and length <= 1 and not "".join(row).strip() and len(row) <= 1:
                        row = [""]
                    elif not row or (row[0] and not "".join(row).strip()):
                        empty = empty or reader.line_num
                        continue
                    if empty and length:
                        raise InputError(
                            self._name, f"has an empty line, {empty}, above others: is something missing?"
                        )
                    length, empty = length or len(row), 0
                    if len(row) != length:
                        self._refuse_separator()
                        raise InputError(
                            self._name,
                            f"must have rows of one length; line {reader.line_num} has {len(row):,} cells, "
                            f"not {length:,}",
                        )
                    yield reader.line_num, [cell.strip() for cell in row]
            except csv.Error as error:
                raise damaged(self.path, f"it is not text ({error})") from None
        if not length:
            raise InputError(self._name, "is empty")

    @cached_property
    def matrix_header(self) -> list[str] | None:
        """The first row, unless it holds numbers and is a row of the matrix."""
        rows = self._rows_of_numbers()
        _, first = next(rows)
        if are_numbers(first):
            if not self._is_header(first, rows):
                return None
        else:
            self._refuse_holes(first)
        if next(self._rows_of_numbers(start=1), None) is None:
            raise InputError(self._name, "has a header and nothing below it")
        return first

    def numbers(self, columns: Sequence[int]) -> Array:
        """Return columns of numbers as a matrix."""
        values, chosen = array("d"), operator.itemgetter(*columns, columns[0])  # a tuple even of one column
        for line, row in self._rows_of_numbers(start=int(self.matrix_header is not None)):
            try:
                values.extend(map(float, chosen(row)[:-1]))
            except ValueError:
                odd = next(cell for cell in chosen(row) if not are_numbers([cell]))
                self._refuse_separator()
                raise InputError(
                    self._name,
                    "must hold one number per cell below its header",
                    found=f"{odd!r} in line {line}",
                    remedy=TEXT_COLUMN,
                ) from None
        return np.frombuffer(values, dtype=np.float64).reshape(-1, len(columns))

    def cells(self, column: int) -> list[str]:
        """Return the cells of a column below the header."""
        return [row[column] for _, row in islice(self.rows(), 1, None)]

    def labels(
        self, key: str | None, *, called: set[str] = LABEL, true: bool = False, gaps: bool = False
    ) -> tuple[list[str], bool]:
        """Return the column of labels; that of a table of one column may begin with a header."""
        if self.width > 1:
            return super().labels(key, called=called, true=true, gaps=gaps)
        cells = [row[0] for _, row in self.rows(gaps=gaps)]
        if key is None:
            return cells, False
        pick(self.path, self.header, key, key)
        return cells[1:], True

    def _rows_of_numbers(self, start: int = 0) -> Iterator[tuple[int, list[str]]]:
        """Yield rows; where commas separate nothing, those in numbers are decimal points."""
        for line, row in islice(self.rows(), start, None):
            if self._separator != ",":
                row = [cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in row]
            yield line, row

    def _refuse_holes(self, header: list[str]) -> None:
        """Refuse a header that looks like a row of probabilities with a hole."""
        numbers = [float(cell) for cell in header if are_numbers([cell])]
        if numbers and ("" in header[1:] or any(0 < number < 1 for number in numbers)):
            odd = next(cell for cell in header if not are_numbers([cell]))
            raise InputError(self._name, "must hold one number per cell", found=f"{odd!r} in its first line")

    def _is_header(self, first: list[str], below: Iterator[tuple[int, list[str]]]) -> bool:
        """Return whether a first row of numbers is a header.

        It is if it says 0, 1, 2, ...; or if it has different whole numbers and some row below is written
        otherwise. 1 and 0 are a point; 0 and 1 are one if all rows look like that.
        """
        if len(set(first)) < max(len(first), 2) or not all(map(str.isdecimal, first)) or first == ["1", "0"]:
            return False
        if len(first) > 2 and first == [str(i) for i in range(len(first))]:
            return True
        whole = (all(map(str.isdecimal, row)) for _, row in below)
        if first != ["0", "1"]:
            return not all(whole)
        kinds = set(whole)
        if len(kinds) == 2:
            raise InputError(
                self._name,
                "begins with 0,1, which may be a header or a point: name the columns, or write 0.0,1.0",
            )
        return kinds == {False}

    def _first_lines(self, number: int) -> list[str]:
        if self._kept is not None:
            return self._kept[:number]
        with text_lines(self.path) as file:
            return list(islice(file, number))

    def _refuse_separator(self) -> None:
        """Refuse a table if another mark comes equally often in each of its first lines."""
        lines = self._first_lines(5)
        for mark, (name, option) in _SEPARATORS.items():
            counts = {line.count(mark) for line in lines}
            if mark != self._separator and len(counts) == 1 and 0 not in counts:
                raise InputError(
                    f"{self._name}:",
                    f"its columns seem to be separated by {name}",
                    remedy=f"give --separator {option}",
                )


class JsonTable(Table):
    """JSON lines. If the lines are objects, their keys are the header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: list[str] | None = None
        self._rows: list[list[Any]] = []
        with text_lines(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    self._add(number, line)
        if not self._rows:
            raise InputError(str(path), "is empty")
        self.width = len(self._rows[0])
        if any(len(row) != self.width for row in self._rows):
            raise InputError(str(path), "must hold lists of one length")

    def _add(self, number: int, line: str) -> None:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(str(self.path), f"is not JSON in line {number}: {error}") from None
        keys = list(value) if isinstance(value, dict) else None
        if not self._rows:
            self.header = keys
        if set(keys or ()) != set(self.header or ()):
            raise InputError(
                str(self.path),
                f"has other keys in line {number}",
                found=few(keys or ["none"]),
                remedy=few(self.header or ["none"]),
            )
        if keys is None:
            self._rows.append(value if isinstance(value, list) else [value])
        else:
            self._rows.append([value[key] for key in self.header or ()])

    def numbers(self, columns: Sequence[int]) -> Array:
        """Return columns of numbers as a matrix."""
        return self._matrix([[row[i] for i in columns] for row in self._rows])

    def _matrix(self, rows: list[list[Any]]) -> Array:
        odd = next((each for row in rows for each in row if type(each) not in (int, float)), None)
        if odd is not None:
            raise InputError(str(self.path), "must hold numbers only", found=repr(odd))
        try:
            return np.array(rows, dtype=np.float64)
        except (ValueError, OverflowError) as error:
            raise InputError(
                str(self.path), f"must hold lists of one length, of numbers that are not too large: {error}"
            ) from None

    def cells(self, column: int) -> list[str]:
        """Return the texts or numbers under a key; null is an empty cell."""
        cells = [row[column] for row in self._rows]
        odd = next((each for each in cells if isinstance(each, list | dict | bool)), None)
        if odd is not None:
            raise InputError(str(self.path), "must hold texts or numbers as labels", found=repr(odd))
        return [as_cell(each) for each in cells]

    def lists(self, key: str | None) -> tuple[Array, list[str] | None] | None:
        """Return the matrix in the lists, or the objects, under the key or one of `PROBS`."""
        if self.header is None:
            return super().lists(key)
        inner = key or next((name for name in PROBS if name in self.header), None)
        if inner is None:
            return None
        place = self.header.index(pick(self.path, self.header, inner, inner))
        values = [row[place] for row in self._rows]
        names = list(values[0]) if isinstance(values[0], dict) else None
        if names is not None and all(isinstance(each, dict) and set(each) == set(names) for each in values):
            return self._matrix([[each[name] for name in names] for each in values]), names
        if not all(isinstance(each, list) for each in values):
            raise InputError(
                str(self.path), f"must hold lists of numbers in {inner!r}, or objects with the same keys"
            )
        return self._matrix(values), None


class ParquetTable(Table):
    """A Parquet file. The columns in which pandas keeps its index are left out, unless one is the key."""

    def __init__(self, path: Path, key: str | None = None) -> None:
        self.path = path
        self._arrow = need("pyarrow", path)
        try:
            self._file = need("pyarrow.parquet", path).ParquetFile(path)
        except self._arrow.ArrowInvalid:
            raise damaged(path) from None
        self._schema: Any = self._file.schema_arrow
        index = (self._schema.pandas_metadata or {}).get("index_columns", [])
        self.header: list[str] = [each for each in self._schema.names if each not in index or each == key]
        self.width = len(self.header)
        if not self.header or len(set(self.header)) < self.width:
            raise InputError(
                str(path), "must have columns with names of their own", found=few(self.header) or "none"
            )

    def numbers(self, columns: Sequence[int]) -> Array:
        """Return columns of numbers as a matrix."""
        wanted, types = [self.header[i] for i in columns], self._arrow.types
        kinds = [self._schema.field(name).type for name in wanted]
        for name, kind in zip(wanted, kinds, strict=True):
            if not (types.is_floating(kind) or types.is_integer(kind)):
                problem = f"must hold numbers in all columns; {name!r} is {kind}"
                raise InputError(str(self.path), problem, remedy=TEXT_COLUMN)
        narrow = all(types.is_float32(kind) or types.is_float16(kind) for kind in kinds)
        shape = self._file.metadata.num_rows, len(wanted)
        matrix, done = np.empty(shape, dtype=np.float32 if narrow else np.float64), 0
        for batch in self._file.iter_batches(columns=wanted):
            for j, name in enumerate(wanted):
                matrix[done : done + len(batch), j] = batch.column(name).to_numpy(zero_copy_only=False)
            done += len(batch)
        return matrix

    def cells(self, column: int) -> list[str]:
        """Return a column as texts."""
        return [as_cell(each) for each in self._column(self.header[column]).to_pylist()]

    def lists(self, key: str | None) -> tuple[Array, list[str] | None] | None:
        """Return the matrix in the column of lists with the key or one of the names `PROBS`, if any."""
        names = (*PROBS, self.header[0]) if self.width == 1 else PROBS
        inner = key or next((name for name in names if name in self.header and self._is_list(name)), None)
        if inner is None:
            return None
        if not self._is_list(pick(self.path, self.header, inner, inner)):
            return self.numbers([self.header.index(inner)]), [inner]
        lists = self._column(inner).combine_chunks()
        lengths = need("pyarrow.compute", self.path).list_value_length(lists).unique()
        if len(lengths) != 1 or lengths.null_count:
            raise InputError(str(self.path), f"must hold lists of one length in {inner!r}")
        return lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1), None

    def _is_list(self, name: str) -> bool:
        kind, types = self._schema.field(name).type, self._arrow.types
        return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))

    def _column(self, name: str) -> Any:
        return self._file.read(columns=[name]).column(0)


def open_table(path: Path, key: str | None = None) -> Table:
    """Open a table of any format. The key is the column that will be asked for, if it is known."""
    if not is_table(path):
        if path.is_dir():
            checked(path)
        raise InputError(
            str(path),
            "cannot be read: it must end in .npy, .npz, .csv, .tsv, .jsonl, .parquet or .safetensors; .csv, "
            ".tsv and .jsonl may be compressed: .gz",
        )
    if kind(path) == PARQUET:
        return ParquetTable(checked(path), key)
    return JsonTable(path) if kind(path) == LINES else TextTable(path)
