"""How the command ``nacp`` speaks: sentences for errors, exit codes, progress bars and JSON."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text
from typer.core import TyperGroup

from _nacp_command import begin
from nacp._validation import WATCH

FAILED, WRONG, INTERRUPTED, CLOSED = 1, 2, 130, 141
_ORDER = [
    "noise",
    "plan",
    "compare",
    "calibrate",
    "predict",
    "evaluate",
    "diagnose",
    "report",
    "demo",
    "reproduce",
]


_SPOKEN = {
    "pass np.exp(probs)": "make them probabilities first, by the exponential function",
    "pass scipy.special.softmax(probs, axis=1)": "make them probabilities first, by softmax",
    "pass normalize=True to divide by the row sums": "nacp calibrate --normalize divides by the row sums",
    "normalize=True divides": "--normalize divides",
    "pass nacp.": "in Python, pass nacp.",
    "nacp.compatible_radius says": "in Python, nacp.compatible_radius says",
    ", a score object such as nacp.RAPS(penalty=0.01), or a function from probabilities to scores": "",
    " or a guarantee object such as nacp.ACNL(priors=...)": "",
    "excess must lie": "--max-correction must lie",
    "n must be at least 1": "--points must be at least 1",
    "np.column_stack([1 - p, p])": "1 - p and p",
    "pass interval=(low, high) too": "give --noise-interval LOW HIGH too",
    "pass k= or classes=": "give --k or --classes",
    "pass MatrixNoise.from_columns(P)": "transpose it",
    'model="groups" needs groups=,': "--model groups needs --groups FILE,",
}
"""Advice for Python, and what it is on the command line."""


class Commands(TyperGroup):
    """The commands; what goes wrong in them becomes one sentence and an exit code.

    2 for wrong input, as for a wrong option; 130 for Ctrl-C and 141 for a closed pipe, as in a shell.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order of their use."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            begin()
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Nobody reads on. What is still in the buffer must go somewhere when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(CLOSED) from None
        except OSError as error:
            wrong(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except MemoryError as error:
            wrong(f"there is not enough memory ({error}); .npy files are read in blocks")
        except (ValueError, ImportError) as error:
            wrong(str(error))


def wrong(sentence: str) -> None:
    """Say what is wrong, and end."""
    typer.echo(f"Error: {_spoken(sentence)}", err=True)
    raise typer.Exit(WRONG) from None


def _spoken(text: str) -> str:
    for python, spoken in _SPOKEN.items():
        text = text.replace(python, spoken)
    return text


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

        token = WATCH.set(None if bar.disable else watch)
        try:
            yield
        finally:
            WATCH.reset(token)


def show(as_json: bool, document: Any, text: object, *, err: bool = False) -> None:
    """Print a result: as JSON for machines, or as text."""
    said = json.dumps(_plain(document), indent=1, ensure_ascii=False) if as_json else _spoken(str(text))
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
