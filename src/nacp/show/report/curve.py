"""The curve that a report draws: coverage against the threshold, and for which noise rate that is."""

from typing import Any

import numpy as np

from nacp.calibration import Calibration
from nacp.coverage import CoverageCurve, Sample, Talk, together
from nacp.coverage.audited import AuditedCoverage
from nacp.guarantees import coverage_under

_POINTS = 300


def curve_of(
    sample: Sample, steps: list[Calibration], chosen: int, audited: AuditedCoverage | None
) -> Talk[tuple[CoverageCurve, list[float | None]]]:
    """Return the curve at evenly spaced ranks of the labels' scores, and at every step's threshold.

    Under an interval of noise rates it is that of the end which the estimate of the chosen step is for; and
    also returned is, for every step, the rate at that end.
    """
    cal = steps[chosen]
    scores = np.sort(sample.label_scores)
    ranks = np.linspace(0, sample.n - 1, min(_POINTS, sample.n)).astype(int)
    natives = np.array([each.native_threshold for each in steps])
    at = np.unique(np.concatenate([scores[ranks], natives[np.isfinite(natives)]]))
    if audited is not None:
        plain = yield from coverage_under(sample, None).at(at)
        clean, _ = audited.estimates(at, audited.strata(cal.alpha))
        curve = CoverageCurve(at + cal.score.offset, plain.noisy, plain.random, clean).cut()
        return curve, [None] * len(steps)
    ends = (cal.noise,) if cal.noise is None else cal.noise.doubt.ends
    found = yield from together([coverage_under(sample, end).at(at) for end in ends])

    def end_of(step: Calibration) -> int:
        place = min(int(np.searchsorted(at, step.native_threshold)), len(at) - 1)
        return int(np.argmin([abs(each.clean[place] - step.estimate) for each in found]))

    curve = CoverageCurve(at + cal.score.offset, *found[end_of(cal)]).cut()
    stated: list[Any] = [getattr(end, "rate", None) for end in ends]
    doubtful = len(ends) > 1
    return curve, [
        stated[end_of(step)] if doubtful and np.isfinite(step.native_threshold) else None for step in steps
    ]
