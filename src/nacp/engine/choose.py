"""Which engine runs: decided here, and nowhere else.

The compiled one if it was built, else NumPy's. ``NACP_ENGINE=numpy`` or ``NACP_ENGINE=native`` asks for one
of them; to ask for what is not there is an error, so that nobody is slow without knowing it. Rows that are a
tensor on a device go to torch's, where they lie; ``NACP_ENGINE=torch`` sends all rows there.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from nacp._types import Array, Bools, Floats, Ints
from nacp.engine import lumped, numpy
from nacp.engine.block import Block as Block
from nacp.engine.contract import (
    CellPairs,
    Chosen,
    Keep,
    Pairs,
    PerLabel,
    PerRow,
    Spec,
    Thresholds,
    Unchecked,
    Weights,
)
from nacp.engine.kept import Kept
from nacp.engine.lumped import Lumped
from nacp.engine.scratch import Scratch

ENGINES = ("numpy", "native", "torch")


def _engine(name: str) -> ModuleType:
    if name == "numpy":
        return numpy
    if name not in ENGINES:
        raise ImportError(f"NACP_ENGINE must be {' or '.join(ENGINES)}, not {name!r}")
    if name == "torch":
        try:
            from nacp.engine import torch
        except ImportError as error:
            raise ImportError("the engine torch needs PyTorch; pip install 'nacp[torch]'") from error
        return torch
    try:
        from nacp.engine import native
    except ImportError as error:
        raise ImportError(
            "the compiled engine was not built when nacp was installed: install a C compiler and nacp "
            "again, or do not ask for it (NACP_ENGINE=native)"
        ) from error
    return native


def _chosen() -> ModuleType:
    built = find_spec("nacp.engine._native") is not None
    return _engine(os.environ.get("NACP_ENGINE") or ("native" if built else "numpy"))


_CHOSEN = _chosen()
_CURRENT: ContextVar[ModuleType] = ContextVar("engine", default=_CHOSEN)


@contextmanager
def using(name: str) -> Iterator[None]:
    """Let an engine run for a while: to compare them."""
    token = _CURRENT.set(_engine(name))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def is_tensor(values: Any) -> bool:
    """Return whether something is a tensor of PyTorch, which is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def _of_rows(values: Any) -> ModuleType:
    return _engine("torch") if is_tensor(values) else _CURRENT.get()


def _of_block(block: Block) -> ModuleType:
    return _engine("torch") if block.on_device else _CURRENT.get()


def engine_name() -> str:
    """Return the name of the engine that runs."""
    name: str = _CURRENT.get().NAME
    return name


def check(values: Array, tolerance: float) -> bool:
    """Return whether rows are probabilities: none negative or above 1, and each row sums to 1."""
    good: bool = _of_rows(values).check(values, tolerance)
    return good


def fetch(file: int, places: Ints, out: Array) -> bool:
    """Read rows of bytes from their places in an open file; return whether it has them all."""
    found: bool = _CURRENT.get().fetch(file, places, out)
    return found


def uniforms(values: Array | Lumped, seed: int) -> Floats:
    """Return one u in [0, 1) per row."""
    if isinstance(values, Lumped):
        return values.uniforms(seed)
    u: Floats = _of_rows(values).uniforms(values, seed)
    return u


def open_block(
    values: Array | Lumped | Chosen,
    spec: Spec,
    scratch: Scratch | None = None,
    u: Floats | None = None,
    unchecked: Unchecked | None = None,
) -> Block:
    """Return rows ready to be asked about their scores; `u` are their uniform numbers, if these are known.

    Of rows that are `unchecked`, the block is to `confirm` what it found when it has been asked.
    """
    if isinstance(values, Lumped):
        if spec.formula is not None:
            return lumped.Block(values, spec, u)
        values = values.whole()
    if isinstance(values, Chosen) and _CURRENT.get().NAME != "native":
        values = values.copied()
    block: Block = _of_rows(values).open_block(values, spec, scratch, u, unchecked)
    return block


def label_scores(block: Block, labels: Ints) -> Floats:
    """Return the native score of one given label per row."""
    scores: Floats = _of_block(block).label_scores(block, labels)
    return scores


def keeps(spec: Spec) -> bool:
    """Return whether the scores of rows can be kept when these are read."""
    can: bool = _CURRENT.get().keeps(spec)
    return can


def kept_block(kept: Kept, rows: slice | Ints, spec: Spec) -> Block:
    """Return rows of which scores were kept, ready to be asked about these."""
    block: Block = _CURRENT.get().kept_block(kept, rows, spec)
    return block


def tally(
    block: Block,
    edges: Floats | None = None,
    weights: Weights = None,
    limit: float = float("inf"),
    keep: Keep | None = None,
    parts: int = 4,
    into: Ints | None = None,
) -> Ints:
    """Return pairs, gains and losses of cells: see `nacp.engine.numpy.tally`."""
    found: Ints = _of_block(block).tally(block, edges, weights, limit, keep, parts, into)
    return found


def window(block: Block, spans: Sequence[tuple[float, float]], weights: Weights = None) -> Pairs:
    """Return the pairs that score in one of some intervals (low, high], which are ascending and disjoint."""
    pairs: Pairs = _of_block(block).window(block, spans, weights)
    return pairs


def profile(block: Block, thresholds: Thresholds, weights: Weights = None) -> Ints:
    """Return the weight of each row's set at each threshold; by default its size: (rows, thresholds)."""
    found: Ints = _of_block(block).profile(block, thresholds, weights)
    return found


def counts(block: Block, marks: Floats, weights: Weights = None) -> Ints:
    """Return for each label what scores below its marks, and up to them: see `nacp.engine.numpy.counts`."""
    found: Ints = _of_block(block).counts(block, marks, weights)
    return found


def gaps(
    block: Block, labels: Ints, lows: Floats, highs: Floats, weights: Weights = None
) -> tuple[Ints, Pairs]:
    """Return the pairs in gaps of labels, and in which they are: see `nacp.engine.numpy.gaps`."""
    found: tuple[Ints, Pairs] = _of_block(block).gaps(block, labels, lows, highs, weights)
    return found


def squares(block: Block, ends: Floats, into: Ints) -> None:
    """Add pairs and squared sizes between ascending ends: see `nacp.engine.numpy.squares`."""
    _of_block(block).squares(block, ends, into)


def sets(block: Block, threshold: float | PerLabel | PerRow, **options: Any) -> tuple[Ints, Ints]:
    """Return the sizes of the sets, and their labels row after row."""
    found: tuple[Ints, Ints] = _of_block(block).sets(block, threshold, **options)
    return found


def inside(block: Block, threshold: float, **options: Any) -> Any:
    """Return which labels are in the sets of rows on a device, there: a tensor of booleans."""
    return _of_block(block).inside(block, threshold, **options)


def set_of_row(
    row: Array, spec: Spec, threshold: Floats, tolerance: float, *, allow_empty: bool
) -> list[int] | None:
    """Return the set of one row, if that takes less time than the usual way; else None."""
    found: list[int] | None = _CURRENT.get().set_of_row(
        row, spec, threshold, tolerance, allow_empty=allow_empty
    )
    return found


def bet(block: Block, *arguments: Any) -> None:
    """Bet on rows, one after the other: see `nacp.engine.numpy.bet`."""
    _of_block(block).bet(block, *arguments)


def ascending(pairs: Pairs) -> Pairs:
    """Return pairs in the order of their scores: see `nacp.engine.plain.ascending`."""
    found: Pairs = _CURRENT.get().ascending(pairs)
    return found


def masked_sums(masks: Bools, counts: Array, most: int) -> Ints:
    """Return the sums of the rows of counts that each mask chooses: see `nacp.engine.plain.masked_sums`."""
    sums: Ints = _CURRENT.get().masked_sums(masks, counts, most)
    return sums


def split_cells(*arguments: Any) -> CellPairs | None:
    """Count scores up to edges, and return pairs by cell: see `nacp.engine.plain.split_cells`."""
    found: CellPairs | None = _CURRENT.get().split_cells(*arguments)
    return found


def split_draws(*arguments: Any) -> tuple[Bools, Array | None] | None:
    """Return which rows calibrate in splits, and noisy labels: see `nacp.engine.plain.split_draws`."""
    drawn: tuple[Bools, Array | None] | None = _CURRENT.get().split_draws(*arguments)
    return drawn


def split_crossings(*arguments: Any) -> None:
    """Find where the estimates of splits cross targets: see `nacp.engine.native_plain`."""
    _CURRENT.get().split_crossings(*arguments)


def play(*arguments: Any) -> None:
    """Bet on some points: see `nacp.stats.betting.play`."""
    _CURRENT.get().play(*arguments)
