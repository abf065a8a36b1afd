"""What SECURITY.md promises, line by line."""

import csv
import json
import os
import pickle
import re
import socket
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app
from nacp.estimation import load as load_noise
from nacp.labels import read as read_labels

K, N = 4, 40
LABELS = np.repeat(np.arange(K), N // K)
PROBS = 0.25 + np.random.default_rng(0).random((N, K)) / 100
PROBS /= PROBS.sum(axis=1, keepdims=True)
EVIL = ["=HYPERLINK(1)", "@SUM(1)", "\x1b[2Jred", "<script>alert(1)</script>"]
ESCAPES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("probs.npy", PROBS)
    np.save("labels.npy", LABELS)
    named = {"probs": PROBS, "labels": np.array(EVIL)[LABELS]}
    np.savez("named.npz", **named)
    Path("classes.json").write_text(json.dumps(EVIL))
    cal = nacp.calibrate(PROBS, named["labels"], noise=0.1, alpha=0.4, guarantee="none", classes=EVIL)
    cal.save("cal.json")
    return tmp_path


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


def test_nothing_in_a_file_is_unpickled(folder):
    payload = Payload(folder / "ran")
    pickle.loads(pickle.dumps(Payload(folder / "works")))
    assert (folder / "works").exists()
    objects = np.array([payload] * N, dtype=object)
    np.save("odd.npy", objects, allow_pickle=True)
    np.savez("odd.npz", probs=PROBS, labels=objects)
    Path("odd.json").write_bytes(pickle.dumps(payload))
    for words in (
        ["calibrate", "probs.npy", "odd.npy", "--noise", 0.1],
        ["calibrate", "odd.npz", "odd.npz", "--noise", 0.1],
        ["predict", "odd.json", "probs.npy"],
        ["noise", "annotators", "--labels", "odd.npy"],
    ):
        run(*words, code=2)
    for read in (nacp.load, load_noise, nacp.Monitor.load, nacp.Calibrator.load, read_labels):
        for name in ("odd.json", "odd.npy"):
            with pytest.raises(nacp.InputError):
                read(name)
    assert not (folder / "ran").exists()


def test_no_connection_is_opened(folder, monkeypatch):
    def refuse(*_):
        raise AssertionError("a connection was opened")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    points = ["probs.npy", "labels.npy", "--noise", 0.1, "--alpha", 0.4]
    run("calibrate", *points, "--guarantee", "none", "--out", "c.json")
    run("predict", "c.json", "probs.npy", "-o", "sets.jsonl")
    run("report", *points, "--out", "r.html")
    page = Path("r.html").read_text(encoding="utf-8")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"https?:", policy)


def test_names_from_files_cannot_add_html(folder):
    points = ["named.npz", "named.npz", "--classes", "classes.json", "--noise", 0.1, "--alpha", 0.4]
    run("report", *points, "--out", "r.html")
    cal = nacp.load("cal.json")
    for page in (
        Path("r.html").read_text(encoding="utf-8"),
        cal._repr_html_(),
        cal.predict_set(PROBS)._repr_html_(),
    ):
        assert "alert(1)" not in page.replace("&lt;script&gt;alert(1)&lt;/script&gt;", "").replace(
            "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e", ""
        )


def test_a_saved_calibration_holds_no_rows_and_no_labels(folder):
    """The file is as long for 4,000 points as for 40."""
    sizes = []
    for times in (1, 100):
        probs = np.random.default_rng(0).dirichlet(np.ones(K), size=N * times)
        cal = nacp.calibrate(probs, probs.argmax(axis=1), noise=None, alpha=0.4)
        cal.save("c.json")
        sizes.append(len(Path("c.json").read_bytes()))
    assert abs(sizes[0] - sizes[1]) < 100


def test_terminal_escapes_in_names_do_not_reach_the_terminal(folder):
    points = ["named.npz", "named.npz", "--classes", "classes.json", "--noise", 0.1, "--alpha", 0.4]
    for words in (
        ["calibrate", *points],
        ["calibrate", *points, "--json"],
        ["calibrate", *points, "--by", "class", "--small", "merge"],
        ["predict", "cal.json", "probs.npy"],
        ["evaluate", "cal.json", "named.npz", "named.npz"],
        ["diagnose", "cal.json", "named.npz", "named.npz"],
        ["compare", *points],
    ):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code in (0, 1, 2, 3), result.output
        assert not ESCAPES.search(result.output), (words, result.output)


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_cells_that_a_spreadsheet_would_execute_are_quoted(folder, ending):
    run("predict", "cal.json", "probs.npy", "-o", f"sets.{ending}")
    with open(f"sets.{ending}", encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file, delimiter="\t" if ending == "tsv" else ",") for cell in row]
    assert "'=HYPERLINK(1)" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_the_table_of_an_audit_has_no_cell_that_a_spreadsheet_would_execute(folder):
    points = ["named.npz", "named.npz", "--classes", "classes.json"]
    run("audit", "choose", *points, "--budget", 20, "-o", "plan.csv")
    with open("plan.csv", encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
