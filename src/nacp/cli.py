"""The command ``nacp``."""

import sys
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from nacp.paper import figures
from nacp.paper.experiments import EXPERIMENTS, NoisePer, NothingToRun, Plan
from nacp.paper.reproduce import NAMES, Name, reproduce

app = typer.Typer(
    help="Small prediction sets you can trust, from labels you cannot.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

What: TypeAlias = Literal[Name, "all"]


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
        int, typer.Option(min=2, help="Random splits of each data set; sweeps: at most 100.")
    ] = 1000,
    out: Annotated[Path, typer.Option(help="The folder for the results.")] = Path("reproduction"),
    seed: Annotated[int, typer.Option(min=0, help="Of the splits and of the label noise.")] = 0,
    noise_per: Annotated[
        NoisePer, typer.Option(help="Draw label noise for each split, or once for each data set.")
    ] = "split",
) -> None:
    """Make the tables and figures of the paper again, beside the printed numbers.

    An interrupted run goes on where it stopped. The same seed gives the same files.
    """
    plan = Plan(data, splits, seed, noise_per)
    names = NAMES if what == "all" else (what,)
    try:
        _run(names, plan, out)
    except (ValueError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None


def _run(names: tuple[Name, ...], plan: Plan, out: Path) -> None:
    chosen: list[Name] = []
    total = 0
    for name in names:
        try:
            total += sum(s.splits for s in EXPERIMENTS[name](plan).settings) if name in EXPERIMENTS else 0
            chosen.append(name)
        except NothingToRun as nothing:
            if len(names) == 1:
                raise
            typer.echo(f"{nothing}: left out.", err=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    with bar:
        task, before = bar.add_task("", total=total), 0
        for name in chosen:
            done: dict[str, int] = {}

            def progress(title: str, splits: int, done: dict[str, int] = done, before: int = before) -> None:
                done[title] = splits
                bar.update(task, description=title, completed=before + sum(done.values()))

            text, paths = reproduce(name, plan, out, progress)
            before += sum(done.values())
            bar.stop()
            typer.echo(text)
            typer.echo(f"Written: {', '.join(map(str, paths))}\n")
            bar.start()
    if not figures.available():
        typer.echo("No figures were drawn: matplotlib is not installed (pip install 'nacp[plot]').", err=True)
