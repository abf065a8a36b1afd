"""What a noise model claims of coverage, against what checked labels say.

If the model is right, a point's share g in F^c-hat and whether its true label is in the set have the same
mean, at any threshold that does not depend on the points compared. Each checked label is set against the mean
share of a batch of points, and bets are placed on the differences. The proof: docs/estimation.md.
"""

import math
from typing import NamedTuple

import numpy as np

from nacp._types import Floats, Ints
from nacp.advice.regions import bet, exact_shares
from nacp.audit.checked_sample import CheckedSample, deal
from nacp.calibration import Calibration
from nacp.coverage.curve import Curve
from nacp.coverage.grid import INFINITE
from nacp.coverage.sample import Sample
from nacp.guarantees import Problem
from nacp.noise import Noise, UniformNoise
from nacp.wrapping import wrapped

# A fifth of the points, but so many at the most, says at which threshold to compare.
_PARTS, _MOST = 5, 2000


class ClaimCheck(NamedTuple):
    """Coverage of the true label at the threshold: by the noise model, and by checked labels.

    Attributes
    ----------
    checked : int
        How many labels were checked.
    claim, claim_error : float
        What the model claims, cut off at 0 and 1, and its standard error if it is right.
    at_least : bool
        Whether it claims at least that much, because it is known up to an interval or a radius only.
    found, error : float
        What the checked labels say, whatever the noise is, and the standard error of that (at least 1 over
        their number).
    short, generous : bool
        Whether the model claims significantly too much, or too little.
    undecided : int
        How many of the checked labels could not be decided. They count as misses in what the checked labels
        say, and for the model when it is judged.
    """

    checked: int
    claim: float
    claim_error: float
    at_least: bool
    found: float
    error: float
    short: bool
    generous: bool
    undecided: int = 0

    def __str__(self) -> str:
        return wrapped(self._said())

    def _said(self) -> str:
        said = (
            f"At the threshold the noise model claims {'at least ' * self.at_least}{100 * self.claim:.1f}%, "
            f"the {self.checked:,} checked labels say {100 * self.found:.1f}% ± {100 * self.error:.1f}%"
        )
        if self.undecided:
            said += f" (undecided, counted as misses: {self.undecided:,})"
        use = "calibrate with these labels, clean= (--clean), which assumes nothing about the noise"
        if self.short:
            return f"{said}: it claims too much. Do not rely on its promise; {use}."
        if self.generous:
            return f"{said}: it claims too little, and sets are larger than need be; {use}."
        return f"{said}: no contradiction, as far as so many labels can tell. Not to depend on it, {use}."


def claim_of(sample: Sample, cal: Calibration, rows: Ints, truth: Ints, level: float) -> ClaimCheck:
    """Compare what a calibration's noise model claims with the true labels of some rows, picked at random."""
    noise = UniformNoise(0.0) if cal.noise is None else cal.noise
    ends, thresholds = noise.doubt.ends, sample.score.spec.thresholds
    learn, checked, others = _parts(sample.n, rows, cal.random_state)
    tested = _threshold(sample, cal, ends[0], learn)
    own = int(np.searchsorted(thresholds, cal.native_threshold))
    at = np.array([own if own < INFINITE else tested])
    audit = deal(sample.n, sample.k, rows, truth, cal.random_state)
    audited = CheckedSample(sample, audit, noise.matrix(sample.k))
    curves = [Curve.of(sample, end) for end in ends]
    (found,), (spread,) = audited.estimates(thresholds[at], audited.strata_of([cal.alpha])[0])
    claim, deviation = min((_clean(curve, at), _deviation(sample, curve, at)) for curve in curves)
    short, generous = True, True
    scores = np.empty(sample.n)
    scores[audit.rows] = audited.checked_scores
    # What could not be decided counts for the model in both tests.
    hits, unknown = scores[checked] <= thresholds[tested], np.isin(checked, audit.rows[audit.labels < 0])
    least, most = hits.astype(np.float64), (hits | unknown).astype(np.float64)
    batch = np.concatenate([np.arange(len(checked)), np.arange(len(others)) % max(len(checked), 1)])
    members = np.concatenate([checked, others])
    doubtful = noise.doubt.radius > 0
    for curve in curves:
        inverse = curve.weights.inverse
        low, high = inverse.subset_range()
        more = noise.doubt.shift(inverse)
        threshold = thresholds[[tested]]
        shares, doubts = exact_shares(sample, curve.weights, threshold, members, doubtful=doubtful)
        mean, blur = _means(shares[:, 0], batch), noise.doubt.radius * _means(doubts[:, 0], batch)
        short &= _won(mean - most - blur, 1 - low + more, high, level / 2)
        generous &= _won(least - mean - blur, high + more, 1 - low, level / 2)
    return ClaimCheck(
        checked=len(rows),
        claim=min(max(claim, 0.0), 1.0),
        claim_error=deviation / math.sqrt(sample.n),
        at_least=not noise.doubt.exact,
        found=float(found),
        error=max(float(spread), 1 / math.sqrt(len(rows))) / math.sqrt(len(rows)),
        short=short,
        generous=generous,
        undecided=int(np.count_nonzero(truth < 0)),
    )


def _parts(n: int, rows: Ints, seed: int) -> tuple[Ints, Ints, Ints]:
    """Deal all rows, at random: those that say where to compare, the checked ones that are compared, and
    those with which these are compared. The first are unchecked, as far as there are enough.
    """
    rng = np.random.default_rng(seed)
    checked, others = (rng.permutation(part) for part in (rows, np.setdiff1d(np.arange(n), rows)))
    aside = min(n // _PARTS, _MOST)
    learn = np.concatenate([others, checked])[:aside]
    return learn, checked[max(aside - len(others), 0) :], others[aside:]


def _threshold(sample: Sample, cal: Calibration, noise: Noise, learn: Ints) -> int:
    """Return the approximate threshold of a calibration, by a few of the points, as a place in the grid."""
    if not len(learn):
        return INFINITE
    few = sample.some(learn)
    curve = Curve.of(few, noise)
    problem = Problem(cal.alpha, cal.n, noise, curve.weights.inverse, curve.counts * (cal.n / few.n))
    plain = np.array([curve.crossing(1 - cal.alpha, "last")])
    price = min(cal.guarantee.price(problem, _deviation(few, curve, plain)), cal.alpha / 2)
    return curve.crossing(1 - cal.alpha + price, "last")


def _clean(curve: Curve, cell: Ints) -> float:
    return float(curve.at(cell, curve.clean)[0])


def _deviation(sample: Sample, curve: Curve, cell: Ints) -> float:
    return float(sample.deviations(curve, cell)[0])


def _means(values: Floats, batch: Ints) -> Floats:
    """Return the mean value of each batch."""
    found: Floats = np.bincount(batch, values) / np.bincount(batch)
    return found


def _won(gains: Floats, loss: float, gain: float, level: float) -> bool:
    """Bet that the mean of some numbers is above 0; `loss` and `gain` are the most that each can be."""
    return len(gains) > 0 and bet(gains, level, loss + gain, 0.99 * (loss + gain) / loss)
