"""Where rows come from: checked once at the door, then served block by block."""

from nacp.points.arrays import Rows, Widths, watching
from nacp.points.audit import open_clean
from nacp.points.door import (
    check_classes,
    check_labels,
    column_names,
    is_missing,
    no_label,
    open_points,
    open_rows,
    plain_array,
)
from nacp.points.groups import check_aligned, check_class_groups, check_row_groups, known_groups
from nacp.points.parts import Parts, open_parts, part_files
from nacp.points.repeats import RepeatedRowsWarning, warn_of_repeats
from nacp.points.several import check_given, number_table, open_table, present_labels
from nacp.points.sparse import TopRows

__all__ = [
    "Parts", "RepeatedRowsWarning", "Rows", "TopRows", "Widths", "check_aligned", "check_class_groups",
    "check_classes", "check_given", "check_labels", "check_row_groups", "column_names", "is_missing",
    "known_groups", "no_label", "number_table", "open_clean", "open_parts", "open_points", "open_rows",
    "open_table", "part_files", "plain_array", "present_labels", "warn_of_repeats", "watching",
]  # fmt: skip
