"""What goes wrong in a command becomes one sentence, in the words of the command line, and an exit code."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from _nacp_command import begin
from nacp.cli.tables import STDIN
from nacp.errors import InputError

FAILED, WRONG, CONTRADICTED, INTERRUPTED, CLOSED = 1, 2, 3, 130, 141

_CALLED = {
    "P": "noise",
    "confidence": "noise_confidence",
    "excess": "max_correction",
    "from_logits": "logits",
    "guarantees": "guarantee",
    "interval": "noise_interval",
    "k": "classes",
    "n": "points",
    "noisy": "labels",
    "privacy": "epsilon",
    "random_state": "seed",
    "rate": "noise",
    "scores": "score",
}
"""What a parameter of a command is called where that has not the name of the argument in Python."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Commands(TyperGroup):
    """The commands, in the order in which they were added.

    The exit code is 2 for wrong input, as for a wrong option; 130 for Ctrl-C and 141 for a closed pipe, as in
    a shell.
    """

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
            _end(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except MemoryError as error:
            _end(f"there is not enough memory ({error}); .npy files are read in blocks")
        except (ValueError, ImportError) as error:
            _end(str(error))


class Command(TyperCommand):
    """A command: a wrong input is told by the name that it has here, with the remedy that there is here."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            _end(error.sentence(_name(error.argument, ctx), spoken=True))


def command(app: typer.Typer, name: str, *examples: str) -> Callable[[_Function], _Function]:
    """Return the decorator that makes a command of a function; the examples stand below its help."""
    return app.command(name, cls=Command, epilog=example_block(*examples))


def example_block(*examples: str) -> str:
    """Return the block of examples below the help; older versions of typer would join single lines."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"[cyan]$ {line}[/cyan]" for line in examples)])


def _name(argument: str, ctx: Any) -> str:
    """Return what an argument of a function is called here: the file that was given for it, or its option."""
    parameters = {each.name: each for each in ctx.command.params}
    parameter = parameters.get(argument) or parameters.get(_CALLED.get(argument))
    if parameter is None:
        return argument
    if parameter.param_type_name == "option":
        return next(str(each) for each in parameter.opts if each.startswith("--"))
    value = ctx.params[parameter.name]
    if isinstance(value, str | Path):
        return "standard input" if value == STDIN else str(value)
    return str(parameter.metavar)


def _end(sentence: str) -> NoReturn:
    """Say what is wrong, and end."""
    typer.echo(f"Error: {sentence}", err=True)
    raise typer.Exit(WRONG) from None
