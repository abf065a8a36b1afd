"""What the tests of the command line share."""

import csv
import gzip
import json

import numpy as np
from typer.testing import CliRunner

import nacp
from nacp.cli import app

run = CliRunner().invoke


def done(*arguments, code=0, **options):
    """Run a command that ends with an exit code, and return what it prints."""
    result = run(app, [str(each) for each in arguments], **options)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def printed_json(*arguments, code=0):
    """Run a command with --json, whatever its exit code is if that is None, and return the document."""
    result = run(app, [*map(str, arguments), "--json"])
    assert code is None or result.exit_code == code, result.output
    return json.loads(result.stdout)


def plain(text):
    """What is said, however it is wrapped."""
    return " ".join(str(text).split())


def write(name, rows, mark=",", encoding="utf-8"):
    """Write rows as a text table."""
    with (gzip.open if str(name).endswith(".gz") else open)(
        name, "wt", newline="", encoding=encoding
    ) as file:
        csv.writer(file, delimiter=mark).writerows(rows)


def fill(cells, change=None):
    """Fill in the cells of some rows in what `nacp audit choose` wrote, as a person would."""
    with open("to-check.csv", newline="") as file:
        header, *rows = csv.reader(file)
    for row in rows:
        row[header.index("checked")] = cells.get(int(row[0]), "")
    if change is not None:
        column, value = change
        rows[4][header.index(column)] = value
    write("filled.csv", [header, *rows])


def json_lines(name):
    with open(name, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def classified(n, k=4, noise=0.2, seed=0):
    """Probabilities, true labels drawn from them, and noisy labels."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(k, 0.3), size=n)
    true = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return probs, true, nacp.UniformNoise(noise).sample(true, k, random_state=seed)
