"""Noise models: how noisy labels arise from true ones."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from nacp._types import Ints
from nacp.checks import rate_meant
from nacp.errors import InputError
from nacp.noise.annotators import AnnotatorNoise
from nacp.noise.base import Doubt, Noise
from nacp.noise.by_group import NoiseByGroup
from nacp.noise.groups import GroupNoise
from nacp.noise.low_rank import LowRankNoise
from nacp.noise.matrix import MatrixNoise
from nacp.noise.randomized_response import RandomizedResponse
from nacp.noise.uniform import UniformFamily, UniformNoise

__all__ = [
    "NO_NOISE",
    "UNSAID",
    "AnnotatorNoise",
    "Doubt",
    "GroupNoise",
    "LowRankNoise",
    "MatrixNoise",
    "Noise",
    "NoiseBasis",
    "NoiseByGroup",
    "NoiseLike",
    "RandomizedResponse",
    "UniformFamily",
    "UniformNoise",
    "Unsaid",
    "as_noise",
    "noise_by_group",
    "noise_for",
]

NOISES: dict[str, type[Noise]] = {
    "uniform": UniformNoise,
    "matrix": MatrixNoise,
    "groups": GroupNoise,
    "low-rank": LowRankNoise,
    "annotators": AnnotatorNoise,
    "by-group": NoiseByGroup,
    "randomized-response": RandomizedResponse,
}


class NoiseBasis(NamedTuple):
    """The conditions under which an estimated noise model holds.

    The estimate holds under the `assumption`. The `caveat`, "if ...", is a further condition of the promise;
    it is empty if the interval covers all uncertainty.
    """

    assumption: str
    caveat: str


class Estimate(Protocol):
    """A noise model that was estimated, such as `nacp.NoiseEstimate`."""

    @property
    def noise(self) -> Noise:
        """The model."""

    @property
    def basis(self) -> NoiseBasis:
        """The conditions under which it holds."""

    def model_for(self, k: int, classes: Sequence[Any] | None) -> Noise:
        """Return the model for k classes in this order, or raise an error."""


NO_NOISE: Noise = UniformNoise(0.0)
"""The model of labels without errors."""
NoiseLike: TypeAlias = ArrayLike | Noise | Estimate | None
"""A noise model or a short form: a rate, a matrix, an estimate, or None for labels without errors."""


class Unsaid(Enum):
    """The type of a default value: no noise model was given. None, by contrast, means correct labels."""

    UNSAID = "unsaid"


UNSAID = Unsaid.UNSAID


def as_noise(noise: NoiseLike) -> Noise | None:
    """Return the noise model for a rate, a matrix, a noise model, an estimate or None."""
    if noise is None or isinstance(noise, Noise):
        return noise
    plain: Any = noise
    if hasattr(plain, "basis"):
        return as_noise(plain.noise)
    if isinstance(plain, str | type) or callable(plain):
        problem = "must be a rate, a (k, k) matrix, a noise model such as nacp.UniformNoise(0.2), or None"
        raise InputError("noise", problem, found=repr(plain), remedy=rate_meant(plain))
    try:
        matrix = isinstance(plain, list) or hasattr(plain, "toarray") or np.ndim(plain)
        return MatrixNoise(plain) if matrix else UniformNoise(plain)
    except InputError as error:
        raise error.about("noise") from None


def noise_for(
    noise: NoiseLike, k: int, n: int | None = None, classes: Sequence[Any] | None = None
) -> Noise | None:
    """Return the noise model; raise an error if it is for another number of classes than k.

    With n, raise an error too if the labels of n points carry no information under the model. An estimate
    that names its classes is brought into the order of `classes`.
    """
    plain: Any = noise
    found: Noise | None = plain.model_for(k, classes) if hasattr(plain, "model_for") else as_noise(noise)
    if found is not None:
        found.check(k, n)
    return found


def noise_by_group(
    noise: Any, groups: Any, n: int, k: int, classes: Sequence[Any] | None = None
) -> tuple[NoiseByGroup, Ints]:
    """Return the model of rows whose noise depends on their group, and the place of each row's group."""
    if groups is None:
        raise InputError("noise_groups", "must name the group of each row: noise has a model for each group")
    if not isinstance(noise, Mapping) or not noise:
        raise InputError(
            "noise", "must be a dict with a model for each of the noise_groups", found=repr(noise)
        )
    models = {name: noise_for(each, k, classes=classes) or NO_NOISE for name, each in noise.items()}
    given = np.asarray(groups, dtype=object)
    if given.shape != (n,):
        problem = f"must have the shape ({n:,},), one entry per row of probs"
        raise InputError("noise_groups", problem, found=f"{given.shape}")
    present = set(given.tolist())  # A model that no row has would only widen the range of the shares.
    unknown = next((each for each in given.tolist() if each not in models), None)
    if unknown is not None:
        known = ", ".join(map(repr, list(models)[:10]))
        raise InputError("noise_groups", f"holds {unknown!r}, but noise has models for {known}")
    names = [name for name in models if name in present]
    unsure = next((name for name in names if not models[name].doubt.exact), None)
    if unsure is not None:
        problem = f"must be known exactly for each group; that of {unsure!r} is not"
        raise InputError("noise", problem, remedy="give the rate or the matrix alone")
    place = {name: i for i, name in enumerate(names)}
    places = np.array([place[each] for each in given.tolist()], dtype=np.int64)
    matrices = np.stack([models[name].matrix(k).dense() for name in names])
    return NoiseByGroup(matrices, np.bincount(places), names), places
