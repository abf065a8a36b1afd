"""The table of labels to check: an expert fills it in, and commands read it as `--audit`."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from nacp._types import Ints
from nacp.audit.plan import AuditPlan, same_audit
from nacp.cli.formats import TextTable, checked, escaped, pick
from nacp.cli.inputs import Column, Points, Rows
from nacp.errors import InputError
from nacp.files import read_document, write_document, write_whole
from nacp.points import check_labels

CHECKED = "checked"
_LIKELY = 3  # the number of probable classes that are shown
_ROW, _GIVEN, _PROBABLE, _LOOK, _PLAN = "row", "given", "most probable", "look", "plan"
COLUMNS = (_ROW, _GIVEN, _PROBABLE, CHECKED, _LOOK, _PLAN)
_FORMAT = "nacp.audit_plan"


def write_audit(
    path: Path, plan: AuditPlan, points: Any, titles: Sequence[str], carried: Sequence[Sequence[str]]
) -> Path:
    """Write a row for each label to check, and the plan into a file beside the table, which is returned.

    Each row names that file. The columns `carried`, under their `titles`, have a cell for each of all points.
    """
    beside = path.with_suffix(".plan.json")
    document = {"format": _FORMAT, "version": 1} | plan.to_dict()

    def fill(file: IO[Any]) -> None:
        writer = csv.writer(file)
        look = [_LOOK] * (len(plan.stops) > 1)
        writer.writerow([_ROW, *map(escaped, titles), _GIVEN, _PROBABLE, CHECKED, *look, _PLAN])
        looks = 1 + np.searchsorted(plan.stops, np.arange(len(plan)), side="right")
        n, k = points.probs.shape
        names = range(k) if points.classes is None else points.classes
        numbers = check_labels(points.labels, n, k, points.classes)
        for row, number in zip(plan.rows.tolist(), looks.tolist(), strict=True):
            scores = np.asarray(points.probs[row])
            order = scores if plan.score.name == "precomputed" else -scores
            likely = np.argsort(order, kind="stable")[:_LIKELY]
            probable = ", ".join(f"{names[i]} {scores[i]:.2g}" for i in likely)
            cells = [
                row,
                *carried[row],
                names[numbers[row]],
                probable,
                "",
                *[number] * len(look),
                beside.name,
            ]
            writer.writerow([escaped(each) for each in cells])

    write_whole(path, "w", fill)
    write_document(beside, document)
    return beside


def read_audit(name: str, points: Points, **options: Any) -> tuple[AuditPlan, tuple[Ints, list[Any]]]:
    """Read a table that ``nacp audit choose`` wrote and a person filled in: the plan, and rows and labels."""
    table = TextTable(Path(name))
    missing = [column for column in (_ROW, CHECKED, _PLAN) if column not in table.header]
    if missing:
        raise InputError(name, f'has no column "{missing[0]}"', remedy="fill in what nacp audit choose wrote")
    rows, cells, plans = (
        table.cells(pick(table.path, table.header, each)) for each in (_ROW, CHECKED, _PLAN)
    )
    column = Column(name, np.array(cells), None, 2)
    labels = Rows(name, len(cells)).optional(column, points.classes or ())
    filled = [i for i, label in enumerate(labels) if label is not None]
    if not filled:
        raise InputError(name, f'has nothing in its column "{CHECKED}"')
    different = sorted(set(plans) - {""})
    if len(different) != 1 or Path(different[0]).name != different[0]:
        problem = f'must name the file of one plan in its column "{_PLAN}", as nacp audit choose wrote it'
        raise InputError(name, problem, found=f"{len(different):,} names")
    try:
        numbers = np.array([int(rows[i]) for i in filled])
    except (ValueError, OverflowError):
        raise InputError(name, "has a row that is no number", remedy=f'leave the column "{_ROW}"') from None
    plan_file = checked(Path(name).parent / different[0])
    document = read_document(plan_file, "plan of an audit", (_FORMAT,), 1)
    try:
        plan = same_audit(document, points.probs, points.labels, classes=points.classes, **options)
    except InputError as error:
        raise error.about(str(plan_file)) if error.argument == "audit" else error from None
    return plan, (numbers, [labels[i] for i in filled])
