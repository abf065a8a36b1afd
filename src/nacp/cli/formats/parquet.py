"""Parquet."""

from pathlib import Path
from typing import Any

import numpy as np

from nacp._types import Array
from nacp.cli.formats.common import (
    PROBS,
    TEXT_COLUMN,
    IdPlace,
    Places,
    Table,
    checked,
    few,
    need,
    no_ids,
    pick,
    pick_labels,
)
from nacp.errors import InputError


def parquet_matrix(path: Path, key: str | None, places: Places, ids: IdPlace = no_ids) -> Table:
    """Read a column of lists, or the columns that are wanted and their names, and the rows' ids."""
    file, arrow = _parquet(path)
    schema = file.schema_arrow
    there = _columns(path, schema)
    at = ids(there)
    kept = None if at is None else file.read(columns=[there[at]]).column(0).to_pylist()
    kept = None if kept is None else [str(each) for each in kept]

    def is_lists(name: str) -> bool:
        kind = schema.field(name).type
        found: bool = (
            arrow.types.is_list(kind)
            or arrow.types.is_large_list(kind)
            or arrow.types.is_fixed_size_list(kind)
        )
        return found

    inner = key or next((name for name in PROBS if name in there and is_lists(name)), None)
    wanted = [pick(path, schema.names, inner, inner)] if inner else [there[i] for i in places(there)]
    types = [schema.field(name).type for name in wanted]
    if len(wanted) == 1 and is_lists(wanted[0]):
        lists = file.read(columns=wanted).column(0).combine_chunks()
        flat, n = lists.flatten().to_numpy(zero_copy_only=False), len(lists)
        if n == 0 or len(flat) % n or len(set(arrow.compute.list_value_length(lists).to_pylist())) > 1:
            raise InputError(str(path), f"must hold lists of one length in {wanted[0]!r}")
        return Table(flat.reshape(n, -1), None, kept)
    odd = [
        name
        for name, kind in zip(wanted, types, strict=True)
        if not (arrow.types.is_floating(kind) or arrow.types.is_integer(kind))
    ]
    if odd:
        raise InputError(
            str(path),
            f"must hold numbers in all columns; {odd[0]!r} is {schema.field(odd[0]).type}",
            remedy=TEXT_COLUMN,
        )
    narrow = all(arrow.types.is_float32(kind) or arrow.types.is_float16(kind) for kind in types)
    matrix = np.empty((file.metadata.num_rows, len(wanted)), dtype=np.float32 if narrow else np.float64)
    done = 0
    for batch in file.iter_batches(columns=wanted):
        for j, name in enumerate(wanted):
            matrix[done : done + len(batch), j] = batch.column(name).to_numpy(zero_copy_only=False)
        done += len(batch)
    return Table(matrix, wanted, kept)


def parquet_column(path: Path, key: str | None, *, true: bool = False, gaps: bool = False) -> Array:
    """Read the column of labels; with `gaps` some may be missing."""
    file, _ = _parquet(path)
    there = file.schema_arrow.names if key else _columns(path, file.schema_arrow)
    column = file.read(columns=[there[pick_labels(path, there, key, true=true)]]).column(0)
    if column.null_count and not gaps:
        row = column.is_null().to_pylist().index(True)
        raise InputError(str(path), f"has no label in row {row}", remedy="drop such rows first")
    found: Array = column.to_numpy()
    return found if gaps or found.dtype.kind != "O" else found.astype(str)


def parquet_header(path: Path) -> list[str]:
    """Return the names of the columns."""
    return _columns(path, _parquet(path)[0].schema_arrow)


def _columns(path: Path, schema: Any) -> list[str]:
    """Return the names of the columns but for those that pandas keeps its index in."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in index]
    if not names or len(set(names)) < len(names):
        raise InputError(str(path), "must have columns with names of their own", found=few(names) or "none")
    return names


def _parquet(path: Path) -> tuple[Any, Any]:
    checked(path)
    arrow, parquet = need("pyarrow", path), need("pyarrow.parquet", path)
    need("pyarrow.compute", path)
    try:
        return parquet.ParquetFile(path), arrow
    except arrow.ArrowInvalid:
        raise InputError(str(path), "cannot be read as .parquet: it is damaged or something else") from None
