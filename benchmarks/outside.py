"""Compare with results of other people's code, kept as arrays.

    NACP_BENCHMARK_DATA=FOLDER python benchmarks/outside.py

The files are FOLDER/outside/crcp_*.npz: scores, given labels and test points of the experiment of Clarkson
and others (synthetic_by_model_table.ipynb of cp_under_data_contamination), with the thresholds that their
code found; and acnl_example1.npz, that of Sesia, Wang and Tong (example_1.ipynb of conformal-label-noise),
which has no test points: sizes are those of the calibration points. Prints the tables of docs/comparison.md.
"""

import os
from pathlib import Path

import numpy as np

import nacp

FOLDER = Path(os.environ.get("NACP_BENCHMARK_DATA", ".")) / "outside"
GUARANTEES = ("crcp", "expected", "pac")


def read(path):
    with np.load(path) as file:
        return {name: file[name] for name in file}


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    print("\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n")


def crcp(path):
    """Return coverage and mean set size on the test points, with their thresholds and with ours."""
    found = read(path)
    given = found["S"], found["labels"].astype(int)
    options = {"noise": float(found["eps"]), "score": "precomputed"}
    ours = [nacp.calibrate(*given, guarantee=name, **options).threshold for name in GUARANTEES]
    cells = []
    for threshold in (found["their_cp"], found["their_crcp"], *ours):
        sets = found["test"] <= threshold
        covered = sets[np.arange(len(sets)), found["truth"].astype(int)].mean()
        cells.append(f"{covered:.4f} / {sets.sum(axis=1).mean():.3f}")
    return [path.stem.removeprefix("crcp_"), *cells]


def acnl():
    """Return thresholds and mean set sizes by class and for all, theirs and ours."""
    found = read(FOLDER / "acnl_example1.npz")
    given = found["S"], found["Yc"].astype(int)
    options = {"noise": nacp.MatrixNoise(found["T"]), "score": "precomputed"}
    rows = {"their ACNL, by class": found["tau"], "their ACNL, one threshold": found["tau_marg"]}
    for name in ("acnl", "expected", "pac"):
        by_class = nacp.calibrate(*given, guarantee=name, by="class", small="all", **options)
        rows[f'`nacp`, "{name}", by class'] = np.array(list(by_class.thresholds.values()))
        rows[f'`nacp`, "{name}", one threshold'] = nacp.calibrate(*given, guarantee=name, **options).threshold
    for name, threshold in rows.items():
        shown = ", ".join(f"{each:.4f}" for each in np.atleast_1d(threshold))
        yield name, shown, f"{(found['S'] <= threshold).sum(axis=1).mean():.3f}"


if __name__ == "__main__":
    header = ["experiment", "their CP", "their CRCP", *(f'`nacp`, "{name}"' for name in GUARANTEES)]
    table(header, [crcp(path) for path in sorted(FOLDER.glob("crcp_*.npz"))])
    table(["method", "thresholds", "mean set size"], sorted(acnl(), key=lambda row: "one" in row[0]))
