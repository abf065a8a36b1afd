"""``nacp diagnose``: whether the noise model of a calibration can be right."""

from typing import Annotated, Any

import typer

import nacp
from nacp.advice.diagnosis import Diagnosis, GroupedDiagnosis
from nacp.cli import options
from nacp.cli.audit_table import read_checked
from nacp.cli.commands import FAILED, command
from nacp.cli.terminal import progress_of, show
from nacp.wrapping import on_one_line


@command(
    "diagnose",
    "nacp diagnose cal.json probs.npy labels.npy",
    "nacp diagnose cal.json probs.npy labels.npy --clean checked.csv",
)
def diagnose_command(
    calibration: options.Cal,
    probs: options.Probs,
    labels: options.Labels,
    clean: Annotated[
        str | None,
        options.file(help="True labels of some of these points, -1 or empty where a label was not checked."),
    ] = None,
    level: Annotated[float, typer.Option(help="The probability of rejecting a right model.")] = 0.05,
    groups: options.RowGroups = None,
    audit: options.Audit = None,
    id: options.Id = None,
    drop_unlabelled: options.Drop = False,
) -> None:
    """Ask whether the noise model of a calibration can be right.

    Without a clean label, by what the model implies; with --clean or --audit, against checked labels, too.
    The exit code is 1 if it is rejected.
    """
    cal: Any = nacp.load(calibration)
    with progress_of(f"reading {probs}") as say:
        more: dict[str, Any] = {"groups": groups, "id": id, "drop": drop_unlabelled}
        points, given = read_checked(probs, labels, cal, clean=clean, audit=audit, like=cal, **more)
        say("diagnosing")
        found = nacp.diagnose(cal, points.probs, points.labels, level=level, groups=points.groups, **given)
    if isinstance(found, GroupedDiagnosis):
        results = [{"group": name} | _described(each) for name, each in found.diagnoses.items()]
        document = {"rejected": found.rejected, "level": level, "groups": results}
        document["sentence"] = on_one_line(found)
    else:
        document = _described(found)
    show(document, found)
    if found.rejected:
        raise typer.Exit(FAILED)


def _described(found: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as it is printed with --json."""
    return vars(found) | {"sentence": on_one_line(found)}
