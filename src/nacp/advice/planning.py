"""plan(): what each guarantee will cost, before labels are bought."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp.advice.checking import check_pilot, costs_of_checking, informed_by_pilot, informed_by_share
from nacp.advice.comparison import NOISY
from nacp.advice.group_planning import GroupCost, costs_of_groups
from nacp.calibrate import ScoreLike
from nacp.checks import check_count, check_flag, check_fraction
from nacp.coverage.curve import Curve
from nacp.coverage.sample import Sample
from nacp.errors import InputError
from nacp.guarantees import GUARANTEES, Guarantee, Problem
from nacp.noise import UNSAID, Noise, NoiseLike, UniformNoise, Unsaid, noise_for
from nacp.points import open_points
from nacp.scores import as_score
from nacp.wrapping import table_lines, wrapped

_CHECKED = 300
_MOST = 1_000_000  # classes
_SHOWN = 20  # groups


class PlanRow(NamedTuple):
    """What one guarantee costs: the excess coverage, the labels for a wanted excess, and what it promises.

    Or the reason why it does not apply. `labels` are those that are counted, "noisy" or checked ones:
    "checked" alone, "checked, noisy" beside noisy ones, "checked, chosen" where one chooses which to check.
    """

    guarantee: Guarantee
    correction: float
    n_needed: int | None
    promise: str
    reason: str | None = None
    labels: str = NOISY


@dataclass(frozen=True, repr=False)
class Plan:
    """What `plan` found; print it for a table.

    Attributes
    ----------
    rows : list of PlanRow
        From the cheapest to the dearest; after them those that do not apply to this noise.
    alpha : float
        As given.
    n : int
        The number of calibration points that the corrections are for.
    excess : float
        The excess coverage that `PlanRow.n_needed` is for.
    deviation : float
        The standard deviation of one point's share in the estimate; from the pilot sample, or as it is where
        sets are small; nan if no noise was named.
    checked_rows : list of PlanRow
        The same for checked labels, whatever the noise is; `PlanRow.n_needed` is how many to check.
    checked : int
        The number of checked labels that their corrections are for.
    assumed : str or None
        What the rows for checked labels beside noisy ones, and for chosen ones, rest on.
    groups : list of GroupCost
        What the guarantee "pac" costs in each group, if there are groups: `GroupCost.least` is about how many
        points of its own a group needs, `GroupCost.n_needed` for the excess.
    """

    rows: list[PlanRow]
    alpha: float
    n: int
    excess: float
    deviation: float
    checked_rows: list[PlanRow] = field(default_factory=list)
    checked: int = 0
    assumed: str | None = None
    groups: list[GroupCost] = field(default_factory=list)

    def __repr__(self) -> str:
        return str(self)

    @property
    def cheapest(self) -> Guarantee:
        """The guarantee that costs least, among those that hold for nearly every calibration set."""
        return next(
            row.guarantee
            for row in [*self.rows, *self.checked_rows]
            if row.guarantee.delta is not None and row.reason is None
        )

    @property
    def _tables(self) -> list[tuple[str, list[tuple[str, ...]]]]:
        """What each table is about, its header and its rows, written out."""
        tables: list[tuple[str, list[tuple[str, ...]]]] = []
        wanted = f"labels for {self.excess:g}"
        if self.rows:
            title = f"With a noise model, if it is right: {self.n:,} noisy labels, alpha = {self.alpha:g}."
            noisy = [(row.guarantee.name, *self._numbers(row)) for row in self.rows]
            tables.append((title, [("guarantee", "excess", wanted), *noisy]))
        if self.checked_rows:
            title = (
                f"With {self.checked:,} checked labels of {self.n:,}, whatever the noise is, "
                f"alpha = {self.alpha:g}."
            )
            rows = [(row.guarantee.name, row.labels, *self._numbers(row)) for row in self.checked_rows]
            tables.append((title, [("guarantee", "labels", "excess", wanted), *rows]))
        if self.groups:
            some = sorted(self.groups, key=lambda cost: cost.points)[:_SHOWN]
            which = "each group" if len(some) == len(self.groups) else f"the {_SHOWN} smallest groups"
            title = f'The guarantee "pac" in {which}, of {self.n:,} noisy labels.'
            costs = [
                (
                    f"{cost.group}",
                    f"{cost.points:,}",
                    self._price(cost.correction),
                    _number(cost.least),
                    _number(cost.n_needed),
                )
                for cost in some
            ]
            header = ("group", "its labels", "excess", "needed at least", wanted)
            tables.append((title, [header, *costs]))
        return tables

    def _numbers(self, row: PlanRow) -> tuple[str, str]:
        if row.reason is not None:
            return "-", "-"
        return self._price(row.correction), _number(row.n_needed)

    def _price(self, correction: float) -> str:
        return f"{correction:.2g}" if correction < self.alpha else "all classes"

    @property
    def sentences(self) -> list[str]:
        """What is promised, what does not apply and what is assumed: each said once."""
        told: dict[str, dict[str, None]] = {}
        for row in [*self.rows, *self.checked_rows]:
            name = row.guarantee.name if row.labels == NOISY else f"{row.guarantee.name} ({row.labels})"
            told.setdefault(row.reason or row.promise, {})[name] = None
        said = [f"{', '.join(names)}: {sentence}." for sentence, names in told.items()]
        if self.assumed is not None:
            said.append(
                f"Assumed of checked labels beside noisy ones, and of chosen ones: {self.assumed}. What they "
                "cost then is a limit for many labels; with few it is more."
            )
        return said

    def __str__(self) -> str:
        parts = [
            "\n".join([wrapped(title), *table_lines(table, _texts(table[0]))])
            for title, table in self._tables
        ]
        parts.append("\n".join(wrapped(each) for each in self.sentences))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        from nacp.show.html import card, sentence, table

        parts = []
        for title, (header, *rows) in self._tables:
            parts += [sentence(title), table(header, rows, left=range(_texts(header)))]
        return card("Plan", *parts, *map(sentence, self.sentences))


def _texts(header: tuple[str, ...]) -> int:
    """Return how many columns of a table hold words: those up to the labels' kind."""
    return 2 if "labels" in header else 1


def _number(needed: int | None) -> str:
    return "never" if needed is None else f"{needed:,}"


def plan(
    *,
    k: int,
    noise: NoiseLike | Unsaid = UNSAID,
    alpha: float = 0.1,
    delta: float = 0.05,
    n: int = 1000,
    excess: float = 0.01,
    checked: int | None = None,
    probs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clean: Any = None,
    score: ScoreLike = "hps",
    groups: Any = None,
    by: str | None = None,
    simultaneous: bool = False,
) -> Plan:
    """Say what each guarantee will cost, before labels are bought.

    The cost is in coverage: how much more than 1 - alpha the sets will cover, to keep the promise.

    Parameters
    ----------
    k : int
        The number of classes; taken to be equally frequent.
    noise : float, array of shape (k, k) or noise model, optional
        As in `calibrate`. Of an interval, the worse end counts; a radius comes on top, times the
        greatest distance between two rows of W. Without it there are rows for checked labels only.
    alpha : float, default=0.1
        The sets are to contain the true class with probability 1 - alpha.
    delta : float, default=0.05
        The probability with which a promise may fail, for guarantees that have one.
    n : int, default=1000
        The number of calibration points to plan for.
    excess : float, default=0.01
        Also find the number of points, or of checked labels, at which the cost is this much.
    checked : int, optional
        The number of labels to plan to check, of the n; by default 300, or all if there are fewer. Alone,
        their cost is exact: that of the binomial test, for scores without ties. Beside noisy labels it is a
        limit for many, and rests on how much the noisy ones say: by the share of wrong labels that `noise`
        has, or by the pilot sample. So it does for labels that are chosen to be checked, as `choose_audit`
        does: more of those that make it doubtful that the true one is in the set.
    probs, labels : arrays, optional
        A pilot sample with noisy labels, from which the deviation of one point's share is taken. Without it
        the sets are taken to be small, which is where they should be.
    clean : array or pair (rows, labels), optional
        Checked labels of the pilot sample, as in `calibrate`.
    score : str or score, default="hps"
        The score, for the pilot sample.
    groups : mapping or array, optional
        The groups that are to have a promise each: a mapping from a group to its share of the points, such as
        ``{"north": 0.2, "south": 0.8}``; or, as in `calibrate`, an array with the group of each row (its
        shares count), or a mapping from each class to its group. With groups of classes a point of another
        class that is labelled as of the group is a miss, so its points vary more: one's share
        ``s = sum over l in G of W[y', l] (1{S(x, l) <= q} - c)``, c = 1 - alpha, has the variance
        ``c E[w (w - 2 c v)] + c^2 E[v^2]`` where sets are small, for ``w = W[y', y] 1{y in G}`` and
        ``v = sum over l in G of W[y', l]``; the excess of the group is
        ``z_{1-delta} sd(s) / (p(G) sqrt(n))``, about.
    by : "class", optional
        Each class is a group.
    simultaneous : bool, default=False
        Whether all groups are to hold at once, as in `calibrate`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import nacp
    >>> found = nacp.plan(k=1000, noise=0.2, n=25_000, delta=0.001)
    >>> found.cheapest
    PAC(delta=0.001)
    >>> [f"{row.guarantee.name} {row.correction:.4f}" for row in found.rows[:4]]
    ['expected 0.0000', 'pac 0.0110', 'binomial 0.0113', 'nacp 0.0193']

    How many labels should be checked?

    >>> for row in nacp.plan(k=10, noise=0.1, n=10_000, checked=500).checked_rows[1:]:
    ...     print(f"{row.labels:16}{row.correction:.4f}  {row.n_needed:,}")
    checked         ...
    checked, noisy  ...
    checked, chosen ...

    How many points does a group need, of rows or of classes?

    >>> [cost.least for cost in nacp.plan(k=10, noise=0.2, groups={"north": 0.2, "south": 0.8}).groups]
    [323, 323]
    >>> nacp.plan(k=10, noise=0.2, n=10_000, by="class").groups[0].least
    362
    """
    if check_count("k", k, 2) > _MOST:
        raise InputError("k", f"must be at most {_MOST:,}: more would take minutes", found=f"{k:,}")
    check_count("n", n, 1)
    check_fraction("alpha", alpha)
    check_fraction("excess", excess)
    check_fraction("delta", delta)
    checked = min(_CHECKED, n) if checked is None else check_count("checked", checked, 1)
    if checked > n:
        raise InputError(
            "checked", f"must be at most n = {n:,}, of which labels are checked", found=f"{checked:,}"
        )
    if (probs is None) != (labels is None):
        raise InputError("probs" if probs is None else "labels", "is missing; a pilot sample needs both")
    if clean is not None and probs is None:
        raise InputError("clean", "is of a pilot sample, which needs probs and labels, too")
    check_flag("simultaneous", simultaneous)
    grouped = groups is not None or by is not None
    known = None if isinstance(noise, Unsaid) else noise_for(noise, k) or UniformNoise(0.0)
    if grouped and known is None:
        raise InputError("noise", "must be named to plan for groups")
    if simultaneous and not grouped:
        raise InputError("simultaneous", "has no effect without groups")
    rows, deviation = list[PlanRow](), math.nan
    if known is not None:
        rows, deviation = _noisy_rows(known, k, alpha, delta, n, excess, probs, labels, score)
    informed = None
    # Scores of one's own say nothing of how probable labels are: they need checked ones beside them.
    telling = clean is not None or as_score(score).takes_probabilities
    if probs is not None and labels is not None and telling:
        informed = informed_by_pilot(probs, labels, clean, noise, k, alpha, score)
    elif known is not None:
        informed = informed_by_share(float(1 - known.matrix(k).diagonal.mean()), alpha)
    checked_rows = [
        PlanRow(
            cost.guarantee,
            cost.excess,
            cost.needed,
            cost.guarantee.promise_checked(alpha),
            cost.reason,
            cost.labels,
        )
        for cost in costs_of_checking(checked, n, alpha, delta, excess, informed)
    ]
    assumed = None if informed is None else informed.assumed
    costs = list[GroupCost]()
    if grouped and known is not None:
        costs = costs_of_groups(
            groups, by, known, k, alpha, delta, n, excess, simultaneous=simultaneous, deviation=deviation
        )
    return Plan(rows, alpha, n, excess, deviation, checked_rows, checked, assumed, costs)


def _noisy_rows(
    noise: Noise,
    k: int,
    alpha: float,
    delta: float,
    n: int,
    excess: float,
    probs: ArrayLike | None,
    labels: ArrayLike | None,
    score: ScoreLike,
) -> tuple[list[PlanRow], float]:
    """Return what each guarantee costs with a noise model, and the deviation of one point's share."""
    priors = np.full(k, 1 / k)
    ends = [
        Problem(alpha, n, end, end.inverse(k), n * end.matrix(k).push(priors)) for end in noise.doubt.ends
    ]
    deviations = [end.deviation if probs is None else _deviation(probs, labels, end, score) for end in ends]
    shift = noise.doubt.shift(noise.inverse(k))
    rows = []
    for kind in GUARANTEES.values():
        if not kind.promises_truth:
            continue
        options = {"delta": delta, "priors": priors}
        taken: list[str] = [each.name for each in fields(kind)] if is_dataclass(kind) else []
        guarantee = kind(**{name: value for name, value in options.items() if name in taken})
        reason = guarantee.applies(noise, "last")
        if reason is not None:
            rows.append(PlanRow(guarantee, np.inf, None, guarantee.promise(alpha), reason))
            continue
        prices = [guarantee.price(*end) + shift for end in zip(ends, deviations, strict=True)]
        worst = int(np.argmax(prices))
        needed = None
        if excess > shift:
            needed = guarantee.samples_needed(ends[worst], excess - shift, deviations[worst])
        rows.append(PlanRow(guarantee, prices[worst], needed, guarantee.promise_under(noise, alpha)))
    rows.sort(key=lambda row: (row.reason is not None, row.correction))
    return rows, max(deviations)


def _deviation(
    probs: ArrayLike | None, labels: ArrayLike | None, problem: Problem, score: ScoreLike
) -> float:
    """Return the deviation at the uncorrected threshold of a pilot sample."""
    score = as_score(score)
    rows, numbers, _ = open_points(probs, labels, probabilities=score.takes_probabilities)
    check_pilot(rows, problem.k)
    sample = Sample.of(rows, numbers, score)
    curve = Curve.of(sample, problem.noise)
    cell = curve.crossing(1 - problem.alpha, "last")
    return float(sample.deviations(curve, np.array([cell]))[0])
