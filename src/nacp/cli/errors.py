"""Errors of commands: one sentence in the words of the command line, and an exit code."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from _nacp_command import begin
from nacp.cli.formats.base import STDIN
from nacp.cli.terminal import complain
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
"""The parameters of commands for arguments in Python that have another name."""

_UsageError: Any = typer.BadParameter.__base__
_Function = TypeVar("_Function", bound=Callable[..., Any])


class _PlainFlags:
    """Shows flags in the help without a type beside them."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in parameters:
            if getattr(each, "is_flag", False):
                each.metavar = ""
        return parameters


class Group(_PlainFlags, TyperGroup):
    """A group of commands, such as ``nacp noise``."""


class Commands(Group):
    """The commands, in the order in which they were added.

    The exit code is 2 for wrong input and wrong options; 130 for Ctrl-C and 141 for a closed pipe, as in a
    shell.
    """

    def main(self, args: Any = None, *more: Any, **options: Any) -> Any:
        """Run the command line; print one sentence if it is wrong."""
        if not options.pop("standalone_mode", True):
            return super().main(args, *more, **options | {"standalone_mode": False})
        try:
            code = super().main(args, *more, **options | {"standalone_mode": False})
            sys.stdout.flush()
        except _UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                typer.echo(error.message, nl=bool(error.message))  # empty, as rich has printed the help
            else:
                complain(f"Error: {_usage(error, sys.argv[1:] if args is None else args)}")
            code = WRONG
        except OSError as error:  # the help could not be printed
            complain(f"Error: standard output: {error.strerror}")
            _discard_output()
            code = WRONG
        sys.exit(code if isinstance(code, int) else 0)

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
            _discard_output()
            raise typer.Exit(CLOSED) from None
        except OSError as error:
            if not error.filename:
                _discard_output()
            _end(f"{error.filename or 'standard output'}: {error.strerror or error}")
        except MemoryError as error:
            _end(f"there is not enough memory ({error}); .npy files are read in blocks")
        except (ValueError, ImportError) as error:
            _end(str(error))


class Command(_PlainFlags, TyperCommand):
    """A command: errors name the option or file of the command line, and a remedy there."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            _end(error.sentence(_name(error.argument, ctx), spoken=True))


def command(app: typer.Typer, name: str, *examples: str) -> Callable[[_Function], _Function]:
    """Return the decorator that makes a function a command; the examples stand below its help."""
    return app.command(name, cls=Command, epilog=example_block(*examples))


def example_block(*examples: str) -> str:
    """Return the block of examples below the help; older versions of typer would join single lines."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"[cyan]$ {line}[/cyan]" for line in examples)])


def _name(argument: str, ctx: Any) -> str:
    """Return the file that was given for an argument of a function, or its option."""
    parameters = {each.name: each for each in ctx.command.params}
    parameter = parameters.get(argument) or parameters.get(_CALLED.get(argument))
    if parameter is None:
        return argument
    if parameter.param_type_name == "option":
        return _spelled(parameter)
    value = ctx.params[parameter.name]
    if isinstance(value, str | Path):
        return "standard input" if value == STDIN else str(value)
    return str(parameter.metavar)


def _usage(error: Any, args: Sequence[str]) -> str:
    """Return the sentence for a wrong option, with what was typed for it."""
    parameter, said = getattr(error, "param", None), str(error.format_message()).rstrip(".")
    said = f"{said[0].lower()}{said[1:]}".replace("Value error, ", "")
    typed = (
        next((each for name in parameter.opts if (each := _typed(args, name))), None) if parameter else None
    )
    if typed is None:
        return f"{said} (see {error.ctx.command_path} --help)" if error.ctx else said
    kind = re.search(r"valid (number|float|integer|int)", said)
    if kind is None:
        return said if typed in said else f"{said}; found {typed!r}"
    wanted, remedy = "a whole number" if kind[1].startswith("int") else "a number", ""
    if re.fullmatch(r"[\d.]+%", typed):
        remedy = f"; write {float(typed[:-1]) / 100:g}"
    return f"{_spelled(parameter)} must be {wanted}; found {typed!r}{remedy}"


def _typed(args: Sequence[str], option: str) -> str | None:
    """Return what follows an option on the command line."""
    for each, after in zip(args, [*args[1:], None], strict=True):
        if each == option or each.startswith(f"{option}="):
            return after if each == option else each.partition("=")[2]
    return None


def _spelled(parameter: Any) -> str:
    """Return the first long name of an option."""
    return next(str(each) for each in parameter.opts if each.startswith("--"))


def _discard_output() -> None:
    """Send what is left in the buffer of standard output to the null device, so that Python can exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(sentence: str) -> NoReturn:
    """Print the error and exit."""
    complain(f"Error: {sentence}")
    raise typer.Exit(WRONG) from None
