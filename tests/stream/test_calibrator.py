"""Calibrator: thresholds are those of calibrate, tallies add up, promises hold, nothing is lost."""

import copy
import json
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import nacp
from nacp.coverage.grid import CELLS
from nacp.coverage.tally import MOST_POINTS
from nacp.files import write_document
from nacp.guarantees import GUARANTEES
from nacp.stream.calibrator import _packed, _unpacked

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::nacp.{each}Warning") for each in ("NoValidThreshold", "NoiseModel")
]

N, K = 1500, 20
GROUPS = nacp.GroupNoise(groups=[i // 5 for i in range(K)], rate=0.3)
CONFUSED = 0.7 * np.eye(K) + 0.2 * np.roll(np.eye(K), 1, axis=1) + 0.1 / K
NOISES = {
    "uniform": nacp.UniformNoise(0.2),
    "interval": nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.99),
    "private": nacp.RandomizedResponse(4.0),
    "groups": GROUPS,
    "groups, interval": nacp.GroupNoise([i // 5 for i in range(K)], rate=0.3, interval=(0.2, 0.4)),
    "matrix": nacp.MatrixNoise(CONFUSED),
    "radius": nacp.MatrixNoise(CONFUSED, radius=0.01),
    "none": None,
}
SCORES = ["hps", "aps", "raps", nacp.APS(randomized=False), "saps", "margin", "topk", "precomputed"]
ALPHAS = [0.05, 0.1, 0.3]


def simulated():
    """Return probabilities in float32, true labels and noisy ones."""
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.standard_normal((N, K))
    labels = rng.integers(K, size=N)
    logits[np.arange(N), labels] += 4
    probs = np.exp(logits)
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32)
    return probs, labels, nacp.UniformNoise(0.2).sample(labels, K, rng)


def annotated():
    """Return labels of three annotators, some of them missing, and their noise."""
    rng, rates = np.random.default_rng(1), (0.1, 0.4, 0.2)
    several = np.stack([nacp.UniformNoise(rate).sample(LABELS, K, rng) for rate in rates], axis=1)
    several[rng.random(several.shape) < 0.3] = -1
    several[:, 0] = np.where((several < 0).all(axis=1), LABELS, several[:, 0])
    return several, nacp.AnnotatorNoise([nacp.UniformNoise(rate).matrix(K).dense() for rate in rates])


PROBS, LABELS, NOISY = simulated()
NAMES = [f"kind {i}" for i in range(K)]


def fed(stream, probs, labels, ends=()):
    """Feed a stream batch by batch."""
    for start, stop in pairwise([0, *ends, len(probs)]):
        stream.update(probs[start:stop], labels[start:stop])
    return stream


def guarantees_for(noise, several):
    """Return the guarantees that hold for a noise model and can be found from a tally."""
    every = [*(kind() for kind in GUARANTEES.values()), nacp.Expected("worst-case")]
    found = [each for each in every if each.applies(noise, "last") is None and not each.needs_points]
    return [each for each in found if each.takes_several or not several]


def assert_same(stream, probs, labels, *, several=False, **options):
    """Assert that a stream finds what `calibrate` does; "split" the next point of the grid."""
    for guarantee in guarantees_for(stream.noise, several):
        asked = {"guarantee": guarantee, "alpha": ALPHAS}
        found = stream.finish(**asked)
        whole = partial(nacp.calibrate, probs, labels, noise=stream.noise, score=stream.score, **options)
        for one, other in zip(found, whole(**asked), strict=True):
            assert one.deviation in (None, 0)
            if guarantee.name == "split":
                native = stream.score.spec.thresholds
                assert one.native_threshold == native[np.searchsorted(native, other.native_threshold)]
                assert one.estimate >= other.estimate - 1e-9  # parts of several labels are rounded
                kept = {"native_threshold": one.native_threshold, "estimate": one.estimate}
                assert one == replace(other, **kept)
            else:
                assert one == replace(other, deviation=one.deviation)
                assert replace(one.tally, squares=other.tally.squares) == other.tally
                assert (one.promise, one.assumptions) == (other.promise, other.assumptions)


# Thresholds


PAIRS = [
    (score, noise) for score in SCORES for noise in NOISES if score in ("hps", "aps") or noise == "uniform"
]


@pytest.mark.parametrize(("score", "noise"), PAIRS)
def test_thresholds_are_those_of_calibrate_however_the_points_come(score, noise, tmp_path):
    given = 3 * (1 - PROBS) ** 2 if score == "precomputed" else PROBS
    whole = fed(nacp.Calibrator(K, noise=NOISES[noise], score=score), given, NOISY)
    assert_same(whole, given, NOISY)
    ends = [1, 2, 2, 40, 900]  # one row, none, a few, many
    assert fed(whole.fresh(), given, NOISY, ends) == whole
    parts = [fed(whole.fresh(), given[a:b], NOISY[a:b]) for a, b in pairwise([0, *ends, N])]
    parts[3].save(tmp_path / "state")
    parts[3] = nacp.Calibrator.load(tmp_path / "state")
    assert sum(parts) == whole
    first, second = parts[5] + parts[0], parts[3] + (parts[4] + parts[1])
    second.merge(parts[2])
    second.merge(first)
    assert second == whole
    assert_same(whole - parts[5], given[:900], NOISY[:900])


@pytest.mark.parametrize("score", ["hps", "aps"])
@pytest.mark.parametrize("noise", ["annotators", "uniform", "interval", "matrix", "none"])
def test_thresholds_of_several_labels_are_those_of_calibrate(noise, score, tmp_path):
    several, annotators = annotated()
    whole = fed(nacp.Calibrator(K, noise=NOISES.get(noise, annotators), score=score), PROBS, several)
    parts = fed(whole.fresh(), PROBS, several, [1, 7, 600])
    parts.update(PROBS[:0], several[:0])
    parts.save(tmp_path / "state")
    assert parts == whole == nacp.Calibrator.load(tmp_path / "state")
    assert_same(parts, PROBS, several, several=True)
    first = whole - fed(whole.fresh(), PROBS[900:], several[900:])
    assert_same(first, PROBS[:900], several[:900], several=True)
    with pytest.raises(nacp.InputError, match="must have several labels for each point, as before"):
        whole.update(PROBS, LABELS)
    held = "uniform noise only" if noise in ("annotators", "matrix") else "one label for each point"
    with pytest.raises(nacp.InputError, match=f'"binomial" holds for {held}'):
        whole.finish(guarantee="binomial")
    if noise == "annotators":
        assert_same(fed(whole.fresh(), PROBS, LABELS, [300]), PROBS, LABELS)


@pytest.mark.parametrize(
    ("noise", "name", "works"),
    [
        ("uniform", "binomial", '"binomial", "expected", "nacp", "acnl", "crcp" or "none"'),
        ("interval", "binomial", '"binomial", "expected" or "nacp"'),
        ("groups", "expected", '"expected", "nacp", "acnl", "crcp" or "none"'),
        ("none", "split", '"binomial", "expected", "nacp", "acnl", "crcp", "none" or "split"'),
    ],
)
def test_the_guarantee_need_not_be_named_and_a_refusal_says_which_work(noise, name, works):
    stream = fed(nacp.Calibrator(K, noise=NOISES[noise]), PROBS, NOISY)
    assert stream.finish().guarantee.name == name
    assert stream.finish() == stream.finish(guarantee=name, alpha=0.1)
    for pac in ("pac", nacp.PAC()):
        with pytest.raises(nacp.InputError, match=f'"pac" looks at .* random order, .* use {works}$'):
            stream.finish(guarantee=pac)
    for each in re.findall(r'"(\w+)"', works):
        assert stream.finish(guarantee=each).guarantee.name == each


def test_a_second_look_at_more_points_is_named(tmp_path):
    stream, said = nacp.Calibrator(noise=0.2), "look {} at a growing number of points: each holds by itself"
    for look, (start, stop) in enumerate(pairwise([0, 600, 900, N]), start=1):
        stream.update(PROBS[start:stop], NOISY[start:stop])
        for guarantee, remedy in (("binomial", f" (for that, pass delta/{look})"), ("expected", "")):
            cal = stream.finish(guarantee=guarantee, alpha=0.3)
            assert cal.look == look
            assert cal.assumptions.endswith(said.format(look) + ", not all at once" + remedy) == (look > 1)
        assert "look" not in stream.finish(guarantee="none").assumptions
        stream.save(tmp_path / "state")
        stream = nacp.Calibrator.load(tmp_path / "state")
    assert stream.fresh()._looks == (stream + stream)._looks == 0


def test_other_inputs():
    logits, words = np.log(PROBS.astype(np.float64)), np.array(NAMES)[NOISY]
    scores = np.where(PROBS < 0.02, np.inf, 1 - PROBS)  # of labels that are impossible
    for rows, labels, score, options in (
        (logits, words, "hps", {"classes": NAMES, "from_logits": True}),
        (3 * PROBS, NOISY, "hps", {"normalize": True}),
        (scores, NOISY, "precomputed", {}),
    ):
        stream = fed(nacp.Calibrator(K, noise=0.2, score=score, **options), rows, labels, [300])
        assert_same(stream, rows, labels, **options)
    contradicted = fed(nacp.Calibrator(noise=0.5), PROBS, nacp.UniformNoise(0.1).sample(LABELS, K, 3), [400])
    with pytest.warns(nacp.NoiseModelWarning, match="the labels contradict uniform label noise"):
        contradicted.finish(guarantee="none")


def test_the_first_batch_tells_the_classes():
    pd = pytest.importorskip("pandas")
    words, table = np.array(NAMES)[NOISY], pd.DataFrame(PROBS, columns=NAMES)
    tables = table, table[NAMES[::-1]]
    for stream in (nacp.Calibrator(noise=0.2), nacp.Calibrator(K, noise=0.2)):
        with pytest.raises(nacp.InputError, match="labels holds 'x'"):
            stream.update(tables[0], np.full(N, "x"))
        stream.update(PROBS[:0], NOISY[:0])
        parts = [stream.fresh() for _ in range(2)]
        for start, stop, part, table in ((0, 400, 0, 0), (400, 900, 0, 1), (900, N, 1, 0)):
            parts[part].update(tables[table][start:stop], words[start:stop])
        for total in (sum(parts), parts[0] + stream, stream + parts[0]):
            assert (total.k, total.classes) == (K, tuple(NAMES))
        stream.merge(sum(parts))
        assert_same(stream, tables[0], words)
        with pytest.raises(nacp.InputError, match="probs has 5 columns"):
            stream.update(PROBS[:, :5], NOISY)
    with pytest.raises(nacp.InputError, match="noise is for 20 classes, not for 5"):
        nacp.Calibrator(noise=CONFUSED).update(np.full((1, 5), 0.2), [0])
    assert nacp.Calibrator(noise=0.2, classes=NAMES).k == K
    with pytest.raises(nacp.InputError, match="k is not known before the first batch"):
        nacp.Calibrator(noise=0.2).save("state")
    with pytest.raises(nacp.InputError, match="the same noise"):
        nacp.Calibrator(noise=0.3) + stream


# States


def test_several_threads_lose_no_points():
    stream, parts = nacp.Calibrator(K, noise=None), [slice(i, i + 50) for i in range(0, 1200, 50)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda some: stream.update(PROBS[some], NOISY[some]), parts))
        assert stream == fed(stream.fresh(), PROBS[:1200], NOISY[:1200])
        merged = stream.fresh()
        list(pool.map(merged.merge, [fed(stream.fresh(), PROBS[each], NOISY[each]) for each in parts]))
    assert merged == stream


@pytest.mark.parametrize("noise", NOISES)
def test_copies_go_on_by_themselves(noise):
    stream = fed(nacp.Calibrator(K, noise=NOISES[noise]), PROBS[:900], NOISY[:900])
    copies = pickle.loads(pickle.dumps(stream)), copy.copy(stream), copy.deepcopy(stream), sum([stream])
    for other in copies:
        assert other == stream
        other.update(PROBS[900:], NOISY[900:])
        assert (other.n, stream.n) == (N, 900)
        assert other == fed(stream.fresh(), PROBS, NOISY)
    with pytest.raises(TypeError, match="unsupported operand"):
        1 + stream


@pytest.mark.parametrize(("noise", "most"), [(0.2, (1 << 62) // K**2), (GROUPS, MOST_POINTS)], ids=str)
def test_no_sum_can_overflow_and_more_points_are_refused(noise, most):
    stream = fed(nacp.Calibrator(K, noise=noise), PROBS, NOISY)
    size = len(pickle.dumps(stream))
    while stream.n <= most // 2:
        stream = stream + stream
    before = pickle.dumps(stream)
    assert abs(len(before) - size) < 99 < size < 8 * 6 * CELLS  # nothing grows
    with pytest.raises(nacp.InputError, match=f"at most {most:,} rows in all"):
        stream.merge(stream)
    assert pickle.dumps(stream) == before
    (tally,) = stream._counts.tallies
    assert min(each.min() for each in tally.counts) >= 0
    assert tally.pairs.sum() == stream.n * K
    if tally.squares is not None:
        assert tally.squares[-1] == stream.n * K**2
    else:
        assert tally.gains.astype(object).sum() * 2 < 1 << 63


# What goes wrong


def test_a_bad_batch_leaves_the_state_as_it_was():
    failing = []

    def score(rows):
        if failing and len(rows):
            raise ArithmeticError
        return -rows.astype(np.float64)

    stream = fed(nacp.Calibrator(K, noise=0.2), PROBS[:200], NOISY[:200])
    own = fed(nacp.Calibrator(K, noise=0.2, score=score), PROBS[:200], NOISY[:200])
    before, counts = pickle.dumps(stream), own.fresh() + own
    failing.append(True)
    with pytest.raises(ArithmeticError):
        own.update(PROBS[200:300], NOISY[200:300])
    assert own == counts
    broken, wrong, some = PROBS[:50].copy(), NOISY[:50].copy(), NOISY[:50]
    broken[33, 2], wrong[7] = np.nan, K
    for rows, labels, said in (
        (broken, some, "probs holds NaN, first in row 33"),
        (PROBS[:50], wrong, "labels must lie from 0 to 19"),
        (PROBS[:50].astype(np.float64), some, "must be float32, as the points before were; found float64"),
        (lazy(broken, 30), some, "probs holds NaN, first in row 33"),
        (lazy(PROBS[:50].astype(np.float64), 30), some, "probs must be float32, as the points before"),
        (lazy(PROBS[:50], 30), np.stack([some, some], axis=1), "one label for each point, as before"),
    ):
        with pytest.raises(nacp.InputError, match=said):
            stream.update(rows, labels)
        assert pickle.dumps(stream) == before
    stream.update(PROBS[:0], NOISY[:0])
    assert pickle.dumps(stream) == before


def test_what_does_not_belong_together_is_not_merged():
    ours = fed(nacp.Calibrator(K, noise=0.2), PROBS, NOISY)
    before = pickle.dumps(ours)
    wide = fed(nacp.Calibrator(K, noise=0.2), PROBS.astype(np.float64), NOISY)
    several = fed(nacp.Calibrator(K, noise=0.2), PROBS, np.stack([NOISY, NOISY], axis=1))
    other_classes = nacp.Calibrator(K, noise=0.2, classes=[*"abcdefghijklmnopqrst"])
    for other, said in (
        (nacp.Calibrator(K + 1, noise=0.2), "the same k, 20; found 21"),
        (nacp.Calibrator(K, noise=0.3), r"the same noise, .*rate=0.2\); found .*rate=0.3\)"),
        (nacp.Calibrator(K, noise=0.2, score="aps"), r"the same score, HPS\(\); found APS"),
        (other_classes, "the same classes"),
        (nacp.Calibrator(K, noise=0.2, normalize=True), "the same normalize, False; found True"),
        (nacp.Calibrator(K, noise=0.2, from_logits=True), "the same from_logits, False; found True"),
        (wide, "must be float32, as the points before were; found float64"),
        (several, "labels must have one label for each point, as before"),
        (NOISY, "other must be a Calibrator; found ndarray"),
    ):
        with pytest.raises(nacp.InputError, match=said):
            ours.merge(other)
        with pytest.raises(nacp.InputError, match=said):
            ours - other
    assert pickle.dumps(ours) == before
    with pytest.raises(nacp.InputError, match="normalize has no effect"):
        nacp.Calibrator(K, noise=0.2, normalize=True, from_logits=True)
    with pytest.raises(nacp.InputError, match="probs has no points yet; call update first"):
        ours.fresh().finish(guarantee="none")


def test_a_window_slides():
    start = nacp.Calibrator(K, noise=NOISES["matrix"])
    hours = [fed(start.fresh(), PROBS[a : a + 300], NOISY[a : a + 300]) for a in range(0, N, 300)]
    window = hours[0] + hours[1]
    for old, new in zip(hours, hours[2:], strict=False):
        window = window + new - old
    assert window == hours[3] + hours[4]
    assert window - hours[3] - hours[4] == start
    one, other, two, three = (
        fed(nacp.Calibrator(noise=0.2), PROBS[:1], each) for each in ([3], [4], [[3, 3]], [[3, -1]])
    )
    for less, more in ((window, hours[0]), (start, hours[0]), (one, other), (two, three)):
        with pytest.raises(nacp.InputError, match="other holds points that were never added"):
            less - more


# Files


def own_score(rows):
    return -rows.astype(np.float64)


def test_files(tmp_path):
    path = tmp_path / "state"
    for noise in (None, *NOISES.values()):
        stream = nacp.Calibrator(noise=noise, score="raps", classes=NAMES)
        stream.update(PROBS, np.array(NAMES)[NOISY])
        for state in (stream.fresh(), stream):
            state.save(path)
            assert nacp.Calibrator.load(path) == state
    data = path.read_text()
    path.write_text(data.replace('"n": 1500', '"n": 1501'))
    with pytest.raises(nacp.InputError, match="is damaged: its checksum does not fit"):
        nacp.Calibrator.load(path)
    write_document(path, json.loads(data) | {"version": 2})
    with pytest.raises(nacp.InputError, match="has version 2 of the format; this nacp reads 1"):
        nacp.Calibrator.load(path)
    own = fed(nacp.Calibrator(noise=0.2, score=own_score), PROBS, NOISY)
    own.save(path)
    with pytest.raises(nacp.InputError, match="score is the custom function"):
        nacp.Calibrator.load(path)
    assert nacp.Calibrator.load(path, score=own_score) == own


@pytest.mark.parametrize("noise", ["uniform", "matrix"])
def test_files_that_were_made_up_are_refused(tmp_path, noise):
    path = tmp_path / "state"
    fed(nacp.Calibrator(K, noise=NOISES[noise]), PROBS, NOISY).save(path)
    with pytest.raises(nacp.InputError, match="is not a calibration file"):
        nacp.load(path)
    document = json.loads(path.read_text())
    (stored,) = document["tallies"]
    arrays = {name: _unpacked(stored[name]) for name in stored}
    pairs, cells, by_label, hits = (arrays[name] for name in ("pairs", "cells", "by_label", "hits"))
    largest = np.arange(len(pairs)) == np.argmax(pairs)
    wrong = {
        "n": [N - 1, MOST_POINTS * 10**12],
        "several": [True],
        "widths": [None],
        "pairs": [np.where(largest, -pairs, pairs), pairs + largest],
        "hits": [hits[1:], hits + largest],
        "cells": [cells[::-1], cells + CELLS, cells - cells[0] - 1],
        "by_label": [by_label[1:], by_label + 1, by_label - 2 * by_label.max() * (np.arange(K) == 0)],
        "gains": [pairs] if noise == "uniform" else [None, -arrays["gains"]],
        "squares": [pairs],
    }
    if noise == "uniform":
        squares = arrays["squares"]
        wrong["squares"] += [None, squares[1:], squares + 1, squares // 2, squares[::-1]]
    cases = [(name, value, "counts are not those of any points") for name in wrong for value in wrong[name]]
    cases += [
        ("k", 1, "k must"),
        ("n", 0.5, "n must be a whole number"),
        ("grid", "0", "grid is not that of this nacp; count the points again"),
        ("score", {"name": "custom", "function": "f"}, "score is the custom function"),
        ("several", 1, "several must"),
        ("tallies", [{}], "it has no 'by_label'"),
        ("tallies", [], "zip"),
        ("tallies", [stored | {"hits": "x"}], "base64"),
        ("tallies", [stored | {"hits": "AAAA"}], "buffer size"),
    ]
    for name, value, said in cases:
        change = {name: value} if name in document else {"tallies": [stored | {name: _packed(value)}]}
        write_document(path, document | change)
        with pytest.raises(nacp.InputError, match=f"cannot be used: .*{said}"):
            nacp.Calibrator.load(path)
    write_document(path, document)
    assert nacp.Calibrator.load(path).n == N


# Dask arrays


def lazy(rows, chunks):
    da = pytest.importorskip("dask.array")
    return da.from_array(rows, chunks=(chunks, *rows.shape[1:]))


@pytest.mark.parametrize("noise", ["uniform", "interval", "matrix", "none"])
def test_chunks_of_dask_arrays_are_counted_as_batches(noise):
    table = np.stack([NOISY, np.where(np.arange(N) % 3, -1, LABELS)], axis=1)
    for labels, options in ((NOISY, {}), (table, {}), (np.array(NAMES)[NOISY], {"classes": NAMES})):
        parts = nacp.Calibrator(noise=NOISES[noise], score="aps", **options)
        whole = fed(parts.fresh(), PROBS, labels)
        parts.update(lazy(PROBS[:900], (700, 1, 199)), lazy(labels[:900], 555))
        parts.update(PROBS[900:1000], labels[900:1000])
        parts.update(lazy(PROBS[1000:], 300), labels[1000:])
        parts.update(lazy(PROBS[:0], 1), labels[:0])
        assert parts == whole
        assert_same(parts, PROBS, labels, several=labels is table, **options)
