"""The number of classes of labels that an estimator is given."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp.checks import check_count
from nacp.errors import InputError
from nacp.points import check_classes, plain_array


def number_of_classes(k: int | None, classes: Sequence[Any] | None, *labels: ArrayLike) -> tuple[int, str]:
    """Return the number of classes, and a remark for the estimate if it was inferred from the labels."""
    if classes is not None:
        if k is not None and k != len(classes):
            raise InputError(
                "k", f"is {k!r}, but classes holds {len(classes):,} names", remedy="pass one of them"
            )
        check_classes(classes, len(classes))
        k = len(classes)
    if k is not None:
        return check_count("k", k, 2), ""
    arrays = [plain_array(each) for each in labels]
    if any(each.dtype.kind not in "iubf" or not np.isfinite(each).any() for each in arrays):
        raise InputError(
            "k",
            "is not given, and the labels do not show it",
            remedy="pass k= or classes=",
            spoken="give --k or --classes",
        )
    seen = max(2, int(max(each[np.isfinite(each)].max() for each in arrays)) + 1)
    return seen, f" (k = {seen}: the largest label plus one)"
