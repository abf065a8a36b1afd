"""`calibrate`: check the points, find the threshold, return a `Calibration`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from nacp.audit.checked_calibration import calibrate_checked, for_checked
from nacp.audit.plan import AuditPlan
from nacp.calibration import Calibration, calibrations, seen, warn_of_obstacles
from nacp.checks import check_alphas, check_choice, check_count, check_flag
from nacp.coverage.counted import Counted, count_lazy
from nacp.coverage.curve import RULES, Rule
from nacp.coverage.tally import Sample, Tally
from nacp.errors import InputError
from nacp.groups.grouped_calibration import SMALL, Asked, GroupedCalibration, calibrate_groups
from nacp.groups.grouping import open_grouping
from nacp.guarantees import Guarantee, as_guarantee, names_of
from nacp.noise import (
    UNSAID,
    Noise,
    NoiseLike,
    Unsaid,
    as_noise,
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


class _Options(TypedDict, total=False):
    noise: NoiseLike | Mapping[Any, NoiseLike] | Unsaid
    noise_groups: ArrayLike | None
    clean: Any
    audit: AuditPlan | None
    score: ScoreLike
    guarantee: str | Guarantee | None
    delta: float | None
    crossing: Rule
    classes: Any
    normalize: bool
    from_logits: bool
    random_state: int | None
    unlabelled: ArrayLike | None


class _Together(_Options, total=False):
    groups: None
    by: None


class _ByGroup(_Options, total=False):
    groups: Any
    by: Literal["class"] | None
    simultaneous: bool
    small: Literal["error", "all", "merge"]


@overload
def calibrate(
    probs: ArrayLike, labels: ArrayLike | None, *, alpha: float = 0.1, **options: Unpack[_Together]
) -> Calibration: ...
@overload
def calibrate(
    probs: ArrayLike, labels: ArrayLike | None, *, alpha: Sequence[float], **options: Unpack[_Together]
) -> list[Calibration]: ...
@overload
def calibrate(
    probs: ArrayLike, labels: ArrayLike | None, *, alpha: float = 0.1, **options: Unpack[_ByGroup]
) -> GroupedCalibration: ...
@overload
def calibrate(
    probs: ArrayLike, labels: ArrayLike | None, *, alpha: Sequence[float], **options: Unpack[_ByGroup]
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
    """Find the threshold of prediction sets from a calibration set with noisy labels.

    Parameters
    ----------
    probs : array of shape (n, k) or TopRows
        The class probabilities of the calibration points, in float16, bfloat16, float32 or float64. Use the
        precision in which you will predict. Rows must sum to 1 within 0.001 (16-bit types: within 0.01)
        unless `normalize` is set. Rows are read in blocks and never copied as a whole, so a memory-mapped
        array or a dask array (with whole rows in each chunk) can be much larger than memory. `TopRows`
        contain only the top entries of each row; the entries that a scipy.sparse array omits are 0.
    labels : array of shape (n,) or (n, a)
        The noisy labels: integers from 0 to k - 1, or names from `classes`. Use one column per annotator if
        points have several labels, with -1, NaN, None or a mask where one is missing; `noise` then applies to
        every column, or is an `AnnotatorNoise` with one model per column. Several labels work with "pac",
        "expected", "nacp", "none" and "split", without `clean`. Do not repeat points in several rows instead:
        every promise assumes independent points. ``None``, with `clean`: use the checked labels only.
    noise : float, array of shape (k, k), noise model, dict of these or None
        How the given labels differ from the true ones. A float stands for `UniformNoise`, a matrix for
        `MatrixNoise`; ``None`` means that the labels are used as they are. Optional with `clean`: the model
        then only helps to divide the points into strata, which slightly affects the size of the sets, and the
        promise holds for any model chosen without looking at these points and their checked labels.
    noise_groups : array of shape (n,), optional
        The group of each row, if the noise differs between known groups such as annotators, sites or batches.
        `noise` is then a dict with one model per group, for example
        ``{"site A": 0.1, "site B": nacp.MatrixNoise(P)}``. New rows need no group.
    clean : array of shape (n,) or pair (rows, labels), optional
        The true labels of points that were drawn at random and checked: one entry per point, with -1, NaN,
        None or a mask for points that were not checked, or row numbers and their labels. "?" marks a point
        whose true label could not be decided; it counts as not covered. With `clean`, nothing is assumed
        about the noise. For "pac", "expected" and "none". Of a dask array only the checked rows are used.
    audit : AuditPlan, optional
        The plan returned by `choose_audit`, if it selected the checked points.
    alpha : float or sequence of float, default=0.1
        The share of true labels that the sets may miss: the target coverage is 1 - alpha. A sequence gives a
        list of calibrations. A promise with a delta holds for each alpha separately; if it must hold for all
        of them, or for one that is chosen afterwards, divide delta by their number. "nacp" holds for all
        alphas at once.
    score : str, score or callable, default="hps"
        "hps" (also called "lac" or "thr"), "aps", "raps", "saps", "margin" or "topk"; a score object, to set
        its parameters; a function from probabilities to scores; or "precomputed", if `probs` holds scores.
    guarantee : str or guarantee, optional
        The rule that selects the threshold: "pac", "binomial", "expected", "nacp", "acnl", "crcp", "none" or
        "split". The default is "pac"; for ``noise=None`` it is "split", split conformal prediction. A dask
        array cannot be shuffled for "pac", so the default there is "binomial" for uniform noise and one label
        per point, and "expected" otherwise. "binomial" requires uniform noise.
    delta : float, optional
        The probability with which the promise may fail, for "pac" (default 0.05), "binomial" (0.05) and
        "nacp" (0.001). The other guarantees have none.
    crossing : {"last", "first"}, default="last"
        Which threshold to use if the estimated coverage crosses the target several times. "last": the
        smallest threshold from which on the estimate stays at or above the target (the paper's "largest
        solution"). "first": the smallest threshold at which the estimate reaches the target.
    classes : sequence of length k, optional
        The class names, in the order of the columns of `probs`. The default is the column names, if `probs`
        is a table. `labels` must then be names; numbers are accepted if the names are numbers.
    normalize : bool, default=False
        Divide each row of `probs` by its sum, here and in `predict_set`.
    from_logits : bool, default=False
        `probs` holds logits or log-probabilities, here and in `predict_set`. Their softmax is computed in
        float64.
    random_state : int, optional
        The seed, 0 by default. It determines the order of the points in "pac", the pilot with `clean`, and
        the tenth of the points that ``small="merge"`` sets aside. Choose it before you see the labels.
    unlabelled : array of shape (m, k), optional
        Probabilities of further points without labels. They make the sets of "binomial" smaller.
    groups : array of shape (n,) or mapping, optional
        Find a threshold for each group, so that coverage is promised within it. Pass a name or number for
        each row (such as a hospital or a language), which new rows then need too, or a mapping from classes
        to groups of classes.
    by : {"class"}, optional
        ``"class"``: each class is a group.
    simultaneous : bool, default=False
        Whether the promise must hold for all groups at once: delta is then divided by their number. By
        default it holds for each group separately.
    small : {"error", "all", "merge"}, default="error"
        What to do with groups that have too few points. "error": raise an error. "all": their sets hold all
        labels. "merge": pool them into one group. A random tenth of the points then decides which groups are
        small; these points are not used otherwise. "merge" after an error, on the same points, may double
        delta.

    Returns
    -------
    Calibration, or a list of them if `alpha` is a sequence
        With groups: `GroupedCalibration`.

    Warns
    -----
    NoValidThresholdWarning
        If no threshold keeps the promise. The sets then hold all classes.
    NoiseModelWarning
        If the labels contradict the noise model. The message is also in ``Calibration.warnings``.
    RepeatedRowsWarning
        If rows occur several times, as if points had been repeated for each of their labels.

    See Also
    --------
    coverage_curve : The estimates behind the threshold.
    evaluate : Coverage and size of prediction sets, measured with clean labels.

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
        argument = "simultaneous" if simultaneous else "small"
        raise InputError(
            argument, "has no effect without groups", remedy="pass groups= or by=",
            spoken="give --groups or --by class",
        )  # fmt: skip
    check_aligned(labels, probs, said="labels")
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
        rows = open_rows(probs, **options)
        noise, places = noise_by_group(noise, noise_groups, rows.n, rows.k, classes)
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
        raise InputError("unlabelled", f'is used by guarantee "binomial" only, and guarantee is {chosen!r}')
    if lazy and (groups is not None or by is not None):
        in_memory("probs", probs, "with groups")
    known: dict[str, Any] = {"normalize": normalize, "noise_basis": getattr(noise, "basis", None)}
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
    model = noise_for(noise, rows.k, rows.n, names)
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
        extra = open_rows(unlabelled, **options, k=rows.k, name="unlabelled", widths=rows.widths)
        more = Tally.of_rows(extra, score.spec)
    counted = Counted.of(sample, model, squares=chosen.needs_squares, more=more)
    found = calibrations(counted, chosen, model, alphas, crossing, sample, seed, **known)
    warn_of_obstacles(found)
    return found[0] if np.ndim(alpha) == 0 else found


def _calibrate_lazy(
    probs: Any, labels: Any, noise: NoiseLike, alphas: list[float], score: Score, guarantee: Guarantee,
    crossing: Rule, unlabelled: Any, options: dict[str, Any], known: dict[str, Any],
) -> list[Calibration]:  # fmt: skip
    """Calibrate with a dask array: tally each chunk where it is stored, and add the tallies."""
    if unlabelled is not None:
        raise InputError("unlabelled", "cannot be used with a dask array", remedy="leave it out")
    rows = open_lazy(probs, **options)
    names = check_classes(options["classes"], rows.k)
    model = noise_for(noise, rows.k, rows.n, names)
    chunk = count_lazy(rows, labels, model, score, names, guarantee.needs_squares)
    guarantee.check_several(several=chunk.several is not None)
    known = known | {"classes": names, "widths": chunk.widths, "several": chunk.several}
    known["from_logits"] = options["from_logits"]
    return calibrations(chunk.counted(model, score), guarantee, model, alphas, crossing, **known)


def noise_is_missing() -> InputError:
    """Return the error for a call with neither `noise` nor checked labels."""
    return InputError(
        "noise",
        "can be left out only where some labels were checked",
        remedy="pass these as clean=, or noise=None for correct labels",
    )


def chosen_guarantee(
    guarantee: str | Guarantee | None, delta: float | None, noise: Noise | None, *, again: bool = True,
    several: bool = False,
) -> Guarantee:  # fmt: skip
    """Return the guarantee that was requested, or else the default.

    `again` says whether the points can be read a second time, in a random order; `several` says whether each
    point has several labels.
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
