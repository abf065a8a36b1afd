"""Files of odd shapes, types and contents: every command reads or refuses them, with exit code 0 or 2."""

import numpy as np
import pytest

import nacp
from nacp.cli import app
from tests.cli.command_line import classified, run

PROBS, TRUE, _ = classified(60)
ARRAYS = {
    "no columns": np.zeros((60, 0)),
    "no rows": np.zeros((0, 4)),
    "flat": np.zeros(60),
    "one number": np.array(3.0),
    "three axes": np.zeros((60, 4, 1)),
    "complex": np.zeros((60, 4), dtype=complex),
    "records": np.zeros(60, dtype=[("a", "f4"), ("b", "i4")]),
    "dates": np.zeros(60, dtype="M8[s]"),
    "void": np.zeros(60, dtype="V8"),
    "bytes": np.array([b"a"] * 60),
    "empty texts": np.array([""] * 60),
    "huge": np.full(60, 2**64 - 1, dtype=np.uint64),
    "nan": np.full(60, np.nan),
    "two columns": np.zeros((60, 2), dtype=int),
    "1e300": np.full(60, 1e300),
}
TEXTS = {
    "title.csv": "id,label\n",
    "commas.csv": ",,,\n,,,\n",
    "quote.csv": '"\n',
    "open quote.csv": '"a\nb,c',
    "zero.csv": "\x00",
    "long.csv": "a" * 200_000,
    "twice.csv": "id,id\n1,2\n",
    "number.csv": "label\n" + "9" * 400 + "\n",
    "blank.csv": "\n\n\n",
    "mark.csv": "\ufeff",
    "tabs.tsv": "\t\t\n",
    "other plan.csv": "row,checked,plan\n0,a,../x\n",
    "no row.csv": "row,checked,plan\n,1,\n",
    "null.jsonl": "null\n",
    "nested.jsonl": '{"label":{"a":1}}\n',
    "hollow.jsonl": "[[]]\n",
    "no probs.jsonl": '{"probs":[]}\n',
    "large.jsonl": "1e999\n",
    "mixed.jsonl": '"a"\n{"b":1}\n',
    "open.json": "[",
    "object.json": "{}",
}
COMMANDS = [
    "predict cal.json X",
    "predict groups.json p.npy --groups X",
    "calibrate X y.npy --noise 0",
    "calibrate p.npy X --noise 0",
    "calibrate p.npy y.npy --clean X",
    "calibrate p.npy y.npy --audit X",
    "calibrate p.npy y.npy --noise X",
    "calibrate p.npy y.npy --noise 0 --classes X",
    "noise audit X y.npy --k 4",
    "noise audit y.npy X --k 4",
    "noise annotators X",
    "audit choose p.npy y.npy --budget 20 --items X",
    "plan --k 4 --noise 0.1 --groups X",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made")
    np.save(path / "p.npy", PROBS)
    np.save(path / "y.npy", TRUE)
    given = {"noise": None, "alpha": 0.2}
    nacp.calibrate(PROBS, TRUE, **given).save(path / "cal.json")
    nacp.calibrate(PROBS, TRUE, groups=np.array(["a", "b"] * 30), **given).save(path / "groups.json")
    for name, array in ARRAYS.items():
        np.save(path / f"{name}.npy", array)
        np.savez(path / f"{name}.npz", probs=PROBS, labels=TRUE, id=array)
    for name, text in TEXTS.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.filterwarnings("ignore")
def test_odd_files_are_read_or_refused(made, monkeypatch, command):
    monkeypatch.chdir(made)
    names = [f"{name}.{ending}" for name in ARRAYS for ending in ("npy", "npz")] + [*TEXTS]
    for name in names:
        ended = run(app, [name if word == "X" else word for word in command.split()])
        assert ended.exception is None or isinstance(ended.exception, SystemExit), (name, ended.exception)
        assert ended.exit_code in (0, 2), (name, ended.output)
        assert ended.exit_code == 0 or ended.output.splitlines()[-1].startswith("Error: "), name
