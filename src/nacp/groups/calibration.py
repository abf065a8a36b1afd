"""Calibration by group: each by itself, or small ones together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nacp._types import Bools, Floats, Ints
from nacp.calibration import Calibration
from nacp.coverage.contradiction import against, warn_of
from nacp.coverage.curve import Rule
from nacp.coverage.sample import Sample
from nacp.errors import InputError, warn
from nacp.groups.classes import class_curves
from nacp.groups.grouping import Grouping
from nacp.groups.result import GroupedCalibration
from nacp.guarantees import Finding, Guarantee
from nacp.marginal import (
    Counted,
    NoValidThresholdWarning,
    calibration_of,
    calibrations,
    lowest_end,
    weights_under,
)
from nacp.noise import Noise, UniformNoise
from nacp.stats.intervals import exact_share
from nacp.wrapping import counted

SMALL = ("error", "all", "merge")
# This part of the points says which groups are small, if these are to be merged, and so unsure may it be.
_ASIDE, _UNSURE = 10, 0.05


def check_grouping(
    grouping: Grouping,
    guarantee: Guarantee,
    noise: Noise | None,
    *,
    several: bool,
    simultaneous: bool,
) -> None:
    """Refuse what cannot be found for groups."""
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
    if not guarantee.takes_groups_of_classes and len(grouping.names) < len(grouping.places):
        raise InputError(
            "guarantee", f'"{guarantee.name}" holds for each class by itself, not for groups of classes'
        )
    if several:
        raise InputError("labels", "must be one for each point where groups are of classes")
    if noise is not None and noise.doubt.radius:
        raise InputError(
            "noise", "must be known exactly, or up to an interval, where groups are of classes",
            found=repr(noise), remedy="pass its P, which is then taken to be exact",
        )  # fmt: skip


def calibrate_groups(
    sample: Sample, grouping: Grouping, guarantee: Guarantee, noise: Noise | None,
    alpha: float | Sequence[float], alphas: Sequence[float], crossing: Rule, seed: int, *,
    simultaneous: bool, small: str, unlabelled: Any = None, **known: Any,
) -> GroupedCalibration | list[GroupedCalibration]:  # fmt: skip
    """Calibrate by group; `known` are fields of all calibrations."""
    if unlabelled is not None:
        raise InputError("unlabelled", "cannot be used with groups: the group of these points is unknown")
    check_grouping(grouping, guarantee, noise, several=sample.several, simultaneous=simultaneous)
    n, aside = sample.n, np.zeros(0, dtype=np.int64)
    names, places, pooled = grouping.names, grouping.places, np.zeros(len(grouping.names), dtype=bool)
    whole = Counted.of(sample, lowest_end(noise)[0])
    said = against(whole.curve(*lowest_end(noise)), noise, sample.score.offset, known["classes"])
    known = known | {"random_state": seed, "alphas": len(alphas), "warnings": said}
    if small == "merge":
        if grouping.of_classes and not guarantee.takes_groups_of_classes:
            raise InputError(
                "small",
                f'must be "error" or "all" with guarantee "{guarantee.name}" by class',
                found='"merge"',
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
    calibrated = _by_classes if grouping.of_classes else _by_rows
    found = calibrated(sample, each, noise, alphas, crossing, seed, tested[places], number, known)
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
            refuse_small(result, noise, grouping)
    return announced(results, alpha)


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


def _by_rows(
    sample: Sample, guarantee: Guarantee, noise: Noise | None, alphas: Sequence[float], crossing: Rule,
    seed: int, places: Ints, number: int, known: dict[str, Any],
) -> list[list[Calibration]]:  # fmt: skip
    """Calibrate each group with its rows alone; return for each alpha one for each group."""
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(number + 1))
    by_group = []
    for rows in np.split(order, ends[1:-1]):
        if not len(rows):
            nothing = Finding(np.inf, 1.0, obstacle="no calibration point is of this group")
            by_group.append(
                [
                    calibration_of(
                        guarantee, noise, alpha, crossing, nothing, n=0, k=sample.k, score=sample.score,
                        **known,
                    )
                    for alpha in alphas
                ]
            )  # fmt: skip
            continue
        some = sample.some(rows)
        counted_here = Counted.of(some, noise, squares=guarantee.needs_squares)
        known_here = {name: value for name, value in known.items() if name not in ("random_state", "alphas")}
        if some.several:
            known_here["several"] = some.given
        by_group.append(
            calibrations(counted_here, guarantee, noise, alphas, crossing, some, seed, **known_here)
        )
    return [list(cals) for cals in zip(*by_group, strict=True)]


def _by_classes(
    sample: Sample, guarantee: Guarantee, noise: Noise | None, alphas: Sequence[float], crossing: Rule,
    seed: int, places: Ints, number: int, known: dict[str, Any],
) -> list[list[Calibration]]:  # fmt: skip
    """Calibrate groups of classes, all with all rows; return for each alpha one for each group."""
    weights = weights_under(noise, sample.k, several=False)
    models = [lowest_end(noise)[0]] if noise is None or noise.doubt.exact else noise.doubt.ends
    ways, sizes = [], np.bincount(places[sample.labels[:, 0]], minlength=number).tolist()
    for model in models:
        by_alpha = class_curves(sample, weights[model], model, places, number, list(alphas))
        curves = [curve for curves in by_alpha for curve in curves]
        each_alpha = [alpha for alpha in alphas for _ in range(number)]
        ways.append(guarantee.find(curves, each_alpha, crossing, sample, seed))
    results: list[list[Calibration]] = [[] for _ in alphas]
    for i, way in enumerate(zip(*ways, strict=True)):
        a, g = divmod(i, number)
        finding = max(way, key=lambda each: each.threshold)
        finding = finding._replace(gap=max(each.gap for each in way))
        results[a].append(
            calibration_of(
                guarantee, noise, alphas[a], crossing, finding, n=sizes[g], k=sample.k, score=sample.score,
                **known,
            )
        )  # fmt: skip
    return results


def _small(
    sample: Sample, grouping: Grouping, aside: Ints, guarantee: Guarantee, noise: Noise | None, alpha: float
) -> Bools:
    """Return which groups are too small, by the points that were put aside: these say no more than that."""
    of_classes, names = grouping.of_classes, grouping.names
    needed = guarantee.points_needed(noise, sample.k, alpha, of_classes=of_classes)
    if not of_classes:
        sizes: Floats = np.bincount(grouping.places[aside], minlength=len(names)).astype(np.float64)
    else:
        inverse = (UniformNoise(0.0) if noise is None else noise).inverse(sample.k)
        counts = np.bincount(sample.labels[aside, 0], minlength=sample.k).astype(np.float64)
        sizes = np.bincount(grouping.places, inverse.push(counts), len(names)).astype(np.float64)
    if guarantee.delta is None:  # then no fewer would do
        seen = np.full(len(names), len(aside))
        sizes = seen * exact_share(np.clip(sizes, 0, seen), seen, _UNSURE / len(names))[0]
    return ~np.asarray(sizes * (_ASIDE - 1) >= (math.inf if needed is None else needed))


def refuse_small(result: GroupedCalibration, noise: Noise | None, grouping: Grouping) -> None:
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
    needed = each.points_needed(noise, result.k, result.alpha, of_classes=grouping.of_classes)
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
