"""From a name such as "table1" to its files."""

import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import nacp
from nacp.files import write_text
from nacp.paper import corrections, figures, sheets, tables
from nacp.paper.experiments import EXPERIMENTS, Run
from nacp.paper.results import Progress, run_experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Name: TypeAlias = Literal[
    "table1", "table2", "table3", "figure1", "sweep-noise", "sweep-size", "sweep-matrix", "guarantees"
]
NAMES: tuple[Name, ...] = get_args(Name)
_SWEPT = {"sweep-noise": "noise rate ε", "sweep-size": "calibration points"}


class _Piece(NamedTuple):
    sheet: sheets.Sheet
    draw: "Callable[[], Figure] | None"


def origin(name: Name, run: Run) -> list[str]:
    """Return how a table or figure is made: the command, the versions, the seed and the data.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    run : Run
        What was asked for.

    Examples
    --------
    >>> from nacp.paper.experiments import Run
    >>> from nacp.paper.reproduce import origin
    >>> print(origin("table1", Run())[0])
    Made by `nacp reproduce table1 --splits 1000 --seed 0 --noise-per split`.
    """
    data = "" if run.folder is None else " --data DIR"
    options = f"--splits {run.splits} --seed {run.seed} --noise-per {run.noise_per}"
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
    """Make one table or figure of the paper, and write it to files.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    run : Run
        Which data, how many splits, and their seed.
    out : Path
        The folder for the files; results of single settings are kept in its folder ``cells``.
    progress : callable, optional
        Called with the title of a setting and the number of its splits that have been done.

    Returns
    -------
    text : str
        The table as Markdown.
    paths : list of Path
        The files that were written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from nacp.paper.experiments import Run
    >>> from nacp.paper.reproduce import reproduce
    >>> with TemporaryDirectory() as folder:
    ...     text, paths = reproduce("table2", Run(splits=2), Path(folder))
    >>> [path.name for path in paths]
    ['table2.md', 'table2.csv', 'table2.tex']
    """
    made = origin(name, run)
    if name in EXPERIMENTS:
        piece = _splits(name, run, made, out / "cells", progress)
    else:
        piece = (_table2 if name == "table2" else _figure1)(run, made)
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for ending, write in ((".md", sheets.to_markdown), (".csv", sheets.to_csv), (".tex", sheets.to_latex)):
        path = out / f"{name}{ending}"
        write_text(path, write(piece.sheet))
        paths.append(path)
    if piece.draw is not None and figures.available():
        paths += figures.save(piece.draw, out / name, made)
    return sheets.to_markdown(piece.sheet), paths


def _table2(run: Run, made: list[str]) -> _Piece:
    title = run.titled("Table 2: the corrections")
    return _Piece(tables.corrections_sheet(title, corrections.table2(run), made), None)


def _figure1(run: Run, made: list[str]) -> _Piece:
    title = "Figure 1: the corrections against the number of calibration points, ε = 0.2, and ours"
    rows = corrections.figure1(run)
    sheet = tables.corrections_sheet(title, rows, made)
    return _Piece(sheet, lambda: figures.corrections_figure(rows, title))


def _splits(name: Name, run: Run, made: list[str], cells: Path, progress: Progress | None) -> _Piece:
    experiment = EXPERIMENTS[name](run)
    records = run_experiment(experiment, run, cells, progress)
    sheet = tables.splits_sheet(experiment, records, made)
    if name in _SWEPT:
        return _Piece(sheet, lambda: figures.sweep_figure(records, _SWEPT[name], experiment.title))
    return _Piece(sheet, lambda: figures.methods_figure(experiment, records))
