"""The shares of single points in F^c-hat at one threshold, under noise that is known, or known roughly.

For who sees points come one after the other: what depends on the noise alone is prepared once, and a point's
share is the same to the last bit in any batch.
"""

import numpy as np

from nacp import engine
from nacp._types import Floats, Ints
from nacp.coverage.coverage import oscillation
from nacp.coverage.estimator import rest_unit
from nacp.engine import Block, ByLabel
from nacp.noise import AnnotatorNoise, Noise, UniformNoise
from nacp.noise.matrices import ClassMatrix


class Shares:
    """g_q(x, y), the sum of W[y, l] over the set of a point: at the most, where W is not known exactly.

    For an interval of rates that is the larger of the two ends', as a share is affine in rate / (1 - rate);
    for a radius, it is ``radius osc_q(x)`` more, as its mean may be so much less than it should be.

    Parameters
    ----------
    noise : Noise or None
        The model; None for labels that are right.
    k : int
        The number of classes.

    Attributes
    ----------
    range : tuple of two floats
        The least and the greatest that a share can be.
    """

    def __init__(self, noise: Noise | None, k: int) -> None:
        noise = UniformNoise(0.0) if noise is None else noise
        self._radius = noise.doubt.radius
        self._one = [Weights(end.inverse(k)) for end in noise.doubt.ends]
        self._annotators = noise if isinstance(noise, AnnotatorNoise) else None
        self._several = self._one
        if self._annotators is not None:
            self._several = [Weights(self._annotators.stacked_inverse(k))]
        every = [*self._one, *self._several]
        lows, highs = zip(*(each.inverse.subset_range() for each in every), strict=True)
        more = max(noise.doubt.shift(each.inverse) for each in self._one)
        self.range = min(lows), max(highs) + more

    def spread(self, labels: Ints) -> tuple[Ints, Floats | None]:
        """Return labels, and of several for each point the part of each."""
        if labels.ndim == 1:
            return labels, None
        if self._annotators is not None:
            codes, parts = self._annotators.spread(labels)
        else:
            codes, given = labels, labels >= 0
            parts = given / np.count_nonzero(given, axis=1, keepdims=True)
        return np.maximum(codes, 0), parts

    def at(self, block: Block, labels: Ints, parts: Floats | None, threshold: float) -> Floats:
        """Return the share of each row, at a native threshold."""
        if parts is None:
            found: Floats = np.max([each.at(block, labels, threshold) for each in self._one], axis=0)
        else:
            columns = list(zip(labels.T, parts.T, strict=True))
            found = np.max(
                [
                    sum(part * each.at(block, column, threshold) for column, part in columns)
                    for each in self._several
                ],
                axis=0,
            )
        if self._radius:
            found = (
                found + self._radius * oscillation(block, np.array([threshold]), self._one[0].inverse)[:, 0]
            )
        return found


class Weights:
    """W, whose rest is written in whole numbers: sums over sets are exact.

    Parameters
    ----------
    inverse : ClassMatrix
        W.
    """

    def __init__(self, inverse: ClassMatrix) -> None:
        self.inverse, self.own, self.constant = inverse, inverse.own, inverse.constant_rest
        self.unit, _ = rest_unit(inverse, 1)

    def of(self, labels: Ints) -> ByLabel:
        """Return the rest, for the engine, by the labels of some rows."""
        return ByLabel(labels, self.inverse, self.unit)

    def at(self, block: Block, labels: Ints, threshold: float) -> Floats:
        """Return the sums of W over the sets of rows at a native threshold."""
        hit = engine.label_scores(block, labels % block.shape[1]) <= threshold
        shares: Floats = np.where(hit, self.own[labels], 0.0)
        if self.constant is None:
            shares += self.unit * engine.profile(block, np.array([threshold]), self.of(labels))[:, 0]
        elif self.constant:
            shares += self.constant * engine.profile(block, np.array([threshold]))[:, 0]
        return shares
