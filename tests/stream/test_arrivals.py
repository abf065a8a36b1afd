"""Monitors and online calibrators: shares of points, checked labels, threads, files, wrong input."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

import nacp
from nacp.engine import using
from nacp.files import write_document
from nacp.stream.arrivals import Shares
from tests.stream.arriving import LABELS, NOISES, PROBS, RANDOM, UNIFORM, K, calibrated, inverse_of, noisy

KINDS = pytest.mark.parametrize("kind", [nacp.Monitor, nacp.OnlineCalibrator])


def follower(kind, cal, **options):
    return (
        nacp.Monitor(cal, **options) if kind is nacp.Monitor else nacp.OnlineCalibrator(start=cal, **options)
    )


def test_doubt_about_the_noise_never_lowers_a_share_below_what_the_truth_could_give():
    sets = nacp.OnlineCalibrator(K, noise=None, start=0.7).predict_set(PROBS[:300])

    def shares(noise):
        return Shares(noise, K).of(sets, LABELS[:300])

    doubtful = nacp.UniformNoise(0.2, interval=(0.1, 0.3))
    for rate in np.linspace(0.1, 0.3, 9):
        assert (shares(doubtful) >= shares(nacp.UniformNoise(rate)) - 1e-12).all()
    assert Shares(doubtful, K).range[1] == Shares(nacp.UniformNoise(0.3), K).range[1]
    # A radius: by how much a mean may be off, whichever row of W a label should have had.
    within = nacp.MatrixNoise(RANDOM.P, radius=0.05)
    spread = np.ptp(np.asarray(sets) @ inverse_of(RANDOM).T, axis=1)
    assert shares(within) == pytest.approx(shares(RANDOM) + 0.05 * spread)
    assert shares(within).max() <= Shares(within, K).range[1]


@KINDS
def test_checked_labels_count_as_what_they_are(kind):
    cal = calibrated(UNIFORM)
    probs, labels = PROBS[3000:3200], LABELS[3000:3200]
    given, undecided = noisy(UNIFORM, labels), float(kind is nacp.Monitor)  # "?": no alarm, no small sets
    clean = [None] * 200
    for row in range(0, 200, 3):
        clean[row] = "?" if row % 2 else int(labels[row])
    inside = cal.score.scores(probs) <= cal.threshold
    shares = (inverse_of(UNIFORM)[given] * inside).sum(axis=1)
    mixed = [shares[i] if i % 3 else undecided if i % 2 else inside[i, labels[i]] for i in range(200)]
    every, mostly, alone = (follower(kind, cal) for _ in range(3))
    every.update(probs, given)
    mostly.update(probs, given, clean=clean)
    alone.update(probs, clean=clean)
    for each, expected, checked in ((every, shares, 0), (mostly, mixed, 67), (alone, mixed[::3], 67)):
        assert each.coverage == pytest.approx(min(np.mean(expected), 1))
        assert (each.n, each.checked) == (len(expected), checked)
        assert ("checked" in each.assumptions) == (checked > 0)
    alone.update(probs[:3], clean=[None, -1, np.nan])
    assert alone.n == 67


@KINDS
def test_a_calibration_from_checked_labels_knows_no_noise(kind):
    given = noisy(UNIFORM, LABELS)
    cal = nacp.calibrate(PROBS[:3000], given[:3000], clean=(np.arange(500), LABELS[:500]))
    each = follower(kind, cal)
    with pytest.raises(nacp.InputError, match="noise is not known"):
        each.update(PROBS[3000:], given[3000:])
    each.update(PROBS[3000:], clean=LABELS[3000:])
    assert (each.n, each.checked) == (6000, 6000)
    told = follower(kind, cal, noise=0.2)
    told.update(PROBS[3000:], given[3000:])
    assert (told.n, told.checked, told.noise) == (6000, 0, UNIFORM)


@KINDS
@pytest.mark.parametrize(
    "noise", [UNIFORM, nacp.AnnotatorNoise([UNIFORM.matrix(K).dense(), RANDOM.P])], ids=["one", "each"]
)
def test_several_labels_for_each_point_share_it(kind, noise):
    cal, probs, labels = calibrated(UNIFORM), PROBS[3000:3300], LABELS[3000:3300]
    table = np.stack([noisy(UNIFORM, labels), noisy(RANDOM, labels, seed=3)], axis=1)
    table[::5, 1] = -1
    inverses = [inverse_of(UNIFORM), inverse_of(UNIFORM if noise is UNIFORM else RANDOM)]
    weights = np.ones(2) if noise is UNIFORM else noise.weights
    inside, expected = cal.score.scores(probs) <= cal.threshold, []
    for row, held in zip(table, inside, strict=True):
        some = [a for a in range(2) if row[a] >= 0]
        expected.append(np.average([inverses[a][row[a], held].sum() for a in some], weights=weights[some]))
    each = follower(kind, cal, noise=noise)
    each.update(probs, table)
    assert each.coverage == pytest.approx(min(np.mean(expected), 1))


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_engines_make_no_difference_and_batches_none_to_a_monitor(noise):
    pytest.importorskip("nacp.engine._native", reason="the compiled engine was not built")
    cal, probs, labels = calibrated(noise, score="aps"), PROBS[3000:3600], LABELS[3000:3600].copy()
    labels[200::2] = (labels[200::2] + 1) % K
    given, clean, found = noisy(noise, labels), np.where(np.arange(600) % 7, -1, labels), []
    for engine, ends in (
        ("numpy", [0, 3, 3, 300, 501, 600]),
        ("native", [0, 3, 3, 300, 501, 600]),
        ("native", [0, 600]),
    ):
        both = nacp.Monitor(cal), nacp.OnlineCalibrator(start=cal)
        with using(engine):
            for (start, end), each in ((some, each) for some in pairwise(ends) for each in both):
                each.update(probs[start:end], given[start:end], clean=clean[start:end])
        found.append([each._state() for each in both])
    assert found[0] == found[1]
    assert found[0][0] == found[2][0]
    assert both[0].alarm


@KINDS
def test_several_threads_lose_no_points(kind):
    each, interval = follower(kind, calibrated(UNIFORM)), sys.getswitchinterval()
    parts = [slice(start, start + 20) for start in range(3000, 6000, 20)]
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda some: each.update(PROBS[some], clean=LABELS[some]), parts))
    finally:
        sys.setswitchinterval(interval)
    assert (each.n, each.checked) == (3000, 3000)


@KINDS
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_what_was_saved_goes_on_as_if_nothing_had_happened(kind, noise, tmp_path):
    options = {"target": 0.89} if kind is nacp.Monitor else {"alpha": 0.2, "decay": 0.1}
    cal = calibrated(noise)
    labels = LABELS.copy()
    labels[4500::3] = (labels[4500::3] + 1) % K
    given, each, straight = noisy(noise, labels), *(follower(kind, cal, **options) for _ in range(2))
    for start in range(3000, 6000, 500):
        some = slice(start, start + 500)
        for one in (each, straight):
            one.update(PROBS[some], given[some], clean=(range(5), labels[some][:5]))
        each.save(tmp_path / "state.json")
        each = kind.load(tmp_path / "state.json")
        assert (str(each), each._state()) == (str(straight), straight._state())
    assert str(each)[:20] in each._repr_html_()


def refused(kind, path, changes):
    """Assert that files with these changes are refused."""
    text = path.read_text()
    document = json.loads(text)
    for change, sentence in changes:
        write_document(path, {name: each for name, each in (document | change).items() if name != "checksum"})
        with pytest.raises(nacp.InputError, match=sentence):
            kind.load(path)
    path.write_text(text[: len(text) // 2])
    with pytest.raises(nacp.InputError, match="is not"):
        kind.load(path)


def test_files_that_do_not_fit_are_refused(tmp_path):
    path, cal = tmp_path / "state.json", calibrated(UNIFORM)
    monitor = nacp.Monitor(cal)
    monitor.save(path)
    state = monitor._state()["state"]
    wrong = [{"n": 1.5}, {"n": -1}, {"bets": [1.0]}, {"bets": ["x"] * 8}, {"at": 5}, {"wealth": "inf"}]
    common = [({"version": 0}, "version 0"), ({"calibration": {}}, "it has no 'score'")]
    changes = [
        ({"format": "nacp.calibration"}, "is not a file of Monitor"),
        ({"false_alarm": 0}, "false_alarm must lie strictly between 0 and 1"),
        ({"state": {}}, "it has no 'n'"),
        ({"checked": -1}, "checked must be a whole number"),
        ({"labelling": {"noise": {"name": "magic"}, "known": True}}, "noise must be one of"),
        *(({"state": state | change}, "cannot be used") for change in [*wrong, {"total": None}]),
    ]
    refused(nacp.Monitor, path, common + changes)
    nacp.OnlineCalibrator(start=cal).save(path)
    changes = [
        ({"rate": -1.0}, "rate must be more than 0"),
        ({"native_threshold": "inf"}, "native_threshold must be a finite number"),
        ({"n": "many"}, "n must be a whole number"),
    ]
    refused(nacp.OnlineCalibrator, path, common + changes)


@KINDS
def test_wrong_input_leaves_all_as_it_was(kind):
    each, probs, labels = follower(kind, calibrated(UNIFORM)), PROBS[3000:3300], LABELS[3000:3300]
    each.update(probs, labels, clean=labels)
    before, broken, wrong = each._state(), probs.copy(), labels.copy()
    broken[150, 3], wrong[150] = np.nan, K
    for arguments, options, sentence in (
        ((broken, labels), {}, "probs"),
        ((probs, wrong), {}, "from 0 to 9"),
        ((probs, None), {}, "labels or clean must be given"),
        ((probs.astype(np.float16), labels), {}, "float16"),
        ((probs, labels), {"clean": labels[:-1]}, "clean must have the shape"),
    ):
        with pytest.raises(nacp.InputError, match=sentence):
            each.update(*arguments, **options)
        assert each._state() == before
    each.update(probs[:0], labels[:0])
    assert each._state() == before
