"""``make bench``: nacp against its peers and against one read of the matrix, all in one run.

Times are minima over interleaved repeats, in units of one ``probs.max()`` over the same matrix in the same
process. Memory is the peak of a fresh process above what it had with the data loaded. Writes comparison.md,
comparison.json and scaling.png into results/.
"""

import argparse
import ctypes
import gc
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nacp
from nacp.coverage.contradiction import against
from nacp.coverage.counted import Counted
from nacp.coverage.tally import Sample
from nacp.engine import current
from nacp.paper import twins
from nacp.paper.splits import run_splits
from nacp.points import open_points

OUT = Path(__file__).parent.parent / "results"
ALPHA = 0.1
NOISE = 0.2
SCORES = {"hps": nacp.HPS(), "aps": nacp.APS(), "raps": nacp.RAPS(), "aps-det": nacp.APS(randomized=False)}
TITLES = {"hps": "HPS", "aps": "APS randomised", "raps": "RAPS randomised", "aps-det": "APS deterministic"}
PEERS = {"TorchCP": ("hps", "aps", "raps", "aps-det"), "MAPIE": ("hps", "raps", "aps-det")}


def data(n, k):
    """Return a simulated classifier's float32 probabilities and noisy labels."""
    probs, labels = twins.simulate("imagenet-resnet18", n=n, random_state=0)
    probs = np.ascontiguousarray(probs[:, :k])
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, nacp.UniformNoise(NOISE).sample(labels % k, k, random_state=0)


def dense_noise(k):
    """Return a dense noise matrix: row error rates of 5 to 35%, spread unevenly."""
    rng = np.random.default_rng(0)
    rates = rng.uniform(0.05, 0.35, k)[:, None]
    return nacp.MatrixNoise((1 - rates) * np.eye(k) + rates * rng.dirichlet(np.full(k, 0.3), k))


def peer(name, score, k):
    import peers

    made = {"TorchCP": lambda: peers.TorchCP(score), "MAPIE": lambda: peers.MAPIE(score, k)}
    return made.get(name, lambda: peers.Crepes(k))()


class Job(NamedTuple):
    """One thing to measure: `prepare` is not timed, and what it returns is given to `run`."""

    task: str
    score: str
    who: str
    prepare: Callable[[], Any]
    run: Callable[[Any], Any]

    @property
    def key(self):
        return self.task, self.score, self.who


CALIBRATE, PREDICT = "calibrate, uniform noise", "predict, ragged"


def jobs(probs, labels):
    """Return everything that is measured at the main size."""
    k = probs.shape[1]
    found = []
    for name, score in SCORES.items():

        def calibrate(noise=NOISE, crossing="last", alpha=ALPHA, score=score, guarantee="none"):
            return nacp.calibrate(
                probs, labels, noise=noise, alpha=alpha, score=score, crossing=crossing, guarantee=guarantee
            )

        found.append(Job(CALIBRATE, name, "nacp", lambda: None, lambda _, f=calibrate: f()))
        run = lambda _, f=calibrate: f(guarantee="pac")  # noqa: E731
        found.append(Job("calibrate, uniform noise, pac", name, "nacp", lambda: None, run))
        found.append(Job(PREDICT, name, "nacp", calibrate, lambda c: c.predict_set(probs)))
        for crossing in ("last", "first"):
            found.append(
                Job(
                    f"calibrate, dense matrix, {crossing} crossing", name, "nacp", lambda: dense_noise(k),
                    lambda noise, c=crossing, f=calibrate: f(noise=noise, crossing=c),
                )
            )  # fmt: skip
        for who in (who for who, scores in PEERS.items() if name in scores):

            def calibrated(who=who, name=name):
                model = peer(who, name, k)
                model.calibrate(probs, labels)
                return model

            found.append(Job(CALIBRATE, name, who, lambda: None, lambda _, f=calibrated: f()))
            found.append(Job(PREDICT, name, who, calibrated, lambda m: m.predict(probs)))
        if name == "hps":
            for target, rate in ((0.99, 0.5), (0.99, 0.8), (0.9, 0.2)):
                run = lambda _, t=target, r=rate, f=calibrate: f(noise=r, alpha=1 - t)  # noqa: E731
                found.append(
                    Job(f"hard regime, target {target}, rate {rate}", name, "nacp", lambda: None, run)
                )
    return found


def log(line):
    print("  " + line, file=sys.stderr, flush=True)


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure_times(n, k, repeats, budget, alone=False):
    """Return the unit, and {key: units} from interleaved rounds; long jobs get fewer of them."""
    probs, labels = data(n, k)
    every = [(job, job.prepare()) for job in jobs(probs, labels) if job.who == "nacp" or not alone]
    best = {}
    unit = np.inf
    for round_ in range(repeats):
        for job, state in every:
            unit = min(unit, *(timed(probs.max) for _ in range(3)))
            if round_ and best[job.key] * round_ > budget:
                continue
            spent = timed(lambda job=job, state=state: job.run(state))
            best[job.key] = min(best.get(job.key, np.inf), spent)
            log(f"{round_} {job.task:42s} {job.score:8s} {job.who:8s} {best[job.key] / unit:9.1f}")
    return unit, {key: spent / unit for key, spent in best.items()}


def measure_alone(options):
    """Return {key: units} of nacp's own jobs with one thread, in a process of its own."""
    sizes = [f"--{name}={getattr(options, name)}" for name in ("n", "k", "repeats", "budget")]
    command = [sys.executable, __file__, "--alone", *sizes]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "NACP_THREADS": "1"}
    )
    return {tuple(key.split("; ")): units for key, units in json.loads(done.stdout).items()}


def measure_memory(task, score, who, n, k):
    """Return the extra peak memory of one job in MB, in a process of its own."""
    command = [sys.executable, __file__, "--one", task, score, who, "--n", str(n), "--k", str(k)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.strip().splitlines()[-1])


def one(task, score, who, n, k):
    """Run one job in this process and print its extra peak memory in MB."""
    few, many = (
        next(job for job in jobs(*data(*size)) if job.key == (task, score, who))
        for size in ((1000, 20), (n, k))
    )
    import scipy.special  # noqa: F401  (not every calibration needs it)

    few.run(few.prepare())  # other imports, and first calls
    state = many.prepare()
    # What earlier work has freed goes back to the system, and the peak starts again from what is resident.
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    result = many.run(state)
    print((_status("VmHWM") - before) / 1024)
    del result


def _status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def scaling():
    """Return {axis: {score: [(size, seconds)]}}: n at k = 100, and k at n = 1,000."""
    rng = np.random.default_rng(0)
    found = {"n": {}, "k": {}}
    for axis, sizes in (("n", (10**3, 10**4, 10**5, 10**6)), ("k", (10, 100, 10**3, 10**4, 10**5))):
        for size in sizes:
            n, k = (size, 100) if axis == "n" else (1000, size)
            probs = rng.standard_exponential((n, k), dtype=np.float32) ** 3
            probs /= probs.sum(axis=1, keepdims=True)
            labels = np.where(rng.random(n) < 0.8, probs.argmax(axis=1), rng.integers(k, size=n))
            for name, score in SCORES.items():

                def run(score=score, probs=probs, labels=labels):
                    nacp.calibrate(probs, labels, noise=NOISE, score=score, guarantee="none")

                run()
                spent = min(timed(run) for _ in range(3))
                found[axis].setdefault(name, []).append((size, spent))
                log(f"{axis} = {size:8d} {name:8s} {spent * 1e3:9.2f} ms")
    return found


def small():
    """Return what small inputs take: ms for 1,000 x 10, µs for a row; and the import's ratio."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(10, 0.3), size=1000).astype(np.float32)
    labels = rng.integers(10, size=1000)
    found = {}
    for name, score in SCORES.items():

        def calibrate(score=score):
            return nacp.calibrate(probs, labels, noise=NOISE, score=score, guarantee="none")

        def promise(score=score):
            return nacp.calibrate(probs, labels, noise=NOISE, score=score)

        model, looked = calibrate(), looking(probs, labels, score)
        predict = partial(model.predictor(), probs[0])
        found[name] = {
            "ms": 1e3 * min(timed(calibrate) for _ in range(200)),
            "pac_ms": 1e3 * min(timed(promise) for _ in range(50)),
            "look_ms": 1e3 * min(timed(looked) for _ in range(200)),
            "set_us": 1e6 * min(timed(lambda model=model: model.predict_set(probs[:1])) for _ in range(500)),
            "row_us": 1e6 * min(timed(predict) for _ in range(500)),
        }
    spent = [min(import_seconds(what) for _ in range(9)) for what in ("nacp", "numpy, scipy.special")]
    return found, spent[0] / spent[1]


def looking(probs, labels, score):
    """Return a function that does what a calibration does to see whether labels contradict the noise."""
    rows, numbers, _ = open_points(probs, labels)
    sample, noise = Sample.of(rows, numbers, score), nacp.UniformNoise(NOISE)
    counted = Counted.of(sample, noise)
    return lambda: against(counted.curve(noise, 0.0), noise, score.offset, None)


def modest():
    """Return {who: (ms to calibrate, ms to predict, mean set size)}: HPS, at a size that crepes can do."""
    n, k = 1000, 100
    probs, labels = twins.simulate("cifar100", n=n, random_state=0)
    labels = nacp.UniformNoise(NOISE).sample(labels, k, random_state=0)
    kinds = {"nacp": Ours, **{who: lambda who=who: peer(who, "hps", k) for who in (*PEERS, "crepes")}}
    best = {}
    for _ in range(20):
        for who, kind in kinds.items():
            model = kind()
            spent = [
                1e3 * timed(lambda model=model: model.calibrate(probs, labels)),
                1e3 * timed(lambda model=model: model.predict(probs)),
            ]
            best[who] = np.minimum(best.get(who, np.inf), spent)
    found = {}
    for who, kind in kinds.items():
        model = kind()
        model.calibrate(probs, labels)
        sets = model.predict(probs)
        sets = sets[1] if isinstance(sets, tuple) else sets  # MAPIE returns its predictions beside the sets
        found[who] = (*best[who].tolist(), float(np.asarray(sets).sum() / n))
        log(
            f"{n} x {k} {who:8s}"
            + "calibrate {:8.2f} ms, predict {:8.2f} ms, size {:6.2f}".format(*found[who])
        )
    return found


class Ours:
    """nacp behind the two verbs of the peers."""

    def calibrate(self, probs, labels):
        self._model = nacp.calibrate(probs, labels, noise=NOISE, alpha=ALPHA, guarantee="none")

    def predict(self, probs):
        return self._model.predict_set(probs)


def import_seconds(what):
    code = f"import time; start = time.perf_counter(); import {what}; print(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


def split_ratios(n, k, splits):
    """Return what many splits of 2n rows with six methods cost, in calibrations of that score and size."""
    probs, labels = twins.simulate("imagenet-resnet18", n=2 * n, random_state=0)
    probs = np.ascontiguousarray(probs[:, :k])
    probs /= probs.sum(axis=1, keepdims=True)
    labels %= k
    noisy = nacp.UniformNoise(NOISE).sample(labels, k, random_state=0)
    ratios = {}
    for name in ("hps", "aps", "raps"):

        def calibrate(name=name):
            nacp.calibrate(probs, noisy, noise=NOISE, score=name, guarantee="none")

        one_calibration = min(timed(calibrate) for _ in range(5))
        every = timed(lambda name=name: run_splits(probs, labels, noise=NOISE, score=name, splits=splits))
        ratios[name] = every / one_calibration
        log(f"{splits} splits, {name}: {ratios[name]:.1f}")
    return ratios


def exponent(points):
    """Return the slope of log time against log size over the last decade, where it is steepest."""
    (size_a, seconds_a), (size_b, seconds_b) = points[-2:]
    return float(np.log(seconds_b / seconds_a) / np.log(size_b / size_a))


def plot(found, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for panel, axis, other in zip(panels, ("n", "k"), ("k = 100", "n = 1,000"), strict=True):
        for name, points in found[axis].items():
            panel.loglog(*np.transpose(points), "o-", label=f"{TITLES[name]} ({exponent(points):.2f})")
        panel.set(xlabel={"n": "calibration points n", "k": "classes k"}[axis], title=other)
        panel.legend(title="score (last exponent)", fontsize=8)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("seconds to calibrate")
    figure.savefig(path, dpi=130)


def table(times, single, memory):
    """Return the Markdown table of ratios; ours with one thread and with all of them."""

    def cell(key):
        if key not in times:
            return "–"
        return f"{single[key]:.1f} / {times[key]:.1f}" if key in single else f"{times[key]:.1f}"

    tasks = list(dict.fromkeys((task, who) for task, _, who in times if not task.startswith("hard")))
    rows = ["| | " + " | ".join(TITLES.values()) + " |", "|---" * (len(TITLES) + 1) + "|"]
    for task, who in tasks:
        cells = [cell((task, s, who)) for s in SCORES]
        rows.append(f"| {task}: {who} | " + " | ".join(cells) + " |")
    for task, who in dict.fromkeys((task, who) for task, _, who in memory):
        cells = [f"{memory[task, s, who]:.0f} MB" if (task, s, who) in memory else "–" for s in SCORES]
        rows.append(f"| extra memory, {task}: {who} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=25_000)
    parser.add_argument("--k", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds that one job may take in all")
    parser.add_argument("--splits", type=int, default=1000)
    parser.add_argument("--one", nargs=3)
    parser.add_argument("--alone", action="store_true", help="only nacp, and print what is measured as JSON")
    parser.add_argument("--modest", action="store_true", help="only the peers at 1,000 x 100")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.one:
        one(*options.one, options.n, options.k)
        return
    if options.modest:
        modest()
        return
    how = options.n, options.k, options.repeats, options.budget
    if options.alone:
        print(
            json.dumps({"; ".join(key): units for key, units in measure_times(*how, alone=True)[1].items()})
        )
        return
    unit, times = measure_times(*how)
    single = measure_alone(options)
    in_memory = [key for key in times if key[0] in (CALIBRATE, PREDICT)]
    memory = {key: measure_memory(*key, options.n, options.k) for key in in_memory}
    growth = scaling()
    tiny, import_ratio = small()
    sizeable = modest()
    splits_ratios = split_ratios(options.n, options.k, options.splits)
    OUT.mkdir(exist_ok=True)
    plot(growth, OUT / "scaling.png")
    exponents = {axis: {s: exponent(points) for s, points in by.items()} for axis, by in growth.items()}
    easy = times["hard regime, target 0.9, rate 0.2", "hps", "nacp"]
    text = f"""# Benchmark

Made by `make bench`: {options.n:,} x {options.k:,} float32 probabilities (a simulated classifier),
one process, interleaved, minimum of up to {options.repeats} repeats. The unit is one `probs.max()` over
the same matrix: {unit * 1e3:.1f} ms in this run. Machine: {platform.machine()}, {platform.system()}, Python
{platform.python_version()}, NumPy {np.__version__}. Memory is the peak above the loaded data, in a process of
its own. Calibrations are uncorrected but for the row that names "pac", the default guarantee. The engine is
{current().NAME}; its times are with one thread / with {os.cpu_count()}.

TorchCP 1.2.1 and MAPIE 1.6.0 ignore the noise: theirs is the simpler job, split conformal prediction. TorchCP
runs with empty stand-ins for `torchsort`, `torch_geometric` and `transformers`, unused by these scores;
its sets are boolean matrices, and so are MAPIE's. MAPIE has no randomised APS; its RAPS is tuned.

{table(times, single, memory)}

The hard regime, HPS: target .99 at noise rate .5 takes
{times["hard regime, target 0.99, rate 0.5", "hps", "nacp"] / easy:.1f} times the easy one (.9 at .2),
at rate .8 {times["hard regime, target 0.99, rate 0.8", "hps", "nacp"] / easy:.1f} times.

{options.splits:,} splits of {2 * options.n:,} x {options.k:,} with six methods, in calibrations of that score
and size: {", ".join(f"{TITLES[name]} {ratio:.0f}" for name, ratio in splits_ratios.items())}.

Small inputs; `import nacp` takes {import_ratio:.2f} times `import numpy, scipy.special`.

| | {" | ".join(TITLES.values())} |
|---|---|---|---|---|
| calibrate 1,000 x 10, ms | {" | ".join(f"{each['ms']:.2f}" for each in tiny.values())} |
| of that, to look at the noise model | {
        " | ".join(f"{each['look_ms'] / each['ms']:.1%}" for each in tiny.values())
    } |
| calibrate 1,000 x 10, "pac", ms | {" | ".join(f"{each['pac_ms']:.2f}" for each in tiny.values())} |
| `predict_set` of one row of 10, µs | {" | ".join(f"{each['set_us']:.0f}" for each in tiny.values())} |
| `predictor()` of one row of 10, µs | {" | ".join(f"{each['row_us']:.1f}" for each in tiny.values())} |

All peers at 1,000 x 100, HPS, in ms, 20% of the labels random (`benchmarks/run.py --modest`). crepes 0.9.1
computes a p-value for each label of each row, by counting calibration scores. At 25,000 x 1,000 that would
take about ten minutes, so it is measured here only.

| | {" | ".join(sizeable)} |
|---|---|---|---|---|
| calibrate | {" | ".join(f"{ms:.2f}" for ms, _, _ in sizeable.values())} |
| predict | {" | ".join(f"{ms:.2f}" for _, ms, _ in sizeable.values())} |
| mean set size | {" | ".join(f"{size:.2f}" for _, _, size in sizeable.values())} |

How calibration grows: the exponent of the time over the last decade of sizes (`scaling.png`).

| | {" | ".join(TITLES.values())} |
|---|---|---|---|---|
| n, at k = 100, 10^5 to 10^6 | {" | ".join(f"{v:.2f}" for v in exponents["n"].values())} |
| k, at n = 1,000, 10^4 to 10^5 | {" | ".join(f"{v:.2f}" for v in exponents["k"].values())} |
"""
    (OUT / "comparison.md").write_text(text)
    document = {
        "n": options.n, "k": options.k, "unit_seconds": unit,
        "times_in_units": {"; ".join(key): value for key, value in times.items()},
        "times_with_one_thread": {"; ".join(key): value for key, value in single.items()},
        "extra_memory_mb": {"; ".join(key): value for key, value in memory.items()},
        "scaling_seconds": growth, "exponents": exponents,
        "small": tiny, "modest_ms_and_size": sizeable, "import_ratio": import_ratio,
        "splits_in_calibrations": splits_ratios,
    }  # fmt: skip
    (OUT / "comparison.json").write_text(json.dumps(document, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
