"""``nacp calibrate``: from labels to a threshold."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

import nacp
from nacp.cli import options
from nacp.cli.audit import read_audit
from nacp.cli.errors import CONTRADICTED, command
from nacp.cli.formats.base import few
from nacp.cli.inputs import read_clean, read_groups, read_points
from nacp.cli.models import read_noise
from nacp.cli.outputs import check_output, described
from nacp.cli.terminal import complain, progress_of, progress_of_rows, show
from nacp.errors import InputError
from nacp.wrapping import counted

app = typer.Typer()


@command(
    app,
    "calibrate",
    "nacp calibrate probs.npy labels.npy --noise 0.2",
    "nacp calibrate data.npz:probs data.npz:noisy --noise 0.2 --score raps --guarantee pac -o cal.json",
    "nacp calibrate points.csv points.csv:label --noise 0.2",
    "nacp calibrate probs.npy labels.csv --noise matrix.csv --classes names.txt",
    "nacp calibrate probs.npy labels.npy --noise 0.2 --noise-interval 0.15 0.25",
    "nacp calibrate probs.npy labels.csv --clean checked.csv",
    "nacp calibrate probs.npy labels.csv --audit to-check.csv",
    "nacp calibrate probs.npy labels.csv --noise 0.2 --groups points.csv:hospital",
)
def calibrate_command(
    probs: options.Probs,
    labels: options.Labels,
    noise: options.NoiseText = "",
    noise_other: options.NoiseOther = None,
    clean: options.Clean = None,
    audit: options.Audit = None,
    out: Annotated[Path, options.out("The file for the calibration.")] = Path("cal.json"),
    alpha: options.Alpha = 0.1,
    score: options.ScoreName = "hps",
    guarantee: options.GuaranteeName = None,
    delta: options.Delta = None,
    classes: options.Classes = None,
    noise_interval: options.Interval = None,
    noise_confidence: options.Confidence = 1.0,
    crossing: options.Crossing = "last",
    normalize: options.Normalize = False,
    logits: options.Logits = False,
    groups: options.Groups = None,
    by: options.By = None,
    simultaneous: options.Simultaneous = False,
    small: options.Small = "error",
    seed: options.Seed = 0,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with exit code 3 if the labels contradict the noise model.")
    ] = False,
    drop_unlabelled: options.Drop = False,
    separator: options.Separator = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Find the threshold, and say what is promised.

    The exit code is 0, 2 for wrong input, and with --strict 3 if the
    labels contradict the noise model (the calibration is written all
    the same, and keeps the warning).
    """
    check_output(str(out), inputs=(probs, labels, noise, classes, clean, audit))
    if clean is not None and audit is not None:
        raise InputError("audit", "holds checked labels, and so does --clean", remedy="give one of them")
    if audit is not None and drop_unlabelled:
        raise InputError("drop_unlabelled", "is of no use with checked labels", remedy="drop such rows first")
    with progress_of(f"reading {probs}", quiet):
        matrix, noisy, names = read_points(
            probs, labels, names=classes, clean=clean, groups=groups, drop=drop_unlabelled
        )
        k, optional = matrix.shape[1], clean is not None or audit is not None
        known = read_noise(
            noise, k, noise_other, noise_interval, noise_confidence, optional=optional, labels=labels
        )
        checked: Any = None if clean is None else read_clean(clean, len(matrix), names, noisy=labels)
        plan = None
        if audit is not None:
            plan, checked = read_audit(audit, matrix, noisy, names, normalize, logits)
        grouping: Any = None if groups is None else read_groups(groups, len(matrix), names)
    with warnings.catch_warnings(), progress_of_rows("calibrating", quiet):
        for printed_below in (nacp.NoValidThresholdWarning, nacp.NoiseModelWarning):
            warnings.simplefilter("ignore", printed_below)
        warnings.simplefilter("always", nacp.RepeatedRowsWarning)
        warnings.showwarning = lambda message, *_, **__: complain(f"Warning: {message}.")
        try:
            found: Any = nacp.calibrate(
                matrix,
                noisy,
                noise=known,
                clean=checked,
                audit=plan,
                alpha=alpha,
                score=score,
                guarantee=guarantee,
                delta=delta,
                crossing=crossing,
                classes=names,
                normalize=normalize,
                from_logits=logits,
                random_state=seed,
                groups=grouping,
                by=by,
                simultaneous=simultaneous,
                small=small,
            )
        except InputError as error:
            # The true labels are in the file of the audit.
            raise error.about(audit) if audit is not None and error.argument == "clean" else error from None
    found.save(out)
    obstacle = _obstacle(found)
    if obstacle is not None:
        complain(f"Warning: {obstacle}.")
    show(as_json, described(found) | {"out": str(out)}, found, f"Written: {out}")
    if strict and found.warnings:
        raise typer.Exit(CONTRADICTED)


def _obstacle(found: nacp.Calibration | nacp.GroupedCalibration) -> str | None:
    """Return what to say where no threshold keeps the promise."""
    if isinstance(found, nacp.Calibration):
        all_classes = f"no threshold keeps the promise, so the sets hold all {found.k:,} classes"
        return None if found.obstacle is None else all_classes
    if not found.infinite:
        return None
    return f"in {counted(len(found.infinite), 'group')} no threshold keeps the promise: {few(found.infinite)}"
