"""The same bits by every route: however points come, are read and are counted, thresholds are the same."""

import warnings
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.points import arrays, threads

N = 400
ALPHAS = [0.05, 0.1, 0.3]
ENGINES = ["numpy"] + (["native"] if find_spec("nacp.engine._native") is not None else [])

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
    "matrix": ("none", "expected", "acnl", "crcp"),
    "none": ("none",),  # "split" has the exact order statistic where the points are at hand
}


def guarantees_for(kind, k):
    """All of them for few classes; for many, those that look at most of what is counted."""
    return GUARANTEES[kind] if k < 100 else {"uniform": ("binomial",), "matrix": ("expected",)}[kind]


def points(k):
    rng = np.random.default_rng(k)
    logits = 2 * rng.standard_normal((N, k))
    truth = rng.integers(k, size=N)
    logits[np.arange(N), truth] += 6 * rng.random(N)
    probs = np.exp(logits)
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32)
    return probs, nacp.UniformNoise(0.2).sample(truth, k, rng)


@contextmanager
def quiet():
    with warnings.catch_warnings():
        for each in (nacp.NoValidThresholdWarning, nacp.NoiseModelWarning):
            warnings.simplefilter("ignore", each)
        yield


@contextmanager
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "block_entries", lambda in_place: 8000)
        yield


@contextmanager
def so_many_threads(number):
    """Threads also where there is little to do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "thread_count", lambda: number)
        patch.setattr(arrays, "thread_count", lambda: number)
        patch.setattr(arrays, "_ENTRIES_PER_THREAD", 1)
        yield


def ways_to_read(name):
    """Only the compiled engine has threads."""
    return nullcontext(), small_blocks(), *(so_many_threads(i) for i in (1, 2) if name == "native")


def thresholds(probs, labels, kind, score, guarantees=None):
    found = {}
    with quiet():
        for guarantee in guarantees or guarantees_for(kind, probs.shape[1]):
            noise = noise_of(kind, probs.shape[1])
            options = {"noise": noise, "score": score, "guarantee": guarantee, "alpha": ALPHAS}
            cals = nacp.calibrate(probs, labels, **options)
            found[guarantee] = [(cal.threshold, cal.estimate) for cal in cals]
    return found


def of_stream(stream, kind):
    with quiet():
        return {
            guarantee: [
                (cal.threshold, cal.estimate) for cal in stream.finish(alpha=ALPHAS, guarantee=guarantee)
            ]
            for guarantee in guarantees_for(kind, stream.k)
        }


CASES = [
    pytest.param(score, kind, k, id=f"{name}-{kind}-{k}")
    for name, score in SCORES.items()
    for kind in GUARANTEES
    for k in ((12, 200) if kind in ("uniform", "matrix") else (12,))
]
every_case = pytest.mark.parametrize(("score", "kind", "k"), CASES)


def given(k, score):
    probs, labels = points(k)
    precomputed = isinstance(score, nacp.Precomputed)
    return (1 - probs if precomputed else probs), labels


@every_case
def test_engines_threads_and_blocks_do_not_matter(score, kind, k):
    probs, labels = given(k, score)
    found = []
    for name in ENGINES:
        for how in ways_to_read(name):
            with engine.using(name), how:
                found.append(thresholds(probs, labels, kind, score))
    assert all(each == found[0] for each in found)
    assert any(np.isfinite(q) for cals in found[0].values() for q, _ in cals)


@every_case
def test_memory_maps_tensors_and_dask_arrays_do_not_matter(score, kind, k, tmp_path):
    probs, labels = given(k, score)
    expected = thresholds(probs, labels, kind, score)
    np.save(tmp_path / "probs.npy", probs)
    assert thresholds(np.load(tmp_path / "probs.npy", mmap_mode="r"), labels, kind, score) == expected
    assert thresholds(np.asfortranarray(probs), labels, kind, score) == expected
    assert thresholds(probs.astype(np.float64), labels, kind, score) == expected
    if find_spec("torch") is not None:
        torch = pytest.importorskip("torch")
        assert thresholds(torch.tensor(probs), labels, kind, score) == expected
    if find_spec("dask") is not None:
        da = pytest.importorskip("dask.array")
        for chunks in ((150, k), (N, k)):
            assert thresholds(da.from_array(probs, chunks=chunks), labels, kind, score) == expected


@every_case
def test_batches_merged_and_subtracted_do_not_matter(score, kind, k):
    probs, labels = given(k, score)
    noise, rng = noise_of(kind, k), np.random.default_rng(0)
    expected = thresholds(probs, labels, kind, score)
    whole = nacp.Calibrator(k, noise=noise, score=score)
    parts = []
    for rows in np.split(rng.permutation(N), [1, 130, 133]):
        whole.update(probs[rows], labels[rows])
        part = whole.fresh()
        part.update(probs[rows], labels[rows])
        parts.append(part)
    assert of_stream(whole, kind) == expected
    merged = sum(parts[::-1])
    assert of_stream(merged, kind) == expected
    more = whole.fresh()
    more.update(probs[:50], labels[:50])
    assert of_stream((merged + more) - more, kind) == expected


@pytest.mark.parametrize("name", SCORES)
def test_pac_and_split_depend_on_the_points_alone(name, tmp_path):
    """They look at the points again, so dask arrays and streams are refused with "pac"."""
    score = SCORES[name]
    for k in (12, 200):
        probs, labels = given(k, score)
        np.save(tmp_path / "probs.npy", probs)
        mapped = np.load(tmp_path / "probs.npy", mmap_mode="r")
        for kind, guarantee in (("uniform" if k == 12 else "matrix", "pac"), ("none", "split")):
            found = []
            for each in ENGINES:
                for how in ways_to_read(each):
                    with engine.using(each), how:
                        found.append(thresholds(probs, labels, kind, score, [guarantee]))
            found.append(thresholds(mapped, labels, kind, score, [guarantee]))
            if find_spec("torch") is not None:
                torch = pytest.importorskip("torch")
                found.append(thresholds(torch.tensor(probs), labels, kind, score, [guarantee]))
            assert all(each == found[0] for each in found)
