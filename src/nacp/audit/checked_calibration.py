"""Calibration with checked labels: for all points, or by group of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nacp._types import Ints
from nacp.audit.checked_labels import open_clean
from nacp.audit.checked_sample import Audit, AuditWarning, CheckedSample, deal
from nacp.audit.plan import AuditPlan, audit_by, check_plan, guessing_noise
from nacp.calibration import Calibration, seen, warn_of_obstacles
from nacp.coverage.agreement import warning_of
from nacp.coverage.curve import Rule
from nacp.coverage.tally import Sample
from nacp.errors import InputError, warn
from nacp.groups.grouped_calibration import Asked, GroupedCalibration, calibrate_groups, share_delta
from nacp.groups.grouping import Grouping, open_grouping
from nacp.guarantees import Finding, Guarantee, as_guarantee, names_of
from nacp.noise import NoiseLike, Unsaid
from nacp.points import Rows, check_aligned, check_classes, check_labels, open_rows, warn_of_repeats
from nacp.points.arrays import is_lazy
from nacp.points.lazy import in_memory, open_lazy
from nacp.scores import Score
from nacp.stats.counts import share_of_look

# More zeros than _ZEROS seem odd, as do checked labels none of which differs, where _WRONG or more should.
_ZEROS, _WRONG = 20, 10


def calibrate_checked(
    probs: Any,
    labels: Any,
    clean: Any,
    audit: AuditPlan | None,
    noise: NoiseLike | Unsaid,
    score: Score,
    asked: Asked,
    groups: Any,
    by: Any,
    **options: Any,
) -> list[Calibration] | list[GroupedCalibration]:
    """Return for each alpha what `calibrate` returns if some labels were checked.

    `options` are those of `open_rows`. Only the checked rows of a dask array are used.
    """
    if lazy := is_lazy(probs):
        if groups is not None or audit is not None:
            in_memory("probs", probs, "with groups, or a plan of an audit, beside checked labels")
        rows, numbers, names, dealt = _open_lazy_checked(probs, clean, asked.seed, **options)
    else:
        rows, numbers, names, dealt = open_checked(probs, labels, clean, asked.seed, audit, **options)
    sample = Sample.of(rows, numbers, score)
    warn_of_repeats(rows)
    if dealt.given is None and (numbers[dealt.rows] == dealt.labels).all():
        right = guessing_noise(sample, noise, dealt.pilot).matrix(rows.k).diagonal.mean()
        wrong = len(dealt.rows) * (1 - float(right))
        if wrong > _WRONG:
            warn(
                f"none of the {len(dealt.rows):,} checked labels differs from the given one, where about "
                f"{wrong:,.0f} were expected to; clean= must hold the labels that an expert found",
                AuditWarning,
            )
    decided = dealt.labels >= 0
    read = Sample.of(rows.some(dealt.rows[decided]), dealt.labels[decided], score)
    issues = warning_of(read, "checked labels") + (warning_of(sample) if dealt.given is None else ())
    known = {"classes": names, "normalize": options["normalize"], "warnings": issues}
    asked = asked._replace(known=known)
    grouping = open_grouping(groups, by, rows.n if dealt.given is None else dealt.given[0], rows.k, names)
    if grouping is not None:
        return _checked_groups(sample, dealt, noise, grouping, asked)
    found = _calibrations(sample, dealt, noise, asked)
    if lazy and labels is not None:
        unused = "of a dask array only the checked labels are used"
        found = [replace(cal, note="; ".join(filter(None, (unused, cal.note)))) for cal in found]
    warn_of_obstacles(found)
    return found


def for_checked(
    guarantee: str | Guarantee | None,
    delta: float | None,
    crossing: Rule,
    unlabelled: Any,
    audit: Any = None,
    score: Score | None = None,
) -> Guarantee:
    """Return the guarantee for checked labels; refuse options that cannot be used with them."""
    found = as_guarantee("pac" if guarantee is None else guarantee, delta)
    if not found.takes_checked:
        problem = f'"{found.name}" cannot be found from checked labels'
        raise InputError("guarantee", problem, remedy=f"use {names_of(lambda each: each.takes_checked)}")
    if audit is not None:
        check_plan(audit)
        if audit.score != score:
            problem = f"must be {audit.score!r}, for which the audit was chosen"
            raise InputError("score", problem, found=repr(score))
        if audit.outside.any() and found.checked_alone:
            names = names_of(lambda each: each.takes_checked and not each.checked_alone)
            problem = f'"{found.name}" needs checked labels that were picked at random'
            raise InputError("guarantee", problem, remedy=f"use {names}")
        if len(audit.stops) > 1 and found.delta is None and found.promises_truth:
            problem = f'"{found.name}" has no delta to divide among the looks of the audit'
            raise InputError("guarantee", problem, remedy='use "pac"')
    if crossing != "last":
        raise InputError("crossing", 'must be "last" with checked labels', found=repr(crossing))
    if unlabelled is not None:
        raise InputError("unlabelled", "cannot be used with checked labels")
    return found


def open_checked(
    probs: Any, labels: Any, clean: Any, seed: int, plan: AuditPlan | None = None, **options: Any
) -> tuple[Rows, Ints, tuple[Any, ...] | None, Audit]:
    """Open points with checked labels; without noisy labels, only the checked points."""
    check_aligned(clean, probs, said="clean")
    check_aligned(clean, labels, "labels", "clean")
    rows = open_rows(probs, **options)
    names = check_classes(options["classes"], rows.k)
    checked, true = open_clean(clean, rows.n, rows.k, names)
    if labels is None:
        if plan is not None:
            raise InputError("labels", "is None, and the audit was chosen by these labels")
        return rows.some(checked), np.maximum(true, 0), names, _alone(rows.n, rows.k, checked, true, seed)
    numbers = check_labels(labels, rows.n, rows.k, names)
    zeros, few = (int(np.count_nonzero(each == 0)) for each in (true, numbers))
    if len(checked) == rows.n and zeros > max(_ZEROS, rows.n / 2, 2 * few):
        problem = f"is 0 in {zeros:,} of {rows.n:,} rows, while only {few:,} of the labels are"
        remedy = "write -1 or None where a label was not checked; or pass a pair (rows, labels)"
        raise InputError("clean", problem, remedy=remedy, spoken="leave cells empty that were not checked")
    if plan is None:
        return rows, numbers, names, deal(rows.n, rows.k, checked, true, seed)
    return rows, numbers, names, audit_by(plan, rows.n, checked, true)


def _open_lazy_checked(
    probs: Any, clean: Any, seed: int, **options: Any
) -> tuple[Rows, Ints, tuple[Any, ...] | None, Audit]:
    """Fetch and open the checked rows of a dask array."""
    n, k = open_lazy(probs, **options).n, int(probs.shape[1])
    names = check_classes(options["classes"], k)
    checked, true = open_clean(clean, n, k, names)
    matrix = np.asarray(probs[checked].compute())
    try:
        rows = open_rows(matrix, **options)
    except InputError:
        for place, row in enumerate(checked.tolist()):  # the message must name the row of the whole array
            open_rows(matrix[place : place + 1], start=row, **options)
        raise
    return rows, np.maximum(true, 0), names, _alone(n, k, checked, true, seed)


def _alone(n: int, k: int, checked: Ints, true: Ints, seed: int) -> Audit:
    """Return the audit of the checked points alone, with new row numbers."""
    dealt = deal(len(checked), k, np.arange(len(checked)), true, seed)
    return replace(dealt, given=(n, checked))


def _calibrations(sample: Sample, audit: Audit, noise: NoiseLike | Unsaid, asked: Asked) -> list[Calibration]:
    """Return a calibration for each alpha from a sample with checked labels."""
    checked = CheckedSample(sample, audit, guessing_noise(sample, noise, audit.pilot).matrix(sample.k))
    known, notes, spending = asked.known | seen(sample) | {"checked": checked.m}, [], asked.guarantee
    if undecided := int(np.count_nonzero(audit.labels < 0)):
        notes.append(f"labels that could not be decided count as misses: {undecided}")
    if audit.plan is not None:
        look, looks = audit.look, len(audit.plan.stops)
        known |= {"planned": audit.plan.stops[look - 1], "look": look}
        if looks > 1:
            known |= {"looks": looks}
            spending = share_delta(spending, 1 / share_of_look(look, looks))
        if audit.unused:
            notes.append(f"labels of instalments that are not complete are not used: {audit.unused}")
    found = [Finding(np.inf, 1.0, obstacle="none of its labels were checked")] * len(asked.alphas)
    if checked.m:
        found = spending.find_checked(checked, asked.alphas)
    found = [each._replace(note="; ".join(notes) or None) for each in found]
    return asked._replace(known=known).calibrations(sample, found, sample.n)


def _checked_groups(
    sample: Sample, audit: Audit, noise: NoiseLike | Unsaid, grouping: Grouping, asked: Asked
) -> list[GroupedCalibration]:
    """Return for each alpha a calibration by group of rows, from checked labels."""
    if grouping.of_classes:
        raise InputError(
            "clean",
            "cannot be used for groups of classes",
            remedy="calibrate with the checked points alone, and noise=None",
            spoken='calibrate with the checked points alone, and "--noise none"',
        )
    if audit.plan is not None:
        raise InputError("audit", "chose points for all groups together", remedy="check labels at random")
    if asked.small == "merge":
        raise InputError("small", 'must be "error" or "all" with checked labels', found='"merge"')
    if audit.given is not None:
        grouping = grouping._replace(places=grouping.places[audit.given[1]])

    def of_rows(sample: Sample, rows: Ints, asked: Asked) -> list[Calibration]:
        mine = np.isin(audit.rows, rows)
        checked = np.searchsorted(rows, audit.rows[mine])
        dealt = deal(len(rows), sample.k, checked, audit.labels[mine], asked.seed)
        return _calibrations(sample.some(rows), dealt, noise, asked)

    return calibrate_groups(sample, grouping, asked, of_rows=of_rows)
