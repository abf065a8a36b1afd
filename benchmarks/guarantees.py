"""``make guarantees``: are the promises true, and how near their limit are they? Writes
results/guarantees.md.

Everything is simulated with distributions of its own: the classifier, the true classes and the noise.
Held-out points give the verdict. CIFAR-10N's matrix is read from the folder named by NACP_BENCHMARK_DATA, and
its rows are left out where that is not set.
"""

import argparse
import math
import os
import re
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import nacp
from nacp import engine
from nacp.paper import twins
from nacp.stats import betting

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


def null_shares(noise, k, n, runs, rng):
    """Return (n, runs) shares g at a threshold whose sets hold the true class with probability exactly .9.

    A set holds the true class or not, and each other class with a small probability.
    """
    inverse = noise.inverse(k).dense()
    shares = np.empty((n, runs))
    for start in range(0, runs, max(1, 4_000_000 // (n * k))):
        some = slice(start, min(start + max(1, 4_000_000 // (n * k)), runs))
        shape = (n, some.stop - some.start)
        true = rng.integers(k, size=shape)
        noisy = noise.sample(true.ravel(), k, rng)
        held = rng.random((true.size, k)) < rng.exponential(1.5 / k, size=(true.size, 1))
        held[np.arange(true.size), true.ravel()] = rng.random(true.size) < 1 - ALPHA
        shares[:, some] = np.where(held, inverse[noisy], 0.0).sum(axis=1).reshape(shape)
    return shares


def false_passes(noise, k, n, runs, deltas, rng):
    """Return how often the betting test passes a threshold that covers exactly .9, for each delta."""
    low, high = noise.range(k)
    width, target = high - low, 1 - ALPHA
    passed = np.zeros(len(deltas))
    batch = max(1, 20_000_000 // n)
    for start in range(0, runs, batch):
        gains = (null_shares(noise, k, n, min(batch, runs - start), rng) - target) / width
        for i, delta in enumerate(deltas):
            passed[i] += bets_won(gains, delta, 0.99 * width / (target - low))
    return passed / runs


def bets_won(gains, delta, most):
    """Return how many of several independent bets are won; each column of `gains` is a sequence of points."""
    n, number = gains.shape
    state, outcome = np.zeros((8, number)), np.zeros(number, dtype=np.int64)
    state[0], state[2], state[4] = 1.0, 0.25, 1.0  # as in `nacp.stats.betting.Bets`
    engine.current().bet(
        state, np.full(number, most), outcome, gains, np.arange(number), 0.0, 1.0, 0,
        *betting._schedule(n), delta, betting.hedge_table(),
    )  # fmt: skip
    return np.count_nonzero(outcome == betting.WON)


def type_one(runs):
    """Return the table of type-I errors."""
    deltas = (0.1, 0.01, 0.001)
    cases = {
        "uniform .2, k = 10": (nacp.UniformNoise(0.2), 10),
        "uniform .4, k = 10": (nacp.UniformNoise(0.4), 10),
        "pair flips .2, k = 10": (pair_flips(10), 10),
        "random, k = 10": (random_noise(10), 10),
    }
    if human_noise() is not None:
        cases["CIFAR-10N worst, k = 10"] = (human_noise(), 10)
    lines = ["| noise | n | " + " | ".join(f"δ = {d:g}" for d in deltas) + " |", "|---|---|---|---|---|"]
    worst = 0.0
    for name, (noise, k) in cases.items():
        for n in (300, 1000):
            rates = false_passes(noise, k, n, runs, deltas, np.random.default_rng([n, len(lines)]))
            errors = [math.sqrt(d * (1 - d) / runs) for d in deltas]
            worst = max(worst, *((r - d) / e for r, d, e in zip(rates, deltas, errors, strict=True)))
            lines.append(f"| {name} | {n} | " + " | ".join(f"{rate:.4f}" for rate in rates) + " |")
            log(lines[-1])
    errors = ", ".join(f"{math.sqrt(d * (1 - d) / runs):.4f}" for d in deltas)
    return "\n".join(lines) + (
        f"\n\n{runs:,} runs each; standard errors at the three levels {errors}. "
        f"The largest excess over δ is {worst:.1f} standard errors."
    )


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


def expected_table(scale):
    """Return the table for "expected": mean excess over many calibration sets, and the estimated gap."""
    lines = ["| k, n, ε | runs | excess, × n | not adjusted, × n | mean gap, × n |", "|---|---|---|---|---|"]
    runs = max(4, int(2000 * scale))
    for twin in ("cifar10", "cifar100"):
        for n in (200, 1000):
            for rate in (0.1, 0.2, 0.4):
                (found,) = excesses(twin, n, nacp.UniformNoise(rate), [nacp.Expected()], runs)
                lines.append(
                    f"| {twins.TWINS[twin].k}, {n}, {rate:g} | {runs} "
                    f"| {n * found.mean:.2f} ± {n * found.error:.2f} "
                    f"| {n * found.plain:.2f} ± {n * found.plain_error:.2f} | {n * found.gap:.3f} |"
                )
                log(lines[-1])
    return "\n".join(lines)


def worst_within(noise, twin):
    """Return the matrix within the radius of a stated one that misleads most about the threshold which
    covers .9: each row's mass is moved from a label that lowers the shares to the one that raises them most.
    """
    probs, labels = twins.simulate(twin, n=BLOCK, random_state=0)
    k = probs.shape[1]
    inside = -probs <= true_scores(twin)[int((1 - ALPHA) * HELD_OUT)]
    matrix = noise.P.copy()
    for true, row in enumerate(matrix):
        sums = (inside[labels == true] @ noise.inverse(k).dense().T).mean(axis=0)
        row[np.where(row >= noise.radius, sums, np.inf).argmin()] -= noise.radius
        row[sums.argmax()] += noise.radius
    return nacp.MatrixNoise(matrix)


def doubt_table(scale):
    """Return the table for noise that is as far from what was stated as it may be."""
    lines = [
        "| stated | true | guarantee | short of .9 | excess | short, if taken as exact | excess |",
        "|---|---|---|---|---|---|---|",
    ]
    runs, radius = max(4, int(400 * scale)), 0.02
    flips, uniform = pair_flips(10), nacp.UniformNoise(0.2)
    around = nacp.MatrixNoise(flips.P, radius=radius)
    between = nacp.UniformNoise(0.2, interval=(0.15, 0.25))
    names = {
        "pac, δ = .1": nacp.PAC(0.1),
        "expected": nacp.Expected(),
        "expected, worst case": nacp.Expected("worst-case"),
    }
    for stated, true, noise, exact, truth in (
        (f"pair flips .2, radius {radius:g}", "worst", around, flips, worst_within(around, "cifar10")),
        ("uniform .15 to .25", ".15", between, uniform, nacp.UniformNoise(0.15)),
        ("uniform .15 to .25", ".25", between, uniform, nacp.UniformNoise(0.25)),
    ):
        careful, trusting = (
            excesses("cifar10", 1000, model, list(names.values()), runs, truth) for model in (noise, exact)
        )
        for name, with_doubt, without in zip(names, careful, trusting, strict=True):
            cells = [
                f"{found.short:.3f} | {found.plain:.4f} ± {found.plain_error:.4f}"
                for found in (with_doubt, without)
            ]
            lines.append(f"| {stated} | {true} | {name} | {cells[0]} | {cells[1]} |")
            log(lines[-1])
    return (
        "\n".join(lines)
        + f"\n\nk = 10, n = 1,000, {runs} runs, not adjusted. Taken as exact: pair flips .2, uniform .2."
    )


HEAD = f"""# What the guarantees cost, measured

Made by `make guarantees` (`benchmarks/guarantees.py`; `--only` makes one section anew); see
docs/guarantees.md. α = {ALPHA:g}, HPS. But for the first table, every calibration set is drawn
anew, points and noise, from the twin of a classifier of the paper, and coverage is that of {HELD_OUT:,} other
points.

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
    parser.add_argument("--runs", type=int, default=20_000, help="of the type-I table")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of runs elsewhere")
    parser.add_argument("--only", choices=("type-one", "uniform", "matrix", "expected", "doubt"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
    parts = {
        "type-one": ("Type-I error of \"pac\" where coverage is exactly .9", lambda: type_one(options.runs)),
        "uniform": ("Excess coverage, uniform noise .2", lambda: uniform_table(options.scale)),
        "matrix": ("Excess coverage, general noise", lambda: matrix_table(options.scale)),
        "expected": ("Mean coverage of \"expected\"", lambda: expected_table(options.scale)),
        "doubt": ("The worst noise that an interval or a radius allows", lambda: doubt_table(options.scale)),
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
