"""`nacp reproduce`: the printed numbers, the committed results, and how a run behaves."""

import csv
import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from rich.progress import Progress
from typer.testing import CliRunner

import nacp
from nacp.cli import app
from nacp.cli import reproduce as reproducing
from nacp.guarantees.crcp import crcp_correction
from nacp.guarantees.nacp import nacp_correction
from nacp.paper import experiments, figures, printed, twins
from nacp.paper.corrections import figure1, table2
from nacp.paper.experiments import Experiment, Run
from nacp.paper.reproduce import NAMES, reproduce
from nacp.paper.results import SHOWS, Moments, cell, code_digest, results_of, run_experiment
from nacp.paper.sheets import Sheet, to_latex
from nacp.paper.sources import folder_sources
from nacp.paper.tables import deviation, splits_sheet

DOCS = Path(__file__).parents[2] / "docs" / "reproduction"


def small_file(folder, name, **more):
    probs, labels = twins.simulate("cifar10", n=400, random_state=1)
    np.savez(folder / f"{name}.npz", probs=probs, labels=labels, **more)
    return probs, labels


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


def test_acnl_corrections_of_table_2_are_those_of_class_counts_that_occur():
    """ACNL depends on the rarest class of the split; the printed values lie within what splits give."""
    rows = [row for row in table2(Run(splits=300)) if row.method == "ACNL"]
    assert len(rows) == 8
    for row in rows:
        assert abs(float(row.printed) - row.value.mean) < 3 * row.value.sd + 0.0005


def test_the_corrections_say_which_printed_sets_hold_all_classes():
    for data in printed.TABLE1:
        for method in ("ACNL", "CRCP", "NACP"):
            correction = float(printed.CORRECTIONS[data].corrections[method, 0.2])
            for score in printed.SCORES:
                full = printed.CELLS[data, score, method].size.mean == twins.TWINS[data].k
                assert full == (correction > 0.1)
    assert len(printed.CELLS) == 7 * 3 * 6


def test_figure_1_does_not_depend_on_k_for_nacp_and_does_for_the_others():
    rows = figure1(Run())
    at = {(row.method, row.k, row.n): row.value.mean for row in rows}
    for n in (1000, 10_000, 100_000):
        assert at["NACP", 10, n] == at["NACP", 100, n] == at["NACP", 1000, n]
        assert at["CRCP", 10, n] < at["CRCP", 100, n] < at["CRCP", 1000, n]
        assert at["ACNL", 10, n] < at["ACNL", 100, n] < at["ACNL", 1000, n]
    assert at["ACNL", 1000, 1000] == math.inf  # some class has no label


def test_deviations_are_given_where_they_mean_something():
    paper = printed.Printed(10.0, 0.3, 0.05)
    assert deviation(Moments(10.04, 0.4), paper) == "="
    assert deviation(Moments(11.0, 0.4), paper) == "+2.0"
    assert deviation(Moments(11.0, 0.0), printed.Printed(10.0, 0.0, 0.05)) == "≠"


def flip_rates(shift, size, coverage, k):
    """Return which realised rates of flips give a printed size and coverage, up to the last digit of both.

    With a rate r, F^n = (1 - r) F^c + r F^r. Noisy-CP puts F^n at 0.9, and NR-CP F^n - 0.2 F^r at 0.72.
    """
    rates = []
    for s in (size.mean - size.rounding, size.mean + size.rounding):
        for f in (coverage.mean - coverage.rounding, coverage.mean + coverage.rounding):
            random, clean = s / k, f / 100
            rates.append((clean - 0.9 + shift * (0.18 - 0.2 * random)) / (clean - random))
    return min(rates), max(rates)


@pytest.mark.parametrize("data", twins.TWINS)
@pytest.mark.parametrize("score", printed.SCORES)
def test_printed_sizes_and_coverages_of_noisy_cp_fit_a_rate_of_flips_that_occurs(data, score):
    """One draw of flips for all splits has a rate with a standard deviation of sqrt(0.2 * 0.8 / N)."""
    twin, cell = twins.TWINS[data], printed.CELLS[data, score, "Noisy-CP"]
    low, high = flip_rates(0, *cell, twin.k)
    usual = 2 * math.sqrt(0.2 * 0.8 / twin.size)
    assert low < 0.2 + usual
    assert high > 0.2 - usual


def test_one_rate_of_flips_below_a_fifth_fits_all_that_is_printed_for_tiny_imagenet():
    """In two rows and three scores. With a fifth, Noisy-CP's sizes and coverages contradict each other."""
    rows = ((0, "Noisy-CP"), (1, "NR-CP"))
    lows, highs = zip(
        *(
            flip_rates(shift, *printed.CELLS["tinyimagenet", score, method], 200)
            for shift, method in rows
            for score in printed.SCORES
        ),
        strict=True,
    )
    assert 0.193 < max(lows) < min(highs) < 0.195


# Twins, a few splits.


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "tinyimagenet"])
def test_the_draw_of_a_twin_is_the_most_ordinary_of_ten(name):
    """Its oracle sizes are nearest to their means over the draws. The paper has no part in that."""
    sizes = np.empty((10, 3))
    for draw in range(10):
        probs, labels = twins.simulate(name, random_state=draw)
        for j, score in enumerate(printed.SCORES):
            cal = nacp.calibrate(probs, labels, noise=None, alpha=0.1, score=score)
            sizes[draw, j] = cal.predict_set(probs).sizes.mean()
    assert ((sizes / sizes.mean(axis=0) - 1) ** 2).sum(axis=1).argmin() == twins.TWINS[name].draw


@pytest.mark.parametrize("data", ["cifar10", "tinyimagenet"])
def test_cells_that_no_network_could_change(data, tmp_path):
    """Noisy-CP at k (0.9 - 0.8 F^c)/0.2, NR-CP at the target, full sets if the correction exceeds 0.1."""
    run = Run(splits=60)
    settings = [s for s in experiments.table1(run).settings if s.source.name == data and s.score != "raps"]
    records = run_experiment(Experiment("some", "Some", settings), run, tmp_path)
    assert len(records) == 2 * 6
    for record in records:
        n, k = record.n, record.k
        if record.method == "Noisy-CP":
            size = k * (0.9 - 0.8 * record.coverage.mean / 100) / 0.2
            assert abs(record.size.mean - size) < 4 * k * math.sqrt(2.25 / n / run.splits)
        if record.method == "NR-CP":
            assert abs(record.coverage.mean - 90) < 4 * 100 * math.sqrt(0.405 / n / run.splits)
        if record.correction > 0.1:
            assert record.size == (k, 0)
            assert record.coverage == (100, 0)
        if record.method == "NACP":
            assert record.below == 0


def test_noise_drawn_once_is_the_same_for_all_splits():
    labels = np.arange(5000) % 10
    once = Run(noise_per="dataset")
    drawn = once.fixed_noise(labels, 10, nacp.UniformNoise(0.2))
    np.testing.assert_array_equal(drawn, once.fixed_noise(labels, 10, nacp.UniformNoise(0.2)))
    # 0.2 * 9/10 of the labels change.
    assert abs(np.mean(drawn != labels) - 0.18) < 4 * math.sqrt(0.18 * 0.82 / 5000)
    assert Run().fixed_noise(labels, 10, nacp.UniformNoise(0.2)) is None


# How a run behaves.


def test_the_same_seed_gives_the_same_bytes(folder, tmp_path):
    small_file(folder, "imagenet")
    for out in ("one", "two"):
        options = ("--data", folder, "--splits", 3, "--out", tmp_path / out)
        assert run_command("all", *options).exit_code == 0
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file())
    assert {"table1.md", "table1.csv", "table1.tex", "figure1.png", "figure1.svg"} <= set(map(str, files))
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file
    reproduce("table1", Run(folder, 3, seed=1), tmp_path / "other")
    assert (tmp_path / "other" / "table1.csv").read_bytes() != (tmp_path / "one" / "table1.csv").read_bytes()


def test_an_interrupted_run_goes_on_where_it_stopped(folder, tmp_path):
    small_file(folder, "some")
    run, cells = Run(folder, 3), tmp_path / "out" / "cells"
    first, second, third = experiments.table1(run).settings
    for setting in (first, second):
        results_of(setting, run, cells)

    def interrupted(title, splits):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        results_of(third, run, cells, interrupted)
    finished = {path: path.stat().st_mtime_ns for path in cells.iterdir()}
    assert set(finished) == {cell(setting, run, cells)[0] for setting in (first, second)}
    resumed, _ = reproduce("table1", run, tmp_path / "out")
    assert len(list(cells.iterdir())) == 3
    assert all(path.stat().st_mtime_ns == written for path, written in finished.items())
    whole, _ = reproduce("table1", run, tmp_path / "other")
    assert resumed == whole


def test_a_damaged_cell_and_other_data_are_computed_anew(folder, tmp_path):
    small_file(folder, "some")
    first, _ = reproduce("table1", Run(folder, 3), tmp_path)
    cell = next((tmp_path / "cells").iterdir())
    cell.write_bytes(cell.read_bytes()[:100])
    assert reproduce("table1", Run(folder, 3), tmp_path)[0] == first
    probs, labels = twins.simulate("cifar10", n=400, random_state=2)
    before = read_csv(tmp_path / "table1.csv")
    np.savez(folder / "some.npz", probs=probs, labels=labels)
    reproduce("table1", Run(folder, 3), tmp_path)
    assert [row["size"] for row in read_csv(tmp_path / "table1.csv")] != [row["size"] for row in before]


def test_results_are_kept_only_for_the_code_that_made_them(tmp_path):
    def digest(changed=None):
        """Of a copy of the package in which a file was changed, or added."""
        package = tmp_path / str(changed).replace("/", "-")
        shutil.copytree(Path(nacp.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
        if changed:
            with (package / changed).open("a") as source:
                source.write("# changed\n")
        return code_digest(package)

    package = Path(nacp.__file__).parent
    assert all((package / shown).exists() for shown in SHOWS)
    same = digest()
    assert same == code_digest(package)
    for shown in ("cli/inputs.py", "show/style.py", "paper/tables.py"):
        assert digest(shown) == same
    others = ("paper/splits.py", "calibration.py", "engine/more.c", "data/more.txt")
    assert len({same, *map(digest, others)}) == 5


def test_results_are_kept_only_for_the_same_versions_seed_and_methods(tmp_path):
    run = Run(splits=3)
    setting = experiments.table1(run).settings[0]
    unaware = [replace(method, noise_aware=False) for method in setting.methods]
    path, key = cell(setting, run, tmp_path)
    assert json.loads(key)["versions"] == [version(module) for module in ("nacp", "numpy", "scipy")]
    assert hashlib.sha256(key.encode()).hexdigest().startswith(path.stem.rpartition("-")[2])
    others = [
        cell(setting, replace(run, seed=1), tmp_path),
        cell(setting, replace(run, noise_per="dataset"), tmp_path),
        cell(replace(setting, splits=4), run, tmp_path),
        cell(replace(setting, methods=setting.methods[:-1]), run, tmp_path),
        cell(replace(setting, methods=unaware), run, tmp_path),
    ]
    assert len({path, *(other for other, _ in others)}) == 6


def test_a_file_that_cannot_be_finished_is_left_as_it_was(folder, tmp_path, monkeypatch):
    small_file(folder, "some")
    reproduce("table1", Run(folder, 3), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("table1.*")}

    def interrupted(self, file, **options):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproduce("table1", Run(folder, 3), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("table1.*")} == before
    assert not [path for path in tmp_path.rglob("*") if "partial" in path.name]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others")
def test_an_interrupted_command_ends_without_a_traceback_and_keeps_what_was_finished(folder, tmp_path):
    small_file(folder, "a")
    probs, labels = twins.simulate("cifar100")
    np.savez(folder / "b.npz", probs=probs, labels=labels)
    cells = tmp_path / "out" / "cells"
    options = ["--data", folder, "--splits", "400", "--out", cells.parent]
    # Who starts tests in the background of a shell lets them ignore what Ctrl-C sends.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heard}; from nacp.cli import app; app()"
    command = [sys.executable, "-c", code, "reproduce", "table1", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 300
        while len(list(cells.glob("*.npz"))) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) != 0
        assert "Traceback" not in process.stderr.read()
    assert 2 <= len(list(cells.glob("*.npz"))) < 6


def test_what_is_wrong_with_a_file_names_it(folder, tmp_path):
    small_file(folder, "some")
    run = Run(folder, 3)
    setting = replace(experiments.table1(run).settings[0], calibration=1000)
    with pytest.raises(ValueError, match=r"some\.npz: calibration must leave points for testing"):
        run_experiment(Experiment("some", "Some", [setting]), run, tmp_path)


def test_progress_grows_and_a_setting_of_two_tables_is_computed_once(folder, tmp_path, monkeypatch):
    small_file(folder, "imagenet")
    done, run = [], Run(folder, 3)

    class Bar(Progress):
        def update(self, task, **changes):
            done.append(changes["completed"])

    monkeypatch.setattr(reproducing, "progress_bar", lambda quiet: Bar(disable=True))
    assert run_command("all", "--data", folder, "--splits", 3, "--out", tmp_path).exit_code == 0
    settings = [setting for make in experiments.EXPERIMENTS.values() for setting in make(run).settings]
    assert done == sorted(done)
    assert done[-1] == 3 * len(settings)
    once = {cell(setting, run, tmp_path / "cells")[0] for setting in settings}
    assert set((tmp_path / "cells").iterdir()) == once
    assert len(once) < len(settings)


def test_csv_files_have_the_same_ids_and_the_difference_from_the_paper(folder, tmp_path):
    small_file(folder, "cifar10")
    run = Run(folder, 3)
    rows = {}
    for name in ("table1", "table2", "figure1", "sweep-matrix"):
        reproduce(name, run, tmp_path)
        rows[name] = read_csv(tmp_path / f"{name}.csv")
        ids = ["data", "simulated", "n", "k", "rate", "setting", "score", "method"]
        assert list(rows[name][0])[:8] == ids
        assert len({tuple(row[i] for i in ids) for row in rows[name]}) == len(rows[name])
    assert all(row["size_diff_sd"] == "" for row in rows["table1"])  # not the paper's network
    twin = experiments.table1(Run(splits=3)).settings[0]
    experiment = Experiment("some", "Some", [twin], versus_paper=True)
    sheet = splits_sheet(experiment, run_experiment(experiment, Run(splits=3), tmp_path), [])
    for row in sheet.records:
        for what in ("size", "coverage"):
            spread = math.sqrt(row[f"{what}_sd"] ** 2 + row[f"paper_{what}_sd"] ** 2)
            assert row[f"{what}_diff_sd"] * spread == pytest.approx(row[what] - row[f"paper_{what}"])


def test_what_is_run_is_called_what_is_known_of_it(folder, tmp_path):
    text, _ = reproduce("table2", Run(splits=2), tmp_path)
    assert all("simulated twin" in line for line in text.splitlines() if line.startswith("#"))
    assert "simulated twins of the paper's classifiers" in text
    small_file(folder, "cifar10")
    text, _ = reproduce("table1", Run(folder, 2), tmp_path)
    assert "simulated" not in text
    assert text.startswith("# Table 1: data sets, scores and methods (data: data)\n")
    assert "not the paper's networks" in text


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
    experiment = Experiment("some", "Some", [s for s in settings if s.human])
    by_method = {record.method: record for record in run_experiment(experiment, run, tmp_path)}
    assert by_method["NR-CP"].size.mean == pytest.approx(by_method["CP (oracle)"].size.mean, abs=0.05)
    assert by_method["Noisy-CP"].size == by_method["CP (oracle)"].size


def test_without_matplotlib_there_are_tables_and_one_sentence(folder, tmp_path, monkeypatch):
    small_file(folder, "imagenet")
    monkeypatch.setattr(figures, "available", lambda: False)
    result = run_command("table3", "--data", folder, "--splits", 2, "--out", tmp_path)
    assert result.exit_code == 0
    assert result.stderr.strip().splitlines() == [
        "No figures were drawn: matplotlib is not installed (pip install 'nacp[plot]')."
    ]
    assert sorted(p.suffix for p in tmp_path.glob("table3.*")) == [".csv", ".md", ".tex"]


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
    assert "Table 3 is about ImageNet" in sentence("table3")
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
    assert result.stderr.splitlines() == [
        told,
        f"{folder / 'other.npz'} holds no probs and no labels: left out.",
    ]
    assert [row["data"] for row in read_csv(tmp_path / "table2.csv")] == ["some"] * 6


def test_all_leaves_table_3_out_where_there_is_no_imagenet(folder, tmp_path):
    small_file(folder, "some")
    result = run_command("all", "--data", folder, "--splits", 2, "--out", tmp_path)
    assert result.exit_code == 0
    assert "left out" in result.stderr
    assert {p.stem for p in tmp_path.glob("*.md")} == set(NAMES) - {"table3"}


def test_known_names_come_first(folder):
    for name in ("zebra", "imagenet", "cifar10", "apple"):
        small_file(folder, name)
    assert [source.name for source in folder_sources(folder)] == ["cifar10", "imagenet", "apple", "zebra"]


def test_latex_has_no_letters_that_need_a_package():
    sheet = Sheet("T", ["Δ %", "a_b"], [("ε = 0.1 & more", [["1 ± 2", "∞ ≠ #"]])], ["a < b²"], ["Made."], [])
    assert to_latex(sheet).isascii()


def test_names_of_files_do_not_break_a_table(folder, tmp_path):
    """Nor do those of human labels: letters that LaTeX, Markdown or a figure would take for commands."""
    name = r"a_b%c&d#e$f{g}h^i~j\k|l"
    small_file(folder, name, **{f"noise_matrix_{name}": np.eye(10)})
    text, (_, _, tex, *_) = reproduce("sweep-matrix", Run(folder, 2), tmp_path)
    written = r"a\_b\%c\&d\#e\$f\{g\}h\textasciicircum{}i\textasciitilde{}j\textbackslash{}k$|$l"
    assert tex.read_text().count(written) == 1 + 5  # the heading, and five methods
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1


def test_importing_the_library_imports_neither_the_command_nor_figures():
    code = "import sys, nacp; print([m for m in ('typer', 'rich', 'matplotlib') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


# The committed results: 1,000 splits.


def committed(kind, name):
    rows = read_csv(DOCS / kind / f"{name}.csv")
    numbers = {"n", "k", "splits", "correction", "size", "size_sd", "coverage", "coverage_sd", "below"}
    numbers |= {"paper_size", "paper_coverage"}
    return [{key: float(v) if key in numbers and v else v for key, v in row.items()} for row in rows]


# What the story page reports as outside of what twins promise, and why: nothing in their fit describes what
# happens with half of all classes; the paper's own NACP and NR-CP are off their targets, or its NR-CP off its
# oracle; and the parameters give other oracle sizes on average.
SIZES_OUTSIDE = {
    ("cifar100", "aps", "NR-CP"),
    ("tinyimagenet", "hps", "CP (oracle)"),
    ("imagenet-resnet50", "hps", "NR-CP"),
}
COVERAGES_OUTSIDE = {
    ("cifar10", "raps", "Noisy-CP"),
    ("cifar10", "hps", "Noisy-CP"),
    ("cifar10", "raps", "NACP"),
    *(("tinyimagenet", score, "Noisy-CP") for score in printed.SCORES),
    ("imagenet-vitb16", "aps", "Noisy-CP"),
}


def promised_size(data, method):
    """Return how near to the paper's a size should be; None where nothing is promised."""
    if method in ("CP (oracle)", "NR-CP"):
        return 0.02
    if method == "NACP":
        return 0.2 if data == "imagenet-vitb16" else 0.1
    return 0.25 if (data, method) == ("cifar100", "CRCP") else None


@pytest.mark.parametrize("name", ["table1", "table3"])
def test_committed_twins_are_as_near_to_the_paper_as_reported(name):
    """Up to the paper's last digit, half a unit of which is 0.05."""
    sizes, coverages, cells = set(), set(), set()
    for row in committed("twins", name):
        where = (row["data"], row["score"], row["method"])
        cells.add(where)
        tolerance = promised_size(row["data"], row["method"])
        if row["doubt"]:
            continue
        if tolerance and abs(row["size"] - row["paper_size"]) > tolerance * row["paper_size"] + 0.05:
            sizes.add(where)
        if abs(row["coverage"] - row["paper_coverage"]) > 0.1 + 0.05:
            coverages.add(where)
    assert len(cells) == 4 * 3 * 6
    assert sizes == SIZES_OUTSIDE & cells
    assert coverages == COVERAGES_OUTSIDE & cells


@pytest.mark.parametrize("name", ["table1", "table3"])
def test_committed_twins_keep_what_no_network_could_change(name):
    for row in committed("twins", name):
        n, k, where = row["n"], row["k"], (row["data"], row["score"], row["method"])
        assert row["splits"] == 1000
        full = row["correction"] > 0.1
        assert (row["size"] == k and row["coverage"] == 100) == full, where
        assert (row["paper_size"] == k) == full, where
        if row["method"] == "CP (oracle)":
            assert row["coverage_sd"] == pytest.approx(100 * math.sqrt(0.18 / n), rel=0.07), where
        elif row["method"] == "Noisy-CP":
            expected = k * (0.9 - 0.8 * row["coverage"] / 100) / 0.2
            assert row["size"] == pytest.approx(expected, rel=0.02), where
        elif not full:
            assert row["coverage"] == pytest.approx(100 * (0.9 + row["correction"]), abs=0.1), where
        if row["method"] == "NR-CP" and k >= 100:
            assert row["coverage_sd"] == pytest.approx(100 * math.sqrt(0.405 / n), rel=0.07), where
        if row["method"] == "NACP":
            assert row["below"] == 0, where


def test_committed_real_results_relate_as_in_the_paper():
    rows = committed("real", "table1")
    size = {(row["data"], row["score"], row["method"]): row["size"] for row in rows}
    paper = {"cifar10", "cifar100", "tinyimagenet", "imagenet"}
    assert {row["data"] for row in rows} >= paper
    for row in rows:
        where = (row["data"], row["score"], row["method"])
        assert row["splits"] == 1000
        if row["method"] == "NACP":
            assert row["below"] == 0, where
            if row["k"] >= 100:
                assert row["size"] < min(size[*where[:2], "ACNL"], size[*where[:2], "CRCP"]), where
        if row["method"] == "Noisy-CP":
            expected = row["k"] * (0.9 - 0.8 * row["coverage"] / 100) / 0.2
            assert row["size"] == pytest.approx(expected, rel=0.02), where
        if row["method"] == "NR-CP" and row["data"] in paper:
            assert abs(row["coverage"] - 90) < 2 * row["coverage_sd"] / math.sqrt(1000), where


@pytest.mark.skipif("NACP_BENCHMARK_DATA" not in os.environ, reason="NACP_BENCHMARK_DATA is not set")
def test_real_classifiers_relate_as_in_the_paper(tmp_path):
    """NR-CP at the target within its standard error, NACP above it in every split, Noisy-CP near k/2."""
    run = Run(Path(os.environ["NACP_BENCHMARK_DATA"]), splits=40)
    settings = [s for s in experiments.table1(run).settings if s.score == "hps"]
    for record in run_experiment(Experiment("some", "Some", settings), run, tmp_path):
        if record.method == "NR-CP":
            assert abs(record.coverage.mean - 90) < 4 * record.coverage.sd / math.sqrt(run.splits)
        if record.method == "NACP":
            assert record.below == 0
