"""Memory that is used again for every block."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from nacp._types import Array


class Scratch:
    """Arrays by name. Fresh memory costs more than the arithmetic on it, so each block reuses the last one's.

    What is handed out is overwritten when the same name is asked for again.
    """

    def __init__(self) -> None:
        self._held: dict[Any, Array] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an array of that shape, with anything in it."""
        size, key = math.prod(shape), (name, np.dtype(dtype))
        held = self._held.get(key)
        if held is None or held.size < size:
            held = self._held[key] = np.empty(size, dtype=dtype)
        return held[:size].reshape(shape)

    def held(self, name: str, size: int, dtype: DTypeLike) -> Array:
        """Return the array of that name, as large as it is: at least of a size."""
        self.get(name, (size,), dtype)
        return self._held[name, np.dtype(dtype)]
