"""What all kinds of files have in common: how they are named, opened, and which column is meant."""

import gzip
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from nacp._types import Array
from nacp.errors import InputError

STDIN = "-"
ARRAYS = (".npy", ".npz", ".safetensors")
TEXTS = (".csv", ".tsv")
LINES = ".jsonl"
PARQUET = ".parquet"
NAMED = {"id", "item", "items"}
"""A first column with such a header names the rows."""
ID = {"", "index", "row", "unnamed: 0"} | NAMED
"""A first column with such a header numbers or names the rows; pandas writes the empty one."""
PROBS = ("probs", "probabilities")
"""Under such a name may be lists of all probabilities."""
Places: TypeAlias = Callable[[list[str]], list[int]]
"""Which columns are wanted, given the header."""
IdPlace: TypeAlias = Callable[[list[str]], int | None]
"""Which column names the rows, given the header."""

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


class Table(NamedTuple):
    """Numbers from a table, the names of their columns if they have some, and the rows' ids if wanted."""

    matrix: Array
    header: list[str] | None = None
    ids: list[str] | None = None


def no_ids(_: list[str]) -> None:
    """Want no ids."""


def split_key(name: str) -> tuple[Path, str | None]:
    """Part ``file.npz:key`` into the file and the key."""
    keyed = _KEYED.fullmatch(name)
    return (Path(keyed[1]), keyed[2]) if keyed else (Path(name), None)


def kind(path: str | Path) -> str:
    """Return the ending that says how a file is written: ``.csv`` for ``points.csv.gz``."""
    path = Path(path)
    inner = Path(path.stem).suffix
    return inner if path.suffix == ".gz" and inner in (*TEXTS, LINES) else path.suffix


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


def unknown(path: Path) -> InputError:
    """Return what is to be said of a file of no known kind."""
    return InputError(str(path), f"cannot be read: {_READ}")


@contextmanager
def text_lines(path: Path) -> Iterator[IO[str]]:
    """Open a text file, compressed or not, or standard input; say what is wrong with it if it is not text."""
    name = "standard input" if str(path) == STDIN else str(path)
    with _opened(path) as file:
        try:
            yield file
        except UnicodeDecodeError as error:
            raise InputError(name, _why_no_text(path, error.object)) from None
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise InputError(name, "cannot be read: it is damaged, or not compressed by gzip") from None


def _opened(path: Path) -> IO[str]:
    if str(path) == STDIN:
        return sys.stdin
    if checked(path).suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(newline="", encoding="utf-8-sig")


def _why_no_text(path: Path, seen: bytes) -> str:
    if seen[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "is text in UTF-16: save it as UTF-8"
    if b"\0" in seen:
        return f"cannot be read as {kind(path)}: it is not text"
    return "is not text in UTF-8, perhaps in Latin-1 or Windows-1252: save it as UTF-8"


def pick(path: Path, there: Sequence[str], key: str | None, usual: str) -> str:
    """Return which of the names is meant: the key, or the only one, or the usual one."""
    wanted = key or (there[0] if len(there) == 1 else usual)
    if wanted not in there:
        remedy = f"name one as {path}:name"
        for mark, option in ((";", "';'"), ("\t", "tab")):
            if kind(path) in TEXTS and any(wanted in name.split(mark) for name in there):
                remedy = f"give --separator {option}"
        raise InputError(str(path), f"holds no {wanted!r}, but {few(there)}", remedy=remedy)
    return wanted


def pick_labels(
    path: Path, there: Sequence[str], key: str | None, *, true: bool = False, called: set[str] = LABEL
) -> int:
    """Return which column of a table holds the labels: the one named, the only one, or the one called label.

    A first column of ids is none. Of `true` labels the one called label is not meant if another is called
    checked or the like. With several that may be meant, none is.
    """
    if key is not None:
        return there.index(pick(path, there, key, key))
    start = int(len(there) > 1 and there[0].lower() in ID)
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


def are_numbers(cells: Sequence[str]) -> bool:
    """Return whether there are cells and all are numbers."""
    with suppress(ValueError):
        return bool([float(cell) for cell in cells])
    return False


def are_whole(cells: Sequence[str]) -> bool:
    """Return whether there are cells and all are whole numbers."""
    return are_numbers(cells) and all(float(cell).is_integer() for cell in cells)


def separator(path: str | Path) -> str:
    """Return what separates the cells of a text table: what was said, or the usual mark."""
    return _SEPARATOR.get() or usual_separator(path)


def usual_separator(path: str | Path) -> str:
    """Return what separates the cells of a text table unless another mark is said: in ``.tsv`` a tab."""
    return "\t" if kind(path) == ".tsv" else ","


def separate_by(mark: str | None) -> Callable[[], None]:
    """Have all text tables separated by a mark, until the function that is returned is called."""
    if mark is not None and len(mark := {"tab": "\t", "\\t": "\t"}.get(mark, mark)) != 1:
        raise InputError("separator", "must be one character, such as ';', or tab", found=mark)
    token = _SEPARATOR.set(mark)
    return lambda: _SEPARATOR.reset(token)
