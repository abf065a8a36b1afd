"""``nacp noise``: where the noise model comes from."""

import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import nacp
from nacp.cli import labelling, options
from nacp.cli.classes import read_class_list, read_lines
from nacp.cli.errors import Group, command, example_block
from nacp.cli.inputs import read_points
from nacp.cli.labels import read_pairs, refuse_same
from nacp.cli.outputs import check_output
from nacp.cli.terminal import complain, progress_of, show
from nacp.errors import InputError
from nacp.estimation import accuracy_by_annotator
from nacp.labels import LabelTable

app = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode="rich")

Out = Annotated[Path, typer.Option("-o", "--out", help="The file for the estimate.")]
Number = Annotated[
    int | None, typer.Option("--k", help="The number of classes.", show_default="the largest label plus one")
]
Sure = Annotated[float, typer.Option(help="The probability with which the interval or radius holds.")]
Kind = Literal["uniform", "matrix"]
_OUT = Path("noise.json")


@app.callback(
    epilog=example_block(
        "nacp noise audit noisy.csv checked.csv --k 10",
        "nacp calibrate probs.npy labels.npy --noise noise.json",
    )
)
def _noise() -> None:
    """Estimate label noise, for --noise of nacp calibrate."""


@command(
    app,
    "audit",
    "nacp noise audit noisy.npy checked.npy --k 10",
    "nacp noise audit audit.csv:label audit.csv:checked --classes names.txt --groups groups.txt",
)
def audit_command(
    noisy: Annotated[
        str, typer.Argument(metavar="NOISY", help="The labels as they were.", show_default=False)
    ],
    clean: Annotated[
        str,
        typer.Argument(
            metavar="CLEAN",
            help="The same items' true labels; items without one are left out.",
            show_default=False,
        ),
    ],
    k: Number = None,
    classes: options.Classes = None,
    model: Annotated[
        Literal["auto", "uniform", "groups", "matrix"],
        typer.Option(
            metavar="NAME",
            help="uniform, groups, matrix; auto: groups if they are given and not refuted, else a matrix.",
        ),
    ] = "auto",
    groups: Annotated[
        str | None, typer.Option(help="The group of each class: one per line.", metavar="FILE")
    ] = None,
    confidence: Sure = 0.95,
    out: Out = _OUT,
    separator: options.Separator = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """From a sample whose labels were checked. If they are calibration points: nacp calibrate --clean."""
    check_output(str(out), inputs=(noisy, clean, classes, groups))
    refuse_same(noisy, clean)
    with progress_of(f"reading {noisy}", quiet) as say:
        names = None if classes is None else read_class_list(classes)
        labels, true, number = read_pairs(noisy, clean, names)
        members = None if groups is None else read_lines(groups)
        say("estimating")
        found = nacp.noise_from_audit(
            labels, true, k=k, classes=names, model=model, groups=members, confidence=confidence
        )
    if len(true) < number:
        complain(f"Left out: {number - len(true):,} of {number:,} items without a label or a true one.")
    _write(found, out, as_json)


@command(
    app,
    "annotators",
    "nacp noise annotators votes.csv --k 10",
    "nacp noise annotators export.json --classes names.txt --model annotators --labels labels.npz",
    "nacp calibrate probs.npy labels.npz --noise noise.json --classes names.txt",
    "nacp noise annotators answers.csv --item image --annotator who --label answer --classes names.txt",
)
def annotators_command(
    labels: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="What a labelling tool exported (Label Studio, Argilla, JSONL), a CSV of task, worker and "
            "label, or a row per item and a column per annotator, empty or -1: missing.",
            show_default=False,
        ),
    ],
    k: Number = None,
    classes: options.Classes = None,
    model: Annotated[
        Literal["auto", "uniform", "matrix", "annotators"],
        typer.Option(
            metavar="NAME",
            help="uniform; or matrix, annotators: Dawid and Skene's model, one matrix or one for each; auto: "
            "annotators if one rate for all is excluded, else uniform.",
        ),
    ] = "auto",
    confidence: Sure = 0.95,
    format: labelling.Format = None,
    control: labelling.Control = None,
    predictions: labelling.Predictions = False,
    item: labelling.Item = None,
    annotator: labelling.Annotator = None,
    label: labelling.Label = None,
    checked: labelling.Checked = None,
    expert: labelling.Expert = None,
    labels_out: labelling.LabelsOut = None,
    items: labelling.Items = None,
    out: Out = _OUT,
    separator: options.Separator = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """From several labels per item; those that were checked are used, too.

    The labels for nacp calibrate come from the same file, by --labels.
    With .npz it holds all of them:

    nacp calibrate probs.npy labels.npz --noise noise.json

    With .csv it has a row per item. label is one that was picked at random
    and goes with the noise model; vote is what most said and checked is the
    truth where it is known, for labels.csv:vote --clean labels.csv:checked.
    """
    check_output(str(out), inputs=(labels, classes, items))
    with progress_of(f"reading {labels}", quiet) as say:
        names = None if classes is None else read_class_list(classes)
        votes: Any = labelling.read_table(
            labels, names, format=format, control=control, predictions=predictions or None, item=item,
            annotator=annotator, label=label, checked=checked, expert=expert,
        )  # fmt: skip
        numbered = not isinstance(votes, LabelTable) and votes.dtype.kind not in "US"
        if names is not None and k is not None and k != len(names):
            raise InputError(
                "k", f"is {k:,}, but {classes} holds {len(names):,} names", remedy="give one of them"
            )
        if names is not None and numbered:
            k, known = len(names), None
        else:
            known = names
        say("estimating")
        with warnings.catch_warnings():
            warnings.simplefilter("always", nacp.NoiseModelWarning)
            warnings.showwarning = lambda message, *_, **__: complain(f"Warning: {message}.")
            found = nacp.noise_from_annotators(votes, k=k, classes=known, model=model, confidence=confidence)
        named = not isinstance(votes, LabelTable) or votes.named
        each = accuracy_by_annotator(votes, k=k, classes=known, confidence=confidence) if named else None
        if labels_out is not None:
            check_output(str(labels_out), (".npz", ".csv"), (labels, classes, items, str(out)))
            told = labelling.write_labels(votes, labels_out, names, items)
    found.save(out)
    if each is None:
        complain(
            f"Warning: {labels} does not say whose labels they are. Nothing is said of each annotator, and "
            "that some err more than others would not be seen."
        )
    rows = [] if each is None else [row._asdict() for row in each.rows]
    document = found.to_dict() | {"annotators": rows, "out": str(out)}
    written = [f"Written: {out}, for nacp calibrate --noise {out}"]
    if labels_out is not None:
        document["labels"] = str(labels_out)
        written.append(told)
    show(as_json, document, *([] if each is None else [each, ""]), found, *written)


@command(
    app,
    "model",
    "nacp noise model probs.npy labels.npy",
    "nacp noise model probs.npy labels.npy --model matrix",
)
def model_command(
    probs: options.Probs,
    labels: options.Labels,
    classes: options.Classes = None,
    normalize: options.Normalize = False,
    logits: options.Logits = False,
    model: Annotated[Kind, typer.Option(help="matrix: confident learning, by cleanlab.")] = "uniform",
    confidence: Sure = 0.95,
    out: Out = _OUT,
    separator: options.Separator = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """From the classifier's probabilities alone: likelihood; the weakest source."""
    check_output(str(out), inputs=(probs, labels, classes))
    with progress_of(f"reading {probs}", quiet) as say:
        matrix, noisy, names = read_points(probs, labels, names=classes)
        say("estimating")
        found = nacp.noise_from_model(
            matrix,
            noisy,
            classes=names,
            normalize=normalize,
            from_logits=logits,
            model=model,
            confidence=confidence,
        )
    _write(found, out, as_json)


@command(app, "privacy", "nacp noise privacy 2.5 --k 100")
def privacy_command(
    epsilon: Annotated[
        float, typer.Argument(metavar="EPSILON", help="The privacy parameter.", show_default=False)
    ],
    k: Annotated[int, typer.Option("--k", help="The number of classes.", show_default=False)],
    out: Out = _OUT,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Of labels made private by randomised response: known exactly."""
    check_output(str(out))
    with progress_of("computing", quiet):
        found = nacp.noise_from_privacy(epsilon, k)
    _write(found, out, as_json)


def _write(found: nacp.NoiseEstimate, out: Path, as_json: bool) -> None:
    found.save(out)
    document = found.to_dict() | {"out": str(out)}
    show(as_json, document, found, f"Written: {out}, for nacp calibrate --noise {out}")
