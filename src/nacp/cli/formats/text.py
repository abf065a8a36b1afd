"""Text tables: .csv and .tsv, compressed or not, and standard input."""

import csv
import operator
import re
from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from nacp.cli.formats.common import (
    STDIN,
    TEXT_COLUMN,
    TEXTS,
    IdPlace,
    Places,
    Table,
    are_numbers,
    kind,
    no_ids,
    pick_labels,
    separator,
    text_lines,
    unknown,
    usual_separator,
)
from nacp.errors import InputError

_MARKS = ((";", "';'", "';'"), ("\t", "tabs", "tab"), (",", "','", "','"))
_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")


def csv_rows(path: Path, *, gaps: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Hand out rows of one length, with the numbers of their lines; empty lines may only be the last ones.

    With `gaps`, an empty line among rows of one cell is an empty cell.
    """
    name = "standard input" if str(path) == STDIN else str(path)
    if name == str(path) and kind(path) not in TEXTS and not path.is_dir():
        raise unknown(path)
    with text_lines(path) as file:
        lines = (line.removeprefix("\ufeff") if i == 0 else line for i, line in enumerate(file))
        reader = csv.reader(lines, delimiter=_mark(path))
        empty, length = 0, 0
        try:
            for row in reader:
                if gaps and length <= 1 and not "".join(row).strip() and len(row) <= 1:
                    row = [""]
                elif not row or (row[0] and not "".join(row).strip()):
                    empty = empty or reader.line_num
                    continue
                if empty and length:
                    raise InputError(name, f"has an empty line, {empty}, above others: is something missing?")
                length = length or len(row)
                if len(row) != length:
                    raise InputError(
                        name,
                        f"must have rows of one length; line {reader.line_num} has {len(row):,} cells, not "
                        f"{length:,}",
                        remedy=_other_mark(path),
                    )
                empty = 0
                yield reader.line_num, [cell.strip() for cell in row]
        except csv.Error:
            raise InputError(name, f"cannot be read as {kind(path)}: it is not text") from None
    if not length:
        raise InputError(name, "is empty")


def csv_matrix(path: Path, key: str | None, places: Places, ids: IdPlace = no_ids) -> Table:
    """Read the columns that are wanted, all if there is no header, their names, and the rows' ids."""
    if key is not None:
        raise InputError(str(path), "is one matrix", remedy=f"give it without :{key}")
    rows = _with_points(path)
    _, first = next(rows)
    if len(first) == 1:
        refuse_separators(path, first)
    header = None if are_numbers(first) else first
    if header is not None:
        _refuse_holes(path, header)
    wanted = list(range(len(first))) if header is None else places(header)
    at = None if header is None else ids(header)
    kept: list[str] = []
    values = array("d")
    if header is None:
        values.extend(map(float, first))
    pick = operator.itemgetter(*wanted, wanted[0])  # a tuple even if one is wanted
    n, decimal = 0, 0
    for line, row in rows:
        n += 1
        if at is not None:
            kept.append(row[at])
        decimal += all(map(str.isdecimal, row))
        try:
            values.extend(map(float, pick(row)[:-1]))
        except ValueError:
            odd = next(cell for cell in pick(row) if not are_numbers([cell]))
            refuse_separators(path, [odd])
            raise InputError(
                str(path),
                "must hold one number per cell below its header",
                found=f"{odd!r} in line {line}",
                remedy=TEXT_COLUMN,
            ) from None
    matrix = np.frombuffer(values, dtype=np.float64).reshape(-1, len(wanted))
    numbered = header is None and _numbers_are_a_header(path, first, n, decimal)
    if n == 0 and (numbered or header is not None):
        raise InputError(str(path), "has a header and nothing below it")
    if numbered:
        wanted = places(first)
        return Table(matrix[1:, wanted], [first[i] for i in wanted])
    header = None if header is None else [header[i] for i in wanted]
    return Table(matrix, header, None if at is None else kept)


def _with_points(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Hand out rows; where commas separate nothing, those in numbers are points."""
    if _mark(path) == ",":
        yield from csv_rows(path)
        return
    for line, row in csv_rows(path):
        yield line, [cell.replace(",", ".") if _COMMA.fullmatch(cell) else cell for cell in row]


def _refuse_holes(path: Path, header: list[str]) -> None:
    """Refuse a header that looks like a row of probabilities with a hole."""
    numbers = [float(cell) for cell in header if are_numbers([cell])]
    if numbers and ("" in header[1:] or any(0 < number < 1 for number in numbers)):
        odd = next(cell for cell in header if not are_numbers([cell]))
        raise InputError(str(path), "must hold one number per cell", found=f"{odd!r} in its first line")


def _numbers_are_a_header(path: Path, first: list[str], n: int, decimal: int) -> bool:
    """Return whether a first row of numbers is a header.

    It is if it says 0, 1, 2, ...; or if it has different whole numbers and there are rows below that are
    written otherwise: `decimal` of the `n` rows below are whole numbers without a point. 1 and 0 are a
    point; 0 and 1 are one if all rows look like that.
    """
    if len(set(first)) < max(len(first), 2) or not all(map(str.isdecimal, first)) or first == ["1", "0"]:
        return False
    if first != ["0", "1"]:
        return first == [str(i) for i in range(len(first))] or decimal < n
    if 0 < decimal < n:
        raise InputError(
            str(path),
            "begins with 0,1, which may be a header or a point: name the columns, or write 0.0,1.0",
        )
    return n > 0 and decimal == 0


def _mark(path: Path) -> str:
    """Return what separates the columns: what was said, unless the first line has only the usual mark."""
    said, usual = separator(path), usual_separator(path)
    if said == usual or str(path) == STDIN:
        return said
    with text_lines(path) as file:
        first = next(iter(file), "")
    return usual if usual in first and said not in first else said


def _other_mark(path: Path) -> str | None:
    """Return what would do if another mark comes equally often in each of the first lines."""
    if str(path) == STDIN:
        return None
    with text_lines(path) as file:
        lines = list(islice(file, 5))
    for mark, name, option in _MARKS:
        if mark in lines[0] and len({line.count(mark) for line in lines}) == 1:
            return f"if its columns are separated by {name}, give --separator {option}"
    return None


def refuse_separators(path: Path, cells: list[str]) -> None:
    """Refuse cells if each of them looks like several."""
    for mark, name, option in _MARKS:
        if mark != _mark(path) and all(mark in cell for cell in cells):
            raise InputError(
                f"{path}:",
                f"its columns seem to be separated by {name}",
                remedy=f"give --separator {option}",
            )


def csv_column(
    path: Path, key: str | None, *, gaps: bool = False, true: bool = False, called: set[str] | None = None
) -> tuple[list[str], bool]:
    """Return the cells of the column of labels, and whether its header is left out."""
    rows = [row for _, row in csv_rows(path, gaps=gaps)]
    if all(len(row) == 1 for row in rows):
        refuse_separators(path, [row[0] for row in rows])
        if key is None:
            return [row[0] for row in rows], False
    more = {} if called is None else {"called": called}
    place = pick_labels(path, rows[0], key, true=true, **more)
    # In a table of several columns the first line is a header: else none of them could be named.
    return [row[place] for row in rows[1:]], True
