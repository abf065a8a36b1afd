"""``nacp diagnose``: whether the noise model of a calibration can be right."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

import nacp
from nacp.advice.diagnosis import Diagnosis, GroupedDiagnosis
from nacp.cli import options
from nacp.cli.errors import FAILED, command
from nacp.cli.inputs import read_clean, read_groups, read_points
from nacp.cli.models import read_calibration
from nacp.cli.terminal import progress_of, show
from nacp.errors import InputError
from nacp.wrapping import on_one_line

app = typer.Typer()


@command(
    app,
    "diagnose",
    "nacp diagnose cal.json probs.npy labels.npy",
    "nacp diagnose cal.json probs.npy labels.npy --clean checked.csv",
    "nacp diagnose cal.json probs.npy labels.npy --groups groups.csv",
    "nacp diagnose cal.json probs.npy labels.npy --audit-probs checked.npy --audit-labels truth.npy",
)
def diagnose_command(
    calibration: options.Cal,
    probs: options.Probs,
    labels: options.Labels,
    clean: Annotated[
        str | None,
        options.file(help="True labels of some of these points, -1 or empty where a label was not checked."),
    ] = None,
    audit_probs: Annotated[str | None, typer.Option(help="Other points, with known true labels.")] = None,
    audit_labels: Annotated[str | None, typer.Option(help="Their true labels.")] = None,
    level: Annotated[float, typer.Option(help="The probability of rejecting a right model.")] = 0.05,
    groups: options.RowGroups = None,
    drop_unlabelled: options.Drop = False,
    separator: options.Separator = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Ask whether the noise model of a calibration can be right.

    Without a clean label, by what the model implies; with --clean, against checked labels, too.
    The exit code is 1 if it is rejected, or if clean labels are covered too little.
    """
    if (audit_probs is None) != (audit_labels is None):
        raise InputError("audit_probs", "and --audit-labels belong together", remedy="give both, or neither")
    cal: Any = read_calibration(calibration, probs, labels)
    with progress_of(f"reading {probs}", quiet) as say:
        matrix, noisy, _ = read_points(
            probs, labels, cal.classes, k=cal.k, clean=clean, groups=groups, drop=drop_unlabelled
        )
        grouping: Any = None if groups is None else read_groups(groups, len(matrix), cal.classes)
        checked = None if clean is None else read_clean(clean, len(matrix), cal.classes, noisy=labels)
        audited, true = None, None
        if audit_probs is not None and audit_labels is not None:
            audited, true, _ = read_points(audit_probs, audit_labels, cal.classes, k=cal.k)
        say("diagnosing")
        found = nacp.diagnose(
            cal,
            matrix,
            noisy,
            clean=checked,
            audit_probs=audited,
            audit_labels=true,
            level=level,
            groups=grouping,
        )
    if isinstance(found, GroupedDiagnosis):
        document = {
            "rejected": found.rejected,
            "level": level,
            "groups": [{"group": name} | _described(each) for name, each in found.diagnoses.items()],
            "sentence": on_one_line(found),
        }
        failed = found.rejected
    else:
        document = _described(found)
        failed = found.rejected or (found.audit is not None and found.audit.short)
    show(as_json, document, found)
    if failed:
        raise typer.Exit(FAILED)


def _described(found: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as it is printed with --json."""
    audit, claim = (None if each is None else each._asdict() for each in (found.audit, found.claim))
    return asdict(found) | {
        "checks": [check._asdict() for check in found.checks],
        "audit": audit,
        "claim": claim,
        "sentence": on_one_line(found),
    }
