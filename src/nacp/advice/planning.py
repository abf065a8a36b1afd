"""plan(): what each guarantee will cost, before labels are bought."""

from dataclasses import dataclass, fields, is_dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp.calibrate import ScoreLike
from nacp.checks import check_count, check_fraction
from nacp.coverage import Sample
from nacp.errors import InputError
from nacp.guarantees import GUARANTEES, Guarantee, Problem, coverage_under
from nacp.noise import NoiseLike, UniformNoise, noise_for
from nacp.points import open_points
from nacp.scores import as_score

_PILOT = 50


class PlanRow(NamedTuple):
    """What one guarantee costs: the excess coverage at n, the n for a wanted excess, and what it promises.

    Or the reason why it does not apply.
    """

    guarantee: Guarantee
    correction: float
    n_needed: int | None
    promise: str
    reason: str | None = None


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
        sets are small.
    """

    rows: list[PlanRow]
    alpha: float
    n: int
    excess: float
    deviation: float

    def __repr__(self) -> str:
        return str(self)

    @property
    def cheapest(self) -> Guarantee:
        """The guarantee that costs least, among those that hold for nearly every calibration set."""
        return next(
            row.guarantee for row in self.rows if row.guarantee.delta is not None and row.reason is None
        )

    @property
    def _table(self) -> list[tuple[str, str, str, str]]:
        """The header and the rows, written out."""
        table = [("guarantee", f"excess at n={self.n}", f"n for {self.excess:g}", "promise")]
        for row in self.rows:
            if row.reason is not None:
                table.append((row.guarantee.name, "-", "-", row.reason))
                continue
            needed = "never" if row.n_needed is None else f"{row.n_needed}"
            price = f"{row.correction:.2g}" if row.correction < self.alpha else "all classes"
            table.append((row.guarantee.name, price, needed, row.promise))
        return table

    def __str__(self) -> str:
        return "\n".join(
            f"{name:12s} {price:>18s} {needed:>14s}  {promise}"
            for name, price, needed, promise in self._table
        )

    def _repr_html_(self) -> str:
        from nacp.show.html import card, table

        header, *rows = self._table
        return card("Plan", table(header, rows, left=(0, 3)))


def plan(
    *,
    k: int,
    noise: NoiseLike,
    alpha: float = 0.1,
    delta: float = 0.05,
    n: int = 1000,
    excess: float = 0.01,
    probs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    score: ScoreLike = "hps",
) -> Plan:
    """Say what each guarantee will cost, before labels are bought.

    The cost is in coverage: how much more than 1 - alpha the sets will cover, to keep the promise.

    Parameters
    ----------
    k : int
        The number of classes; taken to be equally frequent.
    noise : float, array of shape (k, k) or noise model
        As in `calibrate`. Of an interval, the worse end counts; a radius comes on top, times the
        greatest distance between two rows of W.
    alpha : float, default=0.1
        The sets are to contain the true class with probability 1 - alpha.
    delta : float, default=0.05
        The probability with which a promise may fail, for guarantees that have one.
    n : int, default=1000
        The number of calibration points to plan for.
    excess : float, default=0.01
        Also find the number of points at which the cost is this much.
    probs, labels : arrays, optional
        A pilot sample with noisy labels, from which the deviation of one point's share is taken. Without it
        the sets are taken to be small, which is where they should be.
    score : str or score, default="hps"
        The score, for the pilot sample.

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
    """
    check_count("k", k, 2)
    check_count("n", n, 1)
    check_fraction("alpha", alpha)
    check_fraction("excess", excess)
    check_fraction("delta", delta)
    noise = noise_for(noise, k) or UniformNoise(0.0)
    priors = np.full(k, 1 / k)
    ends = [
        Problem(alpha, n, end, end.inverse(k), n * end.matrix(k).push(priors)) for end in noise.doubt.ends
    ]
    if (probs is None) != (labels is None):
        raise InputError("probs" if probs is None else "labels", "is missing; a pilot sample needs both")
    deviations = [
        end.small_set_deviation if probs is None else _deviation(probs, labels, end, score) for end in ends
    ]
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
    return Plan(rows, alpha, n, excess, max(deviations))


def _deviation(
    probs: ArrayLike | None, labels: ArrayLike | None, problem: Problem, score: ScoreLike
) -> float:
    """Return the deviation at the uncorrected threshold of a pilot sample."""
    score = as_score(score)
    rows, numbers, _ = open_points(probs, labels, probabilities=score.takes_probabilities)
    if rows.k != problem.k or rows.n < _PILOT:
        raise InputError(
            "probs", f"as a pilot sample needs {_PILOT} rows or more and k = {problem.k} columns",
            found=f"{rows.n} and {rows.k}",
        )  # fmt: skip
    sample = Sample(rows, numbers, score)
    coverage = coverage_under(sample, problem.noise)
    (crossing,) = sample.ask(coverage.crossings([1 - problem.alpha], "last"))
    (deviation,) = sample.ask(coverage.deviations(np.array([crossing.threshold])))
    return deviation
