"""Curves of the coverage within groups of classes, under one noise model.

Each pair (row, label) belongs to one group of classes, so one pass counts all groups.
"""

import numpy as np

from nacp import engine
from nacp._types import Array, Ints
from nacp.coverage.curve import Curve
from nacp.coverage.grid import BY_CLASS, CELLS
from nacp.coverage.tally import Sample, Tally, Weights
from nacp.noise import Noise

_COUNTED = 1 << 23  # the largest histogram of all groups that is counted in one pass
_BY_CLASS_OF: Ints = np.searchsorted(BY_CLASS, np.arange(CELLS))  # the place in BY_CLASS of each cell


def class_curves(
    sample: Sample, weights: Weights, noise: Noise | None, places: Ints, number: int
) -> list[Curve]:
    """Return the curves of groups 0 to number - 1; `places` has the group of each class."""
    by_label = np.bincount(sample.labels[:, 0], minlength=sample.k)
    mass = np.bincount(places, weights.inverse.push(by_label.astype(np.float64)), number)
    kinds, found = 1 if weights.constant is not None else 3, []
    step = max(1, _COUNTED // (kinds * len(BY_CLASS)))
    for first in range(0, number, step):
        groups = range(first, min(first + step, number))
        counts = _counted(sample, weights, places, groups, kinds)
        for g, (hits, pairs, *more) in zip(groups, np.moveaxis(counts, 1, 0), strict=True):
            some = np.flatnonzero(hits + pairs)
            gains, losses = (each[some] for each in more) if more else (None, None)
            counted = BY_CLASS[some], hits[some], pairs[some], gains, losses
            tally = Tally(sample.n, sample.k, by_label, *counted, unit=weights.unit)
            members = np.flatnonzero(places == g)
            curve = Curve(tally, sample.score.spec, weights, noise, members=members, mass=float(mass[g]))
            found.append(curve)
    return found


def _counted(sample: Sample, weights: Weights, places: Ints, groups: range, kinds: int) -> Ints:
    """Return histograms of hits, pairs and, if these differ, their weights: (1 + kinds, groups, cells)."""
    spec, labels = sample.score.spec, sample.labels[:, 0]
    columns = np.flatnonzero((places >= groups.start) & (places < groups.stop))
    starts = (places - groups.start) * len(BY_CLASS)
    total = np.zeros((1 + kinds, len(groups) * len(BY_CLASS)), dtype=np.int64)

    def add_weights(at: Ints, whole: Ints) -> None:
        np.add.at(total[2], at, np.maximum(whole, 0))
        np.add.at(total[3], at, np.maximum(-whole, 0))

    def seen(values: Array, where: slice | Ints) -> tuple[Ints, Ints | None]:
        at = starts[columns] + _BY_CLASS_OF[spec.cells_of(engine.of(values).scores(values, spec)[:, columns])]
        which, table = weights.of(sample, where)
        return at, None if table is None else table[which][:, columns]

    for at, entries in sample.rows.map(seen):
        np.add.at(total[1], at.reshape(-1), 1)
        if entries is not None:
            add_weights(at, entries)
    own = np.isin(labels, columns)
    at = starts[labels[own]] + _BY_CLASS_OF[sample.label_cells[own, 0]]
    np.add.at(total[0], at, 1)
    if weights.constant is None:
        add_weights(at, weights.whole(weights.own[labels[own]]))
    return total.reshape(1 + kinds, len(groups), len(BY_CLASS))
