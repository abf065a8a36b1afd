"""Files as people have them: joined by ids, with gaps, other separators, and columns that are no class."""

import csv
import json
from pathlib import Path

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
ORDER = np.random.default_rng(1).permutation(N)


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


def threshold(*arguments, **options):
    done("calibrate", *arguments, "-o", "found.json", **options)
    return nacp.load("found.json").threshold


# Which column


def test_a_column_is_found_by_its_name_and_never_compared_with_itself():
    names = ("--classes", "names.txt")
    for noisy, clean in [("audit.csv", "audit.csv:label"), ("audit.csv:checked", "./audit.csv:checked")]:
        assert "is given twice" in done("noise", "audit", noisy, clean, *names, code=2)
        assert "is given twice" in done("calibrate", "p.csv", noisy, "--clean", clean, code=2)
    done("noise", "audit", "audit.csv", "audit.csv", *names)  # label, and checked
    found = nacp.noise_from_audit(NAMED, NAMED_TRUE, classes=NAMES)
    assert nacp.estimation.load("noise.json") == found


def test_columns_that_are_no_class_are_left_out_where_it_is_known_which_are():
    some = [true if i % 2 else "" for i, true in enumerate(NAMED_TRUE)]
    rows = [[*row, y, t] for row, y, t in zip(WITH_IDS[1:], NAMED, some, strict=True)]
    header = [*WITH_IDS[0], "label", "checked"]
    write("two.csv", [header, *rows])
    write("all.csv", [[*header, "remark"], *([*row, "a remark"] for row in rows)])
    wanted = nacp.calibrate(PROBS, NOISY, clean=np.where(np.arange(N) % 2, TRUE, -1)).threshold
    assert threshold("p.csv", "y.csv", "--clean", "two.csv") == wanted
    assert threshold("two.csv", "two.csv", "--clean", "two.csv:checked") == wanted
    clean = ["--clean", "all.csv:checked", "--classes", "names.txt"]
    assert threshold("all.csv", "all.csv:label", *clean) == wanted
    said = done("calibrate", "all.csv", "all.csv:label", "--clean", "all.csv", *NOISE, code=2)
    assert "found 'a remark' in line 2, column 'remark'; " in said
    assert "; else give --classes FILE" in said
    # Classes are never proposed as labels, and a misspelt column gets the nearest one.
    write("many.csv", [[*header[:-1], "truth"], *rows])
    said = done("calibrate", "many.csv", "many.csv", "--clean", "many.csv:lable", code=2)
    assert "many.csv holds no 'lable', but id, c0" in said
    assert "(did you mean 'label'?)" in said
    write("many.csv", [["id", *NAMES, "given", "truth"], *rows])
    said = done("calibrate", "many.csv", "many.csv", *NOISE, code=2)
    assert "many.csv has 7 columns, among them given, truth; name the one that is meant" in said


def test_the_columns_are_named_before_the_advice_to_normalize():
    write("more.csv", [[*WITH_IDS[0], "u", "v"], *([*row, 0.3, 0.2] for row in WITH_IDS[1:])])
    said = done("calibrate", "more.csv", "y.csv", *NOISE, code=2)
    assert "the columns c0, c1, c2, c3, u, v of more.csv are taken as classes, and rows do not" in said
    assert "are taken as classes" not in done("calibrate", "p.csv", "y.csv", *NOISE)
    write("infinite.csv", [*WITH_IDS[:-1], [IDS[-1], "inf", "-inf", "1e308", "1e308"]])
    said = done("calibrate", "infinite.csv", "y.csv", *NOISE, code=2)
    assert said.startswith("Error: infinite.csv"), "not a warning of NumPy"
    more = ("--classes", "names.txt")
    assert "are taken as classes" not in done("calibrate", "more.csv", "y.csv", *NOISE, *more)


# Joins


@pytest.mark.parametrize("column", ["id", "ITEMS", "photo", ""])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npz"])
def test_files_are_joined_by_ids_in_any_order(kind, column):
    column = column if kind == "csv" else column or "id"  # pandas writes a column without a name
    frame = pd.DataFrame({column: IDS, "label": NAMED, "checked": NAMED_TRUE})
    for name, part in {"all": frame.iloc[ORDER], "some": frame.iloc[ORDER[:200]]}.items():
        if kind == "npz":
            np.savez("some.npz", **{each: np.array(part[each], dtype=str) for each in frame})
            Path("some.npz").rename(f"{name}.npz")
        elif kind == "csv":
            part.to_csv(f"{name}.csv", index=False)
        elif kind == "jsonl":
            part.to_json(f"{name}.jsonl", orient="records", lines=True)
        else:
            part.to_parquet(f"{name}.parquet", index=False)
    write("p.csv", [[column, *NAMES], *WITH_IDS[1:]])
    option = ["--id", "photo"] if column == "photo" else []
    wanted = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none").threshold
    assert threshold("p.csv", f"all.{kind}:label", *NOISE, *option) == wanted
    # A part of the labels, and a part of the checked ones.
    said = done("calibrate", "p.csv", f"some.{kind}:label", *NOISE, *option)
    kept, absent = np.sort(ORDER[:200]), np.sort(ORDER[200:])
    assert (
        f"Left out: 100 of 300 rows of p.csv that some.{kind} does not have, such as p{absent[0]}, p" in said
    )
    found = nacp.calibrate(PROBS[kept], NOISY[kept], noise=0.2, guarantee="none")
    assert nacp.load("cal.json").threshold == found.threshold
    wanted = nacp.calibrate(PROBS, NOISY, clean=(kept, TRUE[kept])).threshold
    clean = ("--clean", f"some.{kind}:checked")
    assert threshold("p.csv", f"all.{kind}:label", *clean, *option) == wanted
    if column != "photo":  # else no other file of these has it
        assert threshold("probs.npy", "y.csv", "--classes", "names.txt", *clean) == wanted


def test_rows_without_a_partner_are_counted_and_named():
    write("more.csv", [["id", "label"], *zip(IDS, NAMED, strict=True), ["x1", "c0"], ["x2", "c1"]])
    said = done("calibrate", "p.csv", "more.csv", *NOISE)
    assert "Left out: 2 of 302 rows of more.csv that p.csv does not have, such as x1, x2." in said
    write("other.csv", [["id", "label"], *zip(range(100, 100 + N), NAMED, strict=True)])
    said = done("calibrate", "p.csv", "other.csv", *NOISE, code=2)
    assert "other.csv has rows called 100, 101, and p.csv has p0, p1: none has a partner; rename" in said
    write("twice.csv", [["id", "label"], *zip([*IDS[:-1], "p0"], NAMED, strict=True)])
    assert "twice.csv has the id 'p0' more than once" in done(
        "calibrate", "p.csv", "twice.csv", *NOISE, code=2
    )
    write("bare.csv", [["label"], *([each] for each in NAMED[:9])])
    said = done("calibrate", "p.csv", "bare.csv", *NOISE, code=2)
    assert "bare.csv holds 9 values, but p.csv has 300 rows; to join them, both need a column of ids" in said
    # pandas numbers rows in a first column without a name.
    pd.DataFrame({"label": NAMED}).to_csv("numbered.csv")
    wanted = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none").threshold
    assert threshold("p.csv", "numbered.csv", *NOISE) == wanted
    pd.DataFrame(PROBS[ORDER], columns=NAMES, index=ORDER).to_csv("turned.csv")
    assert threshold("turned.csv", "numbered.csv", *NOISE) == wanted
    # Numbers of rows that were counted anew, and other ids, must not be joined with them by chance.
    pd.DataFrame(PROBS, columns=NAMES).to_csv("counted.csv")
    pd.DataFrame({"label": NAMED[:200]}).to_csv("shorter.csv")
    pd.DataFrame({"id": ORDER[:200], "label": NAMED[:200]}).to_csv("other.csv", index=False)
    for name in ("shorter.csv", "other.csv"):
        said = done("calibrate", "counted.csv", name, *NOISE, code=2)
        assert f"{name} holds 200 values, but counted.csv has 300 rows" in said
    pd.DataFrame({"label": NAMED}, index=range(N)).iloc[ORDER].to_csv("shuffled.csv")
    assert threshold("counted.csv", "shuffled.csv", *NOISE) == wanted
    said = done("predict", "found.json", "probs.npy", "--id", "x", code=2)
    assert "--id must name a column of ids, which no file has; found x" in said


def test_ids_in_a_column_of_another_name_are_not_ignored():
    """Advice that led to a match by position made sets of nearly all classes from files in another order."""
    write("claims.csv", [["claim_no", *NAMES], *WITH_IDS[1:]])
    write("y.csv", [["claim_no", "label"], *([IDS[i], NAMED[i]] for i in ORDER)])
    said = done("calibrate", "claims.csv", "y.csv:label", *NOISE, code=2)
    assert "if the column 'claim_no' names the rows, give --id claim_no" in said
    said = done("calibrate", "claims.csv", "y.csv:label", *NOISE, "--id", "claim", code=2)
    assert "claims.csv holds no 'claim', but claim_no, c0, c1, c2, c3 (did you mean 'claim_no'?)" in said
    wanted = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none").threshold
    assert threshold("claims.csv", "y.csv:label", *NOISE, "--id", "claim_no") == wanted


def test_rows_that_only_one_table_names_are_matched_in_order_with_a_warning():
    write("bare.csv", [["label"], *([each] for each in NAMED)])
    write("bare-probs.csv", [row[1:] for row in WITH_IDS])
    warning = "Warning: only {} has a column of ids, so its rows and those of {} are matched in order."
    assert warning.format("p.csv", "bare.csv") in done("calibrate", "p.csv", "bare.csv", *NOISE)
    assert warning.format("y.csv", "bare-probs.csv") in done("calibrate", "bare-probs.csv", "y.csv", *NOISE)
    write("all.csv", [[*row, y] for row, y in zip(WITH_IDS, ["label", *NAMED], strict=True)])
    for files in ("p.csv y.csv", "probs.npy y.csv --classes names.txt", "all.csv all.csv"):
        assert "matched in order" not in done("calibrate", *files.split(), *NOISE)
    write("none.csv", [["id", "label"]])
    assert "none.csv has a header but no rows" in done("calibrate", "p.csv", "none.csv", *NOISE, code=2)


def test_groups_truth_and_pairs_are_joined_too():
    side = ["east" if i % 3 else "west" for i in range(N)]
    rows = [[IDS[i], NAMED_TRUE[i], side[i], NAMED[i]] for i in ORDER]
    write("about.csv", [["id", "truth", "side", "label"], *rows])
    done("calibrate", "p.csv", "about.csv", *NOISE, "--groups", "about.csv:side")
    wanted = nacp.calibrate(PROBS, NAMED, noise=0.2, guarantee="none", groups=np.array(side), classes=NAMES)
    assert nacp.load("cal.json").thresholds == wanted.thresholds
    sets = wanted.predict_set(PROBS, groups=np.array(side))
    told = printed_json("evaluate", "cal.json", "p.csv", "about.csv", "--groups", "about.csv:side", code=None)
    assert told["coverage"] == nacp.evaluate(sets, NAMED_TRUE).coverage
    done("predict", "cal.json", "p.csv", "--groups", "about.csv:side", "-o", "sets.jsonl")
    assert [sorted(line["labels"]) for line in json_lines("sets.jsonl")] == sets.to_lists()
    done("noise", "audit", "y.csv", "about.csv:truth", "--classes", "names.txt")
    assert nacp.estimation.load("noise.json") == nacp.noise_from_audit(NAMED, NAMED_TRUE, classes=NAMES)


@pytest.mark.parametrize("where", ["probs", "labels", "items"])
def test_ids_are_carried_into_the_table_to_fill_in(where):
    write("bare.csv", [["label"], *([each] for each in NAMED)])
    write("i.csv", [["text", "id"], *((f"text {IDS[i]}", IDS[i]) for i in ORDER)])
    given = {
        "probs": ("p.csv", "bare.csv"),
        "labels": ("probs.npy", "y.csv", "--classes", "names.txt"),
        "items": ("p.csv", "y.csv"),
    }[where]
    more = ("--items", "i.csv") if where == "items" else ()
    done("audit", "choose", *given, "--budget", "60", "-o", "check.csv", *more)
    with open("check.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 50
    assert [row["id"] for row in rows] == [f"p{row['row']}" for row in rows]
    assert all(row["text"] == f"text {row['id']}" for row in rows if more)
    assert list(rows[0])[:3] == (["row", "text", "id"] if more else ["row", "id", "given"])
    filled = [row | {"checked": NAMED_TRUE[int(row["row"])]} for row in rows]
    write("check.csv", [list(rows[0]), *(row.values() for row in filled)])
    done("calibrate", *given, "--audit", "check.csv")
    assert nacp.load("cal.json").checked == len(rows)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "lists.jsonl", "lists.parquet"])
def test_ids_are_carried_along_from_wherever_they_stand(kind):
    """The sets had no ids if these did not come first; of a column with another name nothing was said."""
    done("calibrate", "p.csv", "y.csv", *NOISE)
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
    write("y.csv", [["label"], *([["hu", "id", "is", "it"][each]] for each in NOISY)])
    done("calibrate", "probs.npy", "y.csv", *NOISE, "--classes", "names.txt")
    write("new.csv", [["hu", "id", "is", "it"], *PROBS[:5].tolist()])
    done("predict", "cal.json", "new.csv", "-o", "sets.csv")
    assert (folder / "sets.csv").read_text().startswith("row,label\n")


# Gaps


def test_rows_without_a_label_are_named_and_can_be_left_out():
    kept = [i for i in range(N) if i not in (4, 7, 250)]
    labels = [NAMED[i] if i in kept else "" for i in range(N)]
    write("gaps.csv", [["id", "label"], *zip(IDS, labels, strict=True)])
    np.save("gaps.npy", np.where(np.isin(np.arange(N), kept), NOISY, -1))
    write("other-order.csv", [["id", "label"], *zip(IDS[::-1], labels[::-1], strict=True)])
    for *given, row in (
        ("p.csv", "gaps.csv", IDS[4]),
        ("p.csv", "other-order.csv", IDS[4]),
        ("probs.npy", "gaps.npy", 4),
    ):
        said = done("calibrate", *given, *NOISE, code=2)
        assert f"{given[1]} has no label in row {row} and in 2 others; drop such rows first" in said
        assert "--drop-unlabelled" in said
        said = done("calibrate", *given, *NOISE, "--drop-unlabelled", "-o", "left.json")
        assert "Left out: 3 of 300 rows without a label." in said
        wanted = nacp.calibrate(PROBS[kept], NOISY[kept], noise=0.2, guarantee="none")
        assert nacp.load("left.json").threshold == wanted.threshold
    points = ("probs.npy", "gaps.npy", "--drop-unlabelled")
    told = done("diagnose", "left.json", *points)
    assert on_one_line(wanted.diagnose(PROBS[kept], NOISY[kept])) in plain(told)
    assert "Left out: 3 of 300" in done("compare", *points, "--noise", "0.2", "--score", "hps")
    write("truth.csv", [["checked"], *([each] for each in TRUE)])
    found = threshold(*points, "--clean", "truth.csv")
    assert found == nacp.calibrate(PROBS[kept], NOISY[kept], clean=TRUE[kept]).threshold


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


# Separators, and what spreadsheets write and execute


@pytest.mark.parametrize("mark", [";", "\t", "|", ","])
def test_the_separator_is_seen_by_the_content(mark):
    """A spreadsheet writes ';' where the decimal mark is a comma; a class may be called with one."""
    names = ["x, y", *NAMES[1:]]
    decimal = "," if mark == ";" else "."
    probs = [[f"{value:.17g}".replace(".", decimal) for value in row] for row in PROBS.tolist()]
    write("p2.csv", [["id", *names], *([i, *row] for i, row in zip(IDS, probs, strict=True))], mark)
    rows = ([i, "a; b, c", names[y]] for i, y in zip(IDS, NOISY, strict=True))
    write("y2.csv", [["id", "text", "label"], *rows], mark)
    wanted = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none").threshold
    assert threshold("p2.csv", "y2.csv", *NOISE) == wanted
    write("bare.csv", probs, mark)
    assert threshold("bare.csv", "labels.npy", *NOISE) == wanted


def test_cells_that_were_escaped_for_a_spreadsheet_are_read_back():
    names, ids = ["=1+1", "+a", "@SUM(1)", "-b"], [f"=HYPERLINK({i})" for i in range(N)]
    Path("names.json").write_text(json.dumps(names))
    write("new.csv", [["id", *names], *([i, *row] for i, row in zip(ids, PROBS.tolist(), strict=True))])
    escaped = [["'" + ids[i], "'" + names[NOISY[i]]] for i in ORDER]
    write("y.csv", [["id", "label"], *escaped])
    wanted = nacp.calibrate(PROBS, NOISY, noise=0.2, guarantee="none").threshold
    assert threshold("new.csv", "y.csv", *NOISE) == wanted
