"""Rows of which the top entries are known."""

from collections.abc import Callable
from typing import Any

import numpy as np

from nacp._types import Array, Ints
from nacp.checks import check_count
from nacp.engine import is_tensor
from nacp.errors import InputError
from nacp.points.arrays import Where
from nacp.points.tensors import on_host

_TOLERANCE = 1e-3  # for the sum of a row


class TopRows:
    """Rows of probabilities given by their top entries.

    Pass it as `probs`, to calibrate and to predict. The mass that is missing to 1 is spread evenly over the
    other entries of a row. Rows are expanded block by block: scores, thresholds and sets are those of
    `toarray`. Every promise holds for the expanded rows, whatever the omitted entries were. If they are 0,
    pass a scipy.sparse array instead.

    Parameters
    ----------
    indices : array of shape (n, m)
        The classes of the m largest entries of each row, in any order.
    values : array of shape (n, m)
        Their probabilities, in float32 or float64. Convert log-probabilities by ``np.exp(logprobs)``.
    k : int
        The number of classes, larger than m.

    Examples
    --------
    >>> import nacp
    >>> rows = nacp.TopRows([[2, 0], [1, 3]], [[0.75, 0.125], [0.5, 0.25]], k=6)
    >>> rows.toarray()[0].tolist()
    [0.125, 0.03125, 0.75, 0.03125, 0.03125, 0.03125]
    >>> cal = nacp.calibrate(rows, [2, 1], noise=None, alpha=0.5)
    >>> cal.predict_set(rows).to_lists()
    [[2], [1]]
    """

    def __init__(self, indices: Any, values: Any, k: int) -> None:
        columns, kept = on_host(indices, "indices"), on_host(values, "values")
        if columns.ndim != 2 or columns.dtype.kind not in "iu":
            raise InputError(
                "indices",
                "must be whole numbers of the shape (n, m)",
                found=f"{columns.dtype}, {columns.shape}",
            )
        given = values if is_tensor(values) else kept  # The array of a bfloat16 tensor is float32.
        if kept.shape != columns.shape or kept.dtype.kind != "f" or given.itemsize < 4:
            raise InputError(
                "values",
                f"must be float32 or float64 of the shape of indices, {columns.shape}",
                found=f"{given.dtype}, {kept.shape}",
            )
        n, m = columns.shape
        self.shape: tuple[int, int] = n, check_count("k", k, m + 1)
        if m == 0:
            raise InputError("indices", "must have at least one column")
        if n and (columns.min() < 0 or columns.max() >= k):
            found = f"{columns.min()} to {columns.max()}"
            raise InputError("indices", f"must lie from 0 to {k - 1}, for {k:,} classes", found=found)
        self.indices: Ints = columns.astype(np.int64)
        self.values: Array = kept.astype(np.float32 if kept.dtype == np.float32 else np.float64)
        self._others = self._check()

    def _check(self) -> Array:
        """Check the rows; return the value of the other entries of each row."""
        k, m = self.shape[1], self.indices.shape[1]
        twice = np.diff(np.sort(self.indices, axis=1), axis=1) == 0
        _refuse(twice.any(axis=1), "indices", lambda row: f"has a class more than once in row {row}")
        odd = ~((self.values >= 0) & (self.values <= 1))  # including NaN
        _refuse(
            odd.any(axis=1),
            "values",
            lambda row: (
                f"must be probabilities, from 0 to 1; row {row} holds {self.values[row][odd[row]][0]:g}"
            ),
        )
        sums, least = self.values.sum(axis=1, dtype=np.float64), self.values.min(axis=1)
        _refuse(
            sums > 1 + _TOLERANCE,
            "values",
            lambda row: f"must not sum to more than 1; row {row} sums to {sums[row]:.6g}",
        )
        missing = np.maximum(1 - sums, 0.0)
        even = (missing / (k - m)).astype(self.values.dtype)
        _refuse(
            (even > least) & (missing > _TOLERANCE),  # Otherwise it is a rounding error.
            "values",
            lambda row: (
                f"must be the largest entries of their rows; in row {row} the {k - m:,} others sum to "
                f"{missing[row]:.4g}, so at least one of them exceeds {least[row]:.4g}"
            ),
            remedy="keep more entries",
        )
        found: Array = np.minimum(even, least)
        return found

    def toarray(self, rows: Where = slice(None)) -> Array:
        """Return all or some expanded rows: (n, k)."""
        found = np.repeat(self._others[rows, None], self.shape[1], axis=1)
        np.put_along_axis(found, self.indices[rows], self.values[rows], axis=1)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.toarray().astype(dtype or self.values.dtype, copy=False)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Ints) -> "TopRows":
        """Return a subset of the rows."""
        if not isinstance(rows, slice) and np.ndim(rows) != 1:
            raise InputError("rows", "must be a slice or an array, as in rows[:100]", found=repr(rows))
        return TopRows(self.indices[rows], self.values[rows], self.shape[1])

    def __repr__(self) -> str:
        (n, k), m = self.shape, self.indices.shape[1]
        return f"TopRows({n:,} rows, {m:,} of {k:,} entries each)"


def _refuse(wrong: Any, argument: str, problem: Callable[[int], str], remedy: str | None = None) -> None:
    """Raise an error about the first wrong row, if there is one."""
    if wrong.any():
        raise InputError(argument, problem(int(wrong.argmax())), remedy=remedy)
