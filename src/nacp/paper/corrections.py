"""The corrections by themselves: Table 2 and Figure 1 of the paper."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nacp._types import Ints
from nacp.guarantees import Problem
from nacp.noise import UniformNoise
from nacp.paper import printed
from nacp.paper.experiments import ALPHA, RATE, Cell, Run, moments_of
from nacp.paper.methods import Method, our_methods, six_methods
from nacp.paper.splits import draw_split

TABLE2_RATES = (0.1, 0.2)
FIGURE1_CLASSES = (10, 100, 1000)
FIGURE1_SIZES = (1000, 1500, 2000, 3000, 5000, 7500, 10_000, 15_000, 20_000, 30_000, 50_000, 75_000, 100_000)
FIGURE1_DRAWS = 50


@dataclass(frozen=True)
class CorrectionRow(Cell):
    """The correction of a method: mean and standard deviation over draws of the labels.

    It is infinite where the method needs every class and some draw lacks one. `rarest` is how often the
    rarest noisy class occurs, on which ACNL depends: mean, least and most.
    """

    correction: float
    correction_sd: float
    rarest: float
    rarest_least: float
    rarest_most: float
    paper_correction: str | None = None
    correction_diff_sd: float | None = None
    doubt: str | None = None

    @property
    def moments(self) -> printed.Moments:
        return printed.Moments(self.correction, self.correction_sd)


def table2(run: Run) -> list[CorrectionRow]:
    """Return Table 2: the corrections for the data sets of Table 1, over the labels of the splits."""
    rows: list[CorrectionRow] = []
    for source in run.sources():
        labels = source.load().labels
        n, k = source.shape[0] // 2, source.shape[1]
        for rate in TABLE2_RATES:
            noise = UniformNoise(rate)
            drawn = (draw_split(labels, k, noise, n, run.seed, split) for split in range(run.splits))
            counts = (np.bincount(noisy[chosen], minlength=k) for chosen, noisy in drawn)
            found = _corrections((source.name, source.path is None), n, k, rate, counts)
            rows += map(_beside_paper, found)
    return rows


def figure1(run: Run) -> list[CorrectionRow]:
    """Return Figure 1: the corrections against n, for 10, 100 and 1000 equally frequent classes.

    The figure also has the excess of the guarantees beyond the paper, where sets are small.
    """
    rows: list[CorrectionRow] = []
    for k in FIGURE1_CLASSES:
        for n in FIGURE1_SIZES:
            rng = np.random.default_rng([run.seed, k, n])
            counts = rng.multinomial(n, np.full(k, 1 / k), size=FIGURE1_DRAWS)
            rows += _corrections(("", None), n, k, RATE, counts, our_methods())
    return rows


def _corrections(
    data: tuple[str, bool | None],
    n: int,
    k: int,
    rate: float,
    counts: Iterable[Ints],
    more: Sequence[Method] = (),
) -> Iterator[CorrectionRow]:
    """Yield each method's correction over draws of how often each noisy class occurs."""
    noise = UniformNoise(rate)
    inverse = noise.inverse(k)
    problems = [Problem(ALPHA, n, noise, inverse, np.asarray(c, dtype=np.float64)) for c in counts]
    rarest = np.array([problem.counts.min() for problem in problems])
    of_rarest = float(rarest.mean()), float(rarest.min()), float(rarest.max())
    methods = {m.name: m.guarantee for m in (*six_methods(k), *more) if m.corrected}
    for name in sorted(methods, key=lambda name: name != "NACP"):  # the paper's order
        values = moments_of(np.array([methods[name].excess(p, p.deviation) for p in problems]))
        yield CorrectionRow(*data, n, k, rate, "", "", name, *values, *of_rarest)


def _beside_paper(row: CorrectionRow) -> CorrectionRow:
    """Add what the paper prints for the same n and k."""
    if not printed.same_shape(row.data, row.n, row.k):
        return row
    name, rate = printed.paper_name(row.data), row.rate or 0.0
    text = printed.CORRECTIONS[name].corrections[row.method, rate]
    return replace(
        row,
        paper_correction=text,
        correction_diff_sd=printed.read(text).deviation(row.moments),
        doubt=printed.CORRECTION_DOUBTS.get((name, row.method, rate)),
    )
