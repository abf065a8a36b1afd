"""A hint from a few rows: in which cells targets are crossed, and how far it is worth while to look."""

import math
from typing import NamedTuple

import numpy as np

from nacp._types import Floats, Ints
from nacp.coverage.crossing import Cell, Rule, Search
from nacp.coverage.estimator import Estimator
from nacp.coverage.questions import merged
from nacp.engine.cells import ENDS
from nacp.tuning import tuning

_PARTS = 1.0, 0.7, 0.5, 0.35, 0.25  # of the error that a hint may have
_ALIKE = 8  # neighbouring edges of cells that have about the same error


class Hint(NamedTuple):
    """What the first read should collect, up to where it should count, up to where it should keep scores, if
    it should, into how many parts it should cut the pairs beyond the limit, and about how many it will keep.
    """

    cells: list[Cell]
    limit: float = np.inf
    keep: float | None = None
    parts: int = 4
    kept: int = 0


def hint_from(
    guess: Estimator,
    rows: int,
    tallies: tuple[Ints, Ints],
    points: tuple[int, int],
    few_pairs: int,
    targets: list[float],
    rule: Rule,
    half_missed: float,
) -> Hint:
    """Guess in which cells targets are crossed; an error costs a read.

    Parameters
    ----------
    guess : Estimator
        The estimate from the labels of some points.
    rows : int
        How many rows were looked at.
    tallies : tuple of two arrays of int
        What was counted in all cells, of parts of these rows and of all of them.
    points : tuple of two ints
        How many points and classes there are.
    few_pairs : int
        How many pairs may be kept.
    targets : list of float
        Which coverage is to be reached.
    rule : {"last", "first"}
        Where.
    half_missed : float
        About half: up to where coverage misses so much of what is missed at the target, pairs are counted.
    """
    n, whole = points[0], points[0] * points[1]
    keep = np.inf if whole <= few_pairs else None
    eighths, every = tallies
    held = np.flatnonzero(every[0])
    used = slice(held[0], held[-1] + 1)
    search = Search(guess)
    search.learn(
        ENDS[used.start : used.stop + 1], np.rint(every[:, used] * (guess.n / rows)).astype(np.int64)
    )
    clean = guess.clean(search.edges, search.upto[1] - search.upto[2])[:-1]
    # The error of the pairs' part shows in how the few rows' parts differ; that of the labels' is known.
    eighth = search.edges[:-1:_ALIKE]
    upto = np.zeros((*eighths.shape[:2], used.stop - used.start + 1), dtype=np.int64)
    np.cumsum(eighths[:, :, used], axis=2, out=upto[:, :, 1:])
    upto = upto.take(ENDS[used.start + 1 : used.stop + 1].searchsorted(eighth, side="right"), axis=2)
    weighed = guess.weighed(upto.swapaxes(0, 1))
    net = weighed[1] - weighed[2]
    scale = np.sqrt(len(eighths)) / rows * guess.unit
    error = np.std(net.astype(np.float64), axis=0, ddof=1) * scale
    error = tuning().hint_errors * np.hypot(error, guess.label_error(eighth, n))
    error = np.repeat(error, _ALIKE)[: len(clean)]
    pairs = search.upto[0] * (n / guess.n)

    def between(ends: list[int]) -> Cell:
        low, high = max(min(ends) - 2, 0), min(max(ends) + 1, len(clean) - 1)
        return Cell(float(search.edges[low]), float(search.edges[high]))

    def around(some: list[float], part: float) -> list[Cell]:
        cells = [between([_place(clean + side * part * error, t, rule) for side in (-1, 1)]) for t in some]
        return [cell for cell in cells if cell.low < cell.high]

    def fit(some: list[Cell]) -> bool:
        places = np.searchsorted(search.edges, np.reshape(some, (-1, 2)))
        return float(np.sum(pairs[places[:, 1]] - pairs[places[:, 0]])) <= tuning().collected_pairs

    # All that may be wanted, or as much as can be collected: of all targets alike, if that is possible.
    cells: list[Cell] = []
    together = fit(merged(around(targets, _PARTS[-1])))
    for some in [targets] if together else [[target] for target in targets]:
        for part in _PARTS:
            wanted = merged([*cells, *around(some, part)])
            if fit(wanted):
                cells = wanted
                break
    top = float(max(targets))
    needed = _place(clean - error, top, rule) + 1
    # Beyond, losses are known to within those of one part: they should be half of what is missed.
    missed = 1 - top
    parts = 4 * math.ceil(0.38 * guess.falling / missed) if missed > 0 else math.inf
    far = len(search.edges) - 1
    if whole > tuning().counted_pairs and parts <= 32:
        # What is above the thresholds is of interest as far as about half of what they miss. Not up to the
        # last place where it is reached: with many classes it may be at the end.
        half = _place(clean - error, 1 - half_missed * missed, "first")
        far = min(max(half + 1, needed), far)
    room = int(np.searchsorted(pairs, few_pairs, side="right")) - 1
    if keep is None and room >= needed:
        keep = float(search.edges[room])
    limit = float(search.edges[far])
    keep = None if keep is None else min(keep, limit)
    kept = 0 if keep is None else int(pairs[search.edges.searchsorted(keep)])
    return Hint(cells, limit, keep, max(int(parts), 4) if limit < np.inf else 4, kept)


def _place(estimate: Floats, target: float, rule: Rule) -> int:
    """Return the first place where an estimate reaches the target, or from which on it stays there."""
    reached = estimate >= target
    if rule == "first":
        return int(np.argmax(reached)) if reached.any() else len(estimate)
    return len(estimate) - int(np.argmax(~reached[::-1])) if not reached.all() else 0
