"""What is wrong with rows that are not probabilities, or logits: told in a sentence."""

import numpy as np

from nacp._types import Array
from nacp.engine import check
from nacp.errors import InputError

# By how much the sum of a row may miss 1, by how precise its numbers are. A softmax in bfloat16 rounds its
# sum and its quotients, each by at most 2^-8 of itself. In float16 small numbers round by up to 2^-25 each.
SUM_TOLERANCE, _BFLOAT16_TOLERANCE, _FLOAT16_TOLERANCE, _SMALL = 1e-3, 2.0**-7, 1e-2, 2.0**-25
_MOST = 0.9  # of the rows


def sixteen_bits(k: int) -> tuple[float, float]:
    """Return by how much sums may miss 1 of numbers that were rounded to bfloat16, and to float16."""
    return _BFLOAT16_TOLERANCE, _FLOAT16_TOLERANCE + _SMALL * k


def tolerance_of(block: Array) -> float:
    """Return by how much the sums of rows may miss 1: more for numbers that were rounded to 16 bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.array_equal(block.astype(np.float16), block):
            return float(_FLOAT16_TOLERANCE + _SMALL * block.shape[1])
        single = block.astype(np.float32, copy=False)
        rounded = np.array_equal(single, block) and not np.any(single.view(np.uint32) & 0xFFFF)
    return float(_BFLOAT16_TOLERANCE if rounded else SUM_TOLERANCE)


def check_logits(block: Array, start: int, name: str) -> None:
    """Refuse logits of which the softmax does not exist, and probabilities in their place."""
    highest = block.max(axis=1)
    odd = ~np.isfinite(highest)
    if odd.any():
        row = int(odd.argmax())
        what = "NaN" if np.isnan(highest[row]) else "infinity" if highest[row] > 0 else "no finite logit"
        raise InputError(
            name, f"holds {what}, first in row {start + row}", remedy="drop or repair such rows first"
        )
    if check(block, tolerance_of(block)):
        raise InputError(
            name,
            "must hold logits",
            found="probabilities: no value is negative, and rows sum to 1",
            remedy="pass logits, or calibrate without from_logits",
            spoken="give logits, or calibrate without --logits",
        )


def explain(block: Array, start: int, tolerance: float, normalize: bool, name: str) -> None:
    """Say what is wrong with rows that are not probabilities, unless they are to be normalised."""
    if np.isnan(block).any():
        raise InputError(
            name,
            f"holds NaN, first in row {start + first_nan(block)}",
            remedy="drop or repair such rows first",
        )
    low, high = block.min(), block.max()
    if np.isposinf(high):
        row = start + int(np.argmax(np.isposinf(block).any(axis=1)))
        raise InputError(name, f"holds infinity, first in row {row}", remedy="drop or repair such rows first")
    with np.errstate(over="ignore"):
        sums = block @ np.ones(block.shape[1], dtype=block.dtype)
    if normalize and low >= 0:
        if np.all(sums > 0):
            return
        raise InputError(name, f"has no mass in row {start + int(np.argmin(sums > 0))}: it is all zeros")
    off = np.abs(sums - 1) > tolerance
    beyond = (block.min(axis=1) < 0) | (block.max(axis=1) > 1)
    row = int(np.argmax(off | beyond))
    values = f"values from {low:.4g} to {high:.4g}"
    if high <= 0 and np.allclose(np.exp(block.astype(np.float64)).sum(axis=1), 1, atol=1e-3):
        raise InputError(
            name,
            f"looks like log-probabilities ({values})",
            remedy="calibrate with from_logits=True, or pass np.exp(probs)",
            spoken="give --logits to nacp calibrate",
        )
    if low >= 0 and np.allclose(sums, 100, rtol=0.01):
        raise InputError(
            name,
            f"looks like percentages (row {start + row} sums to {sums[row]:.6g})",
            remedy="pass probs / 100, or normalize=True to divide by the row sums",
            spoken="nacp calibrate --normalize divides by the row sums",
        )
    if low < -tolerance and np.mean(off | beyond) > _MOST:
        raise InputError(
            name,
            f"looks like logits ({values}, row {start + row} sums to {sums[row]:.4g})",
            remedy="calibrate with from_logits=True if they are, or pass their softmax",
            spoken="give --logits to nacp calibrate if they are",
        )
    if low < 0 or not off.any():
        row = int(np.argmax(beyond))
        slight = -tolerance <= low and high <= 1 + tolerance
        raise InputError(
            name,
            "must lie between 0 and 1",
            found=f"values from {block[row].min():.8g} to {block[row].max():.8g} in row {start + row}",
            remedy="pass np.clip(probs, 0, 1) if that is rounding"
            if slight
            else "drop or repair such rows first",
            spoken="put it at the nearer end if that is rounding" if slight else None,
        )
    logits = int(high > 1)
    raise InputError(
        name,
        f"must have rows that sum to 1; row {start + row} sums to {sums[row]:.6g}",
        remedy="pass normalize=True to divide by the row sums" + ", from_logits=True for logits" * logits,
        spoken="nacp calibrate --normalize divides by the row sums" + ", --logits is for logits" * logits,
    )


def first_nan(block: Array) -> int:
    """Return the first row that holds NaN."""
    return int(np.argmax(np.isnan(block).any(axis=1)))
