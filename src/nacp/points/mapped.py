"""Arrays that are mapped from a file, which is read instead.

A page that is touched costs a fault, brings its neighbours along, and counts as memory in use until it is let
go of. A read goes to memory that is used again, and rows all over cost no more than others.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from weakref import finalize

import numpy as np

from nacp.points.raw import RawPart

_MAPS = Path("/proc/self/maps")


@dataclass(frozen=True)
class MappedPart(RawPart):
    """Numbers in a file that is mapped: it stays open, whatever becomes of its name."""

    file: Any = None

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        yield self.file


def map_of(matrix: Any) -> Any:
    """Return the memory map that a matrix lies in, if there is one."""
    base: Any = matrix
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    return base if isinstance(base, np.memmap) else None


def mapped_part(matrix: Any) -> MappedPart | None:
    """Return the file that a matrix is mapped from, if to read it there gives the same beyond doubt.

    It cannot be written to through this map, and the system says that it is the file of that name.
    """
    base = map_of(matrix)
    if base is None or base.mode != "r" or not matrix.flags.c_contiguous or not matrix.size:
        return None
    try:
        found = _mapping(matrix.__array_interface__["data"][0], matrix.nbytes)
        if found is None:
            return None
        path, start, identity = found
        file = path.open("rb", buffering=0)
    except OSError:
        return None
    status = os.fstat(file.fileno())
    if (status.st_dev, status.st_ino) != identity:
        file.close()
        return None
    part = MappedPart(
        path, matrix.shape, matrix.dtype, start, (status.st_size, status.st_mtime_ns), file=file
    )
    finalize(part, file.close)
    return part


def _mapping(address: int, size: int) -> tuple[Path, int, tuple[int, int]] | None:
    """Return what is mapped at an address, to be read only: a path, from which byte on, and which file."""
    for line in _MAPS.read_bytes().splitlines():
        span, rights, offset, device, inode, *name = line.split(maxsplit=5)
        first, last = (int(end, 16) for end in span.split(b"-"))
        if first <= address < last:
            if rights != b"r--s" or address + size > last or not name:
                return None
            major, minor = (int(part, 16) for part in device.split(b":"))
            start = int(offset, 16) + address - first
            return Path(os.fsdecode(name[0])), start, (os.makedev(major, minor), int(inode))
    return None
