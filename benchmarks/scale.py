"""``make bench-scale``: dask arrays against reading the files, one process, and one worker against two.

All in one run, with one thread for each process; times are minima over repeats. Writes
results/scale.md: what was measured, and what follows for 10^9 rows of 10^4 classes on 100 workers.
"""

import argparse
import logging
import os
import pickle
import platform
import tempfile
import time
import tracemalloc
from pathlib import Path

os.environ["NACP_THREADS"] = "1"

import dask
import dask.array as da
import numpy as np
from dask.delayed import delayed
from distributed import Client, LocalCluster

import nacp
from nacp.engine import current
from nacp.paper import twins

OUT = Path(__file__).parent.parent / "results" / "scale.md"
K, PART, NOISE = 1000, 12_500, 0.2
GIGA = 10**9
CASES = {
    ("hps", "none"): 'HPS, "none"',
    ("hps", "binomial"): 'HPS, "binomial"',
    ("aps", "none"): 'APS, "none"',
}
ROWS, CLASSES, WORKERS = 10**9, 10**4, 100
CHUNK = GIGA  # bytes of a chunk of theirs
DISK, NETWORK = 2e9, 1e9  # bytes a second, of each worker: assumed


def written(folder, parts):
    """Write parts of a simulated classifier's rows, columns rolled from part to part; return their labels."""
    probs, labels = twins.simulate("imagenet-resnet18", n=PART, random_state=0)
    every = []
    for i in range(parts):
        np.save(folder / f"{i}.npy", np.roll(probs, 7 * i, axis=1))
        every.append((labels + 7 * i) % K)
    return nacp.UniformNoise(NOISE).sample(np.concatenate(every), K, random_state=1)


def opened(folder, parts):
    """Return parts as one dask array, of which workers read the files."""
    load = delayed(np.load, pure=False)
    chunks = [da.from_delayed(load(folder / f"{i}.npy"), (PART, K), dtype=np.float32) for i in range(parts)]
    return da.concatenate(chunks)


def read(folder, parts):
    """Read the files in blocks, and do no more than to look at each number."""
    for i in range(parts):
        values = np.load(folder / f"{i}.npy", mmap_mode="r")
        for start in range(0, PART, 1000):
            values[start : start + 1000].max()


def shortest(work, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def calibrated(probs, labels, score="hps", guarantee="none"):
    return nacp.calibrate(probs, labels, noise=NOISE, score=score, guarantee=guarantee)


def held(probs, labels, *case):
    """Return the most that the client held, above what it had before."""
    tracemalloc.start()
    calibrated(probs, labels, *case)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def sent(probs, labels, *case):
    """Return the bytes of the tally of one chunk."""
    return len(pickle.dumps(calibrated(probs, labels, *case).tally))


def task_seconds(client):
    """Return what a task costs that does nothing, besides what it does."""
    nothing = delayed(len, pure=False)
    return shortest(lambda: client.compute([nothing(()) for _ in range(2000)], sync=True), 2) / 2000


def measured(parts, repeats):
    """Return what was measured, by name."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        labels = written(folder, 2 * parts)
        half, some = labels[: parts * PART], parts * PART * K / GIGA
        read(folder, parts)
        found["read"] = shortest(lambda: read(folder, parts), repeats) / some
        whole = np.concatenate([np.load(folder / f"{i}.npy", mmap_mode="r") for i in range(parts)])
        for case in CASES:
            took = shortest(lambda c=case, p=whole: calibrated(p, half, *c), repeats)
            found["one process", case] = took / some
            found["sent", case] = sent(whole[:PART], half[:PART], *case)
        del whole
        for workers in (1, 2):
            options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
            options["silence_logs"] = logging.CRITICAL  # what is said when workers leave
            with LocalCluster(host="127.0.0.1", **options) as cluster, Client(cluster) as client:
                calibrated(opened(folder, parts), half)  # imports
                for kind, number in [("same", parts)] + [("weak", 2 * parts)] * (workers == 2):
                    probs, given = opened(folder, number), labels[: number * PART]
                    for case in CASES:
                        took = shortest(lambda p=probs, g=given, c=case: calibrated(p, g, *c), repeats)
                        found[kind, workers, case] = took
                        if workers == 2:
                            found["held", kind, case] = held(probs, given, *case)
                found["task"] = task_seconds(client)
    return found, some


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def told(found, some, parts):
    """Return the tables, with what they were made by."""
    rows = [["reading the files by NumPy, in blocks", f"{found['read']:.2f}", "1.0", "", "", ""]]
    for case, name in CASES.items():
        one = found["one process", case]
        first, second, weak = (
            found[kind, n, case] / some for kind, n in (("same", 1), ("same", 2), ("weak", 2))
        )
        rows.append(
            [f"calibrate, {name}", f"{one:.2f}", f"{one / found['read']:.1f}", f"{first / one:.2f}",
             f"{first / second:.2f}", f"{first / weak:.0%}"]
        )  # fmt: skip
    header = [
        "", "seconds for 10⁹ entries, in memory, one process", "against reading",
        "dask, one worker: times as long", "two workers: times as fast", "weak scaling, two workers",
    ]  # fmt: skip
    size = f"{parts * PART:,} rows of {K:,} classes in float32, {parts * PART * K * 4 / 1e6:.0f} MB"
    text = (
        f"{size} in {parts} files for each worker; engine {current().NAME}, one thread for each process,\n"
        f"{os.cpu_count()} cores ({platform.machine()}), dask {dask.__version__}, NumPy {np.__version__}.\n\n"
        f"{table(header, rows)}\n"
    )
    lines = []
    for case, name in CASES.items():
        peaks = [f"{found['held', kind, case] / 1e6:.0f} MB" for kind in ("same", "weak")]
        lines.append([name, f"{found['sent', case] / 1e6:.2f} MB", *peaks])
    header = ["", "sent by a chunk", "client at its peak", "twice the rows"]
    task = f"A task costs {1e3 * found['task']:.2f} ms besides what it does.\n\n"
    return f"{text}{table(header, lines)}\n{task}{worked(found, some)}"


def worked(found, some):
    """Return what follows for very many rows on very many workers."""
    entries, size, case = ROWS * CLASSES, ROWS * CLASSES * 4, ("hps", "none")
    chunks, by_chunk = size / CHUNK, found["sent", case]
    compute = found["same", 1, case] / some * entries / GIGA / WORKERS
    disk, tasks = size / WORKERS / DISK, chunks * 17 / 16 * found["task"]
    tree = chunks * by_chunk / WORKERS
    rows = [
        ["entries", "10¹³", ""],
        ["in float32", f"{size / 1e12:.0f} TB", f"{size / WORKERS / 1e9:.0f} GB for each worker"],
        ["to read them once", f"{disk:,.0f} s", f"at {DISK / 1e9:.0f} GB/s for each worker, assumed"],
        ["to check, score and count, HPS", f"{compute:,.0f} s", "measured on one worker, files cached"],
        ["chunks of 1 GB", f"{chunks:,.0f}", f"{CHUNK // (4 * CLASSES):,} rows each"],
        ["to schedule them", f"{tasks:,.0f} s", "measured; with chunks of 100 MB ten times that"],
        ["tallies sent by a worker", f"{tree / 1e6:,.0f} MB", f"{tree / NETWORK:,.1f} s at 1 GB/s"],
    ]
    return table(["10⁹ rows × 10⁴ classes, 100 workers", "", ""], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=4, help=f"files of {PART:,} rows for each worker")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    text = told(*measured(options.parts, options.repeats), options.parts)
    print(text)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
