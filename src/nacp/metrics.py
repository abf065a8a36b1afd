"""Size and coverage of prediction sets on test points: evaluate()."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Bools, Ints
from nacp.audit.checked_labels import open_clean
from nacp.audit.checked_sample import Strata
from nacp.audit.plan import AuditPlan, audit_by, check_plan
from nacp.checks import check_fraction
from nacp.coverage.contradiction import warn_of
from nacp.errors import InputError
from nacp.groups.class_coverage import TAIL, ClassCoverage, class_coverage
from nacp.groups.grouping import check_class_groups, check_row_groups
from nacp.groups.noisy_coverage import NoisyCoverage
from nacp.noise import NoiseLike, noise_by_group, noise_for
from nacp.points import check_aligned, check_labels
from nacp.sets import PredictionSets, contained
from nacp.stats.intervals import exact_share
from nacp.wrapping import counted, wrapped

# Sizes by which coverage is stratified, as in Angelopoulos et al. (2021), and the rest.
_SIZE_BOUNDS = (1, 3, 10, 100, 1000)
_SIZES = len(_SIZE_BOUNDS) + 1
# The number of classes, or of groups, in a printed table.
_WORST = 5
_MEANINGS = {
    "n": "test points",
    "coverage": "the share of sets that hold the true label",
    "mean_size": "how many labels a set holds, on average",
    "median_size": "half of the sets hold no more labels than this",
    "empty": "the share of sets without a label; with allow_empty=False (--no-allow-empty) there are none",
    "singleton": "the share of sets with one label",
    "worst_class_coverage": "the coverage of the class that is covered least",
    "worst_group_coverage": "the coverage of the group that is covered least",
    "class_coverage_gap": "how far the coverage of a class is from the target, on average over classes",
    "size_stratified_violation": "the largest distance of coverage from the target among sets of similar "
    "size (0 to 1, 2 to 3, 4 to 10, 11 to 100, 101 to 1,000 labels, more); it is large if small sets miss "
    "more often than large ones",
}
# The names of groups, the place of each row or of each class among them, and whether it is of classes.
_Kinds: TypeAlias = tuple[tuple[Any, ...], Ints, bool]
# How many standard errors 95% intervals reach.
REACH = 1.96


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found.

    Attributes
    ----------
    n : int
        The number of test points.
    coverage : float
        The share of sets that contain the true label.
    mean_size, median_size : float
        Of the sets.
    empty, singleton : float
        The shares of sets with no label and with one.
    worst_class_coverage : float or None
        The lowest coverage of any class that has enough points for an estimate; None if there is none.
    class_coverage_gap : float or None
        The mean over classes of ``|coverage of the class - (1 - alpha)|``; None if alpha is not known, and
        from noisy labels.
    size_stratified_violation : float or None
        The largest ``|coverage - (1 - alpha)|`` among the sets of 0 to 1, 2 to 3, 4 to 10, 11 to 100,
        101 to 1000 and more labels; None if alpha is not known, and from noisy labels.
    size_error : float
        The standard error of the mean size; infinite for one set.
    coverage_interval : tuple of two floats
        An interval for the coverage of these sets on new points: exact (Clopper and Pearson) for true
        labels, by betting for noisy ones. In both cases it is valid for any number of points. With `audit` it
        combines the exact intervals of two strata and is approximate.
    confidence : float
        The confidence of this interval and those of groups: 0.95, less the probability that the true noise
        lies outside of an interval or radius around the noise model.
    basis : str
        The labels on which this rests.
    labelled : int or None
        The number of points whose true labels are known; None if the labels are noisy, and with `audit`, as
        these points do not count alike.
    groups : ClassCoverage or None
        The coverage of each group, with an interval, if there were groups.
    by_class : ClassCoverage
        The coverage of each class, with an interval. From noisy labels intervals of classes, and of groups of
        classes, are approximate: see `coverage_by_class`. So are these and those of groups with `audit`.
    """

    n: int
    coverage: float
    mean_size: float
    median_size: float
    empty: float
    singleton: float
    worst_class_coverage: float | None
    class_coverage_gap: float | None
    size_stratified_violation: float | None
    size_error: float
    coverage_interval: tuple[float, float]
    confidence: float
    basis: str
    labelled: int | None
    by_class: ClassCoverage = field(repr=False, compare=False)
    groups: ClassCoverage | None = field(default=None, repr=False, compare=False)

    @property
    def worst_group_coverage(self) -> float | None:
        """The lowest coverage of any group; None if there were no groups."""
        return None if self.groups is None else float(np.nanmin(self.groups.coverage))

    @property
    def size_interval(self) -> tuple[float, float]:
        """The normal 95% interval of the mean size of these sets on new points."""
        reach = REACH * self.size_error
        return max(self.mean_size - reach, 0.0), self.mean_size + reach

    def to_dict(self) -> dict[str, Any]:
        """Return all metrics by name, with both intervals: plain values, for JSON or a table.

        Examples
        --------
        >>> import nacp
        >>> found = nacp.evaluate(nacp.PredictionSets([0, 2, 2, 3], [0, 2, 1], k=3), [2, 0, 1])
        >>> {name: found.to_dict()[name] for name in ("n", "coverage_interval")}
        {'n': 3, 'coverage_interval': (0.094..., 0.991...)}
        """
        skipped = "groups", "by_class"
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in skipped}
        found["size_interval"] = self.size_interval
        if self.groups is not None:
            found["worst_group_coverage"] = self.worst_group_coverage
            found["groups"] = self.groups.worst(len(self.groups.coverage))
        return found

    def _told(self) -> dict[str, str]:
        """Return the metrics that are known by name, with what they mean."""
        intervals = {
            "coverage": (self.confidence, self.coverage_interval),
            "mean_size": (1 - 2 * TAIL, self.size_interval),
        }
        told = {}
        for name, meaning in _MEANINGS.items():
            value = getattr(self, name)
            if name in intervals:
                confidence, (low, high) = intervals[name]
                meaning += f"; {100 * confidence:.4g}% interval: {low:.6g} to {high:.6g}"
            if value is not None:
                text = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
                told[name.replace("_", " ")] = f"{text} ({meaning})"
        return told

    def __str__(self) -> str:
        told = [wrapped(f"{name}: {text}") for name, text in self._told().items()]
        tables = [f"\n{each.table(_WORST)}" for each in (self.groups, self.by_class) if each is not None]
        return "\n".join(told + tables)

    def _repr_html_(self) -> str:
        from nacp.show.html import card, table

        groups = self.groups._repr_html_() if self.groups else ""
        return card("Evaluation", table((), self._told().items(), left=(0, 1))) + groups


def evaluate(
    sets: PredictionSets,
    labels: ArrayLike | None,
    *,
    noise: NoiseLike | Mapping[Any, NoiseLike] = None,
    noise_groups: ArrayLike | None = None,
    clean: Any = None,
    audit: AuditPlan | None = None,
    alpha: float | None = None,
    groups: Any = None,
) -> Evaluation:
    """Measure coverage and size of prediction sets, on true labels or on noisy ones.

    The sets must not depend on these labels. With noisy labels the coverage is an unbiased estimate, and its
    interval is valid if the noise model is right and does not depend on the input given the true label. With
    `clean` nothing is assumed about the noise.

    Parameters
    ----------
    sets : PredictionSets
        The sets of n test points.
    labels : array of shape (n,) or None
        Their labels: numbers, or names if the sets have class names. Not used with `clean`.
    noise : float, array of shape (k, k), noise model, dict of these or None
        The noise of the labels, as in `calibrate`; ``None`` means that the labels are true.
    noise_groups : array of shape (n,), optional
        The group of each point, if `noise` is a dict with one model per group.
    clean : array of shape (n,) or pair (rows, labels), optional
        The true labels of points that were drawn at random and checked, as in `calibrate`. Coverage is then
        measured on these points alone, and a label that could not be decided ("?") counts as not covered.
    audit : AuditPlan, optional
        The plan returned by `choose_audit`, if it selected the checked points. Each is weighted by the number
        of points that it stands for, so that the estimate of coverage is unbiased. The plan must be of test
        points: if the checked labels of a calibration are used again, coverage looks better than it is.
    alpha : float, optional
        By default the alpha that the sets were made with.
    groups : array of shape (n,) or mapping, optional
        The group of each point, or a mapping from classes to groups: the coverage of each group is measured,
        too.

    Returns
    -------
    Evaluation

    Warns
    -----
    NoiseModelWarning
        If the noise model puts the coverage outside of [0, 1].

    See Also
    --------
    judge : Whether a promise was kept.
    coverage_by_class : The coverage of each class at any confidence.

    Examples
    --------
    >>> import nacp
    >>> sets = nacp.PredictionSets([0, 2, 2, 3], [0, 2, 1], k=3)
    >>> result = nacp.evaluate(sets, [2, 0, 1], alpha=0.25)
    >>> result.coverage, result.mean_size, result.empty, result.class_coverage_gap
    (0.666..., 1.0, 0.333..., 0.416...)
    >>> print(nacp.evaluate(sets, [2, 0, 1], groups=["north", "north", "south"]).groups)
    Coverage by group.
    group  coverage          interval  labels
    north    0.5000  0.0126 to 0.9874       2
    south    1.0000  0.0250 to 1.0000       1
    Each interval is for its group alone.

    From noisy labels, and from 300 of them that were checked:

    >>> from nacp.paper import twins
    >>> probs, true = twins.simulate("cifar10", n=6000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.2).sample(true, 10, random_state=0)
    >>> sets = nacp.calibrate(probs[:3000], noisy[:3000], noise=0.2).predict_set(probs[3000:])
    >>> found = nacp.evaluate(sets, noisy[3000:], noise=0.2)
    >>> low, high = found.coverage_interval
    >>> bool(low < sets.contains(true[3000:]).mean() < high)
    True
    >>> nacp.evaluate(sets, noisy[3000:], clean=(range(300), true[3000:3300])).basis
    '300 checked labels'
    >>> plan = nacp.choose_audit(probs[3000:], noisy[3000:], budget=300)
    >>> clean = plan.rows, true[3000:][plan.rows]
    >>> nacp.evaluate(sets, noisy[3000:], clean=clean, audit=plan).basis
    '300 checked labels of an audit plan'
    """
    if not isinstance(sets, PredictionSets):
        raise InputError("sets", "must be PredictionSets, as from predict_set", found=type(sets).__name__)
    level = sets.alpha if alpha is None else check_fraction("alpha", alpha)
    for argument, each in (("groups", groups), ("clean", clean)):
        if labels is not None:
            check_aligned(each, labels, "labels", argument)
    options = {"noise": noise, "noise_groups": noise_groups, "clean": clean, "audit": audit, "groups": groups}
    return evaluated([sets], labels, len(sets), sets.k, sets.classes, level, **options)


def evaluated(
    blocks: Iterable[PredictionSets],
    labels: Any,
    n: int,
    k: int,
    classes: tuple[Any, ...] | None,
    level: float | None,
    *,
    noise: Any = None,
    noise_groups: Any = None,
    clean: Any = None,
    audit: AuditPlan | None = None,
    groups: Any = None,
) -> Evaluation:
    """Return what `evaluate` finds for n sets that come in blocks, so that not all need to be in memory."""
    if n == 0:
        raise InputError("sets", "is empty: there is nothing to evaluate")
    rows: Any = slice(None)
    places, strata = None, None
    if audit is not None and clean is None:
        raise InputError("audit", "needs clean, the labels that were checked by it")
    if clean is not None:
        if noise is not None or noise_groups is not None:
            problem = "has no effect: coverage is measured on the checked labels"
            raise InputError("noise", problem, remedy="leave it out")
        rows, labels = open_clean(clean, n, k, classes)
        if audit is not None:
            check_plan(audit)
            by_plan = audit_by(audit, n, rows, labels)
            rows, labels, strata = by_plan.rows, by_plan.labels, by_plan.strata
        basis = counted(len(labels), "checked label") + " of an audit plan" * (audit is not None)
    elif labels is None:
        raise InputError("labels", "must be given", remedy="or clean=", spoken="or --clean FILE")
    else:
        labels, basis = check_labels(labels, n, k, classes), f"{counted(n, 'label')} taken as true"
    if isinstance(noise, Mapping) or noise_groups is not None:
        noise, places = noise_by_group(noise, noise_groups, n, k)
    model = noise_for(noise, k, n)
    kinds: _Kinds | None = None
    if isinstance(groups, Mapping):
        kinds = *check_class_groups(groups, k, classes), True
    elif groups is not None:
        kinds = *check_row_groups(groups, n), False
    every = np.full(n, -1)
    every[rows] = labels
    noisy = []
    if model is not None:
        basis = f"{counted(n, 'noisy label')} ({model.describe(k)})"
        weighed = labels if places is None else places * k + labels
        some = (None,) if kinds is None or not kinds[2] else (None, kinds[1])
        noisy = [NoisyCoverage(model, weighed, k, each) for each in some]
    covered, sizes, start = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.int64), 0
    for sets in blocks:
        here = slice(start, start + len(sets))
        start, sizes[here], covered[here] = here.stop, sets.sizes, contained(sets, every[here])
        for estimate in noisy:
            estimate.add(sets)
    gap, violation = None, None
    if model is not None and noisy[0].contradicts():
        said = f"the labels contradict {model.describe(k)}: the estimated coverage is below 0% or above 100%"
        warn_of([f"{said}. Do not rely on it: check some labels and pass these as clean="])
    if model is None:
        found = _of_true(covered[rows], labels, kinds, k, classes, rows, strata)
        if level is not None:
            weights = None if strata is None else strata.weights
            of_size = np.searchsorted(_SIZE_BOUNDS, sizes[rows])
            by_size = class_coverage(covered[rows], of_size, _SIZES, weights=weights)
            gap, violation = (np.abs(each.coverage - 1 + level) for each in (found[2], by_size))
    else:
        found = _of_noisy(noisy, labels, kinds, k, classes)
    coverage, interval, by_class, by_group = found
    measured = by_class.coverage[by_class.informative]
    missing = 0.0 if model is None else model.doubt.missing
    return Evaluation(
        n=n,
        coverage=coverage,
        mean_size=float(sizes.mean()),
        median_size=float(np.median(sizes)),
        empty=float((sizes == 0).mean()),
        singleton=float((sizes == 1).mean()),
        worst_class_coverage=float(measured.min()) if len(measured) else None,
        class_coverage_gap=None if gap is None else float(np.nanmean(gap)),
        size_stratified_violation=None if violation is None else float(np.nanmax(violation)),
        size_error=float(sizes.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf,
        coverage_interval=interval,
        confidence=max(1 - 2 * TAIL - missing, 0.0),
        basis=basis,
        labelled=len(labels) if model is None and strata is None else None,
        by_class=by_class,
        groups=by_group,
    )


_Found: TypeAlias = tuple[float, tuple[float, float], ClassCoverage, ClassCoverage | None]


def _of_true(
    covered: Bools, labels: Ints, kinds: _Kinds | None, k: int, classes: Any, rows: Any, strata: Strata | None
) -> _Found:
    """Return what true labels tell; one of -1 is not covered and has no class.

    Intervals are exact, unless the points were picked by a plan, from `strata`.
    """
    if strata is None:
        (low,), (high,) = exact_share(np.array([covered.sum()]), np.array([len(covered)]), TAIL)
        interval, weights = (float(low), float(high)), np.ones(len(covered))
    else:
        interval, weights = strata.interval(covered, TAIL), strata.weights
    decided, by_group = labels >= 0, None
    own = weights[decided]
    by_class = class_coverage(covered[decided], labels[decided], k, classes=classes, weights=own)
    if kinds is not None:
        names, places, of_classes = kinds
        some = decided if of_classes else np.ones(len(covered), dtype=bool)
        where = places[labels[decided]] if of_classes else places[rows]
        about: dict[str, Any] = {"classes": names, "kind": "group", "weights": weights[some]}
        by_group = class_coverage(covered[some], where, len(names), **about)
    return float(np.average(covered, weights=weights)), interval, by_class, by_group


def _of_noisy(noisy: list[NoisyCoverage], labels: Ints, kinds: _Kinds | None, k: int, classes: Any) -> _Found:
    """Return what noisy labels tell."""
    coverage, low, high = noisy[0].of_rows(slice(None), TAIL)
    count, by_group = np.bincount(labels, minlength=k), None
    by_class = ClassCoverage(*noisy[0].of_classes(TAIL), count, classes)
    if kinds is not None:
        names, places, of_classes = kinds
        count = np.bincount(places[labels] if of_classes else places, minlength=len(names))
        if of_classes:
            found = noisy[1].of_classes(TAIL)
        else:
            of_each = np.array([noisy[0].of_rows(places == g, TAIL) for g in range(len(names))])
            found = of_each[:, 0], of_each[:, 1], of_each[:, 2]
        by_group = ClassCoverage(*found, count, names, "group")
    return coverage, (low, high), by_class, by_group
