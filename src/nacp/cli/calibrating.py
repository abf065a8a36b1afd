"""From labels to sets: ``nacp calibrate``, ``nacp predict`` and ``nacp evaluate``."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import nacp
from nacp._types import Array
from nacp.cli import options
from nacp.cli.auditing import read_audit
from nacp.cli.errors import CONTRADICTED, FAILED, command
from nacp.cli.inputs import read_clean, read_points, read_rows
from nacp.cli.models import read_calibration, read_noise_beside, with_other
from nacp.cli.outputs import SET_ENDINGS, check_output, described, write_sets
from nacp.cli.tables import STDIN
from nacp.cli.terminal import progress_of, progress_of_passes, show, show_verdict
from nacp.errors import InputError
from nacp.metrics import summarize
from nacp.points import check_labels
from nacp.tuning import tuning

app = typer.Typer()


@command(
    app,
    "calibrate",
    "nacp calibrate probs.npy labels.npy --noise 0.2",
    "nacp calibrate data.npz:probs data.npz:noisy --noise 0.2 --score raps --guarantee pac -o cal.json",
    "nacp calibrate points.csv points.csv:label --noise 0.2",
    "nacp calibrate probs.npy labels.csv --noise matrix.csv --classes names.txt",
    "nacp calibrate probs.npy labels.npy --noise 0.2 --noise-interval 0.15 0.25",
    "nacp calibrate probs.npy labels.csv --clean checked.csv",
    "nacp calibrate probs.npy labels.csv --audit to-check.csv",
)
def calibrate_command(
    probs: options.Probs,
    labels: options.Labels,
    noise: options.NoiseText = "",
    noise_other: options.NoiseOther = None,
    clean: options.Clean = None,
    audit: options.Audit = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The file for the calibration.")] = Path(
        "cal.json"
    ),
    alpha: options.Alpha = 0.1,
    score: options.ScoreName = "hps",
    guarantee: options.GuaranteeName = None,
    delta: options.Delta = None,
    classes: options.Classes = None,
    noise_interval: options.Interval = None,
    noise_confidence: options.Confidence = 1.0,
    crossing: options.Crossing = "last",
    normalize: options.Normalize = False,
    logits: options.Logits = False,
    seed: options.Seed = 0,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="End with exit code 3 if the labels contradict the noise model."),
    ] = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Find the threshold, and say what is promised.

    The exit code is 0, 2 for wrong input, and with --strict 3 if the
    labels contradict the noise model (the calibration is written all
    the same, and keeps the warning).
    """
    check_output(str(out), inputs=(probs, labels, noise, classes, clean, audit))
    if clean is not None and audit is not None:
        raise InputError("audit", "holds checked labels, and so does --clean", remedy="give one of them")
    known = read_noise_beside(clean or audit, noise, noise_interval, noise_confidence, noise_other)
    with progress_of(f"reading {probs}", quiet):
        matrix, noisy, names = read_points(probs, labels, names=classes)
        known = with_other(known, noise_other, matrix.shape[-1])
        checked: Any = None if clean is None else read_clean(clean, len(matrix), names)
        plan = None
        if audit is not None:
            plan, checked = read_audit(audit, matrix, noisy, names, normalize, logits)
    with (
        warnings.catch_warnings(),
        progress_of_passes("calibrating", len(matrix), quiet),
    ):
        for said_below in (nacp.NoValidThresholdWarning, nacp.NoiseModelWarning):
            warnings.simplefilter("ignore", said_below)
        warnings.simplefilter("always", nacp.RepeatedRowsWarning)
        warnings.showwarning = lambda message, *_, **__: typer.echo(f"Warning: {message}.", err=True)
        try:
            found = nacp.calibrate(
                matrix, noisy, noise=known, clean=checked, audit=plan, alpha=alpha, score=score,
                guarantee=guarantee, delta=delta, crossing=crossing, classes=names, normalize=normalize,
                from_logits=logits, random_state=seed,
            )  # fmt: skip
        except InputError as error:
            # The true labels are in the audit's file.
            raise error.about(audit) if audit is not None and error.argument == "clean" else error from None
    found.save(out)
    if found.obstacle is not None:
        typer.echo(
            f"Warning: no threshold keeps the promise, so the sets hold all {found.k} classes.", err=True
        )
    show(as_json, described(found) | {"out": str(out)}, f"{found}\nWritten: {out}")
    if strict and found.warnings:
        raise typer.Exit(CONTRADICTED)


@command(
    app,
    "predict",
    "nacp predict cal.json new.npy -o sets.parquet",
    "nacp predict cal.json new.csv -o - | head",
)
def predict_command(
    calibration: options.Cal,
    probs: options.Probs,
    out: Annotated[
        str, typer.Option("-o", "--out", help=f"A file: {', '.join(SET_ENDINGS)}; - prints JSON lines.")
    ] = "sets.jsonl",
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Write the prediction sets of new inputs, in the order of the rows, by class name if there are names."""
    cal = read_calibration(calibration, probs)
    check_output(out, SET_ENDINGS, (probs, str(calibration)))
    with progress_of(f"reading {probs}", quiet):
        matrix, _ = read_rows(probs, cal.classes, k=cal.k)
    sizes = [0, 0]

    def blocks(done: Callable[[int], None]) -> Iterator[nacp.PredictionSets]:
        for sets in _predicted(cal, matrix):
            yield sets
            sizes[0] += len(sets)
            sizes[1] += len(sets.labels)
            done(sizes[0])

    with progress_of("predicting", quiet, len(matrix)) as done:
        write_sets(blocks(done), out)
    mean = sizes[1] / max(sizes[0], 1)
    text = f"{sizes[0]} sets of {mean:.4g} labels on average. Written: {out}"
    show(as_json, {"n": sizes[0], "mean_size": mean, "out": out}, text, err=out == STDIN)


@command(
    app,
    "evaluate",
    "nacp evaluate cal.json test.npy truth.npy",
    "nacp evaluate cal.json test.npz:probs test.npz:labels --json",
)
def evaluate_command(
    calibration: options.Cal,
    probs: options.Probs,
    labels: options.Truth,
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
    with progress_of(f"reading {probs}", quiet):
        matrix, true, _ = read_points(probs, labels, cal.classes, k=cal.k)
    covered, sizes = np.empty(len(matrix), dtype=bool), np.empty(len(matrix), dtype=np.int64)
    with progress_of("evaluating", quiet, len(matrix)) as said:
        done = 0
        for sets in _predicted(cal, matrix):
            rows = slice(done, done + len(sets))
            covered[rows], sizes[rows] = sets.contains(true[rows]), sets.sizes
            said(done := rows.stop)
    numbers = check_labels(true, len(matrix), cal.k, cal.classes)
    result = summarize(covered, sizes, numbers, cal.alpha)
    verdict = nacp.judge(cal, result)
    intervals = {"coverage_interval": result.coverage_interval, "size_interval": result.size_interval}
    lines = [
        f"{name.replace('_', ' ') + ', 95%':<26}{low:.6g} to {high:.6g}"
        for name, (low, high) in intervals.items()
    ]
    document = asdict(result) | intervals | {"verdict": asdict(verdict) | {"sentence": str(verdict)}}
    show(as_json, document, "\n".join([str(result), *lines]))
    if not as_json:
        show_verdict(str(verdict), verdict.passed)
    if not verdict.passed:
        raise typer.Exit(FAILED)


def _predicted(cal: nacp.Calibration, matrix: Array) -> Iterator[nacp.PredictionSets]:
    """Predict block after block, so that the sets of a large matrix need not all be held at once."""
    step = max(1, tuning().written_entries // matrix.shape[1]) if matrix.ndim == 2 else max(len(matrix), 1)
    for start in range(0, max(len(matrix), 1), step):
        try:
            yield cal.predict_set(matrix[start : start + step])
        except InputError:
            # Say it of the whole matrix, whose rows have other numbers.
            cal.open_rows(matrix)
            raise
