"""Work beside other work: its verbs are not shared out among threads, which have enough to do."""

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

ALONE: ContextVar[bool] = ContextVar("alone", default=False)


def beside(function: Callable[..., T], *arguments: Any) -> Callable[[], T]:
    """Return a call of a function for another thread: with what is set here, and its verbs there alone."""
    context = copy_context()
    context.run(ALONE.set, True)
    return lambda: context.run(function, *arguments)
