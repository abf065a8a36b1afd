"""Clusters of classes whose scores are distributed alike: groups for `calibrate`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats
from nacp.checks import check_count
from nacp.coverage.grid import BY_CLASS
from nacp.coverage.sample import Sample
from nacp.coverage.tally import Weights
from nacp.errors import InputError
from nacp.groups.class_curve import class_curves
from nacp.noise import Noise, NoiseLike, UniformNoise, noise_for
from nacp.points import open_points
from nacp.scores import ScoreLike, as_score

# A class is described by where its true labels' scores have these shares below them.
_SHARES = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
# So many points, as the noise model has it, must be of a class for its scores to say anything; the others are
# in a cluster of their own, whose name is the last.
_FEWEST = 1 / (1 - _SHARES.max())
# At so many thresholds their distribution is looked at; a class counts for so many tens of points at most.
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
    """Put classes together whose scores are distributed alike, from noisy labels.

    With few points of each class a threshold for each cannot be had. Classes of one cluster share one, which
    costs little where their scores are distributed alike. Each class is described by quantiles of the scores
    of its true labels, whose distribution comes from the noisy ones by inverse weighting, and these are
    clustered by k-means, weighted by how many points a class has (after Ding et al., 2023).

    Parameters
    ----------
    probs, labels, noise, score, classes, normalize, from_logits
        As in `calibrate`. These points must not be used to calibrate: set some aside.
    clusters : int
        How many clusters, at the most. Classes with fewer than 10 points are in a further one, the last.
    random_state : int, default=0
        The seed of k-means.

    Returns
    -------
    dict
        From class (its name, or its number if there are no names) to the number of its cluster: what
        ``calibrate(..., groups=)`` takes.

    References
    ----------
    Ding, Angelopoulos, Bates, Jordan, Tibshirani (2023), *Class-conditional conformal prediction with many
    classes*.

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
    rows, numbers, names = open_points(
        probs, labels, probabilities=score.takes_probabilities, normalize=normalize, from_logits=from_logits,
        classes=classes,
    )  # fmt: skip
    if check_count("clusters", clusters, 1) > rows.k:
        raise InputError(
            "clusters", f"must be at most {rows.k:,}, the number of classes", found=repr(clusters)
        )
    sample = Sample.of(rows, numbers, score)
    model = noise_for(noise, rows.k) or UniformNoise(0.0)
    mass, described = _described(sample, model)
    enough = mass >= _FEWEST - 1e-9
    found = np.full(rows.k, clusters)
    alike = np.unique(described[enough], axis=0, return_inverse=True)[1].reshape(-1)
    if enough.sum() <= clusters:
        found[enough] = np.arange(enough.sum())
    elif alike.max() < clusters:
        found[enough] = alike
    else:
        # Each class as often as it has points, in tens: k-means takes no weights.
        times = np.maximum(1, np.rint(mass[enough] / _FEWEST)).astype(np.int64)
        each = np.repeat(np.arange(len(times)), np.minimum(times, _MOST))
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a cluster may become empty: then there are fewer
            _, places = kmeans2(described[enough][each], clusters, minit="++", seed=rng)
        found[enough] = places[np.searchsorted(each, np.arange(len(times)))]
    known = tuple(range(rows.k)) if names is None else names
    # Numbers without gaps, in the order in which they first come.
    order = {cluster: i for i, cluster in enumerate(dict.fromkeys(c for c in found.tolist() if c < clusters))}
    order[clusters] = len(order)
    return {name: order[cluster] for name, cluster in zip(known, found.tolist(), strict=True)}


def _described(sample: Sample, noise: Noise) -> tuple[Floats, Floats]:
    """Return how many points each class has, by inverse weighting, and its quantiles: (k, shares)."""
    weights, every = Weights(noise.inverse(sample.k)), np.arange(sample.k)
    curves = class_curves(sample, weights, noise, every, sample.k, [0.5])
    mass, cells = np.array([curve.mass for curve in curves]), np.sort(sample.label_cells[:, 0])
    evenly = cells[np.linspace(0, len(cells) - 1, _THRESHOLDS).astype(np.int64)]
    grid = np.unique(BY_CLASS[np.searchsorted(BY_CLASS, evenly)])
    # The distribution of a class rises; its estimate does not always.
    share = np.stack([curve.at(grid, curve.clean) for curve in curves])
    np.maximum.accumulate(share, axis=1, out=share)
    places = np.minimum((share[:, None] < _SHARES[:, None]).sum(axis=2), len(grid) - 1)
    # On the scale of ranks, on which scores of every kind are spread alike.
    return mass, np.searchsorted(cells, grid, side="right")[places] / len(cells)
