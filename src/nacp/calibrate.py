"""calibrate(), the one door: open the points, find the threshold, return a Calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from nacp.calibration import Calibration
from nacp.checked import checked_calibrations, for_checked, guessing_noise, open_checked
from nacp.checks import check_alphas, check_choice, check_count, check_flag
from nacp.contradicted import against, warn_of
from nacp.coverage import RULES, CoverageCurve, Rule, Sample, Talk, sample_of
from nacp.coverage.audit import AuditPlan
from nacp.coverage.audited import AuditedCoverage
from nacp.errors import InputError, warn
from nacp.guarantees import Binomial, Guarantee, as_guarantee, coverage_under, find
from nacp.noise import (
    UNSAID,
    AnnotatorNoise,
    Noise,
    NoiseBasis,
    NoiseLike,
    Unsaid,
    as_noise,
    basis_of,
    noise_for,
)
from nacp.points import check_classes, check_given, column_names, open_points, warn_of_repeats
from nacp.points.lazy import in_memory, open_given, open_more
from nacp.scores import ScoreLike as ScoreLike
from nacp.scores import as_score


class NoValidThresholdWarning(UserWarning):
    """No threshold keeps the promise with this calibration set, so the sets hold all classes."""


@overload
def calibrate(
    probs: ArrayLike,
    labels: ArrayLike | None,
    *,
    noise: NoiseLike | Unsaid = ...,
    clean: Any = None,
    audit: AuditPlan | None = None,
    alpha: float = 0.1,
    score: ScoreLike = "hps",
    guarantee: str | Guarantee | None = None,
    delta: float | None = None,
    crossing: Rule = "last",
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
    random_state: int | None = None,
    unlabelled: ArrayLike | None = None,
) -> Calibration: ...
@overload
def calibrate(
    probs: ArrayLike,
    labels: ArrayLike | None,
    *,
    noise: NoiseLike | Unsaid = ...,
    clean: Any = None,
    audit: AuditPlan | None = None,
    alpha: Sequence[float],
    score: ScoreLike = "hps",
    guarantee: str | Guarantee | None = None,
    delta: float | None = None,
    crossing: Rule = "last",
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
    random_state: int | None = None,
    unlabelled: ArrayLike | None = None,
) -> list[Calibration]: ...
def calibrate(
    probs: ArrayLike,
    labels: ArrayLike | None,
    *,
    noise: NoiseLike | Unsaid = UNSAID,
    clean: Any = None,
    audit: AuditPlan | None = None,
    alpha: float | Sequence[float] = 0.1,
    score: ScoreLike = "hps",
    guarantee: str | Guarantee | None = None,
    delta: float | None = None,
    crossing: Rule = "last",
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
    random_state: int | None = None,
    unlabelled: ArrayLike | None = None,
) -> Calibration | list[Calibration]:
    """Find the threshold that clean labels would have given, from noisy ones.

    Parameters
    ----------
    probs : array of shape (n, k) or TopRows
        The classifier's probabilities for the calibration points, in float16, bfloat16, float32 or float64;
        as precise as those that sets are to be predicted from. Rows must sum to 1 up to 0.001, in 16 bits up
        to 0.01 (rounding does that), and are taken as they are unless `normalize` is given. Never copied
        whole, so a memory-mapped array is fine, and a dask array stays where it is (in chunks of whole rows).
        `TopRows` have the top entries only; a scipy.sparse array is taken as rows whose other entries are 0.
    labels : array of shape (n,) or (n, a)
        Their noisy labels: numbers from 0 to k - 1, or names from `classes`. ``None`` with `clean`: only the
        checked labels are used. Several for each point, as from annotators, are a column each, with -1, NaN,
        None or masked where one is missing; they share the point, and need not be independent of each other,
        but `noise` must be that of each of them, or an `AnnotatorNoise`, which has one for each column. For
        "pac", "expected", "none" and "split", without `clean`. To stack them as rows of their own would void
        every promise.
    noise : float, array of shape (k, k), noise model or None
        How the labels came to be wrong. A float is short for `UniformNoise`, a matrix for `MatrixNoise`.
        ``None`` takes the labels as they are. With `clean` it may be left out: there it only says where to
        part the points, which the size of the sets depends on a little, and the promise not at all, if it was
        not made from the same checked labels.
    clean : array of shape (n,) or pair (rows, labels), optional
        True labels of points that were picked at random and checked: -1, NaN, None or masked where a label
        was not checked, "?" where it was and could not be decided, which counts as a miss. With them nothing
        is assumed about the noise. For "pac", "expected" and "none".
    audit : AuditPlan, optional
        If the checked points were not picked at random but by `choose_audit`: its plan.
    alpha : float or sequence of float, default=0.1
        The sets are to contain the true class with probability 1 - alpha. Several at once share the work
        and give a list. A promise with a delta holds for each alpha by itself; that all are kept at once, or
        one that is chosen afterwards, takes delta divided by their number. "nacp" holds for all alphas at
        once.
    score : str, score or callable, default="hps"
        "hps" (also "lac", "thr"), "aps", "raps", "saps", "margin", "topk", a score object with other
        parameters, a function from probabilities to scores, or "precomputed" if `probs` holds the scores.
    guarantee : str or guarantee, optional
        "pac", "binomial", "expected", "nacp", "acnl", "crcp", "none" or "split". By default "pac", and for
        ``noise=None`` "split": split conformal prediction with its n + 1. "binomial" and "nacp" hold for
        uniform noise only.
    delta : float, optional
        The probability with which the promise may fail, for guarantees that have one ("pac" and "binomial":
        0.05, "nacp": 0.001); refused for the others.
    crossing : {"last", "first"}, default="last"
        "last": the smallest threshold from which on the estimate stays at or above the target (the paper's
        "largest solution"). "first": the smallest threshold at which it reaches the target.
    classes : sequence of length k, optional
        The class names, in the order of the columns of `probs`; by default the names of the columns of a
        table that has some. `labels` may then be names, or, if no name is a number, numbers of columns.
    normalize : bool, default=False
        Divide each row of `probs` by its sum, here and in `predict_set`.
    from_logits : bool, default=False
        `probs` holds logits (log-probabilities will do), here and in `predict_set`; their softmax is taken,
        in float64.
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
    NoiseModelWarning
        If the labels contradict the noise model; ``Calibration.warnings`` keeps it.
    RepeatedRowsWarning
        If rows repeat each other as stacked labels of the same items do.

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
    score = as_score(score)
    check_choice("crossing", crossing, RULES)
    seed = 0 if random_state is None else check_count("random_state", random_state)
    alphas, classes = check_alphas(alpha), column_names(probs, classes)
    options = {
        "probabilities": score.takes_probabilities, "normalize": check_flag("normalize", normalize),
        "from_logits": check_flag("from_logits", from_logits), "classes": classes,
    }  # fmt: skip
    if clean is not None:
        in_memory("probs", probs, "with clean=")
        guarantee = for_checked(guarantee, delta, crossing, unlabelled, audit, score)
        rows, numbers, names, dealt = open_checked(probs, labels, clean, seed, audit, **options)
        warn_of_repeats(rows)
        sample = Sample(rows, numbers, score)
        guessed = guessing_noise(sample, noise, dealt.pilot)
        coverage = AuditedCoverage(sample, dealt, guessed.matrix(sample.k))
        found = checked_calibrations(coverage, guarantee, alphas, seed, classes=names, normalize=normalize)
    elif audit is not None:
        raise InputError("audit", "is of use with checked labels only", remedy="pass these as clean=")
    elif isinstance(noise, Unsaid):
        raise noise_is_missing()
    else:
        named = default_guarantee(as_noise(noise)) if guarantee is None else guarantee
        guarantee = as_guarantee(named, delta)
        guarantee.check_applies(as_noise(noise), crossing)
        if unlabelled is not None and not isinstance(guarantee, Binomial):
            raise InputError(
                "unlabelled", f'is of use to guarantee "binomial" only, and guarantee is {guarantee!r}'
            )
        rows = open_given(probs, labels, **options)
        names = check_classes(classes, rows.k)
        numbers = check_given(labels, rows.n, rows.k, names)
        guarantee.check_several(several=numbers.ndim == 2)
        basis = basis_of(noise)
        noise = informative_noise(noise, rows.n, rows.k)
        extra = None if unlabelled is None else open_more(rows, unlabelled, **options)
        parts = None
        if isinstance(noise, AnnotatorNoise) and numbers.ndim == 2:
            numbers, parts = noise.spread(numbers)
        sample = sample_of(rows, numbers, score, extra, parts)
        warn_of_repeats(rows)
        found = sample.ask(
            calibrations(
                sample,
                guarantee,
                noise,
                alphas,
                crossing,
                seed,
                classes=names,
                normalize=normalize,
                basis=basis,
            )
        )
    warn_of_obstacles(found)
    return found[0] if np.ndim(alpha) == 0 else found


def warn_of_obstacles(found: Sequence[Calibration]) -> None:
    """Warn where no threshold keeps a promise, and of what speaks against the noise model."""
    for cal in found:
        if cal.obstacle is not None:
            warn(
                f"no threshold keeps the promise, so the sets hold all {cal.k:,} classes: {cal.obstacle}",
                NoValidThresholdWarning,
            )
    warn_of(found[0].warnings)


def noise_is_missing() -> InputError:
    """Return what to say where nothing is said of the noise, and no labels were checked."""
    return InputError(
        "noise",
        "can be left out only where some labels were checked",
        remedy="pass these as clean=, or noise=None for labels that are right",
    )


def default_guarantee(noise: Noise | None) -> str:
    """Return the guarantee that is meant where none is named."""
    return "split" if noise is None else "pac"


def informative_noise(noise: NoiseLike, n: int, k: int) -> Noise | None:
    """Return the noise model for k classes; refuse one under which n labels say nothing."""
    noise = noise_for(noise, k)
    refusal = None if noise is None else noise.informative(n, k)
    if refusal is not None:
        raise refusal
    return noise


def calibrations(
    sample: Sample,
    guarantee: Guarantee,
    noise: Noise | None,
    alphas: Sequence[float],
    crossing: Rule,
    seed: int,
    *,
    classes: tuple[Any, ...] | None,
    normalize: bool,
    basis: NoiseBasis | None = None,
) -> Talk[list[Calibration]]:
    """Return a calibration of a sample for each alpha; several guarantees may be found together."""
    found = yield from find(guarantee, sample, noise, alphas, crossing, seed)
    said = yield from against(sample, noise, classes)
    results = []
    for alpha, (finding, coverage, price) in zip(alphas, found, strict=True):
        tally = yield from coverage.tally()
        results.append(
            Calibration(
                alpha=alpha,
                n=sample.n,
                k=sample.k,
                score=sample.score,
                noise=noise,
                guarantee=guarantee,
                crossing=crossing,
                correction=finding.correction,
                native_threshold=finding.threshold,
                estimate=min(max(finding.estimate, 0.0), 1.0),
                obstacle=finding.obstacle,
                gap=finding.gap,
                price_of_doubt=price,
                note=finding.note,
                random_state=seed,
                classes=classes,
                normalize=normalize,
                deviation=finding.deviation,
                noise_basis=basis,
                alphas=len(alphas),
                widths=sample.widths,
                from_logits=sample.from_logits,
                several=sample.several,
                in_order=sample.in_order,
                warnings=said,
                tally=tally,
            )
        )
    return results


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
        Where to evaluate. By default at every distinct score of a noisy label; these are all the
        candidates of a threshold unless the noise is a general matrix, when any of the n k scores
        may be one.

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
    sample = Sample(rows, numbers, score)
    coverage = coverage_under(sample, noise_for(noise, rows.k))
    if thresholds is None:
        sample.ask(coverage.tally())  # for the scores of the labels
        native = np.unique(sample.label_scores)
    else:
        wanted = np.asarray(thresholds, dtype=np.float64)
        if wanted.ndim != 1 or wanted.size == 0 or np.isnan(wanted).any():
            raise InputError(
                "thresholds", "must be one or more numbers in one dimension", found=repr(thresholds)
            )
        native = score.to_native(np.sort(wanted))
    return CoverageCurve(native + score.offset, *sample.ask(coverage.at(native)))
