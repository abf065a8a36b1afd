"""What a score is: a number S(x, l) for every label l, small where the classifier believes in l.

The prediction set of a threshold q is ``C_q(x) = {l : S(x, l) <= q}``. A score is added by writing
its formula once, in terms of where a label stands in its row (`Ranks`); everything else, for given
labels and for whole rows, follows from it.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from nacp import _kernels
from nacp._kernels import LabelRanks, SortedRanks
from nacp._types import Array, Bools, Floats, Ints
from nacp._validation import check_labels, check_probs

Ranks: TypeAlias = LabelRanks | SortedRanks


class Events(NamedTuple):
    """Pairs (row, label) and their scores, as three flat arrays."""

    rows: Ints
    columns: Ints
    scores: Floats


class Score(ABC):
    """A conformity score: larger is worse.

    The library compares scores on their *native* scale, which is the score minus `offset`. The two
    differ for HPS alone: 1 - p rounds, so p itself is compared.
    """

    name: ClassVar[str]
    offset: ClassVar[float] = 0.0
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
        out = np.empty(rows.n)
        for where in rows.slices():
            out[where] = self.native_of_labels(rows[where], given[where])
        return out + self.offset

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for a file."""
        return {"name": self.name} | dict(vars(self))

    @abstractmethod
    def native_matrix(self, block: Array) -> Floats:
        """Return the native scores of all labels of a block."""

    @abstractmethod
    def native_of_labels(self, block: Array, labels: Ints) -> Floats:
        """Return the native scores of one given label per row of a block."""

    @abstractmethod
    def counts(self, block: Array, rungs: Floats) -> Ints:
        """Return, for each of the ascending `rungs`, how many pairs of the block score at most that."""

    @abstractmethod
    def between(self, block: Array, low: float, high: float) -> Floats:
        """Return the scores of a block that lie in (low, high], in any order."""

    @abstractmethod
    def events(self, block: Array, low: float, high: float) -> Events:
        """Return the pairs of a block that score in (low, high]."""

    @abstractmethod
    def cuts(self, block: Array, q: float) -> tuple[Array, Array]:
        """Return `keys` (rows, k) and `cuts` (rows, 1): the sets at q are ``keys >= cuts``."""


def _counts_below(scores: Floats, rungs: Floats) -> Ints:
    if len(rungs) <= 32:
        return np.array([np.count_nonzero(scores <= q) for q in rungs], dtype=np.int64)
    cells = np.searchsorted(rungs, scores.ravel(), side="left")
    return np.cumsum(np.bincount(cells, minlength=len(rungs) + 1)[:-1])


class PointwiseScore(Score):
    """A score that needs no ranking: minus a key that each entry has for itself."""

    @abstractmethod
    def keys(self, block: Array) -> Array:
        """Return minus the native scores, in the block's own floating-point width."""

    def native_matrix(self, block: Array) -> Floats:
        return -self.keys(block).astype(np.float64)

    def native_of_labels(self, block: Array, labels: Ints) -> Floats:
        return -self.keys(block)[np.arange(len(block)), labels].astype(np.float64)

    def counts(self, block: Array, rungs: Floats) -> Ints:
        return _counts_below(self.native_matrix(block), rungs)

    def events(self, block: Array, low: float, high: float) -> Events:
        keys = self.keys(block)
        rows, columns = np.nonzero(self._inside(keys, low, high))
        return Events(rows, columns, -keys[rows, columns].astype(np.float64))

    def between(self, block: Array, low: float, high: float) -> Floats:
        keys = self.keys(block)
        return -keys[self._inside(keys, low, high)].astype(np.float64)

    @staticmethod
    def _inside(keys: Array, low: float, high: float) -> Bools:
        inside: Bools = keys >= _kernels.cut_for(keys.dtype, -high)
        inside &= keys < _kernels.cut_for(keys.dtype, -low)
        return inside

    def cuts(self, block: Array, q: float) -> tuple[Array, Array]:
        keys = self.keys(block)
        return keys, np.full((len(keys), 1), _kernels.cut_for(keys.dtype, -q))


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
        return np.concatenate([_kernels.hashed_uniforms(rows[w], seed) for w in rows.slices()])

    def _u(self, block: Array) -> Floats | None:
        if not getattr(self, "randomized", False):
            return None
        return _kernels.hashed_uniforms(block, getattr(self, "seed", 0))

    def _profile(self, block: Array, descending: Array) -> Floats:
        """Return the scores along the sorted rows: ascending."""
        profile = self.formula(SortedRanks(descending, self._u(block)))
        return np.broadcast_to(profile, descending.shape).astype(np.float64, copy=False)

    def native_matrix(self, block: Array) -> Floats:
        descending, columns = _kernels.sorted_columns(block)
        scores = np.empty(block.shape)
        np.put_along_axis(scores, columns, self._profile(block, descending), axis=1)
        return scores

    def native_of_labels(self, block: Array, labels: Ints) -> Floats:
        formula = self.formula(LabelRanks(block, labels, self._u(block)))
        return formula.astype(np.float64, copy=False)

    def counts(self, block: Array, rungs: Floats) -> Ints:
        return _counts_below(self._profile(block, _kernels.sorted_rows(block)), rungs)

    def events(self, block: Array, low: float, high: float) -> Events:
        descending, columns = _kernels.sorted_columns(block)
        profile = self._profile(block, descending)
        rows, places = np.nonzero((profile > low) & (profile <= high))
        return Events(rows, columns[rows, places], profile[rows, places])

    def between(self, block: Array, low: float, high: float) -> Floats:
        profile = self._profile(block, _kernels.sorted_rows(block))
        return profile[(profile > low) & (profile <= high)]

    def cuts(self, block: Array, q: float) -> tuple[Array, Array]:
        descending = _kernels.sorted_rows(block)
        sizes = np.count_nonzero(self._profile(block, descending) <= q, axis=1)
        cuts = np.take_along_axis(descending, np.maximum(sizes - 1, 0)[:, None], axis=1)
        cuts[sizes == 0] = np.inf
        return block, cuts
