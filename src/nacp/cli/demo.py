"""``nacp demo``: what label noise does to prediction sets, and what noise-awareness does about it."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import nacp
from nacp._types import Array, Ints
from nacp.cli.commands import command
from nacp.cli.outputs import check_output
from nacp.cli.terminal import progress_of, show
from nacp.datasets import Languages, load_languages
from nacp.guarantees import PAC, Expected
from nacp.paper.methods import aware, six_methods
from nacp.paper.splits import run_splits
from nacp.wrapping import table_lines

NOISE = nacp.UniformNoise(0.2)
ALPHA = 0.1
SCORES = ("hps", "aps", "raps")
SPLITS = 10
TUNING = 20  # the number of each language's training snippets that choose the temperature
SHOWN = ("English", "Norwegian, Bokmål", "Galician", "Ukrainian", "Zulu")  # their first snippets are shown


@command("demo", "nacp demo", "nacp demo --report languages.html")
def demo_command(
    report: Annotated[Path, typer.Option(help="The file for the report.")] = Path("nacp-demo.html"),
) -> None:
    """Train a classifier of 472 languages, spoil its calibration labels, and show what helps."""
    try:
        import sklearn  # noqa: F401  (only to see whether it is installed)
    except ImportError:
        raise ModuleNotFoundError(
            "the demo trains a classifier of scikit-learn, which is missing: pip install nacp[sklearn]"
        ) from None
    check_output(str(report))
    with progress_of("reading") as say:
        data = load_languages()
        calibration, test = classify(data, say)
        labels = data.calibration.labels
        probs, truth = np.concatenate([calibration, test]), np.concatenate([labels, data.test.labels])
        rows = compare(probs, truth, say)
        names, noisy = np.array(data.names), NOISE.sample(labels, len(data.names), random_state=0)
        shown = [data.names.index(name) for name in SHOWN]  # the languages take turns: row i is in language i
        nacp.make_report(
            calibration,
            names[noisy],
            noise=NOISE,
            alpha=ALPHA,
            classes=data.names,
            test_probs=test,
            test_labels=names[data.test.labels],
            samples=shown,
            descriptions=data.test.texts,
            title=f"Which of {len(names)} languages?",
            say=say,
        ).save(report)
        cals = {
            name: nacp.calibrate(calibration, noisy, noise=noise, alpha=ALPHA, random_state=0)
            for name, noise in (("Noisy-CP", None), ('nacp "pac"', NOISE))
        }
    accuracy = (probs.argmax(axis=1) == truth).mean()
    introduction = (
        f"Which of {len(data.names)} languages is a text of 20 to 60 letters in? A classifier of character "
        f"pairs is right for {accuracy:.1%} of {len(truth):,} snippets. Its prediction sets should hold the "
        f"true language {1 - ALPHA:.0%} of the time. They are calibrated on one half of the snippets, "
        f"{NOISE.rate:.0%} of whose labels were replaced by random ones, and tested on the other half; this "
        f"is done {SPLITS} times, on random halves.\n"
    )
    lines = []
    for index in shown:
        lines.append(f"{data.test.texts[index]} ({data.names[index]})")
        for method, cal in cals.items():
            (found,) = cal.predict_set(test[[index]]).to_lists()
            lines.append(f"  {method}: {describe(test[index], found, data.names)}")
    show(
        {"splits": SPLITS, "rows": rows, "report": str(report)},
        introduction,
        lambda: tables(rows),
        summary(rows, cals['nacp "pac"'].promise, len(labels)),
        *lines,
        f"\nWritten: {report}",
    )


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


def compare(probs: Array, labels: Ints, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Calibrate every method with every score on one half of the points and evaluate it on the other.

    The halves, and the noise in the labels of the first, are drawn anew for each split. Return means over
    the splits with their standard errors, and whether the sets are `full`: all classes in every split.
    """
    ours = [aware(Expected(), 'nacp "expected"'), aware(PAC(), 'nacp "pac"')]
    methods = [*six_methods(probs.shape[1]), *ours]
    rows: list[dict[str, Any]] = []
    for score in SCORES:

        def progress(done: int, score: str = score) -> None:
            say(f"{score.upper()}: split {done} of {SPLITS}")

        options: dict[str, Any] = {"noise": NOISE, "alpha": ALPHA, "score": score, "splits": SPLITS}
        found = run_splits(probs, labels, methods=methods, progress=progress, **options)
        for m, method in enumerate(methods):
            row = {"score": score, "method": method.name, "correction": float(found.corrections[m].mean())}
            for name, values in (("mean_size", found.sizes[m]), ("coverage", found.coverages[m])):
                row[name] = float(values.mean())
                row[f"{name}_error"] = float(values.std(ddof=1) / np.sqrt(SPLITS))
            rows.append(row | {"full": bool(np.isinf(found.thresholds[m]).all())})
    return rows


def tables(rows: list[dict[str, Any]]) -> str:
    """Return a table of all methods for each score."""
    lines = []
    for score in SCORES:
        cells = [
            (
                row["method"],
                f"{row['mean_size']:.{2 if row['mean_size'] < 100 else 0}f}",
                f"{100 * row['coverage']:.1f} ±{100 * row['coverage_error']:.1f}",
            )
            for row in rows
            if row["score"] == score
        ]
        lines += [score.upper(), *table_lines([("method", "size", "% covered"), *cells], 1), ""]
    return "\n".join(lines)


def summary(rows: list[dict[str, Any]], promise: str, n: int) -> str:
    """Return what the tables show."""
    sizes = {row["method"]: row["mean_size"] for row in rows if row["score"] == "hps"}
    pac = sizes['nacp "pac"']
    full = [row["method"] for row in rows if row["score"] == "hps" and row["full"]]
    all_languages = f" {' and '.join(full)} find only the set of all languages." if full else ""
    return (
        f"Mean sizes and coverage, with standard errors, over {SPLITS} splits. Noisy-CP ignores the noise: "
        f"with HPS it returns {sizes['Noisy-CP']:.0f} languages where {sizes['CP (oracle)']:.2f} would do if "
        f'all labels were right. nacp\'s default, "pac", sees the same noisy labels and returns '
        f"{pac:.2f}. It promises: {promise}.{all_languages} On one split of {n:,} snippets "
        "each:\n"
    )


def describe(probs: Array, labels: list[int], names: tuple[str, ...], most: int = 6) -> str:
    """Name the languages of one set, the most probable first."""
    first = sorted(labels, key=lambda label: -probs[label])[:most]
    more = f"; and {len(labels) - most:,} more" if len(labels) > most else ""
    return ("; ".join(names[label] for label in first) or "none") + more
