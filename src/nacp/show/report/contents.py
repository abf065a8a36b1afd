"""What a report shows, as numbers: every alpha of the slider, the curves, the classes, a few sets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Bools, Floats, Ints
from nacp.advice.compared import NOISY, Asked, ComparisonRow, compared_all, plans_of, with_delta
from nacp.advice.comparison import Comparison
from nacp.advice.diagnosis import Diagnosis, diagnosis_of
from nacp.advice.sensitivity import Sensitivity, sensitivity_of
from nacp.calibrate import (
    ScoreLike,
    calibrations,
    default_guarantee,
    informative_noise,
    noise_is_missing,
)
from nacp.calibration import Calibration
from nacp.checked import checked_calibrations, for_checked, guessing_noise, open_checked
from nacp.checks import check_choice, check_count, check_flag
from nacp.class_coverage import ClassCoverage, coverage_by_class
from nacp.coverage import RULES, CoverageCurve, Question, Rule, Sample, Talk, both, together
from nacp.coverage.audit import Audit
from nacp.coverage.audited import AuditedCoverage
from nacp.engine import Block
from nacp.errors import InputError
from nacp.estimation import NoiseEstimate
from nacp.guarantees import GUARANTEES, Guarantee, as_guarantee, coverage_under
from nacp.noise import NoiseLike, Unsaid, as_noise, basis_of
from nacp.points import column_names, open_points
from nacp.points.lazy import open_test
from nacp.scores import as_score
from nacp.sets import PredictionSets
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
    """Compute what a report shows: rows are opened once, and all that is asked of them goes on together."""
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
        named = default_guarantee(as_noise(noise)) if guarantee is None else guarantee
        guarantee = as_guarantee(named, delta)
        reason = guarantee.applies(as_noise(noise), crossing)
        if reason is not None:
            raise InputError("guarantee", f'"{guarantee.name}" {reason}')
    seed = 0 if random_state is None else check_count("random_state", random_state)
    options = {
        "probabilities": score.takes_probabilities,
        "normalize": check_flag("normalize", normalize),
        "from_logits": check_flag("from_logits", from_logits),
        "classes": classes,
    }
    audit: Audit | None = None
    if clean is None:
        rows, numbers, names = open_points(probs, labels, **options)
    else:
        rows, numbers, names, audit = open_checked(probs, labels, clean, seed, **options)
    estimate = noise if isinstance(noise, NoiseEstimate) else None
    basis = basis_of(noise)
    known = None if isinstance(noise, Unsaid) else informative_noise(noise, rows.n, rows.k)
    sample, shown = Sample(rows, numbers, score), None
    truth: Ints | None = None
    if test_probs is not None:
        test_rows, truth = open_test(test_probs, test_labels, k=rows.k, **options)
        shown = Sample(test_rows, np.zeros(test_rows.n, dtype=np.int64) if truth is None else truth, score)
    measured = sample if shown is None else shown
    chosen_rows = _check_samples(samples, measured.n)
    if descriptions is not None and len(descriptions) != measured.n:
        raise InputError(
            "descriptions",
            f"must have one text for each of {measured.n:,} points",
            found=f"{len(descriptions):,}",
        )

    say("calibrating for every alpha of the slider")
    alphas = sorted({*ALPHAS, alpha})
    chosen = alphas.index(alpha)
    asked = Asked(alpha, known, crossing, seed, names, normalize, basis, isinstance(noise, Unsaid))
    each_time: dict[str, Any] = {"classes": names, "normalize": normalize}
    if audit is not None:
        guessed = guessing_noise(sample, noise, audit.pilot)
        audited = AuditedCoverage(sample, audit, guessed.matrix(rows.k))
        asked = asked._replace(audited=audited)
    others = [
        guarantee if name == guarantee.name else with_delta(name, guarantee.delta) for name in GUARANTEES
    ]
    plans = plans_of(others, crossing, by_model=not asked.unsaid, checked=audit is not None, named=False)
    table = compared_all(repr(score), sample, plans, asked)
    if audit is None:
        slider = calibrations(sample, guarantee, known, alphas, crossing, seed, basis=basis, **each_time)
        steps, costs = sample.ask(both(slider, table))
    else:
        steps = checked_calibrations(audited, guarantee, alphas, seed, **each_time)
        costs = sample.ask(table)
    cal = steps[chosen]
    say("measuring the sets")
    sets = SetsQuestion([each.native_threshold for each in steps], chosen, measured.n, cal)
    drawn = curve_of(sample, steps, chosen, asked.audited)
    judged_on: tuple[ArrayLike | None, ArrayLike | None] = (None, None)
    if shown is not None:
        costs = _on_test(shown, costs, sets, truth)
        if truth is not None:
            judged_on = test_probs, test_labels
    else:
        drawn = _after(sets, drawn)
    judgements = (
        _judgements(sample, cal, *judged_on) if audit is None else _claims(sample, costs, guarantee, audit)
    )
    (curve, rates), judged = sample.ask(both(drawn, together(judgements)))
    say("coverage by class, and whether the noise model can be right")
    diagnosis = next((each for each in judged if isinstance(each, Diagnosis)), None)
    if test_labels is not None:
        by_class = coverage_by_class(sets.sets(), test_labels)
    else:
        own = sets.sets() if shown is None else cal.predict_set(probs)
        if audit is None:
            by_class = coverage_by_class(own, labels, noise=known)
        else:
            true = audit.labels.tolist() if names is None else [names[i] for i in audit.labels]
            by_class = coverage_by_class(own[audit.rows], true)
    covered = None if truth is None or shown is None else _covered(shown, steps)
    bounds = _bounds(cal.k)
    given = numbers if shown is None else truth
    return Contents(
        steps=_steps(steps, sets.sizes, covered, bounds, rates),
        chosen=chosen,
        curve=curve,
        bins=_names(bounds),
        classes=by_class,
        samples=tuple(_sample(measured, row, cal, sets.sizes, descriptions, given) for row in chosen_rows),
        costs=Comparison(tuple(sorted(costs, key=lambda row: row._place)), alpha, cal.n, cal.k),
        measured_on="calibration" if shown is None else "test",
        tested=0 if truth is None else measured.n,
        estimate=estimate,
        diagnosis=diagnosis,
        sensitivity=next((each for each in judged if isinstance(each, Sensitivity)), None),
    )


def _judgements(
    sample: Sample, cal: Calibration, probs: ArrayLike | None = None, labels: ArrayLike | None = None
) -> list[Talk[Any]]:
    """Ask whether the noise model can be right, and what if it is not; where there is one."""
    found: list[Talk[Any]] = []
    if cal.noise is not None and cal.n > 1:
        found.append(diagnosis_of(sample, cal, audit_probs=probs, audit_labels=labels))
    if cal.noise is not None and bool((cal.noise.matrix(cal.k).diagonal < 1).any()):
        found.append(sensitivity_of(sample, cal))
    return found


def _claims(
    sample: Sample, costs: list[ComparisonRow], guarantee: Guarantee, audit: Audit
) -> list[Talk[Any]]:
    """Ask what checked labels say of the noise model, where one is given beside them."""
    wanted = list(dict.fromkeys([guarantee.name, "pac"]))  # "none" does not take an interval
    by_model = [row for row in costs if row.labels == NOISY and row.guarantee in wanted]
    by_model.sort(key=lambda row: wanted.index(row.guarantee))
    found = [row.calibration for row in by_model if row.calibration is not None][: sample.n > 1]
    order = np.argsort(audit.rows)
    return [diagnosis_of(sample, cal, checked=(audit.rows[order], audit.labels[order])) for cal in found]


def _after(question: Question, talk: Talk[Any]) -> Talk[Any]:
    """Ask a question before a conversation."""
    yield [question]
    return (yield from talk)


def _on_test(
    shown: Sample, costs: list[ComparisonRow], sets: Question, truth: Ints | None
) -> list[ComparisonRow]:
    """Measure sets on test points, and return the rows with what their thresholds do there."""
    at = np.unique([row.calibration.native_threshold for row in costs if row.calibration is not None])
    shown.read([sets])
    found = shown.ask(coverage_under(shown, None).at(at))

    def measured(row: ComparisonRow) -> ComparisonRow:
        if row.calibration is None:
            return row
        i = int(np.searchsorted(at, row.calibration.native_threshold))
        coverage = None if truth is None else float(found.noisy[i])
        return replace(row, mean_size=round(float(found.random[i]) * shown.k, 12), coverage=coverage)

    return [measured(row) for row in costs]


class SetsQuestion(Question):
    """The size of each row's set by each calibration, and the sets of one of them."""

    def __init__(self, thresholds: list[float], chosen: int, n: int, cal: Calibration) -> None:
        self._natives, self._chosen, self._cal = np.array(thresholds), chosen, cal
        self._q, self._place = np.unique(self._natives, return_inverse=True)
        self.sizes: Ints = np.empty((n, len(thresholds)), dtype=np.int64)
        self._blocks: list[tuple[slice | Ints, Ints]] = []

    def see(self, block: Block, rows: slice | Ints) -> None:
        self.sizes[rows] = engine.profile(block, self._q)[:, self._place]
        labels = engine.sets(block, float(self._natives[self._chosen]))[1]
        self._blocks.append((rows, labels.astype(np.int32)))

    def sets(self) -> PredictionSets:
        """Return the sets of the chosen calibration."""
        sizes, cal = self.sizes[:, self._chosen], self._cal
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        labels = np.empty(offsets[-1], dtype=np.int32)
        for rows, found in self._blocks:  # in any order, as other questions may want them
            own = sizes[rows]
            starts = np.repeat(offsets[:-1][rows] - np.cumsum(own) + own, own)
            labels[starts + np.arange(len(found))] = found
        return PredictionSets(offsets, labels, k=cal.k, classes=cal.classes, alpha=cal.alpha)


def _covered(shown: Sample, steps: list[Calibration]) -> Bools:
    """Return whether each row's set by each calibration holds the true label."""
    return shown.label_scores[:, None] <= np.array([each.native_threshold for each in steps])


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
    covered: Bools | None,
    bounds: Ints,
    rates: list[float | None],
) -> tuple[Step, ...]:
    return tuple(
        Step(
            each,
            float(sizes[:, i].mean()),
            np.bincount(np.searchsorted(bounds, sizes[:, i]), minlength=len(bounds)),
            None if covered is None else float(covered[:, i].mean()),
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
    measured: Sample,
    row: int,
    cal: Calibration,
    sizes: Ints,
    descriptions: Sequence[str] | None,
    labels: Ints | None,
) -> "Shown":
    values = measured.rows.whole(np.array([row]))
    scores = engine.open_block(values, measured.spec).placed[0]
    order = np.lexsort((-values[0], scores))
    first = order[:_MOST_LABELS]
    names = cal.classes or range(cal.k)
    shown = Shown(
        row,
        None if descriptions is None else str(descriptions[row]),
        [names[i] for i in first.tolist()],
        values[0][first].astype(np.float64),
        sizes[row],
    )
    if labels is None:
        return shown
    return replace(shown, label=names[labels[row]], place=int(np.flatnonzero(order == labels[row])[0]))
