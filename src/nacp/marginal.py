"""One threshold for all points: calibrations of a sample, and the estimates behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nacp.calibration import Calibration
from nacp.contradicted import against
from nacp.coverage import CoverageCurve, Rule, Sample, Talk
from nacp.errors import InputError
from nacp.guarantees import Found, Guarantee, coverage_under, find
from nacp.noise import Noise, NoiseBasis, NoiseLike, noise_for
from nacp.points import open_points
from nacp.scores import ScoreLike, as_score


class NoValidThresholdWarning(UserWarning):
    """No threshold keeps the promise with this calibration set, so the sets hold all classes."""


def calibrations(
    sample: Sample,
    guarantee: Guarantee,
    noise: Noise | None,
    alphas: Sequence[float],
    crossing: Rule,
    seed: int,
    *,
    classes: tuple[Any, ...] | None,
    normalize: bool,
    basis: NoiseBasis | None = None,
) -> Talk[list[Calibration]]:
    """Return a calibration of a sample for each alpha; several guarantees may be found together."""
    found = yield from find(guarantee, sample, noise, alphas, crossing, seed)
    said = yield from against(sample, noise, classes)
    results = []
    for alpha, each in zip(alphas, found, strict=True):
        tally = yield from each.coverage.tally()
        results.append(
            calibration_of(
                sample,
                guarantee,
                noise,
                alpha,
                crossing,
                each,
                random_state=seed,
                classes=classes,
                normalize=normalize,
                noise_basis=basis,
                alphas=len(alphas),
                warnings=said,
                tally=tally,
            )
        )
    return results


def calibration_of(
    sample: Sample,
    guarantee: Guarantee,
    noise: Noise | None,
    alpha: float,
    crossing: Rule,
    found: Found,
    n: int | None = None,
    **known: Any,
) -> Calibration:
    """Return what was found for one alpha as a calibration, by n points; `known` are further fields."""
    finding, _, price = found
    return Calibration(
        alpha=alpha,
        n=sample.n if n is None else n,
        k=sample.k,
        score=sample.score,
        noise=noise,
        guarantee=guarantee,
        crossing=crossing,
        correction=finding.correction,
        native_threshold=finding.threshold,
        estimate=min(max(finding.estimate, 0.0), 1.0),
        obstacle=finding.obstacle,
        gap=finding.gap,
        price_of_doubt=price,
        note=finding.note,
        deviation=finding.deviation,
        widths=sample.rows.widths,
        from_logits=sample.rows.logits,
        several=None if sample.parts is None else int(np.count_nonzero(sample.parts)),
        **known,
    )


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
        Where to evaluate. By default at every distinct score of a noisy label; these are all the
        candidates of a threshold unless the noise is a general matrix, when any of the n k scores
        may be one.

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
    sample = Sample(rows, numbers, score)
    coverage = coverage_under(sample, noise_for(noise, rows.k))
    if thresholds is None:
        sample.ask(coverage.tally())  # for the scores of the labels
        native = np.unique(sample.label_scores)
    else:
        wanted = np.asarray(thresholds, dtype=np.float64)
        if wanted.ndim != 1 or wanted.size == 0 or np.isnan(wanted).any():
            raise InputError(
                "thresholds", "must be one or more numbers in one dimension", found=repr(thresholds)
            )
        native = score.to_native(np.sort(wanted))
    return CoverageCurve(native + score.offset, *sample.ask(coverage.at(native)))
