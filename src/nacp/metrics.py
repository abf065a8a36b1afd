"""How prediction sets do: evaluate() on true labels, coverage_by_class() on noisy ones too."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Array, Bools, Floats, Ints
from nacp.checks import check_fraction
from nacp.errors import InputError
from nacp.lazy import LazySets
from nacp.noise import NoiseLike, noise_for
from nacp.noise.matrices import ClassMatrix
from nacp.points import check_labels
from nacp.points.arrays import row_slices
from nacp.sets import PredictionSets, counts_of, set_counts
from nacp.stats.intervals import exact_share
from nacp.wrapping import table_lines, wrapped

# Sizes by which coverage is stratified, as in Angelopoulos et al. (2021), and the rest.
_SIZE_BOUNDS = (1, 3, 10, 100, 1000)
# What 95% intervals leave out on each side, and how many standard errors they reach.
_TAIL, REACH = 0.025, 1.96
# Classes, when the coverage of each is printed.
_SHOWN = 10
_HEADER = ("class", "coverage", "interval", "labels")
# So many points are added for an interval from noisy labels, half of them covered.
_ADDED = 4


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
        hits, trials = np.array([[round(self.coverage * self.n)], [self.n]])
        (low,), (high,) = exact_share(hits, trials, _TAIL)
        return float(low), float(high)

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
        intervals = {"coverage_interval": self.coverage_interval, "size_interval": self.size_interval}
        return asdict(self) | intervals

    def __str__(self) -> str:
        return "\n".join(f"{name:<26}{value}" for name, value in self._told().items())

    def _told(self) -> dict[str, str]:
        """Return the metrics by name, written out."""
        shown = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "size_error"}
        return {
            name.replace("_", " "): "-"
            if value is None
            else f"{value:,}"
            if isinstance(value, int)
            else f"{value:,.6g}"
            for name, value in shown.items()
        }

    def _repr_html_(self) -> str:
        from nacp.show.html import card, facts

        told = self._told()
        for name, (low, high) in (("coverage", self.coverage_interval), ("mean size", self.size_interval)):
            told[name] += f" (95%: {low:.6g} to {high:.6g})"
        return card("Evaluation", facts(told.items()))


def evaluate(sets: PredictionSets | LazySets, labels: ArrayLike, *, alpha: float | None = None) -> Evaluation:
    """Measure coverage and size of prediction sets.

    Parameters
    ----------
    sets : PredictionSets or LazySets
        The sets of n test points. Lazy ones are made and counted chunk by chunk.
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
    if not isinstance(sets, PredictionSets | LazySets):
        raise InputError("sets", "must be PredictionSets, as from predict_set", found=type(sets).__name__)
    numbers = check_labels(labels, len(sets), sets.k, sets.classes)
    level = sets.alpha if alpha is None else check_fraction("alpha", alpha)
    if len(sets) == 0:
        raise InputError("sets", "is empty: there is nothing to evaluate")
    if isinstance(sets, LazySets):
        return _summary(sets.counted(labels, numbers), level)
    return _summary(set_counts(sets, numbers), level)


def summarize(covered: Bools, sizes: Ints, labels: Ints, level: float | None) -> Evaluation:
    """Return the metrics of sets of which no more is known than their sizes and whether they cover."""
    if len(sizes) == 0:
        raise InputError("sets", "is empty: there is nothing to evaluate")
    k = max(int(sizes.max()), int(labels.max()) + 1)
    return _summary(counts_of(covered, sizes, labels, k), level)


def _summary(counts: Ints, level: float | None) -> Evaluation:
    """Return the metrics of sets, by how many there are of each size and class, and how many cover."""
    by_size, by_class = counts
    sizes, number = np.flatnonzero(by_size[0]), by_size[0][by_size[0] > 0]
    n = int(number.sum())
    total = int(sizes @ number)
    squares = float(((sizes - total / n) ** 2) @ number)
    per_class = _shares(by_class)
    bound = np.searchsorted(_SIZE_BOUNDS, np.arange(by_size.shape[1]))
    per_size = _shares(np.stack([np.bincount(bound, each) for each in by_size]))
    upto = np.cumsum(number)
    middle = sizes[np.searchsorted(upto, [(n + 1) // 2, n // 2 + 1])]
    return Evaluation(
        n=n,
        coverage=int(by_size[1].sum()) / n,
        mean_size=total / n,
        median_size=float(middle.mean()),
        empty=int(by_size[0, 0]) / n,
        singleton=int(by_size[0, 1]) / n,
        worst_class_coverage=float(per_class.min()),
        class_coverage_gap=None if level is None else float(np.abs(per_class - 1 + level).mean()),
        size_stratified_violation=None if level is None else float(np.abs(per_size - 1 + level).max()),
        size_error=math.sqrt(squares / (n - 1) / n) if n > 1 else np.inf,
    )


def _shares(counts: Array) -> Array:
    """Return the share of those that cover, where there are some."""
    shares: Array = counts[1, counts[0] > 0] / counts[0, counts[0] > 0]
    return shares


@dataclass(frozen=True, eq=False, repr=False)
class ClassCoverage:
    """What `coverage_by_class` found; each array has one entry per class. Print it for the worst classes.

    Attributes
    ----------
    coverage : array of shape (k,)
        The share of the class's points whose sets contain it; nan where nothing can be said.
    low, high : array of shape (k,)
        A confidence interval for it.
    count : array of shape (k,)
        How many of the labels name the class.
    classes : tuple of length k, optional
        The class names.
    """

    coverage: Floats
    low: Floats
    high: Floats
    count: Ints
    classes: tuple[Any, ...] | None = None

    def worst_first(self) -> Ints:
        """Return the classes of which something can be said, by ascending coverage."""
        order = np.argsort(self.coverage, kind="stable")
        return order[np.isfinite(self.coverage[order])]

    def worst(self, most: int) -> list[dict[str, Any]]:
        """Return what is known of the classes that are covered least.

        Parameters
        ----------
        most : int
            Of how many at most.

        Returns
        -------
        list of dict
            With "class", "coverage", "low", "high" and "count".
        """
        return [
            {
                "class": int(i) if self.classes is None else self.classes[i],
                "coverage": float(self.coverage[i]),
                "low": float(self.low[i]),
                "high": float(self.high[i]),
                "count": int(self.count[i]),
            }
            for i in self.worst_first()[:most]
        ]

    def table(self, most: int) -> str:
        """Return a table of the classes that are covered least, with words about it.

        Parameters
        ----------
        most : int
            How many rows it has at most.

        Returns
        -------
        str
        """
        rows = self._rows(most)
        title, told = self._words(len(rows))
        return "\n".join([wrapped(title), *table_lines([_HEADER, *rows], 1), wrapped(told)])

    def _rows(self, most: int) -> list[tuple[str, ...]]:
        return [
            (str(each["class"]), f"{each['coverage']:.4f}", f"{each['low']:.4f} to {each['high']:.4f}",
             f"{each['count']:,}")
            for each in self.worst(most)
        ]  # fmt: skip

    def _words(self, shown: int) -> tuple[str, str]:
        """Return what to say above and below a table of so many classes."""
        known = int(np.isfinite(self.coverage).sum())
        title = f"The {shown} of {known:,} classes that are covered least."
        told = "Each interval is for its class alone; of many classes some come out low by chance."
        return "Coverage by class." if shown == known else title, told

    def __repr__(self) -> str:
        return f"ClassCoverage(k={len(self.coverage)})"

    def __str__(self) -> str:
        return self.table(_SHOWN)

    def _repr_html_(self) -> str:
        from nacp.show.html import card, sentence, table

        rows = self._rows(_SHOWN)
        title, told = self._words(len(rows))
        return card("ClassCoverage", sentence(title), table(_HEADER, rows), sentence(told))


def coverage_by_class(
    sets: PredictionSets | LazySets, labels: ArrayLike, *, noise: NoiseLike = None, confidence: float = 0.95
) -> ClassCoverage:
    """Return the coverage of each class, with an interval; from noisy labels too.

    With clean labels the intervals are exact (Clopper and Pearson). With noisy ones, class l is covered by
    ``mean(W[y, l] 1{l in C(x)}) / mean(W[y, l])``, W the inverse of the noise matrix, and the intervals are
    approximate: Fieller's for a ratio of means, with two covered and two missed points added, as Agresti and
    Coull do for shares, so that they hold with few labels too. All is cut off at 0 and 1.

    Parameters
    ----------
    sets : PredictionSets or LazySets
        The sets of n points. For noisy labels best not the ones that chose the threshold, though with one
        threshold for all classes that matters little.
    labels : array of shape (n,)
        Their labels: numbers, or names if the sets have class names.
    noise : float, array of shape (k, k), noise model or None
        How the labels came to be wrong, as in `calibrate`; ``None`` if they are right.
    confidence : float, default=0.95
        Of each interval by itself.

    Returns
    -------
    ClassCoverage

    Examples
    --------
    >>> import nacp
    >>> sets = nacp.PredictionSets([0, 2, 2, 3, 4], [0, 2, 1, 2], k=3)
    >>> found = nacp.coverage_by_class(sets, [2, 0, 1, 1])
    >>> found.coverage.tolist(), found.worst_first().tolist()
    ([0.0, 0.5, 1.0], [0, 1, 2])
    >>> print(found)
    Coverage by class.
    class  coverage          interval  labels
    0        0.0000  0.0000 to 0.9750       1
    1        0.5000  0.0126 to 0.9874       2
    2        1.0000  0.0250 to 1.0000       1
    Each interval is for its class alone; of many classes some come out low by
    chance.
    """
    sets = sets.compute() if isinstance(sets, LazySets) else sets
    numbers = check_labels(labels, len(sets), sets.k, sets.classes)
    tail = (1 - check_fraction("confidence", confidence)) / 2
    count = np.bincount(numbers, minlength=sets.k)
    known = noise_for(noise, sets.k)
    if known is None:
        return class_coverage(sets.contains(labels), numbers, sets.k, classes=sets.classes, tail=tail)
    found = _weighted_share(sets, numbers, count, known.inverse(sets.k), tail)
    return ClassCoverage(*found, count, sets.classes)


def class_coverage(
    covered: Bools, labels: Ints, k: int, *, classes: tuple[Any, ...] | None = None, tail: float = _TAIL
) -> ClassCoverage:
    """Return the coverage of each class by true labels, if only whether each set covers is known."""
    count, held = (np.bincount(some, minlength=k) for some in (labels, labels[covered]))
    return ClassCoverage(_share(held, count), *exact_share(held, count, tail), count, classes)


def _weighted_share(
    sets: PredictionSets, labels: Ints, count: Ints, inverse: ClassMatrix, tail: float
) -> tuple[Floats, Floats, Floats]:
    """Return the estimates ``sum w 1{l in C} / sum w`` with ``w = W[y, l]``, and intervals for them."""
    from scipy.special import ndtri

    inside = inverse.entries(np.repeat(labels, sets.sizes), sets.labels)
    held, held_squares = (np.bincount(sets.labels, w, minlength=sets.k) for w in (inside, inside**2))
    total, squares = np.zeros((2, sets.k))
    columns = np.arange(sets.k)
    for rows in row_slices(sets.k, sets.k):
        block = inverse.entries(columns[rows, None], columns)
        total += count[rows] @ block
        squares += count[rows] @ block**2
    share = np.clip(_share(held, total), 0, 1)
    low, high = _fieller(
        held + _ADDED / 2 * inverse.diagonal,
        total + _ADDED * inverse.diagonal,
        held_squares + _ADDED / 2 * inverse.diagonal**2,
        squares + _ADDED * inverse.diagonal**2,
        float(ndtri(tail)) ** 2,
    )
    return share, low, high


def _fieller(
    part: Floats, total: Floats, part_squares: Floats, squares: Floats, z_squared: float
) -> tuple[Floats, Floats]:
    """Return where ``(part - c total)^2 <= z^2 (part_squares (1 - 2 c) + c^2 squares)``, cut off at 0 and 1.

    That is, where the residuals ``w (1{l in C} - c)`` do not contradict the share c. Everywhere, if the total
    itself may be 0.
    """
    a = total**2 - z_squared * squares
    b = part * total - z_squared * part_squares
    root = np.sqrt(np.maximum(b**2 - a * (part**2 - z_squared * part_squares), 0))
    known = a > 0
    low, high = (np.where(known, (b + side * root) / np.where(known, a, 1), 0.5 + side) for side in (-1, 1))
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def _share(part: Array, total: Array) -> Floats:
    """Return part / total; nan where the total is not positive."""
    share: Floats = np.divide(part, total, out=np.full(len(total), np.nan), where=total > 0)
    return share
