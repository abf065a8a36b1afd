"""Did a change of the code leave every threshold as it was, to the last bit? Do two engines find the same?

Run it before the change and after it (or with another NACP_ENGINE), and compare the two files::

    python benchmarks/thresholds.py --data ../shared/data -o before.json
    python benchmarks/thresholds.py --data ../shared/data -o after.json
    python benchmarks/thresholds.py --compare before.json after.json

A file maps data set / score / noise / guarantee / crossing / alpha to the threshold and to what else came
out, the estimate first, as hexadecimal floats; arrays as digests of their bytes. What was refused is
recorded as such, without the sentence. Data are simulated twins, cases that are hard by construction, and
the real files of the folder --data if it is given. Only the public interface is used.
"""

import argparse
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import nacp
from nacp.paper.splits import run_splits
from nacp.paper.twins import simulate

REFUSED = "refused"
ALPHAS = [0.02, 0.05, 0.1, 0.2, 0.3]
SEVERAL, ANY, FEWER = (ALPHAS,), (ALPHAS, 0.1, [0.001, 0.5, 0.9]), ([0.05, 0.2], 0.1)
SHOWN = 50


def root_gap(probs):
    """Return how far a label lies behind the best in square roots, which are rounded alike everywhere."""
    roots = np.sqrt(np.asarray(probs, dtype=np.float64))
    return roots.max(axis=1, keepdims=True) - roots


def odds(probs):
    """Return how many times more probable the best label is; infinite where the label is impossible."""
    given = np.asarray(probs, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        return given.max(axis=1, keepdims=True) / given - 1


class Kind(NamedTuple):
    """A score, and what to make of the probabilities first, if it takes scores."""

    score: Any
    matrix: Callable[[Any], Any] | None = None


SCORES = {
    "hps": Kind("hps"),
    "aps": Kind("aps"),
    "raps": Kind("raps"),
    "saps": Kind("saps"),
    "margin": Kind("margin"),
    "topk": Kind("topk"),
    "aps deterministic": Kind(nacp.APS(randomized=False)),
    "raps deterministic": Kind(nacp.RAPS(randomized=False)),
    "saps deterministic": Kind(nacp.SAPS(randomized=False)),
    "aps seed 3": Kind(nacp.APS(seed=3)),
    "raps 0.2 free 1": Kind(nacp.RAPS(penalty=0.2, free=1)),
    "saps 0.02": Kind(nacp.SAPS(penalty=0.02)),
    "custom roots": Kind(nacp.Custom(root_gap)),
    "custom odds": Kind(odds),
    "precomputed roots": Kind("precomputed", root_gap),
    "precomputed odds": Kind("precomputed", odds),
    "precomputed negated": Kind("precomputed", np.negative),
}
MAIN_SCORES = ("hps", "aps", "raps", "saps", "margin", "topk", "aps deterministic", "custom roots")
FEW_SCORES = ("hps", "aps", "raps deterministic")


def noises(k):
    """Return noise models for k classes, by name."""
    pairs, parts = np.arange(k) // 2, np.arange(k) * min(4, k // 2) // k
    random = random_matrix(k)
    return {
        "none": None,
        "uniform 0": nacp.UniformNoise(0.0),
        "uniform 0.05": 0.05,
        "uniform 0.2": nacp.UniformNoise(0.2),
        "uniform 0.5": nacp.UniformNoise(0.5),
        "uniform 0.8": nacp.UniformNoise(0.8),
        "privacy": nacp.RandomizedResponse(float(np.log(4 * k))),
        "interval": nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.99),
        "pairs": nacp.GroupNoise.other(pairs, rate=0.2),
        "groups": nacp.GroupNoise(parts, rate={part: 0.1 + 0.1 * part for part in set(parts.tolist())}),
        "groups interval": nacp.GroupNoise(parts, rate=0.2, interval=(0.1, 0.25)),
        "matrix": nacp.MatrixNoise(random),
        "matrix even": 0.8 * np.eye(k) + 0.2 / k,
        "matrix next": 0.85 * np.eye(k) + 0.15 * np.roll(np.eye(k), 1, axis=1),
        "radius": nacp.MatrixNoise(random, radius=0.01, confidence=0.99),
    }


EXACT_NOISES = ("none", "uniform 0.05", "uniform 0.2", "uniform 0.5", "privacy", "pairs", "groups", "matrix")
MAIN_NOISES = ("none", "uniform 0.2", "interval", "groups", "matrix")
FEW_NOISES = ("uniform 0.2", "pairs", "matrix")
DOUBTFUL = ("interval", "groups interval", "radius")


def random_matrix(k):
    """Return a matrix with row error rates from 5 to 35%, spread unevenly."""
    rng = np.random.default_rng(k)
    rates = rng.uniform(0.05, 0.35, k)[:, None]
    return (1 - rates) * np.eye(k) + rates * rng.dirichlet(np.full(k, 0.3), k)


def guarantees(matrix):
    """Return the arguments that ask for each guarantee, by name; `matrix` is what will be calibrated with."""
    k = matrix.shape[1]
    even = [1 / k] * k
    return {
        "none": {"guarantee": "none"},
        "split": {"guarantee": "split"},
        "default": {},
        "pac 0.05": {"guarantee": "pac"},
        "pac 0.001": {"guarantee": "pac", "delta": 0.001},
        "pac 0.3": {"guarantee": "pac", "delta": 0.3},
        "pac 0.05 seed 7": {"guarantee": "pac", "random_state": 7},
        "binomial 0.05": {"guarantee": "binomial"},
        "binomial 0.001": {"guarantee": "binomial", "delta": 0.001},
        "binomial 0.3": {"guarantee": "binomial", "delta": 0.3},
        "binomial 0.05 unlabelled": {"guarantee": "binomial", "unlabelled": matrix[: len(matrix) // 2 + 1]},
        "expected": {"guarantee": "expected"},
        "expected worst-case": {"guarantee": nacp.Expected("worst-case")},
        "nacp 0.001": {"guarantee": "nacp"},
        "nacp 0.3": {"guarantee": "nacp", "delta": 0.3},
        "acnl": {"guarantee": "acnl"},
        "acnl even": {"guarantee": nacp.ACNL(priors=even)},
        "crcp": {"guarantee": "crcp"},
        "crcp even": {"guarantee": nacp.CRCP(priors=even)},
    }


LAST_ONLY = ("pac", "binomial", "expected", "default")
# The tests look at many thresholds, so they are asked for less often.
TESTS = tuple(name for name in guarantees(np.ones((1, 2))) if name.startswith(("pac", "binomial")))
CORRECTED = ("none", "expected", "nacp 0.3", "acnl", "crcp")
ALL_CORRECTED = (*CORRECTED, "split", "expected worst-case", "nacp 0.001", "acnl even", "crcp even")


class Data(NamedTuple):
    """Probabilities, true labels, and noise with the real noisy labels of each kind, where there are some."""

    name: str
    probs: Any
    labels: Any
    human: Mapping[str, tuple[Any, Any]] = MappingProxyType({})
    normalize: bool = False

    @property
    def k(self):
        return self.probs.shape[1]

    def some(self, n):
        """Return n of the rows, drawn at random."""
        if n >= len(self.labels):
            return self
        rows = np.sort(np.random.default_rng(n).permutation(len(self.labels))[:n])
        human = {name: (noise, labels[rows]) for name, (noise, labels) in self.human.items()}
        return self._replace(
            name=f"{self.name} n {n}", probs=self.probs[rows], labels=self.labels[rows], human=human
        )

    def under(self, name):
        """Return a noise model by its name, and labels that came to be by it."""
        if name in self.human:
            return self.human[name]
        model = noises(self.k)[name]
        if model is None:
            return None, self.labels
        drawn = model if isinstance(model, nacp.Noise) else None
        if drawn is None:
            drawn = nacp.UniformNoise(model) if np.ndim(model) == 0 else nacp.MatrixNoise(model)
        return model, drawn.sample(self.labels, self.k, random_state=1)

    def given(self, kind):
        """Return the matrix for a score, and the arguments that go with it."""
        if kind.matrix is None:
            return self.probs, {"score": kind.score, "normalize": self.normalize}
        return kind.matrix(self.probs), {"score": kind.score}


class Plan(NamedTuple):
    """All combinations of some scores, noises and guarantees; each for some alphas, one or several at once.

    The noises "human" are those of the data. Only "last" is asked for where "first" is not allowed.
    """

    scores: tuple[str, ...]
    noises: tuple[str, ...]
    guarantees: tuple[str, ...]
    alphas: tuple[Any, ...] = SEVERAL
    crossings: tuple[str, ...] = ("last", "first")


HUMAN = ("human",)
EVERY_PAIR = Plan(tuple(SCORES), tuple(name for name in noises(2) if name != "radius"), CORRECTED)
EVERY_PROMISE = Plan(FEW_SCORES, MAIN_NOISES, ALL_CORRECTED, ANY)
EVERY_TEST = Plan(("hps", "aps", "raps deterministic"), ("uniform 0.2", "matrix"), TESTS, FEWER)
NOT_SAID = Plan(("hps",), MAIN_NOISES, ("default",), FEWER)
TEST_OF_ALL = Plan(tuple(SCORES), ("uniform 0.2", "groups"), ("pac 0.05", "binomial 0.05"), (0.15,))
ROUGH = Plan((*MAIN_SCORES, "precomputed odds", "precomputed negated"), MAIN_NOISES, CORRECTED)
ROUGH_TEST = Plan(("hps", "aps", "margin"), FEW_NOISES, ("pac 0.05", "binomial 0.05"), FEWER)
RADIUS = Plan(("hps", "aps", "margin"), ("radius",), ("none", "expected", "pac 0.3", "nacp 0.3"))
MANY_CLASSES = Plan(MAIN_SCORES, EXACT_NOISES, CORRECTED)
DOUBT = Plan(("hps", "aps"), ("interval", "groups interval"), ("pac 0.05", "expected", "nacp 0.001"), FEWER)
MORE_CLASSES = MANY_CLASSES._replace(scores=("hps", "aps", "raps deterministic", "margin"))
LARGER_TEST = Plan(("hps", "aps", "raps"), FEW_NOISES, ("pac 0.05", "pac 0.001", "binomial 0.05"), FEWER)
REAL_LABELS = Plan(MAIN_SCORES, HUMAN, ("none", "expected", "crcp"))
REAL_TEST = Plan(("hps", "raps"), HUMAN, ("pac 0.05",), FEWER)
FEW = Plan(("hps", "aps"), FEW_NOISES, ("none",))
LARGE = Plan(("hps", "aps", "raps"), ("uniform 0.2", "uniform 0.8"), ("none",))
LARGE_MATRIX = Plan(("hps", "aps"), ("groups", "matrix"), ("none",))
LARGE_TEST = Plan(("hps", "aps"), ("uniform 0.2", "matrix"), ("pac 0.05", "binomial 0.05"), FEWER)


def calls(plan, data) -> Iterator[tuple[str, str, str, str]]:
    """Yield score, noise, guarantee and crossing of each combination."""
    for score in plan.scores:
        for noise in tuple(data.human) if plan.noises == HUMAN else plan.noises:
            for guarantee in plan.guarantees:
                for crossing in plan.crossings:
                    judged_down = noise in DOUBTFUL or guarantee.split()[0] in LAST_ONLY
                    if crossing == "last" or not judged_down:
                        yield score, noise, guarantee, crossing


def calibrations(plan, data):
    """Calibrate with all combinations of a plan."""
    found = {}
    given = cache(lambda score: data.given(SCORES[score]))
    under = cache(data.under)
    for score, noise, guarantee, crossing in calls(plan, data):
        matrix, options = given(score)
        model, labels = under(noise)
        options = options | guarantees(matrix)[guarantee] | {"noise": model, "crossing": crossing}
        for alpha in plan.alphas:
            key = " / ".join([data.name, score, noise, guarantee, crossing])
            found |= calibration(key, matrix, labels, alpha, options)
    return found


def calibration(key, matrix, labels, alpha, options):
    """Calibrate once, for one alpha or several."""
    names = [f"{alpha:g}"] if np.ndim(alpha) == 0 else [f"{a:g} of {len(alpha)}" for a in alpha]
    try:
        result = nacp.calibrate(matrix, labels, alpha=alpha, **options)
    except ValueError:
        return dict.fromkeys([f"{key} / {name}" for name in names], REFUSED)
    except Exception as error:
        error.add_note(f"at {key} / {', '.join(names)}")
        raise
    results = [result] if np.ndim(alpha) == 0 else result
    return {
        f"{key} / {name}": [each.threshold.hex(), each.estimate.hex()]
        for name, each in zip(names, results, strict=True)
    }


def comparisons(data, noise_names, crossing="last"):
    """Compare all guarantees with the scores that have a name; half of the rows are for the test."""
    found = {}
    half = len(data.labels) // 2
    for name in noise_names:
        noise, noisy = data.under(name)
        rows = nacp.compare(
            data.probs[:half], noisy[:half],
            noise=noise, scores=("hps", "aps", "raps", "saps", "margin", "topk"), crossing=crossing,
            normalize=data.normalize, test_probs=data.probs[half:], test_labels=data.labels[half:],
        ).rows  # fmt: skip
        for row in rows:
            key = " / ".join(["compare", data.name, row.score, name, row.guarantee, crossing, "0.1"])
            values = (row.threshold, row.estimate, row.mean_size, row.coverage)
            found[key] = REFUSED if row.threshold is None else [float(value).hex() for value in values]
    return found


def curves(data, score_names, noise_names):
    """Make coverage curves at the scores of the labels, and at given thresholds."""
    found = {}
    places = np.concatenate([np.linspace(-1.1, 2.1, 129), [5.0, 50.0, np.inf]])
    for score in score_names:
        matrix, options = data.given(SCORES[score])
        for name in noise_names:
            noise, noisy = data.under(name)
            for where, thresholds in (("at the labels", None), ("at given places", places)):
                curve = nacp.coverage_curve(matrix, noisy, noise=noise, thresholds=thresholds, **options)
                key = " / ".join(["curve", data.name, score, name, where])
                found[key] = [digest(curve.thresholds), digest(curve.noisy, curve.random, curve.clean)]
    return found


def splits(data, noise_names, score_names=FEW_SCORES, count=12, crossings=("last", "first")):
    """Run the methods of the paper on a few splits; the one for uniform noise only where it is."""
    found = {}
    methods = run_splits(data.probs[:100], data.labels[:100], noise=0.1, splits=1).methods
    for name in noise_names:
        noise, noisy = data.under(name)
        fitting = [method for method in methods if "uniform" in name or method.name != "NACP"]
        for score in score_names:
            for crossing in crossings:
                run = run_splits(
                    data.probs, data.labels, noise=noise, noisy_labels=noisy if name in data.human else None,
                    alpha=[0.05, 0.1], score=SCORES[score].score, methods=fitting, splits=count,
                    crossing=crossing,
                )  # fmt: skip
                for m, method in enumerate(run.methods):
                    for a, alpha in enumerate(run.alphas):
                        key = ["splits", data.name, score, name, method.name, crossing, f"{alpha:g}"]
                        others = digest(run.sizes[m, a], run.coverages[m, a])
                        found[" / ".join(key)] = [digest(run.thresholds[m, a]), others]
    return found


def digest(*arrays):
    """Return a digest of the bytes of arrays."""
    joined = b"".join(np.ascontiguousarray(array, dtype=np.float64).tobytes() for array in arrays)
    return hashlib.sha256(joined).hexdigest()[:32]


def twin(name, n, seed=0):
    """Return a simulated data set."""
    probs, labels = simulate(name, n=n, random_state=seed)
    return Data(f"twin {name} {n}", probs, labels)


def hard_case(name):
    """Return a small data set that is hard by construction."""
    base = twin("cifar10", 800)
    probs, labels = base.probs, base.labels
    exact = probs.astype(np.float64) ** 0.4
    exact /= exact.sum(axis=1, keepdims=True)
    two = exact[:, :2] / exact[:, :2].sum(axis=1, keepdims=True)
    five = np.sort(np.argsort(labels, kind="stable")[:: len(labels) // 5][:5])
    cases = {
        "float16": (exact.astype(np.float16), labels),
        "float32": (probs, labels),
        "float64": (exact, labels),
        "columns first": (np.asfortranarray(exact.astype(np.float32)), labels),
        "ties": (exact.round(2), labels),
        "zeros": (np.where(exact < 0.03, 0.0, exact).astype(np.float32), labels),
        "duplicates": (np.repeat(exact[:80], 10, axis=0), np.repeat(labels[:80], 10)),
        "one-hot": (np.eye(10)[probs[:300].argmax(axis=1)], labels[:300]),
        "equal": (np.full((120, 10), 0.1), labels[:120]),
        "absent classes": (exact[labels < 6], labels[labels < 6]),
        "n 5": (exact[five], labels[five]),
        "n 40": (exact[:40], labels[:40]),
        "k 2": (two, (two[:, 1] + 0.3 * (labels - 4.5) / 4.5 > 0.5).astype(np.int64)),
        "k 2 n 5": (two[five], np.arange(5) % 2),
        "k 3": (exact[:, :3] / exact[:, :3].sum(axis=1, keepdims=True), labels % 3),
    }
    return Data(name, *cases[name], normalize=name in ("ties", "zeros"))


VARIETY = ("float32", "ties", "n 40", "k 2")
ROUGHLY = ("float16", "float64", "columns first", "zeros", "duplicates", "one-hot", "equal")
ROUGHLY += ("absent classes", "n 5", "k 2 n 5", "k 3")


def real(folder, name):
    """Return a data set from a file, with human labels and their matrices where it has some."""
    with np.load(Path(folder) / f"{name}.npz") as file:
        human = {
            f"human {matrix}".strip(): (nacp.MatrixNoise(file[f"noise_matrix{suffix}"]), file[labels])
            for labels, matrix, suffix in HUMAN_LABELS.get(name, ())
        }
        return Data(name, file["probs"], file["labels"].astype(np.int64), human)


HUMAN_LABELS = {
    "cifar10": [("human_sampled_noisy_labels", "", "")],
    "cifar10n": [
        (f"noisy_labels_{which}", which, f"_{which}")
        for which in ("aggre", "random1", "random2", "random3", "worse")
    ],
    "cifar100": [("cn100_sampled_noisy_labels", "", "")],
    "cifar100n": [("noisy_labels", "", "")],
}


def as_half(data):
    """Return the same in float16, where many probabilities are equal."""
    return data._replace(name=f"{data.name} float16", probs=data.probs.astype(np.float16))


class Part(NamedTuple):
    """One data set, how to get it, and what to do with it."""

    name: str
    load: Callable[[], Data]
    jobs: tuple[Callable[[Data], dict[str, Any]], ...]


def planned(*plans, n=None):
    """Return the jobs of plans, on some rows or on all."""
    return tuple(partial(_planned, plan, n) for plan in plans)


def _planned(plan, n, data):
    return calibrations(plan, data if n is None else data.some(n))


def sampled(function, n, **options):
    """Return the job of another function, on some rows."""
    return partial(_sampled, function, n, options)


def _sampled(function, n, options, data):
    return function(data.some(n), **options)


def _halved(plan, n, data):
    return calibrations(plan, as_half(data.some(n)))


def hard_parts():
    """Return what is done with the cases that are hard by construction."""
    curved = sampled(curves, 800, score_names=tuple(SCORES), noise_names=MAIN_NOISES)
    compared = sampled(comparisons, 800, noise_names=("uniform 0.2", "matrix"))
    for name in VARIETY:
        jobs = (*planned(EVERY_PAIR, EVERY_PROMISE, EVERY_TEST, NOT_SAID), *planned(TEST_OF_ALL, n=300))
        yield Part(name, partial(hard_case, name), (*jobs, curved, compared))
    for name in ROUGHLY:
        yield Part(name, partial(hard_case, name), planned(ROUGH, ROUGH_TEST))
    for name, n in (("k 3", 200), ("float32", 300), ("ties", 100)):
        yield Part(f"radius, {name}", partial(hard_case, name), planned(RADIUS, n=n))


def twin_parts():
    """Return what is done with simulated twins."""
    curved = sampled(curves, 500, score_names=tuple(SCORES), noise_names=MAIN_NOISES)
    compared = sampled(comparisons, 1500, noise_names=("uniform 0.2", "matrix", "none"))
    first = sampled(comparisons, 500, noise_names=("uniform 0.2", "groups"), crossing="first")
    split = sampled(splits, 1500, noise_names=("uniform 0.2", "uniform 0.5", "groups", "matrix"))
    for name, n in (("cifar10", 5000), ("cifar100", 3000)):
        jobs = planned(MANY_CLASSES, LARGER_TEST, DOUBT)
        yield Part(f"twin {name}", partial(twin, name, n), (*jobs, curved, compared, first, split))
    yield Part("twin tinyimagenet", partial(twin, "tinyimagenet", 3000), planned(MORE_CLASSES, FEW))
    for name in ("imagenet-resnet18", "imagenet-resnet50", "imagenet-densenet121", "imagenet-vitb16"):
        yield Part(f"twin {name}", partial(twin, name, 1500), planned(FEW))
    yield Part("large twin", partial(twin, "imagenet-resnet18", 20_000), planned(LARGE, LARGE_MATRIX))


def real_parts(folder):
    """Return what is done with the files."""
    split = sampled(splits, 4000, noise_names=("uniform 0.2",), score_names=("hps", "aps"))
    human = sampled(splits, 2000, noise_names=("human",), score_names=("hps", "raps"), count=6)
    halves = partial(_halved, FEW._replace(noises=("uniform 0.2", "matrix")), 2000)
    jobs = {
        "cifar10": (*planned(MANY_CLASSES, LARGER_TEST, REAL_LABELS, REAL_TEST), split, human, halves),
        "cifar10n": (*planned(REAL_LABELS, LARGE), *planned(REAL_TEST, n=10_000)),
        "cifar100": (*planned(FEW, REAL_LABELS), *planned(REAL_TEST, n=4000), split, human, halves),
        "cifar100n": (*planned(REAL_LABELS), *planned(REAL_TEST, n=4000)),
        "tinyimagenet": (*planned(LARGE, LARGE_MATRIX), *planned(FEW, n=4000), split, halves),
        "imagenet": (*planned(LARGE, LARGE_MATRIX), *planned(FEW, LARGE_TEST, n=2000), split, halves),
    }
    for name, each in jobs.items():
        yield Part(name, partial(real, folder, name), each)


def quick_parts(folder):
    """Return a subset that takes about a minute."""
    yield Part("float32", partial(hard_case, "float32"), planned(EVERY_PAIR))
    for name in ("float16", "ties", "one-hot", "n 5", "k 2"):
        yield Part(name, partial(hard_case, name), planned(ROUGH, ROUGH_TEST))
    yield Part("radius, k 3", partial(hard_case, "k 3"), planned(RADIUS, n=100))
    compared = sampled(comparisons, 500, noise_names=("matrix",))
    split = sampled(splits, 500, noise_names=("uniform 0.2", "groups"), count=4)
    jobs = (*planned(EVERY_PROMISE._replace(alphas=(0.1,))), compared, split)
    yield Part("twin cifar100", partial(twin, "cifar100", 1000), jobs)
    if folder is not None:
        yield Part("cifar10", partial(real, folder, "cifar10"), planned(REAL_LABELS, n=2000))
        yield Part("imagenet", partial(real, folder, "imagenet"), planned(FEW, n=500))


def done(part):
    """Do all jobs of a part; return what came out and how long it took."""
    warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
    start, found = time.perf_counter(), {}
    data = part.load()
    for job in part.jobs:
        add(found, job(data))
    return found, time.perf_counter() - start


def add(results, new):
    """Add new results; what comes twice must agree."""
    for key in results.keys() & new.keys():
        if results[key] != new[key]:
            raise RuntimeError(f"{key} was {results[key]}, and is {new[key]} the second time")
    results |= new


def measured(parts, workers):
    """Return the results of all parts, and tell of each when it is done."""
    results = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for part, (found, seconds) in zip(parts, pool.map(done, parts), strict=True):
            print(f"  {part.name}: {len(found)} results, {seconds:.1f} s", file=sys.stderr, flush=True)
            add(results, found)
    return results


def written(results):
    """Return the results as JSON, one on each line."""
    return (
        "{\n"
        + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in results.items())
        + "\n}\n"
    )


def differences(before, after):
    """Tell how two files differ; return whether a threshold does, or a result is in one of them only."""
    shared = [key for key in before if key in after]
    equal = [key for key in shared if before[key] == after[key]]
    changed = [key for key in shared if before[key] != after[key]]
    moved = [key for key in changed if before[key][0] != after[key][0]]
    kept = [key for key in changed if before[key][0] == after[key][0]]
    alone = [key for key in before.keys() ^ after.keys()]
    print(f"{len(equal)} of {len(before.keys() | after.keys())} results are equal")
    for title, keys in (("thresholds differ", moved), ("estimates only differ", kept)):
        listed(title, [f"{key}: {_shown(before[key])} -> {_shown(after[key])}" for key in keys])
    listed("results are in one file only", sorted(alone))
    return bool(moved or alone)


def listed(title, lines):
    """Print the first of some lines, if there are any."""
    if lines:
        print(f"{len(lines)} {title}:", *lines[:SHOWN], sep="\n  ")


def _shown(value):
    return value if value == REFUSED else ", ".join(f"{part} ({_decimal(part)})" for part in value)


def _decimal(text):
    return f"{float.fromhex(text):.9g}" if "0x" in text or text in ("inf", "-inf", "nan") else "digest"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of .npz files; only simulated data without it")
    parser.add_argument("-o", "--output", type=Path, default=Path("thresholds.json"))
    parser.add_argument("--quick", action="store_true", help="a subset that takes about a minute")
    parser.add_argument("--workers", type=int, default=1, help="how many processes share the data sets")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    options = parser.parse_args()
    if options.compare:
        sys.exit(differences(*(json.loads(path.read_text()) for path in options.compare)))
    if options.quick:
        parts = list(quick_parts(options.data))
    else:
        parts = [*hard_parts(), *twin_parts(), *(real_parts(options.data) if options.data else ())]
    start = time.perf_counter()
    results = measured(parts, options.workers)
    options.output.write_text(written(results))
    refused = sum(value == REFUSED for value in results.values())
    took = time.perf_counter() - start
    print(f"{len(results)} results, {refused} of them refused, in {took:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
