"""Parquet as part of a matrix: its columns are the classes, or one column holds the rows as lists."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nacp._types import Array, Ints
from nacp.errors import InputError
from nacp.points.raw import Where, refuse_changed, stamp_of

# Entries that are decoded at once, and bytes of each column that are read at once.
_ENTRIES, _BYTES = 1 << 20, 1 << 14


class ParquetPart:
    """The rows of a file; who reads them one after the other goes on where he was."""

    rounded = False

    def __init__(self, path: Path, file: Any, columns: Sequence[str], lists: bool, narrow: bool) -> None:
        self.path, self._file, self._columns, self._lists = path, file, list(columns), lists
        self._stamp = stamp_of(path)
        self._place: tuple[int, bytes | None] = -1, None  # the next row, and which columns are read
        self._left: Array = np.empty((0, 0))
        self._coming: Iterator[Array] = iter(())
        groups = range(file.metadata.num_row_groups)
        self._starts = np.cumsum([0, *(file.metadata.row_group(i).num_rows for i in groups)])
        n, several = file.metadata.num_rows, len(columns) > 1
        self.names = tuple(columns) if several else None
        first = next(file.iter_batches(batch_size=1, columns=self._columns), None)
        values = None if first is None else first.column(0)
        self.shape: tuple[int, ...] = (n,)
        if lists:
            k = 0 if values is None else len(values[0].values or ())
            self.shape, self.dtype = (n, k), np.dtype(np.float32 if narrow else np.float64)
        elif several:
            self.shape, self.dtype = (n, len(columns)), np.dtype(np.float32 if narrow else np.float64)
        else:
            self.dtype = np.dtype(object) if values is None else values.to_numpy(zero_copy_only=False).dtype

    def read(self, rows: Where, picked: Ints | None, out: Array) -> None:
        """Read rows, or some columns of them, in ascending order."""
        refuse_changed(self.path, self._stamp)
        if not isinstance(rows, slice):
            self._read_some(rows, picked, out)
            return
        columns = None if picked is None else picked.tobytes()
        if (rows.start, columns) != self._place:
            group = int(np.searchsorted(self._starts, rows.start, side="right")) - 1
            self._coming = self._blocks(range(group, len(self._starts) - 1), picked)
            self._left, skipped = out[:0], int(self._starts[group])
            while skipped < rows.start:
                self._left = next(self._coming)
                over = skipped + len(self._left) - rows.start
                skipped += len(self._left)
                self._left = self._left[len(self._left) - max(over, 0) :]
        done = 0
        while done < len(out):
            if not len(self._left):
                self._left = next(self._coming)
            some = self._left[: len(out) - done]
            out[done : done + len(some)] = some
            self._left, done = self._left[len(some) :], done + len(some)
        self._place = rows.stop, columns

    def _read_some(self, rows: Ints, picked: Ints | None, out: Array) -> None:
        """Read rows all over; all groups of rows are decoded that hold some."""
        groups = np.searchsorted(self._starts, rows, side="right") - 1
        for group in np.unique(groups).tolist():
            start = int(self._starts[group])
            for block in self._blocks([group], picked):
                here = slice(*np.searchsorted(rows, [start, start + len(block)]))
                out[here] = block[rows[here] - start]
                start += len(block)

    def _blocks(self, groups: Sequence[int], picked: Ints | None) -> Iterator[Array]:
        """Decode groups of rows, some rows at a time."""
        names = self._columns
        if picked is not None and not self._lists:
            names = [self._columns[i] for i in picked]
        step = max(1, _ENTRIES // max(self.shape[-1] if len(self.shape) > 1 else 1, 1))
        for batch in self._file.iter_batches(batch_size=step, row_groups=list(groups), columns=names):
            if len(self.shape) == 1:
                yield batch.column(0).to_numpy(zero_copy_only=False)
            elif self._lists:
                flat = batch.column(0).flatten().to_numpy(zero_copy_only=False)
                if len(flat) != len(batch) * self.shape[1]:
                    raise InputError(str(self.path), f"must hold lists of one length in {names[0]!r}")
                block = flat.reshape(len(batch), -1)
                yield block if picked is None else block[:, picked]
            else:
                block = np.empty((len(names), len(batch)), self.dtype)
                for i, name in enumerate(names):
                    block[i] = batch.column(name).to_numpy(zero_copy_only=False)
                yield block.T


def open_parquet(path: Path, key: str | None) -> ParquetPart:
    """Open the columns of a file, or the column of lists with the key; of one other column, the labels."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise InputError(str(path), "needs pyarrow, which is not installed: pip install 'nacp[io]'") from None
    try:
        file = parquet.ParquetFile(path, buffer_size=_BYTES, pre_buffer=False)
    except (arrow.ArrowInvalid, OSError):
        raise InputError(
            str(path), "cannot be read as .parquet: it is cut off, damaged or something else"
        ) from None
    schema = file.schema_arrow
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in index]
    if not names or len(set(names)) < len(names) or (key is not None and key not in names):
        needed = "columns with names of their own" if key is None else f"a column {key!r}"
        raise InputError(str(path), f"must have {needed}", found=", ".join(names[:10]) or "none")
    columns = names if key is None else [key]
    kinds = [schema.field(name).type for name in columns]
    lists = len(kinds) == 1 and bool(getattr(kinds[0], "value_type", None))
    inner = [kinds[0].value_type] if lists else kinds
    numbers = [arrow.types.is_floating(kind) or arrow.types.is_integer(kind) for kind in inner]
    if len(columns) > 1 and not all(numbers):
        odd = columns[numbers.index(False)]
        raise InputError(
            str(path), "must hold numbers in all columns", found=f"{schema.field(odd).type} in {odd!r}"
        )
    narrow = all(arrow.types.is_float32(kind) or arrow.types.is_float16(kind) for kind in inner)
    return ParquetPart(path, file, columns, lists, narrow)
