"""Curves: F^n, F^r and F^c at the points of the grid, from a tally."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.coverage.grid import COARSE, INFINITE
from nacp.coverage.tally import Sample, Tally, Weights
from nacp.engine import Spec
from nacp.noise import Noise, UniformNoise
from nacp.noise.matrices import ClassMatrix

Rule: TypeAlias = Literal["last", "first"]
RULES = ("last", "first")
ROUNDING = 1e-12
"""The tolerance when an estimate is compared with its target. Rounded weights need a larger one."""


_UNIT = 2.0**-20  # of the width of shares, which are rounded so that their moments are exact sums


@dataclass(frozen=True, eq=False)
class CoverageCurve:
    """The three coverage estimates at thresholds.

    Attributes
    ----------
    thresholds : array of shape (m,)
        Ascending.
    noisy : array of shape (m,)
        F^n-hat: the share of noisy labels in the sets.
    random : array of shape (m,)
        F^r-hat: the mean set size divided by k.
    clean : array of shape (m,)
        F^c-hat: the estimated share of true labels in the sets. It is not monotone and may leave [0, 1]:
        slightly by chance, and further if the noise model is wrong. ``Calibration.curve`` has it clipped.
    """

    thresholds: Floats
    noisy: Floats
    random: Floats
    clean: Floats

    def cut(self) -> "CoverageCurve":
        """Return the curve with `clean` clipped to [0, 1].

        Examples
        --------
        >>> import nacp
        >>> curve = nacp.coverage_curve([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]], [0, 1], noise=0.3)
        >>> curve.clean.round(3).tolist(), curve.cut().clean.tolist()
        ([1.286], [1.0])
        """
        return replace(self, clean=np.clip(self.clean, 0.0, 1.0))

    def __len__(self) -> int:
        return len(self.thresholds)

    def __repr__(self) -> str:
        return f"CoverageCurve({len(self)} thresholds, {self.thresholds[0]:.6g} to {self.thresholds[-1]:.6g})"


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a sample, whose shares are to be computed.

    Attributes
    ----------
    sample : Sample
        All points.
    values : array
        The rows, as read by `Rows`.
    where : slice or array of int
        The numbers of these rows.
    """

    sample: Sample
    values: Array
    where: slice | Ints

    @cached_property
    def scores(self) -> Floats:
        """The native scores of all labels."""
        return engine.of(self).scores(self.values, self.sample.score.spec)

    @cached_property
    def cells(self) -> Ints:
        """The cells of all labels."""
        return self.sample.score.spec.cells_of(self.scores)


def inverse_of(noise: Noise | None, k: int, several: bool = False) -> ClassMatrix:
    """Return W; if points have several labels, the stacked inverses of all annotators."""
    model = UniformNoise(0.0) if noise is None else noise
    return model.stacked_inverse(k) if several else model.inverse(k)


@dataclass(frozen=True, eq=False)
class Curve:
    """The coverage estimates under one noise model, at the cells that contain scores.

    The coverage within a group G of classes is ``sum_i sum_{l in G} W[y_i, l] 1{S(x_i, l) <= q}`` divided by
    ``sum_i sum_{l in G} W[y_i, l]``, the group's *mass*: an estimate of how many of the points are of its
    classes (docs/guarantees.md, G1).

    Attributes
    ----------
    tally : Tally
        The tally of the points.
    spec : Spec
        The score.
    weights : Weights
        W.
    noise : Noise or None
        The noise model whose inverse is W.
    radius : float
        The distance by which each row of the true matrix may differ from the model's.
    more : Tally, optional
        The tally of further points without labels.
    widest : ClassMatrix, optional
        W at the upper end of an interval of rates, if `noise` is an end of one.
    rate_step : float
        By how much the true rate may exceed that of `noise`, for guarantees with `covers_rates`.
    members : array of int, optional
        The group of classes within which coverage is estimated; None for all classes. The tally then counts
        the pairs with labels of the group.
    mass : float, optional
        The mass of the group.
    alpha : float, optional
        The alpha for which `shares` within a group are computed.
    """

    tally: Tally
    spec: Spec
    weights: Weights
    noise: Noise | None
    radius: float = 0.0
    more: Tally | None = field(default=None, repr=False)
    widest: ClassMatrix | None = field(default=None, repr=False)
    rate_step: float = 0.0
    members: Ints | None = None
    mass: float | None = None
    alpha: float | None = None

    @classmethod
    def of(cls, sample: Sample, noise: Noise | None, squares: bool = False) -> "Curve":
        """Tally a sample and return its curve under a noise model."""
        weights = Weights(inverse_of(noise, sample.k, sample.several), sample.several)
        return cls(Tally.of(sample, weights, squares), sample.score.spec, weights, noise)

    @property
    def points(self) -> int:
        """The number of points to state in messages: within a group, that of its labels."""
        return self.tally.n if self.members is None else int(self.tally.hits.sum())

    @property
    def counts(self) -> Floats:
        """The number of points with each class as their label; several labels of a point count in part."""
        found = self.tally.by_label.reshape(-1, self.tally.k).sum(axis=0) * self.tally.part
        return np.asarray(found, dtype=np.float64)

    @property
    def absent(self) -> str | None:
        """The reason if there is nothing to estimate coverage from, else None."""
        if self.mass is None or self.mass > 0:
            return None
        if not self.points:
            return "no given label is of this group"
        return "by the noise model, its labels are all wrong ones"

    @cached_property
    def noisy(self) -> Floats:
        """F^n-hat at the cells."""
        return np.cumsum(self.tally.hits) / max(int(self.tally.hits.sum()), 1)

    @cached_property
    def random(self) -> Floats:
        """F^r-hat at the cells: the mean share of all classes, or of the group's classes, in a set."""
        classes = self.tally.k if self.members is None else len(self.members)
        return np.cumsum(self.tally.pairs) / (self.tally.n * classes)

    @cached_property
    def clean(self) -> Floats:
        """F^c-hat at the cells."""
        return self._weighed(1.0, -1.0)

    @cached_property
    def losses(self) -> Floats:
        """psi-hat at the cells: the mean over the points of the negative weight in their sets."""
        return self._weighed(0.0, 1.0)

    def _weighed(self, positive: float, negative: float) -> Floats:
        """Return prefix sums of the positive and the negative weight per point, each times a factor."""
        tally, constant = self.tally, self.weights.constant
        points = tally.n if self.mass is None else self.mass if self.mass > 0 else np.inf
        if constant is None:
            assert tally.gains is not None
            assert tally.losses is not None
            net = int(positive) * np.cumsum(tally.gains) + int(negative) * np.cumsum(tally.losses)
            return np.asarray(net * tally.unit / points)
        own = float(self.weights.own[0])
        hits = np.cumsum(tally.hits) * ((positive if own > 0 else negative) * abs(own))
        pairs = np.cumsum(tally.pairs) * ((positive if constant > 0 else negative) * abs(constant))
        return np.asarray((hits + pairs) / points)

    def at(self, cells: Ints, values: Floats) -> Floats:
        """Return the values at thresholds, given those at the cells that contain scores."""
        found: Floats = np.append(0.0, values)[np.searchsorted(self.tally.cells, cells, side="right")]
        return found

    def crossing(self, target: float, rule: Rule) -> int:
        """Return the threshold where the estimate reaches a target, as a place in the grid.

        "first": the smallest threshold at which it does. "last": the smallest one from which on it does. The
        result is -1 if empty sets reach the target, and INFINITE if there is no such threshold.
        """
        if target > 1 + ROUNDING:
            return INFINITE
        rounding = ROUNDING
        if self.weights.constant is None:
            rounding += self.weights.unit * self.tally.k / 2
        # Below the first cell all sets are empty, and the estimate is 0.
        reached = np.append(0.0, self.clean) >= target - rounding
        if rule == "first":
            place = int(reached.argmax()) if reached.any() else len(reached)
        else:
            failed = np.flatnonzero(~reached)
            place = int(failed[-1]) + 1 if len(failed) else 0
        cells = np.concatenate([[-1], self.tally.cells, [INFINITE]])
        return int(cells[place])

    def moments(self, cells: Ints) -> tuple[Floats, Floats, int]:
        """Return the mean share of all classes in a set, an upper bound of its mean square, and n.

        Points without labels are included. Squares are tallied at few thresholds; the next larger one of
        these gives the bound.
        """
        sums, squares, n = np.zeros(len(cells), dtype=np.int64), np.zeros(len(cells), dtype=np.int64), 0
        for tally in (self.tally, self.more):
            if tally is not None:
                assert tally.squares is not None
                upto = np.append(0, np.cumsum(tally.pairs))
                sums += upto[np.searchsorted(tally.cells, cells, side="right")]
                squares += tally.squares[np.searchsorted(COARSE, cells)]
                n += tally.n
        return sums / (n * self.tally.k), squares / (n * self.tally.k**2), n

    @cached_property
    def shift(self) -> float:
        """The largest error of a mean of shares due to the radius."""
        return self.radius * self.weights.inverse.row_distance() if self.radius else 0.0

    def shares(self, block: Block, cells: Ints) -> Floats:
        """Return the shares of the rows of a block at thresholds: (rows, thresholds).

        If W is known up to a radius, ``radius osc_q(x)``, the largest error of a share, is subtracted. Within
        a group, a share is ``s = sum over l in G of W[y, l] (1{S(x, l) <= q} - (1 - alpha))``.
        """
        sample, where, weights = block.sample, block.where, self.weights
        if self.members is not None and self.alpha is not None:
            entries = weights.inverse.entries(sample.labels[where], self.members)
            found = np.zeros((len(entries), len(cells) + 1))
            places = np.searchsorted(cells, block.cells[:, self.members])
            np.add.at(found, (np.arange(len(entries))[:, None], places), entries)
            found = np.cumsum(found[:, :-1], axis=1)
            found -= (1 - self.alpha) * entries.sum(axis=1, keepdims=True)
            return found
        own = weights.own[sample.labels[where]] * sample.parts[where]
        scale = weights.unit if weights.constant is None else weights.constant
        which, table = weights.of(sample, where)
        found = engine.of(block.values).shares(
            block.values, self.spec, cells, own, sample.label_cells[where], scale, which, table
        )
        if self.radius:
            found = found - self.radius * oscillation(block.cells, cells, weights.inverse)
        return found

    def deviation(self, sample: Sample, cell: int) -> float:
        """Return the standard deviation of a point's share at a threshold, in any order of rows."""
        low, high = self.weights.inverse.subset_range()
        unit = _UNIT * 2.0 ** math.ceil(math.log2(high - low))
        first = second = 0  # whole numbers of any size
        for where in sample.rows.slices():
            shares = self.shares(Block(sample, sample.rows[where], where), np.array([cell]))
            whole = np.rint(shares / unit).astype(np.int64)
            first, second = first + int(whole.sum()), second + int((whole * whole).sum())
        return math.sqrt(second * sample.n - first * first) * unit / sample.n

    def public(self, offset: float) -> CoverageCurve:
        """Return the estimates on the scale of the score."""
        finite = self.tally.cells < INFINITE
        thresholds = self.spec.thresholds[self.tally.cells[finite]] + offset
        return CoverageCurve(thresholds, self.noisy[finite], self.random[finite], self.clean[finite])


def oscillation(scores: Array, thresholds: Array, inverse: ClassMatrix) -> Floats:
    """Return ``max_j h_j - min_j h_j`` of ``h_j = sum of W[j, l] over the set``: (rows, thresholds).

    Scores and thresholds are both native, or both cells of the grid.
    """
    order, matrix = np.argsort(scores, axis=1, kind="stable"), inverse.dense()
    found = np.empty((len(order), len(thresholds)))
    for row, ranked in enumerate(order):
        sizes = np.searchsorted(scores[row, ranked], thresholds, side="right")
        spread = np.append(0.0, np.ptp(np.cumsum(matrix[:, ranked], axis=1), axis=0))
        found[row] = spread[sizes]
    return found
