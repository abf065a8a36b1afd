"""How commands run: their options, their exit codes, and errors in the words of the command line."""

import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from _nacp_command import begin
from nacp.cli.formats import STDIN
from nacp.cli.outputs import NAMES
from nacp.cli.terminal import SETTINGS, STDOUT, Settings, complain, complain_of_warning, discard, printing
from nacp.errors import InputError

FAILED, WRONG, CONTRADICTED, INTERRUPTED, CLOSED = 1, 2, 3, 130, 141

_IN_ORDER = "noise audit plan compare calibrate predict evaluate diagnose report demo reproduce"
_CALLED = {
    "P": "noise",
    "cal": "calibration",
    "confidence": "noise_confidence",
    "guarantees": "guarantee",
    "interval": "noise_interval",
    "noisy": "labels",
    "privacy": "epsilon",
    "rate": "noise",
    "scores": "score",
}
"""The parameters of commands for arguments in Python that have another name."""

_UsageError: Any = typer.BadParameter.__base__
_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Help:
    """Shows flags in the help without a type beside them, and says if standard output cannot take it."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with printing():
            super().format_help(ctx, formatter)  # type: ignore[misc]  # a mixin for commands

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in parameters:
            if getattr(each, "is_flag", False):
                each.metavar = ""
        return parameters


class Group(_Help, TyperGroup):
    """A command that has commands of its own."""


class Commands(Group):
    """The commands, in the order of their use.

    The exit code is 2 for wrong input and wrong options; 130 for Ctrl-C and 141 for a closed pipe, as in a
    shell.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return sorted(super().list_commands(ctx), key=_IN_ORDER.index)

    def main(self, args: Any = None, *more: Any, **options: Any) -> Any:
        """Run the command line; print one sentence if it is wrong."""
        try:
            code = super().main(args, *more, **options | {"standalone_mode": False})
            sys.stdout.flush()
        except _UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                typer.echo(error.message, nl=bool(error.message))  # empty, as rich has printed the help
            else:
                said = str(error.format_message()).rstrip(".")
                path = getattr(error.ctx, "command_path", "nacp")  # some errors do not know the command
                complain(f"Error: {said[0].lower()}{said[1:]} (see {path} --help)")
            code = WRONG
        except OSError as error:  # the help could not be printed
            complain(f"Error: {STDOUT}: {error.strerror}")
            discard(sys.stdout)
            code = WRONG
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            begin()
            result = super().invoke(ctx)
            with printing():
                sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            complain("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            discard(sys.stdout)
            raise typer.Exit(CLOSED) from None
        except OSError as error:
            if error.filename == STDOUT:
                discard(sys.stdout)
            _end(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except MemoryError as error:
            _end(f"there is not enough memory ({error}); .npy files are read in blocks")
        except (ValueError, ImportError) as error:
            _end(str(error))


class Command(_Help, TyperCommand):
    """A command: errors name the option or file of the command line, and a remedy there."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = complain_of_warning
                return super().invoke(ctx)
        except InputError as error:
            _end(error.sentence(_name(error.argument, ctx), spoken=True))


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def group(name: str, help: str, *examples: str) -> typer.Typer:
    """Return a command that has commands of its own."""
    options: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "rich"}
    found = typer.Typer(name=name, cls=Group, help=help, epilog=example_block(*examples), **options)
    app.add_typer(found)
    return found


def command(name: str, *examples: str, app: typer.Typer = app) -> Callable[[_Function], _Function]:
    """Return the decorator that makes a function a command; the examples stand below its help.

    A parameter whose type is a dataclass stands for the options that its fields declare. The options in
    `Settings` are added.
    """

    def add(function: _Function) -> _Function:
        app.command(name, cls=Command, epilog=example_block(*examples))(_with_options(function))
        return function

    return add


def _with_options(function: Callable[..., Any]) -> Callable[..., None]:
    """Return a function with a parameter for each option, which calls the one with dataclasses."""
    parameters = inspect.signature(function).parameters
    groups: dict[str, Any] = {
        name: each.annotation for name, each in parameters.items() if is_dataclass(each.annotation)
    }

    def run(**given: Any) -> None:
        values = [*given.values(), *given.get("files", ())]
        NAMES.set([str(each) for each in values if isinstance(each, str | Path)])
        for name, group in (groups | {"settings": Settings}).items():
            options = [each.name for each in fields(group) if each.name in given]
            given[name] = group(**{each: given.pop(each) for each in options})
        token = SETTINGS.set(given.pop("settings"))
        try:
            function(**given)
        finally:
            SETTINGS.reset(token)

    flat: list[inspect.Parameter] = []
    for name, each in parameters.items():
        flat += inspect.signature(groups[name]).parameters.values() if name in groups else [each]
    flat += inspect.signature(Settings).parameters.values()
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in flat]
    )
    run.__doc__ = function.__doc__
    return run


def example_block(*examples: str) -> str:
    """Return the block of examples below the help; older versions of typer would join single lines."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"[cyan]$ {line}[/cyan]" for line in examples)])


def _name(argument: str, ctx: Any) -> str:
    """Return the file that was given for an argument of a function, or its option."""
    if argument == "clean" and ctx.params.get("audit"):
        return str(ctx.params["audit"])  # which holds the checked labels
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
    """Print the error and exit."""
    complain(f"Error: {sentence}")
    raise typer.Exit(WRONG) from None
