"""The numbers that tune speed and memory, together. None of them can change a threshold.

Times are of ``calibrate`` on 25,000 x 1,000 float32 probabilities. Tests read small inputs the way that large
ones are read by other values: ``with tuned(block_entries=16): ...``.
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
        entries are 1 MB of float32. With 2^17 and 2^19 it took 1.0 to 1.5 times as long, with 2^16 and 2^20
        1.2 to 2.3 times.
    native_blocks : int
        How much larger the blocks of the compiled engine are: it computes nothing from a block that would
        have to stay in the cache, and a call costs some microseconds. Calibrating with HPS took 1.1 to 1.2
        times as long with 4, and nearly as long with 16, which takes more memory. So are those of a tensor
        on a device, where a call costs more.
    collected_pairs : int
        How many pairs one read may collect in all. They are held in memory: 16 MB for 2^21
        scores, and as much for their weights.
    new_cells : int
        Into how many cells one read may cut the cells that hold too many pairs to be collected.
    hint_pairs : int
        Up to so many pairs, all are collected in the first read; from there on it takes a hint which.
    counted_pairs : int
        Up to so many pairs, the first read counts them in all cells; of more, only as far as the thresholds
        are (`nacp.coverage.crossing`).
    hint_entries : int
        Rows with so many entries, but an eighth of all rows at the most, are looked at first: to guess which
        cells the first read should collect, and to ask whether the labels contradict the noise model where
        not all cells are counted. To look at a row of 1,000 as a whole takes as long as to calibrate with 6.
    hint_rows : int
        So many rows are looked at in any case, but for that eighth. With the 8 rows of 100,000 classes that
        the entries alone allow, the hint was so uncertain that all labels were scored, in 5 times the time.
    hint_labels : int
        Of so many rows of a file, but an eighth of all at the most, the labels are scored first, for the same
        guess. With 2^14, RAPS took 1.4 times as long on 250,000 rows and as long on a million; with 2^17, all
        scores took 1.1 to 1.3 times as long on a million.
    hint_errors : float
        How far around the guess, in standard errors of the hint. With 2, one of six values of alpha needed a
        further read, with 4 none.
    kept_pairs : int
        So many of the pairs with the lowest scores are kept from the first read, 8 bytes each or 12 with
        their labels, so that no other read is needed for them.
    kept_blocks : int
        How much larger blocks are of rows of which only such pairs are looked at: a few for each row. With 1,
        "pac" took 1.1 times as long on a million rows.
    memory_blocks : int
        How much larger blocks are that are read as they lie in memory, or by calibrations from files. With 1,
        HPS took 1.01 times as long in memory and 1.15 to 1.3 times from a file; with 8 0.97 times in memory,
        but deterministic APS, which collects many pairs, took 64 MB instead of some 30. To predict took 1.2
        times as long with 1 for HPS, and 0.9 times for deterministic APS.
    written_weights : int
        Up to so many entries of W, all are written out as whole numbers before rows are read: 8 MB. With a
        matrix for 1,000 classes HPS took 1.1 times as long without.
    counted_thresholds : int
        Up to so many thresholds, pairs are counted by comparing; for more, each pair is looked up.
    bets_entries : int
        Points times bets that are played at once. In NumPy, HPS with "pac" took 1.03 times as long with 2^15
        and with 2^18.
    sent_pairs : int
        So many pairs may be kept where rows lie elsewhere, but eight for each point at the most: 800 MB.
    sent_bytes : int
        How much is sent at once for bets, of rows or of their shares at thresholds: 64 MB.
    split_errors : float
        How far from the target the estimate on all rows may be at the threshold of one split, in standard
        deviations, for its pairs to be collected beforehand (`nacp.paper.splitting`).
    written_entries : int
        Entries of the rows that the command line predicts and writes at once: 2^23 entries are 32 MB of
        float32, and progress is shown some times a second.
    """

    block_entries: int = 1 << 18
    native_blocks: int = 8
    collected_pairs: int = 1 << 21
    new_cells: int = 1 << 16
    hint_pairs: int = 1 << 17
    counted_pairs: int = 1 << 22
    hint_entries: int = 3 << 18
    hint_rows: int = 64
    hint_labels: int = 1 << 15
    hint_errors: float = 4.0
    kept_pairs: int = 3 << 20
    kept_blocks: int = 8
    memory_blocks: int = 2
    written_weights: int = 1 << 20
    counted_thresholds: int = 32
    bets_entries: int = 1 << 16
    sent_pairs: int = 1 << 26
    sent_bytes: int = 1 << 26
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
