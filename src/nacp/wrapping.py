"""Text of results: wrapped to 80 columns or to those of the terminal, and tables."""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_COLUMNS: ContextVar[int] = ContextVar("columns", default=80)


@contextmanager
def at_width(columns: int) -> Iterator[None]:
    """Wrap text to this number of columns."""
    token = _COLUMNS.set(max(columns, 20))
    try:
        yield
    finally:
        _COLUMNS.reset(token)


def width() -> int:
    """Return the number of columns."""
    return _COLUMNS.get()


def wrapped(text: str, indent: str = "") -> str:
    """Return a text with every line of it wrapped, its later lines indented.

    Examples
    --------
    >>> from nacp.wrapping import at_width, wrapped
    >>> with at_width(24):
    ...     print(wrapped("Sets of labels, small enough to look at.\\nAnd a promise.", "  "))
    Sets of labels, small
      enough to look at.
    And a promise.
    """
    return "\n".join(
        textwrap.fill(line, width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


def on_one_line(result: object) -> str:
    """Return what a result says when printed, with each of its paragraphs on one line."""
    with at_width(sys.maxsize):
        return str(result)


def counted(number: int, what: str) -> str:
    """Return how many of something there are.

    Examples
    --------
    >>> from nacp.wrapping import counted
    >>> counted(1, "noisy label"), counted(2000, "noisy label")
    ('1 noisy label', '2,000 noisy labels')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def table_lines(table: Sequence[Sequence[str]], words: int) -> list[str]:
    """Return the lines of a table: the first columns hold words and stand left, the others numbers.

    Where it is too wide, each row becomes a few lines: its first cell, and the others below with their names.

    Examples
    --------
    >>> from nacp.wrapping import at_width, table_lines
    >>> table = [["name", "size"], ["hps", "12"]]
    >>> print("\\n".join(table_lines(table, 1)))
    name  size
    hps     12
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if sum(widths) + 2 * (len(widths) - 1) > width():
        header, *rows = table
        pairs = ([row[0], *_below(header, row)] for row in rows)
        return [line for lines in pairs for line in lines]
    return [
        "  ".join(
            cell.ljust(wide) if i < words else cell.rjust(wide)
            for i, (cell, wide) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]


def _below(header: Sequence[str], row: Sequence[str]) -> list[str]:
    told = "; ".join(f"{name}: {cell}" for name, cell in zip(header[1:], row[1:], strict=True) if cell)
    return [f"  {line}" for line in textwrap.wrap(told, width() - 2)]
