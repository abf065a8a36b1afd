"""Plots for notebooks, in the manner of scikit-learn's displays; they need the extra ``nacp[plot]``.

A display holds the numbers. `plot` draws them on given axes or on new ones, and keeps what it drew in
attributes that end in ``_``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Bools, Floats, Ints
from nacp.advice.planning import plan
from nacp.advice.sensitivity import Sensitivity, sensitivity
from nacp.calibration import Calibration
from nacp.coverage import CoverageCurve
from nacp.sets import PredictionSets

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

__all__ = ["CorrectionDisplay", "CoverageDisplay", "SensitivityDisplay", "SetSizeDisplay"]

_SIZES = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
# So many different sizes are drawn one by one; more of them in ranges that double.
_SINGLE_SIZES = 20
_GREY = "#777777"
_BLUE, _ORANGE, _GREEN = "#0072b2", "#d55e00", "#009e73"


class _Display:
    """Axes to draw on, and where they are kept."""

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    def _start(self, ax: "Axes | None", title: str) -> "Axes":
        """Return the given axes, or those of a new figure."""
        self._own = ax is None
        self.ax_ = _new_axes(title) if ax is None else ax
        self.figure_ = self.ax_.figure
        return self.ax_

    def _finish(self) -> None:
        """Explain the colours: below a figure of our own, where that hides nothing."""
        if self._own:
            self.figure_.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
        else:
            self.ax_.legend(frameon=False, fontsize="small")


def _new_axes(title: str) -> "Axes":
    try:
        import matplotlib
        from matplotlib import pyplot
    except ImportError:
        raise ModuleNotFoundError("plots need matplotlib: pip install 'nacp[plot]'") from None
    from nacp.paper.figures import RC

    with matplotlib.rc_context(RC):
        _, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
        ax.set_title(title, loc="left")
    return ax


@dataclass(eq=False)
class CoverageDisplay(_Display):
    """The coverage estimates against the threshold, the target, and the threshold that was chosen.

    Parameters
    ----------
    curve : CoverageCurve
        F^n, F^r and F^c at thresholds.
    alpha : float, optional
        Draws the target 1 - alpha.
    threshold : float, optional
        The threshold that was chosen; infinite if none would do.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was drawn on.
    figure_ : matplotlib Figure
        Where that is.
    line_, noisy_line_, random_line_ : matplotlib Line2D
        F^c, F^n and F^r.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=2000)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, k=100, random_state=0)
    >>> cal = nacp.calibrate(probs, noisy, noise=0.2)
    >>> display = nacp.CoverageDisplay.from_calibration(cal)
    >>> display.line_.get_label()
    'true labels, estimated'
    """

    curve: CoverageCurve
    alpha: float | None = None
    threshold: float | None = None

    line_: "Line2D" = field(init=False, repr=False)
    noisy_line_: "Line2D" = field(init=False, repr=False)
    random_line_: "Line2D" = field(init=False, repr=False)

    @classmethod
    def from_calibration(cls, calibration: Calibration, *, ax: "Axes | None" = None, **line: Any) -> Self:
        """Draw the curve of a calibration; it must still have its data, so it cannot come from a file.

        Parameters
        ----------
        calibration : Calibration
            From `calibrate`.
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.
        **line
            For the line of F^c, as in `matplotlib.axes.Axes.plot`.
        """
        return cls(calibration.curve, calibration.alpha, calibration.threshold).plot(ax, **line)

    def plot(self, ax: "Axes | None" = None, **line: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.
        **line
            For the line of F^c, as in `matplotlib.axes.Axes.plot`.
        """
        ax = self._start(ax, "How many labels the sets cover")
        chosen = self.threshold if self.threshold is not None and np.isfinite(self.threshold) else None
        q, curve = self.curve.thresholds, self.curve
        shown = self._show_thresholds(ax, q, chosen)
        steps: dict[str, Any] = {"drawstyle": "steps-post", "linewidth": 1.4}
        (self.noisy_line_,) = ax.plot(
            q[shown], curve.noisy[shown], color=_ORANGE, label="noisy labels, as given", **steps
        )
        (self.random_line_,) = ax.plot(
            q[shown], curve.random[shown], color=_GREY, label="all classes: mean size / k", **steps
        )
        style = steps | {"color": _BLUE, "linewidth": 2.2, "label": "true labels, estimated"} | line
        (self.line_,) = ax.plot(q[shown], curve.clean[shown], **style)
        if self.alpha is not None:
            target = 1 - self.alpha
            ax.axhline(target, color="black", linewidth=0.9, linestyle=":", label=f"target {target:g}")
        if chosen is not None:
            estimate = curve.clean[max(int(np.searchsorted(q, chosen, side="right")) - 1, 0)]
            ax.axvline(chosen, color=_GREEN, linewidth=0.9, linestyle="--")
            ax.plot(
                [chosen], [estimate], color=_GREEN, marker="o", markersize=7, linestyle="none", zorder=5,
                label=f"threshold {chosen:.4g}: covers {estimate:.3f}",
            )  # fmt: skip
        elif self.threshold is not None:
            ax.plot([], [], linestyle="none", label="no threshold will do: all classes")
        ax.set(xlabel="threshold", ylabel="share in the sets", ylim=(-0.02, 1.04))
        self._finish()
        return self

    @staticmethod
    def _show_thresholds(ax: "Axes", q: Floats, chosen: float | None) -> Bools:
        """Set the scale, and return which thresholds to show.

        Between 0 and 1, scores crowd at the ends when there are many classes, so these are stretched. Scores
        that go further are shown up to twice the threshold.
        """
        middle = float(np.median(q)) if chosen is None else chosen
        if q[0] < 0 or q[-1] > 1 + 1e-6 or not 0 < middle < 1:
            high = q[-1] if chosen is None else chosen + abs(chosen - min(q[0], 0.0))
            return np.asarray(q <= high)
        ax.set_xscale("logit")
        low, high = min(0.01, middle / 10), max(1 - 1e-5, 1 - (1 - middle) / 100)
        ticks = [
            t
            for t in (*10.0 ** np.arange(-6, 0), 0.5, *(1 - 10.0 ** np.arange(-1, -9, -1)))
            if low <= t <= high
        ]
        ax.set_xticks(ticks, [f"{t:.9g}" for t in ticks])
        ax.minorticks_off()
        ax.set_xlim(low, high)
        return np.asarray((q > 0) & (q < 1))


@dataclass(eq=False)
class CorrectionDisplay(_Display):
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

    @classmethod
    def from_noise(
        cls,
        noise: Any,
        *,
        k: int,
        alpha: float = 0.1,
        delta: float = 0.05,
        sizes: Sequence[int] = _SIZES,
        ax: "Axes | None" = None,
        **line: Any,
    ) -> Self:
        """Draw what `plan` says of calibration sets of several sizes.

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
        for each in plans:
            for row in each.rows:
                found.setdefault(row.guarantee.name, []).append(row.correction)
        ordered = sorted(found.items(), key=lambda item: item[1][-1])
        corrections = {name: np.array(values) for name, values in ordered}
        return cls(np.array(sizes), corrections, alpha).plot(ax, **line)

    def plot(self, ax: "Axes | None" = None, **line: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.
        **line
            For all lines, as in `matplotlib.axes.Axes.plot`.
        """
        from nacp.paper.figures import style_of

        ax = self._start(ax, "What a guarantee costs")
        self.lines_ = {}
        for i, (name, values) in enumerate(self.corrections.items()):
            colour, marker = style_of(name)
            # Some cost nearly the same, so every other line is dashed.
            style: dict[str, Any] = {"linestyle": "-" if i % 2 else "--", "linewidth": 1.4, "label": name}
            style |= {"color": colour, "marker": marker, "markersize": 4}
            (self.lines_[name],) = ax.plot(self.sizes, values, **(style | line))
        top = ax.get_ylim()[1]
        ax.axhspan(self.alpha, max(top, 2 * self.alpha), color=_GREY, alpha=0.12, linewidth=0)
        ax.annotate(
            "here the sets hold all classes", (1, self.alpha), xycoords=("axes fraction", "data"),
            xytext=(-4, 3), textcoords="offset points", ha="right", va="bottom", color="#555555", fontsize=8,
        )  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel="calibration points", ylabel="excess coverage")
        self._finish()
        return self


@dataclass(eq=False)
class SensitivityDisplay(_Display):
    """What a wrong noise rate does: coverage, and on the right set size, against the rate that is stated.

    Parameters
    ----------
    result : Sensitivity
        From `nacp.sensitivity`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What coverage was drawn on.
    figure_ : matplotlib Figure
        Where that is.
    line_, believed_line_, size_line_ : matplotlib Line2D
        Coverage in truth, as it is believed, and the mean set size.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=1000)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 10, random_state=0)
    >>> cal = nacp.calibrate(probs, noisy, noise=0.2)
    >>> display = nacp.SensitivityDisplay.from_calibration(cal, shifts=[-0.05, 0, 0.05])
    >>> display.line_.get_xdata().round(2).tolist()
    [0.15, 0.2, 0.25]
    """

    result: Sensitivity

    line_: "Line2D" = field(init=False, repr=False)
    believed_line_: "Line2D" = field(init=False, repr=False)
    size_line_: "Line2D" = field(init=False, repr=False)

    @classmethod
    def from_calibration(
        cls,
        calibration: Calibration,
        probs: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        *,
        shifts: Sequence[float] | None = None,
        ax: "Axes | None" = None,
        **line: Any,
    ) -> Self:
        """Draw what `sensitivity` finds.

        Parameters
        ----------
        calibration, probs, labels, shifts
            As in `nacp.sensitivity`.
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.
        **line
            For the line of coverage in truth, as in `matplotlib.axes.Axes.plot`.
        """
        return cls(sensitivity(calibration, probs, labels, shifts=shifts)).plot(ax, **line)

    def plot(self, ax: "Axes | None" = None, **line: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.
        **line
            For the line of coverage in truth, as in `matplotlib.axes.Axes.plot`.
        """
        right, target = self.result.rate, self.result.target
        ax = self._start(ax, f"If the noise rate is {right:.3g} in truth")
        rates, coverage, believed, sizes = np.array(
            [(row.rate, row.coverage, row.estimate, row.mean_size) for row in self.result.rows]
        ).T
        other = ax.twinx()
        (self.size_line_,) = other.plot(
            rates, sizes, color=_GREEN, marker="s", markersize=4, linestyle=":", label="labels per set"
        )
        other.set(ylabel="labels per set", ylim=(0, None))
        other.grid(False)
        style: dict[str, Any] = {
            "color": _BLUE,
            "marker": "o",
            "linewidth": 2.2,
            "label": "coverage in truth",
        }
        (self.line_,) = ax.plot(rates, coverage, **(style | line))
        (self.believed_line_,) = ax.plot(
            rates, believed, color=_ORANGE, linestyle="--", label="coverage as believed"
        )
        ax.axhline(target, color="black", linewidth=0.9, linestyle=":", label=f"target {target:g}")
        ax.axvline(right, color=_GREY, linewidth=0.9)
        ax.set(xlabel="stated noise rate", ylabel="coverage")
        self._finish()
        return self


@dataclass(eq=False)
class SetSizeDisplay(_Display):
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

    def plot(self, ax: "Axes | None" = None, **bars: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.
        **bars
            As in `matplotlib.axes.Axes.bar`.
        """
        ax = self._start(ax, "How large the sets are")
        starts = _ranges(int(self.sizes.max(initial=0)))
        places = np.searchsorted(starts, self.sizes, side="right") - 1
        shares = np.bincount(places, minlength=len(starts)) / max(len(self.sizes), 1)
        mean = "no sets"
        if len(self.sizes):
            mean = f"mean {self.sizes.mean():.3g}, median {np.median(self.sizes):g}"
        style: dict[str, Any] = {"color": _BLUE, "width": 0.85, "label": mean} | bars
        self.bars_ = ax.bar(np.arange(len(starts)), shares, **style)
        ends = [*(start - 1 for start in starts[1:]), int(self.sizes.max(initial=0))]
        names = [f"{a}" if a >= b else f"{a}–{b}" for a, b in zip(starts, ends, strict=True)]
        crowded = sum(map(len, names)) > 40
        ax.set_xticks(np.arange(len(starts)), names, rotation=30 if crowded else 0)
        ax.grid(False, axis="x")
        ax.set_axisbelow(True)
        ax.set(xlabel="labels in the set", ylabel="share of sets")
        self._finish()
        return self


def _ranges(largest: int) -> list[int]:
    """Return where ranges of sizes start: one for each size, or 0, 1, 2, 3-4, 5-8, ... if there are many."""
    if largest < _SINGLE_SIZES:
        return list(range(largest + 1))
    starts = [0, 1, 2]
    while 2 * starts[-1] - 1 <= largest:
        starts.append(2 * starts[-1] - 1)
    return starts
