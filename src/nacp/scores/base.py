"""What a score is: a number S(x, l) for every label l, small where the classifier believes in l.

The prediction set of a threshold q is ``C_q(x) = {l : S(x, l) <= q}``. A score is added by writing
its formula once, in terms of where a label stands in its row (`Ranks`); everything else, for given
labels and for whole rows, follows from it.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._kernels import LabelRanks, PointwiseReading, RankedReading, Ranks, Reading, hashed_uniforms
from nacp._types import Array, Floats, Ints
from nacp._validation import check_labels, check_probs

__all__ = ["PointwiseScore", "RankedScore", "Ranks", "Score"]


class Score(ABC):
    """A conformity score: larger is worse.

    The library compares scores on their *native* scale, which is the score minus `offset`. The two
    differ for HPS alone: 1 - p rounds, so p itself is compared. `span` is where native scores can lie.
    """

    name: ClassVar[str]
    offset: ClassVar[float] = 0.0
    span: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    takes_probabilities: ClassVar[bool] = True

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
        rows = check_probs(probs, probabilities=self.takes_probabilities)
        out = np.empty((rows.n, rows.k))
        for where in rows.slices():
            out[where] = self.native_matrix(rows[where])
        return out + self.offset

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
        rows = check_probs(probs, probabilities=self.takes_probabilities)
        given = check_labels(labels, rows.n, rows.k)

        def read(where: slice) -> Floats:
            block = rows[where]
            return self.native_of_labels(block, given[where], self.draw(block))

        return np.concatenate([read(where) for where in rows.slices()]) + self.offset

    def to_native(self, thresholds: Floats) -> Floats:
        """Return thresholds on the native scale: the largest that do not exceed them on the score's own."""
        # Half a unit in the last place of 1 may round away; step back to where it does.
        native: Floats = thresholds - self.offset + 2.0**-54 * self.offset
        for _ in range(4):
            native = np.where(native + self.offset > thresholds, np.nextafter(native, -np.inf), native)
        return native

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for a file."""
        return {"name": self.name} | dict(vars(self))

    def draw(self, block: Array) -> Floats | None:
        """Return the u of each row of a block, if the score is randomised."""
        return None

    def native_matrix(self, block: Array) -> Floats:
        """Return the native scores of all labels of a block."""
        return self.read(block, self.draw(block)).matrix()

    @abstractmethod
    def native_of_labels(self, block: Array, labels: Ints, u: Floats | None) -> Floats:
        """Return the native scores of one given label per row of a block."""

    @abstractmethod
    def read(self, block: Array, u: Floats | None) -> Reading:
        """Return a block ready to be asked about its native scores."""


class PointwiseScore(Score):
    """A score that needs no ranking: minus a key that each entry has for itself."""

    @abstractmethod
    def keys(self, block: Array) -> Array:
        """Return minus the native scores, in the block's own floating-point width."""

    def native_of_labels(self, block: Array, labels: Ints, u: Floats | None) -> Floats:
        return -self.keys(block)[np.arange(len(block)), labels].astype(np.float64)

    def read(self, block: Array, u: Floats | None) -> Reading:
        return PointwiseReading(self.keys(block))


class RankedScore(Score):
    """A score that rises as one goes down the row, from the most to the least probable label.

    A subclass writes `formula` and, if it is randomised, has the fields `randomized` and `seed`.
    """

    @abstractmethod
    def formula(self, ranks: Ranks) -> Floats:
        """Return the scores of labels from where they stand in their rows."""

    def uniforms(self, probs: ArrayLike) -> Floats:
        """Return the u of each row: a hash of the row's own values, keyed by the seed.

        Parameters
        ----------
        probs : array of shape (n, k)
            Class probabilities.

        Returns
        -------
        array of shape (n,)
            Numbers in [0, 1); the same for the same row in any batch, order or process.
        """
        rows = check_probs(probs)
        seed = getattr(self, "seed", 0)
        return np.concatenate([hashed_uniforms(rows[where], seed) for where in rows.slices()])

    def draw(self, block: Array) -> Floats | None:
        if not getattr(self, "randomized", False):
            return None
        return hashed_uniforms(block, getattr(self, "seed", 0))

    def native_of_labels(self, block: Array, labels: Ints, u: Floats | None) -> Floats:
        return self.formula(LabelRanks(block, labels, u)).astype(np.float64, copy=False)

    def read(self, block: Array, u: Floats | None) -> Reading:
        return RankedReading(block, self.formula, u)
