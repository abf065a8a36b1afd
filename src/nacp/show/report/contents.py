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
from nacp.audit.calibration import open_checked
from nacp.audit.choice import guessing_noise
from nacp.audit.strata import CheckedSample
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


def gather(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: NoiseLike | Unsaid,
    clean: Any,
    alpha: float,
    test_probs: ArrayLike | None,
    test_labels: ArrayLike | None,
    samples: Sequence[int] | None,
    descriptions: Sequence[str] | None,
    say: Callable[[str], None],
    **options: Any,
) -> Contents:
    """Compute what a report shows; `options` are the other ones of `calibrate`."""
    if clean is not None and labels is None:
        raise InputError("labels", "must be given: a report is about noisy labels, too")
    if test_labels is not None and test_probs is None:
        raise InputError("test_labels", "needs test_probs, the probabilities of the same points")
    alphas = sorted({*ALPHAS, alpha})
    chosen = alphas.index(alpha)
    say("calibrating for every alpha of the slider")
    cals = calibrate(probs, labels, noise=noise, clean=clean, alpha=alphas, **options)
    cal = cals[chosen]
    name = "probs" if test_probs is None else "test_probs"
    rows = cal.open_rows(probs if test_probs is None else test_probs, name)
    chosen_rows = _check_samples(samples, rows.n)
    if descriptions is not None and len(descriptions) != rows.n:
        raise InputError(
            "descriptions",
            f"must have one text for each of {rows.n:,} points",
            found=f"{len(descriptions):,}",
        )
    say("measuring the sets")
    known = {name: options[name] for name in ("classes", "normalize", "from_logits", "crossing")}
    known |= {"noise": noise, "clean": clean, "alpha": alpha, "random_state": cal.random_state}
    comparison = compare(
        probs,
        labels,
        delta=cal.guarantee.delta,
        scores=[cal.score],
        guarantees=_compared(cal, by_model=not isinstance(noise, Unsaid)),
        test_probs=test_probs,
        test_labels=test_labels,
        **known,
    )
    bounds = np.unique([*(bound for bound in _BIN_ENDS if bound < cal.k), cal.k - 1, cal.k])
    sizes, steps = _measure(cals, rows, test_labels, bounds)
    checked = None if clean is None else _open_checked(probs, labels, cal, noise, clean, known["classes"])
    say("coverage by class, and whether the noise model can be right")
    shown_labels = labels if test_probs is None else test_labels
    return Contents(
        steps=steps,
        chosen=chosen,
        curve=_curve(probs, labels, cals, cal, checked, known),
        bins=tuple(
            str(high) if high - low == 1 else f"{low + 1}–{high}"
            for low, high in pairwise([-1, *bounds.tolist()])
        ),
        classes=_by_class(cal, rows, labels, test_labels, checked),
        samples=tuple(_samples(cal, rows, chosen_rows, sizes, descriptions, shown_labels)),
        comparison=comparison,
        measured_on="calibration" if test_probs is None else "test",
        tested=0 if test_labels is None else rows.n,
        estimate=noise if isinstance(noise, NoiseEstimate) else None,
        diagnosis=_diagnosis(probs, labels, cal, comparison, clean, test_probs, test_labels),
        sensitivity=None if cal.noise is None or _is_exact(cal) else sensitivity(cal, probs, labels),
    )


def _check_samples(samples: Sequence[int] | None, n: int) -> list[int]:
    """Return the rows to show: a few at equal distances, if none are named."""
    if samples is None:
        return [int(row) for row in np.linspace(0, n - 1, min(_SAMPLES, n))]
    for row in samples:
        if not isinstance(row, Integral) or not 0 <= row < n:
            raise InputError("samples", f"must be row numbers from 0 to {n - 1}", found=f"{row}")
    return list(samples)


def _compared(cal: Calibration, *, by_model: bool) -> list[Any]:
    """Return the guarantees to compare: all that can be found, and the one that was chosen as it is."""
    return [
        cal.guarantee if name == cal.guarantee.name else name
        for name, kind in GUARANTEES.items()
        if by_model or kind.takes_checked or kind.only_as_given
    ]


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


def _open_checked(
    probs: Any, labels: Any, cal: Calibration, noise: NoiseLike | Unsaid, clean: Any, classes: Any
) -> CheckedSample:
    """Return the points with their checked labels, as `calibrate` sees them."""
    kind = {"probabilities": cal.score.takes_probabilities, "classes": classes}
    kind |= {"normalize": cal.normalize, "from_logits": cal.from_logits}
    rows, numbers, _, audit = open_checked(probs, labels, clean, cal.random_state, **kind)
    sample = Sample.of(rows, numbers, cal.score)
    return CheckedSample(sample, audit, guessing_noise(sample, noise, audit.pilot).matrix(cal.k))


def _curve(
    probs: ArrayLike,
    labels: ArrayLike,
    cals: list[Calibration],
    cal: Calibration,
    checked: CheckedSample | None,
    known: dict[str, Any],
) -> CoverageCurve:
    """Return the curve at evenly spaced shares of the given labels, and at the threshold of every step.

    The true labels in the sets are estimated by the checked ones, if there are some. Under an interval of
    noise rates the curve is that of the end which the threshold comes from.
    """
    if checked is None:
        curve = cal.curve
    else:
        as_given = {name: known[name] for name in ("classes", "normalize", "from_logits")}
        curve = calibrate(probs, labels, noise=None, score=cal.score, **as_given).curve
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


def _by_class(
    cal: Calibration, rows: Rows, labels: Any, test_labels: Any, checked: CheckedSample | None
) -> ClassCoverage:
    """Return the coverage of each class: by true labels, if there are any."""
    if test_labels is not None:
        return coverage_by_class(cal.sets_of(rows), test_labels)
    if checked is None:
        return coverage_by_class(cal.sets_of(rows), labels, noise=cal.noise)
    decided = checked.audit.labels >= 0
    true = checked.audit.labels[decided].tolist()
    names = true if cal.classes is None else [cal.classes[i] for i in true]
    return coverage_by_class(cal.sets_of(checked.sample.rows.some(checked.audit.rows[decided])), names)


def _diagnosis(
    probs: ArrayLike,
    labels: ArrayLike,
    cal: Calibration,
    comparison: Comparison,
    clean: Any,
    test_probs: ArrayLike | None,
    test_labels: ArrayLike | None,
) -> Diagnosis | None:
    """Return whether the noise model, if there is one, can be right; by checked labels, if there are some."""
    if cal.n < 2:
        return None
    if clean is not None:
        wanted = [cal.guarantee.name, "pac"]  # "none" does not take an interval
        found = {row.guarantee: row.calibration for row in comparison.rows if row.labels == "noisy"}
        model = next((found[name] for name in wanted if found.get(name) is not None), None)
        return None if model is None else diagnose(model, probs, labels, clean=clean)
    if cal.noise is None:
        return None
    judged = None if test_labels is None else test_probs
    return diagnose(cal, probs, labels, audit_probs=judged, audit_labels=test_labels)


def _is_exact(cal: Calibration) -> bool:
    """Return whether the noise model says that all labels are right."""
    return cal.noise is None or bool((cal.noise.matrix(cal.k).diagonal == 1).all())


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
