"""Dask arrays: the same bits as in memory, whatever the chunks are and whoever works on them."""

import warnings

import numpy as np
import pytest

import nacp
from nacp.paper import twins

da = pytest.importorskip("dask.array")

N, K = 3000, 20
MATRIX = nacp.MatrixNoise(0.8 * np.eye(K) + 0.2 * np.random.default_rng(0).dirichlet(np.full(K, 0.3), K))
NOISES = {"uniform": nacp.UniformNoise(0.2), "matrix": MATRIX}
CHUNKS = {"one": (N,), "uneven": (700, 1, 1299, 0, 1000), "many": (100,) * 30}


@pytest.fixture(scope="module")
def points():
    probs, labels = twins.simulate("cifar100", n=N, random_state=0)
    return probs.reshape(N, K, 5).sum(axis=2), labels // 5


@pytest.fixture(scope="module")
def calibrated(points):
    return nacp.calibrate(*points, noise=None, score="aps")


def noisy(points, noise):
    return noise.sample(points[1], K, random_state=1)


def lazy(probs, chunks="uneven"):
    return da.from_array(probs, chunks=(CHUNKS[chunks] if isinstance(chunks, str) else chunks, -1))


# Calibrate


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_labels_may_be_dask_arrays_and_chunks_may_be_empty(points, noise):
    labels = noisy(points, noise)
    options = {"noise": noise, "score": "aps", "guarantee": "expected"}
    expected = nacp.calibrate(points[0], labels, **options)
    for chunks in CHUNKS:
        found = nacp.calibrate(lazy(points[0], chunks), da.from_array(labels, chunks=1234), **options)
        assert (found.threshold, found.estimate) == (expected.threshold, expected.estimate)
        assert found.tally == expected.tally
    assert expected.tally != nacp.calibrate(points[0], np.roll(labels, 1), **options).tally


def test_by_default_the_guarantee_is_one_that_adds_up_and_pac_is_refused(points):
    probs, labels = lazy(points[0]), noisy(points, NOISES["uniform"])
    assert nacp.calibrate(probs, labels, noise=0.2).guarantee.name == "binomial"
    assert nacp.calibrate(probs, labels, noise=MATRIX).guarantee.name == "expected"
    assert nacp.calibrate(probs, points[1], noise=None).guarantee.name == "split"
    with pytest.raises(nacp.InputError, match=r'"pac" looks at the points in a random order.*use "binomial"'):
        nacp.calibrate(probs, labels, noise=0.2, guarantee="pac")


# Sets


@pytest.mark.parametrize("chunks", CHUNKS)
def test_sets_are_made_chunk_by_chunk(points, calibrated, chunks):
    expected = calibrated.predict_set(points[0])
    assert calibrated.predict_set(lazy(points[0], chunks)).to_lists() == expected.to_lists()
    mask = calibrated.predict_mask(lazy(points[0], chunks))
    assert hasattr(mask, "dask")
    np.testing.assert_array_equal(mask.compute(), np.asarray(expected))
    nothing = calibrated.predict_set(lazy(points[0][:0], (0,)))
    assert len(nothing) == 0


def test_sets_by_group_are_made_where_the_rows_are(points):
    (probs, truth), site = points, np.arange(N) % 7 // 3
    by_site = nacp.calibrate(probs, truth, noise=None, groups=site)
    expected = by_site.predict_set(probs, groups=site).to_lists()
    assert by_site.predict_set(lazy(probs), groups=site).to_lists() == expected
    by_class = nacp.calibrate(probs, truth, noise=None, by="class")
    assert by_class.predict_set(lazy(probs)).to_lists() == by_class.predict_set(probs).to_lists()
    with pytest.raises(nacp.InputError, match="a group that was not calibrated"):
        by_site.predict_set(lazy(probs), groups=site + 1)


def test_a_wrong_row_is_told_by_its_number_among_all(points, calibrated):
    probs, labels = points[0].copy(), noisy(points, NOISES["uniform"])
    probs[2345, 3] = np.nan
    stream = nacp.Calibrator(K, noise=0.2)
    for call in (
        lambda: nacp.calibrate(lazy(probs), labels, noise=0.2),
        lambda: calibrated.predict_set(lazy(probs)),
        lambda: stream.update(lazy(probs), labels),
    ):
        with pytest.raises(nacp.InputError, match="probs holds NaN, first in row 2345"):
            call()
    assert stream.n == 0


def test_what_cannot_be_done_is_refused_in_a_sentence(points, calibrated):
    probs, labels = points
    unknown = lazy(probs)[da.from_array(labels, chunks=500) > 3]
    calls = {
        r"whole rows in each chunk, and has 2 chunks of columns; pass probs.rechunk\({1: -1}\)": (
            lambda: nacp.calibrate(da.from_array(probs, chunks=(500, K // 2)), labels, noise=0.2)
        ),
        "chunks of unknown size; call probs.compute_chunk_sizes": lambda: calibrated.predict_set(unknown),
        "probs must have the shape": lambda: calibrated.predict_set(da.from_array(labels)),
        "cannot be a dask array with groups": lambda: nacp.calibrate(
            lazy(probs), labels, noise=0.2, groups=labels
        ),
        "unlabelled cannot be used with a dask array": lambda: nacp.calibrate(
            lazy(probs), labels, noise=0.2, guarantee="binomial", unlabelled=probs
        ),
        r"labels must have the shape \(3000,\)": lambda: nacp.calibrate(lazy(probs), labels[:9], noise=0.2),
        "probs has 10 columns": lambda: calibrated.predict_set(lazy(probs[:, :10])),
    }
    for sentence, call in calls.items():
        with pytest.raises(nacp.InputError, match=sentence):
            call()


# A cluster: worker processes on this machine


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a cluster says of this machine
        with (
            distributed.LocalCluster(host="127.0.0.1", **options) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


@pytest.mark.slow
def test_a_cluster_finds_the_same_bits(points, calibrated, client):
    probs, labels = points[0].copy(), noisy(points, MATRIX)
    options = {"noise": MATRIX, "guarantee": "expected"}
    found = nacp.calibrate(lazy(probs, "many"), da.from_array(labels, chunks=640), **options)
    assert found == nacp.calibrate(probs, labels, **options)
    sets = calibrated.predict_set(lazy(probs, "many"))
    assert sets.to_lists() == calibrated.predict_set(probs).to_lists()
    probs[2345, 3] = np.nan
    with pytest.raises(nacp.InputError, match="holds NaN, first in row 2345; drop") as caught:
        nacp.calibrate(lazy(probs, "many"), labels, noise=0.2)
    assert caught.value.__cause__ is None
