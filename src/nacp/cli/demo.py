"""``nacp demo``: what label noise does to prediction sets, and what noise-awareness does about it.

Trains a classifier of several hundred languages on short snippets of text, spoils a fifth of the calibration
labels, and compares the sets of all methods by their size and coverage. Needs the extra ``nacp[sklearn]``.
"""

import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

import nacp
from nacp._types import Array, Ints
from nacp.cli.outputs import check_output
from nacp.cli.terminal import progress_of, show_table
from nacp.datasets import Languages, load_languages
from nacp.guarantees import PAC, Expected
from nacp.metrics import Evaluation
from nacp.paper.methods import aware, cost, six_methods

NOISE = nacp.UniformNoise(0.2)
ALPHA = 0.1
SCORES = ("hps", "aps", "raps")
TUNING = 20
"""So many of each language's training snippets choose the temperature; the others train."""
SHOWN = ("English", "Norwegian, Bokmål", "Galician", "Ukrainian", "Zulu")
"""The languages whose first test snippet is shown."""
NO_SKLEARN = (
    "The demo trains a scikit-learn classifier, and scikit-learn is missing: pip install nacp[sklearn]"
)


class Row(NamedTuple):
    """One method with one score: what came out."""

    score: str
    method: str
    calibration: nacp.Calibration
    result: Evaluation

    def to_dict(self) -> dict[str, str | float]:
        """Return what is in the table."""
        return {
            "score": self.score,
            "method": self.method,
            "correction": cost(self.calibration),
            "mean_size": self.result.mean_size,
            "coverage": self.result.coverage,
        }


def classify(data: Languages, say: Callable[[str], None]) -> tuple[Array, Array]:
    """Train naive Bayes on pairs of characters; return its probabilities for calibration and test."""
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.naive_bayes import MultinomialNB

    pairs = HashingVectorizer(
        analyzer="char_wb", ngram_range=(2, 2), n_features=2**10, alternate_sign=False, norm=None
    )
    texts, labels = data.train
    n = len(texts) - TUNING * len(data.names)
    say("training")
    model = MultinomialNB(alpha=0.1, fit_prior=False).fit(pairs.transform(texts[:n]), labels[:n])

    def evidence(texts: tuple[str, ...]) -> Array:
        found: Array = model.predict_joint_log_proba(pairs.transform(texts)).astype(np.float32)
        return found

    say("choosing the temperature")
    temperature = best_temperature(evidence(texts[n:]), labels[n:])
    say("classifying")
    calibration, test = (
        softmax(evidence(part.texts) / np.float32(temperature), axis=1)
        for part in (data.calibration, data.test)
    )
    return calibration, test


def best_temperature(evidence: Array, labels: Ints) -> float:
    """Return the temperature with the least log loss."""

    def loss(log_temperature: float) -> float:
        log_probs = log_softmax(evidence / np.float32(np.exp(log_temperature)), axis=1)
        return float(-log_probs[np.arange(len(labels)), labels].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-1, 3), method="bounded").x))


def compare(calibration: Array, labels: dict[bool, Ints], test: Array, truth: Ints) -> Iterator[Row]:
    """Calibrate every method with every score, and evaluate it with clean labels.

    `labels` has the clean ones under True and the noisy ones under False.
    """
    ours = [aware(Expected(), 'nacp "expected"'), aware(PAC(), 'nacp "pac"')]
    for score in SCORES:
        for method in [*six_methods(test.shape[1]), *ours]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)  # shown as full sets
                found = nacp.calibrate(
                    calibration,
                    labels[method.sees_clean],
                    noise=NOISE if method.noise_aware else None,
                    alpha=ALPHA,
                    score=score,
                    guarantee=method.guarantee,
                    random_state=0,
                )
            yield Row(score, method.name, found, nacp.evaluate(found.predict_set(test), truth))


def methods_table(rows: list[Row]) -> Table:
    """Return the table of all methods: what each adds to the target, and its size and coverage."""
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title="Mean size of the sets / how often the true language is in them",
        caption="added: to the target, with HPS",
    )
    table.add_column("method", no_wrap=True)
    for column in ("added", *(score.upper() for score in SCORES)):
        table.add_column(column, justify="right", no_wrap=True)
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method]
        sizes = [f"{row.result.mean_size:.2f} / {row.result.coverage:.1%}" for row in own]
        table.add_row(method, f"{cost(own[0].calibration):.3f}", *sizes)
    return table


def describe(probs: Array, labels: list[int], names: tuple[str, ...], most: int = 6) -> str:
    """Name the languages of one set, the most probable first."""
    first = sorted(labels, key=lambda label: -probs[label])[:most]
    more = f"; and {len(labels) - most} more" if len(labels) > most else ""
    return ("; ".join(names[label] for label in first) or "none") + more


def write_report(
    path: Path, data: Languages, calibration: Array, labels: Ints, test: Array, say: Callable[[str], None]
) -> None:
    """Write the report on what the default, "pac" with HPS, makes of the noisy labels."""
    names = np.array(data.names)
    nacp.make_report(
        calibration, names[labels], noise=NOISE, alpha=ALPHA, classes=data.names, test_probs=test,
        test_labels=names[data.test.labels], samples=_shown(data), descriptions=data.test.texts,
        title=f"Which of {len(names)} languages?", say=say,
    ).save(path)  # fmt: skip


def _shown(data: Languages) -> list[int]:
    return [data.names.index(name) for name in SHOWN]  # the languages take turns: row i is in language i


def main(report: Path, *, quiet: bool = False, as_json: bool = False) -> None:
    """Print the table of methods and scores, and the sets of a few snippets; or the table alone, as JSON.

    The report is written too, if plotly is there.
    """
    try:
        import sklearn  # noqa: F401  (only whether it is there)
    except ImportError:
        raise ModuleNotFoundError(NO_SKLEARN) from None
    can_report = importlib.util.find_spec("plotly") is not None
    if can_report:
        check_output(str(report))
    console = Console()
    start = time.perf_counter()
    with progress_of("reading", quiet) as say:
        data = load_languages()
        k, n, truth = len(data.names), len(data.calibration.labels), data.test.labels
        calibration, test = classify(data, say)
        clean = data.calibration.labels
        labels = {True: clean, False: NOISE.sample(clean, k, random_state=0)}
        rows = []
        for row in compare(calibration, labels, test, truth):
            say(f"{row.score}: {row.method}")
            rows.append(row)
        if can_report:
            write_report(report, data, calibration, labels[False], test, say)

    if as_json:
        written_to = str(report) if can_report else None
        print(json.dumps({"rows": [row.to_dict() for row in rows], "report": written_to}, indent=1))
        return
    accuracy = (test.argmax(axis=1) == truth).mean()
    console.print(
        f"Which of {k} languages is a snippet of 20 to 60 letters in? A classifier of character pairs is "
        f"right for {accuracy:.1%} of {len(truth):,} test snippets. Its prediction sets shall hold the true "
        f"language {1 - ALPHA:.0%} of the time. They are calibrated on {n:,} snippets, {NOISE.rate:.0%} of "
        "whose labels were replaced by random ones.\n"
    )
    show_table(console, methods_table(rows))
    by_name = {(row.score, row.method): row for row in rows}
    ignorant, aware = by_name["hps", "Noisy-CP"], by_name["hps", 'nacp "pac"']
    hopeless = [row.method for row in rows if row.score == "hps" and row.calibration.obstacle]
    full = f"What {' and '.join(hopeless)} add leaves only the set of all languages. " if hopeless else ""
    # The calibration's part, of variance (1 - alpha)(alpha + eps/(1 - eps)) per point at most; the test's.
    clean_error, noisy_error = (
        np.sqrt((1 - ALPHA) * ((ALPHA + rate / (1 - rate)) / n + ALPHA / len(truth)))
        for rate in (0, NOISE.rate)
    )
    console.print(
        f"Noisy-CP ignores the noise: with HPS it returns {ignorant.result.mean_size:.0f} languages where "
        f"{by_name['hps', 'CP (oracle)'].result.mean_size:.2f} would do if all labels were right. "
        f'nacp\'s default, "pac", sees the same noisy labels and returns {aware.result.mean_size:.2f}. '
        f"It promises: {aware.calibration.promise}. {full}Another draw of snippets would move these "
        f"coverages: their standard error is {clean_error:.1%} with clean labels and at most "
        f"{noisy_error:.1%} with noisy ones.\n"
    )
    shown = _shown(data)
    sets = {row.method: row.calibration.predict_set(test[shown]).to_lists() for row in (ignorant, aware)}
    for position, index in enumerate(shown):
        console.print(f"[bold]{escape(data.test.texts[index])}[/bold] ({escape(data.names[index])})")
        lines = Table.grid(padding=(0, 1))
        for method, found in sets.items():
            lines.add_row(f" {method}:", escape(describe(test[index], found[position], data.names)))
        console.print(lines)
    written = f"Written: {report}" if can_report else "No report was written: pip install 'nacp[report]'"
    console.print(f"\n{escape(written)} [dim]({time.perf_counter() - start:.1f} s)[/dim]", soft_wrap=True)
