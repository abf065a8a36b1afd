"""The torch engine: the verbs of the NumPy engine on the device of the tensors, with the same bits.

The rows stay on the device; results are returned as NumPy arrays. Masses are sums of integers, so they do not
depend on the order of summation. Only NumPy can compute Python functions, and formulas with operations that
are not correctly rounded. It does so for tensors on the CPU; other tensors, whose rows would have to be
copied to the host, are refused.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from nacp._types import Array, Floats, Ints
from nacp.coverage import grid
from nacp.engine import hashing, numpy, ranks
from nacp.engine.formula import Expression, Formula
from nacp.engine.numpy import bet
from nacp.engine.spec import Spec
from nacp.errors import InputError

__all__ = ["NAME", "bet", "check", "inside", "label_scores", "scores", "sets", "shares", "tally", "uniforms"]

NAME = "torch"
_UNIT = 2.0**-52
_WORDS = hashing._GOLDEN, hashing._MIX_1, hashing._MIX_2
_GOLDEN, _MIX_1, _MIX_2 = (int(word.view(np.int64)) for word in _WORDS)  # as signed integers


def _fetched(values: Tensor) -> Array:
    """Return a tensor as an array on the host."""
    return values.cpu().numpy()


def _sent(values: Any, device: torch.device, dtype: Any = None) -> Tensor:
    """Return a copy of an array on a device."""
    return torch.tensor(np.ascontiguousarray(values, dtype=dtype), device=device)


def _rows(values: Any) -> Tensor:
    """Return rows as a tensor; an array becomes a tensor on the CPU."""
    if isinstance(values, np.ndarray):
        return _sent(values, torch.device("cpu"))
    found: Tensor = values.detach().contiguous()
    return found


def _needs_numpy(spec: Spec) -> bool:
    return spec.kernel == "function" or not ranks.rounds_once(spec.formula)


def _on_host(rows: Tensor) -> Array:
    """Return rows as an array; raise an error if they are not on the CPU."""
    if rows.device.type != "cpu":
        raise InputError(
            "score",
            "is a Python function, or a formula that NumPy alone evaluates, and a tensor on the device "
            f"{str(rows.device)!r} is not copied to the host for that",
            remedy="pass probs.cpu(), or a score of the library",
        )
    return _fetched(rows)


def check(values: Any, tolerance: float) -> bool:
    """Return whether all rows are probabilities: entries in [0, 1] that sum to 1."""
    rows = _rows(values)
    if not len(rows):
        return True
    sums, most = rows.sum(dim=1, dtype=torch.float64), 1 + 8 * torch.finfo(rows.dtype).eps
    near = (rows.min() >= 0) & ((sums - 1).abs().max() <= tolerance)
    return bool(near & ((sums.max() <= most) | (rows.max() <= most)))


def uniforms(values: Any, seed: int) -> Floats:
    """Return one u in [0, 1) per row."""
    return _fetched(_uniforms(_rows(values), seed))


def scores(values: Any, spec: Spec) -> Floats:
    """Return the native scores of all labels: (rows, k)."""
    return _fetched(_scores(_rows(values), spec))


def label_scores(values: Any, spec: Spec, labels: Ints) -> Floats:
    """Return the native score of one given label per row."""
    rows = _rows(values)
    own = _sent(labels, rows.device, np.int64)[:, None]
    if spec.kernel in ("hps", "entries"):
        found = _scores(rows.gather(1, own), spec)
    elif spec.kernel == "ranked" and not _needs_numpy(spec):
        found = _evaluated(spec.formula, _ranks_of_labels(rows, own, _u(rows, spec))).expand(own.shape)
    else:
        found = _scores(rows, spec).gather(1, own)
    return _fetched(found[:, 0])


def tally(values: Any, spec: Spec, which: Ints | None = None, table: Ints | None = None) -> tuple[int, Ints]:
    """Count pairs by cell: see `nacp.engine.numpy.tally`."""
    rows = _rows(values)
    if _needs_numpy(spec):
        return numpy.tally(_on_host(rows), spec, which, table)
    places = _cells(rows, spec, placed=table is not None)
    counts = [torch.bincount(places.reshape(-1), minlength=grid.CELLS)]
    if table is not None:
        weights = _weights(which, table, rows.device)
        counts += [_added(places, each.clamp(min=0), grid.CELLS) for each in (weights, -weights)]
    cells = counts[0].nonzero()[:, 0]
    first, last = (int(cells[0]), int(cells[-1]) + 1) if len(cells) else (0, 0)
    return first, _fetched(torch.stack(counts)[:, first:last])


def shares(
    values: Any,
    spec: Spec,
    cells: Ints,
    own: Floats,
    label_cells: Ints,
    scale: float,
    which: Ints | None = None,
    table: Ints | None = None,
) -> Floats:
    """Return each row's share at several thresholds: see `nacp.engine.numpy.shares`."""
    rows, number = _rows(values), len(cells) + 1
    if _needs_numpy(spec):
        return numpy.shares(_on_host(rows), spec, cells, own, label_cells, scale, which, table)
    starts = torch.arange(len(rows), device=rows.device)[:, None] * number
    ends, found = _sent(cells, rows.device, np.int64), _cells(rows, spec, placed=table is not None)
    first = torch.searchsorted(ends, found) + starts
    if table is None:
        weight = torch.bincount(first.reshape(-1), minlength=len(rows) * number)
    else:
        weight = _added(first, _weights(which, table, rows.device), len(rows) * number)
    share: Floats = _fetched(weight.reshape(-1, number)[:, :-1].cumsum(dim=1)) * scale + 0.0
    for value, cell in zip(own.T, label_cells.T, strict=True):
        share += np.where(cell[:, None] <= cells, value[:, None], 0.0)
    return share


def sets(values: Any, spec: Spec, thresholds: Floats, allow_empty: bool = True) -> tuple[Ints, Array]:
    """Return the sizes of the sets, and their labels row by row: see `nacp.engine.numpy.sets`."""
    found = inside(values, spec, thresholds, allow_empty)
    return _fetched(found.sum(dim=1)), _fetched(found.nonzero()[:, 1].to(torch.int32))


def inside(values: Any, spec: Spec, threshold: Floats, allow_empty: bool = True) -> Tensor:
    """Return which labels are in the sets that `sets` returns: booleans of shape (rows, k), on the device."""
    rows = _rows(values)
    found = _scores(rows, spec)
    below = found <= _sent(threshold, rows.device, np.float64)
    if not allow_empty:
        by = -rows if spec.kernel == "ranked" else found
        below |= (by == by.amin(dim=1, keepdim=True)) & ~below.any(dim=1, keepdim=True)
    return below


def _weights(which: Ints | None, table: Ints, device: torch.device) -> Tensor:
    """Return the weights of all pairs; only the rows of the table that are used are copied to the device."""
    used, places = np.unique(np.asarray(which), return_inverse=True)
    return _sent(table[used], device, np.int64)[_sent(places, device)]


def _added(places: Tensor, weights: Tensor, number: int) -> Tensor:
    """Return the sums of integer weights by place."""
    zeros = torch.zeros(number, dtype=torch.int64, device=weights.device)
    return zeros.index_add_(0, places.reshape(-1), weights.reshape(-1))


def _scores(values: Tensor, spec: Spec) -> Tensor:
    """Return the native scores of all labels."""
    if _needs_numpy(spec):
        return _sent(numpy.scores(_on_host(values), spec), values.device)
    if spec.kernel == "ranked":
        rows = _Sorted(values, spec)
        return torch.zeros_like(rows.p).scatter_(1, rows.order, rows.scores(spec))
    if spec.kernel == "pointwise":
        found = _evaluated(spec.formula, {"p": values}).expand(values.shape)
        if bool(found.isnan().any()):
            raise InputError("score", "returned NaN; it must return numbers (inf is allowed)")
        return found
    exact = values.to(torch.float64)
    return -exact if spec.kernel == "hps" else exact.clamp(min=torch.finfo(torch.float64).min)


def _cells(values: Tensor, spec: Spec, placed: bool) -> Tensor:
    """Return the cells of all labels: by column if `placed`, else in any order."""
    if spec.kernel != "ranked":
        found = _scores(values, spec)
        return _cells_of(1 + found, -found) if spec.kernel == "hps" else _cells_of(found, 1 - found)
    rows = _Sorted(values, spec)
    found = rows.scores(spec)
    cells = _cells_of(found, 1 - found)
    return torch.zeros_like(cells).scatter_(1, rows.order, cells) if placed else cells


def _cells_of(scores: Tensor, to_one: Tensor) -> Tensor:
    """Return the cells of scores as in `nacp.coverage.grid`, given also 1 - score without rounding errors."""
    low = scores < 0.5
    rising = torch.where(low, scores > 0, to_one < 0)
    magnitude = torch.where(low, scores, to_one).abs()
    words = magnitude.view(torch.int64) - (rising & (magnitude > 0)).to(torch.int64)
    steps = ((words >> grid._SHIFT) - (grid._FIRST_CODE - 1)).clamp(0, grid.ZERO)
    return torch.where(low, grid.ZERO, grid.ONE) + torch.where(rising, steps + 1, -steps)


def _evaluated(formula: Formula | None, quantities: Mapping[str, Any]) -> Tensor:
    """Return the value of a formula in float64; -inf becomes the lowest finite number."""
    assert isinstance(formula, Expression)
    found: Tensor = _value(formula, quantities)
    if found.is_floating_point():
        found = found.clamp(min=torch.finfo(found.dtype).min)
    return found.to(torch.float64)


def _value(part: Any, quantities: Mapping[str, Any]) -> Any:
    """Return the value of a part of a formula: a number, or a tensor of the type that NumPy would return."""
    if not isinstance(part, Expression):
        return part
    if not part.parts:
        return quantities[part.name]
    values = [_value(each, quantities) for each in part.parts]
    conditions = 1 if part.name == "where" else 0
    kind = np.result_type(*(_kind(each) for each in values[conditions:]))
    if part.name in ("divide", "sqrt") and kind.kind != "f":
        kind = np.dtype(np.float64)
    for i, value in enumerate(values):
        dtype = torch.bool if i < conditions else getattr(torch, kind.name)
        number = not isinstance(value, Tensor)
        values[i] = quantities["p"].new_full((), value, dtype=dtype) if number else value.to(dtype)
    if part.name == "sqrt" and values[0].device.type == "cpu":  # torch.sqrt is inexact there
        with np.errstate(invalid="ignore"):
            return torch.from_numpy(np.sqrt(values[0].numpy()))
    return (torch.eq if part.name == "equal" else getattr(torch, part.name))(*values)


def _kind(value: Any) -> Any:
    """Return the NumPy type of a tensor; a number is returned unchanged, as `np.result_type` takes it."""
    return np.dtype(str(value.dtype).removeprefix("torch.")) if isinstance(value, Tensor) else value


# Ranks: see `nacp.engine.ranks`.


class _Sorted:
    """Rows in descending order, the columns of their entries, and the quantities of whole rows."""

    def __init__(self, values: Tensor, spec: Spec) -> None:
        self.values, self.order = torch.sort(values, dim=1, descending=True)
        self.p = _on_grid(self.values)
        self.shared = {"top": self.p[:, :1], "second": self.p[:, 1:2], "u": _u(values, spec)}
        self._mass = pad((self.p * (1 / _UNIT)).to(torch.int64).cumsum(dim=1), (1, 0))

    def mass_at(self, places: Tensor) -> Tensor:
        """Return the mass of the labels before given places."""
        return self._mass.gather(1, places).to(torch.float64) * _UNIT

    def ranks(self) -> dict[str, Any]:
        """Return the quantities of all labels; labels with equal probabilities have equal ones."""
        first, last = _runs(self.values)
        above, upto = self.mass_at(first), self.mass_at(last)
        places = {"n_above": first.to(torch.float64), "n_upto": last.to(torch.float64)}
        return {"p": self.p, "above": above, "upto": upto, **places, **self.shared}

    def scores(self, spec: Spec) -> Tensor:
        """Return the scores of all labels, which must not fall."""
        found = _evaluated(spec.formula, self.ranks()).expand(self.p.shape)
        if not bool((found[:, 1:] >= found[:, :-1]).all()):
            raise ranks.falling_scores()
        return found


def _ranks_of_labels(values: Tensor, labels: Tensor, u: Tensor | None) -> dict[str, Any]:
    """Return the quantities of one label per row, of shape (rows, 1), without sorting the rows."""
    own, p = values.gather(1, labels), _on_grid(values)
    two = _on_grid(values.topk(min(2, values.shape[1]), dim=1).values)
    found = {"p": _on_grid(own), "top": two[:, :1], "second": two[:, 1:], "u": u}
    for name, which in (("above", values > own), ("upto", values >= own)):
        found[name] = torch.where(which, p, 0.0).sum(dim=1, keepdim=True)
        found[f"n_{name}"] = which.sum(dim=1, keepdim=True).to(torch.float64)
    return found


def _on_grid(p: Tensor) -> Tensor:
    """Round to multiples of 2^-52; numbers above 1 become 1."""
    return (p.to(torch.float64).clamp(max=1.0) + 1.0) - 1.0


def _runs(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the start and the end of the run of equal values around each place."""
    changes, places = values[:, 1:] != values[:, :-1], torch.arange(values.shape[1], device=values.device)
    first = torch.where(pad(changes, (1, 0), value=True), places, 0).cummax(dim=1).values
    ends = torch.where(pad(changes, (0, 1), value=True), places + 1, len(places))
    return first, ends.flip(1).cummin(dim=1).values.flip(1)


# Uniform numbers: see `nacp.engine.hashing`.


def _u(values: Tensor, spec: Spec) -> Tensor | None:
    return None if spec.seed is None else _uniforms(values, spec.seed)[:, None]


def _uniforms(rows: Tensor, seed: int) -> Tensor:
    """Return one u in [0, 1) per row; signed integers wrap around like the unsigned ones of NumPy."""
    columns, keys = hashing.hash_plan(rows.shape[1], int(seed) % (1 << 64))
    hashed = rows.index_select(1, _sent(columns, rows.device))
    hashed = torch.cat([hashed, rows.amax(dim=1, keepdim=True)], dim=1).to(torch.float64) + 0.0
    words = hashed.view(torch.int64) ^ _sent(keys.view(np.int64), rows.device)
    return _shifted(_mixed(_mixed(words).sum(dim=1)), 11).to(torch.float64) * 2.0**-53


def _mixed(x: Tensor) -> Tensor:
    """Scramble 64-bit words (the finaliser of splitmix64)."""
    x = x + _GOLDEN
    x = (x ^ _shifted(x, 30)) * _MIX_1
    x = (x ^ _shifted(x, 27)) * _MIX_2
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, by: int) -> Tensor:
    """Shift to the right, filling with zeros."""
    return (x >> by) & ((1 << (64 - by)) - 1)
