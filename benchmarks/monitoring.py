"""``python benchmarks/monitoring.py``: how often does a monitor raise a false alarm, and how soon a true one?

Points are simulated: a set holds the true class or not, and each other class with a small probability. Before
a drift, sets cover 90% exactly, which is where false alarms are most frequent. Prints the tables of
docs/tutorials/monitoring.md.
"""

import argparse
import math
import sys

import numpy as np
from guarantees import null_shares, pair_flips, random_noise

import nacp
from nacp.stats.alarm import Alarm

K, TARGET, LEVELS = 10, 0.9, (0.1, 0.01, 0.001)
POINTS, BATCH = 1_000, 500
CASES = {
    "checked labels": nacp.UniformNoise(0.0),
    "uniform .2": nacp.UniformNoise(0.2),
    "uniform .4": nacp.UniformNoise(0.4),
    "pair flips .2": pair_flips(K),
    "random": random_noise(K),
    "uniform .2, then pair flips .2": (nacp.UniformNoise(0.2), pair_flips(K)),
}


def shares(case, n, runs, rng):
    """Return (n, runs) shares of points whose sets cover 90%; where there are two models, half of each."""
    if isinstance(case, tuple):
        return np.concatenate([null_shares(noise, K, n // 2, runs, rng) for noise in case])
    return null_shares(case, K, n, runs, rng)


def high(case):
    """Return the greatest share."""
    return max(noise.range(K)[1] for noise in (case if isinstance(case, tuple) else (case,)))


def false_alarms(runs):
    """Print how often an alarm is raised within so many points, for each level."""
    print(f"| labels | {' | '.join(f'asked for: {level:g}' for level in LEVELS)} |")
    print("|---|" + "---|" * len(LEVELS))
    for seed, (name, case) in enumerate(CASES.items()):
        rng, raised = np.random.default_rng(seed), np.zeros(len(LEVELS))
        for start in range(0, runs, BATCH):
            for column in shares(case, POINTS, min(BATCH, runs - start), rng).T:
                alarm = Alarm(TARGET, high(case), min(LEVELS))
                alarm.play(column)
                raised += alarm.highest >= 1 / np.array(LEVELS)
        print(f"| {name} | {' | '.join(f'{share:.4f}' for share in raised / runs)} |", flush=True)
    errors = ", ".join(f"{math.sqrt(level * (1 - level) / runs):.4f}" for level in LEVELS)
    print(f"\n{runs:,} runs of {POINTS:,} points; standard errors at the levels {errors}\n")


def delays(runs):
    """Print after how many points an alarm is raised, and how well the start is told, after a drift."""
    print("| labels | drift after | coverage falls to | alarm after | since, off by |\n|---|---|---|---|---|")
    for name in ("checked labels", "uniform .2"):
        noise = CASES[name]
        for before in (0, 1_000, 10_000):
            for coverage in (0.8, 0.85):
                rng, found = np.random.default_rng(before), []
                while len(found) < runs:
                    alarm = Alarm(TARGET, high(noise), 0.01)
                    if before:
                        alarm.play(shares(noise, before, 1, rng)[:, 0])
                    while alarm.at is None:
                        # Sets hold the true class less often: of those that cover, some are emptied.
                        kept = rng.random(POINTS) < coverage / TARGET
                        alarm.play(np.where(kept, shares(noise, POINTS, 1, rng)[:, 0], 0.0))
                    if alarm.at > before:
                        found.append((alarm.at - before, abs(alarm.since - before)))
                delay, error = np.median(found, axis=0)
                print(f"| {name} | {before:,} | {coverage:g} | {delay:,.0f} | {error:,.0f} |", flush=True)
    print(f"\nmedians of {runs:,} runs, at the level 0.01")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000, help="of each kind of noise")
    parser.add_argument("--drifts", type=int, default=200, help="runs for each drift")
    asked = parser.parse_args(sys.argv[1:])
    false_alarms(asked.runs)
    delays(asked.drifts)
