"""A threshold for each group, of rows or of classes: how it is found, and what it promises."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Bools, Floats, Ints
from nacp.calibration import Calibration, NoValidThresholdWarning, calibration_of, calibrations, seen
from nacp.coverage.agreement import warning_of
from nacp.coverage.contradiction import against, warn_of
from nacp.coverage.counted import Counted, weights_under
from nacp.coverage.curve import Rule, inverse_of
from nacp.coverage.tally import Sample
from nacp.errors import InputError, warn
from nacp.groups.class_curve import class_curves
from nacp.groups.grouping import Grouping, known_groups
from nacp.guarantees import Finding, Guarantee, names_of
from nacp.noise import Noise
from nacp.points import Rows, check_aligned
from nacp.points.arrays import is_lazy
from nacp.points.lazy import LazyRows, open_lazy
from nacp.sets import PredictionSets, predicted
from nacp.stats.intervals import exact_share
from nacp.wrapping import counted, wrapped

if TYPE_CHECKING:
    from nacp.advice.diagnosis import Diagnosis, GroupedDiagnosis
    from nacp.scores import Score

SMALL = ("error", "all", "merge")
# With small="merge", a tenth of the points decides which groups are small. If a guarantee has no delta, a
# group counts as large only if that is wrong with at most the probability _UNSURE.
_ASIDE, _UNSURE = 10, 0.05
_SHOWN = 30  # How many groups are shown one by one.


@dataclass(frozen=True)
class GroupedCalibration:
    """A threshold for each group and what it promises; made by `calibrate` with ``groups=`` or ``by=``.

    Attributes
    ----------
    names : tuple
        The names of the groups.
    calibrations : tuple of Calibration
        One for each group; pooled groups have the same one. Its `n` is the number of points of the group, or
        of given labels that are of the group's classes.
    guarantee : Guarantee
        As given. If `simultaneous`, each guarantee of `calibrations` has a part of its delta.
    n, aside : int
        The number of calibration points, and of those that were only used to decide which groups are small.
    members : tuple of int or None
        For groups of classes: the place among `names` of each class's group. None for groups of rows.
    simultaneous : bool
        Whether the promise holds for all groups at once, or for each one separately.
    pooled : tuple
        The names of the groups that were pooled because they were too small.
    alpha, k, classes, score, noise, warnings
        Those of every calibration.

    Examples
    --------
    >>> import nacp
    >>> from nacp.paper import twins
    >>> probs, labels = twins.simulate("cifar10", n=8000, random_state=0)
    >>> noisy = nacp.UniformNoise(0.1).sample(labels, k=10, random_state=0)
    >>> hospital = ["north", "south", "south", "south"] * 2000
    >>> cal = nacp.calibrate(probs[:4000], noisy[:4000], noise=0.1, groups=hospital[:4000])
    >>> list(cal.thresholds)
    ['north', 'south']
    >>> sets = cal.predict_set(probs[4000:], groups=hospital[4000:])
    """

    names: tuple[Any, ...] = field(repr=False)
    calibrations: tuple[Calibration, ...] = field(repr=False)
    guarantee: Guarantee
    n: int
    members: tuple[int, ...] | None = field(default=None, repr=False)
    simultaneous: bool = False
    pooled: tuple[Any, ...] = field(default=(), repr=False)
    aside: int = 0

    @property
    def groups(self) -> dict[Any, Calibration]:
        """The calibration of each group, by its name."""
        return dict(zip(self.names, self.calibrations, strict=True))

    @property
    def thresholds(self) -> dict[Any, float]:
        """The threshold of each group, on the scale of the score."""
        return {name: cal.threshold for name, cal in self.groups.items()}

    @property
    def alpha(self) -> float:
        return self.calibrations[0].alpha

    @property
    def k(self) -> int:
        return self.calibrations[0].k

    @property
    def classes(self) -> tuple[Any, ...] | None:
        return self.calibrations[0].classes

    @property
    def score(self) -> Score:
        return self.calibrations[0].score

    @property
    def noise(self) -> Noise | None:
        return self.calibrations[0].noise

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.calibrations[0].warnings

    @property
    def infinite(self) -> tuple[Any, ...]:
        """The names of the groups in which no threshold keeps the promise; their sets hold all labels."""
        return tuple(name for name, cal in self.groups.items() if cal.obstacle is not None)

    @property
    def promise(self) -> str:
        """What is guaranteed, in one sentence."""
        number = len({id(cal) for cal in self.calibrations})
        what = "" if self.members is None else " of classes"
        where = f"each group{what} by itself"
        if self.simultaneous and number > 1:
            where = f"all {number:,} groups{what} at once (each was tested at delta/{number:,})"
        said = f"in {where}: {replace(self.calibrations[0], guarantee=self.guarantee).promise}"
        if len(self.pooled) > 1:
            said += f", where {listed(self.pooled)} are one group, as they are small"
        return said

    @property
    def assumptions(self) -> str:
        """What the promise rests on, in words."""
        cal = self.calibrations[0]
        if cal.checked is not None:
            cal = replace(cal, checked=sum(map(_points_of, self.calibrations)))
        said = cal.assumptions
        if self.members is None and self.noise is not None and not self.noise.by_row:
            said += "; in each group the noise is the same, given the true class"
        return said

    def open_rows(self, probs: ArrayLike, name: str = "probs", least: int = 1, start: int = 0) -> Rows:
        """Check rows and open them as the calibration points were."""
        return self.calibrations[0].open_rows(probs, name, least, start)

    def predict_set(self, probs: Any, *, groups: Any = None, allow_empty: bool = True) -> PredictionSets:
        """Return the prediction sets of new inputs.

        Parameters
        ----------
        probs, allow_empty
            As in `Calibration.predict_set`.
        groups : array of shape (m,), optional
            The group of each input, for groups of rows. A group that was not calibrated is refused.

        Returns
        -------
        PredictionSets
        """
        options = self.calibrations[0].row_options
        rows: Any = open_lazy(probs, least=0, **options) if is_lazy(probs) else self.open_rows(probs, least=0)
        check_aligned(groups, probs)
        if self.members is not None and groups is not None:
            raise InputError("groups", "has no effect: thresholds differ by class, not by row")
        places = known_groups(groups, rows.n, self.names) if self.members is None else None
        return self.sets_of(rows, places=places, allow_empty=allow_empty)

    def sets_of(
        self, rows: Rows | LazyRows, *, places: Ints | None, allow_empty: bool = True
    ) -> PredictionSets:
        """Return the prediction sets of checked rows; `places` has the place of the group of each."""
        natives = np.array([each.native_threshold for each in self.calibrations])
        thresholds = natives[None, list(self.members or ())] if places is None else natives[places][:, None]
        known = {"k": self.k, "classes": self.classes, "alpha": self.alpha}
        return predicted(rows, self.score.spec, thresholds, allow_empty=allow_empty, **known)

    def diagnose(
        self, probs: ArrayLike, labels: ArrayLike, *, groups: Any = None, level: float = 0.05
    ) -> Diagnosis | GroupedDiagnosis:
        """Test whether the noise model can be right, in each group of rows; see `nacp.diagnose`."""
        from nacp.advice.diagnosis import diagnose

        return diagnose(self, probs, labels, groups=groups, level=level)

    @property
    def class_groups(self) -> dict[Any, Any] | None:
        """The group of each class; None if groups are of rows."""
        if self.members is None:
            return None
        names = range(self.k) if self.classes is None else self.classes
        return {name: self.names[g] for name, g in zip(names, self.members, strict=True)}

    def places(self, labels: Ints, groups: Any = None) -> Ints:
        """Return the place among `names` of the group of each point: by its group, or by its label."""
        if self.members is None:
            return known_groups(groups, len(labels), self.names)
        return np.array(self.members)[labels]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration to a JSON file, which is replaced if it exists; `load` reads it."""
        from nacp.files import save_grouped

        save_grouped(self, path)

    def table(self) -> list[tuple[str, str, str, str]]:
        """Return for each group its name, points, threshold and estimated coverage, or why there is none.

        If labels were checked, the points are those with a checked label.
        """
        return [
            (
                f"{name} (pooled)" if name in self.pooled else f"{name}",
                f"{_points_of(cal):,}",
                f"{cal.threshold:.6g}" if cal.obstacle is None else "all labels",
                cal.obstacle or f"{cal.estimate:.4f}",
            )
            for name, cal in self.groups.items()
        ]

    def __str__(self) -> str:
        cal, rows = self.calibrations[0], self.table()
        who, counts = "rows" if self.members is None else "classes", "points"
        source = counted(self.n, "given label" if cal.noise is None else "noisy label")
        source = f"{source} of {cal.k:,} classes"
        if cal.checked is not None:
            checked, counts = sum(map(_points_of, self.calibrations)), "checked"
            source = f"{counted(self.n, 'label')} of {cal.k:,} classes, {checked:,} of them checked"
        shown = [("group", counts, "threshold", "estimated coverage"), *rows[:_SHOWN]]
        first, second, third = (max(len(row[i]) for row in shown) for i in range(3))
        lines = [
            f"Sets {{l : S(x, l) <= the threshold of its group}}, {counted(len(rows), 'group')} of {who}, "
            f"S = {cal.score!r}, from {source}.",
            *(f"{row[0]:<{first}}  {row[1]:>{second}}  {row[2]:>{third}}  {row[3]}" for row in shown),
            *([f"and {len(rows) - _SHOWN:,} groups more"] if len(rows) > _SHOWN else []),
            f"Promised ({self.guarantee!r}): {self.promise}. Assumed: {self.assumptions}.",
        ]
        warned = [f"Warning: {sentence}." for sentence in self.warnings]
        return wrapped("\n".join([*warned, *lines]))

    def _repr_html_(self) -> str:
        from nacp.show.html import grouped

        return grouped(self)


def _points_of(cal: Calibration) -> int:
    """Return the number of points, or of checked labels, that a calibration comes from."""
    return cal.n if cal.checked is None else cal.checked


def listed(names: tuple[Any, ...]) -> str:
    """Return the first five names, and the number of the others."""
    shown = ", ".join(map(str, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5:,} more"


def share_delta(guarantee: Guarantee, number: float) -> Guarantee:
    """Return a guarantee with delta divided by a number."""
    if guarantee.delta is None:
        return guarantee
    return replace(guarantee, delta=guarantee.delta / number)  # type: ignore[type-var]  # a dataclass


class Asked(NamedTuple):
    """Checked arguments of `calibrate`."""

    guarantee: Guarantee
    noise: Noise | None
    alphas: Sequence[float]
    crossing: Rule
    seed: int  # its `random_state`
    simultaneous: bool
    small: str
    known: dict[str, Any]  # fields that the calibrations of all groups share

    def calibrations(self, sample: Sample, found: Sequence[Finding], n: int) -> list[Calibration]:
        """Return the calibrations for what was found with n points of a sample, one for each alpha."""
        known = {"k": sample.k, "score": sample.score, "random_state": self.seed, "alphas": len(self.alphas)}
        return [
            calibration_of(self.guarantee, self.noise, alpha, self.crossing, each, n=n, **known, **self.known)
            for alpha, each in zip(self.alphas, found, strict=True)
        ]


def _check(grouping: Grouping, asked: Asked, several: bool) -> None:
    """Refuse what cannot be found for groups."""
    guarantee, noise = asked.guarantee, asked.noise
    if asked.simultaneous and guarantee.delta is None:
        problem = f'has no effect on guarantee "{guarantee.name}", which has no delta to divide'
        raise InputError("simultaneous", problem)
    if not grouping.of_classes:
        return
    if not guarantee.takes_classes:
        names = names_of(lambda each: each.takes_classes and each.applies(noise, "last") is None)
        problem = f'"{guarantee.name}" cannot be found for groups of classes'
        raise InputError("guarantee", problem, remedy=f"use {names}")
    if not guarantee.takes_groups_of_classes and len(grouping.names) < len(grouping.places):
        problem = f'"{guarantee.name}" holds for each class by itself, not for groups of classes'
        raise InputError("guarantee", problem)
    if not guarantee.takes_groups_of_classes and asked.small == "merge":
        problem = f'must be "error" or "all" with guarantee "{guarantee.name}" by class'
        raise InputError("small", problem, found='"merge"')
    if several:
        raise InputError("labels", "must be one for each point where groups are of classes")
    if noise is not None and noise.doubt.radius:
        problem = "must be known exactly, or up to an interval, where groups are of classes"
        remedy = "pass its P, which is then taken to be exact"
        raise InputError("noise", problem, found=repr(noise), remedy=remedy)


def _of_rows(sample: Sample, rows: Ints, asked: Asked) -> list[Calibration]:
    """Calibrate with some of the rows alone; return a calibration for each alpha."""
    some = sample.some(rows)
    if not len(rows):
        nothing = Finding(np.inf, 1.0, obstacle="no calibration point is of this group")
        return asked.calibrations(some, [nothing] * len(asked.alphas), 0)
    counts = Counted.of(some, asked.noise, squares=asked.guarantee.needs_squares)
    how = asked.guarantee, asked.noise, asked.alphas, asked.crossing, some, asked.seed
    return calibrations(counts, *how, **asked.known | seen(some))


def calibrate_groups(
    sample: Sample,
    grouping: Grouping,
    asked: Asked,
    unlabelled: Any = None,
    of_rows: Callable[[Sample, Ints, Asked], Sequence[Calibration]] = _of_rows,
) -> list[GroupedCalibration]:
    """Return for each alpha a calibration by group.

    `of_rows` calibrates a group of rows: it returns the calibrations of some rows of a sample for all alphas.
    """
    if unlabelled is not None:
        raise InputError("unlabelled", "cannot be used with groups: the group of these points is unknown")
    _check(grouping, asked, sample.several)
    if "warnings" not in asked.known:
        curve = Counted.of(sample, asked.noise).lowest(asked.noise)
        said = against(curve, asked.noise, sample.score.offset, asked.known["classes"]) + warning_of(sample)
        asked = asked._replace(known=asked.known | {"warnings": said})
    n, aside, places = sample.n, 0, grouping.places
    pooled = np.zeros(len(grouping.names), dtype=bool)
    if asked.small == "merge":
        aside = n // _ASIDE
        judging, rest = np.split(np.random.default_rng([asked.seed, 2]).permutation(n), [aside])
        rest.sort()
        pooled = _small(sample, grouping, judging, asked)
        sample = sample.some(rest)
        places = places if grouping.of_classes else places[rest]
    # Each group is tested by itself; those that are pooled are tested as one, which is the last.
    tested = np.cumsum(~pooled) - 1
    number = int(tested[-1]) + 1 + bool(pooled.any())
    tested[pooled] = number - 1
    places, each = tested[places], asked
    if asked.simultaneous:
        each = asked._replace(guarantee=share_delta(asked.guarantee, number))
    if grouping.of_classes:
        found = _by_classes(sample, places, number, each)
    else:
        order = np.argsort(places, kind="stable")
        groups = np.split(order, np.searchsorted(places[order], np.arange(1, number)))
        found = [of_rows(sample, rows, each) for rows in groups]
    members = tuple(grouping.places.tolist()) if grouping.of_classes else None
    in_pool = tuple(name for name, one in zip(grouping.names, pooled, strict=True) if one)
    fixed = asked.guarantee, n, members, asked.simultaneous, in_pool, aside
    results = [
        GroupedCalibration(grouping.names, tuple(found[g][i] for g in tested), *fixed)
        for i in range(len(asked.alphas))
    ]
    for cal in results:
        if not cal.infinite:
            continue
        if asked.small == "error":
            raise _too_small(cal)
        why = cal.groups[cal.infinite[0]].obstacle
        warn(
            f"no threshold keeps the promise in {len(cal.infinite):,} of {len(cal.names):,} groups "
            f"({listed(cal.infinite)}), so their sets hold all labels: {why}",
            NoValidThresholdWarning,
        )
    warn_of(results[0].warnings)
    return results


def _by_classes(sample: Sample, places: Ints, number: int, asked: Asked) -> Sequence[Sequence[Calibration]]:
    """Calibrate groups of classes, each with all rows; return its calibrations for all alphas."""
    ends = (None,) if asked.noise is None else asked.noise.doubt.ends
    weights, by_end = weights_under(asked.noise, sample.k, several=False), []
    for model in ends:
        exact, widest = class_curves(sample, weights[model], model, places, number), weights[ends[-1]].inverse
        curves = [replace(curve, alpha=alpha, widest=widest) for alpha in asked.alphas for curve in exact]
        each = np.repeat(asked.alphas, number).tolist()
        by_end.append(asked.guarantee.find(curves, each, asked.crossing, sample, asked.seed))
    # The larger of the thresholds at both ends of an interval of rates holds for all rates between them.
    found = [
        max(pair, key=lambda each: each.threshold)._replace(gap=max(each.gap for each in pair))
        for pair in zip(*by_end, strict=True)
    ]
    sizes = np.bincount(places[sample.labels[:, 0]], minlength=number).tolist()
    return [asked.calibrations(sample, found[g::number], size) for g, size in enumerate(sizes)]


def _small(sample: Sample, grouping: Grouping, judging: Ints, asked: Asked) -> Bools:
    """Return which groups are too small; `judging` are the rows that are used for nothing else."""
    of_classes, number, alpha = grouping.of_classes, len(grouping.names), min(asked.alphas)
    needed = asked.guarantee.points_needed(asked.noise, sample.k, alpha, of_classes=of_classes)
    if of_classes:
        counts = np.bincount(sample.labels[judging, 0], minlength=sample.k).astype(np.float64)
        weights, where = inverse_of(asked.noise, sample.k).push(counts), grouping.places
    else:
        weights, where = np.ones(len(judging)), grouping.places[judging]
    sizes: Floats = np.bincount(where, weights, number).astype(np.float64)
    if asked.guarantee.delta is None:  # a group that is smaller than needed has no finite threshold
        trials = np.full(number, len(judging))
        sizes = trials * exact_share(np.clip(sizes, 0, trials), trials, _UNSURE / number)[0]
    return ~np.asarray(sizes * (_ASIDE - 1) >= (math.inf if needed is None else needed))


def _too_small(result: GroupedCalibration) -> InputError:
    """Return the error that names the groups that are too small, and the remedies."""
    groups, of_classes = result.groups, result.members is not None
    first = groups[result.infinite[0]]
    checked = first.checked is not None
    what = "checked label" if checked else "point"
    each = (f"{name!r} ({counted(_points_of(groups[name]), what)})" for name in result.infinite)
    needed = first.guarantee.points_needed(result.noise, result.k, result.alpha, of_classes=of_classes)
    about = f": {first.obstacle}"
    if needed is not None and _points_of(first) < needed and not checked:
        about = f"; a group needs about {counted(needed, what)}"
    pools = len(result.infinite) > 1 and not checked
    pools &= first.guarantee.takes_groups_of_classes or not of_classes
    again = "after this refusal, the promise fails with twice delta at most"
    twice = "" if first.guarantee.delta is None else f" ({again})"
    remedy = "pass {} for sets of all labels there" + f", or {{}} to pool them{twice}" * pools
    return InputError(
        "by" if of_classes and len(result.names) == result.k else "groups",
        f"has {len(result.infinite):,} of {len(result.names):,} groups in which no threshold keeps the "
        f"promise, as {listed(tuple(each))}{about}",
        remedy=remedy.format('small="all"', 'small="merge"'),
        spoken=remedy.format('"--small all"', '"--small merge"'),
    )
