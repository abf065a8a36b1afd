"""Scores that were kept when rows were read: what asks about low scores need not read the rows again."""

from typing import Any

import numpy as np

from nacp._types import Floats, Ints


class Kept:
    """The labels of rows that score at most a limit, with their scores, row after row.

    Parameters
    ----------
    k, n : int
        The numbers of classes and of rows.
    limit : float
        Up to which score all labels of a row are kept.
    room : int
        How many pairs may be kept; if there are more, nothing is.
    """

    def __init__(self, k: int, n: int, limit: float, room: int) -> None:
        self.k, self.n, self.limit, self._room = k, n, limit, room
        self._parts: tuple[list[Any], ...] = [], [], []  # numbers, scores, labels
        self._place = np.empty(n, dtype=np.int64)  # which of the rows that were kept each row is
        self._rows = 0
        self.starts: Ints = np.zeros(1, dtype=np.int64)
        self.scores: Floats = np.empty(0)
        self.columns: Ints = np.empty(0, dtype=np.int32)

    def add(self, rows: slice | Ints, numbers: Ints, scores: Floats, columns: Ints) -> None:
        """Keep some rows: how many labels each of them has, and these with their scores.

        There may be labels that score above the limit.
        """
        if self._room < 0:
            return
        low = scores <= self.limit
        if not low.all():
            numbers = np.diff(np.append(0, np.cumsum(low))[np.cumsum(numbers)], prepend=0)
            scores, columns = scores[low], columns[low]
        self._place[rows] = self._rows + np.arange(len(numbers))
        self._rows += len(numbers)
        self._room -= len(scores)
        for part, some in zip(self._parts, (numbers, scores, columns), strict=True):
            part.append(some)
        if self._room < 0:
            self._parts = [], [], []
        elif self._rows == self.n:
            each, self.scores, self.columns = (_joined(part) for part in self._parts)
            self.starts = np.append(0, np.cumsum(each))

    def has(self, upto: float | None) -> bool:
        """Return whether all labels that score at most so much are kept; of None, all labels are meant."""
        return upto is not None and upto <= self.limit

    @property
    def complete(self) -> bool:
        """Whether all rows have been kept."""
        return len(self.starts) > self.n

    def parts(self) -> tuple[Ints, Floats, Ints]:
        """Return what was kept, of rows that came in their order: as `add` takes it."""
        return np.diff(self.starts), self.scores, self.columns

    def described(self, rows: slice | Ints) -> tuple[Ints, Ints, Floats, Ints]:
        """Return what an engine needs to know: where rows start, which are meant, scores and labels."""
        return self.starts, np.ascontiguousarray(self._place[rows]), self.scores, self.columns


def _joined(part: list[Any]) -> Any:
    """Return arrays as one, and let go of them."""
    found = np.concatenate(part)
    part.clear()
    return found
