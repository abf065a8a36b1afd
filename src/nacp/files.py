"""Files written whole or not at all; and plain JSON with a format and a version, read with suspicion."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Literal

from nacp._validation import check_count


def write_whole(
    path: str | os.PathLike[str], mode: Literal["w", "wb"], write: Callable[[IO[Any]], object]
) -> None:
    """Let `write` fill a file; an interruption or an error leaves what was there before."""
    target = Path(os.path.realpath(path))  # a link stays one
    if target.exists() and not target.is_file():
        raise ValueError(f"{path} is not a file that could be replaced; give the name of a file")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    text = mode == "w"
    try:
        with partial.open(mode, newline="" if text else None, encoding="utf-8" if text else None) as file:
            write(file)
        partial.replace(target)
    except OSError as error:
        if error.filename == str(partial):  # a name that nobody gave
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, whole or not at all; the same bytes on every system."""
    write_whole(path, "w", lambda file: file.write(text))


def write_document(path: str | os.PathLike[str], document: dict[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json.dumps(document, allow_nan=False, indent=1) + "\n")


def read_document(
    path: str | os.PathLike[str], format_name: str, version: int, what: str = "calibration file"
) -> dict[str, Any]:
    """Read a JSON file, and refuse any but of the given format and version."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError, _NotANumberError) as error:
        raise ValueError(f"{path} is not a {what}: it is not JSON ({error})") from None
    if not isinstance(document, dict) or document.get("format") != format_name:
        raise ValueError(f"{path} is not a {what}: it has no format {format_name!r}")
    if document.get("version") != version:
        raise ValueError(
            f"{path} has version {document.get('version')!r} of the format; this nacp reads {version}"
        )
    return document


class _NotANumberError(Exception):
    """JSON has no NaN and no Infinity, although Python's reader takes them."""


def _refuse_constant(name: str) -> float:
    raise _NotANumberError(f"{name} is not a JSON number")


def to_json(value: float) -> float | str:
    """Write infinity as a word: JSON has no number for it."""
    return value if math.isfinite(value) else "inf"


def number(name: str, value: Any) -> float:
    """Read what `to_json` wrote."""
    if isinstance(value, bool) or math.isnan(float(value)):
        raise ValueError(f"{name} must be a number; found {value!r}")
    return float(value)


def positive(name: str, value: Any) -> int:
    """Read a whole number of at least 1."""
    if check_count(name, value) == 0:
        raise ValueError(f"{name} must be at least 1; found 0")
    return int(value)


def rebuild(table: dict[str, Any], stored: dict[str, Any]) -> Any:
    """Make the member of a family that its `to_dict` described."""
    parameters = dict(stored)
    name = parameters.pop("name")
    if name not in table:
        raise ValueError(f"{name!r} is not one of {', '.join(map(repr, table))}")
    return table[name](**parameters)
