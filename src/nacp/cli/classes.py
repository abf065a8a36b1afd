"""Class names, and other texts that stand one per line."""

import json
from pathlib import Path

from nacp.cli.formats.common import ID, LABEL, TEXTS, TRUE, are_numbers, checked, kind, text_lines
from nacp.cli.formats.text import csv_column, csv_rows
from nacp.errors import InputError

_TITLES = {"class", "classes", "name", "names", "label", "labels", "category", "categories"}


def read_classes(name: str, k: int) -> list[str]:
    """Read the names of k classes."""
    names = read_class_list(name)
    if kind(name) in TEXTS and len(names) == k + 1:
        del names[0]
    if len(names) != k or len(set(names)) != k:
        raise InputError(
            name,
            f"must hold {k:,} different names, one per column of probs",
            found=f"{len(names):,}, {len(set(names)):,} of them different",
        )
    return names


def read_class_list(name: str) -> list[str]:
    """Read class names: a ``.json`` list, a column of a ``.csv`` or ``.tsv`` file, or else one per line.

    A first line that is called class, name, label or the like is a header; of several columns it says which
    one is meant. Above probabilities it is the header that names the classes.
    """
    path = checked(Path(name))
    above = _above_probabilities(path) if kind(path) in TEXTS else []
    if above:
        read = above
    elif kind(path) in TEXTS:
        read, headed = csv_column(path, None, called=_TITLES)
        if not headed and read[0].lower() in _TITLES:
            del read[0]
    elif path.suffix == ".json":
        try:
            read = json.loads(path.read_text(encoding="utf-8-sig"))
        except ValueError as error:
            raise InputError(str(path), f"cannot be read as JSON: {error}") from None
        if not isinstance(read, list) or not all(isinstance(each, str) for each in read):
            raise InputError(str(path), 'must hold a list of names, such as ["cat", "dog"]')
    else:
        read = read_lines(name)
    return [each.strip() for each in read]


def _above_probabilities(path: Path) -> list[str]:
    """Return the names of the columns of probabilities, if a table has such ones."""
    rows = csv_rows(path, gaps=True)
    (_, header), (_, cells) = next(rows), next(rows, (0, []))
    if are_numbers(header) or {name.lower() for name in header} & (_TITLES - LABEL):
        return []
    other = LABEL | TRUE | (ID if header[0].lower() in ID else set())
    found = {
        name: float(cell)
        for name, cell in zip(header, cells, strict=False)
        if are_numbers([cell]) and name.lower() not in other
    }
    values = found.values()
    return (
        list(found) if len(found) > 1 and (sum(values) == 1 or not all(map(float.is_integer, values))) else []
    )


def read_lines(name: str) -> list[str]:
    """Read the lines of a text file."""
    with text_lines(Path(name)) as file:
        return file.read().splitlines()
