import io
import re
import sys

import numpy as np
import pytest
from rich.console import Console

from nacp.cli import demo
from nacp.paper import twins
from nacp.paper.methods import six_methods
from nacp.paper.splits import run_splits


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the demo prints, run once."""
    page = tmp_path_factory.mktemp("demo") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        patch.setattr(sys, "stdout", out := io.StringIO())
        demo.demo_command(page)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    return out.getvalue()


@pytest.fixture(scope="module")
def table(printed):
    """Size, coverage and its standard error of each method with each score, as printed."""
    rows = {}
    for line in printed.splitlines():
        cells = re.findall(r"([\d.]+) +([\d.]+) ±([\d.]+)", line)
        if len(cells) == len(demo.SCORES):
            method = re.match(r"\s*(.*?)\s+[\d.]+\s+[\d.]+ +[\d.]+ ±", line)[1]
            rows[method] = [
                (float(size), float(share) / 100, float(error) / 100) for size, share, error in cells
            ]
    return rows


def test_the_classifier_is_good_but_not_perfect(printed):
    assert 0.7 < float(re.search(r"right\s+for\s+([\d.]+)%", printed)[1]) / 100 < 0.9


def test_all_methods_are_shown(table):
    assert list(table) == [
        "CP (oracle)", "Noisy-CP", "NR-CP", "ACNL", "CRCP", "NACP", 'nacp "expected"', 'nacp "pac"',
    ]  # fmt: skip


@pytest.mark.parametrize("column", range(len(demo.SCORES)), ids=demo.SCORES)
def test_pac_covers_with_far_smaller_sets_than_noisy_cp(table, column):
    size, coverage, error = table['nacp "pac"'][column]
    assert coverage > 0.9
    assert 0 < error < 0.005
    assert size < table["Noisy-CP"][column][0] / 10
    assert size < 1.5 * table["CP (oracle)"][column][0]


@pytest.mark.parametrize("method", ["CP (oracle)", "NR-CP", 'nacp "expected"'])
def test_what_holds_on_average_is_near_the_target(table, method):
    for _, coverage, error in table[method]:
        # All splits are of one pool of snippets, which is itself a draw, and numbers are rounded to 0.1%.
        assert abs(coverage - 0.9) < 4 * (error + 0.0005 + np.sqrt(0.1 * 0.9 / 37_760))


def test_means_and_errors_are_those_of_the_splits(monkeypatch):
    monkeypatch.setattr(demo, "SPLITS", 3)
    monkeypatch.setattr(demo, "SCORES", ("hps",))
    probs, labels = twins.simulate("cifar10", n=600)
    rows = {row.method: row for row in demo.compare(probs, labels, lambda what: None)}
    methods = [method for method in six_methods(10) if method.name in ("CP (oracle)", "ACNL")]
    found = run_splits(probs, labels, noise=demo.NOISE, methods=methods, splits=3)
    for m, method in enumerate(methods):
        row, shares = rows[method.name], found.coverages[m, 0]
        assert row.coverage == pytest.approx(sum(shares) / 3)
        assert row.coverage_error == pytest.approx(np.sqrt(((shares - shares.mean()) ** 2).sum() / 2 / 3))
        assert row.full == (row.mean_size == 10)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_number_is_lost_at_any_width(width):
    rows = [
        demo.Row(score, method, 0.123, 237.72, 0.1, 0.98765 if score == "aps" else 1.0, 0.0012, False)
        for score in demo.SCORES
        for method in ("CP (oracle)", 'nacp "expected"')
    ]
    console = Console(width=width, file=io.StringIO())
    for each in demo.methods_tables(rows, width):
        console.print(each)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert text.count("100.0 ±0.1") == 4
    assert text.count("98.8 ±0.1") == 2
    assert text.count("238") == 6


def test_sets_are_shown_by_name(printed):
    for name in demo.SHOWN:
        assert f"({name})" in printed
    assert re.search(r"Noisy-CP:\s+English; .* more", printed, re.DOTALL)


def test_the_temperature_is_the_one_that_made_the_labels():
    rng = np.random.default_rng(0)
    evidence = rng.normal(size=(20_000, 5)) * 3
    gumbel = -np.log(-np.log(rng.random(evidence.shape)))
    labels = (evidence / 2 + gumbel).argmax(axis=1)
    assert abs(demo.best_temperature(evidence, labels) - 2) < 0.1


def test_a_set_is_described_with_the_most_probable_first():
    probs = np.array([0.1, 0.6, 0.3])
    assert demo.describe(probs, [0, 1, 2], ("a", "b", "c"), most=2) == "b; c; and 1 more"
    assert demo.describe(probs, [0, 1], ("a", "b", "c"), most=2) == "b; a"
    assert demo.describe(probs, [], ("a", "b", "c")) == "none"


def test_without_scikit_learn_one_sentence_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install nacp\[sklearn\]"):
        demo.demo_command(tmp_path / "page.html")
