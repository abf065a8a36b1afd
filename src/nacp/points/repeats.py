"""Rows that repeat each other: labels of one item that were stacked are noticed, where that is beyond doubt.

A few rows are looked at, so many that repeats show (two of 4 sqrt(n) rows are the same if each comes twice).
If they do, 64 of them are counted among all rows. Trees and quantised models repeat rows rightly: of these
some come often and some seldom. Stacked labels of items come equally often, or one after the other.
"""

import math
from functools import lru_cache

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine import uniforms
from nacp.errors import warn
from nacp.points.arrays import Rows

_FIRST = slice(None, None, 8)  # of the columns: mostly these tell rows apart
_LOOKED_AT, _COLUMNS, _COUNTED, _LEAST, _MOST = 256, 16, 64, 30, 32


class RepeatedRowsWarning(UserWarning):
    """Rows repeat each other as the labels of items that were stacked; points are not independent then."""


def warn_of_repeats(rows: Rows) -> None:
    """Warn if rows look like items that were repeated, once for each of their labels."""
    warn_of_times(repeats(rows))


def warn_of_times(times: float | None) -> None:
    """Warn of rows that come so many times each, if that is known."""
    if times is not None:
        warn(
            f"rows of probs come about {times:.2g} times each, as if the labels of each item had been "
            "stacked: every promise assumes independent points. Pass one row for each item, and its labels "
            "in as many columns",
            RepeatedRowsWarning,
        )


def repeats(rows: Rows) -> float | None:
    """Return how often a row comes on average, if rows were repeated item by item beyond doubt.

    Examples
    --------
    >>> import numpy as np
    >>> from nacp.points.arrays import Rows
    >>> from nacp.points.repeats import repeats
    >>> probs = np.random.default_rng(0).dirichlet(np.ones(10), size=100)
    >>> repeats(Rows(np.repeat(probs, 3, axis=0))), repeats(Rows(probs))
    (3.0, None)
    """
    n, (looked, columns, counted) = rows.n, looked_at(rows.n, rows.k)
    if n < _LEAST or not _repeat(uniforms(rows.peek(looked, columns[_FIRST]), 0)):
        return None  # rows that differ in some columns differ
    some = rows.peek(looked, columns)
    keys = uniforms(some, 0)
    if not _repeat(keys):
        return None
    # Rows with three different values or more, of which others cannot be the same by chance alone.
    values = np.sort(some, axis=1)
    rich = np.count_nonzero(values[:, 1:] != values[:, :-1], axis=1) >= min(2, rows.k - 1)
    chosen = np.sort(counted[rich[counted]])
    if 2 * len(chosen) < min(_COUNTED, len(looked)):
        return None
    places = _places(rows, columns, some[chosen], keys[chosen])
    times = np.array([len(each) for each in places])
    sizes, counts = np.unique(times, return_counts=True)
    usual = int(sizes[counts.argmax()])
    regular = usual > 1 and counts.max() >= 0.9 * len(times) and n > usual * rows.k
    runs = np.array([1 < len(each) <= _MOST and np.ptp(each) == len(each) - 1 for each in places])
    in_order = _sorted(np.hstack([some, values])[chosen])
    in_runs = 2 * np.count_nonzero(runs) > len(runs) and runs[times > 1].all() and not in_order
    # A row that comes often is looked at often.
    return 1 / float(np.mean(1 / times)) if regular or in_runs else None


def _repeat(keys: Floats) -> bool:
    """Return whether keys repeat each other, three times or more."""
    ordered = np.sort(keys)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1])) >= 3


@lru_cache(maxsize=16)
def looked_at(n: int, k: int) -> tuple[Ints, Ints, Ints]:
    """Return the rows and the columns of n rows of k entries that are looked at, and which of these rows may
    be counted.
    """
    rng, number = np.random.default_rng(0), min(n, max(_LOOKED_AT, int(4 * math.sqrt(n))))
    looked = np.arange(n) if number == n else np.unique(rng.integers(n, size=number))
    columns = min(k, _COLUMNS)
    found = (
        looked,
        np.arange(columns) * (k - 1) // max(columns - 1, 1),
        rng.permutation(len(looked))[:_COUNTED],
    )
    for each in found:
        each.flags.writeable = False
    return found


def _places(rows: Rows, columns: Ints, some: Array, keys: Floats) -> list[Ints]:
    """Return where the same rows are: the column that tells most of them apart, then all of the columns."""
    telling = int(np.argmax([len(np.unique(column)) for column in some.T]))
    found: list[list[Ints]] = [[] for _ in keys]
    for where in rows.slices():
        column = rows.peek(where, columns[telling : telling + 1])[:, 0]
        same = np.flatnonzero(np.isin(column, some[:, telling])) + where.start
        if len(same):
            own = uniforms(rows.peek(same, columns), 0)
            for key, each in zip(keys.tolist(), found, strict=True):
                each.append(same[own == key])
    return [np.concatenate(each) for each in found]


def _sorted(values: Array) -> bool:
    """Return whether rows are in the order of one of their values."""
    low, high = values[:-1], values[1:]  # not their differences: both may be infinite
    ordered = (low <= high).all(axis=0) | (low >= high).all(axis=0)
    return bool((ordered & (low != high).any(axis=0)).any())
