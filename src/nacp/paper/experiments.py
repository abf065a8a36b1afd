"""The experiments: Tables 1 and 3 of the paper; beyond it other noise rates, calibration sizes and matrices.

An experiment is a list of settings, each of them one classifier, one score and one noise model.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TypeAlias

import numpy as np

from nacp._types import Floats
from nacp.guarantees import as_guarantee
from nacp.noise import GroupNoise, Noise, UniformNoise
from nacp.paper import printed
from nacp.paper.methods import Method, aware, methods_under, our_methods
from nacp.paper.printed import Moments
from nacp.paper.sources import Source, folder_sources
from nacp.paper.splits import run_splits

ALPHA = 0.1
RATE = 0.2
RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
CALIBRATION_SIZES = (500, 1000, 2500, 5000, 10_000, 25_000)
# The sweeps have many settings: fewer splits of each, and the score with the smallest sets.
SWEEP_SPLITS = 100
SWEEP_SCORE = "hps"
# Guarantees that test thresholds run split by split.
DIRECT_SPLITS = 20

Progress: TypeAlias = Callable[[str, int], object]


class NothingToRun(ValueError):
    """The folder holds nothing that an experiment is about."""


@dataclass(frozen=True)
class Run:
    """The arguments of one run.

    The data are those of `folder`, or the simulated twins. Each data set is split at random `splits` times
    into calibration and test points, and label noise is drawn anew for each split.
    """

    folder: Path | None = None
    splits: int = 1000
    seed: int = 0

    def titled(self, title: str) -> str:
        """Add to a title what was run: the twins, or the data of a folder, by its name."""
        if self.folder is None:
            return f"{title} (simulated twins)"
        return f"{title} (data: {os.path.basename(os.path.abspath(self.folder))})"

    def sources(self, twins: tuple[str, ...] = printed.TABLE1, prefix: str = "") -> list[Source]:
        """Return the named twins, or what is in the folder with names that begin with a prefix."""
        if self.folder is None:
            return [Source(name) for name in twins]
        return [source for source in folder_sources(self.folder) if source.name.startswith(prefix)]


@dataclass(frozen=True)
class Setting:
    """One classifier, score and noise model; `rate` is that of uniform noise.

    `label` distinguishes the setting within a sweep. `human` names noisy labels that come with the data and
    are used instead of drawn ones. `calibration` is the number of calibration points, half by default.
    """

    source: Source
    score: str
    noise: Noise
    splits: int
    methods: list[Method]
    label: str = ""
    rate: float | None = None
    human: str | None = None
    calibration: int | None = None

    @property
    def title(self) -> str:
        return ", ".join(filter(None, [self.source.title, self.score.upper(), self.label]))


@dataclass(frozen=True)
class Experiment:
    """Settings under one title; `versus_paper` if the paper prints the same."""

    title: str
    settings: list[Setting]
    versus_paper: bool = False


@dataclass(frozen=True)
class Cell:
    """What identifies a row of a table, by the same names in all CSV files.

    `data` is the name of a twin, if it is `simulated`, or of a file; n points of k classes calibrate, and
    `rate` is that of uniform noise.
    """

    data: str
    simulated: bool | None
    n: int
    k: int
    rate: float | None
    setting: str
    score: str
    method: str

    @property
    def title(self) -> str:
        return printed.title_of(self.data, simulated=bool(self.simulated))


@dataclass(frozen=True)
class Row(Cell):
    """The results of one method in one setting, over splits; coverage in percent.

    `below` is the share of splits whose coverage is less than the target, in percent. The differences from
    the paper are in standard deviations of one split, and None where the two need not be the same.
    """

    splits: int
    correction: float
    size: float
    size_sd: float
    coverage: float
    coverage_sd: float
    below: float
    paper_size: float | None = None
    paper_size_sd: float | None = None
    size_diff_sd: float | None = None
    paper_coverage: float | None = None
    paper_coverage_sd: float | None = None
    coverage_diff_sd: float | None = None
    doubt: str | None = None

    @property
    def moments(self) -> tuple[Moments, Moments]:
        return Moments(self.size, self.size_sd), Moments(self.coverage, self.coverage_sd)

    @property
    def paper(self) -> tuple[printed.PrintedCell, bool, bool] | None:
        """What the paper prints, and whether our size and our coverage should be the same."""
        cell = printed.CELLS.get((printed.paper_name(self.data), self.score, self.method))
        same = bool(self.simulated) or printed.same_shape(self.data, self.n, self.k)
        return None if cell is None else (cell, bool(self.simulated), same)


def run_experiment(experiment: Experiment, run: Run, progress: Progress | None = None) -> list[Row]:
    """Run an experiment.

    `progress` is called with the title of a setting and the number of its splits that have been done.
    """
    rows: list[Row] = []
    for setting in experiment.settings:
        with setting.source.named():
            found = list(_run_setting(setting, run, progress))
        if progress is not None:
            progress(setting.title, setting.splits)
        rows += map(_beside_paper, found) if experiment.versus_paper else found
    return rows


def _run_setting(setting: Setting, run: Run, progress: Progress | None) -> Iterator[Row]:
    source, data = setting.source, setting.source.load()
    total, k = data.probs.shape
    noisy = None if setting.human is None else data.human[setting.human][1]
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
    for m, method in enumerate(setting.methods):
        size, coverage = moments_of(found.sizes[m]), moments_of(100 * found.coverages[m])
        yield Row(
            data=source.name,
            simulated=source.path is None,
            n=setting.calibration or total // 2,
            k=k,
            rate=setting.rate,
            setting=setting.label,
            score=setting.score,
            method=method.name,
            splits=setting.splits,
            correction=float(found.corrections[m].mean()),
            size=size.mean,
            size_sd=size.sd,
            coverage=coverage.mean,
            coverage_sd=coverage.sd,
            below=float(100 * np.mean(found.coverages[m] < 1 - ALPHA)),
        )


def _beside_paper(row: Row) -> Row:
    """Add what the paper prints, if it has this cell. Sizes are only compared for twins of its networks."""
    if row.paper is None:
        return row
    (size, coverage), same_size, same_coverage = row.paper
    ours = row.moments
    return replace(
        row,
        paper_size=size.mean,
        paper_size_sd=size.sd,
        size_diff_sd=size.deviation(ours[0]) if same_size else None,
        paper_coverage=coverage.mean,
        paper_coverage_sd=coverage.sd,
        coverage_diff_sd=coverage.deviation(ours[1]) if same_coverage else None,
        doubt=printed.doubt(printed.paper_name(row.data), row.score, row.method),
    )


def moments_of(values: Floats) -> Moments:
    """Return the mean and standard deviation of values; 0 where all are the same or some are infinite."""
    if (values == values[0]).all() or not np.isfinite(values).all():
        return Moments(float(values.max()), 0.0)
    return Moments(float(values.mean()), float(values.std()))


def _versus_paper(title: str, run: Run, sources: list[Source]) -> Experiment:
    noise = UniformNoise(RATE)
    settings = [
        Setting(source, score, noise, run.splits, methods_under(noise, source.priors), rate=RATE)
        for source, score in product(sources, printed.SCORES)
    ]
    return Experiment(run.titled(title), settings, versus_paper=True)


def _swept_setting(run: Run, source: Source, noise: Noise, label: str, rate: float | None = None) -> Setting:
    splits = min(run.splits, SWEEP_SPLITS)
    return Setting(source, SWEEP_SCORE, noise, splits, methods_under(noise, source.priors), label, rate)


def table1(run: Run) -> Experiment:
    """Return Table 1: data sets, scores and methods."""
    return _versus_paper("Table 1: data sets, scores and methods", run, run.sources())


def table3(run: Run) -> Experiment:
    """Return Table 3: networks on ImageNet; in a folder, the files whose names begin with "imagenet"."""
    sources = run.sources(printed.TABLE3, "imagenet")
    if not sources:
        raise NothingToRun("Table 3 is about ImageNet, and no file in the folder has a name that begins so")
    return _versus_paper("Table 3: networks on ImageNet", run, sources)


def sweep_noise(run: Run) -> Experiment:
    """Return the noise rates from 0.05 to 0.6."""
    settings = [
        _swept_setting(run, source, UniformNoise(rate), f"ε = {rate:g}", rate)
        for source, rate in product(run.sources(), RATES)
    ]
    return Experiment(run.titled("Beyond the paper: the noise rate, HPS"), settings)


def sweep_size(run: Run) -> Experiment:
    """Return the calibration sizes from 500 to half of the data; all other points are for testing."""
    settings = []
    for source in run.sources():
        half = source.shape[0] // 2
        for n in sorted({half, *(n for n in CALIBRATION_SIZES if n < half)}):
            setting = _swept_setting(run, source, UniformNoise(RATE), f"n = {n:,}", RATE)
            settings.append(replace(setting, calibration=n))
    return Experiment(run.titled("Beyond the paper: the number of calibration points, HPS"), settings)


def sweep_matrix(run: Run) -> Experiment:
    """Return noise that is not uniform: pairs, groups, and that of people where the data have it."""
    settings = []
    for source in run.sources():
        k = source.shape[1]
        m = 20 if k >= 100 else 5
        pairs = GroupNoise.other([i // 2 for i in range(k)], RATE)
        groups = GroupNoise(tuple(i // m for i in range(k)), RATE)
        settings.append(_swept_setting(run, source, pairs, f"neighbours swapped, {RATE:.0%}"))
        settings.append(_swept_setting(run, source, groups, f"groups of {m}, {RATE:.0%}"))
        for name, (noise, noisy) in source.human().items():
            label = ("drawn from a human matrix" if noisy is None else "human labels") + f" {name}".rstrip()
            setting = _swept_setting(run, source, noise, label)
            settings.append(setting if noisy is None else replace(setting, human=name))
    return Experiment(run.titled("Beyond the paper: noise that is not uniform, HPS"), settings)


def guarantees(run: Run) -> Experiment:
    """Return the guarantees beyond the paper on the same data, beside NR-CP and NACP."""
    noise = UniformNoise(RATE)
    settings = []
    for source in run.sources():
        paper = [method for method in methods_under(noise, source.priors) if method.name in ("NR-CP", "NACP")]
        methods = [*paper, *our_methods(), aware(as_guarantee("pac", 0.05), "pac, δ = 0.05")]
        splits = min(run.splits, DIRECT_SPLITS)
        settings.append(Setting(source, SWEEP_SCORE, noise, splits, methods, f"ε = {RATE:g}", RATE))
    return Experiment(run.titled("Beyond the paper: guarantees with less excess, HPS, δ = 0.001"), settings)


EXPERIMENTS: dict[str, Callable[[Run], Experiment]] = {
    "table1": table1,
    "table3": table3,
    "sweep-noise": sweep_noise,
    "sweep-size": sweep_size,
    "sweep-matrix": sweep_matrix,
    "guarantees": guarantees,
}
