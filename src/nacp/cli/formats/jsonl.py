"""JSON lines: a list, an object or a single value on each."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nacp._types import Array
from nacp.cli.formats.base import PROBS, Table, as_cell, few, text_lines
from nacp.errors import InputError


class JsonTable(Table):
    """JSON lines. If the lines are objects, their keys are the header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: list[str] | None = None
        self._rows: list[list[Any]] = []
        with text_lines(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    self._add(number, line)
        if not self._rows:
            raise InputError(str(path), "is empty")
        self.width = len(self._rows[0])
        if any(len(row) != self.width for row in self._rows):
            raise InputError(str(path), "must hold lists of one length")

    def _add(self, number: int, line: str) -> None:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(str(self.path), f"is not JSON in line {number}: {error}") from None
        keys = list(value) if isinstance(value, dict) else None
        if self._rows and (keys is None) != (self.header is None):
            raise InputError(str(self.path), f"has another kind of value in line {number} than above")
        if keys is None:
            self._rows.append(value if isinstance(value, list) else [value])
            return
        self.header = self.header or keys
        if set(keys) != set(self.header):
            raise InputError(
                str(self.path), f"has other keys in line {number}", found=few(keys), remedy=few(self.header)
            )
        self._rows.append([value[key] for key in self.header])

    def numbers(self, columns: Sequence[int]) -> Array:
        """Return columns of numbers as a matrix."""
        return self._matrix([[row[i] for i in columns] for row in self._rows])

    def _matrix(self, rows: list[list[Any]]) -> Array:
        numbers = (int, float)
        odd = next((each for row in rows for each in row if type(each) not in numbers), None)
        if odd is not None:
            raise InputError(str(self.path), "must hold numbers only", found=repr(odd))
        try:
            return np.array(rows, dtype=np.float64)
        except ValueError:
            raise InputError(str(self.path), "must hold lists of one length") from None
        except OverflowError:
            raise InputError(str(self.path), "holds a number that is too large") from None

    def cells(self, column: int, *, gaps: bool = False) -> list[str]:
        """Return the texts or numbers under a key; null is an empty cell."""
        cells = [row[column] for row in self._rows]
        odd = next((each for each in cells if isinstance(each, list | dict | bool)), None)
        if odd is not None:
            raise InputError(str(self.path), "must hold texts or numbers as labels", found=repr(odd))
        return [as_cell(each) for each in cells]

    def lists(self, key: str | None) -> tuple[Array, list[str] | None] | None:
        """Return the matrix in the lists, or the objects, under the key or one of `PROBS`."""
        if self.header is None:
            return super().lists(key)
        inner = key or next((name for name in PROBS if name in self.header), None)
        if inner is None:
            return None
        if inner not in self.header:
            raise InputError(str(self.path), f"holds no {inner!r}, but {few(self.header)}")
        place = self.header.index(inner)
        values = [row[place] for row in self._rows]
        if all(isinstance(value, dict) for value in values):
            names = list(values[0])
            if any(set(value) != set(names) for value in values):
                raise InputError(str(self.path), f"must have the same names in {inner!r} on every line")
            return self._matrix([[value[name] for name in names] for value in values]), names
        if not all(isinstance(value, list) for value in values):
            raise InputError(str(self.path), f"must hold a list of numbers in {inner!r} on every line")
        return self._matrix(values), None
