"""The part of a report about groups: the threshold and the coverage of each, beside one threshold for all."""

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from nacp._types import Array
from nacp.calibration import Calibration
from nacp.errors import InputError
from nacp.groups.grouped_calibration import GroupedCalibration
from nacp.metrics import Evaluation, evaluate
from nacp.points import plain_array
from nacp.show.report.markup import box, safe, share, table


@dataclass(frozen=True)
class Groups:
    """A threshold for each group.

    Where there are test points with true labels, `own` is the evaluation of the sets by these thresholds, and
    `shared` that of the sets by one threshold for all points.
    """

    calibration: GroupedCalibration
    own: Evaluation | None = None
    shared: Evaluation | None = None


def check_test_groups(
    grouped: GroupedCalibration | None, test_probs: ArrayLike | None, test_groups: Any
) -> None:
    """Refuse groups of test points that are of no use, or that are missing."""
    of_rows = grouped is not None and grouped.members is None
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
    where = test_groups if grouped.members is None else grouped.class_groups
    sets = grouped.predict_set(test_probs, groups=test_groups), cal.predict_set(test_probs)
    return Groups(grouped, *(evaluate(each, truth, groups=where) for each in sets))


def section(groups: Groups) -> str:
    """Return the part of the page."""
    cal = groups.calibration
    said = [f"{cal.promise[:1].upper()}{cal.promise[1:]}."]
    if cal.infinite:
        said.append(f"In {len(cal.infinite):,} of them no threshold keeps this: their sets hold all labels.")
    if groups.own is not None and groups.shared is not None:
        said.append(
            f"On the test points sets hold {groups.own.mean_size:.2f} labels on average; "
            f"with one threshold for all they hold {groups.shared.mean_size:.2f}."
        )
    rest = f"At alpha = {cal.alpha:g}. The other parts of this page are about one threshold for all points."
    return (
        f"<section><h2>A threshold for each group</h2><p class='soft'>{rest}</p>"
        + "".join(f"<p>{safe(each)}</p>" for each in said)
        + f"{box('tall', 'Groups', _table(groups), 'groups')}</section>"
    )


def _table(groups: Groups) -> str:
    cal = groups.calibration
    counts = "labels" if cal.calibrations[0].checked is None else "checked"
    header = ["group", counts, "threshold", "estimated coverage"]
    rows = [list(row) for row in cal.table()]
    if groups.own is not None and groups.shared is not None:
        header += ["on test points", "with one threshold"]
        own, shared = groups.own.groups, groups.shared.groups
        assert own is not None
        assert shared is not None
        found = zip(own.coverage, own.low, own.high, shared.coverage, strict=True)
        known = {
            name: [f"{share(coverage)} ({share(low)} to {share(high)})", share(one)]
            for name, (coverage, low, high, one) in zip(own.classes or (), found, strict=True)
            if math.isfinite(coverage)
        }
        for name, row in zip(cal.names, rows, strict=True):
            row += known.get(name, ["no point", "no point"])
    return table(header, rows)
