"""The binomial test: exact for uniform noise, in no order, and sharpened by unlabelled points.

Under uniform noise ``F^n = (1 - epsilon) F^c + epsilon F^r``. If F^c(q) < 1 - alpha, the number of noisy
labels in the sets is stochastically smaller than a binomial with ``p0 = (1 - epsilon)(1 - alpha) + epsilon
U``, where U bounds F^r(q), the mean share of classes in a set, from above. F^r needs no labels. The theorem
and its proof: docs/guarantees.md, T1 and T2.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from nacp._types import Array, Bools, Floats, Ints
from nacp.coverage import Evidence
from nacp.guarantees.base import Problem
from nacp.guarantees.pointwise import PointwiseTest, floor

_RUNGS = 24
# How far below the top the crude look reaches: each step twice as far.
_STAIRS = np.append(0, 1 << np.arange(16))


class _Sizes(NamedTuple):
    """The mean share of the k classes in n sets, and the mean of its square, at some thresholds."""

    n: int
    mean: Floats
    square: Floats


@dataclass(frozen=True)
class Binomial(PointwiseTest):
    """For a fraction 1 - delta of calibration sets, clean coverage is at least 1 - alpha; uniform noise.

    A little dearer than `PAC`, but the order of the points plays no part, and probabilities of *unlabelled*
    points (``calibrate(..., unlabelled=...)``) make it cheaper. Needs ``crossing="last"``.
    The proof: docs/guarantees.md, T1 and T2.

    Parameters
    ----------
    delta : float, default=0.05
        The probability, over the calibration set, with which the promise may fail.
    grid : tuple of float, optional
        The thresholds to test, as in `PAC`.

    Examples
    --------
    >>> import nacp
    >>> nacp.Binomial(delta=0.01).promise(0.1)
    'for at least 99% of calibration sets, coverage of the true label is at least 90%'
    """

    name: ClassVar[str] = "binomial"
    step: ClassVar[float] = 0.001  # most thresholds are settled without a look, so more of them cost little

    def price(self, problem: Problem, deviation: float) -> float:
        """Return ``z_{1-delta} deviation / sqrt(n)`` at 19/20 of delta, which the test comes close to."""
        problem.epsilon(self.name)
        return floor(0.95 * self.delta, deviation, problem.n)

    def lowest_passing(
        self, evidence: Evidence, problems: Sequence[Problem], grid: Floats, starts: Ints, seed: int
    ) -> Ints:
        """Return for each problem the place in the grid from which on upwards all p-values are small."""
        hits = evidence.labels_upto(grid)
        searches = [
            self._search(problem, hits, start) for problem, start in zip(problems, starts, strict=True)
        ]
        found = np.zeros(len(problems), dtype=np.int64)
        asked: dict[int, Ints] = {}

        def go_on(i: int, known: _Sizes | None) -> None:
            try:
                asked[i] = next(searches[i]) if known is None else searches[i].send(known)
            except StopIteration as end:
                asked.pop(i, None)
                found[i] = end.value

        for i in range(len(searches)):
            go_on(i, None)
        while asked:
            # What all of them want to know is read at once.
            places = np.unique(np.concatenate(list(asked.values())))
            total, sums, squares = evidence.set_sizes(grid[places])
            for i, wanted in list(asked.items()):
                at = np.searchsorted(places, wanted)
                go_on(i, _Sizes(total, sums[at] / total, squares[at] / total))
        return found

    def _search(self, problem: Problem, hits: Ints, start: int) -> Generator[Ints, _Sizes, int]:
        """Ask for the sizes of sets at places of the grid, and return from where on upwards all pass.

        `hits` counts the labels up to each threshold; all before `start` have failed.
        """
        epsilon = problem.epsilon(self.name)

        def passes(places: Ints, bound: Array) -> Bools:
            p0 = (1 - epsilon) * (1 - problem.alpha) + epsilon * bound
            return _upper_tail(problem.n, hits[places], p0) <= 0.95 * self.delta

        def last_failure(places: Ints, passed: Bools) -> int:
            return int(places[np.flatnonzero(~passed)].max(initial=start - 1))

        # All above `top` pass, whatever F^r is; `failed` fails, even if F^r were 0.
        everywhere = np.arange(start, len(hits))
        top = last_failure(everywhere, passes(everywhere, np.ones(len(everywhere))))
        failed = last_failure(everywhere, passes(everywhere, np.zeros(len(everywhere))))
        crude = True
        while top > failed:
            if crude:
                # A cell (a, b] passes if the labels up to its lowest threshold do with the bound at its
                # highest.
                ends = np.unique(np.maximum(max(failed, start), top - _STAIRS))
                known = yield ends
                bound = _chernoff(known.mean, known.n, self._part)
                clear = passes(np.append(failed, ends[:-1]) + 1, bound)
                lowered = max(last_failure(ends, clear), failed)
                crude, top = lowered < top, lowered
            else:
                places = np.arange(max(failed, top - _RUNGS) + 1, top + 1)
                known = yield places
                bound = np.minimum(
                    _chernoff(known.mean, known.n, self._part),
                    _bernstein(known.mean, known.square, known.n, self._part),
                )
                worst = last_failure(places, passes(places, bound))
                top, failed = (worst, worst) if worst >= start else (max(failed, top - _RUNGS), failed)
                crude = True
        return failed + 1

    @property
    def _part(self) -> float:
        """The share of delta that each of the two bounds of F^r may fail with."""
        return self.delta / 40


def _upper_tail(n: int, hits: Ints, p0: Array) -> Floats:
    """Return ``P(Bin(n, p0) >= hits)``."""
    from scipy.special import betainc

    tail = np.ones(len(hits))
    some = hits > 0
    tail[some] = betainc(hits[some], n - hits[some] + 1, np.minimum(p0[some], 1.0))
    return tail


def _chernoff(mean: Floats, n: int, delta: float) -> Floats:
    """Return the largest u with ``n kl(mean, u) <= log(1/delta)``, an upper bound of a mean in [0, 1]."""
    from scipy.special import rel_entr

    low, high = mean.copy(), np.ones_like(mean)
    for _ in range(60):
        middle = (low + high) / 2
        inside = rel_entr(mean, middle) + rel_entr(1 - mean, 1 - middle) <= math.log(1 / delta) / n
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high


def _bernstein(mean: Floats, square: Floats, n: int, delta: float) -> Floats:
    """Return the empirical Bernstein bound of an expectation in [0, 1] (Maurer and Pontil, 2009)."""
    if n < 2:
        return np.ones_like(mean)
    variance = np.maximum(square - mean**2, 0) * n / (n - 1)
    log = math.log(2 / delta)
    bound: Floats = mean + np.sqrt(2 * variance * log / n) + 7 * log / (3 * (n - 1))
    return bound
