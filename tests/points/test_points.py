"""Rows are checked when they are opened, and are the same in blocks of any size, on any number of threads."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

from nacp import engine
from nacp.errors import InputError
from nacp.points import TopRows, arrays, open_rows
from tests.reading import blocks_of, on_threads

N, K = 200, 7
PROBS = np.random.default_rng(0).dirichlet(np.ones(K), size=N)


def together(rows, order=None):
    return np.concatenate(list(rows.map(lambda block, _: np.array(block), order)))


@pytest.fixture(params=[1, 3])
def threads(request):
    """Share blocks out to threads, as the compiled engine does."""
    pytest.importorskip("nacp.engine._native", reason="the compiled engine was not built")
    with engine.using("native"), on_threads(request.param):
        yield


WAYS = {
    "float64": (PROBS, {}),
    "float32": (PROBS.astype(np.float32), {}),
    "float16": (PROBS.astype(np.float16), {}),
    "big-endian": (PROBS.astype(">f8"), {}),
    "columns": (np.asfortranarray(PROBS), {}),
    "normalized": (3 * PROBS, {"normalize": True}),
    "logits": (np.log(PROBS) - 2, {"from_logits": True}),
    "sparse": (scipy.sparse.coo_array(np.eye(K)[np.arange(N) % K]), {}),
    "top": (TopRows(np.argsort(-PROBS)[:, :3], -np.sort(-PROBS)[:, :3], K), {}),
    "rounded": (PROBS, {"widths": arrays.Widths("float32", "float32")}),
}


@pytest.mark.parametrize("way", WAYS)
def test_blocks_of_any_size_hold_the_same_rows(way, threads):
    probs, options = WAYS[way]
    whole = open_rows(probs, **options)[slice(0, N)]
    assert whole.dtype in (np.float32, np.float64)
    assert np.allclose(whole.sum(axis=1), 1, atol=2e-3)
    order = np.random.default_rng(1).permutation(N)
    for entries in (1, 5 * K, 10**6):
        with blocks_of(entries):
            rows = open_rows(probs, **options)
            assert all(block.flags.c_contiguous for block in rows.map(lambda block, _: block))
            assert np.array_equal(together(rows), whole)
            assert np.array_equal(together(rows, order), whole[order])
            some = rows.some(order[:50])
            assert (some.n, some.widths) == (50, rows.widths)
            assert np.array_equal(together(some), whole[order[:50]])
            assert np.array_equal(together(some.some(np.array([3, 1]))), whole[order[[3, 1]]])


@pytest.mark.parametrize("number", ["3", "many"])
def test_threads_may_be_set_and_survive_a_fork(number):
    code = """
import os, sys
import nacp, numpy as np
labels = np.arange(20_000) % 100
probs = np.random.default_rng(0).random((len(labels), 100)) + 9 * np.eye(100)[labels]
calibrate = lambda: nacp.calibrate(probs, labels, noise=0.01, normalize=True, guarantee="none").threshold
found = calibrate()
child = os.fork()
if child == 0:
    os._exit(int(calibrate() != found))
sys.exit(os.waitpid(child, 0)[1])
"""
    env = {"NACP_THREADS": number, "PYTHONPATH": ":".join(sys.path), "PATH": ""}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    refused = "must be a whole number from 1 on, not 'many'" in ended.stderr
    assert (ended.returncode != 0) == refused == (number == "many"), ended.stderr


# What is wrong with rows


def sentence(probs, **options):
    with pytest.raises(InputError) as caught:
        open_rows(probs, **options)
    return str(caught.value)


@pytest.mark.parametrize("width", [np.float32, np.float64])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_row_near_the_tolerance_is_refused_with_its_sum(width, sign):
    rng, n = np.random.default_rng(2), 400
    probs = rng.dirichlet(np.ones(1000), size=n) * (1 + sign * (1e-3 + rng.uniform(-1e-7, 1e-7, size=(n, 1))))
    refused = []
    for row in probs.astype(width):
        try:
            open_rows(row[None])
        except InputError as error:
            refused.append(str(error))
    assert 0 < len(refused) < n
    assert all("must have rows that sum to 1; row 0 sums to" in message for message in refused)


def test_sentences_do_not_depend_on_blocks_and_threads(threads):
    probs = PROBS.copy()
    probs[120] *= 0.5
    probs[150, 2] = np.nan
    probs[170, 0] = -1
    assert "holds NaN, first in row 150" in sentence(probs)
    with blocks_of(5 * K):
        assert "row 120 sums to 0.5" in sentence(probs)
        assert "row 1120 sums to 0.5" in sentence(probs, start=1000)
        assert "holds NaN, first in row 150" in sentence(probs, probabilities=False)
        assert "holds NaN, first in row 150" in sentence(probs, from_logits=True)


def test_numbers_of_16_bits_are_recognised_row_by_row(threads):
    """A row is taken, or not, whichever rows come with it."""
    k = 4000
    rng = np.random.default_rng(3)
    weights = np.exp(rng.normal(size=(30, k)))
    probs = weights / weights.sum(axis=1, keepdims=True)
    rough = (probs.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)  # as bfloat16 cut off
    assert np.abs(rough.sum(axis=1) - 1).min() > 1e-3
    mixed = np.concatenate([rough, probs.astype(np.float32)])
    for entries in (k, 10 * k, 10**7):
        with blocks_of(entries):
            assert open_rows(mixed).n == 60
            assert "row 3 sums to" in sentence(np.where(np.arange(60)[:, None] == 3, mixed * 0.9, mixed))


def test_logits_that_are_probabilities_are_refused():
    assert "must hold logits" in sentence(PROBS, from_logits=True)
    assert open_rows(np.concatenate([PROBS, np.log(PROBS)]), from_logits=True).n == 2 * N
    assert open_rows(PROBS[:0], from_logits=True, least=0).n == 0


def test_a_mapped_file_that_was_cut_is_refused(tmp_path):
    np.save(tmp_path / "probs.npy", PROBS)
    mapped = np.load(tmp_path / "probs.npy", mmap_mode="r")
    with blocks_of(5 * K):
        rows = open_rows(mapped)
        assert np.array_equal(together(rows), PROBS)
        with open(tmp_path / "probs.npy", "r+b") as file:
            file.truncate(100 * K * 8)
        with pytest.raises(InputError, match=r"probs\.npy has changed since it was opened; open it again"):
            together(rows)
        with pytest.raises(InputError, match="has changed"):
            open_rows(mapped[150:])
