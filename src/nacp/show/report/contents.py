"""What a report shows, as numbers: every alpha of the slider, the curves, the classes, a few sets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Floats, Ints
from nacp.advice.comparison import (
    NOISY,
    ComparedSample,
    Comparison,
    ComparisonRow,
    open_all,
    plans_of,
    sizes_of,
    with_delta,
)
from nacp.advice.diagnosis import Diagnosis, diagnosis_of
from nacp.advice.sensitivity import Sensitivity, sensitivity_of
from nacp.audit.calibration import checked_calibrations, for_checked
from nacp.audit.plan import Audit
from nacp.calibrate import ScoreLike, chosen_guarantee, noise_is_missing
from nacp.calibration import Calibration
from nacp.checks import check_choice, check_count, check_flag
from nacp.coverage.curve import RULES, CoverageCurve, Rule
from nacp.coverage.sample import Sample
from nacp.errors import InputError
from nacp.estimation import NoiseEstimate
from nacp.groups.class_coverage import ClassCoverage, coverage_by_class
from nacp.guarantees import GUARANTEES, Guarantee
from nacp.marginal import calibrations
from nacp.noise import NoiseLike, Unsaid, as_noise
from nacp.points import column_names
from nacp.scores import as_score
from nacp.show.report.curve import curve_of
from nacp.show.report.groups import Groups

ALPHAS = tuple(round(0.01 * i, 2) for i in range(1, 31))
"""Where the slider stops, besides the alpha that was asked for."""
_SAMPLES = 8
_MOST_LABELS = 30
_BIN_ENDS = (0, 1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Step:
    """What one alpha leads to.

    `histogram` counts the sets by the size bins of the contents; `coverage` is that of the true labels of
    the test points, if there are some. `rate` is the end of an interval of noise rates that the estimate is
    for, where there is one: the end that needs the larger sets.
    """

    calibration: Calibration
    mean_size: float
    histogram: Ints
    coverage: float | None
    rate: float | None = None


@dataclass(frozen=True)
class Shown:
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
    estimated; for labels taken as they are there is neither a diagnosis nor a sensitivity. Where labels were
    checked, the calibrations come from these, and the diagnosis is of the noise model given beside them.
    """

    steps: tuple[Step, ...]
    chosen: int
    curve: CoverageCurve
    bins: tuple[str, ...]
    classes: ClassCoverage
    samples: tuple[Shown, ...]
    costs: Comparison
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
    score: ScoreLike,
    guarantee: str | Guarantee | None,
    delta: float | None,
    crossing: Rule,
    classes: Any,
    normalize: bool,
    from_logits: bool,
    random_state: int | None,
    test_probs: ArrayLike | None,
    test_labels: ArrayLike | None,
    samples: Sequence[int] | None,
    descriptions: Sequence[str] | None,
    say: Callable[[str], None],
) -> Contents:
    """Compute what a report shows: rows are opened once."""
    if test_labels is not None and test_probs is None:
        raise InputError("test_labels", "needs test_probs, the probabilities of the same points")
    score, classes = as_score(score), column_names(probs, classes)
    check_choice("crossing", crossing, RULES)
    if clean is not None:
        guarantee = for_checked(guarantee, delta, crossing, None)
        if labels is None:
            raise InputError("labels", "must be given: a report is about noisy labels, too")
    elif isinstance(noise, Unsaid):
        raise noise_is_missing()
    else:
        guarantee = chosen_guarantee(guarantee, delta, as_noise(noise))
        guarantee.check_applies(as_noise(noise), crossing)
    seed = 0 if random_state is None else check_count("random_state", random_state)
    points = open_all(
        probs,
        labels,
        clean,
        test_probs,
        test_labels,
        seed,
        probabilities=score.takes_probabilities,
        normalize=check_flag("normalize", normalize),
        from_logits=check_flag("from_logits", from_logits),
        classes=classes,
    )
    names, audit, truth = points.classes, points.audit, points.test_labels
    shown_n = points.rows.n if points.test_rows is None else points.test_rows.n
    chosen_rows = _check_samples(samples, shown_n)
    if descriptions is not None and len(descriptions) != shown_n:
        raise InputError(
            "descriptions",
            f"must have one text for each of {shown_n:,} points",
            found=f"{len(descriptions):,}",
        )

    say("calibrating for every alpha of the slider")
    alphas = sorted({*ALPHAS, alpha})
    chosen = alphas.index(alpha)
    others = [
        guarantee if name == guarantee.name else with_delta(name, guarantee.delta) for name in GUARANTEES
    ]
    by_model = not isinstance(noise, Unsaid)
    plans = plans_of(others, crossing, by_model=by_model, checked=audit is not None, named=False)
    compared = ComparedSample(repr(score), points, score, plans, noise, alpha, crossing, seed, normalize)
    sample, shown, checked, known = compared.sample, compared.shown, compared.checked, compared.noise
    if checked is None:
        steps = calibrations(
            compared.counted,
            guarantee,
            known,
            alphas,
            crossing,
            sample,
            seed,
            noise_basis=compared.basis,
            **compared.known,
        )
    else:
        steps = checked_calibrations(checked, guarantee, alphas, seed, classes=names, normalize=normalize)
    cal = steps[chosen]
    say("measuring the sets")
    costs = compared.rows(plans)
    natives, spec = np.array([each.native_threshold for each in steps]), score.spec
    sizes = np.concatenate([*shown.rows.map(lambda values, where: sizes_of(values, spec, natives))])
    covered = None if truth is None else (shown.label_scores <= natives).mean(axis=0)
    curve, rates = curve_of(compared, steps, chosen)
    say("coverage by class, and whether the noise model can be right")
    judged = (test_probs, test_labels) if truth is not None else (None, None)
    if audit is None:
        diagnosis, sensitivity = _judgements(sample, cal, *judged)
    else:
        diagnosis, sensitivity = _claims(sample, costs, guarantee, audit), None
    bounds = _bounds(cal.k)
    given = points.labels if points.test_rows is None else truth
    return Contents(
        steps=_steps(steps, sizes, covered, bounds, rates),
        chosen=chosen,
        curve=curve,
        bins=_names(bounds),
        classes=_by_class(cal, sample, labels, shown, test_labels, audit),
        samples=tuple(_sample(shown, row, cal, sizes, descriptions, given) for row in chosen_rows),
        costs=Comparison.of(costs, alpha, cal.n, cal.k),
        measured_on="calibration" if points.test_rows is None else "test",
        tested=0 if truth is None else shown.n,
        estimate=noise if isinstance(noise, NoiseEstimate) else None,
        diagnosis=diagnosis,
        sensitivity=sensitivity,
    )


def _judgements(
    sample: Sample, cal: Calibration, probs: ArrayLike | None, labels: ArrayLike | None
) -> tuple[Diagnosis | None, Sensitivity | None]:
    """Ask whether the noise model can be right, and what if it is not; where there is one."""
    if cal.noise is None:
        return None, None
    diagnosis = diagnosis_of(sample, cal, audit_probs=probs, audit_labels=labels) if cal.n > 1 else None
    wrong = bool((cal.noise.matrix(cal.k).diagonal < 1).any())
    return diagnosis, sensitivity_of(sample, cal) if wrong else None


def _claims(
    sample: Sample, costs: list[ComparisonRow], guarantee: Guarantee, audit: Audit
) -> Diagnosis | None:
    """Ask what checked labels say of the noise model, where one is given beside them."""
    wanted = list(dict.fromkeys([guarantee.name, "pac"]))  # "none" does not take an interval
    by_model = [row for row in costs if row.labels == NOISY and row.guarantee in wanted]
    by_model.sort(key=lambda row: wanted.index(row.guarantee))
    found = [row.calibration for row in by_model if row.calibration is not None]
    if not found or sample.n < 2:
        return None
    order = np.argsort(audit.rows)
    return diagnosis_of(sample, found[0], checked=(audit.rows[order], audit.labels[order]))


def _by_class(
    cal: Calibration, sample: Sample, labels: Any, shown: Sample, test_labels: Any, audit: Audit | None
) -> ClassCoverage:
    """Return the coverage of each class: by true labels, if there are any."""
    if test_labels is not None:
        return coverage_by_class(cal.sets_of(shown.rows), test_labels)
    if audit is None:
        return coverage_by_class(cal.sets_of(sample.rows), labels, noise=cal.noise)
    true = audit.labels.tolist() if cal.classes is None else [cal.classes[i] for i in audit.labels]
    return coverage_by_class(cal.sets_of(sample.rows.some(audit.rows)), true)


def _check_samples(samples: Sequence[int] | None, n: int) -> list[int]:
    """Return the rows to show: a few all over, if none are named."""
    if samples is None:
        return [int(row) for row in np.linspace(0, n - 1, min(_SAMPLES, n))]
    for row in samples:
        if not isinstance(row, Integral) or not 0 <= row < n:
            raise InputError("samples", f"must be row numbers from 0 to {n - 1}", found=f"{row}")
    return list(samples)


def _steps(
    calibrations: list[Calibration],
    sizes: Ints,
    covered: Floats | None,
    bounds: Ints,
    rates: list[float | None],
) -> tuple[Step, ...]:
    return tuple(
        Step(
            each,
            float(sizes[:, i].mean()),
            np.bincount(np.searchsorted(bounds, sizes[:, i]), minlength=len(bounds)),
            None if covered is None else float(covered[i]),
            rates[i],
        )
        for i, each in enumerate(calibrations)
    )


def _bounds(k: int) -> Ints:
    """Return the largest size of each bin; all k classes are one of their own."""
    return np.unique([*(bound for bound in _BIN_ENDS if bound < k), k - 1, k])


def _names(bounds: Ints) -> tuple[str, ...]:
    pairs = pairwise([-1, *bounds.tolist()])
    return tuple(str(high) if high - low == 1 else f"{low + 1}–{high}" for low, high in pairs)


def _sample(
    shown: Sample,
    row: int,
    cal: Calibration,
    sizes: Ints,
    descriptions: Sequence[str] | None,
    labels: Ints | None,
) -> Shown:
    rows = np.array([row])
    values, scores = shown.rows.whole(rows), engine.scores(shown.rows[rows], shown.score.spec)[0]
    order = np.lexsort((-values[0], scores))
    first = order[:_MOST_LABELS]
    names = cal.classes or range(cal.k)
    found = Shown(
        row,
        None if descriptions is None else str(descriptions[row]),
        [names[i] for i in first.tolist()],
        values[0][first].astype(np.float64),
        sizes[row],
    )
    if labels is None:
        return found
    return replace(found, label=names[labels[row]], place=int(np.flatnonzero(order == labels[row])[0]))
