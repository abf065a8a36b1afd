"""``nacp reproduce``: the tables and figures of the paper."""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from nacp.cli.commands import command
from nacp.cli.terminal import SETTINGS, progress_of, show
from nacp.paper import figures
from nacp.paper.experiments import DIRECT_SPLITS, EXPERIMENTS, SWEEP_SPLITS, NothingToRun, Run
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
    totals = dict[Name, int]()
    for name in NAMES if what == "all" else (what,):
        try:
            settings = EXPERIMENTS[name](run).settings if name in EXPERIMENTS else []
            totals[name] = sum(each.splits for each in settings)
        except NothingToRun as nothing:
            if what != "all":
                raise
            typer.echo(f"{nothing}: left out.", err=True)
    made = []
    for name, total in totals.items():
        text, files = _reproduce(name, run, out, total)
        made.append({"name": name, "files": files})
        if not SETTINGS.get().as_json:
            typer.echo(f"{text}\nWritten: {', '.join(files)}\n")
    if SETTINGS.get().as_json:
        show(made)
    if not figures.available():
        typer.echo("No figures were drawn: matplotlib is not installed (pip install 'nacp[plot]').", err=True)


def _reproduce(name: Name, run: Run, out: Path, total: int) -> tuple[str, list[str]]:
    """Make one table or figure; return its text and its files. A bar shows how many splits have been done."""
    done = dict[str, int]()
    with progress_of(name, total) as say:

        def report(title: str, splits: int) -> None:
            done[title] = splits
            say(title)
            say(sum(done.values()))

        text, paths = reproduce(name, run, out, report)
    return text, list(map(str, paths))
