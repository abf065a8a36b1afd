"""What is done to one block of rows: a few verbs, described in `nacp.engine.contract`."""

from nacp.engine.choose import (
    Block,
    ascending,
    bet,
    check,
    counts,
    engine_name,
    fetch,
    gaps,
    inside,
    is_tensor,
    keeps,
    kept_block,
    label_scores,
    masked_sums,
    open_block,
    play,
    profile,
    set_of_row,
    sets,
    split_cells,
    split_crossings,
    split_draws,
    squares,
    tally,
    uniforms,
    using,
    window,
)
from nacp.engine.contract import (
    ByEntry,
    ByLabel,
    CellPairs,
    Chosen,
    Keep,
    Pairs,
    PerLabel,
    PerRow,
    Spec,
    SplitTable,
    Unchecked,
)
from nacp.engine.formula import traced
from nacp.engine.kept import Kept
from nacp.engine.lumped import Lumped
from nacp.engine.scratch import Scratch

__all__ = [
    "Block", "ByEntry", "ByLabel", "CellPairs", "Chosen", "Keep", "Kept", "Lumped", "Pairs", "PerLabel",
    "PerRow", "Scratch", "Spec", "SplitTable", "Unchecked", "ascending", "bet", "check", "counts",
    "engine_name", "fetch", "gaps", "inside", "is_tensor", "keeps", "kept_block", "label_scores",
    "masked_sums", "open_block", "play", "profile", "set_of_row", "sets", "split_cells", "split_crossings",
    "split_draws", "squares", "tally", "traced", "uniforms", "using", "window",
]  # fmt: skip
