"""The tallies of points under a noise model and under both ends of its interval; of dask arrays, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

from nacp.coverage.curve import Curve, inverse_of
from nacp.coverage.tally import Sample, Tally, Weights
from nacp.engine import Spec
from nacp.noise import Noise
from nacp.points import Rows, Widths, check_given
from nacp.points.arrays import is_lazy
from nacp.points.lazy import LazyRows
from nacp.scores import Score


@dataclass(frozen=True, eq=False)
class Counted:
    """The tallies of points under the stated noise model and under both ends of its interval.

    Attributes
    ----------
    tallies, weights : dict
        By noise model. If all pairs have the same weight, all models share one tally.
    score : Score
        The score of the pairs.
    more : Tally, optional
        The tally of further points without labels: see `nacp.coverage.curve.Curve`.
    """

    tallies: dict[Noise | None, Tally]
    weights: dict[Noise | None, Weights]
    score: Score
    more: Any = None

    @classmethod
    def by(
        cls, count: Callable[[Weights], Tally], noise: Noise | None, score: Score, k: int, several: bool,
        more: Any = None,
    ) -> Counted:  # fmt: skip
        """Call `count` with the weights of each noise model."""
        weights = weights_under(noise, k, several)
        tallies: dict[Noise | None, Tally] = {}
        alike: Tally | None = None
        for model, each in weights.items():
            if each.constant is None:
                tallies[model] = count(each)
            else:
                tallies[model] = alike = count(each) if alike is None else alike
        return cls(tallies, weights, score, more)

    @classmethod
    def of(cls, sample: Sample, noise: Noise | None, *, squares: bool = False, more: Any = None) -> Counted:
        """Tally a sample."""
        count = partial(Tally.of, sample, squares=squares)
        return cls.by(count, noise, sample.score, sample.k, sample.several, more)

    def lowest(self, noise: Noise | None) -> Curve:
        """Return the curve under a noise model, or under the low end of its interval of rates."""
        return self.curve(noise) if noise is None else self.curve(noise.doubt.ends[0], noise.doubt.radius)

    def curve(self, model: Noise | None, radius: float = 0.0) -> Curve:
        """Return the curve under a noise model whose matrix is known up to a radius."""
        spec: Spec = self.score.spec
        return Curve(self.tallies[model], spec, self.weights[model], model, radius, self.more)


def weights_under(noise: Noise | None, k: int, several: bool) -> dict[Noise | None, Weights]:
    """Return the weights under a noise model and at the ends of its interval."""
    models: list[Noise | None] = [noise] if noise is None else [*noise.doubt.ends]
    if len(models) > 1:
        models.append(noise)
    found = {}
    for model in models:
        found[model] = Weights(inverse_of(model, k, several), several)
    return found


@dataclass(frozen=True, eq=False)
class Chunk:
    """The tallies of one or several chunks of a dask array."""

    tallies: list[Tally]
    widths: Widths
    several: int | None

    def __add__(self, other: Chunk) -> Chunk:
        tallies = [a + b for a, b in zip(self.tallies, other.tallies, strict=True)]
        several = None if self.several is None else self.several + (other.several or 0)
        return Chunk(tallies, max(self.widths, other.widths, key=lambda each: int(each.least[5:])), several)


def count_lazy(
    rows: LazyRows, labels: Any, noise: Noise | None, score: Score, classes: Any, squares: bool
) -> tuple[Counted, Widths, int | None]:
    """Tally a dask array; return also its widths, and the number of labels if points have several."""
    given = labels if is_lazy(labels) else check_given(labels, rows.n, rows.k, classes)
    names = classes if is_lazy(labels) else None
    found = rows.map(partial(_chunk, noise, score, names, squares), given, join=_sum)
    weights = weights_under(noise, rows.k, found.several is not None)
    tallies = dict(zip(weights, found.tallies, strict=True))
    return Counted(tallies, weights, score), found.widths, found.several


def _chunk(noise: Noise | None, score: Score, classes: Any, squares: bool, rows: Rows, labels: Any) -> Chunk:
    numbers, parts = check_given(labels, rows.n, rows.k, classes), None
    if noise is not None:
        numbers, parts = noise.spread(numbers)
    sample = Sample.of(rows, numbers, score, parts)
    counted = Counted.of(sample, noise, squares=squares)
    return Chunk([*counted.tallies.values()], rows.widths_of_all(), sample.given if sample.several else None)


def _sum(chunks: list[Chunk]) -> Chunk:
    return reduce(add, chunks)
