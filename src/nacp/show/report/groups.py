"""A report's part about groups: what each one's threshold is, and what it covers, beside one for all."""

import html
import math
from dataclasses import dataclass
from typing import Any

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


def check_test_groups(grouped: GroupedCalibration, test_probs: ArrayLike | None, test_groups: Any) -> None:
    """Refuse groups of test points where there is no use for them, and their absence where there is."""
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
        where = {
            name: grouped.names[g]
            for name, g in zip(grouped.classes or range(grouped.k), grouped.members, strict=True)
        }
    found = [
        evaluate(sets, truth, groups=where)
        for sets in (grouped.predict_set(test_probs, groups=test_groups), cal.predict_set(test_probs))
    ]
    return Groups(grouped, found[0].groups, found[1].groups, (found[0].mean_size, found[1].mean_size))


def section(groups: Groups) -> str:
    """Return the part of the page."""
    cal = groups.calibration
    said = [f"{cal.promise[:1].upper()}{cal.promise[1:]}."]
    if cal.infinite:
        said.append(f"In {len(cal.infinite):,} of them no threshold keeps this: their sets hold all labels.")
    if groups.sizes is not None:
        said.append(
            f"On the test points sets hold {groups.sizes[0]:.2f} labels on average; "
            f"with one threshold for all they hold {groups.sizes[1]:.2f}."
        )
    text = "".join(f"<p>{html.escape(each)}</p>" for each in said)
    rest = f"At alpha = {cal.alpha:g}. The other parts of this page are about one threshold for all points."
    return (
        f"<section><h2>A threshold for each group</h2><p class='soft'>{rest}</p>{text}"
        f"{_picture(groups)}{_table(groups)}</section>"
    )


def _coverages(groups: Groups) -> dict[Any, tuple[float, float, float, float]]:
    """Return for each group its coverage, an interval, and its coverage with one threshold for all."""
    cal, own, shared = groups.calibration, groups.own, groups.shared
    if own is None or shared is None:
        return {name: (each.estimate, math.nan, math.nan, math.nan) for name, each in cal.groups.items()}
    places = {name: i for i, name in enumerate(own.classes or ())}
    nothing = (math.nan,) * 4
    return {
        name: nothing
        if name not in places
        else (
            float(own.coverage[i := places[name]]),
            float(own.low[i]),
            float(own.high[i]),
            float(shared.coverage[i]),
        )
        for name in cal.names
    }


def _picture(groups: Groups) -> str:
    cal, covered = groups.calibration, _coverages(groups)
    names = sorted(cal.names, key=lambda name: covered[name][0] if math.isfinite(covered[name][0]) else 2.0)
    drawn = names[:_DRAWN]
    thresholds = np.array([cal.thresholds[name] for name in drawn])
    finite = thresholds[np.isfinite(thresholds)]
    across = linear_axis(float(finite.min()), float(finite.max())) if len(finite) else linear_axis(0, 1)
    seen = [value for name in drawn for value in covered[name] if math.isfinite(value)]
    upwards = linear_axis(min([*seen, 1 - cal.alpha]), 1.0)
    rows = "".join(
        f"<li><span class='name'>{html.escape(str(name))}</span>"
        f"<span class='track'>{_threshold(across, cal.thresholds[name])}</span>"
        f"<span class='track'>{_coverage(upwards, cal, covered[name])}</span></li>"
        for name in drawn
    )
    measured = groups.own is not None
    keys = "<li><i class='key dot'></i>with its own threshold</li>"
    if measured:
        keys += "<li><i class='key ring'></i>with one threshold for all</li>"
    what = "coverage of test points" if measured else "estimated coverage"
    head = f"<li class='head'><span></span><span>{_ends(across)}</span><span>{_ends(upwards)}</span></li>"
    title = f"<li class='head'><span></span><span>threshold</span><span>{what}</span></li>"
    caption = "The threshold and the coverage of each group; the line is the coverage asked for."
    if measured:
        caption += " Bars are exact 95% intervals."
    if len(drawn) < len(names):
        caption += f" Those {_DRAWN} of {len(names):,} groups whose coverage is least."
    return (
        "<figure><div class='chart' role='img' aria-labelledby='groups-caption'>"
        f"<ul class='legend'>{keys}</ul><ol class='groups'>{title}{rows}{head}</ol></div>"
        f"<figcaption id='groups-caption'>{caption}</figcaption></figure>"
    )


def _ends(axis: Axis) -> str:
    """Return the first and the last tick of an axis, where they stand."""
    ticks = sorted({axis.ticks[0], axis.ticks[-1]})
    looks = ["start" if place < 0.1 else "end" if place > 0.9 else "" for place in axis.place(ticks)]
    return "".join(
        f"<b class='{look}' style='left:{_share(axis.place(tick))}'>{tick:.4g}</b>"
        for tick, look in zip(ticks, looks, strict=True)
    )


def _threshold(axis: Axis, threshold: float) -> str:
    if math.isinf(threshold):
        return "<em>all labels</em>"
    return f"<i class='dot' style='left:{_share(axis.place(threshold))}'></i>"


def _coverage(axis: Axis, cal: GroupedCalibration, found: tuple[float, float, float, float]) -> str:
    own, low, high, shared = found
    drawn = f"<i class='asked' style='left:{_share(axis.place(1 - cal.alpha))}'></i>"
    if math.isfinite(low):
        start, end = axis.place([low, high]).tolist()
        drawn += f"<i class='span' style='left:{_share(start)};width:{_share(end - start)}'></i>"
    for kind, value in (("ring", shared), ("dot", own)):
        if math.isfinite(value):
            drawn += f"<i class='{kind}' style='left:{_share(axis.place(value))}'></i>"
    return drawn


def _table(groups: Groups) -> str:
    cal, covered = groups.calibration, _coverages(groups)
    measured = groups.own is not None
    counts = "labels" if cal.calibrations[0].checked is None else "checked"
    header = ["group", counts, "threshold", "estimated coverage"]
    header += ["on test points", "with one threshold"] * measured
    rows = []
    for name, (points, threshold, estimate) in zip(cal.names, (row[1:] for row in cal.table()), strict=True):
        own, low, high, shared = covered[name]
        cells = [f"{name}" + " (pooled)" * (name in cal.pooled), points, threshold, estimate]
        if measured:
            told = math.isfinite(own)
            cells.append(f"{own:.4f} ({low:.4f} to {high:.4f})" if told else "no point")
            cells.append(f"{shared:.4f}" if told else "no point")
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells))
    head = "".join(f"<th scope=col>{name}" for name in header)
    return (
        f"<details><summary>The {len(rows):,} groups in numbers</summary>"
        "<div id='groups' class='tall' tabindex='0' role='region' aria-label='Groups'><table>"
        f"<thead><tr>{head}</thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _share(value: Any) -> str:
    return f"{100 * float(value):.2f}%"
