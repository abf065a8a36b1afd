"""The torch engine: the verbs of the NumPy engine on the device where tensors lie, with the same bits.

Rows, scores and sets stay there; tallies, the scores of labels and the pairs of a window come back as NumPy
arrays. Sums of probabilities are added up as whole numbers, so no order of threads matters. It evaluates the
formulas that the compiled engine does, and scores that are given; what it cannot is left to NumPy, and
refused where the rows would have to be copied to the host for it.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nacp._types import Floats, Ints
from nacp.engine import block as block_
from nacp.engine import numpy
from nacp.engine.cells import CELLS, HALF, cell_table
from nacp.engine.contract import (
    ByEntry,
    ByLabel,
    Keep,
    Pairs,
    PerLabel,
    PerRow,
    Spec,
    Thresholds,
    Unchecked,
    Weights,
)
from nacp.engine.scratch import Scratch
from nacp.engine.tensors import Block, LabelRanks, evaluated, fetched, hashed, is_p, sent
from nacp.errors import InputError

NAME = "torch"
play, keeps, set_of_row = numpy.play, numpy.keeps, numpy.set_of_row
ascending, masked_sums = numpy.ascending, numpy.masked_sums
fetch, gaps = numpy.fetch, numpy.gaps
split_cells, split_draws = numpy.split_cells, numpy.split_draws


def open_block(
    values: Any,
    spec: Spec,
    scratch: Scratch | None = None,
    u: Floats | None = None,
    unchecked: Unchecked | None = None,
) -> block_.Block:
    """Return rows ready to be asked about their scores; `u` are their uniform numbers, if these are known."""
    if unchecked is not None:
        unchecked.confirm(check(values, unchecked.tolerance))
    served = spec.codes is not None or is_p(spec)
    if isinstance(values, np.ndarray):
        if not served:
            return numpy.open_block(values, spec, scratch, u)
        values = sent(values, torch.device("cpu"))
    elif not served:
        raise InputError(
            "score",
            "is a Python function, or a formula that NumPy alone evaluates, and a tensor on the device "
            f"{str(values.device)!r} is not copied to the host for that",
            remedy="pass probs.cpu(), or a score of the library",
        )
    return Block(values.contiguous(), spec, u)


def check(values: Any, tolerance: float) -> bool:
    """Return whether rows are probabilities: none negative or above 1, and each row sums to 1."""
    rows = sent(values, torch.device("cpu")) if isinstance(values, np.ndarray) else values
    sums, slight = rows.sum(dim=1, dtype=torch.float64), 8 * torch.finfo(rows.dtype).eps
    near = (rows.min() >= 0) & ((sums - 1).abs().max() <= tolerance)
    return bool(near & ((sums.max() <= 1 + slight) | (rows.max() <= 1)))


def uniforms(values: Any, seed: int) -> Floats:
    """Return one u in [0, 1) per row."""
    rows = sent(values, torch.device("cpu")) if isinstance(values, np.ndarray) else values
    return fetched(hashed(rows, seed))


def label_scores(block: block_.Block, labels: Ints) -> Floats:
    """Return the native score of one given label per row."""
    if not isinstance(block, Block):
        return numpy.label_scores(block, labels)
    there = sent(np.asarray(labels, dtype=np.int64), block.rows.device)
    if block.spec.ranked:
        found = evaluated(block.spec, LabelRanks(block.rows, there, block.uniform))
    else:
        found = block.lying.gather(1, there[:, None])
    scores: Floats = fetched(found.expand(len(there), 1)[:, 0].to(torch.float64))
    return scores


def tally(
    block: block_.Block,
    edges: Floats | None = None,
    weights: Weights = None,
    limit: float = np.inf,
    keep: Keep | None = None,
    parts: int = 4,
    into: Ints | None = None,
) -> Ints:
    """Return pairs, gains and losses, shape (3, cells): see `nacp.engine.numpy.tally`."""
    if not isinstance(block, Block):
        return numpy.tally(block, edges, weights, limit, into=into)
    scores = block.flat(placed=weights is not None)
    if edges is None:
        places, number = _cells(scores), CELLS
    else:
        places, number = _searched(edges, scores), len(edges) + 1
    sums = [torch.bincount(places, minlength=number)]
    if weights is not None:
        weighed = _weights(weights, block).reshape(-1)
        sums += [_added(places, each, number) for each in (weighed.clamp(min=0), -weighed.clamp(max=0))]
    found = fetched(torch.stack(sums))
    found = found if edges is None else found[:, 1:-1]  # without what lies below all edges, or above
    return found if into is None else np.add(into, found, out=into)


@lru_cache(maxsize=8)
def _table(device: torch.device) -> Tensor:
    return sent(cell_table(), device)


def _cells(scores: Tensor) -> Tensor:
    """Return the cell of each score, by its leading bits: see `nacp.engine.cells`."""
    lower = scores < HALF
    nearer = torch.where(lower, scores, 1 - scores).to(torch.float32)
    codes = ((nearer.view(torch.int32) >> 16) & 0xFFFF) + (lower.to(torch.int32) << 16)
    return _table(scores.device).index_select(0, codes)


def _searched(edges: Any, scores: Tensor) -> Tensor:
    """Return how many of ascending edges lie below each score."""
    there = sent(np.asarray(edges, dtype=np.float64), scores.device)
    return torch.searchsorted(there, scores.to(torch.float64))


def _added(places: Tensor, values: Tensor, number: int) -> Tensor:
    zeros = torch.zeros(number, dtype=torch.int64, device=values.device)
    return zeros.index_add_(0, places, values)


def _weights(weights: ByLabel | ByEntry, block: Block) -> Tensor:
    """Return the whole-number weights of all pairs; of each label that there is, a row is sent."""
    device = block.rows.device
    if isinstance(weights, ByEntry):
        return sent(weights.all().astype(np.int64, copy=False), device)
    labels, places = np.unique(weights.labels, return_inverse=True)
    rows = ByLabel(labels, weights.table, weights.unit).all()
    return sent(rows.astype(np.int64, copy=False), device)[sent(places, device)]


def window(block: block_.Block, spans: Sequence[tuple[float, float]], weights: Weights = None) -> Pairs:
    """Return the pairs that score in one of some intervals (low, high], which are ascending and disjoint."""
    if not isinstance(block, Block):
        return numpy.window(block, spans, weights)
    scores = block.flat(placed=weights is not None)
    ends = _searched(np.reshape(spans, -1), scores)  # inside are those above as many lows and one high less
    flat = (ends % 2 == 1).nonzero()[:, 0]
    found: Floats = fetched(scores[flat].to(torch.float64))
    if weights is None:
        return Pairs(found, np.empty(0, dtype=np.int64))
    return Pairs(found, fetched(_weights(weights, block).reshape(-1)[flat]))


def profile(block: block_.Block, thresholds: Thresholds, weights: Weights = None) -> Ints:
    """Return the weight of each row's set at each threshold; by default its size: (rows, thresholds)."""
    if not isinstance(block, Block):
        return numpy.profile(block, thresholds, weights)
    k = block.shape[1]
    if isinstance(thresholds, PerLabel | PerRow):
        weighed = 1 if weights is None else _weights(weights, block)
        several = [type(thresholds)(values) for values in np.atleast_2d(thresholds.values)]
        sums = [(_below(block, each) * weighed).sum(dim=1) for each in several]
        return fetched(torch.stack(sums, dim=1))
    upto = _upto(block, thresholds, weights)
    if weights is None:  # sizes, which travel light
        upto = upto.to(torch.int16 if k < 1 << 15 else torch.int32)
    return fetched(upto).astype(np.int64, copy=False)


def counts(block: block_.Block, marks: Floats, weights: Weights = None) -> Ints:
    """Return for each label what scores below its marks, and up to them: see `nacp.engine.numpy.counts`."""
    if not isinstance(block, Block):
        return numpy.counts(block, marks, weights)
    parts: list[Tensor | None] = [None]
    if weights is not None:
        weighed = _weights(weights, block)
        parts = [weighed.clamp(min=0), (-weighed).clamp(min=0)]
    ends = np.stack([np.nextafter(marks, -np.inf), marks])
    found = np.zeros((len(parts), *ends.shape), dtype=np.int64)
    for at in np.ndindex(ends.shape[:2]):
        below = _below(block, PerLabel(ends[at]))
        for sums, part in zip(found, parts, strict=True):
            sums[at] = fetched((below if part is None else below * part).sum(dim=0))
    return found[0] if weights is None else found


def squares(block: block_.Block, ends: Floats, into: Ints) -> None:
    """Add pairs and squared sizes between ascending ends: see `nacp.engine.numpy.squares`."""
    if not isinstance(block, Block):
        numpy.squares(block, ends, into)
        return
    scores = block.flat(placed=False).reshape(block.shape).sort(dim=1)[0].reshape(-1)
    places, number = _searched(ends, scores), len(ends) + 1
    odd = 2 * torch.arange(block.shape[1], device=scores.device) + 1
    added = _added(places, odd.repeat(block.shape[0]), number)
    into += fetched(torch.stack([torch.bincount(places, minlength=number), added]))[:, 1:-1]


def _upto(block: Block, thresholds: Floats, weights: Weights) -> Any:
    """Return the weight of each row's set at each of ascending thresholds, where it is."""
    rows, k = block.shape
    places = _searched(thresholds, block.flat(placed=weights is not None)).reshape(rows, k)
    number = len(thresholds) + 1
    places += torch.arange(rows, device=places.device)[:, None] * number
    if weights is None:
        found = torch.bincount(places.reshape(-1), minlength=rows * number)
    else:
        found = _added(places.reshape(-1), _weights(weights, block).reshape(-1), rows * number)
    return found.reshape(rows, number).cumsum(dim=1)[:, :-1]


def _below(block: Block, threshold: float | PerLabel | PerRow) -> Tensor:
    """Return which scores, in the places of the labels, are at most a threshold."""
    if isinstance(threshold, PerLabel | PerRow):
        values = sent(np.asarray(threshold.values, dtype=np.float64), block.rows.device)
        return block.lying.to(torch.float64) <= (
            values if isinstance(threshold, PerLabel) else values[:, None]
        )
    kind = np.dtype(str(block.lying.dtype).removeprefix("torch."))
    return block.lying <= float(numpy.down(kind, threshold))


def inside(block: Block, threshold: float | PerLabel | PerRow, *, allow_empty: bool = True) -> Tensor:
    """Return which labels are in the sets: see `nacp.engine.numpy.sets`."""
    if not block.spec.ranked or isinstance(threshold, PerLabel):
        found = _below(block, threshold)
        if not allow_empty:
            by = -block.rows if block.spec.ranked else block.lying
            found |= (by == by.amin(dim=1, keepdim=True)) & ~found.any(dim=1, keepdim=True)
        return found
    if isinstance(threshold, PerRow):
        below = block.ordered <= sent(threshold.values, block.rows.device)[:, None]
    else:
        below = block.ordered <= threshold
    sizes = below.sum(dim=1, keepdim=True).clamp(min=0 if allow_empty else 1)
    cuts = block.sorted[0].gather(1, (sizes - 1).clamp(min=0))
    return (block.rows >= cuts) & (sizes > 0)


def sets(
    block: block_.Block, threshold: float | PerLabel | PerRow, *, allow_empty: bool = True
) -> tuple[Ints, Ints]:
    """Return the sizes of the sets, and their labels row after row."""
    if not isinstance(block, Block):
        return numpy.sets(block, threshold, allow_empty=allow_empty)
    found = inside(block, threshold, allow_empty=allow_empty)
    return fetched(found.sum(dim=1)), fetched(found.nonzero()[:, 1].to(torch.int32))


def bet(block: block_.Block, *arguments: Any) -> None:
    """Bet on rows, one after the other: see `nacp.engine.numpy.bet`."""
    numpy.bet(*(block, *arguments, profile))
