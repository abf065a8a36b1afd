"""A block of rows and their scores, as NumPy computes them."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine.cells import codes_of, negated_codes
from nacp.engine.contract import Spec
from nacp.engine.formula import Expression
from nacp.engine.hashing import hashed_uniforms
from nacp.engine.ranks import Ranks, descending_rows, evaluate, sorted_places, tied_rows
from nacp.engine.scratch import Scratch
from nacp.errors import InputError


class Block:
    """A block of rows, opened: native scores, in the places of the labels or in any order within the row.

    What is computed lies in scratch memory: it holds until the next block is opened with the same scratch.
    """

    on_device = False  # whether the rows are a tensor's
    _coded: Array | None = None
    _codes: tuple[Array, Ints] | None = None
    low: tuple[float, Ints] | None = None  # a score, and the flat places of those up to it, if they are known

    def __init__(self, values: Array, spec: Spec, scratch: Scratch, u: Floats | None = None) -> None:
        self.values, self.spec, self.scratch, self._u = values, spec, scratch, u
        self.shape: tuple[int, int] = values.shape

    @cached_property
    def u(self) -> Floats | None:
        """The rows' uniform numbers, if the score is randomised."""
        if self.spec.seed is None:
            return None
        return hashed_uniforms(self.values, self.spec.seed) if self._u is None else self._u

    @cached_property
    def descending(self) -> Array:
        """The rows in descending order."""
        return descending_rows(self.values, self.scratch)

    @cached_property
    def placed(self) -> Array:
        """The scores in the places of the labels."""
        if not self.spec.ranked:
            return self._pointwise()
        for name in ("along", "descending"):  # they lie where this is computed
            vars(self).pop(name, None)
        values, places = sorted_places(self.values, self.scratch)
        placed = self.scratch.get("placed", self.shape, np.float64)
        placed.reshape(-1)[places.reshape(-1)] = self._ranked(values).reshape(-1)
        return placed

    @cached_property
    def along(self) -> Array:
        """The scores of each row from the most probable label down; as placed if the score is not ranked."""
        return self._ranked(self.descending) if self.spec.ranked else self.placed

    @property
    def best(self) -> Ints:
        """The label with the lowest score in each row; the first of several."""
        found: Ints = self.placed.argmin(axis=1)
        return found

    def prepare(self, *, placed: bool) -> None:
        """Compute the scores for all who are going to ask, instead of once in order and once in place."""
        self.scores(placed=placed)

    def confirm(self) -> None:
        """Say whether rows are probabilities, if they were opened before anybody knew: here, known by now."""

    def scores(self, *, placed: bool) -> Array:
        """Return the scores: as placed if that matters or they are there already, else in any order."""
        return self.placed if placed or "placed" in vars(self) else self.along

    def codes(self, *, placed: bool) -> tuple[Array, Ints]:
        """Return small numbers for the same scores, flat, and the table of the cells that they stand for."""
        if self.codes_are_bits:
            return negated_codes(self.values)
        scores = self.scores(placed=placed)
        if self._codes is None or self._coded is not scores:
            self._coded, self._codes = scores, codes_of(scores, self.scratch)
        return self._codes

    def at(self, flat: Ints, *, placed: bool) -> Floats:
        """Return the same scores at some flat places; of a pointwise score, computed there alone."""
        if self.is_minus_p:
            return np.negative(self.values.reshape(-1).take(flat), dtype=np.float64)
        formula = self.spec.formula
        if self.spec.ranked or not isinstance(formula, Expression) or "placed" in vars(self):
            found: Array = self.scores(placed=placed).reshape(-1)[flat]
        else:
            found = lowest_finite(evaluate(formula, _Entries(self.values.reshape(-1)[flat]), Scratch()))
        return found.astype(np.float64)

    @cached_property
    def is_minus_p(self) -> bool:
        """Whether the score is -p."""
        formula = self.spec.formula
        return not self.spec.ranked and isinstance(formula, Expression) and repr(formula) == "negative(p)"

    @property
    def codes_are_bits(self) -> bool:
        """Whether cells need no arithmetic: they are the leading bits of the rows themselves."""
        return self.is_minus_p and self.values.dtype == np.float32

    def _ranked(self, values: Array) -> Array:
        """Return the scores of rows in descending order."""
        tied = tied_rows(values, self.scratch)
        most = len(tied) > len(values) // 2
        scores = self._evaluated(values, self.u, self.scratch, tied=most)
        if len(tied) and not most:
            u = None if self.u is None else self.u[tied]
            if not scores.flags.writeable:
                scores = scores.copy()
            scores[tied] = self._evaluated(values[tied], u, Scratch(), tied=True)
        # The lowest score of a row is that of its most probable label.
        return lowest_finite(scores) if np.isneginf(scores[:, 0]).any() else scores

    def _evaluated(self, values: Array, u: Floats | None, scratch: Scratch, *, tied: bool) -> Array:
        ranks, formula = Ranks(values, u, scratch, tied=tied), self.spec.formula
        if isinstance(formula, Expression):
            scores = evaluate(formula, ranks, scratch)
        else:
            assert formula is not None
            scores = formula(ranks)
        scores = np.asarray(scores, dtype=np.float64)
        return scores if scores.shape == values.shape else np.broadcast_to(scores, values.shape)

    def _pointwise(self) -> Array:
        if isinstance(self.spec.formula, Expression):
            scores: Array = evaluate(self.spec.formula, _Entries(self.values), self.scratch)
        else:
            assert self.spec.of_rows is not None
            scores = self._checked(self.spec.of_rows(self.values))
        return scores if self.is_minus_p else lowest_finite(scores)

    def _checked(self, found: Array) -> Array:
        scores = np.asarray(found, dtype=np.float64)
        if scores.shape != self.shape:
            raise InputError(
                "score",
                f"returned an array of shape {scores.shape} for {self.shape} probabilities; it must return "
                "one score per entry",
            )
        if np.isnan(scores).any():
            raise InputError("score", "returned NaN; it must return numbers (inf is allowed)")
        return scores


def lowest_finite(scores: Array) -> Array:
    """Return scores with the best possible one, -inf, as the lowest number, which orders alike."""
    if not np.isneginf(scores.min(initial=0)):
        return scores
    lifted: Array = np.maximum(scores, np.finfo(scores.dtype).min)
    return lifted


class _Entries(NamedTuple):
    """The one quantity of a pointwise score."""

    p: Array
