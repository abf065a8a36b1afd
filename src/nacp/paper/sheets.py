"""A table as Markdown, CSV and LaTeX."""

import csv
import io
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = str | float | None


@dataclass(frozen=True)
class Sheet:
    """A table: sections of rows for the reader, and plain records for a program.

    Attributes
    ----------
    title : str
    columns : list of str
    sections : list of (str, list of list of str)
        A heading and its rows.
    notes : list of str
    origin : list of str
        How it was made.
    records : list of dict
        The numbers in full, for the CSV file.
    """

    title: str
    columns: list[str]
    sections: list[tuple[str, list[list[str]]]]
    notes: list[str]
    origin: list[str]
    records: list[dict[str, Value]]


def to_markdown(sheet: Sheet) -> str:
    """Return a table as Markdown, with columns that line up.

    Parameters
    ----------
    sheet : Sheet
        The table.

    Examples
    --------
    >>> from nacp.paper.sheets import Sheet, to_markdown
    >>> print(to_markdown(Sheet("Title", ["a", "b"], [("Part", [["1", "2"]])], ["Note."], ["Made so."], [])))
    # Title
    <BLANKLINE>
    ## Part
    <BLANKLINE>
    | a | b |
    |---|---|
    | 1 | 2 |
    <BLANKLINE>
    Note.
    <BLANKLINE>
    ---
    Made so.
    """
    lines = [f"# {sheet.title}", ""]
    for heading, rows in sheet.sections:
        table = [[cell.replace("|", r"\|") for cell in row] for row in (sheet.columns, *rows)]
        widths = [max(len(row[j]) for row in table) for j in range(len(sheet.columns))]
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
    """Return the records of a table as CSV; how it was made stands in front, after #.

    Parameters
    ----------
    sheet : Sheet
        The table.

    Examples
    --------
    >>> from nacp.paper.sheets import Sheet, to_csv
    >>> print(to_csv(Sheet("Title", [], [], [], ["Made so."], [{"a": 1, "b": 0.5}])))
    # Title
    # Made so.
    a,b
    1,0.5
    """
    text = io.StringIO()
    for line in (sheet.title, *sheet.origin):
        text.write(f"# {line}\n")
    names = list(dict.fromkeys(name for record in sheet.records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sheet.records)
    return text.getvalue()


_LATEX = str.maketrans(
    {
        "%": r"\%", "&": r"\&", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$", "≠": r"$\neq$", "∞": r"$\infty$", "²": "$^2$",
        "Δ": r"$\Delta$", "ε": r"$\epsilon$", "α": r"$\alpha$", "δ": r"$\delta$",
    }
)  # fmt: skip


def to_latex(sheet: Sheet) -> str:
    """Return a table as LaTeX: one tabular for each section, without packages.

    Parameters
    ----------
    sheet : Sheet
        The table.

    Examples
    --------
    >>> from nacp.paper.sheets import Sheet, to_latex
    >>> print(to_latex(Sheet("Title", ["Δ"], [("Part", [["1 ± 2"]])], [], ["Made so."], [])))
    % Title
    % Made so.
    \\subsection*{Part}
    \\begin{tabular}{l}
    $\\Delta$ \\\\ \\hline
    1 $\\pm$ 2 \\\\
    \\end{tabular}
    """
    lines = [f"% {line}" for line in (sheet.title, *sheet.origin)]
    for heading, rows in sheet.sections:
        lines += [
            rf"\subsection*{{{heading.translate(_LATEX)}}}",
            rf"\begin{{tabular}}{{{'l' * len(sheet.columns)}}}",
        ]
        written = [
            " & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in (sheet.columns, *rows)
        ]
        lines += [written[0] + r" \hline", *written[1:], r"\end{tabular}"]
    return "\n".join([*lines, *(rf"\par {note.translate(_LATEX)}" for note in sheet.notes)]) + "\n"
