"""``nacp predict``: the prediction sets of new inputs."""

from collections.abc import Callable, Iterator
from typing import Annotated

import numpy as np
import typer

import nacp
from nacp._types import Array
from nacp.cli import options
from nacp.cli.errors import command
from nacp.cli.formats.base import STDIN
from nacp.cli.inputs import read_groups, read_new
from nacp.cli.models import read_calibration
from nacp.cli.outputs import SET_ENDINGS, Sets, check_output, most_probable_first, write_sets
from nacp.cli.terminal import complain, progress_of, show
from nacp.errors import InputError
from nacp.groups.grouping import known_groups

app = typer.Typer()
BLOCK_ENTRIES = 1 << 23  # entries of the rows that are predicted and written at once: 32 MB of float32


@command(
    app,
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
    ids: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="The column that names the rows.",
            show_default="one called id or item, or a first one called index or row",
        ),
    ] = None,
    with_probs: Annotated[
        bool, typer.Option("--with-probs", help="Write the probability of each label beside it.")
    ] = False,
    no_empty: options.NoEmpty = False,
    groups: options.RowGroups = None,
    separator: options.Separator = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Write the prediction sets of new inputs, in the order of the rows, by class name if there are names.

    In each set the most probable label comes first. A column of ids is carried along.
    """
    cal = read_calibration(calibration, probs)
    check_output(out, SET_ENDINGS, (probs, str(calibration)))
    repeat_warnings(cal)
    if with_probs and not cal.score.takes_probabilities:
        raise InputError("with_probs", f"has no effect: {probs} holds scores, not probabilities")
    with progress_of(f"reading {probs}", quiet):
        matrix, names = read_new(probs, cal.classes, cal.k, ids, groups)
        grouping = read_row_groups(cal, groups, len(matrix))
    sizes = [0, 0]

    def blocks(done: Callable[[int], None]) -> Iterator[Sets]:
        for found, block in predict_blocks(cal, matrix, no_empty, grouping):
            sets = most_probable_first(found, block, lowest=not cal.score.takes_probabilities)
            beside = None
            if with_probs:
                rows = np.repeat(np.arange(len(sets)), sets.sizes)
                beside = cal.open_rows(block)[slice(None)][rows, sets.labels]
            here = slice(sizes[0], sizes[0] + len(sets))
            yield Sets(sets, None if names is None else names[here], beside)
            sizes[0] += len(sets)
            sizes[1] += len(sets.labels)
            done(sizes[0])

    with progress_of("predicting", quiet, len(matrix)) as done:
        write_sets(blocks(done), out)
    mean = sizes[1] / max(sizes[0], 1)
    text = f"{sizes[0]:,} sets of {mean:.4g} labels on average. Written: {out}"
    show(as_json, {"n": sizes[0], "mean_size": mean, "out": out}, text, err=out == STDIN)


def repeat_warnings(cal: nacp.Calibration | nacp.GroupedCalibration) -> None:
    """Print the warnings about the noise model that the calibration keeps."""
    for sentence in cal.warnings:
        complain(f"Warning: {sentence}.")


def read_row_groups(
    cal: nacp.Calibration | nacp.GroupedCalibration, groups: str | None, rows: int
) -> Array | None:
    """Read the groups of rows if thresholds differ by them, as the calibration calls them."""
    if not isinstance(cal, nacp.GroupedCalibration) or cal.members is not None:
        if groups is None:
            return None
        raise InputError("groups", "has no effect: the thresholds of this calibration do not differ by row")
    if groups is None:
        raise InputError("groups", "must be given: the thresholds of this calibration differ by group")
    found = read_groups(groups, rows, cal.classes)
    if not isinstance(found, np.ndarray):
        raise InputError(groups, "holds groups of classes, and this calibration has groups of rows")
    names = {str(name): name for name in cal.names}  # they may be numbers in a calibration made in Python
    if len(names) == len(cal.names):
        found = np.array([names.get(each, each) for each in found.tolist()], dtype=object)
    known_groups(found, rows, cal.names)
    return found


def predict_blocks(
    cal: nacp.Calibration | nacp.GroupedCalibration, matrix: Array, no_empty: bool, groups: Array | None
) -> Iterator[tuple[nacp.PredictionSets, Array]]:
    """Predict block after block, so that the sets of a large matrix need not all be held at once."""
    step = max(1, BLOCK_ENTRIES // matrix.shape[1]) if matrix.ndim == 2 else max(len(matrix), 1)
    for start in range(0, max(len(matrix), 1), step):
        block = matrix[start : start + step]
        try:
            if isinstance(cal, nacp.GroupedCalibration):
                some = None if groups is None else groups[start : start + step]
                yield cal.predict_set(block, groups=some, allow_empty=not no_empty), block
            else:
                yield cal.predict_set(block, allow_empty=not no_empty), block
        except InputError:
            cal.open_rows(matrix)  # raises the error with the number of the row in the whole matrix
            raise
