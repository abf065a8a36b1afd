"""Test from a tally whether the labels contradict the noise model.

If the model is correct, the estimated share of true labels with scores in a fixed interval has a nonnegative
mean, and so does the estimated share of each class. The intervals depend on the rows only, and given the rows
the labels are independent, so the level holds exactly: docs/guarantees.md, S5.
Half of the level is for the intervals and half for the classes, each divided by the number of tests.
"""

import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Floats
from nacp.coverage.curve import Curve
from nacp.errors import warn
from nacp.noise import Noise
from nacp.stats.bounds import chernoff_tail, upper_tail

LEVEL = 1e-3
"""The largest probability with which a correct model is contradicted."""
_INTERVALS = 16


class Contradiction(NamedTuple):
    """A share of true labels whose estimate is significantly negative.

    Attributes
    ----------
    share : float
        The estimate.
    low, high : float
        The interval of native scores that the share is about.
    label : int or None
        The class, if it is the share of a class.
    """

    share: float
    low: float = -np.inf
    high: float = np.inf
    label: int | None = None


def contradiction(curve: Curve) -> Contradiction | None:
    """Return the most significant contradiction of a curve's noise model, or None.

    With a radius, a share may be negative by as much as the radius allows.
    """
    tally, weights, n = curve.tally, curve.weights, curve.tally.n
    inverse = weights.inverse
    lowest, highest = inverse.subset_range()
    if lowest >= 0:
        return None  # No estimated share can be negative.
    # With one label per point and equal weights of all pairs, the sums are counts.
    counted = weights.constant is not None

    # Cells are merged into about 16 with equal numbers of pairs; every run of neighbouring ones is tested.
    pairs, clean = np.append(0, np.cumsum(tally.pairs)), np.append(0.0, curve.clean)
    quantiles = pairs.searchsorted(pairs[-1] / _INTERVALS * np.arange(_INTERVALS + 1))
    ends = np.array(sorted(set(quantiles.tolist())))
    first, last = ends[np.stack(np.triu_indices(len(ends), 1))]
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


def _tails(mean: Floats, low: Floats, high: Floats, least: float | Floats, n: int, counted: bool) -> Floats:
    """Bound the probability of a sample mean of at most `mean`, for n numbers between low and high.

    Their expected mean is at least `least`. If the numbers are `counted`, each is low or high, and the
    probability is exact near the level.
    """
    tails = np.ones(len(mean))
    some = (mean < least).nonzero()[0]
    if not len(some):
        return tails
    width, least = (high - low)[some], np.full(len(mean), least)[some]
    found, expected = np.maximum(mean - low, 0)[some] / width, np.maximum(least - low[some], 0) / width
    tails[some] = chernoff_tail(found, expected, n)
    # Zubkov and Serov (2013): if the bound is exp(-z^2/2), the exact tail is at least the normal tail beyond
    # z. The exact tail is computed only where this lower bound is below the level.
    close = tails[some] <= math.exp(-(NormalDist().inv_cdf(LEVEL / 2 / len(mean)) ** 2) / 2)
    if counted and close.any():
        some, hits, expected = some[close], np.rint(found[close] * n).astype(np.int64), expected[close]
        # Hoeffding (1956): among independent trials with the same expected number of successes, identical
        # trials have the heaviest lower tail, from one below the expectation on.
        tails[some] = np.where(hits <= n * expected - 1, upper_tail(n, n - hits, 1 - expected), 1.0)
    return tails


class NoiseModelWarning(UserWarning):
    """The labels contradict the noise model, so the promise may not hold.

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
    the labels contradict uniform label noise with rate 0.4: under this model the share of true labels with a
    score above 0.99... is estimated at -0.1..., but a share cannot be negative...
    """


def against(
    curve: Curve, noise: Noise | None, offset: float, classes: tuple[Any, ...] | None
) -> tuple[str, ...]:
    """Return a warning if the labels contradict the noise model, in a tuple that is empty if they do not.

    `curve` must be under the low end of an interval of rates, which is the hardest to contradict; `offset` is
    that of the score.
    """
    if noise is None:
        return ()
    found = contradiction(curve)
    if found is None:
        return ()
    return (
        f"the labels contradict {noise.describe(curve.tally.k)}: under this model the share of true labels "
        f"{_where(found, offset, classes)} is estimated at {found.share:.3f}, but a share cannot be negative "
        f"(the chance of this warning is at most 1 in {1 / LEVEL:,.0f} if the model is correct). Do not rely "
        f"on the promise: coverage may be far lower. {noise.if_contradicted}, run nacp diagnose, or check "
        "some labels and calibrate with these clean ones, which needs no noise model",
    )


def warn_of(sentences: Iterable[str]) -> None:
    """Issue the warnings that the labels contradict a noise model."""
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
    """Format a number with four digits; with more if they would turn it into an integer."""
    texts = (f"{value:.{digits}g}" for digits in range(4, 18))
    return next(text for text in texts if float(text) == value or not float(text).is_integer())
