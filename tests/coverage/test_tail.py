"""The unlikely labels of ranked scores, which are counted by bins of their probability: by definition.

All arithmetic on probabilities is exact here: they enter as multiples of 2^-52, as the library rounds them.
The formulas themselves are evaluated in floating point, operation by operation, as their bits decide.
"""

import math
import os
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.coverage.curve import Curve
from nacp.coverage.grid import CELLS, GRID
from nacp.coverage.sample import Sample
from nacp.noise import as_noise
from nacp.paper import twins
from nacp.points import open_rows

ENGINES = ["numpy"]
ENGINES += ["native"] if find_spec("nacp.engine._native") is not None else []
ENGINES += ["torch"] if find_spec("torch") is not None else []

HEAD_LABELS, HEAD_MASS, LOWEST, PER_OCTAVE = 128, Fraction(31, 32), Fraction(1, 2**40), 16


class Place(NamedTuple):
    """Where a label stands in its row, in exact numbers; u as a float."""

    p: Fraction
    above: Fraction
    upto: Fraction
    n_above: int
    n_upto: int
    top: Fraction
    second: Fraction
    u: float | None


def aps(at, penalty=None, free=None):
    score = float(at.upto) if at.u is None else float(at.above) + at.u * float(at.p)
    return score if penalty is None else score + penalty * max(at.n_upto - free, 0)


def saps(at, penalty):
    v = 1.0 if at.u is None else at.u
    return v * float(at.top) if at.n_above == 0 else float(at.top) + penalty * (at.n_above - 1 + v)


def margin(at):
    return float((at.second if at.p == at.top else at.top) - at.p)


SCORES = {
    "aps": (nacp.APS(randomized=False), aps),
    "raps": (nacp.RAPS(randomized=False, penalty=0.01, free=5), lambda at: aps(at, 0.01, 5)),
    "saps": (nacp.SAPS(randomized=False, penalty=0.2), lambda at: saps(at, 0.2)),
    "margin": (nacp.Margin(), margin),
    "topk": (nacp.TopK(), lambda at: float(at.n_upto)),
    "aps with u": (nacp.APS(seed=3), aps),
    "raps with u": (nacp.RAPS(seed=3, penalty=0.01, free=5), lambda at: aps(at, 0.01, 5)),
    "saps with u": (nacp.SAPS(seed=3, penalty=0.2), lambda at: saps(at, 0.2)),
}
every_score = pytest.mark.parametrize(("score", "formula"), SCORES.values(), ids=SCORES)


def bin_of(p):
    """The least probability of the bin that p lies in, and the next bin's; all below 2^-40 share one."""
    if p < LOWEST:
        return Fraction(0), LOWEST
    octave = Fraction(2) ** (math.frexp(float(p))[1] - 1)
    part = math.floor((p / octave - 1) * PER_OCTAVE)
    return octave * (1 + Fraction(part, PER_OCTAVE)), octave * (1 + Fraction(part + 1, PER_OCTAVE))


def cells_by_definition(row, u, formula):
    """The cells of the losses and of the gains of all labels of a row."""
    exact = [Fraction(float(v)) for v in row]
    p = [Fraction(round(v * 2**52), 2**52) for v in exact]
    bins = list(map(bin_of, exact))
    k, order = len(row), sorted(range(len(row)), key=lambda j: -exact[j])
    top, second = p[order[0]], p[order[1]]
    early, late, before, place = [0.0] * k, [0.0] * k, Fraction(0), 0
    while place < k:
        low, high = bins[order[place]]
        here = [j for j in order[place:] if bins[j] == (low, high)]
        upto, last = before + sum(p[j] for j in here), place + len(here)
        if place < HEAD_LABELS or before < HEAD_MASS:
            for j in here:
                above = [i for i in here if exact[i] > exact[j]]
                same = [i for i in here if exact[i] == exact[j]]
                mass, number = before + sum(p[i] for i in above), place + len(above)
                at = Place(
                    p[j], mass, mass + sum(p[i] for i in same), number, number + len(same), top, second, u
                )
                early[j] = late[j] = formula(at)
        else:
            first = [Place(q, before, before + q, place, place + 1, top, second, u) for q in (low, high)]
            final = [Place(q, upto - q, upto, last - 1, last, top, second, u) for q in (low, high)]
            for j in here:
                early[j], late[j] = min(map(formula, first)), max(map(formula, final))
        before, place = upto, last
    return [np.searchsorted(GRID, each) for each in (early, late)]


def some_rows(k, dtype):
    """Sharp, flat and tied rows, with zeros and with labels below 2^-40."""
    rng = np.random.default_rng(k)
    logits = rng.standard_normal((8, k)) * np.array([1, 2, 4, 6] * 2)[:, None]
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs[3] = np.round(probs[3] * 64) + np.exp(-np.arange(k) / 20)
    probs[6, k // 2 :] = 0
    probs[7, ::2] = probs[7, 1::2]
    return (probs / probs.sum(axis=1, keepdims=True)).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("k", [300, 500])
@every_score
def test_every_label_is_counted_in_its_cell_by_definition(score, formula, k):
    for dtype in (np.float32, np.float64):
        values, spec = some_rows(k, dtype), score.spec
        n, rng = len(values), np.random.default_rng(1)
        u = engine.uniforms(values, spec.seed) if spec.seed is not None else [None] * n
        found = [cells_by_definition(row, each, formula) for row, each in zip(values, u, strict=True)]
        early, late = (np.array([each[i] for each in found]) for i in (0, 1))
        assert (early <= late).all()
        assert (early < late).any(), "some labels are beyond the head"
        table = rng.integers(-5, 6, size=(4, k))
        which = rng.integers(4, size=n)
        weights = table[which]
        pairs = np.bincount(early.reshape(-1), minlength=CELLS)
        gains, losses = np.zeros((2, CELLS), dtype=np.int64)
        np.add.at(gains, late, np.maximum(weights, 0))
        np.add.at(losses, early, np.maximum(-weights, 0))
        at = np.unique(np.quantile(np.concatenate([early, late]), np.linspace(0, 1, 40)).astype(np.int64))
        own, nothing = np.empty((n, 0)), np.empty((n, 0), dtype=np.int64)
        sizes = np.count_nonzero(early[:, :, None] <= at, axis=1)
        held = (np.maximum(weights, 0)[:, :, None] * (late[:, :, None] <= at)).sum(axis=1)
        held -= (np.maximum(-weights, 0)[:, :, None] * (early[:, :, None] <= at)).sum(axis=1)
        for name in ENGINES:
            with engine.using(name):
                cells, (counted,) = engine.tally(values, spec)
                assert np.array_equal(np.bincount(cells, counted, CELLS), pairs), name
                cells, counted = engine.tally(values, spec, which, table)
                expected = np.stack([pairs, gains, losses])
                assert np.array_equal(counted, expected[:, cells]), name
                assert not np.delete(expected, cells, axis=1).any(), name
                assert np.array_equal(engine.shares(values, spec, at, own, nothing, 1.0), sizes), name
                shares = engine.shares(values, spec, at, own, nothing, 1.0, which, table)
                assert np.array_equal(shares, held), name


def curves(probs, labels, noise, score):
    """The estimate from the tally, and that of coverage_curve, at the points of the grid that hold scores."""
    sample = Sample.of(open_rows(probs), labels, score)
    curve = Curve.of(sample, as_noise(noise))
    finite = curve.cells < CELLS - 1
    at = score.spec.thresholds[curve.cells[finite]] + score.offset
    exact = nacp.coverage_curve(probs, labels, noise=noise, score=score, thresholds=at)
    return curve.clean[finite], exact.clean


@pytest.mark.parametrize("kind", ["uniform", "matrix"])
@every_score
def test_the_estimate_is_nowhere_above_the_exact_one(score, formula, kind):
    k = 300
    probs = np.concatenate([some_rows(k, np.float32), some_rows(k, np.float32)[:, ::-1]])
    rng = np.random.default_rng(2)
    noise = 0.2 if kind == "uniform" else 0.8 * np.eye(k) + 0.2 * rng.dirichlet(np.full(k, 0.1), size=k)
    found, exact = curves(probs, rng.integers(k, size=len(probs)), noise, score)
    assert (found <= exact + 1e-9).all()
    assert (found < exact - 1e-6).any(), "and below it somewhere"


@pytest.mark.skipif("NACP_BENCHMARK_DATA" not in os.environ, reason="NACP_BENCHMARK_DATA is not set")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["cifar100", "tinyimagenet", "imagenet"])
@every_score
def test_on_real_classifiers_little_is_lost(score, formula, name):
    """At 20% uniform noise: at most 0.002 of coverage up to where 98% are covered, and little more beyond."""
    data = np.load(Path(os.environ["NACP_BENCHMARK_DATA"]) / f"{name}.npz")
    probs, labels = data["probs"][:800], data["labels"][:800]
    noisy = nacp.UniformNoise(0.2).sample(labels, probs.shape[1], random_state=0)
    found, exact = curves(probs, noisy, 0.2, score)
    assert (found <= exact + 1e-9).all()
    assert (exact - found)[exact <= 0.98].max(initial=0) <= 0.002
    assert (exact - found).max() <= 0.003


@every_score
def test_a_right_model_is_not_contradicted_by_the_tail(score, formula):
    """Where most labels are below 2^-40, pairs are counted far below the scores of noisy ones among them."""
    probs, labels = twins.simulate("imagenet-resnet18", n=2000, random_state=0)
    sharp = probs.astype(np.float64) ** 2
    sharp /= sharp.sum(axis=1, keepdims=True)
    noisy = nacp.UniformNoise(0.6).sample(labels, 1000, random_state=0)
    for each in (probs, sharp.astype(np.float32)):
        assert nacp.calibrate(each, noisy, noise=0.6, score=score, guarantee="none").warnings == ()
