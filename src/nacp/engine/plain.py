"""Verbs that know nothing of scores: of rows as they came, and what many splits of rows need."""

import os
from itertools import pairwise

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.engine.contract import CellPairs, Pairs

_MASKED_ROWS = 1 << 13


def check(values: Array, tolerance: float) -> bool:
    """Return whether rows are probabilities: none negative or above 1, and each row sums to 1."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = values @ np.ones(values.shape[1], dtype=values.dtype)
    if not values.min() >= 0 or not np.all(np.abs(sums - 1) <= tolerance):
        return False
    # Where nothing is negative and no row sums to more than 1, no entry exceeds 1.
    return bool(sums.max() <= 1 + 8 * np.finfo(values.dtype).eps or values.max() <= 1)


def fetch(file: int, places: Ints, out: Array) -> bool:
    """Read rows of bytes from their places in an open file; return whether it has them all."""
    apart = np.flatnonzero(np.diff(places) != out.shape[1]) + 1  # others lie one after the other
    for start, stop in pairwise([0, *apart.tolist(), len(out)]):
        rows = out[start:stop].reshape(-1)
        rest = rows.data
        while len(rest):
            at = int(places[start]) + len(rows) - len(rest)
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


def ascending(pairs: Pairs) -> Pairs:
    """Return pairs in the order of their scores, in any where these are equal."""
    scores, weights = pairs
    if not len(weights):
        return Pairs(np.sort(scores), weights)
    order = np.argsort(scores)
    return Pairs(scores[order], weights[order])


def masked_sums(masks: Bools, counts: Array, most: int) -> Ints:
    """Return the sums of the rows of counts that each mask chooses: (masks, columns).

    Parameters
    ----------
    masks : array of bool of shape (masks, rows)
        Which rows each of them chooses.
    counts : array of uint16 or uint32 of shape (rows, columns)
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


def split_cells(values: Array, minus: bool, edges: Floats, known: Array, counts: Array) -> CellPairs | None:
    """Count the scores of rows up to edges, and return pairs by cell; None leaves that to who asks.

    Parameters
    ----------
    values : array of shape (rows, k)
        The scores of all pairs, or minus them.
    minus : bool
        Which of both.
    edges : array of shape (edges,)
        Ascending; a score is in the cell of the number of edges below it.
    known : array of uint8 of shape (edges + 1,)
        Whether pairs of a cell are wanted: 0 or 1.
    counts : array of uint16 or uint32 of shape (rows, edges)
        Where the numbers are written.
    """
    return None


def split_draws(
    states: Array, labels: Array, k: int, calibration: int, rate: float | None
) -> tuple[Bools, Array | None] | None:
    """Return which rows calibrate in splits, and noisy labels for each; None leaves that to who asks.

    They are those of `nacp.paper.splits.draw_split` with uniform noise.

    Parameters
    ----------
    states : array of uint64 of shape (splits, 4)
        The states of PCG64 generators, and their increments, each with the upper half first.
    labels : array of int32 of shape (rows,)
        The true labels.
    k, calibration : int
        How many classes there are, and how many rows calibrate.
    rate : float or None
        That of the noise; None if no labels are wanted.
    """
    return None
