"""AuditPlan: which labels to check, and how it is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Bools, Ints
from nacp.audit.checked_sample import CHOSEN_CUT, Audit, CheckedSample, digest, other_points, pilot_size
from nacp.checks import check_count, check_fraction
from nacp.coverage.agreement import warning_of
from nacp.coverage.contradiction import warn_of
from nacp.coverage.tally import Sample
from nacp.errors import InputError
from nacp.files import number, plain, rebuild
from nacp.noise import UNSAID, Noise, NoiseLike, UniformNoise, Unsaid, noise_for
from nacp.points import open_points
from nacp.scores import SCORES, Score, ScoreLike, as_score
from nacp.wrapping import counted, wrapped

# A plan assumes that sets hold the true label of half of the points outside, and miss this multiple of alpha
# of the others. At most _MOST_OUTSIDE of its labels are of points outside.
_MISSED_INSIDE, _MOST_OUTSIDE = 0.3, 0.4
# There must be enough points outside even if their share is smaller than in the pilot by this number of
# standard deviations; and a plan checks at least _FEWEST of them.
_SURELY, _FEWEST = 4.0, 3
# The noise model is ignored if the pilot's labels are half as probable under it as under the guess, by the
# mean of the logarithms. Probabilities below _LEAST are raised to it, as classifiers give 0 to labels that
# occur.
_FAR_LESS, _LEAST = float(np.log(2)), 1e-6
_RATE = 0.2  # the guess if neither a noise model nor probabilities are given


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """Which labels to check; made by `choose_audit`. Print it.

    Attributes
    ----------
    rows : array of shape (m,)
        The rows to check, in this order.
    outside : array of bool of shape (m,)
        Whether the true label may well lie outside of the pilot's prediction set.
    alpha, score, random_state
        As given to `choose_audit`.
    n, k, pilot : int
        The numbers of points, of classes, and of points in the pilot, which are not checked.
    native_threshold : float
        The pilot's threshold.
    counts : tuple of two ints
        The number of points outside in the pilot, and among the others.
    stops : tuple of int
        The numbers of checked labels after which to calibrate, one for each look.
    digest : str
        A checksum of the labels and their scores, so that a plan is not used for other points.
    """

    rows: Ints
    outside: Bools
    alpha: float
    score: Score
    random_state: int
    n: int
    k: int
    native_threshold: float
    pilot: int
    counts: tuple[int, int]
    stops: tuple[int, ...]
    digest: str

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def instalments(self) -> list[Ints]:
        """The rows to check before each look, in this order."""
        return np.split(self.rows, self.stops[:-1])

    def look_of(self, checked: Ints) -> int:
        """Return the look that the checked rows allow: the number of complete instalments."""
        if len(self.stops) == 1:
            return 1
        done = [bool(np.isin(each, checked).all()) for each in self.instalments]
        look = [*done, False].index(False)
        if not look:
            first = np.setdiff1d(self.instalments[0], checked)
            problem = f"lacks {counted(len(first), 'row')} of the first instalment, as row {first[0]}"
            remedy = 'check all labels of an instalment before each look, with "?" for undecided ones'
            raise InputError("clean", problem, remedy=remedy)
        return look

    def __str__(self) -> str:
        number, looks = int(self.outside.sum()), len(self.stops)
        said = ", picked at random."
        if number:
            said = f": {number:,} doubtful ones, whose true label may be missing in the prediction set, "
            said += f"and {len(self) - number:,} others."
        if looks > 1:
            said += f" Calibrate after the first {', '.join(map(str, self.stops[:-1]))} or all of them."
        return wrapped(f"{len(self):,} of {self.n:,} labels to check{said}")

    def to_dict(self) -> dict[str, Any]:
        """Return what a file holds of the plan."""
        names = ("n", "k", "alpha", "random_state", "pilot", "digest", "counts", "stops")
        return {name: getattr(self, name) for name in names} | {
            "score": self.score.to_dict(),
            "threshold": plain(self.native_threshold),
            "rows": self.rows.tolist(),
            "outside": self.rows[self.outside].tolist(),
        }


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
    looks: int = 1,
) -> AuditPlan:
    """Choose which labels to check, so that `calibrate` learns the most from them.

    If the classifier and the given label agree, the true label is mostly in the prediction set, and checking
    it says little. Doubtful points are therefore checked two to three times as often as others, with at most
    two fifths of the budget. A few points, the pilot, define which are doubtful. All points are picked at
    random.

    Parameters
    ----------
    probs, labels, score, classes, normalize, from_logits
        As in `calibrate`, which must later be given the same.
    budget : int
        The number of labels that can be checked.
    alpha : float, default=0.1
        The alpha that the plan is for. The promise holds for another alpha too, but sets may be larger.
    noise : float, array of shape (k, k) or noise model, optional
        The assumed noise, which only defines the strata. By default it is guessed.
    random_state : int, default=0
        The seed by which points are picked.
    looks : int, default=1
        How often you want to calibrate, with more and more of the labels, until the sets are small enough.
        The promise holds for all looks together; the excess is about a tenth larger.

    Returns
    -------
    AuditPlan
        Check its `rows`, then call ``calibrate(probs, labels, clean=..., audit=plan)``. Rows that remain
        unchecked must be left out at random. With several looks, check the `instalments` one after the other;
        labels of an instalment are used when it is complete.

    Warns
    -----
    NoiseModelWarning
        If the labels fit the rows no better than labels in random order would.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, truth = twins.simulate("cifar10", n=4000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.1).sample(truth, k=10, random_state=0)
    >>> plan = nacp.choose_audit(probs, noisy, budget=200)
    >>> print(plan)
    200 of 4,000 labels to check: 53 doubtful ones, whose true label may be missing in the prediction set, and
    147 others.
    >>> cal = nacp.calibrate(probs, noisy, clean=(plan.rows, truth[plan.rows]), audit=plan)
    >>> cal.checked
    200
    >>> plan = nacp.choose_audit(probs, noisy, budget=200, looks=4)
    >>> rows = plan.rows[: plan.stops[1]]
    >>> cal = nacp.calibrate(probs, noisy, clean=(rows, truth[rows]), audit=plan)
    >>> cal.checked, cal.look, cal.looks
    (100, 2, 4)
    """
    score, seed = as_score(score), check_count("random_state", random_state)
    check_fraction("alpha", alpha)
    sample = _open(probs, labels, score, classes=classes, normalize=normalize, from_logits=from_logits)
    warn_of(warning_of(sample))
    aside = pilot_size(sample.n, sample.k)
    # With two labels in each instalment the first one has points of both strata.
    check_count("budget", budget, 1 if check_count("looks", looks, 1) == 1 else 2 * looks)
    if aside < 1:
        raise InputError("probs", "must have 10 rows or more to choose from", found=f"{sample.n}")
    if budget > sample.n - aside:
        most = f"{sample.n - aside:,} for {sample.n:,} points, of which {aside:,} are the pilot"
        raise InputError("budget", f"must be at most {most}", found=f"{budget:,}")
    pilot, others = planned(sample.n, aside, seed)
    matrix = guessing_noise(sample, noise, pilot).matrix(sample.k)
    checked = CheckedSample(sample, Audit(pilot[:0], pilot[:0], pilot, others), matrix)
    found = checked.pilot(alpha, cut=CHOSEN_CUT)
    share = found.outside[0] / aside
    surely = share - _SURELY * np.sqrt(share * (1 - share) * (1 / len(others) + 1 / aside))
    number = min(round(chosen_share(share, alpha) * budget), int(surely * len(others)))
    threshold, counts, out, within = np.inf, (0, 0), others[:0], others[:budget]
    if number >= max(share * budget, _FEWEST):  # else a random audit would check more of them
        (outside,) = checked.outside([found.threshold], CHOSEN_CUT)
        out, within = others[outside[others]], others[~outside[others]]
        if len(out) < number or len(within) < budget - number:
            said = f"{len(out):,} points lie outside of the pilot's sets and {len(within):,} inside"
            raise InputError("budget", f"cannot be met: {said}", found=f"{budget:,}", remedy="choose fewer")
        threshold, counts = found.threshold, (found.outside[0], len(out))
        out, within = out[:number], within[: budget - number]
    # In random order within each instalment; one part is reversed, so that sizes differ by at most 1.
    rng, rows, sides = np.random.default_rng([seed, 1]), list[Ints](), list[Bools]()
    for some, rest in zip(np.array_split(out, looks), np.array_split(within, looks)[::-1], strict=True):
        order = rng.permutation(len(some) + len(rest))
        rows.append(np.concatenate([some, rest])[order])
        sides.append(order < len(some))
    stops = tuple(np.cumsum([len(each) for each in rows]).tolist())
    fields = (alpha, score, seed, sample.n, sample.k, threshold, aside, counts, stops, digest(sample))
    return AuditPlan(np.concatenate(rows), np.concatenate(sides), *fields)


def same_audit(document: dict[str, Any], probs: Any, labels: Any, **options: Any) -> AuditPlan:
    """Return the plan that `AuditPlan.to_dict` described, for the same points and options."""
    unreadable = InputError("audit", "has a plan that cannot be read")
    try:
        score, rows = rebuild("score", SCORES, document["score"]), np.array(document["rows"], dtype=np.int64)
        fields: dict[str, Any] = {"native_threshold": number("threshold", document["threshold"])}
        fields |= {"alpha": check_fraction("alpha", document["alpha"])}
        fields |= {name: check_count(name, document[name]) for name in ("random_state", "pilot", "n", "k")}
        fields |= {name: tuple(map(int, document[name])) for name in ("counts", "stops")}
        fields |= {"outside": np.isin(rows, np.array(document["outside"], dtype=np.int64)), "score": score}
    except (KeyError, TypeError, ValueError, OverflowError):
        raise unreadable from None
    sample, n = _open(probs, labels, score, **options), fields["n"]
    if n != sample.n or not 0 <= fields["pilot"] < n or document.get("digest") != digest(sample):
        raise other_points()
    picked, others = np.unique(rows), planned(n, fields["pilot"], fields["random_state"])[1]
    right = (
        picked.shape == rows.shape != (0,)
        and np.isin(picked, others).all()
        and len(fields["counts"]) == 2
        and fields["stops"][-1:] == (len(rows),)
        and (np.diff(fields["stops"], prepend=0) > 0).all()
    )
    if not right:
        raise unreadable
    return AuditPlan(rows, **fields, digest=document["digest"])


def check_plan(audit: Any) -> None:
    """Refuse what is no plan."""
    if not isinstance(audit, AuditPlan):
        raise InputError("audit", "must be what nacp.choose_audit returned", found=type(audit).__name__)


def audit_by(plan: AuditPlan, n: int, checked: Ints, labels: Ints) -> Audit:
    """Return the audit of n points by a plan, with those of the checked labels that a look may use."""
    if plan.n != n:
        raise other_points()
    strange = np.setdiff1d(checked, plan.rows)
    if len(strange):
        problem = f"has row {strange[0]}, which the audit did not choose"
        raise InputError("clean", problem, remedy="leave such rows out")
    look, parts = plan.look_of(checked), planned(n, plan.pilot, plan.random_state)
    used = np.isin(checked, plan.rows[: plan.stops[look - 1]])
    unused = int(np.count_nonzero(~used))
    return Audit(checked[used], labels[used], *parts, plan, look=look, unused=unused)


def planned(n: int, pilot: int, seed: int) -> tuple[Ints, Ints]:
    """Return the pilot of a plan, and all other points, in random order."""
    pilot_rows, others = np.split(np.random.default_rng(seed).permutation(n), [pilot])
    return pilot_rows, others


def _open(probs: Any, labels: Any, score: Score, **options: Any) -> Sample:
    rows, numbers, _ = open_points(probs, labels, probabilities=score.takes_probabilities, **options)
    return Sample.of(rows, numbers, score)


def chosen_share(outside: float, alpha: float) -> float:
    """Return the share of points outside among the labels to check, given their share among all points.

    It is Neyman's allocation for fixed rates at which the sets of both strata miss. The pilot's prediction of
    these rates is too optimistic if people make the same errors as the classifier.
    """
    missed = _MISSED_INSIDE * alpha
    first, second = outside / 2, (1 - outside) * np.sqrt(missed * (1 - missed))
    return float(min(first / (first + second), _MOST_OUTSIDE))


def guessing_noise(sample: Sample, noise: NoiseLike | Unsaid, pilot: Ints) -> Noise:
    """Return the noise that defines the strata: the given model, or uniform noise.

    The rate of the uniform noise is that at which the given labels of the pilot have the mean probability
    that they have. A given model is ignored if the pilot's labels are far less probable under it.
    """
    given = None if isinstance(noise, Unsaid) else noise_for(0.0 if noise is None else noise, sample.k)
    if not len(pilot) or not sample.score.takes_probabilities:
        return UniformNoise(_RATE) if given is None else given
    probs, labels = sample.rows.whole(pilot).astype(np.float64), sample.labels[pilot, 0]
    own, chance = float(probs[np.arange(len(pilot)), labels].sum()), len(pilot) / sample.k
    rate = float(np.clip(1 - (own - chance) / max(float((probs**2).sum()) - chance, 1e-9), 0.02, 0.9))
    guess = UniformNoise(rate)
    if given is None:
        return guess

    def log_likelihood(model: Noise) -> float:
        entries = model.matrix(sample.k).entries(np.arange(sample.k)[None], labels[:, None])
        return float(np.log(np.maximum((probs * entries).sum(axis=1), _LEAST)).sum())

    less = log_likelihood(guess) - log_likelihood(given)
    return guess if less > _FAR_LESS * len(pilot) else given
