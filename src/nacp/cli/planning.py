"""What is asked before calibrating: ``nacp plan`` and ``nacp compare``."""

import warnings
from typing import Annotated

import typer

import nacp
from nacp.cli import options
from nacp.cli.errors import command
from nacp.cli.groups import read_groups
from nacp.cli.inputs import read_points, read_test
from nacp.cli.labels import read_clean
from nacp.cli.models import read_noise_beside, with_other
from nacp.cli.terminal import progress_of, show

app = typer.Typer()


@command(
    app,
    "plan",
    "nacp plan --k 1000 --noise 0.2 --alpha 0.1 --excess 0.02",
    "nacp plan --k 10 --noise matrix.npy --points 5000",
    "nacp plan --k 10 --noise 0.1 --points 5000 --checked 500",
    "nacp plan --k 10 --noise 0.2 --points 5000 --groups shares.json",
    "nacp plan --k 10 --noise 0.2 --points 5000 --by class --simultaneous",
)
def plan_command(
    classes: Annotated[
        int, typer.Option("--k", "--classes", help="The number of classes.", show_default=False)
    ],
    noise: options.NoiseText = "",
    noise_other: options.NoiseOther = None,
    alpha: options.Alpha = 0.1,
    delta: Annotated[float, typer.Option(help="The probability with which a promise may fail.")] = 0.05,
    points: Annotated[int, typer.Option(help="The number of calibration points to plan for.")] = 1000,
    max_correction: Annotated[
        float,
        typer.Option(
            "--excess",
            "--max-correction",
            help="Also say how many points it takes to cover no more than this too much.",
        ),
    ] = 0.01,
    checked: Annotated[
        int | None,
        typer.Option(help="The number of labels to plan to check, of the points.", show_default="300"),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Also say how many points each group needs. Its share, in a .json such as "
            '{"north": 0.2, "south": 0.8}; or the group of each row or class, as for nacp calibrate.',
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    by: options.By = None,
    simultaneous: options.Simultaneous = False,
    noise_interval: options.Interval = None,
    noise_confidence: options.Confidence = 1.0,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Say what each guarantee will cost, before labels are bought or checked."""
    known = read_noise_beside("", noise, noise_interval, noise_confidence, noise_other)
    known = with_other(known, noise_other, classes)
    grouping = None if groups is None else read_groups(groups, None, None)
    with progress_of("planning", quiet):
        found = nacp.plan(
            k=classes,
            noise=known,
            alpha=alpha,
            delta=delta,
            n=points,
            excess=max_correction,
            checked=checked,
            groups=grouping,
            by=by,
            simultaneous=simultaneous,
        )
    rows, checked_rows = (
        [row._asdict() | {"guarantee": row.guarantee.name} for row in some]
        for some in (found.rows, found.checked_rows)
    )
    document = {
        "k": classes,
        "n": points,
        "alpha": alpha,
        "max_correction": max_correction,
        "rows": rows,
        "checked": found.checked,
        "checked_rows": checked_rows,
        "assumed": found.assumed,
        "groups": [cost._asdict() for cost in found.groups],
    }
    show(as_json, document, found)


@command(
    app,
    "compare",
    "nacp compare probs.npy labels.npy --noise 0.2",
    "nacp compare probs.npy labels.npy --noise 0.2 --score hps --guarantee pac --guarantee nacp",
    "nacp compare probs.npy labels.csv --clean checked.csv",
    "nacp compare probs.npy labels.npy --noise 0.2 --test-probs test.npy --test-labels truth.npy",
)
def compare_command(
    probs: options.Probs,
    labels: options.Labels,
    noise: options.NoiseText = "",
    noise_other: options.NoiseOther = None,
    clean: options.Clean = None,
    alpha: options.Alpha = 0.1,
    delta: Annotated[
        float, typer.Option(help="The probability with which a promise may fail, for all that have one.")
    ] = 0.05,
    score: Annotated[
        list[str] | None, typer.Option(help="May be given several times.", show_default="hps, aps, raps")
    ] = None,
    guarantee: Annotated[
        list[str] | None, typer.Option(help="May be given several times.", show_default="all")
    ] = None,
    test_probs: options.TestProbs = None,
    test_labels: options.TestLabels = None,
    classes: options.Classes = None,
    noise_interval: options.Interval = None,
    noise_confidence: options.Confidence = 1.0,
    normalize: options.Normalize = False,
    logits: options.Logits = False,
    seed: options.Seed = 0,
    drop_unlabelled: options.Drop = False,
    separator: options.Separator = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Set all guarantees and scores side by side on your own data.

    Promises about the true label come first, the smallest sets first among them.
    "split" ignores the noise. With --clean, thresholds also come from checked
    labels, and all are judged by them; those from --noise assume it. The best
    of many promises is not as sure as each of them: choose on other points than
    you calibrate on, or divide delta by the number of rows.
    """
    known = read_noise_beside(clean, noise, noise_interval, noise_confidence, noise_other, labels)
    with progress_of(f"reading {probs}", quiet):
        matrix, noisy, names = read_points(probs, labels, names=classes, clean=clean, drop=drop_unlabelled)
        known = with_other(known, noise_other, matrix.shape[-1])
        checked = None if clean is None else read_clean(clean, len(matrix), names, noisy=labels)
        test, true = read_test(test_probs, test_labels, names, matrix.shape[1])
    with warnings.catch_warnings(), progress_of("comparing", quiet, 100) as done:
        warnings.simplefilter("ignore", nacp.NoiseModelWarning)  # said below the table
        found = nacp.compare(
            matrix,
            noisy,
            noise=known,
            clean=checked,
            alpha=alpha,
            delta=delta,
            scores=score or ("hps", "aps", "raps"),
            guarantees=guarantee,
            test_probs=test,
            test_labels=true,
            classes=names,
            normalize=normalize,
            from_logits=logits,
            random_state=seed,
            progress=lambda at, total: done(100 * at // total),
        )
    rows = [{name: value for name, value in vars(row).items() if name != "calibration"} for row in found.rows]
    show(as_json, {"n": found.n, "k": found.k, "alpha": alpha, "delta": delta, "rows": rows}, found)
