"""Who belongs to which group, and how groups are calibrated: each by itself, or small ones together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nacp._types import Bools, Floats, Ints
from nacp.calibration import Calibration
from nacp.checked import checked_calibrations, guessing_noise
from nacp.contradicted import against, warn_of
from nacp.coverage import Rule, Sample
from nacp.coverage.audit import Audit, deal
from nacp.coverage.audited import AuditedCoverage
from nacp.coverage.lazy import ask_each, parted
from nacp.coverage.parted import PartedCoverage, RowPartedCoverage
from nacp.errors import InputError, warn
from nacp.grouped import GroupedCalibration
from nacp.guarantees import Finding, Found, Guarantee, Problem, find
from nacp.guarantees.possible import may_pass
from nacp.marginal import NoValidThresholdWarning, calibration_of
from nacp.noise import Noise, NoiseLike, UniformNoise, Unsaid
from nacp.points import Rows, check_class_groups, check_row_groups
from nacp.stats.bounds import floor
from nacp.stats.intervals import exact_share
from nacp.wrapping import counted

SMALL = ("error", "all", "merge")
# This part of the points says which groups are small, if these are to be merged, and so unsure may it be.
_ASIDE, _UNSURE = 10, 0.05
# Groups of rows with fewer pairs on average than this are calibrated at once, with these guarantees.
_FEW, _AT_ONCE = 1 << 14, ("none", "split", "expected")


class Grouping(NamedTuple):
    """Groups: their names, and the group of each row or of each class."""

    names: tuple[Any, ...]
    places: Ints
    of_classes: bool


def open_grouping(groups: Any, by: Any, n: int, k: int, classes: tuple[Any, ...] | None) -> Grouping | None:
    """Return the groups that are meant; None if none are."""
    if by is not None:
        if by != "class":
            raise InputError(
                "by", 'must be "class"', found=repr(by), remedy="other groups are passed as groups="
            )
        if groups is not None:
            raise InputError("by", "says what the groups are, and so does groups", remedy="pass one of them")
        names = tuple(range(k)) if classes is None else classes
        return Grouping(names, np.arange(k), True)
    if groups is None:
        return None
    if isinstance(groups, Mapping):
        return Grouping(*check_class_groups(groups, k, classes), True)
    return Grouping(*check_row_groups(groups, n), False)


def check_grouping(
    grouping: Grouping,
    guarantee: Guarantee,
    noise: Noise | None,
    labels: Ints,
    simultaneous: bool,
    unlabelled: Rows | None = None,
) -> None:
    """Refuse what cannot be found for groups."""
    if unlabelled is not None:
        raise InputError("unlabelled", "cannot be used with groups: nobody knows of which its points are")
    if simultaneous and guarantee.delta is None:
        raise InputError(
            "simultaneous", f'has no effect on guarantee "{guarantee.name}", which has no delta to divide'
        )
    if not grouping.of_classes:
        return
    if not guarantee.takes_classes:
        raise InputError(
            "guarantee",
            f'"{guarantee.name}" cannot be found for groups of classes',
            remedy='use "pac", "expected", "none", or "acnl" by class',
        )
    if guarantee.name == "acnl" and len(grouping.names) < len(grouping.places):
        raise InputError("guarantee", '"acnl" holds for each class by itself, not for groups of classes')
    if labels.ndim == 2:
        raise InputError(
            "labels", "must be one for each point where groups are of classes", found=f"{labels.shape}"
        )
    if noise is not None and noise.doubt.radius:
        raise InputError(
            "noise", "must be known exactly, or up to an interval, where groups are of classes",
            found=repr(noise), remedy="pass its P, which is then taken to be exact",
        )  # fmt: skip


def grouped_calibrations(
    sample: Sample,
    guarantee: Guarantee,
    noise: Noise | None,
    alphas: Sequence[float],
    crossing: Rule,
    seed: int,
    grouping: Grouping,
    *,
    simultaneous: bool,
    small: str,
    **known: Any,
) -> list[GroupedCalibration]:
    """Return for each alpha a calibration by group; `known` are fields of all calibrations."""
    n, aside = sample.n, np.zeros(0, dtype=np.int64)
    names, places, pooled = grouping.names, grouping.places, np.zeros(len(grouping.names), dtype=bool)
    said = sample.ask(against(sample, noise, known["classes"]))
    known = known | {"random_state": seed, "alphas": len(alphas), "warnings": said}
    if small == "merge":
        if grouping.of_classes and guarantee.name == "acnl":
            raise InputError(
                "small", 'must be "error" or "all" with guarantee "acnl" by class', found='"merge"'
            )
        aside, rest = np.split(np.random.default_rng([seed, 2]).permutation(n), [n // _ASIDE])
        rest.sort()
        pooled = _small(sample, grouping, aside, guarantee, noise, min(alphas))
        sample = sample.some(rest)
        places = places if grouping.of_classes else places[rest]
    # The tested groups: each by itself, and at last those that are pooled.
    tested = np.cumsum(~pooled) - 1
    number = int(tested[-1]) + 1 + bool(pooled.any())
    tested[pooled] = number - 1
    each = guarantee
    if simultaneous and guarantee.delta is not None:
        each = replace(guarantee, delta=guarantee.delta / number)  # type: ignore[type-var]  # a dataclass
    find_each = _of_classes if grouping.of_classes else _of_rows
    found = find_each(sample, each, noise, alphas, crossing, seed, tested[places], number, known)
    results = [
        GroupedCalibration(
            names,
            tuple(cals[g] for g in tested),
            guarantee,
            n,
            tuple(places.tolist()) if grouping.of_classes else None,
            simultaneous,
            tuple(name for name, one in zip(names, pooled, strict=True) if one),
            len(aside),
        )
        for cals in found
    ]
    if small == "error":
        for result in results:
            _refuse_small(result, noise, grouping)
    return results


def checked_groups(
    sample: Sample,
    audit: Audit,
    guarantee: Guarantee,
    noise: NoiseLike | Unsaid,
    alphas: Sequence[float],
    seed: int,
    grouping: Grouping,
    *,
    simultaneous: bool,
    small: str,
    classes: tuple[Any, ...] | None,
    normalize: bool,
) -> list[GroupedCalibration]:
    """Return for each alpha a calibration by group of rows, from checked labels."""
    if grouping.of_classes:
        raise InputError(
            "clean", "cannot be used for groups of classes",
            remedy="calibrate with the checked points alone, and noise=None",
            spoken='calibrate with the checked points alone, and "--noise none"',
        )  # fmt: skip
    if audit.plan is not None:
        raise InputError("audit", "chose points for all groups together", remedy="check labels at random")
    if small == "merge":
        raise InputError("small", 'must be "error" or "all" with checked labels', found='"merge"')
    check_grouping(grouping, guarantee, None, sample.labels, simultaneous)
    if audit.given is not None:
        grouping = grouping._replace(places=grouping.places[audit.given[1]])
    number, each = len(grouping.names), guarantee
    if simultaneous and guarantee.delta is not None:
        each = replace(guarantee, delta=guarantee.delta / number)  # type: ignore[type-var]  # a dataclass
    by_group = []
    for g in range(number):
        rows = np.flatnonzero(grouping.places == g)
        which = grouping.places[audit.rows] == g
        if which.any():
            some, places = sample.some(rows), np.searchsorted(rows, audit.rows[which])
            dealt = deal(some.n, some.k, places, audit.labels[which], seed)
            matrix = guessing_noise(some, noise, dealt.pilot).matrix(some.k)
            coverage = AuditedCoverage(some, dealt, matrix)
            by_group.append(
                checked_calibrations(coverage, each, alphas, seed, classes=classes, normalize=normalize)
            )
        else:
            finding = Finding(np.inf, 1.0, 0.0, "none of its labels were checked")
            nothing = Found(finding, None)  # type: ignore[arg-type]  # without labels there is no coverage
            by_group.append(
                [
                    calibration_of(
                        sample, each, None, alpha, "last", nothing, len(rows), checked=0, random_state=seed,
                        classes=classes, normalize=normalize, alphas=len(alphas),
                    )
                    for alpha in alphas
                ]
            )  # fmt: skip
    results = [
        GroupedCalibration(grouping.names, tuple(cals), guarantee, sample.n, None, simultaneous)
        for cals in zip(*by_group, strict=True)
    ]
    if small == "error":
        for result in results:
            _refuse_small(result, None, grouping)
    return results


def announced(
    found: list[GroupedCalibration], alpha: float | Sequence[float]
) -> GroupedCalibration | list[GroupedCalibration]:
    """Return calibrations by group; warn where no threshold keeps the promise, or of the noise model."""
    for cal in found:
        if cal.infinite:
            shown = ", ".join(map(str, cal.infinite[:5])) + (", ..." if len(cal.infinite) > 5 else "")
            warn(
                f"no threshold keeps the promise in {len(cal.infinite):,} of {len(cal.names):,} groups "
                f"({shown}), so their sets hold all labels: {cal.groups[cal.infinite[0]].obstacle}",
                NoValidThresholdWarning,
            )
    warn_of(found[0].warnings)
    return found[0] if np.ndim(alpha) == 0 else found


def _of_rows(
    sample: Sample, guarantee: Guarantee, noise: Noise | None, alphas: Sequence[float], crossing: Rule,
    seed: int, places: Ints, number: int, known: dict[str, Any],
) -> list[list[Calibration]]:  # fmt: skip
    """Calibrate each group with its rows alone; return for each alpha one for each group.

    Many small groups at once, where the guarantee can be: each by itself takes some milliseconds.
    """
    exact = noise is None or (len(noise.doubt.ends) == 1 and not noise.doubt.radius)
    alike = exact and sample.parts is None and sample.here
    if guarantee.name in _AT_ONCE and alike and sample.n * sample.k < number * _FEW:
        arguments = sample, guarantee, noise, alphas, crossing, seed, places, number, known
        return _of_classes(*arguments, kind=RowPartedCoverage)
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(number + 1))
    needed = [points_needed(guarantee, noise, sample.k, alpha, of_classes=False) for alpha in alphas]
    may = sample.ask(may_pass(sample, guarantee, noise, alphas, places, number))
    by_group: list[list[Calibration]] = []
    for samples in parted(sample, np.split(order, ends[1:-1])):
        open_groups = may[len(by_group) :][: len(samples)]
        asked = [some for some, passing in zip(samples, open_groups, strict=True) if passing]
        talks = [find(guarantee, some, noise, alphas, crossing, seed) for some in asked]
        answers = iter(ask_each(asked, talks))
        for some, passing in zip(samples, open_groups, strict=True):
            found = (
                next(answers)
                if passing
                else [Found(_nothing(some.n, guarantee.name, each), None) for each in needed]  # type: ignore[arg-type]
            )
            by_group.append(
                [
                    calibration_of(some, guarantee, noise, alpha, crossing, at, **known)
                    for alpha, at in zip(alphas, found, strict=True)
                ]
            )
    return [list(cals) for cals in zip(*by_group, strict=True)]


def _nothing(n: int, name: str, needed: int | None) -> Finding:
    """Return what is found where there are so few points that no look at them would help."""
    if not n:
        return Finding(np.inf, 1.0, 0.0, RowPartedCoverage.absent)
    advice = "no number of points would do" if needed is None else f"about {needed:,} points should do"
    why = f'with {counted(n, "point")} no smaller sets pass the test of guarantee "{name}"; {advice}'
    return Finding(np.inf, 1.0, 0.0, why, deviation=0.0)


def _of_classes(
    sample: Sample, guarantee: Guarantee, noise: Noise | None, alphas: Sequence[float], crossing: Rule,
    seed: int, places: Ints, number: int, known: dict[str, Any],
    kind: type[PartedCoverage] = PartedCoverage,
) -> list[list[Calibration]]:  # fmt: skip
    """Calibrate groups of classes, all with all rows; return for each alpha one for each group."""
    ends = (UniformNoise(0.0),) if noise is None else noise.doubt.ends
    coverages = [kind(sample, end.inverse(sample.k), places, number) for end in ends]
    results = []
    for alpha in alphas:
        needed = points_needed(guarantee, noise, sample.k, alpha, of_classes=kind is PartedCoverage)
        ways = [sample.ask(guarantee.find_parted(each, alpha, crossing, seed)) for each in coverages]
        cals = []
        for points, *found in zip(coverages[0].counts.tolist(), *ways, strict=True):
            way = found[0]
            if len(found) > 1:
                way = max(found, key=lambda at: at.threshold)._replace(gap=max(at.gap for at in found))
            if way.obstacle is not None and needed is not None and 0 < points < needed:
                way = way._replace(obstacle=f"{way.obstacle}; about {needed:,} points should do")
            at = Found(way, None)  # type: ignore[arg-type]  # groups have no coverage of their own
            cals.append(calibration_of(sample, guarantee, noise, alpha, crossing, at, points, **known))
        results.append(cals)
    return results


def _small(
    sample: Sample, grouping: Grouping, aside: Ints, guarantee: Guarantee, noise: Noise | None, alpha: float
) -> Bools:
    """Return which groups are too small, by the points that were put aside: these say no more than that."""
    of_classes, names = grouping.of_classes, grouping.names
    needed = points_needed(guarantee, noise, sample.k, alpha, of_classes=of_classes)
    if not of_classes:
        sizes: Floats = np.bincount(grouping.places[aside], minlength=len(names)).astype(np.float64)
    else:
        inverse = (UniformNoise(0.0) if noise is None else noise).inverse(sample.k)
        counts = np.bincount(sample.labels[aside], minlength=sample.k).astype(np.float64)
        sizes = np.bincount(grouping.places, inverse.push(counts), len(names)).astype(np.float64)
    if guarantee.delta is None:  # then no fewer would do
        seen = np.full(len(names), len(aside))
        sizes = seen * exact_share(np.clip(sizes, 0, seen), seen, _UNSURE / len(names))[0]
    return ~np.asarray(sizes * (_ASIDE - 1) >= (math.inf if needed is None else needed))


def points_needed(
    guarantee: Guarantee, noise: Noise | None, k: int, alpha: float, *, of_classes: bool
) -> int | None:
    """Return about how many points a group needs for smaller sets than those of all labels.

    None if no number would do. With a delta, that is where half of alpha is left.

    Examples
    --------
    >>> import nacp
    >>> from nacp.grouping import points_needed
    >>> 300 < points_needed(nacp.PAC(0.05), nacp.UniformNoise(0.2), 10, 0.1, of_classes=True) < 400
    True
    """
    model = UniformNoise(0.0) if noise is None else noise
    inverse, n = model.inverse(k), 1000
    problem = Problem(alpha, n, noise, inverse, np.full(k, n / k))
    if guarantee.delta is None:
        if not of_classes:
            return guarantee.samples_needed(problem, alpha, 0.0)
        widest = {
            "none": 0.0,
            "split": 1 - alpha,
            "expected": max(1.0, float(inverse.diagonal.max())) * (1 - alpha),
        }
        return max(1, math.ceil(widest[guarantee.name] / alpha)) if guarantee.name in widest else None
    deviation = class_deviation(model, k, alpha) if of_classes else problem.small_set_deviation
    if not of_classes:
        return guarantee.samples_needed(problem, alpha / 2, deviation)
    return max(1, math.ceil((floor(guarantee.delta, deviation, 1) / (alpha / 2)) ** 2))


def class_deviation(noise: Noise, k: int, alpha: float) -> float:
    """Return ``sd(s) / sqrt(p(G))`` of one class G, for small sets and equally frequent classes.

    The excess of a class with m points is about ``z_{1-delta}`` times this, divided by ``sqrt(m)``. Its own
    points vary as hits do; points of other classes that are labelled as of it are misses.
    """
    matrix, inverse = noise.matrix(k), noise.inverse(k)
    own = matrix.mean_square(inverse)
    every = inverse.square_sum(matrix.push(np.ones(k))) / k
    return math.sqrt(own * alpha * (1 - alpha) + (every - own) * (1 - alpha) ** 2)


def _refuse_small(result: GroupedCalibration, noise: Noise | None, grouping: Grouping) -> None:
    """Refuse a result in which groups are too small, and say what may be done."""
    if not result.infinite:
        return
    some = [(name, cal) for name, cal in result.groups.items() if cal.obstacle is not None]
    checked = some[0][1].checked is not None
    points = [(cal.checked if checked else cal.n) or 0 for _, cal in some]
    what = "checked label" if checked else "point"
    shown = ", ".join(
        f"{name!r} ({counted(number, what)})" for (name, _), number in zip(some[:5], points[:5], strict=True)
    )
    more = f" and {len(some) - 5:,} more" if len(some) > 5 else ""
    each = result.calibrations[0].guarantee
    needed = points_needed(each, noise, result.k, result.alpha, of_classes=grouping.of_classes)
    # Those with enough points are not pooled, and some must be left when a tenth was put aside.
    few = [number for number in points if needed is not None and not checked and number < needed]
    pools = len(few) > 1 and sum(few) * (_ASIDE - 1) >= (needed or 0) * _ASIDE
    pool, spoken = (f", or {way} to pool them" * pools for way in ('small="merge"', '"--small merge"'))
    about = f": {some[0][1].obstacle}"
    if needed is not None and points[0] < needed:
        about = f"; a group needs about {counted(needed, what)}"
    raise InputError(
        "groups" if result.members is None or len(result.names) < result.k else "by",
        f"has {len(some):,} of {len(result.names):,} groups in which no threshold keeps the promise, as "
        f"{shown}{more}{about}",
        remedy=f'pass small="all" for sets of all labels there{pool}',
        spoken=f'pass "--small all" for sets of all labels there{spoken}',
    )
