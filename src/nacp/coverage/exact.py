"""Coverage estimates at any thresholds, computed from all scores instead of a tally."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.coverage.curve import CoverageCurve, inverse_of
from nacp.coverage.tally import Sample, Weights
from nacp.errors import InputError
from nacp.noise import Noise, NoiseLike, noise_for
from nacp.points import open_points
from nacp.scores import ScoreLike, as_score


def coverage_curve(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: NoiseLike,
    score: ScoreLike = "hps",
    thresholds: ArrayLike | None = None,
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
) -> CoverageCurve:
    """Estimate the noisy, random and clean coverage at thresholds, exactly.

    Parameters
    ----------
    probs, labels, noise, score, classes, normalize, from_logits
        As in `calibrate`.
    thresholds : array of shape (m,), optional
        The thresholds at which to evaluate the curve. The default is every distinct score of a noisy
        label; unless the noise is a general matrix, the clean estimate rises only there.

    Returns
    -------
    CoverageCurve

    Examples
    --------
    >>> import nacp
    >>> probs = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.125, 0.25, 0.625]]
    >>> curve = nacp.coverage_curve(probs, [0, 1, 1], noise=0.25)
    >>> curve.thresholds.tolist()
    [0.5, 0.75]
    >>> curve.noisy.round(3).tolist(), curve.random.round(3).tolist(), curve.clean.round(3).tolist()
    ([0.667, 1.0], [0.333, 0.889], [0.778, 1.037])
    """
    score = as_score(score)
    rows, numbers, _ = open_points(
        probs, labels, probabilities=score.takes_probabilities, normalize=normalize, from_logits=from_logits,
        classes=classes,
    )  # fmt: skip
    sample = Sample.of(rows, numbers, score)
    if thresholds is None:
        native = np.unique(sample.label_scores)
    else:
        wanted = np.asarray(thresholds, dtype=np.float64)
        if wanted.ndim != 1 or wanted.size == 0 or np.isnan(wanted).any():
            raise InputError(
                "thresholds", "must be one or more numbers in one dimension", found=repr(thresholds)
            )
        native = score.to_native(np.sort(wanted))
    return exact_curve(sample, noise_for(noise, rows.k), native)


def exact_curve(sample: Sample, noise: Noise | None, thresholds: Floats) -> CoverageCurve:
    """Return the estimates at native thresholds that need not be on the grid."""
    weights = Weights(inverse_of(noise, sample.k), points=max(sample.n, 2))
    number = len(thresholds)
    spec = sample.score.spec

    def counted(values: Array, where: slice | Ints) -> Ints:
        places = np.searchsorted(thresholds, engine.of(values).scores(values, spec))
        pairs = np.bincount(places.reshape(-1), minlength=number + 1)
        which, table = weights.of(sample, where)
        if table is None:
            return np.stack([pairs, pairs])
        weighed = np.zeros(number + 1, dtype=np.int64)
        np.add.at(weighed, places, table[which])
        return np.stack([pairs, weighed])

    pairs, weighed = np.cumsum(sum(sample.rows.map(counted)), axis=1)[:, :number]
    scale = weights.unit if weights.constant is None else weights.constant
    places = np.searchsorted(thresholds, sample.label_scores[:, 0])
    own = np.bincount(places, weights.own[sample.labels[:, 0]], number + 1).cumsum()[:number]
    hits = np.bincount(places, minlength=number + 1).cumsum()[:number]
    clean = (own + weighed * scale) / sample.n
    random = pairs / (sample.n * sample.k)
    return CoverageCurve(thresholds + sample.score.offset, hits / sample.n, random, clean)
