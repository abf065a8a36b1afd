"""``nacp audit choose``: which labels to check, in a table that an expert fills in."""

import csv
import json
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
import typer

import nacp
from nacp._types import Ints
from nacp.audit.plan import same_audit
from nacp.cli import options
from nacp.cli.commands import app, command, example_block
from nacp.cli.formats import TextTable, separator
from nacp.cli.inputs import is_absent, row_ids, true_labels
from nacp.cli.models import NoiseOptions
from nacp.cli.outputs import check_output
from nacp.cli.sample import Opened, Points
from nacp.cli.terminal import progress_of, show
from nacp.errors import InputError
from nacp.files import check_sealed, parse, sealed, write_whole

audit_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(audit_app, name="audit")

_LIKELY = 3  # the number of probable classes that are shown
_ID, _ROW, _GIVEN, _PROBABLE, _CHECKED, _PLAN = "id", "row", "given", "most probable", "checked", "plan"
_LOOK = "look"


@audit_app.callback(
    epilog=example_block(
        "nacp audit choose probs.npy labels.csv --budget 300 -o to-check.csv",
        "nacp calibrate probs.npy labels.csv --audit to-check.csv",
    )
)
def _audit() -> None:
    """Have some labels checked, for --audit of nacp calibrate."""


@command(
    "choose",
    "nacp audit choose probs.npy labels.csv --budget 300 -o to-check.csv",
    "nacp audit choose probs.npy labels.csv --budget 300 --items texts.csv",
    app=audit_app,
)
def choose_command(
    points: Points,
    noise: NoiseOptions,
    budget: Annotated[int, typer.Option(help="How many labels can be checked.", show_default=False)],
    out: Annotated[Path, options.out("The file to fill in: .csv.")] = Path("to-check.csv"),
    items: Annotated[
        str | None,
        options.file(
            help="A .csv table with a header and a row per point (ids, texts, file names) to carry along."
        ),
    ] = None,
    alpha: options.Alpha = 0.1,
    score: options.ScoreName = "hps",
    seed: options.Seed = 0,
    looks: Annotated[int, typer.Option(help="How often you calibrate, with more and more labels.")] = 1,
) -> None:
    """Choose which labels to check, and write a table to fill in; a column of ids is carried along.

    Write the true label into the column "checked". Leave it empty where you
    did not look; what is left empty must not be the hard ones. Write ? where
    you looked and cannot decide: that counts as a miss, which is safe. With
    --looks, fill in the table from the top, and calibrate after a whole look.
    """
    if out.suffix != ".csv":
        raise InputError(str(out), "must end in .csv")
    check_output(str(out), inputs=(points.probs, points.labels, noise.noise, points.classes, items))
    with progress_of(f"reading {points.probs}"):
        opened = points.open()
        n, k = opened.probs.shape
        carried = _items(items, n)
        ids = row_ids(points.probs) or row_ids(points.labels)
        if ids is not None and len(ids) == n and _ID not in carried[0]:
            carried = [[name, *row] for name, row in zip([_ID, *ids], carried, strict=True)]
        known = noise.read_noise(k, optional=True)
    with progress_of("choosing"):
        plan = nacp.choose_audit(
            opened.probs,
            opened.labels,
            budget=budget,
            alpha=alpha,
            score=score,
            noise=known,
            random_state=seed,
            looks=looks,
            **opened.arguments,
        )
    write_whole(out, "w", lambda file: _write(file, plan, opened, carried))
    document = plan.to_dict() | {"rows": plan.rows.tolist(), "out": str(out)}
    show(document, plan, f'Fill in the column "{_CHECKED}". Written: {out}')


def _items(name: str | None, rows: int) -> list[list[str]]:
    """Read a table to carry along: its header, and a row for each point."""
    if name is None:
        return [list[str]() for _ in range(rows + 1)]
    read = [cells for _, cells in TextTable(Path(name)).rows()]
    if len(read) != rows + 1:
        raise InputError(name, f"must have a header and {rows:,} rows", found=f"{len(read):,} lines")
    taken = [each for each in read[0] if each in (_ROW, _GIVEN, _PROBABLE, _CHECKED, _LOOK, _PLAN)]
    if taken:
        raise InputError(name, f'has a column "{taken[0]}", as the table to fill in has', remedy="rename it")
    return read


def _write(file: IO[Any], plan: nacp.AuditPlan, opened: Opened, items: list[list[str]]) -> None:
    """Write the table: a row for each label to check."""
    writer, said = csv.writer(file, delimiter=separator(".csv")), json.dumps(sealed(plan.to_dict()))
    several = len(plan.stops) > 1
    writer.writerow([_ROW, *items[0], _GIVEN, _PROBABLE, _CHECKED, *[_LOOK] * several, _PLAN])
    names = np.arange(opened.probs.shape[1]) if opened.classes is None else opened.classes
    for place, row in enumerate(plan.rows.tolist()):
        look = 1 + np.searchsorted(plan.stops, place, side="right")
        scores = np.asarray(opened.probs[row])
        likely = np.argsort(scores if plan.score.name == "precomputed" else -scores, kind="stable")[:_LIKELY]
        probable = "; ".join(f"{names[i]} {scores[i]:.2g}" for i in likely)
        writer.writerow([row, *items[row + 1], opened.labels[row], probable, "", *[look] * several, said])


def read_audit(name: str, opened: Opened) -> tuple[nacp.AuditPlan, tuple[Ints, list[Any]]]:
    """Read a table that ``nacp audit choose`` wrote and a person filled in: the plan and the labels."""
    table, names = TextTable(Path(name)), opened.classes
    missing = [column for column in (_ROW, _CHECKED, _PLAN) if column not in table.header]
    if missing:
        raise InputError(name, f'has no column "{missing[0]}"', remedy="fill in what nacp audit choose wrote")
    rows, cells, plans = (table.cells(table.header.index(each)) for each in (_ROW, _CHECKED, _PLAN))
    read = [None if is_absent(label, names) else label for label in cells]
    labels = true_labels(np.array(read, dtype=object), names)
    filled = [i for i, label in enumerate(labels) if label is not None]
    if not filled:
        raise InputError(name, f'has nothing in its column "{_CHECKED}"')
    different = {plan for plan in plans if plan}
    if len(different) != 1:
        raise InputError(
            name, f"must hold one plan, not {len(different)}", remedy="leave that column as it was"
        )
    try:
        document, numbers = parse(different.pop()), np.array([int(rows[i]) for i in filled])
        check_sealed(name, document)
    except ValueError:
        raise InputError(
            name, "has a row or a plan that cannot be read", remedy="leave these columns"
        ) from None
    given = {each: opened.arguments[each] for each in ("classes", "normalize", "from_logits")}
    plan = same_audit(document, opened.probs, opened.labels, **given)
    return plan, (numbers, [labels[i] for i in filled])
