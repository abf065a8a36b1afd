"""``nacp demo``: what label noise does to prediction sets, and what noise-awareness does about it.

Trains a classifier of several hundred languages on short snippets of text, spoils a fifth of the calibration
labels, and compares the sets of all methods by their size and coverage, over random splits into calibration
and test snippets. Needs the extra ``nacp[sklearn]``.
"""

import json
import time
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
from nacp._types import Array, Floats, Ints
from nacp.cli.outputs import check_output
from nacp.cli.terminal import progress_of
from nacp.datasets import Languages, load_languages
from nacp.guarantees import PAC, Expected
from nacp.paper.methods import aware, six_methods
from nacp.paper.splits import run_splits

NOISE = nacp.UniformNoise(0.2)
ALPHA = 0.1
SCORES = ("hps", "aps", "raps")
SPLITS = 10
TUNING = 20
"""So many of each language's training snippets choose the temperature; the others train."""
SHOWN = ("English", "Norwegian, Bokmål", "Galician", "Ukrainian", "Zulu")
"""The languages whose first test snippet is shown."""
NO_SKLEARN = (
    "The demo trains a scikit-learn classifier, and scikit-learn is missing: pip install nacp[sklearn]"
)


class Row(NamedTuple):
    """One method with one score: means over the splits, with their standard errors."""

    score: str
    method: str
    correction: float
    mean_size: float
    mean_size_error: float
    coverage: float
    coverage_error: float
    full: bool  # whether the sets hold all classes in every split


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


def compare(probs: Array, labels: Ints, say: Callable[[str], None]) -> Iterator[Row]:
    """Calibrate every method with every score on one half of the points and evaluate it on the other.

    The halves, and the noise in the labels of the first, are drawn anew for each split.
    """
    ours = [aware(Expected(), 'nacp "expected"'), aware(PAC(), 'nacp "pac"')]
    methods = [*six_methods(probs.shape[1]), *ours]
    for score in SCORES:

        def told(done: int, score: str = score) -> None:
            say(f"{score.upper()}: split {done} of {SPLITS}")

        found = run_splits(
            probs,
            labels,
            noise=NOISE,
            alpha=ALPHA,
            score=score,
            methods=methods,
            splits=SPLITS,
            progress=told,
        )  # fmt: skip
        values = zip(
            methods,
            found.corrections[:, 0].mean(axis=1).tolist(),
            *_means(found.sizes[:, 0]),
            *_means(found.coverages[:, 0]),
            [bool(np.isinf(found.thresholds[m]).all()) for m in range(len(methods))],
            strict=True,
        )
        for method, *row in values:
            yield Row(score, method.name, *row)


def _means(values: Floats) -> tuple[list[float], list[float]]:
    """Return means over splits, and their standard errors."""
    return values.mean(axis=1).tolist(), (values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])).tolist()


def methods_tables(rows: list[Row], width: int) -> list[Table]:
    """Return the table of all methods; in a narrow window one for each score, without what is added."""
    by_method = {name: [row for row in rows if row.method == name] for name in [row.method for row in rows]}
    if width < 80:
        return [
            _table(by_method, [i], f"{score.upper()}: mean size, and % covered", added=False)
            for i, score in enumerate(SCORES)
        ]
    title = "Mean size of the sets, and how often they cover the true language, in %"
    return [_table(by_method, list(range(len(SCORES))), title, added=True)]


def _table(by_method: dict[str, list[Row]], scores: list[int], title: str, *, added: bool) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=title,
        caption="added: to the target, with HPS" if added else None,
    )
    table.add_column("method", no_wrap=True)
    if added:
        table.add_column("added", justify="right", no_wrap=True)
    for i in scores:
        name = f"{SCORES[i].upper()}\n" if added else ""
        table.add_column(f"{name}size", justify="right", no_wrap=True)
        table.add_column(f"{name}covered", justify="right", no_wrap=True)
    for method, own in by_method.items():
        cells = [f"{own[0].correction:.3f}"] if added else []
        for row in (own[i] for i in scores):
            size = f"{row.mean_size:.2f}" if row.mean_size < 100 else f"{row.mean_size:.0f}"
            cells += [size, f"{100 * row.coverage:.1f} ±{100 * row.coverage_error:.1f}"]
        table.add_row(method, *cells)
    return table


def describe(probs: Array, labels: list[int], names: tuple[str, ...], most: int = 6) -> str:
    """Name the languages of one set, the most probable first."""
    first = sorted(labels, key=lambda label: -probs[label])[:most]
    more = f"; and {len(labels) - most:,} more" if len(labels) > most else ""
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

    The report, on one split, is written too.
    """
    try:
        import sklearn  # noqa: F401  (only whether it is there)
    except ImportError:
        raise ModuleNotFoundError(NO_SKLEARN) from None
    check_output(str(report))
    console = Console()
    start = time.perf_counter()
    with progress_of("reading", quiet) as say:
        data = load_languages()
        k, n, truth = len(data.names), len(data.calibration.labels), data.test.labels
        calibration, test = classify(data, say)
        pooled = np.concatenate([calibration, test]), np.concatenate([data.calibration.labels, truth])
        rows = list(compare(*pooled, say))
        noisy = NOISE.sample(data.calibration.labels, k, random_state=0)
        write_report(report, data, calibration, noisy, test, say)
        both = {
            name: nacp.calibrate(calibration, noisy, noise=noise, alpha=ALPHA, random_state=0)
            for name, noise in (("Noisy-CP", None), ('nacp "pac"', NOISE))
        }

    if as_json:
        written = [row._asdict() for row in rows]
        print(json.dumps({"splits": SPLITS, "rows": written, "report": str(report)}, indent=1))
        return
    accuracy = (pooled[0].argmax(axis=1) == pooled[1]).mean()
    console.print(
        f"Which of {k} languages is a snippet of 20 to 60 letters in? A classifier of character pairs is "
        f"right for {accuracy:.1%} of {len(pooled[1]):,} snippets. Its prediction sets should hold the true "
        f"language {1 - ALPHA:.0%} of the time. They are calibrated on one half of the snippets, "
        f"{NOISE.rate:.0%} of whose labels were replaced by random ones, and tested on the other half; this "
        f"is done {SPLITS} times, on random halves.\n"
    )
    for table in methods_tables(rows, console.width):
        console.print(table)
    by_name = {(row.score, row.method): row for row in rows}
    ignorant, careful = by_name["hps", "Noisy-CP"], by_name["hps", 'nacp "pac"']
    hopeless = [row.method for row in rows if row.score == "hps" and row.full]
    promise = both[careful.method].promise
    full = f" What {' and '.join(hopeless)} add leaves only the set of all languages." if hopeless else ""
    console.print(
        f"Means and standard errors over {SPLITS} splits. Noisy-CP ignores the noise: with HPS it returns "
        f"{ignorant.mean_size:.0f} languages where {by_name['hps', 'CP (oracle)'].mean_size:.2f} would do if "
        f'all labels were right. nacp\'s default, "pac", sees the same noisy labels and returns '
        f"{careful.mean_size:.2f}. It promises: {promise}.{full} On one split of {n:,} "
        "snippets each:\n"
    )
    shown = _shown(data)
    sets = {name: cal.predict_set(test[shown]).to_lists() for name, cal in both.items()}
    for position, index in enumerate(shown):
        console.print(f"[bold]{escape(data.test.texts[index])}[/bold] ({escape(data.names[index])})")
        lines = Table.grid(padding=(0, 1))
        for method, found in sets.items():
            lines.add_row(f" {method}:", escape(describe(test[index], found[position], data.names)))
        console.print(lines)
    seconds = f"[dim]({time.perf_counter() - start:.1f} s)[/dim]"
    console.print(f"\n{escape(f'Written: {report}')} {seconds}", soft_wrap=True)
