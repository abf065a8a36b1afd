"""calibrate(), the one door: open the points, find the threshold, return a Calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from nacp.audit.checked_calibration import calibrate_checked, for_checked
from nacp.audit.plan import AuditPlan
from nacp.calibration import Calibration
from nacp.checks import check_alphas, check_choice, check_count, check_flag
from nacp.coverage.curve import RULES, Rule
from nacp.coverage.sample import Sample
from nacp.coverage.tally import Tally
from nacp.errors import InputError
from nacp.groups.grouped_calibration import SMALL, Asked, GroupedCalibration, calibrate_groups
from nacp.groups.grouping import open_grouping
from nacp.guarantees import Guarantee, as_guarantee, names_of
from nacp.marginal import Counted, calibrations, count_lazy, seen
from nacp.marginal import NoValidThresholdWarning as NoValidThresholdWarning
from nacp.marginal import coverage_curve as coverage_curve
from nacp.marginal import warn_of_obstacles as warn_of_obstacles
from nacp.noise import (
    UNSAID,
    Noise,
    NoiseLike,
    Unsaid,
    as_noise,
    basis_of,
    noise_by_group,
    noise_for,
)
from nacp.points import (
    check_aligned,
    check_classes,
    check_given,
    column_names,
    open_rows,
    warn_of_repeats,
)
from nacp.points.arrays import is_lazy
from nacp.points.lazy import in_memory, open_lazy
from nacp.scores import Score, as_score
from nacp.scores import ScoreLike as ScoreLike


@overload
def calibrate(
    probs: ArrayLike,
    labels: ArrayLike | None,
    *,
    noise: NoiseLike | Mapping[Any, NoiseLike] | Unsaid = ...,
    noise_groups: ArrayLike | None = None,
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
    groups: None = None,
    by: None = None,
) -> Calibration: ...
@overload
def calibrate(
    probs: ArrayLike,
    labels: ArrayLike | None,
    *,
    noise: NoiseLike | Mapping[Any, NoiseLike] | Unsaid = ...,
    noise_groups: ArrayLike | None = None,
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
    groups: None = None,
    by: None = None,
) -> list[Calibration]: ...
@overload
def calibrate(
    probs: ArrayLike,
    labels: ArrayLike | None,
    *,
    noise: NoiseLike | Mapping[Any, NoiseLike] | Unsaid = ...,
    noise_groups: ArrayLike | None = None,
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
    groups: Any = None,
    by: Literal["class"] | None = None,
    simultaneous: bool = False,
    small: Literal["error", "all", "merge"] = "error",
) -> GroupedCalibration: ...
@overload
def calibrate(
    probs: ArrayLike,
    labels: ArrayLike | None,
    *,
    noise: NoiseLike | Mapping[Any, NoiseLike] | Unsaid = ...,
    noise_groups: ArrayLike | None = None,
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
    groups: Any = None,
    by: Literal["class"] | None = None,
    simultaneous: bool = False,
    small: Literal["error", "all", "merge"] = "error",
) -> list[GroupedCalibration]: ...
def calibrate(
    probs: ArrayLike,
    labels: ArrayLike | None,
    *,
    noise: NoiseLike | Mapping[Any, NoiseLike] | Unsaid = UNSAID,
    noise_groups: ArrayLike | None = None,
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
    groups: Any = None,
    by: Literal["class"] | None = None,
    simultaneous: bool = False,
    small: Literal["error", "all", "merge"] = "error",
) -> Calibration | list[Calibration] | GroupedCalibration | list[GroupedCalibration]:
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
    noise : float, array of shape (k, k), noise model, dict of these or None
        How the labels came to be wrong. A float is short for `UniformNoise`, a matrix for `MatrixNoise`.
        ``None`` takes the labels as they are. With `clean` it may be left out: it then only helps to divide
        the points into strata, which affects the size of the sets a little. The promise holds for any model
        that was chosen without looking at these points and their checked labels.
    noise_groups : array of shape (n,), optional
        If the noise differs between known groups of rows (the annotator, the site, the batch): the group of
        each row. `noise` is then a dict with a model for each group, such as
        ``{"site A": 0.1, "site B": nacp.MatrixNoise(P)}``. New rows need no group.
    clean : array of shape (n,) or pair (rows, labels), optional
        True labels of points that were picked at random and checked: -1, NaN, None or masked where a label
        was not checked, "?" where it was and could not be decided, which counts as a miss. With them nothing
        is assumed about the noise. For "pac", "expected" and "none". Of a dask array only the checked rows
        and labels are used.
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
    groups : array of shape (n,) or mapping, optional
        A threshold for each group, so that 1 - alpha holds within it. One name or number for each row, which
        new rows must have too (a hospital, a language); or a mapping from classes to groups of classes.
    by : {"class"}, optional
        ``"class"``: each class is a group.
    simultaneous : bool, default=False
        Whether the promise is to hold for all groups at once: delta is divided by their number. By default
        it holds for each group by itself.
    small : {"error", "all", "merge"}, default="error"
        What to do with groups that have too few points: refuse, put all their labels into the sets, or pool
        them to one group. Which are small is then seen from a tenth of the points, used for nothing else.

    Returns
    -------
    Calibration, or a list of them if `alpha` is a sequence
        With groups a `GroupedCalibration`.

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
    check_choice("small", small, SMALL)
    check_flag("simultaneous", simultaneous)
    if groups is None and by is None and (simultaneous or small != "error"):
        said = "simultaneous" if simultaneous else "small"
        raise InputError(
            said, "has no effect without groups", remedy="pass groups= or by=",
            spoken="give --groups or --by class",
        )  # fmt: skip
    if groups is not None:
        check_aligned(groups, probs)
        check_aligned(groups, labels, "labels")
    places = None
    if isinstance(noise, Mapping) or noise_groups is not None:
        alone = clean is None and by is None and not isinstance(groups, Mapping)
        if not alone or is_lazy(probs) or labels is None or np.ndim(labels) != 1:
            raise InputError(
                "noise_groups",
                "needs arrays in memory, one label for each row, and neither clean= nor groups of classes",
            )
        check_aligned(noise_groups, probs)
        shape = getattr(probs, "shape", None) or np.shape(probs)
        if len(shape) != 2:
            open_rows(probs, **options)  # says what is wrong
        noise, places = noise_by_group(noise, noise_groups, *map(int, shape))
    if clean is not None:
        chosen = for_checked(guarantee, delta, crossing, unlabelled, audit, score)
        asked = Asked(chosen, None, alphas, crossing, seed, simultaneous, small, {})
        points = probs, labels, clean, audit
        from_checked = calibrate_checked(*points, noise, score, asked, groups, by, **options)
        return from_checked[0] if np.ndim(alpha) == 0 else from_checked
    if audit is not None:
        raise InputError("audit", "is of use with checked labels only", remedy="pass these as clean=")
    if isinstance(noise, Unsaid):
        raise noise_is_missing()
    lazy = is_lazy(probs)
    several = lazy and np.ndim(labels) == 2  # type: ignore[arg-type]  # None is refused later
    chosen = chosen_guarantee(guarantee, delta, as_noise(noise), again=not lazy, several=several)
    chosen.check_applies(as_noise(noise), crossing)
    if unlabelled is not None and not chosen.takes_unlabelled:
        raise InputError("unlabelled", f'is of use to guarantee "binomial" only, and guarantee is {chosen!r}')
    if lazy and (groups is not None or by is not None):
        in_memory("probs", probs, "with groups")
    known: dict[str, Any] = {"normalize": normalize, "noise_basis": basis_of(noise)}
    if lazy:
        found = _calibrate_lazy(
            probs, labels, noise, alphas, score, chosen, crossing, unlabelled, options, known
        )
        warn_of_obstacles(found)
        return found[0] if np.ndim(alpha) == 0 else found
    rows = open_rows(probs, **options)
    names = check_classes(classes, rows.k)
    numbers = check_given(labels, rows.n, rows.k, names)
    chosen.check_several(several=numbers.ndim == 2 or places is not None)
    model = informative_noise(noise, rows.n, rows.k)
    parts = None
    if places is not None:
        numbers = (numbers + rows.k * places)[:, None]
    elif model is not None:
        numbers, parts = model.spread(numbers)
    grouped = groups is not None or by is not None
    grouping = open_grouping(groups, by, rows.n, rows.k, names) if grouped else None
    sample = Sample.of(rows, numbers, score, parts)
    warn_of_repeats(rows)
    known = known | {"classes": names} | seen(sample)
    if grouping is not None:
        asked = Asked(chosen, model, alphas, crossing, seed, simultaneous, small, known)
        by_group = calibrate_groups(sample, grouping, asked, unlabelled)
        return by_group[0] if np.ndim(alpha) == 0 else by_group
    more = None
    if unlabelled is not None:
        extra = open_rows(unlabelled, **options, k=rows.k, name="unlabelled")
        more = Tally.of_rows(extra, score.spec)
    counted = Counted.of(sample, model, squares=chosen.needs_squares, more=more)
    found = calibrations(counted, chosen, model, alphas, crossing, sample, seed, **known)
    warn_of_obstacles(found)
    return found[0] if np.ndim(alpha) == 0 else found


def _calibrate_lazy(
    probs: Any, labels: Any, noise: NoiseLike, alphas: list[float], score: Score, guarantee: Guarantee,
    crossing: Rule, unlabelled: Any, options: dict[str, Any], known: dict[str, Any],
) -> list[Calibration]:  # fmt: skip
    """Calibrate with a dask array: count its chunks where they are, and add up what was counted."""
    if unlabelled is not None:
        raise InputError("unlabelled", "cannot be used with a dask array", remedy="leave it out")
    rows = open_lazy(probs, **options)
    model, names = informative_noise(noise, rows.n, rows.k), check_classes(options["classes"], rows.k)
    counted, widths, several = count_lazy(rows, labels, model, score, names, guarantee.needs_squares)
    guarantee.check_several(several=several is not None)
    known = known | {"classes": names, "widths": widths, "several": several}
    known["from_logits"] = options["from_logits"]
    return calibrations(counted, guarantee, model, alphas, crossing, **known)


def noise_is_missing() -> InputError:
    """Return what to say where nothing is said of the noise, and no labels were checked."""
    return InputError(
        "noise",
        "can be left out only where some labels were checked",
        remedy="pass these as clean=, or noise=None for labels that are right",
    )


def chosen_guarantee(
    guarantee: str | Guarantee | None, delta: float | None, noise: Noise | None, *, again: bool = True,
    several: bool = False,
) -> Guarantee:  # fmt: skip
    """Return the guarantee that is meant: as named, or by default the tightest one that can be found.

    `again` says whether the points can be looked at again, in a random order, and `several` whether they have
    several labels each.
    """
    if guarantee is None:
        guarantee = "split" if noise is None else "pac" if again else "expected"
        if not again and not several and noise is not None and noise.is_uniform:
            guarantee = "binomial"
    found = as_guarantee(guarantee, delta)
    if found.needs_points and not again:

        def works(other: Guarantee) -> bool:
            one_label = other.takes_several or not several
            return one_label and not other.needs_points and other.applies(noise, "last") is None

        raise InputError(
            "guarantee",
            f'"{found.name}" looks at the points in a random order, which a stream or a dask array has not',
            remedy=f"use {names_of(works)}",
        )
    return found


def informative_noise(noise: NoiseLike, n: int, k: int) -> Noise | None:
    """Return the noise model for k classes; refuse one under which n labels say nothing."""
    model = noise_for(noise, k)
    refusal = None if model is None else model.informative(n, k)
    if refusal is not None:
        raise refusal
    return model
