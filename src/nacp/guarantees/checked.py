"""Checked labels at work: what "pac", "expected" and "none" find where some labels were checked.

Nothing is assumed about the noise (docs/guarantees.md, A1).
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nacp._types import Bools, Floats
from nacp.coverage.curve import ROUNDING
from nacp.guarantees.base import Finding
from nacp.stats.counts import allowed_misses
from nacp.stats.strata import hits_needed_inside
from nacp.wrapping import counted

if TYPE_CHECKING:
    from nacp.audit.strata import CheckedSample, Strata


def exact(sample: "CheckedSample", alphas: Sequence[float], delta: float) -> list[Finding]:
    """Return for each alpha the smallest threshold from which on upwards all exact tests pass."""
    found = []
    for alpha, strata in zip(alphas, sample.strata_of(alphas), strict=True):
        scores = _distinct(sample)
        place = _from_which_on(_passing(sample, strata, scores, alpha, delta))
        if place < len(scores):
            found.append(_at(sample, strata, float(scores[place])))
            continue
        least = math.ceil(math.log(1 / delta) / -math.log1p(-alpha))
        more = f"; {least} at the least are needed" if sample.m < least else ""
        why = f"with {counted(sample.m, 'checked label')} no smaller sets pass the test{more}"
        found.append(Finding(np.inf, 1.0, 0.0, why, deviation=0.0))
    return found


def _passing(
    sample: "CheckedSample", strata: "Strata | None", scores: Floats, alpha: float, delta: float
) -> Bools:
    """Return at which thresholds the test passes that coverage reaches 1 - alpha."""
    own = sample.checked_scores
    if strata is None:
        hits = np.searchsorted(np.sort(own), scores, side="right")
        return np.asarray(hits >= sample.m - allowed_misses(sample.m, alpha, delta))
    sides = [np.sort(own[side]) for side in (strata.outside, ~strata.outside)]
    x0, x1 = (np.searchsorted(side, scores, side="right") for side in sides)
    sizes = len(sides[0]), len(sides[1])
    needed = hits_needed_inside(sizes, *strata.counted, strata.pilot, 1 - alpha, delta)
    return np.asarray(x1 >= needed[x0])


def cross(sample: "CheckedSample", alphas: Sequence[float]) -> list[Finding]:
    """Return for each alpha the smallest threshold from which on the estimate is enough."""
    found = []
    for alpha, strata in zip(alphas, sample.strata_of(alphas), strict=True):
        scores = _distinct(sample)
        clean, _ = sample.estimates(scores, strata)
        place = _from_which_on(clean >= 1 - alpha - ROUNDING)
        if place < len(scores):
            found.append(_at(sample, strata, float(scores[place])))
        else:
            why = "the estimated coverage stays below the target at every finite score"
            found.append(Finding(np.inf, 1.0, 0.0, why))
    return found


def exchange(sample: "CheckedSample", alphas: Sequence[float]) -> list[Finding]:
    """Return for each alpha the threshold of split conformal prediction on the checked labels alone."""
    scores, m = np.sort(sample.checked_scores), sample.m
    found = []
    for alpha, strata in zip(alphas, sample.strata_of(alphas), strict=True):
        rank, added = math.ceil((m + 1) * (1 - alpha) - 1e-9), (1 - alpha) / m
        if rank <= m and scores[rank - 1] < np.inf:
            clean, _ = sample.estimates(scores[[rank - 1]], strata)
            found.append(Finding(float(scores[rank - 1]), float(clean[0]), added))
            continue
        why = "too many of the checked labels have an infinite score"
        if rank > m:
            needed = math.ceil(1 / alpha - 1e-9) - 1
            why = f"with {counted(m, 'checked label')} no finite threshold will do: {needed} are needed"
        found.append(Finding(np.inf, 1.0, added, why))
    return found


def _distinct(sample: "CheckedSample") -> Floats:
    """Return the finite scores of the checked labels, ascending: nothing changes between them."""
    scores = np.unique(sample.checked_scores)
    return scores[scores < np.inf]


def _from_which_on(passed: Bools) -> int:
    """Return the place from which on all have passed; the length if the last has not."""
    failed = np.flatnonzero(~passed)
    return int(failed[-1]) + 1 if len(failed) else 0


def _at(sample: "CheckedSample", strata: "Strata | None", threshold: float) -> Finding:
    (clean,), (deviation,) = sample.estimates(np.array([threshold]), strata)
    return Finding(threshold, float(clean), 0.0, deviation=float(deviation))
