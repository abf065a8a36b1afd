"""The compiled engine: the same bits as NumPy's, whatever the rows; and no crash, whatever it is given."""

import contextlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.engine import ByEntry, ByLabel, Chosen, Pairs, PerLabel, PerRow, Spec, traced
from nacp.engine.cells import CELLS, EDGES, cell_table
from nacp.engine.codes import codes_of_formula
from nacp.engine.contract import Keep, Unchecked, Whole
from nacp.engine.formula import Symbols
from nacp.engine.kept import Kept
from nacp.stats import betting

_native = pytest.importorskip("nacp.engine._native", reason="the compiled engine was not built")
from nacp.engine import native  # noqa: E402

SCORES = [
    nacp.HPS(),
    nacp.APS(),
    nacp.APS(randomized=False),
    nacp.RAPS(penalty=0.05, free=2),
    nacp.RAPS(randomized=False),
    nacp.SAPS(),
    nacp.SAPS(randomized=False),
    nacp.Margin(),
    nacp.TopK(),
]


def some_rows(kind: str, n: int, k: int, dtype: type, rng: np.random.Generator) -> np.ndarray:
    """Rows of probabilities of some kind."""
    if kind == "few bits":
        bits = some_rows("plain", n, k, np.float32, rng).view(np.uint32) & 0xFFFF0000
        return bits.view(np.float32).astype(dtype)
    spread = {"even": 0.01, "sharp": 12.0, "tiny": 60.0, "close": 1e-5}
    logits = rng.standard_normal((n, k)) * spread.get(kind, 3.0)
    if kind == "close":  # their leading bits are the same
        logits[:, 0] += 5
        logits[:, -1] -= 60
    if kind == "ties":
        logits = logits.round()
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    if kind == "zeros":
        probs[rng.random((n, k)) < 0.6] = 0
        probs[:, 0] += 1e-3
    if kind == "one-hot":
        probs = np.eye(k)[rng.integers(k, size=n)]
        probs[probs == 0] = -0.0
    if kind == "subnormal":
        probs[:, 1:] *= 1e-41
    return (probs / probs.sum(axis=1, keepdims=True)).astype(dtype)


def laid_out(values: np.ndarray, layout: str) -> np.ndarray:
    """The same values, otherwise in memory."""
    if layout == "by columns":
        return np.asfortranarray(values)
    if layout == "with gaps":
        return np.repeat(np.repeat(values, 2, axis=0), 3, axis=1)[::2, ::3]
    return values


def answers(score: nacp.Score, values: np.ndarray, rng: np.random.Generator, rows=None) -> list[np.ndarray]:
    """What each verb says of the rows, or of some, of which nothing depends on an order that is left open."""
    n, k = values.shape if rows is None else (len(rows), values.shape[1])
    labels, entries = rng.integers(k, size=n), rng.integers(-9, 10, size=(n, k))
    weights = [None, ByEntry(entries), ByLabel(labels, Whole(rng.integers(-9, 10, size=(k, k))))]

    def block():
        return engine.open_block(values if rows is None else Chosen(values, rows), score.spec)

    scores = np.asarray(block().placed, dtype=np.float64)
    q = np.unique(rng.choice(scores.ravel(), 6))
    q = np.unique([*q, np.nextafter(q[0], -np.inf), q[-1] + 1])
    spans = [(q[0], q[1]), (q[2], q[-1])] if len(q) > 3 else [(q[0], q[-1])]
    by_label, by_row = rng.choice(q, size=(2, k)), rng.choice(q, size=(2, n))
    found = [scores, engine.label_scores(block(), labels)]
    if score.spec.seed is not None:
        found.append(block().u)
    for each in weights:
        found += [engine.tally(block(), None, each), engine.tally(block(), q, each)]
        pairs = engine.window(block(), spans, each)
        order = np.lexsort((pairs.weights, pairs.scores) if len(pairs.weights) else (pairs.scores,))
        found += [pairs.scores[order], pairs.weights[order] if len(pairs.weights) else pairs.weights]
        found += [engine.profile(block(), kind, each) for kind in (q, PerLabel(by_label), PerRow(by_row))]
        found.append(engine.counts(block(), by_label, each))
        which, pairs = engine.gaps(block(), np.arange(k), *np.sort(by_label, axis=0), each)
        found += [which, *pairs]
    for threshold in (float(q[1]), -np.inf, np.inf, PerLabel(by_label[0]), PerRow(by_row[0])):
        for allow_empty in (True, False):
            found += engine.sets(block(), threshold, allow_empty=allow_empty)
    return found


KINDS = ["plain", "ties", "zeros", "one-hot", "subnormal", "even", "sharp", "tiny", "close"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [3, 17, 100, 600])
@pytest.mark.parametrize("score", [SCORES[0], SCORES[1], SCORES[3]], ids=repr)
def test_machines_with_narrower_vectors_give_the_same_bits(score, k, dtype):
    def seen(values, limit):
        block = engine.open_block(values, score.spec)
        counted = engine.tally(block, None, None, limit)[:, limit >= EDGES]
        return [*answers(score, values, np.random.default_rng(k)), counted]

    rng = np.random.default_rng(k)
    for kind in KINDS:
        values = some_rows(kind, 13, k, dtype, rng)
        with engine.using("native"):
            limit = float(np.quantile(engine.open_block(values, score.spec).placed, 0.3))
            wide = seen(values, limit)
            try:
                for bytes_ in (16, 32):
                    _native.vectors(bytes_)
                    for ours, theirs in zip(seen(values, limit), wide, strict=True):
                        np.testing.assert_array_equal(ours, theirs)
            finally:
                _native.vectors(64)


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_chosen_rows_are_seen_where_they_lie_as_if_they_were_copied(score, dtype, name):
    rng = np.random.default_rng(12)
    for k in (2, 40, 300):
        values, rows = some_rows("plain", 30, k, dtype, rng), rng.integers(30, size=60)[::3]
        with engine.using(name):
            there = answers(score, values, np.random.default_rng(k), rows)
            copied = answers(score, values[rows], np.random.default_rng(k))
        for ours, theirs in zip(there, copied, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_chosen_rows_that_are_none_are_errors_and_never_crashes():
    values, n, k = np.full((5, 4), 0.25, dtype=np.float32), 3, 4
    tail = None, None, None, None

    def tried(*given):
        return _native.profile(
            (given, n, k, 4, *tail), 0, n, np.zeros(1), 0, None, None, np.zeros((n, 1), int)
        )

    tried(values, np.array([4, 0, 4]))
    for rows in ([0, 5, 1], [0, -1, 1], [2**62, 0, 0], [0, 1]):
        with pytest.raises(ValueError, match=r"no such row|not as large"):
            tried(values, np.array(rows))
    for wrong in (
        values[:, :3].copy(),
        values.astype(np.float64)[:0],
        b"",
        None,
        (1, 2),
        np.zeros(7, np.int8)[1:],
    ):
        with pytest.raises((ValueError, TypeError)):
            tried(wrong, np.array([4, 0, 4]))
    with pytest.raises(TypeError):
        tried(values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 3, 15, 16, 17, 100, 1001])
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_both_engines_give_the_same_bits(score, k, dtype):
    if k == 1 and isinstance(score, nacp.Margin):
        pytest.skip("a margin needs two labels")
    for i, kind in enumerate(KINDS):
        values = some_rows(kind, 9 if k > 50 else 33, k, dtype, np.random.default_rng([k, i]))
        layout = ("as usual", "by columns", "with gaps")[i % 3]
        said = []
        for name in ("numpy", "native"):
            with engine.using(name):
                said.append(answers(score, laid_out(values, layout), np.random.default_rng(7)))
        for numpys, natives in zip(*said, strict=True):
            np.testing.assert_array_equal(numpys, natives, strict=False, err_msg=f"{kind}, {layout}")


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_labels_of_probability_0_score_the_same_where_subnormals_are_flushed(score):
    torch = pytest.importorskip("torch", reason="it can switch them off, as some libraries do when imported")
    rng = np.random.default_rng(11)
    values, labels = some_rows("zeros", 50, 20, np.float32, rng), rng.integers(20, size=50)
    with engine.using("native"):
        scores = engine.label_scores(engine.open_block(values, score.spec), labels)
        if not torch.set_flush_denormal(True):
            pytest.skip("this machine cannot")
        try:
            flushed = engine.label_scores(engine.open_block(values, score.spec), labels)
        finally:
            torch.set_flush_denormal(False)
    np.testing.assert_array_equal(scores, flushed)


@pytest.mark.parametrize("score", SCORES[:4], ids=repr)
def test_many_classes(score):
    values = some_rows("plain", 5, 5000, np.float32, np.random.default_rng(0))
    said = []
    for name in ("numpy", "native"):
        with engine.using(name):
            said.append(answers(score, values, np.random.default_rng(1)))
    for numpys, natives in zip(*said, strict=True):
        np.testing.assert_array_equal(numpys, natives)


def far_down(score: nacp.Score, values: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """What verbs say of thresholds at which most labels are in the sets: scores, and next to them."""
    n, k = values.shape
    labels = rng.integers(k, size=n)
    table = ByLabel(labels, Whole(rng.integers(-9, 10, size=(k, k))))

    def block():
        return engine.open_block(values, score.spec)

    scores = np.asarray(block().placed, dtype=np.float64)
    found = []
    for share in (0.5, 0.9, 1.0):
        q = np.quantile(scores, np.clip(share + rng.uniform(-0.02, 0.02, 4), 0, 1), method="nearest")
        q = np.unique([*q, *np.nextafter(q[:2], -np.inf), *np.nextafter(q[:2], np.inf)])
        for threshold in (float(q[0]), float(q[-1]), PerRow(rng.choice(q, size=n))):
            for allow_empty in (True, False):
                found += engine.sets(block(), threshold, allow_empty=allow_empty)
        many = np.unique(rng.choice(scores[scores >= q[0]], 40))
        limit = float(EDGES[np.searchsorted(EDGES, q[-1])])
        for weights in (None, table):
            found += [engine.profile(block(), some, weights) for some in (q, many)]
            found += [engine.tally(block(), edges, weights) for edges in (q, np.append(-np.inf, q))]
            found.append(engine.tally(block(), None, weights, limit)[:, limit >= EDGES])
            pairs = engine.window(block(), [(q[0], q[1]), (q[2], q[-1])], weights)
            order = np.lexsort((pairs.weights, pairs.scores) if len(pairs.weights) else (pairs.scores,))
            found += [pairs.scores[order], pairs.weights[order] if len(pairs.weights) else pairs.weights]
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [300, 1000, 3000])
@pytest.mark.parametrize("score", SCORES[1:6:2] + SCORES[2:3], ids=repr)
def test_both_engines_give_the_same_bits_far_down_rows(score, k, dtype):
    """Labels that score too little are skipped there, and some rows are not at all like those before them."""
    rng = np.random.default_rng(k)
    some = 6000 // k + 10
    for kind in [*KINDS, "few bits"] if k == 300 else ("few bits", "sharp", "close"):
        values = np.concatenate([some_rows(each, some, k, dtype, rng) for each in (kind, "plain")])
        values = values[np.append(np.arange(some // 2), some // 2 + rng.permutation(some + some // 2))]
        with engine.using("numpy"):
            numpys = far_down(score, values, np.random.default_rng(7))
        try:
            for bytes_ in (16, 32, 64) if k == 300 else (64,):
                _native.vectors(bytes_)
                with engine.using("native"):
                    natives = far_down(score, values, np.random.default_rng(7))
                for ours, theirs in zip(natives, numpys, strict=True):
                    np.testing.assert_array_equal(ours, theirs, err_msg=kind)
        finally:
            _native.vectors(64)


@pytest.mark.parametrize("score", [nacp.APS(), nacp.RAPS(randomized=False), nacp.TopK()], ids=repr)
def test_many_numbers_that_are_one_as_float32(score):
    rng = np.random.default_rng(2)
    near = (1 + rng.integers(0, 200, size=(4, 700)) * 2.0**-40) / 700  # many of them twice and more
    tiny = 10.0 ** rng.uniform(-300, -50, size=(4, 700))
    tiny[:, ::3], tiny[:, 1::9], tiny[:, 5] = 0.0, -0.0, 1.0
    for values in (near / near.sum(axis=1, keepdims=True), tiny):
        said = []
        for name in ("numpy", "native"):
            with engine.using(name):
                said.append(answers(score, values, np.random.default_rng(1)))
        for numpys, natives in zip(*said, strict=True):
            np.testing.assert_array_equal(numpys, natives)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("noise", [0.2, "matrix"])
@pytest.mark.parametrize("guarantee", ["pac", "none", "expected"])
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_both_engines_calibrate_alike(score, guarantee, noise, dtype):
    rng = np.random.default_rng(3)
    probs = some_rows("plain", 700, 40, dtype, rng)
    if noise == "matrix":
        noise = nacp.MatrixNoise(0.75 * np.eye(40) + 0.25 * rng.dirichlet(np.full(40, 0.5), 40))
    truth = np.array([rng.choice(40, p=p / p.sum()) for p in probs.astype(np.float64)])
    labels = nacp.noise.as_noise(noise).sample(truth, 40, random_state=4)
    found = []
    for name in ("numpy", "native"):
        with engine.using(name), nacp.tuning.tuned(hint_pairs=100, counted_pairs=1000, block_entries=4000):
            cal = nacp.calibrate(
                probs, labels, noise=noise, score=score, guarantee=guarantee, alpha=[0.1, 0.3]
            )
            sets = [each.predict_set(probs) for each in cal]
            found.append((cal, [s.labels.tolist() for s in sets], [c.tally for c in cal]))
    assert found[0] == found[1]


def test_both_engines_count_as_far():
    """Though one of them may have to count all, as it puts what is beyond the limit too low."""
    for seed, score in ((9, nacp.TopK()), (13, nacp.HPS()), (24, nacp.HPS()), (26, nacp.HPS())):
        rng = np.random.default_rng(seed)
        probs = np.exp(rng.standard_normal((100, 5)) * 2.5)
        probs = (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32)
        noise = nacp.MatrixNoise(0.7 * np.eye(5) + 0.3 * rng.dirichlet(np.full(5, 0.5), 5))
        truth = (probs.cumsum(axis=1) > rng.random((100, 1))).argmax(axis=1)
        labels = noise.sample(truth, 5, random_state=seed)
        found = []
        for name in ("numpy", "native"):
            tuned = nacp.tuning.tuned(
                hint_pairs=1, hint_entries=2000, hint_rows=1, hint_errors=0.2, counted_pairs=20
            )
            with engine.using(name), tuned:
                cal = nacp.calibrate(probs, labels, noise=noise, score=score, guarantee="none", alpha=0.3)
                found.append((cal, cal.tally))
        assert found[0] == found[1]


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("k", [3, 63, 64, 100, 1000])
def test_whoever_looks_at_a_row_first_adds_it_up_alike(k, width):
    """So that a row at the edge of what sums may be is refused by all or by none."""
    rng, tolerance, found = np.random.default_rng(k), 1e-3, []
    rows = rng.dirichlet(np.full(k, 0.3), 300) * (1 + tolerance + rng.normal(0, 1e-7, (300, 1)))
    values = np.maximum(rows, 1e-30).astype(np.float32)
    try:
        _native.vectors(width)
        for asked in (
            lambda block: engine.sets(block, -0.01),
            lambda block: engine.tally(block, None, None, -0.01),
            lambda block: engine.tally(block),
        ):
            for row in values:
                unchecked = Unchecked(tolerance, found.append)
                with engine.using("native"):
                    block = engine.open_block(row[None], nacp.HPS().spec, None, None, unchecked)
                    asked(block)
                    block.confirm()
    finally:
        _native.vectors(64)
    by_verb = np.reshape(found, (3, -1))
    assert 30 < np.count_nonzero(by_verb[0]) < 270
    assert (by_verb == by_verb[0]).all()


@pytest.mark.parametrize("score", [nacp.HPS(), nacp.APS()], ids=repr)
def test_bets_on_a_matrix_within_a_radius_are_placed_next_to_those_on_it_alone(score):
    """Both begin alike, but one asks for the rows, and the other for what was kept of them."""
    rng = np.random.default_rng(0)
    matrix = 0.8 * np.eye(3) + 0.2 * rng.dirichlet(np.ones(3), 3)
    probs = rng.dirichlet(np.full(3, 0.3), 300).astype(np.float32)
    truth = (probs.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)
    noise, found = nacp.MatrixNoise(matrix, radius=0.01, confidence=0.99), []
    labels = noise.sample(truth, 3, random_state=0)
    for name in ("numpy", "native"):
        with engine.using(name):
            cal = nacp.calibrate(probs, labels, noise=noise, score=score, alpha=0.2, delta=0.3)
            found.append((cal.native_threshold, cal.estimate, cal.price_of_doubt))
    assert found[0] == found[1]
    assert found[0][0] < np.inf


def said_by_threads(code: str) -> set[str]:
    """Return what a program prints, with one thread and with several."""
    return {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NACP_THREADS": str(threads), "NACP_ENGINE": "native"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in (1, 2, 7)
    }


def test_the_number_of_threads_changes_nothing():
    code = (
        "import numpy as np, nacp; rng = np.random.default_rng(0);"
        "probs = rng.dirichlet(np.full(200, .1), 3000).astype(np.float32); labels = probs.argmax(axis=1);"
        "cal = nacp.calibrate(probs, labels, noise=.1, score=nacp.APS());"
        "print(cal.native_threshold.hex(), cal.estimate.hex(), cal.predict_set(probs).labels.sum())"
    )
    assert len(said_by_threads(code)) == 1


def test_bets_do_not_depend_on_the_number_of_threads():
    """Several alphas; also what a stream stores of its bets."""
    code = (
        "import hashlib, nacp; from nacp.paper import twins;"
        "probs, labels = twins.simulate('cifar100', n=4000, random_state=0);"
        "labels = nacp.UniformNoise(.2).sample(labels, 100, random_state=0);"
        "stream = nacp.Calibrator(100, noise=.2, score='aps', bets=nacp.PAC(), alpha=[.1, .2], points=4000);"
        "stream.update(probs[:1500], labels[:1500]); stream.update(probs[1500:], labels[1500:]);"
        "(bets,) = stream._played.values();"
        "print([hashlib.sha256(part).hexdigest() for part in bets.stored()]);"
        "cals = nacp.calibrate(probs, labels, noise=.2, alpha=[.05, .1, .2]);"
        "print([cal.native_threshold.hex() for cal in cals])"
    )
    assert len(said_by_threads(code)) == 1


@pytest.mark.parametrize(("name", "value"), [("NACP_ENGINE", "fortran"), ("NACP_THREADS", "many")])
def test_a_setting_that_makes_no_sense_is_refused(name, value):
    code = "import nacp; nacp.APS().uniforms([[.5, .5]])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    assert value in done.stderr.splitlines()[-1]


# Formulas


def test_what_may_round_in_more_than_one_way_is_left_to_numpy():
    x = Symbols()
    for formula in (np.exp(x.above), x.p**2, (x.p < 0.5) * (x.above < 0.5), (x.p < 0.5) + x.u, x.p < 0.5):
        assert codes_of_formula(formula, ranked=True) is None
    deep = x.p
    for _ in range(40):
        deep = x.above + (x.p * deep)
    assert codes_of_formula(deep, ranked=True) is None
    assert codes_of_formula(traced(lambda ranks: ranks.p if ranks.p > 0 else 0), ranked=True) is None
    assert codes_of_formula(-x.p, ranked=False).codes is None
    assert codes_of_formula(1 - x.p, ranked=False) is None


def test_every_operation_is_that_of_numpy():
    x = Symbols()
    formulas = [
        x.above + x.upto - x.p * x.u,
        x.above / (1 + x.p),
        np.maximum(x.above, 0.3) + np.minimum(x.n_above, 4),
        np.sqrt(x.n_upto) + np.absolute(x.p - x.top) + -x.second,
        np.where(x.p == x.top, x.u, 1 + np.where(x.p != x.second, x.n_above, 0.5)),
        np.where(x.p < 0.01, 3, 1) + np.where(x.p <= 0.01, 3, 1),
        np.where(x.above > 0.5, x.n_above, 0) + np.where(x.above >= 0.5, 1, 0),
        0 * x.u + 2.5,
    ]
    values = some_rows("ties", 40, 12, np.float32, np.random.default_rng(0))
    u = np.random.default_rng(1).random(40)
    for formula in formulas:
        spec = Spec(formula, ranked=True, seed=1)
        assert spec.codes is not None
        said = []
        for name in ("numpy", "native"):
            with engine.using(name):
                block = engine.open_block(values, spec, None, u)
                labels = engine.label_scores(engine.open_block(values, spec, None, u), np.arange(40) % 12)
                said.append((block.placed.tolist(), labels.tolist()))
        assert said[0] == said[1], formula


# Bets


@pytest.mark.parametrize("layout", ["as usual", "by columns"])
def test_both_engines_bet_alike(layout):
    rng = np.random.default_rng(8)
    for points, width in ((1, 1), (2, 1), (300, 1), (900, 7), (333, 400)):
        means = np.linspace(-0.3, 0.3, width)
        gains = laid_out(rng.uniform(-0.4, 0.4, (points, width)) + means, layout)
        gains[rng.random(gains.shape) < 0.01] = -0.98  # ruinous
        ends = []
        for playing in (betting.play, native.play):
            bets = betting.Bets(width, points, 0.05, np.linspace(0.1, 1.0, width), playing)
            while bets.seen < points and len(bets.open):
                bets.play(gains[bets.seen : bets.seen + 137, bets.open])
            ends.append((bets.won.tolist(), bets.lost.tolist(), bets._state.tolist()))
        assert ends[0] == ends[1]


@pytest.mark.parametrize("k", [30, 500])
@pytest.mark.parametrize("weighed", [False, True])
def test_both_engines_bet_alike_on_rows(weighed, k):
    rng, n = np.random.default_rng(9), 300
    values = some_rows("plain", n, k, np.float32, rng)
    labels, table = rng.integers(k, size=n), rng.integers(-3, 4, size=(k, k))
    if k > 30:  # far down the rows
        labels, table = np.argsort(values, axis=1)[np.arange(n), labels // 3], table // 2
    weights, outcomes = ByLabel(labels, Whole(table)) if weighed else None, set()
    for score in SCORES if k == 30 else SCORES[2:4]:
        own = engine.label_scores(engine.open_block(values, score.spec), labels)
        near = own[:40, None] + np.arange(60) * 1e-9  # mostly with the same sets
        for more in (own[:0], rng.uniform(-1, 2, 1500), np.append(near, rng.uniform(2, 9, 1500))):
            thresholds = np.unique(np.append(own, more))
            number = len(thresholds)
            for places, owners in (
                (np.arange(number), np.zeros(number, dtype=np.int64)),
                (np.append(np.arange(3, number), np.arange(number // 2, number)), None),
            ):
                if owners is None:
                    owners = (np.arange(len(places)) >= number - 3).astype(np.int64)
                found = []
                for name in ("numpy", "native"):
                    with engine.using(name):
                        blocks = [engine.open_block(some, score.spec) for some in np.split(values, [90, 91])]
                        found.append(played(blocks, labels, thresholds, weights, places, owners))
                assert found[0] == found[1]
                outcomes |= set(found[0][0])
    assert outcomes == {0, 1, 2, 3}  # open, won, lost and forgotten


def played(blocks, labels, thresholds, weights, places, owners):
    """How bets stand after blocks of rows, of which fewer were expected."""
    bets = betting.Bets(len(places), 200, 0.05, 0.4, engine.play, owners)
    start, targets = 0, np.where(owners == 0, 0.7, 0.5)
    for block in blocks:
        rows = slice(start, start + len(block.values))
        start = rows.stop
        given = engine.label_scores(block, labels[rows]), np.linspace(0.8, 1.1, len(labels))[rows]
        weighed = None if weights is None else ByLabel(labels[rows], weights.table)

        def bet(points, *standing, block=block, given=given, weighed=weighed):
            still = bets.open
            column, at = np.unique(places[still], return_inverse=True)
            known = at, targets[still], owners[still], 1.7
            scale = -0.12 / block.shape[1]
            engine.bet(block, points, thresholds[column], weighed, given, scale, known, standing)

        bets.place(len(block.values), bet)
    whole, state = bets.stored()
    outcome = whole[2:]
    for owner in (0, 1):  # what became of those below one that was lost is of no interest
        mine = np.flatnonzero(owners == owner)
        outcome[mine[: np.flatnonzero(outcome[mine] == betting.LOST).max(initial=0)]] = 3
    return outcome.tolist(), whole[:2].tolist(), state.tolist()


@pytest.mark.parametrize("name", ["numpy", "native"])
def test_sums_of_rows_that_masks_choose_are_exact(name):
    rng = np.random.default_rng(10)
    wide, narrow = np.uint32, np.uint16  # the first by NumPy alone
    for rows, width, most, item in (
        (1, 1, 1, wide), (700, 33, 2**31, wide), (9000, 5, 1000, wide), (40, 0, 3, wide), (200, 16, 9, wide),
        (700, 33, 2**16 - 1, narrow), (9000, 5, 1000, narrow), (130, 200, 4095, narrow), (64, 32, 1, narrow),
    ):  # fmt: skip
        masks, counts = rng.random((7, rows)) < 0.5, rng.integers(most + 1, size=(rows, width), dtype=item)
        counts[::3] = most
        with engine.using(name):
            found = engine.masked_sums(masks, counts, most)
        np.testing.assert_array_equal(found, masks.astype(np.int64) @ counts.astype(np.int64))


def test_pairs_are_put_in_order_with_their_weights():
    """Also where their leading bits do not tell which comes first, or all are the same."""
    rng = np.random.default_rng(3)
    near = 1 + rng.integers(1 << 40, size=5000) * 2.0**-52
    cases = [
        rng.random(3000), -rng.random(700), rng.standard_normal(2000) * 10.0 ** rng.integers(-300, 300, 2000),
        near, np.append(near, -1e300), np.sort(near)[::-1], np.full(100, -0.25), np.zeros(0), np.ones(1),
        rng.integers(3, size=999).astype(np.float64), np.array([np.inf, -np.inf, 5e-324, -5e-324, 0.0] * 40),
    ]  # fmt: skip
    for scores in cases:
        weights, none = rng.integers(-(2**62), 2**62, size=len(scores)), np.zeros(0, dtype=np.int64)
        before = scores.copy()
        for name in ("numpy", "native"):
            with engine.using(name):
                alone, found = (engine.ascending(Pairs(scores, each)) for each in (none, weights))
            np.testing.assert_array_equal(alone.scores, np.sort(scores))
            np.testing.assert_array_equal(found.scores, np.sort(scores))
            assert sorted(zip(*map(np.ndarray.tolist, found), strict=True)) == sorted(
                zip(scores.tolist(), weights.tolist(), strict=True)
            )
        assert not len(alone.weights)
        np.testing.assert_array_equal(scores, before)  # they are not put in order where they lie


def test_malformed_numbers_are_errors_and_never_crashes():
    odd = [None, -1, "x", b"abcdefgh", np.empty(0), np.zeros(3), np.zeros(2, np.int8), np.zeros((2, 2))[:, 0]]
    for numbers in odd:
        for others in odd:
            try_it(_native.ascending, (numbers, others))
    with pytest.raises(ValueError, match="as large"):
        _native.ascending(np.zeros(3), np.zeros(2, dtype=np.int64))


def test_malformed_masks_are_errors_and_never_crashes():
    good = (
        np.ones((3, 9), dtype=bool),
        0,
        3,
        np.ones((9, 4), dtype=np.uint16),
        9,
        4,
        1,
        np.zeros((3, 4), int),
    )
    _native.masked_sums(*good)
    odd = [
        None,
        -1,
        0,
        4,
        2**62,
        2**63 - 1,
        "x",
        b"abc",
        np.empty(0),
        np.zeros(9),
        np.zeros(5, dtype=np.int8),
    ]
    for place in range(len(good)):
        for wrong in odd:
            try_it(_native.masked_sums, (*good[:place], wrong, *good[place + 1 :]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("number", [0, 1, 40, 700])
def test_pairs_by_cell_are_those_between_edges(dtype, number):
    """Also where scores are equal to edges, or huge, or 0 with either sign."""
    rng, k = np.random.default_rng(12), 70
    values = (rng.standard_normal((90, k)) * 10.0 ** rng.integers(-9, 3, size=(90, k))).astype(dtype)
    values[::5] = 1 - rng.random((18, k)).astype(dtype) * dtype(1e-4)
    values[0, :8] = 0.0, -0.0, np.inf, -np.inf, 0.5, 1.0, -1.0, dtype(1) - np.finfo(dtype).epsneg
    for minus in (False, True):
        scores = np.negative(values, dtype=np.float64) if minus else values.astype(np.float64)
        finite = np.append(scores[np.isfinite(scores)], [-0.0, 1.0])
        edges = np.unique(rng.choice(finite, size=number) if number else np.empty(0))
        cells = np.searchsorted(edges, scores, side="left")
        known = (rng.random(len(edges) + 1) < 0.5).astype(np.uint8)
        counts = np.empty((90, len(edges)), dtype=np.uint16)
        starts, pair_scores, pair_rows, of = native.split_cells(values, minus, edges, known, counts)
        assert np.array_equal(of, cells)
        assert np.array_equal(counts, (scores[:, :, None] <= edges).sum(axis=1))
        for c in range(len(edges) + 1):
            some, (rows, columns) = slice(*starts[c : c + 2]), np.nonzero((cells == c) & (known[c] > 0))
            assert np.array_equal(pair_rows[some], rows)
            assert np.array_equal(pair_scores[some], scores[rows, columns])


def states_of(seeds):
    """The states of NumPy's generators, and their increments, by halves."""
    words = [np.random.default_rng(seed).bit_generator.state["state"] for seed in seeds]
    return np.array([[divmod(word[part], 2**64) for part in ("state", "inc")] for word in words], np.uint64)


@pytest.mark.parametrize(
    ("n", "k", "calibration", "rate"),
    [(1, 1, 1, 0.3), (2, 2, 1, 0.5), (1501, 10, 600, 0.6), (1000, 1, 3, 0.1), (4096, 100, 4095, 0.0),
     (4097, 3_000_000, 2048, 0.999), (70_000, 2**31 - 1, 7, 0.9)],
)  # fmt: skip
def test_splits_are_drawn_as_numpy_draws_them(n, k, calibration, rate):
    labels = np.random.default_rng(1).integers(k, size=n).astype(np.int32)
    seeds = [[5, split] for split in range(8)]
    masks, noisy = native.split_draws(states_of(seeds), labels, k, calibration, rate)
    for mask, given, seed in zip(masks, noisy, seeds, strict=True):
        rng = np.random.default_rng(seed)
        assert np.array_equal(np.flatnonzero(mask), np.sort(rng.permutation(n)[:calibration]))
        replaced = rng.random(n) < rate
        assert np.array_equal(given, np.where(replaced, rng.integers(k, size=n), labels))
    only, none = native.split_draws(states_of(seeds), labels, k, calibration, None)
    assert none is None
    assert np.array_equal(only, masks)


def test_malformed_splits_are_errors_and_never_crashes():
    n, k, cells, splits, columns = 9, 4, 3, 2, 1
    draws = (
        states_of([1, 2]),
        0,
        2,
        np.zeros(n, np.int32),
        k,
        5,
        0.5,
        np.ones((2, n), bool),
        np.zeros((2, n), np.int32),
    )
    _native.split_draws(*draws)
    table = (
        np.array([0.3, 0.6]), np.array([np.zeros(n), np.arange(n)], np.int32), np.linspace(0, 1, n),
        np.array([[0, 3, 6, 9], [0, 0, 4, 4], [0, 9, 20, 36], [0, 2, 0, 0]]), np.linspace(0.31, 0.6, 4),
        np.arange(4, dtype=np.int32), np.ones((n, k), np.uint16), np.zeros((n, k), np.float32), 4, True,
    )  # fmt: skip
    good = (
        table, 0, splits, k, 5, True, 1e-12, np.ones((splits, n), bool), np.ones((splits, n), np.int32),
        np.ones((splits, cells - 1), int), np.array([[0, 5, -1]]), np.array([[0.2, 0.01]]),
        np.full((splits, columns), 0.5), np.zeros((3, splits, columns)), np.full(splits, -2),
    )  # fmt: skip
    _native.split_crossings(*good)
    odd = [
        None,
        -1,
        0,
        7,
        2**62,
        2**63 - 1,
        float("nan"),
        "x",
        (),
        np.empty(0),
        np.zeros(9),
        np.full(4, -7, np.int32),
    ]
    odd += [np.full((3, cells + 1), 10**9), np.full((2, n), 2**30, np.int32), np.zeros(5, np.int8)]
    values, edges, counts = np.zeros((n, k), np.float32), np.array([-0.5, 0.5]), np.zeros((n, 2), np.uint16)
    of = np.zeros((n, k), np.uint16)
    counting = values, 0, n, n, k, 4, True, edges, of, counts, None, None, None, None, None
    placing = (
        values, 0, n, n, k, 4, True, edges, of, None, np.array([0, 1, 0], np.uint8),
        np.array([0, n * k, n * k]), np.zeros(3, int), np.zeros(n * k), np.zeros(n * k, np.int32),
    )  # fmt: skip
    for arguments in (counting, placing):
        _native.split_cells(*arguments)
    with pytest.raises(ValueError, match="more pairs than places"):
        _native.split_cells(*placing[:11], np.array([0, n * k - 1, n * k]), np.zeros(3, int), *placing[13:])
    verbs = (
        (_native.split_draws, draws), (_native.split_crossings, good),
        (_native.split_cells, counting), (_native.split_cells, placing),
    )  # fmt: skip
    for verb, arguments in verbs:
        for place in range(len(arguments)):
            for wrong in odd:
                try_it(verb, (*arguments[:place], wrong, *arguments[place + 1 :]))
    for place in range(len(table)):
        for wrong in odd:
            try_it(_native.split_crossings, ((*table[:place], wrong, *table[place + 1 :]), *good[1:]))
    with pytest.raises(ValueError, match="no such label"):
        _native.split_crossings(
            *good[:8], np.full((splits, n), k, np.int32), *good[9:14], np.full(splits, -2)
        )


def test_malformed_bets_are_errors_and_never_crashes():
    stops, changes = np.array([0, 2, 5]), np.ones(3, dtype=np.int8)
    good = (np.ones((8, 3)), np.ones(3), np.zeros(3, int), np.zeros((5, 3)), 5, 3, 0, stops, changes, 0.05)
    good = (*good, *betting.hedge_table())
    _native.play(*good)
    odd = [
        None,
        -1,
        10**6,
        2**62,
        2**63 - 1,
        "x",
        b"abc",
        np.empty(0),
        np.full(2, 3),
        np.full(3, -1),
        np.zeros(9),
    ]
    for place in range(len(good)):
        for wrong in odd:
            try_it(_native.play, (*good[:place], wrong, *good[place + 1 :]))


def scores_of_both(formula, values, u):
    """The scores of a formula, by both engines."""
    said = []
    for name in ("numpy", "native"):
        with engine.using(name):
            said.append(
                engine.open_block(values, Spec(formula, ranked=True, seed=1), None, u).placed.tolist()
            )
    return said


def test_a_condition_may_be_the_same_for_all_labels_of_a_row():
    x = Symbols()
    values, u = some_rows("plain", 20, 12, np.float32, np.random.default_rng(0)), np.linspace(0, 1, 20)
    for condition in (x.u < 0.5, x.top > 0.3):
        natives, numpys = scores_of_both(np.where(condition, x.above, 1 + x.above), values, u)
        assert natives == numpys


def test_a_condition_must_be_a_truth_value():
    x = Symbols()
    assert codes_of_formula(np.where(x.p - x.top, 1, x.above), ranked=True) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_entry_just_above_one_has_its_own_mass(dtype):
    values = np.array([[np.nextafter(dtype(1), dtype(2)), 0, 0], [0, 1, 0]], dtype=dtype)
    assert engine.check(values, 1e-3)  # as rounding leaves it
    x = Symbols()
    natives, numpys = scores_of_both(x.above + x.u * x.p, values, np.array([0.3, 0.7]))
    assert natives == numpys


def test_rows_need_not_be_aligned():
    bytes_ = np.zeros(4 * 12 + 1, dtype=np.uint8)
    values = bytes_[1:].view(np.float32).reshape(3, 4)
    values[:] = [0.5, 0.25, 0.125, 0.125]
    assert not values.flags.aligned
    cal = nacp.calibrate(values, [0, 1, 2], noise=0, score=nacp.APS(randomized=False), guarantee="none")
    assert cal.threshold == 1


def expect_no_later(values, spec, weights=None):
    """Up to a limit the tally is exact; beyond, no pair or loss is counted in a higher cell than its own."""
    with engine.using("numpy"):
        every = np.cumsum(engine.tally(engine.open_block(values, spec), None, weights), axis=1)
    held = np.flatnonzero(np.diff(every[0], prepend=0))
    for place in [int(held[0]) - 1, *held[:-1:3].tolist()]:
        with engine.using("native"):
            found = engine.tally(engine.open_block(values, spec), None, weights, float(EDGES[place]))
        found = np.cumsum(found, axis=1)
        np.testing.assert_array_equal(found[:, : place + 1], every[:, : place + 1])
        np.testing.assert_array_equal(found[:, -1], every[:, -1])
        assert (found[::2] >= every[::2]).all()


def test_an_entry_that_is_the_float_below_a_cut_is_counted_no_later_than_it_comes():
    # The first cut is 2 / k = 0.02, and as a float32 that is less.
    row = np.repeat([0.2, 0.02, 0.01, 0], [2, 10, 40, 48]).astype(np.float32)
    expect_no_later(row[None], nacp.APS().spec)


@pytest.mark.parametrize("k", [33, 100])
def test_what_is_rounded_on_the_grid_is_counted_no_later_than_it_comes(k):
    x, rng = Symbols(), np.random.default_rng(k)
    for formula in (-x.p, -np.sqrt(x.p), x.above + x.u * x.p, np.maximum(x.above, 0.5) - x.p):
        values = some_rows("sharp", 20, k, np.float64, rng)
        expect_no_later(values, Spec(formula, ranked=True, seed=1), ByEntry(rng.integers(-9, 10, (20, k))))


def test_the_same_small_entry_many_times_is_counted_no_later_than_it_comes():
    # Added up as floats, one by one, they come to more than they are.
    k = 1 << 17
    values = np.full((1, k), 0.5 / k * 1.3, dtype=np.float32)
    values[0, k // 2 :] = 1e-12
    values[0, :3] = 0.2
    expect_no_later(values / values.sum(dtype=np.float64).astype(np.float32), nacp.APS().spec)


# Malformed arguments


@pytest.mark.parametrize("score", [nacp.HPS(), nacp.APS(), nacp.Margin()], ids=repr)
@pytest.mark.parametrize("wrong", [np.nan, -0.5, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_no_probability_does_no_harm(score, wrong, dtype):
    values = np.array([[0.5, wrong, 0.5], [wrong, wrong, wrong]], dtype=dtype)
    block = native.open_block(values, score.spec)
    guarded = np.zeros((2, CELLS + 1), dtype=np.int64)
    inner = guarded.reshape(-1)[:CELLS]
    _native.tally(block.described, 0, 2, None, np.inf, np.zeros(4), None, None, None, inner)
    assert not guarded.reshape(-1)[CELLS:].any()  # nothing is written beyond
    for limit in (0.3, np.inf):
        assert len(native.window(block, [(-np.inf, limit)]).scores) <= 6
        assert native.profile(block, np.array([limit])).max() <= 3
        assert native.sets(block, limit)[0].max() <= 3
        assert native.counts(block, np.full((1, 3), limit)).max() <= 2


FIRST = {
    "label_scores": lambda block: engine.label_scores(block, np.arange(block.shape[0]) % block.shape[1]),
    "tally": engine.tally,
    "tally up to a limit": lambda block: engine.tally(block, limit=float(EDGES[CELLS // 3])),
    "sets": lambda block: engine.sets(block, 0.3),
    "profile": lambda block: engine.profile(block, np.array([-0.1, 0.4])),
    "nobody": lambda block: (),
}


@pytest.mark.parametrize("verb", FIRST)
@pytest.mark.parametrize("score", [nacp.HPS(), nacp.APS(), nacp.RAPS(randomized=False)], ids=repr)
@pytest.mark.parametrize("bytes_", [16, 32, 64])
def test_whoever_looks_at_rows_first_checks_them(verb, score, bytes_):
    rng, k = np.random.default_rng(8), 75
    for dtype in (np.float32, np.float64):
        good = some_rows("plain", 9, k, dtype, rng)
        good[3, :2] = -0.0, good[3, :2].sum()
        for place, value in [
            (None, 0),
            (0, np.nan),
            (8, -1e-9),
            (4, np.inf),
            (8, 2),
            (2, -np.inf),
            (5, 1e-2),
        ]:
            rows, told = good.copy(), []
            if place is not None:
                rows[place, k - 1] = value if value != 1e-2 else rows[place, k - 1] + value
            _native.vectors(bytes_)
            try:
                with engine.using("native"):
                    block = engine.open_block(rows, score.spec, unchecked=Unchecked(1e-3, told.append))
                    found = FIRST[verb](block)
                    block.confirm()
                    checked = engine.open_block(rows, score.spec)
                    again = FIRST[verb](checked)
            finally:
                _native.vectors(64)
            assert told == [place is None], (place, value)
            if value in (0, 1e-2):  # what is nothing like probabilities is not scored
                for one, other in zip(found, again, strict=True):
                    assert np.array_equal(one, other)


def test_a_first_look_that_failed_is_taken_again():
    rows = some_rows("plain", 50, 10, np.float64, np.random.default_rng(0))
    with engine.using("native"):
        block = engine.open_block(rows, nacp.APS().spec)
        with pytest.raises(ValueError, match="no such label"):
            engine.label_scores(block, np.full(50, 10))
        assert np.array_equal(block.u, engine.uniforms(rows, nacp.APS().seed))


@pytest.mark.parametrize(
    "score", [nacp.SAPS(), nacp.SAPS(randomized=False), nacp.RAPS(), nacp.TopK()], ids=repr
)
@pytest.mark.parametrize("kind", ["ties", "zeros", "one-hot", "plain"])
def test_beyond_the_limit_labels_of_equal_probability_are_not_told_apart(score, kind):
    """No pair is counted later than it scores, where places among labels are counted by rank."""
    rows = some_rows(kind, 30, 1000, np.float32, np.random.default_rng(3))
    with engine.using("native"):
        whole = engine.tally(engine.open_block(rows, score.spec))[0].cumsum()
        for limit in EDGES[np.searchsorted(EDGES, [0.3, 0.6, 1.2])]:
            for parts in (4, 12):
                block = engine.open_block(rows, score.spec)
                found = engine.tally(block, limit=float(limit), parts=parts)[0].cumsum()
                upto = np.searchsorted(EDGES, limit) + 1
                assert np.array_equal(found[:upto], whole[:upto])
                assert np.all(found >= whole)


def test_labels_that_are_skipped_are_not_looked_at_again():
    """Where an entry is just above a power of two, in rows of float64."""
    k, power, number = 1000, 2.0**-11, 100
    first, tied = power * (1 + 3e-8) / 0.55, power * (1 + 1e-8)
    up = np.linspace(1, 1.2, 400)
    up *= (1 - 600 * first) / up.sum()
    middle = np.linspace(power / 1.02, power / 1.03, 200)
    rest = np.linspace(power / 1.4, power / 1.5, k - 300 - number)
    top = np.linspace(1, 1.2, 100)
    top *= (1 - number * tied - middle.sum() - rest.sum()) / top.sum()
    usual = np.append(up, np.full(600, first))
    rows = np.array([usual] * 4 + [np.concatenate([top, np.full(number, tied), middle, rest])])
    threshold = float(top.sum() + 2 * number * tied + middle[:10].sum())
    found = []
    for name in ("numpy", "native"):
        with engine.using(name):
            block = engine.open_block(rows, nacp.APS(randomized=False).spec)
            found.append(engine.sets(block, threshold)[0].tolist())
    assert found[0] == found[1]


def test_malformed_arguments_are_errors_and_never_crashes():
    rng = np.random.default_rng(5)
    spec, n, k = nacp.RAPS().spec, 6, 20
    values = some_rows("plain", n, k, np.float32, rng)
    with engine.using("native"):
        described = engine.open_block(values, spec).described
    out, labels, table = (
        np.zeros((3, len(EDGES)), dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros((k, k), np.int64),
    )
    cuts, look = np.full(4, 0.01), (bytearray(n), 1e-3, np.arange(3), np.arange(4, dtype=np.uint64))
    described = (*described, look)
    many = np.linspace(0, 1, 30)  # of so many an index is made, if there are many rows
    good = {
        "look_over": (described, 0, n),
        "label_scores": (described, 0, n, labels, np.empty(n)),
        "scores": (described, 0, n, np.empty((n, k))),
        "tally": (
            described, 0, n, None, 0.5, cuts, labels, table, np.zeros(n, int), out, None,
            np.array([-1.0, 0.5]), np.empty(9), np.empty(9, dtype=np.int32),
        ),
        "window": (described, 0, n, np.array([0.1, 0.5]), labels, table),
        "profile": (described, 0, n, many, 0, labels, table, np.zeros((n, 30), dtype=np.int64)),
        "counts": (described, 0, n, np.full((2, k), 0.5), labels, table, np.zeros((2, 2, 2, k), int)),
        "gaps": (described, 0, n, np.array([0, 1]), np.full(2, 0.1), np.full(2, 0.5), labels, table),
        "sets": (
            described, 0, n, np.array([0.5]), 0, True, np.zeros(n, dtype=np.int64),
            np.empty(9, dtype=np.int32),
        ),
        "bet": (
            described, 0, n, many, labels, table, np.full(n, 0.4), np.ones(n), 0.5, 1.0, np.array([0, 3, 1]),
            np.full(3, 0.5), np.array([0, 0, 1]), np.ones((8, 3)), np.ones(3), np.zeros(3, int), 0,
            np.array([0, 2, n]), np.ones(3, dtype=np.int8), 0.05, *betting.hedge_table(),
        ),
    }  # fmt: skip
    odd = [None, -1, 10**6, 2**62, 3.5, "x", b"", b"abc", (1, 2), (), np.empty(0), np.empty(3)]
    odd += [np.full(k, 10**9), values[:, ::2], np.full((n, k), -5), np.zeros(7, np.int8)[1:]]
    odd += [np.full(2000, 2**31 - 1, dtype=np.int32), np.full(30, np.nan)]
    for name, arguments in good.items():
        verb = getattr(_native, name)
        verb(*arguments)
        for place in range(len(arguments)):
            for wrong in odd:
                try_it(verb, (*arguments[:place], wrong, *arguments[place + 1 :]))
        for place in range(len(described)):
            for wrong in odd:
                try_it(verb, ((*described[:place], wrong, *described[place + 1 :]), *arguments[1:]))
        for place in range(len(look)):
            for wrong in odd:
                first = (*look[:place], wrong, *look[place + 1 :])
                try_it(verb, ((*described[:-1], first), *arguments[1:]))
        for _ in range(200):  # several at once
            mixed = [odd[rng.integers(len(odd))] if rng.random() < 0.2 else each for each in arguments[1:]]
            block = tuple(odd[rng.integers(len(odd))] if rng.random() < 0.1 else each for each in described)
            try_it(verb, (block, *mixed))


def test_malformed_cells_are_errors_and_never_crashes():
    table = cell_table()
    for wrong in (table[1:], table.astype(np.int64), table - 1, table + 1, None, b"abc"):
        with pytest.raises((ValueError, TypeError)):
            _native.learn_cells(wrong, CELLS)
    for wrong in (-1, 0, CELLS - 1, 2**62):
        with pytest.raises((ValueError, OverflowError)):
            _native.learn_cells(table, wrong)


def test_malformed_kept_scores_are_errors_and_never_crashes():
    rng, n, k = np.random.default_rng(6), 5, 4
    starts, order = np.array([0, 2, 2, 5, 6, 9]), np.array([3, 0, 4, 1, 2])
    kept = (starts, order, np.sort(rng.random(9)), np.array([0, 1, 3, 2, 1, 0, 3, 2, 1], dtype=np.int32))
    table, labels = np.ones((k, k), dtype=np.int64), np.zeros(n, dtype=np.int64)

    def tried(kept):
        described = (None, n, k, 4, None, None, None, kept)
        sums = np.zeros((n, 2), dtype=np.int64)
        try_it(_native.profile, (described, 0, n, np.array([0.1, 0.9]), 0, labels, table, sums))
        try_it(_native.window, (described, 0, n, np.array([0.1, 0.9]), labels, table))
        for verb in ("look_over", "sets", "tally", "scores", "label_scores"):  # they need rows
            arguments = {
                "look_over": (),
                "sets": (np.array([0.5]), 0, True, np.zeros(n, dtype=np.int64)),
                "tally": (None, np.inf, np.zeros(4), None, None, None, np.zeros(CELLS, int)),
                "scores": (np.empty((n, k)),),
                "label_scores": (labels, np.empty(n)),
            }[verb]
            with pytest.raises((ValueError, TypeError, BufferError, OverflowError)):
                getattr(_native, verb)(described, 0, n, *arguments)

    tried(kept)
    odd = [None, -1, "x", b"abc", (1, 2), np.empty(0), np.full(6, 10**9), np.full(6, -1), np.full(5, 2**62)]
    odd += [
        np.full(9, 99, dtype=np.int32),
        np.full(9, -1, dtype=np.int32),
        starts[::-1].copy(),
        np.arange(0, 54, 9),
    ]
    for place in range(4):
        for wrong in odd:
            tried((*kept[:place], wrong, *kept[place + 1 :]))
    for wrong in odd:
        tried(wrong)


@pytest.mark.parametrize("with_labels", [True, False])
@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_what_was_kept_says_what_the_rows_say(score, dtype, share, with_labels):
    rng, n, k = np.random.default_rng(7), 60, 30
    values, labels = some_rows("plain", n, k, dtype, rng), rng.integers(k, size=n)
    scores = np.sort(engine.open_block(values, score.spec).scores(placed=True), axis=None)
    limit = float(EDGES[np.searchsorted(EDGES, scores[int(share * (n * k - 1))])])
    weights = ByLabel(labels, Whole(rng.integers(-9, 10, size=(k, k))))
    kept, order = Kept(k, n, limit, 10**6, labels=with_labels), rng.permutation(n)
    keep, scratch = Keep([(-np.inf, limit)], None, labels=with_labels), engine.Scratch()
    with engine.using("native"):
        none = engine.open_block(values[:0], score.spec, scratch)
        engine.tally(none, None, None, keep=keep._replace(take=partial(kept.add, order[:0])))
        # In room that the next block uses again, whatever was expected.
        for rows, expected in zip(np.array_split(order, 4), (0, 1, 10**4, 50), strict=True):
            assert not kept.complete
            keep = keep._replace(take=partial(kept.add, rows), expected=expected)
            block = engine.open_block(values[rows], score.spec, scratch)
            engine.tally(block, None, None, limit, keep)
        assert kept.complete
        some = rng.permutation(n)[:40]
        block, low = engine.open_block(values[some], score.spec), engine.kept_block(kept, some, score.spec)
        every = np.sort(block.scores(placed=True).ravel())
        thresholds = np.unique(every[every <= limit][::3])
        middle, last = thresholds[len(thresholds) // 2], thresholds[-1]
        own = ByLabel(labels[some], weights.table)
        assert kept.has(limit, labels=False)
        assert kept.has(limit, labels=True) == with_labels
        if not with_labels:
            for verb, asked in (
                (engine.profile, (thresholds, own)),
                (engine.window, ([(-np.inf, last)], own)),
                (engine.profile, (PerLabel(np.full(k, last)),)),
            ):
                with pytest.raises(ValueError, match="labels were not kept"):
                    verb(low, *asked)
        for weighed in (None, own) if with_labels else (None,):
            found = [engine.profile(each, thresholds, weighed).tolist() for each in (block, low)]
            assert found[0] == found[1]
            spans = [(-np.inf, thresholds[0]), (middle, last)]
            pairs = [engine.window(each, spans, weighed) for each in (block, low)]
            assert sorted(zip(*pairs[0], strict=False)) == sorted(zip(*pairs[1], strict=False))
            assert sorted(pairs[0].scores) == sorted(pairs[1].scores)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_beyond_the_limit_no_pair_and_no_loss_is_missing(score, dtype):
    """Also of rows that are so sure that all but one entry had to be looked at."""
    rng, n, k = np.random.default_rng(11), 60, 100
    logits = 2 * rng.standard_normal((n, k))
    logits[:, 0] += np.where(np.arange(n) % 2, 70, 0)
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(dtype)
    weights = ByLabel(rng.integers(k, size=n), Whole(rng.integers(-9, 10, size=(k, k))))
    every = np.sort(engine.open_block(probs, score.spec).scores(placed=True), axis=None)
    for share in (0.02, 0.3, 0.8):
        limit = float(EDGES[np.searchsorted(EDGES, every[int(share * len(every))])])
        within = np.searchsorted(EDGES, limit, side="right")
        for parts, weighed in ((4, weights), (4, None), (12, weights), (12, None)):
            found = []
            for name in ("numpy", "native"):
                with engine.using(name):
                    block = engine.open_block(probs, score.spec)
                    found.append(engine.tally(block, None, weighed, limit, None, parts))
            exact, bound = found
            assert bound.min() >= 0
            assert (bound[:, :within] == exact[:, :within]).all()
            assert (bound.sum(axis=1) == exact.sum(axis=1)).all()
            assert (np.cumsum(bound, axis=1)[::2] >= np.cumsum(exact, axis=1)[::2]).all()


def test_the_first_row_may_have_no_score_up_to_the_limit():
    """Then nothing of it is kept; that is no lack of memory."""
    rng, k = np.random.default_rng(8), 100
    flat, sharp = np.full((100, k), 1 / k), some_rows("sharp", 900, k, np.float64, rng)
    probs = np.concatenate([flat, sharp]).astype(np.float32)
    labels, found = probs.argmax(axis=1), []
    for name in ("numpy", "native"):
        with engine.using(name), nacp.tuning.tuned(hint_pairs=1, counted_pairs=1, kept_pairs=2000):
            found.append(nacp.calibrate(probs, labels, noise=0.1, alpha=0.3, guarantee="none").threshold)
    assert found[0] == found[1]


def test_too_many_scores_are_not_kept():
    kept = Kept(3, 4, np.inf, 5)
    for first in (0, 2):
        kept.add(slice(first, first + 2), np.array([2, 2]), np.zeros(4), np.zeros(4, dtype=np.int32))
    assert not kept.complete


def try_it(verb, arguments):
    """It returns, or says what is wrong."""
    with contextlib.suppress(TypeError, ValueError, BufferError, OverflowError):
        verb(*arguments)


def test_errors_say_what_is_wrong():
    values = np.full((2, 4), 0.25, dtype=np.float32)
    block = native.open_block(values, nacp.APS().spec)
    with pytest.raises(ValueError, match="no such label"):
        native.label_scores(block, np.array([0, 4]))
    with pytest.raises(ValueError, match="as large"):
        native.label_scores(block, np.array([0, 1, 2]))
    with pytest.raises(ValueError, match="no such label"):
        native.tally(block, None, ByLabel(np.array([0, -1]), Whole(np.zeros((4, 4), dtype=np.int64))))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_very_many_labels_are_put_in_order_alike(dtype):
    rng, k = np.random.default_rng(3), 20_000
    values = rng.standard_exponential((3, k)) ** 3
    values[1] = np.round(values[1], 1)  # with ties
    values[2, 7:] *= 1e-9
    values = (values / values.sum(axis=1, keepdims=True)).astype(dtype)
    found = []
    for name in ("numpy", "native"):
        with engine.using(name):
            block = engine.open_block(values, nacp.APS(randomized=False).spec)
            found.append(block.scores(placed=True).copy())
    np.testing.assert_array_equal(*found)


@pytest.mark.skipif(not hasattr(_native, "fetch"), reason="there is no pread")
def test_both_engines_fetch_the_same_bytes(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "bytes"
    content = rng.integers(0, 256, 1 << 20, dtype=np.uint8)
    path.write_bytes(content.tobytes())
    places, width = rng.integers(0, len(content) - 100, 1000), 100
    places[300:700] = 5000 + width * np.arange(400)  # one after the other
    with path.open("rb") as file:
        for name in engine.choose.ENGINES[:2]:
            with engine.using(name):
                out = np.zeros((len(places), width), dtype=np.uint8)
                assert engine.fetch(file.fileno(), places, out)
                assert np.array_equal(out, content[places[:, None] + np.arange(width)])
                assert engine.fetch(file.fileno(), places[:0], out[:0])
                for last in (
                    np.array([0, len(content) - width + 1]),
                    len(content) + 1 - np.array([2, 1]) * width,
                ):
                    assert not engine.fetch(file.fileno(), last, out[:2])  # one byte too few
                with pytest.raises(OSError, match="file descriptor"):
                    engine.fetch(-1, places, out)
        for first, last, rows in ((-1, 2, out), (0, 1001, out), (2, 1, out), (0, 2, out.reshape(-1)[:-1])):
            with pytest.raises(ValueError, match="no such rows"):
                _native.fetch(places, first, last, file.fileno(), rows)
        with pytest.raises(BufferError):
            _native.fetch(places, 0, 1, file.fileno(), bytes(1000))


def test_threads_that_take_no_more_work_are_done_without(monkeypatch):
    """As when the main thread has ended, and another one goes on to calibrate."""
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    monkeypatch.setattr("nacp.engine.threads._threads", lambda: 2)
    monkeypatch.setattr("nacp.engine.threads._pool", lambda: ended)
    rows = np.random.default_rng(0).dirichlet(np.ones(100), size=2000)
    assert native.check(rows, 1e-3)
    rows[-1, -1] = 2
    assert not native.check(rows, 1e-3)
