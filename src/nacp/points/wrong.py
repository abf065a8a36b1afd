"""The check of all rows, and what is wrong with them if they are not probabilities, or not logits."""

from typing import Any

import numpy as np

from nacp._types import Array, Bools, Floats
from nacp.engine import check
from nacp.errors import InputError
from nacp.points.arrays import Rows, block_rows
from nacp.points.tensors import extremes

# By how much the sum of a row may miss 1, by how precise its numbers are. A softmax in bfloat16 rounds its
# sum and its quotients, each by at most 2^-8 of itself. In float16 small numbers round by up to 2^-25 each.
SUM_TOLERANCE, _BFLOAT16_TOLERANCE, _FLOAT16_TOLERANCE, _SMALL = 1e-3, 2.0**-7, 1e-2, 2.0**-25
_CLOSE = 1e-6  # so close to a bound, the engine decides: it may round in another way than NumPy does here
_MOST = 0.9  # of the rows


def check_rows(
    rows: Rows, probabilities: bool, normalize: bool, from_logits: bool, start: int, name: str
) -> None:
    """Refuse rows that are not probabilities, or logits, or scores; messages number them from `start`."""

    def is_good(block: Any) -> bool:
        if probabilities and not normalize and not from_logits:
            return check(block, SUM_TOLERANCE)
        low, high = extremes(block)
        if from_logits:
            return bool(np.isfinite(high).all())
        if not probabilities:
            return not np.isnan(high).any()
        return bool(((low >= 0) & (high > 0) & (high < np.inf)).all())

    # What is said about a row depends on the rows around it, so these must not depend on the size of blocks.
    step = block_rows(rows.k)
    for where, good in rows.map(lambda block, where: (where, is_good(block))):
        for first in () if good else range(where.start - where.start % step, where.stop, step):
            block = rows.whole(slice(first, first + step))
            if from_logits:
                _explain_logits(block, start + first, name)
            elif probabilities:
                _explain(block, start + first, normalize, name)
            else:
                what = "(scores, given in place of probabilities) holds NaN"
                _refuse_any(np.isnan(block), start + first, name, what, remedy=None)
    if from_logits and rows.n and all(_are_probable(rows.whole(each)) for each in rows.slices()):
        raise InputError(
            name,
            "must hold logits",
            found="probabilities: no value is negative, and rows sum to 1",
            remedy="pass logits, or calibrate without from_logits",
            spoken="give logits, or calibrate without --logits",
        )


def _refuse_any(
    bad: Bools, start: int, name: str, what: str, remedy: str | None = "drop or repair such rows first"
) -> None:
    """Refuse entries, naming the first row that has one."""
    if bad.any():
        raise InputError(name, f"{what}, first in row {start + int(bad.any(axis=1).argmax())}", remedy=remedy)


def _explain_logits(block: Array, start: int, name: str) -> None:
    """Refuse logits of which the softmax does not exist."""
    highest = block.max(axis=1, keepdims=True)
    odd = highest[~np.isfinite(highest)]
    if odd.size:
        what = "NaN" if np.isnan(odd[0]) else "infinity" if odd[0] > 0 else "no finite logit"
        _refuse_any(~np.isfinite(highest), start, name, f"holds {what}")


def _are_probable(block: Array) -> bool:
    """Return whether all rows are probabilities."""
    return bool(block.min() >= 0) and (check(block, SUM_TOLERANCE) or not _faults(block)[0].any())


def _tolerances(block: Array) -> Floats:
    """Return by how much the sum of each row may miss 1: more if its numbers were rounded to 16 bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        half = (block.astype(np.float16) == block).all(axis=1)
        single = block.astype(np.float32, copy=False)
        rounded = ((single == block) & (single.view(np.uint32) & 0xFFFF == 0)).all(axis=1)
    found = np.where(rounded, _BFLOAT16_TOLERANCE, SUM_TOLERANCE)
    return np.where(half, _FLOAT16_TOLERANCE + _SMALL * block.shape[1], found)


def _faults(block: Array) -> tuple[Bools, Bools, Floats]:
    """Return which rows are not probabilities, which of them for an entry beyond 0 or 1, and all sums."""
    low, high, tolerances = block.min(axis=1), block.max(axis=1), np.full(len(block), SUM_TOLERANCE)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = block.sum(axis=1, dtype=np.float64)
        misses = np.abs(sums - 1)
        loose = misses > SUM_TOLERANCE - _CLOSE
        tolerances[loose] = _tolerances(block[loose])
        bad = (misses > tolerances) | (low < 0) | (high > 1)
        close = (np.abs(misses - tolerances) <= _CLOSE) | ((high > 1) & (high <= 1 + _CLOSE))
    for i in np.flatnonzero(close & (low >= 0)):
        bad[i] = not check(block[i : i + 1], float(tolerances[i]))
    return bad, bad & ((low < 0) | (high > 1)), sums


def _explain(block: Array, start: int, normalize: bool, name: str) -> None:
    """Refuse rows that are not probabilities, and cannot be normalised if that is wanted."""
    _refuse_any(np.isnan(block), start, name, "holds NaN")
    _refuse_any(np.isposinf(block), start, name, "holds infinity")
    low, high = block.min(), block.max()
    if normalize and low >= 0:
        empty = block.max(axis=1) == 0
        if empty.any():
            raise InputError(name, f"has no mass in row {start + int(empty.argmax())}: it is all zeros")
        return
    bad, beyond, sums = _faults(block)
    if not bad.any():
        return
    row, values = int(bad.argmax()), f"values from {low:.4g} to {high:.4g}"
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
    if low < -SUM_TOLERANCE and bad.mean() > _MOST:
        raise InputError(
            name,
            f"looks like logits ({values}, row {start + row} sums to {sums[row]:.4g})",
            remedy="calibrate with from_logits=True if they are, or pass their softmax",
            spoken="give --logits to nacp calibrate if they are",
        )
    if low < 0 or not np.any(bad & ((np.abs(sums - 1) > SUM_TOLERANCE) | ~beyond)):
        row = int(beyond.argmax())
        slight = low >= -SUM_TOLERANCE and high <= 1 + SUM_TOLERANCE
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
