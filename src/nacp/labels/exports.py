"""Files that labelling tools export; the format is recognised by the content."""

import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nacp.checks import check_choice
from nacp.errors import InputError
from nacp.labels.argilla import from_argilla
from nacp.labels.label_matrix import from_cells, from_matrix
from nacp.labels.label_studio import from_label_studio
from nacp.labels.records import from_records, is_long
from nacp.labels.table import LabelTable

# The formats, and which options of `read` each of them takes.
_OPTIONS = {
    "label-studio": {"control", "predictions", "item"},
    "argilla": {"control", "predictions", "item"},
    "records": {"item", "annotator", "label", "checked"},
    "matrix": set[str](),
}
FORMATS = tuple(_OPTIONS)
"""The formats of files. Records are also the rows of a long CSV table."""
_EXPANDED_MAX, _EXPANSION_MAX = 50_000_000, 100
_SEPARATORS = ",;\t|"
_SHORT_EXPORT = {"annotation_id", "annotator"}  # fields of Label Studio's JSON-MIN and CSV


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    control: str | None = None,
    predictions: bool | None = None,
    item: str | None = None,
    annotator: str | None = None,
    label: str | Sequence[str] | None = None,
    checked: str | None = None,
    classes: Sequence[Any] | None = None,
) -> LabelTable:
    """Read the labels that a labelling tool exported.

    Parameters
    ----------
    path : path
        ``.json`` or ``.jsonl`` (Label Studio, Argilla, records as of Hugging Face's datasets), ``.csv``,
        ``.tsv`` (a row for each label, as in Label Studio's, or a column for each annotator), ``.npy``
        (Snorkel's label matrix), each of these but the last also with ``.gz``; or ``.parquet`` with records.
    format : {"label-studio", "argilla", "records", "matrix"}, optional
        By default it is recognised by the content.
    control, predictions : str and bool, optional
        The control of Label Studio, or the question of Argilla, whose answers are wanted; whether labels by
        models (predictions, suggestions) count, too.
    item, annotator, label, checked : str, optional
        The columns, as in `from_records`; the first also for Label Studio and Argilla.

    Examples
    --------
    >>> import os, tempfile
    >>> from nacp.labels import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "answers.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("task;worker;label\\n1;Ann;cat\\n1;Bob;dog\\n")
    ...     read(path)
    LabelTable(2 labels of 1 item by 2 annotators, 2 classes)
    """
    if format is not None:
        check_choice("format", format, FORMATS)
    file = Path(path)
    if file.is_dir() or not file.exists():
        raise InputError(str(path), "is a folder" if file.is_dir() else "does not exist")
    columns: dict[str, Any] = {"item": item, "annotator": annotator, "label": label, "checked": checked}
    options = columns | {"control": control, "predictions": predictions}
    given = [name for name, value in options.items() if value is not None]
    try:
        content = _content(file)
        found = format or _format(content)
        if format is None and _is_table(content) and set(columns) & set(given) - _OPTIONS[found]:
            found = "records"
        unused = [name for name in given if name not in _OPTIONS[found]]
        if unused:
            raise InputError(unused[0], f"has no use for a file in the format {found}")
        if found == "matrix":
            texts = _is_table(content) and all(isinstance(cell, str) for row in content for cell in row)
            return from_cells(content, classes) if texts else from_matrix(content)
        records = _as_records(content)
        if found == "records":
            return from_records(records, **columns)
        if found == "argilla":
            return from_argilla(records, question=control, item=item, predictions=bool(predictions))
        return from_label_studio(records, control=control, item=item, predictions=bool(predictions))
    except InputError as error:
        names = {"labels": str(path), "question": "control"}
        raise error.about(names.get(error.argument, error.argument)) from None


def is_long_file(file: Path) -> bool:
    """Return whether a table has a row for each label, and not a column for each annotator."""
    content = _content(file)
    if not _is_table(content):
        content = [list(content[0])] if content and isinstance(content[0], Mapping) else []
    return bool(content) and is_long(content[0])


def _content(file: Path) -> Any:
    """Return the content of a file: an array, a list of records, or rows of cells."""
    ending = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    if ending == ".npy":
        try:
            return np.load(file, allow_pickle=False)
        except Exception as error:  # NumPy raises almost any error for damaged files
            if isinstance(error, OSError) and error.filename:
                raise
            raise InputError("labels", "cannot be read as .npy: it is damaged or something else") from None
    if ending == ".parquet":
        try:
            from pyarrow import ArrowException
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise InputError(
                "labels", "needs pyarrow, which is not installed: pip install 'nacp[io]'"
            ) from None
        try:
            table = ParquetFile(file)
            _check_expansion(file, 8 * parquet_values(table))
            return table.read().to_pylist()
        except InputError:
            raise
        except (ArrowException, OSError, ValueError, OverflowError):
            raise InputError("labels", "cannot be read as .parquet: it is damaged") from None
    try:
        text = _unpacked(file).decode("utf-8-sig")
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError("labels", "is not text: .json, .jsonl, .csv, .tsv or .npy can be read") from None
    if not text.strip():
        raise InputError("labels", "is empty")
    if ending in (".json", ".jsonl", ".ndjson") or text.lstrip()[0] in "[{":
        parsed = _parsed(text)
        return [parsed] if isinstance(parsed, Mapping) else parsed
    return _rows(text)


def _unpacked(file: Path) -> bytes:
    """Return the bytes of a file; a compressed one must not expand without bound."""
    if file.suffix != ".gz":
        return file.read_bytes()
    with gzip.open(file) as packed:
        raw = packed.read(_most_expanded(file) + 1)
    _check_expansion(file, len(raw))
    return raw


def parquet_values(table: Any) -> int:
    """Return the number of values in a Parquet file, those in lists included, by its metadata.

    A row of each group is read first, which raises an error where the metadata are damaged: pyarrow would end
    the process when it is asked for the number.
    """
    for i in range(table.num_row_groups):
        next(table.iter_batches(1, row_groups=[i]), None)
    groups = [table.metadata.row_group(i) for i in range(table.num_row_groups)]
    return sum(group.column(i).num_values for group in groups for i in range(group.num_columns))


def _most_expanded(file: Path) -> int:
    return max(_EXPANDED_MAX, _EXPANSION_MAX * file.stat().st_size)


def _check_expansion(file: Path, size: int) -> None:
    """Refuse a file whose content is far larger than the file, before it fills the memory."""
    if size > _most_expanded(file):
        problem = f"expands to more than {_most_expanded(file):,} bytes, which a file of this size may not"
        raise InputError("labels", problem, remedy="give it uncompressed")


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, or the values of its lines."""
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        whole = error
    try:
        return [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        raise InputError("labels", f"is not JSON, and not JSON in each line: {whole}") from None


def _rows(text: str) -> list[list[str]]:
    """Return the rows of a table, with any of the usual separators."""
    separator = max(_SEPARATORS, key=text.splitlines()[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        rows = [row for row in ([cell.strip() for cell in each] for each in reader) if any(row)]
    except csv.Error as error:
        raise InputError("labels", f"cannot be read as a table: {error}") from None
    if any(len(row) != len(rows[0]) for row in rows):
        raise InputError("labels", "must have rows of one length")
    return rows


def _is_table(content: Any) -> bool:
    return isinstance(content, list) and bool(content) and isinstance(content[0], list)


def _as_records(content: Any) -> Any:
    """Return records: as they are, or from rows of cells below a header."""
    if not _is_table(content):
        return content
    header, *rows = content
    if len(set(header)) < len(header):
        raise InputError("labels", "must have columns with different names")
    return [dict(zip(header, row, strict=True)) for row in rows]


def _format(content: Any) -> str:
    if isinstance(content, np.ndarray):
        return "matrix"
    if not isinstance(content, list):
        raise InputError("labels", "must hold a list of records", found=type(content).__name__)
    if not content:
        raise InputError("labels", "holds no record")
    if _is_table(content):
        header = content[0]
        if set(map(str, header)) >= _SHORT_EXPORT:
            return "label-studio"
        return "records" if all(isinstance(cell, str) for cell in header) and is_long(header) else "matrix"
    keys = {key for record in content[:50] if isinstance(record, Mapping) for key in record}
    tasks = keys & {"annotations", "completions", "predictions"} and "data" in keys
    if tasks or keys >= _SHORT_EXPORT:
        return "label-studio"
    flattened = any(key.endswith((".responses", ".suggestion")) for key in keys)
    return "argilla" if flattened or keys & {"responses", "suggestions"} else "records"
