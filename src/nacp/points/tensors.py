"""Rows of a tensor on a device. They stay there: blocks are tensors, and the torch engine takes them.

A tensor in the memory of the host is an array that NumPy shares, so it goes the way of arrays. PyTorch is
imported only once somebody has handed over a tensor.
"""

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from nacp._types import Array, Ints
from nacp.engine import check, engine_name, is_tensor
from nacp.errors import InputError
from nacp.points.arrays import Rows, Widths, tell
from nacp.tuning import tuning

_WIDTHS = ("float16", "float32", "float64")
_GLANCE = 32


def stays(values: Any) -> bool:
    """Return whether something is a tensor that is not an array for NumPy: by where it lies, or its type."""
    return is_tensor(values) and (_away(values) or kind_of(values).name != _named(values))


def _away(values: Any) -> bool:
    """Return whether a tensor is worked on where it lies."""
    return bool(values.device.type != "cpu" or engine_name() == "torch")


def _named(values: Any) -> str:
    return str(values.dtype).removeprefix("torch.")


def open_tensor(values: Any, name: str) -> Any:
    """Return a tensor without its history; refuse one on a device that has not what is needed.

    What is no tensor is returned as it is.
    """
    if not is_tensor(values):
        return values
    lacks = {"mps": "float64, in which scores are computed", "meta": "numbers"}.get(values.device.type)
    if lacks:
        raise InputError(
            name,
            f"is on the device {str(values.device)!r}, which has no {lacks}",
            remedy=f"pass {name}.cpu()" if values.device.type == "mps" else None,
        )
    return values.detach()


def kind_of(matrix: Any) -> np.dtype[Any]:
    """Return the type of a matrix in NumPy's terms; floats that it has not become float32."""
    if not is_tensor(matrix):
        kind: np.dtype[Any] = matrix.dtype
        return kind
    strange = matrix.is_floating_point() and _named(matrix) not in _WIDTHS
    return np.dtype("float32" if strange else _named(matrix))


def fetched(values: Any) -> Array:
    """Return a tensor as an array on the host; floats that NumPy has not become float32."""
    strange = values.is_floating_point() and _named(values) not in _WIDTHS
    found: Array = (values.float() if strange else values).detach().cpu().numpy()
    return found


def on_host(values: Any, name: str) -> Array:
    """Return anything as an array on the host; of a tensor, as `fetched` does."""
    if is_tensor(values) and values.device.type == "meta":
        raise InputError(name, "is on the device 'meta', which has no numbers")
    try:
        return fetched(values) if is_tensor(values) else np.asarray(values)
    except ValueError:
        raise InputError(name, "must have a rectangular shape", found="rows of different lengths") from None


def as_given(mask: Array, probs: Any) -> Any:
    """Return an array as a tensor, if that is what was given."""
    return sys.modules["torch"].from_numpy(mask).to(probs.device) if is_tensor(probs) else mask


def empty_mask(probs: Any) -> Any:
    """Return booleans of the shape of a tensor, beside it, with anything in them."""
    torch = sys.modules["torch"]
    return torch.empty(probs.shape, dtype=torch.bool, device=probs.device)


class TensorRows(Rows):
    """Rows of a tensor, handed out block by block: as tensors, if they are worked on where they lie.

    Parameters
    ----------
    matrix : Tensor of shape (n, k)
        The rows.
    normalize, width, logits
        As in `Rows`.
    """

    in_files = False

    def __init__(
        self, matrix: Any, normalize: bool = False, width: str | None = None, logits: bool = False
    ) -> None:
        super().__init__(matrix, normalize, width, logits)
        self._torch, self._rounded = sys.modules["torch"], width
        self._tensor, self.on_device = matrix, _away(matrix)

    @property
    def widths(self) -> Widths:
        given = kind_of(self._tensor)
        name = given.name if given.name in _WIDTHS else "float64"
        return self._widths_of([self._tensor[:: max(1, self.n // _GLANCE)]], name, 0)

    def widths_with(self, others: Widths | None) -> Widths:
        blocks = (self._tensor[where] for where in self.slices())
        return self._widths_of(
            blocks, self.widths.given, 0 if others is None else _WIDTHS.index(others.least)
        )

    def _widths_of(self, blocks: Iterable[Any], given: str, place: int) -> Widths:
        """Return how wide the numbers of blocks are, from some width on."""
        for block in blocks:
            wide = block.double()
            while _WIDTHS[place] != given:
                if bool((wide.to(getattr(self._torch, _WIDTHS[place])).double() == wide).all()):
                    break
                place += 1
            if _WIDTHS[place] == given:
                break
        return Widths(_WIDTHS[place], given)

    @property
    def at_once(self) -> int:
        if not self.on_device:
            return super().at_once
        return max(1, tuning().native_blocks * tuning().block_entries // int(self.k))

    def some(self, rows: Ints) -> Rows:
        found = self._tensor[self._sent(rows)]
        return TensorRows(found, self._normalize, None, self.logits)

    def peek(self, rows: slice | Ints, columns: Ints) -> Array:
        where = rows if isinstance(rows, slice) else self._sent(rows)
        return fetched(self._tensor[where].index_select(1, self._sent(columns)))

    def _sent(self, numbers: Ints) -> Any:
        return self._torch.tensor(np.ascontiguousarray(numbers), device=self._tensor.device)

    def __getitem__(self, where: slice | Ints) -> Any:
        block = self._block(where)
        return block.contiguous() if self.on_device else fetched(block)

    def whole(self, where: slice | Ints) -> Array:
        return fetched(self._block(where))

    def _block(self, where: slice | Ints) -> Any:
        block = self._tensor[where if isinstance(where, slice) else self._sent(where)]
        tell(len(block))
        kind, torch = kind_of(block), self._torch
        block = block.to(getattr(torch, kind.name))
        if self._rounded is not None and kind.itemsize > np.dtype(self._rounded).itemsize:
            block = block.to(getattr(torch, self._rounded))
        if block.dtype == torch.float16:
            block = block.float()
        elif block.dtype not in (torch.float32, torch.float64):
            block = block.double()
        if self.logits:
            block = (block.double() - block.amax(dim=1, keepdim=True).double()).exp()
        if self._normalize or self.logits:
            block = block / _sums(block)
        return block


def _sums(block: Any) -> Any:
    """Return the sums of rows that are not negative, in whole numbers: a row's is the same in any batch."""
    top, unit = block.amax(dim=1, keepdim=True).double(), 2.0 ** (block.shape[1].bit_length() - 62)
    whole = (block / top / unit).round().long().sum(dim=1, keepdim=True)
    return whole.double() * (top * unit)


def acceptable(block: Any, tolerances: tuple[float, float, float], asked: tuple[bool, bool, bool]) -> bool:
    """Return whether a block on a device is what the door lets in; if not, the door says on the host why.

    `tolerances` are by how much sums may miss 1: of any numbers, of bfloat16 and of float16; `asked` whether
    rows are probabilities, to be normalised, or logits.
    """
    probabilities, normalize, logits = asked
    if logits:
        return bool(block.amax(dim=1).isfinite().all()) and not check(block, _tolerance(block, tolerances))
    if not probabilities:
        return not bool(block.isnan().any())
    if check(block, tolerances[0]) or check(block, _tolerance(block, tolerances)):
        return True
    return normalize and bool((block.isfinite() & (block >= 0)).all() & (block.amax(dim=1) > 0).all())


def _tolerance(block: Any, tolerances: tuple[float, float, float]) -> float:
    torch = sys.modules["torch"]
    for kind, tolerance in ((torch.float16, tolerances[2]), (torch.bfloat16, tolerances[1])):
        if bool((block.to(kind).to(block.dtype) == block).all()):
            return tolerance
    return tolerances[0]
