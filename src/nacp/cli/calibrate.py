"""``nacp calibrate``: from labels to a threshold."""

import warnings
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

import nacp
from nacp.cli import options
from nacp.cli.commands import CONTRADICTED, command
from nacp.cli.formats import few
from nacp.cli.outputs import check_output, described
from nacp.cli.predict import places_of, predict_blocks
from nacp.cli.sample import Opened, Sample, Target
from nacp.cli.terminal import complain, progress_of, progress_of_rows, show
from nacp.errors import InputError
from nacp.points import check_labels
from nacp.wrapping import counted, wrapped

_CHANCE_ERRORS = 3  # labels are as in random order if they fit by no more than these standard errors


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
    """Find the threshold, and say how large the sets are and what is promised.

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
        try:
            found: Any = nacp.calibrate(opened.probs, opened.labels, **given)
        except InputError as error:
            # The true labels are in the file of the audit.
            in_audit = sample.audit is not None and error.argument == "clean"
            raise error.about(str(sample.audit)) if in_audit else error from None
    found.save(out)
    sets = _measured(found, opened, target.groups)
    infinite = found.infinite if isinstance(found, nacp.GroupedCalibration) else ()
    if infinite:
        groups = f"{counted(len(infinite), 'group')} no threshold keeps the promise"
        complain(f"Warning: in {groups}: {few(infinite)}.")
    elif sets.mean_size > found.k / 2:
        said = "sets hold more than half of all classes on average"
        if found.obstacle is not None:
            said = f"no threshold keeps the promise, so the sets hold all {found.k:,} classes"
        complain(f"Warning: {said}. {_reason(found, opened)}.")
    show(
        described(found) | sets._asdict() | {"out": str(out)},
        sets.sentence(found.k),
        found,
        f"Written: {out}",
    )
    if strict and found.warnings:
        raise typer.Exit(CONTRADICTED)


class _Sets(NamedTuple):
    """The sets of the calibration rows: their mean size, the shares of empty and of single ones."""

    mean_size: float
    empty: float
    singleton: float

    def sentence(self, k: int) -> str:
        return wrapped(
            f"On the calibration rows, a set holds {self.mean_size:.4g} of {k:,} classes on average; "
            f"{self.empty:.1%} of the sets are empty, {self.singleton:.1%} hold one class."
        )


def _measured(cal: Any, opened: Opened, groups: str | None) -> _Sets:
    """Return the sizes of the sets of the calibration rows."""
    by_row = isinstance(cal, nacp.GroupedCalibration) and cal.members is None
    places = places_of(cal, opened.arguments["groups"], groups) if by_row else None
    counts, n = np.zeros(3), len(opened.probs)
    with progress_of("measuring sets", n) as done:
        for start, rows, sets in predict_blocks(cal, opened.probs, True, places):
            counts += sets.sizes.sum(), (sets.sizes == 0).sum(), (sets.sizes == 1).sum()
            done(start + rows.n)
    return _Sets(*(counts / n).tolist())


def _reason(cal: Any, opened: Opened) -> str:
    """Return the likely reason why sets are large."""
    one = cal.calibrations[0] if isinstance(cal, nacp.GroupedCalibration) else cal
    n, k = opened.probs.shape
    if opened.labels.ndim == 1:
        labels = check_labels(opened.labels, n, k, opened.classes)
        sign = 1 if one.score.takes_probabilities else -1
        likely = np.concatenate(
            [np.argmax(sign * opened.probs[i : i + 10_000], axis=1) for i in range(0, n, 10_000)]
        )
        right = float((labels == likely).mean())
        chance = float(np.bincount(labels, minlength=k) @ np.bincount(likely, minlength=k)) / n**2
        if right <= chance + _CHANCE_ERRORS * np.sqrt(chance * (1 - chance) / n):
            return (
                f"The labels fit the rows no better than in a random order ({right:.1%} of them are the most "
                f"probable class, {chance:.1%} would be by chance): do they belong to these rows? Look at "
                "the order of both files, or name their column of ids by --id"
            )
    if one.noise is not None and one.noise.doubt.radius > 0:
        return (
            "The noise is known too roughly for small sets. If these points were checked, give the checked "
            "labels themselves, as --clean FILE, in place of --noise"
        )
    if one.obstacle is not None or one.excess > one.alpha / 2:
        return "There are few labels for this promise; nacp plan says how many are needed"
    return "The classifier separates these classes poorly, or alpha is small; nacp compare tries scores"
