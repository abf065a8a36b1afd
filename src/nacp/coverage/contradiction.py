"""Do the labels contradict the noise model? From what a calibration has counted.

If the model is right, the estimated share of true labels with scores between two fixed edges has a mean that
is not negative, and so has the estimated share of each class. What is tested is chosen by the rows alone,
given which labels are independent, so the level is exact: docs/estimation.md, "What every calibration looks
at". Half of the level goes to the scores and half to the classes, each divided by the number of tests.
"""

import math
from collections.abc import Iterable
from functools import cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Floats, Ints
from nacp.coverage.curve import Curve
from nacp.errors import warn
from nacp.noise import Noise
from nacp.stats.bounds import chernoff_tail, upper_tail

LEVEL = 1e-3
"""The probability with which labels that are as the model says contradict it all the same, at the most."""
_PARTS = 16


class Contradiction(NamedTuple):
    """A share of true labels that comes out negative beyond doubt.

    Attributes
    ----------
    share : float
        The estimate.
    low, high : float
        Between which native scores these labels lie.
    label : int or None
        Of which class they are, if it is the share of a class.
    """

    share: float
    low: float = -np.inf
    high: float = np.inf
    label: int | None = None


def contradiction(curve: Curve) -> Contradiction | None:
    """Return what speaks most against the noise model that a curve is under, if anything does.

    With a radius, each share may be negative by as much as that allows.
    """
    tally, weights, n = curve.tally, curve.weights, curve.tally.n
    inverse = weights.inverse
    lowest, highest = inverse.subset_range()
    if lowest >= 0:
        return None  # no share can come out negative
    # Where one label is given for each point and all pairs weigh the same, what is summed up is a count.
    counted = weights.constant is not None

    # Cells are joined to about 16 with equally many pairs; every run of neighbours is looked at.
    pairs, clean = np.append(0, np.cumsum(tally.pairs)), np.append(0.0, curve.clean)
    parted = pairs.searchsorted(pairs[-1] / _PARTS * np.arange(_PARTS + 1))
    ends = np.array(sorted(set(parted.tolist())))
    first, last = ends[_runs(len(ends))]
    share = clean[last] - clean[first]
    low, high = np.full(len(share), lowest), np.full(len(share), highest)
    if weights.constant is not None:
        low = weights.constant * (pairs[last] - pairs[first]) / n
        high = low + weights.own[0]
    by_score = _tails(share, low, high, -curve.shift, n, counted) * len(share)

    frequency = inverse.push(np.asarray(tally.by_label * tally.part)) / n
    least, most = inverse.column_range()
    allowed = -curve.radius * (most - least)
    by_class = _tails(frequency, least, most, allowed, n, counted) * len(frequency)

    if min(by_score.min(), by_class.min()) > LEVEL / 2:
        return None
    if by_class.min() < by_score.min():
        label = int(by_class.argmin())
        return Contradiction(float(frequency[label]), label=label)
    i = int(by_score.argmin())
    edges = np.append(-np.inf, curve.spec.thresholds[tally.cells])
    edges[-1] = np.inf
    return Contradiction(float(share[i]), float(edges[first[i]]), float(edges[last[i]]))


@cache
def _runs(number: int) -> Ints:
    """Return the first and the last place of every run of so many places."""
    return np.stack(np.triu_indices(number, 1))


def _tails(mean: Floats, low: Floats, high: Floats, least: float | Floats, n: int, counted: bool) -> Floats:
    """Bound the probability that a mean of n numbers, each between low and high, comes out as small as that,
    if it is `least` or more in expectation; exactly if each of them is low or high and it is near the level.
    """
    tails = np.ones(len(mean))
    some = (mean < least).nonzero()[0]
    if not len(some):
        return tails
    width, least = (high - low)[some], np.full(len(mean), least)[some]
    found, expected = np.maximum(mean - low, 0)[some] / width, np.maximum(least - low[some], 0) / width
    tails[some] = chernoff_tail(found, expected, n)
    # Zubkov and Serov (2013): if the bound is exp(-z^2/2), the tail is at least that of a normal number
    # beyond z. Mostly that is too much already, and nobody has to know more.
    close = tails[some] <= math.exp(-(NormalDist().inv_cdf(LEVEL / 2 / len(mean)) ** 2) / 2)
    if counted and close.any():
        some, hits, expected = some[close], np.rint(found[close] * n).astype(np.int64), expected[close]
        # Hoeffding (1956): of all independent trials with this many successes expected, those that are all
        # alike have the heaviest tail, from one below the expectation on.
        tails[some] = np.where(hits <= n * expected - 1, upper_tail(n, n - hits, 1 - expected), 1.0)
    return tails


class NoiseModelWarning(UserWarning):
    """The labels contradict the noise model, so what is promised may not hold.

    Examples
    --------
    >>> import warnings
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.25).sample(labels, 10, random_state=0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", nacp.NoiseModelWarning)
    ...     cal = nacp.calibrate(probs, noisy, noise=0.4)
    >>> print(cal.warnings[0])
    the labels contradict uniform label noise with rate 0.4: under it the share of true labels with a score
    above 0.99... is estimated at -0.1..., and no share is negative...
    """


def against(
    curve: Curve, noise: Noise | None, offset: float, classes: tuple[Any, ...] | None
) -> tuple[str, ...]:
    """Return what the labels say against a noise model: a sentence, or nothing.

    The curve is under the low end of an interval of rates, as a smaller rate implies no more than a larger
    one; `offset` is that of the score.
    """
    if noise is None:
        return ()
    found = contradiction(curve)
    if found is None:
        return ()
    return (
        f"the labels contradict {noise.describe(curve.tally.k)}: under it the share of true labels "
        f"{_where(found, offset, classes)} is estimated at {found.share:.3f}, and no share is "
        f"negative (a right model is contradicted in this way at most once in {1 / LEVEL:,.0f} times). Do "
        f"not rely on the promise: coverage may be far lower. {noise.if_contradicted}, ask nacp diagnose, or "
        "check some labels and calibrate with these clean ones, which needs no noise model",
    )


def warn_of(sentences: Iterable[str]) -> None:
    """Warn of what is said against a noise model."""
    for sentence in sentences:
        warn(sentence, NoiseModelWarning)


def _where(found: Contradiction, offset: float, classes: tuple[Any, ...] | None) -> str:
    if found.label is not None:
        return f"of class {found.label if classes is None else classes[found.label]!r}"
    low, high = found.low + offset, found.high + offset
    if np.isposinf(high):
        return f"with a score above {_shown(low)}"
    return f"with a score {'up to' if np.isneginf(low) else f'from {_shown(low)} to'} {_shown(high)}"


def _shown(value: float) -> str:
    """Return a number by four digits; by more, if these would make a whole number of what is none."""
    texts = (f"{value:.{digits}g}" for digits in range(4, 18))
    return next(text for text in texts if float(text) == value or not float(text).is_integer())
