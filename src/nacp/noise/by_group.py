"""Noise that differs between known groups of rows: annotators, sites, batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp.noise.annotators import AnnotatorNoise


@dataclass(frozen=True, init=False, eq=False, repr=False)
class NoiseByGroup(AnnotatorNoise):
    """A noise matrix for each group of rows; made by `calibrate` from ``noise={group: model}``.

    A label is weighted by the inverse of its own group's matrix. Everywhere else the model is the mean of the
    matrices, weighted by the share of rows in each group: that of the label of a random row.
    """

    names: tuple[Any, ...]
    name: ClassVar[str] = "by-group"
    by_row: ClassVar[bool] = True
    _most_condition: ClassVar[float] = np.inf

    def __init__(self, matrices: ArrayLike, shares: ArrayLike, names: Sequence[Any]) -> None:
        super().__init__(matrices, shares)
        object.__setattr__(self, "names", tuple(names))

    def describe(self, k: int) -> str:
        shown = ", ".join(map(repr, self.names[:5])) + (", ..." if len(self.names) > 5 else "")
        return f"label noise by a matrix for each of {len(self.names):,} groups of rows ({shown})"

    def __repr__(self) -> str:
        return f"NoiseByGroup(groups={len(self.names)}, k={self.k})"
