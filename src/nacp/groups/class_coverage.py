"""Coverage of each class, or of each group, with intervals; from noisy labels too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Bools, Floats, Ints
from nacp.checks import check_fraction
from nacp.groups.noisy_coverage import NoisyCoverage
from nacp.noise import NoiseLike, noise_for
from nacp.points import check_labels
from nacp.sets import PredictionSets
from nacp.stats.intervals import exact_share
from nacp.wrapping import table_lines, wrapped

TAIL = 0.025  # The part outside of a 95% interval on each side.
_SHOWN = 10  # The number of classes in the printed table.


@dataclass(frozen=True, eq=False, repr=False)
class ClassCoverage:
    """The coverage of each class, as `coverage_by_class` returns it, or of each group, as `evaluate` does.

    Print it to see the classes with the lowest coverage.

    Attributes
    ----------
    coverage, low, high : array of shape (k,)
        The share of the class's points whose sets contain it, and a confidence interval; nan where it cannot
        be estimated.
    count : array of shape (k,)
        The number of labels of the class.
    classes : tuple of length k, optional
        The class names.
    kind : {"class", "group"}, default="class"
        Whether entries are of classes or of groups.
    """

    coverage: Floats
    low: Floats
    high: Floats
    count: Ints
    classes: tuple[Any, ...] | None = None
    kind: str = "class"

    @property
    def informative(self) -> Bools:
        """Whether each class has enough points for an interval that is smaller than [0, 1]."""
        return np.isfinite(self.coverage) & ((self.low > 0) | (self.high < 1))

    def worst_first(self) -> Ints:
        """Return the classes with an estimate, by ascending coverage."""
        order = np.argsort(self.coverage, kind="stable")
        return order[np.isfinite(self.coverage[order])]

    def worst(self, most: int) -> list[dict[str, Any]]:
        """Return "class" (or "group"), "coverage", "low", "high" and "count", by ascending coverage."""
        names = range(len(self.coverage)) if self.classes is None else self.classes
        return [
            {self.kind: names[i]}
            | {name: float(getattr(self, name)[i]) for name in ("coverage", "low", "high")}
            | {"count": int(self.count[i])}
            for i in self.worst_first()[:most].tolist()
        ]

    def table(self, most: int) -> str:
        """Return a table of up to `most` classes with the lowest coverage, with a title and a note."""
        title, table, note = self._parts(most)
        return "\n".join([wrapped(title), *table_lines(table, 1), wrapped(note)])

    def _parts(self, most: int) -> tuple[str, list[tuple[str, ...]], str]:
        """Return the title, the table and the note that are shown."""
        known, several = int(np.isfinite(self.coverage).sum()), {"class": "classes"}.get(self.kind, "groups")
        title = f"Coverage by {self.kind}."
        if most < known:
            title = f"The {most} of {known:,} {several} that are covered least."
        note = f"Each interval is for its {self.kind} alone"
        note += "." if known < 3 else f"; of many {several} some come out low by chance."
        rows = [
            (f"{name}", f"{coverage:.4f}", f"{low:.4f} to {high:.4f}", f"{count:,}")
            for name, coverage, low, high, count in (each.values() for each in self.worst(most))
        ]
        return title, [(self.kind, "coverage", "interval", "labels"), *rows], note

    def __repr__(self) -> str:
        return f"ClassCoverage(k={len(self.coverage)})"

    def __str__(self) -> str:
        return self.table(_SHOWN)

    def _repr_html_(self) -> str:
        from nacp.show.html import card, sentence, table

        title, (header, *rows), note = self._parts(_SHOWN)
        return card("ClassCoverage", sentence(title), table(header, rows), sentence(note))


def coverage_by_class(
    sets: PredictionSets, labels: ArrayLike, *, noise: NoiseLike = None, confidence: float = 0.95
) -> ClassCoverage:
    """Return the coverage of each class, with an interval; from noisy labels too.

    With clean labels the intervals are exact (Clopper and Pearson). With noisy ones, class l has the estimate
    ``mean(W[y, l] 1{l in C(x)}) / mean(W[y, l])``, W the inverse of the noise matrix, clipped to [0, 1], and
    Fieller's approximate interval for a ratio of means, with two covered and two missed points added.

    Parameters
    ----------
    sets : PredictionSets
        The sets of n points. With noisy labels these should not be the calibration points; with one threshold
        for all classes that matters little.
    labels : array of shape (n,)
        Their labels: numbers, or names if the sets have class names.
    noise : float, array of shape (k, k), noise model or None
        The noise of the labels, as in `calibrate`; ``None`` if they are right.
    confidence : float, default=0.95
        The confidence of each single interval.

    Returns
    -------
    ClassCoverage

    Examples
    --------
    >>> import nacp
    >>> sets = nacp.PredictionSets([0, 2, 2, 3, 4], [0, 2, 1, 2], k=3)
    >>> print(nacp.coverage_by_class(sets, [2, 0, 1, 1]))
    Coverage by class.
    class  coverage          interval  labels
    0        0.0000  0.0000 to 0.9750       1
    1        0.5000  0.0126 to 0.9874       2
    2        1.0000  0.0250 to 1.0000       1
    Each interval is for its class alone; of many classes some come out low by
    chance.
    """
    numbers = check_labels(labels, len(sets), sets.k, sets.classes)
    tail = (1 - check_fraction("confidence", confidence)) / 2
    known = noise_for(noise, sets.k)
    if known is None:
        return class_coverage(sets.contains(labels), numbers, sets.k, classes=sets.classes, tail=tail)
    noisy = NoisyCoverage(known, numbers, sets.k)
    noisy.add(sets)
    return ClassCoverage(*noisy.of_classes(tail), np.bincount(numbers, minlength=sets.k), sets.classes)


def class_coverage(
    covered: Bools,
    labels: Ints,
    k: int,
    *,
    classes: Any = None,
    tail: float = TAIL,
    kind: str = "class",
    weights: Floats | None = None,
) -> ClassCoverage:
    """Return the coverage of each class from its true labels and from whether each set covers.

    Where labels have `weights`, intervals are those of the number of equal ones that says as much (Kish).
    """
    own = np.ones(len(labels)) if weights is None else weights
    total, held, squares = (np.bincount(labels, each, minlength=k) for each in (own, own * covered, own**2))
    with np.errstate(invalid="ignore"):  # 0 / 0 for a class without labels
        share, scale = held / total, total / squares
    interval = exact_share(held * scale, total * scale, tail)
    return ClassCoverage(share, *interval, np.bincount(labels, minlength=k), classes, kind)
