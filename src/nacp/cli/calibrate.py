"""``nacp calibrate``: from labels to a threshold."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import nacp
from nacp.cli import options
from nacp.cli.commands import CONTRADICTED, command
from nacp.cli.formats import few
from nacp.cli.inputs import Points
from nacp.cli.outputs import check_output, described
from nacp.cli.predict import places_of, predict_blocks
from nacp.cli.sample import Sample, Target
from nacp.cli.terminal import complain, progress_of, progress_of_rows, show
from nacp.wrapping import counted


@command(
    "calibrate",
    "nacp calibrate probs.npy labels.npy --noise 0.2",
    "nacp calibrate data.npz:probs data.npz:noisy --noise 0.2 --score raps --guarantee pac -o cal.json",
    "nacp calibrate probs.npy labels.csv --noise matrix.csv --classes names.txt",
    "nacp calibrate probs.npy labels.csv --clean checked.csv",
    "nacp calibrate probs.npy labels.csv --audit to-check.csv",
    "nacp calibrate points.csv points.csv:label --noise 0.2 --groups points.csv:hospital",
)
def calibrate_command(
    sample: Sample,
    target: Target,
    out: Annotated[Path, options.out("The file for the calibration.")] = Path("cal.json"),
    strict: Annotated[
        bool, typer.Option("--strict", help="End with exit code 3 if there is a warning about the labels.")
    ] = False,
) -> None:
    """Find the threshold, and say how large the sets are and what is promised.

    The exit code is 0, 2 for wrong input, and with --strict 3 if the
    labels contradict the noise model or do not fit the rows (the
    calibration is written all the same, and keeps the warning).
    """
    check_output(str(out))
    with progress_of(f"reading {sample.probs}"):
        points, given = sample.open(target.groups)
        given |= target.arguments()
    with warnings.catch_warnings(), progress_of_rows("calibrating", len(points.probs)):
        for printed_below in (nacp.NoValidThresholdWarning, nacp.NoiseModelWarning):
            warnings.simplefilter("ignore", printed_below)
        found: Any = nacp.calibrate(points.probs, points.labels, **given)
    found.save(out)
    sizes = _sizes(found, points, target.groups)
    sentence = (
        f"On the calibration rows, a set holds {sizes['mean_size']:.4g} of {found.k:,} classes on average; "
        f"{sizes['empty']:.1%} of the sets are empty, {sizes['singleton']:.1%} hold one class."
    )
    show(described(found) | sizes | {"out": str(out)}, sentence, found, f"Written: {out}")
    infinite = found.infinite if isinstance(found, nacp.GroupedCalibration) else ()
    if infinite:
        groups = f"{counted(len(infinite), 'group')} no threshold keeps the promise"
        complain(f"Warning: in {groups}: {few(infinite)}.")
    elif sizes["mean_size"] > found.k / 2:
        said = "sets hold more than half of all classes on average"
        if found.obstacle is not None:
            said = f"no threshold keeps the promise, so the sets hold all {found.k:,} classes"
        complain(f"Warning: {said}. {_reason(found)}.")
    if strict and found.warnings:
        raise typer.Exit(CONTRADICTED)


def _sizes(cal: Any, points: Points, groups: str | None) -> dict[str, float]:
    """Return the mean size of the sets of the calibration rows, the shares of empty and of single ones."""
    by_row = isinstance(cal, nacp.GroupedCalibration) and cal.members is None
    places = places_of(cal, points.groups, groups) if by_row else None
    counts, n = np.zeros(3), len(points.probs)
    for _, _, sets in predict_blocks(cal, points.probs, True, places, "measuring sets"):
        counts += sets.sizes.sum(), (sets.sizes == 0).sum(), (sets.sizes == 1).sum()
    return dict(zip(("mean_size", "empty", "singleton"), (counts / n).tolist(), strict=True))


def _reason(cal: Any) -> str:
    """Return the likely reason why sets are large."""
    if cal.warnings:
        return "The warning about the labels may be the reason"
    one = cal.calibrations[0] if isinstance(cal, nacp.GroupedCalibration) else cal
    if one.noise is not None and one.noise.doubt.radius > 0:
        return (
            "The noise is known too roughly for small sets. If these points were checked, give the checked "
            "labels themselves, as --clean FILE, in place of --noise"
        )
    if one.obstacle is not None or one.excess > one.alpha / 2:
        return "There are few labels for this promise; nacp plan says how many are needed"
    return "The classifier separates these classes poorly, or alpha is small; nacp compare tries scores"
