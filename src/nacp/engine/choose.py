"""Which engine runs: decided here, and nowhere else."""

from nacp.engine.numpy import (
    NAME,
    Block,
    check,
    label_scores,
    open_block,
    profile,
    sets,
    tally,
    uniforms,
    window,
)

__all__ = [
    "Block", "check", "engine_name", "label_scores", "open_block", "profile", "sets", "tally", "uniforms",
    "window",
]  # fmt: skip


def engine_name() -> str:
    """Return the name of the engine that runs."""
    return NAME
