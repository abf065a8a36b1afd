"""Many random calibration/test splits of the same points, with the work that splits share done once.

How many pairs (row, label) lie up to a threshold is the sum of the set sizes of a split's rows. For all
splits and thresholds this is one matrix product: the 0/1 matrix of the rows in each split times the matrix of
set sizes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Array, Bools, Floats, Ints
from nacp.checks import check_alphas, check_choice, check_count
from nacp.coverage.counted import Counted, weights_under
from nacp.coverage.curve import ROUNDING, RULES, Curve, Rule, inverse_of
from nacp.coverage.grid import CELLS, COARSE, INFINITE
from nacp.coverage.tally import Sample, Tally, Weights, sizes_of
from nacp.engine import Spec
from nacp.errors import InputError
from nacp.guarantees import Guarantee, Problem, find
from nacp.noise import Noise, NoiseLike, noise_for
from nacp.paper.methods import Method, six_methods
from nacp.points import Rows, check_labels, open_points
from nacp.points.arrays import row_slices
from nacp.scores import ScoreLike, as_score

_BLOCK = 1 << 21  # entries of the matrix of set sizes that are computed at once
_PIECES = 128  # an interval of more grid points is first cut into this number of pieces


@dataclass(frozen=True, eq=False)
class SplitResults:
    """Thresholds, mean sizes, coverages and corrections: arrays of shape (methods, alphas, splits).

    Thresholds are on the scale of the score; `corrections` are the excess over the target where thresholds
    are tested.
    """

    methods: list[Method]
    alphas: list[float]
    thresholds: Floats
    sizes: Floats
    coverages: Floats
    corrections: Floats


def run_splits(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: NoiseLike,
    alpha: float | Sequence[float] = 0.1,
    score: ScoreLike = "hps",
    methods: Sequence[Method] | None = None,
    splits: int = 1000,
    calibration: int | None = None,
    noisy_labels: ArrayLike | None = None,
    crossing: Rule = "last",
    random_state: int = 0,
    progress: Callable[[int], object] | None = None,
) -> SplitResults:
    """Calibrate and evaluate methods on many random splits; label noise is drawn anew for each.

    Thresholds, sizes and coverages are those of `calibrate` and `evaluate` on each split. Where the noise is
    uniform, splits share most of their work. `probs` and `labels` are those of N points, `calibration` of
    which (by default half) calibrate. By default the methods are the paper's six. `noisy_labels` are those of
    all splits, if they are not to be drawn. The same `random_state` gives the same splits, whatever the other
    arguments are. `progress` is called with the number of splits that have been done.

    Examples
    --------
    >>> from nacp.paper import twins
    >>> from nacp.paper.splits import run_splits
    >>> probs, labels = twins.simulate("cifar10", n=2000)
    >>> found = run_splits(probs, labels, noise=0.2, splits=20)
    >>> found.coverages.shape
    (6, 1, 20)
    >>> bool(abs(found.coverages[2].mean() - 0.9) < 0.02)
    True
    """
    how = as_score(score)
    rows, clean, _ = open_points(probs, labels, probabilities=how.takes_probabilities)
    model = noise_for(noise, rows.k)
    if model is not None and not model.doubt.exact:
        raise InputError("noise", "must be known exactly: it is drawn from", found=repr(model))
    alphas = check_alphas(alpha)
    check_choice("crossing", crossing, RULES)
    n = rows.n // 2 if calibration is None else check_count("calibration", calibration, 1)
    if n >= rows.n:
        raise InputError("calibration", f"must leave points for testing: 1 to {rows.n - 1}", found=f"{n}")
    given = None if noisy_labels is None else check_labels(noisy_labels, rows.n, rows.k, name="noisy_labels")
    chosen_methods = six_methods(rows.k) if methods is None else list(methods)
    for method in chosen_methods:
        reason = method.guarantee.applies(model if method.noise_aware else None, crossing)
        if reason is not None:
            raise InputError("methods", f'hold "{method.name}", which {reason}')

    spec, weights = how.spec, Weights(inverse_of(model, rows.k))
    crossed = _crossing(chosen_methods, weights)
    squares = any(method.guarantee.needs_squares for method in chosen_methods)
    scores = np.concatenate(list(rows.map(lambda values, _: engine.of(values).scores(values, spec))))
    true_scores = scores[np.arange(rows.n), clean]

    def sample_of(labels: Ints, chosen: Ints) -> Sample:
        label_scores = scores[chosen, labels[chosen]][:, None]
        return Sample(rows.some(chosen), labels[chosen, None], np.ones((n, 1)), how, label_scores)

    shape = (splits, len(chosen_methods), len(alphas))
    thresholds, corrections, coverages = np.empty(shape), np.empty(shape), np.empty(shape)
    masks = np.empty((splits, rows.n), dtype=bool)
    label_cells = np.empty((splits, n), dtype=np.int32)
    for split in range(splits):
        drawn_from = model if given is None else None
        masks[split], noisy = draw_split(clean, rows.k, drawn_from, n, random_state, split)
        chosen = np.flatnonzero(masks[split])
        samples = {
            True: sample_of(clean, chosen),
            False: sample_of(noisy if given is None else given, chosen),
        }
        label_cells[split] = samples[False].label_cells[:, 0]
        by_label = np.bincount(samples[False].labels[:, 0], minlength=rows.k).astype(np.float64)
        problems = [Problem(a, n, model, weights.inverse, by_label) for a in alphas]
        counted: dict[tuple[bool, bool, bool], Counted] = {}
        for m, method in enumerate(chosen_methods):
            if m in crossed:
                corrections[split, m] = [crossed[m].excess(problem, 0.0) for problem in problems]
                continue
            sample, under = samples[method.sees_clean], model if method.noise_aware else None
            key = method.sees_clean, method.noise_aware, method.guarantee.only_as_given
            if key not in counted:
                counted[key] = _count(sample, under, method.guarantee.only_as_given, squares)
            found = find(method.guarantee, counted[key].curve, under, alphas, crossing, sample, split)
            thresholds[split, m] = [each.finding.threshold for each in found]
            corrections[split, m] = [
                method.correction(each.finding.correction, each.finding.estimate, a)
                for each, a in zip(found, alphas, strict=True)
            ]
        if progress is not None:
            progress((split + 1) // 2)  # the rest takes about as long
    if crossed:
        members = list(crossed)
        targets = 1 - np.array(alphas) + corrections[:, members]
        cells = crossings(rows, spec, masks, label_cells, weights, targets, crossing)
        thresholds[:, members] = spec.thresholds[cells]
    for split, tested in enumerate(~masks):
        ascending = np.sort(true_scores[tested])
        coverages[split] = np.searchsorted(ascending, thresholds[split], side="right") / (rows.n - n)
    sizes = mean_sizes(scores, ~masks, thresholds.reshape(splits, -1)).reshape(shape)
    if progress is not None:
        progress(splits)
    results = (thresholds + how.offset, sizes, coverages, corrections)
    return SplitResults(chosen_methods, alphas, *(np.moveaxis(each, 0, -1) for each in results))


def draw_split(
    labels: Ints, k: int, noise: Noise | None, calibration: int, seed: int, split: int
) -> tuple[Bools, Ints]:
    """Return which rows calibrate in one split, and the noisy labels drawn for it."""
    rng = np.random.default_rng([seed, split])
    chosen = np.zeros(len(labels), dtype=bool)
    chosen[rng.permutation(len(labels))[:calibration]] = True
    return chosen, labels if noise is None else noise.sample(labels, k, rng)


def _crossing(methods: Sequence[Method], weights: Weights) -> dict[int, Guarantee]:
    """Return, by number, the guarantees whose thresholds `crossings` finds for all splits at once.

    They are where the estimate from noisy labels crosses a target, if all pairs have the same weight. The
    thresholds of other guarantees are found split by split, as `calibrate` does.
    """
    if weights.constant is None or weights.constant > 0:
        return {}
    return {
        m: method.guarantee
        for m, method in enumerate(methods)
        if method.noise_aware and not method.sees_clean and method.guarantee.crosses_target
    }


def _count(sample: Sample, noise: Noise | None, only_labels: bool, squares: bool) -> Counted:
    """Count a sample; for guarantees that take labels as they are, the labels alone: pairs have no weight."""
    if not only_labels:
        return Counted.of(sample, noise, squares=squares)
    infinite = np.count_nonzero(sample.label_scores > sample.score.spec.thresholds[INFINITE - 1])
    by_label = np.bincount(sample.labels[:, 0], minlength=sample.k)
    hits, pairs = np.array([sample.n - infinite, infinite]), np.zeros(2, dtype=np.int64)
    tally = Tally(sample.n, sample.k, by_label, np.array([INFINITE - 1, INFINITE]), hits, pairs)
    weights = weights_under(noise, sample.k, several=False)
    return Counted(dict.fromkeys(weights, tally), weights, sample.score)


def crossings(
    rows: Rows, spec: Spec, masks: Bools, label_cells: Array, weights: Weights, targets: Floats, rule: Rule
) -> Ints:
    """Return the grid points where the estimate of each split crosses its targets, as `Curve.crossing` would.

    The estimate is computed at a few grid points, the edges, and bounded in between, since labels only raise
    it and pairs, whose weight must not be positive, only lower it. Where the bounds do not rule out a
    crossing in some split, grid points in between are added. `masks` are the rows of each split, (splits,
    rows), `label_cells` the cells of their labels' scores, (splits, n), and `targets` have the splits along
    the first axis.
    """
    edges: Ints = COARSE
    found, undecided = np.zeros(targets.shape, dtype=np.int64), np.arange(len(targets))
    pairs, nothing = _pairs_upto(rows, spec, masks, edges), np.empty(0, dtype=np.int64)
    while True:
        places = np.searchsorted(edges, np.arange(CELLS)).astype(np.int32)
        unclear = np.zeros((len(undecided), len(edges)), dtype=bool)
        for split, each in zip(undecided.tolist(), unclear, strict=True):
            hits = np.bincount(places[label_cells[split]], minlength=len(edges))
            counts = edges, hits, np.diff(pairs[split], prepend=0)
            curve = Curve(Tally(label_cells.shape[1], rows.k, nothing, *counts), spec, weights, None)
            for place, target in np.ndenumerate(targets[split]):
                found[split][place] = curve.crossing(target, rule)
                each |= _may_cross(curve, target, rule)
        undecided = undecided[unclear.any(axis=1)]
        if not len(undecided):
            return found
        inner = []
        for j in np.flatnonzero(unclear.any(axis=0)):
            low, high = edges[j - 1] if j else -1, edges[j]
            inner.append(np.linspace(low + 1, high - 1, min(high - low - 1, _PIECES)).astype(np.int64))
        more = np.unique(np.concatenate(inner))
        order = np.argsort(np.append(edges, more))
        edges = np.append(edges, more)[order]
        pairs = np.append(pairs, _pairs_upto(rows, spec, masks, more), axis=1)[:, order]


def _may_cross(curve: Curve, target: float, rule: Rule) -> Bools:
    """Return for each edge whether the estimate may cross a target between the edge before and this one."""
    if target > 1 + ROUNDING:
        return np.zeros(len(curve.tally.cells), dtype=bool)
    level, number = target - ROUNDING, np.arange(len(curve.tally.cells))
    hits, pairs = np.cumsum(curve.tally.hits), np.cumsum(curve.tally.pairs)
    own, pair = float(curve.weights.own[0]), curve.weights.constant
    assert pair is not None
    reached = np.flatnonzero((curve.clean >= level) == (rule == "first"))
    if rule == "last":
        lowest = (own * np.append(0, hits[:-1]) + pair * pairs) / curve.tally.n
        possible = (lowest < level + ROUNDING / 2) & (number > reached.max(initial=-1))
    else:
        highest = (own * hits + pair * np.append(0, pairs[:-1])) / curve.tally.n
        possible = (highest >= level - ROUNDING / 2) & (number <= reached.min(initial=len(number)))
    between = np.diff(curve.tally.cells, prepend=-1) > 1
    return np.asarray(between & possible)


def _pairs_upto(rows: Rows, spec: Spec, masks: Bools, cells: Ints) -> Ints:
    """Return the number of pairs of each split up to grid points: (splits, points)."""
    total = np.zeros((len(masks), len(cells)), dtype=np.int64)
    for where in row_slices(rows.n, rows.k, max(1, _BLOCK // max(rows.k, len(cells)))):
        total += _product(masks[:, where], sizes_of(rows[where], spec, cells), rows.k)
    return total


def _product(masks: Bools, sizes: Floats, k: int) -> Ints:
    """Return the sums of the set sizes of some rows. Whole numbers are exact in float32 up to 2^24."""
    kind = np.float32 if len(sizes) * k <= 1 << 24 else np.float64
    found: Ints = (masks.astype(kind) @ sizes.astype(kind)).astype(np.int64)
    return found


def mean_sizes(scores: Floats, masks: Bools, thresholds: Floats) -> Floats:
    """Return the mean set size of each split's rows at its own thresholds: (splits, thresholds)."""
    (n, k), levels = scores.shape, np.unique(thresholds)
    columns, total = np.searchsorted(levels, thresholds), np.zeros(thresholds.shape, dtype=np.int64)
    width = len(levels) + 1
    for where in row_slices(n, k, max(1, _BLOCK // max(k, width))):
        places = np.searchsorted(levels, scores[where])
        number = len(places)
        places += np.arange(number)[:, None] * width
        counts = np.bincount(places.reshape(-1), minlength=number * width).reshape(number, width)
        sums = _product(masks[:, where], np.cumsum(counts[:, :-1], axis=1), k)
        total += np.take_along_axis(sums, columns, axis=1)
    return np.asarray(total / np.count_nonzero(masks, axis=1)[:, None])
