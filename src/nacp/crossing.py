"""Where the estimated clean coverage crosses the target: exactly, with few reads of the matrix.

``F^c-hat`` is a difference of two functions that rise with the threshold. Known at two rungs a < b of a
ladder, they bound it everywhere between: a cell (a, b] where even the most favourable counts cannot cross
is skipped, a cell with few pairs is scanned score by score, and any other is split by new rungs. Nothing
is decided by a tolerance in q, and the answer does not depend on the rungs.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from nacp._kernels import coarse_step
from nacp._types import Array, Bools, Floats, Ints
from nacp.coverage import Estimator, Evidence, Tally, Window

Rule: TypeAlias = Literal["first", "last"]
RULES: tuple[Rule, Rule] = ("first", "last")

# An estimate this close below the target counts as reaching it: the size of the rounding errors in F^c-hat,
# so that 0.9 reached exactly in decimals is not missed in binary.
ROUNDING = 1e-12

SCAN_ALL = 1 << 14
SCAN_LIMIT = 1 << 19
_RUNGS_PER_SPLIT = 12
_REACHES = (0.0005, 0.002, 0.008)
_PILOT_PAIRS = 1 << 19
_WINDOWS = (0.1, 0.05, 0.03, 0.02, 0.01, 0.007, 0.005, 0.003, 0.001)


class Cell(NamedTuple):
    """The thresholds in (low, high]."""

    low: float
    high: float


class Scan(NamedTuple):
    """What was found in a cell: its distinct scores, and F^c-hat at its low end and at each of them."""

    scores: Floats
    coverage: Floats
    least: float
    greatest: float


class Look(NamedTuple):
    """What to read the matrix for: tallies at rungs, cells to scan, and rungs at which a bound will do."""

    rungs: Sequence[float]
    windows: Sequence[Cell]
    loose: Sequence[float] = ()


class Crossing(NamedTuple):
    """A native threshold, and F^c-hat there."""

    threshold: float
    estimate: float


NOWHERE = Crossing(np.inf, 1.0)


def find_crossings(evidence: Evidence, targets: list[float], rule: Rule) -> list[Crossing]:
    """Return one crossing for each target; at infinity where none qualifies.

    "first": the smallest q with ``F^c-hat(q) >= target``. "last": the smallest q such that the same holds
    for all q' >= q, the paper's "largest solution".
    """
    ladder = Ladder(evidence)
    found = {i: NOWHERE for i, target in enumerate(targets) if target > 1 + ROUNDING}
    if len(found) < len(targets):
        ladder.climb(evidence, _first_look(evidence, ladder, [t for t in targets if t <= 1 + ROUNDING], rule))
    while len(found) < len(targets):
        rungs: set[float] = set()
        windows: dict[Cell, int] = {}
        for i, target in enumerate(targets):
            if i in found:
                continue
            answer = ladder.locate(target, rule)
            if isinstance(answer, Crossing):
                found[i] = answer
                continue
            for cell in answer:
                if loose := ladder.loose_ends(cell):
                    rungs.update(loose)
                    break
                if ladder.pairs_in(cell) > SCAN_LIMIT:
                    rungs.update(ladder.split(cell, target))
                    break
                if sum(windows.values()) + ladder.pairs_in(cell) > SCAN_LIMIT:
                    break
                windows[cell] = ladder.pairs_in(cell)
        pending = [target for i, target in enumerate(targets) if i not in found]
        ladder.forget(pending, rule)
        if pending:
            ladder.climb(evidence, Look(sorted(rungs), list(windows)))
    return [found[i] for i in range(len(targets))]


class Ladder:
    """What is known of the pairs so far: tallies at rungs, exact or upper bounds, and scanned cells."""

    def __init__(self, estimator: Estimator) -> None:
        self.evidence = estimator
        all_pairs = estimator.n * estimator.k if estimator.needs_pairs else 0
        self.rungs: Floats = np.array([-np.inf, np.inf])
        self.pairs: Ints = np.array([0, all_pairs])
        self.gains: Ints = np.array([0, 0])
        self.losses: Ints = np.array([0, 0])
        self.exact: Bools = np.array([True, True])
        self.scanned: dict[Cell, Scan] = {}
        self.guess: Floats | None = None

    def climb(self, evidence: Evidence, look: Look) -> None:
        """Read the matrix once, and learn from it."""
        tally, bound, found = evidence.sweep(
            np.array(look.rungs), [(w.low, w.high) for w in look.windows], np.array(look.loose)
        )
        self.learn(look.rungs, tally)
        self.learn(look.loose, bound, exact=False)
        for cell, window in zip(look.windows, found, strict=True):
            self.scan(cell, window)

    def learn(self, rungs: Sequence[float], tally: Tally, *, exact: bool = True) -> None:
        """Add tallies at new rungs, or exact ones at rungs where only bounds were known."""
        kept = ~np.isin(self.rungs, rungs)
        merged = np.concatenate([self.rungs[kept], rungs])
        order = np.argsort(merged)
        self.rungs = merged[order]
        self.pairs = np.concatenate([self.pairs[kept], tally.pairs])[order]
        self.gains = np.concatenate([self.gains[kept], tally.gains])[order]
        self.losses = np.concatenate([self.losses[kept], tally.losses])[order]
        self.exact = np.concatenate([self.exact[kept], np.full(len(rungs), exact)])[order]

    def loose_ends(self, cell: Cell) -> list[float]:
        """Return the ends of a cell at which only a bound is known."""
        ends = np.searchsorted(self.rungs, cell)
        return [float(self.rungs[j]) for j in ends if not self.exact[j]]

    def pairs_in(self, cell: Cell) -> int:
        """Return how many pairs score in a cell with exact ends."""
        low, high = np.searchsorted(self.rungs, cell)
        return int(self.pairs[high] - self.pairs[low])

    def locate(self, target: float, rule: Rule) -> Crossing | list[Cell]:
        """Return the crossing, or the cells that may have to be looked at before it is known, in order."""
        # A cell is skipped only if it stays clear of the bar by more than these bounds round.
        bar, slack = (target - ROUNDING) * self.evidence.n, ROUNDING * self.evidence.n / 8
        rising = self.evidence.rising(self.rungs, self.gains)
        falling = self.evidence.falling(self.rungs, self.losses)
        if rule == "first":
            # The fall up to a cell's low end must not be overstated.
            surely = np.maximum.accumulate(np.where(self.exact, falling, 0.0))
            open_cells = np.flatnonzero(rising[1:] - surely[:-1] >= bar - slack)
        else:
            open_cells = np.flatnonzero(rising[:-1] - falling[1:] < bar + slack)[::-1]
        unseen: list[Cell] = []
        for j in open_cells:
            cell = Cell(float(self.rungs[j]), float(self.rungs[j + 1]))
            found = self.scanned.get(cell) or self._scan_without_reading(cell)
            if found is None:
                unseen.append(cell)
            elif not unseen and _crosses(found, target, rule):
                return _crossing_in(found, target, rule)
        return unseen or NOWHERE

    def scan(self, cell: Cell, window: Window) -> Scan:
        """Follow F^c-hat through a cell, from the pairs that score in it."""
        evidence = self.evidence
        place = np.searchsorted(self.rungs, cell.low)
        net = self.gains[place] - self.losses[place]
        inside = slice(*evidence.labels_upto(np.array(cell)))
        scores = np.unique(np.concatenate([window.scores, evidence.label_scores[inside]]))
        sums = np.concatenate([[net], net + np.cumsum(window.weights)])
        at = np.searchsorted(window.scores, scores, side="right")
        coverage = evidence.clean(np.concatenate([[cell.low], scores]), np.concatenate([[net], sums[at]]))
        return self._keep(cell, scores, coverage)

    def _scan_without_reading(self, cell: Cell) -> Scan | None:
        """Return the scan of a cell that no pairs lie in, or that has room for one score only."""
        if not self.evidence.needs_pairs:
            return self.scan(cell, Window(np.empty(0), np.empty(0, dtype=np.int64)))
        if math.nextafter(cell.low, math.inf) != cell.high or self.loose_ends(cell):
            return None
        low, high = np.searchsorted(self.rungs, cell)
        if cell.high == math.inf:  # all classes are in the sets, so F^c-hat is 1
            net = np.array([self.gains[low] - self.losses[low]])
            start = self.evidence.clean(np.array([cell.low]), net)
            return self._keep(cell, np.array([math.inf]), np.append(start, 1.0))
        step = (self.gains - self.losses)[high] - (self.gains - self.losses)[low]
        return self.scan(cell, Window(np.array([cell.high]), np.array([step])))

    def _keep(self, cell: Cell, scores: Floats, coverage: Floats) -> Scan:
        least, greatest = coverage[:-1].min(initial=np.inf), coverage[1:].max(initial=-np.inf)
        self.scanned[cell] = Scan(scores, coverage, float(least), float(greatest))
        return self.scanned[cell]

    def forget(self, targets: list[float], rule: Rule) -> None:
        """Drop the scores of scanned cells in which none of the targets is crossed."""
        for cell, found in self.scanned.items():
            if not any(_crosses(found, target, rule) for target in targets):
                self.scanned[cell] = found._replace(scores=np.empty(0), coverage=np.empty(0))

    def split(self, cell: Cell, target: float) -> list[float]:
        """Return rungs inside a cell with too many pairs to scan.

        Scores of noisy labels where there are any: evenly spaced ones, and some around where the first
        guess, put right at the ends of the cell, now sees the crossing. Else values that part the cell
        evenly in their bits. And the value just below the upper end, so that many equal scores there come
        to lie in a cell of their own.
        """
        scores = self.evidence.label_scores
        start, stop = self.evidence.labels_upto(np.array(cell))
        rungs: set[float] = set()
        if stop > start:
            places = np.linspace(start, stop - 1, _RUNGS_PER_SPLIT)
            ends = np.searchsorted(self.rungs, cell)
            net = (self.gains - self.losses)[ends]
            known = self.evidence.clean(np.array(cell), net)
            if self.guess is not None:
                guess = self.guess[start:stop]
                low, high = np.where(np.isfinite(cell), known - guess[[0, -1]], 0.0)
                guess = guess + np.linspace(float(low), float(high), stop - start)
                near = start + int(np.argmin(np.abs(guess - target)))
                reach = np.array(_REACHES) * self.evidence.n
                places = np.concatenate([places, near - reach, near + reach])
            rungs.update(scores[np.clip(places, start, stop - 1).astype(int)].tolist())
        rungs = {q for q in rungs if cell.low < q < cell.high}
        if not rungs:
            rungs.update(_between(cell, _RUNGS_PER_SPLIT))
        rungs.add(math.nextafter(cell.high, -np.inf))
        return [q for q in rungs if cell.low < q < cell.high]


def _crosses(found: Scan, target: float, rule: Rule) -> bool:
    """Return whether the target is crossed in a scanned cell, seen from below (first) or above (last)."""
    return found.greatest >= target - ROUNDING if rule == "first" else found.least < target - ROUNDING


def _crossing_in(found: Scan, target: float, rule: Rule) -> Crossing:
    reached = found.coverage >= target - ROUNDING
    if rule == "first":
        i = int(np.argmax(reached[1:]))
    else:
        i = len(found.scores) - 1 - int(np.argmax(~reached[:-1][::-1]))
        if not reached[i + 1]:  # not even with all classes: rows of P that sum to 1 only roughly
            return NOWHERE
    return Crossing(float(found.scores[i]), float(found.coverage[i + 1]))


def _between(cell: Cell, count: int) -> list[float]:
    """Return floats that part a cell evenly in their bits, so that any score is found in a few steps."""
    low, high = (int(np.float64(q).view(np.int64)) for q in cell)
    low, high = (b if b >= 0 else -(b & (2**63 - 1)) for b in (low, high))  # in the order of the floats
    steps = [low + (high - low) * i // (count + 1) for i in range(1, count + 1)]
    bits = np.array([b if b >= 0 else -b - 2**63 for b in steps], dtype=np.int64)
    return [float(q) for q in bits.view(np.float64)]


def _first_look(evidence: Evidence, ladder: Ladder, targets: list[float], rule: Rule) -> Look:
    """Return where to look first, judged by a few rows."""
    if not evidence.needs_pairs:
        return Look([], [])
    all_pairs = evidence.n * evidence.k
    if all_pairs <= SCAN_ALL:
        return Look([], [Cell(-np.inf, np.inf)])
    budget = min(max(SCAN_ALL, all_pairs // 64), SCAN_LIMIT) / len(targets)
    each, pilot = evidence.pilot(max(32, min(_PILOT_PAIRS, all_pairs // 8) // evidence.k))
    scores = evidence.label_scores
    sums = np.concatenate([[0], np.cumsum(pilot.weights)])
    pairs = np.searchsorted(pilot.scores, scores, side="right")
    net = np.rint(sums[pairs] * each).astype(np.int64)
    ladder.guess = estimate = evidence.clean(scores, net)
    rungs: set[float] = set()
    loose: set[float] = set()
    cells = []
    for target in targets:
        reached = estimate >= target
        if rule == "first":
            guess = int(np.argmax(reached)) if reached.any() else evidence.n - 1
        else:
            guess = min(evidence.n - int(np.argmax(~reached[::-1])), evidence.n - 1)
        for width in _WINDOWS:
            reach = int(width * evidence.n)
            near = np.clip([guess - reach, guess + reach], 0, evidence.n - 1)
            cell = Cell(*scores[near].tolist())
            if np.diff(pairs[near])[0] * each <= budget:
                if cell.low < cell.high:
                    cells.append(cell)
                break
        rungs.update(cell)
        if rule == "last":
            loose.update(_stairs(evidence, pairs * each, net, target, int(near[1])))
        else:
            rungs.update(scores[np.arange(near[0], 0, -max(1, evidence.n // 20))].tolist())
    return Look(sorted(rungs), _cut_at(cells, rungs), sorted(loose - rungs))


def _stairs(evidence: Evidence, pairs: Array, net: Ints, target: float, bottom: int) -> list[float]:
    """Return few rungs above a window at which bounds should show that nothing crosses there.

    Downwards from the top: nothing crosses between a and b if the labels up to a outweigh the pairs up to b.
    """
    scores, n = evidence.label_scores, evidence.n
    rising = evidence.rising(scores, np.zeros_like(net))
    falling = rising - evidence.clean(scores, net) * n
    fall = evidence.falling(np.array([np.inf]), np.zeros(1, dtype=np.int64))[0]
    stairs = []
    place = n
    while place > bottom:
        step = max(int(np.searchsorted(rising, target * n + fall)) + n // 500, bottom)
        if step >= place - n // 1000:
            break
        place = step
        stairs.append(float(scores[step]))
        overstated = coarse_step(evidence.k) * n / max(pairs[step], 1)
        fall = falling[step] * (1.02 + overstated)
    return stairs


def _cut_at(cells: list[Cell], rungs: set[float]) -> list[Cell]:
    """Cut cells at the rungs, so that each is a cell of the ladder."""
    parts = dict.fromkeys(
        Cell(a, b) for cell in cells for a, b in pairwise(sorted(rungs)) if cell.low <= a and b <= cell.high
    )
    return list(parts)
