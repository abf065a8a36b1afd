"""HTML for notebooks: small tables and sentences, in the colours of the page, light or dark."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from nacp.wrapping import on_one_line

if TYPE_CHECKING:
    from nacp.groups.grouped_calibration import GroupedCalibration

_CARD = (
    "border:1px solid rgba(127,127,127,.35);border-radius:6px;padding:.6em .9em;max-width:60em;"
    "overflow-x:auto;display:inline-block;line-height:1.45"
)
_TABLE = "border-collapse:collapse;margin:.4em 0;background:transparent;color:inherit;font-size:inherit"
_CELL = "padding:.15em 1.2em .15em 0;border:0;background:transparent;vertical-align:top;text-align:"
_SHOWN = 30  # groups
_MUTED = "opacity:.7;font-weight:normal;"


def card(title: str, *parts: str) -> str:
    """Return a frame with a title and what is in it, which must be HTML."""
    return f'<div style="{_CARD}"><strong>{escape(title)}</strong>{"".join(parts)}</div>'


def table(header: Sequence[str], rows: Iterable[Sequence[object]], left: Sequence[int] = (0,)) -> str:
    """Return a table; the columns in `left` are text, the others numbers."""

    def line(tag: str, values: Sequence[object], style: str = "") -> str:
        cells = (
            f'<{tag} style="{style}{_CELL}{"left" if i in left else "right"}">{escape(str(value))}</{tag}>'
            for i, value in enumerate(values)
        )
        return f'<tr style="background:transparent">{"".join(cells)}</tr>'

    head = f"<thead>{line('th', header, _MUTED)}</thead>" if header else ""
    body = "".join(line("td", row) for row in rows)
    return f'<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>'


def sentence(text: str, *, name: str | None = None) -> str:
    """Return a paragraph, after a name in bold if there is one."""
    start = "" if name is None else f"<b>{escape(name)}</b>: "
    return f'<p style="margin:.3em 0">{start}{escape(text)}</p>'


def told(text: str) -> str:
    """Return a text as paragraphs, one for each line."""
    return "".join(sentence(line) for line in text.splitlines())


def grouped(cal: "GroupedCalibration") -> str:
    """Return a card for a calibration by group, with a table of its first groups."""
    lines, rows, start = on_one_line(cal).splitlines(), cal.table(), len(cal.warnings) + 1
    header = ("group", "points" if cal.calibrations[0].checked is None else "checked", "threshold")
    more = f"and {len(rows) - _SHOWN:,} groups more\n" if len(rows) > _SHOWN else ""
    return card(
        "Calibration by group",
        told("\n".join(lines[:start])),
        table((*header, "estimated coverage"), rows[:_SHOWN], left=(0, 3)),
        told(more + lines[-1]),
    )
