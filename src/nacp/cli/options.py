"""Arguments and options that several commands of ``nacp`` take."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nacp.cli.formats.base import separate_by
from nacp.coverage.curve import Rule
from nacp.errors import InputError

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


Probs = Annotated[str, argument("PROBS", f"Probabilities, a row per point: {_FILES}.")]
Labels = Annotated[str, argument("LABELS", "Noisy labels, numbers or names: the same; labels.csv:column.")]
Truth = Annotated[str, argument("LABELS", "True labels, numbers or names: the same; labels.csv:column.")]
Cal = Annotated[Path, argument("CALIBRATION", "What nacp calibrate wrote.")]
Classes = Annotated[
    str | None, file(help="Class names in the order of the columns: one per line, .json or .csv.")
]
NoiseText = Annotated[
    str,
    typer.Option(
        help="The rate of uniform label noise: of labels that were replaced by a random one, perhaps the "
        "same (see --noise-other). Or a file of a (k, k) matrix (rows: the true class), what nacp noise "
        'wrote (.json), or "none".',
        show_default=False,
    ),
]
NoiseOther = Annotated[
    float | None,
    typer.Option(
        help="Instead of --noise: the rate of wrong labels, where every other class is equally likely.",
        metavar="RATE",
        show_default=False,
    ),
]
Clean = Annotated[
    str | None,
    file(help="True labels, -1 or empty where one was not checked; no noise model is then needed."),
]
Audit = Annotated[
    str | None, file(help="What nacp audit choose wrote, filled in: true labels of the points that it chose.")
]
Interval = Annotated[
    tuple[float, float] | None,
    typer.Option(help="Where the rate lies, if it is not known exactly.", metavar="LOW HIGH"),
]
Confidence = Annotated[float, typer.Option(help="The probability that it lies there.")]
Alpha = Annotated[float, typer.Option(help="Sets are to cover with probability 1 - alpha.")]
ScoreName = Annotated[str, typer.Option(help="hps, aps, raps, saps, margin, topk or precomputed.")]
GuaranteeName = Annotated[
    str | None,
    typer.Option(
        help="pac, binomial, expected, nacp, acnl, crcp, none or split.",
        show_default="pac; split for noise none",
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(help="The probability with which the promise may fail.", show_default="the guarantee's"),
]
Groups = Annotated[
    str | None,
    file(
        help="A threshold for each group. The group of each row, one per line or a column "
        "(groups.csv:column); or of each class: .json, or a table of class and group."
    ),
]
RowGroups = Annotated[
    str | None, file("--groups", help="The group of each row, if the calibration has groups of rows.")
]
By = Annotated[Literal["class"] | None, typer.Option(help="A threshold for each class.", show_default=False)]
Simultaneous = Annotated[
    bool, typer.Option("--simultaneous", help="Promise all groups at once: delta is divided among them.")
]
Small = Annotated[
    Literal["error", "all", "merge"],
    typer.Option(help="What to do with groups of too few points; all: their sets hold all labels."),
]
Crossing = Annotated[Rule, typer.Option(help="Where the estimate crosses the target.")]
TestProbs = Annotated[
    str | None, typer.Option(help="Points whose sets are measured.", show_default="the same points")
]
TestLabels = Annotated[str | None, typer.Option(help="Their true labels.")]
Seed = Annotated[int, typer.Option(min=0, help="The seed of the order in which pac takes the points.")]
Normalize = Annotated[bool, typer.Option("--normalize", help="Divide each row by its sum.")]
Logits = Annotated[bool, typer.Option("--logits", help="The matrix holds logits: take their softmax.")]
Drop = Annotated[bool, typer.Option("--drop-unlabelled", help="Leave out rows that have no label.")]
NoEmpty = Annotated[
    bool, typer.Option("--no-empty", help="Put the most probable label into sets that would be empty.")
]
NumberOfClasses = Annotated[
    int | None, typer.Option("--k", help="The number of classes.", show_default="the largest label plus one")
]
EstimateConfidence = Annotated[
    float, typer.Option(help="The probability with which the interval or radius holds.")
]
EstimateOut = Annotated[Path, out("The file for the estimate.")]
ESTIMATE = Path("noise.json")


def _separate(ctx: typer.Context, mark: str | None) -> str | None:
    """Set the separator of text tables until the command ends."""
    try:
        ctx.call_on_close(separate_by(mark))
    except InputError as error:
        raise typer.BadParameter(f"{error.problem}; found {error.found}") from None
    return mark


Separator = Annotated[
    str | None,
    typer.Option(
        "--separator",
        help="What separates the columns of text tables that have it, such as ';' or tab.",
        metavar="MARK",
        show_default="',', in .tsv a tab",
        callback=_separate,
    ),
]
"""Its callback does all the work; a command only has to have the parameter."""
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
