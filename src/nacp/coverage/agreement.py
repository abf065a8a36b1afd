"""Whether given labels fit their rows better than a random permutation of them would."""

import math

import numpy as np

from nacp.coverage.tally import Sample
from nacp.points.arrays import row_slices

# Labels that fit better by at most this number of standard deviations count as unrelated to the rows.
_Z, _ROUNDING = 3.0, 1e-18
# About _ENTRIES probabilities of evenly spaced points are compared, but at least _LEAST points.
# Fewer than _FEWEST points are not compared.
_ENTRIES, _LEAST, _FEWEST = 1 << 19, 32, 100


def unrelated(sample: Sample) -> bool:
    """Return whether the labels could as well be in a random order.

    The sum of the probabilities of the given labels is compared with its mean and its standard deviation over
    all permutations of the labels, which are exact (Hoeffding, 1951).

    Examples
    --------
    >>> import numpy as np
    >>> from nacp.coverage.agreement import unrelated
    >>> from nacp.coverage.tally import Sample
    >>> from nacp.paper import twins
    >>> from nacp.points import open_points
    >>> from nacp.scores import HPS
    >>> probs, labels = twins.simulate("cifar10", n=500)
    >>> [unrelated(Sample.of(*open_points(probs, each)[:2], HPS())) for each in (labels, labels[::-1])]
    [False, True]
    """
    places = np.flatnonzero(sample.parts[:, 0] > 0)
    if len(places) < _FEWEST:
        return False
    n = min(len(places), max(_LEAST, _ENTRIES // sample.k))
    places = places[np.arange(n) * len(places) // n]
    fits = np.empty((n, sample.k))
    for where in row_slices(n, sample.k):
        fits[where] = sample.rows.whole(places[where])
    if not sample.score.takes_probabilities:
        np.negative(fits, out=fits)
    if not np.isfinite(fits).all():
        return False
    labels = sample.labels[places, 0] % sample.k
    shares = np.bincount(labels, minlength=sample.k) / n
    by_row, by_class = fits @ shares, fits.mean(axis=0)
    mean = float(shares @ by_class)
    found = float(fits[np.arange(n), labels].mean()) - mean
    np.multiply(fits, fits, out=fits)
    variance = (
        float(shares @ fits.mean(axis=0)) - float((by_row**2).mean()) - float(shares @ by_class**2) + mean**2
    ) / (n - 1)
    return variance > _ROUNDING and found <= _Z * math.sqrt(variance)


def warning_of(sample: Sample | None, name: str = "labels") -> tuple[str, ...]:
    """Return a warning if labels are unrelated to their rows, in a tuple that is empty if they are not."""
    # Rows on a device are not copied to the host for this.
    if sample is None or sample.rows.on_device or not unrelated(sample):
        return ()
    return (
        f"the {name} fit the rows of probs no better than labels in random order would: check that labels "
        "and rows are in the same order, and that the columns of probs are in the order of the classes",
    )
