"""What is run: Tables 1 and 3 of the paper, and beyond it other noise rates, calibration sizes and matrices.

An experiment is a list of settings, each of them one classifier, one score and one noise.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from nacp._types import Ints
from nacp.guarantees import PAC
from nacp.noise import GroupNoise, Noise, UniformNoise
from nacp.paper import printed
from nacp.paper.methods import Method, aware, methods_under, our_methods
from nacp.paper.sources import Source, folder_sources, twin_sources

ALPHA = 0.1
RATE = 0.2
RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
CALIBRATION_SIZES = (500, 1000, 2500, 5000, 10_000, 25_000)
# Beyond the paper there are many settings: fewer splits of each, and the score with the smallest sets.
SWEEP_SPLITS = 100
SWEEP_SCORE = "hps"
# Tests of thresholds are run split by split.
DIRECT_SPLITS = 20

NoisePer: TypeAlias = Literal["split", "dataset"]


class NothingToRun(ValueError):
    """The folder holds nothing that an experiment is about."""


@dataclass(frozen=True)
class Run:
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
    human : str or None
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
    human: str | None = None
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


def _printed_settings(run: Run, sources: list[Source]) -> list[Setting]:
    noise = UniformNoise(RATE)
    return [
        Setting(source, score, noise, run.splits, methods_under(noise, source.priors))
        for source, score in product(sources, printed.SCORES)
    ]


def _swept_setting(run: Run, source: Source, noise: Noise, label: str, x: float = 0.0) -> Setting:
    splits = min(run.splits, SWEEP_SPLITS)
    return Setting(source, SWEEP_SCORE, noise, splits, methods_under(noise, source.priors), label, x)


def table1(run: Run) -> Experiment:
    """Return Table 1: data sets, scores and methods."""
    title = run.titled("Table 1: data sets, scores and methods")
    return Experiment("table1", title, _printed_settings(run, run.sources()), versus_paper=True)


def table3(run: Run) -> Experiment:
    """Return Table 3: networks on ImageNet; in a folder, the files whose names begin with "imagenet"."""
    sources = run.sources(printed.TABLE3, "imagenet")
    if not sources:
        raise NothingToRun("Table 3 is about ImageNet, and no file in the folder has a name that begins so")
    title = run.titled("Table 3: networks on ImageNet")
    return Experiment("table3", title, _printed_settings(run, sources), versus_paper=True)


def sweep_noise(run: Run) -> Experiment:
    """Return the noise rates from 0.05 to 0.6."""
    settings = [
        _swept_setting(run, source, UniformNoise(rate), f"ε = {rate:g}", rate)
        for source, rate in product(run.sources(), RATES)
    ]
    return Experiment("sweep-noise", run.titled("Beyond the paper: the noise rate, HPS"), settings)


def sweep_size(run: Run) -> Experiment:
    """Return the calibration sizes from 500 to half of the data; all other points are for testing."""
    settings = []
    for source in run.sources():
        half = source.shape[0] // 2
        for n in sorted({half, *(n for n in CALIBRATION_SIZES if n < half)}):
            setting = _swept_setting(run, source, UniformNoise(RATE), f"n = {n:,}", n)
            settings.append(replace(setting, calibration=n))
    title = run.titled("Beyond the paper: the number of calibration points, HPS")
    return Experiment("sweep-size", title, settings)


def sweep_matrix(run: Run) -> Experiment:
    """Return noise that is not uniform: pairs, groups, and what people did where the data hold it."""
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
    title = run.titled("Beyond the paper: noise that is not uniform, HPS")
    return Experiment("sweep-matrix", title, settings)


def guarantees(run: Run) -> Experiment:
    """Return what the guarantees past the paper make of the same data, beside NR-CP and NACP."""
    noise = UniformNoise(RATE)
    settings = []
    for source in run.sources():
        paper = [method for method in methods_under(noise, source.priors) if method.name in ("NR-CP", "NACP")]
        methods = [*paper, *our_methods(), aware(PAC(), "pac, δ = 0.05")]
        splits = min(run.splits, DIRECT_SPLITS)
        settings.append(Setting(source, SWEEP_SCORE, noise, splits, methods, f"ε = {RATE:g}"))
    title = run.titled("Beyond the paper: guarantees that cost less, HPS, δ = 0.001")
    return Experiment("guarantees", title, settings)


EXPERIMENTS: dict[str, Callable[[Run], Experiment]] = {
    "table1": table1,
    "table3": table3,
    "sweep-noise": sweep_noise,
    "sweep-size": sweep_size,
    "sweep-matrix": sweep_matrix,
    "guarantees": guarantees,
}
