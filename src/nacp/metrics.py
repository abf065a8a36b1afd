"""How prediction sets do on true labels: evaluate()."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Bools, Floats, Ints
from nacp.checks import check_fraction
from nacp.errors import InputError
from nacp.groups.class_coverage import TAIL, ClassCoverage, class_coverage
from nacp.groups.grouping import check_class_groups, check_row_groups
from nacp.points import check_aligned, check_labels
from nacp.sets import PredictionSets
from nacp.stats.intervals import exact_share

# Sizes by which coverage is stratified, as in Angelopoulos et al. (2021), and the rest.
_SIZE_BOUNDS = (1, 3, 10, 100, 1000)
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
    worst_class_coverage : float
        The lowest coverage of any class among the labels.
    class_coverage_gap : float or None
        The mean over classes of ``|coverage of the class - (1 - alpha)|``; None if alpha is not known.
    size_stratified_violation : float or None
        The largest ``|coverage - (1 - alpha)|`` among the sets of 0 to 1, 2 to 3, 4 to 10, 11 to 100,
        101 to 1000 and more labels; None if alpha is not known.
    size_error : float
        The standard error of the mean size; infinite for one set.
    groups : ClassCoverage or None
        The coverage of each group, with exact intervals, if there were groups.
    """

    n: int
    coverage: float
    mean_size: float
    median_size: float
    empty: float
    singleton: float
    worst_class_coverage: float
    class_coverage_gap: float | None
    size_stratified_violation: float | None
    size_error: float
    groups: ClassCoverage | None = field(default=None, repr=False, compare=False)

    @property
    def coverage_interval(self) -> tuple[float, float]:
        """The exact (Clopper-Pearson) 95% interval of the coverage of these sets on new points."""
        hits, trials = np.array([[round(self.coverage * self.n)], [self.n]])
        (low,), (high,) = exact_share(hits, trials, TAIL)
        return float(low), float(high)

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
        found = asdict(replace(self, groups=None))
        found |= {"coverage_interval": self.coverage_interval, "size_interval": self.size_interval}
        if self.groups is not None:
            found["worst_group_coverage"] = self.worst_group_coverage
            found["groups"] = self.groups.worst(len(self.groups.coverage))
        return found

    def __str__(self) -> str:
        told = "\n".join(f"{name:<26}{value}" for name, value in self._told().items())
        return told if self.groups is None else f"{told}\n{self.groups}"

    def _told(self) -> dict[str, str]:
        """Return the metrics by name, written out."""
        names = [each.name for each in fields(self) if each.name not in ("size_error", "groups")]
        if self.groups is not None:
            names.append("worst_group_coverage")
        return {name.replace("_", " "): _written(getattr(self, name)) for name in names}

    def _repr_html_(self) -> str:
        from nacp.show.html import card, facts

        told = self._told()
        for name, (low, high) in (("coverage", self.coverage_interval), ("mean size", self.size_interval)):
            told[name] += f" (95%: {low:.6g} to {high:.6g})"
        return card("Evaluation", facts(told.items())) + (self.groups._repr_html_() if self.groups else "")


def evaluate(
    sets: PredictionSets, labels: ArrayLike, *, alpha: float | None = None, groups: Any = None
) -> Evaluation:
    """Measure coverage and size of prediction sets.

    Parameters
    ----------
    sets : PredictionSets
        The sets of n test points.
    labels : array of shape (n,)
        Their true labels: numbers, or names if the sets have class names.
    alpha : float, optional
        By default the alpha that the sets were made with.
    groups : array of shape (n,) or mapping, optional
        The group of each point, or a mapping from classes to groups: the coverage of each group is measured,
        too. That of each class by itself is what `coverage_by_class` is for.

    Returns
    -------
    Evaluation

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
    """
    if not isinstance(sets, PredictionSets):
        raise InputError("sets", "must be PredictionSets, as from predict_set", found=type(sets).__name__)
    numbers = check_labels(labels, len(sets), sets.k, sets.classes)
    level = sets.alpha if alpha is None else check_fraction("alpha", alpha)
    grouping = None
    if groups is not None:
        check_aligned(groups, labels, "labels")
        grouping = groups_of_points(groups, numbers, sets.k, sets.classes)
    return summarize(sets.contains(labels), sets.sizes, numbers, level, grouping)


def groups_of_points(
    groups: Any, labels: Ints, k: int, classes: tuple[Any, ...] | None
) -> tuple[tuple[Any, ...], Ints]:
    """Return the names of groups, of rows or of classes, and which of them each point has."""
    if not isinstance(groups, Mapping):
        return check_row_groups(groups, len(labels))
    names, places = check_class_groups(groups, k, classes)
    return names, places[labels]


def summarize(
    covered: Bools,
    sizes: Ints,
    labels: Ints,
    level: float | None,
    grouping: tuple[tuple[Any, ...], Ints] | None = None,
) -> Evaluation:
    """Return the metrics of sets of which no more is known than their sizes and whether they cover.

    `grouping` has the names of groups, and of each point the place of its group among them.
    """
    n = len(sizes)
    if n == 0:
        raise InputError("sets", "is empty: there is nothing to evaluate")
    by_class, by_size = _shares(covered, labels), _shares(covered, np.searchsorted(_SIZE_BOUNDS, sizes))
    found = Evaluation(
        n=n,
        coverage=float(covered.mean()),
        mean_size=float(sizes.mean()),
        median_size=float(np.median(sizes)),
        empty=float((sizes == 0).mean()),
        singleton=float((sizes == 1).mean()),
        worst_class_coverage=float(by_class.min()),
        class_coverage_gap=None if level is None else float(np.abs(by_class - 1 + level).mean()),
        size_stratified_violation=None if level is None else float(np.abs(by_size - 1 + level).max()),
        size_error=float(sizes.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf,
    )
    if grouping is None:
        return found
    names, places = grouping
    return replace(found, groups=class_coverage(covered, places, len(names), classes=names, kind="group"))


def _written(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _shares(covered: Bools, group: Ints) -> Floats:
    """Return the share of sets that cover, in each group that has some."""
    count = np.bincount(group)
    shares: Floats = np.bincount(group, covered)[count > 0] / count[count > 0]
    return shares
