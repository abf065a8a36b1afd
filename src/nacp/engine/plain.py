"""Verbs that know nothing of scores: rows of bytes from a file, and sums over rows that masks choose."""

import os

import numpy as np

from nacp._types import Array, Bools, Ints

_MASKED_ROWS = 1 << 13


def fetch(file: int, places: Ints, out: Array) -> bool:
    """Read rows of bytes from their places in an open file; return whether it has them all."""
    for place, row in zip(places.tolist(), out, strict=True):
        rest = memoryview(row)
        while len(rest):
            at = place + len(row) - len(rest)
            if hasattr(os, "preadv"):
                more = os.preadv(file, [rest], at)
            else:
                os.lseek(file, at, os.SEEK_SET)
                read = os.read(file, len(rest))
                more = len(read)
                rest[:more] = read
            if not more:
                return False
            rest = rest[more:]
    return True


def masked_sums(masks: Bools, counts: Array, most: int) -> Ints:
    """Return the sums of the rows of counts that each mask chooses: (masks, columns).

    Parameters
    ----------
    masks : array of bool of shape (masks, rows)
        Which rows each of them chooses.
    counts : array of uint32 of shape (rows, columns)
        Whole numbers.
    most : int
        None of them is above it.
    """
    sums = np.zeros((len(masks), counts.shape[1]), dtype=np.int64)
    for start in range(0, len(counts), _MASKED_ROWS):
        some = slice(start, start + _MASKED_ROWS)
        # As floats, of which a product is quick; sums of whole numbers below 2^53 are exact.
        sums += (masks[:, some].astype(np.float64) @ counts[some].astype(np.float64)).astype(np.int64)
    return sums
