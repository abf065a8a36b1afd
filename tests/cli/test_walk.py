"""The walk with one's own data: the page, the script and the notebook say and do the same."""

import doctest
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app

pytest.importorskip("sklearn")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))
import your_own_data as walk  # noqa: E402

PAGE = (ROOT / "docs" / "your-own-data.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n\$ (.*?[^\\])\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
SAID = {" ".join(command.replace("\\\n", " ").split()): said for command, said in BLOCKS}
REPORT = walk.COMMANDS[-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("walk")
    walk.make_files(path)
    return path


def run(command):
    return CliRunner().invoke(app, shlex.split(command)[1:])


def test_the_page_has_the_commands_of_the_script():
    assert list(SAID) == walk.COMMANDS


def test_the_commands_say_what_the_page_says(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    for command in walk.COMMANDS[:-1]:
        ended = run(command)
        assert ended.exit_code == 0, ended.output
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert doctest.OutputChecker().check_output(SAID[command], ended.stdout, options), ended.stdout
    shown = re.search(r"```text\n(row,id,label,prob\n.*?)```", PAGE, re.DOTALL)[1]
    assert (folder / "sets.csv").read_text(encoding="utf-8").replace("\r\n", "\n").startswith(shown)


def test_the_report_is_written(folder, monkeypatch, tmp_path):
    """Of a part of the files: all of them take a while."""
    monkeypatch.chdir(tmp_path)
    for name, lines in {"points.csv": 121, "test.csv": 41, "texts.txt": 40}.items():
        kept = (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)[:lines]
        Path(name).write_text("".join(kept), encoding="utf-8")
    ended = run(REPORT)
    assert ended.exit_code == 0, ended.output
    page = Path("report.html").read_text(encoding="utf-8")
    assert "Which of 20 languages?" in page
    assert ">snippet-1000: " in page  # the id of the first test point


def test_the_notebook_runs_and_finds_the_same_threshold(folder, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    path = ROOT / "docs" / "notebooks" / "your-own-data.ipynb"
    monkeypatch.chdir(path.parent)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells), "outputs are not kept"
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    monkeypatch.chdir(folder)
    run(walk.COMMANDS[0])
    assert names["cal"].threshold == nacp.load("cal.json").threshold
