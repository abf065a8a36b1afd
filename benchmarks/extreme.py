"""Extreme numbers of classes: time in reads of the matrix, and memory beyond it.

Run: python benchmarks/extreme.py. Each case runs in a process of its own, in which the matrix is filled block
by block. A read is ``probs.max()``, the least of several, in the same process. Memory is what the process
grew by at its peak, and what NumPy and Python allocated (tracemalloc), in MB.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import diags_array, eye_array, kron

import nacp

BLOCK = 50


def simulated(n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of a classifier that is mostly right, and true labels; made block by block."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    probs = np.empty((n, k), dtype=np.float32)
    for start in range(0, n, BLOCK):
        true, block = labels[start : start + BLOCK], probs[start : start + BLOCK]
        rng.standard_normal(dtype=np.float32, out=block)
        block[np.arange(len(true)), true] += rng.normal(np.sqrt(2 * np.log(k)) + 2.2, 1.5, len(true))
        block *= 2.2
        np.exp(block, out=block)
        block /= block.sum(axis=1, keepdims=True)
    return probs, labels


def noise_of(name: str, k: int) -> nacp.Noise:
    """Return a noise model by its name."""
    ring, cycle = np.full(k - 1, 0.2), np.roll(np.eye(20), 1, axis=1)
    frequencies = np.random.default_rng(1).dirichlet(np.ones(k))
    return {
        "uniform": lambda: nacp.UniformNoise(0.2),
        "groups": lambda: nacp.GroupNoise(np.arange(k) // 20, 0.2),
        "sparse": lambda: nacp.MatrixNoise(0.8 * eye_array(k) + 0.2 * kron(eye_array(k // 20), cycle, "csr")),
        "band": lambda: nacp.MatrixNoise(
            diags_array([np.full(k, 0.8), ring, ring[:1]], offsets=[0, 1, 1 - k])
        ),
        "low-rank": lambda: nacp.LowRankNoise(0.8, np.full(k, 0.2), frequencies),
    }[name]()


def least_time(work: Callable[[], Any], times: int) -> float:
    """Return the least of several times, in seconds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def one(n: int, k: int, score: str, noise: str, guarantee: str) -> dict[str, float]:
    """Calibrate and predict; return times in reads, and memory in MB."""
    probs, labels = simulated(n, k)
    model = noise_of(noise, k)
    noisy = model.sample(labels, k, random_state=0)

    def calibrate() -> nacp.Calibration:
        return nacp.calibrate(probs, noisy, noise=model, score=score, guarantee=guarantee)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cal = calibrate()
    sets = cal.predict_set(probs)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    read = least_time(probs.max, 5)
    found = {
        "calibrate": least_time(calibrate, 2) / read,
        "predict": least_time(lambda: cal.predict_set(probs), 2) / read,
    }
    tracemalloc.start()
    calibrate().predict_set(probs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    coverage = float(sets.contains(labels).mean())
    return found | {
        "grown": grown / 1e3, "allocated": peak / 1e6, "coverage": coverage, "size": float(sets.sizes.mean()),
    }  # fmt: skip


def top(n: int, k: int, score: str, kept: int = 20) -> dict[str, float]:
    """Calibrate from the top entries of rows, and predict; return seconds and MB."""
    rng = np.random.default_rng(0)
    values = np.sort(rng.dirichlet(np.full(kept, 0.2), size=n), axis=1) * 0.99 + 1e-6
    indices = rng.integers(k // kept, size=(n, kept)) + np.arange(kept) * (k // kept)
    drawn = np.argmax(values.cumsum(axis=1) > 0.99 * rng.random((n, 1)), axis=1)
    noisy = nacp.UniformNoise(0.2).sample(indices[np.arange(n), drawn], k, random_state=0)
    rows = nacp.TopRows(indices, values.astype(np.float32), k)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    cal = nacp.calibrate(rows, noisy, noise=0.2, score=score, alpha=0.2)
    calibrated = time.perf_counter()
    sizes = cal.predict_set(rows).sizes
    predicted = time.perf_counter()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "calibrate": calibrated - start, "predict": predicted - calibrated, "grown": grown / 1e3,
        "size": float(sizes.mean()),
    }  # fmt: skip


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=2_000)
    parser.add_argument("--k", type=int, default=100_000)
    parser.add_argument("--scores", nargs="+", default=["hps", "raps"])
    parser.add_argument("--noises", nargs="+", default=["uniform", "groups"])
    parser.add_argument("--guarantees", nargs="+", default=["none", "pac", "expected"])
    parser.add_argument("--top", action="store_true", help="rows by their top 20 entries, in seconds")
    parser.add_argument("--one", action="store_true", help="one case, in this process, as JSON")
    chosen = parser.parse_args()
    if chosen.top:
        for score in chosen.scores:
            print(score, {name: round(each, 2) for name, each in top(chosen.n, chosen.k, score).items()})
        return
    if chosen.one:
        case = chosen.scores[0], chosen.noises[0], chosen.guarantees[0]
        print(json.dumps(one(chosen.n, chosen.k, *case)))
        return
    print(f"{chosen.n:,} x {chosen.k:,} float32: {4e-6 * chosen.n * chosen.k:.0f} MB\n")
    heads = ("calibrate", "predict", "grown", "allocated", "coverage", "size")
    print(f"{'score':6s} {'noise':8s} {'guarantee':10s}" + "".join(f"{head:>11s}" for head in heads))
    for score in chosen.scores:
        for noise in chosen.noises:
            for guarantee in chosen.guarantees:
                command = [sys.executable, __file__, "--one", "--n", str(chosen.n), "--k", str(chosen.k)]
                command += ["--scores", score, "--noises", noise, "--guarantees", guarantee]
                found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                cells = "".join(f"{found[head]:11.{3 if head == 'coverage' else 1}f}" for head in heads)
                print(f"{score:6s} {noise:8s} {guarantee:10s}{cells}", flush=True)


if __name__ == "__main__":
    main()
