"""Where the estimated clean coverage crosses the target: exactly, with few reads of the matrix.

``F^c-hat`` is a difference of two functions that rise with the threshold. Known at two rungs a < b of a
ladder, they bound it everywhere between: a cell (a, b] where even the most favourable counts cannot cross
is skipped, a cell with few pairs is scanned score by score, and any other is split by new rungs. Nothing
is decided by a tolerance in q, and the answer does not depend on the rungs.
"""

from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from nacp._types import Floats, Ints
from nacp.coverage import Evidence, Window

Rule: TypeAlias = Literal["first", "last"]
RULES: tuple[Rule, Rule] = ("first", "last")

# An estimate this close below the target counts as reaching it: the size of the rounding errors in F^c-hat,
# so that 0.9 reached exactly in decimals is not missed in binary.
ROUNDING = 1e-12

SCAN_LIMIT = 1 << 19
_RUNGS_PER_SPLIT = 24
_PILOT_PAIRS = 1 << 17
_AROUND_GUESS = (0.003, 0.01, 0.03, 0.1, 0.25)


class Cell(NamedTuple):
    """The thresholds in (low, high]."""

    low: float
    high: float


def find_crossings(evidence: Evidence, targets: list[float], rule: Rule) -> list[float]:
    """Return one native threshold for each target; infinite where none qualifies.

    "first": the smallest q with ``F^c-hat(q) >= target``. "last": the smallest q such that the same holds
    for all q' >= q, the paper's "largest solution".
    """
    ladder = _Ladder(evidence)
    found = {i: np.inf for i, target in enumerate(targets) if target > 1 + ROUNDING}
    if len(found) < len(targets):
        ladder.climb(*_guesses(ladder, [t for t in targets if t <= 1 + ROUNDING], rule))
    while len(found) < len(targets):
        rungs: set[float] = set()
        windows: dict[Cell, int] = {}
        for i, target in enumerate(targets):
            if i in found:
                continue
            answer = ladder.locate(target, rule)
            if not isinstance(answer, Cell):
                found[i] = answer
            elif ladder.pairs_in(answer) > SCAN_LIMIT:
                rungs.update(ladder.split(answer))
            elif sum(windows.values()) + ladder.pairs_in(answer) <= SCAN_LIMIT:
                windows[answer] = ladder.pairs_in(answer)
        if rungs or windows:
            ladder.climb(sorted(rungs), list(windows))
    return [found[i] for i in range(len(targets))]


class _Ladder:
    """What is known of the pairs so far: tallies at rungs, and scanned cells."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.rungs: Floats = np.array([-np.inf, np.inf])
        all_pairs = evidence.n * evidence.k if evidence.needs_pairs else 0
        self.pairs: Ints = np.array([0, all_pairs])
        self.gains: Ints = np.array([0, 0])
        self.losses: Ints = np.array([0, 0])
        self.scanned: dict[Cell, Window] = {}

    def climb(self, rungs: list[float], windows: list[Cell]) -> None:
        """Read the matrix once, for new rungs and for windows between old or new ones."""
        tally, found = self.evidence.sweep(np.array(rungs), [(w.low, w.high) for w in windows])
        merged = np.concatenate([self.rungs, rungs])
        order = np.argsort(merged, kind="stable")
        self.rungs = merged[order]
        self.pairs = np.concatenate([self.pairs, tally.pairs])[order]
        self.gains = np.concatenate([self.gains, tally.gains])[order]
        self.losses = np.concatenate([self.losses, tally.losses])[order]
        self.scanned |= zip(windows, found, strict=True)

    def pairs_in(self, cell: Cell) -> int:
        low, high = np.searchsorted(self.rungs, cell)
        return int(self.pairs[high] - self.pairs[low])

    def locate(self, target: float, rule: Rule) -> float | Cell:
        """Return the threshold, or the first cell that must be looked at before it is known."""
        # A cell is skipped only if it stays clear of the bar by more than these bounds round.
        bar, slack = (target - ROUNDING) * self.evidence.n, ROUNDING * self.evidence.n / 8
        rising = self.evidence.rising(self.rungs, self.gains)
        falling = self.evidence.falling(self.rungs, self.losses)
        if rule == "first":
            open_cells = np.flatnonzero(rising[1:] - falling[:-1] >= bar - slack)
        else:
            open_cells = np.flatnonzero(rising[:-1] - falling[1:] < bar + slack)[::-1]
        for j in open_cells:
            cell = Cell(self.rungs[j], self.rungs[j + 1])
            states = self._states(cell, int(self.gains[j] - self.losses[j]))
            if states is None:
                return cell
            scores, coverage = states
            reached = coverage >= target - ROUNDING
            if rule == "first" and reached[1:].any():
                return float(scores[np.argmax(reached[1:])])
            if rule == "last" and not reached[:-1].all():
                return float(scores[len(scores) - 1 - np.argmax(~reached[:-1][::-1])])
        return np.inf

    def _states(self, cell: Cell, net: int) -> tuple[Floats, Floats] | None:
        """Return the distinct scores in a cell, and F^c-hat at its low end and at each of them."""
        evidence = self.evidence
        if not evidence.needs_pairs:
            window = Window(np.empty(0), np.empty(0, dtype=np.int64))
        elif cell in self.scanned:
            window = self.scanned[cell]
        elif np.nextafter(cell.low, np.inf) == cell.high:
            tally = np.searchsorted(self.rungs, cell.high)
            step = self.gains[tally] - self.losses[tally] - net
            window = Window(np.array([cell.high]), np.array([step]))
        else:
            return None
        inside = slice(*evidence.labels_upto(np.array(cell)))
        scores = np.unique(np.concatenate([window.scores, evidence.label_scores[inside]]))
        sums = np.concatenate([[net], net + np.cumsum(window.weights)])
        at = np.searchsorted(window.scores, scores, side="right")
        ends = np.concatenate([[cell.low], scores])
        return scores, evidence.clean(ends, np.concatenate([[net], sums[at]]))

    def split(self, cell: Cell) -> list[float]:
        """Return rungs inside a cell with too many pairs to scan.

        Scores of noisy labels where there are any, else evenly spaced values; and the value just below the
        upper end, so that many equal scores there come to lie in a cell of their own.
        """
        start, stop = self.evidence.labels_upto(np.array(cell))
        inside = np.unique(self.evidence.label_scores[start:stop])
        inside = inside[inside < cell.high]
        if len(inside) > _RUNGS_PER_SPLIT:
            places = np.linspace(0, len(inside) - 1, _RUNGS_PER_SPLIT).astype(int)
            inside = inside[places]
        rungs = set(inside.tolist())
        if not rungs:
            low = cell.low if np.isfinite(cell.low) else min(2 * cell.high, 0) - 1
            high = cell.high if np.isfinite(cell.high) else max(2 * cell.low, 0) + 1
            rungs.update(np.linspace(low, high, _RUNGS_PER_SPLIT + 2)[1:].tolist())
        if np.isfinite(cell.high):
            rungs.add(float(np.nextafter(cell.high, -np.inf)))
        return [q for q in rungs if cell.low < q < cell.high]


def _guesses(ladder: _Ladder, targets: list[float], rule: Rule) -> tuple[list[float], list[Cell]]:
    """Return first rungs around where a few rows put the crossings, and cells worth scanning at once."""
    evidence = ladder.evidence
    if not evidence.needs_pairs:
        return [], []
    if evidence.n * evidence.k <= SCAN_LIMIT:
        return [], [Cell(-np.inf, np.inf)]
    each, pilot = evidence.pilot(max(32, _PILOT_PAIRS // evidence.k))
    candidates = evidence.label_scores
    sums = np.concatenate([[0], np.cumsum(pilot.weights)])
    pairs = np.searchsorted(pilot.scores, candidates, side="right")
    estimate = evidence.clean(candidates, np.rint(sums[pairs] * each).astype(np.int64))
    rungs: set[float] = set()
    cells = []
    for target in targets:
        reached = estimate >= target
        if rule == "first":
            guess = int(np.argmax(reached)) if reached.any() else evidence.n - 1
        else:
            guess = min(evidence.n - int(np.argmax(~reached[::-1])), evidence.n - 1)
        steps = np.rint(np.array(_AROUND_GUESS) * evidence.n).astype(int)
        places = np.unique(np.clip(np.concatenate([guess - steps, guess + steps]), 0, evidence.n - 1))
        rungs.update(candidates[places].tolist())
        near = np.clip([guess - steps[0], guess + steps[0]], 0, evidence.n - 1)
        low, high = candidates[near]
        if low < high and np.diff(pairs[near])[0] * each <= SCAN_LIMIT / (2 * len(targets)):
            cells.append(Cell(float(low), float(high)))
            rungs.update(cells[-1])
    return sorted(rungs), _disjoint(cells, rungs)


def _disjoint(cells: list[Cell], rungs: set[float]) -> list[Cell]:
    """Cut cells at the rungs, so that each is a cell of the ladder."""
    ladder = sorted(rungs)
    parts = dict.fromkeys(
        Cell(a, b) for cell in cells for a, b in pairwise(ladder) if cell.low <= a and b <= cell.high
    )
    return list(parts)
