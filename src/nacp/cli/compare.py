"""``nacp compare``: all guarantees and scores side by side."""

import warnings
from typing import Annotated

import typer

import nacp
from nacp.cli import options
from nacp.cli.errors import command
from nacp.cli.inputs import read_clean, read_points, read_test
from nacp.cli.models import read_noise
from nacp.cli.terminal import progress_of, show

app = typer.Typer()


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
    with progress_of(f"reading {probs}", quiet):
        matrix, noisy, names = read_points(probs, labels, names=classes, clean=clean, drop=drop_unlabelled)
        k, optional = matrix.shape[1], clean is not None
        known = read_noise(
            noise, k, noise_other, noise_interval, noise_confidence, optional=optional, labels=labels
        )
        checked = None if clean is None else read_clean(clean, len(matrix), names, noisy=labels)
        test, true = read_test(test_probs, test_labels, names, matrix.shape[1])
    with warnings.catch_warnings(), progress_of("comparing", quiet, 100) as done:
        warnings.simplefilter("ignore", nacp.NoiseModelWarning)  # it is printed below the table
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
