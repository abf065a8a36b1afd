"""Where labels come from: exports of labelling tools, read into one table of who gave which label to what.

`read` finds out what a file holds. The readers behind it are pure functions of what the file says.
"""

from nacp.labels.argilla import from_argilla
from nacp.labels.label_studio import from_label_studio
from nacp.labels.matrix import from_matrix
from nacp.labels.reading import FORMATS, read
from nacp.labels.records import from_frame, from_records
from nacp.labels.table import GivenLabel, LabelTable

__all__ = [
    "FORMATS", "GivenLabel", "LabelTable", "from_argilla", "from_frame", "from_label_studio", "from_matrix",
    "from_records", "read",
]  # fmt: skip
