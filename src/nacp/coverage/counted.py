"""The tallies of points under a noise model and under both ends of its interval; of dask arrays, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import add, sub
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
    def of(cls, sample: Sample, noise: Noise | None, *, squares: bool = False, more: Any = None) -> Counted:
        """Tally a sample."""
        weights = weights_under(noise, sample.k, sample.several)
        tallies: dict[Noise | None, Tally] = {}
        pairs: Tally | None = None
        for model, each in weights.items():
            if each.constant is None:
                tallies[model] = Tally.of(sample, each, squares)
            else:
                tallies[model] = pairs = Tally.of(sample, each, squares) if pairs is None else pairs
        return cls(tallies, weights, sample.score, more)

    def lowest(self, noise: Noise | None) -> Curve:
        """Return the curve under a noise model, or under the low end of its interval of rates."""
        return self.curve(noise) if noise is None else self.curve(noise.doubt.ends[0], noise.doubt.radius)

    def curve(self, model: Noise | None, radius: float = 0.0) -> Curve:
        """Return the curve under a noise model whose matrix is known up to a radius."""
        spec: Spec = self.score.spec
        if model in self.weights:
            return Curve(self.tallies[model], spec, self.weights[model], model, radius, self.more)
        tally = next(iter(self.tallies.values()))  # All uniform models share it.
        return Curve(tally, spec, Weights(inverse_of(model, tally.k)), model, radius, self.more)


def weights_under(noise: Noise | None, k: int, several: bool) -> dict[Noise | None, Weights]:
    """Return the weights under a noise model and at the ends of its interval."""
    models: list[Noise | None] = [noise] if noise is None else [*noise.doubt.ends]
    if len(models) > 1:
        models.append(noise)
    return {model: Weights(inverse_of(model, k, several), several) for model in models}


@dataclass(frozen=True)
class Chunk:
    """What was counted of some points: of a batch, of a chunk of a dask array, or of several of them."""

    tallies: list[Tally]  # under each model of `weights_under`
    widths: Widths
    several: int | None  # the number of labels, if points have several each

    @classmethod
    def of(
        cls, rows: Rows, labels: Any, noise: Noise | None, score: Score, classes: Any, squares: bool
    ) -> Chunk:
        """Count rows; squares of set sizes only if points have one label each."""
        numbers, parts = check_given(labels, rows.n, rows.k, classes), None
        if noise is not None:
            numbers, parts = noise.spread(numbers)
        sample = Sample.of(rows, numbers, score, parts)
        counted = Counted.of(sample, noise, squares=squares and not sample.several)
        several = sample.given if sample.several else None
        return cls([*counted.tallies.values()], rows.widths, several)

    @property
    def n(self) -> int:
        """The number of points."""
        return self.tallies[0].n

    def counted(self, noise: Noise | None, score: Score) -> Counted:
        """Return the tallies by noise model."""
        weights = weights_under(noise, self.tallies[0].k, self.several is not None)
        return Counted(dict(zip(weights, self.tallies, strict=True)), weights, score)

    def __add__(self, other: Chunk) -> Chunk:
        return self._with(other, add)

    def __sub__(self, other: Chunk) -> Chunk:
        return self._with(other, sub)

    def _with(self, other: Chunk, operation: Callable[[Any, Any], Any]) -> Chunk:
        tallies = list(map(operation, self.tallies, other.tallies))
        several = None if self.several is None else operation(self.several, other.several or 0)
        return Chunk(tallies, max(self.widths, other.widths, key=lambda each: int(each.least[5:])), several)


def count_lazy(
    rows: LazyRows, labels: Any, noise: Noise | None, score: Score, classes: Any, squares: bool
) -> Chunk:
    """Count a dask array chunk by chunk, where these are."""
    given = labels if is_lazy(labels) else check_given(labels, rows.n, rows.k, classes)
    names = classes if is_lazy(labels) else None
    count = partial(Chunk.of, noise=noise, score=score, classes=names, squares=squares)
    found: Chunk = rows.map(count, given, join=_sum)
    return found


def _sum(chunks: list[Chunk]) -> Chunk:
    return reduce(add, chunks)
