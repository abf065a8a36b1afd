"""The numbers of a report: calibrations for every alpha of the slider, the curve, classes, a few sets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Floats, Ints
from nacp.advice.comparison import NOISY, Comparison, ScoredPoints, compare
from nacp.advice.diagnosis import Diagnosis
from nacp.advice.sensitivity import Sensitivity, sensitivity
from nacp.calibrate import calibrate
from nacp.calibration import Calibration
from nacp.coverage.curve import CoverageCurve, Curve
from nacp.errors import InputError
from nacp.groups.class_coverage import ClassCoverage, coverage_by_class
from nacp.guarantees import DEFAULT, GUARANTEES
from nacp.noise import Unsaid
from nacp.points import Rows, check_labels
from nacp.show.axes import size_ranges
from nacp.show.report.groups import Groups
from nacp.wrapping import on_one_line

ALPHAS = tuple(round(0.01 * i, 2) for i in range(1, 31))
"""The stops of the slider, besides the alpha that was asked for."""
_POINTS = "probs", "labels", "noise", "clean", "audit", "classes", "normalize", "from_logits"
_SAMPLES = 8
_MOST_LABELS = 30  # that are listed of one row
_CURVE_POINTS = 300


@dataclass(frozen=True)
class Step:
    """One stop of the slider: one alpha.

    `sizes` are those of the sets of all rows; `coverage` is that of the test points with true labels. `rate`
    is the end of an interval of noise rates that needs the larger sets.
    """

    calibration: Calibration
    sizes: Ints
    coverage: float | None
    rate: float | None = None

    @cached_property
    def mean_size(self) -> float:
        return float(self.sizes.mean())


@dataclass(frozen=True)
class Shown:
    """One row, and its likeliest labels by ascending score.

    `label` is the one that was given, if there is one, and `place` its rank.
    """

    row: int
    id: str | None
    description: str | None
    labels: list[Any]
    probs: Floats
    label: Any = None
    place: int = 0


@dataclass(frozen=True)
class Contents:
    """All that a report shows.

    Sizes and samples are those of the test points if there are some, else of the calibration points; `tested`
    is the number of test points with true labels. `estimate` describes the noise model if it was estimated.
    Where labels were checked, the diagnosis is of the noise model given beside them.
    """

    steps: tuple[Step, ...]
    chosen: int
    curve: CoverageCurve
    classes: ClassCoverage
    samples: tuple[Shown, ...]
    comparison: Comparison
    measured_on: Literal["calibration", "test"]
    tested: int
    estimate: str | None
    diagnosis: Diagnosis | None
    sensitivity: Sensitivity | None
    groups: Groups | None = None

    @property
    def calibration(self) -> Calibration:
        """The calibration for the alpha that was asked for."""
        return self.steps[self.chosen].calibration

    @cached_property
    def ranges(self) -> tuple[list[int], list[str]]:
        """The starts and the names of the ranges of set sizes, up to the largest size at any alpha."""
        return size_ranges(max(int(step.sizes.max()) for step in self.steps))

    def histogram(self, step: Step) -> Ints:
        """Return the number of sets in each range of sizes."""
        places = np.searchsorted(self.ranges[0], step.sizes, side="right")
        return np.bincount(places, minlength=len(self.ranges[0]) + 1)[1:]


def gather(
    given: dict[str, Any],
    alpha: float,
    saved: Calibration | None,
    test_probs: ArrayLike | None,
    truth: ArrayLike | None,
    samples: Sequence[int] | None,
    descriptions: Sequence[str] | None,
    ids: Sequence[Any] | None,
    say: Callable[[str], None],
) -> Contents:
    """Compute what a report shows.

    `given` holds the arguments of `calibrate` but for alpha, `saved` is the calibration that the report is
    about if it was made before, and `truth` holds the true labels of the test points.
    """
    points = {name: given[name] for name in _POINTS}
    probs, labels, noise = given["probs"], given["labels"], given["noise"]
    if given["clean"] is not None and labels is None:
        raise InputError("labels", "must be given: a report is about noisy labels, too")
    if truth is not None and test_probs is None:
        raise InputError("test_labels", "needs test_probs, the probabilities of the same points")
    alphas = sorted({*ALPHAS, alpha})
    chosen, tested = alphas.index(alpha), test_probs is not None
    say("calibrating for every alpha of the slider")
    cals: list[Calibration] = calibrate(**given, alpha=alphas)
    if saved is not None:
        cals[chosen] = _same(saved, cals[chosen])
    cal = cals[chosen]
    rows = cal.open_rows(probs) if test_probs is None else cal.open_rows(test_probs, "test_probs")
    chosen_rows = _check_samples(samples, rows.n)
    for name, texts in (("descriptions", descriptions), ("ids", ids)):
        if texts is not None and len(texts) != rows.n:
            problem = f"must have one text for each of {rows.n:,} points"
            raise InputError(name, problem, found=f"{len(texts):,}")
    say("measuring the sets")
    by_model = not isinstance(noise, Unsaid)
    comparison = compare(
        **points,
        alpha=alpha,
        delta=cal.guarantee.delta,
        scores=[cal.score],
        guarantees=[
            cal.guarantee if name == cal.guarantee.name else name
            for name, kind in GUARANTEES.items()
            if by_model or kind.takes_checked or kind.only_as_given
        ],
        test_probs=test_probs,
        test_labels=truth,
        random_state=cal.random_state,
        crossing=given["crossing"],
    )
    scored = None
    if given["clean"] is not None:
        scored = ScoredPoints.of(**points, score=cal.score, seed=cal.random_state)
    say("coverage by class, and whether the noise model can be right")
    moves = cal.noise is not None and cal.noise.error_rate(cal.k) > 0
    return Contents(
        steps=_steps(cals, rows, truth),
        chosen=chosen,
        curve=_curve(cals, cal, scored),
        classes=_by_class(given, cal, rows, truth, scored),
        samples=tuple(_samples(cal, rows, chosen_rows, descriptions, ids, truth if tested else labels)),
        comparison=comparison,
        measured_on="test" if tested else "calibration",
        tested=0 if truth is None else rows.n,
        estimate=None if getattr(noise, "basis", None) is None else on_one_line(noise),
        diagnosis=_diagnosis(given, cal, comparison),
        sensitivity=sensitivity(cal, probs, labels) if moves else None,
    )


def _same(saved: Calibration, made: Calibration) -> Calibration:
    """Return a saved calibration with the tally of the points that it was made from; refuse other points."""
    if (saved.native_threshold, saved.n) != (made.native_threshold, made.n):
        problem = "and labels are not those of the calibration: with its options they give another threshold"
        found = f"{made.threshold:.6g}, where the calibration has {saved.threshold:.6g}"
        raise InputError("probs", problem, found=found, remedy="pass the same points in the same order")
    return replace(saved, tally=made.tally, tally_noise=made.tally_noise)


def _check_samples(samples: Sequence[int] | None, n: int) -> list[int]:
    """Return the rows to show: a few at equal distances, if none are named."""
    if samples is None:
        return [int(row) for row in np.linspace(0, n - 1, min(_SAMPLES, n))]
    for row in samples:
        if not isinstance(row, Integral) or not 0 <= row < n:
            raise InputError("samples", f"must be row numbers from 0 to {n - 1}", found=f"{row}")
    return list(samples)


def _steps(cals: list[Calibration], rows: Rows, test_labels: ArrayLike | None) -> tuple[Step, ...]:
    """Measure the sets of all rows by each calibration."""
    steps = []
    for cal in cals:
        sizes, coverage, rate = np.full(rows.n, cal.k), None if test_labels is None else 1.0, None
        if np.isfinite(cal.native_threshold):
            if cal.noise is not None and len(cal.noise.doubt.ends) > 1:
                rate = getattr(cal.tally_noise, "rate", None)
            sets = cal.sets_of(rows)
            sizes = sets.sizes
            if test_labels is not None:
                coverage = float(sets.contains(test_labels).mean())
        steps.append(Step(cal, sizes, coverage, rate))
    return tuple(steps)


def _curve(cals: list[Calibration], cal: Calibration, scored: ScoredPoints | None) -> CoverageCurve:
    """Return the curve at evenly spaced shares of the given labels, and at the threshold of every step.

    The true labels in the sets are estimated by the checked ones, if there are some. Under an interval of
    noise rates the curve is that of the end which the threshold comes from.
    """
    whole = cal.curve if scored is None else Curve.of(scored.sample, None).public(cal.score.offset)
    thresholds = np.array([each.threshold for each in cals if np.isfinite(each.threshold)])
    # A threshold need not be on the grid: the last grid point before it is shown.
    places = np.searchsorted(whole.thresholds, thresholds, side="right") - 1
    shares = np.searchsorted(whole.noisy, np.linspace(0, 1, _CURVE_POINTS))
    some = np.unique(np.clip(np.concatenate([places, shares]), 0, len(whole) - 1))
    shown = CoverageCurve(whole.thresholds[some], whole.noisy[some], whole.random[some], whole.clean[some])
    if scored is None:
        return shown
    by_checked = scored.checked_estimates(cal.score.to_native(shown.thresholds), cal.alpha)
    return shown if by_checked is None else replace(shown, clean=by_checked).cut()


def _by_class(
    given: dict[str, Any], cal: Calibration, rows: Rows, truth: ArrayLike | None, scored: ScoredPoints | None
) -> ClassCoverage:
    """Return the coverage of each class: by true labels, if there are any."""
    if truth is not None:
        return coverage_by_class(cal.sets_of(rows), truth)
    if scored is None or scored.checked is None:
        sets = cal.sets_of(cal.open_rows(given["probs"]))
        return coverage_by_class(sets, given["labels"], noise=cal.noise)
    audit = scored.checked.audit
    some = np.sort(audit.random_part(np.random.default_rng(cal.random_state)))
    decided = some[audit.labels[some] >= 0]
    names = [(cal.classes or range(cal.k))[i] for i in audit.labels[decided]]
    return coverage_by_class(cal.sets_of(scored.sample.rows.some(audit.rows[decided])), names)


def _diagnosis(given: dict[str, Any], cal: Calibration, comparison: Comparison) -> Diagnosis | None:
    """Return whether the noise model, if there is one, can be right; by checked labels, if there are some."""
    model = None if cal.noise is None else cal
    if given["clean"] is not None:
        # Not every guarantee takes an interval or a radius.
        found = {row.guarantee: row.calibration for row in comparison.rows if row.labels == NOISY}
        model = found.get(cal.guarantee.name) or found.get(DEFAULT.name)
    if cal.n < 2 or model is None:
        return None
    return model.diagnose(given["probs"], given["labels"], clean=given["clean"], audit=given["audit"])


def _samples(
    cal: Calibration,
    rows: Rows,
    chosen: list[int],
    descriptions: Sequence[str] | None,
    ids: Sequence[Any] | None,
    given: Any,
) -> list[Shown]:
    names, shown = cal.classes or range(cal.k), []
    numbers = None if given is None else check_labels(given, rows.n, cal.k, cal.classes)
    for row in chosen:
        where = np.array([row])
        values, scores = rows.whole(where), engine.of(rows[where]).scores(rows[where], cal.score.spec)[0]
        order = np.lexsort((-values[0], scores))
        first = order[:_MOST_LABELS]
        name, text = (None if each is None else str(each[row]) for each in (ids, descriptions))
        found = Shown(row, name, text, [names[i] for i in first], values[0][first].astype(np.float64))
        if numbers is not None:
            place = int(np.flatnonzero(order == numbers[row])[0])
            found = replace(found, label=names[numbers[row]], place=place)
        shown.append(found)
    return shown
