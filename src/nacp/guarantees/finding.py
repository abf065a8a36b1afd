"""Findings: a guarantee at work, also where the noise is not known exactly.

This is the one place where a guarantee meets an interval of noise rates or a radius. It is found at each end
of the interval, and the larger threshold is taken: what passes at both ends passes between them
(docs/guarantees.md). A radius is in the curve of each end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nacp.coverage.curve import Curve, Rule
from nacp.coverage.sample import Sample
from nacp.guarantees.base import Finding, Guarantee
from nacp.noise import Noise


class Found(NamedTuple):
    """What was found for one alpha."""

    finding: Finding
    curve: Curve  # under which noise: at which end of an interval
    price_of_doubt: float = 0.0  # labels more in a set, on average, as the noise is not known exactly


def find(
    guarantee: Guarantee,
    curve_under: Callable[[Noise | None, float], Curve],
    noise: Noise | None,
    alphas: Sequence[float],
    crossing: Rule,
    sample: Sample | None = None,
    seed: int = 0,
) -> list[Found]:
    """Return what a guarantee finds for each alpha.

    `curve_under` returns the curve of the points under a noise model and a radius; `sample` are the points,
    if they can be looked at again.
    """

    def under(end: Noise | None, radius: float = 0.0) -> list[Found]:
        curve = curve_under(end, radius)
        found = guarantee.find([curve] * len(alphas), alphas, crossing, sample, seed)
        return [Found(each, curve) for each in found]

    exactly = under(noise)
    if noise is None or noise.doubt.exact:
        return exactly
    ends = [under(end, noise.doubt.radius) for end in noise.doubt.ends]
    results = []
    for exact, *ways in zip(exactly, *ends, strict=True):
        widest = max(ways, key=lambda way: way.finding.threshold)
        finding = widest.finding._replace(gap=max(way.finding.gap for way in ways))
        thresholds = [exact.finding.threshold, finding.threshold]
        cells = np.searchsorted(exact.curve.spec.thresholds, thresholds)
        less, more = exact.curve.at(cells, exact.curve.random) * exact.curve.k
        results.append(Found(finding, widest.curve, float(more - less)))
    return results
