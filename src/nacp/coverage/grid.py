"""The grid of thresholds: it does not depend on the data and is the same for every score and guarantee.

A grid point is a number whose distance from 0 or from 1 has 11 significant bits: ``d`` and ``-d``, ``1 - d``
and ``1 + d`` for ``d = 2^e (1 + j/1024)`` with e from -40 to 20, and 0 and 1 themselves. Neighbours differ by
0.1% of their distance from 0 or 1. The last point is infinity.

The *cell* of a score is the place in the grid of the smallest point that is not below it. So a score is at
most a grid point if and only if its cell is at most the place of that point, and histograms over cells are
enough to find a threshold on the grid. This module imports nothing from nacp.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BITS, _LOWEST, _HIGHEST = 10, -40, 20
_PER_OCTAVE = 1 << _BITS


def _distances(first: int, last: int) -> NDArray[np.float64]:
    """Return all d with exponents from `first` to `last`, ascending."""
    mantissas = 1 + np.arange(_PER_OCTAVE) / _PER_OCTAVE
    return np.ldexp(mantissas, np.arange(first, last + 1)[:, None]).reshape(-1)


_SMALL, _ALL = _distances(_LOWEST, -2), _distances(_LOWEST, _HIGHEST)
GRID: NDArray[np.float64] = np.concatenate(
    [-_ALL[::-1], [0.0], _SMALL, [0.5], 1 - _SMALL[::-1], [1.0], 1 + _ALL, [np.inf]]
)
GRID.flags.writeable = False
CELLS = len(GRID)
ZERO = len(_ALL)
HALF = ZERO + 1 + len(_SMALL)
ONE = HALF + 1 + len(_SMALL)
INFINITE = CELLS - 1

_SHIFT = 52 - _BITS
_FIRST_CODE = (1023 + _LOWEST) << _BITS  # the leading bits of the smallest distance


def cells_of(scores: NDArray[Any]) -> NDArray[np.int64]:
    """Return the cells of scores."""
    scores = np.asarray(scores, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return _cells(scores, 1 - scores)


def cells_of_probabilities(p: NDArray[Any]) -> NDArray[np.int64]:
    """Return the cells of the scores ``1 - p``, without rounding them."""
    p = np.asarray(p, dtype=np.float64)
    return _cells(1 - p, p)


def _cells(scores: NDArray[np.float64], to_one: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the cells of scores, given also 1 - score without rounding errors."""
    low = scores < 0.5
    distance = np.where(low, scores, to_one)
    # If scores increase with the distance, the next grid point is farther from 0 or 1; otherwise nearer.
    rising = np.where(low, distance > 0, ~(distance >= 0))
    magnitude = np.abs(distance)
    words = magnitude.view(np.int64)
    words -= rising & (magnitude > 0)
    words >>= _SHIFT
    words -= _FIRST_CODE - 1
    steps = np.clip(words, 0, len(_ALL), out=words)
    found: NDArray[np.int64] = np.where(low, ZERO, ONE) + np.where(rising, steps + 1, -steps)
    return found


def _every(step: int, far: int) -> NDArray[np.int64]:
    """Return the places of finite grid points: every `step`-th, and every `far`-th within 2^-12 of 0 or 1."""
    distance = np.minimum(np.abs(GRID), np.abs(GRID - 1))
    codes = (distance.view(np.int64) >> _SHIFT) % np.where(distance < 2.0**-12, far, step)
    found = np.flatnonzero((codes == 0) & np.isfinite(GRID))
    found.flags.writeable = False
    return found


TESTED: NDArray[np.int64] = _every(8, 64)
"""The grid points at which hypotheses are tested."""
BY_CLASS: NDArray[np.int64] = np.append(_every(4, 32), INFINITE)
"""The grid points at which pairs are counted for each group of classes."""
COARSE: NDArray[np.int64] = np.append(TESTED[::8], INFINITE)
"""The grid points at which squared set sizes are tallied."""
