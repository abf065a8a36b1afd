"""The points: rows of probabilities and their labels, checked once and read in blocks."""

from nacp.points.alignment import check_aligned
from nacp.points.arrays import Rows, Widths, watching
from nacp.points.labels import (
    check_classes,
    check_given,
    check_labels,
    check_plain,
    is_missing,
    no_label,
    number_table,
    open_table,
    plain_array,
    present_labels,
    refuse_tables,
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
    "check_classes",
    "check_given",
    "check_labels",
    "check_plain",
    "column_names",
    "is_missing",
    "no_label",
    "number_table",
    "open_points",
    "open_rows",
    "open_table",
    "plain_array",
    "present_labels",
    "refuse_tables",
    "warn_of_repeats",
    "watching",
]
