"""Plots for notebooks, in the manner of scikit-learn's displays; they need the extra ``nacp[plot]``.

A display holds the numbers. `plot` draws them on given axes or on new ones, and keeps what it drew in
attributes that end in ``_``: the axes in ``ax_``, their figure in ``figure_``, and lines or bars.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp.advice.planning import plan
from nacp.calibration import Calibration
from nacp.coverage.curve import CoverageCurve
from nacp.noise import NoiseLike
from nacp.sets import PredictionSets
from nacp.show.axes import size_ranges, threshold_axis
from nacp.show.style import BLUE, GREEN, GREY, IN_DOUBT, ORANGE, RC, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

__all__ = ["CoverageDisplay", "ExcessDisplay", "SetSizeDisplay"]

_CALIBRATION_SIZES = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)


class Display(ABC):
    """A plot that keeps the axes that it was drawn on."""

    ax_: "Axes"
    figure_: "Figure | SubFigure"
    _title: ClassVar[str]

    @abstractmethod
    def _draw(self, ax: "Axes", style: dict[str, Any]) -> None:
        """Draw on axes, and keep what was drawn; the style is for the main lines or bars."""

    def plot(self, ax: "Axes | None" = None, **style: Any) -> Self:
        """Draw on the given axes, or on a new figure.

        The `style` is for the main lines or bars, as in `matplotlib.axes.Axes.plot` or ``bar``.
        """
        if ax is None:
            try:
                import matplotlib
                from matplotlib import pyplot
            except ImportError:
                raise ModuleNotFoundError("plots need matplotlib: pip install 'nacp[plot]'") from None
            with matplotlib.rc_context(RC):
                _, self.ax_ = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
                self.ax_.set_title(self._title, loc="left")
        else:
            self.ax_ = ax
        self.figure_ = self.ax_.figure
        self._draw(self.ax_, style)
        if ax is None:  # below a new figure the legend hides nothing
            layout: dict[str, Any] = {"loc": "outside lower center", "ncols": 3, "columnspacing": 1.2}
            self.figure_.legend(frameon=False, fontsize="small", **layout)
        else:
            self.ax_.legend(frameon=False, fontsize="small")
        return self


@dataclass(eq=False)
class ExcessDisplay(Display):
    """The excess coverage of each guarantee, against the number of calibration points.

    Parameters
    ----------
    sizes : array of shape (m,)
        Numbers of calibration points.
    excess : dict
        For the name of each guarantee, an array of its excess at each size.
    alpha : float
        The sets hold all classes where the excess would be larger than this.

    Attributes
    ----------
    ax_, figure_, lines_
        Where it was drawn, and a line for each guarantee, by name.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import nacp
    >>> display = nacp.ExcessDisplay.from_noise(0.2, k=100, sizes=[1000, 10_000])
    >>> sorted(display.lines_)
    ['acnl', 'binomial', 'crcp', 'expected', 'nacp', 'pac']
    """

    sizes: Ints
    excess: dict[str, Floats]
    alpha: float

    lines_: "dict[str, Line2D]" = field(init=False, repr=False)
    _title: ClassVar[str] = "The excess coverage of each guarantee"

    @classmethod
    def from_noise(
        cls,
        noise: NoiseLike,
        *,
        k: int,
        alpha: float = 0.1,
        delta: float = 0.05,
        sizes: Sequence[int] = _CALIBRATION_SIZES,
        ax: "Axes | None" = None,
        **line: Any,
    ) -> Self:
        """Draw the excess by `plan` with several numbers of calibration points; `**line` is for all lines."""
        plans = [plan(k=k, noise=noise, alpha=alpha, delta=delta, n=n) for n in sizes]
        found: dict[str, list[float]] = {}
        for row in (row for each in plans for row in each.rows if row.reason is None):
            found.setdefault(row.guarantee.name, []).append(row.excess)
        ordered = sorted(found.items(), key=lambda item: item[1][-1])
        excess = {name: np.array(values) for name, values in ordered}
        return cls(np.array(sizes), excess, alpha).plot(ax, **line)

    def _draw(self, ax: "Axes", style: dict[str, Any]) -> None:
        self.lines_ = {}
        for i, (name, values) in enumerate(self.excess.items()):
            colour, marker = style_of(name)
            # Some lines nearly coincide, so every other one is dashed.
            look = {"linestyle": "-" if i % 2 else "--", "linewidth": 1.4, "label": name}
            look |= {"color": colour, "marker": marker, "markersize": 4}
            (self.lines_[name],) = ax.plot(self.sizes, values, **(look | style))
        top = ax.get_ylim()[1]
        ax.axhspan(self.alpha, max(top, 2 * self.alpha), color=GREY, alpha=0.12, linewidth=0)
        said = "here the sets hold all classes"
        at: dict[str, Any] = {"xy": (1, self.alpha), "xycoords": ("axes fraction", "data")}
        at |= {"xytext": (-4, 3), "textcoords": "offset points", "ha": "right", "va": "bottom"}
        ax.annotate(said, color="#555555", fontsize=8, **at)
        ax.set(xscale="log", yscale="log", xlabel="calibration points", ylabel="excess coverage")


@dataclass(eq=False)
class CoverageDisplay(Display):
    """The coverage estimates against the threshold, the target, and the threshold that was chosen.

    Parameters
    ----------
    curve : CoverageCurve
        F^n, F^r and F^c at thresholds; F^c is cut off at 0 and 1.
    alpha : float, optional
        Draws the target 1 - alpha.
    threshold : float, optional
        The threshold that was chosen; infinite if none would do.
    estimate : float, optional
        F^c there; that of the curve by default.
    contradicted : bool, default=False
        Whether the labels contradict the noise model; the plot then says so.

    Attributes
    ----------
    ax_, figure_, line_, noisy_line_, random_line_
        Where it was drawn, and the lines of F^c, F^n and F^r.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=2000)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, k=100, random_state=0)
    >>> display = nacp.CoverageDisplay.from_calibration(nacp.calibrate(probs, noisy, noise=0.2))
    >>> display.line_.get_label()
    'true labels, estimated'
    """

    curve: CoverageCurve
    alpha: float | None = None
    threshold: float | None = None
    estimate: float | None = None
    contradicted: bool = False

    line_: "Line2D" = field(init=False, repr=False)
    noisy_line_: "Line2D" = field(init=False, repr=False)
    random_line_: "Line2D" = field(init=False, repr=False)
    _title: ClassVar[str] = "How many labels the sets cover"

    @classmethod
    def from_calibration(cls, calibration: Calibration, *, ax: "Axes | None" = None, **line: Any) -> Self:
        """Draw the curve of a calibration; `**line` is for the line of F^c."""
        cal = calibration
        return cls(cal.curve, cal.alpha, cal.threshold, cal.estimate, bool(cal.warnings)).plot(ax, **line)

    def _draw(self, ax: "Axes", style: dict[str, Any]) -> None:
        chosen = self.threshold if self.threshold is not None and np.isfinite(self.threshold) else None
        q, curve = self.curve.thresholds, self.curve.cut()
        axis, shown = threshold_axis(q, chosen), (q > 0) & (q < 1)
        if axis.scale == "linear":
            shown = q <= axis.high
        else:
            ax.set_xscale(axis.scale)
            ax.set_xticks(axis.ticks, [f"{t:.9g}" for t in axis.ticks])
            ax.minorticks_off()
            ax.set_xlim(axis.low, axis.high)

        def draw(values: Floats, **look: Any) -> "Line2D":
            (line,) = ax.plot(q[shown], values[shown], **({"drawstyle": "steps-post"} | look))
            return line

        self.noisy_line_ = draw(curve.noisy, color=ORANGE, linewidth=1.4, label="noisy labels, as given")
        self.random_line_ = draw(curve.random, color=GREY, linewidth=1.4, label="all classes: mean size / k")
        main = {"color": BLUE, "linewidth": 2.2, "label": "true labels, estimated"}
        self.line_ = draw(curve.clean, **(main | style))
        if self.contradicted:
            ax.plot([], [], linestyle="none", label=IN_DOUBT)
        if self.alpha is not None:
            look: dict[str, Any] = {"color": "black", "linewidth": 0.9, "linestyle": ":"}
            ax.axhline(1 - self.alpha, label=f"target {1 - self.alpha:g}", **look)
        if chosen is not None:
            estimate = self.estimate
            if estimate is None:
                estimate = curve.clean[max(int(np.searchsorted(q, chosen, side="right")) - 1, 0)]
            ax.axvline(chosen, color=GREEN, linewidth=0.9, linestyle="--")
            point: dict[str, Any] = {"color": GREEN, "marker": "o", "markersize": 7, "zorder": 5}
            point["linestyle"] = "none"
            said = f"threshold {chosen:.4g}: covers {estimate:.3f}"
            ax.plot([chosen], [estimate], label=said, **point)
        elif self.threshold is not None:
            ax.plot([], [], linestyle="none", label="no threshold will do: all classes")
        ax.set(xlabel="threshold", ylabel="share in the sets", ylim=(-0.02, 1.04))


@dataclass(eq=False)
class SetSizeDisplay(Display):
    """How many sets have how many labels.

    Parameters
    ----------
    sizes : array of shape (n,)
        The sizes of the sets.

    Attributes
    ----------
    ax_, figure_, bars_
        Where it was drawn, and a bar for each size, or for each range of sizes if there are many.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import nacp
    >>> display = nacp.SetSizeDisplay.from_sets(nacp.PredictionSets([0, 2, 2, 3, 4], [0, 2, 1, 1], k=3))
    >>> [float(bar.get_height()) for bar in display.bars_]
    [0.25, 0.5, 0.25]
    """

    sizes: Ints

    bars_: "BarContainer" = field(init=False, repr=False)
    _title: ClassVar[str] = "How large the sets are"

    @classmethod
    def from_sets(cls, sets: PredictionSets, *, ax: "Axes | None" = None, **bars: Any) -> Self:
        """Draw the sizes of prediction sets; `**bars` is for the bars."""
        return cls(sets.sizes).plot(ax, **bars)

    @classmethod
    def from_calibration(
        cls, calibration: Calibration, probs: ArrayLike, *, ax: "Axes | None" = None, **bars: Any
    ) -> Self:
        """Draw the sizes of the sets that a calibration predicts for the rows of `probs`."""
        return cls.from_sets(calibration.predict_set(probs), ax=ax, **bars)

    def _draw(self, ax: "Axes", style: dict[str, Any]) -> None:
        starts, names = size_ranges(int(self.sizes.max(initial=0)))
        places = np.searchsorted(starts, self.sizes, side="right") - 1
        shares = np.bincount(places, minlength=len(starts)) / max(len(self.sizes), 1)
        said = "no sets"
        if len(self.sizes):
            said = f"mean {self.sizes.mean():.3g}, median {np.median(self.sizes):g}"
        look: dict[str, Any] = {"color": BLUE, "width": 0.85, "label": said} | style
        self.bars_ = ax.bar(np.arange(len(starts)), shares, **look)
        crowded = sum(map(len, names)) > 40
        ax.set_xticks(np.arange(len(starts)), names, rotation=30 if crowded else 0)
        ax.grid(False, axis="x")
        ax.set_axisbelow(True)
        ax.set(xlabel="labels in the set", ylabel="share of sets")
