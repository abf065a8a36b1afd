"""The coverage estimate: F^n, F^r and F^c at thresholds (paper eqs. 5 to 8 and 13 to 16).

One estimator serves every noise model: ``F^c-hat(q) = mean_i sum_{l in C_q(x_i)} W[y_i, l]``, a signed,
weighted ECDF over all n k scores. With ``W = diag(own) + rest`` it has two parts: the given labels'
scores, which are few and kept, and all pairs, which are only ever counted, block by block.

The weights are rounded once, to whole multiples of a unit at which no sum can overflow. Integer sums do
not depend on the order, so every route to a threshold gives the same one; where all weights are equal, as
in uniform noise, they are counts and nothing is rounded. Else F^c-hat is off by at most 2^-63 n k times the
largest row sum of W: 1e-11 at 10^8 points times classes, and far less where the errors cancel.
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._kernels import FEW_RUNGS, Reading
from nacp._types import Array, Floats, Ints
from nacp._validation import Rows, check_classes, check_labels, check_probs
from nacp.noise import Noise, UniformNoise, as_noise, check_estimate
from nacp.noise.matrices import ClassMatrix
from nacp.scores import Score, as_score

_PILOT_PARTS = 16
_OSCILLATION_ENTRIES = 1 << 17
_NO_SCORES = np.empty(0)
_NO_WEIGHTS = np.empty(0, dtype=np.int64)


class Tally(NamedTuple):
    """At ascending thresholds: how many pairs lie below, and their positive and negative weight."""

    pairs: Ints
    gains: Ints
    losses: Ints


class Window(NamedTuple):
    """The pairs that score in one interval, ascending, and their weights."""

    scores: Array
    weights: Ints


class Pilot(NamedTuple):
    """All pairs of a few rows: in parts of about as many rows, and together in the order of the scores."""

    each: float
    parts: list[Window]
    pairs: Window

    def spread(self, q: float) -> float:
        """Return the standard error of the pilot's estimate of the weight of the pairs up to q."""
        sums = [float(part.weights[part.scores <= q].sum()) for part in self.parts]
        return float(np.std(sums, ddof=1)) * math.sqrt(len(sums)) * self.each if len(sums) > 1 else math.inf


class Estimator:
    """The estimate of the clean coverage, given the scores of the labels and tallies of the pairs."""

    def __init__(self, label_scores: Floats, labels: Ints, inverse: ClassMatrix) -> None:
        self.n, self.k = len(labels), inverse.k
        order = np.argsort(label_scores)
        self.label_scores: Floats = label_scores[order]

        own = inverse.own
        self._own_unit, own_weights = _whole(own, np.abs(own).max(), np.abs(own).max(), self.n)
        weights = own_weights[labels[order]]
        self._gains = np.concatenate([[0], np.cumsum(np.maximum(weights, 0))])
        self._losses = np.concatenate([[0], np.cumsum(np.maximum(-weights, 0))])
        self._own = self._gains - self._losses

        largest, row_sum = inverse.rest_bounds()
        diagonal = inverse.diagonal - own
        self.needs_pairs = largest > 0
        self._rest_unit, _ = _whole(np.zeros(1), largest, row_sum, self.n)
        totals = np.stack(inverse.row_sums()) + np.stack([np.maximum(diagonal, 0), np.minimum(diagonal, 0)])
        counts = np.bincount(labels, minlength=self.k)
        self._totals: Floats = np.abs(totals @ counts) * (1 + 1e-9)
        constant = inverse.constant_rest
        self._constant = None if constant is None else int(self._round(np.array(constant)))

    def labels_upto(self, q: Floats) -> Ints:
        """Return how many given labels score at most q."""
        return np.searchsorted(self.label_scores, q, side="right")

    def rising(self, q: Floats, gains: Ints) -> Floats:
        """Return the part of n F^c-hat that rises with q; `gains` is that of the pairs."""
        rest = np.where(np.isposinf(q), self._totals[0], gains * self._rest_unit)
        return self._gains[self.labels_upto(q)] * self._own_unit + rest

    def falling(self, q: Floats, losses: Ints) -> Floats:
        """Return the part of n F^c-hat that falls with q; `losses` is that of the pairs."""
        rest = np.where(np.isposinf(q), self._totals[1], losses * self._rest_unit)
        return self._losses[self.labels_upto(q)] * self._own_unit + rest

    def clean(self, q: Floats, net: Ints) -> Floats:
        """Return F^c-hat at q; `net` is the weight of the pairs that score at most q."""
        return self.clean_of(self.labels_upto(q), net)

    def clean_of(self, labels: Ints, net: Ints) -> Floats:
        """Return F^c-hat where so many labels, and pairs of such a weight, score at most q."""
        clean: Floats = (self._own[labels] * self._own_unit + net * self._rest_unit) / self.n
        return clean

    def share(self, net: float) -> float:
        """Return what a weight of pairs makes of F^c-hat."""
        return net * self._rest_unit / self.n

    def tally(self, pairs: Ints) -> Tally:
        """Return the tally of pairs that all have the same weight, from their number."""
        weight = self._constant or 0
        return Tally(pairs, pairs * max(weight, 0), pairs * max(-weight, 0))

    def window(self, scores: Floats) -> Window:
        """Return a window of pairs that all have the same weight, from their scores, which are sorted."""
        scores.sort()
        return Window(scores, np.broadcast_to(np.int64(self._constant or 0), scores.shape))

    def _round(self, weights: Floats) -> Ints:
        return np.rint(weights / self._rest_unit).astype(np.int64)


class Evidence(Estimator):
    """A noisy calibration set, which can be read for its pairs.

    `doubt` is the most by which the mean of a row's share may be wrong, if W is known up to a radius only.
    """

    def __init__(
        self, rows: Rows, labels: Ints, score: Score, inverse: ClassMatrix, unlabelled: Rows | None = None
    ) -> None:
        self._unlabelled, self._radius, self.doubt = unlabelled, 0.0, 0.0
        self._rows, self._labels, self._score, self._inverse = rows, labels, score, inverse

        def read(where: slice) -> tuple[Floats, Floats | None]:
            block = rows[where]
            u = score.draw(block)
            return score.native_of_labels(block, labels[where], u), u

        scores, drawn = zip(*map(read, rows.slices()), strict=True)
        self._u = None if drawn[0] is None else np.concatenate(drawn)
        # Where the weights depend on the label, rows with the same one are read together.
        self._order = None if inverse.constant_rest is not None else np.argsort(labels, kind="stable")
        self._by_row = np.concatenate(scores)
        super().__init__(self._by_row, labels, inverse)

    @property
    def labels(self) -> Ints:
        """The given labels, in the order of the rows."""
        return self._labels

    @property
    def inverse(self) -> ClassMatrix:
        """W."""
        return self._inverse

    @property
    def scores_by_row(self) -> Floats:
        """The native scores of the given labels, in the order of the rows."""
        return self._by_row

    def favourites(self) -> Ints:
        """Return for each row the label with the lowest score."""
        found = [self._read(where).matrix().argmin(axis=1) for where in self._rows.slices()]
        return np.concatenate(found)

    @property
    def exact_bounds(self) -> bool:
        """Whether the bounds of a sweep are the tallies themselves."""
        return self._constant is None

    def sweep(
        self,
        rungs: Floats,
        windows: Sequence[tuple[float, float]] = (),
        loose: Floats = _NO_SCORES,
        *,
        count: bool = False,
    ) -> tuple[Tally, Tally, list[Window]]:
        """Read the matrix once: tally pairs at `rungs`, bound the tally at `loose` ones, collect `windows`.

        Pairs without weight are skipped, unless their `count` is wanted.
        """
        if not (self.needs_pairs or count):
            nothing = Tally(*np.zeros((3, len(rungs)), dtype=np.int64))
            return (
                nothing,
                Tally(*np.zeros((3, len(loose)), dtype=np.int64)),
                [self._join([]) for _ in windows],
            )

        def read(block: slice) -> tuple[Ints, Ints, list[Window]]:
            where = block if self._order is None else self._order[block]
            reading, labels = self._read(where), self._labels[where]
            if self._constant is not None:
                tally, bound = reading.counts(rungs)[None], reading.counts_at_most(loose)[None]
            else:
                tally, bound = (self._weighted(reading, labels, q) for q in (rungs, loose))
            return tally, bound, [self._window(reading, labels, low, high) for low, high in windows]

        tallies, bounds, found = zip(*map(read, self._rows.slices()), strict=True)
        return (
            self._total(tallies),
            self._total(bounds),
            [self._join(parts) for parts in zip(*found, strict=True)],
        )

    def _total(self, tallies: Sequence[Ints]) -> Tally:
        total = np.sum(tallies, axis=0)
        return self.tally(total[0]) if self._constant is not None else Tally(*total)

    def _weighted(self, reading: Reading, labels: Ints, rungs: Floats) -> Ints:
        """Return pairs, gains and losses of a block with sorted labels, shape (3, rungs).

        For each label, its rows' pairs are counted by class, and then weighed.
        """
        if len(rungs) > FEW_RUNGS:
            return self._weighted_one_by_one(reading, labels, rungs)
        tally = np.zeros((3, len(rungs)), dtype=np.int64)
        tally[0] = reading.counts(rungs)
        sets = [keys >= cuts for keys, cuts in map(reading.cuts, rungs)]
        starts = np.flatnonzero(np.diff(labels, prepend=-1))
        for start, stop in pairwise([*starts.tolist(), len(labels)]) if sets else ():
            weights = self._round(self._inverse.rest(labels[start], np.arange(self.k)))
            positive = np.maximum(weights, 0)
            narrow = np.min_scalar_type(stop - start)
            for j, inside in enumerate(sets):
                held = inside[start:stop].view(np.uint8).sum(axis=0, dtype=narrow).astype(np.int64)
                gain = held @ positive
                tally[1:, j] += gain, gain - held @ weights
        return tally

    def _weighted_one_by_one(self, reading: Reading, labels: Ints, rungs: Floats) -> Ints:
        """Return the same at many rungs: look up where each pair belongs."""
        cells = np.searchsorted(rungs, reading.matrix(), side="left").ravel()
        weights = self._round(self._inverse.rest(labels[:, None], np.arange(self.k))).ravel()
        tally = np.zeros((3, len(rungs) + 1), dtype=np.int64)
        for total, part in zip(
            tally, (np.ones_like(weights), np.maximum(weights, 0), np.maximum(-weights, 0)), strict=True
        ):
            np.add.at(total, cells, part)
        return np.cumsum(tally[:, :-1], axis=1)

    def _window(self, reading: Reading, labels: Ints, low: float, high: float) -> Window:
        if self._constant is not None:
            return Window(reading.between(low, high), _NO_WEIGHTS)
        rows, columns, scores = reading.events(low, high)
        weights = self._round(self._inverse.rest(labels[rows], columns))
        kept = weights != 0
        return Window(scores[kept], weights[kept])

    def _join(self, parts: Sequence[Window]) -> Window:
        """Put windows together in the order of the scores."""
        scores = np.concatenate([_NO_SCORES, *(part.scores for part in parts)])
        if self._constant is not None:
            return self.window(scores)
        weights = np.concatenate([_NO_WEIGHTS, *(part.weights for part in parts)])
        order = np.argsort(scores)
        return Window(scores[order], weights[order])

    def _read(self, where: slice | Ints) -> Reading:
        return self._score.read(self._rows[where], None if self._u is None else self._u[where])

    def pilot(self, rows_wanted: int) -> Pilot:
        """Return all pairs of a few evenly spaced rows."""
        step = max(1, self.n // rows_wanted)
        chosen = np.arange(step // 2, self.n, step)
        parts = []
        for rows in np.array_split(chosen, min(_PILOT_PARTS, len(chosen))):
            if self._constant is not None:
                with np.errstate(over="ignore"):  # a guess needs no more than half the bytes
                    scores: Array = self._read(rows).between(-np.inf, np.inf).astype(np.float32)
                weights = np.broadcast_to(np.int64(self._constant), scores.shape)
            else:
                scores = self._read(rows).matrix().ravel()
                weights = self._round(
                    self._inverse.rest(self._labels[rows][:, None], np.arange(self.k))
                ).ravel()
            parts.append(Window(scores, weights))
        return Pilot(self.n / len(chosen), parts, self._join(parts))

    def under(self, inverse: ClassMatrix, radius: float = 0.0) -> "Evidence":
        """Return the same points seen with another W, which may be known up to a radius only."""
        other = copy(self)
        other._inverse, other._radius = inverse, radius
        other.doubt = radius * inverse.row_distance() if radius else 0.0
        other._order = None if inverse.constant_rest is not None else np.argsort(self._labels, kind="stable")
        Estimator.__init__(other, self._by_row, self._labels, inverse)
        return other

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest that one row's share can be."""
        low, high = self._inverse.subset_range()
        return low - self.doubt, high

    @property
    def span(self) -> tuple[float, float]:
        """Where native scores can lie."""
        return self._score.span

    def to_native(self, thresholds: Floats) -> Floats:
        """Return thresholds on the native scale of the score."""
        return self._score.to_native(thresholds)

    def mean_sizes(self, thresholds: Floats) -> Floats:
        """Return the mean sizes of the sets at native thresholds."""
        q, where = np.unique(thresholds, return_inverse=True)
        _, random, _ = self.curve(q)
        return (random * self.k)[where]

    def losses(self, thresholds: Floats) -> Floats:
        """Return psi-hat, the mean sum of ``max(-W[y, l], 0)`` over the sets, at native thresholds."""
        q = np.unique(thresholds)
        tally, *_ = self.sweep(q)
        return self.falling(q, tally.losses)[np.searchsorted(q, thresholds)] / self.n

    def set_sizes(self, rungs: Floats) -> tuple[int, Floats, Floats]:
        """Return, at ascending native thresholds, the sums of the sets' shares of the k classes and of their
        squares, and over how many rows: the unlabelled ones too.
        """
        sums, squares = np.zeros((2, len(rungs)))
        read = self._score.read
        labelled = (self._read(where) for where in self._rows.slices())
        others = () if self._unlabelled is None else self._unlabelled.blocks()
        unlabelled = (read(block, self._score.draw(block)) for block in others)
        for reading in chain(labelled, unlabelled):
            sizes = reading.sums(rungs)
            sums += sizes.sum(axis=0)
            squares += (sizes**2).sum(axis=0)
        n = self.n + (0 if self._unlabelled is None else self._unlabelled.n)
        return n, sums / self.k, squares / self.k**2

    def shares(self, rows: Ints | slice, rungs: Floats) -> Floats:
        """Return g_q(x, y), each row's share in F^c-hat, at ascending native thresholds: (rows, rungs).

        Less ``radius osc_q(x)`` if W is known up to a radius: that is how much g's mean may be wrong.
        """
        if self._radius:
            return self._known_shares(rows, rungs) - self._radius * self._oscillation(rows, rungs)
        return self._known_shares(rows, rungs)

    def _oscillation(self, rows: Ints | slice, rungs: Floats) -> Floats:
        """Return ``max_j h_j - min_j h_j`` of ``h_j = sum of W[j, l] over the set``: (rows, rungs)."""
        reading, matrix = self._read(rows), self._inverse.dense()
        sizes = reading.sums(rungs).astype(np.int64)
        order = np.argsort(reading.matrix(), axis=1, kind="stable")
        found = np.empty(sizes.shape)
        step = max(1, _OSCILLATION_ENTRIES // self.k**2)
        for start in range(0, len(order), step):
            some = slice(start, start + step)
            # By how much the rows' sums over the first so many classes differ, for 0 classes and more.
            spread = np.zeros((len(order[some]), self.k + 1))
            spread[:, 1:] = np.ptp(np.cumsum(matrix[:, order[some]], axis=2), axis=0)
            found[some] = np.take_along_axis(spread, sizes[some], axis=1)
        return found

    def _known_shares(self, rows: Ints | slice, rungs: Floats) -> Floats:
        labels, inverse = self._labels[rows], self._inverse
        own: Floats = np.where(self._by_row[rows][:, None] <= rungs, inverse.own[labels][:, None], 0.0)
        if not self.needs_pairs:
            return own
        if inverse.constant_rest is not None:
            return own + inverse.constant_rest * self._read(rows).sums(rungs)
        weights = inverse.rest(labels[:, None], np.arange(self.k))
        return own + self._read(rows).sums(rungs, weights)

    def deviation(self, q: float) -> float:
        """Return the standard deviation of the rows' shares at a native threshold."""
        at = np.array([q])
        return float(np.concatenate([self.shares(where, at) for where in self._rows.slices()]).std())

    def scaled(self, pilot: Pilot, places: Ints) -> Tally:
        """Return what the first so many pairs of a pilot say about the tallies of all rows."""
        pairs = np.rint(places * pilot.each).astype(np.int64)
        if self._constant is not None:
            return self.tally(pairs)
        gains, net = (
            np.append(0, np.cumsum(part))[places] * pilot.each
            for part in (np.maximum(pilot.pairs.weights, 0), pilot.pairs.weights)
        )
        return Tally(pairs, np.rint(gains).astype(np.int64), np.rint(gains - net).astype(np.int64))

    def curve(self, q: Floats) -> tuple[Floats, Floats, Floats]:
        """Return F^n-hat, F^r-hat and F^c-hat at ascending native thresholds."""
        tally, *_ = self.sweep(q, count=True)
        noisy = self.labels_upto(q) / self.n
        return noisy, tally.pairs / (self.n * self.k), self.clean(q, tally.gains - tally.losses)


def _whole(values: Floats, largest: float, row_sum: float, n: int) -> tuple[float, Ints]:
    """Return a unit at which n sums of at most `row_sum` fit into int64, and the values in it.

    The largest value is a whole number of units, so equal values are not rounded at all.
    """
    if largest == 0:
        return 1.0, np.zeros(len(values), dtype=np.int64)
    unit = largest / np.floor(min(2.0**52, 2.0**62 * largest / (n * row_sum)))
    return float(unit), np.rint(values / unit).astype(np.int64)


def inverse_for(noise: Noise | None, k: int) -> ClassMatrix:
    """Return W; the identity for labels taken as they are."""
    return (UniformNoise(0.0) if noise is None else noise).inverse(k)


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
        F^c-hat: the estimated share of true labels in the sets. Not monotone, and a little outside
        of [0, 1] at times: it is an estimate.
    """

    thresholds: Floats
    noisy: Floats
    random: Floats
    clean: Floats

    def __len__(self) -> int:
        return len(self.thresholds)

    def __repr__(self) -> str:
        return f"CoverageCurve({len(self)} thresholds, {self.thresholds[0]:.6g} to {self.thresholds[-1]:.6g})"


def coverage_curve(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: Any,
    score: Any = "hps",
    thresholds: ArrayLike | None = None,
    classes: Any = None,
    normalize: bool = False,
) -> CoverageCurve:
    """Estimate the noisy, random and clean coverage at thresholds, exactly.

    Parameters
    ----------
    probs, labels, noise, score, classes, normalize
        As in `calibrate`.
    thresholds : array of shape (m,), optional
        Where to evaluate. By default at every distinct score of a noisy label; these are all the
        candidates of a threshold unless the noise is a general matrix, when any of the n k scores
        may be one.

    Returns
    -------
    CoverageCurve

    Examples
    --------
    >>> import nacp
    >>> probs = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.125, 0.25, 0.625]]
    >>> curve = nacp.coverage_curve(probs, [0, 1, 1], noise=0.25)
    >>> curve.thresholds.tolist()
    [0.5, 0.75]
    >>> curve.noisy.round(3).tolist(), curve.random.round(3).tolist(), curve.clean.round(3).tolist()
    ([0.667, 1.0], [0.333, 0.889], [0.778, 1.037])
    """
    kind = as_score(score)
    rows = check_probs(probs, normalize=normalize, probabilities=kind.takes_probabilities, classes=classes)
    check_estimate(noise, rows.k)
    given = check_labels(labels, rows.n, rows.k, check_classes(classes, rows.k))
    evidence = Evidence(rows, given, kind, inverse_for(as_noise(noise), rows.k))
    if thresholds is None:
        native = np.unique(evidence.label_scores)
    else:
        wanted = np.asarray(thresholds, dtype=np.float64)
        if wanted.ndim != 1 or wanted.size == 0 or np.isnan(wanted).any():
            raise ValueError(f"thresholds must be one or more numbers in one dimension; found {thresholds!r}")
        native = kind.to_native(np.sort(wanted))
    return curve_at(evidence, native, kind.offset)


def curve_at(evidence: Evidence, native: Floats, offset: float) -> CoverageCurve:
    """Return the curve at ascending native thresholds."""
    return CoverageCurve(native + offset, *evidence.curve(native))
