"""The tables: our results beside the paper's, as Markdown and CSV."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import compress, groupby

from nacp.paper import printed
from nacp.paper.corrections import CorrectionRow
from nacp.paper.experiments import ALPHA, Cell, Experiment, Row

_VERSUS_PAPER = (
    "Diff: = where ours agrees with the paper's printed digits, else "
    "(ours - paper) / sqrt(sd² + sd²), the difference in standard deviations of one split."
)
_OTHER_NETWORKS = (
    "These are not the paper's networks, so its sizes stand beside ours for orientation only. Coverages are "
    "compared where the numbers of points and classes are the paper's."
)
_CORRECTIONS_READING = (
    "ACNL depends on how often the rarest class occurs among the noisy labels (rarest: mean, and least to "
    "most, over the draws). Diff: = where ours agrees with the printed digits, else the difference in "
    "standard deviations, or ≠ where there is none."
)


@dataclass(frozen=True)
class Sheet:
    """A table: for the reader sections, each with a heading and rows, and for the CSV file the records.

    `origin` says how it was made.
    """

    title: str
    columns: list[str]
    sections: list[tuple[str, list[list[str]]]]
    notes: list[str]
    origin: list[str]
    records: Sequence[Row | CorrectionRow] = ()


def splits_sheet(experiment: Experiment, rows: Sequence[Row], origin: list[str]) -> Sheet:
    """Return the table of an experiment: one section for each data set."""
    notes: list[str] = []
    columns = ["setting", "score", "method", "Δ", "size", "paper", "diff"]
    columns += ["coverage %", "paper", "diff", "below %"]
    sections = []
    for title, group in groupby(rows, key=lambda row: row.title):
        of_data = list(group)
        n, k = of_data[0].n, of_data[0].k
        points = f", n = {n:,}" if all(row.n == n for row in of_data) else ""
        heading = f"{title}: k = {k:,}{points}"
        sections.append((heading, [_cells(row, notes) for row in of_data]))
    splits = max((row.splits for row in rows), default=0)
    reading = [
        f"Mean ± standard deviation over {splits:,} random splits. "
        f"Below: the share of splits with a coverage of less than {1 - ALPHA:.0%}."
    ]
    if experiment.versus_paper:
        reading.append(_VERSUS_PAPER)
        if not all(row.simulated for row in rows):
            reading.append(_OTHER_NETWORKS)
    return Sheet(experiment.title, columns, sections, [*reading, *_numbered(notes)], origin, rows)


def _cells(row: Row, notes: list[str]) -> list[str]:
    size, coverage = row.moments
    size_beside, coverage_beside = ["", ""], ["", ""]
    if row.paper_size is not None and row.paper is not None:
        paper, same_size, same_coverage = row.paper
        size_beside = [paper.size.text, paper.size.compared(size) if same_size else ""]
        coverage_beside = [
            paper.coverage.text + _mark(row.doubt, notes),
            paper.coverage.compared(coverage) if same_coverage else "",
        ]
    return [
        row.setting,
        row.score.upper(),
        row.method,
        _number(row.correction),
        f"{size.mean:.2f} ± {size.sd:.2f}",
        *size_beside,
        f"{coverage.mean:.2f} ± {coverage.sd:.2f}",
        *coverage_beside,
        f"{row.below:.1f}",
    ]


def corrections_sheet(title: str, rows: Sequence[CorrectionRow], origin: list[str]) -> Sheet:
    """Return the table of corrections: one section for each data set, or number of classes."""
    notes: list[str] = []
    varied = len({row.n for row in rows if row.k == rows[0].k}) > 1
    columns = ["n" if varied else "ε", "method", "Δ", "paper", "diff", "rarest"]
    sections = []
    for (data, n, k), group in groupby(rows, key=lambda row: (row.title, 0 if varied else row.n, row.k)):
        heading = f"k = {k}" if varied else f"{data}: n = {n:,}, k = {k:,}"
        sections.append((heading, [_correction_cells(row, varied, notes) for row in group]))
    return Sheet(title, columns, sections, [_CORRECTIONS_READING, *_numbered(notes)], origin, rows)


def _correction_cells(row: CorrectionRow, varied: bool, notes: list[str]) -> list[str]:
    text = row.paper_correction
    rarest = f"{row.rarest:.1f} ({row.rarest_least:.0f} to {row.rarest_most:.0f})"
    return [
        f"{row.n:,}" if varied else f"{row.rate:g}",
        row.method,
        _number(row.correction) + (f" ± {row.correction_sd:.4f}" if row.correction_sd > 0 else ""),
        (text or "") + _mark(row.doubt, notes),
        "" if text is None else printed.read(text).compared(row.moments),
        rarest if row.method == "ACNL" else "",
    ]


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "∞"


def _mark(text: str | None, notes: list[str]) -> str:
    """Return the mark of a footnote, which is added to the notes if it is new."""
    if text is None:
        return ""
    if text not in notes:
        notes.append(text)
    return f" [{notes.index(text) + 1}]"


def _numbered(notes: list[str]) -> list[str]:
    return [f"[{number}] {text}" for number, text in enumerate(notes, 1)]


def to_markdown(sheet: Sheet) -> str:
    """Return a table as Markdown, with columns that line up, and without those that are empty."""
    filled = [
        any(column) for column in zip(*(row for _, rows in sheet.sections for row in rows), strict=True)
    ]
    lines = [f"# {sheet.title}", ""]
    for heading, rows in sheet.sections:
        table = [
            [cell.replace("|", r"\|") for cell in compress(row, filled)] for row in (sheet.columns, *rows)
        ]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        written = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
            for row in table
        ]
        written.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        lines += [f"## {heading}", "", *written, ""]
    for note in sheet.notes:
        lines += [note, ""]
    return "\n".join([*lines, "---", *sheet.origin]) + "\n"


def to_csv(sheet: Sheet) -> str:
    """Return the records of a table as CSV; how it was made stands in front, after #."""
    text = io.StringIO()
    for line in (sheet.title, *sheet.origin):
        text.write(f"# {line}\n")
    records = [asdict(record) for record in sheet.records]
    names = dict.fromkeys(name for record in records for name in record)
    ids = {field.name for field in fields(Cell)}
    kept = [name for name in names if name in ids or any(record[name] is not None for record in records)]
    writer = csv.DictWriter(text, kept, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
