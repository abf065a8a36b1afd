"""Pieces of HTML that all parts of a report use."""

import html
import re
from collections.abc import Callable, Iterable, Sequence
from typing import SupportsFloat

from nacp._types import Floats

_COVERAGE = "estimate", "by checked", "coverage", "estimated coverage"  # columns of tables


def safe(text: object) -> str:
    """Return a text without markup."""
    return html.escape(str(text), quote=True)


def sentence(text: str) -> str:
    """Return a text with a capital letter at its start and a full stop at its end."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def paragraph(text: str, look: str = "") -> str:
    """Return a paragraph; nothing if there is no text."""
    return f"<p class='{look}'>{safe(text)}</p>" if text else ""


def place(share: SupportsFloat) -> str:
    """Return a share as a length in CSS."""
    return f"{100 * float(share):.2f}%"


def share(value: float | Floats) -> str:
    """Return a share in percent."""
    return f"{100 * value:.1f}%" if value == 0 or value >= 0.0005 else "<0.1%"


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    chosen: Callable[[Sequence[object]], bool] | None = None,
) -> str:
    """Return a table whose first column names its rows; columns of numbers are aligned to the right.

    A number in a column of coverage is written in percent.
    Where a row can be chosen, cells know the name of their column, as rows become cards in a narrow window.
    There may be thousands of rows, so optional end tags are left out.
    """
    written = [[_cell(*each) for each in zip(header, row, strict=True)] for row in rows]
    kinds, names = [""] * len(header), [""] * len(header)
    for i in range(1, len(header)):
        numeric = all(row[i][:1].isdigit() or row[i][:1] in "-<&" or row[i] == "inf" for row in written)
        kinds[i] = " class=number" if numeric else ""
        names[i] = f" data-name='{header[i]}'" if chosen else ""
    head = "".join(f"<th scope=col{kind}>{name}" for kind, name in zip(kinds, header, strict=True))
    body = "".join(
        f"<tr{' class=chosen' if chosen and chosen(row) else ''}><th scope=row>{row[0]}"
        + "".join(f"<td{kinds[i]}{names[i]}>{row[i]}" for i in range(1, len(header)))
        for row in written
    )
    return f"<table><thead><tr>{head}</thead><tbody>{body}</tbody></table>"


def _cell(column: str, cell: object) -> str:
    if column in _COVERAGE and re.fullmatch(r"\d\.\d+", str(cell)):
        return share(float(str(cell)))
    return safe(cell)


def box(kind: str, label: str, content: str, name: str = "") -> str:
    """Return a box that scrolls where there is no room."""
    known = f" id='{name}'" if name else ""
    return f"<div{known} class='{kind}' tabindex='0' role='region' aria-label='{label}'>{content}</div>"
