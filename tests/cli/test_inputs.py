"""The same points in any file are the same points; a file that cannot be used gets one sentence."""

import csv
import gzip
import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nacp.cli.inputs import read_class_list, read_matrix, read_points
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


def refused(words, read, *arguments, **options):
    with pytest.raises(InputError, match=r"^[^\n]+$") as caught:
        read(*arguments, **options)
    assert words in str(caught.value)


def like(classes=None, k=None):
    """What has these classes, as a calibration."""
    return SimpleNamespace(classes=classes, k=k)


def labels_of(name, classes=None, **options):
    """The labels in a file, beside probabilities without names."""
    np.save("known.npy", PROBS)
    return read_points("known.npy", name, like=like(classes), **options).labels


def clean_of(name, classes=None):
    np.save("known.npy", PROBS)
    np.save("known-labels.npy", LABELS)
    return read_points("known.npy", "known-labels.npy", clean=name, like=like(classes)).clean


def probs_of(name, **options):
    return read_points(name, **options).probs


# Kinds of files


def matrix_files():
    """Write the same matrix in all ways; return the files without names of columns, and those with."""
    by_name = {name: PROBS[:, i] for i, name in enumerate(NAMES)}
    table = [["id", *NAMES], *beside(IDS, ROWS)]
    np.save("a.npy", PROBS)
    np.savez("b.npz", probs=PROBS, labels=LABELS)
    np.savez("d.npz", x=PROBS, y=LABELS)
    write_safetensors("e.safetensors", probs=PROBS, labels=LABELS)
    write("f.csv", ROWS)
    write("g.csv", [NAMES, *ROWS])
    write("h.csv", table)
    write("i.csv", [["", *NAMES], *beside(range(40), ROWS)])
    write("j.csv", [["0", "1", "2"], *ROWS])
    write("k.csv.gz", table)
    write("l.tsv", table, "\t")
    write_json("n.jsonl", [dict(zip(table[0], row, strict=True)) for row in table[1:]])
    write_json("o.jsonl.gz", [{"id": i, "probs": dict(zip(NAMES, p, strict=True))} for i, *p in table[1:]])
    write_json("p.jsonl", ROWS)
    write_json("q.jsonl", [{"id": i, "probs": row} for i, row in zip(IDS, ROWS, strict=True)])
    write_parquet("r.parquet", **by_name)
    write_parquet("s.parquet", id=np.arange(40), **by_name)
    write_parquet("t.parquet", probs=ROWS)
    write_parquet("u.parquet", x=ROWS, y=LABELS)
    bare = "a.npy b.npz d.npz:x e.safetensors e.safetensors:probs f.csv j.csv p.jsonl q.jsonl"
    named = "g.csv h.csv i.csv k.csv.gz l.tsv n.jsonl o.jsonl.gz r.parquet s.parquet"
    return [*bare.split(), "q.jsonl:probs", "t.parquet", "u.parquet:x"], named.split()


def test_every_kind_of_file_holds_the_same_matrix():
    bare, named = matrix_files()
    for name in (*bare, *named):
        matrix, names, ids = read_matrix(name, "probs")
        assert np.array_equal(np.asarray(matrix).astype(np.float32), PROBS), name
        assert names == (None if name in bare else NAMES), name
        assert ids is None or ids[-1] in ("39", "img-39"), name
    assert isinstance(read_matrix("a.npy", "probs")[0], np.memmap)
    assert read_matrix("r.parquet", "probs")[0].dtype == np.float32


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
    write("s.csv", columns([*LABELS, "", ""]))
    numbers = "a.npy b.npy d.npz e.safetensors f.csv g.csv h.csv l.jsonl o.parquet s.csv"
    names = "c.npy i.csv j.csv.gz j.csv.gz:Labels k.tsv m.jsonl n.jsonl p.parquet:label"
    return numbers.split(), names.split()


def test_every_kind_of_file_holds_the_same_labels():
    numbers, names = label_files()
    for name in (*numbers, *names):
        for classes in (None, NAMES):
            assert labels_of(name, classes).tolist() == (LABELS.tolist() if name in numbers else NAMED), name


def test_standard_input_is_csv(monkeypatch):
    text = io.StringIO()
    csv.writer(text).writerows([NAMES, *ROWS])
    np.save("y.npy", LABELS)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\ufeff" + text.getvalue()))
    found = read_points("-", "y.npy")
    assert np.array_equal(found.probs.astype(np.float32), PROBS)
    assert (found.labels.tolist(), found.classes) == (LABELS.tolist(), NAMES)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(map(str, LABELS))))
    assert labels_of("-").tolist() == LABELS.tolist()
    refused("once only", read_points, "-", "-")
    monkeypatch.setattr(sys, "stdin", None)
    refused("standard input is closed", read_points, "-")


def test_bfloat16_in_safetensors_is_read_as_float32():
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    probs = torch.tensor(PROBS).bfloat16()
    safetensors.save_file({"probs": probs, "labels": torch.tensor(LABELS)}, "a.safetensors")
    matrix = probs_of("a.safetensors")
    assert matrix.dtype == np.float32
    assert np.array_equal(matrix, probs.float())


def test_the_index_of_pandas_is_no_column():
    order = np.random.default_rng(0).permutation(40)
    frame = pd.DataFrame(PROBS, columns=NAMES, index=order).assign(label=LABELS)
    frame.to_parquet("all.parquet")
    frame[["label"]].to_parquet("y.parquet")
    pd.DataFrame(PROBS, columns=NAMES, index=pd.Index(order, name="who")).to_parquet("p.parquet")
    frame.set_index("label").to_parquet("of-labels.parquet")
    for files in (
        "all.parquet all.parquet:label",
        "p.parquet y.parquet",
        "p.parquet of-labels.parquet:label",
    ):
        found = read_points(*files.split())
        assert np.array_equal(found.probs, PROBS)
        assert (found.classes, found.labels.tolist()) == (NAMES, LABELS.tolist())


@pytest.mark.parametrize(("module", "name"), [("pyarrow", "a.parquet"), ("safetensors", "a.safetensors")])
def test_a_missing_extra_is_named(folder, monkeypatch, module, name):
    (folder / name).write_bytes(b"something")
    monkeypatch.setitem(sys.modules, module, None)
    refused(f"needs {module}, which is not installed: pip install 'nacp[io]'", probs_of, name)


# Files that cannot be used

TEXTS = {
    "empty.npy": ("", "empty.npy is empty"),
    "empty.csv": ("", "empty.csv is empty"),
    "ragged.csv": ("0.5,0.5\n1.0\n", "line 2 has 1 cells, not 2"),
    "gap.csv": ("0.5,0.5\n\n1.0,0.0\n", "has an empty line, 2, above others"),
    "words.csv": ("a,b\n0.5,half\n", "found 'half' in line 2, column 'b'"),
    "files.csv": (
        "filename,ant,bee\na.png,0.5,0.5\n",
        "'a.png' in line 2, column 'filename'; if the column 'filename' names the rows, give --id filename",
    ),
    "hole.csv": ("id,ant,bee\nx,0.5,0.5\ny,0.5,\n", "found an empty cell in line 3, column 'bee'"),
    "margin.csv": (
        "ant,the margin,bee\n0.6,0.2,0.4\n0.1,0.8,0.9\n",
        "has a column 'the margin' that is no class: the other columns sum to 1 without it; "
        "if the column 'the margin' names the rows, give --id 'the margin'; else give --classes FILE",
    ),
    "y.csv.gz": ("label\nant\n", "y.csv.gz cannot be read as .csv: it is damaged, or not compressed by gzip"),
    "long.csv": (f"a,b\n{'9' * 200_000},1\n", "has a very long cell"),
    "keys.jsonl": ('{"a": 0.5, "b": 0.5}\n{"a": 0.5}\n', "in line 2 than in the first, a, b; found a"),
    "deep.jsonl": ("[" * 100_000, "is not JSON in line 1"),
    "large.jsonl": (f"[{'9' * 400}, 1]\n", "numbers that are not too large"),
}


def damaged_files(folder):
    for name, (text, _) in TEXTS.items():
        (folder / name).write_text(text)
    for name in ("x.npy", "x.npz", "x.parquet", "x.safetensors", "x.csv"):
        (folder / name).write_bytes(b"\xff\x00nothing of the kind\x00" * 9)
    np.savez("whole.npz", probs=PROBS)
    with gzip.open("whole.csv.gz", "wt") as file:
        file.writelines(f"{p}\n" for p in PROBS.ravel())
    write_parquet("words.parquet", a=["x", "y"], b=[0.5, 0.5])
    write_parquet("ragged.parquet", probs=[[0.5, 0.5], [1.0]])
    for name in ("whole.npz", "whole.csv.gz", "words.parquet"):
        whole = (folder / name).read_bytes()
        (folder / name.replace("whole", "cut").replace("words", "cut")).write_bytes(whole[: len(whole) // 2])
    np.save("objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    np.savez("objects.npz", labels=np.array(NAMED, dtype=object))
    (folder / "plain").mkdir()
    zeros = b"0.5,0.5\n" * 7_000_000
    (folder / "bomb.csv.gz").write_bytes(gzip.compress(zeros, 1))
    np.savez_compressed("bomb.npz", probs=np.zeros((3_500_000, 2)))
    write_parquet("bomb.parquet", a=np.zeros(3_500_000), b=np.zeros(3_500_000))


DAMAGED = {
    "missing.npy": "missing.npy does not exist",
    "plain": "plain is a folder",
    "x.csv": "x.csv cannot be read as .csv: it is not text",
    "objects.npy": "objects.npy holds Python objects (dtype object)",
    "objects.npz": "astype(str)",
    "ragged.parquet": "lists of one length",
    "words.csv:a": "give it without :a",
    "cut.csv.gz": "it is damaged, or not compressed by gzip",
    "bomb.csv.gz": "expands to more than 50,000,000 bytes",
    "bomb.npz": "expands to more than 50,000,000 bytes",
    "bomb.parquet": "expands to more than 50,000,000 bytes",
}
for each in [
    "x.npy",
    "x.parquet",
    "cut.parquet",
    "x.safetensors",
]:
    DAMAGED[each] = f"{each} cannot be read as ."


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    path = tmp_path_factory.mktemp("damaged")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        damaged_files(path)
    return path


SLOW = {"bomb.csv.gz": pytest.mark.slow}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param(name, words, marks=SLOW.get(name, ()))
        for name, words in (DAMAGED | {name: words for name, (_, words) in TEXTS.items()}).items()
    ],
)
def test_a_file_that_cannot_be_used_gets_one_sentence(damaged, monkeypatch, name, words):
    monkeypatch.chdir(damaged)
    refused(words, probs_of, name)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_text_that_is_not_utf_8_is_called_that(encoding):
    write("y.csv", [["label"], *columns(["dög"] * 40)], encoding=encoding)
    refused("y.csv cannot be read as .csv: it is not text in UTF-8", labels_of, "y.csv", NAMES)


# Headers


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("0,1\n1,0\n0,1\n", 3),
        ("1,0\n0.2,0.8\n", 2),
        ("3,1,2\n1,2,3\n", 2),
        ("0,1,2\n0,0,1\n0.5,0.25,0.25\n", 2),  # certain rows do not hide a header
        ("0,1\n0.25,0.75\n1.0,0.0\n", 2),  # as pandas writes it
        ("0,1\n", 1),
        ("30,10,20\n0.5,0.25,0.25\n", 1),
        ("0.7,0.3\n\n\n", 1),
    ],
)
def test_a_header_of_numbers_is_told_from_a_point_by_how_it_is_written(folder, text, rows):
    (folder / "two.csv").write_text(text)
    assert len(probs_of("two.csv")) == rows


def test_a_header_that_may_be_a_point_and_a_point_with_a_hole_are_refused(folder):
    (folder / "two.csv").write_text("0,1\n0.25,0.75\n1,0\n")
    refused("may be a header or a point", probs_of, "two.csv")
    for cell in ("", "NA", "0.0.1"):
        (folder / "first.csv").write_text(f"0.7,{cell},0.3\n0.5,0.25,0.25\n")
        refused(f"found {cell!r} in its first line", probs_of, "first.csv")


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
    write_parquet("p.parquet", **{str(c): [row[j] for row in rows] for j, c in enumerate(header)})
    for files in ("all.csv all.csv", "p.csv y.csv", "p.parquet y.csv"):
        matrix, read, classes = read_points(*files.split())[:3]
        assert classes == [str(each) for each in header]
        assert [classes[i] for i in matrix.argmax(axis=1)] == read.tolist() == [str(y) for y in labels]
    # Classes known by number are found where the header says; names in another order are put in order.
    if sorted(header) == list(range(k)):
        assert probs_of("p.csv", like=like(k=k)).argmax(axis=1).tolist() == labels
    known = sorted(header)
    assert [known[i] for i in probs_of("p.csv", like=like(known)).argmax(axis=1)] == labels


@pytest.mark.parametrize("first", ["0", "2", "5", "1.5"])
def test_a_number_too_many_is_never_taken_for_a_header(first):
    """It may be a label, and then all others would belong to other rows."""
    write("y.csv", [[first], *columns(LABELS)])
    words = (
        "y.csv holds 41 values, but known.npy has 40 rows; if its first line is a header, give y.csv:HEADER"
    )
    refused(words, labels_of, "y.csv")
    assert labels_of(f"y.csv:{first}").shape == (40,)


@pytest.mark.parametrize("names", [["-1", "1", "2"], ["0.0", "1.0", "2.0"], ["nan", "fra", "inf"]])
def test_names_that_python_reads_as_numbers_are_names_in_a_header(names):
    write("p.csv", [[*names, "label"], *([*row, names[0]] for row in ROWS)])
    matrix, given, classes = read_points("p.csv", "p.csv:label")[:3]
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert (classes, set(given.tolist())) == (names, {names[0]})


# Which columns


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_table_may_hold_probabilities_and_labels(ending):
    write("all.csv", [["id", *NAMES, "animal"], *beside(IDS, ROWS, NAMED)])
    by_name = {name: PROBS[:, i] for i, name in enumerate(NAMES)}
    write_parquet("all.parquet", id=np.arange(40), **by_name, animal=NAMED)
    matrix, given, classes = read_points(f"all.{ending}", f"all.{ending}:animal")[:3]
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert (given.tolist(), classes) == (NAMED, NAMES)
    refused("holds no 'fruit', but id, ant, bee", read_points, f"all.{ending}", f"all.{ending}:fruit")


def test_labels_beside_probabilities_need_a_header_and_may_stand_first():
    write("all.csv", beside([None] * 40, ROWS, LABELS))
    refused("all.csv has no header, so its labels", read_points, "all.csv", "all.csv")
    write("all.csv", [["animal", *NAMES], *beside(NAMED, ROWS)])
    assert np.array_equal(probs_of("all.csv", labels="all.csv:animal").astype(np.float32), PROBS)
    write("all.csv", [range(4), *beside([None] * 40, ROWS, LABELS)])
    matrix, given, classes = read_points("all.csv", "all.csv:3")[:3]
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert (given.tolist(), classes) == (LABELS.tolist(), None)


def test_known_classes_are_found_among_other_columns():
    write("all.csv", [["remark", *NAMES[::-1], "x"], *beside(IDS, PROBS[:, ::-1].tolist(), NAMED)])
    assert np.array_equal(probs_of("all.csv", like=like(NAMES)).astype(np.float32), PROBS)
    write("p.csv", [["file", "ant", "bee", "Dög"], *beside(IDS, ROWS)])
    words = "p.csv has no column 'dög' (did you mean 'Dög'?); its columns are file, ant"
    refused(words, probs_of, "p.csv", like=like(NAMES))
    write("percent.csv", [[10, 0, 90], [33.3, 33.3, 33.4]])
    refused("percent.csv has no column '1'", probs_of, "percent.csv", like=like(k=3))


def test_a_column_called_label_is_taken_and_no_other():
    write("crowd.csv", [["id", "given", "worker"], *columns(IDS, NAMED, WORKERS)])
    write("two.csv", [["label", "labels"], *columns(NAMED, NAMED_TRUE)])
    write_parquet("audit.parquet", id=IDS, label=NAMED, checked=NAMED_TRUE)
    words = (
        "crowd.csv has 3 columns, among them given, worker; name the one that is meant, as crowd.csv:given"
    )
    refused(words, labels_of, "crowd.csv", NAMES)
    refused("has 2 columns, among them label, labels", labels_of, "two.csv", NAMES)
    assert labels_of("crowd.csv:given", NAMES).tolist() == labels_of("audit.parquet", NAMES).tolist() == NAMED
    assert labels_of("audit.parquet", NAMES, true=True).tolist() == NAMED_TRUE
    assert clean_of("audit.parquet", NAMES).tolist() == NAMED_TRUE


# What is missing or wrong in labels


@pytest.mark.parametrize("cell", ["", "NA", "nan", "None"])
@pytest.mark.parametrize("classes", [None, NAMES])
def test_a_label_that_is_missing_is_told_by_its_row(cell, classes):
    given = [NAMES[i] if classes else i for i in LABELS]
    given[4] = cell
    write("y.csv", [["id", "label"], *enumerate(given)])
    write("bare.csv", columns(given))
    write_parquet("y.parquet", label=[str(each) if each != cell else None for each in given])
    for name in ("y.csv", "y.csv:label", "y.parquet", "bare.csv"):
        refused("has no label in row 4; drop such rows first", labels_of, name, classes)


def test_a_label_that_is_no_class_is_told_with_its_place_and_the_nearest_name():
    write("p.csv", [NAMES, *ROWS])
    write("y.csv", [["id", "label"], *enumerate([*NAMED[:-2], "antt", "Dög"])])
    words = "y.csv holds labels that are none of the classes ant, bee, dög: 'antt' in line 40 (did you mean "
    refused(f"{words}'ant'?), 'Dög' in line 41 (did you mean 'dög'?)", read_points, "p.csv", "y.csv")
    write("y.csv", columns([*NAMED[:-6], *"uvwxyz"]))
    refused("'y' in line 39 and 1 others", read_points, "p.csv", "y.csv")
    write_json("y.jsonl", [*NAMED[:-1], "antt"])
    refused("'antt' in row 39", read_points, "p.csv", "y.jsonl")


def test_checked_labels_may_begin_and_end_with_gaps(folder):
    (folder / "y.csv").write_text("\n".join(["", *map(str, TRUE[1:9]), *[""] * 40]))
    assert clean_of("y.csv").tolist() == [None, *TRUE[1:9].tolist(), *[None] * 31]


# Class names


@pytest.mark.parametrize(
    "name", ["names.txt", "names", "names.json", "names.csv", "header.csv", "titled.csv"]
)
def test_class_names_come_from_lines_lists_and_columns(folder, name):
    for file, encoding in (("names.txt", "utf-8-sig"), ("names", "utf-8")):
        (folder / file).write_text("\n".join(NAMES) + "\n", encoding=encoding)
    (folder / "names.json").write_text(json.dumps(NAMES))
    write("names.csv", columns(NAMES))
    write("header.csv", [["id", "name"], *enumerate(NAMES)])
    write("titled.csv", columns(["class", *NAMES]))
    assert read_class_list(name) == NAMES
    turned = beside([None] * 40, PROBS[:, ::-1].tolist(), NAMED, IDS)
    write("b.csv", [[*NAMES[::-1], "label", "remark"], *turned])
    matrix, given, classes = read_points("b.csv", "b.csv:label", names=name)[:3]
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert (given.tolist(), classes) == (NAMED, NAMES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}', "must hold a list of names"),
        ("[1, 2, 3]", "must hold a list of names"),
        ("[", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
    ],
)
def test_class_names_that_cannot_be_used_are_told(folder, text, words):
    (folder / "names.json").write_text(text)
    refused(words, read_class_list, "names.json")


# Noise


def test_noise_is_a_number_a_matrix_or_none():
    def read(text, classes=None):
        return NoiseOptions(noise=text).read_noise(3, classes)

    P = RNG.dirichlet(np.ones(3), size=3)
    np.save("a.npy", P)
    np.savez("b.npz", noise=P, other=PROBS)
    write("d.csv", P.tolist())
    write("e.csv", [["", *NAMES], *([name, *row] for name, row in zip(NAMES, P.tolist(), strict=True))])
    assert read("0.2") == 0.2
    assert read("none") is None
    for name in ("a.npy", "b.npz", "b.npz:noise", "d.csv"):
        assert np.array_equal(read(name), P), name
    # The classes of a header may be in another order than those of the probabilities.
    turned = [2, 0, 1]
    assert np.array_equal(read("e.csv", [NAMES[i] for i in turned]), P[np.ix_(turned, turned)])
    words = "e.csv has a header, ant, bee, dög, whose names are not those"
    refused(words, read, "e.csv", ["ant", "bee", "cat"])
    refused("found no names; leave it out", read, "e.csv")
    write("f.csv", [NAMES, *P.tolist()])
    refused("so its rows must have the same names", read, "f.csv", NAMES)
    refused("noise must be a rate such as", read, "much")
