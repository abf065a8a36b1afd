"""Compare with results of other people's code, kept as arrays: sizes and coverage on their own test points.

    NACP_BENCHMARK_DATA=FOLDER python benchmarks/outside.py

The files are FOLDER/outside/crcp_*.npz: scores, given labels and test points of the experiment of Clarkson
and others (synthetic_by_model_table.ipynb of cp_under_data_contamination), with the thresholds that their
code found. Prints a table of docs/comparison.md.
"""

import os
from pathlib import Path

import numpy as np

import nacp

GUARANTEES = ("crcp", "expected", "pac")


def main():
    print(
        "| experiment | their CP | their CRCP | "
        + " | ".join(f'`nacp`, "{name}"' for name in GUARANTEES)
        + " |"
    )
    print("| --- " * (3 + len(GUARANTEES)) + "|")
    for path in sorted((Path(os.environ["NACP_BENCHMARK_DATA"]) / "outside").glob("crcp_*.npz")):
        with np.load(path) as file:
            found = {name: file[name] for name in file}
        labels = found["labels"].astype(int)
        ours = [
            nacp.calibrate(
                found["S"], labels, noise=float(found["eps"]), score="precomputed", guarantee=name
            ).threshold
            for name in GUARANTEES
        ]
        cells = []
        for threshold in (found["their_cp"], found["their_crcp"], *ours):
            sets = found["test"] <= threshold
            covered = sets[np.arange(len(sets)), found["truth"].astype(int)].mean()
            cells.append(f"{covered:.4f} / {sets.sum(axis=1).mean():.3f}")
        print(f"| {path.stem.removeprefix('crcp_')} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
