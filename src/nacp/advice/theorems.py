"""Theorems 3.1 and 3.2 of the paper as functions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nacp.calibrate import ScoreLike
from nacp.checks import check_count, check_fraction, check_rate
from nacp.coverage.curve import ROUNDING, Curve
from nacp.coverage.tally import Sample
from nacp.errors import InputError
from nacp.noise import Noise, NoiseLike, noise_for
from nacp.points import open_points
from nacp.scores import as_score


def threshold_bracket(
    noisy_scores: ArrayLike, *, epsilon: float, k: int, alpha: float
) -> tuple[float, float]:
    """Return the interval in which the threshold for uniform noise must lie: Theorem 3.1.

    Any q at which the estimated clean coverage first, or last, reaches 1 - alpha lies between the
    ``(1 - alpha)(1 - epsilon)/(1 - epsilon/k)`` and the ``1 - alpha + alpha epsilon`` quantiles of the noisy
    labels' scores. Quantile p is the smallest score s with at least a share p of scores <= s.

    Parameters
    ----------
    noisy_scores : array of shape (n,)
        The scores of the noisy labels, for example from `Score.label_scores`.
    epsilon, k, alpha : float, int and float
        The rate of uniform noise, the number of classes, and alpha as in `calibrate`.

    Returns
    -------
    low, high : float

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> nacp.threshold_bracket(np.arange(1, 101) / 100, epsilon=0.2, k=10, alpha=0.1)
    (0.74, 0.92)
    """
    check_fraction("alpha", alpha)
    check_rate(epsilon, "epsilon")
    scores = np.sort(np.asarray(noisy_scores, dtype=np.float64))
    if scores.ndim != 1 or len(scores) == 0 or np.isnan(scores).any():
        raise InputError("noisy_scores", "must be n numbers in one dimension", found=f"shape {scores.shape}")
    check_count("k", k, 2)
    n = len(scores)
    shares = ((1 - alpha) * (1 - epsilon) / (1 - epsilon / k), 1 - alpha + alpha * epsilon)
    low, high = (scores[max(math.ceil(share * n - 1e-9), 1) - 1] for share in shares)
    return float(low), float(high)


@dataclass(frozen=True)
class NoisyComparison:
    """The result of `compare_with_noisy_cp`.

    Attributes
    ----------
    threshold, noisy_threshold : float
        The thresholds of the noise-aware rule and of Noisy-CP, which takes the noisy labels as they are.
    random_coverage, noisy_random_coverage : float
        F^r-hat at these thresholds: the mean set size divided by k.
    smaller : bool
        Whether the noise-aware sets are the smaller ones: ``random_coverage <= 1 - alpha``.
    """

    threshold: float
    noisy_threshold: float
    random_coverage: float
    noisy_random_coverage: float
    smaller: bool


def compare_with_noisy_cp(
    probs: ArrayLike, labels: ArrayLike, *, noise: NoiseLike, alpha: float = 0.1, score: ScoreLike = "hps"
) -> NoisyComparison:
    """Compare the sizes of noise-aware sets and of those of Noisy-CP: Theorem 3.2.

    Noisy-CP takes the ``1 - alpha`` quantile of the noisy labels' scores. If the noise-aware threshold q,
    without a correction, reaches its target exactly, it is at most that quantile if and only if
    ``F^r-hat(q) <= 1 - alpha``, that is, if its sets hold at most ``k (1 - alpha)`` labels on average. On a
    sample, both hold up to one step of the grid. (The paper states it for the threshold of Noisy-CP and
    proves it for q, which is used here.)

    Parameters
    ----------
    probs, labels, noise, alpha, score
        As in `calibrate`; the noise is uniform.

    Returns
    -------
    NoisyComparison

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=2000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.2).sample(labels, k=100, random_state=0)
    >>> nacp.compare_with_noisy_cp(probs, noisy, noise=0.2).smaller
    True
    """
    check_fraction("alpha", alpha)
    score = as_score(score)
    rows, numbers, _ = open_points(probs, labels, probabilities=score.takes_probabilities)
    noise = noise_for(noise, rows.k)
    if noise is not None and not noise.is_uniform:
        raise InputError("noise", "must be uniform for Theorem 3.2", found=repr(noise))
    sample = Sample.of(rows, numbers, score)

    def first(noise: Noise | None) -> tuple[float, float]:
        """Return the threshold at which the estimate first reaches its target, and F^r-hat there."""
        curve = Curve.of(sample, noise)
        cell = curve.crossing(1 - alpha, "first")
        random = curve.at(np.array([cell]), curve.random)
        return float(curve.spec.thresholds[cell]) + score.offset, float(random[0])

    (q, random), (noisy_q, noisy_random) = first(noise), first(None)
    return NoisyComparison(q, noisy_q, random, noisy_random, random <= 1 - alpha + ROUNDING)
