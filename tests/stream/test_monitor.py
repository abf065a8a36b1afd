"""An alarm that coverage has fallen: it is what its definition says, it is seldom false, and it comes."""

import json
import math
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nacp
from nacp.engine import using
from nacp.files import sealed
from nacp.paper import twins
from nacp.points import open_rows
from nacp.stats.alarm import Alarm
from nacp.stream.arrivals import Shares

K = 10
UNIFORM = nacp.UniformNoise(0.2)
RANDOM = nacp.MatrixNoise(0.7 * np.eye(K) + 0.3 * np.random.default_rng(0).dirichlet(np.full(K, 0.3), K))
GROUPS = nacp.GroupNoise([i // 2 for i in range(K)], rate=0.3)
NOISES = [UNIFORM, RANDOM, GROUPS, None]


@pytest.fixture(scope="module")
def points():
    """Probabilities, true labels, and a calibration for each noise model whose sets cover a bit too much."""
    probs, labels = twins.simulate("cifar10", n=9000, random_state=0)
    return probs, labels


def calibrated(points, noise, **options):
    probs, labels = points
    given = labels[:3000] if noise is None else noise.sample(labels[:3000], K, random_state=1)
    return nacp.calibrate(
        probs[:3000], np.take(options.get("classes", range(K)), given), noise=noise, **options
    )


def noisy(noise, labels, seed=2):
    return labels if noise is None else noise.sample(labels, K, random_state=seed)


# The definition


def wealth_by_definition(numbers, target, high):
    """Return the wealth after all numbers: the mean over starts and stakes of the wealth of each alone."""
    n = len(numbers)
    stakes = [2.0**-i / (high - target) for i in range(1, 9)]
    total = 1 / (1 + math.log(n + 1))  # what has not begun
    for start in range(1, n + 1):
        weight = 1 / (1 + math.log(start)) - 1 / (1 + math.log(start + 1))
        for stake in stakes:
            total += weight / len(stakes) * np.prod(1 + stake * (target - numbers[start - 1 :]))
    return total


def share_by_definition(scores, label, threshold, inverse):
    return sum(inverse[label, each] for each in np.flatnonzero(scores <= threshold))


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("score", ["hps", "aps"])
def test_wealth_is_what_its_definition_says(points, noise, score):
    cal = calibrated(points, noise, score=score)
    probs, labels = (part[3000:3030] for part in points)
    given = noisy(noise, labels)
    inverse = np.eye(K) if noise is None else np.linalg.inv(noise.matrix(K).dense())
    scores = cal.score.scores(probs)
    shares = [
        share_by_definition(row, y, cal.threshold, inverse) for row, y in zip(scores, given, strict=True)
    ]
    high = max(np.maximum(inverse, 0).sum(axis=1))
    monitor = nacp.Monitor(cal)
    peak = 1.0
    for t in range(30):
        monitor.update(probs[t : t + 1], given[t : t + 1])
        wealth = wealth_by_definition(np.array(shares[: t + 1]), 0.9, high)
        peak = max(peak, wealth)
        assert monitor.wealth == pytest.approx(wealth, rel=1e-9)
        assert monitor.p_value == pytest.approx(1 / peak, rel=1e-9)
    assert monitor.n == 30
    assert monitor.coverage == pytest.approx(min(np.mean(shares), 1), rel=1e-9)


def test_the_start_is_where_wealth_would_have_grown_most():
    numbers = (np.random.default_rng(3).random(400) < np.repeat([0.9, 0.5], 200)).astype(float)
    alarm = Alarm(0.9, 1.0, 0.01)
    alarm.play(numbers)
    seen = numbers[: alarm.at]
    growth = [
        [np.log(1 + stake * (0.9 - seen[start:])).sum() for stake in alarm.stakes]
        for start in range(alarm.at)
    ]
    assert alarm.since == np.unravel_index(np.argmax(growth), (alarm.at, len(alarm.stakes)))[0]
    assert alarm.before == numbers[: alarm.since].sum()
    assert alarm.total == numbers.sum()
    assert wealth_by_definition(seen[:-1], 0.9, 1.0) < 100 <= wealth_by_definition(seen, 0.9, 1.0)


def test_doubt_about_the_noise_never_lowers_a_share_below_what_the_truth_could_give(points):
    probs, labels = (part[:300] for part in points)
    rows, score = open_rows(probs), nacp.HPS()

    def shares(noise):
        return Shares(noise, K).of(rows, labels, score, -0.3)

    doubtful = nacp.UniformNoise(0.2, interval=(0.1, 0.3))
    for rate in np.linspace(0.1, 0.3, 9):
        assert (shares(doubtful) >= shares(nacp.UniformNoise(rate)) - 1e-12).all()
    assert Shares(doubtful, K).range[1] == Shares(nacp.UniformNoise(0.3), K).range[1]
    # A radius: by how much a mean may be off, whichever row of W a label should have had.
    inside, inverse = -probs <= -0.3, RANDOM.inverse(K).dense()
    sums = inside @ inverse.T
    within = nacp.MatrixNoise(RANDOM.P, radius=0.05)
    assert shares(within) == pytest.approx(shares(RANDOM) + 0.05 * np.ptp(sums, axis=1))
    assert shares(within).max() <= Shares(within, K).range[1]


# Promises


@pytest.mark.parametrize(
    ("values", "chances"),
    [
        ([1.0, 0.0], [0.9, 0.1]),
        ([1.25, 0.0], [0.72, 0.28]),
        ([3.0, 0.9, -4.0], [0.02, 0.965, 0.015]),  # of an ill-conditioned matrix
        ([0.999, -8.9], [0.99, 0.01]),
    ],
    ids=["clean", "uniform", "wide", "seldom and far"],
)
def test_false_alarms_are_as_seldom_as_was_asked_for(values, chances):
    rng, runs, level = np.random.default_rng(0), 400, 0.2
    values = np.array(values)
    values[-1] += (0.9 - values @ chances) / chances[-1]  # the mean is the target exactly
    raised = 0
    for _ in range(runs):
        alarm = Alarm(0.9, values.max(), level)
        alarm.play(rng.choice(values, 400, p=chances))
        raised += alarm.at is not None
    assert raised / runs <= level + 3 * math.sqrt(level * (1 - level) / runs)
    assert raised > 0, "the level is made use of"


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_an_alarm_comes_after_a_drift_and_not_before(points, noise):
    cal = calibrated(points, noise, guarantee="pac", delta=0.01)
    probs, labels = points[0][3000:], points[1][3000:].copy()
    labels[3000::4] = (labels[3000::4] + 1) % K  # of these, hardly any is in its set
    given = noisy(noise, labels)
    monitor = nacp.Monitor(cal, false_alarm=0.001)
    monitor.update(probs[:3000], given[:3000])
    assert not monitor.alarm
    assert (monitor.since, monitor.raised_at, monitor.coverage_since) == (None, None, None)
    assert str(monitor).startswith("No alarm after 3,000 points (p = ")
    monitor.update(probs[3000:], given[3000:])
    assert monitor.alarm
    assert 3000 < monitor.raised_at < 4500
    assert abs(monitor.since - 3000) < 300
    truth = cal.predict_set(probs[3000:]).contains(labels[3000:]).mean()
    assert monitor.coverage_since == pytest.approx(truth, abs=0.06)
    assert monitor.p_value <= 0.001
    assert "coverage has fallen below 90%" in " ".join(str(monitor).split())
    lenient = nacp.Monitor(cal, target=0.6)
    lenient.update(probs, given)
    assert (lenient.target, lenient.alarm) == (0.6, False)


# Checked labels


def test_checked_labels_count_as_what_they_are(points):
    cal = calibrated(points, UNIFORM)
    probs, labels = (part[3000:3200] for part in points)
    given = noisy(UNIFORM, labels)
    clean = [None] * 200
    for row in range(0, 200, 3):
        clean[row] = "?" if row % 2 else int(labels[row])
    hits, every = cal.predict_set(probs).contains(labels), nacp.Monitor(cal)
    every.update(probs, given)
    shares = Shares(UNIFORM, K).of(open_rows(probs), given, cal.score, cal.native_threshold)
    mixed = [shares[i] if i % 3 else 1.0 if i % 2 else hits[i] for i in range(200)]
    monitor = nacp.Monitor(cal)
    monitor.update(probs, given, clean=clean)
    assert every.coverage == pytest.approx(min(shares.mean(), 1))
    assert monitor.coverage == pytest.approx(min(np.mean(mixed), 1))
    assert (monitor.n, monitor.checked, every.checked) == (200, 67, 0)
    assert "67 checked points were picked at random" in monitor.assumptions
    alone = nacp.Monitor(cal)
    alone.update(probs, clean=clean)
    assert (alone.n, alone.checked) == (67, 67)
    assert alone.coverage == pytest.approx(np.mean(mixed[::3]))
    assert "noise" not in alone.assumptions
    alone.update(probs[:3], clean=[None, -1, math.nan])
    assert alone.n == 67


def test_which_points_are_checked_may_depend_on_the_input(points):
    cal = calibrated(points, RANDOM)
    probs, labels = (part[3000:4000] for part in points)
    clean = np.where(probs.max(axis=1) < 0.9, labels, -1)  # those that the classifier is unsure of
    hits, found = cal.predict_set(probs).contains(labels), []
    for seed in range(30):
        monitor = nacp.Monitor(cal)
        monitor.update(probs, noisy(RANDOM, labels, seed), clean=clean)
        found.append(monitor.coverage)
    assert np.mean(found) == pytest.approx(hits.mean(), abs=4 * np.std(found) / np.sqrt(30))


def test_a_calibration_from_checked_labels_knows_no_noise(points):
    probs, labels = points
    given = noisy(UNIFORM, labels)
    cal = nacp.calibrate(probs[:3000], given[:3000], clean=(np.arange(500), labels[:500]))
    monitor = nacp.Monitor(cal)
    with pytest.raises(nacp.InputError, match="noise is not known"):
        monitor.update(probs[3000:], given[3000:])
    monitor.update(probs[3000:], clean=labels[3000:])
    assert (monitor.n, monitor.checked, monitor.alarm) == (6000, 6000, False)
    told = nacp.Monitor(cal, noise=0.2)
    told.update(probs[3000:], given[3000:])
    assert (told.n, told.checked, told.noise) == (6000, 0, nacp.UniformNoise(0.2))


@pytest.mark.parametrize(
    "noise", [UNIFORM, nacp.AnnotatorNoise([UNIFORM.matrix(K).dense(), RANDOM.P])], ids=["one", "each"]
)
def test_several_labels_for_each_point_share_it(points, noise):
    cal = calibrated(points, UNIFORM)
    probs, labels = (part[3000:3300] for part in points)
    table = np.stack([noisy(UNIFORM, labels), noisy(RANDOM, labels, seed=3)], axis=1)
    table[::5, 1] = -1
    matrices = [UNIFORM.matrix(K).dense(), UNIFORM.matrix(K).dense() if noise is UNIFORM else RANDOM.P]
    weights = np.ones(2) if noise is UNIFORM else noise.weights
    inside, expected = cal.score.scores(probs) <= cal.threshold, []
    for row, held in zip(table, inside, strict=True):
        some = [a for a in range(2) if row[a] >= 0]
        each = [np.linalg.inv(matrices[a])[row[a], held].sum() for a in some]
        expected.append(np.average(each, weights=weights[some]))
    monitor = nacp.Monitor(cal, noise=noise)
    monitor.update(probs, table)
    assert monitor.coverage == pytest.approx(min(np.mean(expected), 1))


# Batches, files, wrong input


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_batches_and_engines_make_no_difference(points, noise):
    pytest.importorskip("nacp.engine._native", reason="the compiled engine was not built")
    cal = calibrated(points, noise, score="aps")
    probs, labels = points[0][3000:3600], points[1][3000:3600].copy()
    labels[200::2] = (labels[200::2] + 1) % K
    given, clean = noisy(noise, labels), np.where(np.arange(600) % 7, -1, labels)
    found = []
    for engine, ends in [
        ("numpy", [600]),
        ("native", [600]),
        ("native", range(1, 601)),
        ("numpy", [3, 3, 300, 501, 600]),
    ]:
        monitor, start = nacp.Monitor(cal), 0
        with using(engine):
            for end in ends:
                monitor.update(probs[start:end], given[start:end], clean=clean[start:end])
                start = end
        found.append((monitor.to_dict(), monitor._alarm.to_dict()))
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0][0]["alarm"]


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_a_saved_monitor_goes_on_as_if_nothing_had_happened(points, noise, tmp_path):
    names = [f"class {i}" for i in range(K)]
    cal = calibrated(points, noise, classes=names)
    probs, labels = points[0][3000:], points[1][3000:].copy()
    labels[1500::3] = (labels[1500::3] + 1) % K
    given = np.take(names, noisy(noise, labels))
    monitor = nacp.Monitor(cal, false_alarm=0.02, target=0.89)
    for start in range(0, 3000, 500):
        monitor.update(probs[start : start + 500], given[start : start + 500])
        monitor.save(tmp_path / "monitor.json")
        other = nacp.Monitor.load(tmp_path / "monitor.json")
        assert (str(other), other.to_dict()) == (str(monitor), monitor.to_dict())
        assert other._alarm.to_dict() == monitor._alarm.to_dict()
        monitor = other
    assert monitor.alarm
    assert json.dumps(monitor.to_dict())
    assert str(monitor)[:20] in monitor._repr_html_()


def test_what_is_kept_does_not_grow(points, tmp_path):
    cal, sizes = calibrated(points, UNIFORM), []
    for n in (100, 6000):
        monitor = nacp.Monitor(cal)
        monitor.update(points[0][3000 : 3000 + n], points[1][3000 : 3000 + n])
        monitor.save(tmp_path / "monitor.json")
        sizes.append((tmp_path / "monitor.json").stat().st_size)
    assert sizes[1] < sizes[0] + 200


def test_several_threads_lose_no_points(points):
    probs, labels = points
    watchers = nacp.Monitor(calibrated(points, UNIFORM)), nacp.OnlineCalibrator(K, noise=UNIFORM)
    parts, interval = [slice(start, start + 20) for start in range(3000, 6000, 20)], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for each in watchers:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda some, each=each: each.update(probs[some], clean=labels[some]), parts))
            assert (each.n, each.checked) == (3000, 3000)
    finally:
        sys.setswitchinterval(interval)


def test_files_that_do_not_fit_are_refused(points, tmp_path):
    path = tmp_path / "monitor.json"
    nacp.Monitor(calibrated(points, UNIFORM)).save(path)
    state = [{"n": 1.5}, {"n": -1}, {"bets": [1.0]}, {"bets": ["x"] * 8}, {"at": 5}, {"wealth": "inf"}]
    changes = [
        (None, {"version": 2}, "version 2"),
        (None, {"format": "nacp.calibration"}, "is not a file of Monitor"),
        (None, {"false_alarm": 0}, "false_alarm must lie strictly between 0 and 1"),
        (None, {"state": {}}, "it has no 'n'"),
        (None, {"checked": -1}, "checked must be a whole number"),
        ("labelling", {"noise": {"name": "magic"}}, "noise must be one of"),
        *(("state", change, "cannot be used") for change in [*state, {"total": None}]),
    ]
    text = path.read_text()
    document = json.loads(text)
    for place, change, sentence in changes:
        changed = change if place is None else {place: document[place] | change}
        path.write_text(json.dumps(sealed(document | changed)))
        with pytest.raises(nacp.InputError, match=sentence):
            nacp.Monitor.load(path)
    path.write_text(text[: len(text) // 2])
    with pytest.raises(nacp.InputError, match="is not JSON"):
        nacp.Monitor.load(path)


def test_wrong_input_leaves_all_as_it_was(points):
    monitor = nacp.Monitor(calibrated(points, UNIFORM))
    probs, labels = (part[3000:3300] for part in points)
    monitor.update(probs, labels, clean=labels)
    before = monitor.to_dict(), monitor._alarm.to_dict()
    broken, wrong = probs.copy(), labels.copy()
    broken[150, 3], wrong[150] = np.nan, K
    for arguments, options, sentence in (
        ((broken, labels), {}, "probs"),
        ((np.hstack([probs, probs[:, :1] * 0]), labels), {}, "11 columns"),
        ((probs, labels[:-1]), {}, "labels must have the shape"),
        ((probs, wrong), {}, "from 0 to 9"),
        ((probs, None), {}, "labels or clean must be given"),
        ((probs.astype(np.float16), labels), {}, "float16"),
        ((probs, labels), {"clean": labels[:-1]}, "clean"),
    ):
        with pytest.raises(nacp.InputError, match=sentence):
            monitor.update(*arguments, **options)
        assert (monitor.to_dict(), monitor._alarm.to_dict()) == before
    monitor.update(probs[:0], labels[:0])
    assert (monitor.to_dict(), monitor._alarm.to_dict()) == before


def test_an_interruption_leaves_all_as_it_was(points, monkeypatch):
    monitor = nacp.Monitor(calibrated(points, UNIFORM))
    probs, labels = (part[3000:] for part in points)
    monitor.update(probs[:300], labels[:300])
    before, bet, calls = (monitor.to_dict(), monitor._alarm.to_dict()), Alarm._bet, []

    def interrupted(alarm, *arguments):
        calls.append(alarm)
        if len(calls) == 2:  # after the first few thousand points
            raise KeyboardInterrupt
        bet(alarm, *arguments)

    monkeypatch.setattr(Alarm, "_bet", interrupted)
    with pytest.raises(KeyboardInterrupt):
        monitor.update(probs, labels)
    assert (monitor.to_dict(), monitor._alarm.to_dict()) == before


def test_what_cannot_be_watched_is_refused(points):
    cal = calibrated(points, UNIFORM)
    with pytest.warns(nacp.NoValidThresholdWarning):
        hopeless = nacp.calibrate(points[0][:50], points[1][:50], noise=0.2, alpha=0.01)
    grouped = nacp.calibrate(points[0][:900], points[1][:900], noise=None, groups=np.arange(900) % 2)
    for arguments, options, sentence in [
        ((hopeless,), {}, "calibration has an infinite threshold"),
        ((0.5,), {}, "calibration must be what nacp.calibrate returned"),
        ((grouped,), {}, r"calibration has a threshold for each group.*calibration.groups\["),
        ((cal,), {"false_alarm": 1}, "false_alarm must lie strictly between"),
        ((cal,), {"target": 90}, "target must lie strictly between"),
        ((cal,), {"noise": nacp.MatrixNoise([[0.9, 0.1], [0.2, 0.8]])}, "noise is for 2 classes"),
    ]:
        with pytest.raises(nacp.InputError, match=sentence):
            nacp.Monitor(*arguments, **options)


def test_what_is_promised_and_assumed_is_said(points):
    exact = nacp.Monitor(calibrated(points, UNIFORM))
    assert "is at most 1%" in exact.promise
    assert "uniform label noise with rate 0.2, independent of the input" in exact.assumptions
    doubtful = nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.95)
    assert "is at most 6%" in nacp.Monitor(exact.calibration, noise=doubtful).promise
    assert nacp.Monitor(calibrated(points, None)).assumptions == "the labels are right"
