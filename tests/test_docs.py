"""The pages point to files that exist, and the reference lists every public name."""

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


def test_the_comparison_quotes_the_benchmark():
    rows = re.findall(
        r"^\| (?:calibrate|predict): .*$", (DOCS / "comparison.md").read_text(encoding="utf-8"), re.M
    )
    quoted = set(re.findall(r"[\d.]+(?= MB)|[\d.]+\.\d(?=,| )", " ".join(rows)))
    measured = set(re.findall(r"[\d.]+", (ROOT / "benchmarks" / "results.md").read_text(encoding="utf-8")))
    assert len(quoted) > 20
    assert not quoted - measured


@pytest.mark.parametrize("page", sorted(DOCS.glob("tutorials/*.md")), ids=lambda page: page.name)
def test_every_code_block_of_a_tutorial_is_run(page):
    blocks = re.findall(r"^```python\n(.*?)```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    # Without the empty line at the end, the fence would be part of the expected output.
    assert all(block.startswith(">>> ") and block.endswith("\n\n") for block in blocks)


def test_pictures_are_shown_and_light():
    shown = {
        (page.parent / link).resolve()
        for page in PAGES
        for link in re.findall(r"!\[[^\]]+\]\(([^)]+\.png)\)", page.read_text(encoding="utf-8"))
    }
    drawn = {*(DOCS / "pictures").glob("*.png"), DOCS / "report.png"}
    assert drawn <= shown
    assert all(picture.stat().st_size < 100_000 for picture in drawn)


def test_the_gallery_has_every_display():
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    displays = [name for name in nacp.__all__ if name.endswith("Display")]
    assert len(displays) > 3
    assert [name for name in displays if f">>> display = nacp.{name}." not in text] == []


def test_the_citation_is_of_this_version():
    assert f"version: {nacp.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
