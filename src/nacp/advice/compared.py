"""One row of a comparison: what a guarantee makes of a sample, from noisy labels or from checked ones."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.advice.regions import exact_shares
from nacp.audit.checked_calibration import checked_calibrations, for_checked
from nacp.audit.checked_sample import CheckedSample, deal
from nacp.calibration import Calibration
from nacp.coverage.curve import Rule, inverse_of
from nacp.coverage.sample import Sample
from nacp.coverage.tally import Weights
from nacp.engine import Spec
from nacp.guarantees import GUARANTEES, Guarantee, as_guarantee
from nacp.marginal import Counted, calibrations, seen, weights_under
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


class Comparing(NamedTuple):
    """The points, and what all rows of a comparison have in common.

    Attributes
    ----------
    name : str
        The name of the score.
    counted : Counted
        What was counted of the sample under the noise model.
    checked : CheckedSample or None
        The same points, if some labels were checked.
    unsaid : bool
        Whether no noise model was given.
    """

    name: str
    sample: Sample
    counted: Counted
    alpha: float
    noise: Noise | None
    crossing: Rule
    seed: int
    classes: tuple[Any, ...] | None
    normalize: bool
    basis: NoiseBasis | None = None
    unsaid: bool = False
    checked: CheckedSample | None = None

    @property
    def known(self) -> dict[str, Any]:
        """The fields that all calibrations from noisy labels have in common."""
        return {"classes": self.classes, "normalize": self.normalize} | seen(self.sample)


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


def counted_for(
    sample: Sample, noise: Noise | None, plans: Sequence[tuple[Guarantee, str]], crossing: Rule
) -> Counted:
    """Count a sample once for all guarantees that are to be found from its noisy labels."""
    found = [each for each, labels in plans if labels == NOISY and each.applies(noise, crossing) is None]
    return Counted.of(sample, noise, squares=any(each.needs_squares for each in found))


def labels_used(guarantee: Guarantee) -> tuple[str, ...]:
    """Return from which labels a guarantee can be found where some were checked."""
    if guarantee.checked_alone:
        return (ALONE,)
    return (CHECKED, ALONE) if guarantee.promises_truth else (CHECKED,)


def compared_all(
    comparing: Comparing, plans: Sequence[tuple[Guarantee, str]], done: Callable[[], None] = lambda: None
) -> list[ComparisonRow]:
    """Return what guarantees make of a sample, each from its labels; mean sizes are not measured yet."""
    rows = []
    for guarantee, labels in plans:
        found = compared if labels == NOISY else compared_checked
        rows.append(found(comparing, guarantee, labels))
        done()
    checked = comparing.checked
    if checked is None:
        return rows
    return [replace(row, checked_estimate=_judged(checked, row.calibration, comparing.alpha)) for row in rows]


def _judged(checked: CheckedSample, cal: Calibration | None, alpha: float) -> float | None:
    """Return the coverage at a threshold, by checked labels."""
    if cal is None or not math.isfinite(cal.native_threshold):
        return None if cal is None else 1.0
    (clean,), _ = checked.estimates(np.array([cal.native_threshold]), checked.strata_of([alpha])[0])
    return float(clean)


def compared(comparing: Comparing, guarantee: Guarantee, labels: str) -> ComparisonRow:
    """Return what a guarantee makes of noisy labels, or why it does not apply."""
    # "split" stands for ignoring the noise.
    alpha, noise = comparing.alpha, None if guarantee.only_as_given else comparing.noise
    as_stated = noise is comparing.noise and not comparing.unsaid
    row = ComparisonRow(
        score=comparing.name,
        guarantee=guarantee.name,
        promise=guarantee.promise(alpha),
        promises_truth=guarantee.promises_truth or (guarantee.only_as_given and as_stated),
    )
    reason = guarantee.applies(noise, comparing.crossing)
    if reason is not None:
        return replace(row, reason=reason)
    counted = comparing.counted if noise is comparing.noise else without_noise(comparing.counted)
    (cal,) = calibrations(
        counted,
        guarantee,
        noise,
        [alpha],
        comparing.crossing,
        comparing.sample,
        comparing.seed,
        noise_basis=comparing.basis if noise is not None else None,
        **comparing.known,
    )
    estimate: float | None = cal.estimate
    if comparing.unsaid:
        estimate = None
    elif not as_stated:
        weights = Weights(inverse_of(comparing.noise, cal.k))
        shares, _ = exact_shares(comparing.sample, weights, np.array([cal.native_threshold]))
        estimate = min(max(float(shares.mean()), 0.0), 1.0)
    return _filled(row, cal, estimate)


def without_noise(counted: Counted) -> Counted:
    """Return what was counted for labels that are taken as they are."""
    tally = replace(next(iter(counted.tallies.values())), gains=None, losses=None, unit=1.0)
    return Counted({None: tally}, weights_under(None, tally.k, several=False), counted.score)


def compared_checked(comparing: Comparing, guarantee: Guarantee, labels: str) -> ComparisonRow:
    """Return what a guarantee makes of checked labels, with the noisy ones or alone."""
    checked = comparing.checked
    assert checked is not None
    row = ComparisonRow(
        score=comparing.name,
        guarantee=guarantee.name,
        promise=guarantee.promise_checked(comparing.alpha),
        promises_truth=guarantee.promises_truth,
        labels=labels,
    )
    if not guarantee.takes_checked:
        return replace(row, reason="cannot be found from checked labels, and no noise model is given")
    if labels == ALONE:
        checked = _alone(checked, comparing.seed)
    (cal,) = checked_calibrations(
        checked,
        guarantee,
        [comparing.alpha],
        comparing.seed,
        classes=comparing.classes,
        normalize=comparing.normalize,
    )
    return _filled(row, cal, cal.estimate)


def _alone(checked: CheckedSample, seed: int) -> CheckedSample:
    """Return the checked points alone."""
    sample, audit = checked.sample, checked.audit
    order = np.argsort(audit.rows)
    rows, truth = audit.rows[order], audit.labels[order]
    few = Sample.of(sample.rows.some(rows), np.maximum(truth, 0), sample.score)
    dealt = deal(len(rows), few.k, np.arange(len(rows)), truth, seed)
    return CheckedSample(few, dealt, UniformNoise(0.0).matrix(few.k))


def _filled(row: ComparisonRow, cal: Calibration, estimate: float | None) -> ComparisonRow:
    """Return a row with what was found."""
    return replace(
        row,
        promise=cal.promise,
        threshold=cal.threshold,
        correction=cal.correction,
        estimate=estimate,
        reason=cal.obstacle,
        note=cal.note,
        calibration=cal,
    )


def sizes_of(values: Array, spec: Spec, thresholds: Floats) -> Ints:
    """Return the sizes of the sets of rows at native thresholds, exactly: (rows, thresholds)."""
    distinct, places = np.unique(thresholds, return_inverse=True)
    everything = np.full(len(values), values.shape[1])
    sizes = [everything if q == np.inf else engine.sets(values, spec, q.reshape(1, 1))[0] for q in distinct]
    return np.stack(sizes, axis=1)[:, places]


def measured(rows: Sequence[ComparisonRow], sample: Sample, *, labelled: bool) -> list[ComparisonRow]:
    """Return rows with the mean sizes of their sets of a sample's rows; and coverage, if labels are true."""
    thresholds = np.array([row.calibration.native_threshold for row in rows if row.calibration is not None])
    if not len(thresholds):
        return list(rows)
    spec = sample.score.spec
    parts = sample.rows.map(lambda values, where: sizes_of(values, spec, thresholds).sum(axis=0))
    sizes = iter((sum(parts) / sample.n).tolist())
    scores, found = sample.label_scores[:, 0], []
    for row in rows:
        if row.calibration is not None:
            coverage = float((scores <= row.calibration.native_threshold).mean()) if labelled else None
            row = replace(row, mean_size=next(sizes), coverage=coverage)
        found.append(row)
    return found
