"""SetSizeDisplay: how large the sets are."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Ints
from nacp.calibration import Calibration
from nacp.sets import PredictionSets
from nacp.show.displays.base import Display
from nacp.show.style import BLUE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

_SINGLE_SIZES = 20  # so many different sizes are drawn one by one; more of them in ranges that double


@dataclass(eq=False)
class SetSizeDisplay(Display):
    """How many sets have how many labels.

    Parameters
    ----------
    sizes : array of shape (n,)
        The sizes of the sets.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was drawn on.
    figure_ : matplotlib Figure
        Where that is.
    bars_ : matplotlib BarContainer
        One bar for each size, or for each range of sizes if there are many.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import nacp
    >>> sets = nacp.PredictionSets([0, 2, 2, 3, 4], [0, 2, 1, 1], k=3)
    >>> display = nacp.SetSizeDisplay.from_sets(sets)
    >>> [float(bar.get_height()) for bar in display.bars_]
    [0.25, 0.5, 0.25]
    """

    sizes: Ints

    bars_: "BarContainer" = field(init=False, repr=False)
    _title: ClassVar[str] = "How large the sets are"

    @classmethod
    def from_sets(cls, sets: PredictionSets, *, ax: "Axes | None" = None, **bars: Any) -> Self:
        """Draw the sizes of prediction sets.

        Parameters
        ----------
        sets : PredictionSets
            From `Calibration.predict_set`.
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.
        **bars
            As in `matplotlib.axes.Axes.bar`.
        """
        return cls(sets.sizes).plot(ax, **bars)

    @classmethod
    def from_calibration(
        cls, calibration: Calibration, probs: ArrayLike, *, ax: "Axes | None" = None, **bars: Any
    ) -> Self:
        """Draw the sizes of the sets that a calibration predicts.

        Parameters
        ----------
        calibration : Calibration
            From `calibrate` or `load`.
        probs : array of shape (n, k)
            Class probabilities.
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.
        **bars
            As in `matplotlib.axes.Axes.bar`.
        """
        return cls.from_sets(calibration.predict_set(probs), ax=ax, **bars)

    def _draw(self, ax: "Axes", style: dict[str, Any]) -> None:
        starts = size_ranges(int(self.sizes.max(initial=0)))
        places = np.searchsorted(starts, self.sizes, side="right") - 1
        shares = np.bincount(places, minlength=len(starts)) / max(len(self.sizes), 1)
        mean = "no sets"
        if len(self.sizes):
            mean = f"mean {self.sizes.mean():.3g}, median {np.median(self.sizes):g}"
        look: dict[str, Any] = {"color": BLUE, "width": 0.85, "label": mean} | style
        self.bars_ = ax.bar(np.arange(len(starts)), shares, **look)
        ends = [*(start - 1 for start in starts[1:]), int(self.sizes.max(initial=0))]
        names = [f"{a}" if a >= b else f"{a}–{b}" for a, b in zip(starts, ends, strict=True)]
        crowded = sum(map(len, names)) > 40
        ax.set_xticks(np.arange(len(starts)), names, rotation=30 if crowded else 0)
        ax.grid(False, axis="x")
        ax.set_axisbelow(True)
        ax.set(xlabel="labels in the set", ylabel="share of sets")


def size_ranges(largest: int) -> list[int]:
    """Return where ranges of sizes start: one for each size, or 0, 1, 2, 3-4, 5-8, ... if there are many."""
    if largest < _SINGLE_SIZES:
        return list(range(largest + 1))
    starts = [0, 1, 2]
    while 2 * starts[-1] - 1 <= largest:
        starts.append(2 * starts[-1] - 1)
    return starts
