"""What labelling tools export, for ``nacp noise annotators``: read, and written for ``nacp calibrate``."""

import csv
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from nacp._types import Array
from nacp.cli.classes import read_lines
from nacp.cli.formats.common import ARRAYS, STDIN, checked, kind, split_key
from nacp.cli.formats.text import csv_column
from nacp.cli.inputs import read_annotations
from nacp.errors import InputError
from nacp.files import write_whole
from nacp.labels import FORMATS, LabelTable, from_matrix, read
from nacp.labels.exports import is_long_file

Format = Annotated[
    str | None,
    typer.Option(help=f"{', '.join(FORMATS)}.", show_default="seen by the content", metavar="NAME"),
]
Control = Annotated[
    str | None,
    typer.Option(help="Label Studio's control, or Argilla's question, if there are several.", metavar="NAME"),
]
Predictions = Annotated[
    bool, typer.Option("--predictions", help="Labels by models (predictions, suggestions) count, too.")
]
Item = Annotated[str | None, typer.Option(help="The column that names the item.", metavar="NAME")]
Annotator = Annotated[str | None, typer.Option(help="The column that names the annotator.", metavar="NAME")]
Label = Annotated[
    str | None,
    typer.Option(help="The column of labels; several, with commas, are annotators.", metavar="NAME"),
]
Checked = Annotated[
    str | None,
    typer.Option(help="The column of true labels, or of whether a label was checked.", metavar="NAME"),
]
Expert = Annotated[
    str | None, typer.Option(help="An annotator whose labels count as checked.", metavar="NAME")
]
LabelsOut = Annotated[
    Path | None,
    typer.Option("--labels", help="A file for the labels: .npz or .csv.", metavar="FILE", show_default=False),
]
Items = Annotated[
    str | None,
    typer.Option(
        help="The items in the order of the probabilities: one per line, or file.csv:column.", metavar="FILE"
    ),
]

_TABLES = (".csv", ".tsv", ".parquet")  # with a row for each label, or a column for each annotator


def read_table(
    name: str, classes: list[str] | None, *, expert: str | None, **told: Any
) -> LabelTable | Array:
    """Read labels by several annotators: a table of them, or a matrix as it is."""
    path, key = split_key(name)
    if told["label"] is not None and "," in told["label"]:
        told["label"] = [column.strip() for column in told["label"].split(",")]
    said = any(value is not None for value in told.values())
    plain = kind(path) in (*ARRAYS, *_TABLES) or name == STDIN
    if not said and plain and not (kind(path) in _TABLES and key is None and is_long_file(checked(path))):
        labels = read_annotations(name, classes)
        if expert is None:
            return labels
        table = labels if isinstance(labels, LabelTable) else from_matrix(labels)
    else:
        table = read(checked(path), **told)
    try:
        return table if expert is None else table.with_checked(expert)
    except InputError as error:
        raise error.about("expert") if error.argument == "checked" else error from None


def write_labels(votes: LabelTable | Array, path: Path, classes: list[str] | None, items: str | None) -> str:
    """Write the labels of items: all of them (.npz), or one, a vote and what was checked (.csv).

    Returned is what was written.
    """
    table = votes if isinstance(votes, LabelTable) else from_matrix(votes)
    order = None if items is None else _read_items(items)
    if order is not None:
        known = {str(each) for each in table.items}
        unknown = [each for each in dict.fromkeys(order) if each not in known]
        if len(unknown) < len(set(order)):  # else they are called otherwise here, which is refused below
            table = LabelTable(table.given, (*table.items, *unknown), table.named)
    every = table.matrix(order, classes)
    parts = {
        "items": np.array([str(each) for each in (table.items if order is None else order)]),
        "label": table.picked(order, classes),
        "vote": table.votes(order, classes),
        "checked": table.clean(order, classes),
    }
    empty = sum(each is None or each == -1 for each in parts["label"].tolist())
    said = f"Written: {path}, the labels"
    if empty:
        said += f"; {empty:,} of {len(parts['label']):,} items have none: calibrate with --drop-unlabelled"
    if path.suffix == ".csv":
        rows = zip(*([_text(each) for each in part.tolist()] for part in parts.values()), strict=True)
        write_whole(
            path, "w", lambda file: csv.writer(file, lineterminator="\n").writerows([list(parts), *rows])
        )
        return said
    arrays: dict[str, Any] = {name: _storable(part, "-1") for name, part in parts.items()}
    arrays |= {
        "labels": _storable(every, ""),
        "annotators": np.array([str(each) for each in table.annotators]),
    }
    write_whole(path, "wb", lambda file: np.savez(file, **arrays))
    return said


def _read_items(name: str) -> list[str]:
    """Read what items are called."""
    path, key = split_key(name)
    return (
        csv_column(path, key)[0] if key is not None else [line for line in read_lines(name) if line.strip()]
    )


def _text(label: Any) -> str:
    return "" if label is None or label == -1 else str(label)


def _storable(labels: Array, absent: str) -> Array:
    """Return labels without objects; of names, one that is missing is a text."""
    if labels.dtype.kind != "O":
        return labels
    flat = [absent if label is None else str(label) for label in labels.ravel().tolist()]
    return np.array(flat).reshape(labels.shape)
