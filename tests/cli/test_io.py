"""The same points in any file are the same points; a file that cannot be used is told in one sentence."""

import csv
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest

import nacp
from nacp.cli import inputs, models, outputs
from nacp.cli.inputs import read_classes, read_labels
from nacp.errors import InputError

NAMES = ["ant", "bee", "cat"]
RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(3), size=40).astype(np.float32)
LABELS = RNG.integers(3, size=40)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_csv(name, rows):
    with open(name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def write_parquet(name, **columns):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), name)


def write_safetensors(name, **arrays):
    from safetensors.numpy import save_file

    save_file(arrays, name)


def matrix_files():
    np.save("a.npy", PROBS)
    np.savez("b.npz", probs=PROBS, labels=LABELS)
    np.savez("c.npz", only=PROBS)
    np.savez("d.npz", x=PROBS, y=LABELS)
    write_csv("e.csv", PROBS.tolist())
    write_csv("f.csv", [NAMES, *PROBS.tolist()])
    write_csv("g.csv", [["id", *NAMES], *([f"row {i}", *row] for i, row in enumerate(PROBS.tolist()))])
    write_csv("h.csv", [["", *NAMES], *([i, *row] for i, row in enumerate(PROBS.tolist()))])
    write_csv("i.csv", [["0", "1", "2"], *PROBS.tolist()])
    write_parquet("j.parquet", **{name: PROBS[:, i] for i, name in enumerate(NAMES)})
    write_parquet("k.parquet", id=np.arange(40), **{name: PROBS[:, i] for i, name in enumerate(NAMES)})
    write_parquet("l.parquet", probs=PROBS.tolist())
    write_safetensors("m.safetensors", probs=PROBS, labels=LABELS)
    write_safetensors("n.safetensors", only=PROBS)
    write_parquet("o.parquet", x=PROBS.tolist(), y=LABELS)
    return {
        "a.npy": None, "b.npz": None, "c.npz": None, "d.npz:x": None, "e.csv": None, "f.csv": NAMES,
        "g.csv": NAMES, "h.csv": NAMES, "i.csv": None, "j.parquet": NAMES, "k.parquet": NAMES,
        "l.parquet": None, "m.safetensors": None, "n.safetensors": None, "m.safetensors:probs": None,
        "o.parquet:x": None,
    }  # fmt: skip


def test_every_kind_of_file_holds_the_same_matrix():
    for name, header in matrix_files().items():
        matrix, names, _ = inputs.read_matrix(name)
        assert np.array_equal(np.asarray(matrix).astype(np.float32), PROBS), name
        assert names == header, name


def test_an_npy_file_is_mapped_not_read():
    np.save("a.npy", PROBS)
    assert isinstance(inputs.read_matrix("a.npy")[0], np.memmap)


def test_float32_parquet_stays_float32():
    write_parquet("a.parquet", **{name: PROBS[:, i] for i, name in enumerate(NAMES)})
    assert inputs.read_matrix("a.parquet")[0].dtype == np.float32


def test_a_matrix_of_zeros_and_ones_has_no_header():
    write_csv("a.csv", [[0, 1], [1, 0], [0, 1]])
    matrix, names, _ = inputs.read_matrix("a.csv")
    assert matrix.tolist() == [[0, 1], [1, 0], [0, 1]]
    assert names is None


def test_every_kind_of_file_holds_the_same_labels():
    named = [NAMES[i] for i in LABELS]
    np.save("a.npy", LABELS)
    np.savez("b.npz", probs=PROBS, labels=LABELS)
    write_csv("c.csv", [[i] for i in LABELS])
    write_csv("d.csv", [["label"], *([i] for i in LABELS)])
    write_csv("e.csv", [["label"], *([name] for name in named)])
    write_csv("f.csv", [["label", "id"], *([name, i] for i, name in enumerate(named))])
    write_parquet("g.parquet", id=np.arange(40), label=LABELS)
    write_parquet("h.parquet", label=named, id=np.arange(40))
    write_safetensors("i.safetensors", labels=LABELS, probs=PROBS)
    np.save("j.npy", np.array(named))
    for name in ("a.npy", "b.npz", "c.csv", "d.csv", "g.parquet", "i.safetensors"):
        assert np.array_equal(read_labels(name, 40), LABELS), name
        assert read_labels(name, 40, NAMES).tolist() == named, name
    for name in ("e.csv", "f.csv:label", "h.parquet:label", "j.npy"):
        assert read_labels(name, 40, NAMES).tolist() == named, name
        assert read_labels(name, 40).tolist() == named, name


@pytest.mark.parametrize("first", ["0", "2", "5", "1.5"])
def test_a_number_too_many_is_never_taken_for_a_header(first):
    """It may be a label, and then all others would belong to other rows."""
    np.save("p.npy", PROBS)
    write_csv("p.csv", [NAMES, *PROBS.tolist()])
    write_csv("y.csv", [[first], *([i] for i in LABELS)])
    for probs in ("p.npy", "p.csv"):
        words = f"y.csv holds 41 labels, but {probs} has 40 rows; if its first line is a header, give y.csv:"
        with pytest.raises(InputError, match=f"^{words}HEADER$"):
            inputs.read_points(probs, "y.csv")
        assert inputs.read_points(probs, f"y.csv:{first}")[1].shape == (40,)


def test_a_header_that_can_be_nothing_else_is_one():
    named = [NAMES[i] for i in LABELS]
    write_csv("a.csv", [["0"], *([name] for name in named)])
    write_csv("b.csv", [["", "0"], *enumerate(LABELS)])
    write_csv("c.csv", [["label"], *([i] for i in LABELS[1:])])
    assert read_labels("a.csv", 40, NAMES).tolist() == named
    assert read_labels("b.csv", 40).tolist() == LABELS.tolist()
    assert read_labels("c.csv", 40).tolist() == LABELS[1:].tolist()  # too few, but numbers
    assert read_labels("c.csv").tolist() == LABELS[1:].tolist()


def numbered_points(header, labels, k):
    """Points whose largest probability is that of their label, in columns with a header of numbers."""
    rows = 0.5 / k + 0.5 * (np.array(header)[None, :] == np.array(labels)[:, None])
    return rows.tolist()


@pytest.mark.parametrize(
    "header",
    [sorted(range(12), key=str), list(range(1, 11)), [30, 10, 20], [2, 1], [1, 0, 2]],
    ids=["by letters", "from 1", "any", "two", "turned"],
)
def test_numbers_in_a_header_are_names_unless_they_are_the_places(header):
    k = len(header)
    labels = [header[i % k] for i in range(40)]
    rows = numbered_points(header, labels, k)
    write_csv("all.csv", [[*header, "label"], *([*row, y] for row, y in zip(rows, labels, strict=True))])
    write_csv("p.csv", [header, *rows])
    write_csv("y.csv", [[y] for y in labels])
    np.save("y.npy", labels)
    write_parquet("p.parquet", **{str(c): [row[j] for row in rows] for j, c in enumerate(header)})
    for probs, given in [
        ("all.csv", "all.csv"), ("p.csv", "y.csv"), ("p.csv", "y.npy"), ("p.parquet", "y.npy"),
    ]:  # fmt: skip
        matrix, read, classes = inputs.read_points(probs, given)
        assert classes == [str(each) for each in header]
        assert [classes[i] for i in matrix.argmax(axis=1)] == read.tolist() == [str(y) for y in labels]
    # Classes known by number are found where the header says; names in another order are put in order.
    if sorted(header) == list(range(k)):
        assert inputs.read_points("p.csv", "y.npy", k=k)[0].argmax(axis=1).tolist() == labels
    turned, known = inputs.read_rows("p.csv", sorted(header))
    assert [known[i] for i in turned.argmax(axis=1)] == labels


def test_numbers_that_are_names_are_never_places():
    write_csv("p.csv", [range(1, 4), *PROBS.tolist()])
    np.save("y.npy", LABELS)  # 0, 1, 2
    with pytest.raises(InputError, match=r"y\.npy holds '0', which is none of the classes 1, 2, 3"):
        inputs.read_points("p.csv", "y.npy")


def test_certain_rows_do_not_hide_a_header_of_numbers():
    rows = [[0, 0, 1], *PROBS.tolist()]
    write_csv("a.csv", [range(3), *rows])
    assert len(inputs.read_matrix("a.csv")[0]) == 41
    write_csv("b.csv", [[1, 0], [0.2, 0.8]])  # a noise matrix, say
    assert inputs.read_matrix("b.csv")[0].tolist() == [[1, 0], [0.2, 0.8]]
    write_csv("c.csv", [[3, 1, 2], [1, 2, 3]])  # ranks
    assert len(inputs.read_matrix("c.csv")[0]) == 2


def test_a_column_with_a_number_for_its_name_may_hold_the_labels():
    write_csv("all.csv", [range(4), *([*PROBS[i].tolist(), LABELS[i]] for i in range(40))])
    matrix, given, classes = inputs.read_points("all.csv", "all.csv:3")
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert given.tolist() == LABELS.tolist()
    assert classes is None


@pytest.mark.parametrize("labels", ["all.csv:animal", "all.parquet:animal"])
def test_one_table_may_hold_probabilities_and_labels(labels):
    named = [NAMES[i] for i in LABELS]
    write_csv("all.csv", [["id", *NAMES, "animal"], *([i, *PROBS[i].tolist(), named[i]] for i in range(40))])
    columns = {name: PROBS[:, i] for i, name in enumerate(NAMES)}
    write_parquet("all.parquet", id=np.arange(40), **columns, animal=named)
    matrix, given, classes = inputs.read_points(labels.partition(":")[0], labels)
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert given.tolist() == named
    assert classes == NAMES
    with pytest.raises(InputError, match="holds no 'fruit', but id, ant, bee, cat, animal"):
        inputs.read_points("all.csv", "all.csv:fruit")


def test_labels_may_stand_in_the_first_column_of_the_table():
    write_csv(
        "all.csv",
        [["animal", *NAMES], *([NAMES[y], *p.tolist()] for y, p in zip(LABELS, PROBS, strict=True))],
    )
    matrix, given, classes = inputs.read_points("all.csv", "all.csv:animal")
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert given.tolist() == [NAMES[i] for i in LABELS]
    assert classes == NAMES


def test_known_classes_are_found_among_other_columns():
    rows = ([f"note {i}", *PROBS[i, ::-1].tolist(), "x"] for i in range(40))
    write_csv("all.csv", [["remark", *NAMES[::-1], "animal"], *rows])
    matrix, classes = inputs.read_rows("all.csv", NAMES)
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert classes == NAMES


def test_standard_input_is_csv(monkeypatch):
    text = io.StringIO()
    csv.writer(text).writerows([NAMES, *PROBS.tolist()])
    np.save("y.npy", LABELS)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text.getvalue()))
    matrix, labels, classes = inputs.read_points("-", "y.npy")
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert labels.tolist() == [NAMES[i] for i in LABELS]
    assert classes == NAMES
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(map(str, LABELS))))
    np.save("p.npy", PROBS)
    assert np.array_equal(inputs.read_points("p.npy", "-")[1], LABELS)
    with pytest.raises(InputError, match="once only"):
        inputs.read_points("-", "-")


@pytest.mark.parametrize("name", ["names.txt", "names", "names.json", "names.csv", "header.csv"])
def test_class_names_come_from_lines_lists_and_columns(name):
    with open("names.txt", "w", encoding="utf-8-sig") as text, open("names", "w") as other:
        for file in (text, other):
            file.write("\n".join(NAMES) + "\n")
    with open("names.json", "w") as file:
        json.dump(NAMES, file)
    write_csv("names.csv", [[each] for each in NAMES])
    write_csv("header.csv", [["id", "name"], *enumerate(NAMES)])
    assert read_classes(name, 3) == NAMES


def test_class_names_go_with_unnamed_columns_and_order_named_ones():
    np.save("a.npy", PROBS)
    write_csv("b.csv", [NAMES[::-1], *PROBS[:, ::-1].tolist()])
    write_csv("names.csv", [[each] for each in NAMES])
    write_csv("y.csv", [[NAMES[i]] for i in LABELS])
    for name in ("a.npy", "b.csv"):
        matrix, labels, classes = inputs.read_points(name, "y.csv", names="names.csv")
        assert np.array_equal(matrix.astype(np.float32), PROBS)
        assert labels.tolist() == [NAMES[i] for i in LABELS]
        assert classes == NAMES


def test_noise_is_a_number_a_matrix_or_none():
    P = nacp.UniformNoise(0.2).matrix(3).dense()
    np.save("a.npy", P)
    np.savez("b.npz", noise=P, other=PROBS)
    np.savez("c.npz", mine=P, other=PROBS)
    write_csv("d.csv", P.tolist())
    write_csv("e.csv", [["", *NAMES], *([name, *row] for name, row in zip(NAMES, P.tolist(), strict=True))])
    assert models.read_noise("0.2", 3) == 0.2
    assert models.read_noise("none", 3) is None
    for name in ("a.npy", "b.npz", "c.npz:mine", "d.csv"):
        assert np.array_equal(models.read_noise(name, 3), P), name
    # The classes of a header may be in another order than those of the probabilities.
    with pytest.raises(InputError, match=r"e.csv has a header, .*; put its rows and columns in the order"):
        models.read_noise("e.csv", 3)
    with pytest.raises(InputError, match="noise is 'much'; it must be a rate such as"):
        models.read_noise("much", 3)


@pytest.mark.parametrize("classes", [None, ("ä", "b,c", 'd"e')])
@pytest.mark.parametrize("ending", outputs.SET_ENDINGS)
def test_sets_are_read_back_as_they_were(ending, classes):
    blocks = [
        nacp.PredictionSets([0, 2, 2, 3], [0, 2, 1], k=3, classes=classes),
        nacp.PredictionSets([0, 1, 1], [2], k=3, classes=classes),
    ]
    wanted = [row for sets in blocks for row in sets]
    outputs.write_sets(map(outputs.Sets, blocks), f"sets{ending}")
    if ending == ".jsonl":
        with open("sets.jsonl", encoding="utf-8") as file:
            read = [json.loads(line) for line in file]
    elif ending in (".csv", ".tsv"):
        read = [[] for _ in wanted]
        with open(f"sets{ending}", newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file, delimiter="\t" if ending == ".tsv" else ",")
        assert header == ["row", "label"]
        for i, label in rows:
            read[int(i)].append(label if classes else int(label))
    elif ending == ".parquet":
        from pyarrow import parquet

        read = parquet.read_table("sets.parquet").column("labels").to_pylist()
    else:
        with np.load("sets.npz") as file:
            read = list(nacp.PredictionSets(file["offsets"], file["labels"], k=3, classes=classes))
    assert read == wanted


@pytest.mark.parametrize("ending", outputs.SET_ENDINGS)
def test_a_failure_while_writing_leaves_what_was_there(folder, ending):
    def blocks():
        yield outputs.Sets(nacp.PredictionSets([0, 1], [0], k=3))
        raise KeyboardInterrupt

    target = folder / f"sets{ending}"
    target.write_text("before")
    with pytest.raises(KeyboardInterrupt):
        outputs.write_sets(blocks(), target.name)
    assert target.read_text() == "before"
    assert [path.name for path in folder.iterdir()] == [target.name]


def damaged_files(folder):
    for name in ("x.npy", "x.npz", "x.parquet", "x.safetensors", "x.csv"):
        (folder / name).write_bytes(b"\xff\x00nothing of the kind\x00" * 9)
    np.savez("cut.npz", probs=PROBS)
    whole = (folder / "cut.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    np.save("objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    (folder / "empty.npy").touch()
    (folder / "empty.csv").touch()
    (folder / "blank.csv").write_text("\n\n")
    (folder / "folder.npy").mkdir()
    (folder / "plain").mkdir()
    write_csv("ragged.csv", [[0.5, 0.5], [1.0]])
    write_csv("words.csv", [["a", "b"], [0.5, "half"]])
    (folder / "semicolons.csv").write_text("a;b\n0.5;0.5\n")
    (folder / "tabs.csv").write_text("0.5\t0.5\n0.5\t0.5\n")
    (folder / "commas.csv").write_text("0,5;0,5\n0,5;0,5\n")
    write_csv("files.csv", [["filename", *NAMES], ["a.png", 0.5, 0.25, 0.25]])
    write_parquet("words.parquet", a=["x", "y"], b=[0.5, 0.5])
    write_parquet("ragged.parquet", probs=[[0.5, 0.5], [1.0]])
    write_parquet("nulls.parquet", label=[0, None])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.npy", "missing.npy does not exist"),
        ("missing.csv", "missing.csv does not exist"),
        ("probs.txt", "it must end in .npy"),
        ("folder.npy", "is a folder"),
        ("plain", "is a folder"),
        ("empty.npy", "empty.npy is empty"),
        ("empty.csv", "empty.csv is empty"),
        ("blank.csv", "blank.csv is empty"),
        ("x.npy", "x.npy cannot be read as .npy"),
        ("x.npz", "x.npz cannot be read as .npz"),
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
        ("semicolons.csv", "semicolons.csv: its columns seem to be separated by ';'"),
        ("tabs.csv", "tabs.csv: its columns seem to be separated by tabs"),
        ("commas.csv", "commas.csv: its columns seem to be separated by ';'"),
        ("files.csv", "'a.png' in line 2; a column of text must come first and be called id, or be the"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_one_sentence(folder, name, words):
    damaged_files(folder)
    with pytest.raises(InputError, match=r"^[^\n]+$") as caught:
        inputs.read_matrix(name)
    assert words in str(caught.value)
    assert caught.value.argument.startswith(name.removesuffix(":a"))


def test_labels_that_cannot_be_used_are_told_too(folder):
    damaged_files(folder)
    write_csv("y.csv", [["id", "label"], ["1", "a"]])
    with pytest.raises(InputError, match=r"holds no 'animal', but id, label; name one as y\.csv:name"):
        read_labels("y.csv:animal", 1)
    with pytest.raises(InputError, match=r"nulls\.parquet has no label in row \d; drop such rows"):
        read_labels("nulls.parquet", 2)
    (folder / "semicolons.csv").write_text("id;label\n0;ant\n1;bee\n")
    with pytest.raises(InputError, match=r"semicolons\.csv: its columns seem to be separated by ';'"):
        read_labels("semicolons.csv", 2, NAMES)


@pytest.mark.parametrize("cell", ["", "NA", "nan", "None"])
@pytest.mark.parametrize("classes", [None, NAMES])
def test_a_label_that_is_missing_is_told_by_its_row(cell, classes):
    given = [NAMES[i] if classes else i for i in LABELS]
    write_csv("y.csv", [["id", "label"], *enumerate([*given[:4], cell, *given[5:]])])
    write_csv("bare.csv", [[each] for each in [*given[:4], cell or '""', *given[5:]]])
    for name in ("y.csv", "y.csv:label", *(["bare.csv"] if cell else [])):
        with pytest.raises(InputError, match=r"csv has no label in row 4; drop such rows first"):
            read_labels(name, 40, classes)


def test_nothing_shifts_against_other_files(folder):
    """What is missing in one file must not be closed up in silence."""
    bad = {
        "blank.csv": ("1\n\n2\n", "has an empty line, 2, above others"),
        "short.csv": ("id,label\n0,3\n1\n2,0\n", "line 3 has 1 cells, not 2"),
    }
    for name, (text, words) in bad.items():
        (folder / name).write_text(text)
        with pytest.raises(InputError, match=words):
            read_labels(name)
    (folder / "good.csv").write_text("1\n0\n2\n\n\n")
    assert read_labels("good.csv").tolist() == [1, 0, 2]
    for cell in ("", "NA", "0.0.1"):
        (folder / "first.csv").write_text(f"0.7,{cell},0.3\n0.5,0.25,0.25\n")
        with pytest.raises(InputError, match=f"found {cell!r} in its first line"):
            inputs.read_matrix("first.csv")


def test_a_header_of_0_and_1_is_told_from_a_point_by_how_it_is_written(folder):
    for below, header in {
        "0.25,0.75\n1.0,0.0\n": True,  # as pandas writes it
        "0.25,0.75\n": True,
        "1,0\n0,1\n": False,
        "": False,
    }.items():
        (folder / "two.csv").write_text("0,1\n" + below)
        assert len(inputs.read_matrix("two.csv")[0]) == below.count("\n") + (not header)
    (folder / "two.csv").write_text("0,1\n0.25,0.75\n1,0\n")
    with pytest.raises(InputError, match="may be a header or a point"):
        inputs.read_matrix("two.csv")
    (folder / "none.csv").write_text("0,1,2\n")
    with pytest.raises(InputError, match="has a header and nothing below it"):
        inputs.read_matrix("none.csv")


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_column_that_numbers_the_rows_is_no_class(start, shuffled):
    order = np.random.default_rng(0).permutation(40) if shuffled else np.arange(40)
    numbered = [[i + start, *row] for i, row in zip(order.tolist(), PROBS.tolist(), strict=True)]
    write_csv("bare.csv", numbered)
    write_csv("named.csv", [["image", *NAMES], *numbered])
    for name in ("bare.csv", "named.csv"):
        with pytest.raises(InputError, match="seems to number its rows in the first column"):
            inputs.read_rows(name)


def test_numbers_that_are_data_are_not_taken_for_row_numbers_or_headers():
    counts = np.random.default_rng(0).integers(0, 10**6, size=(40, 3))
    write_csv("counts.csv", counts.tolist())
    assert np.array_equal(inputs.read_rows("counts.csv")[0], counts)
    write_csv("headed.csv", [range(3), *counts.tolist()])  # as pandas writes it
    assert np.array_equal(inputs.read_rows("headed.csv", k=3)[0], counts)
    write_csv("one.csv", [[3, 5, 2]])
    assert inputs.read_rows("one.csv")[0].tolist() == [[3, 5, 2]]
    write_parquet("none.parquet", a=np.zeros(0), b=np.zeros(0), c=np.zeros(0))
    assert inputs.read_rows("none.parquet")[0].shape == (0, 3)
    write_csv("percent.csv", [[10, 0, 90], [33.3, 33.3, 33.4]])
    with pytest.raises(InputError, match="not the numbers of the 3 classes"):
        inputs.read_rows("percent.csv", k=3)


@pytest.mark.parametrize("names", [["-1", "1", "2"], ["0.0", "1.0", "2.0"], ["nan", "fra", "inf"]])
def test_names_that_python_reads_as_numbers_are_names_in_a_header(names):
    write_csv("p.csv", [[*names, "label"], *([*row, names[0]] for row in PROBS.tolist())])
    matrix, given, classes = inputs.read_points("p.csv", "p.csv:label")
    assert np.array_equal(matrix.astype(np.float32), PROBS)
    assert classes == names
    assert set(given.tolist()) == {names[0]}


def test_the_index_of_pandas_is_no_column(folder):
    order = np.random.default_rng(0).permutation(40)
    frame = pd.DataFrame(PROBS, columns=NAMES, index=order).assign(label=LABELS)
    frame.to_parquet("all.parquet")
    frame[["label"]].to_parquet("y.parquet")
    pd.DataFrame(PROBS, columns=NAMES, index=pd.Index(order, name="who")).to_parquet("p.parquet")
    frame.set_index("label").to_parquet("of-labels.parquet")
    pairs = [("all.parquet", "all.parquet:label"), ("p.parquet", "y.parquet")]
    for probs, labels in [*pairs, ("p.parquet", "of-labels.parquet:label")]:
        matrix, given, names = inputs.read_points(probs, labels)
        assert np.array_equal(matrix, PROBS)
        assert names == NAMES
        assert given.tolist() == [NAMES[i] for i in LABELS]


def test_a_mark_of_byte_order_is_no_part_of_a_cell(monkeypatch):
    text = "\ufeff" + "\n".join(",".join(map(repr, row)) for row in PROBS.tolist())
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert np.array_equal(inputs.read_matrix("-")[0], PROBS)


def test_a_label_that_is_no_class_is_told_with_its_file():
    write_csv("p.csv", [NAMES, *PROBS.tolist()])
    write_csv("y.csv", [*([NAMES[i]] for i in LABELS[:-1]), ["catt"]])
    np.save("y.npy", np.append(LABELS[:-1], 3))
    for name, odd in (("y.csv", "'catt'"), ("y.npy", "'3'")):
        with pytest.raises(InputError, match=f"{name} holds {odd}, which is none of the classes ant, bee"):
            inputs.read_points("p.csv", name)


def test_a_class_without_a_column_is_named():
    rows = [["a.png", *row] for row in PROBS.tolist()]
    write_csv("p.csv", [["filename", "ant", "bee", "Cat"], *rows])
    with pytest.raises(InputError, match=r"p\.csv has no column 'cat'; its columns are filename, ant"):
        inputs.read_rows("p.csv", NAMES)


def test_labels_beside_probabilities_need_a_header():
    write_csv("all.csv", [[*PROBS[i].tolist(), LABELS[i]] for i in range(40)])
    with pytest.raises(InputError, match=r"all\.csv has no header, .* add a first line of names"):
        inputs.read_points("all.csv", "all.csv")


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("ant\nbee", "names.txt", "must hold 3 different names"),
        ("ant\nbee\nbee", "names.txt", "found 3, 2 of them different"),
        ('{"a": 1}', "names.json", "must hold a list of names"),
        ("[1, 2, 3]", "names.json", "must hold a list of names"),
        ("[", "names.json", "cannot be read as JSON"),
    ],
)
def test_class_names_that_cannot_be_used_are_told(folder, text, name, words):
    (folder / name).write_text(text)
    with pytest.raises(InputError, match=words):
        read_classes(name, 3)


@pytest.mark.parametrize(("module", "name"), [("pyarrow", "a.parquet"), ("safetensors", "a.safetensors")])
def test_a_missing_extra_is_named(folder, monkeypatch, module, name):
    (folder / name).write_bytes(b"something")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"needs {module}, .* pip install 'nacp\[io\]'"):
        inputs.read_matrix(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sets.xml", "must end in .parquet, .jsonl, .csv, .tsv or .npz"),
        ("nowhere/sets.csv", "there is no folder nowhere"),
        ("sub.csv", "is a folder"),
    ],
)
def test_an_output_that_cannot_be_written_is_told_before_the_work(folder, name, words):
    (folder / "sub.csv").mkdir()
    with pytest.raises(InputError, match=words):
        outputs.check_output(name, outputs.SET_ENDINGS)
