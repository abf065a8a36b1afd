"""Where labels stand in their rows: the quantities of which scores are made, and formulas evaluated on them.

Sums of probabilities are exact in any order, because every probability is first put on the grid of multiples of
2^-52: the partial sums of a row stay below 2, where float64 holds all such multiples. Sorted or not, in one
block or in many, the bits are the same.
"""

from functools import cached_property
from typing import Any

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine.formula import Expression
from nacp.engine.scratch import Scratch

# Operations whose results go into memory that is used again; the others allocate their own.
_IN_PLACE = {"add", "subtract", "multiply", "negative", "maximum", "minimum"}


def on_grid(p: Array, out: Floats | None = None) -> Floats:
    """Round to multiples of 2^-52; the identity for float32 values of at least 2^-29."""
    grid: Floats = np.empty(p.shape) if out is None else out
    np.copyto(grid, p)
    grid += 1.0
    grid -= 1.0
    return grid


class Ranks:
    """The quantities of rows in descending order: arrays that broadcast to (rows, k)."""

    def __init__(self, values: Array, u: Floats | None, scratch: Scratch) -> None:
        self._values, self._u, self._scratch = values, u, scratch

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
    def _cumulated(self) -> Floats:
        return np.cumsum(self.p, axis=1, out=self._scratch.get("cumulated", self.p.shape, np.float64))

    @cached_property
    def _ties(self) -> tuple[Ints, Ints, Ints]:
        """Rows that hold equal probabilities; there, each entry's first and last equal."""
        equal = self._scratch.get("equal", (len(self._values), self._values.shape[1] - 1), np.bool_)
        np.equal(self._values[:, 1:], self._values[:, :-1], out=equal)
        tied = np.flatnonzero(equal.any(axis=1))
        width = self._values.shape[1]
        place = np.broadcast_to(np.arange(width), (len(tied), width))
        first, last = place.copy(), place.copy()
        first[:, 1:][equal[tied]] = 0
        last[:, :-1][equal[tied]] = width
        first = np.maximum.accumulate(first, axis=1)
        last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
        return tied, first, last

    @cached_property
    def above(self) -> Floats:
        """The mass of the labels that are strictly more probable."""
        above = self._scratch.get("above", self.p.shape, np.float64)
        np.subtract(self._cumulated, self.p, out=above)
        tied, first, _ = self._ties
        if len(tied):
            above[tied] = np.take_along_axis(above[tied], first, axis=1)
        return above

    @cached_property
    def upto(self) -> Floats:
        """The mass of the labels that are at least as probable."""
        upto = self._cumulated
        tied, _, last = self._ties
        if len(tied):
            upto = upto.copy()
            upto[tied] = np.take_along_axis(upto[tied], last, axis=1)
        return upto

    @cached_property
    def n_above(self) -> Ints:
        """The number of labels that are strictly more probable."""
        tied, first, _ = self._ties
        return self._numbers(tied, first)

    @cached_property
    def n_upto(self) -> Ints:
        """The number of labels that are at least as probable."""
        tied, _, last = self._ties
        return self._numbers(tied, last) + 1

    def _numbers(self, tied: Ints, replaced: Ints) -> Ints:
        one_row = np.arange(self._values.shape[1])[None]
        if not len(tied):
            return one_row
        numbers = np.repeat(one_row, len(self._values), axis=0)
        numbers[tied] = replaced
        return numbers

    @property
    def top(self) -> Floats:
        """The largest probability of each row."""
        return on_grid(self._values[:, :1])

    @property
    def second(self) -> Floats:
        """The second largest."""
        return on_grid(self._values[:, 1:2])


def evaluate(formula: Expression, quantities: Any, scratch: Scratch, place: str = "") -> Any:
    """Return the value of an expression; each of its operations has a place of its own in the scratch memory."""
    if not formula.parts:
        return getattr(quantities, formula.name)
    parts = [
        evaluate(part, quantities, scratch, f"{place}{i}") if isinstance(part, Expression) else part
        for i, part in enumerate(formula.parts)
    ]
    operation = getattr(np, formula.name)
    shape = np.broadcast_shapes(*map(np.shape, parts))
    if formula.name == "where" or formula.name in _IN_PLACE:
        held = scratch.get(f"formula{place}", shape, np.result_type(*parts[-2:]))
        if formula.name != "where":
            return operation(*parts, out=held)
        held[...] = parts[2]
        np.copyto(held, parts[1], where=parts[0])
        return held
    return operation(*parts)
