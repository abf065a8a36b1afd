"""Compare every guarantee and score on the same points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Floats, Ints
from nacp.advice.printout import Printout, TextTable
from nacp.audit.checked_calibration import checked_calibrations, for_checked, open_checked
from nacp.audit.checked_sample import Audit, CheckedSample, deal
from nacp.audit.plan import guessing_noise
from nacp.calibrate import ScoreLike, informative_noise, noise_is_missing
from nacp.calibration import Calibration
from nacp.checks import check_count, check_flag, check_fraction
from nacp.coverage.contradiction import warn_of
from nacp.coverage.curve import Rule
from nacp.coverage.sample import Sample
from nacp.errors import InputError
from nacp.guarantees import GUARANTEES, Guarantee, as_guarantee
from nacp.marginal import Counted, calibrations, exact_curve, seen
from nacp.noise import NO_NOISE, UNSAID, Noise, NoiseLike, Unsaid, basis_of
from nacp.points import Rows, check_labels, column_names, open_points, open_rows
from nacp.points.lazy import in_memory
from nacp.scores import Score, as_score

_DELTA = 0.05
NOISY, CHECKED, ALONE = "noisy", "checked, noisy", "checked"
"""The labels that a threshold comes from: noisy ones, noisy and checked ones, or checked ones alone."""


@dataclass(frozen=True)
class ComparisonRow:
    """The result of one score with one guarantee.

    Attributes
    ----------
    score, guarantee : str
        Their names. The guarantee "split" ignores the noise: it takes the labels as they are.
    promise : str
        What is promised, in one sentence.
    promises_truth : bool
        Whether the promise is about the true label; "none" promises nothing, and "split" is about the given
        label.
    threshold : float or None
        Infinite if no threshold keeps the promise. This and the next four are None if the guarantee was
        refused.
    correction : float or None
        What the guarantee adds to the target.
    estimate : float or None
        The estimated coverage of the true label at the threshold: by the noise model, at the less favourable
        end of an interval; by the checked labels if the threshold comes from them. It is also given for
        "split", which ignores the noise model.
    mean_size : float or None
        The mean size of the sets of the test points, or of the calibration points if there are none.
    coverage : float or None
        The share of test labels in their sets; None without test labels.
    reason : str or None
        Why the threshold is infinite or the guarantee was refused.
    note : str or None
        A remark on the threshold.
    calibration : Calibration or None
        The whole calibration, ready for `Calibration.predict_set`.
    labels : {"noisy", "checked, noisy", "checked"}
        The labels that the threshold comes from. With "noisy" the promise assumes the noise model; with the
        others nothing is assumed about the noise.
    checked_estimate : float or None
        The coverage of the true label at the threshold, estimated from checked labels, whatever the noise
        is; None if there are none.
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
        """The sort key: promises that are kept first, with checked labels before others, by size."""
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
    alpha : float
        As given.
    n, k : int
        The numbers of calibration points and of classes.
    """

    rows: tuple[ComparisonRow, ...]
    alpha: float
    n: int
    k: int
    _title: ClassVar[str] = "Comparison"

    def __repr__(self) -> str:
        return str(self)

    @property
    def tables(self) -> list[TextTable]:
        """The rows as text."""
        tested, audited = any(row.coverage is not None for row in self.rows), self.audited
        header = ["score", "guarantee", *["labels"] * audited, "threshold", "estimate"]
        table = [[*header, *["by checked"] * audited, *["coverage"] * tested, "mean size"]]
        for row in self.rows:
            cells = [row.score, row.guarantee, *[row.labels] * audited, _shown(row.threshold, ".6g")]
            cells += [_shown(row.estimate, ".4f"), *[_shown(row.checked_estimate, ".4f")] * audited]
            table.append([*cells, *[_shown(row.coverage, ".4f")] * tested, _shown(row.mean_size, ".2f")])
        return [TextTable(table, 2 + audited)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """How the labels contradict the noise model, from the first row with such a warning."""
        rows = (row.calibration.warnings for row in self.rows if row.calibration is not None)
        return next((said for said in rows if said), ())

    @property
    def audited(self) -> bool:
        """Whether there are checked labels."""
        return any(row.labels != NOISY or row.checked_estimate is not None for row in self.rows)

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """Each guarantee's promise or reason, after the warnings and before the notes; no repetitions."""
        said = [("Warning", text) for text in self.warnings]
        for row in self.rows:
            name = f"{row.guarantee} ({row.labels})" if self.audited else row.guarantee
            said.append((name, row.said(self.audited)))
        said += [(f"{row.guarantee} with {row.score}", row.note) for row in self.rows if row.note is not None]
        return list(dict.fromkeys(said))


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def compare(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: NoiseLike | Unsaid = UNSAID,
    clean: Any = None,
    alpha: float = 0.1,
    delta: float | None = None,
    scores: Sequence[ScoreLike] = ("hps", "aps", "raps"),
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
    was calibrated on, so its promise may fail more often: with r rows to choose from, up to r delta.
    Choose on other points, or divide delta by r.

    Parameters
    ----------
    probs, labels, noise, alpha, classes, normalize, from_logits, crossing, random_state
        As in `calibrate`.
    clean : array of shape (n,) or pair (rows, labels), optional
        True labels of points that were picked at random and checked, as in `calibrate`. There are rows for
        these, with the noisy labels and alone, and they also give an estimate for every other threshold.
        `noise` may then be left out; rows that come from it assume it.
    delta : float, optional
        The probability with which a promise may fail; 0.05 for all guarantees by default, so that they can
        be compared. A guarantee object has its own.
    scores : sequence, default=("hps", "aps", "raps")
        Names, score objects or functions, as in `calibrate`.
    guarantees : sequence, optional
        Names or guarantee objects; by default all there are. "split" stands for ignoring the noise.
    test_probs : array of shape (m, k), optional
        Probabilities of other points, whose sets are measured instead of those of the calibration points.
    test_labels : array of shape (m,), optional
        Their true labels.
    progress : callable, optional
        Called as ``progress(done, total)`` after each combination.

    Returns
    -------
    Comparison

    Warns
    -----
    NoiseModelWarning
        If the labels contradict the noise model.

    See Also
    --------
    plan : The excess coverage of each guarantee, before there are data.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 10, random_state=0)
    >>> found = nacp.compare(
    ...     probs[:2000], noisy[:2000], noise=0.2, scores=["hps"], guarantees=["pac", "nacp", "split"],
    ...     test_probs=probs[2000:], test_labels=labels[2000:])
    >>> [row.guarantee for row in found.rows]
    ['pac', 'nacp', 'split']
    >>> found.rows[0].mean_size < found.rows[1].mean_size < found.rows[2].mean_size
    True
    """
    check_fraction("alpha", alpha)
    check_flag("normalize", normalize)
    check_flag("from_logits", from_logits)
    options = {"normalize": normalize, "from_logits": from_logits, "classes": column_names(probs, classes)}
    seed = check_count("random_state", random_state)
    by_model = not isinstance(noise, Unsaid)
    if clean is None and not by_model:
        raise noise_is_missing()
    if clean is not None and labels is None:
        raise InputError("labels", "must be given", remedy="calibrate(probs, None, clean=...) needs none")
    if test_labels is not None and test_probs is None:
        raise InputError("test_labels", "needs test_probs, the probabilities of the same points")
    named = [(score if isinstance(score, str) else repr(score), as_score(score)) for score in scores]
    wanted = [_with_delta(each, delta) for each in (GUARANTEES if guarantees is None else guarantees)]
    if not named or not wanted:
        raise InputError("scores" if not named else "guarantees", "is empty; it must hold at least one")
    # Without a noise model, guarantees that need one are left out, unless the user named them.
    pairs = [(each, NOISY) for each in wanted if by_model or each.only_as_given]
    for each in wanted if clean is not None else ():
        if each.takes_checked:
            used = [ALONE] if each.checked_alone else [CHECKED, ALONE][: 1 + each.promises_truth]
            pairs += [(for_checked(each, None, crossing, None), labels_used) for labels_used in used]
        elif guarantees is not None and not by_model and not each.only_as_given:
            pairs.append((each, CHECKED))
    rows: list[ComparisonRow] = []
    opened: dict[bool, _Points] = {}
    for name, score in named:
        kind = score.takes_probabilities
        if kind not in opened:
            points = probs, labels, clean, test_probs, test_labels
            opened[kind] = _opened(*points, seed, probabilities=kind, **options)
        scored = _ScoredPoints(opened[kind], score, wanted, noise, float(alpha), crossing, seed, normalize)
        for guarantee, labels_used in pairs:
            rows.append(replace(scored.row(guarantee, labels_used), score=name))
            if progress is not None:
                progress(len(rows), len(named) * len(pairs))
    ordered = tuple(sorted(rows, key=lambda row: row._place))
    comparison = Comparison(ordered, float(alpha), scored.sample.n, scored.sample.k)
    warn_of(comparison.warnings)
    return comparison


def _with_delta(guarantee: str | Guarantee, delta: float | None) -> Guarantee:
    """Return the guarantee of a name, with the given delta if it takes one."""
    if isinstance(guarantee, Guarantee):
        return guarantee
    takes = guarantee in GUARANTEES and GUARANTEES[guarantee].takes_delta()
    return as_guarantee(guarantee, (_DELTA if delta is None else delta) if takes else None)


@dataclass(frozen=True, eq=False)
class _Points:
    """The points of a comparison and, if there are any, those on which sets are measured."""

    rows: Rows
    labels: Ints
    classes: tuple[Any, ...] | None
    audit: Audit | None
    test_rows: Rows | None
    test_labels: Ints | None


def _opened(
    probs: Any, labels: Any, clean: Any, test_probs: Any, test_labels: Any, seed: int, **options: Any
) -> _Points:
    """Check the calibration points, some of which may have checked labels, and the test points."""
    in_memory("probs", probs, "here")
    in_memory("test_probs", test_probs, "here")
    audit = tested = truth = None
    if clean is None:
        rows, numbers, names = open_points(probs, labels, **options)
    else:
        rows, numbers, names, audit = open_checked(probs, labels, clean, seed, **options)
    if test_probs is not None:
        tested = open_rows(test_probs, k=rows.k, name="test_probs", **options)
        if test_labels is not None:
            truth = check_labels(test_labels, tested.n, rows.k, names, name="test_labels")
    return _Points(rows, numbers, names, audit, tested, truth)


@dataclass(frozen=True, eq=False)
class _ScoredPoints:
    """Points as one score sees them, counted once for all guarantees that are compared."""

    points: _Points
    score: Score
    guarantees: Sequence[Guarantee]
    stated: NoiseLike | Unsaid
    alpha: float
    crossing: Rule
    seed: int
    normalize: bool

    @cached_property
    def sample(self) -> Sample:
        """The calibration points."""
        return Sample.of(self.points.rows, self.points.labels, self.score)

    @cached_property
    def noise(self) -> Noise | None:
        """The noise model; None if there is none, or if labels are taken as they are."""
        if isinstance(self.stated, Unsaid):
            return None
        return informative_noise(self.stated, self.sample.n, self.sample.k)

    @cached_property
    def counts(self) -> dict[bool, Counted]:
        """The counts for labels taken as they are, and under the noise model."""
        models = {True: None, False: self.noise}
        apply = (each for each in self.guarantees if each.applies(self.noise, self.crossing) is None)
        squares = any(each.needs_squares for each in apply)
        return {as_given: Counted.of(self.sample, each, squares=squares) for as_given, each in models.items()}

    @cached_property
    def checked(self) -> CheckedSample | None:
        """The points with their checked labels, if there are any."""
        if self.points.audit is None:
            return None
        guess = guessing_noise(self.sample, self.stated, self.points.audit.pilot)
        return CheckedSample(self.sample, self.points.audit, guess.matrix(self.sample.k))

    @cached_property
    def alone(self) -> CheckedSample:
        """The checked points without the noisy labels."""
        audit, k = self.points.audit, self.sample.k
        assert audit is not None
        few = Sample.of(self.points.rows.some(audit.rows), np.maximum(audit.labels, 0), self.score)
        dealt = deal(few.n, k, np.arange(few.n), audit.labels, self.seed)
        return CheckedSample(few, dealt, NO_NOISE.matrix(k))

    def row(self, guarantee: Guarantee, labels: str) -> ComparisonRow:
        """Return the result of a guarantee that is applied to these labels, or why it does not apply."""
        noisy, by_model = labels == NOISY, not isinstance(self.stated, Unsaid)
        # A guarantee that takes labels as they are stands for ignoring the noise.
        noise = None if guarantee.only_as_given else self.noise
        as_stated = noisy and guarantee.only_as_given and self.noise is None and by_model
        row = ComparisonRow(
            score=self.score.name,
            guarantee=guarantee.name,
            promise=guarantee.promise(self.alpha) if noisy else guarantee.promise_checked(self.alpha),
            promises_truth=guarantee.promises_truth or as_stated,
            labels=labels,
        )
        reason = guarantee.applies(noise, self.crossing) if noisy else None
        if not noisy and not guarantee.takes_checked:
            reason = "cannot be found from checked labels, and no noise model is given"
        if reason is not None:
            return replace(row, reason=reason)
        cal = self._calibrated(guarantee, labels, noise)
        threshold = np.array([cal.native_threshold])
        estimate = cal.estimate if by_model or not noisy else None
        if noisy and noise is not self.noise:
            clean = exact_curve(self.sample, self.noise, threshold).clean[0]
            estimate = min(max(float(clean), 0.0), 1.0)
        return replace(
            row,
            promise=cal.promise,
            threshold=cal.threshold,
            correction=cal.correction,
            estimate=estimate,
            mean_size=self._mean_size(cal),
            coverage=self._coverage(cal),
            reason=cal.obstacle,
            note=cal.note,
            calibration=cal,
            checked_estimate=self._checked_estimate(threshold),
        )

    def _calibrated(self, guarantee: Guarantee, labels: str, noise: Noise | None) -> Calibration:
        known: dict[str, Any] = {"classes": self.points.classes, "normalize": self.normalize}
        if labels == NOISY:
            known |= seen(self.sample) | {"noise_basis": None if noise is None else basis_of(self.stated)}
            counts, sample = self.counts[noise is None], self.sample
            asked = guarantee, noise, [self.alpha], self.crossing
            return calibrations(counts, *asked, sample, self.seed, **known)[0]
        checked = self.alone if labels == ALONE else self.checked
        assert checked is not None
        return checked_calibrations(checked, guarantee, [self.alpha], self.seed, **known)[0]

    def _mean_size(self, cal: Calibration) -> float:
        rows, threshold = self.points.test_rows or self.points.rows, np.array([[cal.native_threshold]])
        if np.isinf(threshold):
            return float(cal.k)
        sizes = rows.map(lambda values, _: int(engine.sets(values, cal.score.spec, threshold)[0].sum()))
        return sum(sizes) / rows.n

    @cached_property
    def _test_scores(self) -> Floats | None:
        """The scores of the true labels of the test points, if these are known."""
        rows, labels = self.points.test_rows, self.points.test_labels
        if rows is None or labels is None:
            return None
        return Sample.of(rows, labels, self.score).label_scores[:, 0]

    def _coverage(self, cal: Calibration) -> float | None:
        scores = self._test_scores
        return None if scores is None else float((scores <= cal.native_threshold).mean())

    def _checked_estimate(self, threshold: Floats) -> float | None:
        if self.checked is None:
            return None
        (estimate,), _ = self.checked.estimates(threshold, self.checked.strata_of([self.alpha])[0])
        return float(estimate) if np.isfinite(threshold[0]) else 1.0
