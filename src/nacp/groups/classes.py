"""Curves of the coverage within groups of classes, under one noise model.

For any phi(x, l) the mean of ``sum_l W[y, l] phi(x, l)`` over the noisy label y is phi at the true one. So
the coverage within a group G of classes is ``sum_i sum_{l in G} W[y_i, l] 1{S(x_i, l) <= q}`` divided by
``sum_i sum_{l in G} W[y_i, l]``, the group's *mass*: an estimate of how many of the points are of its classes
(docs/guarantees.md, G1). Each pair (row, label) belongs to one group, so all groups are counted in one pass.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.coverage.curve import Curve
from nacp.coverage.grid import BY_CLASS, CELLS
from nacp.coverage.sample import Block, Sample
from nacp.coverage.tally import Tally, Weights
from nacp.engine import scores
from nacp.noise import Noise

_COUNTED = 1 << 23  # so many cells of groups are counted in one pass


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassCurve(Curve):
    """The estimate of the coverage within a group of classes.

    Attributes
    ----------
    classes : array of int
        The group.
    mass : float
        How many of the points are estimated to be of these classes.
    alpha : float
        What the shares of points are for.
    """

    classes: Ints
    mass: float
    alpha: float

    @property
    def points(self) -> int:
        return int(self.tally.hits.sum())

    @property
    def members(self) -> Ints:
        return self.classes

    @property
    def absent(self) -> str | None:
        if self.mass > 0:
            return None
        if not self.points:
            return "no given label is of this group"
        return "by the noise model, its labels are all wrong ones"

    @cached_property
    def clean(self) -> Floats:
        return self._weighed(1.0, -1.0) / self._divisor

    @cached_property
    def losses(self) -> Floats:
        return self._weighed(0.0, 1.0) / self._divisor

    @property
    def _divisor(self) -> float:
        return self.mass if self.mass > 0 else np.inf

    @cached_property
    def random(self) -> Floats:
        return np.cumsum(self.tally.pairs) / (self.n * len(self.classes))

    def shares(self, block: Block, cells: Ints) -> Floats:
        """Return ``s = sum over l in G of W[y, l] (1{S(x, l) <= q} - (1 - alpha))``: (rows, thresholds)."""
        labels = block.sample.labels[block.where]
        entries = self.weights.inverse.entries(labels, self.classes)
        places = np.searchsorted(cells, block.cells[:, self.classes])
        rows, number = np.arange(len(labels))[:, None], len(cells) + 1
        found = np.zeros((len(labels), number))
        np.add.at(found, (rows, places), entries)
        found = np.cumsum(found[:, :-1], axis=1)
        found -= (1 - self.alpha) * entries.sum(axis=1, keepdims=True)
        return found


def class_curves(
    sample: Sample, weights: Weights, noise: Noise | None, places: Ints, number: int, alphas: list[float]
) -> list[list[ClassCurve]]:
    """Return for each alpha the curve of each of so many groups; `places` has the group of each class."""
    labels, label_cells = sample.labels[:, 0], _BY_CLASS_OF[sample.label_cells[:, 0]]
    by_label = np.bincount(labels, minlength=sample.k)
    mass = np.bincount(places, weights.inverse.push(by_label.astype(np.float64)), number)
    kinds, found = 1 if weights.constant is not None else 3, []
    step = max(1, _COUNTED // (kinds * len(BY_CLASS)))
    for first in range(0, number, step):
        groups = range(first, min(first + step, number))
        counts = _counted(sample, weights, places, groups, kinds)
        for g, own in zip(groups, np.moveaxis(counts, 1, 0), strict=True):
            mine = places[labels] == g
            hits = np.bincount(label_cells[mine], minlength=len(BY_CLASS))
            if weights.constant is None:
                whole = weights.whole(weights.own[labels[mine]])
                np.add.at(own[1], label_cells[mine], np.maximum(whole, 0))
                np.add.at(own[2], label_cells[mine], np.maximum(-whole, 0))
            some = np.flatnonzero(own.sum(axis=0) + hits)
            gains, losses = (None, None) if kinds == 1 else own[1:, some]
            tally = Tally(
                sample.n, sample.k, by_label, BY_CLASS[some], hits[some], own[0, some], gains, losses,
                unit=weights.unit,
            )  # fmt: skip
            classes, m = np.flatnonzero(places == g), float(mass[g])
            found.append(
                ClassCurve(tally, sample.score.spec, weights, noise, classes=classes, mass=m, alpha=alphas[0])
            )
    return [[replace(curve, alpha=alpha) for curve in found] for alpha in alphas]


def _counted(sample: Sample, weights: Weights, places: Ints, groups: range, kinds: int) -> Ints:
    """Return what pairs of some groups hold by cell: (kinds, groups, cells)."""
    spec = sample.score.spec
    columns = np.flatnonzero((places >= groups.start) & (places < groups.stop))
    starts = (places[columns] - groups.start) * len(BY_CLASS)
    total = np.zeros((kinds, len(groups) * len(BY_CLASS)), dtype=np.int64)

    def seen(values: Array, where: slice | Ints) -> tuple[Ints, Ints | None]:
        at = starts + _BY_CLASS_OF[spec.cells_of(scores(values, spec)[:, columns])]
        which, table = weights.of(sample.labels[where], sample.parts[where])
        return at, None if table is None else table[which][:, columns]

    for at, entries in sample.rows.map(seen):
        np.add.at(total[0], at.reshape(-1), 1)
        if entries is not None:
            np.add.at(total[1], at, np.maximum(entries, 0))
            np.add.at(total[2], at, np.maximum(-entries, 0))
    return total.reshape(kinds, len(groups), len(BY_CLASS))


_BY_CLASS_OF: Ints = np.searchsorted(BY_CLASS, np.arange(CELLS))
