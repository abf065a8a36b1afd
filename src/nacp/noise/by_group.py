"""Noise that differs between known groups of rows: annotators, sites, batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Ints
from nacp.errors import InputError
from nacp.noise.annotators import AnnotatorNoise
from nacp.noise.base import Noise


@dataclass(frozen=True, init=False, eq=False, repr=False)
class NoiseByGroup(AnnotatorNoise):
    """A noise matrix for each group of rows; made by `calibrate` from ``noise={group: model}``.

    A label is weighed by the inverse of its own group's matrix. Everywhere else the model is the mean of the
    matrices, that of a label of a random row.

    Parameters
    ----------
    matrices : array of shape (groups, k, k)
        ``matrices[g, i, j] = p(noisy = j | true = i)`` in group g.
    shares : array of shape (groups,)
        The share of the rows in each group.
    names : sequence
        The names of the groups.
    """

    names: tuple[Any, ...]
    name: ClassVar[str] = "by-group"
    _most_condition: ClassVar[float] = np.inf

    def __init__(self, matrices: ArrayLike, shares: ArrayLike, names: Sequence[Any]) -> None:
        super().__init__(matrices, shares)
        object.__setattr__(self, "names", tuple(names))

    def describe(self, k: int) -> str:
        shown = ", ".join(map(repr, self.names[:5])) + (", ..." if len(self.names) > 5 else "")
        return f"label noise by a matrix for each of {len(self.names):,} groups of rows ({shown})"

    def __repr__(self) -> str:
        return f"NoiseByGroup(groups={len(self.names)}, k={self.k})"


def for_rows(models: Mapping[Any, Noise], groups: Any, n: int, k: int) -> tuple[NoiseByGroup, Ints]:
    """Return the noise model of rows in groups, and the place of each row's group among its names."""
    given = np.asarray(groups, dtype=object)
    if given.shape != (n,):
        raise InputError(
            "noise_groups",
            f"must have the shape ({n:,},), one entry per row of probs",
            found=f"{given.shape}",
        )
    unknown = next((each for each in given.tolist() if each not in models), None)
    if unknown is not None:
        known = ", ".join(map(repr, list(models)[:10]))
        raise InputError("noise_groups", f"holds {unknown!r}, but noise has models for {known}")
    present = set(given.tolist())  # A model that no row has would only widen the range of the shares.
    names = [name for name in models if name in present]
    for name in names:
        models[name].check(k)
        if not models[name].doubt.exact:
            raise InputError(
                "noise",
                f"must be known exactly for each group; that of {name!r} is not",
                remedy="give the rate or the matrix alone",
            )
    place = {name: i for i, name in enumerate(names)}
    places = np.array([place[each] for each in given.tolist()], dtype=np.int64)
    matrices = np.stack([models[name].matrix(k).dense() for name in names])
    return NoiseByGroup(matrices, np.bincount(places), names), places
