"""Where labels stand in their rows: the quantities that ranked scores are made of.

Sums of probabilities are exact in any order, because every probability is first rounded to a multiple of
2^-52: the partial sums of a row stay below 2, where float64 holds all such multiples. So a label's score has
the same bits whether its row was sorted or not.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine.formula import Expression
from nacp.errors import InputError

# Operations that round once and correctly, so that their bits depend on the numbers alone.
_ARITHMETIC = {"add", "subtract", "multiply", "divide", "sqrt", "negative", "absolute"}
_CHOICES = {"maximum", "minimum", "where"}
_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
EXACT = _ARITHMETIC | _CHOICES | _COMPARISONS


class Ranks(NamedTuple):
    """The quantities of labels, as arrays that broadcast against each other."""

    p: Array
    above: Array
    upto: Array
    n_above: Array
    n_upto: Array
    top: Array
    second: Array
    u: Array | None


def on_grid(p: Array) -> Floats:
    """Round to multiples of 2^-52, and what rounding has put above 1 to 1."""
    rounded: Floats = (np.minimum(p, 1.0, dtype=np.float64) + 1.0) - 1.0
    return rounded


def evaluate(formula: Expression | Callable[[Any], Any], ranks: Any) -> Array:
    """Return the value of a formula; the best possible score, -inf, becomes the lowest finite number."""
    found = np.asarray(_value(formula, ranks) if isinstance(formula, Expression) else formula(ranks))
    return np.maximum(found, np.finfo(found.dtype).min) if found.dtype.kind == "f" else found.astype(float)


def _value(formula: Expression | float, ranks: Any) -> Any:
    if not isinstance(formula, Expression):
        return formula
    if not formula.parts:
        return getattr(ranks, formula.name)
    return getattr(np, formula.name)(*(_value(part, ranks) for part in formula.parts))


def falling_scores() -> InputError:
    """Return the error for a ranked score that is no number, or falls along a row."""
    return InputError(
        "score",
        "must be a number, and must not fall from the most to the least probable label of a row",
        remedy="use a function of the rows, as in nacp.calibrate(..., score=function)",
    )


def rounds_once(formula: object) -> bool:
    """Return whether all operations of a formula are exact or round once."""
    if not isinstance(formula, Expression):
        return not callable(formula)
    return (not formula.parts or formula.name in EXACT) and all(map(rounds_once, formula.parts))


def sort_rows(values: Array, placed: bool) -> tuple[Array, Ints | None]:
    """Sort each row in ascending order; return also the columns that the entries come from, if `placed`.

    No entry is negative, but zeros may have a sign.
    """
    if not placed:
        return np.sort(values, axis=1), None
    if values.dtype == np.float32:  # Sorting bits and column as one integer is faster than `argsort`.
        words = values.view(np.int32).astype(np.int64) << 32
        words |= np.arange(values.shape[1])
        words.sort(axis=1)
        return (words >> 32).astype(np.int32).view(np.float32), words & 0xFFFFFFFF
    columns = np.argsort(values, axis=1)
    return np.take_along_axis(values, columns, axis=1), columns


def ranks_of_sorted(ascending: Array, u: Floats | None) -> Ranks:
    """Return the quantities of all labels of sorted rows, from the most to the least probable one.

    Labels with equal probabilities share their ranks.
    """
    values = ascending[:, ::-1]
    n, k = values.shape
    p = on_grid(values)
    mass = np.zeros((n, k + 1))
    np.cumsum(p, axis=1, out=mass[:, 1:])
    first, last = np.broadcast_to(np.arange(k), (n, k)), np.broadcast_to(np.arange(1, k + 1), (n, k))
    changes = values[:, 1:] != values[:, :-1]
    if not changes.all():
        first, last = first.copy(), last.copy()
        first[:, 1:][~changes] = 0
        last[:, :-1][~changes] = k
        first = np.maximum.accumulate(first, axis=1)
        last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
        above, upto = np.take_along_axis(mass, first, axis=1), np.take_along_axis(mass, last, axis=1)
    else:
        above, upto = mass[:, :-1], mass[:, 1:]
    places = first.astype(np.float64), last.astype(np.float64)
    return Ranks(p, above, upto, *places, p[:, :1], p[:, 1:2], None if u is None else u[:, None])


def ranks_of_labels(values: Array, labels: Ints, u: Floats | None) -> Ranks:
    """Return the quantities of one label per row, of shape (rows, 1), from rows in any order."""
    p, own = on_grid(values), values[np.arange(len(labels)), labels][:, None]
    larger, as_large = values > own, values >= own
    top_two = np.partition(p, -2, axis=1)
    return Ranks(
        on_grid(own),
        np.sum(p, axis=1, keepdims=True, where=larger),
        np.sum(p, axis=1, keepdims=True, where=as_large),
        np.count_nonzero(larger, axis=1, keepdims=True).astype(np.float64),
        np.count_nonzero(as_large, axis=1, keepdims=True).astype(np.float64),
        top_two[:, -1:],
        top_two[:, -2:-1],
        None if u is None else u[:, None],
    )
