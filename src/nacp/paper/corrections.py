"""The corrections by themselves: Table 2 and Figure 1 of the paper."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nacp._types import Ints
from nacp.guarantees import Problem
from nacp.noise import UniformNoise
from nacp.paper import printed
from nacp.paper.experiments import ALPHA, RATE, Run
from nacp.paper.methods import Method, our_methods, six_methods
from nacp.paper.results import Moments
from nacp.paper.sources import Source
from nacp.paper.splits import draw_split

TABLE2_RATES = (0.1, 0.2)
FIGURE1_CLASSES = (10, 100, 1000)
FIGURE1_SIZES = (1000, 1500, 2000, 3000, 5000, 7500, 10_000, 15_000, 20_000, 30_000, 50_000, 75_000, 100_000)
FIGURE1_DRAWS = 50


@dataclass(frozen=True)
class Correction:
    """What a method adds to the target; over many draws of the labels, on which ACNL's depends.

    Attributes
    ----------
    title : str
        Whose labels: a data set, or a number of classes.
    n, k : int
        The numbers of calibration points and of classes.
    rate : float
        The rate of uniform noise.
    method : str
    value : Moments
        Infinite where some draw has a class without labels, and the method needs one.
    rarest : tuple of float
        How often the rarest noisy class occurs: mean, least and most. ACNL depends on it.
    printed : str or None
        What the paper prints for the same n, k and rate.
    doubt : str or None
        Why that is in doubt.
    source : Source or None
        The data set, if it is one.
    """

    title: str
    n: int
    k: int
    rate: float
    method: str
    value: Moments
    rarest: tuple[float, float, float]
    printed: str | None = None
    doubt: str | None = None
    source: Source | None = None


def table2(run: Run) -> list[Correction]:
    """Return Table 2: the corrections for the data sets of Table 1, over the labels of the splits.

    Parameters
    ----------
    run : Run
        Which data, how many splits, and their seed.

    Examples
    --------
    >>> from nacp.paper.corrections import table2
    >>> from nacp.paper.experiments import Run
    >>> [f"{row.method} {row.value.mean:.3f}" for row in table2(Run(splits=2))[:3]]
    ['NACP 0.035', 'ACNL 0.031', 'CRCP 0.016']
    """
    rows: list[Correction] = []
    for source in run.sources():
        labels = source.load().labels
        n, k = source.shape[0] // 2, source.shape[1]
        paper = printed.CORRECTIONS.get(source.printed_as)
        same = paper is not None and (paper.n, paper.k) == (n, k)
        for rate in TABLE2_RATES:
            noise = UniformNoise(rate)
            fixed = run.fixed_noise(labels, k, noise)
            drawn = (
                draw_split(labels, k, noise if fixed is None else None, n, run.seed, split)
                for split in range(run.splits)
            )
            counts = (
                np.bincount((noisy if fixed is None else fixed)[chosen], minlength=k)
                for chosen, noisy in drawn
            )
            for method, value, rarest in _corrections(n, k, rate, counts):
                cell = paper.corrections.get((method, rate)) if paper is not None and same else None
                doubt = printed.CORRECTION_DOUBTS.get((source.printed_as, method, rate)) if same else None
                rows.append(Correction(source.title, n, k, rate, method, value, rarest, cell, doubt, source))
    return rows


def figure1(run: Run) -> list[Correction]:
    """Return Figure 1: the corrections against n, for 10, 100 and 1000 equally frequent classes.

    And those of the guarantees past the paper: what their tests cost where sets are small.

    Parameters
    ----------
    run : Run
        Only its seed is used.

    Examples
    --------
    >>> from nacp.paper.corrections import figure1
    >>> from nacp.paper.experiments import Run
    >>> {round(row.value.mean, 3) for row in figure1(Run()) if row.method == "NACP" and row.n == 5000}
    {0.043}
    """
    rows: list[Correction] = []
    for k in FIGURE1_CLASSES:
        for n in FIGURE1_SIZES:
            rng = np.random.default_rng([run.seed, k, n])
            counts = rng.multinomial(n, np.full(k, 1 / k), size=FIGURE1_DRAWS)
            rows += [
                Correction(f"k = {k}", n, k, RATE, method, value, rarest)
                for method, value, rarest in _corrections(n, k, RATE, counts, our_methods())
            ]
    return rows


def _corrections(
    n: int, k: int, rate: float, counts: Iterable[Ints], more: Sequence[Method] = ()
) -> Iterator[tuple[str, Moments, tuple[float, float, float]]]:
    """Yield each method's correction over draws of how often each noisy class occurs."""
    noise = UniformNoise(rate)
    inverse = noise.inverse(k)
    problems = [Problem(ALPHA, n, noise, inverse, np.asarray(c, dtype=np.float64)) for c in counts]
    rarest = np.array([problem.counts.min() for problem in problems])
    methods = {m.name: m.guarantee for m in (*six_methods(k), *more) if m.corrected}
    first = ["NACP"]  # the paper's order
    for name in sorted(methods, key=lambda name: name not in first):
        values = np.array([methods[name].price(p, p.deviation) for p in problems])
        yield name, Moments.of(values), (float(rarest.mean()), float(rarest.min()), float(rarest.max()))
