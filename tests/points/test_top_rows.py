"""`TopRows` and sparse matrices give the results of the rows written out."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

import nacp
from nacp.errors import InputError
from tests.reading import blocks_of

K, N, M = 30, 300, 8
SCORES = {
    "hps": nacp.HPS(),
    "aps": nacp.APS(),
    "aps-det": nacp.APS(randomized=False),
    "raps": nacp.RAPS(free=2),
    "saps": nacp.SAPS(),
    "margin": nacp.Margin(),
    "topk": nacp.TopK(),
}
every_score = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)


def make_probs(n=N, k=K, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.exp(2.5 * rng.standard_normal((n, k)))
    return weights / weights.sum(axis=1, keepdims=True)


def top_of(probs, m=M, dtype=np.float64):
    indices = np.argsort(-probs, axis=1)[:, :m]
    return nacp.TopRows(indices, np.take_along_axis(probs, indices, axis=1).astype(dtype), probs.shape[1])


def labels_of(probs, seed=1):
    u = np.random.default_rng(seed).random((len(probs), 1))
    return np.minimum(np.argmax(probs.cumsum(axis=1) > u, axis=1), probs.shape[1] - 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["smooth", "ties", "even"])
@every_score
def test_scores_are_those_of_the_rows_written_out(score, kind, dtype):
    probs = make_probs()
    if kind == "ties":
        probs = np.floor(probs * 64) / 64
        probs[:, 0] += 1 - probs.sum(axis=1)
    if kind == "even":
        probs = np.full((N, K), 1 / K)
    top = top_of(probs, dtype=dtype)
    whole, labels = top.toarray(), labels_of(make_probs(seed=3))
    np.testing.assert_array_equal(np.sort(top.values, axis=1), np.sort(whole, axis=1)[:, -M:])
    np.testing.assert_array_equal(np.take_along_axis(whole, top.indices, axis=1), top.values)
    np.testing.assert_allclose(whole.sum(axis=1), 1, atol=1e-6)
    assert whole.dtype == dtype
    np.testing.assert_array_equal(score.scores(top), score.scores(whole))
    np.testing.assert_array_equal(score.label_scores(top, labels), score.label_scores(whole, labels))


def test_a_sparse_matrix_is_rows_whose_other_entries_are_zero():
    probs = np.where(make_probs() < 0.02, 0, make_probs())
    probs /= probs.sum(axis=1, keepdims=True)
    labels = labels_of(probs)
    for score in ("hps", "raps"):
        found, same = (
            nacp.calibrate(rows, labels, noise=0.1, score=score)
            for rows in (scipy.sparse.csr_array(probs), probs)
        )
        assert found.threshold == same.threshold
        sets = found.predict_set(scipy.sparse.coo_matrix(probs))
        np.testing.assert_array_equal(np.asarray(sets), np.asarray(same.predict_set(probs)))


@pytest.mark.parametrize("score", ["hps", "aps"])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_written_out_some_at_a_time(score, sparse):
    """300 rows of 20,000 classes: 24 MB."""
    k, n, rng = 20_000, 300, np.random.default_rng(0)
    indices = rng.integers(k // 5, size=(n, 5)) + np.arange(5) * (k // 5)
    values = np.maximum(np.sort(rng.dirichlet(np.ones(5), size=n) * 0.98, axis=1), 1e-4).astype(np.float32)
    rows, labels = nacp.TopRows(indices, values, k), indices[:, -1]
    if sparse:
        values /= values.sum(axis=1, keepdims=True)
        rows = scipy.sparse.csr_array((values.ravel(), indices.ravel(), np.arange(0, 5 * n + 1, 5)), (n, k))
    tracemalloc.start()
    with blocks_of(1 << 16):
        nacp.calibrate(rows, labels, noise=None, score=score).predict_set(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


@pytest.mark.parametrize(
    ("parts", "argument"),
    [
        (([0, 1], [0.5, 0.5], 9), "indices"),
        (([[0.0, 1.0]], [[0.5, 0.25]], 9), "indices"),
        (([[0, 0]], [[0.5, 0.25]], 9), "indices"),
        (([[0, 2**32 + 1]], [[0.5, 0.25]], 9), "indices"),
        (([[0, 1], [2]], [[0.5, 0.25]], 9), "indices"),
        (([[0, 1]], [[0.5, 0.25]], 2), "k"),
        (([[0, 1]], [[0.5]], 9), "values"),
        (([[0, 1]], [[0.5, np.nan]], 9), "values"),
        (([[0, 1], [2, 3]], [[0.5, 0.25], [0.5, np.nan]], 9), "values"),
        (([[0, 1]], [[0.75, 0.75]], 9), "values"),
        (([[0, 1]], [[0.5, 0.01]], 9), "values"),
        ((np.empty((3, 0), dtype=int), np.empty((3, 0)), 9), "indices"),
    ],
)
def test_what_is_not_top_entries_is_refused(parts, argument):
    with pytest.raises(InputError) as caught:
        nacp.TopRows(*parts)
    assert caught.value.argument == argument
    assert "nan" not in str(parts) or f"row {len(parts[0]) - 1} holds nan" in str(caught.value)


def test_what_is_missing_by_rounding_makes_no_entry_larger_than_those_that_are_kept():
    top = nacp.TopRows([[0, 1]], np.array([[1 - 1e-6, 1e-9]], dtype=np.float32), k=5)
    assert (top.toarray()[0, 1:] == top.values[0, 1]).all()


def test_rows_may_be_picked():
    top = top_of(make_probs())
    for rows in (slice(7, 90, 2), np.array([5, 3, 5])):
        picked = top[rows]
        assert len(picked) == len(np.asarray(top)[rows])
        np.testing.assert_array_equal(np.asarray(picked), np.asarray(top)[rows])
    with pytest.raises(InputError, match="rows must be a slice or an array"):
        top[3]


def test_what_needs_all_entries_says_so():
    top, labels = top_of(make_probs()), labels_of(make_probs())
    for options in ({"normalize": True}, {"from_logits": True}, {"score": "precomputed"}):
        with pytest.raises(InputError, match=r"must (be whole rows|hold all scores).*pass probs.toarray"):
            nacp.calibrate(top, labels, noise=0.1, **options)
    cal = nacp.calibrate(top, labels, noise=0.1, alpha=0.3)
    with pytest.raises(InputError, match="made with 30 classes"):
        cal.predict_set(top_of(make_probs(k=20)))
    with pytest.raises(InputError, match="is float32, but the calibration was made with float64"):
        cal.predict_set(top_of(make_probs(), dtype=np.float32))
