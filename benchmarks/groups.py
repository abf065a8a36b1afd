"""Coverage by group: how often a test passes at its null, and what thresholds by class cost.

    python benchmarks/groups.py type-i --runs 20000
    python benchmarks/groups.py speed

At the null each class is covered with probability 1 - alpha exactly, so that a bet on it may be won with
probability delta at the most. (A group of rows is calibrated as points without groups are: see
guarantees.py.) Speed is a ratio to one marginal calibration in the same process.
"""

import argparse
import time
import warnings

import numpy as np

import nacp
from nacp.coverage.grid import HALF
from nacp.coverage.tally import Sample, Weights
from nacp.groups.class_curve import class_curves
from nacp.guarantees.pointwise import Test
from nacp.points import open_rows

ALPHA = 0.1
MATRIX = np.array([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.1, 0.15, 0.75]])
NOISES = {
    "uniform .2": nacp.UniformNoise(0.2),
    "matrix": nacp.MatrixNoise(MATRIX),
}


def at_the_null(rng, n, k, noise, frequencies):
    """Draw points of which sets at the threshold 1/2 hold the true label with probability 1 - alpha."""
    truth = rng.choice(k, size=n, p=frequencies)
    scores = (rng.random((n, k)) >= 0.3).astype(np.float64)
    scores[np.arange(n), truth] = rng.random(n) >= 1 - ALPHA
    labels = truth if noise is None else noise.sample(truth, k, random_state=rng)
    return scores, labels


def passes(seed, n, noise, delta, places):
    """Return which groups of classes pass the test at the null."""
    rng = np.random.default_rng(seed)
    scores, labels = at_the_null(rng, n, 3, noise, np.array([0.5, 0.3, 0.2]))
    sample = Sample.of(open_rows(scores, probabilities=False), labels, nacp.Precomputed())
    weights = Weights((nacp.UniformNoise(0.0) if noise is None else noise).inverse(3))
    curves = class_curves(sample, weights, noise, places, int(places.max()) + 1, [ALPHA])
    tests = [Test(curve, ALPHA, 0, np.array([HALF])) for curve in curves]
    failed = nacp.PAC(delta).failures(tests, sample, int(rng.integers(1 << 30)))
    return [each < 0 for each in failed]


def type_one(runs, n=400):
    """Print how often tests pass at the null, for each group by itself."""
    kinds = {"each class": np.array([0, 1, 2]), "two of three": np.array([0, 0, 1])}
    print(f"| noise | groups | delta | passed, by group (n = {n}, {runs:,} runs) |")
    print("|---|---|---|---|")
    for delta in (0.1, 0.01):
        for name, noise in NOISES.items():
            for what, places in kinds.items():
                found = np.array([passes(seed, n, noise, delta, places) for seed in range(runs)])
                shown = ", ".join(f"{rate:.4f}" for rate in found.mean(axis=0))
                print(f"| {name} | {what} | {delta} | {shown} |", flush=True)


def seconds(function):
    """Return the processor time that a function takes; others may use the machine."""
    start = time.process_time()
    function()
    return time.process_time() - start


def speed(repeats):
    """Print what k thresholds by class cost, in marginal calibrations with the same guarantee.

    The points are those of `run.py`.
    """
    from run import NOISE, data, dense_noise  # beside this file

    probs, labels = data(25000, 1000)
    print("| noise | score | guarantee | marginal, s | 1,000 classes, s | ratio |")
    print("|---|---|---|---|---|---|")
    for name, noise in (("uniform", NOISE), ("dense matrix", dense_noise(1000))):
        for score in ("hps", "aps", "raps"):
            for guarantee in ("none", "expected", "pac"):
                known = {"noise": noise, "score": score, "guarantee": guarantee}
                by_class = known | {"by": "class", "small": "all"}
                times = [
                    [
                        seconds(lambda each=each: nacp.calibrate(probs, labels, **each))
                        for each in (known, by_class)
                    ]
                    for _ in range(repeats)
                ]
                one, many = np.min(times, axis=0)
                print(
                    f"| {name} | {score} | {guarantee} | {one:.3f} | {many:.3f} | {many / one:.2f} |",
                    flush=True,
                )


def main():
    """Run one part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("type-i", "speed"))
    parser.add_argument("--runs", type=int, default=20000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.part == "type-i":
        type_one(given.runs)
    else:
        speed(given.repeats)


if __name__ == "__main__":
    main()
