"""``nacp report``: a page about a calibration."""

from pathlib import Path
from typing import Annotated, Any

import typer

import nacp
from nacp.cli import options
from nacp.cli.commands import command
from nacp.cli.inputs import read_lines
from nacp.cli.outputs import check_output, described
from nacp.cli.sample import Sample, SampleOptions, Target, TestPoints
from nacp.cli.terminal import progress_of, show
from nacp.errors import InputError


@command(
    "report",
    "nacp report cal.json probs.npy labels.npy",
    "nacp report probs.npy labels.npy --noise 0.2",
    "nacp report probs.npy labels.csv --clean checked.csv --test-probs test.npy --test-labels truth.npy",
    "nacp report probs.csv labels.csv --noise 0.2 --descriptions texts.txt --title 'Our labels'",
)
def report_command(
    files: Annotated[
        list[str],
        options.argument(
            "[CALIBRATION] PROBS LABELS",
            "What nacp calibrate wrote, if it is about that; then the points, as for nacp calibrate.",
        ),
    ],
    known: SampleOptions,
    target: Target,
    test: TestPoints,
    out: Annotated[Path, options.out("The file for the page.")] = Path("report.html"),
    test_groups: Annotated[
        str | None, options.file(help="The group of each of these points, if groups are of rows.")
    ] = None,
    descriptions: Annotated[
        str | None,
        options.file(help="Texts to show with sample rows: a line for each point that is measured."),
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page.")] = "Prediction sets from noisy labels",
) -> None:
    """Make a page about a calibration: its promise, the size of its sets, and how both depend on alpha.

    One HTML file, which opens in a browser without a network. Give a saved
    calibration with the points that it was made from (and --clean or --audit,
    if it was made with these), or the options of nacp calibrate.
    """
    if not 2 <= len(files) <= 3:
        problem = "must be PROBS and LABELS, or CALIBRATION, PROBS and LABELS"
        raise InputError("files", problem, found=f"{len(files)} files")
    sample = Sample(probs=files[-2], labels=files[-1], **vars(known))
    saved: Any = nacp.load(files[0]) if len(files) == 3 else None
    if isinstance(saved, nacp.GroupedCalibration):
        remedy = "leave it out, and give the options of nacp calibrate"
        raise InputError(files[0], "is a calibration by group", remedy=remedy)
    check_output(str(out))
    with progress_of(f"reading {sample.probs}"):
        points, given = sample.open(target.groups, saved)
        given |= target.arguments() | ({} if saved is None else {"calibration": saved})
        measured, more = test.read(points, test_groups)
        given |= more | {"ids": measured.ids}
        if descriptions is not None:
            given["descriptions"] = read_lines(descriptions)
    with progress_of("calibrating") as say:
        page = nacp.make_report(points.probs, points.labels, title=title, say=say, **given)
    page.save(out)
    part = page.contents.groups
    found = page.contents.calibration if part is None else part.calibration
    show(described(found) | {"out": str(out)}, found, f"Written: {out}")
