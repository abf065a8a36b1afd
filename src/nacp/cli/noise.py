"""``nacp noise``: where the noise model comes from; and its commands audit, model and privacy."""

from pathlib import Path
from typing import Annotated, Literal

import typer

import nacp
from nacp.cli import options
from nacp.cli.commands import command, group
from nacp.cli.inputs import read_class_list, read_lines, read_pairs
from nacp.cli.outputs import check_output
from nacp.cli.sample import PointFiles
from nacp.cli.terminal import complain, progress_of, show

noise_app = group(
    "noise",
    "Estimate label noise, for --noise of nacp calibrate.",
    "nacp noise audit noisy.csv checked.csv --k 10",
    "nacp calibrate probs.npy labels.npy --noise noise.json",
)


@command(
    "audit",
    "nacp noise audit noisy.npy checked.npy --k 10",
    "nacp noise audit audit.csv:label audit.csv:checked --classes names.txt --groups groups.txt",
    app=noise_app,
)
def audit_command(
    noisy: Annotated[str, options.argument("NOISY", "The labels as they were.")],
    clean: Annotated[
        str, options.argument("CLEAN", "The same items' true labels; items without one are left out.")
    ],
    k: options.NumberOfClasses = None,
    classes: options.Classes = None,
    model: Annotated[
        Literal["auto", "uniform", "groups", "matrix"],
        typer.Option(
            metavar="NAME",
            help="uniform, groups, matrix; auto: groups if they are given and not refuted, else a matrix.",
        ),
    ] = "auto",
    groups: Annotated[str | None, options.file(help="The group of each class: one per line.")] = None,
    id: options.Id = None,
    confidence: options.EstimateConfidence = 0.95,
    out: options.EstimateOut = options.ESTIMATE,
) -> None:
    """From a sample whose labels were checked. If they are calibration points: nacp calibrate --clean."""
    check_output(str(out))
    with progress_of(f"reading {noisy}") as say:
        names = None if classes is None else read_class_list(classes)
        labels, true, number = read_pairs(noisy, clean, names, id)
        members = None if groups is None else read_lines(groups)
        say("estimating")
        found = nacp.noise_from_audit(
            labels, true, k=k, classes=names, model=model, groups=members, confidence=confidence
        )
    if len(true) < number:
        complain(f"Left out: {number - len(true):,} of {number:,} items without a label or a true one.")
    _write(found, out)


@command(
    "model",
    "nacp noise model probs.npy labels.npy",
    "nacp noise model probs.npy labels.npy --model matrix",
    app=noise_app,
)
def model_command(
    points: PointFiles,
    model: Annotated[
        Literal["uniform", "matrix"], typer.Option(help="matrix: confident learning, by cleanlab.")
    ] = "uniform",
    confidence: options.EstimateConfidence = 0.95,
    out: options.EstimateOut = options.ESTIMATE,
) -> None:
    """From the classifier's probabilities alone: likelihood; the weakest source."""
    check_output(str(out))
    with progress_of(f"reading {points.probs}") as say:
        read, given = points.read()
        say("estimating")
        found = nacp.noise_from_model(read.probs, read.labels, model=model, confidence=confidence, **given)
    _write(found, out)


@command("privacy", "nacp noise privacy 2.5 --k 100", app=noise_app)
def privacy_command(
    epsilon: Annotated[float, options.argument("EPSILON", "The privacy parameter.")],
    k: Annotated[int, typer.Option("--k", help="The number of classes.", show_default=False)],
    out: options.EstimateOut = options.ESTIMATE,
) -> None:
    """Of labels made private by randomised response: known exactly."""
    check_output(str(out))
    _write(nacp.noise_from_privacy(epsilon, k), out)


def _write(found: nacp.NoiseEstimate, out: Path) -> None:
    found.save(out)
    document = found.to_dict() | {"out": str(out)}
    show(document, found, f"Written: {out}, for nacp calibrate --noise {out}")
