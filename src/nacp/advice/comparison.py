"""Compare every guarantee and score on the same points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.audit.checked_calibration import checked_calibrations, for_checked, open_checked
from nacp.audit.checked_sample import Audit, CheckedSample, deal
from nacp.audit.plan import guessing_noise
from nacp.calibrate import ScoreLike, informative_noise, noise_is_missing
from nacp.calibration import Calibration
from nacp.checks import check_count, check_flag, check_fraction
from nacp.coverage.contradiction import warn_of
from nacp.coverage.curve import Rule, inverse_of
from nacp.coverage.sample import Sample
from nacp.engine import Spec
from nacp.errors import InputError
from nacp.guarantees import GUARANTEES, Guarantee, as_guarantee
from nacp.marginal import Counted, calibrations, exact_curve, seen, weights_under
from nacp.noise import UNSAID, Noise, NoiseLike, Unsaid, basis_of
from nacp.points import Rows, check_labels, column_names, open_points, open_rows
from nacp.points.lazy import in_memory
from nacp.scores import Score, as_score
from nacp.wrapping import table_lines, wrapped

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
class Comparison:
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

    @classmethod
    def of(cls, rows: Sequence[ComparisonRow], alpha: float, n: int, k: int) -> Comparison:
        """Sort rows."""
        return cls(tuple(sorted(rows, key=lambda row: row._place)), alpha, n, k)

    def __repr__(self) -> str:
        return str(self)

    @property
    def _table(self) -> list[list[str]]:
        """The header and the rows as text."""
        tested, audited = any(row.coverage is not None for row in self.rows), self.audited
        header = ["score", "guarantee", *["labels"] * audited, "threshold", "estimate"]
        table = [[*header, *["by checked"] * audited, *["coverage"] * tested, "mean size"]]
        for row in self.rows:
            cells = [row.score, row.guarantee, *[row.labels] * audited, _shown(row.threshold, ".6g")]
            cells += [_shown(row.estimate, ".4f"), *[_shown(row.checked_estimate, ".4f")] * audited]
            table.append([*cells, *[_shown(row.coverage, ".4f")] * tested, _shown(row.mean_size, ".2f")])
        return table

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

    def __str__(self) -> str:
        lines = table_lines(self._table, 2 + self.audited)
        return "\n".join([*lines, "", *(wrapped(f"{name}: {sentence}") for name, sentence in self.sentences)])

    def _repr_html_(self) -> str:
        from nacp.show.html import card, sentence, table

        header, *rows = self._table
        told = [sentence(text, name=name) for name, text in self.sentences]
        return card("Comparison", table(header, rows, left=range(2 + self.audited)), *told)


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
    classes = column_names(probs, classes)
    seed = check_count("random_state", random_state)
    by_model = not isinstance(noise, Unsaid)
    if clean is None and not by_model:
        raise noise_is_missing()
    if clean is not None and labels is None:
        raise InputError("labels", "must be given", remedy="calibrate(probs, None, clean=...) needs none")
    if test_labels is not None and test_probs is None:
        raise InputError("test_labels", "needs test_probs, the probabilities of the same points")
    named = [(score if isinstance(score, str) else repr(score), as_score(score)) for score in scores]
    wanted = [with_delta(each, delta) for each in (GUARANTEES if guarantees is None else guarantees)]
    if not named or not wanted:
        raise InputError("scores" if not named else "guarantees", "is empty; it must hold at least one")
    plans = plans_of(
        wanted, crossing, by_model=by_model, checked=clean is not None, named=guarantees is not None
    )
    total, number = len(named) * len(plans), count(1)

    def done() -> None:
        if progress is not None:
            progress(next(number), total)

    rows: list[ComparisonRow] = []
    opened: dict[bool, Points] = {}
    for name, score in named:
        kind = score.takes_probabilities
        if kind not in opened:
            options = {"normalize": normalize, "from_logits": from_logits, "classes": classes}
            opened[kind] = open_all(
                probs, labels, clean, test_probs, test_labels, seed, probabilities=kind, **options
            )
        sample = ComparedSample(
            name, opened[kind], score, plans, noise, float(alpha), crossing, seed, normalize
        )
        rows += sample.rows(plans, done)
    comparison = Comparison.of(rows, float(alpha), sample.n, sample.k)
    warn_of(comparison.warnings)
    return comparison


def with_delta(guarantee: str | Guarantee, delta: float | None = None) -> Guarantee:
    """Return the guarantee of a name, with the given delta if it takes one."""
    if isinstance(guarantee, Guarantee):
        return guarantee
    takes = guarantee in GUARANTEES and GUARANTEES[guarantee].takes_delta()
    return as_guarantee(guarantee, (_DELTA if delta is None else delta) if takes else None)


def plans_of(
    wanted: Sequence[Guarantee], crossing: Rule, *, by_model: bool, checked: bool, named: bool = True
) -> list[tuple[Guarantee, str]]:
    """Return the pairs of a guarantee and the labels that it is applied to.

    Without a noise model noisy labels are only taken as they are. Guarantees that need a model are then left
    out, unless the user `named` them.
    """
    plans = [(each, NOISY) for each in wanted if by_model or each.only_as_given]
    if not checked:
        return plans
    for each in wanted:
        if each.takes_checked:
            plans += [(for_checked(each, None, crossing, None), labels) for labels in labels_used(each)]
        elif named and not by_model and not each.only_as_given:
            plans.append((each, CHECKED))
    return plans


def labels_used(guarantee: Guarantee) -> tuple[str, ...]:
    """Return the labels that a guarantee can be applied to where some were checked."""
    if guarantee.checked_alone:
        return (ALONE,)
    return (CHECKED, ALONE) if guarantee.promises_truth else (CHECKED,)


class Points(NamedTuple):
    """The points of a comparison and, if there are any, those on which sets are measured."""

    rows: Rows
    labels: Ints
    classes: tuple[Any, ...] | None
    audit: Audit | None
    test_rows: Rows | None
    test_labels: Ints | None

    def shown(self, sample: Sample) -> Sample:
        """Return the points on which sets are measured: the test points, or the sample itself."""
        if self.test_rows is None:
            return sample
        labels = np.zeros(self.test_rows.n, dtype=np.int64) if self.test_labels is None else self.test_labels
        return Sample.of(self.test_rows, labels, sample.score)


def open_all(
    probs: Any, labels: Any, clean: Any, test_probs: Any, test_labels: Any, seed: int, **options: Any
) -> Points:
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
    return Points(rows, numbers, names, audit, tested, truth)


class ComparedSample:
    """Points as one score sees them, counted once for all guarantees that are compared.

    `sample` are the calibration points, and `shown` those on which sets are measured. `counted` has the
    counts under the noise model, `checked` the checked labels, and `known` the fields that all calibrations
    from noisy labels share. `noise` is None if there is no noise, or if no noise model was given.
    """

    def __init__(
        self,
        name: str,
        points: Points,
        score: Score,
        plans: Sequence[tuple[Guarantee, str]],
        noise: NoiseLike | Unsaid,
        alpha: float,
        crossing: Rule,
        seed: int,
        normalize: bool,
    ) -> None:
        self.sample = sample = Sample.of(points.rows, points.labels, score)
        self.shown, self.n, self.k = points.shown(sample), sample.n, sample.k
        self.noise = None if isinstance(noise, Unsaid) else informative_noise(noise, self.n, self.k)
        self.basis = basis_of(noise)
        self.checked: CheckedSample | None = None
        if points.audit is not None:
            matrix = guessing_noise(sample, noise, points.audit.pilot).matrix(self.k)
            self.checked = CheckedSample(sample, points.audit, matrix)
        by_noisy = [each for each, labels in plans if labels == NOISY]
        squares = any(each.needs_squares and each.applies(self.noise, crossing) is None for each in by_noisy)
        self.counted = Counted.of(sample, self.noise, squares=squares)
        self._options = {"classes": points.classes, "normalize": normalize}
        self.known = self._options | seen(sample)
        self._name, self._alpha, self._crossing, self._seed = name, alpha, crossing, seed
        self._unsaid, self._tested = isinstance(noise, Unsaid), points.test_labels is not None

    def rows(
        self, plans: Sequence[tuple[Guarantee, str]], done: Callable[[], None] = lambda: None
    ) -> list[ComparisonRow]:
        """Return the result of each guarantee with its labels; call `done` after each."""
        rows = []
        for guarantee, labels in plans:
            rows.append(self._row(guarantee, labels))
            done()
        found = [row.calibration.native_threshold for row in rows if row.calibration is not None]
        if not found:
            return rows
        thresholds, spec = np.array(found), self.shown.score.spec  # one pass over the rows for all of them
        totals = self.shown.rows.map(lambda values, where: sizes_of(values, spec, thresholds).sum(axis=0))
        sizes = iter((sum(totals) / self.shown.n).tolist())
        return [row if row.calibration is None else replace(row, mean_size=next(sizes)) for row in rows]

    def _row(self, guarantee: Guarantee, labels: str) -> ComparisonRow:
        """Return the result of a guarantee that is applied to these labels, or why it does not apply.

        The mean size of the sets is not measured yet.
        """
        noisy, alpha = labels == NOISY, self._alpha
        # "split" stands for ignoring the noise.
        noise = None if guarantee.only_as_given else self.noise
        as_stated = noisy and guarantee.only_as_given and noise is self.noise and not self._unsaid
        row = ComparisonRow(
            score=self._name,
            guarantee=guarantee.name,
            promise=guarantee.promise(alpha) if noisy else guarantee.promise_checked(alpha),
            promises_truth=guarantee.promises_truth or as_stated,
            labels=labels,
        )
        reason = None
        if noisy:
            reason = guarantee.applies(noise, self._crossing)
        elif not guarantee.takes_checked:
            reason = "cannot be found from checked labels, and no noise model is given"
        if reason is not None:
            return replace(row, reason=reason)
        cal = self._from_noisy(guarantee, noise) if noisy else self._from_checked(guarantee, labels)
        threshold = np.array([cal.native_threshold])
        estimate = None if noisy and self._unsaid else cal.estimate
        if noisy and noise is not self.noise:
            clean = exact_curve(self.sample, self.noise, threshold).clean[0]
            estimate = min(max(float(clean), 0.0), 1.0)
        by_checked = None
        if self.checked is not None:
            (by_checked,), _ = self.checked.estimates(threshold, self.checked.strata_of([alpha])[0])
            by_checked = float(by_checked) if math.isfinite(cal.native_threshold) else 1.0
        covered = self.shown.label_scores[:, 0] <= cal.native_threshold
        return replace(
            row,
            promise=cal.promise,
            threshold=cal.threshold,
            correction=cal.correction,
            estimate=estimate,
            coverage=float(covered.mean()) if self._tested else None,
            reason=cal.obstacle,
            note=cal.note,
            calibration=cal,
            checked_estimate=by_checked,
        )

    def _from_noisy(self, guarantee: Guarantee, noise: Noise | None) -> Calibration:
        """Return a calibration from the noisy labels."""
        counted = self.counted if noise is self.noise else without_noise(self.counted)
        basis = None if noise is None else self.basis
        sample, seed, crossing = self.sample, self._seed, self._crossing
        (cal,) = calibrations(
            counted, guarantee, noise, [self._alpha], crossing, sample, seed, noise_basis=basis, **self.known
        )
        return cal

    def _from_checked(self, guarantee: Guarantee, labels: str) -> Calibration:
        """Return a calibration from checked labels, with the noisy ones or alone."""
        checked, seed = self.checked, self._seed
        assert checked is not None
        if labels == ALONE:
            audit, score = checked.audit, self.sample.score
            order = np.argsort(audit.rows)
            rows, truth = audit.rows[order], audit.labels[order]
            few = Sample.of(self.sample.rows.some(rows), np.maximum(truth, 0), score)
            dealt = deal(few.n, few.k, np.arange(few.n), truth, seed)
            checked = CheckedSample(few, dealt, inverse_of(None, few.k))  # the identity: labels are right
        (cal,) = checked_calibrations(checked, guarantee, [self._alpha], seed, **self._options)
        return cal


def without_noise(counted: Counted) -> Counted:
    """Return the same counts for labels that are taken as they are."""
    tally = replace(next(iter(counted.tallies.values())), gains=None, losses=None, unit=1.0)
    return Counted({None: tally}, weights_under(None, tally.k, several=False), counted.score)


def sizes_of(values: Array, spec: Spec, thresholds: Floats) -> Ints:
    """Return the sizes of the sets of rows at native thresholds, exactly: (rows, thresholds)."""
    distinct, places = np.unique(thresholds, return_inverse=True)
    everything = np.full(len(values), values.shape[1])
    sizes = [everything if q == np.inf else engine.sets(values, spec, q.reshape(1, 1))[0] for q in distinct]
    return np.stack(sizes, axis=1)[:, places]
