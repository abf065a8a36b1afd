"""The noise models, and the table of their names."""

from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from nacp.errors import InputError
from nacp.noise.annotators import AnnotatorNoise
from nacp.noise.base import Doubt, Noise
from nacp.noise.groups import GroupNoise
from nacp.noise.low_rank import LowRankNoise
from nacp.noise.matrix import MatrixNoise
from nacp.noise.privacy import RandomizedResponse
from nacp.noise.uniform import UniformFamily, UniformNoise

__all__ = [
    "UNSAID", "AnnotatorNoise", "Doubt", "GroupNoise", "LowRankNoise", "MatrixNoise", "Noise", "NoiseBasis",
    "NoiseLike", "RandomizedResponse", "UniformFamily", "UniformNoise", "Unsaid", "as_noise", "basis_of",
    "noise_for",
]  # fmt: skip

NOISES: dict[str, type[Noise]] = {
    "uniform": UniformNoise,
    "matrix": MatrixNoise,
    "groups": GroupNoise,
    "low-rank": LowRankNoise,
    "annotators": AnnotatorNoise,
    "randomized-response": RandomizedResponse,
}


class NoiseBasis(NamedTuple):
    """What an estimated noise model rests on.

    Attributes
    ----------
    assumption : str
        What must be true for the estimate to hold.
    caveat : str
        What the promise leaves open beyond that, as "if ..."; empty if its interval says all.
    """

    assumption: str
    caveat: str


class Estimate(Protocol):
    """A noise model that was estimated for k classes, such as `nacp.NoiseEstimate`."""

    @property
    def noise(self) -> Noise:
        """The model."""

    @property
    def k(self) -> int:
        """The number of classes that it was estimated for."""

    @property
    def basis(self) -> NoiseBasis:
        """What it rests on."""


NoiseLike: TypeAlias = ArrayLike | Noise | Estimate | None
"""What stands for a noise model: a rate, a matrix, a model, an estimate, or None for right labels."""


class Unsaid(Enum):
    """That no noise was named: not the same as None, which says that labels are right."""

    UNSAID = "unsaid"


UNSAID = Unsaid.UNSAID


def as_noise(noise: NoiseLike) -> Noise | None:
    """Return the noise model that a number, a matrix, a noise object or None stands for.

    Examples
    --------
    >>> from nacp.noise import as_noise
    >>> as_noise(0.2), as_noise([[0.75, 0.25], [0.5, 0.5]])
    (UniformNoise(rate=0.2), MatrixNoise(k=2, condition=5))
    """
    if noise is None or isinstance(noise, Noise):
        return noise
    if _is_estimate(noise):
        return noise.noise
    if isinstance(noise, str | type) or callable(noise):
        raise InputError(
            "noise",
            "must be a rate, a (k, k) matrix, a noise model such as nacp.UniformNoise(0.2), or None for "
            "labels taken as they are",
            found=repr(noise),
        )
    plain: Any = noise
    try:
        matrix = isinstance(plain, list) or hasattr(plain, "tocoo") or np.ndim(plain)
        return MatrixNoise(plain) if matrix else UniformNoise(plain)
    except InputError as error:
        raise error.about("noise") from None


def noise_for(noise: NoiseLike, k: int) -> Noise | None:
    """Return the noise model, and refuse one that is for another number of classes than k.

    Examples
    --------
    >>> import nacp
    >>> from nacp.noise import noise_for
    >>> noise_for(nacp.noise_from_privacy(2.0, k=100), k=10)
    Traceback (most recent call last):
    nacp.errors.InputError: noise was estimated for 100 classes, not for 10; estimate it for 10, or state the
    model itself, such as its rate
    """
    if _is_estimate(noise) and noise.k != k:
        raise InputError(
            "noise",
            f"was estimated for {noise.k:,} classes, not for {k:,}",
            remedy=f"estimate it for {k:,}, or state the model itself, such as its rate",
        )
    found = as_noise(noise)
    if found is not None:
        found.check(k)
    return found


def basis_of(noise: NoiseLike | Unsaid) -> NoiseBasis | None:
    """Return what an estimate rests on; of a model that was stated, nothing is known.

    Examples
    --------
    >>> import nacp
    >>> from nacp.noise import basis_of
    >>> basis_of(nacp.noise_from_privacy(2.0, k=100)).assumption
    'each label was randomised on its own, and no other error was made before'
    >>> basis_of(0.2)
    """
    return noise.basis if _is_estimate(noise) else None


def _is_estimate(noise: NoiseLike | Unsaid) -> TypeGuard[Estimate]:
    return isinstance(getattr(noise, "noise", None), Noise)
