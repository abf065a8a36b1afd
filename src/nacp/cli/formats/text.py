"""Text tables: .csv and .tsv, compressed or not, and standard input."""

import csv
import operator
import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from nacp._types import Array
from nacp.cli.formats.base import (
    LABEL,
    STDIN,
    TEXT_COLUMN,
    Table,
    are_numbers,
    kind,
    pick,
    separator,
    text_lines,
)
from nacp.errors import InputError

_SEPARATORS = ((";", "';'", "';'"), ("\t", "tabs", "tab"), (",", "','", "','"))
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")


class TextTable(Table):
    """A text table; its header is its first row, which may hold numbers.

    A file is read anew by each method; standard input is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = "standard input" if str(path) == STDIN else str(path)
        self._kept: list[str] | None = None
        if str(path) == STDIN:
            with text_lines(path) as file:
                self._kept = file.read().removeprefix("\ufeff").splitlines(keepends=True)
        self._separator = self._find_separator()
        self.header: list[str] = next(self.rows())[1]
        self.width = len(self.header)
        if self.width == 1:
            self._refuse_separator()

    def rows(self, *, gaps: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yield rows of one length with their line numbers; empty lines may only be the last ones.

        With `gaps`, an empty line among rows of one cell is an empty cell.
        """
        empty, length = 0, 0
        with text_lines(self.path) if self._kept is None else nullcontext(self._kept) as lines:
            reader = csv.reader(lines, delimiter=self._separator)
            try:
                for row in reader:
                    if gaps and length <= 1 and not "".join(row).strip() and len(row) <= 1:
                        row = [""]
                    elif not row or (row[0] and not "".join(row).strip()):
                        empty = empty or reader.line_num
                        continue
                    if empty and length:
                        raise InputError(
                            self._name, f"has an empty line, {empty}, above others: is something missing?"
                        )
                    length, empty = length or len(row), 0
                    if len(row) != length:
                        self._refuse_separator()
                        raise InputError(
                            self._name,
                            f"must have rows of one length; line {reader.line_num} has {len(row):,} cells, "
                            f"not {length:,}",
                        )
                    yield reader.line_num, [cell.strip() for cell in row]
            except csv.Error as error:
                why = str(error) if "field limit" in str(error) else "it is not text"
                raise InputError(self._name, f"cannot be read as {kind(self.path)}: {why}") from None
        if not length:
            raise InputError(self._name, "is empty")

    @cached_property
    def matrix_header(self) -> list[str] | None:
        """The first row, unless it holds numbers and is a row of the matrix."""
        rows = self._rows_of_numbers()
        _, first = next(rows)
        words = not are_numbers(first)
        if words:
            self._refuse_holes(first)
        if not words and not self._is_header(first, rows):
            return None
        if next(self._rows_of_numbers(start=1), None) is None:
            raise InputError(self._name, "has a header and nothing below it")
        return first

    def numbers(self, columns: Sequence[int]) -> Array:
        """Return columns of numbers as a matrix."""
        values, chosen = array("d"), operator.itemgetter(*columns, columns[0])  # a tuple even of one column
        for line, row in self._rows_of_numbers(start=int(self.matrix_header is not None)):
            try:
                values.extend(map(float, chosen(row)[:-1]))
            except ValueError:
                odd = next(cell for cell in chosen(row) if not are_numbers([cell]))
                self._refuse_separator()
                raise InputError(
                    self._name,
                    "must hold one number per cell below its header",
                    found=f"{odd!r} in line {line}",
                    remedy=TEXT_COLUMN,
                ) from None
        return np.frombuffer(values, dtype=np.float64).reshape(-1, len(columns))

    def cells(self, column: int, *, gaps: bool = False) -> list[str]:
        """Return the cells of a column below the header."""
        return [row[column] for _, row in islice(self.rows(gaps=gaps), 1, None)]

    def labels(
        self, key: str | None, *, called: set[str] = LABEL, true: bool = False, gaps: bool = False
    ) -> tuple[list[str], bool]:
        """Return the column of labels; that of a table of one column may begin with a header."""
        if self.width > 1:
            return super().labels(key, called=called, true=true, gaps=gaps)
        cells = [row[0] for _, row in self.rows(gaps=gaps)]
        if key is None:
            return cells, False
        pick(self.path, self.header, key, key)
        return cells[1:], True

    def _rows_of_numbers(self, start: int = 0) -> Iterator[tuple[int, list[str]]]:
        """Yield rows; where commas separate nothing, those in numbers are decimal points."""
        for line, row in islice(self.rows(), start, None):
            if self._separator != ",":
                row = [cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in row]
            yield line, row

    def _refuse_holes(self, header: list[str]) -> None:
        """Refuse a header that looks like a row of probabilities with a hole."""
        numbers = [float(cell) for cell in header if are_numbers([cell])]
        if numbers and ("" in header[1:] or any(0 < number < 1 for number in numbers)):
            odd = next(cell for cell in header if not are_numbers([cell]))
            raise InputError(self._name, "must hold one number per cell", found=f"{odd!r} in its first line")

    def _is_header(self, first: list[str], below: Iterator[tuple[int, list[str]]]) -> bool:
        """Return whether a first row of numbers is a header.

        It is if it says 0, 1, 2, ...; or if it has different whole numbers and some row below is written
        otherwise. 1 and 0 are a point; 0 and 1 are one if all rows look like that.
        """
        if len(set(first)) < max(len(first), 2) or not all(map(str.isdecimal, first)) or first == ["1", "0"]:
            return False
        if len(first) > 2 and first == [str(i) for i in range(len(first))]:
            return True
        whole = (all(map(str.isdecimal, row)) for _, row in below)
        if first != ["0", "1"]:
            return not all(whole)
        kinds = set(whole)
        if len(kinds) == 2:
            raise InputError(
                self._name,
                "begins with 0,1, which may be a header or a point: name the columns, or write 0.0,1.0",
            )
        return kinds == {False}

    def _first_lines(self, number: int) -> list[str]:
        if self._kept is not None:
            return self._kept[:number]
        with text_lines(self.path) as file:
            return list(islice(file, number))

    def _find_separator(self) -> str:
        """Return what separates the columns: --separator, unless the first line has only the usual mark."""
        given, usual = separator(self.path), separator(self.path, usual=True)
        if given == usual:
            return given
        first = "".join(self._first_lines(1))
        return usual if usual in first and given not in first else given

    def _refuse_separator(self) -> None:
        """Refuse a table if another mark comes equally often in each of its first lines."""
        lines = self._first_lines(5)
        for mark, name, option in _SEPARATORS:
            if (
                mark != self._separator
                and mark in lines[0]
                and len({line.count(mark) for line in lines}) == 1
            ):
                raise InputError(
                    f"{self._name}:",
                    f"its columns seem to be separated by {name}",
                    remedy=f"give --separator {option}",
                )
