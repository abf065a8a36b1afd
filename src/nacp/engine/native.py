"""The compiled engine: the verbs of the NumPy engine, with the same bits, at the speed of reading the rows.

A formula goes to it as codes. What it cannot evaluate (a Python function, an operation that may round in more
than one way) the NumPy engine does. The rows of a block are shared out among threads; since whole numbers are
added up, nothing depends on how many there are.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine import _native, numpy
from nacp.engine import block as block_
from nacp.engine.cells import CELLS, EdgeIndex, cell_table, edge_index
from nacp.engine.contract import (
    ByLabel,
    Chosen,
    Keep,
    Pairs,
    PerLabel,
    PerRow,
    Spec,
    Thresholds,
    Unchecked,
    Weights,
    Whole,
)
from nacp.engine.kept import Kept
from nacp.engine.native_block import WIDTHS, Block, KeptBlock, aligned, hashed_columns, plain
from nacp.engine.native_plain import ascending as ascending
from nacp.engine.native_plain import masked_sums as masked_sums
from nacp.engine.native_plain import split_cells as split_cells
from nacp.engine.native_plain import split_crossings as split_crossings
from nacp.engine.native_plain import split_draws as split_draws
from nacp.engine.scratch import Scratch
from nacp.engine.threads import each_in_a_thread, threads_for
from nacp.engine.threads import over_rows as _over_rows

NAME = "native"

_native.learn_cells(cell_table(), CELLS)

# A row is cut beyond a limit in multiples of so many places, as in rows.h.
_CUTS = 4
_NO_CUTS = np.zeros(_CUTS)
# Rows times bets that are worth a thread, by what it takes to hand them to one: see threads.py.
_BETS_PER_THREAD = 1 << 16


def open_block(
    values: Array | Chosen,
    spec: Spec,
    scratch: Scratch | None = None,
    u: Floats | None = None,
    unchecked: Unchecked | None = None,
) -> block_.Block:
    """Return rows ready to be asked about their scores; `u` are their uniform numbers, if these are known."""
    codes = spec.codes if values.dtype in WIDTHS else None
    if codes is None:
        rows = values.copied() if isinstance(values, Chosen) else values
        return numpy.open_block(rows, spec, scratch, u, unchecked)
    if isinstance(values, Chosen):
        values = Chosen(values.matrix, np.ascontiguousarray(values.rows, dtype=np.int64))
    else:
        values = aligned(values)
    return Block(values, spec, Scratch() if scratch is None else scratch, u, codes, unchecked)


def keeps(spec: Spec) -> bool:
    """Return whether the scores of rows can be kept when these are read."""
    return spec.codes is not None


def kept_block(kept: Kept, rows: slice | Ints, spec: Spec) -> block_.Block:
    """Return rows of which scores were kept, ready to be asked about these."""
    return KeptBlock(kept, rows, spec)


def check(values: Array, tolerance: float) -> bool:
    """Return whether rows are probabilities: none negative or above 1, and each row sums to 1."""
    good = np.zeros(len(values), dtype=np.uint8)
    _over_rows(_native.look_over, plain(values, look=(good, tolerance, None, None)))
    return bool(good.all())


def fetch(file: int, places: Ints, out: Array) -> bool:
    """Read rows of bytes from their places in an open file; return whether it has them all."""
    if not hasattr(_native, "fetch"):
        return numpy.fetch(file, places, out)

    def fetch_some(described: tuple[Any, ...], *arguments: Any) -> bool:
        return _native.fetch(*(places, *arguments, file, out))

    return all(_over_rows(fetch_some, (None, *out.shape)))


def uniforms(values: Array, seed: int) -> Floats:
    """Return one u in [0, 1) per row."""
    out = np.empty(len(values))
    _over_rows(_native.look_over, plain(values, out, (None, 0.0, *hashed_columns(values.shape[1], seed))))
    return out


def label_scores(block: block_.Block, labels: Ints) -> Floats:
    """Return the native score of one given label per row."""
    if not isinstance(block, Block) or not block.spec.ranked:
        return numpy.label_scores(block, labels)
    out = np.empty(len(labels))
    block.at_first_look(_native.label_scores, np.ascontiguousarray(labels), out)
    return out


# What is kept of rows, in room that the next block uses again: fresh memory takes as long as to write there.
_KEPT: list[tuple[str, type]] = [("kept scores", np.float64), ("kept labels", np.int32)]
_NO_LABELS: Array = np.empty(0, dtype=np.int32)


def tally(
    block: block_.Block,
    edges: Floats | None = None,
    weights: Weights = None,
    limit: float = np.inf,
    keep: Keep | None = None,
    parts: int = _CUTS,
    into: Ints | None = None,
) -> Ints:
    """Return pairs, gains and losses, shape (3, cells): their number, positive and negative weight.

    What scores above the limit may be counted in lower cells than its own, but beyond the limit, and gains
    anywhere there: these labels of a row are cut into more than so many parts. What scores in intervals up to
    the limit goes to `keep`.
    """
    if not isinstance(block, Block):
        return numpy.tally(block, edges, weights, limit, into=into)
    shape = (1 if weights is None else 3, CELLS if edges is None else len(edges) - 1)
    total = np.zeros(shape, dtype=np.int64) if into is None else into
    numbers = None if keep is None else np.empty(block.shape[0], dtype=np.int64)
    indexed = None if edges is None else _indexed(edges)
    spans = None if keep is None else np.array(keep.spans, dtype=np.float64)
    kinds = _KEPT if keep is None or keep.labels else _KEPT[:1]

    def count(described: tuple[Any, ...], first: int, last: int, *arguments: Any) -> tuple[Array, ...]:
        out = total
        if first:  # in another thread
            out = block.scratch.get(f"tally {first}", shape, np.int64)
            out[:] = 0
        asked = described, first, last, *arguments, numbers, out, indexed
        if keep is None or numbers is None:
            _native.tally(*asked)
            return (out,)
        least = keep.expected * (last - first) // max(len(numbers), 1) * 9 // 8
        names = [(f"{name} {first}", kind) for name, kind in kinds]
        rooms = [block.scratch.held(name, least, kind) for name, kind in names]
        found, number = _native.tally(*(*asked, spans, *rooms)), int(numbers[first:last].sum())
        kept = zip(names, rooms, found[: len(names)], strict=True)
        return out, *(_filled(block.scratch, *name, number, room, grown) for name, room, grown in kept)

    limit = limit if edges is None else float(edges[-1])
    cuts = _NO_CUTS if limit == np.inf or edges is not None else numpy.tail_cuts(block.values, parts)
    found = block.at_first_look(count, edges, limit, cuts, *_weights(weights))
    tallies, *kept = zip(*found, strict=True)
    if keep is not None and numbers is not None:
        scores, *labels = (
            _together(block.scratch, *kind, each) for kind, each in zip(kinds, kept, strict=True)
        )
        keep.take(numbers, scores, labels[0] if labels else _NO_LABELS)
    for each in tallies[1:]:
        total += each
    return total


def _filled(scratch: Scratch, name: str, kind: type, number: int, room: Array, grown: bytes | None) -> Array:
    """Return so many numbers that were written to room that was lent; or that grew beyond it."""
    if grown is None:
        return room[:number]
    scratch.get(name, (number * 5 // 4,), kind)  # the next block will want about as much
    return np.frombuffer(grown, dtype=kind)


def _together(scratch: Scratch, name: str, kind: type, parts: Sequence[Array]) -> Array:
    """Return parts one after the other; a single one as it is."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts, out=scratch.get(f"all {name}", (sum(map(len, parts)),), kind))


def squares(block: block_.Block, ends: Floats, into: Ints) -> None:
    """Add pairs and squared sizes between ascending ends: see `nacp.engine.numpy.squares`."""
    if not isinstance(block, Block) or (index := _indexed(ends)) is None:
        numpy.squares(block, ends, into)
        return

    def add(described: tuple[Any, ...], first: int, last: int) -> Ints:
        sums = into
        if first:
            sums = block.scratch.get(f"squares from {first}", into.shape, np.int64)
            sums[:] = 0
        _native.squares(described, first, last, ends, index, sums)
        return sums

    for sums in _over_rows(add, block.described)[1:]:
        into += sums


def window(block: block_.Block, spans: Sequence[tuple[float, float]], weights: Weights = None) -> Pairs:
    """Return the pairs that score in one of some intervals (low, high], which are ascending and disjoint."""
    if not isinstance(block, Block):
        return numpy.window(block, spans, weights)
    ends = np.array(spans, dtype=np.float64).reshape(-1)
    found = _over_rows(_native.window, block.described, ends, *_weights(weights))
    scores, weighed = (b"".join(each) for each in zip(*found, strict=True))
    return Pairs(np.frombuffer(scores), np.frombuffer(weighed, dtype=np.int64))


def profile(block: block_.Block, thresholds: Thresholds, weights: Weights = None) -> Ints:
    """Return the weight of each row's set at each threshold; by default its size: (rows, thresholds)."""
    if not isinstance(block, Block):
        return numpy.profile(block, thresholds, weights)
    values, kind, number = _thresholds(thresholds)
    out = np.zeros((block.shape[0], number), dtype=np.int64)
    _over_rows(_native.profile, block.described, values, kind, *_weights(weights), out)
    return out


def counts(block: block_.Block, marks: Floats, weights: Weights = None) -> Ints:
    """Return for each label what scores below its marks, and up to them: see `nacp.engine.numpy.counts`."""
    if not isinstance(block, Block):
        return numpy.counts(block, marks, weights)
    values = np.ascontiguousarray(marks)
    shape = (2, *values.shape) if weights is None else (2, 2, *values.shape)

    def count(*arguments: Any) -> Ints:
        out = np.zeros(shape, dtype=np.int64)
        _native.counts(*(*arguments, out))
        return out

    below, on_mark = sum(_over_rows(count, block.described, values, *_weights(weights)))
    return np.stack([below, below + on_mark], axis=-3)


def gaps(
    block: block_.Block, labels: Ints, lows: Floats, highs: Floats, weights: Weights = None
) -> tuple[Ints, Pairs]:
    """Return the pairs in gaps of labels, and in which they are: see `nacp.engine.numpy.gaps`."""
    if not isinstance(block, Block):
        return numpy.gaps(block, labels, lows, highs, weights)
    ends = np.ascontiguousarray(labels), np.ascontiguousarray(lows), np.ascontiguousarray(highs)
    found = _over_rows(_native.gaps, block.described, *ends, *_weights(weights))
    which, scores, weighed = (b"".join(each) for each in zip(*found, strict=True))
    pairs = Pairs(np.frombuffer(scores), np.frombuffer(weighed, dtype=np.int64))
    return np.frombuffer(which, dtype=np.int32), pairs


def sets(
    block: block_.Block, threshold: float | PerLabel | PerRow, *, allow_empty: bool = True
) -> tuple[Ints, Ints]:
    """Return the sizes of the sets, and their labels row after row: these may lie in scratch memory."""
    if not isinstance(block, Block):
        return numpy.sets(block, threshold, allow_empty=allow_empty)
    values, kind, _ = _thresholds(threshold)
    sizes = np.empty(block.shape[0], dtype=np.int64)

    def take(described: tuple[Any, ...], first: int, last: int) -> Array:
        name = f"labels {first}"
        room = block.scratch.held(name, 0, np.int32)
        grown = _native.sets(described, first, last, values, kind, allow_empty, sizes, room)
        return _filled(block.scratch, name, np.int32, int(sizes[first:last].sum()), room, grown)

    return sizes, _together(block.scratch, "labels", np.int32, block.at_first_look(take))


def set_of_row(
    row: Array, spec: Spec, threshold: Floats, tolerance: float, *, allow_empty: bool
) -> list[int] | None:
    """Return the set of one row, if it is one of probabilities; None if it has to go the usual way."""
    codes, k = spec.codes, len(row)
    if codes is None or row.dtype not in WIDTHS or not (row.flags.c_contiguous and row.flags.aligned):
        return None
    u, good = None if spec.seed is None else np.empty(1), bytearray(1)
    look = (good, tolerance, *hashed_columns(k, spec.seed))
    described = (row, 1, k, row.itemsize, *codes, u, None, look)
    found = _native.sets(described, 0, 1, threshold, 0, allow_empty, np.empty(1, dtype=np.int64))
    assert found is not None  # no room was lent
    labels: list[int] = np.frombuffer(found, dtype=np.int32).tolist()
    return labels if good[0] else None


def bet(
    block: block_.Block,
    points: slice,
    thresholds: Floats,
    weights: Weights,
    labels: tuple[Floats, Floats],
    scale: float,
    bets: tuple[Ints, Floats, Ints, float],
    standing: tuple[Any, ...],
) -> None:
    """Bet on rows, one after the other: see `nacp.engine.numpy.bet`."""
    if not isinstance(block, Block):
        numpy.bet(block, points, thresholds, weights, labels, scale, bets, standing)
        return
    (columns, targets, owners, width), (state, most, outcome, *schedule, hedges) = bets, standing
    shared = block.described, points.start, points.stop
    values, weighed = np.ascontiguousarray(thresholds), _weights(weights)
    scores = *map(np.ascontiguousarray, labels), scale, width

    def bet_at(some: slice, state: Floats, chosen: Ints | slice = slice(None)) -> Ints:
        """Place the bets at some of the thresholds; return what became of them."""
        placed = columns[chosen] - some.start, targets[chosen], owners[chosen]
        found: Ints = outcome[chosen]
        stands = state, most[chosen], found, *schedule, *hedges
        _native.bet(*(*shared, values[some], *weighed, *scores, *map(np.ascontiguousarray, placed), *stands))
        return found

    # Each bet is on all rows, so threads share the bets.
    parts = threads_for(len(columns) * (points.stop - points.start), _BETS_PER_THREAD)
    if parts == 1:
        bet_at(slice(0, len(values)), state)
        return
    ends = [len(values) * i // parts for i in range(parts + 1)]
    some = [slice(*each) for each in pairwise(ends)]
    chosen = [np.flatnonzero((columns >= each.start) & (columns < each.stop)) for each in some]
    states = [np.ascontiguousarray(state[:, each]) for each in chosen]
    calls = [partial(bet_at, *each) for each in zip(some, states, chosen, strict=True)]
    for each, own, found in zip(chosen, states, each_in_a_thread(calls), strict=True):
        state[:, each], outcome[each] = own, found


def play(
    state: Floats,
    most: Floats,
    outcome: Ints,
    gains: Floats,
    seen: int,
    stops: Ints,
    changes: Ints,
    delta: float,
    hedges: tuple[Floats, Floats],
) -> None:
    """Bet on some points: see `nacp.stats.betting.play`."""
    points, bets = gains.shape
    _native.play(
        state, most, outcome, np.ascontiguousarray(gains), points, bets, seen, stops, changes, delta, *hedges
    )


def _indexed(edges: Floats) -> EdgeIndex | None:
    """Return the index of edges from -inf to inf, and keep it, if they were fixed for good, as a stream's."""
    if edges.flags.writeable or (edges[0], edges[-1]) != (-np.inf, np.inf):
        return None
    for known, index in _INDEXES:
        if known is edges:
            return index
    index = edge_index(edges)
    _INDEXES.append((edges, index))
    del _INDEXES[:-4]
    return index


_INDEXES: list[tuple[Floats, EdgeIndex]] = []


def _weights(weights: Weights) -> tuple[Ints | None, Array | None]:
    """Return labels and a table, or no labels and the weight of each entry."""
    if weights is None:
        return None, None
    if isinstance(weights, ByLabel) and isinstance(weights.table, Whole):
        return np.ascontiguousarray(weights.labels), weights.table.whole
    return None, np.ascontiguousarray(weights.all(), dtype=np.int64)


def _thresholds(thresholds: float | Thresholds) -> tuple[Floats, int, int]:
    """Return thresholds, a number for what they are, and how many there are for each pair."""
    if isinstance(thresholds, PerLabel | PerRow):
        several = np.atleast_2d(np.ascontiguousarray(thresholds.values, dtype=np.float64))
        return several, 1 if isinstance(thresholds, PerLabel) else 2, len(several)
    one_each = np.ascontiguousarray(np.atleast_1d(thresholds), dtype=np.float64)
    return one_each, 0, len(one_each)
