"""Groups of rows and groups of classes: their names, and the group of each row or class."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Ints
from nacp.errors import InputError
from nacp.points import is_missing, plain_array, refuse_tables


class Grouping(NamedTuple):
    """Groups: their names, and the place among these of the group of each row or of each class."""

    names: tuple[Any, ...]
    places: Ints
    of_classes: bool


def open_grouping(groups: Any, by: Any, n: int, k: int, classes: tuple[Any, ...] | None) -> Grouping | None:
    """Return the grouping that `groups` and `by` of `calibrate` describe; None if both are None."""
    if by is not None:
        if by != "class":
            remedy = "other groups are passed as groups="
            raise InputError("by", 'must be "class"', found=repr(by), remedy=remedy)
        if groups is not None:
            raise InputError("by", "says what the groups are, and so does groups", remedy="pass one of them")
        return Grouping(tuple(range(k)) if classes is None else classes, np.arange(k), True)
    if groups is None:
        return None
    if isinstance(groups, Mapping):
        return Grouping(*check_class_groups(groups, k, classes), True)
    return Grouping(*check_row_groups(groups, n), False)


def check_row_groups(groups: Any, n: int) -> tuple[tuple[Any, ...], Ints]:
    """Check one group for each of n rows; return the names, in order, and the place of each row's group.

    The categories of a categorical column of pandas are groups even where no row is in them.
    """
    found, places = _distinct(groups, n)
    declared = getattr(getattr(groups, "cat", groups), "categories", None)
    if declared is None:
        names = sorted(found, key=lambda name: (isinstance(name, str), name))
    else:
        names = list(dict.fromkeys([*map(_plain, declared), *found]))
    return tuple(names), _places_in(names, found)[places]


def known_groups(groups: Any, n: int, names: tuple[Any, ...]) -> Ints:
    """Return the place among `names` of the group of each of n rows; refuse other groups."""
    if groups is None:
        problem = "must name the group of each row: thresholds differ by group"
        raise InputError("groups", problem, remedy="pass one for each row of probs")
    (found, places), known = _distinct(groups, n), set(names)
    strange = next((name for name in found if name not in known), None)
    if strange is not None:
        shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
        raise InputError(
            "groups",
            f"holds {strange!r} in row {int(np.argmax(places == found.index(strange)))}, a group that was "
            f"not calibrated (these were: {shown})",
            remedy="pass groups as the calibration has them; 1 and '1' are different groups",
        )
    return _places_in(names, found)[places]


def check_class_groups(
    groups: Mapping[Any, Any], k: int, classes: tuple[Any, ...] | None
) -> tuple[tuple[Any, ...], Ints]:
    """Check a mapping from classes to groups; return the names, and the place of each class's group."""
    given = {_plain(key): value for key, value in groups.items()}
    known: tuple[Any, ...] = tuple(range(k))
    if classes is not None and (set(given) & set(classes) or not set(given) <= set(known)):
        known = classes
    for strange in given.keys() - set(known):
        raise InputError("groups", f"has a group for {strange!r}, which is no class")
    missing = [key for key in known if key not in given]
    if missing:
        problem = f"has no group for class {missing[0]!r}; {len(given):,} of {k:,} classes have one"
        raise InputError("groups", problem, remedy="give each class a group")
    values = [_name(given[key], f"class {key!r}") for key in known]
    names = list(dict.fromkeys(values))
    return tuple(names), _places_in(names, values)


def _distinct(groups: Any, n: int) -> tuple[list[Any], Ints]:
    """Return the different names of the groups of n rows, and which of them each row has."""
    refuse_tables(groups, "groups")
    if isinstance(groups, list | tuple):
        groups = np.asarray(groups, dtype=object)  # else numbers beside texts, and NaN, would become texts
    try:
        array = plain_array(groups)
    except ValueError:
        array = np.empty((0, 0))
    if array.shape != (n,):
        problem = f"must have the shape ({n},), one per row of probs"
        remedy = "groups of classes are a mapping from class to group"
        raise InputError("groups", problem, found=f"{array.shape}", remedy=remedy)
    values = array.tolist()
    if not {type(value) for value in values} <= {str, int, bool}:
        values = [_name(value, f"row {row}") for row, value in enumerate(values)]
    names = list(dict.fromkeys(values))
    return names, _places_in(names, values)


def _places_in(names: Any, values: list[Any]) -> Ints:
    number = {name: i for i, name in enumerate(names)}
    return np.array([number[value] for value in values], dtype=np.int64)


def _name(value: Any, where: str) -> Any:
    """Check the name of a group: a text or a finite number."""
    value = _plain(value)
    if is_missing(value):
        raise InputError("groups", f"is missing in {where}", remedy="give it a name of its own, as 'unknown'")
    if not isinstance(value, str | int | float) or value in (math.inf, -math.inf):
        problem = "must be texts or finite numbers"
        remedy = "write them as texts, as in [str(each) for each in groups]"
        raise InputError("groups", problem, found=f"{value!r} in {where}", remedy=remedy)
    return value


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
