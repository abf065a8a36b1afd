"""What could any test make of a plan's checked labels, on CIFAR-10H? Prints a table, and writes nothing.

Run ``python benchmarks/audit_limit.py --data FOLDER``, the folder being that of benchmarks/checked.py. The
bounds and their proof: docs/guarantees.md, A2. What our tests make of them: benchmarks/audit_worth.py.
"""

import argparse
import math
import os
from pathlib import Path

import numpy as np
from checked import ALPHA, DELTA, N, label_sets
from scipy.stats import beta, binom

import nacp
from nacp.audit.checked_sample import CHOSEN_CUT, Audit, CheckedSample, deal
from nacp.audit.plan import guessing_noise, planned
from nacp.coverage.tally import Sample
from nacp.noise import UNSAID
from nacp.points import open_points
from nacp.stats.counts import allowed_misses

CHECKED, DRAWS = (200, 300, 1000), 2
REACH, STEPS = 1.5, 64  # over excesses up to so many times that of the binomial test, in so many steps
RARE = 1e-8  # counts that are rarer under both hypotheses count as rejections
GROUPS = 300  # counts of strata with nearly the same likelihood ratio are taken together
SHARES = (0.2, 0.25, 0.3, 0.35)  # of the checks that are outside: the best of them is taken
LEVELS = (0.9, 0.92, 0.93)  # of coverage, at which empty sets are counted


def of_hits(size, null, truth):
    """Return the probabilities of each number of hits, under both hypotheses."""
    first, second = (binom.pmf(np.arange(size + 1), size, chance) for chance in (null, truth))
    some = np.maximum(first, second) > RARE
    return first[some], second[some], second[some].sum()


def of_strata(points, null, truth):
    """Return the same of how many points lie in each of three strata, grouped by likelihood ratio.

    Under the truth a group is as probable as if all of it had its largest ratio: no test loses by that.
    """
    # Seven standard deviations to both sides are nearly all that is possible under the truth.
    empty, outside = (
        np.arange(max(mean - 7 * math.sqrt(mean), 0), mean + 7 * math.sqrt(mean) + 1) // 1
        for mean in points * truth[:2]
    )
    first, second = (
        (binom.pmf(empty, points, w[0]), binom.pmf(outside, points - empty[:, None], w[1] / (1 - w[0])))
        for w in (null, truth)
    )
    under, power = ((each[0][:, None] * each[1]).ravel() for each in (first, second))
    some = (np.maximum(under, power) > RARE / 1e4) & (under > 0) & (power > 0)
    under, power, kept = under[some], power[some], power[some].sum()
    ratio = np.log(power) - np.log(under)
    step = max(np.ptp(ratio) / GROUPS, 1e-12)
    group = np.floor((ratio - ratio.min()) / step).astype(int)
    largest = np.full(group.max() + 1, -np.inf)
    np.maximum.at(largest, group, ratio)
    mass = np.bincount(group, under)
    return mass, mass * np.exp(largest), kept


def most_power(*counts):
    """Return the power of the most powerful test between two distributions of independent counts."""
    under, power = (
        np.einsum("i,j,k->ijk", *sides).ravel() for sides in zip(*(each[:2] for each in counts), strict=True)
    )
    some = np.maximum(under, power) > RARE / 100
    left_out = power[~some].sum() + 1 - math.prod(each[2] for each in counts)
    under, power = under[some], power[some]
    order = np.argsort(under / np.maximum(power, 1e-300), kind="stable")
    level, passed = np.cumsum(under[order]), np.cumsum(power[order])
    return float(np.interp(DELTA, level, passed)) + float(left_out)


def least_power(checks, points, w, p):
    """Return the least of these powers over some nulls: all at which coverage is 1 - alpha are allowed.

    The strata are: empty sets, outside, inside. Where there are no empty ones, their share is 0.
    """
    coverage = float(w @ p)
    over, parts = coverage - (1 - ALPHA), w**2 * p * (1 - p) / np.array([np.inf, *checks])
    moved = (w @ p**2 - coverage**2) / points
    found = 1.0
    for times in (0.5, 1, 1.5, 2, 3, 5):
        inside = min(times * parts[2] / (parts.sum() + moved), 1.0)
        # Of the rest, the shares of the strata take their part.
        weights = over * (1 - inside) * moved / (parts[1] + moved)
        v = w - weights * w * (p - coverage) / (w @ p**2 - coverage**2)
        p2 = p[2] - over * inside / w[2]
        p1 = (1 - ALPHA - v[2] * p2) / v[1]
        if 0 <= p1 <= 1 and 0 <= p2 <= 1:
            hits = (of_hits(*each) for each in zip(checks, (p1, p2), p[1:], strict=True))
            found = min(found, most_power(*hits, of_strata(points, v, w)))
    return found


def least_excess(scores, tops, outside, m, share, points, reach, lucky=False):
    """Return a lower bound of the mean of max(F - 0.9, 0) over all tests of counts in these strata.

    `tops` are the least scores of the rows: where they exceed the threshold, the sets are empty. Of m checks
    so large a share lies outside; if they are `lucky`, none is of a set that is empty at any threshold.
    """
    total = 0.0
    for step in range(1, STEPS + 1):
        threshold = np.quantile(scores, 1 - ALPHA + step * reach / STEPS)
        empty = tops > threshold
        strata = [empty, outside & ~empty, ~outside & ~empty]
        w = np.array([side.mean() for side in strata])
        p = np.array([0.0, *((scores[side] <= threshold).mean() for side in strata[1:])])
        sides = outside.mean(), 1 - outside.mean()
        kept = (1, 1) if lucky else (w[1] / sides[0], w[2] / sides[1])
        checks = round(share * m * kept[0]), round((1 - share) * m * kept[1])
        total += (1 - least_power(checks, points, w, p)) * reach / STEPS
    return total


def chosen_strata(sample, probs, noisy, m, draw):
    """Return which points of a file lie outside by a plan for some of them, and the plan."""
    points = np.random.default_rng([41, draw]).permutation(sample.n)[:N]
    plan = nacp.choose_audit(
        probs[points], noisy[points], budget=m, random_state=draw, score=sample.score, alpha=ALPHA
    )
    pilot = points[planned(N, plan.pilot, draw)[0]]
    coverage = _coverage(sample, Audit(pilot[:0], pilot[:0], pilot, pilot[:0]))
    (outside,) = coverage.outside([plan.native_threshold], CHOSEN_CUT)
    return outside, plan


def random_strata(sample, m, draw):
    """Return the same for a random audit, how many of the pilot lie outside, and how many points are counted.

    None if there are no strata.
    """
    points = np.random.default_rng([41, draw]).permutation(sample.n)[:N]
    dealt = deal(N, sample.k, np.arange(m), np.zeros(m, dtype=int), draw)
    parts = (points[some] for some in (dealt.rows, dealt.pilot, dealt.counted))
    rows, pilot, counted = parts
    coverage = _coverage(sample, Audit(rows, sample.labels[rows, 0], pilot, counted))
    if coverage.strata_of([ALPHA])[0] is None:
        return None
    found = coverage.pilot(ALPHA, m)
    return coverage.outside([found.threshold])[0], found.outside, len(counted)


def _coverage(sample, audit):
    return CheckedSample(sample, audit, guessing_noise(sample, UNSAID, audit.pilot).matrix(sample.k))


def open_sample(probs, noisy, score):
    """Return the points of a file as a sample."""
    rows, numbers, _ = open_points(probs, noisy, probabilities=True, normalize=False, classes=None)
    return Sample.of(rows, numbers, score)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("NACP_BENCHMARK_DATA"), help="the folder of files")
    folder = Path(parser.parse_args().data)
    name, probs, true, noisy = next(label_sets(folder))
    scores = 1 - probs[np.arange(len(true)), true].astype(np.float64)
    tops, sample = 1 - probs.max(axis=1).astype(np.float64), open_sample(probs, noisy, nacp.HPS())
    none = np.full_like(tops, -1)
    header = "labels, HPS", "checks", "m", "worth, at the most", "empty sets known", "and never checked"
    print(f"| {' | '.join(header)} |\n{'|---' * len(header)}|")
    for m in CHECKED:
        misses, some = allowed_misses(m, ALPHA, DELTA), np.linspace(1 - ALPHA, 1, 20_001)
        base = beta.sf(some, m - misses, misses + 1).mean() * ALPHA
        found = {"random": [], "chosen": []}
        for draw in range(DRAWS):
            outside, _, points = random_strata(sample, m, draw)
            rest = outside, m, outside.mean(), points, REACH * base
            found["random"].append([least_excess(scores, each, *rest) for each in (none, tops)])
            outside, plan = chosen_strata(sample, probs, noisy, m, draw)
            share, rest = plan.outside.mean(), (N - plan.pilot, REACH * base)
            known = [least_excess(scores, each, outside, m, share, *rest) for each in (none, tops)]
            best = min(least_excess(scores, tops, outside, m, share, *rest, lucky=True) for share in SHARES)
            found["chosen"].append([*known, best])
        for checks, excesses in found.items():
            worths = [f"{worth:.1f}" for worth in (np.mean(excesses, axis=0) / base) ** -2]
            print(f"| {name} | {checks} | {m:,} | {' | '.join([*worths, ''][:3])} |", flush=True)
    for name, probs, true, _ in label_sets(folder):
        every = 1 - probs.astype(np.float64)
        own, least = every[np.arange(len(true)), true], every.min(axis=1)
        shares = (f"{(least > np.quantile(own, level)).mean():.2%} at {level:.0%}" for level in LEVELS)
        print(f"{name}: empty sets, by coverage: {', '.join(shares)}")


if __name__ == "__main__":
    main()
