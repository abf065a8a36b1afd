"""Scores that were kept when rows were read: what asks about low scores need not read the rows again."""

import numpy as np

from nacp._types import Floats, Ints


class Kept:
    """The scores of rows up to a limit, row after row, and the labels that have them, if these are wanted.

    Parameters
    ----------
    k, n : int
        The numbers of classes and of rows.
    limit : float
        Up to which score all labels of a row are kept.
    room : int
        How many pairs may be kept; if there are more, nothing is.
    expected : int, default=0
        About how many there will be.
    labels : bool, default=True
        Whether the labels are wanted.
    """

    def __init__(
        self, k: int, n: int, limit: float, room: int, expected: int = 0, *, labels: bool = True
    ) -> None:
        self.k, self.n, self.limit, self._room, self.labels = k, n, limit, room, labels
        self._place = np.empty(n, dtype=np.int64)  # which of the rows that were kept each row is
        self._rows = 0
        self.starts: Ints = np.zeros(n + 1, dtype=np.int64)
        self.scores: Floats
        self.columns: Ints
        self.scores, self.columns = self._taken(min(expected * 9 // 8, room))

    def add(self, rows: slice | Ints, numbers: Ints, scores: Floats, columns: Ints) -> None:
        """Keep some rows: how many labels each of them has, their scores, and these if they are wanted.

        There may be labels that score above the limit.
        """
        low = scores <= self.limit
        if not low.all():
            numbers = np.diff(np.append(0, np.cumsum(low))[np.cumsum(numbers)], prepend=0)
            scores, columns = scores[low], columns[low] if self.labels else columns
        start, last = int(self.starts[self._rows]), self._rows + len(numbers)
        stop = start + len(scores)
        if stop > self._room:  # nothing is kept, now and later
            (self.scores, self.columns), self._room = self._taken(0), -1
            return
        if stop > len(self.scores):
            # As much for the rows to come as those that came have taken, and some more.
            most = min(stop * self.n // max(last, 1) * 9 // 8 + 1, self._room)
            before, (self.scores, self.columns) = (self.scores, self.columns), self._taken(most)
            for old, new in zip(before, (self.scores, self.columns), strict=True):
                new[:start] = old[:start]
        self.scores[start:stop] = scores
        if self.labels:
            self.columns[start:stop] = columns
        np.cumsum(numbers, out=self.starts[self._rows + 1 : last + 1])
        self.starts[self._rows + 1 : last + 1] += start
        self._place[rows] = np.arange(self._rows, last)
        self._rows = last
        if self.complete:
            self.scores, self.columns = self.scores[:stop], self.columns[: stop if self.labels else 0]

    def has(self, upto: float | None, *, labels: bool) -> bool:
        """Return whether all scores up to so much are kept, with their labels if these are wanted; None means
        all scores.
        """
        return upto is not None and upto <= self.limit and (self.labels or not labels)

    @property
    def complete(self) -> bool:
        """Whether all rows have been kept."""
        return self._rows == self.n

    def parts(self) -> tuple[Ints, Floats, Ints]:
        """Return what was kept, of rows that came in their order: as `add` takes it."""
        return np.diff(self.starts), self.scores, self.columns

    def described(self, rows: slice | Ints) -> tuple[Ints, Ints, Floats, Ints | None]:
        """Return what an engine needs to know: where rows start, which are meant, scores and labels."""
        columns = self.columns if self.labels else None
        return self.starts, np.ascontiguousarray(self._place[rows]), self.scores, columns

    def _taken(self, pairs: int) -> tuple[Floats, Ints]:
        """Return room for the scores of so many pairs, and for their labels.

        One piece of memory, as two of different size are taken from the system anew for each calibration,
        which takes a fifth of the time of a calibration with APS.
        """
        room = np.empty((12 if self.labels else 8) * pairs, dtype=np.uint8)
        return room[: 8 * pairs].view(np.float64), room[8 * pairs :].view(np.int32)
