"""Where labels stand in their rows: the quantities that ranked scores are made of.

Sums of probabilities are exact in any order, because every probability is first rounded to a multiple of
2^-52: the partial sums of a row stay below 2, where float64 holds all such multiples. So a label's score has
the same bits whether its row was sorted or not.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine.formula import Expression

_UNIT = 2.0**-52
# Operations that round once and correctly, so that their bits depend on the numbers alone.
EXACT = {
    "add", "subtract", "multiply", "divide", "sqrt", "negative", "absolute", "maximum", "minimum", "where",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
}  # fmt: skip


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
    """Round to multiples of 2^-52; the identity for float32 values of at least 2^-29."""
    rounded: Floats = (p.astype(np.float64) + 1.0) - 1.0
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


def rounds_once(formula: object) -> bool:
    """Return whether all operations of a formula are exact or round once."""
    if not isinstance(formula, Expression):
        return not callable(formula)
    return (not formula.parts or formula.name in EXACT) and all(map(rounds_once, formula.parts))


def masses(values: Array) -> Ints:
    """Return the sums of the first so many entries of rows, from none to all, as multiples of 2^-52."""
    found = np.zeros((values.shape[0], values.shape[1] + 1), dtype=np.int64)
    np.multiply(on_grid(values), 1 / _UNIT, out=found[:, 1:], casting="unsafe")
    np.cumsum(found[:, 1:], axis=1, out=found[:, 1:])
    return found


def ranks_in_order(values: Array, mass: Ints, u: Floats | None, row: Ints, place: Ints) -> Ranks:
    """Return the quantities of labels of rows in descending order; equal probabilities share their places.

    The labels are given row after row, in each from the first place on.
    """
    own = values[row, place]
    starts = np.flatnonzero((place == 0) | np.append(True, own[1:] != own[:-1]))
    sizes = np.diff(np.append(starts, len(own)))
    first = np.repeat(place[starts], sizes)
    last = np.repeat(place[starts] + sizes, sizes)
    return Ranks(
        on_grid(own), mass[row, first] * _UNIT, mass[row, last] * _UNIT, first, last,
        on_grid(values[:, 0])[row], on_grid(values[:, 1])[row], None if u is None else u[row],
    )  # fmt: skip


class LabelRanks:
    """The quantities of one label per row, of shape (rows, 1); the rows need not be sorted for that."""

    def __init__(self, values: Array, labels: Ints, u: Floats | None) -> None:
        self._values, self._u = values, u
        self._own = values[np.arange(len(labels)), labels][:, None]

    @cached_property
    def _grid(self) -> Floats:
        return on_grid(self._values)

    @property
    def p(self) -> Floats:
        """The labels' probabilities."""
        return on_grid(self._own)

    @property
    def above(self) -> Floats:
        """The mass of the labels that are strictly more probable."""
        found: Floats = np.sum(self._grid, axis=1, keepdims=True, where=self._values > self._own)
        return found

    @property
    def upto(self) -> Floats:
        """The mass of the labels that are at least as probable."""
        found: Floats = np.sum(self._grid, axis=1, keepdims=True, where=self._values >= self._own)
        return found

    @property
    def n_above(self) -> Ints:
        """The number of labels that are strictly more probable."""
        return np.count_nonzero(self._values > self._own, axis=1, keepdims=True)

    @property
    def n_upto(self) -> Ints:
        """The number of labels that are at least as probable."""
        return np.count_nonzero(self._values >= self._own, axis=1, keepdims=True)

    @property
    def top(self) -> Floats:
        """The largest probability of each row."""
        return on_grid(self._values.max(axis=1, keepdims=True))

    @property
    def second(self) -> Floats:
        """The second largest."""
        return on_grid(np.partition(self._values, -2, axis=1)[:, -2:-1])

    @property
    def u(self) -> Floats:
        """The rows' uniform numbers."""
        assert self._u is not None
        return self._u[:, None]


# Labels beyond the head of a row are counted by bins of their probability, 16 in each octave. The head are
# the bins before which there are fewer than so many labels, or less than this mass.
HEAD_LABELS, HEAD_MASS = 128, 31 / 32
BIN_BITS = 4
LOWEST_BIN = -40 << BIN_BITS


def bins_of(values: Array) -> Ints:
    """Return the bins of probabilities: the exponent and the first bits of the fraction.

    All below 2^-40 share the lowest bin.
    """
    kind, width, bias = (np.int32, 23, 127) if values.dtype == np.float32 else (np.int64, 52, 1023)
    words = (values + values.dtype.type(0)).view(kind)
    bins: Ints = (words >> (width - BIN_BITS)) - (bias << BIN_BITS)
    return np.maximum(bins, LOWEST_BIN - 1)


def limits_of(bins: Ints) -> tuple[Floats, Floats]:
    """Return the least probability of each bin, and that of the next higher one."""
    low, high = (((bins.astype(np.int64) + more) << (52 - BIN_BITS)).view(np.float64) for more in _NEXT)
    return np.where(bins < LOWEST_BIN, 0.0, low), high


_NEXT = (1023 << BIN_BITS), (1023 << BIN_BITS) + 1


class Runs(NamedTuple):
    """Runs of neighbouring labels of rows in descending order: those of a row one after the other.

    Attributes
    ----------
    rows, counts : arrays of shape (runs,)
        The row of each run, and how many labels it has.
    low, high : arrays of shape (runs,)
        A lower and an upper bound of the scores of its labels.
    """

    rows: Ints
    counts: Ints
    low: Floats
    high: Floats


def runs_of(formula: Expression | Callable[[Any], Any], values: Array, u: Floats | None) -> Runs:
    """Return rows in descending order as runs: single labels in the head, with their scores, and then bins.

    The bounds of a bin are what a first and a last label of it would score if it had the least or the
    greatest probability of the bin.
    """
    mass, bins = masses(values), bins_of(values)
    rows, k = values.shape
    starts = np.ones((rows, k), dtype=bool)
    np.not_equal(bins[:, 1:], bins[:, :-1], out=starts[:, 1:])
    row, first = np.nonzero(starts)
    last = np.append(first[1:], k)
    last[last == 0] = k
    in_head = (first < HEAD_LABELS) | (mass[row, first] < HEAD_MASS / _UNIT)
    heads = np.zeros(rows, dtype=np.int64)
    np.maximum.at(heads, row[in_head], last[in_head])
    head_row = np.repeat(np.arange(rows), heads)
    head_place = np.arange(len(head_row)) - np.repeat(np.cumsum(heads) - heads, heads)
    scores = evaluate(formula, ranks_in_order(values, mass, u, head_row, head_place))
    scores = np.broadcast_to(scores, head_row.shape)
    row, first, last = row[~in_head], first[~in_head], last[~in_head]
    low, high = _bounds(formula, values, mass, bins[row, first], row, (first, last), u)
    return Runs(
        np.concatenate([head_row, row]),
        np.concatenate([np.ones_like(head_row), last - first]),
        np.concatenate([scores, low]),
        np.concatenate([scores, high]),
    )


def _bounds(
    formula: Expression | Callable[[Any], Any], values: Array, mass: Ints, bins: Ints, row: Ints,
    places: tuple[Ints, Ints], u: Floats | None,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return the bounds of the scores of bins, given where they begin and end in their rows."""
    first, last = places
    before, upto = mass[row, first] * _UNIT, mass[row, last] * _UNIT
    top, second = on_grid(values[:, 0])[row], on_grid(values[:, 1])[row]
    ends = top, second, None if u is None else u[row]
    lows, highs = [], []
    for p in limits_of(bins):
        lows.append(evaluate(formula, Ranks(p, before, before + p, first, first + 1, *ends)))
        highs.append(evaluate(formula, Ranks(p, upto - p, upto, last - 1, last, *ends)))
    shape = row.shape
    return np.broadcast_to(np.minimum(*lows), shape), np.broadcast_to(np.maximum(*highs), shape)


def least_bounded_score(formula: Expression | Callable[[Any], Any]) -> float:
    """Return a score that no label beyond the head of its row can be below, so that lower ones are exact."""
    p, top, u = (each.reshape(-1) for each in np.meshgrid([0.0, 1 / HEAD_LABELS], [0.0, 1.0], [0.0, 1.0]))
    places = np.full(len(p), HEAD_LABELS), np.full(len(p), HEAD_LABELS + 1)
    mass = np.full(len(p), HEAD_MASS)
    top = np.maximum(p, top)
    return float(np.min(evaluate(formula, Ranks(p, mass, mass + p, *places, top, p, u))))
