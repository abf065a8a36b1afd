"""Where rows come from: checked once at the door, then served block by block."""

from nacp.points.arrays import Rows, watching
from nacp.points.audit import open_clean
from nacp.points.door import (
    check_classes,
    check_labels,
    is_missing,
    open_points,
    open_rows,
    open_test,
    plain_array,
)

__all__ = [
    "Rows", "check_classes", "check_labels", "is_missing", "open_clean", "open_points", "open_rows",
    "open_test", "plain_array", "watching",
]  # fmt: skip
