"""Files as people have them: gaps in the labels, other separators, and advice that suits."""

import csv
import json
import re
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import nacp
from nacp.cli import app
from nacp.labels import from_label_studio
from nacp.wrapping import on_one_line

K = 4


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(K, 0.4), size=1000)
    true = (probs.cumsum(axis=1) > rng.random((1000, 1))).argmax(axis=1)
    noisy = nacp.UniformNoise(0.2).sample(true, K, random_state=0)
    np.save("probs.npy", probs)
    np.save("labels.npy", noisy)
    return probs, true, noisy


def done(*words, code=0):
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def _table(path, header, rows, mark=","):
    with open(path, "w", newline="") as file:
        csv.writer(file, delimiter=mark).writerows([header, *rows])


def test_rows_without_a_label_are_named_and_can_be_left_out(files):
    probs, _, noisy = files
    names = [f"c{i}" for i in range(probs.shape[1])]
    labels = [names[i] for i in noisy[:300]]
    for i in (4, 7, 250):
        labels[i] = ""
    kept = [i for i in range(300) if labels[i]]
    ids = [f"p{i}" for i in range(300)]
    _table(
        "p.csv", ["id", *names], ([name, *row] for name, row in zip(ids, probs[:300].tolist(), strict=True))
    )
    _table("y.csv", ["id", "label"], zip(ids, labels, strict=True))
    np.save("p.npy", probs[:300])
    np.save("y.npy", np.where(np.isin(np.arange(300), kept), noisy[:300], -1))
    options = ("--noise", "0.2", "--guarantee", "none")
    said = done("calibrate", "p.csv", "y.csv", *options, code=2)
    assert "y.csv has no label in row 4 and in 2 others; drop such rows first" in said
    assert "--drop-unlabelled" in said
    wanted = nacp.calibrate(probs[:300][kept], noisy[:300][kept], noise=0.2, guarantee="none")
    for given in (("p.csv", "y.csv"), ("p.npy", "y.npy")):
        said = done("calibrate", *given, *options, "--drop-unlabelled", "-o", "left.json")
        assert "Left out: 3 of 300 rows without a label." in said
        assert nacp.load("left.json").threshold == wanted.threshold
    told = done("diagnose", "left.json", "p.npy", "y.npy", "--drop-unlabelled")
    assert on_one_line(wanted.diagnose(probs[:300][kept], noisy[:300][kept])) in " ".join(told.split())
    for command in (("compare",), ("report", "-o", "left.html")):
        assert "Left out: 3 of 300" in done(*command, "p.npy", "y.npy", "--noise", "0.2", "--drop-unlabelled")
    np.save("clean.npy", noisy[:300])
    said = done("calibrate", "p.npy", "y.npy", "--clean", "clean.npy", "--drop-unlabelled", code=2)
    assert "--drop-unlabelled is of no use with checked labels" in said
    with pytest.raises(nacp.InputError, match=r"has no label in row 1 and in 1 other; .*probs\[keep\]"):
        nacp.calibrate(probs[:4], [0, None, 1, None], noise=0.2)


def test_an_audit_takes_the_items_that_have_both_labels(files):
    _, true, noisy = files
    rows = [[i, noisy[i] if i != 9 else "", true[i] if i % 3 == 0 else ""] for i in range(900)]
    _table("audit.csv", ["id", "given", "checked"], rows)
    both = [i for i in range(0, 900, 3) if i != 9]
    said = done("noise", "audit", "audit.csv:given", "audit.csv:checked", "--k", "4", "-o", "n.json")
    assert "Left out: 601 of 900 items without a label or a true one." in said
    wanted = nacp.noise_from_audit(noisy[both], true[both], k=4)
    assert nacp.estimation.load("n.json") == wanted
    _table("none.csv", ["id", "given", "checked"], [[i, noisy[i], ""] for i in range(50)])
    said = done("noise", "audit", "none.csv:given", "none.csv:checked", "--k", "4", code=2)
    assert "has no label for an item that has a noisy one" in said


def test_items_that_nobody_labelled_are_written_empty_and_told(files):
    rows = [[f"i{i}", f"w{j}", (i + j) % 2] for i in range(40) for j in range(3) if i not in (5, 6)]
    _table("long.csv", ["task", "worker", "label"], rows)
    with open("items.txt", "w") as file:
        file.write("".join(f"i{i}\n" for i in range(40)))
    words = ("noise", "annotators", "long.csv", "-o", "n.json", "--labels", "y.csv", "--items", "items.txt")
    said = " ".join(done(*words, "--model", "matrix").split())
    assert "y.csv, the labels; 2 of 40 items have none: calibrate with --drop-unlabelled" in said
    with open("y.csv") as file:
        written = list(csv.DictReader(file))
    assert [row["items"] for row in written if not row["label"]] == ["i5", "i6"]
    with open("items.txt", "w") as file:
        file.write("x1\nx2\n")
    assert "--items names 'x1', which the labels do not have" in done(*words, "--model", "matrix", code=2)


def test_a_separator_is_for_the_files_that_have_it(files):
    """One table from a German spreadsheet, and one from elsewhere: neither order of commands got through."""
    probs, _, noisy = files
    names = [f"c{i}" for i in range(probs.shape[1])]
    german = [[f"{value:.8f}".replace(".", ",") for value in row] for row in probs[:200].tolist()]
    _table("p.csv", names, german, ";")
    _table("y.csv", ["id", "label"], [[i, names[label]] for i, label in enumerate(noisy[:200])])
    assert "give --separator ';'" in done("calibrate", "p.csv", "y.csv", "--noise", "0.2", code=2)
    done("calibrate", "p.csv", "y.csv", "--noise", "0.2", "--guarantee", "none", "--separator", ";")
    # A comma in the header, and numbers with points.
    _table("odd.csv", ["x, y", *names[1:]], probs[:200].tolist(), ";")
    said = done("calibrate", "odd.csv", "y.csv", "--noise", "0.2", code=2)
    assert "odd.csv: its columns seem to be separated by ';'; give --separator ';'" in said


def test_advice_suits_the_noise(files):
    said = done("calibrate", "probs.npy", "labels.npy", "--noise", "0.995", code=2)
    assert "state a smaller rate" in said
    assert "merge classes" not in said
    np.save("matrix.npy", 0.26 * np.eye(K) + 0.74 / 3 * (1 - np.eye(K)))
    said = done("calibrate", "probs.npy", "labels.npy", "--noise", "matrix.npy", code=2)
    assert "merge classes that are often confused" in said


def test_the_column_that_is_proposed_is_not_the_last_one(files):
    _table("y.csv", ["id", "crowd", "expert", "worker"], [[i, 0, 0, i % 7] for i in range(20)])
    said = done("calibrate", "probs.npy", "y.csv", "--noise", "0.2", code=2)
    assert "name the one that is meant, as y.csv:crowd" in said


@pytest.mark.parametrize("words", [("noise", "annotators"), ("noise", "audit"), ("calibrate",), ("report",)])
def test_no_help_breaks_a_word(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    said = done(*words, "--help")
    rows = [line.strip("│ ") for line in said.splitlines() if line.startswith("│")]
    assert rows
    assert not [row for row in rows if re.match(r"\w{1,3}>", row)]


def test_a_warning_stands_at_the_line_of_the_user():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    true = rng.integers(4, size=1500)
    inputs = np.eye(4)[true] + 0.3 * rng.standard_normal((1500, 4))
    noisy = nacp.UniformNoise(0.1).sample(true, 4, random_state=0)
    model = nacp.NoiseAwareClassifier(LogisticRegression(), noise=0.5, guarantee="none")
    model.fit(inputs[:500], true[:500])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.conformalize(inputs[500:], noisy[500:])
        nacp.compare(np.eye(4)[true] * 0.9 + 0.025, noisy, noise=0.5, guarantees=["none"])
    assert {each.category for each in told} >= {nacp.NoiseModelWarning}
    assert {each.filename for each in told} == {__file__}


def test_of_label_studios_short_export_the_data_are_not_proposed_as_answers():
    """Where keys are not in Label Studio's order, which are the answers is not known."""
    tasks = [
        {"annotator": who, "id": i, "mood": mood, "text": f"text number {i}", "lead_time": 1.0}
        for i, mood in enumerate(["good", "bad", "good", "bad"])
        for who in (1, 2)
    ]
    with pytest.raises(
        nacp.InputError, match=r"must name the field with the answers, one of 'mood'; pass control='mood'"
    ):
        from_label_studio(tasks)
    assert from_label_studio(tasks, control="mood").matrix().shape == (4, 2)


def test_a_column_of_a_file_with_another_separator_is_not_missing(files):
    _table("y.csv", ["id", "label", "checked"], [[i, i % K, i % K] for i in range(60)], ";")
    said = done("noise", "audit", "y.csv:label", "y.csv:checked", "--k", "4", code=2)
    assert "y.csv: its columns seem to be separated by ';'; give --separator ';'" in said
    done("noise", "audit", "y.csv:label", "y.csv:checked", "--k", "4", "--separator", ";", "-o", "n.json")


def test_a_label_matrix_of_numbers_goes_with_named_columns(files):
    """Snorkel's matrix has -1 where a function abstains; the probabilities come from a table with names."""
    probs, true, _ = files
    rng = np.random.default_rng(5)
    names = [f"c{i}" for i in range(K)]
    votes = np.stack([nacp.UniformNoise(0.2).sample(true, K, random_state=i) for i in range(3)], axis=1)
    votes[rng.random(votes.shape) < 0.3] = -1
    empty = np.all(votes == -1, axis=1)
    assert 5 < empty.sum() < 100
    _table("p.csv", names, probs.tolist())
    np.save("votes.npy", votes)
    np.save("some.npy", votes[~empty])
    _table("some.csv", names, probs[~empty].tolist())
    options = ("--noise", "0.2", "-o", "cal.json")
    wanted = nacp.calibrate(probs[~empty], votes[~empty], noise=0.2)
    done("calibrate", "some.csv", "some.npy", *options)
    assert nacp.load("cal.json").threshold == wanted.threshold
    assert f"Left out: {empty.sum()} of" in done(
        "calibrate", "p.csv", "votes.npy", *options, "--drop-unlabelled"
    )
    assert nacp.load("cal.json").threshold == wanted.threshold


def test_an_estimate_names_the_class_that_it_knows_least(files):
    _, true, noisy = files
    names = np.array(["oak", "ash", "elm", "yew"])
    rare = (true != 2) | (np.arange(len(true)) < 60)
    found = nacp.noise_from_audit(names[noisy[rare]], names[true[rare]], classes=names.tolist())
    assert "that of class 'elm'" in found.why


def test_a_column_that_only_another_separator_shows_is_told_so(files):
    probs, true, _ = files
    done("calibrate", "probs.npy", "labels.npy", "--noise", "0.2", "-o", "cal.json")
    rows = [[*row, label] for row, label in zip(probs.tolist(), true.tolist(), strict=True)]
    _table("test.csv", ["a, b", "c", "d", "e", "truth"], rows, ";")
    said = done("evaluate", "cal.json", "test.csv", "test.csv:truth", code=2)
    assert "give --separator ';'" in said


# Rows that have names


@pytest.fixture
def named(files):
    probs, true, noisy = (each[:300] for each in files)
    ids = [f"p{i}" for i in range(300)]
    names = [f"c{i}" for i in range(K)]
    _table("p.csv", ["id", *names], ([i, *row] for i, row in zip(ids, probs.tolist(), strict=True)))
    return probs, true, noisy, ids


@pytest.mark.parametrize("column", ["id", "items", "item", "ID"])
def test_rows_that_are_called_otherwise_in_another_file_are_refused(named, column):
    probs, true, noisy, ids = named
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({column: ids, "label": noisy, "checked": true})
    turned = table[::-1]
    options = ("--noise", "0.2", "--guarantee", "none")
    np.savez("turned.npz", items=np.array(ids)[::-1], labels=noisy[::-1])
    table.to_csv("y.csv", index=False)
    turned.to_csv("turned.csv", index=False)
    turned.to_parquet("turned.parquet")
    turned.to_json("turned.jsonl", orient="records", lines=True)
    done("calibrate", "p.csv", "y.csv", *options)
    for other in ("turned.csv", "turned.csv:checked", "turned.npz", "turned.parquet", "turned.jsonl"):
        said = done("calibrate", "p.csv", other, *options, code=2)
        assert f"{other} has 'p299' in row 0, where p.csv has 'p0'; put the rows of both in one order" in said
    assert "where p.csv has" in done("evaluate", "cal.json", "p.csv", "turned.csv", code=2)
    # Also of two files of labels, where the probabilities have no names.
    np.save("p.npy", probs)
    given = ("calibrate", "p.npy", "y.csv:label", "--clean")
    done(*given, "y.csv:checked")
    assert "turned.csv:checked has 'p299' in row 0" in done(*given, "turned.csv:checked", code=2)
    audit = ("noise", "audit", "y.csv:label", "turned.csv:checked", "--k", str(K))
    assert "'p299' in row 0, where y.csv:label has 'p0'" in done(*audit, code=2)
    # Numbers of rows, as pandas writes them, are no names, and one table agrees with itself.
    table.rename(columns={column: ""}).to_csv("index.csv", index=False)
    done("calibrate", "p.csv", "index.csv:label", *options)
    turned.assign(**{column: range(300)}).to_csv("numbers.csv", index=False)
    said = done("calibrate", "p.csv", "numbers.csv", *options, code=2)
    assert "if these are not the same ids, rename that column" in said


@pytest.mark.parametrize("where", ["probs", "labels", "items"])
def test_ids_are_carried_into_the_table_to_fill_in(named, where):
    probs, true, noisy, ids = named
    np.save("p.npy", probs)
    np.save("y.npy", noisy)
    _table("y.csv", ["id", "label"], zip(ids, noisy.tolist(), strict=True))
    _table("i.csv", ["text", "id"], ((f"text {i}", i) for i in ids))
    given = {"probs": ("p.csv", "y.npy"), "labels": ("p.npy", "y.csv"), "items": ("p.csv", "y.csv")}[where]
    more = ("--items", "i.csv") if where == "items" else ()
    done("audit", "choose", *given, "--budget", "60", "-o", "check.csv", *more)
    with open("check.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 50
    assert [row["id"] for row in rows] == [f"p{row['row']}" for row in rows]
    assert list(rows[0])[:3] == (["row", "text", "id"] if more else ["row", "id", "given"])
    filled = [row | {"checked": true[int(row["row"])]} for row in rows]
    _table("check.csv", list(rows[0]), (row.values() for row in filled))
    done("calibrate", *given, "--audit", "check.csv")
    assert nacp.load("cal.json").checked == len(rows)


# Small slips


def test_a_rate_in_percent_is_told_as_a_share(files):
    said = done("calibrate", "probs.npy", "labels.npy", "--noise", "25%", code=2)
    assert said == "Error: --noise must be a rate such as 0.2; found '25%'; write 0.25\n"


def test_an_empty_list_of_records_is_told_as_such(files):
    with open("empty.json", "w") as file:
        file.write("[]")
    said = done("noise", "annotators", "empty.json", "--k", "2", code=2)
    assert said == "Error: empty.json holds no record\n"


def test_labels_by_several_that_are_too_few_are_named_with_the_way_to_order_them(files):
    _, _, noisy = files
    np.save("three.npy", np.stack([noisy[:-1]] * 3, axis=1))
    said = done("calibrate", "probs.npy", "three.npy", "--noise", "0.2", code=2)
    assert "three.npy holds labels of 999 items, but probs.npy has 1,000 rows" in said
    assert "nacp noise annotators --labels FILE --items FILE" in said


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "lists.jsonl", "lists.parquet"])
def test_ids_are_carried_along_from_wherever_they_stand(files, kind):
    """The sets had no ids if these did not come first; of a column with another name nothing was said."""
    pd = pytest.importorskip("pandas")
    probs, names = files[0][:30], [f"c{i}" for i in range(K)]
    ids = [f"0b{i}-uuid" for i in range(30)]
    with open("names.txt", "w") as file:
        file.write("\n".join(names))
    done("calibrate", "probs.npy", "labels.npy", "--noise", "0.2", "--classes", "names.txt")
    table = pd.DataFrame(
        {"probs": probs.tolist()} if "lists" in kind else dict(zip(names, probs.T, strict=True))
    )
    for column, option in (("id", ()), ("photo", ()), ("photo", ("--id", "photo"))):
        new = table.assign(**{column: ids})
        if kind == "csv":
            new.to_csv("new.csv", index=False)
        elif kind.endswith("jsonl"):
            new.to_json(f"new.{kind}", orient="records", lines=True)
        else:
            new.to_parquet(f"new.{kind}", index=False)
        said = done("predict", "cal.json", f"new.{kind}", *option, "-o", "sets.jsonl")
        with open("sets.jsonl") as file:
            written = [json.loads(line) for line in file]
        if column == "photo" and not option:
            assert "Left out, as no class: photo. To name the rows by one: --id photo" in said
            assert all("id" not in each for each in written)
        else:
            assert "Left out" not in said
            assert [each["id"] for each in written] == ids


def test_a_class_that_is_called_id_names_no_rows(files):
    """As in a list of languages: id is Indonesian."""
    with open("names.txt", "w") as file:
        file.write("hu\nid\nis\nit\n")
    done("calibrate", "probs.npy", "labels.npy", "--noise", "0.2", "--classes", "names.txt")
    _table("new.csv", ["hu", "id", "is", "it"], files[0][:5].tolist())
    done("predict", "cal.json", "new.csv", "-o", "sets.csv")
    with open("sets.csv") as file:
        assert file.readline() == "row,label\n"


NAMED = ["Cod, Atlantic", "Cod, Pacific", "Hake", "Ling"]


@pytest.mark.parametrize(
    "listed",
    [
        "probs",
        "probs, id and labels",
        "probs, label numbers",
        "one-hot",
        "column",
        "titled",
        "titled otherwise",
    ],
)
def test_class_names_come_from_a_header_or_from_a_column(files, listed):
    """A header above probabilities was no list; a column of names did not say which columns are meant."""
    probs, _, noisy = files
    rows = probs.tolist()
    table = {
        "probs": (NAMED, rows),
        "probs, id and labels": (
            ["id", *NAMED, "label", "checked"],
            [["a", *row, "Hake", ""] for row in rows],
        ),
        "probs, label numbers": (["id", *NAMED, "label"], [[7, *row, 1] for row in rows]),
        "one-hot": (NAMED, np.eye(K).tolist()),
        "column": (NAMED[:1], [[name] for name in NAMED[1:]]),
        "titled": (["class"], [[name] for name in NAMED]),
        "titled otherwise": (["fish"], [[name] for name in NAMED]),
    }[listed]
    _table("names.csv", *table)
    options = ("--noise", "0.2", "--classes", "names.csv", "--guarantee", "none")
    done("calibrate", "probs.npy", "labels.npy", *options)
    assert list(nacp.load("cal.json").classes) == NAMED
    # They say which columns of another table are classes, and in which order.
    turned = [[*row[::-1], NAMED[label], "a note"] for row, label in zip(rows, noisy, strict=True)]
    _table("points.csv", [*NAMED[::-1], "label", "remark"], turned)
    done("calibrate", "points.csv", "points.csv:label", *options, "-o", "other.json")
    one, other = nacp.load("cal.json"), nacp.load("other.json")
    assert (one.threshold, one.classes) == (other.threshold, other.classes)


@pytest.mark.parametrize(
    ("header", "row", "said"),
    [
        (["photo", "worker", "label"], None, "--item must name a column: without one nothing says which "
         "labels are of one item; it may be 'photo'; give --item photo"),
        (["photo", "who", "was"], None, "answers.csv holds classes in its column 'was' alone"),
        (["photo", "who", "was"], "7", "answers.csv holds numbers in its column 'photo' and texts in 'who'"),
    ],
)  # fmt: skip
def test_a_row_for_each_label_under_unknown_names_is_told_as_such(files, header, row, said):
    """It said that a photo's number is not in classes."""
    with open("names.txt", "w") as file:
        file.write("\n".join(NAMED))
    rows = [[i // 2, f"w{i % 2}", row or NAMED[i // 5 % 4]] for i in range(40)]
    _table("answers.csv", header, rows)
    told = done("noise", "annotators", "answers.csv", "--classes", "names.txt", code=2)
    assert said in told
    if "worker" not in header:
        assert "if it has a row for each label, name its columns by --item, --annotator and --label" in told
    named = ("--item", "photo", "--annotator", header[1], "--label", header[2])
    if row is None:
        done("noise", "annotators", "answers.csv", "--classes", "names.txt", *named)
