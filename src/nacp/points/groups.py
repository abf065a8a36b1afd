"""Groups of rows, which are given one by one, and groups of classes, which are given as a mapping."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nacp._types import Ints
from nacp.errors import InputError
from nacp.points.labels import is_missing, plain_array


def check_row_groups(groups: Any, n: int) -> tuple[tuple[Any, ...], Ints]:
    """Check one group for each of n rows; return the names, in order, and which of them each row has.

    The categories of a categorical column of pandas are groups even where no row is in them.

    Examples
    --------
    >>> from nacp.points import check_row_groups
    >>> names, places = check_row_groups(["b", "a", "b"], n=3)
    >>> names, places.tolist()
    (('a', 'b'), [1, 0, 1])
    """
    declared = getattr(getattr(groups, "cat", groups), "categories", None)
    found, places = _distinct(groups, n)
    names = list(found) if declared is None else list(dict.fromkeys([*map(_plain, declared), *found]))
    if declared is None and any(isinstance(name, str) for name in names):
        names.sort(key=lambda name: (str(type(name)), name))
    elif declared is None:
        names.sort()
    number = {name: i for i, name in enumerate(names)}
    return tuple(names), np.array([number[name] for name in found], dtype=np.int64)[places]


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


def known_groups(groups: Any, n: int, names: tuple[Any, ...]) -> Ints:
    """Return which of some names each of n rows has; refuse others."""
    if groups is None:
        raise InputError(
            "groups",
            "must say of which group each row is: thresholds differ by group",
            remedy="pass one for each row of probs",
        )
    number = {name: i for i, name in enumerate(names)}
    found, places = _distinct(groups, n)
    for i, name in enumerate(found):
        if name not in number:
            shown = ", ".join(map(repr, names[:5])) + (
                f" and {len(names) - 5:,} more" if len(names) > 5 else ""
            )
            kinds = {str(each): type(each) for each in names}
            meant = kinds.get(str(name))
            raise InputError(
                "groups",
                f"holds {name!r} in row {int(np.argmax(places == i))}, a group that was not calibrated "
                f"(these were: {shown})",
                remedy="calibrate with points of this group too, or leave its rows out"
                if meant is None
                else f"pass groups as {'texts' if meant is str else 'numbers'}, as the calibration has them",
            )
    return np.array([number[name] for name in found], dtype=np.int64)[places]


def check_class_groups(
    groups: Mapping[Any, Any], k: int, classes: tuple[Any, ...] | None
) -> tuple[tuple[Any, ...], Ints]:
    """Check a mapping from classes to groups; return the names, and which of them each class has.

    Examples
    --------
    >>> from nacp.points import check_class_groups
    >>> kinds = {"cat": "pet", "owl": "bird", "dog": "pet"}
    >>> names, places = check_class_groups(kinds, 3, ("cat", "dog", "owl"))
    >>> names, places.tolist()
    (('pet', 'bird'), [0, 0, 1])
    """
    given = {_plain(key): _plain(value) for key, value in groups.items()}
    known: tuple[Any, ...] = tuple(range(k)) if classes is None else classes
    if classes is not None and not set(given) & set(classes) and set(given) <= set(range(k)):
        known = tuple(range(k))
    every = set(known)
    strange = next((key for key in given if key not in every), None)
    if strange is not None:
        raise InputError("groups", f"has a group for {strange!r}, which is no class")
    missing = next((key for key in known if key not in given), None)
    if missing is not None:
        raise InputError(
            "groups",
            f"has no group for class {missing!r}; {len(given):,} of {k:,} classes have one",
            remedy="give each class a group",
        )
    values = [_name(given[key], f"class {key!r}") for key in known]
    names = list(dict.fromkeys(values))
    number = {name: i for i, name in enumerate(names)}
    return tuple(names), np.array([number[value] for value in values], dtype=np.int64)


def _distinct(groups: Any, n: int) -> tuple[list[Any], Ints]:
    """Return the different names that n rows have, and which of them each has."""
    if isinstance(groups, list | tuple):
        groups = np.asarray(groups, dtype=object)  # else numbers beside texts, and NaN, would become texts
    try:
        array = plain_array(groups)
    except ValueError:
        array = np.empty((0, 0))
    if array.shape != (n,):
        raise InputError(
            "groups",
            f"must have the shape ({n},), one per row of probs",
            found=f"{array.shape}",
            remedy="groups of classes are a mapping from class to group",
        )
    if array.dtype.kind in "iubU":
        names, places = np.unique(array, return_inverse=True)
        return [_name(name, "") for name in names.tolist()], places.reshape(-1)
    number: dict[Any, int] = {}
    values = [_name(value, f"row {row}") for row, value in enumerate(array.tolist())]
    places = np.array([number.setdefault(value, len(number)) for value in values], dtype=np.int64)
    return list(number), places


def _name(value: Any, where: str) -> Any:
    value = _plain(value)
    if is_missing(value):
        raise InputError("groups", f"is missing in {where}", remedy="give it a name of its own, as 'unknown'")
    if not isinstance(value, str | int | float) or value in (math.inf, -math.inf):
        raise InputError(
            "groups",
            "must be texts or finite numbers",
            found=f"{value!r} in {where}",
            remedy="write them as texts, as in [str(each) for each in groups]",
        )
    return value


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
