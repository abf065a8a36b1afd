"""The same points in any file are the same points; a file that cannot be used gets one sentence."""

import csv
import gzip
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest

import nacp
from nacp.cli import inputs
from nacp.cli.inputs import read_class_list, read_classes, read_clean, read_labels, read_matrix, read_points
from nacp.cli.models import NoiseOptions
from nacp.errors import InputError
from tests.cli.command_line import write

NAMES = ["ant", "bee", "dög"]
RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(3), size=40).astype(np.float32)
LABELS, TRUE, WORKERS = RNG.integers(3, size=(3, 40))  # the workers have numbers that could be labels
NAMED, NAMED_TRUE = [NAMES[i] for i in LABELS], [NAMES[i] for i in TRUE]
ROWS, IDS = PROBS.tolist(), [f"img-{i:02}" for i in range(40)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def columns(*parts):
    return [list(row) for row in zip(*parts, strict=True)]


def beside(*parts):
    """Rows of probabilities between other columns."""
    return [[*([] if part is None else [part]), *row, *more] for part, row, *more in zip(*parts, strict=True)]


def write_parquet(name, **columns):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), name)


def write_safetensors(name, **arrays):
    from safetensors.numpy import save_file

    save_file(arrays, name)


def write_json(name, lines):
    with (gzip.open if name.endswith(".gz") else open)(name, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def refused(words, read, *arguments):
    with pytest.raises(InputError, match=r"^[^\n]+$") as caught:
        read(*arguments)
    assert words in str(caught.value)


# Kinds of files


def matrix_files():
    """Write the same matrix in all ways; return the files without names of columns, and those with."""
    by_name = {name: PROBS[:, i] for i, name in enumerate(NAMES)}
    table = [["id", *NAMES], *beside(IDS, ROWS)]
    np.save("a.npy", PROBS)
    np.savez("b.npz", probs=PROBS, labels=LABELS)
    np.savez("c.npz", only=PROBS)
    np.savez("d.npz", x=PROBS, y=LABELS)
    write_safetensors("e.safetensors", probs=PROBS, labels=LABELS)
    write("f.csv", ROWS)
    write("g.csv", [NAMES, *ROWS])
    write("h.csv", table)
    write("i.csv", [["", *NAMES], *beside(range(40), ROWS)])
    write("j.csv", [["0", "1", "2"], *ROWS])
    write("k.csv.gz", table)
    write("l.tsv", table, "\t")
    write("m.tsv.gz", table, "\t")
    write_json("n.jsonl", [dict(zip(table[0], row, strict=True)) for row in table[1:]])
    write_json("o.jsonl.gz", [{"id": i, "probs": dict(zip(NAMES, p, strict=True))} for i, *p in table[1:]])
    write_json("p.jsonl", ROWS)
    write_json("q.jsonl", [{"id": i, "probs": row} for i, row in zip(IDS, ROWS, strict=True)])
    write_parquet("r.parquet", **by_name)
    write_parquet("s.parquet", id=np.arange(40), **by_name)
    write_parquet("t.parquet", probs=ROWS)
    write_parquet("u.parquet", x=ROWS, y=LABELS)
    bare = "a.npy b.npz c.npz d.npz:x e.safetensors e.safetensors:probs f.csv j.csv p.jsonl q.jsonl"
    named = "g.csv h.csv i.csv k.csv.gz l.tsv m.tsv.gz n.jsonl o.jsonl.gz r.parquet s.parquet"
    return [*bare.split(), "q.jsonl:probs", "t.parquet", "u.parquet:x"], named.split()


def test_every_kind_of_file_holds_the_same_matrix():
    bare, named = matrix_files()
    for name in (*bare, *named):
        matrix, names, _ = read_matrix(name)
        assert np.array_equal(np.asarray(matrix).astype(np.float32), PROBS), name
        assert names == (None if name in bare else NAMES), name
    assert isinstance(read_matrix("a.npy").values, np.memmap)
    assert read_matrix("r.parquet").values.dtype == np.float32


def label_files():
    np.save("a.npy", LABELS)
    np.save("b.npy", LABELS.astype(float))
    np.save("c.npy", np.array(NAMED))
    np.savez("d.npz", probs=PROBS, labels=LABELS)
    write_safetensors("e.safetensors", labels=LABELS, probs=PROBS)
    write("f.csv", columns(LABELS))
    write("g.csv", columns([f"{each}.0" for each in LABELS]))
    write("h.csv", [["label"], *columns(LABELS)])
    write("i.csv", [["label"], *columns(NAMED)])
    write("j.csv.gz", [["worker", "Labels", "id"], *columns(WORKERS, NAMED, IDS)])
    write("k.tsv", [["id", "label"], *columns(IDS, NAMED)], "\t")
    write_json("l.jsonl", LABELS.tolist())
    write_json("m.jsonl", NAMED)
    write_json("n.jsonl", [{"id": i, "label": name} for i, name in zip(IDS, NAMED, strict=True)])
    write_parquet("o.parquet", id=np.arange(40), label=LABELS)
    write_parquet("p.parquet", label=NAMED, worker=WORKERS)
    numbers = "a.npy", "b.npy", "d.npz", "e.safetensors", "f.csv", "g.csv", "h.csv", "l.jsonl", "o.parquet"
    names = "c.npy", "i.csv", "j.csv.gz", "j.csv.gz:Labels", "k.tsv", "m.jsonl", "n.jsonl", "p.parquet:label"
    return numbers, names


def test_every_kind_of_file_holds_the_same_labels():
    numbers, names = label_files()
    for name in (*numbers, *names):
        assert read_labels(name, 40, NAMES).tolist() == NAMED, name
        assert read_labels(name, 40).tolist() == (LABELS.tolist() if name in numbers else NAMED), name


def test_standard_input_is_csv(monkeypatch):
    text = io.StringIO()
    csv.writer(text).writerows([NAMES, *ROWS])
    np.save("y.npy", LABELS)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\ufeff" + text.getvalue()))
    matrix, labels, classes = read_points("-", "y.npy")
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert (labels.tolist(), classes) == (NAMED, NAMES)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(map(str, LABELS))))
    np.save("p.npy", PROBS)
    assert np.array_equal(read_points("p.npy", "-")[1], LABELS)
    refused("once only", read_points, "-", "-")


def test_bfloat16_in_safetensors_is_read_as_float32():
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    probs = torch.tensor(PROBS).bfloat16()
    safetensors.save_file({"probs": probs, "labels": torch.tensor(LABELS)}, "a.safetensors")
    matrix, labels, _ = read_points("a.safetensors", "a.safetensors")
    assert matrix.dtype == np.float32
    assert np.array_equal(matrix, probs.float())
    assert np.array_equal(labels, LABELS)


def test_the_index_of_pandas_is_no_column():
    order = np.random.default_rng(0).permutation(40)
    frame = pd.DataFrame(PROBS, columns=NAMES, index=order).assign(label=LABELS)
    frame.to_parquet("all.parquet")
    frame[["label"]].to_parquet("y.parquet")
    pd.DataFrame(PROBS, columns=NAMES, index=pd.Index(order, name="who")).to_parquet("p.parquet")
    frame.set_index("label").to_parquet("of-labels.parquet")
    for probs, labels in [
        ("all.parquet", "all.parquet:label"),
        ("p.parquet", "y.parquet"),
        ("p.parquet", "of-labels.parquet:label"),
    ]:
        matrix, given, names = read_points(probs, labels)
        assert np.array_equal(matrix, PROBS)
        assert (names, given.tolist()) == (NAMES, NAMED)


@pytest.mark.parametrize(("module", "name"), [("pyarrow", "a.parquet"), ("safetensors", "a.safetensors")])
def test_a_missing_extra_is_named(folder, monkeypatch, module, name):
    (folder / name).write_bytes(b"something")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"needs {module}, .* pip install 'nacp\[io\]'"):
        read_matrix(name)


def damaged_files(folder):
    for name in ("x.npy", "x.npz", "x.parquet", "x.safetensors", "x.csv"):
        (folder / name).write_bytes(b"\xff\x00nothing of the kind\x00" * 9)
    np.savez("cut.npz", probs=PROBS)
    whole = (folder / "cut.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    np.save("shape.npy", PROBS)
    shape = (folder / "shape.npy").read_bytes()
    (folder / "shape.npy").write_bytes(shape.replace(b"(40, 3)", b"(-5, 4)", 1))
    np.save("objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    (folder / "folder.npy").mkdir()
    (folder / "plain").mkdir()
    for name, text in {
        "empty.npy": "",
        "empty.csv": "",
        "ragged.csv": "0.5,0.5\n1.0\n",
        "words.csv": "a,b\n0.5,half\n",
        "semicolons.csv": "a;b\n0.5;0.5\n",
        "tabs.csv": "0.5\t0.5\n0.5\t0.5\n",
        "files.csv": "filename,ant,bee\na.png,0.5,0.5\n",
        "y.csv.gz": "label\nant\n",
        "keys.jsonl": '{"a": 0.5, "b": 0.5}\n{"a": 0.5}\n',
        "ragged.jsonl": "[0.5, 0.5]\n[1.0]\n",
        "kinds.jsonl": '[0.5, 0.5]\n{"a": 1}\n',
        "words.jsonl": '[0.5, "x"]\n',
        "cut.jsonl": "[0.5, \n",
        "blank.jsonl": "\n",
        "large.jsonl": f"[{'9' * 400}]\n",
    }.items():
        (folder / name).write_text(text)
    write_parquet("words.parquet", a=["x", "y"], b=[0.5, 0.5])
    write_parquet("ragged.parquet", probs=[[0.5, 0.5], [1.0]])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.npy", "missing.npy does not exist"),
        ("probs.txt", "it must end in .npy"),
        ("folder.npy", "folder.npy is a folder; give a file"),
        ("plain", "plain is a folder"),
        ("empty.npy", "empty.npy is empty"),
        ("empty.csv", "empty.csv is empty"),
        ("x.npy", "x.npy cannot be read as .npy"),
        ("shape.npy", "shape.npy cannot be read as .npy"),
        ("cut.npz", "cut.npz cannot be read as .npz"),
        ("x.parquet", "x.parquet cannot be read as .parquet"),
        ("x.safetensors", "x.safetensors cannot be read as .safetensors"),
        ("x.csv", "x.csv cannot be read as .csv: it is not text"),
        ("objects.npy", "objects.npy holds Python objects (dtype object)"),
        ("ragged.csv", "line 2 has 1 cells, not 2"),
        ("words.csv", "found 'half' in line 2"),
        ("words.parquet", "'a' is string"),
        ("ragged.parquet", "lists of one length"),
        ("words.csv:a", "give it without :a"),
        ("semicolons.csv", "semicolons.csv: its columns seem to be separated by ';'; give --separator ';'"),
        ("tabs.csv", "tabs.csv: its columns seem to be separated by tabs; give --separator tab"),
        ("files.csv", "'a.png' in line 2; a column of text must come first and be called id, or be the"),
        ("y.csv.gz", "y.csv.gz cannot be read as .csv: it is damaged, or not compressed by gzip"),
        ("keys.jsonl", "has other keys in line 2; found a; a, b"),
        ("ragged.jsonl", "must hold lists of one length"),
        ("kinds.jsonl", "has other keys in line 2"),
        ("words.jsonl", "must hold numbers only; found 'x'"),
        ("cut.jsonl", "is not JSON in line 1"),
        ("large.jsonl", "numbers that are not too large"),
    ],
)
def test_a_file_that_cannot_be_used_gets_one_sentence(folder, name, words):
    damaged_files(folder)
    refused(words, read_matrix, name)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_text_that_is_not_utf_8_is_called_that(encoding):
    write("y.csv", [["label"], *columns(["dög"] * 40)], encoding=encoding)
    refused("y.csv cannot be read as .csv: it is not text in UTF-8", read_labels, "y.csv", 40, NAMES)


def test_arrays_of_python_objects_are_called_what_they_are():
    np.save("y.npy", np.array(NAMED, dtype=object), allow_pickle=True)
    np.savez("y.npz", labels=np.array(NAMED, dtype=object))
    for name in ("y.npy", "y.npz"):
        refused("astype(str)", read_labels, name, 40)


# Headers


def test_zeros_and_ones_and_ranks_are_no_header():
    for rows in ([[0, 1], [1, 0], [0, 1]], [[1, 0], [0.2, 0.8]]):
        write("a.csv", rows)
        assert read_matrix("a.csv").values.tolist() == rows
    write("a.csv", [[3, 1, 2], [1, 2, 3]])
    assert len(read_matrix("a.csv").values) == 2
    write("a.csv", [range(3), [0, 0, 1], *ROWS])  # certain rows do not hide a header
    assert len(read_matrix("a.csv").values) == 41


def test_a_header_of_0_and_1_is_told_from_a_point_by_how_it_is_written(folder):
    for below, header in {
        "0.25,0.75\n1.0,0.0\n": True,  # as pandas writes it
        "0.25,0.75\n": True,
        "1,0\n0,1\n": False,
        "": False,
    }.items():
        (folder / "two.csv").write_text("0,1\n" + below)
        assert len(read_matrix("two.csv").values) == below.count("\n") + (not header)
    (folder / "two.csv").write_text("0,1\n0.25,0.75\n1,0\n")
    refused("may be a header or a point", read_matrix, "two.csv")
    (folder / "none.csv").write_text("0,1,2\n")
    refused("has a header and nothing below it", read_matrix, "none.csv")


@pytest.mark.parametrize(
    "header",
    [sorted(range(12), key=str), list(range(1, 11)), [30, 10, 20], [2, 1], [1, 0, 2]],
    ids=["by letters", "from 1", "any", "two", "turned"],
)
def test_numbers_in_a_header_are_names_unless_they_are_the_places(header):
    k = len(header)
    labels = [header[i % k] for i in range(40)]
    # The largest probability is that of the label.
    rows = (0.5 / k + 0.5 * (np.array(header)[None, :] == np.array(labels)[:, None])).tolist()
    write("all.csv", [[*header, "label"], *([*row, y] for row, y in zip(rows, labels, strict=True))])
    write("p.csv", [header, *rows])
    write("y.csv", columns(labels))
    np.save("y.npy", labels)
    write_parquet("p.parquet", **{str(c): [row[j] for row in rows] for j, c in enumerate(header)})
    for files in ("all.csv all.csv", "p.csv y.csv", "p.csv y.npy", "p.parquet y.npy"):
        probs, given = files.split()
        matrix, read, classes = read_points(probs, given)
        assert classes == [str(each) for each in header]
        assert [classes[i] for i in matrix.argmax(axis=1)] == read.tolist() == [str(y) for y in labels]
    # Classes known by number are found where the header says; names in another order are put in order.
    if sorted(header) == list(range(k)):
        assert read_points("p.csv", "y.npy", k=k)[0].argmax(axis=1).tolist() == labels
    turned, known = inputs.read_rows("p.csv", sorted(header))
    assert [known[i] for i in turned.argmax(axis=1)] == labels


@pytest.mark.parametrize("first", ["0", "2", "5", "1.5"])
def test_a_number_too_many_is_never_taken_for_a_header(first):
    """It may be a label, and then all others would belong to other rows."""
    np.save("p.npy", PROBS)
    write("p.csv", [NAMES, *ROWS])
    write("y.csv", [[first], *columns(LABELS)])
    for probs in ("p.npy", "p.csv"):
        words = f"y.csv holds 41 labels, but {probs} has 40 rows; if its first line is a header, give y.csv:"
        refused(f"{words}HEADER", read_points, probs, "y.csv")
        assert read_points(probs, f"y.csv:{first}")[1].shape == (40,)


def test_a_header_that_can_be_nothing_else_is_one():
    write("a.csv", [["0"], *columns(NAMED)])
    write("b.csv", [["", "0"], *enumerate(LABELS)])
    write("c.csv", [["label"], *columns(LABELS[1:])])
    assert read_labels("a.csv", 40, NAMES).tolist() == NAMED
    assert read_labels("b.csv", 40).tolist() == LABELS.tolist()
    assert read_labels("c.csv", 40).tolist() == LABELS[1:].tolist()  # too few, but numbers


@pytest.mark.parametrize("names", [["-1", "1", "2"], ["0.0", "1.0", "2.0"], ["nan", "fra", "inf"]])
def test_names_that_python_reads_as_numbers_are_names_in_a_header(names):
    write("p.csv", [[*names, "label"], *([*row, names[0]] for row in ROWS)])
    matrix, given, classes = read_points("p.csv", "p.csv:label")
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert (classes, set(given.tolist())) == (names, {names[0]})


# Which columns


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_table_may_hold_probabilities_and_labels(ending):
    write("all.csv", [["id", *NAMES, "animal"], *beside(IDS, ROWS, NAMED)])
    by_name = {name: PROBS[:, i] for i, name in enumerate(NAMES)}
    write_parquet("all.parquet", id=np.arange(40), **by_name, animal=NAMED)
    matrix, given, classes = read_points(f"all.{ending}", f"all.{ending}:animal")
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert (given.tolist(), classes) == (NAMED, NAMES)
    refused("holds no 'fruit', but id, ant, bee", read_points, f"all.{ending}", f"all.{ending}:fruit")


def test_labels_beside_probabilities_need_a_header_and_may_stand_first():
    write("all.csv", beside([None] * 40, ROWS, LABELS))
    refused("all.csv has no header, so its labels", read_points, "all.csv", "all.csv")
    write("all.csv", [["animal", *NAMES], *beside(NAMED, ROWS)])
    assert np.array_equal(read_points("all.csv", "all.csv:animal")[0].astype(np.float32), PROBS)
    write("all.csv", [range(4), *beside([None] * 40, ROWS, LABELS)])
    matrix, given, classes = read_points("all.csv", "all.csv:3")
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert (given.tolist(), classes) == (LABELS.tolist(), None)
    write("all.csv", [["id", *NAMES, "given", "worker"], *beside(IDS, ROWS, NAMED, WORKERS)])
    refused("all.csv has 6 columns", read_points, "all.csv", "all.csv")


def test_known_classes_are_found_among_other_columns():
    write("all.csv", [["remark", *NAMES[::-1], "x"], *beside(IDS, PROBS[:, ::-1].tolist(), NAMED)])
    matrix, classes = inputs.read_rows("all.csv", NAMES)
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert classes == NAMES
    write("p.csv", [["file", "ant", "bee", "Dög"], *beside(IDS, ROWS)])
    refused("p.csv has no column 'dög'; its columns are file, ant", inputs.read_rows, "p.csv", NAMES)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_column_called_label_is_taken_and_no_other(ending):
    tables = {
        "crowd": {"id": IDS, "given": NAMED, "worker": WORKERS.tolist()},
        "two": {"label": NAMED, "labels": NAMED_TRUE},
        "audit": {"id": IDS, "label": NAMED, "checked": NAMED_TRUE},
    }
    for name, table in tables.items():
        if ending == "csv":
            write(f"{name}.csv", [list(table), *columns(*table.values())])
        elif ending == "parquet":
            write_parquet(f"{name}.parquet", **table)
        else:
            rows = columns(*table.values())
            write_json(f"{name}.jsonl", [dict(zip(table, row, strict=True)) for row in rows])
    words = f"crowd.{ending} has 3 columns: id, given, worker; name the one that is meant, as crowd.{ending}:"
    refused(f"{words}given", read_labels, f"crowd.{ending}", 40, NAMES)
    refused("has 2 columns: label, labels", read_labels, f"two.{ending}", 40, NAMES)
    assert read_labels(f"crowd.{ending}:given", 40, NAMES).tolist() == NAMED
    assert read_labels(f"audit.{ending}", 40, NAMES).tolist() == NAMED
    refused("has 3 columns: id, label, checked", read_clean, f"audit.{ending}", 40, NAMES)
    assert read_clean(f"audit.{ending}:checked", 40, NAMES).tolist() == NAMED_TRUE


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_column_that_numbers_the_rows_is_no_class(start, shuffled):
    order = np.random.default_rng(0).permutation(40) if shuffled else np.arange(40)
    numbered = beside((order + start).tolist(), ROWS)
    write("bare.csv", numbered)
    write("named.csv", [["image", *NAMES], *numbered])
    for name in ("bare.csv", "named.csv"):
        refused("seems to number its rows in the first column", inputs.read_rows, name)


def test_numbers_that_are_data_are_not_taken_for_row_numbers_or_headers():
    counts = np.random.default_rng(0).integers(0, 10**6, size=(40, 3))
    write("counts.csv", counts.tolist())
    assert np.array_equal(inputs.read_rows("counts.csv")[0], counts)
    write("headed.csv", [range(3), *counts.tolist()])  # as pandas writes it
    assert np.array_equal(inputs.read_rows("headed.csv", k=3)[0], counts)
    write("one.csv", [[3, 5, 2]])
    assert inputs.read_rows("one.csv")[0].tolist() == [[3, 5, 2]]
    write_parquet("none.parquet", a=np.zeros(0), b=np.zeros(0), c=np.zeros(0))
    assert inputs.read_rows("none.parquet")[0].shape == (0, 3)
    write("percent.csv", [[10, 0, 90], [33.3, 33.3, 33.4]])
    with pytest.raises(InputError, match="not the numbers of the 3 classes"):
        inputs.read_rows("percent.csv", k=3)


# What is missing or wrong


@pytest.mark.parametrize("cell", ["", "NA", "nan", "None"])
@pytest.mark.parametrize("classes", [None, NAMES])
def test_a_label_that_is_missing_is_told_by_its_row(cell, classes):
    given = [NAMES[i] if classes else i for i in LABELS]
    given[4] = cell
    write("y.csv", [["id", "label"], *enumerate(given)])
    write("bare.csv", columns(given))
    write_parquet("y.parquet", label=[str(each) if each != cell else None for each in given])
    for name in ("y.csv", "y.csv:label", "y.parquet", *(["bare.csv"] if cell else [])):
        refused("has no label in row 4; drop such rows first", read_labels, name, 40, classes)


def test_nothing_shifts_against_other_files(folder):
    """What is missing in one file must not be closed up in silence."""
    for text, words in {
        "1\n\n2\n": "has an empty line, 2, above others",
        "id,label\n0,3\n1\n2,0\n": "line 3 has 1 cells, not 2",
    }.items():
        (folder / "bad.csv").write_text(text)
        refused(words, read_labels, "bad.csv")
    (folder / "good.csv").write_text("1\n0\n2\n\n\n")
    assert read_labels("good.csv").tolist() == [1, 0, 2]
    for cell in ("", "NA", "0.0.1"):
        (folder / "first.csv").write_text(f"0.7,{cell},0.3\n0.5,0.25,0.25\n")
        refused(f"found {cell!r} in its first line", read_matrix, "first.csv")


def test_a_label_that_is_no_class_is_told_with_its_file():
    write("p.csv", [NAMES, *ROWS])
    write("y.csv", [*columns(NAMED[:-1]), ["antt"]])
    np.save("y.npy", np.append(LABELS[:-1], 3))
    for name, odd in (("y.csv", "'antt'"), ("y.npy", "'3'")):
        refused(f"{name} holds {odd}, which is none of the classes ant, bee", read_points, "p.csv", name)
    write("p.csv", [range(1, 4), *ROWS])  # names that are numbers are never places
    np.save("y.npy", LABELS)
    refused("y.npy holds '0', which is none of the classes 1, 2, 3", read_points, "p.csv", "y.npy")


def test_checked_labels_may_begin_and_end_with_gaps(folder):
    (folder / "y.csv").write_text("\n".join(["", *map(str, TRUE[1:9]), *[""] * 40]))
    assert read_clean("y.csv", 40).tolist() == [None, *TRUE[1:9].tolist(), *[None] * 31]


# Class names


@pytest.mark.parametrize("name", ["names.txt", "names", "names.json", "names.csv", "header.csv"])
def test_class_names_come_from_lines_lists_and_columns(folder, name):
    for file, encoding in (("names.txt", "utf-8-sig"), ("names", "utf-8")):
        (folder / file).write_text("\n".join(NAMES) + "\n", encoding=encoding)
    (folder / "names.json").write_text(json.dumps(NAMES))
    write("names.csv", columns(NAMES))
    write("header.csv", [["id", "name"], *enumerate(NAMES)])
    assert read_classes(name, 3) == NAMES


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (NAMES, ROWS),
        (["id", *NAMES, "label", "checked"], [["a", *row, "ant", ""] for row in ROWS]),
        (["id", *NAMES, "label"], [[7, *row, 1] for row in ROWS]),
        (NAMES, np.eye(3).tolist()),
        (NAMES[:1], columns(NAMES[1:])),
        (["class"], columns(NAMES)),
        (["animal"], columns(NAMES)),
    ],
    ids=["probs", "id and labels", "numbers", "one-hot", "column", "titled", "titled otherwise"],
)
def test_class_names_come_from_a_header_or_a_column_and_order_named_columns(header, rows):
    write("names.csv", [header, *rows])
    np.save("a.npy", PROBS)
    turned = beside([None] * 40, PROBS[:, ::-1].tolist(), NAMED, IDS)
    write("b.csv", [[*NAMES[::-1], "label", "remark"], *turned])
    for probs, labels in (("a.npy", "b.csv:label"), ("b.csv", "b.csv:label")):
        matrix, given, classes = read_points(probs, labels, names="names.csv")
        assert np.array_equal(matrix.astype(np.float32), PROBS)
        assert (given.tolist(), classes) == (NAMED, NAMES)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("ant\nbee", "names.txt", "must hold 3 different names"),
        ("ant\nbee\nbee", "names.txt", "found 3, 2 of them different"),
        ('{"a": 1}', "names.json", "must hold a list of names"),
        ("[1, 2, 3]", "names.json", "must hold a list of names"),
        ("[", "names.json", "cannot be read as JSON"),
        ("[" * 100_000, "names.json", "cannot be read as JSON"),
    ],
)
def test_class_names_that_cannot_be_used_are_told(folder, text, name, words):
    (folder / name).write_text(text)
    refused(words, read_classes, name, 3)


def test_class_names_with_commas_are_read_whole():
    write("names.csv", [["Cod, Atlantic"], ["Cod, Pacific"], ["Hake"]])
    assert read_class_list("names.csv") == ["Cod, Atlantic", "Cod, Pacific", "Hake"]


# Noise


def test_noise_is_a_number_a_matrix_or_none():
    def read(text):
        return NoiseOptions(noise=text).read_noise(3)

    P = nacp.UniformNoise(0.2).matrix(3).dense()
    np.save("a.npy", P)
    np.savez("b.npz", noise=P, other=PROBS)
    np.savez("c.npz", mine=P, other=PROBS)
    write("d.csv", P.tolist())
    write("e.csv", [["", *NAMES], *([name, *row] for name, row in zip(NAMES, P.tolist(), strict=True))])
    assert read("0.2") == 0.2
    assert read("none") is None
    for name in ("a.npy", "b.npz", "c.npz:mine", "d.csv"):
        assert np.array_equal(read(name), P), name
    # The classes of a header may be in another order than those of the probabilities.
    refused("e.csv has a header", read, "e.csv")
    refused("noise must be a rate such as", read, "much")
