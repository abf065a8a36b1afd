"""How plots look: the colours and markers of the methods, and what matplotlib is told."""

from typing import Any

# Colours that are told apart by most eyes, and in grey by their markers.
_METHODS = {
    "CP (oracle)": ("#000000", "o"),
    "Noisy-CP": ("#d55e00", "s"),
    "NR-CP": ("#0072b2", "^"),
    "ACNL": ("#e69f00", "v"),
    "CRCP": ("#009e73", "D"),
    "NACP": ("#cc79a7", "P"),
    "pac": ("#d62728", "o"),
    "binomial": ("#8c564b", "s"),
    "expected": ("#17becf", "X"),
}
GREY, BLUE, ORANGE, GREEN, RED = "#777777", "#0072b2", "#d55e00", "#009e73", "#d62728"
CONTRADICTED = "noise model contradicted"
RC: dict[Any, Any] = {  # matplotlib lists its keys one by one
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


def style_of(method: str) -> tuple[str, str]:
    """Return the colour and the marker of a method, or of a guarantee by its name.

    Examples
    --------
    >>> from nacp.show.style import style_of
    >>> style_of("nacp") == style_of("NACP")
    True
    """
    return _METHODS.get(method) or _METHODS.get(method.upper(), ("#56b4e9", "X"))
