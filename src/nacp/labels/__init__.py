"""Readers for the exports of labelling tools; each returns a `LabelTable`.

`read` reads a file of any format. The other functions take its parsed content.
"""

from nacp.labels.argilla import from_argilla
from nacp.labels.exports import FORMATS, read
from nacp.labels.label_matrix import from_matrix
from nacp.labels.label_studio import from_label_studio
from nacp.labels.records import from_frame, from_records
from nacp.labels.table import GivenLabel, LabelTable

__all__ = [
    "FORMATS",
    "GivenLabel",
    "LabelTable",
    "from_argilla",
    "from_frame",
    "from_label_studio",
    "from_matrix",
    "from_records",
    "read",
]
