"""plan(): what each guarantee will cost, before labels are bought."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._validation import check_count, check_fraction, check_labels, check_probs
from nacp.coverage import Evidence
from nacp.crossing import find_crossings
from nacp.guarantees import ACNL, CRCP, NACP, PAC, Binomial, Expected, Guarantee, Problem
from nacp.noise import UniformNoise, as_noise, check_estimate
from nacp.scores import as_score

_PILOT = 50


class PlanRow(NamedTuple):
    """What one guarantee costs: the excess coverage at n, the n for a wanted excess, and what it promises."""

    guarantee: Guarantee
    correction: float
    n_needed: int | None
    promise: str


@dataclass(frozen=True, repr=False)
class Plan:
    """What `plan` found; print it for a table.

    Attributes
    ----------
    rows : list of PlanRow
        From the cheapest to the dearest.
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
        return next(row.guarantee for row in self.rows if row.guarantee.delta is not None)

    @property
    def _table(self) -> list[tuple[str, str, str, str]]:
        """The header and the rows, written out."""
        table = [("guarantee", f"excess at n={self.n}", f"n for {self.excess:g}", "promise")]
        for row in self.rows:
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
    noise: Any,
    alpha: float = 0.1,
    delta: float = 0.05,
    n: int = 1000,
    excess: float = 0.01,
    probs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    score: Any = "hps",
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
    ['expected 0.0000', 'pac 0.0110', 'binomial 0.0110', 'nacp 0.0193']
    """
    model = as_noise(noise) or UniformNoise(0.0)
    check_fraction("alpha", alpha)
    check_fraction("excess", excess)
    for name, value, least in (("k", k, 2), ("n", n, 1)):
        if check_count(name, value) < least:
            raise ValueError(f"{name} must be at least {least}; found {value}")
    check_estimate(noise, k)
    priors = np.full(k, 1 / k)
    ends = [Problem(alpha, n, end, end.inverse(k), n * end.matrix(k).push(priors)) for end in model.ends()]
    if (probs is None) != (labels is None):
        raise ValueError("a pilot sample needs both probs and labels")
    deviations = [
        end.small_set_deviation if probs is None else _deviation(probs, labels, end, score) for end in ends
    ]
    candidates = (
        PAC(delta),
        Binomial(delta),
        NACP(delta),
        Expected(),
        ACNL(priors=priors),
        CRCP(priors=priors),
    )
    doubt = model.radius * model.inverse(k).row_distance() if model.radius else 0.0
    rows = []
    for guarantee in candidates:
        try:
            guarantee.refuse(model, "last")
            prices = [guarantee.price(*end) + doubt for end in zip(ends, deviations, strict=True)]
        except ValueError:
            continue  # not for this kind of noise
        worst = int(np.argmax(prices))
        needed = None
        if excess > doubt:
            needed = guarantee.samples_needed(ends[worst], excess - doubt, deviations[worst])
        rows.append(PlanRow(guarantee, prices[worst], needed, guarantee.promise_under(model, alpha)))
    rows.sort(key=lambda row: row.correction)
    return Plan(rows, alpha, n, excess, max(deviations))


def _deviation(probs: Any, labels: Any, problem: Problem, score: Any) -> float:
    """Return the deviation at the uncorrected threshold of a pilot sample."""
    kind = as_score(score)
    rows = check_probs(probs, probabilities=kind.takes_probabilities)
    if rows.k != problem.k or rows.n < _PILOT:
        raise ValueError(
            f"a pilot sample needs {_PILOT} rows or more and k = {problem.k} columns; found {rows.n, rows.k}"
        )
    evidence = Evidence(rows, check_labels(labels, rows.n, rows.k), kind, problem.inverse)
    return evidence.deviation(find_crossings(evidence, [1 - problem.alpha], "last")[0].threshold)
