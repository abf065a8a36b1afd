"""How rows are read: in blocks of any size and on any number of threads, for tests that compare these."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nacp.points import arrays


@contextmanager
def blocks_of(entries: int) -> Iterator[None]:
    """Read rows in blocks of this many entries, at least one row each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "block_rows", lambda k: max(1, entries // k))
        yield


@contextmanager
def on_threads(number: int) -> Iterator[None]:
    """Share blocks out to this many threads, however small they are; the compiled engine only has threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "thread_count", lambda: number)
        patch.setattr(arrays, "_ENTRIES_PER_THREAD", 1)
        yield
