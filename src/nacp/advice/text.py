"""Tables as text."""

from collections.abc import Sequence


def aligned(table: Sequence[Sequence[str]], words: int) -> list[str]:
    """Return the lines of a table: the first columns hold words and stand left, the others numbers.

    Examples
    --------
    >>> from nacp.advice.text import aligned
    >>> print("\\n".join(aligned([["name", "size"], ["hps", "12"]], 1)))
    name  size
    hps     12
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i < words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
