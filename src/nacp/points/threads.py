"""The threads that share out blocks of rows: the compiled engine releases the interpreter's lock."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")
_PREFIX = "nacp-rows"


@lru_cache(maxsize=1)
def thread_count() -> int:
    """Return the number of threads: NACP_THREADS, or the number of cores that this process may use."""
    said = os.environ.get("NACP_THREADS")
    if said is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not said.isdecimal() or int(said) < 1:
        raise ValueError(f"NACP_THREADS must be a whole number from 1 on, not {said!r}")
    return int(said)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_count(), thread_name_prefix=_PREFIX)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def _submit(function: Callable[..., T], *arguments: Any) -> "Future[T]":
    """Call a function in a thread, or here if the interpreter is shutting down and starts no thread."""
    try:
        return _pool().submit(copy_context().run, function, *arguments)
    except RuntimeError:
        done: Future[T] = Future()
        done.set_result(function(*arguments))
        return done


def in_threads(function: Callable[[Any], T], items: Sequence[Any], threads: int) -> Iterator[T]:
    """Yield what a function returns for each item, in order; at most `threads` + 1 calls are in flight."""
    nested = threading.current_thread().name.startswith(_PREFIX)  # would wait for its own thread
    if threads == 1 or len(items) < 2 or nested:
        yield from map(function, items)
        return
    pending: deque[Future[T]] = deque()
    try:
        for item in items:
            pending.append(_submit(function, item))
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for each in pending:
            if not each.cancel():
                each.exception()  # waits until the call has ended
