"""``nacp compare``: all guarantees and scores side by side."""

import warnings
from typing import Annotated

import typer

import nacp
from nacp.cli import options
from nacp.cli.commands import command
from nacp.cli.sample import Sample, TestPoints
from nacp.cli.terminal import progress_of, show


@command(
    "compare",
    "nacp compare probs.npy labels.npy --noise 0.2 --score hps --guarantee pac --guarantee nacp",
    "nacp compare probs.npy labels.csv --clean checked.csv",
    "nacp compare probs.npy labels.npy --noise 0.2 --test-probs test.npy --test-labels truth.npy",
)
def compare_command(
    sample: Sample,
    test: TestPoints,
    alpha: options.Alpha = 0.1,
    delta: options.Delta = 0.05,
    score: Annotated[
        list[str] | None, typer.Option(help="May be given several times.", show_default="hps, aps, raps")
    ] = None,
    guarantee: Annotated[
        list[str] | None, typer.Option(help="May be given several times.", show_default="all")
    ] = None,
) -> None:
    """Set all guarantees and scores side by side on your own data.

    Promises about the true label come first, the smallest sets first among them.
    "split" ignores the noise. With --clean, thresholds also come from checked
    labels, and all are judged by them; those from --noise assume it. The best
    of many promises is not as sure as each of them: choose on other points than
    you calibrate on, or divide delta by the number of rows.
    """
    with progress_of(f"reading {sample.probs}"):
        points, given = sample.open()
        given |= test.read(points)[1]
    with warnings.catch_warnings(), progress_of("comparing", 100) as done:
        warnings.simplefilter("ignore", nacp.NoiseModelWarning)  # it is printed below the table
        found = nacp.compare(
            points.probs,
            points.labels,
            alpha=alpha,
            delta=delta,
            scores=score,
            guarantees=guarantee,
            progress=lambda at, total: done(100 * at // total),
            **given,
        )
    rows = [{name: value for name, value in vars(row).items() if name != "calibration"} for row in found.rows]
    show({"n": found.n, "k": found.k, "alpha": alpha, "delta": delta, "rows": rows}, found)
