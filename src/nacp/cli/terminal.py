"""How the command ``nacp`` speaks: progress bars, text and JSON."""

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from nacp.points import watching


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
    """Show a bar for one piece of work; the function says how much has been done, or what is done now."""
    bar = progress_bar(quiet)
    with bar:
        task = bar.add_task(what, total=total)

        def say(now: int | str) -> None:
            if isinstance(now, str):
                bar.update(task, description=now)
            else:
                bar.update(task, completed=now)

        yield say


@contextmanager
def progress_of_passes(what: str, rows: int, quiet: bool) -> Iterator[None]:
    """Show how far the matrix has been read; how often it will be is not known before."""
    bar, read = progress_bar(quiet), 0
    with bar:
        task = bar.add_task(what, total=rows)

        def watch(count: int) -> None:
            nonlocal read
            read += count
            bar.update(task, completed=read % rows, description=f"{what}, pass {read // rows + 1}")

        with watching(None if bar.disable else watch):
            yield


def show(as_json: bool, document: object, text: object, *, err: bool = False) -> None:
    """Print a result: as JSON for machines, or as text."""
    said = json.dumps(_plain(document), indent=1, ensure_ascii=False) if as_json else str(text)
    typer.echo(said, err=err)


def show_verdict(text: str, passed: bool) -> None:
    """Print a verdict, its first word in colour if the terminal has any."""
    word, rest = text.split(":", 1)
    line = Text.assemble((word, "bold green" if passed else "bold red"), ":", rest)
    Console(highlight=False, soft_wrap=True).print(line)


def _plain(value: Any) -> Any:
    """Make JSON of it: NumPy's numbers are numbers, and infinity, for which there is none, is a word."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
