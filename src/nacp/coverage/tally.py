"""A tally: whole numbers per cell, which add up. All that calibration knows of rows, but their order."""

from dataclasses import dataclass

import numpy as np

from nacp._types import Floats, Ints
from nacp.coverage.curve import CoverageCurve
from nacp.engine.cells import CELLS, EDGES
from nacp.errors import InputError


@dataclass(frozen=True, eq=False)
class Tally:
    """What was counted in each of the fixed cells of scores; tallies add by ``+``.

    Attributes
    ----------
    n, k : int
        The numbers of points and of classes.
    cells : array of shape (m,)
        The cells that hold any pairs, ascending.
    hits, pairs : arrays of shape (m,)
        How many given labels, and how many labels at all, score in each of them.
    own, gains, losses : arrays of shape (m,)
        The weight of the given labels, and the positive and negative weight of the pairs, as whole multiples
        of the two units.
    units : tuple of two floats
        What these are multiples of.

    Examples
    --------
    >>> import nacp
    >>> cal = nacp.calibrate([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], [0, 1], noise=0.1, guarantee="none")
    >>> cal.tally.pairs.tolist(), (cal.tally + cal.tally).hits.tolist()
    ([2, 4], [4, 0])
    """

    n: int
    k: int
    cells: Ints
    hits: Ints
    pairs: Ints
    own: Ints
    gains: Ints
    losses: Ints
    units: tuple[float, float]

    def __add__(self, other: "Tally") -> "Tally":
        if (self.k, self.units) != (other.k, other.units):
            raise InputError("tally", "adds to one of the same classes and noise model only")
        cells = np.union1d(self.cells, other.cells)
        sums = {name: np.zeros(len(cells), dtype=np.int64) for name in _COUNTS}
        for part in (self, other):
            place = np.searchsorted(cells, part.cells)
            for name, total in sums.items():
                total[place] += getattr(part, name)
        return Tally(self.n + other.n, self.k, cells, units=self.units, **sums)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and (self.n, self.k, self.units) == (other.n, other.k, other.units)
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("cells", *_COUNTS))
        )

    __hash__ = None  # type: ignore[assignment]  # arrays

    def curve(self, offset: float) -> CoverageCurve:
        """Return F^n-hat, F^r-hat and F^c-hat at the upper edges of the cells, on the scale of a score."""
        own, net = (np.cumsum(part) for part in (self.own, self.gains - self.losses))
        clean: Floats = (own * self.units[0] + net * self.units[1]) / self.n
        noisy, random = np.cumsum(self.hits) / self.hits.sum(), np.cumsum(self.pairs) / (self.n * self.k)
        finite = self.cells < CELLS - 1
        return CoverageCurve(EDGES[self.cells][finite] + offset, noisy[finite], random[finite], clean[finite])


_COUNTS = ("hits", "pairs", "own", "gains", "losses")
