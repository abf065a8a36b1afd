import json
import re
import sys

import numpy as np
import pytest

from nacp.cli import demo
from nacp.paper import twins
from nacp.paper.methods import six_methods
from nacp.paper.splits import run_splits
from tests.cli.command_line import done

pytestmark = pytest.mark.slow
ROW = {"score": "hps", "method": 'nacp "pac"', "mean_size": 1.0, "coverage": 0.9, "coverage_error": 0.1}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the demo prints, as text and as JSON; the classifier and the splits are run once."""
    page = tmp_path_factory.mktemp("demo") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "SPLITS", 3)
        text = done("demo", "--report", page)
        assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
        patch.setattr(demo, "compare", lambda *_: [ROW])
        patch.setattr(demo, "summary", lambda *_: "")
        return text, done("demo", "--report", page, "--json")


@pytest.fixture(scope="module")
def tables(printed):
    """Size, coverage and its standard error of each method, for each score, as printed."""
    found = {}
    for line in printed[0].splitlines():
        if line.strip().lower() in demo.SCORES:
            found[line.strip().lower()] = rows = {}
        elif cells := re.match(r"\s*(.*?) +([\d.]+) +([\d.]+) ±([\d.]+)", line):
            method, size, *shares = cells.groups()
            rows[method] = float(size), *(float(each) / 100 for each in shares)
    return found


def test_the_classifier_is_good_but_not_perfect(printed):
    assert 0.7 < float(re.search(r"right\s+for\s+([\d.]+)%", printed[0])[1]) / 100 < 0.9


@pytest.mark.parametrize("score", demo.SCORES)
def test_pac_covers_with_far_smaller_sets_than_noisy_cp(tables, score):
    size, coverage, _ = tables[score]['nacp "pac"']
    assert coverage > 0.9
    assert size < tables[score]["Noisy-CP"][0] / 10
    assert size < 1.5 * tables[score]["CP (oracle)"][0]


def test_sets_are_shown_by_name_and_json_has_the_rows(printed):
    for name in demo.SHOWN:
        assert f"({name})" in printed[0]
    assert re.search(r"Noisy-CP:\s+English; .* more", printed[0], re.DOTALL)
    document = json.loads(printed[1])
    assert document["rows"] == [ROW]
    assert document["splits"] == 3


def test_means_and_errors_are_those_of_the_splits(monkeypatch):
    monkeypatch.setattr(demo, "SPLITS", 3)
    monkeypatch.setattr(demo, "SCORES", ("hps",))
    probs, labels = twins.simulate("cifar10", n=600)
    rows = {row["method"]: row for row in demo.compare(probs, labels, lambda what: None)}
    methods = [method for method in six_methods(10) if method.name in ("CP (oracle)", "ACNL")]
    found = run_splits(probs, labels, noise=demo.NOISE, methods=methods, splits=3)
    for m, method in enumerate(methods):
        row, shares = rows[method.name], found.coverages[m]
        assert row["coverage"] == pytest.approx(sum(shares) / 3)
        assert row["coverage_error"] == pytest.approx(np.sqrt(((shares - shares.mean()) ** 2).sum() / 2 / 3))
        assert row["full"] == (row["mean_size"] == 10)


def test_the_temperature_is_the_one_that_made_the_labels():
    rng = np.random.default_rng(0)
    evidence = rng.normal(size=(20_000, 5)) * 3
    gumbel = -np.log(-np.log(rng.random(evidence.shape)))
    labels = (evidence / 2 + gumbel).argmax(axis=1)
    assert abs(demo.best_temperature(evidence, labels) - 2) < 0.1


def test_without_scikit_learn_one_sentence_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install nacp\[sklearn\]"):
        demo.demo_command(tmp_path / "page.html")
