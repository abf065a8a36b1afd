"""Where labels stand in their rows: the quantities of which scores are made, and formulas evaluated on them.

Sums of probabilities are exact in any order, because every probability is first put on the grid of multiples
of 2^-52: the partial sums of a row stay below 2, where float64 holds all such multiples. Sorted or not, in
one block or in many, the bits are the same.
"""

from functools import cached_property
from typing import Any

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine.formula import Expression
from nacp.engine.scratch import Scratch

# Operations whose results go into memory that is used again; the others allocate their own.
_IN_PLACE = {"add", "subtract", "multiply", "negative", "maximum", "minimum"}
_COMPARED = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
_EXACT = {*_IN_PLACE, *_COMPARED, "divide", "sqrt", "absolute", "where"}


# Rows of so many columns at the most are sorted by words of 32 bits: with 12 bits for the column, 20 are left
# for the value. After so many rounds of swaps, rows that are still out of order are sorted anew.
_MOST_COLUMNS, _SWAPS = 1 << 12, 4


def on_grid(p: Array, out: Floats | None = None) -> Floats:
    """Round to multiples of 2^-52; the identity for float32 values of at least 2^-29."""
    grid: Floats = np.empty(p.shape) if out is None else out
    np.copyto(grid, p)
    grid += 1.0
    grid -= 1.0
    return grid


def descending_rows(values: Array, scratch: Scratch) -> Array:
    """Return the rows in descending order."""
    held = scratch.get("descending", values.shape, values.dtype)
    np.add(values, values.dtype.type(0), out=held)  # -0.0 is 0.0
    # Floats that are not negative are ordered as their bits are, and whole numbers are sorted faster.
    bits = held.view(f"i{values.itemsize}")
    np.invert(bits, out=bits)
    bits.sort(axis=1)
    np.invert(bits, out=bits)
    return held


def sorted_places(values: Array, scratch: Scratch) -> tuple[Array, Ints]:
    """Return the rows in descending order, and the flat places in the block that the entries came from."""
    k = values.shape[1]
    starts, columns = np.arange(len(values))[:, None] * k, (1 << (k - 1).bit_length()) - 1
    if values.dtype != np.float32 or k > _MOST_COLUMNS:
        places = starts + np.argsort(-values, axis=1)
        return values.reshape(-1)[places], places
    # One sort of short words: the leading bits of a value (which is below 2), inverted, and its column.
    words, places = (scratch.get("words", values.shape, dtype) for dtype in (np.uint32, np.int64))
    np.add(values, np.float32(0), out=words.view(np.float32))  # -0.0 is 0.0
    words <<= 2
    words |= np.uint32(columns)
    np.invert(words, out=words)
    words |= np.arange(k, dtype=np.uint32)
    words.sort(axis=1)
    words &= np.uint32(columns)
    np.add(words, starts, out=places, casting="unsafe")
    found = scratch.get("descending", values.shape, np.float32)
    np.take(values.reshape(-1), places, out=found, mode="clip")
    _swap_neighbours(found, places, values)
    return found, places


def _swap_neighbours(found: Array, places: Ints, values: Array) -> None:
    """Put entries in descending order, and their places along; they are out of order here and there only."""
    k, flat, places_of = found.shape[1], found.reshape(-1), places.reshape(-1)
    wrong = np.flatnonzero(flat[:-1] < flat[1:])
    for _ in range(_SWAPS):
        wrong = wrong[wrong % k < k - 1]  # not where a row ends
        first = wrong[np.diff(wrong, prepend=-2) > 1]  # of three that ascend, the first two
        for each in (flat, places_of):
            each[first], each[first + 1] = each[first + 1], each[first]
        near = np.unique(np.clip([wrong - 1, wrong, wrong + 1], 0, flat.size - 2))
        wrong = near[flat[near] < flat[near + 1]]
    rows = np.unique(wrong[wrong % k < k - 1] // k)
    places[rows] = np.argsort(-values[rows], axis=1) + rows[:, None] * k
    found[rows] = values.reshape(-1)[places[rows]]


def tied_rows(values: Array, scratch: Scratch) -> Ints:
    """Return which of the rows, in descending order, hold equal probabilities."""
    flat = values.reshape(-1)
    equal = np.equal(flat[1:], flat[:-1], out=scratch.get("equal", (flat.size - 1,), np.bool_))
    places = np.flatnonzero(equal) + 1
    return np.unique(places[places % values.shape[1] > 0] // values.shape[1])  # not where a row begins


class Ranks:
    """The quantities of rows in descending order: arrays that broadcast to (rows, k).

    Parameters
    ----------
    values : array of shape (rows, k)
        The rows.
    u : array of shape (rows,) or None
        Their uniform numbers.
    scratch : Scratch
        Where results lie.
    tied : bool
        Whether rows may hold equal probabilities; if not, less has to be computed.
    """

    def __init__(self, values: Array, u: Floats | None, scratch: Scratch, *, tied: bool) -> None:
        self._values, self._u, self._scratch, self._tied = values, u, scratch, tied

    @property
    def u(self) -> Floats:
        """The rows' uniform numbers."""
        assert self._u is not None
        return self._u[:, None]

    @cached_property
    def p(self) -> Floats:
        """The probabilities."""
        return on_grid(self._values, self._scratch.get("p", self._values.shape, np.float64))

    @cached_property
    def _mass(self) -> Floats:
        """The mass of the first so many labels, from none to all."""
        rows, k = self._values.shape
        # Whole numbers are added up several times faster than floats, and converted without rounding.
        whole = self._scratch.get("whole mass", (rows, k + 1), np.int64)
        whole[:, 0] = 0
        np.multiply(self.p, 2.0**52, out=whole[:, 1:], casting="unsafe")
        np.cumsum(whole[:, 1:], axis=1, out=whole[:, 1:])
        mass = self._scratch.get("mass", (rows, k + 1), np.float64)
        return np.multiply(whole, 2.0**-52, out=mass)

    @cached_property
    def n_above(self) -> Ints:
        """The number of labels that are strictly more probable: the place of the first equal one."""
        place = np.arange(self._values.shape[1])[None]
        if not self._tied:
            return place
        first = np.repeat(place, len(self._values), axis=0)
        first[:, 1:][self._values[:, 1:] == self._values[:, :-1]] = 0
        return np.maximum.accumulate(first, axis=1)

    @cached_property
    def n_upto(self) -> Ints:
        """The number of labels that are at least as probable: the place of the last equal one, and 1."""
        width = self._values.shape[1]
        place = np.arange(1, width + 1)[None]
        if not self._tied:
            return place
        last = np.repeat(place, len(self._values), axis=0)
        last[:, :-1][self._values[:, 1:] == self._values[:, :-1]] = width
        return np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]

    @property
    def above(self) -> Floats:
        """The mass of the labels that are strictly more probable."""
        return np.take_along_axis(self._mass, self.n_above, axis=1) if self._tied else self._mass[:, :-1]

    @property
    def upto(self) -> Floats:
        """The mass of the labels that are at least as probable."""
        return np.take_along_axis(self._mass, self.n_upto, axis=1) if self._tied else self._mass[:, 1:]

    @property
    def top(self) -> Floats:
        """The largest probability of each row."""
        return on_grid(self._values[:, :1])

    @property
    def second(self) -> Floats:
        """The second largest."""
        return on_grid(self._values[:, 1:2])


class LabelRanks:
    """The same quantities of one label per row, arrays of shape (rows, 1): nothing has to be sorted for that.

    Parameters
    ----------
    values : array of shape (rows, k)
        The rows, in the order of the labels.
    labels : array of shape (rows,)
        The labels.
    u : array of shape (rows,) or None
        The rows' uniform numbers.
    scratch : Scratch
        Where results lie.
    """

    def __init__(self, values: Array, labels: Ints, u: Floats | None, scratch: Scratch) -> None:
        self._values, self._u, self._scratch = values, u, scratch
        self._own = values[np.arange(len(labels)), labels][:, None]

    @property
    def u(self) -> Floats:
        """The rows' uniform numbers."""
        assert self._u is not None
        return self._u[:, None]

    @property
    def p(self) -> Floats:
        """The labels' probabilities."""
        return on_grid(self._own)

    @property
    def n_above(self) -> Ints:
        """The number of labels that are strictly more probable."""
        return np.count_nonzero(self._values > self._own, axis=1, keepdims=True)

    @property
    def n_upto(self) -> Ints:
        """The number of labels that are at least as probable."""
        return np.count_nonzero(self._values >= self._own, axis=1, keepdims=True)

    @property
    def above(self) -> Floats:
        """The mass of the labels that are strictly more probable."""
        return self._mass(np.greater)

    @property
    def upto(self) -> Floats:
        """The mass of the labels that are at least as probable."""
        return self._mass(np.greater_equal)

    def _mass(self, compare: Any) -> Floats:
        chosen = self._scratch.get("chosen", self._values.shape, self._values.dtype)
        compare(self._values, self._own, out=chosen, casting="unsafe")
        np.multiply(chosen, self._values, out=chosen)
        grid = on_grid(chosen, self._scratch.get("p", chosen.shape, np.float64))
        sums: Floats = grid.sum(axis=1, keepdims=True)
        return sums

    @property
    def top(self) -> Floats:
        """The largest probability of each row."""
        return on_grid(self._values.max(axis=1, keepdims=True))

    @property
    def second(self) -> Floats:
        """The second largest."""
        return on_grid(-np.sort(-self._values, axis=1)[:, 1:2])


def rounds_once(formula: Expression) -> bool:
    """Return whether all operations round once and correctly, so that bits depend on the numbers alone."""
    parts = [part for part in formula.parts if isinstance(part, Expression)]
    return (not formula.parts or formula.name in _EXACT) and all(map(rounds_once, parts))


def evaluate(formula: Expression, quantities: Any, scratch: Scratch, place: str = "") -> Any:
    """Return the value of an expression; each operation has a place of its own in the scratch memory."""
    if not formula.parts:
        return getattr(quantities, formula.name)
    parts: list[Any] = [
        evaluate(part, quantities, scratch, f"{place}{i}") if isinstance(part, Expression) else part
        for i, part in enumerate(formula.parts)
    ]
    operation = getattr(np, formula.name)
    shape, dtype = np.broadcast_shapes(*map(np.shape, parts)), np.result_type(*parts[-2:])
    if formula.name in _IN_PLACE:
        # In the place of a part that is not needed any more, if there is one.
        for written, part in zip(formula.parts, parts, strict=True):
            computed = isinstance(written, Expression) and written.name in _IN_PLACE
            if computed and (part.shape, part.dtype) == (shape, dtype):
                return operation(*parts, out=part)
        return operation(*parts, out=scratch.get(f"formula{place}", shape, dtype))
    if formula.name != "where":
        return operation(*parts)
    held = scratch.get(f"formula{place}", shape, dtype)
    held[...] = parts[2]
    np.copyto(held, parts[1], where=parts[0])
    return held
