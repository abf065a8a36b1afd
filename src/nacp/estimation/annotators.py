"""The noise model from the agreement of several annotators; no true label is needed.

Under uniform noise two annotators agree with probability ``s^2 + (1 - s^2)/k``, s = 1 - rate. The number of
agreeing pairs is stochastically increasing in s and its distribution is computed, so the interval is exact.
In checked items the right labels are counted instead. The proof: docs/guarantees.md, S2.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats
from nacp.checks import check_choice, check_fraction
from nacp.coverage.contradiction import NoiseModelWarning
from nacp.errors import InputError, warn
from nacp.estimation.result import NoiseEstimate
from nacp.estimation.votes import Votes, open_votes
from nacp.labels import LabelTable
from nacp.noise import AnnotatorNoise, MatrixNoise, UniformNoise
from nacp.points import check_classes
from nacp.stats.dawid_skene import pooled, scaled
from nacp.stats.intervals import Kinds, exact_interval

_MOST_LABELS = 10  # per item; more would add little, and the distribution of the pairs would take long
ASSUMED = (
    "annotators err independently of each other given the true class, and the labels to calibrate with are "
    "theirs, not votes"
)


def noise_from_annotators(
    labels: ArrayLike | LabelTable,
    *,
    k: int | None = None,
    classes: Sequence[Any] | None = None,
    model: Literal["auto", "uniform", "matrix", "annotators"] = "auto",
    confidence: float = 0.95,
    clean: Any = None,
) -> NoiseEstimate:
    """Estimate the noise of annotators' labels from how often they agree.

    Parameters
    ----------
    labels : array of shape (n, annotators) or LabelTable
        A row for each item and a column for each annotator: numbers from 0 to k - 1, or names from `classes`;
        -1, nan, None or "" if missing. "uniform" uses the first ten labels of an item. Or what
        `nacp.labels.read` returns; its checked labels are used, too.
    k, classes : int and sequence of length k, optional
        The number of classes, by default one more than the largest label; or their names.
    model : {"auto", "uniform", "matrix", "annotators"}, default="auto"
        "auto": "uniform", unless the labels exclude that all annotators have one rate; then "annotators", or
        "matrix" if it is not known whose labels they are. "uniform": one rate for all annotators, with an
        exact interval. The others come from Dawid and Skene's model, without an interval. "matrix": one
        matrix, that of a label picked at random among those of an item. "annotators": a matrix for each
        annotator; all make the same kinds of errors, only more or less often. `nacp.calibrate` then takes all
        labels, in the same columns, and gives those who err less a larger weight.
    confidence : float, default=0.95
        The confidence of the interval of the rate.
    clean : array of shape (n,) or pair (rows, labels), optional
        True labels of items that were checked (gold tasks), as in `nacp.calibrate`.

    Returns
    -------
    NoiseEstimate

    Warns
    -----
    NoiseModelWarning
        If "uniform" is asked for and the labels exclude one rate: coverage is then too low.

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> true = np.arange(2000) % 10
    >>> labels = np.stack([nacp.UniformNoise(0.2).sample(true, 10, seed) for seed in range(3)], axis=1)
    >>> low, high = nacp.noise_from_annotators(labels, k=10).interval
    >>> low < 0.2 < high
    True
    """
    check_fraction("confidence", confidence)
    check_choice("model", model, ("auto", "uniform", "matrix", "annotators"))
    votes, why = open_votes(labels, k, classes, clean).used, "asked for"
    if model == "annotators":
        votes.check_named("model")
    unlike = votes.unlike if model in ("auto", "uniform") else ""
    if model == "auto" and unlike:
        model, why = "annotators" if votes.named else "matrix", f"one rate for all is excluded, as {unlike}"
    elif unlike:
        warn(
            f"the annotators have not one rate: {unlike}. That of the uniform model is too high, and "
            'coverage may be too low; the model "annotators" has a matrix for each',
            NoiseModelWarning,
        )
    found = _uniform(votes, confidence) if model in ("auto", "uniform") else _dawid_skene(votes, model, why)
    return replace(found, classes=check_classes(classes, votes.k))


def _uniform(votes: Votes, confidence: float) -> NoiseEstimate:
    k, gold = votes.k, votes.known >= 0
    table = votes.table[~gold]
    present_first = np.argsort(table < 0, axis=1, kind="stable")[:, :_MOST_LABELS]
    labels = np.take_along_axis(table, present_first, axis=1)
    agreeing = sum(
        int(np.count_nonzero((labels[:, a] == labels[:, b]) & (labels[:, a] >= 0)))
        for a, b in combinations(range(labels.shape[1]), 2)
    )
    sizes, numbers = np.unique(np.count_nonzero(labels >= 0, axis=1), return_counts=True)
    pairs = int(sum(number * math.comb(size, 2) for size, number in zip(sizes, numbers, strict=True)))
    distribution = pair_distribution(int(sizes.max(initial=2)), k)
    checked = int(np.count_nonzero(votes.table[gold] >= 0))
    right = int(np.count_nonzero(votes.table[gold] == votes.known[gold, None]))

    def kinds(kept: float) -> Kinds:
        chance = kept + (1 - kept) / k
        alone = [(np.array([1 - chance, chance]), checked)] if checked else []
        return alone + [
            (distribution(kept, int(m)), int(number)) for m, number in zip(sizes, numbers, strict=True)
        ]

    low, high = exact_interval(agreeing + right, kinds, confidence)
    if low <= 0:
        raise InputError(
            "labels",
            f"agree (or are right) in {agreeing + right:,} of {pairs + checked:,} comparisons, as labels at "
            f"random ({100 / k:.3g}%) could: nothing can be said about the noise",
        )
    # The s that gives this many in expectation solves pairs s^2 + checked s = excess over chance.
    excess = max((agreeing + right) * k - (pairs + checked), 0) / (k - 1)
    root = math.sqrt(checked**2 + 4 * pairs * excess)
    kept = excess / checked if not pairs else (root - checked) / (2 * pairs)
    rate = min(max(1 - kept, 1 - high), 1 - low)
    method = [f"agreement of annotators in {100 * agreeing / pairs:.4g}% of {pairs:,} pairs"] if pairs else []
    method += [f"{right:,} of {checked:,} checked labels are right"] if checked else []
    return NoiseEstimate(
        noise=UniformNoise(rate, (1 - high, 1 - low), confidence),
        rate=rate,
        interval=(1 - high, 1 - low),
        confidence=confidence,
        wrong=rate * (1 - 1 / k),
        n=len(votes.table),
        k=k,
        method=f"{'; '.join(method)}; exact interval",
        assumption=f"{ASSUMED}; every annotator and class has the same rate, and any class is as likely to "
        "replace the true one",
        why=f"uniform: agreement alone shows one rate{votes.remark}",
    )


def pair_distribution(most: int, k: int) -> Callable[[float, int], Floats]:
    """Return a function of s and m: the distribution of the number of agreeing pairs among m labels.

    s is the probability that an annotator's label is not replaced, and m the number of labels of an item, at
    most `most`.
    """
    from scipy.stats import binom

    others = [_pairs_among(b, k - 1) for b in range(most + 1)]

    def distribution(kept: float, m: int) -> Floats:
        found = np.zeros(math.comb(m, 2) + 1)
        true = binom.pmf(np.arange(m + 1), m, kept + (1 - kept) / k)
        for c in range(m + 1):
            pairs, start = others[m - c], math.comb(c, 2)
            found[start : start + len(pairs)] += true[c] * pairs
        return found

    return distribution


def _pairs_among(m: int, classes: int) -> Floats:
    """Return the distribution of the number of agreeing pairs among m labels drawn uniformly from classes."""
    # The probabilities of the sizes of groups of equal labels.
    states: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(m):
        grown: dict[tuple[int, ...], float] = defaultdict(float)
        for sizes, share in states.items():
            grown[1, *sizes] += share * max(classes - len(sizes), 0) / classes
            for i, size in enumerate(sizes):
                grown[tuple(sorted((*sizes[:i], size + 1, *sizes[i + 1 :])))] += share / classes
        states = grown
    found = np.zeros(math.comb(m, 2) + 1)
    for sizes, share in states.items():
        found[sum(math.comb(size, 2) for size in sizes)] += share
    return found


def _dawid_skene(votes: Votes, model: str, why: str) -> NoiseEstimate:
    fit, k = votes.fit(), votes.k
    matrix = pooled(fit, votes.table)
    unseen = matrix.sum(axis=1) <= 0
    matrix[unseen] = np.eye(k)[unseen]  # no item is of this class
    wrong = float(fit.priors @ (1 - np.diag(matrix)))
    gold = int(np.count_nonzero(votes.known >= 0))
    noise: MatrixNoise | AnnotatorNoise
    if model == "annotators":
        labels = np.count_nonzero(votes.table >= 0, axis=0)
        noise, kind = AnnotatorNoise(scaled(fit.counts, matrix), labels), "a matrix for each annotator"
        assumed = "all err alike, some more often than others"
    else:
        noise, kind = MatrixNoise(matrix), "a matrix"
        assumed = "who labels an item is a matter of chance"
    absent = f"; {np.count_nonzero(unseen):,} classes never occur" if unseen.any() else ""
    return NoiseEstimate(
        noise=noise,
        rate=wrong,
        wrong=wrong,
        n=len(votes.table),
        k=k,
        method=f"Dawid and Skene's model{f', {gold} items known' if gold else ''}; no interval",
        assumption=f"{ASSUMED}; most annotators are right more often than wrong in every class; {assumed}",
        why=f"{kind}: {why}{absent}{votes.remark}",
    )
