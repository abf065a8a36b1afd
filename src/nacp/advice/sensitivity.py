"""The effect of a wrong noise rate on the sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp.advice.diagnosis import opened
from nacp.advice.printout import Printout, TextTable
from nacp.calibration import Calibration
from nacp.coverage.counted import Counted
from nacp.coverage.curve import Curve
from nacp.errors import InputError
from nacp.guarantees import find
from nacp.noise import Noise

_SHIFTS = (-0.05, -0.03, -0.02, -0.01, 0.0, 0.01, 0.02, 0.03, 0.05)


class Shifted(NamedTuple):
    """A calibration with another rate than the right one: a row of `Sensitivity`.

    `estimate` is the coverage estimated under the stated `rate`, and `coverage` that under the right rate.
    """

    rate: float
    threshold: float
    estimate: float
    coverage: float
    mean_size: float


@dataclass(frozen=True, repr=False)
class Sensitivity(Printout):
    """The result of `sensitivity`; print it.

    Attributes
    ----------
    rows : tuple of Shifted
        One for each rate, ascending.
    rate : float
        The rate taken to be right: epsilon of uniform noise, else the mean share of wrong labels over the
        classes.
    target : float
        The target 1 - alpha.
    """

    rows: tuple[Shifted, ...]
    rate: float
    target: float
    _title: ClassVar[str] = "Sensitivity"

    @property
    def tables(self) -> list[TextTable]:
        forms = (".4g", ".6g", ".4f", ".4f", ",.2f")
        rows = [[format(value, form) for value, form in zip(row, forms, strict=True)] for row in self.rows]
        return [TextTable([["stated rate", "threshold", "estimate", "coverage", "mean size"], *rows], 0)]

    @property
    def sentences(self) -> list[tuple[str, str]]:
        return [("", f"The rate {self.rate:.4g} is taken to be right. {self.advice}.")]

    @property
    def advice(self) -> str:
        """Which rate to state in doubt: the smaller rate of uniform noise; of a matrix there may be none."""
        right = next((row.coverage for row in self.rows if math.isclose(row.rate, self.rate)), self.target)
        least = min(right, self.target) - 1e-9
        if all(row.coverage >= least for row in self.rows if row.rate < self.rate):
            return (
                "A larger one gives too little coverage, a smaller one larger sets than necessary: in doubt "
                "state the smaller one"
            )
        return "A smaller one gives too little coverage, too: no rate is the careful one"


def sensitivity(
    cal: Calibration, probs: ArrayLike, labels: ArrayLike, *, shifts: Sequence[float] | None = None
) -> Sensitivity:
    """Show how the sets and their coverage change if the stated noise rate is wrong by a few points.

    The rate of the calibration is taken to be right, and calibration is repeated with other rates, with the
    same points and guarantee. All errors of a matrix are multiplied by one factor. An interval of rates or a
    radius is ignored.

    Parameters
    ----------
    cal, probs, labels
        A calibration, and points with noisy labels: those that it comes from, or others.
    shifts : sequence of float, optional
        The errors of the stated rate; by default up to 0.05 both ways, as far as the model allows.

    Returns
    -------
    Sensitivity

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=4000)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, 100, random_state=0)
    >>> cal = nacp.calibrate(probs, noisy, noise=0.2, guarantee="none")
    >>> low, right, high = nacp.sensitivity(cal, probs, noisy, shifts=[-0.05, 0, 0.05]).rows
    >>> high.coverage < 0.86 < right.coverage < low.coverage and low.mean_size > right.mean_size
    True
    """
    noise, k = cal.noise, cal.k
    if noise is None:
        raise InputError("noise", "is None in this calibration, so there is no rate that could be wrong")
    rate = noise.error_rate(k)
    if rate == 0 and not noise.is_uniform:
        raise InputError("noise", "holds no errors, so there is none that could be wrong")
    if shifts is None:
        shifts = [shift for shift in _SHIFTS if _is_possible(noise, rate + shift, k)]
    sample, squares = opened(cal, probs, labels), cal.guarantee.needs_squares
    right = Curve.of(sample, noise)
    rows = []
    for shift in sorted(shifts):
        stated = noise.with_error_rate(rate + shift, k)
        counts = Counted.of(sample, stated, squares=squares)
        asked = [cal.alpha], cal.crossing, sample, cal.random_state
        (found,) = find(cal.guarantee, counts.curve, stated, *asked)
        threshold = found.finding.threshold
        cells = np.searchsorted(right.spec.thresholds, [threshold])
        believed, coverage = np.clip([found.finding.estimate, right.at(cells, right.clean)[0]], 0, 1).tolist()
        size = float(right.at(cells, right.random)[0]) * k
        rows.append(Shifted(rate + shift, threshold + cal.score.offset, believed, coverage, size))
    return Sensitivity(tuple(rows), rate, 1 - cal.alpha)


def _is_possible(noise: Noise, rate: float, k: int) -> bool:
    try:
        noise.with_error_rate(rate, k).inverse(k)
    except ValueError:
        return False
    return True
