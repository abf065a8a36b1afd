"""Rows of a tensor that stay on their device: their blocks are tensors for the torch engine.

A tensor on the CPU becomes an array that shares its memory. PyTorch is imported only if a tensor was passed.
"""

import sys
from typing import Any

import numpy as np

from nacp._types import Array, Floats
from nacp.engine import current, is_tensor
from nacp.errors import InputError
from nacp.points.arrays import Rows, Source, Where, kind_of, type_name


def open_tensor(values: Any, name: str) -> Any:
    """Return a tensor on the CPU as an array or a `Source`, and any other tensor detached."""
    device = values.device.type
    lacks = {"mps": "float64, in which scores are computed", "meta": "numbers"}.get(device)
    if lacks:
        raise InputError(
            name,
            f"is on the device {str(values.device)!r}, which has no {lacks}",
            remedy=f"pass {name}.cpu()" if device == "mps" else None,
        )
    values = values.detach()
    if device != "cpu" or current().NAME == "torch":
        return values
    if kind_of(values).name == type_name(values) or values.ndim != 2:
        return fetched(values)
    return Source(tuple(values.shape), kind_of(values), lambda where: fetched(values[where]))


def fetched(values: Any) -> Array:
    """Return a tensor as an array; float types that NumPy lacks become float32."""
    lacking = kind_of(values).name != type_name(values)
    found: Array = (values.float() if lacking else values).detach().cpu().numpy()
    return found


def on_host(values: Any, name: str) -> Array:
    """Return a tensor or an array-like as an array."""
    if is_tensor(values) and values.device.type == "meta":
        raise InputError(name, "is on the device 'meta', which has no numbers")
    try:
        return fetched(values) if is_tensor(values) else np.asarray(values)
    except ValueError:
        raise InputError(name, "must have a rectangular shape", found="rows of different lengths") from None


def as_given(mask: Array, probs: Any) -> Any:
    """Return an array as a tensor on the device of `probs`, if `probs` is a tensor."""
    return sys.modules["torch"].from_numpy(mask).to(probs.device) if is_tensor(probs) else mask


def empty_mask(probs: Any) -> Any:
    """Return an uninitialised boolean tensor of the shape of `probs`, on its device."""
    return sys.modules["torch"].empty(probs.shape, dtype=sys.modules["torch"].bool, device=probs.device)


def extremes(block: Any) -> tuple[Floats, Floats]:
    """Return the minimum and maximum of each row of an array or a tensor; NaN if the row contains NaN."""
    if is_tensor(block):
        return fetched(block.amin(dim=1)), fetched(block.amax(dim=1))
    return block.min(axis=1), block.max(axis=1)


class TensorRows(Rows):
    """The rows of a tensor on a device, in blocks that are tensors there; parameters as in `Rows`."""

    on_device = True

    def whole(self, where: Where) -> Array:
        return fetched(self[where])

    def _fits(self, block: Any, kind: np.dtype[Any]) -> bool:
        return bool((block.double() == block.to(getattr(sys.modules["torch"], kind.name)).double()).all())

    def _given(self, where: Where) -> Any:
        where = where if self._chosen is None else self._chosen[where]
        if not isinstance(where, slice):
            where = sys.modules["torch"].tensor(np.ascontiguousarray(where), device=self._matrix.device)
        return self._matrix[where]

    def _read(self, where: Where) -> Any:
        block, torch = self._given(where), sys.modules["torch"]
        if self._width is not None and self._rounded:
            block = block.to(getattr(torch, self._width.name))
        if block.dtype not in (torch.float32, torch.float64):
            block = block.float() if self.dtype.itemsize < 8 and block.is_floating_point() else block.double()
        if self.logits:
            block = (block.double() - block.amax(dim=1, keepdim=True).double()).exp()
        if self._normalize or self.logits:
            block = block / _sums(block)
        return block.contiguous()


def _sums(block: Any) -> Any:
    """Return the sums of nonnegative rows, computed with integers so that the order does not matter."""
    top, unit = block.amax(dim=1, keepdim=True).double(), 2.0 ** (block.shape[1].bit_length() - 62)
    whole = (block / top / unit).round().long().sum(dim=1, keepdim=True)
    return whole.double() * (top * unit)
