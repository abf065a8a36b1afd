"""``nacp audit choose``: which labels to check, in a table that an expert fills in."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

import nacp
from nacp.cli import options
from nacp.cli.audit_table import CHECKED, COLUMNS, write_audit
from nacp.cli.commands import command, group
from nacp.cli.formats import TextTable
from nacp.cli.inputs import ID, Column, Rows, id_at
from nacp.cli.models import NoiseOptions
from nacp.cli.outputs import check_output
from nacp.cli.sample import PointFiles
from nacp.cli.terminal import progress_of, show
from nacp.errors import InputError

audit_app = group(
    "audit",
    "Have some labels checked, for --audit of other commands.",
    "nacp audit choose probs.npy labels.csv --budget 300 -o to-check.csv",
    "nacp calibrate probs.npy labels.csv --audit to-check.csv",
)


@command(
    "choose",
    "nacp audit choose probs.npy labels.csv --budget 300 -o to-check.csv",
    "nacp audit choose probs.npy labels.csv --budget 300 --items texts.csv",
    app=audit_app,
)
def choose_command(
    points: PointFiles,
    noise: NoiseOptions,
    budget: Annotated[int, typer.Option(help="How many labels can be checked.", show_default=False)],
    to: Annotated[
        Literal["table", "label-studio"], typer.Option(help="A table to fill in, or tasks to import.")
    ] = "table",
    out: Annotated[
        Path | None, options.out("The file: to-check.csv for a table, to-check.json for tasks by default.")
    ] = None,
    items: Annotated[
        str | None,
        options.file(
            help="A .csv table with a header and a row per point (ids, texts, file names) to carry along."
        ),
    ] = None,
    alpha: options.Alpha = 0.1,
    score: options.ScoreName = "hps",
    random_state: options.RandomState = 0,
    looks: Annotated[int, typer.Option(help="How often you calibrate, with more and more labels.")] = 1,
    show_labels: Annotated[
        bool, typer.Option("--show-labels", help="Show the given and the likely labels in Label Studio.")
    ] = False,
) -> None:
    """Choose which labels to check, and write a table to fill in; ids are carried along.

    --to label-studio writes tasks to import into Label Studio, which do not show
    the given labels (--show-labels does), with a labelling interface beside them
    (.xml). --audit then takes the JSON that Label Studio exports.

    Write the true label into the column "checked". Leave it empty where you
    did not look; what is left empty must not be the hard ones. Write ? where
    you looked and cannot decide: that counts as a miss, which is safe. With
    --looks, fill in the table from the top, and calibrate after a whole look.
    Keep the plan, which is written beside the table: to-check.plan.json.
    """
    studio = to == "label-studio"
    out = out or Path("to-check.json" if studio else "to-check.csv")
    check_output(str(out), (".json",) if studio else (".csv",))
    with progress_of(f"reading {points.probs}"):
        read, given = points.read()
        n, k = read.probs.shape
        titles, carried = _items(items, Rows(points.probs, n, read.ids), points.id)
        if read.ids is not None and ID[0] not in titles:
            titles = [ID[0], *titles]
            carried = [[i, *row] for i, row in zip(read.ids, carried, strict=True)]
        given |= {"alpha": alpha, "score": score, "random_state": random_state, "looks": looks}
        given["noise"] = noise.read_noise(k, read.classes, optional=True)
    with progress_of("choosing"):
        plan = nacp.choose_audit(read.probs, read.labels, budget=budget, **given)
    beside = write_audit(out, plan, read, titles, carried, hidden=studio and not show_labels)
    document = plan.to_dict() | {"rows": plan.rows.tolist(), "out": str(out), "plan": str(beside)}
    interface = f", the labelling interface, {out.with_suffix('.xml')}," if studio else ""
    use = f"Import {out} into Label Studio." if studio else f'Fill in the column "{CHECKED}".'
    show(document, plan, f"{use} Written: {out}{interface} and the plan, {beside}")


def _items(name: str | None, points: Rows, id: str | None) -> tuple[list[str], list[list[str]]]:
    """Read a table to carry along: its header, and a row for each point."""
    if name is None:
        return [], [[] for _ in range(points.n)]
    titles, *rows = TextTable(Path(name)).rows()
    names_at = id_at(titles, id, (), known=True)
    ids = None if names_at is None else [row[names_at] for row in rows]
    at = points.places(Column(name, np.arange(len(rows)), ids))
    rows = rows if at is None else [rows[i] if i >= 0 else [""] * len(titles) for i in at]
    taken = [each for each in titles if each in COLUMNS]
    if taken:
        raise InputError(name, f'has a column "{taken[0]}", as the table to fill in has', remedy="rename it")
    return titles, rows
