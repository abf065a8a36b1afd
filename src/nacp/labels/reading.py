"""Files: what format one has is seen by its content, unless it is said."""

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nacp.checks import check_choice
from nacp.errors import InputError
from nacp.labels.argilla import from_argilla, is_answers
from nacp.labels.cells import from_cells
from nacp.labels.label_studio import from_label_studio
from nacp.labels.matrix import from_matrix
from nacp.labels.records import from_records, is_long
from nacp.labels.table import LabelTable

FORMATS = ("label-studio", "argilla", "records", "matrix")
"""What a file may hold. Records are also the rows of a long CSV."""
_SEPARATORS = ",;\t|"
_LABEL_STUDIO = {"annotation_id", "annotator"}  # what its short exports have, JSON-MIN and CSV


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
) -> LabelTable:
    """Read the labels that a labelling tool exported.

    Parameters
    ----------
    path : path
        ``.json`` or ``.jsonl`` (Label Studio, Argilla, records as of Hugging Face's datasets), ``.csv``,
        ``.tsv`` (a row for each label, as in Label Studio's, or a column for each annotator), ``.npy``
        (Snorkel's label matrix), each of these but the last also with ``.gz``; or ``.parquet`` with records.
    format : {"label-studio", "argilla", "records", "matrix"}, optional
        By default it is seen by the content.
    control : str, optional
        Of Label Studio the control, of Argilla the question, whose answers are wanted.
    predictions : bool, optional
        Whether labels by models (predictions, suggestions) count, too.
    item, annotator, label, checked : str, optional
        Which columns, as in `from_records`; the first also for Label Studio and Argilla.

    Returns
    -------
    LabelTable

    Examples
    --------
    >>> import os, tempfile
    >>> from nacp.labels import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "answers.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("task;worker;label\\n1;Ann;cat\\n1;Bob;dog\\n")
    ...     read(path).matrix().tolist()
    [['cat', 'dog']]
    """
    if format is not None:
        check_choice("format", format, FORMATS)
    file = Path(path)
    if file.is_dir() or not file.exists():
        raise InputError(str(path), "is a folder" if file.is_dir() else "does not exist")
    try:
        content = _content(file)
        columns = {"item": item, "annotator": annotator, "label": label, "checked": checked}
        said = {name for name, column in columns.items() if column is not None}
        found = format or _format(content)
        if format is None and _is_table(content) and said - ({"item"} if found == "label-studio" else set()):
            found = "records"
        tool = {"control": control, "item": item, "predictions": predictions}
        _refuse_unused(found, columns, tool)
        return _READERS[found](content, columns, tool)
    except InputError as error:
        raise error.about(str(path)) if error.argument == "labels" else error from None


def _content(file: Path) -> Any:
    """Return what a file holds: an array, a list of records, or rows of cells."""
    ending = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    if ending == ".npy":
        try:
            return np.load(file, allow_pickle=False)
        except (ValueError, EOFError):
            raise InputError("labels", "cannot be read as .npy: it is damaged or something else") from None
    if ending == ".parquet":
        try:
            from pyarrow.parquet import read_table
        except ImportError:
            raise InputError(
                "labels", "needs pyarrow, which is not installed: pip install 'nacp[io]'"
            ) from None
        records: list[Any] = read_table(file).to_pylist()
        return records
    try:
        raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        text = raw.decode("utf-8-sig")
    except (UnicodeDecodeError, gzip.BadGzipFile):
        raise InputError("labels", "is not text: .json, .jsonl, .csv, .tsv or .npy can be read") from None
    if not text.strip():
        raise InputError("labels", "is empty")
    if ending in (".json", ".jsonl", ".ndjson") or text.lstrip()[0] in "[{":
        return _records_of(_parsed(text))
    return _rows(text)


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, or the values of its lines."""
    try:
        return json.loads(text)
    except ValueError as error:
        whole = error
    values = []
    for i, line in enumerate(text.splitlines(), 1):
        try:
            values += [json.loads(line)] if line.strip() else []
        except ValueError:
            if i == 1:
                raise InputError("labels", f"is not JSON: {whole}") from None
            raise InputError("labels", f"is not JSON in line {i}") from None
    return values


def _records_of(value: Any) -> Any:
    """Return a list of records: as it is, or from columns, or from records by id."""
    if not isinstance(value, Mapping):
        return value
    parts = list(value.values())
    tables = [part for part in parts if _list(part) and all(isinstance(each, Mapping) for each in part)]
    plain = [part for part in parts if not isinstance(part, list | Mapping)]
    if len(tables) == 1 and len(plain) == len(parts) - 1 and not {"annotations", "responses"} & set(value):
        return tables[0]  # such as {"version": 1, "data": [...]}
    if parts and all(isinstance(part, list) and len(part) == len(parts[0]) for part in parts):
        return [dict(zip(value, row, strict=True)) for row in zip(*parts, strict=True)]
    if parts and all(isinstance(part, Mapping) and "responses" in part for part in parts):
        return [{"id": name} | dict(part) for name, part in value.items()]
    if parts and all(isinstance(part, Mapping) and list(part) == list(parts[0]) for part in parts):
        return [{name: part[row] for name, part in value.items()} for row in parts[0]]  # as pandas writes
    return [value]


def _rows(text: str) -> list[list[str]]:
    """Return the rows of a table, whatever separates its cells."""
    first = text.splitlines()[0]
    mark = max(_SEPARATORS, key=first.count)
    rows = [
        [cell.strip() for cell in row] for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    ]
    rows = [row for row in rows if any(row)]
    short = next((i for i, row in enumerate(rows) if len(row) != len(rows[0])), None)
    if short is not None:
        raise InputError(
            "labels",
            f"must have rows of one length; row {short} has {len(rows[short])} cells, not {len(rows[0])}",
        )
    return rows


def is_long_file(file: Path) -> bool:
    """Return whether a table has a row for each label, and not a column for each annotator."""
    content = _content(file)
    if not _is_table(content):
        content = [list(content[0])] if content and isinstance(content[0], Mapping) else []
    return bool(content) and is_long(content[0])


def _is_table(content: Any) -> bool:
    """Return whether it is rows of cells."""
    return isinstance(content, list) and bool(content) and isinstance(content[0], list)


def _format(content: Any) -> str:
    """Return which format a content is in."""
    if isinstance(content, np.ndarray):
        return "matrix"
    if isinstance(content, list) and not content:
        raise InputError("labels", "holds no record")
    if not isinstance(content, list):
        raise InputError("labels", "must hold a list of records", found=type(content).__name__)
    if _is_table(content):
        header = content[0]
        if set(map(str, header)) >= _LABEL_STUDIO:
            return "label-studio"
        return "records" if all(isinstance(cell, str) for cell in header) and is_long(header) else "matrix"
    some = [record for record in content[:50] if isinstance(record, Mapping)]
    keys = {key for record in some for key in record}

    def lists(*names: str) -> bool:
        return any(
            isinstance(each, Mapping) and "result" in each
            for record in some
            for name in names
            for each in _list(record.get(name))
        )

    if lists("annotations", "completions", "predictions") or keys >= _LABEL_STUDIO:
        return "label-studio"
    if {"data", "annotations"} <= keys and "id" in keys:
        return "label-studio"  # tasks of which none was done
    dotted = any(key.endswith((".responses", ".suggestion", "-suggestion")) for key in keys)
    first = "annotation" in keys and keys & {"annotation_agent", "prediction", "prediction_agent"}
    answered = any(
        is_answers(value) and key not in ("annotations", "labels")
        for record in some
        for key, value in record.items()
    )
    if dotted or first or answered or {"responses", "suggestions"} & keys & set(_nested(some)):
        return "argilla"
    return "records"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _nested(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys whose values are mappings, or lists of mappings."""
    return [
        key
        for record in records
        for key, value in record.items()
        if isinstance(value, Mapping)
        or (isinstance(value, list) and all(isinstance(v, Mapping) for v in value))
    ]


def _refuse_unused(found: str, columns: dict[str, Any], tool: dict[str, Any]) -> None:
    """Refuse what is said about a file of another format."""
    unused = columns if found in ("label-studio", "argilla") else tool
    odd = next((name for name, value in unused.items() if value is not None and name != "item"), None)
    if found == "matrix":
        odd = next((name for name, value in (columns | tool).items() if value is not None), None)
    if odd is not None:
        raise InputError(odd, f"has no use for a file in the format {found}")


def _matrix(content: Any, columns: dict[str, Any], tool: dict[str, Any]) -> LabelTable:
    if _is_table(content) and all(isinstance(cell, str) for row in content for cell in row):
        return from_cells(content)
    return from_matrix(content)


def _records(content: Any, columns: dict[str, Any], tool: dict[str, Any]) -> LabelTable:
    return from_records(_by_column(content), **columns)


def _by_column(content: Any) -> Any:
    """Return records: as they are, or from rows of cells below a header."""
    if not _is_table(content):
        return content
    header, *rows = content
    if len(set(header)) < len(header):
        raise InputError("labels", "must have columns with names of their own")
    if not rows:
        raise InputError("labels", "has a header and nothing below it")
    return [dict(zip(header, row, strict=True)) for row in rows]


def _label_studio(content: Any, columns: dict[str, Any], tool: dict[str, Any]) -> LabelTable:
    if _is_table(content):
        content = [{name: _cell(value) for name, value in record.items()} for record in _by_column(content)]
    return from_label_studio(content, **tool | {"predictions": bool(tool["predictions"])})


def _cell(text: str) -> Any:
    """Return what Label Studio wrote into a cell: nothing, a text, or several choices as JSON."""
    return _parsed(text) if text.startswith('{"choices"') else text or None


def _argilla(content: Any, columns: dict[str, Any], tool: dict[str, Any]) -> LabelTable:
    named = {"question": tool["control"], "item": tool["item"], "predictions": bool(tool["predictions"])}
    try:
        return from_argilla(content, **named)
    except InputError as error:
        raise error.about("control") if error.argument == "question" else error from None


_READERS: dict[str, Callable[[Any, dict[str, Any], dict[str, Any]], LabelTable]] = {
    "label-studio": _label_studio,
    "argilla": _argilla,
    "records": _records,
    "matrix": _matrix,
}
