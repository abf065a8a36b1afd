"""Links lead to files, the reference lists every public name, and quoted figures are those of the tables."""

import doctest
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
        *(f"sklearn.{name}" for name in _public(sklearn) - set(nacp.__all__)),
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


def number(cell):
    """Return the first number in a cell, and 0.67 for 67%."""
    value = float(re.search(r"-?[\d.]+", cell)[0])
    return value / 100 if re.match(r"-?[\d.]+%", cell) else value


# How a page may show the number of a cell; without one of these, it quotes the cell.
FORMS = {
    "1 digit": lambda value: f"{value:.1f}",
    "3 digits": lambda value: f"{value:.3f}".removeprefix("0"),
    "percent": lambda value: f"{value:.1%}",
    "of 100": lambda value: f"{value:.1f}%",
    "points short": lambda value: f"{90 - (value if value > 1 else 100 * value):.0f}",
}


def quoted(section, rows, columns, form=None):
    """Return what a page should say of some cells: one value, or the range "lowest to highest"."""
    cells = [
        cell
        for row, line in TABLES[section].items()
        for column, cell in line.items()
        if re.fullmatch(rows, row) and re.fullmatch(columns, column)
    ]
    shown = sorted((FORMS[form](number(cell)) if form else cell for cell in cells), key=number)
    return shown[0] if shown[0] == shown[-1] else f"{shown[0]} to {shown[-1]}"


# A page, a section of docs/results.md, and words of the page with {rows ~ columns} or {rows ~ columns ~ form}
# in place of figures. Rows and columns are regular expressions for whole keys.
QUOTES = """
README.md: Checked labels
it did in {CIFAR-100?N .*; m = 1,000 ~ one rate: short}, and with the same labels as `clean=` in
{CIFAR-100?N.*; m = 1,000 ~ `clean=`: short}

docs/estimation.md: Noise estimation
covers {twin of CIFAR-100, .*interval.* ~ coverage ~ percent} with {twin of CIFAR-100, .*interval.* ~ size}
labels per set, and with the same 300 labels as `clean=`
{twin of CIFAR-100, .*audit of 300 as .* ~ coverage ~ percent} with
{twin of CIFAR-100, .*audit of 300 as .* ~ size}; without any noisy label it covers
{twin of CIFAR-100, .*audit of 300 alone.* ~ coverage ~ percent} with
{twin of CIFAR-100, .*audit of 300 alone.* ~ size}, and with the known rate
{twin of CIFAR-100, .*rate known.* ~ coverage ~ percent} with {twin of CIFAR-100, .*rate known.* ~ size}

docs/estimation.md: Noise estimation
target of .9 is {CIFAR-10N random1: true matrix.* ~ coverage ~ 3 digits} on the labels of CIFAR-10N's first
annotator and {CIFAR-100N: true matrix.* ~ coverage ~ 3 digits} on CIFAR-100N

docs/estimation.md: Noise estimation
With 5,000 points, {CIFAR-10N (random1|aggre|worse), n.* ~ short} of runs are short

docs/estimation.md: Noise estimation
falls short by {CIFAR-10N random1: annotators.* ~ coverage ~ points short} points on CIFAR-10N random1

docs/tutorials/crowd-labels.md: Noise estimation
by {CIFAR-10N random1: annotators.* ~ coverage ~ points short} points on CIFAR-10N with one rate from
annotators

docs/which-guarantee.md: The paper, reproduced
human labels coverage was {human labels.* ~ NR-CP: coverage ~ points short} points short

docs/reproduction.md: The paper, reproduced
it covers {human.*CIFAR-10H.* ~ NR-CP: coverage ~ of 100} with one CIFAR-10H annotator for each image,
{human.*votes.* ~ NR-CP: coverage ~ of 100} with CIFAR-10N's majority votes,
{human.*(first|second|third).* ~ NR-CP: coverage ~ of 100} with single annotators,
{human.*worst.* ~ NR-CP: coverage ~ of 100} with the worst of three, and
{human.*CIFAR-100N.* ~ NR-CP: coverage ~ of 100} on CIFAR-100N

docs/tutorials/streams.md: Scale
A chunk sends {.* ~ sent per chunk}, and the client needs {HPS, "binomial" ~ client, twice the rows} at most

docs/comparison.md: Comparison with other packages
the mean set size is {mean set size.* ~ nacp.*none.*} with `nacp` and
{mean set size.* ~ TorchCP|MAPIE|crepes ~ 1 digit} with the other packages

docs/comparison.md: Comparison with other packages
TorchCP calibrates HPS in {calibrate, HPS ~ TorchCP ~ 1 digit} units without looking at the matrix; `nacp`
needs {calibrate, HPS ~ nacp.*none.* ~ 1 digit} without a promise and
{calibrate, HPS ~ nacp.*pac.* ~ 1 digit} with "pac" (one thread), MAPIE {calibrate, HPS ~ MAPIE ~ 1 digit}.
"""


@pytest.mark.parametrize("quote", QUOTES.strip().split("\n\n"), ids=lambda quote: quote[:50])
def test_quoted_figures_are_those_of_their_cells(quote):
    source, _, words = quote.partition("\n")
    page, section = source.split(": ")
    cells = re.compile(r"\{([^}]+)\}")
    expected = cells.sub(lambda found: quoted(section, *found[1].split(" ~ ")), " ".join(words.split()))
    assert cells.search(words)
    assert expected in " ".join((ROOT / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("page", sorted(DOCS.glob("tutorials/*.md")), ids=lambda page: page.name)
def test_every_code_block_of_a_tutorial_is_run(page):
    blocks = re.findall(r"^```python\n(.*?)```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    # Without the empty line at the end, the fence would be part of the expected output.
    assert all(block.startswith(">>> ") and block.endswith("\n\n") for block in blocks)


def test_the_gallery_has_every_display():
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    displays = [name for name in nacp.__all__ if name.endswith("Display")]
    assert len(displays) >= 3
    assert [name for name in displays if f">>> display = nacp.{name}." not in text] == []
