"""A block of rows as the compiled engine takes it."""

from functools import cached_property
from typing import Any

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine import _native
from nacp.engine import block as block_
from nacp.engine.codes import Codes
from nacp.engine.contract import Spec, Unchecked
from nacp.engine.hashing import hash_plan
from nacp.engine.kept import Kept
from nacp.engine.scratch import Scratch
from nacp.engine.threads import over_rows

WIDTHS = (np.float32, np.float64)


class Block(block_.Block):
    """A block of rows whose scores the compiled engine computes, as far as they are asked for.

    Whoever looks at all rows first checks them on the way, and finds their uniform numbers.
    """

    def __init__(
        self,
        values: Array,
        spec: Spec,
        scratch: Scratch,
        u: Floats | None,
        codes: Codes,
        unchecked: Unchecked | None = None,
    ) -> None:
        super().__init__(values, spec, scratch, None if u is None else np.ascontiguousarray(u))
        self._formula, self._unchecked, self._first = codes, unchecked, True
        self._good = None if unchecked is None else np.zeros(len(values), dtype=np.uint8)
        self._hashed = None if spec.seed is None or u is not None else spec.seed
        if self._hashed is not None:
            self._u = np.empty(len(values))

    def prepare(self, *, placed: bool) -> None:
        pass  # nothing is computed before somebody asks, and then no more than he asks for

    def confirm(self) -> None:
        if self._unchecked is not None and self._good is not None:
            self._look_over()
            self._unchecked.confirm(bool(self._good.all()))

    @property
    def u(self) -> Floats | None:
        self._look_over()
        return self._u

    def _look_over(self) -> None:
        if (described := self.at_first_look())[-1] is not None:
            over_rows(_native.look_over, described)

    def at_first_look(self) -> tuple[Any, ...]:
        """Return the block for a compiled function that looks all rows over, if that is still to be done."""
        look = None
        if self._first:
            self._first = False
            tolerance = 0.0 if self._unchecked is None else self._unchecked.tolerance
            if self._good is not None or self._hashed is not None:
                look = (self._good, tolerance, *hashed_columns(self.shape[1], self._hashed))
        return (self.values, *self.shape, self.values.itemsize, *self._formula, self._u, None, look)

    @cached_property
    def placed(self) -> Array:
        if not self.spec.ranked:
            return self._pointwise()
        scores = self.scratch.get("placed", self.shape, np.float64)
        over_rows(_native.scores, self.described, scores)
        return scores

    @property
    def described(self) -> tuple[Any, ...]:
        """The block, for the other compiled functions."""
        self._look_over()
        return self.at_first_look()


class KeptBlock(Block):
    """Rows of which the scores up to a limit were kept, and nothing else."""

    def __init__(self, kept: Kept, rows: slice | Ints, spec: Spec) -> None:
        described = kept.described(rows)
        self.spec, self.shape, self.scratch = spec, (len(described[1]), kept.k), Scratch()
        self._described = (None, *self.shape, 4, None, None, None, described)

    def at_first_look(self) -> tuple[Any, ...]:
        return self._described

    @property
    def described(self) -> tuple[Any, ...]:
        return self._described


def plain(values: Array, u: Floats | None = None, look: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
    """Describe rows of which no score is wanted."""
    wide = values if values.dtype in WIDTHS else values.astype(np.float64)
    return (aligned(wide), *wide.shape, wide.itemsize, None, None, u, None, look)


def hashed_columns(k: int, seed: int | None) -> tuple[Ints | None, Array | None]:
    """Return which columns of k are hashed, and with which keys; nothing without a seed."""
    return (None, None) if seed is None else hash_plan(k, int(seed) % (1 << 64))


def aligned(values: Array) -> Array:
    """Return rows one after the other in memory, at addresses that C may read them from."""
    return np.require(values, requirements=["C", "A"])
