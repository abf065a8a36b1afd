"""How many labels to check: what checked labels cost alone, beside noisy ones, and where they are chosen.

Alone, the cost is that of the exact binomial test, and exact. Noisy labels make each checked one worth more,
by the variance of the estimate in two strata (docs/guarantees.md, A1 and A2): an approximation, which is good
for many labels.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Floats
from nacp.advice.comparison import ALONE, CHECKED
from nacp.audit.calibration import open_checked
from nacp.audit.choice import chosen_share, guessing_noise
from nacp.audit.plan import Audit
from nacp.audit.strata import CHOSEN_CUT, CheckedSample
from nacp.calibrate import ScoreLike
from nacp.coverage.sample import Sample
from nacp.errors import InputError
from nacp.guarantees import Guarantee, as_guarantee
from nacp.noise import NoiseLike, Unsaid
from nacp.points import Rows, open_points
from nacp.scores import as_score
from nacp.stats.counts import binomial_excess, binomial_needed
from nacp.stats.strata import strata_variance

CHOSEN = "checked, chosen"
_PILOT, _ENTRIES = 50, 1 << 22


class Informed(NamedTuple):
    """What noisy labels say of the true ones, at the threshold that covers 1 - alpha.

    Attributes
    ----------
    outside : float
        How often the noisy label makes it doubtful that the true one is in the set.
    covered_outside, covered_inside : float
        How often the true label is in the set where that is doubtful, and where it is not.
    assumed : str
        Where these come from.
    """

    outside: float
    covered_outside: float
    covered_inside: float
    assumed: str


class CheckedCost(NamedTuple):
    """What a guarantee costs with m checked labels, and how many it takes for a wanted excess."""

    guarantee: Guarantee
    labels: str
    excess: float
    needed: int | None
    reason: str | None = None


def costs_of_checking(
    m: int, n: int, alpha: float, delta: float, excess: float, informed: Informed | None
) -> list[CheckedCost]:
    """Return what m checked labels of n cost: alone, with the noisy ones, and chosen."""
    pac, base = as_guarantee("pac", delta), binomial_excess(m, alpha, delta)
    alone = binomial_needed(excess, alpha, delta)
    rows = [
        CheckedCost(as_guarantee("expected"), ALONE, *_split(m, alpha, excess)),
        CheckedCost(pac, ALONE, base, alone),
    ]
    if informed is None:
        why = "give noise, such as the share of wrong labels, or a pilot sample"
        return rows + [CheckedCost(pac, which, math.inf, None, why) for which in (CHECKED, CHOSEN)]
    known = informed

    def random(number: int) -> float:
        return max(strata_worth(known, alpha, number, n, known.outside), 1.0)

    def chosen(number: int) -> float:
        share = chosen_share(known.outside, alpha)
        return max(strata_worth(known, alpha, number, n, share), random(number))

    for which, worth in ((CHECKED, random), (CHOSEN, chosen)):
        cost = base if base >= alpha else base / math.sqrt(worth(m))
        rows.append(CheckedCost(pac, which, cost, _needed(alone, n, worth, alpha, delta)))
    return rows


def strata_worth(informed: Informed, alpha: float, m: int, n: int, share: float) -> float:
    """Return what a checked label is worth if a share of m are checked outside.

    That is alpha (1 - alpha) / m over the variance of ``w0 p0 + w1 p1``, the shares of the two strata being
    estimated from n noisy labels, their coverages from the checked ones (or all, if a stratum has fewer).
    Half a miss more in each stratum stands for those that have not been seen.
    """
    w0, p0, p1 = informed.outside, informed.covered_outside, informed.covered_inside
    w1 = 1 - w0
    first = max(min(m * share, w0 * n), 1.0)
    second = max(min(m - first, w1 * n), 1.0)
    return float(alpha * (1 - alpha) / (m * strata_variance(w0, p0, p1, first, second, n)))


def _needed(
    alone: int | None, n: int, worth: Callable[[int], float], alpha: float, delta: float
) -> int | None:
    """Return the least number that is worth as much as `alone` labels; all of these if n are too few."""
    least = binomial_needed(alpha, alpha, delta)
    if alone is None or least is None or alone >= n:
        return alone
    low, high = min(least, alone) - 1, alone
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle * worth(middle) >= alone else (middle, high)
    return high


def _split(m: int, alpha: float, excess: float) -> tuple[float, int | None]:
    """Return what split conformal prediction costs with m labels, and the least m at which it is enough."""

    def cost(numbers: Floats) -> Floats:
        ranks = np.ceil((numbers + 1) * (1 - alpha) - 1e-9)
        return np.where(ranks <= numbers, ranks / (numbers + 1) - (1 - alpha), alpha)

    some = np.arange(1.0, min(1 / excess, 1e6) + 1 / alpha + 2)
    places = np.flatnonzero(cost(some) <= excess + 1e-12)
    return float(cost(np.array([float(m)]))[0]), int(some[places[0]]) if len(places) else math.ceil(
        1 / excess
    )


def informed_by_share(wrong: float, alpha: float) -> Informed:
    """Return what noisy labels say if so many are wrong, wherever the true label is, and outside of the sets.

    Then the noisy label is in the set if it is right and the true one is.
    """
    inside = (1 - alpha) * (1 - wrong)
    said = f"{100 * wrong:.3g}% of labels are wrong, on hard and easy inputs alike, and then not in the sets"
    return Informed(1 - inside, (1 - alpha) * wrong / (1 - inside), 1.0, said)


def check_pilot(rows: Rows, k: int) -> None:
    """Refuse a pilot sample that is too small, or of other classes."""
    if rows.k != k or rows.n < _PILOT:
        raise InputError(
            "probs",
            f"as a pilot sample needs {_PILOT} rows or more and k = {k:,} columns",
            found=f"{rows.n:,} and {rows.k:,}",
        )


def informed_by_pilot(
    probs: ArrayLike,
    labels: ArrayLike,
    clean: Any,
    noise: NoiseLike | Unsaid,
    k: int,
    alpha: float,
    score: ScoreLike,
) -> Informed:
    """Return what noisy labels say on a pilot sample: against checked labels, or as the classifier has it."""
    score = as_score(score)
    options: dict[str, Any] = {
        "probabilities": score.takes_probabilities,
        "normalize": False,
        "classes": None,
    }
    if clean is None:
        rows, numbers, _ = open_points(probs, labels, **options)
        nobody = np.zeros(0, dtype=np.int64)
        audit = Audit(nobody, nobody, np.arange(rows.n)[: max(_PILOT, _ENTRIES // rows.k)], nobody)
    else:
        rows, numbers, _, audit = open_checked(probs, labels, clean, 0, **options)
    check_pilot(rows, k)
    sample = Sample.of(rows, numbers, score)
    few = audit.pilot if len(audit.pilot) else np.arange(sample.n)
    checked = CheckedSample(sample, audit, guessing_noise(sample, noise, few).matrix(sample.k))
    if clean is None:
        pilot = checked.pilot(alpha, cut=CHOSEN_CUT)
        said = f"the classifier's probabilities are right on the {sample.n:,} points of the pilot sample"
        return Informed(pilot.outside[0] / pilot.outside[1], *pilot.predicted, said)
    threshold = float(np.quantile(checked.checked_scores, 1 - alpha, method="higher"))
    hits, (outside,) = checked.checked_scores <= threshold, checked.outside([threshold], CHOSEN_CUT)
    sides = (outside[audit.rows], ~outside[audit.rows])
    out, within = (float((hits[side].sum() + 0.5) / (side.sum() + 1)) for side in sides)
    said = f"what {len(hits):,} checked labels of the pilot sample say of the others"
    return Informed(float(outside.mean()), out, within, said)
