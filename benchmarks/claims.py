"""What a noise model claims, and what checked labels say: on human labels, with the true rate stated.

Run ``python benchmarks/claims.py --data FOLDER``, or set NACP_BENCHMARK_DATA to that folder: that of
benchmarks/checked.py. It prints a table and writes nothing.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from checked import ALPHA, DELTA, N, label_sets

import nacp

RUNS = 15


def main():
    """Print in how many runs the model's claim is refuted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("NACP_BENCHMARK_DATA"))
    folder = parser.parse_args().data
    if folder is None:
        parser.error("name a folder: --data, or NACP_BENCHMARK_DATA")
    rng = np.random.default_rng(0)
    print("| labels | checked | claimed | by checked labels | refuted |\n|---|---|---|---|---|")
    for name, probs, truth, noisy in label_sets(Path(folder)):
        k = probs.shape[1]
        rate = float((noisy != truth).mean() * k / (k - 1))
        for m in (300, 1000):
            claims = []
            for _ in range(RUNS):
                some, rows = rng.choice(len(truth), N, replace=False), rng.choice(N, m, replace=False)
                points = probs[some], noisy[some]
                cal = nacp.calibrate(*points, noise=rate, alpha=ALPHA, delta=DELTA)
                claims.append(nacp.diagnose(cal, *points, clean=(rows, truth[some][rows])).claim)
            claimed, found = (np.mean([getattr(each, key) for each in claims]) for key in ("claim", "found"))
            refuted = sum(each.short or each.generous for each in claims)
            print(f"| {name} | {m:,} | {claimed:.3f} | {found:.3f} | {refuted} of {RUNS} |", flush=True)


if __name__ == "__main__":
    main()
