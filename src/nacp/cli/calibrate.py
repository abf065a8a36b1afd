"""``nacp calibrate``: from labels to a threshold."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

import nacp
from nacp.cli import options
from nacp.cli.commands import CONTRADICTED, command
from nacp.cli.formats import few
from nacp.cli.outputs import check_output, described
from nacp.cli.sample import Sample, Target
from nacp.cli.terminal import complain, complain_of_warning, progress_of, progress_of_rows, show
from nacp.errors import InputError
from nacp.wrapping import counted


@command(
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
    sample: Sample,
    target: Target,
    out: Annotated[Path, options.out("The file for the calibration.")] = Path("cal.json"),
    strict: Annotated[
        bool, typer.Option("--strict", help="End with exit code 3 if the labels contradict the noise model.")
    ] = False,
) -> None:
    """Find the threshold, and say what is promised.

    The exit code is 0, 2 for wrong input, and with --strict 3 if the
    labels contradict the noise model (the calibration is written all
    the same, and keeps the warning).
    """
    check_output(str(out), inputs=sample.files)
    with progress_of(f"reading {sample.probs}"):
        opened = sample.open(target.groups)
        given = opened.arguments | target.arguments()
    with warnings.catch_warnings(), progress_of_rows("calibrating"):
        for printed_below in (nacp.NoValidThresholdWarning, nacp.NoiseModelWarning):
            warnings.simplefilter("ignore", printed_below)
        warnings.simplefilter("always", nacp.RepeatedRowsWarning)
        warnings.showwarning = complain_of_warning
        try:
            found: Any = nacp.calibrate(opened.probs, opened.labels, **given)
        except InputError as error:
            # The true labels are in the file of the audit.
            in_audit = sample.audit is not None and error.argument == "clean"
            raise error.about(str(sample.audit)) if in_audit else error from None
    found.save(out)
    if isinstance(found, nacp.Calibration) and found.obstacle is not None:
        complain(f"Warning: no threshold keeps the promise, so the sets hold all {found.k:,} classes.")
    elif isinstance(found, nacp.GroupedCalibration) and found.infinite:
        groups = f"{counted(len(found.infinite), 'group')} no threshold keeps the promise"
        complain(f"Warning: in {groups}: {few(found.infinite)}.")
    show(described(found) | {"out": str(out)}, found, f"Written: {out}")
    if strict and found.warnings:
        raise typer.Exit(CONTRADICTED)
