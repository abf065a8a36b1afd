"""Values that were found by `scripts/fuzz.py` and by hand: each is refused in one sentence."""

import gzip
import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app
from nacp.cli.inputs import read_matrix
from nacp.files import sealed
from tests.refusals import refusal

PROBS, LABELS = np.full((20, 4), 0.25), np.repeat(np.arange(4), 5)


@pytest.mark.parametrize(
    "given", [{"alpha": 10**400}, {"guarantee": "nacp", "delta": 10**400}, {"noise": 10**400}]
)
def test_numbers_too_large_for_a_float_are_refused(given):
    assert "must lie" in refusal(nacp.calibrate, PROBS, LABELS, **{"noise": 0.1} | given)


@pytest.mark.parametrize("returned", ["x", None, {}, [["x"] * 4] * 20])
def test_a_score_that_returns_no_numbers_is_refused(returned):
    said = refusal(nacp.calibrate, PROBS, LABELS, noise=0.1, score=lambda p: returned)
    assert "score must return numbers; found" in said or "shape" in said


@pytest.mark.parametrize("guarantee", [nacp.PAC, nacp.Binomial, nacp.NACP])
def test_a_delta_whose_inverse_overflows_is_refused(guarantee):
    """The bounds divide by delta: ZeroDivisionError before."""
    assert "and be at least 1e-300; found 5e-324" in refusal(guarantee, delta=5e-324)
    with pytest.warns(nacp.NoValidThresholdWarning, match=r"points (should|would) do"):
        nacp.calibrate(PROBS, LABELS, noise=0.1, guarantee=guarantee(delta=1e-300))


def header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


DAMAGED = {
    "a character that does not exist": np.full((20, 4), 2**31, "<u4").view("<U1"),
    "records": np.zeros((20, 4), "V8"),
    "no bytes": header("{'descr': '<U0', 'fortran_order': False, 'shape': (1099511627776, 4)}"),
    "an open bracket": header("{'descr': '<f8', 'fortran_order': False, 'shape': (20, 4"),
    "a negative shape": header("{'descr': '<f8', 'fortran_order': False, 'shape': (-5, 4)}"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_arrays_are_refused_by_every_reader(case, tmp_path, monkeypatch):
    """Before: SystemError, TypeError, MemoryError, SyntaxError and OverflowError."""
    monkeypatch.chdir(tmp_path)
    np.save("probs.npy", PROBS)
    if isinstance(DAMAGED[case], bytes):
        Path("odd.npy").write_bytes(DAMAGED[case])
    else:
        np.save("odd.npy", DAMAGED[case])
        refusal(nacp.noise_from_annotators, DAMAGED[case])
    refusal(nacp.labels.read, "odd.npy")
    calibrate, annotators = ["calibrate", "probs.npy", "odd.npy"], ["noise", "annotators", "odd.npy"]
    for words in ([*calibrate, "--noise", "0.1"], annotators):
        result = CliRunner().invoke(app, words)
        assert (result.exit_code, result.output[:14]) == (2, "Error: odd.npy"), result.output


def test_a_small_file_that_expands_to_a_large_one_is_refused(tmp_path):
    """Before: 5.6 GB and three minutes for 200 kB."""
    path = tmp_path / "votes.csv.gz"
    path.write_bytes(gzip.compress(bytes(60_000_000), 1))
    assert "expands to more than 50,000,000 bytes" in refusal(nacp.labels.read, path)
    result = CliRunner().invoke(app, ["noise", "annotators", str(path)])
    assert "expands to more than" in result.output


@pytest.mark.parametrize("lists", [False, True])
def test_a_small_parquet_file_with_many_values_is_refused(lists, tmp_path):
    """Before: 6 GB and a minute for 90 kB."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    zeros = np.zeros(7_000_000, dtype=np.int8)
    pq.write_table(pa.table({"task": [zeros] if lists else zeros}), tmp_path / "votes.parquet")
    assert "expands to more than 50,000,000 bytes" in refusal(nacp.labels.read, tmp_path / "votes.parquet")


def test_damaged_metadata_of_parquet_files_do_not_end_the_process(tmp_path, monkeypatch):
    """Before: pyarrow aborted at 18 of these files."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"probs": PROBS.tolist()}), "odd.parquet")
    whole = Path("odd.parquet").read_bytes()
    for at in range(len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), len(whole)):
        for bit in (0, 4):
            Path("odd.parquet").write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            with suppress(nacp.InputError):
                read_matrix("odd.parquet", "probs")


def test_labels_that_are_lists_are_refused():
    """Before: TypeError."""
    labels = np.empty((20, 2), dtype=object)
    labels.fill([1])
    assert "must be texts or numbers" in refusal(nacp.noise_from_annotators, labels)


@pytest.mark.parametrize(("name", "value"), [("n", 2**63), ("highest", 0.0), ("wealth", 2.0)])
def test_states_that_no_monitor_can_have_are_refused(name, value, tmp_path):
    """Before: ZeroDivisionError, and ValueError at the next update."""
    path = tmp_path / "monitor.json"
    nacp.Monitor(nacp.calibrate(PROBS, LABELS, noise=0.1, alpha=0.4, guarantee="none")).save(path)
    document = json.loads(path.read_text())
    document["state"][name] = value
    path.write_text(json.dumps(sealed(document)))
    assert "n must be at most 1,125,899,906,842,624, and highest" in refusal(nacp.Monitor.load, path)


@pytest.mark.parametrize("kind", [bool, np.uint8])
def test_the_most_probable_label_of_whole_numbers_comes_first(kind, tmp_path, monkeypatch):
    """Before: TypeError, and the least probable label first."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.eye(4, dtype=kind)[[2]])
    nacp.calibrate(np.eye(4)[LABELS], (LABELS + 1) % 4, noise=None, alpha=0.1).save("cal.json")
    result = CliRunner().invoke(app, ["predict", "cal.json", "rows.npy", "-o", "-"])
    assert json.loads(result.stdout.splitlines()[0]) == [2, 0, 1, 3], result.output


@pytest.mark.parametrize(
    ("values", "said"), [(np.zeros((9, 0)), "of shape (n, k)"), (np.array(3), "a single value")]
)
def test_arrays_without_columns_or_rows_are_refused(values, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("probs.npy", PROBS)
    np.save("odd.npy", values)
    nacp.calibrate(PROBS, LABELS, noise=0.1, alpha=0.9, guarantee="none").save("cal.json")
    odd_labels = [["evaluate", "cal.json", "probs.npy", "odd.npy"]] * (not values.ndim)
    for words in (
        ["predict", "cal.json", "odd.npy"],
        ["evaluate", "cal.json", "odd.npy", "odd.npy"],
        *odd_labels,
    ):
        result = CliRunner().invoke(app, words)
        assert (result.exit_code, said in result.output) == (2, True), result.output
