"""Rows of which the top entries are known: a language model's top probabilities, or a sparse matrix."""

from collections.abc import Callable
from typing import Any

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.checks import check_choice, check_count
from nacp.engine import Lumped, PerLabel, PerRow, is_tensor
from nacp.engine.lumped import Block, scored
from nacp.errors import InputError
from nacp.points.arrays import Rows, Widths, tell
from nacp.points.tensors import on_host

_SPARSE = "pass probs.toarray(), or nacp.TopRows if only the top entries of rows are known"
_TOLERANCE = 1e-3  # by how much a row's sum may exceed 1, and miss it where the others are 0


class TopRows:
    """Rows of probabilities by their top entries, and a rule for the others.

    Pass it in place of `probs`, to calibrate and to predict. With uniform noise, time and memory are those of
    the entries that are kept, not of all k. Scores, thresholds and sets are exactly those of the rows written
    out by the rule (`toarray`). A rule makes a score as any other does, so every promise holds, whatever the
    entries were that were not kept.

    Parameters
    ----------
    indices : array of shape (n, m)
        The classes of the entries that are kept, in any order within a row; the largest of the row.
    values : array of shape (n, m)
        Their probabilities, in float32 or float64. Of log-probabilities, ``np.exp(logprobs)``.
    k : int
        The number of classes; more than m.
    rest : {"even", "zero"}, default="even"
        What the other entries are. "even": nobody knows; what is missing to 1 is shared evenly among them.
        `Calibration.predict_set` then returns a set only if the kept entries decide it: whatever the others
        are, each at most as large as the least that is kept and as all that is missing, the set is the same.
        Else it says which row keeps too few. "zero": they are 0, and the kept ones sum to 1.

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

    def __init__(self, indices: Any, values: Any, k: int, rest: str = "even") -> None:
        columns, kept = on_host(indices, "indices"), on_host(values, "values")
        self.rest = check_choice("rest", rest, ("even", "zero"))
        if columns.ndim != 2 or columns.dtype.kind not in "iu":
            raise InputError(
                "indices",
                "must be whole numbers of the shape (n, m)",
                found=f"{columns.dtype}, {columns.shape}",
            )
        given = values if is_tensor(values) else kept  # on the host bfloat16 is float32
        if kept.shape != columns.shape or kept.dtype.kind != "f" or given.itemsize < 4:
            raise InputError(
                "values",
                f"must be float32 or float64 of the shape of indices, {columns.shape}",
                found=f"{given.dtype}, {kept.shape}",
            )
        n, m = columns.shape
        self.shape: tuple[int, int] = n, check_count("k", k, m + 1)
        if m == 0:
            raise InputError("indices", "keeps no entry of a row")
        kept = kept if kept.dtype in (np.float32, np.float64) else kept.astype(np.float64)
        if n and (columns.min() < 0 or columns.max() >= k):
            found = f"{columns.min()} to {columns.max()}"
            raise InputError("indices", f"must lie from 0 to {k - 1}, for {k:,} classes", found=found)
        # Stable: the order among equal ones plays no part, but is the same each time.
        order = np.argsort(-kept, axis=1, kind="stable")
        self.indices: Ints = np.take_along_axis(columns, order, axis=1).astype(np.int32)
        self.values: Array = np.take_along_axis(kept, order, axis=1)
        self._check()
        for array in (self.indices, self.values, self.others, self.missing):
            array.flags.writeable = False

    def _check(self) -> None:
        (n, k), m = self.shape, self.indices.shape[1]
        twice: Array = np.any(np.diff(np.sort(self.indices, axis=1), axis=1) == 0, axis=1)
        _refuse(twice, "indices", lambda row: f"has a class more than once in row {row}")
        odd: Array = ~((self.values >= 0) & (self.values <= 1))  # NaN, too
        _refuse(
            np.any(odd, axis=1),
            "values",
            lambda row: (
                f"must be probabilities, from 0 to 1; row {row} holds {self.values[row][odd[row]][0]:g}"
            ),
        )
        sums = self.values.sum(axis=1, dtype=np.float64)
        _refuse(
            sums > 1 + _TOLERANCE,
            "values",
            lambda row: f"must not sum to more than 1; row {row} sums to {sums[row]:.6g}",
        )
        self.missing: Floats = np.maximum(1 - sums, 0.0)
        if self.rest == "zero":
            _refuse(
                self.missing > _TOLERANCE,
                "values",
                lambda row: f"must sum to 1 where the others are 0; row {row} sums to {sums[row]:.6g}",
                remedy='pass rest="even", if the others are not known',
            )
            self.missing = np.zeros(n)
        least, even = self.values[:, -1], (self.missing / (k - m)).astype(self.values.dtype)
        self.others: Array = np.minimum(even, least)
        _refuse(
            (even > least) & (self.missing > _TOLERANCE),  # else it is rounding
            "values",
            lambda row: (
                f"must be the largest of their rows; in row {row} the {k - m:,} others have a mass of "
                f"{self.missing[row]:.4g}, so that one of them exceeds {self.values[row, -1]:.4g}"
            ),
            remedy="keep more entries",
        )

    @classmethod
    def from_sparse(cls, matrix: Any, rest: str = "zero") -> "TopRows":
        """Return the rows of a sparse matrix of scipy, (n, k); entries that it does not have are the others.

        Parameters
        ----------
        matrix : scipy.sparse array
            Probabilities.
        rest : {"zero", "even"}, default="zero"
            As in `TopRows`.

        Examples
        --------
        >>> import nacp
        >>> import scipy.sparse
        >>> probs = scipy.sparse.csr_array([[0.75, 0.0, 0.25], [0.0, 1.0, 0.0]])
        >>> nacp.TopRows.from_sparse(probs).indices.tolist()
        [[0, 2], [1, 0]]
        """
        rows = matrix.tocsr(copy=True)
        rows.sum_duplicates()
        n, k = rows.shape
        numbers = np.diff(rows.indptr)
        m = min(int(numbers.max(initial=1)), k - 1)
        if rest == "even" and (numbers != m).any():
            raise InputError(
                "matrix", "must have the same number of entries in each row where the others are not known",
                found=f"{numbers.min()} to {numbers.max()}",
            )  # fmt: skip
        if numbers.max(initial=0) == k:
            raise InputError("matrix", "has a row with all entries", remedy="pass matrix.toarray()")
        indices, values = np.zeros((n, m), dtype=np.int64), np.zeros((n, m), dtype=rows.dtype)
        inside = np.arange(m) < numbers[:, None]
        indices[inside], values[inside] = rows.indices, rows.data
        # A row with fewer entries is filled with classes that it has not, at 0.
        for row in np.flatnonzero(numbers < m):
            own = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
            free = np.setdiff1d(np.arange(m), own)
            indices[row, numbers[row] :] = free[: m - numbers[row]]
        return cls(indices, values, k, rest)

    def toarray(self) -> Array:
        """Return the rows written out: (n, k)."""
        return self.some(slice(None)).whole()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.toarray().astype(dtype or self.values.dtype, copy=False)

    def some(self, rows: slice | Ints) -> Lumped:
        """Return some rows, for the engine."""
        return Lumped(self.indices[rows], self.values[rows], self.others[rows], self.shape[1])

    @property
    def kept(self) -> int:
        """How many entries of each row are kept."""
        return int(self.indices.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Ints) -> "TopRows":
        """Return some of the rows."""
        if not isinstance(rows, slice) and np.ndim(rows) != 1:
            raise InputError("rows", "must be a slice or an array, as in rows[:100]", found=repr(rows))
        return TopRows(self.indices[rows], self.values[rows], self.shape[1], self.rest)

    def __repr__(self) -> str:
        (n, k), m = self.shape, self.kept
        return f"TopRows({n:,} rows, {m:,} of {k:,} entries each, rest={self.rest!r})"


class SparseRows(Rows):
    """Rows of which the top entries are known."""

    in_files = False

    def __init__(self, top: TopRows) -> None:
        super().__init__(top)  # type: ignore[arg-type]
        self._top = top

    @property
    def entries(self) -> int:
        return self._top.kept + 1

    @property
    def widths(self) -> Widths:
        name = self._top.values.dtype.name
        return Widths(name, name)

    def widths_with(self, others: Widths | None) -> Widths:
        return self.widths

    def some(self, rows: Ints) -> "SparseRows":
        return SparseRows(self._top[rows])

    def peek(self, rows: slice | Ints, columns: Ints) -> Array:
        return self._top.some(rows).at(columns)

    def __getitem__(self, where: slice | Ints) -> Any:
        tell(len(self._top.indices[where]))
        return self._top.some(where)

    def whole(self, where: slice | Ints) -> Array:
        return self._top.some(where).whole()

    def refuse_undecided(self, block: Any, start: int, threshold: float | PerLabel | PerRow) -> None:
        """Refuse rows whose set at a threshold might be another one if the others were not all the same."""
        if self._top.rest == "zero":
            return
        where = slice(start, start + block.shape[0])
        given = threshold.values if isinstance(threshold, PerLabel | PerRow) else np.array(threshold)
        most: Floats = np.where(given < np.inf, given, -np.inf)  # infinite ones hold whatever there is
        if isinstance(threshold, PerLabel):
            every = np.tile(most, (block.shape[0], 1))
            np.put_along_axis(every, block.rows.columns, -np.inf, axis=1)
            most = every.max(axis=1)
        undecided = lowest_others(block, self._top.missing[where]) <= most
        if not undecided.any():
            return
        highest = most.max()
        always = f"; {int(-1 / highest):,} always do" if block.is_minus_p and highest < 0 else ""
        raise InputError(
            "probs",
            f"keeps too few entries to decide the set of row {start + int(undecided.argmax())}: labels "
            f"that are not kept might belong to it, as in {undecided.sum():,} of {len(undecided):,} rows",
            found=f"{self._top.kept:,} entries in each row",
            remedy=f"keep more{always}",
        )


def lowest_others(block: Block, missing: Floats) -> Floats:
    """Return the lowest score that an entry might have that is not kept, or that a kept one might come to.

    A score that does not fall as one goes down the row is at least that of the last entry that is kept. If
    less is missing than that is large, no other entry can be as large: it comes after all that are kept, with
    any probability up to what is missing. Scores are monotone in it, so those at the ends bound it.
    """
    values = block.rows.values
    most = missing + values.shape[1] * np.finfo(values.dtype).eps  # the kept ones may have been rounded up
    ends = [scored(values, end, 1, block.spec, block.u)[1] for end in (most, np.zeros(len(most)))]
    found: Floats = np.where(most < values[:, -1], np.minimum(*ends), block.given[:, -1])
    return found


def _refuse(wrong: Array, argument: str, said: Callable[[int], str], remedy: str | None = None) -> None:
    """Refuse rows, if some are wrong; say what is with the first."""
    if wrong.any():
        raise InputError(argument, said(int(wrong.argmax())), remedy=remedy)


def open_top(
    probs: Any, probabilities: bool, changed: bool, k: int | None, name: str, widths: Widths | None
) -> SparseRows | None:
    """Return such rows, or a sparse matrix of scipy, as rows to read from; None of anything else."""
    if isinstance(probs, TopRows):
        top = probs
    elif hasattr(probs, "tocsr"):
        try:
            top = TopRows.from_sparse(probs)
        except InputError as error:
            what = f"is a sparse matrix, whose other entries are 0, and {error.problem}"
            raise InputError(name, what, found=error.found, remedy=_SPARSE) from None
    else:
        return None
    if changed or not probabilities:
        what = (
            "must be whole rows where they are normalised or are logits"
            if changed
            else "must hold all scores"
        )
        raise InputError(name, what, found=repr(top), remedy="pass probs.toarray()")
    if k is not None and top.shape[1] != k:
        raise InputError(
            name, f"has {top.shape[1]:,} columns, but the calibration was made with {k:,} classes"
        )
    if widths is not None and top.values.itemsize < np.dtype(widths.least).itemsize:
        raise InputError(
            name,
            f"is {top.values.dtype}, but the calibration was made with {widths.given}",
            remedy=f"calibrate with {top.values.dtype} too",
        )
    if widths is not None and top.values.itemsize > np.dtype(widths.given).itemsize:
        top = TopRows(top.indices, top.values.astype(widths.given), top.shape[1], top.rest)
    return SparseRows(top)
