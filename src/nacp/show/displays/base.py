"""What all displays have: axes to draw on, where they are kept, and `plot`."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from nacp.show.style import RC

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class Display(ABC):
    """Axes to draw on, and where they are kept."""

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    @property
    @abstractmethod
    def _title(self) -> str: ...

    @abstractmethod
    def _draw(self, ax: "Axes", style: dict[str, Any]) -> None:
        """Draw on axes, and keep what was drawn; the style is for what the display is about."""

    def plot(self, ax: "Axes | None" = None, **style: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.
        **style
            As for the method that makes the display: for its bars or lines.
        """
        self.ax_ = _new_axes(self._title) if ax is None else ax
        self.figure_ = self.ax_.figure
        self._draw(self.ax_, style)
        # Explain the colours: below a figure of our own, where that hides nothing.
        if ax is None:
            self.figure_.legend(
                loc="outside lower center", ncols=3, frameon=False, fontsize="small", columnspacing=1.2
            )
        else:
            self.ax_.legend(frameon=False, fontsize="small")
        return self


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
