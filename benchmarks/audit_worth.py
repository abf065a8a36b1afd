"""What is a checked label worth, on average over what the checkers find? Prints a table, and writes nothing.

Run ``python benchmarks/audit_worth.py --data FOLDER``, the folder being that of benchmarks/checked.py. There
the labels are drawn, and the figures with them; here only the pilots are, from a file that stands for the
population. How many points lie outside is spread evenly over its distribution, and what is found in either
stratum is summed up exactly. So a few draws do.
"""

import argparse
import math
import os
from pathlib import Path

import numpy as np
from audit_limit import chosen_strata, open_sample, random_strata
from checked import ALPHA, DELTA, N, label_sets
from scipy.stats import binom

import nacp
from nacp.stats.counts import binomial_excess
from nacp.stats.strata import hits_needed_inside

CHECKED, LOWEST = (200, 300, 1000), 0.75  # no test passes where so few are covered


def mean_excess(scores, outside, checked, needed):
    """Return the mean of F - (1 - alpha) at the threshold found, of which both strata are random samples.

    The test passes at more and more thresholds as they rise; so where it passes for the first time is
    distributed as the probability that it passes.
    """
    levels = np.linspace(LOWEST, 1, 501)
    thresholds = np.quantile(scores, levels)
    p0, p1 = (
        np.searchsorted(np.sort(scores[side]), thresholds, side="right") / np.count_nonzero(side)
        for side in (outside, ~outside)
    )
    hits = np.arange(checked[0] + 1)[:, None]
    passed = (binom.pmf(hits, checked[0], p0) * binom.sf(needed[:, None] - 1, checked[1], p1)).sum(axis=0)
    return LOWEST - (1 - ALPHA) + np.trapezoid(1 - passed, levels)


def ratios(probs, true, noisy, score, m, draws):
    """Yield the mean excess over that of the binomial test: random audit, chosen one."""
    sample = open_sample(probs, noisy, score)
    scores, base = score.scores(probs)[np.arange(len(true)), true], binomial_excess(m, ALPHA, DELTA)
    evenly = (np.arange(draws) + 0.5) / draws
    ranks = [np.random.default_rng(seed).permutation(evenly) for seed in (1, 2)]
    for draw in range(draws):
        found = [1.0, 1.0]
        audit, (outside, plan) = random_strata(sample, m, draw), chosen_strata(sample, probs, noisy, m, draw)
        if audit is not None:
            sides, pilot, points = audit
            number = int(binom.ppf(ranks[1][draw], m, sides.mean()))
            found[0] = _ratio(scores, sides, (number, m - number), pilot, points, ranks[0][draw]) / base
        if plan.outside.any():
            number, pilot = int(plan.outside.sum()), (plan.counts[0], plan.pilot)
            checked, points = (number, m - number), N - plan.pilot
            found[1] = _ratio(scores, outside, checked, pilot, points, ranks[0][draw]) / base
        yield found


def _ratio(scores, outside, checked, pilot, points, rank):
    count = int(binom.ppf(rank, points, outside.mean()))
    needed = hits_needed_inside(checked, count, points, pilot, 1 - ALPHA, DELTA)
    return mean_excess(scores, outside, checked, needed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("NACP_BENCHMARK_DATA"), help="the folder of files")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--scores", default="hps,aps")
    options = parser.parse_args()
    print("| labels | m | random: excess / binomial | worth | chosen: excess / binomial | worth |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, probs, true, noisy in label_sets(Path(options.data)):
        for score in map(nacp.scores.as_score, options.scores.split(",")):
            for m in CHECKED:
                every = np.array(list(ratios(probs, true, noisy, score, m, options.draws)))
                means, errors = every.mean(axis=0), every.std(axis=0, ddof=1) / math.sqrt(options.draws)
                cells = (f"{a:.2f} ± {b:.2f} | {a**-2:.1f}" for a, b in zip(means, errors, strict=True))
                print(f"| {name}, {score.name.upper()} | {m:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
