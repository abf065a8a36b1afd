"""The command ``nacp``."""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

import nacp
from nacp import demo
from nacp._io import read_labels, read_matrix, write_sets
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
    help="Small prediction sets you can trust, from labels you cannot.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

What: TypeAlias = Literal[Name, "all"]


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn wrong input into one sentence and the exit code 2, as a wrong option has."""
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None


@app.callback()
def _nacp() -> None:
    """Small prediction sets you can trust, from labels you cannot."""


@app.command("reproduce")
def reproduce_command(
    what: Annotated[What, typer.Argument(help="A table or figure of the paper, a sweep beyond it, or all.")],
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
) -> None:
    """Make the tables and figures of the paper again, beside the printed numbers.

    An interrupted run goes on where it stopped. The same seed gives the same files.
    """
    plan = Plan(data, splits, seed, noise_per)
    names = NAMES if what == "all" else (what,)
    with _sentences():
        _run(names, plan, out, workers)


@app.command("calibrate")
def calibrate_command(
    probs: Annotated[str, typer.Argument(help="Probabilities: .npy, .npz, .npz:name or .csv.")],
    labels: Annotated[str, typer.Argument(help="Noisy labels, numbers or names: the same.")],
    noise: Annotated[float, typer.Option(help="The rate of uniform label noise.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The file for the calibration.")] = Path(
        "cal.json"
    ),
    alpha: Annotated[float, typer.Option(help="Sets are to cover with probability 1 - alpha.")] = 0.1,
    score: Annotated[str, typer.Option(help="hps, aps, raps, saps, margin, topk or precomputed.")] = "hps",
    guarantee: Annotated[
        str, typer.Option(help="pac, binomial, expected, nacp, acnl, crcp or none.")
    ] = "pac",
    delta: Annotated[float | None, typer.Option(help="The probability with which it may fail.")] = None,
) -> None:
    """Find the threshold, and say what is promised.

    Example: nacp calibrate probs.npy labels.csv --noise 0.2 --score raps -o cal.json
    """
    with _sentences():
        matrix, names = read_matrix(probs)
        given = read_labels(labels, len(matrix), names)
        found = nacp.calibrate(
            matrix, given, noise=noise, alpha=alpha, score=score, guarantee=guarantee, delta=delta,
            classes=names,
        )  # fmt: skip
        found.save(out)
        typer.echo(f"{found}\nWritten: {out}")


@app.command("predict")
def predict_command(
    calibration: Annotated[Path, typer.Argument(help="What nacp calibrate wrote.")],
    probs: Annotated[str, typer.Argument(help="Probabilities: .npy, .npz, .npz:name or .csv.")],
    out: Annotated[str, typer.Option("-o", "--out", help="A file: .jsonl, .csv or .npz.")] = "sets.jsonl",
) -> None:
    """Write the prediction sets of new inputs.

    Example: nacp predict cal.json new.npy -o sets.jsonl
    """
    with _sentences():
        model = nacp.load(calibration)
        sets = model.predict_set(read_matrix(probs, model.classes)[0])
        write_sets(sets, out)
        typer.echo(f"{len(sets)} sets of {sets.sizes.mean():.4g} labels on average. Written: {out}")


@app.command("evaluate")
def evaluate_command(
    calibration: Annotated[Path, typer.Argument(help="What nacp calibrate wrote.")],
    probs: Annotated[str, typer.Argument(help="Probabilities: .npy, .npz, .npz:name or .csv.")],
    labels: Annotated[str, typer.Argument(help="The true labels, numbers or names: the same.")],
) -> None:
    """Measure the sets on points whose true labels are known.

    The exit code is 1 if coverage is short of its target by more than two standard errors of the test points,
    and 2 for wrong input. Example: nacp evaluate cal.json test.npy true.npy
    """
    with _sentences():
        model = nacp.load(calibration)
        matrix, _ = read_matrix(probs, model.classes)
        true = read_labels(labels, len(matrix), model.classes)
        result = nacp.evaluate(model.predict_set(matrix), true)
        error = math.sqrt(model.alpha * (1 - model.alpha) / result.n)
        passed = result.coverage >= 1 - model.alpha - 2 * error
        verdict = f"target {1 - model.alpha:.6g}, standard error {error:.2g}: {'pass' if passed else 'fail'}"
        typer.echo(f"{result}\n{verdict}")
    if not passed:
        raise typer.Exit(1)


@app.command("plan")
def plan_command(
    classes: Annotated[int, typer.Option(help="The number of classes.")],
    noise: Annotated[float, typer.Option(help="The rate of uniform label noise.")],
    alpha: Annotated[float, typer.Option(help="Sets are to cover with probability 1 - alpha.")] = 0.1,
    delta: Annotated[float, typer.Option(help="The probability with which a promise may fail.")] = 0.05,
    points: Annotated[int, typer.Option(help="The number of calibration points to plan for.")] = 1000,
    max_correction: Annotated[
        float, typer.Option(help="Also say how many points it takes to cover no more than this too much.")
    ] = 0.01,
) -> None:
    """Say what each guarantee will cost, before labels are bought.

    Example: nacp plan --classes 1000 --noise 0.2 --points 5000 --max-correction 0.02
    """
    with _sentences():
        found = nacp.plan(k=classes, noise=noise, alpha=alpha, delta=delta, n=points, excess=max_correction)
        typer.echo(found)


@app.command("demo")
def demo_command() -> None:
    """Train a classifier of 472 languages, spoil its calibration labels, and show what helps."""
    with _sentences():
        demo.main()


def _run(names: tuple[Name, ...], plan: Plan, out: Path, workers: int) -> None:
    for sentence in left_out(plan.folder) if plan.folder else ():
        typer.echo(sentence, err=True)
    experiments: dict[Name, Experiment | None] = {}
    for name in names:
        try:
            experiments[name] = EXPERIMENTS[name](plan) if name in EXPERIMENTS else None
        except NothingToRun as nothing:
            if len(names) == 1:
                raise
            typer.echo(f"{nothing}: left out.", err=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    task = bar.add_task("", total=1)
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
            bar.stop()
            typer.echo(text)
            typer.echo(f"Written: {', '.join(map(str, paths))}\n")
            bar.start()
    if not figures.available():
        typer.echo("No figures were drawn: matplotlib is not installed (pip install 'nacp[plot]').", err=True)
