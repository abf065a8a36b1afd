"""Arguments and options that several commands of ``nacp`` take, and the examples below their help."""

from pathlib import Path
from typing import Annotated

import typer

_FILES = ".npy, .npz, .npz:name, .csv, .parquet, .safetensors, - for CSV on standard input"

Probs = Annotated[
    str,
    typer.Argument(metavar="PROBS", help=f"Probabilities, a row per point: {_FILES}.", show_default=False),
]
Labels = Annotated[
    str,
    typer.Argument(metavar="LABELS", help="Noisy labels, numbers or names: the same.", show_default=False),
]
Truth = Annotated[
    str, typer.Argument(metavar="LABELS", help="True labels, numbers or names: the same.", show_default=False)
]
Cal = Annotated[
    Path, typer.Argument(metavar="CALIBRATION", help="What nacp calibrate wrote.", show_default=False)
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        help="Class names in the order of the columns: one per line, .json or .csv.",
        metavar="FILE",
    ),
]
Normalize = Annotated[bool, typer.Option("--normalize", help="Divide each row by its sum.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def examples(*lines: str) -> str:
    """Return the block of examples below the help; older versions of typer would join single lines."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"[cyan]$ {line}[/cyan]" for line in lines)])
