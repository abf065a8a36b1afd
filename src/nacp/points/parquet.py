"""Parquet as part of a matrix: its columns are the classes, or one column holds the rows as lists.

Rows cannot be read from where they lie: a group of rows has to be decoded as a whole. So each file is decoded
once, some columns of a group at a time, into a temporary file that takes as much room as the array would.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import IO, Any, NamedTuple, cast
from weakref import finalize

import numpy as np

from nacp._types import Array, Ints
from nacp.errors import InputError
from nacp.points.raw import Where, refuse_changed, stamp_of

_ENTRIES = 1 << 20  # that are decoded at once


class _Piece(NamedTuple):
    """Some columns of some rows, in the temporary file, from some byte on."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    start: int


class ParquetPart:
    """The rows of a file, which is decoded when they are first read."""

    rounded = False

    def __init__(self, path: Path, file: Any, columns: Sequence[str], lists: bool, narrow: bool) -> None:
        self.path, self._file, self._columns, self._lists = path, file, list(columns), lists
        self._stamp = stamp_of(path)
        self._pieces: list[_Piece] = []
        self._decoded: IO[bytes] | None = None
        self._lock = Lock()  # rows are read ahead while others may be read
        n, several = file.metadata.num_rows, len(columns) > 1
        self.names = tuple(columns) if several else None
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if narrow else np.float64)
        self.shape: tuple[int, ...] = (n, len(columns))
        if lists:
            first = file.read_row_group(0, columns=self._columns).column(0)[0].values if n else ()
            self.shape = (n, len(first or ()))
        elif not several:
            self._labels: Array = file.read(columns=self._columns).column(0).to_numpy()
            self.shape, self.dtype = (n,), self._labels.dtype

    def read(self, rows: Where, picked: Ints | None, out: Array) -> None:
        """Read rows, or some columns of them, in ascending order."""
        refuse_changed(self.path, self._stamp)
        if len(self.shape) == 1:
            out[...] = self._labels[rows]
            return
        with self._lock:
            if self._decoded is None:
                self._decode()
        wanted = np.arange(self.shape[1]) if picked is None else picked
        for (start, stop), (first, last), place in self._pieces:
            inside = np.flatnonzero((wanted >= first) & (wanted < last))
            if isinstance(rows, slice):
                low, high = max(rows.start, start), min(rows.stop, stop)
                here, there = slice(low - rows.start, high - rows.start), slice(low - start, high - start)
                some: Any = there
                empty = low >= high
            else:
                here = slice(*np.searchsorted(rows, [start, stop]))
                some = rows[here] - start
                empty = not len(some)
            if empty or not len(inside):
                continue
            # Mapped one by one: all at once would count as memory in use.
            shape = stop - start, last - first
            piece = np.memmap(cast(Any, self._decoded), self.dtype, "r", place, shape)
            out[here, inside] = piece[some][:, wanted[inside] - first]

    def look(self, rows: slice) -> None:
        """Rows do not lie in the file as they are needed."""

    def _decode(self) -> None:
        """Write all rows to a temporary file, which is gone with this part."""
        from tempfile import TemporaryFile

        decoded, start, place = TemporaryFile(), 0, 0  # noqa: SIM115  # it is closed with this part
        finalize(self, decoded.close)
        for group in range(self._file.metadata.num_row_groups):
            stop = start + self._file.metadata.row_group(group).num_rows
            for first, block in self._blocks(group, stop - start):
                self._pieces.append(_Piece((start, stop), (first, first + block.shape[1]), place))
                decoded.write(np.ascontiguousarray(block).data)
                place += block.nbytes
            start = stop
        decoded.flush()
        self._decoded = decoded

    def _blocks(self, group: int, n: int) -> Iterator[tuple[int, Array]]:
        """Decode a group of rows, some columns at a time; of lists, all."""
        step = len(self._columns) if self._lists else max(1, _ENTRIES // max(n, 1))
        for first in range(0, len(self._columns), step):
            table = self._file.read_row_group(group, columns=self._columns[first : first + step])
            if self._lists:
                flat = table.column(0).combine_chunks().flatten().to_numpy(zero_copy_only=False)
                if len(flat) != n * self.shape[1]:
                    raise InputError(str(self.path), f"must hold lists of one length in {self._columns[0]!r}")
                yield 0, flat.reshape(n, -1).astype(self.dtype, copy=False)
                continue
            block = np.empty((n, table.num_columns), self.dtype)
            for i, column in enumerate(table.columns):
                block[:, i] = column.to_numpy()
            yield first, block


def open_parquet(path: Path, key: str | None) -> ParquetPart:
    """Open the columns of a file, or the column of lists with the key; of one other column, the labels."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise InputError(str(path), "needs pyarrow, which is not installed: pip install 'nacp[io]'") from None
    try:
        file = parquet.ParquetFile(path)
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
