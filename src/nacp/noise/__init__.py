"""The noise models, and the table of their names."""

from typing import Any

import numpy as np

from nacp.noise.base import Noise
from nacp.noise.groups import GroupNoise
from nacp.noise.matrix import MatrixNoise
from nacp.noise.privacy import RandomizedResponse
from nacp.noise.uniform import UniformFamily, UniformNoise

__all__ = [
    "GroupNoise",
    "MatrixNoise",
    "Noise",
    "RandomizedResponse",
    "UniformFamily",
    "UniformNoise",
]

NOISES: dict[str, type[Noise]] = {
    "uniform": UniformNoise,
    "matrix": MatrixNoise,
    "groups": GroupNoise,
    "randomized-response": RandomizedResponse,
}


def as_noise(noise: Any) -> Noise | None:
    """Return the noise model that a number, a matrix, a noise object or None stands for."""
    if noise is None or isinstance(noise, Noise):
        return noise
    # An estimate (nacp.estimation) carries its model.
    carried = getattr(noise, "noise", None)
    if isinstance(carried, Noise):
        return carried
    if isinstance(noise, str | type) or callable(noise):
        raise ValueError(
            f"noise is {noise!r}; it must be a rate, a (k, k) matrix, a noise model such as "
            "nacp.UniformNoise(0.2), or None for labels taken as they are"
        )
    if np.ndim(noise) == 0:
        return UniformNoise(noise)
    return MatrixNoise(noise)


def check_estimate(noise: Any, k: int) -> None:
    """Refuse an estimate (nacp.estimation) that was made for another number of classes."""
    if isinstance(getattr(noise, "noise", None), Noise) and noise.k != k:
        raise ValueError(
            f"noise was estimated for {noise.k} classes, not for {k}; estimate it for {k}, or state the "
            "model itself, such as its rate"
        )
