"""``nacp demo``: what label noise does to prediction sets, and what noise-awareness does about it.

Trains a classifier of several hundred languages on short snippets of text, replaces a fifth of the
calibration labels, and compares the sets of all methods by their size and coverage, over random splits into
calibration and test snippets. Needs the extra ``nacp[sklearn]``.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import nacp
from nacp._types import Array, Ints
from nacp.cli import options
from nacp.cli.errors import command
from nacp.cli.outputs import check_output
from nacp.cli.terminal import progress_of, show
from nacp.datasets import Languages, load_languages
from nacp.guarantees import PAC, Expected
from nacp.paper.methods import aware, six_methods
from nacp.paper.splits import run_splits

app = typer.Typer()

NOISE = nacp.UniformNoise(0.2)
ALPHA = 0.1
SCORES = ("hps", "aps", "raps")
SPLITS = 10
TUNING = 20
"""The number of each language's training snippets that choose the temperature; the others train."""
SHOWN = ("English", "Norwegian, Bokmål", "Galician", "Ukrainian", "Zulu")
"""The languages whose first test snippet is shown."""


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


@command(app, "demo", "nacp demo", "nacp demo --report languages.html")
def demo_command(
    report: Annotated[Path, typer.Option(help="The file for the report.")] = Path("nacp-demo.html"),
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Train a classifier of 472 languages, spoil its calibration labels, and show what helps."""
    try:
        import sklearn  # noqa: F401  (only to see whether it is installed)
    except ImportError:
        raise ModuleNotFoundError(
            "the demo trains a classifier of scikit-learn, which is missing: pip install nacp[sklearn]"
        ) from None
    check_output(str(report))
    with progress_of("reading", quiet) as say:
        data = load_languages()
        calibration, test = classify(data, say)
        labels = data.calibration.labels
        probs, truth = np.concatenate([calibration, test]), np.concatenate([labels, data.test.labels])
        rows = list(compare(probs, truth, say))
        noisy = NOISE.sample(labels, len(data.names), random_state=0)
        write_report(report, data, calibration, noisy, test, say)
        cals = {
            name: nacp.calibrate(calibration, noisy, noise=noise, alpha=ALPHA, random_state=0)
            for name, noise in (("Noisy-CP", None), ('nacp "pac"', NOISE))
        }
    if as_json:
        show(True, {"splits": SPLITS, "rows": [row._asdict() for row in rows], "report": str(report)})
        return
    console = Console()
    accuracy = (probs.argmax(axis=1) == truth).mean()
    console.print(
        f"Which of {len(data.names)} languages is a text of 20 to 60 letters in? A classifier of character "
        f"pairs is right for {accuracy:.1%} of {len(truth):,} snippets. Its prediction sets should hold the "
        f"true language {1 - ALPHA:.0%} of the time. They are calibrated on one half of the snippets, "
        f"{NOISE.rate:.0%} of whose labels were replaced by random ones, and tested on the other half; this "
        f"is done {SPLITS} times, on random halves.\n"
    )
    for table in method_tables(rows):
        console.print(table)
    console.print(summary(rows, cals['nacp "pac"'].promise, len(labels)))
    shown = _shown(data)
    sets = {name: cal.predict_set(test[shown]).to_lists() for name, cal in cals.items()}
    for position, index in enumerate(shown):
        console.print(f"[bold]{escape(data.test.texts[index])}[/bold] ({escape(data.names[index])})")
        lines = Table.grid(padding=(0, 1))
        for method, found in sets.items():
            lines.add_row(f" {method}:", escape(describe(test[index], found[position], data.names)))
        console.print(lines)
    console.print(f"\n{escape(f'Written: {report}')}", soft_wrap=True)


def classify(data: Languages, say: Callable[[str], None]) -> tuple[Array, Array]:
    """Train naive Bayes on pairs of characters; return its probabilities for calibration and test."""
    from scipy.special import softmax
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
    temperature = np.float32(best_temperature(evidence(texts[n:]), labels[n:]))
    say("classifying")
    calibration, test = (
        softmax(evidence(part.texts) / temperature, axis=1) for part in (data.calibration, data.test)
    )
    return calibration, test


def best_temperature(evidence: Array, labels: Ints) -> float:
    """Return the temperature with the least log loss."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

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

        def progress(done: int, score: str = score) -> None:
            say(f"{score.upper()}: split {done} of {SPLITS}")

        found = run_splits(
            probs,
            labels,
            noise=NOISE,
            alpha=ALPHA,
            score=score,
            methods=methods,
            splits=SPLITS,
            progress=progress,
        )
        for m, method in enumerate(methods):
            (size, size_error), (coverage, coverage_error) = (
                (float(values.mean()), float(values.std(ddof=1) / np.sqrt(SPLITS)))
                for values in (found.sizes[m, 0], found.coverages[m, 0])
            )
            correction = float(found.corrections[m, 0].mean())
            full = bool(np.isinf(found.thresholds[m]).all())
            yield Row(score, method.name, correction, size, size_error, coverage, coverage_error, full)


def method_tables(rows: list[Row]) -> Iterator[Table]:
    """Return a table of all methods for each score."""
    for score in SCORES:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=score.upper())
        table.add_column("method", no_wrap=True)
        for name in ("size", "% covered"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in (each for each in rows if each.score == score):
            size = f"{row.mean_size:.2f}" if row.mean_size < 100 else f"{row.mean_size:.0f}"
            table.add_row(row.method, size, f"{100 * row.coverage:.1f} ±{100 * row.coverage_error:.1f}")
        yield table


def summary(rows: list[Row], promise: str, n: int) -> str:
    """Return what the tables show."""
    hps = {row.method: row for row in rows if row.score == "hps"}
    pac, full = hps['nacp "pac"'], [row.method for row in hps.values() if row.full]
    all_languages = f" {' and '.join(full)} find only the set of all languages." if full else ""
    return (
        f"Mean sizes and coverage, with standard errors, over {SPLITS} splits. Noisy-CP ignores the noise: "
        f"with HPS it returns {hps['Noisy-CP'].mean_size:.0f} languages where "
        f'{hps["CP (oracle)"].mean_size:.2f} would do if all labels were right. nacp\'s default, "pac", sees '
        f"the same noisy labels and returns {pac.mean_size:.2f}. It promises: {promise}."
        f"{all_languages} On one split of {n:,} snippets each:\n"
    )


def describe(probs: Array, labels: list[int], names: tuple[str, ...], most: int = 6) -> str:
    """Name the languages of one set, the most probable first."""
    first = sorted(labels, key=lambda label: -probs[label])[:most]
    more = f"; and {len(labels) - most:,} more" if len(labels) > most else ""
    return ("; ".join(names[label] for label in first) or "none") + more


def write_report(
    path: Path, data: Languages, calibration: Array, labels: Ints, test: Array, say: Callable[[str], None]
) -> None:
    """Write the report on the default, "pac" with HPS, for the noisy labels."""
    names = np.array(data.names)
    nacp.make_report(
        calibration,
        names[labels],
        noise=NOISE,
        alpha=ALPHA,
        classes=data.names,
        test_probs=test,
        test_labels=names[data.test.labels],
        samples=_shown(data),
        descriptions=data.test.texts,
        title=f"Which of {len(names)} languages?",
        say=say,
    ).save(path)


def _shown(data: Languages) -> list[int]:
    return [data.names.index(name) for name in SHOWN]  # the languages take turns: row i is in language i
