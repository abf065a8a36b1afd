"""Base classes of the scores: a number S(x, l) for every label l, small if the classifier finds l plausible.

The prediction set for a threshold q is ``C_q(x) = {l : S(x, l) <= q}``. A score is defined by its formula in
terms of a label's probability and rank in its row; `nacp.engine` evaluates it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp import engine
from nacp._types import Floats
from nacp.engine import Spec, traced
from nacp.points import open_points, open_rows


class Score(ABC):
    """A conformity score: larger is worse.

    The library compares scores on their *native* scale: the score minus `offset`. The two scales differ for
    HPS only, because 1 - p is rounded while p is exact. `span` is the range of native scores.
    """

    name: ClassVar[str]
    offset: ClassVar[float] = 0.0
    span: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    takes_probabilities: ClassVar[bool] = True

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """The score as data, for the engine."""

    def scores(self, probs: ArrayLike) -> Floats:
        """Return the scores of all labels.

        Parameters
        ----------
        probs : array of shape (n, k)
            Class probabilities.

        Returns
        -------
        array of shape (n, k), float64
        """
        rows, spec = open_rows(probs, probabilities=self.takes_probabilities), self.spec
        found = list(rows.map(lambda values, where: engine.of(values).scores(values, spec)))
        return np.concatenate(found) + self.offset

    def label_scores(self, probs: ArrayLike, labels: ArrayLike) -> Floats:
        """Return the score of one given label per row.

        Parameters
        ----------
        probs : array of shape (n, k)
            Class probabilities.
        labels : array of shape (n,)
            Labels from 0 to k - 1.

        Returns
        -------
        array of shape (n,), float64
        """
        rows, numbers, _ = open_points(probs, labels, probabilities=self.takes_probabilities)
        spec = self.spec
        found = list(
            rows.map(lambda values, where: engine.of(values).label_scores(values, spec, numbers[where]))
        )
        return np.concatenate(found) + self.offset

    def to_native(self, thresholds: Floats) -> Floats:
        """Return the largest native thresholds that do not exceed given ones on the scale of the score."""
        # Start slightly above the result, because sums may be rounded down, and step down to it.
        native: Floats = thresholds - self.offset + 2.0**-54 * self.offset
        for _ in range(4):
            native = np.where(native + self.offset > thresholds, np.nextafter(native, -np.inf), native)
        return native

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, to be saved in a file."""
        return {"name": self.name} | dict(vars(self))


class PointwiseScore(Score):
    """A score that needs no ranking; a subclass implements `formula` in terms of ``entry.p`` alone."""

    @abstractmethod
    def formula(self, entry: Any) -> Any:
        """Return the native scores of entries, in the floating-point type of the entries."""

    @property
    def spec(self) -> Spec:
        return Spec("pointwise", traced(self.formula))


class RankedScore(Score):
    """A score that does not decrease from the most to the least probable label of a row.

    A subclass implements `formula` and, if it is randomised, has the fields `randomized` and `seed`.
    """

    @abstractmethod
    def formula(self, ranks: Any) -> Any:
        """Return the scores of labels from the quantities listed in ``nacp/engine/formula.py``."""

    @property
    def spec(self) -> Spec:
        seed = getattr(self, "seed", 0) if getattr(self, "randomized", False) else None
        return Spec("ranked", traced(self.formula), seed)

    def uniforms(self, probs: ArrayLike) -> Floats:
        """Return the u of each row: a hash of the row's own values, keyed by the seed.

        Parameters
        ----------
        probs : array of shape (n, k)
            Class probabilities.

        Returns
        -------
        array of shape (n,)
            Numbers in [0, 1). Equal rows have equal numbers in any batch, order or process.
        """
        rows = open_rows(probs)
        seed = getattr(self, "seed", 0)
        return np.concatenate(list(rows.map(lambda values, where: engine.of(values).uniforms(values, seed))))
