"""A check that two tables have their rows in the same order."""

from typing import Any

from nacp.errors import InputError


def check_aligned(values: Any, rows: Any, name: str = "probs", said: str = "groups") -> None:
    """Raise an error if two tables have the same index in different orders."""
    index: Any = getattr(values, "index", None)
    other: Any = getattr(rows, "index", None)
    if not hasattr(index, "equals") or not hasattr(other, "equals") or len(index) != len(other):
        return
    if not index.equals(other) and index.is_unique and index.isin(other).all():
        raise InputError(
            said,
            f"has the index of {name} in another order, but rows are matched by position",
            remedy=f"pass {said}.loc[{name}.index]",
        )
