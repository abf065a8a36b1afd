"""Sample: points with given labels, as one score sees them. A value: rows that were checked, and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.points import Rows
from nacp.scores import Score

if TYPE_CHECKING:
    from nacp.coverage.curve import Curve

_UNIT = 2.0**-20  # of the width of shares, which are rounded so that their moments are exact sums


@dataclass(frozen=True, eq=False)
class Sample:
    """Points with given labels.

    Attributes
    ----------
    rows : Rows
        The checked rows.
    labels : array of shape (n, a)
        The given labels of each point, as numbers. Where labels are of several annotators that differ, they
        are ``label + k annotator``. A missing one has any number, and no part.
    parts : array of shape (n, a)
        The part of each label in its point: 0 where it is missing; those of a point sum to 1.
    score : Score
        How pairs are scored.
    label_scores : array of shape (n, a)
        The native scores of the labels.
    several : bool
        Whether points may have several labels.
    """

    rows: Rows
    labels: Ints
    parts: Floats
    score: Score
    label_scores: Floats
    several: bool = False

    @classmethod
    def of(cls, rows: Rows, labels: Ints, score: Score, parts: Floats | None = None) -> "Sample":
        """Score the labels of rows: one each, or several in columns, with -1 where one is missing."""
        several = labels.ndim == 2
        table = labels if several else labels[:, None]
        if parts is None:
            parts = (table >= 0) / np.maximum(np.count_nonzero(table >= 0, axis=1, keepdims=True), 1)
        numbers, spec = np.maximum(table, 0), score.spec

        def scored(values: Array, where: slice | Ints) -> Floats:
            some = (numbers[where] % rows.k).T
            return np.stack([engine.label_scores(values, spec, each) for each in some], axis=1)

        found = list(rows.map(scored))
        scores = np.concatenate(found) if found else np.empty(numbers.shape)
        return cls(rows, numbers, parts, score, scores, several)

    @property
    def n(self) -> int:
        """The number of points."""
        return self.rows.n

    @property
    def k(self) -> int:
        """The number of classes."""
        return self.rows.k

    @cached_property
    def label_cells(self) -> Ints:
        """The cells of the labels' scores: (n, a)."""
        return self.score.spec.cells_of(self.label_scores)

    @property
    def given(self) -> int:
        """How many labels are given in all."""
        return int(np.count_nonzero(self.parts))

    def some(self, rows: Ints) -> "Sample":
        """Return some of the points."""
        return replace(
            self, rows=self.rows.some(rows), labels=self.labels[rows], parts=self.parts[rows],
            label_scores=self.label_scores[rows],
        )  # fmt: skip

    def shuffled(self, seed: int) -> Ints:
        """Return the rows in a random order, which no other generator started with this seed repeats."""
        return np.random.default_rng([seed, 3]).permutation(self.n)

    def shares(self, wanted: Sequence[tuple["Curve", Ints]], rows: Ints) -> list[Floats]:
        """Return the shares of some rows under several curves, each at thresholds: (rows, thresholds)."""

        def found(values: Array, where: slice | Ints) -> list[Floats]:
            block, each = Block(self, values, where), []
            for curve, cells in wanted:
                each.append(curve.shares(block, cells))
            return each

        parts = list(self.rows.map(found, rows))
        return parts[0] if len(parts) == 1 else [np.concatenate(each) for each in zip(*parts, strict=True)]

    def deviations(self, curve: "Curve", cells: Ints) -> list[float]:
        """Return the standard deviation of a point's share at thresholds, the same in any order."""
        cells, places = np.unique(cells, return_inverse=True)
        low, high = curve.weights.inverse.subset_range()
        unit = _UNIT * 2.0 ** np.ceil(np.log2(high - low))
        first = second = np.zeros(len(cells), dtype=object)  # whole numbers of any size
        for shares in self.rows.map(lambda values, where: curve.shares(Block(self, values, where), cells)):
            whole = np.rint(shares / unit).astype(np.int64)
            first, second = first + whole.sum(axis=0), second + (whole * whole).sum(axis=0)
        variances = (second * self.n - first * first).astype(np.float64) * (unit / self.n) ** 2
        found: list[float] = np.sqrt(variances)[places].tolist()
        return found


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a sample, to be asked about their shares.

    Attributes
    ----------
    sample : Sample
        All points.
    values : array
        The rows, as the sample's `Rows` hands them out.
    where : slice or array of int
        Which rows these are.
    """

    sample: Sample
    values: Array
    where: slice | Ints

    @cached_property
    def scores(self) -> Floats:
        """The native scores of all labels."""
        return engine.scores(self.values, self.sample.score.spec)

    @cached_property
    def cells(self) -> Ints:
        """The cells of the same."""
        return self.sample.score.spec.cells_of(self.scores)
