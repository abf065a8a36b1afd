"""Scores that were kept when rows were read: what asks about low scores need not read the rows again."""

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
        self.k, self.n, self.limit = k, n, limit
        self._place = np.empty(n, dtype=np.int64)  # which of the rows that were kept each row is
        self._rows = 0
        self.starts: Ints = np.zeros(n + 1, dtype=np.int64)
        # Memory that nobody writes to is not taken.
        self.scores: Floats = np.empty(min(room, n * k))
        self.columns: Ints = np.empty(min(room, n * k), dtype=np.int32)

    def add(self, rows: slice | Ints, numbers: Ints, scores: Floats, columns: Ints) -> None:
        """Keep some rows: how many labels each of them has, and these with their scores.

        There may be labels that score above the limit.
        """
        low = scores <= self.limit
        if not low.all():
            numbers = np.diff(np.append(0, np.cumsum(low))[np.cumsum(numbers)], prepend=0)
            scores, columns = scores[low], columns[low]
        start, last = int(self.starts[self._rows]), self._rows + len(numbers)
        stop = start + len(scores)
        if stop > len(self.scores):  # nothing is kept, now and later
            self.scores, self.columns = self.scores[:0].copy(), self.columns[:0].copy()
            return
        self.scores[start:stop], self.columns[start:stop] = scores, columns
        np.cumsum(numbers, out=self.starts[self._rows + 1 : last + 1])
        self.starts[self._rows + 1 : last + 1] += start
        self._place[rows] = np.arange(self._rows, last)
        self._rows = last
        if self.complete:
            self.scores, self.columns = self.scores[:stop], self.columns[:stop]

    def has(self, upto: float | None) -> bool:
        """Return whether all labels that score at most so much are kept; of None, all labels are meant."""
        return upto is not None and upto <= self.limit

    @property
    def complete(self) -> bool:
        """Whether all rows have been kept."""
        return self._rows == self.n

    def parts(self) -> tuple[Ints, Floats, Ints]:
        """Return what was kept, of rows that came in their order: as `add` takes it."""
        return np.diff(self.starts), self.scores, self.columns

    def described(self, rows: slice | Ints) -> tuple[Ints, Ints, Floats, Ints]:
        """Return what an engine needs to know: where rows start, which are meant, scores and labels."""
        return self.starts, np.ascontiguousarray(self._place[rows]), self.scores, self.columns
