"""calibrate(), the one door, and Calibration, what comes out of it."""

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from nacp._kernels import flat_sets
from nacp._types import Array, Ints
from nacp._validation import (
    Rows,
    check_choice,
    check_classes,
    check_count,
    check_flag,
    check_fraction,
    check_labels,
    check_probs,
)
from nacp.coverage import CoverageCurve, Evidence, curve_at, inverse_for
from nacp.crossing import RULES, Rule
from nacp.files import number, positive, read_document, rebuild, to_json, write_document
from nacp.guarantees import GUARANTEES, Binomial, Finding, Guarantee, Problem, as_guarantee
from nacp.guarantees.pointwise import floor
from nacp.noise import NOISES, MatrixNoise, Noise, as_noise, check_estimate
from nacp.scores import SCORES, Custom, Score, as_score
from nacp.sets import PredictionSets

if TYPE_CHECKING:
    from nacp.advice.diagnosis import Diagnosis

_FORMAT = "nacp.calibration"
_VERSION = 1


class NoValidThresholdWarning(UserWarning):
    """No threshold keeps the promise with this calibration set, so the sets hold all classes."""


@dataclass(frozen=True)
class Calibration:
    """A threshold and what it promises; made by `calibrate`.

    Attributes
    ----------
    threshold : float
        q: the sets are ``{l : S(x, l) <= q}``. Infinite if no threshold keeps the promise.
    correction : float
        What the guarantee added to the target: the estimated clean coverage at the threshold is at
        least ``1 - alpha + correction``.
    alpha, score, noise, guarantee, crossing, classes, normalize
        As given to `calibrate`.
    n, k : int
        The numbers of calibration points and of classes.
    estimate : float
        The estimated clean coverage at the threshold, F^c-hat.
    obstacle : str or None
        Why the threshold is infinite, where it is.
    gap : float
        By how much the promise of "expected" may fall short, estimated; 0 for the others.
    price_of_doubt : float
        How many labels more the sets hold, on average, because the noise is known only up to an interval or a
        radius; 0 if it is known exactly.
    note : str or None
        What else should be known about the threshold.
    random_state : int
        The seed by which "pac" shuffled the points.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=4000, random_state=0)
    >>> noise = nacp.UniformNoise(0.2)
    >>> noisy = noise.sample(labels, k=10, random_state=0)
    >>> cal = nacp.calibrate(probs[:2000], noisy[:2000], noise=noise, alpha=0.1)
    >>> print(cal)
    Sets {l : S(x, l) <= 0.555...}, S = HPS(), from 2000 noisy labels of 10 classes.
    Promised (PAC(delta=0.05)): for at least 95% of calibration sets, coverage of the true label
    is at least 90%. Estimated coverage 0.9214: 0.9 + 0.0214. Assumed: calibration and new points
    come independently from one distribution; uniform label noise with rate 0.2, independent of the
    input given the true class.
    """

    alpha: float
    n: int
    k: int
    score: Score
    noise: Noise | None
    guarantee: Guarantee
    crossing: Rule
    correction: float
    native_threshold: float
    estimate: float
    obstacle: str | None = None
    gap: float = 0.0
    price_of_doubt: float = 0.0
    note: str | None = None
    random_state: int = 0
    classes: tuple[Any, ...] | None = field(default=None, repr=False)
    normalize: bool = False
    _evidence: Evidence | None = field(default=None, repr=False, compare=False)

    @property
    def threshold(self) -> float:
        """The threshold q on the scale of the score.

        Sets are made with `native_threshold`, which for HPS is -p instead of 1 - p: the difference
        would round.
        """
        return self.native_threshold + self.score.offset

    @property
    def promise(self) -> str:
        """What is guaranteed, in one sentence."""
        return self.guarantee.promise_under(self.noise, self.alpha)

    @property
    def assumptions(self) -> str:
        """What the promise rests on, in words."""
        assumed = "calibration and new points come independently from one distribution"
        if self.noise is None:
            return assumed
        independent = "" if self.noise.radius else ", independent of the input given the true class"
        return f"{assumed}; {self.noise.describe(self.k)}{independent}"

    @property
    def effective_correction(self) -> float:
        """By how much the estimated coverage at the threshold exceeds 1 - alpha."""
        return self.estimate - (1 - self.alpha)

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of one point's share g in the estimate, at the threshold."""
        return self._data("deviation").deviation(self.native_threshold)

    @property
    def floor(self) -> float:
        """``z_{1-delta} deviation / sqrt(n)``: what even a test that knew the deviation would cost."""
        if self.guarantee.delta is None:
            raise ValueError(
                f'guarantee "{self.guarantee.name}" has no delta, so there is no floor to compare with'
            )
        return floor(self.guarantee.delta, self.deviation, self.n)

    @property
    def tightness(self) -> float:
        """The effective correction divided by the floor: 1 is as good as it gets; nan if there is none."""
        return self.effective_correction / self.floor if self.floor > 0 else math.nan

    def _data(
        self, wanted: str, remedy: str = "nacp.coverage_curve(probs, labels, ...) computes the curve"
    ) -> Evidence:
        if self._evidence is None:
            raise ValueError(
                f"the {wanted} needs the calibration data, which one that was loaded or unpickled came "
                f"without; {remedy}"
            )
        return self._evidence

    @cached_property
    def curve(self) -> CoverageCurve:
        """The coverage estimates at every distinct noisy score and at the threshold.

        Computed from the calibration data when first asked for; a calibration loaded from a file has
        no data, so use `coverage_curve` there.
        """
        evidence = self._data("curve")
        native = evidence.label_scores
        if math.isfinite(self.native_threshold):
            native = np.append(native, self.native_threshold)
        return curve_at(evidence, np.unique(native), self.score.offset)

    def diagnose(
        self,
        probs: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        *,
        audit_probs: ArrayLike | None = None,
        audit_labels: ArrayLike | None = None,
        level: float = 0.05,
    ) -> "Diagnosis":
        """Ask whether the noise model can be right; see `nacp.diagnose`."""
        from nacp.advice.diagnosis import diagnose

        return diagnose(self, probs, labels, audit_probs=audit_probs, audit_labels=audit_labels, level=level)

    def evidence(self, probs: ArrayLike | None = None, labels: ArrayLike | None = None) -> Evidence:
        """Return the calibration points, or other ones with noisy labels, as the score sees them."""
        if probs is None or labels is None:
            if probs is not None or labels is not None:
                raise ValueError("probs and labels belong together; pass both, or neither")
            return self._data("diagnosis", "pass probs and noisy labels too")
        rows = self._rows(probs)
        given = check_labels(labels, rows.n, rows.k, self.classes)
        return Evidence(rows, given, self.score, inverse_for(self.noise, self.k))

    def _rows(self, probs: ArrayLike) -> Rows:
        return check_probs(
            probs,
            normalize=self.normalize,
            probabilities=self.score.takes_probabilities,
            k=self.k,
            classes=self.classes,
        )

    def predict_set(self, probs: ArrayLike, *, allow_empty: bool = True) -> PredictionSets:
        """Return the prediction sets of new inputs.

        Parameters
        ----------
        probs : array of shape (m, k)
            Class probabilities, from the same classifier.
        allow_empty : bool, default=True
            ``False`` puts the most probable label (the one with the lowest score) into every set that
            would be empty; coverage can only rise.

        Returns
        -------
        PredictionSets
        """
        rows = self._rows(probs)

        def read(where: slice) -> tuple[Ints, Array]:
            block = rows[where]
            reading = self.score.read(block, self.score.draw(block))
            keys, cuts = reading.cuts(self.native_threshold)
            if not allow_empty:
                cuts = np.minimum(cuts, keys.max(axis=1, keepdims=True))
            sizes, labels = flat_sets(keys, cuts)
            return sizes, labels.astype(np.int32)

        sizes, labels = zip(*map(read, rows.slices()), strict=True)
        return PredictionSets(
            np.concatenate([[0], np.cumsum(np.concatenate(sizes))]),
            np.concatenate(labels),
            k=self.k,
            classes=self.classes,
            alpha=self.alpha,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave the calibration data out of a pickle: they are large, and may be private."""
        kept = {name: value for name, value in vars(self).items() if name not in ("curve", "deviation")}
        return kept | {"_evidence": None}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration to a JSON file; `load` reads it back.

        Parameters
        ----------
        path : path
            The file; replaced if it exists.
        """
        document = {
            "format": _FORMAT,
            "version": _VERSION,
            "alpha": self.alpha,
            "n": self.n,
            "k": self.k,
            "score": self.score.to_dict(),
            "noise": None if self.noise is None else self.noise.to_dict(),
            "guarantee": self.guarantee.to_dict(),
            "crossing": self.crossing,
            "correction": to_json(self.correction),
            "threshold": to_json(self.threshold),
            "native_threshold": to_json(self.native_threshold),
            "estimate": self.estimate,
            "obstacle": self.obstacle,
            "gap": self.gap,
            "price_of_doubt": self.price_of_doubt,
            "note": self.note,
            "random_state": self.random_state,
            "classes": None if self.classes is None else list(self.classes),
            "normalize": self.normalize,
        }
        write_document(path, document)

    def __str__(self) -> str:
        named = "given" if self.noise is None else "noisy"
        if self.obstacle is not None:
            sets, said = f"Sets of all {self.k} classes ({self.obstacle})", ""
        else:
            sets = f"Sets {{l : S(x, l) <= {self.threshold:.6g}}}"
            said = f" Estimated coverage {self.estimate:.4f}: {1 - self.alpha:.6g} + {self.correction:.4f}."
        if self.gap:
            said += f" The gap is estimated at {self.gap:.2g}."
        if self.price_of_doubt:
            said += f" Not knowing the noise exactly costs {self.price_of_doubt:.2g} labels per set."
        if self.note:
            said += f" Note: {self.note}."
        return (
            f"{sets}, S = {self.score!r}, from {self.n} {named} labels of {self.k} classes.\n"
            f"Promised ({self.guarantee!r}): {self.promise}.{said} Assumed: {self.assumptions}."
        )

    def _repr_html_(self) -> str:
        from nacp.show.html import card, facts, sentence

        noise = (
            "none: the labels are taken as they are" if self.noise is None else self.noise.describe(self.k)
        )
        told = [
            ("threshold", f"{self.threshold:.6g}"),
            ("estimated coverage", f"{self.estimate:.4f}, for a target of {1 - self.alpha:.6g}"),
            ("score", repr(self.score)),
            ("guarantee", repr(self.guarantee)),
            ("noise", noise),
            ("calibration points", f"{self.n} of {self.k} classes"),
        ]
        remarks = [("All classes", self.obstacle), ("Note", self.note)]
        return card(
            "Calibration",
            facts(told),
            sentence(f"{self.promise}.", name="Promised"),
            *(sentence(f"{remark}.", name=name) for name, remark in remarks if remark),
        )


@overload
def calibrate(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: Any,
    alpha: float = 0.1,
    score: Any = "hps",
    guarantee: str | Guarantee | None = None,
    delta: float | None = None,
    crossing: Rule = "last",
    classes: Any = None,
    normalize: bool = False,
    random_state: int | None = None,
    unlabelled: ArrayLike | None = None,
) -> Calibration: ...
@overload
def calibrate(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: Any,
    alpha: Sequence[float],
    score: Any = "hps",
    guarantee: str | Guarantee | None = None,
    delta: float | None = None,
    crossing: Rule = "last",
    classes: Any = None,
    normalize: bool = False,
    random_state: int | None = None,
    unlabelled: ArrayLike | None = None,
) -> list[Calibration]: ...
def calibrate(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: Any,
    alpha: float | Sequence[float] = 0.1,
    score: Any = "hps",
    guarantee: str | Guarantee | None = None,
    delta: float | None = None,
    crossing: Rule = "last",
    classes: Any = None,
    normalize: bool = False,
    random_state: int | None = None,
    unlabelled: ArrayLike | None = None,
) -> Calibration | list[Calibration]:
    """Find the threshold that clean labels would have given, from noisy ones.

    Parameters
    ----------
    probs : array of shape (n, k)
        The classifier's probabilities for the calibration points, in float16, float32 or float64. Never
        copied whole, so a memory-mapped array is fine.
    labels : array of shape (n,)
        Their noisy labels: numbers from 0 to k - 1, or names from `classes`.
    noise : float, array of shape (k, k), noise model or None
        How the labels came to be wrong. A float is short for `UniformNoise`, a matrix for `MatrixNoise`.
        ``None`` takes the labels as they are.
    alpha : float or sequence of float, default=0.1
        The sets are to contain the true class with probability 1 - alpha. Several at once share the work
        and give a list.
    score : str, score or callable, default="hps"
        "hps" (also "lac", "thr"), "aps", "raps", "saps", "margin", "topk", a score object with other
        parameters, a function from probabilities to scores, or "precomputed" if `probs` holds the scores.
    guarantee : str or guarantee, optional
        "pac", "binomial", "expected", "nacp", "acnl", "crcp", "none" or "split". By default "pac", and for
        ``noise=None`` "split": split conformal prediction with its n + 1. "binomial" and "nacp" hold for
        uniform noise only.
    delta : float, optional
        The probability with which the promise may fail, for guarantees that have one ("pac" and "binomial":
        0.05, "nacp": 0.001).
    crossing : {"last", "first"}, default="last"
        "last": the smallest threshold from which on the estimate stays at or above the target (the paper's
        "largest solution"). "first": the smallest threshold at which it reaches the target.
    classes : sequence of length k, optional
        The class names, in the order of the columns of `probs`.
    normalize : bool, default=False
        Divide each row of `probs` by its sum, here and in `predict_set`.
    random_state : int, optional
        The seed by which "pac" shuffles the rows, 0 by default; to be fixed before the labels are seen. The
        other guarantees do not depend on it.
    unlabelled : array of shape (m, k), optional
        Probabilities of further points, without labels, which make "binomial" cheaper.

    Returns
    -------
    Calibration, or a list of them if `alpha` is a sequence

    Warns
    -----
    NoValidThresholdWarning
        If no threshold keeps the promise; the sets then hold all classes.

    See Also
    --------
    coverage_curve : The estimates behind the threshold.
    evaluate : How sets do on clean labels.

    References
    ----------
    Penso, Goldberger, Fetaya (2025), *Conformal prediction of classifiers with many classes based on noisy
    labels*.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar100", n=4000, random_state=0)
    >>> noise = nacp.UniformNoise(0.2)
    >>> noisy = noise.sample(labels, k=100, random_state=0)
    >>> cal = nacp.calibrate(probs[:2000], noisy[:2000], noise=noise, guarantee="none", score="raps")
    >>> sets = cal.predict_set(probs[2000:])
    >>> result = nacp.evaluate(sets, labels[2000:])
    >>> bool(abs(result.coverage - 0.9) < 0.03 and result.mean_size < 8)
    True
    """
    kind, model = as_score(score), as_noise(noise)
    if guarantee is None:
        guarantee = "split" if model is None else "pac"
    promised = as_guarantee(guarantee, delta)
    check_choice("crossing", crossing, RULES)
    promised.refuse(model, crossing)
    seed = 0 if random_state is None else check_count("random_state", random_state)
    alphas = [check_fraction("alpha", a) for a in np.atleast_1d(np.asarray(alpha, dtype=object))]
    if not alphas:
        raise ValueError("alpha is empty; pass one number or several")
    check_flag("normalize", normalize)
    rows = check_probs(probs, normalize=normalize, probabilities=kind.takes_probabilities, classes=classes)
    check_estimate(noise, rows.k)
    names = check_classes(classes, rows.k)
    given = check_labels(labels, rows.n, rows.k, names)
    inverse = inverse_for(model, rows.k)
    if isinstance(model, MatrixNoise):
        _check_informative(model, rows.n, rows.k)

    extra = None
    if unlabelled is not None:
        if not isinstance(promised, Binomial):
            raise ValueError(f'unlabelled points are of use to guarantee "binomial" only; found {promised!r}')
        try:
            extra = check_probs(
                unlabelled,
                normalize=normalize,
                probabilities=kind.takes_probabilities,
                k=rows.k,
                classes=classes,
            )
        except ValueError as error:
            raise ValueError(f"unlabelled: {error}") from None
    evidence = Evidence(rows, given, kind, inverse, extra)
    counts = np.bincount(given, minlength=rows.k).astype(np.float64)
    problems = [Problem(a, rows.n, model, inverse, counts) for a in alphas]
    findings, prices, seen = _find(evidence, promised, problems, crossing, seed)
    for found in findings:
        if found.obstacle is not None:
            warnings.warn(
                f"no threshold keeps the promise, so the sets hold all {rows.k} classes: {found.obstacle}",
                NoValidThresholdWarning,
                stacklevel=2,
            )
    results = [
        Calibration(
            alpha=a,
            n=rows.n,
            k=rows.k,
            score=kind,
            noise=model,
            guarantee=promised,
            crossing=crossing,
            correction=found.correction,
            native_threshold=found.threshold,
            estimate=found.estimate,
            obstacle=found.obstacle,
            gap=found.gap,
            price_of_doubt=price,
            note=found.note,
            random_state=seed,
            classes=names,
            normalize=normalize,
            _evidence=each,
        )
        for a, found, price, each in zip(alphas, findings, prices, seen, strict=True)
    ]
    return results[0] if np.ndim(alpha) == 0 else results


def _find(
    evidence: Evidence, guarantee: Guarantee, problems: list[Problem], crossing: Rule, seed: int
) -> tuple[list[Finding], list[float], list[Evidence]]:
    """Return the findings, by how much the sets grow because the noise is not known exactly, and as which
    evidence the points were seen.
    """
    exactly = guarantee.find(evidence, problems, crossing, seed)
    noise, k = problems[0].noise, evidence.k
    ends, radius = ((), 0.0) if noise is None else (noise.ends(), noise.radius)
    if len(ends) < 2 and not radius:
        return exactly, [0.0] * len(problems), [evidence] * len(problems)
    seen = [evidence.under(end.inverse(k), radius) for end in ends]
    by_end = [
        guarantee.find(
            each,
            [replace(problem, noise=end, inverse=end.inverse(k)) for problem in problems],
            crossing,
            seed,
        )
        for end, each in zip(ends, seen, strict=True)
    ]
    # Both ends of an interval must pass, so the larger threshold is taken.
    binding = [max(range(len(ends)), key=lambda end: by_end[end][i].threshold) for i in range(len(problems))]
    found = [by_end[end][i]._replace(gap=max(way[i].gap for way in by_end)) for i, end in enumerate(binding)]
    sizes = [evidence.mean_sizes(np.array([f.threshold for f in way])) for way in (found, exactly)]
    return found, (sizes[0] - sizes[1]).tolist(), [seen[end] for end in binding]


def _check_informative(noise: MatrixNoise, n: int, k: int) -> None:
    """Refuse a matrix whose inverse is so large that the estimate could be anything."""
    condition = noise.condition(k)
    if condition >= 2 * math.sqrt(n):
        raise ValueError(
            f"noise matrix is too ill-conditioned for {n} points: with condition {condition:.3g} the "
            f"estimated coverage is uncertain by {condition / (2 * math.sqrt(n)):.2g}; merge classes that "
            f"are often confused, or use more than {math.ceil(condition**2 / 4)} points"
        )


def load(path: str | os.PathLike[str], *, score: Any = None) -> Calibration:
    """Read a calibration that `Calibration.save` wrote.

    Parameters
    ----------
    path : path
        A JSON file. Nothing in it is executed.
    score : callable, optional
        The function, if the calibration was made with a score function of one's own.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import os, tempfile
    >>> import nacp
    >>> cal = nacp.calibrate([[0.5, 0.5], [0.25, 0.75]], [0, 1], noise=None, alpha=0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cal.save(os.path.join(folder, "cal.json"))
    ...     nacp.load(os.path.join(folder, "cal.json")) == cal
    True
    """
    document = read_document(path, _FORMAT, _VERSION)
    try:
        return _from_document(document, score)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} cannot be used: {reason}") from None


def _from_document(document: dict[str, Any], score: Any) -> Calibration:
    stored = dict(document["score"])
    if stored["name"] == Custom.name:
        if score is None:
            raise ValueError(
                f"it was made with a score of one's own, {stored['function']!r}; pass it as score="
            )
        kind = as_score(score)
    else:
        kind = rebuild(SCORES, stored)
    k = positive("k", document["k"])
    check_choice("crossing", document["crossing"], RULES)
    noise = None if document["noise"] is None else rebuild(NOISES, document["noise"])
    guarantee = rebuild(GUARANTEES, document["guarantee"])
    guarantee.refuse(noise, document["crossing"])
    return Calibration(
        alpha=check_fraction("alpha", document["alpha"]),
        n=positive("n", document["n"]),
        k=k,
        score=kind,
        noise=noise,
        guarantee=guarantee,
        crossing=document["crossing"],
        correction=number("correction", document["correction"]),
        native_threshold=number("native_threshold", document["native_threshold"]),
        estimate=number("estimate", document["estimate"]),
        obstacle=document["obstacle"],
        gap=number("gap", document.get("gap", 0.0)),
        price_of_doubt=number("price_of_doubt", document.get("price_of_doubt", 0.0)),
        note=document.get("note"),
        random_state=check_count("random_state", document.get("random_state", 0)),
        classes=check_classes(document["classes"], k),
        normalize=check_flag("normalize", document["normalize"]),
    )
