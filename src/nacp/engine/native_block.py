"""A block of rows as the compiled engine takes it."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine import _native
from nacp.engine import block as block_
from nacp.engine.codes import Codes
from nacp.engine.contract import Chosen, Spec, Unchecked
from nacp.engine.hashing import hash_plan
from nacp.engine.kept import Kept
from nacp.engine.scratch import Scratch
from nacp.engine.threads import over_rows

WIDTHS = (np.float32, np.float64)


class Block(block_.Block):
    """A block of rows whose scores the compiled engine computes, as far as they are asked for.

    Whoever looks at all rows first checks them on the way, and finds their uniform numbers.
    """

    _unchecked: Unchecked | None = None
    _good: Array | None = None  # of each row whether it is one of probabilities, once it has been looked at
    _look: tuple[Any, ...] | None = None  # what the first look is to find: see native.c
    _u: Floats | None = None
    _described: tuple[Any, ...]

    def __init__(
        self,
        values: Array | Chosen,
        spec: Spec,
        scratch: Scratch,
        u: Floats | None,
        codes: Codes,
        unchecked: Unchecked | None = None,
    ) -> None:
        self.spec, self.scratch, self._u = spec, scratch, None if u is None else np.ascontiguousarray(u)
        self._given, self._unchecked, self._good = values, unchecked, None
        self.shape = values.shape
        self._look: tuple[Any, ...] | None = None  # what the first look finds: see native.c
        hashed = spec.seed is not None and u is None
        if hashed:
            self._u = np.empty(self.shape[0])
        if unchecked is not None:
            self._good = np.zeros(self.shape[0], dtype=np.uint8)
        if hashed or unchecked is not None:
            tolerance = 0.0 if unchecked is None else unchecked.tolerance
            self._look = (
                self._good,
                tolerance,
                *hashed_columns(self.shape[1], spec.seed if hashed else None),
            )
        self._described = (values, *self.shape, values.dtype.itemsize, *codes, self._u, None)

    @cached_property
    def values(self) -> Array:  # type: ignore[override]  # copied when it is asked for
        return self._given.copied() if isinstance(self._given, Chosen) else self._given

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
        if self._look is not None:
            self.at_first_look(_native.look_over)

    def at_first_look(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a compiled function that looks rows over on the way, if that is still to be done."""
        found = over_rows(function, (*self._described, self._look), *arguments)
        self._look = None
        return found

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
        return self._described


class KeptBlock(Block):
    """Rows of which the scores up to a limit were kept, and nothing else."""

    def __init__(self, kept: Kept, rows: slice | Ints, spec: Spec) -> None:
        described = kept.described(rows)
        self.spec, self.shape, self.scratch = spec, (len(described[1]), kept.k), Scratch()
        self._described = (None, *self.shape, 4, None, None, None, described)


def plain(values: Array, u: Floats | None = None, look: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
    """Describe rows of which no score is wanted."""
    wide = values if values.dtype in WIDTHS else values.astype(np.float64)
    return (aligned(wide), *wide.shape, wide.itemsize, None, None, u, None, look)


def hashed_columns(k: int, seed: int | None) -> tuple[Ints | None, Array | None]:
    """Return which columns of k are hashed, and with which keys; nothing without a seed."""
    return (None, None) if seed is None else hash_plan(k, int(seed) % (1 << 64))


def aligned(values: Array) -> Array:
    """Return rows one after the other in memory, at addresses that C may read them from."""
    good = values.flags.c_contiguous and values.flags.aligned
    return values if good else np.require(values, requirements=["C", "A"])
