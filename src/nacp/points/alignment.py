"""Tables whose rows belong together, by their index."""

from typing import Any

from nacp.errors import InputError


def check_aligned(values: Any, rows: Any, name: str = "probs", said: str = "groups") -> None:
    """Refuse values in a table with the same rows as another, by their index, but in another order."""
    index: Any = getattr(values, "index", None)
    other: Any = getattr(rows, "index", None)
    if not hasattr(index, "equals") or not hasattr(other, "equals") or len(index) != len(other):
        return
    if not index.equals(other) and index.is_unique and index.isin(other).all():
        raise InputError(
            said,
            f"has the index of {name} in another order, and is taken row by row",
            remedy=f"pass {said}.loc[{name}.index]",
        )
