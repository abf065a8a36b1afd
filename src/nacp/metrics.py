"""evaluate(): how prediction sets do on labels that are known to be right."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Array
from nacp._validation import check_fraction, check_labels
from nacp.sets import PredictionSets

# Sizes by which coverage is stratified, as in Angelopoulos et al. (2021), and the rest.
_SIZE_BOUNDS = (1, 3, 10, 100, 1000)
# What 95% intervals leave out on each side, and how many standard errors they reach.
_TAIL, REACH = 0.025, 1.96


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

    @property
    def coverage_interval(self) -> tuple[float, float]:
        """The exact (Clopper-Pearson) 95% interval of the coverage of these sets on new points."""
        from scipy.special import betaincinv

        hits = round(self.coverage * self.n)
        low = 0.0 if hits == 0 else betaincinv(hits, self.n - hits + 1, _TAIL)
        high = 1.0 if hits == self.n else betaincinv(hits + 1, self.n - hits, 1 - _TAIL)
        return float(low), float(high)

    @property
    def size_interval(self) -> tuple[float, float]:
        """The normal 95% interval of the mean size of these sets on new points."""
        reach = REACH * self.size_error
        return max(self.mean_size - reach, 0.0), self.mean_size + reach

    def __str__(self) -> str:
        return "\n".join(f"{name:<26}{value}" for name, value in self._told)

    @property
    def _told(self) -> list[tuple[str, str]]:
        """The metrics by name, written out."""
        shown = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "size_error"}
        return [
            (name.replace("_", " "), "-" if value is None else format(value, ".6g"))
            for name, value in shown.items()
        ]

    def _repr_html_(self) -> str:
        from nacp._html import card, facts

        intervals = {"coverage": self.coverage_interval, "mean size": self.size_interval}
        told = [
            (name, f"{value} (95%: {intervals[name][0]:.6g} to {intervals[name][1]:.6g})")
            if name in intervals
            else (name, value)
            for name, value in self._told
        ]
        return card("Evaluation", facts(told))


def evaluate(sets: PredictionSets, labels: ArrayLike, *, alpha: float | None = None) -> Evaluation:
    """Measure coverage and size of prediction sets.

    Parameters
    ----------
    sets : PredictionSets
        The sets of n test points.
    labels : array of shape (n,)
        Their true labels: numbers, or names if the sets have class names.
    alpha : float, optional
        By default the alpha that the sets were made with.

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
    """
    if not isinstance(sets, PredictionSets):
        raise ValueError(f"sets must be PredictionSets, as from predict_set; found {type(sets).__name__}")
    given = check_labels(labels, len(sets), sets.k, sets.classes)
    if len(sets) == 0:
        raise ValueError("sets is empty: there is nothing to evaluate")
    level = sets.alpha if alpha is None else check_fraction("alpha", alpha)
    covered, sizes = sets.contains(labels), sets.sizes
    per_class = _means(given, covered)
    per_size = _means(np.searchsorted(_SIZE_BOUNDS, sizes), covered)
    return Evaluation(
        n=len(sets),
        coverage=float(covered.mean()),
        mean_size=float(sizes.mean()),
        median_size=float(np.median(sizes)),
        empty=float(np.mean(sizes == 0)),
        singleton=float(np.mean(sizes == 1)),
        worst_class_coverage=float(per_class.min()),
        class_coverage_gap=None if level is None else float(np.abs(per_class - 1 + level).mean()),
        size_stratified_violation=None if level is None else float(np.abs(per_size - 1 + level).max()),
        size_error=float(sizes.std(ddof=1) / np.sqrt(len(sizes))) if len(sizes) > 1 else np.inf,
    )


def _means(groups: Array, values: Array) -> Array:
    """Return the mean value in each group that occurs."""
    counts = np.bincount(groups)
    sums = np.bincount(groups, values)
    return sums[counts > 0] / counts[counts > 0]
