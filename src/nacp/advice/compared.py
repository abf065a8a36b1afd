"""One row of a comparison: what a guarantee makes of a sample, from noisy labels or from checked ones."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from nacp.calibrate import calibrations
from nacp.calibration import Calibration
from nacp.checked import checked_calibrations, for_checked
from nacp.coverage import Rule, Sample, Talk, together
from nacp.coverage.audit import deal
from nacp.coverage.audited import AuditedCoverage
from nacp.guarantees import GUARANTEES, Expected, Guarantee, as_guarantee, coverage_under
from nacp.noise import Noise, NoiseBasis, UniformNoise

_DELTA = 0.05
NOISY, CHECKED, ALONE = "noisy", "checked, noisy", "checked"
"""From which labels a threshold comes: noisy ones and a noise model, checked ones beside them, or alone."""


@dataclass(frozen=True)
class ComparisonRow:
    """One score with one guarantee: what came out.

    Attributes
    ----------
    score, guarantee : str
        Their names. The guarantee "split" ignores the noise: it takes the labels as they are.
    promise : str
        What is promised, in one sentence.
    promises_truth : bool
        Whether that is about the true label; "none" promises nothing, and "split" is about the given label.
    threshold : float or None
        Infinite if no threshold keeps the promise; None if the guarantee was refused, as are the next four.
    correction : float or None
        What the guarantee added to the target.
    estimate : float or None
        The estimated coverage of the true label at the threshold, by the noise model, at the less favourable
        end of an interval. It is also given for "split", which does not know of the noise. Of a threshold
        that comes from checked labels: by these.
    mean_size : float or None
        The mean size of the sets of the test points, or of the calibration points if there are none.
    coverage : float or None
        The share of test labels in their sets; None without test labels.
    reason : str or None
        Why the threshold is infinite or the guarantee was refused.
    note : str or None
        What else should be known about the threshold.
    calibration : Calibration or None
        All of it, ready for `Calibration.predict_set`.
    labels : {"noisy", "checked, noisy", "checked"}
        From which labels the threshold comes. With "noisy" the promise assumes the noise model; with the
        others nothing is assumed about the noise.
    checked_estimate : float or None
        The estimated coverage of the true label at the threshold, by checked labels, whatever the noise is;
        None if there are none.
    """

    score: str
    guarantee: str
    promise: str
    promises_truth: bool
    threshold: float | None = None
    correction: float | None = None
    estimate: float | None = None
    mean_size: float | None = None
    coverage: float | None = None
    reason: str | None = None
    note: str | None = None
    calibration: Calibration | None = None
    labels: str = NOISY
    checked_estimate: float | None = None

    @property
    def _place(self) -> tuple[bool, bool, bool, bool, float]:
        """Where the row stands: promises that are kept first, with checked labels before others, by size."""
        size = math.inf if self.mean_size is None else self.mean_size
        promises = self.threshold is None, self.reason is not None, not self.promises_truth
        return *promises, self.labels == NOISY, size

    def said(self, audited: bool) -> str:
        """Return what is promised, or why nothing is; beside checked labels also what that rests on."""
        if self.reason is not None or not (audited and self.promises_truth):
            return self.reason or self.promise
        assumed = "if the noise model is right" if self.labels == NOISY else "whatever the noise is"
        return f"{self.promise}, {assumed}"


def with_delta(guarantee: str | Guarantee, delta: float | None = None) -> Guarantee:
    """Return a guarantee of a name with the delta that is common to all, if it takes one."""
    if isinstance(guarantee, Guarantee):
        return guarantee
    takes = guarantee in GUARANTEES and GUARANTEES[guarantee].takes_delta()
    return as_guarantee(guarantee, (_DELTA if delta is None else delta) if takes else None)


class Asked(NamedTuple):
    """What all rows of a comparison have in common."""

    alpha: float
    noise: Noise | None
    crossing: Rule
    seed: int
    classes: tuple[Any, ...] | None
    normalize: bool
    basis: NoiseBasis | None = None
    unsaid: bool = False
    audited: AuditedCoverage | None = None


def plans_of(
    wanted: Sequence[Guarantee], crossing: Rule, *, by_model: bool, checked: bool, named: bool = True
) -> list[tuple[Guarantee, str]]:
    """Return which guarantees are to be found from which labels.

    Without a noise model noisy labels are only taken as they are. What can then not be found is listed all
    the same if it was named.
    """
    plans = [(each, NOISY) for each in wanted if by_model or each.only_as_given]
    if not checked:
        return plans
    for each in wanted:
        if each.takes_checked:
            plans += [(for_checked(each, None, crossing, None), where) for where in labels_used(each)]
        elif named and not by_model and not each.only_as_given:
            plans.append((each, CHECKED))
    return plans


def labels_used(guarantee: Guarantee) -> tuple[str, ...]:
    """Return from which labels a guarantee can be found where some were checked.

    "expected" is found from the checked labels alone in any case.
    """
    if isinstance(guarantee, Expected):
        return (ALONE,)
    return (CHECKED, ALONE) if guarantee.promises_truth else (CHECKED,)


def compared_all(
    name: str,
    sample: Sample,
    plans: Sequence[tuple[Guarantee, str]],
    asked: Asked,
    said: Callable[[], None] = lambda: None,
) -> Talk[list[ComparisonRow]]:
    """Return what guarantees make of a sample, each from its labels."""
    rows = yield from together(
        [
            compared(name, sample, each, asked, said)
            if where == NOISY
            else compared_checked(name, sample, each, where, asked, said)
            for each, where in plans
        ]
    )
    finite = [row.calibration.native_threshold for row in rows if row.calibration is not None]
    at = np.unique([q for q in finite if math.isfinite(q)])
    if asked.audited is None or not len(at):
        return rows
    clean, _ = asked.audited.estimates(at, asked.audited.strata(asked.alpha))
    values = dict(zip(at.tolist(), clean.tolist(), strict=True)) | {math.inf: 1.0}
    return [
        row if row.calibration is None
        else replace(row, checked_estimate=values[row.calibration.native_threshold])
        for row in rows
    ]  # fmt: skip


def compared(
    name: str, sample: Sample, guarantee: Guarantee, asked: Asked, said: Callable[[], None] = lambda: None
) -> Talk[ComparisonRow]:
    """Return what a guarantee makes of a sample, or why it does not apply."""
    # "split" stands for ignoring the noise.
    noise = None if guarantee.only_as_given else asked.noise
    row = ComparisonRow(
        score=name,
        guarantee=guarantee.name,
        promise=guarantee.promise(asked.alpha),
        promises_truth=guarantee.promises_truth
        or (guarantee.only_as_given and asked.noise is None and not asked.unsaid),
    )
    reason = guarantee.applies(noise, asked.crossing)
    if reason is not None:
        said()
        return replace(row, reason=reason)
    (cal,) = yield from calibrations(
        sample, guarantee, noise, [asked.alpha], asked.crossing, asked.seed,
        classes=asked.classes, normalize=asked.normalize, basis=asked.basis if noise is not None else None,
    )  # fmt: skip
    estimates = yield from coverage_under(sample, asked.noise).at(np.array([cal.native_threshold]))
    said()
    estimate = None if asked.unsaid else min(max(float(estimates.clean[0]), 0.0), 1.0)
    if noise is asked.noise and not asked.unsaid:
        estimate = cal.estimate
    return _filled(row, cal, estimate, round(float(estimates.random[0]) * sample.k, 12))


def compared_checked(
    name: str,
    sample: Sample,
    guarantee: Guarantee,
    labels: str,
    asked: Asked,
    said: Callable[[], None] = lambda: None,
) -> Talk[ComparisonRow]:
    """Return what a guarantee makes of checked labels, with the noisy ones or alone."""
    assert asked.audited is not None
    row = ComparisonRow(
        score=name,
        guarantee=guarantee.name,
        promise=guarantee.promise_checked(asked.alpha),
        promises_truth=guarantee.promises_truth,
        labels=labels,
    )
    if not guarantee.takes_checked:
        said()
        return replace(row, reason="cannot be found from checked labels, and no noise model is given")
    audit = asked.audited.audit
    options: dict[str, Any] = {"classes": asked.classes, "normalize": asked.normalize}
    if labels == ALONE:
        order = np.argsort(audit.rows)
        rows, truth = audit.rows[order], audit.labels[order]
        few = Sample(sample.rows.some(rows), np.maximum(truth, 0), sample.score)
        dealt = deal(len(rows), few.k, np.arange(len(rows)), truth, asked.seed)
        coverage = AuditedCoverage(few, dealt, UniformNoise(0.0).matrix(few.k))
    else:
        coverage = asked.audited
    (cal,) = checked_calibrations(coverage, guarantee, [asked.alpha], asked.seed, **options)
    estimates = yield from coverage_under(sample, asked.noise).at(np.array([cal.native_threshold]))
    said()
    return _filled(row, cal, cal.estimate, round(float(estimates.random[0]) * sample.k, 12))


def _filled(row: ComparisonRow, cal: Calibration, estimate: float | None, size: float) -> ComparisonRow:
    """Return a row with what was found."""
    return replace(
        row,
        promise=cal.promise,
        threshold=cal.threshold,
        correction=cal.correction,
        estimate=estimate,
        mean_size=size,
        reason=cal.obstacle,
        note=cal.note,
        calibration=cal,
    )
