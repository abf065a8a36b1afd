"""``make guarantees``: how much more than the target do the guarantees cover? Writes results/guarantees.md.

Whether the promises are kept is the subject of ``make audit``.

Everything is simulated with distributions of its own: the classifier, the true classes and the noise.
Held-out points give the verdict. CIFAR-10N's matrix is read from the folder named by NACP_BENCHMARK_DATA, and
its rows are left out where that is not set.
"""

import argparse
import os
import re
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import nacp
from nacp.paper import twins

OUT = Path(__file__).parent.parent / "results" / "guarantees.md"
ALPHA = 0.1
HELD_OUT, BLOCK = 1_000_000, 25_000
FLOORS = 5  # how many runs tell the floor, which hardly differs among them


def pair_flips(k, rate=0.2):
    """Swap classes 2i and 2i + 1."""
    swap = np.arange(k) ^ 1
    matrix = (1 - rate) * np.eye(k)
    matrix[np.arange(k), swap] += rate
    return nacp.MatrixNoise(matrix)


def random_noise(k, seed=0):
    """Row error rates from U(.05, .35), spread by Dirichlet(.3)."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.05, 0.35, k)[:, None]
    spread = rng.dirichlet(np.full(k, 0.3), k)
    return nacp.MatrixNoise((1 - rates) * np.eye(k) + rates * spread)


def human_noise():
    """Return the matrix of CIFAR-10N's worst labels, if it is there."""
    folder = os.environ.get("NACP_BENCHMARK_DATA")
    if folder is None:
        return None
    with np.load(Path(folder) / "cifar10n.npz") as data:
        return nacp.MatrixNoise(data["noise_matrix_worse"])


def log(line):
    print("  " + line, file=sys.stderr, flush=True)


@cache
def true_scores(twin):
    """Return the sorted HPS scores of the true labels of many points, which no calibration sees.

    They tell the coverage of every threshold.
    """

    def block(seed):
        probs, labels = twins.simulate(twin, n=BLOCK, random_state=seed)
        return -probs[np.arange(BLOCK), labels].astype(np.float64)

    return np.sort(np.concatenate([block(1_000_000 + i) for i in range(HELD_OUT // BLOCK)]))


def coverage(twin, native_threshold):
    scores = true_scores(twin)
    return np.searchsorted(scores, native_threshold, side="right") / len(scores)


class Excess(NamedTuple):
    """Mean excess coverage and its error, adjusted and as it came, the floor, the mean gap, and the share of
    calibration sets that cover less than they should.
    """

    mean: float
    error: float
    plain: float
    plain_error: float
    floor: float
    gap: float
    short: float

    @property
    def ratio(self):
        return f"{self.mean / self.floor:.2f} ± {self.error / self.floor:.2f}"


def excesses(twin, n, noise, guarantees, runs, truth=None):
    """Return the excess coverage of each guarantee, all on the same fresh calibration sets.

    The noise is as stated, if `truth` is not some other one.

    Most of what the coverages differ by is a calibration set's luck, F^c-hat - F^c at a threshold that was
    fixed beforehand. Its mean is 0, so it may be added: the mean stays what it is, with a smaller error.
    """
    k, target = twins.TWINS[twin].k, 1 - ALPHA
    fixed = true_scores(twin)[int(target * HELD_OUT)]
    found, floors, gaps = np.full((3, runs, len(guarantees)), np.nan)
    luck = np.empty((runs, 1))
    for run in range(runs):
        probs, labels = twins.simulate(twin, n=n, random_state=1 + run)
        noisy = (truth or noise).sample(labels, k, np.random.default_rng([run, 1]))
        estimate = nacp.coverage_curve(probs, noisy, noise=noise, thresholds=[1 + fixed]).clean[0]
        luck[run] = estimate - coverage(twin, fixed)
        for i, guarantee in enumerate(guarantees):
            cal = nacp.calibrate(probs, noisy, noise=noise, alpha=ALPHA, guarantee=guarantee)
            found[run, i] = coverage(twin, cal.native_threshold) - target
            gaps[run, i] = cal.gap
            if run < FLOORS and cal.guarantee.delta is not None:
                floors[run, i] = cal.floor
    adjusted = found + luck
    # The held-out points' own error is in the coverage between the two thresholds.
    between = np.abs(found + target - coverage(twin, fixed)).mean(axis=0)
    errors = np.sqrt(adjusted.var(axis=0, ddof=1) / runs + between / HELD_OUT)
    plain_errors = np.sqrt(found.var(axis=0, ddof=1) / runs + ALPHA * target / HELD_OUT)
    columns = (
        adjusted.mean(axis=0), errors, found.mean(axis=0), plain_errors,
        floors[:FLOORS].mean(axis=0), gaps.mean(axis=0), (found < 0).mean(axis=0),
    )  # fmt: skip
    return [Excess(*map(float, row)) for row in zip(*columns, strict=True)]


def uniform_table(scale):
    """Return the table of excess coverage under uniform noise .2."""
    noise = nacp.UniformNoise(0.2)
    lines = [
        "| k, n, δ | runs | paper's Δ | pac | not adjusted | binomial | floor | pac / Δ | pac / floor |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for twin, n, deltas, runs in (
        ("cifar10", 5000, [0.001], 100),
        ("imagenet-resnet18", 5000, [0.001], 50),
        ("imagenet-resnet18", 25000, [0.001, 0.1], 16),
    ):
        runs, k = max(4, int(runs * scale)), twins.TWINS[twin].k
        kinds = [kind for delta in deltas for kind in (nacp.PAC(delta), nacp.Binomial(delta))]
        found = excesses(twin, n, noise, kinds, runs)
        for delta, pac, other in zip(deltas, found[::2], found[1::2], strict=True):
            planned = nacp.plan(k=k, noise=noise, n=n, delta=delta)
            paper = next(row.excess for row in planned.rows if row.guarantee.name == "nacp")
            lines.append(
                f"| {k}, {n}, {delta:g} | {runs} | {paper:.4f} | {pac.mean:.4f} ± {pac.error:.4f} "
                f"| {pac.plain:.4f} ± {pac.plain_error:.4f} | {other.mean:.4f} ± {other.error:.4f} "
                f"| {pac.floor:.4f} | {pac.mean / paper:.2f} | {pac.ratio} |"
            )
            log(lines[-1])
    return "\n".join(lines)


def matrix_table(scale):
    """Return the table of excess coverage under general noise matrices."""
    lines = [
        "| noise, k, n | δ | runs | pac | not adjusted | floor | pac / floor | CRCP | ACNL | expected, × n |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    deltas = (0.1, 0.001)
    for twin, n, size, runs in (
        ("cifar10", 5000, 5, 100), ("cifar100", 5000, 20, 100), ("imagenet-resnet18", 25000, 20, 24),
    ):  # fmt: skip
        runs, k = max(4, int(runs * scale)), twins.TWINS[twin].k
        cases = {
            "pair flips .2": pair_flips(k),
            f"groups of {size}, .2": nacp.GroupNoise(np.arange(k) // size, rate=0.2),
            "random": random_noise(k),
        }
        if k == 10 and human_noise() is not None:
            cases["CIFAR-10N worst"] = human_noise()
        for name, noise in cases.items():
            others = {
                row.guarantee.name: row.excess
                for row in nacp.plan(k=k, noise=noise, n=n).rows
                if row.reason is None
            }
            *found, plain = excesses(twin, n, noise, [*map(nacp.PAC, deltas), nacp.Expected()], runs)
            for delta, pac in zip(deltas, found, strict=True):
                lines.append(
                    f"| {name}, {k}, {n} | {delta:g} | {runs} | {pac.mean:.4f} ± {pac.error:.4f} "
                    f"| {pac.plain:.4f} ± {pac.plain_error:.4f} | {pac.floor:.4f} | {pac.ratio} "
                    f"| {others['crcp']:.3f} | {others['acnl']:.3f} "
                    f"| {plain.mean * n:.1f} ± {plain.error * n:.1f} |"
                )
                log(lines[-1])
    return "\n".join(lines)


HEAD = f"""# What the guarantees cost, measured

Made by `make guarantees` (`benchmarks/guarantees.py`; `--only` makes one section anew); see
docs/guarantees.md. α = {ALPHA:g}, HPS. Every calibration set is drawn anew, points and noise, from the twin
of a classifier of the paper, and coverage is that of {HELD_OUT:,} other points.

Floor: z₁₋δ sd(g)/√n. ±: one standard error. A calibration set's luck, F^c-hat − F^c at a threshold fixed
beforehand, has mean 0 and explains most of what the coverages of different sets differ by. It is added to
each excess, which leaves the mean as it is and makes its error several times smaller; "not adjusted" is the
mean without that. A share of .1 of 400 calibration sets has a standard error of 0.015.
"""


def stored_sections():
    """Return the sections of the page as it is, by title."""
    if not OUT.exists():
        return {}
    _, *parts = re.split(r"^## (.*)$", OUT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of runs elsewhere")
    parser.add_argument("--only", choices=("uniform", "matrix"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
    parts = {
        "uniform": ("Excess coverage, uniform noise .2", lambda: uniform_table(options.scale)),
        "matrix": ("Excess coverage, general noise", lambda: matrix_table(options.scale)),
    }  # fmt: skip
    sections = stored_sections()
    for name, (title, make) in parts.items():
        if options.only in (None, name):
            sections[title] = make()
            known = {title: sections[title] for title, _ in parts.values() if title in sections}
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_text(HEAD + "".join(f"\n## {title}\n\n{body}\n" for title, body in known.items()))


if __name__ == "__main__":
    main()
