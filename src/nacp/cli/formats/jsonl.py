"""JSON lines: a list, an object or a single value on each."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from nacp._types import Array
from nacp.cli.formats.common import PROBS, IdPlace, Places, Table, few, no_ids, pick_labels, text_lines
from nacp.errors import InputError


def jsonl_rows(path: Path) -> tuple[list[str] | None, list[list[Any]]]:
    """Read all lines: the keys, if the lines are objects, and the values of each line."""
    keys: list[str] | None = None
    rows: list[list[Any]] = []
    with text_lines(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(str(path), f"is not JSON in line {number}: {error}") from None
            found = list(value) if isinstance(value, dict) else None
            if rows and (found is None) != (keys is None):
                raise InputError(str(path), f"has another kind of value in line {number} than above")
            if found is None:
                rows.append(value if isinstance(value, list) else [value])
                continue
            keys = keys or found
            if set(found) != set(keys):
                raise InputError(
                    str(path), f"has other keys in line {number}", found=few(found), remedy=few(keys)
                )
            rows.append([value[key] for key in keys])
    if not rows:
        raise InputError(str(path), "is empty")
    if keys is None and len({len(row) for row in rows}) > 1:
        raise InputError(str(path), "must hold lists of one length")
    return keys, rows


def jsonl_matrix(path: Path, key: str | None, places: Places, ids: IdPlace = no_ids) -> Table:
    """Read lists of numbers, or the numbers under keys, what these are called, and the rows' ids.

    Under a key named, or "probs", may be a list or an object that has all of them.
    """
    keys, rows = jsonl_rows(path)
    if keys is None:
        if key is not None:
            raise InputError(str(path), "is one matrix", remedy=f"give it without :{key}")
        return Table(_numbers(path, rows))
    at = ids(keys)
    kept = None if at is None else [str(row[at]) for row in rows]
    inner = key or next((name for name in PROBS if name in keys), None)
    if inner is not None:
        if inner not in keys:
            raise InputError(str(path), f"holds no {inner!r}, but {few(keys)}")
        values = [row[keys.index(inner)] for row in rows]
        if all(isinstance(value, dict) for value in values):
            names = list(values[0])
            if any(set(value) != set(names) for value in values):
                raise InputError(str(path), f"must have the same names in {inner!r} on every line")
            matrix = _numbers(path, [[value[name] for name in names] for value in values])
            return Table(matrix, names, kept)
        if not all(isinstance(value, list) for value in values):
            raise InputError(str(path), f"must hold a list of numbers in {inner!r} on every line")
        return Table(_numbers(path, values), None, kept)
    wanted = places(keys)
    matrix = _numbers(path, [[row[i] for i in wanted] for row in rows])
    return Table(matrix, [keys[i] for i in wanted], kept)


def _numbers(path: Path, rows: list[list[Any]]) -> Array:
    odd = next(
        (each for row in rows for each in row if not isinstance(each, int | float) or each is True), None
    )
    if odd is not None:
        raise InputError(str(path), "must hold numbers only", found=repr(odd))
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError:
        raise InputError(str(path), "must hold lists of one length") from None


def jsonl_column(path: Path, key: str | None, *, true: bool = False) -> list[str]:
    """Return the labels as the cells of a text table would have them; null is an empty one."""
    keys, rows = jsonl_rows(path)
    place = 0
    if keys is not None:
        place = pick_labels(path, keys, key, true=true)
    elif key is not None or len(rows[0]) != 1:
        raise InputError(str(path), "must hold one label on each line, or objects with keys")
    odd = next((row[place] for row in rows if isinstance(row[place], list | dict | bool)), None)
    if odd is not None:
        raise InputError(str(path), "must hold texts or numbers as labels", found=repr(odd))
    return ["" if row[place] is None else str(row[place]) for row in rows]
