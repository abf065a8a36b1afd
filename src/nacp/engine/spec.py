"""The description of a score that engines evaluate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nacp._types import Array, Floats, Ints
from nacp.coverage import grid
from nacp.engine.formula import Formula


@dataclass(frozen=True)
class Spec:
    """The description of a score.

    Attributes
    ----------
    kernel : {"hps", "entries", "pointwise", "ranked", "function"}
        "hps": the native score of an entry p is -p, in place of 1 - p. "entries": the entry is the score.
        "pointwise": a formula in terms of ``p`` alone. "ranked": a formula that also depends on the rank of
        the label; the score does not decrease from the most to the least probable label. "function": a
        function from rows to their scores.
    formula : Expression or callable, optional
        For "pointwise" and "ranked": see `nacp.engine.formula`.
    seed : int, optional
        The key of the hash that gives each row its u, if the score is randomised.
    function : callable, optional
        For "function".
    """

    kernel: Literal["hps", "entries", "pointwise", "ranked", "function"]
    formula: Formula | None = None
    seed: int | None = None
    function: Callable[[Array], Array] | None = None

    def cells_of(self, scores: Array) -> Ints:
        """Return the cells of native scores."""
        return grid.cells_of_probabilities(-scores) if self.kernel == "hps" else grid.cells_of(scores)

    @property
    def thresholds(self) -> Floats:
        """The native thresholds of the grid."""
        return _OF_MINUS_P if self.kernel == "hps" else grid.GRID


ENTRIES = Spec("entries")
_OF_MINUS_P: Floats = grid.GRID - 1  # This is exact in the range of scores 1 - p.
_OF_MINUS_P.flags.writeable = False
