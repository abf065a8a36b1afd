"""Several labels for each point: their shares are averaged, and "pac" keeps its promise."""

import math
from fractions import Fraction

import numpy as np
import pytest

import nacp
from nacp.coverage.curve import Curve
from nacp.coverage.tally import Sample
from nacp.points import open_rows
from tests import oracle
from tests.problems import NOISES, dyadic_rows

WHOLE = 1e-9  # The weights are whole multiples of 2^-35 or so, and parts of 2^-30, so sums round by less.


def problem(seed):
    """A generator, rows with ties, and up to four labels for each, some of them missing."""
    rng = np.random.default_rng(seed)
    n, k, a = int(rng.integers(8, 20)), int(rng.integers(2, 6)), int(rng.integers(2, 5))
    labels = rng.integers(k, size=(n, a))
    labels[rng.random(labels.shape) < 0.3] = -1
    labels[np.arange(n), rng.integers(a, size=n)] = rng.integers(k, size=n)
    return rng, dyadic_rows(rng, n, k), labels


def averaged(W, labels):
    """The mean of the rows of W that belong to the labels of each point, as a row for each point."""
    rows = []
    for given in labels.tolist():
        own = [W[y] for y in given if y >= 0]
        rows.append([sum(column, Fraction(0)) / len(own) for column in zip(*own, strict=True)])
    return rows


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning", "ignore::nacp.NoiseModelWarning")
@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("crossing", ["first", "last"])
@pytest.mark.parametrize("name", ["hps", "aps"])
def test_thresholds_and_estimates_are_those_of_averaged_shares(kind, crossing, name):
    score = nacp.HPS() if name == "hps" else nacp.APS(randomized=False)
    find = oracle.last_crossing if crossing == "last" else oracle.first_crossing
    for seed in range(5):
        rng, probs, labels = problem(seed)
        noise, P = NOISES[kind](rng, *probs.shape)
        W = averaged(oracle.inverse(P), labels)
        rows = oracle.on_grid([oracle.scores(name, row) for row in probs])
        known = {"noise": noise, "score": score, "guarantee": "none", "crossing": crossing}
        for alpha in (0.137, 0.291):
            cal = nacp.calibrate(probs, labels, alpha=alpha, **known)
            expected = find(rows, range(len(W)), W, 1 - oracle.exact(alpha))
            assert cal.threshold == (math.inf if expected is None else float(expected))
            estimate = oracle.clean_coverage(rows, range(len(W)), W, expected)
            assert cal.estimate == pytest.approx(min(float(estimate), 1.0), abs=WHOLE)
        for q, clean in zip(cal.curve.thresholds, cal.curve.clean, strict=True):
            found = oracle.clean_coverage(rows, range(len(W)), W, oracle.exact(q))
            assert clean == pytest.approx(min(max(float(found), 0), 1), abs=WHOLE)
        if noise is not None:
            cal = nacp.calibrate(probs, labels, alpha=0.6, **known | {"guarantee": nacp.NACP(0.99)})
            held = [oracle.in_set(row, cal.threshold) for row in rows]
            shares = [float(sum(W[i][label] for label in labels)) for i, labels in enumerate(held)]
            # Shares are rounded to multiples of 2^-20 before their moments are summed up.
            assert cal.deviation == pytest.approx(np.std(shares), abs=2.0**-19)


@pytest.mark.parametrize("guarantee", ["pac", "expected"])
@pytest.mark.parametrize(
    "noise", [0.2, 0.8 * np.eye(5) + 0.2 * np.roll(np.eye(5), 1, axis=1)], ids=["u", "m"]
)
def test_the_same_label_several_times_is_one_label(guarantee, noise):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(5, 0.3), size=400)
    labels = nacp.UniformNoise(0.2).sample(probs.argmax(axis=1), 5, rng)
    once = nacp.calibrate(probs, labels, noise=noise, guarantee=guarantee)
    table = np.stack([labels, np.full(400, -1), labels, labels], axis=1)
    several = nacp.calibrate(probs, table, noise=noise, guarantee=guarantee)
    assert several.threshold == once.threshold
    assert several.estimate == pytest.approx(once.estimate, abs=WHOLE)
    assert several.promise == once.promise
    assert (several.n, several.several) == (400, 1200)
    assert "for each label of a point" in several.assumptions
    assert "1,200 noisy labels of 400 points" in str(several)


def test_missing_labels_may_be_written_in_any_way(tmp_path):
    _, probs, labels = problem(3)
    names = tuple("abcdef"[: probs.shape[1]])
    gaps = labels < 0
    cal = nacp.calibrate(probs, labels, noise=0.25, guarantee="none")
    floats = np.where(gaps, np.nan, labels)
    masked = np.ma.masked_array(np.maximum(labels, 0), gaps)
    objects = np.where(gaps, None, labels.astype(object))
    named = [[None if y < 0 else names[y] for y in row] for row in labels.tolist()]
    for table in (floats, masked, objects, labels.tolist()):
        assert nacp.calibrate(probs, table, noise=0.25, guarantee="none") == cal
    found = nacp.calibrate(probs, named, noise=0.25, guarantee="none", classes=names)
    assert found.threshold == cal.threshold
    found.save(tmp_path / "cal.json")
    assert nacp.load(tmp_path / "cal.json") == found
    numbered = tuple(range(-1, probs.shape[1] - 1))  # there -1 is a class
    shifted = np.where(gaps, None, labels - 1)
    found = nacp.calibrate(probs, shifted, noise=0.25, guarantee="none", classes=numbered)
    assert found.threshold == cal.threshold


def test_wrong_tables_get_a_sentence():
    _, probs, labels = problem(1)
    n, k = probs.shape
    empty = labels.copy()
    empty[4] = -1
    cases = [
        (empty, r"has no label in row 4"),
        (np.eye(k, dtype=int)[np.abs(labels[:, 0]) % k], r"and not a 1 for the label and 0 for the others"),
        (labels[:-1], rf"must have {n} rows, one per row of probs"),
        (labels + k, r"must lie from 0"),
        ([row[: 1 + i % 2] for i, row in enumerate(labels.tolist())], r"rows of different lengths"),
        (np.where(labels < 0, np.nan, labels + 0.5), r"must be whole numbers"),
    ]
    for table, said in cases:
        with pytest.raises(nacp.InputError, match=said):
            nacp.calibrate(probs, table, noise=0.25)
    for guarantee in ("binomial", "acnl", "crcp"):
        with pytest.raises(nacp.InputError, match=rf'"{guarantee}" holds for one label for each point'):
            nacp.calibrate(probs, labels, noise=0.25, guarantee=guarantee)
    with pytest.raises(nacp.InputError, match="must have the shape"):
        nacp.calibrate(probs, labels, clean=np.zeros(n, int))


# The promise


N, K, RATE, ALPHA, DELTA, RUNS = 300, 4, 0.2, 0.2, 0.1, 250


def world(rng, annotators):
    """Scores under which F^c(q) = q, and labels of annotators who often make the same error.

    Each of them, by itself, errs with uniform noise.
    """
    true = rng.integers(K, size=N)
    scores = np.full((N, K), 2.0)
    scores[np.arange(N), true] = rng.random(N)
    labels = np.stack([nacp.UniformNoise(RATE).sample(true, K, rng) for _ in range(annotators)], axis=1)
    alike = rng.random(N) < 0.5
    labels[alike] = labels[alike, :1]
    return scores, labels


def thresholds(way, guarantee):
    rng, found = np.random.default_rng(5), []
    for _ in range(RUNS):
        scores, labels = world(rng, 3)
        if way == "stacked":
            scores, labels = np.repeat(scores, 3, axis=0), labels.ravel()
        elif way == "one":
            labels = labels[:, 0]
        known = {"noise": RATE, "alpha": ALPHA, "score": "precomputed"}
        cal = nacp.calibrate(scores, labels, guarantee=guarantee, **known)
        found.append(min(cal.threshold, 1.0))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_pac_keeps_its_promise_with_several_labels_and_breaks_it_with_stacked_rows():
    error = math.sqrt(DELTA * (1 - DELTA) / RUNS)
    several, one, stacked = (thresholds(way, nacp.PAC(DELTA)) for way in ("averaged", "one", "stacked"))
    assert np.mean(several < 1 - ALPHA) <= DELTA + 3 * error
    assert np.mean(stacked < 1 - ALPHA) > DELTA + 3 * error
    gain = one - several
    assert gain.mean() > 3 * gain.std() / math.sqrt(RUNS), "more labels, smaller sets"


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
def test_expected_keeps_its_promise_with_several_labels():
    found = thresholds("averaged", "expected")
    error = 3 * np.std(found) / math.sqrt(RUNS)
    assert 1 - ALPHA - error < np.mean(found) < 1 - ALPHA + 0.01 + error, "and costs about 1/n"


def test_several_labels_of_a_point_count_as_one_point():
    labels = np.array([[0, 1, -1], [2, -1, -1], [0, 0, 1], [1, 2, 0]])
    rows, noise = open_rows(np.full((4, 3), 1 / 3)), nacp.UniformNoise(0.2)
    curve = Curve.of(Sample.of(rows, *noise.spread(labels)[:1], nacp.HPS(), noise.spread(labels)[1]), noise)
    expected = [1 / 2 + 2 / 3 + 1 / 3, 1 / 2 + 1 / 3 + 1 / 3, 1 + 1 / 3]
    np.testing.assert_allclose(curve.counts, expected, atol=1e-8)
