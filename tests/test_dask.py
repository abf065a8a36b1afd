"""Dask arrays: the same bits as in memory, whatever the chunks are and whoever works on them."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.coverage.questions import MomentsQuestion
from nacp.paper import twins
from nacp.points import watching
from nacp.tuning import tuned

da = pytest.importorskip("dask.array")

N, K = 3000, 20
MATRIX = nacp.MatrixNoise(0.8 * np.eye(K) + 0.2 * np.random.default_rng(0).dirichlet(np.full(K, 0.3), K))
NOISES = {"uniform": nacp.UniformNoise(0.2), "matrix": MATRIX}
CHUNKS = {"one": (N,), "uneven": (700, 1, 1299, 0, 1000), "many": (100,) * 30}
# As large inputs are read: hints, scores kept up to a limit, bets on what was kept; or nothing kept at all.
LARGE = {"hint_pairs": 0, "hint_entries": 4000, "counted_pairs": 0, "block_entries": 4000}
NOTHING_KEPT = {**LARGE, "kept_pairs": 0, "sent_pairs": 0, "collected_pairs": 500, "sent_bytes": 1 << 17}


@pytest.fixture(scope="module")
def points():
    probs, labels = twins.simulate("cifar100", n=N, random_state=0)
    return probs.reshape(N, K, 5).sum(axis=2), labels // 5


def noisy(points, noise):
    return noise.sample(points[1], K, random_state=1)


def lazy(probs, chunks="uneven"):
    return da.from_array(probs, chunks=(CHUNKS[chunks] if isinstance(chunks, str) else chunks, -1))


def reads(call, *args, **options):
    """Return what comes out, and how often all rows were read."""
    seen = []
    with watching(seen.append):
        found = call(*args, **options)
    return found, seen.count(N)


# Calibrate


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize("noise", NOISES)
def test_thresholds_by_group_are_the_same_bits(points, noise):
    probs, labels, site = points[0], noisy(points, NOISES[noise]), np.arange(N) % 7 // 3
    halves = {label: label % 2 for label in range(K)}
    for given in ({"groups": site}, {"by": "class"}, {"groups": halves}, {"groups": site, "small": "merge"}):
        for guarantee in ("none", "pac"):
            known = {"noise": NOISES[noise], "guarantee": guarantee, "score": "aps", "small": "all"} | given
            with tuned(**NOTHING_KEPT):
                here = nacp.calibrate(probs, labels, **known)
                there = nacp.calibrate(lazy(probs), labels, **known)
            assert there.thresholds == here.thresholds
            assert [each.n for each in there.calibrations] == [each.n for each in here.calibrations]


@pytest.mark.filterwarnings("ignore::nacp.NoValidThresholdWarning")
@pytest.mark.parametrize(("guarantee", "most"), [("none", 4), ("expected", 4), ("pac", 4), ("binomial", 6)])
def test_chunks_are_read_once_for_all_groups(points, guarantee, most):
    """Twice for all rows, as without groups, and twice for the groups; "binomial" looks again."""
    probs, labels, seen = points[0], noisy(points, NOISES["uniform"]), []

    def look(chunk, block_id=None):
        seen.extend([block_id[0]] * bool(len(chunk)))
        return chunk

    watched = lazy(probs).map_blocks(look, dtype=probs.dtype, meta=probs[:0])
    known = {"noise": NOISES["uniform"], "guarantee": guarantee, "small": "all"}
    for site in (np.arange(N) % 20, np.arange(N) // 200):
        here = nacp.calibrate(probs, labels, groups=site, **known)
        seen.clear()
        there = nacp.calibrate(watched, labels, groups=site, **known)
        assert np.bincount(seen).max() <= most
        assert there.thresholds == here.thresholds


def test_sets_by_group_are_made_where_the_rows_are(points):
    (probs, truth), site = points, np.arange(N) % 7 // 3
    by_site = nacp.calibrate(probs, truth, noise=None, groups=site)
    sets, here = by_site.predict_set(lazy(probs), groups=site), by_site.predict_set(probs, groups=site)
    assert sets.compute().to_lists() == here.to_lists()
    found, expected = (nacp.evaluate(each, truth, groups=site) for each in (sets, here))
    assert found == expected
    assert str(found.groups) == str(expected.groups)
    by_class = nacp.calibrate(probs, truth, noise=None, by="class")
    made = by_class.predict_set(lazy(probs)).to_dask().compute()
    np.testing.assert_array_equal(made, np.asarray(by_class.predict_set(probs)))
    with pytest.raises(nacp.errors.InputError, match="a group that was not calibrated"):
        by_site.predict_set(lazy(probs), groups=site + 1)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("score", ["hps", "aps", "raps"])
@pytest.mark.parametrize("guarantee", ["none", "pac", "expected", "binomial"])
def test_a_calibration_has_the_same_bits_as_in_memory(points, noise, score, guarantee):
    noise = NOISES[noise]
    if guarantee == "binomial" and noise is MATRIX:
        pytest.skip("holds for uniform noise only")
    labels = noisy(points, noise)
    options = {"noise": noise, "score": score, "guarantee": guarantee, "alpha": [0.1, 0.3]}
    expected = nacp.calibrate(points[0], labels, **options)
    given = {"one": labels, "uneven": da.from_array(labels, chunks=1234), "many": labels}
    for (chunks, some), tuning in zip(given.items(), ({}, LARGE, {}), strict=True):
        with tuned(**tuning):
            found, often = reads(nacp.calibrate, lazy(points[0], chunks), some, **options)
            known = nacp.calibrate(points[0], labels, **options) if tuning else expected
        assert found == expected
        assert [cal.tally for cal in found] == [cal.tally for cal in known]
        # Once to check them and to score their labels, once to count; and some more, mostly of a part of the
        # rows, where a hint from few rows was wrong, and where not all that bets need was kept.
        assert often <= (8 if tuning else 4 if guarantee == "binomial" else 2)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", ["native", "numpy"])
def test_bets_are_the_same_where_no_scores_are_kept(points, noise, name):
    labels = noisy(points, NOISES[noise])
    # At many thresholds rows are sent, at few the shares of rows.
    for guarantee in (nacp.PAC(), nacp.PAC(grid=tuple(np.linspace(0.2, 0.99, 8)))):
        options = {"noise": NOISES[noise], "score": "hps", "guarantee": guarantee}
        expected = nacp.calibrate(points[0], labels, **options)
        assert expected.threshold < np.inf
        try:
            with engine.using(name), tuned(**NOTHING_KEPT):
                assert nacp.calibrate(lazy(points[0]), labels, **options) == expected
        except ImportError:
            pytest.skip("the compiled engine was not built")


def test_noise_that_is_not_known_exactly_and_scores_of_ones_own(points):
    labels = noisy(points, MATRIX)
    radius = nacp.MatrixNoise(MATRIX.matrix(K).dense(), radius=0.01)
    interval = nacp.UniformNoise(0.2, interval=(0.15, 0.25))
    for noise, score in ((radius, "hps"), (interval, "aps"), (0.2, lambda p: -np.log(p))):
        options = {"noise": noise, "score": score, "guarantee": "expected"}
        assert nacp.calibrate(lazy(points[0]), labels, **options) == nacp.calibrate(
            points[0], labels, **options
        )


def test_several_labels_unlabelled_points_names_and_logits(points):
    probs, labels = points[0], noisy(points, NOISES["uniform"])
    table = np.stack([labels, nacp.UniformNoise(0.3).sample(points[1], K, random_state=2)], axis=1)
    table[::3, 1] = -1
    names = np.array([f"class {i}" for i in range(K)])
    logits = np.log(np.maximum(probs, 1e-30)) + 3
    annotators = nacp.AnnotatorNoise([nacp.UniformNoise(rate).matrix(K).dense() for rate in (0.2, 0.3)])
    calls = [
        (probs, table, {"noise": 0.25}),
        (probs, table, {"noise": annotators}),
        (probs, names[labels], {"noise": 0.2, "classes": names}),
        (logits, labels, {"noise": 0.2, "from_logits": True}),
        (2 * probs, labels, {"noise": 0.2, "normalize": True}),
        (probs.astype(np.float16), labels, {"noise": 0.2}),
    ]
    for matrix, given, options in calls:
        found = nacp.calibrate(lazy(matrix), da.from_array(given, chunks=999), **options)
        assert found == nacp.calibrate(matrix, given, **options)
    more = {"noise": 0.2, "guarantee": "binomial"}
    assert nacp.calibrate(
        lazy(probs), labels, unlabelled=lazy(probs, "many"), **more
    ) == nacp.calibrate(probs, labels, unlabelled=probs, **more)  # fmt: skip


def test_stacked_labels_are_noticed(points):
    probs, labels = np.repeat(points[0][:400], 3, axis=0), np.repeat(points[1][:400], 3)
    with pytest.warns(nacp.RepeatedRowsWarning, match="about 3 times each"):
        nacp.calibrate(da.from_array(probs, chunks=(500, -1)), labels, noise=None)


def test_moments_do_not_depend_on_the_order(points):
    """Sums are exact: of the shares of any rows, in any order, they are those of fractions."""
    from fractions import Fraction

    rng = np.random.default_rng(0)
    shares = rng.standard_normal((500, 2)) * 10.0 ** rng.integers(-8, 1, (500, 2))

    class Known:
        n, read_as, range = 500, None, (-8.0, 8.0)

        def upto(self, threshold):
            return threshold

        def shares(self, block, rows, thresholds):
            return shares[rows]

    found = []
    for order in (np.arange(500), rng.permutation(500)):
        question = MomentsQuestion(Known(), np.array([0.0, 1.0]))
        for some in np.array_split(order, 7):
            question.see(None, some)
        found.append(question.deviations(np.array([0.0, 1.0])))
    assert found[0] == found[1]
    exact = [[Fraction(x) for x in column] for column in shares.T.tolist()]
    for deviation, values in zip(found[0], exact, strict=True):
        variance = sum(x * x for x in values) / 500 - (sum(values) / 500) ** 2
        assert deviation == pytest.approx(float(variance) ** 0.5, rel=1e-15)


# Calibrator


@pytest.mark.parametrize("noise", NOISES)
def test_a_calibrator_counts_where_the_chunks_are(points, noise):
    labels = noisy(points, NOISES[noise])
    whole, parts = (nacp.Calibrator(K, noise=NOISES[noise], score="aps") for _ in range(2))
    whole.update(points[0], labels)
    parts.update(lazy(points[0][:2000], (700, 1, 1299)), da.from_array(labels[:2000], chunks=555))
    parts.update(points[0][2000:2100], labels[2000:2100])
    parts.update(lazy(points[0][2100:], (900,)), labels[2100:])
    assert parts == whole
    assert parts.finish(guarantee="expected") == whole.finish(guarantee="expected")


def test_a_calibrator_loses_nothing_by_a_wrong_chunk(points):
    probs, labels = points[0].copy(), noisy(points, NOISES["uniform"])
    probs[2345, 3] = np.nan
    stream = nacp.Calibrator(K, noise=0.2)
    stream.update(lazy(points[0]), labels)
    before = stream.fresh() + stream
    calls = {
        "holds NaN, first in row 2345": lambda: stream.update(lazy(probs), labels),
        "probs must be float32, as the points before": lambda: stream.update(
            lazy(points[0].astype(np.float64)), labels
        ),
        "one label for each point, as before": lambda: stream.update(
            lazy(points[0]), np.stack([labels, labels], axis=1)
        ),
        "bets are placed on the points one after the other": lambda: nacp.Calibrator(
            K, noise=0.2, bets=nacp.PAC(), alpha=0.1, points=N
        ).update(lazy(points[0]), labels),
    }
    for sentence, call in calls.items():
        with pytest.raises(nacp.InputError, match=sentence):
            call()
    assert stream == before


def test_states_of_parts_can_be_sent_and_added_by_anybody(points):
    """As Spark and Ray do."""
    labels, whole = noisy(points, MATRIX), nacp.Calibrator(K, noise=MATRIX)
    states = []
    for some in (slice(0, 1000), slice(1000, N)):
        state = whole.fresh()
        state.update(points[0][some], labels[some])
        states.append(pickle.loads(pickle.dumps(state)))
    whole.update(points[0], labels)
    assert sum(states, start=nacp.Calibrator(K, noise=MATRIX)) == whole


def test_a_calibrator_takes_several_labels_and_names(points):
    labels = noisy(points, NOISES["uniform"])
    table = np.stack([labels, np.where(np.arange(N) % 3, -1, points[1])], axis=1)
    names = [3 * i for i in range(K)]
    for given, options in ((table, {}), (3 * labels, {"classes": names})):
        whole, parts = (nacp.Calibrator(K, noise=0.2, **options) for _ in range(2))
        whole.update(points[0], given)
        parts.update(lazy(points[0]), da.from_array(given, chunks=1100))
        assert parts == whole


# Sets


@pytest.fixture(scope="module")
def calibrated(points):
    return nacp.calibrate(points[0], noisy(points, NOISES["uniform"]), noise=0.2, score="aps")


@pytest.mark.parametrize("chunks", CHUNKS)
def test_sets_are_made_chunk_by_chunk(points, calibrated, chunks):
    probs, labels = points
    sets, whole = calibrated.predict_set(lazy(probs, chunks)), calibrated.predict_set(probs)
    assert isinstance(sets, nacp.LazySets)
    assert len(sets) == N
    made = sets.compute()
    assert np.array_equal(made.offsets, whole.offsets)
    assert np.array_equal(made.labels, whole.labels)
    assert np.array_equal(sets.to_dask().compute(), np.asarray(whole))
    for given in (labels, da.from_array(labels, chunks=777)):
        assert nacp.evaluate(sets, given) == nacp.evaluate(whole, labels)


def test_what_is_evaluated_is_what_it_is_by_definition(points, calibrated):
    probs, labels = points
    inside = np.asarray(calibrated.predict_set(probs))
    sizes, covered = inside.sum(axis=1), inside[np.arange(N), labels]
    found = nacp.evaluate(calibrated.predict_set(lazy(probs)), labels)
    assert (found.coverage, found.mean_size) == (covered.mean(), sizes.mean())
    assert (found.median_size, found.singleton) == (np.median(sizes), np.mean(sizes == 1))
    assert found.worst_class_coverage == min(covered[labels == each].mean() for each in np.unique(labels))
    assert found.size_error == pytest.approx(sizes.std(ddof=1) / np.sqrt(N), rel=1e-12)


def test_nothing_is_computed_before_it_is_asked_for(calibrated, points):
    made = []

    def chunk(block):
        made.append(len(block))
        return block

    watched = lazy(points[0]).map_blocks(chunk, meta=points[0][:0])
    sets = calibrated.predict_set(watched)
    matrix = sets.to_dask()
    assert made == []
    assert matrix[:700].compute().shape == (700, K)
    assert made == [700]


# What is refused


def test_a_wrong_row_is_told_by_its_number_among_all(points, calibrated):
    probs = points[0].copy()
    probs[2345, 3] = np.nan
    probs[2999, 0] = np.nan
    calls = [
        lambda: nacp.calibrate(lazy(probs), points[1], noise=0.2),
        lambda: calibrated.predict_set(lazy(probs)).compute(),
        lambda: calibrated.predict_set(lazy(probs)).to_dask().compute(),
        lambda: nacp.evaluate(calibrated.predict_set(lazy(probs)), points[1]),
        lambda: nacp.calibrate(
            lazy(points[0]), points[1], noise=0.2, guarantee="binomial", unlabelled=lazy(probs)
        ),
    ]
    for call in calls:
        with pytest.raises(nacp.InputError, match="holds NaN, first in row 2345; drop") as caught:
            call()
        assert caught.value.__cause__ is None


def test_a_comparison_is_that_in_memory(points):
    probs, truth = points
    labels, rows = noisy(points, nacp.UniformNoise(0.3)), np.random.default_rng(3).permutation(N)[:120]
    there = da.from_array(labels, chunks=700)
    for options, far in (
        ({"noise": 0.3, "scores": ["raps"]}, {}),
        ({"noise": 0.3, "clean": (rows, truth[rows]), "scores": ["hps"]}, {}),
        (
            {"noise": 0.3, "scores": ["hps"], "guarantees": ["pac"], "test_labels": truth},
            {"test_probs": lazy(probs)},
        ),
    ):
        near = {name: probs for name in far}
        with tuned(**LARGE), warnings.catch_warnings():
            warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)
            exact = nacp.compare(probs, labels, **options, **near)
            found = nacp.compare(lazy(probs), there, **options, **far)
        assert found == exact
    wrong = probs.copy()
    wrong[2345, 7] = np.nan
    for call in (
        lambda: nacp.compare(lazy(wrong), there, noise=0.3),
        lambda: nacp.compare(probs, labels, noise=0.3, test_probs=lazy(wrong), test_labels=truth),
    ):
        with pytest.raises(nacp.InputError, match="probs holds NaN, first in row 2345"):
            call()


@pytest.mark.parametrize(
    "noise", [nacp.UniformNoise(0.3), nacp.MatrixNoise(MATRIX.P, radius=0.02)], ids=["uniform", "radius"]
)
def test_a_diagnosis_is_that_in_memory(points, noise):
    probs, truth = points
    labels = nacp.UniformNoise(0.3).sample(truth, K, 5)
    there, rows = da.from_array(labels, chunks=700), np.random.default_rng(3).permutation(N)[:120]
    cal = nacp.calibrate(probs, labels, noise=noise, guarantee="expected")
    for known, more in (
        ({}, {}),
        ({"clean": (rows, truth[rows])}, {}),
        ({"audit_labels": truth}, {"audit_probs": lazy(probs)}),
    ):
        near = {name: probs for name in more}
        exact = nacp.diagnose(cal, probs, labels, **known, **near)
        with engine.using("numpy"):  # and with other blocks
            assert nacp.diagnose(cal, probs, labels, **known, **near) == exact
        assert nacp.diagnose(cal, lazy(probs), there, **known, **more) == exact
    assert nacp.compatible_radius(cal, lazy(probs), there) == nacp.compatible_radius(cal, probs, labels)
    grouped = nacp.calibrate(probs, labels, noise=0.3, groups=np.arange(N) % 2, guarantee="none")
    with pytest.raises(nacp.InputError, match="cannot be a dask array with groups"):
        nacp.diagnose(grouped, lazy(probs), there, groups=np.arange(N) % 2)


def test_what_cannot_be_done_is_refused_in_a_sentence(points, calibrated):
    probs, labels = points
    unknown = lazy(probs)[da.from_array(labels, chunks=500) > 3]
    calls = {
        r"whole rows in each chunk, and has 2 chunks of columns; pass probs.rechunk\({1: -1}\)": (
            lambda: nacp.calibrate(da.from_array(probs, chunks=(500, K // 2)), labels, noise=0.2)
        ),
        "chunks of unknown size; call probs.compute_chunk_sizes": (
            lambda: calibrated.predict_set(unknown)
        ),
        "probs must have the shape": lambda: calibrated.predict_set(da.from_array(labels)),
        "cannot be a dask array with groups and checked": lambda: nacp.calibrate(
            lazy(probs), labels, clean=labels, groups=labels
        ),
        "unlabelled must be a dask array where probs is": lambda: nacp.calibrate(
            lazy(probs), labels, noise=0.2, guarantee="binomial", unlabelled=probs
        ),
        r"labels must have the shape \(3000,\)": lambda: nacp.calibrate(lazy(probs), labels[:9], noise=0.2),
        "labels must lie from 0 to 19": lambda: nacp.evaluate(
            calibrated.predict_set(lazy(probs)), da.from_array(labels + 1, chunks=500)
        ),
        "probs has 10 columns": lambda: calibrated.predict_set(lazy(probs[:, :10])),
    }  # fmt: skip
    for sentence, call in calls.items():
        with pytest.raises(nacp.InputError, match=sentence):
            call()


def test_importing_nacp_does_not_import_dask():
    code = "import sys, nacp; sys.exit('dask' in sys.modules or 'distributed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# A cluster: worker processes on this machine


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    if sys.platform == "win32":
        pytest.skip("processes cannot be killed in this way")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a cluster says of this machine
        with (
            distributed.LocalCluster(host="127.0.0.1", **options) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


def slow(probs, folder):
    """Return the rows in chunks that take a while, and leave a trace each time that one is made."""

    def chunk(block):
        time.sleep(0.02)
        tempfile.NamedTemporaryFile(dir=folder, prefix=f"{os.getpid()}-", delete=False).close()
        return block

    return lazy(probs, "many").map_blocks(chunk, meta=probs[:0])


def killing(folder, after):
    """Kill the first worker that has made four chunks, after so many others: none of them is joined yet."""
    gone = []

    def kill():
        while len(before := set(os.listdir(folder))) < after:
            time.sleep(0.002)
        while not gone:
            made = Counter(int(name.split("-")[0]) for name in set(os.listdir(folder)) - before)
            gone.extend(worker for worker, chunks in made.items() if chunks >= 4)
            time.sleep(0.002)
        os.kill(gone[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@pytest.mark.parametrize(("guarantee", "noise", "after"), [("pac", "uniform", 0), ("expected", "matrix", 30)])
def test_a_cluster_that_loses_a_worker_finds_the_same_bits(points, client, tmp_path, guarantee, noise, after):
    labels = noisy(points, NOISES[noise])
    options = {"noise": NOISES[noise], "score": "aps", "guarantee": guarantee}
    expected = nacp.calibrate(points[0], labels, **options)
    thread = killing(tmp_path, after)
    found = nacp.calibrate(slow(points[0], tmp_path), da.from_array(labels, chunks=640), **options)
    thread.join()
    assert found == expected
    assert found.tally == expected.tally
    # Two reads of 30 chunks, and those again that were lost with the worker.
    assert len(os.listdir(tmp_path)) > 60


def test_sets_on_a_cluster_that_loses_a_worker(points, calibrated, client, tmp_path):
    sets = calibrated.predict_set(slow(points[0], tmp_path))
    thread = killing(tmp_path, 0)
    found = nacp.evaluate(sets, da.from_array(points[1], chunks=640))
    thread.join()
    assert len(os.listdir(tmp_path)) > 30
    whole = calibrated.predict_set(points[0])
    assert found == nacp.evaluate(whole, points[1])
    assert np.array_equal(sets.compute().labels, whole.labels)


def test_counts_on_a_cluster_that_loses_a_worker(points, client, tmp_path):
    labels = noisy(points, MATRIX)
    whole, parts = nacp.Calibrator(K, noise=MATRIX), nacp.Calibrator(K, noise=MATRIX)
    whole.update(points[0], labels)
    thread = killing(tmp_path, 0)
    parts.update(slow(points[0], tmp_path), da.from_array(labels, chunks=640))
    thread.join()
    assert len(os.listdir(tmp_path)) > 30
    assert parts == whole


def test_a_wrong_row_on_a_cluster_is_told_as_anywhere(points, client):
    probs = points[0].copy()
    probs[2345, 3] = np.nan
    with pytest.raises(nacp.InputError, match="holds NaN, first in row 2345; drop") as caught:
        nacp.calibrate(lazy(probs, "many"), points[1], noise=0.2)
    assert caught.value.__cause__ is None
