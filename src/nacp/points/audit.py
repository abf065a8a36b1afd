"""Checked labels, as the door returns them: which points were checked, and how they are dealt into rounds."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nacp._types import Ints
from nacp.errors import InputError
from nacp.points.door import check_labels, is_missing

PILOT_SHARE, PILOT_MOST = 10, 1000


@dataclass(frozen=True, eq=False)
class Audit:
    """Some points with their true labels, and the points that each of them stands for.

    Attributes
    ----------
    rows, labels : arrays of shape (m,)
        The checked points, in the order of the rounds, and their true labels.
    order, starts : arrays of int
        All points by batches, the checked one first, and where each batch begins.
    shaping, pilot : arrays of int
        Points that are in no batch: some may shape the guess, and the others say what its mean is.
    """

    rows: Ints
    labels: Ints
    order: Ints
    starts: Ints
    shaping: Ints
    pilot: Ints


def open_clean(clean: Any, n: int, k: int, classes: Any = None) -> tuple[Ints, Ints]:
    """Check true labels, missing where none was checked, or a pair (rows, labels); return rows and labels."""
    pair = _pair(clean)
    if pair is not None:
        rows, given = pair
        if len(rows) != len(given) or (len(rows) and rows.dtype.kind not in "iu"):
            raise InputError(
                "clean",
                "as a pair must hold the numbers of the checked rows and as many labels",
                found=f"{len(rows)} rows of dtype {rows.dtype} and {len(given)} labels",
            )
        if len(rows) and (rows.min() < 0 or rows.max() >= n):
            raise InputError(
                "clean", f"has rows that must lie from 0 to {n - 1}", found=f"{rows.min()} to {rows.max()}"
            )
        if len(np.unique(rows)) < len(rows):
            values, counts = np.unique(rows, return_counts=True)
            raise InputError("clean", f"has row {values[np.argmax(counts)]} more than once")
        order = np.argsort(rows)
        rows, given = rows[order], [given[i] for i in order]
    else:
        every = _objects(clean)
        if every.shape != (n,):
            raise InputError(
                "clean",
                f"must have the shape ({n},), one per row of probs, with -1 where the label was not checked; "
                "or be a pair (rows, labels)",
                found=f"the shape {every.shape}",
            )
        if any(isinstance(each, bool | np.bool_) for each in every):
            raise InputError(
                "clean", "must hold labels, not whether they were checked", found="True or False"
            )
        # Where -1 is the name of a class, it is a label.
        absent = -1 not in (classes or ())
        hidden = np.ma.getmaskarray(clean) if isinstance(clean, np.ma.MaskedArray) else np.zeros(n, bool)
        rows = np.array(
            [
                i
                for i, each in enumerate(every)
                if not (hidden[i] or is_missing(each) or (absent and _is_number(each) and each == -1))
            ],
            dtype=np.int64,
        )
        given = [every[row] for row in rows]
    if not len(rows):
        raise InputError("clean", "has no checked label at all")
    if all(_is_number(each) and float(each).is_integer() for each in given):
        given = [int(each) for each in given]
    return rows.astype(np.int64), check_labels(np.array(given), len(rows), k, classes, name="clean")


def _pair(clean: Any) -> tuple[Ints, list[Any]] | None:
    """Return rows and labels, if that is what was given: two sequences, each of one dimension."""
    if not isinstance(clean, tuple) or len(clean) != 2:
        return None
    rows, given = (_objects(part) for part in clean)
    return (np.array(rows.tolist()), given.tolist()) if rows.ndim == given.ndim == 1 else None


def _objects(values: Any) -> Any:
    """Return an array of whatever was given; of no dimension, if it is not a regular one."""
    try:
        array = np.asarray(values, dtype=object)
    except (ValueError, TypeError):
        return np.array(None)
    ragged = any(isinstance(each, list | tuple | np.ndarray) for each in array.flat)
    return np.array(None) if ragged else array


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def deal(n: int, rows: Ints, labels: Ints, seed: int) -> Audit:
    """Deal points into batches, at random: each holds one of the checked points, which were picked at random.

    A tenth of the others, but 1,000 at the most, are in none. The guess must not depend on what bounds its
    mean, so these are two parts.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))
    others = rng.permutation(np.setdiff1d(np.arange(n), rows, assume_unique=True))
    aside = min(len(others) // PILOT_SHARE, PILOT_MOST)
    shaping, pilot, rest = np.split(others, [aside // 2, aside])
    parts = np.array_split(rest, len(rows))
    starts = np.cumsum([0] + [len(part) + 1 for part in parts[:-1]])
    dealt = np.concatenate([np.append(row, part) for row, part in zip(rows[order], parts, strict=True)])
    return Audit(rows[order], labels[order], dealt, starts, shaping, pilot)
