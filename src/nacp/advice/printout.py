"""Results that print as tables and sentences, in a terminal and in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from nacp.wrapping import table_lines, wrapped


class TextTable(NamedTuple):
    """A table as text: its first row is the header, and its first columns hold words, the others numbers."""

    rows: list[list[str]]
    words: int
    caption: str = ""


def joined(sentences: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return each sentence once, after the names of all that it is about."""
    names: dict[str, dict[str, None]] = {}
    for name, text in sentences:
        names.setdefault(text, {})[name] = None
    return [(", ".join(each), text) for text, each in names.items()]


class Printout(ABC):
    """A result that prints its tables and then its sentences, each with the name of what it is about."""

    _title: ClassVar[str]

    @property
    @abstractmethod
    def tables(self) -> list[TextTable]:
        """The tables."""

    @property
    @abstractmethod
    def sentences(self) -> list[tuple[str, str]]:
        """The sentences, each after a name; the name may be empty."""

    def __str__(self) -> str:
        parts = []
        for rows, words, caption in self.tables:
            parts.append("\n".join([*map(wrapped, filter(None, [caption])), *table_lines(rows, words)]))
        told = [wrapped(f"{name}: {text}" if name else text) for name, text in self.sentences]
        return "\n\n".join(filter(None, [*parts, "\n".join(told)]))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from nacp.show.html import card, sentence, table, told

        parts = []
        for (header, *rows), words, caption in self.tables:
            parts += [told(caption), table(header, rows, left=range(words))]
        parts += [sentence(text, name=name or None) for name, text in self.sentences]
        return card(self._title, *parts)
