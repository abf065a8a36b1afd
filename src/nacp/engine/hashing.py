"""The uniform number u of a row: a keyed hash of its values, which makes randomised scores reproducible."""

from functools import lru_cache

import numpy as np

from nacp._types import Array, Floats, Ints

_HASHED_COLUMNS = 16
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def hashed_uniforms(block: Array, seed: int) -> Floats:
    """Return one u in [0, 1) per row: a keyed hash of at most 16 of its values and its maximum.

    The same row has the same u in any batch, order, process and floating-point width.
    """
    columns, keys = hash_plan(block.shape[1], int(seed) % (1 << 64))
    values = np.empty((len(block), len(columns) + 1))
    values[:, :-1] = block.take(columns, axis=1)
    values[:, -1] = block.max(axis=1)
    return mixed_uniforms(values, keys)


def mixed_uniforms(values: Array, keys: Array) -> Floats:
    """Return one u per row of hashed values, given a key for each column."""
    plain = np.add(values, 0.0, dtype=np.float64)  # This turns -0.0 into 0.0.
    words = _mix(_mix(plain.view(np.uint64) ^ keys).sum(axis=1, dtype=np.uint64))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


@lru_cache(maxsize=64)
def hash_plan(k: int, seed: int) -> tuple[Ints, Array]:
    """Return the columns to hash, and a key for each of them and for the maximum."""
    columns = np.arange(k)
    if k > _HASHED_COLUMNS:
        columns = np.arange(_HASHED_COLUMNS) * (k - 1) // (_HASHED_COLUMNS - 1)
    key = _mix(np.array([seed], dtype=np.uint64))
    return columns, _mix(key + np.arange(len(columns) + 1, dtype=np.uint64))


def _mix(x: Array) -> Array:
    """Scramble 64-bit words (the finaliser of splitmix64)."""
    x = x + _GOLDEN
    x ^= x >> np.uint64(30)
    x *= _MIX_1
    x ^= x >> np.uint64(27)
    x *= _MIX_2
    x ^= x >> np.uint64(31)
    return x
