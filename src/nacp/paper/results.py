"""What comes out of experiments, computed or kept from before.

The results of a setting are kept in a file whose name is a digest of all that determines them, so that a run
that was interrupted goes on where it stopped.
"""

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

import nacp
from nacp._types import Floats
from nacp.files import write_whole
from nacp.paper import printed
from nacp.paper.experiments import ALPHA, Experiment, Run, Setting
from nacp.paper.sources import naming
from nacp.paper.splits import run_splits

_KEPT = ("sizes", "coverages", "corrections")
# What only shows results: a change there leaves them as they are.
SHOWS = (
    "__main__.py",
    "cli",
    "show",
    "sklearn.py",
    "paper/figures.py",
    "paper/reproduce.py",
    "paper/sheets.py",
    "paper/tables.py",
)

Progress: TypeAlias = Callable[[str, int], object]


class Moments(NamedTuple):
    """A mean and a standard deviation over splits."""

    mean: float
    sd: float

    @classmethod
    def of(cls, values: Floats) -> "Moments":
        """Return those of values; without a standard deviation where all are the same, or some infinite."""
        if (values == values[0]).all() or not np.isfinite(values).all():
            return cls(float(values.max()), 0.0)
        return cls(float(values.mean()), float(values.std()))


@dataclass(frozen=True)
class Record:
    """What a method did in a setting, in summary; coverage in percent.

    Attributes
    ----------
    setting : Setting
    n, k : int
        The numbers of calibration points and of classes.
    method : str
    size, coverage : Moments
    correction : float
        The mean over splits.
    below : float
        The share of splits whose coverage is less than the target, in percent.
    printed : PrintedCell or None
        What the paper prints.
    """

    setting: Setting
    n: int
    k: int
    method: str
    size: Moments
    coverage: Moments
    correction: float
    below: float
    printed: printed.PrintedCell | None


def run_experiment(
    experiment: Experiment, run: Run, cells: Path, progress: Progress | None = None
) -> list[Record]:
    """Run an experiment, or what of it is not yet among the cells.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    run : Run
        That it was made with.
    cells : Path
        The folder of results that are kept.
    progress : callable, optional
        Called with the title of a setting and the number of its splits that have been done.

    Returns
    -------
    list of Record

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from nacp.paper.experiments import Experiment, Run, table1
    >>> from nacp.paper.results import run_experiment
    >>> run = Run(splits=5)
    >>> first = Experiment("first", "The first row of Table 1", table1(run).settings[:1])
    >>> with TemporaryDirectory() as folder:
    ...     records = run_experiment(first, run, Path(folder))
    >>> [record.method for record in records if record.size.mean > 4]
    ['Noisy-CP']
    """
    return [
        record
        for setting in experiment.settings
        for record in _records(setting, results_of(setting, run, cells, progress), experiment.versus_paper)
    ]


def _records(setting: Setting, found: dict[str, Floats], versus_paper: bool) -> Iterator[Record]:
    total, k = setting.source.shape
    for m, method in enumerate(setting.methods):
        sizes, coverages = found["sizes"][m], 100 * found["coverages"][m]
        cell = (setting.source.printed_as, setting.score, method.name)
        yield Record(
            setting,
            setting.calibration or total // 2,
            k,
            method.name,
            Moments.of(sizes),
            Moments.of(coverages),
            float(found["corrections"][m].mean()),
            float(100 * np.mean(found["coverages"][m] < 1 - ALPHA)),
            printed.CELLS.get(cell) if versus_paper else None,
        )


def cell(setting: Setting, run: Run, cells: Path) -> tuple[Path, str]:
    """Return the file for the results of a setting, and all that determines them."""
    key = json.dumps(
        {
            "code": code_digest(Path(nacp.__file__).parent),
            "versions": [version(module) for module in ("nacp", "numpy", "scipy")],
            "data": setting.source.fingerprint,
            "score": setting.score,
            "noise": setting.noise.to_dict(),
            "human": setting.human,
            "noise_per": run.noise_per,
            "alpha": ALPHA,
            "splits": setting.splits,
            "seed": run.seed,
            "calibration": setting.calibration,
            "methods": [method.to_dict() for method in setting.methods],
        }
    )
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return cells / f"{setting.source.name}-{setting.score}-{digest}.npz", key


@cache
def code_digest(package: Path) -> str:
    """Return a digest of all files in the folder of the package but for those that only show results.

    Parameters
    ----------
    package : Path
        The folder.

    Examples
    --------
    >>> from pathlib import Path
    >>> import nacp
    >>> from nacp.paper.results import code_digest
    >>> len(code_digest(Path(nacp.__file__).parent))
    64
    """
    files = {
        path.relative_to(package): path
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    lines = [
        f"{name.as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for name, path in sorted(files.items())
        if not any(name.is_relative_to(shown) for shown in SHOWS)
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def results_of(
    setting: Setting, run: Run, cells: Path, progress: Progress | None = None
) -> dict[str, Floats]:
    """Return sizes, coverages and corrections, each of shape (methods, splits): those kept, or new ones."""
    path, key = cell(setting, run, cells)
    kept = _read_cell(path, key)
    if kept is None:
        with naming(setting.source):
            kept = _compute(setting, run, progress)
        _write_cell(path, kept, key)
    if progress is not None:
        progress(setting.title, setting.splits)
    return kept


def _compute(setting: Setting, run: Run, progress: Progress | None) -> dict[str, Floats]:
    data = setting.source.load()
    if setting.human is not None:
        noisy = data.human[setting.human][1]
    else:
        noisy = run.fixed_noise(data.labels, data.probs.shape[1], setting.noise)
    found = run_splits(
        data.probs,
        data.labels,
        noise=setting.noise,
        alpha=ALPHA,
        score=setting.score,
        methods=setting.methods,
        splits=setting.splits,
        calibration=setting.calibration,
        noisy_labels=noisy,
        random_state=run.seed,
        progress=None if progress is None else lambda done: progress(setting.title, done),
    )
    return {name: getattr(found, name)[:, 0] for name in _KEPT}


def _write_cell(path: Path, kept: dict[str, Floats], key: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "wb", lambda file: np.savez(file, allow_pickle=False, key=np.array(key), **kept))


def _read_cell(path: Path, key: str) -> dict[str, Floats] | None:
    """Return what is kept under that key; None if there is nothing, or it is damaged."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            results = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    return results if str(results.pop("key", "")) == key else None
