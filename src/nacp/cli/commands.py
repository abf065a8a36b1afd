"""The commands of ``nacp``."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import typer

import nacp
from nacp._types import Array
from nacp._validation import check_labels, check_probs
from nacp.cli.inputs import read_calibration, read_lines, read_noise, read_points, read_rows
from nacp.cli.noise import diagnose_command, noise_app
from nacp.cli.options import Cal, Classes, Json, Labels, Normalize, Probs, Quiet, Truth, examples
from nacp.cli.outputs import SET_ENDINGS, check_output, write_sets
from nacp.cli.tables import STDIN
from nacp.cli.terminal import (
    FAILED,
    Commands,
    progress_bar,
    progress_of,
    progress_of_passes,
    show,
    show_verdict,
)
from nacp.crossing import Rule
from nacp.metrics import summarize
from nacp.noise import UniformNoise
from nacp.paper import figures
from nacp.paper.experiments import (
    DIRECT_SPLITS,
    EXPERIMENTS,
    SWEEP_SPLITS,
    Experiment,
    NoisePer,
    NothingToRun,
    Plan,
)
from nacp.paper.reproduce import NAMES, Name, reproduce
from nacp.paper.sources import left_out
from nacp.paper.workers import compute

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(noise_app, name="noise")
app.command(
    "diagnose",
    epilog=examples(
        "nacp diagnose cal.json probs.npy labels.npy",
        "nacp diagnose cal.json probs.npy labels.npy --audit-probs checked.npy --audit-labels truth.npy",
    ),
)(diagnose_command)

What: TypeAlias = Literal[Name, "all"]

_ENTRIES = 1 << 23  # of a block of rows that is predicted and written at once

NoiseText = Annotated[
    str,
    typer.Option(
        help="The rate of uniform label noise, a file of a (k, k) matrix (rows: the true class), what "
        'nacp noise wrote (.json), or "none".',
        show_default=False,
    ),
]
Interval = Annotated[
    tuple[float, float] | None,
    typer.Option(help="Where the rate lies, if it is not known exactly.", metavar="LOW HIGH"),
]
Confidence = Annotated[float, typer.Option(help="The probability that it lies there.")]
Alpha = Annotated[float, typer.Option(help="Sets are to cover with probability 1 - alpha.")]
ScoreName = Annotated[str, typer.Option(help="hps, aps, raps, saps, margin, topk or precomputed.")]
GuaranteeName = Annotated[
    str | None,
    typer.Option(
        help="pac, binomial, expected, nacp, acnl, crcp, none or split.",
        show_default="pac; split for noise none",
    ),
]
Crossing = Annotated[Rule, typer.Option(help="Where the estimate crosses the target.")]
TestProbs = Annotated[
    str | None, typer.Option(help="Points whose sets are to be measured.", show_default="the same points")
]
TestLabels = Annotated[str | None, typer.Option(help="Their true labels.")]
Delta = Annotated[
    float | None,
    typer.Option(help="The probability with which the promise may fail.", show_default="the guarantee's"),
]
Seed = Annotated[int, typer.Option(min=0, help="By which pac shuffles the points.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nacp {nacp.__version__}")
        raise typer.Exit


@app.callback(
    epilog=examples(
        "nacp demo",
        "nacp calibrate probs.npy labels.csv --noise 0.2 -o cal.json",
        "nacp predict cal.json new.npy -o sets.jsonl",
        "nacp calibrate --help",
    )
)
def _nacp(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Small prediction sets you can trust, from labels you cannot.

    Exit codes: 0; 1 if nacp evaluate finds a promise broken or nacp diagnose
    rejects a noise model; 2 for wrong input; 130 for Ctrl-C.
    """


@app.command(
    "calibrate",
    epilog=examples(
        "nacp calibrate probs.npy labels.npy --noise 0.2",
        "nacp calibrate data.npz:probs data.npz:noisy --noise 0.2 --score raps --guarantee pac -o cal.json",
        "nacp calibrate points.csv points.csv:label --noise 0.2",
        "nacp calibrate probs.npy labels.csv --noise matrix.csv --classes names.txt",
        "nacp calibrate probs.npy labels.npy --noise 0.2 --noise-interval 0.15 0.25",
    ),
)
def calibrate_command(
    probs: Probs,
    labels: Labels,
    noise: NoiseText,
    out: Annotated[Path, typer.Option("-o", "--out", help="The file for the calibration.")] = Path(
        "cal.json"
    ),
    alpha: Alpha = 0.1,
    score: ScoreName = "hps",
    guarantee: GuaranteeName = None,
    delta: Delta = None,
    classes: Classes = None,
    noise_interval: Interval = None,
    noise_confidence: Confidence = 1.0,
    crossing: Crossing = "last",
    normalize: Normalize = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find the threshold, and say what is promised."""
    check_output(str(out), inputs=(probs, labels, noise, classes))
    model = _noise(noise, noise_interval, noise_confidence)
    with progress_of(f"reading {probs}", quiet):
        matrix, given, names = read_points(probs, labels, names=classes)
    with (
        warnings.catch_warnings(),
        progress_of_passes("calibrating", len(matrix), quiet),
    ):
        warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)  # said below
        found = nacp.calibrate(
            matrix, given, noise=model, alpha=alpha, score=score, guarantee=guarantee, delta=delta,
            crossing=crossing, classes=names, normalize=normalize, random_state=seed,
        )  # fmt: skip
    found.save(out)
    if found.obstacle is not None:
        typer.echo(
            f"Warning: no threshold keeps the promise, so the sets hold all {found.k} classes.", err=True
        )
    show(as_json, _described(found) | {"out": str(out)}, f"{found}\nWritten: {out}")


@app.command(
    "predict",
    epilog=examples(
        "nacp predict cal.json new.npy -o sets.parquet",
        "nacp predict cal.json new.csv -o - | head",
    ),
)
def predict_command(
    calibration: Cal,
    probs: Probs,
    out: Annotated[
        str, typer.Option("-o", "--out", help=f"A file: {', '.join(SET_ENDINGS)}; - prints JSON lines.")
    ] = "sets.jsonl",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the prediction sets of new inputs, in the order of the rows, by class name if there are names."""
    model = read_calibration(calibration, probs)
    check_output(out, SET_ENDINGS, (probs, str(calibration)))
    with progress_of(f"reading {probs}", quiet):
        matrix, _ = read_rows(probs, model.classes, k=model.k)
    sizes = [0, 0]

    def blocks(done: Any) -> Iterator[nacp.PredictionSets]:
        for sets in _predicted(model, matrix):
            yield sets
            sizes[0] += len(sets)
            sizes[1] += len(sets.labels)
            done(sizes[0])

    with progress_of("predicting", quiet, len(matrix)) as done:
        write_sets(blocks(done), out)
    mean = sizes[1] / sizes[0]
    text = f"{sizes[0]} sets of {mean:.4g} labels on average. Written: {out}"
    show(as_json, {"n": sizes[0], "mean_size": mean, "out": out}, text, err=out == STDIN)


@app.command(
    "evaluate",
    epilog=examples(
        "nacp evaluate cal.json test.npy truth.npy",
        "nacp evaluate cal.json test.npz:probs test.npz:labels --json",
    ),
)
def evaluate_command(
    calibration: Cal, probs: Probs, labels: Truth, quiet: Quiet = False, as_json: Json = False
) -> None:
    """Measure the sets on points whose true labels are known, and say whether the promise was kept.

    A promise for nearly all calibration sets (pac, binomial, nacp) fails
    if the exact 95% interval of the coverage of these sets lies below
    1 - alpha. A promise on average over calibration sets (all others)
    fails if coverage is short by more than 1.96 standard errors, of
    calibration and test points together.

    The exit code is 0 for a pass, 1 for a fail and 2 for wrong input.
    """
    model = read_calibration(calibration, probs, labels)
    with progress_of(f"reading {probs}", quiet):
        matrix, true, _ = read_points(probs, labels, model.classes, k=model.k)
    covered, sizes = np.empty(len(matrix), dtype=bool), np.empty(len(matrix), dtype=np.int64)
    with progress_of("evaluating", quiet, len(matrix)) as said:
        done = 0
        for sets in _predicted(model, matrix):
            rows = slice(done, done + len(sets))
            covered[rows], sizes[rows] = sets.contains(true[rows]), sets.sizes
            said(done := rows.stop)
    numbers = check_labels(true, len(matrix), model.k, model.classes)
    result = summarize(covered, sizes, numbers, model.alpha)
    verdict = nacp.judge(model, result)
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


@app.command(
    "plan",
    epilog=examples(
        "nacp plan --classes 1000 --noise 0.2 --alpha 0.1 --max-correction 0.02",
        "nacp plan --classes 10 --noise matrix.npy --points 5000",
    ),
)
def plan_command(
    classes: Annotated[int, typer.Option(help="The number of classes.", show_default=False)],
    noise: NoiseText,
    alpha: Alpha = 0.1,
    delta: Annotated[float, typer.Option(help="The probability with which a promise may fail.")] = 0.05,
    points: Annotated[int, typer.Option(help="The number of calibration points to plan for.")] = 1000,
    max_correction: Annotated[
        float, typer.Option(help="Also say how many points it takes to cover no more than this too much.")
    ] = 0.01,
    noise_interval: Interval = None,
    noise_confidence: Confidence = 1.0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Say what each guarantee will cost, before labels are bought."""
    model = _noise(noise, noise_interval, noise_confidence)
    with progress_of("planning", quiet):
        found = nacp.plan(k=classes, noise=model, alpha=alpha, delta=delta, n=points, excess=max_correction)
    rows = [row._asdict() | {"guarantee": row.guarantee.name} for row in found.rows]
    document = {"k": classes, "n": points, "alpha": alpha, "max_correction": max_correction, "rows": rows}
    show(as_json, document, found)


@app.command(
    "compare",
    epilog=examples(
        "nacp compare probs.npy labels.npy --noise 0.2",
        "nacp compare probs.npy labels.npy --noise 0.2 --score hps --guarantee pac --guarantee nacp",
        "nacp compare probs.npy labels.npy --noise 0.2 --test-probs test.npy --test-labels truth.npy",
    ),
)
def compare_command(
    probs: Probs,
    labels: Labels,
    noise: NoiseText,
    alpha: Alpha = 0.1,
    delta: Annotated[
        float, typer.Option(help="The probability with which a promise may fail, for all that have one.")
    ] = 0.05,
    score: Annotated[
        list[str] | None, typer.Option(help="May be given several times.", show_default="hps, aps, raps")
    ] = None,
    guarantee: Annotated[
        list[str] | None, typer.Option(help="May be given several times.", show_default="all")
    ] = None,
    test_probs: TestProbs = None,
    test_labels: TestLabels = None,
    classes: Classes = None,
    noise_interval: Interval = None,
    noise_confidence: Confidence = 1.0,
    normalize: Normalize = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Set all guarantees and scores side by side on your own data.

    Promises about the true label come first, the smallest sets first among them.
    "split" ignores the noise. The best of many promises is not as sure as
    each of them: choose on other points than you calibrate on, or divide
    delta by the number of rows.
    """
    model = _noise(noise, noise_interval, noise_confidence)
    with progress_of(f"reading {probs}", quiet):
        matrix, given, names = read_points(probs, labels, names=classes)
        test, true = _read_test(test_probs, test_labels, names, matrix.shape[1])
    with progress_of("comparing", quiet, 100) as done:
        found = nacp.compare(
            matrix, given, noise=model, alpha=alpha, delta=delta, scores=score or ("hps", "aps", "raps"),
            guarantees=guarantee, test_probs=test, test_labels=true, classes=names, normalize=normalize,
            random_state=seed, progress=lambda at, total: done(100 * at // total),
        )  # fmt: skip
    rows = [{name: value for name, value in vars(row).items() if name != "calibration"} for row in found.rows]
    show(as_json, {"n": found.n, "k": found.k, "alpha": alpha, "delta": delta, "rows": rows}, found)


@app.command(
    "report",
    epilog=examples(
        "nacp report probs.npy labels.npy --noise 0.2",
        "nacp report cal.npz:probs cal.npz:noisy --noise 0.2 --score raps "
        "--test-probs test.npz:probs --test-labels test.npz:labels",
        "nacp report probs.csv labels.csv --noise 0.2 --descriptions texts.txt --title 'Our labels'",
    ),
)
def report_command(
    probs: Probs,
    labels: Labels,
    noise: NoiseText,
    out: Annotated[Path, typer.Option("-o", "--out", help="The file for the page.")] = Path("report.html"),
    alpha: Alpha = 0.1,
    score: ScoreName = "hps",
    guarantee: GuaranteeName = None,
    delta: Delta = None,
    test_probs: TestProbs = None,
    test_labels: TestLabels = None,
    descriptions: Annotated[
        str | None,
        typer.Option(
            help="Texts to show with sample rows: a line for each point that is measured.", metavar="FILE"
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page.")] = "Prediction sets from noisy labels",
    classes: Classes = None,
    noise_interval: Interval = None,
    noise_confidence: Confidence = 1.0,
    crossing: Crossing = "last",
    normalize: Normalize = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make a page about a calibration: what it promises, what it costs, and how that depends on alpha.

    One HTML file, which opens in a browser without a network.
    """
    check_output(str(out), inputs=(probs, labels, noise, classes, test_probs, test_labels, descriptions))
    model = _noise(noise, noise_interval, noise_confidence)
    with progress_of(f"reading {probs}", quiet):
        matrix, given, names = read_points(probs, labels, names=classes)
        test, true = _read_test(test_probs, test_labels, names, matrix.shape[1])
        texts = None if descriptions is None else read_lines(descriptions)
    with progress_of("calibrating", quiet) as say:
        page = nacp.make_report(
            matrix, given, noise=model, alpha=alpha, score=score, guarantee=guarantee, delta=delta,
            crossing=crossing, classes=names, normalize=normalize, random_state=seed, test_probs=test,
            test_labels=true, descriptions=texts, title=title, say=say,
        )  # fmt: skip
    page.save(out)
    found = page.contents.calibration
    show(as_json, _described(found) | {"out": str(out)}, f"{found}\nWritten: {out}")


@app.command("demo", epilog=examples("nacp demo", "nacp demo --report languages.html"))
def demo_command(
    report: Annotated[Path, typer.Option(help="The file for the report.")] = Path("nacp-demo.html"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a classifier of 472 languages, spoil its calibration labels, and show what helps."""
    from nacp.cli import demo  # takes longer to import than all the rest

    demo.main(report, quiet=quiet, as_json=as_json)


@app.command(
    "reproduce",
    epilog=examples(
        "nacp reproduce all",
        "nacp reproduce table1 --splits 100 --out results",
        "nacp reproduce all --data folder",
    ),
)
def reproduce_command(
    what: Annotated[
        What,
        typer.Argument(metavar="WHAT", help="A table or figure of the paper, a sweep beyond it, or all."),
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="A folder of .npz files with probs and labels. Simulated twins by default."),
    ] = None,
    splits: Annotated[
        int,
        typer.Option(
            min=2,
            help="Random splits of each data set; "
            f"at most {SWEEP_SPLITS} in sweeps, {DIRECT_SPLITS} in guarantees.",
        ),
    ] = 1000,
    out: Annotated[Path, typer.Option(help="The folder for the results.")] = Path("reproduction"),
    seed: Annotated[int, typer.Option(min=0, help="Of the splits and of the label noise.")] = 0,
    noise_per: Annotated[
        NoisePer, typer.Option(help="Draw label noise for each split, or once for each data set.")
    ] = "split",
    workers: Annotated[int, typer.Option(min=1, help="How many processes compute.")] = min(
        2, os.cpu_count() or 1
    ),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make the tables and figures of the paper again, beside the printed numbers.

    An interrupted run goes on where it stopped. The same seed gives the same files, whatever the number of
    workers.
    """
    plan = Plan(data, splits, seed, noise_per)
    for sentence in left_out(plan.folder) if plan.folder else ():
        typer.echo(sentence, err=True)
    experiments: dict[Name, Experiment | None] = {}
    for name in NAMES if what == "all" else (what,):
        try:
            experiments[name] = EXPERIMENTS[name](plan) if name in EXPERIMENTS else None
        except NothingToRun as nothing:
            if what != "all":
                raise
            typer.echo(f"{nothing}: left out.", err=True)
    bar = progress_bar(quiet)
    task, made = bar.add_task("", total=1), []
    ready = compute(
        [experiment for experiment in experiments.values() if experiment is not None],
        plan,
        out / "cells",
        workers,
        lambda title, share: bar.update(task, description=title, completed=share),
    )
    with bar, closing(ready):
        for name, experiment in experiments.items():
            if experiment is not None:
                next(ready)
            text, paths = reproduce(name, plan, out)
            made.append({"name": name, "files": [str(path) for path in paths]})
            if not as_json:
                bar.stop()
                typer.echo(f"{text}\nWritten: {', '.join(map(str, paths))}\n")
                bar.start()
    if as_json:
        show(True, made, "")
    if not figures.available():
        typer.echo("No figures were drawn: matplotlib is not installed (pip install 'nacp[plot]').", err=True)


def _noise(text: str, interval: tuple[float, float] | None, confidence: float) -> Any:
    """Return the noise that the options stand for."""
    noise = read_noise(text)
    if interval is None and confidence == 1:
        return noise
    if not isinstance(noise, float):
        raise ValueError(f"--noise-interval is for a noise rate; --noise is {text}")
    return UniformNoise(noise, interval, confidence)


def _read_test(
    probs: str | None, labels: str | None, names: Sequence[Any] | None, k: int
) -> tuple[Array | None, Array | None]:
    """Read the points on which sets are to be measured, if there are some, and their labels."""
    if probs is None:
        if labels is not None:
            raise ValueError("--test-labels needs --test-probs, the probabilities of the same points")
        return None, None
    if labels is None:
        return read_rows(probs, names, k=k)[0], None
    matrix, true, _ = read_points(probs, labels, names, k=k)
    return matrix, true


def _predicted(model: nacp.Calibration, matrix: Array) -> Iterator[nacp.PredictionSets]:
    """Predict block after block, so that the sets of a large matrix need not all be held at once."""
    step = max(1, _ENTRIES // matrix.shape[1]) if matrix.ndim == 2 else max(len(matrix), 1)
    for start in range(0, max(len(matrix), 1), step):
        try:
            yield model.predict_set(matrix[start : start + step])
        except ValueError:
            # Say it of the whole matrix, whose rows have other numbers.
            check_probs(
                matrix, normalize=model.normalize, probabilities=model.score.takes_probabilities, k=model.k
            )
            raise


def _described(found: nacp.Calibration) -> dict[str, Any]:
    """Return what there is to know about a calibration."""
    return {
        "threshold": found.threshold,
        "correction": found.correction,
        "estimate": found.estimate,
        "promise": found.promise,
        "obstacle": found.obstacle,
        "note": found.note,
        "gap": found.gap,
        "price_of_doubt": found.price_of_doubt,
        "alpha": found.alpha,
        "n": found.n,
        "k": found.k,
        "score": found.score.to_dict(),
        "guarantee": found.guarantee.name,
        "delta": found.guarantee.delta,
        "noise": None if found.noise is None else found.noise.describe(found.k),
        "classes": None if found.classes is None else list(found.classes),
    }
