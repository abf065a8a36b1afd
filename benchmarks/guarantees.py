"""``make guarantees``: are the promises true, and how near their limit are they? Writes
docs/guarantees-results.md.

Everything is simulated with distributions of its own: the classifier, the true classes and the noise.
Held-out points give the verdict. CIFAR-10N's matrix is read from the folder named by NACP_BENCHMARK_DATA, and
its rows are left out where that is not set.
"""

import argparse
import math
import os
import sys
import warnings
from pathlib import Path

import numpy as np

import nacp
from nacp.guarantees.betting import Bets
from nacp.guarantees.binomial import Binomial
from nacp.paper import twins

OUT = Path(__file__).parent.parent / "docs" / "guarantees-results.md"
ALPHA = 0.1


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
            bets = Bets(gains.shape[1], n, delta, 0.99 * width / (target - low))
            bets.play(gains, 0)
            passed[i] += np.count_nonzero(bets.won)
    return passed / runs


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


def excesses(twin, n, noise, guarantee, runs, seed, score="hps"):
    """Return the mean excess coverage on held-out points, its error, and the mean floor or correction."""
    k = twins.TWINS[twin].k
    probs, labels = twins.simulate(twin, n=2 * n if k == 1000 else 12 * n, random_state=seed)
    found, limits = [], []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        order = rng.permutation(len(labels))
        first, second = np.sort(order[:n]), np.sort(order[n:])
        noisy = noise.sample(labels[first], k, rng)
        cal = nacp.calibrate(
            probs[first], noisy, noise=noise, alpha=ALPHA, score=score, guarantee=guarantee, random_state=run
        )
        held_out = nacp.evaluate(cal.predict_set(probs[second]), labels[second]).coverage
        found.append(held_out - (1 - ALPHA))
        if run < 5 and cal.guarantee.delta is not None:
            limits.append(cal.floor)
    error = np.std(found) / math.sqrt(runs)
    return float(np.mean(found)), float(error), float(np.mean(limits)) if limits else math.nan


def uniform_table(scale):
    """Return the table of excess coverage under uniform noise .2."""
    noise = nacp.UniformNoise(0.2)
    lines = [
        "| k, n, δ | paper's Δ | pac | binomial | floor | pac / Δ | pac / floor |",
        "|---|---|---|---|---|---|---|",
    ]
    for twin, k, n, delta, runs in (
        ("cifar10", 10, 5000, 0.001, 400), ("imagenet-resnet18", 1000, 5000, 0.001, 200),
        ("imagenet-resnet18", 1000, 25000, 0.001, 60), ("imagenet-resnet18", 1000, 25000, 0.1, 60),
    ):  # fmt: skip
        runs = max(4, int(runs * scale))
        paper = nacp.plan(k=k, noise=noise, n=n, delta=delta)
        paper = next(row.correction for row in paper.rows if row.guarantee.name == "nacp")
        mean, error, limit = excesses(twin, n, noise, nacp.PAC(delta), runs, k + n)
        other, other_error, _ = excesses(twin, n, noise, Binomial(delta), max(4, runs // 4), k + n)
        lines.append(
            f"| {k}, {n}, {delta:g} | {paper:.4f} | {mean:.4f} ± {error:.4f} "
            f"| {other:.4f} ± {other_error:.4f} | {limit:.4f} | {mean / paper:.2f} | {mean / limit:.2f} |"
        )
        log(lines[-1])
    return "\n".join(lines)


def matrix_table(scale):
    """Return the table of excess coverage under general noise matrices."""
    lines = [
        "| noise, k, n | δ | pac | floor | pac / floor | CRCP | ACNL | expected (mean excess × n) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups = nacp.GroupNoise(np.arange(1000) // 20, rate=0.2)
    cases = [
        ("pair flips .2, 10, 5000", "cifar10", 5000, pair_flips(10), 200),
        ("pair flips .2, 100, 5000", "cifar100", 5000, pair_flips(100), 200),
        ("random, 10, 5000", "cifar10", 5000, random_noise(10), 200),
        ("random, 100, 5000", "cifar100", 5000, random_noise(100), 200),
        ("random, 1000, 25000", "imagenet-resnet18", 25000, random_noise(1000), 16),
        ("groups of 20, 1000, 25000", "imagenet-resnet18", 25000, groups, 30),
    ]
    if human_noise() is not None:
        cases.insert(0, ("CIFAR-10N worst, 10, 5000", "cifar10", 5000, human_noise(), 200))
    for name, twin, n, noise, runs in cases:
        runs = max(4, int(runs * scale))
        k = twins.TWINS[twin].k
        others = {row.guarantee.name: row.correction for row in nacp.plan(k=k, noise=noise, n=n).rows}
        plain, _, _ = excesses(twin, n, noise, "expected", max(4, runs // 2), k + n)
        for delta in (0.1, 0.001):
            mean, error, limit = excesses(twin, n, noise, nacp.PAC(delta), runs, k + n)
            lines.append(
                f"| {name} | {delta:g} | {mean:.4f} ± {error:.4f} | {limit:.4f} | {mean / limit:.2f} "
                f"| {others['crcp']:.3f} | {others['acnl']:.3f} | {plain * n:.1f} |"
            )
            log(lines[-1])
    return "\n".join(lines)


def expected_table(runs):
    """Return the table for "expected": mean coverage over many calibration sets, and the estimated gap."""
    lines = ["| k, n, ε | mean coverage - .9, × n | its error, × n | mean gap, × n |", "|---|---|---|---|"]
    for twin in ("cifar10", "cifar100"):
        probs, labels = twins.simulate(twin, n=60_000, random_state=9)
        k = probs.shape[1]
        for n in (200, 1000):
            for rate in (0.1, 0.2, 0.4):
                noise = nacp.UniformNoise(rate)
                rng = np.random.default_rng([k, n, int(100 * rate)])
                covered, gaps = [], []
                scores = np.sort(1 - probs[np.arange(len(labels)), labels].astype(np.float64))
                for _ in range(runs):
                    chosen = rng.integers(len(labels), size=n)  # the 60,000 points are the population
                    noisy = noise.sample(labels[chosen], k, rng)
                    cal = nacp.calibrate(probs[chosen], noisy, noise=noise, alpha=ALPHA, guarantee="expected")
                    covered.append(np.searchsorted(scores, cal.threshold, side="right") / len(scores))
                    gaps.append(cal.gap)
                error = np.std(covered) / math.sqrt(runs)
                lines.append(
                    f"| {k}, {n}, {rate:g} | {n * (np.mean(covered) - 0.9):.2f} | {n * error:.2f} "
                    f"| {n * np.mean(gaps):.3f} |"
                )
                log(lines[-1])
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000, help="of the type-I table")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of runs elsewhere")
    parser.add_argument("--only", choices=("type-one", "uniform", "matrix", "expected"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
    parts = {
        "type-one": ("Type-I error of \"pac\" where coverage is exactly .9", lambda: type_one(options.runs)),
        "uniform": ("Excess coverage, uniform noise .2, HPS", lambda: uniform_table(options.scale)),
        "matrix": ("Excess coverage, general noise, HPS", lambda: matrix_table(options.scale)),
        "expected": ("Mean coverage of \"expected\", HPS", lambda: expected_table(int(2000 * options.scale))),
    }  # fmt: skip
    chosen = parts if options.only is None else {options.only: parts[options.only]}
    text = "# What the guarantees cost, measured\n\nMade by `make guarantees`; see docs/guarantees.md.\n"
    for title, table in chosen.values():
        text += f"\n## {title}\n\n{table()}\n"
        if options.only is None:
            OUT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
