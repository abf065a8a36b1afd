"""The plot of `nacp.sensitivity`, like scikit-learn's displays. Needs matplotlib (``nacp[plot]``)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from nacp._sensitivity import Sensitivity, sensitivity

if TYPE_CHECKING:
    from nacp.calibration import Calibration


class SensitivityDisplay:
    """Coverage and set size against the stated noise rate.

    Parameters
    ----------
    result : Sensitivity
        From `nacp.sensitivity`.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        After `plot`.
    axes_ : tuple of two matplotlib.axes.Axes
        Coverage and size; after `plot`.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=1000)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 10, random_state=0)
    >>> cal = nacp.calibrate(probs, noisy, noise=0.2)
    >>> nacp.SensitivityDisplay.from_calibration(cal).axes_[0].get_ylabel()
    'coverage'
    """

    def __init__(self, result: Sensitivity) -> None:
        self.result = result

    @classmethod
    def from_calibration(
        cls,
        cal: "Calibration",
        probs: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        *,
        shifts: Sequence[float] | None = None,
        ax: Any = None,
    ) -> "SensitivityDisplay":
        """Compute and plot.

        Parameters
        ----------
        cal, probs, labels, shifts
            As in `nacp.sensitivity`.
        ax : two matplotlib axes, optional
            Where to draw; a new figure by default.
        """
        return cls(sensitivity(cal, probs, labels, shifts=shifts)).plot(ax=ax)

    def plot(self, ax: Any = None) -> "SensitivityDisplay":
        """Draw coverage and size against the stated rate.

        Parameters
        ----------
        ax : two matplotlib axes, optional
            Where to draw; a new figure by default.
        """
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(2, 1, sharex=True, layout="constrained")
        above, below = ax
        rates = [row.rate for row in self.result.rows]
        above.plot(rates, [row.coverage for row in self.result.rows], marker="o", label="in truth")
        above.plot(rates, [row.estimate for row in self.result.rows], linestyle="--", label="believed")
        above.axhline(self.result.target, color="0.6", linewidth=1, label="target")
        above.set_ylabel("coverage")
        above.legend()
        below.plot(rates, [row.mean_size for row in self.result.rows], marker="o")
        below.set_ylabel("mean set size")
        below.set_xlabel("stated noise rate")
        for axes in (above, below):
            axes.axvline(self.result.rate, color="0.6", linestyle=":")
        above.set_title(f"If the rate is {self.result.rate:.4g} in truth: to the right too little is covered")
        self.figure_, self.axes_ = above.figure, (above, below)
        return self
