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

from nacp import _kernels
from nacp._types import Bools, Floats, Ints
from nacp.coverage import Estimator, Evidence, Tally, Window

Rule: TypeAlias = Literal["first", "last"]
RULES: tuple[Rule, Rule] = ("first", "last")

# An estimate this close below the target counts as reaching it: the size of the rounding errors in F^c-hat,
# so that 0.9 reached exactly in decimals is not missed in binary.
ROUNDING = 1e-12

SCAN_ALL = 1 << 14
SCAN_LIMIT = 1 << 20
_SCAN_EASILY = 1 << 17
_HELD_PAIRS = 1 << 15
_RUNGS_PER_SPLIT = 12
_REACHES = (0.0005, 0.002, 0.008)
_PILOT_PAIRS = 1 << 17
_PILOT_SIGMAS = 3
_CRUDE = 0.25


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
                    if windows:
                        break
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
        self._held: list[tuple[Cell, Window]] = []
        self.guess: Floats | None = None

    def climb(self, evidence: Evidence, look: Look) -> None:
        """Read the matrix once, and learn from it."""
        spans: list[Cell] = []
        for cell in sorted(look.windows):
            if spans and spans[-1].high == cell.low:
                spans[-1] = Cell(spans[-1].low, cell.high)
            else:
                spans.append(cell)
        tally, bound, found = evidence.sweep(np.array(look.rungs), spans, np.array(look.loose))
        self.learn(look.rungs, tally)
        self.learn(look.loose, bound, exact=evidence.exact_bounds)
        for span, window in zip(spans, found, strict=True):
            self._hold(span, window)

    def _hold(self, span: Cell, window: Window) -> None:
        """Keep the pairs that score in a span, and learn from them tallies at some rungs inside."""
        self._held.append((span, window))
        inside = np.unique(window.scores[_HELD_PAIRS::_HELD_PAIRS])
        inside = inside[inside < span.high]
        place = np.searchsorted(self.rungs, span.low)
        pairs = np.searchsorted(window.scores, inside, side="right")
        if not len(inside):
            return
        weights = window.weights[: pairs[-1]]
        gains, net = (
            np.cumsum(np.add.reduceat(part, np.append(0, pairs[:-1])))
            for part in (np.maximum(weights, 0), weights)
        )
        self.learn(
            inside.tolist(),
            Tally(self.pairs[place] + pairs, self.gains[place] + gains, self.losses[place] + gains - net),
        )

    def learn(self, rungs: Sequence[float], tally: Tally, *, exact: bool = True) -> None:
        """Add tallies at new rungs, or exact ones at rungs where only bounds were known."""
        if not len(rungs):
            return
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
        start, stop = evidence.labels_upto(np.array(cell))
        own = evidence.label_scores[start:stop]
        merged = np.sort(np.concatenate([window.scores, own]))
        last = np.flatnonzero(merged[1:] != merged[:-1])
        last = np.append(last, np.arange(len(merged))[-1:])
        scores = merged[last]
        # How many labels and how many pairs lie below each distinct score, and below them all.
        labels = np.zeros(len(scores) + 1, dtype=np.int64)
        np.cumsum(np.bincount(np.searchsorted(scores, own), minlength=len(scores)), out=labels[1:])
        pairs = np.append(0, last + 1) - labels
        sums = np.append(0, np.cumsum(window.weights))
        return self._keep(cell, scores, evidence.clean_of(start + labels, net + sums[pairs]))

    def _scan_without_reading(self, cell: Cell) -> Scan | None:
        """Return the scan of a cell whose pairs are held, or that has none, or room for one score only."""
        for span, window in self._held:
            if span.low <= cell.low and cell.high <= span.high:
                inside = slice(*np.searchsorted(window.scores, cell, side="right"))
                return self.scan(cell, Window(window.scores[inside], window.weights[inside]))
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
        """Drop the pairs that are held, and the scores of cells in which none of the targets is crossed."""
        self._held.clear()
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
    """Return where to look first, judged by a few rows: by more of them if the first say too little."""
    if not evidence.needs_pairs:
        return Look([], [])
    all_pairs = evidence.n * evidence.k
    if all_pairs <= SCAN_ALL:
        return Look([], [Cell(-np.inf, np.inf)])
    size, crowded = _PILOT_PAIRS, True
    while crowded:
        size = min(size, all_pairs // 12)
        look, crowded = _look_around(evidence, ladder, targets, rule, max(32, size // evidence.k))
        crowded &= size < all_pairs // 12
        size *= 16
    return look


def _look_around(
    evidence: Evidence, ladder: Ladder, targets: list[float], rule: Rule, rows: int
) -> tuple[Look, bool]:
    """Return where to look as a pilot of some rows has it, and whether it expects many pairs there."""
    pilot = evidence.pilot(rows)
    scores, last = evidence.label_scores, evidence.n - 1
    places = np.searchsorted(pilot.pairs.scores, scores, side="right")
    pairs = places * pilot.each
    _, gains, losses = evidence.scaled(pilot, places)
    ladder.guess = estimate = evidence.clean(scores, gains - losses)
    rungs: set[float] = set()
    loose: set[float] = set()
    cells = []
    expected = 0.0
    for target in targets:
        guess = float(scores[min(_place(estimate, target, rule), last)])
        error = _PILOT_SIGMAS * evidence.share(pilot.spread(guess))
        low = max(_place(estimate, target - error, rule) - 1, 0)
        high = min(_place(estimate, target + error, rule) + 1, last)
        high = max(high, int(np.searchsorted(pairs, pairs[low] + _SCAN_EASILY / 2)) - 1)
        expected += pairs[high] - pairs[low]
        if pairs[high] - pairs[low] <= SCAN_LIMIT / len(targets):
            near = [low, high]
            cells += [Cell(*scores[near].tolist())] if scores[low] < scores[high] else []
        else:
            near = np.linspace(low, high, _RUNGS_PER_SPLIT).astype(int).tolist()
        rungs.update(scores[near].tolist())
        rising = evidence.rising(scores, gains) - target * evidence.n
        falling, doubt = evidence.falling(scores, losses), error * evidence.n / 2
        if rule == "first":
            rungs.update(scores[_stairs_below(rising, 0.99 * falling - doubt, low)].tolist())
            continue
        # How crude a bound would be at each label: it counts whole stretches of a row.
        crude = _kernels.stretch_for(evidence.k) * evidence.n / np.maximum(pairs, 1)
        crude = np.where((crude < _CRUDE) & (not evidence.exact_bounds), crude, 0)
        for step in _stairs_above(rising, falling * (1.01 + crude) + doubt, high):
            (loose if crude[step] else rungs).add(float(scores[step]))
    # Where all pairs will be held, a bound for another target would hide what they say.
    loose = {q for q in loose - rungs if not any(cell.low < q < cell.high for cell in cells)}
    return Look(sorted(rungs), _cut_at(cells, rungs), sorted(loose)), expected > _SCAN_EASILY


def _place(estimate: Floats, target: float, rule: Rule) -> int:
    """Return the first place where an estimate reaches the target, or from which on it stays there."""
    reached = estimate >= target
    if rule == "first":
        return int(np.argmax(reached)) if reached.any() else len(estimate)
    return len(estimate) - int(np.argmax(~reached[::-1])) if not reached.all() else 0


def _stairs_above(rising: Floats, falling: Floats, window: int) -> list[int]:
    """Return few places that should show that nothing crosses above a window.

    Nothing crosses between a and b if what has risen up to a outweighs what has fallen up to b.
    """
    place, fall, found = len(rising), falling[-1], []
    while place > window:
        step = max(int(np.searchsorted(rising, fall)) + len(rising) // 500, window)
        if step >= place - len(rising) // 1000:
            break
        found.append(step)
        place, fall = step, falling[step]
    return found


def _stairs_below(rising: Floats, falling: Floats, window: int) -> list[int]:
    """Return few places that should show that nothing crosses below a window.

    Nothing crosses between a and b if what has fallen up to a outweighs what has risen up to b.
    """
    place, found = window, []
    while rising[place] > 0:
        step = int(np.searchsorted(falling, rising[place])) + len(rising) // 500
        if step >= place - len(rising) // 1000:
            break
        found.append(step)
        place = step
    return found


def _cut_at(cells: list[Cell], rungs: set[float]) -> list[Cell]:
    """Cut cells at the rungs, so that each is a cell of the ladder."""
    parts = dict.fromkeys(
        Cell(a, b) for cell in cells for a, b in pairwise(sorted(rungs)) if cell.low <= a and b <= cell.high
    )
    return list(parts)
