"""The look of plots: colours and markers of the methods, and settings of matplotlib."""

from typing import Any

from nacp.guarantees import GUARANTEES

GREY, BLUE, ORANGE, GREEN = "#777777", "#0072b2", "#d55e00", "#009e73"
IN_DOUBT = "in doubt, see warning"
RC: dict[Any, Any] = {  # matplotlib types its keys as literals
    "font.size": 9,
    "axes.titlesize": 9,
    "figure.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.hashsalt": "nacp",
    "svg.fonttype": "path",
}
# The paper's methods without a guarantee for noisy labels.
_METHODS = {"cp (oracle)": ("#000000", "o"), "noisy-cp": ("#d55e00", "s"), "nr-cp": ("#0072b2", "^")}
# Colours and markers of the guarantees, in the order of their table. Colour-blind readers can distinguish
# most colours, and in grey the markers differ.
_COLOURS = ("#999999", "#666666", "#d62728", "#8c564b", "#17becf", "#cc79a7", "#e69f00", "#009e73")
_MARKERS = "^sosXPvD"


def style_of(method: str) -> tuple[str, str]:
    """Return the colour and the marker of a method, or of a guarantee by its name."""
    guarantees = zip(GUARANTEES, zip(_COLOURS, _MARKERS, strict=True), strict=False)
    return (_METHODS | dict(guarantees)).get(method.lower(), ("#56b4e9", "X"))
