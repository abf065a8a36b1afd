"""One's own files: which column holds the labels, the kinds of files, and what sets look like in them."""

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app
from nacp.cli.inputs import read_clean, read_labels, read_matrix, read_points
from nacp.errors import InputError

run = CliRunner().invoke
NAMES = ["ant", "bee", "cat", "dög"]
N = 600
RNG = np.random.default_rng(3)
TRUE = RNG.integers(4, size=N)
PROBS = RNG.dirichlet(np.full(4, 0.5), size=N) + 2 * np.eye(4)[TRUE] * RNG.random((N, 1))
PROBS /= PROBS.sum(axis=1, keepdims=True)
NOISY = nacp.UniformNoise(0.2).sample(TRUE, 4, RNG)
IDS = [f"img-{i:04}" for i in range(N)]
WORKERS = RNG.integers(4, size=N)  # numbers that could be labels


def write(name, rows, mark=",", encoding="utf-8"):
    opener = gzip.open if str(name).endswith(".gz") else open
    with opener(name, "wt", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=mark).writerows(rows)


def columns(*parts):
    return [list(row) for row in zip(*parts, strict=True)]


def named(labels):
    return [NAMES[i] for i in labels]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A table of probabilities with ids, and one of labels with several columns."""
    monkeypatch.chdir(tmp_path)
    write("probs.csv", [["id", *NAMES], *([i, *row] for i, row in zip(IDS, PROBS.tolist(), strict=True))])
    write("table.csv", [["id", "label", "worker"], *columns(IDS, named(NOISY), WORKERS)])
    write("crowd.csv", [["id", "given", "worker"], *columns(IDS, named(NOISY), WORKERS)])
    write("audit.csv", [["id", "label", "checked"], *columns(IDS, named(NOISY), named(TRUE))])
    return tmp_path


def done(*arguments, code=0):
    result = run(app, list(arguments))
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


# Which column


def test_a_column_called_label_is_taken_and_no_other():
    assert read_labels("table.csv", N, NAMES).tolist() == named(NOISY)
    write("labels.csv", [["worker", "Labels", "x"], *columns(WORKERS, named(NOISY), WORKERS)])
    assert read_labels("labels.csv", N, NAMES).tolist() == named(NOISY)
    write("two.csv", [["label", "labels"], *columns(named(NOISY), named(TRUE))])
    for name, found in {"crowd.csv": "id, given, worker", "two.csv": "label, labels"}.items():
        with pytest.raises(InputError, match=f"{name} has . columns: {found}; name the one that"):
            read_labels(name, N, NAMES)
    assert read_labels("crowd.csv:given", N, NAMES).tolist() == named(NOISY)


def test_a_table_without_a_header_is_refused_if_it_has_several_columns():
    write("bare.csv", columns(NOISY, WORKERS))
    with pytest.raises(InputError, match=r"bare\.csv has 2 columns"):
        read_labels("bare.csv", N)


def test_a_table_of_any_kind_is_refused_if_several_columns_may_be_meant():
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"id": IDS, "given": named(NOISY), "worker": WORKERS}), "crowd.parquet")
    with open("crowd.jsonl", "w") as file:
        file.writelines(
            json.dumps({"given": NAMES[a], "worker": int(b)}) + "\n"
            for a, b in zip(NOISY, WORKERS, strict=True)
        )
    for name in ("crowd.parquet", "crowd.jsonl"):
        with pytest.raises(InputError, match=r"columns: .*given, worker; name the one that is meant"):
            read_labels(name, N, NAMES)
        assert read_labels(f"{name}:given", N, NAMES).tolist() == named(NOISY)


@pytest.mark.parametrize(
    "command",
    [
        ["calibrate", "probs.csv", "crowd.csv", "--noise", "0.2"],
        ["calibrate", "probs.csv", "table.csv", "--clean", "crowd.csv"],
        ["compare", "probs.csv", "crowd.csv", "--noise", "0.2"],
        ["report", "probs.csv", "crowd.csv", "--noise", "0.2"],
        ["noise", "model", "probs.csv", "crowd.csv"],
        ["noise", "audit", "crowd.csv", "crowd.csv:worker", "--classes", "names.txt"],
        ["audit", "choose", "probs.csv", "crowd.csv", "--budget", "50"],
        ["evaluate", "cal.json", "probs.csv", "crowd.csv"],
        ["diagnose", "cal.json", "probs.csv", "crowd.csv"],
        ["diagnose", "cal.json", "probs.csv", "table.csv", "--clean", "crowd.csv"],
    ],
    ids=" ".join,
)
def test_no_command_takes_a_column_in_silence(folder, command):
    (folder / "names.txt").write_text("\n".join(NAMES), encoding="utf-8")
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2")
    said = done(*command, code=2)
    assert said.startswith("Error: crowd.csv has 3 columns: id, given, worker; name the one that is meant")


def test_a_column_is_not_compared_with_itself():
    """An audit of a column with itself would find no error at all."""
    for noisy, clean in [
        ("audit.csv", "audit.csv:label"),
        ("audit.csv:checked", "./audit.csv:checked"),
        ("audit.csv", "audit.csv"),
    ]:
        assert " 2\n" not in (said := done("noise", "audit", noisy, clean, "--classes", "n.txt", code=2))
        assert "is given twice" in said or "has 3 columns" in said
    said = done("calibrate", "probs.csv", "audit.csv", "--clean", "audit.csv:label", code=2)
    assert "is given twice, as the labels and as the true labels; name the columns" in said


def test_of_true_labels_the_column_called_label_is_not_meant_beside_checked_ones():
    with pytest.raises(InputError, match=r"audit\.csv has 3 columns: id, label, checked"):
        read_clean("audit.csv", N, NAMES)
    assert read_clean("audit.csv:checked", N, NAMES).tolist() == named(TRUE)
    assert read_labels("audit.csv", N, NAMES).tolist() == named(NOISY)


def test_probabilities_and_labels_in_one_table_need_a_name_for_the_labels_too():
    rows = ([i, *p, NAMES[y], w] for i, p, y, w in zip(IDS, PROBS.tolist(), NOISY, WORKERS, strict=True))
    write("all.csv", [["id", *NAMES, "given", "worker"], *rows])
    with pytest.raises(InputError, match=r"all\.csv has 7 columns"):
        read_points("all.csv", "all.csv")


def test_columns_that_are_no_class_are_left_out_where_it_is_known_which_are(folder):
    rows = (
        [i, *p, NAMES[y], NAMES[t] if n % 2 else "", "a remark"]
        for n, (i, p, y, t) in enumerate(zip(IDS, PROBS.tolist(), NOISY, TRUE, strict=True))
    )
    header = ["id", *NAMES, "label", "checked"]
    rows = list(rows)
    write("two.csv", [header, *(row[:-1] for row in rows)])
    write("all.csv", [[*header, "remark"], *rows])
    (folder / "names.txt").write_text("\n".join(NAMES), encoding="utf-8")
    done("calibrate", "probs.csv", "table.csv", "--clean", "two.csv:checked", "-o", "a.json")
    done("calibrate", "two.csv", "two.csv:label", "--clean", "two.csv:checked", "-o", "b.json")
    clean = ["--clean", "all.csv:checked", "--classes", "names.txt"]
    done("calibrate", "all.csv", "all.csv:label", *clean, "-o", "c.json")
    assert nacp.load("a.json") == nacp.load("b.json") == nacp.load("c.json")
    said = done("calibrate", "all.csv", "all.csv:label", "--noise", "0.2", code=2)
    assert "or say by --classes FILE which columns are meant" in said


# Kinds of files


def as_jsonl(name, lines):
    opener = gzip.open if name.endswith(".gz") else open
    with opener(name, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def test_all_kinds_of_tables_hold_the_same_points():
    header, rows = ["id", *NAMES], [[i, *row] for i, row in zip(IDS, PROBS.tolist(), strict=True)]
    labels = [["id", "label"], *columns(IDS, named(NOISY))]
    write("p.tsv", [header, *rows], "\t")
    write("p.csv.gz", [header, *rows])
    write("p.tsv.gz", [header, *rows], "\t")
    as_jsonl("p.jsonl", [dict(zip(header, row, strict=True)) for row in rows])
    as_jsonl("q.jsonl", [{"id": i, "probs": dict(zip(NAMES, p, strict=True))} for i, *p in rows])
    as_jsonl("p.jsonl.gz", [dict(zip(header, row, strict=True)) for row in rows])
    write("y.tsv", labels, "\t")
    write("y.csv.gz", labels)
    as_jsonl("y.jsonl", [{"id": i, "label": label} for i, label in labels[1:]])
    as_jsonl("bare.jsonl", named(NOISY))
    for probs in ("p.tsv", "p.csv.gz", "p.tsv.gz", "p.jsonl", "q.jsonl", "p.jsonl.gz"):
        for given in ("y.tsv", "y.csv.gz", "y.csv.gz:label", "y.jsonl", "bare.jsonl"):
            matrix, read, classes = read_points(probs, given)
            assert np.array_equal(matrix, PROBS), probs
            assert list(classes) == NAMES
            assert read.tolist() == named(NOISY), given


def test_json_lines_may_be_lists_of_numbers_and_numbers():
    as_jsonl("p.jsonl", PROBS.tolist())
    as_jsonl("q.jsonl", [{"id": i, "probs": row} for i, row in zip(IDS, PROBS.tolist(), strict=True)])
    as_jsonl("y.jsonl", NOISY.tolist())
    for name in ("p.jsonl", "q.jsonl", "q.jsonl:probs"):
        assert np.array_equal(read_matrix(name)[0], PROBS)
    assert read_labels("y.jsonl", N).tolist() == NOISY.tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 0.5, "b": 0.5}\n{"a": 0.5}\n', "has other keys in line 2; found a; a, b"),
        ("[0.5, 0.5]\n[1.0]\n", "must hold lists of one length"),
        ('[0.5, 0.5]\n{"a": 1}\n', "has another kind of value in line 2"),
        ('[0.5, "x"]\n', "must hold numbers only; found 'x'"),
        ("[0.5, \n", "is not JSON in line 1"),
        ("\n", "is empty"),
    ],
)
def test_json_lines_that_cannot_be_used_are_told(folder, text, words):
    (folder / "p.jsonl").write_text(text)
    with pytest.raises(InputError, match=r"^p\.jsonl ") as caught:
        read_matrix("p.jsonl")
    assert words in str(caught.value)


@pytest.mark.parametrize(("mark", "typed"), [(";", ";"), ("\t", "tab"), ("|", "|")])
def test_the_separator_may_be_another(mark, typed):
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2", "-o", "a.json")
    for name in ("probs", "table"):
        with open(f"{name}.csv", newline="", encoding="utf-8") as file:
            write(f"{name}2.csv", csv.reader(file), mark)
    done("calibrate", "probs2.csv", "table2.csv", "--noise", "0.2", "-o", "b.json", "--separator", typed)
    assert nacp.load("a.json") == nacp.load("b.json")
    done("predict", "b.json", "probs2.csv", "-o", "sets.csv", "--separator", typed)
    with open("sets.csv", newline="", encoding="utf-8") as file:
        assert file.readline() == mark.join(["row", "id", "label"]) + "\r\n"
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2", "-o", "c.json")  # it is not kept
    said = done("calibrate", "probs2.csv", "table2.csv", "--noise", "0.2", code=2)
    assert "probs2.csv" in said
    assert mark == "|" or "give --separator" in said


def test_decimal_commas_are_read_where_commas_separate_nothing(folder):
    lines = [";".join(NAMES), *(";".join(f"{p:.17g}".replace(".", ",") for p in row) for row in PROBS)]
    (folder / "p.csv").write_text("\n".join(lines), encoding="utf-8")
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2", "-o", "a.json")
    write("y.csv", [["label"], *([each] for each in named(NOISY))], ";")
    done("calibrate", "p.csv", "y.csv", "--noise", "0.2", "--separator", ";", "-o", "b.json")
    assert nacp.load("a.json").threshold == nacp.load("b.json").threshold


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("latin-1", "is not text in UTF-8, perhaps in Latin-1 or Windows-1252: save it as UTF-8"),
        ("utf-16", "is text in UTF-16: save it as UTF-8"),
    ],
)
def test_text_that_is_not_utf_8_is_called_that(encoding, words):
    write("y.csv", [["label"], *([each] for each in named(NOISY))], encoding=encoding)
    with pytest.raises(InputError) as caught:
        read_labels("y.csv", N, NAMES)
    assert str(caught.value) == f"y.csv {words}"


def test_damaged_compressed_files_are_told(folder):
    (folder / "y.csv.gz").write_bytes(b"label\nant\n")
    with pytest.raises(InputError, match="damaged, or not compressed by gzip"):
        read_labels("y.csv.gz")


@pytest.mark.parametrize("name", ["parts", "parts.npy", "parts.csv"])
def test_a_folder_is_refused(folder, name):
    (folder / name).mkdir()
    for read in (read_matrix, read_labels, lambda given: read_points(given, given)):
        with pytest.raises(InputError, match=f"^{name} is a folder; give a file$"):
            read(name)


def test_bfloat16_in_safetensors_is_read_as_float32(folder):
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    probs = torch.tensor(PROBS).bfloat16()
    safetensors.save_file({"probs": probs, "labels": torch.tensor(NOISY)}, folder / "a.safetensors")
    matrix, labels, _ = read_points("a.safetensors", "a.safetensors")
    assert matrix.dtype == np.float32
    assert np.array_equal(matrix, probs.float())
    assert np.array_equal(labels, NOISY)


def test_arrays_of_python_objects_are_called_what_they_are():
    np.save("y.npy", np.array(named(NOISY), dtype=object), allow_pickle=True)
    np.savez("y.npz", labels=np.array(named(NOISY), dtype=object))
    for name in ("y.npy", "y.npz"):
        with pytest.raises(InputError, match=rf"^{name} holds Python objects .*astype\(str\)"):
            read_labels(name, N)


def test_whole_numbers_that_are_floats_are_labels_in_arrays_as_in_text():
    np.save("p.npy", PROBS)
    np.save("y.npy", NOISY.astype(float))
    write("y.csv", [[f"{each}.0"] for each in NOISY])
    for name in ("y.npy", "y.csv"):
        assert read_labels(name, N).tolist() == NOISY.tolist()
        done("calibrate", "p.npy", name, "--noise", "0.2")
    np.save("y.npy", NOISY + 0.5)
    assert "must be whole numbers from 0 to 3" in done(
        "calibrate", "p.npy", "y.npy", "--noise", "0.2", code=2
    )


# Sets in files


def sets_of(name):
    """Read sets back: ids, labels and probabilities of each row."""
    if name.endswith((".jsonl", ".jsonl.gz")):
        with (gzip.open if name.endswith(".gz") else open)(name, "rt", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [(line["id"], line["labels"], line["probs"]) for line in lines]
    if name.endswith(".parquet"):
        from pyarrow import parquet

        table = parquet.read_table(name).to_pylist()
        return [(row["id"], row["labels"], row["probs"]) for row in table]
    if name.endswith(".npz"):
        with np.load(name) as file:
            cuts = file["offsets"][1:-1]
            parts = (np.split(file[each], cuts) for each in ("labels", "probs"))
            return [
                (i, [NAMES[y] for y in labels], probs.tolist())
                for i, labels, probs in zip(file["ids"].tolist(), *parts, strict=True)
            ]
    mark = "\t" if ".tsv" in name else ","
    with (gzip.open if name.endswith(".gz") else open)(name, "rt", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, delimiter=mark)
    assert header == ["row", "id", "label", "prob"]
    found = [(i, [], []) for i in IDS]
    for row, name, label, prob in rows:
        assert IDS[int(row)] == name
        found[int(row)][1].append(label)
        found[int(row)][2].append(float(prob))
    return found


@pytest.mark.parametrize(
    "name", ["s.jsonl", "s.csv", "s.tsv", "s.csv.gz", "s.tsv.gz", "s.jsonl.gz", "s.parquet", "s.npz"]
)
def test_sets_have_the_ids_and_probabilities_of_their_rows_and_the_most_probable_label_first(name):
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2", "--alpha", "0.02")
    done("predict", "cal.json", "probs.csv", "--with-probs", "-o", name)
    cal = nacp.load("cal.json")
    expected = []
    for i, row, p in zip(IDS, np.asarray(cal.predict_set(PROBS)), PROBS, strict=True):
        order = sorted(np.flatnonzero(row), key=lambda label: -p[label])
        expected.append((i, named(order), p[order].tolist()))
    assert sets_of(name) == expected
    assert any(len(labels) > 1 for _, labels, _ in expected)


def test_without_ids_and_probabilities_a_line_is_a_list():
    np.save("p.npy", PROBS)
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2")
    done("predict", "cal.json", "p.npy", "-o", "a.jsonl")
    with open("a.jsonl", encoding="utf-8") as file:
        assert all(isinstance(json.loads(line), list) for line in file)
    assert "names a column, and p.npy has none" in done("predict", "cal.json", "p.npy", "--id", "x", code=2)


def test_any_column_may_name_the_rows():
    rows = ([*p, i] for i, p in zip(IDS, PROBS.tolist(), strict=True))
    write("p.csv", [[*NAMES, "file name"], *rows])
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2")
    done("predict", "cal.json", "p.csv", "--id", "file name", "-o", "a.jsonl")
    done("predict", "cal.json", "probs.csv", "-o", "b.jsonl")
    with open("a.jsonl", encoding="utf-8") as a, open("b.jsonl", encoding="utf-8") as b:
        assert a.read() == b.read()
    assert "holds no 'x', but" in done("predict", "cal.json", "p.csv", "--id", "x", code=2)


def test_no_set_is_empty_if_that_is_wished():
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2", "--alpha", "0.6", "--guarantee", "none")
    write("truth.csv", [["label"], *([each] for each in named(TRUE))])
    for options, empty in (([], True), (["--no-empty"], False)):
        done("predict", "cal.json", "probs.csv", "-o", "a.jsonl", *options)
        with open("a.jsonl", encoding="utf-8") as file:
            found = [json.loads(line)["labels"] for line in file]
        assert ([] in found) == empty
        measured = json.loads(done("evaluate", "cal.json", "probs.csv", "truth.csv", "--json", *options))
        assert measured["empty"] == sum(not each for each in found) / N
        assert measured["mean_size"] == pytest.approx(sum(map(len, found)) / N)
    firsts = [labels[0] for labels, row in zip(found, PROBS, strict=True) if len(labels) == 1]
    assert firsts == [
        NAMES[row.argmax()] for labels, row in zip(found, PROBS, strict=True) if len(labels) == 1
    ]


def test_evaluate_names_the_worst_classes_and_says_what_each_number_is():
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2")
    write("truth.csv", [["label"], *([each] for each in named(TRUE))])
    said = done("evaluate", "cal.json", "probs.csv", "truth.csv")
    sets = nacp.load("cal.json").predict_set(PROBS)
    found = nacp.coverage_by_class(sets, named(TRUE))
    worst = found.worst_first()[0]
    assert f"{NAMES[worst]}" in said
    hits = int(np.asarray(sets)[worst == TRUE, worst].sum())
    assert f"{hits / (worst == TRUE).sum():.4f}" in said
    assert str((worst == TRUE).sum()) in said
    words = " ".join(said.split())
    for each in ("the share of sets that hold the true label", "sets of similar size (0 to 1, 2 to 3"):
        assert each in words
    document = json.loads(done("evaluate", "cal.json", "probs.csv", "truth.csv", "--json"))
    first = document["worst_classes"][0]
    assert (first["class"], first["count"]) == (NAMES[worst], int((worst == TRUE).sum()))
    assert first["low"] < first["coverage"] < first["high"]
    assert str(found).splitlines()[2].split()[0] == NAMES[worst]


# Signals, streams and terminals

NACP = [sys.executable, "-c", "import _nacp_command; _nacp_command.main()"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_command_that_is_ended_leaves_nothing_behind(folder, name):
    rows = np.repeat(PROBS, 600, axis=0)
    np.save("large.npy", rows)
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2")
    before = set(os.listdir())
    process = subprocess.Popen([*NACP, "predict", "cal.json", "large.npy", "-o", "new.jsonl"])
    while set(os.listdir()) == before and process.poll() is None:
        time.sleep(0.01)
    number = getattr(signal, name)
    process.send_signal(number)
    assert process.wait(timeout=60) == 128 + number
    assert set(os.listdir()) == before


def test_standard_output_that_has_ascii_only_gets_all_sets():
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2")
    done("predict", "cal.json", "probs.csv", "-o", "a.jsonl")
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    printed = subprocess.run(
        [*NACP, "predict", "cal.json", "probs.csv", "-o", "-"],
        env=ascii_only,
        capture_output=True,
        check=True,
    ).stdout.decode("ascii")
    with open("a.jsonl", encoding="utf-8") as file:
        wanted = [json.loads(line) for line in file]
    assert [json.loads(line) for line in printed.splitlines()] == wanted
    assert any("dög" in line["labels"] for line in wanted)
    write("truth.csv", [["label"], *([each] for each in named(TRUE))])
    evaluate = [*NACP, "evaluate", "cal.json", "probs.csv", "truth.csv"]
    assert b"pass: " in subprocess.run(evaluate, env=ascii_only, capture_output=True, check=True).stdout
    document = subprocess.run([*evaluate, "--json"], env=ascii_only, capture_output=True, check=True).stdout
    assert "dög" in {each["class"] for each in json.loads(document)["worst_classes"]}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "arguments", [["--help"], ["calibrate", "--help"], ["plan", "--classes", "9", "--noise", ".1"]]
)
def test_an_output_that_is_full_is_told_in_one_sentence(arguments):
    with open("/dev/full", "w") as full:
        ended = subprocess.run([*NACP, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (2, "Error: standard output: No space left on device\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["calibrate", "a", "b", "--alpha", "10%"], "--alpha must be a number; found '10%'; write 0.1"),
        (["calibrate", "a", "b", "--alpha=ten"], "--alpha must be a number; found 'ten'"),
        (["calibrate", "a", "b", "--seed", "x"], "--seed must be a whole number; found 'x'"),
        (["calibrate", "a"], "missing argument 'LABELS' (see root calibrate --help)"),
        (
            ["calibrate", "a", "b", "--separator", "ab"],
            "must be one character, such as",
        ),
        (["plan", "--classes", "100000000"], "--k must be at most 1,000,000"),
    ],
)
def test_a_wrong_option_gets_one_line_with_what_was_typed(arguments, words):
    said = run(app, arguments, prog_name="root")
    assert said.exit_code == 2
    assert said.output.startswith("Error: ")
    assert words in said.output
    assert len(said.output.splitlines()) == 1


@pytest.mark.parametrize(
    "command", [[], ["calibrate"], ["predict"], ["noise"], ["noise", "audit"], ["audit"]]
)
def test_flags_are_shown_without_a_type(command):
    assert "bool" not in done(*command, "--help")


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--classes", "1000", "--noise", "0.2", "--points", "25000"],
        ["compare", "probs.csv", "table.csv", "--noise", "0.2", "--score", "hps"],
        ["calibrate", "probs.csv", "table.csv", "--noise", "0.2"],
        ["noise", "model", "probs.csv", "table.csv"],
        ["diagnose", "ready.json", "probs.csv", "table.csv"],
        ["evaluate", "ready.json", "probs.csv", "truth.csv"],
        ["audit", "choose", "probs.csv", "table.csv", "--budget", "50"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_commands_print_fits_the_terminal(monkeypatch, arguments, width):
    done("calibrate", "probs.csv", "table.csv", "--noise", "0.2", "-o", "ready.json")
    write("truth.csv", [["label"], *([each] for each in named(TRUE))])
    wide = done(*arguments).split()
    monkeypatch.setenv("COLUMNS", str(width))
    said = done(*arguments)
    assert max(map(len, said.splitlines())) <= width
    numbers = {word.strip("();,:.") for word in wide if any(map(str.isdigit, word))}
    assert numbers <= {word.strip("();,:.") for word in said.split()}, "no number is lost"


def test_plan_takes_the_names_of_the_other_commands_and_of_python_too():
    first = done("plan", "--classes", "9", "--noise", "0.1", "--max-correction", "0.02")
    assert done("plan", "--k", "9", "--noise", "0.1", "--excess", "0.02") == first


def test_labels_of_an_audit_are_not_told_of_probabilities(folder):
    np.save("a.npy", [0, 1, 5])
    np.save("b.npy", [0, 1, 1])
    said = done("noise", "audit", "a.npy", "b.npy", "--k", "4", code=2)
    assert said == "Error: a.npy must lie from 0 to 3, for 4 classes; found 0 to 5\n"


def test_numbers_have_thousands_separators_and_one_is_singular():
    probs = np.random.default_rng(0).dirichlet(np.ones(4), 1000)
    noisy = nacp.UniformNoise(0.2).sample(probs.argmax(axis=1), 4, random_state=0)
    cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee="none")
    assert "from 1,000 noisy labels" in str(cal)
    one = nacp.calibrate(PROBS[:1], NOISY[:1], noise=0.2, guarantee="none")
    assert "from 1 noisy label of" in str(one)
    assert max(map(len, str(cal).splitlines())) <= 80
