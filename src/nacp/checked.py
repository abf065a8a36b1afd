"""Calibration where some labels were checked: points are opened, a guess is shaped, a threshold is found."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacp._types import Ints
from nacp.calibration import Calibration
from nacp.coverage import Rule, Sample, Talk
from nacp.coverage.audited import AuditedCoverage
from nacp.errors import InputError
from nacp.guarantees import Guarantee, as_guarantee
from nacp.noise import Noise, NoiseLike, UniformNoise, Unsaid, noise_for
from nacp.points import (
    Audit,
    Rows,
    check_classes,
    check_labels,
    deal,
    open_clean,
    open_rows,
)
from nacp.points.arrays import row_slices


def for_checked(
    guarantee: str | Guarantee | None, delta: float | None, crossing: Rule, unlabelled: Any
) -> Guarantee:
    """Return the guarantee to be found from checked labels; refuse what cannot be."""
    found = as_guarantee("pac" if guarantee is None else guarantee, delta)
    if not found.takes_checked:
        raise InputError(
            "guarantee",
            f'"{found.name}" cannot be found from checked labels',
            remedy='use "pac", "expected" or "none"',
        )
    if crossing != "last":
        raise InputError("crossing", 'must be "last" with checked labels', found=repr(crossing))
    if unlabelled is not None:
        raise InputError("unlabelled", "is of no use with checked labels")
    return found


def open_checked(
    probs: Any, labels: Any, clean: Any, seed: int, **options: Any
) -> tuple[Rows, Ints, tuple[Any, ...] | None, Audit]:
    """Open points of which some were checked; without noisy labels, these alone."""
    rows = open_rows(probs, **options)
    names = check_classes(options["classes"], rows.k)
    checked, true = open_clean(clean, rows.n, rows.k, names)
    if labels is not None:
        numbers = check_labels(labels, rows.n, rows.k, names)
        return rows, numbers, names, deal(rows.n, checked, true, seed)
    return rows.some(checked), true, names, deal(len(checked), np.arange(len(checked)), true, seed)


def checked_calibrations(
    sample: Sample,
    audit: Audit,
    guarantee: Guarantee,
    noise: Noise,
    alphas: Sequence[float],
    seed: int,
    *,
    classes: tuple[Any, ...] | None,
    normalize: bool,
) -> Talk[list[Calibration]]:
    """Return a calibration for each alpha from a sample some of whose labels were checked."""
    coverage = AuditedCoverage(sample, audit, noise.matrix(sample.k))
    found = yield from guarantee.find_checked(coverage, alphas)
    return [
        Calibration(
            alpha=alpha,
            n=sample.n,
            k=sample.k,
            score=sample.score,
            noise=None,
            guarantee=guarantee,
            crossing="last",
            correction=finding.correction,
            native_threshold=finding.threshold,
            estimate=finding.estimate,
            obstacle=finding.obstacle,
            note=finding.note,
            random_state=seed,
            classes=classes,
            normalize=normalize,
            deviation=finding.deviation,
            checked=len(audit.rows),
        )
        for alpha, finding in zip(alphas, found, strict=True)
    ]


def guessing_noise(sample: Sample, noise: NoiseLike | Unsaid, few: Ints) -> Noise:
    """Return the noise that shapes the guess: as given, or uniform at a rate that a few points suggest.

    That is the rate at which the mean probability of the given labels would be what it is.
    """
    if not isinstance(noise, Unsaid):
        return noise_for(noise, sample.k) or UniformNoise(0.0)
    if not len(few) or not sample.score.takes_probabilities:
        return UniformNoise(0.2)
    own = square = 0.0
    for where in row_slices(len(few), sample.k):
        rows = few[where]
        block = sample.rows[rows].astype(np.float64)
        own += float(block[np.arange(len(rows)), sample.labels[rows]].sum())
        square += float((block**2).sum())
    chance = len(few) / sample.k
    return UniformNoise(float(np.clip(1 - (own - chance) / max(square - chance, 1e-9), 0.02, 0.9)))
