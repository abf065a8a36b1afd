"""Labels at the door of the estimators: numbers or names, and how many classes there are."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacp._types import Ints
from nacp._validation import check_classes, check_count, check_labels, plain_array


def check_k(k: Any) -> int:
    """Check a number of classes: at least two."""
    if check_count("k", k) < 2:
        raise ValueError(f"k must be at least 2 classes; found {k!r}")
    return int(k)


def number_of_classes(k: Any, classes: Sequence[Any] | None, *labels: Any) -> tuple[int, str]:
    """Return k, and a remark if it had to be taken from the labels."""
    if classes is not None:
        if k is not None and k != len(classes):
            raise ValueError(f"k is {k!r}, but classes holds {len(classes)} names; pass one of them")
        check_classes(classes, len(classes))
        return check_k(len(classes)), ""
    if k is not None:
        return check_k(k), ""
    arrays = [plain_array(given) for given in labels]
    if any(given.dtype.kind not in "iubf" or not np.isfinite(given).any() for given in arrays):
        raise ValueError("k is not given, and the labels do not show it; pass k= or classes=")
    seen = max(2, int(max(given[np.isfinite(given)].max() for given in arrays)) + 1)
    return seen, f" (k = {seen}: the largest label plus one)"


def named(name: str, labels: Any, n: int, k: int, classes: Sequence[Any] | None) -> Ints:
    """Check labels, and say which argument is wrong if one is."""
    try:
        return check_labels(labels, n, k, classes)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
