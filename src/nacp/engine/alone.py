"""Work beside other work: its verbs are not shared out among threads, which have enough to do."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

ALONE: ContextVar[bool] = ContextVar("alone", default=False)


def beside(function: Callable[..., T], *arguments: Any) -> Callable[[], T]:
    """Return a call of a function for another thread: with what is set here, and its verbs there alone."""
    context = copy_context()
    context.run(ALONE.set, True)
    return lambda: context.run(function, *arguments)


def handed_over(threads: Executor, function: Callable[..., T], *arguments: Any) -> Future[T]:
    """Have a function called by other threads; or here and now, if the interpreter ends and takes no more."""
    try:
        return threads.submit(function, *arguments)
    except RuntimeError:
        done: Future[T] = Future()
        try:
            done.set_result(function(*arguments))
        except Exception as error:  # raised where the result is asked for, as of other threads
            done.set_exception(error)
        return done
