"""The search at sizes where it has to search: exact, and in few reads of the matrix."""

import numpy as np
import pytest

import nacp
from nacp.coverage import Evidence

N, K = 3000, 150
SCORES = {"hps": nacp.HPS(), "aps": nacp.APS(), "aps-det": nacp.APS(randomized=False), "raps": nacp.RAPS()}


def smooth(rng):
    return rng.standard_exponential((N, K)) ** 4


def mostly_zeros(rng):
    """Nine of ten probabilities are exactly 0: one atom that holds most of the pairs."""
    return np.where(rng.random((N, K)) < 0.9, 0.0, smooth(rng)) + 1e-3 * np.eye(K)[np.arange(N) % K]


def nearly_certain(rng):
    return np.eye(K)[rng.integers(K, size=N)] * 1e4 + smooth(rng)


NOISES = {
    "uniform .2": nacp.UniformNoise(0.2),
    "uniform .8": nacp.UniformNoise(0.8),
    "groups": nacp.GroupNoise(np.arange(K) // 6, rate=0.4),
    "matrix": nacp.MatrixNoise(
        0.75 * np.eye(K) + 0.25 * np.random.default_rng(5).dirichlet(np.full(K, 0.3), K)
    ),
}


def by_sorting_everything(scores, weights, target, rule):
    """The definition: a signed, weighted ECDF over all n k scores."""
    order = np.argsort(scores, axis=None)
    distinct, last = np.unique(scores.ravel()[order][::-1], return_index=True)
    exact = np.cumsum(
        weights.ravel()[order].astype(np.longdouble)
    )  # in float64 the sum itself rounds by 1e-12
    estimate = (exact[scores.size - 1 - last] / N).astype(np.float64)
    reached = estimate >= target - 1e-12
    if rule == "first":
        place = int(np.argmax(reached))
    else:
        place = len(reached) - int(np.argmax(~reached[::-1])) if not reached.all() else 0
    return distinct[place], estimate[place]


@pytest.mark.parametrize("rule", ["first", "last"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("make", [smooth, mostly_zeros, nearly_certain])
@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_the_search_finds_what_sorting_everything_finds_in_few_reads(score, make, noise, rule, monkeypatch):
    rng = np.random.default_rng(7)
    probs = make(rng)
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32)
    labels = noise.sample(np.argmax(probs * rng.random((N, K)), axis=1), K, random_state=8)
    scores = score.scores(probs) - score.offset if score.offset == 0 else -probs.astype(np.float64)
    weights = noise.inverse(K).dense()[labels]
    reads = []
    sweep = Evidence.sweep
    monkeypatch.setattr(
        Evidence, "sweep", lambda *args, **options: reads.append(1) or sweep(*args, **options)
    )
    for alpha in (0.01, 0.1, 0.4):
        reads.clear()
        cal = nacp.calibrate(
            probs, labels, noise=noise, alpha=alpha, score=score, guarantee="none", crossing=rule
        )
        # The first look, and then each read cuts the open range in 13 or scans a part as large as may be
        # held: 64 bits are used up after 18 cuts, and the 450,000 pairs after one scan.
        assert len(reads) <= 20
        threshold, estimate = by_sorting_everything(scores, weights, 1 - alpha, rule)
        assert cal.native_threshold == threshold
        assert cal.estimate == pytest.approx(estimate, abs=1e-12)


@pytest.mark.parametrize("rule", ["first", "last"])
@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
@pytest.mark.parametrize("seed", range(4))
def test_many_alphas_at_once_find_what_each_finds_alone(score, rule, seed):
    """What is known up to a bound, for one alpha, may lie where another one has scanned all pairs."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(2 * K, 0.3), N)
    clean = (probs.cumsum(axis=1) > rng.random((N, 1))).argmax(axis=1)
    labels = nacp.UniformNoise(0.2).sample(clean, 2 * K, rng)
    alphas = np.sort(rng.uniform(0.01, 0.5, 12)).tolist()
    for rate in (0.1, 0.2):
        options = {"noise": rate, "score": score, "guarantee": "none", "crossing": rule}
        found = nacp.calibrate(probs, labels, alpha=alphas, **options)
        for alpha, cal in zip(alphas, found, strict=True):
            alone = nacp.calibrate(probs, labels, alpha=alpha, **options)
            assert (cal.native_threshold, cal.estimate) == (alone.native_threshold, alone.estimate)
