"""CoverageDisplay: the estimates against the threshold."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from nacp._types import Bools, Floats
from nacp.calibration import Calibration
from nacp.coverage.curve import CoverageCurve
from nacp.show.axes import threshold_axis
from nacp.show.displays.base import Display
from nacp.show.style import BLUE, CONTRADICTED, GREEN, GREY, ORANGE, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


@dataclass(eq=False)
class CoverageDisplay(Display):
    """The coverage estimates against the threshold, the target, and the threshold that was chosen.

    Parameters
    ----------
    curve : CoverageCurve
        F^n, F^r and F^c at thresholds.
    alpha : float, optional
        Draws the target 1 - alpha.
    threshold : float, optional
        The threshold that was chosen; infinite if none would do.
    estimate : float, optional
        F^c there; that of the curve by default.
    contradicted : bool, default=False
        The labels contradict the noise model. The plot then says so, and marks where F^c lay outside of 0 to
        1, at which it is always cut off.

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
    estimate: float | None = None
    contradicted: bool = False

    line_: "Line2D" = field(init=False, repr=False)
    noisy_line_: "Line2D" = field(init=False, repr=False)
    random_line_: "Line2D" = field(init=False, repr=False)
    _title: ClassVar[str] = "How many labels the sets cover"

    @classmethod
    def from_calibration(cls, calibration: Calibration, *, ax: "Axes | None" = None, **line: Any) -> Self:
        """Draw the curve of a calibration, at the resolution that this keeps.

        Parameters
        ----------
        calibration : Calibration
            From `calibrate`.
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.
        **line
            For the line of F^c, as in `matplotlib.axes.Axes.plot`.
        """
        cal = calibration
        return cls(cal.curve, cal.alpha, cal.threshold, cal.estimate, bool(cal.warnings)).plot(ax, **line)

    def _draw(self, ax: "Axes", style: dict[str, Any]) -> None:
        chosen = self.threshold if self.threshold is not None and np.isfinite(self.threshold) else None
        q, curve = self.curve.thresholds, self.curve.cut()
        shown = self._show_thresholds(ax, q, chosen)
        steps: dict[str, Any] = {"drawstyle": "steps-post", "linewidth": 1.4}
        (self.noisy_line_,) = ax.plot(
            q[shown], curve.noisy[shown], color=ORANGE, label="noisy labels, as given", **steps
        )
        (self.random_line_,) = ax.plot(
            q[shown], curve.random[shown], color=GREY, label="all classes: mean size / k", **steps
        )
        look = steps | {"color": BLUE, "linewidth": 2.2, "label": "true labels, estimated"} | style
        (self.line_,) = ax.plot(q[shown], curve.clean[shown], **look)
        if self.contradicted and curve.outside is not None:
            ax.fill_between(
                q[shown],
                0,
                1,
                where=curve.outside[shown],
                step="post",
                color=RED,
                alpha=0.15,
                linewidth=0,
                transform=ax.get_xaxis_transform(),
                label=CONTRADICTED,
            )
        if self.alpha is not None:
            target = 1 - self.alpha
            ax.axhline(target, color="black", linewidth=0.9, linestyle=":", label=f"target {target:g}")
        if chosen is not None:
            estimate = self.estimate
            if estimate is None:
                estimate = curve.clean[max(int(np.searchsorted(q, chosen, side="right")) - 1, 0)]
            ax.axvline(chosen, color=GREEN, linewidth=0.9, linestyle="--")
            ax.plot(
                [chosen],
                [estimate],
                color=GREEN,
                marker="o",
                markersize=7,
                linestyle="none",
                zorder=5,
                label=f"threshold {chosen:.4g}: covers {estimate:.3f}",
            )
        elif self.threshold is not None:
            ax.plot([], [], linestyle="none", label="no threshold will do: all classes")
        ax.set(xlabel="threshold", ylabel="share in the sets", ylim=(-0.02, 1.04))

    @staticmethod
    def _show_thresholds(ax: "Axes", q: Floats, chosen: float | None) -> Bools:
        """Set the scale, and return which thresholds to show."""
        axis = threshold_axis(q, chosen)
        if axis.scale == "linear":
            return np.asarray(q <= axis.high)
        ax.set_xscale(axis.scale)
        ax.set_xticks(axis.ticks, [f"{t:.9g}" for t in axis.ticks])
        ax.minorticks_off()
        ax.set_xlim(axis.low, axis.high)
        return np.asarray((q > 0) & (q < 1))
