"""The look of plots: colours and markers of the methods, and settings of matplotlib."""

from typing import Any

from nacp.guarantees import GUARANTEES

GREY, BLUE, ORANGE, GREEN, RED = "#777777", "#0072b2", "#d55e00", "#009e73", "#d62728"
CONTRADICTED = "noise model contradicted"
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
_METHODS = ("CP (oracle)", "Noisy-CP", "NR-CP")  # of the paper, without a guarantee for noisy labels
# Of these methods, then of the guarantees in the order of their table, then of all others. Most colour-blind
# readers can distinguish the colours; in grey the markers do.
_LOOKS = (
    *(("#000000", "o"), ("#d55e00", "s"), ("#0072b2", "^")),
    *(("#999999", "^"), ("#666666", "s"), ("#d62728", "o"), ("#8c564b", "s"), ("#17becf", "X")),
    *(("#cc79a7", "P"), ("#e69f00", "v"), ("#009e73", "D")),
    ("#56b4e9", "X"),
)


def style_of(method: str) -> tuple[str, str]:
    """Return the colour and the marker of a method, or of a guarantee by its name.

    Examples
    --------
    >>> from nacp.show.style import style_of
    >>> style_of("nacp") == style_of("NACP")
    True
    """
    known = [name.lower() for name in (*_METHODS, *GUARANTEES)]
    place = known.index(method.lower()) if method.lower() in known else len(_LOOKS)
    return _LOOKS[min(place, len(_LOOKS) - 1)]
