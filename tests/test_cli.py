"""The command `nacp`, but for `nacp reproduce`, which has tests of its own."""

import math

import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app

run = CliRunner().invoke


def test_plan_prints_what_the_function_finds():
    result = run(
        app, ["plan", "--classes", "100", "--noise", "0.2", "--points", "5000", "--max-correction", "0.02"]
    )
    assert result.exit_code == 0
    assert result.output.strip() == str(nacp.plan(k=100, noise=0.2, n=5000, excess=0.02))
    # The paper's correction at delta = .05, written out.
    paper = math.sqrt(math.log(4 / 0.05) / (2 * 5000 * (0.8 / 1.2) ** 2))
    assert f"{paper:.2g}" in next(line for line in result.output.splitlines() if line.startswith("nacp"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--classes", "100", "--noise", "1.5"], "noise rate must lie in [0, 1); found 1.5"),
        (["--classes", "1", "--noise", "0.1"], "k must be at least 2"),
    ],
)
def test_a_wrong_option_gets_one_sentence(options, words):
    result = run(app, ["plan", *options])
    assert result.exit_code == 1
    assert words in result.output
    assert "Traceback" not in result.output


def test_every_command_explains_itself():
    assert run(app, ["--help"]).exit_code == 0
    for name in ("plan", "demo", "reproduce"):
        result = run(app, [name, "--help"])
        assert result.exit_code == 0
        assert len(result.output.splitlines()) > 3
