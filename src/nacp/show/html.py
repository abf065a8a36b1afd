"""HTML for notebooks: small tables and sentences, in the colours of the page, light or dark."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nacp.calibration import Calibration
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


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Return a table of names and values."""
    rows = "".join(
        f'<tr style="background:transparent"><th scope="row" style="{_MUTED}{_CELL}left">{escape(name)}</th>'
        f'<td style="{_CELL}left">{escape(str(value))}</td></tr>'
        for name, value in pairs
    )
    return f'<table style="{_TABLE}"><tbody>{rows}</tbody></table>'


def table(header: Sequence[str], rows: Iterable[Sequence[object]], left: Sequence[int] = (0,)) -> str:
    """Return a table; the columns in `left` are text, the others numbers."""

    def cells(tag: str, values: Sequence[object], style: str = "") -> str:
        return "".join(
            f'<{tag} style="{style}{_CELL}{"left" if i in left else "right"}">{escape(str(value))}</{tag}>'
            for i, value in enumerate(values)
        )

    line = '<tr style="background:transparent">'
    body = "".join(f"{line}{cells('td', row)}</tr>" for row in rows)
    return (
        f'<table style="{_TABLE}"><thead>{line}{cells("th", header, _MUTED)}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def sentence(text: str, *, name: str | None = None) -> str:
    """Return a paragraph, after a name in bold if there is one."""
    start = "" if name is None else f"<b>{escape(name)}</b>: "
    return f'<p style="margin:.3em 0">{start}{escape(text)}</p>'


def told(text: str) -> str:
    """Return a text as paragraphs, one for each line."""
    return "".join(sentence(line) for line in text.splitlines())


def _common(cal: "Calibration | GroupedCalibration", checked: int | None) -> list[tuple[str, str]]:
    """Return facts about a calibration, with or without groups."""
    noise = "none: the labels are taken as they are" if cal.noise is None else cal.noise.describe(cal.k)
    if checked is not None:
        noise = f"nothing is assumed: {checked:,} labels were checked"
    return [
        ("score", repr(cal.score)),
        ("guarantee", repr(cal.guarantee)),
        ("noise", noise),
        ("calibration points", f"{cal.n:,} of {cal.k:,} classes"),
    ]


def calibration(cal: "Calibration") -> str:
    """Return a card for a calibration."""
    known = [
        ("threshold", f"{cal.threshold:.6g}"),
        ("estimated coverage", f"{cal.estimate:.4f}, for a target of {1 - cal.alpha:.6g}"),
        *_common(cal, cal.checked),
    ]
    remarks = [("All classes", cal.obstacle), ("Note", cal.note)]
    return card(
        "Calibration",
        *(sentence(f"{warning}.", name="Warning") for warning in cal.warnings),
        facts(known),
        sentence(f"{cal.promise}.", name="Promised"),
        *(sentence(f"{remark}.", name=name) for name, remark in remarks if remark),
    )


def grouped(cal: "GroupedCalibration") -> str:
    """Return a card for a calibration by group, with a table of its first groups."""
    rows, who = cal.table(), "rows" if cal.members is None else "classes"
    checked = {id(each): each.checked for each in cal.calibrations if each.checked is not None}
    known = [
        ("groups", f"{len(rows):,}, of {who}"),
        *_common(cal, sum(checked.values()) if checked else None),
    ]
    more = [sentence(f"and {len(rows) - _SHOWN:,} groups more")] if len(rows) > _SHOWN else []
    return card(
        "Calibration by group",
        *(sentence(f"{warning}.", name="Warning") for warning in cal.warnings),
        facts(known),
        table(
            ("group", "checked" if checked else "labels", "threshold", "estimated coverage"),
            rows[:_SHOWN],
            left=(0, 3),
        ),
        *more,
        sentence(f"{cal.promise}.", name="Promised"),
    )
