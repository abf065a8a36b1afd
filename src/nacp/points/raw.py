"""Arrays in files, row after row: NumPy's and safetensors', read from where they lie."""

import json
import math
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nacp._types import Array, Ints
from nacp.engine import fetch
from nacp.errors import InputError

# How safetensors calls what NumPy has; of bfloat16, which it has not, the bits are read.
_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_HEADER = 100_000_000  # bytes; safetensors allows no more
_MAPS = "/proc/self/maps"  # where Linux tells what is mapped
Where: TypeAlias = slice | Ints


@dataclass(frozen=True)
class RawPart:
    """Numbers in a file, row after row, from some byte on."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int
    stamp: tuple[int, int]
    rounded: bool = False  # to bfloat16
    names = None

    def read(self, rows: Where, picked: Ints | None, out: Array) -> None:
        """Read rows, or some columns of them, in ascending order."""
        refuse_changed(self.path, self.stamp)
        width = math.prod(self.shape[1:])
        whole = picked is None and not self.rounded
        found = out if whole else np.empty((len(out), *self.shape[1:]), self.dtype)
        each = width * self.dtype.itemsize
        some = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        with self.path.open("rb", buffering=0) as file:
            places, flat = self.start + some * each, found.reshape(-1).view(np.uint8)
            if flat.size and not fetch(file.fileno(), places, flat.reshape(len(some), -1)):
                raise InputError(str(self.path), "ends too early: it has changed since it was opened")
        if whole:
            return
        kept = found if picked is None else found[:, picked]
        out[...] = (kept.astype(np.uint32) << 16).view(np.float32) if self.rounded else kept

    def look(self, rows: slice) -> Array | None:
        """Return rows as they lie in the file, of which nothing is copied; None if they do not lie so."""
        each = math.prod(self.shape[1:]) * self.dtype.itemsize
        start, shape = self.start + rows.start * each, (rows.stop - rows.start, *self.shape[1:])
        if self.rounded or not math.prod(shape) or start % self.dtype.itemsize:
            return None
        refuse_changed(self.path, self.stamp)
        return np.asarray(np.memmap(self.path, self.dtype, "r", start, shape))


def fetch_mapped(matrix: Array, rows: Ints, out: Array) -> bool:
    """Read rows of a matrix that lies in a mapped file; return whether that could be done.

    To read rows all over in that way took a third of the time that it took to map them and let go of them,
    and single entries an eighth. Where the system does not tell what is mapped, or the file is not there any
    more under its name, it is not done.
    """
    if not matrix.flags.c_contiguous or not os.path.exists(_MAPS):
        return False
    first, each = matrix.ctypes.data, matrix.itemsize * math.prod(matrix.shape[1:])
    for line in Path(_MAPS).read_bytes().split(b"\n")[:-1]:
        where, _, offset, _, inode, *name = line.split(maxsplit=5)
        low, high = (int(end, 16) for end in where.split(b"-"))
        if low <= first < high and name:
            break
    else:
        return False
    try:
        file = os.open(name[0], os.O_RDONLY)
    except OSError:
        return False
    try:
        if os.fstat(file).st_ino != int(inode) or first + matrix.nbytes > high:
            return False
        places = int(offset, 16) + first - low + rows * each
        return fetch(file, places, out.reshape(-1).view(np.uint8).reshape(len(rows), -1))
    finally:
        os.close(file)


def stamp_of(path: Path) -> tuple[int, int]:
    """Return what tells whether a file has changed."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def refuse_changed(path: Path, stamp: tuple[int, int]) -> None:
    """Refuse a file that is not what it was when it was opened."""
    if not path.exists() or stamp_of(path) != stamp:
        raise _changed(path)


def refuse_cut(mapped: Any) -> None:
    """Refuse a mapped file that has become shorter: to look at what is gone would end the process."""
    start = mapped.offset - mapped.offset % mmap.ALLOCATIONGRANULARITY
    if mapped._mmap.size() < start + len(mapped._mmap):
        raise _changed(mapped.filename or "a mapped file")


def _changed(path: str | Path) -> InputError:
    return InputError(str(path), "has changed since it was opened", remedy="open it again")


def open_npy(path: Path, key: str | None) -> RawPart:
    """Open a file of NumPy's."""
    stamp = stamp_of(path)
    with path.open("rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else _later_header
            shape, fortran, dtype = header(file)
        except (ValueError, EOFError, TypeError):
            raise _damaged(path) from None
        start = file.tell()
    if key is not None:
        raise InputError(str(path), "holds one array", remedy=f"open it without {key!r}")
    if fortran:
        raise InputError(
            str(path), "is stored column by column", remedy="save np.ascontiguousarray(array), row by row"
        )
    return _raw(path, shape, dtype, start, stamp)


def _later_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = np.lib.format.read_array_header_2_0(file)
    return found


def open_safetensors(path: Path, key: str | None) -> RawPart:
    """Open one tensor of a file: the one with the key, the only one, the only matrix, or probs."""
    stamp = stamp_of(path)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= min(_HEADER, stamp[0] - 8):
                raise _damaged(path)
            there = {
                name: each for name, each in json.loads(file.read(length)).items() if name != "__metadata__"
            }
        flat = [name for name, each in there.items() if len(each["shape"]) == 2]
        names = flat if key is None and len(flat) == 1 and len(there) > 1 else list(there)
        wanted = names[0] if key is None and len(names) == 1 else key or "probs"
        if wanted not in there:
            raise InputError(
                str(path),
                f"holds no {wanted!r}, but {', '.join(there) or 'nothing'}",
                remedy="name one by key=",
            )
        tensor = there[wanted]
        shape, (first, last) = tuple(int(each) for each in tensor["shape"]), map(int, tensor["data_offsets"])
        kind = str(tensor["dtype"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise error if isinstance(error, InputError) else _damaged(path) from None
    if kind not in _TYPES:
        raise InputError(str(path), f"holds {kind}, which cannot be read", remedy="save it as float32")
    dtype = np.dtype(_TYPES[kind])
    if last - first != math.prod(shape) * dtype.itemsize or min(shape, default=0) < 0 or first < 0:
        raise _damaged(path)
    return _raw(path, shape, dtype, 8 + length + first, stamp, kind == "BF16")


def _raw(
    path: Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    start: int,
    stamp: tuple[int, int],
    rounded: bool = False,
) -> RawPart:
    if len(shape) not in (1, 2):
        raise InputError(
            str(path), "must hold an array of shape (n, k), or (n,) for labels", found=f"{shape}"
        )
    if dtype.kind not in "fiubSU":
        raise InputError(str(path), f"holds {dtype}", remedy="save numbers as numbers")
    missing = start + math.prod(shape) * dtype.itemsize - stamp[0]
    if missing > 0:
        raise InputError(str(path), f"is cut off: {missing:,} bytes are missing at its end")
    return RawPart(path, shape, dtype, start, stamp, rounded)


def _damaged(path: Path) -> InputError:
    return InputError(
        str(path), f"cannot be read as {path.suffix}: it is damaged or holds something else than arrays"
    )
