"""Compare every guarantee and score on the same points."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Floats
from nacp.advice.printout import Printout, TextTable, joined
from nacp.audit.checked_calibration import for_checked, open_checked
from nacp.audit.checked_sample import CheckedSample
from nacp.audit.plan import AuditPlan, guessing_noise
from nacp.calibrate import ScoreLike, calibrate, noise_is_missing
from nacp.calibration import Calibration, NoValidThresholdWarning
from nacp.checks import check_count, check_flag, check_fraction
from nacp.coverage.contradiction import NoiseModelWarning, warn_of
from nacp.coverage.curve import Rule
from nacp.coverage.exact import exact_curve
from nacp.coverage.tally import Sample
from nacp.errors import InputError
from nacp.guarantees import GUARANTEES, Guarantee, as_guarantee
from nacp.noise import UNSAID, Noise, NoiseLike, Unsaid, noise_for
from nacp.points import RepeatedRowsWarning, check_labels, column_names, open_points
from nacp.points.lazy import in_memory
from nacp.scores import Score, as_score

_DELTA = 0.05
_SCORES = "hps", "aps", "raps"
NOISY, CHECKED, ALONE = "noisy", "checked, noisy", "checked"
"""The labels that a threshold comes from: noisy ones, noisy and checked ones, or checked ones alone."""


@dataclass(frozen=True)
class ComparisonRow:
    """The result of one score with one guarantee.

    The guarantee "split" ignores the noise: it takes the labels as they are. What comes from a calibration,
    from `threshold` on, is None if the guarantee was refused; `reason` says why it was, or why the threshold
    is infinite.

    Attributes
    ----------
    promise, promises_truth : str and bool
        What is promised, in one sentence, and whether that is about the true label.
    estimate, checked_estimate : float or None
        The coverage of the true label at the threshold: by the labels that the threshold comes from, and the
        noise model where they are noisy, also for "split"; and by checked labels, if there are any.
    mean_size, coverage : float or None
        Of the sets of the test points; without these, the mean size is that of the calibration points.
    labels : {"noisy", "checked, noisy", "checked"}
        The labels that the threshold comes from. With "noisy" the promise assumes the noise model; with the
        others nothing is assumed about the noise.
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
    def _sort_key(self) -> tuple[bool, bool, bool, bool, float]:
        size = math.inf if self.mean_size is None else self.mean_size
        promises = self.threshold is None, self.reason is not None, not self.promises_truth
        return *promises, self.labels == NOISY, size

    def said(self, audited: bool) -> str:
        """Return the promise or why there is none; beside checked labels also what the promise rests on."""
        if self.reason is not None or not (audited and self.promises_truth):
            return self.reason or self.promise
        assumed = "if the noise model is right" if self.labels == NOISY else "whatever the noise is"
        return f"{self.promise}, {assumed}"


@dataclass(frozen=True, repr=False)
class Comparison(Printout):
    """The result of `compare`; print it for a table.

    Attributes
    ----------
    rows : tuple of ComparisonRow
        Promises about the true label by the size of their sets, the smallest first; those that rest on
        checked labels before those that rest on a noise model. Then the rows that promise nothing about the
        true label, those whose sets hold all classes, and those that were refused.
    n, k : int
        The numbers of calibration points and of classes.
    """

    rows: tuple[ComparisonRow, ...]
    n: int
    k: int
    _title: ClassVar[str] = "Comparison"

    @property
    def tables(self) -> list[TextTable]:
        """The rows as text; the score is in the caption if there is only one."""
        tested, audited = any(row.coverage is not None for row in self.rows), self.audited
        scores = {row.score: row.score.partition("(")[0].lower() for row in self.rows}
        if len(set(scores.values())) < len(scores):
            scores = {score: score for score in scores}
        # With all columns the table would be wider than 80 characters.
        shown = [len(scores) > 1, True, audited, not (audited and tested), True, audited, tested, True]
        names = "score, guarantee, labels, threshold, estimate, by checked, coverage, mean size"
        table = [names.split(", ")]
        for row in self.rows:
            numbers = row.threshold, row.estimate, row.checked_estimate, row.coverage, row.mean_size
            forms = ".6g", ".4f", ".4f", ".4f", ".2f"
            cells = ("-" if x is None else format(x, form) for x, form in zip(numbers, forms, strict=True))
            table.append([scores[row.score], row.guarantee, row.labels, *cells])
        caption = f"Score: {self.rows[0].score}." if len(scores) == 1 else ""
        return [TextTable([list(compress(row, shown)) for row in table], sum(shown[:3]), caption)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """How the labels contradict the noise model, from the first row with such a warning."""
        rows = (row.calibration.warnings for row in self.rows if row.calibration is not None)
        return next((said for said in rows if said), ())

    @property
    def audited(self) -> bool:
        return any(row.labels != NOISY or row.checked_estimate is not None for row in self.rows)

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """Each guarantee's promise or reason, after the warnings and before the notes; no repetitions."""
        said = [("Warning", text) for text in self.warnings]
        for row in self.rows:
            name = f"{row.guarantee} ({row.labels})" if self.audited else row.guarantee
            said.append((name, row.said(self.audited)))
        said += [(f"{row.guarantee} with {row.score}", row.note) for row in self.rows if row.note is not None]
        return joined(said)


def compare(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: NoiseLike | Unsaid = UNSAID,
    clean: Any = None,
    alpha: float = 0.1,
    delta: float | None = None,
    audit: AuditPlan | None = None,
    scores: Sequence[ScoreLike] | None = None,
    guarantees: Sequence[str | Guarantee] | None = None,
    test_probs: ArrayLike | None = None,
    test_labels: ArrayLike | None = None,
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
    crossing: Rule = "last",
    random_state: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Calibrate with every score and every guarantee, and show the results side by side.

    Each promise holds for its own row. The row with the smallest sets is chosen with the same points that it
    was calibrated on, so its promise may fail more often: with r rows to choose from, up to r delta. Choose
    on other points, or divide delta by r.

    Parameters
    ----------
    probs, labels, noise, alpha, classes, normalize, from_logits, crossing, random_state
        As in `calibrate`.
    clean, audit : optional
        Checked labels, and their plan, as in `calibrate`. There are rows for these, with the noisy labels and
        alone (unless a plan chose them), and they also give an estimate for every other threshold. `noise`
        may then be left out.
    delta : float, optional
        The probability with which a promise may fail, of all guarantees without one of their own; 0.05 by
        default.
    scores, guarantees : sequences, optional
        Names or objects; by default three scores (that of the plan if there is one) and all guarantees.
    test_probs, test_labels : arrays of shape (m, k) and (m,), optional
        Other points, whose sets are measured instead of those of the calibration points, and their true
        labels.
    progress : callable, optional
        Called as ``progress(done, total)`` after each combination.

    Returns
    -------
    Comparison

    Warns
    -----
    NoiseModelWarning
        If the labels contradict the noise model.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=2000)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 10, random_state=0)
    >>> found = nacp.compare(probs, noisy, noise=0.2, scores=["hps"], guarantees=["split", "nacp", "pac"])
    >>> [row.guarantee for row in found.rows]
    ['pac', 'nacp', 'split']
    """
    check_fraction("alpha", alpha)
    check_count("random_state", random_state)
    check_flag("normalize", normalize)
    check_flag("from_logits", from_logits)
    in_memory("probs", probs, "here")
    in_memory("test_probs", test_probs, "here")
    by_model = not isinstance(noise, Unsaid)
    if clean is None and not by_model:
        raise noise_is_missing()
    if audit is not None and clean is None:
        raise InputError("audit", "needs clean, the labels that were checked by it")
    if clean is not None and labels is None:
        raise InputError("labels", "must be given", remedy="calibrate(probs, None, clean=...) needs none")
    if test_labels is not None and test_probs is None:
        raise InputError("test_labels", "needs test_probs, the probabilities of the same points")
    wanted = [_with_delta(each, delta) for each in (GUARANTEES if guarantees is None else guarantees)]
    if scores is None:
        scores = _SCORES if audit is None else [audit.score]
    if not scores or not wanted:
        raise InputError("scores" if not scores else "guarantees", "is empty; it must hold at least one")
    # Without a noise model, guarantees that need one are left out, unless the user named them.
    pairs = [(each, NOISY) for each in wanted if by_model or each.only_as_given]
    for each in wanted if clean is not None else ():
        if each.takes_checked:
            pairs += [(each, CHECKED)] * (not each.checked_alone)
            pairs += [(each, ALONE)] * (each.promises_truth and audit is None)
        elif guarantees is not None and not by_model and not each.only_as_given:
            pairs.append((each, CHECKED))
    options = {"normalize": normalize, "from_logits": from_logits, "classes": classes}
    sources: dict[str, Any] = {"noise": noise, "clean": clean, "audit": audit}
    rows: list[ComparisonRow] = []
    for score in scores:
        points = ScoredPoints.of(probs, labels, as_score(score), random_state, **sources, **options)
        for guarantee, labels_used in pairs:
            all_right, reason = points.by_model and points.noise is None, None
            if labels_used == NOISY:
                reason = guarantee.applies(None if guarantee.only_as_given else points.noise, crossing)
            elif not guarantee.takes_checked:
                reason = "cannot be found from checked labels, and no noise model is given"
            row = ComparisonRow(
                score=score if isinstance(score, str) else repr(score),
                guarantee=guarantee.name,
                promise=(guarantee.promise if labels_used == NOISY else guarantee.promise_checked)(alpha),
                promises_truth=guarantee.promises_truth or (guarantee.only_as_given and all_right),
                labels=labels_used,
                reason=reason,
            )
            if row.reason is None:
                with warnings.catch_warnings():
                    for told in (NoValidThresholdWarning, NoiseModelWarning, RepeatedRowsWarning):
                        warnings.simplefilter("ignore", told)
                    cal = calibrate(
                        probs,
                        None if labels_used == ALONE else labels,
                        noise=None if guarantee.only_as_given else noise,
                        clean=None if labels_used == NOISY else clean,
                        audit=None if labels_used == NOISY else audit,
                        alpha=alpha,
                        score=points.sample.score,
                        guarantee=guarantee,
                        crossing=crossing,
                        random_state=random_state,
                        **options,
                    )
                row = points.measured(row, cal, test_probs, test_labels)
            rows.append(row)
            if progress is not None:
                progress(len(rows), len(scores) * len(pairs))
    ordered = tuple(sorted(rows, key=lambda row: row._sort_key))
    comparison = Comparison(ordered, points.sample.n, points.sample.k)
    warn_of(comparison.warnings)
    return comparison


def _with_delta(guarantee: str | Guarantee, delta: float | None) -> Guarantee:
    """Return the guarantee of a name, with the given delta if it takes one."""
    found = as_guarantee(guarantee)
    if isinstance(guarantee, Guarantee):
        return found
    return found.with_options(delta=_DELTA if delta is None else delta)


@dataclass(frozen=True, eq=False)
class ScoredPoints:
    """Points as one score sees them: the estimates behind thresholds that come from elsewhere.

    `noise` is None if there is no noise, or if no noise model was given (`by_model`); `checked` is None if no
    labels were checked.
    """

    sample: Sample
    by_model: bool
    noise: Noise | None
    checked: CheckedSample | None

    @classmethod
    def of(
        cls,
        probs: Any,
        labels: Any,
        score: Score,
        seed: int,
        *,
        noise: NoiseLike | Unsaid,
        clean: Any,
        audit: AuditPlan | None,
        **options: Any,
    ) -> ScoredPoints:
        """Check points, some of which may have checked labels; `options` are those of `calibrate`."""
        options["classes"], checked = column_names(probs, options["classes"]), None
        options["probabilities"] = score.takes_probabilities
        if clean is None:
            rows, numbers, names = open_points(probs, labels, **options)
        else:
            for_checked("pac", None, "last", None, audit, score)
            rows, numbers, names, dealt = open_checked(probs, labels, clean, seed, audit, **options)
        sample = Sample.of(rows, numbers, score)
        model = None if isinstance(noise, Unsaid) else noise_for(noise, rows.k, rows.n, names)
        if clean is not None:
            guess = guessing_noise(sample, noise, dealt.pilot)
            checked = CheckedSample(sample, dealt, guess.matrix(rows.k))
        return cls(sample, not isinstance(noise, Unsaid), model, checked)

    def checked_estimates(self, thresholds: Floats, alpha: float) -> Floats | None:
        """Return the coverage at native thresholds, estimated from checked labels, if there are any."""
        if self.checked is None:
            return None
        found, _ = self.checked.estimates(thresholds, self.checked.strata_of([alpha])[0])
        return np.where(np.isfinite(thresholds), found, 1.0)

    def measured(
        self, row: ComparisonRow, cal: Calibration, test_probs: Any, test_labels: Any
    ) -> ComparisonRow:
        """Return a row with the results of its calibration, on the test points if there are some."""
        threshold = np.array([cal.native_threshold])
        estimate = None if row.labels == NOISY and not self.by_model else cal.estimate
        if row.labels == NOISY and cal.noise is None and self.noise is not None:
            estimate = float(np.clip(exact_curve(self.sample, self.noise, threshold).clean[0], 0, 1))
        by_checked = self.checked_estimates(threshold, cal.alpha)
        rows = self.sample.rows if test_probs is None else cal.open_rows(test_probs, "test_probs")
        mean_size, coverage = float(cal.k), None
        if np.isfinite(threshold[0]):
            sizes = rows.map(
                lambda values, _: engine.of(values).sets(values, cal.score.spec, threshold[:, None])[0]
            )
            mean_size = float(sum(each.sum() for each in sizes) / rows.n)
        if test_labels is not None:
            truth = check_labels(test_labels, rows.n, rows.k, cal.classes, name="test_labels")
            coverage = float((Sample.of(rows, truth, cal.score).label_scores <= threshold).mean())
        return replace(
            row,
            promise=cal.promise,
            threshold=cal.threshold,
            correction=cal.correction,
            estimate=estimate,
            mean_size=mean_size,
            coverage=coverage,
            reason=cal.obstacle,
            note=cal.note,
            calibration=cal,
            checked_estimate=None if by_checked is None else float(by_checked[0]),
        )
