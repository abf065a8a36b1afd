"""Which labels to check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.audit.plan import Audit, AuditPlan, digest, picked, pilot_size, planned
from nacp.audit.strata import CHOSEN_CUT, CheckedSample
from nacp.checks import check_count, check_fraction
from nacp.coverage.sample import Sample
from nacp.errors import InputError
from nacp.files import rebuild
from nacp.noise import UNSAID, Noise, NoiseLike, UniformNoise, Unsaid, noise_for
from nacp.points import open_points
from nacp.points.tensors import fetched
from nacp.scores import SCORES, Score, ScoreLike, as_score

# A plan is made as if the sets held the true label of half of the points outside, and missed this part of
# alpha of the others. At the most this share of its labels are of points outside.
_MISSED_INSIDE, _MOST_OUTSIDE = 0.3, 0.4
# There must be enough points outside even if their share is smaller than in the pilot by this number of
# standard deviations; and a plan checks at least this number of them.
_SURELY, _FEWEST = 4.0, 3
# The noise model is ignored if labels of the pilot are, by the mean of logarithms, half as probable under it
# as under the guess. No label counts as less probable than this: classifiers give 0 to labels that occur.
_FAR_LESS, _LEAST = float(np.log(2)), 1e-6


def guessing_noise(sample: Sample, noise: NoiseLike | Unsaid, pilot: Ints) -> Noise:
    """Return the noise by which the pilot is judged: as given, or uniform at a rate that its points suggest.

    That is the rate at which the mean probability of the given labels would be what it is. A given model is
    ignored if the pilot's labels are far less probable under it: the strata would be badly chosen, and sets
    would be larger than those of the checked labels alone.
    """
    given = None if isinstance(noise, Unsaid) else noise_for(noise, sample.k) or UniformNoise(0.0)
    if not len(pilot) or not sample.score.takes_probabilities:
        return UniformNoise(0.2) if given is None else given
    own = _total(sample, pilot, lambda block, labels: block[np.arange(len(labels)), labels])
    square = _total(sample, pilot, lambda block, _: (block**2).sum(axis=1))
    chance = len(pilot) / sample.k
    guess = UniformNoise(float(np.clip(1 - (own - chance) / max(square - chance, 1e-9), 0.02, 0.9)))
    if given is None:
        return guess
    less = _log_probable(sample, guess, pilot) - _log_probable(sample, given, pilot)
    return guess if less > _FAR_LESS * len(pilot) else given


def _total(sample: Sample, pilot: Ints, function: Callable[[Floats, Ints], Floats]) -> float:
    """Return the sum over the pilot of a function of the probabilities and the given labels of rows."""

    def found(values: Array, where: slice | Ints) -> Floats:
        block = fetched(values) if engine.is_tensor(values) else values
        return function(block.astype(np.float64), sample.labels[where, 0])

    return float(np.concatenate(list(sample.rows.map(found, pilot))).sum())


def _log_probable(sample: Sample, noise: Noise, pilot: Ints) -> float:
    """Return the log-likelihood of the pilot's labels, by the classifier and a noise model."""
    matrix = noise.matrix(sample.k)

    def found(block: Floats, labels: Ints) -> Floats:
        share = (block * matrix.rest(np.arange(sample.k)[None], labels[:, None])).sum(axis=1)
        share += block[np.arange(len(labels)), labels] * matrix.own[labels]
        return np.asarray(np.log(np.maximum(share, _LEAST)))

    return _total(sample, pilot, found)


def chosen_share(outside: float, alpha: float) -> float:
    """Return which share of the labels to check should be of points outside, from the share of these points.

    That is Neyman's allocation under a fixed guess of how often the sets of either stratum miss. What the
    pilot predicts of that rests on the classifier and the noise model, which promise too much where people
    err as the classifier does; and if few points inside are checked, each miss among them weighs much.
    """
    missed = _MISSED_INSIDE * alpha
    first, second = outside / 2, (1 - outside) * np.sqrt(missed * (1 - missed))
    return float(min(first / (first + second), _MOST_OUTSIDE))


def choose_audit(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    budget: int,
    alpha: float = 0.1,
    score: ScoreLike = "hps",
    noise: NoiseLike | Unsaid = UNSAID,
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
    random_state: int = 0,
) -> AuditPlan:
    """Choose which labels to check, so that `calibrate` learns the most from them.

    Most of what a random audit checks tells little: where the classifier and the given label agree, the true
    label is mostly in the prediction set. So points where that is doubtful, for the set that a few points,
    the pilot, suggest, are checked two to three times as often as they would be by chance, with two fifths of
    the budget at the most. Within the two strata the points are picked at random.

    Parameters
    ----------
    probs, labels, score, classes, normalize, from_logits
        As in `calibrate`, to which the same are passed later.
    budget : int
        How many labels can be checked.
    alpha : float, default=0.1
        For which alpha. The plan may be used for others; it is then a little less good.
    noise : float, array of shape (k, k) or noise model, optional
        What is thought of the noise; it only shapes the strata. By default a guess.
    random_state : int, default=0
        The seed by which points are picked.

    Returns
    -------
    AuditPlan
        Its `rows` are to be checked; then ``calibrate(probs, labels, clean=..., audit=plan)``. Rows that
        remain unchecked are taken to be left out at random; a label that cannot be decided is ``"?"``, and
        counts as a miss.

    See Also
    --------
    calibrate : What the checked labels are for.
    plan : How many labels to check.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, truth = twins.simulate("cifar10", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.1).sample(truth, k=10, random_state=0)
    >>> plan = nacp.choose_audit(probs, noisy, budget=200)
    >>> print(plan)
    200 of 4,000 labels to check: 53 of points whose true label may lie outside of the pilot's prediction set,
    and 147 of others.
    >>> cal = nacp.calibrate(probs, noisy, clean=(plan.rows, truth[plan.rows]), audit=plan)
    >>> cal.checked
    200
    """
    score, seed = as_score(score), check_count("random_state", random_state)
    check_fraction("alpha", alpha)
    options = {"classes": classes, "normalize": normalize, "from_logits": from_logits}
    sample = _open(probs, labels, score, options)
    aside = pilot_size(sample.n, sample.k)
    check_count("budget", budget, 1)
    if aside < 1:
        raise InputError("probs", "must have 10 rows or more to choose from", found=f"{sample.n}")
    if budget > sample.n - aside:
        raise InputError(
            "budget",
            f"must be at most {sample.n - aside:,} for {sample.n:,} points, of which {aside:,} are the pilot",
            found=f"{budget:,}",
            remedy="or check all labels, and pass them as clean=",
            spoken="or check all labels, and give them as --clean",
        )
    pilot, others = planned(sample.n, aside, seed)
    matrix = guessing_noise(sample, noise, pilot).matrix(sample.k)
    known = {"alpha": alpha, "random_state": seed, "pilot": aside}
    checked = CheckedSample(sample, Audit(pilot[:0], pilot[:0], pilot, others), matrix)
    found = checked.pilot(alpha, cut=CHOSEN_CUT)
    share = found.outside[0] / aside
    surely = share - _SURELY * np.sqrt(share * (1 - share) * (1 / len(others) + 1 / aside))
    number = min(round(chosen_share(share, alpha) * budget), int(surely * len(others)))
    if number < max(share * budget, _FEWEST):  # a random audit would check more of them
        picks = others[:0], others[:budget]
        return _plan(sample, picks, native_threshold=np.inf, counts=(0, 0), **known)
    (outside,) = checked.outside([found.threshold], CHOSEN_CUT)
    sides, checks = (others[outside[others]], others[~outside[others]]), (number, budget - number)
    if any(len(side) < each for side, each in zip(sides, checks, strict=True)):
        few, many = map(len, sides)
        said = f"cannot be met: {few:,} points lie outside of the pilot's sets and {many:,} inside"
        raise InputError("budget", said, found=f"{budget:,}", remedy="choose fewer labels")
    picks = sides[0][: checks[0]], sides[1][: checks[1]]
    counts = found.outside[0], len(sides[0])
    return _plan(sample, picks, native_threshold=found.threshold, counts=counts, **known)


def _open(probs: Any, labels: Any, score: Score, options: dict[str, Any]) -> Sample:
    rows, numbers, _ = open_points(probs, labels, probabilities=score.takes_probabilities, **options)
    return Sample.of(rows, numbers, score)


def _plan(sample: Sample, picks: tuple[Ints, Ints], **known: Any) -> AuditPlan:
    """Return the plan that picks these points outside and inside, to be checked in random order."""
    rows = np.concatenate(picks)
    order = np.random.default_rng([known["random_state"], 1]).permutation(len(rows))
    first = np.arange(len(rows)) < len(picks[0])
    seen = digest(sample.labels, sample.label_scores)
    known = known | {"score": sample.score, "n": sample.n, "k": sample.k, "digest": seen}
    return AuditPlan(rows[order], first[order], **known)


def same_audit(document: dict[str, Any], probs: Any, labels: Any, **options: Any) -> AuditPlan:
    """Return the plan that `AuditPlan.to_dict` described, for the same points, opened by the same options."""
    try:
        score = rebuild("score", SCORES, document["score"])
        number, inside = (check_count("checks", each) for each in document["checks"])
        few, many = (check_count("counts", each) for each in document["counts"])
        names = ("random_state", "pilot", "n", "k")
        seed, aside, n, k = (check_count(name, document[name]) for name in names)
        alpha, threshold = float(document["alpha"]), float(document["threshold"])
        text = document["picked"]
    except (KeyError, TypeError, ValueError, InputError):
        raise InputError("audit", "has a plan that cannot be read") from None
    sample = _open(probs, labels, score, options)
    if (n, k) != (sample.n, sample.k) or not 0 <= aside < n:
        raise InputError(
            "audit", f"was chosen from {n:,} points of {k:,} classes", found=f"{sample.n:,} and {sample.k:,}"
        )
    if document.get("digest") != digest(sample.labels, sample.label_scores):
        raise InputError("audit", "was chosen from other points than these, or with other labels")
    picks = picked(text, planned(n, aside, seed)[1], (number, inside))
    known = {"alpha": alpha, "random_state": seed, "pilot": aside, "counts": (few, many)}
    return _plan(sample, picks, native_threshold=threshold, **known)
