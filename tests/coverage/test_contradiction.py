"""Labels that contradict the noise model are told of with every calibration; labels that do not, seldom."""

import copy
import json
import pickle
import re
import timeit
import warnings

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

import nacp
from nacp.cli import app
from nacp.coverage.contradiction import LEVEL, Contradiction, _tails, _where, contradiction
from nacp.coverage.curve import Curve
from nacp.coverage.sample import Sample
from nacp.paper import twins
from nacp.points import open_points
from nacp.scores import as_score
from nacp.stats.bounds import chernoff_tail

K = 20
PAIRS = [i // 2 for i in range(K)]


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
@pytest.mark.parametrize("stated", [0.4, 0.5, 0.9])
def test_a_rate_that_is_overstated_is_told(points, stated, score):
    probs, _, noisy = points
    cal, told = found(probs, noisy, noise=stated, score=score, guarantee="none")
    assert len(told) == 1
    assert str(told[0].message) == cal.warnings[0]
    assert f"rate {stated}" in cal.warnings[0]
    assert "estimated at -" in cal.warnings[0]
    for remedy in ("nacp diagnose", "clean", "less noise"):
        assert remedy in cal.warnings[0]
    assert " ".join(str(cal).split()).startswith(f"Warning: {cal.warnings[0]}. Sets")
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


@pytest.mark.parametrize("stated", [0.0, 0.1, 0.25, None])
def test_a_rate_that_is_right_or_understated_is_not(points, stated):
    probs, _, noisy = points
    cal, told = found(probs, noisy, noise=stated)
    assert cal.warnings == ()
    assert not told


def test_an_estimate_is_a_share(points):
    """With rate 0.99 it came out at 1.09."""
    probs, _, noisy = points
    cal, _ = found(probs, noisy, noise=0.95, guarantee="pac")
    assert 0 <= cal.estimate <= 1
    shown = [float(number) for number in re.findall(r"coverage (\d\.\d+)", str(cal))]
    assert shown
    assert max(shown) <= 1


def test_no_model_is_said_to_claim_more_than_all(points):
    probs, true, noisy = points
    cal, _ = found(probs, noisy, noise=0.9, alpha=0.0005, guarantee="none")
    raw = nacp.coverage_curve(probs, noisy, noise=0.9, thresholds=[cal.threshold])
    assert raw.clean[0] > 1
    claim = cal.diagnose(probs, noisy, clean=(np.arange(300), true[:300])).claim
    assert claim.claim == 1
    assert "claims 100.0%" in str(claim)


@pytest.mark.parametrize("score", ["hps", "aps"])
def test_no_curve_leaves_the_shares_and_it_is_known_where_one_was_cut_off(points, score):
    probs, _, noisy = points
    cal, _ = found(probs, noisy, noise=0.4, score=score, guarantee="none")
    curve = cal.curve
    raw = nacp.coverage_curve(probs, noisy, noise=0.4, score=score, thresholds=curve.thresholds)
    assert raw.outside is None
    assert raw.clean.max() > 1.1
    assert curve.clean.min() >= 0
    assert curve.clean.max() == 1
    assert curve.outside.any()
    assert np.all(np.isin(curve.clean[curve.outside], [0, 1]))
    assert np.count_nonzero(curve.clean[curve.outside] == 1) > 100
    inside = (raw.clean >= 0) & (raw.clean <= 1 - 1e-6)
    assert not curve.outside[inside].any()
    np.testing.assert_allclose(curve.clean[inside], raw.clean[inside], atol=1e-12)


def test_one_warning_for_several_alphas(points):
    probs, _, noisy = points
    cals, told = found(probs, noisy, noise=0.4, alpha=[0.05, 0.1, 0.2], guarantee="none")
    assert len(told) == 1
    assert len({cal.warnings for cal in cals}) == 1
    assert cals[0].warnings


def test_of_an_interval_the_low_end_must_be_possible(points):
    probs, _, noisy = points
    possible = nacp.UniformNoise(0.4, interval=(0.2, 0.5), confidence=0.95)
    assert found(probs, noisy, noise=possible)[0].warnings == ()
    cal, told = found(probs, noisy, noise=nacp.UniformNoise(0.4, interval=(0.36, 0.5)))
    assert len(told) == 1
    assert "0.36 to 0.5" in cal.warnings[0]


MODELS = {
    "uniform": (nacp.UniformNoise(0.2), nacp.UniformNoise(0.4)),
    "groups": (nacp.GroupNoise(PAIRS, 0.2), nacp.GroupNoise(PAIRS, 0.5)),
    "matrix": (
        nacp.MatrixNoise(nacp.UniformNoise(0.2).matrix(K).dense()),
        nacp.MatrixNoise(nacp.UniformNoise(0.4).matrix(K).dense()),
    ),
    "randomized response": (nacp.RandomizedResponse(4.0), nacp.RandomizedResponse(3.0)),
}


@pytest.mark.parametrize(("right", "wrong"), MODELS.values(), ids=MODELS)
def test_every_noise_model_is_looked_at(points, right, wrong):
    probs, true, _ = points
    noisy = right.sample(true, K, random_state=2)
    assert found(probs, noisy, noise=right, guarantee="none")[0].warnings == ()
    assert len(found(probs, noisy, noise=wrong, guarantee="none")[1]) == 1


def test_a_radius_that_allows_for_it_silences_it(points):
    probs, true, _ = points
    noisy = nacp.UniformNoise(0.2).sample(true, K, random_state=2)
    stated = nacp.UniformNoise(0.4).matrix(K).dense()
    small, told = found(probs, noisy, noise=nacp.MatrixNoise(stated, radius=0.02))
    assert small.warnings
    assert told
    assert found(probs, noisy, noise=nacp.MatrixNoise(stated, radius=0.2))[0].warnings == ()


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


def test_checked_labels_assume_no_noise_model(points):
    probs, true, noisy = points
    cal, told = found(probs, noisy, noise=0.5, clean=(np.arange(400), true[:400]))
    assert cal.warnings == ()
    assert not told


def test_it_costs_a_tenth_of_a_calibration_at_the_most():
    """Measured at 1% to 3% of the cheapest one of this size; benchmarks/run.py has the smallest one."""
    probs, true = twins.simulate("cifar100", n=5000, random_state=0)
    noisy = nacp.UniformNoise(0.2).sample(true, 100, random_state=0)
    rows, numbers, _ = open_points(probs, noisy)
    curve = Curve.of(Sample.of(rows, numbers, as_score("hps")), nacp.UniformNoise(0.2))

    def shortest(work):
        return min(timeit.repeat(work, number=1, repeat=7))

    whole = shortest(lambda: nacp.calibrate(probs, noisy, noise=0.2, guarantee="none"))
    assert shortest(lambda: contradiction(curve)) < 0.1 * whole


def test_it_is_kept_wherever_the_calibration_goes(points, tmp_path):
    probs, _, noisy = points
    cal, _ = found(probs, noisy, noise=0.4)
    cal.save(tmp_path / "cal.json")
    for same in (nacp.load(tmp_path / "cal.json"), copy.copy(cal), pickle.loads(pickle.dumps(cal))):
        assert same == cal
        assert same.warnings == cal.warnings != ()
    assert "Warning" in cal._repr_html_()
    assert "contradict" in cal._repr_html_()
    old = (tmp_path / "cal.json").read_text().replace('"warnings"', '"unknown"')
    (tmp_path / "old.json").write_text(old.replace('"estimate": ', '"estimate": 1.0943, "was": '))
    assert nacp.load(tmp_path / "old.json").warnings == ()
    assert nacp.load(tmp_path / "old.json").estimate == 1


def test_a_comparison_says_it_once(points):
    probs, _, noisy = points
    with pytest.warns(nacp.NoiseModelWarning) as told:
        compared = nacp.compare(
            probs, noisy, noise=0.4, scores=["hps", "raps"], guarantees=["none", "nacp", "split"]
        )
    assert len(told) == 1
    assert str(compared).count("Warning: the labels contradict") == 1


def test_the_report_says_it_above_the_promise(points):
    probs, _, noisy = points
    page = nacp.make_report(probs[:1000], noisy[:1000], noise=0.5, guarantee="none").html
    assert 0 < page.index("class='banner'") < page.index("What is promised")
    assert "The labels contradict uniform label noise with rate 0.5" in page
    right = nacp.make_report(probs[:1000], noisy[:1000], noise=0.25, guarantee="none").html
    assert "class='banner'" not in right


def test_the_chart_of_the_report_is_cut_off_and_says_where(points):
    probs, _, noisy = points
    page = nacp.make_report(probs[:1000], noisy[:1000], noise=0.5, guarantee="none").html
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    written = [float(text) for text in data["plots"]["coverage"]["lines"][0]["texts"]]
    assert max(written) == 1
    assert min(written) >= 0
    (left, width), *_ = re.findall(r"class='band' style='left:([\d.]+)%;width:([\d.]+)%'", page)
    first = written.index(1)  # the shade starts where the estimate passes 1, and goes on to the right
    assert float(left) == pytest.approx(100 * data["plots"]["coverage"]["at"][first], abs=0.1)
    assert float(left) + float(width) == pytest.approx(100, abs=0.1)
    assert page.count("<span>noise model contradicted</span>") == 1
    assert "came out above 1 or below 0 and is cut off" in page
    right = nacp.make_report(probs[:1000], noisy[:1000], noise=0.25, guarantee="none").html
    assert "class='band'" not in right
    assert "cut off" not in right


def test_the_command_line_says_it_and_ends_with_its_own_code_if_asked(points, tmp_path):
    probs, _, noisy = points
    np.save(tmp_path / "probs.npy", probs)
    np.save(tmp_path / "labels.npy", noisy)
    files = [str(tmp_path / "probs.npy"), str(tmp_path / "labels.npy"), "-o", str(tmp_path / "cal.json")]

    def run(*options):
        return CliRunner().invoke(app, ["calibrate", *files, *options])

    wrong = run("--noise", "0.4")
    assert wrong.exit_code == 0
    assert wrong.stdout.count("Warning: the labels contradict") == 1
    assert not wrong.stderr
    strict = run("--noise", "0.4", "--strict", "--json")
    assert strict.exit_code == 3
    assert '"warnings": [\n  "the labels contradict' in strict.stdout
    assert nacp.load(tmp_path / "cal.json").warnings
    work = [str(tmp_path / name) for name in ("cal.json", "probs.npy", "sets.npz")]
    said = CliRunner().invoke(app, ["predict", *work[:2], "-o", work[2]])
    assert said.exit_code == 0
    assert "Warning: the labels contradict" in said.stderr
    assert run("--noise", "0.25", "--strict").exit_code == 0
    assert "exit code is 0, 2 for wrong input" in " ".join(run("--help").stdout.split())


def test_scikit_learn_warns(points):
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    true = rng.integers(4, size=1500)
    inputs = np.eye(4)[true] + 0.3 * rng.standard_normal((1500, 4))
    noisy = nacp.UniformNoise(0.1).sample(true, 4, random_state=0)
    model = nacp.NoiseAwareClassifier(LogisticRegression(), noise=0.5, guarantee="none")
    model.fit(inputs[:500], true[:500])
    with pytest.warns(nacp.NoiseModelWarning):
        model.conformalize(inputs[500:], noisy[500:])
    assert model.calibration_.warnings


# A right model is contradicted once in 1,000 times at the most. Where it is easiest, true labels are few in
# what is looked at: a classifier that is always right, and sure of it.
@pytest.mark.parametrize(
    "noise",
    [
        nacp.UniformNoise(0.4),
        nacp.GroupNoise([0, 0, 0, 1, 1, 1, 2, 2, 3, 4], 0.5),
        nacp.MatrixNoise(nacp.GroupNoise([0, 0, 0, 1, 1, 1, 2, 2, 3, 4], 0.5).matrix(10).dense()),
    ],
    ids=["uniform", "groups", "matrix"],
)
def test_a_right_model_is_seldom_contradicted(noise):
    rng, k, n, times = np.random.default_rng(0), 10, 60, 1500
    true = rng.integers(k, size=n)
    probs = 0.9 * np.eye(k)[true] + 0.1 * rng.dirichlet(np.ones(k), size=n)
    rows, _, _ = open_points(probs, true)
    score, alarms = as_score("hps"), 0
    for seed in range(times):
        sample = Sample.of(rows, noise.sample(true, k, random_state=seed), score)
        alarms += contradiction(Curve.of(sample, noise)) is not None
    assert alarms <= binom.ppf(0.999, times, LEVEL)


def test_chernoffs_bound_is_one_for_counts_and_falls_as_fast_as_their_tail():
    n, p = 200, np.array([0.05, 0.3, 0.8])
    for share in (0.0, 0.02, 0.25, 0.5):
        tail, bound = binom.cdf(round(share * n), n, p), chernoff_tail(np.full(3, share), p, n)
        assert (bound >= tail * (1 - 1e-9)).all()
        some = share < p
        # Cramer: the two differ by a factor of no more than a power of n.
        assert (np.log(bound[some]) - np.log(tail[some]) <= np.log(8 * n) / 2 + np.log(2)).all()
        assert (bound[~some] == 1).all()


def test_counts_near_the_level_are_judged_by_their_exact_tail():
    rng, judged = np.random.default_rng(2), []
    for n in (20, 300, 25_000, 1_000_000):
        expected = rng.uniform(size=2000) ** rng.integers(1, 6, size=2000)
        away = rng.uniform(0, 8, size=2000) * np.sqrt(n * expected * (1 - expected))
        hits = np.clip(np.rint(n * expected - away), 0, n)
        tails = _tails(hits / n, np.zeros(2000), np.ones(2000), expected, n, counted=True)
        exact = np.where(hits <= n * expected - 1, binom.cdf(hits, n, expected), 1.0)
        level = LEVEL / 2 / len(tails)
        assert np.array_equal(tails <= level, exact <= level)
        judged.extend((exact <= level).tolist())
    assert 0.1 < np.mean(judged) < 0.9


def test_a_wrong_model_is_contradicted_as_often_as_the_binomial_test_says():
    """All pairs but the favourites have one score, so one share matters: that of labels that are replaced."""
    rng, k, n, stated = np.random.default_rng(1), 10, 400, 0.4
    true = rng.integers(k, size=n)
    scores = 1.0 - np.eye(k)[true]
    rows, _, _ = open_points(scores, true, probabilities=False)
    score, alarms, times, expected = as_score("precomputed"), 0, 300, []
    # Two parts of the scores are three runs, of which each gets a third of half the level.
    bar = LEVEL / 2 / 3
    for seed in range(times):
        noisy = nacp.UniformNoise(0.27).sample(true, k, random_state=seed)
        sample = Sample.of(rows, noisy, score)
        told = contradiction(Curve.of(sample, nacp.UniformNoise(stated)))
        missed = np.count_nonzero(noisy != true)
        expected.append(binom.cdf(missed, n, stated * (1 - 1 / k)) <= bar)
        if told is None or told.label is None:
            assert (told is not None) == expected[-1]
        alarms += told is not None
    assert 0 < sum(expected) < times


def test_twins_with_the_rate_of_the_issue():
    """True rate .25, stated .4: coverage was far below the 90% that was promised."""
    probs, true = twins.simulate("cifar100", n=6000, random_state=0)
    noisy = nacp.UniformNoise(0.25).sample(true, 100, random_state=0)
    cal, told = found(probs[:3000], noisy[:3000], noise=0.4)
    assert nacp.evaluate(cal.predict_set(probs[3000:]), true[3000:]).coverage < 0.85
    assert len(told) == 1


@pytest.mark.parametrize("score", [0.99996, 0.9999999, 1.0, 0.25])
def test_a_score_below_1_is_not_rounded_to_1(score):
    told = _where(Contradiction(-0.1, low=score, high=np.inf), 0.0, None)
    shown = float(told.removeprefix("with a score above "))
    assert shown == pytest.approx(score, abs=1e-4)
    assert (shown < 1) == (score < 1)


def test_predict_and_evaluate_repeat_what_is_said_against_the_noise_model(points, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    probs, true, noisy = points
    cal, _ = found(probs, noisy, noise=0.5, guarantee="none")
    cal.save("cal.json")
    np.save("p.npy", probs[:50])
    np.save("y.npy", true[:50])
    for words in (("predict", "cal.json", "p.npy"), ("evaluate", "cal.json", "p.npy", "y.npy")):
        told = CliRunner().invoke(app, list(words)).stderr
        assert told == f"Warning: {cal.warnings[0]}.\n"
