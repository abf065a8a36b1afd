"""From the name of a table or figure, such as "table1", to its files."""

import platform
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import nacp
from nacp.files import write_text
from nacp.paper import corrections, figures, tables
from nacp.paper.experiments import EXPERIMENTS, Progress, Run, run_experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Name: TypeAlias = Literal[
    "table1", "table2", "table3", "figure1", "sweep-noise", "sweep-size", "sweep-matrix", "guarantees"
]
NAMES: tuple[Name, ...] = get_args(Name)


def origin(name: Name, run: Run) -> list[str]:
    """Return how a table or figure is made: the command, the versions, the seed and the data."""
    data = "" if run.folder is None else " --data DIR"
    options = f"--splits {run.splits} --random-state {run.seed}"
    used = ["numpy", "scipy", *(["matplotlib"] if figures.available() else [])]
    versions = [f"nacp {nacp.__version__}", *(f"{module} {version(module)}" for module in used)]
    lines = [
        f"Made by `nacp reproduce {name}{data} {options}`.",
        f"With {', '.join(versions)}, Python {platform.python_version()}.",
    ]
    if name == "figure1":
        return [*lines, "No data: the formulas, and for ACNL the labels of equally frequent classes."]
    if run.folder is None:
        return [*lines, "Data: simulated twins of the paper's classifiers, not the classifiers."]
    sources = run.sources(prefix="imagenet" if name == "table3" else "")
    return [*lines, *(f"Data: {source.name}.npz, {source.fingerprint}." for source in sources)]


def reproduce(name: Name, run: Run, out: Path, progress: Progress | None = None) -> tuple[str, list[Path]]:
    """Make one table or figure of the paper, and write it to files in the folder `out`.

    `progress` is called with the title of a setting and the number of its splits that have been done.
    Returns the table as Markdown, and the files.
    """
    made = origin(name, run)
    draw: Callable[[], Figure] | None = None
    if name == "table2":
        title = run.titled("Table 2: the corrections")
        sheet = tables.corrections_sheet(title, corrections.table2(run), made)
    elif name == "figure1":
        title = "Figure 1: the corrections against the number of calibration points, ε = 0.2, and ours"
        of_draws = corrections.figure1(run)
        sheet = tables.corrections_sheet(title, of_draws, made)
        draw = partial(figures.corrections_figure, of_draws, title)
    else:
        experiment = EXPERIMENTS[name](run)
        rows = run_experiment(experiment, run, progress)
        sheet = tables.splits_sheet(experiment, rows, made)
        draw = partial(figures.methods_figure, experiment, rows)
        if name in ("sweep-noise", "sweep-size"):
            varied = ("rate", "noise rate ε") if name == "sweep-noise" else ("n", "calibration points")
            draw = partial(figures.sweep_figure, experiment, rows, *varied)
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for ending, write in ((".md", tables.to_markdown), (".csv", tables.to_csv)):
        paths.append(out / f"{name}{ending}")
        write_text(paths[-1], write(sheet))
    if draw is not None and figures.available():
        paths += figures.save(draw, out / name, made)
    return tables.to_markdown(sheet), paths
