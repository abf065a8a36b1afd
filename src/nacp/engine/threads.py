"""The threads among which the compiled engine shares out rows."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

# Fewer entries are not worth another thread: to hand work to one took 68 us, as long as 9,000 entries of APS.
_ENTRIES_PER_THREAD = 1 << 15


@lru_cache(maxsize=1)
def _threads() -> int:
    """How many threads work: NACP_THREADS, or as many as there are cores for this process."""
    said = os.environ.get("NACP_THREADS")
    if said is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not said.isdecimal() or int(said) < 1:
        raise ValueError(f"NACP_THREADS must be a whole number from 1 on, not {said!r}")
    return int(said)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), thread_name_prefix="nacp")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive it


def _handed_over(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Have a function called by another thread; or here, if the interpreter ends and takes no more."""
    try:
        return _pool().submit(function, *arguments)
    except RuntimeError:
        done: Future[Any] = Future()
        done.set_result(function(*arguments))
        return done


def threads_for(work: int, each: int) -> int:
    """Return how many threads share some work, of which no less than so much is worth one: at least one."""
    return max(1, min(_threads(), work // each))


def each_in_a_thread(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call functions, each in a thread, the first one in this; return what they return, in order."""
    others = [_handed_over(call) for call in calls[1:]]
    try:
        first = calls[0]()
    finally:
        for other in others:
            other.exception()  # when it is done: it writes to what may be let go of
    return [first, *(other.result() for other in others)]


def over_rows(function: Callable[..., Any], described: tuple[Any, ...], *arguments: Any) -> list[Any]:
    """Call a function for parts of the rows, each in a thread; return what it returns, in order."""
    rows, k = described[1], described[2]
    parts = min(threads_for(rows * k, _ENTRIES_PER_THREAD), max(rows, 1))
    ends = [rows * i // parts for i in range(parts + 1)]
    return each_in_a_thread(
        [partial(function, described, first, last, *arguments) for first, last in pairwise(ends)]
    )
