"""Arguments and options that several commands of ``nacp`` take."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nacp.checks import alpha_meant

_FILES = (
    ".npy, .npz, .npz:name, .csv, .tsv, .jsonl (these also with .gz), .parquet, .safetensors, "
    "- for CSV on standard input"
)


def argument(name: str, help: str) -> Any:
    """Return a required argument, called by its name in the help."""
    return typer.Argument(metavar=name, help=help, show_default=False)


def file(*flags: str, help: str) -> Any:
    """Return an option that is the name of a file."""
    return typer.Option(*flags, help=help, metavar="FILE", show_default=False)


def name(help: str) -> Any:
    """Return an option that is a name."""
    return typer.Option(help=help, metavar="NAME")


def out(help: str) -> Any:
    """Return the option --out for a file of which the help says what it holds."""
    return typer.Option("-o", "--out", help=help)


def _alpha(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        said = [f"{text!r} is not a number", *alpha_meant("alpha", text).values()]
        raise typer.BadParameter("; ".join([said[0], *said[2:]])) from None


Probs = Annotated[str, argument("PROBS", f"Probabilities, a row per point: {_FILES}.")]
Labels = Annotated[
    str,
    argument("LABELS", "Noisy labels, numbers or names, in such a file; labels.csv:column names a column."),
]
Cal = Annotated[Path, argument("CALIBRATION", "What nacp calibrate wrote.")]
Classes = Annotated[
    str | None, file(help="Class names in the order of the columns: one per line, .json or .csv.")
]
Clean = Annotated[
    str | None,
    file(help="True labels of some rows, -1 or empty if not checked; no noise model is then needed."),
]
Audit = Annotated[
    str | None,
    file(help="What nacp audit choose wrote, filled in: true labels of the points that it chose."),
]
Alpha = Annotated[
    float,
    typer.Option(
        help="The share of true labels that sets may miss.",
        parser=_alpha,
        metavar="FLOAT",
    ),
]
ScoreName = Annotated[str, typer.Option(help="hps, aps, raps, saps, margin, topk or precomputed.")]
Delta = Annotated[float, typer.Option(help="The probability with which a promise may fail.")]
RowGroups = Annotated[
    str | None, file("--groups", help="The group of each row, if the calibration has groups of rows.")
]
By = Annotated[Literal["class"] | None, typer.Option(help="A threshold for each class.", show_default=False)]
Simultaneous = Annotated[
    bool, typer.Option("--simultaneous", help="Promise all groups at once: delta is divided among them.")
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="The column that names the rows; files that have it are joined by it.",
        show_default="one called id, ids, item or items",
    ),
]
RandomState = Annotated[int, typer.Option(min=0, help="The seed of the order in which pac takes the points.")]
Drop = Annotated[bool, typer.Option("--drop-unlabelled", help="Leave out rows that have no label.")]
AllowEmpty = Annotated[
    bool,
    typer.Option(help="Without: put the most probable label into sets that would be empty."),
]
NumberOfClasses = Annotated[
    int | None, typer.Option("--k", help="The number of classes.", show_default="the largest label plus one")
]
EstimateConfidence = Annotated[
    float, typer.Option(help="The probability with which the interval or radius holds.")
]
EstimateOut = Annotated[Path, out("The file for the estimate.")]
ESTIMATE = Path("noise.json")
