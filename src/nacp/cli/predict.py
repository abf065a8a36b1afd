"""``nacp predict``: the prediction sets of new inputs."""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import typer

import nacp
from nacp._types import Array, Ints
from nacp.cli import options
from nacp.cli.commands import command
from nacp.cli.formats import STDIN
from nacp.cli.inputs import read_points
from nacp.cli.outputs import SET_ENDINGS, Sets, check_output, most_probable_first, write_sets
from nacp.cli.terminal import complain, progress_of, show
from nacp.errors import InputError
from nacp.groups.grouping import known_groups
from nacp.points import Rows

BLOCK_ENTRIES = 1 << 23  # entries of the rows that are predicted and written at once: 32 MB of float32


@command(
    "predict",
    "nacp predict cal.json new.npy -o sets.parquet",
    "nacp predict cal.json new.csv --with-probs -o sets.csv",
    "nacp predict cal.json new.csv -o - | head",
)
def predict_command(
    calibration: options.Cal,
    probs: options.Probs,
    out: Annotated[
        str, options.out(f"A file: {', '.join(SET_ENDINGS)}, text also with .gz; - prints JSON lines.")
    ] = "sets.jsonl",
    id: options.Id = None,
    with_probs: Annotated[
        bool, typer.Option("--with-probs", help="Write the probability of each label beside it.")
    ] = False,
    allow_empty: options.AllowEmpty = True,
    groups: options.RowGroups = None,
) -> None:
    """Write the prediction sets of new inputs, in the order of the rows, by class name if there are names.

    In each set the most probable label comes first. A column of ids is carried along.
    """
    cal = nacp.load(calibration)
    check_output(out, SET_ENDINGS)
    repeat_warnings(cal)
    lowest = not cal.score.takes_probabilities
    if with_probs and lowest:
        raise InputError("with_probs", f"has no effect: {probs} holds scores, not probabilities")
    with progress_of(f"reading {probs}"):
        points = read_points(probs, like=cal, groups=groups, id=id)
        places = places_of(cal, points.groups, groups)
    matrix, names, n, labels = points.probs, points.ids, len(points.probs), 0

    def blocks() -> Iterator[Sets]:
        nonlocal labels
        for start, rows, found in predict_blocks(cal, matrix, allow_empty, places, "predicting"):
            sets = most_probable_first(found, matrix[start : start + rows.n], lowest=lowest)
            beside = None
            if with_probs:
                beside = rows[slice(None)][np.repeat(np.arange(rows.n), sets.sizes), sets.labels]
            labels += len(sets.labels)
            yield Sets(sets, None if names is None else names[start : start + rows.n], beside)

    write_sets(blocks(), out)
    mean = labels / max(n, 1)
    text = f"{n:,} sets of {mean:.4g} classes on average. Written: {out}"
    show({"n": n, "mean_size": mean, "out": out}, text, err=out == STDIN)


def repeat_warnings(cal: nacp.Calibration | nacp.GroupedCalibration) -> None:
    """Print the warnings about the noise model that the calibration keeps."""
    for sentence in cal.warnings:
        complain(f"Warning: {sentence}.")


def places_of(
    cal: nacp.Calibration | nacp.GroupedCalibration, values: Any, groups: str | None
) -> Ints | None:
    """Return the places of the rows' groups among those of `cal`, if thresholds differ by them.

    The values were read from the file `groups`.
    """
    if not isinstance(cal, nacp.GroupedCalibration) or cal.members is not None:
        if groups is None:
            return None
        raise InputError("groups", "has no effect: the thresholds of this calibration do not differ by row")
    if groups is None:
        raise InputError("groups", "must be given: the thresholds of this calibration differ by group")
    if not isinstance(values, np.ndarray):
        raise InputError(groups, "holds groups of classes, and this calibration has groups of rows")
    names = {str(name): name for name in cal.names}  # they may be numbers in a calibration made in Python
    found = np.array([names.get(each, each) for each in values.tolist()], object)
    return known_groups(found, len(found), cal.names)


def predict_blocks(
    cal: nacp.Calibration | nacp.GroupedCalibration,
    matrix: Array,
    allow_empty: bool,
    places: Ints | None,
    what: str,
) -> Iterator[tuple[int, Rows, nacp.PredictionSets]]:
    """Yield the first row of each block, its rows, and their sets, so that these are not all held at once.

    The progress bar says `what` is done with them.
    """
    step = max(1, BLOCK_ENTRIES // max(matrix.shape[1], 1))
    with progress_of(what, len(matrix)) as done:
        for start in range(0, max(len(matrix), 1), step):
            rows = cal.open_rows(matrix[start : start + step], least=0, start=start)
            given: dict[str, Any] = {"allow_empty": allow_empty}
            if isinstance(cal, nacp.GroupedCalibration):
                given["places"] = None if places is None else places[start : start + step]
            yield start, rows, cal.sets_of(rows, **given)
            done(start + rows.n)
