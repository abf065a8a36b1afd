"""The curve that a report draws: coverage against the threshold, and for which noise rate that is."""

from typing import Any

import numpy as np

from nacp.advice.comparison import ComparedSample, without_noise
from nacp.calibration import Calibration
from nacp.coverage.curve import CoverageCurve

_POINTS = 300


def curve_of(
    compared: ComparedSample, steps: list[Calibration], chosen: int
) -> tuple[CoverageCurve, list[float | None]]:
    """Return the curve at evenly spaced ranks of the labels' scores, and at every step's threshold.

    Under an interval of noise rates it is that of the end which the estimate of the chosen step is for; and
    also returned is, for every step, the rate at that end.
    """
    cal, sample, checked = steps[chosen], compared.sample, compared.checked
    thresholds, offset = sample.score.spec.thresholds, sample.score.offset
    natives = np.array([each.native_threshold for each in steps])
    ranks = np.linspace(0, sample.n - 1, min(_POINTS, sample.n)).astype(int)
    places = thresholds[np.sort(sample.label_cells, axis=None)[ranks]]
    at = np.unique(np.concatenate([places, natives]))
    at = at[np.isfinite(at)]
    # A threshold of "split" is not on the grid: what is shown there is of the last grid point before it.
    cells = np.searchsorted(thresholds, at, side="right") - 1
    if checked is not None:
        plain = without_noise(compared.counted).curve(None)
        clean, _ = checked.estimates(at, checked.strata_of([cal.alpha])[0])
        noisy, random = plain.at(cells, plain.noisy), plain.at(cells, plain.random)
        return CoverageCurve(at + offset, noisy, random, clean).cut(), [None] * len(steps)
    ends = (cal.noise,) if cal.noise is None else cal.noise.doubt.ends
    curves = [compared.counted.curve(end) for end in ends]
    values = [each.at(cells, each.clean) for each in curves]

    def end_of(step: Calibration) -> int:
        place = min(int(np.searchsorted(at, step.native_threshold)), len(at) - 1)
        return int(np.argmin([abs(each[place] - step.estimate) for each in values]))

    end = end_of(cal)
    noisy, random = (curves[end].at(cells, each) for each in (curves[end].noisy, curves[end].random))
    stated: list[Any] = [getattr(each, "rate", None) for each in ends]
    doubtful = len(ends) > 1
    return CoverageCurve(at + offset, noisy, random, values[end]).cut(), [
        stated[end_of(step)] if doubtful and np.isfinite(step.native_threshold) else None for step in steps
    ]
