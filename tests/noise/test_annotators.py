"""Each label weighed by its annotator's own matrix."""

import math
from fractions import Fraction

import numpy as np
import pytest

import nacp
from tests import oracle

GOOD, BAD = (Fraction(7, 8), Fraction(1, 8)), (Fraction(5, 8), Fraction(3, 8))
GUESS = np.full((2, 2), 0.5)
N, ALPHA, DELTA, RUNS = 300, 0.2, 0.1, 150


def two_classes(right, wrong):
    return [[right, wrong], [wrong, right]]


def test_the_threshold_is_where_the_weighted_shares_cross():
    models = [two_classes(*GOOD), two_classes(*BAD), two_classes(*GOOD)]
    noise = nacp.AnnotatorNoise(np.array(models, dtype=float))
    W = [oracle.inverse(P) for P in models]
    weights = [oracle.exact(w) for w in noise.weights.tolist()]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(8, 20))
        first = rng.integers(1, 64, size=n) / 64
        probs, labels = np.stack([first, 1 - first], axis=1), rng.integers(2, size=(n, 3))
        labels[rng.random(labels.shape) < 0.3] = -1
        labels[np.arange(n), rng.integers(3, size=n)] = rng.integers(2, size=n)
        shares = []
        for given in labels.tolist():
            own = [(weights[a], W[a][y]) for a, y in enumerate(given) if y >= 0]
            total = sum(w for w, _ in own)
            shares.append([sum(w * row[c] for w, row in own) / total for c in (0, 1)])
        rows = [oracle.scores("hps", row) for row in probs]
        for alpha in (0.137, 0.291):
            cal = nacp.calibrate(probs, labels, noise=noise, alpha=alpha, guarantee="none")
            expected = oracle.last_crossing(rows, range(n), shares, 1 - oracle.exact(alpha))
            if expected is None:
                assert cal.threshold == math.inf
                continue
            assert oracle.exact(cal.threshold) == expected
            estimate = oracle.clean_coverage(rows, range(n), shares, expected)
            assert cal.estimate == pytest.approx(float(estimate), abs=1e-9)


def test_annotators_who_are_alike_are_one_matrix():
    rng = np.random.default_rng(0)
    P = 0.8 * np.eye(5) + 0.2 * np.roll(np.eye(5), 1, axis=1)
    probs = rng.dirichlet(np.full(5, 0.3), size=400)
    labels = np.stack([nacp.MatrixNoise(P).sample(probs.argmax(axis=1), 5, rng) for _ in range(3)], axis=1)
    labels[rng.random(labels.shape) < 0.2] = -1
    labels[:, 0] = np.maximum(labels[:, 0], 0)
    for guarantee in ("pac", "expected", "none"):
        one = nacp.calibrate(probs, labels, noise=P, guarantee=guarantee)
        own = nacp.calibrate(probs, labels, noise=nacp.AnnotatorNoise([P, P, P]), guarantee=guarantee)
        assert (own.threshold, own.several) == (one.threshold, one.several)
    single = nacp.calibrate(probs, labels[:, 0], noise=nacp.AnnotatorNoise([P, P, P]))
    assert single.threshold == nacp.calibrate(probs, labels[:, 0], noise=P).threshold


@pytest.mark.parametrize("guarantee", ["pac", "expected", "none"])
def test_the_order_of_the_annotators_does_not_matter(guarantee):
    """With the worse annotator in the first column, "pac" found no threshold."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.2), size=300)
    true = np.minimum((probs.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1), 3)
    noises = [nacp.UniformNoise(rate) for rate in (0.1, 0.9)]
    labels = np.stack([noise.sample(true, 4, rng) for noise in noises], axis=1)
    matrices = [noise.matrix(4).dense() for noise in noises]
    one, other = (
        nacp.calibrate(
            probs,
            labels[:, order],
            noise=nacp.AnnotatorNoise([matrices[a] for a in order]),
            alpha=0.2,
            guarantee=guarantee,
        ).threshold
        for order in ([0, 1], [1, 0])
    )
    assert one == other < math.inf


def test_one_who_guesses_counts_for_nothing():
    rng = np.random.default_rng(1)
    P = np.array(two_classes(*map(float, GOOD)))
    first = rng.random(300)
    probs = np.stack([first, 1 - first], axis=1)
    labels = nacp.MatrixNoise(P).sample((rng.random(300) > first).astype(int), 2, rng)
    both = np.stack([labels, rng.integers(2, size=300)], axis=1)
    noise = nacp.AnnotatorNoise([P, GUESS])
    assert noise.weights.tolist() == [1, 0]
    cal = nacp.calibrate(probs, both, noise=noise, alpha=0.3)
    assert cal.threshold == nacp.calibrate(probs, labels, noise=P, alpha=0.3).threshold
    both[7, 0] = -1
    with pytest.raises(nacp.InputError, match="row 7 only labels of annotators who almost guess"):
        nacp.calibrate(probs, both, noise=noise)


def test_a_noise_of_annotators_is_refused_where_it_cannot_be_right():
    P = np.array(two_classes(*map(float, GOOD)))
    with pytest.raises(nacp.InputError, match=r"shape \(annotators, k, k\); found \(2, 2\)"):
        nacp.AnnotatorNoise(P)
    with pytest.raises(nacp.InputError, match=r"matrices\[1\] must be a noise matrix with rows"):
        nacp.AnnotatorNoise([P, 2 * P])
    with pytest.raises(nacp.InputError, match="shares must be 2 numbers of at least 0"):
        nacp.AnnotatorNoise([P, P], [1, -1])
    probs, labels = np.full((4, 2), 0.5), np.zeros((4, 3), dtype=int)
    with pytest.raises(nacp.InputError, match="column for each of the 2 annotators of the noise"):
        nacp.calibrate(probs, labels, noise=nacp.AnnotatorNoise([P, P]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_pac_keeps_its_promise_whoever_labels_what():
    """Who labels an item depends on how hard it is, which one matrix for all does not allow."""
    rng = np.random.default_rng(5)
    own = nacp.AnnotatorNoise([nacp.UniformNoise(rate).matrix(4).dense() for rate in (0.05, 0.5)])
    found = {"own": [], "mean": []}
    for _ in range(RUNS):
        true = rng.integers(4, size=N)
        scores = np.full((N, 4), 2.0)
        u = rng.random(N)
        scores[np.arange(N), true] = u  # so that F^c(q) = q
        labels = np.stack([nacp.UniformNoise(rate).sample(true, 4, rng) for rate in (0.05, 0.5)], axis=1)
        labels[u > 0.7, 0] = -1  # the careful one does the easy half
        labels[u < 0.3, 1] = -1
        for name, noise in (("own", own), ("mean", nacp.MatrixNoise(own.matrix(4).dense()))):
            cal = nacp.calibrate(
                scores, labels, noise=noise, alpha=ALPHA, guarantee=nacp.PAC(DELTA), score="precomputed"
            )
            found[name].append(min(cal.threshold, 1.0))
    error = math.sqrt(DELTA * (1 - DELTA) / RUNS)
    assert np.mean(np.array(found["own"]) < 1 - ALPHA) <= DELTA + 3 * error
    assert np.mean(np.array(found["mean"]) < 1 - ALPHA) > DELTA + 3 * error
