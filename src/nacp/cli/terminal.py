"""How the command ``nacp`` prints: progress bars, text and JSON."""

import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from nacp.points import watching
from nacp.verdict import Verdict
from nacp.wrapping import at_width, wrapped

_MAX_COLUMNS = 80  # wider lines are hard to read


def progress_bar(quiet: bool) -> Progress:
    """Return a progress bar on standard error; none if that is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=quiet or not sys.stderr.isatty(),
    )


@contextmanager
def progress_of(what: str, quiet: bool, total: int | None = None) -> Iterator[Callable[[int | str], None]]:
    """Show a bar for one task; call the function with how much is done, or with what is done now."""
    with progress_bar(quiet) as bar:
        task = bar.add_task(what, total=total)

        def say(now: int | str) -> None:
            if isinstance(now, str):
                bar.update(task, description=now)
            else:
                bar.update(task, completed=now)

        yield say


@contextmanager
def progress_of_rows(what: str, quiet: bool) -> Iterator[None]:
    """Show how many rows have been read; the total is not known, as rows may be read several times."""
    read = 0
    with progress_bar(quiet) as bar:
        task = bar.add_task(what, total=None)

        def watch(count: int) -> None:
            nonlocal read
            read += count
            bar.update(task, description=f"{what}, {read:,} rows read")

        with watching(None if bar.disable else watch):
            yield


def columns() -> int:
    """Return the width of text: that of the terminal, or 80 columns."""
    return min(shutil.get_terminal_size().columns, _MAX_COLUMNS)


def only_ascii(stream: Any) -> bool:
    """Return whether a stream cannot encode all characters; JSON can escape them."""
    return not (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def show(as_json: bool, document: object, *parts: object, err: bool = False) -> None:
    """Print a result: as JSON for machines, or as text, wrapped to the terminal."""
    if as_json:
        typer.echo(json.dumps(_plain(document), indent=1, ensure_ascii=only_ascii(sys.stdout)), err=err)
        return
    with at_width(columns()):
        typer.echo("\n".join(wrapped(str(part)) for part in parts), err=err)


def complain(sentence: str) -> None:
    """Print a line on standard error, wrapped if that is a terminal."""
    if sys.stderr.isatty():
        with at_width(columns()):
            sentence = wrapped(sentence)
    typer.echo(sentence, err=True)


def show_verdict(verdict: Verdict) -> None:
    """Print a verdict, its first word in colour if the terminal has any."""
    with at_width(columns()):
        word, rest = wrapped(str(verdict)).split(":", 1)
    line = Text.assemble((word, "bold green" if verdict.passed else "bold red"), ":", rest)
    _Output(highlight=False, soft_wrap=True).print(line)


class _Output(Console):
    """Standard output. Of a closed pipe rich would make exit code 1, which means a broken promise here."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _plain(value: Any) -> Any:
    """Return what JSON can hold; it has no infinity, for which a word stands."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
