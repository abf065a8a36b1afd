"""Files larger than memory: how fast they are calibrated, against reading them, and in how much memory.

A file of 1,000,000 x 1,000 float32 (4 GB) is made in a temporary folder and deleted afterwards::

    python benchmarks/files.py [--rows 1000000] [--folder /tmp]

Each job runs in a process of its own, which says its peak memory, imports included. NumPy reads the file in
blocks in the same run, before each job; what is printed is the time of the job in times of the quicker of
two such reads, the least of some repetitions. Nothing is compared across machines.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

K, BLOCK = 1000, 1048
BASE = 50_000  # rows that are drawn; the others are these with their classes moved on
JOBS = [
    "calibrate hps none",
    "calibrate hps pac",
    "calibrate aps none",
    "calibrate aps pac",
    "predict hps",
    "predict aps",
    "evaluate hps",
    "compare hps",
    "command calibrate",
    "command evaluate",
    "command predict .parquet",
    "command predict .npz",
    "command predict .csv",
]


def make(folder, rows):
    """Write the probabilities of a twin of ImageNet, true and noisy labels."""
    import nacp
    from nacp.paper import twins

    base, labels = twins.simulate("imagenet-resnet50", n=min(rows, BASE), random_state=0)
    whole = np.lib.format.open_memmap(folder / "probs.npy", "w+", np.float32, (rows, K))
    true = np.empty(rows, dtype=np.int64)
    for i, start in enumerate(range(0, rows, BASE)):
        here = slice(start, min(start + BASE, rows))
        number = here.stop - here.start
        whole[here], true[here] = np.roll(base[:number], 37 * i, axis=1), (labels[:number] + 37 * i) % K
    whole.flush()
    np.save(folder / "true.npy", true)
    np.save(folder / "noisy.npy", nacp.UniformNoise(0.2).sample(true, K, random_state=0))


def by_map(path):
    """Read a file in blocks as NumPy maps it, each copied to the same place."""
    whole, block = np.load(path, mmap_mode="r"), np.empty((BLOCK, K), dtype=np.float32)
    start = time.perf_counter()
    for i in range(0, len(whole), BLOCK):
        some = whole[i : i + BLOCK]
        block[: len(some)] = some
    return time.perf_counter() - start


def by_fromfile(path):
    """Read a file in blocks by np.fromfile."""
    start = time.perf_counter()
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        while len(np.fromfile(file, np.float32, BLOCK * K)):
            pass
    return time.perf_counter() - start


def command(*words):
    """Run a command line in this process."""
    from nacp.cli.main import app

    sys.argv = ["nacp", *map(str, words)]
    try:
        app()
    except SystemExit as end:
        if end.code not in (0, 1, None):
            raise


def work(job, folder):
    """Do a job; return how long it took, and the peak memory of this process in MB."""
    import nacp

    verb, *how = job.split()
    given, target = folder / "probs.npy", folder / "out"
    noisy, true = np.load(folder / "noisy.npy"), np.load(folder / "true.npy")
    probs = np.load(given, mmap_mode="r")
    saved = folder / f"{how[0]}.json"
    cal = nacp.load(saved) if saved.exists() else None
    start = time.perf_counter()
    if verb == "calibrate":
        nacp.calibrate(probs, noisy, noise=0.2, score=how[0], guarantee=how[1]).save(saved)
    elif verb == "predict":
        cal.predict_set(probs)
    elif verb == "evaluate":
        nacp.evaluate(cal.predict_set(probs), true)
    elif verb == "compare":
        nacp.compare(probs, noisy, noise=0.2, scores=how, guarantees=["pac", "none", "expected"])
    elif how[0] == "calibrate":
        command("calibrate", given, folder / "noisy.npy", "--noise", "0.2", "-o", folder / "cal.json")
    elif how[0] == "evaluate":
        command("evaluate", folder / "cal.json", given, folder / "true.npy")
    else:
        command("predict", folder / "cal.json", given, "-o", f"{target}{how[1]}")
    return time.perf_counter() - start, peak()


def peak():
    """Return the peak memory of this process in MB; what getrusage says may be that of who started it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = [each for each in status.read_text().splitlines() if each.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made; it takes 4 GB")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="jobs that contain these words")
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job, folder = options.job
        print("\n" + json.dumps(work(job, Path(folder))))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        make(folder, options.rows)
        print(f"{options.rows:,} x {K:,} float32; times of a read by NumPy, and peak memory\n")
        print(f"{'':<28}{'reads':>8}{'seconds':>9}{'MB':>7}")
        for job in JOBS:
            if options.only not in job:
                continue
            ratios, seconds, memory = [], [], []
            for _ in range(options.repeat):
                read = min(by_map(folder / "probs.npy"), by_fromfile(folder / "probs.npy"))
                words = [sys.executable, __file__, "--job", job, name]
                done = subprocess.run(words, check=True, capture_output=True, text=True)
                took, peak = json.loads(done.stdout.splitlines()[-1])
                ratios.append(took / read)
                seconds.append(took)
                memory.append(peak)
            print(f"{job:<28}{min(ratios):>8.2f}{min(seconds):>9.2f}{max(memory):>7.0f}", flush=True)


if __name__ == "__main__":
    main()
