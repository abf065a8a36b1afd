"""The numbers that tune speed and memory, together. None of them can change a result.

Each was measured with ``make bench`` on 25,000 x 1,000 float32 probabilities. Tests read small inputs the way
that large ones are read by other values: ``with tuned(block_entries=16): ...``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Tuning:
    """What is tuned.

    Attributes
    ----------
    block_entries : int
        Entries of a block of rows. A block and what is computed from it should stay in the cache: 2^18
        entries are 1 MB of float32. 2^16 and 2^20 were 5 to 30% slower.
    collected_pairs : int
        How many pairs one read may collect in all. They are sorted in memory: 2^20 of them take some 30 MB.
    new_cells : int
        Into how many cells one read may cut the cells that hold too many pairs to be collected.
    hint_rows : int
        So many rows are looked at first, to guess which cells the first read should collect. With 512 rows
        the guess is right nine times in ten, for 2% of the time of a read.
    hint_errors : float
        How far around the guess, in standard errors of the hint.
    counted_thresholds : int
        Up to so many thresholds, pairs are counted by comparing; for more, each pair is looked up.
    bets_entries : int
        Points times bets that are played at once.
    split_errors : float
        How far from the target the estimate on all rows may be at the threshold of one split, in standard
        deviations, for its pairs to be collected beforehand (`nacp.paper.splits`).
    written_entries : int
        Entries of the rows that the command line predicts and writes at once: 2^23 entries are 32 MB of
        float32, and progress is shown some times a second.
    """

    block_entries: int = 1 << 18
    collected_pairs: int = 1 << 20
    new_cells: int = 1 << 16
    hint_rows: int = 512
    hint_errors: float = 2.0
    counted_thresholds: int = 32
    bets_entries: int = 1 << 18
    split_errors: float = 5.0
    written_entries: int = 1 << 23


_DEFAULT = Tuning()
_CURRENT: ContextVar[Tuning] = ContextVar("tuning", default=_DEFAULT)


def tuning() -> Tuning:
    """Return the numbers that are in force."""
    return _CURRENT.get()


@contextmanager
def tuned(**values: Any) -> Iterator[None]:
    """Put other numbers in force for a while."""
    token = _CURRENT.set(replace(tuning(), **values))
    try:
        yield
    finally:
        _CURRENT.reset(token)
