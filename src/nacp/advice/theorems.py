"""Theorems 3.1 and 3.2 of the paper as tools."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp._validation import check_fraction, check_labels, check_probs, check_rate
from nacp.coverage import Evidence, inverse_for
from nacp.crossing import ROUNDING, find_crossings
from nacp.noise import UniformFamily, as_noise
from nacp.scores import as_score


def threshold_bracket(
    noisy_scores: ArrayLike, *, epsilon: float, k: int, alpha: float
) -> tuple[float, float]:
    """Return the interval in which the threshold for uniform noise must lie: Theorem 3.1.

    Any q at which the estimated clean coverage first, or last, reaches 1 - alpha lies between the
    ``(1 - alpha)(1 - epsilon)/(1 - epsilon/k)`` and the ``1 - alpha + alpha epsilon`` quantiles of the
    noisy labels' scores. Quantile p is the smallest score s with at least a share p of scores <= s.

    Parameters
    ----------
    noisy_scores : array of shape (n,)
        The scores of the noisy labels, for example from `Score.label_scores`.
    epsilon : float
        The rate of uniform noise.
    k : int
        The number of classes.
    alpha : float
        The sets are to contain the true class with probability 1 - alpha.

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
        raise ValueError(f"noisy_scores must be n numbers in one dimension; found shape {scores.shape}")
    if k < 2:
        raise ValueError(f"k must be at least 2 classes; found {k!r}")
    n = len(scores)
    shares = ((1 - alpha) * (1 - epsilon) / (1 - epsilon / k), 1 - alpha + alpha * epsilon)
    low, high = (scores[max(math.ceil(share * n - 1e-9), 1) - 1] for share in shares)
    return float(low), float(high)


@dataclass(frozen=True)
class NoisyComparison:
    """What `compare_with_noisy_cp` found.

    Attributes
    ----------
    threshold, noisy_threshold : float
        q of the noise-aware rule and of Noisy-CP, which takes the noisy labels as they are.
    random_coverage, noisy_random_coverage : float
        F^r-hat at the two: the mean set size divided by k.
    smaller : bool
        Whether the noise-aware sets are the smaller ones: ``random_coverage <= 1 - alpha``.
    """

    threshold: float
    noisy_threshold: float
    random_coverage: float
    noisy_random_coverage: float
    smaller: bool


def compare_with_noisy_cp(
    probs: ArrayLike, labels: ArrayLike, *, noise: Any, alpha: float = 0.1, score: Any = "hps"
) -> NoisyComparison:
    """Ask whether noise-aware sets are smaller than those of Noisy-CP here: Theorem 3.2.

    Noisy-CP takes the ``1 - alpha`` quantile of the noisy labels' scores. If the noise-aware threshold q,
    without a correction, reaches its target exactly, it is at most that quantile if and only if
    ``F^r-hat(q) <= 1 - alpha``, that is, if its sets hold at most ``k (1 - alpha)`` labels on average. On a
    sample q overshoots the target by up to one label, and so does the equivalence. (The paper states it for
    the threshold of Noisy-CP and proves it for q; what is proved is used.)

    Parameters
    ----------
    probs, labels, noise, alpha, score
        As in `calibrate`; uniform noise.

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
    kind, model = as_score(score), as_noise(noise)
    if model is not None and not isinstance(model, UniformFamily):
        raise ValueError(f"Theorem 3.2 is about uniform noise; noise is {model!r}")
    rows = check_probs(probs, probabilities=kind.takes_probabilities)
    given = check_labels(labels, rows.n, rows.k)
    aware = Evidence(rows, given, kind, inverse_for(model, rows.k))
    ignorant = Evidence(rows, given, kind, inverse_for(None, rows.k))
    q = np.array([find_crossings(aware, [1 - alpha], "first")[0].threshold])
    noisy_q = np.array([find_crossings(ignorant, [1 - alpha], "first")[0].threshold])
    random = float(aware.curve(q)[1][0])
    return NoisyComparison(
        threshold=float(q[0] + kind.offset),
        noisy_threshold=float(noisy_q[0] + kind.offset),
        random_coverage=random,
        noisy_random_coverage=float(ignorant.curve(noisy_q)[1][0]),
        smaller=random <= 1 - alpha + ROUNDING,
    )
