"""``python -m nacp.demo``: what label noise does to prediction sets, and what noise-awareness does about it.

Runs the paper's six methods on a simulated classifier of 1,000 classes (a twin of ResNet-18 on ImageNet).
"""

import sys
import time
import warnings
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import nacp
from nacp._types import Array, Ints
from nacp.metrics import Evaluation
from nacp.paper import twins
from nacp.paper.methods import six_methods

TWIN = "imagenet-resnet18"
CALIBRATION = 10_000
TEST = 10_000
NOISE = nacp.UniformNoise(0.2)
ALPHA = 0.1
SCORES = ("hps", "aps", "raps")


def run(
    probs: Array, labels: dict[bool, Ints], n: int, score: str
) -> Iterator[tuple[str, float, Evaluation]]:
    """Calibrate each method on the first n rows and evaluate it on the others, with clean labels."""
    for method in six_methods(probs.shape[1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nacp.NoValidThresholdWarning)  # shown as a full set below
            calibration = nacp.calibrate(
                probs[:n],
                labels[method.sees_clean][:n],
                noise=NOISE if method.noise_aware else None,
                alpha=ALPHA,
                score=score,
                guarantee=method.guarantee,
            )
        result = nacp.evaluate(calibration.predict_set(probs[n:]), labels[True][n:])
        yield method.name, calibration.correction, result


def main() -> None:
    """Print the table of methods and scores."""
    console = Console()
    start = time.perf_counter()
    progress = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    cells: dict[str, list[str]] = {}
    with progress:
        task = progress.add_task(f"simulating a classifier of {twins.TWINS[TWIN].k} classes")
        probs, clean = twins.simulate(TWIN, n=CALIBRATION + TEST, random_state=0)
        k = probs.shape[1]
        labels = {True: clean, False: NOISE.sample(clean, k, random_state=0)}
        for score in SCORES:
            for name, correction, result in run(probs, labels, CALIBRATION, score):
                progress.update(task, description=f"{score}: {name}")
                row = cells.setdefault(name, [name, f"{correction:.3f}"])
                row.append(f"{result.mean_size:.1f} / {result.coverage:.1%}")
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title=f"Sets of {k} classes from {CALIBRATION:,} labels, 20% of them random. Target {1 - ALPHA:.0%}.",
        caption="Mean size / coverage on clean labels. A simulated twin of ResNet-18 on ImageNet.",
    )
    table.add_column("method", no_wrap=True)
    for column in ("added", *(score.upper() for score in SCORES)):
        table.add_column(column, justify="right", no_wrap=True)
    for row in cells.values():
        table.add_row(*row)
    console.print(table)
    console.print(
        "Noisy-CP ignores the noise and returns about half of all classes. NR-CP recovers the sets that "
        "clean labels would have given, without a promise. NACP promises the target with probability "
        "99.9%, for a little size. ACNL and CRCP promise it on average; their corrections grow with the "
        "number of classes, here so far that only the set of all classes is left.",
        soft_wrap=False,
    )
    console.print(f"[dim]{time.perf_counter() - start:.1f} s[/dim]")


if __name__ == "__main__":
    main()
