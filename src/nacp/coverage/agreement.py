"""Whether given labels fit their rows better than a random permutation of them would."""

import math

import numpy as np

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.coverage.tally import Sample
from nacp.points.tensors import fetched

_Z = 3.0
"""Labels that fit better by fewer standard deviations than this are taken for unrelated to the rows."""


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
    labels, n = sample.labels[:, 0], sample.n
    shares = np.bincount(labels, minlength=sample.k) / n

    def sums(values: Array, where: slice | Ints) -> tuple[float, Floats, float, float]:
        fits = np.asarray(fetched(values) if engine.is_tensor(values) else values, dtype=np.float64)
        fits = fits if sample.score.takes_probabilities else -fits
        own = fits[np.arange(len(fits)), labels[where]].sum()
        return own, fits.sum(axis=0), float((fits**2 @ shares).sum()), float(((fits @ shares) ** 2).sum())

    own, by_class, squares, by_row = map(sum, zip(*sample.rows.map(sums), strict=True))
    mean = np.asarray(by_class) / n
    expected = float(shares @ mean)
    variance = (squares - by_row - n * float(shares @ mean**2) + n * expected**2) * n / max(n - 1, 1)
    return float(own) - n * expected <= _Z * math.sqrt(max(variance, 0.0))
