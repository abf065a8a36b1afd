"""What many splits of the same points share is done here once, for one score.

That is: how many of each row's scores lie below some edges, and the pairs themselves where the thresholds of
the splits will fall, by cell. A split then is a mask over the rows: its tallies are the sums of the rows that
it chooses, and its thresholds are found in the few cells in which the estimate may cross a target, on the
same numbers as in `calibrate`. Where a split has to look at other pairs, they are collected then, and kept
for the next. Guarantees that do more than cross a corrected target, and thresholds under noise that is not
uniform, are found by `calibrate`'s own route.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache, partial
from itertools import groupby
from typing import TypeAlias

import numpy as np

from nacp import engine
from nacp._types import Array, Bools, Floats, Ints
from nacp.coverage import Coverage, Crossing, Rule, Sample, together
from nacp.coverage.crossing import EVERYWHERE, NOWHERE, ROUNDING, Cell, Scan
from nacp.coverage.estimator import Estimator
from nacp.coverage.questions import merged
from nacp.guarantees import Corrected, Guarantee, Problem, find
from nacp.noise import Noise, UniformNoise
from nacp.noise.matrices import ClassMatrix
from nacp.paper.methods import Method
from nacp.points import Rows
from nacp.scores import Precomputed, Score
from nacp.tuning import tuning

_CELLS = 48
_SAMPLED = 512  # rows whose pairs say where the windows of all are
_EDGES, _FINE = 32, 4
_NO_PAIRS = np.empty(0), np.empty(0, dtype=np.int64)
# Method, alpha, correction, threshold, test size and test coverage.
Found: TypeAlias = tuple[int, int, float, float, float, float]


def _only_crosses(guarantee: Guarantee) -> bool:
    """Return whether thresholds of a guarantee are crossings of a corrected target, and nothing else."""
    return type(guarantee).find is Corrected.find


class Runner:
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
        # Of somebody's own function, and of rows with their top entries only, scores are written out.
        own = score.spec.of_rows is not None
        self.points = rows, score  # as `calibrate` takes them, but an own function is asked once
        if own or rows.entries < rows.k:
            written = np.empty((rows.n, rows.k))
            for where in rows.slices():
                written[where] = engine.open_block(rows[where], score.spec).placed
            rows, score = Rows(written), Precomputed()
        if own:
            self.points = rows, score
        self.rows, self.clean, self.score, self.noise = rows, clean, score, noise
        self.inverses = {aware: _inverse(noise if aware else None, rows.k) for aware in (False, True)}
        self.methods, self.alphas, self.crossing, self.n = methods, alphas, crossing, n
        self._known_targets: dict[tuple[int, Hashable], list[tuple[float, float]]] = {}
        self.block = engine.open_block(rows.whole(slice(0, rows.n)), score.spec)
        scores = self._scores(np.arange(rows.n), clean)
        self.clean_order = np.argsort(scores)
        self.clean_scores = scores[self.clean_order]

    def _scores(self, rows: Ints, labels: Ints) -> Floats:
        """Return the scores of one label for each of some rows."""
        return self.block.at(rows * self.rows.k + labels, placed=True)

    def score_matrix(self) -> tuple[Array, bool] | None:
        """Return the scores of all pairs, or minus them, and which of both, if they are in memory."""
        if isinstance(self.block.values, np.ndarray) and self.block.is_minus_p:
            values = self.block.values
            return (values, True) if values.dtype in (np.float32, np.float64) else None
        return (self.block.placed, False) if "placed" in vars(self.block) else None

    def _sorted_scores(self, mask: Bools, labels: Ints) -> Floats:
        """Return the scores of the labels of some rows, ascending: those of right labels are known."""
        right = mask if labels is self.clean else mask & (labels == self.clean)
        known = self.clean_scores.compress(right.take(self.clean_order))
        if labels is self.clean:
            return known
        wrong = np.flatnonzero(mask ^ right)
        others = np.sort(self._scores(wrong, labels[wrong]))
        return np.sort(np.concatenate([known, others]), kind="stable")

    def alike(self) -> Iterator[tuple[tuple[bool, bool], list[int]]]:
        """Yield which labels methods see and if they know of the noise, and those that cross a target so."""

        def sees(m: int) -> tuple[bool, bool]:
            return self.methods[m].sees_clean, self.methods[m].noise_aware

        own = [m for m, method in enumerate(self.methods) if _only_crosses(method.guarantee)]
        for seen, group in groupby(sorted(own, key=sees), key=sees):
            yield seen, list(group)

    def label_counts(self, mask: Bools, labels: Array) -> Ints:
        """Return how often each label occurs in some rows."""
        return np.bincount(labels.compress(mask), minlength=self.rows.k)

    def targets(self, counts: Callable[[], Ints], m: int) -> list[tuple[float, float]]:
        """Return correction and target of a method for each alpha, given how often each label occurs."""
        guarantee = self.methods[m].guarantee
        assert isinstance(guarantee, Corrected)
        seen = guarantee.of_counts(counts)
        if seen is None:
            return self._targets(counts(), guarantee, self.methods[m])
        if (m, seen) not in self._known_targets:
            self._known_targets[m, seen] = self._targets(counts(), guarantee, self.methods[m])
        return self._known_targets[m, seen]

    def _targets(self, counts: Ints, guarantee: Corrected, method: Method) -> list[tuple[float, float]]:
        noise = self.noise if method.noise_aware else None
        inverse = self.inverses[method.noise_aware]
        problems = [
            Problem(alpha, self.n, noise, inverse, counts.astype(np.float64)) for alpha in self.alphas
        ]
        corrections = [guarantee.correction(problem) for problem in problems]
        return [(c, 1 - a + c) for a, c in zip(self.alphas, corrections, strict=True)]

    def prepare(self, mask: Bools, noisy: Ints) -> None:
        """Choose the edges, count each row's scores below them, and collect the pairs in the windows."""
        self.estimators = {
            aware: Estimator(np.zeros(self.n), self.clean[mask], inverse)
            for aware, inverse in self.inverses.items()
        }
        sample = self.rows.whole(np.arange(0, self.rows.n, self.rows.n // _SAMPLED + 1))
        block = engine.open_block(sample, self.score.spec)
        self.sampled = np.sort(engine.window(block, [Cell(-np.inf, np.inf)]).scores)
        pooled, windows = self._sorted_scores(np.ones(self.rows.n, dtype=bool), noisy), list[Cell]()
        for (sees_clean, aware), group in self.alike():
            labels, scores = (self.clean, self.clean_scores) if sees_clean else (noisy, pooled)
            counts = partial(self.label_counts, mask, labels)
            targets = [target for m in group for _, target in self.targets(counts, m)]
            windows += self._windows([t for t in targets if t <= 1 + ROUNDING], labels, scores, aware)
        self.windows = merged(windows)
        self.edges = self._edges(pooled)
        self.ends = np.concatenate([[-np.inf], self.edges, [np.inf]])
        few = self.rows.k < 1 << 16  # then the compiled engine adds them up
        self.counts = np.empty((self.rows.n, len(self.edges)), dtype=np.uint16 if few else np.uint32)
        low, high = self.ends[:-1], self.ends[1:]
        kept = [(window.low <= low) & (high <= window.high) for window in self.windows]
        # 1 if the pairs of a cell are kept, 2 if they are in order: that is done when somebody needs it.
        self.known: Array = np.logical_or.reduce(kept or [low > high]).astype(np.uint8)
        matrix = self.score_matrix()
        pairs = None if matrix is None else engine.split_cells(*matrix, self.edges, self.known, self.counts)
        self.kept = self._cells() if pairs is None else pairs
        self.totals: Ints = self.counts.sum(axis=0, dtype=np.int64)
        self.collected: dict[int, tuple[Floats, Array]] = {}

    def _edges(self, pooled: Floats) -> Floats:
        """Return the edges of the cells: some in each window, others by the scores of all labels."""
        # Finer on the side from which the search comes, where each cell must be shown not to cross.
        quantiles = pooled[np.linspace(0, len(pooled) - 1, _EDGES * _FINE).astype(int)]
        if self.crossing == "last":
            fine = quantiles > (self.windows[0].low if self.windows else -np.inf)
        else:
            fine = quantiles < (self.windows[-1].high if self.windows else np.inf)
        fine[::_FINE] = True
        edges = [q for q in quantiles[fine].tolist() if not any(w.low < q < w.high for w in self.windows)]
        for window in self.windows:
            inside = self.sampled[slice(*np.searchsorted(self.sampled, window))]
            edges += [*window, *inside[:: len(inside) // _CELLS + 1].tolist()]
        found: Floats = np.unique(edges)
        return found[np.isfinite(found)]

    def _cells(self) -> engine.CellPairs:
        """Count each row's scores up to the edges, and return the pairs of the windows by cell."""
        for where in self.rows.slices():
            self.counts[where] = engine.profile(self._open(where), self.edges)
        scores = np.concatenate([_NO_PAIRS[0], *self._collected(self.windows)])
        rows = np.repeat(np.arange(self.rows.n, dtype=np.int32), self._numbers_in(self.windows))
        cells = np.searchsorted(self.edges, scores, side="left").astype(np.uint16)
        order, sizes = np.argsort(cells, kind="stable"), np.bincount(cells, minlength=len(self.ends) - 1)
        return engine.CellPairs(np.append(0, np.cumsum(sizes)), scores[order], rows[order])

    def _collected(self, spans: list[Cell]) -> Iterator[Floats]:
        """Yield the scores in disjoint intervals, row after row."""
        for where in self.rows.slices():
            if spans:
                yield engine.window(self._open(where), spans).scores

    def _numbers_in(self, spans: list[Cell]) -> Ints:
        """Return how many scores each row has in disjoint intervals between edges."""
        numbers = np.zeros(self.rows.n, dtype=np.int64)
        for j, sign in (
            (j, sign) for span in spans for j, sign in zip(self._places(span), (-1, 1), strict=True)
        ):
            if j:
                numbers += sign * (
                    self.rows.k if j > len(self.edges) else self.counts[:, j - 1].astype(np.int64)
                )
        return numbers

    def _places(self, span: Cell) -> list[int]:
        found: list[int] = np.searchsorted(self.ends, span).tolist()
        return found

    def _open(self, where: slice) -> engine.Block:
        return engine.open_block(self.rows[where], self.score.spec)

    def _ends_for(self, target: float, aware: bool) -> tuple[float, float]:
        """Return which coverage of all rows the thresholds of the splits for a target will have."""
        # The variance of one point's share in the estimate where the sets are small: F^c (hi - F^c).
        hi = max(self.inverses[aware].subset_range()[1], 1.0)
        spread = tuning().split_errors * np.sqrt(target * (hi - target) / self.n)
        return max(target - spread, target / 2), min(target + spread, (1 + target) / 2)

    def _windows(self, targets: list[float], labels: Ints, scores: Floats, aware: bool) -> list[Cell]:
        """Return where the thresholds of the splits will fall: where all rows nearly reach the targets."""
        if not targets:
            return []
        ends = np.array([self._ends_for(target, aware) for target in targets]).reshape(-1)
        estimator = self.estimators[aware]
        if estimator.rises_by_labels:
            # As in a split. Pairs are counted in the sample: where windows end matters for speed only.
            labels_upto = np.arange(1, self.rows.n + 1) * self.n // self.rows.n
            pairs = np.searchsorted(self.sampled, scores, side="right") * (self.n * self.rows.k)
            clean = estimator.clean_of(labels_upto, pairs // len(self.sampled) * (estimator.constant or 0))
            past = clean >= ends[:, None] - ROUNDING
            last = np.minimum(self.rows.n - past[:, ::-1].argmin(axis=1), self.rows.n - 1)
            found = scores[last if self.crossing == "last" else past.argmax(axis=1)]
        else:
            every = Sample(self.rows, labels, self.score)
            coverage = Coverage(every, self.inverses[aware])
            crossings = every.ask(coverage.crossings(ends.tolist(), self.crossing, last=True))
            found = np.array([crossing.threshold for crossing in crossings])
        return [Cell(float(low), float(high)) for low, high in found.reshape(-1, 2)]

    def run(
        self, mask: Bools, noisy: Array, tally: Ints, split: int, crossed: Iterable[Found] | None = None
    ) -> Iterator[Found]:
        """Yield what is found for one split; `crossed` is what crosses corrected targets, if it is known."""
        if crossed is None:
            crossed = self._measured([*self._crossings(mask, noisy, tally)], mask, tally)
        yield from crossed
        yield from self._measured([*self._findings(mask, noisy, split)], mask, tally)

    def _measured(
        self, found: list[tuple[int, int, float, float]], mask: Bools, tally: Ints
    ) -> Iterator[Found]:
        """Yield thresholds with test size and test coverage."""
        if not found:
            return
        # Where in the order of the true labels' scores the calibration points are.
        places = np.flatnonzero(mask.take(self.clean_order))
        tested = len(mask) - self.n
        for m, a, correction, q in found:
            size = self._test_size(q, mask, self.totals - tally)
            upto = int(np.searchsorted(self.clean_scores, q, side="right"))
            covered = upto - int(np.searchsorted(places, upto))
            yield m, a, correction, q, size, float(covered) / tested

    def _sample(self, mask: Bools, labels: Ints) -> Sample:
        rows, score = self.points
        return Sample(rows.some(np.flatnonzero(mask)), labels[mask].astype(np.int64, copy=False), score)

    def _findings(self, mask: Bools, noisy: Ints, split: int) -> Iterator[tuple[int, int, float, float]]:
        """Yield method, alpha, correction and threshold of the guarantees that do more than cross."""
        own = [m for m, method in enumerate(self.methods) if not _only_crosses(method.guarantee)]
        for sees_clean, group in groupby(own, key=lambda m: self.methods[m].sees_clean):
            sample, methods = self._sample(mask, self.clean if sees_clean else noisy), list(group)
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
        known: dict[bool, tuple[Callable[[], Ints], Floats]] = {}
        for (sees_clean, aware), group in self.alike():
            labels = self.clean if sees_clean else noisy
            if sees_clean not in known:
                counted = cache(partial(self.label_counts, mask, labels))
                known[sees_clean] = counted, self._sorted_scores(mask, labels)
            counts, scores = known[sees_clean]
            wanted = [
                (m, a, correction, target)
                for m in group
                for a, (correction, target) in enumerate(self.targets(counts, m))
            ]
            targets = [target for *_, target in wanted]
            if self.estimators[aware].rises_by_labels:
                found = self._crossed(targets, self.estimators[aware], scores, tally, mask)
            else:
                sample = self._sample(mask, labels)
                coverage = Coverage(sample, self.inverses[aware])
                found = sample.ask(coverage.crossings(targets, self.crossing))
            for (m, a, correction, _), (q, _) in zip(wanted, found, strict=True):
                yield m, a, correction, q

    def _crossed(
        self, targets: list[float], estimator: Estimator, scores: Floats, tally: Ints, mask: Bools
    ) -> list[Crossing]:
        """Return where the estimate crosses targets, given the scores of labels, in order.

        Inside a cell it is no less than with the labels before it and all its pairs, and no more than with
        all its labels and the pairs before it: that shows of most cells that nothing is crossed there.
        """
        labels = np.searchsorted(scores, self.ends, side="right")
        pairs = np.concatenate([[0], tally, [self.n * self.rows.k]])
        least = estimator.clean_of(labels[:-1], pairs[1:] * estimator.constant)
        most = estimator.clean_of(labels[1:], pairs[:-1] * estimator.constant)
        scans: dict[int, Scan] = {}

        def scanned(j: int) -> Scan:
            if j not in scans:
                inside = _NO_PAIRS[0]
                if estimator.constant:
                    some, rows = self.put_in_order(j)
                    inside = some.compress(mask.take(rows))
                own, base = scores[labels[j] : labels[j + 1]], estimator.weighed(pairs[None, j : j + 1])
                scans[j] = Scan.through(estimator, base[:, 0], int(labels[j]), own, inside, _NO_PAIRS[1])
            return scans[j]

        found = []
        for target in targets:
            if target > 1 + ROUNDING:
                found.append(NOWHERE)
                continue
            bar = target - ROUNDING
            cells = (
                np.flatnonzero(least < bar)[::-1] if self.crossing == "last" else np.flatnonzero(most >= bar)
            )
            crossing = (scanned(j) for j in cells.tolist())
            scan = next((each for each in crossing if each.crosses(target, self.crossing)), None)
            if scan is None:
                found.append(EVERYWHERE if target <= 0 else NOWHERE)
            else:
                found.append(scan.crossing(target, self.crossing))
        return found

    def _cell(self, j: int) -> Cell:
        return Cell(float(self.ends[j]), float(self.ends[j + 1]))

    def _pairs(self, j: int) -> tuple[Floats, Array]:
        """Return the scores in a cell, and the rows that they belong to."""
        if self.known[j]:
            some = slice(*self.kept.starts[j : j + 2])
            return self.kept.scores[some], self.kept.rows[some]
        if j not in self.collected:
            scores, cell = np.concatenate(list(self._collected([self._cell(j)]))), [self._cell(j)]
            rows, order = np.repeat(np.arange(self.rows.n), self._numbers_in(cell)), np.argsort(scores)
            self.collected[j] = scores[order], rows[order]
        return self.collected[j]

    def put_in_order(self, j: int) -> tuple[Floats, Array]:
        """Return the same, ascending."""
        scores, rows = self._pairs(j)
        if self.known[j] == 1:
            order = np.argsort(scores)
            scores[:], rows[:], self.known[j] = scores[order], rows[order], 2
        return scores, rows

    def _test_size(self, q: float, mask: Bools, tested: Ints) -> float:
        """Return the mean size of the test sets at q."""
        if q == np.inf:
            return float(self.rows.k)
        j = int(np.searchsorted(self.edges, q, side="right"))
        scores, rows = self._pairs(j)
        below = int(tested[j - 1]) if j > 0 else 0
        inside = np.count_nonzero(mask.take(rows) < (scores <= q))
        return float(below + int(inside)) / (len(mask) - self.n)


def _inverse(noise: Noise | None, k: int) -> ClassMatrix:
    return (UniformNoise(0.0) if noise is None else noise).inverse(k)
