"""What commands write: sets in all kinds of files, whole or not at all."""

import csv
import gzip
import json
import os
import shutil

import numpy as np
import pytest

import nacp
from nacp.cli import outputs
from tests.cli.command_line import classified, done, json_lines, printed_json, write

NAMES, N = ["ant", "bee", "cat", "dög"], 200
PROBS, TRUE, NOISY = classified(N, seed=3)
IDS = [f"img-{i:04}" for i in range(N)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with probabilities that have ids, and calibrations."""
    path = tmp_path_factory.mktemp("made")
    write(
        path / "probs.csv", [["id", *NAMES], *([i, *row] for i, row in zip(IDS, PROBS.tolist(), strict=True))]
    )
    write(path / "truth.csv", [["label"], *([NAMES[i]] for i in TRUE)])
    np.save(path / "probs.npy", PROBS)
    np.save(path / "labels.npy", NOISY)
    for name, alpha, guarantee in (("cal", 0.05, "pac"), ("small", 0.3, "none")):
        options = {"alpha": alpha, "guarantee": guarantee, "classes": NAMES}
        cal = nacp.calibrate(PROBS, np.take(NAMES, NOISY), noise=0.1, **options)
        cal.save(path / f"{name}.json")
    return path


@pytest.fixture(autouse=True)
def folder(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sets_of(name):
    """Read sets back: ids, labels and probabilities of each row."""
    opener = gzip.open if name.endswith(".gz") else open
    if ".jsonl" in name:
        with opener(name, "rt", encoding="utf-8") as file:
            return [tuple(json.loads(line)[each] for each in ("id", "labels", "probs")) for line in file]
    if name.endswith(".parquet"):
        from pyarrow import parquet

        return [(row["id"], row["labels"], row["probs"]) for row in parquet.read_table(name).to_pylist()]
    if name.endswith(".npz"):
        with np.load(name) as file:
            labels, probs = (np.split(file[each], file["offsets"][1:-1]) for each in ("labels", "probs"))
            return [
                (i, [NAMES[y] for y in labels], probs.tolist())
                for i, labels, probs in zip(file["ids"].tolist(), labels, probs, strict=True)
            ]
    with opener(name, "rt", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter="\t" if ".tsv" in name else ",")
    assert header == ["row", "id", "label", "prob"]
    found = {}
    for row, each, label, prob in rows:
        assert IDS[int(row)] == each
        _, labels, probs = found.setdefault(row, (each, [], []))
        labels.extend([label] * bool(label))
        probs.extend(map(float, filter(None, [prob])))
    return list(found.values())


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv", "csv.gz", "tsv.gz", "jsonl.gz", "parquet", "npz"])
def test_sets_have_the_ids_and_probabilities_of_their_rows_and_the_most_probable_label_first(ending):
    done("predict", "small.json", "probs.csv", "--with-probs", "-o", f"s.{ending}")
    expected = []
    for i, row, p in zip(IDS, np.asarray(nacp.load("small.json").predict_set(PROBS)), PROBS, strict=True):
        order = sorted(np.flatnonzero(row), key=lambda label: -p[label])
        expected.append((i, [NAMES[y] for y in order], p[order].tolist()))
    assert sets_of(f"s.{ending}") == expected
    assert {0, 1, 2} <= {len(labels) for _, labels, _ in expected}


@pytest.mark.parametrize("ending", outputs.SET_ENDINGS)
def test_a_failure_while_writing_leaves_what_was_there(folder, ending):
    def blocks():
        yield outputs.Sets(nacp.PredictionSets([0, 1], [0], k=3))
        raise KeyboardInterrupt

    target = folder / f"sets{ending}"
    target.write_text("before")
    before = sorted(folder.iterdir())
    with pytest.raises(KeyboardInterrupt):
        outputs.write_sets(blocks(), target.name)
    assert target.read_text() == "before"
    assert sorted(folder.iterdir()) == before


def test_what_is_written_replaces_files_only_and_never_an_input():
    work = ["calibrate", "probs.npy", "labels.npy", "--noise", "0.1", "-o"]
    os.mkfifo("pipe")
    os.mkdir("sub")
    assert "pipe is a folder, a device or a pipe" in done(*work, "pipe", code=2)
    assert "labels.npy would overwrite what is read" in done(*work, "labels.npy", code=2)
    assert "probs.npy would overwrite" in done(*work, "sub/../probs.npy", code=2)
    write("sites.csv", [["site"], *([i % 2] for i in range(N))])
    said = done(*work, "sites.csv", "--groups", "./sites.csv:site", code=2)
    assert "sites.csv would overwrite what is read" in said
    assert "cannot be written to standard output" in done(*work, "-", code=2)
    predict, words = (
        ["predict", "cal.json", "probs.csv", "-o"],
        "must end in .parquet, .jsonl, .csv, .tsv or .npz",
    )
    assert words in done(*predict, "sets.xml", code=2)
    os.symlink("cal.json", "link.json")
    done(*work, "link.json", "--alpha", "0.3")
    assert os.path.islink("link.json")
    assert nacp.load("cal.json").alpha == 0.3
    assert "probs.csv would overwrite" in done("predict", "cal.json", "probs.csv", "-o", "probs.csv", code=2)
    with pytest.raises(ValueError, match="pipe is not a file that could be replaced"):
        nacp.load("cal.json").save("pipe")


def test_no_set_is_empty_if_that_is_wished():
    for options, empty in (([], True), (["--no-allow-empty"], False)):
        done("predict", "small.json", "probs.csv", "-o", "a.jsonl", *options)
        found = [line["labels"] for line in json_lines("a.jsonl")]
        assert ([] in found) == empty
        measured = printed_json("evaluate", "small.json", "probs.csv", "truth.csv", *options)
        assert measured["empty"] == sum(not each for each in found) / N
        assert measured["mean_size"] == pytest.approx(sum(map(len, found)) / N)
    single = [i for i, labels in enumerate(found) if len(labels) == 1]
    assert [found[i] for i in single] == [[NAMES[PROBS[i].argmax()]] for i in single]


def test_blocks_of_rows_give_the_sets_of_all_rows(monkeypatch):
    nacp.calibrate(PROBS, NOISY, noise=0.1, score="aps").save("aps.json")
    late = PROBS.copy()
    late[-1] *= 2
    np.save("late.npy", late)
    np.save("truth.npy", TRUE)
    monkeypatch.setattr("nacp.cli.predict.BLOCK_ENTRIES", 4 * 37)
    done("predict", "aps.json", "probs.npy", "-o", "sets.jsonl")
    wanted = nacp.load("aps.json").predict_set(PROBS)
    ordered = [sorted(row, key=lambda y: -p[y]) for row, p in zip(wanted, PROBS, strict=True)]
    assert json_lines("sets.jsonl") == ordered
    measured = printed_json("evaluate", "aps.json", "probs.npy", "truth.npy")
    assert measured["coverage"] == nacp.evaluate(wanted, TRUE).coverage
    said = done("predict", "aps.json", "late.npy", code=2)
    assert said.startswith(f"Error: late.npy must have rows that sum to 1; row {N - 1}")
