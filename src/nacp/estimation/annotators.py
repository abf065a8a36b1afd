"""The noise model from several annotators: no true label is needed, only how often they agree.

Under uniform noise two annotators agree with probability ``a = s^2 + (1 - s^2)/k``, s = 1 - rate, so the rate
has a closed form. The number of agreeing pairs is stochastically increasing in s and its distribution is
computed, so the interval is exact. The proof: docs/estimation.md. A full matrix comes from Dawid
and Skene's model, by crowd-kit (``nacp[crowd]``).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats, Ints
from nacp.checks import check_choice, check_fraction
from nacp.errors import InputError
from nacp.estimation._labels import number_of_classes
from nacp.estimation.result import NoiseEstimate
from nacp.noise import MatrixNoise, UniformNoise
from nacp.points import number_table, open_table, present_labels
from nacp.stats.intervals import Kinds, exact_interval

_MOST = 10  # labels per item; more would add little, and the distribution of the pairs would take long
_ASSUMED = (
    "annotators err independently of each other given the true class, and the labels to calibrate with are "
    "theirs, not votes"
)


def noise_from_annotators(
    labels: ArrayLike,
    *,
    k: int | None = None,
    classes: Sequence[Any] | None = None,
    model: Literal["uniform", "matrix"] = "uniform",
    confidence: float = 0.95,
) -> NoiseEstimate:
    """Estimate the noise of one annotator's labels from how far several of them agree.

    Parameters
    ----------
    labels : array of shape (n, annotators)
        A row for each item and a column for each annotator: numbers from 0 to k - 1, or names from `classes`.
        A missing label is -1 or nan, with names also None or "". At most the first ten labels of an item are
        used by "uniform".
    k : int, optional
        The number of classes; by default one more than the largest label.
    classes : sequence of length k, optional
        The class names.
    model : {"uniform", "matrix"}, default="uniform"
        "uniform": one rate for all annotators, in closed form, with an exact interval. "matrix": the mean of
        the annotators' confusion matrices by Dawid and Skene's model, without an interval; it needs
        ``nacp[crowd]``.
    confidence : float, default=0.95
        Of the interval of the rate.

    Returns
    -------
    NoiseEstimate

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> true = np.arange(2000) % 10
    >>> labels = np.stack([nacp.UniformNoise(0.2).sample(true, 10, seed) for seed in range(3)], axis=1)
    >>> estimate = nacp.noise_from_annotators(labels, k=10)
    >>> estimate.interval[0] < 0.2 < estimate.interval[1]
    True
    """
    check_fraction("confidence", confidence)
    check_choice("model", model, ("uniform", "matrix"))
    table, k, remark = _check_table(labels, k, classes)
    used = np.count_nonzero(table >= 0, axis=1)
    table = table[used >= 2]
    if len(table) == 0:
        raise InputError("labels", "holds no item with two labels; agreement needs at least one such item")
    if model == "matrix":
        return _dawid_skene(table, k, remark)
    return _uniform(table, k, confidence, remark)


def _check_table(labels: ArrayLike, k: int | None, classes: Sequence[Any] | None) -> tuple[Ints, int, str]:
    """Return the labels as numbers, -1 where there is none; k; and where k comes from."""
    array, missing = open_table(labels, classes)
    if array.shape[1] < 2:
        raise InputError(
            "labels", "must have the shape (n, annotators), with two or more", found=f"{array.shape}"
        )
    k, remark = number_of_classes(k, classes, present_labels(array, missing))
    return number_table(array, missing, k, classes), k, remark


def _uniform(table: Ints, k: int, confidence: float, remark: str) -> NoiseEstimate:
    first = table[np.arange(len(table))[:, None], np.argsort(table < 0, axis=1, kind="stable")[:, :_MOST]]
    agreeing = sum(
        int(np.count_nonzero((first[:, a] == first[:, b]) & (first[:, a] >= 0)))
        for a, b in combinations(range(first.shape[1]), 2)
    )
    sizes, numbers = np.unique(np.count_nonzero(first >= 0, axis=1), return_counts=True)
    pairs = int(sum(number * math.comb(size, 2) for size, number in zip(sizes, numbers, strict=True)))
    distribution = pair_distribution(int(sizes.max()), k)

    def kinds(kept: float) -> Kinds:
        return [(distribution(kept, int(m)), int(number)) for m, number in zip(sizes, numbers, strict=True)]

    low, high = exact_interval(agreeing, kinds, confidence)
    share = agreeing / pairs
    if low <= 0:
        raise InputError(
            "labels",
            f"agree in {agreeing} of {pairs} pairs ({100 * share:.3g}%), which is what {k} classes at random "
            f"({100 / k:.3g}%) could give: nothing can be said about the noise",
        )
    kept = math.sqrt(max(share * k - 1, 0.0) / (k - 1))
    rate, interval = 1 - kept, (1 - high, 1 - low)
    rate = min(max(rate, interval[0]), interval[1])
    return NoiseEstimate(
        noise=UniformNoise(rate, interval, confidence),
        rate=rate,
        interval=interval,
        confidence=confidence,
        wrong=rate * (1 - 1 / k),
        n=len(table),
        k=k,
        method=f"agreement of annotators in {100 * share:.4g}% of {pairs} pairs; exact interval",
        assumption=f"{_ASSUMED}; every annotator and class has the same rate, and any class is as likely to "
        "replace the true one",
        why=f"uniform: agreement alone shows one rate{remark}",
    )


def pair_distribution(most: int, k: int) -> Callable[[float, int], Floats]:
    """Return a function that gives the distribution of the agreeing pairs among m labels of an item.

    Its arguments are s, the probability with which an annotator's label is not replaced, and m <= `most`.

    Examples
    --------
    >>> from nacp.estimation.annotators import pair_distribution
    >>> pair_distribution(2, k=4)(0.5, 2).round(6).tolist()  # they agree with probability 1/4 + 3/4/4
    [0.5625, 0.4375]
    """
    from scipy.stats import binom

    # b labels that are not the true one fall on k - 1 classes: the power series of one class is
    # sum_c z^c u^(c choose 2) / c!, and its (k-1)th power times b!/(k-1)^b gives their pairs.
    one = np.zeros((most + 1, math.comb(most, 2) + 1))
    for c in range(most + 1):
        one[c, math.comb(c, 2)] = 1 / math.factorial(c)
    series = _power(one, k - 1)
    others = [series[b] * math.factorial(b) / float(k - 1) ** b for b in range(most + 1)]

    def distribution(kept: float, m: int) -> Floats:
        found = np.zeros(math.comb(m, 2) + 1)
        true = binom.pmf(np.arange(m + 1), m, kept + (1 - kept) / k)
        for c in range(m + 1):
            pairs = others[m - c][: math.comb(m - c, 2) + 1]
            start = math.comb(c, 2)
            found[start : start + len(pairs)] += true[c] * pairs
        return found

    return distribution


def _power(series: Floats, exponent: int) -> Floats:
    """Return a power of a series in two variables, cut off at its own degrees."""

    def times(a: Floats, b: Floats) -> Floats:
        product = np.zeros_like(a)
        for i in range(len(a)):
            for j in range(len(a) - i):
                product[i + j] += np.convolve(a[i], b[j])[: a.shape[1]]
        return product

    found = np.zeros_like(series)
    found[0, 0] = 1.0
    while exponent:
        if exponent & 1:
            found = times(found, series)
        series, exponent = times(series, series), exponent >> 1
    return found


def _dawid_skene(table: Ints, k: int, remark: str) -> NoiseEstimate:
    try:
        import pandas as pd
        from crowdkit.aggregation import DawidSkene
    except ImportError:
        raise ImportError(
            'model="matrix" needs crowd-kit for Dawid and Skene\'s model; pip install "nacp[crowd]"'
        ) from None
    items, annotators = np.nonzero(table >= 0)
    answers = pd.DataFrame({"task": items, "worker": annotators, "label": table[items, annotators]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # crowd-kit's own way with pandas
        fitted: Any = DawidSkene(n_iter=200, tol=1e-6).fit(answers)
    # errors_[(worker, label), true]: the mean over annotators, each as often as it answered.
    shares = answers["worker"].value_counts(normalize=True)
    joint = np.zeros((k, k))
    for annotator, share in shares.items():
        errors = fitted.errors_.loc[annotator]
        where = np.ix_(errors.columns.astype(int), errors.index.astype(int))
        joint[where] += share * errors.to_numpy().T
    frequencies = np.zeros(k)
    frequencies[fitted.priors_.index.astype(int)] = fitted.priors_.to_numpy()
    unseen = joint.sum(axis=1) <= 0
    joint[unseen] = np.eye(k)[unseen]  # nobody used this label: no other row is touched
    matrix = joint / joint.sum(axis=1, keepdims=True)
    wrong = float(frequencies @ (1 - np.diag(matrix)))
    absent = f"; {np.count_nonzero(unseen)} classes never occur" if unseen.any() else ""
    return NoiseEstimate(
        noise=MatrixNoise(matrix),
        rate=wrong,
        interval=None,
        confidence=1.0,
        wrong=wrong,
        n=len(table),
        k=k,
        method="Dawid and Skene's model by crowd-kit; no interval",
        assumption=f"{_ASSUMED}; most annotators are right more often than wrong in every class",
        why=f"a matrix: asked for{absent}{remark}",
    )
