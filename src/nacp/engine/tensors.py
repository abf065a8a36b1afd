"""A block of rows and their scores on a device, as torch computes them: the bits of `nacp.engine.block`."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nacp._types import Array, Floats, Ints
from nacp.engine import block as block_
from nacp.engine.contract import Spec
from nacp.engine.formula import Expression
from nacp.engine.hashing import hash_plan

_OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div,
    "maximum": torch.maximum, "minimum": torch.minimum, "equal": torch.eq, "not_equal": torch.ne,
    "less": torch.lt, "less_equal": torch.le, "greater": torch.gt, "greater_equal": torch.ge,
    "negative": torch.neg, "absolute": torch.abs, "sqrt": torch.sqrt, "where": torch.where,
}  # fmt: skip


def fetched(values: Tensor) -> Array:
    """Return values on the host."""
    found: Array = values.cpu().numpy()
    return found


def sent(values: Any, device: torch.device) -> Tensor:
    """Return values of the host on a device: a copy, so that nothing of the caller's can be changed."""
    return torch.tensor(np.ascontiguousarray(values), device=device)


def is_p(spec: Spec) -> bool:
    """Return whether the score is the entry itself."""
    return not spec.ranked and isinstance(spec.formula, Expression) and repr(spec.formula) == "p"


class Block(block_.Block):
    """A block of rows on a device. What others than the verbs see of it are NumPy arrays."""

    on_device = True

    def __init__(self, values: Tensor, spec: Spec, u: Floats | None) -> None:
        self.rows, self.spec, self._u = values, spec, u
        self.shape = (values.shape[0], values.shape[1])

    def prepare(self, *, placed: bool) -> None:
        pass  # rows are sorted once, whoever asks

    @cached_property
    def uniform(self) -> Tensor | None:
        """The rows' uniform numbers, if the score is randomised: (rows, 1)."""
        if self.spec.seed is None:
            return None
        known = self._u is not None
        return (sent(self._u, self.rows.device) if known else hashed(self.rows, self.spec.seed))[:, None]

    @cached_property
    def sorted(self) -> tuple[Tensor, Tensor]:
        """The rows in descending order, and the columns that the entries came from."""
        found = torch.sort(self.rows + 0.0, dim=1, descending=True)  # -0.0 is 0.0
        return found.values, found.indices

    @cached_property
    def ordered(self) -> Tensor:
        """The scores of each row from the most probable label down; as they lie if it is not ranked."""
        if not self.spec.ranked:
            return self.lying
        return evaluated(self.spec, Ranks(self.sorted[0], self.uniform)).expand(self.shape)

    @cached_property
    def lying(self) -> Tensor:
        """The scores in the places of the labels."""
        if self.spec.ranked:
            places, scores = self.sorted[1], self.ordered
            return torch.empty_like(scores, memory_format=torch.contiguous_format).scatter_(1, places, scores)
        return _lowest_finite(self.rows) if is_p(self.spec) else -self.rows

    def flat(self, *, placed: bool) -> Tensor:
        """Return the scores: as they lie if that matters, else in any order."""
        return (self.lying if placed else self.ordered).reshape(-1)

    # For others, on the host

    @cached_property
    def u(self) -> Floats | None:
        return None if self.uniform is None else fetched(self.uniform[:, 0])

    @property
    def values(self) -> Array:  # type: ignore[override]  # made when it is asked for
        return fetched(self.rows)

    @property
    def placed(self) -> Array:
        return fetched(self.lying)

    @property
    def along(self) -> Array:
        return fetched(self.ordered)

    @property
    def best(self) -> Ints:
        columns = torch.arange(self.shape[1], device=self.rows.device)
        lowest = self.lying == self.lying.amin(dim=1, keepdim=True)
        found: Ints = fetched(torch.where(lowest, columns, self.shape[1]).amin(dim=1))  # the first of them
        return found


class Ranks:
    """The quantities of rows in descending order, as `nacp.engine.ranks.Ranks` defines them; all float64."""

    def __init__(self, values: Tensor, u: Tensor | None) -> None:
        self._values, self.u = values, u
        self._place = torch.arange(values.shape[1], device=values.device)
        self._steps = values[:, 1:] != values[:, :-1]  # where another value begins

    @cached_property
    def p(self) -> Tensor:
        return _on_grid(self._values)

    @cached_property
    def _mass(self) -> Tensor:
        whole = (self.p * 2.0**52).to(torch.int64).cumsum(dim=1)
        return torch.nn.functional.pad(whole, (1, 0)).to(torch.float64) * 2.0**-52

    @cached_property
    def _first(self) -> Tensor:
        new = torch.nn.functional.pad(self._steps, (1, 0), value=True)
        return torch.where(new, self._place, 0).cummax(dim=1).values

    @cached_property
    def _past(self) -> Tensor:
        last = torch.nn.functional.pad(self._steps, (0, 1), value=True)
        ends = torch.where(last, self._place + 1, len(self._place))
        return ends.flip(1).cummin(dim=1).values.flip(1)

    @property
    def n_above(self) -> Tensor:
        return self._first.to(torch.float64)

    @property
    def n_upto(self) -> Tensor:
        return self._past.to(torch.float64)

    @property
    def above(self) -> Tensor:
        return self._mass.gather(1, self._first)

    @property
    def upto(self) -> Tensor:
        return self._mass.gather(1, self._past)

    @property
    def top(self) -> Tensor:
        return _on_grid(self._values[:, :1])

    @property
    def second(self) -> Tensor:
        return _on_grid(self._values[:, 1:2])


class LabelRanks:
    """The same quantities of one label per row, of shape (rows, 1): nothing has to be sorted for that."""

    def __init__(self, values: Tensor, labels: Tensor, u: Tensor | None) -> None:
        self._values, self.u = values, u
        self._own = values.gather(1, labels[:, None])

    @property
    def p(self) -> Tensor:
        return _on_grid(self._own)

    @property
    def n_above(self) -> Tensor:
        return (self._values > self._own).sum(dim=1, keepdim=True).to(torch.float64)

    @property
    def n_upto(self) -> Tensor:
        return (self._values >= self._own).sum(dim=1, keepdim=True).to(torch.float64)

    @property
    def above(self) -> Tensor:
        return self._mass(self._values > self._own)

    @property
    def upto(self) -> Tensor:
        return self._mass(self._values >= self._own)

    def _mass(self, which: Tensor) -> Tensor:
        return torch.where(which, _on_grid(self._values), 0.0).sum(dim=1, keepdim=True)

    @property
    def top(self) -> Tensor:
        return _on_grid(self._values.amax(dim=1, keepdim=True))

    @property
    def second(self) -> Tensor:
        return _on_grid(self._values.topk(2, dim=1).values[:, 1:])


def _on_grid(p: Tensor) -> Tensor:
    """Round to multiples of 2^-52: sums of these are exact in any order."""
    return (p.to(torch.float64) + 1.0) - 1.0


def evaluated(spec: Spec, quantities: Ranks | LabelRanks) -> Tensor:
    """Return the scores of a formula; all numbers are float64, and each operation rounds once."""
    assert isinstance(spec.formula, Expression)
    device = quantities.p.device

    def value(part: Any) -> Tensor:
        if not isinstance(part, Expression):
            kind = torch.bool if isinstance(part, bool | np.bool_) else torch.float64
            return torch.full((), part, dtype=kind, device=device)
        if not part.parts:
            found: Tensor = getattr(quantities, part.name)
            return found
        return _OPERATIONS[part.name](*map(value, part.parts))

    return _lowest_finite(value(spec.formula))


def _lowest_finite(scores: Tensor) -> Tensor:
    return scores.clamp(min=torch.finfo(scores.dtype).min)


# u


def hashed(rows: Tensor, seed: int) -> Tensor:
    """Return one u in [0, 1) per row: `nacp.engine.hashing`, in words that have a sign."""
    columns, keys = (sent(each, rows.device) for each in _plan(rows.shape[1], int(seed) % (1 << 64)))
    some = torch.cat([rows.index_select(1, columns), rows.amax(dim=1, keepdim=True)], dim=1)
    words = (some.to(torch.float64) + 0.0).view(torch.int64) ^ keys
    words = _mix(_mix(words).sum(dim=1))
    return _shifted(words, 11).to(torch.float64) * 2.0**-53


def _plan(k: int, seed: int) -> tuple[Ints, Ints]:
    columns, keys = hash_plan(k, seed)
    return columns, keys.view(np.int64)


def _mix(x: Tensor) -> Tensor:
    """Scramble 64-bit words, as `nacp.engine.hashing` does; products wrap around alike."""
    x = x + _signed(0x9E3779B97F4A7C15)
    x = (x ^ _shifted(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shifted(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shifted(x, 31)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _shifted(x: Tensor, by: int) -> Tensor:
    """Shift to the right, with zeros from the left."""
    return (x >> by) & ((1 << (64 - by)) - 1)
