"""What could any test make of a plan's checked labels, on CIFAR-10H? Prints a table, and writes nothing.

Run ``python benchmarks/audit_limit.py --data FOLDER``, the folder being that of benchmarks/checked.py. The
bound and its proof: docs/guarantees.md, A2.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from checked import ALPHA, DELTA, N, label_sets
from scipy.stats import beta, binom

import nacp
from nacp.checked import guessing_noise
from nacp.coverage import Sample
from nacp.coverage.audit import Audit, planned
from nacp.coverage.audited import CHOSEN_CUT, AuditedCoverage
from nacp.noise import UNSAID
from nacp.points import open_points
from nacp.stats.counts import allowed_misses
from nacp.stats.strata import strata_variance

CHECKED, DRAWS, REACH, STEPS = (200, 300, 1000), 2, 0.04, 64
RARE = 1e-8  # counts that are rarer under both hypotheses count as rejections


def most_power(sizes, null, truth):
    """Return the power of the most powerful test between two distributions of three binomial counts."""
    both = []
    for size, *chances in zip(sizes, null, truth, strict=True):
        first, second = (binom.pmf(np.arange(size + 1), size, chance) for chance in chances)
        some = np.maximum(first, second) > RARE
        both.append((first[some], second[some]))
    under, power = (np.einsum("i,j,k->ijk", *sides).ravel() for sides in zip(*both, strict=True))
    order = np.argsort(under / np.maximum(power, 1e-300), kind="stable")
    level, passed = np.cumsum(under[order]), np.cumsum(power[order])
    return float(np.interp(DELTA, level, passed)) + 1 - float(passed[-1])


def least_power(sizes, w, p0, p1):
    """Return the least of these powers over some nulls: all at which coverage is 1 - alpha are allowed."""
    over = w * p0 + (1 - w) * p1 - (1 - ALPHA)
    variance = strata_variance(w, p0, p1, *sizes, unseen=0.0)
    inside = (1 - w) ** 2 * p1 * (1 - p1) / sizes[1] / variance
    moved = w * (1 - w) * (p1 - p0) ** 2 / sizes[2] / variance
    found = 1.0
    for times in (0.5, 1, 1.5, 2, 3, 5):
        part = min(times * inside, 1.0)
        v = w + over * (1 - part) * moved / (1 - inside) / (p1 - p0)
        p1_null = p1 - over * part / (1 - w)
        p0_null = (1 - ALPHA - (1 - v) * p1_null) / v
        if 0 <= p0_null <= 1 and 0 <= p1_null <= 1:
            found = min(found, most_power(sizes, (p0_null, p1_null, v), (p0, p1, w)))
    return found


def least_excess(scores, outside, sizes):
    """Return a lower bound of the mean of max(F - 0.9, 0) over all tests of counts in these strata."""
    total = 0.0
    for step in range(1, STEPS + 1):
        hits = scores <= np.quantile(scores, 1 - ALPHA + step * REACH / STEPS)
        p0, p1 = hits[outside].mean(), hits[~outside].mean()
        total += (1 - least_power(sizes, outside.mean(), p0, p1)) * REACH / STEPS
    return total


def strata_of(probs, noisy, m, draw):
    """Return which points of a file lie outside by a plan for some of them, and how many it checks."""
    points = np.random.default_rng([41, draw]).permutation(len(noisy))[:N]
    plan = nacp.choose_audit(probs[points], noisy[points], budget=m, random_state=draw)
    rows, numbers, _ = open_points(probs, noisy, probabilities=True, normalize=False, classes=None)
    sample, pilot = Sample(rows, numbers, nacp.HPS()), points[planned(N, plan.pilot, draw)[0]]
    matrix = guessing_noise(sample, UNSAID, pilot).matrix(rows.k)
    coverage = AuditedCoverage(sample, Audit(pilot[:0], pilot[:0], pilot, pilot[:0]), matrix)
    (outside,) = coverage.outside([plan.native_threshold], CHOSEN_CUT)
    number = int(plan.outside.sum())
    return outside, (number, m - number, N - plan.pilot)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("NACP_BENCHMARK_DATA"), help="the folder of files")
    print("| labels, HPS | m | excess / binomial, at the least | worth, at the most |\n|---|---|---|---|")
    name, probs, true, noisy = next(label_sets(Path(parser.parse_args().data)))
    scores = 1 - probs[np.arange(len(true)), true].astype(np.float64)
    for m in CHECKED:
        misses, some = allowed_misses(m, ALPHA, DELTA), np.linspace(1 - ALPHA, 1, 20_001)
        base = beta.sf(some, m - misses, misses + 1).mean() * ALPHA
        found = [least_excess(scores, *strata_of(probs, noisy, m, draw)) for draw in range(DRAWS)]
        ratio = np.mean(found) / base
        print(f"| {name} | {m:,} | {ratio:.3f} | {ratio**-2:.1f} |", flush=True)


if __name__ == "__main__":
    main()
