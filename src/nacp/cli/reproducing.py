"""``nacp reproduce``: the tables and figures of the paper."""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from nacp.cli import options
from nacp.cli.errors import command
from nacp.cli.terminal import progress_bar, show
from nacp.paper import figures
from nacp.paper.experiments import (
    DIRECT_SPLITS,
    EXPERIMENTS,
    SWEEP_SPLITS,
    NoisePer,
    NothingToRun,
    Run,
)
from nacp.paper.reproduce import NAMES, Name, reproduce
from nacp.paper.sources import left_out

app = typer.Typer()
What: TypeAlias = Literal[Name, "all"]


@command(
    app,
    "reproduce",
    "nacp reproduce all",
    "nacp reproduce table1 --splits 100 --out results",
    "nacp reproduce all --data folder",
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
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Make the tables and figures of the paper again, beside the printed numbers.

    An interrupted run goes on where it stopped. The same seed gives the same files.
    """
    run = Run(data, splits, seed, noise_per)
    for sentence in left_out(run.folder) if run.folder else ():
        typer.echo(sentence, err=True)
    names: list[Name] = []
    splits_of: dict[str, int] = {}  # by the title of the setting; tables may share one
    for name in NAMES if what == "all" else (what,):
        try:
            settings = EXPERIMENTS[name](run).settings if name in EXPERIMENTS else []
        except NothingToRun as nothing:
            if what != "all":
                raise
            typer.echo(f"{nothing}: left out.", err=True)
            continue
        names.append(name)
        splits_of |= {setting.title: setting.splits for setting in settings}
    bar = progress_bar(quiet)
    task, made, done = bar.add_task("", total=1), [], dict.fromkeys(splits_of, 0)

    def progress(title: str, splits_done: int) -> None:
        done[title] = splits_done
        bar.update(task, description=title, completed=sum(done.values()) / sum(splits_of.values()))

    with bar:
        for name in names:
            text, paths = reproduce(name, run, out, progress)
            made.append({"name": name, "files": [str(path) for path in paths]})
            if not as_json:
                bar.stop()
                typer.echo(f"{text}\nWritten: {', '.join(map(str, paths))}\n")
                bar.start()
    if as_json:
        show(True, made, "")
    if not figures.available():
        typer.echo("No figures were drawn: matplotlib is not installed (pip install 'nacp[plot]').", err=True)
