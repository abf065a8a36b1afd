"""``nacp noise``: where the noise model comes from; and ``nacp diagnose``: whether it can be right."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

import nacp
from nacp._types import Array
from nacp.cli.inputs import (
    read_annotations,
    read_calibration,
    read_class_list,
    read_labels,
    read_lines,
    read_points,
)
from nacp.cli.options import Cal, Classes, Json, Labels, Normalize, Probs, Quiet, examples
from nacp.cli.outputs import check_output
from nacp.cli.terminal import FAILED, progress_of, show

noise_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Out = Annotated[Path, typer.Option("-o", "--out", help="The file for the estimate.")]
Number = Annotated[
    int | None, typer.Option("--k", help="The number of classes.", show_default="the largest label plus one")
]
Sure = Annotated[float, typer.Option(help="The probability with which the interval or radius holds.")]
Kind = Literal["uniform", "matrix"]
_OUT = Path("noise.json")


@noise_app.callback(
    epilog=examples(
        "nacp noise audit noisy.csv checked.csv --k 10",
        "nacp calibrate probs.npy labels.npy --noise noise.json",
    )
)
def _noise() -> None:
    """Estimate label noise, for --noise of nacp calibrate."""


@noise_app.command(
    "audit",
    epilog=examples(
        "nacp noise audit noisy.npy checked.npy --k 10",
        "nacp noise audit audit.csv:label audit.csv:checked --classes names.txt --groups groups.txt",
    ),
)
def audit_command(
    noisy: Annotated[
        str, typer.Argument(metavar="NOISY", help="The labels as they were.", show_default=False)
    ],
    clean: Annotated[
        str, typer.Argument(metavar="CLEAN", help="The same items' true labels.", show_default=False)
    ],
    k: Number = None,
    classes: Classes = None,
    model: Annotated[
        Literal["auto", "uniform", "groups", "matrix"],
        typer.Option(help="auto: the simplest that is not refuted."),
    ] = "auto",
    groups: Annotated[
        str | None, typer.Option(help="The group of each class: one per line.", metavar="FILE")
    ] = None,
    confidence: Sure = 0.95,
    out: Out = _OUT,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """From a sample whose labels were checked: exact interval."""
    check_output(str(out), inputs=(noisy, clean, classes, groups))
    if noisy == clean:
        raise ValueError(
            f"{noisy} is given twice: name the columns, as in labels.csv:noisy labels.csv:checked"
        )
    with progress_of(f"reading {noisy}", quiet) as say:
        names = None if classes is None else read_class_list(classes)
        given, true = _labels(noisy, names), _labels(clean, names)
        members = None if groups is None else read_lines(groups)
        say("estimating")
        found = nacp.noise_from_audit(
            given, true, k=k, classes=names, model=model, groups=members, confidence=confidence
        )
    _write(found, out, as_json)


@noise_app.command(
    "annotators",
    epilog=examples(
        "nacp noise annotators votes.csv --k 10",
        "nacp noise annotators votes.csv --classes names.txt --model matrix -o crowd.json",
    ),
)
def annotators_command(
    labels: Annotated[
        str,
        typer.Argument(
            metavar="LABELS",
            help="A row per item, a column per annotator; empty or -1: missing.",
            show_default=False,
        ),
    ],
    k: Number = None,
    classes: Classes = None,
    model: Annotated[Kind, typer.Option(help="matrix: Dawid and Skene's model, by crowd-kit.")] = "uniform",
    confidence: Sure = 0.95,
    out: Out = _OUT,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """From several labels per item, none of them known to be right: exact interval."""
    check_output(str(out), inputs=(labels, classes))
    with progress_of(f"reading {labels}", quiet) as say:
        names = None if classes is None else read_class_list(classes)
        given = read_annotations(labels, names)
        if names is not None and given.dtype.kind not in "US":
            if k is not None and k != len(names):
                raise ValueError(f"--k is {k}, but {classes} holds {len(names)} names; give one of them")
            k, names = len(names), None
        say("estimating")
        found = nacp.noise_from_annotators(given, k=k, classes=names, model=model, confidence=confidence)
    _write(found, out, as_json)


@noise_app.command(
    "model",
    epilog=examples(
        "nacp noise model probs.npy labels.npy", "nacp noise model probs.npy labels.npy --model matrix"
    ),
)
def model_command(
    probs: Probs,
    labels: Labels,
    classes: Classes = None,
    normalize: Normalize = False,
    model: Annotated[Kind, typer.Option(help="matrix: confident learning, by cleanlab.")] = "uniform",
    confidence: Sure = 0.95,
    out: Out = _OUT,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """From the classifier's probabilities alone: likelihood; the weakest source."""
    check_output(str(out), inputs=(probs, labels, classes))
    with progress_of(f"reading {probs}", quiet) as say:
        matrix, given, names = read_points(probs, labels, names=classes)
        say("estimating")
        found = nacp.noise_from_model(
            matrix, given, classes=names, normalize=normalize, model=model, confidence=confidence
        )
    _write(found, out, as_json)


@noise_app.command("privacy", epilog=examples("nacp noise privacy 2.5 --k 100"))
def privacy_command(
    epsilon: Annotated[
        float, typer.Argument(metavar="EPSILON", help="The privacy parameter.", show_default=False)
    ],
    k: Annotated[int, typer.Option("--k", help="The number of classes.", show_default=False)],
    out: Out = _OUT,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Of labels made private by randomised response: known exactly."""
    check_output(str(out))
    with progress_of("computing", quiet):
        found = nacp.noise_from_privacy(epsilon, k)
    _write(found, out, as_json)


def diagnose_command(
    calibration: Cal,
    probs: Probs,
    labels: Labels,
    audit_probs: Annotated[str | None, typer.Option(help="Points whose true labels are known.")] = None,
    audit_labels: Annotated[str | None, typer.Option(help="Their true labels.")] = None,
    level: Annotated[float, typer.Option(help="The probability of rejecting a right model.")] = 0.05,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Ask whether the noise model of a calibration can be right, without a clean label.

    The exit code is 1 if it is rejected, or if clean labels are covered too little.
    """
    if (audit_probs is None) != (audit_labels is None):
        raise ValueError("--audit-probs and --audit-labels belong together; give both, or neither")
    model = read_calibration(calibration, probs, labels)
    with progress_of(f"reading {probs}", quiet) as say:
        matrix, given, _ = read_points(probs, labels, model.classes, k=model.k)
        audited, true = None, None
        if audit_probs is not None and audit_labels is not None:
            audited, true, _ = read_points(audit_probs, audit_labels, model.classes, k=model.k)
        say("diagnosing")
        found = nacp.diagnose(model, matrix, given, audit_probs=audited, audit_labels=true, level=level)
    checks = [check._asdict() for check in found.checks]
    audit = None if found.audit is None else found.audit._asdict()
    show(as_json, asdict(found) | {"checks": checks, "audit": audit, "sentence": str(found)}, found)
    if found.rejected or (found.audit is not None and found.audit.short):
        raise typer.Exit(FAILED)


def _labels(name: str, classes: list[str] | None) -> Array:
    """Read labels, of which it is not known how many there are: a first one that is no label is a header."""
    given = read_labels(name, classes=classes)
    if given.dtype.kind in "US" and classes is None:
        raise ValueError(
            f"{name} holds names such as {str(given[0])!r}: pass --classes FILE with all of them in order"
        )
    return given


def _write(found: nacp.NoiseEstimate, out: Path, as_json: bool) -> None:
    found.save(out)
    document = found.to_dict() | {"out": str(out)}
    show(as_json, document, f"{found}\nWritten: {out}, for nacp calibrate --noise {out}")
