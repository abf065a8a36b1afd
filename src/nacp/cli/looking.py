"""What is looked at afterwards: ``nacp diagnose`` and ``nacp report``; and ``nacp demo``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import nacp
from nacp.advice.diagnosis import Diagnosis, GroupedDiagnosis
from nacp.cli import options
from nacp.cli.classes import read_lines
from nacp.cli.errors import FAILED, command
from nacp.cli.groups import read_groups
from nacp.cli.inputs import read_points, read_test
from nacp.cli.labels import read_clean
from nacp.cli.models import read_calibration, read_noise_beside, with_other
from nacp.cli.outputs import check_output, described
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
        typer.Option(
            help="True labels of some of these points, -1 or empty where a label was not checked.",
            metavar="FILE",
        ),
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
    cal = read_calibration(calibration, probs, labels)
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
        known: Any = cal
        found = nacp.diagnose(
            known,
            matrix,
            noisy,
            clean=checked,
            audit_probs=audited,
            audit_labels=true,
            level=level,
            groups=grouping,
        )
    if isinstance(found, GroupedDiagnosis):
        groups_found = [{"group": name, **_described(each)} for name, each in found.diagnoses.items()]
        document = {"rejected": found.rejected, "level": level, "groups": groups_found}
        show(as_json, document | {"sentence": on_one_line(found)}, found)
        failed = found.rejected
    else:
        show(as_json, _described(found), found)
        failed = found.rejected or (found.audit is not None and found.audit.short)
    if failed:
        raise typer.Exit(FAILED)


def _described(found: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as it is printed with --json."""
    checks = [check._asdict() for check in found.checks]
    audit, claim = (None if each is None else each._asdict() for each in (found.audit, found.claim))
    return asdict(found) | {
        "checks": checks,
        "audit": audit,
        "claim": claim,
        "sentence": on_one_line(found),
    }


@command(
    app,
    "report",
    "nacp report probs.npy labels.npy --noise 0.2",
    "nacp report cal.npz:probs cal.npz:noisy --noise 0.2 --score raps "
    "--test-probs test.npz:probs --test-labels test.npz:labels",
    "nacp report probs.npy labels.csv --clean checked.csv",
    "nacp report probs.npy labels.npy --noise 0.2 --by class --small all",
    "nacp report probs.csv labels.csv --noise 0.2 --descriptions texts.txt --title 'Our labels'",
)
def report_command(
    probs: options.Probs,
    labels: options.Labels,
    noise: options.NoiseText = "",
    noise_other: options.NoiseOther = None,
    clean: options.Clean = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The file for the page.")] = Path("report.html"),
    alpha: options.Alpha = 0.1,
    score: options.ScoreName = "hps",
    guarantee: options.GuaranteeName = None,
    delta: options.Delta = None,
    test_probs: options.TestProbs = None,
    test_labels: options.TestLabels = None,
    groups: options.Groups = None,
    by: options.By = None,
    simultaneous: options.Simultaneous = False,
    small: options.Small = "error",
    test_groups: Annotated[
        str | None,
        typer.Option(help="The group of each of these points, if groups are of rows.", metavar="FILE"),
    ] = None,
    descriptions: Annotated[
        str | None,
        typer.Option(
            help="Texts to show with sample rows: a line for each point that is measured.", metavar="FILE"
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page.")] = "Prediction sets from noisy labels",
    classes: options.Classes = None,
    noise_interval: options.Interval = None,
    noise_confidence: options.Confidence = 1.0,
    crossing: options.Crossing = "last",
    normalize: options.Normalize = False,
    logits: options.Logits = False,
    seed: options.Seed = 0,
    drop_unlabelled: options.Drop = False,
    separator: options.Separator = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Make a page about a calibration: what it promises, what it costs, and how that depends on alpha.

    One HTML file, which opens in a browser without a network.
    """
    check_output(
        str(out), inputs=(probs, labels, noise, clean, classes, test_probs, test_labels, descriptions)
    )
    known = read_noise_beside(clean, noise, noise_interval, noise_confidence, noise_other, labels)
    with progress_of(f"reading {probs}", quiet):
        matrix, noisy, names = read_points(
            probs, labels, names=classes, clean=clean, groups=groups, drop=drop_unlabelled
        )
        known = with_other(known, noise_other, matrix.shape[-1])
        checked = None if clean is None else read_clean(clean, len(matrix), names, noisy=labels)
        test, true = read_test(test_probs, test_labels, names, matrix.shape[1])
        grouping = None if groups is None else read_groups(groups, len(matrix), names)
        tested: Any = None
        if test_groups is not None:
            if test is None:
                raise InputError("test_groups", "is of no use without --test-probs")
            tested = read_groups(test_groups, len(test), names)
        texts = None if descriptions is None else read_lines(descriptions)
    with progress_of("calibrating", quiet) as say:
        page = nacp.make_report(
            matrix,
            noisy,
            noise=known,
            clean=checked,
            alpha=alpha,
            score=score,
            guarantee=guarantee,
            delta=delta,
            crossing=crossing,
            classes=names,
            normalize=normalize,
            from_logits=logits,
            random_state=seed,
            test_probs=test,
            test_labels=true,
            descriptions=texts,
            title=title,
            say=say,
            groups=grouping,
            by=by,
            simultaneous=simultaneous,
            small=small,
            test_groups=tested,
        )
    page.save(out)
    part = page.contents.groups
    found = page.contents.calibration if part is None else part.calibration
    show(as_json, described(found) | {"out": str(out)}, found, f"Written: {out}")


@command(app, "demo", "nacp demo", "nacp demo --report languages.html")
def demo_command(
    report: Annotated[Path, typer.Option(help="The file for the report.")] = Path("nacp-demo.html"),
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Train a classifier of 472 languages, spoil its calibration labels, and show what helps."""
    from nacp.cli import demo  # takes longer to import than all the rest

    demo.main(report, quiet=quiet, as_json=as_json)
