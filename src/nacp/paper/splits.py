"""The split engine: many random calibration/test splits, with the work that they share done once.

Once per score: the scores of all pairs; how many of each row's lie below some edges; and the pairs
themselves where the thresholds of the splits will fall. A split then is a 0/1 mask over the rows, so its
tallies are one product with the counts, and its thresholds are found by the same search as in `calibrate`, on
the same numbers. Where a split has to look at other pairs, they are collected then, and kept for the next.
Guarantees that do more than cross a corrected target, and thresholds under noise that is not uniform, are
found by `calibrate`'s own route, from the scores.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Array, Bools, Floats, Ints
from nacp.calibrate import ScoreLike
from nacp.checks import check_alphas, check_choice, check_count
from nacp.coverage import RULES, Coverage, Crossing, Rule, Sample, together
from nacp.coverage.crossing import ROUNDING, Cell, Search
from nacp.coverage.estimator import Estimator
from nacp.engine import Scratch
from nacp.errors import InputError
from nacp.guarantees import Corrected, Guarantee, Problem, find
from nacp.noise import Noise, NoiseLike, UniformNoise, noise_for
from nacp.noise.matrices import ClassMatrix
from nacp.paper.methods import Method, six_methods
from nacp.points import Rows, check_labels, open_points
from nacp.scores import Precomputed, Score, as_score
from nacp.tuning import tuning

_BATCH = 64
_CELL_PAIRS = 1 << 15
_EDGES = 64
_FINE = 8


@dataclass(frozen=True, eq=False)
class SplitResults:
    """What `run_splits` found; arrays of shape (methods, alphas, splits).

    Attributes
    ----------
    methods : list of Method
    alphas : list of float
    thresholds : array
        On the scale of the score.
    sizes : array
        Mean size of the test sets.
    coverages : array
        Share of test sets that contain the true label.
    corrections : array
        What was added to the target; the excess over it where thresholds are tested.
    """

    methods: list[Method]
    alphas: list[float]
    thresholds: Floats
    sizes: Floats
    coverages: Floats
    corrections: Floats


def draw_split(
    labels: Ints, k: int, noise: Noise | None, calibration: int, seed: int, split: int
) -> tuple[Bools, Ints]:
    """Return which rows calibrate in one split, and the noisy labels drawn for it."""
    rng = np.random.default_rng([seed, split])
    chosen = np.zeros(len(labels), dtype=bool)
    chosen[rng.permutation(len(labels))[:calibration]] = True
    return chosen, labels if noise is None else noise.sample(labels, k, rng)


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

    Thresholds, sizes and coverages are those of `calibrate` and `evaluate` on each split.

    Parameters
    ----------
    probs : array of shape (N, k)
        Class probabilities.
    labels : array of shape (N,)
        The true labels.
    noise : float, array of shape (k, k) or noise model
        The noise that corrupts the calibration labels. Splits share most of their work where it is uniform.
    alpha, score, crossing
        As in `calibrate`.
    methods : sequence of Method, optional
        The paper's six by default.
    splits : int, default=1000
        How many.
    calibration : int, optional
        The number of calibration points; half of N by default.
    noisy_labels : array of shape (N,), optional
        The noisy labels of all splits, where there are real ones or they were drawn once.
    random_state : int, default=0
        The same number gives the same splits, whatever else is asked.
    progress : callable, optional
        Called with the number of splits that have been done.

    Returns
    -------
    SplitResults

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

    def draw(split: int) -> tuple[Bools, Ints]:
        if given is None:
            return draw_split(clean, rows.k, model, n, random_state, split)
        return draw_split(clean, rows.k, None, n, random_state, split)[0], given

    runner = _Runner(rows, clean, how, model, chosen_methods, alphas, crossing, n)
    runner.prepare(*draw(0))
    shape = (len(chosen_methods), len(alphas), splits)
    out = SplitResults(chosen_methods, alphas, *(np.empty(shape) for _ in range(4)))
    for start in range(0, splits, _BATCH):
        numbers = range(start, min(start + _BATCH, splits))
        drawn = [draw(split) for split in numbers]
        masks = np.array([mask for mask, _ in drawn], dtype=np.float64)
        tallies = np.rint(masks @ runner.counts).astype(np.int64)
        for split, (mask, noisy), tally in zip(numbers, drawn, tallies, strict=True):
            for m, a, correction, q, size, coverage in runner.run(mask, noisy, tally, split):
                out.thresholds[m, a, split] = q + how.offset
                out.sizes[m, a, split] = size
                out.coverages[m, a, split] = coverage
                out.corrections[m, a, split] = correction
            if progress is not None:
                progress(split + 1)
    return out


def _only_crosses(guarantee: Guarantee) -> bool:
    """Return whether thresholds of a guarantee are crossings of a corrected target, and nothing else."""
    return type(guarantee).find is Corrected.find


class _Runner:
    """What the splits of one score share."""

    def __init__(
        self,
        rows: Rows,
        clean: Ints,
        score: Score,
        noise: Noise | None,
        methods: list[Method],
        alphas: list[float],
        crossing: Rule,
        n: int,
    ) -> None:
        self.rows, self.clean, self.noise = rows, clean, noise
        self.inverses = {aware: _inverse(noise if aware else None, rows.k) for aware in (False, True)}
        self.methods, self.alphas, self.crossing, self.n = methods, alphas, crossing, n
        self.scores = np.empty((rows.n, rows.k))
        spec, scratch = score.spec, Scratch()
        for where in rows.slices():
            self.scores[where] = engine.open_block(rows[where], spec, scratch).placed
        self.clean_scores = self._gather(clean)

    def _gather(self, labels: Ints) -> Floats:
        return self.scores[np.arange(len(labels)), labels]

    def _targets(self, counts: Ints, method: Method) -> list[tuple[float, float]]:
        """Return correction and target for each alpha, given how often each label occurs."""
        noise = self.noise if method.noise_aware else None
        inverse = self.inverses[method.noise_aware]
        problems = [
            Problem(alpha, self.n, noise, inverse, counts.astype(np.float64)) for alpha in self.alphas
        ]
        assert isinstance(method.guarantee, Corrected)
        corrections = [method.guarantee.correction(problem) for problem in problems]
        return [(c, 1 - a + c) for a, c in zip(self.alphas, corrections, strict=True)]

    def prepare(self, mask: Bools, noisy: Ints) -> None:
        """Choose the edges, count each row's scores below them, and collect the pairs in the windows."""
        pooled = np.sort(self._gather(noisy))
        all_scores = Rows(self.scores)
        samples = {
            seen: Sample(all_scores, seen_labels, Precomputed())
            for seen, seen_labels in ((True, self.clean), (False, noisy))
        }
        windows = []
        for method in self.methods:
            if not _only_crosses(method.guarantee):
                continue
            labels = self.clean if method.sees_clean else noisy
            for _, target in self._targets(np.bincount(labels[mask], minlength=self.rows.k), method):
                if target <= 1 + ROUNDING:
                    windows.append(self._window_for(target, samples[method.sees_clean], method.noise_aware))
        self.windows = _merged(windows)
        self.pair_scores, self.pair_rows = self._collect(self.windows)
        self.further: dict[Cell, tuple[Floats, Array]] = {}
        # Finer on the side from which the search comes, where each cell must be shown not to cross.
        quantiles = pooled[np.linspace(0, len(pooled) - 1, _EDGES * _FINE).astype(int)]
        if self.crossing == "last":
            fine = quantiles > (self.windows[0].low if self.windows else -np.inf)
        else:
            fine = quantiles < (self.windows[-1].high if self.windows else np.inf)
        fine[::_FINE] = True
        quantiles = quantiles[fine]
        edges = [w.low for w in self.windows] + [w.high for w in self.windows]
        outside = [q for q in quantiles.tolist() if not any(w.low < q < w.high for w in self.windows)]
        cut = np.searchsorted(self.pair_scores, self.pair_scores[_CELL_PAIRS::_CELL_PAIRS], side="right") - 1
        inside = self.pair_scores[cut].tolist() if len(self.pair_scores) else []
        self.edges: Floats = np.unique([*edges, *outside, *inside])
        self.counts = np.empty((self.rows.n, len(self.edges)))
        width = len(self.edges) + 1
        for where in self.rows.slices():
            block = self.scores[where]
            cells = np.searchsorted(self.edges, block.ravel(), side="left")
            cells += np.repeat(np.arange(len(block)) * width, self.rows.k)
            by_cell = np.bincount(cells, minlength=len(block) * width).reshape(len(block), width)
            self.counts[where] = np.cumsum(by_cell[:, :-1], axis=1)
        self.totals: Ints = np.rint(self.counts.sum(axis=0)).astype(np.int64)

    def _window_for(self, target: float, every: Sample, aware: bool) -> Cell:
        """Return where the thresholds of the splits will fall: where all rows nearly reach the target."""
        inverse = self.inverses[aware]
        # The variance of one point's share in the estimate where the sets are small: F^c (hi - F^c).
        hi = max(inverse.subset_range()[1], 1.0)
        spread = tuning().split_errors * np.sqrt(target * (hi - target) / self.n)
        ends = [max(target - spread, target / 2), min(target + spread, (1 + target) / 2)]
        low, high = every.ask(Coverage(every, inverse).crossings(ends, self.crossing))
        return Cell(low.threshold, high.threshold)

    def _collect(self, windows: list[Cell]) -> tuple[Floats, Array]:
        """Return the scores in disjoint windows, ascending, and the rows that they belong to."""
        rows, scores = [np.empty(0, dtype=np.int32)], [np.empty(0)]
        for where in self.rows.slices():
            block = self.scores[where]
            for window in windows:
                inside = np.flatnonzero((block > window.low) & (block <= window.high))
                rows.append((inside // self.rows.k + where.start).astype(np.int32))
                scores.append(block.ravel()[inside])
        joined = np.concatenate(scores)
        order = np.argsort(joined)
        return joined[order], np.concatenate(rows)[order]

    def run(
        self, mask: Bools, noisy: Ints, tally: Ints, split: int
    ) -> Iterator[tuple[int, int, float, float, float, float]]:
        """Yield method, alpha, correction, threshold, test size and test coverage for one split."""
        tested_scores = np.sort(self.clean_scores[~mask])
        found = [*self._crossings(mask, noisy, tally), *self._findings(mask, noisy, split)]
        for m, a, correction, q in found:
            size = self._test_size(q, mask, self.totals - tally)
            covered = np.searchsorted(tested_scores, q, side="right")
            yield m, a, correction, q, size, float(covered) / len(tested_scores)

    def _findings(self, mask: Bools, noisy: Ints, split: int) -> Iterator[tuple[int, int, float, float]]:
        """Yield method, alpha, correction and threshold of the guarantees that do more than cross."""
        own = [m for m, method in enumerate(self.methods) if not _only_crosses(method.guarantee)]
        for sees_clean, group in groupby(own, key=lambda m: self.methods[m].sees_clean):
            labels, methods = self.clean if sees_clean else noisy, list(group)
            sample = Sample(Rows(self.scores[mask]), labels[mask], Precomputed())
            talks = [
                find(
                    self.methods[m].guarantee,
                    sample,
                    self.noise if self.methods[m].noise_aware else None,
                    self.alphas,
                    self.crossing,
                    split,
                )
                for m in methods
            ]
            for m, found in zip(methods, sample.ask(together(talks)), strict=True):
                for a, (alpha, each) in enumerate(zip(self.alphas, found, strict=True)):
                    finding, corrected = each.finding, isinstance(self.methods[m].guarantee, Corrected)
                    added = finding.correction if corrected else min(finding.estimate, 1.0) - (1 - alpha)
                    yield m, a, added, finding.threshold

    def _crossings(self, mask: Bools, noisy: Ints, tally: Ints) -> Iterator[tuple[int, int, float, float]]:
        """Yield method, alpha, correction and threshold of the guarantees that cross a corrected target."""
        noisy_scores = self._gather(noisy)
        own = [m for m, method in enumerate(self.methods) if _only_crosses(method.guarantee)]

        def sees(m: int) -> tuple[bool, bool]:
            return self.methods[m].sees_clean, self.methods[m].noise_aware

        for (sees_clean, aware), group in groupby(sorted(own, key=sees), key=sees):
            labels, scores = (self.clean, self.clean_scores) if sees_clean else (noisy, noisy_scores)
            inverse = self.inverses[aware]
            counts = np.bincount(labels[mask], minlength=self.rows.k)
            wanted = [
                (m, a, correction, target)
                for m in group
                for a, (correction, target) in enumerate(self._targets(counts, self.methods[m]))
            ]
            targets = [target for *_, target in wanted]
            if inverse.constant_rest is None:
                sample = Sample(Rows(self.scores[mask]), labels[mask], Precomputed())
                found = sample.ask(Coverage(sample, inverse).crossings(targets, self.crossing))
            else:
                search = Search(Estimator(scores[mask], labels[mask], inverse))
                counts = np.diff(tally, prepend=0, append=self.n * self.rows.k)
                search.learn(np.concatenate([[-np.inf], self.edges, [np.inf]]), counts[None])
                found = [self._locate(search, target, mask) for target in targets]
            for (m, a, correction, _), (q, _) in zip(wanted, found, strict=True):
                yield m, a, correction, q

    def _locate(self, search: Search, target: float, mask: Bools) -> Crossing:
        while not isinstance(answer := search.locate(target, self.crossing), Crossing):
            scores, rows = self._pairs(answer[0])
            search.look_into(answer[0], scores[mask[rows]], np.empty(0, dtype=np.int64))
        return answer

    def _pairs(self, cell: Cell) -> tuple[Floats, Array]:
        """Return the scores in a cell between two edges, ascending, and the rows that they belong to."""
        if any(w.low <= cell.low and cell.high <= w.high for w in self.windows):
            inside = slice(*np.searchsorted(self.pair_scores, cell, side="right"))
            return self.pair_scores[inside], self.pair_rows[inside]
        if cell not in self.further:
            self.further[cell] = self._collect([cell])
        return self.further[cell]

    def _test_size(self, q: float, mask: Bools, tested: Ints) -> float:
        """Return the mean size of the test sets at q."""
        if q == np.inf:
            return float(self.rows.k)
        edges = [-np.inf, *self.edges.tolist(), np.inf]
        j = int(np.searchsorted(self.edges, q, side="right"))
        scores, rows = self._pairs(Cell(edges[j], edges[j + 1]))
        above = rows[: np.searchsorted(scores, q, side="right")]
        below = int(tested[j - 1]) if j > 0 else 0
        return float(below + int(np.count_nonzero(~mask[above]))) / (len(mask) - self.n)


def _inverse(noise: Noise | None, k: int) -> ClassMatrix:
    return (UniformNoise(0.0) if noise is None else noise).inverse(k)


def _merged(windows: list[Cell]) -> list[Cell]:
    """Return the union of intervals, as disjoint ones."""
    merged: list[Cell] = []
    for window in sorted(windows):
        if merged and window.low <= merged[-1].high:
            merged[-1] = Cell(merged[-1].low, max(window.high, merged[-1].high))
        else:
            merged.append(window)
    return merged
