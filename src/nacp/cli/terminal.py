"""How the command ``nacp`` prints: progress bars, text and JSON."""

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from nacp.guarantees import Guarantee
from nacp.points import watching
from nacp.wrapping import at_width, wrapped

STDOUT = "standard output"
_MAX_COLUMNS = 80  # wider lines are hard to read
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Settings:
    """The options of every command: how it prints."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


_DEFAULTS = Settings()
SETTINGS: ContextVar[Settings] = ContextVar("settings", default=_DEFAULTS)
"""The options of the command that runs."""


@contextmanager
def progress_of(what: str, total: int | None = None) -> Iterator[Callable[[int | str], None]]:
    """Show a bar for one task on standard error, if that is a terminal.

    Call the function with how much is done, or with what is done now.
    """
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=SETTINGS.get().quiet or not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(printable(what), total=total)

        def say(now: int | str) -> None:
            if isinstance(now, str):
                bar.update(task, description=now)
            else:
                bar.update(task, completed=now)

        yield say


@contextmanager
def progress_of_rows(what: str, n: int) -> Iterator[None]:
    """Show how many of n rows have been read, and in which pass, as rows may be read several times."""
    read = 0
    with progress_of(what, n) as say:

        def watch(count: int) -> None:
            nonlocal read
            read += count
            passes, rows = divmod(read, n)
            say(f"{what}, pass {passes + 1}")
            say(rows)

        with watching(watch):
            yield


def columns() -> int:
    """Return the width of text: that of the terminal, or 80 columns."""
    return min(shutil.get_terminal_size().columns, _MAX_COLUMNS)


@contextmanager
def printing() -> Iterator[None]:
    """Say that it is standard output to which something cannot be written."""
    try:
        yield
    except OSError as error:
        error.filename = STDOUT
        raise


def printable(text: str) -> str:
    """Return a text with its control characters escaped: names in files must not steer a terminal."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def only_ascii(stream: Any) -> bool:
    """Return whether a stream cannot encode all characters; JSON can escape them."""
    return not (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def show(document: object, *results: object, err: bool = False) -> None:
    """Print results: with --json the document, else their texts, wrapped to the terminal.

    A result may be a function that returns a text of this width.
    """
    if SETTINGS.get().as_json:
        text = printable(json.dumps(_plain(document), indent=1, ensure_ascii=only_ascii(sys.stdout)))
    else:
        with at_width(columns()):
            texts = (str(each() if callable(each) else each) for each in results)
            text = "\n".join(wrapped(printable(each)) for each in texts)
    if err:
        _say(text)
    else:
        with printing():
            typer.echo(text)


def complain(sentence: str) -> None:
    """Print a line on standard error, wrapped if that is a terminal."""
    sentence = printable(sentence)
    if sys.stderr.isatty():
        with at_width(columns()):
            sentence = wrapped(sentence)
    _say(sentence)


def _say(text: str) -> None:
    """Print on standard error; if that is full or closed, it must not change the exit code."""
    try:
        typer.echo(text, err=True)
    except OSError:
        discard(sys.stderr)


def complain_of_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print the text of a Python warning; this stands in for ``warnings.showwarning``."""
    complain(f"Warning: {message}.")


def discard(stream: Any) -> None:
    """Send what is left in the buffer of a stream to the null device, so that Python can exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _plain(value: Any) -> Any:
    """Return what JSON can hold: a result as its fields, and a word for infinity, which it has not."""
    if isinstance(value, Guarantee):
        return value.name
    if is_dataclass(value):
        value = vars(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
