"""``nacp report``: a page about a calibration."""

from pathlib import Path
from typing import Annotated

import typer

import nacp
from nacp.cli import options
from nacp.cli.commands import command
from nacp.cli.inputs import read_lines
from nacp.cli.outputs import check_output, described
from nacp.cli.sample import Sample, Target, TestPoints
from nacp.cli.terminal import progress_of, show


@command(
    "report",
    "nacp report probs.npy labels.npy --noise 0.2",
    "nacp report cal.npz:probs cal.npz:noisy --noise 0.2 --score raps "
    "--test-probs test.npz:probs --test-labels test.npz:labels",
    "nacp report probs.npy labels.csv --clean checked.csv",
    "nacp report probs.npy labels.npy --noise 0.2 --by class --small all",
    "nacp report probs.csv labels.csv --noise 0.2 --descriptions texts.txt --title 'Our labels'",
)
def report_command(
    sample: Sample,
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

    One HTML file, which opens in a browser without a network.
    """
    check_output(str(out), inputs=(*sample.files, test.test_probs, test.test_labels, descriptions))
    with progress_of(f"reading {sample.probs}"):
        opened = sample.open(target.groups)
        given = opened.arguments | target.arguments() | test.arguments(opened, test_groups)
        if descriptions is not None:
            given["descriptions"] = read_lines(descriptions)
    with progress_of("calibrating") as say:
        page = nacp.make_report(opened.probs, opened.labels, title=title, say=say, **given)
    page.save(out)
    part = page.contents.groups
    found = page.contents.calibration if part is None else part.calibration
    show(described(found) | {"out": str(out)}, found, f"Written: {out}")
