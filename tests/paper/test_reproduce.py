"""`nacp reproduce`: the printed numbers, the committed results, and how a run behaves."""

import csv
import math
import re
from contextlib import contextmanager

import numpy as np
import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app
from nacp.cli import reproduce as reproducing
from nacp.guarantees.crcp import crcp_correction
from nacp.guarantees.nacp import nacp_correction
from nacp.paper import corrections, experiments, figures, printed, twins
from nacp.paper.experiments import EXPERIMENTS, Experiment, Run, run_experiment
from nacp.paper.reproduce import NAMES, reproduce
from nacp.paper.sources import folder_sources


def small_file(folder, name, **more):
    probs, labels = twins.simulate("cifar10", n=400, random_state=1)
    np.savez(folder / f"{name}.npz", probs=probs, labels=labels, **more)
    return probs, labels


@pytest.fixture(autouse=True)
def tables_only(monkeypatch):
    """Draw no figures, which takes longer than all the rest; `with_figures` does."""
    monkeypatch.setattr(figures, "available", lambda: False)


@pytest.fixture
def with_figures(monkeypatch, tables_only):
    monkeypatch.setattr(figures, "available", lambda: True)


@pytest.fixture
def folder(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    return data


def run_command(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def read_csv(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


# The printed numbers.


@pytest.mark.parametrize("data", printed.TABLE1)
@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_nacp_and_crcp_corrections_are_those_of_table_2_to_the_printed_digits(data, rate):
    row = printed.CORRECTIONS[data]
    even = np.full(row.k, 1 / row.k)
    ours = {
        "NACP": nacp_correction(row.n, rate, 0.001),
        "CRCP": crcp_correction(row.n, nacp.UniformNoise(rate).inverse(row.k), even),
    }
    for method, value in ours.items():
        if (data, method, rate) in printed.CORRECTION_DOUBTS:
            assert (
                f"{math.floor(1000 * value) / 1000:.3f}" == row.corrections[method, rate]
            )  # cut, not rounded
        else:
            assert f"{value:.3f}" == row.corrections[method, rate]
    assert len(printed.CORRECTION_DOUBTS) == 1


@pytest.mark.slow
def test_acnl_corrections_of_table_2_are_those_of_class_counts_that_occur(tmp_path):
    """ACNL depends on the rarest class of the split; the printed values lie within what splits give."""
    text, _ = reproduce("table2", Run(splits=60), tmp_path)
    assert all("simulated twin" in line for line in text.splitlines() if line.startswith("#"))
    assert "simulated twins of the paper's classifiers" in text
    rows = [row for row in read_csv(tmp_path / "table2.csv") if row["method"] == "ACNL"]
    assert len(rows) == 8
    for row in rows:
        value, sd = float(row["correction"]), float(row["correction_sd"])
        assert abs(float(row["paper_correction"]) - value) < 3 * sd + 0.0005


def test_figure_1_does_not_depend_on_k_for_nacp_and_does_for_the_others(monkeypatch):
    monkeypatch.setattr(corrections, "FIGURE1_SIZES", (1000, 10_000, 100_000))
    monkeypatch.setattr(corrections, "FIGURE1_DRAWS", 10)
    at = {(row.method, row.k, row.n): row.correction for row in corrections.figure1(Run())}
    for n in (1000, 10_000, 100_000):
        assert at["NACP", 10, n] == at["NACP", 100, n] == at["NACP", 1000, n]
        assert at["CRCP", 10, n] < at["CRCP", 100, n] < at["CRCP", 1000, n]
        assert at["ACNL", 10, n] < at["ACNL", 100, n] < at["ACNL", 1000, n]
    assert at["ACNL", 1000, 1000] == math.inf  # some class has no label


# Twins, a few splits.


@pytest.mark.slow
@pytest.mark.parametrize("data", ["cifar10", "tinyimagenet"])
def test_cells_that_no_network_could_change(data, tmp_path):
    """Noisy-CP at k (0.9 - 0.8 F^c)/0.2, NR-CP at the target, full sets if the correction exceeds 0.1."""
    run = Run(splits=20)
    settings = [s for s in experiments.table1(run).settings if s.source.name == data and s.score != "raps"]
    rows = run_experiment(Experiment("Some", settings), run)
    assert len(rows) == 2 * 6
    for row in rows:
        n, k = row.n, row.k
        if row.method == "Noisy-CP":
            size = k * (0.9 - 0.8 * row.coverage / 100) / 0.2
            assert abs(row.size - size) < 4 * k * math.sqrt(2.25 / n / run.splits)
        if row.method == "NR-CP":
            assert abs(row.coverage - 90) < 4 * 100 * math.sqrt(0.405 / n / run.splits)
        if row.correction > 0.1:
            assert row.moments == ((k, 0), (100, 0))
        if row.method == "NACP":
            assert row.below == 0


# How a run behaves.


@pytest.mark.slow
@pytest.mark.usefixtures("with_figures")
def test_the_same_seed_gives_the_same_bytes(folder, tmp_path):
    small_file(folder, "some")
    for name in ("table2", "figure1", "sweep-size"):
        endings = [".md", ".csv", *[".png", ".svg"] * (name != "table2")]
        made = {out: reproduce(name, Run(folder, 3), tmp_path / out)[1] for out in ("one", "two")}
        assert [path.suffix for path in made["one"]] == endings
        for one, two in zip(*made.values(), strict=True):
            assert one.read_bytes() == two.read_bytes(), one.name
    reproduce("table2", Run(folder, 3, seed=1), tmp_path / "other")
    assert (tmp_path / "other" / "table2.csv").read_bytes() != (tmp_path / "one" / "table2.csv").read_bytes()


@pytest.mark.parametrize("what", ["all", "table3"])
def test_table_3_needs_imagenet(folder, tmp_path, monkeypatch, what):
    monkeypatch.setattr(reproducing, "NAMES", ("table2", "table3"))
    small_file(folder, "some")
    result = run_command(what, "--data", folder, "--splits", 2, "--out", tmp_path)
    assert "Table 3 is about ImageNet" in result.stderr
    assert result.exit_code == (0 if what == "all" else 2)
    assert [path.stem for path in tmp_path.glob("*.md")] == (["table2"] if what == "all" else [])


@pytest.mark.slow
def test_everything_is_made_from_one_file_and_progress_grows_until_all_is_done(folder, tmp_path, monkeypatch):
    small_file(folder, "imagenet")
    bars = []

    @contextmanager
    def progress_of(name, total):
        bars.append((total, done := [0]))
        yield lambda now: done.append(now) if isinstance(now, int) else None

    monkeypatch.setattr(reproducing, "progress_of", progress_of)
    assert run_command("all", "--data", folder, "--splits", 3, "--out", tmp_path).exit_code == 0
    assert {path.stem for path in tmp_path.glob("*.md")} == set(NAMES)
    settings = [setting for make in EXPERIMENTS.values() for setting in make(Run(folder, 3)).settings]
    assert sum(total for total, _ in bars) == 3 * len(settings)
    for total, done in bars:
        assert done == sorted(done)
        assert done[-1] == total


TITLES = {
    "table1": "Table 1: data sets, scores and methods (data: data)\n",
    "table2": "Table 2: the corrections (data: data)\n",
    "figure1": "Figure 1: the corrections against the number of calibration points",
    "sweep-matrix": "Beyond the paper: noise that is not uniform, HPS (data: data)\n",
}


def test_files_have_titles_and_the_same_ids_and_the_difference_from_the_paper(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(corrections, "FIGURE1_DRAWS", 2)
    small_file(folder, "cifar10")
    for name in ("table1", "table2", "figure1", "sweep-matrix"):
        text, _ = reproduce(name, Run(folder, 3), tmp_path)
        assert text.startswith(f"# {TITLES[name]}")
        assert ("not the paper's networks" in text) == (name == "table1")
        rows = read_csv(tmp_path / f"{name}.csv")
        ids = ["data", "simulated", "n", "k", "rate", "setting", "score", "method"]
        assert list(rows[0])[:8] == ids
        assert len({tuple(row[i] for i in ids) for row in rows}) == len(rows)
    table1 = read_csv(tmp_path / "table1.csv")
    assert "paper_size" in table1[0]
    assert "size_diff_sd" not in table1[0]  # not the paper's network
    twin = experiments.table1(Run(splits=3)).settings[0]
    experiment = Experiment("Some", [twin], versus_paper=True)
    for row in run_experiment(experiment, Run(splits=3)):
        spread = math.hypot(row.size_sd, row.paper_size_sd)
        assert row.size_diff_sd * spread == pytest.approx(row.size - row.paper_size)
        spread = math.hypot(row.coverage_sd, row.paper_coverage_sd)
        assert row.coverage_diff_sd * spread == pytest.approx(row.coverage - row.paper_coverage)


def test_labels_that_people_gave_are_used_as_they_are(folder, tmp_path):
    """With clean labels as "noisy" ones and next to no noise in the matrix, NR-CP is nearly the oracle."""
    _, labels = small_file(folder, "other")
    small_file(
        folder,
        "some",
        noisy_labels_kind=labels,
        noise_matrix_kind=0.999999 * np.eye(10) + 1e-7,
        noise_matrix=np.eye(10),
    )
    run = Run(folder, 3)
    settings = experiments.sweep_matrix(run).settings
    assert [s.human for s in settings if s.source.name == "some"] == [None, None, "kind", None]
    experiment = Experiment("Some", [s for s in settings if s.human])
    by_method = {row.method: row for row in run_experiment(experiment, run)}
    assert by_method["NR-CP"].size == pytest.approx(by_method["CP (oracle)"].size, abs=0.05)
    assert by_method["Noisy-CP"].size == by_method["CP (oracle)"].size


def test_without_matplotlib_there_are_tables_and_one_sentence(folder, tmp_path):
    small_file(folder, "imagenet")
    result = run_command("table3", "--data", folder, "--splits", 2, "--out", tmp_path)
    assert result.exit_code == 0
    assert result.stderr.strip().splitlines() == [
        "No figures were drawn: matplotlib is not installed (pip install 'nacp[plot]')."
    ]
    assert sorted(p.suffix for p in tmp_path.glob("table3.*")) == [".csv", ".md"]


def test_bad_data_get_one_sentence(folder, tmp_path):
    def sentence(*arguments):
        result = run_command(*arguments, "--data", folder, "--splits", 2, "--out", tmp_path / "out")
        assert result.exit_code == 2
        (line,) = result.stderr.strip().splitlines()
        return line

    def refused(**arrays):
        np.savez(folder / "bad.npz", **arrays)
        return sentence("all").partition("bad.npz: ")[2]

    assert "holds no .npz files" in sentence("all")
    small_file(folder, "some")
    (folder / "bad.npz").write_bytes(b"not a zip")
    assert "bad.npz cannot be read as .npz" in sentence("table1")
    sharp, labels = np.eye(4) * 0.6 + 0.1, np.arange(4)
    assert "sum" in refused(probs=sharp + 0.1, labels=labels)
    assert "labels" in refused(probs=sharp, labels=labels + 1)
    assert "row" in refused(probs=sharp[:1], labels=labels[:1])
    assert "singular" in refused(probs=sharp, labels=labels, noise_matrix=np.full((4, 4), 0.25))
    assert "4" in refused(probs=sharp, labels=labels, noise_matrix=np.eye(3))
    assert refused(probs=sharp, labels=np.array([None] * 4))
    (folder / "bad.npz").unlink()
    folder = folder / "missing"
    assert "is not a folder" in sentence("table2")
    assert run_command("table9").exit_code == 2


def test_a_file_without_probs_or_labels_is_reported_and_left_out(folder, tmp_path):
    np.savez(folder / "odd.npz", probs=np.eye(3))
    options = ("table2", "--data", folder, "--splits", 2, "--out", tmp_path)
    told, error = run_command(*options).stderr.strip().splitlines()
    assert told == f"{folder / 'odd.npz'} holds no labels: left out."
    assert error == f"Error: {folder} holds no .npz files with probs and labels"
    small_file(folder, "some")
    np.savez(folder / "other.npz", something=np.eye(3))
    result = run_command(*options)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[:2] == [
        told,
        f"{folder / 'other.npz'} holds no probs and no labels: left out.",
    ]
    assert [row["data"] for row in read_csv(tmp_path / "table2.csv")] == ["some"] * 6


def test_known_names_come_first(folder):
    for name in ("zebra", "imagenet", "cifar10", "apple"):
        small_file(folder, name)
    assert [source.name for source in folder_sources(folder)] == ["cifar10", "imagenet", "apple", "zebra"]


@pytest.mark.usefixtures("with_figures")
def test_names_of_files_do_not_break_a_table(folder, tmp_path):
    """Nor do those of human labels: letters that Markdown or a figure would take for commands."""
    name = r"a_b%c&d#e$f{g}h^i~j\k|l"
    small_file(folder, name, **{f"noise_matrix_{name}": np.eye(10)})
    text, _ = reproduce("sweep-matrix", Run(folder, 2), tmp_path)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
