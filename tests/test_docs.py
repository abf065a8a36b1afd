"""Links lead to files, the reference lists every public name, and quoted figures are those of the tables."""

import doctest
import math
import re
from pathlib import Path

import pytest

import nacp
from nacp import datasets, labels, sklearn
from nacp.paper import twins

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("guarantees/*.md")),
    *sorted(DOCS.glob("tutorials/*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def _public(module):
    """Return the names that a module defines itself."""
    return {
        name
        for name, value in vars(module).items()
        if name[0] != "_" and getattr(value, "__module__", "") == module.__name__
    }


def test_the_reference_lists_every_public_name():
    listed = set(re.findall(r"^   ([\w.]+)$", (DOCS / "api.rst").read_text(encoding="utf-8"), re.MULTILINE))
    public = {
        *(name for name in nacp.__all__ if name[0] != "_"),
        *_public(sklearn),
        *(f"datasets.{name}" for name in _public(datasets)),
        *(f"labels.{name}" for name in labels.__all__ if name != "FORMATS"),
        *(f"paper.twins.{name}" for name in (*_public(twins), "TWINS")),
    }
    assert not public - listed  # `make docs` fails for a name that is listed and does not exist


def test_the_recipes_of_contributing_work():
    failed, attempted = doctest.testfile(str(ROOT / "CONTRIBUTING.md"), module_relative=False)
    assert attempted > 10
    assert failed == 0


# Figures


def read_tables(text):
    """Return the cells of the table in each section, by section, row (first cell) and column (heading)."""
    tables = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        lines = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in re.findall(r"^\|.*$", section, re.M)
        ]
        header, _, *rows = lines
        assert len({row[0] for row in rows}) == len(rows)
        assert len(set(header)) == len(header)
        tables[section.partition("\n")[0]] = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    return tables


TABLES = read_tables((DOCS / "results.md").read_text(encoding="utf-8"))
CHECKED, ESTIMATION, COMPARISON = "Checked labels", "Noise estimation", "Comparison with other packages"
SCALE, REPRODUCTION = "Scale", "The paper, reproduced"


def number(cell):
    """Return the first number in a cell, and 0.67 for 67%."""
    value = float(re.search(r"-?[\d.]+", cell)[0])
    return value / 100 if re.match(r"-?[\d.]+%", cell) else value


def quoted(section, rows, columns, form=None):
    """Return what a page should say of some cells: one value, or the range "lowest to highest".

    `rows` and `columns` are regular expressions for whole keys; `form` turns a number into text, and the cell
    itself is quoted without it.
    """
    cells = [
        cell
        for row, line in TABLES[section].items()
        for column, cell in line.items()
        if re.fullmatch(rows, row) and re.fullmatch(columns, column)
    ]
    shown = sorted((form(number(cell)) if form else cell for cell in cells), key=number)
    return shown[0] if shown[0] == shown[-1] else f"{shown[0]} to {shown[-1]}"


def places(digits):
    """Return how a number is quoted with so many decimal places."""
    return lambda value: f"{value:.{digits}f}"


def coverage(digits):
    """Return how a coverage is quoted: .892."""
    return lambda value: f"{value:.{digits}f}".removeprefix("0")


def percent(value):
    return f"{value:.1%}"


def points_short(value):
    """Return by how many percentage points a coverage is below 90%."""
    return f"{90 - (value if value > 1 else 100 * value):.0f}"


TWIN = r"twin of CIFAR-100, .*: "
MANY = "; m = 1,000"
QUOTES = [
    (
        "README.md",
        CHECKED,
        "was short in {} of runs on CIFAR-10N and CIFAR-100N, and `clean=` in {}, with {} labels per set on "
        "CIFAR-10N (only clean labels: {}) and {} on CIFAR-100N ({})",
        ("CIFAR-100?N .*" + MANY, "one rate: short"),
        ("CIFAR.*" + MANY, "`clean=`: short"),
        ("CIFAR-10N.*" + MANY, "`clean=`: size"),
        ("CIFAR-10N.*" + MANY, "oracle: size"),
        ("CIFAR-100N.*" + MANY, "`clean=`: size"),
        ("CIFAR-100N.*" + MANY, "oracle: size"),
    ),
    (
        "docs/estimation.md",
        ESTIMATION,
        "covers {} with {} labels per set, and with the same 300 labels as `clean=` {} with {}; without any "
        "noisy label it covers {} with {}, and with the known rate {} with {}",
        (TWIN + ".*interval.*", "coverage", percent),
        (TWIN + ".*interval.*", "size"),
        (TWIN + "audit of 300 as .*", "coverage", percent),
        (TWIN + "audit of 300 as .*", "size"),
        (TWIN + "audit of 300 alone.*", "coverage", percent),
        (TWIN + "audit of 300 alone.*", "size"),
        (TWIN + "rate known.*", "coverage", percent),
        (TWIN + "rate known.*", "size"),
    ),
    (
        "docs/estimation.md",
        ESTIMATION,
        "target of .9 is {} on the labels of CIFAR-10N's first annotator and {} on CIFAR-100N",
        ("CIFAR-10N random1: true matrix.*", "coverage", coverage(3)),
        ("CIFAR-100N: true matrix.*", "coverage", coverage(3)),
    ),
    (
        "docs/estimation.md",
        ESTIMATION,
        "With 5,000 points, {} of runs are short",
        ("CIFAR-10N (random1|aggre|worse), n.*", "short"),
    ),
    (
        "docs/estimation.md",
        ESTIMATION,
        "falls short by {} points on CIFAR-10N random1",
        ("CIFAR-10N random1: annotators.*", "coverage", points_short),
    ),
    (
        "docs/tutorials/crowd-labels.md",
        ESTIMATION,
        "by {} points on CIFAR-10N with one rate from annotators",
        ("CIFAR-10N random1: annotators.*", "coverage", points_short),
    ),
    (
        "docs/which-guarantee.md",
        REPRODUCTION,
        "human labels coverage was {} points short",
        ("human labels.*", "NR-CP: coverage", points_short),
    ),
    (
        "docs/reproduction.md",
        REPRODUCTION,
        "it covers {} with one CIFAR-10H annotator for each image, {} with CIFAR-10N's majority votes, {} "
        "with single annotators, {} with the worst of three, and {} on CIFAR-100N",
        *(
            (f"human.*{who}.*", "NR-CP: coverage", lambda value: f"{value:.1f}%")
            for who in ("CIFAR-10H", "votes", "(first|second|third)", "worst", "CIFAR-100N")
        ),
    ),
    (
        "docs/tutorials/streams.md",
        SCALE,
        "A chunk sends {}, and the client needs {} at most",
        (".*", "sent per chunk"),
        ('HPS, "binomial"', "client, twice the rows"),
    ),
    (
        "docs/comparison.md",
        COMPARISON,
        "the mean set size is {} with `nacp` and {} with the other packages",
        ("mean set size.*", "nacp.*none.*"),
        ("mean set size.*", "TorchCP|MAPIE|crepes", places(1)),
    ),
    (
        "docs/comparison.md",
        COMPARISON,
        "TorchCP calibrates HPS in {} units without looking at the matrix; `nacp` needs {} without a promise "
        'and {} with "pac" (one thread), MAPIE {}.',
        *(
            ("calibrate, HPS", name, places(1))
            for name in ("TorchCP", "nacp.*none.*", "nacp.*pac.*", "MAPIE")
        ),
    ),
]


@pytest.mark.parametrize(
    ("page", "section", "sentence", "cells"),
    [(*each[:3], each[3:]) for each in QUOTES],
    ids=lambda value: str(value)[:40],
)
def test_quoted_figures_are_those_of_their_cells(page, section, sentence, cells):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert sentence.format(*(quoted(section, *cell) for cell in cells)) in text


def test_results_of_the_reproduction_fit_the_formulas_that_hold_for_any_network():
    rows = {name: row for name, row in TABLES[REPRODUCTION].items() if not name.startswith("human")}
    assert len(rows) == 7 * 3 + 6
    for name, row in rows.items():
        n, k = int(row["n"].replace(",", "")), int(row["k"].replace(",", ""))
        found = {column: number(row[column]) for column in list(row)[3:]}
        ignored = k * (0.9 - 0.8 * found["Noisy-CP: coverage"] / 100) / 0.2
        assert found["Noisy-CP: size"] == pytest.approx(ignored, rel=0.02), name
        correction = math.sqrt(math.log(4 / 0.001) / (2 * n)) * 1.2 / 0.8
        assert found["NACP: coverage"] == pytest.approx(100 * (0.9 + correction), abs=0.1), name
        error = 100 * math.sqrt(0.405 / n / 1000) + 0.005  # of the mean of 1,000 splits, and of rounding
        assert abs(found["NR-CP: coverage"] - 90) < 3 * error, name


@pytest.mark.parametrize("page", sorted(DOCS.glob("tutorials/*.md")), ids=lambda page: page.name)
def test_every_code_block_of_a_tutorial_is_run(page):
    blocks = re.findall(r"^```python\n(.*?)```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    # Without the empty line at the end, the fence would be part of the expected output.
    assert all(block.startswith(">>> ") and block.endswith("\n\n") for block in blocks)


def test_the_gallery_has_every_display():
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    displays = [name for name in nacp.__all__ if name.endswith("Display")]
    assert len(displays) > 3
    assert [name for name in displays if f">>> display = nacp.{name}." not in text] == []


def test_the_citation_is_of_this_version():
    assert f"version: {nacp.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
