"""A warning if points seem to have been repeated, once for each of their labels.

A sample of 4 sqrt(n) rows very likely contains duplicates if each row occurs twice or more. If it does, the
copies of 64 sampled rows are counted among all rows. Trees and quantised models also produce equal rows, but
with very different frequencies. Repeated points occur equally often or are consecutive.
"""

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine import is_tensor
from nacp.errors import warn
from nacp.points.arrays import Rows, watching
from nacp.points.tensors import fetched

_ROWS, _COLUMNS, _COUNTED, _LEAST, _LONGEST_RUN = 256, 16, 64, 30, 32


class RepeatedRowsWarning(UserWarning):
    """Points seem to be repeated, once for each of their labels, so they are not independent."""


def warn_of_repeats(rows: Rows) -> None:
    """Warn if points seem to have been repeated, once for each of their labels."""
    times = repeats(rows)
    if times is not None:
        warn(
            f"rows of probs come about {times:.2g} times each, as if points had been repeated for each of "
            "their labels, but every promise assumes independent points. Pass one row per point, with its "
            "labels in several columns",
            RepeatedRowsWarning,
        )


def repeats(rows: Rows) -> float | None:
    """Return the mean number of copies of a row if points were clearly repeated, else None.

    Examples
    --------
    >>> import numpy as np
    >>> from nacp.points.arrays import Rows
    >>> from nacp.points.repeats import repeats
    >>> probs = np.random.default_rng(0).dirichlet(np.ones(10), size=100)
    >>> repeats(Rows(np.repeat(probs, 3, axis=0))), repeats(Rows(probs))
    (3.0, None)
    """
    n, (sampled, columns, counted) = rows.n, _sampled(rows.n, rows.k)
    if n < _LEAST:
        return None
    with watching(None):
        some = np.concatenate(list(rows.map(partial(_picked, columns), sampled)))
        for columns_apart in (8, 1):  # Few columns often suffice to see that there are no duplicates.
            keys = _keys(some[:, ::columns_apart])
            ordered = np.sort(keys)
            if np.count_nonzero(ordered[1:] == ordered[:-1]) < 3:
                return None
        # Only rows with at least three different values are used, as other rows may be equal by chance.
        values = np.sort(some, axis=1)
        rich = np.count_nonzero(values[:, 1:] != values[:, :-1], axis=1) >= min(2, rows.k - 1)
        chosen = np.sort(counted[rich[counted]])
        if 2 * len(chosen) < min(_COUNTED, len(sampled)):
            return None
        places = _places(rows, columns, some[chosen], keys[chosen])
    times = np.array([len(each) for each in places])
    sizes, counts = np.unique(times, return_counts=True)
    usual = int(sizes[counts.argmax()])
    regular = usual > 1 and counts.max() >= 0.9 * len(times) and n > usual * rows.k
    runs = np.array([1 < len(each) <= _LONGEST_RUN and np.ptp(each) == len(each) - 1 for each in places])
    in_order = _are_sorted(np.hstack([some, values])[chosen])
    in_runs = 2 * np.count_nonzero(runs) > len(runs) and runs[times > 1].all() and not in_order
    # Rows with many copies are more likely to be sampled, hence the harmonic mean.
    return 1 / float(np.mean(1 / times)) if regular or in_runs else None


@lru_cache(maxsize=16)
def _sampled(n: int, k: int) -> tuple[Ints, Ints, Ints]:
    """Return the rows and columns of the sample, and the sampled rows whose copies are counted."""
    rng, number = np.random.default_rng(0), min(n, max(_ROWS, int(4 * math.sqrt(n))))
    sampled = np.arange(n) if number == n else np.unique(rng.integers(n, size=number))
    columns = np.linspace(0, k - 1, min(k, _COLUMNS), dtype=np.int64)
    return sampled, columns, rng.permutation(len(sampled))[:_COUNTED]


def _picked(columns: Ints, block: Array, where: Any = None) -> Array:
    """Return some columns of a block, as an array."""
    some = block[:, columns]
    return np.ascontiguousarray(fetched(some) if is_tensor(some) else some)


def _keys(some: Array) -> Array:
    """Return the bytes of each row as one value; -0.0 is 0.0."""
    rows = np.ascontiguousarray(some + 0)
    found: Array = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    return found


def _places(rows: Rows, columns: Ints, some: Array, keys: Floats) -> list[Ints]:
    """Return for each row of `some` the places of all rows with the same key, a hash of the columns."""
    # Rows are compared by the column with the most distinct values first.
    varied = int(np.argmax([len(np.unique(column)) for column in some.T]))

    def same(block: Array, where: slice) -> list[Ints]:
        found = np.flatnonzero(np.isin(_picked(columns[[varied]], block)[:, 0], some[:, varied]))
        own = _keys(_picked(columns, block[found]))
        return [found[own == key] + where.start for key in keys]

    blocks = list(rows.map(same))
    return [np.concatenate(each) for each in zip(*blocks, strict=True)]


def _are_sorted(values: Array) -> bool:
    """Return whether rows are sorted by one of their columns."""
    low, high = values[:-1], values[1:]  # not their difference, which is NaN for infinities
    ordered = (low <= high).all(axis=0) | (low >= high).all(axis=0)
    return bool((ordered & (low != high).any(axis=0)).any())
