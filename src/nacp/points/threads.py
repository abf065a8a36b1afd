"""Threads that process blocks of rows in parallel: the compiled engine releases the interpreter lock."""

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
    setting = os.environ.get("NACP_THREADS")
    if setting is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not setting.isdecimal() or int(setting) < 1:
        raise ValueError(f"NACP_THREADS must be a whole number from 1 on, not {setting!r}")
    return int(setting)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_count(), thread_name_prefix=_PREFIX)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # A child process has no threads.


def _submit(function: Callable[..., T], *arguments: Any) -> "Future[T]":
    """Call a function in a thread, or in this one while the interpreter is shutting down."""
    try:
        return _pool().submit(copy_context().run, function, *arguments)
    except RuntimeError:
        done: Future[T] = Future()
        done.set_result(function(*arguments))
        return done


def in_threads(function: Callable[[Any], T], items: Sequence[Any], threads: int) -> Iterator[T]:
    """Yield the results of a function for each item, in order; at most `threads` + 1 calls are pending."""
    nested = threading.current_thread().name.startswith(_PREFIX)  # Waiting for the pool could deadlock.
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
                each.exception()  # Wait until the call has ended.
