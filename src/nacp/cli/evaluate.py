"""``nacp evaluate``: the size and coverage of sets, and whether the promise was kept."""

from math import isclose
from typing import Annotated, Any

import numpy as np
import typer

import nacp
from nacp.cli import options
from nacp.cli.audit_table import read_checked
from nacp.cli.commands import CONTRADICTED, FAILED, command
from nacp.cli.models import NoiseOptions
from nacp.cli.predict import places_of, predict_blocks, repeat_warnings
from nacp.cli.terminal import complain, progress_of, show
from nacp.metrics import evaluated
from nacp.noise import UNSAID
from nacp.wrapping import on_one_line


@command(
    "evaluate",
    "nacp evaluate cal.json test.npy truth.npy",
    "nacp evaluate cal.json test.csv test.csv:truth --groups test.csv:hospital",
    "nacp evaluate cal.json test.npy noisy.npy --noise 0.2",
    "nacp evaluate cal.json test.csv --clean test.csv:checked",
    "nacp evaluate cal.json test.csv noisy.csv --audit to-check.csv",
)
def evaluate_command(
    calibration: options.Cal,
    probs: options.Probs,
    model: NoiseOptions,
    labels: Annotated[
        str | None,
        typer.Argument(
            metavar="LABELS", help="True labels, or noisy ones with --noise or --audit: labels.csv:column."
        ),
    ] = None,
    clean: options.Clean = None,
    audit: options.Audit = None,
    allow_empty: options.AllowEmpty = True,
    id: options.Id = None,
    groups: Annotated[
        str | None,
        options.file(help="The group of each row, or of each class: coverage is measured in each."),
    ] = None,
) -> None:
    """Measure the sets on test points, and say whether the promise was kept.

    Without --noise, --clean and --audit the labels are taken as true.
    With --clean, coverage is measured on the checked points alone, and
    LABELS may be left out. With --audit each checked point counts for
    those that it stands for; LABELS are those that the audit was chosen
    by, and the points must not be those of the calibration.

    A promise for nearly all calibration sets (pac, binomial, nacp) fails
    if the 95% interval of the coverage of these sets lies below
    1 - alpha. A promise on average over calibration sets (all others)
    fails if coverage is short by more than 1.96 standard errors, of
    calibration and test points together.

    The exit code is 0 for a pass, 1 for a fail, 2 for wrong input, and 3 if
    the sets cover enough, but the labels of the calibration contradicted
    its noise model or did not fit the rows: the promise does not hold.
    """
    cal = nacp.load(calibration)
    repeat_warnings(cal)
    with progress_of(f"reading {probs}"):
        noise = model.read_noise(cal.k, cal.classes, optional=True, labels=labels or "")
        more: dict[str, Any] = {"clean": clean, "audit": audit, "groups": groups, "id": id}
        more["true"] = noise is UNSAID and clean is audit is None
        points, given = read_checked(probs, labels, cal, like=cal, **more)
        matrix, true = points.probs, None if labels is None else points.labels
        places = places_of(cal, points.groups, groups) if isinstance(cal, nacp.GroupedCalibration) else None
        measured: Any = points.groups
        if places is not None:
            measured = np.array(cal.names, dtype=object)[places]
        elif isinstance(cal, nacp.GroupedCalibration):
            measured = cal.class_groups
    given |= {"noise": None if noise is UNSAID else noise, "groups": measured}
    blocks = (sets for _, _, sets in predict_blocks(cal, matrix, allow_empty, places, "evaluating"))
    result = evaluated(blocks, true, len(matrix), cal.k, cal.classes, cal.alpha, **given)
    checked = cal.checked if isinstance(cal, nacp.Calibration) and given.get("clean") is not None else None
    alike = checked == result.labelled if audit is None else isclose(cal.estimate, result.coverage)
    if checked is not None and cal.n in (result.n, result.labelled) and alike:
        complain(
            "Warning: these look like the points and the checked labels of the calibration. They chose the "
            "threshold, so coverage looks better than it is: check labels of other points."
        )
    verdict = nacp.judge(cal, result)
    document = result.to_dict() | {
        "worst_classes": result.by_class.worst(5),
        "verdict": vars(verdict) | {"sentence": on_one_line(verdict)},
    }
    show(document, verdict, "", result)
    if not verdict.passed:
        raise typer.Exit(CONTRADICTED if verdict.contradicted else FAILED)
