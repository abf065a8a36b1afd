"""What is run: Tables 1 and 3 of the paper, and beyond it other noise rates, calibration sizes and matrices.

An experiment is a list of settings, each of them one classifier, one score and one noise. The results of a
setting are kept in a file whose name is a digest of all that determines them, so that a run that was
interrupted goes on where it stopped.
"""

import hashlib
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

import nacp
from nacp._types import Array, Floats, Ints
from nacp.files import write_whole
from nacp.guarantees import NACP, PAC, Corrected
from nacp.noise import GroupNoise, Noise, UniformNoise
from nacp.paper import printed
from nacp.paper.methods import Method, matrix_methods, our_methods
from nacp.paper.sources import Source, folder_sources, naming, twin_sources
from nacp.paper.splits import draw_split, run_splits

ALPHA = 0.1
RATE = 0.2
RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
CALIBRATION_SIZES = (500, 1000, 2500, 5000, 10_000, 25_000)
# Beyond the paper there are many settings: fewer splits of each, and the score with the smallest sets.
SWEEP_SPLITS = 100
SWEEP_SCORE = "hps"
# Tests of thresholds are run split by split.
DIRECT_SPLITS = 20

_KEPT = ("sizes", "coverages", "corrections")
# What only shows results: a change there leaves them as they are.
_SHOWS = (
    "cli/*.py",
    "show/*.py",
    "show/report/*.py",
    "paper/figures.py",
    "paper/reproduce.py",
    "paper/tables.py",
    "paper/workers.py",
)

NoisePer: TypeAlias = Literal["split", "dataset"]
Progress: TypeAlias = Callable[[str, int], object]


class NothingToRun(ValueError):
    """The folder holds nothing that an experiment is about."""


@dataclass(frozen=True)
class Plan:
    """What all experiments of one run have in common.

    Attributes
    ----------
    folder : Path or None
        Where the data are; None for the simulated twins.
    splits : int
        How many random splits of each data set into calibration and test points.
    seed : int
        Of the splits and of the label noise.
    noise_per : {"split", "dataset"}
        Whether label noise is drawn anew for each split or once for all.
    """

    folder: Path | None = None
    splits: int = 1000
    seed: int = 0
    noise_per: NoisePer = "split"

    def titled(self, title: str) -> str:
        """Say of a title what was run: simulations are called that; of a folder only its name is known."""
        if self.folder is None:
            return f"{title} (simulated twins)"
        return f"{title} (data: {os.path.basename(os.path.abspath(self.folder))})"

    def sources(self, twins: tuple[str, ...] = printed.TABLE1, prefix: str = "") -> list[Source]:
        """Return the named twins, or what is in the folder with names that begin so."""
        if self.folder is None:
            return twin_sources(twins)
        return [source for source in folder_sources(self.folder) if source.name.startswith(prefix)]

    def fixed_noise(self, labels: Ints, k: int, noise: Noise) -> Ints | None:
        """Return noisy labels for all splits, if they are to be drawn once."""
        if self.noise_per == "split":
            return None
        return noise.sample(labels, k, np.random.default_rng([self.seed, 0, 1]))


@dataclass(frozen=True)
class Setting:
    """One classifier, score and noise.

    Attributes
    ----------
    source : Source
    score : str
    noise : Noise
    splits : int
    methods : list of Method
    label : str
        What distinguishes the setting within a sweep.
    x : float
        The same as a number, for a figure.
    given : str or None
        The name of noisy labels that come with the data and are used instead of drawn ones.
    calibration : int or None
        The number of calibration points; half of them by default.
    """

    source: Source
    score: str
    noise: Noise
    splits: int
    methods: list[Method]
    label: str = ""
    x: float = 0.0
    given: str | None = None
    calibration: int | None = None

    @property
    def title(self) -> str:
        """The setting in a few words."""
        return ", ".join(filter(None, [self.source.title, self.score.upper(), self.label]))


@dataclass(frozen=True)
class Experiment:
    """Settings under one title; `versus_paper` if the paper prints the same."""

    name: str
    title: str
    settings: list[Setting]
    versus_paper: bool = False


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


def _methods(source: Source, noise: Noise) -> list[Method]:
    """Return what is compared: the six methods of the paper, of which NACP is for uniform noise."""
    uniform = [Method("NACP", False, True, NACP())] if isinstance(noise, UniformNoise) else []
    return [*matrix_methods(source.priors), *uniform]


def _printed_settings(plan: Plan, sources: list[Source]) -> list[Setting]:
    noise = UniformNoise(RATE)
    return [
        Setting(source, score, noise, plan.splits, _methods(source, noise))
        for source, score in product(sources, printed.SCORES)
    ]


def _swept_setting(plan: Plan, source: Source, noise: Noise, label: str, x: float = 0.0) -> Setting:
    splits = min(plan.splits, SWEEP_SPLITS)
    return Setting(source, SWEEP_SCORE, noise, splits, _methods(source, noise), label, x)


def table1(plan: Plan) -> Experiment:
    """Return Table 1: data sets, scores and methods."""
    title = plan.titled("Table 1: data sets, scores and methods")
    return Experiment("table1", title, _printed_settings(plan, plan.sources()), versus_paper=True)


def table3(plan: Plan) -> Experiment:
    """Return Table 3: networks on ImageNet; in a folder, the files whose names begin with "imagenet"."""
    sources = plan.sources(printed.TABLE3, "imagenet")
    if not sources:
        raise NothingToRun("Table 3 is about ImageNet, and no file in the folder has a name that begins so")
    title = plan.titled("Table 3: networks on ImageNet")
    return Experiment("table3", title, _printed_settings(plan, sources), versus_paper=True)


def sweep_noise(plan: Plan) -> Experiment:
    """Return the noise rates from 0.05 to 0.6."""
    settings = [
        _swept_setting(plan, source, UniformNoise(rate), f"ε = {rate:g}", rate)
        for source, rate in product(plan.sources(), RATES)
    ]
    return Experiment("sweep-noise", plan.titled("Beyond the paper: the noise rate, HPS"), settings)


def sweep_size(plan: Plan) -> Experiment:
    """Return the calibration sizes from 500 to half of the data; all other points are for testing."""
    settings = []
    for source in plan.sources():
        half = source.shape[0] // 2
        for n in sorted({half, *(n for n in CALIBRATION_SIZES if n < half)}):
            setting = _swept_setting(plan, source, UniformNoise(RATE), f"n = {n:,}", n)
            settings.append(replace(setting, calibration=n))
    title = plan.titled("Beyond the paper: the number of calibration points, HPS")
    return Experiment("sweep-size", title, settings)


def sweep_matrix(plan: Plan) -> Experiment:
    """Return noise that is not uniform: pairs, groups, and what people did where the data hold it."""
    settings = []
    for source in plan.sources():
        k = source.shape[1]
        m = 20 if k >= 100 else 5
        pairs = GroupNoise.other([i // 2 for i in range(k)], RATE)
        groups = GroupNoise(tuple(i // m for i in range(k)), RATE)
        settings.append(_swept_setting(plan, source, pairs, f"neighbours swapped, {RATE:.0%}"))
        settings.append(_swept_setting(plan, source, groups, f"groups of {m}, {RATE:.0%}"))
        for name, (noise, noisy) in source.human().items():
            label = ("drawn from a human matrix" if noisy is None else "human labels") + f" {name}".rstrip()
            setting = _swept_setting(plan, source, noise, label)
            settings.append(setting if noisy is None else replace(setting, given=name))
    title = plan.titled("Beyond the paper: noise that is not uniform, HPS")
    return Experiment("sweep-matrix", title, settings)


def guarantees(plan: Plan) -> Experiment:
    """Return what the guarantees past the paper make of the same data, beside NR-CP and NACP."""
    noise = UniformNoise(RATE)
    settings = []
    for source in plan.sources():
        paper = [method for method in _methods(source, noise) if method.name in ("NR-CP", "NACP")]
        methods = [*paper, *our_methods(), Method("pac, δ = 0.05", False, True, PAC())]
        splits = min(plan.splits, DIRECT_SPLITS)
        settings.append(Setting(source, SWEEP_SCORE, noise, splits, methods, f"ε = {RATE:g}"))
    title = plan.titled("Beyond the paper: guarantees that cost less, HPS, δ = 0.001")
    return Experiment("guarantees", title, settings)


EXPERIMENTS: dict[str, Callable[[Plan], Experiment]] = {
    "table1": table1,
    "table3": table3,
    "sweep-noise": sweep_noise,
    "sweep-size": sweep_size,
    "sweep-matrix": sweep_matrix,
    "guarantees": guarantees,
}


def run(experiment: Experiment, plan: Plan, cells: Path, progress: Progress | None = None) -> list[Record]:
    """Run an experiment, or what of it is not yet among the cells.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    plan : Plan
        That it was made with.
    cells : Path
        The folder of results that are kept.
    progress : callable, optional
        Called with a setting's title and the number of its splits that have been done.

    Returns
    -------
    list of Record

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from nacp.paper.experiments import Experiment, Plan, run, table1
    >>> plan = Plan(splits=5)
    >>> first = Experiment("first", "The first row of Table 1", table1(plan).settings[:1])
    >>> with TemporaryDirectory() as folder:
    ...     records = run(first, plan, Path(folder))
    >>> [record.method for record in records if record.size.mean > 4]
    ['Noisy-CP']
    """
    return [
        record
        for setting in experiment.settings
        for record in _records(setting, results(setting, plan, cells, progress), experiment.versus_paper)
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


def cell(setting: Setting, plan: Plan, cells: Path) -> tuple[Path, str]:
    """Return the file for the results of a setting, and all that determines them."""
    key = json.dumps(
        {
            "code": _code(),
            "versions": [version(module) for module in ("nacp", "numpy", "scipy")],
            "data": setting.source.fingerprint,
            "score": setting.score,
            "noise": setting.noise.to_dict(),
            "given": setting.given,
            "noise_per": plan.noise_per,
            "alpha": ALPHA,
            "splits": setting.splits,
            "seed": plan.seed,
            "calibration": setting.calibration,
            "methods": [[*method[:3], method.guarantee.to_dict()] for method in setting.methods],
        }
    )
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return cells / f"{setting.source.name}-{setting.score}-{digest}.npz", key


@cache
def _code() -> str:
    """Return a digest of the code that results come from."""
    package = Path(nacp.__file__).parent
    shows = {path for pattern in _SHOWS for path in package.glob(pattern)}
    files = [
        f"{path.relative_to(package).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in sorted(set(package.rglob("*.py")) - shows)
    ]
    return hashlib.sha256("\n".join(files).encode()).hexdigest()


def results(setting: Setting, plan: Plan, cells: Path, progress: Progress | None = None) -> dict[str, Floats]:
    """Return sizes, coverages and corrections, each of shape (methods, splits): those kept, or new ones."""
    path, key = cell(setting, plan, cells)
    kept = _read_cell(path, key)
    if kept is None:
        with naming(setting.source):
            kept = _compute(setting, plan, progress)
        _write_cell(path, kept, key)
    if progress is not None:
        progress(setting.title, setting.splits)
    return kept


def _compute(setting: Setting, plan: Plan, progress: Progress | None) -> dict[str, Floats]:
    data = setting.source.load()
    if setting.given is not None:
        noisy = data.human[setting.given][1]
    else:
        noisy = plan.fixed_noise(data.labels, data.probs.shape[1], setting.noise)
    if not all(isinstance(method.guarantee, Corrected) for method in setting.methods):
        return _one_by_one(setting, plan, data.probs, data.labels, noisy, progress)
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
        random_state=plan.seed,
        progress=None if progress is None else lambda done: progress(setting.title, done),
    )
    return {name: getattr(found, name)[:, 0] for name in _KEPT}


def _one_by_one(
    setting: Setting, plan: Plan, probs: Array, clean: Ints, given: Ints | None, progress: Progress | None
) -> dict[str, Floats]:
    """Calibrate and evaluate every method on every split by itself."""
    total, k = probs.shape
    n = setting.calibration or total // 2
    results = {name: np.empty((len(setting.methods), setting.splits)) for name in _KEPT}
    for split in range(setting.splits):
        chosen, drawn = draw_split(clean, k, setting.noise, n, plan.seed, split)
        noisy = drawn if given is None else given
        for m, method in enumerate(setting.methods):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)  # the table shows full sets
                found = nacp.calibrate(
                    probs[chosen],
                    (clean if method.sees_clean else noisy)[chosen],
                    noise=setting.noise if method.noise_aware else None,
                    alpha=ALPHA,
                    score=setting.score,
                    guarantee=method.guarantee,
                    random_state=split,
                )
            held_out = nacp.evaluate(found.predict_set(probs[~chosen]), clean[~chosen])
            values = (held_out.mean_size, held_out.coverage, found.correction)
            for name, value in zip(_KEPT, values, strict=True):
                results[name][m, split] = value
        if progress is not None:
            progress(setting.title, split + 1)
    return results


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
