"""The compiled engine: the verbs of the NumPy engine, with the same bits, at about the speed of memory.

C finds the labels near a threshold without sorting a row, and asks for sorted rows if it needs many of them,
as NumPy's sort is faster then. A ranked formula is passed to C as codes. If it is a Python function or uses
operations whose rounding is not specified, NumPy does the whole verb. Other scores that C cannot compute are
passed to it as entries.
"""

from functools import lru_cache, partial
from typing import Any

import numpy as np

from nacp._types import Array, Floats, Ints
from nacp.engine import _native, numpy
from nacp.engine.codes import codes_of_formula
from nacp.engine.formula import Expression
from nacp.engine.hashing import hash_plan
from nacp.engine.numpy import scores
from nacp.engine.ranks import falling_scores, sort_rows
from nacp.engine.spec import ENTRIES, Spec

__all__ = ["NAME", "bet", "check", "label_scores", "scores", "sets", "shares", "tally", "uniforms"]

NAME = "native"
_plain = partial(np.require, requirements=("C", "A"))
_WIDTHS = (np.dtype(np.float32), np.dtype(np.float64))
_Score = tuple[int, Array | None, Floats | None, Ints | None, Array | None]
_PLAIN: dict[str, _Score] = {
    "hps": (0, None, None, None, None),
    "entries": (1, None, None, None, None),
}


def _rows(values: Array) -> Array:
    """Return contiguous, aligned rows of float32 or float64."""
    flags = values.flags
    if values.dtype in _WIDTHS and flags.c_contiguous and flags.aligned:
        return values
    return np.require(values, values.dtype if values.dtype in _WIDTHS else np.float64, ["C", "A"])


@lru_cache(maxsize=64)
def _ranked(formula: Expression, seed: int | None, k: int) -> _Score | None:
    """Return a ranked score of rows of k labels as C takes it; None if only NumPy can compute it."""
    codes = codes_of_formula(formula)
    if codes is None:
        return None
    return (2, *codes, *((None, None) if seed is None else hash_plan(k, seed % (1 << 64))))


def _described(values: Array, spec: Spec) -> tuple[Array, _Score | None]:
    """Return rows and a score as C takes them; the score is None if NumPy must do the verb."""
    if spec.kernel == "ranked":
        known = isinstance(spec.formula, Expression)
        return _rows(values), _ranked(spec.formula, spec.seed, values.shape[1]) if known else None
    if spec.kernel not in _PLAIN:  # NumPy computes the scores, and C takes them as entries.
        values, spec = scores(values, spec), ENTRIES
    return _rows(values), _PLAIN[spec.kernel]


def _called(verb: Any, rows: Array, placed: bool, *arguments: Any) -> Any:
    """Call C with the rows, and with the sorted rows as well if it returns None: then it needs these."""
    try:
        found = verb(rows, None, *arguments)
        return verb(rows, sort_rows(rows, placed), *arguments) if found is None else found
    except ArithmeticError:
        raise falling_scores() from None


def check(values: Array, tolerance: float) -> bool:
    """Return whether all rows are probabilities: entries in [0, 1] that sum to 1."""
    return _native.check(_rows(values), tolerance)


def uniforms(values: Array, seed: int) -> Floats:
    """Return one u in [0, 1) per row."""
    out = np.empty(len(values))
    _native.uniforms(_rows(values), *hash_plan(values.shape[1], int(seed) % (1 << 64)), out)
    return out


def label_scores(values: Array, spec: Spec, labels: Ints) -> Floats:
    """Return the native score of one given label per row."""
    rows, score = _described(values, spec)
    if score is None:
        return numpy.label_scores(values, spec, labels)
    out = np.empty(len(rows))
    _native.label_scores(rows, score, _plain(labels), out)
    return out


def tally(
    values: Array, spec: Spec, which: Ints | None = None, table: Ints | None = None
) -> tuple[int, Ints]:
    """Count pairs by cell: see `nacp.engine.numpy.tally`."""
    rows, score = _described(values, spec)
    if score is None:
        return numpy.tally(values, spec, which, table)
    which = None if which is None else _plain(which)
    first, counts = _called(_native.tally, rows, table is not None, score, which, table)
    return first, np.frombuffer(counts, dtype=np.int64).reshape(1 if table is None else 3, -1)


def shares(
    values: Array,
    spec: Spec,
    cells: Ints,
    own: Floats,
    label_cells: Ints,
    scale: float,
    which: Ints | None = None,
    table: Ints | None = None,
) -> Floats:
    """Return each row's share at several thresholds: see `nacp.engine.numpy.shares`."""
    rows, score = _described(values, spec)
    if score is None:
        return numpy.shares(values, spec, cells, own, label_cells, scale, which, table)
    out = np.empty((len(rows), len(cells)))
    if out.size:
        low, high = map(float, spec.thresholds[cells[[0, -1]]])
        given = _plain(own), _plain(label_cells), scale
        which = None if which is None else _plain(which)
        arguments = score, (cells, low, high), given, which, table, out
        _called(_native.shares, rows, table is not None, *arguments)
    return out


def sets(values: Array, spec: Spec, thresholds: Floats, allow_empty: bool = True) -> tuple[Ints, Array]:
    """Return the sizes of the sets, and their labels row by row: see `nacp.engine.numpy.sets`."""
    by_label = spec.kernel == "ranked" and thresholds.shape[1] > 1
    rows, score = _described(values, spec)
    if score is None or by_label:
        return numpy.sets(values, spec, thresholds, allow_empty)
    sizes = np.empty(len(rows), dtype=np.int64)
    arguments = score, _plain(thresholds), allow_empty, sizes
    labels = _called(_native.sets, rows, False, *arguments)
    return sizes, np.frombuffer(labels, dtype=np.int32)


def bet(
    state: Floats,
    most: Floats,
    outcome: Ints,
    shares: Floats,
    target: float,
    width: float,
    seen: int,
    stops: Ints,
    changes: Ints,
    delta: float,
    hedges: tuple[Floats, Floats],
) -> None:
    """Bet on some points, one after the other: see `nacp.stats.betting.play`."""
    bets = state, most, outcome
    _native.play(bets, _plain(shares), (target, width), seen, (stops, changes), delta, hedges)
