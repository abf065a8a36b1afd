"""The example of docs/your-own-data.md: CSV files, and the commands from calibration to the report.

    python examples/your_own_data.py [FOLDER]

Writes the files into the folder (a new one by default), runs each command there, and prints its output. The
files are simulated from texts that come with nacp; the task is to identify the language of a snippet.
The simulated annotators confuse similar languages, most often in short snippets, and 300 labels are checked.
Needs nacp[sklearn].
"""

import csv
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from nacp.datasets import load_languages

FAMILIES = [
    ["Spanish", "Portuguese (Portugal)", "Galician", "Catalan", "Italian", "Romanian (2006)"],
    ["German, Standard (1996)", "Dutch", "Afrikaans"],
    ["Danish", "Swedish", "Norwegian, Bokmål", "Icelandic"],
    ["Czech", "Slovak", "Polish", "Slovenian"],
    ["Finnish", "Estonian", "English"],
]
COMMANDS = [
    "nacp calibrate points.csv points.csv:label --clean points.csv:checked -o cal.json",
    "nacp predict cal.json new.csv --no-allow-empty --with-probs -o sets.csv",
    "nacp evaluate cal.json test.csv test.csv:truth --no-allow-empty",
    "nacp report points.csv points.csv:label --clean points.csv:checked --test-probs test.csv "
    "--test-labels test.csv:truth --descriptions texts.txt --title 'Which of 20 languages?' -o report.html",
]
POINTS, TEST, CHECKED = 1000, 400, 300


def classify(train: tuple[str, ...], labels: np.ndarray, texts: list[str]) -> np.ndarray:
    """Train naive Bayes on single characters and pairs, and return its probabilities for other texts."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB

    pairs = CountVectorizer(analyzer="char", ngram_range=(1, 2), max_features=400)
    model = MultinomialNB(alpha=1.0).fit(pairs.fit_transform(train), labels)
    evidence = model.predict_joint_log_proba(pairs.transform(texts)) / 2  # the model is overconfident
    probs = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    return probs / probs.sum(axis=1, keepdims=True)


def as_people_label(truth: np.ndarray, texts: list[str], rng: np.random.Generator) -> np.ndarray:
    """Return simulated labels: languages are confused within their family, most often in short texts."""
    family = np.repeat(np.arange(len(FAMILIES)), [len(each) for each in FAMILIES])
    labels = truth.copy()
    for i, (true, text) in enumerate(zip(truth, texts, strict=True)):
        if rng.random() < (0.4 if len(text) < 30 else 0.1):
            labels[i] = rng.choice(
                np.flatnonzero((family == family[true]) & (np.arange(len(family)) != true))
            )
    return labels


def make_files(folder: Path) -> None:
    """Write points.csv, test.csv, new.csv and texts.txt."""
    data, names = load_languages(), [name for family in FAMILIES for name in family]
    wanted = [data.names.index(name) for name in names]
    number = {label: i for i, label in enumerate(wanted)}

    def ours(part):
        some = [(text, number[y]) for text, y in zip(*part, strict=True) if y in number]
        return tuple(text for text, _ in some), np.array([y for _, y in some])

    rng = np.random.default_rng(0)
    (some, their_truth), (others, other_truth) = ours(data.calibration), ours(data.test)
    texts, truth = some + others, np.append(their_truth, other_truth)
    order = rng.permutation(len(texts))
    texts, truth = [texts[i] for i in order], truth[order]
    probs = classify(*ours(data.train), texts)
    given = as_people_label(truth, texts, rng)
    checked = set(rng.choice(POINTS, CHECKED, replace=False).tolist())

    def rows(start, stop, *more):
        for i in range(start, stop):
            yield [f"snippet-{i:04}", *(f"{p:.6g}" for p in probs[i]), *(names[each[i]] for each in more)]

    def write(name, header, lines):
        with open(folder / name, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *lines])

    points = [[*row, names[truth[i]] if i in checked else ""] for i, row in enumerate(rows(0, POINTS, given))]
    write("points.csv", ["id", *names, "label", "checked"], points)
    write("test.csv", ["id", *names, "truth"], rows(POINTS, POINTS + TEST, truth))
    write("new.csv", ["id", *names], rows(POINTS + TEST, len(texts)))
    (folder / "texts.txt").write_text("\n".join(texts[POINTS : POINTS + TEST]) + "\n", encoding="utf-8")


def main() -> None:
    """Write the files and run the commands on them."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="nacp-"))
    folder.mkdir(exist_ok=True)
    make_files(folder)
    print(f"The files are in {folder}.\n")
    for command in COMMANDS:
        print(f"$ {command}")
        said = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            cwd=folder,
            text=True,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        print(f"{said.stdout}\n")
        if said.returncode:
            sys.exit(said.returncode)


if __name__ == "__main__":
    main()
