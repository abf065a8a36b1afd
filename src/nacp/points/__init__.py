"""The points: rows of probabilities and their labels, checked where they come in, and read block by block."""

from nacp.points.arrays import Rows, Widths, watching
from nacp.points.audit import open_clean
from nacp.points.groups import check_aligned, check_class_groups, check_row_groups, known_groups
from nacp.points.labels import (
    check_classes,
    check_given,
    check_labels,
    is_missing,
    no_label,
    number_table,
    open_table,
    plain_array,
    present_labels,
)
from nacp.points.opening import column_names, open_points, open_rows
from nacp.points.repeats import RepeatedRowsWarning, warn_of_repeats
from nacp.points.top import TopRows

__all__ = [
    "RepeatedRowsWarning",
    "Rows",
    "TopRows",
    "Widths",
    "check_aligned",
    "check_class_groups",
    "check_classes",
    "check_given",
    "check_labels",
    "check_row_groups",
    "column_names",
    "is_missing",
    "known_groups",
    "no_label",
    "number_table",
    "open_clean",
    "open_points",
    "open_rows",
    "open_table",
    "plain_array",
    "present_labels",
    "warn_of_repeats",
    "watching",
]
