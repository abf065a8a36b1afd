"""The same bits by every route: arrays, maps, tensors, dask arrays, streams, engines, threads and blocks."""

import warnings
from contextlib import contextmanager, nullcontext
from functools import cache

import numpy as np
import pytest

import nacp
from nacp import engine
from tests.reading import blocks_of, on_threads

N = 200
ALPHAS = [0.05, 0.1, 0.3]

SCORES = {
    "hps": nacp.HPS(),
    "aps": nacp.APS(seed=2),
    "raps": nacp.RAPS(seed=2, free=2),
    "aps, deterministic": nacp.APS(randomized=False),
    "raps, deterministic": nacp.RAPS(randomized=False, free=2),
    "saps": nacp.SAPS(seed=2),
    "margin": nacp.Margin(),
    "topk": nacp.TopK(),
    "precomputed": nacp.Precomputed(),
    "function": lambda p: 1 - p.astype(np.float64) ** 2,
}


def noise_of(kind, k):
    matrix = 0.8 * np.eye(k) + 0.2 * np.roll(np.eye(k), 1, axis=1)
    return {
        "uniform": nacp.UniformNoise(0.2),
        "interval": nacp.UniformNoise(0.2, interval=(0.15, 0.25)),
        "matrix": nacp.MatrixNoise(matrix),
        "none": None,
    }[kind]


GUARANTEES = {
    "uniform": ("none", "expected", "nacp", "acnl", "crcp", "binomial"),
    "interval": ("expected", "nacp", "binomial"),
    "matrix": ("none", "expected", "nacp", "acnl", "crcp"),
    "none": ("none",),  # "split" has the exact order statistic where the points are at hand
}
# Of the fast ones, all guarantees with one score; with the others, one for each kind of tally.
FAST = [(12, kind, "hps", GUARANTEES[kind]) for kind in GUARANTEES]
FAST += [(200, "matrix", name, ("expected",)) for name in ("hps", "raps")]
SLOW = [(200, "uniform", name, ("binomial",)) for name in SCORES]
for name in list(SCORES)[1:]:
    FAST += [(12, "uniform", name, ("binomial",)), (12, "matrix", name, ("expected",))]
    SLOW += [(12, kind, name, GUARANTEES[kind]) for kind in GUARANTEES]
every_case = pytest.mark.parametrize(
    ("k", "kind", "name", "guarantees"),
    [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)


@cache
def points(k, name):
    rng = np.random.default_rng(k)
    logits = 2 * rng.standard_normal((N, k))
    truth = rng.integers(k, size=N)
    logits[np.arange(N), truth] += 6 * rng.random(N)
    probs = np.exp(logits)
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32)
    labels = nacp.UniformNoise(0.2).sample(truth, k, rng)
    return (1 - probs if name == "precomputed" else probs), labels


@contextmanager
def quiet():
    with warnings.catch_warnings():
        for each in (nacp.NoValidThresholdWarning, nacp.NoiseModelWarning):
            warnings.simplefilter("ignore", each)
        yield


def thresholds(probs, labels, kind, name, guarantees):
    """Return the thresholds and estimates by guarantee, for several alphas."""
    found = {}
    for guarantee in guarantees:
        options = {"noise": noise_of(kind, probs.shape[1]), "score": SCORES[name], "alpha": ALPHAS}
        with quiet():
            cals = nacp.calibrate(probs, labels, guarantee=guarantee, **options)
        found[guarantee] = [(cal.threshold, cal.estimate) for cal in cals]
    return found


@cache
def expected(k, kind, name, guarantees):
    """The thresholds of an array in memory, by the NumPy engine, which defines what the others return."""
    with engine.using("numpy"):
        return thresholds(*points(k, name), kind, name, guarantees)


def of_stream(stream, guarantees):
    with quiet():
        return {
            each: [(cal.threshold, cal.estimate) for cal in stream.finish(alpha=ALPHAS, guarantee=each)]
            for each in guarantees
        }


def ways_to_read(engine):
    """Read all at once, and in blocks or with the compiled engine on two threads."""
    return nullcontext(), on_threads(2) if engine == "native" else blocks_of(8000)


@every_case
def test_engines_threads_and_blocks_do_not_matter(every_engine, k, kind, name, guarantees):
    case = kind, name, guarantees
    for how in ways_to_read(every_engine):
        with how:
            assert thresholds(*points(k, name), *case) == expected(k, *case)
    assert any(np.isfinite(q) for cals in expected(k, *case).values() for q, _ in cals)


@every_case
def test_containers_layouts_and_widths_do_not_matter(k, kind, name, guarantees, tmp_path):
    torch, da = pytest.importorskip("torch"), pytest.importorskip("dask.array")
    probs, labels = points(k, name)
    np.save(tmp_path / "probs.npy", probs)
    for same in (
        np.load(tmp_path / "probs.npy", mmap_mode="r"),
        np.asfortranarray(probs),
        probs.astype(np.float64),
        torch.tensor(probs),
        da.from_array(probs, chunks=(90, k)),
    ):
        assert thresholds(same, labels, kind, name, guarantees) == expected(k, kind, name, guarantees)


@every_case
def test_batches_merged_and_subtracted_do_not_matter(k, kind, name, guarantees):
    probs, labels = points(k, name)
    rng = np.random.default_rng(0)
    whole = nacp.Calibrator(k, noise=noise_of(kind, k), score=SCORES[name])
    parts = []
    for rows in np.split(rng.permutation(N), [1, 130, 133]):
        whole.update(probs[rows], labels[rows])
        part = whole.fresh()
        part.update(probs[rows], labels[rows])
        parts.append(part)
    assert whole == (merged := sum(parts[::-1]))
    more = whole.fresh()
    more.update(probs[:50], labels[:50])
    assert (merged + more) - more == whole
    assert of_stream(merged, guarantees) == expected(k, kind, name, guarantees)


@pytest.mark.parametrize("name", ["hps", "aps", "raps, deterministic", "margin", "function"])
@pytest.mark.parametrize(
    ("k", "kind", "guarantee"), [(12, "uniform", "pac"), (60, "matrix", "pac"), (60, "none", "split")]
)
def test_pac_and_split_depend_on_the_points_alone(every_engine, k, kind, guarantee, name, tmp_path):
    """They read the points again, so "pac" refuses dask arrays and streams."""
    probs, labels = points(k, name)
    np.save(tmp_path / "probs.npy", probs)
    routes = [(probs, how) for how in ways_to_read(every_engine)]
    routes[1] = np.load(tmp_path / "probs.npy", mmap_mode="r"), routes[1][1]
    if every_engine == "torch":
        routes[0] = pytest.importorskip("torch").tensor(probs), routes[0][1]
    for same, how in routes:
        with how:
            found = thresholds(same, labels, kind, name, (guarantee,))
            assert found == expected(k, kind, name, (guarantee,))
