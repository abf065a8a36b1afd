"""``nacp evaluate``: the size and coverage of sets, and whether the promise was kept."""

from dataclasses import asdict
from typing import Annotated, NamedTuple

import numpy as np
import typer

import nacp
from nacp.cli import options
from nacp.cli.commands import FAILED, command
from nacp.cli.inputs import read_groups, read_points
from nacp.cli.predict import predict_blocks, read_places, repeat_warnings
from nacp.cli.terminal import progress_of, show
from nacp.groups.class_coverage import ClassCoverage, class_coverage
from nacp.metrics import Evaluation, groups_of_points, summarize
from nacp.points import check_labels
from nacp.wrapping import on_one_line, width, wrapped

_WORST = 5
_MEANINGS = {
    "n": "test points",
    "coverage": "the share of sets that hold the true label",
    "mean_size": "how many labels a set holds, on average",
    "median_size": "half of the sets hold no more labels than this",
    "empty": "the share of sets without a label; with --no-empty there are none",
    "singleton": "the share of sets with one label",
    "worst_class_coverage": "the coverage of the class that is covered least",
    "class_coverage_gap": "how far the coverage of a class is from the target, on average over classes",
    "size_stratified_violation": "the largest distance of coverage from the target among sets of similar "
    "size (0 to 1, 2 to 3, 4 to 10, 11 to 100, 101 to 1,000 labels, more); it is large if small sets miss "
    "more often than large ones",
}


@command(
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
    no_empty: options.NoEmpty = False,
    groups: Annotated[
        str | None,
        options.file(help="The group of each row, or of each class: coverage is measured in each."),
    ] = None,
) -> None:
    """Measure the sets on points whose true labels are known, and say whether the promise was kept.

    A promise for nearly all calibration sets (pac, binomial, nacp) fails
    if the exact 95% interval of the coverage of these sets lies below
    1 - alpha. A promise on average over calibration sets (all others)
    fails if coverage is short by more than 1.96 standard errors, of
    calibration and test points together.

    The exit code is 0 for a pass, 1 for a fail and 2 for wrong input.
    """
    cal = nacp.load(calibration)
    repeat_warnings(cal)
    with progress_of(f"reading {probs}"):
        matrix, true, _ = read_points(probs, labels, cal.classes, k=cal.k, groups=groups)
        numbers = check_labels(true, len(matrix), cal.k, cal.classes)
        places, grouping = None, None
        if isinstance(cal, nacp.GroupedCalibration):
            places = read_places(cal, groups, len(matrix))
            grouping = cal.names, cal.places(numbers) if places is None else places
        elif groups is not None:
            measured = read_groups(groups, len(matrix), cal.classes)
            grouping = groups_of_points(measured, numbers, cal.k, cal.classes)
    covered, sizes = np.empty(len(matrix), dtype=bool), np.empty(len(matrix), dtype=np.int64)
    with progress_of("evaluating", len(matrix)) as said:
        for start, rows, sets in predict_blocks(cal, matrix, no_empty, places):
            here = slice(start, start + rows.n)
            covered[here], sizes[here] = sets.contains(true[here]), sets.sizes
            said(here.stop)
    result = summarize(covered, sizes, numbers, cal.alpha, grouping)
    by_class = class_coverage(covered, numbers, cal.k, classes=cal.classes)
    verdict = nacp.judge(cal, result)
    document = result.to_dict() | {
        "worst_classes": by_class.worst(_WORST),
        "verdict": asdict(verdict) | {"sentence": on_one_line(verdict)},
    }
    show(document, _Explained(result, by_class, verdict))
    if not verdict.passed:
        raise typer.Exit(FAILED)


class _Explained(NamedTuple):
    """What is printed: each number with its meaning, the classes covered least, the verdict."""

    result: Evaluation
    by_class: ClassCoverage
    verdict: nacp.Verdict

    def __str__(self) -> str:
        intervals = {"coverage": self.result.coverage_interval, "mean_size": self.result.size_interval}
        lines = []
        for name, meaning in _MEANINGS.items():
            value = getattr(self.result, name)
            if value is None:
                continue
            if name in intervals:
                low, high = intervals[name]
                meaning += f"; 95% interval: {low:.6g} to {high:.6g}"
            text = f"{name.replace('_', ' ')}: {f'{value:,}' if isinstance(value, int) else f'{value:.6g}'}"
            if width() > 70:
                lines.append(wrapped(f"{text:<38}{meaning}", " " * 38))
            else:
                lines.append(wrapped(f"{text} ({meaning})", "  "))
        groups = [] if self.result.groups is None else ["", self.result.groups.table(_WORST)]
        return "\n".join([*lines, *groups, "", self.by_class.table(_WORST), "", str(self.verdict)])
