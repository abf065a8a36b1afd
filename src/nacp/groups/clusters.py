"""Clusters of classes with similar distributions of scores: groups for `calibrate`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats
from nacp.checks import check_count
from nacp.coverage.curve import inverse_of
from nacp.coverage.grid import BY_CLASS
from nacp.coverage.tally import Sample, Weights
from nacp.errors import InputError
from nacp.groups.class_curve import class_curves
from nacp.noise import Noise, NoiseLike, noise_for
from nacp.points import open_points
from nacp.scores import ScoreLike, as_score

# Classes are compared by the quantiles of their true labels' scores at these shares.
_SHARES = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
# Classes with fewer points, estimated with the noise model, form a cluster of their own, the last.
_FEWEST = 1 / (1 - _SHARES.max())
# The number of thresholds at which distributions are compared, and the largest weight of a class in k-means.
_THRESHOLDS, _MOST = 200, 100


def cluster_classes(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: NoiseLike,
    clusters: int,
    score: ScoreLike = "hps",
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
    random_state: int = 0,
) -> dict[Any, int]:
    """Cluster classes with similar distributions of scores, from noisy labels.

    Thresholds of clusters need fewer points than thresholds of classes. Quantiles of the scores of the true
    labels of each class are estimated from the noisy ones by inverse weighting; k-means clusters these,
    weighted by the number of points (Ding et al., 2023).

    Parameters
    ----------
    probs, labels, noise, score, classes, normalize, from_logits
        As in `calibrate`. Use other points than those for calibration.
    clusters : int
        The largest number of clusters. Classes with fewer than 10 points form a further one, the last.
    random_state : int, default=0
        The seed of k-means.

    Returns
    -------
    dict
        From class (its name, or its number if there are no names) to the number of its cluster, for
        ``calibrate(..., groups=)``.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=20000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.1).sample(labels, 100, random_state=0)
    >>> groups = nacp.cluster_classes(probs[:8000], noisy[:8000], noise=0.1, clusters=4)
    >>> cal = nacp.calibrate(probs[8000:], noisy[8000:], noise=0.1, groups=groups)
    >>> len(cal.thresholds)
    4
    """
    from scipy.cluster.vq import kmeans2

    score, seed = as_score(score), check_count("random_state", random_state)
    options = {"normalize": normalize, "from_logits": from_logits, "classes": classes}
    rows, numbers, names = open_points(probs, labels, probabilities=score.takes_probabilities, **options)
    if check_count("clusters", clusters, 1) > rows.k:
        problem = f"must be at most {rows.k:,}, the number of classes"
        raise InputError("clusters", problem, found=repr(clusters))
    mass, quantiles = _quantiles(Sample.of(rows, numbers, score), noise_for(noise, rows.k))
    enough = mass >= _FEWEST - 1e-9
    found = np.full(rows.k, clusters)
    different, alike = np.unique(quantiles[enough], axis=0, return_inverse=True)
    if len(different) <= clusters:
        found[enough] = alike.reshape(-1)
    else:
        # k-means takes no weights: each class is repeated once for every ten of its points.
        times = np.clip(np.rint(mass[enough] / _FEWEST).astype(np.int64), 1, _MOST)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a cluster may become empty: then there are fewer
            repeated = np.repeat(quantiles[enough], times, axis=0)
            _, places = kmeans2(repeated, clusters, minit="++", seed=np.random.default_rng(seed))
        found[enough] = places[np.cumsum(times) - times]
    # Numbers without gaps, in order of appearance; the cluster of classes with few points is the last.
    order = {cluster: i for i, cluster in enumerate(dict.fromkeys(c for c in found.tolist() if c < clusters))}
    order[clusters] = len(order)
    known = range(rows.k) if names is None else names
    return {name: order[cluster] for name, cluster in zip(known, found.tolist(), strict=True)}


def _quantiles(sample: Sample, noise: Noise | None) -> tuple[Floats, Floats]:
    """Return the number of points of each class, by inverse weighting, and quantiles: (k, shares)."""
    weights = Weights(inverse_of(noise, sample.k))
    curves = class_curves(sample, weights, noise, np.arange(sample.k), sample.k)
    mass, cells = np.array([curve.mass for curve in curves]), np.sort(sample.label_cells[:, 0])
    evenly = cells[np.linspace(0, len(cells) - 1, _THRESHOLDS).astype(np.int64)]
    grid = np.unique(BY_CLASS[np.searchsorted(BY_CLASS, evenly)])
    # A distribution function rises; its estimate may fall.
    share = np.maximum.accumulate([curve.at(grid, curve.clean) for curve in curves], axis=1)
    places = np.minimum((share[:, None] < _SHARES[:, None]).sum(axis=2), len(grid) - 1)
    # Ranks among all scores are spread evenly, whatever the score is.
    return mass, np.searchsorted(cells, grid, side="right")[places] / len(cells)
