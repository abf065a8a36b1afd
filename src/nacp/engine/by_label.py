"""Verbs of the NumPy engine that compare the scores of each label with numbers of its own."""

import numpy as np

from nacp._types import Floats, Ints
from nacp.engine.block import Block
from nacp.engine.contract import Pairs, Weights


def counts(block: Block, marks: Floats, weights: Weights = None) -> Ints:
    """Return for each label how many rows score it below marks of its own, and how many up to them.

    Marks are of shape (marks, k); what is returned, of shape (2, marks, k). With weights: what these pairs
    gain, and what they lose, (2, 2, marks, k).
    """
    scores = block.placed.astype(np.float64, copy=False)
    ends = np.stack([np.nextafter(marks, -np.inf), marks])
    below = (scores <= each for each in ends.reshape(-1, marks.shape[1]))
    if weights is None:
        found = [np.count_nonzero(each, axis=0) for each in below]
        return np.array(found, dtype=np.int64).reshape(ends.shape)
    weighed = weights.all()
    parts = np.maximum(weighed, 0), np.maximum(-weighed, 0)
    sums = [[np.where(each, part, 0).sum(axis=0) for part in parts] for each in below]
    by_end = np.array(sums, dtype=np.int64).reshape(len(sums), 2, marks.shape[1])
    return by_end.swapaxes(0, 1).reshape(2, *ends.shape)


def gaps(
    block: Block, labels: Ints, lows: Floats, highs: Floats, weights: Weights = None
) -> tuple[Ints, Pairs]:
    """Return the pairs of labels that score above one number and below another, and in which gap each is.

    Row after row. A label may have several gaps, one beside the other.
    """
    scores = np.take(block.placed, labels, axis=1).astype(np.float64, copy=False)
    rows, which = np.nonzero((scores > lows) & (scores < highs))
    weighed = np.empty(0, dtype=np.int64) if weights is None else weights.at(rows, labels[which])
    return which, Pairs(scores[rows, which], weighed)
