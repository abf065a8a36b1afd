"""Plan a calibration: the excess coverage of each guarantee, before labels are bought."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nacp._types import Floats, Ints
from nacp.advice.comparison import ALONE, CHECKED, NOISY
from nacp.advice.printout import Printout, TextTable, joined
from nacp.audit.plan import chosen_share
from nacp.checks import check_count, check_flag, check_fraction
from nacp.errors import InputError
from nacp.groups.grouping import open_grouping
from nacp.guarantees import DEFAULT, GUARANTEES, Guarantee, Problem
from nacp.noise import NO_NOISE, UNSAID, Noise, NoiseLike, Unsaid, noise_for
from nacp.stats.strata import strata_variance

CHOSEN = "checked, chosen"
_CHECKED = 300  # labels checked by default
_CLASSES_MAX = 10**6
_GROUPS_SHOWN = 20


class PlanRow(NamedTuple):
    """The excess coverage of one guarantee, or the reason why the guarantee does not apply.

    `n_needed` is the number of labels with which the excess is the wanted one; None if no number is enough.
    `labels` are "noisy" ones, "checked" ones alone, "checked, noisy" for both, or "checked, chosen" where
    `choose_audit` selects the labels to check.
    """

    guarantee: Guarantee
    excess: float
    n_needed: int | None
    promise: str
    reason: str | None = None
    labels: str = NOISY


class GroupRow(NamedTuple):
    """The excess coverage of the default guarantee in one group, to which `points` of the n points belong.

    `deviation` is the standard deviation of the share of one of them. `least` is the number of points that
    the group needs for an excess of half of alpha, `n_needed` that for the wanted excess; None if none is
    enough.
    """

    group: Any
    points: int
    deviation: float
    excess: float
    least: int | None
    n_needed: int | None


@dataclass(frozen=True, repr=False)
class Plan(Printout):
    """The result of `plan`; print it for a table.

    Attributes
    ----------
    rows : list of PlanRow
        Guarantees under the noise model, by their excess; after them those that do not apply to this noise.
    alpha, n, excess, checked : float and int
        As given; `checked` is the number of labels to check.
    checked_rows : list of PlanRow
        Guarantees from checked labels that hold for nearly every calibration set, whatever the noise is;
        `PlanRow.n_needed` is how many to check.
    assumed : str or None
        The assumption behind the rows for checked labels beside noisy ones, and for chosen ones.
    groups : list of GroupRow
        The excess of the default guarantee in each group, if there are groups.
    """

    rows: list[PlanRow]
    alpha: float
    n: int
    excess: float
    checked_rows: list[PlanRow]
    checked: int
    assumed: str | None
    groups: list[GroupRow]
    _title: ClassVar[str] = "Plan"

    @property
    def tables(self) -> list[TextTable]:
        tables, ends = [], ["excess", f"labels for {self.excess:g}"]
        if self.rows:
            caption = f"With a noise model, if it is right: {self.n:,} noisy labels, alpha = {self.alpha:g}."
            lines = [[row.guarantee.name, *self._cells(row)] for row in self.rows if row.reason is None]
            tables.append(TextTable([["guarantee", *ends], *lines], 1, caption))
        checked = f"{self.checked:,} checked labels of {self.n:,}"
        caption = f"With {checked}, whatever the noise is, alpha = {self.alpha:g}."
        lines = [[row.guarantee.name, row.labels, *self._cells(row)] for row in self.checked_rows]
        tables.append(TextTable([["guarantee", "labels", *ends], *lines], 2, caption))
        if self.groups:
            smallest = sorted(self.groups, key=lambda row: row.points)[:_GROUPS_SHOWN]
            which = "each group" if len(smallest) == len(self.groups) else "the smallest groups"
            caption = f'The guarantee "{DEFAULT.name}" in {which}, of {self.n:,} noisy labels.'
            lines = [
                [f"{row.group}", f"{row.points:,}", _number(row.least), *self._cells(row)] for row in smallest
            ]
            tables.append(TextTable([["group", "its labels", "needed at least", *ends], *lines], 1, caption))
        return tables

    def _cells(self, row: PlanRow | GroupRow) -> tuple[str, str]:
        return f"{row.excess:.2g}" if row.excess < self.alpha else "all classes", _number(row.n_needed)

    @property
    def sentences(self) -> list[tuple[str, str]]:
        said = [
            (
                row.guarantee.name if row.labels == NOISY else f"{row.guarantee.name} ({row.labels})",
                f"{row.reason or row.promise}.",
            )
            for row in [*self.rows, *self.checked_rows]
        ]
        if self.assumed is not None:
            limit = "The excess of these rows is a limit for many labels; with few it is larger."
            said.append(("Assumed where noisy labels stand beside checked ones", f"{self.assumed}. {limit}"))
        return [*joined(said), ("", self.advice)]

    @property
    def advice(self) -> str:
        by_labels = {row.labels: row for row in self.checked_rows if row.guarantee.name == DEFAULT.name}
        row, chosen = by_labels.get(CHECKED, by_labels[ALONE]), by_labels.get(CHOSEN)
        target, covered = f"{100 * (1 - self.alpha):g}%", f"{100 * (1 - self.alpha + self.excess):.3g}%"
        now, average = f"{100 * (1 - self.alpha + row.excess):.3g}%", f"on average where {target} is promised"
        if row.n_needed is None:
            return f"No number of checked labels promises {target} with an excess of {self.excess:g}."
        only = f" (there are only {self.n:,})" if row.n_needed > self.n else ""
        if only and row.excess < self.alpha:
            return (
                f"Check about {self.checked:,} of the {self.n:,} labels, for sets that cover about {now} "
                f"{average}. About {covered} would need {row.n_needed:,} checked labels{only}."
            )
        said = f"Check about {row.n_needed:,} labels{only}"
        if chosen is not None and chosen.n_needed is not None and chosen.n_needed < row.n_needed:
            said += f", or {chosen.n_needed:,} that nacp.choose_audit (nacp audit choose) picks"
        said += f", for sets that cover about {covered} {average}. With "
        if row.excess >= self.alpha:
            return f"{said}{self.checked:,} the sets hold all classes."
        return f"{said}{self.checked:,} they cover about {now}."


def _number(needed: int | None) -> str:
    return "never" if needed is None else f"{needed:,}"


class _Setting(NamedTuple):
    """The arguments of `plan` that all rows depend on."""

    k: int
    alpha: float
    delta: float
    n: int
    excess: float


def plan(
    *,
    k: int,
    noise: NoiseLike | Unsaid = UNSAID,
    alpha: float = 0.1,
    delta: float = 0.05,
    n: int = 1000,
    excess: float = 0.01,
    checked: int | None = None,
    groups: Any = None,
    by: str | None = None,
    simultaneous: bool = False,
) -> Plan:
    """Compute the excess coverage of each guarantee, before labels are bought.

    To keep its promise, a guarantee covers more than 1 - alpha on average. The difference is its excess.

    Parameters
    ----------
    k, n : int
        The numbers of classes, taken to be equally frequent, and of calibration points (default 1000).
    noise : float, array of shape (k, k) or noise model, optional
        As in `calibrate`. Of an interval, the end with the larger excess counts; a radius adds its value
        times the greatest distance between two rows of W. Without it there are rows for checked labels only.
    alpha, delta : float, default=0.1 and 0.05
        As in `calibrate`; delta is for guarantees that have one.
    excess : float, default=0.01
        Also find the number of points, or of checked labels, with this excess.
    checked : int, optional
        The number of labels to plan to check; by default 300, or n if that is less. For checked labels alone
        the excess is exact: that of the binomial test, for scores without ties. Beside noisy labels, and for
        labels chosen by `choose_audit`, it is a limit for many labels, and depends on the share of wrong
        labels under `noise`.
    groups : mapping or array, optional
        The groups that are to have a promise each: a mapping from a group to its share of the points, such as
        ``{"north": 0.2, "south": 0.8}``; or, as in `calibrate`, an array with the group of each row (its
        shares count), or a mapping from each class to its group. Groups of classes need more points than
        groups of rows, as a point of another class that is labelled as of the group counts as a miss.
    by, simultaneous
        As in `calibrate`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import nacp
    >>> found = nacp.plan(k=1000, noise=0.2, n=25_000, delta=0.001)
    >>> [f"{row.guarantee.name} {row.excess:.4f}" for row in found.rows[:4]]
    ['expected 0.0000', 'pac 0.0110', 'binomial 0.0113', 'nacp 0.0193']
    >>> print(nacp.plan(k=10, excess=0.02).advice[:24])  # how many labels should be checked?
    Check about 549 labels,
    >>> [row.least for row in nacp.plan(k=10, noise=0.2, groups={"north": 0.2, "south": 0.8}).groups]
    [323, 323]
    """
    if check_count("k", k, 2) > _CLASSES_MAX:
        raise InputError("k", f"must be at most {_CLASSES_MAX:,}", found=f"{k:,}")
    check_count("n", n, 1)
    for name, value in {"alpha": alpha, "excess": excess, "delta": delta}.items():
        check_fraction(name, value)
    checked = min(_CHECKED, n) if checked is None else check_count("checked", checked, 1)
    if checked > n:
        raise InputError("checked", f"must be at most n = {n:,}", found=f"{checked:,}")
    grouped = groups is not None or by is not None
    known = None if isinstance(noise, Unsaid) else noise_for(noise, k) or NO_NOISE
    if grouped and known is None:
        raise InputError("noise", "must be named to plan for groups")
    if check_flag("simultaneous", simultaneous) and not grouped:
        raise InputError("simultaneous", "has no effect without groups")
    setting = _Setting(k, alpha, delta, n, excess)
    rows, wrong, assumed, group_rows = list[PlanRow](), None, None, list[GroupRow]()
    if known is not None:
        rows = _noisy_rows(known, setting)
        wrong = float(1 - known.matrix(k).diagonal.mean())
        assumed = (
            f"{100 * wrong:.3g}% of labels are wrong, as often on hard inputs as on easy ones, and wrong "
            "labels are in no prediction set"
        )
        if grouped:
            group_rows = _group_rows(groups, by, known, setting, simultaneous)
    checked_rows = _checked_rows(setting, checked, wrong)
    return Plan(rows, alpha, n, excess, checked_rows, checked, assumed, group_rows)


def _noisy_rows(noise: Noise, setting: _Setting) -> list[PlanRow]:
    """Return the row of each guarantee under a noise model."""
    k, alpha, delta, n, excess = setting
    priors = np.full(k, 1 / k)
    ends = [
        Problem(alpha, n, end, end.inverse(k), n * end.matrix(k).push(priors)) for end in noise.doubt.ends
    ]
    deviations = [end.deviation for end in ends]
    shift = noise.doubt.shift(noise.inverse(k))
    rows = []
    for kind in GUARANTEES.values():
        if not kind.promises_truth:
            continue
        guarantee = kind.with_options(delta=delta, priors=priors)
        reason = guarantee.applies(noise, "last")
        if reason is not None:
            rows.append(PlanRow(guarantee, np.inf, None, guarantee.promise(alpha), reason))
            continue
        found = [guarantee.excess(*end) + shift for end in zip(ends, deviations, strict=True)]
        worst = int(np.argmax(found))
        needed = None
        if excess > shift:
            needed = guarantee.samples_needed(ends[worst], excess - shift, deviations[worst])
        rows.append(PlanRow(guarantee, found[worst], needed, guarantee.promise_under(noise, alpha)))
    return sorted(rows, key=lambda row: (row.reason is not None, row.excess))


def _checked_rows(setting: _Setting, m: int, wrong: float | None) -> list[PlanRow]:
    """Return the rows for m checked labels: alone, which is exact; beside noisy ones, and chosen.

    The last two need the share of `wrong` labels, which says how much noisy labels add to checked ones.
    """
    _, alpha, delta, n, excess = setting
    rows = []
    for guarantee in (kind.with_options(delta=delta) for kind in GUARANTEES.values() if kind.takes_checked):
        if guarantee.delta is None:
            continue
        promise = guarantee.promise_checked(alpha)
        base, alone = guarantee.excess_checked(m, alpha), guarantee.checked_needed(excess, alpha)
        least = guarantee.checked_needed(alpha, alpha)
        rows.append(PlanRow(guarantee, base, alone, promise, labels=ALONE))
        if wrong is None:
            continue
        for labels in (CHECKED, CHOSEN):
            worth = partial(_worth, wrong, alpha, n, labels)
            found = base if base >= alpha else base / math.sqrt(worth(m) / m)
            needed = alone
            if alone is not None and least is not None and least < alone < n:
                needed = bisect_left(range(alone), float(alone), lo=least, key=worth)
            rows.append(PlanRow(guarantee, found, needed, promise, labels=labels))
    return rows


def _worth(wrong: float, alpha: float, n: int, labels: str, m: int) -> float:
    """Return the number of labels checked alone that are worth as much as m of them beside n noisy ones.

    That is alpha (1 - alpha) over the variance of the estimate in two strata (docs/guarantees.md, A1 and A2),
    an approximation for many labels. Inside are the points whose given label is in the set, and right.
    """
    inside = (1 - alpha) * (1 - wrong)
    outside, variances = 1 - inside, []
    for share in [outside] + [chosen_share(outside, alpha)] * (labels == CHOSEN):
        first = max(min(m * share, outside * n), 1.0)
        second = max(min(m - first, inside * n), 1.0)
        covered = (1 - alpha) * wrong / outside
        variances.append(strata_variance(outside, covered, 1.0, first, second, n))
    return max(m, float(alpha * (1 - alpha) / min(variances)))


def _group_rows(groups: Any, by: Any, noise: Noise, setting: _Setting, simultaneous: bool) -> list[GroupRow]:
    """Return the row of each group."""
    k, alpha, delta, n, excess = setting
    names, shares, members = _shares(groups, by, k)
    shift, ends = noise.doubt.shift(noise.inverse(k)), noise.doubt.ends
    one = Problem(alpha, 1, noise, noise.inverse(k), np.full(k, 1 / k))
    if members is None:
        largest = max(replace(one, noise=end, inverse=end.inverse(k)).deviation for end in ends)
        deviations = np.full(len(names), largest)
    elif noise.doubt.radius:
        raise InputError("noise", "must be known exactly, or up to an interval, where groups are of classes")
    else:
        by_end = [class_deviations(end, k, alpha, members, len(names)) for end in ends]
        deviations = np.max(by_end, axis=0)
    guarantee = DEFAULT.with_options(delta=delta / len(names) if simultaneous else delta)

    def needed(wanted: float, deviation: float) -> int | None:
        return guarantee.samples_needed(one, wanted - shift, deviation) if wanted > shift else None

    found = []
    for name, share, each in zip(names, shares.tolist(), deviations.tolist(), strict=True):
        points = round(share * n)
        mine = guarantee.excess(replace(one, n=points), each) + shift if points else math.inf
        found.append(GroupRow(name, points, each, mine, needed(alpha / 2, each), needed(excess, each)))
    return found


def _shares(groups: Any, by: Any, k: int) -> tuple[tuple[Any, ...], Floats, Ints | None]:
    """Return names, the share of points of each, and for groups of classes the group of each class."""
    if by is None and isinstance(groups, Mapping) and any(isinstance(s, float) for s in groups.values()):
        shares = np.array(list(groups.values()), dtype=np.float64)
        if not (shares > 0).all() or abs(shares.sum() - 1) > 1e-6:
            problem = "holds shares of points, which must be positive and sum to 1"
            raise InputError(
                "groups", problem, found=f"{shares.min():g} at least, and a sum of {shares.sum():g}"
            )
        return tuple(groups), shares, None
    length = 0
    if groups is not None and not isinstance(groups, Mapping):
        if np.ndim(groups) != 1:
            problem = "must be a mapping, or an array with the group of each row"
            raise InputError("groups", problem, found=repr(groups))
        length = len(groups)
    grouping = open_grouping(groups, by, length, k, None)
    assert grouping is not None
    number, places = len(grouping.names), grouping.places
    if not len(places):
        raise InputError("groups", "must hold at least one group")
    shares = np.bincount(places, minlength=number) / len(places)
    return grouping.names, shares, places if grouping.of_classes else None


def class_deviations(noise: Noise, k: int, alpha: float, members: Ints, number: int) -> Floats:
    """Return ``sd(s) / sqrt(p(G))`` for each group G of classes, where classes are equally frequent.

    One point's share in the estimate for G is ``s = sum over l in G of W[y', l] (1{S(x, l) <= q} - c)``, for
    its given label y' and c = 1 - alpha. Small sets hold at most the true label y, which they do with
    probability c: with ``w = W[y', y] 1{y in G}`` and ``v = sum over l in G of W[y', l]``, ``var(s) = c E[w
    (w - 2 c v)] + c^2 E[v^2]``. The last term includes points of other classes that are labelled as of G: a
    rare class needs more points than an equal group of rows.
    """
    matrix, inverse = noise.matrix(k), noise.inverse(k)
    given = matrix.push(np.full(k, 1 / k))
    once = matrix.combine(np.multiply, inverse)  # P[y, y'] W[y', y]
    own = once.combine(np.multiply, inverse).pull(np.ones(k))
    coverage, found = 1 - alpha, np.zeros(number)
    for g in range(number):
        inside = (members == g).astype(np.float64)
        sums = inverse.pull(inside)
        cross = inside @ (own - 2 * coverage * once.pull(sums)) / k
        variance = coverage * cross + coverage**2 * (given @ sums**2)
        found[g] = math.sqrt(max(variance, 0.0) / inside.mean())
    return found
