"""Files as people have them: gaps in the labels, other separators, ids, and advice that suits."""

import csv

import numpy as np
import pandas as pd
import pytest

import nacp
from nacp.wrapping import on_one_line
from tests.cli.command_line import classified, done, json_lines, plain, printed_json, write

K, N = 4, 300
PROBS, TRUE, NOISY = classified(N, K)
NAMES, IDS = [f"c{i}" for i in range(K)], [f"p{i}" for i in range(N)]
NAMED, NAMED_TRUE = [NAMES[i] for i in NOISY], [NAMES[i] for i in TRUE]
NOISE = ("--noise", "0.2", "--guarantee", "none")
WITH_IDS = [["id", *NAMES], *([i, *row] for i, row in zip(IDS, PROBS.tolist(), strict=True))]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("probs.npy", PROBS)
    np.save("labels.npy", NOISY)
    write("p.csv", WITH_IDS)
    write("y.csv", [["id", "label"], *zip(IDS, NAMED, strict=True)])
    write("audit.csv", [["id", "label", "checked"], *zip(IDS, NAMED, NAMED_TRUE, strict=True)])
    write("crowd.csv", [["id", "given", "worker"], *zip(IDS, NAMED, TRUE, strict=True)])
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    return tmp_path


# Which column


@pytest.mark.parametrize(
    "command",
    [
        "calibrate p.csv crowd.csv --noise 0.2",
        "calibrate p.csv y.csv --clean crowd.csv",
        "compare p.csv crowd.csv --noise 0.2",
        "report p.csv crowd.csv --noise 0.2",
        "noise model p.csv crowd.csv",
        "noise audit crowd.csv crowd.csv:worker --classes names.txt",
        "audit choose p.csv crowd.csv --budget 50",
        "evaluate cal.json p.csv crowd.csv",
        "diagnose cal.json p.csv crowd.csv",
        "diagnose cal.json p.csv y.csv --clean crowd.csv",
    ],
)
def test_no_command_takes_a_column_in_silence(command):
    done("calibrate", "p.csv", "y.csv", *NOISE)
    said = done(*command.split(), code=2)
    assert said.startswith("Error: crowd.csv has 3 columns: id, given, worker; name the one that is meant")


def test_a_column_is_not_compared_with_itself():
    """An audit of a column with itself would find no error at all."""
    for noisy, clean in [
        ("audit.csv", "audit.csv:label"),
        ("audit.csv:checked", "./audit.csv:checked"),
        ("audit.csv", "audit.csv"),
    ]:
        assert "is given twice" in done("noise", "audit", noisy, clean, "--classes", "n.txt", code=2)
    said = done("calibrate", "p.csv", "audit.csv", "--clean", "audit.csv:label", code=2)
    assert "is given twice, as the labels and as the true labels; name the columns" in said


def test_columns_that_are_no_class_are_left_out_where_it_is_known_which_are():
    header = [*WITH_IDS[0], "label", "checked"]
    rows = [
        [*row, y, t if i % 2 else ""]
        for i, (row, y, t) in enumerate(zip(WITH_IDS[1:], NAMED, NAMED_TRUE, strict=True))
    ]
    write("two.csv", [header, *rows])
    write("all.csv", [[*header, "remark"], *([*row, "a remark"] for row in rows)])
    done("calibrate", "p.csv", "y.csv", "--clean", "two.csv:checked", "-o", "a.json")
    done("calibrate", "two.csv", "two.csv:label", "--clean", "two.csv:checked", "-o", "b.json")
    clean = ["--clean", "all.csv:checked", "--classes", "names.txt"]
    done("calibrate", "all.csv", "all.csv:label", *clean, "-o", "c.json")
    assert nacp.load("a.json") == nacp.load("b.json") == nacp.load("c.json")
    said = done("calibrate", "all.csv", "all.csv:label", *NOISE, code=2)
    assert "or say by --classes FILE which columns are meant" in said


# Gaps


def test_rows_without_a_label_are_named_and_can_be_left_out():
    kept = [i for i in range(N) if i not in (4, 7, 250)]
    labels = [NAMED[i] if i in kept else "" for i in range(N)]
    write("gaps.csv", [["id", "label"], *zip(IDS, labels, strict=True)])
    np.save("gaps.npy", np.where(np.isin(np.arange(N), kept), NOISY, -1))
    said = done("calibrate", "p.csv", "gaps.csv", *NOISE, code=2)
    assert "gaps.csv has no label in row 4 and in 2 others; drop such rows first" in said
    assert "--drop-unlabelled" in said
    wanted = nacp.calibrate(PROBS[kept], NOISY[kept], noise=0.2, guarantee="none")
    for given in (("p.csv", "gaps.csv"), ("probs.npy", "gaps.npy")):
        said = done("calibrate", *given, *NOISE, "--drop-unlabelled", "-o", "left.json")
        assert "Left out: 3 of 300 rows without a label." in said
        assert nacp.load("left.json").threshold == wanted.threshold
    points = ("probs.npy", "gaps.npy", "--drop-unlabelled")
    told = done("diagnose", "left.json", *points)
    assert on_one_line(wanted.diagnose(PROBS[kept], NOISY[kept])) in plain(told)
    assert "Left out: 3 of 300" in done("compare", *points, "--noise", "0.2", "--score", "hps")
    said = done("calibrate", *points, "--clean", "labels.npy", code=2)
    assert "--drop-unlabelled is of no use with checked labels" in said


def test_an_audit_takes_the_items_that_have_both_labels():
    rows = [[i, NOISY[i] if i != 9 else "", TRUE[i] if i % 3 == 0 else ""] for i in range(N)]
    write("some.csv", [["id", "given", "checked"], *rows])
    audit = ("noise", "audit", "some.csv:given", "some.csv:checked", "--k", "4", "-o", "n.json")
    assert "Left out: 201 of 300 items without a label or a true one." in done(*audit)
    both = [i for i in range(0, N, 3) if i != 9]
    assert nacp.estimation.load("n.json") == nacp.noise_from_audit(NOISY[both], TRUE[both], k=4)
    write("some.csv", [["id", "given", "checked"], *([*row[:2], ""] for row in rows)])
    assert "has no label for an item that has a noisy one" in done(*audit, code=2)


def test_items_without_an_answer_are_written_empty_and_told(folder):
    rows = [[f"i{i}", f"w{j}", (i + j) % 2] for i in range(40) for j in range(3) if i not in (5, 6)]
    write("long.csv", [["task", "worker", "label"], *rows])
    (folder / "items.txt").write_text("".join(f"i{i}\n" for i in range(40)))
    words = ("noise", "annotators", "long.csv", "--labels", "out.csv", "--items", "items.txt")
    said = plain(done(*words, "--model", "matrix"))
    assert "out.csv, the labels; 2 of 40 items have none: calibrate with --drop-unlabelled" in said
    with open("out.csv") as file:
        written = list(csv.DictReader(file))
    assert [row["items"] for row in written if not row["label"]] == ["i5", "i6"]
    (folder / "items.txt").write_text("x1\nx2\n")
    assert "--items names 'x1', which the labels do not have" in done(*words, code=2)


def test_a_label_matrix_of_numbers_goes_with_named_columns():
    """Snorkel's matrix has -1 where a function abstains; the probabilities come from a table with names."""
    rng = np.random.default_rng(5)
    votes = np.stack([nacp.UniformNoise(0.2).sample(TRUE, K, random_state=i) for i in range(3)], axis=1)
    votes[rng.random(votes.shape) < 0.4] = -1
    empty = np.all(votes == -1, axis=1)
    assert 5 < empty.sum() < 100
    np.save("votes.npy", votes)
    np.save("some.npy", votes[~empty])
    write("some.csv", [NAMES, *PROBS[~empty].tolist()])
    wanted = nacp.calibrate(PROBS[~empty], votes[~empty], noise=0.2)
    done("calibrate", "some.csv", "some.npy", "--noise", "0.2")
    assert nacp.load("cal.json").threshold == wanted.threshold
    said = done("calibrate", "p.csv", "votes.npy", "--noise", "0.2", "--drop-unlabelled")
    assert f"Left out: {empty.sum()} of" in said
    assert nacp.load("cal.json").threshold == wanted.threshold


# Separators


@pytest.mark.parametrize(("mark", "typed"), [(";", ";"), ("\t", "tab"), ("|", "|")])
def test_the_separator_may_be_another(mark, typed):
    done("calibrate", "p.csv", "y.csv", *NOISE, "-o", "a.json")
    write("p2.csv", WITH_IDS, mark)
    write("y2.csv", [["id", "label"], *zip(IDS, NAMED, strict=True)], mark)
    done("calibrate", "p2.csv", "y2.csv", *NOISE, "-o", "b.json", "--separator", typed)
    assert nacp.load("a.json") == nacp.load("b.json")
    done("predict", "b.json", "p2.csv", "-o", "sets.csv", "--separator", typed)
    with open("sets.csv", newline="", encoding="utf-8") as file:
        assert file.readline() == mark.join(["row", "id", "label"]) + "\r\n"
    done("calibrate", "p.csv", "y.csv", *NOISE)  # it is not kept
    said = done("calibrate", "p2.csv", "y2.csv", *NOISE, code=2)
    assert "p2.csv" in said
    assert mark == "|" or f"give --separator {typed if mark != ';' else repr(mark)}" in said


def test_a_separator_is_for_the_files_that_have_it_and_allows_decimal_commas():
    """One table from a German spreadsheet, and one from elsewhere."""
    german = [[f"{value:.17g}".replace(".", ",") for value in row] for row in PROBS.tolist()]
    write("german.csv", [NAMES, *german], ";")
    assert "give --separator ';'" in done("calibrate", "german.csv", "y.csv", *NOISE, code=2)
    done("calibrate", "german.csv", "y.csv", *NOISE, "--separator", ";")
    wanted = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none")
    assert nacp.load("cal.json").threshold == wanted.threshold
    # A comma in the header, and numbers with points.
    write("odd.csv", [["x, y", *NAMES[1:], "truth"], *([*row, 0] for row in PROBS.tolist())], ";")
    for labels in ("y.csv", "odd.csv:truth"):
        said = done("calibrate", "odd.csv", labels, *NOISE, code=2)
        assert "odd.csv: its columns seem to be separated by ';'; give --separator ';'" in said
    write("z.csv", [["id", "label", "checked"], *([i, i % K, i % K] for i in range(60))], ";")
    audit = ("noise", "audit", "z.csv:label", "z.csv:checked", "--k", "4")
    assert "z.csv: its columns seem to be separated by ';'; give --separator ';'" in done(*audit, code=2)
    done(*audit, "--separator", ";")


# Rows that have names


@pytest.mark.parametrize("column", ["id", "items", "ID"])
def test_rows_that_are_called_otherwise_in_another_file_are_refused(column):
    table = pd.DataFrame({column: IDS, "label": NOISY, "checked": TRUE})
    turned = table[::-1]
    np.savez("turned.npz", items=np.array(IDS)[::-1], labels=NOISY[::-1])
    table.to_csv("y.csv", index=False)
    turned.to_csv("turned.csv", index=False)
    turned.to_parquet("turned.parquet")
    turned.to_json("turned.jsonl", orient="records", lines=True)
    done("calibrate", "p.csv", "y.csv", *NOISE)
    for other in ("turned.csv", "turned.csv:checked", "turned.npz", "turned.parquet", "turned.jsonl"):
        said = done("calibrate", "p.csv", other, *NOISE, code=2)
        assert f"{other} has 'p299' in row 0, where p.csv has 'p0'; put the rows of both in one order" in said
    assert "where p.csv has" in done("evaluate", "cal.json", "p.csv", "turned.csv", code=2)
    # Also of two files of labels, where the probabilities have no names.
    given = ("calibrate", "probs.npy", "y.csv:label", "--clean")
    done(*given, "y.csv:checked")
    assert "turned.csv:checked has 'p299' in row 0" in done(*given, "turned.csv:checked", code=2)
    audit = ("noise", "audit", "y.csv:label", "turned.csv:checked", "--k", str(K))
    assert "'p299' in row 0, where y.csv:label has 'p0'" in done(*audit, code=2)
    # Numbers of rows, as pandas writes them, are no names.
    table.rename(columns={column: ""}).to_csv("index.csv", index=False)
    done("calibrate", "p.csv", "index.csv:label", *NOISE)
    turned.assign(**{column: range(N)}).to_csv("numbers.csv", index=False)
    said = done("calibrate", "p.csv", "numbers.csv", *NOISE, code=2)
    assert "if these are not the same ids, rename that column" in said


@pytest.mark.parametrize("where", ["probs", "labels", "items"])
def test_ids_are_carried_into_the_table_to_fill_in(where):
    write("i.csv", [["text", "id"], *((f"text {i}", i) for i in IDS)])
    given = {
        "probs": ("p.csv", "labels.npy"),
        "labels": ("probs.npy", "y.csv", "--classes", "names.txt"),
        "items": ("p.csv", "y.csv"),
    }[where]
    more = ("--items", "i.csv") if where == "items" else ()
    done("audit", "choose", *given, "--budget", "60", "-o", "check.csv", *more)
    with open("check.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 50
    assert [row["id"] for row in rows] == [f"p{row['row']}" for row in rows]
    assert list(rows[0])[:3] == (["row", "text", "id"] if more else ["row", "id", "given"])
    filled = [row | {"checked": TRUE[int(row["row"])]} for row in rows]
    write("check.csv", [list(rows[0]), *(row.values() for row in filled)])
    done("calibrate", *given, "--audit", "check.csv")
    assert nacp.load("cal.json").checked == len(rows)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "lists.jsonl", "lists.parquet"])
def test_ids_are_carried_along_from_wherever_they_stand(kind):
    """The sets had no ids if these did not come first; of a column with another name nothing was said."""
    done("calibrate", "probs.npy", "labels.npy", *NOISE, "--classes", "names.txt")
    probs, ids = PROBS[:30], [f"0b{i}-uuid" for i in range(30)]
    by_name = dict(zip(NAMES, probs.T, strict=True))
    table = pd.DataFrame({"probs": probs.tolist()} if "lists" in kind else by_name)
    for column, option in (("id", ()), ("photo", ()), ("photo", ("--id", "photo"))):
        new = table.assign(**{column: ids})
        if kind == "csv":
            new.to_csv("new.csv", index=False)
        elif kind.endswith("jsonl"):
            new.to_json(f"new.{kind}", orient="records", lines=True)
        else:
            new.to_parquet(f"new.{kind}", index=False)
        said = done("predict", "cal.json", f"new.{kind}", *option, "-o", "sets.jsonl")
        written = json_lines("sets.jsonl")
        if column == "photo" and not option:
            assert "Left out, as no class: photo. To name the rows by one: --id photo" in said
            assert all("id" not in each for each in written)
        else:
            assert "Left out" not in said
            assert [each["id"] for each in written] == ids


def test_a_class_that_is_called_id_names_no_rows(folder):
    """As in a list of languages: id is Indonesian."""
    (folder / "names.txt").write_text("hu\nid\nis\nit\n")
    done("calibrate", "probs.npy", "labels.npy", *NOISE, "--classes", "names.txt")
    write("new.csv", [["hu", "id", "is", "it"], *PROBS[:5].tolist()])
    done("predict", "cal.json", "new.csv", "-o", "sets.csv")
    assert (folder / "sets.csv").read_text().startswith("row,label\n")


# Results


def test_evaluate_names_the_worst_classes_and_says_what_each_number_is():
    done("calibrate", "p.csv", "y.csv", "--noise", "0.2")
    evaluate = ("evaluate", "cal.json", "p.csv", "audit.csv:checked")
    said = done(*evaluate)
    sets = nacp.load("cal.json").predict_set(PROBS)
    worst = nacp.coverage_by_class(sets, NAMED_TRUE).worst_first()[0]
    hits = int(np.asarray(sets)[worst == TRUE, worst].sum())
    for each in (NAMES[worst], f"{hits / (worst == TRUE).sum():.4f}", str((worst == TRUE).sum())):
        assert each in said
    for each in ("the share of sets that hold the true label", "sets of similar size (0 to 1, 2 to 3"):
        assert each in plain(said)
    first = printed_json(*evaluate)["worst_classes"][0]
    assert (first["class"], first["count"]) == (NAMES[worst], int((worst == TRUE).sum()))
    assert first["low"] < first["coverage"] < first["high"]


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize(
    "command",
    [
        "plan --classes 1000 --noise 0.2 --points 25000",
        "compare p.csv y.csv --noise 0.2 --score hps",
        "calibrate p.csv y.csv --noise 0.2",
        "noise model p.csv y.csv",
        "diagnose ready.json p.csv y.csv",
        "evaluate ready.json p.csv audit.csv:checked",
        "audit choose p.csv y.csv --budget 50",
    ],
)
def test_what_commands_print_fits_the_terminal(monkeypatch, command, width):
    done("calibrate", "p.csv", "y.csv", "--noise", "0.2", "-o", "ready.json")
    wide = done(*command.split()).split()
    monkeypatch.setenv("COLUMNS", str(width))
    said = done(*command.split())
    assert max(map(len, said.splitlines())) <= width
    numbers = {word.strip("();,:.") for word in wide if any(map(str.isdigit, word))}
    assert numbers <= {word.strip("();,:.") for word in said.split()}, "no number is lost"
