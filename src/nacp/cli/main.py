"""The command ``nacp``: its commands in the order of their use."""

from typing import Annotated

import typer

import nacp
from nacp.cli import (  # noqa: F401  (they add their commands)
    annotators,
    audit,
    calibrate,
    compare,
    demo,
    diagnose,
    evaluate,
    noise,
    plan,
    predict,
    report,
    reproduce,
)
from nacp.cli.commands import app, example_block
from nacp.engine import current

__all__ = ["app"]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nacp {nacp.__version__} (engine: {current().NAME})")
        raise typer.Exit


@app.callback(
    epilog=example_block(
        "nacp demo",
        "nacp calibrate probs.npy labels.csv --noise 0.2 -o cal.json",
        "nacp predict cal.json new.npy -o sets.jsonl",
        "nacp calibrate --help",
    )
)
def _nacp(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and which engine runs."
        ),
    ] = False,
) -> None:
    """Small prediction sets you can trust, from labels you cannot.

    Exit codes: 0; 1 if nacp evaluate finds a promise broken or nacp diagnose
    rejects a noise model; 2 for wrong input; 3 if the labels contradict the
    noise model and nacp calibrate was given --strict, or in nacp evaluate;
    130 for Ctrl-C.
    """
