"""``nacp reproduce``: the tables and figures of the paper."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from nacp.cli.commands import command
from nacp.cli.terminal import SETTINGS, progress_bar, show
from nacp.paper import figures
from nacp.paper.experiments import DIRECT_SPLITS, EXPERIMENTS, SWEEP_SPLITS, NothingToRun, Run, Setting
from nacp.paper.reproduce import NAMES, Name, reproduce
from nacp.paper.sources import left_out

What: TypeAlias = Literal[Name, "all"]


@command(
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
    random_state: Annotated[
        int, typer.Option(min=0, help="The seed of the splits and of the label noise.")
    ] = 0,
) -> None:
    """Make the tables and figures of the paper again, beside the printed numbers.

    The same random state gives the same files.
    """
    run = Run(data, splits, random_state)
    for sentence in left_out(run.folder) if run.folder else ():
        typer.echo(sentence, err=True)
    settings_of: dict[Name, list[Setting]] = {}
    for name in NAMES if what == "all" else (what,):
        try:
            settings_of[name] = EXPERIMENTS[name](run).settings if name in EXPERIMENTS else []
        except NothingToRun as nothing:
            if what != "all":
                raise
            typer.echo(f"{nothing}: left out.", err=True)
    as_json = SETTINGS.get().as_json
    bar, made, done = progress_bar(), [], dict[tuple[str, str], int]()
    task = bar.add_task("", total=sum(each.splits for settings in settings_of.values() for each in settings))

    def report(name: str, title: str, splits_done: int) -> None:
        done[name, title] = splits_done
        bar.update(task, description=title, completed=sum(done.values()))

    with bar:
        for name in settings_of:
            text, paths = reproduce(name, run, out, partial(report, name))
            made.append({"name": name, "files": [str(path) for path in paths]})
            if not as_json:
                bar.stop()
                typer.echo(f"{text}\nWritten: {', '.join(map(str, paths))}\n")
                bar.start()
    if as_json:
        show(made)
    if not figures.available():
        typer.echo("No figures were drawn: matplotlib is not installed (pip install 'nacp[plot]').", err=True)
