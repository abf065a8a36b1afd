"""One threshold for all points: from tallies to calibrations, and the coverage estimates behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Array, Floats, Ints
from nacp.calibration import Calibration
from nacp.coverage.contradiction import against, warn_of
from nacp.coverage.curve import CoverageCurve, Curve, Rule, inverse_of
from nacp.coverage.tally import Sample, Tally, Weights
from nacp.engine import Spec
from nacp.errors import InputError, warn
from nacp.guarantees import Finding, Guarantee, find
from nacp.noise import Noise, NoiseLike, noise_for
from nacp.points import Rows, Widths, check_given, open_points
from nacp.points.arrays import is_lazy
from nacp.points.lazy import LazyRows
from nacp.scores import Score, ScoreLike, as_score


class NoValidThresholdWarning(UserWarning):
    """No threshold keeps the promise with this calibration set, so the sets hold all classes."""


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

    def curve(self, model: Noise | None, radius: float = 0.0) -> Curve:
        """Return the curve under a noise model whose matrix is known up to a radius."""
        spec: Spec = self.score.spec
        return Curve(self.tallies[model], spec, self.weights[model], model, radius, self.more)


def lowest_end(noise: Noise | None) -> tuple[Noise | None, float]:
    """Return the model at the low end of an interval of rates (or the model itself), and the radius."""
    return (None, 0.0) if noise is None else (noise.doubt.ends[0], noise.doubt.radius)


def weights_under(noise: Noise | None, k: int, several: bool) -> dict[Noise | None, Weights]:
    """Return the weights under a noise model and at the ends of its interval."""
    models: list[Noise | None] = [noise] if noise is None else [*noise.doubt.ends]
    if len(models) > 1:
        models.append(noise)
    found = {}
    for model in models:
        found[model] = Weights(inverse_of(model, k, several), several)
    return found


def calibrations(
    counted: Counted,
    guarantee: Guarantee,
    noise: Noise | None,
    alphas: Sequence[float],
    crossing: Rule,
    sample: Sample | None = None,
    seed: int = 0,
    **known: Any,
) -> list[Calibration]:
    """Return a calibration for each alpha; `known` holds further fields.

    `sample` holds the points, for a guarantee that reads them again.
    """
    found = find(guarantee, counted.curve, noise, alphas, crossing, sample, seed)
    issues = against(counted.curve(*lowest_end(noise)), noise, counted.score.offset, known.get("classes"))
    known = {"random_state": seed, "alphas": len(alphas), "warnings": issues, "score": counted.score} | known
    calibrated = []
    for alpha, (finding, curve, price_of_doubt) in zip(alphas, found, strict=True):
        counts = {"n": curve.tally.n, "k": curve.tally.k, "tally": curve.tally, "tally_noise": curve.noise}
        more = {**counts, "price_of_doubt": price_of_doubt, **known}
        calibrated.append(calibration_of(guarantee, noise, alpha, crossing, finding, **more))
    return calibrated


def calibration_of(
    guarantee: Guarantee, noise: Noise | None, alpha: float, crossing: Rule, finding: Finding, **known: Any
) -> Calibration:
    """Return the finding for one alpha as a calibration; `known` holds further fields."""
    return Calibration(
        alpha=alpha,
        noise=noise,
        guarantee=guarantee,
        crossing=crossing,
        correction=finding.correction,
        native_threshold=finding.threshold,
        estimate=min(max(finding.estimate, 0.0), 1.0),
        obstacle=finding.obstacle,
        gap=finding.gap,
        note=finding.note,
        deviation=finding.deviation,
        **known,
    )


def warn_of_obstacles(found: Sequence[Calibration]) -> None:
    """Warn if no threshold keeps a promise, and if the labels contradict the noise model."""
    for cal in found:
        if cal.obstacle is not None:
            warn(
                f"no threshold keeps the promise, so the sets hold all {cal.k:,} classes: {cal.obstacle}",
                NoValidThresholdWarning,
            )
    warn_of(found[0].warnings)


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


def seen(sample: Sample) -> dict[str, Any]:
    """Return the fields of a calibration that describe its points."""
    return {
        "widths": sample.rows.widths,
        "from_logits": sample.rows.logits,
        "several": sample.given if sample.several else None,
    }


def coverage_curve(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    noise: NoiseLike,
    score: ScoreLike = "hps",
    thresholds: ArrayLike | None = None,
    classes: Any = None,
    normalize: bool = False,
    from_logits: bool = False,
) -> CoverageCurve:
    """Estimate the noisy, random and clean coverage at thresholds, exactly.

    Parameters
    ----------
    probs, labels, noise, score, classes, normalize, from_logits
        As in `calibrate`.
    thresholds : array of shape (m,), optional
        The thresholds at which to evaluate the curve. The default is every distinct score of a noisy
        label; unless the noise is a general matrix, the clean estimate rises only there.

    Returns
    -------
    CoverageCurve

    Examples
    --------
    >>> import nacp
    >>> probs = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.125, 0.25, 0.625]]
    >>> curve = nacp.coverage_curve(probs, [0, 1, 1], noise=0.25)
    >>> curve.thresholds.tolist()
    [0.5, 0.75]
    >>> curve.noisy.round(3).tolist(), curve.random.round(3).tolist(), curve.clean.round(3).tolist()
    ([0.667, 1.0], [0.333, 0.889], [0.778, 1.037])
    """
    score = as_score(score)
    rows, numbers, _ = open_points(
        probs, labels, probabilities=score.takes_probabilities, normalize=normalize, from_logits=from_logits,
        classes=classes,
    )  # fmt: skip
    sample = Sample.of(rows, numbers, score)
    if thresholds is None:
        native = np.unique(sample.label_scores)
    else:
        wanted = np.asarray(thresholds, dtype=np.float64)
        if wanted.ndim != 1 or wanted.size == 0 or np.isnan(wanted).any():
            raise InputError(
                "thresholds", "must be one or more numbers in one dimension", found=repr(thresholds)
            )
        native = score.to_native(np.sort(wanted))
    return exact_curve(sample, noise_for(noise, rows.k), native)


def exact_curve(sample: Sample, noise: Noise | None, thresholds: Floats) -> CoverageCurve:
    """Return the estimates at native thresholds that need not be on the grid."""
    weights = Weights(inverse_of(noise, sample.k), points=max(sample.n, 2))
    number = len(thresholds)
    spec = sample.score.spec

    def counted(values: Array, where: slice | Ints) -> Ints:
        places = np.searchsorted(thresholds, engine.of(values).scores(values, spec))
        pairs = np.bincount(places.reshape(-1), minlength=number + 1)
        which, table = weights.of(sample.labels[where], sample.parts[where])
        if table is None:
            return np.stack([pairs, pairs])
        weighed = np.zeros(number + 1, dtype=np.int64)
        np.add.at(weighed, places, table[which])
        return np.stack([pairs, weighed])

    pairs, weighed = np.cumsum(sum(sample.rows.map(counted)), axis=1)[:, :number]
    scale = weights.unit if weights.constant is None else weights.constant
    places = np.searchsorted(thresholds, sample.label_scores[:, 0])
    own = np.bincount(places, weights.own[sample.labels[:, 0]], number + 1).cumsum()[:number]
    hits = np.bincount(places, minlength=number + 1).cumsum()[:number]
    clean = (own + weighed * scale) / sample.n
    random = pairs / (sample.n * sample.k)
    return CoverageCurve(thresholds + sample.score.offset, hits / sample.n, random, clean)
