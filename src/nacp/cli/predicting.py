"""What sets are made for, and how they do: ``nacp predict`` and ``nacp evaluate``."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from typing import Annotated

import numpy as np
import typer

import nacp
from nacp._types import Array
from nacp.cli import options
from nacp.cli.errors import FAILED, command
from nacp.cli.formats.common import STDIN
from nacp.cli.groups import read_groups
from nacp.cli.inputs import read_new, read_points
from nacp.cli.models import read_calibration
from nacp.cli.outputs import SET_ENDINGS, Sets, check_output, most_probable_first, write_sets
from nacp.cli.terminal import complain, progress_of, show, show_verdict
from nacp.errors import InputError
from nacp.groups.class_coverage import ClassCoverage, class_coverage
from nacp.groups.grouping import known_groups
from nacp.metrics import Evaluation, groups_of_points, summarize
from nacp.points import check_labels
from nacp.wrapping import on_one_line, width, wrapped

app = typer.Typer()

NoEmpty = Annotated[
    bool, typer.Option("--no-empty", help="Put the most probable label into sets that would be empty.")
]
_WORST = 5
WRITTEN_ENTRIES = 1 << 23  # entries of the rows that are predicted and written at once: 32 MB of float32
_MEANINGS = {
    "n": "test points",
    "coverage": "the share of sets that hold the true label",
    "mean_size": "how many labels a set holds, on average",
    "median_size": "half of the sets hold no more labels than this",
    "empty": "the share of sets without a label; with --no-empty there are none",
    "singleton": "the share of sets with one label",
    "worst_class_coverage": "the coverage of the class that is covered least",
    "class_coverage_gap": "how far the coverage of a class is from the target, on average over classes",
    "size_stratified_violation": "how far coverage is from the target at its farthest, if sets are parted "
    "by size: 0 to 1, 2 to 3, 4 to 10, 11 to 100, 101 to 1,000 labels, more; it is large if small sets miss "
    "more often than large ones",
}


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
        str,
        typer.Option(
            "-o",
            "--out",
            help=f"A file: {', '.join(SET_ENDINGS)}, text also with .gz; - prints JSON lines.",
        ),
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
    no_empty: NoEmpty = False,
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
    _repeat_warnings(cal)
    if with_probs and not cal.score.takes_probabilities:
        raise InputError("with_probs", f"has no effect: {probs} holds scores of one's own")
    with progress_of(f"reading {probs}", quiet):
        matrix, names = read_new(probs, cal.classes, cal.k, ids, groups)
        grouping = _read_row_groups(cal, groups, len(matrix))
    sizes = [0, 0]

    def blocks(done: Callable[[int], None]) -> Iterator[Sets]:
        for found, block in _predicted(cal, matrix, no_empty, grouping):
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


@command(
    app,
    "evaluate",
    "nacp evaluate cal.json test.npy truth.npy",
    "nacp evaluate cal.json test.csv test.csv:truth",
    "nacp evaluate cal.json test.npy truth.npy --groups test.csv:hospital",
    "nacp evaluate cal.json test.npz:probs test.npz:labels --json",
)
def evaluate_command(
    calibration: options.Cal,
    probs: options.Probs,
    labels: options.Truth,
    no_empty: NoEmpty = False,
    groups: options.MeasuredGroups = None,
    separator: options.Separator = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Measure the sets on points whose true labels are known, and say whether the promise was kept.

    A promise for nearly all calibration sets (pac, binomial, nacp) fails
    if the exact 95% interval of the coverage of these sets lies below
    1 - alpha. A promise on average over calibration sets (all others)
    fails if coverage is short by more than 1.96 standard errors, of
    calibration and test points together.

    The exit code is 0 for a pass, 1 for a fail and 2 for wrong input.
    """
    cal = read_calibration(calibration, probs, labels)
    _repeat_warnings(cal)
    with progress_of(f"reading {probs}", quiet):
        matrix, true, _ = read_points(probs, labels, cal.classes, k=cal.k, groups=groups)
        grouping = measured = None
        if isinstance(cal, nacp.GroupedCalibration):
            grouping = _read_row_groups(cal, groups, len(matrix))
        elif groups is not None:
            measured = read_groups(groups, len(matrix), cal.classes)
    covered, sizes = np.empty(len(matrix), dtype=bool), np.empty(len(matrix), dtype=np.int64)
    with progress_of("evaluating", quiet, len(matrix)) as said:
        done = 0
        for sets, _ in _predicted(cal, matrix, no_empty, grouping):
            rows = slice(done, done + len(sets))
            covered[rows], sizes[rows] = sets.contains(true[rows]), sets.sizes
            said(done := rows.stop)
    numbers = check_labels(true, len(matrix), cal.k, cal.classes)
    places = None
    if isinstance(cal, nacp.GroupedCalibration):
        places = cal.names, cal.places(numbers, grouping)
    elif measured is not None:
        places = groups_of_points(measured, numbers, cal.k, cal.classes)
    result = summarize(covered, sizes, numbers, cal.alpha, places)
    by_class = class_coverage(covered, numbers, cal.k, classes=cal.classes)
    verdict = nacp.judge(cal, result)
    document = result.to_dict() | {
        "worst_classes": by_class.worst(_WORST),
        "verdict": asdict(verdict) | {"sentence": on_one_line(verdict)},
    }
    show(as_json, document, _Explained(result, by_class))
    if not as_json:
        show_verdict(verdict)
    if not verdict.passed:
        raise typer.Exit(FAILED)


class _Explained:
    """What was measured, each number with what it means, and the classes that are covered least."""

    def __init__(self, result: Evaluation, by_class: ClassCoverage) -> None:
        self.result, self.by_class = result, by_class

    def __str__(self) -> str:
        intervals = {"coverage": self.result.coverage_interval, "mean_size": self.result.size_interval}
        lines = []
        for each in fields(self.result):
            value = getattr(self.result, each.name)
            if each.name not in _MEANINGS or value is None:
                continue
            meaning = _MEANINGS[each.name]
            if each.name in intervals:
                low, high = intervals[each.name]
                meaning += f"; 95% interval: {low:.6g} to {high:.6g}"
            shown = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
            told = f"{each.name.replace('_', ' ')}: {shown}"
            lines.append(
                wrapped(f"{told:<38}{meaning}", " " * 38)
                if width() > 70
                else wrapped(f"{told} ({meaning})", "  ")
            )
        groups = [] if self.result.groups is None else ["", self.result.groups.table(_WORST)]
        return "\n".join([*lines, *groups, "", self.by_class.table(_WORST), ""])


def _repeat_warnings(cal: nacp.Calibration | nacp.GroupedCalibration) -> None:
    """Say again what was said against the noise model when the calibration was made."""
    for sentence in cal.warnings:
        complain(f"Warning: {sentence}.")


def _read_row_groups(
    cal: nacp.Calibration | nacp.GroupedCalibration, groups: str | None, rows: int
) -> Array | None:
    """Read the groups of rows, if thresholds differ by them."""
    if isinstance(cal, nacp.GroupedCalibration) and cal.members is None:
        if groups is None:
            raise InputError("groups", "must be given: the thresholds of this calibration differ by group")
        found = read_groups(groups, rows, cal.classes)
        if isinstance(found, np.ndarray):
            names = {str(name): name for name in cal.names}  # numbers, if it was made in Python
            if len(names) == len(cal.names):
                found = np.array([names.get(each, each) for each in found.tolist()], dtype=object)
            known_groups(found, rows, cal.names)
            return found
        raise InputError(groups, "holds groups of classes, and this calibration has groups of rows")
    if groups is not None:
        raise InputError("groups", "has no effect: the thresholds of this calibration do not differ by row")
    return None


def _predicted(
    cal: nacp.Calibration | nacp.GroupedCalibration, matrix: Array, no_empty: bool, groups: Array | None
) -> Iterator[tuple[nacp.PredictionSets, Array]]:
    """Predict block after block, so that the sets of a large matrix need not all be held at once."""
    step = max(1, WRITTEN_ENTRIES // matrix.shape[1]) if matrix.ndim == 2 else max(len(matrix), 1)
    for start in range(0, max(len(matrix), 1), step):
        block = matrix[start : start + step]
        try:
            if isinstance(cal, nacp.GroupedCalibration):
                some = None if groups is None else groups[start : start + step]
                yield cal.predict_set(block, groups=some, allow_empty=not no_empty), block
            else:
                yield cal.predict_set(block, allow_empty=not no_empty), block
        except InputError:
            # Say it of the whole matrix, whose rows have other numbers.
            cal.open_rows(matrix)
            raise
