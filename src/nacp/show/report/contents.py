"""What a report shows, as numbers: every alpha of the slider, the curves, the classes, a few sets."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Array, Floats, Ints
from nacp._validation import Rows, check_classes, check_labels, check_probs, check_test
from nacp.advice.comparison import Comparison, compare
from nacp.advice.diagnosis import Diagnosis, diagnose
from nacp.advice.sensitivity import Sensitivity, sensitivity
from nacp.calibration import Calibration, NoValidThresholdWarning, calibrate
from nacp.coverage import CoverageCurve, curve_at
from nacp.estimation import NoiseEstimate
from nacp.guarantees import GUARANTEES
from nacp.metrics import ClassCoverage, coverage_by_class
from nacp.scores import as_score

ALPHAS = tuple(round(0.01 * i, 2) for i in range(1, 31))
"""Where the slider stops, besides the alpha that was asked for."""
_CURVE_POINTS = 300
_SAMPLES = 8
_MOST_LABELS = 30
_BIN_ENDS = (0, 1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Step:
    """What one alpha leads to.

    `histogram` counts the sets by the size bins of the contents; `coverage` is that of the true labels of
    the test points, if there are some.
    """

    calibration: Calibration
    mean_size: float
    histogram: Ints
    coverage: float | None


@dataclass(frozen=True)
class Sample:
    """One row: its likeliest labels by ascending score, and how many of them each step's set holds.

    `label` is the one that was given, if there is one, and `place` is where it stands.
    """

    row: int
    description: str | None
    labels: list[Any]
    probs: Floats
    sizes: Ints
    label: Any = None
    place: int = 0


@dataclass(frozen=True)
class Contents:
    """All that a report shows.

    Sizes and samples are those of the test points if there are some, else of the calibration points; `tested`
    is how many test points have true labels. `estimate` is where the noise model came from, if it was
    estimated; for labels taken as they are there is neither a diagnosis nor a sensitivity.
    """

    steps: tuple[Step, ...]
    chosen: int
    curve: CoverageCurve
    bins: tuple[str, ...]
    classes: ClassCoverage
    samples: tuple[Sample, ...]
    costs: Comparison
    measured_on: Literal["calibration", "test"]
    tested: int
    estimate: NoiseEstimate | None
    diagnosis: Diagnosis | None
    sensitivity: Sensitivity | None

    @property
    def calibration(self) -> Calibration:
        """The calibration for the alpha that was asked for."""
        return self.steps[self.chosen].calibration


def gather(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: Any,
    alpha: float,
    test_probs: ArrayLike | None,
    test_labels: ArrayLike | None,
    samples: Sequence[int] | None,
    descriptions: Sequence[str] | None,
    say: Callable[[str], None],
    **options: Any,
) -> Contents:
    """Compute what a report shows. `options` go to `calibrate`."""
    if test_labels is not None and test_probs is None:
        raise ValueError("test_labels needs test_probs, the probabilities of the same points")
    shown, given = (probs, labels) if test_probs is None else (test_probs, test_labels)
    how = {"normalize": options["normalize"], "probabilities": as_score(options["score"]).takes_probabilities}
    rows, truth = check_probs(probs, classes=options["classes"], **how), None
    if test_probs is not None:
        rows, truth = check_test(
            test_probs, test_labels, check_classes(options["classes"], rows.k), k=rows.k, **how
        )
    chosen_rows = _check_samples(samples, rows.n)
    if descriptions is not None and len(descriptions) != rows.n:
        raise ValueError(
            f"descriptions must have one text for each of {rows.n} points; found {len(descriptions)}"
        )

    say("calibrating for every alpha of the slider")
    alphas = sorted({*ALPHAS, alpha})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoValidThresholdWarning)  # the page says it
        calibrations = calibrate(probs, labels, noise=noise, alpha=alphas, **options)
    chosen = alphas.index(alpha)
    cal = calibrations[chosen]
    say("measuring the sets")
    bounds = _bounds(cal.k)
    sizes, covered = _measure(rows, truth, calibrations)
    say("coverage by class")
    if test_labels is None:
        by_class = coverage_by_class(cal.predict_set(probs), labels, noise=noise)
    else:
        by_class = coverage_by_class(cal.predict_set(shown), test_labels)
    say("what each guarantee costs")
    costs = compare(
        probs, labels, noise=noise, alpha=alpha, delta=cal.guarantee.delta, scores=[cal.score],
        guarantees=[cal.guarantee if name == cal.guarantee.name else name for name in GUARANTEES],
        test_probs=test_probs, test_labels=test_labels, classes=cal.classes, normalize=cal.normalize,
        crossing=cal.crossing, random_state=cal.random_state,
    )  # fmt: skip
    say("whether the noise model can be right, and what if not")
    return Contents(
        steps=_steps(calibrations, sizes, covered, bounds),
        chosen=chosen,
        curve=_curve(calibrations, chosen),
        bins=_names(bounds),
        classes=by_class,
        samples=tuple(_sample(rows, row, cal, sizes, descriptions, given) for row in chosen_rows),
        costs=costs,
        measured_on="calibration" if test_probs is None else "test",
        tested=0 if truth is None else rows.n,
        estimate=noise if isinstance(noise, NoiseEstimate) else None,
        diagnosis=(
            diagnose(cal, audit_probs=None if truth is None else shown, audit_labels=test_labels)
            if cal.noise is not None and cal.n > 1
            else None
        ),
        sensitivity=sensitivity(cal) if _has_errors(cal) else None,
    )


def _has_errors(cal: Calibration) -> bool:
    return cal.noise is not None and bool((cal.noise.matrix(cal.k).diagonal < 1).any())


def _check_samples(samples: Sequence[int] | None, n: int) -> list[int]:
    """Return the rows to show: a few all over, if none are named."""
    if samples is None:
        return [int(row) for row in np.linspace(0, n - 1, min(_SAMPLES, n))]
    for row in samples:
        if not isinstance(row, Integral) or not 0 <= row < n:
            raise ValueError(f"samples must be row numbers from 0 to {n - 1}; found {row}")
    return list(samples)


def _measure(rows: Rows, truth: Ints | None, calibrations: list[Calibration]) -> tuple[Ints, Array | None]:
    """Return the size of each row's set by each calibration, and whether it holds the true label."""
    score = calibrations[0].score
    natives = np.array([each.native_threshold for each in calibrations])
    order = np.argsort(natives)
    sizes = np.empty((rows.n, len(natives)), dtype=np.int64)
    covered = None if truth is None else np.empty(sizes.shape, dtype=bool)
    for where in rows.slices():
        block = rows[where]
        u = score.draw(block)
        sizes[where][:, order] = score.read(block, u).sums(natives[order])
        if covered is not None and truth is not None:
            covered[where] = score.native_of_labels(block, truth[where], u)[:, None] <= natives
    sizes[:, np.isposinf(natives)] = rows.k
    return sizes, covered


def _steps(
    calibrations: list[Calibration], sizes: Ints, covered: Array | None, bounds: Ints
) -> tuple[Step, ...]:
    return tuple(
        Step(
            each,
            float(sizes[:, i].mean()),
            np.bincount(np.searchsorted(bounds, sizes[:, i]), minlength=len(bounds)),
            None if covered is None else float(covered[:, i].mean()),
        )
        for i, each in enumerate(calibrations)
    )


def _bounds(k: int) -> Ints:
    """Return the largest size of each bin; all k classes are one of their own."""
    return np.unique([*(bound for bound in _BIN_ENDS if bound < k), k - 1, k])


def _names(bounds: Ints) -> tuple[str, ...]:
    pairs = pairwise([-1, *bounds.tolist()])
    return tuple(str(high) if high - low == 1 else f"{low + 1}–{high}" for low, high in pairs)


def _curve(calibrations: list[Calibration], chosen: int) -> CoverageCurve:
    """Return the curve at evenly spaced ranks of the labels' scores, and at every step's threshold."""
    cal = calibrations[chosen]
    evidence = cal._data("curve")
    ranks = np.linspace(0, evidence.n - 1, min(_CURVE_POINTS, evidence.n)).astype(int)
    natives = np.array([each.native_threshold for each in calibrations])
    at = np.unique(np.concatenate([evidence.label_scores[ranks], natives[np.isfinite(natives)]]))
    return curve_at(evidence, at, cal.score.offset)


def _sample(
    rows: Rows, row: int, cal: Calibration, sizes: Ints, descriptions: Sequence[str] | None, given: Any
) -> Sample:
    block = rows[np.array([row])]
    scores = cal.score.native_matrix(block)[0]
    order = np.lexsort((-block[0], scores))
    first = order[:_MOST_LABELS]
    names = cal.classes or range(cal.k)
    sample = Sample(
        row,
        None if descriptions is None else str(descriptions[row]),
        [names[i] for i in first.tolist()],
        block[0][first].astype(np.float64),
        sizes[row],
    )
    if given is None:
        return sample
    (number,) = check_labels(np.asarray(given)[[row]], 1, cal.k, cal.classes)
    return replace(sample, label=names[number], place=int(np.flatnonzero(order == number)[0]))
