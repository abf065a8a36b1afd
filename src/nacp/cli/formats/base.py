"""What all file formats share: how files are named and opened, and the interface of a table."""

import gzip
import math
import re
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from nacp._types import Array
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
_READ = (
    "it must end in .npy, .npz, .csv, .tsv, .jsonl, .parquet or .safetensors; "
    ".csv, .tsv and .jsonl may be compressed: .gz"
)
_KEYED = re.compile(r"(.*\.(?:npz|(?:csv|tsv|jsonl)(?:\.gz)?|parquet|safetensors)):([^:/\\]+)", re.DOTALL)
_SEPARATOR: ContextVar[str | None] = ContextVar("separator", default=None)


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
    def cells(self, column: int, *, gaps: bool = False) -> list[str]:
        """Return a column as texts, an empty one where a cell is missing; with `gaps` some may be."""

    def lists(self, key: str | None) -> tuple[Array, list[str] | None] | None:
        """Return the matrix in a column of lists, the one named by the key or by `PROBS`, and its names."""
        if key is not None:
            raise InputError(str(self.path), "is one matrix", remedy=f"give it without :{key}")
        return None

    def labels(
        self, key: str | None, *, called: set[str] = LABEL, true: bool = False, gaps: bool = False
    ) -> tuple[list[str], bool]:
        """Return the column of labels, as `label_column` finds it, and whether its header is left out."""
        if self.header is not None:
            return self.cells(label_column(self, key, called=called, true=true), gaps=gaps), True
        if key is not None or self.width != 1:
            raise InputError(str(self.path), "must hold one label on each line, or objects with keys")
        return self.cells(0, gaps=gaps), True


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


def unknown(path: Path) -> InputError:
    """Return the error for a file of an unknown format."""
    return InputError(str(path), f"cannot be read: {_READ}")


@contextmanager
def text_lines(path: Path) -> Iterator[IO[str]]:
    """Open a text file, compressed or not, or standard input; say what is wrong with it if it is not text."""
    name = "standard input" if str(path) == STDIN else str(path)
    how: dict[str, Any] = {"mode": "rt", "encoding": "utf-8-sig", "newline": ""}
    with ExitStack() as stack:
        if str(path) == STDIN:
            file: IO[str] = sys.stdin
        else:
            opener = gzip.open if checked(path).suffix == ".gz" else open
            file = stack.enter_context(opener(path, **how))
        try:
            yield file
        except UnicodeDecodeError as error:
            why = "is not text in UTF-8, perhaps in Latin-1 or Windows-1252: save it as UTF-8"
            if error.object[:2] in (b"\xff\xfe", b"\xfe\xff"):
                why = "is text in UTF-16: save it as UTF-8"
            elif b"\0" in error.object:
                why = f"cannot be read as {kind(path)}: it is not text"
            raise InputError(name, why) from None
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise InputError(name, "cannot be read: it is damaged, or not compressed by gzip") from None


def pick(path: Path, there: Sequence[str], key: str | None, usual: str) -> str:
    """Return one of several names: the key, or the only one, or the usual one."""
    wanted = key or (there[0] if len(there) == 1 else usual)
    if wanted not in there:
        raise InputError(
            str(path), f"holds no {wanted!r}, but {few(there)}", remedy=f"name one as {path}:name"
        )
    return wanted


def label_column(table: Table, key: str | None, *, called: set[str] = LABEL, true: bool = False) -> int:
    """Return which column of a table with a header holds the labels.

    It is the one named by the key, the only one beside a first column of ids, or the one whose name is in
    `called`. Of `true` labels the latter is not taken if another column is called checked or the like. A
    choice among several is refused.
    """
    path, there = table.path, table.header or []
    if key is not None:
        return there.index(pick(path, there, key, key))
    start = int(len(there) > 1 and there[0].lower() in NUMBERED)
    if len(there) - start == 1:
        return start
    names = [name.lower() for name in there]
    found = [i for i, name in enumerate(names) if name in called]
    if len(found) == 1 and not (true and TRUE.intersection(names)):
        return found[0]
    raise InputError(
        str(path),
        f"has {len(there):,} columns: {few(there)}",
        remedy=f"name the one that is meant, as {path}:{there[start] or 'NAME'}",
    )


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
    given = None if usual else _SEPARATOR.get()
    return given or ("\t" if kind(path) == ".tsv" else ",")


def separate_by(mark: str | None) -> Callable[[], None]:
    """Set the mark that separates the cells of text tables; the function that is returned resets it."""
    if mark is not None and len(mark := {"tab": "\t", "\\t": "\t"}.get(mark, mark)) != 1:
        raise InputError("separator", "must be one character, such as ';', or tab", found=mark)
    token = _SEPARATOR.set(mark)
    return lambda: _SEPARATOR.reset(token)
