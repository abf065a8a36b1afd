"""Files of the command line: matrices and labels in, sets out. Written whole or not at all."""

import csv
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from nacp._types import Array
from nacp.sets import PredictionSets


def read_matrix(name: str) -> tuple[Array, list[str] | None]:
    """Read probabilities from ``.npy`` (memory-mapped), ``.npz`` or ``.csv``, and column names, if any.

    ``file.npz:key`` names an array of a ``.npz`` file; "probs", or the only one, by default.
    """
    path, key = _split(name)
    if path.suffix == ".csv":
        rows = _read_csv(path)
        header = None if _numeric(rows[0]) else rows.pop(0)
        try:
            return np.array(rows, dtype=np.float64), header
        except ValueError:
            raise ValueError(f"{path} must hold one number per cell below its header") from None
    return _read_array(path, key, "probs"), None


def read_labels(name: str) -> Array:
    """Read labels, numbers or names, from ``.npy``, ``.npz`` or the last column of ``.csv``.

    Of a ``.npz`` file "labels", or the only array, unless it is named.
    """
    path, key = _split(name)
    if path.suffix != ".csv":
        return _read_array(path, key, "labels")
    values = [row[-1] for row in _read_csv(path)]
    if _whole(values[1:]):
        return np.array(values if _whole(values[:1]) else values[1:], dtype=np.int64)
    return np.array(values)


def drop_header(labels: Array, rows: int) -> Array:
    """Drop the first of the labels, if it is a name and one too many: a header."""
    named = labels.dtype.kind == "U"
    return labels[1:] if named and len(labels) == rows + 1 else labels


def write_sets(sets: PredictionSets, name: str) -> None:
    """Write sets to ``.jsonl`` (one list per line), ``.csv`` (row, label) or ``.npz`` (offsets, labels)."""
    path = Path(name)
    if path.suffix == ".jsonl":
        _write(path, "w", lambda file: file.writelines(json.dumps(labels) + "\n" for labels in sets))
    elif path.suffix == ".csv":
        rows = ((i, label) for i, labels in enumerate(sets) for label in labels)
        _write(path, "w", lambda file: csv.writer(file).writerows([("row", "label"), *rows]))
    elif path.suffix == ".npz":
        _write(path, "wb", lambda file: np.savez(file, offsets=sets.offsets, labels=sets.labels))
    else:
        raise ValueError(f"{name} must end in .jsonl, .csv or .npz")


def _split(name: str) -> tuple[Path, str | None]:
    if ".npz:" in name:
        file, _, key = name.rpartition(":")
        return Path(file), key
    return Path(name), None


def _read_array(path: Path, key: str | None, usual: str) -> Array:
    if path.suffix == ".npy":
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))
    if path.suffix != ".npz":
        raise ValueError(f"{path} must end in .npy, .npz or .csv")
    with np.load(path, allow_pickle=False) as file:
        wanted = key or (file.files[0] if len(file.files) == 1 else usual)
        if wanted not in file.files:
            raise ValueError(
                f"{path} holds no {wanted!r}, but {', '.join(file.files)}; name one as {path}:name"
            )
        return np.asarray(file[wanted])


def _read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows:
        raise ValueError(f"{path} is empty")
    return rows


def _numeric(cells: list[str]) -> bool:
    with suppress(ValueError):
        return bool([float(cell) for cell in cells])
    return False


def _whole(cells: list[str]) -> bool:
    return all(cell.strip().lstrip("-").isdigit() for cell in cells)


def _write(path: Path, mode: str, write: Callable[[IO[Any]], object]) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        text = "b" not in mode
        with partial.open(mode, newline="" if text else None, encoding="utf-8" if text else None) as file:
            write(file)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
