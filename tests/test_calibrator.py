"""Calibrator: counts add up to the bit, thresholds are on the safe side, promises hold, nothing is lost."""

import json
import os
import pickle
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.coverage.counts import MOST_POINTS, own_unit
from nacp.coverage.estimator import rest_unit
from nacp.engine.cells import EDGES, edge_index, fine_ends
from nacp.points import Rows, Widths, open_rows

N, K = 1500, 20
GROUPS = nacp.GroupNoise(groups=[i // 5 for i in range(K)], rate=0.3)
CONFUSED = 0.7 * np.eye(K) + 0.2 * np.roll(np.eye(K), 1, axis=1) + 0.1 / K
NOISES = {
    "uniform": nacp.UniformNoise(0.2),
    "interval": nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.99),
    "groups": GROUPS,
    "matrix": nacp.MatrixNoise(CONFUSED),
    "radius": nacp.MatrixNoise(CONFUSED, radius=0.01),
}


@pytest.fixture(scope="module")
def points():
    """Return probabilities in float32, true labels and noisy ones."""
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.standard_normal((N, K))
    labels = rng.integers(K, size=N)
    logits[np.arange(N), labels] += 4
    probs = np.exp(logits)
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32)
    return probs, labels, nacp.UniformNoise(0.2).sample(labels, K, rng)


def fed(stream, probs, labels, ends):
    """Feed a stream batch by batch."""
    for start, stop in zip([0, *ends], [*ends, len(probs)], strict=True):
        stream.update(probs[start:stop], labels[start:stop])
    return stream


def quiet(call, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
        warnings.simplefilter("ignore", nacp.NoiseModelWarning)
        return call(**options)


# Counts


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_any_batches_and_any_merge_tree_give_the_same_bits(points, noise):
    probs, _, noisy = points
    whole = fed(nacp.Calibrator(K, noise=noise, score="aps"), probs, noisy, [])
    ends = [1, 2, 2, 40, 900]  # one row, none, a few, many
    assert fed(whole.fresh(), probs, noisy, ends) == whole
    parts = [
        fed(whole.fresh(), probs[a:b], noisy[a:b], []) for a, b in zip([0, *ends], [*ends, N], strict=True)
    ]
    assert sum(parts) == whole
    with pytest.raises(TypeError, match="unsupported operand"):
        1 + parts[0]
    first, second = parts[5] + parts[0], parts[3] + (parts[4] + parts[1])
    second.merge(parts[2])
    second.merge(first)
    assert second == whole
    assert quiet(second.finish, guarantee="expected") == quiet(whole.finish, guarantee="expected")


def test_single_rows_wait_for_more_and_none_is_lost(points, tmp_path):
    """They are checked as they come, and may be changed afterwards; whoever asks is told of all."""
    probs, _, noisy = points
    whole = fed(nacp.Calibrator(K, noise=0.2), probs[:40], noisy[:40], [])

    def one_by_one():
        stream, row = whole.fresh(), np.empty((1, K), dtype=np.float32)
        for i in range(40):
            row[:] = probs[i]
            stream.update(row, noisy[i : i + 1])
            if i == 20:
                row[0, 3] = np.nan
                with pytest.raises(nacp.InputError, match="probs holds NaN"):
                    stream.update(row, noisy[:1])
        assert stream.n == 40
        assert stream._held[0] is None, "so that they are counted together"
        return stream

    one_by_one().save(tmp_path / "state")
    assert nacp.Calibrator.load(tmp_path / "state") == whole
    assert pickle.loads(pickle.dumps(one_by_one())) == whole
    assert whole.fresh() + one_by_one() == one_by_one() + whole.fresh() == whole
    assert (whole + one_by_one()) - one_by_one() == whole
    larger = one_by_one()
    larger.update(probs[40:], noisy[40:])
    assert larger == fed(whole.fresh(), probs, noisy, [])
    assert quiet(one_by_one().finish, guarantee="none") == quiet(whole.finish, guarantee="none")
    with pytest.raises(nacp.InputError, match="probs must be float32, as the points before were"):
        one_by_one().update(probs[:1].astype(np.float64), noisy[:1])


def test_rows_that_come_while_others_are_counted_are_not_lost(points, monkeypatch):
    """As when one thread asks, and another one goes on to update."""
    probs, _, noisy = points
    stream = fed(nacp.Calibrator(K, noise=None), probs[:30], noisy[:30], [])
    count = nacp.Calibrator._counts_of

    def meanwhile(self, rows, labels):
        if stream.n == 30:
            stream.update(probs[30:31], noisy[30:31])
        return count(self, rows, labels)

    monkeypatch.setattr(nacp.Calibrator, "_counts_of", meanwhile)
    assert quiet(stream.finish).n in (30, 31)
    assert stream.n == 31
    assert stream == fed(stream.fresh(), probs[:31], noisy[:31], [])


@pytest.mark.parametrize("step", [3, 100])  # rows that wait, and rows that are counted at once
def test_points_that_several_threads_bring_are_all_counted(points, monkeypatch, step):
    probs, _, noisy = points
    monkeypatch.setattr("nacp.states._WAITING", 30 * K)
    stream, parts = nacp.Calibrator(K, noise=None), [slice(i, i + step) for i in range(0, 1200, step)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda some: stream.update(probs[some], noisy[some]), parts))
        assert stream == fed(stream.fresh(), probs[:1200], noisy[:1200], [])
        merged, some = stream.fresh(), parts[:12]
        list(pool.map(merged.merge, [fed(stream.fresh(), probs[each], noisy[each], []) for each in some]))
    assert merged.n == 12 * step


def test_a_row_takes_no_more_steps_when_many_wait():
    stream, row, label = nacp.Calibrator(2, noise=0.2), np.full((1, 2), 0.5), np.zeros(1, dtype=int)
    calls = []

    def steps():
        """How many calls it takes to update by one row."""
        calls.clear()
        sys.setprofile(lambda *event: calls.append(event[1]))
        stream.update(row, label)
        sys.setprofile(None)
        return len(calls)

    for _ in range(20):
        stream.update(row, label)
    early = steps()
    for _ in range(2000):
        stream.update(row, label)
    assert stream._held[0] is None
    assert steps() <= early + 20


def test_several_labels_and_annotators_add_up_too(points):
    probs, labels, _ = points
    rng = np.random.default_rng(1)
    several = np.stack([nacp.UniformNoise(rate).sample(labels, K, rng) for rate in (0.1, 0.4, 0.2)], axis=1)
    several[rng.random(several.shape) < 0.3] = -1
    several[:, 0] = np.where((several < 0).all(axis=1), labels, several[:, 0])
    matrices = [nacp.UniformNoise(rate).matrix(K).dense() for rate in (0.1, 0.4, 0.2)]
    for noise in (nacp.AnnotatorNoise(matrices), nacp.UniformNoise(0.25)):
        whole = fed(nacp.Calibrator(K, noise=noise), probs, several, [])
        parts = fed(whole.fresh(), probs, several, [1, 7, 600])
        assert parts == whole
        found = whole.finish(guarantee="expected", alpha=0.1)
        exact = nacp.calibrate(probs, several, noise=noise, guarantee="expected", alpha=0.1)
        assert 0 <= found.threshold - exact.threshold < 1e-4
        assert found.several == exact.several
        assert (found.promise, found.assumptions) == (exact.promise, exact.assumptions)
    with pytest.raises(nacp.InputError, match="labels must have several labels for each point, as before"):
        whole.update(probs, labels)
    with pytest.raises(nacp.InputError, match='"nacp" holds for one label for each point'):
        whole.finish(guarantee="nacp")


def test_no_sum_can_overflow_and_more_points_are_refused(points):
    for noise in (GROUPS, NOISES["matrix"]):
        inverse = noise.inverse(K)
        most = max(np.abs(inverse.rest(np.arange(K))).sum(axis=1)) / rest_unit(inverse, MOST_POINTS)[0]
        assert MOST_POINTS * (most + K) < 2**63
        assert MOST_POINTS * (np.abs(inverse.own).max() / own_unit(inverse) + 1) < 2**63
    probs, _, noisy = points
    stream = fed(nacp.Calibrator(K, noise=0.2), probs, noisy, [])
    large = stream.fresh()
    for _ in range(22):  # by doubling: 1500 * 2^22 exceeds what is allowed
        stream, large = stream + stream, stream
        if stream.n > MOST_POINTS // 2:
            break
    before = pickle.dumps(stream)
    with pytest.raises(nacp.InputError, match="more than 4,294,967,296 points"):
        stream.merge(stream)
    assert pickle.dumps(stream) == before
    assert large.n * 2 == stream.n


def test_the_cells_are_parts_of_the_wider_ones_and_nothing_grows(points):
    probs, _, noisy = points
    for score in ("hps", "aps", "raps", "precomputed"):
        known = nacp.Calibrator(K, noise=0.2, score=score).score
        edges = fine_ends(*known.span, K, known.step, piles=known.piles)[1:]
        assert np.all(np.diff(edges) > 0)
        first, last = np.searchsorted(EDGES, edges[[0, -3]])
        assert np.isin(EDGES[first:last], edges).all()
    stream = fed(nacp.Calibrator(K, noise=NOISES["matrix"], score="hps"), probs, noisy, [])
    size = len(pickle.dumps(stream))
    for _ in range(20):
        stream.update(probs, noisy)
    assert len(pickle.dumps(stream)) == size < 12e6


@pytest.mark.parametrize("k", [10, 200, 1000])
def test_cells_are_fine_wherever_thresholds_may_lie(k):
    """Of tiny probabilities, where sets hold nearly all labels; between steps, and just below each."""

    def ends(score):
        return fine_ends(*score.span, k, score.step, piles=score.piles)

    tiny = ends(nacp.HPS())
    tiny = -tiny[(tiny >= -(2.0**-20)) & (tiny <= -(2.0**-27))]
    assert np.all(tiny[:-1] / tiny[1:] < 1 + 2.0**-10)
    spread = ends(nacp.SAPS()) - 1
    spread = spread[(spread >= 2.0**-6) & (spread <= 0.2 * k)]
    assert np.all(spread[1:] / spread[:-1] < 1 + 2.0**-13)
    piled = ends(nacp.RAPS())
    for step in range(1, k):
        below = 1 + 0.01 * step - piled
        below = below[(below >= 2.0**-20) & (below <= 2.0**-8)]
        assert np.all(below[:-1] / below[1:] < 1.26)


@pytest.mark.skipif(engine.engine_name() != "native", reason="the compiled engine was not built")
@pytest.mark.parametrize("score", ["hps", "aps", "raps", "margin", "precomputed"])
def test_engines_count_the_same(points, score):
    probs, _, noisy = points
    given = probs
    if score == "precomputed":  # scores of all sizes, and at the edges themselves
        ends = nacp.Calibrator(K, noise=0.2, score=score)._ends
        rng = np.random.default_rng(5)
        given = rng.choice(ends[1:], (N, K)) * rng.choice([1, 1, 1 + 1e-9, 1 - 1e-7], (N, K))
        given[rng.random((N, K)) < 0.1] = np.inf
    for noise in (0.2, NOISES["matrix"]):
        native = fed(nacp.Calibrator(K, noise=noise, score=score), given, noisy, [700])
        with engine.using("numpy"):
            assert fed(native.fresh(), given, noisy, [3]) == native


@pytest.mark.skipif(engine.engine_name() != "native", reason="the compiled engine was not built")
def test_the_compiled_engine_refuses_parts_that_are_not_there():
    from nacp.engine import _native

    block = engine.open_block(np.full((2, 3), 0.25, dtype=np.float32), nacp.HPS().spec)
    edges, out = np.array([-np.inf, -0.5, 0.0, np.inf]), np.zeros((2, 3), dtype=np.int64)
    good = edge_index(edges)
    _native.squares(block.described, 0, 2, edges, good, out)
    assert out.tolist() == [[0, 6, 0], [0, 18, 0]]
    parts, places = good
    far, many = parts + np.int32([len(places), 0]), places | np.uint32((9 << 1) + 1)
    wide, none, past = parts + np.int32([0, 1]), places & np.uint32(0xFFF), places + np.uint32(4 << 12)
    bad = [(parts[1:], places), (far, places), (wide, places)]
    bad += [(parts, each) for each in (many, none, past)]
    for index in bad:
        with pytest.raises(ValueError, match="no such part"):
            _native.squares(block.described, 0, 2, edges, index, out)
    # Where nothing is left to be searched, the edge that is known is the one.
    last = parts * 0 + np.int32([0, 11]), np.full(32, (3 << 12) + 1, dtype=np.uint32)
    _native.squares(block.described, 0, 2, edges, last, out)
    assert out.tolist() == [[0, 6, 6], [0, 18, 18]]
    beyond = parts * 0 + np.int32([0, 11]), np.full(32, 3 << 12, dtype=np.uint32)  # the edge after the last
    with pytest.raises(ValueError, match="no such part"):
        _native.squares(block.described, 0, 2, edges, beyond, np.zeros(16, dtype=np.int64)[:6])
    for ends in (edges[:3], np.append(edges[:3], 1.0)):
        with pytest.raises(ValueError, match=r"as large as|no such part"):
            _native.squares(block.described, 0, 2, ends, good, out)
    with pytest.raises(ValueError, match="is a tuple"):
        _native.squares(block.described, 0, 2, edges, None, out)


@pytest.mark.skipif(engine.engine_name() != "native", reason="the compiled engine was not built")
@pytest.mark.parametrize(
    "score",
    [nacp.HPS(), nacp.APS(), nacp.RAPS(), nacp.SAPS(), nacp.Margin(), nacp.Precomputed()],
    ids=str,
)
def test_every_score_is_counted_in_its_cell(score):
    from nacp.engine import _native

    edges = fine_ends(*score.span, 10, score.step, piles=score.piles)
    finite = edges[1:-2]
    near = [np.nextafter(finite, -np.inf), np.nextafter(finite, np.inf), finite * (1 - 2.0**-24)]
    # Half-way between floats, where they round.
    floats = np.abs(finite[::7]).astype(np.float32)
    half = (floats.astype(np.float64) + np.nextafter(floats, np.float32(0)).astype(np.float64)) / 2
    near += [half, -half, 1 - half, 1 + half, np.array([0.5 - 2.0**-26, 1.0, 1 + 2.0**-52, 7.0, 1e30, 0.0])]
    scores = np.concatenate([finite, *near])
    number, index = len(scores), edge_index(edges)
    kept = np.array([0, number]), np.zeros(1, dtype=np.int64), scores, np.arange(number, dtype=np.int32)
    found = np.zeros((1, len(edges) - 1), dtype=np.int64)
    block = (None, 1, number, 4, None, None, None, kept)
    _native.tally(block, 0, 1, edges, np.inf, np.zeros(4), None, None, None, found, index)
    assert np.array_equal(found[0], np.bincount(np.searchsorted(edges, scores) - 1, minlength=len(edges) - 1))
    if score == nacp.HPS():  # that are rows, too, of doubles and of floats
        for rows in (-scores[scores <= 0], -scores[scores <= 0].astype(np.float32)):
            counted = np.zeros((2, len(edges) - 1), dtype=np.int64)
            engine.squares(engine.open_block(rows[:, None], score.spec), edges, counted)
            places = np.searchsorted(edges, -rows.astype(np.float64)) - 1
            assert np.array_equal(counted, [np.bincount(places, minlength=len(edges) - 1)] * 2)


@pytest.mark.parametrize("score", ["hps", "margin"])
@pytest.mark.parametrize("name", sorted({"numpy", engine.engine_name()}))
def test_of_a_labels_own_row_it_is_counted_what_shares_its_cell(points, score, name):
    probs, _, noisy = points
    wide = np.round(probs, 2) + np.float32(1e-6) * probs  # many share a cell
    wide /= wide.sum(axis=1, keepdims=True)
    with engine.using(name):
        stream = fed(nacp.Calibrator(K, noise=0.2, score=score), wide, noisy, [7, 600])
    scores, edges = score_of(stream, wide), stream._ends[1:]
    own = scores[np.arange(N), noisy]
    cells, mine = np.searchsorted(edges, scores), np.searchsorted(edges, own)
    mates = cells == mine[:, None]
    mates[np.arange(N), noisy] = False
    before = mates & (scores < own[:, None])
    assert before.sum() >= 10
    for counted, which in (("mates", mates), ("before", before)):
        defined = np.bincount(mine, which.sum(axis=1), len(edges))
        np.testing.assert_array_equal(stream._counts.cells[counted], defined)


def test_a_few_rows_mostly_tell_how_wide_numbers_are(points, monkeypatch):
    """To look at all of them took as long as to count them, for each chunk of a dask array."""
    probs, _, _ = points
    monkeypatch.setattr(Rows, "peek", lambda *_: pytest.fail("rows are looked at"))
    assert open_rows(probs).widths_with(None) == Widths("float32", "float32")
    monkeypatch.undo()
    narrow = np.tile(np.float32([0.5, 0.25, 0.25]), (N, 1))
    assert open_rows(narrow).widths_with(None).least == "float16"
    narrow[1, :2] += np.float32([1e-6, -1e-6])
    assert open_rows(narrow).widths_with(None).least == "float32"


def test_infinite_scores_are_counted_without_a_warning(points):
    """Of labels that are impossible; two of them in a row once gave a warning of NumPy's."""
    probs, _, noisy = points
    scores = np.where(probs < 0.02, np.inf, 1 - probs)
    stream = fed(nacp.Calibrator(K, noise=0.2, score="precomputed"), scores, noisy, [700])
    found = quiet(stream.finish, guarantee="none", alpha=0.3)
    exact = nacp.calibrate(scores, noisy, noise=0.2, score="precomputed", guarantee="none", alpha=0.3)
    assert 0 <= found.threshold - exact.threshold < 1e-3


# Thresholds


def coarse(stream, probs):
    """Return native scores, each raised to the upper edge of its cell: the definition of what is counted."""
    edges = stream._ends[1:]
    return edges[np.searchsorted(edges, score_of(stream, probs))]


def score_of(stream, probs):
    return stream.score.scores(probs) - stream.score.offset


def defined(stream, probs, noisy, target):
    """Return the upper edge of the highest cell in which the estimate may be below the target.

    It is at least what rises up to the lower edge, less what falls up to the upper one; where all pairs weigh
    the same, but for those of labels. But no higher than where sets are larger by 0.075% than where it is
    likely to reach the target for the last time, or at the edge from which on it reaches it at all edges,
    whichever is higher: that is returned, too.
    """
    edges, inverse = stream._ends[1:], stream.noise.inverse(K)
    cells = np.searchsorted(edges, score_of(stream, probs))
    own = np.zeros((N, K))
    own[np.arange(N), noisy] = inverse.own[noisy]
    parts = own, inverse.rest(noisy)
    rising, falling = (
        sum(np.bincount(cells.ravel(), np.maximum(sign * part, 0).ravel(), len(edges)) for part in parts)
        for sign in (1, -1)
    )
    rising, falling = np.cumsum(rising), np.cumsum(falling)
    inside, at = np.append(0, rising[:-1]) - falling, rising - falling
    if inverse.constant_rest is not None:
        inside -= inverse.constant_rest * np.bincount(cells[np.arange(N), noisy], minlength=len(edges))
    safe = edges[np.flatnonzero(inside[:-1] / N < target - 1e-11)[-1]]
    plain = edges[np.flatnonzero(at[:-1] / N < target - 1e-11)[-1] + 1]
    plain = max([plain, *edges[likely_dips(stream, cells, np.append(0, at), noisy, target)]])
    scores = np.sort(edges[cells].ravel())
    most = 1.00075 * np.searchsorted(scores, plain, side="right")
    allowed = [q for q in edges[(edges > plain) & (edges <= safe)] if (scores <= q).sum() <= most]
    # Of edges with the same sets, the lowest.
    highest = max([plain, *allowed])
    return max(plain, edges[np.searchsorted(edges, scores[scores <= highest][-1])]), plain


def likely_dips(stream, cells, at, noisy, target):
    """Return the cells in which the estimate is below the target before a label, if all lies evenly there.

    Labels around their mean place, with what their own rows have before and after them, and all else from
    edge to edge; but what is more than in the cells beside is taken to share the score of the label.
    """
    inverse, counts, dips = stream.noise.inverse(K), stream._counts.cells, []
    mine = cells[np.arange(N), noisy]
    for cell in np.unique(mine):
        labels = noisy[mine == cell]
        number, jump = len(labels), inverse.own[labels].mean() + (inverse.constant_rest or 0)
        mates, early = (int(counts[name][cell]) / number for name in ("mates", "before"))
        pairs = counts["pairs"][cell] - number
        beside = counts["pairs"][max(cell - 1, 0) : cell].sum() + counts["pairs"][cell + 1]
        even, falls = min(pairs - number * mates, beside), at[cell + 1] - at[cell] - number * jump
        mean = counts["places"][cell] / 4096 / number
        width = min(mean, 1 - mean) * (number - 1) / (number + 1)
        places = np.linspace(mean - width, mean + width, number)
        passed = np.rint(even * places[0] + early) + even * (places - places[0]) + mates * np.arange(number)
        path = at[cell] + np.arange(number) * jump + falls / max(pairs, 1) * passed
        if np.any(path < (target - 1e-11) * N):
            dips.append(cell)
    return dips


@pytest.mark.parametrize("score", ["hps", "aps", nacp.RAPS(randomized=False)], ids=str)
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_thresholds_are_on_the_safe_side_and_no_further_than_need_be(points, noise, score):
    probs, _, noisy = points
    stream = fed(nacp.Calibrator(K, noise=noise, score=score), probs, noisy, [400])
    guarantees = ["expected"]
    if noise.doubt.exact:
        guarantees = ["none", "expected"] + ["nacp"] * isinstance(noise, nacp.UniformNoise)
    alphas = [0.05, 0.1, 0.3]
    for guarantee in guarantees:
        options = {"guarantee": guarantee, "alpha": alphas}
        found = quiet(stream.finish, **options)
        exact = quiet(partial(nacp.calibrate, probs, noisy, noise=noise, score=score), **options)
        for one, other in zip(found, exact, strict=True):
            sizes = [cal.predict_set(probs).sizes.sum() for cal in (one, other)]
            assert sizes[0] <= 1.001 * sizes[1]
            if len(noise.doubt.ends) == 1:
                q, plain = defined(stream, probs, noisy, 1 - one.alpha + one.correction)
                assert one.native_threshold == q
                scores = np.sort(score_of(stream, probs).ravel())
                least = np.searchsorted(scores, plain, side="right")
                assert one.native_threshold >= other.native_threshold or sizes[1] > 1.00075 * least
            else:
                assert one.native_threshold >= other.native_threshold
            assert (one.promise, one.assumptions) == (other.promise, other.assumptions)
            assert (one.n, one.correction, one.warnings) == (other.n, other.correction, other.warnings)
            assert abs(one.estimate - other.estimate) < 3 / N
            assert abs(one.gap - other.gap) < 1e-3
            assert one.note == other.note


@pytest.mark.parametrize("score", ["hps", "aps", "raps"])
def test_a_threshold_is_that_of_the_coarser_score(points, score):
    probs, _, noisy = points
    for noise, options in ((0.2, {"guarantee": "none", "crossing": "first"}), (None, {})):
        stream = fed(nacp.Calibrator(K, noise=noise, score=score), probs, noisy, [400])
        for alpha in (0.05, 0.2):
            found = stream.finish(alpha=alpha, **options)
            defined = nacp.calibrate(
                coarse(stream, probs), noisy, noise=noise, score="precomputed", alpha=alpha, **options
            )
            assert found.native_threshold == defined.threshold
            assert found.estimate == pytest.approx(defined.estimate, abs=1e-12)
    stream = fed(nacp.Calibrator(K, noise=0.2, score=score), probs, noisy, [400])
    raised = coarse(stream, probs)
    for guarantee in ("none", "nacp", "expected"):
        found = stream.finish(guarantee=guarantee)
        defined = nacp.calibrate(raised, noisy, noise=0.2, score="precomputed", guarantee=guarantee)
        # By the last crossing it is not lower, as what is inside of a cell is not known.
        assert found.native_threshold >= defined.threshold
        curve = nacp.coverage_curve(
            raised, noisy, noise=0.2, score="precomputed", thresholds=[found.native_threshold]
        )
        assert found.estimate == pytest.approx(min(curve.clean[0], 1.0), abs=1e-12)


@pytest.mark.parametrize("where", ["late", "early", "tied"])
def test_the_estimate_is_followed_through_a_wide_cell(where):
    """It reaches 0.9 at both edges of a cell; in between it falls short if many pairs come before a label."""
    stream = nacp.Calibrator(100, noise=0.5, score="precomputed")
    edges = stream._ends[(stream._ends > 300) & (stream._ends < 600)]
    scores = np.full((100, 100), edges[9])
    flat = scores.reshape(-1)  # by rows; the labels are those in the first column, at every hundredth place
    others = np.flatnonzero(np.arange(10_000) % 100)
    scores[:90, 0] = edges[1]
    flat[others[:8835]] = edges[1]  # F^c-hat is 0.9075 there
    inside = others[8835:8985]  # these lower it by 0.015, and a label raises it by 0.0199
    width = edges[5] - edges[4]
    scores[90, 0] = edges[4] + width * {"late": 0.9, "early": 0.1, "tied": 0.9}[where]
    flat[inside] = scores[90, 0] if where == "tied" else edges[4] + width * np.linspace(0.001, 0.999, 150)
    if where != "tied":
        scores[91:, 0] = edges[5] + width / 100
        flat[others[8985:]] = edges[6]
    stream.update(scores, np.zeros(100, dtype=int))
    found = quiet(stream.finish, guarantee="none").threshold
    exact = nacp.calibrate(
        scores, np.zeros(100, dtype=int), noise=0.5, score="precomputed", guarantee="none"
    ).threshold
    assert exact == (scores[90, 0] if where == "late" else edges[1])
    assert found == (edges[5] if where == "late" else edges[1])


@pytest.mark.parametrize("where", ["before", "with", "after"])
def test_pairs_of_a_labels_own_row_are_known_to_lie_before_it_or_after(where):
    """All of a row share a cell, as by the margin, if its other labels are next to impossible."""
    stream = nacp.Calibrator(100, noise=0.5, score="precomputed")
    edges = stream._ends[(stream._ends > 300) & (stream._ends < 600)]
    scores = np.full((100, 100), edges[9])
    scores[:90] = edges[1]
    scores[0, 60:] = edges[9]  # n F^c-hat is 90.4 there; the 99 others of a row lower it by 0.99
    scores[90] = edges[4] + (edges[5] - edges[4]) * {"before": 0.5, "with": 0.6, "after": 0.7}[where]
    scores[90, 0] = edges[4] + (edges[5] - edges[4]) * 0.6
    labels = np.zeros(100, dtype=int)
    stream.update(scores, labels)
    found = quiet(stream.finish, guarantee="none").threshold
    exact = nacp.calibrate(scores, labels, noise=0.5, score="precomputed", guarantee="none").threshold
    assert exact == (scores[90, 0] if where == "before" else edges[1])
    assert found == (edges[5] if where == "before" else edges[1])


def test_the_gap_of_expected_is_on_average_that_in_memory():
    """Where a cell holds many points, as if very many had come: these scores lie where cells are wide."""
    rng, runs, found, exact = np.random.default_rng(7), 40, [], []
    for run in range(runs):
        probs = rng.dirichlet(np.full(10, 0.4), 1000)
        labels = np.argmax(probs.cumsum(axis=1) > rng.random((1000, 1)), axis=1)
        noisy = nacp.UniformNoise(0.4).sample(labels, 10, run)
        scores = 20 + 2 * nacp.APS().scores(probs)
        stream = nacp.Calibrator(10, noise=0.4, score="precomputed")
        stream.update(scores, noisy)
        assert np.count_nonzero(stream._counts.cells["pairs"]) < 150
        found.append(quiet(stream.finish, guarantee="expected", alpha=0.2).gap)
        calibrate = partial(nacp.calibrate, scores, noisy, noise=0.4, score="precomputed")
        exact.append(quiet(calibrate, guarantee="expected", alpha=0.2).gap)
    differences = np.subtract(found, exact)
    assert abs(differences.mean()) < 4 * differences.std() / np.sqrt(runs)
    assert np.mean(exact) > 4 * np.std(exact) / np.sqrt(runs), "so that none at all would be told from it"


@pytest.mark.parametrize("score", ["hps", "aps", "raps"])
def test_binomial_finds_in_a_stream_what_it_finds_in_memory(points, score):
    probs, _, noisy = points
    stream = fed(nacp.Calibrator(K, noise=0.2, score=score), probs, noisy, [400])
    scores = stream.score.scores(probs) - stream.score.offset
    some = np.arange(0, len(stream._marks), 999)
    defined = [
        (np.count_nonzero(scores <= q, axis=1) ** 2).sum() for q in stream._ends[1:][stream._marks[some]]
    ]
    assert np.cumsum(stream._counts.cells["squares"])[some].tolist() == defined
    options = {"guarantee": "binomial", "alpha": [0.05, 0.1, 0.3]}
    found = quiet(stream.finish, **options)
    exact = quiet(partial(nacp.calibrate, probs, noisy, noise=0.2, score=score), **options)
    assert [cal.threshold for cal in found] == [cal.threshold for cal in exact]
    # Thresholds of another grid are raised to the next edge, which is a grid, too.
    of_ones_own = nacp.Binomial(grid=tuple(np.quantile(scores + stream.score.offset, [0.05, 0.1, 0.2, 0.4])))
    found = quiet(stream.finish, guarantee=of_ones_own)
    exact = quiet(partial(nacp.calibrate, probs, noisy, noise=0.2, score=score), guarantee=of_ones_own)
    assert 0 <= found.threshold - exact.threshold < 1e-3


@pytest.mark.parametrize("guarantee", ["pac", "binomial"])
def test_of_scores_with_gaps_between_them_all_thresholds_are_tested(guarantee):
    """Two of three labels cover 95%, and with all of one score in one cell nothing is known inside it."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([60, 30, 10], 2500)
    noisy = nacp.UniformNoise(0.2).sample(rng.choice(3, 2500, p=[0.6, 0.35, 0.05]), 3, 0)
    bets = {"bets": nacp.PAC(), "alpha": 0.1, "points": 2500} if guarantee == "pac" else {}
    stream = nacp.Calibrator(3, noise=0.2, score="topk", **bets)
    stream.update(probs, noisy)
    found = quiet(stream.finish, guarantee=guarantee)
    exact = nacp.calibrate(probs, noisy, noise=0.2, score="topk", guarantee=guarantee)
    assert found.threshold == exact.threshold < 3
    assert quiet(stream.finish, guarantee="none").threshold < 2.001


@pytest.mark.parametrize("noise", NOISES)
def test_ranks_are_as_exact_as_in_memory(points, noise):
    """Each has a cell of its own, so nothing is unknown."""
    probs, truth, _ = points
    model = NOISES[noise]
    for seed in range(4):
        noisy = model.sample(truth, K, seed)
        stream = nacp.Calibrator(K, noise=model, score="topk")
        stream.update(probs, noisy)
        options = {"guarantee": "expected", "alpha": [0.02, 0.05, 0.1, 0.2, 0.3]}
        found = quiet(stream.finish, **options)
        exact = quiet(partial(nacp.calibrate, probs, noisy, noise=model, score="topk"), **options)
        for one, other in zip(found, exact, strict=True):
            assert one.gap == pytest.approx(other.gap, abs=1e-9)
            sizes = [cal.predict_set(probs).sizes.mean() for cal in (one, other)]
            assert sizes[0] == sizes[1]


def test_the_curve_is_that_of_calibrate(points):
    probs, _, noisy = points
    for noise in (0.2, NOISES["matrix"]):
        stream = fed(nacp.Calibrator(K, noise=noise, score="aps"), probs, noisy, [400])
        found = stream.finish(guarantee="none").curve
        exact = nacp.calibrate(probs, noisy, noise=noise, score="aps", guarantee="none").curve
        both, at, there = np.intersect1d(found.thresholds, exact.thresholds, return_indices=True)
        assert len(both) > 500
        for name in ("noisy", "random", "clean"):
            np.testing.assert_allclose(getattr(found, name)[at], getattr(exact, name)[there], atol=1e-8)


def test_labels_that_contradict_the_model_are_told(points):
    probs, labels, _ = points
    noisy = nacp.UniformNoise(0.1).sample(labels, K, 3)
    stream = fed(nacp.Calibrator(K, noise=0.5), probs, noisy, [400])
    with pytest.warns(nacp.NoiseModelWarning, match="the labels contradict uniform label noise"):
        found = stream.finish(guarantee="none")
    with pytest.warns(nacp.NoiseModelWarning):
        assert nacp.calibrate(probs, noisy, noise=0.5, guarantee="none").warnings == found.warnings


def test_other_inputs(points):
    probs, _, noisy = points
    logits, names = np.log(probs.astype(np.float64)), [f"kind {i}" for i in range(K)]
    words = np.array(names)[noisy]
    stream = fed(nacp.Calibrator(K, noise=0.2, classes=names, from_logits=True), logits, words, [300])
    exact = nacp.calibrate(logits, words, noise=0.2, classes=names, from_logits=True, guarantee="none")
    found = stream.finish(guarantee="none")
    assert 0 <= found.threshold - exact.threshold < 1e-4
    assert (found.classes, found.from_logits, found.widths) == (exact.classes, True, exact.widths)
    assert found.predict_set(logits[:3]).to_lists()[0][0] in names
    halves = fed(nacp.Calibrator(K, noise=0.2, normalize=True), 3 * probs, noisy, [300])
    again = nacp.calibrate(3 * probs, noisy, noise=0.2, normalize=True, guarantee="none")
    assert 0 <= halves.finish(guarantee="none").threshold - again.threshold < 1e-4


# Promises


@pytest.mark.parametrize("guarantee", ["binomial", "nacp", "expected", "pac", "none"])
def test_promises_hold_for_streams(guarantee):
    rng, runs, n, k, alpha, delta, pool = np.random.default_rng(2), 60, 200, 4, 0.2, 0.2, 20_000
    probs, labels = rng.dirichlet(np.ones(k), size=pool), rng.integers(k, size=pool)
    probs = np.where(rng.random((pool, 1)) < 0.8, np.sort(probs, axis=1), probs)
    labels = np.where(rng.random(pool) < 0.8, probs.argmax(axis=1), labels)
    true = np.sort(1 - probs[np.arange(pool), labels])
    noise, covered = nacp.UniformNoise(0.3), []
    bets = {"bets": nacp.PAC(delta), "alpha": alpha, "points": 150} if guarantee == "pac" else {}
    tested = {"delta": delta} if guarantee in ("binomial", "nacp") else {}
    stream = nacp.Calibrator(k, noise=noise, **bets)
    for _ in range(runs):
        drawn = rng.integers(pool, size=n)
        noisy, state = noise.sample(labels[drawn], k, rng), stream.fresh()
        for part in np.array_split(np.arange(n), 2):
            state.update(probs[drawn[part]], noisy[part])
        cal = quiet(state.finish, guarantee=guarantee, alpha=alpha, **tested)
        covered.append(np.searchsorted(true, cal.threshold, side="right") / pool)
    failed, error = np.mean(np.array(covered) < 1 - alpha), np.sqrt(delta * (1 - delta) / runs)
    assert np.mean(np.array(covered) < 1) > 0.5  # it promises something
    if guarantee == "none":
        assert failed > delta + 3 * error  # the test can fail: without a correction about half fall short
    elif guarantee == "expected":
        assert np.mean(covered) > 1 - alpha - 3 * np.std(covered) / np.sqrt(runs)
    else:
        assert failed <= delta + 3 * error


# Bets


def test_bets_in_the_order_of_arrival_are_those_of_calibrate(points):
    probs, _, noisy = points
    order = np.random.default_rng(0).permutation(N)  # as random_state=0 shuffles them
    for noise in (nacp.UniformNoise(0.2), NOISES["interval"], NOISES["matrix"]):
        stream = nacp.Calibrator(
            K, noise=noise, score="raps", bets=nacp.PAC(delta=0.1), alpha=[0.1, 0.2], points=N
        )
        found = fed(stream, probs[order], noisy[order], [3, 500]).finish()
        exact = nacp.calibrate(
            probs, noisy, noise=noise, score="raps", guarantee=nacp.PAC(delta=0.1), alpha=[0.1, 0.2]
        )
        assert [cal.threshold for cal in found] == [cal.threshold for cal in exact]
        assert "the order in which the points came does not depend" in found[0].assumptions
        assert "order" not in exact[0].assumptions
        assert found[0] == stream.finish(alpha=0.1)


def test_more_points_than_expected_are_bet_on_too(points, tmp_path):
    probs, _, noisy = points
    few = nacp.Calibrator(K, noise=0.2, bets=nacp.PAC(), alpha=0.1, points=400)
    fed(few, probs[:400], noisy[:400], [100])
    then = few.finish()
    assert few.finish() == then  # to look does not change anything
    few.save(tmp_path / "state")
    again = nacp.Calibrator.load(tmp_path / "state")
    assert again == few
    for stream in (few, again):
        fed(stream, probs[400:], noisy[400:], [17])
    assert again == few
    assert few.finish().threshold == again.finish().threshold <= then.threshold
    one_by_one = fed(few.fresh(), probs, noisy, list(range(1, 700)))
    assert one_by_one.finish().threshold == few.finish().threshold
    few.finish().save(tmp_path / "cal.json")
    assert nacp.load(tmp_path / "cal.json") == few.finish()


def test_bets_neither_merge_nor_subtract_and_say_what_does(points):
    probs, _, noisy = points
    stream = nacp.Calibrator(K, noise=0.2, bets=nacp.PAC(), alpha=0.1, points=N)
    stream.update(probs[:100], noisy[:100])
    for combine in (lambda: stream + stream, lambda: stream.merge(stream), lambda: stream - stream):
        with pytest.raises(
            nacp.InputError, match=r'bets .*"binomial" and "nacp" .*"expected".*nacp.calibrate'
        ):
            combine()
    with pytest.raises(nacp.InputError, match=r"alpha must be what was bet on: 0.1; found 0.2"):
        stream.finish(alpha=0.2)
    with pytest.raises(nacp.InputError, match=r"delta must be that of the bets, 0\.05"):
        stream.finish(delta=0.1)
    with pytest.raises(
        nacp.InputError, match=r'"pac" bets on the points as they come, and the bets were PAC'
    ):
        stream.finish(guarantee=nacp.PAC(delta=0.1))
    plain = nacp.Calibrator(K, noise=0.2)
    plain.update(probs, noisy)
    with pytest.raises(nacp.InputError, match=r'guarantee "pac" bets .*there were no bets; use "binomial"'):
        plain.finish(guarantee="pac")
    with pytest.raises(nacp.InputError, match='guarantee must be named: "pac" would have to bet'):
        plain.finish()
    for options, said in (
        ({"bets": nacp.PAC(), "points": 10}, "alpha must be known before the first point"),
        ({"bets": nacp.PAC(), "alpha": 0.1}, "points must be said"),
        ({"alpha": 0.1}, "alpha is of use with bets= only; pass it to finish"),
        ({"points": 10}, "points is of use with bets= only"),
        ({"bets": "pac", "alpha": 0.1, "points": 10}, "bets must be a nacp.PAC"),
        ({"bets": nacp.PAC(), "alpha": 0.1, "points": 10**9}, "points must be 100,000,000 at the most"),
    ):
        with pytest.raises(nacp.InputError, match=said):
            nacp.Calibrator(K, noise=0.2, **options)


# What goes wrong


@pytest.mark.parametrize("bets", [{}, {"bets": nacp.PAC(), "alpha": 0.1, "points": N}], ids=["", "bets"])
def test_a_bad_batch_leaves_the_state_as_it_was(points, bets):
    probs, _, noisy = points
    stream = fed(nacp.Calibrator(K, noise=0.2, **bets), probs[:200], noisy[:200], [])
    before = pickle.dumps(stream)
    broken, wrong = probs[:50].copy(), noisy[:50].copy()
    broken[33, 2], wrong[7] = np.nan, K
    for rows, labels, said in (
        (broken, noisy[:50], "probs holds NaN, first in row 33"),
        (probs[:50], wrong, "labels must lie from 0 to 19"),
        (probs[:50], noisy[:49], r"labels must have the shape \(50,\)"),
        (
            probs[:50].astype(np.float64),
            noisy[:50],
            "probs must be float32, as the points before were; found float64",
        ),
        (probs[:50, :5], noisy[:50], "probs has 5 columns"),
        (None, noisy[:50], r"probs must have the shape \(n, k\); found None"),
        (7 * probs[:50], noisy[:50], "probs must have rows that sum to 1"),
        (
            (each for each in (probs[:50],)),
            noisy[:50],
            r"probs must have the shape \(n, k\); found a generator",
        ),
    ):
        with pytest.raises(nacp.InputError, match=said):
            stream.update(rows, labels)
        assert pickle.dumps(stream) == before
    stream.update(probs[:0], noisy[:0])
    assert pickle.dumps(stream) == before


def test_a_score_that_fails_in_the_middle_leaves_no_half_counted_batch(points):
    probs, _, noisy = points
    calls = []

    def score(rows):
        calls.append(len(rows))
        if len(calls) in failing:
            raise ArithmeticError
        return -rows.astype(np.float64)

    options = {"noise": 0.2, "score": score, "bets": nacp.PAC(grid=np.linspace(-1, 0, 99)), "alpha": 0.1}
    stream = nacp.Calibrator(K, points=N, **options)
    failing = set()
    stream.update(probs[:100], noisy[:100])
    first, numbers = pickle.dumps(vars(stream) | {"score": 0, "_updating": 0}), len(calls)
    stream.update(probs[100:200], noisy[100:200])
    needed = len(calls) - numbers
    assert needed == 2
    for place in range(1, needed + 1):
        again = nacp.Calibrator(K, points=N, **options)
        again.update(probs[:100], noisy[:100])
        failing = {len(calls) + place}
        with pytest.raises(ArithmeticError):
            again.update(probs[100:200], noisy[100:200])
        assert pickle.dumps(vars(again) | {"score": 0, "_updating": 0}) == first
        failing = set()
        again.update(probs[100:200], noisy[100:200])
        assert again == stream


def test_what_does_not_belong_together_is_not_merged(points):
    probs, _, noisy = points
    ours = fed(nacp.Calibrator(K, noise=0.2), probs, noisy, [])
    before = pickle.dumps(ours)
    wide = fed(nacp.Calibrator(K, noise=0.2), probs.astype(np.float64), noisy, [])
    several = fed(nacp.Calibrator(K, noise=0.2), probs, np.stack([noisy, noisy], axis=1), [])
    for other, said in (
        (nacp.Calibrator(K + 1, noise=0.2), "it has k 21, not 20"),
        (
            nacp.Calibrator(K, noise=0.3),
            r"it has noise UniformNoise\(rate=0.3\), not UniformNoise\(rate=0.2\)",
        ),
        (nacp.Calibrator(K, noise=0.2, score="aps"), r"it has score APS\(.*\), not HPS\(\)"),
        (nacp.Calibrator(K, noise=0.2, classes=[*"abcdefghijklmnopqrst"]), "it has other classes"),
        (nacp.Calibrator(K, noise=0.2, normalize=True), "it has normalize True, not False"),
        (nacp.Calibrator(K, noise=0.2, from_logits=True), "it has from_logits True, not False"),
        (wide, "it has counted float64, not float32"),
        (several, "one has several labels for each point, the other one"),
        (noisy, "other must be a Calibrator; found ndarray"),
    ):
        with pytest.raises(nacp.InputError, match=said):
            ours.merge(other)
        with pytest.raises(nacp.InputError, match=said):
            ours - other
    assert pickle.dumps(ours) == before
    with pytest.raises(nacp.InputError, match="normalize has no effect"):
        nacp.Calibrator(K, noise=0.2, normalize=True, from_logits=True)
    with pytest.raises(nacp.InputError, match="probs has not come: there is no point"):
        ours.fresh().finish(guarantee="none")


def test_a_batch_of_no_points_is_none_also_of_several_labels_each(points):
    probs, _, noisy = points
    stream = nacp.Calibrator(K, noise=0.2)
    stream.update(probs[:50], np.stack([noisy[:50]] * 2, axis=1))
    stream.update(probs[:0], np.empty((0, 2), dtype=np.int64))
    assert stream.n == 50


def test_a_window_slides(points):
    probs, _, noisy = points
    start = nacp.Calibrator(K, noise=NOISES["matrix"])
    hours = [fed(start.fresh(), probs[a : a + 300], noisy[a : a + 300], []) for a in range(0, N, 300)]
    window = hours[0] + hours[1]
    for old, new in zip(hours, hours[2:], strict=False):
        window = window + new - old
    assert window == hours[3] + hours[4]
    assert window - hours[3] - hours[4] == start
    with pytest.raises(nacp.InputError, match="other holds points that were never added"):
        window - hours[0]
    with pytest.raises(nacp.InputError, match="other holds points that were never added"):
        start - hours[0]


def test_points_that_score_in_the_same_cells_are_not_taken_for_each_other():
    """Where in its cell a label lies is counted, too: what is left must be what points can have left."""
    one, other = (nacp.Calibrator(3, noise=0.1) for _ in range(2))
    ends = fine_ends(-1.0, 0.0, 3)
    low, high = ends[np.searchsorted(ends, -0.45) - np.arange(2)]
    for stream, share in ((one, 0.5), (other, 0.51)):
        p = -low + (low - high) * share
        stream.update([[p, 0.3, 0.7 - p]], [0])
    for left, right in ((one, other), (other, one)):
        with pytest.raises(nacp.InputError, match="other holds points that were never added"):
            left - right


def test_files(points, tmp_path):
    probs, _, noisy = points
    path = tmp_path / "state"
    names = [f"kind {i}" for i in range(K)]
    for noise in (None, *NOISES.values()):
        stream = fed(nacp.Calibrator(K, noise=noise, score="raps", classes=names), probs, noisy, [])
        for state in (stream.fresh(), stream):
            state.save(path)
            assert nacp.Calibrator.load(path) == state
    data = path.read_bytes()
    damaged = [data[:cut] for cut in (len(data) - 1, len(data) - 40, len(data) // 2)]
    flipped = bytearray(data)
    flipped[len(data) // 3] ^= 1
    for bad in (*damaged, bytes(flipped), data + b"0"):
        path.write_bytes(bad)
        with pytest.raises(nacp.InputError, match="is damaged: its checksum does not fit"):
            nacp.Calibrator.load(path)
    for bad in (b"", data[:20], b"\x00\xff" * 100, b"[1]\n", b'{"format": "nacp.calibration"}\n'):
        path.write_bytes(bad)
        with pytest.raises(nacp.InputError, match="is not a file of a Calibrator"):
            nacp.Calibrator.load(path)
    path.write_bytes(data[:100])
    with pytest.raises(nacp.InputError, match="or not a whole one: its first line is not JSON"):
        nacp.Calibrator.load(path)
    quiet(stream.finish, guarantee="expected").save(path)
    with pytest.raises(
        nacp.InputError, match=r"is not a file of a Calibrator: it is a calibration; use nacp\.load"
    ):
        nacp.Calibrator.load(path)
    line, _, rest = data.partition(b"\n")
    path.write_bytes(json.dumps(json.loads(line) | {"version": 1}).encode() + b"\n" + rest)
    with pytest.raises(nacp.InputError, match="has version 1 of the format; this nacp reads 2"):
        nacp.Calibrator.load(path)


def test_files_that_were_made_up_are_refused(points, tmp_path):
    from nacp.files import read_numbers, write_numbers

    probs, _, noisy = points
    path = tmp_path / "state"
    stream = fed(nacp.Calibrator(K, noise=NOISES["matrix"]), probs, noisy, [])
    stream.save(path)
    with pytest.raises(nacp.InputError, match=r"is the state of a Calibrator; use nacp\.Calibrator\.load"):
        nacp.load(path)
    document, arrays = read_numbers(path, "file", ("nacp.calibrator",), 2)
    del document["arrays"]
    negative = arrays["pairs"].copy()
    negative[np.argmax(negative)] *= -1
    for values, numbers, said in (
        ({"k": 1}, {}, "k must"),
        ({"n": N - 1}, {}, "counts are not those of any points"),
        ({"cells": "0"}, {}, "cells are not those in which this nacp counts; count the points again"),
        ({"widths": None}, {}, "counts are not those of any points"),
        ({"score": {"name": "custom", "function": "f"}}, {}, "score is one's own function"),
        ({}, {"pairs": negative}, "counts are not those of any points"),
        ({}, {"hits": arrays["hits"][1:]}, "counts are not those of any points"),
        ({}, {"places": (4097 * arrays["hits"]).astype(np.uint32)}, "counts are not those of any points"),
        ({}, {"before": arrays["mates"] + np.uint32(1)}, "counts are not those of any points"),
        ({}, {"mates": arrays["mates"].astype(np.int64)}, "counts are not those of any points"),
        ({}, {"mates": None}, "it has no 'mates'"),
        ({}, {"places": None}, "it has no 'places'"),
        ({}, {"gains 0": None}, "it has no 'gains 0'"),
        ({"noise": {"name": "uniform", "rate": 0.2}}, {}, "it has no 'squares'"),
        ({}, {"by_label": arrays["by_label"][1:]}, "counts are not those of any points"),
    ):
        kept = {name: each for name, each in (arrays | numbers).items() if each is not None}
        write_numbers(path, document | values, kept)
        with pytest.raises(nacp.InputError, match=f"cannot be used: .*{said}"):
            nacp.Calibrator.load(path)


def test_bets_that_are_no_whole_numbers_are_refused(points, tmp_path):
    from nacp.files import read_numbers, write_numbers

    probs, _, noisy = points
    path, options = tmp_path / "state", {"bets": nacp.PAC(), "alpha": 0.1, "points": N}
    fed(nacp.Calibrator(K, noise=0.2, **options), probs, noisy, []).save(path)
    document, arrays = read_numbers(path, "file", ("nacp.calibrator",), 2)
    write_numbers(path, document, arrays | {"bets 0": arrays["bets 0"].astype(np.float64)})
    with pytest.raises(nacp.InputError, match=r"cannot be used: .*bets are not those of this grid"):
        nacp.Calibrator.load(path)


def test_a_function_as_a_score_has_to_be_given_again(points, tmp_path):
    probs, _, noisy = points

    def score(rows):
        return -rows.astype(np.float64)

    stream = fed(nacp.Calibrator(K, noise=0.2, score=score), probs, noisy, [])
    stream.save(tmp_path / "state")
    with pytest.raises(nacp.InputError, match="score is one's own function"):
        nacp.Calibrator.load(tmp_path / "state")
    assert nacp.Calibrator.load(tmp_path / "state", score=score) == stream


# Real classifiers

FOLDER = os.environ.get("NACP_BENCHMARK_DATA")


@pytest.mark.skipif(not FOLDER, reason="NACP_BENCHMARK_DATA is not set")
@pytest.mark.parametrize(("score", "rate"), [("hps", 0.4), ("aps", 0.2), ("raps", 0.05)])
@pytest.mark.parametrize("name", ["cifar10", "cifar10n", "cifar100", "cifar100n", "tinyimagenet", "imagenet"])
def test_set_sizes_on_real_classifiers_are_within_a_thousandth(name, score, rate):
    with np.load(Path(str(FOLDER)) / f"{name}.npz") as data:
        probs, labels = data["probs"], data["labels"]
    k, alphas = probs.shape[1], [0.05, 0.1, 0.2]
    noise = nacp.UniformNoise(rate)
    noisy = noise.sample(labels, k, 0)
    stream = fed(nacp.Calibrator(k, noise=noise, score=score), probs, noisy, [5000])
    for guarantee in ("none", "nacp", "expected", "binomial"):
        options = {"guarantee": guarantee, "alpha": alphas}
        found = quiet(stream.finish, **options)
        exact = quiet(partial(nacp.calibrate, probs, noisy, noise=noise, score=score), **options)
        for one, other in zip(found, exact, strict=True):
            assert (one.note is None) == (other.note is None)
            sizes = [cal.predict_set(probs).sizes.sum() for cal in (one, other)]
            assert 0 <= sizes[0] / sizes[1] - 1 < (1e-3 if guarantee != "binomial" else 1e-12)


@pytest.mark.skipif(not FOLDER, reason="NACP_BENCHMARK_DATA is not set")
@pytest.mark.parametrize(
    ("name", "score", "rate", "guarantee", "alpha"),
    [
        ("cifar100", "hps", 0.4, "nacp", 0.05),  # at a probability of 1e-7
        ("cifar10n", "saps", 0.6, "none", 0.01),  # between steps
        ("imagenet", "raps", 0.4, "expected", 0.01),  # at a step beyond the first hundreds
    ],
)
def test_set_sizes_where_cells_were_too_wide(name, score, rate, guarantee, alpha):
    with np.load(Path(str(FOLDER)) / f"{name}.npz") as data:
        probs, labels = data["probs"], data["labels"]
    k, noise = probs.shape[1], nacp.UniformNoise(rate)
    noisy = noise.sample(labels, k, 1)
    stream = fed(nacp.Calibrator(k, noise=noise, score=score), probs, noisy, [])
    found = quiet(stream.finish, guarantee=guarantee, alpha=alpha)
    exact = quiet(
        partial(nacp.calibrate, probs, noisy, noise=noise, score=score), guarantee=guarantee, alpha=alpha
    )
    sizes = [cal.predict_set(probs).sizes.sum() for cal in (found, exact)]
    assert 0 <= sizes[0] / sizes[1] - 1 < 1e-3
