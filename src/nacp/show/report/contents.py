"""The numbers of a report: calibrations for every alpha of the slider, the curve, classes, a few sets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Floats, Ints
from nacp.advice.comparison import Comparison, compare
from nacp.advice.diagnosis import Diagnosis, diagnose
from nacp.advice.sensitivity import Sensitivity, sensitivity
from nacp.audit.checked_calibration import open_checked
from nacp.audit.checked_sample import CheckedSample
from nacp.audit.plan import guessing_noise
from nacp.calibrate import calibrate
from nacp.calibration import Calibration
from nacp.coverage.curve import CoverageCurve
from nacp.coverage.sample import Sample
from nacp.errors import InputError
from nacp.estimation import NoiseEstimate
from nacp.groups.class_coverage import ClassCoverage, coverage_by_class
from nacp.guarantees import GUARANTEES
from nacp.noise import NoiseLike, Unsaid
from nacp.points import Rows, check_labels
from nacp.show.report.groups import Groups

ALPHAS = tuple(round(0.01 * i, 2) for i in range(1, 31))
"""The stops of the slider, besides the alpha that was asked for."""
_SAMPLES = 8
_MOST_LABELS = 30  # that are listed of one row
_CURVE_POINTS = 300
_BIN_ENDS = (0, 1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Step:
    """One stop of the slider: one alpha.

    `histogram` counts the sets by the size bins of the contents; `coverage` is that of the test points with
    true labels. `rate` is the end of an interval of noise rates that needs the larger sets.
    """

    calibration: Calibration
    mean_size: float
    histogram: Ints
    coverage: float | None
    rate: float | None = None


@dataclass(frozen=True)
class Shown:
    """One row: its likeliest labels by ascending score, and the size of its set at each step.

    `label` is the one that was given, if there is one, and `place` its rank.
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
    is the number of test points with true labels. `estimate` is the estimate of the noise model, if there is
    one; for labels taken as they are there is neither a diagnosis nor a sensitivity. Where labels were
    checked, the calibrations come from these, and the diagnosis is of the noise model given beside them.
    """

    steps: tuple[Step, ...]
    chosen: int
    curve: CoverageCurve
    bins: tuple[str, ...]
    classes: ClassCoverage
    samples: tuple[Shown, ...]
    comparison: Comparison
    measured_on: Literal["calibration", "test"]
    tested: int
    estimate: NoiseEstimate | None
    diagnosis: Diagnosis | None
    sensitivity: Sensitivity | None
    groups: Groups | None = None

    @property
    def calibration(self) -> Calibration:
        """The calibration for the alpha that was asked for."""
        return self.steps[self.chosen].calibration


@dataclass(frozen=True, eq=False)
class Given:
    """What a report is made from: points, test points, and the options of `calibrate` but for alpha."""

    probs: ArrayLike
    labels: ArrayLike
    noise: NoiseLike | Unsaid
    clean: Any
    test_probs: ArrayLike | None
    test_labels: ArrayLike | None
    options: dict[str, Any]

    def calibrate(self, **options: Any) -> Any:
        """Calibrate with further options."""
        options = {"noise": self.noise, "clean": self.clean} | self.options | options
        return calibrate(self.probs, self.labels, **options)

    def chosen(self, *names: str) -> dict[str, Any]:
        """Return some of the options."""
        return {name: self.options[name] for name in names}


def gather(
    given: Given,
    alpha: float,
    samples: Sequence[int] | None,
    descriptions: Sequence[str] | None,
    say: Callable[[str], None],
) -> Contents:
    """Compute what a report shows."""
    noise, labels, truth = given.noise, given.labels, given.test_labels
    if given.clean is not None and labels is None:
        raise InputError("labels", "must be given: a report is about noisy labels, too")
    if truth is not None and given.test_probs is None:
        raise InputError("test_labels", "needs test_probs, the probabilities of the same points")
    alphas = sorted({*ALPHAS, alpha})
    chosen = alphas.index(alpha)
    say("calibrating for every alpha of the slider")
    cals: list[Calibration] = given.calibrate(alpha=alphas)
    cal, tested = cals[chosen], given.test_probs is not None
    shown, name = (given.probs, "probs") if given.test_probs is None else (given.test_probs, "test_probs")
    rows = cal.open_rows(shown, name)
    chosen_rows = _check_samples(samples, rows.n)
    if descriptions is not None and len(descriptions) != rows.n:
        raise InputError(
            "descriptions",
            f"must have one text for each of {rows.n:,} points",
            found=f"{len(descriptions):,}",
        )
    say("measuring the sets")
    by_model = not isinstance(noise, Unsaid)
    comparison = compare(
        given.probs,
        labels,
        noise=noise,
        clean=given.clean,
        alpha=alpha,
        delta=cal.guarantee.delta,
        scores=[cal.score],
        guarantees=[
            cal.guarantee if name == cal.guarantee.name else name
            for name, kind in GUARANTEES.items()
            if by_model or kind.takes_checked or kind.only_as_given
        ],
        test_probs=given.test_probs,
        test_labels=truth,
        random_state=cal.random_state,
        **given.chosen("classes", "normalize", "from_logits", "crossing"),
    )
    bounds = np.unique([*(bound for bound in _BIN_ENDS if bound < cal.k), cal.k - 1, cal.k])
    sizes, steps = _measure(cals, rows, truth, bounds)
    checked = None if given.clean is None else _open_checked(given, cal)
    say("coverage by class, and whether the noise model can be right")
    moves = cal.noise is not None and not bool((cal.noise.matrix(cal.k).diagonal == 1).all())
    return Contents(
        steps=steps,
        chosen=chosen,
        curve=_curve(given, cals, cal, checked),
        bins=tuple(
            str(high) if high - low == 1 else f"{low + 1}–{high}"
            for low, high in pairwise([-1, *bounds.tolist()])
        ),
        classes=_by_class(given, cal, rows, checked),
        samples=tuple(_samples(cal, rows, chosen_rows, sizes, descriptions, truth if tested else labels)),
        comparison=comparison,
        measured_on="test" if tested else "calibration",
        tested=0 if truth is None else rows.n,
        estimate=noise if isinstance(noise, NoiseEstimate) else None,
        diagnosis=_diagnosis(given, cal, comparison),
        sensitivity=sensitivity(cal, given.probs, labels) if moves else None,
    )


def _check_samples(samples: Sequence[int] | None, n: int) -> list[int]:
    """Return the rows to show: a few at equal distances, if none are named."""
    if samples is None:
        return [int(row) for row in np.linspace(0, n - 1, min(_SAMPLES, n))]
    for row in samples:
        if not isinstance(row, Integral) or not 0 <= row < n:
            raise InputError("samples", f"must be row numbers from 0 to {n - 1}", found=f"{row}")
    return list(samples)


def _measure(
    cals: list[Calibration], rows: Rows, test_labels: ArrayLike | None, bounds: Ints
) -> tuple[Ints, tuple[Step, ...]]:
    """Return the sizes of the sets of all rows, (rows, alphas), and the steps."""
    sizes, steps = np.full((rows.n, len(cals)), cals[0].k), []
    for i, cal in enumerate(cals):
        coverage = None if test_labels is None else 1.0
        if np.isfinite(cal.native_threshold):
            sets = cal.sets_of(rows)
            sizes[:, i] = sets.sizes
            if test_labels is not None:
                coverage = float(sets.contains(test_labels).mean())
        histogram = np.bincount(np.searchsorted(bounds, sizes[:, i]), minlength=len(bounds))
        steps.append(Step(cal, float(sizes[:, i].mean()), histogram, coverage, _rate(cal)))
    return sizes, tuple(steps)


def _rate(cal: Calibration) -> float | None:
    """Return the noise rate that an estimate is for, where the rate is known up to an interval."""
    if cal.noise is None or len(cal.noise.doubt.ends) < 2 or not np.isfinite(cal.native_threshold):
        return None
    return getattr(cal.tally_noise, "rate", None)


def _open_checked(given: Given, cal: Calibration) -> CheckedSample:
    """Return the points with their checked labels, as `calibrate` sees them."""
    options = given.chosen("classes", "normalize", "from_logits")
    options["probabilities"] = cal.score.takes_probabilities
    seed = cal.random_state
    rows, numbers, _, audit = open_checked(given.probs, given.labels, given.clean, seed, **options)
    sample = Sample.of(rows, numbers, cal.score)
    return CheckedSample(sample, audit, guessing_noise(sample, given.noise, audit.pilot).matrix(cal.k))


def _curve(
    given: Given, cals: list[Calibration], cal: Calibration, checked: CheckedSample | None
) -> CoverageCurve:
    """Return the curve at evenly spaced shares of the given labels, and at the threshold of every step.

    The true labels in the sets are estimated by the checked ones, if there are some. Under an interval of
    noise rates the curve is that of the end which the threshold comes from.
    """
    as_given = {"noise": None, "clean": None, "guarantee": "split", "delta": None}
    curve = cal.curve if checked is None else given.calibrate(**as_given).curve
    thresholds = np.array([each.threshold for each in cals if np.isfinite(each.threshold)])
    # A threshold of "split" is not on the grid: the last grid point before it is shown.
    places = np.searchsorted(curve.thresholds, thresholds, side="right") - 1
    shares = np.searchsorted(curve.noisy, np.linspace(0, 1, _CURVE_POINTS))
    shown = np.unique(np.clip(np.concatenate([places, shares]), 0, len(curve) - 1))
    at, noisy, random = curve.thresholds[shown], curve.noisy[shown], curve.random[shown]
    if checked is not None:
        clean, _ = checked.estimates(cal.score.to_native(at), checked.strata_of([cal.alpha])[0])
        return CoverageCurve(at, noisy, random, clean).cut()
    outside = None if curve.outside is None else curve.outside[shown]
    return CoverageCurve(at, noisy, random, curve.clean[shown], outside)


def _by_class(given: Given, cal: Calibration, rows: Rows, checked: CheckedSample | None) -> ClassCoverage:
    """Return the coverage of each class: by true labels, if there are any."""
    if given.test_labels is not None:
        return coverage_by_class(cal.sets_of(rows), given.test_labels)
    if checked is None:
        return coverage_by_class(cal.sets_of(cal.open_rows(given.probs)), given.labels, noise=cal.noise)
    decided = checked.audit.labels >= 0
    true = checked.audit.labels[decided].tolist()
    names = true if cal.classes is None else [cal.classes[i] for i in true]
    return coverage_by_class(cal.sets_of(checked.sample.rows.some(checked.audit.rows[decided])), names)


def _diagnosis(given: Given, cal: Calibration, comparison: Comparison) -> Diagnosis | None:
    """Return whether the noise model, if there is one, can be right; by checked labels, if there are some."""
    if cal.n < 2:
        return None
    if given.clean is not None:
        wanted = [cal.guarantee.name, "pac"]  # "none" does not take an interval
        found = {row.guarantee: row.calibration for row in comparison.rows if row.labels == "noisy"}
        model = next((found[name] for name in wanted if found.get(name) is not None), None)
        return None if model is None else diagnose(model, given.probs, given.labels, clean=given.clean)
    if cal.noise is None:
        return None
    truth = given.test_labels
    judged = None if truth is None else given.test_probs
    return diagnose(cal, given.probs, given.labels, audit_probs=judged, audit_labels=truth)


def _samples(
    cal: Calibration,
    rows: Rows,
    chosen: list[int],
    sizes: Ints,
    descriptions: Sequence[str] | None,
    given: Any,
) -> list[Shown]:
    names, shown = cal.classes or range(cal.k), []
    numbers = None if given is None else check_labels(given, rows.n, cal.k, cal.classes)
    for row in chosen:
        where = np.array([row])
        values, scores = rows.whole(where), engine.scores(rows[where], cal.score.spec)[0]
        order = np.lexsort((-values[0], scores))
        first = order[:_MOST_LABELS]
        text = None if descriptions is None else str(descriptions[row])
        found = Shown(row, text, [names[i] for i in first], values[0][first].astype(np.float64), sizes[row])
        if numbers is not None:
            place = int(np.flatnonzero(order == numbers[row])[0])
            found = replace(found, label=names[numbers[row]], place=place)
        shown.append(found)
    return shown
