"""Parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nacp._types import Array
from nacp.cli.formats.base import PROBS, TEXT_COLUMN, Table, as_cell, few, need, pick
from nacp.errors import InputError


class ParquetTable(Table):
    """A Parquet file. The columns in which pandas keeps its index are left out, unless one is the key."""

    def __init__(self, path: Path, key: str | None = None) -> None:
        self.path = path
        self._arrow = need("pyarrow", path)
        parquet = need("pyarrow.parquet", path)
        need("pyarrow.compute", path)
        try:
            self._file = parquet.ParquetFile(path)
        except self._arrow.ArrowInvalid:
            raise InputError(
                str(path), "cannot be read as .parquet: it is damaged or something else"
            ) from None
        self._schema: Any = self._file.schema_arrow
        index = (self._schema.pandas_metadata or {}).get("index_columns", [])
        names = [name for name in self._schema.names if name not in index or name == key]
        if not names or len(set(names)) < len(names):
            raise InputError(
                str(path), "must have columns with names of their own", found=few(names) or "none"
            )
        self.header: list[str] = names
        self.width = len(names)

    def numbers(self, columns: Sequence[int]) -> Array:
        """Return columns of numbers as a matrix."""
        wanted, types = [self.header[i] for i in columns], self._arrow.types
        kinds = [self._schema.field(name).type for name in wanted]
        for name, kind in zip(wanted, kinds, strict=True):
            if not (types.is_floating(kind) or types.is_integer(kind)):
                raise InputError(
                    str(self.path),
                    f"must hold numbers in all columns; {name!r} is {kind}",
                    remedy=TEXT_COLUMN,
                )
        narrow = all(types.is_float32(kind) or types.is_float16(kind) for kind in kinds)
        shape = self._file.metadata.num_rows, len(wanted)
        matrix, done = np.empty(shape, dtype=np.float32 if narrow else np.float64), 0
        for batch in self._file.iter_batches(columns=wanted):
            for j, name in enumerate(wanted):
                matrix[done : done + len(batch), j] = batch.column(name).to_numpy(zero_copy_only=False)
            done += len(batch)
        return matrix

    def cells(self, column: int, *, gaps: bool = False) -> list[str]:
        """Return a column as texts; with `gaps` some may be missing."""
        read = self._column(self.header[column])
        if read.null_count and not gaps:
            row = read.is_null().to_pylist().index(True)
            raise InputError(str(self.path), f"has no label in row {row}", remedy="drop such rows first")
        return [as_cell(each) for each in read.to_pylist()]

    def lists(self, key: str | None) -> tuple[Array, list[str] | None] | None:
        """Return the matrix in the column of lists with the key or one of the names `PROBS`, if any."""
        names = (*PROBS, self.header[0]) if self.width == 1 else PROBS
        inner = key or next((name for name in names if name in self.header and self._is_list(name)), None)
        if inner is None:
            return None
        if not self._is_list(pick(self.path, self.header, inner, inner)):
            return self.numbers([self.header.index(inner)]), [inner]
        lists = self._column(inner).combine_chunks()
        flat, n = lists.flatten().to_numpy(zero_copy_only=False), len(lists)
        lengths = self._arrow.compute.list_value_length(lists).to_pylist()
        if n == 0 or len(flat) % n or len(set(lengths)) > 1:
            raise InputError(str(self.path), f"must hold lists of one length in {inner!r}")
        return flat.reshape(n, -1), None

    def _is_list(self, name: str) -> bool:
        kind, types = self._schema.field(name).type, self._arrow.types
        return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))

    def _column(self, name: str) -> Any:
        return self._file.read(columns=[name]).column(0)
