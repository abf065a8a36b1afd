"""The door: every input is checked here, once, and a wrong one gets one clear sentence."""

import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from nacp import _kernels
from nacp._types import Array, Floats, Ints

_SUM_TOLERANCE = {np.dtype(np.float16): 1e-2}
_DEFAULT_SUM_TOLERANCE = 1e-3

WATCH: ContextVar[Callable[[int], object] | None] = ContextVar("WATCH", default=None)
"""Told how many rows each block has that is read; progress bars set it."""


class Rows:
    """A checked (n, k) matrix, handed out block by block in float32 or float64; never copied whole."""

    def __init__(self, matrix: Array, normalize: bool) -> None:
        self._matrix = matrix
        self._normalize = normalize
        self.n, self.k = matrix.shape

    def slices(self) -> Iterator[slice]:
        """Cut the rows into blocks that fit into the cache."""
        return _kernels.row_slices(self.n, self.k)

    def blocks(self) -> Iterator[Array]:
        """Hand out all rows, block by block."""
        return (self[where] for where in self.slices())

    def __getitem__(self, where: slice | Ints) -> Array:
        block = self._matrix[where]
        watch = WATCH.get()
        if watch is not None:
            watch(len(block))
        if block.dtype == np.float16:
            block = block.astype(np.float32)
        elif block.dtype not in (np.float32, np.float64):
            block = block.astype(np.float64)
        block = np.ascontiguousarray(block)  # first: in which order a sum adds depends on the layout
        if self._normalize:
            block = block / block.sum(axis=1, dtype=np.float64, keepdims=True)
        return block


def plain_array(values: Any) -> Array:
    """Return an array; one of objects, as pandas makes of what may be missing, as numbers if they are."""
    given = np.asarray(values)
    if given.dtype.kind != "O":
        return given
    flat = [math.nan if is_missing(value) else value for value in given.ravel().tolist()]
    return np.array(flat).reshape(given.shape) if all(map(_is_real, flat)) else given


def is_missing(value: Any) -> bool:
    """Return whether it is None, NaN or what pandas has instead."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _in_order(probs: Any, classes: Any) -> Any:
    """Return a table of pandas with its columns in the order of the classes, if these are their names."""
    if not hasattr(probs, "iloc") or not hasattr(probs, "columns") or not hasattr(classes, "__len__"):
        return probs
    names, wanted = ([str(name) for name in some] for some in (probs.columns, classes))
    if names == wanted or len(set(names)) < len(names) or sorted(names) != sorted(wanted):
        return probs
    return probs.iloc[:, [names.index(name) for name in wanted]]


def check_probs(
    probs: Any,
    *,
    normalize: bool = False,
    probabilities: bool = True,
    k: int | None = None,
    classes: Any = None,
) -> Rows:
    """Check a matrix of probabilities (or of scores) and return it as rows to read from.

    A table whose columns are named by the classes is put in their order.
    """
    name = "probs" if probabilities else "scores (given in place of probs)"
    if normalize and not probabilities:
        raise ValueError(f"normalize=True divides probabilities by their sum; {name} are none")
    try:
        matrix = plain_array(_in_order(probs, classes))
    except ValueError:
        raise ValueError(f"{name} must have the shape (n, k); found rows of different lengths") from None
    if matrix.ndim != 2:
        raise ValueError(f"{name} must have the shape (n, k); found {matrix.shape}")
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be an array of numbers; found dtype {matrix.dtype}")
    if matrix.size == 0:
        raise ValueError(f"{name} is empty: its shape is {matrix.shape}")
    if matrix.shape[1] < 2:
        raise ValueError(
            f"{name} has one column; it needs one per class, so at least two "
            "(for a binary classifier: np.column_stack([1 - p, p]))"
        )
    if k is not None and matrix.shape[1] != k:
        raise ValueError(
            f"{name} has {matrix.shape[1]} columns, but the calibration was made with {k} classes"
        )
    rows = Rows(matrix, normalize=False)
    for where in rows.slices():
        if probabilities:
            _check_block(rows, where, matrix.dtype, normalize)
        elif np.isnan(rows[where]).any():
            raise ValueError(f"{name} holds NaN, first in row {_first_nan(rows, where)}")
    return Rows(matrix, normalize)


def _check_block(rows: Rows, where: slice, dtype: np.dtype[Any], normalize: bool) -> None:
    block = rows[where]
    with np.errstate(invalid="ignore", over="ignore"):
        sums = block @ np.ones(rows.k, dtype=block.dtype)
    low = block.min()
    tolerance = _SUM_TOLERANCE.get(dtype, _DEFAULT_SUM_TOLERANCE)
    # Where nothing is negative and no row sums to more than 1, no entry exceeds 1.
    suspicious = not sums.max() <= 1 + 8 * np.finfo(block.dtype).eps
    if low >= 0 and np.all(np.abs(sums - 1) <= tolerance) and not (suspicious and block.max() > 1):
        return
    if np.isnan(block).any():
        raise ValueError(
            f"probs holds NaN, first in row {_first_nan(rows, where)}; drop or repair such rows first"
        )
    high = block.max()
    if np.isposinf(high):
        row = where.start + int(np.argmax(np.isposinf(block).any(axis=1)))
        raise ValueError(f"probs holds infinity, first in row {row}; drop or repair such rows first")
    if normalize and low >= 0:
        if np.all(sums > 0):
            return
        raise ValueError(
            f"probs has no mass in row {where.start + int(np.argmin(sums > 0))}: it is all zeros"
        )
    off = np.abs(sums - 1) > tolerance
    row = where.start + int(np.argmax(off | (block.min(axis=1) < 0) | (block.max(axis=1) > 1)))
    if high <= 0 and np.allclose(np.exp(block.astype(np.float64)).sum(axis=1), 1, atol=1e-3):
        raise ValueError(
            f"probs looks like log-probabilities (values from {low:.4g} to {high:.4g}); pass np.exp(probs)"
        )
    if (low < 0 or high > 1) and off.any():
        raise ValueError(
            f"probs looks like logits (values from {low:.4g} to {high:.4g}, row {row} sums to "
            f"{sums[row - where.start]:.4g}); pass scipy.special.softmax(probs, axis=1)"
        )
    if low < 0 or high > 1:
        raise ValueError(
            f"probs must lie between 0 and 1; found values from {low:.8g} to {high:.8g}, first in row {row}"
        )
    raise ValueError(
        f"probs must have rows that sum to 1; row {row} sums to {sums[row - where.start]:.6g} "
        "(pass normalize=True to divide by the row sums)"
    )


def _first_nan(rows: Rows, where: slice) -> int:
    return int(where.start) + int(np.argmax(np.isnan(rows[where]).any(axis=1)))


def check_labels(labels: Any, n: int, k: int, classes: Sequence[Any] | None = None) -> Ints:
    """Check labels (numbers from 0 to k - 1, or names from `classes`) and return them as numbers."""
    try:
        given = plain_array(labels)
    except ValueError:
        raise ValueError(f"labels must have the shape ({n},); found rows of different lengths") from None
    if given.shape != (n,):
        raise ValueError(f"labels must have the shape ({n},), one per row of probs; found {given.shape}")
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    if classes is not None:
        index = {name: i for i, name in enumerate(classes)}
        try:
            return np.array([index[name] for name in given.tolist()], dtype=np.int64)
        except KeyError as error:
            odd = error.args[0]
            if is_missing(odd):
                row = next(i for i, name in enumerate(given.tolist()) if is_missing(name))
                raise ValueError(f"labels has none in row {row}; drop such rows first") from None
            raise ValueError(f"labels holds {odd!r}, which is not in classes") from None
    if given.dtype.kind == "f" and np.isnan(given).any():
        raise ValueError(f"labels has none in row {int(np.argmax(np.isnan(given)))}; drop such rows first")
    if given.dtype.kind in "USO":
        raise ValueError(
            f"labels holds names such as {given.tolist()[0]!r}; pass classes= with the k class names in the "
            "order of the columns of probs"
        )
    if given.dtype.kind not in "iub":
        raise ValueError(f"labels must be whole numbers from 0 to {k - 1}; found dtype {given.dtype}")
    low, high = int(given.min()), int(given.max())
    if low < 0 or high >= k:
        hint = " (do they start at 1? then subtract 1)" if low == 1 and high == k else ""
        raise ValueError(
            f"labels must lie from 0 to {k - 1}, the columns of probs; found {low} to {high}{hint}"
        )
    return given.astype(np.int64)


def check_test(
    test_probs: Any, test_labels: Any, classes: Sequence[Any] | None, **options: Any
) -> tuple[Rows, Ints | None]:
    """Check points on which sets are to be measured, and their labels if there are some.

    `options` go to `check_probs`.
    """
    try:
        rows = check_probs(test_probs, classes=classes, **options)
    except ValueError as error:
        raise ValueError(f"test_probs: {error}") from None
    if test_labels is None:
        return rows, None
    try:
        return rows, check_labels(test_labels, rows.n, rows.k, classes)
    except ValueError as error:
        raise ValueError(f"test_labels: {error}") from None


def check_classes(classes: Any, k: int) -> tuple[Any, ...] | None:
    """Check the class names: k of them, all different."""
    if classes is None:
        return None
    try:
        names = tuple(name.item() if isinstance(name, np.generic) else name for name in classes)
        distinct = len(set(names))
    except TypeError:
        raise ValueError(f"classes must hold {k} different names; found {classes!r}") from None
    if len(names) != k or distinct != k:
        raise ValueError(
            f"classes must hold {k} different names, one per column of probs; "
            f"found {len(names)}, {distinct} of them different"
        )
    return names


def check_fraction(name: str, value: Any) -> float:
    """Check a number strictly between 0 and 1, such as alpha or delta."""
    if not _is_number(value) or not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1; found {value!r}")
    return float(value)


def check_rate(value: Any, name: str = "noise rate") -> float:
    """Check a noise rate in [0, 1)."""
    if not _is_number(value) or not 0 <= value < 1:
        raise ValueError(f"{name} must lie in [0, 1); found {value!r}")
    return float(value)


def check_interval(rate: float, interval: Any, confidence: Any) -> tuple[tuple[float, float] | None, float]:
    """Check an interval around a noise rate, if there is one, and the probability that it holds the truth."""
    if interval is None:
        if confidence != 1:
            raise ValueError("confidence is that of an interval; pass interval=(low, high) too")
        return None, 1.0
    if np.shape(interval) != (2,):
        raise ValueError(f"interval must be two numbers, low and high; found {interval!r}")
    low, high = (check_rate(end, "end of the interval of noise rates") for end in interval)
    if not low <= rate <= high:
        raise ValueError(f"interval must contain the rate {rate!r}; found {interval!r}")
    return (low, high), check_confidence(confidence)


def check_confidence(confidence: Any) -> float:
    """Check a probability of being right, which may be 1."""
    return 1.0 if confidence == 1 else check_fraction("confidence", confidence)


def check_priors(priors: Any, k: int, name: str = "priors") -> Floats:
    """Check class probabilities: k positive numbers that sum to 1."""
    given = np.asarray(priors, dtype=np.float64)
    if given.shape != (k,) or not np.all(given > 0) or abs(given.sum() - 1) > 1e-6:
        raise ValueError(
            f"{name} must be {k} positive numbers that sum to 1; found shape {given.shape}, "
            f"smallest {given.min(initial=np.inf):.4g}, sum {given.sum():.6g}"
        )
    return given


def check_nonnegative(name: str, value: Any) -> float:
    """Check a finite number of at least 0."""
    if not _is_number(value) or not 0 <= value < np.inf:
        raise ValueError(f"{name} must be a number of at least 0; found {value!r}")
    return float(value)


def check_count(name: str, value: Any) -> int:
    """Check a whole number of at least 0."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0; found {value!r}")
    return int(value)


def check_seed(name: str, value: Any) -> int:
    """Check a whole number."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number; found {value!r}")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """Check True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; found {value!r}")
    return bool(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Check one of a few words."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; found {value!r}")
    return str(value)


def _is_number(value: Any) -> bool:
    return _is_real(value) and not isinstance(value, bool | np.bool_)


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real)


def set_checked(instance: object, **values: Any) -> None:
    """Put checked values into the fields of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)
