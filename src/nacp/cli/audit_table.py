"""The table of labels to check: an expert fills it in, and commands read it as `--audit`."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from nacp._types import Ints
from nacp.audit.plan import AuditPlan, same_audit
from nacp.cli.formats import TEXTS, TextTable, checked, escaped, kind, pick, split_key
from nacp.cli.inputs import Column, Points, Rows, read_points
from nacp.errors import InputError
from nacp.files import parse, read_document, write_document, write_text, write_whole
from nacp.labels.label_studio import checked_rows, to_label_studio
from nacp.points import check_labels

CHECKED = "checked"
_LIKELY = 3  # the number of probable classes that are shown
_ROW, _GIVEN, _PROBABLE, _LOOK, _PLAN = "row", "given", "most probable", "look", "plan"
COLUMNS = (_ROW, _GIVEN, _PROBABLE, CHECKED, _LOOK, _PLAN)
_FORMAT = "nacp.audit_plan"


def write_audit(
    path: Path,
    plan: AuditPlan,
    points: Any,
    titles: Sequence[str],
    carried: Sequence[Sequence[str]],
    hidden: bool = False,
) -> Path:
    """Write a row for each label to check, and the plan into a file beside the table, which is returned.

    Each row names that file. The columns `carried`, under their `titles`, have a cell for each of all points.
    A .json file holds tasks of Label Studio; a labelling interface is written beside it. Unless labels are
    `hidden`, the given label and the most probable classes are shown.
    """
    beside = path.with_suffix(".plan.json")
    looks = 1 + np.searchsorted(plan.stops, np.arange(len(plan)), side="right")
    n, k = points.probs.shape
    names = range(k) if points.classes is None else points.classes
    numbers = check_labels(points.labels, n, k, points.classes)
    rows: list[dict[str, Any]] = []
    for row, look in zip(plan.rows.tolist(), looks.tolist(), strict=True):
        scores = np.asarray(points.probs[row])
        order = scores if plan.score.name == "precomputed" else -scores
        likely = np.argsort(order, kind="stable")[:_LIKELY]
        cells = {_ROW: row} | dict(zip(titles, carried[row], strict=True))
        if not hidden:
            probable = ", ".join(f"{names[i]} {scores[i]:.2g}" for i in likely)
            cells |= {_GIVEN: names[numbers[row]], _PROBABLE: probable}
        cells |= {CHECKED: ""} | ({_LOOK: look} if len(plan.stops) > 1 else {})
        rows.append(cells | {_PLAN: beside.name})
    if path.suffix == ".json":
        shown = [name for name in rows[0] if name not in (_ROW, CHECKED, _LOOK, _PLAN)] or [_ROW]
        fields = [{name: row[name] for name in row if name != CHECKED} for row in rows]
        tasks, interface = to_label_studio(json.loads(json.dumps(fields, default=str)), names, shown, CHECKED)
        write_text(path, json.dumps(tasks, indent=1) + "\n")
        write_text(path.with_suffix(".xml"), interface)
    else:

        def fill(file: IO[Any]) -> None:
            lines = [list(rows[0]), *(row.values() for row in rows)]
            csv.writer(file).writerows([escaped(each) for each in line] for line in lines)

        write_whole(path, "w", fill)
    write_document(beside, {"format": _FORMAT, "version": 1} | plan.to_dict())
    return beside


def read_checked(
    probs: str,
    labels: str | None,
    known: Any,
    *,
    clean: str | None = None,
    audit: str | None = None,
    **more: Any,
) -> tuple[Points, dict[str, Any]]:
    """Read points some of whose labels were checked; return them with `clean` and `audit` as arguments.

    `known` says how rows are opened; `more` are options of `read_points`.
    """
    if audit is not None and clean is not None:
        raise InputError("audit", "holds checked labels, and so does --clean", remedy="give one of them")
    if audit is not None and labels is None:
        raise InputError("labels", "must be given: the audit was chosen by them")
    path = split_key(clean or "")[0]
    if kind(path) in TEXTS and {_ROW, CHECKED, _PLAN} <= set(TextTable(path).header):
        problem = "was written by nacp audit choose, which did not choose its rows at random"
        raise InputError(str(path), problem, remedy="give it as --audit in place of --clean")
    points = read_points(probs, labels, clean=clean, **more)
    if audit is None:
        return points, {} if clean is None else {"clean": points.clean}
    plan, pair = _read_audit(audit, points, normalize=known.normalize, from_logits=known.from_logits)
    return points, {"clean": pair, "audit": plan}


def _read_audit(name: str, points: Points, **options: Any) -> tuple[AuditPlan, tuple[Ints, list[Any]]]:
    """Read a table that ``nacp audit choose`` wrote and a person filled in: the plan, and rows and labels."""
    rows, cells, plans = _read_tasks(name) if name.endswith(".json") else _read_table(name)
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


def _read_table(name: str) -> list[list[str]]:
    """Read the rows, the checked labels and the plans of a table."""
    table = TextTable(Path(name))
    missing = [column for column in (_ROW, CHECKED, _PLAN) if column not in table.header]
    if missing:
        raise InputError(name, f'has no column "{missing[0]}"', remedy="fill in what nacp audit choose wrote")
    return [table.cells(pick(table.path, table.header, each)) for each in (_ROW, CHECKED, _PLAN)]


def _read_tasks(name: str) -> list[list[str]]:
    """Read the same from an export of Label Studio."""
    try:
        found = checked_rows(parse(checked(Path(name)).read_text("utf-8")), CHECKED)
    except InputError as error:
        if error.argument != "control":
            raise error.about(name) from None
        remedy = "export the tasks that nacp audit choose wrote, as JSON, when some have a label"
        raise InputError(name, f'has no answer to "{CHECKED}"', remedy=remedy) from None
    except ValueError:
        raise InputError(name, "is not JSON") from None
    return [["" if cell is None else str(cell) for cell in column] for column in zip(*found, strict=True)]
