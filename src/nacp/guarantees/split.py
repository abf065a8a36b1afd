"""Split conformal prediction, which uses the labels as they are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nacp.coverage.curve import ROUNDING, Curve, Rule
from nacp.coverage.tally import Sample
from nacp.guarantees.base import Corrected, Finding, Problem, on_average


@dataclass(frozen=True)
class SplitConformal(Corrected):
    """Split conformal prediction: the ``ceil((n + 1)(1 - alpha))``-th smallest score.

    In terms of a correction: the share of scores at or below the threshold must reach
    ``(1 - alpha)(n + 1)/n``.

    Examples
    --------
    >>> import nacp
    >>> nacp.SplitConformal().promise(0.1)
    'coverage of the given labels is at least 90% in expectation over calibration sets'
    """

    promises_truth: ClassVar[bool] = False
    name: ClassVar[str] = "split"
    only_as_given: ClassVar[bool] = True
    takes_several: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True
    crosses_target: ClassVar[bool] = False

    def correction(self, problem: Problem) -> float:
        return (1 - problem.alpha) * problem.per_point

    def find(
        self,
        curves: Sequence[Curve],
        alphas: Sequence[float],
        crossing: Rule,
        sample: Sample | None = None,
        seed: int = 0,
    ) -> list[Finding]:
        """Return where each estimate crosses its target: an exact score if there is a sample."""
        found = super().find(curves, alphas, crossing)
        if sample is None:
            return found
        return [
            _exact(each, sample, Problem.of(curve, alpha))
            for each, curve, alpha in zip(found, curves, alphas, strict=True)
        ]

    def promise(self, alpha: float) -> str:
        return on_average(alpha, of="the given labels")


def _exact(found: Finding, sample: Sample, problem: Problem) -> Finding:
    """Replace the grid point by the smallest score of a given label at which the target is reached."""
    weights = sample.parts
    if problem.members is not None:
        weights = weights * np.isin(sample.labels, problem.members)
    order = np.argsort(sample.label_scores, axis=None)
    covered = np.cumsum(weights.reshape(-1)[order]) * problem.per_point
    place = int(np.searchsorted(covered, 1 - problem.alpha + found.correction - ROUNDING))
    if place == len(order):
        if math.isinf(found.threshold):
            return found
        place -= 1  # Parts of labels, such as thirds, are rounded.
    threshold = float(sample.label_scores.reshape(-1)[order[place]])
    upto = sample.label_scores.reshape(-1)[order].searchsorted(threshold, side="right") - 1
    return found._replace(threshold=threshold, estimate=float(covered[upto]), obstacle=None)
