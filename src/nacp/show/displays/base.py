"""What all displays have: axes to draw on, and where they are kept."""

from typing import TYPE_CHECKING

from nacp.show.style import RC

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class Display:
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
    with matplotlib.rc_context(RC):
        _, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
        ax.set_title(title, loc="left")
    return ax
