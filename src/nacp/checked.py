"""Calibration where some labels were checked; and which labels should be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Bools, Floats, Ints
from nacp.calibration import Calibration
from nacp.checks import check_count, check_fraction
from nacp.coverage import Rule, Sample
from nacp.coverage.audit import Audit, AuditPlan, deal, digest, picked, pilot_size, planned
from nacp.coverage.audited import CHOSEN_CUT, AuditedCoverage
from nacp.errors import InputError
from nacp.files import rebuild
from nacp.guarantees import Guarantee, as_guarantee
from nacp.noise import UNSAID, Noise, NoiseLike, UniformNoise, Unsaid, noise_for
from nacp.points import Rows, check_aligned, check_classes, check_labels, open_clean, open_points, open_rows
from nacp.points.arrays import row_slices
from nacp.points.lazy import is_lazy, open_lazy
from nacp.scores import SCORES, Score, ScoreLike, as_score

# A plan is made as if the sets held the true label of half of the points outside, and missed this part of
# alpha of the others. At the most this share of its labels are of points outside.
_MISSED_INSIDE, _MOST_OUTSIDE = 0.3, 0.4
# There must be enough of these even if their share is so many standard deviations smaller than in the pilot.
_SURELY, _FEWEST = 4.0, 3
# A noise model is not heard if labels of the pilot are, by the mean of logarithms, half as probable under it
# as under the guess. None is less probable than this: classifiers say 0 of labels that come all the same.
_FAR_LESS, _LEAST = float(np.log(2)), 1e-6


def for_checked(
    guarantee: str | Guarantee | None,
    delta: float | None,
    crossing: Rule,
    unlabelled: Any,
    audit: Any = None,
    score: Score | None = None,
) -> Guarantee:
    """Return the guarantee to be found from checked labels; refuse what cannot be."""
    found = as_guarantee("pac" if guarantee is None else guarantee, delta)
    if not found.takes_checked:
        raise InputError(
            "guarantee",
            f'"{found.name}" cannot be found from checked labels',
            remedy='use "pac", "expected" or "none"',
        )
    if audit is not None and not isinstance(audit, AuditPlan):
        raise InputError("audit", "must be what nacp.choose_audit returned", found=type(audit).__name__)
    if audit is not None and audit.score != score:
        raise InputError(
            "score", f"must be {audit.score!r}, for which the audit was chosen", found=repr(score)
        )
    if audit is not None and audit.outside.any() and found.name == "expected":
        raise InputError(
            "guarantee", '"expected" needs checked labels that were picked at random', remedy='use "pac"'
        )
    if getattr(found, "grid", None) is not None:
        raise InputError("guarantee", f"has a grid, which is of no use with checked labels: {found!r}")
    if crossing != "last":
        raise InputError("crossing", 'must be "last" with checked labels', found=repr(crossing))
    if unlabelled is not None:
        raise InputError("unlabelled", "is of no use with checked labels")
    return found


def open_checked(
    probs: Any,
    labels: Any,
    clean: Any,
    seed: int,
    plan: AuditPlan | None = None,
    *,
    there: bool = False,
    **options: Any,
) -> tuple[Rows, Ints, tuple[Any, ...] | None, Audit]:
    """Open points of which some were checked; without noisy labels, these alone.

    The rows of a dask array are left `there`, if that is wanted.
    """
    check_aligned(clean, probs, said="clean")
    check_aligned(clean, labels, "labels", "clean")
    lazy = there and is_lazy(probs)
    rows = open_lazy(probs, labels, **options) if lazy else open_rows(probs, **options)
    names = check_classes(options["classes"], rows.k)
    checked, true = open_clean(clean, rows.n, rows.k, names)
    if labels is not None:
        numbers = check_labels(labels, rows.n, rows.k, names)
        if plan is not None:
            return rows, numbers, names, _by_plan(plan, rows, checked, true)
        return rows, numbers, names, deal(rows.n, rows.k, checked, true, seed)
    if plan is not None:
        raise InputError("labels", "is None, and the audit was chosen by these labels")
    order = np.arange(len(checked))
    dealt = replace(deal(len(checked), rows.k, order, true, seed), given=(rows.n, checked))
    few = _fetched(probs, checked, options) if lazy else rows.some(checked)
    return few, np.maximum(true, 0), names, dealt


def _fetched(probs: Any, checked: Ints, options: dict[str, Any]) -> Rows:
    """Return the checked rows of a dask array."""
    matrix = probs[checked].compute()
    try:
        return open_rows(matrix, **options)
    except InputError:
        for place, row in enumerate(checked.tolist()):  # it is to be named by its number there
            open_rows(matrix[place : place + 1], start=row, **options)
        raise


def _by_plan(plan: AuditPlan, rows: Rows, checked: Ints, true: Ints) -> Audit:
    """Return the audit that followed a plan, in whole or in part."""
    if (plan.n, plan.k) != (rows.n, rows.k):
        raise InputError(
            "audit",
            f"was chosen from {plan.n:,} points of {plan.k:,} classes",
            found=f"{rows.n:,} and {rows.k:,}",
        )
    strange = np.setdiff1d(checked, plan.rows)
    if len(strange):
        raise InputError(
            "clean", f"has row {strange[0]}, which the audit did not choose", remedy="leave such rows out"
        )
    return Audit(checked, true, *planned(plan.n, plan.pilot, plan.random_state), plan)


def checked_calibrations(
    coverage: AuditedCoverage,
    guarantee: Guarantee,
    alphas: Sequence[float],
    seed: int,
    *,
    classes: tuple[Any, ...] | None,
    normalize: bool,
) -> list[Calibration]:
    """Return a calibration for each alpha from a sample some of whose labels were checked."""
    sample, audit = coverage.sample, coverage.audit
    found = guarantee.find_checked(coverage, alphas)
    undecided = int(np.count_nonzero(audit.labels < 0))
    note = f"labels that could not be decided count as misses: {undecided}" if undecided else None
    return [
        Calibration(
            alpha=alpha,
            n=sample.n,
            k=sample.k,
            score=sample.score,
            noise=None,
            guarantee=guarantee,
            crossing="last",
            correction=finding.correction,
            native_threshold=finding.threshold,
            estimate=finding.estimate,
            obstacle=finding.obstacle,
            note=note,
            random_state=seed,
            classes=classes,
            normalize=normalize,
            deviation=finding.deviation,
            checked=len(audit.rows),
            planned=None if audit.plan is None else len(audit.plan),
            alphas=len(alphas),
            widths=sample.rows.widths,
            from_logits=sample.rows.logits,
        )
        for alpha, finding in zip(alphas, found, strict=True)
    ]


def guessing_noise(sample: Sample, noise: NoiseLike | Unsaid, pilot: Ints) -> Noise:
    """Return the noise by which the pilot is judged: as given, or uniform at a rate that its points suggest.

    That is the rate at which the mean probability of the given labels would be what it is. A given model is
    not heard if the pilot's labels are far less probable under it: it would part points in the wrong place,
    and sets would be larger than those of the checked labels alone.
    """
    given = None if isinstance(noise, Unsaid) else noise_for(noise, sample.k) or UniformNoise(0.0)
    if not len(pilot) or not sample.score.takes_probabilities:
        return UniformNoise(0.2) if given is None else given
    own = square = 0.0
    for block, labels in _pilot_blocks(sample, pilot):
        own += float(block[np.arange(len(labels)), labels].sum())
        square += float((block**2).sum())
    chance = len(pilot) / sample.k
    guess = UniformNoise(float(np.clip(1 - (own - chance) / max(square - chance, 1e-9), 0.02, 0.9)))
    if given is None:
        return guess
    less = _log_probable(sample, guess, pilot) - _log_probable(sample, given, pilot)
    return guess if less > _FAR_LESS else given


def _pilot_blocks(sample: Sample, pilot: Ints) -> Iterator[tuple[Floats, Ints]]:
    """Yield the probabilities and the given labels of the pilot, some rows at a time."""
    for where in row_slices(len(pilot), sample.k):
        yield sample.rows.whole(pilot[where]).astype(np.float64), sample.labels[pilot[where]]


def _log_probable(sample: Sample, noise: Noise, pilot: Ints) -> float:
    """Return the mean logarithm of how probable the pilot's labels are, by the classifier and a model."""
    matrix, found = noise.matrix(sample.k), 0.0
    for block, labels in _pilot_blocks(sample, pilot):
        share = (block * matrix.rest(np.arange(sample.k)[None], labels[:, None])).sum(axis=1)
        share += block[np.arange(len(labels)), labels] * matrix.own[labels]
        found += float(np.log(np.maximum(share, _LEAST)).sum())
    return found / len(pilot)


def chosen_share(outside: float, alpha: float) -> float:
    """Return which share of the labels to check should be of points outside, if so many points are.

    That is Neyman's allocation under a fixed guess of how often the sets of either stratum miss. What the
    pilot predicts of that rests on the classifier and the noise model, which promise too much where people
    err as the classifier does; and if few points inside are checked, each miss among them weighs much.
    """
    missed = _MISSED_INSIDE * alpha
    first, second = outside / 2, (1 - outside) * np.sqrt(missed * (1 - missed))
    return float(min(first / (first + second), _MOST_OUTSIDE))


def choose_audit(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    budget: int,
    alpha: float = 0.1,
    score: ScoreLike = "hps",
    noise: NoiseLike | Unsaid = UNSAID,
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
    random_state: int = 0,
) -> AuditPlan:
    """Choose which labels to check, so that `calibrate` learns the most from them.

    Most of what a random audit checks tells little: where the classifier and the given label agree, the true
    label is mostly in the prediction set. So points where that is doubtful, for the set that a few points,
    the pilot, suggest, are checked two to three times as often as they would be by chance, with two fifths of
    the budget at the most. Within the two strata the points are picked at random.

    Parameters
    ----------
    probs, labels, score, classes, normalize, from_logits
        As in `calibrate`, to which the same are passed later.
    budget : int
        How many labels can be checked.
    alpha : float, default=0.1
        For which alpha. The plan may be used for others; it is then a little less good.
    noise : float, array of shape (k, k) or noise model, optional
        What is thought of the noise; it only says where to part the points. By default a guess.
    random_state : int, default=0
        The seed by which points are picked.

    Returns
    -------
    AuditPlan
        Its `rows` are to be checked; then ``calibrate(probs, labels, clean=..., audit=plan)``. Rows that
        remain unchecked are taken to be left out at random; a label that cannot be decided is ``"?"``, and
        counts as a miss.

    See Also
    --------
    calibrate : What the checked labels are for.
    plan : How many labels to check.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, truth = twins.simulate("cifar10", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.1).sample(truth, k=10, random_state=0)
    >>> plan = nacp.choose_audit(probs, noisy, budget=200)
    >>> print(plan)
    200 of 4,000 labels to check: 53 of points whose true label may lie outside of the pilot's prediction set,
    and 147 of others.
    >>> cal = nacp.calibrate(probs, noisy, clean=(plan.rows, truth[plan.rows]), audit=plan)
    >>> cal.checked
    200
    """
    score, seed = as_score(score), check_count("random_state", random_state)
    check_fraction("alpha", alpha)
    rows, numbers, _ = open_points(
        probs,
        labels,
        probabilities=score.takes_probabilities,
        normalize=normalize,
        from_logits=from_logits,
        classes=classes,
    )
    aside = pilot_size(rows.n, rows.k)
    check_count("budget", budget, 1)
    if aside < 1:
        raise InputError("probs", "must have 10 rows or more to choose from", found=f"{rows.n}")
    if budget > rows.n - aside:
        raise InputError(
            "budget",
            f"must be at most {rows.n - aside:,} for {rows.n:,} points, of which {aside:,} are the pilot",
            found=f"{budget:,}", remedy="or check all labels, and pass them as clean=",
            spoken="or check all labels, and give them as --clean",
        )  # fmt: skip
    pilot, others = planned(rows.n, aside, seed)
    sample = Sample(rows, numbers, score)
    matrix = guessing_noise(sample, noise, pilot).matrix(rows.k)
    coverage = AuditedCoverage(sample, Audit(pilot[:0], pilot[:0], pilot, others), matrix)
    found = coverage.pilot(alpha, cut=CHOSEN_CUT)
    share = found.outside[0] / aside
    surely = share - _SURELY * np.sqrt(share * (1 - share) * (1 / len(others) + 1 / aside))
    number = min(round(chosen_share(share, alpha) * budget), int(surely * len(others)))
    if number < max(share * budget, _FEWEST):  # a random audit would check more of them
        return _plan(sample, alpha, seed, np.inf, aside, (0, 0), (others[:0], others[:budget]))
    (outside,) = coverage.outside([found.threshold], CHOSEN_CUT)
    return _parted(sample, alpha, seed, found.threshold, aside, outside, (number, budget - number))


def _parted(
    sample: Sample, alpha: float, seed: int, threshold: float, aside: int, outside: Bools,
    checks: tuple[int, int],
) -> AuditPlan:  # fmt: skip
    """Pick so many of the points that lie outside, and so many of the others."""
    pilot, others = planned(sample.n, aside, seed)
    sides = others[outside[others]], others[~outside[others]]
    if any(len(side) < number for side, number in zip(sides, checks, strict=True)):
        raise InputError(
            "budget", f"cannot be met: {len(sides[0]):,} points lie outside of the pilot's sets and "
            f"{len(sides[1]):,} inside", found=f"{sum(checks):,}", remedy="choose fewer labels",
        )  # fmt: skip
    counts = int(np.count_nonzero(outside[pilot])), len(sides[0])
    picks = sides[0][: checks[0]], sides[1][: checks[1]]
    return _plan(sample, alpha, seed, threshold, aside, counts, picks)


def _plan(
    sample: Sample, alpha: float, seed: int, threshold: float, aside: int, counts: tuple[int, int],
    picks: tuple[Ints, Ints],
) -> AuditPlan:  # fmt: skip
    """Return the plan that picks these points outside and inside, to be checked in random order."""
    rows = np.concatenate(picks)
    order = np.random.default_rng([seed, 1]).permutation(len(rows))
    first = np.arange(len(rows)) < len(picks[0])
    seen = digest(sample.labels, sample.label_scores)
    return AuditPlan(
        rows[order],
        first[order],
        alpha,
        sample.score,
        seed,
        sample.n,
        sample.k,
        threshold,
        aside,
        counts,
        seen,
    )


def same_audit(
    document: dict[str, Any],
    probs: Any,
    labels: Any,
    *,
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
) -> AuditPlan:
    """Return the plan that `AuditPlan.to_dict` described, for the same points."""
    try:
        score = rebuild("score", SCORES, document["score"])
        number, inside = (check_count("checks", each) for each in document["checks"])
        seed, aside, n, k = (
            check_count(name, document[name]) for name in ("random_state", "pilot", "n", "k")
        )
        alpha, threshold = float(document["alpha"]), float(document["threshold"])
        # In plans that were made before, points lie outside if their given label does.
        old = "picked" not in document
        few, many = (0, 0) if old else (check_count("counts", each) for each in document["counts"])
    except (KeyError, TypeError, ValueError, InputError):
        raise InputError("audit", "has a plan that cannot be read") from None
    rows, numbers, _ = open_points(
        probs,
        labels,
        probabilities=score.takes_probabilities,
        normalize=normalize,
        from_logits=from_logits,
        classes=classes,
    )
    if (n, k) != (rows.n, rows.k) or not 0 <= aside < n:
        raise InputError(
            "audit", f"was chosen from {n:,} points of {k:,} classes", found=f"{rows.n:,} and {rows.k:,}"
        )
    sample = Sample(rows, numbers, score)
    if document.get("digest") != digest(numbers, sample.label_scores):
        raise InputError("audit", "was chosen from other points than these, or with other labels")
    if old:
        outside = sample.label_scores > threshold
        return _parted(sample, alpha, seed, threshold, aside, outside, (number, inside))
    picks = picked(document["picked"], planned(n, aside, seed)[1], (number, inside))
    return _plan(sample, alpha, seed, threshold, aside, (few, many), picks)
