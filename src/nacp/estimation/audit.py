"""The noise model from an audit: a sample whose labels were checked.

Uniform and group models have one rate with an exact interval, a matrix has a radius. The proofs:
docs/guarantees.md, S1.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Bools, Floats, Ints
from nacp.checks import check_choice, check_count, check_fraction
from nacp.errors import InputError
from nacp.estimation.result import NoiseEstimate
from nacp.estimation.votes import number_of_classes
from nacp.noise import GroupNoise, MatrixNoise, UniformNoise
from nacp.points import check_classes, check_labels
from nacp.stats.intervals import Kinds, exact_interval, exact_share

Model = Literal["auto", "uniform", "groups", "matrix"]
_LEVEL = 0.01  # of the test that may refute one rate
_DRAWS = 199  # of the null distribution of that test
_INSTEAD = "if these are calibration points, their checked labels as clean= (--clean) need no noise model"
_ASSUMED = (
    "the audited items are a random sample of those labelled in the same way, their second labels are right"
)


def noise_from_audit(
    noisy: ArrayLike,
    clean: ArrayLike,
    *,
    k: int | None = None,
    classes: Sequence[Any] | None = None,
    model: Model = "auto",
    groups: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    random_state: int = 0,
) -> NoiseEstimate:
    """Estimate the noise from a sample that was labelled again, correctly.

    A matrix needs many labels of every class: a class that was never audited makes its radius 1, which
    promises nothing. If the audited points are calibration points, pass their labels to
    ``calibrate(clean=...)`` instead. That assumes nothing about the noise, and gives smaller sets even if the
    noise is uniform (docs/estimation.md).

    Parameters
    ----------
    noisy, clean : arrays of shape (n,)
        The labels as they were and as they should have been: numbers from 0 to k - 1, or names from
        `classes`.
    k, classes : int and sequence of length k, optional
        The number of classes, by default one more than the largest label; or their names.
    model : {"auto", "uniform", "groups", "matrix"}, default="auto"
        "auto" takes the groups, if they are given and the audit does not refute them at level 1%, else a
        matrix. Uniform noise must be asked for: a small audit does not refute it where it is wrong.
    groups : sequence of length k, optional
        The group that each class belongs to, for noise that stays inside groups.
    confidence : float, default=0.95
        The confidence of the interval of the rate, which is exact, or of the radius of the matrix.
    random_state : int, default=0
        The seed of the test by which "auto" chooses.

    Returns
    -------
    NoiseEstimate

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> clean = np.arange(1000) % 10
    >>> noisy = nacp.UniformNoise(0.2).sample(clean, 10, random_state=0)
    >>> low, high = nacp.noise_from_audit(noisy, clean, k=10, model="uniform").interval
    >>> low < 0.2 < high
    True
    """
    check_fraction("confidence", confidence)
    check_choice("model", model, get_args(Model))
    check_count("random_state", random_state)
    k, remark = number_of_classes(k, classes, noisy, clean)
    given = 0 if groups is None else len(groups)
    if given != k and (groups is not None or model == "groups"):
        raise InputError(
            "groups",
            f"must name the group of each of the {k:,} classes",
            found=given,
            remedy=None if given else "pass groups= too",
            spoken=None if given else "give --groups FILE too",
        )
    n = np.size(clean)
    if n == 0:
        raise InputError("clean", "is empty; an audit needs at least one label")
    if np.shape(noisy) != np.shape(clean):
        problem = f"must have one label for each of the {n:,} true ones"
        raise InputError("noisy", problem, found=f"the shape {np.shape(noisy)}")
    given_labels, true = (
        check_labels(labels, n, k, classes, name=name)
        for name, labels in (("noisy", noisy), ("clean", clean))
    )
    audit = _Audit(given_labels, true, k, check_classes(classes, k))
    if model == "matrix" or (model == "auto" and groups is None):
        asked = ": asked for" if model == "matrix" else ""
        return _matrix(audit, confidence, f"a matrix{asked}{remark}")
    if model == "uniform":
        groups = None
    names, numbers = [None] * k if groups is None else groups, dict[Hashable, int]()
    index = np.array([numbers.setdefault(name, len(numbers)) for name in names])
    p, test = _refutes(audit, index, random_state)
    if model == "auto" and p <= _LEVEL:
        return _matrix(audit, confidence, f"groups is refuted ({test}); a matrix{remark}")
    chosen = f"{'uniform' if groups is None else 'groups'}: asked for ({test})"
    if model == "auto":
        chosen = (
            f"groups: the audit does not refute it ({test}), though {int(audit.wrong.sum()):,} wrong labels "
            "need not show all there is"
        )
    return _one_rate(audit, groups, index, confidence, f"{chosen}{remark}; {_INSTEAD}")


class _Audit(NamedTuple):
    """Audited labels of k classes, and the names of the classes."""

    noisy: Ints
    clean: Ints
    k: int
    classes: tuple[Any, ...] | None

    @property
    def n(self) -> int:
        return len(self.clean)

    @property
    def wrong(self) -> Bools:
        wrong: Bools = self.noisy != self.clean
        return wrong

    def outside(self, index: Ints) -> int:
        """Return the number of labels outside of their group; `index` has the group of each class."""
        return int(np.count_nonzero(index[self.noisy] != index[self.clean]))


def _refutes(audit: _Audit, index: Ints, seed: int) -> tuple[float, str]:
    """Test "one rate, and any wrong label of the group is equally likely"; return the p-value and words.

    The test is exact. Given the number of wrong labels in groups of each size, the audit is compared with
    draws of the items and their wrong labels, by the likelihood of the best matrix. With groups of several
    sizes, half of the level is for the test that one rate fits them all.
    """
    outside, wrong = audit.outside(index), audit.wrong
    if outside:
        return 0.0, f"{outside:,} of {audit.n:,} labels lie outside of their group"
    sizes, group = np.bincount(index), index[audit.clean]
    same_size = [np.flatnonzero(sizes[group] == m) for m in np.unique(sizes[group])]
    numbers = np.array([np.count_nonzero(wrong[items]) for items in same_size])
    if not _one_rate_fits(np.unique(sizes[group]), numbers, np.array(list(map(len, same_size)))):
        return 0.0, "no one rate fits groups of all sizes"
    rng, members = np.random.default_rng(seed), np.argsort(index, kind="stable")
    starts, place = np.cumsum(sizes) - sizes, np.argsort(members)
    observed, as_large = _likelihood(audit, np.flatnonzero(wrong), audit.noisy[wrong]), 0
    for _ in range(_DRAWS):
        items = np.concatenate(
            [rng.choice(some, m, replace=False) for some, m in zip(same_size, numbers, strict=True)]
        )
        own = group[items]
        step = rng.integers(1, np.maximum(sizes[own], 2))
        shifted = (place[audit.clean[items]] - starts[own] + step) % sizes[own]
        as_large += _likelihood(audit, items, members[starts[own] + shifted]) >= observed - 1e-9
    p = min(1.0, (1 if len(same_size) == 1 else 2) * (1 + as_large) / (1 + _DRAWS))
    return p, f"exact test of the spread of wrong labels: p = {p:.2g}"


def _one_rate_fits(sizes: Ints, wrong: Ints, trials: Ints) -> bool:
    """Return whether the exact intervals of the rate, one per size of a group, intersect.

    If there is one rate, they fail to with a probability of at most half the level.
    """
    sizes, wrong, trials = (each[sizes > 1] for each in (sizes, wrong, trials))
    if len(sizes) < 2:
        return True
    low, high = exact_share(wrong, trials, _LEVEL / 4 / len(sizes))
    escape = 1 - 1 / sizes
    return bool((low / escape).max() <= (high / escape).min())


def _likelihood(audit: _Audit, items: Ints, labels: Ints) -> float:
    """Return the largest log-likelihood of any matrix, up to a constant, if these labels are wrong."""
    from scipy.special import xlogy

    true = audit.clean[items]
    right = np.bincount(audit.clean, minlength=audit.k) - np.bincount(true, minlength=audit.k)
    _, counts = np.unique(true * audit.k + labels, return_counts=True)
    return float(xlogy(right, right).sum() + xlogy(counts, counts).sum())


def _one_rate(
    audit: _Audit, groups: Sequence[Hashable] | None, index: Ints, confidence: float, why: str
) -> NoiseEstimate:
    """Return the uniform or the group model: the number of wrong labels is a sum of binomial counts."""
    outside = audit.outside(index)
    if outside:
        problem = f'"groups" is refuted: {outside:,} of {audit.n:,} labels lie outside of their group'
        raise InputError("model", problem, remedy='use "auto"')
    sizes, numbers = np.unique(np.bincount(index)[index[audit.clean]], return_counts=True)
    escape = 1 - 1 / sizes  # the probability that a replaced label is wrong
    disagreements = int(audit.wrong.sum())

    def kinds(rate: float) -> Kinds:
        wrong = rate * escape
        return [(np.array([1 - r, r]), int(m)) for r, m in zip(wrong, numbers, strict=True)]

    if not escape.any():
        raise InputError("groups", "must hold a group of two classes or more among the audited labels")
    rate = disagreements / float(escape @ numbers)
    interval = exact_interval(disagreements, kinds, confidence)
    if interval[1] >= 1:
        raise InputError(
            "noisy",
            f"and clean disagree in {disagreements:,} of {audit.n:,} items: a rate of 1 cannot be excluded",
            remedy="audit more items, if both hold labels of the same ones",
        )
    noise: UniformNoise | GroupNoise = UniformNoise(rate, interval, confidence)
    spread = "any class"
    if groups is not None:
        noise, spread = GroupNoise(tuple(groups), rate, interval, confidence), "any class of the same group"
    return NoiseEstimate(
        noise=noise,
        rate=rate,
        interval=interval,
        confidence=confidence,
        wrong=disagreements / audit.n,
        n=audit.n,
        k=audit.k,
        classes=audit.classes,
        method="audit; exact (Clopper-Pearson) interval of the rate",
        assumption=f"{_ASSUMED}, every class has the same rate and {spread} is as likely to replace "
        "the true one",
        why=why,
    )


def _matrix(audit: _Audit, confidence: float, why: str) -> NoiseEstimate:
    """Return the matrix of frequencies, with the largest radius of its rows."""
    counts = np.zeros((audit.k, audit.k))
    np.add.at(counts, (audit.clean, audit.noisy), 1)
    totals = counts.sum(axis=1)
    wrong = int(audit.wrong.sum())
    # A class that was never audited gets the average rate, and a radius of 1.
    matrix = UniformNoise.other(min(wrong / audit.n, 1 - 1.5 / audit.k), audit.k).matrix(audit.k).dense()
    seen = totals > 0
    matrix[seen] = counts[seen] / totals[seen, None]
    radii = row_radii(counts, (1 - confidence) / audit.k)
    worst = int(radii.argmax())
    name = worst if audit.classes is None else audit.classes[worst]
    why += (
        f"; the largest radius of a row is {radii.max():.3g}, that of class {name!r}, "
        f"audited {int(totals[worst]):,} times"
    )
    if not seen.all():
        why += f"; {np.count_nonzero(~seen):,} classes were never audited, so the radius promises nothing"
    low, high = exact_share(np.array(wrong), np.array(audit.n), (1 - confidence) / 2)
    try:
        noise = MatrixNoise(matrix, min(float(radii.max()), 1 - 1e-9), confidence)
    except InputError as error:
        problem = f"holds too few labels for a matrix of {audit.k:,} classes: theirs {error.problem}"
        raise InputError(
            "clean",
            problem,
            remedy='pass them to calibrate(clean=...), which needs no noise model; or say model="uniform"',
            spoken="give them to nacp calibrate --clean, which needs no noise model; or say --model uniform",
        ) from None
    return NoiseEstimate(
        noise=noise,
        rate=wrong / audit.n,
        interval=(float(low), float(high)),
        confidence=confidence,
        wrong=wrong / audit.n,
        n=audit.n,
        k=audit.k,
        classes=audit.classes,
        method="audit; frequencies by class, and a radius that holds for all rows at once",
        assumption=_ASSUMED,
        why=f"{why}; {_INSTEAD}",
    )


def row_radii(counts: Floats, level: float) -> Floats:
    """Return, for each row of counts, an upper bound of the total variation from its distribution.

    The smaller of two, each of which fails with probability at most half of `level`: that of Weissman et al.
    (2003), and the sum over the observed cells of the frequency minus its Clopper-Pearson lower bound.
    """
    k = counts.shape[1]
    totals = np.maximum(counts.sum(axis=1), 1)
    subsets = k * np.log(2) + np.log1p(-(2.0 ** (1 - k)))
    weissman = np.sqrt((subsets + np.log(2 / level)) / (2 * totals))
    seen = counts > 0
    lowest = np.zeros_like(counts)
    trials = np.broadcast_to(totals[:, None], counts.shape)
    lowest[seen], _ = exact_share(counts[seen], trials[seen], level / (2 * k))
    cells = (counts / totals[:, None] - lowest).sum(axis=1)
    cells[counts.sum(axis=1) == 0] = 1.0
    found: Floats = np.minimum(np.minimum(weissman, cells), 1.0)
    return found
