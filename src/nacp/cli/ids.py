"""What rows are called in the files that commands are given: where two files say it, they must agree."""

from pathlib import Path

import numpy as np

from nacp.cli.formats.arrays import UNREADABLE
from nacp.cli.formats.common import ARRAYS, LINES, NAMED, PARQUET, STDIN, TEXTS, kind, split_key
from nacp.cli.formats.jsonl import jsonl_rows
from nacp.cli.formats.parquet import parquet_column, parquet_header
from nacp.cli.formats.text import csv_rows
from nacp.errors import InputError


def row_ids(name: str) -> list[str] | None:
    """Return the cells of a first column called id, item or items, or such an array of ``.npz``, if any."""
    path, key = split_key(name)
    if name == STDIN or not path.is_file():
        return None
    if kind(path) in ARRAYS:
        if path.suffix != ".npz":
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                there = [each for each in file.files if each.lower() in NAMED and each != key]
                found = file[there[0]] if len(there) == 1 else np.zeros((0, 0))
        except UNREADABLE:  # who reads its labels says so
            return None
        return [str(each) for each in found.tolist()] if found.ndim == 1 else None
    if kind(path) in TEXTS:
        _, header = next(csv_rows(path, gaps=True))
    elif kind(path) == PARQUET:
        header = parquet_header(path)
    else:
        header = (jsonl_rows(path)[0] if kind(path) == LINES else None) or [""]
    if len(header) == 1 or header[0].lower() not in NAMED or header[0] == key:
        return None
    if kind(path) in TEXTS:
        return [row[0] for _, row in csv_rows(path)][1:]
    if kind(path) == PARQUET:
        return [str(each) for each in parquet_column(path, header[0], gaps=True).tolist()]
    return [str(row[0]) for row in jsonl_rows(path)[1]]


def refuse_other_order(*names: str | None) -> None:
    """Refuse files that call their rows by other names, or have them in another order."""
    known: tuple[str, list[str]] | None = None
    seen: set[Path] = set()
    for name in reversed(names):  # the last ones are small
        if name is None or (path := split_key(name)[0]) in seen:
            continue
        seen.add(path)
        if (ids := row_ids(name)) is None:
            continue
        if known is None:
            known = name, ids
            continue
        other, theirs = known
        odd = next((i for i, (a, b) in enumerate(zip(ids, theirs, strict=False)) if not _same(a, b)), None)
        if odd is not None and len(ids) == len(theirs):
            shuffled = sorted(ids) == sorted(theirs)
            raise InputError(
                other,
                f"has {theirs[odd]!r} in row {odd}, where {name} has {ids[odd]!r}",
                remedy="put the rows of both in one order"
                + ("" if shuffled else ", or, if these are not the same ids, rename that column"),
            )


def _same(one: str, other: str) -> bool:
    """Return whether two ids are one, which may be written as 1 here and as 1.0 there."""
    return one == other or one.removesuffix(".0") == other.removesuffix(".0")
