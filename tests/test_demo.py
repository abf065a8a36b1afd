import io
import re
import sys

import numpy as np
import pytest

from nacp.cli import demo


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the demo prints, run once."""
    page = tmp_path_factory.mktemp("demo") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        patch.setattr(sys, "stdout", out := io.StringIO())
        demo.main(page)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    return out.getvalue()


@pytest.fixture(scope="module")
def table(printed):
    """Size and coverage of each method with each score, as printed."""
    rows = {}
    for line in printed.splitlines():
        cells = re.findall(r"([\d.]+) / ([\d.]+)%", line)
        if len(cells) == len(demo.SCORES):
            method = re.match(r"\s*(.*?)\s+[\d.]+\s+[\d.]+ /", line)[1]
            rows[method] = [(float(size), float(coverage) / 100) for size, coverage in cells]
    return rows


def test_the_classifier_is_good_but_not_perfect(printed):
    assert 0.7 < float(re.search(r"right\s+for\s+([\d.]+)%", printed)[1]) / 100 < 0.9


def test_all_methods_are_shown(table):
    assert list(table) == [
        "CP (oracle)", "Noisy-CP", "NR-CP", "ACNL", "CRCP", "NACP", 'nacp "expected"', 'nacp "pac"',
    ]  # fmt: skip


@pytest.mark.parametrize("column", range(len(demo.SCORES)), ids=demo.SCORES)
def test_pac_covers_with_far_smaller_sets_than_noisy_cp(table, column):
    size, coverage = table['nacp "pac"'][column]
    error = np.sqrt(0.1 * 0.9 / 18_000)
    assert coverage >= 0.9 - 4 * error
    assert size < table["Noisy-CP"][column][0] / 10
    assert size < 1.5 * table["CP (oracle)"][column][0]


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
        demo.main(tmp_path / "page.html")
