"""Groups of rows, given one by one, and groups of classes: their names, and what belongs to which."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Ints
from nacp.errors import InputError
from nacp.points import check_class_groups, check_row_groups


class Grouping(NamedTuple):
    """Groups: their names, and the group of each row or of each class."""

    names: tuple[Any, ...]
    places: Ints
    of_classes: bool


def open_grouping(groups: Any, by: Any, n: int, k: int, classes: tuple[Any, ...] | None) -> Grouping | None:
    """Return the groups that are meant; None if none are."""
    if by is not None:
        if by != "class":
            raise InputError(
                "by", 'must be "class"', found=repr(by), remedy="other groups are passed as groups="
            )
        if groups is not None:
            raise InputError("by", "says what the groups are, and so does groups", remedy="pass one of them")
        names = tuple(range(k)) if classes is None else classes
        return Grouping(names, np.arange(k), True)
    if groups is None:
        return None
    if isinstance(groups, Mapping):
        return Grouping(*check_class_groups(groups, k, classes), True)
    return Grouping(*check_row_groups(groups, n), False)
