"""A calibration warns where the labels contradict the noise model, and seldom where they do not."""

import warnings

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

import nacp
from nacp.cli import app
from nacp.coverage.agreement import unrelated
from nacp.coverage.contradiction import against, contradiction
from nacp.coverage.curve import Curve
from nacp.coverage.tally import Sample
from nacp.points import open_rows

K = 20


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(K, 0.1), size=3000)
    true = (probs.cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1)
    return probs, true, nacp.UniformNoise(0.25).sample(true, K, random_state=1)


def found(probs, labels, **options):
    """Calibrate, and return the calibration with the warnings that there were."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        cal = nacp.calibrate(probs, labels, **options)
    return cal, [each for each in told if each.category is nacp.NoiseModelWarning]


@pytest.mark.parametrize("score", ["hps", "aps", "raps", "saps", "topk"])
@pytest.mark.parametrize("stated", [0.4, 0.9])
def test_a_rate_that_is_overstated_is_told(points, stated, score):
    probs, _, noisy = points
    cals, told = found(probs, noisy, noise=stated, score=score, guarantee="none", alpha=[0.05, 0.1])
    assert len(told) == 1
    cal, other = cals
    assert cal.warnings == other.warnings
    assert cal.estimate <= 1
    assert str(told[0].message) == cal.warnings[0]
    assert f"rate {stated}" in cal.warnings[0]
    assert "estimated at -" in cal.warnings[0]
    for remedy in ("nacp diagnose", "clean", "less noise"):
        assert remedy in cal.warnings[0]
    assert " ".join(str(cal).split()).startswith(f"Warning: {cal.warnings[0]}.")
    assert str(told[0].filename) == __file__


def test_of_a_matrix_it_is_asked_whether_it_is_transposed(points):
    """To state less noise was the advice, which does not turn a matrix round."""
    probs, true, _ = points
    matrix = np.eye(K)
    matrix[0] = np.full(K, 1 / K)  # the first class is taken for any
    noisy = nacp.MatrixNoise(matrix).sample(true, K, random_state=3)
    cal, told = found(probs, noisy, noise=nacp.MatrixNoise.from_columns(matrix.T), guarantee="none")
    assert not told
    turned = matrix.T / matrix.T.sum(axis=1, keepdims=True)
    cal, told = found(probs, noisy, noise=nacp.MatrixNoise(turned), guarantee="none")
    assert len(told) == 1
    assert "whether the matrix is transposed" in cal.warnings[0]
    assert "State less noise" not in cal.warnings[0]


@pytest.mark.parametrize(
    ("stated", "checked"),
    [(0.0, 0), (0.1, 0), (0.25, 0), (None, 0), (nacp.UniformNoise(0.4, interval=(0.2, 0.5)), 0), (0.5, 400)],
)
def test_what_is_right_or_understated_or_not_assumed_is_not(points, stated, checked):
    """Of an interval, the low end must be possible; checked labels assume no noise model."""
    probs, true, noisy = points
    clean = (np.arange(checked), true[:checked]) if checked else None
    cal, told = found(probs, noisy, noise=stated, clean=clean)
    assert not told
    assert cal.warnings == ()


def test_of_an_interval_the_low_end_must_be_possible(points):
    probs, _, noisy = points
    cal, told = found(probs, noisy, noise=nacp.UniformNoise(0.4, interval=(0.36, 0.5)), guarantee="expected")
    assert len(told) == 1
    assert "0.36 to 0.5" in cal.warnings[0]


def test_a_class_without_labels_contradicts_uniform_noise(points):
    """Nothing is in the wrong place but the labels of one class, which a random one would often be."""
    probs, true, _ = points
    noisy = nacp.UniformNoise(0.25).sample(true, K, random_state=1)
    some = noisy != 7
    assert 3000 * 0.25 / K > 30  # so many would be class 7 whatever the true classes are
    names = tuple(f"class {i}" for i in range(K))
    cal, told = found(probs[some], np.array(names)[noisy[some]], noise=0.25, classes=names, guarantee="none")
    assert len(told) == 1
    assert "true labels of class 'class 7'" in cal.warnings[0]


def test_several_labels_of_a_point_are_looked_at_as_one(points):
    probs, true, _ = points
    both = np.column_stack([nacp.UniformNoise(0.25).sample(true, K, random_state=i) for i in range(2)])
    assert found(probs, both, noise=0.25)[0].warnings == ()
    assert len(found(probs, both, noise=0.4)[1]) == 1
    # The same label twice says no more than once.
    few = slice(0, 220)
    once, twice = both[few, 0], both[few][:, [0, 0]]
    assert found(probs[few], twice, noise=0.36)[0].warnings == found(probs[few], once, noise=0.36)[0].warnings


def test_a_comparison_says_it_once(points):
    probs, noisy = points[0][:1000], points[2][:1000]
    with pytest.warns(nacp.NoiseModelWarning) as told:
        compared = nacp.compare(probs, noisy, noise=0.5, scores=["hps"], guarantees=["none", "split"])
    assert len(told) == 1
    assert str(compared).count("Warning: the labels contradict") == 1


def test_the_command_line_says_it_and_ends_with_its_own_code_if_asked(points, tmp_path):
    probs, labels, cal = (str(tmp_path / name) for name in ("probs.npy", "labels.npy", "cal.json"))
    np.save(probs, points[0])
    np.save(labels, points[2])

    def run(*words):
        return CliRunner().invoke(app, words)

    calibrate = "calibrate", probs, labels, "-o", cal, "--noise"
    assert run(*calibrate, "0.25", "--strict").exit_code == 0
    wrong, strict = run(*calibrate, "0.4"), run(*calibrate, "0.4", "--strict", "--json")
    assert (wrong.exit_code, wrong.stdout.count("Warning: the labels contradict"), wrong.stderr) == (0, 1, "")
    assert (strict.exit_code, '"warnings": [\n  "the labels contradict' in strict.stdout) == (3, True)
    (sentence,) = nacp.load(cal).warnings
    for words in (
        ("predict", cal, probs, "-o", str(tmp_path / "sets.npz")),
        ("evaluate", cal, probs, labels),
    ):
        assert run(*words).stderr == f"Warning: {sentence}.\n"


GROUPS = nacp.GroupNoise([0, 0, 0, 1, 1, 1, 2, 2, 3, 4], 0.5)
LEVEL = 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", [nacp.UniformNoise(0.4), GROUPS, nacp.MatrixNoise(GROUPS.matrix(10).dense())]
)
def test_a_right_model_is_contradicted_once_in_1000_times_at_the_most(noise):
    """Contradictions are likeliest for a classifier that is always right, and sure of it."""
    rng, k, n, times = np.random.default_rng(0), 10, 60, 1000
    true = rng.integers(k, size=n)
    probs = 0.9 * np.eye(k)[true] + 0.1 * rng.dirichlet(np.ones(k), size=n)
    given = (noise.sample(true, k, random_state=seed) for seed in range(times))
    alarms = sum(len(found(probs, labels, noise=noise, guarantee="none")[1]) for labels in given)
    assert alarms <= binom.ppf(0.999, times, LEVEL)


def test_a_wrong_model_is_contradicted_as_often_as_the_binomial_test_says():
    """All pairs but the favourites have one score, so one share matters: that of labels that are replaced."""
    rng, k, n, stated, times, expected = np.random.default_rng(1), 10, 400, 0.4, 300, []
    true = rng.integers(k, size=n)
    # Two parts of the scores are three runs, of which each gets a third of half the level.
    bar = LEVEL / 2 / 3
    for seed in range(times):
        noisy = nacp.UniformNoise(0.27).sample(true, k, random_state=seed)
        cal, told = found(1.0 - np.eye(k)[true], noisy, noise=stated, guarantee="none", score="precomputed")
        expected.append(binom.cdf(np.count_nonzero(noisy != true), n, stated * (1 - 1 / k)) <= bar)
        if not told or "of class" not in cal.warnings[0]:
            assert bool(told) == expected[-1]
    assert 0 < sum(expected) < times


@pytest.mark.parametrize("k", [3, 100])
def test_labels_in_another_order_than_the_rows_are_noticed(k):
    rng, n = np.random.default_rng(k), 600
    probs = rng.dirichlet(np.full(k, 0.2), size=n)
    labels = (rng.random((n, 1)) > np.cumsum(probs, axis=1)).sum(axis=1).clip(max=k - 1)
    noisy = nacp.UniformNoise(0.5).sample(labels, k, random_state=0)
    related = nacp.calibrate(probs, noisy, noise=0.5, guarantee="none")
    assert not any("random order" in said for said in related.warnings)
    with pytest.warns(nacp.NoiseModelWarning, match="no better than labels in random order"):
        shuffled = nacp.calibrate(probs, rng.permutation(noisy), noise=None)
    assert "check that labels and rows are in the same order" in str(shuffled).replace("\n", " ")


@pytest.mark.parametrize(("never", "said"), [(0, "up to"), (1, "from"), (2, "above")])
def test_the_scores_that_labels_lack_are_named_with_their_share(never, said):
    """Labels are never the most, the second or the least probable one, which half of random labels forbid."""
    rng, n = np.random.default_rng(never), 1500
    probs = np.array([0.6, 0.3, 0.1]) + rng.uniform(-0.02, 0.02, size=(n, 3))
    labels, order = rng.choice([rank for rank in range(3) if rank != never], n), rng.random((n, 3)).argsort()
    probs, labels = np.take_along_axis(probs, order, axis=1), order.argsort()[np.arange(n), labels]
    probs /= probs.sum(axis=1, keepdims=True)
    noise = nacp.UniformNoise(0.5)
    curve = Curve.of(Sample.of(open_rows(probs), labels, nacp.HPS()), noise)
    found = contradiction(curve)
    within = (-probs > found.low) & (-probs <= found.high)
    share = (np.linalg.inv(noise.matrix(3).dense())[labels] * within).sum() / n
    assert found.label is None
    assert found.share == pytest.approx(share, abs=1e-9)
    assert -0.34 < share < -0.2  # of these labels there are none, so that the pairs alone count
    (sentence,) = against(curve, noise, 1.0, None)
    assert f"with a score {said} " in sentence
    ends = [f"{end + 1:.4g}" for end in (found.low, found.high) if np.isfinite(end)]
    assert f" {' to '.join(ends)} is estimated" in sentence
    assert (np.isneginf(found.low), np.isposinf(found.high)) == (never == 0, never == 2)


def test_labels_are_unrelated_up_to_three_standard_deviations_over_all_permutations():
    rng, n, found = np.random.default_rng(0), 120, []
    probs = rng.dirichlet(np.ones(4), size=n)
    best = probs.argmax(axis=1)
    for good in range(0, 61, 2):
        labels = np.concatenate([best[:good], rng.permutation(best[good:])])
        each = probs[:, labels]  # of row i and the label of row j
        apart = each - each.mean(axis=1, keepdims=True) - each.mean(axis=0) + each.mean()
        z = (np.trace(each) - n * each.mean()) / np.sqrt((apart**2).sum() / (n - 1))
        if abs(z - 3) > 1e-6:
            found.append(z <= 3)
            assert unrelated(Sample.of(open_rows(probs), labels, nacp.HPS())) == found[-1]
    assert 5 < sum(found) < len(found) - 5
    for few in (99, 100):  # fewer than 100 are not compared
        sample = Sample.of(open_rows(probs[:few]), best[few - 1 :: -1].copy()[:few], nacp.HPS())
        assert unrelated(sample) == (few == 100)


def test_tallies_are_equal_if_all_of_their_counts_are():
    probs = np.random.default_rng(0).dirichlet(np.ones(3), size=8)
    one, other = (
        Curve.of(Sample.of(open_rows(probs), np.array(labels), nacp.HPS()), nacp.UniformNoise(0.2)).tally
        for labels in ([0, 1, 2, 0, 1, 2, 0, 1], [0, 1, 2, 0, 1, 2, 0, 2])
    )
    assert one == one + other - other
    assert one != other
    assert one != 5
