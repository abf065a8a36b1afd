"""Files as matrices: a folder of parts, or one file, read block by block and never whole."""

import glob
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from nacp._types import Array, Ints
from nacp.errors import InputError
from nacp.points.parquet import open_parquet
from nacp.points.raw import open_npy, open_safetensors

_ENDINGS = (".npy", ".safetensors", ".parquet")
_PLACES = 2


def open_parts(path: Any, key: str | None = None) -> "Parts":
    """Open a folder of files as one matrix, which is read block by block and may be larger than memory.

    Parameters
    ----------
    path : path, or sequence of paths
        A folder; the parts in it come in the order of their names, where numbers count as such (``p2.npy``
        before ``p10.npy``). Names that begin with ``.`` or ``_`` are left out. Or a pattern such as
        ``"parts/*.npy"``, which is sorted in the same way; or one file; or files in the order of the rows.
        All end in ``.npy``, ``.safetensors`` or ``.parquet``, and have the same type and columns.
    key : str, optional
        The tensor that is meant, of several in ``.safetensors``; the column of lists, in ``.parquet``. By
        default the only one, or the only matrix; and in ``.parquet`` all columns, which are the classes.

    Returns
    -------
    Parts
        To be passed in place of an array, to `calibrate` and all others.

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=4000, random_state=0)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i in range(4):
    ...         np.save(f"{folder}/part-{i}.npy", probs[1000 * i : 1000 * (i + 1)])
    ...     parts = nacp.open_parts(folder)
    ...     cal = nacp.calibrate(parts, labels, noise=None)
    >>> parts.shape, cal == nacp.calibrate(probs, labels, noise=None)
    ((4000, 10), True)
    """
    files = part_files(path)
    parts: list[Any] = [_OPENERS[file.suffix](file, key) for file in files]
    first = parts[0]
    for part in parts[1:]:
        if part.shape[1:] != first.shape[1:]:
            raise InputError(
                str(part.path),
                f"has the shape {part.shape}, and {first.path} {first.shape}",
                remedy="all parts must have the same columns",
            )
        if part.dtype != first.dtype or part.rounded != first.rounded:
            raise InputError(
                str(part.path),
                f"holds {_told(part)}, and {first.path} {_told(first)}",
                remedy="all parts must have the same type",
            )
        if part.names != first.names:
            raise InputError(str(part.path), f"has other columns than {first.path}, or in another order")
    return Parts(parts)


def part_files(path: Any) -> list[Path]:
    """Return the files that parts lie in, in the order of the rows."""
    if not isinstance(path, str | os.PathLike):
        files = [Path(each) for each in path]
        if not files:
            raise InputError("path", "is empty: it must name at least one file")
    elif Path(path).is_dir():
        files = sorted((each for each in Path(path).iterdir() if each.name[0] not in "._"), key=_natural)
        if not files:
            raise InputError(str(path), f"is a folder without parts: files that end in {_listed(_ENDINGS)}")
    elif Path(path).exists() or not glob.has_magic(str(path)):
        files = [Path(path)]
    else:
        files = sorted(map(Path, glob.glob(str(path))), key=_natural)
        if not files:
            raise InputError(str(path), "is a pattern that no file matches")
    for file in files:
        if file.is_dir():
            raise InputError(str(file), "is a folder", remedy="parts must be files, side by side")
        if file.suffix not in _ENDINGS:
            raise InputError(str(file), f"is no part: these end in {_listed(_ENDINGS)}")
        if not file.exists():
            raise InputError(str(file), "does not exist")
        if file.suffix != files[0].suffix:
            raise InputError(str(file), f"is beside {files[0].name}", remedy="all parts must be of one kind")
    return files


def _natural(path: Path) -> list[Any]:
    """Return what to sort by: numbers in a name count as such."""
    return [(int(each), "") if each.isdecimal() else (-1, each) for each in re.split(r"(\d+)", path.name)]


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _told(part: Any) -> str:
    return "bfloat16" if part.rounded else str(part.dtype)


_LOCK = Lock()  # not one for each: what has room is sent to other processes


def _held(places: list[Array]) -> list[int]:
    """Return how many know of each, as Python counts here."""
    return [sys.getrefcount(each) for each in places]


_ALONE = _held([np.empty(0)])[0]  # Pythons differ in that


class _Room:
    """Room for rows: used again, so that it is near, as soon as nobody holds what was handed out."""

    def __init__(self) -> None:
        self._places: list[Array] = []

    def get(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array in which anything may be."""
        size = math.prod(shape)
        with _LOCK:
            for place, held in zip(self._places, _held(self._places), strict=True):
                if held == _ALONE and len(place) >= size:
                    return place[:size].reshape(shape)
            place = np.empty(size, dtype)
            self._places = [*self._places, place][-_PLACES:]
            return place[:].reshape(shape)


class Parts:
    """Files as one array of shape (n, k), made by `open_parts`: what is asked for is read, and not kept.

    ``parts[10:20]`` and ``parts[[3, 1]]`` are arrays; ``np.asarray(parts)`` reads all. A file that changes
    after it was opened is refused.

    Attributes
    ----------
    shape : tuple of int
        The numbers of rows and of columns; of labels, of rows alone.
    dtype : numpy.dtype
        Of what is read: float32 for bfloat16.
    ndim : int
        2; of labels, 1.
    """

    def __init__(self, parts: Sequence[Any], picked: Ints | None = None) -> None:
        self._parts, self._picked = parts, picked
        self._ends = np.cumsum([0, *(part.shape[0] for part in parts)])
        columns = parts[0].shape[1:] if picked is None else (len(picked),)
        self.shape: tuple[int, ...] = (int(self._ends[-1]), *columns)
        self.ndim, self.dtype = len(self.shape), np.dtype(np.float32 if parts[0].rounded else parts[0].dtype)
        self.itemsize = self.dtype.itemsize
        self._room = _Room()
        if parts[0].names is not None:
            self.columns: tuple[str, ...] = tuple(
                parts[0].names if picked is None else [parts[0].names[i] for i in picked]
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Parts(files={len(self._parts)}, shape={self.shape}, dtype={self.dtype})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        found = self._slice(0, len(self), self._picked, np.empty(self.shape, self.dtype))
        return found if dtype is None else found.astype(dtype, copy=False)

    def __getitem__(self, where: Any) -> Any:
        rows, picked = where if isinstance(where, tuple) else (where, None)
        if picked is not None:
            picked = np.arange(self.shape[1])[picked]
            picked = picked if self._picked is None else self._picked[picked]
            if isinstance(rows, slice) and rows == slice(None):
                return Parts(self._parts, picked)
        else:
            picked = self._picked
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self))
            return self._slice(start, max(start, stop), picked)
        plain = isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind == "i" and len(rows)
        if plain and rows.min() >= 0 and rows.max() < len(self):
            return self._some(rows, picked)
        wanted = np.arange(len(self))[rows]
        found = self._some(np.atleast_1d(wanted), picked)
        return found if np.ndim(wanted) else found[0]

    def look(self, rows: slice) -> Array:
        """Return rows, for a moment: as they lie in a file, if they do, and else as they are read."""
        start, stop, step = rows.indices(len(self))
        part = int(np.searchsorted(self._ends, start, side="right")) - 1
        found: Array | None = None
        if step == 1 and start < stop <= self._ends[part + 1] and self._picked is None:
            before = int(self._ends[part])
            found = self._parts[part].look(slice(start - before, stop - before))
        return self[rows] if found is None else found

    def _out(self, rows: int, picked: Ints | None) -> Array:
        """Return room for rows."""
        shape = (rows, *self.shape[1:]) if picked is None or self.ndim == 1 else (rows, len(picked))
        return self._room.get(shape, self.dtype)

    def _slice(self, start: int, stop: int, picked: Ints | None, out: Array | None = None) -> Array:
        """Read rows that lie one after the other."""
        out = self._out(stop - start, picked) if out is None else out
        first = int(np.searchsorted(self._ends, start, side="right")) - 1
        for i in range(max(first, 0), len(self._parts)):
            low, high = max(start, int(self._ends[i])), min(stop, int(self._ends[i + 1]))
            if low >= high:
                if self._ends[i] >= stop:
                    break
                continue
            within = slice(low - int(self._ends[i]), high - int(self._ends[i]))
            self._parts[i].read(within, picked, out[low - start : high - start])
        return out

    def _some(self, wanted: Ints, picked: Ints | None) -> Array:
        """Read rows all over, from each part those that lie in it."""
        out, order = self._out(len(wanted), picked), np.argsort(wanted, kind="stable")
        ascending = bool(np.all(order[1:] > order[:-1]))
        cuts = np.searchsorted(wanted[order], self._ends)
        for i, (start, stop) in enumerate(pairwise(cuts)):
            here = order[start:stop]
            if len(here):
                found = out[start:stop] if ascending else self._out(len(here), picked)
                self._parts[i].read(wanted[here] - self._ends[i], picked, found)
                if not ascending:
                    out[here] = found
        return out


_OPENERS: dict[str, Callable[[Path, str | None], Any]] = {
    ".npy": open_npy,
    ".safetensors": open_safetensors,
    ".parquet": open_parquet,
}
