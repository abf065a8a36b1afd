"""``nacp report``: a page about a calibration."""

from pathlib import Path
from typing import Annotated, Any

import typer

import nacp
from nacp.cli import options
from nacp.cli.errors import command
from nacp.cli.inputs import read_clean, read_groups, read_lines, read_points, read_test
from nacp.cli.models import read_noise
from nacp.cli.outputs import check_output, described
from nacp.cli.terminal import progress_of, show
from nacp.errors import InputError

app = typer.Typer()


@command(
    app,
    "report",
    "nacp report probs.npy labels.npy --noise 0.2",
    "nacp report cal.npz:probs cal.npz:noisy --noise 0.2 --score raps "
    "--test-probs test.npz:probs --test-labels test.npz:labels",
    "nacp report probs.npy labels.csv --clean checked.csv",
    "nacp report probs.npy labels.npy --noise 0.2 --by class --small all",
    "nacp report probs.csv labels.csv --noise 0.2 --descriptions texts.txt --title 'Our labels'",
)
def report_command(
    probs: options.Probs,
    labels: options.Labels,
    noise: options.NoiseText = "",
    noise_other: options.NoiseOther = None,
    clean: options.Clean = None,
    out: Annotated[Path, options.out("The file for the page.")] = Path("report.html"),
    alpha: options.Alpha = 0.1,
    score: options.ScoreName = "hps",
    guarantee: options.GuaranteeName = None,
    delta: options.Delta = None,
    test_probs: options.TestProbs = None,
    test_labels: options.TestLabels = None,
    groups: options.Groups = None,
    by: options.By = None,
    simultaneous: options.Simultaneous = False,
    small: options.Small = "error",
    test_groups: Annotated[
        str | None, options.file(help="The group of each of these points, if groups are of rows.")
    ] = None,
    descriptions: Annotated[
        str | None,
        options.file(help="Texts to show with sample rows: a line for each point that is measured."),
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page.")] = "Prediction sets from noisy labels",
    classes: options.Classes = None,
    noise_interval: options.Interval = None,
    noise_confidence: options.Confidence = 1.0,
    crossing: options.Crossing = "last",
    normalize: options.Normalize = False,
    logits: options.Logits = False,
    seed: options.Seed = 0,
    drop_unlabelled: options.Drop = False,
    separator: options.Separator = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Make a page about a calibration: its promise, the size of its sets, and how both depend on alpha.

    One HTML file, which opens in a browser without a network.
    """
    check_output(
        str(out), inputs=(probs, labels, noise, clean, classes, test_probs, test_labels, descriptions)
    )
    if test_groups is not None and test_probs is None:
        raise InputError("test_groups", "is of no use without --test-probs")
    with progress_of(f"reading {probs}", quiet):
        matrix, noisy, names = read_points(
            probs, labels, names=classes, clean=clean, groups=groups, drop=drop_unlabelled
        )
        k, optional = matrix.shape[1], clean is not None
        known = read_noise(
            noise, k, noise_other, noise_interval, noise_confidence, optional=optional, labels=labels
        )
        checked = None if clean is None else read_clean(clean, len(matrix), names, noisy=labels)
        test, true = read_test(test_probs, test_labels, names, matrix.shape[1])
        grouping = None if groups is None else read_groups(groups, len(matrix), names)
        tested: Any = None
        if test is not None and test_groups is not None:
            tested = read_groups(test_groups, len(test), names)
        texts = None if descriptions is None else read_lines(descriptions)
    with progress_of("calibrating", quiet) as say:
        page = nacp.make_report(
            matrix,
            noisy,
            noise=known,
            clean=checked,
            alpha=alpha,
            score=score,
            guarantee=guarantee,
            delta=delta,
            crossing=crossing,
            classes=names,
            normalize=normalize,
            from_logits=logits,
            random_state=seed,
            test_probs=test,
            test_labels=true,
            descriptions=texts,
            title=title,
            say=say,
            groups=grouping,
            by=by,
            simultaneous=simultaneous,
            small=small,
            test_groups=tested,
        )
    page.save(out)
    part = page.contents.groups
    found = page.contents.calibration if part is None else part.calibration
    show(as_json, described(found) | {"out": str(out)}, found, f"Written: {out}")
