"""SensitivityDisplay: what a wrong noise rate does."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from nacp.advice.sensitivity import Sensitivity, sensitivity
from nacp.calibration import Calibration
from nacp.show.displays.base import Display
from nacp.show.style import BLUE, GREEN, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


@dataclass(eq=False)
class SensitivityDisplay(Display):
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
    >>> display = nacp.SensitivityDisplay.from_calibration(cal, probs, noisy, shifts=[-0.05, 0, 0.05])
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
        probs: ArrayLike,
        labels: ArrayLike,
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

    @property
    def _title(self) -> str:
        return f"If the noise rate is {self.result.rate:.3g} in truth"

    def _draw(self, ax: "Axes", style: dict[str, Any]) -> None:
        right, target = self.result.rate, self.result.target
        rates, coverage, believed, sizes = np.array(
            [(row.rate, row.coverage, row.estimate, row.mean_size) for row in self.result.rows]
        ).T
        other = ax.twinx()
        (self.size_line_,) = other.plot(
            rates, sizes, color=GREEN, marker="s", markersize=4, linestyle=":", label="labels per set"
        )
        other.set(ylabel="labels per set", ylim=(0, None))
        other.grid(False)
        look: dict[str, Any] = {"color": BLUE, "marker": "o", "linewidth": 2.2, "label": "coverage in truth"}
        (self.line_,) = ax.plot(rates, coverage, **(look | style))
        (self.believed_line_,) = ax.plot(
            rates, believed, color=ORANGE, linestyle="--", label="coverage as believed"
        )
        ax.axhline(target, color="black", linewidth=0.9, linestyle=":", label=f"target {target:g}")
        ax.axvline(right, color=GREY, linewidth=0.9)
        ax.set(xlabel="stated noise rate", ylabel="coverage")
