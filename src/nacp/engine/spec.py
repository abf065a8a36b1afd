"""A score as data, for the engines."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nacp._types import Array, Floats, Ints
from nacp.coverage import grid
from nacp.engine.formula import Formula


@dataclass(frozen=True)
class Spec:
    """A score, as data.

    Attributes
    ----------
    kernel : {"hps", "entries", "pointwise", "ranked", "function"}
        "hps": the native score of an entry p is -p, which stands for 1 - p. "entries": the entry is the
        score. "pointwise": the formula is in terms of ``p`` alone. "ranked": it is in terms of where the
        label stands in its row, and the score rises (or stays) from the most to the least probable label.
        "function": a function from rows to their scores.
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
_OF_MINUS_P: Floats = grid.GRID - 1  # exact where scores 1 - p can be
_OF_MINUS_P.flags.writeable = False
