"""Files of the command line: matrices and labels in, sets out. Written whole or not at all."""

import csv
import json
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from nacp._files import write_whole
from nacp._types import Array
from nacp.sets import PredictionSets


def read_matrix(name: str, classes: Sequence[str] | None = None) -> tuple[Array, list[str] | None]:
    """Read probabilities from ``.npy`` (memory-mapped), ``.npz`` or ``.csv``, and column names, if any.

    ``file.npz:key`` names an array of a ``.npz`` file; "probs", or the only one, by default. If the classes
    are known, named columns are put in their order.
    """
    path, key = _split(name)
    if path.suffix != ".csv":
        return _read_array(path, key, "probs"), None
    rows = _read_csv(path)
    header = rows.pop(0) if _is_header(rows) else None
    try:
        matrix = np.array(rows, dtype=np.float64)
    except ValueError:
        raise ValueError(
            f"{path} must hold one number per cell below its header, in rows of one length"
        ) from None
    named = None if header is None or _whole(header) else header
    if named is not None and classes is not None:
        if sorted(named) != sorted(classes):
            odd = next((name for name in named if name not in classes), "a class twice")
            raise ValueError(f"{path} has the column {odd!r}; the classes are {', '.join(map(str, classes))}")
        matrix = matrix[:, [named.index(name) for name in classes]]
    return matrix, named


def read_labels(name: str, rows: int, classes: Sequence[str] | None = None) -> Array:
    """Read labels, numbers or names, from ``.npy``, ``.npz`` or the last column of ``.csv``.

    Of a ``.npz`` file "labels", or the only one, unless it is named. A ``.csv`` file with one label too many,
    of which the first is no class, has a header.
    """
    path, key = _split(name)
    if path.suffix != ".csv":
        labels = _read_array(path, key, "labels")
        return labels if classes is None or labels.dtype.kind not in "iu" else _named(labels, classes)
    values = [row[-1].strip() for row in _read_csv(path)]
    if len(values) == rows + 1 and values[0] not in (classes or ()):
        del values[0]
    if not _whole(values) or (classes is not None and set(values) <= set(classes)):
        return np.array(values)
    numbers = np.array(values, dtype=np.float64).astype(np.int64)
    return numbers if classes is None else _named(numbers, classes)


def _named(labels: Array, classes: Sequence[str]) -> Array:
    """Return the names of labels that are numbers; as they are if some have none."""
    inside = labels.size == 0 or (labels.min() >= 0 and labels.max() < len(classes))
    return np.array(classes)[labels] if inside else labels


def write_sets(sets: PredictionSets, name: str) -> None:
    """Write sets to ``.jsonl`` (one list per line), ``.csv`` (row, label) or ``.npz`` (offsets, labels)."""
    path = Path(name)
    if path.suffix == ".jsonl":
        write_whole(path, "w", lambda file: file.writelines(json.dumps(labels) + "\n" for labels in sets))
    elif path.suffix == ".csv":
        rows = ((i, label) for i, labels in enumerate(sets) for label in labels)
        write_whole(path, "w", lambda file: csv.writer(file).writerows([("row", "label"), *rows]))
    elif path.suffix == ".npz":
        write_whole(path, "wb", lambda file: np.savez(file, offsets=sets.offsets, labels=sets.labels))
    else:
        raise ValueError(f"{name} must end in .jsonl, .csv or .npz")


def _split(name: str) -> tuple[Path, str | None]:
    if ".npz:" in name:
        file, _, key = name.rpartition(":")
        return Path(file), key
    return Path(name), None


def _read_array(path: Path, key: str | None, usual: str) -> Array:
    if path.suffix not in (".npy", ".npz"):
        raise ValueError(f"{path} must end in .npy, .npz or .csv")
    try:
        file = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        raise ValueError(
            f"{path} cannot be read as {path.suffix}: it is damaged or holds Python objects"
        ) from None
    if path.suffix == ".npy":
        return np.asanyarray(file)
    with file:
        wanted = key or (file.files[0] if len(file.files) == 1 else usual)
        if wanted not in file.files:
            raise ValueError(
                f"{path} holds no {wanted!r}, but {', '.join(file.files)}; name one as {path}:name"
            )
        return np.asarray(file[wanted])


def _read_csv(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"{path} cannot be read as .csv: it is not text") from None
    if not rows:
        raise ValueError(f"{path} is empty")
    return rows


def _is_header(rows: list[list[str]]) -> bool:
    """Return whether the first row is one: names, or 0, 1, ..., k - 1 above other than whole numbers."""
    first = [cell.strip() for cell in rows[0]]
    if not _numeric(first):
        return True
    return first == [str(i) for i in range(len(first))] and not any(map(_whole, rows[1:]))


def _numeric(cells: list[str]) -> bool:
    with suppress(ValueError):
        return bool([float(cell) for cell in cells])
    return False


def _whole(cells: list[str]) -> bool:
    return _numeric(cells) and all(float(cell).is_integer() for cell in cells)
