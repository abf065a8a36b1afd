"""Base classes of the guarantees: how to select a threshold from a curve, and what that promises."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from nacp._types import Floats, Ints
from nacp.coverage.curve import ROUNDING, Curve, Rule
from nacp.coverage.grid import INFINITE
from nacp.coverage.tally import Sample
from nacp.errors import InputError
from nacp.noise import Noise, UniformNoise
from nacp.noise.base import RATE_STEP
from nacp.noise.matrices import ClassMatrix
from nacp.wrapping import counted

if TYPE_CHECKING:
    from nacp.audit.checked_sample import CheckedSample


_SAMPLED = 4096  # They determine the standard deviation of a share to within about 2%.


@dataclass(frozen=True)
class Problem:
    """The inputs of a correction. They do not include the probabilities.

    For coverage within a group of classes, the estimate is the sum over the points of
    ``s = sum over l in the group of W[y, l] (1{l in the set} - (1 - alpha))``, divided by the mass of the
    group, which estimates the number of points of its classes (docs/guarantees.md, G1).

    Attributes
    ----------
    alpha : float
        The target coverage is 1 - alpha.
    n : int
        The number of points.
    noise : Noise or None
        The noise model.
    inverse : ClassMatrix
        W.
    counts : array of shape (k,)
        The number of points with each class as their label.
    members : array of int, optional
        The classes of the group; None for all.
    several : bool
        Whether points may have several labels.
    widest : ClassMatrix, optional
        W at the upper end of an interval of rates, if `noise` is an end of one; else W.
    """

    alpha: float
    n: int
    noise: Noise | None
    inverse: ClassMatrix
    counts: Floats
    members: Ints | None = None
    several: bool = False
    widest: ClassMatrix | None = None

    @classmethod
    def of(cls, curve: Curve, alpha: float) -> "Problem":
        """Return the problem of a curve."""
        weights = curve.weights
        known = curve.noise, weights.inverse, curve.counts, curve.members, weights.several
        return cls(alpha, curve.tally.n, *known, curve.widest or weights.inverse)

    @property
    def k(self) -> int:
        """The number of classes."""
        return self.inverse.k

    @property
    def per_point(self) -> float:
        """1 / n, or for a group 1 / mass; infinite if the mass is not positive."""
        if self.members is None:
            return 1 / self.n
        mass = float(self.inverse.push(self.counts)[self.members].sum())
        return 1 / mass if mass > 0 else math.inf

    @property
    def range(self) -> tuple[float, float]:
        """The minimum and maximum of s for one point; without groups, of its share minus 1 - alpha."""
        if self.members is None:
            low, high = self.inverse.subset_range()
            return low - (1 - self.alpha), high - (1 - self.alpha)
        least, most = self.ranges(self.inverse)
        return float(least.min()), float(most.max())

    def ranges(self, inverse: ClassMatrix) -> tuple[Floats, Floats]:
        """Return the minimum and maximum of s for a point with each label, within the group."""
        entries = inverse.entries(np.arange(self.k)[:, None], np.asarray(self.members))
        ends = self.alpha * entries, (self.alpha - 1) * entries
        return np.minimum(*ends).sum(axis=1), np.maximum(*ends).sum(axis=1)

    @property
    def deviation(self) -> float:
        """The standard deviation of one point's share, for small sets and equally frequent classes."""
        noise = UniformNoise(0.0) if self.noise is None else self.noise
        coverage, alpha, matrix = 1 - self.alpha, self.alpha, noise.matrix(self.k)
        ones = np.ones(self.k)
        own = math.inf
        for W in self.inverse.blocks:
            squares = matrix.combine(np.multiply, W).combine(np.multiply, W)
            own = min(own, float(squares.pull(ones).mean()))
        if self.members is None:
            return math.sqrt(max(coverage * own - coverage**2, 0.0))
        # A point of the group varies like a hit; another point that is labelled as one of it is a miss.
        every = float(matrix.push(ones) @ self.inverse.combine(np.square).pull(ones)) / self.k
        spread = own * alpha * coverage + (every - own) * coverage**2
        return math.sqrt(max(spread, 0.0) * self.k / len(self.members))

    @property
    def is_uniform(self) -> bool:
        """Whether each point has one label and the noise, if any, is uniform."""
        return not self.several and (self.noise is None or self.noise.is_uniform)

    @property
    def epsilon(self) -> float:
        """The rate of uniform noise. Other noise models are refused before this is called."""
        if self.noise is None:
            return 0.0
        rate = self.noise.uniform_rate(self.k)
        assert rate is not None
        return rate


class Finding(NamedTuple):
    """The threshold that a guarantee selected for one alpha."""

    threshold: float  # on the native scale of the score
    estimate: float  # F^c-hat at the threshold
    correction: float = 0.0  # added to the target 1 - alpha
    obstacle: str | None = None  # the reason if the threshold is infinite
    gap: float = 0.0  # how far mean coverage may fall below the target
    note: str | None = None  # a further remark for the user
    deviation: float | None = None  # standard deviation of one point's share at the threshold, if computed


def found_at(curve: Curve, cell: int, correction: float, why: str) -> Finding:
    """Return the finding for a threshold of the grid; `why` is the reason if it is infinite."""
    if cell == INFINITE:
        beyond = float(curve.tally.hits[curve.tally.cells == INFINITE].sum()) / max(curve.points, 1)
        if beyond:
            last = float(curve.spec.thresholds[INFINITE - 1])
            why += f"; {percent(beyond)} of the labels have scores above {last:.7g}, where no threshold lies"
        return Finding(math.inf, 1.0, correction, curve.absent or why)
    cell = max(cell, 0)  # If empty sets reach the target, the smallest threshold is taken.
    estimate = float(curve.at(np.array([cell]), curve.clean)[0])
    return Finding(float(curve.spec.thresholds[cell]), estimate, correction)


class Guarantee(ABC):
    """A rule that selects the threshold, and the promise that comes with it.

    A guarantee that may fail with some probability is a dataclass with a field `delta`.

    Attributes
    ----------
    name : str
        The name in `nacp.calibrate`.
    promises_truth : bool
        Whether the promise is about true labels.
    only_uniform, only_as_given, needs_last : bool
        Whether the promise requires uniform noise, ``noise=None``, or the last crossing.
    takes_interval, takes_radius : bool
        Whether the promise holds for the larger of the thresholds at both ends of an interval of noise rates,
        and for a matrix that is known up to a radius.
    covers_rates : bool
        Whether it tests an interval of uniform rates at fixed rates instead of at its two ends.
    takes_checked, checked_alone : bool
        Whether checked labels can be used in place of a noise model, and whether only they are used then.
    takes_several : bool
        Whether points may have several labels.
    takes_classes, takes_groups_of_classes : bool
        Whether it works within classes, and within groups of several classes.
    all_alphas : bool
        Whether a promise with a delta holds for all alphas at once, and not only for each separately.
    needs_points, needs_squares : bool
        Whether it reads the points again, and whether the tally must contain squared set sizes.
    takes_unlabelled : bool
        Whether it can use points without labels.
    crosses_target : bool
        Whether the threshold is where the estimate reaches 1 - alpha plus the correction.
    """

    name: ClassVar[str]
    promises_truth: ClassVar[bool] = True
    only_uniform: ClassVar[bool] = False
    only_as_given: ClassVar[bool] = False
    needs_last: ClassVar[bool] = False
    takes_interval: ClassVar[bool] = False
    takes_radius: ClassVar[bool] = False
    covers_rates: ClassVar[bool] = False
    takes_checked: ClassVar[bool] = False
    checked_alone: ClassVar[bool] = False
    takes_several: ClassVar[bool] = False
    takes_classes: ClassVar[bool] = False
    takes_groups_of_classes: ClassVar[bool] = True
    all_alphas: ClassVar[bool] = False
    needs_points: ClassVar[bool] = False
    needs_squares: ClassVar[bool] = False
    takes_unlabelled: ClassVar[bool] = False
    crosses_target: ClassVar[bool] = False
    delta: float | None = None

    @abstractmethod
    def find(
        self,
        curves: Sequence[Curve],
        alphas: Sequence[float],
        crossing: Rule,
        sample: Sample | None = None,
        seed: int = 0,
    ) -> list[Finding]:
        """Return a finding for each pair of a curve and an alpha.

        `sample` holds the points of the curves, for a guarantee that reads them again, in an order shuffled
        by `seed`. It is None if they are no longer available, as in a stream.
        """

    def find_checked(self, sample: "CheckedSample", alphas: Sequence[float]) -> list[Finding]:
        """Return the finding for each alpha from checked labels."""
        raise NotImplementedError  # guarantees without `takes_checked` are refused before

    def excess_checked(self, m: int, alpha: float) -> float:
        """Return the excess of mean coverage over 1 - alpha with m checked labels alone.

        It is alpha if m labels are too few. It requires `takes_checked` and a delta.
        """
        raise NotImplementedError

    def checked_needed(self, excess: float, alpha: float) -> int | None:
        """Return the smallest number of checked labels with at most this excess; None if it is huge."""
        raise NotImplementedError

    @abstractmethod
    def promise(self, alpha: float) -> str:
        """Return the promise in one sentence."""

    @abstractmethod
    def excess(self, problem: Problem, deviation: float) -> float:
        """Return the excess of coverage over 1 - alpha, given the standard deviation of one point's share."""

    @classmethod
    def with_options(cls, **options: Any) -> "Guarantee":
        """Return the guarantee with the given options; options that it does not have are ignored."""
        names: list[str] = [field.name for field in fields(cls)] if is_dataclass(cls) else []
        return cls(**{name: value for name, value in options.items() if name in names})

    def applies(self, noise: Noise | None, crossing: Rule) -> str | None:
        """Return why the promise would not hold, or None if it holds; called before any row is read."""
        if self.only_as_given and noise is not None:
            return f"takes the labels as they are, with noise=None; noise is {noise!r}"
        if self.only_uniform and not (noise is None or noise.is_uniform):
            return (
                f'holds for uniform noise only; noise is {noise!r}: use "pac" or "expected", or "none" '
                "for no guarantee"
            )
        if crossing != "last" and self.needs_last:
            return (
                f'judges thresholds from the largest down, so crossing="{crossing}" promises nothing: '
                'use "last"'
            )
        if noise is None or noise.doubt.exact:
            return None
        doubt = noise.doubt
        if crossing != "last":
            return f'promises nothing with crossing="{crossing}" where noise is not known exactly: use "last"'
        if (len(doubt.ends) > 1 and not self.takes_interval) or (doubt.radius and not self.takes_radius):
            known = "an interval of rates" if len(doubt.ends) > 1 else "a radius around the matrix"
            return (
                f'needs noise that is known exactly, not up to {known}: use "pac" or "expected", or give '
                "the rate or the matrix alone"
            )
        if self.delta is not None and self.delta + doubt.missing >= 1:
            return (
                f"promises nothing with delta {self.delta:g} and confidence {doubt.confidence:g} of the "
                "noise: use a smaller delta or a higher confidence"
            )
        return None

    def check_applies(self, noise: Noise | None, crossing: Rule) -> None:
        """Raise an error if the promise would not hold."""
        reason = self.applies(noise, crossing)
        if reason is not None:
            raise InputError("guarantee", f'"{self.name}" {reason}')

    def check_several(self, *, several: bool) -> None:
        """Raise an error if points have several labels and the promise requires one."""
        if several and not self.takes_several:
            raise InputError(
                "guarantee",
                f'"{self.name}" holds for one label for each point, and one noise model for all',
                remedy='use "pac", "expected", "nacp" or "none"',
            )

    def promise_under(self, noise: Noise | None, alpha: float) -> str:
        """Return the promise in one sentence, for noise that is as stated with some confidence only.

        The probability that it is not as stated is added to delta, or to alpha if there is no delta.
        """
        missing = 0.0 if noise is None else noise.doubt.missing
        if not missing:
            return self.promise(alpha)
        if self.delta is None:
            return self.promise(min(alpha + missing, 1.0))
        return replace(self, delta=self.delta + missing).promise(alpha)  # type: ignore[type-var]  # a dataclass

    def promise_checked(self, alpha: float) -> str:
        """Return the promise in one sentence, for a threshold from checked labels."""
        return self.promise(alpha)

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for a file."""
        return {"name": self.name} | {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in vars(self).items()
        }

    def samples_needed(self, problem: Problem, excess: float, deviation: float) -> int | None:
        """Return the smallest n with at most this excess; None if there is none."""

        def enough(n: int) -> bool:
            resized = replace(problem, n=n, counts=problem.counts * (n / problem.n))
            return self.excess(resized, deviation) <= excess + ROUNDING

        high = problem.n
        while not enough(high):
            high *= 2
            if high > 1 << 48:
                return None
        low = 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def points_needed(self, noise: Noise | None, k: int, alpha: float, *, of_classes: bool) -> int | None:
        """Return about how many points a group needs for sets smaller than the set of all labels.

        With a delta, the number at which the excess is alpha / 2. None if no number suffices.

        Examples
        --------
        >>> import nacp
        >>> 300 < nacp.PAC(0.05).points_needed(nacp.UniformNoise(0.2), 10, 0.1, of_classes=True) < 400
        True
        """
        return _points_needed(self, noise, k, alpha, of_classes)


@lru_cache(maxsize=4)  # It is asked for each class.
def _points_needed(
    guarantee: Guarantee, noise: Noise | None, k: int, alpha: float, of_classes: bool
) -> int | None:
    model = UniformNoise(0.0) if noise is None else noise
    members = np.zeros(1, dtype=np.int64) if of_classes else None
    problem = Problem(alpha, 1000 * k, noise, model.inverse(k), np.full(k, 1000.0), members)
    deviation, excess = (0.0, alpha) if guarantee.delta is None else (problem.deviation, alpha / 2)
    needed = guarantee.samples_needed(problem, excess, deviation)
    return needed if needed is None or not of_classes else max(1, math.ceil(needed / k))


class Corrected(Guarantee):
    """A guarantee whose threshold is where the estimated clean coverage reaches 1 - alpha + correction."""

    crosses_target: ClassVar[bool] = True

    @abstractmethod
    def correction(self, problem: Problem) -> float:
        """Return what is added to the target 1 - alpha; infinite if no threshold keeps the promise."""

    def obstacle(self, problem: Problem) -> str | None:
        """Return the reason if the correction is infinite."""
        return None

    def excess(self, problem: Problem, deviation: float) -> float:
        return self.correction(problem)

    def find(
        self,
        curves: Sequence[Curve],
        alphas: Sequence[float],
        crossing: Rule,
        sample: Sample | None = None,
        seed: int = 0,
    ) -> list[Finding]:
        """Return the finding where each estimate crosses its corrected target."""
        found = [self.cross(curve, alpha, crossing) for curve, alpha in zip(curves, alphas, strict=True)]
        return found if self.delta is None else list(map(with_deviation, found, curves, repeat(sample)))

    def cross(self, curve: Curve, alpha: float, crossing: Rule) -> Finding:
        """Return the finding where an estimate crosses its corrected target."""
        problem = Problem.of(curve, alpha)
        correction = self.correction(problem)
        cell = curve.crossing(1 - alpha + correction, crossing)
        return found_at(curve, cell, correction, self._why(problem, correction) if cell == INFINITE else "")

    def _why(self, problem: Problem, correction: float) -> str:
        reason = self.obstacle(problem)
        if reason is not None:
            return reason
        if correction <= problem.alpha + ROUNDING:
            return "the estimated coverage stays below the target at every finite score"
        target = f'the correction of guarantee "{self.name}", {correction:.4g}, puts the target'
        if problem.members is not None:
            needed = self.points_needed(problem.noise, problem.k, problem.alpha, of_classes=True)
            enough = "" if needed is None else f"; about {needed:,} points should do"
            return f"{target} {1 - problem.alpha:.6g} above 1: too few points{enough}"
        needed = self.samples_needed(problem, problem.alpha, 0.0)
        enough = "no sample size would do" if needed is None else f"{needed:,} points would do"
        return f"with {counted(problem.n, 'point')} {target} {1 - problem.alpha:.6g} above 1; {enough}"


def with_deviation(finding: Finding, curve: Curve, sample: Sample | None) -> Finding:
    """Add the standard deviation of a point's share at the threshold to a finding, if there is a sample.

    In a large sample it is that of some of the points, evenly spaced.
    """
    if math.isinf(finding.threshold):
        return finding._replace(deviation=0.0)
    if sample is None or curve.members is not None:
        return finding
    if sample.n > _SAMPLED:
        sample = sample.some(np.arange(0, sample.n, math.ceil(sample.n / _SAMPLED)))
    cell = int(np.searchsorted(curve.spec.thresholds, finding.threshold))
    return finding._replace(deviation=curve.deviation(sample, cell))


class Found(NamedTuple):
    """A finding and the curve that it comes from."""

    finding: Finding
    curve: Curve  # under the noise model, or under one end of its interval
    price_of_doubt: float = 0.0  # mean number of labels per set that are due to inexact noise


def find(
    guarantee: Guarantee,
    curve_under: Callable[[Noise | None, float], Curve],
    noise: Noise | None,
    alphas: Sequence[float],
    crossing: Rule,
    sample: Sample | None = None,
    seed: int = 0,
) -> list[Found]:
    """Return what a guarantee finds for each alpha, also if the noise is not known exactly.

    For an interval of rates, the result is the largest of the thresholds at both ends, or at the fixed rates
    that cover it: such a threshold passes at every rate of the interval (docs/guarantees.md, N4). If several
    are infinite, the reason given is that of the highest rate. Each curve accounts for the radius.
    `curve_under` returns the curve of the points under a noise model and a radius; `sample` holds the points,
    if they can be read again.
    """
    exact = curve_under(noise, 0.0)
    exactly = guarantee.find([exact] * len(alphas), alphas, crossing, sample, seed)
    results = list(map(Found, exactly, repeat(exact)))
    if noise is None or noise.doubt.exact:
        return results
    ends, models, step = [], noise.doubt.ends, 0.0
    widest = curve_under(models[-1], 0.0).weights.inverse
    if guarantee.covers_rates and len(models) > 1 and noise.is_uniform and not exact.weights.several:
        models, step = noise.doubt.covering, RATE_STEP
    for end in models:
        curve = replace(curve_under(end, noise.doubt.radius), widest=widest, rate_step=step)
        ends.append((curve, guarantee.find([curve] * len(alphas), alphas, crossing, sample, seed)))
    for i, (known, _, _) in enumerate(results):
        ways = [(curve, found[i]) for curve, found in ends]
        curve, finding = max(ways, key=lambda way: way[1].threshold)
        if ways[-1][1].threshold == math.inf:
            curve, finding = ways[-1]
        finding = finding._replace(gap=max(found[i].gap for _, found in ends))
        cells = np.searchsorted(exact.spec.thresholds, [known.threshold, finding.threshold])
        less, more = exact.at(cells, exact.random) * exact.tally.k
        results[i] = Found(finding, curve, float(more - less))
    return results


def percent(fraction: float) -> str:
    """Write 0.999 as 99.9%."""
    return f"{100 * fraction:.6g}%"


def on_average(alpha: float, less: str = "", of: str = "the true label") -> str:
    """Return the sentence that promises coverage in expectation."""
    return f"coverage of {of} is at least {percent(1 - alpha)}{less} in expectation over calibration sets"


def nearly_always(delta: float, alpha: float) -> str:
    """Return the sentence that promises coverage for all but a fraction delta of calibration sets."""
    return (
        f"for at least {percent(1 - delta)} of calibration sets, "
        f"coverage of the true label is at least {percent(1 - alpha)}"
    )
