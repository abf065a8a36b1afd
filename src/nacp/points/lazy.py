"""The rows of a dask array: functions are applied to each chunk where it is stored.

dask is imported only if a dask array was passed.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from nacp._types import Ints
from nacp.errors import InputError
from nacp.points.arrays import Rows, is_lazy, tell, watching
from nacp.points.opening import open_rows

_BRANCHES = 16  # of the tree that combines results


def in_memory(name: str, values: Any, where: str) -> None:
    """Raise an error for a dask array if rows are needed in memory."""
    if is_lazy(values):
        raise InputError(
            name,
            f"cannot be a dask array {where}: rows are needed in memory",
            remedy=f"pass {name}.compute()",
        )


class LazyRows:
    """The rows of a dask array in chunks, as returned by `open_lazy`.

    Attributes
    ----------
    n, k : int
        The numbers of rows and of classes.
    logits : bool
        Whether the array holds logits.
    starts, sizes : arrays of int
        The first row and the number of rows of each nonempty chunk.
    """

    def __init__(self, array: Any, options: dict[str, Any]) -> None:
        self.n, self.k = map(int, array.shape)
        self.logits = bool(options.get("from_logits", False))
        self._array, self._options = array, options
        sizes = np.array(array.chunks[0], dtype=np.int64)
        self._held = sizes > 0
        self.starts: Ints = (np.cumsum(sizes) - sizes)[self._held]
        self.sizes: Ints = sizes[self._held]

    def map(
        self, function: Callable[..., Any], *arrays: Any, join: Callable[[list[Any]], Any] | None = None
    ) -> Any:
        """Apply `function(rows, *parts)` to the checked `Rows` of each chunk; return the results in order.

        `parts` are the rows of `arrays` (NumPy or dask arrays of the same length) that belong to the chunk.
        With `join`, a function of a list of results, the results are combined in a tree, in their order. An
        `InputError` from a chunk is raised here.
        """
        from dask.base import compute
        from dask.delayed import delayed

        once = delayed((function, self._options), traverse=False)
        apply = delayed(_applied, pure=False, traverse=False)
        columns = [self._chunks_of(each) for each in (self._array, *arrays)]
        found = [
            apply(once, start, *parts) for start, *parts in zip(self.starts.tolist(), *columns, strict=True)
        ]
        if join is not None:
            meet = delayed(_joined, pure=False, traverse=True)
            found = [meet(join, found)] if len(found) <= _BRANCHES else found
            while len(found) > 1:
                found = [meet(join, found[i : i + _BRANCHES]) for i in range(0, len(found), _BRANCHES)]
        with warnings.catch_warnings():
            # The graph contains the arguments of the function and the parts of NumPy arrays.
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            results = list(compute(*found))  # type: ignore[no-untyped-call]
        tell(self.n)
        for each in results:
            if isinstance(each, InputError):
                raise each
        return results if join is None else results[0]

    def _chunks_of(self, array: Any) -> list[Any]:
        """Return the rows of an array for each chunk."""
        if not is_lazy(array):
            return [array[i : i + size] for i, size in zip(self.starts, self.sizes, strict=True)]
        if array.shape[:1] != (self.n,) or np.isnan(array.shape).any():
            raise InputError("labels", f"must have {self.n:,} rows, one per row of probs", found=array.shape)
        whole = array.rechunk((self._array.chunks[0], *((size,) for size in array.shape[1:])))
        return list(whole.to_delayed().reshape(-1)[self._held])


def _applied(once: tuple[Any, dict[str, Any]], start: int, matrix: Any, *parts: Any) -> Any:
    function, options = once
    try:
        with watching(None):
            rows: Rows = open_rows(np.asarray(matrix), start=start, **options)
            return function(rows, *parts)
    except InputError as error:
        return error


def _joined(join: Callable[[list[Any]], Any], results: list[Any]) -> Any:
    refusal = next((each for each in results if isinstance(each, InputError)), None)
    return join(results) if refusal is None else refusal


def open_lazy(probs: Any, *, least: int = 1, **options: Any) -> LazyRows:
    """Check the shape and the type of a dask array as `open_rows` does; `map` checks its rows."""
    name = options.setdefault("name", "probs")
    if probs.ndim != 2:
        raise InputError(name, "must have the shape (n, k)", found=f"{probs.shape}")
    if np.isnan(probs.shape).any():
        raise InputError(
            name, "has chunks of unknown size", remedy=f"call {name}.compute_chunk_sizes() before"
        )
    if probs.numblocks[1] > 1:
        raise InputError(
            name,
            f"must have whole rows in each chunk, and has {probs.numblocks[1]:,} chunks of columns",
            remedy=f"pass {name}.rechunk({{1: -1}})",
        )
    if probs.shape[0] < least:
        raise InputError(name, f"is empty: its shape is {probs.shape}")
    open_rows(np.empty((0, probs.shape[1]), dtype=probs.dtype), least=0, **options)
    return LazyRows(probs, options)
