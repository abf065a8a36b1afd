"""CorrectionDisplay: what guarantees cost, against the number of calibration points."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from nacp._types import Floats, Ints
from nacp.advice.planning import plan
from nacp.noise import NoiseLike
from nacp.show.displays.base import Display
from nacp.show.style import GREY, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_SIZES = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)


@dataclass(eq=False)
class CorrectionDisplay(Display):
    """What each guarantee adds to the target, against the number of calibration points.

    Parameters
    ----------
    sizes : array of shape (m,)
        Numbers of calibration points.
    corrections : dict
        For each guarantee's name an array of shape (m,).
    alpha : float
        Where a correction exceeds it, the sets hold all classes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was drawn on.
    figure_ : matplotlib Figure
        Where that is.
    lines_ : dict of matplotlib Line2D
        One for each guarantee.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import nacp
    >>> display = nacp.CorrectionDisplay.from_noise(0.2, k=100, sizes=[1000, 10_000])
    >>> sorted(display.lines_)
    ['acnl', 'binomial', 'crcp', 'expected', 'nacp', 'pac']
    """

    sizes: Ints
    corrections: dict[str, Floats]
    alpha: float

    lines_: "dict[str, Line2D]" = field(init=False, repr=False)
    _title: ClassVar[str] = "What a guarantee costs"

    @classmethod
    def from_noise(
        cls,
        noise: NoiseLike,
        *,
        k: int,
        alpha: float = 0.1,
        delta: float = 0.05,
        sizes: Sequence[int] = _SIZES,
        ax: "Axes | None" = None,
        **line: Any,
    ) -> Self:
        """Draw what `plan` says of calibration sets of several sizes, for the guarantees that apply.

        Parameters
        ----------
        noise, k, alpha, delta
            As in `plan`.
        sizes : sequence of int
            Numbers of calibration points.
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.
        **line
            For all lines, as in `matplotlib.axes.Axes.plot`.
        """
        plans = [plan(k=k, noise=noise, alpha=alpha, delta=delta, n=n) for n in sizes]
        found: dict[str, list[float]] = {}
        for row in (row for each in plans for row in each.rows if row.reason is None):
            found.setdefault(row.guarantee.name, []).append(row.correction)
        ordered = sorted(found.items(), key=lambda item: item[1][-1])
        corrections = {name: np.array(values) for name, values in ordered}
        return cls(np.array(sizes), corrections, alpha).plot(ax, **line)

    def _draw(self, ax: "Axes", style: dict[str, Any]) -> None:
        self.lines_ = {}
        for i, (name, values) in enumerate(self.corrections.items()):
            colour, marker = style_of(name)
            # Some cost nearly the same, so every other line is dashed.
            look = {"linestyle": "-" if i % 2 else "--", "linewidth": 1.4, "label": name}
            look |= {"color": colour, "marker": marker, "markersize": 4}
            (self.lines_[name],) = ax.plot(self.sizes, values, **(look | style))
        top = ax.get_ylim()[1]
        ax.axhspan(self.alpha, max(top, 2 * self.alpha), color=GREY, alpha=0.12, linewidth=0)
        ax.annotate(
            "here the sets hold all classes",
            (1, self.alpha),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 3),
            textcoords="offset points",
            ha="right",
            va="bottom",
            color="#555555",
            fontsize=8,
        )
        ax.set(xscale="log", yscale="log", xlabel="calibration points", ylabel="excess coverage")
