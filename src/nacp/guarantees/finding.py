"""Findings: a guarantee at work on a sample, also where the noise is not known exactly.

This is the one place where a guarantee meets an interval of noise rates or a radius. It is found at each end
of the interval, and the larger threshold is taken: what passes at both ends passes between them
(docs/guarantees.md). A radius is in the coverage that each end is asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nacp.coverage import Coverage, Rule, Sample, Talk, together
from nacp.guarantees.base import Finding, Guarantee, Problem
from nacp.noise import AnnotatorNoise, Noise, UniformNoise
from nacp.noise.matrices import ClassMatrix


class Found(NamedTuple):
    """What was found for one alpha."""

    finding: Finding
    coverage: Coverage  # under which noise: at which end of an interval
    price_of_doubt: float = 0.0  # labels more in a set, on average, as the noise is not known exactly


def coverage_under(sample: Sample, noise: Noise | None, radius: float = 0.0) -> Coverage:
    """Return the coverage of a sample under a noise model; the same one for the same model."""
    noise = noise or UniformNoise(0.0)
    if (noise, radius) not in sample.seen_as:
        inverse: ClassMatrix = noise.inverse(sample.k)
        if sample.by_annotator and isinstance(noise, AnnotatorNoise):
            inverse = noise.stacked_inverse(sample.k)
        sample.seen_as[noise, radius] = Coverage(sample, inverse, radius)
    found: Coverage = sample.seen_as[noise, radius]
    return found


def find(
    guarantee: Guarantee,
    sample: Sample,
    noise: Noise | None,
    alphas: Sequence[float],
    crossing: Rule,
    seed: int,
) -> Talk[list[Found]]:
    """Return what a guarantee finds for each alpha."""
    counts = sample.class_counts

    def under(end: Noise | None, radius: float = 0.0) -> Talk[list[Finding]]:
        coverage = coverage_under(sample, end, radius)
        problems = [Problem(alpha, sample.n, end, coverage.inverse, counts) for alpha in alphas]
        return guarantee.find(coverage, problems, crossing, seed)

    exactly = under(noise)
    if noise is None or noise.doubt.exact:
        found = yield from exactly
        return [Found(finding, coverage_under(sample, noise)) for finding in found]
    doubt = noise.doubt
    found, *ends = yield from together([exactly, *(under(end, doubt.radius) for end in doubt.ends)])
    results = []
    for way in zip(*ends, strict=True):
        binding = max(range(len(way)), key=lambda end: way[end].threshold)
        finding = way[binding]._replace(gap=max(each.gap for each in way))
        results.append(Found(finding, coverage_under(sample, doubt.ends[binding], doubt.radius)))
    thresholds = [result.finding.threshold for result in results] + [finding.threshold for finding in found]
    estimates = yield from coverage_under(sample, noise).at(np.array(thresholds))
    more = -np.diff(estimates.random.reshape(2, -1) * sample.k, axis=0)[0]
    return [
        result._replace(price_of_doubt=price) for result, price in zip(results, more.tolist(), strict=True)
    ]
