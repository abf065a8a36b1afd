"""The part of a report about groups: the threshold and the coverage of each, beside one threshold for all."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Array
from nacp.calibration import Calibration
from nacp.errors import InputError
from nacp.groups.class_coverage import ClassCoverage
from nacp.groups.grouped_calibration import GroupedCalibration
from nacp.metrics import evaluate
from nacp.points import plain_array
from nacp.show.axes import Axis, linear_axis
from nacp.show.report.markup import box, figure, place, safe, table

_DRAWN = 40


@dataclass(frozen=True)
class Groups:
    """A threshold for each group; and, where there are test points with true labels, what is covered.

    `own` is the coverage of each group by its own threshold, `shared` by the one for all points; `sizes` are
    the labels per set of both.
    """

    calibration: GroupedCalibration
    own: ClassCoverage | None = None
    shared: ClassCoverage | None = None
    sizes: tuple[float, float] | None = None


class _Coverage(NamedTuple):
    """The coverage of a group, with an interval, and with one threshold for all; nan where it is unknown."""

    own: float
    low: float = math.nan
    high: float = math.nan
    shared: float = math.nan


def check_test_groups(grouped: GroupedCalibration, test_probs: ArrayLike | None, test_groups: Any) -> None:
    """Refuse groups of test points that are of no use, or that are missing."""
    of_rows = grouped.members is None
    if test_groups is not None and not (of_rows and test_probs is not None):
        raise InputError("test_groups", "has no effect: it is for groups of rows, of test points")
    if of_rows and test_probs is not None and test_groups is None:
        raise InputError("test_groups", "is missing: thresholds differ by group, so test points need one")


def groups_of(
    grouped: GroupedCalibration,
    cal: Calibration,
    test_probs: ArrayLike | None,
    test_labels: ArrayLike | None,
    test_groups: Any,
) -> Groups:
    """Measure a grouped calibration, and one threshold for all, on test points with true labels."""
    if test_probs is None or test_labels is None:
        return Groups(grouped)
    truth: Array = plain_array(test_labels)
    where = test_groups
    if grouped.members is not None:
        names = grouped.classes or range(grouped.k)
        where = {name: grouped.names[g] for name, g in zip(names, grouped.members, strict=True)}
    found = [
        evaluate(sets, truth, groups=where)
        for sets in (grouped.predict_set(test_probs, groups=test_groups), cal.predict_set(test_probs))
    ]
    return Groups(grouped, found[0].groups, found[1].groups, (found[0].mean_size, found[1].mean_size))


def section(groups: Groups) -> str:
    """Return the part of the page."""
    cal, coverages = groups.calibration, _coverages(groups)
    said = [f"{cal.promise[:1].upper()}{cal.promise[1:]}."]
    if cal.infinite:
        said.append(f"In {len(cal.infinite):,} of them no threshold keeps this: their sets hold all labels.")
    if groups.sizes is not None:
        said.append(
            f"On the test points sets hold {groups.sizes[0]:.2f} labels on average; "
            f"with one threshold for all they hold {groups.sizes[1]:.2f}."
        )
    rest = f"At alpha = {cal.alpha:g}. The other parts of this page are about one threshold for all points."
    return (
        f"<section><h2>A threshold for each group</h2><p class='soft'>{rest}</p>"
        + "".join(f"<p>{safe(each)}</p>" for each in said)
        + _picture(groups, coverages)
        + f"<details><summary>The {len(cal.names):,} groups in numbers</summary>"
        + f"{box('tall', 'Groups', _table(groups, coverages), 'groups')}</details></section>"
    )


def _coverages(groups: Groups) -> dict[Any, _Coverage]:
    cal, own, shared = groups.calibration, groups.own, groups.shared
    if own is None or shared is None:
        return {name: _Coverage(each.estimate) for name, each in cal.groups.items()}
    found = zip(own.coverage, own.low, own.high, shared.coverage, strict=True)
    known = {name: _Coverage(*map(float, each)) for name, each in zip(own.classes or (), found, strict=True)}
    return {name: known.get(name, _Coverage(math.nan)) for name in cal.names}


def _picture(groups: Groups, coverages: dict[Any, _Coverage]) -> str:
    cal, measured = groups.calibration, groups.own is not None
    names = sorted(cal.names, key=lambda name: np.nan_to_num(coverages[name].own, nan=2.0))[:_DRAWN]
    finite = [q for name in names if math.isfinite(q := cal.thresholds[name])]
    across = linear_axis(min(finite, default=0.0), max(finite, default=1.0))
    seen = [value for name in names for value in coverages[name] if math.isfinite(value)]
    upwards = linear_axis(min([*seen, 1 - cal.alpha]), 1.0)
    rows = "".join(
        f"<li><span class='name'>{safe(name)}</span>"
        f"<span class='track'>{_threshold(across, cal.thresholds[name])}</span>"
        f"<span class='track'>{_coverage(upwards, 1 - cal.alpha, coverages[name])}</span></li>"
        for name in names
    )
    keys = "<li><i class='key dot'></i>with its own threshold</li>"
    caption = "The threshold and the coverage of each group; the line is the coverage asked for."
    if measured:
        keys += "<li><i class='key ring'></i>with one threshold for all</li>"
        caption += " Bars are exact 95% intervals."
    if len(names) < len(cal.names):
        caption += f" Those {_DRAWN} of {len(cal.names):,} groups whose coverage is least."
    what = "coverage of test points" if measured else "estimated coverage"
    title, ends = (
        f"<li class='head'><span></span><span>{a}</span><span>{b}</span></li>"
        for a, b in (("threshold", what), (_ends(across), _ends(upwards)))
    )
    chart = f"<ul class='legend'>{keys}</ul><ol class='groups'>{title}{rows}{ends}</ol>"
    return figure("groups", chart, caption)


def _ends(axis: Axis) -> str:
    """Return the first and the last tick of an axis, where they stand."""
    written = ""
    for tick in sorted({axis.ticks[0], axis.ticks[-1]}):
        at = float(axis.place(tick))
        look = "start" if at < 0.1 else "end" if at > 0.9 else ""
        written += f"<b class='{look}' style='left:{place(at)}'>{tick:.4g}</b>"
    return written


def _threshold(axis: Axis, threshold: float) -> str:
    if math.isinf(threshold):
        return "<em>all labels</em>"
    return f"<i class='dot' style='left:{place(axis.place(threshold))}'></i>"


def _coverage(axis: Axis, target: float, found: _Coverage) -> str:
    drawn = f"<i class='asked' style='left:{place(axis.place(target))}'></i>"
    if math.isfinite(found.low):
        start, end = axis.place([found.low, found.high])
        drawn += f"<i class='span' style='left:{place(start)};width:{place(end - start)}'></i>"
    for kind, value in (("ring", found.shared), ("dot", found.own)):
        if math.isfinite(value):
            drawn += f"<i class='{kind}' style='left:{place(axis.place(value))}'></i>"
    return drawn


def _table(groups: Groups, coverages: dict[Any, _Coverage]) -> str:
    cal, measured = groups.calibration, groups.own is not None
    counts = "labels" if cal.calibrations[0].checked is None else "checked"
    header = ["group", counts, "threshold", "estimated coverage"]
    header += ["on test points", "with one threshold"] * measured
    rows = [list(row) for row in cal.table()]
    for name, row in zip(cal.names, rows, strict=True):
        found = coverages[name]
        if measured and math.isnan(found.own):
            row += ["no point", "no point"]
        elif measured:
            row += [f"{found.own:.4f} ({found.low:.4f} to {found.high:.4f})", f"{found.shared:.4f}"]
    return table(header, rows)
