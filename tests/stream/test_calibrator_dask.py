"""A Calibrator counts the chunks of a dask array where they are: the same counts as in memory."""

import numpy as np
import pytest

import nacp
from nacp.paper import twins

da = pytest.importorskip("dask.array")

N, K = 3000, 10
MATRIX = nacp.MatrixNoise(0.7 * np.eye(K) + 0.3 * np.random.default_rng(0).dirichlet(np.ones(K), K))
NOISES = {
    "uniform": nacp.UniformNoise(0.2),
    "interval": nacp.UniformNoise(0.2, interval=(0.15, 0.25), confidence=0.95),
    "matrix": MATRIX,
    "none": None,
}


@pytest.fixture(scope="module")
def points():
    return twins.simulate("cifar10", n=N, random_state=0)


def noisy(points, noise):
    return points[1] if noise is None else noise.sample(points[1], K, random_state=0)


def lazy(rows, chunks=(700,)):
    """Return a dask array; the last size of a chunk is repeated."""
    sizes = list(chunks)
    while sum(sizes) < len(rows):
        sizes.append(min(sizes[-1], len(rows) - sum(sizes)))
    return da.from_array(rows, chunks=(tuple(sizes), rows.shape[1]))


@pytest.mark.parametrize("noise", NOISES)
def test_a_calibrator_counts_where_the_chunks_are(points, noise):
    labels = noisy(points, NOISES[noise])
    whole, parts = (nacp.Calibrator(noise=NOISES[noise], score="aps") for _ in range(2))
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
    }
    for sentence, call in calls.items():
        with pytest.raises(nacp.InputError, match=sentence):
            call()
    assert stream == before
    stream.update(da.zeros((0, K)), np.zeros(0, dtype=int))
    assert stream == before


def test_a_calibrator_takes_several_labels_and_names(points):
    labels = noisy(points, NOISES["uniform"])
    table = np.stack([labels, np.where(np.arange(N) % 3, -1, points[1])], axis=1)
    names = [3 * i for i in range(K)]
    for given, options in ((table, {}), (3 * labels, {"classes": names})):
        whole, parts = (nacp.Calibrator(K, noise=0.2, **options) for _ in range(2))
        whole.update(points[0], given)
        parts.update(lazy(points[0]), da.from_array(given, chunks=1100))
        assert parts == whole
