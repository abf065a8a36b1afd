"""The NumPy engine, which is always available and defines the results of the verbs.

Each verb is a pure function of one block of rows, so blocks can be processed in any order, in threads or on a
cluster. `values` is a matrix of float32 or float64. The weights of pairs (row, label) are all 1, or integers:
``table[which[i]]`` has those of row i.
"""

from typing import Any, NamedTuple

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.coverage import grid
from nacp.engine.formula import Expression
from nacp.engine.hashing import hashed_uniforms as uniforms
from nacp.engine.ranks import (
    evaluate,
    falling_scores,
    ranks_of_labels,
    ranks_of_sorted,
    rounds_once,
    sort_rows,
)
from nacp.engine.spec import Spec
from nacp.errors import InputError
from nacp.stats.betting import play as bet

__all__ = ["NAME", "bet", "check", "label_scores", "scores", "sets", "shares", "tally", "uniforms"]

NAME = "numpy"


def check(values: Array, tolerance: float) -> bool:
    """Return whether all rows are probabilities: entries in [0, 1] that sum to 1."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = values.sum(axis=1, dtype=np.float64)
    if not values.min(initial=0) >= 0 or not np.all(np.abs(sums - 1) <= tolerance):
        return False
    # No entry of a nonnegative row exceeds the sum of the row.
    most = 1 + 8 * np.finfo(values.dtype).eps
    return bool(sums.max(initial=0) <= most or values.max() <= most)


def _u(values: Array, spec: Spec) -> Floats | None:
    return None if spec.seed is None else uniforms(values, spec.seed)


def scores(values: Array, spec: Spec) -> Floats:
    """Return the native scores of all labels: (rows, k)."""
    if spec.kernel == "ranked":
        found = np.empty(values.shape)
        in_order, columns = _ranked_scores(values, spec, placed=True)
        assert columns is not None
        np.put_along_axis(found, columns[:, ::-1], in_order, axis=1)
        return found
    if spec.kernel == "function":
        assert spec.function is not None
        return _checked(spec.function(values), values.shape)
    if spec.kernel == "pointwise":
        assert spec.formula is not None
        return _checked(evaluate(spec.formula, _Entries(values)), values.shape)
    exact = values.astype(np.float64)
    return -exact if spec.kernel == "hps" else np.maximum(exact, np.finfo(np.float64).min)


def _ranked_scores(values: Array, spec: Spec, placed: bool) -> tuple[Floats, Ints | None]:
    """Return scores from the most to the least probable label of each row, and the columns of `sort_rows`."""
    assert spec.formula is not None
    ascending, columns = sort_rows(values, placed)
    scores = np.broadcast_to(
        evaluate(spec.formula, ranks_of_sorted(ascending, _u(values, spec))), values.shape
    )
    if not (scores[:, 1:] >= scores[:, :-1]).all():
        raise falling_scores()
    return scores, columns


class _Entries:
    """The only quantity of a pointwise score."""

    def __init__(self, p: Array) -> None:
        self.p = p


def _checked(found: Any, shape: tuple[int, ...]) -> Floats:
    """Raise an error if a user-defined score did not return one number per entry."""
    try:
        given = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("score", "must return numbers", found=type(found).__name__) from None
    if given.shape != shape:
        raise InputError(
            "score",
            f"returned an array of shape {given.shape} for {shape} probabilities; it must return one score "
            "per entry",
        )
    if np.isnan(given).any():
        raise InputError("score", "returned NaN; it must return numbers (inf is allowed)")
    return np.maximum(given, np.finfo(np.float64).min)


def label_scores(values: Array, spec: Spec, labels: Ints) -> Floats:
    """Return the native score of one given label per row."""
    rows = np.arange(len(labels))
    if spec.kernel in ("hps", "entries"):
        return scores(values[rows, labels][:, None], spec)[:, 0]
    if spec.kernel == "ranked" and rounds_once(spec.formula):
        assert isinstance(spec.formula, Expression)
        found = evaluate(spec.formula, ranks_of_labels(values, labels, _u(values, spec)))
        return np.broadcast_to(found, (len(rows), 1))[:, 0].astype(np.float64)
    return scores(values, spec)[rows, labels]


class _Pairs(NamedTuple):
    """Pairs of a row and a label, and the cells of their scores."""

    rows: Ints
    columns: Ints | None  # None if not requested
    cells: Ints


def _pairs(values: Array, spec: Spec, placed: bool, highest: int = grid.INFINITE) -> _Pairs:
    """Return at least the pairs in cells up to `highest`, with their columns if `placed`."""
    n, k = values.shape
    rows = np.repeat(np.arange(n), k)
    if spec.kernel == "ranked":
        found, columns = _ranked_scores(values, spec, placed)
        ordered = None if columns is None else columns[:, ::-1].reshape(-1)
        return _Pairs(rows, ordered, grid.cells_of(found).reshape(-1))
    if spec.kernel == "hps" and highest < grid.INFINITE:
        flat = np.flatnonzero(values.reshape(-1) >= -spec.thresholds[highest])
        return _Pairs(flat // k, flat % k, _cells_of_probabilities(values.reshape(-1)[flat]))
    if spec.kernel == "hps":
        return _Pairs(rows, np.tile(np.arange(k), n), _cells_of_probabilities(values.reshape(-1)))
    return _Pairs(rows, np.tile(np.arange(k), n), spec.cells_of(scores(values, spec)).reshape(-1))


def _cells_of_probabilities(p: Array) -> Ints:
    """Return the cells of the scores 1 - p; those of float32 below 1/2 from their leading bits."""
    if p.dtype != np.float32:
        return grid.cells_of_probabilities(p)
    cells: Ints = _CELLS_OF_CODES[np.minimum(np.abs(p).view(np.uint32) >> 13, _CODE_OF_HALF - 1)]
    large = np.flatnonzero(p >= 0.5)
    cells[large] = grid.cells_of_probabilities(p[large])
    return cells


_CODE_OF_HALF = 126 << 10  # the first 19 bits of 1/2 as a float32
_CELLS_OF_CODES: Ints = grid.cells_of_probabilities(
    (np.arange(_CODE_OF_HALF, dtype=np.uint32) << 13).view(np.float32)
)


def tally(
    values: Array, spec: Spec, which: Ints | None = None, table: Ints | None = None
) -> tuple[int, Ints]:
    """Count pairs by cell: return the first cell that contains a pair, and histograms from it to the last.

    Without a table of weights, there is one histogram, the number of pairs: shape (1, cells). With a table
    there are three: pairs, sums of positive weights, and sums of the absolute values of negative weights.
    """
    pairs = _pairs(values, spec, placed=table is not None)
    if not len(pairs.cells):
        return 0, np.zeros((1 if table is None else 3, 0), dtype=np.int64)
    first = int(pairs.cells.min())
    places = pairs.cells - first
    counts = np.bincount(places)[None]
    if table is None:
        return first, counts
    assert which is not None
    weights, sums = table[which[pairs.rows], pairs.columns], np.zeros((2, counts.shape[1]), dtype=np.int64)
    np.add.at(sums[0], places, np.maximum(weights, 0))
    np.add.at(sums[1], places, np.maximum(-weights, 0))
    return first, np.concatenate([counts, sums])


def shares(
    values: Array,
    spec: Spec,
    cells: Ints,
    own: Floats,
    label_cells: Ints,
    scale: float,
    which: Ints | None = None,
    table: Ints | None = None,
) -> Floats:
    """Return the share of each row: ``sum of own over given labels in the set + scale * weight of the set``.

    Parameters
    ----------
    cells : array of shape (thresholds,)
        The thresholds, as places in the grid, ascending.
    own, label_cells : arrays of shape (rows, given)
        The weight that each given label of a row adds, and the cell of its score.
    scale : float
        The factor of the integer weights.

    Returns
    -------
    array of shape (rows, thresholds)
    """
    pairs = _pairs(values, spec, table is not None, int(cells[-1]))
    shape = len(values), len(cells) + 1
    weights = None if table is None or which is None else table[which[pairs.rows], pairs.columns]
    # Floats represent sums of integers below 2^53 exactly.
    first = pairs.rows * shape[1] + np.searchsorted(cells, pairs.cells)
    weight = np.bincount(first, weights, shape[0] * shape[1])
    weight = weight.reshape(shape)
    found: Floats = np.cumsum(weight[:, :-1], axis=1) * np.float64(scale) + 0.0  # no -0.0
    for value, cell in zip(own.T, label_cells.T, strict=True):
        found += np.where(cell[:, None] <= cells, value[:, None], 0.0)
    return found


def sets(values: Array, spec: Spec, thresholds: Floats, allow_empty: bool = True) -> tuple[Ints, Array]:
    """Return the sizes of the sets ``{l : S(x, l) <= threshold}``, and their labels (int32) row by row.

    Parameters
    ----------
    thresholds : array of shape (1, 1), (rows, 1) or (1, k)
        Native thresholds: one for all, one for each row, or one for each label.
    allow_empty : bool
        If False, a set that would be empty holds the label with the lowest score (for ranked scores, the most
        probable label) and its ties.
    """
    found = scores(values, spec)
    inside: Bools = found <= thresholds
    if not allow_empty:
        empty = np.flatnonzero(~inside.any(axis=1))
        some = -values[empty] if spec.kernel == "ranked" else found[empty]
        inside[empty] = some == some.min(axis=1, keepdims=True)
    labels = np.flatnonzero(inside) % inside.shape[1]  # much faster than the columns of np.nonzero
    return np.count_nonzero(inside, axis=1), labels.astype(np.int32)
