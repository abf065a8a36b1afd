"""Groups that commands are given: one for each row, or one for each class."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nacp._types import Array
from nacp.cli.formats.arrays import read_array
from nacp.cli.formats.common import (
    ARRAYS,
    LINES,
    PARQUET,
    TEXTS,
    are_whole,
    checked,
    kind,
    split_key,
    unknown,
)
from nacp.cli.formats.jsonl import jsonl_column
from nacp.cli.formats.parquet import parquet_column
from nacp.cli.formats.text import csv_column, csv_rows
from nacp.errors import InputError

_CALLED = {"group", "groups"}


def read_groups(name: str, rows: int | None, classes: Sequence[Any] | None) -> Array | Mapping[Any, Any]:
    """Read the group of each row: an array, or one column of a table; or a mapping from classes to groups.

    A mapping is a ``.json`` object, or a table of the two columns class and group. Without a number of rows
    there may be any, and an object may hold the share of each group.
    """
    path, key = split_key(name)
    if path.suffix == ".json":
        found = _read_object(path)
        if rows is None and all(isinstance(share, float) for share in found.values()):
            return found
        return _by_class(
            {each: "" if group is None else str(group) for each, group in found.items()}, classes
        )
    if kind(path) in TEXTS and key is None:
        table = csv_rows(checked(path))
        _, header = next(table)
        if [cell.lower() for cell in header] == ["class", "group"]:
            return _by_class(_pairs(path, [(row[0], row[1]) for _, row in table]), classes)
    if kind(path) in ARRAYS:
        values = read_array(path, key, "groups")
    elif kind(path) == PARQUET:
        values = parquet_column(path, key)
    elif kind(path) == LINES:
        values = np.array(jsonl_column(path, key))
    elif kind(path) in TEXTS:
        read, headed = csv_column(path, key, called=_CALLED)
        if not headed and rows is not None and len(read) == rows + 1:
            del read[0]
        values = np.array(read)
    else:
        raise unknown(path)
    if rows is not None and values.shape != (rows,):
        raise InputError(
            name, f"must hold {rows:,} groups, one for each row of PROBS", found=f"{values.shape}",
            remedy="groups of classes are a .json object, or a table with the columns class and group",
        )  # fmt: skip
    if values.dtype.kind == "f" and are_whole(values.astype(str).tolist()):
        values = values.astype(np.int64)
    texts = values.astype(str)
    missing = np.isnan(values) if values.dtype.kind == "f" else texts == ""
    if missing.any():
        row = int(np.argmax(missing))
        raise InputError(name, f"has no group in row {row}", remedy="give it a name of its own, as 'unknown'")
    return texts


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(checked(path).read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise InputError(str(path), f"cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(str(path), 'must hold an object from classes to groups, such as {"cat": "pet"}')
    return found


def _pairs(path: Path, pairs: list[tuple[str, str]]) -> dict[str, str]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
        raise InputError(str(path), f"has two lines for class {twice!r}")
    return found


def _by_class(groups: dict[str, Any], classes: Sequence[Any] | None) -> Mapping[Any, Any]:
    """Return groups by the names of classes, or by their numbers if they have no names."""
    groups = {each: group or None for each, group in groups.items()}
    named = classes is not None and set(groups) & {str(each) for each in classes}
    if not named and are_whole(list(groups)):
        return {int(float(each)): group for each, group in groups.items()}
    return groups
