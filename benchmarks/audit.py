"""``make audit``: are the promises kept? Writes results/audit.md, and fails if one is broken.

A cell is a guarantee with a score, a noise model, a population and a way of calibrating. Populations are
finite sets of inputs whose class probabilities are known, so that the coverage of a calibration is computed,
not estimated. A cell repeats "draw a calibration set, calibrate, compute the coverage":

- of a promise for a share 1 - delta of calibration sets it counts how often coverage is below 1 - alpha;
- of a promise on average it takes the mean coverage, to which the reported gap is added;
- of an interval it counts how often it misses the truth.

A cell fails if its exact interval (Clopper-Pearson, or betting for a mean) excludes the promise; each end is
wrong with probability 1e-4. The populations are adversarial: one row for all points, equal probabilities,
one-hot rows, two atoms, ties, a class that hardly occurs, hard points first, noise that depends on the input.

    python benchmarks/audit.py [--quick] [--only REGEX] [--jobs 2]
"""

import argparse
import os
import re
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("NACP_THREADS", "1")  # the cells run in parallel

import numpy as np

import nacp
from nacp.guarantees import GUARANTEES
from nacp.stats.betting import mean_interval
from nacp.stats.intervals import exact_share

OUT = Path(__file__).parent.parent / "results" / "audit.md"
K, N, ALPHA, DELTA = 6, 400, 0.1, 0.1
LEVEL = 1e-4  # of each end of a cell's interval
RUNS, QUICK_RUNS = 2000, 30
SLOW = 10  # cells of checked labels and of long streams have this many times fewer repetitions
PROMISING = [name for name, kind in GUARANTEES.items() if kind.promises_truth and name != "split"]
SIZES = {
    "nacp": 4000,
    "acnl": 8000,
    "crcp": 8000,
}  # for sets that do not hold all labels; others have N points
SCORES = ["hps", "aps", "raps", "saps", "margin", "topk"]


class Population(NamedTuple):
    """Inputs: their probabilities, their true class probabilities, and whether the hard ones come first."""

    probs: np.ndarray
    truth: np.ndarray
    hard_first: bool = False

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return n inputs and their true labels."""
        x = rng.integers(len(self.probs), size=n)
        if self.hard_first:
            x = x[np.argsort(self.probs[x].max(axis=1), kind="stable")]
        return x, drawn(self.truth[x], rng)

    def coverage(self, sets: nacp.PredictionSets, pairs: Any = True) -> float:
        """Return the coverage of the sets of all inputs, among some pairs (input, class)."""
        mass = self.truth * pairs
        return float(mass[np.asarray(sets)].sum() / mass.sum())


def drawn(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a label for each row of probabilities."""
    found = (rows.cumsum(axis=1) < rng.random((len(rows), 1))).sum(axis=1)
    return np.minimum(found, rows.shape[1] - 1)


def populations() -> dict[str, Population]:
    """Return the populations by name."""
    rng, eye = np.random.default_rng(1), np.eye(K)
    rows = rng.dirichlet(np.full(K, 0.3), size=300)
    truth = 0.9 * rows + 0.1 * rng.dirichlet(np.full(K, 0.3), size=300)
    sharp = rng.dirichlet(np.full(K, 0.2), size=300)
    perfect = eye[rng.integers(K, size=300)]
    skewed = np.array([[0.45, 0.25, 0.15, 0.08, 0.05, 0.02]])
    ties = np.round(4 * rows) + 0.25
    ties /= ties.sum(axis=1, keepdims=True)
    confident, unsure = 0.88 * eye + 0.02, 0.4 * eye + 0.1
    atoms = np.concatenate([np.repeat(confident, 22, axis=0), np.repeat(unsure, 3, axis=0)])
    sure = np.concatenate([np.repeat(eye, 22, axis=0), np.repeat(0.2 * eye + 0.8 * eye[::-1], 3, axis=0)])
    rare = np.concatenate(
        [0.997 * truth[:, :-1] / truth[:, :-1].sum(axis=1, keepdims=True), np.full((300, 1), 0.003)], 1
    )
    unseen = np.concatenate([rows[:, :-1] + 1e-3, np.full((300, 1), 1e-4)], axis=1)
    return {
        "ordinary": Population(rows, truth),
        "one row": Population(skewed, skewed),
        "equal": Population(np.full((1, K), 1 / K), np.full((1, K), 1 / K)),
        "one-hot": Population(eye, 0.85 * eye + 0.15 * np.roll(eye, 1, axis=1)),
        "two atoms": Population(atoms, sure),
        "ties": Population(ties, truth),
        "rare class": Population(unseen / unseen.sum(axis=1, keepdims=True), rare),
        "sharp": Population(sharp, 0.9 * sharp + 0.1 * rng.dirichlet(np.full(K, 0.3), size=300)),
        "nearly perfect": Population(0.98 * perfect + 0.02 / K, perfect),
        "hard first": Population(rows, truth, hard_first=True),
    }


POPULATIONS = populations()
PAIRS = nacp.MatrixNoise(0.75 * np.eye(K) + 0.25 * np.eye(K)[np.arange(K) ^ 1])
MIXED = nacp.MatrixNoise(0.75 * np.eye(K) + 0.25 * np.random.default_rng(3).dirichlet(np.ones(K), K))
GROUPED = nacp.GroupNoise([0, 0, 0, 1, 1, 1], rate=0.3)
UNIFORM = nacp.UniformNoise(0.2)


def nearby(matrix: nacp.MatrixNoise, radius: float) -> nacp.MatrixNoise:
    """Return a matrix within a radius: all of it moves from right labels to the most probable class."""
    moved = matrix.matrix(K).dense().copy()
    moved[np.arange(K), np.arange(K)] -= radius
    moved[:, 0] += radius
    return nacp.MatrixNoise(moved)


# What is stated of the noise, and the true one.
NOISES: dict[str, tuple[Any, nacp.Noise]] = {
    "no noise": (nacp.UniformNoise(0.0), nacp.UniformNoise(0.0)),
    "uniform .2": (UNIFORM, UNIFORM),
    "uniform .6": (nacp.UniformNoise(0.6), nacp.UniformNoise(0.6)),
    "pair flips": (PAIRS, PAIRS),
    "random matrix": (MIXED, MIXED),
    "within groups": (GROUPED, GROUPED),
    "randomised response": (nacp.RandomizedResponse(2.0), nacp.RandomizedResponse(2.0)),
    "interval, lower end": (nacp.UniformNoise(0.25, (0.2, 0.3)), UNIFORM),
    "interval, upper end": (nacp.UniformNoise(0.15, (0.1, 0.2)), UNIFORM),
    "radius .03": (nacp.MatrixNoise(MIXED.P, radius=0.03), nearby(MIXED, 0.03)),
}


class Cell(NamedTuple):
    """One promise: how often it may be broken, or what the mean must reach, and one repetition."""

    name: str
    promise: float
    on_average: bool
    repeat: Callable[[np.random.Generator], Any]
    slow: bool = False

    def told(self, result: "Result") -> list[str]:
        """Return the promise, what was found, its interval and the number of repetitions."""
        promise = f"mean ≥ {self.promise:g}" if self.on_average else f"short ≤ {self.promise:g}"
        found = f"**{result.mean:.4f}**" if result.failed else f"{result.mean:.4f}"
        return [promise, found, f"{result.low:.4f} to {result.high:.4f}", f"{result.runs:,}"]


def rule(guarantee: str) -> nacp.Guarantee:
    """Return the guarantee, with the delta of the audit if it has one."""
    return GUARANTEES[guarantee].with_options(delta=DELTA)


def checked_by(found: Any, coverage: Any, alpha: float = ALPHA) -> Any:
    """Return what a repetition tells: coverage with the gap, or whether it is below the target."""
    if getattr(found, "calibrations", None) is not None:
        gap, delta = np.array([cal.gap for cal in found.calibrations]), found.guarantee.delta
    else:
        gap, delta = found.gap, found.guarantee.delta
    return coverage + gap if delta is None else np.less(coverage, 1 - alpha - 1e-9)


def marginal(
    guarantee: str, noise: Any, true: nacp.Noise, population: str, score: str, rng: Any, alpha: float = ALPHA
) -> Any:
    """Calibrate on all points."""
    people = POPULATIONS[population]
    x, y = people.draw(SIZES.get(guarantee, N), rng)
    labels = true.sample(y, K, rng)
    options = {"guarantee": rule(guarantee), "score": score, "random_state": int(rng.integers(1 << 30))}
    cal = nacp.calibrate(people.probs[x], labels, noise=noise, alpha=alpha, **options)
    return checked_by(cal, people.coverage(cal.predict_set(people.probs)), alpha)


def promised(guarantee: str, alpha: float = ALPHA) -> tuple[float, bool]:
    """Return the promise of a guarantee, and whether it is on average."""
    delta = rule(guarantee).delta
    return (1 - alpha, True) if delta is None else (delta, False)


def cells_of_guarantees() -> list[Cell]:
    """Guarantees with scores, populations, noise models and other alphas."""
    plans = [(g, "uniform .2", "ordinary", s, ALPHA) for g in PROMISING for s in SCORES]
    plans += [(g, "uniform .2", p, "hps", ALPHA) for g in PROMISING for p in list(POPULATIONS)[1:]]
    plans += [(g, n, "ordinary", "aps", ALPHA) for g in PROMISING for n in NOISES if n != "uniform .2"]
    plans += [(g, "pair flips", p, "aps", ALPHA) for g in ("pac", "expected") for p in list(POPULATIONS)[1:]]
    plans += [(g, "uniform .2", "two atoms", "hps", a) for g in PROMISING for a in (0.02, 0.3)]
    found = []
    for guarantee, noise, population, score, alpha in plans:
        stated, true = NOISES[noise]
        if GUARANTEES[guarantee]().applies(stated, "last") is None:
            name = f"{guarantee}, {score}, {noise}, {population}" + (
                f", alpha {alpha}" if alpha != ALPHA else ""
            )
            repeat = partial(marginal, guarantee, stated, true, population, score, alpha=alpha)
            found.append(Cell(name, *promised(guarantee, alpha), repeat))
    for score in SCORES:
        repeat = partial(marginal, "split", None, nacp.UniformNoise(0.0), "ordinary", score)
        found.append(Cell(f"split, {score}, true labels, ordinary", 1 - ALPHA, True, repeat))
    return found


def by_site(guarantee: str, rng: Any) -> Any:
    """Noise that differs between two sites; the hard points are at the noisier one more often."""
    people = POPULATIONS["ordinary"]
    n = SIZES.get(guarantee, N)
    x, y = people.draw(n, rng)
    site = (rng.random(n) < np.where(people.probs[x].max(axis=1) < 0.7, 0.8, 0.3)).astype(int)
    labels = np.where(site == 0, nacp.UniformNoise(0.1).sample(y, K, rng), PAIRS.sample(y, K, rng))
    noise = {"a": 0.1, "b": PAIRS}
    cal = nacp.calibrate(
        people.probs[x],
        labels,
        noise=noise,
        noise_groups=np.array(["a", "b"])[site],
        guarantee=rule(guarantee),
    )
    return checked_by(cal, people.coverage(cal.predict_set(people.probs)))


def annotated(guarantee: str, model: bool, rng: Any) -> Any:
    """Three labels for each point, of which the second often repeats the first, some missing."""
    people = POPULATIONS["ordinary"]
    n = SIZES.get(guarantee, N)
    x, y = people.draw(n, rng)
    models = [UNIFORM, UNIFORM, PAIRS if model else UNIFORM]
    labels = np.stack([each.sample(y, K, rng) for each in models], axis=1)
    labels[:, 1] = np.where(rng.random(n) < 0.5, labels[:, 0], labels[:, 1])
    labels[rng.random(n) < 0.3, 2] = -1
    noise = nacp.AnnotatorNoise([each.matrix(K).dense() for each in models]) if model else UNIFORM
    cal = nacp.calibrate(people.probs[x], labels, noise=noise, guarantee=rule(guarantee))
    return checked_by(cal, people.coverage(cal.predict_set(people.probs)))


def estimated(guarantee: str, rng: Any) -> Any:
    """An interval of rates from checked labels of the same points."""
    people = POPULATIONS["ordinary"]
    x, y = people.draw(N, rng)
    labels = UNIFORM.sample(y, K, rng)
    noise = nacp.noise_from_audit(labels[:100], y[:100], k=K, model="uniform")
    cal = nacp.calibrate(people.probs[x], labels, noise=noise, guarantee=rule(guarantee))
    return checked_by(cal, people.coverage(cal.predict_set(people.probs)))


def by_input(x: np.ndarray, y: np.ndarray, people: Population, rng: Any) -> np.ndarray:
    """Return labels that are wrong mostly where the classifier is unsure."""
    wrong = rng.random(len(y)) < np.where(people.probs[x].max(axis=1) < 0.8, 0.2, 0.05)
    return np.where(wrong, rng.integers(K, size=len(y)), y)


def with_checks(guarantee: str, population: str, way: str, rng: Any) -> Any:
    """Some labels are checked, and the noise depends on the input."""
    people = POPULATIONS[population]
    x, y = people.draw(1500, rng)
    labels, seed = by_input(x, y, people, rng), int(rng.integers(1 << 30))
    plan = None
    if way == "plan":
        plan = nacp.choose_audit(people.probs[x], labels, budget=200, random_state=seed)
        rows = plan.rows
    else:
        rows = rng.choice(1500, size=200, replace=False)
    options = {"clean": (rows, y[rows]), "guarantee": rule(guarantee), "random_state": seed}
    if plan is not None:
        options["audit"] = plan
    given = None if way == "alone" else labels
    cal = nacp.calibrate(people.probs[x], given, **options)
    return checked_by(cal, people.coverage(cal.predict_set(people.probs)))


def looks(rng: Any) -> bool:
    """Look three times at more and more checked labels: is coverage short at any of them?"""
    people = POPULATIONS["sharp"]
    x, y = people.draw(1500, rng)
    labels = by_input(x, y, people, rng)
    plan = nacp.choose_audit(
        people.probs[x], labels, budget=240, looks=3, random_state=int(rng.integers(1 << 30))
    )
    for stop in plan.stops:
        rows = plan.rows[:stop]
        cal = nacp.calibrate(people.probs[x], labels, clean=(rows, y[rows]), audit=plan, delta=DELTA)
        if people.coverage(cal.predict_set(people.probs)) < 1 - ALPHA - 1e-9:
            return True
    return False


def in_groups(
    guarantee: str, way: str, population: str, small: str, rng: Any, simultaneous: bool = False
) -> Any:
    """A threshold for each group: of classes, or of rows."""
    people = POPULATIONS[population]
    n = 4 * SIZES.get(guarantee, N)
    x, y = people.draw(n, rng)
    labels = UNIFORM.sample(y, K, rng)
    site = np.where(people.probs.max(axis=1) < 0.6, "hard", "easy")
    kinds = {i: "low" if i < 2 else "high" for i in range(K)}
    given: dict[str, Any] = {
        "by class": {"by": "class"}, "classes": {"groups": kinds}, "rows": {"groups": site[x]}
    }[way]  # fmt: skip
    options = {"guarantee": rule(guarantee), "small": small, "random_state": int(rng.integers(1 << 30))}
    cal = nacp.calibrate(
        people.probs[x], labels, noise=UNIFORM, simultaneous=simultaneous, **given, **options
    )
    if way == "rows":
        sets, pairs = cal.predict_set(people.probs, groups=site), [(site == g)[:, None] for g in cal.names]
    else:
        of = np.array(cal.members)
        sets, pairs = cal.predict_set(people.probs), [of == g for g in range(len(cal.names))]
    pool = [g for g, name in enumerate(cal.names) if name in cal.pooled]
    if pool:  # what is promised of pooled groups is their coverage together
        together = np.any([pairs[g] for g in pool], axis=0)
        pairs = [together if g in pool else each for g, each in enumerate(pairs)]
    found = checked_by(cal, np.array([people.coverage(sets, each) for each in pairs]))
    return found.any() if simultaneous else found


def streamed(guarantee: str, rng: Any) -> Any:
    """Points in batches, hard ones first."""
    people = POPULATIONS["hard first"]
    n = SIZES.get(guarantee, N)
    x, y = people.draw(n, rng)
    labels, stream = UNIFORM.sample(y, K, rng), nacp.Calibrator(noise=UNIFORM)
    for start in range(0, n, n // 3):
        some = slice(start, start + n // 3)
        stream.update(people.probs[x[some]], labels[some])
    cal = stream.finish(alpha=ALPHA, guarantee=rule(guarantee))
    return checked_by(cal, people.coverage(cal.predict_set(people.probs)))


def followed(size: int, rng: Any) -> bool:
    """A threshold that follows the points, in batches of which the hard ones come first."""
    people, hits = POPULATIONS["hard first"], []
    online = nacp.OnlineCalibrator(K, noise=UNIFORM, start=0.5, alpha=ALPHA)
    for _ in range(4000 // size):
        x, y = people.draw(size, rng)
        hits.append(online.predict_set(people.probs[x]).contains(y))
        online.update(people.probs[x], UNIFORM.sample(y, K, rng))
    return bool(abs(np.concatenate(hits).mean() - (1 - ALPHA)) > online.bound(DELTA))


def watched(rng: Any) -> bool:
    """A monitor of sets whose coverage is exactly the target."""
    people = POPULATIONS["ordinary"]
    x, y = people.draw(N, rng)
    cal = nacp.calibrate(people.probs[x], UNIFORM.sample(y, K, rng), noise=UNIFORM, guarantee="none")
    covered = people.coverage(cal.predict_set(people.probs))
    monitor = nacp.Monitor(cal, false_alarm=DELTA, target=min(covered, 0.99))
    for _ in range(8):
        x, y = people.draw(250, rng)
        monitor.update(people.probs[x], UNIFORM.sample(y, K, rng))
    return monitor.alarm


def measured(noise: str, population: str, rng: Any) -> bool:
    """Does the interval of `evaluate` hold the coverage?"""
    people = POPULATIONS[population]
    x, y = people.draw(N, rng)
    sets = nacp.calibrate(people.probs, people.truth.argmax(axis=1), noise=None).predict_set(people.probs)
    if noise == "checked":
        labels, rows = by_input(x, y, people, rng), rng.choice(N, size=100, replace=False)
        found = nacp.evaluate(sets[x], labels, clean=(rows, y[rows]))
    else:
        stated, true = NOISES[noise]
        found = nacp.evaluate(sets[x], true.sample(y, K, rng), noise=stated)
    low, high = found.coverage_interval
    return not low - 1e-9 <= people.coverage(sets) <= high + 1e-9


def from_audit(model: str, rng: Any) -> bool:
    """Does the interval, or the radius, of `noise_from_audit` miss the true noise?"""
    true = {"uniform": UNIFORM, "groups": GROUPED, "matrix": MIXED}[model]
    y = rng.choice(K, size=600, p=[0.3, 0.3, 0.2, 0.1, 0.06, 0.04])
    options = {"groups": GROUPED.groups} if model == "groups" else {}
    found = nacp.noise_from_audit(true.sample(y, K, rng), y, k=K, model=model, **options)
    if model == "matrix":
        away = np.abs(found.noise.P - MIXED.P).sum(axis=1).max() / 2
        return bool(away > found.noise.radius + 1e-12)
    low, high = found.interval
    return not low <= (0.2 if model == "uniform" else 0.3) <= high


def diagnosed(noise: str, rng: Any) -> bool:
    """Does `diagnose` reject a right model? A nearly perfect classifier is the worst case."""
    people, (stated, true) = POPULATIONS["nearly perfect"], NOISES[noise]
    x, y = people.draw(N, rng)
    labels = true.sample(y, K, rng)
    cal = nacp.calibrate(people.probs[x], labels, noise=stated, guarantee="none")
    return bool(nacp.diagnose(cal, people.probs[x], labels).rejected)


def cells_of_ways() -> list[Cell]:
    """All other ways of calibrating, and intervals."""
    found = []
    for guarantee in PROMISING:
        kind, promise = rule(guarantee), promised(guarantee)
        if kind.takes_several:
            add = [("by site", partial(by_site, guarantee))]
            add += [("three annotators, one matrix", partial(annotated, guarantee, False))]
            add += [("three annotators, a matrix each", partial(annotated, guarantee, True))]
            found += [Cell(f"{guarantee}, hps, {name}", *promise, repeat) for name, repeat in add]
        if kind.takes_interval and promise[1] is False:
            name = f"{guarantee}, hps, interval from 100 of the points"
            found.append(Cell(name, promise[0] + 0.05, False, partial(estimated, guarantee)))
        if not kind.needs_points:
            found.append(
                Cell(f"{guarantee}, hps, stream, hard first", *promise, partial(streamed, guarantee))
            )
        if kind.takes_checked:
            plans = [(p, "random") for p in POPULATIONS] + [("ordinary", "alone")]
            plans += (
                []
                if kind.checked_alone
                else [(p, "plan") for p in ("sharp", "ordinary", "ties", "hard first")]
            )
            for population, way in plans:
                repeat = partial(with_checks, guarantee, population, way)
                found.append(
                    Cell(f"{guarantee}, hps, 200 checked ({way}), {population}", *promise, repeat, True)
                )
        ways = [("rows", "ordinary", "all"), ("rows", "hard first", "merge")]
        if kind.takes_classes:
            ways += [
                ("by class", "ordinary", "all"),
                ("by class", "rare class", "all"),
            ]
        if guarantee in ("pac", "expected"):
            ways += [("by class", "rare class", "merge")]
        if kind.takes_classes and kind.takes_groups_of_classes:
            ways += [("classes", "ordinary", "all")]
        for way, population, small in ways:
            name = f'{guarantee}, hps, groups ({way}), {population}, small="{small}"'
            found.append(Cell(name, *promise, partial(in_groups, guarantee, way, population, small)))
    together = partial(in_groups, "pac", "by class", "ordinary", "all", simultaneous=True)
    found.append(Cell("pac, hps, all classes at once", *promised("pac"), together))
    found.append(Cell("pac, hps, three looks at checked labels", *promised("pac"), looks, True))
    found += [
        Cell(f"online, bound, batches of {b}", DELTA, False, partial(followed, b), True)
        for b in (10, 50, 400)
    ]
    found.append(Cell("monitor, false alarms", DELTA, False, watched, True))
    for model in ("uniform", "groups", "matrix"):
        found.append(Cell(f"noise_from_audit, {model}, 600 labels", 0.05, False, partial(from_audit, model)))
    for noise in ("uniform .2", "pair flips", "random matrix"):
        found.append(Cell(f"diagnose, right model, {noise}", 0.05, False, partial(diagnosed, noise), True))
    for noise in (*NOISES, "checked"):
        found.append(
            Cell(f"evaluate, interval, {noise}, ordinary", 0.05, False, partial(measured, noise, "ordinary"))
        )
    for population in list(POPULATIONS)[1:]:
        repeat = partial(measured, "uniform .2", population)
        found.append(Cell(f"evaluate, interval, uniform .2, {population}", 0.05, False, repeat))
    return found


CELLS = cells_of_guarantees() + cells_of_ways()


class Result(NamedTuple):
    """What a cell found: its mean, an exact interval for it, and whether that excludes the promise."""

    mean: float
    low: float
    high: float
    runs: int
    failed: bool


def run(index: int, runs: int) -> Result:
    """Repeat a cell; of several groups return the worst."""
    warnings.simplefilter("ignore")
    cell = CELLS[index]
    runs = max(runs // SLOW if cell.slow else runs, 3)
    values = np.array([cell.repeat(np.random.default_rng([7, index, i])) for i in range(runs)], dtype=float)
    results = []
    columns = values.reshape(runs, -1).T
    for each in columns:
        level = LEVEL / len(columns)
        if cell.on_average:
            low, high = mean_interval(np.minimum(each, 1.25), 0.0, 1.25, level)
            results.append(Result(float(each.mean()), low, high, runs, high < cell.promise))
        else:
            (low,), (high,) = exact_share(np.array([each.sum()]), np.array([runs]), level)
            results.append(
                Result(float(each.mean()), float(low), float(high), runs, bool(low > cell.promise))
            )
    return min(results, key=lambda r: r.mean) if cell.on_average else max(results, key=lambda r: r.mean)


def main() -> int:
    """Run all cells; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few repetitions: gross errors only")
    parser.add_argument("--only", default="", help="cells whose name matches a regular expression")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    chosen = [i for i, cell in enumerate(CELLS) if re.search(options.only, cell.name)]
    runs, begin, results = QUICK_RUNS if options.quick else options.runs, time.perf_counter(), {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for i, result in zip(chosen, pool.map(partial(run, runs=runs), chosen), strict=True):
            results[i] = result
            mark = "FAIL" if result.failed else "ok"
            print(f"{mark:4} {CELLS[i].name}: {result.mean:.4f}", file=sys.stderr, flush=True)
    lines = ["| cell | promised | found | 99.98% interval | repetitions |", "| --- | --- | --- | --- | --- |"]
    worst: dict[tuple[str, str], list[int]] = {}
    for i, result in results.items():
        lines.append("| " + " | ".join([CELLS[i].name, *CELLS[i].told(result)]) + " |")
        worst.setdefault((CELLS[i].name.split(",")[0], CELLS[i].told(result)[0]), []).append(i)
    short = ["| promise of | promised | cells | worst cell | found | 99.98% interval | repetitions |"]
    short.append("| --- " * 7 + "|")
    for (subject, promise), some in worst.items():
        i = max(some, key=lambda i: (-1 if CELLS[i].on_average else 1) * results[i].mean)
        found = CELLS[i].told(results[i])
        name = CELLS[i].name.partition(", ")[2]
        short.append("| " + " | ".join([subject, promise, f"{len(some)}", name, *found[1:]]) + " |")
    failures = [CELLS[i].name for i, result in results.items() if result.failed]
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text("\n".join([*short, "", *lines]) + "\n", encoding="utf-8")
    minutes = (time.perf_counter() - begin) / 60
    print(f"{len(chosen)} cells in {minutes:.1f} minutes; {len(failures)} broken.", *failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
